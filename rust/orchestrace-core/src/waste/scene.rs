//! What classes of waste and of failure are read off: a trace, its graph, its outcome, its calls.

use super::calls::Calls;
use crate::graph::{CsrGraph, NOBODY, Outcome, Owners, Topological, outcome};
use crate::schema::Reason;
use crate::store::view::TraceView;

/// A trace and what is derived from it.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// Its columns.
    pub view: &'a TraceView<'a>,
    /// Its owners and the canonical order.
    pub owners: &'a Owners,
    /// Its graph, without program order.
    pub graph: &'a CsrGraph,
    /// Place of each event in canonical order.
    pub place: &'a [u32],
    /// Its calls.
    pub calls: &'a Calls,
    /// The outcome, or why it is not known.
    pub outcome: Result<Outcome, Reason>,
    /// Of each event whether a path leads from it to the outcome, or why that is not known.
    pub live: Result<&'a [bool], Reason>,
}

impl Scene<'_> {
    /// Position of the owner of an event among the names, or [`NOBODY`].
    #[must_use]
    #[inline]
    pub fn owner(&self, v: u32) -> u32 {
        self.owners.indices()[v as usize]
    }

    /// The events in canonical order.
    #[must_use]
    pub fn rows(&self) -> &[u32] {
        self.owners.order().rows()
    }
}

/// A worker's buffers for the trace at hand.
#[derive(Debug, Default)]
pub struct Preparation {
    owners: Owners,
    graph: CsrGraph,
    topological: Topological,
    place: Vec<u32>,
    calls: Calls,
    live: Vec<bool>,
    stack: Vec<u32>,
}

impl Preparation {
    /// Replaces everything by what `view` says. O(events + edges + calls log calls).
    pub fn prepare<'a>(&'a mut self, view: &'a TraceView<'a>) -> Scene<'a> {
        self.owners.compute(view);
        self.graph.build(view, &[], None);
        let is_acyclic = self.topological.any(&mut self.graph).is_some();
        self.place.clear();
        self.place.resize(view.len(), 0);
        for (at, &v) in self.owners.order().rows().iter().enumerate() {
            self.place[v as usize] = at as u32;
        }
        let outcome = outcome::outcome(view, &self.owners);
        self.live.clear();
        let live = match outcome {
            _ if !is_acyclic => Err(Reason::GraphCycle),
            Err(reason) => Err(reason),
            Ok(Outcome::VirtualSink) => Err(Reason::OutcomeAbsent),
            Ok(Outcome::Event(y)) => {
                self.graph.mark_ancestors(y, &mut self.live, &mut self.stack);
                Ok(())
            }
        };
        self.calls.compute(view, &self.owners, &self.graph, &self.place);
        Scene {
            view,
            owners: &self.owners,
            graph: &self.graph,
            place: &self.place,
            calls: &self.calls,
            outcome,
            live: live.map(|()| &self.live[..]),
        }
    }
}

/// Without [`NOBODY`].
#[must_use]
#[inline]
pub fn without_none(code: u32) -> Option<u32> {
    Some(code).filter(|&code| code != NOBODY)
}
