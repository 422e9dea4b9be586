//! SWE-agent trajectories (<https://swe-agent.com>) and those of mini-swe-agent: one run per file.
//!
//! `.traj` files have `trajectory`, a list of steps, and `history`, the messages; demonstrations have the history
//! alone. mini-swe-agent writes `messages` and `info`, and at first wrote the bare list of messages. A step is an
//! answer of the model, the command in it, and what the command printed. What becomes of the run on its benchmark lies
//! outside of the file: there is no reward.

use std::collections::VecDeque;

use sha2::{Digest, Sha256};

use super::hex::hex;
use super::{Confidence, ImporterInfo, Items, Record, SpreadImporter, TraceItems, usage};
use crate::columns::writer::TraceWriter;
use crate::error::{FindingCode, Reject, RejectCode};
use crate::importers::recording::{
    Agent, AgentInfo, Call, CallResult, Entry, Incoming, Label, Party, Recording, Response, Saying, Text,
    Usage, call_hash, call_hash_of_text, hash,
};
use crate::json::time::nanoseconds;
use crate::json::tree::{Tree, Value};
use crate::json::{Fault, Limits};
use crate::schema::{MeasureKind, TimeBasis};

/// The importer.
#[derive(Debug)]
pub struct SweAgent;

static INFO: ImporterInfo = ImporterInfo {
    name: "swe_agent",
    summary: "SWE-agent .traj files and mini-swe-agent trajectories: one run per file",
    evidence: &["trajectory", "history", "info"],
    suffixes: &[".traj", ".traj.json"],
    lenient: true,
};

impl SpreadImporter for SweAgent {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, path: &str) -> Confidence {
        match Shape::of(record) {
            Some(Shape::Message) if is_traj(path) => Confidence::Yes,
            Some(Shape::Message) | None => Confidence::No,
            Some(_) => Confidence::Yes,
        }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let tree = Tree::parse(record.text, out.limits()).map_err(Fault::into_reject)?;
        match Shape::of(tree.root()) {
            // A bare list of messages is a record a message: the file is what they have in common.
            Some(Shape::Message) => {
                let key = out.in_file(&format!("{}\n", task(record.stem)));
                out.item(&key, record.text, "");
            }
            Some(_) => {
                let key = out.in_file(&format!("{}\n{}", task(record.stem), short_hash(&[record.text])));
                out.item(&key, record.text, "");
            }
            None => {
                let message = "found neither 'trajectory', 'history' nor 'messages' with 'info'";
                return Err(Reject::new(RejectCode::FieldMissing, "trajectory", message));
            }
        }
        Ok(())
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        let texts: Vec<&str> = items.iter().map(|item| item.text).collect();
        let trees: Vec<Tree<'_>> =
            texts.iter().filter_map(|text| Tree::parse(text, items.limits()).ok()).collect();
        let Some(first) = trees.first().map(Tree::root) else { return };
        let mut recording = Recording::default();
        if trees.iter().any(Tree::is_replaced) {
            let message = "a surrogate without its other half was replaced by U+FFFD";
            recording.finding(FindingCode::Utf8Replaced, None, message);
        }
        let name = items.key().split_once('\n').map_or("", |(name, _)| name);
        let mut run = Run::new(first, name, &short_hash(&texts), &mut recording);
        match Shape::of(first) {
            Some(Shape::Steps) => run.steps(first),
            Some(Shape::Message) => {
                run.chat(&(0..).zip(trees.iter().map(Tree::root)).collect::<Vec<_>>());
                run.end(None);
            }
            _ => {
                let messages = first.first(&["messages", "history"]);
                run.chat(&messages.elements().map(|message| (0, message)).collect::<Vec<_>>());
                run.end(Some(first.get("info")).filter(|info| info.exists()));
            }
        }
        recording.beside(items);
        recording.write(out);
    }
}

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// A run with steps.
    Steps,
    /// A run with messages alone.
    Messages,
    /// One message of a run.
    Message,
}

