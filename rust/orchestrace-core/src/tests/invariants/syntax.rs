//! The syntax of JSON, held against another parser.

use orchestrace_core::error::RejectCode;
use orchestrace_core::json::{Cursor, Kind, Limits, Parsed};
use serde_json::Value;
use serde_json::value::Number;

/// Lower than that of `serde_json`, which is 127 and a constant.
const DEPTH: usize = 100;

const LIMITS: Limits = Limits { depth: DEPTH, string: usize::MAX, lenient: false };

/// Skipping accepts what `serde_json` accepts, with these differences:
///
/// - a number of any magnitude is well-formed, since nobody asked for its value;
/// - nesting has a limit that can be chosen;
/// - a key may occur twice, which is the importers' business: `serde_json` keeps the last one.
///
/// What both read has the same strings, numbers and shape.
pub(crate) fn syntax_is_that_of_serde_json(text: &str) {
    let skipped = skip(text);
    // Accepts lone surrogates and any depth or magnitude, and checks all else.
    let well_formed = serde_json::from_str::<serde::de::IgnoredAny>(text).is_ok();
    if !well_formed {
        assert!(skipped.is_err(), "accepted what is not JSON: {text:?}");
        return;
    }
    let (small, depth) = without_numbers(text);
    if depth > DEPTH {
        let code = skipped.expect_err("nesting beyond the limit was accepted").code;
        assert!(matches!(code, RejectCode::JsonDepth | RejectCode::Utf8Invalid), "{code:?}");
        return;
    }
    // Refuses lone surrogates; numbers are out of its way.
    if serde_json::from_str::<Value>(&small).is_err() {
        assert_eq!(skipped.expect_err("a lone surrogate was accepted").code, RejectCode::Utf8Invalid);
        return;
    }
    let (start, end) = skipped.unwrap_or_else(|fault| panic!("refused {text:?}: {fault:?}"));
    let space = [' ', '\t', '\n', '\r'];
    assert_eq!(text[start..end].trim_matches(space), text.trim_matches(space));
    // Has no numbers beyond the range, and so can be compared.
    if let Ok(reference) = serde_json::from_str::<Value>(text) {
        let mut cursor = Cursor::new(text, LIMITS);
        cursor.ws();
        assert_eq!(tree(&mut cursor).unwrap(), as_floats(reference), "{text:?}");
    }
}

fn skip(text: &str) -> Parsed<(usize, usize)> {
    let mut cursor = Cursor::new(text, LIMITS);
    cursor.ws();
    let range = cursor.skip()?;
    cursor.end()?;
    Ok(range)
}

/// Well-formed JSON with 0 for every number, and how deep it is.
fn without_numbers(text: &str) -> (String, usize) {
    let (mut out, mut depth, mut deepest) = (String::with_capacity(text.len()), 0_usize, 0);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                out.push(c);
                while let Some(c) = chars.next() {
                    out.push(c);
                    match c {
                        '\\' => out.extend(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '-' | '0'..='9' => {
                out.push('0');
                while chars.next_if(|c| matches!(c, '0'..='9' | '+' | '-' | '.' | 'e' | 'E')).is_some() {}
            }
            _ => {
                match c {
                    '[' | '{' => depth += 1,
                    ']' | '}' => depth -= 1,
                    _ => {}
                }
                deepest = deepest.max(depth);
                out.push(c);
            }
        }
    }
    (out, deepest)
}

/// What the parser reads, as a tree; the last of equal keys counts, as `serde_json` has it.
fn tree(cursor: &mut Cursor<'_>) -> Parsed<Value> {
    let mut scratch = String::new();
    Ok(match cursor.kind()? {
        Kind::Null => {
            cursor.null()?;
            Value::Null
        }
        Kind::Bool => Value::Bool(cursor.bool()?),
        Kind::String => Value::String(cursor.string()?.text(&mut scratch).to_owned()),
        Kind::Number => Value::Number(Number::from_f64(cursor.number()?.f64()?).unwrap()),
        Kind::Array => {
            let mut out = Vec::new();
            let mut more = cursor.open_array()?;
            while more {
                out.push(tree(cursor)?);
                more = cursor.more_array()?;
            }
            Value::Array(out)
        }
        Kind::Object => {
            let mut out = serde_json::Map::new();
            let mut more = cursor.open_object()?;
            while more {
                let key = cursor.key()?.text(&mut scratch).to_owned();
                out.insert(key, tree(cursor)?);
                more = cursor.more_object()?;
            }
            Value::Object(out)
        }
    })
}

/// The tree with the floats nearest to its numbers, in which the parser gives all of them.
fn as_floats(value: Value) -> Value {
    match value {
        Value::Number(number) => {
            // Through the text: an integer beyond 2^53 is rounded once, as the parser does it.
            let float = number.to_string().parse::<f64>().unwrap();
            Value::Number(Number::from_f64(float).unwrap())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(as_floats).collect()),
        Value::Object(map) => Value::Object(map.into_iter().map(|(k, v)| (k, as_floats(v))).collect()),
        other => other,
    }
}
