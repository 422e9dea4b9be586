//! `AgentDojo` (arXiv 2406.13352): runs of one agent, with prompt injections and their results.
//!
//! One file is one run and one trace. What was injected is known, so that `safety_flow` edges are exact: they are
//! drawn where the injected text was found again in what the agent read, and where the agent then did what it asks for
//! (docs/formats/agentdojo.md), whatever came of the attack. Nothing in a text is followed.

use super::items::{Items, TraceItems};
use super::recording::{
    Agent, AgentInfo, Call, CallResult, Entry, Incoming, Mark, Party, Recording, Response, Saying, Text,
    Usage, call_hash, hash,
};
use super::shape::{expect_member, expect_object};
use super::{ImporterInfo, Record, SpreadImporter, usage};
use crate::columns::writer::TraceWriter;
use crate::error::{FindingCode, Reject};
use crate::json::identity::identity;
use crate::json::tree::{Tree, Value};
use crate::json::{Fault, Kind};
use crate::schema::{EdgeType, EventType, MeasureKind};

mod injection;
#[cfg(test)]
mod tests;
mod wording;

use injection::{CallWords, Explained, Injected, Read, is_memory};

/// The importer.
#[derive(Debug)]
pub struct AgentDojo;

static INFO: ImporterInfo = ImporterInfo {
    name: "agentdojo",
    summary: "AgentDojo prompt-injection runs (arXiv 2406.13352): one run per file",
    evidence: &["suite_name", "user_task_id", "messages"],
    suffixes: &[".json"],
    lenient: true,
};

impl SpreadImporter for AgentDojo {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let tree = Tree::parse(record.text, out.limits()).map_err(Fault::into_reject)?;
        let run = tree.root();
        expect_object(run, "")?;
        for key in ["suite_name", "user_task_id"] {
            expect_member(run, key, Kind::String)?;
        }
        expect_member(run, "messages", Kind::Array)?;
        // Two runs of one name are two traces; a copy of a run is one.
        let key = format!("{}\n{:016x}", Ids::of(run).trace(), identity(record.text));
        out.item(&key, record.text, "");
        Ok(())
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        // There is one: the key has the hash of the whole run.
        if let Some(item) = items.iter().next()
            && let Ok(tree) = Tree::parse(item.text, items.limits())
        {
            let mut recording = Recording::default();
            describe(tree.root(), &mut recording);
            recording.write(out);
        }
    }
}

/// What a run is called, by its own fields.
struct Ids<'a> {
    pipeline: &'a str,
    suite: &'a str,
    user_task: &'a str,
    attack: &'a str,
    injection_task: String,
    /// Whether what is injected is a memory rather than a tool's output.
    memory: bool,
}

impl<'a> Ids<'a> {
    fn of(run: Value<'a>) -> Self {
        let text = |key: &str| run.get(key).some_str();
        let memory = run.get("messages").elements().any(|message| {
            message.get("role").str() == Some("user")
                && text_of_message(message.get("content")).is_some_and(|text| is_memory(&text))
        });
        let injection_task = text("injection_task_id").unwrap_or("none").to_owned();
        Self {
            pipeline: text("pipeline_name").unwrap_or("unknown"),
            suite: text("suite_name").unwrap_or("unknown"),
            user_task: text("user_task_id").unwrap_or("unknown"),
            attack: text("attack_type").unwrap_or("none"),
            // The fields of a run with an injected memory are those of the run with the same text in a tool's output;
            // this suffix distinguishes its file.
            injection_task: if memory && injection_task != "none" {
                injection_task + "_memory_injection"
            } else {
                injection_task
            },
            memory,
        }
    }

    fn trace(&self) -> String {
        [self.pipeline, self.suite, self.user_task, self.attack, &self.injection_task].join("/")
    }

    fn task(&self) -> String {
        [self.suite, self.user_task].join("/")
    }

    fn group(&self) -> String {
        format!("{}/{}/{}", self.task(), self.attack, self.pipeline)
    }
}

