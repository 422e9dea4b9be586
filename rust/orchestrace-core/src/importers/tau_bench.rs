//! tau-bench (arXiv 2406.12045) and tau2-bench (arXiv 2506.07982): an agent with tools and a simulated user.
//!
//! A record of tau-bench is a trajectory, an element of an array; tau2-bench puts its simulations into one document
//! or one file each. Both are logs of a chat: a turn is the index of a message. The user is played by a model, hence
//! an agent of its own, whom the other answers. The older has no times and no tokens, the newer has both
//! (`docs/formats/tau_bench.md`).

use super::items::{Items, TraceItems};
use super::recording::{
    Agent, AgentInfo, Call, CallResult, Party, Recording, Response, Saying, Text, call_hash,
    call_hash_of_text, hash,
};
use super::shape::{expect_object, sure_by_keys};
use super::{Confidence, ImporterInfo, Record, SpreadImporter};
use crate::columns::writer::TraceWriter;
use crate::error::{FindingCode, Reject, RejectCode};
use crate::json::identity::identity;
use crate::json::tree::{Tree, Value};
use crate::json::{Fault, Kind, Limits};
use crate::schema::{AgentKind, MeasureKind};

mod simulation;

/// The importer.
#[derive(Debug)]
pub struct TauBench;

static INFO: ImporterInfo = ImporterInfo {
    name: "tau_bench",
    summary: "tau-bench trajectories (arXiv 2406.12045) and tau2-bench simulations (arXiv 2506.07982)",
    evidence: &["traj", "reward", "task_id"],
    suffixes: &[".json"],
    lenient: true,
};

/// A document of tau2-bench, and a simulation that has a file of its own.
const RESULTS: &[&str] = &["simulations", "tasks", "info"];
const SIMULATION: &[&str] = &["messages", "task_id", "termination_reason"];

/// The tool that hands the user to a human and so ends the run.
const TRANSFER: &str = "transfer_to_human_agents";

/// What the simulated user says to end the run.
const STOPS: [&str; 3] = ["###STOP###", "###TRANSFER###", "###OUT-OF-SCOPE###"];

impl SpreadImporter for TauBench {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        let info = record.get("info");
        // The simulations of a document come last, beyond what is looked at if its tasks are many.
        let begins = !info.get("agent_info").is_absent() && !info.get("user_info").is_absent();
        let sure = [INFO.evidence, RESULTS, SIMULATION].map(|keys| sure_by_keys(record, keys));
        match sure.into_iter().max() {
            Some(Confidence::Maybe) if begins => Confidence::Yes,
            sure => sure.unwrap_or(Confidence::No),
        }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let tree = Tree::parse(record.text, out.limits()).map_err(Fault::into_reject)?;
        let root = tree.root();
        expect_object(root, "")?;
        if root.get("simulations").is_absent() {
            let key = check(root, "").map(|()| out.in_file(&key(root, record)))?;
            out.item(&key, record.text, "");
            return Ok(());
        }
        if root.get("simulations").kind() != Some(Kind::Array) {
            let message = "found no array, expected the simulations";
            return Err(Reject::new(RejectCode::FieldType, "/simulations", message));
        }
        for (index, run) in root.get("simulations").elements().enumerate() {
            match check(run, &format!("/simulations/{index}")) {
                Ok(()) => out.item(&out.in_file(&key(run, record)), run.raw(), root.get("info").raw()),
                Err(reject) => out.reject(run.raw(), reject),
            }
        }
        Ok(())
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        let Some(item) = items.iter().next() else { return };
        let Ok(tree) = Tree::parse(item.text, items.limits()) else { return };
        let (run, mut recording) = (tree.root(), Recording::default());
        let names = Names::of(items.key());
        if run.get("traj").is_absent() {
            let context = Tree::parse(item.context, items.limits()).ok();
            simulation::describe(
                run,
                context.as_ref().map(Tree::root),
                &names,
                items.limits(),
                &mut recording,
            );
        } else {
            trajectory(run, &names, items, &mut recording);
        }
        recording.write(out);
    }
}

