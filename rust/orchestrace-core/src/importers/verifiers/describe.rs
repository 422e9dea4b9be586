//! Conversion of an episode to a recording: the environment and its agents, then the graph of each agent.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::calls::{Attempt, attempts, duration_s, usage};
use super::extras::{Extras, context};
use super::graph::{Graph, Node, Sort};
use super::seats::{ENVIRONMENT, Seat, began, ended, is_complete, seats};
use super::{rewards, time};
use crate::error::FindingCode;
use crate::importers::recording::{
    Agent, AgentInfo, Call, CallResult, Does, Entry, Incoming, Mark, Party, Recording, Response, Saying,
    Text, call_hash, call_hash_of_text, hash,
};
use crate::importers::responses::text_of;
use crate::json::tree::{Tree, Value};
use crate::json::{Kind, Limits};
use crate::schema::{EdgeType, EventType};

pub(super) fn describe(episode: Value<'_>, limits: Limits, recording: &mut Recording) {
    let id = episode.get("id").str().unwrap_or_default();
    let seats = seats(episode);
    recording.trace.trace_id = recording.text(id);
    recording.trace.system = recording.text("verifiers");
    recording.trace.started_at = seats.iter().filter_map(|seat| began(seat.trace)).min();
    ids(episode, recording);
    let several = seats.len() > 1;
    let root = several.then(|| {
        let name = recording.text(ENVIRONMENT);
        recording.agent(AgentInfo { name, ..AgentInfo::default() })
    });
    let mut call_ids = HashSet::new();
    let mut finished = Vec::new();
    for seat in &seats {
        let agent = agent(seat, recording);
        finished.extend(is_complete(seat.trace).then_some(agent));
        if let Some(root) = root {
            spawn(root, agent, seat, episode, recording);
        }
        let graph = Graph::of(seat.trace);
        Describing::new(seat.trace, episode, &graph, agent, limits, recording).describe(&mut call_ids);
    }
    if let Some(root) = root {
        // Answers arrive at the end of the episode; a task that the environment sets later does not follow from them.
        for agent in &finished {
            recording.delivery(root, *agent);
        }
    }
    // An agent that was quarantined has no seat, and without it the episode has no end.
    let all = episode.get("traces").len().max(seats.len());
    if let Some(root) = root.filter(|_| finished.len() == all) {
        let end = seats.iter().filter_map(|seat| ended(seat.trace)).max();
        let id = recording.join(&[id, ":end"]);
        recording.lone_saying(root, Saying { id, time: end, ..Saying::default() });
    }
    let stops = seats.iter().filter(|seat| !is_complete(seat.trace));
    let stops = stops.filter_map(|seat| seat.trace.get("stop_condition").some_str());
    let errors = episode.get("errors").elements().filter_map(|error| error.get("type").some_str());
    recording.stopped_by(stops.chain(errors).next().unwrap_or_default());
    tell_harness(&seats, recording);
    rewards::describe(episode, &seats, recording);
}

/// Says how long agents were set up and driven by their harness, in which no model and no tool was at work.
fn tell_harness(seats: &[Seat<'_>], recording: &mut Recording) {
    let of_seat = |seat: &Seat<'_>| {
        let driven = seat.trace.path(&["timing", "agent", "harness", "duration"]).f64();
        let at_work = time(seat.trace.path(&["timing", "agent", "start"]));
        let set_up = began(seat.trace).zip(at_work).map(|(began, at_work)| at_work.saturating_sub(began));
        driven.filter(|seconds| seconds.is_finite()).unwrap_or(0.0).max(0.0)
            + set_up.map_or(0.0, |nanos| nanos.max(0) as f64 / 1e9)
    };
    let seconds: f64 = seats.iter().map(of_seat).sum();
    if seconds > 0.0 {
        let message = format!("agents were set up and driven by their harness for {seconds:.3} s in all");
        recording.finding(FindingCode::TimeHarness, None, message);
    }
}

/// Task and group. Evaluations have no groups: rollouts of one task of an environment are one.
fn ids(episode: Value<'_>, recording: &mut Recording) {
    let task = episode.get("task");
    let task = task.get("key").some_str().or(task.get("hash").some_str()).unwrap_or_default();
    recording.trace.task_id = recording.text(task);
    let group = episode.path(&["group", "id"]).some_str();
    let environment = episode.path(&["env", "id"]).some_str();
    recording.trace.group_id = match (group, environment) {
        (Some(group), _) => recording.text(group),
        (None, Some(environment)) if !task.is_empty() => recording.join(&[environment, "/", task]),
        _ => Text::default(),
    };
}

