//! The basis for fits of outcome models: predictions of recorded targets, and their gradients by weight.
//!
//! ```text
//! noisy_or 1 - (1-λ) Π(1 - w x)    noisy_and Π(1 - w (1 - x))    linear min(1, λ + Σ w x)
//! w = Σ θ_k over the types k of the parallel edges, at most 1 in the noisy gates;   slopes ∂/∂θ_k and ∂/∂λ
//! ```
//!
//! Targets are recorded scores, each predicted from what was recorded before it: an input has its score, else what its
//! own inputs make of it, and 1 without inputs. Or they are the outcomes, v(N) of the surrogate (D15) with these weights
//! given, where no score enters. The graph is walked once, by [`Gates::compile`]; then every evaluation is one pass in
//! forward mode, a value and nine slopes side by side, O(|V|+|E|), in parallel over traces. Events that no target hangs
//! on are left out, and so are traces whose edges close a cycle.
//!
//! References: noisy gates: J. Pearl, Probabilistic Reasoning in Intelligent Systems, 1988, section 4.3; forward mode:
//! A. Griewank, A. Walther, Evaluating Derivatives, 2008, section 3.1. A virtual sink weighs its inputs alike, has no
//! weights of its own and no leak.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use rayon::prelude::*;

use crate::error::{Error, Result, unknown_name};
use crate::graph::weights::N_TYPES;
use crate::graph::{GraphOptions, Order, Outcome, TraceGraph};
use crate::run::Run;
use crate::schema::EDGE_TYPES;
use crate::store::Store;
use crate::store::view::TraceView;
use crate::surrogate::{EPSILON, Model};
use crate::tables;

/// Slopes of a prediction: in the weight of each edge type, and in the leak.
pub const N_SLOPES: usize = N_TYPES + 1;
const LEAK: usize = N_TYPES;

/// Traces that a worker takes at a time.
const BLOCK: usize = 64;

/// The targets of predictions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Targets {
    /// The score of every event that has one, and inputs.
    Scores,
    /// The outcome of every trace; its value is the caller's.
    Outcomes,
}

impl Targets {
    /// Names, as options spell them.
    pub const NAMES: &'static [&'static str] = &["scores", "outcome"];

    /// The targets of a name; the error names the nearest one.
    pub fn parse(name: &str) -> Result<Self> {
        match name {
            "scores" => Ok(Self::Scores),
            "outcome" => Ok(Self::Outcomes),
            _ => Err(Error::Parameter(unknown_name("targets", name, Self::NAMES))),
        }
    }
}

/// The place of a prediction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// Number of the trace.
    pub trace: u32,
    /// The event; `None` for a virtual sink.
    pub seq: Option<u32>,
    /// Its score, where scores are the targets.
    pub score: Option<f64>,
    /// Distinct predecessors.
    pub n_inputs: u32,
    /// Those of them that have inputs and no score, so that the model has to say what they are.
    pub n_modeled: u32,
}

/// A number with its slopes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dual {
    /// The number.
    pub value: f64,
    /// In the weights, in the order of the schema's edge types, and in the leak.
    pub slopes: [f64; N_SLOPES],
}

impl Dual {
    const fn constant(value: f64) -> Self {
        Self { value, slopes: [0.0; N_SLOPES] }
    }

    /// Multiplies by a factor with these slopes.
    #[inline]
    fn times(&mut self, factor: f64, slopes: impl Fn(usize) -> f64) {
        for (k, slope) in self.slopes.iter_mut().enumerate() {
            *slope = *slope * factor + self.value * slopes(k);
        }
        self.value *= factor;
    }

    fn without_slopes(self) -> Self {
        Self::constant(self.value)
    }

    #[inline]
    fn affine(mut self, scale: f64, shift: f64) -> Self {
        self.value = self.value * scale + shift;
        self.slopes.iter_mut().for_each(|slope| *slope *= scale);
        self
    }
}

/// A model with numbers for its weights.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// `NoisyOr`, `NoisyAnd` or `Linear`.
    pub model: Model,
    /// θ, one for each edge type.
    pub weights: [f64; N_TYPES],
    /// λ; a noisy-and has none.
    pub leak: f64,
}

