//! Backward flow of the outcome through the graph: what an event keeps of what its successors send.
//!
//! ```text
//! c(y) = R,   c(u) = Σ_v (1-κ) c(v) a(u,v) over the successors v of u,   Σ_u a(u,v) = 1 over the predecessors of v
//! an event with predecessors keeps κ c(v) and sends the rest; a source keeps c(v)
//! a(u,v) ∝ 1 (uniform) | merged type weight (edge_type) | exp(-max(0, t_v-t_u)/τ) (time_decay)
//! ```
//!
//! A virtual sink keeps nothing and sends equal parts to all sinks. In the random-walk view κ is the restart
//! probability and credit is R times the absorption distribution of the reversed walk.
//!
//! O(|V| + |E|). Sums are pulled over successors in the fixed order of their rows, so that the bits do not depend on
//! which topological order was found.
//! Reference: methods.md, 5.14 and D12. Axioms: efficiency; null player, that is, an event with no path to the
//! outcome gets exactly 0; linearity in R.

use std::borrow::Cow;

use super::method::{Axiom, CreditMethod, MethodInfo, Quantity, Values};
use super::params::{Param, ParamKind, Params, Value};
use crate::graph::weights::N_TYPES;
use crate::graph::{CsrGraph, GraphOptions, Order, Outcome, TYPE_WEIGHTS, TraceGraph};
use crate::schema::{Reason, Unit};
use crate::store::view::TraceView;

/// The method `flow`.
pub struct Flow;

const RETENTION: f64 = 0.1;

static INFO: MethodInfo = MethodInfo {
    name: "flow",
    summary: "the outcome flows back along the edges; every event keeps a part of what passes",
    reference: "defined by this project (methods.md, 5.14); restart view: personalised PageRank, Haveliwala 2002",
    quantity: Quantity::Share,
    units: Unit::ALL,
    axioms: &[Axiom::Efficiency, Axiom::NullPlayer, Axiom::Linearity],
    params: &[
        Param {
            name: "kernel",
            kind: ParamKind::Choice(&["uniform", "edge_type", "time_decay"]),
            default: Value::Text(Cow::Borrowed("uniform")),
            doc: "how an event divides among its predecessors what it does not keep",
        },
        Param {
            name: "retention",
            kind: ParamKind::Float(0.0, 1.0),
            default: Value::Float(RETENTION),
            doc: "part of what it receives that an event with predecessors keeps",
        },
        Param {
            name: "tau",
            kind: ParamKind::Float(0.0, f64::MAX),
            default: Value::Null,
            doc: "time constant of time_decay; null: a tenth of the trace's time range; 0: uniform",
        },
        Param {
            name: "weights",
            kind: ParamKind::Floats(N_TYPES, 0.0, 1e12),
            default: Value::Null,
            doc: "weights of edge_type: temporal, causal, spawn, message, tool_dependency, return, aggregate, \
                  safety_flow; null: 0.2, 1, 0.5, 0.7, 0.9, 1, 1.2, 0.3",
        },
        Param {
            name: "program_order",
            kind: ParamKind::Bool,
            default: Value::Bool(false),
            doc: "join consecutive events of one owner by temporal edges",
        },
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
        let kernel = params.text("kernel");
        let by_type = kernel == Some("edge_type");
        let given = params.floats("weights").and_then(|w| <&[f64; N_TYPES]>::try_from(w).ok());
        let outcome = graph.outcome(view);
        graph.build(
            view,
            GraphOptions {
                program_order: params.bool("program_order"),
                weights: by_type.then_some(given.unwrap_or(&TYPE_WEIGHTS)),
                predecessors: false,
            },
        );
        let csr = &graph.csr;
        let order = graph.topological.any(csr).ok_or(Reason::GraphCycle)?;
        let retention = params.float("retention").unwrap_or(RETENTION);
        let [sent, edges, totals] = &mut values.work;
        let mut pass = Pass { csr, order, outcome, amount, retention, sent, kept: &mut values.events };
        let tau = (kernel == Some("time_decay"))
            .then(|| params.float("tau").unwrap_or_else(|| default_tau(view.t)));
        if by_type {
            total(csr, csr.weights(), totals);
            pass.run(|edge| csr.weights()[edge], |v| totals[v]);
        } else if let Some(tau) = tau.filter(|&tau| tau > 0.0) {
            time_decay(view.t, tau, csr, edges, totals);
            total(csr, edges, totals);
            pass.run(|edge| edges[edge], |v| totals[v]);
        } else {
            pass.run(|_| 1.0, |v| f64::from(csr.in_degrees()[v]));
        }
        Ok(())
    }
}

fn default_tau(t: &[f64]) -> f64 {
    let first = t.iter().copied().fold(f64::INFINITY, f64::min);
    let last = t.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (last - first) / 10.0
}

