//! The agents of a session: its streams, and sub-agents of which only the call is recorded.

use std::collections::{BTreeMap, BTreeSet};

use super::line::{Line, Step};
use super::session::Session;
use super::usage::usage_of_summary;
use super::{NAME, has_succeeded};
use crate::importers::gemini_parts::Part;
use crate::importers::recording::{Agent, AgentInfo, Recording, Usage};
use crate::json::tree::Value;

/// Tools that make a sub-agent work: what they are called in older and in newer versions.
pub(super) const DELEGATES: [&str; 2] = ["task", "agent"];

/// Who takes part.
#[derive(Debug, Default)]
pub(super) struct Team<'v> {
    /// The agent of each stream.
    pub agents: Vec<Agent>,
    /// Who asked the agent of each stream.
    pub asks: Vec<Option<Agent>>,
    /// The agent that a call makes work, by the stream and the id of the call.
    children: BTreeMap<(usize, &'v str), Agent>,
    /// Items of first prompts that the calls have, too.
    prompts: BTreeSet<u32>,
    /// Requests of agents without a stream.
    pub silent_requests: Vec<(Agent, Vec<usize>)>,
}

/// A call that makes a sub-agent work.
#[derive(Debug, Clone, Copy)]
struct Delegation<'v> {
    stream: usize,
    call: &'v str,
    prompt: Option<&'v str>,
    /// What kind of agent is asked for.
    kind: &'v str,
    /// Whether nobody began to work.
    has_failed: bool,
    /// What its result says that the agent took, in and out.
    took: Option<(i64, i64)>,
}

/// An agent without a stream.
#[derive(Debug, Clone, Copy)]
struct Silent<'v> {
    kind: &'v str,
    agent: Agent,
    took: Option<(i64, i64)>,
}

impl<'v> Team<'v> {
    /// `unpaired` are requests of sub-agents without a stream.
    pub(super) fn of(session: &Session<'v>, unpaired: &[usize], recording: &mut Recording) -> Self {
        let mut team = Self::default();
        team.streams(session, recording);
        let mut silent = team.delegations(session, recording);
        let mut by_agent: Vec<(&str, Vec<usize>)> = Vec::new();
        let mut of: BTreeMap<&str, usize> = BTreeMap::new();
        for at in unpaired {
            let id = session.requests.all[*at].agent.unwrap_or_default();
            let place = *of.entry(id).or_insert_with(|| {
                by_agent.push((id, Vec::new()));
                by_agent.len() - 1
            });
            by_agent[place].1.push(*at);
        }
        // What the result of a call says of its agent identifies it; else the first of its kind is taken.
        let mut agents: Vec<Option<Agent>> = by_agent
            .iter()
            .map(|(id, requests)| {
                let sum = sum_of(requests.iter().map(|at| session.requests.all[*at].counts.usage()));
                let at = silent.iter().position(|one| one.kind == kind_of(id) && one.took == Some(sum))?;
                Some(silent.remove(at).agent)
            })
            .collect();
        for (agent, (id, _)) in agents.iter_mut().zip(&by_agent).filter(|(agent, _)| agent.is_none()) {
            let at = silent.iter().position(|one| one.kind == kind_of(id));
            *agent = at.map(|at| silent.remove(at).agent);
        }
        for (agent, (id, requests)) in agents.into_iter().zip(by_agent) {
            let agent = agent.unwrap_or_else(|| {
                let (name, source_id) = (recording.text(kind_of(id)), recording.text(id));
                recording.agent(AgentInfo { name, source_id, unasked: true, ..AgentInfo::default() })
            });
            team.silent_requests.push((agent, requests));
        }
        team
    }

    /// The agent that a call makes work.
    pub(super) fn child_of(&self, stream: usize, call: &str) -> Option<Agent> {
        self.children.get(&(stream, call)).copied()
    }

    /// Whether a line repeats what a call said.
    pub(super) fn is_told(&self, line: &Line<'_>) -> bool {
        self.prompts.contains(&line.item)
    }

