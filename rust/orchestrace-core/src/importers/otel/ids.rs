//! Ids of traces and spans in all spellings.

use std::borrow::Cow;

use crate::importers::hex::hex;

/// The id of a trace as 32 hexadecimal digits in lower case, also where `MLflow` writes `tr-` or a place before them.
pub(super) fn trace_id(text: &str) -> Option<String> {
    let digits = text.strip_prefix("tr-").or_else(|| Some(text.strip_prefix("trace:/")?.rsplit_once('/')?.1));
    let digits = digits.filter(|digits| digits.len() == 32 && digits.bytes().all(|b| b.is_ascii_hexdigit()));
    normal(digits.unwrap_or(text), 16).map(Cow::into_owned)
}

/// The id of a span as 16 hexadecimal digits in lower case; nothing for zeros, which stand for no span.
pub(super) fn span_id(text: &str) -> Option<Cow<'_, str>> {
    normal(text, 8)
}

/// Hexadecimal digits, with or without `0x`, of as many bytes or fewer (leading zeros are left out by some); or base64
/// of that many bytes, which Tempo writes. What is neither is an id of its own kind and stays.
fn normal(text: &str, bytes: usize) -> Option<Cow<'_, str>> {
    if is_usual(text, bytes) {
        return Some(Cow::Borrowed(text));
    }
    let text = text.trim();
    let digits = text.strip_prefix("0x").unwrap_or(text);
    let is_hex =
        !digits.is_empty() && digits.len() <= 2 * bytes && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if is_hex {
        if digits.bytes().all(|b| b == b'0') {
            return None;
        }
        if digits.len() == 2 * bytes && !digits.bytes().any(|b| b.is_ascii_uppercase()) {
            return Some(Cow::Borrowed(digits));
        }
        return Some(Cow::Owned(format!("{:0>1$}", digits.to_ascii_lowercase(), 2 * bytes)));
    }
    if let Some(decoded) = base64(text, bytes) {
        let zero = decoded.iter().all(|b| *b == 0);
        return (!zero).then(|| Cow::Owned(hex(&decoded)));
    }
    (!text.is_empty()).then_some(Cow::Borrowed(text))
}

/// Whether an id is spelt as nearly all are, and as all become.
fn is_usual(text: &str, bytes: usize) -> bool {
    // To the end in any case, so that many bytes are looked at at once.
    let digit = |b: u8| b.wrapping_sub(b'0') < 10 || b.wrapping_sub(b'a') < 6;
    let judge = |(digits, others): (bool, u8), b: u8| (digits & digit(b), others | (b ^ b'0'));
    text.len() == 2 * bytes && matches!(text.bytes().fold((true, 0), judge), (true, 1..))
}

/// Base64 of exactly so many bytes, padded or not, in either alphabet.
fn base64(text: &str, bytes: usize) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=');
    if digits.len() != (bytes * 4).div_ceil(3) || text.len() - digits.len() > 2 {
        return None;
    }
    let (mut out, mut bits, mut held) = (Vec::with_capacity(bytes), 0_u32, 0);
    for digit in digits.bytes() {
        let value = match digit {
            b'A'..=b'Z' => digit - b'A',
            b'a'..=b'z' => digit - b'a' + 26,
            b'0'..=b'9' => digit - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return None,
        };
        bits = bits << 6 | u32::from(value);
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_spelling_of_every_id() {
        let hex = "dd547580319ab0312cee07f1def50dad";
        let spellings = [
            hex,
            "DD547580319AB0312CEE07F1DEF50DAD",
            "0xdd547580319ab0312cee07f1def50dad",
            "3VR1gDGasDEs7gfx3vUNrQ==",
            "3VR1gDGasDEs7gfx3vUNrQ",
            "tr-dd547580319ab0312cee07f1def50dad",
            "trace:/main.agents/dd547580319ab0312cee07f1def50dad",
        ];
        for spelling in spellings {
            assert_eq!(trace_id(spelling).as_deref(), Some(hex), "{spelling}");
        }
        assert_eq!(span_id("3vWAGvZqquc=").as_deref(), Some("def5801af66aaae7"));
        assert_eq!(span_id("f5801af66aaae7").as_deref(), Some("00f5801af66aaae7"));
        for none in ["", "0000000000000000", "0x0", "AAAAAAAAAAA="] {
            assert_eq!(span_id(none), None, "{none}");
        }
        assert_eq!(span_id("span_7b1e").as_deref(), Some("span_7b1e"), "an id of another kind stays");
    }
}
