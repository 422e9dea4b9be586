//! The shared driver of taint tables: one worker per thread, rows of all chunks. Traces go in parallel, rows
//! stand in corpus order.

use std::sync::Arc;

use arrow_array::builder::{ListBuilder, StringViewBuilder};
use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, SchemaRef};
use rayon::prelude::*;

use super::cut::SanitizerCut;
use super::taint::{Risk, Rules, Scene, Taint};
use crate::error::{Reason, Result};
use crate::graph::program::ProgramOrder;
use crate::graph::{CsrGraph, Owners, Topological, outcome};
use crate::run::Run;
use crate::schema::{Column, Kind};
use crate::store::view::{ChunkView, TraceView};
use crate::store::{Chunk, Store};

/// Options of the closure.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Where taint begins, goes and stops.
    pub rules: Rules,
    /// Chances beside the closure.
    pub risk: Option<Risk>,
}

impl Options {
    pub(super) fn check(&self) -> Result<()> {
        self.risk.map_or(Ok(()), Risk::check)
    }
}

/// A worker's buffers.
#[derive(Debug, Default)]
pub(super) struct Worker {
    owners: Owners,
    program: ProgramOrder,
    graph: CsrGraph,
    topological: Topological,
    pub(super) taint: Taint,
    pub(super) lower: Taint,
    pub(super) cut: SanitizerCut,
}

impl Worker {
    /// Passes the closure of a trace to `tell`, or the reason why it has none.
    pub(super) fn with<T>(
        &mut self,
        view: &TraceView<'_>,
        rules: &Rules,
        tell: impl FnOnce(&mut Taint, &mut Self, &Scene<'_>) -> T,
    ) -> std::result::Result<T, Reason> {
        let (mut owners, mut graph) = (std::mem::take(&mut self.owners), std::mem::take(&mut self.graph));
        let mut topological = std::mem::take(&mut self.topological);
        let mut taint = std::mem::take(&mut self.taint);
        owners.compute(view);
        let program = if rules.program_order { self.program.compute(view, &owners) } else { &[][..] };
        graph.build(view, program, None);
        graph.build_successors();
        let outcome = outcome::outcome(view, &owners);
        let found = match topological.any(&mut graph) {
            None => {
                taint.look(view, &owners, rules);
                Err(Reason::GraphCycle)
            }
            Some(order) => {
                let scene = Scene { view, owners: &owners, graph: &graph, order, outcome };
                taint.compute(&scene, rules).map(|_| tell(&mut taint, self, &scene))
            }
        };
        (self.owners, self.graph, self.topological, self.taint) = (owners, graph, topological, taint);
        found
    }
}

/// Rows of all chunks: `of` answers a trace, `columns` lays out what was answered.
pub(super) fn over<T: Send>(
    store: &Store,
    run: &Run,
    schema: &SchemaRef,
    of: impl Fn(&mut Worker, &TraceView<'_>, usize) -> T + Sync,
    columns: impl Fn(&Chunk, &ChunkView<'_>, Vec<T>) -> Result<Vec<ArrayRef>> + Sync,
) -> Result<Vec<RecordBatch>> {
    store.expect_whole()?;
    run.expect(store.n_traces() as u64);
    let begin = |first: &mut usize, chunk: &Chunk| {
        let next = *first + chunk.events.num_rows();
        Some(std::mem::replace(first, next))
    };
    let starts: Vec<usize> = store.chunks().iter().scan(0, begin).collect();
    let of_chunk = |(chunk, &start): (&Chunk, &usize)| -> Result<RecordBatch> {
        let view = ChunkView::new(store, chunk);
        let told = (0..view.len())
            .into_par_iter()
            .map_init(Worker::default, |worker, i| {
                run.check()?;
                let told = of(worker, &view.trace(i), start + view.first_event(i));
                run.advance(1);
                Ok(told)
            })
            .collect::<Result<Vec<T>>>()?;
        Ok(RecordBatch::try_new(Arc::clone(schema), columns(chunk, &view, told)?)?)
    };
    run.pool().install(|| store.chunks().par_iter().zip(&starts).map(of_chunk).collect())
}

pub(super) fn field(name: &'static str, kind: Kind) -> Field {
    Column { name, kind, nullable: true }.field()
}

pub(super) fn key(name: &'static str, kind: Kind) -> Field {
    Column { name, kind, nullable: false }.field()
}

/// Ids of the events of a chunk.
pub(super) struct Ids<'a> {
    pub(super) view: &'a ChunkView<'a>,
}

impl Ids<'_> {
    pub(super) fn of(&self, trace: usize, v: u32) -> Option<&str> {
        self.view.event_id(trace, v as usize)
    }

    /// Lists of ids; an empty one is null.
    pub(super) fn lists<'b>(&self, rows: impl Iterator<Item = &'b [u32]>) -> ArrayRef {
        let mut lists = ListBuilder::new(StringViewBuilder::new());
        for (i, path) in rows.enumerate() {
            for &v in path {
                lists.values().append_option(self.of(i, v));
            }
            lists.append(!path.is_empty());
        }
        Arc::new(lists.finish())
    }
}
