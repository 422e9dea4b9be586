//! Hearing beyond the recorded edges, the basis of decision contexts
//! (docs/reference/definitions.md, "Contexts").
//!
//! An event that names an agent of the trace in `to` is heard at that agent's next event in canonical order, unless an edge
//! leads from it to an event of that agent. With one agent, everything that outsiders say is addressed to it.
//!
//! A message, return or intervention without an addressee, and without an edge to anybody else's event, was heard by nobody
//! if the trace records for others like it (same type, sent from the team or from outside alike) which other agent
//! heard them. If it records that for none, everybody may have heard it: everybody's next event then comes after it,
//! and what comes later in the trace, but for the sender's own, rests on an assumption. O(|V| + |E|).

use super::owner::{NOBODY, Owners};
use crate::schema::EVENT_TYPES;
use crate::schema::EventType::{self, HumanIntervention, Message, Return};
use crate::store::view::TraceView;

/// Buffer of the edges that hearing adds.
#[derive(Debug, Default)]
pub struct Hearing {
    edges: Vec<(u32, u32)>,
    assumed: Vec<bool>,
    /// Position of the agent that an event is addressed to.
    addressee: Vec<u32>,
    /// How far the edges of an event show who heard it.
    reach: Vec<Reach>,
    /// By position: the next event of each, going back in time.
    next: Vec<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Reach {
    #[default]
    Nothing,
    /// An edge leads to an event of somebody outside.
    Outside,
    /// An edge leads to an event of another agent.
    Agent,
    /// An edge leads to an event of the addressee.
    Addressee,
    /// It says nothing and is addressed to nobody: its edges are not looked at.
    Silent,
}

/// Whether an event says something to somebody.
fn speaks(kind: EventType) -> bool {
    matches!(kind, Message | Return | HumanIntervention)
}

impl Hearing {
    /// `program` and the edges that hearing adds to those of `view`.
    pub fn compute(
        &mut self,
        view: &TraceView<'_>,
        owners: &Owners,
        program: &[(u32, u32)],
    ) -> &[(u32, u32)] {
        let (n, names, index) = (view.len(), owners.names(), owners.indices());
        self.edges.clear();
        self.edges.extend_from_slice(program);
        self.assumed.clear();
        self.assumed.resize(n, false);
        let mut agents = (0..names.len() as u32).filter(|&at| names[at as usize].is_agent());
        let (first, second) = (agents.next(), agents.next());
        let Some(first) = first else { return &self.edges };
        let only = second.is_none().then_some(first);
        self.find_addressees(view, owners, only);
        for (&s, &d) in view.src.iter().zip(view.dst) {
            let reach_of_event = &mut self.reach[s as usize];
            if *reach_of_event >= Reach::Addressee {
                continue;
            }
            let (from, to) = (index[s as usize], index[d as usize]);
            let reach = match to {
                _ if view.agent[s as usize] == view.agent[d as usize] || (from == to && to != NOBODY) => {
                    continue;
                }
                NOBODY => Reach::Outside,
                _ if to == self.addressee[s as usize] => Reach::Addressee,
                _ => Reach::Agent,
            };
            *reach_of_event = reach.max(*reach_of_event);
        }
        self.deliver(owners);
        if only.is_none() {
            self.assume(view, owners);
        }
        &self.edges
    }

    /// Of every event whether what its owner had heard by then is partly assumed.
    #[must_use]
    pub fn assumed(&self) -> &[bool] {
        &self.assumed
    }

    /// Whom events are addressed to, and whose edges are to be looked at.
    fn find_addressees(&mut self, view: &TraceView<'_>, owners: &Owners, only: Option<u32>) {
        let names = owners.names();
        let index = owners.indices();
        self.addressee.clear();
        self.addressee.extend((0..view.len()).map(|v| {
            let named = match view.to.get(v) {
                Some(to) => owners.name_index(to).filter(|&at| names[at as usize].is_agent()),
                None if index[v] == NOBODY && speaks(view.event_type(v)) => only,
                None => None,
            };
            named.filter(|&at| at != index[v]).unwrap_or(NOBODY)
        }));
        self.reach.clear();
        self.reach.extend(self.addressee.iter().zip(view.types).map(|(&to, &kind)| {
            let heeded = to != NOBODY || speaks(EventType::ALL[usize::from(kind)]);
            if heeded { Reach::Nothing } else { Reach::Silent }
        }));
    }

    /// Edges to the addressee's next event.
    fn deliver(&mut self, owners: &Owners) {
        self.next.clear();
        self.next.resize(owners.names().len(), NOBODY);
        for &v in owners.order().rows().iter().rev() {
            let to = self.addressee[v as usize];
            if to != NOBODY && self.reach[v as usize] < Reach::Addressee && self.next[to as usize] != NOBODY {
                self.edges.push((v, self.next[to as usize]));
            }
            if let Some(next) = self.next.get_mut(owners.indices()[v as usize] as usize) {
                *next = v;
            }
        }
    }

