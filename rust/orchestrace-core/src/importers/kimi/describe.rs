//! Conversion of the lines of one agent to entries of a recording, in their order.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::KIMI;
use super::line::{Line, is_of_user};
use super::paid_identity;
use super::steps::Steps;
use super::team::{Delegate, Team};
use super::usage::Read;
use crate::error::FindingCode;
use crate::importers::TraceItems;
use crate::importers::file_key;
use crate::importers::kind::counted_as;
use crate::importers::recording::{
    Agent, Call, CallResult, Entry, Hash, Incoming, Party, Recording, Response, Saying, Text, call_hash,
    call_hash_of_text, hash,
};
use crate::importers::responses::text_of;
use crate::json::Kind;
use crate::json::time::instant;
use crate::json::tree::Value;

mod responses;

/// What the tables have no place for, over all agents.
#[derive(Debug, Default)]
pub(super) struct Oddities<'v> {
    lines: usize,
    timeless: usize,
    /// Members of the wrong kind, by name.
    misfits: BTreeMap<&'static str, u32>,
    /// Responses and tokens that count in other traces.
    inherited: BTreeMap<&'v str, (u64, i64)>,
}

impl Oddities<'_> {
    pub(super) fn report(self, recording: &mut Recording) {
        if self.timeless > 0 && self.timeless < self.lines {
            let message = format!(
                "lines without a readable time: {}; they have that of the line before",
                self.timeless
            );
            recording.finding(FindingCode::FieldIgnored, None, message);
        }
        for (name, n) in self.misfits {
            let message = format!("'{name}' is of the wrong type in {n} lines; it is null there");
            recording.finding(FindingCode::FieldIgnored, None, message);
        }
        recording.inherits(self.inherited.into_iter().collect());
    }
}

