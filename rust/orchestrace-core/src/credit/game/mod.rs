//! Values of games: what each player of a trace adds to the value of its outcome, over all coalitions.
//!
//! ```text
//! v(S) = value of the outcome when of all players those of S act;  ∆v = v(N) - v(∅)
//! ```
//!
//! A [`Game`] answers what coalitions are worth: a trace's structural surrogate ([`circuit`]), or anything else. A
//! [`GameMethod`] divides v(N) among the players, and knows nothing of traces: it gets a [`Setting`] and fills a
//! [`Solution`]. Who plays is [`players`]' business, threads and rows are that of [`solve`].
//!
//! Players follow the unit of the report (docs/reference/definitions.md, D16): agents for `agent`, `role` and `team`,
//! whose rows are sums over agents; else the units themselves. What belongs to no player is always there. Samplers take
//! their draws from [`draws`]: fixed chunks with a random stream each, so that threads do not show.
//!
//! Methods that divide it are in [`methods`](super::methods), a file each.

pub mod circuit;
pub mod coalitions;
pub mod custom;
pub mod draws;
pub mod kernel_shap;
pub mod orders;
pub mod players;
pub mod single;
pub mod solve;
pub mod stratified;
pub mod table;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod truncated;

pub use circuit::{Circuit, CircuitGame, Compiler, Evaluation, Memory};
pub use coalitions::{all_coalitions, in_cheap_order};
pub use custom::{CustomOutcomes, Outcomes};
pub use draws::{Chunk, DRAWS, Room, draws};
pub use players::Cast;
pub use tally::Tally;

use std::borrow::Cow;

use super::method::MethodInfo;
use super::params::{PROGRAM_ORDER, Param, ParamKind, Params, Value};
use crate::error::Result;
use crate::graph::weights::N_TYPES;
use crate::run::Run;
use crate::schema::{Reason, Unit};
use crate::surrogate::structure::MAX_WEIGHT;
use crate::surrogate::{Cost, Model, Structure, Weights};

/// Coalitions that one call of [`Game::values`] takes at most: one for each bit of a word.
pub const COALITIONS: usize = 64;

/// What coalitions of players are worth.
pub trait Game: Send {
    /// Number of players.
    fn players(&self) -> usize;

    /// Whether a player is known to change no value, whoever else is there.
    fn is_null(&self, player: usize) -> bool {
        let _ = player;
        false
    }

    /// What evaluating the game again may take when this player alone joins or leaves, in any unit; 0 where all take
    /// the same.
    fn reach(&self, player: usize) -> usize {
        let _ = player;
        0
    }

    /// Values of as many coalitions as `out` has places, at most [`COALITIONS`]: player p is in the k-th one if
    /// `members[p]` has bit k. What the other bits say does not matter. Fails where a caller's own function does.
    fn values(&mut self, members: &[u64], out: &mut [f64]) -> Result<()>;

    /// Gains along orders of all players. `orders` has one after the other; `out[j * n + k]` is what the k-th player
    /// of the j-th order adds to those before it, so that the gains of an order sum to v(N) - v(∅).
    fn walks(&mut self, orders: &[u32], out: &mut [f64]) -> Result<()> {
        let n = self.players().max(1);
        let mut place = vec![0_usize; n];
        let mut members = vec![0_u64; n];
        let mut values = [0.0; COALITIONS];
        for (order, out) in orders.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
            order.iter().enumerate().for_each(|(k, &player)| place[player as usize] = k);
            let mut before = 0.0;
            // the coalition of number k has the first k players of the order
            for from in (0..=n).step_by(COALITIONS) {
                for (members, &place) in members.iter_mut().zip(&place) {
                    let joins = (place + 1).saturating_sub(from);
                    *members = if joins < COALITIONS { u64::MAX << joins } else { 0 };
                }
                let some = &mut values[..COALITIONS.min(n + 1 - from)];
                self.values(&members, some)?;
                for (k, &value) in (from..).zip(some.iter()) {
                    if k > 0 {
                        out[k - 1] = value - before;
                    }
                    before = value;
                }
            }
        }
        Ok(())
    }

    /// Another evaluator of the same game, for another worker; none if the game cannot be played in parallel.
    fn fork(&self) -> Option<Box<dyn Game + '_>> {
        None
    }
}

