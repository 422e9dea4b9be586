//! Means of draws and their standard errors.
//!
//! Per number: the sum, and the sum of squared deviations by the update of Youngs and Cramer (Technometrics 13(3),
//! 1971), which does not cancel; two tallies merge by the rule of Chan, Golub and `LeVeque` (1979). Sums of whole
//! numbers stay exact.

/// Sums of a row of numbers over many draws.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Tally {
    count: u64,
    sum: Vec<f64>,
    squares: Vec<f64>,
}

impl Tally {
    /// Nothing yet, of `width` numbers a draw.
    #[must_use]
    pub fn new(width: usize) -> Self {
        Self { count: 0, sum: vec![0.0; width], squares: vec![0.0; width] }
    }

    /// Forgets all draws.
    pub fn clear(&mut self) {
        self.count = 0;
        self.sum.fill(0.0);
        self.squares.fill(0.0);
    }

    /// Numbers a draw.
    #[must_use]
    pub fn width(&self) -> usize {
        self.sum.len()
    }

    /// Draws.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Adds a draw.
    pub fn add(&mut self, draw: &[f64]) {
        self.count += 1;
        let n = self.count as f64;
        let share = if self.count > 1 { 1.0 / (n * (n - 1.0)) } else { 0.0 };
        for ((sum, squares), &x) in self.sum.iter_mut().zip(&mut self.squares).zip(draw) {
            *sum += x;
            let away = n * x - *sum;
            *squares += away * away * share;
        }
    }

    /// Adds all draws of `other`, which has as many numbers a draw.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        let (a, b) = (self.count as f64, other.count as f64);
        let share = if self.count > 0 { a / (b * (a + b)) } else { 0.0 };
        let ratio = if self.count > 0 { b / a } else { 0.0 };
        let rows = self.sum.iter_mut().zip(&mut self.squares);
        for ((sum, squares), (&other, &others)) in rows.zip(other.sum.iter().zip(&other.squares)) {
            let away = ratio * *sum - other;
            *squares += others + share * away * away;
            *sum += other;
        }
        self.count += other.count;
    }

    /// Mean of a number; NaN without a draw.
    #[must_use]
    pub fn mean(&self, at: usize) -> f64 {
        self.sum[at] / self.count as f64
    }

    /// Variance of a number over the draws, by n - 1; NaN with fewer than two.
    #[must_use]
    pub fn variance(&self, at: usize) -> f64 {
        if self.count < 2 { f64::NAN } else { self.squares[at] / (self.count - 1) as f64 }
    }

    /// Standard error of a mean; NaN with fewer than two draws.
    #[must_use]
    pub fn stderr(&self, at: usize) -> f64 {
        (self.variance(at) / self.count as f64).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn nothing_and_one_draw_have_no_error() {
        let mut tally = Tally::new(1);
        assert!(tally.mean(0).is_nan());
        tally.add(&[3.0]);
        assert!(tally.mean(0) == 3.0 && tally.stderr(0).is_nan());
        tally.add(&[5.0]);
        assert_eq!((tally.mean(0), tally.variance(0), tally.stderr(0)), (4.0, 2.0, 1.0));
        tally.clear();
        assert_eq!(tally, Tally::new(1));
    }

    #[test]
    fn a_large_mean_does_not_swallow_the_spread() {
        let mut tally = Tally::new(1);
        (0..1000).for_each(|i| tally.add(&[1e9 + f64::from(i % 2)]));
        assert!((tally.variance(0) - 250.0 / 999.0).abs() < 1e-6, "{}", tally.variance(0));
    }

    proptest! {
        #[test]
        fn merging_is_adding(draws in prop::collection::vec((-9.0..9.0_f64, -1.0..1.0_f64), 1..40), at in 0_usize..40) {
            let at = at.min(draws.len());
            let (mut all, mut first, mut second) = (Tally::new(2), Tally::new(2), Tally::new(2));
            for (i, &(x, y)) in draws.iter().enumerate() {
                all.add(&[x, y]);
                if i < at { first.add(&[x, y]) } else { second.add(&[x, y]) }
            }
            first.merge(&second);
            let n = draws.len() as f64;
            let mean = draws.iter().map(|d| d.0).sum::<f64>() / n;
            let squares = draws.iter().map(|d| (d.0 - mean).powi(2)).sum::<f64>();
            prop_assert_eq!(first.count(), all.count());
            for tally in [&all, &first] {
                prop_assert!((tally.mean(0) - mean).abs() < 1e-12);
                prop_assert!((tally.squares[0] - squares).abs() < 1e-9);
            }
            prop_assert!((first.mean(1) - all.mean(1)).abs() < 1e-12);
        }
    }
}
