//! Derived data of one trace that kernels share, each computed once and on demand.

use super::csr::CsrGraph;
use super::hearing::Hearing;
use super::order::{CanonicalOrder, Order, Topological};
use super::outcome::{self, Outcome};
use super::owner::Owners;
use super::program::ProgramOrder;
use super::slots::Slots;
use super::turns::Turns;
use super::weights::N_TYPES;
use crate::schema::Reason;
use crate::store::view::TraceView;
use crate::surrogate::{Structure, Surrogate};

/// The graph that a kernel needs.
#[derive(Debug, Clone, Copy, Default)]
pub struct GraphOptions<'a> {
    /// Whether consecutive events of one owner are joined (D3).
    pub program_order: bool,
    /// Weight of each edge type; without it no weights are kept.
    pub weights: Option<&'a [f64; N_TYPES]>,
}

/// A worker's buffers for the trace at hand. [`TraceGraph::begin`] comes first for every trace.
#[derive(Debug, Default)]
pub struct TraceGraph {
    /// Adjacency, as of the last [`TraceGraph::build`].
    pub csr: CsrGraph,
    /// The event that an edge from each source led to last, for passes over the edges themselves.
    pub seen: Slots,
    /// Search for topological orders.
    pub topological: Topological,
    owners: Owners,
    owners_known: bool,
    turns: Turns,
    turns_known: bool,
    program: ProgramOrder,
    hearing: Hearing,
    canonical: CanonicalOrder,
    surrogate: Surrogate,
}

impl TraceGraph {
    /// Forgets the trace before.
    pub fn begin(&mut self) {
        self.owners_known = false;
        self.turns_known = false;
    }

    /// Owners, root and roles.
    pub fn owners(&mut self, view: &TraceView<'_>) -> &mut Owners {
        if !self.owners_known {
            self.owners.compute(view);
            self.owners_known = true;
        }
        &mut self.owners
    }

    /// Owners and turns.
    pub fn turns(&mut self, view: &TraceView<'_>) -> (&Owners, &Turns) {
        self.owners(view);
        if !self.turns_known {
            self.turns.compute(view, &self.owners);
            self.turns_known = true;
        }
        (&self.owners, &self.turns)
    }

    /// Canonical order, for those that need nothing else of the owners.
    pub fn canonical(&mut self, view: &TraceView<'_>) -> &CanonicalOrder {
        if self.owners_known {
            return self.owners.order();
        }
        self.canonical.compute(view.t);
        &self.canonical
    }

    /// Outcome of the trace, or why it has none that is known. Costs owners only where it is not stored.
    pub fn outcome(&mut self, view: &TraceView<'_>) -> Result<Outcome, Reason> {
        match view.owned {
            Some(owned) => owned.outcome,
            None => outcome::outcome(view, self.owners(view)),
        }
    }

    /// Adjacency of the trace.
    pub fn build(&mut self, view: &TraceView<'_>, options: GraphOptions<'_>) -> &CsrGraph {
        if options.program_order {
            self.owners(view);
            self.csr.build(view, self.program.compute(view, &self.owners), options.weights);
        } else {
            self.csr.build(view, &[], options.weights);
        }
        &self.csr
    }

    /// Adjacency of the trace with program order and with what agents heard; of every event whether that is partly assumed.
    pub fn build_heard(&mut self, view: &TraceView<'_>) -> &[bool] {
        self.owners(view);
        let program = self.program.compute(view, &self.owners);
        self.csr.build(view, self.hearing.compute(view, &self.owners, program), None);
        self.hearing.assumed()
    }

    /// The graph as built, and a topological order of it unless it has a cycle.
    pub fn ordered(&mut self) -> (&CsrGraph, Option<Order<'_>>) {
        let order = self.topological.any(&mut self.csr);
        (&self.csr, order)
    }

    /// The graph as built with weights, a topological order of it, and the structural surrogate of its outcome;
    /// `None` if it has a cycle.
    pub fn surrogate(
        &mut self,
        view: &TraceView<'_>,
        outcome: Outcome,
        structure: &Structure,
    ) -> Option<(&CsrGraph, Order<'_>, &mut Surrogate)> {
        let order = self.topological.any(&mut self.csr)?;
        self.surrogate.prepare(view, &self.csr, order, outcome, structure);
        Some((&self.csr, order, &mut self.surrogate))
    }
}
