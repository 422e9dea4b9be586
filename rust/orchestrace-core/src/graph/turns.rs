//! Turns (D6).
//!
//! An owned event with the field `turn` belongs to the turn (owner, `turn`), in one piece or not; a tool result
//! without one takes its call's if they have one owner. Every other owned event follows the receptions of its owner:
//! a message, return, spawn or intervention addressed to it by another, and results of its tools. The agent's first
//! event opens a turn, and so does the first one after a reception, except a tool result, which joins the open turn.
//! O(|V|).

use foldhash::fast::RandomState;
use hashbrown::HashMap;

use super::owner::{NOBODY, Owners};
use crate::schema::EventType;
use crate::store::view::TraceView;

/// The name of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TurnLabel {
    /// The recorded number.
    Recorded(u32),
    /// Derived from receptions: its ordinal among all turns of the agent, from 1.
    Derived(u32),
}

/// One turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Turn {
    /// Position of the owner in [`Owners::names`].
    pub owner: u32,
    /// First event in canonical order.
    pub first: u32,
    /// Name.
    pub label: TurnLabel,
}

#[derive(Debug, Clone, Copy)]
struct Agent {
    open: u32,
    turns: u32,
    received: bool,
}

/// Turns of a trace; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct Turns {
    of_event: Vec<u32>,
    list: Vec<Turn>,
    agents: Vec<Agent>,
    /// By owner and number; keyed, since both come from a recording, and never walked over.
    recorded: HashMap<(u32, u32), u32, RandomState>,
}

impl Turns {
    /// Replaces everything by what `view` says.
    pub fn compute(&mut self, view: &TraceView<'_>, owners: &Owners) {
        self.of_event.clear();
        self.of_event.resize(view.len(), NOBODY);
        self.list.clear();
        self.agents.clear();
        self.agents.resize(owners.names().len(), Agent { open: NOBODY, turns: 0, received: false });
        // Clearing costs the capacity, which one huge trace would otherwise impose on all that follow.
        if self.recorded.capacity() > 1024 + 16 * view.len() {
            self.recorded = HashMap::default();
        }
        self.recorded.clear();
        for &v in owners.order().rows() {
            self.deliver(view, owners, v as usize);
            self.take(view, owners, v as usize);
        }
    }

    fn deliver(&mut self, view: &TraceView<'_>, owners: &Owners, v: usize) {
        use EventType::{HumanIntervention, Message, Return, Spawn};
        if !matches!(view.event_type(v), Message | Return | Spawn | HumanIntervention) {
            return;
        }
        let Some(to) = view.to.get(v).and_then(|to| owners.name_index(to)) else { return };
        if to != owners.indices()[v] {
            self.agents[to as usize].received = true;
        }
    }

    fn take(&mut self, view: &TraceView<'_>, owners: &Owners, v: usize) {
        let owner = owners.indices()[v];
        let Some(&Agent { open, received, .. }) = self.agents.get(owner as usize) else { return };
        let result = view.types[v] == EventType::ToolResult as u8;
        let turn = match recorded_turn(view, owners, v) {
            Some(number) => self.recorded_turn(owner, number, v),
            None if open == NOBODY || (received && !result) => self.open_turn(owner, v, None),
            None => open,
        };
        self.of_event[v] = turn;
        let agent = &mut self.agents[owner as usize];
        agent.open = turn;
        // a result is received, whatever was received before it is still unanswered; anything else is the answer
        agent.received = result;
    }

    fn recorded_turn(&mut self, owner: u32, number: u32, v: usize) -> u32 {
        let open = self.agents[owner as usize].open;
        if self.list.get(open as usize).is_some_and(|turn| turn.label == TurnLabel::Recorded(number)) {
            return open;
        }
        if let Some(&turn) = self.recorded.get(&(owner, number)) {
            return turn;
        }
        let turn = self.open_turn(owner, v, Some(number));
        self.recorded.insert((owner, number), turn);
        turn
    }

    fn open_turn(&mut self, owner: u32, v: usize, number: Option<u32>) -> u32 {
        let agent = &mut self.agents[owner as usize];
        agent.turns += 1;
        let label = number.map_or(TurnLabel::Derived(agent.turns), TurnLabel::Recorded);
        self.list.push(Turn { owner, first: v as u32, label });
        self.list.len() as u32 - 1
    }

    /// Turn of every event, as a position in [`Self::list`], or [`NOBODY`].
    #[must_use]
    pub fn of_events(&self) -> &[u32] {
        &self.of_event
    }

    /// All turns, in canonical order of their first events.
    #[must_use]
    pub fn list(&self) -> &[Turn] {
        &self.list
    }
}

