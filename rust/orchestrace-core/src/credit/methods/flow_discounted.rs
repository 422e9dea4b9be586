//! Discounted return along the graph: the value of the outcome at an event, with graph hops as steps.
//!
//! ```text
//! c(y) = R,   c(u) = Σ_v γ (1-κ) c(v) a(u,v) over the successors v of u;   the value of u is c(u)
//! ```
//!
//! a(u,v) is that of `flow`, kernel by kernel. On a chain with κ = 0 this is γ^d R at distance d from the outcome, the
//! discounted return of a single agent. An advantage: an event has what it receives, all of which its predecessors
//! have again. A virtual sink is no hop: the sinks have equal parts of R.
//!
//! O(|V| + |E|), the pass of `flow`. Reference: docs/reference/definitions.md, D12. Axioms: null player; linearity.

use std::borrow::Cow;

use super::flow::{EPSILON, KERNEL, TAU, WEIGHTS, explain, flow};
use crate::credit::method::{Axiom, CreditMethod, Method, MethodInfo, Quantity, Scope, Values};
use crate::credit::params::{PROGRAM_ORDER, Param, ParamKind, Params, Value};
use crate::credit::terms::{Credited, Terms};
use crate::graph::TraceGraph;
use crate::schema::{Reason, Unit};
use crate::store::view::TraceView;

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[Method::PerTrace(&FlowDiscounted)];

/// The method `flow_discounted`.
pub struct FlowDiscounted;

static INFO: MethodInfo = MethodInfo {
    name: "flow_discounted",
    summary: "the outcome flows back along the edges; each edge discounts it",
    reference: "defined by this project (docs/reference/definitions.md, D12)",
    quantity: Quantity::Advantage,
    scope: Scope::Trace,
    units: Unit::ALL,
    axioms: &[Axiom::NullPlayer, Axiom::Linearity],
    params: &[
        KERNEL,
        Param {
            name: "gamma",
            kind: ParamKind::Float(0.0, 1.0),
            default: Value::Float(0.99),
            doc: "discount per edge",
        },
        Param {
            name: "retention",
            kind: ParamKind::Float(0.0, 1.0),
            default: Value::Float(0.0),
            doc: "share of its inflow that an event with predecessors does not pass on",
        },
        TAU,
        WEIGHTS,
        EPSILON,
        PROGRAM_ORDER,
        Param {
            name: "weight",
            kind: ParamKind::Choice(&["rows", "tokens_out"]),
            default: Value::Text(Cow::Borrowed("rows")),
            doc: "weight of an event in the mean of a larger unit: 1, or its output tokens",
        },
    ],
    tier: None,
    needs_graph: true,
};

impl CreditMethod for FlowDiscounted {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn assign(
        &self,
        view: &TraceView<'_>,
        amount: f64,
        params: &Params,
        graph: &mut TraceGraph,
        values: &mut Values,
    ) -> Result<(), Reason> {
        flow::<false>(view, amount, params, graph, values)
    }

    fn terms(&self, credited: &Credited<'_>, graph: &mut TraceGraph, out: &mut Terms) {
        explain::<false>(credited, graph, out);
    }
}
