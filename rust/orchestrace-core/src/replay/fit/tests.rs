use super::*;
use crate::graph::test_trace::{TestTrace, random_trace};
use crate::schema::{EdgeType, EventType};
use crate::surrogate::{Structure, Weights};
use proptest::prelude::*;

const MODELS: [Model; 3] = [Model::NoisyOr, Model::NoisyAnd, Model::Linear];

fn compiled(t: &TestTrace, targets: Targets) -> Gates {
    let mut compiler = Compiler::default();
    compiler.trace(&TestTrace::artifact().view(), targets); // a warm buffer must not show through
    compiler.part = Part::default();
    compiler.known_mixes.clear();
    compiler.trace(&t.view(), targets);
    Gates { parts: vec![compiler.part] }
}

fn predicted(gates: &Gates, model: Model, weights: [f64; N_TYPES], leak: f64) -> Vec<Dual> {
    gates.predict(&Setting { model, weights, leak }, &Run::new(Some(1)).unwrap()).unwrap()
}

/// Two scored events behind an unscored one: s0 = 0.8 → u (unscored) → y (0.6), and s1 = 0.5 → y.
fn three_gates() -> TestTrace {
    let mut scored = TestTrace::default();
    scored.event(EventType::Message, "a").score(0.8);
    scored.event(EventType::Message, "a").score(0.5);
    scored.event(EventType::Message, "a");
    scored.event(EventType::Aggregate, "a").score(0.6);
    scored.edge(0, 2, EdgeType::Spawn).edge(2, 3, EdgeType::Message).edge(1, 3, EdgeType::Causal);
    scored
}

fn theta(causal: f64, spawn: f64, message: f64) -> [f64; N_TYPES] {
    let mut theta = [0.0; N_TYPES];
    theta[EdgeType::Causal as usize] = causal;
    theta[EdgeType::Spawn as usize] = spawn;
    theta[EdgeType::Message as usize] = message;
    theta
}

#[test]
fn golden() {
    let gates = compiled(&three_gates(), Targets::Scores);
    let targets: Vec<_> = gates.targets().copied().collect();
    assert_eq!(targets, [Target { trace: 0, seq: Some(3), score: Some(0.6), n_inputs: 2, n_modeled: 1 }]);
    assert_eq!(gates.n_edges(), [0, 1, 1, 1, 0, 0, 0, 0]);
    // u = 0.4 · 0.8; y = 1 - (1 - 0.5 u)(1 - 0.9 · 0.5)
    let predictions = predicted(&gates, Model::NoisyOr, theta(0.9, 0.4, 0.5), 0.0);
    let u = 0.32;
    assert!((predictions[0].value - (1.0 - (1.0 - 0.5 * u) * 0.55)).abs() < 1e-15);
    assert!((predictions[0].slopes[EdgeType::Causal as usize] - 0.5 * (1.0 - 0.5 * u)).abs() < 1e-15);
    assert!((predictions[0].slopes[EdgeType::Spawn as usize] - 0.8 * 0.5 * 0.55).abs() < 1e-15);
    assert!((predictions[0].slopes[EdgeType::Message as usize] - u * 0.55).abs() < 1e-15);
    // the leak sets off both gates
    let leaky = predicted(&gates, Model::NoisyOr, theta(0.9, 0.4, 0.5), 0.1);
    let u = 1.0 - 0.9 * 0.68;
    assert!((leaky[0].value - (1.0 - 0.9 * (1.0 - 0.5 * u) * 0.55)).abs() < 1e-15);
    let predictions = predicted(&gates, Model::Linear, theta(0.9, 0.4, 0.5), 0.0);
    assert!((predictions[0].value - (0.5 * 0.32 + 0.45)).abs() < 1e-15);
    let predictions = predicted(&gates, Model::NoisyAnd, theta(0.9, 0.4, 0.5), 0.0);
    assert!((predictions[0].value - (1.0 - 0.5 * (0.4 * 0.2)) * (1.0 - 0.45)).abs() < 1e-15);
}

