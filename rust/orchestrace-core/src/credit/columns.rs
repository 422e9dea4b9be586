//! Credits as columns: chunks in parallel, rows in corpus order.
//!
//! Columns that are null throughout are left out of the batches; the schema says which are there. At unit `event` the
//! ids and numbers are the store's own buffers.

use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, Float64Array, Int64Array, UInt32Array, new_null_array};
use arrow_buffer::NullBuffer;
use arrow_select::take::take;

use super::assign::Scratch;
use super::rollup::Rows;
use crate::error::Result;
use crate::graph::NO_UNIT;
use crate::run::Run;
use crate::schema::{CREDITS, Column, Dict, Kind, Over, REASONS, Unit};
use crate::store::view::TraceView;
use crate::store::{Chunk, Store, word_array};
use crate::tables::{Batches, Columns, in_chunks, schema_of};

/// A column and its name.
type Set = (&'static str, ArrayRef);

/// Rows of one chunk and their columns; what is null throughout is not among them.
pub(super) type Piece = (usize, Vec<Set>);

/// Columns of [`CREDITS`], the first ones, that every batch has.
const ALWAYS: usize = 5;

/// Where a trace is: its chunk, its place there, its first event among those of the chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) chunk: usize,
    pub(super) trace: usize,
    pub(super) first_event: usize,
}

/// Calls `assign` for every trace and each of `n` results, which appends the rows of the trace to that result.
/// Pieces of the results come side by side, a chunk after the other.
pub(super) fn of_chunks(
    store: &Store,
    unit: Unit,
    n: usize,
    run: &Run,
    over: Over,
    assign: impl Fn(Place, usize, &TraceView<'_>, &mut Scratch, &mut Rows) + Sync,
) -> Result<Vec<Vec<Piece>>> {
    let buffers = || (Scratch::over(over), (0..n).map(|_| Rows::default()).collect::<Vec<_>>());
    in_chunks(store, run, buffers, |(scratch, results), part| {
        let mut names = (0..n).map(|_| UnitIds::new(store, unit)).collect::<Vec<_>>();
        for rows in results.iter_mut() {
            rows.clear();
            rows.credit.reserve(if unit == Unit::Event { part.chunk.events.num_rows() } else { 0 });
        }
        for i in 0..part.view.len() {
            let trace = part.trace(i);
            let place = Place { chunk: part.index, trace: i, first_event: part.view.first_event(i) };
            for (which, (rows, names)) in results.iter_mut().zip(&mut names).enumerate() {
                let first = rows.unit.len();
                assign(place, which, &trace, scratch, rows);
                names.append(&trace, scratch, &rows.unit[first..]);
            }
        }
        let pieces =
            results.iter_mut().zip(names).map(|(rows, names)| columns(part.chunk, unit, rows, names));
        let pieces = pieces.collect();
        run.advance(part.view.len() as u64);
        pieces
    })
}

/// The column `unit_id`; at unit `event` it is the store's.
struct UnitIds<'a> {
    store: &'a Store,
    unit: Unit,
    ids: StringViewBuilder,
    id: String,
}

impl<'a> UnitIds<'a> {
    fn new(store: &'a Store, unit: Unit) -> Self {
        Self { store, unit, ids: StringViewBuilder::new(), id: String::new() }
    }

    fn append(&mut self, trace: &TraceView<'_>, scratch: &Scratch, units: &[u32]) {
        if self.unit == Unit::Event {
            return;
        }
        let names = self.store.names();
        for &unit in units {
            if unit == NO_UNIT {
                self.ids.append_null();
                continue;
            }
            self.id.clear();
            scratch.partition().name(unit as usize).write_id(
                trace,
                |code| names.dict(Dict::Agent).name(code),
                |code| names.dict(Dict::Role).name(code),
                &mut self.id,
            );
            self.ids.append_value(&self.id);
        }
    }
}

