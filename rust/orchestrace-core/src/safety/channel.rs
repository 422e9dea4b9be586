//! The channel by which untrusted content came in (D40): what the event is at which taint begins.
//!
//! ```text
//! memory    its tool, that of the call that a result without one answers, or without a tool its agent, is a memory: by
//!           its name, or because the caller says so
//! user      an event of the user, or of who stands in for the user
//! verifier  an event of a scorer, or a message, return or aggregate of an agent that judges
//! agent     a message, return or aggregate of another agent
//! tool      a tool's result, and what else nobody of the team owns
//! none      other events: they say what an agent did, and not where what it read came from
//! ```
//!
//! A name is that of a memory if one of its words is `memory` or `memories`. An agent judges if its role, or without a role
//! its name, has a word of [`JUDGES`], or if the caller says so. Words end where letters do, and before a capital letter that
//! follows a small one or that a small one follows. O(names) for a store, O(log names) for an event.

use super::taint::{Named, Scene};
use crate::columns::intern::Interner;
use crate::graph::{NOBODY, Owners};
use crate::schema::{AgentKind, Dict, EventType};
use crate::store::Store;
use crate::store::view::TraceView;

/// Names of the channels, in the order of their codes.
pub const CHANNELS: &[&str] = &["user", "tool", "agent", "memory", "verifier"];

/// A way by which untrusted content comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Channel {
    /// The user.
    User,
    /// What a tool returned.
    Tool,
    /// What another agent named.
    Agent,
    /// A memory.
    Memory,
    /// Who judges.
    Verifier,
}

const MEMORIES: &[&str] = &["memory", "memories"];
/// Words of a role, or of a name without one, that judges what others did.
const JUDGES: &[&str] = &[
    "critic",
    "critics",
    "evaluator",
    "evaluators",
    "grader",
    "graders",
    "judge",
    "judges",
    "reviewer",
    "reviewers",
    "scorer",
    "scorers",
    "verifier",
    "verifiers",
];

/// Names that stand for memories and for agents that judge: codes of the store, ascending.
#[derive(Debug, Clone, Default)]
pub struct Channels {
    memory: Named,
    judges: Vec<u32>,
    judging_roles: Vec<u32>,
    /// Agents that judge whatever their role is.
    verifiers: Vec<u32>,
}

impl Channels {
    /// By the names of a store, and by those that a caller adds.
    #[must_use]
    pub fn of(store: &Store, memory: &Named, verifiers: Vec<u32>) -> Self {
        let words = |dict, words| having(store.names().dict(dict), words);
        let joined = |mut codes: Vec<u32>, more: &[u32]| {
            codes.extend_from_slice(more);
            codes.sort_unstable();
            codes
        };
        Self {
            memory: Named {
                tools: joined(words(Dict::Tool, MEMORIES), &memory.tools),
                agents: joined(words(Dict::Agent, MEMORIES), &memory.agents),
                any: true,
            },
            judges: words(Dict::Agent, JUDGES),
            judging_roles: words(Dict::Role, JUDGES),
            verifiers,
        }
    }

    /// Whether an event is of a scorer or of an agent that judges.
    #[must_use]
    pub fn judges(&self, view: &TraceView<'_>, owners: &Owners, v: usize) -> bool {
        let at = owners.indices()[v];
        if at == NOBODY {
            return owners.outsider(view, v) == Some(AgentKind::Scorer);
        }
        let name = owners.names()[at as usize];
        let by_name = || match name.role {
            NOBODY => self.judges.binary_search(&owners.codes()[v]).is_ok(),
            role => self.judging_roles.binary_search(&role).is_ok(),
        };
        self.verifiers.binary_search(&owners.codes()[v]).is_ok() || by_name()
    }

    /// The channel of an event at which taint begins; a result that names no tool is of the tool of its call.
    #[must_use]
    pub fn entry(&self, scene: &Scene<'_>, v: usize) -> Option<Channel> {
        let view = scene.view;
        let recalls = |&u: &u32| {
            let u = u as usize;
            view.event_type(u) == EventType::ToolCall
                && view.tool.get(u).is_some()
                && self.memory.has(view, u)
        };
        let is_bare = view.event_type(v) == EventType::ToolResult && view.tool.get(v).is_none();
        if is_bare && scene.graph.predecessors_of(v).iter().any(recalls) {
            return Some(Channel::Memory);
        }
        self.channel(view, scene.owners, v)
    }

