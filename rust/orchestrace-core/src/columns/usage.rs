//! Relations between the token counts of an event (D18).
//!
//! ```text
//! tokens_in = tokens_fresh + tokens_cached + tokens_cache_write
//! tokens    = tokens_fresh + tokens_cached + tokens_cache_write + tokens_out
//! tokens_reasoning is a part of tokens_out
//! ```
//!
//! What is absent counts as 0. The parts are derived from what is recorded, and the total is never absent beside them.
//! Where counts contradict each other the parts count: a source whose input is less than what its cache gave and took
//! has recorded the input without the cache, one whose output is less than its reasoning has recorded it without that.

use super::event_columns::{FIRST_OPTIONAL, OptionalColumn};
use super::writer::TraceWriter;
use crate::error::FindingCode;
use crate::schema::EventField;

/// Counts of tokens of one event, as they are recorded or as they follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// In the order of [`EventField::TOKENS`].
    counts: [Option<i64>; 7],
}

const IN: usize = 0;
const FRESH: usize = 1;
const CACHED: usize = 2;
const WRITE: usize = 3;
const OUT: usize = 4;
const REASONING: usize = 5;
const TOTAL: usize = 6;

/// Of what is there; `None` if nothing is.
fn sum(counts: &[Option<i64>]) -> Option<i64> {
    counts.iter().flatten().copied().reduce(i64::saturating_add)
}

impl Counts {
    pub(crate) fn new(counts: [Option<i64>; 7]) -> Self {
        Self { counts }
    }

    pub(crate) fn total(&self) -> Option<i64> {
        self.counts[TOTAL]
    }

    pub(crate) fn stated(&self) -> impl Iterator<Item = (EventField, i64)> {
        let counts = EventField::TOKENS.into_iter().zip(self.counts);
        counts.filter_map(|(field, count)| Some((field, count?)))
    }

    /// Whether a count is there that would not follow from the others.
    pub(crate) fn is_written(&self, field: EventField) -> bool {
        let Some(at) = EventField::TOKENS.iter().position(|known| *known == field) else { return false };
        let mut others = *self;
        others.counts[at] = None;
        others.settle();
        self.counts[at].is_some() && others.counts[at] != self.counts[at]
    }

    /// Tells what follows; whether the counts were at one. O(1).
    pub(crate) fn settle(&mut self) -> bool {
        let stated = *self;
        let c = &mut self.counts;
        let cache = sum(&c[CACHED..=WRITE]).unwrap_or(0);
        if let Some(all) = c[IN] {
            let fresh = c[FRESH].unwrap_or(if all < cache { all } else { all - cache });
            c[FRESH] = Some(fresh);
            c[IN] = Some(fresh.saturating_add(cache));
        }
        if let (Some(written), Some(reasoning)) = (c[OUT], c[REASONING])
            && reasoning > written
        {
            c[OUT] = Some(written.saturating_add(reasoning));
        }
        let is_split = c[IN].is_some() && c[OUT].is_some();
        let parts = sum(&c[FRESH..=OUT]);
        c[TOTAL] = match (c[TOTAL], parts) {
            // more than the parts that are known
            (Some(total), Some(parts)) if !is_split && total > parts => Some(total),
            (total, parts) => parts.or(total),
        };
        self.counts.iter().zip(&stated.counts).all(|(now, stated)| stated.is_none_or(|_| now == stated))
    }
}

/// The contradiction in words.
fn contradiction(stated: &Counts, now: &Counts) -> String {
    let spell = |(at, field): (usize, &EventField)| {
        let (stated, now) = (stated.counts[at]?, now.counts[at]?);
        (stated != now).then(|| format!("{} is {stated}, but its parts sum to {now}", field.as_str()))
    };
    let differences: Vec<String> = EventField::TOKENS.iter().enumerate().filter_map(spell).collect();
    format!("{}; the parts are used", differences.join(", "))
}

