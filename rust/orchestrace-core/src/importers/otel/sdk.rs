//! Dumps of the SDKs: `span.to_json()` of Python; `ReadableSpan` of JavaScript, and what its console exporter prints.

use super::attributes::{Attribute, Facts, mlflow};
use super::time::instant;
use super::{Reading, ids};
use crate::importers::spans::{Span, Spans};
use crate::json::Kind;
use crate::json::tree::Value;

/// Where the ids of a span are, by who wrote it.
fn context(span: Value<'_>) -> Value<'_> {
    span.first(&["context", "_spanContext", "spanContext"])
}

fn trace_of(span: Value<'_>) -> Option<&str> {
    context(span).first(&["trace_id", "traceId"]).some_str().or_else(|| span.get("traceId").some_str())
}

fn id_of(span: Value<'_>) -> Option<&str> {
    context(span)
        .first(&["span_id", "spanId"])
        .some_str()
        .or_else(|| span.first(&["id", "spanId"]).some_str())
}

pub(super) fn is(root: Value<'_>) -> bool {
    let timed = root.first(&["start_time", "startTime"]).exists()
        || (root.get("timestamp").exists() && root.get("duration").exists());
    root.get("name").str().is_some() && timed && trace_of(root).is_some() && root.get("attributes").exists()
}

pub(super) fn ids(span: Value<'_>) -> (Option<String>, Option<&str>) {
    (trace_of(span).and_then(ids::trace_id), id_of(span))
}

pub(super) fn parent(span: Value<'_>) -> Option<&str> {
    let parent = span.first(&["parent_id", "parentSpanId", "parentId"]).some_str();
    parent.or_else(|| span.path(&["parentSpanContext", "spanId"]).some_str())
}

/// A time as seconds and nanoseconds, or in any of the usual ways.
fn time(value: Value<'_>) -> Option<i64> {
    if value.kind() != Some(Kind::Array) {
        return instant(value);
    }
    let nanos = value.at(0).i64()?.checked_mul(1_000_000_000)?.checked_add(value.at(1).i64()?)?;
    (nanos > 0).then_some(nanos)
}

pub(super) fn span(value: Value<'_>, reading: &Reading<'_>, spans: &mut Spans) {
    let mut facts = Facts::new(value.get("name").str().unwrap_or_default());
    facts.span_kind(value.get("span_kind").str());
    let attributes = value.get("attributes");
    let is_kept = mlflow::is_of_mlflow(attributes);
    for (key, attribute) in attributes.members() {
        let attribute = Attribute::Plain(attribute);
        facts.put(key, if is_kept { mlflow::without_json(key, attribute) } else { attribute });
    }
    for event in value.get("events").elements() {
        if facts.begin_event(event.get("name").str().unwrap_or_default()) {
            for (key, attribute) in event.get("attributes").members() {
                facts.put_event(key, Attribute::Plain(attribute));
            }
        }
    }
    let status = value.get("status").first(&["status_code", "code"]);
    let status = if status.exists() { status } else { value.get("status_code") };
    let ok = match (status.str(), status.i64()) {
        (Some("OK"), _) | (_, Some(1)) => Some(true),
        (Some("ERROR"), _) | (_, Some(2)) => Some(false),
        _ => None,
    };
    let start = time(value.first(&["start_time", "startTime", "timestamp"]));
    let length = value.get("duration");
    let length = match length.kind() {
        Some(Kind::Number) => length.i64().and_then(|micros| micros.checked_mul(1_000)),
        _ => None,
    };
    let end = time(value.first(&["end_time", "endTime"])).or_else(|| start?.checked_add(length?));
    let service = value.path(&["resource", "attributes", "service.name"]).some_str();
    let service = service.or_else(|| value.path(&["resource", "_attributes", "service.name"]).str());
    let recording = &mut spans.recording;
    let mut text =
        |id: Option<&str>| id.and_then(ids::span_id).map(|id| recording.text(&id)).unwrap_or_default();
    let span = Span {
        id: text(id_of(value)),
        parent: text(parent(value)),
        service: recording.text(service.unwrap_or_default()),
        start,
        end,
        ok,
        item: reading.item,
        ..Span::default()
    };
    for link in value.get("links").elements() {
        let context = link.get("context");
        let to = context.first(&["span_id", "spanId"]).str().and_then(ids::span_id);
        if let Some(to) = to.map(|to| spans.recording.text(&to)) {
            spans.link(to);
        }
    }
    facts.push(span, reading.limits, spans);
}
