//! The spread of corruption within a run (D19). O(|V|+|E|).
//!
//! Seeds are corrupted events without a corrupted ancestor; amplification is the number of corrupted events beyond them,
//! for each seed. An event without the flag is clean in a trace some event of which has it. This is not the relative
//! error amplification between teams and single agents that others publish: that one compares error rates of two systems.

use crate::error::Reason;
use crate::graph::{NOBODY, Order};
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::options::Options;
use crate::metrics::subject::Subject;

/// Spread of corruption.
#[derive(Debug)]
pub struct Errors;

static INFO: GroupInfo = GroupInfo {
    name: "errors",
    cost: Cost::Linear,
    reference: "D19; arXiv 2605.02801, Table 13",
    metrics: &[
        Metric { name: "n_corrupted", count: Count::Things, summary: "corrupted events" },
        Metric {
            name: "error_amplification",
            count: Count::Ratio,
            summary: "corrupted events downstream of others, per seed (corrupted event without a corrupted ancestor); \
                      0 without seeds",
        },
        Metric {
            name: "potential_amplification",
            count: Count::Ratio,
            summary: "all events downstream of such a seed, per seed; 0 without seeds",
        },
        Metric {
            name: "error_depth",
            count: Count::Things,
            summary: "edges from the nearest seed to the farthest corrupted event",
        },
        Metric {
            name: "containment",
            count: Count::Ratio,
            summary: "1 - error_amplification / potential_amplification; null if nothing could spread",
        },
        Metric {
            name: "correction_sites",
            count: Count::Things,
            summary: "clean events with a corrupted predecessor",
        },
    ],
};

impl Group for Errors {
    fn info(&self) -> &'static GroupInfo {
        &INFO
    }

    fn worker(&self, _: &Options) -> Box<dyn Measure> {
        Box::<Worker>::default()
    }
}

#[derive(Debug, Default)]
struct Worker {
    /// Edges from the nearest seed; of an event that is behind none [`NOBODY`].
    hops: Vec<u32>,
}

impl Measure for Worker {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let corrupted = subject.view.corrupted;
        let n = subject.view.len();
        if (0..n).all(|v| corrupted.get(v).is_none()) {
            return;
        }
        let is = |v: usize| corrupted.get(v) == Some(true);
        let all = (0..n).filter(|&v| is(v)).count();
        out.count(0, all);
        let Some(order) = subject.order() else { return out.all_absent(1..6, Reason::GraphCycle) };
        self.hops.clear();
        self.hops.resize(n, NOBODY);
        let hops = &mut self.hops;
        let (mut seeds, mut behind, mut spread, mut sites, mut deepest) = (0_usize, 0, 0, 0, 0);
        let mut place = |v: usize| {
            let inputs = subject.graph().predecessors_of(v);
            // what is behind a seed has hops of at least 1; NOBODY is more than any
            let near = inputs.iter().map(|&u| hops[u as usize]).min().unwrap_or(NOBODY);
            let bad = is(v);
            if near != NOBODY {
                hops[v] = near + 1;
                spread += 1;
                behind += usize::from(bad);
            } else if bad {
                hops[v] = 0;
                seeds += 1;
            }
            if bad {
                deepest = deepest.max(hops[v]);
            } else {
                sites += usize::from(inputs.iter().any(|&u| is(u as usize)));
            }
        };
        match order {
            Order::Document(n) => (0..n).for_each(&mut place),
            Order::Listed(rows) => rows.iter().for_each(|&v| place(v as usize)),
        }
        let each = |of: usize| if seeds == 0 { 0.0 } else { of as f64 / seeds as f64 };
        out.set(1, each(behind));
        out.set(2, each(spread));
        out.set(3, f64::from(deepest));
        out.ratio(4, (spread - behind) as f64, spread as f64);
        out.count(5, sites);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::test_trace::TestTrace;
    use crate::metrics::testing::{Measured, measured};
    use crate::schema::EdgeType;

    const N: usize = INFO.metrics.len();

    fn errors(t: &TestTrace) -> Vec<Measured> {
        measured(&Errors, t)
    }

    fn values(of: [f64; N]) -> Vec<Measured> {
        of.into_iter().map(Ok).collect()
    }

    #[test]
    fn a_chain_amplifies_by_its_length() {
        // 0 -> 1 -> 2 -> 3 -> 4: 1, 2, 3 corrupted, 4 corrects
        let mut t = TestTrace::events(5);
        (0..4).for_each(|v| {
            t.edge(v, v + 1, EdgeType::Causal);
        });
        (0..5).for_each(|v| t.flag_corrupted(v, (1..4).contains(&v)));
        assert_eq!(errors(&t), values([3.0, 2.0, 3.0, 2.0, 1.0 / 3.0, 1.0]));
        // time runs backwards through the document: nothing changes
        let mut back = TestTrace::events(5);
        (0..4).for_each(|v| {
            back.edge(v + 1, v, EdgeType::Causal);
        });
        (0..5).for_each(|v| back.flag_corrupted(v, (1..4).contains(&v)));
        assert_eq!(errors(&back), values([3.0, 2.0, 3.0, 2.0, 1.0 / 3.0, 1.0]));
    }

    #[test]
    fn two_seeds_with_descendants_of_their_own() {
        // seed 0 with 1, 2 corrupted; seed 3 with 4 corrupted and 5 clean; 6 is nobody's
        let mut t = TestTrace::events(7);
        t.edge(0, 1, EdgeType::Message).edge(1, 2, EdgeType::Temporal);
        t.edge(3, 4, EdgeType::Causal).edge(3, 5, EdgeType::Causal);
        for v in [0, 1, 2, 3, 4] {
            t.flag_corrupted(v, true);
        }
        assert_eq!(errors(&t), values([5.0, 1.5, 2.0, 2.0, 0.25, 1.0]));
    }

    #[test]
    fn corruption_behind_a_clean_event_has_its_seed_before_it() {
        // 0 corrupted -> 1 clean -> 2 corrupted, 3 corrupted alone
        let mut t = TestTrace::events(4);
        t.edge(0, 1, EdgeType::Causal).edge(1, 2, EdgeType::Causal);
        for v in [0, 2, 3] {
            t.flag_corrupted(v, true);
        }
        assert_eq!(errors(&t), values([3.0, 0.5, 1.0, 2.0, 0.5, 1.0]));
    }

    #[test]
    fn nothing_corrupted_is_0_and_nothing_said_is_null() {
        let mut t = TestTrace::artifact();
        assert_eq!(errors(&t), vec![Err(Reason::FieldAbsent); N]);
        t.flag_corrupted(3, false);
        let mut expected = values([0.0; N]);
        expected[4] = Err(Reason::RatioEmpty);
        assert_eq!(errors(&t), expected);
        // no edges: a seed that nothing is behind
        let mut alone = TestTrace::events(2);
        alone.flag_corrupted(0, true);
        expected[0] = Ok(1.0);
        assert_eq!(errors(&alone), expected);
        alone.edge(0, 0, EdgeType::Causal);
        let mut cyclic = vec![Err(Reason::GraphCycle); N];
        cyclic[0] = Ok(1.0);
        assert_eq!(errors(&alone), cyclic);
    }
}
