//! A single custom game without a trace or unit: one row per player.

use super::{Game, GameMethod, Players, Setting, Solution};
use crate::credit::methods::forest::Forest;
use crate::credit::params::Params;
use crate::error::{Error, Result};
use crate::graph::NO_UNIT;
use crate::run::Run;
use crate::schema::Reason;
use crate::surrogate::Cost;
use crate::surrogate::cost::Bound;
use crate::surrogate::cost::EXACT_PLAYERS;

/// The structure of the players, given by the caller.
#[derive(Debug, Default)]
pub struct Structure {
    /// Union of each player, or [`NO_UNIT`]; empty: none.
    pub unions: Vec<u32>,
    /// Union within the union, or [`NO_UNIT`]; empty: none.
    pub agents: Vec<u32>,
    /// Pairs that are linked.
    pub links: Vec<(u32, u32)>,
    /// Spawner of each player, or [`NO_UNIT`]; empty: nobody spawned anybody.
    pub parents: Vec<u32>,
}

/// Values of all players, and the rest of v(N) - v(∅).
#[derive(Debug)]
pub struct Single {
    /// Per player.
    pub solution: Solution,
    /// v(N) - v(∅) less the sum of the values.
    pub residual: f64,
    /// Why there is no value.
    pub reason: Option<Reason>,
}

/// Solves one game; before any work, refuses a game above the limit of exact solutions ([`Bound`]).
pub fn solve_single(
    game: &mut dyn Game,
    method: &dyn GameMethod,
    params: &Params,
    structure: &Structure,
    seed: u64,
    run: &Run,
) -> Result<Single> {
    let n = game.players();
    structure.check(n)?;
    method.check(params)?;
    let row_of: Vec<u32> = (0..n as u32).collect();
    let players = structure.players(&row_of);
    let bound = Bound::beyond(method.info().draws(), method.evaluations(&players), n);
    if let (Some(bound), None) = (bound, params.int("samples")) {
        let name = method.info().name;
        return Err(Error::Parameter(match bound {
            Bound::Evaluations(cost) => format!(
                "the exact {name} of {n} players takes {cost} evaluations of the game, the limit is 2^{EXACT_PLAYERS}: \
                 pass samples="
            ),
            Bound::Visits(evaluations, visits) => format!(
                "{name} of {n} players takes {evaluations} evaluations of all players, {visits} visits, the limit is \
                 {}: give a game with fewer players",
                Cost::MOST_VISITS
            ),
        }));
    }
    let mut ends = [0.0; 2];
    // nobody in the first coalition, everybody in the second
    game.values(&vec![0b10; n], &mut ends)?;
    let [empty, full] = ends;
    let setting = Setting { players, empty, full, seed, id: b"", run };
    let mut solution = Solution::default();
    solution.clear(players.n_rows());
    let reason = method.solve(game, &setting, params, &mut solution)?.err();
    solution.value.truncate(n);
    solution.stderr.truncate(n);
    let residual = full - empty - solution.value.iter().sum::<f64>();
    // sums of gains can be beyond the range of numbers where the values of coalitions are not
    let beyond =
        solution.value.iter().any(|x| !x.is_finite()) || solution.stderr.iter().any(|x| x.is_infinite());
    let reason = reason.or(beyond.then_some(Reason::ResultRange));
    Ok(Single { solution, residual, reason })
}

impl Structure {
    fn players<'a>(&'a self, row_of: &'a [u32]) -> Players<'a> {
        Players {
            row_of,
            n_units: row_of.len(),
            unions: &self.unions,
            agents: &self.agents,
            links: &self.links,
            parents: &self.parents,
        }
    }