    /// Edges to everybody's next event from what everybody may have heard. Such events are a chain, so that the last of
    /// them stands for all.
    fn assume(&mut self, view: &TraceView<'_>, owners: &Owners) {
        let index = owners.indices();
        let like = |v: usize| 2 * usize::from(view.types[v]) + usize::from(index[v] == NOBODY);
        let mut is_told = [false; 2 * EVENT_TYPES.len()];
        for v in 0..view.len() {
            is_told[like(v)] |= self.addressee[v] != NOBODY || self.reach[v] >= Reach::Agent;
        }
        let is_open = |v: usize| {
            self.reach[v] == Reach::Nothing
                && speaks(view.event_type(v))
                && view.to.get(v).is_none()
                && !is_told[like(v)]
        };
        if !(0..view.len()).any(is_open) {
            return;
        }
        let heard = &mut self.next;
        heard.fill(NOBODY);
        let (mut latest, mut speaker, mut several) = (NOBODY, NOBODY, false);
        for &v in owners.order().rows() {
            let (i, own) = (v as usize, index[v as usize]);
            if latest != NOBODY {
                self.assumed[i] = several || speaker == NOBODY || own != speaker;
                let open = is_open(i);
                let last = heard.get(own as usize).copied();
                if open || last.is_some_and(|last| last != latest) {
                    self.edges.push((latest, v));
                }
            }
            if is_open(i) {
                several |= latest != NOBODY && (own != speaker || own == NOBODY);
                (latest, speaker) = (v, own);
            }
            if let Some(heard) = heard.get_mut(own as usize) {
                *heard = latest;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::program::ProgramOrder;
    use super::super::test_trace::TestTrace;
    use super::*;
    use crate::schema::EdgeType;
    use EventType::{OrchestratorDecision, Spawn, ToolCall};

    /// Edges beyond program order, and the events that rest on an assumption.
    fn heard(t: &TestTrace) -> (Vec<(u32, u32)>, Vec<usize>) {
        let (mut owners, mut program, mut hearing) =
            (Owners::default(), ProgramOrder::default(), Hearing::default());
        owners.compute(&t.view());
        let drawn = program.compute(&t.view(), &owners).to_vec();
        let mut edges = hearing.compute(&t.view(), &owners, &drawn)[drawn.len()..].to_vec();
        edges.sort_unstable();
        let assumed = hearing.assumed().iter().enumerate().filter_map(|(v, &is)| is.then_some(v)).collect();
        (edges, assumed)
    }

    #[test]
    fn who_is_addressed_hears_it_next() {
        let mut t = TestTrace::default();
        t.event(Spawn, "a").to("b").event(Message, "a").to("b").event(Message, "c").to("a");
        t.event(ToolCall, "b")
            .event(ToolCall, "a")
            .event(Message, "b")
            .to("user")
            .event(Message, "a")
            .to("b");
        assert_eq!(heard(&t), (vec![(0, 3), (1, 3), (2, 4)], vec![]), "nothing of b comes after the last");
        t.edge(1, 5, EdgeType::Message); // it came later
        assert_eq!(heard(&t).0, [(0, 3), (2, 4)]);
        t.edge(2, 3, EdgeType::Message); // somebody else heard it, too
        assert_eq!(heard(&t).0, [(0, 3), (2, 4)]);
    }

    #[test]
    fn what_nobody_is_named_for_everybody_may_have_heard() {
        let mut t = TestTrace::default();
        t.event(ToolCall, "b").event(Message, "a").event(Message, "a").event(ToolCall, "b");
        t.event(ToolCall, "b").event(ToolCall, "c").event(ToolCall, "a");
        assert_eq!(heard(&t), (vec![(1, 2), (2, 3), (2, 5)], vec![3, 4, 5]));
        t.event(Message, "c").event(ToolCall, "a");
        assert_eq!(heard(&t).0, [(1, 2), (2, 3), (2, 5), (2, 7), (7, 8)]);
        assert_eq!(heard(&t).1, [3, 4, 5, 7, 8]);
        // of returns nothing follows for messages, of a message to the user neither
        t.event(EventType::Return, "c").to("a").event(Message, "a").to("user");
        assert_eq!(heard(&t).1.len(), 7);
        // a recording that says who hears messages says so for all
        t.event(Message, "a").to("b");
        assert_eq!(heard(&t), (vec![(9, 10)], vec![]));
    }

    #[test]
    fn edges_tell_it_too() {
        let mut t = TestTrace::default();
        t.event(Message, "a").event(ToolCall, "b").event(Message, "a").event(ToolCall, "b");
        assert_eq!(heard(&t).1, [1, 3]);
        let mut to_own = t.clone();
        to_own.edge(0, 2, EdgeType::Temporal);
        assert_eq!(heard(&to_own).1, [1, 3]);
        t.edge(0, 1, EdgeType::Causal);
        assert_eq!(heard(&t), (vec![], vec![]));
    }

    #[test]
    fn the_only_agent_hears_what_comes_from_outside() {
        let mut t = TestTrace::default();
        t.event(Message, "user")
            .event(OrchestratorDecision, "a")
            .event(HumanIntervention, "boss")
            .event(ToolCall, "a");
        assert_eq!(heard(&t), (vec![(0, 1), (2, 3)], vec![]));
        t.event(ToolCall, "b");
        assert_eq!(heard(&t), (vec![(0, 1), (0, 2), (2, 3), (2, 4)], vec![1, 2, 3, 4]));
    }

    #[test]
    fn time_decides_what_came_before() {
        let mut t = TestTrace::default();
        t.event(ToolCall, "b").at(5.0).event(Message, "a").at(1.0).event(ToolCall, "b").at(0.0);
        assert_eq!(heard(&t), (vec![(1, 0)], vec![0]));
    }
}
