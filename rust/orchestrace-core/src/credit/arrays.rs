//! Advantages on plain arrays, as trainers hold them: rewards, codes of groups, critics in; one number per row out.
//!
//! ```text
//! relative      grpo, dr_grpo, rloo of the rows of each group; ARCHITECTURE.md, D13
//! generalised   A_t = δ_t + γλ A_{t+1},  δ_t = r_t + γ V_{t+1} - V_t along each sequence; D14
//! ```
//!
//! The rules are those of `group.rs` and `returns.rs`; here nothing stands between them and the numbers. Groups are
//! summed in the order of their rows, in two passes of which the second corrects the mean of the first (T. F. Chan et
//! al., The American Statistician 37, 1983), each by one worker, so that threads do not show. O(n).

use rayon::prelude::*;

use super::segments::{Scale, standardise};
use crate::error::{Error, Result};
use crate::run::Run;

/// How the rewards of a group are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Relative {
    /// By what they are scaled once centred; the factor of [`Scale::Factor`] is not read: it is n/(n - 1).
    pub scale: Scale,
    /// Whether the one row of a group keeps its number, as in released code.
    pub lone: bool,
}

/// Rows that are compared.
#[derive(Debug, Clone, Copy)]
pub enum Rows<'a> {
    /// A number and the code of a group each.
    Plain(&'a [f64], &'a [u32]),
    /// Rows of rollouts, compared agent by agent.
    OfAgents {
        /// Number of each rollout.
        rewards: &'a [f64],
        /// Group of each rollout.
        groups: &'a [u32],
        /// Rollout of each row.
        rollouts: &'a [u32],
        /// Agent of each row.
        agents: &'a [u32],
    },
}

/// Rows to a worker where they are independent.
const ROWS_AT_A_TIME: usize = 1 << 16;

/// Numbers outside of these are compared with care instead of speed: their squares are not floats.
const PLAIN: std::ops::RangeInclusive<f64> = 1e-120..=1e120;

/// Compares the rows of every group.
pub fn relative(rows: &Rows<'_>, rule: Relative, run: &Run) -> Result<Vec<f64>> {
    run.pool().install(|| compare(rows, rule, run))
}

fn compare(rows: &Rows<'_>, rule: Relative, run: &Run) -> Result<Vec<f64>> {
    let numbers = match rows {
        Rows::Plain(numbers, groups) => {
            same_length("groups", groups.len(), "rewards", numbers.len())?;
            numbers
        }
        Rows::OfAgents { rewards, groups, rollouts, agents } => {
            same_length("groups", groups.len(), "rewards", rewards.len())?;
            same_length("agents", agents.len(), "rollouts", rollouts.len())?;
            if let Some(&odd) = rollouts.iter().max().filter(|&&most| most as usize >= rewards.len()) {
                let n = rewards.len();
                return Err(Error::Parameter(format!(
                    "rollouts has {odd}, expected places in rewards, which has {n}"
                )));
            }
            rewards
        }
    };
    let odd = |x: &f64| !(*x == 0.0 || PLAIN.contains(&x.abs()));
    if let Some(x) = numbers.iter().find(|x| !x.is_finite()) {
        return Err(Error::Parameter(format!("rewards has {x}, expected finite numbers")));
    }
    let careful = numbers.iter().any(odd);
    let codes = |codes: &[u32]| codes.iter().max().map_or(0, |&most| u64::from(most) + 1);
    // a table of all keys, if most of it is used
    let table =
        |keys: u64, n: usize| usize::try_from(keys).ok().filter(|&keys| !careful && keys <= 8 * n + 1024);
    run.check()?;
    match *rows {
        Rows::Plain(numbers, groups) => {
            let n = numbers.len();
            if careful {
                return by_sorting(n, |i| (u64::from(groups[i]), numbers[i]), rule, run);
            }
            let dense;
            let (keys, groups) = if let Some(keys) = table(codes(groups), n) {
                (keys, groups)
            } else {
                dense = ranks(groups);
                (codes(&dense) as usize, &dense[..])
            };
            let rows = || numbers.iter().zip(groups).map(|(&x, &group)| (group as usize, x, 1));
            let lines = lines_of(keys, rows, rule, run);
            let mut out = Vec::new();
            let values = numbers.par_iter().zip(groups).with_min_len(ROWS_AT_A_TIME);
            values.map(|(&x, &group)| lines[group as usize].at(x)).collect_into_vec(&mut out);
            Ok(out)
        }
        Rows::OfAgents { rewards, groups, rollouts, agents } => {
            let n = rollouts.len();
            if let Some(keys) = table(codes(groups).saturating_mul(codes(agents)), n) {
                return of_agents(rewards, groups, rollouts, agents, keys, rule, run);
            }
            let (groups, agents) = (ranks(groups), ranks(agents));
            if let Some(keys) = table(codes(&groups).saturating_mul(codes(&agents)), n) {
                return of_agents(rewards, &groups, rollouts, &agents, keys, rule, run);
            }
            let row = |i: usize| {
                let rollout = rollouts[i] as usize;
                (u64::from(groups[rollout]) << 32 | u64::from(agents[i]), rewards[rollout])
            };
            by_sorting(n, row, rule, run)
        }
    }
}

