//! Rows grouped by key: the segmented kernel of all rules over groups.
//!
//! O(n log n) for n rows; the order within a segment is that of the rows, so that sums do not move.

use super::decisions::{Compared, Rollouts};
use super::sum::pairwise;
use crate::schema::Reason;

/// Rows sorted by a key.
#[derive(Debug, Default)]
pub struct Segments {
    sorted: Vec<(u128, u32)>,
}

impl Segments {
    /// Sorts rows by `keys`.
    pub fn by(&mut self, keys: impl Iterator<Item = u128>) {
        self.sorted.clear();
        self.sorted.extend(keys.zip(0..));
        self.sorted.sort_unstable();
    }

    /// Each segment: its rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = &[(u128, u32)]> {
        self.sorted.chunk_by(|a, b| a.0 == b.0)
    }
}

/// How the numbers of a segment are scaled once they are centered.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scale {
    /// Not at all.
    None,
    /// By so much.
    Factor(f64),
    /// By the standard deviation: degrees of freedom, ε added to it.
    Deviation(i64, f64),
    /// By the root of the variance: degrees of freedom, ε added to the variance.
    Whitened(i64, f64),
}

/// Mean and divisor of numbers that are counted in `unit`, and what makes the result plain again.
struct Center {
    unit: f64,
    mean: f64,
    divisor: f64,
    back: f64,
}

/// Of numbers that are not all equal; `out` is longer by some numbers while it runs, and as before afterwards.
fn center_of(numbers: &[f64], scale: Scale, out: &mut Vec<f64>) -> Center {
    let n = numbers.len();
    let from = out.len();
    let unit = unit_of(numbers);
    // what is summed takes the place of the results until its sum is known
    out.extend(numbers.iter().map(|x| x / unit));
    let mean = pairwise(&out[from..]) / n as f64;
    let mut variance = |ddof: i64| {
        out.truncate(from);
        out.extend(numbers.iter().map(|x| (x / unit - mean) * (x / unit - mean)));
        pairwise(&out[from..]) / (n as i64 - ddof) as f64
    };
    // Numbers are in units; what is not divided by a deviation has to be multiplied back, which is exact.
    let (divisor, back) = match scale {
        Scale::None => (1.0, unit),
        Scale::Factor(factor) => (1.0 / factor, unit),
        Scale::Deviation(ddof, epsilon) => (variance(ddof).sqrt() + epsilon / unit, 1.0),
        Scale::Whitened(ddof, epsilon) => ((variance(ddof) + epsilon / unit / unit).sqrt(), 1.0),
    };
    out.truncate(from);
    Center { unit, mean, divisor, back }
}

/// What is closer than this part of the larger magnitude is equal: sums of rewards that are equal on paper differ in their
/// last bits, and no reward is meant to 12 digits.
const ROUNDING: f64 = 1e-12;

/// Whether the smallest and the largest of some numbers are equal to rounding.
#[must_use]
pub fn alike(smallest: f64, largest: f64) -> bool {
    largest - smallest <= ROUNDING * largest.abs().max(smallest.abs())
}

/// Whether numbers say nothing, being less than two or all equal to rounding.
#[must_use]
pub fn silent(numbers: &[f64]) -> bool {
    let Some((&first, rest)) = numbers.split_first() else { return true };
    if rest.is_empty() {
        return true;
    }
    let (mut smallest, mut largest, mut known) = (first, first, !first.is_nan());
    for &x in rest {
        smallest = smallest.min(x);
        largest = largest.max(x);
        known &= !x.is_nan();
    }
    known && alike(smallest, largest)
}

/// The mean of numbers, of which there is one at least, and what [`standardize`] divides by; no divisor where they say
/// nothing.
#[must_use]
pub fn center(numbers: &[f64], scale: Scale) -> (f64, Option<f64>) {
    if silent(numbers) {
        return (numbers.first().copied().unwrap_or(f64::NAN), None);
    }
    let Center { unit, mean, divisor, back } = center_of(numbers, scale, &mut Vec::new());
    (mean * unit, Some(divisor * (unit / back)))
}

