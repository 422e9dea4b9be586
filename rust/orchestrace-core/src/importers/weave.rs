//! Weave of Weights & Biases: calls, one per line as the service streams them, or a list of them.
//!
//! An item is a call; its key is the id of the trace. Of several versions of one call the one that ended counts. What a
//! call did is read from its operation, its usage, and the attributes of the span that it may have been ([`call`]);
//! [`super::spans`] makes one recording of them. An evaluation is one trace of Weave with a run for each row of its data
//! set: each row becomes a trace of its own.

use std::collections::{HashMap, HashSet};

use super::otel::time::instant;
use super::parsed::{ParsedItems, tell_replaced};
use super::spans::{Judgment, Spans, Unused};
use super::{Confidence, ImporterInfo, Items, Record, SpreadImporter, TraceItems};
use crate::columns::writer::TraceWriter;
use crate::error::{Reject, RejectCode};
use crate::json::tree::{Tree, Value};
use call::{Place, operation};

mod call;

/// The importer.
#[derive(Debug)]
pub struct Weave;

static INFO: ImporterInfo = ImporterInfo {
    name: "weave",
    summary: "Weave calls of Weights & Biases, one per line or in a list; a row of an evaluation is a run",
    evidence: &["op_name", "trace_id", "started_at", "inputs"],
    suffixes: &[".jsonl", ".json"],
    lenient: true,
};

/// The operation that runs and scores one row of an evaluation, and those around it, which no agent does.
const ROW: &str = "Evaluation.predict_and_score";
const AROUND: [&str; 2] = ["Evaluation.evaluate", "Evaluation.summarize"];

fn is_call(value: Value<'_>) -> bool {
    value.get("op_name").str().is_some()
        && value.get("trace_id").some_str().is_some()
        && ["started_at", "inputs"].iter().all(|key| !value.get(key).is_absent())
}

/// The calls of a list.
fn listed(root: Value<'_>) -> Option<Value<'_>> {
    let calls = root.get("calls");
    is_call(calls.at(0)).then_some(calls)
}

impl SpreadImporter for Weave {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        if is_call(record) || listed(record).is_some() { Confidence::Yes } else { Confidence::No }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        out.cut(record.text, |root, out| {
            if let Some(calls) = listed(root) {
                calls.elements().for_each(|call| put(call, out));
                return Ok(());
            }
            if !root.get("op_name").is_absent() {
                put(root, out);
                return Ok(());
            }
            if let Some(trace) = root.get("trace_id").some_str() {
                out.lacks(trace);
            }
            Err(Reject::new(
                RejectCode::FieldMissing,
                "/op_name",
                "found nothing, expected the name of an operation",
            ))
        })
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        let chosen = items.split(|| runs(items));
        let parse = |item: &u32| Tree::parse(items.as_slice()[*item as usize].text, items.limits()).ok();
        let trees: Vec<_> = chosen.iter().filter_map(|item| Some((*item, parse(item)?))).collect();
        let calls = trees.iter().map(|(item, tree)| (*item, tree.root()));
        let (around, calls): (Vec<_>, Vec<_>) = calls.partition(|(_, call)| is_around(*call));
        let mut around: HashSet<&str> = around.into_iter().map(|(_, call)| id_of(call)).collect();
        let Some(&(_, first)) = calls.first() else { return };
        let row = Some(first).filter(|first| operation(*first) == ROW);
        let mut spans = Spans::default();
        let recording = &mut spans.recording;
        if trees.iter().any(|(_, tree)| tree.is_replaced()) {
            tell_replaced(recording);
        }
        recording.trace.system = recording.text("weave");
        recording.trace.trace_id = match row {
            Some(row) => recording.join(&[items.key(), "/", id_of(row)]),
            None => recording.text(items.key()),
        };
        recording.trace.partial |= calls.iter().any(|(_, call)| !call.get("ended_at").exists());
        if let Some(row) = row {
            around.extend(row.get("parent_id").str());
            of_row(row, &mut spans);
        }
        let place = Place::of(&calls, around);
        spans.whole = place.sum;
        for (item, call) in &calls {
            call::push(*item, *call, &place, items.limits(), &mut spans);
        }
        spans.describe(&|_, _| false, &mut |item, fate| match fate {
            Unused::Duplicate => items.duplicate(item as usize),
            Unused::Ignored(kind) => items.ignored(item as usize, kind),
        });
        if let Some(row) = row {
            judge(row, &mut spans);
        }
        if !spans.recording.write(out) {
            spans.recording.write_labels(out);
        }
    }
}

