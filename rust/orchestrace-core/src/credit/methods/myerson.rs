//! The Myerson value: only players joined by links cooperate.
//!
//! ```text
//! v^L(S) = Σ v(C) - v(∅) over the parts C of S that links join;  μ = Shapley value of v^L
//! ```
//!
//! The amount divided is v^L(N), and within every part of the whole team exactly what that part earns. Where links do not
//! join everybody, v(N) - v(∅) - v^L(N) is the joint effect of parts that never spoke: it is nobody's.
//!
//! Exact: 2^n evaluations, the parts of a coalition by its first one. Sampled: n evaluations an order; a player who joins
//! merges the parts of its linked ones. O(|L| α) for the parts of a coalition.
//! Reference: R. Myerson, Graphs and cooperation in games, 1977. Axioms: efficiency within every part, fairness (a link
//! is worth as much to both of its ends), linearity.

use std::ops::DerefMut;

use crate::credit::game::orders::sampled;
use crate::credit::game::table::{shapley_of_table, tabulate_players};
use crate::credit::game::{
    COALITIONS, EXACT_OR_DRAWN, Game, GameMethod, Needs, Setting, Solution, TEAMS, budget,
};
use crate::credit::method::{Method, MethodInfo, Quantity, Scope};
use crate::credit::params::Params;
use crate::error::Result;
use crate::run::Run;
use crate::schema::{Reason, Tier};

/// What this file adds to the methods.
pub(super) const METHODS: &[Method] = &[Method::PerGame(&Myerson)];

/// The method `myerson`.
pub struct Myerson;

static INFO: MethodInfo = MethodInfo {
    name: "myerson",
    summary: "Shapley value if only agents joined by messages, returns or spawns cooperate",
    reference: "R. Myerson, 1977",
    quantity: Quantity::Share,
    scope: Scope::Trace,
    units: TEAMS,
    axioms: &[],
    params: EXACT_OR_DRAWN,
    tier: Some(Tier::Surrogate),
    needs_graph: true,
};

impl Myerson {
    /// The estimate from `samples` orders.
    pub fn sampled(
        &self,
        game: &mut dyn Game,
        setting: &Setting<'_>,
        samples: u64,
        out: &mut Solution,
    ) -> Result<()> {
        let links = neighbors(setting.players.len(), setting.players.links);
        sampled(&mut Restricted::new(game, &links, setting.empty), setting, INFO.name, samples, out)
    }
}

impl GameMethod for Myerson {
    fn info(&self) -> &'static MethodInfo {
        &INFO
    }

    fn needs(&self) -> Needs {
        Needs { links: true, ..Needs::default() }
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
            let links = neighbors(players.len(), players.links);
            let table = tabulate_restricted(game, &links, setting.empty, setting.run)?;
            out.exact(players, &shapley_of_table(&table));
        }
        Ok(Ok(()))
    }
}

/// The game in which each linked component of a coalition earns its own value.
#[derive(Debug)]
pub struct Restricted<'a, G> {
    /// A reference to the game, or a box of it.
    game: G,
    links: &'a [Vec<u32>],
    empty: f64,
    parts: Parts,
    pending: Pending,
}

/// Players that are joined so far: a forest of union-find.
#[derive(Debug, Default, Clone)]
struct Parts {
    above: Vec<u32>,
    /// Players of the part of each root.
    members: Vec<Vec<u32>>,
}

/// Absent from the coalition.
const AWAY: u32 = u32::MAX;

impl Parts {
    fn clear(&mut self, n: usize) {
        self.above.clear();
        self.above.resize(n, AWAY);
        self.members.resize(n, Vec::new());
    }

    fn is_here(&self, player: u32) -> bool {
        self.above[player as usize] != AWAY
    }

    fn root(&mut self, mut player: u32) -> u32 {
        while self.above[player as usize] != player {
            let up = self.above[player as usize];
            self.above[player as usize] = self.above[up as usize];
            player = up;
        }
        player
    }

    /// Lets a player come, and calls `merged` with the root of every part that it is linked to; gives the new root.
    fn join(&mut self, player: u32, linked: &[u32], mut merged: impl FnMut(u32)) -> u32 {
        let mut root = player;
        self.above[player as usize] = player;
        self.members[player as usize].clear();
        self.members[player as usize].push(player);
        for &other in linked {
            if !self.is_here(other) {
                continue;
            }
            let other_root = self.root(other);
            if other_root == root {
                continue;
            }
            merged(other_root);
            // the smaller part moves
            let (from, to) = if self.members[other_root as usize].len() > self.members[root as usize].len() {
                (root, other_root)
            } else {
                (other_root, root)
            };
            let moved = std::mem::take(&mut self.members[from as usize]);
            self.members[to as usize].extend_from_slice(&moved);
            self.members[from as usize] = moved;
            self.above[from as usize] = to;
            root = to;
        }
        root
    }
}

