//! A sample of Inspect as a recording.

use super::content::Contents;
use super::sample_events::Telling;
use super::transcript::{About, Transcript};
use super::{messages, scores};
use crate::error::FindingCode;
use crate::importers::recording::Recording;
use crate::json::Limits;
use crate::json::tree::Value;
use crate::schema::MeasureKind;

/// What a sample says of how long it took, in seconds.
pub(super) const TIMES: [&str; 2] = ["total_time", "working_time"];

/// Describes a sample. `eval` has the facts of its evaluation, `key` is the id of the trace.
pub(super) fn describe(sample: Value<'_>, eval: Value<'_>, key: &str, limits: Limits, out: &mut Recording) {
    let events = Transcript::of(sample.get("events"));
    let contents = Contents::of(sample, limits);
    ids(sample, eval, key, out);
    for name in TIMES {
        if let Some(seconds) = sample.get(name).f64() {
            out.measure(MeasureKind::Metric, name, seconds);
        }
    }
    if events.steps.iter().any(|step| !matches!(step.about, About::Nothing | About::Unknown)) {
        Telling::new(&events, &contents, sample, out).all();
        oddities(&events, out);
    } else {
        messages::describe(sample, &contents, out);
    }
    scores::describe(sample, eval, &events, out);
}

fn ids(sample: Value<'_>, eval: Value<'_>, key: &str, out: &mut Recording) {
    out.trace.trace_id = out.text(key);
    out.trace.system = out.text("inspect_ai");
    let id = sample.get("id");
    let id = id.str().unwrap_or(id.raw());
    if let (Some(task), false) = (eval.get("task").some_str(), id.is_empty()) {
        out.trace.task_id = out.join(&[task, "/", id]);
        if let Some(model) = eval.get("model").some_str() {
            out.trace.group_id = out.join(&[task, "/", id, "/", model]);
        }
    }
}

fn oddities(events: &Transcript<'_>, out: &mut Recording) {
    for (kind, n) in &events.unknown {
        out.finding(FindingCode::FieldIgnored, None, format!("{n} events of the unknown kind '{kind}'"));
    }
    if events.lost > 0 {
        out.trace.partial = true;
        let message = format!("{} references to spans that the log does not contain", events.lost);
        out.finding(FindingCode::FieldIgnored, None, message);
    }
    if events.cycles > 0 {
        let message = format!("{} spans contain themselves; they are placed in the sample", events.cycles);
        out.finding(FindingCode::FieldIgnored, None, message);
    }
    if events.repeated > 0 {
        out.finding(FindingCode::IdRepeated, None, format!("{} spans begin twice", events.repeated));
    }
}
