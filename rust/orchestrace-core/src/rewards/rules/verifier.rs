//! R6: verifier scores of messages.

use crate::error::Reason;
use crate::rewards::reward::{Inputs, Pay, Payments, Reward};
use crate::schema::{Family, Unit};

/// The score of each message between agents.
pub static VERIFIER: Reward = Reward {
    name: "verifier",
    family: Family::Verifier,
    unit: Unit::Message,
    summary: "the field `score` of the message",
    reference: "arXiv 2605.02801, family R6; Debate-as-Reward, arXiv 2604.16723",
    params: &[],
    channels: &[],
    metrics: &[],
    addends: &["score"],
    pay: Pay::Units(judged),
};

/// Share of messages that are not repeated.
pub static DISTINCT_MESSAGES: Reward = Reward {
    name: "distinct_messages",
    family: Family::Verifier,
    unit: Unit::Team,
    summary: "distinct messages between agents / messages: 1 - message_redundancy",
    reference: "arXiv 2605.02801, family R6 and Table 13",
    params: &[],
    channels: &[],
    metrics: &["message_redundancy"],
    addends: &["distinct_messages"],
    pay: Pay::Team(|given, addends| {
        addends.push(1.0 - given.metric(0)?);
        Ok(())
    }),
};

fn judged(inputs: &Inputs<'_>, out: &mut Payments) {
    for unit in 0..inputs.units.len() {
        match inputs.subject.view.score.get(inputs.units.first(unit) as usize) {
            Some(score) => out.pay(unit, &[score]),
            None => out.withhold(unit, Reason::FieldAbsent),
        }
    }
}
