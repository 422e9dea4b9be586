//! The OpenTelemetry family: spans of agents in OTLP JSON (also as Tempo writes it), Jaeger query JSON, nested
//! OpenInference, the dumps of the Python and JavaScript SDKs, and flat rows; labels of TRAIL (arXiv 2505.08638) beside them.
//!
//! A container is cut into spans (one file each), a span's attributes are read whatever dialect they are written in
//! ([`attributes`]), and [`super::spans`] makes one recording of all spans of a trace. An item is a span; its key is
//! the trace id as 32 hexadecimal digits; its context is the resource and the scope that it shares with others.

use super::items::request_identity;
use super::recording::{Label, Text};
use super::spans::{Spans, Unused};
use super::{Confidence, ImporterInfo, Items, Record, SpreadImporter, TraceItems};
use crate::columns::writer::TraceWriter;
use crate::error::{FindingCode, Reject, RejectCode};
use crate::json::Limits;
use crate::json::tree::{Tree, Value};

mod answers;
pub(super) mod attributes;
mod ids;
mod jaeger;
mod mlflow;
mod nested;
mod otlp;
mod requests;
mod rows;
mod sdk;
#[cfg(test)]
mod tests;
pub(super) mod time;
mod trail;

/// The importer.
#[derive(Debug)]
pub struct Otel;

static INFO: ImporterInfo = ImporterInfo {
    name: "otel",
    summary: "OpenTelemetry spans: OTLP JSON, Tempo, Jaeger, nested OpenInference, SDK dumps, flat rows, MLflow; labels of TRAIL",
    evidence: &["resourceSpans", "batches", "data", "spans"],
    suffixes: &[".json", ".jsonl"],
    lenient: true,
};

/// How the spans of a record are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Container {
    Otlp,
    Jaeger,
    Nested,
    Sdk,
    Rows,
    Labels,
    Counterfactual(&'static str),
}

/// Whether a record is in a container, by the keys that only it has.
type Detects = fn(Value<'_>) -> bool;

/// The container of a record, by the keys that only it has.
fn container(root: Value<'_>) -> Option<Container> {
    let tests: [(Detects, Container); 6] = [
        (otlp::is, Container::Otlp),
        (jaeger::is, Container::Jaeger),
        (nested::is, Container::Nested),
        (sdk::is, Container::Sdk),
        (rows::is, Container::Rows),
        (trail::is, Container::Labels),
    ];
    let container_test = tests.iter().find(|(is, _)| is(root)).map(|(_, container)| *container);
    container_test.or_else(|| trail::counterfactual(root).map(Container::Counterfactual))
}

impl SpreadImporter for Otel {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        if container(record).is_some() { Confidence::Yes } else { Confidence::No }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        if requests::cut(record.text, out) { Ok(()) } else { out.cut(record.text, cut) }
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        let limits = items.limits();
        let mut spans = Spans::default();
        let mut labels = Vec::new();
        let mut infos = mlflow::Infos::default();
        let mut context = Context::default();
        for (i, item) in items.iter().enumerate() {
            // Both were parsed when the record was cut.
            let Ok(tree) = Tree::parse(item.text, limits) else { continue };
            if context.text != item.context {
                context = Context::of(item.context, limits);
            }
            let reading = Reading { item: i as u32, limits, context: &context };
            let value = tree.root();
            let container = container(value);
            match container {
                Some(Container::Jaeger) => jaeger::span(value, &reading, &mut spans),
                Some(Container::Nested) => nested::span(value, &reading, &mut spans),
                Some(Container::Sdk) => sdk::span(value, &reading, &mut spans),
                Some(Container::Rows) => rows::span(value, &reading, &mut spans),
                Some(Container::Labels) => labels.push(i),
                None if mlflow::is_info(value) => {}
                _ => otlp::span(value, &reading, &mut spans),
            }
            if tree.is_replaced() {
                let message = "a surrogate without its other half was replaced by U+FFFD";
                spans.recording.finding(FindingCode::Utf8Replaced, None, message);
            }
            if container.is_none() && mlflow::is_info(tree.root()) {
                infos.push(i, tree);
            }
        }
        spans.recording.trace.trace_id = spans.recording.text(items.key());
        let all = items.as_slice();
        let same = |first: u32, second: u32| {
            let (first, second) = (&all[first as usize], &all[second as usize]);
            first.text == second.text && first.context == second.context
        };
        infos.choose(items);
        infos.state(&mut spans);
        spans.leave_usage_to(&|request| items.owner_by_request(request));
        spans.describe(&same, &mut |item, fate| match fate {
            Unused::Duplicate => items.duplicate(item as usize),
            Unused::Ignored(kind) => items.ignored(item as usize, kind),
        });
        infos.describe(&mut spans);
        for i in labels {
            if let Ok(tree) = Tree::parse(all[i].text, limits) {
                trail::labels(tree.root(), &mut spans);
            }
        }
        if !spans.recording.write(out) {
            spans.recording.write_labels(out);
        }
    }
}

