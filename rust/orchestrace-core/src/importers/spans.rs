//! Conversion of spans, as every tracing system records them, to a [`Recording`].
//!
//! A format that records spans reads each of them into a [`Span`]: who worked, when, below what, and what the work was
//! ([`Work`]), whatever its attributes are called. [`Spans::describe`] then finds out what no single span says: which
//! spans are one and the same generation, who owns what, which response asked for which tool, who answered whom.
//!
//! A format that uses it fills one [`Spans`] per trace:
//!
//! 1. texts are kept by `spans.recording.text(..)`, contents are only hashed ([`super::recording::hash`]);
//! 2. the calls and the scores that a span records are put by [`Spans::call`] and [`Spans::evaluation`] **before** the
//!    span itself goes to [`Spans::push`], which takes them; links likewise;
//! 3. `spans.recording.trace` gets the ids of the trace;
//! 4. [`Spans::describe`], then labels (with [`Spans::entry_of`]), then `spans.recording.write(out)`.
//!
//! No step depends on the order in which spans were pushed, as long as their ids differ.

use super::recording::{Agent, Entry, Hash, Recording, Text, Usage};

mod activities;
mod copied;
mod forest;
mod judged;
mod matching;
mod owners;
mod reported;
mod tool_agents;

pub use judged::{Judgment, Lone};

pub(crate) const NONE: u32 = u32::MAX;

/// Some work with a beginning and an end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Span {
    /// Id, unique in its trace.
    pub id: Text,
    /// Id of the span it is part of; none at the root.
    pub parent: Text,
    /// What recorded it: who works where nobody is named.
    pub service: Text,
    /// When it began, in nanoseconds since the epoch.
    pub start: Option<i64>,
    /// When it ended; nothing while it goes on.
    pub end: Option<i64>,
    /// Whether it succeeded, where that is recorded.
    pub ok: Option<bool>,
    /// How it failed.
    pub error_type: Text,
    /// What was done.
    pub work: Work,
    /// What it counts as if it gives no event.
    pub kind: &'static str,
    /// Number of its record.
    pub item: u32,
}

/// The work of a span, in terms that all dialects share.
#[derive(Debug, Clone, Copy, Default)]
pub enum Work {
    /// An agent at work: all that is below is its own, but for what is below agents below.
    Agent(AgentWork),
    /// An agent is made, which works later if at all.
    Creates(Who),
    /// A model answers. Where such spans contain each other they are one generation.
    Generation(Generation),
    /// A tool is used.
    Tool(ToolUse),
    /// Something is looked at before it may pass; whether it was stopped.
    Guardrail(Option<bool>),
    /// A human decides about the use of the tool around it; the end is when it was decided.
    Decision,
    /// A part of a program. Its name, if it is one, is that of who works below it where no agent is named.
    Chain(Text),
    /// Nothing that an agent does; what is below belongs to what is above.
    #[default]
    Nothing,
}

/// The identity of an agent, from its span.
#[derive(Debug, Clone, Copy, Default)]
pub struct Who {
    /// Name.
    pub name: Text,
    /// Id. Spans of one id below one parent are visits to one agent; without ids each is an agent of its own. An id
    /// that bearers of several names have is nobody's.
    pub id: Text,
    /// Whether the name is only that of the span.
    pub inferred: bool,
    /// Role, where the source says one (R2).
    pub role: Text,
}

/// An agent at work.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgentWork {
    /// Who.
    pub who: Who,
    /// Hash of its answer.
    pub output: Option<Hash>,
}

/// An answer of a model.
#[derive(Debug, Clone, Copy, Default)]
pub struct Generation {
    /// Who asked it, where the span itself says so and no agent is above it.
    pub who: Who,
    /// Model that answered.
    pub model: Text,
    /// Usage by R7.
    pub usage: Usage,
    /// Hash of the text of the answer.
    pub text: Option<Hash>,
    /// Dense reward paid here.
    pub reward: Option<f64>,
    /// Its request, where another recording may know it by that; else 0.
    pub request: u64,
    /// `x_` fields, as [`Recording::extra`] writes them.
    pub extras: Text,
}

/// The role of a tool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ToolKind {
    /// Because a model asked for it.
    #[default]
    Asked,
    /// By the program, which looks something up before it asks the model.
    Retrieval,
    /// By another span of the same use, if one is above: the way to a server.
    Relay,
}

/// The use of a tool.
#[derive(Debug, Clone, Copy, Default)]
pub struct ToolUse {
    /// Id of the call that asked for it.
    pub call: Text,
    /// Name of the tool.
    pub tool: Text,
    /// How it is used.
    pub kind: ToolKind,
    /// Hash of name and arguments ([`super::recording::call_hash`]).
    pub content: Option<Hash>,
    /// Hash of what came back.
    pub result: Option<Hash>,
    /// Where the result came from (R6).
    pub trusted: Option<bool>,
    /// Name of the agent that the conversation is handed to; see [`handoff_target`].
    pub hands_to: Text,
    /// The kind of agent that the call asks for, where its arguments say one.
    pub asks_for: Text,
}

