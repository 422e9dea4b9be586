//! Opik: traces with their spans, as `opik export` writes them, one file each; answers of its API; one span or trace per
//! line.
//!
//! An item is a span, or a trace without its spans; its key is the id of the trace. Of several versions of one thing the
//! one that ended counts. What a span did is read from its columns and from the attributes that its metadata keeps of
//! the span of another tool that it was ([`span`]); [`super::spans`] makes one recording of them.

use super::object_text::ObjectText;
use super::otel::time::instant;
use super::parsed::ParsedItems;
use super::recording::{Usage, hash};
use super::spans::{Judgment, Lone, Spans, Unused};
use super::{Confidence, ImporterInfo, Items, Record, SpreadImporter, TraceItems};
use crate::columns::writer::TraceWriter;
use crate::error::{Reject, RejectCode};
use crate::json::Kind;
use crate::json::tree::Value;

mod span;

/// The importer.
#[derive(Debug)]
pub struct Opik;

static INFO: ImporterInfo = ImporterInfo {
    name: "opik",
    summary: "Opik traces with their spans and scores: opik export, answers of its API, one span per line",
    evidence: &["trace", "spans", "project_name", "downloaded_at"],
    suffixes: &[".json", ".jsonl"],
    lenient: true,
};

/// What a record, or a part of one, is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum RecordKind {
    /// A trace with its spans beside it.
    Export,
    Trace,
    Span,
    /// A page of a list.
    Page,
}

fn kind_of(value: Value<'_>) -> Option<RecordKind> {
    let has = |value: Value<'_>, key: &str| !value.get(key).is_absent();
    let is_span = |span: Value<'_>| {
        let typed = span.get("type").str().is_some_and(|kind| span::TYPES.contains(&kind));
        typed
            && has(span, "trace_id")
            && has(span, "start_time")
            && (has(span, "input") || has(span, "output"))
    };
    let is_trace = |trace: Value<'_>| {
        let counted =
            ["span_count", "llm_span_count", "span_feedback_scores"].iter().any(|key| has(trace, key));
        has(trace, "id") && has(trace, "start_time") && counted && !has(trace, "trace_id")
    };
    let (trace, spans) = (value.get("trace"), value.get("spans"));
    if trace.kind() == Some(Kind::Object) && spans.kind() == Some(Kind::Array) {
        let packed = has(value, "downloaded_at") || has(value, "project_name");
        return (packed || is_trace(trace) || is_span(spans.at(0))).then_some(RecordKind::Export);
    }
    if is_span(value) {
        return Some(RecordKind::Span);
    }
    if is_trace(value) {
        return Some(RecordKind::Trace);
    }
    let first = value.get("content").at(0);
    (has(value, "total") && (is_span(first) || is_trace(first))).then_some(RecordKind::Page)
}

impl SpreadImporter for Opik {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        if kind_of(record).is_some() { Confidence::Yes } else { Confidence::No }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        out.cut(record.text, |root, out| {
            match kind_of(root) {
                Some(RecordKind::Export) => {
                    let trace = root.get("trace");
                    put_trace(trace, out);
                    let id = trace.get("id").some_str();
                    root.get("spans").elements().for_each(|span| put_span(span, id, out));
                }
                Some(RecordKind::Page) => {
                    for part in root.get("content").elements() {
                        match kind_of(part) {
                            Some(RecordKind::Trace) => put_trace(part, out),
                            _ => put_span(part, None, out),
                        }
                    }
                }
                Some(RecordKind::Trace) => put_trace(root, out),
                Some(RecordKind::Span) => put_span(root, None, out),
                None => {
                    if let Some(trace) = root.get("trace_id").some_str() {
                        out.lacks(trace);
                    }
                    let message = "found no trace or span of Opik";
                    return Err(Reject::new(RejectCode::FieldMissing, "", message));
                }
            }
            Ok(())
        })
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        let parsed = ParsedItems::of(items);
        let mut spans = Spans::default();
        parsed.tell_replaced(&mut spans.recording);
        let recording = &mut spans.recording;
        recording.trace.trace_id = recording.text(items.key());
        recording.trace.system = recording.text("opik");