/// Who plays, and what is known of them beside the value of the outcome.
#[derive(Debug, Clone, Copy, Default)]
pub struct Players<'a> {
    /// Row of each player in the solution. Row [`Self::n_units`] is the one without a unit.
    pub row_of: &'a [u32],
    /// Units that are reported. A solution has one row more.
    pub n_units: usize,
    /// Role of each player, numbered densely, or [`NO_UNIT`](crate::graph::NO_UNIT); empty where nobody asked.
    pub unions: &'a [u32],
    /// Agent of each player, numbered densely, or [`NO_UNIT`](crate::graph::NO_UNIT); empty where nobody asked.
    pub agents: &'a [u32],
    /// Pairs of players that are linked (D16), each once, the lower one first; empty where nobody asked.
    pub links: &'a [(u32, u32)],
    /// Who spawned each player (D16), or [`NO_UNIT`](crate::graph::NO_UNIT) for the roots of the forest; empty where
    /// nobody asked.
    pub parents: &'a [u32],
}

impl Players<'_> {
    /// Number of players.
    #[must_use]
    pub fn len(&self) -> usize {
        self.row_of.len()
    }

    /// Whether nobody plays.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.row_of.is_empty()
    }

    /// Rows of a solution.
    #[must_use]
    pub fn n_rows(&self) -> usize {
        self.n_units + 1
    }
}

/// What a method needs to know of the players.
#[derive(Debug, Clone, Copy, Default)]
pub struct Needs {
    /// [`Players::unions`] and [`Players::agents`].
    pub unions: bool,
    /// [`Players::links`].
    pub links: bool,
    /// [`Players::parents`].
    pub parents: bool,
}

/// A game to be solved, beside the game itself.
#[derive(Debug, Clone, Copy)]
pub struct Setting<'a> {
    /// Who plays.
    pub players: Players<'a>,
    /// v(∅).
    pub empty: f64,
    /// v(N).
    pub full: f64,
    /// The user's seed.
    pub seed: u64,
    /// What keys the random streams beside the seed and the name of the method: the `trace_id`.
    pub id: &'a [u8],
    /// Threads and the cancel flag.
    pub run: &'a Run,
}

/// What a method found, per row of the players; a buffer reused from trace to trace.
#[derive(Debug, Clone, Default)]
pub struct Solution {
    /// Value of each row: the sum over its players.
    pub value: Vec<f64>,
    /// Standard error of each value; NaN where there is none, as of exact values.
    pub stderr: Vec<f64>,
    /// Independent draws that the errors rest on; none where values are exact.
    pub n_samples: Option<u64>,
}

impl Solution {
    /// Forgets everything and gives `rows` rows the value 0, without an error.
    pub fn clear(&mut self, rows: usize) {
        self.value.clear();
        self.value.resize(rows, 0.0);
        self.stderr.clear();
        self.stderr.resize(rows, f64::NAN);
        self.n_samples = None;
    }

    /// Exact values, one per player.
    pub fn exact(&mut self, players: &Players<'_>, values: &[f64]) {
        for (&row, value) in players.row_of.iter().zip(values) {
            self.value[row as usize] += value;
        }
    }

    /// Means of draws, one number per row. Rows that no player has stay without an error.
    pub fn sampled(&mut self, players: &Players<'_>, tally: &Tally) {
        for &row in players.row_of {
            let row = row as usize;
            self.value[row] = tally.mean(row);
            self.stderr[row] = tally.stderr(row);
        }
        self.n_samples = Some(tally.count());
    }
}

/// One way of dividing v(N) among the players of a game.
pub trait GameMethod: Sync {
    /// Name, parameters, claims.
    fn info(&self) -> &'static MethodInfo;

    /// What it needs to know of the players.
    fn needs(&self) -> Needs {
        Needs::default()
    }

    /// Whether the parameters go together; asked before any work.
    fn check(&self, params: &Params) -> Result<()> {
        let _ = params;
        Ok(())
    }