    /// The agents of the streams.
    fn streams(&mut self, session: &Session<'v>, recording: &mut Recording) {
        for stream in &session.streams {
            let Some(id) = stream.agent else {
                let name = recording.text(NAME);
                self.agents.push(recording.agent(AgentInfo { name, ..AgentInfo::default() }));
                self.asks.push(None);
                continue;
            };
            let meta = meta_of(session, Some(id));
            let kind = meta.and_then(|meta| meta.get("agentType").some_str());
            let shown = stream.lines.iter().find_map(|line| line.value.get("agentName").some_str());
            let name = shown.or(kind).unwrap_or(if id.is_empty() { "agent" } else { id });
            let info = AgentInfo {
                name: recording.text(name),
                source_id: recording.text(id),
                role: recording.text(kind.or(shown).unwrap_or_default()),
                ..AgentInfo::default()
            };
            self.agents.push(recording.agent(info));
            self.asks.push(None);
        }
    }

    /// Finds whom calls make work; gives the agents without a stream.
    fn delegations(&mut self, session: &Session<'v>, recording: &mut Recording) -> Vec<Silent<'v>> {
        let mut free: BTreeSet<usize> = (1..session.streams.len()).collect();
        let delegations = delegations(session);
        let mut waiting = Waiting::of(session);
        let mut child: Vec<_> = delegations.iter().map(|asked| waiting.named(session, asked)).collect();
        for (found, asked) in child.iter_mut().zip(&delegations).filter(|(found, _)| found.is_none()) {
            *found = waiting.prompted(session, asked);
        }
        for at in child.iter().flatten() {
            free.remove(at);
        }
        let mut silent = Vec::new();
        for (stream, delegation) in child.into_iter().zip(delegations) {
            let asks = self.agents[delegation.stream];
            let agent = match stream {
                Some(at) => {
                    let prompt = session.streams[at].prompt();
                    self.prompts.extend(prompt.map(|line| line.item));
                    self.asks[at] = Some(asks);
                    self.agents[at]
                }
                None if delegation.has_failed => continue,
                None => {
                    let name =
                        recording.text(if delegation.kind.is_empty() { "agent" } else { delegation.kind });
                    let role = recording.text(delegation.kind);
                    let agent = recording.agent(AgentInfo { name, role, ..AgentInfo::default() });
                    silent.push(Silent { kind: delegation.kind, agent, took: delegation.took });
                    agent
                }
            };
            self.children.insert((delegation.stream, delegation.call), agent);
        }
        let ids = session.streams.iter().map(|stream| stream.agent);
        let by_id: BTreeMap<_, _> = ids.zip(self.agents.iter().copied()).collect();
        let has_main = !session.streams[0].steps.is_empty();
        for at in free {
            let began = session.streams[at].lines.iter().find_map(|line| line.time);
            let meta = meta_of(session, session.streams[at].agent);
            let parent = meta.and_then(|meta| meta.get("parentAgentId").some_str());
            let parent = parent.and_then(|parent| by_id.get(&Some(parent)).copied());
            let info = recording.agent_info(self.agents[at]);
            info.began = began;
            // A sub-agent of a session that is recorded, which nobody asked for, was started by the program.
            (info.parent, info.unasked) = match parent {
                Some(parent) => (Some(parent), false),
                None if has_main => (None, true),
                None => (Some(self.agents[0]), false),
            };
            self.asks[at] = info.parent;
        }
        silent
    }
}

/// Streams that no call is known of yet.
#[derive(Debug, Default)]
struct Waiting<'v> {
    /// By who asked and the call, as what stands beside a file says it.
    named: BTreeMap<(Option<&'v str>, &'v str), usize>,
    /// By what was said first, the first one last: what says no call.
    prompted: BTreeMap<String, Vec<usize>>,
}

