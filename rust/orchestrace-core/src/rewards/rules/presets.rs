//! R8: reward sums of papers and released code, over channels that the caller names.
//!
//! Weights that a paper does not state are marked in `reference` as not published.

use std::borrow::Cow;

use crate::credit::params::{GAMMA, Param, ParamKind, Value};
use crate::credit::sum::Compensated;
use crate::error::Reason;
use crate::graph::UnitName;
use crate::rewards::reward::{Channel, Inputs, OUTCOME, Pay, Payments, Reward};
use crate::schema::{EventType, Family, Unit};

const fn weight(name: &'static str, default: f64, doc: &'static str) -> Param {
    Param { name, kind: ParamKind::Float(f64::MIN, f64::MAX), default: Value::Float(default), doc }
}

const FORMAT: Channel =
    Channel { name: "format", default: "format", doc: "1 if the format is right, else 0" };

/// The reward of the main agent of M-GRPO.
pub static MGRPO_MAIN: Reward = Reward {
    name: "mgrpo_main",
    family: Family::Hybrid,
    unit: Unit::Team,
    summary: "alpha_format · format + alpha_outcome · outcome",
    reference: "M-GRPO, arXiv 2511.13288; weights not published",
    params: &[
        weight("alpha_format", 0.1, "weight of the format"),
        weight("alpha_outcome", 0.9, "weight of the outcome"),
    ],
    channels: &[FORMAT, OUTCOME],
    metrics: &[],
    addends: &["format", "outcome"],
    pay: Pay::Team(|given, addends| {
        addends.push(given.number("alpha_format") * given.channel(0)?);
        addends.push(given.number("alpha_outcome") * given.channel(1)?);
        Ok(())
    }),
};

/// The reward of a sub-agent of M-GRPO.
pub static MGRPO_SUB: Reward = Reward {
    name: "mgrpo_sub",
    family: Family::Hybrid,
    unit: Unit::Agent,
    summary: "agents other than the root: alpha_format · share of true among the `ok` of the agent's events + \
              alpha_quality · mean `score` or sum of `reward` of its events + alpha_outcome · outcome",
    reference: "M-GRPO, arXiv 2511.13288; weights not published; weights and fields are ours",
    params: &[
        weight("alpha_format", 0.1, "weight of the agent's own format; if 0, `ok` is not needed"),
        weight("alpha_quality", 0.4, "weight of the agent's own quality; if 0, its field is not needed"),
        weight("alpha_outcome", 0.5, "weight of the outcome of the main agent"),
        Param {
            name: "quality",
            kind: ParamKind::Choice(&["score", "reward"]),
            default: Value::Text(Cow::Borrowed("score")),
            doc: "event field that measures quality: the mean of `score`, or the sum of `reward` (absent values are 0)",
        },
    ],
    channels: &[OUTCOME],
    metrics: &[],
    addends: &["format", "quality", "outcome"],
    pay: Pay::Units(mgrpo_sub),
};

/// The reward of the planner of MATPO.
pub static MATPO: Reward = Reward {
    name: "matpo",
    family: Family::Hybrid,
    unit: Unit::Team,
    summary: "outcome + alpha_format · format",
    reference: "MATPO, arXiv 2510.04678, released code",
    params: &[weight("alpha_format", 0.1, "weight of the format of tool calls")],
    channels: &[OUTCOME, FORMAT],
    metrics: &[],
    addends: &["outcome", "format"],
    pay: Pay::Team(|given, addends| {
        addends.push(given.channel(0)?);
        addends.push(given.number("alpha_format") * given.channel(1)?);
        Ok(())
    }),
};

/// The reward of a branch of Context-Folding.
pub static CONTEXT_FOLDING: Reward = Reward {
    name: "context_folding",
    family: Family::Hybrid,
    unit: Unit::Team,
    summary: "outcome + scope_weight · scope",
    reference: "Context-Folding, arXiv 2510.11967",
    params: &[weight("scope_weight", 0.2, "weight of the scope")],
    channels: &[
        OUTCOME,
        Channel { name: "scope", default: "scope", doc: "1 within the subtask, -1 beyond it, 0 if unknown" },
    ],
    metrics: &[],
    addends: &["outcome", "scope"],
    pay: Pay::Team(|given, addends| {
        addends.push(given.channel(0)?);
        addends.push(given.number("scope_weight") * given.channel(1)?);
        Ok(())
    }),
};

