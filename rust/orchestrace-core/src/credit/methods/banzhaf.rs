//! Banzhaf values: a player's mean gain over all coalitions of the others, each equally likely.
//!
//! ```text
//! β_i = 2^-(n-1) Σ_{S ⊆ N∖i} (v(S ∪ i) - v(S));   normalized_banzhaf: β_i ∆v / Σ β
//! sampled (maximum sample reuse): mean of v over the drawn coalitions with i, less the mean over those without
//! ```
//!
//! Every coalition serves every player. The values do not add up to ∆v; rescaled ones do, at the price of linearity, and
//! are another method with a name of its own. Errors: of a player the mean squared deviation from its two means; of a
//! row of several players that of their sum; of the rescaled values by the delta method.
//! Exact: 2^n evaluations; sampled: one evaluation and O(n) a coalition, and 8 bytes of memory.
//! References: J. Banzhaf, Weighted voting doesn't work, 1965; J. Wang, R. Jia, Data Banzhaf, arXiv 2205.15466, section
//! 4.3. Axioms: null player, symmetry, linearity; of the rescaled ones efficiency, symmetry, null player.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::credit::game::in_cheap_order;
use crate::credit::game::table::tabulate;
use crate::credit::game::{Chunk, Game, GameMethod, Setting, Solution, Tally, budget, draws};
use crate::credit::game::{OUTCOME, PLAYERS, QUORUM, SCALED, UNITS, WEIGHTS};
use crate::credit::method::{Axiom, Method, MethodInfo, Quantity, Scope};
use crate::credit::params::{PROGRAM_ORDER, Param, ParamKind, Params, Value};
use crate::error::Result;
use crate::run::Run;
use crate::schema::{Reason, Tier};

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[Method::PerGame(&BANZHAF), Method::PerGame(&NORMALIZED_BANZHAF)];

/// Label of the random streams.
const LABEL: &str = "banzhaf";

/// Banzhaf values, raw or rescaled.
pub struct Banzhaf {
    info: &'static MethodInfo,
    normalize: bool,
}

/// The method `banzhaf`.
pub static BANZHAF: Banzhaf = Banzhaf { info: &BANZHAF_INFO, normalize: false };
/// The method `normalized_banzhaf`.
pub static NORMALIZED_BANZHAF: Banzhaf = Banzhaf { info: &NORMALIZED_BANZHAF_INFO, normalize: true };

/// With fewer coalitions somebody may be in all of them, or in none.
const SAMPLES: Param = Param {
    name: "samples",
    kind: ParamKind::Int(64, 1 << 28),
    default: Value::Null,
    doc: "coalitions to draw; null: exact, up to 20 players",
};

const PARAMS: &[Param] = &[SAMPLES, OUTCOME, WEIGHTS, QUORUM, PLAYERS, PROGRAM_ORDER, SCALED];

static BANZHAF_INFO: MethodInfo = MethodInfo {
    name: "banzhaf",
    summary: "what a player adds to a coalition of the others, all coalitions equally likely",
    reference: "J. Banzhaf, 1965; arXiv 2205.15466",
    quantity: Quantity::Share,
    scope: Scope::Trace,
    units: UNITS,
    axioms: &[Axiom::Symmetry, Axiom::NullPlayer],
    params: PARAMS,
    tier: Some(Tier::Surrogate),
    needs_graph: true,
};

static NORMALIZED_BANZHAF_INFO: MethodInfo = MethodInfo {
    name: "normalized_banzhaf",
    summary: "Banzhaf values, rescaled to add up",
    reference: "J. Banzhaf, 1965",
    quantity: Quantity::Share,
    scope: Scope::Trace,
    units: UNITS,
    axioms: &[Axiom::Efficiency, Axiom::Symmetry, Axiom::NullPlayer],
    params: PARAMS,
    tier: Some(Tier::Surrogate),
    needs_graph: true,
};

impl Banzhaf {
    /// The estimate from `samples` coalitions, 64 at least.
    pub fn sampled(
        &self,
        game: &mut dyn Game,
        setting: &Setting<'_>,
        samples: u64,
        out: &mut Solution,
    ) -> Result<std::result::Result<(), Reason>> {
        sampled(game, setting, samples, self.normalize, out)
    }
}

impl GameMethod for Banzhaf {
    fn info(&self) -> &'static MethodInfo {
        self.info
    }

    fn solve(
        &self,
        game: &mut dyn Game,
        setting: &Setting<'_>,
        params: &Params,
        out: &mut Solution,
    ) -> Result<std::result::Result<(), Reason>> {
        match budget(self.evaluations(&setting.players), 1, params) {
            Some(samples) => self.sampled(game, setting, samples, out),
            None => solve_exact(game, setting, self.normalize, out),
        }
    }
}

/// The exact value of every player; players that change nothing get exactly 0 at no cost.
pub fn exact(game: &mut dyn Game, run: &Run) -> Result<Vec<f64>> {
    let n = game.players();
    let among = in_cheap_order(game);
    let table = tabulate(game, &among, run)?;
    let mut value = vec![0.0; n];
    let share = 2.0 / table.len() as f64;
    for (bit, player) in among.iter().flatten().enumerate() {
        let pairs = table.chunks_exact(2 << bit).map(|both| both.split_at(1 << bit));
        let gains = pairs.map(|(without, with)| {
            with.iter().zip(without).map(|(with, without)| with - without).sum::<f64>()
        });
        value[*player as usize] = share * gains.sum::<f64>();
    }
    Ok(value)
}

/// Rescales values of rows to sum to `amount`; false where they sum to nothing but are something.
fn rescaled(value: &mut [f64], amount: f64) -> bool {
    let sum: f64 = value.iter().sum();
    if amount == 0.0 && value.iter().all(|value| *value == 0.0) {
        return true;
    }
    for value in value.iter_mut() {
        *value *= amount / sum;
    }
    value.iter().all(|value| value.is_finite())
}