    fn check(&self, n: usize) -> Result<()> {
        for (name, of_players) in
            [("unions", &self.unions), ("unions", &self.agents), ("parents", &self.parents)]
        {
            if !of_players.is_empty() && of_players.len() != n {
                let length = of_players.len();
                return Err(Error::Parameter(format!("{name} has {length} players, the game has {n}")));
            }
        }
        let is_player = |player: &u32| (*player as usize) < n;
        let outside = self.parents.iter().find(|parent| **parent != NO_UNIT && !is_player(parent));
        let linked = self.links.iter().flat_map(|(a, b)| [a, b]).find(|end| !is_player(end));
        match (outside, linked) {
            (Some(parent), _) => {
                Err(Error::Parameter(format!("parents names player {parent}, the game has {n} players")))
            }
            (_, Some(end)) => {
                Err(Error::Parameter(format!("links names player {end}, the game has {n} players")))
            }
            _ if Forest::new(n, &self.parents).is_none() => {
                Err(Error::Parameter("parents form a cycle".into()))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::table::{TableGame, shapley_of_table};
    use super::super::{kernel_shap, stratified, truncated};
    use super::*;
    use crate::credit::methods::banzhaf::{BANZHAF, NORMALIZED_BANZHAF};
    use crate::credit::methods::difference::Difference;
    use crate::credit::methods::forest::{Permission, PrecedenceShapley};
    use crate::credit::methods::myerson::Myerson;
    use crate::credit::methods::owen::{OWEN, WINTER};
    use crate::credit::methods::shapley::Shapley;
    use crate::rng::Stream;

    /// Structure of a game of seven: two unions and one alone, a forest of three trees, two parts that links join.
    fn structure() -> Structure {
        Structure {
            unions: vec![0, 0, 1, 1, 1, NO_UNIT, 0],
            agents: vec![0, 0, 1, 1, 2, NO_UNIT, 3],
            links: vec![(0, 1), (1, 2), (2, 3), (0, 3), (4, 5), (5, 6)],
            parents: vec![NO_UNIT, 0, 0, 1, NO_UNIT, 4, NO_UNIT],
        }
    }

    /// A game that is not additive, not monotone and not symmetric; nobody is worth something, too.
    fn table() -> Vec<f64> {
        let mut stream = Stream::new(5, "table", &[]);
        (0..1 << 7).map(|set: u32| f64::from(set.count_ones()).sqrt() + stream.unit_f64()).collect()
    }

    fn exact(method: &dyn GameMethod) -> Vec<f64> {
        let run = Run::new(Some(1)).unwrap();
        let mut game = TableGame::new(&TABLE).unwrap();
        let params = method.info().defaults();
        solve_single(&mut game, method, &params, &structure(), 0, &run).unwrap().solution.value
    }

    /// What a sampler finds of it.
    fn drawn(sampler: Sampler, samples: u64, seed: u64, threads: usize) -> Solution {
        let run = Run::new(Some(threads)).unwrap();
        let (structure, row_of) = (structure(), [0, 1, 2, 3, 4, 5, 6]);
        let players = structure.players(&row_of);
        let setting = Setting { players, empty: TABLE[0], full: TABLE[127], seed, id: b"t", run: &run };
        let mut out = Solution::default();
        out.clear(players.n_rows());
        sampler(&mut TableGame::new(&TABLE).unwrap(), &setting, samples, &mut out).unwrap();
        out
    }

    static TABLE: std::sync::LazyLock<Vec<f64>> = std::sync::LazyLock::new(table);

    /// Whatever is drawn, also where all coalitions would cost less.
    type Sampler = fn(&mut dyn Game, &Setting<'_>, u64, &mut Solution) -> Result<()>;

    /// Name, sampler, exact values, and whether every sample adds up.
    fn samplers() -> Vec<(&'static str, Sampler, Vec<f64>, bool)> {
        let shapley = shapley_of_table(&TABLE);
        vec![
            ("kernel", kernel_shap::sampled, shapley.clone(), true),
            ("stratified", stratified::sampled, shapley.clone(), true),
            ("truncated", |g, s, n, out| truncated::sampled(g, s, n, 1e-12, out), shapley, true),
            ("banzhaf", |g, s, n, out| BANZHAF.sampled(g, s, n, out).map(drop), exact(&BANZHAF), false),
            (
                "normalized_banzhaf",
                |g, s, n, out| NORMALIZED_BANZHAF.sampled(g, s, n, out).map(drop),
                exact(&NORMALIZED_BANZHAF),
                true,
            ),
            ("owen", |g, s, n, out| OWEN.sampled(g, s, n, out), exact(&OWEN), true),
            ("winter", |g, s, n, out| WINTER.sampled(g, s, n, out), exact(&WINTER), true),
            ("myerson", |g, s, n, out| Myerson.sampled(g, s, n, out), exact(&Myerson), false),
            (
                "precedence",
                |g, s, n, out| PrecedenceShapley.sampled(g, s, n, out),
                exact(&PrecedenceShapley),
                true,
            ),
            ("permission", |g, s, n, out| Permission.sampled(g, s, n, out), exact(&Permission), true),
        ]
    }

    #[test]
    fn intervals_of_95_percent_cover_what_is_exact() {
        // By the normal quantile: 256 draws, and 64 means of seven orders where a draw is such a mean.
        const RUNS: u64 = 2000;
        for (name, sampler, exact, _) in samplers() {
            let samples = if name == "stratified" { 7 * 64 } else { 256 };
            let mut covered = [0_u64; 7];
            for seed in 0..RUNS {
                let drawn_solution = drawn(sampler, samples, seed, 1);
                for (p, covered) in covered.iter_mut().enumerate() {
                    *covered += u64::from(
                        (drawn_solution.value[p] - exact[p]).abs() <= 1.96 * drawn_solution.stderr[p],
                    );
                }
            }
            let share = covered.iter().sum::<u64>() as f64 / (7 * RUNS) as f64;
            assert!((0.93..=0.97).contains(&share), "{name}: {share} {covered:?}");
            // and of no player much less
            assert!(
                covered.iter().all(|&n| (0.92..=0.98).contains(&(n as f64 / RUNS as f64))),
                "{name}: {covered:?}"
            );
        }
    }

    #[test]
    fn every_sample_adds_up() {
        let amount = TABLE[127] - TABLE[0];
        for (name, sampler, exact, adds_up) in samplers() {
            for samples in [2, 3, 7, 64, 65, 200] {
                if samples < 64 && name.ends_with("banzhaf") {
                    continue; // refused by the parameter
                }
                let sum: f64 = drawn(sampler, samples, samples, 1).value.iter().sum();
                let wanted = if name == "myerson" { exact.iter().sum() } else { amount };
                assert!(
                    name == "banzhaf" || (sum - wanted).abs() < 1e-12,
                    "{name} {samples}: {sum} {wanted}"
                );
            }
            assert!(adds_up == ((exact.iter().sum::<f64>() - amount).abs() < 1e-12), "{name}");
        }
    }

    #[test]
    fn threads_do_not_show() {
        for (name, sampler, ..) in samplers() {
            let alone = drawn(sampler, 64 * 70, 9, 1);
            assert!(alone.n_samples.is_some_and(|n| n >= 64 * 10), "{name}");
            for threads in [2, 7] {
                let many = drawn(sampler, 64 * 70, 9, threads);
                assert_eq!((&alone.value, alone.n_samples), (&many.value, many.n_samples), "{name}");
                let bits = |s: &Solution| s.stderr.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&alone), bits(&many), "{name}");
            }
        }
    }

    #[test]
    fn what_costs_too_much_is_refused_before_any_work() {
        struct Never(usize);
        impl Game for Never {
            fn players(&self) -> usize {
                self.0
            }

            fn values(&mut self, _: &[u64], _: &mut [f64]) -> Result<()> {
                Err(Error::Cancelled)
            }
        }
        let run = Run::new(Some(1)).unwrap();
        let refused = solve_single(
            &mut Never(21),
            &BANZHAF,
            &BANZHAF.info().defaults(),
            &Structure::default(),
            0,
            &run,
        );
        assert_eq!(
            refused.unwrap_err().to_string(),
            "the exact banzhaf of 21 players takes 2097152 evaluations of the game, the limit is 2^20: pass samples="
        );
        // a chain of 21 has 22 closed sets only
        let parents = (0..21).map(|p: u32| p.checked_sub(1).unwrap_or(NO_UNIT)).collect();
        let chain = Structure { parents, ..Structure::default() };
        let method = &PrecedenceShapley;
        let tried = solve_single(&mut Never(21), method, &method.info().defaults(), &chain, 0, &run);
        assert!(matches!(tried, Err(Error::Cancelled)));
        let methods: [&dyn GameMethod; 8] = [
            &Shapley,
            &BANZHAF,
            &NORMALIZED_BANZHAF,
            &OWEN,
            &WINTER,
            &Myerson,
            &PrecedenceShapley,
            &Permission,
        ];
        for method in methods {
            let refusal_of = |players: usize| {
                let structure = Structure::default();
                let params = method.info().defaults();
                solve_single(&mut Never(players), method, &params, &structure, 0, &run).unwrap_err()
            };
            assert!(matches!(refusal_of(20), Error::Cancelled), "20 players are played");
            for players in [21, 64, 1_024, 1_025, 1_026, 1_064, 1_087, 1_000_000] {
                let refused = refusal_of(players).to_string();
                let beginning = format!("the exact {} of {players} players takes", method.info().name);
                assert!(refused.starts_with(&beginning) && refused.ends_with("pass samples="), "{refused}");
            }
        }
        // one evaluation a player, of all of them
        let difference = |players: usize| {
            let (structure, params) = (Structure::default(), Difference.info().defaults());
            solve_single(&mut Never(players), &Difference, &params, &structure, 0, &run).unwrap_err()
        };
        assert!(matches!(difference(1_087), Error::Cancelled));
        assert_eq!(
            difference(1_000_000).to_string(),
            "difference of 1000000 players takes 1000000 evaluations of all players, over 2^39 visits, the limit is 2^37: \
             give a game with fewer players"
        );
    }

    #[test]
    fn what_is_beyond_the_range_of_numbers_is_no_value() {
        let huge: Vec<f64> = (0..8).map(|set| if set & 1 == 1 { 1.7e308 } else { -1.7e308 }).collect();
        let run = Run::new(Some(1)).unwrap();
        let params = Shapley.info().defaults();
        let mut game = TableGame::new(&huge).unwrap();
        let solution = solve_single(&mut game, &Shapley, &params, &Structure::default(), 0, &run).unwrap();
        assert_eq!(solution.reason, Some(Reason::ResultRange));
    }

    #[test]
    fn structure_is_checked() {
        let run = Run::new(Some(1)).unwrap();
        let wrong = |structure: Structure| {
            let mut game = TableGame::new(&TABLE).unwrap();
            solve_single(&mut game, &OWEN, &OWEN.info().defaults(), &structure, 0, &run)
                .unwrap_err()
                .to_string()
        };
        let unions = Structure { unions: vec![0; 6], ..Structure::default() };
        assert_eq!(wrong(unions), "unions has 6 players, the game has 7");
        let links = Structure { links: vec![(0, 7)], ..Structure::default() };
        assert_eq!(wrong(links), "links names player 7, the game has 7 players");
        let parents = Structure { parents: vec![9; 7], ..Structure::default() };
        assert_eq!(wrong(parents), "parents names player 9, the game has 7 players");
        let parents = Structure { parents: vec![1, 2, 0, 0, 0, 0, 0], ..Structure::default() };
        assert_eq!(wrong(parents), "parents form a cycle");
    }
}
