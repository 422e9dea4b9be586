//! Owen and Winter values: unions enter the game as one player and divide their value among members.
//!
//! ```text
//! φ_i = Σ_{H ⊆ M∖j} Σ_{T ⊆ B_j∖i}  h!(m-h-1)!/m! · t!(b-t-1)!/b! · (v(Q_H ∪ T ∪ i) - v(Q_H ∪ T))
//! ```
//!
//! for i in union `B_j` of b players, one of m unions, `Q_H` all players of the unions in H. With unions in unions there
//! is one such sum per level (Winter). It is the mean over all orders that keep every union together. What a union gets
//! is its value in the game that the unions play, so that credit of roles, agents and events are one partition of the
//! outcome, and nothing is paid twice.
//!
//! Exact: for every union with players of its own 2^(siblings of it and of all that it is in, and its parts)
//! evaluations. Sampled: n evaluations an order.
//! References: G. Owen, Values of games with a priori unions, 1977; E. Winter, A value for cooperative games with
//! levels structure of cooperation, 1989. Axioms: efficiency, null player, linearity, symmetry within a union.

use crate::credit::game::orders::walk;
use crate::credit::game::table::{order_weights, tabulate};
use crate::credit::game::{
    EXACT_OR_DRAWN, Game, GameMethod, Needs, Players, Setting, Solution, UNITS, budget, draws,
};
use crate::credit::method::{Axiom, Method, MethodInfo, Quantity, Scope};
use crate::credit::params::Params;
use crate::error::Result;
use crate::graph::NO_UNIT;
use crate::rng::Stream;
use crate::run::Run;
use crate::schema::{Reason, Tier};
use crate::surrogate::Cost;

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[Method::PerGame(&OWEN), Method::PerGame(&WINTER)];

/// Values of players in unions.
pub struct Owen {
    info: &'static MethodInfo,
    /// Whether agents are unions, too.
    nested: bool,
}

/// The method `owen`.
pub static OWEN: Owen = Owen { info: &OWEN_INFO, nested: false };
/// The method `winter`.
pub static WINTER: Owen = Owen { info: &WINTER_INFO, nested: true };

static OWEN_INFO: MethodInfo = MethodInfo {
    name: "owen",
    summary: "Shapley value among roles, then among the players of each role",
    reference: "G. Owen, 1977",
    quantity: Quantity::Share,
    scope: Scope::Trace,
    units: UNITS,
    axioms: &[Axiom::Efficiency, Axiom::NullPlayer],
    params: EXACT_OR_DRAWN,
    tier: Some(Tier::Surrogate),
    needs_graph: true,
};

static WINTER_INFO: MethodInfo = MethodInfo {
    name: "winter",
    summary: "Shapley value among roles, then among a role's agents, then among an agent's parts",
    reference: "E. Winter, 1989",
    quantity: Quantity::Share,
    scope: Scope::Trace,
    units: UNITS,
    axioms: &[Axiom::Efficiency, Axiom::NullPlayer],
    params: EXACT_OR_DRAWN,
    tier: Some(Tier::Surrogate),
    needs_graph: true,
};

impl Owen {
    fn parts(&self, players: &Players<'_>) -> Part {
        let levels: &[&[u32]] = &[players.unions, players.agents];
        let named = |level: &&&[u32]| !level.is_empty();
        let levels: Vec<&[u32]> = levels[..=usize::from(self.nested)].iter().filter(named).copied().collect();
        Part::of_levels(players.len(), &levels)
    }

    /// The estimate from `samples` orders that keep every union together.
    pub fn sampled(
        &self,
        game: &mut dyn Game,
        setting: &Setting<'_>,
        samples: u64,
        out: &mut Solution,
    ) -> Result<()> {
        let (players, parts) = (&setting.players, self.parts(&setting.players));
        let tally =
            draws(game, setting, self.info.name, samples, players.n_rows(), &|game, chunk, tally| {
                let mut parts = parts.clone();
                walk(game, players, chunk, tally, |stream, orders| parts.draw(stream, orders))
            })?;
        out.sampled(players, &tally);
        Ok(())
    }
}

