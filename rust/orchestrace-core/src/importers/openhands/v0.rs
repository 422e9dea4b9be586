//! Conversations of V0: actions, and observations of what they caused.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::clock::Clock;
use super::ledger::Ledger;
use super::place::Place;
use super::stream::{Pending, Stream};
use super::{RUN, is_step, text_like};
use crate::error::FindingCode;
use crate::importers::items::TraceItems;
use crate::importers::parsed::ParsedItems;
use crate::importers::recording::{AgentInfo, Recording, Text};
use crate::json::time::parse_seconds;
use crate::json::tree::Value;

mod contents;
mod events;
mod outcome;
mod results;

pub(super) fn describe(items: &TraceItems<'_>, parsed: &ParsedItems<'_>, recording: &mut Recording) {
    let used = the_run(items, parsed, recording);
    let has_two_verdicts = used.is_some_and(|(_, _, is_contradicted)| is_contradicted);
    let run = used.map(|(item, run, _)| (item, run));
    let events = in_order(parsed);
    let Some((first, _)) = events.first().map(|event| (event.item, event.value)).or(run) else { return };
    name(run.map(|(_, run)| run), items, first, recording);
    recording.trace.partial = items.is_partial();
    let run = run.map(|(_, run)| run);
    let mut ledger = Ledger::default();
    if let Some(metrics) = run.map(|run| run.get("metrics")).filter(|metrics| metrics.exists()) {
        ledger.read(0, "", metrics);
    } else {
        // Running totals: the last one is of all.
        let costs = events.iter().map(|event| event.value.path(&["llm_metrics", "accumulated_cost"]));
        ledger.state(None, costs.filter_map(Value::f64).reduce(f64::max));
    }
    let clock = Clock::of(events.iter().filter_map(|event| {
        let created = event.value.path(&["tool_call_metadata", "model_response", "created"]);
        let acts = !event.value.get("action").is_absent();
        Some((event.value.get("timestamp"), parse_seconds(created.raw()).filter(|_| acts)?))
    }));
    let clock = clock.unwrap_or_default();
    let actions = events.iter().filter(|event| !event.value.get("action").is_absent());
    let ids: HashSet<&str> = actions.map(|event| response_id(event.value)).collect();
    let mut beside = ledger.beside(&ids);
    beside.reverse();
    let model = run.and_then(|run| run.path(&["metadata", "llm_config", "model"]).some_str());
    let root = recording.text(agent_name(run, &events));
    let root = recording.agent(AgentInfo { name: root, ..AgentInfo::default() });
    let mut describing = Describing {
        items,
        recording,
        ledger,
        clock,
        model: model.unwrap_or_default(),
        streams: vec![Stream::new(root)],
        working: vec![0],
        pending: HashMap::new(),
        of_tool_call: HashMap::new(),
        state: "",
        unanswered: BTreeSet::new(),
        not_ours: HashSet::new(),
        delegations: Vec::new(),
        has_two_verdicts,
    };
    for event in &events {
        let time = clock.time(event.value);
        while let Some(paid) = beside.pop_if(|paid| paid.time.is_some() && paid.time < time) {
            describing.beside(&paid);
        }
        describing.event(event);
    }
    while let Some(paid) = beside.pop() {
        describing.beside(&paid);
    }
    describing.end(run);
}

/// An event with its number in the conversation.
#[derive(Debug, Clone, Copy)]
struct Event<'v> {
    id: Option<i64>,
    item: u32,
    /// Whether another one has its number.
    again: bool,
    value: Value<'v>,
}