/// Whether the policy of a trace is trained; what it spawns acts by the same one.
fn is_trained(trace: Value<'_>) -> Option<bool> {
    trace.path(&["agent", "trainable"]).bool()
}

fn agent(seat: &Seat<'_>, recording: &mut Recording) -> Agent {
    let info = AgentInfo {
        name: recording.text(&seat.name),
        source_id: recording.text(seat.trace.get("id").str().unwrap_or_default()),
        open: !is_complete(seat.trace),
        trainable: is_trained(seat.trace),
        ..AgentInfo::default()
    };
    recording.agent(info)
}

/// The environment makes an agent work, perhaps on a task of its own.
fn spawn(root: Agent, child: Agent, seat: &Seat<'_>, episode: Value<'_>, recording: &mut Recording) {
    let id = seat.trace.get("id").some_str().unwrap_or(&seat.name);
    let id = recording.join(&[id, ":s"]);
    let mut extras = Extras::new(recording);
    let task = seat.trace.path(&["task", "key"]);
    if task.str() != episode.path(&["task", "key"]).str() {
        extras.value("x_task_key", task);
    }
    let extras = extras.members;
    let mark = Mark {
        event_type: EventType::Spawn,
        id,
        by: None,
        to: Some(child),
        time: began(seat.trace),
        content: None,
        trusted: Some(true),
        ok: None,
        tool: Text::default(),
        extras,
    };
    recording.mark(root, mark);
}

/// The trace of an agent during its conversion.
struct Describing<'t, 'v> {
    trace: Value<'v>,
    episode: Value<'v>,
    /// What its answers and messages are called: this and the number of their node.
    id: &'v str,
    graph: &'t Graph<'v>,
    limits: Limits,
    recording: &'t mut Recording,
    /// It, and its sub-agents.
    agents: Vec<Agent>,
    /// The last entry of each node.
    last: Vec<Option<Entry>>,
    /// The first entry of each node.
    first: Vec<Option<Entry>>,
    /// Ids of calls by the answer that made them and their id in the source.
    calls: HashMap<(usize, &'v str), Text>,
    /// Sub-agents that a call with a result spawned: their answer comes with that.
    answered: HashSet<usize>,
    /// The last answer of each agent.
    before: Vec<Option<usize>>,
    /// Nodes without events that no answer of each agent has read yet.
    unread: Vec<Vec<usize>>,
    /// Whether an answer has said what is true of the whole trace.
    opened: bool,
}

impl<'t, 'v> Describing<'t, 'v> {
    fn new(
        trace: Value<'v>,
        episode: Value<'v>,
        graph: &'t Graph<'v>,
        agent: Agent,
        limits: Limits,
        recording: &'t mut Recording,
    ) -> Self {
        let (nodes, agents) = (graph.nodes.len(), graph.spawns.len() + 1);
        Self {
            trace,
            episode,
            id: trace.get("id").str().unwrap_or_default(),
            graph,
            limits,
            recording,
            agents: vec![agent],
            last: vec![None; nodes],
            first: vec![None; nodes],
            calls: HashMap::new(),
            answered: HashSet::new(),
            before: vec![None; agents],
            unread: vec![Vec::new(); agents],
            opened: false,
        }
    }

    fn describe(&mut self, call_ids: &mut HashSet<&'v str>) {
        let graph = self.graph;
        self.sub_agents();
        let mut by_node: HashMap<usize, Vec<Attempt<'v>>> = HashMap::new();
        let mut alone = Vec::new();
        for attempt in attempts(self.trace, graph) {
            match attempt.next {
                Some(node) => by_node.entry(node).or_default().push(attempt),
                None => alone.push(attempt),
            }
        }
        for (index, node) in graph.nodes.iter().enumerate() {
            match node.sort {
                Sort::Sampled => {
                    let attempts = by_node.remove(&index).unwrap_or_default();
                    self.answer(index, node, &attempts, call_ids);
                }
                Sort::User => self.user(index, node),
                Sort::Tool => self.result(index, node),
                Sort::Context => self.unread[node.owner].push(index),
            }
        }
        for attempt in alone {
            self.attempt(self.agents[0], attempt);
        }
        if !self.opened {
            self.silence();
        }
        self.relations();
        self.oddities();
    }