/// Coalitions that wait for their values.
#[derive(Debug, Default, Clone)]
struct Pending {
    members: Vec<u64>,
    count: usize,
    values: Vec<f64>,
}

impl Pending {
    fn clear(&mut self, n: usize) {
        self.members.clear();
        self.members.resize(n, 0);
        self.count = 0;
        self.values.clear();
    }

    fn push(&mut self, game: &mut (impl Game + ?Sized), part: &[u32]) -> Result<()> {
        if self.count == COALITIONS {
            self.flush(game)?;
        }
        for &player in part {
            self.members[player as usize] |= 1 << self.count;
        }
        self.count += 1;
        Ok(())
    }

    fn flush(&mut self, game: &mut (impl Game + ?Sized)) -> Result<()> {
        let from = self.values.len();
        self.values.resize(from + self.count, 0.0);
        game.values(&self.members, &mut self.values[from..])?;
        self.members.fill(0);
        self.count = 0;
        Ok(())
    }
}

/// The linked players of every player; `links` are pairs, and duplicates count once.
#[must_use]
pub fn neighbors(players: usize, links: &[(u32, u32)]) -> Vec<Vec<u32>> {
    let mut linked = vec![Vec::new(); players];
    for &(a, b) in links.iter().filter(|(a, b)| a != b) {
        linked[a as usize].push(b);
        linked[b as usize].push(a);
    }
    for linked in &mut linked {
        linked.sort_unstable();
        linked.dedup();
    }
    linked
}

impl<'a, G: DerefMut<Target: Game>> Restricted<'a, G> {
    /// `game`, in which nobody earns `empty`, restricted by the [`neighbors`] of each player.
    pub fn new(game: G, links: &'a [Vec<u32>], empty: f64) -> Self {
        Self { game, links, empty, parts: Parts::default(), pending: Pending::default() }
    }
}

impl<G: DerefMut<Target: Game> + Send> Game for Restricted<'_, G> {
    fn players(&self) -> usize {
        self.links.len()
    }

    fn values(&mut self, members: &[u64], out: &mut [f64]) -> Result<()> {
        let n = self.players();
        let Self { game, links, empty, parts, pending } = self;
        let game = &mut **game;
        pending.clear(n);
        let mut ends = Vec::with_capacity(out.len());
        for lane in 0..out.len() {
            parts.clear(n);
            for player in (0..n as u32).filter(|&p| members[p as usize] >> lane & 1 == 1) {
                parts.join(player, &links[player as usize], |_| {});
            }
            for player in (0..n as u32).filter(|&p| parts.above[p as usize] == p) {
                pending.push(game, &parts.members[player as usize])?;
            }
            ends.push(pending.values.len() + pending.count);
        }
        pending.flush(game)?;
        let mut from = 0;
        for (out, end) in out.iter_mut().zip(ends) {
            *out = pending.values[from..end].iter().map(|value| value - *empty).sum();
            from = end;
        }
        Ok(())
    }

    /// What comes of the parts that a player joins, less what they had: one evaluation a player.
    fn walks(&mut self, orders: &[u32], out: &mut [f64]) -> Result<()> {
        let n = self.players();
        let Self { game, links, empty, parts, pending } = self;
        let game = &mut **game;
        pending.clear(n);
        // of every step the earlier ones whose parts it merges
        let (mut merged, mut ends) = (Vec::new(), Vec::with_capacity(orders.len()));
        let mut made_at = vec![0_usize; n];
        for (j, order) in orders.chunks_exact(n.max(1)).enumerate() {
            parts.clear(n);
            for (k, &player) in order.iter().enumerate() {
                let root =
                    parts.join(player, &links[player as usize], |old| merged.push(made_at[old as usize]));
                made_at[root as usize] = j * n + k;
                ends.push(merged.len());
                pending.push(game, &parts.members[root as usize])?;
            }
        }
        pending.flush(game)?;
        let mut from = 0;
        for (step, (out, end)) in out.iter_mut().zip(ends).enumerate() {
            let before: f64 = merged[from..end].iter().map(|&at| pending.values[at] - *empty).sum();
            *out = pending.values[step] - *empty - before;
            from = end;
        }
        Ok(())
    }

    fn fork(&self) -> Option<Box<dyn Game + '_>> {
        Some(Box::new(Restricted::new(self.game.fork()?, self.links, self.empty)))
    }
}

