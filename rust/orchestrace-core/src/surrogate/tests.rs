//! Tests of the structural surrogate.

use std::cell::Cell;
use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::graph::test_trace::{TestTrace, random_trace};
use crate::graph::{GraphOptions, TYPE_WEIGHTS, TraceGraph};
use crate::schema::{EdgeType, EventType};

fn with<T>(t: &TestTrace, structure: impl Into<Structure>, f: impl FnOnce(&mut Surrogate) -> T) -> T {
    let structure = structure.into();
    let mut graph = TraceGraph::default();
    graph.begin();
    let outcome = graph.outcome(&t.view()).unwrap_or(Outcome::VirtualSink);
    graph.build(&t.view(), GraphOptions { program_order: false, weights: Some(structure.weights.table()) });
    f(graph.surrogate(&t.view(), outcome, &structure).unwrap().2)
}

impl From<Model> for Structure {
    fn from(model: Model) -> Self {
        Self::of(model)
    }
}

/// v of a set of events.
fn value(t: &TestTrace, structure: impl Into<Structure>, present: impl Fn(usize) -> bool) -> f64 {
    let masks: Vec<u64> = (0..t.t.len()).map(|v| u64::from(present(v))).collect();
    with(t, structure, |surrogate| {
        let mut out = [f64::NAN];
        surrogate.values(&masks, &mut out);
        out[0]
    })
}

/// The definition, by recursion over the edges as they are recorded.
struct Reference<'a> {
    t: &'a TestTrace,
    structure: Structure,
    into: Vec<BTreeMap<usize, f64>>,
    /// Whether a majority hung on a value that is one half but for rounding, so that 0 and 1 are both right.
    close: Cell<bool>,
}

impl<'a> Reference<'a> {
    fn new(t: &'a TestTrace, structure: Structure) -> Self {
        let mut into = vec![BTreeMap::new(); t.t.len()];
        for ((&s, &d), &kind) in t.src.iter().zip(&t.dst).zip(&t.edge_types) {
            *into[d as usize].entry(s as usize).or_insert(0.0) += structure.weights.table()[kind as usize];
        }
        Self { t, structure, into, close: Cell::new(false) }
    }

    fn noisy_or(inputs: &[(f64, f64)], is_given: bool) -> f64 {
        let total: f64 = inputs.iter().map(|(_, weight)| weight).sum();
        if is_given {
            return 1.0 - inputs.iter().map(|(x, weight)| 1.0 - weight.min(1.0) * x).product::<f64>();
        }
        // over its value where all of them hold, which is 3/4 but for rounding: certainty is then exactly 1
        let of = |present: fn(f64) -> f64| -> f64 {
            let fails =
                inputs.iter().map(|(x, weight)| 1.0 - (1.0 - 0.25_f64.powf(weight / total)) * present(*x));
            1.0 - fails.product::<f64>()
        };
        of(|x| x) / of(|_| 1.0)
    }

    fn noisy_and(inputs: &[(f64, f64)], is_given: bool) -> f64 {
        // the dual: it fails as the noisy-or of the failures of its inputs
        let failures: Vec<_> = inputs.iter().map(|(x, weight)| (1.0 - x, *weight)).collect();
        1.0 - Self::noisy_or(&failures, is_given)
    }

    fn linear(inputs: &[(f64, f64)], is_given: bool) -> f64 {
        let total: f64 = inputs.iter().map(|(_, weight)| weight).sum();
        let sum: f64 = inputs.iter().map(|(x, weight)| x * weight).sum();
        if is_given { sum.min(1.0) } else { sum / total }
    }

    fn majority(&self, inputs: &[(f64, f64)]) -> f64 {
        if inputs.iter().any(|(x, _)| *x != 0.5 && (x - 0.5).abs() < 1e-12) {
            self.close.set(true);
        }
        let votes: f64 = inputs.iter().filter(|(x, _)| *x >= 0.5).map(|(_, weight)| weight).sum();
        let total: f64 = inputs.iter().map(|(_, weight)| weight).sum();
        f64::from(votes > total * self.structure.quorum * (1.0 + TIE))
    }

    /// Odds, multiplied; inputs here are never exactly 0 and 1 at once.
    fn confidence(inputs: &[(f64, f64)], is_given: bool) -> f64 {
        let total: f64 = if is_given { 1.0 } else { inputs.iter().map(|(_, weight)| weight).sum() };
        // what rounding put below 0 or beyond 1 has no root
        let yes: f64 = inputs.iter().map(|(x, weight)| x.max(0.0).powf(weight / total)).product();
        let no: f64 = inputs.iter().map(|(x, weight)| (1.0 - x).max(0.0).powf(weight / total)).product();
        if yes == no { 0.5 } else { yes / (yes + no) }
    }

