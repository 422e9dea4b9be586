//! The difference reward: what the outcome loses when one player is taken out of the whole.
//!
//! ```text
//! D_i = v(N) - v(N \ i)
//! ```
//!
//! The baseline `remove` takes the player out. `mean` puts the mean of its two actions in its place, a fair coin between
//! being there and not: `D_i = v(N) - (v(N) + v(N \ i)) / 2`, so that a player is paid against what is expected of one who
//! does not know. The differences do not sum to ∆v: what is missing or too much is the residual.
//!
//! n evaluations, O(n (|V| + |E|) / 16).
//! Reference: D. Wolpert, K. Tumer, Optimal payoff functions for members of collectives, 2001 (wonderful life utility).
//! Axioms: symmetry; a player that changes nothing gets exactly 0.

use std::borrow::Cow;

use super::{COALITIONS, Game, GameMethod, PLAYERS, PROGRAM_ORDER, QUORUM, SCALED, Setting, Solution};
use super::{OUTCOME, UNITS, WEIGHTS};
use crate::credit::method::{Axiom, MethodInfo, Quantity, Scope};
use crate::credit::params::{Param, ParamKind, Params, Value};
use crate::error::Result;
use crate::schema::{Reason, Tier};

/// The method `difference`.
pub struct Difference;

static INFO: MethodInfo = MethodInfo {
    name: "difference",
    summary: "what the outcome loses without the unit, all others being there",
    reference: "Wolpert and Tumer 2001, wonderful life utility",
    quantity: Quantity::Share,
    scope: Scope::Trace,
    units: UNITS,
    axioms: &[Axiom::Symmetry, Axiom::NullPlayer],
    params: &[
        Param {
            name: "baseline",
            kind: ParamKind::Choice(&["remove", "mean"]),
            default: Value::Text(Cow::Borrowed("remove")),
            doc: "what takes the unit's place: nothing, or a fair coin between the unit and nothing",
        },
        OUTCOME,
        WEIGHTS,
        QUORUM,
        PLAYERS,
        PROGRAM_ORDER,
        SCALED,
    ],
    tier: Some(Tier::Surrogate),
    needs_graph: true,
};

impl GameMethod for Difference {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn solve(
        &self,
        game: &mut dyn Game,
        setting: &Setting<'_>,
        params: &Params,
        out: &mut Solution,
    ) -> Result<std::result::Result<(), Reason>> {
        let n = game.players();
        let share = if params.text("baseline") == Some("mean") { 0.5 } else { 1.0 };
        let mut members = vec![u64::MAX; n];
        let mut values = [0.0; COALITIONS];
        for from in (0..n).step_by(COALITIONS) {
            setting.run.check()?;
            let some = COALITIONS.min(n - from);
            (0..some).for_each(|k| members[from + k] = !(1 << k));
            game.values(&members, &mut values[..some])?;
            members[from..from + some].fill(u64::MAX);
            for (&row, value) in setting.players.row_of[from..].iter().zip(&values[..some]) {
                out.value[row as usize] += share * (setting.full - value);
            }
        }
        Ok(Ok(()))
    }
}