    fn sub_agents(&mut self) {
        for spawn in &self.graph.spawns {
            let by = &self.graph.nodes[spawn.by];
            let calls = by.message().get("tool_calls");
            let name = calls.at(0).get("name").some_str().filter(|_| calls.len() == 1);
            let name = name.or(self.trace.path(&["agent", "name"]).some_str()).unwrap_or("agent");
            let returns = self.graph.returns.contains(&self.agents.len());
            let info = AgentInfo {
                name: self.recording.text(name),
                source_id: self.recording.join(&[self.id, ":", &spawn.first.to_string()]),
                parent: Some(self.agents[spawn.parent]),
                open: !returns && !is_complete(self.trace),
                trainable: is_trained(self.trace),
                ..AgentInfo::default()
            };
            let agent = self.recording.agent(info);
            self.agents.push(agent);
        }
    }

    fn node_id(&mut self, index: usize) -> Text {
        self.recording.join(&[self.id, ":", &index.to_string()])
    }

    fn user(&mut self, index: usize, node: &Node<'v>) {
        let mut extras = Extras::new(self.recording);
        extras.place(index, node);
        extras.tokens(node);
        let incoming = Incoming {
            extras: extras.members,
            id: self.node_id(index),
            from: Party::User,
            time: there_at(node),
            content: Some(hash(&text_of(node.message().get("content")))),
            trusted: Some(true),
            intervenes: false,
            decides: Text::default(),
        };
        let entry = self.recording.incoming(self.agents[node.owner], incoming);
        (self.first[index], self.last[index]) = (Some(entry), Some(entry));
    }

    fn result(&mut self, index: usize, node: &Node<'v>) {
        let message = node.message();
        let named = message.get("tool_call_id").str().unwrap_or_default();
        let call = node.answer_above.and_then(|answer| self.calls.get(&(answer, named)).copied());
        let mut extras = Extras::new(self.recording);
        extras.place(index, node);
        extras.tokens(node);
        let result = CallResult {
            extras: extras.members,
            call: call.unwrap_or_default(),
            id: if call.is_some() { Text::default() } else { self.node_id(index) },
            tool: self.recording.text(message.get("name").str().unwrap_or_default()),
            time: there_at(node),
            content: Some(hash(&text_of(message.get("content")))),
            trusted: Some(false),
            ..CallResult::default()
        };
        let entry = self.recording.result(self.agents[node.owner], result);
        (self.first[index], self.last[index]) = (Some(entry), Some(entry));
    }

