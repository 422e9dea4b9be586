//! Conversion of a sample's events, one after the other.

use std::collections::{HashMap, HashSet};

use super::content::Contents;
use super::ends::{error_type, finish};
use super::scores;
use super::transcript::{About, NONE, ROOT, Span, Step, Transcript};
use super::usage::{reported, usage};
use crate::importers::recording::{
    Agent, AgentInfo, Call, CallResult, Does, Entry, Hash, Incoming, Mark, Party, Recording, Response,
    Saying, Text, Usage, hash,
};
use crate::json::tree::Value;
use crate::schema::{AgentKind, EdgeType, EventType};

/// What is known of an agent during its conversion.
#[derive(Debug, Default)]
struct AgentState<'t> {
    /// Whether it has asked a model.
    asked: bool,
    /// Whether the last thing it did was to say something.
    answered: bool,
    /// The call that it works for.
    spawn: Option<Entry>,
    /// The last thing it did or was given.
    last: Option<Entry>,
    /// Its last response.
    response: Option<Entry>,
    /// Calls by id.
    calls: HashMap<&'t str, Entry>,
    /// Results that its next response reads, and when each was there.
    results: Vec<(Option<i64>, CallResult)>,
}

/// Tells one sample.
pub(super) struct Telling<'e, 't, 'r> {
    events: &'e Transcript<'t>,
    contents: &'e Contents<'t>,
    sample: Value<'t>,
    out: &'r mut Recording,
    agents: Vec<Agent>,
    states: Vec<AgentState<'t>>,
    /// Messages already written, by agent and by id or place and hash.
    heard: HashSet<(u32, Vec<u8>)>,
    /// What the sample began with.
    input: Vec<Hash>,
    /// The latest time that is not of a scorer.
    now: Option<i64>,
    first_response: Option<Entry>,
    tokens: i64,
    /// How the sample failed.
    failure: Option<Entry>,
    /// First responses of judges, and what the root had done last before each.
    judged: Vec<(Entry, Option<Entry>)>,
    tail: Vec<(usize, Value<'t>)>,
}

impl<'e, 't, 'r> Telling<'e, 't, 'r> {
    pub(super) fn new(
        events: &'e Transcript<'t>,
        contents: &'e Contents<'t>,
        sample: Value<'t>,
        out: &'r mut Recording,
    ) -> Self {
        let mut agents: Vec<Agent> = Vec::with_capacity(events.agents.len());
        for who in &events.agents {
            let span = &events.spans[who.span as usize];
            let info = AgentInfo {
                name: out.text(who.name),
                source_id: out.text(span.id),
                open: !span.closed,
                outside: who.judges.then_some(AgentKind::Scorer),
                ..AgentInfo::default()
            };
            agents.push(out.agent(info));
        }
        for (agent, who) in agents.iter().zip(&events.agents) {
            out.agent_info(*agent).parent = agents.get(who.parent as usize).copied();
        }
        let states = agents.iter().map(|_| AgentState::default()).collect();
        Self {
            events,
            contents,
            sample,
            out,
            agents,
            states,
            heard: HashSet::new(),
            input: Vec::new(),
            now: None,
            first_response: None,
            tokens: 0,
            failure: None,
            judged: Vec::new(),
            tail: Vec::new(),
        }
    }

    pub(super) fn all(&mut self) {
        let events = self.events;
        let starts = events.steps.iter().filter_map(|step| step.start);
        let ends = events.steps.iter().filter_map(|step| step.end.max(step.start));
        if let (Some(start), Some(end)) = (starts.min(), ends.max()) {
            self.out.trace.started_at = Some(start);
            self.out.wall_clock_s(end.saturating_sub(start) as f64 / 1e9);
        }
        self.begin(events.steps.iter().find_map(|step| step.start));
        for (n, step) in events.steps.iter().enumerate() {
            self.step(n, step);
        }
        for agent in 0..self.agents.len() {
            self.flush(agent as u32, None);
        }
        self.end();
    }

    fn span(&self, step: &Step<'t>) -> &'e Span<'t> {
        &self.events.spans[step.span as usize]
    }

