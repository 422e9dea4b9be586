//! Conversion of a session to a recording: one agent, in the order of the messages.

use std::collections::{BTreeMap, BTreeSet};

use super::message::{Message, Read, time_of};
use crate::error::FindingCode;
use crate::importers::TraceItems;
use crate::importers::file_key;
use crate::importers::gemini_parts::{Counts, Part, has_failed, parts, response_hash};
use crate::importers::kind::counted_as;
use crate::importers::parsed::ParsedItems;
use crate::importers::recording::{
    Agent, AgentInfo, Call, CallResult, Entry, Incoming, Party, Recording, Response, Saying, Text, call_hash,
    hash,
};
use crate::json::Kind;
use crate::json::time::instant;
use crate::json::tree::Value;

/// Who records.
const NAME: &str = "gemini_cli";

/// Describes a session.
pub(super) fn describe(items: &TraceItems<'_>, parsed: &ParsedItems<'_>, recording: &mut Recording) {
    let Read { heads, messages, lost_rewinds, .. } = Read::of(items, parsed);
    let head = heads.first().map(|(_, head)| *head);
    let of_head = |key: &str| head.and_then(|head| head.get(key).some_str());
    let name = file_key::name(items.key(), NAME);
    recording.trace.trace_id = recording.text(of_head("sessionId").unwrap_or(name));
    recording.trace.system = recording.text(NAME);
    recording.trace.partial = items.is_partial();
    if messages.iter().any(|message| message.time.is_some()) {
        let began = heads.iter().filter_map(|(_, head)| instant(head.get("startTime")));
        recording.trace.started_at = began.chain(messages.iter().filter_map(|message| message.time)).min();
    }
    for (item, _) in heads.iter().skip(1) {
        items.ignored(*item as usize, "gemini_cli.session");
    }
    if lost_rewinds > 0 {
        let message =
            format!("rewinds to a message that is not there: {lost_rewinds}; all before them was given up");
        recording.finding(FindingCode::FieldIgnored, None, message);
    }
    // The older history names the model once.
    let is_history = head.is_some_and(|head| head.get("history").exists());
    let model = head.filter(|_| is_history).and_then(|head| head.path(&["meta", "model"]).some_str());
    let name = recording.text(NAME);
    let agent = recording.agent(AgentInfo { name, ..AgentInfo::default() });
    let session = Session {
        items,
        recording,
        agent,
        model: model.unwrap_or_default(),
        abandoned: false,
        last: Last::Nothing,
        misfits: BTreeMap::new(),
        timeless: 0,
    };
    session.describe(&messages);
}

/// The last thing of a conversation.
#[derive(Debug, Default)]
enum Last<'v> {
    #[default]
    Nothing,
    Prompt,
    /// A response: its calls without a result so far, and whether its text may be an answer.
    Response(BTreeSet<&'v str>, bool),
    /// Results that the model has not answered.
    Results,
    /// The turn was stopped.
    Stopped,
}

/// A session during its conversion.
struct Session<'a, 'i, 'v> {
    items: &'a TraceItems<'i>,
    recording: &'a mut Recording,
    agent: Agent,
    /// The model of responses that name none.
    model: &'v str,
    /// Whether the message of now was given up.
    abandoned: bool,
    last: Last<'v>,
    /// Members of the wrong kind, by name.
    misfits: BTreeMap<&'static str, u32>,
    timeless: usize,
}

