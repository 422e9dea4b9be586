//! The structural model of the outcome, and the exact truth under it.
//!
//! A coalition `S` is a set of events; the effect of an event is drawn by [`super::law`]. With the pair terms
//! `P(S) = Σ w(u,v)` over the pairs of events that are both in `S`:
//!
//! - `linear`: `v(S) = Σ e(u) − 2·[decisive error in S] + P(S)`.
//! - the gates: subtask `k` of `m`, which has the events of number `i` with `⌊i·m/n⌋ = k`, is solved to the
//!   degree `a_k(S) = Π (1 − ½g·e⁻(u)) · (1 − Π (1 − g·e⁺(u)))`, products over its events in `S`: any success
//!   is enough (noisy-or), any failure may spoil it. `g` scales effects to the length of the run, at most
//!   0.55. Then `v(S) = G(a(S)) · (1 − 0.9·[decisive error in S]) + P(S)` with
//!   - `noisy_or`: one subtask, `G = a₁`;
//!   - `majority`: three, `G` the probability that most are solved, each by itself with probability `a_k`;
//!   - `mixed`: five, `G = 1 − (1 − a₁a₂)(1 − maj(a₃, a₄, a₅))`: both of two, or most of three.
//!
//! `v(∅) = 0` in all of them. **Pairs** (`interaction` ι > 0): each event with an effect is joined to the
//! last one with an effect of another agent, `w = ± ι·(|s(u)| + |s(v)|)/2`, either sign equally likely, `s`
//! the effect after scaling.
//!
//! **Value** before an event is `E[v(all) | what is past]`, over tasks and policies alike. Given the past the
//! effects to come are independent of each other with mean parts known per event, so it is a product over the
//! events left in each subtask. **Contribution** is the exact Shapley value of the event in the game of all
//! events. Linear: its effect and half of its pairs. Gates: the integral of the derivative of the multilinear
//! extension along the diagonal (Owen 1972), a polynomial, by Gauss-Legendre with 32 nodes: exact up to 64
//! events with an effect, beyond that to rounding, because effects are scaled. **Shapley values of agents**:
//! linear in closed form, gates over all coalitions of at most [`MOST_PLAYERS`] agents.

use super::law::{HALF_EFFECT, pending};
use super::quadrature::NODES;
use crate::error::{Error, Result, unknown_name};

/// Agents up to which games are enumerated.
pub(super) const MOST_PLAYERS: usize = 12;
/// What the decisive error takes from a sum.
const DECISIVE_COST: f64 = 2.0;
/// What it leaves of a product.
const DECISIVE_FACTOR: f64 = 0.1;
/// Subtasks at most.
const MOST_SUBTASKS: usize = 5;
/// Sum of successes that a subtask is scaled to.
const SUCCESSES: f64 = 1.5;
/// A larger scale could drive a factor below 0.
const MOST_GAIN: f64 = 0.55;

/// The rule by which effects make an outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// Their sum.
    Linear,
    /// Any success is enough.
    NoisyOr,
    /// Most of three subtasks.
    Majority,
    /// Both of two subtasks, or most of three.
    Mixed,
}

const OUTCOMES: [(&str, Outcome, usize); 4] = [
    ("linear", Outcome::Linear, 1),
    ("noisy_or", Outcome::NoisyOr, 1),
    ("majority", Outcome::Majority, 3),
    ("mixed", Outcome::Mixed, 5),
];

impl Outcome {
    /// The model of a name.
    pub fn parse(name: &str) -> Result<Self> {
        OUTCOMES
            .iter()
            .find(|o| o.0 == name)
            .map(|o| o.1)
            .ok_or_else(|| Error::Parameter(unknown_name("outcome", name, &OUTCOMES.map(|o| o.0))))
    }

    fn subtasks(self) -> usize {
        OUTCOMES[self as usize].2
    }
}

/// What an event does, and its place.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Part {
    /// Effect after scaling: what is added to the sum, or taken from or given to the factors of a subtask.
    pub(super) strength: f64,
    pub(super) subtask: u8,
    pub(super) agent: u32,
}

