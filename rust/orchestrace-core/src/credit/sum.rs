//! Compensated sums in a fixed order, whose error does not grow with the number of terms.

/// A running sum that carries its rounding error (Neumaier 1974).
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Compensated {
    sum: f64,
    error: f64,
}

impl Compensated {
    /// Adds a term.
    #[inline]
    pub fn add(&mut self, x: f64) {
        Self::add_in(&mut self.sum, &mut self.error, x);
    }

    /// Adds a term to a sum whose parts lie in two columns.
    #[inline]
    pub fn add_in(part: &mut f64, error: &mut f64, x: f64) {
        let sum = *part + x;
        *error += if part.abs() >= x.abs() { (*part - sum) + x } else { (x - sum) + *part };
        *part = sum;
    }

    /// The sum.
    #[must_use]
    pub fn value(self) -> f64 {
        self.sum + self.error
    }
}

/// Pairwise sum with four fixed lanes: error O(ε log n), one order whatever the machine.
#[must_use]
pub fn pairwise(values: &[f64]) -> f64 {
    const BLOCK: usize = 256;
    if values.len() > BLOCK {
        // halves cut at whole blocks, so that lanes stay full
        let (left, right) = values.split_at(values.len().div_ceil(2 * BLOCK) * BLOCK);
        return pairwise(left) + pairwise(right);
    }
    let (fours, rest) = values.as_chunks::<4>();
    let mut lanes = [0.0; 4];
    for four in fours {
        for (lane, x) in lanes.iter_mut().zip(four) {
            *lane += x;
        }
    }
    (lanes[0] + lanes[1]) + (lanes[2] + lanes[3]) + rest.iter().sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_terms_are_not_lost() {
        let mut sum = Compensated::default();
        for x in [1.0, 1e100, 1.0, -1e100] {
            sum.add(x);
        }
        assert_eq!(sum.value(), 2.0);
        assert_eq!(Compensated::default().value(), 0.0);
    }

    #[test]
    fn pairwise_is_accurate_at_any_length() {
        for n in [0, 1, 3, 4, 255, 256, 257, 513, 100_000] {
            let got = pairwise(&vec![0.1; n]);
            assert!((got - 0.1 * n as f64).abs() <= 1e-13 * n as f64, "{n}: {got}");
        }
    }
}
