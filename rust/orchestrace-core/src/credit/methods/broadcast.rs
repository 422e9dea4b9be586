//! The outcome itself, copied to every unit.
//!
//! What trainers do that treat each call of a run as a sample of its own with the run's final reward: no baseline,
//! no division. O(1) a trace, no graph.
//! Reference: X. Luo et al., Agent Lightning, arXiv 2508.03680. Axioms: linearity.

use crate::credit::method::{Axiom, CreditMethod, Method, MethodInfo, Quantity, Scope, Values};
use crate::credit::params::Params;
use crate::credit::terms::{Credited, RowKind, Subject, TermKind, Terms};
use crate::graph::TraceGraph;
use crate::schema::{Reason, Unit};
use crate::store::view::TraceView;

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[Method::PerTrace(&Broadcast)];

/// The method `broadcast`.
pub struct Broadcast;

static INFO: MethodInfo = MethodInfo {
    name: "broadcast",
    summary: "every unit gets the outcome itself",
    reference: "arXiv 2508.03680",
    quantity: Quantity::Advantage,
    scope: Scope::Trace,
    units: Unit::ALL,
    axioms: &[Axiom::Linearity],
    params: &[],
    tier: None,
    needs_graph: false,
};

impl CreditMethod for Broadcast {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn assign(
        &self,
        view: &TraceView<'_>,
        amount: f64,
        _: &Params,
        _: &mut TraceGraph,
        values: &mut Values,
    ) -> Result<(), Reason> {
        // one row, the whole trace
        values.row_of.resize(view.len(), 0);
        values.events.push(amount);
        Ok(())
    }

    fn row_kind(&self, _: &Params) -> RowKind {
        RowKind::Trace
    }

    fn terms(&self, credited: &Credited<'_>, _: &mut TraceGraph, out: &mut Terms) {
        let rule = "amount = R".into();
        for part in 0..credited.rows.len() {
            out.begin(part);
            out.push(TermKind::Outcome, &rule, 1.0, credited.amount, Subject::Nothing);
        }
    }
}