#[test]
fn an_outcome_without_inputs_and_a_cycle_are_no_targets() {
    let mut alone = TestTrace::events(1);
    alone.event(EventType::Aggregate, "a");
    assert_eq!(compiled(&alone, Targets::Outcomes).targets().count(), 0);
    let mut cycle = TestTrace::events(2);
    cycle.edge(0, 1, EdgeType::Causal).edge(1, 0, EdgeType::Causal);
    let gates = compiled(&cycle, Targets::Outcomes);
    assert_eq!((gates.n_cyclic(), gates.targets().count()), (1, 0));
}

#[test]
fn models_without_weights_are_refused() {
    let gates = compiled(&three_gates(), Targets::Scores);
    let run = Run::new(Some(1)).unwrap();
    let refused = |setting| gates.predict(&setting, &run).unwrap_err().to_string();
    let weights = [0.5; N_TYPES];
    assert!(refused(Setting { model: Model::Max, weights, leak: 0.0 }).contains("'max' has no weights"));
    let weights = [-0.5; N_TYPES];
    assert!(refused(Setting { model: Model::NoisyOr, weights, leak: 0.0 }).contains("weight -0.5"));
}

fn any_theta() -> impl Strategy<Value = [f64; N_TYPES]> {
    prop::array::uniform8(0.05..0.95_f64)
}

proptest! {
    #[test]
    fn predictions_of_outcomes_are_those_of_the_surrogate(t in random_trace(20, true), weights in any_theta()) {
        let view = t.view();
        let gates = compiled(&t, Targets::Outcomes);
        for model in MODELS {
            let structure = Structure { weights: Weights::Given(weights), ..Structure::of(model) };
            let mut graph = TraceGraph::default();
            graph.begin();
            let Ok(outcome) = graph.outcome(&view) else {
                prop_assert_eq!((gates.n_unanswered(), gates.targets().count()), (1, 0));
                return Ok(());
            };
            graph.build(&view, GraphOptions { program_order: false, weights: Some(structure.weights.table()) });
            let (csr, _, surrogate) = graph.surrogate(&view, outcome, &structure).unwrap();
            let none = matches!(outcome, Outcome::Event(y) if csr.in_degree(y as usize) == 0);
            let mut value = [0.0];
            surrogate.values(&vec![1; view.len()], &mut value);
            let prediction = predicted(&gates, model, weights, 0.0);
            prop_assert_eq!(prediction.len(), usize::from(!none));
            for prediction in prediction {
                prop_assert!((prediction.value - value[0]).abs() < 1e-12, "{model:?} {} {}", prediction.value, value[0]);
            }
        }
    }

    #[test]
    fn slopes_are_those_of_differences(t in random_trace(12, true), weights in any_theta(), leak in 0.05..0.5_f64, scores in prop::collection::vec(prop::option::of(0.0..1.0_f64), 12)) {
        let mut scored = TestTrace::default();
        for (v, score) in scores.iter().enumerate().take(t.t.len()) {
            scored.event(EventType::ALL[t.types[v] as usize], "a");
            score.map(|score| scored.score(score).t.len());
        }
        (scored.src, scored.dst, scored.edge_types) = (t.src.clone(), t.dst.clone(), t.edge_types.clone());
        for targets in [Targets::Scores, Targets::Outcomes] {
            let gates = compiled(&scored, targets);
            for model in MODELS {
                let at = |k: usize, by: f64| {
                    let (mut weights, mut leak) = (weights, leak);
                    if k == LEAK { leak += by } else { weights[k] += by }
                    predicted(&gates, model, weights, leak)
                };
                let duals = at(0, 0.0);
                for k in 0..N_SLOPES {
                    let h = 1e-6;
                    for ((duals, up), down) in duals.iter().zip(at(k, h)).zip(at(k, -h)) {
                        let slope = (up.value - down.value) / (2.0 * h);
                        // where a sum stops at 1 within h there is a kink
                        let kink = (up.slopes[k] - down.slopes[k]).abs() > 1e-3;
                        prop_assert!(kink || (duals.slopes[k] - slope).abs() < 1e-6, "{model:?} {k} {} {slope}", duals.slopes[k]);
                    }
                }
            }
        }
    }
}