/// All 2^n values of the restricted game.
pub fn tabulate_restricted(
    game: &mut dyn Game,
    links: &[Vec<u32>],
    empty: f64,
    run: &Run,
) -> Result<Vec<f64>> {
    let mut table = tabulate_players(game, run)?;
    let near: Vec<usize> =
        links.iter().map(|linked| linked.iter().fold(0, |set, &player| set | 1 << player)).collect();
    // A set that falls apart is larger than its parts: their values are there before.
    table[0] = 0.0;
    for set in 1..table.len() {
        let part = first_part(set, &near);
        table[set] = if part == set { table[set] - empty } else { table[part] + table[set & !part] };
    }
    Ok(table)
}

/// The part of the lowest player of a set.
fn first_part(set: usize, near: &[usize]) -> usize {
    let (mut part, mut fresh) = (0, set & set.wrapping_neg());
    while fresh != 0 {
        let player = fresh.trailing_zeros() as usize;
        part |= 1 << player;
        fresh = (fresh | near[player] & set) & !part;
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::credit::game::table::TableGame;
    use crate::rng::Stream;

    fn value(table: &[f64], links: &[(u32, u32)]) -> Vec<f64> {
        let n = table.len().trailing_zeros() as usize;
        let run = Run::new(Some(1)).unwrap();
        let mut game = TableGame::new(table).unwrap();
        let links = neighbors(n, links);
        shapley_of_table(&tabulate_restricted(&mut game, &links, table[0], &run).unwrap())
    }

    fn close(computed: &[f64], wanted: &[f64]) {
        assert!(computed.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-12), "{computed:?} {wanted:?}");
    }

    #[test]
    fn who_stands_between_is_paid_for_it() {
        // nothing without both 0 and 2
        let unanimity: Vec<f64> = (0..8).map(|set| f64::from(set & 5 == 5)).collect();
        close(&value(&unanimity, &[(0, 1), (1, 2)]), &[1.0 / 3.0; 3]);
        close(&value(&unanimity, &[(0, 1), (1, 2), (0, 2)]), &[0.5, 0.0, 0.5]);
        close(&value(&unanimity, &[(0, 1)]), &[0.0; 3]);
    }

    #[test]
    fn parts_pay_their_own_and_links_both_ends() {
        let mut stream = Stream::new(4, "myerson", &[]);
        let table: Vec<f64> = (0..32).map(|_| stream.unit_f64()).collect();
        let all: Vec<(u32, u32)> = (0..5).flat_map(|a| (0..a).map(move |b| (b, a))).collect();
        close(&value(&table, &all), &shapley_of_table(&table));
        let links = [(0, 2), (1, 2), (0, 1), (3, 4)];
        let computed = value(&table, &links);
        close(
            &[computed[..3].iter().sum(), computed[3..].iter().sum()],
            &[table[7] - table[0], table[24] - table[0]],
        );
        for (at, &(a, b)) in links.iter().enumerate() {
            let mut fewer = links.to_vec();
            fewer.remove(at);
            let without = value(&table, &fewer);
            let lost = |p: u32| computed[p as usize] - without[p as usize];
            assert!((lost(a) - lost(b)).abs() < 1e-12);
        }
    }

    #[test]
    fn gains_and_coalitions_are_those_of_the_listed_game() {
        let mut stream = Stream::new(6, "myerson", &[]);
        let table: Vec<f64> = (0..256).map(|_| stream.unit_f64()).collect();
        let links = neighbors(8, &[(0, 3), (0, 5), (5, 4), (1, 2), (2, 7), (6, 7), (1, 6), (1, 2), (3, 3)]);
        let run = Run::new(Some(1)).unwrap();
        let mut game = TableGame::new(&table).unwrap();
        let listed = tabulate_restricted(&mut game, &links, table[0], &run).unwrap();
        let mut game = Restricted::new(&mut game, &links, table[0]);
        let tabulated = tabulate_players(&mut game, &run).unwrap();
        close(&tabulated, &listed);
        let mut orders = Vec::new();
        (0..30).for_each(|_| crate::credit::game::orders::append_order(&mut stream, 8, &mut orders));
        let mut gains = vec![f64::NAN; orders.len()];
        game.walks(&orders, &mut gains).unwrap();
        for (order, gains) in orders.chunks(8).zip(gains.chunks(8)) {
            let mut before = 0;
            for (&p, gain) in order.iter().zip(gains) {
                assert!((listed[before | 1 << p] - listed[before] - gain).abs() < 1e-12);
                before |= 1 << p;
            }
        }
    }
}