    /// Id of an event: its own, else its place.
    fn id(&mut self, n: usize, step: &Step<'t>) -> Text {
        match step.value.get("uuid").some_str() {
            Some(uuid) => self.out.text(uuid),
            None => self.out.join(&["e", &n.to_string()]),
        }
    }

    /// What the sample asks for.
    fn begin(&mut self, time: Option<i64>) {
        let input = self.sample.get("input");
        let mut texts: Vec<Value<'t>> = Vec::new();
        if input.str().is_some() {
            texts.push(input);
        }
        texts.extend(
            input.elements().filter(|m| m.get("role").str() == Some("user")).map(|m| m.get("content")),
        );
        for (at, content) in texts.into_iter().enumerate() {
            let Some(content) = self.contents.hash(content) else { continue };
            self.input.push(content);
            let id = self.out.join(&["input", &at.to_string()]);
            self.hear(0, id, time, content, (false, Text::default()));
        }
    }

    fn hear(
        &mut self,
        agent: u32,
        id: Text,
        time: Option<i64>,
        content: Hash,
        is_intervening_and_extras: (bool, Text),
    ) {
        let (intervenes, extras) = is_intervening_and_extras;
        let incoming = Incoming {
            id,
            from: Party::User,
            time,
            content: Some(content),
            trusted: Some(true),
            intervenes,
            decides: Text::default(),
            extras,
        };
        self.out.incoming(self.agents[agent as usize], incoming);
    }

    /// Tells the results that came in, in the order in which they did; only those up to a time, if one is given.
    fn flush(&mut self, agent: u32, until: Option<i64>) {
        let mut results = std::mem::take(&mut self.states[agent as usize].results);
        results.sort_by_key(|(time, _)| *time);
        let come = until
            .map_or(results.len(), |until| results.partition_point(|(t, _)| t.is_none_or(|t| t <= until)));
        for (_, result) in results.drain(..come) {
            let entry = self.out.result(self.agents[agent as usize], result);
            self.states[agent as usize].last = Some(entry);
        }
        self.states[agent as usize].results = results;
    }

    fn step(&mut self, n: usize, step: &Step<'t>) {
        let agent = self.span(step).agent;
        if !self.events.agents[agent as usize].judges && step.about != About::Score {
            self.now = self.now.max(step.end.max(step.start));
        }
        if step.start.is_some() {
            let owner = self.events.agents[agent as usize];
            let owner = if owner.span == step.span && owner.parent != NONE { owner.parent } else { agent };
            self.flush(owner, step.start);
        }
        match step.about {
            About::Begin => self.begins(step),
            About::End => self.ends(step),
            About::Model => self.model(n, step),
            About::Tool | About::Subtask => self.tool(n, step),
            About::Approval => self.approval(n, step),
            About::Input | About::Interrupt => self.input(n, step),
            About::Limit | About::Error => self.fails(n, step),
            About::Score => self.score(step),
            About::Compaction => {
                self.out.compaction(self.agents[agent as usize]);
            }
            About::Nothing | About::Unknown => {}
        }
    }

    /// A span that is an agent nobody called by a tool is spawned where it begins.
    fn begins(&mut self, step: &Step<'t>) {
        let agent = self.span(step).agent;
        let who = self.events.agents[agent as usize];
        if who.span != step.span || who.asked_by != NONE || who.parent == NONE {
            return;
        }
        let id = self.out.text(self.span(step).id);
        let does = Does::Spawns(self.agents[agent as usize]);
        let call = Call { id, does, time: step.start, ..Call::default() };
        let spawn = self.out.lone_call(self.agents[who.parent as usize], call);
        self.states[agent as usize].spawn = Some(spawn);
        self.states[who.parent as usize].answered = false;
    }

