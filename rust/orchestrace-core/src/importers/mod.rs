//! Formats. One file and one entry in [`IMPORTERS`] add one.

use crate::error::{Error, Reject, Result, unknown_name};
use crate::ingest::json::{Cursor, Kind, Limits, Parsed};
use crate::ingest::writer::TraceWriter;

mod native;
pub mod recording;
mod who_and_when;

pub use native::Native;
pub use who_and_when::WhoAndWhen;

/// All formats, the one that is assumed without evidence first.
pub static IMPORTERS: &[&dyn Importer] = &[&Native, &WhoAndWhen];

/// How sure an importer is that a record is its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Nothing speaks for it.
    No,
    /// Some of the evidence is there.
    Maybe,
    /// All of the evidence is there.
    Yes,
}

/// What is known of a format.
#[derive(Debug)]
pub struct ImporterInfo {
    /// Name, as `format=` and `traces.importer` spell it.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Keys of the outermost object that give the format away.
    pub evidence: &'static [&'static str],
    /// Usual file names.
    pub suffixes: &'static [&'static str],
    /// Whether invalid text is replaced, with a finding, rather than rejected.
    pub lenient: bool,
}

/// One record of an input.
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    /// Its text.
    pub text: &'a str,
    /// Name of its file without folders and extensions; empty for streams.
    pub stem: &'a str,
    /// Whether bytes of it were replaced to make it UTF-8.
    pub replaced: bool,
}

/// A format whose record is a whole trace.
pub trait Importer: Sync {
    /// What is known of it.
    fn info(&self) -> &'static ImporterInfo;

    /// Whether a record whose outermost object begins with these keys is of this format.
    fn sniff(&self, keys: &[&str]) -> Confidence;

    /// Reads one record into one trace.
    fn record(&self, record: &Record<'_>, out: &mut TraceWriter<'_>) -> std::result::Result<(), Reject>;
}

/// The importer of a name.
pub fn find(name: &str) -> Result<&'static dyn Importer> {
    IMPORTERS.iter().find(|i| i.info().name == name).copied().ok_or_else(|| {
        let known: Vec<&str> =
            std::iter::once("auto").chain(IMPORTERS.iter().map(|i| i.info().name)).collect();
        Error::Parameter(unknown_name("format", name, &known))
    })
}

/// The format of the first records of an input: the first of up to twenty that an importer is sure of,
/// else the native one, whose rejects then say what is wrong.
#[must_use]
pub fn detect<'a>(records: impl Iterator<Item = &'a [u8]>) -> &'static dyn Importer {
    for record in records.take(20) {
        let text = String::from_utf8_lossy(record);
        let keys = outer_keys(&text);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        if let Some(importer) = IMPORTERS.iter().find(|i| i.sniff(&keys) == Confidence::Yes) {
            return *importer;
        }
    }
    IMPORTERS[0]
}

/// Keys of the outermost object, as far as the text goes.
pub(crate) fn outer_keys(text: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut cursor = Cursor::new(text, Limits { depth: 128, string: usize::MAX, lenient: true });
    let mut scratch = String::new();
    let mut read = || -> Parsed<()> {
        cursor.ws();
        if cursor.kind()? != Kind::Object {
            return Ok(());
        }
        let mut more = cursor.open_object()?;
        while more {
            keys.push(cursor.key()?.text(&mut scratch).to_owned());
            cursor.skip()?;
            more = cursor.more_object()?;
        }
        Ok(())
    };
    // A record that is cut or broken still shows the keys before the break.
    let _broken = read();
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        for importer in IMPORTERS {
            assert_eq!(find(importer.info().name).unwrap().info().name, importer.info().name);
        }
        let error = find("nativ").err().unwrap().to_string();
        assert!(error.contains("did you mean 'native'"), "{error}");
    }

    #[test]
    fn formats_are_told_by_their_keys() {
        let native: &[u8] =
            br#"{"trace_id":"a","task_id":"b","events":[],"edges":[],"rewards":{},"costs":{}}"#;
        let labelled: &[u8] = br#"{"history":[],"question":"","mistake_agent":"x"}"#;
        assert_eq!(detect([labelled].into_iter()).info().name, "who_and_when");
        assert_eq!(detect([b"noise".as_slice(), native].into_iter()).info().name, "native");
        assert_eq!(detect([b"noise".as_slice()].into_iter()).info().name, "native");
    }
}
