//! Generalised advantages along sequences of rows.
//!
//! ```text
//! A_t = δ_t + γλ A_{t+1},  δ_t = r_t + γ V_{t+1} - V_t
//! ```
//!
//! A sequence is one worker's, so that threads do not show. O(n). Definition: ARCHITECTURE.md, D14.

use rayon::prelude::*;

use super::{ROWS_AT_A_TIME, same_length};
use crate::error::{Error, Result};
use crate::run::Run;

/// Sequences of rows, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Sequences<'a> {
    /// Where each begins; the last number is where the last one ends.
    pub offsets: &'a [i64],
    /// Rows in the order of time, those of a sequence among themselves; `None`: as they stand.
    pub order: Option<&'a [i64]>,
}

/// Generalised advantages along every sequence, `fading` being γλ; without `critics`, and with λ = 1, returns.
pub fn generalised(
    rewards: &[f64],
    critics: Option<&[f64]>,
    sequences: &Sequences<'_>,
    gamma: f64,
    fading: f64,
    run: &Run,
) -> Result<Vec<f64>> {
    let n = rewards.len();
    if let Some(critics) = critics {
        same_length("values", critics.len(), "rewards", n)?;
    }
    if let Some(order) = sequences.order {
        same_length("order", order.len(), "rewards", n)?;
    }
    let offsets = sequences.offsets;
    let ends = offsets.first() == Some(&0) && offsets.last() == Some(&(n as i64));
    if !ends || offsets.windows(2).any(|w| w[0] > w[1]) {
        return Err(Error::Parameter(format!(
            "offsets are not ascending numbers from 0 to {n}, the number of rewards"
        )));
    }
    run.check()?;
    let mut out = vec![0.0; n];
    let (discounts, pieces) = (Discounts { gamma, fading }, pieces(offsets, &mut out));
    run.pool().install(|| {
        pieces.into_par_iter().try_for_each(|(places, out)| {
            run.check()?;
            along(rewards, critics, offsets, sequences.order, places, discounts, out)
        })
    })?;
    Ok(out)
}

/// Sequences in pieces of about [`ROWS_AT_A_TIME`] rows: their numbers, and room for what they give.
fn pieces<'a>(offsets: &[i64], mut out: &'a mut [f64]) -> Vec<(std::ops::Range<usize>, &'a mut [f64])> {
    let mut pieces = Vec::new();
    let (mut from, mut begins) = (0, offsets[0]);
    for (i, &end) in offsets.iter().enumerate().skip(1) {
        let rows = (end - begins) as usize;
        if rows >= ROWS_AT_A_TIME || i + 1 == offsets.len() {
            let (piece, rest) = std::mem::take(&mut out).split_at_mut(rows);
            pieces.push((from..i, piece));
            (from, begins, out) = (i, end, rest);
        }
    }
    pieces
}

/// γ and γλ.
#[derive(Debug, Clone, Copy)]
struct Discounts {
    gamma: f64,
    fading: f64,
}

fn along(
    rewards: &[f64],
    critics: Option<&[f64]>,
    offsets: &[i64],
    order: Option<&[i64]>,
    sequences: std::ops::Range<usize>,
    discounts: Discounts,
    mut out: &mut [f64],
) -> Result<()> {
    let mut waiting: Option<Sequence<'_>> = None;
    for i in sequences {
        let (from, end) = (offsets[i] as usize, offsets[i + 1] as usize);
        let (own, rest) = std::mem::take(&mut out).split_at_mut(end - from);
        out = rest;
        let mut sequence = Sequence {
            number: i,
            from,
            rewards: &rewards[from..end],
            critics: critics.map(|critics| &critics[from..end]),
            out: own,
            next_critic: 0.0,
            next: 0.0,
        };
        let order = order.map_or(&[][..], |order| &order[from..end]);
        // without an early exit it takes wide registers
        if order.iter().zip(offsets[i]..).fold(0, |other, (&row, own)| other | (row ^ own)) != 0 {
            sequence.in_order(order, discounts)?;
            continue;
        }
        if discounts.fading == 0.0 {
            sequence.walk(discounts)?;
            continue;
        }
        // a step waits for the one before it; those of two sequences do not wait for each other
        waiting = match waiting.take() {
            None => Some(sequence),
            Some(other) => abreast(other, sequence, discounts)?,
        };
    }
    waiting.map_or(Ok(()), |mut last| last.walk(discounts))
}

