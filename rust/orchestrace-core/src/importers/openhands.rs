//! Conversations of the agents of `OpenHands`, one event per record.
//!
//! V0 wrote lists of actions and observations, or lines of an evaluation that have such a list as `history`. V1 writes a
//! folder per conversation: `base_state.json`, and a file per event in `events/`. An item is an event; what a line of an
//! evaluation says beside its history is one more (`docs/formats/openhands.md`).

use super::items::{Items, TraceItems};
use super::parsed::ParsedItems;
use super::recording::{Hash, Recording, hash};
use super::responses::text_of;
use super::shape::{expect_member, expect_object};
use super::{Confidence, ImporterInfo, Record, SpreadImporter};
use crate::columns::writer::TraceWriter;
use crate::error::{Reject, RejectCode};
use crate::json::Kind;
use crate::json::identity::identity;
use crate::json::tree::Value;

mod clock;
mod ledger;
mod place;
mod stream;
mod v0;
mod v1;

use place::Place;

/// The importer.
#[derive(Debug)]
pub struct OpenHands;

static INFO: ImporterInfo = ImporterInfo {
    name: "openhands",
    summary: "OpenHands conversations: events of V0 and V1, and results of its evaluations (output.jsonl)",
    evidence: &["source", "action", "observation"],
    suffixes: &[".json", ".jsonl"],
    lenient: true,
};

/// Context of what a line of an evaluation says beside its history.
const RUN: &str = "run";

/// Words of events that V0 has.
const SOURCES: [&str; 3] = ["agent", "user", "environment"];

/// Kinds of events of V1 that nobody else has, whoever they are of.
const KINDS: [&str; 8] = [
    "MessageEvent",
    "ActionEvent",
    "ObservationEvent",
    "AgentErrorEvent",
    "ConversationErrorEvent",
    "UserRejectObservation",
    "Condensation",
    "CondensationRequest",
];

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// An action or an observation of V0.
    Step,
    /// A line of an evaluation.
    Run,
    /// An event of V1.
    Event,
    /// What a process of V1 wrote of its conversation.
    State,
    /// A page of events, as the server of V1 hands them out.
    Page,
}

impl Sort {
    fn of(record: Value<'_>) -> Option<Self> {
        let has = |key: &str| !record.get(key).is_absent();
        let first = record.get("history").at(0);
        let is_run = has("instance_id")
            && record.path(&["metadata", "agent_class"]).str().is_some()
            && (has("metrics") || has("test_result"));
        if is_step(record) {
            Some(Self::Step)
        } else if is_step(first) || is_run {
            Some(Self::Run)
        } else if is_event(record) {
            Some(Self::Event)
        } else if is_state(record) {
            Some(Self::State)
        } else if record.get("items").elements().find(|item| !item.is_null()).is_some_and(is_event) {
            Some(Self::Page)
        } else {
            None
        }
    }
}

/// Whether this is an event of V1.
fn is_event(record: Value<'_>) -> bool {
    let kind = record.get("kind").str().unwrap_or_default();
    let is_known = KINDS.contains(&kind) && record.get("id").str().is_some();
    let is_other = kind.ends_with("Event") && record.get("source").str().is_some();
    (is_known || is_other) && !record.get("timestamp").is_absent()
}

/// Whether an event is of nobody else: other logs have a kind and a source, too.
fn is_told(event: Value<'_>) -> bool {
    let source = event.get("source").str();
    let is_of_ours = source.is_none_or(|source| SOURCES.contains(&source));
    match event.get("kind").str() {
        Some("MessageEvent") => is_of_ours && event.get("llm_message").kind() == Some(Kind::Object),
        Some(kind) => KINDS.contains(&kind) || (is_of_ours && source.is_some()),
        None => false,
    }
}

/// Whether this is the state of a conversation of V1.
fn is_state(record: Value<'_>) -> bool {
    let stats = record.get("stats").first(&["usage_to_metrics", "service_to_metrics"]);
    let status = record.first(&["execution_status", "agent_status"]);
    record.get("id").str().is_some()
        && (stats.kind() == Some(Kind::Object)
            || (status.str().is_some() && record.get("agent").kind() == Some(Kind::Object)))
}

