//! Tests of difference rewards and Shapley values on games whose answer is known.

use proptest::prelude::*;

use super::*;
use crate::credit::methods::difference::Difference;
use crate::credit::methods::shapley::Shapley;
use crate::graph::NO_UNIT;
use crate::schema::Over;

/// A game by its definition: the value of a set of players, as bits.
struct Defined<'a> {
    n: usize,
    value: &'a (dyn Fn(u64) -> f64 + Sync),
}

impl Game for Defined<'_> {
    fn players(&self) -> usize {
        self.n
    }

    fn values(&mut self, members: &[u64], out: &mut [f64]) -> Result<()> {
        for (k, out) in out.iter_mut().enumerate() {
            *out = (self.value)((0..self.n).map(|p| (members[p] >> k & 1) << p).sum());
        }
        Ok(())
    }

    fn fork(&self) -> Option<Box<dyn Game + '_>> {
        Some(Box::new(Defined { n: self.n, value: self.value }))
    }
}

fn solved(
    method: &dyn GameMethod,
    n: usize,
    value: impl Fn(u64) -> f64 + Sync,
    given: &[(&str, Value)],
    threads: usize,
) -> Solution {
    let params = Params::check(method.info().params, given).unwrap();
    method.check(&params).unwrap();
    let run = Run::new(Some(threads)).unwrap();
    let row_of: Vec<u32> = (0..n as u32).collect();
    let players = Players { row_of: &row_of, n_units: n, ..Players::default() };
    let (empty, full) = (value(0), value((1 << n) - 1));
    let setting = Setting { players, empty, full, seed: 7, id: b"golden", run: &run };
    let mut out = Solution::default();
    out.clear(players.n_rows());
    method.solve(&mut Defined { n, value: &value }, &setting, &params, &mut out).unwrap().unwrap();
    assert_eq!(out.value.pop(), Some(0.0));
    out
}

fn noisy_or(p: &'static [f64]) -> impl Fn(u64) -> f64 + Sync {
    move |set| {
        1.0 - p
            .iter()
            .enumerate()
            .map(|(i, p)| if set >> i & 1 == 1 { 1.0 - p } else { 1.0 })
            .product::<f64>()
    }
}

fn glove(set: u64) -> f64 {
    f64::from(u8::from(set & 1 == 1 && set >> 1 != 0))
}

fn near(computed: &[f64], wanted: &[f64]) -> bool {
    computed.len() == wanted.len() && computed.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-12)
}

#[test]
fn golden_values() {
    let exact = |n, value: &(dyn Fn(u64) -> f64 + Sync)| solved(&Shapley, n, value, &[], 1).value;
    assert!(near(&exact(2, &noisy_or(&[0.5, 0.4])), &[0.4, 0.3]));
    let three = [0.109 / 0.3, 0.082 / 0.3, 0.037 / 0.3];
    assert!(near(&exact(3, &noisy_or(&[0.5, 0.4, 0.2])), &three));
    assert!(near(&exact(3, &|s| f64::from(u8::from(s.count_ones() > 1))), &[1.0 / 3.0; 3]));
    assert!(near(&exact(3, &glove), &[2.0 / 3.0, 1.0 / 6.0, 1.0 / 6.0]));
    assert!(exact(0, &|_| 3.0).is_empty());
    assert!(near(&exact(1, &|s| 2.0 + s as f64), &[1.0]));
    let removed = |baseline: &'static str| {
        let arguments = [("baseline", Value::Text(baseline.into()))];
        solved(&Difference, 3, noisy_or(&[0.5, 0.4, 0.2]), &arguments, 1).value
    };
    // 0.76 less the noisy-or of the two others
    assert!(near(&removed("remove"), &[0.24, 0.16, 0.06]) && near(&removed("mean"), &[0.12, 0.08, 0.03]));
}

#[test]
fn interactions_of_two_are_exact_with_one_antithetic_pair() {
    let pairs = |set: u64| {
        let has = |p: u64| f64::from(u8::from(set >> p & 1 == 1));
        has(0) * 3.0 + has(1) * has(2) * 5.0 - has(0) * has(3) * 2.0 + has(4) * has(0) * 0.25
    };
    let arguments = [("samples", Value::Int(2)), ("sampler", Value::Text("antithetic".into()))];
    let sampled = solved(&Shapley, 5, pairs, &arguments, 1);
    assert!(near(&sampled.value, &solved(&Shapley, 5, pairs, &[], 1).value));
    assert_eq!((sampled.n_samples, sampled.stderr[0].is_nan()), (Some(1), true));
}

