//! Tokens of a rollout. They are stated once, for all answers together.

use crate::error::FindingCode;
use crate::importers::recording::{Entry, Recording, Usage};
use crate::importers::usage;
use crate::json::tree::Value;
use crate::schema::MeasureKind;

/// `answer` is the one that all of it is of; else it is a cost of the rollout, and no answer has a part of it.
pub(super) fn describe(response: Value<'_>, answer: Option<Entry>, recording: &mut Recording) {
    let stated = response.get("usage");
    if !stated.exists() {
        return;
    }
    let (mut counts, total) = usage::of(stated);
    if counts.total().unwrap_or(0) == 0 {
        // So says a harness that does not count: no model answers to nothing.
        let message = "the usage states no tokens; how many there were is not known";
        recording.finding(FindingCode::UsageIncomplete, None, message);
        counts = Usage::default();
    }
    counts.cost_usd = stated.get("cost").f64();
    if let Some(answer) = answer {
        if let Some(answer) = recording.response_mut(answer) {
            answer.usage = counts;
        }
        return;
    }
    let costs = [
        ("tokens", counts.total()),
        ("tokens_in", counts.tokens_in),
        ("tokens_out", counts.tokens_out),
        ("tokens_cached", counts.cached),
        ("tokens_cache_write", counts.cache_write),
        ("tokens_reasoning", counts.reasoning),
    ];
    for (name, count) in costs {
        if let Some(count) = count {
            recording.measure(MeasureKind::Cost, name, count as f64);
        }
    }
    if let Some(cost) = counts.cost_usd {
        recording.measure(MeasureKind::Cost, "cost_usd", cost);
    }
    if let (Some(_), Some(total), Some(sum)) = (counts.stated, total, counts.total()) {
        recording.measure(MeasureKind::Metric, "reported_tokens", total as f64);
        let message = format!("the usage states {total} tokens, its parts sum to {sum}, which is used");
        recording.finding(FindingCode::UsageConflict, None, message);
    }
}
