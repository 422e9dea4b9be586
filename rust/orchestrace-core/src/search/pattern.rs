//! A pattern, and its matches in records. Linear in the bytes that are looked at: the engine of regular expressions never
//! goes back.

use std::ops::Range;

use memchr::memchr;
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Hir, HirKind};

use super::required::required;
use super::sieve::{Candidates, Sieve};
use super::text::Text;
use crate::error::{Error, Result};

/// A regular expression, or a text, that is searched for in the texts of records.
#[derive(Debug)]
pub struct Pattern {
    regex: Regex,
    sieve: Option<Sieve>,
    /// Whether it is one text without characters that have short escapes.
    is_plain: bool,
}

/// One match.
#[derive(Debug)]
pub(crate) struct Match<'a> {
    /// The text that it is in.
    pub text: &'a [u8],
    /// Its place there, and in the bytes of the record.
    pub at: Range<usize>,
    pub place: Range<usize>,
}

/// An escape has at most so many bytes before its last one.
const ESCAPE: usize = 5;

impl Pattern {
    /// A pattern in the syntax of the crate `regex`; `fixed` takes it as a text. `^` and `$` match at lines of a text. One
    /// that matches the empty text is refused, since it matches everywhere.
    pub fn new(pattern: &str, fixed: bool, ignore_case: bool) -> Result<Self> {
        let spelled = if fixed { regex::escape(pattern) } else { pattern.to_owned() };
        let refused = |cause: String, hint: &str| {
            Error::Parameter(format!("pattern is {pattern:?}, expected {hint}: {cause}"))
        };
        let hint = "a regular expression (fixed=True, -F, searches for the text itself)";
        let hir = ParserBuilder::new()
            .case_insensitive(ignore_case)
            .multi_line(true)
            .utf8(false)
            .build()
            .parse(&spelled)
            .map_err(|e| refused(reason(&e), hint))?;
        if hir.properties().minimum_len() == Some(0) {
            return Err(refused("it matches the empty text".into(), "one that needs a character"));
        }
        let regex = RegexBuilder::new(&spelled)
            .case_insensitive(ignore_case)
            .multi_line(true)
            .build()
            .map_err(|_| refused("it is too large when compiled".into(), "a smaller one"))?;
        let texts = required(&hir);
        let is_plain = is_text(&hir, texts.as_deref());
        let sieve = texts.map(|texts| Sieve::new(&texts)).transpose()?;
        Ok(Self { regex, sieve, is_plain })
    }

    /// Places of bytes, which may have any number of records, that records with a match begin before and end behind.
    pub(crate) fn candidates<'a>(&'a self, bytes: &'a [u8]) -> Candidates<'a> {
        Candidates::new(self.sieve.as_ref(), bytes)
    }

