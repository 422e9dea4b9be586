//! Nested OpenInference, as in TRAIL: spans that contain their children, string attributes, durations in ISO 8601.

use super::attributes::{Attribute, Facts};
use super::{Reading, belongs, ids, put};
use crate::importers::Items;
use crate::importers::spans::{Span, Spans};
use crate::json::time::{parse_duration, parse_timestamp};
use crate::json::tree::Value;
use crate::json::write_string;

fn is_span(span: Value<'_>) -> bool {
    span.get("span_attributes").exists() && span.get("span_id").exists()
}

pub(super) fn is(root: Value<'_>) -> bool {
    root.get("spans").elements().next().is_some_and(is_span) || is_span(root)
}

pub(super) fn items(root: Value<'_>, out: &mut Items<'_>) {
    if is_span(root) {
        return tree(root, None, None, out);
    }
    let trace = root.get("trace_id").str();
    root.get("spans").elements().for_each(|span| tree(span, trace, None, out));
}

/// Puts a span without its children, and its children.
fn tree(span: Value<'_>, trace: Option<&str>, parent: Option<&str>, out: &mut Items<'_>) {
    let mut text = b"{".to_vec();
    let mut member = |key: &str, raw: &str| {
        if text.len() > 1 {
            text.push(b',');
        }
        write_string(key, &mut text);
        text.push(b':');
        text.extend_from_slice(raw.as_bytes());
    };
    // Only what is read later: `logs` repeat inputs and outputs at length.
    for (key, value) in span.members().filter(|(key, _)| !matches!(*key, "child_spans" | "logs")) {
        member(key, value.raw());
    }
    let id = span.get("span_id").some_str();
    if let Some(parent) = parent.filter(|_| span.get("parent_span_id").some_str().is_none()) {
        let mut spelt = Vec::new();
        write_string(parent, &mut spelt);
        member("parent_span_id", &String::from_utf8_lossy(&spelt));
    }
    text.push(b'}');
    let is_root = parent.is_none() && span.get("parent_span_id").some_str().is_none();
    let trace = span.get("trace_id").some_str().or(trace);
    let trace_id = trace.and_then(ids::trace_id);
    belongs(trace_id.as_deref(), is_root, span.get("span_name"), span.get("span_attributes"), out);
    put(&String::from_utf8_lossy(&text), (trace_id, id), "", out);
    span.get("child_spans").elements().for_each(|child| tree(child, trace, id, out));
}

pub(super) fn span(value: Value<'_>, reading: &Reading<'_>, spans: &mut Spans) {
    let mut facts = Facts::new(value.get("span_name").str().unwrap_or_default());
    for (key, attribute) in value.get("span_attributes").members() {
        facts.put(key, Attribute::Plain(attribute));
    }
    for event in value.get("events").elements() {
        if facts.begin_event(event.first(&["Name", "name"]).str().unwrap_or_default()) {
            for (key, attribute) in event.first(&["Attributes", "attributes"]).members() {
                facts.put_event(key, Attribute::Plain(attribute));
            }
        }
    }
    let start = value.get("timestamp").str().and_then(parse_timestamp);
    let length = value.get("duration").str().and_then(parse_duration);
    let ok = match value.get("status_code").str().map(str::to_ascii_lowercase).as_deref() {
        Some("ok" | "status_code_ok") => Some(true),
        Some("error" | "status_code_error") => Some(false),
        _ => None,
    };
    let service = value.get("service_name").some_str();
    let service = service.or_else(|| value.path(&["resource_attributes", "service.name"]).str());
    let recording = &mut spans.recording;
    let mut id = |key: &str| {
        value.get(key).str().and_then(ids::span_id).map(|id| recording.text(&id)).unwrap_or_default()
    };
    let span = Span {
        id: id("span_id"),
        parent: id("parent_span_id"),
        service: recording.text(service.unwrap_or_default()),
        start,
        end: start.and_then(|start| start.checked_add(length?)),
        ok,
        item: reading.item,
        ..Span::default()
    };
    for link in value.get("links").elements() {
        let to = link.first(&["SpanId", "span_id", "spanId"]).str().and_then(ids::span_id);
        if let Some(to) = to.map(|to| spans.recording.text(&to)) {
            spans.link(to);
        }
    }
    facts.push(span, reading.limits, spans);
}
