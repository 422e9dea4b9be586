//! The Shapley value: a player's mean gain over all orders of the players.
//!
//! ```text
//! φ_i = Σ_{S ⊆ N\i} |S|! (n-|S|-1)! / n! (v(S ∪ i) - v(S))
//! ```
//!
//! Exact values evaluate all 2^m coalitions of the m players that can change the value; a value v(S) then enters `φ_i`
//! with (w(s-1) + w(s)) v(S) if i is in S, less `Σ_S` w(s) v(S), w(s) = s! (m-s-1)! / m!.
//!
//! The sampler `permutation` draws orders: unbiased, and it sums to v(N) - v(∅) whatever the number of orders, since the
//! gains along each order do. `antithetic` draws pairs, an order and its reverse, which is exact where no more than two
//! players interact at a time; the independent draws, of which the standard error is, are the pairs.
//!
//! Time: exact 2^m evaluations, of which a step evaluates what is behind one player; sampled M n of these.
//! References: L. S. Shapley, A value for n-person games, 1953; J. Castro, D. Gómez, J. Tejada, Computers & Operations
//! Research 36(5), 2009 (sampling orders); R. Mitchell, J. Cooper, E. Frank, G. Holmes, JMLR 23(43), 2022 (reverses).
//! Axioms: efficiency, symmetry, null player; linearity in the game.

use std::borrow::Cow;

use crate::credit::game::{COALITIONS, all_coalitions, in_cheap_order};
use crate::credit::game::{Chunk, Evaluation, Game, GameMethod, PLAYERS, Players, QUORUM, SCALED, Setting};
use crate::credit::game::{OUTCOME, SAMPLES, Solution, Tally, UNITS, WEIGHTS, budget, draws};
use crate::credit::game::{kernel_shap, stratified, truncated};
use crate::credit::method::{Axiom, Method, MethodInfo, Quantity, Scope};
use crate::credit::params::{PROGRAM_ORDER, Param, ParamKind, Params, Value};
use crate::error::{Error, Result};
use crate::schema::{Reason, Tier};

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[Method::PerGame(&Shapley)];

/// The method `shapley`.
pub struct Shapley;

const SAMPLER: Param = Param {
    name: "sampler",
    kind: ParamKind::Choice(&[
        "auto",
        "exact",
        "permutation",
        "antithetic",
        "stratified",
        "truncated",
        "kernel",
    ]),
    default: Value::Text(Cow::Borrowed("auto")),
    doc: "auto: exact if samples is null or would cost more, else permutation; truncated is biased",
};

const TOLERANCE: Param = Param {
    name: "tolerance",
    kind: ParamKind::Float(0.0, f64::MAX),
    default: Value::Null,
    doc: "truncated: an order ends once less than this is missing from v(N); later gains are 0",
};

static INFO: MethodInfo = MethodInfo {
    name: "shapley",
    summary: "mean gain of the unit over all orders in which units could have joined",
    reference: "Shapley 1953; sampled: Castro et al. 2009; antithetic: Mitchell et al. 2022",
    quantity: Quantity::Share,
    scope: Scope::Trace,
    units: UNITS,
    axioms: &[Axiom::Efficiency, Axiom::Symmetry, Axiom::NullPlayer],
    params: &[
        SAMPLES,
        SAMPLER,
        TOLERANCE,
        OUTCOME,
        WEIGHTS,
        QUORUM,
        PLAYERS,
        PROGRAM_ORDER,
        SCALED,
        Param {
            name: "evaluation",
            kind: ParamKind::Choice(Evaluation::NAMES),
            default: Value::Text(Cow::Borrowed("auto")),
            doc: "gates evaluated at each step of an order: all, or only those that change; same result",
        },
    ],
    tier: Some(Tier::Surrogate),
    needs_graph: true,
};

impl GameMethod for Shapley {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn check(&self, params: &Params) -> Result<()> {
        let samples = params.int("samples");
        let truncated = params.text("sampler") == Some("truncated");
        match (params.text("sampler"), samples) {
            _ if truncated != params.float("tolerance").is_some() => {
                Err(Error::Parameter("sampler 'truncated' needs tolerance; no other sampler takes it".into()))
            }
            (Some("exact"), Some(_)) => {
                Err(Error::Parameter("sampler 'exact' draws no samples: leave out samples".into()))
            }
            (Some(sampler), None) if !matches!(sampler, "auto" | "exact") => {
                Err(Error::Parameter(format!("sampler '{sampler}' needs samples, the number of its draws")))
            }
            (Some("antithetic"), Some(n)) if n % 2 == 1 => Err(Error::Parameter(format!(
                "sampler 'antithetic' draws orders in pairs: samples is {n}, expected an even number"
            ))),
            _ => Ok(()),
        }
    }

