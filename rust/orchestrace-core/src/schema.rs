//! Column names, types, closed vocabularies and the schema version, defined in this place alone.
//!
//! Python reads its Polars schemas from here through the binding, the writer takes its columns from
//! here, and the documentation tables are generated from here. Definitions of the fields are in the
//! survey's JSON Schema (arXiv 2605.02801) for the native ones and in docs/reference/tables.md for the rest.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

pub use crate::error::{REASONS, Reason};

/// Version of the table layout, `major.minor`. Within a major, columns are only added.
pub const SCHEMA_VERSION: &str = "1.3";

/// Dictionaries of open vocabularies. Columns that name the same kind of thing share one, so that
/// codes can be compared across columns (an event's `agent` with another event's `to`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Dict {
    /// Agent, tool-as-agent and user names: `agent`, `from`, `to`, `agents.parent`.
    Agent,
    /// Roles.
    Role,
    /// Tool names.
    Tool,
    /// Model names.
    Model,
    /// Logged actions.
    Action,
    /// Systems that made the recording.
    System,
    /// Reward channels, costs and metrics.
    Measure,
    /// Names of importers.
    Importer,
    /// Input files.
    File,
    /// People or programs that labeled a trace.
    Annotator,
    /// What a label says.
    Label,
}

impl Dict {
    /// How many dictionaries a store has.
    pub const COUNT: usize = 11;
    /// How many of them, the first ones, the columns of events name.
    pub const OF_EVENTS: usize = 5;
    /// All of them, in code order.
    pub const ALL: [Dict; Dict::COUNT] = [
        Dict::Agent,
        Dict::Role,
        Dict::Tool,
        Dict::Model,
        Dict::Action,
        Dict::System,
        Dict::Measure,
        Dict::Importer,
        Dict::File,
        Dict::Annotator,
        Dict::Label,
    ];
}

/// Logical type of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Row numbers, sequence numbers, counts.
    U32,
    /// File positions.
    U64,
    /// Token counts: signed, so that differences do not wrap.
    I64,
    /// Times, values, scores, prices.
    F64,
    /// Flags.
    Bool,
    /// Free text and external ids, as a string view.
    Text,
    /// A name of an open vocabulary: dictionary codes, `Categorical` in Polars.
    Name(Dict),
    /// A word of a closed vocabulary: `Enum` in Polars.
    Word(&'static [&'static str]),
    /// Absolute time, nanoseconds, UTC.
    Time,
    /// Probabilities of all actions.
    F64List,
}

/// One column of a table.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Name, as in the frame.
    pub name: &'static str,
    /// Type.
    pub kind: Kind,
    /// Whether nulls may occur; null means "not recorded".
    pub nullable: bool,
}

const fn col(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, nullable: false }
}

const fn opt(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, nullable: true }
}

/// One table.
#[derive(Debug)]
pub struct Table {
    /// Name, as the attribute of `Corpus`.
    pub name: &'static str,
    /// Columns in order.
    pub columns: &'static [Column],
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $list:ident, [$($variant:ident = $word:literal),+ $(,)?]) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)] // the words are their own documentation
        pub enum $name { $($variant),+ }

        /// The words, in code order.
        pub const $list: &[&str] = &[$($word),+];

        impl $name {
            /// All variants in code order.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word as files and frames spell it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                $list[self as usize]
            }

            /// The variant for a word.
            #[must_use]
            #[inline]
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some($name::$variant),)+ _ => None }
            }

            /// The variant for a code of the column.
            #[must_use]
            #[inline]
            pub fn from_code(code: u8) -> Option<Self> {
                Self::ALL.get(code as usize).copied()
            }
        }
    };
}

