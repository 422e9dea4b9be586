//! Generalized advantage on the graph: all successors of a decision in place of one next step.
//!
//! ```text
//! δ(v) = r(v) + γ Σ_w m(v,w) V(w) - V(v),   A(v) = δ(v) + γλ Σ_w m(v,w) A(w)   over the successors w of v
//! mean: Σ_w m(v,w) = 1        split: Σ_v m(v,w) = 1 over the predecessors of w, so that returns are divided, not copied
//! ```
//!
//! Rows are the events of the policy, and others that have a `value`; r is the field `reward` (absent = 0) plus the outcome
//! on y; V is the field `value` of every row, without which the trace is null (`field.absent`). Events that are no row are
//! stepped over: their successors follow their predecessors, and what they earn belongs to those. A virtual outcome has
//! V = 0 and follows every sink. On a chain this
//! is `gae`. O(|V| + |E|).
//! Reference: defined by this project (docs/reference/definitions.md, D14), after arXiv 1506.02438.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::returns::{is_over, rows_beside, stepped_over};
use crate::credit::method::{CreditMethod, Method, MethodInfo, Quantity, Scope, Values};
use crate::credit::params::{GAMMA, LAMBDA, PROGRAM_ORDER, Param, ParamKind, Params, Value, WEIGHT};
use crate::credit::terms::{Credited, Subject, TermKind, Terms};
use crate::graph::{CsrGraph, GraphOptions, Order, Outcome, TraceGraph};
use crate::schema::{Reason, Unit};
use crate::store::view::TraceView;

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[Method::PerTrace(&DagGae)];

/// The method `dag_gae`.
pub struct DagGae;

static INFO: MethodInfo = MethodInfo {
    name: "dag_gae",
    summary: "generalized advantage along the edges of the graph, with the recorded critic",
    reference: "defined by this project (docs/reference/definitions.md, D14), after arXiv 1506.02438",
    quantity: Quantity::Advantage,
    scope: Scope::Trace,
    units: Unit::ALL,
    axioms: &[],
    params: &[
        GAMMA,
        LAMBDA,
        Param {
            name: "mode",
            kind: ParamKind::Choice(&["mean", "split"]),
            default: Value::Text(Cow::Borrowed("mean")),
            doc: "mean: average over the successors of an event; split: a successor is divided among its predecessors",
        },
        PROGRAM_ORDER,
        WEIGHT,
    ],
    tier: None,
    needs_graph: true,
};

impl CreditMethod for DagGae {
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
        let n = view.len();
        let outcome = graph.outcome(view)?;
        let over = stepped_over(view, graph);
        if let Some(over) = &over {
            values.row_of.extend(rows_beside(over));
        }
        graph.build(view, GraphOptions { program_order: params.bool("program_order"), weights: None });
        let (csr, order) = graph.ordered();
        let order = order.ok_or(Reason::GraphCycle)?;
        let [critic, degree, _] = &mut values.work;
        critic.clear();
        for v in 0..n {
            // nobody asks for the value of an event that is stepped over
            let skipped = if is_over(over.as_deref(), v) { Ok(0.0) } else { Err(Reason::FieldAbsent) };
            critic.push(view.value.get(v).map_or(skipped, Ok)?);
        }
        // successors of each event: what is a mean is divided by them
        degree.clear();
        degree.resize(n, 0.0);
        for v in 0..n {
            for &u in csr.predecessors_of(v) {
                degree[u as usize] += 1.0;
            }
        }
        let gamma = params.float("gamma").unwrap_or_default();
        let pass = Pass {
            csr,
            over: over.as_deref(),
            critic,
            degree,
            gamma,
            fading: gamma * params.float("lambda_").unwrap_or_default(),
            split: params.text("mode") == Some("split"),
        };
        // What comes from the successors is summed in the value's place: δ needs V(w), A needs A(w).
        values.events.resize(n, 0.0);
        match outcome {
            Outcome::Event(y) => values.events[y as usize] = amount,
            Outcome::VirtualSink => pass.pay_sinks(amount, &mut values.events),
        }
        match order {
            Order::Document(n) => pass.run((0..n).rev(), view, &mut values.events),
            Order::Listed(rows) => pass.run(rows.iter().rev().map(|&v| v as usize), view, &mut values.events),
        }
        Ok(())
    }

    fn terms(&self, credited: &Credited<'_>, graph: &mut TraceGraph, out: &mut Terms) {
        let &Credited { view, amount, params, .. } = credited;
        let Ok(outcome) = graph.outcome(view) else { return };
        let over = stepped_over(view, graph);
        graph.build(view, GraphOptions { program_order: params.bool("program_order"), weights: None });
        let mut place = vec![0_u32; view.len()];
        match graph.ordered().1 {
            Some(Order::Listed(rows)) => rows.iter().zip(0..).for_each(|(&v, at)| place[v as usize] = at),
            _ => place.iter_mut().zip(0..).for_each(|(place, at)| *place = at),
        }
        graph.csr.build_successors();
        let csr = &graph.csr;
        let gamma = params.float("gamma").unwrap_or_default();
        let fading = gamma * params.float("lambda_").unwrap_or_default();
        let split = params.text("mode") == Some("split");
        let critic = |v: u32| view.value.get(v as usize).unwrap_or(f64::NAN);
        let sinks = (0..view.len()).filter(|&v| csr.successors_of(v).is_empty()).count() as f64;
        let rule = "amount = r - V + gamma Σ m (V(w) + lambda A(w)) over the successors w".into();
        for (part, &v) in credited.rows.iter().enumerate() {
            out.begin(part);
            let reward = view.reward.get(v as usize).unwrap_or(0.0);
            out.push(TermKind::Reward, &rule, 1.0, reward, Subject::OwnRow(v));
            out.push(TermKind::Critic, &rule, -1.0, critic(v), Subject::OwnRow(v));
            // The event, then what it passes over: by place, so that all that leads to one comes before it.
            let mut reached = BTreeMap::from([(place[v as usize], (v, 1.0))]);
            while let Some((_, (u, weight))) = reached.pop_first() {
                let skipped = u != v;
                if skipped && !is_over(over.as_deref(), u as usize) {
                    out.push(TermKind::Critic, &rule, gamma * weight, critic(u), Subject::OwnRow(u));
                    let later = credited.values.events[u as usize];
                    out.push(TermKind::Successor, &rule, fading * weight, later, Subject::Edge(v, u));
                    continue;
                }
                if let (true, Some(reward)) = (skipped, view.reward.get(u as usize)) {
                    out.push(TermKind::Reward, &rule, weight, reward, Subject::OwnRow(v));
                }
                let successors = csr.successors_of(u as usize);
                match outcome {
                    Outcome::Event(y) if y == u => {
                        out.push(TermKind::Outcome, &rule, weight, amount, Subject::OwnRow(v));
                    }
                    Outcome::VirtualSink if successors.is_empty() => {
                        let weight = weight * fading * if split { 1.0 / sinks } else { 1.0 };
                        out.push(TermKind::Outcome, &rule, weight, amount, Subject::OwnRow(v));
                    }
                    _ => {}
                }
                for &w in successors {
                    let of = if split { csr.in_degree(w as usize) as usize } else { successors.len() };
                    reached.entry(place[w as usize]).or_insert((w, 0.0)).1 += weight / of as f64;
                }
            }
        }
    }
}

