//! Langfuse: traces with observations and scores, from exports of the application, answers of its API, and blob
//! exports, one per line.
//!
//! An item is an observation, a score, or a trace without both; its key is the id of the trace. An export has its
//! observations inside the trace, beside it, or both: of several versions of one observation the fullest counts, and
//! the others are duplicates. What an observation did is read from its columns and from the attributes that its
//! metadata keeps of the span it was ([`observation`]); [`super::spans`] makes one recording of them.

use xxhash_rust::xxh3::xxh3_64;

use super::extent::Counted;
use super::object_text::ObjectText;
use super::parsed::ParsedItems;
use super::recording::{AgentInfo, Label, Recording, Saying, Text, Usage, hash};
use super::spans::{Spans, Unused};
use super::{Confidence, ImporterInfo, Items, Record, SpreadImporter, TraceItems};
use crate::columns::writer::TraceWriter;
use crate::error::{Reject, RejectCode};
use crate::json::Kind;
use crate::json::identity::identity;
use crate::json::time::parse_timestamp;
use crate::json::tree::Value;
use crate::schema::MeasureKind;

mod observation;

/// The importer.
#[derive(Debug)]
pub struct Langfuse;

static INFO: ImporterInfo = ImporterInfo {
    name: "langfuse",
    summary: "Langfuse traces, observations and scores: exports, answers of its API, blob exports",
    evidence: &["trace", "observations", "projectId", "traceId"],
    suffixes: &[".json", ".jsonl"],
    lenient: true,
};

/// What a record, or a part of one, is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordKind {
    Trace,
    Observation,
    Score,
    /// A trace with what belongs to it beside it.
    Export,
    /// A page of a list.
    Page,
}

/// Types of observations.
const TYPES: [&str; 10] = [
    "AGENT",
    "CHAIN",
    "EMBEDDING",
    "EVALUATOR",
    "EVENT",
    "GENERATION",
    "GUARDRAIL",
    "RETRIEVER",
    "SPAN",
    "TOOL",
];

fn trace_of(value: Value<'_>) -> Option<&str> {
    value.first(&["traceId", "trace_id"]).some_str()
}

fn kind_of(value: Value<'_>) -> Option<RecordKind> {
    let has = |key: &str| !value.get(key).is_absent();
    let typed = value.get("type").str().is_some_and(|kind| TYPES.contains(&kind));
    if typed && (has("startTime") || has("start_time")) && (has("traceId") || has("trace_id")) {
        return Some(RecordKind::Observation);
    }
    if (has("traceId") || has("trace_id"))
        && has("name")
        && (has("dataType") || has("data_type") || (has("value") && has("source")))
    {
        return Some(RecordKind::Score);
    }
    let listed = has("observations") || has("scores");
    if value.get("trace").kind() == Some(Kind::Object)
        && (listed || value.path(&["trace", "observations"]).exists())
    {
        return Some(RecordKind::Export);
    }
    let owned = has("projectId") || has("project_id");
    let timed = has("timestamp") && value.get("id").some_str().is_some();
    if listed && owned
        || timed && (owned || has("htmlPath")) && (has("userId") || has("user_id") || has("tags"))
    {
        return Some(RecordKind::Trace);
    }
    let first = value.get("data").at(0);
    (first.kind() == Some(Kind::Object) && value.get("meta").exists() && kind_of(first).is_some())
        .then_some(RecordKind::Page)
}

