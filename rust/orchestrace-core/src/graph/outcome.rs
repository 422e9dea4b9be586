//! The event that the team is paid for (D5): the answer to the human.
//!
//! An answer is an aggregate or a return of an agent. It is *addressed* if it goes to the user, and *open* if it goes to
//! no other agent. In this order:
//!
//! 1. The last addressed answer of the root, who heard the task.
//! 2. The last addressed answer of another agent, to whom the task was passed on, if one agent has any.
//! 3. The last answer of the root.
//! 4. The last aggregate of another agent, if one agent has any; where the root is only who acted first, it has no
//!    precedence, and this is the last open answer of the one agent that has any.
//! 5. A virtual sink behind all sinks: nobody answered.
//!
//! Neither time nor place ever decides between agents. Where several would do, or where the human addressed several
//! that do not work for one and not exactly one of them answered, there is none (`outcome.ambiguous`). Of a recording
//! that ends before its run did only addressed answers count, since a later record may say of others that they were
//! none; without one it is not known (`trace.partial`). One pass over the times, and over the types as far as needed,
//! O(|V|).

use std::cell::OnceCell;

use super::order::canonical_cmp;
use super::owner::{Evidence, NOBODY, Name, Owners};
use crate::schema::{EventType, Reason};
pub use crate::store::ownership::Outcome;
use crate::store::view::TraceView;

/// Outcome of a trace with these owners; as stored, where the view has it.
pub fn outcome(view: &TraceView<'_>, owners: &Owners) -> Result<Outcome, Reason> {
    match view.owned {
        Some(owned) => owned.outcome,
        None => derived(view, owners),
    }
}

fn derived(view: &TraceView<'_>, owners: &Owners) -> Result<Outcome, Reason> {
    let answers = Answers::of_trace(view, owners);
    let root = match owners.evidence() {
        Evidence::Divided => {
            let heard = owners.heard().iter().copied();
            let mut answered = heard.filter(|&at| answers.of(at, |a| a.addressed).is_some());
            let first = answered.next().filter(|_| !view.partial);
            Some(first.filter(|_| answered.next().is_none()).ok_or(Reason::OutcomeAmbiguous)?)
        }
        Evidence::Heard | Evidence::Leads => owners.root().and_then(|root| owners.name_index(root)),
        Evidence::First => None,
    };
    if let Some(v) = root.and_then(|root| answers.of(root, |a| a.addressed)) {
        return Ok(Outcome::Event(v));
    }
    let of_root = root.and_then(|root| answers.of(root, |a| a.last)).filter(|_| !view.partial);
    let cell = OnceCell::new();
    let passed_on = |agent: u32| {
        let is_asked = |at| cell.get_or_init(|| asked_agents(view, owners))[at as usize];
        owners.evidence() != Evidence::Heard || owners.name_index(agent).is_some_and(is_asked)
    };
    let addressed =
        |a: &Answer| if a.addressed == NOBODY || passed_on(a.agent) { a.addressed } else { NOBODY };
    match answers.of_one(addressed) {
        Ok(Some(v)) => return Ok(Outcome::Event(v)),
        Err(several) if of_root.is_none() => return Err(several),
        _ => {}
    }
    if view.partial {
        return Err(Reason::TracePartial);
    }
    let of_another = || answers.of_one(|a| if root.is_some() { a.aggregate } else { a.open });
    let event = of_root.map_or_else(of_another, |v| Ok(Some(v)))?;
    Ok(event.map_or(Outcome::VirtualSink, Outcome::Event))
}

/// Whether another agent addresses each, by name or by an edge: what it does may follow from the task.
fn asked_agents(view: &TraceView<'_>, owners: &Owners) -> Vec<bool> {
    let mut is_asked = vec![false; owners.names().len()];
    let mut note = |by: u32, agent: u32| {
        if by != NOBODY
            && by != agent
            && let Some(at) = owners.name_index(agent)
        {
            is_asked[at as usize] = true;
        }
    };
    let codes = owners.codes();
    for (&s, &d) in view.src.iter().zip(view.dst) {
        if codes[d as usize] != NOBODY {
            note(codes[s as usize], codes[d as usize]);
        }
    }
    for (v, &by) in codes.iter().enumerate() {
        if let Some(agent) = view.to.get(v) {
            note(by, agent);
        }
    }
    is_asked
}