impl GameMethod for Owen {
    fn info(&self) -> &'static MethodInfo {
        self.info
    }

    fn needs(&self) -> Needs {
        Needs { unions: true, ..Needs::default() }
    }

    fn evaluations(&self, players: &Players<'_>) -> Cost {
        self.parts(players).evaluations()
    }

    fn solve(
        &self,
        game: &mut dyn Game,
        setting: &Setting<'_>,
        params: &Params,
        out: &mut Solution,
    ) -> Result<std::result::Result<(), Reason>> {
        let players = &setting.players;
        let parts = self.parts(players);
        if let Some(samples) = budget(parts.evaluations(), players.len(), params) {
            self.sampled(game, setting, samples, out)?;
        } else {
            let mut value = vec![0.0; players.len()];
            exact(game, &parts, setting.run, &mut value)?;
            out.exact(players, &value);
        }
        Ok(Ok(()))
    }
}

/// A player, or players that enter as one.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// One player.
    Player(u32),
    /// Two parts or more.
    Union(Vec<Part>),
}

impl Part {
    /// Unions in unions of `players` players: `levels` name the union of each player, from the largest unions to the
    /// smallest; who has [`NO_UNIT`] is in none of that level.
    #[must_use]
    pub fn of_levels(players: usize, levels: &[&[u32]]) -> Self {
        let everyone: Vec<u32> = (0..players as u32).collect();
        joined(&everyone, levels)
    }

    /// Evaluations of the game that the exact value takes.
    #[must_use]
    pub fn evaluations(&self) -> Cost {
        let parts = match self {
            Part::Player(_) => return Cost::Count(2),
            Part::Union(parts) => parts,
        };
        let (mut unions, mut players) = (Cost::Count(0), false);
        for part in parts {
            match part {
                Part::Player(_) => players = true,
                Part::Union(_) => unions = unions.and(part.evaluations()),
            }
        }
        // a union's table has its siblings beside it, that of the players has all parts
        let of_unions = Cost::coalitions(parts.len().saturating_sub(1)).times(unions);
        if players { of_unions.and(Cost::coalitions(parts.len())) } else { of_unions }
    }

    /// Writes an order that keeps every union together, each of them equally likely, to `order`.
    pub fn draw(&mut self, stream: &mut Stream, order: &mut Vec<u32>) {
        match self {
            Part::Player(player) => order.push(*player),
            Part::Union(parts) => {
                stream.shuffle(parts);
                for part in parts {
                    part.draw(stream, order);
                }
            }
        }
    }

    fn players(&self, out: &mut Vec<u32>) {
        match self {
            Part::Player(player) => out.push(*player),
            Part::Union(parts) => parts.iter().for_each(|part| part.players(out)),
        }
    }
}

fn joined(players: &[u32], levels: &[&[u32]]) -> Part {
    // By the union of the first level that has one for the player; without any, it stands for itself.
    let union_of = |player: u32| {
        let of = |level: &&[u32]| level[player as usize] != NO_UNIT;
        match levels.iter().position(of) {
            Some(level) => (level, levels[level][player as usize]),
            None => (levels.len(), player),
        }
    };
    let mut sorted: Vec<((usize, u32), u32)> = players.iter().map(|&p| (union_of(p), p)).collect();
    sorted.sort_unstable();
    let mut unions: Vec<&[((usize, u32), u32)]> = sorted.chunk_by(|a, b| a.0 == b.0).collect();
    unions.sort_unstable_by_key(|union| union[0].1);
    let part = |union: &&[((usize, u32), u32)]| {
        if let [(_, player)] = union {
            return Part::Player(*player);
        }
        let ((level, _), _) = union[0];
        let players: Vec<u32> = union.iter().map(|(_, player)| *player).collect();
        joined(&players, &levels[level + 1..])
    };
    let mut parts: Vec<Part> = unions.iter().map(part).collect();
    if parts.len() == 1 { parts.remove(0) } else { Part::Union(parts) }
}

