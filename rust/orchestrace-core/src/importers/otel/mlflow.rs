//! What `MLflow` says of a trace as a whole, in `info` beside its spans: usage, how many spans there were, whether the
//! run goes on, and assessments. Where the spans are archived or lost it is all that is known.

use std::borrow::Cow;

use super::{ids, put, time};
use crate::importers::object_text::ObjectText;
use crate::importers::recording::Usage;
use crate::importers::spans::{Judgment, Lone, Spans};
use crate::importers::{Items, TraceItems, usage};
use crate::json::Limits;
use crate::json::tree::{Tree, Value};

/// Of objects that the library wrote, which are small.
const LIMITS: Limits = Limits { depth: 64, string: usize::MAX, lenient: true };

/// Members of a row of a table of traces that repeat its spans, or show what went in and came out.
const BESIDE: [&str; 4] = ["spans", "trace", "request", "response"];

fn id_of(info: Value<'_>) -> Option<&str> {
    info.first(&["trace_id", "request_id"]).some_str()
}

fn metadata(info: Value<'_>) -> Value<'_> {
    info.first(&["trace_metadata", "request_metadata"])
}

/// Whether an object is what `MLflow` says of a trace.
pub(super) fn is_info(info: Value<'_>) -> bool {
    id_of(info).is_some() && metadata(info).exists()
}

/// Whether a record is a trace, with its spans or without.
pub(super) fn is(root: Value<'_>) -> bool {
    is_info(root.get("info"))
}

/// Puts what a record says beside its spans, of the trace that these name.
pub(super) fn put_info(root: Value<'_>, trace: Option<String>, out: &mut Items<'_>) {
    let inner = root.get("info");
    // A row of a table of traces has the same as columns of its own.
    let (info, is_inner) = if is_info(inner) { (inner, true) } else { (root, false) };
    if !is_info(info) {
        return;
    }
    let Some(trace) = trace.or_else(|| id_of(info).and_then(ids::trace_id)) else { return };
    out.conversation(&trace, metadata(info).get("mlflow.trace.session").str().unwrap_or_default());
    if is_inner {
        return put(info.raw(), (Some(trace), Some("")), "", out);
    }
    let mut text = ObjectText::new();
    info.members()
        .filter(|(key, _)| !BESIDE.contains(key))
        .for_each(|(key, value)| text.raw(key, value.raw()));
    put(&text.finish(), (Some(trace), Some("")), "", out);
}

/// What is said of each of the traces that a recording is made of.
#[derive(Debug, Default)]
pub(super) struct Infos<'t> {
    list: Vec<(usize, Tree<'t>)>,
}

impl<'t> Infos<'t> {
    pub(super) fn push(&mut self, item: usize, tree: Tree<'t>) {
        self.list.push((item, tree));
    }

    /// Keeps one of each trace: what was said of it when it had ended, then what says most.
    pub(super) fn choose(&mut self, items: &TraceItems<'_>) {
        self.list.sort_by(|(_, a), (_, b)| {
            let key = |tree: &Tree<'t>| {
                let raw = tree.root().raw();
                (
                    id_of(tree.root()).map(str::to_owned),
                    is_open(tree.root()),
                    std::cmp::Reverse(raw.len()),
                    raw.to_owned(),
                )
            };
            key(a).cmp(&key(b))
        });
        let mut last: Option<String> = None;
        self.list.retain(|(item, tree)| {
            let id = id_of(tree.root()).map(str::to_owned);
            let is_new = last != id;
            if !is_new {
                items.duplicate(*item);
            }
            last = id;
            is_new
        });
    }

    fn each(&self) -> impl Iterator<Item = Value<'_>> {
        self.list.iter().map(|(_, tree)| tree.root())
    }

    /// What the traces state of themselves, before their spans are described.
    pub(super) fn state(&self, spans: &mut Spans) {
        let usages: Vec<Usage> = self.each().map(usage_of).collect();
        let totals: Option<Vec<i64>> = usages.iter().map(Usage::total).collect();
        let costs: Option<Vec<f64>> = usages.iter().map(|usage| usage.cost_usd).collect();
        spans.whole = match &usages[..] {
            [one] => *one,
            _ => Usage {
                tokens: totals.filter(|totals| !totals.is_empty()).map(|totals| totals.iter().sum()),
                cost_usd: costs.filter(|costs| !costs.is_empty()).map(|costs| costs.iter().sum()),
                ..Usage::default()
            },
        };
        let counts: Option<Vec<i64>> = self.each().map(spans_of).collect();
        spans.stated_spans = counts.filter(|counts| !counts.is_empty()).map(|counts| counts.iter().sum());
        spans.recording.trace.partial |= self.each().any(is_open);
    }

    /// What is said beside the spans, once they are described.
    pub(super) fn describe(&self, spans: &mut Spans) {
        if !self.list.is_empty() {
            spans.recording.trace.system = spans.recording.text("mlflow");
        }
        if spans.is_empty() || (self.list.len() == 1 && spans.recording.is_empty()) {
            self.list.iter().for_each(|(item, tree)| spans.lone(lone(*item as u32, tree.root())));
        }
        let all: Vec<(Option<String>, Judgment<'_>)> = self.each().flat_map(judgments).collect();
        spans.judge(
            all.iter().map(|(span, judgment)| Judgment { span: span.as_deref(), ..*judgment }).collect(),
        );
    }
}

