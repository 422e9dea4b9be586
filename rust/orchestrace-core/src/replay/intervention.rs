//! Interventions on a recorded run, and scenarios composed of them.
//!
//! | action | what becomes of the run |
//! |---|---|
//! | drop events, `node` | they are absent (x = 0), whatever depends on them stays and loses an input |
//! | drop events, `subtree` | so is every event all of whose inputs are lost (`all`), or any of them (`any`) |
//! | drop an edge, a message | what it would have carried does not arrive (an input of 0); the sender's event stays |
//! | drop a spawn | the agent, those that it spawned and theirs, and the spawns that name them |
//! | set | the events have this value, whatever their inputs |
//! | aggregate | events of type aggregate follow another rule, without what the recorded one did beyond its own |
//! | truncate | what comes after is absent; the outcome answers from what has arrived |
//!
//! Actions of one scenario act at once: losses are united, and the fix-point of `subtree` runs over all of them; an event
//! that is both absent and set is absent; of two values or rules for one event the later one holds. An action that finds
//! nothing in a trace leaves that trace without an answer (`selection.empty`), except a truncation that comes after
//! everything. The fix-point is one pass in topological order with 64 scenarios in a word, O(|V|+|E|).
//! Reference: docs/reference/definitions.md, D22; do-operator: J. Pearl, Causality, 2009, section 3.4.

pub mod masks;
pub mod selection;

pub use masks::Masks;
pub use selection::{Plan, Roster, Segment};

use crate::error::{Error, Result, unknown_name};
use crate::schema::EventType;
use crate::surrogate::Aggregation;

/// The kinds of units that a scenario can be tried with in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Level {
    /// Single events.
    Event,
    /// Agents: the events they own.
    Agent,
    /// Roles: the events of their agents.
    Role,
    /// Tools: their calls and the results of these.
    Tool,
    /// Calls of tools, each with its results.
    Call,
    /// Agents that were spawned, each with those it spawned.
    Spawn,
    /// Messages and returns between agents.
    Message,
    /// Edges; parallel ones are one.
    Edge,
}

impl Level {
    /// All of them.
    pub const ALL: &'static [Self] = &[
        Self::Event,
        Self::Agent,
        Self::Role,
        Self::Tool,
        Self::Call,
        Self::Spawn,
        Self::Message,
        Self::Edge,
    ];

    /// Names, as options spell them, in the order of [`Self::ALL`].
    pub const NAMES: &'static [&'static str] =
        &["event", "agent", "role", "tool", "call", "spawn", "message", "edge"];

    /// The level of a name; the error names the nearest one.
    pub fn parse(name: &str) -> Result<Self> {
        let position = Self::NAMES.iter().position(|&known| known == name);
        position
            .map(|i| Self::ALL[i])
            .ok_or_else(|| Error::Parameter(unknown_name("each", name, Self::NAMES)))
    }

    /// Whether a unit is a set of events, not what passes between them.
    #[must_use]
    pub fn is_events(self) -> bool {
        !matches!(self, Self::Message | Self::Edge)
    }
}

/// The target of an action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// The event of this id.
    Event(String),
    /// The events that this agent owns.
    Agent(String),
    /// The events of the agents in this role.
    Role(String),
    /// The calls of this tool, and their results.
    Tool(String),
    /// The call of this id, and its results.
    Call(String),
    /// The events of this type.
    Type(EventType),
    /// This agent, those that it spawned and theirs.
    Spawn(String),
    /// What the message of this id carries to other agents.
    Message(String),
    /// The edge between the events of these ids.
    Edge(String, String),
    /// Every unit of a level in turn, a scenario each.
    Each(Level),
}

impl Selector {
    /// Whether it is about events, not about what passes between them.
    #[must_use]
    pub fn is_events(&self) -> bool {
        match self {
            Self::Message(_) | Self::Edge(..) => false,
            Self::Each(level) => level.is_events(),
            _ => true,
        }
    }
}

/// The events that a drop takes along.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Nothing more.
    Node,
    /// Every event all of whose inputs are lost.
    All,
    /// Every event any of whose inputs is lost.
    Any,
}

/// The point where a run is cut off.
#[derive(Debug, Clone, PartialEq)]
pub enum Cut {
    /// After this time, counted from the trace's first event.
    At(f64),
    /// After the event of this id, in canonical order.
    Event(String),
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// Something is not there.
    Drop(Selector, Mode),
    /// Events have this value.
    Set(Selector, f64),
    /// Aggregates follow this rule.
    Aggregate(Aggregation),
    /// The run ends early.
    Truncate(Cut),
}

/// Simultaneous changes; with [`Selector::Each`] one scenario for each unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// The changes.
    pub actions: Vec<Action>,
}

impl Scenario {
    /// The level whose units are tried in turn.
    #[must_use]
    pub fn each(&self) -> Option<Level> {
        self.actions.iter().find_map(|action| match action {
            Action::Drop(Selector::Each(level), _) | Action::Set(Selector::Each(level), _) => Some(*level),
            _ => None,
        })
    }

    /// Whether events are present or absent and nothing else is changed.
    #[must_use]
    pub fn is_boolean(&self) -> bool {
        self.actions.iter().all(|action| match action {
            Action::Drop(what, _) => what.is_events(),
            Action::Truncate(_) => true,
            _ => false,
        })
    }

    /// Whether it can be answered at all.
    pub fn check(&self) -> Result<()> {
        let fail = |message: String| Err(Error::Parameter(message));
        if self.actions.is_empty() {
            return fail("an intervention changes nothing".into());
        }
        let each = |action: &&Action| {
            matches!(action, Action::Drop(Selector::Each(_), _) | Action::Set(Selector::Each(_), _))
        };
        if self.actions.iter().filter(each).count() > 1 {
            return fail("an intervention has two each=, expected one: replay the other separately".into());
        }
        for action in &self.actions {
            match action {
                Action::Set(what, _) if !what.is_events() => {
                    return fail(
                        "a value can be set for events only: drop a message or an edge instead".into(),
                    );
                }
                Action::Set(_, to) if !(0.0..=1.0).contains(to) => {
                    return fail(format!("to is {to}, expected a value from 0 to 1"));
                }
                Action::Truncate(Cut::At(at)) if !at.is_finite() || *at < 0.0 => {
                    return fail(format!(
                        "at is {at}, expected a time of at least 0, counted from the first event"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
