//! What libFuzzer searches against, by name. One entry adds a target; a format that is registered has one.

use super::{formats, streams, syntax, tables};

/// A property of any bytes.
pub type Property = fn(&[u8]);

/// Targets that are not of one format.
pub const PROPERTIES: &[(&str, Property)] = &[
    ("auto", |bytes| formats::records_are_settled("auto", bytes)),
    ("chunk_boundary", streams::tables_do_not_depend_on_the_cut),
    ("decompression", |bytes| {
        streams::decompression_ends_within_its_limits(bytes);
        streams::damaged_streams_end_within_their_limits(bytes);
    }),
    ("from_arrow", tables::changed_tables_are_judged),
    ("json", |bytes| {
        if let Ok(text) = std::str::from_utf8(bytes) {
            syntax::syntax_is_that_of_serde_json(text);
        }
    }),
    ("mapping_file", formats::mappings_are_judged),
    ("tar", |bytes| streams::archives_end_within_their_limits(b"", bytes)),
    ("zip", |bytes| streams::archives_end_within_their_limits(b"PK", bytes)),
];

/// Names of all targets: `import_` and the format for each importer, then the others.
pub fn names() -> Vec<String> {
    let importers = formats::formats().into_iter().map(|format| format!("{IMPORT}{format}"));
    importers.chain(PROPERTIES.iter().map(|(name, _)| (*name).to_owned())).collect()
}

const IMPORT: &str = "import_";

/// Asks the target of a name; whether there is one.
pub fn ask(target: &str, bytes: &[u8]) -> bool {
    if let Some((_, property)) = PROPERTIES.iter().find(|(name, _)| *name == target) {
        property(bytes);
        return true;
    }
    let format = target.strip_prefix(IMPORT).filter(|format| formats::formats().contains(format));
    if let Some(format) = format {
        formats::records_are_settled(format, bytes);
    }
    format.is_some()
}