        let rank = |value: Value<'_>| (value.get("end_time").exists(), instant(value.get("last_updated_at")));
        let parts = parsed.latest(items, thing_of, rank);
        let (traces, records): (Vec<_>, Vec<_>) = parts.into_iter().partition(|(_, value)| is_trace(*value));
        state(&traces, &mut spans);
        // Who works where nobody is named.
        let name = traces.iter().find_map(|(_, trace)| trace.get("name").some_str()).unwrap_or("opik");
        for (item, value) in &records {
            span::push(*item, *value, name, items.limits(), &mut spans);
        }
        spans.describe(&|_, _| false, &mut |item, fate| match fate {
            Unused::Duplicate => items.duplicate(item as usize),
            Unused::Ignored(kind) => items.ignored(item as usize, kind),
        });
        for (item, trace) in &traces {
            let id = trace.get("id").str().unwrap_or_default();
            let is_of_trace = |record: Value<'_>| {
                record.get("trace_id").some_str().map_or(traces.len() == 1, |of| of == id)
            };
            let is_told = !(traces.len() == 1 && spans.recording.is_empty());
            if !(is_told && records.iter().any(|(_, record)| is_of_trace(*record))) {
                let output = trace.get("output");
                let content = output.exists().then(|| hash(output.str().unwrap_or_else(|| output.raw())));
                let (start, end) = (instant(trace.get("start_time")), instant(trace.get("end_time")));
                let name = trace.get("name").some_str().unwrap_or("opik");
                spans.lone(Lone { item: *item, name, id, content, start, end });
            }
        }
        let of_traces = traces.iter().flat_map(|(_, trace)| judgments(*trace, None));
        let of_spans = records
            .iter()
            .flat_map(|(_, record)| judgments(*record, Some(record.get("id").str().unwrap_or_default())));
        spans.judge(of_traces.chain(of_spans).collect());
        if !spans.recording.write(out) {
            spans.recording.write_labels(out);
        }
    }
}

fn is_trace(value: Value<'_>) -> bool {
    value.get("trace_id").is_absent()
        && !value.get("type").str().is_some_and(|kind| span::TYPES.contains(&kind))
}

fn missing(path: &'static str, expected: &str) -> Reject {
    Reject::new(RejectCode::FieldMissing, path, format!("found nothing, expected {expected}"))
}

fn put_trace(trace: Value<'_>, out: &mut Items<'_>) {
    let Some(id) = trace.get("id").some_str() else {
        return out.reject(trace.raw(), missing("/id", "the id of the trace"));
    };
    out.conversation(id, trace.get("thread_id").str().unwrap_or_default());
    out.item(id, trace.raw(), "");
}

/// Puts a span. One that lies beside its trace may leave the id of that out.
fn put_span(span: Value<'_>, above: Option<&str>, out: &mut Items<'_>) {
    let own_trace = span.get("trace_id").some_str();
    match (own_trace.or(above), span.get("id").some_str()) {
        (Some(trace), Some(_)) if own_trace.is_some() => out.item(trace, span.raw(), ""),
        (Some(trace), Some(_)) => {
            let mut text = ObjectText::new();
            text.text("trace_id", trace);
            let members = span.members().filter(|(key, _)| *key != "trace_id");
            members.for_each(|(key, value)| text.raw(key, value.raw()));
            out.item(trace, &text.finish(), "");
        }
        (Some(trace), None) => out.reject_in(trace, span.raw(), missing("/id", "the id of the span")),
        (None, _) => out.reject(span.raw(), missing("/trace_id", "the id of a trace")),
    }
}

/// What several versions may be of.
fn thing_of(value: Value<'_>) -> (bool, &str) {
    (is_trace(value), value.get("id").str().unwrap_or_default())
}

/// What traces state of themselves: sums and the number of spans, if each does, and the item of a data set that one ran
/// on.
fn state(traces: &[(u32, Value<'_>)], spans: &mut Spans) {
    let count = |trace: Value<'_>| trace.get("span_count").integer_like().filter(|n| *n >= 0);
    let tokens = |trace: Value<'_>| span::usage(trace.get("usage")).0.total();
    spans.stated_spans = sum(traces.iter().map(|(_, trace)| count(*trace)));
    spans.whole = Usage {
        tokens: sum(traces.iter().map(|(_, trace)| tokens(*trace))),
        cost_usd: traces.iter().map(|(_, trace)| span::cost(*trace)).sum(),
        ..Usage::default()
    };
    if traces.is_empty() {
        spans.whole = Usage::default();
    }
    let recording = &mut spans.recording;
    if let [(_, trace)] = traces
        && let Some(example) = trace.path(&["experiment", "dataset_item_id"]).some_str()
    {
        recording.trace.task_id = recording.text(example);
        recording.trace.group_id = recording.text(example);
    }
    recording.trace.partial |= traces.iter().any(|(_, trace)| !trace.get("end_time").exists());
}

/// A sum of numbers that each is known; nothing of none.
fn sum(mut numbers: impl Iterator<Item = Option<i64>>) -> Option<i64> {
    let first = numbers.next()??;
    numbers.try_fold(first, |sum, number| Some(sum.saturating_add(number?)))
}

/// The scores of a trace or a span.
fn judgments<'t>(value: Value<'t>, span: Option<&'t str>) -> impl Iterator<Item = Judgment<'t>> {
    value.get("feedback_scores").elements().filter_map(move |score| {
        let author = score.first(&["last_updated_by", "created_by"]).some_str();
        Some(Judgment {
            name: score.get("name").some_str()?,
            annotator: author.or_else(|| score.get("source").some_str()).unwrap_or("opik"),
            number: score.get("value").number_like(),
            words: score.get("category_name").some_str(),
            span,
            time: instant(score.first(&["last_updated_at", "created_at"])),
            id: "",
        })
    })
}