/// The reward in `RLinf`'s configuration of `WideSeek`.
pub static RLINF: Reward = Reward {
    name: "rlinf",
    family: Family::Hybrid,
    unit: Unit::Team,
    summary: "outcome + w_format (2 format - 1) + w_search · search - w_length · length - w_context · over_context",
    reference: "RLinf, configuration of WideSeek; signs not published",
    params: &[
        weight("w_format", 0.1, "weight of the format"),
        weight("w_search", 0.05, "weight of searching"),
        weight("w_length", 0.1, "weight of excessive length"),
        weight("w_context", 0.2, "weight of a context overflow"),
    ],
    channels: &[
        OUTCOME,
        FORMAT,
        Channel { name: "search", default: "search", doc: "1 if the run searched, else 0" },
        Channel { name: "length", default: "length", doc: "1 if the answer is too long, else 0" },
        Channel { name: "over_context", default: "over_context", doc: "1 if the context overflowed, else 0" },
    ],
    metrics: &[],
    addends: &["outcome", "format", "search", "length", "over_context"],
    pay: Pay::Team(|given, addends| {
        addends.push(given.channel(0)?);
        addends.push(given.number("w_format") * (2.0 * given.channel(1)? - 1.0));
        addends.push(given.number("w_search") * given.channel(2)?);
        addends.push(0.0 - given.number("w_length") * given.channel(3)?);
        addends.push(0.0 - given.number("w_context") * given.channel(4)?);
        Ok(())
    }),
};

/// The return of each choice of Puppeteer's orchestrator.
pub static PUPPETEER: Reward = Reward {
    name: "puppeteer",
    family: Family::Hybrid,
    unit: Unit::Event,
    summary: "orchestrator decisions t = 1..T of the root: R_T = outcome - lambda_ C_T, R_t = gamma R_{t+1} - lambda_ C_t, \
              C_t = ln(1 + t / phi), released: ln(1 + growth · t / (max_steps + 1)) / ln(1 + growth)",
    reference: "Puppeteer, arXiv 2505.19591, without a law of the cost; `law=released`, policy code and configuration of \
                its repository: lambda_ 0.1 (scale 0.1, factor 1), growth 1, gamma 0.99",
    params: &[
        Param { default: Value::Float(1.0), ..GAMMA },
        weight("lambda_", 0.1, "weight of a choice's cost"),
        Param {
            name: "phi",
            kind: ParamKind::Float(f64::MIN_POSITIVE, f64::MAX),
            default: Value::Float(1.0),
            doc: "scale of the cost, in choices: ln(1 + t / phi); of the law `paper`",
        },
        Param {
            name: "law",
            kind: ParamKind::Choice(&["paper", "released"]),
            default: Value::Text(Cow::Borrowed("paper")),
            doc: "how the cost of a choice grows: our form of what the paper says, or the released code's",
        },
        Param {
            name: "growth",
            kind: ParamKind::Float(1e-9, 1e9),
            default: Value::Float(1.0),
            doc: "how fast the cost bends, above 0; of the law `released`",
        },
        Param {
            name: "max_steps",
            kind: ParamKind::Int(1, i64::MAX),
            default: Value::Int(5),
            doc: "the most choices of a run, as the team was configured; of the law `released`",
        },
    ],
    channels: &[OUTCOME],
    metrics: &[],
    addends: &["outcome", "cost"],
    pay: Pay::Units(puppeteer),
};

