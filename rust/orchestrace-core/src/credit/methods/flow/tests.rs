//! Tests of the flow and its kernels.

use super::*;
use crate::credit::methods::flow_discounted::FlowDiscounted;
use crate::credit::{Rows, Scratch, assign_trace};
use crate::graph::Outcome;
use crate::graph::test_trace::{TestTrace, decided_trace, random_trace};
use crate::schema::{EdgeType, EventType};
use proptest::prelude::*;

fn params(arguments: &[(&str, Value)]) -> Params {
    Params::check(INFO.params, arguments).unwrap()
}

fn kernel(word: &'static str) -> (&'static str, Value) {
    ("kernel", Value::Text(word.into()))
}

fn credits(t: &TestTrace, amount: f64, arguments: &[(&str, Value)]) -> Vec<f64> {
    let (mut scratch, mut rows) = (Scratch::default(), Rows::default());
    assign_trace(&Flow, &t.view(), Some(amount), &params(arguments), Unit::Event, &mut scratch, &mut rows);
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

/// c of every event.
fn received(t: &TestTrace, amount: f64, arguments: &[(&str, Value)]) -> Vec<f64> {
    let (mut scratch, mut rows) = (Scratch::default(), Rows::default());
    let params = Params::check(FlowDiscounted.info().params, arguments).unwrap();
    assign_trace(&FlowDiscounted, &t.view(), Some(amount), &params, Unit::Event, &mut scratch, &mut rows);
    rows.credit
}

#[test]
fn lrp_follows_what_the_inputs_carry() {
    // scores 0.5 and 1 on edges of equal weight, hence w = 1/2 each and z = 1/4, 1/2
    let mut t = TestTrace::default();
    t.event(EventType::Message, "a").score(0.5).event(EventType::Message, "b");
    t.event(EventType::Aggregate, "a").edge(0, 2, EdgeType::Causal).edge(1, 2, EdgeType::Causal);
    close(&credits(&t, 1.0, &[kernel("lrp")]), &[0.3, 0.6, 0.1]);
    let epsilon = ("epsilon", Value::Float(0.25));
    // 1/4 of what would be sent stays
    close(&credits(&t, 1.0, &[kernel("lrp"), epsilon.clone()]), &[0.225, 0.45, 0.325]);
    // nobody else has a stabiliser
    assert_eq!(credits(&t, 1.0, &[kernel("edge_type"), epsilon]), credits(&t, 1.0, &[kernel("edge_type")]));
    // an event whose inputs carry nothing is where it began
    let mut t = TestTrace::default();
    t.event(EventType::Message, "a").score(0.0).event(EventType::Aggregate, "a").edge(0, 1, EdgeType::Causal);
    for word in ["lrp", "shapley_gate"] {
        close(&credits(&t, 1.0, &[kernel(word)]), &[0.0, 1.0]);
    }
}

#[test]
fn shapley_gate_by_hand() {
    // z = 1/4, 1/2: each has its own and half of the overlap less, 1/4 - 1/16 and 1/2 - 1/16
    let mut t = TestTrace::default();
    t.event(EventType::Message, "a").score(0.5).event(EventType::Message, "b");
    t.event(EventType::Aggregate, "a").edge(0, 2, EdgeType::Causal).edge(1, 2, EdgeType::Causal);
    close(&credits(&t, 1.0, &[kernel("shapley_gate")]), &[0.27, 0.63, 0.1]);
}

#[test]
fn without_hops_lost_the_chain_is_the_discounted_return() {
    let mut t = chain(3);
    t.event(EventType::Aggregate, "a").edge(2, 3, EdgeType::Causal);
    let gamma = ("gamma", Value::Float(0.5));
    for word in ["uniform", "edge_type", "time_decay", "lrp", "shapley_gate"] {
        close(&received(&t, 2.0, &[gamma.clone(), kernel(word)]), &[0.25, 0.5, 1.0, 2.0]);
    }
    close(&received(&t, 2.0, &[gamma, ("retention", Value::Float(0.2))]), &[0.128, 0.32, 0.8, 2.0]);
    close(&received(&t, 2.0, &[]), &[2.0 * 0.99_f64.powi(3), 2.0 * 0.99_f64.powi(2), 1.98, 2.0]);
    // a virtual sink is no hop, and half of a fork is half of a hop
    let mut t = TestTrace::events(3);
    t.edge(0, 1, EdgeType::Causal).edge(0, 2, EdgeType::Causal);
    close(&received(&t, 1.0, &[]), &[0.99, 0.5, 0.5]);
}

fn any_params() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let kernels = prop::sample::select(vec!["uniform", "edge_type", "time_decay", "lrp", "shapley_gate"]);
    (kernels, 0.0..1.0_f64, 0.0..0.5_f64)
        .prop_map(|(k, r, e)| vec![kernel(k), ("retention", Value::Float(r)), ("epsilon", Value::Float(e))])
}

