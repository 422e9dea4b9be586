//! Conversations of V1: a folder each, and those of sub-agents below the one that asked them.

use std::collections::{HashMap, HashSet};

use super::clock::Clock;
use super::ledger::{Ledger, Paid};
use super::place::{Place, id_of};
use super::stream::Stream;
use super::{Sort, hash_of};
use crate::importers::items::{TraceItem, TraceItems};
use crate::importers::parsed::ParsedItems;
use crate::importers::recording::{Agent, AgentInfo, Hash, Recording};
use crate::json::tree::Value;

mod delegations;
mod events;
mod tasks;

/// A conversation, as its records say it.
#[derive(Debug)]
struct Conversation<'v> {
    key: String,
    id: Option<String>,
    place: Place<'v>,
    /// Key of the one that asked it.
    parent: Option<String>,
    /// What its process wrote of it: the one that lists most responses first, of equal ones the last.
    states: Vec<Value<'v>>,
    events: Vec<Event<'v>>,
}

/// An event with its place in the conversation.
#[derive(Debug, Clone, Copy)]
struct Event<'v> {
    /// Number in the name of its file, and line in the file.
    at: (Option<u64>, u64),
    item: u32,
    value: Value<'v>,
}

impl<'v> Conversation<'v> {
    fn state(&self, key: &str) -> Option<Value<'v>> {
        self.states.iter().map(|state| state.get(key)).find(|value| value.exists())
    }

    /// How it ended, if that is said.
    fn status(&self) -> Option<&'v str> {
        self.state("execution_status").or_else(|| self.state("agent_status"))?.some_str()
    }

    /// Whether a file of an event is not there.
    fn has_gap(&self) -> bool {
        let numbers: HashSet<u64> = self.events.iter().filter_map(|event| event.at.0).collect();
        numbers.iter().max().is_some_and(|last| *last >= numbers.len() as u64)
    }

    /// What it was asked at first.
    fn prompt(&self) -> Option<Hash> {
        let message = self.events.iter().find(|event| is_of_user(event.value))?;
        hash_of(message.value.path(&["llm_message", "content"]))
    }
}

/// How many responses a state lists.
fn n_responses(state: Value<'_>) -> usize {
    let accounts = state.get("stats").first(&["usage_to_metrics", "service_to_metrics"]);
    accounts.members().map(|(_, metrics)| metrics.get("token_usages").len()).sum()
}

fn is_of_user(event: Value<'_>) -> bool {
    event.get("kind").str() == Some("MessageEvent") && speaker(event) == "user"
}

/// Who says a message: its role says it, too.
fn speaker(event: Value<'_>) -> &str {
    event.get("source").some_str().unwrap_or_else(|| match event.path(&["llm_message", "role"]).str() {
        Some("assistant") => "agent",
        Some("user") => "user",
        _ => "environment",
    })
}

/// The number in the name of the file of an event.
fn number(path: &str) -> Option<u64> {
    let name = path.rsplit('/').next()?.strip_prefix("event-")?;
    name.split(['-', '.']).next()?.parse().ok()
}

/// All conversations of the items, each once whatever folders it lies in, in the order of their items.
fn conversations<'v>(items: &TraceItems<'v>, parsed: &'v ParsedItems<'_>) -> Vec<Conversation<'v>> {
    // The state of a conversation has its id, whatever its folder is called.
    let mut called: HashMap<String, String> = HashMap::new();
    let place = |item: u32| Place::of(items.as_slice()[item as usize].path);
    for (item, value) in parsed.values().filter(|(_, value)| Sort::of(*value) == Some(Sort::State)) {
        if let Some(id) = value.get("id").str().and_then(id_of) {
            called.entry(place(item).gathered()).or_insert(id);
        }
    }
    let key_of = |place: Place<'_>| {
        let key = place.gathered();
        called.get(&key).cloned().unwrap_or(key)
    };
    let mut all: Vec<Conversation<'v>> = Vec::new();
    let mut of_key: HashMap<String, usize> = HashMap::new();
    for (item, value) in parsed.values() {
        let place = place(item);
        let key = key_of(place);
        let at = *of_key.entry(key.clone()).or_insert_with(|| {
            let id = id_of(&key);
            let parent = place.parent().map(key_of);
            all.push(Conversation { key, id, place, parent, states: Vec::new(), events: Vec::new() });
            all.len() - 1
        });
        let conversation = &mut all[at];
        match Sort::of(value) {
            Some(Sort::State) => conversation.states.insert(0, value),
            Some(Sort::Event) => {
                let TraceItem { path, line, .. } = items.as_slice()[item as usize];
                conversation.events.push(Event { at: (number(path), line), item, value });
            }
            _ => items.ignored(item as usize, "openhands.v0_event"),
        }
    }
    for conversation in &mut all {
        conversation.events.sort_by_key(|event| (event.at, event.item));
        conversation.states.sort_by_key(|state| std::cmp::Reverse(n_responses(*state)));
    }
    all
}