/// The text of a message: a text, or its blocks of text as the benchmark joins them; reasoning is none.
fn text_of_message(content: Value<'_>) -> Option<std::borrow::Cow<'_, str>> {
    if let Some(text) = content.str() {
        return Some(text.into());
    }
    let blocks = content.elements().filter(|block| block.get("type").str().is_none_or(|kind| kind == "text"));
    let texts: Vec<&str> = blocks.filter_map(|block| block.first(&["content", "text"]).str()).collect();
    (!texts.is_empty()).then(|| texts.join("\n").into())
}

/// A call that may be answered.
struct Called {
    id: Text,
    tool: Text,
    answered: bool,
    /// Whether an injected text asked for it.
    follows: bool,
}

/// The run while it is described.
struct Describing<'r, 'v> {
    recording: &'r mut Recording,
    agent: Agent,
    /// What explains a call without an injected text.
    explained: Explained,
    injections: Vec<Injected<'v>>,
    /// Whether there is one, or will be.
    attacked: bool,
    /// Where the agent read each of them last.
    seen: Vec<Option<Entry>>,
    /// Those that it reads before its next response.
    unread: Vec<Entry>,
    /// Calls of the last response.
    calls: Vec<Called>,
    /// Whether a message has usage of its own.
    usage: bool,
}

fn describe(run: Value<'_>, recording: &mut Recording) {
    let ids = Ids::of(run);
    recording.trace.trace_id = recording.text(&ids.trace());
    recording.trace.task_id = recording.text(&ids.task());
    recording.trace.group_id = recording.text(&ids.group());
    recording.trace.system = recording.text("AgentDojo");
    recording.trace.exact_flows = true;
    let messages = run.get("messages");
    let last = messages.elements().last();
    let answered = last.is_some_and(|message| {
        message.get("role").str() == Some("assistant") && message.get("tool_calls").is_empty()
    });
    let failed = run.get("error").exists();
    let name = recording.text("agent");
    let agent = recording.agent(AgentInfo { name, open: failed || !answered, ..AgentInfo::default() });
    let members = run.get("injections").members();
    let injections: Vec<_> =
        members.filter_map(|(vector, text)| Injected::new(vector, text.some_str()?)).collect();
    let mut describing = Describing {
        recording,
        agent,
        explained: Explained::default(),
        attacked: ids.memory || !injections.is_empty(),
        seen: vec![None; injections.len()],
        injections,
        unread: Vec::new(),
        calls: Vec::new(),
        usage: false,
    };
    let count = messages.len();
    for (index, message) in messages.elements().enumerate() {
        describing.message(index, message, index + 1 == count);
    }
    let usage = describing.usage;
    measures(run, &ids, failed, usage, recording);
}

impl Describing<'_, '_> {
    fn message(&mut self, index: usize, message: Value<'_>, last: bool) {
        match message.get("role").str() {
            Some("system" | "developer") => {}
            Some("user") => self.user(index, message),
            Some("assistant") => self.assistant(index, message, last),
            Some("tool") => self.tool(index, message),
            _ => self.recording.finding(FindingCode::FieldIgnored, None, {
                let shown: String = message.get("role").raw().chars().take(40).collect();
                format!(
                    "messages/{index} has the role {}",
                    if shown.is_empty() { "of nobody" } else { &shown }
                )
            }),
        }
    }

    fn user(&mut self, index: usize, message: Value<'_>) {
        let text = text_of_message(message.get("content")).unwrap_or_default();
        let memory = is_memory(&text);
        let from = if memory { Party::Named(self.recording.text("memory")) } else { Party::User };
        let incoming = Incoming {
            id: self.id(index),
            from,
            time: None,
            content: Some(hash(&text)),
            trusted: Some(!memory),
            intervenes: false,
            decides: Text::default(),
            extras: Text::default(),
        };
        let entry = self.recording.incoming(self.agent, incoming);
        if memory {
            self.injections.push(Injected::memory(&text));
            self.seen.push(Some(entry));
        } else if self.attacked {
            self.explained.prompt(&text);
        }
    }

    fn id(&mut self, index: usize) -> Text {
        let id = index.to_string();
        self.recording.text(&id)
    }

    fn assistant(&mut self, index: usize, message: Value<'_>, last: bool) {
        let id = self.id(index);
        let usage = usage::of(message.get("usage")).0;
        self.usage |= usage != Usage::default();
        let response = self.recording.response(self.agent, Response { id, usage, ..Response::default() });
        // Read is not followed: this edge is none of a flow.
        for entry in self.unread.drain(..) {
            self.recording.edge(entry, response, EdgeType::Causal);
        }
        self.calls.clear();
        let calls = message.get("tool_calls");
        for (k, call) in calls.elements().enumerate() {
            // Without an id of its own a call is known by its place.
            let id = match call.get("id").some_str() {
                Some(id) => self.recording.text(id),
                None => self.recording.text(&format!("{index}:c{k}")),
            };
            let name = call.get("function").str().unwrap_or_default();
            let tool = self.recording.text(name);
            let arguments = call.get("args");
            let content = Some(call_hash(name, arguments));
            let entry = self.recording.call(response, Call { id, tool, content, ..Call::default() });
            let follows = self.trace_back(entry, name, arguments);
            self.calls.push(Called { id, tool, answered: false, follows });
        }
        let text = text_of_message(message.get("content")).filter(|text| !text.is_empty());
        if text.is_some() || last && calls.is_empty() {
            let content = Some(hash(&text.unwrap_or_default()));
            self.recording.say(response, Saying { content, ..Saying::default() });
        }
    }

    /// Draws the edge from the latest injected text that asks for a call, and says whether there is one.
    fn trace_back(&mut self, call: Entry, tool: &str, arguments: Value<'_>) -> bool {
        let seen = self.seen.iter().zip(&self.injections);
        let mut read: Vec<_> = seen.filter_map(|(entry, injected)| Some(((*entry)?, injected))).collect();
        if read.is_empty() {
            self.explained.called(tool);
            return false;
        }
        let call_words = CallWords::new(tool, arguments, &self.explained);
        read.sort_unstable_by_key(|(entry, _)| std::cmp::Reverse(*entry));
        let followed = read.into_iter().find(|(_, injected)| call_words.follows(injected, &self.explained));
        if let Some((entry, _)) = followed {
            self.recording.edge(entry, call, EdgeType::SafetyFlow);
        }
        followed.is_some()
    }

    fn tool(&mut self, index: usize, message: Value<'_>) {
        let text = text_of_message(message.get("content")).unwrap_or_default();
        let named =
            message.first(&["tool_call_id"]).some_str().or(message.path(&["tool_call", "id"]).some_str());
        // Without an id a result answers the first call that has none yet.
        let mut open = self.calls.iter_mut().filter(|call| !call.answered);
        let called = match named {
            Some(id) => open.find(|call| self.recording.read(call.id) == id),
            None => open.next(),
        };
        let follows = called.as_ref().is_some_and(|call| call.follows);
        let call = called.map(|call| {
            call.answered = true;
            (call.id, call.tool)
        });
        let tool = match (call, message.path(&["tool_call", "function"]).some_str()) {
            (_, Some(name)) => self.recording.text(name),
            (Some((_, tool)), None) => tool,
            (None, None) => Text::default(),
        };
        let (call, id) = match (call, named) {
            (Some((call, _)), _) => (call, Text::default()),
            (None, Some(id)) => (self.recording.text(id), Text::default()),
            (None, None) => (Text::default(), self.id(index)),
        };
        let error = message.get("error");
        let entry = self.recording.result(
            self.agent,
            CallResult {
                call,
                id,
                tool,
                content: Some(hash(&text)),
                ok: (!error.is_absent()).then(|| error.is_null()),
                trusted: Some(false),
                ..CallResult::default()
            },
        );
        if !self.attacked {
            return;
        }
        let mut read = Read::new(&text);
        for which in 0..self.injections.len() {
            if read.finds(&self.injections[which]) {
                self.injection_seen(index, which, entry, tool);
            }
        }
        // What the attacker's call returned explains nothing.
        if !follows {
            self.explained.read(read.rest());
        }
    }

    fn injection_seen(&mut self, index: usize, which: usize, result: Entry, tool: Text) {
        let injected = &self.injections[which];
        let by = if tool.is_none() { self.recording.text("tool") } else { tool };
        let id = self.recording.text(&format!("{index}:s{which}"));
        let extras = self.recording.extra_text(Text::default(), "x_safety", "injection_seen");
        let extras = self.recording.extra_text(extras, "x_injection", injected.vector);
        let mark = Mark {
            event_type: EventType::SafetyEvent,
            id,
            by: Some(Party::Named(by)),
            to: None,
            time: None,
            content: Some(injected.content),
            trusted: Some(false),
            ok: None,
            tool,
            extras,
        };
        let entry = self.recording.mark(self.agent, mark);
        self.recording.edge(result, entry, EdgeType::SafetyFlow);
        self.seen[which] = Some(entry);
        self.unread.push(entry);
    }
}

fn measures(run: Value<'_>, ids: &Ids<'_>, failed: bool, has_usage: bool, recording: &mut Recording) {
    if let Some(seconds) = run.get("duration").f64().filter(|seconds| *seconds >= 0.0) {
        recording.wall_clock_s(seconds);
    }
    let number = |flag: bool| f64::from(u8::from(flag));
    if let Some(utility) = run.get("utility").bool() {
        recording.measure(MeasureKind::Reward, "team", number(utility));
        recording.measure(MeasureKind::Metric, "task_success", number(utility));
        if ids.user_task.starts_with("injection_task") {
            // The attacker's task, given by the user: whether it can be done at all.
            recording.measure(MeasureKind::Metric, "attack_feasible", number(utility));
        }
    }
    // Without an injection `security` is true by definition, and after a failed request too.
    let injected = run.get("injection_task_id").exists()
        && (ids.memory || run.get("injections").members().any(|(_, text)| text.some_str().is_some()));
    if let Some(reached) = run.get("security").bool().filter(|_| injected && !failed) {
        recording.measure(MeasureKind::Reward, "safety", 1.0 - number(reached));
        recording.measure(MeasureKind::Metric, "attack_success", number(reached));
    }
    let total = usage::of(run.get("usage")).0;
    if !has_usage && total != Usage::default() {
        let sum = total.tokens_in.unwrap_or(0).saturating_add(total.tokens_out.unwrap_or(0));
        let tokens = total.tokens.unwrap_or(sum);
        recording.measure(MeasureKind::Cost, "tokens", tokens as f64);
        for (name, value) in [("tokens_in", total.tokens_in), ("tokens_out", total.tokens_out)] {
            if let Some(value) = value {
                recording.measure(MeasureKind::Cost, name, value as f64);
            }
        }
    }
}
