//! Values under a spawn forest: an agent acts only if its spawner does.
//!
//! ```text
//! precedence_shapley   mean gain over the linear extensions of the forest: orders in which every spawner comes first
//!                      φ_i = Σ_D w(|D|) |sub(i)| Π_{x ∈ D} |sub(x)| / |sub(x) ∩ D|  (v(D ∪ i) - v(D))
//!                      over sets D closed under spawners, w(s) = s! (n-s-1)! / n!, sub(x) the subtree of x
//! permission           Shapley value of v(α(S)), α(S) = members of S whose whole chain of spawners is in S
//! ```
//!
//! The first credits a spawner only with what it adds alone, the second lets it share what its descendants add. Without
//! spawns both are the Shapley value. The product counts linear extensions of a forest (n! / Π |sub(x)|), of D and of
//! what is left. A random one: draw anybody who is left, and take the first of its chain of spawners who is.
//!
//! Exact: an evaluation per closed set, or per coalition for `permission`; sampled: n evaluations an order.
//! References: U. Faigle, W. Kern, The Shapley value for cooperative games under precedence constraints, 1992; R. Gilles,
//! G. Owen, R. van den Brink, Games with permission structures: the conjunctive approach, 1992; D. Knuth, The Art of
//! Computer Programming 3, 5.1.4, exercise 20. Axioms: efficiency, linearity.

use std::ops::DerefMut;

use crate::credit::game::orders::{sampled, walk};
use crate::credit::game::table::{order_weights, shapley_of_table, tabulate_players};
use crate::credit::game::{
    EXACT_OR_DRAWN, Game, GameMethod, Needs, Players, Setting, Solution, TEAMS, budget, draws,
};
use crate::credit::method::{Axiom, Method, MethodInfo, Quantity, Scope};
use crate::credit::params::Params;
use crate::error::{Error, Result};
use crate::graph::NO_UNIT;
use crate::rng::Stream;
use crate::run::Run;
use crate::schema::{Reason, Tier};
use crate::surrogate::Cost;

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[Method::PerGame(&PrecedenceShapley), Method::PerGame(&Permission)];

/// The method `precedence_shapley`.
pub struct PrecedenceShapley;

/// The method `permission`.
pub struct Permission;

static PRECEDENCE_INFO: MethodInfo = MethodInfo {
    name: "precedence_shapley",
    summary: "mean gain over the orders in which every spawner comes before those it spawned",
    reference: "U. Faigle, W. Kern, 1992",
    quantity: Quantity::Share,
    scope: Scope::Trace,
    units: TEAMS,
    axioms: &[Axiom::Efficiency, Axiom::NullPlayer],
    params: EXACT_OR_DRAWN,
    tier: Some(Tier::Surrogate),
    needs_graph: true,
};

static PERMISSION_INFO: MethodInfo = MethodInfo {
    name: "permission",
    summary: "Shapley value if an agent acts only with the whole chain of its spawners",
    reference: "R. Gilles, G. Owen, R. van den Brink, 1992",
    quantity: Quantity::Share,
    scope: Scope::Trace,
    units: TEAMS,
    axioms: &[Axiom::Efficiency],
    params: EXACT_OR_DRAWN,
    tier: Some(Tier::Surrogate),
    needs_graph: true,
};

/// The forest of the players.
fn forest_of(players: &Players<'_>) -> Result<Forest> {
    let loops = || Error::Parameter("parents form a cycle".into());
    Forest::new(players.len(), players.parents).ok_or_else(loops)
}

impl PrecedenceShapley {
    /// The estimate from `samples` linear extensions.
    pub fn sampled(
        &self,
        game: &mut dyn Game,
        setting: &Setting<'_>,
        samples: u64,
        out: &mut Solution,
    ) -> Result<()> {
        let (players, forest) = (&setting.players, forest_of(&setting.players)?);
        let (rows, name) = (players.n_rows(), PRECEDENCE_INFO.name);
        let tally = draws(game, setting, name, samples, rows, &|game, chunk, tally| {
            let mut left = std::mem::take(&mut chunk.room.marks);
            let walked =
                walk(game, players, chunk, tally, |stream, orders| forest.draw(stream, &mut left, orders));
            chunk.room.marks = left;
            walked
        })?;
        out.sampled(players, &tally);
        Ok(())
    }
}

