//! One line of a rollout, reduced to the values that the mapping needs.

use xxhash_rust::xxh3::xxh3_64;

use crate::importers::items::TraceItem;
use crate::importers::recording::{Hash, Text};
use crate::json::tree::Value;

/// One line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    /// Its place among the items of the trace.
    pub item: u32,
    /// Its line in its file.
    pub number: u64,
    pub time: Option<i64>,
    pub what: What,
    /// Equal for a line and its copy in another thread; nothing where lines of one kind are all alike.
    pub identity: Option<u64>,
    /// What it counts as where the mapping has no use for it.
    pub unused: Text,
}

/// Whom a message of a thread's history is by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    User,
    Assistant,
}

/// Sums of tokens: input, cached, cache writes, output, reasoning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sums {
    pub input: i64,
    pub cached: Option<i64>,
    pub cache_write: Option<i64>,
    pub output: i64,
    pub reasoning: Option<i64>,
}

impl Sums {
    pub(super) fn of(usage: Value<'_>) -> Option<Self> {
        let number = |keys: &[&str]| usage.first(keys).i64().filter(|n| *n >= 0);
        let input = number(&["input_tokens", "prompt"]);
        let output = number(&["output_tokens", "completion"]);
        (input.is_some() || output.is_some()).then(|| Self {
            input: input.unwrap_or(0),
            cached: number(&["cached_input_tokens"]),
            cache_write: number(&["cache_write_input_tokens"]),
            output: output.unwrap_or(0),
            reasoning: number(&["reasoning_output_tokens"]),
        })
    }

    /// What came after `before`, whose absent counts are 0; nothing if the sums began anew.
    pub(super) fn since(self, before: Self) -> Option<Self> {
        let after = |now: Option<i64>, before: Option<i64>| {
            now.map(|now| now.saturating_sub(before.unwrap_or(0))).filter(|rest| *rest >= 0)
        };
        let rest = Self {
            input: self.input.saturating_sub(before.input),
            cached: after(self.cached, before.cached),
            cache_write: after(self.cache_write, before.cache_write),
            output: self.output.saturating_sub(before.output),
            reasoning: after(self.reasoning, before.reasoning),
        };
        (rest.input >= 0 && rest.output >= 0).then_some(rest)
    }

    /// Whether nothing was spent between them.
    pub(super) fn same(self, other: Self) -> bool {
        (self.input, self.cached, self.output, self.reasoning)
            == (other.input, other.cached, other.output, other.reasoning)
    }
}

/// What a result, a status or an end says about the agents of other threads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Status {
    /// Thread or path of the agent.
    pub agent: Text,
    /// What it answered, and whether it could.
    pub answer: Option<(Hash, bool)>,
}

/// Statuses of several agents: a range of the list of all.
pub(super) type Statuses = (u32, u32);

#[derive(Debug, Clone, Copy)]
pub(super) enum What {
    /// Nothing that the mapping uses.
    Nothing,
    Meta {
        id: Text,
        parent: Text,
        forked_from: Text,
        nickname: Text,
        role: Text,
        path: Text,
        internal: Text,
    },
    Context {
        model: Text,
    },
    Message {
        by: By,
        content: Hash,
    },
    /// A text that the harness put into the history in the name of the user.
    Wrapped,
    /// A child reports to its parent that it is done.
    Notice(Statuses),
    Reasoning,
    Call {
        id: Text,
        tool: Text,
        content: Hash,
        /// The agent that a call of a collaboration tool names.
        target: Text,
        /// Hash of its message to that agent.
        prompt: Option<Hash>,
        /// Whether its result is no record of its own.
        alone: bool,
    },
    Output {
        call: Text,
        content: Hash,
        ok: Option<bool>,
        duration_s: Option<f64>,
        /// The agent that was spawned.
        spawned: Text,
        nickname: Text,
        statuses: Statuses,
        /// Whether the user did not allow the call.
        denied: bool,
    },
    /// Something that is known better of a result.
    End {
        call: Text,
        tool: Text,
        content: Option<Hash>,
        request: Option<Hash>,
        ok: Option<bool>,
        duration_s: Option<f64>,
        /// Whether there is a call even where the history has none.
        stands_alone: bool,
    },
    Usage {
        total: Option<Sums>,
        last: Option<Sums>,
    },
    TurnStart,
    TurnEnd {
        text: Option<Hash>,
        failed: bool,
        usage: Option<Sums>,
    },
    Aborted {
        reason: Text,
        by_human: bool,
    },
    Echo {
        by: By,
        content: Hash,
    },
    Spawned {
        call: Text,
        child: Text,
        nickname: Text,
        role: Text,
        path: Text,
        prompt: Option<Hash>,
    },
    Told {
        call: Text,
        to: Text,
        nickname: Text,
        prompt: Option<Hash>,
    },
    Waited {
        call: Text,
        statuses: Statuses,
    },
    Closed {
        call: Text,
        child: Text,
    },
    Resumed {
        call: Text,
        child: Text,
    },
    AgentMessage {
        from: Text,
        to: Text,
        content: Hash,
        /// Whether it is the answer of a child.
        answers: bool,
    },
    Compacted,
    RolledBack {
        turns: u64,
    },
    Assessed {
        status: Text,
        risk: Text,
        allowed: Option<bool>,
        content: Option<Hash>,
    },
    Failed {
        reason: Text,
    },
}

impl What {
    pub(super) fn unless(self, unless: bool) -> Self {
        if unless { Self::Nothing } else { self }
    }
}

/// Tools by which agents work with agents.
pub(super) fn is_collaboration(tool: &str) -> bool {
    matches!(
        tool,
        "spawn_agent"
            | "send_input"
            | "send_message"
            | "followup_task"
            | "assign_task"
            | "wait"
            | "wait_agent"
            | "close_agent"
            | "resume_agent"
    )
}

/// Hash of a line as it stands.
pub(super) fn hash_of(item: &TraceItem<'_>) -> u64 {
    xxh3_64(item.text.as_bytes())
}
