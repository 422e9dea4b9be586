//! R7: parallel work.
//!
//! ```text
//! r_PARL = r_perf + λ1 r_parallel + λ2 r_finish        λ annealed to 0
//! ```
//!
//! Neither `r_parallel` nor `r_finish` nor the annealing is published in closed form. The survey reads `r_parallel` as a real
//! speedup, the report of K2.5 as an incentive to make sub-agents; both are here under names of their own. Source: Kimi
//! K2.5, arXiv 2602.02276; the forms are ours. `diagnostic` anneals by what teams do instead of by a schedule: the more traces of
//! a step have two agents or more, the less they are paid for it ([`windows`](crate::rewards::windows)).

use std::borrow::Cow;
use std::f64::consts::PI;

use crate::credit::params::{Param, ParamKind, Value};
use crate::error::Reason;
use crate::rewards::reward::{Channel, DIAGNOSTIC, Inputs, Pay, Reward};
use crate::schema::{Family, Unit};

const N_TARGET: Param = Param {
    name: "n_target",
    kind: ParamKind::Int(1, i64::MAX),
    default: Value::Null,
    doc: "number of sub-agents that earns the whole bonus; if null, instantiation is null",
};

const fn weight(name: &'static str, default: f64, doc: &'static str) -> Param {
    Param { name, kind: ParamKind::Float(f64::MIN, f64::MAX), default: Value::Float(default), doc }
}

/// Steps saved by parallel work.
pub static SPEEDUP: Reward = Reward {
    name: "speedup",
    family: Family::Orchestration,
    unit: Unit::Team,
    summary: "1 - critical_steps / total_steps",
    reference: "Kimi K2.5, arXiv 2602.02276, as read by the survey; D9",
    params: &[],
    channels: &[],
    metrics: &["step_speedup"],
    addends: &["speedup"],
    pay: Pay::Team(|given, addends| {
        addends.push(given.metric(0)?);
        Ok(())
    }),
};

/// Share of sub-agents that finished.
pub static FINISH: Reward = Reward {
    name: "finish",
    family: Family::Orchestration,
    unit: Unit::Team,
    summary: "spawned sub-agents with a return whose ok is not false / spawned ones; 0 if none is spawned",
    reference: "Kimi K2.5, arXiv 2602.02276; the form is ours",
    params: &[],
    channels: &[],
    metrics: &["finish_rate"],
    addends: &["finish"],
    pay: Pay::Team(|given, addends| {
        addends.push(finish(given.metric(0))?);
        Ok(())
    }),
};

/// Spawned sub-agents as a share of a target, at most 1.
pub static INSTANTIATION: Reward = Reward {
    name: "instantiation",
    family: Family::Orchestration,
    unit: Unit::Team,
    summary: "min(1, spawned sub-agents / n_target)",
    reference: "Kimi K2.5, arXiv 2602.02276, as its report says; the form is ours",
    params: &[N_TARGET],
    channels: &[],
    metrics: &["n_spawned"],
    addends: &["instantiation"],
    pay: Pay::Team(|given, addends| {
        addends.push(instantiation(given, 0)?);
        Ok(())
    }),
};

/// The reward sum for the training of orchestrators.
pub static PARL: Reward = Reward {
    name: "parl",
    family: Family::Orchestration,
    unit: Unit::Team,
    summary: "performance + lambda_parallel · (speedup or instantiation) + lambda_finish · finish, both weights annealed",
    reference: "Kimi K2.5, arXiv 2602.02276; weights, r_parallel, r_finish and schedules are ours",
    params: &[
        weight("lambda_parallel", 0.1, "weight of the parallel term before annealing"),
        weight("lambda_finish", 0.1, "weight of the finish term before annealing"),
        Param {
            name: "parallel",
            kind: ParamKind::Choice(&["speedup", "instantiation"]),
            default: Value::Text(Cow::Borrowed("speedup")),
            doc: "reward used as the parallel term",
        },
        N_TARGET,
        Param {
            name: "anneal",
            kind: ParamKind::Choice(&["none", "linear", "cosine", "exponential", DIAGNOSTIC]),
            default: Value::Text(Cow::Borrowed("none")),
            doc: "how both weights fall with metrics.train_step; diagnostic: by the share of the step's traces with at \
                  least two agents",
        },
        Param {
            name: "anneal_steps",
            kind: ParamKind::Float(f64::MIN_POSITIVE, f64::MAX),
            default: Value::Float(1000.0),
            doc: "steps until the weights are 0 (linear, cosine) or fall by a factor of e (exponential)",
        },
    ],
    channels: &[Channel { name: "performance", default: "team", doc: "reward of the run" }],
    metrics: &["step_speedup", "n_spawned", "finish_rate"],
    addends: &["performance", "parallel", "finish"],
    pay: Pay::Team(parl),
};

/// Steps on the longest path through the stages.
pub static CRITICAL_STEPS: Reward = Reward {
    name: "critical_steps",
    family: Family::Orchestration,
    unit: Unit::Team,
    summary: "-weight · critical_steps",
    reference: "Kimi K2.5, arXiv 2602.02276; D9",
    params: &[weight("weight", 1.0, "cost of a step")],
    channels: &[],
    metrics: &["critical_steps"],
    addends: &["critical_steps"],
    pay: Pay::Team(|given, addends| {
        addends.push(0.0 - given.number("weight") * given.metric(0)?);
        Ok(())
    }),
};

fn finish(rate: Result<f64, Reason>) -> Result<f64, Reason> {
    match rate {
        Err(Reason::RatioEmpty) => Ok(0.0),
        rate => rate,
    }
}

fn instantiation(inputs: &Inputs<'_>, spawned: usize) -> Result<f64, Reason> {
    let target = inputs.params.int("n_target").ok_or(Reason::FieldAbsent)?;
    Ok((inputs.metric(spawned)? / target as f64).min(1.0))
}

/// What is left of a weight at a step of training.
fn annealed(inputs: &Inputs<'_>) -> Result<f64, Reason> {
    let word = inputs.params.text("anneal").unwrap_or("none");
    if word == "none" {
        return Ok(1.0);
    }
    if word == DIAGNOSTIC {
        return inputs.left.ok_or(Reason::FieldAbsent);
    }
    let done = inputs.train_step.ok_or(Reason::FieldAbsent)? / inputs.number("anneal_steps");
    Ok(match word {
        "linear" => (1.0 - done).clamp(0.0, 1.0),
        "cosine" => f64::midpoint(1.0, (PI * done.clamp(0.0, 1.0)).cos()),
        _ => (-done.max(0.0)).exp(),
    })
}

fn parl(inputs: &Inputs<'_>, addends: &mut Vec<f64>) -> Result<(), Reason> {
    addends.push(inputs.channel(0)?);
    let left = annealed(inputs)?;
    // a term without weight is not asked for
    let term = |name: &str, value: &dyn Fn() -> Result<f64, Reason>| match inputs.number(name) * left {
        0.0 => Ok(0.0),
        weight => Ok(weight * value()?),
    };
    let by_speed = inputs.params.text("parallel") == Some("speedup");
    addends.push(term("lambda_parallel", &|| {
        if by_speed { inputs.metric(0) } else { instantiation(inputs, 1) }
    })?);
    addends.push(term("lambda_finish", &|| finish(inputs.metric(2)))?);
    Ok(())
}