/// A call that a model made in its answer.
#[derive(Debug, Clone, Copy, Default)]
pub struct Declared {
    /// Id of the call.
    pub id: Text,
    /// Name of the tool.
    pub tool: Text,
    /// Hash of name and arguments.
    pub content: Option<Hash>,
    /// Name of the agent that the conversation is handed to.
    pub hands_to: Text,
}

/// Why the record of a span was not used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unused {
    /// It repeats another one.
    Duplicate,
    /// It gives nothing; the [`Span::kind`].
    Ignored(&'static str),
}

/// The spans of one trace, and the recording that is made of them.
#[derive(Debug, Default)]
#[allow(clippy::struct_field_names)] // the spans of `Spans`
pub struct Spans {
    /// Where texts are kept, and what is written in the end.
    pub recording: Recording,
    /// Usage that the source states for the whole trace.
    pub whole: Usage,
    /// How many spans the source says there are.
    pub stated_spans: Option<i64>,
    spans: Vec<Span>,
    /// Calls of all spans, those of one together.
    calls: Vec<Declared>,
    calls_of: Vec<(u32, u32)>,
    links: Vec<(u32, Text)>,
    evaluations: Vec<(u32, Text, f64)>,
    /// Usage that spans state for all work within them, and the model.
    reported: Vec<(u32, Usage, Text)>,
    /// Of each span, the id of the entry that it begins with.
    entries: Vec<Text>,
}

impl Spans {
    /// Puts a call that the next span records.
    pub fn call(&mut self, call: Declared) {
        self.calls.push(call);
    }

    /// Puts a link of the next span to the id of another one, which came before it.
    pub fn link(&mut self, to: Text) {
        self.links.push((self.spans.len() as u32, to));
    }

    /// Puts a score that the next span records: of itself if it is a generation, else of the whole.
    pub fn evaluation(&mut self, name: Text, score: f64) {
        self.evaluations.push((self.spans.len() as u32, name, score));
    }

    /// Puts the usage that the next span, which is no generation, states for all work within it, and the model.
    pub fn report(&mut self, usage: Usage, model: Text) {
        self.reported.push((self.spans.len() as u32, usage, model));
    }

    /// Puts a span.
    pub fn push(&mut self, span: Span) {
        let from = self.calls_of.last().map_or(0, |(_, to)| *to);
        self.calls_of.push((from, self.calls.len() as u32));
        self.spans.push(span);
    }

    /// Pays a reward at a time: to the last generation that had ended by then, once all spans are put. Whether there
    /// was one.
    pub fn reward(&mut self, time: i64, reward: f64) -> bool {
        let mut last: Option<(i64, &mut Generation)> = None;
        for span in &mut self.spans {
            if let (Work::Generation(generation), Some(end)) = (&mut span.work, span.end)
                && end <= time
                && last.as_ref().is_none_or(|(known, _)| *known < end)
            {
                last = Some((end, generation));
            }
        }
        let Some((_, generation)) = last else { return false };
        generation.reward = Some(generation.reward.unwrap_or(0.0) + reward);
        true
    }

    /// Number of spans.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// Describes the trace. `same` says whether two records are equal, `fate` receives what becomes of records that
    /// give nothing. O(n log n) in spans.
    pub fn describe(&mut self, same: &dyn Fn(u32, u32) -> bool, note_unused: &mut dyn FnMut(u32, Unused)) {
        activities::describe(self, same, note_unused);
    }

    /// Id of the entry that a span begins with, once the trace is described; none if it gives no event.
    #[must_use]
    pub fn entry_of(&self, span_id: &str) -> Text {
        let span_and_entry = self
            .spans
            .iter()
            .zip(&self.entries)
            .find(|(span, entry)| !entry.is_none() && self.recording.read(span.id) == span_id);
        span_and_entry.map_or(Text::default(), |(_, entry)| *entry)
    }

    fn declared(&self, span: u32) -> std::ops::Range<usize> {
        let (from, to) = self.calls_of[span as usize];
        from as usize..to as usize
    }
}

/// The agent that a call hands the conversation to, by the name of its tool: `transfer_to_x`, `handoff_to_x`,
/// `handoff_x`, `handoff to x`. Where the name says no agent, an argument does, which `argument` reads by its key.
pub fn handoff_target<'a>(tool: &'a str, argument: impl Fn(&str) -> Option<&'a str>) -> Option<&'a str> {
    let rest = ["transfer_to_", "handoff_to_", "handoff_", "handoff to "]
        .iter()
        .find_map(|p| tool.strip_prefix(p))?;
    match rest {
        "agent" | "" => argument("agent_name").or_else(|| argument("agent")),
        name => Some(name),
    }
}

/// Who and what the mapping found an agent to be.
#[derive(Debug, Clone, Copy, Default)]
struct Player {
    who: Who,
    parent: Option<u32>,
    /// Its number in the recording.
    agent: Option<Agent>,
    /// Whether a span of it has no end.
    open: bool,
    /// Whether it took over from another one.
    took_over: bool,
    /// The last of its spans.
    last_visit: Option<u32>,
}

/// Entries that are described for a span.
#[derive(Debug, Clone, Copy, Default)]
struct Described {
    first: Option<Entry>,
    player: Option<u32>,
}
