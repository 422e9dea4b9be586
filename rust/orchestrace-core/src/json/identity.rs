//! What JSON says, as one number. Texts have the same that differ in white space, in the order of members, or in how strings
//! and numbers are spelt.
//!
//! It is the sum over all values of a hash of the value and of the way to it, so that the order in which members are met
//! does not matter and nothing is held but that way. Two texts that differ have the same number once in 2^64 pairs.

use memchr::memchr2;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Levels that are followed; a text that goes deeper is known by its bytes.
const LEVELS: usize = 128;

/// An object or array that is open.
#[derive(Clone, Copy, Default)]
struct Level {
    /// The way to it.
    way: u64,
    /// Elements of it that were met; of an object none.
    elements: u64,
    is_object: bool,
}

/// The number of a text. One that is no object, array or string is known by its bytes.
pub(crate) fn identity(text: &str) -> u64 {
    of_json(text.as_bytes()).unwrap_or_else(|| xxh3_64_with_seed(text.trim_ascii().as_bytes(), 1))
}

/// Both numbers as one.
#[inline]
pub(crate) fn mixed(first: u64, second: u64) -> u64 {
    let product = u128::from(first ^ 0x9E37_79B9_7F4A_7C15) * u128::from(second ^ 0xD6E8_FEB8_6659_FD93);
    (product as u64) ^ ((product >> 64) as u64) ^ first.rotate_left(23)
}

fn of_json(bytes: &[u8]) -> Option<u64> {
    let mut at = past_space(bytes, 0);
    if !matches!(bytes.get(at), Some(b'{' | b'[' | b'"')) {
        return None;
    }
    let mut levels = [Level::default(); LEVELS];
    let mut depth = 0;
    let (mut sum, mut way) = (0_u64, 0_u64);
    let mut scratch = Vec::new();
    loop {
        // A value, to which `way` leads.
        match *bytes.get(at)? {
            opening @ (b'{' | b'[') => {
                let level =
                    Level { way: mixed(way, u64::from(opening)), elements: 0, is_object: opening == b'{' };
                sum = sum.wrapping_add(level.way);
                *levels.get_mut(depth)? = level;
                (depth, at) = (depth + 1, at + 1);
            }
            b'"' => {
                let (hash, end) = string(bytes, at + 1, way, &mut scratch)?;
                sum = sum.wrapping_add(hash);
                at = end;
            }
            _ => {
                let token = &bytes[at..];
                let token = &token[..token.iter().position(|byte| is_end(*byte)).unwrap_or(token.len())];
                sum = sum.wrapping_add(scalar(token, way)?);
                at += token.len();
            }
        }
        // What comes next, once what ends here is closed.
        loop {
            at = past_space(bytes, at);
            match bytes.get(at) {
                _ if depth == 0 => break,
                Some(b',') => {}
                Some(b'}' | b']') => depth -= 1,
                _ => break,
            }
            at += 1;
        }
        if depth == 0 {
            return (at == bytes.len()).then_some(sum);
        }
        let level = &mut levels[depth - 1];
        if level.is_object {
            let (key, end) = string(
                bytes,
                at.checked_add(1).filter(|_| bytes.get(at) == Some(&b'"'))?,
                level.way,
                &mut scratch,
            )?;
            at = past_space(bytes, end);
            if bytes.get(at) != Some(&b':') {
                return None;
            }
            (way, at) = (key, past_space(bytes, at + 1));
        } else {
            way = mixed(level.way, level.elements);
            level.elements += 1;
        }
    }
}

fn past_space(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes.get(at), Some(b' ' | b'\n' | b'\r' | b'\t')) {
        at += 1;
    }
    at
}

fn is_end(byte: u8) -> bool {
    matches!(byte, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t' | b':' | b'"' | b'{' | b'[')
}

/// The hash of a string that begins here, and where the text goes on behind it. It is that of the text with its escapes, as
/// nearly all writers spell them.
fn string(bytes: &[u8], start: usize, way: u64, scratch: &mut Vec<u8>) -> Option<(u64, usize)> {
    let mut at = start;
    loop {
        let stop = at + memchr2(b'"', b'\\', bytes.get(at..)?)?;
        if bytes[stop] == b'"' {
            return Some((xxh3_64_with_seed(&bytes[start..stop], way), stop + 1));
        }
        if matches!(bytes.get(stop + 1)?, b'u' | b'/') {
            return respelt(bytes, start, stop, way, scratch);
        }
        at = stop + 2;
    }
}

/// The same of a string with an escape at `at` that others spell otherwise.
#[cold]
fn respelt(
    bytes: &[u8],
    start: usize,
    mut at: usize,
    way: u64,
    scratch: &mut Vec<u8>,
) -> Option<(u64, usize)> {
    scratch.clear();
    scratch.extend_from_slice(&bytes[start..at]);
    loop {
        let stop = at + memchr2(b'"', b'\\', bytes.get(at..)?)?;
        scratch.extend_from_slice(&bytes[at..stop]);
        if bytes[stop] == b'"' {
            return Some((xxh3_64_with_seed(scratch, way), stop + 1));
        }
        at = stop + 2;
        match *bytes.get(stop + 1)? {
            b'/' => scratch.push(b'/'),
            b'u' => {
                let unit = unit(bytes, at)?;
                at += 4;
                let low =
                    (bytes.get(at..at + 2) == Some(br"\u")).then(|| self::unit(bytes, at + 2)).flatten();
                let code = match (unit, low) {
                    (0xD800..=0xDBFF, Some(low @ 0xDC00..=0xDFFF)) => {
                        at += 6;
                        0x1_0000 + ((u32::from(unit) - 0xD800) << 10) + (u32::from(low) - 0xDC00)
                    }
                    _ => u32::from(unit),
                };
                put(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER), scratch);
            }
            other => scratch.extend_from_slice(&[b'\\', other]),
        }
    }
}

