//! The specification in a mapping file: fields of a trace and of its steps, and kinds of steps.

use super::counts::Way;
use super::source::{Expr, FieldValue, Pointer, Scope, Slot, Unit};

/// Keys of a mapping file.
macro_rules! keys {
    ($($variant:ident = $name:literal),+ $(,)?) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub(super) enum Key { $($variant),+ }

        impl Key {
            const ALL: &'static [Self] = &[$(Self::$variant),+];

            pub(super) fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name),+ }
            }
        }
    };
}

keys!(
    Id = "id",
    Task = "task",
    Group = "group",
    System = "system",
    Partial = "partial",
    Started = "started",
    Kind = "kind",
    Order = "order",
    Response = "response",
    Agent = "agent",
    AgentName = "agent_name",
    Parent = "parent",
    Role = "role",
    Trainable = "trainable",
    From = "from",
    To = "to",
    Time = "time",
    Start = "start",
    Duration = "duration",
    Model = "model",
    TokensIn = "tokens_in",
    TokensOut = "tokens_out",
    Tokens = "tokens",
    Fresh = "fresh",
    Cached = "cached",
    CacheWrite = "cache_write",
    CacheWrite1h = "cache_write_1h",
    Reasoning = "reasoning",
    Cost = "cost",
    Prompt = "prompt",
    Content = "content",
    Tool = "tool",
    Call = "call",
    Arguments = "arguments",
    Ok = "ok",
    Error = "error",
    Trusted = "trusted",
    Score = "score",
    Reward = "reward",
    Turn = "turn",
    Annotator = "annotator",
    Label = "label",
    Event = "event",
    Weight = "weight",
);

/// What a step can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepKind {
    /// An answer of a model, with its calls and their results.
    Response,
    /// A call of a tool.
    Call,
    /// What a call gave back.
    Result,
    /// A call and what it gave back.
    Tool,
    /// An agent makes another one work.
    Spawn,
    /// An agent hands over to another one.
    Handoff,
    /// An agent ends another one.
    Despawn,
    /// A message from one participant to another.
    Message,
    /// What an agent answers in the end.
    Return,
    /// Something said to an agent from outside.
    Input,
    /// A human breaks in.
    Intervention,
    /// A decision about others.
    Decision,
    /// An event of safety.
    Safety,
    /// The context is compacted.
    Compaction,
    /// Nothing happens: the record has facts of the trace.
    Trace,
    /// Means nothing.
    Ignore,
}

impl StepKind {
    pub(super) const NAMES: &[&str] = &[
        "response",
        "call",
        "result",
        "tool",
        "spawn",
        "handoff",
        "despawn",
        "message",
        "return",
        "input",
        "intervention",
        "decision",
        "safety",
        "compaction",
        "trace",
        "ignore",
    ];
    /// Those of a call.
    pub(super) const OF_CALLS: &[&str] = &["call", "spawn", "handoff", "despawn", "message"];

    pub(super) fn parse(word: &str) -> Option<Self> {
        const ALL: [StepKind; 16] = [
            StepKind::Response,
            StepKind::Call,
            StepKind::Result,
            StepKind::Tool,
            StepKind::Spawn,
            StepKind::Handoff,
            StepKind::Despawn,
            StepKind::Message,
            StepKind::Return,
            StepKind::Input,
            StepKind::Intervention,
            StepKind::Decision,
            StepKind::Safety,
            StepKind::Compaction,
            StepKind::Trace,
            StepKind::Ignore,
        ];
        Self::NAMES.iter().position(|name| *name == word).map(|at| ALL[at])
    }

    /// Whether it is about a second agent, which has to be named.
    pub(super) fn needs_other(self) -> bool {
        matches!(self, Self::Spawn | Self::Handoff | Self::Despawn)
    }
}

/// Where a value lies and what its words mean.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) expr: Expr,
    /// Their words and ours.
    pub(super) words: Option<Vec<(String, Word)>>,
    /// For words that are not there.
    pub(super) other: Option<Word>,
    pub(super) unit: Option<Unit>,
    /// Whether times count from the beginning of the run rather than from the epoch.
    pub(super) relative: bool,
    /// Members of an object that are no numbers of it, where all others are.
    pub(super) except: Vec<String>,
    /// How the file spells where it lies.
    pub(super) shown: String,
    /// A JSON pointer to where it is looked for first.
    pub(super) place: String,
}

