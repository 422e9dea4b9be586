//! Conversion of a session to a recording: its agents, each with what it said and heard, in the order of the events.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use super::record::prompt_of_hook;
use super::record::{self, Event, events};
use super::team::Team;
use super::usage::{Ledger, of_request};
use crate::error::FindingCode;
use crate::importers::TraceItems;
use crate::importers::file_key;
use crate::importers::kind::counted_as;
use crate::importers::parsed::ParsedItems;
use crate::importers::recording::{Agent, AgentInfo, Entry, Recording, Text};
use crate::json::Kind;
use crate::json::time::parse_timestamp;
use crate::json::tree::Value;

mod life;
mod said;

/// Who records, and what the agent of a session is called.
const NAME: &str = "copilot";

/// Describes a session.
pub(super) fn describe(items: &TraceItems<'_>, parsed: &ParsedItems<'_>, recording: &mut Recording) {
    let all = events(items, parsed);
    let starts: Vec<&Event<'_>> = all.iter().filter(|event| event.kind == record::START).collect();
    let id = starts.iter().find_map(|start| start.data.get("sessionId").some_str());
    let name = file_key::name(items.key(), NAME);
    recording.trace.trace_id = recording.text(id.unwrap_or(name));
    recording.trace.system = recording.text(NAME);
    recording.trace.partial = items.is_partial();
    let began = starts.iter().filter_map(|start| start.data.get("startTime").str().and_then(parse_timestamp));
    if all.iter().any(|event| event.time.is_some()) {
        recording.trace.started_at = began.chain(all.iter().filter_map(|event| event.time)).min();
    }
    if starts
        .iter()
        .any(|start| start.data.get("sessionId").some_str().is_some_and(|other| Some(other) != id))
    {
        let message = "the file has the first lines of several sessions; the first one names the trace";
        recording.finding(FindingCode::TraceConflict, None, message);
    }
    let name = recording.text(NAME);
    let root = recording.agent(AgentInfo { name, ..AgentInfo::default() });
    let team = Team::of(&all, root, items.limits(), recording);
    let session = Session {
        items,
        recording,
        team: &team,
        streams: BTreeMap::new(),
        requested: HashSet::new(),
        by_user: HashSet::new(),
        asking: HashSet::new(),
        began: HashMap::new(),
        prompted: all.iter().any(|event| event.kind == "user.message"),
        ledger: Ledger::default(),
        model: "",
        misfits: BTreeMap::new(),
        timeless: 0,
    };
    session.describe(&all);
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

/// A response that may go on, and its texts so far.
#[derive(Debug)]
struct Open {
    entry: Entry,
    saying: Option<Entry>,
    text: String,
}

/// What an agent does.
#[derive(Debug, Default)]
struct Stream<'v> {
    last: Last<'v>,
    open: Option<Open>,
    /// Responses by the id of their provider.
    of_id: HashMap<&'v str, Entry>,
    /// The last response of which nobody said what it read.
    unread: Option<Entry>,
}

/// A session during its conversion.
struct Session<'a, 'i, 'v> {
    items: &'a TraceItems<'i>,
    recording: &'a mut Recording,
    team: &'a Team<'v>,
    streams: BTreeMap<Agent, Stream<'v>>,
    /// Calls that responses ask for, in the whole session.
    requested: HashSet<&'v str>,
    /// Calls that the user asked for.
    by_user: HashSet<&'v str>,
    /// Calls that ask the user.
    asking: HashSet<&'v str>,
    /// When calls began to be carried out.
    began: HashMap<&'v str, Option<i64>>,
    /// Whether what the user asked has events of its own.
    prompted: bool,
    ledger: Ledger,
    /// The model that is selected, for responses that name none.
    model: &'v str,
    /// Members of the wrong kind, by name.
    misfits: BTreeMap<&'static str, u32>,
    timeless: usize,
}