impl<'v> Session<'_, '_, 'v> {
    fn describe(mut self, messages: &[Message<'v>]) {
        for message in messages {
            self.recording.made_of(message.item);
            // What was said last before a rewind, or before a record that is lost, is not what is gone on from.
            if self.abandoned != message.abandoned || message.after_loss {
                self.last = Last::Nothing;
            }
            self.abandoned = message.abandoned;
            let time = time_of(message.value);
            if time.exists() && instant(time).is_none() {
                self.misfit("timestamp");
            }
            self.timeless += usize::from(message.time.is_none());
            match message.kind {
                "user" => self.user(message),
                "gemini" | "model" => self.response(message),
                kind => {
                    self.items.ignored(message.item as usize, &counted_as(NAME, kind));
                    if kind == "error" || says_cancelled(message) {
                        self.last = Last::Stopped;
                    }
                }
            }
        }
        let is_answered = matches!(&self.last, Last::Response(calls, true) if calls.is_empty());
        self.recording.agent_info(self.agent).open = !is_answered;
        self.oddities(messages.len());
    }

    fn misfit(&mut self, name: &'static str) {
        *self.misfits.entry(name).or_default() += 1;
    }

    /// A text that may be absent.
    fn text_of(&mut self, value: Value<'v>, name: &'static str) -> &'v str {
        if value.str().is_none() && value.exists() {
            self.misfit(name);
        }
        value.str().unwrap_or_default()
    }

    /// The id of a message; where it has none, its number.
    fn id(&mut self, message: &Message<'v>) -> Text {
        match message.id {
            Some(id) => self.recording.text(id),
            None => self.recording.text(&format!("main:{}", message.number)),
        }
    }

    fn extras(&mut self) -> Text {
        let extras = Text::default();
        if self.abandoned { self.recording.extra(extras, "x_abandoned", "true") } else { extras }
    }

