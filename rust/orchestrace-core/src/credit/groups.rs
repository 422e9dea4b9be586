//! Methods that compare traces: rows of every trace, then every group at once.
//!
//! ```text
//! decide   parallel over chunks     own rows of every trace
//! gather   in corpus order          rows of each group side by side
//! compare  parallel over groups     a value for every row
//! ```
//!
//! Groups are compared in any order and their values put where their rows came from, so that threads do not show.

use std::collections::HashMap;

use rayon::prelude::*;

use super::assign::Judged;
use super::columns::Place;
use super::decisions::{Compared, Decisions, Rollouts, Vocabulary};
use super::method::{GroupMethod, Scope};
use super::params::Params;
use crate::error::Result;
use crate::graph::{NO_UNIT, TraceGraph};
use crate::run::Run;
use crate::schema::Reason;
use crate::store::Store;
use crate::store::view::{ChunkView, TraceView};

/// Rows of a chunk, and what became of them.
#[derive(Debug, Default)]
struct ChunkRows {
    decisions: Decisions,
    /// Of every trace: where its rows end, or why it has none; and its outcome, or NaN.
    traces: Vec<(usize, std::result::Result<(), Reason>, f64)>,
    whole: bool,
    /// Own row of every event of the chunk, unless rows are whole traces or a trace has none.
    row_of: Vec<u32>,
    values: Vec<f64>,
    reasons: Vec<Option<Reason>>,
}

/// All rows of a store, judged.
#[derive(Debug)]
pub(super) struct JudgedRows {
    chunks: Vec<ChunkRows>,
}

impl JudgedRows {
    /// What became of a trace of so many events.
    pub(super) fn of(
        &self,
        Place { chunk, trace: place, first_event }: Place,
        n_events: usize,
    ) -> std::result::Result<Judged<'_>, Reason> {
        let chunk = &self.chunks[chunk];
        let (end, decided, _) = chunk.traces[place];
        decided?;
        let from = if place == 0 { 0 } else { chunk.traces[place - 1].0 };
        Ok(Judged {
            values: &chunk.values[from..end],
            reasons: &chunk.reasons[from..end],
            row_of: if chunk.whole { &[] } else { &chunk.row_of[first_event..first_event + n_events] },
        })
    }
}

/// Where the rows of a group's rollouts are (chunk, first row, end), and their outcomes.
#[derive(Debug, Default)]
struct Group {
    places: Vec<(u32, u32, u32)>,
    outcomes: Vec<f64>,
}

/// A group's rows side by side.
#[derive(Debug, Default)]
struct Gathered {
    rollout: Vec<u32>,
    key: Vec<u128>,
    choice: Vec<u128>,
    value: Vec<f64>,
    other: Vec<f64>,
    compared: Compared,
}

/// So many groups are compared by one worker at a time: few enough to share work, many enough to reuse buffers.
const AT_A_TIME: usize = 64;

