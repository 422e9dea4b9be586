//! Drag of critical-path events: what each adds to the span (a term of project scheduling).
//!
//! ```text
//! drag(v) = T∞ - longest path with d(v) = 0 = min(d(v), T∞ - longest path without v)
//! longest path without v = max(F of an event before v, B of one behind it, F(u) + B(w) over edges from before to behind)
//! ```
//!
//! Before and behind are by position in a topological order, F(u) is the longest path that ends with u, B(w) the longest
//! that begins with w: a path without v stays before it, or behind it, or jumps over it by exactly one edge. One sweep,
//! edges that jump in a heap, O(|E| log |E|). Drag is 0 off the path, and where another path is as long. References: S. A.
//! Devaux, Total Project Control, 1999 (drag); Kelley and Walker 1959 (the path).

use std::collections::BinaryHeap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;

use crate::error::Result;
use crate::graph::{CsrGraph, Order};
use crate::metrics::event_rows::event_rows;
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::options::Options;
use crate::metrics::subject::Subject;
use crate::replay::schedule::span::Weighted;
use crate::run::Run;
use crate::store::Store;

/// Of the span, what is less than this share of it is rounding.
const ROUNDING: f64 = 1e-12;

/// Drag.
#[derive(Debug)]
pub struct Drag;

static INFO: GroupInfo = GroupInfo {
    name: "drag",
    cost: Cost::SuperLinear,
    reference: "Devaux 1999; Kelley and Walker 1959",
    metrics: &[
        Metric {
            name: "drag_max",
            count: Count::Time,
            summary: "largest reduction of the span if one event took no time",
        },
        Metric {
            name: "drag_total",
            count: Count::Time,
            summary: "sum of these reductions over the events on the critical path",
        },
    ],
};

impl Group for Drag {
    fn info(&self) -> &'static GroupInfo {
        &INFO
    }

    fn worker(&self, _: &Options) -> Box<dyn Measure> {
        Box::<Drags>::default()
    }
}

impl Measure for Drags {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        match subject.scheduled() {
            Err(reason) => out.all_absent(0..2, reason),
            Ok((order, timing)) => {
                let drags = self.compute(subject.graph(), order, &timing.duration, &subject.slack().path);
                out.set(0, drags.iter().copied().fold(0.0, f64::max));
                out.set(1, drags.iter().sum());
            }
        }
    }
}

/// Drags of one trace; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct Drags {
    /// Position of each event in the order, and the event at each position.
    place: Vec<u32>,
    rows: Vec<u32>,
    /// Longest paths that end with each event, and that begin with it.
    ending: Vec<f64>,
    beginning: Vec<f64>,
    /// By position: the longest path behind it.
    behind: Vec<f64>,
    /// Lengths of paths, as bits, which order like the numbers, over edges that jump, and where they land.
    jumps: BinaryHeap<(u64, u32)>,
    of_event: Vec<f64>,
    of_path: Vec<f64>,
}

impl Drags {
    /// The drag of each event of `path`, which is in the order of the graph or against it.
    pub fn compute(&mut self, graph: &CsrGraph, order: Order<'_>, duration: &[f64], path: &[u32]) -> &[f64] {
        let n = graph.len();
        self.rows.clear();
        match order {
            Order::Document(n) => self.rows.extend(0..n as u32),
            Order::Listed(rows) => self.rows.extend_from_slice(rows),
        }
        self.place.clear();
        self.place.resize(n, 0);
        self.ending.clear();
        self.ending.resize(n, 0.0);
        let mut span = 0.0_f64;
        for (at, &v) in self.rows.iter().enumerate() {
            let v = v as usize;
            self.place[v] = at as u32;
            let before = graph.predecessors_of(v).iter().map(|&u| self.ending[u as usize]);
            self.ending[v] = before.fold(0.0, f64::max) + duration[v];
            span = span.max(self.ending[v]);
        }
        Weighted::below(graph, order, |v| duration[v], &mut self.beginning);
        self.behind.clear();
        self.behind.resize(n + 1, 0.0);
        for at in (0..n).rev() {
            self.behind[at] = self.behind[at + 1].max(self.beginning[self.rows[at] as usize]);
        }
        // a number at the events of the path alone
        self.of_event.clear();
        self.of_event.resize(n, f64::NAN);
        for &v in path {
            self.of_event[v as usize] = 0.0;
        }
        self.jumps.clear();
        let mut before = 0.0_f64;
        for (at, &v) in self.rows.iter().enumerate() {
            let v = v as usize;
            if !self.of_event[v].is_nan() {
                while self.jumps.peek().is_some_and(|jump| jump.1 <= at as u32) {
                    self.jumps.pop();
                }
                let over = self.jumps.peek().map_or(0.0, |jump| f64::from_bits(jump.0));
                let without = before.max(self.behind[at + 1]).max(over);
                let drag = (span - without).min(duration[v]);
                self.of_event[v] = if drag > ROUNDING * span { drag } else { 0.0 };
            }
            before = before.max(self.ending[v]);
            for &w in graph.successors_of(v) {
                if self.place[w as usize] > at as u32 + 1 {
                    let length = self.ending[v] + self.beginning[w as usize];
                    self.jumps.push((length.to_bits(), self.place[w as usize]));
                }
            }
        }
        self.of_path.clear();
        self.of_path.extend(path.iter().map(|&v| self.of_event[v as usize]));
        &self.of_path
    }
}

