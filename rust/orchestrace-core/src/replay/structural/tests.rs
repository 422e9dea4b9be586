//! Tests of structural replay: effects by hand, blocks of scenarios, what is observed.

use proptest::prelude::*;

use super::*;
use crate::graph::test_trace::{TestTrace, decided_trace, random_trace};
use crate::replay::intervention::{Cut, Level, Mode, Scenario, Selector};
use crate::schema::{EdgeType, EventType};
use crate::surrogate::{Aggregation, Weights};

const OPTIONS: Options = Options {
    structure: Structure::of(Model::NoisyOr),
    sensitivity: true,
    structure_alone: false,
    program_order: false,
};

fn answers(t: &TestTrace, scenarios: Vec<Scenario>, options: &Options) -> Vec<Answer> {
    let plan = Plan::of_levels(scenarios).unwrap();
    let (mut replayer, mut found) = (Replayer::default(), Vec::new());
    let run = Run::new(Some(2)).unwrap();
    replayer.answers(&t.view(), &plan, options, &run, &mut found, |_, _, _| {}).unwrap();
    found
}

fn single(action: Action) -> Scenario {
    Scenario { actions: vec![action] }
}

fn drop(event: &str, mode: Mode) -> Scenario {
    single(Action::Drop(Selector::Event(event.into()), mode))
}

fn each(level: Level, mode: Mode) -> Scenario {
    single(Action::Drop(Selector::Each(level), mode))
}

/// A lead hands to two workers, scored 0.6 and 0.9, and takes what they return into an aggregate of 0.8.
fn fork() -> TestTrace {
    let mut t = TestTrace::default();
    t.event(EventType::OrchestratorDecision, "a").event(EventType::Message, "b").score(0.6);
    t.event(EventType::Message, "c").score(0.9).event(EventType::Aggregate, "a").score(0.8);
    t.edge(0, 1, EdgeType::Causal).edge(0, 2, EdgeType::Causal);
    t.edge(1, 3, EdgeType::Causal).edge(2, 3, EdgeType::Causal);
    t
}

#[test]
fn effects_by_hand() {
    let set = |event: &str, to| single(Action::Set(Selector::Event(event.into()), to));
    let scenarios = vec![
        drop("e1", Mode::All),
        drop("e0", Mode::Node),
        set("e1", 1.0),
        single(Action::Aggregate(Aggregation::Best)),
        drop("e3", Mode::All),
    ];
    let got = answers(&fork(), scenarios, &OPTIONS);
    // both inputs weigh half, w = 1/2: f = (1 - 0.7 · 0.55)/0.75 = 0.82, so u = -0.02
    let want = [
        ((1.0 - 0.55) / 0.75 - 0.02, Tier::Surrogate),
        (0.0, Tier::Surrogate),
        ((1.0 - 0.5 * 0.55) / 0.75 - 0.02, Tier::Surrogate),
        (0.9, Tier::Observed),
        (0.0, Tier::Surrogate),
    ];
    for (answer, (there, tier)) in got.iter().zip(want) {
        let ([outcome, cf], [lower, upper]) = (answer.values.unwrap(), answer.bounds.unwrap());
        assert!((cf - there).abs() < 1e-15 && outcome == 0.8, "{answer:?}");
        assert_eq!(answer.tier, Some(tier));
        assert!(lower <= cf - outcome && cf - outcome <= upper);
    }
    // without the first message: max keeps 0.9, so 0; a majority of one of two fails, so -0.8
    let [lower, upper] = got[0].bounds.unwrap();
    assert_eq!(
        (lower, upper, got[0].reason, got[0].support),
        (-0.8, 0.0, Some(Reason::GateUnstable), Some(0.75))
    );
    // a rule on recorded inputs: no gate is assumed
    let ([outcome, cf], [lower, upper]) = (got[3].values.unwrap(), got[3].bounds.unwrap());
    assert_eq!((lower, upper, got[3].reason), (cf - outcome, cf - outcome, None));
    assert_eq!(got[3].support, Some(1.0));
}

#[test]
fn the_weights_of_a_single_path_multiply() {
    let mut t = TestTrace::events(3);
    t.event(EventType::Aggregate, "a");
    t.edge(0, 1, EdgeType::Causal).edge(1, 2, EdgeType::Message).edge(2, 3, EdgeType::Aggregate);
    let weights = Weights::Given([0.0, 0.5, 0.0, 0.75, 0.0, 0.0, 0.25, 0.0]);
    for model in [Model::NoisyOr, Model::Linear] {
        let structure = Structure { weights, ..Structure::of(model) };
        let options = Options { structure, sensitivity: false, ..OPTIONS };
        let got = answers(&t, vec![drop("e0", Mode::Node)], &options);
        let [outcome, cf] = got[0].values.unwrap();
        assert!((cf - outcome + 0.5 * 0.75 * 0.25).abs() < 1e-16);
    }
}