/// Events in the order of their numbers, those without one behind those that they follow; as they lie where a number comes
/// twice.
fn in_order<'v>(parsed: &'v ParsedItems<'_>) -> Vec<Event<'v>> {
    let steps = parsed.values().filter(|(_, value)| is_step(*value));
    let mut events: Vec<Event<'v>> = steps
        .map(|(item, value)| Event { id: value.get("id").integer_like(), item, again: false, value })
        .collect();
    let mut seen: HashSet<i64> = HashSet::new();
    for event in &mut events {
        event.again = event.id.is_some_and(|id| !seen.insert(id));
    }
    if events.iter().any(|event| event.again) {
        return events;
    }
    let mut last = i64::MIN;
    let numbered = events.into_iter().map(|event| {
        last = event.id.unwrap_or(last);
        (last, event)
    });
    let mut numbered: Vec<(i64, Event<'v>)> = numbered.collect();
    numbered.sort_by_key(|(number, _)| *number);
    numbered.into_iter().map(|(_, event)| event).collect()
}

/// What an evaluation says of the run, and whether its lines contradict each other about the verdict. Of several lines the
/// one with a verdict is used, and the first of these by their texts, wherever they lie.
fn the_run<'v>(
    items: &TraceItems<'_>,
    parsed: &'v ParsedItems<'_>,
    recording: &mut Recording,
) -> Option<(u32, Value<'v>, bool)> {
    let mut runs: Vec<(u32, Value<'v>)> =
        parsed.values().filter(|(item, _)| items.as_slice()[*item as usize].context == RUN).collect();
    let verdict = |run: Value<'v>| run.path(&["report", "resolved"]).bool();
    runs.sort_by_key(|(item, run)| (verdict(*run).is_none(), run.raw(), *item));
    let (used, others) = runs.split_first()?;
    let is_contradicted =
        others.iter().any(|(_, run)| verdict(*run).is_some_and(|other| Some(other) != verdict(used.1)));
    for (item, other) in others {
        items.duplicate(*item as usize);
        let metrics = [used.1, *other].map(|run| run.get("metrics"));
        if metrics.iter().all(|metrics| metrics.exists()) && metrics[0].raw() != metrics[1].raw() {
            let message = "lines with the same history have different metrics; those of one line are used";
            recording.finding(FindingCode::UsageConflict, None, message);
        }
    }
    Some((used.0, used.1, is_contradicted))
}

fn name(run: Option<Value<'_>>, items: &TraceItems<'_>, first: u32, recording: &mut Recording) {
    recording.trace.system = recording.text("openhands");
    if let Some(run) = run {
        // The line of an evaluation has its instance and the hash of its history as key.
        let id = items.key().split_once('\n').map_or_else(String::new, |(task, hash)| {
            [task, hash].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
        });
        recording.trace.trace_id = recording.text(&id);
        // Benchmarks number their tasks, so that two of them have a task 1.
        let metadata = run.get("metadata");
        let parts = [metadata.get("dataset").some_str(), Some(text_like(run.get("instance_id")))];
        let parts: Vec<&str> = parts.into_iter().flatten().filter(|part| !part.is_empty()).collect();
        let model = metadata.path(&["llm_config", "model"]).some_str();
        let harness = metadata.get("agent_class").some_str();
        if !parts.is_empty() {
            recording.group_by(&parts.join("/"), &[("model", model), ("harness", harness)]);
        }
        return;
    }
    let item = &items.as_slice()[first as usize];
    let place = Place::of(item.path);
    let id = place.id().unwrap_or_else(|| place.named_by(item.text));
    recording.trace.trace_id = recording.text(&id);
}

fn agent_name<'v>(run: Option<Value<'v>>, events: &[Event<'v>]) -> &'v str {
    let stated = run.and_then(|run| run.path(&["metadata", "agent_class"]).some_str());
    let mut prompts = events.iter().filter(|event| event.value.get("action").str() == Some("system"));
    let prompted = || prompts.find_map(|event| event.value.path(&["args", "agent_class"]).some_str());
    stated.or_else(prompted).unwrap_or("agent")
}

/// The response that an event is of: tool calls name it, other events have it last in their metrics.
fn response_id(event: Value<'_>) -> &str {
    let called = event.path(&["tool_call_metadata", "model_response", "id"]).some_str();
    let last = || event.path(&["llm_metrics", "token_usages"]).elements().last();
    called.or_else(|| last()?.get("response_id").some_str()).unwrap_or_default()
}

/// A conversation during its conversion.
struct Describing<'r, 'v, 'i> {
    items: &'r TraceItems<'i>,
    recording: &'r mut Recording,
    ledger: Ledger<'v>,
    clock: Clock,
    model: &'v str,
    streams: Vec<Stream>,
    /// The streams of who works and of those who wait for it, by number.
    working: Vec<usize>,
    /// Calls by the number of their event, and numbers by the id that the provider gave the call.
    pending: HashMap<i64, Pending>,
    of_tool_call: HashMap<&'v str, i64>,
    /// The last state of the agent.
    state: &'v str,
    /// Calls that nothing came back of.
    unanswered: BTreeSet<i64>,
    /// Actions that nobody of the team did.
    not_ours: HashSet<i64>,
    /// Calls that made a delegate work.
    delegations: Vec<Text>,
    has_two_verdicts: bool,
}
