//! Sub-agents: who asked whom, whether their conversations were kept or not.

use std::collections::{HashMap, HashSet};

use super::Conversation;
use crate::importers::recording::{Agent, AgentInfo, Hash, Recording, Text};

/// Calls that make agents work, and what comes back of them together.
#[derive(Debug, Clone)]
pub(super) struct Delegation {
    /// Call, agent, and the account that its usage goes on where its conversation was not kept.
    pub calls: Vec<(Text, Agent, String)>,
    /// Whether the agents are only made ready.
    pub launched: bool,
}

/// The agents of a trace.
#[derive(Debug)]
pub(super) struct Team {
    /// Conversations that no call was found of yet: number of the one that asked, what was asked, and who does it.
    unasked: Vec<(usize, Option<Hash>, Agent)>,
    /// Agents by the conversation that knows them and their name in it: the id of a task, or of a delegate.
    of_name: HashMap<(usize, String), Agent>,
    /// Whose end was told to who asked.
    ended: HashSet<Agent>,
}

impl Team {
    pub(super) fn new(all: &[Conversation<'_>], parents: &[Option<usize>], agents: &[Agent]) -> Self {
        let children = all.iter().zip(parents).zip(agents);
        let unasked = children
            .filter_map(|((child, parent), agent)| Some(((*parent)?, child.prompt(), *agent)))
            .collect();
        Self { unasked, of_name: HashMap::new(), ended: HashSet::new() }
    }

    /// Who is known by this name in a conversation.
    pub(super) fn find(&self, conversation: usize, name: &str) -> Option<Agent> {
        self.of_name.get(&(conversation, name.to_owned())).copied()
    }

    /// Says who is known by a name.
    pub(super) fn call(&mut self, conversation: usize, name: &str, agent: Agent) {
        self.of_name.insert((conversation, name.to_owned()), agent);
    }

    /// Says that the end of an agent was told.
    pub(super) fn end_is_told(&mut self, agent: Agent) {
        self.ended.insert(agent);
    }

    pub(super) fn is_told(&self, agent: Agent) -> bool {
        self.ended.contains(&agent)
    }

    /// Who works on what is asked: whose conversation begins with it, else somebody of whom nothing was kept.
    pub(super) fn worker(
        &mut self,
        conversation: usize,
        prompt: Option<Hash>,
        (name, role): (&str, &str),
        recording: &mut Recording,
    ) -> Agent {
        let (name, role) = (recording.text(name), recording.text(role));
        let position = self
            .unasked
            .iter()
            .position(|(parent, begins, _)| *parent == conversation && prompt.is_some() && *begins == prompt);
        let Some(position) = position else {
            recording.trace.partial = true;
            return recording.agent(AgentInfo { name, role, ..AgentInfo::default() });
        };
        let agent = self.unasked.remove(position).2;
        let info = recording.agent_info(agent);
        (info.name, info.role) = (name, role);
        agent
    }
}
