//! The structural surrogate: what the outcome is worth when only some of the events are there.
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
//! event lets through the least and nothing if its own `ok` is false; all others are that noisy-or.
//!
//! [`Surrogate::prepare`] lists the gates that lie on a way to the outcome, in topological order; then every
//! evaluation is one pass over them, O(|V|+|E|), eight sets of events at a time. No allocation once warm.
//! Reference: ARCHITECTURE.md, D15; noisy-or: J. Pearl, Probabilistic Reasoning in Intelligent Systems, 1988,
//! section 4.3. Monotone: another event never lowers v.

use crate::error::{Error, Result, unknown_name};
use crate::graph::{CsrGraph, Order, Outcome};
use crate::schema::{EventType, Topology};
use crate::store::view::TraceView;

/// What one half of an event's weight leaves undecided, squared: an input of all the weight fails with this
/// probability before the value is normalised.
pub const EPSILON: f64 = 0.25;

/// Sets of events that one evaluation takes.
pub const MAX_SETS: usize = 64;

/// Sets that go through the gates side by side.
const LANES: usize = 8;
type Lanes = [f64; LANES];

/// Stands for the virtual sink among rows.
const SINK: u32 = u32::MAX;

/// Which gate an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Model {
    /// A noisy-or with normalised weights, whatever the event.
    #[default]
    NoisyOr,
    /// By the type of the event.
    Typed,
}

impl Model {
    /// Names, as options spell them.
    pub const NAMES: &'static [&'static str] = &["noisy_or", "typed"];

    /// The model of a name; the error names the nearest one.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "noisy_or" => Ok(Self::NoisyOr),
            "typed" => Ok(Self::Typed),
            _ => Err(Error::Parameter(unknown_name("outcome", name, Self::NAMES))),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Source,
    /// A noisy-or of one input.
    Pass,
    NoisyOr,
    Product,
    Max,
    Majority,
    Min,
    /// A veto that was cast.
    Never,
}

#[derive(Debug, Clone, Copy)]
struct Gate {
    row: u32,
    rule: Rule,
    /// Where its inputs end; they begin where those of the gate before end.
    end: u32,
    /// Of a noisy-or 1 - Π(1 - w), of a majority half of the weight.
    scale: f64,
}