/// The exact value of every player, added to `value`.
pub fn exact(game: &mut dyn Game, root: &Part, run: &Run, value: &mut [f64]) -> Result<()> {
    match root {
        Part::Player(player) => {
            let table = tabulate(game, &[[*player]], run)?;
            value[*player as usize] += table[1] - table[0];
            Ok(())
        }
        Part::Union(parts) => within(game, parts, &mut Vec::new(), run, value),
    }
}

/// What stands beside the parts of a union, level by level: siblings of it, of the union that it is in, and so on.
type Beside = Vec<Vec<Vec<u32>>>;

fn within(
    game: &mut dyn Game,
    parts: &[Part],
    beside: &mut Beside,
    run: &Run,
    value: &mut [f64],
) -> Result<()> {
    let items: Vec<Vec<u32>> = parts.iter().map(everyone).collect();
    if parts.iter().any(|part| matches!(part, Part::Player(_))) {
        let outer: Vec<Vec<u32>> = beside.iter().flatten().cloned().collect();
        let all: Vec<Vec<u32>> = items.iter().chain(&outer).cloned().collect();
        let table = tabulate(game, &all, run)?;
        let weights = order_weights(parts.len());
        let of_outer = outer_weights(beside);
        for (s, share) in of_outer.iter().enumerate() {
            let inner = &table[s << parts.len()..(s + 1) << parts.len()];
            for (t, before) in inner.iter().enumerate() {
                for (c, part) in parts.iter().enumerate() {
                    if let (Part::Player(player), 0) = (part, t >> c & 1) {
                        let gain = inner[t | 1 << c] - before;
                        value[*player as usize] += share * weights[t.count_ones() as usize] * gain;
                    }
                }
            }
        }
    }
    for (c, part) in parts.iter().enumerate() {
        if let Part::Union(inner) = part {
            let mut siblings = items.clone();
            siblings.remove(c);
            beside.push(siblings);
            within(game, inner, beside, run, value)?;
            beside.pop();
        }
    }
    Ok(())
}

fn everyone(part: &Part) -> Vec<u32> {
    let mut players = Vec::new();
    part.players(&mut players);
    players
}