#[test]
fn samples_that_cost_more_are_not_drawn() {
    let of_samples = |n: i64| [("samples", Value::Int(n))];
    assert_eq!(solved(&Shapley, 4, glove, &of_samples(4), 1).n_samples, None);
    assert_eq!(solved(&Shapley, 4, glove, &of_samples(3), 1).n_samples, Some(3));
    let forced = [("samples", Value::Int(9)), ("sampler", Value::Text("permutation".into()))];
    assert_eq!(solved(&Shapley, 3, glove, &forced, 1).n_samples, Some(9));
}

#[test]
fn parameters_that_do_not_go_together() {
    let fails = |arguments: &[(&str, Value)]| {
        let params = Params::check(Shapley.info().params, arguments).unwrap();
        Shapley.check(&params).unwrap_err().to_string()
    };
    let sampler = |name: &'static str| ("sampler", Value::Text(name.into()));
    assert!(fails(&[sampler("permutation")]).contains("needs samples"));
    assert!(fails(&[sampler("exact"), ("samples", Value::Int(4))]).contains("leave out samples"));
    assert!(fails(&[sampler("antithetic"), ("samples", Value::Int(5))]).contains("even number"));
}

/// Some game of `n` players whose values are whole numbers.
fn table(n: usize) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec((-50_i32..50).prop_map(f64::from), 1 << n)
}

/// The definition, order by order.
fn by_orders(n: usize, value: &dyn Fn(u64) -> f64) -> Vec<f64> {
    fn go(
        n: usize,
        set: u64,
        gains: &mut Vec<f64>,
        sum: &mut Vec<f64>,
        count: &mut f64,
        value: &dyn Fn(u64) -> f64,
    ) {
        if set.count_ones() as usize == n {
            sum.iter_mut().zip(gains.iter()).for_each(|(s, g)| *s += g);
            *count += 1.0;
        }
        for p in (0..n).filter(|p| set >> p & 1 == 0) {
            let with = set | 1 << p;
            gains[p] = value(with) - value(set);
            go(n, with, gains, sum, count, value);
        }
    }
    let (mut sum, mut count) = (vec![0.0; n], 0.0);
    go(n, 0, &mut vec![0.0; n], &mut sum, &mut count, value);
    sum.iter().map(|s| s / count).collect()
}

