//! Conversion of a rollout to a recording: what the agent was given, what it did, how it ended.

use super::{outcome, usage};
use crate::error::FindingCode;
use crate::importers::hex::hex;
use crate::importers::object_text::ObjectText;
use crate::importers::recording::{
    Agent, AgentInfo, Call, CallResult, Entry, Incoming, Party, Recording, Response, Saying, Text, hash,
};
use crate::importers::responses::{Item, ItemCall, call_id, has_failed, text_of};
use crate::json::time::parse_seconds;
use crate::json::tree::Value;
use crate::json::{Kind, Limits};
use crate::schema::{AgentKind, EdgeType};

/// Who speaks to an agent in the name of the user while it works.
const ENVIRONMENT: &str = "env";

/// What a trained answer has for each of its tokens.
const STREAMS: [&str; 3] = ["prompt_token_ids", "generation_token_ids", "generation_log_probs"];

/// Conversations up to each step but the last, where the output is a list of such.
pub(super) fn earlier_lists(output: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    let steps = output.elements().filter(|step| step.kind() == Some(Kind::Array));
    let last = steps.clone().count().saturating_sub(1);
    steps.take(last)
}

/// The output: of conversations up to each step the last one, which goes furthest.
fn output(response: Value<'_>) -> Value<'_> {
    let output = response.get("output");
    output.elements().filter(|step| step.kind() == Some(Kind::Array)).last().unwrap_or(output)
}

pub(super) fn describe(rollout: Value<'_>, limits: Limits, recording: &mut Recording) {
    let response = rollout.get("response");
    let stopped_by = outcome::stopped_by(rollout);
    let name = rollout.path(&["agent_ref", "name"]).some_str().unwrap_or("agent");
    let name = recording.text(name);
    let model = recording.text(response.get("model").str().unwrap_or_default());
    let agent = recording.agent(AgentInfo { name, open: !stopped_by.is_empty(), ..AgentInfo::default() });
    let mut describing = Describing {
        recording,
        limits,
        agent,
        environment: None,
        model,
        contexts: Vec::new(),
        answer: None,
        answers: Vec::new(),
        unanswered: Vec::new(),
        is_answered: false,
        is_heard: false,
        unknown: Vec::new(),
    };
    describing.input(rollout.path(&["responses_create_params", "input"]));
    describing.output(output(response));
    describing.end(!stopped_by.is_empty());
    describing.oddities();
    let Describing { answers, is_heard, .. } = describing;
    if let Some(answer) = answers.last() {
        tell_response(response, *answer, recording);
    }
    if has_more(response.get("output"), output(response)) {
        let message = "the output has more than how its last list begins; that list is used";
        recording.finding(FindingCode::FieldIgnored, None, message);
    }
    // What came back after an answer went to another one, which the output lacks if it is the only one.
    let only = answers.first().copied().filter(|_| answers.len() == 1 && !is_heard);
    usage::describe(response, only, recording);
    outcome::describe(rollout, recording);
    recording.stopped_by(stopped_by);
}

/// Whether an output of lists has more than what the list that is used of it begins with.
fn has_more(output: Value<'_>, used: Value<'_>) -> bool {
    let is_list = |step: &Value<'_>| step.kind() == Some(Kind::Array);
    let is_beginning = |step: Value<'_>| {
        let mut pairs = step.elements().zip(used.elements());
        is_list(&step) && step.len() <= used.len() && pairs.all(|(item, other)| item.raw() == other.raw())
    };
    output.elements().any(|step| is_list(&step)) && !output.elements().all(is_beginning)
}

/// The response object of a rollout is that of its last answer.
fn tell_response(response: Value<'_>, answer: Entry, recording: &mut Recording) {
    let Some(mut extras) = recording.response_mut(answer).map(|answer| answer.extras) else { return };
    if let Some(id) = response.get("id").some_str() {
        extras = recording.extra_text(extras, "x_response_id", id);
    }
    let created_at = response.get("created_at");
    if parse_seconds(created_at.raw()).is_some_and(|time| time > 0) {
        extras = recording.extra(extras, "x_created_at", created_at.raw());
    }
    if let Some(answer) = recording.response_mut(answer) {
        answer.extras = extras;
    }
}

/// An answer of the model that is not complete.
#[derive(Debug)]
struct Answer {
    entry: Entry,
    has_calls: bool,
    /// Its last text.
    text: Option<Entry>,
    /// A text without a character, by its place.
    blank: Option<Text>,
}

