//! The units that credit is reported for (D4); each level partitions the events of a trace.
//!
//! An event belongs to one unit of the level or to none; what belongs to none is the row without a unit. Units are
//! numbered by their first event in document order, turns by their first event in canonical order. O(|V|).

use std::fmt::Write;

use super::owner::{NOBODY, Owners};
use super::slots::Slots;
use super::trace::TraceGraph;
use crate::schema::{EventType, Unit};
use crate::store::view::TraceView;

use super::turns::{TurnLabel, Turns};

/// In place of a unit's number: the event belongs to none.
pub const NO_UNIT: u32 = u32::MAX;

/// The name of a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnitName {
    /// The team.
    Team,
    /// A role, as a code of the role dictionary.
    Role(u32),
    /// An agent, as a code of the agent dictionary; of the levels `agent` and `orchestrator`.
    Agent(u32),
    /// A turn of the agent with this code.
    Turn(u32, TurnLabel),
    /// The event with this `seq`; of the levels `event`, `message`, `tool` (the call) and `token`.
    Event(u32),
}

impl UnitName {
    /// Appends the `unit_id`. `agent` and `role` look names up in the dictionaries.
    pub fn write_id<'a>(
        self,
        view: &TraceView<'_>,
        agent: impl FnOnce(u32) -> &'a str,
        role: impl FnOnce(u32) -> &'a str,
        out: &mut String,
    ) {
        // writing to a String cannot fail
        let _ = match self {
            UnitName::Team => write!(out, "{}", Unit::Team.as_str()),
            UnitName::Role(code) => write!(out, "{}", role(code)),
            UnitName::Agent(code) => write!(out, "{}", agent(code)),
            UnitName::Turn(code, TurnLabel::Recorded(turn)) => write!(out, "{}/{turn}", agent(code)),
            UnitName::Turn(code, TurnLabel::Derived(ordinal)) => write!(out, "{}/+{ordinal}", agent(code)),
            UnitName::Event(seq) => write!(out, "{}", view.id.get(seq as usize).unwrap_or_default()),
        };
    }
}

/// The partition of a trace at one level; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct Partition {
    n_events: usize,
    identity: bool,
    of_event: Vec<u32>,
    units: Vec<(u32, UnitName)>,
    has_rest: bool,
    slots: Slots,
    heads: Vec<u32>,
}

impl Partition {
    /// Replaces the partition by that of `view` at `level`.
    pub fn compute(&mut self, level: Unit, view: &TraceView<'_>, graph: &mut TraceGraph) {
        self.divide(level, view, |needs_turns| {
            if needs_turns {
                let (owners, turns) = graph.turns(view);
                (owners, Some(turns))
            } else {
                (graph.owners(view), None)
            }
        });
    }

    /// The same where owners and turns are known.
    pub fn compute_of(&mut self, level: Unit, view: &TraceView<'_>, owners: &Owners, turns: &Turns) {
        self.divide(level, view, |_| (owners, Some(turns)));
    }

