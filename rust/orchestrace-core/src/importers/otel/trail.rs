//! TRAIL: human-annotated errors by span, scores of whole traces, and interventions by others on them.

use super::{ids, label};
use crate::importers::recording::Label;
use crate::importers::spans::Spans;
use crate::json::Kind;
use crate::json::tree::Value;
use crate::schema::MeasureKind;

/// Annotator, and prefix of metrics.
const TRAIL: &str = "trail";

pub(super) fn is(root: Value<'_>) -> bool {
    let first_error = root.get("errors").elements().next();
    let first_error = first_error.is_some_and(|e| e.get("category").exists() && e.get("location").exists());
    let scored = root.get("scores").elements().next();
    let scored = scored.is_some_and(|s| s.get("reliability_score").exists());
    trace_id(root).is_some()
        && root.get("errors").kind() == Some(Kind::Array)
        && root.get("scores").kind() == Some(Kind::Array)
        && (first_error || scored)
}

/// The trace that annotations are about; the file's own `trace_id` is missing in some.
pub(super) fn trace_id(root: Value<'_>) -> Option<String> {
    root.first(&["_trace_id", "trace_id"]).some_str().and_then(ids::trace_id)
}

/// The kind of a line about an intervention on a trace: what was patched, what became of it by the judgment of a
/// model. They are about runs that are not recorded, so they are ignored.
pub(super) fn counterfactual(root: Value<'_>) -> Option<&'static str> {
    root.get("trace_id").some_str()?;
    root.get("error_id").some_str()?;
    let kinds = [
        ("patch_payload", "otel.trail_patch"),
        ("resolved", "otel.trail_resolved"),
        ("effect_label", "otel.trail_effect"),
        ("b_def", "otel.trail_pair"),
    ];
    let has = |key: &str| !root.get(key).is_absent();
    kinds.iter().find(|(key, _)| has(key)).map(|(_, kind)| *kind)
}

/// Labels of the annotators, scores as metrics. `overall` of 1 to 5 is the reward `process`; of success of the task
/// nothing is said.
pub(super) fn labels(root: Value<'_>, spans: &mut Spans) {
    for error in root.get("errors").elements() {
        let weight = match error.get("impact").str().map(str::to_ascii_uppercase).as_deref() {
            Some("LOW") => Some(1.0),
            Some("MEDIUM") => Some(2.0),
            Some("HIGH") => Some(3.0),
            _ => None,
        };
        let annotator = spans.recording.text(TRAIL);
        let category = spans.recording.text(error.get("category").str().unwrap_or_default());
        let label_of_error = Label { annotator, label: category, weight, ..Label::default() };
        let location = error.get("location").str().unwrap_or_default();
        let location = ids::span_id(location).unwrap_or_default();
        label(spans, &location, label_of_error);
    }
    let scores = root.get("scores").at(0);
    for (key, score) in scores.members() {
        let Some(score) = score.number_like() else { continue };
        spans.recording.measure(MeasureKind::Metric, &format!("{TRAIL}.{key}"), score);
        if key == "overall" {
            spans.recording.measure(MeasureKind::Reward, "process", score / 5.0);
        }
    }
}