/// Appends `x - mean`, scaled, to `out`. Returns whether the numbers say nothing, being less than two or all equal to
/// rounding: they are exactly 0 then. Two passes in f64, of pairwise sums.
pub fn standardize(numbers: &[f64], scale: Scale, out: &mut Vec<f64>) -> bool {
    if silent(numbers) {
        out.resize(out.len() + numbers.len(), 0.0);
        return true;
    }
    let Center { unit, mean, divisor, back } = center_of(numbers, scale, out);
    out.extend(numbers.iter().map(|x| (x / unit - mean) / divisor * back));
    false
}

/// Numbers of which the i-th stands for `weights[i]` equal ones: unit, mean and deviation in it, number of ones; none
/// where they say nothing.
fn center_weighted(
    numbers: &[f64],
    weights: &[f64],
    ddof: i64,
    epsilon: f64,
    out: &mut Vec<f64>,
) -> Option<(f64, f64, f64)> {
    let total = pairwise(weights);
    if total < 2.0 || silent(numbers) {
        return None;
    }
    let from = out.len();
    let unit = unit_of(numbers);
    out.extend(numbers.iter().zip(weights).map(|(x, w)| w * (x / unit)));
    let mean = pairwise(&out[from..]) / total;
    out.truncate(from);
    out.extend(numbers.iter().zip(weights).map(|(x, w)| w * ((x / unit - mean) * (x / unit - mean))));
    let deviation = (pairwise(&out[from..]) / (total - ddof as f64)).sqrt() + epsilon / unit;
    out.truncate(from);
    Some((unit, mean, deviation))
}

/// Like [`center`] for numbers of which the i-th stands for `weights[i]` equal ones; scaled by the deviation.
#[must_use]
pub fn weighted_center(numbers: &[f64], weights: &[f64], ddof: i64, epsilon: f64) -> (f64, Option<f64>) {
    match center_weighted(numbers, weights, ddof, epsilon, &mut Vec::new()) {
        Some((unit, mean, deviation)) => (mean * unit, Some(deviation * unit)),
        None => (numbers.first().copied().unwrap_or(f64::NAN), None),
    }
}

/// Like [`standardize`] for numbers of which the i-th stands for `weights[i]` equal ones; scaled by the deviation.
pub fn standardize_weighted(
    numbers: &[f64],
    weights: &[f64],
    ddof: i64,
    epsilon: f64,
    out: &mut Vec<f64>,
) -> bool {
    let Some((unit, mean, deviation)) = center_weighted(numbers, weights, ddof, epsilon, out) else {
        out.resize(out.len() + numbers.len(), 0.0);
        return true;
    };
    out.extend(numbers.iter().map(|x| (x / unit - mean) / deviation));
    false
}

/// The power of two below the largest magnitude: dividing by it is exact, and squares neither overflow nor vanish.
pub(super) fn unit_of(numbers: &[f64]) -> f64 {
    const EXPONENT: u64 = 0x7ff0_0000_0000_0000;
    const SMALLEST: f64 = 1e-300_f64;
    let largest = numbers.iter().fold(SMALLEST, |most, x| most.max(x.abs()));
    f64::from_bits(largest.to_bits() & EXPONENT)
}