    /// The content of a message: `content` or `parts`, a text or parts.
    fn parts(&mut self, message: &Message<'v>) -> Vec<Part<'v>> {
        let list: Vec<Part<'v>> =
            ["content", "parts"].into_iter().flat_map(|key| parts(message.value.get(key))).collect();
        for _ in list.iter().filter(|part| matches!(part, Part::Misfit)) {
            self.misfit("content");
        }
        list
    }

    /// Something said to the agent, or what tools gave back. In the middle of its work the user breaks in.
    fn user(&mut self, message: &Message<'v>) {
        let list = self.parts(message);
        let mut has_results = false;
        for part in &list {
            if let Part::Response(response) = part {
                has_results = true;
                let failed = has_failed(*response);
                self.result(message.time, *response, *response, failed.then_some(false));
            }
        }
        let text: String = list
            .iter()
            .filter_map(|part| if let Part::Text(text) = part { Some(*text) } else { None })
            .collect();
        if has_results && text.is_empty() {
            return;
        }
        let intervenes = match &self.last {
            Last::Results => true,
            Last::Response(calls, _) => !calls.is_empty(),
            _ => false,
        };
        let incoming = Incoming {
            id: self.id(message),
            from: Party::User,
            time: message.time,
            content: list.iter().any(|part| !matches!(part, Part::Misfit)).then(|| hash(&text)),
            trusted: Some(true),
            intervenes,
            decides: Text::default(),
            extras: self.extras(),
        };
        self.recording.incoming(self.agent, incoming);
        self.last = Last::Prompt;
    }

    fn response(&mut self, message: &Message<'v>) {
        let value = message.value;
        let counts = self.counts(value.get("tokens"));
        let model = self.text_of(value.get("model"), "model");
        let model = if model.is_empty() { self.model } else { model };
        let extras = self.extras();
        let response = Response {
            id: self.id(message),
            time: message.time,
            model: self.recording.text(model),
            usage: counts.usage(),
            extras,
            ..Response::default()
        };
        let response = self.recording.response(self.agent, response);
        if counts.is_empty() {
            let message = "a response states a usage of 0 in all: what it took is not known";
            self.recording.finding(FindingCode::UsageIncomplete, Some(response), message);
        }
        let list = self.parts(message);
        let mut calls = BTreeSet::new();
        let mut texts = String::new();
        for part in &list {
            match part {
                Part::Text(text) => texts += text,
                Part::Call(call) => {
                    calls.insert(self.call(response, *call));
                }
                _ => {}
            }
        }
        let recorded = value.get("toolCalls");
        if recorded.exists() && recorded.kind() != Some(Kind::Array) {
            self.misfit("toolCalls");
        }
        for call in recorded.elements() {
            if call.kind() != Some(Kind::Object) {
                self.misfit("toolCalls");
                continue;
            }
            let id = call.get("id").str().unwrap_or_default();
            // The content may have the same call.
            if id.is_empty() || !calls.contains(id) {
                calls.insert(self.call(response, call));
            }
        }
        let has_text = !texts.is_empty();
        if has_text {
            self.recording.say(response, Saying { content: Some(hash(&texts)), extras, ..Saying::default() });
        }
        self.last = Last::Response(calls, has_text);
        for call in recorded.elements().filter(|call| call.kind() == Some(Kind::Object)) {
            self.answer(message, call);
        }
    }

    fn call(&mut self, response: Entry, call: Value<'v>) -> &'v str {
        let id = self.text_of(call.get("id"), "toolCalls.id");
        let tool = self.text_of(call.get("name"), "toolCalls.name");
        let call = Call {
            id: self.recording.text(id),
            tool: self.recording.text(tool),
            content: Some(call_hash(tool, call.get("args"))),
            extras: self.extras(),
            ..Call::default()
        };
        self.recording.call(response, call);
        id
    }

    /// What a call gave back, if it has ended.
    fn answer(&mut self, message: &Message<'v>, call: Value<'v>) {
        let status = self.text_of(call.get("status"), "toolCalls.status");
        let response = parts(call.get("result"))
            .find_map(|part| if let Part::Response(response) = part { Some(response) } else { None });
        let ok = match status {
            "success" => Some(true),
            "error" | "cancelled" => Some(false),
            _ => response.is_some_and(has_failed).then_some(false),
        };
        if ok.is_none() && response.is_none() {
            return;
        }
        let time = call.get("timestamp");
        if time.exists() && instant(time).is_none() {
            self.misfit("toolCalls.timestamp");
        }
        let result = response.unwrap_or(call.absent());
        self.result(instant(time).or(message.time), call, result, ok);
    }

    fn result(&mut self, time: Option<i64>, of: Value<'v>, response: Value<'v>, ok: Option<bool>) {
        let call = of.get("id").str().unwrap_or_default();
        let result = CallResult {
            call: self.recording.text(call),
            tool: self.recording.text(of.get("name").str().unwrap_or_default()),
            time,
            content: response_hash(response),
            ok,
            trusted: Some(false),
            extras: self.extras(),
            ..CallResult::default()
        };
        self.recording.result(self.agent, result);
        self.last = match std::mem::take(&mut self.last) {
            Last::Response(mut calls, has_text) => {
                calls.remove(call);
                if calls.is_empty() { Last::Results } else { Last::Response(calls, has_text) }
            }
            _ => Last::Results,
        };
    }

    fn counts(&mut self, tokens: Value<'v>) -> Counts {
        if tokens.exists() && tokens.kind() != Some(Kind::Object) {
            self.misfit("tokens");
        }
        let mut count = |key: &str| {
            let value = tokens.get(key);
            if value.exists() && value.integer_like().is_none() {
                self.misfit("tokens.*");
            }
            value.integer_like()
        };
        Counts {
            input: count("input"),
            tool: count("tool"),
            output: count("output"),
            thoughts: count("thoughts"),
            cached: count("cached"),
            total: count("total"),
        }
    }

    /// What the tables have no place for.
    fn oddities(self, messages: usize) {
        if self.timeless > 0 && self.timeless < messages {
            let message = format!(
                "messages without a readable time: {}; they have that of the message before",
                self.timeless
            );
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
        for (name, n) in self.misfits {
            let message = format!("'{name}' is of the wrong type in {n} places; it is null there");
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
    }
}

/// Whether a message says that the user cancelled the turn.
fn says_cancelled(message: &Message<'_>) -> bool {
    let text = message.value.get("content").str();
    message.kind == "info" && text.is_some_and(|text| text.starts_with("Request cancelled"))
}
