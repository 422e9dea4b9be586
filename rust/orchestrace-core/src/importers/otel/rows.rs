//! Flat rows of spans, as databases and SDKs of observability hand them out: one object per span, in lines, in an array,
//! in `spans`, or in the `{info, data: {spans}}` of `MLflow`. Rows differ in names alone.

use super::attributes::{self, Attribute, Facts};
use super::{Reading, belongs, ids, leave_out_members, mlflow, otlp, put, sdk, time};
use crate::importers::Items;
use crate::importers::spans::{Span, Spans};
use crate::json::Kind;
use crate::json::tree::{Tree, Value};

const TRACE: [&str; 4] = ["trace_id", "traceId", "TraceId", "context.trace_id"];
const ID: [&str; 4] = ["span_id", "spanId", "SpanId", "context.span_id"];
const PARENT: [&str; 5] = ["parent_span_id", "parentSpanId", "ParentSpanId", "parent_id", "parentId"];
const NAME: [&str; 4] = ["name", "span_name", "spanName", "SpanName"];
const START: [&str; 7] = [
    "start_time",
    "startTime",
    "start_timestamp",
    "start_time_unix_nano",
    "startTimeUnixNano",
    "timestamp",
    "Timestamp",
];
const END: [&str; 5] = ["end_time", "endTime", "end_timestamp", "end_time_unix_nano", "endTimeUnixNano"];
const ATTRIBUTES: [&str; 3] = ["attributes", "span_attributes", "SpanAttributes"];
const EVENTS: [&str; 3] = ["events", "span_events", "otel_events"];
const RESOURCE: [&str; 3] = ["resource_attributes", "ResourceAttributes", "otel_resource_attributes"];
const STATUS: [&str; 4] = ["status_code", "statusCode", "StatusCode", "otel_status_code"];

fn is_row(row: Value<'_>) -> bool {
    row.first(&ID).some_str().is_some()
        && row.first(&TRACE).some_str().is_some()
        && row.first(&NAME).str().is_some()
        && row.first(&START).exists()
        && (row.first(&ATTRIBUTES).exists() || is_flat(row))
}

/// Whether a row has its attributes as members of its own, `attributes.llm.model_name`, as Phoenix lays them out.
fn is_flat(row: Value<'_>) -> bool {
    row.get("context.span_id").exists()
}

/// The list of spans that an object holds.
fn list(root: Value<'_>) -> Value<'_> {
    let (list, data) = (root.get("spans"), root.get("data"));
    match data.kind() {
        _ if list.exists() => list,
        // A page of the API of Phoenix.
        Some(Kind::Array) => data,
        _ => data.get("spans"),
    }
}

pub(super) fn is(root: Value<'_>) -> bool {
    is_row(root)
        || list(root).elements().next().is_some_and(|first| is_row(first) || sdk::is(first))
        || mlflow::is(root)
}

pub(super) fn items(root: Value<'_>, out: &mut Items<'_>) {
    if is_row(root) {
        return row(root, out);
    }
    for span in list(root).elements() {
        row(span, out);
    }
    let first = list(root).elements().next().and_then(|span| ids_of(span).0);
    mlflow::put_info(root, first, out);
}

fn row(row: Value<'_>, out: &mut Items<'_>) {
    let attributes = if is_flat(row) { row } else { row.first(&ATTRIBUTES) };
    leave_out_members(attributes, out);
    let ids = ids_of(row);
    let root = row.first(&PARENT).some_str().is_none();
    belongs(ids.0.as_deref(), root, row.first(&NAME), attributes, out);
    put(row.raw(), ids, "", out);
}

fn ids_of(row: Value<'_>) -> (Option<String>, Option<&str>) {
    if sdk::is(row) {
        return sdk::ids(row);
    }
    (row.first(&TRACE).some_str().and_then(ids::trace_id), row.first(&ID).some_str())
}

/// Some databases hand out objects as JSON in a text.
fn parsed<'t>(value: Value<'t>, reading: &Reading<'_>) -> Option<Tree<'t>> {
    value.str().and_then(|text| Tree::parse(text, reading.limits).ok())
}

pub(super) fn span(value: Value<'_>, reading: &Reading<'_>, spans: &mut Spans) {
    let (own_attributes, events) = (value.first(&ATTRIBUTES), value.first(&EVENTS));
    let trees = (parsed(own_attributes, reading), parsed(events, reading));
    let own_attributes = trees.0.as_ref().map_or(own_attributes, Tree::root);
    let events = trees.1.as_ref().map_or(events, Tree::root);
    let mut facts = Facts::new(value.first(&NAME).str().unwrap_or_default());
    if is_flat(value) {
        facts.span_kind(value.get("span_kind").str());
        for (key, attribute) in value.members() {
            if let Some(key) = key.strip_prefix("attributes.") {
                facts.put(key, Attribute::Plain(attribute));
            }
        }
    }
    let is_kept = attributes::mlflow::is_of_mlflow(own_attributes);
    otlp::attributes(own_attributes, &mut |key, attribute| {
        facts.put(key, if is_kept { attributes::mlflow::without_json(key, attribute) } else { attribute });
    });
    for event in events.elements() {
        if facts.begin_event(event.first(&["name", "event_name"]).str().unwrap_or_default()) {
            let attributes = event.first(&["attributes", "event_attributes"]);
            otlp::attributes(attributes, &mut |key, attribute| facts.put_event(key, attribute));
        }
    }
    let status = value.get("status");
    let code = if status.get("code").exists() { status.get("code") } else { status };
    let code = if code.exists() { code } else { value.first(&STATUS) };
    let ok = match (code.i64(), code.str().map(str::to_ascii_uppercase).as_deref()) {
        (Some(1), _) | (_, Some("OK" | "STATUS_CODE_OK")) => Some(true),
        (Some(2), _) | (_, Some("ERROR" | "STATUS_CODE_ERROR")) => Some(false),
        _ => value.get("is_exception").bool().filter(|failed| *failed).map(|_| false),
    };
    if ok == Some(false) {
        facts.failed(value.get("exception_type").some_str());
    }
    let start = time::instant(value.first(&START));
    // The one duration that stands without an end is ClickHouse's, in nanoseconds.
    let end = time::instant(value.first(&END))
        .or_else(|| start?.checked_add(value.get("Duration").integer_like().filter(|n| *n >= 0)?));
    let service = value.first(&["service_name", "serviceName", "ServiceName"]).some_str();
    let service = service.or_else(|| value.path(&["resource", "attributes", "service.name"]).some_str());
    let service = service.or_else(|| value.first(&RESOURCE).get("service.name").some_str());
    let recording = &mut spans.recording;
    let mut text =
        |id: Value<'_>| id.str().and_then(ids::span_id).map(|id| recording.text(&id)).unwrap_or_default();
    let span = Span {
        id: text(value.first(&ID)),
        parent: text(value.first(&PARENT)),
        service: recording.text(service.unwrap_or_default()),
        start,
        end,
        ok,
        item: reading.item,
        ..Span::default()
    };
    for link in value.first(&["links", "otel_links"]).elements() {
        let to = link.first(&ID);
        let to = if to.exists() { to } else { link.get("context").first(&ID) };
        if let Some(to) = to.str().and_then(ids::span_id) {
            let to = spans.recording.text(&to);
            spans.link(to);
        }
    }
    facts.push(span, reading.limits, spans);
}