fn is_open(info: Value<'_>) -> bool {
    info.first(&["state", "status"]).str() == Some("IN_PROGRESS")
}

/// An object that is JSON in a text of the metadata, or stands there as it is.
fn inner<T>(info: Value<'_>, key: &str, read: impl FnOnce(Value<'_>) -> T) -> Option<T> {
    let value = metadata(info).get(key);
    match value.str() {
        Some(text) => Tree::parse(text, LIMITS).ok().map(|tree| read(tree.root())),
        None => value.exists().then(|| read(value)),
    }
}

fn usage_of(info: Value<'_>) -> Usage {
    let usage = inner(info, "mlflow.trace.tokenUsage", |usage| usage::of(usage).0).unwrap_or_default();
    let cost_usd = inner(info, "mlflow.trace.cost", super::attributes::mlflow::cost).flatten();
    Usage { cost_usd, ..usage }
}

fn spans_of(info: Value<'_>) -> Option<i64> {
    inner(info, "mlflow.trace.sizeStats", |stats| stats.get("num_spans").integer_like()).flatten()
}

/// A trace of which no span is there. What came out of it is shown cut, so it has no hash.
fn lone(item: u32, info: Value<'_>) -> Lone<'_> {
    let start = time::instant(info.first(&["request_time", "timestamp_ms"]));
    let length =
        info.first(&["execution_duration_ms", "execution_time_ms", "execution_duration"]).integer_like();
    let length = length.filter(|length| *length >= 0).and_then(|length| length.checked_mul(1_000_000));
    Lone {
        item,
        name: info.get("tags").get("mlflow.traceName").some_str().unwrap_or("mlflow"),
        id: id_of(info).unwrap_or_default(),
        content: None,
        start,
        end: start.and_then(|start| start.checked_add(length?)),
    }
}

/// Feedback on a trace or a span. What was expected is no judgment.
fn judgments(info: Value<'_>) -> impl Iterator<Item = (Option<String>, Judgment<'_>)> {
    let valid = |assessment: &Value<'_>| assessment.get("valid").bool() != Some(false);
    info.get("assessments").elements().filter(valid).filter_map(|assessment| {
        let value = assessment.get("feedback").get("value");
        let number = value.number_like().or_else(|| value.bool().map(f64::from));
        let source = assessment.get("source").first(&["source_id", "source_type"]).some_str();
        let judgment = Judgment {
            name: assessment.first(&["assessment_name", "name"]).some_str()?,
            annotator: source.unwrap_or("mlflow"),
            number,
            words: value.some_str().filter(|_| number.is_none()),
            span: None,
            time: time::instant(assessment.first(&["last_update_time", "create_time"])),
            id: assessment.get("assessment_id").str().unwrap_or_default(),
        };
        let span = assessment.get("span_id").str().and_then(ids::span_id).map(Cow::into_owned);
        value.exists().then_some((span, judgment))
    })
}