/// Codes by rank, so that all of them occur.
fn ranks(codes: &[u32]) -> Vec<u32> {
    let mut sorted = codes.to_vec();
    sorted.par_sort_unstable();
    sorted.dedup();
    codes.par_iter().map(|code| sorted.partition_point(|other| other < code) as u32).collect()
}

fn same_length(name: &str, n: usize, other: &str, of_other: usize) -> Result<()> {
    if n == of_other {
        return Ok(());
    }
    Err(Error::Parameter(format!("{name} has {n} rows, {other} {of_other}: expected as many")))
}

/// So many rows of one agent in one rollout, which all have the same number.
#[derive(Debug, Clone, Copy)]
struct Share {
    rollout: u32,
    agent: u32,
    count: u32,
    line: u32,
}

fn of_agents(
    rewards: &[f64],
    groups: &[u32],
    rollouts: &[u32],
    agents: &[u32],
    keys: usize,
    rule: Relative,
    run: &Run,
) -> Result<Vec<f64>> {
    let n_agents = agents.iter().max().map_or(0, |&most| most as usize + 1);
    let mut pieces = shares(rollouts, agents, n_agents);
    run.check()?;
    // few of the keys occur: lines are numbered as they come, so that their table stays small
    let mut line_of = vec![u32::MAX; keys];
    let mut n_lines = 0;
    for share in pieces.iter_mut().flatten() {
        let line = &mut line_of[groups[share.rollout as usize] as usize * n_agents + share.agent as usize];
        if *line == u32::MAX {
            *line = n_lines;
            n_lines += 1;
        }
        share.line = *line;
    }
    let rows = || {
        let shares = pieces.iter().flatten();
        shares.map(|share| (share.line as usize, rewards[share.rollout as usize], share.count))
    };
    let lines = lines_of(n_lines as usize, rows, rule, run);
    run.check()?;
    let mut out = vec![0.0; rollouts.len()];
    let rows = rollouts.par_chunks(ROWS_AT_A_TIME).zip(agents.par_chunks(ROWS_AT_A_TIME));
    out.par_chunks_mut(ROWS_AT_A_TIME).zip(rows).zip(&pieces).for_each_init(
        || vec![0.0; n_agents],
        |of_agent, ((mut out, (rollouts, mut agents)), shares)| {
            let runs = rollouts.chunk_by(|a, b| a == b);
            for (run, shares) in runs.zip(shares.chunk_by(|a, b| a.rollout == b.rollout)) {
                for share in shares {
                    let value = lines[share.line as usize].at(rewards[share.rollout as usize]);
                    of_agent[share.agent as usize] = value;
                }
                let (here, later) = std::mem::take(&mut out).split_at_mut(run.len());
                for (out, &agent) in here.iter_mut().zip(agents) {
                    *out = of_agent[agent as usize];
                }
                (out, agents) = (later, &agents[run.len()..]);
            }
        },
    );
    Ok(out)
}