fn plain_params() -> impl Strategy<Value = Vec<(&'static str, Value)>> {
    let kernels = prop::sample::select(vec!["uniform", "edge_type", "time_decay"]);
    (kernels, 0.0..1.0_f64).prop_map(|(k, r)| vec![kernel(k), ("retention", Value::Float(r))])
}

proptest! {
    #[test]
    fn lrp_of_a_linear_surrogate_is_its_exact_contribution(
        t in random_trace(15, true),
        scores in prop::collection::vec(0.01..1.0_f64, 15),
    ) {
        // Sources have these values, everything else the linear x_v = Σ w x_u; recorded as scores, so that the
        // kernel reads them. Then R times the share of a source in x_y is the sum over its paths of Π w, times x.
        let n = t.t.len();
        let mut graph = TraceGraph::default();
        graph.build(&t.view(), GraphOptions { program_order: false, weights: Some(&TYPE_WEIGHTS) });
        let (csr, order) = graph.ordered();
        let order = order.unwrap().to_vec();
        let w = |v: usize| {
            let total: f64 = csr.predecessor_weights(v).iter().sum();
            csr.predecessor_weights(v).iter().map(move |weight| 1.0 - 0.25_f64.powf(weight / total))
        };
        let mut x = scores.clone();
        for &v in &order {
            let v = v as usize;
            if !csr.predecessors_of(v).is_empty() {
                x[v] = csr.predecessors_of(v).iter().zip(w(v)).map(|(&u, w)| w * x[u as usize]).sum();
            }
        }
        // within 0..1, where scores are
        let most = x.iter().copied().fold(1.0, f64::max);
        for x in &mut x {
            *x /= most;
        }
        let mut scored = TestTrace::default();
        for (v, &x) in x.iter().enumerate().take(n) {
            scored.event_of(EventType::from_code(t.types[v]).unwrap(), t.agent[v]).at(t.t[v]).score(x);
            if let Some(to) = t.view().to.get(v) { scored.addressed_to(to); }
        }
        for e in 0..t.src.len() {
            scored.edge(t.src[e], t.dst[e], EdgeType::from_code(t.edge_types[e]).unwrap());
        }
        // which lacks fields of the other that tell owners
        let mut own_graph = TraceGraph::default();
        own_graph.begin();
        let Ok(Outcome::Event(y)) = own_graph.outcome(&scored.view()) else { return Ok(()) };
        let mut paths = vec![0.0; n];
        paths[y as usize] = 1.0;
        for &v in order.iter().rev() {
            let v = v as usize;
            csr.predecessors_of(v).iter().zip(w(v)).for_each(|(&u, w)| paths[u as usize] += w * paths[v]);
        }
        let got = credits(&scored, x[y as usize], &[kernel("lrp"), ("retention", Value::Int(0))]);
        for v in 0..n {
            let source = csr.predecessors_of(v).is_empty();
            let want = if source { paths[v] * x[v] } else { 0.0 };
            prop_assert!((got[v] - want).abs() < 1e-12, "{v}: {} {want}", got[v]);
        }
    }

    #[test]
    fn flow_keeps_a_part_of_what_is_received(t in decided_trace(25, true), given in any_params()) {
        // without a discount both are one flow: what an event keeps is what it received less what it passed on
        let mut more = given.clone();
        more.push(("gamma", Value::Int(1)));
        let (kept, c) = (credits(&t, 1.0, &given), received(&t, 1.0, &more));
        let retention = params(&given).float("retention").unwrap();
        for (kept, c) in kept.iter().zip(&c) {
            prop_assert!(*kept <= c + 1e-12 && *kept >= retention * c - 1e-12);
        }
        more.pop();
        more.push(("gamma", Value::Float(0.5)));
        for (less, c) in received(&t, 1.0, &more).iter().zip(&c) {
            prop_assert!(less <= c);
        }
    }

    #[test]
    fn conserves_scales_and_ignores_what_cannot_reach(t in decided_trace(25, true), arguments in any_params()) {
        let credits_of_1 = credits(&t, 1.0, &arguments);
        prop_assert!((credits_of_1.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        for (a, b) in credits_of_1.iter().zip(credits(&t, 3.0, &arguments)) {
            prop_assert!((3.0 * a - b).abs() < 1e-12);
        }
        let mut graph = TraceGraph::default();
        graph.begin();
        let Ok(Outcome::Event(y)) = graph.outcome(&t.view()) else { return Ok(()) };
        let mut reference = petgraph::graph::DiGraph::<(), ()>::new();
        (0..t.t.len()).for_each(|_| { reference.add_node(()); });
        for (&s, &d) in t.src.iter().zip(&t.dst) { reference.add_edge(d.into(), s.into(), ()); }
        for (v, &credit) in credits_of_1.iter().enumerate() {
            let reached = petgraph::algo::has_path_connecting(&reference, y.into(), (v as u32).into(), None);
            prop_assert!(reached || credit.to_bits() == 0, "{v}");
        }
        // an event that nothing joins changes nothing, as long as there is a real outcome
        let mut more = t.clone();
        more.event(EventType::SafetyEvent, "nobody").at(t.t.iter().copied().fold(0.0, f64::max));
        prop_assert_eq!(&credits(&more, 1.0, &arguments)[..credits_of_1.len()], &credits_of_1[..]);
    }

    #[test]
    fn equals_the_series_of_the_matrix(t in decided_trace(25, true), given in plain_params()) {
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
        match graph.outcome(&t.view()).unwrap() {
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
    fn relabeling_permutes(t in decided_trace(15, true), given in any_params(), seed in any::<u64>()) {
        // distinct times, so that the outcome does not hang on the order of rows
        let n = t.t.len();
        let mut t = t;
        (0..n).for_each(|v| t.t[v] = v as f64);
        let mut place: Vec<usize> = (0..n).collect();
        place.sort_by_key(|&v| (v as u64 + 1).wrapping_mul(seed | 1));
        let mut moved = TestTrace::default();
        for &v in &place {
            moved.copy_of(&t, v);
        }
        let mut inverse = vec![0_u32; n];
        place.iter().enumerate().for_each(|(new, &old)| inverse[old] = new as u32);
        for e in 0..t.src.len() {
            let (s, d) = (inverse[t.src[e] as usize], inverse[t.dst[e] as usize]);
            moved.edge(s, d, EdgeType::from_code(t.edge_types[e]).unwrap());
        }
        prop_assume!(t.is_decided());
        let (a, b) = (credits(&t, 1.0, &given), credits(&moved, 1.0, &given));
        for v in 0..n { prop_assert!((a[place[v]] - b[v]).abs() < 1e-12); }
    }
}
