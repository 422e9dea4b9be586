//! Scores of a sample: numbers are measures, texts are labels.

use std::collections::HashSet;

use super::describe::TIMES;
use super::transcript::{About, Transcript};
use crate::error::FindingCode;
use crate::importers::recording::{Label, Recording};
use crate::json::tree::Value;
use crate::schema::MeasureKind;

/// A value as a number: letters as Inspect's `value_to_float` has them.
pub(super) fn number(value: Value<'_>) -> Option<f64> {
    match value.str() {
        Some("C") => Some(1.0),
        Some("P") => Some(0.5),
        Some("I" | "N") => Some(0.0),
        _ => value.number_like().or_else(|| value.bool().map(|flag| f64::from(u8::from(flag)))),
    }
}

/// Tells the scores of a sample. The first scorer's is the reward of the team.
pub(super) fn describe(sample: Value<'_>, eval: Value<'_>, events: &Transcript<'_>, out: &mut Recording) {
    let mut judged = Judged { first: true, names: TIMES.map(str::to_owned).into() };
    let scores = sample.get("scores");
    for (name, score) in scores.members() {
        judged.score(name, score.get("value"), out);
    }
    // The first versions had one score, and logs of bare events have them only there.
    if scores.is_empty() {
        let old = sample.path(&["score", "value"]);
        if old.exists() {
            judged.score(eval.get("scorer").some_str().unwrap_or("score"), old, out);
        } else {
            for step in events.steps.iter().filter(|s| s.about == About::Score) {
                if step.value.get("intermediate").bool() != Some(true) {
                    let name = events.scorer(step).unwrap_or("score");
                    judged.score(name, step.value.path(&["score", "value"]), out);
                }
            }
        }
    }
    let steps = events.steps.iter().filter(|s| s.about == About::Score);
    let steps = steps.filter(|s| s.value.get("intermediate").bool() == Some(true));
    let steps = steps.filter_map(|s| unit(number(s.value.path(&["score", "value"]))?));
    let (n, sum) = steps.fold((0_u32, 0.0), |(n, sum), score| (n + 1, sum + score));
    if n > 0 {
        out.measure(MeasureKind::Reward, "process", sum / f64::from(n));
    }
}

/// A number that is a quality.
pub(super) fn unit(value: f64) -> Option<f64> {
    (0.0..=1.0).contains(&value).then_some(value)
}

struct Judged {
    /// Whether no scorer has been read.
    first: bool,
    /// Names of metrics so far: two scorers of a name are distinguished.
    names: HashSet<String>,
}

impl Judged {
    fn score(&mut self, name: &str, value: Value<'_>, out: &mut Recording) {
        let first = std::mem::replace(&mut self.first, false);
        let several = value.len() > 1;
        for (key, value) in value.members() {
            self.value(&format!("{name}.{key}"), name, value, first && !several, out);
        }
        for (at, element) in value.elements().enumerate() {
            self.value(&format!("{name}.{at}"), name, element, first && !several, out);
        }
        if first && several {
            out.finding(
                FindingCode::FieldIgnored,
                None,
                format!("the score of '{name}' has several values; none becomes the team's reward"),
            );
        }
        if !value.raw().starts_with(['{', '[']) {
            self.value(name, name, value, first, out);
        }
    }

    fn value(&mut self, name: &str, scorer: &str, value: Value<'_>, is_team: bool, out: &mut Recording) {
        if let Some(score) = number(value) {
            let mut unique_name = name.to_owned();
            let mut bearers = 1;
            while !self.names.insert(unique_name.clone()) {
                bearers += 1;
                unique_name = format!("{name}#{bearers}");
            }
            out.measure(MeasureKind::Metric, &unique_name, score);
            if is_team {
                match unit(score) {
                    Some(reward) => out.measure(MeasureKind::Reward, "team", reward),
                    None => out.finding(
                        FindingCode::FieldIgnored,
                        None,
                        format!(
                            "the score of '{name}' is {score}, outside 0 to 1; it is not the team's reward"
                        ),
                    ),
                }
            }
        } else if let Some(text) = value.some_str() {
            let label = Label { annotator: out.text(scorer), label: out.text(text), ..Label::default() };
            out.label(label);
        } else if value.exists() {
            let message = format!("the score of '{name}' is {}, which is not a number", value.raw());
            out.finding(FindingCode::FieldIgnored, None, message);
        }
    }
}
