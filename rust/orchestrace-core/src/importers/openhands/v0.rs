//! Conversations of V0: actions, and observations of what they caused.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::clock::Clock;
use super::ledger::{Ledger, Paid, usage_of};
use super::place::Place;
use super::stream::{Answer, Heard, Origin, Pending, Stream};
use super::{RUN, is_step, text_like};
use crate::error::FindingCode;
use crate::importers::items::TraceItems;
use crate::importers::object_text::ObjectText;
use crate::importers::parsed::ParsedItems;
use crate::importers::recording::{
    AgentInfo, Call, CallResult, Does, Hash, Party, Recording, Saying, Text, Usage, call_hash,
    call_hash_of_text, hash,
};
use crate::importers::usage;
use crate::json::time::parse_seconds;
use crate::json::tree::{Tree, Value};
use crate::json::{Kind, Limits};
use crate::schema::MeasureKind;

/// Actions that use a tool.
const TOOLS: [&str; 9] = [
    "run",
    "run_ipython",
    "read",
    "write",
    "edit",
    "browse",
    "browse_interactive",
    "call_tool_mcp",
    "task_tracking",
];

/// Members of arguments that the program adds to what the model asked for.
const ADDED: [&str; 8] = [
    "thought",
    "hidden",
    "blocking",
    "confirmation_state",
    "impl_source",
    "security_risk",
    "translated_ipython_code",
    "is_confirmed",
];

pub(super) fn describe(items: &TraceItems<'_>, parsed: &ParsedItems<'_>, recording: &mut Recording) {
    let run = the_run(items, parsed);
    let events = in_order(parsed);
    let Some((first, _)) = events.first().map(|event| (event.item, event.value)).or(run) else { return };
    name(run.map(|(_, run)| run), items, first, recording);
    recording.trace.partial = items.is_partial();
    let run = run.map(|(_, run)| run);
    let mut ledger = Ledger::default();
    match run.map(|run| run.get("metrics")).filter(|metrics| metrics.exists()) {
        Some(metrics) => ledger.read(0, "", metrics),
        // Running totals: the last one is of all.
        None => {
            let costs = events
                .iter()
                .filter_map(|event| event.value.path(&["llm_metrics", "accumulated_cost"]).f64());
            ledger.state(None, costs.reduce(f64::max));
        }
    }
    let clock = Clock::of(events.iter().filter_map(|event| {
        let made = event.value.path(&["tool_call_metadata", "model_response", "created"]);
        let acts = !event.value.get("action").is_absent();
        Some((event.value.get("timestamp"), parse_seconds(made.raw()).filter(|_| acts)?))
    }));
    let clock = clock.unwrap_or_default();
    let actions = events.iter().filter(|event| !event.value.get("action").is_absent());
    let known: HashSet<&str> = actions.map(|event| response_id(event.value)).collect();
    let mut beside = ledger.beside(&known);
    beside.reverse();
    let model = run.and_then(|run| run.path(&["metadata", "llm_config", "model"]).some_str());
    let root = recording.text(agent_name(run, &events));
    let root = recording.agent(AgentInfo { name: root, ..AgentInfo::default() });
    let mut describing = Describing {
        items,
        recording,
        ledger,
        clock,
        model: model.unwrap_or_default(),
        streams: vec![Stream::new(root)],
        working: vec![0],
        pending: HashMap::new(),
        of_tool_call: HashMap::new(),
        state: "",
        unanswered: BTreeSet::new(),
        not_ours: HashSet::new(),
    };
    for event in &events {
        let time = clock.time(event.value);
        while let Some(paid) = beside.pop_if(|paid| paid.time.is_some() && paid.time < time) {
            describing.beside(&paid);
        }
        describing.event(event);
    }
    while let Some(paid) = beside.pop() {
        describing.beside(&paid);
    }
    describing.end(run);
}

/// An event with its number in the conversation.
#[derive(Debug, Clone, Copy)]
struct Event<'v> {
    id: Option<i64>,
    item: u32,
    /// Whether another one has its number.
    again: bool,
    value: Value<'v>,
}

/// Events in the order of their numbers, those without one behind those that they follow; as they lie where a number comes
/// twice.
fn in_order<'v>(parsed: &'v ParsedItems<'_>) -> Vec<Event<'v>> {
    let steps = parsed.values().filter(|(_, value)| is_step(*value));
    let mut events: Vec<Event<'v>> = steps
        .map(|(item, value)| Event { id: value.get("id").integer_like(), item, again: false, value })
        .collect();
    let mut seen: HashSet<i64> = HashSet::new();
    for event in &mut events {
        event.again = event.id.is_some_and(|id| !seen.insert(id));
    }
    if events.iter().any(|event| event.again) {
        return events;
    }
    let mut last = i64::MIN;
    let numbered = events.into_iter().map(|event| {
        last = event.id.unwrap_or(last);
        (last, event)
    });
    let mut numbered: Vec<(i64, Event<'v>)> = numbered.collect();
    numbered.sort_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, event)| event).collect()
}