fn mgrpo_sub(inputs: &Inputs<'_>, out: &mut Payments) {
    let view = inputs.subject.view;
    let root = inputs.subject.owners.root().map(UnitName::Agent);
    let is_sub = |&unit: &usize| Some(inputs.units.name(unit)) != root;
    let subs = (0..inputs.units.len()).filter(is_sub);
    let outcome = match inputs.channel(0) {
        Ok(outcome) => inputs.number("alpha_outcome") * outcome,
        Err(reason) => return subs.for_each(|unit| out.withhold(unit, reason)),
    };
    let formats = sums_of_units(inputs, |v| view.ok.get(v).map(|ok| f64::from(u8::from(ok))));
    let by_score = inputs.params.text("quality") == Some("score");
    let qualities = sums_of_units(inputs, |v| if by_score { view.score.get(v) } else { view.reward.get(v) });
    let rewarded = (0..view.len()).any(|v| view.reward.get(v).is_some());
    let mean =
        |(sum, n): &(Compensated, f64)| if *n > 0.0 { Ok(sum.value() / n) } else { Err(Reason::FieldAbsent) };
    let sum =
        |(sum, _): &(Compensated, f64)| if rewarded { Ok(sum.value()) } else { Err(Reason::FieldAbsent) };
    // a term without weight is not asked for
    let term = |name: &str, value: &dyn Fn() -> Result<f64, Reason>| match inputs.number(name) {
        0.0 => Ok(0.0),
        weight => Ok(weight * value()?),
    };
    for unit in subs {
        let quality = || if by_score { mean(&qualities[unit]) } else { sum(&qualities[unit]) };
        let paid = term("alpha_format", &|| mean(&formats[unit]))
            .and_then(|format| Ok((format, term("alpha_quality", &quality)?)));
        match paid {
            Ok((format, quality)) => out.pay(unit, &[format, quality, outcome]),
            Err(reason) => out.withhold(unit, reason),
        }
    }
}

/// The sum of the recorded values of each unit's events, and their number. O(|V|).
fn sums_of_units(inputs: &Inputs<'_>, value: impl Fn(usize) -> Option<f64>) -> Vec<(Compensated, f64)> {
    let mut sums = vec![(Compensated::default(), 0.0); inputs.units.len()];
    for v in 0..inputs.subject.view.len() {
        if let (Some(unit), Some(value)) = (inputs.unit(v), value(v)) {
            sums[unit].0.add(value);
            sums[unit].1 += 1.0;
        }
    }
    sums
}

fn puppeteer(inputs: &Inputs<'_>, out: &mut Payments) {
    let (subject, root) = (inputs.subject, inputs.subject.root());
    let is_choice = |v: usize| subject.owner(v) == root && subject.is(v, &[EventType::OrchestratorDecision]);
    let rows = subject.owners.order().rows();
    let choices = || rows.iter().map(|&v| v as usize).filter(|&v| is_choice(v));
    let outcome = match inputs.channel(0) {
        Ok(outcome) => outcome,
        Err(reason) => return choices().for_each(|v| out.withhold(v, reason)),
    };
    let [gamma, lambda, phi, growth] = ["gamma", "lambda_", "phi", "growth"].map(|name| inputs.number(name));
    let most = inputs.params.int("max_steps").unwrap_or(1) as f64;
    let law = |t: f64| match inputs.params.text("law") {
        Some("released") => (growth * (t / (most + 1.0))).ln_1p() / growth.ln_1p(),
        _ => (t / phi).ln_1p(),
    };
    let mut t = choices().count();
    let [mut earned, mut costs] = std::mem::take(&mut out.work);
    (earned, costs) = (cleared(earned), cleared(costs));
    let (mut earning, mut cost) = (outcome, 0.0);
    while t > 0 {
        cost = gamma * cost - lambda * law(t as f64);
        earned.push(earning);
        costs.push(cost);
        earning *= gamma;
        t -= 1;
    }
    for (v, (earned, cost)) in choices().zip(earned.iter().rev().zip(costs.iter().rev())) {
        out.pay(v, &[*earned, *cost]);
    }
    out.work = [earned, costs];
}

fn cleared(mut buffer: Vec<f64>) -> Vec<f64> {
    buffer.clear();
    buffer
}