impl SpreadImporter for Langfuse {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        if kind_of(record).is_some() { Confidence::Yes } else { Confidence::No }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        out.cut(record.text, |root, out| {
            if kind_of(root) == Some(RecordKind::Page) {
                extent(root, record.path, out);
            }
            if put(root, None, out) {
                return Ok(());
            }
            if let Some(trace) = trace_of(root) {
                out.lacks(trace);
            }
            let message = "found no trace, observation or score of Langfuse";
            Err(Reject::new(RejectCode::FieldMissing, "", message))
        })
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        let parsed = ParsedItems::of(items);
        let parts = Parts::of(items, &parsed);
        let mut spans = Spans::default();
        parsed.tell_replaced(&mut spans.recording);
        let recording = &mut spans.recording;
        recording.trace.trace_id = recording.text(items.key());
        recording.trace.system = recording.text("langfuse");
        let value = |i: u32| parsed.get(i as usize);
        let mut traces: Vec<(u32, Value<'_>)> =
            parts.traces.iter().filter_map(|i| Some((*i, value(*i)?))).collect();
        traces.sort_by_key(|(_, trace)| trace.get("timestamp").str().and_then(parse_timestamp));
        let trace = traces.first().map(|(_, trace)| *trace);
        let observations: Vec<(u32, Value<'_>)> =
            parts.observations.iter().filter_map(|i| Some((*i, value(*i)?))).collect();
        let scores: Vec<Value<'_>> = parts.scores.iter().filter_map(|i| value(*i)).collect();
        spans.whole = usage_of_traces(&traces);
        let described = observation::push_all(&observations, trace, &scores, items.limits(), &mut spans);
        spans.describe(&|_, _| false, &mut |item, fate| match fate {
            Unused::Duplicate => items.duplicate(item as usize),
            Unused::Ignored(_) if described.contains(&item) => {}
            Unused::Ignored(kind) => items.ignored(item as usize, kind),
        });
        for (item, trace) in &traces {
            let id = trace.get("id").str();
            let is_of_trace =
                |value: Value<'_>| trace_of(value).map_or(traces.len() == 1, |of| Some(of) == id);
            if !observations.iter().any(|(_, observation)| is_of_trace(*observation)) {
                alone(*item, *trace, &mut spans.recording);
            }
            let listed = trace.get("observations").elements().filter_map(Value::str);
            let is_there = |id: &str| observations.iter().any(|(_, o)| o.get("id").str() == Some(id));
            spans.recording.trace.partial |= listed.into_iter().any(|id| !is_there(id));
        }
        let latency = trace.filter(|_| traces.len() == 1 && observations.is_empty());
        let latency = latency.and_then(|trace| trace.get("latency").number_like());
        if let Some(latency) = latency.filter(|latency| *latency >= 0.0) {
            spans.recording.wall_clock_s(latency);
        }
        judge(&scores, &mut spans);
        if !spans.recording.write(out) {
            spans.recording.write_labels(out);
        }
    }
}

/// Puts a record or a part of one; whether it was anything. `above` is the trace that it lies in.
fn put(value: Value<'_>, above: Option<&str>, out: &mut Items<'_>) -> bool {
    match kind_of(value) {
        Some(RecordKind::Page) => value.get("data").elements().for_each(|part| each(part, None, out)),
        Some(RecordKind::Export) => {
            let trace = value.get("trace");
            let id = trace.get("id").some_str();
            put_trace(trace, out);
            inside(value, id, out);
        }
        Some(RecordKind::Trace) => put_trace(value, out),
        Some(RecordKind::Observation | RecordKind::Score) => each(value, above, out),
        None => return false,
    }
    true
}

/// Says how many traces, observations or scores a page holds, and how many all pages have by what it states.
fn extent(page: Value<'_>, path: &str, out: &mut Items<'_>) {
    let (data, meta) = (page.get("data"), page.get("meta"));
    let first = data.at(0);
    let (things, are_traces) = match kind_of(first) {
        Some(RecordKind::Observation) => ("observations", false),
        Some(RecordKind::Score) => ("scores", false),
        // Of a session that is one trace, each part is not.
        _ => ("traces", !out.by_conversation()),
    };
    let is_list_of_traces = things == "traces";
    let mut keys = data
        .elements()
        .filter_map(|part| if is_list_of_traces { part.get("id").some_str() } else { trace_of(part) });
    let Some(key) = keys.next() else { return };
    let counted = Counted { statement: "meta.totalItems", things, are_traces };
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let part = meta.get("page").i64().map_or_else(|| identity(page.raw()), i64::cast_unsigned);
    out.extent(key, counted, (xxh3_64(folder.as_bytes()), meta.get("totalItems").i64()), (part, data.len()));
}

fn put_trace(trace: Value<'_>, out: &mut Items<'_>) {
    let Some(id) = trace.get("id").some_str() else {
        let message = "found nothing, expected the id of the trace";
        out.reject(trace.raw(), Reject::new(RejectCode::FieldMissing, "/id", message));
        return;
    };
    // Pages of traces only name what belongs to them; that it exists is kept.
    let names = |value: Value<'_>| value.at(0).kind() == Some(Kind::String);
    let mut text = ObjectText::new();
    for (key, value) in trace.members() {
        if matches!(key, "observations" | "scores") && !names(value) {
            continue;
        }
        text.raw(key, value.raw());
    }
    out.conversation(id, trace.first(&["sessionId", "session_id"]).str().unwrap_or_default());
    out.item(id, &text.finish(), "");
    inside(trace, Some(id), out);
}

/// Puts the observations and scores that lie in something.
fn inside(value: Value<'_>, trace: Option<&str>, out: &mut Items<'_>) {
    for key in ["observations", "scores"] {
        for part in value.get(key).elements().filter(|part| part.kind() != Some(Kind::String)) {
            each(part, trace, out);
        }
    }
}

/// Puts an observation or a score, or a trace of a page.
fn each(value: Value<'_>, above: Option<&str>, out: &mut Items<'_>) {
    if above.is_none() && kind_of(value) == Some(RecordKind::Trace) {
        return put_trace(value, out);
    }
    let (trace, id) = (trace_of(value).or(above), value.get("id").some_str());
    let missing = |path, expected: &str| {
        Reject::new(RejectCode::FieldMissing, path, format!("found nothing, expected {expected}"))
    };
    match (trace, id) {
        (Some(trace), Some(_)) => out.item(trace, value.raw(), ""),
        (Some(trace), None) => out.reject_in(trace, value.raw(), missing("/id", "an id")),
        (None, _) => out.reject(value.raw(), missing("/traceId", "the id of a trace")),
    }
}

/// The items of a trace by what they are, each once, in the order of their ids.
#[derive(Debug, Default)]
struct Parts {
    /// One, unless a session is one trace.
    traces: Vec<u32>,
    observations: Vec<u32>,
    scores: Vec<u32>,
}

impl Parts {
    /// Sorts them; of several versions of one thing the one that ended counts, then the one that was written last,
    /// then the longest.
    fn of(items: &TraceItems<'_>, parsed: &ParsedItems<'_>) -> Self {
        let rank = |value: Value<'_>| {
            let ended = value.first(&["endTime", "end_time"]).exists();
            (ended, value.first(&["updatedAt", "updated_at"]).str().and_then(parse_timestamp))
        };
        let mut parts = Self::default();
        for (item, value) in parsed.latest(items, thing_of, rank) {
            match class_of(value) {
                0 => parts.traces.push(item),
                1 => parts.observations.push(item),
                _ => parts.scores.push(item),
            }
        }
        parts
    }
}