/// Two events that do more, or less, together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) first: u32,
    pub(super) second: u32,
    pub(super) weight: f64,
}

/// What the events of one run do.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) events: Vec<Part>,
    pub(super) pairs: Vec<Pair>,
    pub(super) decisive: Option<u32>,
}

/// `Π (1 + x s)` over the failures of a subtask, and over all of its events.
type Factors = [[f64; 2]; MOST_SUBTASKS];
const ONES: Factors = [[1.0; 2]; MOST_SUBTASKS];

/// A model for runs of one length.
#[derive(Debug, Clone)]
pub(super) struct Model {
    outcome: Outcome,
    n: usize,
    subtasks: usize,
    gain: f64,
    share: f64,
    /// Powers of the mean factors of an event to come, by how many are to come.
    later: Vec<[f64; 2]>,
}

/// The state of a run in progress, as far as the value needs it.
#[derive(Debug, Clone)]
pub(super) struct Progress {
    factors: Factors,
    left: [usize; MOST_SUBTASKS],
    sum: f64,
    pairs: f64,
    seen: usize,
    failed: bool,
}

impl Progress {
    /// Goes past an event, with the weight of the pair that ends in it.
    pub(super) fn add(&mut self, part: &Part, decisive: bool, pair: Option<f64>) {
        multiply(&mut self.factors, part, 1.0);
        self.left[usize::from(part.subtask)] -= 1;
        self.sum += part.strength;
        self.pairs += pair.unwrap_or(0.0);
        self.failed |= decisive;
        self.seen += 1;
    }
}

fn majority(a: f64, b: f64, c: f64) -> f64 {
    a * b + a * c + b * c - 2.0 * a * b * c
}

fn majority_slope(b: f64, c: f64) -> f64 {
    b + c - 2.0 * b * c
}

impl Model {
    /// The model for runs of `n` events, `share` of which have a decisive error.
    pub(super) fn new(outcome: Outcome, n: usize, density: f64, share: f64) -> Self {
        let subtasks = outcome.subtasks();
        let mean = HALF_EFFECT * density;
        let each = n as f64 / subtasks as f64;
        let gain = match outcome {
            Outcome::Linear => 1.0,
            _ if mean == 0.0 => MOST_GAIN,
            _ => (SUCCESSES / (each * mean)).min(MOST_GAIN),
        };
        let (failure, success) = (1.0 - 0.5 * gain * mean, 1.0 - gain * mean);
        let mut later = vec![[1.0, 1.0]];
        if outcome != Outcome::Linear {
            let all = failure + success - 1.0;
            let longest = n.div_ceil(subtasks);
            later.extend((0..longest).scan([1.0, 1.0], |p: &mut [f64; 2], _| {
                *p = [p[0] * failure, p[1] * all];
                Some(*p)
            }));
        }
        Self { outcome, n, subtasks, gain, share, later }
    }

    /// Events of the runs that it is for.
    pub(super) fn length(&self) -> usize {
        self.n
    }

    /// The subtask of the event of a number.
    pub(super) fn subtask(&self, i: usize) -> u8 {
        (i * self.subtasks / self.n) as u8
    }

    /// What an effect becomes in this model.
    pub(super) fn strength(&self, effect: f64) -> f64 {
        match self.outcome {
            Outcome::Linear => effect,
            _ if effect < 0.0 => 0.5 * self.gain * effect,
            _ => self.gain * effect,
        }
    }

    fn gate(&self, a: &[f64; MOST_SUBTASKS]) -> f64 {
        match self.outcome {
            Outcome::Linear | Outcome::NoisyOr => a[0],
            Outcome::Majority => majority(a[0], a[1], a[2]),
            Outcome::Mixed => 1.0 - (1.0 - a[0] * a[1]) * (1.0 - majority(a[2], a[3], a[4])),
        }
    }