/// A rollout during its conversion.
struct Describing<'r, 'v> {
    recording: &'r mut Recording,
    limits: Limits,
    agent: Agent,
    environment: Option<Agent>,
    model: Text,
    /// What gives no event, for the answer that reads it first.
    contexts: Vec<String>,
    answer: Option<Answer>,
    answers: Vec<Entry>,
    /// Calls without a result.
    unanswered: Vec<(&'v str, Entry)>,
    /// Whether the last thing that was done is a text of the model.
    is_answered: bool,
    /// Whether something came that the model has not answered.
    is_heard: bool,
    /// Types of items that have no rule.
    unknown: Vec<&'v str>,
}

impl<'v> Describing<'_, 'v> {
    fn environment(&mut self) -> Agent {
        if let Some(environment) = self.environment {
            return environment;
        }
        let name = self.recording.text(ENVIRONMENT);
        let outside = Some(AgentKind::Environment);
        let environment = self.recording.agent(AgentInfo { name, outside, ..AgentInfo::default() });
        self.environment = Some(environment);
        environment
    }

    /// What the agent was given: the last question, and perhaps a conversation before it.
    fn input(&mut self, input: Value<'v>) {
        if let Some(text) = input.some_str() {
            let id = self.recording.text("i");
            return self.hears(Party::User, id, text, Some(true));
        }
        for (index, item) in input.elements().enumerate() {
            let id = self.recording.text(&format!("i{index}"));
            match Item::of(item) {
                Item::Message { role: "user", content } => {
                    self.hears(Party::User, id, &text_of(content), Some(true));
                }
                // What a tool gave back before, and whoever called it.
                Item::Output(output) => {
                    let environment = self.environment();
                    self.hears(Party::Agent(environment), id, &text_of(output), Some(false));
                }
                Item::Message { role, content } => {
                    self.reads(index, ("role", role), hash(&text_of(content)));
                }
                Item::Call(call) | Item::Served(call, _) => {
                    self.reads(index, ("tool", call.tool), call.content(self.limits));
                }
                Item::Reasoning => {}
                Item::Other(kind) => self.unknown.push(kind),
            }
        }
    }

    fn hears(&mut self, from: Party, id: Text, text: &str, trusted: Option<bool>) {
        let incoming = Incoming {
            id,
            from,
            time: None,
            content: Some(hash(text)),
            trusted,
            intervenes: false,
            decides: Text::default(),
            extras: Text::default(),
        };
        self.recording.incoming(self.agent, incoming);
    }

    /// An item that gives no event.
    fn reads(&mut self, index: usize, (key, value): (&str, &str), content: [u8; 32]) {
        let mut object = ObjectText::new();
        object.raw("item", &index.to_string());
        object.text(key, value);
        object.text("content_ref", &["sha256:", &hex(&content)].concat());
        self.contexts.push(object.finish());
    }

    fn output(&mut self, output: Value<'v>) {
        for (index, item) in output.elements().enumerate() {
            match Item::of(item) {
                Item::Message { role: "assistant", content } => self.text(index, item, &text_of(content)),
                Item::Reasoning => {
                    let entry = self.answer(index);
                    if let Some(streams) = streams(item) {
                        self.with_streams(entry, &streams);
                    }
                }
                Item::Call(call) => self.call(index, item, &call),
                Item::Served(call, output) => {
                    self.call(index, item, &call);
                    self.result(index, item, output);
                }
                Item::Output(output) => self.result(index, item, output),
                Item::Message { role: "user", content } => self.turn(index, &text_of(content)),
                Item::Message { role, content } => {
                    self.reads(index, ("role", role), hash(&text_of(content)));
                }
                Item::Other("compaction") => {
                    self.complete();
                    self.recording.compaction(self.agent);
                }
                Item::Other(kind) => self.unknown.push(kind),
            }
        }
        self.complete();
    }

    /// The answer that an item is of: nothing marks where one begins, but that something came before which it could read.
    fn answer(&mut self, index: usize) -> Entry {
        if let Some(answer) = &self.answer {
            return answer.entry;
        }
        let mut extras = Text::default();
        if !self.contexts.is_empty() {
            let contexts = std::mem::take(&mut self.contexts);
            extras = self.recording.extra(extras, "x_context", &format!("[{}]", contexts.join(",")));
        }
        let id = self.recording.text(&index.to_string());
        let response = Response { id, model: self.model, extras, ..Response::default() };
        let entry = self.recording.response(self.agent, response);
        self.answers.push(entry);
        self.is_heard = false;
        self.answer = Some(Answer { entry, has_calls: false, text: None, blank: None });
        entry
    }

