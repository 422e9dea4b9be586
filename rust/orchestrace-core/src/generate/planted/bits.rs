//! Random bits derived from one drawn number: an event's meaning is a function of its bits, so copies of an event share
//! its meaning. And normal variates without a maths library, whose last bits differ between platforms.

use crate::generate::literals::scatter;

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What bits are for: two purposes of one number are independent.
#[derive(Debug, Clone, Copy)]
#[repr(u64)]
pub(super) enum Purpose {
    Matter = 1,
    Policy,
    Effect,
    Content,
    Decisive,
    Pair,
    Draft,
    Critic,
}

/// `SplitMix64` (Steele, Lea, Flood 2014) from a number and a purpose.
#[derive(Debug, Clone)]
pub(super) struct Bits(u64);

impl Bits {
    pub(super) fn new(number: u64, purpose: Purpose) -> Self {
        Self(scatter(number ^ (purpose as u64).wrapping_mul(GOLDEN)))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        scatter(self.0)
    }

    /// A float from `[0, 1)` on the grid of 2⁻⁵³.
    pub(super) fn unit(&mut self) -> f64 {
        const STEP: f64 = 1.0 / (1u64 << 53) as f64;
        (self.next() >> 11) as f64 * STEP
    }

    /// A number from `0..n` for a small `n`; its bias is below n 2⁻⁶⁴.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(n)) >> 64) as u64
    }
}

/// True with probability `exp(-p)` for `p` in 0..=1: von Neumann's run of falling uniforms.
fn exp_minus(p: f64, unit: &mut impl FnMut() -> f64) -> bool {
    let (mut bound, mut odd) = (p, true);
    loop {
        let drawn = unit();
        if drawn >= bound {
            return odd;
        }
        (bound, odd) = (drawn, !odd);
    }
}

/// A standard normal variate by comparisons of uniforms alone (Karney, arXiv 1303.6257, algorithm N).
pub(super) fn normal(mut unit: impl FnMut() -> f64) -> f64 {
    loop {
        let mut k = 0u32;
        while exp_minus(0.5, &mut unit) {
            k += 1;
        }
        if !(0..k * k.saturating_sub(1)).all(|_| exp_minus(0.5, &mut unit)) {
            continue;
        }
        let (x, steps) = (unit(), f64::from(k));
        // exp(-x(2k + x)/2) as k + 1 factors, each with an exponent below 1.
        let part = x * (2.0 * steps + x) / (2.0 * steps + 2.0);
        if (0..=k).all(|_| exp_minus(part, &mut unit)) {
            return if unit() < 0.5 { -(steps + x) } else { steps + x };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_variates_have_the_moments_and_tails_of_a_normal_law() {
        let mut bits = Bits::new(3, Purpose::Critic);
        let n = 200_000;
        let drawn = (0..n).map(|_| normal(|| bits.unit())).collect::<Vec<_>>();
        let mean = |f: &dyn Fn(f64) -> f64| drawn.iter().map(|&z| f(z)).sum::<f64>() / f64::from(n);
        // Five standard errors: sd of z, z², z³, z⁴ is 1, √2, √15, √96.
        let bound = |sd: f64| 5.0 * sd / f64::from(n).sqrt();
        assert!(mean(&|z| z).abs() < bound(1.0));
        assert!((mean(&|z| z * z) - 1.0).abs() < bound(1.415));
        assert!(mean(&|z| z * z * z).abs() < bound(3.873));
        assert!((mean(&|z| z * z * z * z) - 3.0).abs() < bound(9.798));
        for (z0, share) in [(0.5, 0.617_075), (1.0, 0.317_311), (1.96, 0.049_996), (3.0, 0.002_700)] {
            let seen = mean(&|z| f64::from(u8::from(z.abs() > z0)));
            assert!((seen - share).abs() < bound((share * (1.0 - share)).sqrt()), "{z0}: {seen}");
        }
    }

    #[test]
    fn purposes_are_apart() {
        let first = |n, p| Bits::new(n, p).next();
        assert_ne!(first(1, Purpose::Effect), first(1, Purpose::Content));
        assert_ne!(first(1, Purpose::Effect), first(2, Purpose::Effect));
        let mut bits = Bits::new(9, Purpose::Draft);
        assert!((0..1000).all(|_| bits.below(7) < 7));
    }
}