/// The last answers of an agent, as rows; [`NOBODY`] where it has none.
#[derive(Debug, Clone, Copy)]
struct Answer {
    agent: u32,
    /// Of all.
    last: u32,
    /// Of those that go to the user.
    addressed: u32,
    /// Of those that go to no other agent.
    open: u32,
    /// Of the aggregates.
    aggregate: u32,
}

/// The answers of a trace, by the position of the agent's name.
struct Answers(Vec<Answer>);

impl Answers {
    fn of_trace(view: &TraceView<'_>, owners: &Owners) -> Self {
        let none = |name: &Name| Answer {
            agent: name.code,
            last: NOBODY,
            addressed: NOBODY,
            open: NOBODY,
            aggregate: NOBODY,
        };
        let mut all: Vec<Answer> = owners.names().iter().map(none).collect();
        for (v, &kind) in view.types.iter().enumerate() {
            let is_aggregate = kind == EventType::Aggregate as u8;
            if !is_aggregate && kind != EventType::Return as u8 {
                continue;
            }
            let Some(answer) = all.get_mut(owners.indices()[v] as usize) else { continue };
            let to = view.to.get(v);
            let addressed = to.is_some_and(|to| owners.is_user_name(view, to));
            let other =
                |to| to != answer.agent && owners.name_index(to).is_some() && !owners.is_outside(view, to);
            let open = !to.is_some_and(other);
            for (best, counts) in [
                (&mut answer.last, true),
                (&mut answer.addressed, addressed),
                (&mut answer.open, open),
                (&mut answer.aggregate, is_aggregate),
            ] {
                let v = v as u32;
                if counts && (*best == NOBODY || canonical_cmp(view.t, *best, v).is_lt()) {
                    *best = v;
                }
            }
        }
        Self(all)
    }

    /// The answer of an agent that `pick` takes.
    fn of(&self, at: u32, pick: impl Fn(&Answer) -> u32) -> Option<u32> {
        self.0.get(at as usize).map(pick).filter(|&v| v != NOBODY)
    }

