//! LangSmith: runs from its API and its exports, one per line, in pages, in batches of creations and updates, or as
//! trees of `child_runs`; and feedback.
//!
//! An item is a run without its children, or a feedback; its key is the id of the trace. What is recorded of one run as
//! it begins and again as it ends is one run ([`run`]). A run whose parent is missing hangs below the nearest ancestor
//! that its `dotted_order` names. Graphs of LangGraph are agents, and so are their nodes where several of them ask
//! models ([`graph`]); what the runs make together is found by [`super::spans`].

use std::collections::HashMap;

use super::object_text::ObjectText;
use super::parsed::ParsedItems;
use super::recording::{Label, Text};
use super::spans::{Spans, Unused};
use super::{Confidence, ImporterInfo, Items, Record, SpreadImporter, TraceItems};
use crate::columns::writer::TraceWriter;
use crate::error::{Reject, RejectCode};
use crate::json::Kind;
use crate::json::tree::Value;
use crate::schema::MeasureKind;

mod graph;
mod run;

use graph::Graph;
use run::Run;

/// The importer.
#[derive(Debug)]
pub struct LangSmith;

static INFO: ImporterInfo = ImporterInfo {
    name: "langsmith",
    summary: "LangSmith runs and feedback: exports, answers of its API, trees of runs",
    evidence: &["run_type", "dotted_order", "trace_id"],
    suffixes: &[".json", ".jsonl"],
    lenient: true,
};

fn is_run(value: Value<'_>) -> bool {
    let placed = ["dotted_order", "trace_id", "parent_run_id", "child_runs"];
    value.get("run_type").str().is_some() && placed.iter().any(|key| !value.get(key).is_absent())
}

/// The second half of a run, which only says how it ended.
fn is_update(value: Value<'_>) -> bool {
    value.get("dotted_order").str().is_some() && !value.get("end_time").is_absent()
}

fn is_feedback(value: Value<'_>) -> bool {
    value.get("key").str().is_some()
        && value.get("run_id").str().is_some()
        && (!value.get("score").is_absent() || !value.get("value").is_absent())
}

fn pages(value: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    ["runs", "post", "patch"].into_iter().flat_map(move |key| value.get(key).elements())
}

impl SpreadImporter for LangSmith {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        if is_run(record)
            || pages(record).next().is_some_and(is_run)
            || (is_feedback(record) && trace_of(record).is_some())
        {
            Confidence::Yes
        } else if is_update(record) {
            Confidence::Maybe
        } else {
            Confidence::No
        }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        out.cut(record.text, |root, out| {
            if is_run(root) || is_update(root) || is_feedback(root) {
                put(root, None, None, out);
            } else if pages(root).next().is_some() {
                pages(root).for_each(|value| put(value, None, None, out));
            } else {
                if let Some(trace) = trace_of(root) {
                    out.lacks(trace);
                }
                let message = "found neither a run nor feedback";
                return Err(Reject::new(RejectCode::FieldMissing, "/run_type", message));
            }
            Ok(())
        })
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        let limits = items.limits();
        let parsed = ParsedItems::of(items);
        let mut spans = Spans::default();
        parsed.tell_replaced(&mut spans.recording);
        let recording = &mut spans.recording;
        recording.trace.trace_id = recording.text(items.key());
        recording.trace.system = recording.text("langsmith");
        let (feedback, parts): (Vec<_>, Vec<_>) = parsed.values().partition(|(_, value)| is_feedback(*value));
        let runs = run::gather(&parts, &mut |item| items.duplicate(item as usize));
        let graph = Graph::of(&runs);
        spans.recording.trace.partial |= graph.incomplete;
        let service = runs.iter().find_map(|run| run.get("session_name").some_str()).unwrap_or("langsmith");
        for (i, run) in runs.iter().enumerate() {
            run::push(run, graph.parent(&runs, i), graph.sort(&runs, i), service, limits, &mut spans);
        }
        spans.describe(&|_, _| false, &mut |item, fate| match fate {
            Unused::Duplicate => items.duplicate(item as usize),
            Unused::Ignored(kind) => {
                // A run that is spread over several records gives nothing in any of them.
                let run = runs.iter().find(|run| run.item() == item);
                run.iter().flat_map(|run| run.items()).for_each(|item| items.ignored(item as usize, kind));
            }
        });
        judge(&runs, &feedback, &mut spans);
        if !spans.recording.write(out) {
            spans.recording.write_labels(out);
        }
    }
}

