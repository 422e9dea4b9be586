//! Bytes as hexadecimal digits.

/// The two digits of a byte, in lower case.
pub(crate) fn digits(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

/// Writes two digits for each byte into a text of twice the length; it in whole.
pub(crate) fn spell<'t>(bytes: &[u8], text: &'t mut [u8]) -> &'t str {
    for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        *pair = digits(*byte);
    }
    std::str::from_utf8(text).unwrap_or_default()
}

/// Two digits for each byte.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| digits(*byte)).map(char::from).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_two_digits() {
        assert_eq!(hex(&[0x00, 0x0f, 0xa0, 0xff]), "000fa0ff");
        assert_eq!(hex(&[]), "");
        assert_eq!(spell(&[0x00, 0x0f, 0xa0, 0xff], &mut [0; 8]), "000fa0ff");
    }
}
