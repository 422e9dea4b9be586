//! What an agent and its user say to each other, as small tools record it: one message a line, in content blocks as
//! Anthropic's API has them, without usage and mostly without times.

use std::collections::{BTreeMap, BTreeSet};

use super::TraceItems;
use super::parsed::ParsedItems;
use super::recording::{
    Agent, Call, CallResult, Does, Entry, Incoming, Party, Recording, Response, Saying, Text, call_hash,
    call_hash_of_text, hash,
};
use super::responses::text_of;
use crate::error::FindingCode;
use crate::json::time::instant;
use crate::json::tree::Value;
use crate::json::{Kind, Limits};

/// A line of a conversation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'v> {
    pub item: u32,
    /// Its line, and which record of that line it is.
    pub at: (u64, u32),
    pub value: Value<'v>,
    pub after_loss: bool,
}

/// The lines of each conversation of a trace, by the name that a path gives it. Of two lines that stand at one place, since
/// a file is there in two states, the one that says most is used; no order of files decides.
pub(super) fn conversations<'v>(
    items: &TraceItems<'v>,
    parsed: &'v ParsedItems<'_>,
    name: impl Fn(&'v str, Value<'v>) -> Option<&'v str>,
) -> BTreeMap<&'v str, Vec<Line<'v>>> {
    let mut all: BTreeMap<&'v str, Vec<Line<'v>>> = BTreeMap::new();
    let mut before = ("", 0, 0);
    for (item, value) in parsed.values() {
        let from = &items.as_slice()[item as usize];
        let Some(name) = name(from.path, value) else { continue };
        let nth = if (before.0, before.1) == (from.path, from.line) { before.2 + 1 } else { 0 };
        before = (from.path, from.line, nth);
        let line = Line { item, at: (from.line, nth), value, after_loss: from.after_loss };
        all.entry(name).or_default().push(line);
    }
    for lines in all.values_mut() {
        lines.sort_by(|a, b| {
            let length = |line: &Line<'_>| line.value.raw().len();
            let by_text = length(b).cmp(&length(a)).then_with(|| b.value.raw().cmp(a.value.raw()));
            a.at.cmp(&b.at).then(by_text)
        });
        let mut before = None;
        lines.retain(|line| {
            let again = before.replace(line.at) == Some(line.at);
            if again {
                items.duplicate(line.item as usize);
            }
            !again
        });
    }
    all
}

/// The last thing of a conversation.
#[derive(Debug, Default)]
enum Last {
    #[default]
    Nothing,
    Prompt,
    /// A response: its calls that something may come back of, and whether its text may be an answer.
    Response(BTreeSet<String>, bool),
    /// A turn that was stopped.
    Stopped,
    /// A result, and the calls beside its own that have none.
    Result(BTreeSet<String>),
}

/// A conversation while it is told.
pub(super) struct Talk<'a> {
    pub recording: &'a mut Recording,
    pub agent: Agent,
    /// What ids of calls and lines begin with.
    pub prefix: &'a str,
    /// Whether the tool records what calls give back.
    pub has_results: bool,
    time: Option<i64>,
    at: (u64, u32),
    last: Last,
    lines: usize,
    timeless: usize,
    misfits: BTreeMap<&'static str, u32>,
}

impl<'a> Talk<'a> {
    pub(super) fn new(recording: &'a mut Recording, agent: Agent, prefix: &'a str) -> Self {
        Self {
            recording,
            agent,
            prefix,
            has_results: true,
            time: None,
            at: (0, 0),
            last: Last::Nothing,
            lines: 0,
            timeless: 0,
            misfits: BTreeMap::new(),
        }
    }

    /// What is told next is of this line.
    pub(super) fn line(&mut self, line: &Line<'_>, time: Value<'_>) {
        self.recording.made_of(line.item);
        (self.time, self.at) = (instant(time), line.at);
        if time.exists() && self.time.is_none() {
            self.misfit("timestamp");
        }
        if line.after_loss {
            self.last = Last::Nothing;
        }
        self.lines += 1;
        self.timeless += usize::from(self.time.is_none());
    }

    /// A line that says nothing, and has no time.
    pub(super) fn silent_line(&mut self, line: &Line<'_>) {
        self.recording.made_of(line.item);
        (self.time, self.at) = (None, line.at);
    }

    pub(super) fn misfit(&mut self, name: &'static str) {
        *self.misfits.entry(name).or_default() += 1;
    }