impl Shape {
    fn of(record: Value<'_>) -> Option<Self> {
        let first = |key: &str| record.get(key).at(0);
        let has = |key: &str| record.get(key).exists();
        let is_step =
            |step: Value<'_>| step.get("action").str().is_some() && step.get("observation").exists();
        let is_mini = record.get("trajectory_format").str().is_some_and(|f| f.starts_with("mini-swe-agent"));
        let of_agent = |m: Value<'_>| m.get("role").str().is_some() && m.get("agent").str().is_some();
        if is_step(first("trajectory")) || (has("trajectory") && has("environment") && has("history")) {
            Some(Self::Steps)
        } else if (of_agent(first("history")) && !has("mistake_agent"))
            || (first("messages").get("role").str().is_some()
                && (is_mini
                    || record.path(&["info", "mini_version"]).exists()
                    || record.path(&["info", "exit_status"]).exists()))
        {
            Some(Self::Messages)
        } else if record.get("role").str().is_some() && has("content") && !has("type") {
            Some(Self::Message)
        } else {
            None
        }
    }
}

fn is_traj(path: &str) -> bool {
    let path = path.strip_suffix(".gz").or(path.strip_suffix(".zst")).unwrap_or(path);
    path.strip_suffix(".json").unwrap_or(path).strip_suffix(".traj").is_some()
}

/// The task that a file is named after.
fn task(stem: &str) -> &str {
    stem.strip_suffix(".traj").unwrap_or(stem)
}

/// Runs of one task lie in files of one name: their content distinguishes them.
fn short_hash(texts: &[&str]) -> String {
    let all: Vec<u8> = texts.iter().flat_map(|text| hash(text)).collect();
    let all = if texts.len() == 1 { all } else { Sha256::digest(&all).to_vec() };
    hex(&all[..8])
}

/// Tells one run.
struct Run<'r> {
    out: &'r mut Recording,
    agent: Agent,
    model: Text,
    /// Calls that have no result yet, with their ids in the source.
    pending: VecDeque<(String, Text, Text)>,
    /// Whether usage is recorded with the responses.
    counted: bool,
    /// Whether the last thing done was to hand in.
    submitted: bool,
    /// Whether the end was recorded.
    ended: bool,
}

impl<'r> Run<'r> {
    fn new(record: Value<'_>, name: &str, hashed: &str, out: &'r mut Recording) -> Self {
        let instance = record.first(&["instance_id"]).some_str();
        let task = instance.unwrap_or(name);
        let ids: Vec<&str> = [task, hashed].into_iter().filter(|part| !part.is_empty()).collect();
        out.trace.trace_id = out.text(&ids.join("/"));
        out.trace.task_id = out.text(task);
        let mini = Shape::of(record) == Some(Shape::Message)
            || record.get("trajectory_format").exists()
            || record.path(&["info", "mini_version"]).exists();
        out.trace.system = out.text(if mini { "mini_swe_agent" } else { "swe_agent" });
        let mut history = record.get("history").elements().chain(record.get("messages").elements());
        let named = history.find_map(|message| message.get("agent").some_str());
        let agent = AgentInfo { name: out.text(named.unwrap_or("agent")), ..AgentInfo::default() };
        let agent = out.agent(agent);
        let model = record.path(&["replay_config", "agent", "model", "name"]).some_str();
        let model = model.or(record.path(&["info", "config", "model", "model_name"]).some_str());
        let model = model.map_or(Text::default(), |model| out.text(model));
        Self { out, agent, model, pending: VecDeque::new(), counted: false, submitted: false, ended: false }
    }

    /// Something that the harness or a human says.
    fn hear(&mut self, id: Text, time: Option<i64>, content: Value<'_>) {
        let incoming = Incoming {
            id,
            from: Party::User,
            time,
            content: content_hash(content),
            trusted: Some(true),
            intervenes: false,
            decides: Text::default(),
            extras: Text::default(),
        };
        self.out.incoming(self.agent, incoming);
    }

    fn call(&mut self, response: Entry, id: &str, source: &str, tool: &str, arguments: &Arguments<'_>) {
        let content = match *arguments {
            Arguments::Value(value) => call_hash(tool, value),
            Arguments::Text(text) => call_hash_of_text(tool, text, LIMITS),
        };
        let (id, tool) = (self.out.text(id), self.out.text(tool));
        let call = Call { id, tool, content: Some(content), ..Call::default() };
        self.out.call(response, call);
        self.pending.push_back((source.to_owned(), id, tool));
    }