impl GameMethod for PrecedenceShapley {
    fn info(&self) -> &'static MethodInfo {
        &PRECEDENCE_INFO
    }

    fn needs(&self) -> Needs {
        Needs { parents: true, ..Needs::default() }
    }

    fn evaluations(&self, players: &Players<'_>) -> Cost {
        forest_of(players).map_or(Cost::Countless, |forest| forest.closed_sets())
    }

    fn solve(
        &self,
        game: &mut dyn Game,
        setting: &Setting<'_>,
        params: &Params,
        out: &mut Solution,
    ) -> Result<std::result::Result<(), Reason>> {
        let players = &setting.players;
        let forest = forest_of(players)?;
        match budget(forest.closed_sets(), players.len(), params) {
            Some(samples) => self.sampled(game, setting, samples, out)?,
            None => out.exact(players, &precedence(game, &forest, setting.run)?),
        }
        Ok(Ok(()))
    }
}

impl Permission {
    /// The estimate from `samples` orders.
    pub fn sampled(
        &self,
        game: &mut dyn Game,
        setting: &Setting<'_>,
        samples: u64,
        out: &mut Solution,
    ) -> Result<()> {
        let forest = forest_of(&setting.players)?;
        sampled(&mut Permitted::new(game, &forest), setting, PERMISSION_INFO.name, samples, out)
    }
}

impl GameMethod for Permission {
    fn info(&self) -> &'static MethodInfo {
        &PERMISSION_INFO
    }

    fn needs(&self) -> Needs {
        Needs { parents: true, ..Needs::default() }
    }

    fn solve(
        &self,
        game: &mut dyn Game,
        setting: &Setting<'_>,
        params: &Params,
        out: &mut Solution,
    ) -> Result<std::result::Result<(), Reason>> {
        let players = &setting.players;
        if let Some(samples) = budget(self.evaluations(players), players.len(), params) {
            self.sampled(game, setting, samples, out)?;
        } else {
            let forest = forest_of(players)?;
            let table = tabulate_players(&mut Permitted::new(game, &forest), setting.run)?;
            out.exact(players, &shapley_of_table(&table));
        }
        Ok(Ok(()))
    }
}

/// Players up to which a set of them is a word.
const WORD: usize = 64;

/// Who spawned whom.
#[derive(Debug, Clone, PartialEq)]
pub struct Forest {
    parents: Vec<u32>,
    /// Everybody, spawners first.
    order: Vec<u32>,
    /// Players of each subtree.
    size: Vec<u32>,
    /// Whom each spawned.
    children: Vec<Vec<u32>>,
}

impl Forest {
    /// The forest of `players` players; `parents` has the spawner of each, or [`NO_UNIT`]; empty: nobody spawned anybody.
    /// None where a chain of spawners comes back to where it began.
    #[must_use]
    pub fn new(players: usize, parents: &[u32]) -> Option<Self> {
        let mut parents = parents.to_vec();
        parents.resize(players, NO_UNIT);
        let mut order: Vec<u32> = Vec::with_capacity(players);
        let mut placed = vec![false; players];
        let mut chain = Vec::new();
        for player in 0..players as u32 {
            let mut at = player;
            while at != NO_UNIT && !placed[at as usize] {
                if chain.len() == players {
                    return None;
                }
                chain.push(at);
                at = parents[at as usize];
            }
            while let Some(next) = chain.pop() {
                placed[next as usize] = true;
                order.push(next);
            }
        }
        let (mut size, mut children) = (vec![1_u32; players], vec![Vec::new(); players]);
        for &player in order.iter().rev() {
            let parent = parents[player as usize];
            if parent != NO_UNIT {
                size[parent as usize] += size[player as usize];
                children[parent as usize].push(player);
            }
        }
        Some(Self { parents, order, size, children })
    }