/// Rows counted by rollout and agent, in pieces of [`ROWS_AT_A_TIME`] rows. A rollout whose rows do not stand
/// together has several shares.
fn shares(rollouts: &[u32], agents: &[u32], n_agents: usize) -> Vec<Vec<Share>> {
    let pieces = rollouts.par_chunks(ROWS_AT_A_TIME).zip(agents.par_chunks(ROWS_AT_A_TIME));
    let counted = pieces.map_init(
        || vec![0_u32; n_agents],
        |counts, (rollouts, mut agents)| {
            let mut shares: Vec<Share> = Vec::new();
            for run in rollouts.chunk_by(|a, b| a == b) {
                let first = shares.len();
                let (here, later) = agents.split_at(run.len());
                for &agent in here {
                    let count = &mut counts[agent as usize];
                    if *count == 0 {
                        shares.push(Share { rollout: run[0], agent, count: 0, line: 0 });
                    }
                    *count += 1;
                }
                for share in &mut shares[first..] {
                    share.count = std::mem::take(&mut counts[share.agent as usize]);
                }
                agents = later;
            }
            shares
        },
    );
    counted.collect()
}

/// What the first pass finds of a group.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    total: f64,
    first: f64,
    count: u32,
    varied: bool,
}

/// What the second pass finds: sums of deviations from the mean of the first, which are not quite 0, and of squares.
#[derive(Debug, Clone, Copy, Default)]
struct Spread {
    mean: f64,
    deviations: f64,
    squares: f64,
}

/// The advantage of x is (x - centre) · factor.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    centre: f64,
    factor: f64,
}

impl Line {
    fn at(self, x: f64) -> f64 {
        (x - self.centre) * self.factor
    }
}

/// The line of every group. `rows` gives the group of each row, its number, and for how many it stands.
fn lines_of<R: Iterator<Item = (usize, f64, u32)>>(
    keys: usize,
    rows: impl Fn() -> R + Sync,
    rule: Relative,
    run: &Run,
) -> Vec<Line> {
    let workers = run.pool().current_num_threads().min(keys.max(1));
    let per_worker = keys.div_ceil(workers).max(1);
    // each worker goes through all rows and takes those of its own groups, in their order
    let lines: Vec<Vec<Line>> = (0..workers)
        .into_par_iter()
        .map(|worker| {
            let from = worker * per_worker;
            let mut sums = vec![Sum::default(); per_worker.min(keys.saturating_sub(from))];
            rows().for_each(|(key, x, count)| {
                let Some(group) = sums.get_mut(key.wrapping_sub(from)) else { return };
                if group.count == 0 {
                    group.first = x;
                }
                group.varied |= x != group.first;
                group.total += x * f64::from(count);
                group.count += count;
            });
            let mean = |group: &Sum| group.total / f64::from(group.count.max(1));
            let mut spreads: Vec<_> =
                sums.iter().map(|group| Spread { mean: mean(group), ..Spread::default() }).collect();
            rows().for_each(|(key, x, count)| {
                let Some(group) = spreads.get_mut(key.wrapping_sub(from)) else { return };
                let (deviation, count) = (x - group.mean, f64::from(count));
                group.deviations += count * deviation;
                group.squares += count * (deviation * deviation);
            });
            sums.iter().zip(&spreads).map(|(sum, spread)| rule.line(sum, spread)).collect()
        })
        .collect();
    lines.concat()
}

