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
//! O(|V| + |E|), one pass from the outcome up. What an event receives is summed in the reverse of the topological
//! order that was found, which is a function of the trace alone.
//! Reference: ARCHITECTURE.md, D12. Axioms: efficiency; null player, that is, an event with no path to the
//! outcome gets exactly 0; linearity in R.

use std::borrow::Cow;

use super::method::{Axiom, CreditMethod, MethodInfo, Quantity, Scope, Values};
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
    reference: "defined by this project (ARCHITECTURE.md, D12); restart view: personalised PageRank, Haveliwala 2002",
    quantity: Quantity::Share,
    scope: Scope::Trace,
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
        let weights = by_type.then_some(given.unwrap_or(&TYPE_WEIGHTS));
        graph.build(view, GraphOptions { program_order: params.bool("program_order"), weights });
        let (csr, order) = graph.ordered();
        let order = order.ok_or(Reason::GraphCycle)?;
        let retention = params.float("retention").unwrap_or(RETENTION);
        let mut pass = Pass { csr, order, outcome, amount, retention, credit: &mut values.events };
        let tau = (kernel == Some("time_decay"))
            .then(|| params.float("tau").unwrap_or_else(|| default_tau(view.t)));
        if by_type {
            pass.run(|v, _| csr.predecessor_weights(v).iter().copied());
        } else if let Some(tau) = tau.filter(|&tau| tau > 0.0) {
            pass.run(|v, rows| time_decay(view.t, tau, v, rows));
        } else {
            pass.run(|_, rows| std::iter::repeat_n(1.0, rows.len()));
        }
        Ok(())
    }
}

fn default_tau(t: &[f64]) -> f64 {
    let first = t.iter().copied().fold(f64::INFINITY, f64::min);
    let last = t.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    (last - first) / 10.0
}

/// exp(-gap/τ) of every edge into `v`, relative to the nearest predecessor: normalising cancels the common factor,
/// and however small τ is, not all weights of an event underflow.
fn time_decay<'a>(
    t: &'a [f64],
    tau: f64,
    v: usize,
    rows: &'a [u32],
) -> impl Iterator<Item = f64> + Clone + 'a {
    let gaps = rows.iter().map(move |&u| (t[v] - t[u as usize]).max(0.0));
    let nearest = gaps.clone().fold(f64::INFINITY, f64::min);
    gaps.map(move |gap| ((nearest - gap) / tau).exp())
}

struct Pass<'a> {
    csr: &'a CsrGraph,
    order: Order<'a>,
    outcome: Outcome,
    amount: f64,
    retention: f64,
    /// What an event has received so far; once it is its turn, what it keeps.
    credit: &'a mut Vec<f64>,
}

impl<'a> Pass<'a> {
    /// `weights` gives the weights of the edges into an event, beside its predecessors.
    fn run<W: Iterator<Item = f64> + Clone>(&mut self, weights: impl Fn(usize, &'a [u32]) -> W) {
        let n = self.csr.len();
        self.credit.clear();
        self.credit.resize(n, 0.0);
        match self.outcome {
            Outcome::Event(y) => self.credit[y as usize] = self.amount,
            Outcome::VirtualSink => self.pay_sinks(),
        }
        match self.order {
            Order::Document(n) => self.sweep((0..n).rev(), weights),
            Order::Listed(rows) => self.sweep(rows.iter().rev().map(|&v| v as usize), weights),
        }
    }

    /// Without a real outcome all events that lead nowhere get equal parts.
    fn pay_sinks(&mut self) {
        self.credit.fill(1.0);
        for v in 0..self.csr.len() {
            for &u in self.csr.predecessors_of(v) {
                self.credit[u as usize] = 0.0;
            }
        }
        let sinks: f64 = self.credit.iter().sum();
        let each = self.amount / sinks;
        for credit in self.credit.iter_mut() {
            *credit *= each;
        }
    }

    fn sweep<W: Iterator<Item = f64> + Clone>(
        &mut self,
        reversed: impl Iterator<Item = usize>,
        weights: impl Fn(usize, &'a [u32]) -> W,
    ) {
        for v in reversed {
            let received = self.credit[v];
            let predecessors = self.csr.predecessors_of(v);
            // A source keeps everything, and nothing is left of nothing.
            if received == 0.0 || predecessors.is_empty() {
                continue;
            }
            let weights = weights(v, predecessors);
            let total: f64 = weights.clone().sum();
            // Weights given as 0 carry nothing: without any other way in, the event is a source.
            if total > 0.0 {
                let per_weight = (1.0 - self.retention) * received / total;
                self.credit[v] = self.retention * received;
                for (&u, weight) in predecessors.iter().zip(weights) {
                    self.credit[u as usize] += per_weight * weight;
                }
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
        fn equals_the_series_of_the_matrix(t in random_trace(25, true), given in any_params()) {
            // The definition without any order: c = b + A b + A² b + …, which ends after n terms on a DAG.
            let got = credits(&t, 1.0, &given);
            let n = t.t.len();
            let p = params(&given);
            let kappa = p.float("retention").unwrap();
            let tau = default_tau(&t.t);
            let mut weight = vec![vec![0.0_f64; n]; n];
            for ((&s, &d), &kind) in t.src.iter().zip(&t.dst).zip(&t.edge_types) {
                let (s, d) = (s as usize, d as usize);
                weight[d][s] = match p.text("kernel") {
                    Some("edge_type") => weight[d][s] + TYPE_WEIGHTS[kind as usize],
                    Some("time_decay") if tau > 0.0 => (-(t.t[d] - t.t[s]).max(0.0) / tau).exp(),
                    _ => 1.0,
                };
            }
            let mut graph = TraceGraph::default();
            graph.begin();
            let mut term = vec![0.0; n];
            match graph.outcome(&t.view()) {
                Outcome::Event(y) => term[y as usize] = 1.0,
                Outcome::VirtualSink => {
                    let sinks: Vec<usize> = (0..n).filter(|v| weight.iter().all(|row| row[*v] == 0.0)).collect();
                    for &s in &sinks {
                        term[s] = 1.0 / sinks.len() as f64;
                    }
                }
            }
            let mut received = vec![0.0; n];
            for _ in 0..=n {
                let mut next = vec![0.0; n];
                for (v, row) in weight.iter().enumerate() {
                    received[v] += term[v];
                    let total: f64 = row.iter().sum();
                    for (u, w) in row.iter().enumerate().filter(|(_, w)| **w > 0.0) {
                        next[u] += (1.0 - kappa) * term[v] * w / total;
                    }
                }
                term = next;
            }
            for v in 0..n {
                let source = weight[v].iter().all(|w| *w == 0.0);
                let want = if source { received[v] } else { kappa * received[v] };
                prop_assert!((got[v] - want).abs() < 1e-12, "{v}: {} {want}", got[v]);
            }
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
