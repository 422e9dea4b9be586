//! The sub-agents of a session: who asked for them, by which call, and how they ended.

use std::collections::HashMap;

use super::record::{Event, MAIN};
use crate::importers::recording::{Agent, AgentInfo, Recording};
use crate::json::Limits;
use crate::json::tree::{Tree, Value};

/// The mode of execution that does not wait for the end.
const BACKGROUND: &str = "background";

/// A sub-agent.
#[derive(Debug)]
pub(super) struct Child<'v> {
    pub agent: Agent,
    /// The call that spawned it; empty where none is named.
    pub call: &'v str,
    /// Its first event, and its last.
    first: usize,
    last: usize,
    /// The event that says that it began.
    pub started: Option<usize>,
    /// The event that asked for it, where it is there.
    pub asked: Option<usize>,
    /// The result of that call, if it says how the work ended and not only that it began.
    pub result: Option<usize>,
    /// Whether a result says that the work began.
    background: bool,
    /// The event that says that it ended.
    pub end: Option<usize>,
    /// What it states to have taken in all.
    pub tokens: Option<i64>,
    pub calls: Option<i64>,
    pub model: Option<&'v str>,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Team<'v> {
    pub root: Agent,
    pub children: Vec<Child<'v>>,
    of_name: HashMap<&'v str, usize>,
    /// Calls by their events: a call may be asked for more than once under one id.
    of_request: HashMap<(usize, &'v str), usize>,
    of_agent: HashMap<Agent, usize>,
}

/// A call that somebody asked for: the event, who asked, and the arguments.
type Request<'v> = (usize, Option<&'v str>, Value<'v>);

impl<'v> Team<'v> {
    pub(super) fn of(events: &[Event<'v>], root: Agent, limits: Limits, recording: &mut Recording) -> Self {
        let mut team = Self {
            root,
            children: Vec::new(),
            of_name: HashMap::new(),
            of_request: HashMap::new(),
            of_agent: HashMap::new(),
        };
        let is_of_life = |event: &&Event<'_>| event.kind.starts_with("subagent.");
        for (at, event) in events.iter().enumerate().filter(|(_, event)| is_of_life(event)) {
            team.read_life(at, event, recording);
        }
        for (at, event) in events.iter().enumerate().filter(|(_, event)| !is_of_life(event)) {
            let Some(name) = event.owner() else { continue };
            let child = team.child(&[name], name, at, recording);
            let child = &mut team.children[child];
            (child.first, child.last) = (child.first.min(at), child.last.max(at));
        }
        team.join(events, limits, recording);
        team
    }

    /// The number of the sub-agent that has one of these names; a new one if there is none.
    fn child(&mut self, names: &[&'v str], call: &'v str, at: usize, recording: &mut Recording) -> usize {
        let existing = names.iter().find_map(|name| self.of_name.get(name)).copied();
        let number = existing.unwrap_or_else(|| {
            let source_id = recording.text(names.first().copied().unwrap_or_default());
            let info = AgentInfo { source_id, parent: Some(self.root), ..AgentInfo::default() };
            let agent = recording.agent(info);
            self.of_agent.insert(agent, self.children.len());
            self.children.push(Child {
                agent,
                call,
                first: at,
                last: at,
                started: None,
                asked: None,
                result: None,
                background: false,
                end: None,
                tokens: None,
                calls: None,
                model: None,
            });
            self.children.len() - 1
        });
        for name in names {
            self.of_name.entry(name).or_insert(number);
        }
        number
    }

    /// Takes what an event says of the life of a sub-agent.
    fn read_life(&mut self, at: usize, event: &Event<'v>, recording: &mut Recording) {
        if !matches!(
            event.kind,
            "subagent.started" | "subagent.configured" | "subagent.completed" | "subagent.failed"
        ) {
            return;
        }
        let names: Vec<&str> = [event.data.get("toolCallId"), event.value.get("agentId")]
            .iter()
            .filter_map(|n| n.some_str())
            .collect();
        if names.is_empty() {
            return;
        }
        let number = self.child(&names, event.call(), at, recording);
        let child = &mut self.children[number];
        if child.call.is_empty() {
            child.call = event.call();
        }
        (child.first, child.last) = (child.first.min(at), child.last.max(at));
        child.model = child.model.or_else(|| event.data.get("model").some_str());
        let named = event.data.get("agentName").some_str().map(|name| recording.text(name));
        let role = event.data.get("agentType").some_str().map(|role| recording.text(role));
        let info = recording.agent_info(child.agent);
        if let Some(name) = named.filter(|_| info.name.is_none()) {
            info.name = name;
        }
        if let Some(role) = role.filter(|_| info.role.is_none()) {
            info.role = role;
        }
        match event.kind {
            "subagent.started" => {
                child.started = child.started.or(Some(at));
                child.background |= event.data.get("executionMode").str() == Some(BACKGROUND);
            }
            "subagent.completed" | "subagent.failed" => {
                child.end = Some(at);
                child.tokens = event.data.get("totalTokens").i64().filter(|tokens| *tokens > 0);
                child.calls = event.data.get("totalToolCalls").i64();
            }
            _ => {}
        }
    }

    /// Finds the calls that asked for sub-agents, and what these gave back.
    fn join(&mut self, events: &[Event<'v>], limits: Limits, recording: &mut Recording) {
        let requests = requests(events);
        let mut results: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, event) in
            events.iter().enumerate().filter(|(_, event)| event.kind == "tool.execution_complete")
        {
            results.entry(event.call()).or_default().push(at);
        }
        for number in 0..self.children.len() {
            let Child { call, first, agent, end, last, .. } = self.children[number];
            // Nobody asks for itself, nor for somebody who is at work.
            let may_ask = |by: Option<&str>| by.and_then(|name| self.of_name.get(name)) != Some(&number);
            let request = requests
                .get(call)
                .filter(|_| !call.is_empty())
                .and_then(|list| list.iter().rev().find(|(at, by, _)| *at < first && may_ask(*by)).copied());
            let by_registry = end
                .into_iter()
                .chain([first])
                .find_map(|at| events[at].data.get("parentId").some_str())
                .and_then(|name| self.of_name.get(name).copied())
                .filter(|parent| *parent != number);
            let by_call = request.and_then(|(_, by, _)| self.of_name.get(by?).copied());
            let parent = by_call.or(by_registry).map_or(self.root, |parent| self.children[parent].agent);
            recording.agent_info(agent).parent = Some(parent);
            if let Some((_, _, arguments)) = request {
                let name = argument(arguments, "agent_type", limits).map(|name| recording.text(&name));
                let info = recording.agent_info(agent);
                if let Some(name) = name.filter(|_| info.name.is_none()) {
                    info.name = name;
                }
            }
            let child = &mut self.children[number];
            if let Some((at, _, arguments)) = request {
                child.asked = Some(at);
                child.background |= argument(arguments, "mode", limits).as_deref() == Some(BACKGROUND);
                self.of_request.insert((at, call), number);
            }
            let ended = end.unwrap_or(last).max(last);
            let came = results.get(call).filter(|_| !call.is_empty()).and_then(|list| {
                let by_who_asked = |at: &&usize| {
                    let by = events[**at].owner().and_then(|name| self.of_name.get(name));
                    by != Some(&number) && request.is_some_and(|(at_request, ..)| at_request < **at)
                };
                list.iter().find(by_who_asked).copied()
            });
            // What comes back before the work has ended says that it has begun.
            child.result = came.filter(|at| !child.background && *at > ended);
        }
    }

    /// Who an event is of.
    pub(super) fn owner(&self, event: &Event<'_>) -> Agent {
        let child = event.owner().and_then(|name| self.of_name.get(name));
        child.map_or(self.root, |child| self.children[*child].agent)
    }

    /// The sub-agent that an event is about.
    pub(super) fn about(&self, event: &Event<'_>) -> Option<usize> {
        let names = [event.data.get("toolCallId"), event.value.get("agentId")];
        names.iter().find_map(|name| self.of_name.get(name.some_str()?)).copied()
    }

    /// The agent of this name.
    pub(super) fn named(&self, name: &str) -> Option<Agent> {
        if name == MAIN {
            return Some(self.root);
        }
        self.of_name.get(name).map(|child| self.children[*child].agent)
    }

    /// The sub-agent that a call asks for.
    pub(super) fn asked_by(&self, at: usize, call: &str) -> Option<&Child<'v>> {
        self.of_request.get(&(at, call)).map(|child| &self.children[*child])
    }

    /// The sub-agent that a result comes back from.
    pub(super) fn back_from(&self, call: &str, of: Agent) -> Option<&Child<'v>> {
        let child = self.of_name.get(call).map(|child| &self.children[*child])?;
        (child.asked.is_some() && child.call == call && child.agent != of).then_some(child)
    }

    /// What is known of a sub-agent; nothing of the root.
    pub(super) fn child_of(&self, agent: Agent) -> Option<&Child<'v>> {
        self.of_agent.get(&agent).map(|child| &self.children[*child])
    }
}