    /// The channel of an event by itself.
    fn channel(&self, view: &TraceView<'_>, owners: &Owners, v: usize) -> Option<Channel> {
        if self.memory.has(view, v) {
            return Some(Channel::Memory);
        }
        match owners.outsider(view, v) {
            Some(AgentKind::User) => return Some(Channel::User),
            Some(AgentKind::Scorer) => return Some(Channel::Verifier),
            _ if owners.codes()[v] == NOBODY => return Some(Channel::Tool),
            _ => {}
        }
        match view.event_type(v) {
            EventType::ToolResult => Some(Channel::Tool),
            EventType::Message | EventType::Return | EventType::Aggregate => {
                Some(if self.judges(view, owners, v) { Channel::Verifier } else { Channel::Agent })
            }
            _ => None,
        }
    }
}

/// Codes of the names that have one of these words, ascending.
fn having(names: &Interner, words: &[&str]) -> Vec<u32> {
    let named = names.names().enumerate().filter(|(_, name)| has_word(name, words));
    named.map(|(code, _)| code as u32).collect()
}

/// Whether one of the words of a name is among `words`, in any case.
fn has_word(name: &str, words: &[&str]) -> bool {
    let mut begins = 0;
    let (mut small, mut capital) = (false, false);
    let is_one = |word: &str| words.iter().any(|one| word.eq_ignore_ascii_case(one));
    let mut letters = name.char_indices().peekable();
    while let Some((at, letter)) = letters.next() {
        let is_initial = capital && letters.peek().is_some_and(|(_, next)| next.is_lowercase());
        let turns = letter.is_uppercase() && (small || is_initial);
        if turns || !letter.is_alphabetic() {
            if is_one(&name[begins..at]) {
                return true;
            }
            begins = if turns { at } else { at + letter.len_utf8() };
        }
        (small, capital) = (letter.is_lowercase(), letter.is_uppercase());
    }
    is_one(&name[begins..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::test_trace::TestTrace;

    #[test]
    fn words_of_names() {
        for name in [
            "memory",
            "mcp__memory__read_graph",
            "core_memory_append",
            "searchMemories",
            "MEMORY",
            "Memory2",
            "agent.memory",
            "RAGMemory",
        ] {
            assert!(has_word(name, MEMORIES), "{name}");
        }
        for name in ["", "memorize", "inmemory", "in_memoryless", "bash", "memorysearch", "é"] {
            assert!(!has_word(name, MEMORIES), "{name}");
        }
        for name in ["code-reviewer", "judge_1", "LLMJudge", "judges", "MyLLMJudgeV2"] {
            assert!(has_word(name, JUDGES), "{name}");
        }
        assert!(!has_word("judgement", JUDGES));
    }

    #[test]
    fn an_event_says_its_channel() {
        use Channel::*;
        use EventType::*;
        let mut t = TestTrace::default();
        t.event(Message, "user").event(Message, "a").event(Return, "b").event(ToolResult, "browser");
        t.event(Message, "c").role("critic").event(ToolCall, "c").event(OrchestratorDecision, "a");
        t.event(Message, "d")
            .role("scorer")
            .event(ToolCall, "a")
            .event(SafetyEvent, "boss")
            .role("environment");
        let view = t.view();
        let mut owners = Owners::default();
        owners.compute(&view);
        let roles = vec![TestTrace::role_code("critic")];
        let channels = Channels { judging_roles: roles, ..Channels::default() };
        let channels_of: Vec<_> = (0..view.len()).map(|v| channels.channel(&view, &owners, v)).collect();
        let expected = [
            Some(User),
            Some(Agent),
            Some(Agent),
            Some(Tool),
            Some(Verifier),
            None,
            None,
            Some(Verifier),
            None,
            Some(Tool),
        ];
        assert_eq!(channels_of, expected);
        // names that the caller gives go before everything else
        let memory = Named { agents: vec![TestTrace::name("b")], ..Named::default() };
        let named = Channels { memory, verifiers: vec![TestTrace::name("a")], ..channels };
        assert_eq!(named.channel(&view, &owners, 2), Some(Memory));
        assert_eq!(named.channel(&view, &owners, 1), Some(Verifier));
        assert!(named.judges(&view, &owners, 6) && !named.judges(&view, &owners, 0));
    }
}