impl TraceWriter<'_> {
    /// Tells what the counts of tokens of each event say of each other.
    pub(super) fn settle_tokens(&mut self) {
        let first = self.first_event;
        let n = self.block.events.t.len();
        let at = EventField::TokensIn as usize - FIRST_OPTIONAL;
        let columns = &mut self.block.events.optional[at..at + EventField::TOKENS.len()];
        let [
            OptionalColumn::I64(all),
            OptionalColumn::I64(fresh),
            OptionalColumn::I64(cached),
            OptionalColumn::I64(write),
            OptionalColumn::I64(out),
            OptionalColumn::I64(reasoning),
            OptionalColumn::I64(total),
        ] = columns
        else {
            debug_assert!(false, "tokens are counts");
            return;
        };
        let columns = [all, fresh, cached, write, out, reasoning, total];
        let mut changed: Vec<u32> = Vec::new();
        let mut message = String::new();
        for eight in first / 8..n.div_ceil(8) {
            // A total alone contradicts nothing, and in many recordings events have no other count.
            let mut rows = columns[..TOTAL].iter().fold(0_u8, |rows, column| rows | column.which(eight));
            while rows != 0 {
                let row = eight * 8 + rows.trailing_zeros() as usize;
                rows &= rows - 1;
                // Of the trace before, or of one that was taken back.
                if row < first || row >= n {
                    continue;
                }
                let stated = Counts::new(std::array::from_fn(|i| columns[i].get(row)));
                let mut now = stated;
                if !now.settle() {
                    if changed.is_empty() {
                        message = contradiction(&stated, &now);
                    }
                    changed.push((row - first) as u32);
                }
                for (i, (now, stated)) in now.counts.iter().zip(stated.counts).enumerate() {
                    if let Some(now) = now.filter(|_| *now != stated) {
                        columns[i].set(row, now);
                    }
                }
            }
        }
        for seq in changed {
            self.finding(FindingCode::UsageConflict, Some(seq), || message.clone());
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn settled(counts: [Option<i64>; 7]) -> ([Option<i64>; 7], bool) {
        let mut settled = Counts::new(counts);
        let agree = settled.settle();
        (settled.counts, agree)
    }

    #[test]
    fn parts_and_total_follow_from_what_is_stated() {
        let no = None;
        let s = Some;
        for (told, want) in [
            ([s(10), no, no, no, s(3), no, no], [s(10), s(10), no, no, s(3), no, s(13)]),
            ([s(10), no, s(7), s(1), s(3), s(2), no], [s(10), s(2), s(7), s(1), s(3), s(2), s(13)]),
            ([no, s(2), s(7), no, no, no, no], [no, s(2), s(7), no, no, no, s(9)]),
            ([no, no, no, no, s(3), no, s(9)], [no, no, no, no, s(3), no, s(9)]),
            ([no, no, no, no, no, no, s(9)], [no, no, no, no, no, no, s(9)]),
            ([no; 7], [no; 7]),
            (
                [s(i64::MAX), no, no, no, s(3), no, no],
                [s(i64::MAX), s(i64::MAX), no, no, s(3), no, s(i64::MAX)],
            ),
        ] {
            assert_eq!(settled(told), (want, true), "{told:?}");
        }
    }

    #[test]
    fn where_counts_contradict_each_other_the_parts_count() {
        let no = None;
        let s = Some;
        for (told, want) in [
            // the total is another
            ([s(10), no, no, no, s(3), no, s(99)], [s(10), s(10), no, no, s(3), no, s(13)]),
            ([no, no, no, no, s(3), no, s(2)], [no, no, no, no, s(3), no, s(3)]),
            // the input was recorded without the cache
            ([s(4), no, s(90), s(6), s(1), no, no], [s(100), s(4), s(90), s(6), s(1), no, s(101)]),
            ([s(4), s(3), s(9), no, no, no, no], [s(12), s(3), s(9), no, no, no, s(12)]),
            // the output was recorded without the reasoning
            ([no, no, no, no, s(3), s(5), no], [no, no, no, no, s(8), s(5), s(8)]),
        ] {
            assert_eq!(settled(told), (want, false), "{told:?}");
        }
    }

    proptest! {
        #[test]
        fn settled_counts_add_up_and_stay(told in prop::array::uniform7(prop::option::of(0_i64..20))) {
            let (now, agree) = settled(told);
            prop_assert_eq!(settled(now), (now, true));
            let or_zero = |i: usize| now[i].unwrap_or(0);
            let parts = or_zero(FRESH) + or_zero(CACHED) + or_zero(WRITE) + or_zero(OUT);
            if now[..=OUT].iter().any(Option::is_some) {
                prop_assert!(or_zero(TOTAL) >= parts && now[TOTAL].is_some());
            }
            if let Some(all) = now[IN] {
                prop_assert_eq!(all, parts - or_zero(OUT));
                if now[OUT].is_some() {
                    prop_assert_eq!(or_zero(TOTAL), parts);
                }
            }
            prop_assert!(now[OUT].is_none() || or_zero(REASONING) <= or_zero(OUT));
            if agree {
                prop_assert!(told.iter().zip(now).all(|(told, now)| told.is_none() || *told == now));
            }
            // What need not be written follows again.
            let counts = Counts::new(now);
            let written = |at: usize| {
                let derives = at == TOTAL || at == FRESH;
                now[at].filter(|_| !derives || counts.is_written(EventField::TOKENS[at]))
            };
            prop_assert_eq!(settled(std::array::from_fn(written)), (now, true));
        }
    }
}