    /// Derivatives of the gate by each subtask.
    fn slopes(&self, a: &[f64; MOST_SUBTASKS]) -> [f64; MOST_SUBTASKS] {
        match self.outcome {
            Outcome::Linear | Outcome::NoisyOr => [1.0, 0.0, 0.0, 0.0, 0.0],
            Outcome::Majority => {
                [majority_slope(a[1], a[2]), majority_slope(a[0], a[2]), majority_slope(a[0], a[1]), 0.0, 0.0]
            }
            Outcome::Mixed => {
                let (one, most) = (1.0 - a[0] * a[1], 1.0 - majority(a[2], a[3], a[4]));
                [
                    a[1] * most,
                    a[0] * most,
                    one * majority_slope(a[3], a[4]),
                    one * majority_slope(a[2], a[4]),
                    one * majority_slope(a[2], a[3]),
                ]
            }
        }
    }

    /// A run of which nothing has happened.
    pub(super) fn begin(&self) -> Progress {
        let mut left = [0; MOST_SUBTASKS];
        for (k, left) in left.iter_mut().enumerate().take(self.subtasks) {
            let from = |k: usize| (k * self.n).div_ceil(self.subtasks);
            *left = from(k + 1) - from(k);
        }
        Progress { factors: ONES, left, sum: 0.0, pairs: 0.0, seen: 0, failed: false }
    }

    /// Expected outcome given what is past.
    pub(super) fn value(&self, run: &Progress) -> f64 {
        let later = if run.failed { 1.0 } else { pending(self.share, run.seen, self.n) };
        if self.outcome == Outcome::Linear {
            return run.sum - DECISIVE_COST * later + run.pairs;
        }
        let mut a = [0.0; MOST_SUBTASKS];
        for (a, ([failures, all], left)) in
            a.iter_mut().zip(run.factors.iter().zip(run.left)).take(self.subtasks)
        {
            let later = self.later[left];
            *a = failures * later[0] - all * later[1];
        }
        self.gate(&a) * (1.0 - (1.0 - DECISIVE_FACTOR) * later) + run.pairs
    }

    /// Exact Shapley value of every event.
    pub(super) fn contributions(&self, run: &Parts, out: &mut Vec<f64>) {
        out.clear();
        if self.outcome == Outcome::Linear {
            out.extend(run.events.iter().map(|p| p.strength));
            if let Some(at) = run.decisive {
                out[at as usize] -= DECISIVE_COST;
            }
        } else {
            out.resize(run.events.len(), 0.0);
            self.integrate(run, out);
        }
        for pair in &run.pairs {
            out[pair.first as usize] += pair.weight / 2.0;
            out[pair.second as usize] += pair.weight / 2.0;
        }
    }

    /// Adds the gates' part of the Shapley values. The player of the decisive error is in two factors, so the
    /// extension is taken with it and without it, which makes it linear in that player.
    fn integrate(&self, run: &Parts, out: &mut [f64]) {
        for (t, weight) in NODES {
            let mut factors = ONES;
            for (i, part) in run.events.iter().enumerate() {
                if part.strength != 0.0 && run.decisive != Some(i as u32) {
                    multiply(&mut factors, part, t);
                }
            }
            let Some(at) = run.decisive else {
                self.add_slopes(run, &factors, t, weight, out);
                continue;
            };
            let without = self.add_slopes(run, &factors, t, weight * (1.0 - t), out);
            multiply(&mut factors, &run.events[at as usize], 1.0);
            let with = self.add_slopes(run, &factors, t, weight * t * DECISIVE_FACTOR, out);
            out[at as usize] += weight * (DECISIVE_FACTOR * with - without);
        }
    }

    /// Adds the weighted derivative by every event but the decisive one; the gate's output.
    fn add_slopes(&self, run: &Parts, factors: &Factors, t: f64, weight: f64, out: &mut [f64]) -> f64 {
        let a = factors.map(|[failures, all]| failures - all);
        let slopes = self.slopes(&a);
        for (i, (part, out)) in run.events.iter().zip(out).enumerate() {
            if part.strength == 0.0 || run.decisive == Some(i as u32) {
                continue;
            }
            let [failures, all] = factors[usize::from(part.subtask)];
            let moved = if part.strength < 0.0 {
                part.strength * (failures - all) / (1.0 + t * part.strength)
            } else {
                part.strength * all / (1.0 - t * part.strength)
            };
            *out += weight * slopes[usize::from(part.subtask)] * moved;
        }
        self.gate(&a)
    }

