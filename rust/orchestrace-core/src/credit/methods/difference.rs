//! The difference reward: the outcome's loss if one player is removed.
//!
//! ```text
//! D_i = v(N) - v(N \ i)
//! ```
//!
//! The baseline `remove` takes the player out. `mean` puts the mean of its two actions in its place, a fair coin between
//! being there and not: `D_i = v(N) - (v(N) + v(N \ i)) / 2`, so that a player is paid against what is expected of one who
//! does not know. The differences do not sum to ∆v: what is missing or too much is the residual.
//!
//! n evaluations, O(n (|V| + |E|) / 16); a call that would visit more events and edges than
//! [`Cost::MOST_VISITS`] is refused.
//! Reference: D. Wolpert, K. Tumer, Optimal payoff functions for members of collectives, 2001 (wonderful life utility).
//! Axioms: symmetry; a player that changes nothing gets exactly 0.

use std::borrow::Cow;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use crate::credit::game::{
    COALITIONS, Game, GameMethod, PLAYERS, Players, QUORUM, SCALED, Setting, Solution,
};
use crate::credit::game::{OUTCOME, UNITS, WEIGHTS};
use crate::credit::method::{Axiom, Method, MethodInfo, Quantity, Scope};
use crate::credit::params::{PROGRAM_ORDER, Param, ParamKind, Params, Value};
use crate::error::Result;
use crate::run::Run;
use crate::schema::{Reason, Tier};
use crate::surrogate::Cost;

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[Method::PerGame(&Difference)];

/// The method `difference`.
pub struct Difference;

static INFO: MethodInfo = MethodInfo {
    name: "difference",
    summary: "what the outcome loses if only the unit is absent",
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
            doc: "replacement of the unit: nothing, or a fair coin between the unit and nothing",
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

    fn evaluations(&self, players: &Players<'_>) -> Cost {
        Cost::of(players.len())
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
        let values = without_each(game, n, setting.run)?;
        for (&row, value) in setting.players.row_of.iter().zip(&values) {
            out.value[row as usize] += share * (setting.full - value);
        }
        Ok(Ok(()))
    }
}

/// Players of a trace from which on it is worth more than one worker.
const MANY: usize = 16 * COALITIONS;

/// v(N \ i) of every player. Idle workers help where the game forks; each value is found by itself.
fn without_each(game: &mut dyn Game, n: usize, run: &Run) -> Result<Vec<f64>> {
    let mut values = vec![0.0; n];
    let some = |game: &mut dyn Game, members: &mut [u64], (block, out): (usize, &mut [f64])| {
        run.check()?;
        let block = block * COALITIONS..block * COALITIONS + out.len();
        members[block.clone()].iter_mut().enumerate().for_each(|(k, members)| *members = !(1 << k));
        let result = game.values(members, out);
        members[block].fill(u64::MAX);
        result
    };
    let mut blocks = values.chunks_mut(COALITIONS).enumerate();
    let workers = run.pool().current_num_threads();
    if workers < 2 || n < MANY || game.fork().is_none() {
        let mut members = vec![u64::MAX; n];
        blocks.try_for_each(|block| some(game, &mut members, block))?;
    } else {
        let forks = (0..workers).map_while(|_| game.fork());
        let mut workers: Vec<_> = forks.map(|fork| (fork, vec![u64::MAX; n])).collect();
        let blocks = Mutex::new(blocks);
        run.pool().install(|| {
            workers.par_iter_mut().with_max_len(1).try_for_each(|(fork, members)| -> Result<()> {
                loop {
                    let block = blocks.lock().unwrap_or_else(PoisonError::into_inner).next();
                    let Some(block) = block else { return Ok(()) };
                    some(fork.as_mut(), members, block)?;
                }
            })
        })?;
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Worth the sum of the squares of those who are in; forks if it may.
    struct Squares(bool);

    const N: usize = MANY + 5;

    impl Game for Squares {
        fn players(&self) -> usize {
            N
        }

        fn values(&mut self, members: &[u64], out: &mut [f64]) -> Result<()> {
            for (k, out) in out.iter_mut().enumerate() {
                *out = (0..N).filter(|&p| members[p] >> k & 1 == 1).map(|p| (p * p) as f64).sum();
            }
            Ok(())
        }

        fn fork(&self) -> Option<Box<dyn Game + '_>> {
            self.0.then(|| Box::new(Squares(true)) as Box<dyn Game>)
        }
    }

    #[test]
    fn many_players_are_shared_among_workers() {
        let all: f64 = (0..N).map(|p| (p * p) as f64).sum();
        for (threads, forks) in [(1, true), (2, true), (7, true), (7, false)] {
            let run = Run::new(Some(threads)).unwrap();
            let values = without_each(&mut Squares(forks), N, &run).unwrap();
            assert!(values.iter().enumerate().all(|(p, value)| *value == all - (p * p) as f64), "{threads}");
            run.cancel();
            assert!(without_each(&mut Squares(forks), N, &run).is_err());
        }
    }
}
