//! The event that the team is paid for (D5).
//!
//! The last event in canonical order among the aggregates and returns of the root agent; if none, the last
//! aggregate of any agent; if none, the last return to the root or to `user`; else a virtual sink behind all sinks.
//! One pass over the times, and over the types as far as needed, O(|V|).

use super::order::canonical_cmp;
use crate::schema::EventType;
use crate::store::view::TraceView;

/// Where a trace's outcome sits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// At an event.
    Event(u32),
    /// Behind all sinks, each joined by an edge of weight 1.
    VirtualSink,
}

/// Outcome of a trace whose root agent is `root`.
#[must_use]
pub fn outcome(view: &TraceView<'_>, root: Option<u32>) -> Outcome {
    find(view, root, in_order(view.t))
}

/// Whether times never fall, so that rows are in canonical order.
#[allow(clippy::needless_bitwise_bool)] // without an early exit it takes wide registers
pub(crate) fn in_order(t: &[f64]) -> bool {
    t.iter().zip(t.iter().skip(1)).fold(true, |ordered, (a, b)| ordered & (a <= b))
}

/// [`outcome`] where it is known whether rows are in canonical order: then it is mostly found near the end.
pub(crate) fn find(view: &TraceView<'_>, root: Option<u32>, in_order: bool) -> Outcome {
    // Neither type is ever owned by another than its agent, so owners are not needed here.
    let (mut of_root, mut of_any, mut to_root) = (None, None, None);
    let later = |best: &mut Option<u32>, v: u32| {
        if best.is_none_or(|b| canonical_cmp(view.t, b, v).is_lt()) {
            *best = Some(v);
        }
    };
    for (i, &kind) in view.types.iter().enumerate().rev() {
        let (aggregate, returned) = (kind == EventType::Aggregate as u8, kind == EventType::Return as u8);
        if !aggregate && !returned {
            continue;
        }
        let v = i as u32;
        let agent = Some(view.agent[i]);
        if agent != view.user {
            if agent == root {
                later(&mut of_root, v);
                if in_order {
                    break;
                }
            }
            if aggregate {
                later(&mut of_any, v);
            }
        }
        if returned && view.to.get(i).is_some_and(|to| Some(to) == root || Some(to) == view.user) {
            later(&mut to_root, v);
        }
    }
    of_root.or(of_any).or(to_root).map_or(Outcome::VirtualSink, Outcome::Event)
}

/// The root agent by orchestrator decisions and spawns alone; `None` if there is neither and all owners are needed.
#[must_use]
pub(crate) fn root_by_type(view: &TraceView<'_>, in_order: bool) -> Option<u32> {
    let (mut decision, mut spawn): (Option<u32>, Option<u32>) = (None, None);
    for (i, &kind) in view.types.iter().enumerate() {
        let best = if kind == EventType::OrchestratorDecision as u8 {
            &mut decision
        } else if kind == EventType::Spawn as u8 {
            &mut spawn
        } else {
            continue;
        };
        let earlier = best.is_none_or(|b| canonical_cmp(view.t, i as u32, b).is_lt());
        if earlier && Some(view.agent[i]) != view.user {
            *best = Some(i as u32);
        }
        if in_order && decision.is_some() {
            break;
        }
    }
    decision.or(spawn).map(|v| view.agent[v as usize])
}

#[cfg(test)]
mod tests {
    use super::super::owner::Owners;
    use super::super::test_trace::{TestTrace, random_trace};
    use super::*;
    use EventType::*;
    use proptest::prelude::*;

    fn of(t: &TestTrace) -> Outcome {
        let mut owners = Owners::default();
        owners.compute(&t.view());
        outcome(&t.view(), owners.root())
    }

    #[test]
    fn artifact_example_is_e8() {
        assert_eq!(of(&TestTrace::artifact()), Outcome::Event(7));
    }

    #[test]
    fn falls_back_in_order() {
        let mut t = TestTrace::default();
        t.event(OrchestratorDecision, "a").event(Message, "b");
        assert_eq!(of(&t), Outcome::VirtualSink);
        t.event(Return, "b").to("c");
        assert_eq!(of(&t), Outcome::VirtualSink);
        t.event(Return, "b").to("user").event(Return, "c").to("a").event(Return, "b").to("d");
        assert_eq!(of(&t), Outcome::Event(4));
        t.event(Aggregate, "b").at(-2.0).event(Aggregate, "user");
        assert_eq!(of(&t), Outcome::Event(6));
        t.event(Return, "a").at(-5.0);
        assert_eq!(of(&t), Outcome::Event(8));
        t.event(Aggregate, "a").at(-5.0);
        assert_eq!(of(&t), Outcome::Event(9));
    }

    proptest! {
        #[test]
        fn order_saves_looking_and_changes_nothing(t in random_trace(12, false)) {
            let mut t = t;
            t.t.sort_by(f64::total_cmp);
            let mut owners = Owners::default();
            owners.compute(&t.view());
            prop_assert!(in_order(&t.t));
            let root = owners.root();
            prop_assert_eq!(find(&t.view(), root, true), find(&t.view(), root, false));
            prop_assert_eq!(root_by_type(&t.view(), true), root_by_type(&t.view(), false));
        }

        #[test]
        fn quick_root_is_the_root(t in random_trace(12, false)) {
            let mut owners = Owners::default();
            owners.compute(&t.view());
            if let Some(root) = root_by_type(&t.view(), in_order(&t.t)) {
                prop_assert_eq!(owners.root(), Some(root));
            }
        }
    }
}