    /// Exact Shapley values of the agents' game, given the events' ones; `None` where there are too many
    /// agents.
    pub(super) fn shapley(&self, run: &Parts, contributions: &[f64], game: &mut Game, agents: usize) -> bool {
        game.values.clear();
        game.values.resize(agents, 0.0);
        if self.outcome == Outcome::Linear {
            for (part, contribution) in run.events.iter().zip(contributions) {
                game.values[part.agent as usize] += contribution;
            }
            return true;
        }
        if agents > MOST_PLAYERS {
            return false;
        }
        self.coalitions(run, game, agents);
        // φ_i = Σ_S (|S|!(n−|S|−1)!/n!) (v(S ∪ i) − v(S))
        let mut weights = [0.0; MOST_PLAYERS];
        let mut choose = 1.0;
        for (size, weight) in weights.iter_mut().enumerate().take(agents) {
            *weight = 1.0 / (agents as f64 * choose);
            choose *= (agents - 1 - size) as f64 / (size + 1) as f64;
        }
        for (i, value) in game.values.iter_mut().enumerate() {
            for set in (0..game.worth.len()).filter(|set| set >> i & 1 == 0) {
                let gain = game.worth[set | 1 << i] - game.worth[set];
                *value += weights[set.count_ones() as usize] * gain;
            }
        }
        for pair in &run.pairs {
            for end in [pair.first, pair.second] {
                game.values[run.events[end as usize].agent as usize] += pair.weight / 2.0;
            }
        }
        true
    }

    /// Worth of every coalition of agents, pairs left out: each is one agent more than a smaller one.
    fn coalitions(&self, run: &Parts, game: &mut Game, agents: usize) {
        let mut by_agent = [ONES; MOST_PLAYERS];
        for part in run.events.iter().filter(|p| p.strength != 0.0) {
            multiply(&mut by_agent[part.agent as usize], part, 1.0);
        }
        let failed = run.decisive.map(|at| run.events[at as usize].agent);
        game.factors.clear();
        game.factors.resize(1 << agents, ONES);
        game.worth.clear();
        game.worth.push(0.0);
        for set in 1..1usize << agents {
            let agent = set.trailing_zeros() as usize;
            let mut factors = game.factors[set & (set - 1)];
            for (factor, by_agent) in factors.iter_mut().zip(&by_agent[agent]).take(self.subtasks) {
                *factor = [factor[0] * by_agent[0], factor[1] * by_agent[1]];
            }
            game.factors[set] = factors;
            let gate = self.gate(&factors.map(|[failures, all]| failures - all));
            let fails = failed.is_some_and(|agent| set >> agent & 1 == 1);
            game.worth.push(if fails { DECISIVE_FACTOR * gate } else { gate });
        }
    }
}

/// Takes a part into the factors, present to the degree `x`.
fn multiply(factors: &mut Factors, part: &Part, x: f64) {
    let [failures, all] = &mut factors[usize::from(part.subtask)];
    if part.strength < 0.0 {
        *failures *= 1.0 + x * part.strength;
        *all *= 1.0 + x * part.strength;
    } else {
        *all *= 1.0 - x * part.strength;
    }
}

/// Buffers of a game over agents; `values` are the result.
#[derive(Debug, Default)]
pub(super) struct Game {
    pub(super) values: Vec<f64>,
    worth: Vec<f64>,
    factors: Vec<Factors>,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ALL: [Outcome; 4] = [Outcome::Linear, Outcome::NoisyOr, Outcome::Majority, Outcome::Mixed];