proptest! {
    #[test]
    fn exact_values_are_the_mean_over_all_orders(n in 1_usize..7, values in table(6)) {
        let value = |set: u64| values[set as usize];
        let computed = solved(&Shapley, n, value, &[], 1).value;
        for (computed, wanted) in computed.iter().zip(by_orders(n, &value)) {
            prop_assert!((computed - wanted).abs() < 1e-9, "{} {}", computed, wanted);
        }
    }

    /// Every order telescopes, so the sum is v(N) - v(0) whatever the samples: exactly so for whole numbers.
    #[test]
    fn samples_add_up_exactly(n in 1_usize..7, values in table(6), samples in 1_i64..100, antithetic: bool) {
        let samples = if antithetic { 2 * samples } else { samples + 1 };
        let sampler = if antithetic { "antithetic" } else { "permutation" };
        let arguments = [("samples", Value::Int(samples)), ("sampler", Value::Text(sampler.into()))];
        let value = |set: u64| values[set as usize];
        let solution = solved(&Shapley, n, value, &arguments, 1);
        let draws = solution.n_samples.unwrap() as f64;
        prop_assert_eq!(draws, if antithetic { samples as f64 / 2.0 } else { samples as f64 });
        let sum: f64 = solution.value.iter().map(|value| (value * draws * 2.0).round()).sum();
        prop_assert_eq!(sum, 2.0 * draws * (values[(1 << n) - 1] - values[0]));
        for threads in [2, 7] {
            let again = solved(&Shapley, n, value, &arguments, threads);
            prop_assert_eq!(&solution.value, &again.value);
            prop_assert_eq!(format!("{:?}", &solution.stderr), format!("{:?}", &again.stderr));
        }
    }

    /// Symmetric players get the same, a player without effect exactly what rounding leaves, sums of games add.
    #[test]
    fn axioms(values in table(5), other in table(5), swap in 0_usize..4) {
        let value = |set: u64| values[set as usize];
        let swapped = |set: u64| {
            let (a, b) = (set >> swap & 1, set >> (swap + 1) & 1);
            let set = set & !(3 << swap) | b << swap | a << (swap + 1);
            value(set)
        };
        let both = |set: u64| value(set) + swapped(set);
        let computed = solved(&Shapley, 5, both, &[], 1).value;
        prop_assert!((computed[swap] - computed[swap + 1]).abs() < 1e-9);
        let without = |set: u64| value(set & !(1 << swap));
        prop_assert!(solved(&Shapley, 5, without, &[], 1).value[swap].abs() < 1e-9);
        prop_assert!(solved(&Difference, 5, without, &[], 1).value[swap] == 0.0);
        let sum = solved(&Shapley, 5, |set| value(set) + 3.0 * other[set as usize], &[], 1).value;
        let (one, two) =
            (solved(&Shapley, 5, value, &[], 1).value, solved(&Shapley, 5, |set| other[set as usize], &[], 1).value);
        for p in 0..5 {
            prop_assert!((sum[p] - one[p] - 3.0 * two[p]).abs() < 1e-9);
        }
        let full: f64 = computed.iter().sum();
        prop_assert!((full - both(31) + both(0)).abs() < 1e-9);
    }

    #[test]
    fn shares_of_a_role_have_the_error_of_their_sum(values in table(4), samples in 2_i64..80) {
        let params = Params::check(
            Shapley.info().params,
            &[("samples", Value::Int(samples)), ("sampler", Value::Text("permutation".into()))],
        ).unwrap();
        let run = Run::new(Some(1)).unwrap();
        let value = |set: u64| values[set as usize];
        let solve = |row_of: &[u32], n_units| {
            let players = Players { row_of, n_units, ..Players::default() };
            let setting = Setting { players, empty: value(0), full: value(15), seed: 7, id: b"x", run: &run };
            let mut out = Solution::default();
            out.clear(players.n_rows());
            Shapley.solve(&mut Defined { n: 4, value: &value }, &setting, &params, &mut out).unwrap().unwrap();
            out
        };
        // all in one row: the sum is the same in every order, and so without an error
        let team = solve(&[0; 4], 1);
        prop_assert_eq!((team.value[0], team.stderr[0]), (value(15) - value(0), 0.0));
        prop_assert!(team.stderr[1].is_nan());
        let (each, roles) = (solve(&[0, 1, 2, 3], 4), solve(&[0, 0, 1, 1], 1));
        prop_assert!((roles.value[0] - each.value[0] - each.value[1]).abs() < 1e-9);
        prop_assert!((roles.value[1] - each.value[2] - each.value[3]).abs() < 1e-9, "those of no role have a row");
    }
}

#[test]
fn who_plays_at_every_level() {
    use crate::graph::test_trace::TestTrace;
    use crate::graph::{Partition, TraceGraph};
    let t = TestTrace::artifact();
    let cast = |unit, root| {
        let (mut graph, mut partition, mut cast) =
            (TraceGraph::default(), Partition::default(), Cast::default());
        graph.begin();
        partition.compute(unit, &t.view(), &mut graph);
        let needs = Needs { unions: true, links: true, parents: true };
        cast.compute(&t.view(), unit, &partition, &mut graph, (root, Over::All), needs);
        cast
    };
    let agents = cast(Unit::Agent, true);
    assert_eq!(agents.player_of(), [0, 0, 0, 1, 2, 2, 2, 0]);
    assert_eq!((agents.players().row_of, agents.players().unions), (&[0, 1, 2][..], &[0, 1, 2][..]));
    assert_eq!(agents.players().parents, [NO_UNIT, 0, 0]);
    assert_eq!(agents.players().links, [(0, 1), (0, 2), (1, 2)]);
    let others = cast(Unit::Agent, false);
    assert_eq!(others.player_of(), [NO_UNIT, NO_UNIT, NO_UNIT, 0, 1, 1, 1, NO_UNIT]);
    assert_eq!((others.players().row_of, others.fixed()), (&[1, 2][..], &[true, false, false][..]));
    assert_eq!((others.players().parents, others.players().links), (&[NO_UNIT; 2][..], &[(0, 1)][..]));
    assert_eq!(cast(Unit::Team, true).players().row_of, [0, 0, 0]);
    assert_eq!(cast(Unit::Role, true).players().row_of, [0, 1, 2]);
    let tools = cast(Unit::Tool, true);
    assert_eq!((tools.players().len(), tools.player_of()[4..6].to_vec()), (1, vec![0, 0]));
    let events = cast(Unit::Event, true);
    assert_eq!((events.players().len(), events.players().agents), (8, &[0, 0, 0, 1, 2, 2, 2, 0][..]));
    assert_eq!(cast(Unit::Event, false).players().row_of, [3, 4, 5, 6]);
}
