//! Shapley values from orders stratified by the players' positions.
//!
//! A draw is a random order and its rotations by equal steps: with g of them every player stands once in each g-th part
//! of the places. Each rotation is itself a random order, so the mean is unbiased and every order adds up to ∆v; what a
//! player's gain owes to its place varies within a draw and no longer between draws, where errors come from.
//! With as many rotations as players every player stands on every place once a draw.
//! n evaluations an order. References: J. Castro, D. Gómez, E. Molina, J. Tejada, Improving polynomial estimation of the
//! Shapley value by stratified random sampling, 2017; R. Mitchell et al., Sampling permutations, arXiv 2104.12199.

use super::orders::{append_order, walk_together};
use super::{Game, Setting, Solution, draws};
use crate::error::Result;

/// Label of the random streams.
const LABEL: &str = "shapley/stratified";

/// Rotations of a draw at most: a mean needs draws, too.
const ROTATIONS: u64 = 16;

/// The estimate from at most `samples` orders.
pub fn sampled(game: &mut dyn Game, setting: &Setting<'_>, samples: u64, out: &mut Solution) -> Result<()> {
    let players = &setting.players;
    let n = players.len();
    if n == 0 {
        return Ok(());
    }
    // two draws at least, or there is no error
    let each = (n as u64).min(ROTATIONS).min(samples / 2).max(1) as usize;
    let tally =
        draws(game, setting, LABEL, samples / each as u64, players.n_rows(), &|game, chunk, tally| {
            walk_together(game, players, chunk, tally, each, |stream, orders| {
                let from = orders.len();
                append_order(stream, n, orders);
                for turn in 1..each {
                    let by = turn * n / each;
                    orders.extend_from_within(from + by..from + n);
                    orders.extend_from_within(from..from + by);
                }
            })
        })?;
    out.sampled(players, &tally);
    Ok(())
}
