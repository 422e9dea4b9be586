//! Conversion of a session to a recording: one agent, in the order of the entries.

use std::collections::{BTreeMap, BTreeSet};

use super::entry::{Entry, entries, response_identity};
use super::merge;
use super::usage::Read;
use crate::error::FindingCode;
use crate::importers::TraceItems;
use crate::importers::entry_tree::Branches;
use crate::importers::file_key;
use crate::importers::kind::counted_as;
use crate::importers::parsed::ParsedItems;
use crate::importers::recording::{
    Agent, AgentInfo, Call, CallResult, Incoming, Mark, Party, Recording, Response, Saying, Text, Usage,
    call_hash, call_hash_of_text, hash,
};
use crate::importers::responses::text_of;
use crate::json::Kind;
use crate::json::time::instant;
use crate::json::tree::Value;
use crate::schema::EventType;

/// Who records where the first line does not say it.
const PI: &str = "pi";

/// Describes a session.
pub(super) fn describe(items: &TraceItems<'_>, parsed: &ParsedItems<'_>, recording: &mut Recording) {
    let (heads, mut entries) = entries(items, parsed);
    merge::merge_files(items, &mut entries);
    let head = heads.first().map(|(_, head)| *head);
    let of_head = |key: &str| head.and_then(|head| head.get(key).some_str());
    let id = of_head("id").unwrap_or_else(|| name_of(items.key()));
    recording.trace.trace_id = recording.text(id);
    recording.trace.system = recording.text(of_head("harness").unwrap_or(PI));
    recording.trace.partial = items.is_partial();
    if entries.iter().any(|entry| entry.time.is_some()) {
        let began = heads.iter().filter_map(|(_, head)| instant(head.get("timestamp")));
        recording.trace.started_at = began.chain(entries.iter().filter_map(|entry| entry.time)).min();
    }
    tell_heads(items, &heads, recording);
    let branches = Branches::of(&entries.iter().map(Entry::link).collect::<Vec<_>>());
    branches.report("entries", "parentId", recording);
    let name = recording.text(of_head("harness").unwrap_or(PI));
    let agent = recording.agent(AgentInfo { name, ..AgentInfo::default() });
    let session = Session {
        items,
        recording,
        agent,
        abandoned: false,
        origin: None,
        last: Last::Nothing,
        inherited: BTreeMap::new(),
        misfits: BTreeMap::new(),
        timeless: 0,
    };
    session.describe(&entries, &branches);
}