fn recorded_turn(view: &TraceView<'_>, owners: &Owners, v: usize) -> Option<u32> {
    view.turn.get(v).or_else(|| {
        let call = *owners.calls().get(v).filter(|&&call| call != NOBODY)? as usize;
        (owners.indices()[call] == owners.indices()[v]).then(|| view.turn.get(call)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::super::test_trace::{TestTrace, random_trace};
    use super::*;
    use EventType::*;
    use TurnLabel::{Derived, Recorded};
    use proptest::prelude::*;

    fn turns(t: &TestTrace) -> Turns {
        let (mut owners, mut turns) = (Owners::default(), Turns::default());
        owners.compute(&t.view());
        turns.compute(&t.view(), &owners);
        turns
    }

    fn labels(t: &TestTrace) -> Vec<Option<TurnLabel>> {
        let turns = turns(t);
        turns.of_events().iter().map(|&i| turns.list().get(i as usize).map(|t| t.label)).collect()
    }

    #[test]
    fn artifact_example() {
        let turns = turns(&TestTrace::artifact());
        // orchestrator until the return arrives, planner, executor up to its tool result and after it, orchestrator
        assert_eq!(turns.of_events(), [0, 0, 0, 1, 2, 2, 3, 4]);
        let firsts: Vec<_> = turns.list().iter().map(|t| (t.first, t.label)).collect();
        assert_eq!(
            firsts,
            [(0, Derived(1)), (3, Derived(1)), (4, Derived(1)), (6, Derived(2)), (7, Derived(2))]
        );
    }

    #[test]
    fn parallel_calls_and_their_results_are_one_turn() {
        let mut t = TestTrace::default();
        t.event(ToolCall, "a").tool("web").event(ToolCall, "a").tool("shell");
        t.event(ToolResult, "browser").tool("web").event(ToolResult, "browser").tool("shell");
        t.event(Message, "a").event(Message, "a");
        assert_eq!(turns(&t).of_events(), [0, 0, 0, 0, 1, 1]);
    }

    #[test]
    fn only_what_another_addresses_is_received() {
        let mut t = TestTrace::default();
        t.event(Message, "a").event(Message, "a").to("a").event(Message, "b").event(Aggregate, "b").to("a");
        t.event(Message, "a");
        assert_eq!(turns(&t).of_events(), [0, 0, 1, 1, 0]);
        t.event(HumanIntervention, "boss").to("a").event(Message, "a").event(Message, "user").to("a");
        t.event(Message, "a");
        assert_eq!(turns(&t).of_events()[5..], [NOBODY, 2, NOBODY, 3]);
    }

    #[test]
    fn a_message_between_call_and_result_waits_for_the_answer() {
        let mut t = TestTrace::default();
        t.event(ToolCall, "a")
            .tool("web")
            .event(Message, "b")
            .to("a")
            .event(ToolResult, "browser")
            .tool("web");
        t.event(Message, "a");
        assert_eq!(turns(&t).of_events(), [0, 1, 0, 2]);
    }

    #[test]
    fn recorded_turns_need_not_be_in_one_piece() {
        let mut t = TestTrace::default();
        t.event(ToolCall, "a").tool("web").turn(7).event(Message, "a").turn(8);
        t.event(ToolResult, "browser").tool("web"); // its call's turn
        t.event(Message, "a"); // answers the result
        t.event(Message, "b").turn(7).event(Message, "a").turn(8);
        let (r7, r8) = (Some(Recorded(7)), Some(Recorded(8)));
        assert_eq!(labels(&t), [r7, r8, r7, Some(Derived(3)), r7, r8]);
        assert_eq!(turns(&t).of_events(), [0, 1, 0, 2, 3, 1]);
    }

    proptest! {
        #[test]
        fn turns_partition_the_owned_events(t in random_trace(25, false)) {
            let mut owners = Owners::default();
            owners.compute(&t.view());
            let turns = turns(&t);
            let mut seen = vec![false; turns.list().len()];
            let mut latest = 0;
            for &v in owners.order().rows() {
                let turn = turns.of_events()[v as usize];
                prop_assert_eq!(turn == NOBODY, owners.indices()[v as usize] == NOBODY);
                let Some(seen) = seen.get_mut(turn as usize) else { continue };
                prop_assert_eq!(turns.list()[turn as usize].owner, owners.indices()[v as usize]);
                if !*seen {
                    prop_assert_eq!((turn, turns.list()[turn as usize].first), (latest, v));
                    latest += 1;
                    *seen = true;
                }
            }
            prop_assert_eq!(latest as usize, turns.list().len());
        }
    }
}
