//! Keyed random streams: a draw depends on the user's seed, its purpose and the number of draws before it, never on
//! threads, file order or a shared generator.
//!
//! `ChaCha8` takes the seed as key and a hash of (label, id) as stream, so a stream can be opened anywhere
//! at no cost. The conversions to ranges, floats and permutations are ours, because those of the `rand`
//! crates may change their values between versions.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// One stream of random numbers.
///
/// ```
/// use orchestrace_core::rng::Stream;
/// let draw = |id: &str| Stream::new(7, "shapley", id.as_bytes()).below(1000);
/// assert_eq!(draw("trace-1"), draw("trace-1"));
/// assert_ne!(draw("trace-1"), draw("trace-2"));
/// ```
#[derive(Debug, Clone)]
pub struct Stream {
    rng: ChaCha8Rng,
}

impl Stream {
    /// The stream of `id` for the purpose `label` under the user's seed.
    #[must_use]
    pub fn new(seed: u64, label: &str, id: &[u8]) -> Self {
        let mut key = [0u8; 32];
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut rng = ChaCha8Rng::from_seed(key);
        // The label's hash seeds the id's, so that ("ab", "c") and ("a", "bc") are two streams.
        rng.set_stream(xxh3_64_with_seed(id, xxh3_64(label.as_bytes())));
        Self { rng }
    }

    /// The stream of a number, the same as that of its eight bytes, little end first.
    #[must_use]
    pub fn numbered(seed: u64, label: &str, id: u64) -> Self {
        Self::new(seed, label, &id.to_le_bytes())
    }

    /// Goes to a position counted in 32-bit words from the start of the stream.
    pub fn seek(&mut self, word: u64) {
        self.rng.set_word_pos(u128::from(word));
    }

    /// 32 random bits, one word of the stream.
    #[inline]
    pub fn bits32(&mut self) -> u32 {
        self.rng.next_u32()
    }

    /// 64 random bits, two words of the stream.
    #[inline]
    pub fn bits64(&mut self) -> u64 {
        self.rng.next_u64()
    }

