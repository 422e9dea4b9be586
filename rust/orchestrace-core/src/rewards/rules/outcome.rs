//! R1: one outcome for the whole team.

use crate::credit::params::{Param, ParamKind, Value};
use crate::credit::reward::reaches;
use crate::rewards::reward::{OUTCOME as CHANNEL, Pay, Reward};
use crate::schema::{Family, Unit};

/// The outcome itself.
pub static OUTCOME: Reward = Reward {
    name: "outcome",
    family: Family::Outcome,
    unit: Unit::Team,
    summary: "weight · outcome",
    reference: "arXiv 2605.02801, family R1",
    params: &[Param {
        name: "weight",
        kind: ParamKind::Float(f64::MIN, f64::MAX),
        default: Value::Float(1.0),
        doc: "factor of the outcome",
    }],
    channels: &[CHANNEL],
    metrics: &[],
    addends: &["outcome"],
    pay: Pay::Team(|given, addends| {
        addends.push(given.number("weight") * given.channel(0)?);
        Ok(())
    }),
};

/// The outcome as 0 or 1.
pub static SUCCESS: Reward = Reward {
    name: "success",
    family: Family::Outcome,
    unit: Unit::Team,
    summary: "1 if metrics.task_success is above 0 or, where it is absent, the outcome reaches the threshold; else 0",
    reference: "arXiv 2605.02801, family R1",
    params: &[Param {
        name: "threshold",
        kind: ParamKind::Float(f64::MIN, f64::MAX),
        default: Value::Float(1.0),
        doc: "lowest outcome that counts as a success, to 1e-6",
    }],
    channels: &[CHANNEL],
    metrics: &[],
    addends: &["success"],
    pay: Pay::Team(|given, addends| {
        let success = match given.task_success {
            Some(success) => success > 0.0,
            None => reaches(given.channel(0)?, given.number("threshold")),
        };
        addends.push(f64::from(u8::from(success)));
        Ok(())
    }),
};
