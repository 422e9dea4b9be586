//! R4: process rewards of turns.

use super::individual::recorded;
use crate::rewards::reward::{Pay, Reward};
use crate::schema::{Family, Unit};

/// Rewards of the events of each turn.
pub static PROCESS: Reward = Reward {
    name: "process",
    family: Family::Process,
    unit: Unit::Turn,
    summary: "sum of the field `reward` over the turn's events; absent values are 0",
    reference: "arXiv 2605.02801, family R4",
    params: &[],
    channels: &[],
    metrics: &[],
    addends: &["reward"],
    pay: Pay::Units(recorded),
};