#[derive(Debug, Clone)]
pub(super) enum Word {
    Text(String),
    Number(f64),
    Flag(bool),
}

impl Field {
    pub(super) fn find<'t>(&self, scope: Scope<'_, 't>) -> FieldValue<'t> {
        let value = self.expr.find(&scope);
        let Some(words) = &self.words else { return value };
        let Some(word) = value.word() else { return value };
        let ours = words.iter().find(|(theirs, _)| *theirs == word).map(|(_, ours)| ours);
        match ours.or(self.other.as_ref()) {
            Some(Word::Text(text)) => FieldValue::Text(text.clone().into()),
            Some(Word::Number(number)) => FieldValue::Number(*number),
            Some(Word::Flag(flag)) => FieldValue::Flag(*flag),
            None => FieldValue::Nothing,
        }
    }
}

/// The fields of one section.
#[derive(Debug)]
pub(super) struct Fields {
    pub(super) fields: Vec<Field>,
    /// Of each key the place behind its field; 0 where the file does not have it.
    at: [u8; Key::ALL.len()],
}

impl Fields {
    pub(super) fn new() -> Self {
        Self { fields: Vec::new(), at: [0; Key::ALL.len()] }
    }

    pub(super) fn get(&self, key: Key) -> Option<&Field> {
        let at = self.at[key as usize] as usize;
        at.checked_sub(1).map(|at| &self.fields[at])
    }

    pub(super) fn find<'t>(&self, key: Key, scope: Scope<'_, 't>) -> FieldValue<'t> {
        self.get(key).map_or(FieldValue::Nothing, |field| field.find(scope))
    }

    pub(super) fn put(&mut self, key: Key, field: Field) {
        self.fields.push(field);
        self.at[key as usize] = self.fields.len() as u8;
    }
}

/// Numbers by name.
#[derive(Debug)]
pub(super) struct Measures {
    pub(super) named: Vec<(String, Field)>,
    /// Every number of an object, those excepted that the file speaks of elsewhere.
    pub(super) rest: Option<(Field, Vec<String>)>,
}

/// What a step or a record may have several of.
#[derive(Debug)]
pub(super) struct Parts {
    /// Where their list lies; what holds them is the only one where there is none.
    pub(super) each: Option<Field>,
    pub(super) fields: Fields,
}

/// A mapping file.
#[derive(Debug)]
pub(super) struct Spec {
    pub(super) system: String,
    pub(super) users: Vec<String>,
    /// Where the lists of steps lie in a record; the record is the step where this is absent.
    pub(super) steps: Option<Pointer>,
    pub(super) slots: Vec<Slot>,
    pub(super) trace: Fields,
    pub(super) rewards: Measures,
    pub(super) metrics: Measures,
    pub(super) costs: Measures,
    pub(super) trace_labels: Option<Parts>,
    pub(super) step: Fields,
    pub(super) calls: Option<Parts>,
    pub(super) results: Option<Parts>,
    pub(super) labels: Option<Parts>,
    pub(super) extras: Vec<(String, Field)>,
    /// Whether times count from the beginning of the run.
    pub(super) relative: bool,
    /// Every way to a value, in the order of the sections: what [`Expr::Counted`] numbers.
    pub(super) ways: Vec<Way>,
    /// Of each key the ways to it.
    pub(super) keys: Vec<(String, Expr)>,
    /// The way to the lists of steps.
    pub(super) steps_way: Option<usize>,
}

impl Spec {
    /// Whether something travels beside each step: what its record has in common for all of them.
    pub(super) fn travels(&self) -> bool {
        self.slots.iter().any(|slot| self.is_beside(slot))
    }

    /// Whether a step cannot hold it itself.
    pub(super) fn is_beside(&self, slot: &Slot) -> bool {
        self.steps.is_some() || !matches!(slot, Slot::Record(_) | Slot::Up(_))
    }
}