/// What is wrong with a run.
fn check(run: Value<'_>, path: &str) -> Result<(), Reject> {
    expect_object(run, path)?;
    let log = run.first(&["traj", "messages"]);
    let written = run.first(&["traj", "messages", "ticks"]);
    if written.is_absent() || (log.exists() && log.kind() != Some(Kind::Array)) {
        let message = "found no array, expected the messages";
        return Err(Reject::new(RejectCode::FieldType, format!("{path}/traj"), message));
    }
    if id(run.get("task_id")).is_none() {
        let message = "found no task, expected a text or a whole number";
        return Err(Reject::new(RejectCode::FieldMissing, format!("{path}/task_id"), message));
    }
    Ok(())
}

/// A text or a whole number as text.
fn id(value: Value<'_>) -> Option<&str> {
    value.some_str().or_else(|| value.i64().map(|_| value.raw()))
}

/// The key of a run in its file: the name of its trace, and what distinguishes runs of one name that are not the same.
fn key(run: Value<'_>, record: &Record<'_>) -> String {
    let task = id(run.get("task_id")).unwrap_or_default();
    let trial = id(run.get("trial")).unwrap_or("0");
    [record.stem, task, trial, &format!("{:016x}", identity(run.raw()))].join("\n")
}

/// What a run is called, out of its key.
struct Names<'a> {
    stem: &'a str,
    task: &'a str,
    trial: &'a str,
}

impl<'a> Names<'a> {
    fn of(key: &'a str) -> Self {
        let mut parts = key.rsplitn(4, '\n').skip(1);
        let (trial, task) = (parts.next().unwrap_or("0"), parts.next().unwrap_or_default());
        Self { stem: parts.next().unwrap_or_default(), task, trial }
    }

    /// The task under the name of its file, if that has one: ids repeat over domains and models.
    fn task(&self) -> String {
        if self.stem.is_empty() { self.task.to_owned() } else { format!("{}/{}", self.stem, self.task) }
    }
}

/// The two who speak.
#[derive(Debug, Clone, Copy)]
struct Speakers {
    assistant: Agent,
    user: Agent,
}

impl Speakers {
    /// `open`: whether the run goes on beyond the recording.
    fn of(recording: &mut Recording, open: bool) -> Self {
        let name = recording.text("assistant");
        let assistant = recording.agent(AgentInfo { name, open, ..AgentInfo::default() });
        let name = recording.text("user_simulator");
        let user =
            recording.agent(AgentInfo { name, outside: Some(AgentKind::User), ..AgentInfo::default() });
        Self { assistant, user }
    }

    fn by_role(self, role: &str) -> Agent {
        if role == "user" { self.user } else { self.assistant }
    }

    fn other(self, agent: Agent) -> Agent {
        if agent == self.user { self.assistant } else { self.user }
    }
}

fn is_stop(text: &str) -> bool {
    STOPS.iter().any(|stop| text.contains(stop))
}

fn number(flag: Value<'_>) -> Option<f64> {
    flag.f64().or_else(|| flag.bool().map(|flag| f64::from(u8::from(flag))))
}

/// Index as the text of an id.
fn place(index: usize, recording: &mut Recording) -> Text {
    let id = index.to_string();
    recording.text(&id)
}

/// A message of somebody who is neither of the two.
fn unknown(index: usize, message: Value<'_>, recording: &mut Recording) {
    let shown: String = message.get("role").raw().chars().take(40).collect();
    let shown = if shown.is_empty() { "of nobody" } else { &shown };
    recording.finding(FindingCode::FieldIgnored, None, format!("message {index} has the role {shown}"));
}

