//! R7: gains from the aggregation of results.

use crate::error::Reason;
use crate::rewards::reward::{Inputs, Pay, Reward};
use crate::schema::{Family, Unit};

/// Score above the best input.
pub static UPLIFT: Reward = Reward {
    name: "uplift",
    family: Family::Orchestration,
    unit: Unit::Team,
    summary: "score of the aggregate - score of its best input",
    reference: "arXiv 2605.02801, families R7 and O4; D24; the form is ours",
    params: &[],
    channels: &[],
    metrics: &["aggregation_uplift_max"],
    addends: &["uplift"],
    pay: Pay::Team(scored),
};

/// Score above the mean of the inputs.
pub static UPLIFT_MEAN: Reward = Reward {
    name: "uplift_mean",
    family: Family::Orchestration,
    unit: Unit::Team,
    summary: "score of the aggregate - mean score of its inputs",
    reference: "arXiv 2605.02801, families R7 and O4; D24; the form is ours",
    params: &[],
    channels: &[],
    metrics: &["aggregation_uplift_mean"],
    addends: &["uplift"],
    pay: Pay::Team(scored),
};

/// Share of the best input's gain over the mean.
pub static CAPTURE: Reward = Reward {
    name: "capture",
    family: Family::Orchestration,
    unit: Unit::Team,
    summary: "(score of the aggregate - mean of its inputs) / (best - mean of its inputs)",
    reference: "arXiv 2605.02801, families R7 and O4; D24; the form is ours",
    params: &[],
    channels: &[],
    metrics: &["aggregation_capture"],
    addends: &["capture"],
    pay: Pay::Team(scored),
};

/// Share of returns that were used.
pub static AGGREGATION_COVERAGE: Reward = Reward {
    name: "aggregation_coverage",
    family: Family::Orchestration,
    unit: Unit::Team,
    summary: "share of the returns to aggregating agents that have a path into an aggregate",
    reference: "arXiv 2605.02801, families R7 and O4; D24; the form is ours",
    params: &[],
    channels: &[],
    metrics: &["aggregation_coverage"],
    addends: &["coverage"],
    pay: Pay::Team(scored),
};

fn scored(inputs: &Inputs<'_>, addends: &mut Vec<f64>) -> Result<(), Reason> {
    addends.push(inputs.metric(0)?);
    Ok(())
}
