//! Faithfulness: whether the outcome needs the events that a method credits most.
//!
//! ```text
//! deletion:   v after the first ⌊k n/S⌋ events in order of credit are taken out of all, k = 0..S
//! insertion:  v when only these are there
//! area = ((f_0 + f_S)/2 + f_1 + … + f_{S-1}) / S,   gap = mean of (random - deletion, insertion - random)
//! ```
//!
//! v is the structural surrogate with an absent event at 0 (deletion of single events, their successors stay). Faithful
//! credit falls off at once when its best events go and rises at once when they come: a small deletion area, a large
//! insertion area, a gap above 0; a random order has a gap around 0. The random areas are means over M keyed orders
//! of each trace. Events of equal credit come in these same orders, one after the other, and the areas are means over
//! them, so that row order decides nothing and credit that is equal throughout has a gap of exactly 0.
//!
//! O((|V|+|E|) S M) a trace, eight points of a curve at a time. References: deletion and insertion: V. Petsiuk, A. Das,
//! K. Saenko, RISE, arXiv 1806.07421, section 4.1; W. Samek et al., IEEE TNNLS 28(11), 2017; v:
//! docs/reference/definitions.md, D15.

use std::ops::Range;

use arrow_array::{Array, Float64Array};

use crate::error::{Error, Result};
use crate::graph::{GraphOptions, TraceGraph};
use crate::rng::Stream;
use crate::run::Run;
use crate::schema::{FAITHFULNESS, Reason};
use crate::store::Store;
use crate::store::view::TraceView;
use crate::surrogate::{MAX_SETS, Structure, Surrogate};
use crate::tables::{Batches, Columns, Part, table};

/// The options of the computation.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The surrogate.
    pub structure: Structure,
    /// Parts S in which events go and come, at least 1.
    pub steps: u32,
    /// Random orders M of each trace, at least 1.
    pub orders: u32,
    /// Of the random orders.
    pub seed: u64,
    /// Whether consecutive events of one owner are joined (D3).
    pub program_order: bool,
}

impl Options {
    fn check(&self) -> Result<()> {
        for (name, value, most) in [("steps", self.steps, 10_000), ("orders", self.orders, 100_000)] {
            if value == 0 || value > most {
                return Err(Error::Parameter(format!("{name} is {value}, expected 1 to {most}")));
            }
        }
        self.structure.check()
    }
}

/// Areas under the curves of one trace.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Areas {
    /// Under the curve of deletion.
    pub deletion: f64,
    /// Under the curve of insertion.
    pub insertion: f64,
}

impl Areas {
    fn add(&mut self, other: Self) {
        self.deletion += other.deletion;
        self.insertion += other.insertion;
    }

    fn over(self, n: u32) -> Self {
        Self { deletion: self.deletion / f64::from(n), insertion: self.insertion / f64::from(n) }
    }
}

/// A worker's buffers.
#[derive(Debug, Default)]
pub struct Curves {
    graph: TraceGraph,
    /// Events, best first.
    ranked: Vec<u32>,
    random: Vec<u32>,
    present: Vec<u64>,
}

impl Curves {
    /// Areas in the order of credit and, as a mean, in random orders. `credit` has a value for every event of `view`;
    /// a null or NaN refuses the trace, negative infinity is below every credit.
    pub fn areas(
        &mut self,
        view: &TraceView<'_>,
        credit: impl Fn(usize) -> Option<f64>,
        options: &Options,
    ) -> std::result::Result<(Areas, Areas), Reason> {
        let n = view.len();
        if (0..n).any(|v| credit(v).is_none_or(f64::is_nan)) {
            return Err(Reason::FieldAbsent);
        }
        let Self { graph, ranked, random, present } = self;
        graph.begin();
        let outcome = graph.outcome(view)?;
        let weights = Some(options.structure.weights.table());
        graph.build(view, GraphOptions { program_order: options.program_order, weights });
        let (_, _, surrogate) =
            graph.surrogate(view, outcome, &options.structure).ok_or(Reason::GraphCycle)?;
        let mut curve = Curve { surrogate, present, ends: [0.0; 2], steps: options.steps as usize, n };
        curve.ends();
        let descending = |a: &u32, b: &u32| {
            credit(*b as usize).partial_cmp(&credit(*a as usize)).unwrap_or(std::cmp::Ordering::Equal)
        };
        random.clear();
        random.extend(0..n as u32);
        ranked.clear();
        ranked.extend_from_slice(random);
        ranked.sort_by(descending);
        let tied = ranked.windows(2).any(|w| credit(w[0] as usize) == credit(w[1] as usize));
        let (mut own, mut chance) = (Areas::default(), Areas::default());
        if !tied {
            own = curve.areas(ranked);
        }
        let mut stream = Stream::new(options.seed, "faithfulness", view.trace_id.as_bytes());
        for _ in 0..options.orders {
            stream.shuffle(random);
            chance.add(curve.areas(random));
            if tied {
                ranked.copy_from_slice(random);
                ranked.sort_by(descending); // stable: what is tied stays in the random order
                own.add(curve.areas(ranked));
            }
        }
        Ok((if tied { own.over(options.orders) } else { own }, chance.over(options.orders)))
    }
}