    /// A text that may be absent.
    pub(super) fn text<'v>(&mut self, value: Value<'v>, name: &'static str) -> &'v str {
        if value.str().is_none() && value.exists() {
            self.misfit(name);
        }
        value.str().unwrap_or_default()
    }

    /// The place of the line of now.
    pub(super) fn place(&self) -> String {
        let (line, nth) = self.at;
        let stream = if self.prefix.is_empty() { "main" } else { self.prefix };
        if nth == 0 { format!("{stream}:{line}") } else { format!("{stream}:{line}:{}", nth + 1) }
    }

    /// The id of a line: its own, or its place.
    fn id(&mut self, id: &str) -> Text {
        if id.is_empty() { self.recording.text(&self.place()) } else { self.recording.text(id) }
    }

    fn call_id(&mut self, id: &str) -> Text {
        match (self.prefix, id) {
            ("", _) | (_, "") => self.recording.text(id),
            (prefix, _) => self.recording.join(&[prefix, "/", id]),
        }
    }

    /// Something said to the agent. In the middle of its work the user breaks in.
    pub(super) fn hears(&mut self, id: &str, text: &str, extras: Text) {
        let intervenes = match &self.last {
            Last::Result(_) => true,
            Last::Response(calls, _) => !calls.is_empty(),
            _ => false,
        };
        let incoming = Incoming {
            id: self.id(id),
            from: Party::User,
            time: self.time,
            content: Some(hash(text)),
            trusted: Some(true),
            intervenes,
            decides: Text::default(),
            extras,
        };
        self.recording.incoming(self.agent, incoming);
        self.last = Last::Prompt;
    }

    /// A response, whose text and calls follow.
    pub(super) fn answers(&mut self, id: &str, model: &str, extras: Text) -> Entry {
        let (id, model) = (self.id(id), self.recording.text(model));
        let response = Response { id, time: self.time, model, extras, ..Response::default() };
        self.last = Last::Response(BTreeSet::new(), false);
        self.recording.response(self.agent, response)
    }

    /// The text of a response, once all its calls were told.
    pub(super) fn says(&mut self, response: Entry, text: &str, extras: Text) {
        if text.is_empty() {
            return;
        }
        self.recording.say(response, Saying { content: Some(hash(text)), extras, ..Saying::default() });
        if let Last::Response(_, is_whole) = &mut self.last {
            *is_whole = true;
        }
    }

    /// Says that the last response is no answer, whatever it says.
    pub(super) fn goes_on(&mut self) {
        if let Last::Response(_, is_whole) = &mut self.last {
            *is_whole = false;
        }
    }

    pub(super) fn calls(
        &mut self,
        response: Entry,
        (id, tool): (&str, &str),
        arguments: Value<'_>,
        does: Does,
        extras: Text,
    ) -> Entry {
        let call = self.call((id, tool), arguments, extras);
        if let (Last::Response(calls, _), true) = (&mut self.last, self.has_results) {
            calls.insert(id.to_owned());
        }
        self.recording.call(response, Call { does, ..call })
    }

    /// A call of no response that is recorded.
    pub(super) fn calls_alone(&mut self, (id, tool): (&str, &str), arguments: Value<'_>) {
        let call = self.call((id, tool), arguments, Text::default());
        self.recording.lone_call(self.agent, Call { time: self.time, ..call });
        let mut calls = match std::mem::take(&mut self.last) {
            Last::Response(calls, _) | Last::Result(calls) => calls,
            _ => BTreeSet::new(),
        };
        calls.insert(id.to_owned());
        self.last = Last::Response(calls, false);
    }

    fn call(&mut self, (id, tool): (&str, &str), arguments: Value<'_>, extras: Text) -> Call {
        const LENIENT: Limits = Limits { depth: 512, string: usize::MAX, lenient: true };
        let content = match arguments.str() {
            Some(text) => call_hash_of_text(tool, text, LENIENT),
            None => call_hash(tool, arguments),
        };
        Call {
            id: self.call_id(id),
            tool: self.recording.text(tool),
            content: Some(content),
            extras,
            ..Call::default()
        }
    }

    /// What a call gave back.
    pub(super) fn gives_back(
        &mut self,
        (id, tool): (&str, &str),
        output: Value<'_>,
        ok: Option<bool>,
        extras: Text,
    ) {
        let text = text_of(output);
        let result = CallResult {
            call: self.call_id(id),
            id: if id.is_empty() { self.id("") } else { Text::default() },
            tool: self.recording.text(tool),
            time: self.time,
            content: output.exists().then(|| hash(&text)),
            ok,
            trusted: Some(false),
            extras,
            ..CallResult::default()
        };
        self.recording.result(self.agent, result);
        let mut calls = match std::mem::take(&mut self.last) {
            Last::Response(calls, _) | Last::Result(calls) => calls,
            _ => BTreeSet::new(),
        };
        calls.remove(id);
        self.last = Last::Result(calls);
    }

