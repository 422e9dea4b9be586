//! Return-to-go of a final reward: R γ^(|V|-1-row), row in canonical order.
//!
//! What a single-agent trainer would use that reads the trace as one sequence of steps. An advantage: values are not
//! parts of R. O(|V|), no graph.
//! Reference: R. S. Sutton, A. G. Barto, Reinforcement Learning, 2018, section 3.3; docs/reference/definitions.md, D12.
//! Axioms: linearity.

use crate::credit::method::{Axiom, CreditMethod, Method, MethodInfo, Quantity, Scope, Values};
use crate::credit::params::{Param, ParamKind, Params, Value, WEIGHT};
use crate::credit::terms::{Credited, Subject, TermKind, Terms};
use crate::graph::TraceGraph;
use crate::schema::{Reason, Unit};
use crate::store::view::TraceView;

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[Method::PerTrace(&Discounted)];

/// The method `discounted`.
pub struct Discounted;

const GAMMA: f64 = 0.99;

static INFO: MethodInfo = MethodInfo {
    name: "discounted",
    summary: "discounted return-to-go of the outcome, events as one sequence",
    reference: "Sutton & Barto 2018, section 3.3",
    quantity: Quantity::Advantage,
    scope: Scope::Trace,
    units: Unit::ALL,
    axioms: &[Axiom::Linearity],
    params: &[
        Param {
            name: "gamma",
            kind: ParamKind::Float(0.0, 1.0),
            default: Value::Float(GAMMA),
            doc: "discount per event",
        },
        WEIGHT,
    ],
    tier: None,
    needs_graph: false,
};

impl CreditMethod for Discounted {
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
        let gamma = params.float("gamma").unwrap_or(GAMMA);
        values.events.resize(view.len(), 0.0);
        let mut value = amount;
        let mut put = |v: usize| {
            values.events[v] = value;
            value *= gamma;
        };
        if view.t.windows(2).all(|w| w[0] <= w[1]) {
            (0..view.len()).rev().for_each(&mut put);
        } else {
            graph.owners(view).order().rows().iter().rev().for_each(|&v| put(v as usize));
        }
        Ok(())
    }

    fn terms(&self, credited: &Credited<'_>, graph: &mut TraceGraph, out: &mut Terms) {
        let gamma = credited.params.float("gamma").unwrap_or(GAMMA);
        let mut later = vec![0.0; credited.view.len()];
        for (after, &v) in graph.canonical(credited.view).rows().iter().rev().enumerate() {
            later[v as usize] = after as f64;
        }
        let rule = "amount = gamma^(|V| - 1 - place) R".into();
        for (part, &v) in credited.rows.iter().enumerate() {
            out.begin(part);
            let weight = gamma.powf(later[v as usize]);
            out.push(TermKind::Outcome, &rule, weight, credited.amount, Subject::Nothing);
        }
    }
}