    fn text(&mut self, index: usize, item: Value<'v>, text: &str) {
        let entry = self.answer(index);
        let id = self.recording.text(&index.to_string());
        let streams = streams(item);
        if text.is_empty() {
            // Beside a call it says nothing; alone it is the answer.
            if let Some(answer) = &mut self.answer {
                answer.blank = Some(id);
            }
            if let Some(streams) = streams {
                self.with_streams(entry, &streams);
            }
            return;
        }
        let extras = self.extras_of(streams.as_deref());
        let saying = Saying { id, content: Some(hash(text)), extras, ..Saying::default() };
        let entry = self.recording.say(entry, saying);
        if let Some(answer) = &mut self.answer {
            answer.text = Some(entry);
        }
        self.is_answered = true;
    }

    fn call(&mut self, index: usize, item: Value<'v>, call: &ItemCall<'v>) {
        let entry = self.answer(index);
        let id = call_id(item).str().unwrap_or_default();
        let call = Call {
            id: self.recording.text(id),
            tool: self.recording.text(call.tool),
            content: Some(call.content(self.limits)),
            extras: self.extras_of(streams(item).as_deref()),
            ..Call::default()
        };
        let entry = self.recording.call(entry, call);
        self.unanswered.push((id, entry));
        self.is_answered = false;
        if let Some(answer) = &mut self.answer {
            answer.has_calls = true;
        }
    }

    fn result(&mut self, index: usize, item: Value<'v>, output: Value<'v>) {
        self.complete();
        (self.is_answered, self.is_heard) = (false, true);
        let call = call_id(item).str().unwrap_or_default();
        self.unanswered.retain(|(id, _)| *id != call);
        let id = if call.is_empty() { index.to_string() } else { String::new() };
        let result = CallResult {
            call: self.recording.text(call),
            id: self.recording.text(&id),
            content: output.exists().then(|| hash(&text_of(output))),
            ok: has_failed(item).then_some(false),
            trusted: Some(false),
            ..CallResult::default()
        };
        self.recording.result(self.agent, result);
    }

    /// The environment speaks to the agent in the name of the user. Whether it only stands in for one, and what it says is
    /// to be trusted, no record knows.
    fn turn(&mut self, index: usize, text: &str) {
        let text_before = self.answer.as_ref().and_then(|answer| answer.text);
        self.complete();
        (self.is_answered, self.is_heard) = (false, true);
        let environment = self.environment();
        if let Some(saying) = text_before.and_then(|text| self.recording.saying_mut(text)) {
            saying.to = Some(Party::Agent(environment));
        }
        let id = self.recording.text(&index.to_string());
        self.hears(Party::Agent(environment), id, text, None);
    }

    /// The answer is complete.
    fn complete(&mut self) {
        let Some(answer) = self.answer.take() else { return };
        if let Some(id) = answer.blank.filter(|_| answer.text.is_none() && !answer.has_calls) {
            let saying = Saying { id, content: Some(hash("")), ..Saying::default() };
            self.recording.say(answer.entry, saying);
            self.is_answered = true;
        }
    }

    /// A rollout that was not cut short is over even where the model did not say so: an event stands for the end, so that
    /// calls and what came back lead to it. One that is cut short may have nothing that its agent did.
    fn end(&mut self, is_cut: bool) {
        if self.is_answered || (is_cut && !self.answers.is_empty()) {
            return;
        }
        let id = self.recording.text("end");
        let extras = self.recording.extra(Text::default(), "x_partial", "true");
        let end =
            self.recording.lone_saying(self.agent, Saying { id, extras, aside: is_cut, ..Saying::default() });
        for (_, call) in std::mem::take(&mut self.unanswered) {
            self.recording.edge(call, end, EdgeType::Causal);
        }
    }

    fn extras_of(&mut self, streams: Option<&str>) -> Text {
        let none = Text::default();
        streams.map_or(none, |streams| self.recording.extra(none, "x_token_streams", streams))
    }

    fn with_streams(&mut self, entry: Entry, streams: &str) {
        let Some(extras) = self.recording.response_mut(entry).map(|answer| answer.extras) else { return };
        let extras = self.recording.extra(extras, "x_token_streams", streams);
        if let Some(answer) = self.recording.response_mut(entry) {
            answer.extras = extras;
        }
    }

    /// What the tables have no place for.
    fn oddities(&mut self) {
        if !self.contexts.is_empty() {
            let message = format!("messages without events that no answer reads: {}", self.contexts.len());
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
        if let Some(first) = self.unknown.first() {
            let shown: String = first.chars().take(40).collect();
            let message =
                format!("items of a type without a rule: {}; the first is '{shown}'", self.unknown.len());
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
    }
}

/// The streams of tokens of an item as one object, without empty ones.
fn streams(item: Value<'_>) -> Option<String> {
    let mut object = ObjectText::new();
    let mut any = false;
    for key in STREAMS {
        let stream = item.get(key);
        if stream.exists() && !stream.is_empty() {
            object.raw(key, stream.raw());
            any = true;
        }
    }
    any.then(|| object.finish())
}
