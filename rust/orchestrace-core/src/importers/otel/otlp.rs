//! OTLP JSON: export requests of a collector, one per line or one per file; also Tempo's, with `batches` and older
//! names.

use super::attributes::{Attribute, Facts};
use super::{Reading, belongs, ids, leave_out, put};
use crate::importers::Items;
use crate::importers::spans::{Span, Spans};
use crate::json::keys::Keys;
use crate::json::tree::Value;
use crate::json::{Kind, write_string};

const SPANS: [&str; 3] = ["scopeSpans", "instrumentationLibrarySpans", "scope_spans"];
const SCOPE: [&str; 2] = ["scope", "instrumentationLibrary"];

/// The list of resources with their spans.
fn resources(root: Value<'_>) -> Value<'_> {
    let list = root.first(&["resourceSpans", "batches", "resource_spans"]);
    if list.exists() { list } else { root.get("trace").first(&["resourceSpans", "batches"]) }
}

pub(super) fn is(root: Value<'_>) -> bool {
    // A span by itself, which is asked most often: of every one when its trace is made.
    if root.get("startTimeUnixNano").exists() && root.get("spanId").exists() {
        return true;
    }
    let list = resources(root);
    let first = list.elements().next();
    let empty = list.kind() == Some(Kind::Array) && first.is_none() && root.get("resourceSpans").exists();
    empty || first.is_some_and(|r| r.first(&SPANS).exists()) || root.first(&SPANS).kind() == Some(Kind::Array)
}

pub(super) fn items(root: Value<'_>, out: &mut Items<'_>) {
    let list = resources(root);
    if list.exists() {
        list.elements().for_each(|resource| of_resource(resource, out));
    } else if root.first(&SPANS).exists() {
        of_resource(root, out);
    } else {
        let ids = ids(root);
        leave_out_of(root, out);
        belongs(ids.0.as_deref(), is_root(root), root.get("name"), root.get("attributes"), out);
        put(root.raw(), ids, "", out);
    }
}

fn of_resource(resource: Value<'_>, out: &mut Items<'_>) {
    for scope in resource.first(&SPANS).elements() {
        let context = context(or_null(resource.get("resource")), or_null(scope.first(&SCOPE)));
        for span in scope.get("spans").elements() {
            leave_out_of(span, out);
            let ids = ids(span);
            belongs(ids.0.as_deref(), is_root(span), span.get("name"), span.get("attributes"), out);
            put(span.raw(), ids, &context, out);
        }
    }
}

/// What the spans of a scope share, of JSON.
pub(super) fn context(resource: &str, scope: &str) -> String {
    ["{\"resource\":", resource, ",\"scope\":", scope, "}"].concat()
}

fn or_null(value: Value<'_>) -> &str {
    if value.exists() { value.raw() } else { "null" }
}

fn leave_out_of(span: Value<'_>, out: &mut Items<'_>) {
    leave_out(span.get("attributes"), out);
    span.get("events").elements().for_each(|event| leave_out(event.get("attributes"), out));
}

fn ids(span: Value<'_>) -> (Option<String>, Option<&str>) {
    let trace = span.first(&["traceId", "trace_id"]).str().and_then(ids::trace_id);
    (trace, span.first(&["spanId", "span_id"]).some_str())
}

/// Whether a span has no parent, which zeros stand for, too.
fn is_root(span: Value<'_>) -> bool {
    span.first(&["parentSpanId", "parent_span_id"]).str().and_then(ids::span_id).is_none()
}

/// `service.name` of a resource.
pub(super) fn service(context: Value<'_>) -> Option<String> {
    let attributes = context.path(&["resource", "attributes"]);
    let named = |a: &Value<'_>| a.get("key").str() == Some("service.name");
    let value = attributes.elements().find(named)?.get("value");
    value.first(&["stringValue", "string_value"]).some_str().map(str::to_owned)
}

static SPAN: Keys<11> = Keys::new([
    "name",
    "attributes",
    "events",
    "status",
    "startTimeUnixNano",
    "endTimeUnixNano",
    "links",
    "spanId",
    "span_id",
    "parentSpanId",
    "parent_span_id",
]);

pub(super) fn span(value: Value<'_>, reading: &Reading<'_>, spans: &mut Spans) {
    let [name, own, events, status, start, end, links, id, id_too, parent, parent_too] = value.pick(&SPAN);
    let mut facts = Facts::new(name.str().unwrap_or_default());
    attributes(own, &mut |key, attribute| facts.put(key, attribute));
    for event in events.elements() {
        if facts.begin_event(event.get("name").str().unwrap_or_default()) {
            attributes(event.get("attributes"), &mut |key, attribute| facts.put_event(key, attribute));
        }
    }
    let status = status.get("code");
    let ok = match (status.i64(), status.str()) {
        (Some(1), _) | (_, Some("STATUS_CODE_OK" | "Ok" | "OK")) => Some(true),
        (Some(2), _) | (_, Some("STATUS_CODE_ERROR" | "Error" | "ERROR")) => Some(false),
        _ => None,
    };
    let time = |value: Value<'_>| value.integer_like().filter(|t| *t > 0);
    let recording = &mut spans.recording;
    let mut keep_first = |first: Value<'_>, second: Value<'_>| {
        let text = if first.exists() { first.str() } else { second.str() };
        text.and_then(ids::span_id).map(|id| recording.text(&id)).unwrap_or_default()
    };
    let span = Span {
        id: keep_first(id, id_too),
        parent: keep_first(parent, parent_too),
        service: recording.text(&reading.context.service),
        start: time(start),
        end: time(end),
        ok,
        item: reading.item,
        ..Span::default()
    };
    for link in links.elements() {
        if let Some(to) = link.get("spanId").str().and_then(ids::span_id) {
            let to = spans.recording.text(&to);
            spans.link(to);
        }
    }
    facts.push(span, reading.limits, spans);
}

/// A list of keys and typed values, or a plain object.
pub(super) fn attributes<'t>(list: Value<'t>, put: &mut dyn FnMut(&'t str, Attribute<'t>)) {
    for (key, value) in list.members() {
        put(key, Attribute::Plain(value));
    }
    for pair in list.elements() {
        let mut members = pair.members();
        // In this order as a rule, and nothing else.
        let (key, value) = match (members.next(), members.next(), members.next()) {
            (Some(("key", key)), Some(("value", value)), None) => (key, value),
            _ => (pair.get("key"), pair.get("value")),
        };
        if let (Some(key), Some(attribute)) = (key.str(), typed(value)) {
            put(key, attribute);
        }
    }
}