impl Relative {
    fn line(&self, sum: &Sum, spread: &Spread) -> Line {
        let n = f64::from(sum.count);
        if sum.count == 1 && self.lone {
            let divisor = if let Scale::Deviation(_, epsilon) = self.scale { 1.0 + epsilon } else { 1.0 };
            return Line { centre: 0.0, factor: 1.0 / divisor };
        }
        if !sum.varied {
            // x less itself is exactly 0
            return Line { centre: sum.first, factor: 1.0 };
        }
        let off = spread.deviations / n;
        let variance = |ddof: i64| (spread.squares - spread.deviations * off).max(0.0) / (n - ddof as f64);
        let factor = match self.scale {
            Scale::None => 1.0,
            Scale::Factor(_) => n / (n - 1.0),
            Scale::Deviation(ddof, epsilon) => 1.0 / (variance(ddof).sqrt() + epsilon),
            Scale::Whitened(ddof, epsilon) => 1.0 / (variance(ddof) + epsilon).sqrt(),
        };
        Line { centre: spread.mean + off, factor }
    }

    /// The same of the numbers of one group side by side.
    fn of_group(&self, numbers: &[f64], out: &mut Vec<f64>) {
        let n = numbers.len() as f64;
        match (numbers, self.scale) {
            (&[x], Scale::Deviation(_, epsilon)) if self.lone => out.push(x / (1.0 + epsilon)),
            (&[x], _) if self.lone => out.push(x),
            (_, Scale::Factor(_)) => _ = standardise(numbers, Scale::Factor(n / (n - 1.0)), out),
            (_, scale) => _ = standardise(numbers, scale, out),
        }
    }
}

