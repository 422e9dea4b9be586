//! Work, span, slack and the critical path (D8).
//!
//! ```text
//! F(v) = d(v) + max F(pred),   T∞ = max F,   late(v) = min over successors of late - d,  T∞ at sinks
//! slack(v) = late(v) - F(v),   T1 = Σ d(v)
//! ```
//!
//! Over all events, whether they lead to the outcome or not. With release times r, F(v) = d(v) + max(r(v), max F(pred)).
//! The critical path leads from the first event with the largest F back through the predecessor with the largest F,
//! ties by canonical order (D1), up to an event that its release held back. O(|V|+|E|). References: R. P. Brent, J. ACM 21(2), 1974 (work and span);
//! J. E. Kelley, M. R. Walker, Critical-path planning and scheduling, 1959.

use std::cmp::Ordering;

use super::durations::Timing;
use super::work::Work;
use crate::graph::order::canonical_cmp;
use crate::graph::{CsrGraph, NOBODY, Order};

/// The earliest schedule on unlimited slots; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct Earliest {
    /// When each event begins.
    pub start: Vec<f64>,
    /// When it ends.
    pub finish: Vec<f64>,
    /// The end of the last one.
    pub makespan: f64,
}

impl Earliest {
    /// Schedules `work` in a topological order of its graph.
    pub fn compute(&mut self, graph: &CsrGraph, order: Order<'_>, timing: &Timing, work: &Work) {
        let n = graph.len();
        for column in [&mut self.start, &mut self.finish] {
            column.clear();
            column.resize(n, 0.0);
        }
        match order {
            Order::Document(n) => (0..n).for_each(|v| self.place(graph, timing, work, v)),
            Order::Listed(rows) => rows.iter().for_each(|&v| self.place(graph, timing, work, v as usize)),
        }
        let ends = self.finish.iter().enumerate().filter(|&(v, _)| !work.absent(v));
        self.makespan = ends.fold(0.0, |last, (_, &end)| last.max(end));
    }

    #[inline]
    fn place(&mut self, graph: &CsrGraph, timing: &Timing, work: &Work, v: usize) {
        let waited = graph.predecessors_of(v).iter().map(|&u| self.finish[u as usize]).fold(0.0, f64::max);
        if work.absent(v) {
            (self.start[v], self.finish[v]) = (waited, waited);
            return;
        }
        let start = timing.release.get(v).map_or(waited, |&release| waited.max(release));
        self.start[v] = start;
        self.finish[v] = work.finish(timing, v, start);
    }
}

/// Dependencies between events, and their slack; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct Slack {
    /// How much later each event could end without moving the end of the whole.
    pub slack: Vec<f64>,
    /// Events of the critical path, last first.
    pub path: Vec<u32>,
    late: Vec<f64>,
}

impl Slack {
    /// Of the earliest schedule of a graph whose successors are known.
    pub fn compute(
        &mut self,
        t: &[f64],
        graph: &CsrGraph,
        order: Order<'_>,
        duration: &[f64],
        earliest: &Earliest,
    ) {
        let n = graph.len();
        self.late.clear();
        self.late.resize(n, earliest.makespan);
        let mut visit = |v: usize| {
            for &w in graph.successors_of(v) {
                let bound = self.late[w as usize] - duration[w as usize];
                self.late[v] = self.late[v].min(bound);
            }
        };
        match order {
            Order::Document(n) => (0..n).rev().for_each(&mut visit),
            Order::Listed(rows) => rows.iter().rev().for_each(|&v| visit(v as usize)),
        }
        self.slack.clear();
        // rounding could make it less than nothing
        self.slack.extend(self.late.iter().zip(&earliest.finish).map(|(late, f)| (late - f).max(0.0)));
        self.trace_path(t, graph, earliest);
        for &v in &self.path {
            self.slack[v as usize] = 0.0;
        }
    }

    fn trace_path(&mut self, t: &[f64], graph: &CsrGraph, earliest: &Earliest) {
        let later = |a: u32, b: u32| {
            let by_finish = earliest.finish[a as usize].partial_cmp(&earliest.finish[b as usize]);
            by_finish.unwrap_or(Ordering::Equal).then_with(|| canonical_cmp(t, b, a))
        };
        self.path.clear();
        let mut at = (0..graph.len() as u32).max_by(|&a, &b| later(a, b)).unwrap_or(NOBODY);
        while at != NOBODY {
            self.path.push(at);
            let inputs = graph.predecessors_of(at as usize).iter().copied();
            let before = inputs.max_by(|&a, &b| later(a, b)).unwrap_or(NOBODY);
            // What its release held back was not waiting for anything.
            let held = before != NOBODY && earliest.start[at as usize] > earliest.finish[before as usize];
            at = if held { NOBODY } else { before };
        }
    }
}

/// The longest path when an event that needs a slot counts (1 - 1/k) of its length: with it the bound of Graham,
/// W/k + L, holds whatever share of the work W needs slots.
#[derive(Debug, Default)]
pub struct Weighted {
    longest: Vec<f64>,
}

impl Weighted {
    /// The longest path in which event v counts `weight(v)`.
    pub fn longest(&mut self, graph: &CsrGraph, order: Order<'_>, weight: impl Fn(usize) -> f64) -> f64 {
        self.longest.clear();
        self.longest.resize(graph.len(), 0.0);
        let mut most = 0.0_f64;
        let mut place = |v: usize| {
            let before =
                graph.predecessors_of(v).iter().map(|&u| self.longest[u as usize]).fold(0.0, f64::max);
            self.longest[v] = before + weight(v);
            most = most.max(self.longest[v]);
        };
        match order {
            Order::Document(n) => (0..n).for_each(&mut place),
            Order::Listed(rows) => rows.iter().for_each(|&v| place(v as usize)),
        }
        most
    }

    /// Of each event the longest path from its beginning to the end of everything, into `out`.
    pub fn below(graph: &CsrGraph, order: Order<'_>, weight: impl Fn(usize) -> f64, out: &mut Vec<f64>) {
        out.clear();
        out.resize(graph.len(), 0.0);
        let mut place = |v: usize| {
            let after = graph.successors_of(v).iter().map(|&w| out[w as usize]).fold(0.0, f64::max);
            out[v] = after + weight(v);
        };
        match order {
            Order::Document(n) => (0..n).rev().for_each(&mut place),
            Order::Listed(rows) => rows.iter().rev().for_each(|&v| place(v as usize)),
        }
    }
}
