//! Jaeger query JSON: `data[].spans[]`, times in microseconds, tags that may be strings despite their declared type.

use std::borrow::Cow;

use super::attributes::{Attribute, Facts};
use super::{Reading, belongs, ids, leave_out, put};
use crate::importers::Items;
use crate::importers::spans::{Span, Spans};
use crate::json::Kind;
use crate::json::tree::Value;

pub(super) fn is(root: Value<'_>) -> bool {
    let of_trace = |trace: Value<'_>| {
        let first = trace.get("spans").elements().next();
        first.is_some_and(|span| span.get("operationName").exists() && span.get("traceID").exists())
    };
    (root.get("data").kind() == Some(Kind::Array) && root.get("data").elements().any(of_trace))
        || of_trace(root)
        || (root.get("operationName").exists() && root.get("traceID").exists())
}

pub(super) fn items(root: Value<'_>, out: &mut Items<'_>) {
    if root.get("operationName").exists() {
        let ids = ids(root);
        leave_out(root.get("tags"), out);
        belongs(ids.0.as_deref(), parent(root).is_none(), root.get("operationName"), root.get("tags"), out);
        return put(root.raw(), ids, "", out);
    }
    let single = root.get("spans").exists().then_some(root);
    for trace in root.get("data").elements().chain(single) {
        let processes = trace.get("processes");
        for span in trace.get("spans").elements() {
            let process = span.get("processID").str().map_or("", |id| processes.get(id).raw());
            leave_out(span.get("tags"), out);
            let ids = ids(span);
            belongs(
                ids.0.as_deref(),
                parent(span).is_none(),
                span.get("operationName"),
                span.get("tags"),
                out,
            );
            put(span.raw(), ids, process, out);
        }
    }
}

fn ids(span: Value<'_>) -> (Option<String>, Option<&str>) {
    (span.get("traceID").str().and_then(ids::trace_id), span.get("spanID").some_str())
}

/// What a span refers to, and how.
fn references(span: Value<'_>) -> impl Iterator<Item = (&str, Cow<'_, str>)> {
    let references = span.get("references").elements();
    references.filter_map(|r| Some((r.get("refType").str()?, r.get("spanID").str().and_then(ids::span_id)?)))
}

fn parent(span: Value<'_>) -> Option<Cow<'_, str>> {
    let parent = references(span).find(|(kind, _)| *kind == "CHILD_OF").map(|(_, id)| id);
    parent.or_else(|| span.get("parentSpanID").str().and_then(ids::span_id))
}

/// Name of a process.
pub(super) fn service(context: Value<'_>) -> Option<String> {
    context.get("serviceName").some_str().map(str::to_owned)
}

pub(super) fn span(value: Value<'_>, reading: &Reading<'_>, spans: &mut Spans) {
    let tags =
        || value.get("tags").elements().filter_map(|tag| Some((tag.get("key").str()?, tag.get("value"))));
    let mut facts = Facts::new(value.get("operationName").str().unwrap_or_default());
    let mut ok = None;
    for (key, tag) in tags() {
        match (key, tag.str(), tag.bool()) {
            ("otel.status_code", Some("OK"), _) => ok = ok.or(Some(true)),
            ("otel.status_code", Some("ERROR"), _)
            | ("error", Some("true"), _)
            | ("error", _, Some(true)) => ok = Some(false),
            _ => facts.put(key, Attribute::Plain(tag)),
        }
    }
    for log in value.get("logs").elements() {
        let fields =
            || log.get("fields").elements().filter_map(|f| Some((f.get("key").str()?, f.get("value"))));
        let name = fields().find(|(key, _)| *key == "event").and_then(|(_, name)| name.str());
        if facts.begin_event(name.unwrap_or_default()) {
            fields().for_each(|(key, field)| facts.put_event(key, Attribute::Plain(field)));
        }
    }
    let micros = |key: &str| value.get(key).integer_like();
    let start = micros("startTime").filter(|t| *t > 0).and_then(|t| t.checked_mul(1_000));
    let length = micros("duration").filter(|d| *d >= 0).and_then(|d| d.checked_mul(1_000));
    let parent = parent(value);
    let service = value.path(&["process", "serviceName"]).str().unwrap_or(&reading.context.service);
    let recording = &mut spans.recording;
    let span = Span {
        id: value
            .get("spanID")
            .str()
            .and_then(ids::span_id)
            .map(|id| recording.text(&id))
            .unwrap_or_default(),
        parent: parent.map(|id| recording.text(&id)).unwrap_or_default(),
        service: recording.text(service),
        start,
        end: start.and_then(|start| start.checked_add(length?)),
        ok,
        item: reading.item,
        ..Span::default()
    };
    for (_, id) in references(value).filter(|(kind, _)| *kind == "FOLLOWS_FROM") {
        let to = spans.recording.text(&id);
        spans.link(to);
    }
    facts.push(span, reading.limits, spans);
}
