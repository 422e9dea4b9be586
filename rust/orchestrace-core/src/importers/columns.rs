//! Rows of data sets: what the columns say of a run beside its messages, or beside the document that it is.

use std::borrow::Cow;

use super::hex::hex;
use super::object_text::ObjectText;
use super::recording::{Recording, Text, hash};
use crate::error::FindingCode;
use crate::json::Kind;
use crate::json::tree::Value;
use crate::schema::MeasureKind;

/// Columns that name the run.
const IDS: [&str; 4] = ["trajectory_id", "traj_id", "run_id", "id"];

/// Columns that name what was asked.
const TASKS: [&str; 6] =
    ["instance_id", "task_id", "native_task_id", "problem_id", "prompt_id", "example_id"];

/// Columns that name the model.
const MODELS: [&str; 2] = ["model", "model_name"];

/// Columns that name what drove the model.
const HARNESSES: [&str; 3] = ["harness", "scaffold", "agent"];

/// Columns that say whether the run succeeded: true or false, 1 or 0. Any other value means that the outcome is unknown.
const VERDICTS: [&str; 4] = ["resolved", "success", "solved", "target"];

/// Columns that have the outcome of the run, in the order in which they are asked.
const OUTCOMES: [&str; 7] = ["reward", "resolved", "success", "solved", "target", "score_norm", "score"];

/// Longest text of a column that is kept.
pub(super) const LONGEST: usize = 200;

/// The columns of a row but for one that is a document, without what is long and names nothing.
pub(super) fn row(row: Value<'_>, document: &str) -> String {
    let mut short = ObjectText::new();
    let names = [&IDS[..], &TASKS, &MODELS, &HARNESSES].concat();
    for (name, value) in row.members().filter(|(name, _)| *name != document) {
        if value.raw().len() <= LONGEST || names.contains(&name) {
            short.raw(name, value.raw());
        }
    }
    short.finish()
}

/// What the row calls the run.
pub(super) fn id(row: Value<'_>) -> Option<Cow<'_, str>> {
    named(row, &IDS)
}

/// The model of the run.
pub(super) fn model(row: Value<'_>) -> Option<Cow<'_, str>> {
    named(row, &MODELS)
}

/// The value of the first of the columns that has a name: a text or a number. A text that is too long for a name is known
/// by its hash.
fn named<'v>(row: Value<'v>, columns: &[&str]) -> Option<Cow<'v, str>> {
    let mut values = columns.iter().map(|name| row.get(name));
    values.find_map(|value| match value.some_str() {
        Some(text) if text.len() > LONGEST => Some(format!("sha256:{}", hex(&hash(text))).into()),
        Some(text) => Some(text.into()),
        None => (value.kind() == Some(Kind::Number)).then(|| value.raw().into()),
    })
}

/// The task of the run, or `otherwise`; and its group: runs of a task by the same model in the same harness.
pub(super) fn name_group(row: Value<'_>, otherwise: Option<&str>, recording: &mut Recording) {
    let Some(task) = named(row, &TASKS).or(otherwise.map(Cow::Borrowed)) else { return };
    let (model, harness) = (model(row), named(row, &HARNESSES));
    recording.group_by(&task, &[("model", model.as_deref()), ("harness", harness.as_deref())]);
}

/// What the other columns say: numbers are metrics, short texts stay as they are, as members of an event.
pub(super) fn others(row: Value<'_>, read: &[&str], recording: &mut Recording) -> Text {
    let mut extras = Text::default();
    let read = [read, &OUTCOMES, &IDS, &TASKS, &MODELS].concat();
    for (name, value) in row.members().filter(|(name, _)| !read.contains(name)) {
        if let Some(number) = number(value) {
            recording.measure(MeasureKind::Metric, name, number);
        } else if value.some_str().is_some_and(|text| text.len() <= LONGEST) && !name.starts_with("x_") {
            extras = recording.extra(extras, &format!("x_{name}"), value.raw());
        }
    }
    extras
}

/// The first outcome that there is a column of, even if it is null: another column of the table may be of another scale,
/// so that a run without a value of the first has no outcome. Of a verdict only yes and no are outcomes: -1, a text and the
/// like say nothing that is known.
pub(super) fn outcome(row: Value<'_>, recording: &mut Recording) {
    let mut named =
        OUTCOMES.iter().map(|name| (*name, row.get(name))).filter(|(_, value)| !value.is_absent());
    let Some((name, value)) = named.next() else { return };
    for (other, value) in named {
        if let Some(number) = number(value) {
            recording.measure(MeasureKind::Metric, other, number);
        }
    }
    match number(value) {
        Some(number) if !VERDICTS.contains(&name) || number == 0.0 || number == 1.0 => {
            recording.outcome(name, number);
        }
        _ => {
            let expected =
                if VERDICTS.contains(&name) { "yes (1, true) or no (0, false)" } else { "a number" };
            let shown: String = value.raw().chars().take(40).collect();
            let message = format!("'{name}' is {shown}, expected {expected}: the outcome is not known");
            recording.finding(FindingCode::RewardUnscored, None, message);
        }
    }
}

fn number(value: Value<'_>) -> Option<f64> {
    value.f64().or_else(|| value.bool().map(|flag| f64::from(u8::from(flag))))
}