words!(
    /// What an event is (survey schema, ten types).
    EventType, EVENT_TYPES, [
        OrchestratorDecision = "orchestrator_decision", Spawn = "spawn", Despawn = "despawn",
        Message = "message", ToolCall = "tool_call", ToolResult = "tool_result", Return = "return",
        Aggregate = "aggregate", HumanIntervention = "human_intervention", SafetyEvent = "safety_event",
    ]
);
words!(
    /// What an edge means (survey schema, eight types).
    EdgeType, EDGE_TYPES, [
        Temporal = "temporal", Causal = "causal", Spawn = "spawn", Message = "message",
        ToolDependency = "tool_dependency", Return = "return", Aggregate = "aggregate",
        SafetyFlow = "safety_flow",
    ]
);
words!(
    /// How a team is wired (survey schema, eight topologies).
    Topology, TOPOLOGIES, [
        Centralized = "centralized", PlannerExecutorCritic = "planner_executor_critic",
        Debate = "debate", Swarm = "swarm", Hierarchical = "hierarchical", Harness = "harness",
        Mixed = "mixed", Unknown = "unknown",
    ]
);
words!(
    /// What the numbers of `t` mean.
    TimeBasis, TIME_BASES, [
        Seconds = "seconds", Partial = "partial", Ordinal = "ordinal", Unknown = "unknown",
    ]
);
words!(
    /// What a name in the `agents` table stands for. Only agents are of the team and own events (D4).
    AgentKind, AGENT_KINDS, [
        Agent = "agent", Tool = "tool", User = "user", Scorer = "scorer", Environment = "environment",
    ]
);

