//! What agentpile adds to a document: whose step it is, the task, the outcome, and what annotators said. ATIF has no place
//! for these, so that they lie in `extra` of a document and of its steps.

use std::collections::HashSet;

use super::document::Document;
use crate::importers::object_text::ObjectText;
use crate::importers::recording::{Label, Recording, Text};
use crate::json::Kind;
use crate::json::tree::Value;
use crate::schema::MeasureKind;

/// Where it lies in `extra`, and in the context of a step.
pub(super) const KEY: &str = "agentpile";

/// Who a simulated user is.
pub(super) const USER: &str = "user";

/// What it writes where ATIF wants a name and the source has none.
pub(super) const STAND_IN: &str = "unknown";

/// Longest text of an annotation that is kept.
const LONGEST: usize = 200;

/// Whether a record describes tools and agents that nobody ran.
pub(super) fn is_config(record: Value<'_>) -> bool {
    record.get("schema").str().is_some_and(|schema| schema.starts_with("agentpile-config/"))
}

/// What it adds to a document or a step.
pub(super) fn of(document_or_step: Value<'_>) -> Value<'_> {
    document_or_step.path(&["extra", KEY])
}

/// What it adds to a document without what is long.
pub(super) fn head(document: Value<'_>) -> Option<String> {
    let added = of(document);
    (added.kind() == Some(Kind::Object)).then(|| {
        let mut head = ObjectText::new();
        let mut task = ObjectText::new();
        if let Some(id) = added.path(&["task", "id"]).some_str() {
            task.text("id", id);
        }
        head.raw("task", &task.finish());
        let mut outcome = ObjectText::new();
        for key in ["success", "score"] {
            let value = added.path(&["outcome", key]);
            if value.exists() {
                outcome.raw(key, value.raw());
            }
        }
        head.raw("outcome", &outcome.finish());
        let labels: Vec<String> = added.get("labels").elements().map(short_label).collect();
        head.raw("labels", &format!("[{}]", labels.join(",")));
        head.finish()
    })
}

/// An annotation without what is long.
fn short_label(label: Value<'_>) -> String {
    let mut short = ObjectText::new();
    for key in ["name", "target", "value", "label_source"] {
        let value = label.get(key);
        if value.exists() && value.raw().len() <= 2 * LONGEST {
            short.raw(key, value.raw());
        }
    }
    short.finish()
}

/// Who speaks in the steps of a document, in the order in which they first do.
pub(super) fn actors<'d>(document: &'d Document<'_>) -> Vec<&'d str> {
    let mut actors: Vec<&str> = Vec::new();
    for actor in document.steps.iter().filter_map(|(_, step)| actor_of(step.root())) {
        if !actors.contains(&actor) {
            actors.push(actor);
        }
    }
    actors
}

/// Who speaks in a step.
pub(super) fn actor_of(step: Value<'_>) -> Option<&str> {
    let is_agent = step.get("source").str() == Some("agent");
    of(step).get("actor").some_str().filter(|_| is_agent)
}

/// Whether a result stands for one that the source has not.
pub(super) fn is_stand_in(step: Value<'_>, result: usize) -> bool {
    of(step).get("result_fields").at(result).get("content_state").exists()
}

/// Tells the task, the outcome and the annotations of a document. `step_id` gives the id of a step by its number.
pub(super) fn describe(
    document: &Document<'_>,
    added: Value<'_>,
    step_id: impl Fn(&str) -> String,
    recording: &mut Recording,
) {
    let (mut numbers, mut calls) = (HashSet::new(), HashSet::new());
    for (_, step) in &document.steps {
        numbers.insert(step.root().get("step_id").raw());
        calls.extend(step.root().get("tool_calls").elements().map(|call| call.get("tool_call_id").str()));
    }
    if let Some(task) = added.path(&["task", "id"]).some_str() {
        let parts = [("harness", document.get("name")), ("model", document.get("model_name"))];
        recording.group_by(task, &parts);
    }
    let outcome = added.get("outcome");
    let success = outcome.get("success").bool().map(|success| f64::from(u8::from(success)));
    let score = outcome.get("score").f64();
    if let Some(reward) = success.or(score) {
        recording.measure(MeasureKind::Reward, "team", reward);
    }
    if let Some(score) = score.filter(|_| success.is_some()) {
        recording.measure(MeasureKind::Metric, "score", score);
    }
    for label in added.get("labels").elements() {
        let address = label.path(&["target", "address"]);
        let name = label
            .get("name")
            .some_str()
            .unwrap_or_else(|| label.path(&["target", "kind"]).some_str().unwrap_or("label"));
        let value = label.get("value");
        let text = match value.str() {
            Some(text) if !text.is_empty() && text.len() <= LONGEST => format!("{name}={text}"),
            _ => name.to_owned(),
        };
        let entry = match (address.get("call").some_str(), address.get("step").raw()) {
            (Some(call), _) if calls.contains(&Some(call)) => recording.text(call),
            (None, number) if numbers.contains(number) => recording.text(&step_id(number)),
            // Some sources name a step behind the last one.
            _ => Text::default(),
        };
        let label = Label {
            annotator: recording.text(label.get("label_source").some_str().unwrap_or(KEY)),
            entry,
            turn: None,
            agent: recording.text(address.get("agent").some_str().unwrap_or_default()),
            label: recording.text(&text),
            weight: value.f64().or_else(|| (value.bool() == Some(false)).then_some(0.0)),
        };
        recording.label(label);
    }
}