    /// Hands out the matches in the text of one record, from the first to the last, none within another.
    pub(crate) fn each(&self, record: &[u8], text: &mut Text, mut on: impl FnMut(&Match<'_>)) {
        if memchr(b'\\', record).is_none() {
            for hit in self.regex.find_iter(record) {
                on(&Match { text: record, at: hit.range(), place: hit.range() });
            }
            return;
        }
        text.read(record);
        for hit in self.regex.find_iter(text.bytes()) {
            let place = text.place(hit.start())..text.place(hit.end());
            on(&Match { text: text.bytes(), at: hit.range(), place });
        }
    }

    /// How many matches the text of a record has.
    pub(crate) fn count(&self, record: &[u8], text: &mut Text) -> u64 {
        if self.is_plain
            && let Some(count) = self.plain_count(record)
        {
            return count;
        }
        if memchr(b'\\', record).is_none() {
            return self.regex.find_iter(record).count() as u64;
        }
        self.regex.find_iter(text.read(record)).count() as u64
    }

    /// The count of a text in bytes without undoing escapes; none where an escape may hide or make one: one of a character
    /// of the text anywhere, or any that ends where a match begins.
    fn plain_count(&self, record: &[u8]) -> Option<u64> {
        let sieve = self.sieve.as_ref()?;
        let mut count = 0;
        for hit in self.regex.find_iter(record) {
            let before = &record[hit.start().saturating_sub(ESCAPE)..hit.start()];
            if before.contains(&b'\\') {
                return None;
            }
            count += 1;
        }
        (sieve.escape_from(record, 0) == usize::MAX).then_some(count)
    }
}

/// What is wrong with an expression, without the drawing of it.
fn reason(error: &regex_syntax::Error) -> String {
    match error {
        regex_syntax::Error::Parse(error) => error.kind().to_string(),
        regex_syntax::Error::Translate(error) => error.kind().to_string(),
        other => other.to_string().lines().last().unwrap_or_default().to_owned(),
    }
}

/// Whether an expression is the one text that it requires.
fn is_text(pattern: &Hir, texts: Option<&[String]>) -> bool {
    match (pattern.kind(), texts) {
        (HirKind::Literal(literal), Some([text])) => *literal.0 == *text.as_bytes(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn places(pattern: &Pattern, record: &str) -> Vec<String> {
        let mut out = Vec::new();
        pattern.each(record.as_bytes(), &mut Text::default(), |hit| {
            out.push(record[hit.place.clone()].to_owned());
        });
        let mut text = Text::default();
        assert_eq!(pattern.count(record.as_bytes(), &mut text), out.len() as u64, "{record}");
        let mut candidates = pattern.candidates(record.as_bytes());
        assert!(out.is_empty() || candidates.from(0).is_some(), "{record}");
        out
    }

    #[test]
    fn escapes_hide_nothing() {
        let pattern = Pattern::new("caf\u{e9}", true, false).unwrap();
        assert_eq!(places(&pattern, "{\"a\":\"caf\u{e9}\"}"), ["caf\u{e9}"]);
        assert_eq!(
            places(&pattern, r#"{"a":"caf\u00e9 c\u0061f\u00E9"}"#),
            [r"caf\u00e9", r"c\u0061f\u00E9"]
        );
        assert_eq!(places(&pattern, r#"{"a":"caf\\u00e9"}"#), Vec::<String>::new());
        let pattern = Pattern::new("name", true, false).unwrap();
        assert_eq!(places(&pattern, r#"{"a":"\name \\name name"}"#), ["name", "name"]);
        let pattern = Pattern::new("a\"b\nc", true, false).unwrap();
        assert_eq!(places(&pattern, r#"{"a":"a\"b\nc"}"#), [r#"a\"b\nc"#]);
        let pattern = Pattern::new(r"\bfoo$", false, true).unwrap();
        assert_eq!(places(&pattern, r#"{"a":"x\nFOO\nafoo"}"#), ["FOO"]);
    }

    #[test]
    fn what_cannot_be_searched_for_is_refused_in_one_line() {
        for (pattern, word) in [("(", "unclosed group"), ("a*", "the empty text"), ("", "the empty text")] {
            let error = Pattern::new(pattern, false, false).unwrap_err().to_string();
            assert!(error.contains(word) && error.lines().count() == 1, "{error}");
        }
        assert!(Pattern::new("(", true, false).is_ok());
    }

    proptest! {
        #[test]
        fn matches_are_those_of_the_text(
            words in "[abn\"\\\\/\n\u{e9}]{0,12}",
            pattern in "[abn\"\\\\/\n\u{e9}]{1,3}",
            ignore_case in any::<bool>(),
            shift in 0_usize..4,
        ) {
            let written = |(i, unit): (usize, u16)| if (i + shift) % 4 == 0 {
                format!("\\u{unit:04x}")
            } else {
                let quoted = serde_json::to_string(&String::from_utf16_lossy(&[unit])).unwrap();
                quoted[1..quoted.len() - 1].replace("\\\\", "\\u005c")
            };
            let record: String = words.encode_utf16().enumerate().map(written).collect();
            let record = record.replace("\\\"", "\\u0022");
            let pattern = Pattern::new(&pattern, true, ignore_case).unwrap();
            let expected = pattern.regex.find_iter(words.as_bytes()).count();
            prop_assert_eq!(places(&pattern, &record).len(), expected, "{}", record);
        }
    }
}
