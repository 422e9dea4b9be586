//! Conversion of the lines of one agent to entries of a recording, in their order.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::line::{Line, counted_as, instant, is_of_user};
use super::paid_identity;
use super::steps::Steps;
use super::team::{Delegate, Team};
use super::usage::Read;
use crate::error::FindingCode;
use crate::importers::TraceItems;
use crate::importers::items::key_in_file;
use crate::importers::recording::{
    Agent, Call, CallResult, Entry, Hash, Incoming, Party, Recording, Response, Saying, Text, Usage,
    call_hash, call_hash_of_text, hash,
};
use crate::importers::responses::text_of;
use crate::json::Kind;
use crate::json::tree::Value;

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
                next = items.owner(identity).map(|key| key_in_file(key).0.trim_start_matches(super::FILE));
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
                Some(counted_as(kind))
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
                Some(counted_as(line.origin()))
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
            role => Some(counted_as(role)),
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

    /// A line of the agent's loop.
    fn event(&mut self, at: usize, line: &Line<'v>) -> Option<String> {
        let (kind, event) = line.event()?;
        let step = self.steps.of_line.get(&at).copied();
        match (kind, step) {
            ("step.begin", Some(step)) => {
                if self.steps.all[step].begin == at {
                    self.step = Some(step);
                } else {
                    self.items.duplicate(line.item as usize);
                }
            }
            ("step.end", Some(step)) => {
                if std::mem::replace(&mut self.ended[step], true) {
                    self.items.duplicate(line.item as usize);
                    return None;
                }
                let entry = self.tell_step(step);
                let read = Read::of(event.get("usage"));
                self.paid = Some(Paid { entry, read });
            }
            (_, Some(step)) => {
                self.tell_step(step);
            }
            ("tool.result", None) => {
                let call = self.steps.call_of.get(&at).copied();
                let id = self.text_of(event.first(&["toolCallId", "parentUuid"]), "event.toolCallId");
                let result = event.get("result");
                let (output, failed) = match result.kind() {
                    Some(Kind::Object) => (result.get("output"), result.get("isError")),
                    _ => (result, result.absent()),
                };
                self.result(line, (id, call), output, failed);
            }
            _ => return Some(counted_as(kind)),
        }
        None
    }

    /// The response of a step, which is told with the first line that shows it.
    fn tell_step(&mut self, at: usize) -> Entry {
        if let Some(entry) = self.told[at] {
            return entry;
        }
        let step = std::mem::take(&mut self.steps.all[at]);
        let is_stopped = step.end.is_none() && step.is_cancelled;
        let stop = step.end.map_or("", |end| self.text_of(end.get("finishReason"), "event.finishReason"));
        let read =
            Read::of(step.end.map_or_else(|| self.lines[step.begin].value.absent(), |end| end.get("usage")));
        if read.is_misfit {
            self.misfit("event.usage");
        }
        let part_extras = self.extras();
        let mut extras = part_extras;
        if step.requests > 1 {
            extras = self.recording.extra(extras, "x_retries", &(step.requests - 1).to_string());
        }
        if is_stopped {
            extras = self.recording.extra_text(extras, "x_error_type", "cancelled");
        }
        let id = self.step_id(step.id, step.begin);
        let response = Response {
            id,
            time: step.answered(self.lines),
            duration_s: step.took(self.lines),
            model: self.recording.text(step.model),
            usage: self.counted(&read),
            ok: is_stopped.then_some(false),
            extras,
            ..Response::default()
        };
        let entry = self.recording.response(self.agent, response);
        self.told[at] = Some(entry);
        self.tell_usage(&read, entry);
        let mut text = String::new();
        for part in &step.parts {
            let part = self.lines[*part].value.path(&["event", "part"]);
            match part.get("type").str() {
                Some("text") => text += self.text_of(part.get("text"), "event.part.text"),
                // Reasoning, images.
                Some(_) => {}
                None => self.misfit("event.part.type"),
            }
        }
        let mut open = BTreeSet::new();
        for line in &step.calls {
            open.insert(self.call(entry, *line));
        }
        let has_text = !text.is_empty();
        if has_text {
            self.said.insert(hash(&text));
            let saying = Saying { content: Some(hash(&text)), extras: part_extras, ..Saying::default() };
            self.recording.say(entry, saying);
        }
        // One that wants tools and has no call is cut.
        let is_whole = has_text && step.end.is_some() && !matches!(stop, "tool_use" | "tool_calls");
        self.last = if is_stopped { Last::Stopped } else { Last::Response(open, is_whole) };
        self.steps.all[at] = step;
        entry
    }

    /// Usage of a response that counts here.
    fn counted(&mut self, read: &Read) -> Usage {
        let Some(origin) = self.origin else { return read.usage };
        let (responses, tokens) = self.oddities.inherited.entry(origin).or_default();
        (*responses, *tokens) = (*responses + 1, tokens.saturating_add(read.usage.total().unwrap_or(0)));
        Usage::default()
    }

    fn tell_usage(&mut self, read: &Read, entry: Entry) {
        if read.is_empty && self.origin.is_none() {
            let message = "a response states a usage of 0 in all: what it took is not known";
            self.recording.finding(FindingCode::UsageIncomplete, Some(entry), message);
        }
        if let Some(name) = &read.unknown {
            let message = format!("usage has a count '{name}', which no rule knows");
            self.recording.finding(FindingCode::UsageUnknown, Some(entry), message);
        }
    }

    /// Tells requests that nobody answered, once the turn is over or the next step begins.
    fn unanswered(&mut self, at: usize) {
        let Some(step) = self.step.map(|step| &self.steps.all[step]) else { return };
        if step.stopped != Some(at) || step.is_answered() || step.has_loss || step.requests == 0 {
            return;
        }
        let line = &self.lines[at];
        let is_end = matches!(line.kind(), "turn.cancel" | "turn.ended");
        let (id, model, requests, asked) = (step.id, step.model, step.requests, step.asked);
        let (begin_at, is_cancelled) = (step.begin, step.is_cancelled);
        self.recording.made_of(self.lines[begin_at].item);
        let mut extras = self.extras();
        if requests > 1 {
            extras = self.recording.extra(extras, "x_retries", &(requests - 1).to_string());
        }
        if is_cancelled {
            extras = self.recording.extra_text(extras, "x_error_type", "cancelled");
        }
        let response = Response {
            id: self.step_id(id, begin_at),
            time: line.time.filter(|_| is_end).or(asked),
            model: self.recording.text(model),
            ok: Some(false),
            extras,
            ..Response::default()
        };
        self.recording.response(self.agent, response);
        self.last = Last::Stopped;
    }

    /// What a request took. That of a step says again what the step's end says; any other is of a request beside the
    /// steps: for a summary, or for a title.
    fn usage(&mut self, line: &Line<'v>) -> Option<String> {
        let read = Read::of(line.value.get("usage"));
        let model = self.text_of(line.value.get("model"), "model");
        let is_of_step = line.value.get("usageScope").str() != Some("session");
        let open = self.step.filter(|step| !self.ended[*step]).and_then(|step| self.steps.all[step].end);
        // It may be written before the end.
        if is_of_step && open.is_some_and(|end| Read::of(end.get("usage")) == read) {
            self.items.duplicate(line.item as usize);
            self.name_model(self.step.and_then(|step| self.told[step]), model);
            return None;
        }
        match self.paid.take().filter(|_| is_of_step) {
            Some(paid) if paid.read == read => {
                self.items.duplicate(line.item as usize);
                self.name_model(Some(paid.entry), model);
            }
            Some(paid) if !paid.read.states() => {
                let usage = self.counted(&read);
                if let Some(response) = self.recording.response_mut(paid.entry) {
                    response.usage = usage;
                }
                self.name_model(Some(paid.entry), model);
                self.tell_usage(&read, paid.entry);
            }
            Some(paid) => {
                let total = |read: &Read| read.usage.total().unwrap_or(0);
                let message = format!(
                    "'usage.record' states {} tokens, the end of its step {}, which count",
                    total(&read),
                    total(&paid.read)
                );
                self.recording.finding(FindingCode::UsageConflict, Some(paid.entry), message);
            }
            None => self.beside(line, &read, model),
        }
        if read.is_misfit {
            self.misfit("usage");
        }
        None
    }

    /// The model of a response whose request names none.
    fn name_model(&mut self, response: Option<Entry>, model: &str) {
        let model = self.recording.text(model);
        if let Some(response) = response.and_then(|entry| self.recording.response_mut(entry))
            && response.model.is_none()
        {
            response.model = model;
        }
    }

    /// A request that no step records.
    fn beside(&mut self, line: &Line<'v>, read: &Read, model: &str) {
        let (asked, summarizes) = std::mem::take(&mut self.summary);
        let took = |asked| line.time.map(|end| end.saturating_sub(asked)).filter(|took| *took >= 0);
        let model = if summarizes.is_empty() { model } else { summarizes };
        let response = Response {
            id: self.id_of(line),
            time: line.time,
            duration_s: asked.and_then(took).map(|took| took as f64 / 1e9),
            model: self.recording.text(model),
            usage: self.counted(read),
            helps: true,
            extras: self.extras(),
            ..Response::default()
        };
        let entry = self.recording.response(self.agent, response);
        self.tell_usage(read, entry);
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
