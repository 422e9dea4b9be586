//! What taint tables share: options, the buffers of a worker, ids of events.

use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{ListBuilder, StringViewBuilder};
use arrow_schema::Field;

use super::cut::SanitizerCut;
use super::taint::{Carry, Risk, Rules, Scene, Taint};
use crate::error::{Reason, Result};
use crate::graph::program::ProgramOrder;
use crate::graph::{CsrGraph, Owners, Topological, outcome};
use crate::schema::{Column, Kind};
use crate::store::view::{ChunkView, TraceView};

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
    lower: Taint,
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
        let answer = match topological.any(&mut graph) {
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
        answer
    }

    /// The closure over exact safety flows; `None` where they are themselves an upper bound.
    pub(super) fn lower(&mut self, scene: &Scene<'_>, rules: &Rules) -> Option<&Taint> {
        if scene.view.conservative_flows {
            return None;
        }
        let rules = Rules { carry: Carry::SafetyFlow, program_order: false, ..rules.clone() };
        self.lower.compute(scene, &rules).ok()?;
        Some(&self.lower)
    }
}

pub(super) fn field(name: &'static str, kind: Kind) -> Field {
    Column { name, kind, nullable: true }.field()
}

pub(super) fn key(name: &'static str, kind: Kind) -> Field {
    Column { name, kind, nullable: false }.field()
}

/// Lists of the ids of events, each of the trace at a place; an empty one is null.
pub(super) fn id_lists<'a>(
    view: &ChunkView<'_>,
    paths: impl Iterator<Item = (usize, &'a [u32])>,
) -> ArrayRef {
    let mut lists = ListBuilder::new(StringViewBuilder::new());
    for (i, path) in paths {
        for &v in path {
            lists.values().append_option(view.event_id(i, v as usize));
        }
        lists.append(!path.is_empty());
    }
    Arc::new(lists.finish())
}