    /// The end of an agent: where it said nothing at last, it returns all the same.
    fn ends(&mut self, step: &Step<'t>) {
        let agent = self.span(step).agent;
        let who = self.events.agents[agent as usize];
        if who.span != step.span || who.parent == NONE {
            return;
        }
        self.flush(agent, None);
        if !self.states[agent as usize].answered {
            let tool = self.events.steps.get(who.asked_by as usize);
            let content = tool.and_then(|tool| self.contents.hash_result(tool.value.get("result")));
            let id = self.out.join(&[self.events.spans[who.span as usize].id, ":end"]);
            let saying = Saying { id, content, time: step.start, ..Saying::default() };
            self.out.lone_saying(self.agents[agent as usize], saying);
            self.states[agent as usize].answered = true;
        }
    }

    fn branch(&mut self, span: &Span<'t>, extras: Text) -> Text {
        let Some(branch) = self.events.spans.get(span.branch as usize) else { return extras };
        let name = if branch.id.is_empty() { branch.name } else { branch.id };
        self.out.extra_text(extras, "x_branch", name)
    }

    fn model(&mut self, n: usize, step: &Step<'t>) {
        let (span, value) = (self.span(step), step.value);
        let agent = span.agent;
        let who = self.events.agents[agent as usize];
        self.flush(agent, None);
        self.listen(n, step);
        let id = self.id(n, step);
        let output = value.get("output");
        let message = output.get("choices").at(0).get("message");
        let hash_of_message = self.contents.hash(message.get("content"));
        let content = hash_of_message.or_else(|| self.contents.hash(output.get("completion")));
        let calls = message.get("tool_calls");
        let id_of = |call: Value<'t>| call.get("id").str().unwrap_or_default();
        let delegates = calls.elements().any(|call| self.child_of(agent, id_of(call)).is_some());
        let mut extras = Text::default();
        // Calls and texts say for themselves where they belong; the first of them has what the response has, too.
        if delegates || (content.is_none() && calls.is_empty()) {
            extras = self.branch(span, extras);
        }
        for (key, field) in [("x_retries", "retries"), ("x_cache", "cache"), ("x_model_role", "role")] {
            let field = value.get(field);
            if field.exists() && field.i64() != Some(0) {
                extras = self.out.extra(extras, key, field.raw());
            }
        }
        if value.get("pending").bool() == Some(true) {
            extras = self.out.extra(extras, "x_partial", "true");
        }
        let failed = value.get("error").exists() || output.get("error").exists();
        if failed {
            extras = self.out.extra_text(extras, "x_error_type", "model");
        }
        // What a cache answers costs nothing; what it would have cost is only noted.
        let mut used = usage(output.get("usage"));
        if value.get("cache").str() == Some("read") {
            if used != Usage::default() {
                extras = self.out.extra(extras, "x_usage_saved", output.get("usage").raw());
            }
            used = Usage::default();
        }
        self.tokens = self.tokens.saturating_add(used.total().unwrap_or(0));
        let took = match (step.start, step.end) {
            (Some(start), Some(end)) => Some(end.saturating_sub(start) as f64 / 1e9),
            _ => output.get("time").f64().or(value.get("working_time").f64()),
        };
        let model = value.get("model").some_str().or(output.get("model").some_str());
        let response = Response {
            id,
            time: step.end.or(step.start),
            duration_s: took.filter(|s| *s >= 0.0),
            model: model.map_or(Text::default(), |model| self.out.text(model)),
            usage: used,
            ok: failed.then_some(false),
            extras,
            ..Response::default()
        };
        let entry = self.out.response(self.agents[agent as usize], response);
        self.first_response.get_or_insert(entry);
        for call in calls.elements() {
            let extras = self.branch(span, Text::default());
            self.call(agent, entry, call, extras);
        }
        if content.is_some() {
            let aside = span.aside || who.judges;
            let extras = self.branch(span, Text::default());
            self.out.say(entry, Saying { content, aside, extras, ..Saying::default() });
        }
        let first = !std::mem::replace(&mut self.states[agent as usize].asked, true);
        if who.judges && first {
            self.judged.push((entry, self.states[0].last));
        }
        let state = &mut self.states[agent as usize];
        state.answered = content.is_some() && !span.aside && calls.is_empty();
        (state.last, state.response) = (Some(entry), Some(entry));
    }