impl Setting {
    fn check(&self) -> Result<()> {
        if !matches!(self.model, Model::NoisyOr | Model::NoisyAnd | Model::Linear) {
            return Err(Error::Parameter(format!(
                "model '{}' has no weights to fit, expected noisy_or, noisy_and or linear",
                self.model.name()
            )));
        }
        let numbers = self.weights.iter().chain([&self.leak]);
        match numbers.clone().find(|w| !w.is_finite() || **w < 0.0) {
            Some(w) => Err(Error::Parameter(format!("weight {w}, expected finite numbers of at least 0"))),
            None => Ok(()),
        }
    }
}

#[derive(Debug, Clone, Copy)]
struct Gate {
    /// Where its inputs end; they begin where those of the gate before end.
    end: u32,
    kind: Kind,
    /// What was recorded, for those that come after it.
    score: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Has no inputs, or none that matter.
    Known,
    /// Is computed.
    Inner,
    /// Is computed, and a target.
    Target,
    /// The virtual sink, a target.
    Sink,
}

#[derive(Debug, Clone, Copy)]
struct Input {
    /// Position of the gate in its trace.
    place: u32,
    /// Which types the edges have: a position in the mixes of the part.
    mix: u32,
}

/// How many parallel edges of each type lead from one event to another.
type Mix = [u32; N_TYPES];

/// Gates of the traces of one chunk, one after the other.
#[derive(Debug, Default)]
struct Part {
    /// Where the gates, inputs and targets of each trace end.
    ends: Vec<[u32; 3]>,
    gates: Vec<Gate>,
    inputs: Vec<Input>,
    mixes: Vec<Mix>,
    targets: Vec<Target>,
    n_edges: [u64; N_TYPES],
    n_cyclic: u32,
    n_unanswered: u32,
}

/// Everything that the targets of a store depend on.
#[derive(Debug)]
pub struct Gates {
    parts: Vec<Part>,
}

impl Gates {
    /// Walks the graphs of all traces.
    pub fn compile(store: &Store, targets: Targets, run: &Run) -> Result<Self> {
        let of_chunk = |(): &mut (), of: &tables::Part<'_>| {
            let mut compiler = Compiler::default();
            (0..of.view.len()).for_each(|i| compiler.trace(&of.trace(i), targets));
            Ok(compiler.part)
        };
        let parts = tables::of_chunks(store, run, || (), of_chunk)?;
        Ok(Self { parts })
    }

    /// The targets, in order of trace; inside a trace each after those that it hangs on.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.parts.iter().flat_map(|part| &part.targets)
    }

    /// Edges of each type that some target hangs on.
    #[must_use]
    pub fn n_edges(&self) -> [u64; N_TYPES] {
        let add = |mut sum: [u64; N_TYPES], part: &Part| {
            sum.iter_mut().zip(part.n_edges).for_each(|(sum, n)| *sum += n);
            sum
        };
        self.parts.iter().fold([0; N_TYPES], add)
    }

    /// Traces that were left out because their edges close a cycle.
    #[must_use]
    pub fn n_cyclic(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.n_cyclic)).sum()
    }

    /// Traces that were left out because it is not known where their outcome is (D5).
    #[must_use]
    pub fn n_unanswered(&self) -> u64 {
        self.parts.iter().map(|part| u64::from(part.n_unanswered)).sum()
    }

    /// The targets as a table, a column for each field of [`Target`].
    pub fn table(&self) -> Result<(RecordBatch, SchemaRef)> {
        let all: Vec<_> = self.targets().collect();
        let columns: [(&str, ArrayRef); 5] = [
            ("trace", Arc::new(all.iter().map(|target| Some(target.trace)).collect::<UInt32Array>())),
            ("seq", Arc::new(all.iter().map(|target| target.seq).collect::<UInt32Array>())),
            ("score", Arc::new(all.iter().map(|target| target.score).collect::<Float64Array>())),
            ("n_inputs", Arc::new(all.iter().map(|target| Some(target.n_inputs)).collect::<UInt32Array>())),
            ("n_modeled", Arc::new(all.iter().map(|target| Some(target.n_modeled)).collect::<UInt32Array>())),
        ];
        let batch =
            RecordBatch::try_from_iter_with_nullable(columns.map(|(name, column)| (name, column, true)))?;
        let schema = batch.schema();
        Ok((batch, schema))
    }

    /// Predictions of all targets, in their order.
    pub fn predict(&self, setting: &Setting, run: &Run) -> Result<Vec<Dual>> {
        setting.check()?;
        let weights: Vec<_> = self.parts.iter().map(|part| weights_of(&part.mixes, setting)).collect();
        let blocks: Vec<_> = self
            .parts
            .iter()
            .zip(&weights)
            .flat_map(|(part, weights)| {
                (0..part.ends.len()).step_by(BLOCK).map(move |from| (part, weights, from))
            })
            .collect();
        let parts_of_chunks = run.pool().install(|| {
            blocks
                .par_iter()
                .map_init(Vec::new, |values, &(part, weights, from)| {
                    run.check()?;
                    let traces = from..part.ends.len().min(from + BLOCK);
                    let mut duals = Vec::with_capacity(part.targets_of(&traces));
                    traces.for_each(|i| part.predict(i, setting, weights, values, &mut duals));
                    Ok(duals)
                })
                .collect::<Result<Vec<_>>>()
        })?;
        Ok(parts_of_chunks.concat())
    }
}

