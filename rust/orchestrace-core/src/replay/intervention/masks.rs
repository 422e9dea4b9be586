//! Masks of up to 64 scenarios over the events and edges of one trace, a bit for each.

use super::selection::{Plan, Roster, Segment, events_after};
use super::{Action, Mode, Selector};
use crate::graph::{CsrGraph, Order, Outcome};
use crate::store::view::TraceView;
use crate::surrogate::Aggregation;

/// Absent events, cut edges, set values and swapped rules; buffers reused from block to block of scenarios.
#[derive(Debug, Default)]
pub struct Masks {
    /// Scenarios in which each event is absent.
    pub absent: Vec<u64>,
    /// Scenarios in which each edge carries nothing, in the order of the graph's edges; empty if there are none.
    pub cut: Vec<u64>,
    /// Values that are set: event, scenarios, value; by event, later ones last.
    pub sets: Vec<(u32, u64, f64)>,
    /// Scenarios in which aggregates follow each rule, in the order of [`Aggregation::ALL`].
    pub swaps: [u64; Aggregation::ALL.len()],
    /// Scenarios every action of which found something.
    pub found: u64,
    /// Losses that spread to events all, or any, of whose inputs are lost.
    spread: [Vec<u64>; 2],
    spread_edges: [Vec<u64>; 2],
}

/// A block's trace.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// The trace.
    pub view: &'a TraceView<'a>,
    /// Its graph.
    pub graph: &'a CsrGraph,
    /// A topological order of it.
    pub order: Order<'a>,
    /// Its outcome.
    pub outcome: Outcome,
    /// Who and what is in it.
    pub roster: &'a Roster,
}

impl Masks {
    /// Replaces everything by what the scenarios of `segments` change.
    pub fn compute(&mut self, plan: &Plan, scene: &Scene<'_>, segments: &[Segment]) {
        let (n, m) = (scene.graph.len(), scene.graph.n_edges());
        zero(&mut self.absent, n);
        self.spread.iter_mut().for_each(|mask| zero(mask, n));
        let edges = segments.iter().any(|s| plan.cuts_edges(s.scenario));
        zero(&mut self.cut, if edges { m } else { 0 });
        self.spread_edges.iter_mut().for_each(|mask| zero(mask, if edges { m } else { 0 }));
        self.sets.clear();
        self.swaps = [0; Aggregation::ALL.len()];
        self.found = 0;
        let mut spreads = false;
        for segment in segments {
            let mut hit = segment.bits();
            for action in &plan.scenarios[segment.scenario].actions {
                hit &= self.act(plan, scene, segment, action);
                spreads |= matches!(action, Action::Drop(_, Mode::All | Mode::Any));
            }
            self.found |= hit;
        }
        // stable, so that of the values of one event the later one stays last
        self.sets.sort_by_key(|set| set.0);
        if spreads {
            match scene.order {
                Order::Document(n) => (0..n).for_each(|v| self.lose(scene.graph, v)),
                Order::Listed(rows) => rows.iter().for_each(|&v| self.lose(scene.graph, v as usize)),
            }
        }
    }

    /// Scenarios of the segment for which the action finds something.
    fn act(&mut self, plan: &Plan, scene: &Scene<'_>, segment: &Segment, action: &Action) -> u64 {
        let Self { absent, cut, sets, swaps, spread, spread_edges, .. } = self;
        let Scene { view, graph, outcome, roster, .. } = *scene;
        let mut hit = 0;
        match action {
            Action::Drop(what, mode) if what.is_events() => {
                roster.events(plan, view, what, segment, &mut |v, bits| {
                    hit |= bits;
                    match mode {
                        Mode::Node => absent[v] |= bits,
                        Mode::All => spread[0][v] |= bits,
                        Mode::Any => spread[1][v] |= bits,
                    }
                });
            }
            Action::Drop(what, mode) => roster.edges(view, graph, what, segment, &mut |e, bits| {
                hit |= bits;
                cut[e] |= bits;
                match mode {
                    Mode::Node => {}
                    Mode::All => spread_edges[0][e] |= bits,
                    Mode::Any => spread_edges[1][e] |= bits,
                }
            }),
            Action::Set(what, to) => roster.events(plan, view, what, segment, &mut |v, bits| {
                hit |= bits;
                sets.push((v as u32, bits, *to));
            }),
            Action::Aggregate(rule) => {
                let bits = segment.bits();
                for mask in swaps.iter_mut() {
                    *mask &= !bits;
                }
                swaps[*rule as usize] |= bits;
                if roster.has_aggregate() {
                    hit = bits;
                }
            }
            Action::Truncate(after) => {
                let bits = segment.bits();
                let y = if let Outcome::Event(y) = outcome { y as usize } else { usize::MAX };
                let is_after = events_after(view, after, &mut |v| {
                    if v != y {
                        absent[v] |= bits;
                    }
                });
                if is_after {
                    hit = bits;
                }
            }
        }
        hit
    }

    /// An event is lost if it is dropped, if an input is lost that takes all with it, or if all inputs are lost.
    fn lose(&mut self, graph: &CsrGraph, v: usize) {
        let inputs = graph.predecessors_of(v);
        let (mut every, mut some) = (if inputs.is_empty() { 0 } else { u64::MAX }, 0);
        for (&u, e) in inputs.iter().zip(graph.edges_into(v)) {
            let [mut all, mut any] = [self.spread[0][u as usize], self.spread[1][u as usize]];
            if !self.cut.is_empty() {
                all |= self.spread_edges[0][e];
                any |= self.spread_edges[1][e];
            }
            every &= all | any;
            some |= any;
        }
        self.spread[0][v] |= every;
        self.spread[1][v] |= some;
        self.absent[v] |= self.spread[0][v] | self.spread[1][v];
    }

    /// Value that is set for an event in a scenario.
    #[must_use]
    pub fn set_to(&self, v: usize, bit: u32) -> Option<f64> {
        let sets = self.sets_of(v);
        sets.iter().rev().find(|set| set.1 >> bit & 1 == 1).map(|set| set.2)
    }

    /// Scenarios in which an event has a value of its own.
    #[must_use]
    pub fn set_in(&self, v: usize) -> u64 {
        if self.sets.is_empty() { 0 } else { self.sets_of(v).iter().fold(0, |bits, set| bits | set.1) }
    }

    fn sets_of(&self, v: usize) -> &[(u32, u64, f64)] {
        let from = self.sets.partition_point(|set| (set.0 as usize) < v);
        let to = self.sets.partition_point(|set| set.0 as usize <= v);
        &self.sets[from..to]
    }

    /// Scenarios in which an edge into an event carries nothing.
    #[must_use]
    pub fn cut_into(&self, graph: &CsrGraph, v: usize) -> u64 {
        if self.cut.is_empty() { 0 } else { self.cut[graph.edges_into(v)].iter().fold(0, |a, b| a | b) }
    }
}

impl Selector {
    /// Whether it is about what passes between events.
    pub(super) fn is_edges(&self) -> bool {
        !self.is_events()
    }
}

fn zero(mask: &mut Vec<u64>, n: usize) {
    mask.clear();
    mask.resize(n, 0);
}