/// The last thing of a conversation.
#[derive(Debug, Default)]
enum Last<'v> {
    #[default]
    Nothing,
    Prompt,
    /// A response: its calls without a result so far, and whether its text may be an answer.
    Response(BTreeSet<&'v str>, bool),
    /// A turn that was stopped, or a request that nobody answered.
    Stopped,
    /// A result, and the calls beside its own that have none.
    Result(BTreeSet<&'v str>),
}

/// A response whose usage a record may state once more.
#[derive(Debug)]
struct Paid {
    entry: Entry,
    read: Read,
}

/// One agent's lines during their conversion.
pub(super) struct Describing<'a, 'v> {
    items: &'a TraceItems<'v>,
    pub(super) lines: &'a [Line<'v>],
    pub(super) recording: &'a mut Recording,
    pub(super) team: &'a mut Team<'v>,
    oddities: &'a mut Oddities<'v>,
    /// The id of the agent, and what the ids of its events begin with: calls of two agents may have one id.
    pub(super) id: &'v str,
    prefix: &'v str,
    pub(super) agent: Agent,
    pub(super) steps: Steps<'v>,
    /// The response of each step, once it was told, and whether its end was.
    told: Vec<Option<Entry>>,
    ended: Vec<bool>,
    /// The step that began last.
    step: Option<usize>,
    /// Agents that results of this one name.
    pub(super) claimed: HashSet<&'v str>,
    pub(super) delegates: HashMap<usize, Vec<Delegate>>,
    /// What was said to the agent, and by it, that a message may repeat.
    prompts: HashMap<Hash, usize>,
    said: HashSet<Hash>,
    paid: Option<Paid>,
    /// When a model was asked for a summary, and which.
    summary: (Option<i64>, &'v str),
    has_began: bool,
    last: Last<'v>,
    abandoned: bool,
    /// The trace that each line is copied from.
    origins: Vec<Option<&'v str>>,
    origin: Option<&'v str>,
}

impl<'a, 'v> Describing<'a, 'v> {
    pub(super) fn new(
        (items, lines): (&'a TraceItems<'v>, &'a [Line<'v>]),
        recording: &'a mut Recording,
        team: &'a mut Team<'v>,
        oddities: &'a mut Oddities<'v>,
        (id, prefix): (&'v str, &'v str),
        agent: Agent,
    ) -> Self {
        let steps = Steps::of(lines);
        let n_steps = steps.all.len();
        // What stands before a copied response was copied with it.
        let mut origins = vec![None; lines.len()];
        let mut next = None;
        for (origin, line) in origins.iter_mut().zip(lines).rev() {
            if let Some(identity) = paid_identity(line.value) {
                next = items.owner(identity).map(|key| file_key::name(key, KIMI));
            }
            *origin = next;
        }
        let mut describing = Self {
            items,
            lines,
            recording,
            team,
            oddities,
            id,
            prefix,
            agent,
            steps,
            told: vec![None; n_steps],
            ended: vec![false; n_steps],
            step: None,
            claimed: HashSet::new(),
            delegates: HashMap::new(),
            prompts: HashMap::new(),
            said: HashSet::new(),
            paid: None,
            summary: (None, ""),
            has_began: false,
            last: Last::Nothing,
            abandoned: false,
            origins,
            origin: None,
        };
        describing.claimed = describing.named_agents();
        describing
    }

    /// Whether the conversation goes on beyond its lines.
    pub(super) fn describe(mut self) -> bool {
        for (at, line) in self.lines.iter().enumerate() {
            self.recording.made_of(line.item);
            // What was said last before a record that is lost, or that was taken back, is not what is gone on from.
            if self.abandoned != line.abandoned || line.after_loss {
                self.last = Last::Nothing;
            }
            (self.abandoned, self.origin) = (line.abandoned, self.origins[at]);
            self.oddities.lines += 1;
            self.oddities.timeless += usize::from(line.time.is_none());
            let time = line.value.get("time");
            if time.exists() && instant(time).is_none() {
                self.misfit("time");
            }
            self.unanswered(at);
            self.recording.made_of(line.item);
            if let Some(kind) = self.line(at, line) {
                self.items.ignored(line.item as usize, &kind);
            }
        }
        !matches!(&self.last, Last::Response(calls, true) if calls.is_empty())
    }

    /// Tells a line, or gives the kind that it counts as.
    fn line(&mut self, at: usize, line: &Line<'v>) -> Option<String> {
        match line.kind() {
            "metadata" if !std::mem::replace(&mut self.has_began, true) => None,
            "turn.prompt" => self.said_to(line, line.value.get("input"), false),
            "turn.steer" => self.said_to(line, line.value.get("input"), true),
            "context.append_message" => self.message(line),
            "context.append_loop_event" => self.event(at, line),
            "usage.record" => self.usage(line),
            "permission.record_approval_result" => self.approval(line),
            "context.apply_compaction" | "context.clear" => {
                self.recording.compaction(self.agent);
                None
            }
            kind => {
                if kind == "llm.request" && line.value.get("kind").str() == Some("compaction") {
                    self.summary = (line.time, line.value.get("model").str().unwrap_or_default());
                }
                if kind == "turn.cancel" {
                    self.last = Last::Stopped;
                }
                Some(counted_as(KIMI, kind))
            }
        }
    }

    fn misfit(&mut self, name: &'static str) {
        *self.oddities.misfits.entry(name).or_default() += 1;
    }

    /// A text that may be absent.
    pub(super) fn text_of(&mut self, value: Value<'v>, name: &'static str) -> &'v str {
        if value.str().is_none() && value.exists() {
            self.misfit(name);
        }
        value.str().unwrap_or_default()
    }

    /// Content that may be absent: a text, or parts.
    fn content_of(&mut self, value: Value<'v>, name: &'static str) -> String {
        if value.exists() && !matches!(value.kind(), Some(Kind::String | Kind::Array)) {
            self.misfit(name);
        }
        text_of(value).into_owned()
    }

    /// The id of a line, which is the same in every copy of the file.
    fn id_of(&mut self, line: &Line<'v>) -> Text {
        let (number, nth) = line.at;
        let id = if nth == 0 {
            format!("{}:{number}", self.id)
        } else {
            format!("{}:{number}:{}", self.id, nth + 1)
        };
        self.recording.text(&id)
    }

    fn step_id(&mut self, id: &str, begin: usize) -> Text {
        if id.is_empty() { self.id_of(&self.lines[begin]) } else { self.recording.text(id) }
    }

    /// The id of a call, unique among those of all agents.
    pub(super) fn call_id(&mut self, id: &str) -> Text {
        match (self.prefix, id) {
            ("", _) | (_, "") => self.recording.text(id),
            (prefix, _) => self.recording.join(&[prefix, "/", id]),
        }
    }

    fn extras(&mut self) -> Text {
        let mut extras = Text::default();
        if self.abandoned {
            extras = self.recording.extra(extras, "x_abandoned", "true");
        }
        if let Some(origin) = self.origin {
            extras = self.recording.extra_text(extras, "x_copied", origin);
        }
        extras
    }

    /// A prompt, or what breaks into a turn.
    fn said_to(&mut self, line: &Line<'v>, content: Value<'v>, breaks_in: bool) -> Option<String> {
        let text = self.content_of(content, "input");
        *self.prompts.entry(hash(&text)).or_default() += 1;
        self.hears(line, &text, breaks_in);
        None
    }

    fn hears(&mut self, line: &Line<'v>, text: &str, breaks_in: bool) {
        let origin = line.origin();
        if line.is_delegated() {
            // Who asked tells of it; where that was not kept, the agent begins with it.
            self.last = Last::Prompt;
            if self.team.is_kept(self.id) {
                self.items.duplicate(line.item as usize);
            }
            return;
        }
        let task = line.origin_record().get("taskId").some_str();
        if let Some(child) = task.and_then(|task| self.team.worker(self.id, task)) {
            self.team.end_is_told(child);
            self.recording.delivery_at(self.agent, child, line.time);
            self.last = Last::Prompt;
            return;
        }
        let is_busy = match &self.last {
            Last::Result(_) => true,
            Last::Response(calls, _) => !calls.is_empty(),
            _ => false,
        };
        let by_user = is_of_user(origin);
        let is_output = line.origin_record().get("phase").str() == Some("output");
        let trusted = match origin {
            "background_task" | "task" | "hook_result" => false,
            _ => !is_output,
        };
        let incoming = Incoming {
            id: self.id_of(line),
            from: if by_user { Party::User } else { Party::Named(self.recording.text(origin)) },
            time: line.time,
            content: Some(hash(text)),
            trusted: Some(trusted),
            intervenes: by_user && (breaks_in || is_busy),
            decides: Text::default(),
            extras: self.extras(),
        };
        self.recording.incoming(self.agent, incoming);
        self.last = Last::Prompt;
    }

    /// What the model will read: mostly it was told before.
    fn message(&mut self, line: &Line<'v>) -> Option<String> {
        let message = line.value.get("message");
        let content = message.get("content");
        match message.get("role").str().unwrap_or_default() {
            "user" if matches!(line.origin(), "injection" | "compaction_summary") => {
                Some(counted_as(KIMI, line.origin()))
            }
            "user" => {
                let text = self.content_of(content, "message.content");
                match self.prompts.get_mut(&hash(&text)).filter(|left| **left > 0) {
                    Some(left) => {
                        *left -= 1;
                        self.items.duplicate(line.item as usize);
                    }
                    None => self.hears(line, &text, false),
                }
                None
            }
            "assistant" => {
                self.answer(line, message);
                None
            }
            "tool" => {
                let id = self.text_of(message.get("toolCallId"), "message.toolCallId");
                self.result(line, (id, None), content, message.get("isError"));
                None
            }
            role => Some(counted_as(KIMI, role)),
        }
    }

    /// An answer that no step records: that of a session which an older program wrote.
    fn answer(&mut self, line: &Line<'v>, message: Value<'v>) {
        let text = self.content_of(message.get("content"), "message.content");
        let calls = message.get("toolCalls");
        if self.said.contains(&hash(&text)) || (text.is_empty() && calls.is_empty()) {
            self.items.duplicate(line.item as usize);
            return;
        }
        let extras = self.extras();
        let id = self.id_of(line);
        let response = Response { id, time: line.time, extras, ..Response::default() };
        let response = self.recording.response(self.agent, response);
        let mut open = BTreeSet::new();
        for call in calls.elements() {
            let id = self.text_of(call.get("id"), "message.toolCalls.id");
            let function = call.get("function");
            let function = if function.exists() { function } else { call };
            let tool = self.text_of(function.get("name"), "message.toolCalls.name");
            let call = self.tool_call(id, tool, function.get("arguments"));
            self.recording.call(response, call);
            open.insert(id);
        }
        if !text.is_empty() {
            self.recording.say(response, Saying { content: Some(hash(&text)), extras, ..Saying::default() });
        }
        self.last = Last::Response(open, !text.is_empty());
    }

    pub(super) fn tool_call(&mut self, id: &str, tool: &str, arguments: Value<'v>) -> Call {
        let content = match arguments.str() {
            Some(text) => call_hash_of_text(tool, text, self.items.limits()),
            None => call_hash(tool, arguments),
        };
        Call {
            id: self.call_id(id),
            tool: self.recording.text(tool),
            content: Some(content),
            extras: self.extras(),
            ..Call::default()
        }
    }

    /// What the user said to the use of a tool.
    fn approval(&mut self, line: &Line<'v>) -> Option<String> {
        let id = self.text_of(line.value.get("toolCallId"), "toolCallId");
        // The step has what is decided about, which is told first.
        if let Some(step) = self.step.filter(|step| self.steps.calls.contains(&(*step, id))) {
            self.tell_step(step);
            self.recording.made_of(line.item);
        }
        let result = line.value.get("result");
        let decision = self.text_of(result.get("decision"), "result.decision");
        let feedback = self.text_of(result.get("feedback"), "result.feedback");
        let mut extras = self.extras();
        if !decision.is_empty() {
            extras = self.recording.extra_text(extras, "x_decision", decision);
        }
        let incoming = Incoming {
            id: self.id_of(line),
            from: Party::User,
            time: line.time,
            content: Some(hash(if feedback.is_empty() { decision } else { feedback })),
            trusted: Some(true),
            intervenes: true,
            decides: self.call_id(id),
            extras,
        };
        self.recording.incoming(self.agent, incoming);
        None
    }

    /// What a call gave back. It has `call`, the line of its call, where that is there.
    fn result(
        &mut self,
        line: &Line<'v>,
        (id, call): (&'v str, Option<usize>),
        output: Value<'v>,
        failed: Value<'v>,
    ) {
        if failed.bool().is_none() && failed.exists() {
            self.misfit("result.isError");
        }
        let tool =
            call.map_or("", |call| self.lines[call].value.path(&["event", "name"]).str().unwrap_or_default());
        let asked_at = call.and_then(|call| self.lines[call].time);
        let took =
            asked_at.zip(line.time).map(|(asked_at, end)| end.saturating_sub(asked_at).max(0) as f64 / 1e9);
        let text = match output.kind() {
            Some(Kind::String | Kind::Array) => text_of(output).into_owned(),
            _ if output.exists() => output.raw().to_owned(),
            _ => String::new(),
        };
        // The program says it of what failed alone.
        let ok =
            if failed.exists() && failed.bool().is_none() { None } else { Some(failed.bool() != Some(true)) };
        let result = CallResult {
            call: self.call_id(id),
            id: if id.is_empty() { self.id_of(line) } else { Text::default() },
            tool: self.recording.text(tool),
            time: line.time,
            duration_s: took,
            content: output.exists().then(|| hash(&text)),
            ok,
            trusted: Some(false),
            extras: self.extras(),
            ..CallResult::default()
        };
        match call.and_then(|call| self.delegates.remove(&call)) {
            Some(delegates) => self.returns(delegates, result, output),
            None => {
                self.recording.result(self.agent, result);
            }
        }
        let mut calls = match std::mem::take(&mut self.last) {
            Last::Response(calls, _) | Last::Result(calls) => calls,
            _ => BTreeSet::new(),
        };
        calls.remove(id);
        self.last = Last::Result(calls);
    }
}