/// What an evaluation says of the run; of several lines that say it the one with a verdict.
fn the_run<'v>(items: &TraceItems<'_>, parsed: &'v ParsedItems<'_>) -> Option<(u32, Value<'v>)> {
    let runs: Vec<(u32, Value<'v>)> =
        parsed.values().filter(|(item, _)| items.as_slice()[*item as usize].context == RUN).collect();
    let is_judged = |(_, run): &&(u32, Value<'v>)| run.path(&["report", "resolved"]).bool().is_some();
    let used = runs.iter().find(is_judged).or(runs.first()).copied();
    for (item, _) in &runs {
        if used.is_some_and(|(used, _)| used != *item) {
            items.duplicate(*item as usize);
        }
    }
    used
}

fn name(run: Option<Value<'_>>, items: &TraceItems<'_>, first: u32, recording: &mut Recording) {
    recording.trace.system = recording.text("openhands");
    if let Some(run) = run {
        // The line of an evaluation has its instance and the hash of its history as key.
        let id = items.key().split_once('\n').map_or_else(String::new, |(task, hash)| {
            [task, hash].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
        });
        recording.trace.trace_id = recording.text(&id);
        let task = recording.text(text_like(run.get("instance_id")));
        (recording.trace.task_id, recording.trace.group_id) = (task, task);
        return;
    }
    let item = &items.as_slice()[first as usize];
    let place = Place::of(item.path);
    let id = place.id().unwrap_or_else(|| place.named_by(item.text));
    recording.trace.trace_id = recording.text(&id);
}

fn agent_name<'v>(run: Option<Value<'v>>, events: &[Event<'v>]) -> &'v str {
    let stated = run.and_then(|run| run.path(&["metadata", "agent_class"]).some_str());
    let mut prompts = events.iter().filter(|event| event.value.get("action").str() == Some("system"));
    let prompted = || prompts.find_map(|event| event.value.path(&["args", "agent_class"]).some_str());
    stated.or_else(prompted).unwrap_or("agent")
}

/// The response that an event is of: tool calls name it, other events have it last in their metrics.
fn response_id(event: Value<'_>) -> &str {
    let called = event.path(&["tool_call_metadata", "model_response", "id"]).some_str();
    let last = || event.path(&["llm_metrics", "token_usages"]).elements().last();
    called.or_else(|| last()?.get("response_id").some_str()).unwrap_or_default()
}

/// A conversation during its conversion.
struct Describing<'r, 'v, 'i> {
    items: &'r TraceItems<'i>,
    recording: &'r mut Recording,
    ledger: Ledger<'v>,
    clock: Clock,
    model: &'v str,
    streams: Vec<Stream>,
    /// The streams of who works and of those who wait for it, by number.
    working: Vec<usize>,
    /// Calls by the number of their event, and numbers by the id that the provider gave the call.
    pending: HashMap<i64, Pending>,
    of_tool_call: HashMap<&'v str, i64>,
    /// The last state of the agent.
    state: &'v str,
    /// Calls that nothing came back of.
    unanswered: BTreeSet<i64>,
    /// Actions that nobody of the team did.
    not_ours: HashSet<i64>,
}

impl<'v> Describing<'_, 'v, '_> {
    fn top(&self) -> usize {
        self.working.last().copied().unwrap_or(0)
    }

    fn stream(&mut self) -> &mut Stream {
        let top = self.top();
        &mut self.streams[top]
    }

    fn ignored(&self, event: &Event<'v>, kind: &str) {
        let word: String =
            kind.chars().take(40).map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        self.items.ignored(event.item as usize, &format!("openhands.{word}"));
    }

    /// A response that no event is of.
    fn beside(&mut self, paid: &Paid<'v>) {
        let top = self.top();
        let origin = Origin::of(paid);
        self.streams[top].beside(&origin, paid.account, &mut self.ledger, self.recording);
    }

    fn event(&mut self, event: &Event<'v>) {
        self.recording.made_of(event.item);
        let value = event.value;
        let by_agent = value.get("source").str() == Some("agent");
        if let Some(action) = value.get("action").str() {
            match action {
                "change_agent_state"
                | "null"
                | "recall"
                | "loadskill"
                | "system"
                | "condensation_request" => {
                    self.ignored(event, action);
                }
                "condensation" => {
                    let agent = self.stream().agent;
                    self.recording.compaction(agent);
                }
                "message" if !by_agent => self.hears(event),
                "message" | "think" | "finish" | "reject" if by_agent => self.says(event, action),
                "delegate" if by_agent => self.delegates(event),
                _ if by_agent && (TOOLS.contains(&action) || value.get("tool_call_metadata").exists()) => {
                    self.calls(event, action);
                }
                _ => {
                    self.not_ours.extend(event.id);
                    self.ignored(event, action);
                }
            }
            return;
        }
        match value.get("observation").str().unwrap_or_default() {
            kind @ "agent_state_changed" => {
                self.state = value.path(&["extras", "agent_state"]).str().unwrap_or(self.state);
                self.ignored(event, kind);
            }
            kind @ ("null" | "recall" | "loadskill" | "think" | "condensation" | "system") => {
                self.ignored(event, kind)
            }
            "delegate" => self.delegate_ended(event),
            "user_rejected" => self.refused(event),
            "error" => self.error(event),
            kind => {
                if value.get("cause").integer_like().is_some_and(|cause| self.not_ours.contains(&cause)) {
                    return self.ignored(event, kind);
                }
                let call = self.cause(value);
                self.result(event, kind, call, None);
            }
        }
    }

    /// The id of an event; what has no number is named by its record.
    fn id(&mut self, event: &Event<'v>) -> Text {
        let id = event.id.map_or_else(|| format!("r:{}", event.item), |id| id.to_string());
        self.recording.text(&id)
    }

    fn hears(&mut self, event: &Event<'v>) {
        let content = event.value.path(&["args", "content"]);
        let stream = &self.streams[self.top()];
        // The task of a delegate is written in the name of the user.
        let asks = match self.working[..] {
            [.., asks, _] if !stream.begun => Some(self.streams[asks].agent),
            _ => None,
        };
        let by_user = event.value.get("source").str() == Some("user");
        let from = match asks {
            Some(asks) => Party::Agent(asks),
            None if by_user => Party::User,
            None => Party::Named(self.recording.text("environment")),
        };
        let heard = Heard {
            id: self.id(event),
            from,
            time: self.clock.time(event.value),
            content: text_hash(content),
            trusted: by_user.then_some(true),
            intervenes: false,
            decides: Text::default(),
            extras: Text::default(),
        };
        let top = self.top();
        self.streams[top].hears(&heard, self.recording);
    }

    /// The response that an action is of.
    fn answer(&mut self, event: &Event<'v>) -> Answer {
        let metadata = event.value.path(&["tool_call_metadata", "model_response"]);
        let id = response_id(event.value);
        let own = match event.id {
            Some(id) if !event.again => format!("r{id}"),
            _ => format!("r:{}", event.item),
        };
        let stated = metadata.get("usage");
        let last = event.value.path(&["llm_metrics", "token_usages"]).elements().last();
        let usage = match last {
            _ if stated.exists() => usage::of(stated).0,
            Some(last) => usage_of(last),
            None => Usage::default(),
        };
        let origin = Origin {
            id: if id.is_empty() { &own } else { id },
            time: self.clock.time(event.value),
            model: metadata.get("model").some_str().unwrap_or(self.model),
            usage,
            score: None,
        };
        let top = self.top();
        self.streams[top].answer(&origin, &mut self.ledger, self.recording)
    }

    /// An action that says something, and does nothing else.
    fn says(&mut self, event: &Event<'v>, action: &str) {
        let answer = self.answer(event);
        let args = event.value.get("args");
        let keys: &[&str] = match action {
            "message" => &["content"],
            "think" => &["thought"],
            _ => &["final_thought", "thought"],
        };
        let said = keys.iter().map(|key| args.get(key)).find(|text| text.some_str().is_some());
        let content = said.or_else(|| Some(args.get("outputs")).filter(|outputs| !outputs.is_empty()));
        let saying = Saying {
            id: self.id(event),
            content: text_hash(content.unwrap_or(event.value.get("message"))),
            ok: (action == "reject").then_some(false),
            aside: action == "think",
            ..Saying::default()
        };
        let closes = action != "think";
        let top = self.top();
        self.streams[top].says(answer, saying, closes, self.recording);
    }

    /// What the model says beside a call.
    fn thinks_aloud(&mut self, event: &Event<'v>, answer: Answer) {
        let thought = event.value.path(&["args", "thought"]);
        if thought.some_str().is_some() {
            let id = self.id(event);
            let id = self.recording.read(id).to_owned();
            let id = self.recording.join(&[&id, ":t"]);
            let saying = Saying { id, content: text_hash(thought), ..Saying::default() };
            let top = self.top();
            self.streams[top].says(answer, saying, false, self.recording);
        }
    }

    /// A call with what it asks for.
    fn asks(&mut self, event: &Event<'v>, tool: &str, does: Does) -> usize {
        let answer = self.answer(event);
        let call = self.id(event);
        let tool_text = self.recording.text(tool);
        let content = Some(asked_hash(event.value, tool, self.items.limits()));
        let top = self.top();
        let asked = self.clock.time(event.value);
        self.streams[top].call(
            answer,
            Call { id: call, tool: tool_text, does, content, ..Call::default() },
            self.recording,
        );
        if let Some(id) = event.id {
            self.pending.insert(id, Pending { stream: top, call, tool: tool_text, asked });
            self.unanswered.insert(id);
            if let Some(tool_call) = event.value.path(&["tool_call_metadata", "tool_call_id"]).some_str() {
                self.of_tool_call.insert(tool_call, id);
            }
        }
        self.thinks_aloud(event, answer);
        self.streams[top].answered = false;
        top
    }

    fn calls(&mut self, event: &Event<'v>, action: &'v str) {
        let named = event.value.path(&["tool_call_metadata", "function_name"]).some_str();
        self.asks(event, named.unwrap_or(action), Does::UsesTool);
    }

    /// Events up to what the delegate gives back are its own.
    fn delegates(&mut self, event: &Event<'v>) {
        let name = event.value.path(&["args", "agent"]).some_str().unwrap_or("delegate");
        let name = self.recording.text(name);
        let child = self.recording.agent(AgentInfo { name, ..AgentInfo::default() });
        self.asks(event, "delegate", Does::Spawns(child));
        self.working.push(self.streams.len());
        self.streams.push(Stream::new(child));
    }

    fn delegate_ended(&mut self, event: &Event<'v>) {
        let call = self.cause(event.value).or_else(|| {
            // Nobody but who waits for the one that works can have asked it.
            let waits = *self.working.iter().rev().nth(1)?;
            let asked = |id: &&i64| self.pending.get(id).is_some_and(|call| call.stream == waits);
            let last = *self.unanswered.iter().rev().find(asked)?;
            self.unanswered.remove(&last);
            self.pending.get(&last).copied()
        });
        if let Some(at) = call.and_then(|call| self.working.iter().position(|stream| *stream == call.stream))
        {
            self.working.truncate(at + 1);
        }
        self.result(event, "delegate", call, None);
    }

    /// The call that an observation answers.
    fn cause(&mut self, observation: Value<'v>) -> Option<Pending> {
        let tool_call = observation.path(&["tool_call_metadata", "tool_call_id"]).some_str();
        let cause = observation.get("cause").integer_like().filter(|cause| self.pending.contains_key(cause));
        let number = cause.or_else(|| self.of_tool_call.get(tool_call?).copied())?;
        self.unanswered.remove(&number);
        self.pending.get(&number).copied()
    }

    fn result(&mut self, event: &Event<'v>, kind: &str, call: Option<Pending>, error: Option<&str>) {
        let mut extras = Text::default();
        if let Some(error) = error {
            extras = self.recording.extra_text(extras, "x_error_type", error);
        }
        let result = CallResult {
            call: call.map_or(Text::default(), |call| call.call),
            id: self.id(event),
            tool: call.map_or_else(|| self.recording.text(kind), |call| call.tool),
            time: self.clock.time(event.value),
            content: text_hash(event.value.get("content")),
            ok: if error.is_some() { Some(false) } else { went_well(event.value) },
            trusted: Some(false),
            extras,
            ..CallResult::default()
        };
        let stream = call.map_or_else(|| self.top(), |call| call.stream);
        self.streams[stream].result(result, call.and_then(|call| call.asked), self.recording);
    }

    /// What went wrong: the call that it names, else the only one that nothing came back of.
    fn error(&mut self, event: &Event<'v>) {
        let error = event.value.path(&["extras", "error_id"]).some_str().unwrap_or("error");
        let error = if error.is_empty() { "error" } else { error };
        let top = self.top();
        let call = self.cause(event.value).or_else(|| {
            let of_top = |id: &&i64| self.pending.get(id).is_some_and(|call| call.stream == top);
            let mut waiting = self.unanswered.iter().filter(of_top);
            let only = waiting.next().filter(|_| waiting.next().is_none()).copied()?;
            self.unanswered.remove(&only);
            self.pending.get(&only).copied()
        });
        match call {
            Some(call) => self.result(event, "error", Some(call), Some(error)),
            None => {
                let extras = self.recording.extra_text(Text::default(), "x_error_type", error);
                let from = Party::Named(self.recording.text("environment"));
                self.tells(event, from, Text::default(), false, extras);
            }
        }
    }

    /// A human refused an action, which then was not done.
    fn refused(&mut self, event: &Event<'v>) {
        let call = self.cause(event.value);
        let call = call.map_or(Text::default(), |call| call.call);
        self.tells(event, Party::User, call, true, Text::default());
    }

    fn tells(&mut self, event: &Event<'v>, from: Party, decides: Text, intervenes: bool, extras: Text) {
        let heard = Heard {
            id: self.id(event),
            from,
            time: self.clock.time(event.value),
            content: text_hash(event.value.get("content")),
            trusted: Some(true),
            intervenes,
            decides,
            extras,
        };
        self.stream().begun = true;
        let top = self.top();
        self.streams[top].hears(&heard, self.recording);
    }

    fn end(mut self, run: Option<Value<'v>>) {
        let error = run.map(|run| run.get("error")).filter(|error| error.exists());
        let stopped_by = match error {
            Some(error) => kind_of(error),
            None if self.state == "error" => "error",
            None => "",
        };
        let at_work: HashSet<usize> = self.working.iter().copied().collect();
        for (number, stream) in self.streams.iter().enumerate() {
            let is_cut = at_work.contains(&number) && (!stream.answered || number > 0);
            self.recording.agent_info(stream.agent).open = is_cut || (number == 0 && !stopped_by.is_empty());
        }
        self.prices();
        self.ledger.compare(self.recording);
        if let Some(run) = run {
            reward(run, self.recording);
        }
        self.recording.stopped_by(stopped_by);
    }

    /// Prices of metrics that list nothing else are in the order of the responses.
    fn prices(&mut self) {
        let costs = self.ledger.loose_costs();
        self.recording.price_responses(costs);
    }
}

/// What went wrong, by the class of the exception, without its words.
fn kind_of<'v>(error: Value<'v>) -> &'v str {
    let text = error.str().unwrap_or_default();
    let class = text.split_once(':').map_or(text, |(class, _)| class);
    let is_class = !class.is_empty()
        && class.len() <= 60
        && class.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
    if is_class { class } else { "error" }
}

