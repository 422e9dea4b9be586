//! Generalized advantages along sequences of rows.
//!
//! ```text
//! A_t = δ_t + γλ A_{t+1},  δ_t = r_t + γ V_{t+1} - V_t
//! ```
//!
//! A sequence is one worker's, so that threads do not show. O(n). Definition: docs/reference/definitions.md, D14.

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

/// Generalized advantages along every sequence, `fading` being γλ; without `critics`, and with λ = 1, returns. They are
/// written into `out`, whatever is in it: memory that was used before costs no first touch of its pages.
pub fn generalized(
    rewards: &[f64],
    critics: Option<&[f64]>,
    sequences: &Sequences<'_>,
    gamma: f64,
    fading: f64,
    mut out: Vec<f64>,
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
    out.resize(n, 0.0);
    let (discounts, pieces) = (Discounts { gamma, fading }, pieces(offsets, &mut out));
    run.share(pieces, |(places, out)| {
        run.check()?;
        along(rewards, critics, offsets, sequences.order, places, discounts, out)
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

/// Sequences that are walked side by side: a step waits for the one before it, those of others do not wait for it.
const ABREAST: usize = 4;

fn along(
    rewards: &[f64],
    critics: Option<&[f64]>,
    offsets: &[i64],
    order: Option<&[i64]>,
    sequences: std::ops::Range<usize>,
    Discounts { gamma, fading }: Discounts,
    mut out: &mut [f64],
) -> Result<()> {
    let mut walks: Vec<Walk<'_>> = Vec::with_capacity(ABREAST);
    for number in sequences {
        let (from, end) = (offsets[number] as usize, offsets[number + 1] as usize);
        let (own, rest) = std::mem::take(&mut out).split_at_mut(end - from);
        out = rest;
        let sequence =
            Sequence { number, from, rewards: &rewards[from..end], critics: critics.map(|c| &c[from..end]) };
        let order = order.map_or(&[][..], |order| &order[from..end]);
        // without an early exit it takes wide registers
        if order.iter().zip(offsets[number]..).fold(0, |other, (&row, own)| other | (row ^ own)) != 0 {
            sequence.in_order(order, gamma, fading, own)?;
            continue;
        }
        sequence.differences(gamma, own);
        // what is no finite number stays one to the beginning, unless nothing is carried there
        if fading == 0.0 && !own.iter().all(|x| x.is_finite()) {
            return Err(no_finite(number));
        }
        walks.push(Walk { number, rest: own, next: 0.0 });
        if walks.len() == ABREAST {
            advance(&mut walks, fading)?;
        }
    }
    while !walks.is_empty() {
        advance(&mut walks, fading)?;
    }
    Ok(())
}

/// A sequence as it is given.
struct Sequence<'a> {
    number: usize,
    from: usize,
    rewards: &'a [f64],
    critics: Option<&'a [f64]>,
}

impl Sequence<'_> {
    /// δ of every row, which depends on no other: in wide registers.
    fn differences(&self, gamma: f64, out: &mut [f64]) {
        let Some(critics) = self.critics else { return out.copy_from_slice(self.rewards) };
        let after = critics.get(1..).unwrap_or_default();
        if let (Some((last, rest)), Some((reward, rewards)), Some((critic, before))) =
            (out.split_last_mut(), self.rewards.split_last(), critics.split_last())
        {
            for (((out, reward), critic), after) in rest.iter_mut().zip(rewards).zip(before).zip(after) {
                *out = reward + gamma * after - critic;
            }
            *last = reward - critic;
        }
    }

    fn in_order(&self, order: &[i64], gamma: f64, fading: f64, out: &mut [f64]) -> Result<()> {
        // what is still none at the end was left out
        out.fill(f64::NAN);
        let (mut after, mut next) = (0.0, 0.0);
        for &row in order.iter().rev() {
            let place = (row as usize).wrapping_sub(self.from);
            let Some(&reward) = self.rewards.get(place) else {
                let (from, end) = (self.from, self.from + self.rewards.len());
                return Err(Error::Parameter(format!(
                    "order lists row {row} in the sequence of rows {from} to {end}, expected only rows of that sequence"
                )));
            };
            let critic = self.critics.map_or(0.0, |critics| critics[place]);
            next = (reward + gamma * after - critic) + fading * next;
            out[place] = next;
            after = critic;
        }
        if !next.is_finite() || (fading == 0.0 && out.iter().any(|x| x.is_infinite())) {
            return Err(no_finite(self.number));
        }
        if out.iter().any(|x| x.is_nan()) {
            return Err(Error::Parameter(format!("order lists a row of sequence {} twice", self.number)));
        }
        Ok(())
    }
}

fn no_finite(number: usize) -> Error {
    Error::Parameter(format!("sequence {number} has a reward, a value or a sum of them that is not finite"))
}

/// What is left of a sequence that is walked from its end: differences, which become advantages.
struct Walk<'a> {
    number: usize,
    rest: &'a mut [f64],
    next: f64,
}