    fn call(&mut self, agent: u32, response: Entry, call: Value<'t>, extras: Text) {
        let name = call.get("function").str().unwrap_or_default();
        let id = call.get("id").str().unwrap_or_default();
        let child = self.child_of(agent, id);
        let does = child.map_or(Does::UsesTool, |child| Does::Spawns(self.agents[child as usize]));
        let content = Some(self.contents.hash_call(name, call.get("arguments")));
        let (source, tool) = (self.out.text(id), self.out.text(name));
        let described = Call { id: source, tool, does, content, extras, ..Call::default() };
        let entry = self.out.call(response, described);
        self.states[agent as usize].calls.insert(id, entry);
        if let Some(child) = child {
            self.states[child as usize].spawn = Some(entry);
        }
    }

    /// The agent that a call makes work, and that no earlier call did.
    fn child_of(&self, agent: u32, call: &str) -> Option<u32> {
        let step_of = |who: &super::transcript::Who<'t>| self.events.steps.get(who.asked_by as usize);
        let is = |at: &usize| {
            let who = &self.events.agents[*at];
            who.parent == agent
                && self.states[*at].spawn.is_none()
                && step_of(who).is_some_and(|tool| tool.value.get("id").str() == Some(call))
        };
        (!call.is_empty()).then(|| (1..self.events.agents.len()).find(is)).flatten().map(|at| at as u32)
    }

    /// Inputs of the model since its last answer from somebody who is neither a tool nor an agent.
    fn listen(&mut self, n: usize, step: &Step<'t>) {
        let agent = self.span(step).agent;
        let first = !self.states[agent as usize].asked;
        let mut tail = std::mem::take(&mut self.tail);
        self.contents.new_messages(step.value, &mut tail);
        let is_user = |message: &Value<'t>| message.get("role").str() == Some("user");
        let mut task = None;
        for (k, (place, message)) in tail.iter().filter(|(_, m)| is_user(m)).enumerate() {
            let Some(content) = self.contents.hash(message.get("content")) else { continue };
            let mut key = message.get("id").some_str().map_or(Vec::new(), |id| id.as_bytes().to_vec());
            if key.is_empty() {
                key.extend(place.to_le_bytes());
                key.extend(content);
            }
            if !self.heard.insert((agent, key)) {
                continue;
            }
            if agent > 0 && first {
                task = Some(content);
            } else if !(first && self.input.contains(&content)) {
                let id = match message.get("id").some_str() {
                    Some(id) => self.out.text(id),
                    None => self.out.join(&["e", &n.to_string(), ":u", &k.to_string()]),
                };
                let extras = self.branch(self.span(step), Text::default());
                self.hear(agent, id, step.start, content, (false, extras));
            }
        }
        // The task of a child is what its spawn is about.
        let spawn = self.states[agent as usize].spawn;
        if let Some(call) = spawn.and_then(|spawn| self.out.call_mut(spawn)) {
            call.content = call.content.or(task);
        }
        self.tail = tail;
    }

