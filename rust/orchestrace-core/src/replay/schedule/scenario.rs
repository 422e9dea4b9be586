//! Scenarios of a schedule: slots, queues, and changes to the work.

use super::durations::Release;
use crate::schema::EventType;

/// The kind of work that needs a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pool {
    /// Every event, one each (D10).
    #[default]
    All,
    /// Agents: one takes a slot while any of its events runs, whatever their number. What belongs to nobody needs none.
    Agents,
    /// Tools: their results need one each, everything else none. A result's duration is the work of the tool.
    Tools,
}

/// The order in which ready events start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Queue {
    /// The lowest in canonical order (D1).
    #[default]
    Recorded,
    /// The one with the longest path to the end of everything (highest level first), ties in canonical order.
    CriticalPath,
}

/// The selected events; names are codes of the store, `None` for an unknown one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Select {
    /// All of them.
    Everything,
    /// The event of this external id.
    Event(String),
    /// Events that this agent owns.
    Agent(Option<u32>),
    /// Events whose owner has this role.
    Role(Option<u32>),
    /// Calls and results of this tool.
    Tool(Option<u32>),
    /// Events of this type.
    Type(EventType),
}

/// The fate of events that depend on a removed one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cascade {
    /// They stay, and wait for what the removed one waited for.
    Stay,
    /// They go, too, when everything that they wait for is gone.
    WhenAllAreLost,
    /// They go, too, when anything that they wait for is gone.
    WhenAnyIsLost,
}

/// One change of the work. Changes apply in the order in which they are given.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Events that do not happen.
    Remove {
        /// Which.
        select: Select,
        /// And what follows.
        cascade: Cascade,
    },
    /// Durations divided by a factor; of a tool's events, those of its results.
    Speed {
        /// Of which events.
        select: Select,
        /// Above 1 is faster.
        factor: f64,
    },
    /// Durations cut to a quantile of those of the same type and tool in the trace: the ⌈q m⌉-th smallest of m.
    Cap {
        /// Of which events.
        select: Select,
        /// Above 0, at most 1.
        quantile: f64,
    },
    /// Agents that become one: their events run one at a time, and take one slot of agents together.
    Merge {
        /// Codes of their names; those that the store lacks are left out.
        agents: Vec<u32>,
    },
    /// An agent that becomes several: its pieces of work (events joined by edges other than program order) are dealt to
    /// the parts, the next piece to the part with the least work so far; program order holds within a part.
    Split {
        /// Code of its name.
        agent: Option<u32>,
        /// How many it becomes.
        parts: u32,
    },
    /// One event at a time, whatever the slots.
    Serialize,
}

/// A schedule to replay.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Scenario {
    /// In order.
    pub changes: Vec<Change>,
    /// Slots; `None` for as many as are needed.
    pub slots: Option<u32>,
    /// What takes a slot.
    pub pool: Pool,
    /// Who goes first.
    pub queue: Queue,
    /// The earliest start times of events.
    pub release: Release,
}

impl Scenario {
    /// Whether the other one asks for nothing else but another number of slots.
    #[must_use]
    pub fn alike(&self, other: &Self) -> bool {
        (self.pool, self.queue, self.release) == (other.pool, other.queue, other.release)
            && self.changes == other.changes
    }
}
