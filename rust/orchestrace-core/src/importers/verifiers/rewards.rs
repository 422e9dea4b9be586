//! Rewards and metrics of an episode: by their names, and of the team where its agents have one outcome.

use std::collections::BTreeSet;

use super::seats::Seat;
use crate::error::FindingCode;
use crate::importers::recording::Recording;
use crate::json::tree::Value;
use crate::schema::MeasureKind;

/// What an agent was paid under a name: a score with a weight, or a number alone.
fn paid(reward: Value<'_>) -> Option<f64> {
    reward.f64().or_else(|| Some(reward.get("score").f64()? * reward.get("weight").f64().unwrap_or(1.0)))
}

/// What an agent was paid in all; nothing where it was not scored, or not by every reward.
fn total(trace: Value<'_>) -> Option<f64> {
    let rewards = trace.get("rewards");
    let values: Option<Vec<f64>> = rewards.members().map(|(_, reward)| paid(reward)).collect();
    values.filter(|values| !values.is_empty()).map(|values| values.iter().sum())
}

/// Names in the order in which they come first.
fn names<'v>(seats: &[Seat<'v>], key: &str) -> Vec<&'v str> {
    let mut seen = BTreeSet::new();
    let all = seats.iter().flat_map(|seat| seat.trace.get(key).members());
    all.map(|(name, _)| name).filter(|name| seen.insert(*name)).collect()
}

/// Each reward is what the agents were paid under its name, together. The outcome of the team is what each of them was
/// paid in all, if that is the same for all of them: what one wins and another loses is no outcome of both.
pub(super) fn describe(episode: Value<'_>, seats: &[Seat<'_>], recording: &mut Recording) {
    let named = names(seats, "rewards");
    let totals: Vec<Option<f64>> = seats.iter().map(|seat| total(seat.trace)).collect();
    // The pay of a quarantined agent is unknown, and with it every sum over the agents.
    let knows_all = episode.get("traces").len() <= seats.len();
    if let Some(Some(value)) = totals.first().filter(|first| totals.iter().all(|total| total == *first))
        && knows_all
        && !named.contains(&"team")
    {
        recording.measure(MeasureKind::Reward, "team", *value);
    }
    let mut unscored = Vec::new();
    for name in named {
        let rewards = seats.iter().map(|seat| seat.trace.get("rewards").get(name));
        let rewards: Vec<_> = rewards.filter(|reward| !reward.is_absent()).map(paid).collect();
        let values: Vec<f64> = rewards.iter().flatten().copied().collect();
        if values.len() < rewards.len() || !knows_all {
            unscored.push(format!("'{name}'"));
        }
        if !values.is_empty() && knows_all {
            recording.measure(MeasureKind::Reward, name, values.iter().sum());
        }
    }
    if !unscored.is_empty() {
        let message = format!("no value of the reward {}", unscored.join(", "));
        recording.finding(FindingCode::RewardUnscored, None, message);
    }
    metrics(episode, seats, recording);
}

/// Metrics of several agents have the name of their agent before their own.
fn metrics(episode: Value<'_>, seats: &[Seat<'_>], recording: &mut Recording) {
    if let Some(step) = episode.path(&["run", "work", "step"]).f64() {
        recording.measure(MeasureKind::Metric, "train_step", step);
    }
    for seat in seats {
        for (name, value) in seat.trace.get("metrics").members() {
            let Some(value) = value.f64() else { continue };
            if seats.len() == 1 {
                recording.measure(MeasureKind::Metric, name, value);
            } else {
                recording.measure(MeasureKind::Metric, &format!("{}.{name}", seat.name), value);
            }
        }
    }
    costs(seats, recording);
}

/// What judges spent: a cost of the episode, of none of its agents.
fn costs(seats: &[Seat<'_>], recording: &mut Recording) {
    let (mut tokens, mut cost_usd) = (None::<i64>, None::<f64>);
    for usage in seats.iter().flat_map(|seat| seat.trace.get("extra_usage").elements()) {
        for key in ["prompt_tokens", "cached_input_tokens", "completion_tokens"] {
            if let Some(count) = usage.get(key).i64().filter(|count| *count >= 0) {
                tokens = Some(tokens.unwrap_or(0).saturating_add(count));
            }
        }
        if let Some(cost) = usage.get("cost").f64() {
            cost_usd = Some(cost_usd.unwrap_or(0.0) + cost);
        }
    }
    if let Some(tokens) = tokens {
        recording.measure(MeasureKind::Cost, "scorer_tokens", tokens as f64);
    }
    if let Some(cost_usd) = cost_usd {
        recording.measure(MeasureKind::Cost, "scorer_cost_usd", cost_usd);
    }
}
