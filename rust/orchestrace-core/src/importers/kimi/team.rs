//! Agents of a session: who asked whom, whether their wire files were kept or not.

use std::collections::{HashMap, HashSet};

use crate::importers::recording::{Agent, AgentInfo, Recording, Text};

/// An agent that a call makes work.
#[derive(Debug, Clone, Copy)]
pub(super) struct Delegate {
    pub call: Text,
    pub agent: Agent,
    /// Which member of a swarm it is.
    pub nth: Option<usize>,
}

/// The agents of a trace.
#[derive(Debug, Default)]
pub(super) struct Team<'v> {
    pub agents: HashMap<&'v str, Agent>,
    /// Agents that no call was found of yet: their id, who asked them, and what.
    pub unasked: Vec<(&'v str, &'v str, String)>,
    /// Whose end was told to who asked.
    pub ended: HashSet<Agent>,
    /// Agents by the work in the background that they do: who asked, and the id of the work.
    tasks: HashMap<(&'v str, &'v str), Agent>,
}

impl<'v> Team<'v> {
    /// The agent of an id, as somebody calls it; one without a wire file is made up.
    pub(super) fn member(
        &mut self,
        id: &'v str,
        kind: &str,
        asked_by: Agent,
        recording: &mut Recording,
    ) -> Agent {
        self.unasked.retain(|(unasked, ..)| *unasked != id);
        if let Some(agent) = self.agents.get(id).copied() {
            let kind = recording.text(kind);
            let info = recording.agent_info(agent);
            if info.name.is_none() {
                (info.name, info.role) = (kind, kind);
            }
            return agent;
        }
        let agent = Self::missing(id, kind, asked_by, recording);
        self.agents.insert(id, agent);
        agent
    }

    /// An agent whose wire file is not there.
    pub(super) fn missing(id: &str, kind: &str, asked_by: Agent, recording: &mut Recording) -> Agent {
        recording.trace.partial = true;
        let (source_id, name) = (recording.text(id), recording.text(kind));
        let parent = Some(asked_by);
        recording.agent(AgentInfo { name, source_id, role: name, parent, ..AgentInfo::default() })
    }

    /// Who was asked this by an agent, if no call was found of it yet: what it was asked comes last in its first prompt.
    pub(super) fn find_by_prompt(
        &mut self,
        by: &str,
        prompt: &str,
        claimed: &HashSet<&str>,
    ) -> Option<&'v str> {
        let prompt = prompt.trim();
        let is_asked = |(id, asked_by, begins): &(&str, &str, String)| {
            *asked_by == by && !claimed.contains(id) && begins.trim_end().ends_with(prompt)
        };
        let at = self.unasked.iter().position(|unasked| !prompt.is_empty() && is_asked(unasked))?;
        Some(self.unasked.remove(at).0)
    }

    /// Whether the call of an agent is recorded, as far as calls were told.
    pub(super) fn is_kept(&self, id: &str) -> bool {
        !self.unasked.iter().any(|(unasked, ..)| *unasked == id)
    }

    pub(super) fn end_is_told(&mut self, agent: Agent) {
        self.ended.insert(agent);
    }

    pub(super) fn works_on(&mut self, asked_by: &'v str, task: &'v str, agent: Agent) {
        self.tasks.insert((asked_by, task), agent);
    }

    pub(super) fn worker(&self, asked_by: &'v str, task: &'v str) -> Option<Agent> {
        self.tasks.get(&(asked_by, task)).copied()
    }
}