/// Everybody who asked for a call, by its id: the messages, and what began without one.
fn requests<'v>(events: &[Event<'v>]) -> HashMap<&'v str, Vec<Request<'v>>> {
    let mut requests: HashMap<&str, Vec<Request<'v>>> = HashMap::new();
    for (at, event) in events.iter().enumerate().filter(|(_, event)| event.kind == "assistant.message") {
        for request in event.data.get("toolRequests").elements() {
            let Some(id) = request.get("toolCallId").some_str() else { continue };
            requests.entry(id).or_default().push((at, event.owner(), request.get("arguments")));
        }
    }
    let starts = events.iter().enumerate().filter(|(_, event)| event.kind == "tool.execution_start");
    let mut alone: HashMap<&str, Vec<Request<'v>>> = HashMap::new();
    for (at, event) in starts.filter(|(_, event)| !requests.contains_key(event.call())) {
        alone.entry(event.call()).or_default().push((at, event.owner(), event.data.get("arguments")));
    }
    requests.extend(alone);
    requests
}

/// A text among the arguments of a call, which are an object, or JSON in a text.
fn argument(arguments: Value<'_>, key: &str, limits: Limits) -> Option<String> {
    let Some(text) = arguments.str() else { return arguments.get(key).str().map(str::to_owned) };
    let tree = Tree::parse(text, limits).ok()?;
    tree.root().get(key).str().map(str::to_owned)
}
