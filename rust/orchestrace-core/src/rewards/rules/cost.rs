//! R7: costs of a run, as losses.

use crate::credit::params::{Param, ParamKind, Value};
use crate::error::Reason;
use crate::rewards::reward::{Inputs, Pay, Reward};
use crate::schema::{Family, TimeBasis, Unit};

const fn weight(doc: &'static str) -> Param {
    Param { name: "weight", kind: ParamKind::Float(f64::MIN, f64::MAX), default: Value::Float(1.0), doc }
}

/// Cost of tokens.
pub static TOKENS: Reward = Reward {
    name: "tokens",
    family: Family::Orchestration,
    unit: Unit::Team,
    summary: "-weight · tokens",
    reference: "arXiv 2605.02801, family R7; D18",
    params: &[weight("cost of a token")],
    channels: &[],
    metrics: &["tokens"],
    addends: &["tokens"],
    pay: Pay::Team(loss),
};

/// Cost in US dollars.
pub static USD: Reward = Reward {
    name: "usd",
    family: Family::Orchestration,
    unit: Unit::Team,
    summary: "-weight · recorded US dollars",
    reference: "arXiv 2605.02801, family R7; D18",
    params: &[weight("cost of a dollar")],
    channels: &[],
    metrics: &["cost_usd"],
    addends: &["usd"],
    pay: Pay::Team(loss),
};

/// Cost of time from the first beginning to the last end.
pub static LATENCY: Reward = Reward {
    name: "latency",
    family: Family::Orchestration,
    unit: Unit::Team,
    summary: "-weight · seconds from the first beginning to the last end; null if times are steps",
    reference: "arXiv 2605.02801, family R7; D7",
    params: &[weight("cost of a second")],
    channels: &[],
    metrics: &["elapsed"],
    addends: &["seconds"],
    pay: Pay::Team(|given, addends| match given.subject.view.time_basis {
        Some(TimeBasis::Seconds | TimeBasis::Partial) => loss(given, addends),
        _ => Err(Reason::TimeSteps),
    }),
};

fn loss(inputs: &Inputs<'_>, addends: &mut Vec<f64>) -> Result<(), Reason> {
    // no cost is 0, not -0
    addends.push(0.0 - inputs.number("weight") * inputs.metric(0)?);
    Ok(())
}