    fn tool(&mut self, n: usize, step: &Step<'t>) {
        let (span, value) = (self.span(step), step.value);
        let child = self.events.spans.get(step.child as usize).map(|child| child.agent);
        if step.about == About::Subtask && child.is_none() {
            return;
        }
        let agent = match child {
            Some(child) => self.events.agents[child as usize].parent,
            None => span.agent,
        };
        let Some(owner) = self.agents.get(agent as usize).copied() else { return };
        let id = value.get("id").str().unwrap_or_default();
        let name = value.get("function").str().or(value.get("name").str()).unwrap_or_default();
        let tool = self.out.text(name);
        let call = if id.is_empty() { self.id(n, step) } else { self.out.text(id) };
        let spawned = child.is_some_and(|child| self.states[child as usize].spawn.is_some());
        let is_called = self.states[agent as usize].calls.contains_key(id) && !id.is_empty();
        if if child.is_some() { !spawned } else { !is_called } {
            let does = child.map_or(Does::UsesTool, |child| Does::Spawns(self.agents[child as usize]));
            let arguments = value.get(if step.about == About::Tool { "arguments" } else { "input" });
            let lone = Call {
                id: call,
                tool,
                does,
                content: Some(self.contents.hash_call(name, arguments)),
                time: step.start,
                extras: self.branch(span, Text::default()),
                ..Call::default()
            };
            let entry = self.out.lone_call(owner, lone);
            self.states[agent as usize].calls.insert(id, entry);
            if let Some(child) = child {
                self.states[child as usize].spawn = Some(entry);
            }
        }
        self.states[agent as usize].answered = false;
        if value.get("pending").bool() == Some(true) {
            return;
        }
        let error = value.get("error");
        let result_hash = self.contents.hash_result(value.get("result"));
        let failed = error.exists() || value.get("failed").bool() == Some(true);
        let mut extras = error_type(error.get("type").some_str().filter(|_| failed), self.out);
        extras = self.branch(span, extras);
        let unfinished = step.end.is_none() && result_hash.is_none() && !failed;
        if unfinished {
            extras = self.out.extra(extras, "x_partial", "true");
        }
        let took = step.end.zip(step.start).map(|(end, start)| end.saturating_sub(start) as f64 / 1e9);
        let ended = self.events.spans.get(step.child as usize).and_then(|child| child.end);
        let time = step.end.or(ended).or(step.start);
        let result = CallResult {
            call,
            tool,
            time,
            duration_s: took.filter(|s| *s >= 0.0),
            content: result_hash.or_else(|| error.get("message").some_str().map(hash)),
            ok: (!unfinished).then_some(!failed),
            // What an agent gives back is as good as what it was given; what a tool does, nobody knows.
            trusted: Some(child.is_some()),
            extras,
            ..CallResult::default()
        };
        self.states[agent as usize].results.push((time, result));
    }

    fn approval(&mut self, n: usize, step: &Step<'t>) {
        let (span, value) = (self.span(step), step.value);
        let by = value.get("approver").some_str().or(value.get("reviewer").some_str()).unwrap_or("approver");
        let call = value.path(&["call", "id"]).str().unwrap_or_default();
        let human = by == "human";
        let mut extras = self.branch(span, Text::default());
        extras = self.out.extra_text(extras, "x_decision", value.get("decision").str().unwrap_or("unknown"));
        let name = self.out.text(by);
        let mark = Mark {
            event_type: if human { EventType::HumanIntervention } else { EventType::SafetyEvent },
            id: self.id(n, step),
            by: Some(if human { Party::User } else { Party::Named(name) }),
            to: Some(self.agents[span.agent as usize]),
            time: step.end.or(step.start),
            content: self.contents.hash(value.get("explanation")),
            trusted: Some(true),
            ok: None,
            tool: self.out.text(value.path(&["call", "function"]).str().unwrap_or_default()),
            extras,
        };
        let mark = self.out.mark(self.agents[span.agent as usize], mark);
        // Who approves reads the call; without one it reads what the agent did last.
        let state = &self.states[span.agent as usize];
        if let Some(read) = state.calls.get(call).copied().or(state.last) {
            self.out.edge(read, mark, EdgeType::Causal);
        }
    }

    fn input(&mut self, n: usize, step: &Step<'t>) {
        let (agent, value) = (self.span(step).agent, step.value);
        let source = value.get("source").str().unwrap_or("user_cancel");
        let id = self.id(n, step);
        if step.about == About::Input {
            let content = self.contents.hash(value.get("input")).unwrap_or_else(|| hash(""));
            let extras = self.branch(self.span(step), Text::default());
            self.hear(agent, id, step.start, content, (true, extras));
        } else if source == "user_cancel" {
            // Limits and shutdowns interrupt too, and have events of their own.
            let interrupted = value.get("interrupted").str().unwrap_or("unknown");
            let mark = Mark {
                event_type: EventType::HumanIntervention,
                id,
                by: Some(Party::User),
                to: Some(self.agents[agent as usize]),
                time: step.start,
                content: None,
                trusted: Some(true),
                ok: None,
                tool: Text::default(),
                extras: self.out.extra_text(Text::default(), "x_interrupted", interrupted),
            };
            let mark = self.out.mark(self.agents[agent as usize], mark);
            if let Some(last) = self.states[agent as usize].last {
                self.out.edge(last, mark, EdgeType::Causal);
            }
        }
    }