    /// A `.traj` file with steps.
    fn steps(&mut self, record: Value<'_>) {
        let steps = record.get("trajectory");
        let mut history = record.get("history");
        if history.is_empty() {
            history = steps.at(0).first(&["query", "messages"]);
        }
        for (at, message) in history.elements().enumerate() {
            match message.get("role").str() {
                Some("user") if !is_demo(message) => {
                    let id = self.out.join(&["h", &at.to_string()]);
                    self.hear(id, None, message.get("content"));
                }
                Some("assistant") if !is_demo(message) => break,
                _ => {}
            }
        }
        // Only what commands took is known: their sum is the time, without what the model took.
        let timed = steps.elements().any(|step| step.get("execution_time").f64().is_some());
        self.out.trace.time_basis = timed.then_some(TimeBasis::Partial);
        let mut now = 0_i64;
        for (at, step) in steps.elements().enumerate() {
            let id = format!("s{at}");
            let time = timed.then_some(now);
            let source = Response { id: self.out.text(&id), time, model: self.model, ..Response::default() };
            let response = self.out.response(self.agent, source);
            let action = step.get("action").str().unwrap_or_default();
            let tool = action.split_whitespace().next().unwrap_or_default();
            let thought = step.first(&["thought", "response"]);
            if let Some(content) = content_hash(thought) {
                self.out.say(response, Saying { content: Some(content), ..Saying::default() });
            }
            let observation = step.get("observation");
            let took = step.get("execution_time").f64().filter(|s| *s >= 0.0);
            now = now.saturating_add(took.map_or(0, |s| (s * 1e9).round() as i64));
            if tool.is_empty() {
                // Nothing was run: what comes back is the harness's.
                if observation.some_str().is_some() {
                    let id = self.out.join(&[&id, ":o"]);
                    self.hear(id, timed.then_some(now), observation);
                }
                continue;
            }
            let call = format!("{id}:c");
            self.call(response, &call, &call, tool, &Arguments::Text(action));
            self.pending.pop_back();
            let result = CallResult {
                call: self.out.text(&call),
                time: timed.then_some(now),
                duration_s: took,
                content: content_hash(observation),
                trusted: Some(false),
                ..CallResult::default()
            };
            if observation.exists() {
                self.out.result(self.agent, result);
            }
        }
        let attempts = record.get("attempts").len();
        if attempts > 1 {
            let message = format!("{attempts} attempts were made; only the chosen one is recorded");
            self.out.finding(FindingCode::FieldIgnored, None, message);
        }
        self.end(Some(record.get("info")));
    }

