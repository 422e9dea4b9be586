//! Binary inputs, detected by their first bytes, and advice on converting them.

use crate::error::{Reject, RejectCode};

/// Bytes that are looked at.
const LOOKED_AT: usize = 8 << 10;

/// Its byte order marks.
const UTF_16: [&[u8]; 2] = [b"\xff\xfe", b"\xfe\xff"];

/// What files begin with, what they are, and how their content becomes something that can be read.
const KINDS: &[(&[u8], &str, &str)] = &[
    (
        b"PAR1",
        "a Parquet file",
        "name the file itself, since its rows are read from the end of it on; in a stream or an archive it has none",
    ),
    (b"ARROW1", "an Arrow file", "name the file itself; in a stream or an archive its rows are not read"),
    (b"SQLite format 3", "an SQLite database", "write its records as JSON lines and read those"),
    (UTF_16[0], "text in UTF-16", "save it as UTF-8"),
    (UTF_16[1], "text in UTF-16", "save it as UTF-8"),
    (b"BZh", "compressed by bzip2", "unpack it, or repack it as gzip, zstd, ZIP or tar"),
    (b"\xfd7zXZ", "compressed by xz", "unpack it, or repack it as gzip, zstd, ZIP or tar"),
    (b"7z\xbc\xaf", "a 7z archive", "unpack it, or repack it as ZIP or tar"),
    (b"\x04\x22\x4d\x18", "compressed by LZ4", "unpack it, or repack it as gzip, zstd, ZIP or tar"),
];

/// Why an input that begins with `head` is one rejected record as a whole, if it is: it is binary and of a kind that
/// is known, or no importer recognizes it (`recognized`). A record with a byte that no text has costs itself alone in
/// an input that has others.
pub(super) fn refusal(head: &[u8], recognized: bool) -> Option<Reject> {
    let binary = || rejected("found a binary file, expected recordings as JSON".to_owned());
    known_kind(head).or_else(|| (has_zero(head) && !recognized).then(binary))
}

/// The same of a kind that is known, which may hold recordings.
pub(super) fn known_kind(head: &[u8]) -> Option<Reject> {
    let start = &head[..head.len().min(LOOKED_AT)];
    if !has_zero(head) && is_utf8(start) {
        return None;
    }
    let is = |magic: &[u8]| start.starts_with(magic) && (!UTF_16.contains(&magic) || is_wide(start));
    let (_, what, instead) = KINDS.iter().find(|(magic, ..)| is(magic))?;
    Some(rejected(format!("found {what}, expected recordings as JSON: {instead}")))
}

fn rejected(message: String) -> Reject {
    Reject::new(RejectCode::FormatUnknown, "", message)
}

/// Whether the beginning has a byte that no text has.
fn has_zero(head: &[u8]) -> bool {
    memchr::memchr(0, &head[..head.len().min(LOOKED_AT)]).is_some()
}

/// Whether bytes are text of units of two bytes: where it is mostly ASCII, as JSON is, every other one is 0. A byte order
/// mark before a line of UTF-8 is one damaged line.
fn is_wide(start: &[u8]) -> bool {
    memchr::memchr_iter(0, start).count() >= start.len() / 4
}

/// Whether bytes are text that may be cut inside of its last character.
fn is_utf8(start: &[u8]) -> bool {
    simdutf8::compat::from_utf8(start).err().is_none_or(|e| e.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::importers::testing::{column, read_bytes};
    use crate::importers::{IMPORTERS, unknown};
    use crate::ingest::ReadOptions;

    fn message_of(head: &[u8], recognized: bool) -> String {
        refusal(head, recognized).map(|reject| reject.message).unwrap_or_default()
    }

    #[test]
    fn binary_files_are_told_from_text() {
        assert!(
            message_of(b"PAR1\x15\x04\x15\0", false)
                .starts_with("found a Parquet file, expected recordings as JSON: ")
        );
        assert!(
            message_of(b"PAR1\x15\x04\x15\0", true).contains("name the file itself"),
            "with a format that is named"
        );
        assert_eq!(message_of(b"PAR1 is how they begin\n{}", false), "");
        assert!(message_of(b"\xff\xfe{\0}\0", false).contains("UTF-16"));
        assert_eq!(message_of(b"\xff\xfe{\"a\": 1}\n{}", false), "", "a damaged line of many");
        assert!(message_of(b"BZh91AY&SY\xfc", false).contains("bzip2"));
        assert!(message_of(b"\x7fELF\x02\x01\x01\0", false).starts_with("found a binary file"));
        assert_eq!(message_of(b"{\"a\": \"\0\"}\n{}", true), "", "one record of many");
        assert_eq!(message_of("{\"a\": \"\u{e4}\"}".as_bytes(), false), "");
        let longest = KINDS
            .iter()
            .map(|(magic, ..)| message_of(&[magic, b"\0".as_slice()].concat(), false).len())
            .max();
        assert!(longest < Some(400), "messages are cut beyond that");
    }

    #[test]
    fn a_binary_file_is_one_record_however_it_is_read() {
        let bytes = [b"PAR1\x15\0".as_slice(), b"noise\n".repeat(30).as_slice(), b"PAR1"].concat();
        for format in [unknown(), IMPORTERS[0]] {
            let store = read_bytes(format, &[("a.parquet", &bytes)], &ReadOptions::default(), 2);
            assert_eq!((store.n_traces(), store.records_read(), store.records_quarantined()), (0, 1, 1));
            assert_eq!(column(&store, "quarantine", "code"), ["format.unknown"]);
            assert_eq!(column(&store, "quarantine", "importer"), [format.info().name]);
        }
    }
}
