//! What an entry holds, by its name and its beginning: records to read, or nothing of the kind. Twenty lines decide, so
//! that an odd first line costs itself alone, as in a file.

use super::{is_tar, is_zip};
use crate::error::{IgnoredCode, Reject};
use crate::ingest::binary::{known_kind, refusal};
use crate::ingest::compressed::{Compression, compression};
use crate::ingest::frame::{Framing, HEAD, LOOKED_AT, Structure, bom, framing, head_records, is_space};
use crate::ingest::names::is_recording;

/// What is done with an entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Contents {
    Records(Framing),
    /// One rejected record.
    Refused(Reject),
    Ignored(IgnoredCode),
}

/// What an entry is that begins with `head`, which may be the `whole` of it, and whether that is clear.
pub(super) fn contents(name: &str, head: &[u8], is_whole: bool) -> (Contents, bool) {
    let hidden = is_hidden(name);
    let or_hidden = |code| Contents::Ignored(if hidden { IgnoredCode::ArchiveHidden } else { code });
    if compression(head) != Compression::None || is_zip(head) || is_tar(head) {
        return (or_hidden(IgnoredCode::ArchiveNested), true);
    }
    let Some(start) = head[bom(head)..].iter().position(|b| !is_space(*b)) else {
        return (Contents::Ignored(IgnoredCode::ArchiveEmpty), is_whole);
    };
    if let Some(reject) = known_kind(head).filter(|_| !hidden) {
        return (Contents::Refused(reject), true);
    }
    let (framing, clear) = framing(head, is_whole);
    let records = head_records(head, framing);
    let has_records = records.iter().enumerate().any(|(at, record)| {
        let open = at + 1 == records.len() && !is_whole;
        begins_like_json(record) && (at == 0 || open || Structure::default().value_end(record).is_some())
    });
    if !has_records && (hidden || !is_recording(name)) {
        let enough = is_whole || records.len() == LOOKED_AT || head.len() - start > HEAD;
        return (or_hidden(IgnoredCode::ArchiveNotJson), enough);
    }
    match refusal(head, has_records) {
        Some(reject) => (Contents::Refused(reject), true),
        None => (Contents::Records(framing), clear),
    }
}

/// Whether a record begins like an object with keys, or like an array of objects, arrays or texts.
fn begins_like_json(record: &[u8]) -> bool {
    let mut bytes = record.iter().copied().filter(|b| !is_space(*b));
    match (bytes.next(), bytes.next()) {
        (Some(b'{'), next) => matches!(next, None | Some(b'"' | b'}')),
        (Some(b'['), next) => matches!(next, None | Some(b'{' | b'[' | b'"' | b']')),
        _ => false,
    }
}

/// Whether a folder would hide the entry; macOS puts what describes its files into a folder of that name.
fn is_hidden(name: &str) -> bool {
    let hides = |part: &str| part == "__MACOSX" || part.starts_with('.') && !matches!(part, "." | "..");
    name.split('/').any(hides)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: &str = "{\"a\": 1}\n{\"a\": 2}\n";

    fn verdict_on(name: &str, text: &[u8]) -> String {
        match contents(name, text, true) {
            (Contents::Records(framing), _) => format!("{framing:?}"),
            (Contents::Refused(reject), _) => reject.message,
            (Contents::Ignored(code), _) => code.as_str().to_owned(),
        }
    }

    #[test]
    fn an_odd_first_line_decides_nothing() {
        for first in [
            "INFO start",
            "null",
            "\"x\"",
            "# x",
            "\0",
            "\x1e",
            "%",
            "<",
            "-",
            "[",
            "[1,",
            "\u{feff}",
            "x\n\ny",
        ] {
            for name in ["a.jsonl", "a.log", "a"] {
                assert_eq!(verdict_on(name, format!("{first}\n{RECORDS}").as_bytes()), "Line", "{first}");
            }
        }
        assert_eq!(verdict_on("a", b"\n\n {\n  \"a\": 1\n}\n"), "Document");
        assert_eq!(verdict_on("a", b"[{\"a\": 1},\n{}]"), "Array");
    }

    #[test]
    fn what_shows_no_record_is_left_out_unless_its_name_is_that_of_recordings() {
        for (text, hidden) in [
            ("# Title\n\n[a](b)\n[{\n{% x %}\n{'a': 1}\n", false),
            ("[![build](x)](y)\n# Title\n", false),
            ("#include <a>\nint main()\n{\n  return 0;\n}\n", false),
            ("\u{89}PNG\r\n\x1a\n\0\0\0\rIHDR", true),
        ] {
            assert_eq!(verdict_on("folder.json/README", text.as_bytes()), "archive.not_json", "{text}");
            assert_eq!(verdict_on("./.git/a.json", text.as_bytes()), "archive.hidden", "{text}");
            let named = verdict_on("./a.json.gz", text.as_bytes());
            assert_eq!(named.starts_with("found a binary file"), hidden, "{named}");
        }
        assert_eq!(verdict_on("a.json", b"\xEF\xBB\xBF \n"), "archive.empty");
        assert!(verdict_on("a.txt", b"PAR1\x15\0").contains("a Parquet file"), "it may hold recordings");
        assert_eq!(verdict_on(".cache/a.txt", b"PAR1\x15\0"), "archive.hidden");
        assert_eq!(
            (verdict_on("a", b"PK\x03\x04"), verdict_on(".a", b"PK\x03\x04").as_str()),
            ("archive.nested".into(), "archive.hidden")
        );
    }

    #[test]
    fn what_is_not_seen_yet_is_not_decided() {
        let blanks = vec![b' '; HEAD];
        assert_eq!(contents("a", &blanks, false), (Contents::Ignored(IgnoredCode::ArchiveEmpty), false));
        let late = [&blanks[..], b"INFO st"].concat();
        assert!(!contents("a", &late, false).1);
        let cut = [&blanks[..], b"INFO start\n{\"a\": [1, 2"].concat();
        assert_eq!(contents("a", &cut, false), (Contents::Records(Framing::Line), true));
        let words = b"word ".repeat(HEAD / 5 + 2);
        assert!(contents("a", &words, false).1, "a mebibyte of text");
    }
}