/// The two curves of one trace along any order of its events.
struct Curve<'a> {
    surrogate: &'a mut Surrogate,
    /// The sets that each event is in.
    present: &'a mut Vec<u64>,
    /// v of nothing and of everything, where both curves begin and end.
    ends: [f64; 2],
    steps: usize,
    n: usize,
}

impl Curve<'_> {
    fn ends(&mut self) {
        self.present.clear();
        self.present.resize(self.n, 0b10);
        self.surrogate.values(self.present, &mut self.ends);
    }

    fn areas(&mut self, ranked: &[u32]) -> Areas {
        let half = f64::midpoint(self.ends[0], self.ends[1]);
        let mut sum = Areas { deletion: half, insertion: half };
        let mut values = [0.0; MAX_SETS];
        let mut from = 1;
        while from < self.steps {
            let points = from..self.steps.min(from + MAX_SETS / 2);
            self.place(ranked, &points);
            let values = &mut values[..2 * points.len()];
            self.surrogate.values(self.present, values);
            let (deletion, insertion) = values.split_at(points.len());
            sum.deletion += deletion.iter().sum::<f64>();
            sum.insertion += insertion.iter().sum::<f64>();
            from = points.end;
        }
        sum.over(self.steps as u32)
    }

    /// Sets of the points `k` of deletion, then those of insertion.
    fn place(&mut self, ranked: &[u32], points: &Range<usize>) {
        let sets = points.len();
        let all = (1_u64 << sets) - 1;
        for (rank, &event) in ranked.iter().enumerate() {
            // ⌊k n/S⌋ > rank from this k on
            let goes = ((rank + 1) * self.steps).div_ceil(self.n);
            let stays = (1_u64 << goes.clamp(points.start, points.end).saturating_sub(points.start)) - 1;
            self.present[event as usize] = stays | (all & !stays) << sets;
        }
    }
}

/// Areas of all traces of a store, a batch for each chunk, in the columns of [`FAITHFULNESS`]. `credits` has a value
/// for every event, in the order of the table `events`. Random orders hang on the seed and the trace's id.
pub fn faithfulness(store: &Store, credits: &Float64Array, options: &Options, run: &Run) -> Result<Batches> {
    options.check()?;
    store.expect_whole()?;
    if credits.len() != store.n_events() {
        return Err(Error::Parameter(format!(
            "found {} credits, expected one for each of {} events",
            credits.len(),
            store.n_events()
        )));
    }
    let of = |curves: &mut Curves, rows: &mut Vec<Answer>, part: &Part<'_>, i: usize| {
        let first = part.first_event(i);
        let credit = |v: usize| credits.is_valid(first + v).then(|| credits.value(first + v));
        rows.push(curves.areas(&part.trace(i), credit, options));
        Ok(())
    };
    table(store, run, FAITHFULNESS.arrow(), Default::default, of, |columns, part, rows| {
        set(columns, part, &rows)
    })
}

/// Areas by the credit, and by chance.
type Answer = std::result::Result<(Areas, Areas), Reason>;

