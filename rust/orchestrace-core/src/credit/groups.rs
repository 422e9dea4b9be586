//! The driver of methods that compare traces: rows of every trace, then each group as a whole.
//!
//! ```text
//! decide   parallel over chunks     own rows of every trace
//! gather   by outcome, then id      rows of each group side by side; in corpus order for explanations
//! compare  parallel over groups     a value for every row
//! ```
//!
//! Groups are compared in any order and their values put where their rows came from, so that threads do not show.

use std::collections::HashMap;

use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::assign::Judged;
use super::columns::Place;
use super::decisions::{Compared, Decisions, Rollouts, Vocabulary};
use super::method::{GroupMethod, Scope};
use super::params::Params;
use crate::error::Result;
use crate::graph::{NO_UNIT, Owners, TraceGraph};
use crate::run::Run;
use crate::schema::{Over, Reason};
use crate::store::Store;
use crate::store::view::{ChunkView, TraceView};
use crate::tables::in_chunks;

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

/// Where a rollout and its rows are.
#[derive(Debug, Clone, Copy)]
struct Rollout {
    chunk: u32,
    /// Place of the trace in the chunk.
    trace: u32,
    /// First row in the chunk, and the end.
    from: u32,
    end: u32,
}

/// Rollouts of a group, and their outcomes.
#[derive(Debug, Default)]
struct Group {
    rollouts: Vec<Rollout>,
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
    paid: (&(impl Fn(&TraceView<'_>) -> Option<f64> + Sync), Over),
    params: &Params,
    corpus: &Vocabulary,
    run: &Run,
) -> Result<JudgedRows> {
    let mut chunks = decide(method, store, paid, params, corpus, run)?;
    let views = views(store);
    let mut groups = gather(&views, &chunks, method.info().scope);
    sort(&mut groups, &views);
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
        for &Rollout { chunk, from, end, .. } in groups.iter().flat_map(|group| &group.rollouts) {
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

/// The group of one trace, with its rows side by side, for what is asked about it.
pub(super) struct GroupOf {
    chunks: Vec<ChunkRows>,
    group: Group,
    gathered: Gathered,
    /// Of every row its rollout, and its number among the rows of that.
    places: Vec<(u32, u32)>,
    /// Rollout of the trace.
    own_rollout: u32,
}

impl GroupOf {
    /// Finds it; none if the trace has no rows.
    pub(super) fn find(
        method: &dyn GroupMethod,
        store: &Store,
        reward_of: &(impl Fn(&TraceView<'_>) -> Option<f64> + Sync),
        params: &Params,
        place: (usize, usize),
        run: &Run,
    ) -> Result<Option<Self>> {
        let corpus = Vocabulary::new(store, params.text("batch"));
        let chunks = decide(method, store, (reward_of, Over::All), params, &corpus, run)?;
        let is_own = |r: &Rollout| (r.chunk as usize, r.trace as usize) == place;
        let group_and_place =
            gather(&views(store), &chunks, method.info().scope).into_iter().find_map(|group| {
                group.rollouts.iter().position(is_own).map(|own_rollout| (group, own_rollout as u32))
            });
        let Some((group, own_rollout)) = group_and_place else { return Ok(None) };
        let mut gathered = Gathered::default();
        gathered.fill(&group, &chunks);
        let places = places(&group, &chunks);
        Ok(Some(Self { chunks, group, gathered, places, own_rollout }))
    }

    /// All rows.
    pub(super) fn rows(&self) -> Rollouts<'_> {
        self.gathered.rows(&self.group)
    }

    /// Place of a row of the trace among all rows; none if it is not compared.
    pub(super) fn row(&self, local: u32) -> Option<u32> {
        self.places.binary_search(&(self.own_rollout, local)).ok().map(|row| row as u32)
    }

    /// Rollout of a row, and its number among the rows of that rollout.
    pub(super) fn place(&self, row: u32) -> Option<(u32, u32)> {
        self.places.get(row as usize).copied()
    }

    /// Where a rollout is: chunk, and place in it.
    pub(super) fn trace(&self, rollout: u32) -> (usize, usize) {
        let Rollout { chunk, trace, .. } = self.group.rollouts[rollout as usize];
        (chunk as usize, trace as usize)
    }

    /// Rollout of the trace.
    pub(super) fn own_rollout(&self) -> u32 {
        self.own_rollout
    }

    /// Whether a rollout is the trace that is asked about.
    pub(super) fn is_own(&self, rollout: u32) -> bool {
        rollout == self.own_rollout
    }

    /// Row of every event of a rollout, whose first event has this place in its chunk.
    pub(super) fn row_of(&self, rollout: u32, first_event: usize, n_events: usize) -> &[u32] {
        let rows = &self.chunks[self.group.rollouts[rollout as usize].chunk as usize];
        if rows.whole { &[] } else { &rows.row_of[first_event..first_event + n_events] }
    }
}

/// Rollout and number there of the rows of a group that are compared, in their order.
fn places(group: &Group, chunks: &[ChunkRows]) -> Vec<(u32, u32)> {
    let of_rollout = |(rollout, r): (u32, &Rollout)| {
        let values = &chunks[r.chunk as usize].decisions.value[r.from as usize..r.end as usize];
        (0..).zip(values).filter(|(_, value)| !value.is_nan()).map(move |(local, _)| (rollout, local))
    };
    (0..).zip(&group.rollouts).flat_map(of_rollout).collect()
}

/// Own rows of all traces of `store`.
fn decide(
    method: &dyn GroupMethod,
    store: &Store,
    (reward_of, over): (&(impl Fn(&TraceView<'_>) -> Option<f64> + Sync), Over),
    params: &Params,
    corpus: &Vocabulary,
    run: &Run,
) -> Result<Vec<ChunkRows>> {
    in_chunks(store, run, TraceGraph::default, |graph, part| {
        let mut rows = ChunkRows { whole: true, ..ChunkRows::default() };
        for i in 0..part.view.len() {
            let trace = part.trace(i);
            let from = rows.decisions.len();
            graph.begin();
            rows.decisions.row_of.clear();
            let outcome = reward_of(&trace);
            let decided = outcome
                .ok_or(Reason::RewardAbsent)
                .and_then(|amount| method.decide(&trace, amount, params, corpus, graph, &mut rows.decisions));
            if decided.is_err() {
                rows.decisions.truncate(from);
            }
            let mut outcome = outcome.unwrap_or(f64::NAN);
            if over == Over::Trainable {
                let owners = graph.owners(&trace);
                leave_out(owners, &mut rows.decisions, from);
                // A run without a trained agent is no rollout of the group.
                if !(0..trace.len()).any(|v| owners.is_trained(v)) {
                    outcome = f64::NAN;
                }
            }
            rows.whole &= rows.decisions.row_of.is_empty();
            if !rows.whole {
                rows.row_of.resize(part.view.first_event(i), NO_UNIT);
                rows.row_of.extend_from_slice(&rows.decisions.row_of);
            }
            rows.traces.push((rows.decisions.len(), decided, outcome));
        }
        rows.values.resize(rows.decisions.len(), f64::NAN);
        rows.reasons.resize(rows.decisions.len(), Some(Reason::FieldAbsent));
        Ok(rows)
    })
}

/// Takes rows of a trace, from `from` on, out of the comparison if none of their events is of a trained agent.
fn leave_out(owners: &Owners, decisions: &mut Decisions, from: usize) {
    if decisions.row_of.is_empty() {
        return;
    }
    let mut is_trained = vec![false; decisions.value.len() - from];
    for (v, &row) in decisions.row_of.iter().enumerate() {
        if let Some(is_trained) = is_trained.get_mut(row as usize) {
            *is_trained |= owners.is_trained(v);
        }
    }
    let values = decisions.value[from..].iter_mut().zip(is_trained);
    values.filter(|(_, is_trained)| !is_trained).for_each(|(value, _)| *value = f64::NAN);
}

fn views(store: &Store) -> Vec<ChunkView<'_>> {
    store.chunks().iter().map(|chunk| ChunkView::new(store, chunk)).collect()
}

/// Rollouts of each group in corpus order, groups in order of first appearance.
fn gather(views: &[ChunkView<'_>], chunks: &[ChunkRows], scope: Scope) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut of_id: HashMap<&str, usize> = HashMap::new();
    for (index, (view, rows)) in views.iter().zip(chunks).enumerate() {
        let mut from = 0;
        for (i, &(end, _, outcome)) in rows.traces.iter().enumerate() {
            if !outcome.is_nan() {
                let id = if scope == Scope::Group { view.group_id(i) } else { "" };
                let next = groups.len();
                let group = *of_id.entry(id).or_insert(next);
                if group == next {
                    groups.push(Group::default());
                }
                let (chunk, trace) = (index as u32, i as u32);
                let rollout = Rollout { chunk, trace, from: from as u32, end: end as u32 };
                groups[group].rollouts.push(rollout);
                groups[group].outcomes.push(outcome);
            }
            from = end;
        }
    }
    groups
}

/// Puts the rollouts of each group in the order of the magnitude of their outcomes, equal ones by hashes of the ids of their
/// traces: sums over them follow no order of files, and sums of outcomes no names.
fn sort(groups: &mut [Group], views: &[ChunkView<'_>]) {
    let id = |rollout: &Rollout| views[rollout.chunk as usize].trace_id(rollout.trace as usize);
    // outcome, half of the hash, place in the group
    let mut keys: Vec<u128> = Vec::new();
    for Group { rollouts, outcomes } in groups.iter_mut().filter(|group| group.rollouts.len() > 1) {
        keys.clear();
        keys.extend((0_u32..).zip(rollouts.iter()).zip(outcomes.iter()).map(|((at, rollout), &outcome)| {
            let hash = xxh3_64(id(rollout).as_bytes()) >> 32;
            u128::from(magnitude(outcome)) << 64 | u128::from(hash) << 32 | u128::from(at)
        }));
        keys.sort_unstable();
        let place = |key: &u128| (key & u128::from(u32::MAX)) as usize;
        for alike in keys.chunk_by_mut(|a, b| a >> 32 == b >> 32).filter(|alike| alike.len() > 1) {
            alike.sort_unstable_by_key(|key| id(&rollouts[place(key)]));
        }
        *rollouts = keys.iter().map(|key| rollouts[place(key)]).collect();
        *outcomes = keys.iter().map(|key| outcomes[place(key)]).collect();
    }
}

/// Ascends with the magnitude of a number, a negative one before its opposite.
fn magnitude(number: f64) -> u64 {
    number.abs().to_bits() << 1 | u64::from(number.is_sign_positive())
}

impl Gathered {
    fn compare(&mut self, method: &dyn GroupMethod, group: &Group, chunks: &[ChunkRows], params: &Params) {
        self.fill(group, chunks);
        let mut compared = std::mem::take(&mut self.compared);
        compared.begin(self.value.len());
        if !self.value.is_empty() {
            method.compare(&self.rows(group), params, &mut compared);
        }
        self.compared = compared;
    }

    fn rows<'a>(&'a self, group: &'a Group) -> Rollouts<'a> {
        Rollouts {
            outcomes: &group.outcomes,
            rollout: &self.rollout,
            key: &self.key,
            choice: &self.choice,
            value: &self.value,
            other: &self.other,
        }
    }

    fn fill(&mut self, group: &Group, chunks: &[ChunkRows]) {
        self.rollout.clear();
        self.key.clear();
        self.choice.clear();
        self.value.clear();
        self.other.clear();
        for (rollout, &Rollout { chunk, from, end, .. }) in (0..).zip(&group.rollouts) {
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
    }
}
