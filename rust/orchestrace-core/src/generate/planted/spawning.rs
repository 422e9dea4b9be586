//! A planted spawn decision with known effect, probability and confounders.
//!
//! The first event of a run is then the root's decision, in one of four states that a task has with equal
//! probability. In state `x` the root spawns with probability `e(x) = o + (1 − 2o) x/3`, rounded to thousandths,
//! `o` the overlap; else nobody is ever spawned and the root works alone. The event is worth
//!
//! ```text
//! c (2x/3 − 1) + d τ (1/2 + x/3)        d = 1 if it spawned, τ the effect, c the confounding
//! ```
//!
//! so that states which are better anyway spawn more, and gain more by it: the plain difference of means is
//! not the effect. Whatever else the run does has the mean 0 given this (`outcome` linear). With `o = 0` the
//! lowest state never spawns and the highest one always does.

use super::law::MOST_ACTIONS;
use crate::error::{Error, Result};
use crate::rng::Stream;

const STATES: u64 = 4;

/// The spawn effect to plant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spawning {
    /// Mean effect of spawning over the states.
    pub effect: f64,
    /// Least probability of either choice, at most one half.
    pub overlap: f64,
    /// How much better than the mean the best state is, whatever is chosen.
    pub confounding: f64,
}

impl Spawning {
    /// Refuses what cannot be planted.
    pub(super) fn check(&self) -> Result<()> {
        for (name, value, most) in [
            ("the size of spawn_effect", self.effect.abs(), 1000.0),
            ("spawn_overlap", self.overlap, 0.5),
            ("spawn_confounding", self.confounding, 1000.0),
        ] {
            if !(0.0..=most).contains(&value) {
                return Err(Error::Parameter(format!("{name} is {value}, expected 0 to {most}")));
            }
        }
        Ok(())
    }

    /// The situation of a task.
    pub(super) fn of(self, seed: u64, task: u64) -> SpawnState {
        let state = Stream::numbered(seed, "planted.spawn", task).below(STATES) as u8;
        let place = f64::from(state) / (STATES - 1) as f64;
        let thousandths = 1000.0 * (self.overlap + (1.0 - 2.0 * self.overlap) * place);
        SpawnState {
            state,
            share: thousandths.round() as u16,
            base: self.confounding * (2.0 * place - 1.0),
            effect: self.effect * (0.5 + place),
        }
    }
}

/// The decision in the state of one task.
#[derive(Debug, Clone, Copy)]
pub(in crate::generate) struct SpawnState {
    pub(super) state: u8,
    /// Thousandths of probability that it spawns.
    pub(super) share: u16,
    pub(super) base: f64,
    pub(super) effect: f64,
}

impl SpawnState {
    pub(super) fn draw(self, rng: &mut Stream) -> bool {
        rng.below(1000) < u64::from(self.share)
    }

    /// What the decision is worth.
    pub(super) fn worth(self, spawned: bool) -> f64 {
        self.base + if spawned { self.effect } else { 0.0 }
    }

    /// What it is worth on average, before it is taken.
    pub(super) fn expected(self) -> f64 {
        self.base + self.effect * f64::from(self.share) / 1000.0
    }

    /// Thousandths of both actions, not to spawn and to spawn.
    pub(super) fn shares(self) -> [u16; MOST_ACTIONS] {
        let mut shares = [0; MOST_ACTIONS];
        (shares[0], shares[1]) = (1000 - self.share, self.share);
        shares
    }
}