    /// How often a solution without samples evaluates the game. A call is refused before any work where this is beyond
    /// [`Cost::MOST_EVALUATIONS`] though the method could draw samples, or where the evaluations visit more than
    /// [`Cost::MOST_VISITS`].
    fn evaluations(&self, players: &Players<'_>) -> Cost {
        Cost::coalitions(players.len())
    }

    /// Fills `out`, which comes in as [`Solution::clear`] leaves it, or says why this game has no solution.
    fn solve(
        &self,
        game: &mut dyn Game,
        setting: &Setting<'_>,
        params: &Params,
        out: &mut Solution,
    ) -> Result<std::result::Result<(), Reason>>;
}

/// How many samples to draw; none where all coalitions are evaluated: `samples` is null, or they would cost no less.
#[must_use]
pub fn budget(evaluations: Cost, per_sample: usize, params: &Params) -> Option<u64> {
    let samples = params.int("samples")?.unsigned_abs();
    let sampled = Cost::Count(samples).times(Cost::of(per_sample));
    (!evaluations.is_exact() || evaluations > sampled).then_some(samples)
}

/// How many samples to draw.
pub const SAMPLES: Param = Param {
    name: "samples",
    kind: ParamKind::Int(2, 1 << 40),
    default: Value::Null,
    doc: "orders (permutation) or coalitions to draw; null: exact, up to 20 players",
};

/// Levels at which games are reported: all but `token`.
pub const UNITS: &[Unit] = &[
    Unit::Team,
    Unit::Role,
    Unit::Agent,
    Unit::Turn,
    Unit::Event,
    Unit::Orchestrator,
    Unit::Message,
    Unit::Tool,
];

/// Levels whose players are agents, of methods that go by links and spawns between them.
pub const TEAMS: &[Unit] = &[Unit::Team, Unit::Role, Unit::Agent];

/// What the outcome is worth when only some of the events are there.
pub const OUTCOME: Param = Param {
    name: "outcome",
    kind: ParamKind::Choice(Model::NAMES),
    default: Value::Text(Cow::Borrowed("noisy_or")),
    doc: "model of an event's value from its inputs, and so of the outcome without some of them",
};

/// Weights of the edge types.
pub const WEIGHTS: Param = Param {
    name: "weights",
    kind: ParamKind::Floats(N_TYPES, 0.0, MAX_WEIGHT),
    default: Value::Null,
    doc: "weights, used unchanged: temporal, causal, spawn, message, tool_dependency, return, aggregate, safety_flow; \
          null: default weights as shares of the weight into an event",
};

/// What a majority needs.
pub const QUORUM: Param = Param {
    name: "quorum",
    kind: ParamKind::Float(0.0, 1.0),
    default: Value::Float(0.5),
    doc: "a majority needs more than this share of the weight; below 1",
};

/// Who plays.
pub const PLAYERS: Param = Param {
    name: "players",
    kind: ParamKind::Choice(&["all", "no_root"]),
    default: Value::Text(Cow::Borrowed("all")),
    doc: "no_root: the root agent and its events are always present and earn nothing",
};

/// In which unit values are.
pub const SCALED: Param = Param {
    name: "scaled",
    kind: ParamKind::Bool,
    default: Value::Bool(false),
    doc: "true: divide the reward in proportion, R value / (v(N) - v(nobody)); false: unscaled values of the outcome",
};

/// Parameters of the methods that are exact, or draw orders.
pub const EXACT_OR_DRAWN: &[Param] = &[SAMPLES, OUTCOME, WEIGHTS, QUORUM, PLAYERS, PROGRAM_ORDER, SCALED];

/// The structure of the surrogate from the parameters.
pub fn structure(params: &Params) -> Result<Structure> {
    let mut structure = Structure::of(Model::parse(params.text("outcome").unwrap_or("noisy_or"))?);
    if let Some(table) = params.floats("weights").and_then(|weights| weights.try_into().ok()) {
        structure.weights = Weights::Given(table);
    }
    structure.quorum = params.float("quorum").unwrap_or(structure.quorum);
    structure.check()?;
    Ok(structure)
}