impl AgentKind {
    /// Roles that name who takes part without being of the team, and what their bearers are (D4).
    pub const OUTSIDE: [(&'static str, AgentKind); 3] =
        [("user", AgentKind::User), ("scorer", AgentKind::Scorer), ("environment", AgentKind::Environment)];
}
words!(
    /// Which map of the trace a measure comes from.
    MeasureKind, MEASURE_KINDS, [Reward = "reward", Cost = "cost", Metric = "metric"]
);
words!(
    /// The levels at which credit is reported (survey, eight units, and the single event).
    Unit, UNITS, [
        Team = "team", Role = "role", Agent = "agent", Turn = "turn", Event = "event",
        Orchestrator = "orchestrator", Message = "message", Tool = "tool", Token = "token",
    ]
);
words!(
    /// Whose credit is asked for (docs/reference/definitions.md, D11).
    Over, OVERS, [All = "all", Trainable = "trainable"]
);

words!(
    /// The families of rewards (survey, eight).
    Family, FAMILIES, [
        Outcome = "R1", Individual = "R2", Role = "R3", Process = "R4", Tool = "R5", Verifier = "R6",
        Orchestration = "R7", Hybrid = "R8",
    ]
);
words!(
    /// Whether credits add up (docs/reference/definitions.md, D11). Shares do: all rows of a level sum to the amount divided. An advantage is one value per
    /// decision, broadcast down, averaged upward, never summed.
    Quantity, QUANTITIES, [Share = "share", Advantage = "advantage"]
);
words!(
    /// What a counterfactual number rests on; null where a result only describes the record.
    Tier, TIERS, [Observed = "observed", Schedule = "schedule", Surrogate = "surrogate"]
);
words!(
    /// What became of a record that was read.
    RecordStatus, RECORD_STATUSES, [
        Used = "used", Ignored = "ignored", Duplicate = "duplicate", Quarantined = "quarantined",
    ]
);

words!(
    /// The columns of `events` that an importer writes, in table order; `trace` and `seq` are made.
    EventField, EVENT_FIELDS, [
        Id = "id", T = "t", Type = "type", Agent = "agent", Role = "role", From = "from", To = "to",
        Tool = "tool", ContentRef = "content_ref", Trusted = "trusted", DurationS = "duration_s",
        TEnd = "t_end", TokensIn = "tokens_in", TokensFresh = "tokens_fresh",
        TokensCached = "tokens_cached", TokensCacheWrite = "tokens_cache_write", TokensOut = "tokens_out",
        TokensReasoning = "tokens_reasoning", Tokens = "tokens",
        TokensCacheWrite1h = "tokens_cache_write_1h", CostUsd = "cost_usd", Model = "model", Turn = "turn", Ok = "ok", Score = "score",
        Reward = "reward", DraftScore = "draft_score", Value = "value", PBehavior = "p_behavior",
        Action = "action", PActions = "p_actions", StateKey = "state_key", PrefixKey = "prefix_key",
        SubtaskId = "subtask_id", ContentHash = "content_hash", ArgsHash = "args_hash",
        HarnessHash = "harness_hash", SandboxId = "sandbox_id", Corrupted = "corrupted",
        Sanitizer = "sanitizer", Privileged = "privileged", Trainable = "trainable", GroupId = "group_id", Extras = "extras",
    ]
);

impl EventField {
    /// The column it is written to.
    #[must_use]
    pub fn column(self) -> &'static Column {
        &EVENTS.columns[self as usize + 2]
    }

    /// The tokens of an event: all input and its three parts, output and the reasoning in it, the total.
    pub const TOKENS: [EventField; 7] = [
        EventField::TokensIn,
        EventField::TokensFresh,
        EventField::TokensCached,
        EventField::TokensCacheWrite,
        EventField::TokensOut,
        EventField::TokensReasoning,
        EventField::Tokens,
    ];

    /// The field of a key that documents have from before there was a column.
    #[must_use]
    pub fn formerly(key: &str) -> Option<Self> {
        match key {
            "x_tokens_cached" => Some(Self::TokensCached),
            "x_tokens_cache_write" => Some(Self::TokensCacheWrite),
            "x_tokens_reasoning" => Some(Self::TokensReasoning),
            _ => None,
        }
    }

    /// Whether the survey's schema does not have it: a wrong type is then a finding, not a reject.
    #[must_use]
    pub fn is_extension(self) -> bool {
        self as u8 > EventField::Trusted as u8
    }
}

/// Traces: one row each, in input order.
pub static TRACES: Table = Table {
    name: "traces",
    columns: &[
        col("trace", Kind::U32),
        col("trace_id", Kind::Text),
        col("task_id", Kind::Text),
        col("group_id", Kind::Text),
        opt("system", Kind::Name(Dict::System)),
        opt("topology", Kind::Word(TOPOLOGIES)),
        col("importer", Kind::Name(Dict::Importer)),
        col("time_basis", Kind::Word(TIME_BASES)),
        opt("started_at", Kind::Time),
        col("partial", Kind::Bool),
        col("n_events", Kind::U32),
        col("n_edges", Kind::U32),
        col("n_agents", Kind::U32),
        opt("file", Kind::Name(Dict::File)),
        opt("line", Kind::U64),
        opt("offset", Kind::U64),
        opt("length", Kind::U64),
    ],
};

/// Events: contiguous per trace, in document order.
pub static EVENTS: Table = Table {
    name: "events",
    columns: &[
        col("trace", Kind::U32),
        col("seq", Kind::U32),
        col("id", Kind::Text),
        col("t", Kind::F64),
        col("type", Kind::Word(EVENT_TYPES)),
        col("agent", Kind::Name(Dict::Agent)),
        opt("role", Kind::Name(Dict::Role)),
        opt("from", Kind::Name(Dict::Agent)),
        opt("to", Kind::Name(Dict::Agent)),
        opt("tool", Kind::Name(Dict::Tool)),
        opt("content_ref", Kind::Text),
        opt("trusted", Kind::Bool),
        opt("duration_s", Kind::F64),
        opt("t_end", Kind::F64),
        opt("tokens_in", Kind::I64),
        opt("tokens_fresh", Kind::I64),
        opt("tokens_cached", Kind::I64),
        opt("tokens_cache_write", Kind::I64),
        opt("tokens_out", Kind::I64),
        opt("tokens_reasoning", Kind::I64),
        opt("tokens", Kind::I64),
        opt("tokens_cache_write_1h", Kind::I64),
        opt("cost_usd", Kind::F64),
        opt("model", Kind::Name(Dict::Model)),
        opt("turn", Kind::U32),
        opt("ok", Kind::Bool),
        opt("score", Kind::F64),
        opt("reward", Kind::F64),
        opt("draft_score", Kind::F64),
        opt("value", Kind::F64),
        opt("p_behavior", Kind::F64),
        opt("action", Kind::Name(Dict::Action)),
        opt("p_actions", Kind::F64List),
        opt("state_key", Kind::Text),
        opt("prefix_key", Kind::Text),
        opt("subtask_id", Kind::Text),
        opt("content_hash", Kind::Text),
        opt("args_hash", Kind::Text),
        opt("harness_hash", Kind::Text),
        opt("sandbox_id", Kind::Text),
        opt("corrupted", Kind::Bool),
        opt("sanitizer", Kind::Bool),
        opt("privileged", Kind::Bool),
        opt("trainable", Kind::Bool),
        opt("group_id", Kind::Text),
        opt("extras", Kind::Text),
    ],
};

/// Edges: `src` and `dst` are `seq` of the same trace.
pub static EDGES: Table = Table {
    name: "edges",
    columns: &[
        col("trace", Kind::U32),
        col("src", Kind::U32),
        col("dst", Kind::U32),
        col("type", Kind::Word(EDGE_TYPES)),
    ],
};

/// Names that act in a trace, in order of first appearance.
pub static AGENTS: Table = Table {
    name: "agents",
    columns: &[
        col("trace", Kind::U32),
        col("agent", Kind::Name(Dict::Agent)),
        col("kind", Kind::Word(AGENT_KINDS)),
        opt("role", Kind::Name(Dict::Role)),
        opt("trainable", Kind::Bool),
        opt("parent", Kind::Name(Dict::Agent)),
        opt("depth", Kind::U32),
        col("first_seq", Kind::U32),
        col("n_events", Kind::U32),
    ],
};

/// Every key of the trace's three maps.
pub static MEASURES: Table = Table {
    name: "measures",
    columns: &[
        col("trace", Kind::U32),
        col("kind", Kind::Word(MEASURE_KINDS)),
        col("name", Kind::Name(Dict::Measure)),
        col("value", Kind::F64),
    ],
};

/// Annotators' statements; with external ids, so that a label file can be read alone.
pub static LABELS: Table = Table {
    name: "labels",
    columns: &[
        col("trace_id", Kind::Text),
        col("annotator", Kind::Name(Dict::Annotator)),
        opt("event_id", Kind::Text),
        opt("turn", Kind::U32),
        opt("agent", Kind::Text),
        col("label", Kind::Name(Dict::Label)),
        opt("weight", Kind::F64),
    ],
};

/// Oddities of valid traces: first place and count.
pub static FINDINGS: Table = Table {
    name: "findings",
    columns: &[
        col("trace", Kind::U32),
        col("code", Kind::Word(crate::error::FINDING_CODES)),
        col("count", Kind::U32),
        opt("seq", Kind::U32),
        col("message", Kind::Text),
    ],
};

/// Records that could not be accepted.
pub static QUARANTINE: Table = Table {
    name: "quarantine",
    columns: &[
        col("file", Kind::Name(Dict::File)),
        col("offset", Kind::U64),
        col("line", Kind::U64),
        col("length", Kind::U64),
        col("code", Kind::Word(crate::error::REJECT_CODES)),
        col("path", Kind::Text),
        col("message", Kind::Text),
        col("importer", Kind::Name(Dict::Importer)),
        col("excerpt", Kind::Text),
    ],
};

/// Fates of the records read, by input; the counts sum to their number. A record is what the format counts: a
/// trace, a line of a session, a span.
pub static RECORD_COUNTS: Table = Table {
    name: "record_counts",
    columns: &[
        opt("file", Kind::Name(Dict::File)),
        col("importer", Kind::Name(Dict::Importer)),
        col("status", Kind::Word(RECORD_STATUSES)),
        opt("kind", Kind::Text),
        col("count", Kind::U64),
    ],
};

/// All tables of a corpus.
pub static TABLES: &[&Table] =
    &[&TRACES, &EVENTS, &EDGES, &AGENTS, &MEASURES, &LABELS, &FINDINGS, &QUARANTINE, &RECORD_COUNTS];

/// The columns of `credits` that vary by row. The Python layer adds `unit`, `method`, `quantity`,
/// `reward`, `tier` and `params`, which are constant in one call, as literals that take no memory.
pub static CREDITS: Table = Table {
    name: "credits",
    columns: &[
        col("trace", Kind::U32),
        opt("unit_id", Kind::Text),
        col("trace_id", Kind::Text),
        opt("seq", Kind::U32),
        opt("credit", Kind::F64),
        opt("stderr", Kind::F64),
        opt("n_samples", Kind::I64),
        opt("residual", Kind::F64),
        opt("reason", Kind::Word(REASONS)),
    ],
};

/// Answers of replay: a row for each trace and intervention, and for each unit if every unit is tried in turn.
/// `effect` is `outcome_cf - outcome`.
pub static REPLAYS: Table = Table {
    name: "replays",
    columns: &[
        col("trace", Kind::U32),
        col("intervention", Kind::Text),
        opt("unit_id", Kind::Text),
        col("trace_id", Kind::Text),
        opt("outcome", Kind::F64),
        opt("outcome_cf", Kind::F64),
        opt("effect", Kind::F64),
        opt("stderr", Kind::F64),
        opt("lower", Kind::F64),
        opt("upper", Kind::F64),
        opt("makespan", Kind::F64),
        opt("makespan_cf", Kind::F64),
        opt("tokens", Kind::I64),
        opt("tokens_cf", Kind::I64),
        opt("tier", Kind::Word(TIERS)),
        opt("support", Kind::F64),
        opt("reason", Kind::Word(REASONS)),
        col("params", Kind::Text),
    ],
};

/// Results of [`faithfulness`](crate::replay::faithfulness()), one row per trace.
pub static FAITHFULNESS: Table = Table {
    name: "faithfulness",
    columns: &[
        col("trace", Kind::U32),
        col("trace_id", Kind::Text),
        opt("deletion", Kind::F64),
        opt("insertion", Kind::F64),
        opt("deletion_random", Kind::F64),
        opt("insertion_random", Kind::F64),
        opt("gap", Kind::F64),
        opt("reason", Kind::Word(REASONS)),
    ],
};

words!(
    /// Where the duration of an event comes from.
    DurationSource, DURATION_SOURCES, [
        DurationS = "duration_s", TEnd = "t_end", Gap = "gap", Absent = "absent", Idle = "idle",
        Outside = "outside",
    ]
);
/// Rules for the durations of events, in code order.
pub const DURATION_RULES: &[&str] = &["explicit", "mixed", "gap"];
words!(
    /// What times of a schedule are counted in.
    TimeUnitOf, TIME_UNITS, [Seconds = "seconds", Steps = "steps"]
);

/// Payments of [`rewards`](crate::rewards::rewards), a row for each unit; columns of addends follow on request.
pub static REWARDS: Table = Table {
    name: "rewards",
    columns: &[
        col("trace", Kind::U32),
        col("trace_id", Kind::Text),
        col("task_id", Kind::Text),
        col("unit_id", Kind::Text),
        col("seq", Kind::U32),
        opt("value", Kind::F64),
        opt("reason", Kind::Word(REASONS)),
    ],
};

/// Results of [`schedule replays`](crate::replay::schedule::replays), a row for each trace and scenario.
pub static SCHEDULE_REPLAYS: Table = Table {
    name: "schedule_replays",
    columns: &[
        col("trace", Kind::U32),
        col("trace_id", Kind::Text),
        col("scenario", Kind::U32),
        opt("makespan", Kind::F64),
        opt("makespan_cf", Kind::F64),
        opt("recorded", Kind::F64),
        opt("tokens", Kind::I64),
        opt("tokens_cf", Kind::I64),
        opt("work", Kind::F64),
        opt("span", Kind::F64),
        opt("lower", Kind::F64),
        opt("upper", Kind::F64),
        opt("utilization", Kind::F64),
        opt("peak", Kind::U32),
        opt("support", Kind::F64),
        opt("cut", Kind::U32),
        opt("rule", Kind::Word(DURATION_RULES)),
        opt("unit", Kind::Word(TIME_UNITS)),
        opt("reason", Kind::Word(REASONS)),
    ],
};

/// Results of a [`schedule`](crate::replay::schedule::schedule()), a row for each event.
pub static SCHEDULES: Table = Table {
    name: "schedules",
    columns: &[
        col("trace", Kind::U32),
        col("seq", Kind::U32),
        opt("duration", Kind::F64),
        opt("start", Kind::F64),
        opt("finish", Kind::F64),
        opt("slack", Kind::F64),
        opt("critical", Kind::Bool),
        opt("source", Kind::Word(DURATION_SOURCES)),
        opt("unit", Kind::Word(TIME_UNITS)),
        opt("reason", Kind::Word(REASONS)),
    ],
};

impl Kind {
    /// The Arrow type that stores it.
    #[must_use]
    pub fn arrow(self) -> DataType {
        match self {
            Kind::U32 => DataType::UInt32,
            Kind::U64 => DataType::UInt64,
            Kind::I64 => DataType::Int64,
            Kind::F64 => DataType::Float64,
            Kind::Bool => DataType::Boolean,
            Kind::Text => DataType::Utf8View,
            Kind::Name(_) => DataType::Dictionary(Box::new(DataType::UInt32), Box::new(DataType::Utf8)),
            Kind::Word(_) => DataType::Dictionary(Box::new(DataType::UInt8), Box::new(DataType::Utf8View)),
            Kind::Time => DataType::Timestamp(TimeUnit::Nanosecond, Some("UTC".into())),
            Kind::F64List => DataType::LargeList(Arc::new(Field::new("item", DataType::Float64, true))),
        }
    }
}

impl Column {
    /// The Arrow field. A closed vocabulary travels as field metadata in the spelling that Polars
    /// reads as `Enum` (each word preceded by its length in bytes).
    #[must_use]
    pub fn field(&self) -> Field {
        let field = Field::new(self.name, self.kind.arrow(), true);
        match self.kind {
            Kind::Word(words) => {
                let listed = words.iter().map(|w| format!("{};{w}", w.len())).collect::<Vec<_>>().concat();
                field.with_metadata(HashMap::from([("_PL_ENUM_VALUES2".to_owned(), listed)]))
            }
            _ => field,
        }
    }
}

impl Table {
    /// The Arrow schema.
    #[must_use]
    pub fn arrow(&self) -> SchemaRef {
        Arc::new(Schema::new(self.columns.iter().map(Column::field).collect::<Vec<_>>()))
    }

    /// Position of a column.
    #[must_use]
    pub fn index(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|c| c.name == name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_fields_are_the_columns() {
        for (field, column) in EventField::ALL.iter().zip(&EVENTS.columns[2..]) {
            assert_eq!(field.as_str(), column.name);
        }
        assert_eq!(EventField::ALL.len() + 2, EVENTS.columns.len());
    }

    #[test]
    fn words_parse_back() {
        for word in EVENT_TYPES {
            assert_eq!(EventType::parse(word).map(EventType::as_str), Some(*word));
        }
        assert_eq!(EventType::parse("noise"), None);
    }
}
