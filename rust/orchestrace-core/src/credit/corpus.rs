//! A method over all traces of a store: chunks in parallel, rows in corpus order.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringViewArray, UInt32Array, new_null_array};
use arrow_buffer::NullBuffer;
use arrow_schema::{Schema, SchemaRef};
use arrow_select::take::take;
use rayon::prelude::*;

use super::assign::{GroupCredit, Scratch, assign_group, assign_rollout, assign_trace};
use super::method::{GroupMethod, Method};
use super::params::Params;
use super::rollup::Rows;
use crate::error::{Error, Result, unknown_name};
use crate::graph::NO_UNIT;
use crate::run::Run;
use crate::schema::{CREDITS, Dict, MeasureKind, REASONS, Reason, Unit};
use crate::store::view::{ChunkView, TraceView};
use crate::store::{Chunk, Store, word_array};

/// What to compute.
#[derive(Debug)]
pub struct Request<'a> {
    /// Weighted reward channels; their sum is what a trace is paid.
    pub reward: &'a [(String, f64)],
    /// Reward channels of the corpus that this store is a part of: a trace here may lack them.
    pub elsewhere: &'a [String],
    /// Level of the rows.
    pub unit: Unit,
    /// Checked parameters of the method.
    pub params: &'a Params,
}

/// Credits of all traces, a batch for each chunk of the store.
///
/// Columns that are null throughout are left out of the batches; the schema says which are there. At unit
/// `event` the ids and numbers are the store's own buffers. O(events + edges) a trace, plus the method.
pub fn credit(
    store: &Store,
    method: &Method,
    request: &Request<'_>,
    run: &Run,
) -> Result<(Vec<RecordBatch>, SchemaRef)> {
    store.expect_whole()?;
    let channels = channels(store, request)?;
    run.expect(store.n_traces() as u64);
    let driver = Driver { store, request, channels };
    let groups = match method {
        Method::PerTrace(_) => None,
        Method::PerGroup(method) => Some(driver.groups(*method)),
    };
    let pieces = run.pool().install(|| {
        store
            .chunks()
            .par_iter()
            .enumerate()
            .map_init(
                || (Scratch::default(), Rows::default()),
                |(scratch, rows), (index, chunk)| {
                    run.check()?;
                    rows.clear();
                    let piece =
                        driver.chunk(method, groups.as_ref().map(|g| &g[index][..]), chunk, scratch, rows);
                    run.advance(chunk.n_traces() as u64);
                    piece
                },
            )
            .collect::<Result<Vec<_>>>()
    })?;
    into_batches(pieces)
}

/// The reward of a trace under the weights asked for: null if it lacks one of the channels. A sum beyond the
/// float range is no reward.
fn reward_of(view: &TraceView<'_>, channels: &[(u32, f64)]) -> Option<f64> {
    let mut sum = 0.0;
    for (code, weight) in channels {
        let row = (0..view.measure_names.len()).find(|i| {
            view.measure_names[*i] == *code && view.measure_kinds[*i] == MeasureKind::Reward as u8
        })?;
        sum += weight * view.measure_values[row];
    }
    sum.is_finite().then_some(sum)
}

/// Codes of the channels; one that no trace has is a mistake.
fn channels(store: &Store, request: &Request<'_>) -> Result<Vec<(u32, f64)>> {
    if request.reward.is_empty() {
        return Err(Error::Parameter("reward names no channel".into()));
    }
    let dict = store.names().dict(Dict::Measure);
    let is_channel = rewards(store, dict.len());
    request
        .reward
        .iter()
        .map(|(name, weight)| {
            if !weight.is_finite() {
                return Err(Error::Parameter(format!(
                    "the weight of reward '{name}' is {weight}, expected a number"
                )));
            }
            let code = dict.find(name).filter(|code| store.n_traces() == 0 || is_channel[*code as usize]);
            code.map(|code| (code, *weight)).map_or_else(
                || {
                    if store.n_traces() == 0 || request.elsewhere.contains(name) {
                        return Ok((u32::MAX, *weight));
                    }
                    let here = (0..dict.len() as u32).filter(|code| is_channel[*code as usize]);
                    let mut known: Vec<&str> = here.map(|code| dict.name(code)).collect();
                    known.extend(request.elsewhere.iter().map(String::as_str));
                    known.sort_unstable();
                    known.dedup();
                    Err(Error::Parameter(unknown_name("reward channel", name, &known)))
                },
                Ok,
            )
        })
        .collect()
}