/// Standardizes `numbers` within the segments of `keys`: the value of every row, and `group.degenerate` where its
/// segment says nothing.
pub fn standardize_by_key(group: &Rollouts<'_>, numbers: &[f64], scale: Scale, out: &mut Compared) {
    out.begin(numbers.len());
    out.segments.by(group.key.iter().copied());
    let Compared { value, reason, segments, gathered, scaled } = out;
    for segment in segments.iter() {
        gathered.clear();
        gathered.extend(segment.iter().map(|&(_, row)| numbers[row as usize]));
        scaled.clear();
        let degenerate = standardize(gathered, scale, scaled);
        for (&(_, row), scaled) in segment.iter().zip(&*scaled) {
            value[row as usize] = *scaled;
            reason[row as usize] = degenerate.then_some(Reason::GroupDegenerate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales() {
        let numbers = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0];
        for (scale, one, zero) in [
            (Scale::None, 0.625, -0.375),
            (Scale::Factor(8.0 / 7.0), 0.7143, -0.4286),
            (Scale::Deviation(1, 0.0), 1.2076, -0.7246),
            (Scale::Deviation(0, 0.0), 1.2910, -0.7746),
            (Scale::Whitened(1, 0.0), 1.2076, -0.7246),
        ] {
            let mut out = vec![9.0];
            assert!(!standardize(&numbers, scale, &mut out));
            for (a, x) in out[1..].iter().zip(numbers) {
                assert!((a - if x > 0.0 { one } else { zero }).abs() < 5e-5, "{scale:?} {a}");
            }
        }
    }

    #[test]
    fn numbers_that_say_nothing_are_exactly_zero() {
        // the same on paper, in two ways of adding
        let sums = [0.1 + 0.2, 0.3, 0.1 + 0.2, 0.3];
        for numbers in
            [&[][..], &[7.0], &[0.1; 3], &sums, &[0.7 * 3.0, 2.1, 2.1], &[1e300, 1e300 * (1.0 + 1e-13)]]
        {
            let mut out = Vec::new();
            assert!(standardize(numbers, Scale::Deviation(0, 1e-6), &mut out));
            assert!(out.iter().all(|x| x.to_bits() == 0));
            assert_eq!(out.len(), numbers.len());
        }
    }

    #[test]
    fn extreme_numbers_give_numbers() {
        let of = |numbers: &[f64], epsilon| {
            let mut out = Vec::new();
            standardize(numbers, Scale::Deviation(1, epsilon), &mut out);
            out
        };
        let wanted = of(&[1.0, -1.0, 1.0], 1e-6);
        for size in [1e308, 1.7e308, 2.0_f64.powi(600)] {
            let got = of(&[size, -size, size], 1e-6);
            assert!(got.iter().zip(&wanted).all(|(a, b)| (a - b).abs() < 1e-5), "{got:?}");
        }
        for spread in [5e-324, 1e-300, 1e-200, f64::EPSILON] {
            assert!((of(&[0.0, spread], 0.0)[0] + 0.5_f64.sqrt()).abs() < 1e-12, "{spread}");
            assert_eq!(of(&[1.0, 1.0 + f64::EPSILON], 0.0), [0.0, 0.0]);
            assert!((of(&[1.0, 1.0 + 1e-11], 0.0)[0] + 0.5_f64.sqrt()).abs() < 1e-4);
        }
    }

    #[test]
    fn weights_are_repetitions() {
        let (mut once, mut repeated) = (Vec::new(), Vec::new());
        standardize_weighted(&[1.0, 4.0, 2.0], &[2.0, 1.0, 3.0], 1, 1e-6, &mut once);
        standardize(&[1.0, 1.0, 4.0, 2.0, 2.0, 2.0], Scale::Deviation(1, 1e-6), &mut repeated);
        for (a, b) in once.iter().zip([repeated[0], repeated[2], repeated[3]]) {
            assert!((a - b).abs() < 1e-12);
        }
        assert!(standardize_weighted(&[3.0], &[1.0], 1, 0.0, &mut once));
    }

    #[test]
    fn centers_are_those_that_numbers_are_standardized_by() {
        for numbers in [&[1.0, 0.0, 0.0, 1.5][..], &[1e300, -1e299, 3e299], &[1e-280, 0.0]] {
            for scale in [Scale::None, Scale::Factor(2.0), Scale::Deviation(1, 0.1), Scale::Whitened(0, 1e-3)]
            {
                let mut wanted = Vec::new();
                standardize(numbers, scale, &mut wanted);
                let (mean, divisor) = center(numbers, scale);
                for (x, want) in numbers.iter().zip(&wanted) {
                    let got = (x - mean) / divisor.unwrap();
                    assert!((got - want).abs() <= 1e-12 * want.abs(), "{scale:?} {got} {want}");
                }
            }
        }
        assert_eq!(center(&[0.1; 3], Scale::Deviation(1, 0.0)), (0.1, None));
        let (mean, divisor) = weighted_center(&[1.0, 4.0], &[2.0, 1.0], 1, 0.5);
        assert!((mean - 2.0).abs() < 1e-12 && (divisor.unwrap() - 3.0_f64.sqrt() - 0.5).abs() < 1e-12);
        assert_eq!(weighted_center(&[4.0], &[1.0], 1, 0.5), (4.0, None));
    }

    #[test]
    fn segments_keep_the_order_of_rows() {
        let mut segments = Segments::default();
        segments.by([5, 3, 5, 3, 9].into_iter());
        let rows: Vec<Vec<u32>> = segments.iter().map(|s| s.iter().map(|r| r.1).collect()).collect();
        assert_eq!(rows, [vec![1, 3], vec![0, 2], vec![4]]);
    }
}