fn columns(chunk: &Chunk, unit: Unit, rows: &mut Rows, mut names: UnitIds<'_>) -> Result<Piece> {
    let n = rows.len();
    let any_residual = rows.traces.iter().any(|trace| trace.residual.is_some());
    let all_residual = rows.traces.iter().all(|trace| trace.residual.is_some());
    let mut residual = Vec::with_capacity(if any_residual { n } else { 0 });
    if any_residual {
        for trace in &rows.traces {
            residual.resize(trace.end, trace.residual.unwrap_or(0.0));
        }
    }
    let is_chunk = unit == Unit::Event && n == chunk.events.num_rows();
    let [numbers, trace_id] = if is_chunk {
        [Arc::clone(chunk.events.column(0)), chunk.trace_ids()?]
    } else {
        let trace_of = UInt32Array::from(rows.trace_of());
        [take(chunk.traces.column(0), &trace_of, None)?, take(chunk.traces.column(1), &trace_of, None)?]
    };
    let (unit_id, seq): (ArrayRef, ArrayRef) = if is_chunk {
        (Arc::clone(chunk.events.column(2)), Arc::clone(chunk.events.column(1)))
    } else if unit == Unit::Event {
        let places = events_of_rows(chunk, rows);
        (take(chunk.events.column(2), &places, None)?, take(chunk.events.column(1), &places, None)?)
    } else {
        let seq = rows.seq.iter().map(|s| (*s != NO_UNIT).then_some(*s)).collect::<UInt32Array>();
        (Arc::new(names.ids.finish()), Arc::new(seq))
    };
    if !rows.valid.is_empty() {
        rows.settle();
    }
    let nulls = rows.valid.contains(&false).then(|| NullBuffer::from(rows.valid.as_slice()));
    let credit: ArrayRef = Arc::new(Float64Array::new(std::mem::take(&mut rows.credit).into(), nulls));
    let residual: Option<ArrayRef> = any_residual.then(|| {
        let has_residual = |i: u32| rows.traces[i as usize].residual.is_some();
        let nulls =
            (!all_residual).then(|| rows.trace_of().into_iter().map(has_residual).collect::<NullBuffer>());
        Arc::new(Float64Array::new(residual.into(), nulls)) as ArrayRef
    });
    let reason = if rows.reason.iter().any(Option::is_some) {
        Some(word_array(rows.reason.iter().map(|r| r.map_or(u8::MAX, |r| r as u8)).collect(), REASONS)?)
    } else {
        None
    };
    let (stderr, n_samples) = estimates(rows, n);
    let columns = [
        ("trace", Some(numbers)),
        ("unit_id", Some(unit_id)),
        ("trace_id", Some(trace_id)),
        ("seq", Some(seq)),
        ("credit", Some(credit)),
        ("stderr", stderr),
        ("n_samples", n_samples),
        ("residual", residual),
        ("reason", reason),
    ];
    Ok((n, columns.into_iter().filter_map(|(name, array)| Some((name, array?))).collect()))
}

/// Standard errors and numbers of draws, where any row has them.
fn estimates(rows: &mut Rows, n: usize) -> (Option<ArrayRef>, Option<ArrayRef>) {
    if rows.stderr.is_empty() {
        return (None, None);
    }
    rows.stderr.resize(n, f64::NAN);
    rows.n_samples.resize(n, 0);
    let stderr = rows.stderr.iter().map(|x| x.is_finite().then_some(*x)).collect::<Float64Array>();
    let n_samples = rows.n_samples.iter().map(|n| (*n > 0).then_some(*n)).collect::<Int64Array>();
    (Some(Arc::new(stderr)), Some(Arc::new(n_samples)))
}

/// At unit `event`, the event of each row of a chunk; null on the row without a unit, which a share has where it leaves
/// a remainder.
fn events_of_rows(chunk: &Chunk, rows: &Rows) -> UInt32Array {
    let mut places = Vec::with_capacity(rows.len());
    for (trace, starts) in rows.traces.iter().zip(chunk.starts.windows(2)) {
        places.extend((starts[0][0]..starts[1][0]).map(Some));
        places.resize(trace.end, None);
    }
    places.into()
}

/// Each of `n` results of [`of_chunks`] as a table.
pub(super) fn into_tables(chunks: Vec<Vec<Piece>>, n: usize) -> Result<Vec<Batches>> {
    let mut results = (0..n).map(|_| Vec::with_capacity(chunks.len())).collect::<Vec<_>>();
    for pieces in chunks {
        for (result, piece) in results.iter_mut().zip(pieces) {
            result.push(piece);
        }
    }
    results.into_iter().map(into_batches).collect()
}

/// All pieces with the columns that any of them has.
fn into_batches(pieces: Vec<Piece>) -> Result<Batches> {
    let has = |set: &[Set], column: &Column| set.iter().any(|(name, _)| *name == column.name);
    let (first, more) = CREDITS.columns.split_at(ALWAYS);
    let more = more.iter().filter(|column| pieces.iter().any(|(_, set)| has(set, column)));
    let used: Vec<Column> = first.iter().chain(more).copied().collect();
    let schema = schema_of(&used);
    let batches = pieces.into_iter().map(|(rows, set)| {
        let unset: Vec<_> = used.iter().filter(|column| !has(&set, column)).collect();
        let columns = set.into_iter().fold(Columns::new(&schema), |all, (name, array)| all.set(name, array));
        let columns = unset.into_iter().try_fold(columns, |all, column| match column.kind {
            Kind::Word(words) => all.words(column.name, vec![u8::MAX; rows], words),
            kind => Ok(all.set(column.name, new_null_array(&kind.arrow(), rows))),
        });
        columns?.finish()
    });
    Ok((batches.collect::<Result<Vec<_>>>()?, schema))
}
