//! Scans of sixteen bytes at a time for the end of a string or of digits.
//!
//! Values of a trace are short: nearly every one ends within the first sixteen bytes, so one vector
//! comparison finds its end, and the bytes that were loaded for it are the key to everything that is
//! looked up afterwards (names, ids, words).

use memchr::memchr;
use wide::u8x16;

/// Bit `i` is set if byte `i` ends a plain run: a quote, a backslash or a control character. Bytes of 0x80
/// and above are text.
#[inline(always)]
pub(super) fn stops(word: u128) -> u32 {
    stopping(u8x16::from(word.to_le_bytes())).to_bitmask()
}

#[inline(always)]
fn stopping(bytes: u8x16) -> u8x16 {
    let quote = bytes.simd_eq(u8x16::splat(b'"'));
    let slash = bytes.simd_eq(u8x16::splat(b'\\'));
    let control = bytes.min(u8x16::splat(0x1F)).simd_eq(bytes);
    quote | slash | control
}

/// Whether one of 64 bytes ends a plain run.
#[inline(always)]
fn stops_in(chunk: &[u8; 64]) -> bool {
    let (words, _) = chunk.as_chunks::<16>();
    words.iter().map(|word| stopping(u8x16::from(*word))).fold(u8x16::splat(0), |all, one| all | one).any()
}

/// Bit `i` is set if that is so of byte `i` of 64.
#[inline(always)]
fn bits_of(chunk: &[u8; 64], is: impl Fn(u8x16) -> u8x16) -> u64 {
    let (words, _) = chunk.as_chunks::<16>();
    let bits = |word: usize| u64::from(is(u8x16::from(words[word])).to_bitmask());
    bits(0) | bits(1) << 16 | bits(2) << 32 | bits(3) << 48
}

/// Bit `i` is set if byte `i` of 64 ends a plain run.
#[inline(always)]
pub(super) fn stops_of(chunk: &[u8; 64]) -> u64 {
    bits_of(chunk, stopping)
}

/// Bit `i` is set if byte `i` of 64 is this one.
#[inline(always)]
pub(super) fn each(chunk: &[u8; 64], byte: u8) -> u64 {
    bits_of(chunk, |bytes| bytes.simd_eq(u8x16::splat(byte)))
}

/// The bytes that are escaped among 64, by the backslashes there, the first of which escapes: every other one of a row
/// of backslashes, and what follows a row of odd length (by one addition, Langdale and Lemire 2019, section 3.1.1).
#[inline(always)]
pub(super) fn escaped_by(slashes: u64) -> u64 {
    const EVEN: u64 = 0x5555_5555_5555_5555;
    let behind = slashes << 1;
    // Where rows begin at odd places; the sum carries each other row to the bit behind it.
    let odd_bits = slashes & !EVEN & !behind;
    let carried = slashes.wrapping_add(odd_bits) << 1;
    (EVEN ^ carried) & behind
}

/// First position from `at` whose byte ends a plain run.
#[inline]
pub(super) fn plain_run(bytes: &[u8], mut at: usize) -> usize {
    // Where the run has gone on for a while it is a long text: four words for one question.
    let far = at + 64;
    while let Some(chunk) = bytes.get(at..).and_then(|b| b.first_chunk::<16>()) {
        let stops = stops(u128::from_le_bytes(*chunk));
        if stops != 0 {
            return at + stops.trailing_zeros() as usize;
        }
        at += 16;
        if at >= far {
            while let Some(chunk) = bytes.get(at..).and_then(|b| b.first_chunk::<64>())
                && !stops_in(chunk)
            {
                at += 64;
            }
        }
    }
    while let Some(&byte) = bytes.get(at) {
        if byte == b'"' || byte == b'\\' || byte < 0x20 {
            return at;
        }
        at += 1;
    }
    at
}

/// First position from `at` that holds a backslash.
#[inline]
pub(super) fn escape_from(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    // The next one is near, or as far as in any text.
    if let Some(chunk) = rest.first_chunk::<16>() {
        let bits = u8x16::from(*chunk).simd_eq(u8x16::splat(b'\\')).to_bitmask();
        if bits != 0 {
            return at + bits.trailing_zeros() as usize;
        }
    }
    memchr(b'\\', rest).map_or(bytes.len(), |i| at + i)
}

/// The lowest `len` bytes of a word, all sixteen of them if `len` is larger.
#[inline(always)]
pub(super) fn lowest(word: u128, len: usize) -> u128 {
    word & LOWEST[len & 63]
}

static LOWEST: [u128; 64] = {
    let mut masks = [u128::MAX; 64];
    let mut len = 0;
    while len < 16 {
        masks[len] = (1 << (8 * len)) - 1;
        len += 1;
    }
    masks
};

