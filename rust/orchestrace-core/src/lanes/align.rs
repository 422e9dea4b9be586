//! Alignment of two sequences of keys: their common beginning, a longest common subsequence, where they meet again.
//!
//! The number D of steps that only one of the sequences has comes from the greedy search of Myers, O(V D) time and O(D)
//! memory. A path with D such steps leaves the diagonal by at most as many as each sequence has alone, so a table of that
//! band holds the longest common subsequence of what follows every cell of it, O(V D) cells. Of all longest ones the
//! matches are those earliest in the first sequence, then in the second.
//!
//! Reference: E. W. Myers, An O(ND) difference algorithm and its variations, 1986.

use crate::error::{Error, Result};
use crate::run::Run;
use foldhash::quality::RandomState;
use hashbrown::HashTable;
use rayon::prelude::*;
use std::hash::BuildHasher;

/// Sequences of keys, one after the other.
#[derive(Debug, Clone, Copy)]
pub struct Sequences<'a> {
    keys: &'a [u64],
    offsets: &'a [u32],
}

impl<'a> Sequences<'a> {
    /// Sequence i is `keys[offsets[i]..offsets[i + 1]]`.
    pub fn new(keys: &'a [u64], offsets: &'a [u32]) -> Result<Self> {
        let fits = offsets.first() == Some(&0)
            && offsets.is_sorted()
            && offsets.last().is_some_and(|&end| end as usize == keys.len());
        if !fits {
            return Err(Error::Parameter("offsets do not divide the keys".into()));
        }
        Ok(Self { keys, offsets })
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn get(&self, i: u32) -> &'a [u64] {
        &self.keys[self.offsets[i as usize] as usize..self.offsets[i as usize + 1] as usize]
    }

    /// For each the first that is equal to it.
    fn first_equal(&self) -> Vec<u32> {
        let hasher = RandomState::default();
        let mut table = HashTable::with_capacity(self.len());
        let entry = |table: &mut HashTable<u32>, i: u32| {
            let sequence = self.get(i);
            let of = |&other: &u32| hasher.hash_one(self.get(other));
            *table
                .entry(hasher.hash_one(sequence), |&other| self.get(other) == sequence, of)
                .or_insert(i)
                .get()
        };
        (0..self.len() as u32).map(|i| entry(&mut table, i)).collect()
    }
}

/// How two sequences agree.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Alignment {
    /// Steps that are equal from the start.
    pub prefix: u32,
    /// Length of a longest common subsequence; `None` beyond the budget.
    pub common: Option<u32>,
    /// Where the first run of so many matches after the prefix starts, in each.
    pub rejoin: Option<(u32, u32)>,
    /// Places of the matches, if they were asked for.
    pub matches: Vec<(u32, u32)>,
}

/// What an alignment may cost and what it looks for.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Cells of a table at most.
    pub budget: u64,
    /// Matches in a row that count as meeting again.
    pub rejoin: u32,
    /// Whether to list the matches.
    pub matches: bool,
}

/// The alignment of each pair of sequences. Pairs of equal sequences are aligned once.
pub fn align(
    sequences: Sequences<'_>,
    pairs: &[(u32, u32)],
    options: Options,
    run: &Run,
) -> Result<Vec<Alignment>> {
    let n = sequences.len() as u32;
    if pairs.iter().any(|&(a, b)| a >= n || b >= n) {
        return Err(Error::Parameter(format!("a pair names a sequence that is none of {n}")));
    }
    let first = sequences.first_equal();
    let of_pair = |&(a, b): &(u32, u32)| (first[a as usize], first[b as usize]);
    let mut distinct: Vec<(u32, u32)> = pairs.iter().map(of_pair).collect();
    distinct.par_sort_unstable();
    distinct.dedup();
    run.expect(distinct.len() as u64);
    let of_distinct = |tables: &mut Tables, &(a, b): &(u32, u32)| {
        run.check()?;
        let result = tables.align(sequences.get(a), sequences.get(b), options);
        run.advance(1);
        Ok(result)
    };
    let aligned: Vec<Alignment> = run
        .pool()
        .install(|| distinct.par_iter().map_init(Tables::default, of_distinct).collect::<Result<_>>())?;
    let place = |pair: &(u32, u32)| distinct.binary_search(&of_pair(pair)).map_or(0, |at| at);
    Ok(pairs.iter().map(|pair| aligned[place(pair)].clone()).collect())
}

/// The buffers of a worker.
#[derive(Debug, Default)]
pub struct Tables {
    furthest: Vec<usize>,
    common: Vec<u32>,
    matches: Vec<(u32, u32)>,
}

/// Outside of the band, and where no way leads to the end within it.
const NONE: u32 = u32::MAX;