    fn answer(
        &mut self,
        index: usize,
        node: &Node<'v>,
        attempts: &[Attempt<'v>],
        call_ids: &mut HashSet<&'v str>,
    ) {
        let agent = self.agents[node.owner];
        let retries = attempts.iter().filter(|attempt| attempt.is_retry()).count();
        for attempt in attempts.iter().filter(|attempt| !attempt.is_retry()) {
            self.attempt(agent, *attempt);
        }
        self.arrivals(node, agent);
        let call = self.graph.calls[index].map(|(_, call)| call);
        let extras = self.extras_of_answer(index, node, call, retries);
        let end = call.and_then(|call| time(call.path(&["time", "end"])));
        let model = call.and_then(|call| call.get("model").some_str());
        let model = model.or(self.trace.path(&["agent", "config", "model"]).some_str());
        let response = Response {
            id: self.node_id(index),
            time: end.or_else(|| time(node.value.get("timestamp"))),
            duration_s: call.and_then(duration_s),
            model: self.recording.text(model.unwrap_or_default()),
            usage: call.map(usage).unwrap_or_default(),
            extras,
            ..Response::default()
        };
        let response = self.recording.response(agent, response);
        self.first[index] = Some(response);
        self.last[index] = Some(response);
        self.calls_of(index, node, response, call_ids);
        let text = text_of(node.message().get("content"));
        if !text.is_empty() || node.message().get("tool_calls").is_empty() {
            let saying = Saying { content: Some(hash(&text)), aside: node.abandoned, ..Saying::default() };
            self.last[index] = Some(self.recording.say(response, saying));
        }
        self.before[node.owner] = Some(index);
    }

    /// What reaches an agent just before an answer: answers of its sub-agents, and the end of what it read before.
    fn arrivals(&mut self, node: &Node<'v>, agent: Agent) {
        for (source, label) in node.relations() {
            let Some(source) = self.graph.nodes.get(source) else { continue };
            match label {
                "subagent_return" if source.owner != node.owner && !self.answered.contains(&source.owner) => {
                    self.recording.delivery(agent, self.agents[source.owner]);
                }
                "compaction" => {
                    self.recording.compaction(agent);
                }
                _ => {}
            }
        }
    }

    fn extras_of_answer(
        &mut self,
        index: usize,
        node: &Node<'v>,
        call: Option<Value<'v>>,
        retries: usize,
    ) -> Text {
        let unread = std::mem::take(&mut self.unread[node.owner]);
        let contexts: Vec<String> =
            unread.into_iter().map(|index| context(index, &self.graph.nodes[index])).collect();
        let members = self.facts();
        let mut extras = Extras { recording: self.recording, members };
        extras.place(index, node);
        if retries > 0 {
            extras.raw("x_retries", &retries.to_string());
        }
        if let Some(call) = call {
            extras.value("x_finish_reason", call.get("finish_reason"));
            let sampling = call.get("sampling");
            if !sampling.is_empty() {
                extras.value("x_sampling", sampling);
            }
        }
        if !contexts.is_empty() {
            extras.raw("x_context", &format!("[{}]", contexts.join(",")));
        }
        extras.tokens(node);
        extras.members
    }

    /// What is true of all answers of the trace. The first one has the rewards, too.
    fn facts(&mut self) -> Text {
        let (trace, work) = (self.trace, self.episode.path(&["run", "work"]));
        let opens = !std::mem::replace(&mut self.opened, true);
        let mut extras = Extras::new(self.recording);
        extras.value("x_stop", trace.get("stop_condition"));
        extras.value("x_training_step", work.get("step"));
        extras.value("x_policy_start", work.path(&["policy", "start"]));
        extras.value("x_policy_end", work.path(&["policy", "end"]));
        if opens && !trace.get("rewards").is_empty() {
            extras.value("x_agent_rewards", trace.get("rewards"));
        }
        extras.members
    }

    fn calls_of(&mut self, index: usize, node: &Node<'v>, response: Entry, call_ids: &mut HashSet<&'v str>) {
        let mut children: Vec<usize> = self.graph.spawned_by.get(&index).cloned().unwrap_or_default();
        let calls = node.message().get("tool_calls");
        let only = calls.len() == 1 && children.len() == 1;
        let mut by_prompt: HashMap<Cow<'v, str>, Vec<usize>> = HashMap::new();
        for child in children.iter().rev() {
            by_prompt.entry(self.graph.prompt_of(*child)).or_default().push(*child);
        }
        let mut called = HashSet::new();
        for (k, call) in calls.elements().enumerate() {
            let named = call.get("id").str().unwrap_or_default();
            // Ids of calls repeat among agents, and perhaps among the answers of one.
            let id = if !named.is_empty() && call_ids.insert(named) {
                self.recording.text(named)
            } else {
                self.recording.join(&[self.id, ":", &index.to_string(), ":c", &k.to_string()])
            };
            let name = call.get("name").str().unwrap_or_default();
            let arguments = call.get("arguments");
            let content = match arguments.str() {
                Some(text) => call_hash_of_text(name, text, self.limits),
                None => call_hash(name, arguments),
            };
            let child = if only {
                children.first().copied()
            } else if children.is_empty() {
                None
            } else {
                self.asked_by(arguments, &mut by_prompt)
            };
            let does = child.map_or(Does::UsesTool, |child| Does::Spawns(self.agents[child]));
            let call =
                Call { id, tool: self.recording.text(name), does, content: Some(content), ..Call::default() };
            self.last[index] = Some(self.recording.call(response, call));
            self.calls.entry((index, named)).or_insert(id);
            self.answered.extend(child.filter(|_| self.graph.results.contains(&(index, named))));
            called.extend(child);
        }
        children.retain(|child| !called.contains(child));
        for child in children {
            let spawn = self.graph.spawns[child - 1];
            let id = self.recording.join(&[self.id, ":", &spawn.first.to_string(), ":s"]);
            let time = self.recording.response_mut(response).and_then(|response| response.time);
            let mark = Mark {
                event_type: EventType::Spawn,
                id,
                by: None,
                to: Some(self.agents[child]),
                time,
                content: None,
                trusted: Some(true),
                ok: None,
                tool: Text::default(),
                extras: Text::default(),
            };
            self.recording.mark(self.agents[node.owner], mark);
        }
    }

    /// The sub-agent whose first prompt the arguments of a call hold.
    fn asked_by(
        &self,
        arguments: Value<'_>,
        by_prompt: &mut HashMap<Cow<'v, str>, Vec<usize>>,
    ) -> Option<usize> {
        let mut holds = |value: Value<'_>| {
            value.members().find_map(|(_, value)| by_prompt.get_mut(value.some_str()?)?.pop())
        };
        match arguments.str() {
            Some(text) => Tree::parse(text, self.limits).ok().and_then(|tree| holds(tree.root())),
            None => holds(arguments),
        }
    }

