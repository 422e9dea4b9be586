//! Backward flow of the outcome through the graph: the part that an event keeps of its inflow.
//!
//! ```text
//! c(y) = R,   c(u) = Σ_v (1-κ) c(v) a(u,v) over the successors v of u,   Σ_u a(u,v) = 1 over the predecessors of v
//! an event with predecessors keeps κ c(v) and sends the rest; a source keeps c(v)
//! a(u,v) ∝ 1 (uniform) | merged type weight (edge_type) | exp(-max(0, t_v-t_u)/τ) (time_decay)
//!        | z = w x_u (lrp) | Shapley value of u in the noisy-or gate of v (shapley_gate)
//! ```
//!
//! A virtual sink keeps nothing and sends equal parts to all sinks. In the random-walk view κ is the restart
//! probability and credit is R times the absorption distribution of the reversed walk.
//!
//! `lrp` and `shapley_gate` read the structural surrogate (D15): w = 1 - (1/4)^a with a the share of the edge in the
//! weight into v, and `x_u` = the field `score`, kept within 0..1, else what the gate of u makes of its inputs, 1 at a
//! source. `lrp` divides by Σz + ε; what falls on ε is not sent on, v keeps it, so that shares still sum to R. An
//! event none of whose inputs carries anything (weights or scores of 0) is a source.
//!
//! O(|V| + |E|), one pass from the outcome up. What an event receives is summed in the reverse of the topological
//! order that was found, which is a function of the trace alone.
//! References: docs/reference/definitions.md, D12; layer-wise relevance propagation: S. Bach et al., `PLoS` ONE
//! 10(7), 2015, equation 58; Shapley value of a gate: G. Owen, Multilinear extensions of games, 1972. Axioms: efficiency; null
//! player, that is, an event with no path to the outcome gets exactly 0; linearity in R.

mod document;
mod gate;
mod pass;
mod terms;
#[cfg(test)]
mod tests;

use std::borrow::Cow;

use self::document::Flowing;
use self::pass::{Pass, Weights};
pub(super) use self::terms::explain;
use crate::credit::method::{Axiom, CreditMethod, Method, MethodInfo, Quantity, Scope, Values};
use crate::credit::params::{PROGRAM_ORDER, Param, ParamKind, Params, Value};
use crate::credit::terms::{Credited, Terms};
use crate::graph::weights::N_TYPES;
use crate::graph::{GraphOptions, Outcome, TYPE_WEIGHTS, TraceGraph};
use crate::schema::{Reason, Unit};
use crate::store::view::TraceView;
use crate::surrogate::Structure;

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[Method::PerTrace(&Flow)];

/// The method `flow`.
pub struct Flow;

const RETENTION: f64 = 0.1;

// Shared with `flow_discounted`.
pub(super) const KERNEL: Param = Param {
    name: "kernel",
    kind: ParamKind::Choice(&["uniform", "edge_type", "time_decay", "lrp", "shapley_gate"]),
    default: Value::Text(Cow::Borrowed("uniform")),
    doc: "how an event divides what it does not keep among its predecessors",
};
pub(super) const TAU: Param = Param {
    name: "tau",
    kind: ParamKind::Float(0.0, f64::MAX),
    default: Value::Null,
    doc: "time constant of time_decay; null: a tenth of the trace's time range; 0: uniform",
};
pub(super) const WEIGHTS: Param = Param {
    name: "weights",
    kind: ParamKind::Floats(N_TYPES, 0.0, 1e12),
    default: Value::Null,
    doc: "weights of edge_type, lrp and shapley_gate: temporal, causal, spawn, message, tool_dependency, return, \
          aggregate, safety_flow; null: 0.2, 1, 0.5, 0.7, 0.9, 1, 1.2, 0.3",
};
pub(super) const EPSILON: Param = Param {
    name: "epsilon",
    kind: ParamKind::Float(0.0, 1e12),
    default: Value::Float(0.0),
    doc: "stabilizer of lrp; its share stays with the event",
};

static INFO: MethodInfo = MethodInfo {
    name: "flow",
    summary: "the outcome flows back along the edges; every event keeps a part of what it receives",
    reference: "defined by this project (docs/reference/definitions.md, D12); restart view: personalized PageRank, \
                Haveliwala 2002; lrp: Bach et al. 2015, equation 58",
    quantity: Quantity::Share,
    scope: Scope::Trace,
    units: Unit::ALL,
    axioms: &[Axiom::Efficiency, Axiom::NullPlayer, Axiom::Linearity],
    params: &[
        KERNEL,
        Param {
            name: "retention",
            kind: ParamKind::Float(0.0, 1.0),
            default: Value::Float(RETENTION),
            doc: "share of its inflow that an event with predecessors keeps",
        },
        TAU,
        WEIGHTS,
        EPSILON,
        PROGRAM_ORDER,
    ],
    tier: None,
    needs_graph: true,
};