/// Judges the rows of all traces of `store`.
pub(super) fn judge(
    method: &dyn GroupMethod,
    store: &Store,
    reward_of: &(impl Fn(&TraceView<'_>) -> Option<f64> + Sync),
    params: &Params,
    corpus: &Vocabulary,
    run: &Run,
) -> Result<JudgedRows> {
    let mut chunks = store
        .chunks()
        .par_iter()
        .map_init(TraceGraph::default, |graph, chunk| {
            run.check()?;
            let view = ChunkView::new(store, chunk);
            let mut rows = ChunkRows { whole: true, ..ChunkRows::default() };
            for i in 0..view.len() {
                let trace = view.trace(i);
                let from = rows.decisions.len();
                graph.begin();
                rows.decisions.row_of.clear();
                let outcome = reward_of(&trace);
                let decided = outcome.ok_or(Reason::RewardAbsent).and_then(|amount| {
                    method.decide(&trace, amount, params, corpus, graph, &mut rows.decisions)
                });
                if decided.is_err() {
                    rows.decisions.truncate(from);
                }
                rows.whole &= rows.decisions.row_of.is_empty();
                if !rows.whole {
                    rows.row_of.resize(view.first_event(i), NO_UNIT);
                    rows.row_of.extend_from_slice(&rows.decisions.row_of);
                }
                rows.traces.push((rows.decisions.len(), decided, outcome.unwrap_or(f64::NAN)));
            }
            rows.values.resize(rows.decisions.len(), f64::NAN);
            rows.reasons.resize(rows.decisions.len(), Some(Reason::FieldAbsent));
            Ok(rows)
        })
        .collect::<Result<Vec<_>>>()?;
    let groups = gather(store, &chunks, method.info().scope);
    let judged: Vec<_> = groups
        .par_chunks(AT_A_TIME)
        .map_init(Gathered::default, |buffers, groups| {
            run.check()?;
            let (mut values, mut reasons) = (Vec::new(), Vec::new());
            for group in groups {
                buffers.compare(method, group, &chunks, params);
                values.extend_from_slice(&buffers.compared.value);
                reasons.extend_from_slice(&buffers.compared.reason);
            }
            Ok((values, reasons))
        })
        .collect::<Result<Vec<_>>>()?;
    for (groups, (values, reasons)) in groups.chunks(AT_A_TIME).zip(&judged) {
        let mut results = values.iter().zip(reasons);
        for &(chunk, from, end) in groups.iter().flat_map(|group| &group.places) {
            let ChunkRows { decisions, values, reasons, .. } = &mut chunks[chunk as usize];
            for row in from as usize..end as usize {
                if decisions.value[row].is_nan() {
                    continue;
                }
                let Some((value, reason)) = results.next() else { continue };
                values[row] = *value;
                reasons[row] = reason.or((!value.is_finite()).then_some(Reason::ResultRange));
            }
        }
    }
    Ok(JudgedRows { chunks })
}

/// Rollouts of each group in corpus order, groups in order of first appearance.
fn gather(store: &Store, chunks: &[ChunkRows], scope: Scope) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut of_id: HashMap<&str, usize> = HashMap::new();
    for (index, (chunk, rows)) in store.chunks().iter().zip(chunks).enumerate() {
        let view = ChunkView::new(store, chunk);
        let mut from = 0;
        for (i, &(end, _, outcome)) in rows.traces.iter().enumerate() {
            if !outcome.is_nan() {
                let id = if scope == Scope::Group { view.group_id(i) } else { "" };
                let next = groups.len();
                let group = *of_id.entry(id).or_insert(next);
                if group == next {
                    groups.push(Group::default());
                }
                groups[group].places.push((index as u32, from as u32, end as u32));
                groups[group].outcomes.push(outcome);
            }
            from = end;
        }
    }
    groups
}

impl Gathered {
    fn compare(&mut self, method: &dyn GroupMethod, group: &Group, chunks: &[ChunkRows], params: &Params) {
        self.rollout.clear();
        self.key.clear();
        self.choice.clear();
        self.value.clear();
        self.other.clear();
        for (rollout, &(chunk, from, end)) in (0..).zip(&group.places) {
            let rows = &chunks[chunk as usize].decisions;
            for row in (from as usize..end as usize).filter(|&row| !rows.value[row].is_nan()) {
                self.rollout.push(rollout);
                self.value.push(rows.value[row]);
                if let Some(key) = rows.key.get(row) {
                    self.key.push(*key);
                    self.choice.push(rows.choice[row]);
                    self.other.push(rows.other[row]);
                }
            }
        }
        self.compared.begin(self.value.len());
        if self.value.is_empty() {
            return;
        }
        let group = Rollouts {
            outcomes: &group.outcomes,
            rollout: &self.rollout,
            key: &self.key,
            choice: &self.choice,
            value: &self.value,
            other: &self.other,
        };
        method.compare(&group, params, &mut self.compared);
    }
}