/// Whether this is an event of V0.
fn is_step(record: Value<'_>) -> bool {
    // Other logs have the same words: what is less than whole has to say where it stands.
    let is_placed = ["id", "timestamp", "cause"].iter().any(|key| record.get(key).exists());
    let acts = record.get("action").str().is_some() && record.get("args").kind() == Some(Kind::Object);
    let observes = record.get("observation").str().is_some();
    let is_whole = record.get("extras").kind() == Some(Kind::Object);
    let observes = observes && (is_whole || (is_placed && record.get("content").str().is_some()));
    let acts = acts && (is_placed || !record.get("tool_call_metadata").is_absent());
    let is_of_ours = record.get("source").str().is_some_and(|source| SOURCES.contains(&source));
    is_of_ours && (acts || observes)
}

/// What keeps a record from being an event.
fn reject_of(record: Value<'_>) -> Reject {
    let wrong = || {
        expect_object(record, "")?;
        if !record.get("kind").is_absent() {
            expect_member(record, "kind", Kind::String)?;
            expect_member(record, "timestamp", Kind::String)?;
            expect_member(record, "id", Kind::String)?;
        }
        expect_member(record, "source", Kind::String)?;
        if !record.get("action").is_absent() {
            expect_member(record, "action", Kind::String)?;
            expect_member(record, "args", Kind::Object)?;
        } else if !record.get("observation").is_absent() {
            expect_member(record, "observation", Kind::String)?;
            expect_member(record, "extras", Kind::Object)?;
        }
        Ok(())
    };
    wrong().err().unwrap_or_else(|| {
        let message = "found no 'action', 'observation' or 'kind' of an event, expected one";
        Reject::new(RejectCode::FieldMissing, "/action", message)
    })
}

impl SpreadImporter for OpenHands {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        let is_ours = match Sort::of(record) {
            Some(Sort::Event) => is_told(record),
            Some(Sort::Page) => record.get("items").elements().filter(|item| is_event(*item)).any(is_told),
            other => other.is_some(),
        };
        if is_ours { Confidence::Yes } else { Confidence::No }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let place = Place::of(record.path);
        let key = place.key(out);
        if let Some(parent) = place.parent() {
            out.together(&key, &parent.key(out));
        }
        out.cut(record.text, |root, out| {
            match Sort::of(root) {
                Some(Sort::Step | Sort::Event) => out.item(&key, root.raw(), ""),
                Some(Sort::State) => {
                    if let Some(id) = root.get("id").str().and_then(place::id_of) {
                        out.together(&key, &id);
                    }
                    out.item(&key, root.raw(), "");
                }
                Some(Sort::Run) => run(root, out),
                Some(Sort::Page) => {
                    for event in root.get("items").elements().filter(|event| !event.is_null()) {
                        if is_event(event) {
                            out.item(&key, event.raw(), "");
                        } else {
                            out.reject_in(&key, event.raw(), reject_of(event));
                        }
                    }
                }
                None => out.reject_in(&key, root.raw(), reject_of(root)),
            }
            Ok(())
        })
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        let parsed = ParsedItems::of(items);
        let mut recording = Recording::default();
        parsed.tell_replaced(&mut recording);
        let is_later =
            |(_, record): (u32, Value<'_>)| matches!(Sort::of(record), Some(Sort::Event | Sort::State));
        if parsed.values().any(is_later) {
            v1::describe(items, &parsed, &mut recording);
        } else {
            v0::describe(items, &parsed, &mut recording);
        }
        recording.beside(items);
        recording.write(out);
    }
}

/// A line of an evaluation: its history distinguishes it, so that a report which is added later makes no other run of it.
fn run(root: Value<'_>, out: &mut Items<'_>) {
    let history = root.get("history");
    let hashed = if history.is_empty() { root.raw() } else { history.raw() };
    let key = format!("{}\n{:016x}", text_like(root.get("instance_id")), identity(hashed));
    for value in
        [history, root.get("instance"), root.get("instruction"), root.path(&["test_result", "git_patch"])]
    {
        if value.exists() {
            out.leave_out(value.raw());
        }
    }
    out.item(&key, root.raw(), RUN);
    for event in history.elements() {
        if is_step(event) {
            out.item(&key, event.raw(), "");
        } else {
            out.reject_in(&key, event.raw(), reject_of(event));
        }
    }
}

/// Hash of a text, or of a list of texts.
fn hash_of(value: Value<'_>) -> Option<Hash> {
    value.exists().then(|| hash(&text_of(value)))
}

/// A text, or a number as it stands.
fn text_like(value: Value<'_>) -> &str {
    match value.kind() {
        Some(Kind::String) => value.str().unwrap_or_default(),
        Some(Kind::Number) => value.raw(),
        _ => "",
    }
}
