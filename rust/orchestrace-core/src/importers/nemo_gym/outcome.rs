//! How a rollout ended: its reward, what the reward was made of, and what cut it short.

use super::names::FAILURE;
use crate::error::FindingCode;
use crate::importers::recording::Recording;
use crate::json::Kind;
use crate::json::tree::Value;
use crate::schema::MeasureKind;

/// Members beside the reward that are numbers and measure nothing.
const INDEXES: [&str; 1] = ["task_idx"];

/// What kept a rollout from its end; empty if nothing did.
pub(super) fn stopped_by(rollout: Value<'_>) -> &str {
    let response = rollout.get("response");
    let failure = rollout.get(FAILURE);
    let failure = failure.some_str().or(failure.exists().then_some("failure"));
    let error = response.get("error");
    let error = error.get("code").some_str().or(error.exists().then_some("error"));
    let limit = response.path(&["incomplete_details", "reason"]).some_str();
    let status = response.get("status").str();
    let status = status.filter(|status| matches!(*status, "incomplete" | "failed" | "cancelled"));
    // The environment had a limit of steps.
    let truncated = (rollout.get("truncated").bool() == Some(true)).then_some("truncation");
    failure.or(error).or(limit).or(status).or(truncated).unwrap_or_default()
}

/// An attempt that broke says nothing of the agent: its reward is no outcome.
pub(super) fn describe(rollout: Value<'_>, recording: &mut Recording) {
    let reward = rollout.get("reward");
    match number(reward) {
        Some(value) if !rollout.get(FAILURE).exists() => {
            recording.measure(MeasureKind::Reward, "team", value);
        }
        None if !reward.is_absent() => {
            let kind = reward.kind().map_or("nothing", Kind::as_str);
            let message = format!("reward is {kind}, expected a number");
            recording.finding(FindingCode::RewardUnscored, None, message);
        }
        _ => {}
    }
    for (name, value) in rollout.members() {
        if !name.starts_with("_ng_")
            && !INDEXES.contains(&name)
            && let Some(value) = number(value).filter(|value| name != "reward" || value.is_finite())
        {
            recording.measure(MeasureKind::Metric, name, value);
        }
    }
}

/// A number, or a flag as 0 or 1. What is no finite number stays one, for the writer to refuse.
fn number(value: Value<'_>) -> Option<f64> {
    match value.kind() {
        Some(Kind::Number) => value.raw().parse().ok(),
        _ => value.bool().map(|flag| f64::from(u8::from(flag))),
    }
}