    /// The definition, word by word, for any coalition of events.
    fn worth(outcome: Outcome, run: &Parts, inside: &dyn Fn(usize) -> bool) -> f64 {
        let chosen = || (0..run.events.len()).filter(|&i| inside(i)).map(|i| run.events[i]);
        let solved = |k: u8| {
            let mine = || chosen().filter(move |p| p.subtask == k).map(|p| p.strength);
            let unspoilt: f64 = mine().filter(|s| *s < 0.0).map(|s| 1.0 + s).product();
            let missed: f64 = mine().filter(|s| *s > 0.0).map(|s| 1.0 - s).product();
            unspoilt * (1.0 - missed)
        };
        // Most of three, as a sum over what comes out.
        let most = |from: u8| -> f64 {
            let p = [solved(from), solved(from + 1), solved(from + 2)];
            (0..8u32)
                .filter(|bits| bits.count_ones() >= 2)
                .map(|bits| {
                    (0..3).map(|k| if bits >> k & 1 == 1 { p[k] } else { 1.0 - p[k] }).product::<f64>()
                })
                .sum()
        };
        let failed = run.decisive.is_some_and(|at| inside(at as usize));
        let gate = match outcome {
            Outcome::Linear => chosen().map(|p| p.strength).sum::<f64>() - if failed { 2.0 } else { 0.0 },
            Outcome::NoisyOr => solved(0),
            Outcome::Majority => most(0),
            Outcome::Mixed => 1.0 - (1.0 - solved(0) * solved(1)) * (1.0 - most(2)),
        };
        let gate = if failed && outcome != Outcome::Linear { 0.1 * gate } else { gate };
        let together = |p: &&Pair| inside(p.first as usize) && inside(p.second as usize);
        gate + run.pairs.iter().filter(together).map(|p| p.weight).sum::<f64>()
    }

    /// Shapley values by the formula, over all coalitions of `n` players.
    fn brute(n: usize, worth: &dyn Fn(usize) -> f64) -> Vec<f64> {
        let factorial = |k: usize| (1..=k).map(|x| x as f64).product::<f64>();
        let marginal = |i: usize, set: usize| {
            let size = set.count_ones() as usize;
            let weight = factorial(size) * factorial(n - size - 1) / factorial(n);
            weight * (worth(set | 1 << i) - worth(set))
        };
        (0..n)
            .map(|i| (0..1 << n).filter(|set| set >> i & 1 == 0).map(|set| marginal(i, set)).sum())
            .collect()
    }

    /// Model; effect and agent of each event; pairs; the decisive error.
    type Drawn = (usize, Vec<(f64, u32)>, Vec<(u32, u32, f64)>, Option<u32>);

    fn random_parts() -> impl Strategy<Value = Drawn> {
        (0..4usize, 2..9usize).prop_flat_map(|(outcome, n)| {
            let effect = prop_oneof![1 => Just(0.0), 4 => -1.6..1.6_f64];
            let end = 0..n as u32;
            (
                Just(outcome),
                prop::collection::vec((effect, 0..4u32), n),
                prop::collection::vec((end.clone(), end.clone(), -0.5..0.5_f64), 0..4),
                prop::option::of(end),
            )
        })
    }