/// The weight of every set of outer parts: a factor h!(m-h-1)!/m! per level, m - 1 siblings.
fn outer_weights(beside: &Beside) -> Vec<f64> {
    let mut all = vec![1.0];
    for siblings in beside {
        let weights = order_weights(siblings.len() + 1);
        let sets = 0..1_usize << siblings.len();
        // the level at hand takes the higher bits
        all = sets
            .flat_map(|s| all.iter().map(move |w| (s, *w)))
            .map(|(s, w)| w * weights[s.count_ones() as usize])
            .collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::game::table::{TableGame, shapley_of_table};
    use std::collections::BTreeMap;

    const ALONE: u32 = NO_UNIT;

    fn value(table: &[f64], levels: &[&[u32]]) -> Vec<f64> {
        let mut game = TableGame::new(table).unwrap();
        let mut value = vec![0.0; game.players()];
        let parts = Part::of_levels(value.len(), levels);
        exact(&mut game, &parts, &Run::new(Some(1)).unwrap(), &mut value).unwrap();
        value
    }

    fn close(computed: &[f64], wanted: &[f64]) {
        assert!(computed.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-12), "{computed:?} {wanted:?}");
    }

    fn random(n: usize) -> Vec<f64> {
        let mut stream = Stream::new(2, "owen", &[]);
        (0..1 << n).map(|_| stream.unit_f64()).collect()
    }

    #[test]
    fn the_owner_of_the_only_left_glove_bargains_with_a_union() {
        // {0} has the left glove, 1 and 2 a right one each
        let glove: Vec<f64> = (0..8).map(|set| f64::from(set & 1 == 1 && set > 1)).collect();
        close(&value(&glove, &[&[0, 1, 1]]), &[0.5, 0.25, 0.25]);
        close(&value(&glove, &[&[ALONE, 7, 7]]), &[0.5, 0.25, 0.25]);
        close(&value(&glove, &[&[0, 1, 2]]), &[2.0 / 3.0, 1.0 / 6.0, 1.0 / 6.0]);
        close(&value(&[3.0, 5.0], &[&[0]]), &[2.0]);
        assert!(value(&[3.0], &[&[]]).is_empty());
    }

    #[test]
    fn evaluations_are_counted_for_any_number_of_players() {
        let alone = |players: usize| Part::of_levels(players, &[]).evaluations();
        assert_eq!((alone(0), alone(1), alone(2)), (Cost::Count(0), Cost::Count(2), Cost::Count(4)));
        assert_eq!((alone(20), alone(21)), (Cost::MOST_EVALUATIONS, Cost::Count(1 << 21)));
        // from 1,025 players on a float was infinite, and infinity times no unions no number
        for players in [64, 1_024, 1_025, 1_026, 1_064, 1_087, 1_000_000] {
            assert_eq!(alone(players), Cost::Countless, "{players}");
        }
        // pairs: 2^(n/2 - 1) sets of other pairs, 4 of the two
        let pairs = |players: u32| {
            let of: Vec<u32> = (0..players).map(|p| p / 2).collect();
            Part::of_levels(of.len(), &[&of]).evaluations()
        };
        assert_eq!(pairs(10), Cost::Count(5 * 16 * 4));
        assert_eq!(pairs(1_026), Cost::Countless);
        assert_eq!(pairs(1_000_000), Cost::Countless);
    }

    #[test]
    fn unions_of_one_or_of_all_change_nothing() {
        let table = random(5);
        let shapley = shapley_of_table(&table);
        for levels in [&[][..], &[&[ALONE; 5][..]], &[&[0; 5]], &[&[4, 3, 2, 1, 0]], &[&[1; 5], &[ALONE; 5]]]
        {
            close(&value(&table, levels), &shapley);
        }
    }

    #[test]
    fn orders_keep_unions_together_and_are_the_value() {
        // ((0 2) 4) and 5 of one role, 1 alone, 3 alone with an agent of no role
        let levels: [&[u32]; 2] = [&[0, ALONE, 0, ALONE, 0, 0], &[0, ALONE, 0, 3, ALONE, 5]];
        let mut parts = Part::of_levels(6, &levels);
        let player = Part::Player;
        let pair = Part::Union(vec![player(0), player(2)]);
        let role = Part::Union(vec![pair, player(4), player(5)]);
        assert_eq!(parts, Part::Union(vec![role, player(1), player(3)]));
        // 3! orders of the parts, 3! within the role, 2 within the agent; each equally likely
        let mut stream = Stream::new(3, "nested", &[]);
        let mut seen = BTreeMap::new();
        for _ in 0..72_000 {
            let mut order = Vec::new();
            parts.draw(&mut stream, &mut order);
            *seen.entry(order).or_insert(0_u32) += 1;
        }
        assert_eq!(seen.len(), 72);
        let chi: f64 = seen.values().map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 112.3, "71 degrees of freedom: {chi}");
        let table = random(6);
        let mut mean = [0.0; 6];
        for order in seen.keys() {
            let mut before = 0;
            for &p in order {
                mean[p as usize] += (table[before | 1 << p] - table[before]) / 72.0;
                before |= 1 << p;
            }
        }
        close(&value(&table, &levels), &mean);
        // the role: 2^(2 + 3), its agent: 2^2 * 2^2 * 2^2; the parts: 2^3
        assert_eq!(parts.evaluations(), Cost::Count(8 + 4 * (8 + 4 * 4)));
    }
}