/// How many of eight bytes are digits before the first that is none, and their value.
#[inline(always)]
pub(super) fn digits(word: u64) -> (usize, u64) {
    let values = word ^ 0x3030_3030_3030_3030;
    // A byte above nine gets its high bit; a carry only reaches bytes after the first such one.
    let others = (values.wrapping_add(0x7676_7676_7676_7676) | values) & 0x8080_8080_8080_8080;
    let count = (others.trailing_zeros() / 8) as usize;
    if count == 0 {
        return (0, 0);
    }
    // The digits move to the end of the word, zeros before them; then pairs, quadruples and all eight join.
    let values = values << (64 - 8 * count);
    let pairs = values.wrapping_mul(10).wrapping_add(values >> 8);
    let low = (pairs & 0x0000_00FF_0000_00FF).wrapping_mul(0x000F_4240_0000_0064);
    let high = ((pairs >> 16) & 0x0000_00FF_0000_00FF).wrapping_mul(0x0000_2710_0000_0001);
    (count, low.wrapping_add(high) >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_stop_where_a_plain_loop_stops() {
        let plain = |bytes: &[u8], at: usize| {
            let stop = |b: &u8| *b == b'"' || *b == b'\\' || *b < 0x20;
            bytes[at..].iter().position(stop).map_or(bytes.len(), |i| at + i)
        };
        for stop in [b'"', b'\\', 0, 0x1F, 0x20, 0x7F, 0x80, 0xFF, b'!', b'#', b'[', b']'] {
            for len in 0..40 {
                for place in 0..len {
                    let mut bytes = vec![b'a'; len];
                    bytes[place] = stop;
                    assert_eq!(plain_run(&bytes, 0), plain(&bytes, 0), "{stop} at {place} of {len}");
                    assert_eq!(plain_run(&bytes, len / 2), plain(&bytes, len / 2));
                }
            }
        }
    }

    #[test]
    fn escapes_are_found() {
        for len in 0..50 {
            assert_eq!(escape_from(&vec![b'"'; len], 0), len);
            for place in 0..len {
                let mut bytes = vec![b'a'; len];
                bytes[place] = b'\\';
                assert_eq!(escape_from(&bytes, place / 2), place);
                assert_eq!(escape_from(&bytes, place + 1), len);
            }
        }
    }

    #[test]
    fn all_stops_of_a_chunk_are_told() {
        let chunk: [u8; 64] = std::array::from_fn(|i| (i * 7) as u8);
        let stops = (0..64).filter(|i| matches!(chunk[*i], b'"' | b'\\') || chunk[*i] < 0x20);
        assert_eq!(stops_of(&chunk), stops.fold(0, |bits, i| bits | 1 << i));
        assert!(stops_in(&chunk));
        let eights = (0..64).filter(|i| chunk[*i] == 56).fold(0_u64, |bits, i| bits | 1 << i);
        assert_eq!((each(&chunk, 56), eights.count_ones()), (eights, 1));
    }

    #[test]
    fn what_is_escaped_is_told_as_one_byte_after_the_other_tells_it() {
        let plain = |slashes: u64| {
            let (mut told, mut at) = (0_u64, 0);
            while at < 63 {
                if slashes >> at & 1 == 1 {
                    told |= 1 << (at + 1);
                    at += 1;
                }
                at += 1;
            }
            told
        };
        for bits in 0..=u16::MAX {
            let bits = u64::from(bits);
            let spread = bits << 48 | (bits.reverse_bits() >> 16) | bits << 7;
            for slashes in [bits, bits << 48, bits << 23, spread, !spread, u64::MAX << (bits & 63)] {
                assert_eq!(escaped_by(slashes), plain(slashes), "{slashes:b}");
            }
        }
    }

    #[test]
    fn digits_are_counted_and_read() {
        for text in ["", "7", "42", "0012", "123", "1234", "12345", "123456", "1234567", "12345678"] {
            for rest in ["", ".5", "e3", ",", "}", "/", ":", "\u{FF}", "\u{0}"] {
                let mut bytes = [b' '; 8];
                for (to, from) in bytes.iter_mut().zip(text.bytes().chain(rest.bytes())) {
                    *to = from;
                }
                let expected = (text.len(), text.parse().unwrap_or(0));
                assert_eq!(digits(u64::from_le_bytes(bytes)), expected, "{text}{rest}");
            }
        }
    }

    #[test]
    fn words_are_cut() {
        let word = u128::from_le_bytes(*b"abcdefghijklmnop");
        assert_eq!(lowest(word, 0), 0);
        assert_eq!(lowest(word, 3), u128::from(u32::from_le_bytes(*b"abc\0")));
        assert_eq!(lowest(word, 16), word);
    }
}
