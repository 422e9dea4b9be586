//! Equal shares: every event gets R / |V|.
//!
//! The baseline that every other method has to beat. O(|V|), no graph.
//! Reference: docs/reference/definitions.md, D12. Axioms: efficiency, symmetry, linearity.

use crate::credit::method::{Axiom, CreditMethod, Method, MethodInfo, Quantity, Scope, Values};
use crate::credit::params::Params;
use crate::credit::terms::{Credited, Subject, TermKind, Terms};
use crate::graph::TraceGraph;
use crate::schema::{Reason, Unit};
use crate::store::view::TraceView;

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[Method::PerTrace(&Uniform)];

/// The method `uniform`.
pub struct Uniform;

static INFO: MethodInfo = MethodInfo {
    name: "uniform",
    summary: "every event gets an equal share of the outcome",
    reference: "defined by this project (docs/reference/definitions.md, D12)",
    quantity: Quantity::Share,
    scope: Scope::Trace,
    units: Unit::ALL,
    axioms: &[Axiom::Efficiency, Axiom::Symmetry, Axiom::Linearity],
    params: &[],
    tier: None,
    needs_graph: false,
};

impl CreditMethod for Uniform {
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
        values.events.resize(view.len(), amount / view.len() as f64);
        Ok(())
    }

    fn terms(&self, credited: &Credited<'_>, _: &mut TraceGraph, out: &mut Terms) {
        let rule = "amount = R / |V|".into();
        for part in 0..credited.rows.len() {
            out.begin(part);
            out.push(
                TermKind::Outcome,
                &rule,
                1.0 / credited.view.len() as f64,
                credited.amount,
                Subject::Nothing,
            );
        }
    }
}
