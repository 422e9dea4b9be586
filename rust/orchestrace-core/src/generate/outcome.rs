//! Cost and outcome of a finished run. All in integers, so that sums are exact and bits do not move.

use super::names::MODELS;
use super::record::Event;
use super::task::{Feature, Outcome};
use super::trace::{Rules, Run};
use crate::schema::EventType;

/// Costs and judgments of one run; shares, rewards and scores in thousandths.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Account {
    pub(super) tokens: u64,
    /// Millionths of a dollar.
    pub(super) dollars: u64,
    pub(super) wall_ms: u64,
    pub(super) tool_calls: u64,
    pub(super) messages: u64,
    pub(super) team: Option<i64>,
    pub(super) tool: Option<i64>,
    pub(super) process: Option<i64>,
    pub(super) orchestration: i64,
    pub(super) success: bool,
    pub(super) overhead: i64,
    /// Corrupted events per seed of corruption.
    pub(super) amplification: i64,
}

/// Price of the generation that an event bears, in millionths of a dollar.
pub(super) fn price(run: &Run<impl Rules>, event: &Event) -> u64 {
    if event.tokens_out == 0 {
        return 0;
    }
    let model = &MODELS[usize::from(run.agents[event.actor as usize].model)];
    (u64::from(event.tokens_in) * model.read + u64::from(event.tokens_out) * model.write) / 1000
}

/// Whether the recording shows the score of an event: every answer's, one in four messages'.
pub(super) fn shows_score(run: &Run<impl Rules>, event: &Event) -> bool {
    run.task.has(Feature::Scores)
        && event.score.is_some()
        && (event.kind != EventType::Message || event.salt.is_multiple_of(4))
}

/// A share in thousandths, if there is a whole.
fn share(part: u64, total: u64) -> Option<i64> {
    (part * 1000).checked_div(total).map(|s| s as i64)
}

/// Adds up a run.
pub(super) fn account(run: &mut Run) -> Account {
    let mut sum = Account::default();
    let (mut results, mut worked, mut talk) = (0, 0, 0);
    let (mut returns, mut quality, mut shown, mut score) = (0, 0, 0, 0);
    let (mut seeds, mut corrupted) = (0, 0);
    for event in &run.events {
        sum.tokens += u64::from(event.tokens_in) + u64::from(event.tokens_out);
        sum.dollars += price(run, event);
        let points = u64::from(event.score.unwrap_or(0));
        match event.kind {
            EventType::ToolCall => sum.tool_calls += 1,
            EventType::ToolResult => {
                results += 1;
                worked += u64::from(event.ok);
            }
            EventType::Message => {
                sum.messages += 1;
                talk += 1;
            }
            EventType::Return => {
                returns += 1;
                quality += points;
            }
            EventType::OrchestratorDecision | EventType::Spawn | EventType::Despawn => talk += 1,
            _ => {}
        }
        if shows_score(run, event) {
            shown += 1;
            score += points;
        }
        seeds += u64::from(event.seed);
        corrupted += u64::from(event.corrupted);
    }
    sum.wall_ms = run.events.last().map_or(0, |e| e.t);
    sum.tool = share(worked, results);
    sum.process = score.checked_div(shown).map(|s| s as i64);
    sum.overhead = share(talk, run.events.len() as u64).unwrap_or(0);
    sum.orchestration = 500 - sum.overhead;
    sum.amplification = share(corrupted - seeds, seeds).unwrap_or(0);
    // The outcome follows from what the run shows: how good the returns were, how many calls worked and
    // whether the answer rests on an error; a little noise stands for what no recording shows.
    let answer = run.events.last();
    let spoilt = answer.is_some_and(|e| e.corrupted);
    let answer_score = answer.map_or(0, |e| u64::from(e.score.unwrap_or(0)));
    let quality = quality.checked_div(returns).unwrap_or(answer_score) as i64;
    let noise = run.rng.below(160) as i64 - 80;
    let merit = (quality * 8 + sum.tool.unwrap_or(1000) * 2) / 10 + noise - if spoilt { 250 } else { 0 };
    let merit = merit.clamp(0, 1000);
    sum.success = merit > run.task.difficulty;
    sum.team = match run.task.outcome {
        Outcome::Binary => Some(if sum.success { 1000 } else { 0 }),
        Outcome::Score => Some(merit),
        Outcome::Unknown => None,
    };
    sum
}