    fn solve(
        &self,
        game: &mut dyn Game,
        setting: &Setting<'_>,
        params: &Params,
        out: &mut Solution,
    ) -> Result<std::result::Result<(), Reason>> {
        let samples = params.int("samples").unwrap_or(0).unsigned_abs();
        match params.text("sampler") {
            Some("permutation") => permutations(game, setting, samples, false, out)?,
            Some("antithetic") => permutations(game, setting, samples, true, out)?,
            Some("stratified") => stratified::sampled(game, setting, samples, out)?,
            Some("kernel") => kernel_shap::sampled(game, setting, samples, out)?,
            Some("truncated") => {
                let tolerance = params.float("tolerance").unwrap_or_default();
                truncated::sampled(game, setting, samples, tolerance, out)?;
            }
            _ => match budget(self.evaluations(&setting.players), game.players(), params) {
                Some(samples) => permutations(game, setting, samples, false, out)?,
                None => exact(game, setting, out)?,
            },
        }
        Ok(Ok(()))
    }
}

/// Exact values. Players that change nothing get exactly 0 and cost nothing.
pub(super) fn exact(game: &mut dyn Game, setting: &Setting<'_>, out: &mut Solution) -> Result<()> {
    let among = in_cheap_order(game);
    let m = among.len();
    // w(s) = s! (m-s-1)! / m! of the coalitions without i; the last one, of all, is never without
    let mut without = vec![0.0; m + 1];
    for s in 0..m {
        without[s] = if s == 0 { 1.0 / m as f64 } else { without[s - 1] * s as f64 / (m - s) as f64 };
    }
    let both: Vec<f64> = (0..=m).map(|s| without[s] + if s == 0 { 0.0 } else { without[s - 1] }).collect();
    let mut with = vec![0.0; m];
    let mut total = 0.0;
    all_coalitions(game, setting.run, &among, &mut |first, values| {
        let size = first.count_ones() as usize;
        let mut weighted = [0.0; COALITIONS];
        for (k, (weighted, &value)) in weighted.iter_mut().zip(values).enumerate() {
            let size = size + k.count_ones() as usize;
            *weighted = both[size] * value;
            total += without[size] * value;
        }
        // the upper half of the numbers has the highest bit, and is added to the lower one
        for bit in (0..values.len().ilog2() as usize).rev() {
            let (lower, upper) = weighted[..2 << bit].split_at_mut(1 << bit);
            with[bit] += upper.iter().sum::<f64>();
            lower.iter_mut().zip(upper).for_each(|(sum, weighted)| *sum += *weighted);
        }
        let block = weighted[0];
        for (player, with) in with.iter_mut().enumerate().skip(6) {
            *with += if first >> player & 1 == 1 { block } else { 0.0 };
        }
    })?;
    for (&[player], with) in among.iter().zip(&with) {
        out.value[setting.players.row_of[player as usize] as usize] += with - total;
    }
    Ok(())
}

fn permutations(
    game: &mut dyn Game,
    setting: &Setting<'_>,
    samples: u64,
    antithetic: bool,
    out: &mut Solution,
) -> Result<()> {
    let n = game.players();
    let rows = setting.players.n_rows();
    let (label, draw): (_, &crate::credit::game::draws::Draw<'_>) = if antithetic {
        ("shapley/antithetic", &|game, chunk, tally| orders::<true>(game, chunk, setting.players, tally))
    } else {
        ("shapley", &|game, chunk, tally| orders::<false>(game, chunk, setting.players, tally))
    };
    let independent = if antithetic { samples / 2 } else { samples };
    if n == 0 {
        out.n_samples = Some(independent);
        return Ok(());
    }
    let tally = draws(game, setting, label, independent, rows, draw)?;
    out.sampled(&setting.players, &tally);
    Ok(())
}

/// Gains along random orders, and along their reverses.
fn orders<const PAIRS: bool>(
    game: &mut dyn Game,
    chunk: &mut Chunk<'_>,
    players: Players<'_>,
    tally: &mut Tally,
) -> Result<()> {
    let n = players.len();
    let room = &mut *chunk.room;
    room.orders.clear();
    for _ in 0..chunk.count {
        let from = room.orders.len();
        room.orders.extend(0..n as u32);
        chunk.stream.shuffle(&mut room.orders[from..]);
        if PAIRS {
            for k in (from..from + n).rev() {
                room.orders.push(room.orders[k]);
            }
        }
    }
    room.gains.resize(room.orders.len(), 0.0);
    game.walks(&room.orders, &mut room.gains)?;
    let several = if PAIRS { 2 * n } else { n };
    let share = if PAIRS { 0.5 } else { 1.0 };
    room.draw.clear();
    room.draw.resize(players.n_rows(), 0.0);
    for (order, gains) in room.orders.chunks_exact(several).zip(room.gains.chunks_exact(several)) {
        room.draw.fill(0.0);
        for (&player, gain) in order.iter().zip(gains) {
            room.draw[players.row_of[player as usize] as usize] += share * gain;
        }
        tally.add(&room.draw);
    }
    Ok(())
}