/// Cuts a record into spans and labels.
fn cut(root: Value<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
    match container(root) {
        Some(Container::Otlp) => otlp::items(root, out),
        Some(Container::Jaeger) => jaeger::items(root, out),
        Some(Container::Nested) => nested::items(root, out),
        Some(Container::Sdk) => {
            let ids = sdk::ids(root);
            let is_root = sdk::parent(root).is_none();
            belongs(ids.0.as_deref(), is_root, root.get("name"), root.get("attributes"), out);
            put(root.raw(), ids, "", out);
        }
        Some(Container::Rows) => rows::items(root, out),
        Some(Container::Labels) => put(root.raw(), (trail::trace_id(root), Some("")), "", out),
        Some(Container::Counterfactual(kind)) => out.ignored(kind),
        None => {
            let message = "found none of resourceSpans, batches, data, spans, context, errors, and no row of a span: \
                           trace_id, span_id, a name, a time, attributes";
            return Err(Reject::new(RejectCode::FieldMissing, "", message));
        }
    }
    Ok(())
}

/// What many spans share.
#[derive(Debug, Default)]
struct Context {
    text: String,
    service: String,
}

impl Context {
    fn of(text: &str, limits: Limits) -> Self {
        let mut context = Self { text: text.to_owned(), ..Self::default() };
        if let Ok(tree) = Tree::parse(text, limits) {
            let root = tree.root();
            context.service = otlp::service(root).or_else(|| jaeger::service(root)).unwrap_or_default();
        }
        context
    }
}

/// What is known beside the span itself while it is read.
#[derive(Debug, Clone, Copy)]
struct Reading<'c> {
    item: u32,
    limits: Limits,
    context: &'c Context,
}

/// Puts a span, of which the ids of trace and span are needed: without them it belongs nowhere.
fn put(text: &str, ids: (Option<String>, Option<&str>), context: &str, out: &mut Items<'_>) {
    match ids {
        (Some(trace), Some(_)) => out.item(&trace, text, context),
        (Some(trace), None) => {
            let message = "the span has no id";
            out.reject_in(&trace, text, Reject::new(RejectCode::FieldMissing, "", message));
        }
        (None, _) => {
            let message = "the span has no trace id";
            out.reject(text, Reject::new(RejectCode::FieldMissing, "", message));
        }
    }
}

/// Says which conversation a trace is part of, and which responses of the session it repeats, by the attributes of a
/// span: a list of keys and values, or an object. The conversation of a root is around that of what is within it.
fn belongs(trace: Option<&str>, root: bool, name: Value<'_>, attributes: Value<'_>, out: &mut Items<'_>) {
    let repeats = name.str() == Some(attributes::claude_code::REQUEST);
    let Some(trace) = trace.filter(|_| repeats || out.by_conversation()) else { return };
    let text = |value: Value<'_>| {
        let typed = value.first(&["stringValue", "intValue"]);
        let value = if typed.exists() { typed } else { value };
        value.some_str().map(str::to_owned).or_else(|| value.i64().map(|id| id.to_string()))
    };
    let named = |name: &str| {
        let pairs =
            attributes.elements().filter_map(|pair| Some((pair.get("key").str()?, pair.get("value"))));
        let mut values = pairs.chain(attributes.members()).filter(|(key, _)| is_called(key, name));
        values.find_map(|(_, value)| text(value))
    };
    let request = if repeats { named("request_id").map_or(0, |id| request_identity(&id)) } else { 0 };
    if request != 0 {
        out.claim(trace, (0, request), true, None, i64::MAX);
    }
    if let Some(id) = named("gen_ai.conversation.id")
        .or_else(|| named("session.id"))
        .or_else(|| named("ai.telemetry.metadata.sessionId"))
    {
        if root {
            out.conversation(trace, &id);
        } else {
            out.conversation_within(trace, &id);
        }
    }
}

/// Whether a member is this attribute: rows of Phoenix have attributes as members of their own.
fn is_called(key: &str, name: &str) -> bool {
    key.strip_prefix("attributes.").unwrap_or(key) == name
}

/// Leaves out of the next item what no dialect reads, in a list of keys and values.
fn leave_out(attributes: Value<'_>, out: &mut Items<'_>) {
    for pair in attributes.elements() {
        if pair.get("key").str().is_some_and(attributes::is_unread) {
            out.leave_out(pair.get("value").raw());
        }
    }
}

/// The same of an object.
fn leave_out_members(attributes: Value<'_>, out: &mut Items<'_>) {
    for (key, value) in attributes.members() {
        if attributes::is_unread(key.strip_prefix("attributes.").unwrap_or(key)) {
            out.leave_out(value.raw());
        }
    }
}

/// A label whose event is the one that a span begins with, or the span's id where it has none.
fn label(spans: &mut Spans, span_id: &str, label: Label) {
    let entry = spans.entry_of(span_id);
    let entry: Text = if entry.is_none() { spans.recording.text(span_id) } else { entry };
    spans.recording.label(Label { entry, ..label });
}