/// Predictions as a table: `value`, then a slope for each edge type by its name, and `leak`.
pub fn predictions(duals: &[Dual]) -> Result<(RecordBatch, SchemaRef)> {
    let names = std::iter::once("value").chain(EDGE_TYPES.iter().copied()).chain(["leak"]);
    let column = |k: usize| {
        let values = duals.iter().map(|dual| if k == 0 { dual.value } else { dual.slopes[k - 1] });
        Arc::new(values.collect::<Float64Array>()) as ArrayRef
    };
    let columns = names.enumerate().map(|(k, name)| (name, column(k), false));
    let batch = RecordBatch::try_from_iter_with_nullable(columns)?;
    let schema = batch.schema();
    Ok((batch, schema))
}

/// w of a mix, and its slopes.
#[derive(Debug, Clone, Copy)]
struct Weight {
    w: f64,
    slopes: [f64; N_SLOPES],
}

fn weights_of(mixes: &[Mix], setting: &Setting) -> Vec<Weight> {
    let weight = |mix: &Mix| {
        let mut slopes = [0.0; N_SLOPES]; // the leak is no weight
        slopes.iter_mut().zip(mix).for_each(|(slope, &n)| *slope = f64::from(n));
        let w = slopes.iter().zip(setting.weights).fold(0.0, |sum, (n, theta)| sum + n * theta);
        if setting.model == Model::Linear || w <= 1.0 {
            Weight { w, slopes }
        } else {
            Weight { w: 1.0, slopes: [0.0; N_SLOPES] }
        }
    };
    mixes.iter().map(weight).collect()
}

impl Part {
    fn start(&self, i: usize) -> [u32; 3] {
        if i == 0 { [0; 3] } else { self.ends[i - 1] }
    }

    fn targets_of(&self, traces: &Range<usize>) -> usize {
        (self.start(traces.end)[2] - self.start(traces.start)[2]) as usize
    }

    fn predict(
        &self,
        i: usize,
        setting: &Setting,
        weights: &[Weight],
        values: &mut Vec<Dual>,
        found: &mut Vec<Dual>,
    ) {
        let ([first, mut from, _], [last, ..]) = (self.start(i), self.ends[i]);
        values.clear();
        for gate in &self.gates[first as usize..last as usize] {
            let inputs = &self.inputs[from as usize..gate.end as usize];
            from = gate.end;
            let computed = match gate.kind {
                Kind::Known => Dual::constant(gate.score.unwrap_or(1.0)),
                Kind::Inner | Kind::Target => {
                    let inputs = inputs
                        .iter()
                        .map(|input| (&values[input.place as usize], &weights[input.mix as usize]));
                    combine(setting.model, start(setting.model, setting.leak), inputs)
                }
                Kind::Sink => sink(setting.model, inputs, values),
            };
            if matches!(gate.kind, Kind::Target | Kind::Sink) {
                found.push(computed);
            }
            values.push(gate.score.map_or(computed, Dual::constant));
        }
    }
}

/// What a gate begins with before its inputs: a noisy-or fails unless the leak sets it off, a sum has the leak.
fn start(model: Model, leak: f64) -> Dual {
    let (value, slope) = match model {
        Model::Linear => (leak, 1.0),
        Model::NoisyAnd => (1.0, 0.0),
        _ => (1.0 - leak, -1.0),
    };
    let mut start = Dual::constant(value);
    start.slopes[LEAK] = slope;
    start
}