    fn parts(model: &Model, drawn: &Drawn) -> Parts {
        let part = |(i, &(effect, agent)): (usize, &(f64, u32))| Part {
            strength: model.strength(effect),
            subtask: model.subtask(i),
            agent,
        };
        Parts {
            events: drawn.1.iter().enumerate().map(part).collect(),
            pairs: (drawn.2.iter().filter(|p| p.0 != p.1))
                .map(|&(first, second, weight)| Pair { first, second, weight })
                .collect(),
            decisive: drawn.3,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]

        #[test]
        fn contributions_and_games_are_exact(drawn in random_parts()) {
            let (outcome, n) = (ALL[drawn.0], drawn.1.len());
            let model = Model::new(outcome, n, 0.2, 0.25);
            let run = parts(&model, &drawn);
            let mut contributions = Vec::new();
            model.contributions(&run, &mut contributions);
            let expected = brute(n, &|set| worth(outcome, &run, &|i| set >> i & 1 == 1));
            for (got, expected) in contributions.iter().zip(&expected) {
                prop_assert!((got - expected).abs() < 1e-12, "{contributions:?} {expected:?}");
            }
            let all = worth(outcome, &run, &|_| true);
            prop_assert!((contributions.iter().sum::<f64>() - all).abs() < 1e-12);
            let mut game = Game::default();
            prop_assert!(model.shapley(&run, &contributions, &mut game, 4));
            let agents = brute(4, &|set| worth(outcome, &run, &|i| set >> run.events[i].agent & 1 == 1));
            for (got, expected) in game.values.iter().zip(&agents) {
                prop_assert!((got - expected).abs() < 1e-12, "{:?} {agents:?}", game.values);
            }
            let mut progress = model.begin();
            for (i, part) in run.events.iter().enumerate() {
                let ends = run.pairs.iter().filter(|p| p.first.max(p.second) == i as u32);
                let pair = ends.map(|p| p.weight).sum();
                progress.add(part, run.decisive == Some(i as u32), Some(pair));
            }
            let end = model.value(&progress);
            prop_assert!(run.decisive.is_none() || (end - all).abs() < 1e-12 || outcome == Outcome::Linear);
            prop_assert!(run.decisive.is_some() || (end - all).abs() < 1e-12);
        }
    }

    #[test]
    fn golden_games() {
        // Noisy-or of .5 and .4: .40 and .30; majority of three equals: a third each.
        let part = |strength, subtask, agent| Part { strength, subtask, agent };
        let shapley = |outcome, n, parts: Vec<Part>| {
            let run = Parts { events: parts, ..Parts::default() };
            let model = Model::new(outcome, n, 0.2, 0.0);
            let (mut contributions, mut game) = (Vec::new(), Game::default());
            model.contributions(&run, &mut contributions);
            assert!(model.shapley(&run, &contributions, &mut game, n));
            (contributions, game.values)
        };
        let (events, agents) = shapley(Outcome::NoisyOr, 2, vec![part(0.5, 0, 0), part(0.4, 0, 1)]);
        for (got, expected) in events.iter().chain(&agents).zip([0.4, 0.3, 0.4, 0.3]) {
            assert!((got - expected).abs() < 1e-15, "{events:?} {agents:?}");
        }
        let thirds = (0..3).map(|k| part(1.0 - 1e-12, k, u32::from(k))).collect();
        let (events, agents) = shapley(Outcome::Majority, 3, thirds);
        assert!(events.iter().chain(&agents).all(|x| (x - 1.0 / 3.0).abs() < 1e-11), "{events:?}");
    }

    #[test]
    fn long_games_close_to_rounding() {
        // More events with an effect than the quadrature is exact for.
        for outcome in ALL {
            let n = 5000;
            let model = Model::new(outcome, n, 1.0, 0.5);
            let effect = |i: usize| ((i * 7919 % 1000) as f64 / 1000.0 - 0.5) * 1.6;
            let part = |i| Part { strength: model.strength(effect(i)), subtask: model.subtask(i), agent: 0 };
            let run = Parts { events: (0..n).map(part).collect(), decisive: Some(2500), ..Parts::default() };
            let mut contributions = Vec::new();
            model.contributions(&run, &mut contributions);
            let all = worth(outcome, &run, &|_| true);
            assert!((contributions.iter().sum::<f64>() - all).abs() < 1e-12, "{outcome:?}");
        }
    }

    #[test]
    fn large_teams_have_no_game_under_gates() {
        let run = Parts { events: vec![Part::default(); 13], ..Parts::default() };
        let mut game = Game::default();
        assert!(!Model::new(Outcome::Mixed, 13, 0.2, 0.0).shapley(&run, &[0.0; 13], &mut game, 13));
        assert!(Model::new(Outcome::Linear, 13, 0.2, 0.0).shapley(&run, &[0.0; 13], &mut game, 13));
    }
}