/// What is left of a sequence that is walked from its end.
struct Sequence<'a> {
    number: usize,
    from: usize,
    rewards: &'a [f64],
    critics: Option<&'a [f64]>,
    out: &'a mut [f64],
    next_critic: f64,
    next: f64,
}

impl<'a> Sequence<'a> {
    fn walk(&mut self, Discounts { gamma, fading }: Discounts) -> Result<()> {
        let mut step = Step { next_critic: self.next_critic, next: self.next };
        match self.critics {
            Some(critics) => {
                for ((&reward, &critic), out) in self.rewards.iter().zip(critics).zip(&mut *self.out).rev() {
                    *out = step.take(reward, critic, gamma, fading);
                }
            }
            None => {
                for (&reward, out) in self.rewards.iter().zip(&mut *self.out).rev() {
                    *out = step.take(reward, 0.0, gamma, fading);
                }
            }
        }
        self.check(step, fading)
    }

    fn in_order(&mut self, order: &[i64], Discounts { gamma, fading }: Discounts) -> Result<()> {
        // what is still none at the end was left out
        self.out.fill(f64::NAN);
        let mut step = Step { next_critic: 0.0, next: 0.0 };
        for &row in order.iter().rev() {
            let place = (row as usize).wrapping_sub(self.from);
            let Some(&reward) = self.rewards.get(place) else {
                let (from, end) = (self.from, self.from + self.rewards.len());
                return Err(Error::Parameter(format!(
                    "order has row {row} among those of the sequence from {from} to {end}, expected its own rows"
                )));
            };
            let critic = self.critics.map_or(0.0, |critics| critics[place]);
            self.out[place] = step.take(reward, critic, gamma, fading);
        }
        self.check(step, fading)?;
        if self.out.iter().any(|x| x.is_nan()) {
            return Err(Error::Parameter(format!("order names a row of sequence {} twice", self.number)));
        }
        Ok(())
    }

    /// What is no finite number stays one to the beginning, unless nothing is carried there.
    fn check(&self, step: Step, fading: f64) -> Result<()> {
        if step.next.is_finite() && (fading > 0.0 || self.out.iter().all(|x| x.is_finite())) {
            return Ok(());
        }
        Err(Error::Parameter(format!(
            "sequence {} has a reward, a value or a sum of them that is no finite number",
            self.number
        )))
    }

    /// The last rows, and what stands before them.
    fn split(self, at: usize) -> (Self, &'a [f64], Option<&'a [f64]>, &'a mut [f64]) {
        let (before, rewards) = self.rewards.split_at(at);
        let critics = self.critics.map(|critics| critics.split_at(at));
        let (out_before, out) = self.out.split_at_mut(at);
        let rest = Self { rewards: before, critics: critics.map(|c| c.0), out: out_before, ..self };
        (rest, rewards, critics.map(|c| c.1), out)
    }
}

/// Walks two sequences as far as the shorter one goes. What is left of the longer one.
fn abreast<'a>(
    a: Sequence<'a>,
    b: Sequence<'a>,
    Discounts { gamma, fading }: Discounts,
) -> Result<Option<Sequence<'a>>> {
    let steps = a.rewards.len().min(b.rewards.len());
    let at = [a.rewards.len() - steps, b.rewards.len() - steps];
    let step = |of: &Sequence<'_>| Step { next_critic: of.next_critic, next: of.next };
    let (mut first, mut second) = (step(&a), step(&b));
    let (mut a, a_rewards, a_critics, a_out) = a.split(at[0]);
    let (mut b, b_rewards, b_critics, b_out) = b.split(at[1]);
    if let (Some(a_critics), Some(b_critics)) = (a_critics, b_critics) {
        let a_rows = a_rewards.iter().zip(a_critics).zip(a_out).rev();
        let b_rows = b_rewards.iter().zip(b_critics).zip(b_out).rev();
        for (((r, v), out), ((s, w), other)) in a_rows.zip(b_rows) {
            *out = first.take(*r, *v, gamma, fading);
            *other = second.take(*s, *w, gamma, fading);
        }
    } else {
        let rows = a_rewards.iter().zip(a_out).rev().zip(b_rewards.iter().zip(b_out).rev());
        for ((r, out), (s, other)) in rows {
            *out = first.take(*r, 0.0, gamma, fading);
            *other = second.take(*s, 0.0, gamma, fading);
        }
    }
    a.check(first, fading)?;
    b.check(second, fading)?;
    (a.next_critic, a.next) = (first.next_critic, first.next);
    (b.next_critic, b.next) = (second.next_critic, second.next);
    Ok([a, b].into_iter().find(|sequence| !sequence.rewards.is_empty()))
}