impl<'v> Session<'_, '_, 'v> {
    fn describe(mut self, all: &[Event<'v>]) {
        for event in all {
            match event.kind {
                "assistant.message" => {
                    let requests = event.data.get("toolRequests").elements();
                    self.requested
                        .extend(requests.filter_map(|request| request.get("toolCallId").some_str()));
                }
                "tool.user_requested" => drop(self.by_user.insert(event.call())),
                _ => {}
            }
        }
        for (at, event) in all.iter().enumerate() {
            self.recording.made_of(event.item);
            if event.value.get("timestamp").exists() && event.time.is_none() {
                self.misfit("timestamp");
            }
            self.timeless += usize::from(event.time.is_none());
            if event.after_loss {
                // Nothing is concluded from what follows a lost event.
                for stream in self.streams.values_mut() {
                    stream.last = Last::Nothing;
                    stream.open = None;
                }
            }
            if !self.takes(at, event) {
                self.items.ignored(event.item as usize, &counted_as(NAME, event.kind));
            }
        }
        self.finish(all.len());
    }

    /// Whether an event says something to anybody.
    fn takes(&mut self, at: usize, event: &Event<'v>) -> bool {
        let data = event.data;
        match event.kind {
            "user.message" => self.user(event),
            record::HOOK => match prompt_of_hook(data).filter(|_| !self.prompted) {
                Some(prompt) => self.prompt_of_hook(event, prompt),
                None => return false,
            },
            "assistant.message" => self.message(at, event),
            "assistant.usage" => self.usage(event),
            "tool.user_requested" => self.user_tool(event),
            "tool.execution_start" => self.tool_begins(at, event),
            "tool.execution_complete" if self.by_user.contains(event.call()) => return false,
            "tool.execution_complete" => self.tool_ends(at, event),
            "subagent.started" => self.spawned(at, event),
            "subagent.completed" | "subagent.failed" => self.ended(at, event),
            "session.start" | "session.resume" | "session.model_change" => {
                if event.kind == "session.resume" {
                    self.ledger.resumes(self.recording);
                }
                let model = data.first(&["newModel", "selectedModel"]).some_str();
                // What chooses a model is none.
                self.model = model.map_or(self.model, |model| if model == "auto" { "" } else { model });
            }
            "session.error" => return self.error(event),
            "session.shutdown" => self.shutdown(event),
            "session.compaction_complete" => self.compacted(event),
            "session.truncation" | "session.context_cleared" => {
                let agent = self.team.owner(event);
                self.recording.compaction(agent);
            }
            "abort" => {
                let agent = self.team.owner(event);
                self.stream(agent).last = Last::Stopped;
                return false;
            }
            _ => return false,
        }
        true
    }

    fn stream(&mut self, agent: Agent) -> &mut Stream<'v> {
        self.streams.entry(agent).or_default()
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

    /// A count that may be absent; 0 states nothing.
    fn count(&mut self, value: Value<'v>, name: &'static str) -> Option<i64> {
        if value.exists() && value.i64().is_none() {
            self.misfit(name);
        }
        value.i64().filter(|count| *count != 0)
    }

    /// The id of an event; where it has none, its line.
    fn id(&mut self, event: &Event<'v>) -> Text {
        let id = self.text_of(event.value.get("id"), "id");
        if id.is_empty() {
            self.recording.text(&format!("main:{}", event.line))
        } else {
            self.recording.text(id)
        }
    }

    /// A run of the program ends.
    fn shutdown(&mut self, event: &Event<'v>) {
        for key in ["tokenDetails", "modelMetrics"] {
            let value = event.data.get(key);
            if value.exists() && value.kind() != Some(Kind::Object) {
                self.misfit("session.shutdown");
            }
        }
        for (_, detail) in event.data.get("tokenDetails").members() {
            self.count(detail.get("tokenCount"), "tokenDetails.*.tokenCount");
        }
        for (_, model) in event.data.get("modelMetrics").members() {
            for (_, count) in model.get("usage").members() {
                self.count(count, "modelMetrics.*.usage");
            }
        }
        self.ledger.ends(event.data, self.recording);
        if event.data.get("shutdownType").str() == Some("error") {
            self.recording.stopped_by("an error");
        }
    }

    /// The context is condensed, by a response of its own.
    fn compacted(&mut self, event: &Event<'v>) {
        let agent = self.team.owner(event);
        let used = event.data.get("compactionTokensUsed");
        if used.exists() && used.kind() != Some(Kind::Object) {
            self.misfit("compactionTokensUsed");
        }
        let usage = of_request(used);
        if usage.total().unwrap_or(0) > 0 {
            let took = used.get("duration").f64().filter(|took| *took >= 0.0);
            let model = used.get("model").some_str().unwrap_or_default();
            self.beside(agent, event, usage, (took, model));
        }
        if event.data.get("success").bool() != Some(false) {
            self.recording.compaction(agent);
        }
    }

    fn finish(mut self, n: usize) {
        let root = self.team.root;
        let is_answered = |last: &Last<'_>| matches!(last, Last::Response(calls, true) if calls.is_empty());
        let is_open = !self.streams.get(&root).is_some_and(|stream| is_answered(&stream.last));
        self.recording.agent_info(root).open = is_open;
        for child in &self.team.children {
            self.recording.agent_info(child.agent).open = child.end.is_none() && child.result.is_none();
        }
        self.compare_children();
        self.ledger.write_costs(self.recording);
        if self.timeless > 0 && self.timeless < n {
            let message = format!(
                "events without a readable time: {}; they have that of the event before",
                self.timeless
            );
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
        for (name, n) in std::mem::take(&mut self.misfits) {
            let message = format!("'{name}' is of the wrong type in {n} places; it is null there");
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
    }
}