fn by_sorting(
    n: usize,
    row: impl Fn(usize) -> (u64, f64) + Sync,
    rule: Relative,
    run: &Run,
) -> Result<Vec<f64>> {
    let mut sorted: Vec<(u64, u64)> = (0..n).into_par_iter().map(|i| (row(i).0, i as u64)).collect();
    run.check()?;
    sorted.par_sort_unstable();
    run.check()?;
    let mut out = vec![0.0; n];
    let (mut numbers, mut found) = (Vec::new(), Vec::new());
    for group in sorted.chunk_by(|a, b| a.0 == b.0) {
        numbers.clear();
        numbers.extend(group.iter().map(|&(_, i)| row(i as usize).1));
        found.clear();
        rule.of_group(&numbers, &mut found);
        for (&(_, i), value) in group.iter().zip(&found) {
            out[i as usize] = *value;
        }
    }
    Ok(out)
}

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
    use super::*;
    use proptest::prelude::*;

    const GRPO: Relative = Relative { scale: Scale::Deviation(1, 1e-6), lone: false };

    fn on<T: Send>(threads: usize, f: impl FnOnce(&Run) -> T + Send) -> T {
        let run = Run::new(Some(threads)).unwrap();
        run.pool().install(|| f(&run))
    }

    fn close(got: &[f64], want: &[f64]) {
        assert_eq!(got.len(), want.len());
        for (g, w) in got.iter().zip(want) {
            assert!((g - w).abs() <= 1e-12 * w.abs().max(1.0), "{got:?} {want:?}");
        }
    }

    /// Group by group, by the kernel of `group.rs`.
    fn group_by_group(rows: &[(u64, f64)], rule: Relative) -> Vec<f64> {
        by_sorting(rows.len(), |i| rows[i], rule, &Run::new(Some(1)).unwrap()).unwrap()
    }

    #[test]
    fn golden() {
        let rewards = [1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0];
        let got = on(2, |run| relative(&Rows::Plain(&rewards, &[3; 8]), GRPO, run).unwrap());
        assert!((got[0] - 1.2076).abs() < 5e-5 && (got[1] + 0.7246).abs() < 5e-5);
        let others = Relative { scale: Scale::Factor(1.0), lone: true };
        let got = on(2, |run| relative(&Rows::Plain(&[1.0, 4.0, 7.0], &[0, 0, 1]), others, run).unwrap());
        assert_eq!(got, [-3.0, 3.0, 7.0]);
    }

    #[test]
    fn equal_numbers_are_exactly_zero() {
        let got =
            on(2, |run| relative(&Rows::Plain(&[0.1, 0.1, 0.1, 5.0], &[0, 0, 0, 1]), GRPO, run).unwrap());
        assert!(got.iter().all(|x| x.to_bits() == 0));
    }

    #[test]
    fn a_rollout_that_comes_back_is_one_rollout() {
        let rows = Rows::OfAgents {
            rewards: &[1.0, 0.0],
            groups: &[0, 0],
            rollouts: &[0, 1, 0, 1, 1],
            agents: &[0, 0, 0, 1, 0],
        };
        let got = on(2, |run| relative(&rows, Relative { scale: Scale::None, lone: false }, run).unwrap());
        assert_eq!(got, [0.5, -0.5, 0.5, 0.0, -0.5]);
    }

    #[test]
    fn mistakes_are_one_line() {
        let fails = |rows: &Rows<'_>| on(1, |run| relative(rows, GRPO, run).unwrap_err().to_string());
        assert!(fails(&Rows::Plain(&[1.0], &[])).contains("groups has 0 rows"));
        assert!(fails(&Rows::Plain(&[f64::NAN], &[0])).contains("finite"));
        let odd = Rows::OfAgents { rewards: &[1.0], groups: &[0], rollouts: &[1], agents: &[0] };
        assert!(fails(&odd).contains("rollouts has 1"));
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
        fn every_way_gives_the_same(
            rows in prop::collection::vec((0_u32..4, 0_u32..3, prop::sample::select(vec![0.0, 1.0, 0.1, -2.5])), 1..60),
            scale in prop::sample::select(vec![
                Scale::None, Scale::Factor(1.0), Scale::Deviation(0, 1e-6), Scale::Deviation(1, 0.1),
                Scale::Whitened(1, 1e-9),
            ]),
            lone in any::<bool>(),
        ) {
            let rule = Relative { scale, lone };
            let numbers: Vec<f64> = rows.iter().map(|row| row.2).collect();
            let groups: Vec<u32> = rows.iter().map(|row| row.0).collect();
            let keyed: Vec<(u64, f64)> = rows.iter().map(|row| (u64::from(row.0), row.2)).collect();
            let want = group_by_group(&keyed, rule);
            let of = |threads| on(threads, |run| relative(&Rows::Plain(&numbers, &groups), rule, run).unwrap());
            let got = of(1);
            close(&got, &want);
            prop_assert_eq!(&got, &of(2));
            prop_assert_eq!(&got, &of(7));
            // rows of agents: here each row's rollout is named by its group
            let rewards = [0.5, 2.0, -1.0, 0.5];
            let agents: Vec<u32> = rows.iter().map(|row| row.1).collect();
            let by_agent = Rows::OfAgents { rewards: &rewards, groups: &[0, 1, 0, 1], rollouts: &groups, agents: &agents };
            let keyed: Vec<(u64, f64)> = rows
                .iter()
                .map(|row| (u64::from(row.0 % 2) << 32 | u64::from(row.1), rewards[row.0 as usize]))
                .collect();
            let got = on(1, |run| relative(&by_agent, rule, run).unwrap());
            close(&got, &group_by_group(&keyed, rule));
            prop_assert_eq!(got, on(7, |run| relative(&by_agent, rule, run).unwrap()));
        }

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

    #[test]
    fn numbers_whose_squares_are_none_are_compared_with_care() {
        let rewards = [1e200, -1e200, 1e200, 1.0, 2.0];
        let rule = Relative { scale: Scale::Deviation(1, 0.0), lone: false };
        let got = on(2, |run| relative(&Rows::Plain(&rewards, &[0, 0, 0, 1, 1]), rule, run).unwrap());
        close(&got[..3], &group_by_group(&[(0, 1.0), (0, -1.0), (0, 1.0)], rule));
    }
}