/// A character as it is spelt in a string.
fn put(char: char, out: &mut Vec<u8>) {
    let short = match char {
        '"' | '\\' => char as u8,
        '\n' => b'n',
        '\r' => b'r',
        '\t' => b't',
        '\u{8}' => b'b',
        '\u{c}' => b'f',
        '\0'..' ' => return out.extend_from_slice(format!("\\u{:04x}", char as u32).as_bytes()),
        _ => {
            let mut utf8 = [0; 4];
            return out.extend_from_slice(char.encode_utf8(&mut utf8).as_bytes());
        }
    };
    out.extend_from_slice(&[b'\\', short]);
}

fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = std::str::from_utf8(bytes.get(at..at + 4)?).ok()?;
    u16::from_str_radix(digits, 16).ok()
}

/// The hash of a number or a word: numbers that are equal have one, as far as a float distinguishes them.
fn scalar(token: &[u8], way: u64) -> Option<u64> {
    const EXACT: usize = 15;
    let (&first, rest) = token.split_first()?;
    let value = match first {
        b'0'..=b'9' if token.len() <= EXACT && rest.iter().all(u8::is_ascii_digit) => {
            token.iter().fold(0_u64, |sum, digit| 10 * sum + u64::from(digit - b'0')) as f64
        }
        // Of more digits than a float has every one counts.
        b'0'..=b'9' | b'-' if token.len() > EXACT && rest.iter().all(u8::is_ascii_digit) => {
            return Some(xxh3_64_with_seed(token, way));
        }
        b'0'..=b'9' | b'-' => match std::str::from_utf8(token).ok()?.parse::<f64>() {
            Ok(value) => value,
            Err(_) => return Some(xxh3_64_with_seed(token, way)),
        },
        _ => return Some(xxh3_64_with_seed(token, mixed(way, 1))),
    };
    Some(mixed(way, (value + 0.0).to_bits()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_the_same_is_one() {
        let same = [
            r#"{"a":1,"b":[{"c":"x\né"},true,null],"d":{}}"#,
            "{ \"d\" : { } ,\n \"b\": [ {\"c\":\"x\\u000a\\u00e9\"}, true , null ], \"a\": 1.0 }\n",
            r#"{"b":[{"c":"x\u000A\u00E9"},true,null],"a":10e-1,"d":{},}"#,
        ];
        for text in same {
            assert_eq!(identity(text), identity(same[0]), "{text}");
        }
        assert_eq!(identity(r#"["\ud83d\ude00"]"#), identity("[\"\u{1F600}\"]"));
        assert_eq!(identity("word"), identity(" word\n"));
        assert_eq!(identity(r#""\u00e9""#), identity("\"é\""));
        assert_eq!(
            identity(r#""\u0022\u005C\u005c\u000A\u0009\u000d\u0008\u000C""#),
            identity(r#""\"\\\\\n\t\r\b\f""#)
        );
        assert_eq!(identity(r#""\/\u001B[1m\u00e9""#), identity(r#""/\u001b[1mé""#));
    }

    #[test]
    fn what_says_something_else_is_another() {
        let other = [
            "{}",
            "[]",
            "[[]]",
            "[{}]",
            "[[],[]]",
            "[1,2]",
            "[2,1]",
            "[12]",
            "[\"12\"]",
            "[null]",
            "[true]",
            "[\"true\"]",
            "[false]",
            "[-1]",
            "[1]",
            "[1.5]",
            "[1700000000000000001]",
            "[1700000000000000002]",
            r#"{"a":1}"#,
            r#"{"a":"1"}"#,
            r#"{"b":1}"#,
            r#"{"a":{"b":1}}"#,
            r#"{"a":{},"b":1}"#,
            r#"{"a":{"b":1},"b":1}"#,
            r#"{"a":[1],"b":[2]}"#,
            r#"{"a":[2],"b":[1]}"#,
            r#"{"a":[[1],[2]]}"#,
            r#"{"a":[[2],[1]]}"#,
            "[NaN]",
            "",
            "a b",
            "b a",
            r#"{"a" 1}"#,
            r#"{"a":1}{"a":1}"#,
            r#"{"a":1"#,
            r#"["a]"#,
            r#"["\u12"]"#,
        ];
        for (at, one) in other.iter().enumerate() {
            for two in &other[..at] {
                assert_ne!(identity(one), identity(two), "{one} {two}");
            }
        }
        let deep = |n: usize| "[".repeat(n) + &"]".repeat(n);
        assert_eq!(identity(&deep(LEVELS)), identity(&(deep(LEVELS) + " ")));
        assert_ne!(identity(&deep(LEVELS)), identity(&deep(LEVELS + 1)));
    }

    proptest::proptest! {
        #[test]
        fn any_text_has_a_number(text in ".*", json in r#"[\[\]{}",:0-9a\\u -]{0,24}"#) {
            let _ = (identity(&text), identity(&json));
        }
    }
}