/// The trace of a run: what it says, or the first part of its order, or itself if it is nobody's child.
fn trace_of(value: Value<'_>) -> Option<&str> {
    value.get("trace_id").some_str().or_else(|| run::ancestors(value).next())
}

/// Puts a run without its children, and its children; or a feedback.
fn put(value: Value<'_>, trace: Option<&str>, parent: Option<&str>, out: &mut Items<'_>) {
    let id = value.get("id").some_str();
    let own_id = || id.filter(|_| value.get("parent_run_id").some_str().is_none());
    let trace = trace_of(value).or(trace).or_else(own_id);
    let missing = |path| Reject::new(RejectCode::FieldMissing, path, "found nothing, expected an id");
    let (Some(trace), Some(id)) = (trace, id) else {
        match trace {
            Some(trace) => out.reject_in(trace, value.raw(), missing("/id")),
            None => out.reject(value.raw(), missing("/trace_id")),
        }
        return;
    };
    let metadata = value.path(&["extra", "metadata"]);
    let thread = metadata.first(&["session_id", "conversation_id", "thread_id"]);
    let thread = thread.str().unwrap_or_default();
    let children = value.get("child_runs");
    let names_parent = value.get("parent_run_id").some_str().is_some();
    if names_parent || parent.is_some() {
        out.conversation_within(trace, thread);
    } else {
        out.conversation(trace, thread);
    }
    if children.is_empty() && (names_parent || parent.is_none()) {
        out.item(trace, value.raw(), "");
        return;
    }
    let mut text = ObjectText::new();
    for (key, member) in value.members().filter(|(key, _)| *key != "child_runs") {
        text.raw(key, member.raw());
    }
    if let Some(parent) = parent.filter(|_| !names_parent) {
        text.text("parent_run_id", parent);
    }
    out.item(trace, &text.finish(), "");
    children.elements().filter(|child| child.kind() == Some(Kind::Object)).for_each(|child| {
        put(child, Some(trace), Some(id), out);
    });
}

/// What one piece of feedback says; in the order in which they count.
#[derive(Debug, PartialEq, PartialOrd)]
struct Feedback<'t> {
    run: &'t str,
    key: &'t str,
    who: &'t str,
    value: Option<&'t str>,
    score: Option<f64>,
}

/// Feedback on the whole is a metric, on a run within it a label; where a run only has statistics of it, their
/// averages. None is a reward (R8).
fn judge(runs: &[Run<'_>], feedback: &[(u32, Value<'_>)], spans: &mut Spans) {
    let mut metrics: HashMap<String, f64> = HashMap::new();
    let root = |id: &str| {
        let run = runs.iter().find(|run| run.id() == id);
        run.is_some_and(|run| {
            run.get("parent_run_id").some_str().is_none() && run::ancestors_of(run).next().is_none()
        })
    };
    let mut collected: Vec<Feedback<'_>> = Vec::new();
    for (_, value) in feedback {
        let text = |key: &str| value.get(key).some_str();
        let score = value.get("score");
        let score = score.number_like().or_else(|| score.bool().map(f64::from));
        let who = value.path(&["feedback_source", "type"]).some_str().unwrap_or("langsmith");
        collected.push(Feedback {
            run: text("run_id").unwrap_or_default(),
            key: text("key").unwrap_or_default(),
            who,
            value: text("value"),
            score,
        });
    }
    for run in runs {
        for (key, stats) in run.get("feedback_stats").members() {
            if !collected.iter().any(|listed| listed.run == run.id() && listed.key == key) {
                let score = stats.get("avg").number_like();
                collected.push(Feedback { run: run.id(), key, who: "langsmith", value: None, score });
            }
        }
    }
    collected.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    for Feedback { run: id, key, who, value, score } in collected {
        if let Some(score) = score.filter(|score| root(id) && score.is_finite() && !metrics.contains_key(key))
        {
            metrics.insert(key.to_owned(), score);
            spans.recording.measure(MeasureKind::Metric, key, score);
            continue;
        }
        if score.is_none() && value.is_none() {
            continue;
        }
        let entry = spans.entry_of(id);
        let recording = &mut spans.recording;
        let entry: Text = if entry.is_none() && !root(id) { recording.text(id) } else { entry };
        let label = match value {
            Some(value) => recording.join(&[key, "=", value]),
            None => recording.text(key),
        };
        let annotator = recording.text(who);
        recording.label(Label { annotator, entry, label, weight: score, ..Label::default() });
    }
}
