//! Games given as tables of values, and tables of other games' values.
//!
//! Bit p of an index says whether player p, or item p, is in: a game of n players is a list of 2^n values.

use super::{Game, all_coalitions};
use crate::error::{Error, Result};
use crate::run::Run;
use crate::surrogate::cost::places;

/// Values of all 2^k unions of `items`, as [`all_coalitions`] has them.
pub fn tabulate<I: AsRef<[u32]>>(game: &mut dyn Game, items: &[I], run: &Run) -> Result<Vec<f64>> {
    let mut table = vec![0.0; places(items.len())?];
    all_coalitions(game, run, items, &mut |first, values| {
        table[first..first + values.len()].copy_from_slice(values);
    })?;
    Ok(table)
}

/// Values of all coalitions of single players.
pub fn tabulate_players(game: &mut dyn Game, run: &Run) -> Result<Vec<f64>> {
    let players: Vec<[u32; 1]> = (0..game.players() as u32).map(|p| [p]).collect();
    tabulate(game, &players, run)
}

/// s! (n - s - 1)! / n! for s from 0 to n - 1: the share of the orders of n in which a given one follows exactly a
/// given set of s.
#[must_use]
pub fn order_weights(n: usize) -> Vec<f64> {
    let mut weights = Vec::with_capacity(n);
    let mut weight = 1.0 / n as f64;
    for s in 0..n {
        weights.push(weight);
        // w(s + 1) / w(s) = (s + 1) / (n - s - 1)
        weight *= (s + 1) as f64 / (n - s - 1).max(1) as f64;
    }
    weights
}

/// Shapley values of all players of a listed game, O(n 2^n).
#[must_use]
pub fn shapley_of_table(table: &[f64]) -> Vec<f64> {
    let n = table.len().trailing_zeros() as usize;
    let weights = order_weights(n);
    let mut value = vec![0.0; n];
    for (player, value) in value.iter_mut().enumerate() {
        // coalitions without the player beside the same with it
        for (block, both) in table.chunks_exact(2 << player).enumerate() {
            let (without, with) = both.split_at(1 << player);
            for (low, (without, with)) in without.iter().zip(with).enumerate() {
                *value += weights[(block.count_ones() + low.count_ones()) as usize] * (with - without);
            }
        }
    }
    value
}

/// A game whose values are listed.
#[derive(Debug, Clone)]
pub struct TableGame<'a> {
    values: &'a [f64],
    players: usize,
}

impl<'a> TableGame<'a> {
    /// The game of 2^n values.
    pub fn new(values: &'a [f64]) -> Result<Self> {
        if !values.len().is_power_of_two() {
            let n = values.len();
            return Err(Error::Parameter(format!(
                "value has {n} numbers, expected 2^n: one for each coalition of n players"
            )));
        }
        Ok(Self { values, players: values.len().trailing_zeros() as usize })
    }
}

impl Game for TableGame<'_> {
    fn players(&self) -> usize {
        self.players
    }

    fn values(&mut self, members: &[u64], out: &mut [f64]) -> Result<()> {
        for (lane, out) in out.iter_mut().enumerate() {
            let index = members.iter().enumerate().map(|(p, word)| ((word >> lane & 1) as usize) << p);
            *out = self.values[index.sum::<usize>()];
        }
        Ok(())
    }

    fn fork(&self) -> Option<Box<dyn Game + '_>> {
        Some(Box::new(self.clone()))
    }
}
