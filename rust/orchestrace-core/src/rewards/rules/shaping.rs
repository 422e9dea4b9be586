//! Shaping by potentials.
//!
//! ```text
//! F_t = γ Φ_{t+1} - Φ_t        Φ after the last turn is 0
//! ```
//!
//! Turns of all agents in one sequence, `Φ_t` the first value in turn t. Optimal policies do not change. Over a whole trace
//! `Σ γ^t F_t = -Φ_1`, so that shaping vanishes from differences between rollouts that begin alike: it is for credit of
//! turns. O(|V|). Source: Ng, Harada, Russell 1999, theorem 1.

use std::borrow::Cow;

use crate::credit::params::{GAMMA, Param, ParamKind, Value};
use crate::error::Reason;
use crate::rewards::reward::{Inputs, Pay, Payments, Reward};
use crate::schema::{Family, Unit};

/// The gain of a turn in potential.
pub static SHAPING: Reward = Reward {
    name: "shaping",
    family: Family::Process,
    unit: Unit::Turn,
    summary: "gamma · potential of the next turn (0 after the last) - potential of the turn",
    reference: "Ng, Harada, Russell 1999",
    params: &[
        GAMMA,
        Param {
            name: "potential",
            kind: ParamKind::Choice(&["value", "score"]),
            default: Value::Text(Cow::Borrowed("value")),
            doc: "event field used as the potential",
        },
    ],
    channels: &[],
    metrics: &[],
    addends: &["next", "own"],
    pay: Pay::Units(shaping),
};

fn shaping(inputs: &Inputs<'_>, out: &mut Payments) {
    let view = inputs.subject.view;
    let column = if inputs.params.text("potential") == Some("score") { &view.score } else { &view.value };
    let mut potential = std::mem::take(&mut out.work[0]);
    inputs.first_of_units(column, &mut potential);
    if potential.iter().any(|value| value.is_nan()) {
        out.withhold_all(potential.len(), Reason::FieldAbsent);
    } else {
        let gamma = inputs.number("gamma");
        for turn in 0..potential.len() {
            let next = potential.get(turn + 1).copied().unwrap_or(0.0);
            out.pay(turn, &[gamma * next, -potential[turn]]);
        }
    }
    out.work[0] = potential;
}
