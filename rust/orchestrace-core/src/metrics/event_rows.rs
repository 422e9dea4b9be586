//! Metrics of single events as columns: a row for each event that a metric names.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringViewArray, UInt32Array};
use arrow_schema::{Schema, SchemaRef};
use arrow_select::take::take;
use rayon::prelude::*;

use super::group::Options;
use super::subject::{Preparation, Subject};
use crate::error::Result;
use crate::run::Run;
use crate::schema::{Column, Kind};
use crate::store::view::ChunkView;
use crate::store::{Chunk, Store};

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
) -> Result<(Vec<RecordBatch>, SchemaRef)> {
    store.expect_whole()?;
    run.expect(store.n_traces() as u64);
    let head = [("trace", Kind::U32), ("trace_id", Kind::Text), ("seq", Kind::U32), ("event_id", Kind::Text)];
    let columns = head.into_iter().chain(names.map(|name| (name, Kind::F64)));
    let fields: Vec<_> = columns.map(|(name, kind)| Column { name, kind, nullable: false }.field()).collect();
    let schema = Arc::new(Schema::new(fields));
    let of_chunk = |chunk: &Chunk| -> Result<RecordBatch> {
        let view = ChunkView::new(store, chunk);
        let told: Vec<Vec<EventRow<K>>> = (0..view.len())
            .into_par_iter()
            .map_init(<(Preparation, W)>::default, |(preparation, buffers), i| {
                run.check()?;
                let trace = view.trace(i);
                let rows = find(buffers, &preparation.prepare(&trace, options));
                run.advance(1);
                Ok(rows)
            })
            .collect::<Result<_>>()?;
        let rows = || told.iter().enumerate().flat_map(|(i, rows)| rows.iter().map(move |row| (i, row)));
        let places = UInt32Array::from_iter_values(rows().map(|(i, _)| i as u32));
        let ids = rows().map(|(i, row)| view.trace(i).id.get(row.0 as usize));
        let mut columns: Vec<ArrayRef> = vec![
            take(chunk.traces.column(0), &places, None)?,
            take(chunk.traces.column(1), &places, None)?,
            Arc::new(UInt32Array::from_iter_values(rows().map(|(_, row)| row.0))),
            Arc::new(ids.collect::<StringViewArray>()),
        ];
        for at in 0..K {
            columns.push(Arc::new(Float64Array::from_iter_values(rows().map(|(_, row)| row.1[at]))));
        }
        Ok(RecordBatch::try_new(Arc::clone(&schema), columns)?)
    };
    let batches =
        run.pool().install(|| store.chunks().par_iter().map(of_chunk).collect::<Result<Vec<_>>>())?;
    Ok((batches, schema))
}
