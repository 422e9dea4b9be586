//! Tests of the structural surrogate.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::graph::test_trace::{TestTrace, random_trace};
use crate::graph::{GraphOptions, TYPE_WEIGHTS, TraceGraph};
use crate::schema::{EdgeType, EventType};

fn with<T>(t: &TestTrace, model: Model, f: impl FnOnce(&mut Surrogate) -> T) -> T {
    let mut graph = TraceGraph::default();
    graph.begin();
    let outcome = graph.outcome(&t.view());
    graph.build(&t.view(), GraphOptions { program_order: false, weights: Some(&TYPE_WEIGHTS) });
    f(graph.surrogate(&t.view(), outcome, model).unwrap().2)
}

/// v of a set of events.
fn value(t: &TestTrace, model: Model, present: impl Fn(usize) -> bool) -> f64 {
    let masks: Vec<u64> = (0..t.t.len()).map(|v| u64::from(present(v))).collect();
    with(t, model, |surrogate| {
        let mut out = [f64::NAN];
        surrogate.values(&masks, &mut out);
        out[0]
    })
}

/// The definition, by recursion over the edges as they are recorded.
struct Reference<'a> {
    t: &'a TestTrace,
    model: Model,
    into: Vec<BTreeMap<usize, f64>>,
}

impl<'a> Reference<'a> {
    fn new(t: &'a TestTrace, model: Model) -> Self {
        let mut into = vec![BTreeMap::new(); t.t.len()];
        for ((&s, &d), &kind) in t.src.iter().zip(&t.dst).zip(&t.edge_types) {
            *into[d as usize].entry(s as usize).or_insert(0.0) += TYPE_WEIGHTS[kind as usize];
        }
        Self { t, model, into }
    }

    fn noisy_or(inputs: &[(f64, f64)]) -> f64 {
        let total: f64 = inputs.iter().map(|(_, weight)| weight).sum();
        let fails: f64 =
            inputs.iter().map(|(x, weight)| 1.0 - (1.0 - 0.25_f64.powf(weight / total)) * x).product();
        (1.0 - fails) / 0.75
    }

    fn gate(&self, v: usize, inputs: &[(f64, f64)]) -> f64 {
        let view = self.t.view();
        let kind = view.event_type(v);
        if self.model == Model::Typed && kind == EventType::SafetyEvent && view.ok.get(v) == Some(false) {
            return 0.0;
        }
        if inputs.is_empty() {
            return 1.0;
        }
        let xs = inputs.iter().map(|(x, _)| *x);
        match kind {
            _ if self.model == Model::NoisyOr => Self::noisy_or(inputs),
            EventType::ToolResult | EventType::Return => xs.product(),
            EventType::Aggregate if view.topology == Some(Topology::Debate) => {
                let votes: f64 = inputs.iter().filter(|(x, _)| *x >= 0.5).map(|(_, weight)| weight).sum();
                let total: f64 = inputs.iter().map(|(_, weight)| weight).sum();
                f64::from(votes > total / 2.0)
            }
            EventType::Aggregate => xs.fold(0.0, f64::max),
            EventType::SafetyEvent => xs.fold(1.0, f64::min),
            _ => Self::noisy_or(inputs),
        }
    }

    fn x(&self, v: usize, present: &dyn Fn(usize) -> bool) -> f64 {
        if !present(v) {
            return 0.0;
        }
        let inputs: Vec<_> = self.into[v].iter().map(|(&u, &weight)| (self.x(u, present), weight)).collect();
        self.gate(v, &inputs)
    }

    fn value(&self, present: &dyn Fn(usize) -> bool) -> f64 {
        let mut graph = TraceGraph::default();
        graph.begin();
        match graph.outcome(&self.t.view()) {
            Outcome::Event(y) => self.x(y as usize, present),
            Outcome::VirtualSink => {
                let n = self.into.len();
                let sinks = (0..n).filter(|v| self.into.iter().all(|row| !row.contains_key(v)));
                Self::noisy_or(&sinks.map(|v| (self.x(v, present), 1.0)).collect::<Vec<_>>())
            }
        }
    }
}

#[test]
fn artifact_example() {
    let t = TestTrace::artifact();
    for model in [Model::NoisyOr, Model::Typed] {
        assert_eq!(value(&t, model, |_| true).to_bits(), 1.0_f64.to_bits());
        assert_eq!(value(&t, model, |_| false), 0.0);
    }
    // e2 and e3 meet in e4, by a causal edge of weight 1 and a message of 0.7; the rest is a chain
    let half = |f: f64| (1.0 - 0.25_f64.powf(f)) / 0.75;
    assert!((value(&t, Model::NoisyOr, |v| v != 1) - half(0.7 / 1.7)).abs() < 1e-15);
    assert!((value(&t, Model::NoisyOr, |v| v != 2) - half(1.0 / 1.7)).abs() < 1e-15);
    assert_eq!(value(&t, Model::NoisyOr, |v| v != 4), 0.0);
}