impl<'v> Waiting<'v> {
    fn of(session: &Session<'v>) -> Self {
        let mut waiting = Self::default();
        for (at, stream) in session.streams.iter().enumerate().skip(1).rev() {
            let meta = meta_of(session, stream.agent);
            let parent = meta.and_then(|meta| meta.get("parentAgentId").some_str());
            if let Some(call) = meta.and_then(|meta| meta.get("toolUseId").some_str()) {
                waiting.named.insert((parent, call), at);
            } else if let Some(prompt) = stream.prompt() {
                waiting.prompted.entry(prompt.text()).or_default().push(at);
            }
        }
        waiting
    }

    fn named(&mut self, session: &Session<'v>, delegation: &Delegation<'v>) -> Option<usize> {
        let at = self.named.remove(&(session.streams[delegation.stream].agent, delegation.call))?;
        (at != delegation.stream).then_some(at)
    }

    fn prompted(&mut self, session: &Session<'v>, delegation: &Delegation<'v>) -> Option<usize> {
        let same = self.prompted.get_mut(delegation.prompt?)?;
        let may_be = |at: &usize| {
            let meta = meta_of(session, session.streams[*at].agent);
            let parent = meta.and_then(|meta| meta.get("parentAgentId").some_str());
            *at != delegation.stream && (meta.is_none() || parent == session.streams[delegation.stream].agent)
        };
        let at = same.iter().rposition(may_be)?;
        Some(same.remove(at))
    }
}

/// What stands beside the file of a sub-agent.
fn meta_of<'v>(session: &Session<'v>, id: Option<&str>) -> Option<Value<'v>> {
    session.metas.get(id.filter(|id| !id.is_empty())?).copied()
}

/// All calls that make sub-agents work, in the order of the streams.
fn delegations<'v>(session: &Session<'v>) -> Vec<Delegation<'v>> {
    let mut list = Vec::new();
    for (at, stream) in session.streams.iter().enumerate() {
        let (mut failed, mut took) = (BTreeSet::new(), BTreeMap::new());
        for step in &stream.steps {
            let Step::Results(line) = step else { continue };
            let line = &stream.lines[*line];
            let recorded = line.value.get("toolCallResult");
            let summary = recorded.path(&["resultDisplay", "executionSummary"]);
            for part in line.parts() {
                let Part::Response(response) = part else { continue };
                let id = response.get("id").str();
                if summary.exists() {
                    took.extend(id.map(|id| (id, sum_of([usage_of_summary(summary)].into_iter()))));
                } else if has_succeeded(recorded, response) == Some(false) {
                    failed.extend(id);
                }
            }
        }
        for step in &stream.steps {
            let Step::Answer(lines) = step else { continue };
            for part in stream.answer(lines).flat_map(Line::parts) {
                let Part::Call(call) = part else { continue };
                let (id, name) = (call.get("id").some_str(), call.get("name").str().unwrap_or_default());
                let (prompt, kind) =
                    (call.path(&["args", "prompt"]).str(), call.path(&["args", "subagent_type"]).str());
                let asks = prompt.is_some() || kind.is_some();
                if let Some(id) = id.filter(|_| asks && DELEGATES.contains(&name)) {
                    let has_failed = failed.contains(id);
                    let kind = kind.unwrap_or_default();
                    let took = took.get(id).copied();
                    list.push(Delegation { stream: at, call: id, prompt, kind, has_failed, took });
                }
            }
        }
    }
    list
}

/// The kind that the id of an agent begins with.
fn kind_of(id: &str) -> &str {
    id.rsplit_once('-').map_or(id, |(kind, _)| kind)
}

/// What was read and written in all.
fn sum_of(usages: impl Iterator<Item = Usage>) -> (i64, i64) {
    usages.fold((0, 0), |(read, written): (i64, i64), usage| {
        let of = |count: Option<i64>| count.unwrap_or(0);
        (read.saturating_add(of(usage.tokens_in)), written.saturating_add(of(usage.tokens_out)))
    })
}