impl Walk<'_> {
    /// Cuts the last rows off.
    fn cut(&mut self, rows: usize) -> &mut [f64] {
        let left = self.rest.len() - rows;
        let (rest, last) = std::mem::take(&mut self.rest).split_at_mut(left);
        self.rest = rest;
        last
    }
}

/// Walks as far as the shortest goes, and takes out who has arrived.
fn advance(walks: &mut Vec<Walk<'_>>, fading: f64) -> Result<()> {
    let steps = walks.iter().map(|walk| walk.rest.len()).min().unwrap_or(0);
    if let [a, b, c, d] = &mut walks[..] {
        let mut next = [a.next, b.next, c.next, d.next];
        let rows = a.cut(steps).iter_mut().zip(b.cut(steps)).zip(c.cut(steps)).zip(d.cut(steps));
        for (((a, b), c), d) in rows.rev() {
            next =
                [*a + fading * next[0], *b + fading * next[1], *c + fading * next[2], *d + fading * next[3]];
            [*a, *b, *c, *d] = next;
        }
        [a.next, b.next, c.next, d.next] = next;
    } else {
        for walk in &mut *walks {
            let mut next = walk.next;
            for row in walk.cut(steps).iter_mut().rev() {
                next = *row + fading * next;
                *row = next;
            }
            walk.next = next;
        }
    }
    if let Some(walk) = walks.iter().find(|walk| walk.rest.is_empty() && !walk.next.is_finite()) {
        return Err(no_finite(walk.number));
    }
    walks.retain(|walk| !walk.rest.is_empty());
    Ok(())
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
            on(1, |run| {
                generalized(rewards, None, &sequences, 1.0, 1.0, vec![f64::NAN; 9], run)
                    .map_err(|e| e.to_string())
            })
        };
        assert!(along(&[1.0], &[0, 2], None).unwrap_err().contains("offsets"));
        assert!(along(&[1.0], &[0, 1, 0, 1], None).unwrap_err().contains("offsets"));
        assert!(along(&[1.0, f64::INFINITY], &[0, 2], None).unwrap_err().contains("finite"));
        assert!(along(&[1.0, 2.0], &[0, 1, 2], Some(&[1, 0])).unwrap_err().contains("order lists row 1"));
        assert!(along(&[1.0, 2.0], &[0, 2], Some(&[1, 1])).unwrap_err().contains("twice"));
        assert!(along(&[1.0, 2.0], &[0, 2], Some(&[-1, 0])).unwrap_err().contains("order lists row -1"));
        assert_eq!(along(&[], &[0], None).unwrap(), [0.0; 0]);
        assert_eq!(along(&[1.0, 2.0], &[0, 0, 2, 2], Some(&[1, 0])).unwrap(), [1.0, 3.0]);
    }

    proptest! {
        #[test]
        fn generalized_is_the_recursion(
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
                on(threads, |run| generalized(&rewards, critics, &sequences, gamma, gamma * lambda, vec![f64::NAN; 9], run).unwrap())
            };
            close(&of(1), &want);
            prop_assert_eq!(of(1), of(7));
        }
    }
}