/// Sum of the edge weights into every event, sources in ascending order.
fn total(csr: &CsrGraph, weights: &[f64], totals: &mut Vec<f64>) {
    totals.clear();
    totals.resize(csr.len(), 0.0);
    for u in 0..csr.len() {
        for (&v, weight) in csr.successors_of(u).iter().zip(&weights[csr.row(u)]) {
            totals[v as usize] += weight;
        }
    }
}

/// exp(-gap/τ) of every edge, relative to the nearest predecessor of its end: normalising cancels the common factor,
/// and however small τ is, not all weights of an event underflow.
fn time_decay(t: &[f64], tau: f64, csr: &CsrGraph, edges: &mut Vec<f64>, nearest: &mut Vec<f64>) {
    let gap = |u: usize, v: u32| (t[v as usize] - t[u]).max(0.0);
    nearest.clear();
    nearest.resize(csr.len(), f64::INFINITY);
    for u in 0..csr.len() {
        for &v in csr.successors_of(u) {
            nearest[v as usize] = nearest[v as usize].min(gap(u, v));
        }
    }
    edges.clear();
    for u in 0..csr.len() {
        edges.extend(csr.successors_of(u).iter().map(|&v| ((nearest[v as usize] - gap(u, v)) / tau).exp()));
    }
}

struct Pass<'a> {
    csr: &'a CsrGraph,
    order: Order<'a>,
    outcome: Outcome,
    amount: f64,
    retention: f64,
    /// (1-κ) c(v) / Σ weights into v
    sent: &'a mut Vec<f64>,
    kept: &'a mut Vec<f64>,
}

