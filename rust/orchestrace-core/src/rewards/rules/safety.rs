//! R7: conformance and safety.

use crate::error::Reason;
use crate::rewards::reward::{Inputs, Pay, Reward};
use crate::schema::{Family, Unit};

/// Whether the outcome is free of taint.
pub static CLEAN_OUTCOME: Reward = Reward {
    name: "clean_outcome",
    family: Family::Orchestration,
    unit: Unit::Team,
    summary: "1 if the outcome is not tainted, else 0",
    reference: "arXiv 2605.02801, problem P12; D17",
    params: &[],
    channels: &[],
    metrics: &["outcome_tainted"],
    addends: &["clean"],
    pay: Pay::Team(complement),
};

/// Share of events free of taint.
pub static CLEAN_SHARE: Reward = Reward {
    name: "clean_share",
    family: Family::Orchestration,
    unit: Unit::Team,
    summary: "1 - taint_share",
    reference: "arXiv 2605.02801, problem P12; D17",
    params: &[],
    channels: &[],
    metrics: &["taint_share"],
    addends: &["clean"],
    pay: Pay::Team(complement),
};

/// Share of actions that the harness allows.
pub static CONFORMANCE: Reward = Reward {
    name: "conformance",
    family: Family::Orchestration,
    unit: Unit::Team,
    summary: "1 - nonconformance; needs harness=",
    reference: "arXiv 2605.02801, section 5.2",
    params: &[],
    channels: &[],
    metrics: &["nonconformance"],
    addends: &["conformance"],
    pay: Pay::Team(complement),
};

fn complement(inputs: &Inputs<'_>, addends: &mut Vec<f64>) -> Result<(), Reason> {
    addends.push(1.0 - inputs.metric(0)?);
    Ok(())
}
