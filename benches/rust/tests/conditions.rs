//! Which of the conditions on a parser each reader meets, shown on documents: `benches/README.md` has the table.

use orchestrace_benches::corpus::PADDING;
use orchestrace_benches::{Columns, Refusal, readers};

const CURSORS: [&str; 2] = ["orchestrace Cursor, keys guessed", "orchestrace Cursor"];
const JITER: &str = "jiter";
const SONIC_LAZY: &str = "sonic-rs, lazy";
const SONIC: &str = "sonic-rs, streaming";
const SIMD_JSON: &str = "simd-json, tape";
const SERDE_JSON: &str = "serde_json, streaming";

type Outcome = (&'static str, Result<(), Box<Refusal>>);

/// What every reader says to one document.
fn outcomes(document: &[u8]) -> Vec<Outcome> {
    let outcome = |mut reader: Box<dyn orchestrace_benches::Reader>| {
        let mut bytes = document.to_vec();
        bytes.resize(document.len() + PADDING, b' ');
        (reader.name(), reader.document(&mut bytes, document.len(), &mut Columns::default()))
    };
    readers().into_iter().map(outcome).collect()
}

fn accepting(document: &[u8]) -> Vec<&'static str> {
    outcomes(document).into_iter().filter(|(_, outcome)| outcome.is_ok()).map(|(name, _)| name).collect()
}

const HEAD: &str = r#"{"trace_id":"a","events":[{"id":"e1","t":0,"type":"message","agent":"x","x_note":"#;

/// A trace whose only event has `value` under a key that no column takes.
fn skipped(value: &[u8]) -> Vec<u8> {
    [HEAD.as_bytes(), value, br#"}],"edges":[]}"#].concat()
}

/// The same, `value` being arrays within arrays that reach to level `depth` of the document.
fn nested(depth: usize) -> Vec<u8> {
    let levels = depth - 3;
    skipped(&[b"[".repeat(levels), b"]".repeat(levels)].concat())
}

const BAD_NUMBERS: [&[u8]; 9] =
    [b"01", b"1.", b"-", b"1e", b"+1", b".5", b"1.2.3", b"1e5e5", b"{\"a\":[1.]}"];
const BAD_STRUCTURE: [&[u8]; 8] =
    [b"tru", b"NaN", b"{\"a\" 1}", b"[1,]", b"[1 2]", b"{\"a\":1,}", b"{a:1}", b"[1}"];
const BAD_STRINGS: [&[u8]; 3] = [b"\"a\xff\"", b"\"a\x01\"", b"\"\\x\""];
/// Escapes of four digits that name no character.
const BAD_ESCAPES: [&[u8]; 2] = [b"\"\\ud800\"", b"\"\\udc00x\""];
const NO_DIGITS: &[u8] = b"\"\\u12g4\"";

#[test]
fn what_is_well_formed_is_accepted_by_all() {
    for value in [&b"\"\\ud83e\\udd16 \\n\xc3\xa9\""[..], b"[-0,1E+2,0.5e-3,{},[],{\"a\":null}]", b"true"] {
        assert_eq!(accepting(&skipped(value)).len(), 7, "{}", String::from_utf8_lossy(value));
    }
}

#[test]
fn what_is_skipped_is_judged() {
    for value in BAD_NUMBERS.iter().chain(&BAD_STRUCTURE).chain(&BAD_STRINGS) {
        assert!(accepting(&skipped(value)).is_empty(), "{}", String::from_utf8_lossy(value));
    }
}

#[test]
fn escapes_that_are_skipped_are_not_judged_by_all() {
    for value in BAD_ESCAPES {
        assert_eq!(accepting(&skipped(value)), [SONIC_LAZY, SONIC, SERDE_JSON]);
    }
    assert_eq!(accepting(&skipped(NO_DIGITS)), [SONIC_LAZY, SONIC]);
}

#[test]
fn only_some_have_a_limit_of_depth() {
    // Two of them recurse, and so end a process whose stack is of the usual size.
    let check = || {
        assert_eq!(accepting(&nested(128)).len(), 7);
        let free = [SONIC_LAZY, SONIC, SERDE_JSON];
        assert_eq!(accepting(&nested(129)), [&[JITER], &free[..]].concat());
        // a constant of 200, counted from where the skip begins
        assert_eq!(accepting(&nested(205)), free);
        assert_eq!(accepting(&nested(20_000)), free);
    };
    let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(check);
    assert!(thread.is_ok_and(|thread| thread.join().is_ok()));
}

#[test]
fn a_refusal_names_a_byte() {
    for value in BAD_NUMBERS.iter().chain(&BAD_STRUCTURE).chain(&BAD_STRINGS).chain(&BAD_ESCAPES) {
        for (name, outcome) in outcomes(&skipped(value)) {
            let Err(refusal) = outcome else { continue };
            // `simd-json` unescapes and judges UTF-8 in passes that do not tell where
            if name == SIMD_JSON && value.starts_with(b"\"") {
                assert_eq!(refusal.at, None, "{}", refusal.message);
                continue;
            }
            // the byte itself, or the one where the value turned out not to go on
            let within = HEAD.len()..=HEAD.len() + value.len();
            assert!(refusal.at.is_some_and(|at| within.contains(&at)), "{name}: {refusal:?}");
        }
    }
}

#[test]
fn nothing_may_follow_a_document() {
    let document = br#"{"trace_id":"a","events":[],"edges":[]}"#;
    assert_eq!(accepting(document).len(), 7);
    assert_eq!(accepting(&[document, &b"x"[..]].concat()), [SONIC_LAZY]);
    assert!(accepting(&document[..document.len() - 1]).is_empty());
}

#[test]
fn numbers_beyond_the_range_are_refused_where_they_are_read() {
    let read = br#"{"trace_id":"a","events":[{"id":"e","t":1e400}],"edges":[]}"#;
    assert_eq!(accepting(read), [JITER], "which gives infinity, for its caller to refuse");
    let free = [&CURSORS[..], &[JITER, SONIC_LAZY, SONIC, SERDE_JSON]].concat();
    assert_eq!(accepting(&skipped(b"1e400")), free, "well-formed, and nobody asked for its value");
}