/// The gates of one trace; a buffer that is used for one trace after the other.
#[derive(Debug, Default)]
pub struct Surrogate {
    gates: Vec<Gate>,
    /// Positions of gates, and beside them w of a noisy-or, or the weight of the edge.
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
    /// Lists the gates of a trace. `graph` is built with weights, `order` is a topological order of it.
    pub fn prepare(
        &mut self,
        view: &TraceView<'_>,
        graph: &CsrGraph,
        order: Order<'_>,
        outcome: Outcome,
        model: Model,
    ) {
        self.gates.clear();
        self.inputs.clear();
        self.weights.clear();
        self.mark(graph, order, outcome);
        match order {
            Order::Document(n) => (0..n).for_each(|v| self.event(view, graph, v, model)),
            Order::Listed(rows) => rows.iter().for_each(|&v| self.event(view, graph, v as usize, model)),
        }
        if outcome == Outcome::VirtualSink {
            self.sink(graph);
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

    fn event(&mut self, view: &TraceView<'_>, graph: &CsrGraph, v: usize, model: Model) {
        if self.place[v] == SINK {
            return;
        }
        self.place[v] = self.gates.len() as u32;
        let weights = graph.predecessor_weights(v);
        let total: f64 = weights.iter().sum();
        // Weights given as 0 carry nothing: without any other way in, the event is a source.
        let open = total > 0.0;
        let rule = match (model, view.event_type(v)) {
            (Model::Typed, EventType::SafetyEvent) if view.ok.get(v) == Some(false) => Rule::Never,
            _ if !open => Rule::Source,
            (Model::Typed, EventType::SafetyEvent) => Rule::Min,
            (Model::Typed, EventType::ToolResult | EventType::Return) => Rule::Product,
            (Model::Typed, EventType::Aggregate) if view.topology == Some(Topology::Debate) => Rule::Majority,
            (Model::Typed, EventType::Aggregate) => Rule::Max,
            _ if weights.len() == 1 => Rule::Pass,
            _ => Rule::NoisyOr,
        };
        if open {
            let place = &self.place;
            self.inputs.extend(graph.predecessors_of(v).iter().map(|&u| place[u as usize]));
            if rule == Rule::Majority {
                self.weights.extend_from_slice(weights);
            } else if weights.len() == 1 {
                self.weights.push(1.0 - EPSILON);
            } else {
                self.weights.extend(weights.iter().map(|weight| noisy_or_weight(weight / total)));
            }
        }
        self.close(v as u32, rule, total);
    }

    fn sink(&mut self, graph: &CsrGraph) {
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
        self.weights.resize(self.inputs.len(), noisy_or_weight(1.0 / sinks as f64));
        self.close(SINK, if sinks == 1 { Rule::Pass } else { Rule::NoisyOr }, sinks as f64);
    }

    fn close(&mut self, row: u32, rule: Rule, total: f64) {
        let from = self.gates.last().map_or(0, |gate| gate.end as usize);
        let scale = match rule {
            // The same product as in an evaluation, so that nothing missing is exactly 1.
            Rule::NoisyOr => 1.0 - self.weights[from..].iter().fold(1.0, |p, w| p * (1.0 - w)),
            Rule::Majority => total / 2.0,
            _ => 1.0,
        };
        self.gates.push(Gate { row, rule, end: self.inputs.len() as u32, scale });
    }

    /// Values of the outcome for up to [`MAX_SETS`] sets of events, as many as `out` has places: the k-th set has
    /// the events whose number in `present` has bit k.
    pub fn values(&mut self, present: &[u64], out: &mut [f64]) {
        let Self { gates, inputs, weights, lanes, .. } = self;
        lanes.resize(lanes.len().max(gates.len()), [0.0; LANES]);
        for (block, out) in out.chunks_mut(LANES).enumerate() {
            let mut from = 0;
            for (place, gate) in gates.iter().enumerate() {
                let end = gate.end as usize;
                let bits =
                    if gate.row == SINK { u64::MAX } else { present[gate.row as usize] >> (block * LANES) };
                let (before, after) = lanes.split_at_mut(place);
                let mut value = evaluate(gate, &inputs[from..end], &weights[from..end], before);
                for (lane, value) in value.iter_mut().enumerate() {
                    *value *= f64::from((bits >> lane) as u8 & 1);
                }
                after[0] = value;
                from = end;
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
            let end = gate.end as usize;
            let (before, after) = lanes.split_at_mut(place);
            let recorded = (gate.row != SINK).then(|| view.score.get(gate.row as usize)).flatten();
            let value = recorded.map_or_else(
                || evaluate(gate, &inputs[from..end], &weights[from..end], before)[0],
                |score| score.clamp(0.0, 1.0),
            );
            after[0] = [value; LANES];
            observed.push(value);
            from = end;
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

#[inline]
fn evaluate(gate: &Gate, inputs: &[u32], weights: &[f64], lanes: &[Lanes]) -> Lanes {
    let inputs = inputs.iter().map(|&u| &lanes[u as usize]);
    let fold = |start: f64, f: fn(f64, f64) -> f64| {
        let mut value = [start; LANES];
        for x in inputs.clone() {
            for (value, &x) in value.iter_mut().zip(x) {
                *value = f(*value, x);
            }
        }
        value
    };
    match gate.rule {
        Rule::Source => [1.0; LANES],
        Rule::Never => [0.0; LANES],
        Rule::Pass | Rule::Product => fold(1.0, |p, x| p * x),
        Rule::Max => fold(0.0, f64::max),
        Rule::Min => fold(1.0, f64::min),
        Rule::NoisyOr => {
            let mut value = [1.0; LANES];
            for (x, w) in inputs.zip(weights) {
                for (value, x) in value.iter_mut().zip(x) {
                    *value *= 1.0 - w * x;
                }
            }
            value.map(|fails| (1.0 - fails) / gate.scale)
        }
        Rule::Majority => {
            let mut votes = [0.0; LANES];
            for (x, w) in inputs.zip(weights) {
                for (votes, &x) in votes.iter_mut().zip(x) {
                    *votes += if x >= 0.5 { *w } else { 0.0 };
                }
            }
            votes.map(|votes| if votes > gate.scale { 1.0 } else { 0.0 })
        }
    }
}

#[cfg(test)]
mod tests;
