//! The structural surrogate: the value of the outcome if only some events are present.
//!
//! ```text
//! a(u,v) = weight of the edge / sum of the weights into v,   w = 1 - ε^a,   ε = 1/4
//! x_v = (1 - Π(1 - w x_u)) / (1 - ε)   over the predecessors u of v;  a source has 1, an absent event 0;  v(S) = x_y
//! ```
//!
//! In the model `noisy_or` that is every event, and the virtual sink with equal weights. With inputs in {0, 1} an
//! event has (1 - ε^f)/(1 - ε), f the share of the weight that is there; one input passes unchanged, so depth does
//! not dilute, and v(N) is exactly 1. In the model `typed` results and returns need all of their inputs (product),
//! aggregates take the best one (under topology `debate` the weighted majority of those at or above 1/2), a safety
//! event lets through the least and nothing if its own `ok` is false; all others are that noisy-or. The other models
//! make every event one gate: `noisy_and` is 1 less the noisy-or of 1 - x, `linear` the weighted mean, `mean` the plain
//! one, then `max`, `min`, `majority` and `reachability`. With weights that are given, w is the weight as it is:
//!
//! ```text
//! noisy_or 1 - Π(1 - w x)   noisy_and Π(1 - w (1 - x))   linear min(1, Σ w x)   majority Σ w over x ≥ 1/2 > quorum Σ w
//! ```
//!
//! A virtual sink always weighs its inputs alike, since no edge leads to it.
//!
//! [`Surrogate::prepare`] lists the gates that lie on a way to the outcome, in topological order; then every
//! evaluation is one pass over them, O(|V|+|E|), eight sets of events at a time. No allocation once warm.
//! Reference: docs/reference/definitions.md, D15; noisy gates: J. Pearl, Probabilistic Reasoning in Intelligent
//! Systems, 1988, section 4.3; pooled log-odds: C. Genest, J. Zidek, Statistical Science 1(1), 1986. Monotone: another
//! event never lowers v.

pub mod cost;
pub mod gate;
pub mod structure;

pub use cost::Cost;
pub use gate::{Gate, Rule};
pub use structure::{Aggregation, Model, Structure, Weights};

use crate::graph::{CsrGraph, Order, Outcome};
use crate::schema::{EventType, Topology};
use crate::store::view::TraceView;

/// What one half of an event's weight leaves undecided, squared: an input of all the weight fails with this
/// probability before the value is normalized.
pub const EPSILON: f64 = 0.25;

/// Votes that are above the quorum by less than this share of it are a tie.
const TIE: f64 = 1e-12;

/// Sets of events that one evaluation takes.
pub const MAX_SETS: usize = 64;

/// Sets that go through the gates side by side.
const LANES: usize = 8;
type Lanes = [f64; LANES];

/// Stands for the virtual sink among rows.
const SINK: u32 = u32::MAX;

/// A gate without its inputs.
#[derive(Debug, Clone, Copy)]
struct Stored {
    row: u32,
    rule: Rule,
    /// Where its inputs end; they begin where those of the gate before end.
    end: u32,
    scale: f64,
    floor: f64,
}

/// The gates of one trace; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct Surrogate {
    gates: Vec<Stored>,
    /// Positions of gates, and beside them the weights as the rule takes them.
    inputs: Vec<u32>,
    weights: Vec<f64>,
    /// Position of an event's gate, for events on a way to the outcome.
    place: Vec<u32>,
    lanes: Vec<Lanes>,
    observed: Vec<f64>,
}

/// A gate with its inputs, as [`Surrogate::observe`] leaves it.
#[derive(Debug, Clone, Copy)]
pub struct Inputs<'a> {
    /// The event.
    pub row: usize,
    /// w of each input, in the order of the graph's predecessors; empty for a source.
    pub weights: &'a [f64],
    positions: &'a [u32],
    observed: &'a [f64],
}

impl<'a> Inputs<'a> {
    /// Contributions w x of the inputs.
    pub fn contributions(self) -> impl Iterator<Item = f64> + Clone + 'a {
        self.weights.iter().zip(self.positions).map(move |(w, &u)| w * self.observed[u as usize])
    }
}

impl Surrogate {
    /// Lists the gates of a trace. `graph` is built with the weights of `structure` ([`Weights::table`]; normalized ones
    /// may be any), `order` is a topological order of it.
    pub fn prepare(
        &mut self,
        view: &TraceView<'_>,
        graph: &CsrGraph,
        order: Order<'_>,
        outcome: Outcome,
        structure: &Structure,
    ) {
        self.gates.clear();
        self.inputs.clear();
        self.weights.clear();
        self.mark(graph, order, outcome);
        match order {
            Order::Document(n) => (0..n).for_each(|v| self.event(view, graph, v, structure)),
            Order::Listed(rows) => rows.iter().for_each(|&v| self.event(view, graph, v as usize, structure)),
        }
        if outcome == Outcome::VirtualSink {
            self.sink(graph, structure);
        }
    }

