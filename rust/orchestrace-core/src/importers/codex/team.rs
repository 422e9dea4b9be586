//! The agents of a trace: those with threads, and those that are only mentioned.

use std::collections::{HashMap, HashSet};

use super::line::LineContent;
use super::threads::{Group, Thread};
use crate::importers::recording::{Agent, AgentInfo, Hash, Recording, Text};

/// Name of an agent that has none: a session that a user began.
const ROOT: &str = "codex";

/// The agents of the trace, by all that they are called.
pub(super) struct Team {
    agents: HashMap<String, Agent>,
    /// Agents by the calls that spawned them, so that what has no id is not made twice.
    by_call: HashMap<String, Agent>,
    pub of_thread: Vec<Agent>,
    /// Whether each agent, by number, has a file.
    pub filed: HashSet<Agent>,
    /// The last answer of each child that has reached its parent, and how many did.
    pub answered: HashMap<Agent, (Option<Hash>, usize)>,
    /// Children that were asked for more since.
    pub woken: HashSet<Agent>,
    /// Messages that agents received from others.
    pub prompts: HashSet<Hash>,
}

impl Team {
    pub(super) fn of(group: &Group, recording: &mut Recording) -> Self {
        let mut team = Self {
            agents: HashMap::new(),
            by_call: HashMap::new(),
            of_thread: Vec::new(),
            filed: HashSet::new(),
            answered: HashMap::new(),
            woken: HashSet::new(),
            prompts: HashSet::new(),
        };
        for thread in &group.threads {
            let name = [thread.nickname, last_part(thread.path, recording), thread.role, thread.internal];
            let name = name.into_iter().find(|text| !text.is_none());
            let name = match name {
                Some(name) => name,
                None if thread.parent.is_none() => recording.text(ROOT),
                None => Text::default(),
            };
            let info = AgentInfo { name, source_id: thread.id, role: thread.role, ..AgentInfo::default() };
            let agent = recording.agent(info);
            for called in [thread.id, thread.path, thread.nickname] {
                team.calls(called, agent, recording);
            }
            if thread.parent.is_none() && thread.path.is_none() {
                team.agents.entry("/root".to_owned()).or_insert(agent);
            }
            team.of_thread.push(agent);
            team.filed.insert(agent);
        }
        for (thread, agent) in group.threads.iter().zip(team.of_thread.clone()) {
            if thread.parent.is_none() {
                continue;
            }
            let parent = if let Some(parent) = group.find(recording.read(thread.parent), recording) {
                team.of_thread[parent]
            } else {
                recording.trace.partial = true;
                team.named(thread.parent, ROOT, recording)
            };
            recording.agent_info(agent).parent = Some(parent);
        }
        let prompts =
            group.threads.iter().flat_map(Thread::own_lines).filter_map(|line| match line.content {
                LineContent::Call { prompt, .. }
                | LineContent::Spawned { prompt, .. }
                | LineContent::Told { prompt, .. } => prompt,
                _ => None,
            });
        team.prompts = prompts.collect();
        team
    }

    fn calls(&mut self, called: Text, agent: Agent, recording: &Recording) {
        if !called.is_none() {
            self.agents.entry(recording.read(called).to_owned()).or_insert(agent);
        }
    }

    /// The agent of an id; one without a file if there is none.
    pub(super) fn named(&mut self, id: Text, name: &str, recording: &mut Recording) -> Agent {
        if let Some(agent) = self.agents.get(recording.read(id)) {
            return *agent;
        }
        let name = if name.is_empty() { last_part(id, recording) } else { recording.text(name) };
        let agent = recording.agent(AgentInfo { name, source_id: id, ..AgentInfo::default() });
        self.calls(id, agent, recording);
        agent
    }

    pub(super) fn find(&self, called: Text, recording: &Recording) -> Option<Agent> {
        let called = recording.read(called);
        let agent = self.agents.get(called).or_else(|| {
            // A name without its path is that of the only one who bears it.
            let mut same_name = self.agents.iter().filter(|(name, _)| {
                name.strip_suffix(called).is_some_and(|rest| rest.ends_with('/')) && !called.is_empty()
            });
            same_name.next().filter(|_| same_name.next().is_none()).map(|(_, agent)| agent)
        });
        agent.copied()
    }

    /// The agent that a call spawned.
    pub(super) fn spawned(
        &mut self,
        call: &str,
        [id, nickname, role, path]: [Text; 4],
        recording: &mut Recording,
    ) -> Agent {
        let existing = [id, path].into_iter().filter(|text| !text.is_none());
        let existing = existing.into_iter().find_map(|text| self.find(text, recording));
        let agent = existing.or_else(|| self.by_call.get(call).copied()).unwrap_or_else(|| {
            let name = [nickname, last_part(path, recording), role].into_iter().find(|t| !t.is_none());
            recording.agent(AgentInfo {
                name: name.unwrap_or_default(),
                source_id: id,
                role,
                ..AgentInfo::default()
            })
        });
        self.by_call.insert(call.to_owned(), agent);
        for called in [id, path, nickname] {
            self.calls(called, agent, recording);
        }
        agent
    }
}

/// The last part of a path, which names an agent.
fn last_part(path: Text, recording: &mut Recording) -> Text {
    let text = recording.read(path);
    let Some((_, last)) = text.rsplit_once('/') else { return Text::default() };
    let last = last.to_owned();
    recording.text(&last)
}