    /// The answer of the one agent of which `pick` takes any.
    fn of_one(&self, pick: impl Fn(&Answer) -> u32) -> Result<Option<u32>, Reason> {
        let mut answers = self.0.iter().map(pick).filter(|&v| v != NOBODY);
        match (answers.next(), answers.next()) {
            (Some(_), Some(_)) => Err(Reason::OutcomeAmbiguous),
            (answers, _) => Ok(answers),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_trace::{TestTrace, random_trace};
    use super::*;
    use crate::schema::EdgeType;
    use EventType::*;
    use proptest::prelude::*;

    const AMBIGUOUS: Result<Outcome, Reason> = Err(Reason::OutcomeAmbiguous);
    const PARTIAL: Result<Outcome, Reason> = Err(Reason::TracePartial);

    fn of_view(view: &TraceView<'_>) -> Result<Outcome, Reason> {
        let mut owners = Owners::default();
        owners.compute(view);
        outcome(view, &owners)
    }

    fn of(t: &TestTrace) -> Result<Outcome, Reason> {
        of_view(&t.view())
    }

    fn of_part(t: &TestTrace) -> Result<Outcome, Reason> {
        of_view(&TraceView { partial: true, ..t.view() })
    }

    #[allow(clippy::unnecessary_wraps)] // as what it is compared with
    fn at(v: u32) -> Result<Outcome, Reason> {
        Ok(Outcome::Event(v))
    }

    #[test]
    fn artifact_example_is_e8() {
        assert_eq!(of(&TestTrace::artifact()), at(7));
        assert_eq!(of_part(&TestTrace::artifact()), PARTIAL, "a later record may take it back");
    }

    #[test]
    fn who_heard_the_task_answers_it() {
        // Two helpers that the program started greet before the human asks `c`, who answers.
        let mut t = TestTrace::default();
        t.event(Return, "a").to("user").event(Return, "b").to("user");
        t.event(Message, "user").to("c").event(ToolCall, "c").tool("web");
        assert_eq!(of(&t), Ok(Outcome::VirtualSink), "nobody whom the task reached has answered");
        assert_eq!(of_part(&t), PARTIAL);
        t.event(Return, "c").to("user");
        assert_eq!((of(&t), of_part(&t)), (at(4), at(4)));
        // a greeting later than the answer is none either
        t.event(Return, "a").to("user");
        assert_eq!(of(&t), at(4));
        // heard by an edge as well as by name
        let mut t = TestTrace::default();
        t.event(Return, "a").to("user").event(Message, "user").event(Return, "c").to("user");
        t.edge(1, 2, EdgeType::Message);
        assert_eq!(of(&t), at(2));
    }

    #[test]
    fn the_task_may_be_passed_on() {
        let mut t = TestTrace::default();
        t.event(Message, "user").to("a").event(Message, "a").to("b").event(Return, "b").to("user");
        assert_eq!(of(&t), at(2));
        // by several it is not known who answered
        t.event(Message, "a").to("c").event(Return, "c").to("user");
        assert_eq!((of(&t), of_part(&t)), (AMBIGUOUS, AMBIGUOUS));
        t.event(Aggregate, "a");
        assert_eq!(of(&t), at(5), "who heard the task concludes");
    }

    #[test]
    fn several_that_the_human_addressed() {
        let mut t = TestTrace::default();
        t.event(Message, "user").to("a").event(Message, "a").event(HumanIntervention, "boss").to("b");
        assert_eq!(of(&t), Ok(Outcome::VirtualSink), "b does nothing");
        t.event(Message, "b");
        assert_eq!(of(&t), AMBIGUOUS);
        t.event(Return, "b").to("user");
        assert_eq!((of(&t), of_part(&t)), (at(4), AMBIGUOUS));
        t.event(Return, "a").to("user");
        assert_eq!(of(&t), AMBIGUOUS);
        // unless one spawned the other before that one did anything
        t.event(Spawn, "a").to("b");
        assert_eq!(of(&t), AMBIGUOUS);
        t.at(0.5);
        assert_eq!(of(&t), at(5));
    }

    #[test]
    fn peers_without_a_human() {
        let mut t = TestTrace::default();
        t.event(Message, "a").event(Message, "b");
        assert_eq!(of(&t), Ok(Outcome::VirtualSink));
        t.event(Return, "b").to("a");
        assert_eq!(of(&t), Ok(Outcome::VirtualSink), "an answer to another agent");
        t.event(Aggregate, "b");
        assert_eq!(of(&t), at(3));
        t.event(Return, "a");
        assert_eq!(of(&t), AMBIGUOUS, "who acts first has no precedence");
        t.event(Return, "c").to("user");
        assert_eq!(of(&t), at(5));
        t.event(Return, "b").to("user").at(-5.0);
        assert_eq!(of(&t), AMBIGUOUS);
    }

    #[test]
    fn who_leads_without_a_human() {
        let mut t = TestTrace::default();
        t.event(OrchestratorDecision, "a").event(Aggregate, "b");
        assert_eq!(of(&t), at(1));
        t.event(Aggregate, "c");
        assert_eq!(of(&t), AMBIGUOUS);
        t.event(Return, "a").to("c").at(-5.0);
        assert_eq!(of(&t), at(3));
        t.event(Aggregate, "a").at(-5.0);
        assert_eq!(of(&t), at(4));
        // who spawned the one that decides leads it
        let mut t = TestTrace::default();
        t.event(Spawn, "d").to("a").event(OrchestratorDecision, "a").event(Aggregate, "d").event(Return, "a");
        assert_eq!(of(&t), at(2));
    }

    #[test]
    fn who_is_not_of_the_team_answers_nothing() {
        let mut t = TestTrace::default();
        t.event(Message, "b").role("user").to("a").event(Return, "a").to("b");
        t.event(Aggregate, "c").role("scorer").event(Aggregate, "d").role("environment");
        assert_eq!((of(&t), of_part(&t)), (at(1), at(1)), "b stands in for the user");
    }

    proptest! {
        #[test]
        fn a_partial_recording_never_tells_more(t in random_trace(12, false)) {
            match (of_part(&t), of(&t)) {
                (Ok(part), whole) => prop_assert_eq!(whole, Ok(part)),
                (Err(_), _) => {}
            }
        }
    }
}
