//! Bytes as hexadecimal digits.

/// The two digits of a byte, in lower case.
fn digits(byte: u8) -> [u8; 2] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]
}

/// Writes the digits of bytes into a text of twice their length.
pub(crate) fn spell(bytes: &[u8], text: &mut [u8]) {
    for (pair, byte) in text.as_chunks_mut::<2>().0.iter_mut().zip(bytes) {
        *pair = digits(*byte);
    }
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
        let mut text = [b' '; 9];
        spell(&[0x00, 0x0f, 0xa0, 0xff], &mut text[..8]);
        assert_eq!(&text, b"000fa0ff ");
    }
}