impl CreditMethod for Flow {
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
        flow::<true>(view, amount, params, graph, values)
    }

    fn terms(&self, credited: &Credited<'_>, graph: &mut TraceGraph, out: &mut Terms) {
        explain::<true>(credited, graph, out);
    }
}

/// Values every event by what it keeps or, unless `KEPT`, by what it receives.
pub(super) fn flow<const KEPT: bool>(
    view: &TraceView<'_>,
    amount: f64,
    params: &Params,
    graph: &mut TraceGraph,
    values: &mut Values,
) -> Result<(), Reason> {
    let outcome = graph.outcome(view)?;
    let call = Call::new(params, outcome, amount);
    if matches!(call.kernel, "uniform" | "edge_type") && !call.options.program_order {
        let Call { retention, gamma, .. } = call;
        let flowing = Flowing { outcome, amount, retention, gamma, weights: call.options.weights };
        if flowing.run::<KEPT>(view, &mut graph.seen, &mut values.work[0], &mut values.events) {
            return Ok(());
        }
    }
    let (pass, weights) = call.prepare(view, params, graph, &mut values.work[0])?;
    pass.run::<KEPT>(weights, &mut values.events);
    Ok(())
}

/// What is asked for, with the defaults of both methods.
#[derive(Debug, Clone, Copy)]
struct Call<'p> {
    kernel: &'p str,
    outcome: Outcome,
    amount: f64,
    retention: f64,
    gamma: f64,
    options: GraphOptions<'p>,
}

impl<'p> Call<'p> {
    fn new(params: &'p Params, outcome: Outcome, amount: f64) -> Self {
        let kernel = params.text("kernel").unwrap_or_default();
        let weighted = matches!(kernel, "edge_type" | "lrp" | "shapley_gate");
        let by_caller = params.floats("weights").and_then(|w| <&[f64; N_TYPES]>::try_from(w).ok());
        let weights = weighted.then_some(by_caller.unwrap_or(&TYPE_WEIGHTS));
        let retention = params.float("retention").unwrap_or(RETENTION);
        let gamma = params.float("gamma").unwrap_or(1.0);
        let options = GraphOptions { program_order: params.bool("program_order"), weights };
        Self { kernel, outcome, amount, retention, gamma, options }
    }

    /// The pass over the graph of the trace, and what every event divides by; `edges` is room for the latter.
    fn prepare<'a>(
        self,
        view: &TraceView<'a>,
        params: &Params,
        graph: &'a mut TraceGraph,
        edges: &'a mut Vec<f64>,
    ) -> Result<(Pass<'a>, Weights<'a>), Reason> {
        let Self { kernel, outcome, amount, retention, gamma, options } = self;
        graph.build(view, options);
        let (csr, order, weights) = match kernel {
            "lrp" | "shapley_gate" => {
                let (csr, order, surrogate) =
                    graph.surrogate(view, outcome, &Structure::default()).ok_or(Reason::GraphCycle)?;
                surrogate.observe(view);
                if kernel == "lrp" {
                    gate::contributions(csr, surrogate, edges);
                } else {
                    gate::shapley_values(csr, surrogate, edges);
                }
                (csr, order, Weights::Edges(edges))
            }
            _ => {
                let (csr, order) = graph.ordered();
                let order = order.ok_or(Reason::GraphCycle)?;
                (csr, order, plain(kernel, view, params, csr.weights()))
            }
        };
        let epsilon = params.float("epsilon").filter(|_| kernel == "lrp").unwrap_or(0.0);
        let pass = Pass { graph: csr, order, outcome, amount, retention, epsilon, gamma };
        Ok((pass, weights))
    }
}

/// Weights of the kernels that need no more than the graph.
fn plain<'a>(kernel: &str, view: &TraceView<'a>, params: &Params, edges: &'a [f64]) -> Weights<'a> {
    match kernel {
        "edge_type" => Weights::Edges(edges),
        "time_decay" => match params.float("tau").unwrap_or_else(|| default_tau(view.t)) {
            tau if tau > 0.0 => Weights::TimeDecay(view.t, tau),
            _ => Weights::Uniform,
        },
        _ => Weights::Uniform,
    }
}

fn default_tau(t: &[f64]) -> f64 {
    let first = t.iter().copied().fold(f64::INFINITY, f64::min);
    let last = t.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (last - first) / 10.0
}
