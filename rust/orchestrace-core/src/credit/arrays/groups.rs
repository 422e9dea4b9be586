//! Rows relative to their group, per agent if agents are given: `grpo`, `dr_grpo`, `rloo`.
//!
//! Groups are summed in the order of their rows, in two passes of which the second corrects the mean of the first (T. F.
//! Chan et al., The American Statistician 37, 1983), each by one worker, so that threads do not show. O(n).
//! Definition: docs/reference/definitions.md, D13.

use rayon::prelude::*;

use super::{ROWS_AT_A_TIME, same_length};
use crate::credit::segments::{Scale, alike, standardize};
use crate::error::{Error, Result};
use crate::run::Run;

/// How the rewards of a group are compared.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Relative {
    /// By what they are scaled once centered; the factor of [`Scale::Factor`] is not read: it is n/(n - 1).
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
            if let Some(&highest) = rollouts.iter().max().filter(|&&most| most as usize >= rewards.len()) {
                let n = rewards.len();
                return Err(Error::Parameter(format!(
                    "rollouts contains {highest}, expected positions in rewards, which has {n} rows"
                )));
            }
            rewards
        }
    };
    let is_unusual = |x: &f64| !(*x == 0.0 || PLAIN.contains(&x.abs()));
    if let Some(x) = numbers.iter().find(|x| !x.is_finite()) {
        return Err(Error::Parameter(format!("rewards contains {x}, expected finite numbers")));
    }
    let careful = numbers.iter().any(is_unusual);
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
    smallest: f64,
    largest: f64,
    count: u32,
}

/// What the second pass finds: sums of deviations from the mean of the first, which are not quite 0, and of squares.
#[derive(Debug, Clone, Copy, Default)]
struct Spread {
    mean: f64,
    deviations: f64,
    squares: f64,
}

/// The advantage of x is (x - center) · factor.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    center: f64,
    factor: f64,
}

impl Line {
    fn at(self, x: f64) -> f64 {
        // a factor of 0 would leave a sign
        (x - self.center) * self.factor + 0.0
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
                    (group.smallest, group.largest) = (x, x);
                }
                group.smallest = group.smallest.min(x);
                group.largest = group.largest.max(x);
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
            return Line { center: 0.0, factor: 1.0 / divisor };
        }
        if alike(sum.smallest, sum.largest) {
            return Line { center: sum.smallest, factor: 0.0 };
        }
        let off = spread.deviations / n;
        let variance = |ddof: i64| (spread.squares - spread.deviations * off).max(0.0) / (n - ddof as f64);
        let factor = match self.scale {
            Scale::None => 1.0,
            Scale::Factor(_) => n / (n - 1.0),
            Scale::Deviation(ddof, epsilon) => 1.0 / (variance(ddof).sqrt() + epsilon),
            Scale::Whitened(ddof, epsilon) => 1.0 / (variance(ddof) + epsilon).sqrt(),
        };
        Line { center: spread.mean + off, factor }
    }

    /// The same of the numbers of one group side by side.
    fn of_group(&self, numbers: &[f64], out: &mut Vec<f64>) {
        let n = numbers.len() as f64;
        match (numbers, self.scale) {
            (&[x], Scale::Deviation(_, epsilon)) if self.lone => out.push(x / (1.0 + epsilon)),
            (&[x], _) if self.lone => out.push(x),
            (_, Scale::Factor(_)) => _ = standardize(numbers, Scale::Factor(n / (n - 1.0)), out),
            (_, scale) => _ = standardize(numbers, scale, out),
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

#[cfg(test)]
mod tests {
    use super::super::tests::{close, on};
    use super::*;
    use proptest::prelude::*;

    const GRPO: Relative = Relative { scale: Scale::Deviation(1, 1e-6), lone: false };

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
        let misplaced = Rows::OfAgents { rewards: &[1.0], groups: &[0], rollouts: &[1], agents: &[0] };
        assert!(fails(&misplaced).contains("rollouts contains 1"));
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
    }

    #[test]
    fn numbers_whose_squares_are_none_are_compared_with_care() {
        let rewards = [1e200, -1e200, 1e200, 1.0, 2.0];
        let rule = Relative { scale: Scale::Deviation(1, 0.0), lone: false };
        let got = on(2, |run| relative(&Rows::Plain(&rewards, &[0, 0, 0, 1, 1]), rule, run).unwrap());
        close(&got[..3], &group_by_group(&[(0, 1.0), (0, -1.0), (0, 1.0)], rule));
    }
}