/// The exact values of rows.
pub fn solve_exact(
    game: &mut dyn Game,
    setting: &Setting<'_>,
    normalize: bool,
    out: &mut Solution,
) -> Result<std::result::Result<(), Reason>> {
    let values = exact(game, setting.run)?;
    out.exact(&setting.players, &values);
    if normalize && !rescaled(&mut out.value, setting.full - setting.empty) {
        return Ok(Err(Reason::ResultRange));
    }
    Ok(Ok(()))
}

/// Fills `members` with random coalitions, one per draw of the chunk.
fn coalitions(chunk: &mut Chunk<'_>, n: usize) {
    chunk.room.members.clear();
    chunk.room.members.extend((0..n).map(|_| chunk.stream.bits64()));
}

/// The estimates from `samples` coalitions.
fn sampled(
    game: &mut dyn Game,
    setting: &Setting<'_>,
    samples: u64,
    normalize: bool,
    out: &mut Solution,
) -> Result<std::result::Result<(), Reason>> {
    let n = setting.players.len();
    // Errors are deviations from means that are known only at the end: values are kept, and coalitions drawn again.
    let sampled_values: Vec<AtomicU64> = (0..samples).map(|_| AtomicU64::new(0)).collect();
    let of_chunk = |chunk: &Chunk<'_>| chunk.first as usize..chunk.first as usize + chunk.count;
    // of every player how often it was in, and the values then; at the end all values
    let sums = draws(game, setting, LABEL, samples, 2 * n + 1, &|game, chunk, tally| {
        coalitions(chunk, n);
        let room = &mut *chunk.room;
        room.values.clear();
        room.values.resize(chunk.count, 0.0);
        game.values(&room.members, &mut room.values)?;
        for (lane, &value) in room.values.iter().enumerate() {
            room.draw.clear();
            let presences = room.members.iter().map(|word| (word >> lane & 1) as f64);
            room.draw.extend(presences.flat_map(|presences| [presences, presences * value]));
            room.draw.push(value);
            tally.add(&room.draw);
        }
        for (sampled_values, value) in sampled_values[of_chunk(chunk)].iter().zip(&chunk.room.values) {
            sampled_values.store(value.to_bits(), Ordering::Relaxed);
        }
        Ok(())
    })?;
    // share of the coalitions with the player, mean value with it, mean value without
    let means: Vec<[f64; 3]> = (0..n)
        .map(|p| {
            let (share, product) = (sums.mean(2 * p), sums.mean(2 * p + 1));
            [share, product / share, (sums.mean(2 * n) - product) / (1.0 - share)]
        })
        .collect();
    for ([_, with, without], &row) in means.iter().zip(setting.players.row_of) {
        out.value[row as usize] += with - without;
    }
    if !out.value.iter().all(|value| value.is_finite()) {
        // somebody was in all of the coalitions, or in none
        return Ok(Err(Reason::SupportAbsent));
    }
    let raw = out.value.clone();
    let sum: f64 = raw.iter().sum();
    let amount = setting.full - setting.empty;
    if normalize && amount != 0.0 && raw.iter().all(|value| *value == 0.0) {
        // no coalition that was drawn reached anything
        return Ok(Err(Reason::SupportAbsent));
    }
    if normalize && !rescaled(&mut out.value, amount) {
        return Ok(Err(Reason::ResultRange));
    }
    let influence = |_: &mut dyn Game, chunk: &mut Chunk<'_>, tally: &mut Tally| {
        coalitions(chunk, n);
        let range = of_chunk(chunk);
        let room = &mut *chunk.room;
        for (lane, sampled_values) in sampled_values[range].iter().enumerate() {
            let value = f64::from_bits(sampled_values.load(Ordering::Relaxed));
            room.draw.clear();
            room.draw.resize(setting.players.n_rows(), 0.0);
            for ((word, [share, with, without]), &row) in
                room.members.iter().zip(&means).zip(setting.players.row_of)
            {
                room.draw[row as usize] += if word >> lane & 1 == 1 {
                    (value - with) / share
                } else {
                    (without - value) / (1.0 - share)
                };
            }
            if normalize {
                let of_sum: f64 = room.draw.iter().sum();
                for (draw, raw) in room.draw.iter_mut().zip(&raw) {
                    *draw = amount * (*draw / sum - raw * of_sum / (sum * sum));
                }
            }
            tally.add(&room.draw);
        }
        Ok(())
    };
    let errors = draws(game, setting, LABEL, samples, setting.players.n_rows(), &influence)?;
    for &row in setting.players.row_of {
        out.stderr[row as usize] = errors.stderr(row as usize);
    }
    out.n_samples = Some(samples);
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::game::table::TableGame;

    #[test]
    fn values_by_hand() {
        let run = Run::new(Some(1)).unwrap();
        let of = |worth: &dyn Fn(usize) -> bool| {
            let table: Vec<f64> = (0..8).map(|set| f64::from(worth(set))).collect();
            exact(&mut TableGame::new(&table).unwrap(), &run).unwrap()
        };
        assert_eq!(of(&|set| set.count_ones() > 1), [0.5; 3]);
        assert_eq!(of(&|set| set & 1 == 1 && set > 1), [0.75, 0.25, 0.25]);
        // rescaled, and where there is nothing to scale
        let mut value = [0.75, 0.25, 0.5];
        assert!(rescaled(&mut value, 3.0));
        assert_eq!(value, [1.5, 0.5, 1.0]);
        assert!(!rescaled(&mut [0.5, -0.5], 1.0));
    }
}