/// The cells of a table that are filled: in row i the columns from i - `drops` on, or all.
#[derive(Debug, Clone, Copy)]
struct Band {
    drops: usize,
    columns: usize,
    full: bool,
}

impl Band {
    fn row(self, i: usize, m: usize) -> std::ops::RangeInclusive<usize> {
        if self.full {
            return 0..=m;
        }
        i.saturating_sub(self.drops)..=(i + self.columns - 1 - self.drops).min(m)
    }

    fn cell(self, i: usize, j: usize) -> Option<usize> {
        let column = if self.full { Some(j) } else { (j + self.drops).checked_sub(i) };
        column.filter(|&column| column < self.columns).map(|column| i * self.columns + column)
    }
}

impl Tables {
    /// The alignment of two sequences.
    pub fn align(&mut self, a: &[u64], b: &[u64], options: Options) -> Alignment {
        let prefix = a.iter().zip(b).take_while(|(x, y)| x == y).count();
        let (rest_a, rest_b) = (&a[prefix..], &b[prefix..]);
        self.matches.clear();
        let common = if rest_a.is_empty() || rest_b.is_empty() {
            Some(0)
        } else {
            self.band(rest_a, rest_b, options.budget).map(|band| self.fill(rest_a, rest_b, band))
        };
        let place = |i: usize| (prefix + i) as u32;
        let mut alignment = Alignment { prefix: place(0), ..Alignment::default() };
        if let Some(common) = common {
            alignment.common = Some(place(0) + common);
            alignment.rejoin =
                (self.rejoin(options.rejoin)).map(|(i, j)| (place(i as usize), place(j as usize)));
            if options.matches {
                let start = (0..place(0)).map(|i| (i, i));
                let later = self.matches.iter().map(|&(i, j)| (place(i as usize), place(j as usize)));
                alignment.matches = start.chain(later).collect();
            }
        }
        alignment
    }

    /// The band that a shortest path lies in; `None` where it is beyond the budget.
    fn band(&mut self, a: &[u64], b: &[u64], budget: u64) -> Option<Band> {
        let (n, m) = (a.len(), b.len());
        let (all, gap) = ((n as u64 + 1) * (m as u64 + 1), n.abs_diff(m) as u64);
        if gap * gap > all {
            // of lengths so different, that the search alone would cost more than all cells
            return (all <= budget).then_some(Band { drops: n, columns: m + 1, full: true });
        }
        let alone = self.distance(a, b, budget)?;
        let drops = (alone + n - m.min(alone + n)) / 2;
        Some(Band { drops, columns: alone + 1, full: false })
    }

    /// Steps that only one of two sequences has, at least; `None` where a band of so many is beyond the budget.
    fn distance(&mut self, a: &[u64], b: &[u64], budget: u64) -> Option<usize> {
        let (n, m) = (a.len(), b.len());
        // place k + m + 1 has how far into a the furthest path on diagonal k goes, 0 where there is none
        self.furthest.clear();
        self.furthest.resize(n + m + 3, 0);
        let middle = m + 1;
        for alone in 0..=n + m {
            if (alone as u64 + 1) * (n as u64 + 1) > budget {
                return None;
            }
            // diagonals beyond the table have no cell
            let low = middle - alone.min(m) + (alone.min(m) + alone) % 2;
            let high = middle + alone.min(n);
            for k in (low..=high).step_by(2) {
                let (left, above) = (self.furthest[k - 1], self.furthest[k + 1]);
                let mut x = if alone == 0 {
                    0
                } else if left < above || k == middle - alone.min(middle) {
                    above
                } else {
                    left + 1
                };
                x = x.min(n);
                while x < n && x + middle - k < m && a[x] == b[x + middle - k] {
                    x += 1;
                }
                self.furthest[k] = x;
                if x >= n && x + middle - k >= m {
                    return Some(alone);
                }
            }
        }
        None
    }

    /// Fills a band and walks it: the length of a longest common subsequence, and its matches.
    fn fill(&mut self, a: &[u64], b: &[u64], band: Band) -> u32 {
        let (n, m) = (a.len(), b.len());
        self.common.clear();
        self.common.resize((n + 1) * band.columns, NONE);
        for i in (0..=n).rev() {
            for j in band.row(i, m).rev() {
                let below = |i: usize, j: usize| band.cell(i, j).map_or(NONE, |cell| self.common[cell]);
                let mut best = if i == n || j == m { 0 } else { NONE };
                if i < n && j < m {
                    let with = if a[i] == b[j] { below(i + 1, j + 1) } else { NONE };
                    for reached in [below(i + 1, j), below(i, j + 1), with.saturating_add(1)] {
                        if reached != NONE && (best == NONE || reached > best) {
                            best = reached;
                        }
                    }
                }
                if let Some(here) = band.cell(i, j) {
                    self.common[here] = best;
                }
            }
        }
        let length = band.cell(0, 0).map_or(0, |cell| self.common[cell]);
        let (mut i, mut j, mut left) = (0, 0, length);
        while left > 0 && i < n {
            let same = (j..band.row(i, m).end().saturating_add(1).min(m)).find(|&j| a[i] == b[j]);
            let goes_on =
                |same: &usize| band.cell(i + 1, same + 1).is_some_and(|at| self.common[at] == left - 1);
            if let Some(same) = same.filter(goes_on) {
                self.matches.push((i as u32, same as u32));
                (j, left) = (same + 1, left - 1);
            }
            i += 1;
        }
        length
    }

