//! Steering by interventions: their reach, the work they undo, and the point of no return.
//!
//! ```text
//! reach(v) = |descendants of v| / (|V| - 1)
//! invalidation at s: mean over events v before s of |descendants of v before s| / (|events before s| - 1)
//! ```
//!
//! s is the middle of the run's time, or another share of it ([`Options::intervention_at`]). The point of no return is the
//! time of the last event, the outcome itself left out, whose absence changes the outcome under the default structural
//! surrogate (D15, with recorded scores kept): an assumed model. O(|V| |E| / 64) for reach, O(|V| (|V|+|E|) / 8) at most
//! for the point of no return, most often one pass; null where that visits more events and edges than
//! [`Visits::MOST_VISITS`].

use std::ops::ControlFlow;

use crate::error::Reason;
use crate::graph::{Order, Outcome};
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::options::Options;
use crate::metrics::subject::Subject;
use crate::replay::schedule::durations::ends;
use crate::replay::structural::Absences;
use crate::surrogate::Cost as Visits;

/// Steering.
#[derive(Debug)]
pub struct Steering;

/// Less than this is rounding, no change of the outcome (D22).
const ROUNDING: f64 = 1e-12;

/// Sources of one pass.
const LANES: usize = 64;

static INFO: GroupInfo = GroupInfo {
    name: "steering",
    cost: Cost::SuperLinear,
    reference: "D15; arXiv 2605.02801 (P13)",
    metrics: &[
        Metric {
            name: "reach_mean",
            count: Count::Ratio,
            summary: "share of the other events that are downstream of an event, averaged over events",
        },
        Metric {
            name: "reach_root",
            count: Count::Ratio,
            summary: "share of the other events that are downstream of the root agent's first event",
        },
        Metric {
            name: "invalidation",
            count: Count::Ratio,
            summary: "share of the other events before mid-run that changing one would undo, averaged over events",
        },
        Metric {
            name: "point_of_no_return",
            count: Count::Clock,
            summary: "time, in the unit of t, from the first event to the last whose absence changes the outcome",
        },
        Metric {
            name: "point_of_no_return_share",
            count: Count::Ratio,
            summary: "that time / time to the last event",
        },
    ],
};

impl Group for Steering {
    fn info(&self) -> &'static GroupInfo {
        &INFO
    }

    fn worker(&self, options: &Options) -> Box<dyn Measure> {
        Box::new(Worker { options: options.clone(), ..Worker::default() })
    }
}

#[derive(Debug, Default)]
struct Worker {
    options: Options,
    absences: Absences,
    rows: Vec<u32>,
    masks: Vec<u64>,
    seen: Vec<bool>,
    stack: Vec<u32>,
}

impl Measure for Worker {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let Some(order) = subject.order() else { return out.all_absent(0..5, Reason::GraphCycle) };
        let n = subject.view.len();
        let passes = Visits::of(n.div_ceil(LANES));
        if passes.times(Visits::of(n + subject.graph().n_edges())) > Visits::MOST_VISITS {
            return out.all_absent(0..5, Reason::BudgetExceeded);
        }
        self.rows.clear();
        match order {
            Order::Document(n) => self.rows.extend(0..n as u32),
            Order::Listed(rows) => self.rows.extend_from_slice(rows),
        }
        let t = subject.view.t;
        let (first, last) = ends(t);
        let at = first + self.options.intervention_at.unwrap_or(0.5) * (last - first);
        let (all, done) = self.descendants(subject, |v| t[v] < at);
        let others = n.saturating_sub(1) as f64;
        out.ratio(0, all as f64, n as f64 * others);
        match subject.owners.order().rows().iter().find(|&&v| subject.owner(v as usize) == subject.root()) {
            Some(&v) => out.ratio(1, self.behind(subject, v) as f64, others),
            None => out.absent(1, Reason::RatioEmpty),
        }
        let before = t.iter().filter(|&&t| t < at).count();
        out.ratio(2, done as f64, before as f64 * before.saturating_sub(1) as f64);
        match self.point_of_no_return(subject) {
            Err(reason) => out.all_absent(3..5, reason),
            Ok(v) => {
                out.set(3, t[v as usize] - first);
                out.ratio(4, t[v as usize] - first, last - first);
            }
        }
    }
}

impl Worker {
    /// Pairs of an event and one behind it, and those both of which are `done`.
    fn descendants(&mut self, subject: &Subject<'_>, done: impl Fn(usize) -> bool) -> (u64, u64) {
        let (mut all, mut both) = (0, 0);
        self.masks.clear();
        self.masks.resize(self.rows.len(), 0);
        for from in (0..self.rows.len()).step_by(LANES) {
            let mut sources_done = 0_u64;
            for (at, &v) in self.rows.iter().enumerate().skip(from) {
                let v = v as usize;
                let inputs = subject.graph().predecessors_of(v).iter();
                let mask = inputs.fold(0, |mask, &u| mask | self.masks[u as usize]);
                all += u64::from(mask.count_ones());
                both += if done(v) { u64::from((mask & sources_done).count_ones()) } else { 0 };
                let own_bit = if at - from < LANES { 1_u64 << (at - from) } else { 0 };
                sources_done |= if done(v) { own_bit } else { 0 };
                self.masks[v] = mask | own_bit;
            }
            // sources of this pass are behind those of the next ones nowhere
            for &v in &self.rows[from..self.rows.len().min(from + LANES)] {
                self.masks[v as usize] = 0;
            }
        }
        (all, both)
    }