fn id_of(call: Value<'_>) -> &str {
    call.get("id").str().unwrap_or_default()
}

fn put(call: Value<'_>, out: &mut Items<'_>) {
    let missing = |path, expected: &str| {
        Reject::new(RejectCode::FieldMissing, path, format!("found nothing, expected {expected}"))
    };
    let Some(trace) = call.get("trace_id").some_str() else {
        return out.reject(call.raw(), missing("/trace_id", "the id of a trace"));
    };
    if call.get("id").some_str().is_none() {
        return out.reject_in(trace, call.raw(), missing("/id", "the id of the call"));
    }
    if call.get("deleted_at").exists() {
        return out.ignored("weave.deleted");
    }
    out.conversation(trace, call.get("thread_id").str().unwrap_or_default());
    out.item(trace, call.raw(), "");
}

/// Whether a call holds the rows of an evaluation, or sums them up.
fn is_around(call: Value<'_>) -> bool {
    AROUND.contains(&operation(call))
}

/// The calls of each run: first those that are below no row, with the calls around the rows, then those of each row, in
/// the order of their beginnings. A row comes before the calls below it.
fn runs(items: &TraceItems<'_>) -> Vec<Vec<u32>> {
    let parsed = ParsedItems::of(items);
    let rank = |call: Value<'_>| (call.get("ended_at").exists(), instant(call.get("ended_at")));
    let calls = parsed.latest(items, id_of, rank);
    let parents: HashMap<&str, &str> = calls
        .iter()
        .filter_map(|(_, call)| Some((id_of(*call), call.get("parent_id").some_str()?)))
        .collect();
    let mut rows: Vec<_> = calls.iter().filter(|(_, call)| operation(*call) == ROW).collect();
    rows.sort_by_key(|(_, call)| (instant(call.get("started_at")), id_of(*call)));
    // The run of each call, where it is known.
    let mut run_of: HashMap<&str, usize> = HashMap::new();
    let mut runs: Vec<Vec<u32>> = vec![Vec::new()];
    for (item, row) in rows {
        run_of.insert(id_of(*row), runs.len());
        runs.push(vec![*item]);
    }
    let mut has_others = false;
    for (item, call) in calls.iter().filter(|(_, call)| operation(*call) != ROW) {
        let mut passed: HashSet<&str> = HashSet::new();
        let mut at = id_of(*call);
        // Calls that name each other as parents are below no row.
        let run = loop {
            if let Some(run) = run_of.get(at) {
                break *run;
            }
            match parents.get(at) {
                Some(parent) if passed.insert(at) => at = parent,
                _ => break 0,
            }
        };
        run_of.extend(passed.into_iter().map(|at| (at, run)));
        runs[run].push(*item);
        if run == 0 && is_around(*call) {
            items.ignored(*item as usize, "weave.evaluation");
        } else {
            has_others |= run == 0;
        }
    }
    if !has_others {
        runs.remove(0);
    }
    runs
}

/// What the row of an evaluation says of the run: the example is the task, and attempts of one model at it are a group.
fn of_row(row: Value<'_>, spans: &mut Spans) {
    let inputs = row.get("inputs");
    let example = inputs.get("example");
    let Some(name) = call::name_of(example) else { return };
    let model = call::name_of(inputs.get("model"));
    spans.recording.group_by(&name, &[("model", model.as_deref())]);
}

/// The scores of a row. Those that are objects give one for each number in them.
fn judge(row: Value<'_>, spans: &mut Spans) {
    let number = |value: Value<'_>| value.f64().or_else(|| value.bool().map(f64::from));
    let scores = row.path(&["output", "scores"]);
    let within: Vec<(String, f64)> = scores
        .members()
        .flat_map(|(name, value)| value.members().map(move |(part, value)| (name, part, value)))
        .filter_map(|(name, part, value)| Some(([name, ".", part].concat(), number(value)?)))
        .collect();
    let parts = within.iter().map(|(name, number)| (&**name, Some(*number), None));
    let plain = scores.members().map(|(name, value)| (name, number(value), value.some_str()));
    let judgments = plain.chain(parts).filter(|(_, number, words)| number.is_some() || words.is_some());
    let judgments = judgments.map(|(name, number, words)| Judgment {
        name,
        number,
        words,
        annotator: "weave",
        ..Judgment::default()
    });
    spans.judge(judgments.collect());
}