/// Whether each name of a measure is that of a reward; in one pass, since a recording may have a million of them.
fn rewards(store: &Store, names: usize) -> Vec<bool> {
    let mut is_channel = vec![false; names];
    for chunk in store.chunks() {
        let view = ChunkView::new(store, chunk);
        let Some((kinds, codes, _)) = view.measures() else { continue };
        for (_, code) in kinds.iter().zip(codes).filter(|(kind, _)| **kind == MeasureKind::Reward as u8) {
            is_channel[*code as usize] = true;
        }
    }
    is_channel
}

struct Driver<'a> {
    store: &'a Store,
    request: &'a Request<'a>,
    channels: Vec<(u32, f64)>,
}

/// Advantage and reason of each rollout of a chunk.
type Advantages = Vec<(Option<f64>, Option<Reason>)>;

/// Columns of one chunk in the order of the schema; `None` is null throughout.
type Piece = (usize, Vec<Option<ArrayRef>>);

impl Driver<'_> {
    /// Advantages of every trace, by chunk. Rollouts of a group are taken in corpus order.
    fn groups(&self, method: &dyn GroupMethod) -> Vec<Advantages> {
        let mut places: Vec<Vec<(usize, usize)>> = Vec::new();
        let mut rewards: Vec<Vec<Option<f64>>> = Vec::new();
        let mut of_key: HashMap<&str, usize> = HashMap::new();
        let mut out: Vec<Advantages> = Vec::with_capacity(self.store.chunks().len());
        for (index, chunk) in self.store.chunks().iter().enumerate() {
            let view = ChunkView::new(self.store, chunk);
            out.push(vec![(None, None); view.len()]);
            for i in 0..view.len() {
                let trace = view.trace(i);
                let next = places.len();
                let group = *of_key.entry(trace.group_id).or_insert(next);
                if group == next {
                    places.push(Vec::new());
                    rewards.push(Vec::new());
                }
                places[group].push((index, i));
                rewards[group].push(reward_of(&trace, &self.channels));
            }
        }
        let mut credit = GroupCredit::default();
        for (places, rewards) in places.iter().zip(&rewards) {
            assign_group(method, rewards, self.request.params, &mut credit);
            for ((chunk, i), value) in places.iter().zip(credit.advantages.iter().zip(&credit.reasons)) {
                out[*chunk][*i] = (*value.0, *value.1);
            }
        }
        out
    }

    fn chunk(
        &self,
        method: &Method,
        advantages: Option<&[(Option<f64>, Option<Reason>)]>,
        chunk: &Chunk,
        scratch: &mut Scratch,
        rows: &mut Rows,
    ) -> Result<Piece> {
        let view = ChunkView::new(self.store, chunk);
        let unit = self.request.unit;
        let mut unit_ids = StringViewBuilder::new();
        let mut name = String::new();
        for i in 0..view.len() {
            let trace = view.trace(i);
            let first = rows.len();
            match method {
                Method::PerTrace(method) => {
                    let amount = reward_of(&trace, &self.channels);
                    assign_trace(*method, &trace, amount, self.request.params, unit, scratch, rows);
                }
                Method::PerGroup(_) => {
                    let (value, reason) = advantages.map_or((None, None), |a| a[i]);
                    assign_rollout(&trace, value, reason, unit, scratch, rows);
                }
            }
            if unit != Unit::Event {
                for row in first..rows.len() {
                    if rows.unit[row] == NO_UNIT {
                        unit_ids.append_null();
                        continue;
                    }
                    name.clear();
                    let names = self.store.names();
                    scratch.partition().name(rows.unit[row] as usize).write_id(
                        &trace,
                        |code| names.dict(Dict::Agent).name(code),
                        |code| names.dict(Dict::Role).name(code),
                        &mut name,
                    );
                    unit_ids.append_value(&name);
                }
            }
        }
        self.columns(chunk, rows, unit_ids)
    }

    fn columns(&self, chunk: &Chunk, rows: &Rows, mut unit_ids: StringViewBuilder) -> Result<Piece> {
        let n = rows.len();
        let mut trace_of = Vec::with_capacity(n);
        let mut residual = Vec::with_capacity(n);
        let mut any_residual = false;
        let mut valid_residual = Vec::with_capacity(rows.traces.len());
        for (i, trace) in rows.traces.iter().enumerate() {
            trace_of.resize(trace.end, i as u32);
            residual.resize(trace.end, trace.residual.unwrap_or(0.0));
            valid_residual.push(trace.residual.is_some());
            any_residual |= trace.residual.is_some();
        }
        let trace_of = UInt32Array::from(trace_of);
        let by_event = self.request.unit == Unit::Event;
        let numbers = if by_event {
            Arc::clone(chunk.events.column(0))
        } else {
            take(chunk.traces.column(0), &trace_of, None)?
        };
        let unit_id: ArrayRef =
            if by_event { Arc::clone(chunk.events.column(2)) } else { Arc::new(unit_ids.finish()) };
        let seq: ArrayRef = if by_event {
            Arc::clone(chunk.events.column(1))
        } else {
            Arc::new(rows.seq.iter().map(|s| (*s != NO_UNIT).then_some(*s)).collect::<UInt32Array>())
        };
        // A gather of views: the text of the ids is shared.
        let trace_id = take(chunk.traces.column(1), &trace_of, None)?;
        debug_assert!(trace_id.as_any().is::<StringViewArray>());
        let nulls = rows.valid.contains(&false).then(|| NullBuffer::from(rows.valid.as_slice()));
        let credit: ArrayRef = Arc::new(Float64Array::new(rows.credit.clone().into(), nulls));
        let residual: Option<ArrayRef> = any_residual.then(|| {
            let all = valid_residual.iter().all(|v| *v);
            let nulls = (!all).then(|| {
                trace_of.values().iter().map(|i| valid_residual[*i as usize]).collect::<NullBuffer>()
            });
            Arc::new(Float64Array::new(residual.into(), nulls)) as ArrayRef
        });
        let reason = if rows.reason.iter().any(Option::is_some) {
            Some(word_array(rows.reason.iter().map(|r| r.map_or(u8::MAX, |r| r as u8)).collect(), REASONS)?)
        } else {
            None
        };
        let columns = vec![
            Some(numbers),
            Some(unit_id),
            Some(trace_id),
            Some(seq),
            Some(credit),
            None,
            None,
            residual,
            reason,
        ];
        Ok((n, columns))
    }
}

fn into_batches(pieces: Vec<Piece>) -> Result<(Vec<RecordBatch>, SchemaRef)> {
    let used: Vec<bool> = (0..CREDITS.columns.len())
        .map(|c| c < 5 || pieces.iter().any(|(_, columns)| columns[c].is_some()))
        .collect();
    let fields: Vec<_> = CREDITS
        .columns
        .iter()
        .zip(&used)
        .filter(|(_, used)| **used)
        .map(|(column, _)| column.field())
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let batches = pieces
        .into_iter()
        .map(|(rows, columns)| {
            let columns = columns.into_iter().zip(&used).zip(CREDITS.columns).filter(|((_, used), _)| **used);
            let columns = columns.map(|((array, _), column)| {
                array.map_or_else(
                    || match column.kind {
                        crate::schema::Kind::Word(words) => word_array(vec![u8::MAX; rows], words),
                        kind => Ok(new_null_array(&kind.arrow(), rows)),
                    },
                    Ok,
                )
            });
            Ok(RecordBatch::try_new(Arc::clone(&schema), columns.collect::<Result<Vec<_>>>()?)?)
        })
        .collect::<Result<Vec<_>>>()?;
    Ok((batches, schema))
}