pub(super) fn describe(items: &TraceItems<'_>, parsed: &ParsedItems<'_>, recording: &mut Recording) {
    let all = conversations(items, parsed);
    let at_of: HashMap<&str, usize> =
        all.iter().enumerate().map(|(at, conversation)| (&*conversation.key, at)).collect();
    let parents: Vec<Option<usize>> =
        all.iter().map(|conversation| at_of.get(conversation.parent.as_deref()?).copied()).collect();
    let Some(root) = parents.iter().position(Option::is_none) else { return };
    let mut agents: Vec<Agent> = Vec::new();
    // Who asked the first one, if that was not kept.
    let missing = all[root].parent.as_ref().map(|key| {
        let source_id = recording.text(&id_of(key).unwrap_or_default());
        recording.agent(AgentInfo { source_id, ..AgentInfo::default() })
    });
    for conversation in &all {
        let name = conversation.state("agent").and_then(|agent| agent.get("kind").some_str());
        let name = recording.text(name.unwrap_or("agent"));
        let source_id = conversation.parent.as_ref().and(conversation.id.as_deref()).unwrap_or_default();
        let source_id = recording.text(source_id);
        agents.push(recording.agent(AgentInfo { name, source_id, ..AgentInfo::default() }));
    }
    for (at, parent) in parents.iter().enumerate() {
        let asked_by = parent.map(|parent| agents[parent]).or(missing);
        recording.agent_info(agents[at]).parent = asked_by;
    }
    name(&all[root], items, recording);
    recording.trace.partial =
        items.is_partial() || missing.is_some() || all.iter().any(Conversation::has_gap);
    let mut ledger = Ledger::default();
    // Sub-agents first: who asked them has their usage, too.
    for (owner, conversation) in all.iter().enumerate().rev() {
        for state in &conversation.states {
            for accounts in ["usage_to_metrics", "service_to_metrics"] {
                for (account, metrics) in state.path(&["stats", accounts]).members() {
                    ledger.read(owner, account, metrics);
                }
            }
        }
    }
    let clock = |conversation: &Conversation<'_>| {
        Clock::of(conversation.events.iter().filter_map(|event| {
            let paid = ledger.of(event.value.get("llm_response_id").some_str()?)?;
            Some((event.value.get("timestamp"), paid.time?))
        }))
    };
    let clocks: Vec<Option<Clock>> = all.iter().map(clock).collect();
    let common = clocks.iter().flatten().next().copied().unwrap_or_default();
    let ids: HashSet<&str> = all
        .iter()
        .flat_map(|conversation| &conversation.events)
        .filter_map(|event| event.value.get("llm_response_id").some_str())
        .collect();
    let mut beside = ledger.beside(&ids);
    let mut team = tasks::Team::new(&all, &parents, &agents);
    let mut open: Vec<bool> = Vec::new();
    for (at, conversation) in all.iter().enumerate() {
        let asked_by = recording.agent_info(agents[at]).parent;
        let (own, others) = beside.into_iter().partition(|paid: &Paid<'_>| paid.owner == at);
        beside = others;
        let describing = events::Describing {
            items,
            recording: &mut *recording,
            ledger: &mut ledger,
            team: &mut team,
            clock: clocks[at].unwrap_or(common),
            at,
            asked_by,
            stream: Stream::new(agents[at]),
            beside: own,
            pending: HashMap::new(),
            of_tool_call: HashMap::new(),
            failed: None,
        };
        open.push(describing.describe(conversation, at == root));
    }
    for (agent, is_open) in agents.iter().zip(open) {
        recording.trace.partial |= is_open;
        // Who asked it was told how it ended.
        recording.agent_info(*agent).open = is_open && !team.is_told(*agent);
    }
    ledger.compare(recording);
}

fn name(root: &Conversation<'_>, items: &TraceItems<'_>, recording: &mut Recording) {
    recording.trace.system = recording.text("openhands");
    let first = root.events.first().map_or(0, |event| event.item as usize);
    let place = if root.parent.is_some() { root.place.parent() } else { None }.unwrap_or(root.place);
    let id = match &root.parent {
        Some(parent) => id_of(parent),
        None => root.id.clone(),
    };
    let id = id.unwrap_or_else(|| place.named_by(items.as_slice()[first].text));
    recording.trace.trace_id = recording.text(&id);
    items.lies_at(first);
}