fn combine<'a>(model: Model, start: Dual, inputs: impl Iterator<Item = (&'a Dual, &'a Weight)>) -> Dual {
    let mut gate = start;
    match model {
        Model::Linear => {
            for (x, weight) in inputs {
                gate.value += weight.w * x.value;
                for k in 0..N_SLOPES {
                    gate.slopes[k] += weight.w * x.slopes[k] + weight.slopes[k] * x.value;
                }
            }
            if gate.value > 1.0 { Dual::constant(1.0) } else { gate }
        }
        Model::NoisyAnd => {
            for (x, weight) in inputs {
                let lacks = 1.0 - x.value;
                gate.times(1.0 - weight.w * lacks, |k| weight.w * x.slopes[k] - weight.slopes[k] * lacks);
            }
            gate
        }
        _ => {
            for (x, weight) in inputs {
                let slope = |k: usize| -(weight.w * x.slopes[k] + weight.slopes[k] * x.value);
                gate.times(1.0 - weight.w * x.value, slope);
            }
            gate.affine(-1.0, 1.0)
        }
    }
}

/// The gate of the virtual sink: normalized equal weights, whatever the events have (D15).
fn sink(model: Model, inputs: &[Input], values: &[Dual]) -> Dual {
    let n = inputs.len() as f64;
    let share = if model == Model::Linear { 1.0 / n } else { -(EPSILON.ln() / n).exp_m1() };
    let weight = Weight { w: share, slopes: [0.0; N_SLOPES] };
    let inputs = inputs.iter().map(|input| (&values[input.place as usize], &weight));
    let value = combine(model, start(model, 0.0).without_slopes(), inputs);
    match model {
        Model::Linear => value,
        Model::NoisyAnd => value.affine(1.0 / (1.0 - EPSILON), -EPSILON / (1.0 - EPSILON)),
        _ => value.affine(1.0 / (1.0 - EPSILON), 0.0),
    }
}

/// A worker's buffers, and the part that it fills.
#[derive(Debug, Default)]
struct Compiler {
    part: Part,
    known_mixes: HashMap<Mix, u32>,
    graph: TraceGraph,
    rows: Vec<u32>,
    /// (destination, source, type) of all edges, sorted, and where those into each event begin.
    edges: Vec<(u32, u32, u8)>,
    into: Vec<u32>,
    roles: Vec<Role>,
    place: Vec<u32>,
}

/// What an event is for the targets of its trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Unused,
    Used,
    Target,
}

impl Compiler {
    fn trace(&mut self, view: &TraceView<'_>, targets: Targets) {
        if self.order(view) {
            match (targets == Targets::Outcomes).then(|| self.graph.outcome(view)).transpose() {
                Ok(outcome) => {
                    self.mark(view, outcome);
                    self.gates(view, targets);
                    if outcome == Some(Outcome::VirtualSink) && !view.is_empty() {
                        self.sink(view);
                    }
                }
                // nothing to fit to
                Err(_) => self.part.n_unanswered += 1,
            }
        } else {
            self.part.n_cyclic += 1;
        }
        let Part { gates, inputs, targets, .. } = &self.part;
        let end = [gates.len() as u32, inputs.len() as u32, targets.len() as u32];
        self.part.ends.push(end);
    }

    /// Finds a topological order, if there is one, and the edges into each event.
    fn order(&mut self, view: &TraceView<'_>) -> bool {
        self.graph.begin();
        self.graph.build(view, GraphOptions::default());
        let (_, order) = self.graph.ordered();
        self.rows.clear();
        match order {
            None => return false,
            Some(Order::Document(n)) => self.rows.extend(0..n as u32),
            Some(Order::Listed(rows)) => self.rows.extend_from_slice(rows),
        }
        let edges = view.dst.iter().zip(view.src).zip(view.edge_types);
        self.edges.clear();
        self.edges.extend(edges.map(|((&d, &s), &kind)| (d, s, kind)));
        self.edges.sort_unstable();
        self.into.clear();
        self.into.resize(view.len() + 1, 0);
        for &(d, ..) in &self.edges {
            self.into[d as usize + 1] += 1;
        }
        for v in 0..view.len() {
            self.into[v + 1] += self.into[v];
        }
        true
    }

    fn edges_into(&self, v: usize) -> &[(u32, u32, u8)] {
        &self.edges[self.into[v] as usize..self.into[v + 1] as usize]
    }