/// The events of the critical paths of all traces, first to last, a row each: `trace trace_id seq event_id duration drag`.
/// Traces without a path (a cycle, no durations) have no row.
pub fn drags(store: &Store, options: &Options, run: &Run) -> Result<(Vec<RecordBatch>, Arc<Schema>)> {
    event_rows(store, options, run, ["duration", "drag"], |drags: &mut Drags, subject| {
        let Ok((order, timing)) = subject.scheduled() else { return Vec::new() };
        let path = &subject.slack().path;
        let drags_of_path = drags.compute(subject.graph(), order, &timing.duration, path);
        path.iter()
            .zip(drags_of_path)
            .rev()
            .map(|(&v, &drag)| (v, [timing.duration[v as usize], drag]))
            .collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Reason;
    use crate::graph::test_trace::{TestTrace, random_trace};
    use crate::metrics::subject::Preparation;
    use crate::metrics::testing::measured;
    use crate::schema::EdgeType;
    use proptest::prelude::*;

    /// Events of these durations in seconds, and edges between them.
    fn work(seconds: &[f64], edges: &[(u32, u32)]) -> TestTrace {
        let mut t = TestTrace::default();
        for &one in seconds {
            t.event(crate::schema::EventType::Message, "a").duration(one);
        }
        for &(u, v) in edges {
            t.edge(u, v, EdgeType::Causal);
        }
        t
    }

    #[test]
    fn a_branch_beside_it_bounds_the_drag() {
        // 0 (2) -> 1 (5) -> 3 (1), beside 0 -> 2 (3) -> 3: without 1 the span is 6
        let t = work(&[2.0, 5.0, 3.0, 1.0], &[(0, 1), (0, 2), (1, 3), (2, 3)]);
        assert_eq!(measured(&Drag, &t), [Ok(2.0), Ok(5.0)]);
        // a path that is as long takes all drag from the branches
        let even = work(&[2.0, 5.0, 5.0, 1.0], &[(0, 1), (0, 2), (1, 3), (2, 3)]);
        assert_eq!(measured(&Drag, &even), [Ok(2.0), Ok(3.0)]);
        // a chain is all drag, and an event beside everything takes some
        assert_eq!(measured(&Drag, &work(&[1.0, 2.0], &[(1, 0)])), [Ok(2.0), Ok(3.0)]);
        assert_eq!(measured(&Drag, &work(&[1.0, 2.0, 2.5], &[(0, 1)])), [Ok(0.5), Ok(1.0)]);
        assert_eq!(measured(&Drag, &work(&[1.0], &[(0, 0)])), [Err(Reason::GraphCycle); 2]);
    }

    #[test]
    fn an_edge_over_an_event_is_a_way_without_it() {
        // 0 (1) -> 1 (4) -> 2 (1), and 0 -> 2: without 1 the span is 2
        assert_eq!(measured(&Drag, &work(&[1.0, 4.0, 1.0], &[(0, 1), (1, 2), (0, 2)])), [Ok(4.0), Ok(6.0)]);
        // 3 (2) lies beside 1: the way over it is 4
        let t = work(&[1.0, 4.0, 1.0, 2.0], &[(0, 1), (1, 2), (0, 3), (3, 2)]);
        assert_eq!(measured(&Drag, &t), [Ok(2.0), Ok(4.0)]);
    }

    proptest! {
        #[test]
        fn is_what_the_span_loses(mut t in random_trace(14, true), seconds in prop::collection::vec(0_u8..6, 14)) {
            let n = t.t.len();
            (0..n).for_each(|v| t.flag_duration(v, f64::from(seconds[v]) / 2.0));
            let options = Options::default();
            let mut preparation = Preparation::default();
            let view = t.view();
            let subject = preparation.prepare(&view, &options);
            let (order, timing) = subject.scheduled().unwrap();
            let longest = |zeroed: usize| {
                let weight = |v: usize| if v == zeroed { 0.0 } else { timing.duration[v] };
                Weighted::default().longest(subject.graph(), order, weight)
            };
            let mut drags = Drags::default();
            let path = &subject.slack().path;
            let drags_of_path = drags.compute(subject.graph(), order, &timing.duration, path);
            prop_assert_eq!(drags_of_path.len(), path.len());
            for (&v, &drag) in path.iter().zip(drags_of_path) {
                prop_assert_eq!(drag, longest(usize::MAX) - longest(v as usize));
            }
        }
    }
}
