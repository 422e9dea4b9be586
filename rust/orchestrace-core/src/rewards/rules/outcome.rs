//! R1: one outcome for the whole team.

use crate::credit::params::{Param, ParamKind, Value};
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
        doc: "what the outcome is multiplied by",
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
    summary: "1 where metrics.task_success is above 0, without it where the outcome reaches the threshold, else 0",
    reference: "arXiv 2605.02801, family R1",
    params: &[Param {
        name: "threshold",
        kind: ParamKind::Float(f64::MIN, f64::MAX),
        default: Value::Float(1.0),
        doc: "the least outcome that is a success",
    }],
    channels: &[CHANNEL],
    metrics: &[],
    addends: &["success"],
    pay: Pay::Team(|given, addends| {
        let success = match given.task_success {
            Some(success) => success > 0.0,
            None => given.channel(0)? >= given.number("threshold"),
        };
        addends.push(f64::from(u8::from(success)));
        Ok(())
    }),
};