#[test]
fn half_of_the_weight_carries_two_thirds() {
    let mut t = TestTrace::events(2);
    t.event(EventType::Aggregate, "a").edge(0, 2, EdgeType::Causal).edge(1, 2, EdgeType::Causal);
    assert!((value(&t, Model::NoisyOr, |v| v != 0) - 2.0 / 3.0).abs() < 1e-15);
    assert_eq!(value(&t, Model::Typed, |v| v != 0), 1.0);
    t.topology = Some(Topology::Debate);
    assert_eq!(value(&t, Model::Typed, |v| v != 0), 0.0);
    t.edge(1, 2, EdgeType::Temporal);
    assert_eq!(value(&t, Model::Typed, |v| v != 0), 1.0);
    assert_eq!(value(&t, Model::Typed, |v| v != 1), 0.0);
}

#[test]
fn a_veto_lets_nothing_through() {
    let mut t = TestTrace::events(1);
    t.event(EventType::SafetyEvent, "b").event(EventType::Aggregate, "a");
    t.edge(0, 1, EdgeType::SafetyFlow).edge(1, 2, EdgeType::Causal);
    assert_eq!(value(&t, Model::Typed, |_| true), 1.0);
    let mut vetoed = TestTrace::events(1);
    vetoed.event(EventType::SafetyEvent, "b").ok(false).event(EventType::Aggregate, "a");
    vetoed.edge(0, 1, EdgeType::SafetyFlow).edge(1, 2, EdgeType::Causal);
    assert_eq!(value(&vetoed, Model::Typed, |_| true), 0.0);
    assert_eq!(value(&vetoed, Model::NoisyOr, |_| true), 1.0);
}

#[test]
fn recorded_scores_take_the_place_of_the_gate() {
    let mut t = TestTrace::default();
    t.event(EventType::Message, "a").score(0.5).event(EventType::Message, "b");
    t.event(EventType::Aggregate, "a").edge(0, 2, EdgeType::Causal).edge(1, 2, EdgeType::Causal);
    let z = with(&t, Model::NoisyOr, |surrogate| {
        let y = surrogate.observe(&t.view());
        // w = 1 - (1/4)^(1/2) = 1/2
        assert!((y - (1.0 - 0.75 * 0.5) / 0.75).abs() < 1e-15);
        surrogate.inputs().last().unwrap().contributions().collect::<Vec<_>>()
    });
    assert_eq!(z, [0.25, 0.5]);
    t.score(7.0);
    assert_eq!(with(&t, Model::NoisyOr, |surrogate| surrogate.observe(&t.view())), 1.0);
}

#[test]
fn models_are_found_by_name() {
    for name in Model::NAMES {
        Model::parse(name).unwrap();
    }
    assert!(Model::parse("noisyor").unwrap_err().to_string().contains("did you mean 'noisy_or'?"));
}

fn models() -> impl Strategy<Value = Model> {
    prop::sample::select(vec![Model::NoisyOr, Model::Typed])
}

proptest! {
    #[test]
    fn equals_the_recursion(
        mut t in random_trace(20, true),
        model in models(),
        debate in any::<bool>(),
        masks in prop::collection::vec(any::<u64>(), 20),
        sets in 1..=MAX_SETS,
    ) {
        t.topology = debate.then_some(Topology::Debate);
        let reference = Reference::new(&t, model);
        let mut out = vec![f64::NAN; sets];
        with(&t, model, |surrogate| surrogate.values(&masks, &mut out));
        for (k, &got) in out.iter().enumerate() {
            let want = reference.value(&|v| masks[v] >> k & 1 == 1);
            prop_assert!((got - want).abs() < 1e-12, "{k}: {got} {want}");
        }
    }

    #[test]
    fn everything_is_one_and_nothing_is_zero(t in random_trace(30, true), model in models()) {
        prop_assert_eq!(value(&t, model, |_| true), 1.0);
        prop_assert_eq!(value(&t, model, |_| false), 0.0);
        prop_assert_eq!(with(&t, model, |surrogate| surrogate.observe(&t.view())), 1.0);
    }

    #[test]
    fn another_event_never_lowers_it(
        t in random_trace(20, true),
        model in models(),
        mask in any::<u32>(),
        more in 0_usize..20,
    ) {
        let there = |v: usize| mask >> v & 1 == 1;
        let (few, many) = (value(&t, model, there), value(&t, model, |v| there(v) || v == more));
        prop_assert!(few <= many + 1e-15 && (0.0..=1.0).contains(&many), "{few} {many}");
    }

    #[test]
    fn a_warm_buffer_gives_the_same_bits(traces in prop::collection::vec(random_trace(15, true), 1..5), model in models()) {
        let (mut graph, mut masks) = (TraceGraph::default(), Vec::new());
        for t in &traces {
            graph.begin();
            let outcome = graph.outcome(&t.view());
            graph.build(&t.view(), GraphOptions { program_order: false, weights: Some(&TYPE_WEIGHTS) });
            masks.clear();
            masks.extend((0..t.t.len()).map(|v| 0b01_u64 << (v % 2)));
            let surrogate = graph.surrogate(&t.view(), outcome, model).unwrap().2;
            let mut out = [0.0; 2];
            surrogate.values(&masks, &mut out);
            prop_assert_eq!(out[0].to_bits(), value(t, model, |v| v % 2 == 0).to_bits());
            prop_assert_eq!(out[1].to_bits(), value(t, model, |v| v % 2 == 1).to_bits());
        }
    }
}
