//! R7: usefulness of the agents' work.

use crate::rewards::reward::{Pay, Reward};
use crate::schema::{Family, Unit};

/// Work of sub-agents that reached the outcome.
pub static USEFUL: Reward = Reward {
    name: "useful",
    family: Family::Orchestration,
    unit: Unit::Team,
    summary: "share of the sub-agents' events that have a path to the outcome: utilization",
    reference: "arXiv 2605.02801, family R7 and Table 13; D19",
    params: &[],
    channels: &[],
    metrics: &["utilization"],
    addends: &["utilization"],
    pay: Pay::Team(|given, addends| {
        addends.push(given.metric(0)?);
        Ok(())
    }),
};