    /// The first match of the first so many that follow each other in both.
    fn rejoin(&self, least: u32) -> Option<(u32, u32)> {
        let mut start = 0;
        for at in 0..self.matches.len() {
            let follows = at > 0 && {
                let (before, here) = (self.matches[at - 1], self.matches[at]);
                (before.0 + 1, before.1 + 1) == here
            };
            if !follows {
                start = at;
            }
            if at - start + 1 >= least as usize {
                return Some(self.matches[start]);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const OPTIONS: Options = Options { budget: 10_000_000, rejoin: 3, matches: true };

    /// The whole table, and the walk that takes what comes earliest in a, then in b.
    fn plain(a: &[u64], b: &[u64]) -> Vec<(u32, u32)> {
        let mut common = vec![vec![0_u32; b.len() + 1]; a.len() + 1];
        for i in (0..a.len()).rev() {
            for j in (0..b.len()).rev() {
                let with = if a[i] == b[j] { common[i + 1][j + 1] + 1 } else { 0 };
                common[i][j] = with.max(common[i + 1][j]).max(common[i][j + 1]);
            }
        }
        let (mut matches, mut j) = (Vec::new(), 0);
        for i in 0..a.len() {
            let left = common[i][j];
            let best = (j..b.len()).find(|&at| a[i] == b[at] && common[i + 1][at + 1] + 1 == left);
            if let Some(at) = best {
                matches.push((i as u32, at as u32));
                j = at + 1;
            }
        }
        matches
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn equals_the_whole_table(a in prop::collection::vec(0_u64..4, 0..24), b in prop::collection::vec(0_u64..4, 0..24)) {
            let result = Tables::default().align(&a, &b, OPTIONS);
            let matches = plain(&a, &b);
            prop_assert_eq!(result.common, Some(matches.len() as u32));
            prop_assert_eq!(result.matches, matches);
        }

        #[test]
        fn equals_the_whole_table_of_lengths_that_differ(a in prop::collection::vec(0_u64..3, 0..4), b in prop::collection::vec(0_u64..3, 0..60)) {
            for (a, b) in [(&a, &b), (&b, &a)] {
                let result = Tables::default().align(a, b, OPTIONS);
                prop_assert_eq!(result.matches, plain(a, b));
            }
        }

        #[test]
        fn a_buffer_keeps_nothing(a in prop::collection::vec(0_u64..3, 0..20), b in prop::collection::vec(0_u64..3, 0..20), c in prop::collection::vec(0_u64..3, 0..20)) {
            let mut tables = Tables::default();
            tables.align(&a, &b, OPTIONS);
            prop_assert_eq!(tables.align(&b, &c, OPTIONS), Tables::default().align(&b, &c, OPTIONS));
        }
    }

    #[test]
    fn long_sequences_that_differ_little_are_within_the_budget() {
        let a: Vec<u64> = (0..200_000).collect();
        let mut b = a.clone();
        b.remove(1000);
        b.insert(150_000, 7);
        let result = Tables::default().align(&a, &b, Options { matches: false, ..OPTIONS });
        assert_eq!((result.prefix, result.common, result.rejoin), (1000, Some(199_999), Some((1001, 1000))));
        let c: Vec<u64> = (500_000..700_000).collect();
        assert_eq!(Tables::default().align(&a, &c, OPTIONS).common, None);
    }

    #[test]
    fn equal_pairs_have_equal_rows() {
        let (keys, offsets) = ([1, 2, 3, 1, 2, 3, 1, 9], [0, 3, 6, 8]);
        let run = Run::new(Some(2)).unwrap();
        let pairs = [(0, 2), (1, 2), (0, 1), (2, 0)];
        let rows = align(Sequences::new(&keys, &offsets).unwrap(), &pairs, OPTIONS, &run).unwrap();
        assert_eq!(rows[0], rows[1]);
        assert_eq!((rows[0].prefix, rows[0].common, rows[2].common), (1, Some(1), Some(3)));
        assert!(align(Sequences::new(&keys, &offsets).unwrap(), &[(0, 3)], OPTIONS, &run).is_err());
        assert!(Sequences::new(&keys, &[0, 3]).is_err());
    }
}