struct Pass<'a> {
    csr: &'a CsrGraph,
    over: Option<&'a [bool]>,
    critic: &'a [f64],
    degree: &'a [f64],
    gamma: f64,
    fading: f64,
    split: bool,
}

impl Pass<'_> {
    /// A virtual outcome earns the amount and is the one successor of every sink.
    fn pay_sinks(&self, amount: f64, values: &mut [f64]) {
        let sinks = self.degree.iter().filter(|d| **d == 0.0).count() as f64;
        let each = if self.split { amount / sinks } else { amount };
        for (value, _) in values.iter_mut().zip(self.degree).filter(|(_, d)| **d == 0.0) {
            *value = self.fading * each;
        }
    }

    fn run(&self, reversed: impl Iterator<Item = usize>, view: &TraceView<'_>, values: &mut [f64]) {
        for w in reversed {
            values[w] += view.reward.get(w).unwrap_or(0.0) - self.critic[w];
            let passed = if is_over(self.over, w) {
                // what its successors passed on is discounted already
                values[w]
            } else {
                self.gamma * self.critic[w] + self.fading * values[w]
            };
            let predecessors = self.csr.predecessors_of(w);
            let share = 1.0 / predecessors.len() as f64;
            for &v in predecessors {
                let part = if self.split { share } else { 1.0 / self.degree[v as usize] };
                values[v as usize] += part * passed;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::terms::testing::sums;
    use crate::credit::{Rows, Scratch, assign_trace};
    use crate::graph::test_trace::{TestTrace, decided_trace, random_trace};
    use crate::schema::{EdgeType, EventType};
    use proptest::prelude::*;

    fn advantages(view: &TraceView<'_>, arguments: &[(&str, Value)]) -> (Vec<f64>, Vec<Option<Reason>>) {
        let params = Params::check(INFO.params, arguments).unwrap();
        let (mut scratch, mut rows) = (Scratch::default(), Rows::default());
        assign_trace(&DagGae, view, Some(2.0), &params, Unit::Event, &mut scratch, &mut rows);
        (rows.credit, rows.reason)
    }

    fn nullable(values: &[f64]) -> crate::store::view::Nullable<'_, f64> {
        crate::store::view::Nullable::new(values, None, 0)
    }

    #[test]
    fn a_chain_is_gae() {
        let mut t = TestTrace::events(2);
        t.event(EventType::Aggregate, "a").edge(0, 1, EdgeType::Causal).edge(1, 2, EdgeType::Causal);
        let (reward, value) = ([0.5, 0.0, -1.0], [1.0, 2.0, 3.0]);
        let view = TraceView { reward: nullable(&reward), value: nullable(&value), ..t.view() };
        let (gamma, lambda) = (0.9, 0.8);
        let arguments = [("gamma", Value::Float(gamma)), ("lambda_", Value::Float(lambda))];
        let delta = [0.5 + gamma * 2.0 - 1.0, gamma * 3.0 - 2.0, -1.0 + 2.0 - 3.0];
        let f = gamma * lambda;
        let want = [delta[0] + f * delta[1] + f * f * delta[2], delta[1] + f * delta[2], delta[2]];
        for mode in ["mean", "split"] {
            let mut arguments = arguments.to_vec();
            arguments.push(("mode", Value::Text(mode.into())));
            for (got, want) in advantages(&view, &arguments).0.iter().zip(want) {
                assert!((got - want).abs() < 1e-12, "{mode}");
            }
        }
        assert_eq!(advantages(&t.view(), &[]).1, [Some(Reason::FieldAbsent); 3]);
    }

    #[test]
    fn results_are_stepped_over() {
        // a call, its result, which a second agent reads too, and two answers
        let mut t = TestTrace::default();
        t.event(EventType::ToolCall, "a").event(EventType::ToolResult, "c");
        t.event(EventType::Message, "a").event(EventType::Aggregate, "b");
        t.edge(0, 1, EdgeType::Return).edge(1, 2, EdgeType::Causal).edge(1, 3, EdgeType::Causal);
        t.edge(2, 3, EdgeType::Causal);
        let (reward, value) = ([0.0, 0.25, 0.0, 0.0], [1.0, 0.0, 2.0, 3.0]);
        let nulls = arrow_buffer::NullBuffer::from(vec![true, false, true, true]);
        let value = crate::store::view::Nullable::new(&value, Some(&nulls), 0);
        let view = TraceView { reward: nullable(&reward), value, ..t.view() };
        let arguments = [("gamma", Value::Float(0.5)), ("lambda_", Value::Float(0.5))];
        let (got, reason) = advantages(&view, &arguments);
        let last = 2.0 - 3.0;
        let answer = 0.5 * 3.0 - 2.0 + 0.25 * last;
        let call = 0.25 + 0.5 * (2.0 + 3.0) / 2.0 - 1.0 + 0.25 * (answer + last) / 2.0;
        for (got, want) in [(got[0], call), (got[2], answer), (got[3], last)] {
            assert!((got - want).abs() < 1e-12, "{got} {want}");
        }
        assert_eq!(reason, [None, Some(Reason::UnitNone)], "rows beyond have a credit and no reason");
    }

    proptest! {
        #[test]
        fn terms_sum_to_values(t in random_trace(25, false), split in any::<bool>(), program_order in any::<bool>()) {
            let n = t.t.len();
            let reward: Vec<f64> = (0..n).map(|v| v as f64 / 4.0 - 1.0).collect();
            let value: Vec<f64> = (0..n).map(|v| 1.0 - v as f64 / 8.0).collect();
            // no critic values what a tool says
            let nulls = t.view().types.iter().map(|&kind| kind != EventType::ToolResult as u8).collect::<Vec<_>>();
            let nulls = arrow_buffer::NullBuffer::from(nulls);
            let value = crate::store::view::Nullable::new(&value, Some(&nulls), 0);
            let view = TraceView { reward: nullable(&reward), value, ..t.view() };
            let mode = if split { "split" } else { "mean" };
            let arguments = [("mode", Value::Text(mode.into())), ("program_order", Value::Bool(program_order))];
            let params = Params::check(INFO.params, &arguments).unwrap();
            let (mut graph, mut values, mut terms) = (TraceGraph::default(), Values::default(), Terms::default());
            graph.begin();
            if DagGae.assign(&view, 2.0, &params, &mut graph, &mut values).is_ok() {
                let rows: Vec<u32> = (0..n as u32).collect();
                let credited = Credited { view: &view, amount: 2.0, params: &params, values: &values, rows: &rows };
                DagGae.terms(&credited, &mut graph, &mut terms);
                let steps = sums(&terms, n).into_iter().zip(&values.events).zip(&nulls);
                for ((got, want), _) in steps.filter(|(_, is_step)| *is_step) {
                    prop_assert!((got - want).abs() < 1e-9 * want.abs().max(1.0), "{} {}", got, want);
                }
            }
        }

        #[test]
        fn split_divides_what_the_sources_return(t in decided_trace(25, true)) {
            let n = t.t.len();
            let reward: Vec<f64> = (0..n).map(|v| v as f64 / 4.0 - 1.0).collect();
            let zero = vec![0.0; n];
            let view = TraceView { reward: nullable(&reward), value: nullable(&zero), ..t.view() };
            let unit = Value::Float(1.0);
            let arguments = [("gamma", unit.clone()), ("lambda_", unit), ("mode", Value::Text("split".into()))];
            let got = advantages(&view, &arguments).0;
            let sources = (0..n).filter(|&v| !t.dst.contains(&(v as u32)));
            let sum: f64 = sources.map(|v| got[v]).sum();
            prop_assert!((sum - 2.0 - reward.iter().sum::<f64>()).abs() < 1e-9);
        }
    }
}