fn set(columns: Columns, part: &Part<'_>, rows: &[Answer]) -> Result<Columns> {
    let each = |f: fn(Areas, Areas) -> f64| rows.iter().map(move |areas| areas.ok().map(|(a, b)| f(a, b)));
    let gap = |ranked: Areas, chance: Areas| {
        f64::midpoint(chance.deletion - ranked.deletion, ranked.insertion - chance.insertion)
    };
    columns
        .shared(&["trace", "trace_id"], &part.chunk.traces)
        .numbers("deletion", each(|ranked, _| ranked.deletion))
        .numbers("insertion", each(|ranked, _| ranked.insertion))
        .numbers("deletion_random", each(|_, chance| chance.deletion))
        .numbers("insertion_random", each(|_, chance| chance.insertion))
        .numbers("gap", each(gap))
        .reasons(rows.iter().map(|areas| areas.err()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::TYPE_WEIGHTS;
    use crate::graph::test_trace::{TestTrace, decided_trace};
    use crate::schema::{EdgeType, EventType};
    use crate::surrogate::Model;
    use proptest::prelude::*;

    const OPTIONS: Options = Options {
        structure: Structure::of(Model::NoisyOr),
        steps: 20,
        orders: 16,
        seed: 0,
        program_order: false,
    };

    fn areas(t: &TestTrace, credit: &[f64], options: Options) -> (Areas, Areas) {
        Curves::default().areas(&t.view(), |v| Some(credit[v]), &options).unwrap()
    }

    /// Three events of which the second alone leads to the outcome, the third.
    fn one_matters() -> TestTrace {
        let mut t = TestTrace::events(2);
        t.event(EventType::Aggregate, "a").edge(1, 2, EdgeType::Causal);
        t
    }

    #[test]
    fn golden() {
        let options = Options { steps: 3, ..OPTIONS };
        // best first: y, its input, the idle one. v without y is 0; with y alone 0, with both 1
        let (own, _) = areas(&one_matters(), &[0.0, 0.4, 0.6], options);
        assert!((own.deletion - 0.5 / 3.0).abs() < 1e-15);
        assert!((own.insertion - 1.5 / 3.0).abs() < 1e-15);
        // the idle one first: it takes nothing and brings nothing
        let (own, _) = areas(&one_matters(), &[0.9, 0.4, 0.6], options);
        assert!((own.deletion - 1.5 / 3.0).abs() < 1e-15);
        assert!((own.insertion - 0.5 / 3.0).abs() < 1e-15);
        // one step sees the two ends
        let (own, chance) = areas(&one_matters(), &[0.9, 0.4, 0.6], Options { steps: 1, ..OPTIONS });
        assert_eq!((own.deletion, own.insertion, own), (0.5, 0.5, chance));
    }

    #[test]
    fn random_orders_approach_their_expectation() {
        // of the 6 orders of three events the idle one is third in 2, second in 2, first in 2:
        // deletion areas 1/6, 1/6, 1/2 and insertion areas 1/2, 1/6, 1/6
        let options = Options { steps: 3, orders: 20_000, ..OPTIONS };
        let (own, chance) = areas(&one_matters(), &[0.0; 3], options);
        assert_eq!(own, chance);
        let want = (1.0 / 6.0 + 1.0 / 6.0 + 0.5) / 3.0;
        // six standard errors: the spread of one order is below 0.16
        assert!((chance.deletion - want).abs() < 0.007 && (chance.insertion - want).abs() < 0.007);
    }

    #[test]
    fn what_has_no_credit_is_refused() {
        let t = one_matters();
        let of = |values: [Option<f64>; 3]| Curves::default().areas(&t.view(), |v| values[v], &OPTIONS);
        assert_eq!(of([Some(1.0), None, Some(0.0)]), Err(Reason::FieldAbsent));
        assert_eq!(of([Some(1.0), Some(f64::NAN), Some(0.0)]), Err(Reason::FieldAbsent));
        of([Some(1.0), Some(f64::NEG_INFINITY), Some(0.0)]).unwrap();
        let mut cycle = one_matters();
        cycle.edge(2, 2, EdgeType::Causal);
        assert_eq!(Curves::default().areas(&cycle.view(), |_| Some(0.0), &OPTIONS), Err(Reason::GraphCycle));
    }

    #[test]
    fn options_have_bounds() {
        for (steps, orders) in [(0, 1), (1, 0), (10_001, 1), (1, 100_001)] {
            assert!(Options { steps, orders, ..OPTIONS }.check().is_err());
        }
        OPTIONS.check().unwrap();
    }

    proptest! {
        #[test]
        fn equals_one_set_after_the_other(
            t in decided_trace(25, true),
            credit in prop::collection::vec(0.0..1.0_f64, 25),
            steps in 1_u32..90,
        ) {
            let n = t.t.len();
            let (own, chance) = areas(&t, &credit, Options { steps, orders: 3, ..OPTIONS });
            let mut graph = TraceGraph::default();
            graph.begin();
            let outcome = graph.outcome(&t.view()).unwrap();
            graph.build(&t.view(), GraphOptions { program_order: false, weights: Some(&TYPE_WEIGHTS) });
            let surrogate = graph.surrogate(&t.view(), outcome, &Structure::default()).unwrap().2;
            let mut ranked: Vec<usize> = (0..n).collect();
            ranked.sort_by(|&a, &b| credit[b].total_cmp(&credit[a]));
            let mut curve = |is_there: &dyn Fn(usize, usize) -> bool| -> Vec<f64> {
                (0..=steps as usize).map(|k| {
                    let gone = k * n / steps as usize;
                    let mut masks = vec![0; n];
                    ranked.iter().enumerate().for_each(|(rank, &v)| masks[v] = u64::from(is_there(rank, gone)));
                    let mut out = [0.0];
                    surrogate.values(&masks, &mut out);
                    out[0]
                }).collect()
            };
            let area = |f: &[f64]| f.windows(2).map(|w| f64::midpoint(w[0], w[1])).sum::<f64>() / f64::from(steps);
            let deletion = curve(&|rank, gone| rank >= gone);
            let insertion = curve(&|rank, gone| rank < gone);
            prop_assert!(deletion.is_sorted_by(|a, b| *b <= a + 1e-12) && insertion.is_sorted_by(|a, b| *a <= b + 1e-12));
            prop_assert!((own.deletion - area(&deletion)).abs() < 1e-12);
            prop_assert!((own.insertion - area(&insertion)).abs() < 1e-12);
            for area in [chance.deletion, chance.insertion] {
                prop_assert!((0.0..=1.0).contains(&area));
            }
        }

        #[test]
        fn scale_and_sign_of_the_reward(t in decided_trace(20, true), credit in prop::collection::vec(0_u8..4, 20)) {
            // only the order counts; turned around, what came in first goes first
            let up: Vec<f64> = credit.iter().map(|&c| f64::from(c)).collect();
            let scaled: Vec<f64> = up.iter().map(|c| 3.0 * c - 1.0).collect();
            prop_assert_eq!(areas(&t, &up, OPTIONS), areas(&t, &scaled, OPTIONS));
        }
    }
}
