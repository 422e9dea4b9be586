//! Agents whose span is closed long after they answered: when the session ends, for instance.
//!
//! An agent that a tool runs has answered when the tool gives its answer back. It answers at the earlier of both ends,
//! and not before the last thing that it did itself.

use hashbrown::HashMap;

use super::super::{NONE, Work};
use super::{Act, Describing, Row, ended};

type Key = (i64, u32, u8);

/// What agents did but answer.
#[derive(Default)]
struct OwnActs {
    /// The last act of each visit within its span.
    within: HashMap<u32, Key>,
    /// Of each player its acts beside all of its visits, in order.
    besides: HashMap<u32, Vec<Key>>,
}

impl Describing<'_> {
    /// Takes the answers of such agents forward to when they were given. The rows may be in any order. O(n log n).
    pub(super) fn answer_in_time(&mut self, rows: &mut [Row]) {
        let late: HashMap<u32, i64> = rows
            .iter()
            .filter(|row| row.act == Act::Ends)
            .filter_map(|row| Some((row.span, self.given_back(row.span)?)))
            .filter(|(agent, given)| ended(&self.span(*agent)).is_some_and(|end| *given < end))
            .collect();
        if late.is_empty() {
            return;
        }
        let acts = self.own_acts(rows);
        for row in rows.iter_mut().filter(|row| row.act == Act::Ends) {
            let Some(&given) = late.get(&row.span) else { continue };
            let besides = acts.besides.get(&row.player).and_then(|keys| {
                let before = keys.partition_point(|key| *key <= row.key);
                before.checked_sub(1).map(|at| keys[at])
            });
            let begun = self.span(row.span).start.unwrap_or(given);
            let mut key = (given.max(begun), row.key.1, row.key.2);
            for (time, tour, _) in [acts.within.get(&row.span).copied(), besides].into_iter().flatten() {
                // Behind whatever is at the same place.
                key = key.max((time, tour, u8::MAX));
            }
            if key < row.key {
                row.key = key;
                self.answered.insert(row.span, key.0);
            }
        }
    }

    /// When the tool that runs an agent gave its answer back.
    fn given_back(&self, agent: u32) -> Option<i64> {
        let tool = self.forest.places[agent as usize].tool;
        let runs = tool != NONE && self.matching.agent_in[tool as usize] == agent;
        runs.then(|| self.span(tool).end).flatten()
    }

    fn own_acts(&self, rows: &[Row]) -> OwnActs {
        // A second record of an agent's span is the same visit.
        let mut visit = vec![NONE; self.all.spans.len()];
        for &i in &self.forest.order {
            if matches!(self.span(i).work, Work::Agent(_)) {
                let around = self.forest.places[i as usize].agent;
                let again = self.owners.merged[i as usize] && around != NONE;
                visit[i as usize] = if again { visit[around as usize] } else { i };
            }
        }
        let mut acts = OwnActs::default();
        // What an agent receives is no act of its own.
        for row in rows.iter().filter(|row| !matches!(row.act, Act::Ends | Act::Receives)) {
            let around = self.forest.places[row.span as usize].agent;
            let visit = visit.get(around as usize).copied().unwrap_or(NONE);
            if visit != NONE && self.owners.of[visit as usize] == row.player {
                let last = acts.within.entry(visit).or_insert(row.key);
                *last = (*last).max(row.key);
            } else {
                acts.besides.entry(row.player).or_default().push(row.key);
            }
        }
        acts.besides.values_mut().for_each(|keys| keys.sort_unstable());
        acts
    }
}