    fn parent(&self, player: u32) -> Option<u32> {
        Some(self.parents[player as usize]).filter(|&parent| parent != NO_UNIT)
    }

    /// Sets that have the spawner of everybody who is in; nobody counts those of more than 64 players.
    #[must_use]
    pub fn closed_sets(&self) -> Cost {
        if self.parents.len() > WORD {
            return Cost::Countless;
        }
        // of a subtree: none of it, or its root and any of the closed sets of each child
        let mut below = vec![Cost::Count(1); self.parents.len()];
        let mut all = Cost::Count(1);
        for &player in self.order.iter().rev() {
            let of_player = Cost::Count(1).and(below[player as usize]);
            let of = self.parent(player).map_or(&mut all, |parent| &mut below[parent as usize]);
            *of = of.times(of_player);
        }
        all
    }

    /// Appends a linear extension to `order`, each equally likely. `left` is a buffer. O(n depth).
    pub fn draw(&self, stream: &mut Stream, left: &mut Vec<u32>, order: &mut Vec<u32>) {
        let n = self.parents.len() as u32;
        // Those who are left come first, and behind them where each player stands.
        left.clear();
        left.extend((0..n).chain(0..n));
        let (left, place) = left.split_at_mut(n as usize);
        for rest in (1..=n).rev() {
            let mut next = left[stream.below(u64::from(rest)) as usize];
            while let Some(parent) = self.parent(next).filter(|&parent| place[parent as usize] < rest) {
                next = parent;
            }
            let (here, last) = (place[next as usize], left[rest as usize - 1]);
            left[here as usize] = last;
            place[last as usize] = here;
            left[rest as usize - 1] = next;
            place[next as usize] = rest - 1;
            order.push(next);
        }
    }
}

/// The exact precedence Shapley value of every player, at most 64.
pub fn precedence(game: &mut dyn Game, forest: &Forest, run: &Run) -> Result<Vec<f64>> {
    let n = forest.parents.len();
    let mut sets = vec![0_u64];
    for &player in &forest.order {
        let parent = forest.parent(player).map_or(0, |parent| 1_u64 << parent);
        let open = sets.iter().filter(|&&set| set & parent == parent).map(|&set| set | 1 << player);
        let more: Vec<u64> = open.collect();
        sets.extend(more);
    }
    sets.sort_unstable();
    let worth = of_sets(game, &sets, run)?;
    let weights = order_weights(n);
    let mut value = vec![0.0; n];
    let mut inside = vec![0_u32; n];
    for (number, (&set, before)) in sets.iter().zip(&worth).enumerate() {
        if number.is_multiple_of(4096) {
            run.check()?;
        }
        let is_in = |player: u32| set >> player & 1 == 1;
        inside.fill(0);
        let mut share = 1.0;
        for &player in forest.order.iter().rev().filter(|&&player| is_in(player)) {
            inside[player as usize] += 1;
            share *= f64::from(forest.size[player as usize]) / f64::from(inside[player as usize]);
            if let Some(parent) = forest.parent(player) {
                inside[parent as usize] += inside[player as usize];
            }
        }
        for player in (0..n as u32).filter(|&player| !is_in(player)) {
            if let Ok(after) = sets.binary_search(&(set | 1 << player)) {
                let weight =
                    weights[set.count_ones() as usize] * share * f64::from(forest.size[player as usize]);
                value[player as usize] += weight * (worth[after] - before);
            }
        }
    }
    Ok(value)
}