    /// Messages in order.
    /// Messages, each with the number of its item.
    fn chat(&mut self, messages: &[(u32, Value<'_>)]) {
        for (at, (item, message)) in
            messages.iter().enumerate().filter(|(_, (_, message))| !is_demo(*message))
        {
            self.out.made_of(*item);
            let extra = message.get("extra");
            let time = nanoseconds(extra.get("timestamp"), 9).filter(|time| *time > 0);
            let id = format!("m{at}");
            match message.get("role").str() {
                Some("system" | "developer") => {}
                Some("assistant") => self.assistant(&id, time, *message),
                Some("exit") => {
                    self.submitted = exit_ok(extra.get("exit_status").str().unwrap_or_default());
                    self.answer(time, message.get("content"), self.submitted, extra.get("exit_status").str());
                    self.label(extra.get("exit_status").str());
                }
                Some(_) => {
                    let answered_call = self.answered(*message);
                    let Some((call, tool)) = answered_call else {
                        let id = self.out.text(&id);
                        self.hear(id, time, message.get("content"));
                        continue;
                    };
                    let code = extra.get("returncode").i64();
                    let broken = extra.get("exception_info").some_str().is_some();
                    let mut extras = Text::default();
                    if let Some(code) = code {
                        extras = self.out.extra(extras, "x_returncode", &code.to_string());
                    }
                    if broken {
                        extras = self.out.extra_text(extras, "x_error_type", "exception");
                    }
                    let result = CallResult {
                        call,
                        tool,
                        time,
                        content: content_hash(message.get("content")),
                        ok: code.map(|code| code == 0 && !broken).or(broken.then_some(false)),
                        trusted: Some(false),
                        extras,
                        ..CallResult::default()
                    };
                    self.out.result(self.agent, result);
                }
                None => {
                    let message = format!("message {at} has no role");
                    self.out.finding(FindingCode::FieldIgnored, None, message);
                }
            }
        }
    }

    /// The call that a message answers: the one that it names, else the oldest without an answer.
    fn answered(&mut self, message: Value<'_>) -> Option<(Text, Text)> {
        let named = message.get("tool_call_id").some_str().or(message.get("tool_call_ids").at(0).some_str());
        let interrupts = message.path(&["extra", "interrupt_type"]).exists();
        let at = match named {
            Some(id) => self.pending.iter().position(|(source, ..)| source == id),
            None => None,
        };
        let at = at.or((!interrupts && !self.pending.is_empty()).then_some(0))?;
        self.pending.remove(at).map(|(_, call, tool)| (call, tool))
    }

    fn assistant(&mut self, id: &str, time: Option<i64>, message: Value<'_>) {
        self.pending.clear();
        let extra = message.get("extra");
        let usage = usage(extra.path(&["response", "usage"]), extra.get("cost"));
        self.counted |= usage != Usage::default();
        let model = extra.path(&["response", "model"]).some_str().map(|model| self.out.text(model));
        let source = Response {
            id: self.out.text(id),
            time,
            model: model.unwrap_or(self.model),
            usage,
            ..Response::default()
        };
        let response = self.out.response(self.agent, source);
        let content = message.first(&["thought", "content"]);
        let mut calls = 0;
        let mut next = || {
            calls += 1;
            format!("{id}:c{}", calls - 1)
        };
        self.submitted = false;
        if let Some(action) = message.get("action").some_str() {
            let tool = action.split_whitespace().next().unwrap_or_default();
            let source = message.get("tool_calls").at(0).get("id").str().unwrap_or_default();
            self.call(response, &next(), source, tool, &Arguments::Text(action));
            self.submitted = tool == "submit";
        } else if extra.get("actions").exists() {
            for action in extra.get("actions").elements() {
                let source = action.get("tool_call_id").str().unwrap_or_default();
                let command = action.get("command").str().or(action.str()).unwrap_or_default();
                self.call(response, &next(), source, "bash", &Arguments::Text(command));
            }
        } else if message.get("tool_calls").at(0).exists() {
            for call in message.get("tool_calls").elements() {
                let source = call.get("id").str().unwrap_or_default();
                let name = call.path(&["function", "name"]).str().unwrap_or_default();
                let arguments = call.path(&["function", "arguments"]);
                let arguments = arguments.str().map_or(Arguments::Value(arguments), Arguments::Text);
                self.call(response, &next(), source, name, &arguments);
            }
        } else if let Some(command) = only_block(content.str().unwrap_or_default()) {
            self.call(response, &next(), "", "bash", &Arguments::Text(command));
            self.submitted = FINAL.iter().any(|word| command.contains(word));
        }
        if let Some(content) = content_hash(content) {
            self.out.say(response, Saying { content: Some(content), ..Saying::default() });
        }
    }

    fn answer(&mut self, time: Option<i64>, content: Value<'_>, ok: bool, status: Option<&str>) {
        let mut extras = Text::default();
        if let Some(status) = status.filter(|_| !ok) {
            extras = self.out.extra_text(extras, "x_error_type", status);
        }
        let id = self.out.text("end");
        let content = content_hash(content);
        let saying = Saying { id, content, time, ok: (!ok).then_some(false), extras, ..Saying::default() };
        self.out.lone_saying(self.agent, saying);
        self.ended = true;
    }

    fn label(&mut self, status: Option<&str>) {
        if let Some(status) = status.filter(|status| !status.is_empty()) {
            let annotator = self.out.text("exit_status");
            let label = self.out.text(status);
            self.out.label(Label { annotator, label, ..Label::default() });
        }
    }

    /// How the run ended, and what it cost altogether.
    fn end(&mut self, info: Option<Value<'_>>) {
        let stats = info.map(|info| info.get("model_stats"));
        let number = |key: &str| stats.and_then(|stats| stats.get(key).f64());
        let (sent, received) = (number("tokens_sent"), number("tokens_received"));
        for (name, value) in
            [("tokens_sent", sent), ("tokens_received", received), ("api_calls", number("api_calls"))]
        {
            if let Some(value) = value {
                self.out.measure(MeasureKind::Metric, name, value);
            }
        }
        // A replay calls nobody, and says 0.
        if let Some(calls) = number("api_calls").filter(|calls| *calls > 0.0) {
            let held = self.out.usages(0).count();
            // A step in which nobody answered ends some runs: there may be more steps than calls.
            if calls as usize > held {
                self.out.claims("info.model_stats.api_calls", (calls as i64, held), "answers");
            }
        }
        if !self.counted {
            // Only the totals are known.
            if let (Some(sent), Some(received)) = (sent, received) {
                self.out.measure(MeasureKind::Cost, "tokens", sent + received);
            }
        }
        if let Some(cost) = number("instance_cost").filter(|cost| *cost > 0.0 || !self.counted) {
            let parts = self.out.usages(0).filter_map(|usage| usage.cost_usd).sum();
            self.out.price_of_run("instance_cost", cost, ("cost_usd", parts));
        }
        if self.ended {
            return;
        }
        let status = info.and_then(|info| info.get("exit_status").some_str());
        self.label(status);
        match (info, status) {
            (Some(info), Some(status)) => {
                self.answer(None, info.get("submission"), exit_ok(status), Some(status));
            }
            _ if self.submitted => {
                let id = self.out.text("end");
                self.out.lone_saying(self.agent, Saying { id, ..Saying::default() });
            }
            _ => self.out.agent_info(self.agent).open = true,
        }
    }
}

/// Arguments of a call as they stand.
enum Arguments<'v> {
    Value(Value<'v>),
    Text(&'v str),
}

/// Arguments are small.
const LIMITS: Limits = Limits { depth: 64, string: 64 << 20, lenient: true };

/// What mini-swe-agent echoes to hand in.
const FINAL: [&str; 2] = ["MINI_SWE_AGENT_FINAL_OUTPUT", "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"];

/// Messages that show how it is done and were not said in this run.
fn is_demo(message: Value<'_>) -> bool {
    message.get("is_demo").bool() == Some(true) || message.get("message_type").str() == Some("demonstration")
}

/// Whether a run ended because something was handed in.
fn exit_ok(status: &str) -> bool {
    status.get(..9).is_some_and(|head| head.eq_ignore_ascii_case("submitted"))
}

/// The one block of shell commands in a text, as the first versions of mini-swe-agent ask for it.
fn only_block(text: &str) -> Option<&str> {
    let mut blocks = text.split("```bash").skip(1);
    let block = blocks.next().filter(|_| blocks.next().is_none())?;
    let (command, _) = block.strip_prefix(|c: char| c.is_whitespace())?.split_once("\n```")?;
    Some(command.trim())
}

/// Hash of a text, or of the texts among parts.
fn content_hash(content: Value<'_>) -> Option<[u8; 32]> {
    if let Some(text) = content.str() {
        return (!text.is_empty()).then(|| hash(text));
    }
    let text: String = content.elements().filter_map(|part| part.get("text").str()).collect();
    (!text.is_empty()).then(|| hash(&text))
}

/// Usage as providers behind LiteLLM report it, which writes 0 for kinds that nobody counted.
fn usage(usage: Value<'_>, cost: Value<'_>) -> Usage {
    let counts = usage::of(usage).0;
    let part = |count: Option<i64>| count.filter(|n| *n > 0);
    Usage {
        cached: part(counts.cached),
        cache_write: part(counts.cache_write),
        reasoning: part(counts.reasoning),
        cost_usd: cost.f64(),
        ..counts
    }
}