/// Whether the benchmark calls the task solved. Whatever is no verdict leaves it open.
fn reward(run: Value<'_>, recording: &mut Recording) {
    let report = run.get("report");
    match report.get("resolved").bool() {
        Some(resolved) => recording.measure(MeasureKind::Reward, "team", f64::from(u8::from(resolved))),
        None if report.exists() => {
            let kind = report.get("resolved").kind().map_or("nothing", Kind::as_str);
            let message = format!("found {kind} as report.resolved, expected true or false");
            recording.finding(FindingCode::RewardUnscored, None, message);
        }
        None => {}
    }
}

/// Whether a tool did what it was asked for.
fn went_well(observation: Value<'_>) -> Option<bool> {
    let extras = observation.get("extras");
    let code = extras.path(&["metadata", "exit_code"]).i64().or_else(|| extras.get("exit_code").i64());
    let failed = extras.get("error").bool();
    code.map(|code| code == 0).or(observation.get("success").bool()).or(failed.map(|failed| !failed))
}

fn text_hash(value: Value<'_>) -> Option<Hash> {
    match value.str() {
        Some(text) => Some(hash(text)),
        None if value.exists() => Some(hash(value.raw())),
        None => None,
    }
}

/// Hash of what was asked for: as the model wrote it, else the arguments without what the program adds.
fn asked_hash(action: Value<'_>, tool: &str, limits: Limits) -> Hash {
    let metadata = action.get("tool_call_metadata");
    if let Some(id) = metadata.get("tool_call_id").some_str() {
        let choices = metadata.path(&["model_response", "choices"]).elements();
        let mut calls = choices.flat_map(|choice| choice.path(&["message", "tool_calls"]).elements());
        let asked = calls.find(|call| call.get("id").str() == Some(id));
        if let Some(arguments) = asked.and_then(|call| call.path(&["function", "arguments"]).str()) {
            return call_hash_of_text(tool, arguments, limits);
        }
    }
    let mut arguments = ObjectText::new();
    for (key, value) in action.get("args").members().filter(|(key, _)| !ADDED.contains(key)) {
        arguments.raw(key, value.raw());
    }
    let arguments = arguments.finish();
    match Tree::parse(&arguments, limits) {
        Ok(tree) => call_hash(tool, tree.root()),
        Err(_) => call_hash_of_text(tool, &arguments, limits),
    }
}