impl Pass<'_> {
    fn run(&mut self, weight: impl Fn(usize) -> f64, total: impl Fn(usize) -> f64) {
        let n = self.csr.len();
        self.kept.clear();
        self.kept.resize(n, 0.0);
        self.sent.clear();
        self.sent.resize(n, 0.0);
        match self.order {
            Order::Document(n) => self.sweep((0..n).rev(), weight, total),
            Order::Listed(rows) => self.sweep(rows.iter().rev().map(|&v| v as usize), weight, total),
        }
    }

    fn sweep(
        &mut self,
        reversed: impl Iterator<Item = usize>,
        weight: impl Fn(usize) -> f64,
        total: impl Fn(usize) -> f64,
    ) {
        // With a real outcome nothing below it can receive, so its own row of successors adds exactly 0.
        let (outcome, to_each_sink) = match self.outcome {
            Outcome::Event(y) => (y as usize, 0.0),
            Outcome::VirtualSink => {
                let sinks = (0..self.csr.len()).filter(|&v| self.csr.successors_of(v).is_empty()).count();
                (usize::MAX, self.amount / sinks as f64)
            }
        };
        for v in reversed {
            let successors = self.csr.successors_of(v);
            // divided before the sum is known, so that the division is not on the path from event to event
            let total = total(v);
            let per_weight = (1.0 - self.retention) / total;
            let mut received = if v == outcome {
                self.amount
            } else if successors.is_empty() {
                to_each_sink
            } else {
                0.0
            };
            for (edge, &w) in self.csr.row(v).zip(successors) {
                received += weight(edge) * self.sent[w as usize];
            }
            if received == 0.0 {
                continue;
            }
            // weights given as 0 carry nothing: without any other way in, the event is a source
            if total > 0.0 {
                self.kept[v] = self.retention * received;
                self.sent[v] = per_weight * received;
            } else {
                self.kept[v] = received;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::{Rows, Scratch, assign_trace};
    use crate::graph::test_trace::{TestTrace, random_trace};
    use crate::schema::{EdgeType, EventType};
    use proptest::prelude::*;

    fn params(given: &[(&str, Value)]) -> Params {
        Params::check(INFO.params, given).unwrap()
    }

    fn kernel(word: &'static str) -> (&'static str, Value) {
        ("kernel", Value::Text(word.into()))
    }

    fn credits(t: &TestTrace, amount: f64, given: &[(&str, Value)]) -> Vec<f64> {
        let (mut scratch, mut rows) = (Scratch::default(), Rows::default());
        assign_trace(&Flow, &t.view(), Some(amount), &params(given), Unit::Event, &mut scratch, &mut rows);
        assert!(rows.valid.iter().all(|&v| v), "{:?}", rows.reason);
        assert!(rows.traces[0].residual.unwrap().abs() < 1e-9 * amount.abs().max(1.0));
        rows.credit
    }

    fn close(got: &[f64], want: &[f64]) {
        assert_eq!(got.len(), want.len());
        for (g, w) in got.iter().zip(want) {
            assert!((g - w).abs() < 1e-12, "{got:?} {want:?}");
        }
    }

    fn chain(n: usize) -> TestTrace {
        let mut t = TestTrace::events(n);
        (1..n as u32).for_each(|v| {
            t.edge(v - 1, v, EdgeType::Causal);
        });
        t
    }

    #[test]
    fn chain_golden() {
        let mut t = chain(3);
        t.event(EventType::Aggregate, "a").edge(2, 3, EdgeType::Causal);
        close(&credits(&t, 2.0, &[("retention", Value::Float(0.25))]), &[0.84375, 0.28125, 0.375, 0.5]);
        close(&credits(&t, 2.0, &[("retention", Value::Int(0))]), &[2.0, 0.0, 0.0, 0.0]);
        close(&credits(&t, -2.0, &[("retention", Value::Int(1))]), &[0.0, 0.0, 0.0, -2.0]);
    }

    #[test]
    fn artifact_example() {
        // chain e8 … e4, then two branches of two that meet in e1
        let k = |d: i32| 0.1 * 0.9_f64.powi(d);
        let want = [0.9_f64.powi(6), k(5) / 2.0, k(5) / 2.0, k(4), k(3), k(2), k(1), k(0)];
        close(&credits(&TestTrace::artifact(), 1.0, &[]), &want);
        let (mut scratch, mut rows) = (Scratch::default(), Rows::default());
        for unit in [Unit::Agent, Unit::Message] {
            assign_trace(
                &Flow,
                &TestTrace::artifact().view(),
                Some(1.0),
                &params(&[]),
                unit,
                &mut scratch,
                &mut rows,
            );
        }
        close(&rows.credit[..3], &[want[0] + 2.0 * want[1] + want[7], want[3], want[4] + want[5] + want[6]]);
        close(&rows.credit[3..], &[want[3], want[6], 1.0 - want[3] - want[6]]);
    }

    #[test]
    fn kernels() {
        let mut t = TestTrace::events(2);
        t.event(EventType::Aggregate, "a").edge(0, 2, EdgeType::Causal).edge(0, 2, EdgeType::Causal);
        t.edge(1, 2, EdgeType::Spawn);
        let two = |a: f64| [0.9 * a, 0.9 * (1.0 - a), 0.1];
        close(&credits(&t, 1.0, &[]), &two(0.5));
        close(&credits(&t, 1.0, &[kernel("edge_type")]), &two(0.8));
        let zero = Value::Floats(vec![0.0; N_TYPES].into());
        close(&credits(&t, 1.0, &[kernel("edge_type"), ("weights", zero)]), &[0.0, 0.0, 1.0]);
        // times 0, 1, 2: the default τ is 0.2
        let a = 1.0 / (1.0 + (1.0_f64 / 0.2).exp());
        close(&credits(&t, 1.0, &[kernel("time_decay")]), &two(a));
        close(&credits(&t, 1.0, &[kernel("time_decay"), ("tau", Value::Int(0))]), &two(0.5));
        close(&credits(&t, 1.0, &[kernel("time_decay"), ("tau", Value::Float(1e300))]), &two(0.5));
        close(&credits(&t, 1.0, &[kernel("time_decay"), ("tau", Value::Float(1e-300))]), &two(0.0));
        t.t = vec![1.0; 3];
        close(&credits(&t, 1.0, &[kernel("time_decay")]), &two(0.5));
    }

    #[test]
    fn virtual_sink_keeps_nothing() {
        let mut t = TestTrace::events(4);
        t.edge(0, 1, EdgeType::Causal);
        let third = 1.0 / 3.0;
        close(&credits(&t, 1.0, &[kernel("edge_type")]), &[0.9 * third, 0.1 * third, third, third]);
    }

    #[test]
    fn program_order_changes_what_is_reached() {
        let mut t = TestTrace::events(2);
        t.event(EventType::Aggregate, "a");
        assert_eq!(credits(&t, 1.0, &[]), [0.0, 0.0, 1.0]);
        close(&credits(&t, 1.0, &[("program_order", Value::Bool(true))]), &[0.81, 0.09, 0.1]);
    }

    #[test]
    fn a_cycle_refuses_the_trace() {
        let mut t = chain(3);
        t.edge(2, 2, EdgeType::Causal).event(EventType::Message, "user");
        let (mut scratch, mut rows) = (Scratch::default(), Rows::default());
        assign_trace(&Flow, &t.view(), Some(1.0), &params(&[]), Unit::Agent, &mut scratch, &mut rows);
        assert_eq!((rows.len(), rows.valid), (2, vec![false; 2]));
        assert_eq!(rows.reason, [Some(Reason::GraphCycle); 2]);
    }

    fn any_params() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
        let kernels = prop::sample::select(vec!["uniform", "edge_type", "time_decay"]);
        (kernels, 0.0..1.0_f64).prop_map(|(k, r)| vec![kernel(k), ("retention", Value::Float(r))])
    }

    proptest! {
        #[test]
        fn conserves_scales_and_ignores_what_cannot_reach(t in random_trace(25, true), given in any_params()) {
            let one = credits(&t, 1.0, &given);
            prop_assert!((one.iter().sum::<f64>() - 1.0).abs() < 1e-9);
            for (a, b) in one.iter().zip(credits(&t, 3.0, &given)) {
                prop_assert!((3.0 * a - b).abs() < 1e-12);
            }
            let mut graph = TraceGraph::default();
            graph.begin();
            let Outcome::Event(y) = graph.outcome(&t.view()) else { return Ok(()) };
            let mut reference = petgraph::graph::DiGraph::<(), ()>::new();
            (0..t.t.len()).for_each(|_| { reference.add_node(()); });
            for (&s, &d) in t.src.iter().zip(&t.dst) { reference.add_edge(d.into(), s.into(), ()); }
            for (v, &credit) in one.iter().enumerate() {
                let reached = petgraph::algo::has_path_connecting(&reference, y.into(), (v as u32).into(), None);
                prop_assert!(reached || credit.to_bits() == 0, "{v}");
            }
            // an event that nothing joins changes nothing, as long as there is a real outcome
            let mut more = t.clone();
            more.event(EventType::SafetyEvent, "nobody").at(t.t.iter().copied().fold(0.0, f64::max));
            prop_assert_eq!(&credits(&more, 1.0, &given)[..one.len()], &one[..]);
        }

        #[test]
        fn equals_the_push_formulation(t in random_trace(25, true), given in any_params()) {
            let got = credits(&t, 1.0, &given);
            let mut graph = TraceGraph::default();
            graph.begin();
            let y = graph.outcome(&t.view());
            let options = GraphOptions { weights: Some(&TYPE_WEIGHTS), predecessors: true, ..GraphOptions::default() };
            graph.build(&t.view(), options);
            let n = t.t.len();
            let p = params(&given);
            let kappa = p.float("retention").unwrap();
            let tau = default_tau(&t.t);
            let mut c = vec![0.0; n];
            let sinks: Vec<usize> = (0..n).filter(|&v| graph.csr.successors_of(v).is_empty()).collect();
            match y {
                Outcome::Event(y) => c[y as usize] = 1.0,
                Outcome::VirtualSink => sinks.iter().for_each(|&s| c[s] = 1.0 / sinks.len() as f64),
            }
            let order = graph.topological.any(&graph.csr).unwrap().to_vec();
            let mut want = vec![0.0; n];
            for &v in order.iter().rev() {
                let v = v as usize;
                let (rows, weights) = (graph.csr.predecessors_of(v), graph.csr.predecessor_weights(v));
                let a: Vec<f64> = rows.iter().zip(weights).map(|(&u, &w)| match p.text("kernel") {
                    Some("edge_type") => w,
                    Some("time_decay") if tau > 0.0 => (-(t.t[v] - t.t[u as usize]).max(0.0) / tau).exp(),
                    _ => 1.0,
                }).collect();
                want[v] = if rows.is_empty() { c[v] } else { kappa * c[v] };
                for (&u, w) in rows.iter().zip(&a) {
                    c[u as usize] += (1.0 - kappa) * c[v] * w / a.iter().sum::<f64>();
                }
            }
            for (g, w) in got.iter().zip(&want) { prop_assert!((g - w).abs() < 1e-12, "{got:?} {want:?}"); }
        }

        #[test]
        fn relabelling_permutes(t in random_trace(15, true), given in any_params(), seed in any::<u64>()) {
            // distinct times, so that the outcome does not hang on the order of rows
            let n = t.t.len();
            let mut t = t;
            (0..n).for_each(|v| t.t[v] = v as f64);
            let mut place: Vec<usize> = (0..n).collect();
            place.sort_by_key(|&v| (v as u64 + 1).wrapping_mul(seed | 1));
            let mut moved = TestTrace::default();
            for &v in &place {
                moved.event_of(EventType::from_code(t.types[v]).unwrap(), t.agent[v]).at(t.t[v]);
                if let Some(to) = t.view().to.get(v) { moved.addressed_to(to); }
            }
            let mut inverse = vec![0_u32; n];
            place.iter().enumerate().for_each(|(new, &old)| inverse[old] = new as u32);
            for e in 0..t.src.len() {
                let (s, d) = (inverse[t.src[e] as usize], inverse[t.dst[e] as usize]);
                moved.edge(s, d, EdgeType::from_code(t.edge_types[e]).unwrap());
            }
            let (a, b) = (credits(&t, 1.0, &given), credits(&moved, 1.0, &given));
            for v in 0..n { prop_assert!((a[place[v]] - b[v]).abs() < 1e-12); }
        }
    }
}