/// What several versions may be of.
fn thing_of(value: Value<'_>) -> (u8, &str) {
    (class_of(value), value.get("id").str().unwrap_or_default())
}

/// 0 for traces, 1 for observations, 2 for scores: what lies in a trace may say less than a record of its own.
fn class_of(value: Value<'_>) -> u8 {
    let has = |key: &str| !value.get(key).is_absent();
    if has("dataType") || has("data_type") || (has("value") && has("source")) {
        2
    } else {
        u8::from(has("startTime") || has("start_time") || has("parentObservationId"))
    }
}

/// What the traces state of themselves; nothing unless each does. A price of 0 stands where none is known.
fn usage_of_traces(traces: &[(u32, Value<'_>)]) -> Usage {
    let cost =
        |trace: Value<'_>| trace.first(&["totalCost", "total_cost"]).number_like().filter(|c| *c > 0.0);
    let costs: Option<Vec<f64>> = traces.iter().map(|(_, trace)| cost(*trace)).collect();
    let cost_usd = costs.filter(|costs| !costs.is_empty()).map(|costs| costs.iter().sum());
    Usage { cost_usd, ..Usage::default() }
}

/// A trace of which no observation is there: one event, of what came out.
fn alone(item: u32, trace: Value<'_>, recording: &mut Recording) {
    let name = recording.text(trace.get("name").some_str().unwrap_or("langfuse"));
    let agent = recording.agent(AgentInfo { name, open: true, ..AgentInfo::default() });
    let output = trace.get("output");
    let output = output.exists().then(|| hash(output.str().unwrap_or_else(|| output.raw())));
    let id = recording.text(trace.get("id").str().unwrap_or_default());
    let time = trace.get("timestamp").str().and_then(parse_timestamp);
    recording.made_of(item);
    recording.lone_saying(agent, Saying { id, content: output, time, ..Saying::default() });
    recording.trace.partial = true;
}

/// Number of a score: booleans are 0 and 1.
fn number(score: Value<'_>) -> Option<f64> {
    let value = score.get("value");
    value.number_like().or_else(|| value.bool().map(f64::from)).filter(|number| number.is_finite())
}

/// Scores of observations are labels, those of the trace are metrics. None is a reward (R8): whether a high one is
/// good only its author knows.
fn judge(scores: &[Value<'_>], spans: &mut Spans) {
    // The last of a name counts: a correction comes after what it corrects.
    let time = |score: &Value<'_>| {
        score.first(&["timestamp", "updatedAt", "updated_at"]).str().and_then(parse_timestamp)
    };
    let mut sorted: Vec<Value<'_>> = scores.to_vec();
    sorted.sort_by(|a, b| {
        let key = |score: &Value<'_>| (time(score), score.get("id").str().map(str::to_owned));
        key(b).cmp(&key(a))
    });
    let mut named: Vec<&str> = Vec::new();
    for score in sorted {
        let Some(name) = score.get("name").some_str() else { continue };
        let on = score.first(&["observationId", "observation_id"]).some_str();
        let categorical = score.first(&["dataType", "data_type"]).str() == Some("CATEGORICAL");
        if on.is_none()
            && let Some(value) = number(score).filter(|_| !categorical && !named.contains(&name))
        {
            named.push(name);
            spans.recording.measure(MeasureKind::Metric, name, value);
            continue;
        }
        let entry = on.map_or(Text::default(), |id| {
            let entry = spans.entry_of(id);
            if entry.is_none() { spans.recording.text(id) } else { entry }
        });
        let text = score.first(&["stringValue", "string_value"]).some_str();
        let text = text.or_else(|| score.get("value").some_str().filter(|_| categorical));
        let recording = &mut spans.recording;
        let label = match text {
            Some(text) => recording.join(&[name, "=", text]),
            None => recording.text(name),
        };
        let annotator = recording
            .text(score.first(&["authorUserId", "author_user_id", "source"]).str().unwrap_or("langfuse"));
        recording.label(Label { annotator, entry, label, weight: number(score), ..Label::default() });
    }
}