    /// Tells a message of content blocks; the role of one that is of neither side. `spawn` says which agent a call makes
    /// work. What has reasoning alone gives no event: it is then `reasoning`.
    pub(super) fn message<'v>(
        &mut self,
        (id, role): (&str, &'v str),
        message: Value<'v>,
        spawn: &mut dyn FnMut(&mut Recording, Value<'v>) -> Option<Agent>,
    ) -> Option<&'v str> {
        let content = blocks(message.get("content"));
        let mut text = String::new();
        for block in &content {
            match block {
                Block::Text(part) => text += part,
                Block::Misfit => self.misfit("message.content"),
                _ => {}
            }
        }
        let none = Text::default();
        match role {
            "assistant"
                if !content.is_empty() && content.iter().all(|block| matches!(block, Block::Silent)) =>
            {
                return Some("reasoning");
            }
            "assistant" => {
                let model = self.text(message.get("model"), "message.model");
                let response = self.answers(id, model, none);
                let mut has_calls = false;
                for block in &content {
                    let Block::Call(call) = block else { continue };
                    has_calls = true;
                    let id = self.text(call.get("id"), "message.content.id");
                    let tool = self.text(call.get("name"), "message.content.name");
                    let does = spawn(self.recording, *call).map_or(Does::UsesTool, Does::Spawns);
                    self.calls(response, (id, tool), call.get("input"), does, none);
                }
                self.says(response, &text, none);
                if has_calls {
                    self.goes_on();
                }
            }
            "user" => {
                let mut has_results = false;
                for block in &content {
                    let Block::Result(result) = block else { continue };
                    has_results = true;
                    let call = self.text(result.get("tool_use_id"), "message.content.tool_use_id");
                    let failed = result.get("is_error");
                    if failed.exists() && failed.bool().is_none() {
                        self.misfit("message.content.is_error");
                    }
                    let ok = failed.bool().map(|failed| !failed);
                    self.gives_back((call, ""), result.get("content"), ok, none);
                }
                if !has_results || !text.is_empty() {
                    self.hears(id, &text, none);
                }
            }
            role => return Some(role),
        }
        None
    }

    pub(super) fn is_stopped(&mut self) {
        self.last = Last::Stopped;
    }

    /// Whether the conversation goes on beyond its lines.
    pub(super) fn end(self) -> bool {
        let is_answered = matches!(&self.last, Last::Response(calls, true) if calls.is_empty());
        self.recording.agent_info(self.agent).open = !is_answered;
        if self.timeless > 0 && self.timeless < self.lines {
            let message = format!(
                "lines without a readable time: {}; they have that of the line before",
                self.timeless
            );
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
        for (name, n) in self.misfits {
            let message = format!("'{name}' is of the wrong type in {n} lines; it is null there");
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
        !is_answered
    }
}

/// A part of a message's content.
#[derive(Debug, Clone, Copy)]
pub(super) enum Block<'v> {
    Text(&'v str),
    /// `id`, `name` and `input`.
    Call(Value<'v>),
    /// `tool_use_id`, `content` and `is_error`.
    Result(Value<'v>),
    /// What gives no event: reasoning, images.
    Silent,
    Misfit,
}

impl<'v> Block<'v> {
    fn of(block: Value<'v>) -> Self {
        match block.get("type").str() {
            Some("text") => block.get("text").str().map_or(Self::Misfit, Self::Text),
            Some("tool_use") => Self::Call(block),
            Some("tool_result") => Self::Result(block),
            Some(_) => Self::Silent,
            None => Self::Misfit,
        }
    }
}

/// The parts of a content: a text is one.
pub(super) fn blocks(content: Value<'_>) -> Vec<Block<'_>> {
    match content.kind() {
        Some(Kind::String) => content.str().map(Block::Text).into_iter().collect(),
        Some(Kind::Array) => content.elements().map(Block::of).collect(),
        Some(_) => vec![Block::Misfit],
        None => Vec::new(),
    }
}

/// Whether a message is what somebody said to an agent, and not what its tools gave back.
pub(super) fn is_prompt(message: Value<'_>) -> bool {
    let content = blocks(message.get("content"));
    message.get("role").str() == Some("user")
        && !content.iter().any(|block| matches!(block, Block::Result(_)))
}