    /// Which events are targets, and on which they hang. Without an `outcome`, scores are the targets.
    fn mark(&mut self, view: &TraceView<'_>, outcome: Option<Outcome>) {
        self.roles.clear();
        self.roles.resize(view.len(), Role::Unused);
        match outcome {
            Some(Outcome::Event(y)) if !self.edges_into(y as usize).is_empty() => {
                self.roles[y as usize] = Role::Target;
            }
            Some(Outcome::Event(_)) => {}
            Some(Outcome::VirtualSink) => self.roles.fill(Role::Used),
            None => {
                for v in 0..view.len() {
                    if score(view, v).is_some() && !self.edges_into(v).is_empty() {
                        self.roles[v] = Role::Target;
                    }
                }
            }
        }
        for &v in self.rows.iter().rev() {
            let v = v as usize;
            let opaque = outcome.is_none() && score(view, v).is_some();
            if self.roles[v] == Role::Target || (self.roles[v] == Role::Used && !opaque) {
                for e in self.into[v]..self.into[v + 1] {
                    let u = self.edges[e as usize].1 as usize;
                    if self.roles[u] == Role::Unused {
                        self.roles[u] = Role::Used;
                    }
                }
            }
        }
    }

    fn gates(&mut self, view: &TraceView<'_>, targets: Targets) {
        self.place.clear();
        self.place.resize(view.len(), 0);
        let first = self.part.gates.len() as u32;
        for i in 0..self.rows.len() {
            let v = self.rows[i] as usize;
            let role = self.roles[v];
            if role == Role::Unused {
                continue;
            }
            self.place[v] = self.part.gates.len() as u32 - first;
            let score_of_event = if targets == Targets::Scores { score(view, v) } else { None };
            let computed =
                role == Role::Target || (score_of_event.is_none() && !self.edges_into(v).is_empty());
            let kind = match (computed, role) {
                (false, _) => Kind::Known,
                (true, Role::Target) => Kind::Target,
                (true, _) => Kind::Inner,
            };
            let inputs = if computed { self.inputs(view, v, targets) } else { [0; 2] };
            if kind == Kind::Target {
                let [n_inputs, n_modeled] = inputs;
                let seq = Some(v as u32);
                self.part.targets.push(Target {
                    trace: view.trace,
                    seq,
                    score: score_of_event,
                    n_inputs,
                    n_modeled,
                });
            }
            self.part.gates.push(Gate { end: self.part.inputs.len() as u32, kind, score: score_of_event });
        }
    }

    /// Lists the inputs of an event; how many there are, and how many of them are modeled.
    fn inputs(&mut self, view: &TraceView<'_>, v: usize, targets: Targets) -> [u32; 2] {
        let mut counts = [0; 2];
        let mut from = self.into[v] as usize;
        let end = self.into[v + 1] as usize;
        while from < end {
            let u = self.edges[from].1;
            let mut mix = [0; N_TYPES];
            while from < end && self.edges[from].1 == u {
                let kind = self.edges[from].2 as usize;
                mix[kind] += 1;
                self.part.n_edges[kind] += 1;
                from += 1;
            }
            let mixes = &mut self.part.mixes;
            let mix = *self.known_mixes.entry(mix).or_insert_with(|| {
                mixes.push(mix);
                mixes.len() as u32 - 1
            });
            let u = u as usize;
            self.part.inputs.push(Input { place: self.place[u], mix });
            let is_recorded =
                self.edges_into(u).is_empty() || (targets == Targets::Scores && score(view, u).is_some());
            counts[0] += 1;
            counts[1] += u32::from(!is_recorded);
        }
        counts
    }

    fn sink(&mut self, view: &TraceView<'_>) {
        // rows of sinks ascend, as in the surrogate; places are free until the next trace
        let mut leads = vec![false; view.len()];
        view.src.iter().for_each(|&u| leads[u as usize] = true);
        let sinks = (0..view.len()).filter(|&v| !leads[v]);
        let from = self.part.inputs.len();
        let places = sinks.clone().map(|v| Input { place: self.place[v], mix: 0 });
        self.part.inputs.extend(places);
        let n_inputs = (self.part.inputs.len() - from) as u32;
        let n_modeled = sinks.filter(|&v| !self.edges_into(v).is_empty()).count() as u32;
        self.part.targets.push(Target { trace: view.trace, seq: None, score: None, n_inputs, n_modeled });
        self.part.gates.push(Gate { end: self.part.inputs.len() as u32, kind: Kind::Sink, score: None });
    }
}

/// The recorded score, kept within 0..1.
fn score(view: &TraceView<'_>, v: usize) -> Option<f64> {
    view.score.get(v).filter(|score| !score.is_nan()).map(|score| score.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests;