#[test]
fn an_answer_is_observed_only_where_no_gate_is_assumed() {
    let swap = || vec![single(Action::Aggregate(Aggregation::Mean))];
    let tier = |t: &TestTrace, scenarios| answers(t, scenarios, &OPTIONS)[0].tier;
    assert_eq!(tier(&fork(), swap()), Some(Tier::Observed));
    // with something else changed, without a scored outcome, behind another aggregate, before another event
    let both =
        Scenario { actions: vec![Action::Aggregate(Aggregation::Mean), Action::Truncate(Cut::At(99.0))] };
    assert_eq!(tier(&fork(), vec![both]), Some(Tier::Surrogate));
    let mut unscored = fork();
    unscored.event(EventType::Aggregate, "a").edge(3, 4, EdgeType::Causal);
    assert_eq!(tier(&unscored, swap()), Some(Tier::Surrogate));
    unscored.score(0.3);
    assert_eq!(tier(&unscored, swap()), Some(Tier::Surrogate));
    let mut mixed = fork();
    mixed.event(EventType::Message, "b").edge(4, 3, EdgeType::Causal);
    assert_eq!(tier(&mixed, swap()), Some(Tier::Surrogate));
}

#[test]
fn what_is_not_there_has_no_answer() {
    let got = answers(
        &fork(),
        vec![drop("e9", Mode::All), each(Level::Tool, Mode::All), single(Action::Truncate(Cut::At(99.0)))],
        &OPTIONS,
    );
    for answer in &got[..2] {
        assert_eq!((answer.values, answer.tier, answer.support), (None, None, None));
        assert_eq!((answer.unit, answer.reason), (None, Some(Reason::SelectionEmpty)));
    }
    assert_eq!((got[2].values, got[2].bounds), (Some([0.8, 0.8]), Some([0.0, 0.0])));
    let mut cycle = fork();
    cycle.edge(3, 0, EdgeType::Causal);
    let got = answers(&cycle, vec![each(Level::Event, Mode::All), drop("e1", Mode::All)], &OPTIONS);
    assert_eq!(got.len(), 2);
    assert!(got.iter().all(|answer| answer.values.is_none() && answer.reason == Some(Reason::GraphCycle)));
}

proptest! {
    #[test]
    fn blocks_answer_like_one_scenario_after_the_other(t in random_trace(90, true), seed in any::<u64>()) {
        let mut t = t;
        let n = t.t.len();
        // scores on some events: `score` sets that of the last one
        let mut bits = seed;
        for _ in 0..3 {
            t.event(EventType::Message, "a").score((bits % 5) as f64 / 4.0);
            t.edge((bits % n as u64) as u32, t.t.len() as u32 - 1, EdgeType::Causal);
            bits /= 7;
        }
        if t.t.len() > 100 {
            return Ok(());
        }
        let together = answers(&t, vec![each(Level::Event, Mode::All), each(Level::Event, Mode::Node)], &OPTIONS);
        let n = t.t.len();
        prop_assert_eq!(together.len(), 2 * n);
        for v in 0..n {
            let name = format!("e{v}");
            let alone = answers(&t, vec![drop(&name, Mode::All), drop(&name, Mode::Node)], &OPTIONS);
            for (k, alone) in alone.into_iter().enumerate() {
                let answer = together[k * n + v];
                prop_assert_eq!(answer.unit, Some(v as u32));
                prop_assert_eq!((answer.values, answer.bounds), (alone.values, alone.bounds));
                prop_assert_eq!((answer.reason, answer.tier), (alone.reason, alone.tier));
            }
        }
    }

    #[test]
    fn no_change_no_effect(t in decided_trace(40, true), model in prop::sample::select(Model::ALL)) {
        let options = Options { structure: Structure::of(model), ..OPTIONS };
        let got = answers(&t, vec![single(Action::Truncate(Cut::At(1e9)))], &options);
        let ([outcome, cf], bounds) = (got[0].values.unwrap(), got[0].bounds.unwrap());
        prop_assert_eq!((outcome.to_bits(), bounds), (cf.to_bits(), [0.0, 0.0]));
    }
}
