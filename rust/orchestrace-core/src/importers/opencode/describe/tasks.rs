//! Calls of the tool that makes a sub-agent work: which session each began or went on with.

use std::collections::HashMap;

use super::super::TASK;
use super::super::session::{Part, Session};
use super::PromptHashes;
use crate::importers::recording::{Agent, AgentInfo, Hash, Recording, hash};
use crate::json::tree::Value;

/// Words before the id of a session in what the tool gives back.
const BEFORE_ID: [&str; 2] = ["task_id: ", "session_id: "];

/// All such calls of a trace.
#[derive(Debug)]
pub(super) struct Tasks<'v> {
    /// Agents of sessions by the ids of these.
    agents: HashMap<&'v str, Agent>,
    /// What each session was asked by calls.
    prompts: PromptHashes,
    /// Sessions whose call has a result.
    came_back: HashMap<usize, bool>,
}

impl<'v> Tasks<'v> {
    pub(super) fn of(
        all: &[Session<'v>],
        at_of: &HashMap<&'v str, usize>,
        agents: HashMap<&'v str, Agent>,
    ) -> Self {
        let mut tasks = Self { agents, prompts: PromptHashes::new(), came_back: HashMap::new() };
        let parts = all.iter().flat_map(|session| {
            session.messages.iter().flat_map(|message| &message.parts).map(|part| (session.id, part))
        });
        for (session, part) in parts.filter(|(_, part)| is_task(part)) {
            let child = session_of(part).filter(|child| *child != session).and_then(|id| at_of.get(id));
            let Some(child) = child else { continue };
            let prompt = part.value.path(&["state", "input", "prompt"]).str().map(hash);
            tasks.prompts.entry(*child).or_default().extend(prompt);
            *tasks.came_back.entry(*child).or_default() |= has_ended(part);
        }
        tasks
    }

    /// Whether a call asked a session for this.
    pub(super) fn asks(&self, session: usize, prompt: Option<Hash>) -> bool {
        self.prompts.get(&session).zip(prompt).is_some_and(|(hashes, prompt)| hashes.contains(&prompt))
    }

    /// Whether a call asked a session for anything.
    pub(super) fn is_asked(&self, session: usize) -> bool {
        self.prompts.contains_key(&session)
    }

    /// Whether the call that asked it has a result.
    pub(super) fn came_back(&self, session: usize) -> bool {
        self.came_back.get(&session).copied().unwrap_or(false)
    }

    /// Who a call of `by` makes work; somebody of whom nothing was kept if their session is not there.
    pub(super) fn worker(&mut self, part: &Part<'v>, by: Agent, recording: &mut Recording) -> Option<Agent> {
        if !is_task(part) {
            return None;
        }
        let id = session_of(part);
        let status = part.value.path(&["state", "status"]).str();
        if id.is_none() && status == Some("error") {
            // It failed before anybody worked.
            return None;
        }
        let kind = part.value.path(&["state", "input", "subagent_type"]).some_str();
        let existing = id.and_then(|id| self.agents.get(id)).copied();
        let agent = existing.unwrap_or_else(|| {
            let source_id = recording.text(id.unwrap_or_default());
            let agent = recording.agent(AgentInfo { source_id, parent: Some(by), ..AgentInfo::default() });
            if let Some(id) = id {
                self.agents.insert(id, agent);
            }
            agent
        });
        if agent == by {
            return None;
        }
        if let Some(kind) = kind {
            let kind = recording.text(kind);
            let info = recording.agent_info(agent);
            (info.name, info.role) = (kind, kind);
        }
        Some(agent)
    }
}

fn is_task(part: &Part<'_>) -> bool {
    part.kind == "tool" && part.value.get("tool").str() == Some(TASK)
}

/// Whether a tool has given back something.
pub(super) fn has_ended(part: &Part<'_>) -> bool {
    matches!(part.value.path(&["state", "status"]).str(), Some("completed" | "success" | "error"))
}

/// The session that a call works in.
fn session_of<'v>(part: &Part<'v>) -> Option<&'v str> {
    let state: Value<'v> = part.value.get("state");
    let stated = state.get("metadata").first(&["sessionId", "sessionID"]).some_str();
    let going_on = state.path(&["input", "task_id"]).some_str();
    stated.or(going_on).or_else(|| {
        let output = state.get("output").str()?;
        let after = BEFORE_ID.iter().find_map(|words| output.split_once(words))?.1;
        after.split(|c: char| c.is_whitespace() || c == '<').next().filter(|id| !id.is_empty())
    })
}
