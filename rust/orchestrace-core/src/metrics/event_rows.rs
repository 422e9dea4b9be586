//! Metrics of single events as columns: a row for each event that a metric names.

use arrow_array::UInt32Array;

use super::options::Options;
use super::subject::{Preparation, Subject};
use crate::error::Result;
use crate::run::Run;
use crate::schema::{Column, Kind};
use crate::store::Store;
use crate::tables::{Batches, Columns, schema_of, table};

/// An event and its numbers.
pub(super) type EventRow<const K: usize> = (u32, [f64; K]);

/// The rows that `find` makes of every trace: `trace trace_id seq event_id` and the named numbers. `W` are the buffers of a
/// worker.
pub(super) fn event_rows<W: Default + Send, const K: usize>(
    store: &Store,
    options: &Options,
    run: &Run,
    names: [&'static str; K],
    find: impl Fn(&mut W, &Subject<'_>) -> Vec<EventRow<K>> + Sync,
) -> Result<Batches> {
    let head = [("trace", Kind::U32), ("trace_id", Kind::Text), ("seq", Kind::U32), ("event_id", Kind::Text)];
    let all = head.into_iter().chain(names.map(|name| (name, Kind::F64)));
    let all: Vec<_> = all.map(|(name, kind)| Column { name, kind, nullable: false }).collect();
    table(
        store,
        run,
        schema_of(&all),
        <((Preparation, W), Vec<(u32, EventRow<K>)>)>::default,
        |(preparation, buffers), rows, part, i| {
            let trace = part.trace(i);
            let of_trace = find(buffers, &preparation.prepare(&trace, options));
            rows.extend(of_trace.into_iter().map(|row| (i as u32, row)));
            Ok(())
        },
        |columns, part, rows| {
            let places = UInt32Array::from_iter_values(rows.iter().map(|(i, _)| *i));
            let seq = rows.iter().map(|(_, row)| Some(row.0));
            let ids = rows.iter().map(|(i, row)| part.view.event_id(*i as usize, row.0 as usize));
            let columns = (columns.taken(&["trace", "trace_id"], &part.chunk.traces, &places)?)
                .counts("seq", seq)
                .texts("event_id", ids);
            let number = |columns: Columns, (at, name): (usize, _)| {
                columns.numbers(name, rows.iter().map(|(_, row)| Some(row.1[at])))
            };
            Ok(names.into_iter().enumerate().fold(columns, number))
        },
    )
}