    fn gate(&self, kind: EventType, vetoed: bool, inputs: &[(f64, f64)], is_given: bool) -> f64 {
        let Structure { model, aggregate, .. } = self.structure;
        if model == Model::Typed && vetoed {
            return 0.0;
        }
        let nothing = inputs.iter().all(|(_, weight)| *weight == 0.0) && !is_given;
        if inputs.is_empty() || nothing {
            return 1.0;
        }
        let debate = self.t.view().topology == Some(Topology::Debate);
        let xs = || inputs.iter().map(|(x, _)| *x);
        let (max, min) = (xs().fold(0.0, f64::max), xs().fold(1.0, f64::min));
        let mean = xs().sum::<f64>() / inputs.len() as f64;
        match (kind, aggregate, model) {
            (EventType::Aggregate, Some(Aggregation::Best), _) => max,
            (EventType::Aggregate, Some(Aggregation::Majority), _) => self.majority(inputs),
            (EventType::Aggregate, Some(Aggregation::Mean), _) => mean,
            (EventType::Aggregate, Some(Aggregation::Confidence), _) => Self::confidence(inputs, is_given),
            (EventType::ToolResult | EventType::Return, _, Model::Typed) if is_given => {
                Self::noisy_and(inputs, is_given)
            }
            (EventType::ToolResult | EventType::Return, _, Model::Typed) => xs().product(),
            (EventType::Aggregate, _, Model::Typed) if debate => self.majority(inputs),
            (EventType::Aggregate, _, Model::Typed) | (_, _, Model::Max) => max,
            (EventType::SafetyEvent, _, Model::Typed) | (_, _, Model::Min) => min,
            (_, _, Model::NoisyOr | Model::Typed) => Self::noisy_or(inputs, is_given),
            (_, _, Model::NoisyAnd) => Self::noisy_and(inputs, is_given),
            (_, _, Model::Linear) => Self::linear(inputs, is_given),
            (_, _, Model::Mean) => mean,
            (_, _, Model::Majority) => self.majority(inputs),
            (_, _, Model::Reachability) => f64::from(max > 0.0),
        }
    }

    fn x(&self, v: usize, present: &dyn Fn(usize) -> bool) -> f64 {
        if !present(v) {
            return 0.0;
        }
        let view = self.t.view();
        let kind = view.event_type(v);
        let vetoed = kind == EventType::SafetyEvent && view.ok.get(v) == Some(false);
        let inputs: Vec<_> = self.into[v].iter().map(|(&u, &weight)| (self.x(u, present), weight)).collect();
        self.gate(kind, vetoed, &inputs, matches!(self.structure.weights, Weights::Given(_)))
    }