    /// A call that no answer came of.
    fn attempt(&mut self, agent: Agent, attempt: Attempt<'v>) {
        let Attempt { call, index, .. } = attempt;
        let error = call.get("error");
        let members = self.facts();
        let mut extras = Extras { recording: self.recording, members };
        extras.value("x_error_type", error.get("type"));
        extras.value("x_status_code", error.get("status_code"));
        let response = Response {
            extras: extras.members,
            id: self.recording.join(&[self.id, ":call", &index.to_string()]),
            time: time(call.path(&["time", "end"])),
            duration_s: duration_s(call),
            model: self.recording.text(call.get("model").str().unwrap_or_default()),
            usage: usage(call),
            ok: error.exists().then_some(false),
            ..Response::default()
        };
        self.recording.response(agent, response);
    }

    /// An agent of which no call is recorded: that it was there, and what stopped it.
    fn silence(&mut self) {
        let members = self.facts();
        let error = self.trace.get("errors").at(0);
        let mut extras = Extras { recording: self.recording, members };
        extras.value("x_error_type", error.get("type"));
        extras.value("x_status_code", error.get("status_code"));
        let saying = Saying {
            extras: extras.members,
            id: self.recording.join(&[self.id, ":end"]),
            time: ended(self.trace).or(began(self.trace)),
            ok: self.trace.get("ok").bool(),
            aside: true,
            ..Saying::default()
        };
        self.recording.lone_saying(self.agents[0], saying);
    }

    /// Edges between paths of the graph, and from where a branch begins to it.
    fn relations(&mut self) {
        let mut latest: Vec<Option<usize>> = vec![None; self.agents.len()];
        let mut drawn = HashSet::new();
        for (index, node) in self.graph.nodes.iter().enumerate() {
            let Some(entry) = self.first[index] else { continue };
            for (source, label) in node.relations() {
                let edge_type = match label {
                    "agent_message" => EdgeType::Message,
                    // The spawn and the answer are events of their own.
                    "subagent_call" | "subagent_return" => continue,
                    _ => EdgeType::Causal,
                };
                if let Some(Some(source)) = self.last.get(source).copied().filter(|_| source != index)
                    && drawn.insert((source, entry, edge_type))
                {
                    self.recording.edge(source, entry, edge_type);
                }
            }
            if node.sort != Sort::Sampled {
                continue;
            }
            // An answer that does not follow the one before it belongs to another branch.
            let before = latest[node.owner].replace(index);
            if let Some(above) = node.answer_above.filter(|above| before != Some(*above))
                && self.graph.nodes[above].owner == node.owner
                && let Some(source) = node.parent.and_then(|parent| self.last[parent])
                && drawn.insert((source, entry, EdgeType::Causal))
            {
                self.recording.edge(source, entry, EdgeType::Causal);
            }
        }
    }

    /// What the tables have no place for.
    fn oddities(&mut self) {
        let unread: usize = self.unread.iter().map(Vec::len).sum();
        if unread > 0 {
            let message = format!("messages without events that no answer reads: {unread}");
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
        let calls = self.trace.get("calls").elements();
        let rejected = calls.filter(|call| call.kind() != Some(Kind::Object)).count();
        if rejected > 0 {
            let message = format!("calls that are not objects: {rejected}");
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
        for index in &self.graph.misplaced {
            let message = format!(
                "nodes/{index}/parent is no node before it; the node is read as the first of its path"
            );
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
    }
}

/// When a message was there: when the first call began that reads it, unless it was added before.
fn there_at(node: &Node<'_>) -> Option<i64> {
    [time(node.value.get("timestamp")), node.read_at].into_iter().flatten().min()
}