/// A trajectory of tau-bench.
fn trajectory(run: Value<'_>, names: &Names<'_>, items: &TraceItems<'_>, recording: &mut Recording) {
    let log = run.get("traj");
    let crashed = run.path(&["info", "error"]).exists();
    if crashed && log.is_empty() {
        items.ignored(0, "tau_bench.crashed");
        return;
    }
    let task = names.task();
    recording.trace.trace_id = recording.text(&format!("{task}/{}", names.trial));
    recording.trace.task_id = recording.text(&task);
    recording.trace.system = recording.text("tau-bench");
    // The benchmark judges a run when it is over; one without a verdict ran out of steps.
    let ends = log.elements().last().is_some_and(|last| {
        let text = last.get("content").str().unwrap_or_default();
        last.get("role").str() == Some("user") && is_stop(text) || last.get("name").str() == Some(TRANSFER)
    });
    let judged = run.path(&["info", "reward_info"]).exists();
    let speakers = Speakers::of(recording, crashed || !(judged || ends));
    for (index, message) in log.elements().enumerate() {
        match message.get("role").str() {
            Some("system") => {}
            Some("tool") => result(index, message, speakers, recording),
            Some(role @ ("user" | "assistant")) => {
                describe_turn(index, message, speakers.by_role(role), speakers, items.limits(), recording);
            }
            _ => unknown(index, message, recording),
        }
    }
    if !crashed && let Some(reward) = run.get("reward").f64() {
        recording.measure(MeasureKind::Reward, "team", reward);
    }
    let reward = run.path(&["info", "reward_info", "info"]);
    for name in ["r_actions", "r_outputs"] {
        if let Some(value) = number(reward.get(name)) {
            recording.measure(MeasureKind::Metric, name, value);
        }
    }
    if let Some(cost) = run.path(&["info", "user_cost"]).f64() {
        recording.measure(MeasureKind::Metric, "user_cost", cost);
    }
    expected(run, items.limits(), recording);
}

fn describe_turn(
    index: usize,
    message: Value<'_>,
    speaker: Agent,
    speakers: Speakers,
    limits: Limits,
    recording: &mut Recording,
) {
    let id = place(index, recording);
    let response = Response { id, turn: u32::try_from(index).ok(), ..Response::default() };
    let response = recording.response(speaker, response);
    let mut transfer = None;
    for call in message.get("tool_calls").elements() {
        let function = call.get("function");
        let name = function.get("name").str().unwrap_or_default();
        let arguments = function.get("arguments");
        let content = match arguments.str() {
            Some(text) => call_hash_of_text(name, text, limits),
            None => call_hash(name, arguments),
        };
        let call = Call {
            id: recording.text(call.get("id").str().unwrap_or_default()),
            tool: recording.text(name),
            content: Some(content),
            ..Call::default()
        };
        recording.call(response, call);
        transfer = transfer.or((name == TRANSFER).then_some(content));
    }
    let text = message.get("content").some_str();
    // Who hands the user over has answered; without a word the call is what there is of the answer.
    if let Some(content) = text.map(hash).or(transfer) {
        let to = Some(Party::Agent(speakers.other(speaker)));
        recording.say(response, Saying { content: Some(content), to, ..Saying::default() });
    }
}

fn result(index: usize, message: Value<'_>, speakers: Speakers, recording: &mut Recording) {
    let text = message.get("content").str().unwrap_or_default();
    let call = recording.text(message.get("tool_call_id").str().unwrap_or_default());
    let id = if call.is_none() { place(index, recording) } else { Text::default() };
    let tool = recording.text(message.get("name").str().unwrap_or_default());
    recording.result(
        speakers.assistant,
        CallResult {
            call,
            id,
            tool,
            content: Some(hash(text)),
            // The environments begin what failed with this word, and nothing else.
            ok: Some(!text.starts_with("Error")),
            trusted: Some(false),
            ..CallResult::default()
        },
    );
}

/// Of the calls that the task expects, how many were made as they should.
fn expected(run: Value<'_>, limits: Limits, recording: &mut Recording) {
    let actions = run.path(&["info", "task", "actions"]);
    if actions.kind() != Some(Kind::Array) {
        return;
    }
    let mut hashes = Vec::new();
    for call in run.get("traj").elements().flat_map(|message| message.get("tool_calls").elements()) {
        let function = call.get("function");
        let name = function.get("name").str().unwrap_or_default();
        hashes.push(call_hash_of_text(name, function.get("arguments").str().unwrap_or_default(), limits));
    }
    let mut met = 0.0;
    for action in actions.elements() {
        let wanted = call_hash(action.get("name").str().unwrap_or_default(), action.get("kwargs"));
        if let Some(at) = hashes.iter().position(|hash| *hash == wanted) {
            hashes.swap_remove(at);
            met += 1.0;
        }
    }
    recording.measure(MeasureKind::Metric, "expected_actions", actions.len() as f64);
    recording.measure(MeasureKind::Metric, "expected_actions_made", met);
}
