//! JSON number literals from integers: the decimal point is placed, so float formatting cannot change a byte.

/// A bijection that scatters (the finalizer of `SplitMix64`), so that ids made of counters stay unique.
pub(super) fn scatter(number: u64) -> u64 {
    let x = (number ^ number >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

pub(super) fn put(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
}

pub(super) fn uint(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [b'0'; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

/// A number of fixed places: 12345 with 3 is `12.345`.
pub(super) fn fixed(out: &mut Vec<u8>, value: u64, places: u32) {
    let unit = 10u64.pow(places);
    uint(out, value / unit);
    out.push(b'.');
    let mut rest = value % unit;
    let start = out.len();
    out.resize(start + places as usize, b'0');
    for digit in out[start..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

pub(super) fn signed(out: &mut Vec<u8>, value: i64, places: u32) {
    if value < 0 {
        out.push(b'-');
    }
    fixed(out, value.unsigned_abs(), places);
}

pub(super) fn padded(out: &mut Vec<u8>, value: u64, width: u32) {
    if value < 10u64.pow(width) {
        let start = out.len();
        fixed(out, value, width);
        out.drain(start..start + 2);
    } else {
        uint(out, value);
    }
}

pub(super) fn hex(out: &mut Vec<u8>, value: u64) {
    let digits: [u8; 16] =
        std::array::from_fn(|i| b"0123456789abcdef"[(value >> (60 - 4 * i) & 15) as usize]);
    out.extend_from_slice(&digits);
}

pub(super) fn hash(out: &mut Vec<u8>, key: &str, value: u64) {
    put(out, key);
    put(out, "\"sha256:");
    hex(out, value);
    out.push(b'"');
}

pub(super) fn flag(out: &mut Vec<u8>, key: &str, value: bool) {
    put(out, key);
    put(out, if value { "true" } else { "false" });
}

pub(super) fn word(out: &mut Vec<u8>, key: &str, text: &str) {
    put(out, key);
    out.push(b'"');
    put(out, text);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn numbers_have_their_places() {
        assert_eq!(written(|o| uint(o, 0)), "0");
        assert_eq!(written(|o| uint(o, u64::MAX)), u64::MAX.to_string());
        assert_eq!(written(|o| fixed(o, 12_345, 3)), "12.345");
        assert_eq!(written(|o| fixed(o, 7, 6)), "0.000007");
        assert_eq!(written(|o| signed(o, -500, 3)), "-0.500");
        assert_eq!(written(|o| padded(o, 42, 8)), "00000042");
        assert_eq!(written(|o| padded(o, 0, 2)), "00");
        assert_eq!(written(|o| padded(o, 1234, 2)), "1234");
        assert_eq!(written(|o| hex(o, 0x0123_4567_89ab_cdef)), "0123456789abcdef");
    }

    #[test]
    fn scattered_numbers_stay_apart() {
        let mut seen = (0..10_000).map(scatter).collect::<Vec<_>>();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 10_000);
    }
}