    /// `known` gives the owners, and with `true` the turns; it is asked only where the level needs them.
    fn divide<'a>(
        &mut self,
        level: Unit,
        view: &TraceView<'_>,
        known: impl FnOnce(bool) -> (&'a Owners, Option<&'a Turns>),
    ) {
        self.n_events = view.len();
        self.identity = level == Unit::Event;
        self.has_rest = false;
        self.of_event.clear();
        self.units.clear();
        match level {
            Unit::Event => {}
            Unit::Team => {
                self.of_event.resize(view.len(), 0);
                if !view.is_empty() {
                    self.units.push((0, UnitName::Team));
                }
            }
            Unit::Agent => {
                let (owners, _) = known(false);
                self.by_code(view, UnitName::Agent, |v| Some(owners.codes()[v]).filter(|&c| c != NOBODY));
            }
            Unit::Orchestrator => {
                let (owners, _) = known(false);
                self.by_code(view, UnitName::Agent, |v| {
                    let code = owners.codes()[v];
                    (code != NOBODY && is_orchestration(view.event_type(v))).then_some(code)
                });
            }
            Unit::Role => {
                let (owners, _) = known(false);
                self.by_code(view, UnitName::Role, |v| {
                    owners.names().get(owners.indices()[v] as usize)?.role()
                });
            }
            Unit::Turn => {
                let (owners, Some(turns)) = known(true) else { return };
                self.of_event.extend_from_slice(turns.of_events());
                self.units.extend(turns.list().iter().map(|turn| {
                    (turn.first, UnitName::Turn(owners.names()[turn.owner as usize].code, turn.label))
                }));
            }
            Unit::Message => {
                let (owners, _) = known(false);
                self.single_events(view, |v| is_message(view, owners, v));
            }
            Unit::Token => self.single_events(view, |v| view.tokens_out.get(v).is_some_and(|n| n > 0)),
            Unit::Tool => self.tool_calls(view, known(false).0),
        }
        self.has_rest = self.of_event.contains(&NO_UNIT);
    }

    fn by_code(
        &mut self,
        view: &TraceView<'_>,
        name: fn(u32) -> UnitName,
        code: impl Fn(usize) -> Option<u32>,
    ) {
        self.slots.begin();
        for v in 0..view.len() {
            let unit = code(v).map_or(NO_UNIT, |code| {
                self.slots.get(code).unwrap_or_else(|| {
                    let unit = self.units.len() as u32;
                    self.slots.set(code, unit);
                    self.units.push((v as u32, name(code)));
                    unit
                })
            });
            self.of_event.push(unit);
        }
    }

    fn single_events(&mut self, view: &TraceView<'_>, belongs: impl Fn(usize) -> bool) {
        for v in 0..view.len() {
            let unit = if belongs(v) {
                self.units.push((v as u32, UnitName::Event(v as u32)));
                self.units.len() as u32 - 1
            } else {
                NO_UNIT
            };
            self.of_event.push(unit);
        }
    }

    fn tool_calls(&mut self, view: &TraceView<'_>, owners: &Owners) {
        // a result may stand before its call in the document: either may open the unit, the call names it
        self.heads.clear();
        self.heads.resize(view.len(), NO_UNIT);
        for v in 0..view.len() {
            let head = match view.event_type(v) {
                EventType::ToolCall => v as u32,
                EventType::ToolResult if owners.calls()[v] == NOBODY => v as u32,
                EventType::ToolResult => owners.calls()[v],
                _ => {
                    self.of_event.push(NO_UNIT);
                    continue;
                }
            };
            let unit = &mut self.heads[head as usize];
            if *unit == NO_UNIT {
                *unit = self.units.len() as u32;
                self.units.push((head, UnitName::Event(head)));
            }
            self.of_event.push(*unit);
        }
    }

    /// Number of units.
    #[must_use]
    pub fn len(&self) -> usize {
        if self.identity { self.n_events } else { self.units.len() }
    }

    /// Whether there is no unit.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of events.
    #[must_use]
    pub fn n_events(&self) -> usize {
        self.n_events
    }

    /// Whether each event is a unit, so that values of events are values of units.
    #[must_use]
    pub fn is_identity(&self) -> bool {
        self.identity
    }

    /// Whether some event belongs to no unit.
    #[must_use]
    pub fn has_rest(&self) -> bool {
        self.has_rest
    }

    /// Unit of every event, or [`NO_UNIT`]; empty where each event is a unit.
    #[must_use]
    pub fn of_events(&self) -> &[u32] {
        &self.of_event
    }

    /// First event of a unit; for a tool unit its call.
    #[must_use]
    pub fn first(&self, unit: usize) -> u32 {
        if self.identity { unit as u32 } else { self.units[unit].0 }
    }

    /// Name of a unit.
    #[must_use]
    pub fn name(&self, unit: usize) -> UnitName {
        if self.identity { UnitName::Event(unit as u32) } else { self.units[unit].1 }
    }
}

fn is_orchestration(kind: EventType) -> bool {
    use EventType::{Aggregate, Despawn, OrchestratorDecision, Spawn};
    matches!(kind, OrchestratorDecision | Spawn | Despawn | Aggregate)
}

/// Whether an event passes between two agents: a message or return with an owner, and a `to` other than the owner that
/// is not outside of the team.
#[must_use]
pub fn is_message(view: &TraceView<'_>, owners: &Owners, v: usize) -> bool {
    let owner = owners.codes()[v];
    matches!(view.event_type(v), EventType::Message | EventType::Return)
        && owner != NOBODY
        && view.to.get(v).is_some_and(|to| to != owner && !owners.is_outside(view, to))
}

#[cfg(test)]
mod tests {
    use super::super::test_trace::{NAMES, ROLES, TestTrace, random_trace};
    use super::*;
    use EventType::*;
    use proptest::prelude::*;