    fn value(&self, present: &dyn Fn(usize) -> bool) -> f64 {
        let mut graph = TraceGraph::default();
        graph.begin();
        match graph.outcome(&self.t.view()).unwrap_or(Outcome::VirtualSink) {
            Outcome::Event(y) => self.x(y as usize, present),
            Outcome::VirtualSink => {
                let n = self.into.len();
                let sinks = (0..n).filter(|v| self.into.iter().all(|row| !row.contains_key(v)));
                // a sink's edge has no type, so its weight is never one that was given
                let inputs: Vec<_> = sinks.map(|v| (self.x(v, present), 1.0)).collect();
                self.gate(EventType::Message, false, &inputs, false)
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
    for (&model, &name) in Model::ALL.iter().zip(Model::NAMES) {
        assert_eq!((Model::parse(name).unwrap(), model.name()), (model, name));
    }
    assert!(Model::parse("noisyor").unwrap_err().to_string().contains("did you mean 'noisy_or'?"));
    for (&rule, &name) in Aggregation::ALL.iter().zip(Aggregation::NAMES) {
        assert_eq!((Aggregation::parse(name).unwrap(), rule.name()), (rule, name));
    }
    assert!(Aggregation::parse("median").is_err());
}

/// Two scored events, 0.6 over a causal edge (weight 1) and 0.9 over a message (0.7), meet in an aggregate.
fn two_scores() -> TestTrace {
    let mut t = TestTrace::default();
    t.event(EventType::Message, "a").score(0.6).event(EventType::Message, "b").score(0.9);
    t.event(EventType::Aggregate, "a").edge(0, 2, EdgeType::Causal).edge(1, 2, EdgeType::Message);
    t
}

#[test]
fn gates_by_hand() {
    let t = two_scores();
    let observe = |structure: Structure| with(&t, structure, |surrogate| surrogate.observe(&t.view()));
    let weighted = |model| Structure {
        weights: Weights::Given([0.0, 0.5, 0.0, 0.8, 0.0, 0.0, 0.0, 0.0]),
        ..Structure::of(model)
    };
    let swap = |rule| Structure { aggregate: Some(rule), ..Structure::default() };
    for (structure, want) in [
        (Structure::of(Model::Linear), (0.6 + 0.7 * 0.9) / 1.7),
        (Structure::of(Model::Mean), 0.75),
        (Structure::of(Model::Max), 0.9),
        (Structure::of(Model::Min), 0.6),
        (Structure::of(Model::Majority), 1.0),
        (Structure::of(Model::Reachability), 1.0),
        (weighted(Model::NoisyOr), 1.0 - 0.7 * 0.28),
        (weighted(Model::NoisyAnd), 0.8 * 0.92),
        (weighted(Model::Linear), 1.0),
        (swap(Aggregation::Best), 0.9),
        (swap(Aggregation::Mean), 0.75),
        (swap(Aggregation::Majority), 1.0),
        // weights 1 and 0.7 of 1.7: odds 1.5^(10/17) and 9^(7/17)
        (
            swap(Aggregation::Confidence),
            1.0 / (1.0 + 1.0 / (1.5_f64.powf(10.0 / 17.0) * 9.0_f64.powf(7.0 / 17.0))),
        ),
        (
            Structure { aggregate: Some(Aggregation::Confidence), ..weighted(Model::NoisyOr) },
            1.0 / (1.0 + 1.0 / (1.5_f64.sqrt() * 9.0_f64.powf(0.8))),
        ),
    ] {
        assert!((observe(structure) - want).abs() < 1e-15, "{structure:?} {} {want}", observe(structure));
    }
    // equal weights make w = 1 - 1/2 of both inputs: (0.8 · 0.95 - 1/4) / (3/4)
    let mut even = TestTrace::default();
    even.event(EventType::Message, "a").score(0.6).event(EventType::Message, "b").score(0.9);
    even.event(EventType::Aggregate, "a").edge(0, 2, EdgeType::Causal).edge(1, 2, EdgeType::Causal);
    let and = with(&even, Model::NoisyAnd, |surrogate| surrogate.observe(&even.view()));
    assert!((and - (0.8 * 0.95 - 0.25) / 0.75).abs() < 1e-15);
    // certain inputs decide, and contradict each other in 1/2
    for (scores, want) in [([1.0, 0.3], 1.0), ([0.0, 0.9], 0.0), ([0.0, 1.0], 0.5), ([0.5, 0.5], 0.5)] {
        let mut t = TestTrace::default();
        t.event(EventType::Message, "a").score(scores[0]).event(EventType::Message, "b").score(scores[1]);
        t.event(EventType::Aggregate, "a").edge(0, 2, EdgeType::Causal).edge(1, 2, EdgeType::Message);
        assert_eq!(with(&t, swap(Aggregation::Confidence), |surrogate| surrogate.observe(&t.view())), want);
    }
}

#[test]
fn weights_that_are_given_multiply_along_a_path() {
    let mut t = TestTrace::events(2);
    t.event(EventType::Aggregate, "a").edge(0, 1, EdgeType::Causal).edge(1, 2, EdgeType::Message);
    let weights = Weights::Given([0.0, 0.5, 0.0, 0.8, 0.0, 0.0, 0.0, 0.0]);
    let structure = Structure { weights, ..Structure::default() };
    assert!((value(&t, structure, |_| true) - 0.4).abs() < 1e-15);
    // parallel edges add up, to a probability of at most 1
    t.edge(1, 2, EdgeType::Message);
    assert!((value(&t, structure, |_| true) - 0.5).abs() < 1e-15);
    // nothing arrives over a weight of 0, while shares of nothing make a source
    let nothing = Structure { weights: Weights::Given([0.0; 8]), ..Structure::default() };
    assert_eq!(value(&t, nothing, |_| true), 0.0);
}

#[test]
fn a_quorum_is_a_share_of_the_weight() {
    let mut t = TestTrace::events(3);
    t.event(EventType::Aggregate, "a");
    for u in 0..3 {
        t.edge(u, 3, EdgeType::Causal);
    }
    let of =
        |quorum, n| value(&t, Structure { quorum, ..Structure::of(Model::Majority) }, |v| v == 3 || v < n);
    assert_eq!([of(0.0, 1), of(0.5, 1), of(0.5, 2), of(0.7, 2), of(0.7, 3)], [1.0, 0.0, 1.0, 0.0, 1.0]);
    for quorum in [1.0, -0.1, f64::NAN] {
        assert!(Structure { quorum, ..Structure::default() }.check().is_err());
    }
    // two parallel edges of the last one would have no sum
    for weight in [-1.0, f64::NAN, f64::INFINITY, 1e13, 1.7e308] {
        let weights = Weights::Given([0.0, weight, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert!(Structure { weights, ..Structure::default() }.check().is_err());
    }
}

#[test]
fn a_tie_is_no_majority_however_it_is_rounded() {
    // 0.1 + 0.2 is above 0.3 in floats: three tenths of six are a tie
    let weights = Weights::Given([0.1, 0.2, 0.3, 0.0, 0.0, 0.0, 0.0, 0.0]);
    let kinds = [EdgeType::Temporal, EdgeType::Causal, EdgeType::Spawn];
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut t = TestTrace::events(3);
        t.event(EventType::Aggregate, "a");
        for u in order {
            t.edge(u, 3, kinds[u as usize]);
        }
        let structure = Structure { weights, ..Structure::of(Model::Majority) };
        assert_eq!(value(&t, structure, |v| v != 2), 0.0, "{order:?}");
        assert_eq!(value(&t, structure, |v| v != 1), 1.0, "{order:?}");
    }
}

#[test]
fn gates_are_told_in_order() {
    let t = two_scores();
    with(&t, Model::Linear, |surrogate| {
        let gates: Vec<_> = surrogate.gates().collect();
        assert_eq!(gates.iter().map(|gate| gate.row).collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
        assert_eq!(
            (gates[2].rule, gates[2].inputs, gates[2].weights),
            (Rule::Linear, &[0, 1][..], &[1.0, 0.7][..])
        );
        assert_eq!((surrogate.place_of(2), surrogate.place_of(9)), (Some(2), None));
    });
}

fn models() -> impl Strategy<Value = Model> {
    prop::sample::select(Model::ALL)
}

fn structures() -> impl Strategy<Value = Structure> {
    // eighths: their sums are exact, so both sides see the same majorities
    let eighths = (0_u8..11).prop_map(|k| f64::from(k) / 8.0);
    let weights = prop::option::of(prop::array::uniform8(eighths));
    let quorum = prop::sample::select(vec![0.0, 0.3, 0.5, 0.8]);
    (models(), weights, quorum, prop::option::of(prop::sample::select(Aggregation::ALL))).prop_map(
        |(model, weights, quorum, aggregate)| Structure {
            model,
            weights: weights.map_or(Weights::Normalized, Weights::Given),
            quorum,
            aggregate,
        },
    )
}

proptest! {
    #[test]
    fn equals_the_recursion(
        mut t in random_trace(20, true),
        structure in structures(),
        debate in any::<bool>(),
        masks in prop::collection::vec(any::<u64>(), 20),
        sets in 1..=MAX_SETS,
    ) {
        t.topology = debate.then_some(Topology::Debate);
        let reference = Reference::new(&t, structure);
        let mut out = vec![f64::NAN; sets];
        with(&t, structure, |surrogate| surrogate.values(&masks, &mut out));
        for (k, &got) in out.iter().enumerate() {
            let want = reference.value(&|v| masks[v] >> k & 1 == 1);
            prop_assert!(reference.close.take() || (got - want).abs() < 1e-12, "{k}: {got} {want}");
            prop_assert!((0.0..=1.0).contains(&got));
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
        model in structures(),
        mask in any::<u32>(),
        more in 0_usize..20,
    ) {
        let is_there = |v: usize| mask >> v & 1 == 1;
        let (few, many) = (value(&t, model, is_there), value(&t, model, |v| is_there(v) || v == more));
        prop_assert!(few <= many + 1e-15 && (0.0..=1.0).contains(&many), "{few} {many}");
    }

    #[test]
    fn a_warm_buffer_gives_the_same_bits(traces in prop::collection::vec(random_trace(15, true), 1..5), model in models()) {
        let (mut graph, mut masks) = (TraceGraph::default(), Vec::new());
        for t in &traces {
            graph.begin();
            let outcome = graph.outcome(&t.view()).unwrap_or(Outcome::VirtualSink);
            graph.build(&t.view(), GraphOptions { program_order: false, weights: Some(&TYPE_WEIGHTS) });
            masks.clear();
            masks.extend((0..t.t.len()).map(|v| 0b01_u64 << (v % 2)));
            let surrogate = graph.surrogate(&t.view(), outcome, &Structure::of(model)).unwrap().2;
            let mut out = [0.0; 2];
            surrogate.values(&masks, &mut out);
            prop_assert_eq!(out[0].to_bits(), value(t, model, |v| v % 2 == 0).to_bits());
            prop_assert_eq!(out[1].to_bits(), value(t, model, |v| v % 2 == 1).to_bits());
        }
    }
}
