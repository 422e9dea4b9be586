//! One line of a rollout, reduced to the values that the mapping needs.

use crate::importers::recording::{Hash, Text};
use crate::json::tree::Value;

/// One line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    /// Its place among the items of the trace.
    pub item: u32,
    /// Its line in its file.
    pub number: u64,
    /// Its file where that is not the first of its thread and numbers its lines anew.
    pub page: Text,
    pub time: Option<i64>,
    /// Its place in the history, as the file numbers it.
    pub ordinal: Option<u64>,
    /// The thread that it names as its own.
    pub named: Text,
    pub content: LineContent,
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

/// Sums of tokens: input, cached, cache writes, output, reasoning, and the whole where it is stated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Sums {
    pub input: i64,
    pub cached: Option<i64>,
    pub cache_write: Option<i64>,
    pub output: i64,
    pub reasoning: Option<i64>,
    pub whole: Option<i64>,
}

impl Sums {
    /// Sums of a `token_count` or of a usage of a response. They are running totals that are subtracted from each other, so
    /// that an absent input or output is 0 here, which it is not in `importers::usage`; cache and reasoning always lie within.
    pub(super) fn of(usage: Value<'_>) -> Option<Self> {
        let number = |keys: &[&str]| usage.first(keys).i64().filter(|n| *n >= 0);
        let input = number(&["input_tokens", "prompt"]);
        let output = number(&["output_tokens", "completion"]);
        let total = number(&["total_tokens"]);
        (input.is_some() || output.is_some() || total.is_some()).then(|| Self {
            input: input.unwrap_or(0),
            cached: number(&["cached_input_tokens"]),
            cache_write: number(&["cache_write_input_tokens"]),
            output: output.unwrap_or(0),
            reasoning: number(&["reasoning_output_tokens"]),
            whole: total,
        })
    }

    /// All tokens: more than the parts where some of them were never split.
    pub(super) fn all(self) -> i64 {
        self.input.saturating_add(self.output).max(self.whole.unwrap_or(0))
    }

    /// What it counts as where it is what a response took.
    pub(super) fn counted(self) -> i64 {
        if self.is_unsplit() { self.all() } else { self.input.saturating_add(self.output) }
    }

    /// Whether the whole is known and its parts are not.
    pub(super) fn is_unsplit(self) -> bool {
        self.input == 0 && self.output == 0 && self.all() > 0
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
            // A whole that nothing was counted from is that of everything before it, too.
            whole: after(self.whole, before.whole.or(Some(0).filter(|_| before.all() == 0)))
                .filter(|_| before.whole.is_some() || before.all() == 0),
        };
        (rest.input >= 0 && rest.output >= 0).then_some(rest)
    }

    /// Whether nothing was spent between them.
    pub(super) fn same(self, other: Self) -> bool {
        (self.input, self.cached, self.output, self.reasoning, self.all())
            == (other.input, other.cached, other.output, other.reasoning, other.all())
    }
}

/// What a file says of the history that it begins with.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct History {
    /// Where its own lines begin, by their ordinals.
    pub own_from: Option<u64>,
    /// Where the lines end that stand in the file of another thread, or of an earlier page of this one.
    pub base_to: Option<u64>,
    /// Whether that is an earlier page of this thread.
    pub is_page: bool,
}

/// What a result, a status or an end says about the agents of other threads.
#[derive(Debug, Clone, Copy)]
pub(super) struct Status {
    /// Thread or path of the agent.
    pub agent: Text,
    /// What it answered, and whether it could.
    pub answer: Option<(Hash, bool)>,
}

/// The result of a call that came with it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InlineResult {
    pub content: Option<Hash>,
    pub ok: Option<bool>,
    /// Whether the next response is another one.
    pub reads: bool,
}

/// Statuses of several agents: a range of the list of all.
pub(super) type Statuses = (u32, u32);

#[derive(Debug, Clone, Copy)]
pub(super) enum LineContent {
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
        history: History,
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
        /// Its result where that is no record of its own.
        result: Option<InlineResult>,
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
    /// What one response took, under its own id, with what its turn and its thread took so far.
    Spent {
        response: Text,
        used: Option<Sums>,
        thread: Option<Sums>,
        turn: Option<i64>,
        /// Whether the context was compacted with it.
        compacts: bool,
    },
    /// A turn ends that took what its thread now took more than before.
    StreamEnd {
        total: Option<Sums>,
    },
    TurnStart {
        /// Whole seconds since the epoch.
        at: Option<i64>,
    },
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
    /// An item of the history that is complete, which files without echoes have in their place.
    Completed {
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

impl LineContent {
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

/// Of these tools, those whose call does nothing but wait until other agents have answered or are gone.
pub(super) fn only_waits(tool: &str) -> bool {
    matches!(tool, "wait" | "wait_agent" | "close_agent")
}