    fn partition(t: &TestTrace, level: Unit) -> (Vec<u32>, Vec<String>, Vec<u32>) {
        let (mut graph, mut partition) = (TraceGraph::default(), Partition::default());
        graph.begin();
        partition.compute(level, &t.view(), &mut graph);
        let names = (0..partition.len()).map(|u| {
            let mut id = String::new();
            let view = t.view();
            partition.name(u).write_id(&view, |a| NAMES[a as usize], |r| ROLES[r as usize], &mut id);
            id
        });
        let firsts = (0..partition.len()).map(|u| partition.first(u)).collect();
        (partition.of_events().to_vec(), names.collect(), firsts)
    }

    const NO: u32 = NO_UNIT;

    #[test]
    fn artifact_example_at_every_level() {
        let t = TestTrace::artifact();
        assert_eq!(partition(&t, Unit::Team), (vec![0; 8], vec!["team".into()], vec![0]));
        let (of, names, firsts) = partition(&t, Unit::Agent);
        assert_eq!(of, [0, 0, 0, 1, 2, 2, 2, 0]);
        assert_eq!((names.join(" "), firsts), ("orchestrator planner_1 executor_1".into(), vec![0, 3, 4]));
        let (of, names, _) = partition(&t, Unit::Role);
        assert_eq!((of, names.join(" ")), (vec![0, 0, 0, 1, 2, 2, 2, 0], "lead planner executor".into()));
        let (of, names, _) = partition(&t, Unit::Turn);
        assert_eq!(of, [0, 0, 0, 1, 2, 2, 3, 4]);
        assert_eq!(
            names.join(" "),
            "orchestrator/+1 planner_1/+1 executor_1/+1 executor_1/+2 orchestrator/+2"
        );
        let (of, names, _) = partition(&t, Unit::Orchestrator);
        assert_eq!((of, names.join(" ")), (vec![0, 0, 0, NO, NO, NO, NO, 0], "orchestrator".into()));
        let (of, names, _) = partition(&t, Unit::Message);
        assert_eq!((of, names.join(" ")), (vec![NO, NO, NO, 0, NO, NO, 1, NO], "e3 e6".into()));
        let (of, names, _) = partition(&t, Unit::Tool);
        assert_eq!((of, names.join(" ")), (vec![NO, NO, NO, NO, 0, 0, NO, NO], "e4".into()));
        assert_eq!(partition(&t, Unit::Token), (vec![NO; 8], vec![], vec![]));
        let (of, names, firsts) = partition(&t, Unit::Event);
        assert_eq!((of, names.len(), firsts), (vec![], 8, (0..8).collect()));
    }

    #[test]
    fn small_print_of_the_levels() {
        let mut t = TestTrace::default();
        t.event(ToolResult, "browser").tool("web").at(9.0).event(ToolCall, "a").tool("web").tokens_out(3);
        t.event(ToolResult, "a").tool("other").tokens_out(0).event(Message, "a").to("user");
        t.event(Message, "a")
            .to("a")
            .event(Message, "user")
            .to("a")
            .event(Return, "a")
            .event(Message, "a")
            .turn(4);
        assert_eq!(
            partition(&t, Unit::Tool),
            (vec![0, 0, 1, NO, NO, NO, NO, NO], vec!["e1".into(), "e2".into()], vec![1, 2])
        );
        assert_eq!(partition(&t, Unit::Message).1.len(), 0);
        assert_eq!(partition(&t, Unit::Token).1, ["e1"]);
        // the result at time 9 comes last and takes part in the turn that is open then
        assert_eq!(partition(&t, Unit::Turn).1, ["a/+1", "a/+2", "a/+3", "a/4"]);
        assert_eq!(partition(&t, Unit::Agent).0, [0, 0, 0, 0, 0, NO, 0, 0]);
    }

    proptest! {
        #[test]
        fn every_level_partitions(t in random_trace(25, false)) {
            for &level in Unit::ALL {
                let (mut graph, mut partition) = (TraceGraph::default(), Partition::default());
                graph.begin();
                partition.compute(level, &t.view(), &mut graph);
                if partition.is_identity() { continue; }
                prop_assert_eq!(partition.of_events().len(), t.t.len());
                prop_assert_eq!(partition.has_rest(), partition.of_events().contains(&NO_UNIT));
                let mut used = vec![false; partition.len()];
                for &u in partition.of_events() { if u != NO_UNIT { used[u as usize] = true; } }
                prop_assert!(used.into_iter().all(|u| u));
                for u in 0..partition.len() {
                    prop_assert_eq!(partition.of_events()[partition.first(u) as usize], u as u32);
                }
            }
        }
    }
}
