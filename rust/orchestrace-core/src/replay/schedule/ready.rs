//! The queue of ready events, highest priority first.
//!
//! A set of ranks as bits, with a summary of 64 words in each word above: insertion, removal and the lowest member take
//! one step a level, of which there are four for sixteen million events. A heap of the same content moves log₂ n entries.

/// A set of numbers below a bound; a reused buffer.
#[derive(Debug, Default)]
pub struct RankSet {
    /// The bits, and where each level begins; the last level is one word.
    words: Vec<u64>,
    starts: Vec<usize>,
}

impl RankSet {
    /// Empties the set and makes room for ranks below `n`.
    pub fn begin(&mut self, n: usize) {
        self.words.clear();
        self.starts.clear();
        let mut room = n.max(1);
        loop {
            room = room.div_ceil(64);
            self.starts.push(self.words.len());
            self.words.resize(self.words.len() + room, 0);
            if room == 1 {
                return;
            }
        }
    }

    /// Puts a rank in.
    #[inline]
    pub fn insert(&mut self, rank: u32) {
        let mut at = rank as usize;
        for &start in &self.starts {
            let word = &mut self.words[start + at / 64];
            let empty = *word == 0;
            *word |= 1 << (at % 64);
            if !empty {
                return; // the summaries know
            }
            at /= 64;
        }
    }

    /// Takes a rank out.
    #[inline]
    pub fn remove(&mut self, rank: u32) {
        let mut at = rank as usize;
        for &start in &self.starts {
            let word = &mut self.words[start + at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                return;
            }
            at /= 64;
        }
    }

    /// The lowest rank.
    #[must_use]
    #[inline]
    pub fn first(&self) -> Option<u32> {
        let mut at = 0;
        for &start in self.starts.iter().rev() {
            let word = self.words[start + at];
            if word == 0 {
                return None; // of the top level only
            }
            at = at * 64 + word.trailing_zeros() as usize;
        }
        Some(at as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn is_an_ordered_set(n in prop::sample::select(vec![1_u32, 63, 64, 65, 4_096, 4_097, 300_000]),
            steps in prop::collection::vec((any::<u32>(), any::<bool>()), 0..200)) {
            let (mut set, mut known) = (RankSet::default(), BTreeSet::new());
            set.begin(7);
            set.insert(3); // forgotten
            set.begin(n as usize);
            for (rank, put) in steps {
                let rank = rank % n;
                if put {
                    set.insert(rank);
                    known.insert(rank);
                } else {
                    set.remove(rank);
                    known.remove(&rank);
                }
                prop_assert_eq!(set.first(), known.first().copied());
            }
        }
    }
}