/// Where a walk is.
#[derive(Clone, Copy)]
struct Step {
    next_critic: f64,
    next: f64,
}

impl Step {
    #[inline]
    fn take(&mut self, reward: f64, critic: f64, gamma: f64, fading: f64) -> f64 {
        self.next = (reward + gamma * self.next_critic - critic) + fading * self.next;
        self.next_critic = critic;
        self.next
    }
}
#[cfg(test)]
mod tests {
    use super::super::tests::{close, on};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn mistakes_are_one_line() {
        let along = |rewards: &[f64], offsets: &[i64], order: Option<&[i64]>| {
            let sequences = Sequences { offsets, order };
            on(1, |run| generalised(rewards, None, &sequences, 1.0, 1.0, run).map_err(|e| e.to_string()))
        };
        assert!(along(&[1.0], &[0, 2], None).unwrap_err().contains("offsets"));
        assert!(along(&[1.0], &[0, 1, 0, 1], None).unwrap_err().contains("offsets"));
        assert!(along(&[1.0, f64::INFINITY], &[0, 2], None).unwrap_err().contains("finite"));
        assert!(along(&[1.0, 2.0], &[0, 1, 2], Some(&[1, 0])).unwrap_err().contains("order has row 1"));
        assert!(along(&[1.0, 2.0], &[0, 2], Some(&[1, 1])).unwrap_err().contains("twice"));
        assert!(along(&[1.0, 2.0], &[0, 2], Some(&[-1, 0])).unwrap_err().contains("order has row -1"));
        assert_eq!(along(&[], &[0], None).unwrap(), [0.0; 0]);
        assert_eq!(along(&[1.0, 2.0], &[0, 0, 2, 2], Some(&[1, 0])).unwrap(), [1.0, 3.0]);
    }

    proptest! {
        #[test]
        fn generalised_is_the_recursion(
            lengths in prop::collection::vec(0_usize..9, 0..9),
            numbers in prop::collection::vec((-2.0..2.0_f64, -2.0..2.0_f64), 80),
            gamma in 0.0..1.0_f64, lambda in 0.0..1.0_f64, with_critic in any::<bool>(), turned in any::<bool>(),
        ) {
            let mut offsets = vec![0_i64];
            for n in lengths {
                offsets.push(offsets[offsets.len() - 1] + n as i64);
            }
            let n = offsets[offsets.len() - 1] as usize;
            let rewards: Vec<f64> = numbers[..n].iter().map(|x| x.0).collect();
            let critics: Vec<f64> = numbers[..n].iter().map(|x| if with_critic { x.1 } else { 0.0 }).collect();
            let order: Vec<i64> = offsets
                .windows(2)
                .flat_map(|w| if turned { (w[0]..w[1]).rev().collect::<Vec<_>>() } else { (w[0]..w[1]).collect() })
                .collect();
            let mut want = vec![0.0; n];
            for w in offsets.windows(2) {
                for k in w[0]..w[1] {
                    let (mut weight, mut sum) = (1.0, 0.0);
                    for j in k..w[1] {
                        let row = order[j as usize] as usize;
                        let after = if j + 1 < w[1] { critics[order[j as usize + 1] as usize] } else { 0.0 };
                        sum += weight * (rewards[row] + gamma * after - critics[row]);
                        weight *= gamma * lambda;
                    }
                    want[order[k as usize] as usize] = sum;
                }
            }
            let sequences = Sequences { offsets: &offsets, order: turned.then_some(&order[..]) };
            let critics = with_critic.then_some(&critics[..]);
            let of = |threads| {
                on(threads, |run| generalised(&rewards, critics, &sequences, gamma, gamma * lambda, run).unwrap())
            };
            close(&of(1), &want);
            prop_assert_eq!(of(1), of(7));
        }
    }
}