/// Values of sets of players, as words.
fn of_sets(game: &mut dyn Game, sets: &[u64], run: &Run) -> Result<Vec<f64>> {
    let mut worth = vec![0.0; sets.len()];
    let mut members = vec![0_u64; game.players()];
    for (sets, out) in sets.chunks(64).zip(worth.chunks_mut(64)) {
        run.check()?;
        for (player, members) in members.iter_mut().enumerate() {
            *members =
                sets.iter().enumerate().fold(0, |word, (lane, set)| word | (set >> player & 1) << lane);
        }
        game.values(&members, out)?;
    }
    Ok(worth)
}

/// The game in which a player acts only if its whole chain of spawners is present.
#[derive(Debug)]
pub struct Permitted<'a, G> {
    /// A reference to the game, or a box of it.
    game: G,
    forest: &'a Forest,
    members: Vec<u64>,
    gains: Vec<f64>,
    /// Those whose chain is whole now.
    waiting: Vec<u32>,
}

impl<'a, G: DerefMut<Target: Game>> Permitted<'a, G> {
    /// `game` restricted by `forest`.
    pub fn new(game: G, forest: &'a Forest) -> Self {
        Self { game, forest, members: Vec::new(), gains: Vec::new(), waiting: Vec::new() }
    }
}

impl<G: DerefMut<Target: Game> + Send> Game for Permitted<'_, G> {
    fn players(&self) -> usize {
        self.game.players()
    }

    fn values(&mut self, members: &[u64], out: &mut [f64]) -> Result<()> {
        self.members.clear();
        self.members.extend_from_slice(members);
        for &player in &self.forest.order {
            if let Some(parent) = self.forest.parent(player) {
                self.members[player as usize] &= self.members[parent as usize];
            }
        }
        self.game.values(&self.members, out)
    }

    /// Whoever completes chains brings all of theirs into the game, spawners first: an order of the inner game.
    fn walks(&mut self, orders: &[u32], out: &mut [f64]) -> Result<()> {
        let n = self.players();
        let (mut inner, mut brought_by) =
            (Vec::with_capacity(orders.len()), Vec::with_capacity(orders.len()));
        let (mut here, mut acts) = (vec![false; n], vec![false; n]);
        for (j, order) in orders.chunks_exact(n.max(1)).enumerate() {
            here.fill(false);
            acts.fill(false);
            for (k, &joins) in order.iter().enumerate() {
                here[joins as usize] = true;
                let from = inner.len();
                if self.forest.parent(joins).is_none_or(|parent| acts[parent as usize]) {
                    self.waiting.push(joins);
                }
                while let Some(player) = self.waiting.pop() {
                    acts[player as usize] = true;
                    inner.push(player);
                    let children = &self.forest.children[player as usize];
                    self.waiting.extend(children.iter().filter(|&&child| here[child as usize]));
                }
                brought_by.resize(brought_by.len() + inner.len() - from, j * n + k);
            }
        }
        self.gains.clear();
        self.gains.resize(inner.len(), 0.0);
        self.game.walks(&inner, &mut self.gains)?;
        out.fill(0.0);
        for (&at, gain) in brought_by.iter().zip(&self.gains) {
            out[at] += gain;
        }
        Ok(())
    }

    fn fork(&self) -> Option<Box<dyn Game + '_>> {
        let game = self.game.fork()?;
        Some(Box::new(Permitted::new(game, self.forest)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::game::table::TableGame;

    const ROOT: u32 = NO_UNIT;

    /// Noisy-or with the chances .5, .4, .2.
    fn noisy_or() -> Vec<f64> {
        let chances = [0.5, 0.4, 0.2];
        let fails =
            |set: usize| (0..3).filter(|p| set >> p & 1 == 1).map(|p| 1.0 - chances[p]).product::<f64>();
        (0..8).map(|set| 1.0 - fails(set)).collect()
    }

    fn close(computed: &[f64], wanted: &[f64]) {
        assert!(computed.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-12), "{computed:?} {wanted:?}");
    }

    #[test]
    fn a_spawner_is_paid_alone_or_shares_upward() {
        let (run, table) = (Run::new(Some(1)).unwrap(), noisy_or());
        let forest = Forest::new(3, &[ROOT, 0, 0]).unwrap();
        assert_eq!((forest.closed_sets(), forest.size.as_slice()), (Cost::Count(5), &[3, 1, 1][..]));
        let mut game = TableGame::new(&table).unwrap();
        close(&precedence(&mut game, &forest, &run).unwrap(), &[0.5, 0.18, 0.08]);
        let all = tabulate_players(&mut Permitted::new(&mut game, &forest), &run).unwrap();
        close(&shapley_of_table(&all), &[0.5 + 0.41 / 3.0, 0.26 / 3.0, 0.11 / 3.0]);
        // without spawns both are the Shapley value
        let none = Forest::new(3, &[]).unwrap();
        assert_eq!(none.closed_sets(), Cost::Count(8));
        close(&precedence(&mut game, &none, &run).unwrap(), &shapley_of_table(&table));
        assert_eq!(tabulate_players(&mut Permitted::new(&mut game, &none), &run).unwrap(), table);
    }

    #[test]
    fn linear_extensions_are_uniform() {
        let forest = Forest::new(5, &[ROOT, 0, 0, 1, ROOT]).unwrap();
        let mut seen = std::collections::BTreeMap::new();
        let (mut stream, mut left) = (Stream::new(0, "extensions", &[]), Vec::new());
        for _ in 0..15_000 {
            let mut order = Vec::new();
            forest.draw(&mut stream, &mut left, &mut order);
            *seen.entry(order).or_insert(0_u32) += 1;
        }
        assert_eq!(seen.len(), 15);
        // 15,000 throws: 14 degrees of freedom, 36.1 is passed once in a thousand
        let chi: f64 = seen.values().map(|&n| (f64::from(n) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi < 36.1, "{chi} {seen:?}");
        let before =
            |order: &[u32], a, b| order.iter().position(|&p| p == a) < order.iter().position(|&p| p == b);
        assert!(seen.keys().all(|o| before(o, 0, 1) && before(o, 0, 2) && before(o, 1, 3)));
    }

    #[test]
    fn gains_in_the_restricted_game_are_those_of_its_coalitions() {
        // Spawned before its spawner stands in the list, a chain of three, and one alone.
        let forest = Forest::new(6, &[2, 0, ROOT, 2, ROOT, 1]).unwrap();
        let mut stream = Stream::new(1, "walks", &[]);
        let table: Vec<f64> = (0..64).map(|_| stream.unit_f64()).collect();
        let mut listed = TableGame::new(&table).unwrap();
        let mut game = Permitted::new(&mut listed, &forest);
        for _ in 0..50 {
            let mut orders: Vec<u32> = (0..6).collect();
            stream.shuffle(&mut orders);
            orders.extend((0..6).rev());
            let mut gains = vec![f64::NAN; 12];
            game.walks(&orders, &mut gains).unwrap();
            for (order, gains) in orders.chunks(6).zip(gains.chunks(6)) {
                for k in 0..6 {
                    // without the player of place k, and with it
                    let mut members = [0_u64; 6];
                    order[..k].iter().for_each(|&p| members[p as usize] = 0b11);
                    members[order[k] as usize] = 0b10;
                    let mut two = [0.0; 2];
                    game.values(&members, &mut two).unwrap();
                    assert!((two[1] - two[0] - gains[k]).abs() < 1e-12);
                }
            }
        }
    }

    #[test]
    fn a_chain_that_comes_back_is_no_forest() {
        assert_eq!(Forest::new(3, &[1, 2, 0]), None);
        assert_eq!(Forest::new(2, &[0, ROOT]), None);
        let long: Vec<u32> = (0..300).map(|p: u32| p.checked_sub(1).unwrap_or(ROOT)).collect();
        assert_eq!(Forest::new(300, &long).unwrap().closed_sets(), Cost::Countless);
        assert_eq!(Forest::new(60, &long[..60]).unwrap().closed_sets(), Cost::Count(61));
    }
}