    /// Finds what leads to the outcome: `place` is then `SINK` for everything else.
    fn mark(&mut self, graph: &CsrGraph, order: Order<'_>, outcome: Outcome) {
        self.place.clear();
        let Outcome::Event(y) = outcome else {
            // everything leads to some sink
            self.place.resize(graph.len(), 0);
            return;
        };
        self.place.resize(graph.len(), SINK);
        self.place[y as usize] = 0;
        let place = &mut self.place;
        let visit = |v: usize| {
            if place[v] != SINK {
                graph.predecessors_of(v).iter().for_each(|&u| place[u as usize] = 0);
            }
        };
        match order {
            Order::Document(n) => (0..n).rev().for_each(visit),
            Order::Listed(rows) => rows.iter().rev().map(|&v| v as usize).for_each(visit),
        }
    }

    fn event(&mut self, view: &TraceView<'_>, graph: &CsrGraph, v: usize, structure: &Structure) {
        if self.place[v] == SINK {
            return;
        }
        self.place[v] = self.gates.len() as u32;
        let weights = graph.predecessor_weights(v);
        let total: f64 = weights.iter().sum();
        // Shares of nothing are no shares: an event all of whose inputs weigh 0 is a source, unless weights are given.
        let is_given = matches!(structure.weights, Weights::Given(_));
        let open = total > 0.0 || is_given && !weights.is_empty();
        let kind = view.event_type(v);
        let rule = match structure.rule(kind, view.topology == Some(Topology::Debate)) {
            _ if structure.model == Model::Typed
                && kind == EventType::SafetyEvent
                && view.ok.get(v) == Some(false) =>
            {
                Rule::Never
            }
            _ if !open => Rule::Source,
            Rule::NoisyOr | Rule::NoisyAnd | Rule::Linear | Rule::Mean if weights.len() == 1 && !is_given => {
                Rule::Pass
            }
            rule => rule,
        };
        if open {
            let place = &self.place;
            self.inputs.extend(graph.predecessors_of(v).iter().map(|&u| place[u as usize]));
            match rule {
                Rule::Mean => self.weights.resize(self.inputs.len(), 1.0),
                Rule::Confidence if !is_given => {
                    self.weights.extend(weights.iter().map(|weight| weight / total));
                }
                Rule::Majority | Rule::Linear | Rule::Confidence => self.weights.extend_from_slice(weights),
                _ if is_given => self.weights.extend(weights.iter().map(|weight| weight.min(1.0))),
                _ if weights.len() == 1 => self.weights.push(1.0 - EPSILON),
                _ => self.weights.extend(weights.iter().map(|weight| noisy_or_weight(weight / total))),
            }
        }
        let normalized = !is_given || rule == Rule::Mean;
        self.close(v as u32, rule, normalized, structure.quorum);
    }

    fn sink(&mut self, graph: &CsrGraph, structure: &Structure) {
        // Rows of sinks ascend, which fixes the order of the product. `observed` is free until an evaluation.
        self.observed.clear();
        self.observed.resize(graph.len(), 1.0);
        for v in 0..graph.len() {
            graph.predecessors_of(v).iter().for_each(|&u| self.observed[u as usize] = 0.0);
        }
        let from = self.inputs.len();
        let sinks = self.place.iter().zip(&self.observed).filter(|&(_, &open)| open == 1.0);
        self.inputs.extend(sinks.map(|(&place, _)| place));
        let sinks = self.inputs.len() - from;
        // no event, so it has the gate of those types that no model treats apart
        let rule = match structure.rule(EventType::Message, false) {
            Rule::NoisyOr | Rule::NoisyAnd | Rule::Linear | Rule::Mean if sinks == 1 => Rule::Pass,
            rule => rule,
        };
        let weight = match rule {
            Rule::NoisyOr | Rule::NoisyAnd | Rule::Pass => noisy_or_weight(1.0 / sinks as f64),
            _ => 1.0,
        };
        self.weights.resize(self.inputs.len(), weight);
        self.close(SINK, rule, true, structure.quorum);
    }

