//! Owners and outcomes of a chunk's traces, as the graph derived them when the chunk was assembled.
//!
//! Nearly every verb asks for them, and they follow from the document alone, so a store keeps them: 8 bytes for each
//! event, and the names. `graph::owner` and `graph::outcome` have the definitions (D4, D5).

use crate::schema::{AgentKind, Reason};

/// In place of a code or position: nobody, nothing.
pub const NOBODY: u32 = u32::MAX;

/// One distinct value of the field `agent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    /// Dictionary code.
    pub code: u32,
    /// First event that carries it, in document order.
    pub first_seq: u32,
    /// Events that carry it.
    pub carried: u32,
    /// Events that it owns; an agent is a name that owns one.
    pub owned: u32,
    /// Occurs on tool results only, hence a tool's name; never the user's.
    pub(crate) only_results: bool,
    /// Occurs on tool results.
    pub(crate) has_results: bool,
    /// What it is where that is not of the team.
    pub(crate) outsider: Option<AgentKind>,
    pub(crate) role: u32,
    pub(crate) parent: u32,
    pub(crate) trained: Trained,
}

/// What the events of an agent say of whether its policy is trained.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Trained {
    /// Nothing.
    #[default]
    Unsaid,
    Is(bool),
    /// Both.
    Mixed,
}

impl Trained {
    /// With what one more event says.
    pub(crate) fn and(self, flag: Option<bool>) -> Self {
        match (self, flag) {
            (before, None) => before,
            (Self::Unsaid, Some(flag)) => Self::Is(flag),
            (Self::Is(before), Some(flag)) if before == flag => self,
            _ => Self::Mixed,
        }
    }
}

impl Name {
    /// Role: of the first event that it owns and carries, spawns and despawns left out, else of the first spawn
    /// that names it.
    #[must_use]
    pub fn role(&self) -> Option<u32> {
        Some(self.role).filter(|&role| role != NOBODY)
    }

    /// Position among the names of the owner of the first spawn that names it (D16).
    #[must_use]
    pub fn parent(&self) -> Option<u32> {
        Some(self.parent).filter(|&parent| parent != NOBODY)
    }

    /// Whether its policy is trained: what the events that it owns and carries say, spawns and despawns left out;
    /// not known where they differ.
    #[must_use]
    pub fn trainable(&self) -> Option<bool> {
        match self.trained {
            Trained::Is(flag) => Some(flag),
            Trained::Unsaid | Trained::Mixed => None,
        }
    }

    /// Whether it owns an event.
    #[must_use]
    pub fn is_agent(&self) -> bool {
        self.owned > 0
    }

    /// What the name stands for.
    #[must_use]
    pub fn kind(&self) -> AgentKind {
        match self.outsider {
            _ if self.is_agent() => AgentKind::Agent,
            // a tool may warn of what it gives back
            Some(AgentKind::Environment) if self.has_results => AgentKind::Tool,
            Some(kind) => kind,
            None if self.only_results => AgentKind::Tool,
            None => AgentKind::User,
        }
    }
}

/// The evidence by which the root was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Evidence {
    /// The human addressed it, or agents that work for it.
    Heard,
    /// The human addressed several that do not work for one; it is the first of them.
    Divided,
    /// No human speaks: it decides or spawns first, or spawned who does.
    Leads,
    /// No human speaks, nobody decides or spawns: it acts first.
    #[default]
    First,
}

/// The place of a trace's outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// At an event.
    Event(u32),
    /// Behind all sinks, each joined by an edge of weight 1.
    VirtualSink,
}

/// What is stored of one trace.
#[derive(Debug, Clone, Copy)]
pub struct Owned<'a> {
    /// Position among `names` of the owner of every event, or [`NOBODY`].
    pub index: &'a [u32],
    /// For every `tool_result` the `seq` of its call, else [`NOBODY`].
    pub calls: &'a [u32],
    /// Distinct values of the field `agent`, in order of first appearance.
    pub names: &'a [Name],
    /// Positions of those whom the human addressed, in order of hearing.
    pub heard: &'a [u32],
    /// Code of the root agent.
    pub root: Option<u32>,
    /// The evidence by which the root was found.
    pub evidence: Evidence,
    /// The outcome, or why it is not known.
    pub outcome: Result<Outcome, Reason>,
}

/// Owners and outcomes of the traces of one chunk.
#[derive(Debug, Default)]
pub struct Ownership {
    index: Vec<u32>,
    calls: Vec<u32>,
    names: Vec<Name>,
    heard: Vec<u32>,
    traces: Vec<Trace>,
}

/// One trace of [`Ownership`]: where its rows end, and what it has once.
#[derive(Debug, Clone, Copy)]
struct Trace {
    events: u32,
    names: u32,
    heard: u32,
    /// Code of the root, or [`NOBODY`].
    root: u32,
    evidence: Evidence,
    outcome: Result<Outcome, Reason>,
}

impl Ownership {
    /// Room for so many events.
    pub(crate) fn with_capacity(events: usize) -> Self {
        Self { index: Vec::with_capacity(events), calls: Vec::with_capacity(events), ..Self::default() }
    }

    /// Appends a trace.
    pub(crate) fn push(&mut self, owned: Owned<'_>) {
        self.index.extend_from_slice(owned.index);
        self.calls.extend_from_slice(owned.calls);
        self.names.extend_from_slice(owned.names);
        self.heard.extend_from_slice(owned.heard);
        self.traces.push(Trace {
            events: self.index.len() as u32,
            names: self.names.len() as u32,
            heard: self.heard.len() as u32,
            root: owned.root.unwrap_or(NOBODY),
            evidence: owned.evidence,
            outcome: owned.outcome,
        });
    }

    /// Gives back the room that nothing was put in: a corpus of many small files has a chunk for each few of them.
    pub(crate) fn shrink(&mut self) {
        self.index.shrink_to_fit();
        self.calls.shrink_to_fit();
        self.names.shrink_to_fit();
        self.heard.shrink_to_fit();
        self.traces.shrink_to_fit();
    }

    /// What is stored of a trace, by its place in the chunk.
    #[must_use]
    pub fn trace(&self, i: usize) -> Owned<'_> {
        let end = self.traces[i];
        let from = |of: fn(&Trace) -> u32| if i == 0 { 0 } else { of(&self.traces[i - 1]) as usize };
        let events = from(|t| t.events)..end.events as usize;
        Owned {
            index: &self.index[events.clone()],
            calls: &self.calls[events],
            names: &self.names[from(|t| t.names)..end.names as usize],
            heard: &self.heard[from(|t| t.heard)..end.heard as usize],
            root: Some(end.root).filter(|&root| root != NOBODY),
            evidence: end.evidence,
            outcome: end.outcome,
        }
    }

    /// The traces that `keep` names.
    pub(crate) fn filter(&self, keep: &[bool]) -> Self {
        let mut filtered = Self::default();
        (0..self.traces.len()).filter(|&i| keep[i]).for_each(|i| filtered.push(self.trace(i)));
        filtered.shrink();
        filtered
    }

    /// Bytes held.
    pub(crate) fn nbytes(&self) -> usize {
        size_of_val(&self.index[..])
            + size_of_val(&self.calls[..])
            + size_of_val(&self.names[..])
            + size_of_val(&self.heard[..])
            + size_of_val(&self.traces[..])
    }
}