/// A value with its type as its key.
fn typed(value: Value<'_>) -> Option<Attribute<'_>> {
    let (kind, inner) = value.members().next()?;
    if matches!(kind, "arrayValue" | "kvlistValue" | "array_value" | "kvlist_value") {
        let mut json = Vec::new();
        plain(value, &mut json);
        return Some(Attribute::Built(String::from_utf8_lossy(&json).into_owned()));
    }
    Some(Attribute::Plain(inner))
}

/// The value as the JSON that it stands for. Depth is bounded by the limits of the record.
fn plain(value: Value<'_>, out: &mut Vec<u8>) {
    let Some((kind, inner)) = value.members().next() else {
        out.extend_from_slice(b"null");
        return;
    };
    match kind {
        "arrayValue" | "array_value" => {
            out.push(b'[');
            for (i, element) in inner.get("values").elements().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                plain(element, out);
            }
            out.push(b']');
        }
        "kvlistValue" | "kvlist_value" => {
            out.push(b'{');
            for (i, pair) in inner.get("values").elements().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_string(pair.get("key").str().unwrap_or_default(), out);
                out.push(b':');
                plain(pair.get("value"), out);
            }
            out.push(b'}');
        }
        "intValue" | "int_value" => {
            // 64-bit integers are strings in protobuf's JSON.
            let digits = inner.str().filter(|text| text.parse::<i64>().is_ok());
            out.extend_from_slice(digits.unwrap_or_else(|| inner.raw()).as_bytes());
        }
        _ => out.extend_from_slice(inner.raw().as_bytes()),
    }
}