    fn close(&mut self, row: u32, rule: Rule, normalized: bool, quorum: f64) {
        let from = self.gates.last().map_or(0, |gate| gate.end as usize);
        let weights = &self.weights[from..];
        // The same product and sum as in an evaluation, so that nothing missing is exactly 1.
        let fails = || weights.iter().fold(1.0, |p, w| p * (1.0 - w));
        let total = || weights.iter().fold(0.0, |sum, w| sum + w);
        let (scale, floor) = match rule {
            Rule::NoisyOr if normalized => (1.0 - fails(), 0.0),
            Rule::NoisyAnd if normalized => (1.0 - fails(), fails()),
            Rule::Linear | Rule::Mean if normalized => (total(), 0.0),
            // what only rounding puts above the quorum is no majority, in whatever order the edges stand
            Rule::Majority => (total() * quorum * (1.0 + TIE), 0.0),
            _ => (1.0, 0.0),
        };
        self.gates.push(Stored { row, rule, end: self.inputs.len() as u32, scale, floor });
    }

    /// Gates on a way to the outcome, in topological order; the last one is the outcome.
    #[must_use]
    pub fn gates(&self) -> impl ExactSizeIterator<Item = Gate<'_>> + Clone {
        (0..self.gates.len()).map(|place| self.gate(place))
    }

    /// The gate at a position.
    ///
    /// # Panics
    ///
    /// If there are not so many gates.
    #[must_use]
    #[inline]
    pub fn gate(&self, place: usize) -> Gate<'_> {
        let from = if place == 0 { 0 } else { self.gates[place - 1].end };
        self.gates[place].with(from as usize, &self.inputs, &self.weights)
    }

    /// Position of an event's gate, if the event is on a way to the outcome.
    #[must_use]
    pub fn place_of(&self, row: usize) -> Option<usize> {
        self.place.get(row).filter(|&&place| place != SINK).map(|&place| place as usize)
    }

    /// Values of the outcome for up to [`MAX_SETS`] sets of events, as many as `out` has places: the k-th set has
    /// the events whose number in `present` has bit k.
    pub fn values(&mut self, present: &[u64], out: &mut [f64]) {
        let Self { gates, inputs, weights, lanes, .. } = self;
        lanes.resize(lanes.len().max(gates.len()), [0.0; LANES]);
        for (block, out) in out.chunks_mut(LANES).enumerate() {
            let mut from = 0;
            for (place, gate) in gates.iter().enumerate() {
                let bits =
                    if gate.row == SINK { u64::MAX } else { present[gate.row as usize] >> (block * LANES) };
                let (before, after) = lanes.split_at_mut(place);
                let mut value = gate.with(from, inputs, weights).evaluate(before);
                for (lane, value) in value.iter_mut().enumerate() {
                    *value *= f64::from((bits >> lane) as u8 & 1);
                }
                after[0] = value;
                from = gate.end as usize;
            }
            let outcome = gates.len().checked_sub(1).map_or(&[0.0; LANES], |last| &lanes[last]);
            out.copy_from_slice(&outcome[..out.len()]);
        }
    }

    /// Takes what was recorded: an event's `score`, kept within 0..1, else what its inputs make of it. Value of the
    /// outcome.
    pub fn observe(&mut self, view: &TraceView<'_>) -> f64 {
        let Self { gates, inputs, weights, lanes, observed, .. } = self;
        lanes.resize(lanes.len().max(gates.len()), [0.0; LANES]);
        observed.clear();
        let mut from = 0;
        for (place, gate) in gates.iter().enumerate() {
            let (before, after) = lanes.split_at_mut(place);
            let recorded = (gate.row != SINK).then(|| view.score.get(gate.row as usize)).flatten();
            let value = recorded.map_or_else(
                || gate.with(from, inputs, weights).evaluate(before)[0],
                |score| score.clamp(0.0, 1.0),
            );
            after[0] = [value; LANES];
            observed.push(value);
            from = gate.end as usize;
        }
        observed.last().copied().unwrap_or(0.0)
    }

    /// The events on a way to the outcome, each with its inputs, after [`Surrogate::observe`].
    pub fn inputs(&self) -> impl Iterator<Item = Inputs<'_>> {
        let begins = std::iter::once(0).chain(self.gates.iter().map(|gate| gate.end as usize));
        let events = self.gates.iter().zip(begins).filter(|(gate, _)| gate.row != SINK);
        events.map(|(gate, from)| Inputs {
            row: gate.row as usize,
            weights: &self.weights[from..gate.end as usize],
            positions: &self.inputs[from..gate.end as usize],
            observed: &self.observed,
        })
    }
}

/// w of an edge that holds the share `a` of the weight into its event.
fn noisy_or_weight(a: f64) -> f64 {
    -(a * EPSILON.ln()).exp_m1()
}

impl Stored {
    #[inline]
    fn with<'a>(&self, from: usize, inputs: &'a [u32], weights: &'a [f64]) -> Gate<'a> {
        let end = self.end as usize;
        Gate {
            row: (self.row != SINK).then_some(self.row),
            rule: self.rule,
            scale: self.scale,
            floor: self.floor,
            inputs: &inputs[from..end],
            weights: &weights[from..end],
        }
    }
}

#[cfg(test)]
mod tests;