fn tell_heads(items: &TraceItems<'_>, heads: &[(u32, Value<'_>)], recording: &mut Recording) {
    let Some((_, first)) = heads.first() else { return };
    let id = first.get("id");
    if id.str().is_none() && id.exists() {
        recording.finding(FindingCode::FieldIgnored, None, "'id' of the session is not a string");
    }
    for (item, head) in &heads[1..] {
        items.ignored(*item as usize, "pi.session");
        if head.get("id").raw() != id.raw() {
            let message = "the file has the first lines of several sessions; the first one names the trace";
            recording.finding(FindingCode::TraceConflict, None, message);
        }
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
    /// A response that was aborted or failed.
    Stopped,
    /// A result, and the calls beside its own that have none.
    Result(BTreeSet<&'v str>),
}

/// A session during its conversion.
struct Session<'a, 'i, 'v> {
    items: &'a TraceItems<'i>,
    recording: &'a mut Recording,
    agent: Agent,
    /// Whether the entry of now is on a branch that was given up.
    abandoned: bool,
    /// The trace that the entries of now are copied from.
    origin: Option<&'a str>,
    last: Last<'v>,
    /// Responses and tokens that count in other traces.
    inherited: BTreeMap<&'a str, (u64, i64)>,
    /// Members of the wrong kind, by name.
    misfits: BTreeMap<&'static str, u32>,
    timeless: usize,
}

impl<'a, 'v> Session<'a, '_, 'v> {
    fn describe(mut self, entries: &[Entry<'v>], branches: &Branches)
    where
        'v: 'a,
    {
        let origins = self.origins(entries);
        for ((entry, abandoned), origin) in entries.iter().zip(&branches.abandoned).zip(origins) {
            self.recording.made_of(entry.item);
            // What was said last on another branch, or before a record that is lost, is not what is gone on from.
            if self.abandoned != *abandoned || entry.after_loss {
                self.last = Last::Nothing;
            }
            (self.abandoned, self.origin) = (*abandoned, origin);
            self.timeless += usize::from(entry.time.is_none());
            for (name, value) in [("timestamp", entry.value.get("timestamp"))] {
                if value.exists() && instant(value).is_none() {
                    self.misfit(name);
                }
            }
            if let Some(kind) = self.entry(entry) {
                self.items.ignored(entry.item as usize, &kind);
            }
        }
        let is_answered = matches!(&self.last, Last::Response(calls, true) if calls.is_empty());
        self.recording.agent_info(self.agent).open = !is_answered;
        self.oddities(entries.len());
    }

    /// The trace that each entry is copied from: that of the next response which counts elsewhere.
    fn origins(&self, entries: &[Entry<'v>]) -> Vec<Option<&'a str>> {
        let mut origins = vec![None; entries.len()];
        let mut next = None;
        for (origin, entry) in origins.iter_mut().zip(entries).rev() {
            if let Some(response) = response_identity(entry.value) {
                let owner = self.items.owner(response).map(name_of);
                next = owner.or(next);
                *origin = owner;
            } else {
                *origin = next;
            }
        }
        origins
    }

    /// Tells an entry, or gives the kind that it counts as.
    fn entry(&mut self, entry: &Entry<'v>) -> Option<String> {
        let message = entry.message();
        match entry.kind() {
            "message" => match message.get("role").str().unwrap_or_default() {
                "user" => self.user(entry, message.get("content"), Some(true)),
                "assistant" => self.assistant(entry),
                "toolResult" => self.result(entry),
                "bashExecution" => self.bash(entry),
                // What extensions say, of which nobody knows where they have it from.
                "custom" | "hookMessage" => self.user(entry, message.get("content"), None),
                // They repeat the summary of an entry.
                role => return Some(counted_as(PI, role)),
            },
            "custom_message" => self.user(entry, entry.value.get("content"), None),
            "compaction" | "branch_summary" => {
                self.recording.compaction(self.agent);
            }
            kind => return Some(counted_as(PI, kind)),
        }
        None
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

    /// The id of an entry; of a list its line, which is the same in every copy of the file.
    fn id(&mut self, entry: &Entry<'v>) -> Text {
        match (entry.id, entry.nth) {
            (Some(id), _) => self.recording.text(id),
            (None, 0) => self.recording.text(&format!("main:{}", entry.line)),
            (None, nth) => self.recording.text(&format!("main:{}:{}", entry.line, nth + 1)),
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

    /// Something said to the agent. In the middle of its work the user breaks in.
    fn user(&mut self, entry: &Entry<'v>, content: Value<'v>, trusted: Option<bool>) {
        let is_busy = match &self.last {
            Last::Result(_) => true,
            Last::Response(calls, _) => !calls.is_empty(),
            _ => false,
        };
        self.expect_content(content);
        self.incoming(entry, &text_of(content), trusted, is_busy && trusted.is_some(), Text::default());
        self.last = Last::Prompt;
    }

    fn incoming(
        &mut self,
        entry: &Entry<'v>,
        text: &str,
        trusted: Option<bool>,
        intervenes: bool,
        more: Text,
    ) {
        let extras = if more.is_none() { self.extras() } else { more };
        let incoming = Incoming {
            id: self.id(entry),
            from: Party::User,
            time: entry.time,
            content: Some(hash(text)),
            trusted,
            intervenes,
            decides: Text::default(),
            extras,
        };
        self.recording.incoming(self.agent, incoming);
    }

    fn expect_content(&mut self, content: Value<'v>) {
        if content.exists() && !matches!(content.kind(), Some(Kind::String | Kind::Array)) {
            self.misfit("message.content");
        }
    }

    fn assistant(&mut self, entry: &Entry<'v>) {
        let message = entry.message();
        let stop = self.text_of(message.get("stopReason"), "message.stopReason");
        let is_stopped = matches!(stop, "aborted" | "error");
        let began = instant(message.get("timestamp"));
        let took = |began| entry.time.map(|end| end.saturating_sub(began)).filter(|took| *took >= 0);
        // Without a time of the entry it is the message's own, which is when it began.
        let is_timed = instant(entry.value.get("timestamp")).is_some();
        let model = self.text_of(message.get("model"), "message.model");
        let read = self.usage(message.get("usage"));
        let part_extras = self.extras();
        let mut extras = part_extras;
        if is_stopped {
            extras = self.recording.extra_text(extras, "x_error_type", stop);
        }
        let response = Response {
            id: self.id(entry),
            time: entry.time,
            duration_s: began.filter(|_| is_timed).and_then(took).map(|took| took as f64 / 1e9),
            model: self.recording.text(model),
            usage: if self.origin.is_some() { Usage::default() } else { read.usage },
            ok: is_stopped.then_some(false),
            extras,
            ..Response::default()
        };
        let response = self.recording.response(self.agent, response);
        if read.is_empty && self.origin.is_none() {
            let message = "a response states a usage of 0 in all: what it took is not known";
            self.recording.finding(FindingCode::UsageIncomplete, Some(response), message);
        }
        if let Some(name) = read.unknown {
            let message = format!("usage has a count '{name}', which no rule knows");
            self.recording.finding(FindingCode::UsageUnknown, Some(response), message);
        }
        if let Some(origin) = self.origin {
            let (responses, tokens) = self.inherited.entry(origin).or_default();
            let all = read.usage.total().unwrap_or(0);
            (*responses, *tokens) = (*responses + 1, tokens.saturating_add(all));
        }
        let content = message.get("content");
        self.expect_content(content);
        let mut calls = BTreeSet::new();
        let mut texts = content.str().unwrap_or_default().to_owned();
        for block in content.elements() {
            match block.get("type").str() {
                Some("text") => texts += self.text_of(block.get("text"), "message.content.text"),
                Some("toolCall") => {
                    let id = self.text_of(block.get("id"), "message.content.id");
                    let tool = self.text_of(block.get("name"), "message.content.name");
                    let arguments = block.get("arguments");
                    let content = match arguments.str() {
                        Some(text) => call_hash_of_text(tool, text, self.items.limits()),
                        None => call_hash(tool, arguments),
                    };
                    let call = Call {
                        id: self.recording.text(id),
                        tool: self.recording.text(tool),
                        content: Some(content),
                        extras: part_extras,
                        ..Call::default()
                    };
                    self.recording.call(response, call);
                    calls.insert(id);
                }
                // Reasoning, images.
                Some(_) => {}
                None => self.misfit("message.content.type"),
            }
        }
        let has_text = !texts.is_empty();
        if has_text {
            let saying = Saying { content: Some(hash(&texts)), extras: part_extras, ..Saying::default() };
            self.recording.say(response, saying);
        }
        // One that wants tools and has no call is cut.
        let is_whole = has_text && stop != "toolUse";
        self.last = if is_stopped { Last::Stopped } else { Last::Response(calls, is_whole) };
    }

    fn usage(&mut self, usage: Value<'v>) -> Read {
        let read = Read::of(usage);
        for name in &read.misfits {
            self.misfit(name);
        }
        read
    }

    fn result(&mut self, entry: &Entry<'v>) {
        let message = entry.message();
        let failed = message.get("isError");
        if failed.bool().is_none() && failed.exists() {
            self.misfit("message.isError");
        }
        let content = message.get("content");
        self.expect_content(content);
        let call = self.text_of(message.get("toolCallId"), "message.toolCallId");
        let tool = self.text_of(message.get("toolName"), "message.toolName");
        let result = CallResult {
            call: self.recording.text(call),
            id: if call.is_empty() { self.id(entry) } else { Text::default() },
            tool: self.recording.text(tool),
            time: entry.time,
            content: content.exists().then(|| hash(&text_of(content))),
            ok: failed.bool().map(|failed| !failed),
            trusted: Some(false),
            extras: self.extras(),
            ..CallResult::default()
        };
        self.recording.result(self.agent, result);
        let mut calls = match std::mem::take(&mut self.last) {
            Last::Response(calls, _) | Last::Result(calls) => calls,
            _ => BTreeSet::new(),
        };
        calls.remove(call);
        self.last = Last::Result(calls);
    }

    /// A command that the user ran. The model reads what it printed, unless the user kept that from it.
    fn bash(&mut self, entry: &Entry<'v>) {
        let message = entry.message();
        let command = self.text_of(message.get("command"), "message.command");
        let mut extras = self.extras();
        for (name, member) in [("x_exit_code", "exitCode"), ("x_cancelled", "cancelled")] {
            let value = message.get(member);
            if value.i64().is_some() || value.bool() == Some(true) {
                extras = self.recording.extra(extras, name, value.raw());
            }
        }
        if message.get("excludeFromContext").bool() != Some(true) {
            return self.incoming(entry, command, Some(false), true, extras);
        }
        let mark = Mark {
            event_type: EventType::HumanIntervention,
            id: self.id(entry),
            by: Some(Party::User),
            to: Some(self.agent),
            time: entry.time,
            content: Some(hash(command)),
            trusted: Some(true),
            ok: None,
            tool: Text::default(),
            extras,
        };
        self.recording.mark(self.agent, mark);
    }

    /// What the tables have no place for.
    fn oddities(self, entries: usize) {
        if self.timeless > 0 && self.timeless < entries {
            let message = format!(
                "entries without a readable time: {}; they have that of the entry before",
                self.timeless
            );
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
        for (name, n) in self.misfits {
            let message = format!("'{name}' is of the wrong type in {n} entries; it is null there");
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
        self.recording.inherits(self.inherited.into_iter().collect());
    }
}

/// The name of the trace of a key.
fn name_of(key: &str) -> &str {
    file_key::name(key, PI)
}
