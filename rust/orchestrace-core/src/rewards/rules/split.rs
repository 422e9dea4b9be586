//! R7: quality of the division of work.

use crate::rewards::reward::{Pay, Reward};
use crate::schema::{Family, Unit};

/// Whether the division was complete, disjoint, even and independent.
pub static SPLIT: Reward = Reward {
    name: "split",
    family: Family::Orchestration,
    unit: Unit::Team,
    summary: "geometric mean of coverage, disjointness, balance and independence: split_score",
    reference: "arXiv 2605.02801, family R7; D24; the form is ours",
    params: &[],
    channels: &[],
    metrics: &["split_score"],
    addends: &["split"],
    pay: Pay::Team(|given, addends| {
        addends.push(given.metric(0)?);
        Ok(())
    }),
};