    /// Events behind one.
    fn behind(&mut self, subject: &Subject<'_>, v: u32) -> usize {
        self.seen.clear();
        self.seen.resize(subject.graph().len(), false);
        self.stack.push(v);
        let mut n_behind = 0;
        while let Some(u) = self.stack.pop() {
            for &w in subject.graph().successors_of(u as usize) {
                if !std::mem::replace(&mut self.seen[w as usize], true) {
                    n_behind += 1;
                    self.stack.push(w);
                }
            }
        }
        n_behind
    }

    fn point_of_no_return(&mut self, subject: &Subject<'_>) -> Result<u32, Reason> {
        let outcome = subject.outcome()?;
        let leads = |v: u32| match outcome {
            Outcome::Event(y) => v != y && subject.live().get(v as usize) == Some(&true),
            Outcome::VirtualSink => true,
        };
        let latest_first = subject.owners.order().rows().iter().rev().copied().filter(|&v| leads(v));
        let mut latest = None;
        let result = self.absences.each(subject.view, self.options.program_order, latest_first, |v, lost| {
            if lost.abs() > ROUNDING {
                latest = Some(v);
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        });
        result.and(latest.ok_or(Reason::RatioEmpty))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::test_trace::{TestTrace, random_trace};
    use crate::metrics::testing::{measured, measured_with};
    use crate::schema::{EdgeType, EventType::*};
    use proptest::prelude::*;

    #[test]
    fn a_chain_of_five() {
        let mut t = TestTrace::events(4);
        t.event(Aggregate, "a");
        (0..4).for_each(|v| {
            t.edge(v, v + 1, EdgeType::Causal);
        });
        // t = 0..4: before 2 are two events, one behind the other
        assert_eq!(measured(&Steering, &t), [0.5, 1.0, 0.5, 3.0, 0.75].map(Ok));
        let late = Options { intervention_at: Some(0.9), ..Options::default() };
        assert_eq!(measured_with(&Steering, &t.view(), &late)[2], Ok(0.5), "six of twelve pairs");
        let early = Options { intervention_at: Some(0.0), ..Options::default() };
        assert_eq!(measured_with(&Steering, &t.view(), &early)[2], Err(Reason::RatioEmpty));
    }

    #[test]
    fn what_has_no_value_changes_nothing() {
        // the last input of the outcome is worth 0 already: the one before it is the last that matters
        let mut t = TestTrace::default();
        t.event(OrchestratorDecision, "a").event(Return, "b").score(1.0).event(Return, "b").score(0.0);
        t.event(Aggregate, "a").event(Message, "b");
        t.edge(1, 3, EdgeType::Aggregate).edge(2, 3, EdgeType::Aggregate);
        assert_eq!(measured(&Steering, &t)[3..], [Ok(1.0), Ok(0.25)]);
        let mut none = TestTrace::default();
        none.event(OrchestratorDecision, "a").event(Return, "b").score(0.0).event(Aggregate, "a");
        none.edge(1, 2, EdgeType::Aggregate);
        assert_eq!(measured(&Steering, &none)[3..], [Err(Reason::RatioEmpty); 2]);
    }

    #[test]
    fn artifact_example() {
        // 1, 2 behind 0; 3 to 7 behind all of them: 7 + 5 + 5 + 4 + 3 + 2 + 1 pairs of 56
        let values = measured(&Steering, &TestTrace::artifact());
        assert_eq!(values[..2], [Ok(27.0 / 56.0), Ok(1.0)]);
        // before 3.5 are four events: 0 before 1, 2, 3; 1 and 2 before 3
        assert_eq!(values[2..], [Ok(5.0 / 12.0), Ok(6.0), Ok(6.0 / 7.0)]);
        let single = TestTrace::events(1);
        let none = Err(Reason::RatioEmpty);
        assert_eq!(measured(&Steering, &single), [none, none, none, Ok(0.0), none]);
        let mut cyclic = single;
        cyclic.edge(0, 0, EdgeType::Causal);
        assert_eq!(measured(&Steering, &cyclic), [Err(Reason::GraphCycle); 5]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        #[test]
        fn reach_counts_pairs(t in random_trace(150, true)) {
            let n = t.t.len();
            let mut reach = vec![vec![false; n]; n];
            for _ in 0..n {
                let mut grew = false;
                for (&s, &d) in t.src.iter().zip(&t.dst) {
                    for (u, reached) in reach.iter_mut().enumerate() {
                        let new = (u == s as usize || reached[s as usize]) && !reached[d as usize];
                        reached[d as usize] |= new;
                        grew |= new;
                    }
                }
                if !grew { break; }
            }
            let pairs = reach.iter().flatten().filter(|&&r| r).count() as f64;
            let values = measured(&Steering, &t);
            if n > 1 {
                prop_assert_eq!(values[0], Ok(pairs / (n as f64 * (n as f64 - 1.0))));
            }
            let (first, last) = ends(&t.t);
            let middle = first + 0.5 * (last - first);
            let done: Vec<bool> = t.t.iter().map(|&t| t < middle).collect();
            let both = (0..n).flat_map(|u| (0..n).map(move |v| (u, v)));
            let both = both.filter(|&(u, v)| done[u] && done[v] && reach[u][v]).count() as f64;
            let m = done.iter().filter(|&&d| d).count() as f64;
            if m > 1.0 {
                prop_assert_eq!(values[2], Ok(both / (m * (m - 1.0))));
            }
        }
    }
}
