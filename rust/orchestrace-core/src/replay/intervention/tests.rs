//! Tests of interventions: what is lost with what, and which scenarios are none.

use std::ops::Range;

use proptest::prelude::*;

use super::masks::Scene;
use super::*;
use crate::graph::test_trace::{TestTrace, random_trace};
use crate::graph::{GraphOptions, Outcome, TraceGraph};
use crate::schema::EdgeType;
use crate::store::view::TraceView;

/// A plan without names, so that no store is needed.
fn plan(scenarios: Vec<Scenario>) -> Plan {
    Plan::of_levels(scenarios).unwrap()
}

fn with<T>(t: &TestTrace, plan: &Plan, segments: &[Segment], f: impl FnOnce(&Masks, &Scene<'_>) -> T) -> T {
    let (mut graph, mut roster, mut masks) = (TraceGraph::default(), Roster::default(), Masks::default());
    let view: TraceView<'_> = t.view();
    graph.begin();
    let outcome = graph.outcome(&view).unwrap_or(Outcome::VirtualSink);
    roster.compute(plan, &view, &mut graph);
    graph.build(&view, GraphOptions::default());
    let (csr, order) = graph.ordered();
    let scene = Scene { view: &view, graph: csr, order: order.unwrap(), outcome, roster: &roster };
    masks.compute(plan, &scene, segments);
    f(&masks, &scene)
}

fn single(action: Action) -> Scenario {
    Scenario { actions: vec![action] }
}

fn segment(scenario: usize, units: Range<usize>, bit: u32) -> Segment {
    Segment { scenario, units, bit }
}

/// Everything that is lost with some events, found by trying until nothing more is.
fn lost(t: &TestTrace, dropped: impl Fn(usize) -> bool, any: bool) -> Vec<bool> {
    let n = t.t.len();
    let mut gone: Vec<bool> = (0..n).map(dropped).collect();
    loop {
        let before = gone.clone();
        for (v, gone) in gone.iter_mut().enumerate() {
            let edges = t.src.iter().zip(&t.dst).filter(|(_, d)| **d as usize == v);
            let inputs: Vec<bool> = edges.map(|(s, _)| before[*s as usize]).collect();
            let takes =
                if any { inputs.contains(&true) } else { !inputs.is_empty() && !inputs.contains(&false) };
            *gone |= takes;
        }
        if gone == before {
            return gone;
        }
    }
}

#[test]
fn names_are_parsed_and_mistakes_told() {
    for (&level, &name) in Level::ALL.iter().zip(Level::NAMES) {
        assert_eq!(Level::parse(name).unwrap(), level);
    }
    assert!(Level::parse("agents").unwrap_err().to_string().contains("did you mean 'agent'?"));
    let each = |level| Action::Drop(Selector::Each(level), Mode::All);
    for (actions, word) in [
        (vec![], "changes nothing"),
        (vec![each(Level::Agent), each(Level::Event)], "two each="),
        (vec![Action::Set(Selector::Each(Level::Message), 0.5)], "a value can be set for events"),
        (vec![Action::Set(Selector::Event("e1".into()), f64::NAN)], "from 0 to 1"),
        (vec![Action::Set(Selector::Event("e1".into()), 1.5)], "from 0 to 1"),
        (vec![Action::Truncate(Cut::At(-1.0))], "at is -1"),
        (vec![Action::Truncate(Cut::At(f64::INFINITY))], "at is inf"),
    ] {
        let message = Scenario { actions }.check().unwrap_err().to_string();
        assert!(message.contains(word), "{message}");
    }
}

#[test]
fn a_cut_edge_loses_only_what_hangs_on_it() {
    // 0 -> 1 -> 2, and 0 -> 2
    let mut t = TestTrace::events(3);
    t.edge(0, 1, EdgeType::Causal).edge(1, 2, EdgeType::Causal).edge(0, 2, EdgeType::Causal);
    let cut = |from: &str, to: &str, mode| single(Action::Drop(Selector::Edge(from.into(), to.into()), mode));
    let plan = plan(vec![
        cut("e0", "e1", Mode::All),
        cut("e0", "e1", Mode::Node),
        cut("e1", "e2", Mode::All),
        cut("e1", "e2", Mode::Any),
        cut("e2", "e1", Mode::All),
    ]);
    let segments: Vec<_> = (0..5).map(|s| segment(s, 0..1, s as u32)).collect();
    with(&t, &plan, &segments, |masks, scene| {
        assert_eq!(masks.absent, [0, 0b00001, 0b01000]);
        assert_eq!(masks.found, 0b01111);
        assert_eq!([1, 2].map(|v| masks.cut_into(scene.graph, v)), [0b00011, 0b01100]);
    });
}

#[test]
fn the_later_value_and_the_later_rule_hold() {
    let mut t = TestTrace::events(1);
    t.event(EventType::Aggregate, "a").edge(0, 1, EdgeType::Causal);
    let set = |to| Action::Set(Selector::Type(EventType::Message), to);
    let actions =
        vec![set(0.2), set(0.7), Action::Aggregate(Aggregation::Best), Action::Aggregate(Aggregation::Mean)];
    let plan = plan(vec![Scenario { actions }]);
    with(&t, &plan, &[segment(0, 0..1, 5)], |masks, _| {
        assert_eq!((masks.set_to(0, 5), masks.set_to(0, 4), masks.set_to(1, 5)), (Some(0.7), None, None));
        assert_eq!((masks.set_in(0), masks.set_in(1)), (1 << 5, 0));
        assert_eq!((masks.swaps, masks.found), ([0, 0, 1 << 5, 0], 1 << 5));
    });
}

#[test]
fn after_a_cut_only_the_outcome_is_left() {
    let mut t = TestTrace::default();
    t.event(EventType::OrchestratorDecision, "a").at(10.0).event(EventType::Message, "b").at(12.0);
    t.event(EventType::Message, "b").at(12.0).event(EventType::Aggregate, "a").at(20.0);
    let cuts = [Cut::At(1.9), Cut::At(2.0), Cut::Event("e1".into()), Cut::Event("e9".into()), Cut::At(99.0)];
    let plan = plan(cuts.into_iter().map(|cut| single(Action::Truncate(cut))).collect());
    let segments: Vec<_> = (0..5).map(|s| segment(s, 0..1, s as u32)).collect();
    with(&t, &plan, &segments, |masks, _| {
        assert_eq!(masks.absent, [0, 0b00001, 0b00101, 0]);
        assert_eq!(masks.found, 0b10111);
    });
}

proptest! {
    #[test]
    fn sixty_four_fix_points_at_once_are_each_its_own(
        t in random_trace(40, true),
        from in 0_usize..40,
        any in any::<bool>(),
    ) {
        let n = t.t.len();
        let mode = if any { Mode::Any } else { Mode::All };
        let scenarios = [mode, Mode::Node].map(|mode| single(Action::Drop(Selector::Each(Level::Event), mode)));
        let plan = plan(scenarios.to_vec());
        let units = from.min(n)..n.min(from + 32);
        let k = units.len() as u32;
        let segments = [segment(0, units.clone(), 0), segment(1, units.clone(), k)];
        with(&t, &plan, &segments, |masks, _| {
            for (bit, unit) in units.clone().enumerate() {
                let want = lost(&t, |v| v == unit, any);
                for (v, (&absent, want)) in masks.absent.iter().zip(want).enumerate() {
                    prop_assert_eq!(absent >> bit & 1 == 1, want);
                    prop_assert_eq!(absent >> (bit + k as usize) & 1 == 1, v == unit);
                }
            }
            prop_assert_eq!(masks.found, segments[0].bits() | segments[1].bits());
            Ok(())
        })?;
    }

    #[test]
    fn losses_unite(t in random_trace(25, true), kinds in prop::array::uniform2(0_usize..10)) {
        // two drops at once: what depends on both is lost, which neither takes alone
        let kinds = kinds.map(|kind| EventType::ALL[kind]);
        let drop = |kind| Action::Drop(Selector::Type(kind), Mode::All);
        let plan = plan(vec![Scenario { actions: kinds.map(drop).to_vec() }]);
        let want = lost(&t, |v| kinds.contains(&t.view().event_type(v)), false);
        with(&t, &plan, &[segment(0, 0..1, 63)], |masks, _| {
            let got: Vec<bool> = masks.absent.iter().map(|bits| *bits == 1 << 63).collect();
            prop_assert_eq!(got, want);
            Ok(())
        })?;
    }
}