    /// A limit or error ends the sample.
    fn fails(&mut self, n: usize, step: &Step<'t>) {
        let value = step.value;
        let limit = step.about == About::Limit;
        let kind = match value.get("type").str() {
            Some(kind) if limit => format!("limit:{kind}"),
            _ if limit => "limit".to_owned(),
            _ => "error".to_owned(),
        };
        let message = if limit { value.get("message") } else { value.path(&["error", "message"]) };
        let id = self.id(n, step);
        self.flush(0, None);
        let entry = self.failed(id, step.start, message, &kind);
        self.failure = Some(entry);
    }

    fn failed(&mut self, id: Text, time: Option<i64>, message: Value<'t>, kind: &str) -> Entry {
        let saying = Saying {
            id,
            content: self.contents.hash(message),
            time,
            ok: Some(false),
            extras: error_type(Some(kind), self.out),
            ..Saying::default()
        };
        self.states[0].answered = true;
        let entry = self.out.lone_saying(self.agents[0], saying);
        self.states[0].last = Some(entry);
        entry
    }

    /// A score before the end is that of what the agent did last.
    fn score(&mut self, step: &Step<'t>) {
        if step.value.get("intermediate").bool() == Some(true)
            && let Some(score) = scores::number(step.value.path(&["score", "value"])).and_then(scores::unit)
            && let Some(last) =
                self.states[self.span(step).agent as usize].response.or(self.states[0].response)
            && let Some(response) = self.out.response_mut(last)
        {
            response.score = Some(score);
        }
    }

    /// The end of the sample, and what it says of itself.
    fn end(&mut self) {
        let before = self.states[0].last;
        let is_sample = self.sample.get("id").exists();
        let error = self.sample.path(&["error", "message"]);
        let limit = self.sample.path(&["limit", "type"]);
        if self.failure.is_none() && error.exists() {
            let id = self.out.text("end");
            self.failed(id, self.now, error, "error");
        } else if self.failure.is_none() && limit.exists() && !self.states[0].answered {
            let id = self.out.text("end");
            let kind = format!("limit:{}", limit.str().unwrap_or("unknown"));
            self.failed(id, self.now, limit.get("message"), &kind);
        } else if is_sample && !self.states[0].answered {
            let answer = finish(self.agents[0], self.sample, self.contents, self.now, self.out);
            self.states[0].answered = answer.is_some();
            self.states[0].last = answer.or(before);
        } else if !is_sample && !self.states[0].answered && self.events.agents[0].span != ROOT {
            // The agent of a bare list of events ends with its span.
            let span = &self.events.spans[self.events.agents[0].span as usize];
            if span.closed {
                let (id, time) = (self.out.join(&[span.id, ":end"]), span.end);
                self.out.lone_saying(self.agents[0], Saying { id, time, ..Saying::default() });
            }
        }
        // A judge reads what was answered: at the end the answer, before it what there was.
        for (judge, read) in std::mem::take(&mut self.judged) {
            let read = if read == before { self.states[0].last } else { read };
            if let Some(read) = read {
                self.out.edge(read, judge, EdgeType::Causal);
            }
        }
        if let (Some(reported), Some(first)) = (reported(self.sample), self.first_response)
            && reported != self.tokens
        {
            let sum_of_events = self.tokens;
            self.out.other_total(None, None, reported, sum_of_events, ("the sample reports", "its events"));
            let extras = self.out.response_mut(first).map_or(Text::default(), |r| r.extras);
            let extras = self.out.extra(extras, "x_reported_tokens", &reported.to_string());
            if let Some(response) = self.out.response_mut(first) {
                response.extras = extras;
            }
        }
    }
}
