//! Values of the expected JSON kind, and the messages if another kind is found.

use crate::columns::block::Scratch;
use crate::columns::writer::TraceWriter;
use crate::error::{FindingCode, RejectCode};
use crate::json::{Cursor, Fault, Kind, Number, Parsed, Str};

/// Rejects what does not begin like a value of this kind.
#[inline(always)]
pub(in crate::importers) fn expect(cursor: &Cursor<'_>, expected: Kind) -> Parsed<()> {
    let as_hoped = match expected {
        Kind::Object => cursor.at(b'{'),
        Kind::Array => cursor.at(b'['),
        Kind::String => cursor.at(b'"'),
        Kind::Number => cursor.at_digit(),
        Kind::Bool | Kind::Null => false,
    };
    if as_hoped { Ok(()) } else { look_closer(cursor, expected) }
}

fn look_closer(cursor: &Cursor<'_>, expected: Kind) -> Parsed<()> {
    let actual = cursor.kind()?;
    if actual == expected { Ok(()) } else { Err(wrong_type(actual, expected)) }
}

#[cold]
fn wrong_type(actual: Kind, expected: Kind) -> Box<Fault> {
    let hint = if actual == Kind::Null { "; leave out the key if there is no value" } else { "" };
    Fault::value(
        RejectCode::FieldType,
        format!("found {}, expected {}{hint}", actual.as_str(), expected.as_str()),
    )
}

#[inline(never)]
pub(super) fn string<'a>(cursor: &mut Cursor<'a>) -> Parsed<Str<'a>> {
    expect(cursor, Kind::String)?;
    cursor.string()
}

pub(super) fn number<'a>(cursor: &mut Cursor<'a>) -> Parsed<Number<'a>> {
    expect(cursor, Kind::Number)?;
    cursor.number()
}

pub(super) fn nonempty(cursor: &mut Cursor<'_>, scratch: &mut Scratch) -> Parsed<String> {
    let text = string(cursor)?;
    let text = text.text(&mut scratch.text);
    if text.is_empty() { Err(empty_string()) } else { Ok(text.to_owned()) }
}

#[cold]
pub(in crate::importers) fn empty_string() -> Box<Fault> {
    Fault::value(RejectCode::FieldEmpty, "found an empty string, expected at least one character")
}

#[cold]
pub(in crate::importers) fn missing(name: &str) -> Box<Fault> {
    Fault::value(RejectCode::FieldMissing, format!("the required key '{name}' is absent"))
}

#[cold]
pub(in crate::importers) fn duplicate(name: &str) -> Box<Fault> {
    Fault::value(RejectCode::JsonDuplicateKey, format!("the key '{}' occurs twice", name.escape_debug()))
        .under(name)
}

#[cold]
pub(super) fn forbidden(name: &str, allowed: &[&str], object_name: &str) -> Box<Fault> {
    let hint = crate::error::nearest(name, allowed.iter().copied())
        .map_or_else(String::new, |n| format!("; did you mean '{n}'?"));
    Fault::value(
        RejectCode::FieldForbidden,
        format!("{object_name} has no key '{}'{hint} (allowed: {})", name.escape_debug(), allowed.join(", ")),
    )
    .under(name)
}

#[cold]
pub(super) fn not_a_word(word: &str, words: &[&str]) -> Box<Fault> {
    let shown: String = word.chars().take(60).collect();
    let hint = crate::error::nearest(&shown, words.iter().copied())
        .map_or_else(String::new, |n| format!("; did you mean '{n}'?"));
    Fault::value(
        RejectCode::FieldEnum,
        format!("found '{}', expected one of {}{hint}", shown.escape_debug(), words.join(", ")),
    )
}

/// Tells of a number that its column cannot hold as it is written.
pub(super) fn note_rounding(
    out: &mut TraceWriter<'_>,
    number: &Number<'_>,
    value: f64,
    seq: Option<u32>,
    name: &str,
) {
    if number.is_rounded(value) {
        out.finding(FindingCode::NumberRounded, seq, || {
            format!("'{name}' is an integer that a 64-bit float cannot hold exactly; stored as {value}")
        });
    }
}