    /// A number from `0..n`, each equally likely; 0 if `n` is 0.
    ///
    /// Lemire's multiplication with rejection (arXiv 1805.10941). Takes one word per attempt up to
    /// `n = u32::MAX` and two above.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        match u32::try_from(n) {
            Ok(n) => u64::from(self.below32(n)),
            Err(_) => self.below64(n),
        }
    }

    #[inline]
    fn below32(&mut self, n: u32) -> u32 {
        let mut wide = u64::from(self.bits32()) * u64::from(n);
        // Only a low half under n can belong to an over-full bucket; the modulo is left for that case.
        if (wide as u32) < n {
            let threshold = n.wrapping_neg().checked_rem(n).unwrap_or(0);
            while (wide as u32) < threshold {
                wide = u64::from(self.bits32()) * u64::from(n);
            }
        }
        (wide >> 32) as u32
    }

    fn below64(&mut self, n: u64) -> u64 {
        let threshold = n.wrapping_neg().checked_rem(n).unwrap_or(0);
        loop {
            let wide = u128::from(self.bits64()) * u128::from(n);
            if wide as u64 >= threshold {
                return (wide >> 64) as u64;
            }
        }
    }

    /// A number from `low..high`; `low` if the range is empty.
    #[inline]
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low))
    }

    /// A float from `[0, 1)` on the grid of 2⁻⁵³.
    #[inline]
    pub fn unit_f64(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        (self.bits64() >> 11) as f64 * STEP
    }

    /// True with probability `p`, to the next 2⁻³²; never for `p <= 0`, always for `p >= 1`.
    #[inline]
    pub fn bool(&mut self, p: f64) -> bool {
        const SPAN: f64 = (1u64 << 32) as f64;
        f64::from(self.bits32()) < p * SPAN
    }

    /// Permutes in place, every order equally likely (Fisher and Yates, from the end).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, self.below(i as u64 + 1) as usize);
        }
    }

    /// One of the items, or none of none.
    pub fn pick<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        let at = self.below(items.len() as u64) as usize;
        items.get(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream() -> Stream {
        Stream::new(42, "test", b"trace-1")
    }

    #[test]
    fn bits_are_fixed_for_ever() {
        let mut s = stream();
        assert_eq!([s.bits64(), s.bits64(), s.bits64()], BITS);
        let mut s = stream();
        assert_eq!([0; 8].map(|_: u64| s.below(1000)), BELOW);
        let mut s = stream();
        assert_eq!([0; 2].map(|_: u64| s.below(1 << 40)), BELOW_WIDE);
        let mut s = stream();
        assert_eq!([0; 3].map(|_: u64| s.unit_f64().to_bits()), UNIT);
        let mut s = stream();
        let mut order = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        s.shuffle(&mut order);
        assert_eq!(order, ORDER);
        assert_eq!(Stream::numbered(0, "", 0).bits64(), NUMBERED);
    }

    const BITS: [u64; 3] = [8_324_057_840_418_217_254, 16_051_255_609_789_377_462, 7_089_069_587_929_695_445];
    const BELOW: [u64; 8] = [796, 451, 80, 870, 64, 384, 126, 84];
    const BELOW_WIDE: [u64; 2] = [496_152_510_667, 956_729_388_820];
    const UNIT: [u64; 3] = [4_601_800_582_652_689_334, 4_606_012_746_698_493_885, 4_600_594_539_437_368_512];
    const ORDER: [i32; 10] = [8, 2, 3, 5, 1, 9, 6, 0, 4, 7];
    const NUMBERED: u64 = 1_938_711_102_721_942_088;

    #[test]
    fn key_is_seed_label_and_id() {
        let first = |seed, label: &str, id: &[u8]| Stream::new(seed, label, id).bits64();
        let base = first(1, "ab", b"c");
        assert_eq!(base, first(1, "ab", b"c"));
        assert_ne!(base, first(2, "ab", b"c"));
        assert_ne!(base, first(1, "a", b"bc"));
        assert_ne!(base, first(1, "ab", b"d"));
        assert_eq!(Stream::numbered(1, "x", 258).bits64(), first(1, "x", &[2, 1, 0, 0, 0, 0, 0, 0]));
    }

    #[test]
    fn seek_counts_words() {
        let mut walked = stream();
        for _ in 0..1001 {
            walked.bits32();
        }
        let mut jumped = stream();
        jumped.seek(1001);
        assert_eq!(walked.bits64(), jumped.bits64());
        jumped.seek(0);
        assert_eq!(jumped.bits64(), stream().bits64());
    }

    #[test]
    fn below_is_in_range_and_even() {
        let mut s = stream();
        assert_eq!(s.below(0), 0);
        assert_eq!(s.below(1), 0);
        for n in [3, 1000, u64::from(u32::MAX), 1 << 32, u64::MAX] {
            assert!((0..200).all(|_| s.below(n) < n));
        }
        let mut seen = [0u32; 7];
        for _ in 0..70_000 {
            seen[s.below(7) as usize] += 1;
        }
        // Six standard deviations of a binomial count.
        assert!(seen.iter().all(|&c| c.abs_diff(10_000) < 560), "{seen:?}");
        // A range of 2/3 of 2^32 is where a multiplication without rejection is far off.
        let n = (1u64 << 32) / 3 * 2;
        let low = (0..30_000).filter(|_| s.below(n).is_multiple_of(2)).count();
        assert!(low.abs_diff(15_000) < 520, "{low}");
    }

    #[test]
    fn floats_and_flags_keep_their_bounds() {
        let mut s = stream();
        let mean =
            (0..20_000).map(|_| s.unit_f64()).inspect(|x| assert!((0.0..1.0).contains(x))).sum::<f64>()
                / 20_000.0;
        assert!((mean - 0.5).abs() < 0.013, "{mean}");
        assert!((0..1000).all(|_| !s.bool(0.0) && s.bool(1.0)));
        let yes = (0..20_000).filter(|_| s.bool(0.25)).count();
        assert!(yes.abs_diff(5000) < 370, "{yes}");
        assert_eq!(s.range(5, 5), 5);
        assert!((0..100).all(|_| (5..8).contains(&s.range(5, 8))));
        assert_eq!(s.pick::<u8>(&[]), None);
        assert!(s.pick(&[1, 2]).is_some());
    }

    #[test]
    fn every_order_comes_up() {
        let mut s = stream();
        let mut seen = [0u32; 6];
        for _ in 0..6000 {
            let mut items = [0usize, 1, 2];
            s.shuffle(&mut items);
            seen[items[0] * 2 + usize::from(items[1] > items[2])] += 1;
        }
        assert!(seen.iter().all(|&c| c.abs_diff(1000) < 175), "{seen:?}");
    }
}
