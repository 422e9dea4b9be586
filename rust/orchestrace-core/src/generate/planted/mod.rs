//! Corpora with planted contributions: recordings whose truth is known exactly.
//!
//! A run is played by the same simulation as all generated corpora (`generate/trace.rs`): a spawn forest of
//! agents that answer, call tools, write, return and aggregate, with log-normal latencies and token counts.
//! What its events do to the outcome is drawn in `law.rs`, how they make it is said in `model.rs`, which also
//! gives the truth: contributions of events, Shapley values of agents, expected outcomes. Consecutive traces
//! are the rollouts of one group and share beginnings (`fork.rs`).
//!
//! **Siblings.** `prefix_key` hashes everything before an event: two rollouts of a group have a key in common
//! exactly as long as they were identical so far. At a fork the policy and the effects of all actions are
//! those of the common context, the action is drawn per block of rollouts, and the same action has the same
//! content. The probability of the logged action is `p_behavior`, those of all are `p_actions`. In the linear
//! model without pairs the contribution of a decision is its advantage, since effects have mean 0 under the
//! policy; a decisive error comes on top.
//!
//! **Decisive error.** In the given share of traces one event, every place equally likely, costs 2 (linear)
//! or nine tenths of the outcome (gates).
//!
//! **Rewards.** `team` = outcome + noise, a normal variate. `value` of an event is the expected outcome
//! before it, plus noise if asked for. With `dense` the field `reward` is the change of the expected outcome
//! by the event; these have mean 0 given the past, so `value` stays the expected return.
//!
//! **What effects hang on** is the context by default, which regressions and structure cannot see; `ties.rs`
//! has effects that hang on actions, on roles or on tools. A planted decision to spawn is in `spawning.rs`.
//!
//! **Stopping.** Each decision of an orchestrator and each aggregate has a `draft_score`, which rises to a
//! peak and falls. The payoff of an epoch is its draft score less `stop_cost` times the tokens of all events
//! up to it; the best epoch is the first with the highest payoff.
//!
//! Everything depends on seed, options and the number of the trace, never on threads; a corpus is a prefix of
//! each longer one. Time is linear in events, plus `32` operations for each event with an effect and `2ⁿ` for
//! `n ≤ 12` agents under gates. Memory is that of the traces in flight and 32 bytes an event of truth.

mod bits;
mod document;
mod fork;
mod law;
mod model;
mod planting;
mod quadrature;
mod spawning;
#[cfg(test)]
mod tests;
mod ties;
mod truth;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use arrow_array::RecordBatch;
use rayon::prelude::*;

pub use model::Outcome;
pub use spawning::Spawning;
pub use ties::Effects;
pub use truth::Truth;

use super::preset::Size;
use super::task::Task;
use super::trace;
use super::{BLOCK_EVENTS, BLOCKS_PER_THREAD, Counts};
use crate::error::{Error, Result};
use crate::rng::Stream;
use crate::schema::Topology;
use fork::Planned;
use law::MOST_ACTIONS;
use model::Model;
use planting::Planting;
use ties::Ties;

/// No trace is longer, so that one trace is never a burden for memory.
const LONGEST: u64 = 200_000;

/// What to generate.
#[derive(Debug, Clone)]
pub struct Spec {
    /// Number of traces.
    pub traces: u64,
    /// Same seed, same bytes.
    pub seed: u64,
    /// Team size, the root included; a run too short to spawn them all has fewer.
    pub agents: u32,
    /// Events per agent of the team; every trace has `agents * events` in all, if `spread` is 0.
    pub events: u32,
    /// Events of every trace in all, instead of `agents * events`: lengths that no team divides.
    pub length: Option<u32>,
    /// How far the length of a task's rollouts is from that, up or down, at most: a share of it.
    pub spread: f64,
    /// How deep spawns nest below the root, at most.
    pub depth: u32,
    /// Agents that one delegation starts, at most.
    pub branching: u32,
    /// The topology of all tasks; `None` gives tasks the eight in turn.
    pub topology: Option<Topology>,
    /// How effects make the outcome.
    pub outcome: Outcome,
    /// What effects hang on.
    pub effects: Effects,
    /// A planted decision to spawn.
    pub spawning: Option<Spawning>,
    /// Weight of pair terms; 0 leaves them out.
    pub interaction: f64,
    /// Share of events that matter.
    pub density: f64,
    /// Actions of a policy.
    pub actions: usize,
    /// Rollouts per task.
    pub group_size: u64,
    /// Forks of a group.
    pub branches: u64,
    /// Standard deviation of the noise on the reward.
    pub noise: f64,
    /// Share of traces with a decisive error.
    pub decisive: f64,
    /// Standard deviation of the noise on values.
    pub value_noise: f64,
    /// Whether events have the field `reward`.
    pub dense: bool,
    /// Price of a token in draft score.
    pub stop_cost: f64,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            traces: 128,
            seed: 0,
            agents: 5,
            events: 20,
            length: None,
            spread: 0.0,
            depth: 2,
            branching: 3,
            topology: None,
            outcome: Outcome::Linear,
            effects: Effects::Context,
            spawning: None,
            interaction: 0.0,
            density: 0.2,
            actions: 3,
            group_size: 8,
            branches: 1,
            noise: 0.1,
            decisive: 0.25,
            value_noise: 0.0,
            dense: false,
            stop_cost: 0.0,
        }
    }
}

impl Spec {
    /// Events of each trace, if all are alike.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length.map_or(u64::from(self.agents) * u64::from(self.events), u64::from)
    }

    /// Events of each rollout of a task: uniform in `length() * (1 ± spread)`. Rollouts of one task have one length,
    /// since a beginning that they share can hang on how much is to come.
    #[must_use]
    pub fn length_of(&self, task: u64) -> u64 {
        if self.spread == 0.0 {
            return self.length();
        }
        let place = 2.0 * Stream::numbered(self.seed, "planted.length", task).unit_f64() - 1.0;
        ((self.length() as f64 * (1.0 + self.spread * place)).round() as u64).max(1)
    }

    /// Refuses what cannot be generated; [`write`] asks this first.
    pub fn check(&self) -> Result<()> {
        let within = |name: &str, value: u64, least: u64, most: u64| {
            if (least..=most).contains(&value) {
                return Ok(());
            }
            Err(Error::Parameter(format!("{name} is {value}, expected {least} to {most}")))
        };
        within("traces", self.traces, 1, u64::from(u32::MAX))?;
        within("agents", u64::from(self.agents), 1, 1000)?;
        within("events", u64::from(self.events), 1, LONGEST)?;
        within(self.says_length(), self.length(), 1, LONGEST)?;
        within("depth", u64::from(self.depth), 1, 100)?;
        within("branching", u64::from(self.branching), 1, 1000)?;
        within("actions", self.actions as u64, 2, MOST_ACTIONS as u64)?;
        within("group_size", self.group_size, 1, 1 << 20)?;
        within("branches", self.branches, 1, 16)?;
        let real = |name: &str, value: f64, most: f64| {
            if (0.0..=most).contains(&value) {
                return Ok(());
            }
            let most = if most == 1.0 { "0 to 1" } else { "a finite number of at least 0" };
            Err(Error::Parameter(format!("{name} is {value}, expected {most}")))
        };
        real("length_spread", self.spread, 1.0)?;
        let longest = self.length() as f64 * (1.0 + self.spread);
        if longest > LONGEST as f64 {
            return Err(Error::Parameter(format!(
                "{} * (1 + length_spread) is {longest}, expected at most {LONGEST}",
                self.says_length()
            )));
        }
        if let Some(spawning) = self.spawning {
            spawning.check()?;
            if self.outcome != Outcome::Linear {
                return Err(Error::Parameter(
                    "spawn_effect needs outcome 'linear': no other is additive".into(),
                ));
            }
            // A decision, a spawn, what comes back and the answer.
            if self.agents < 2 || (self.length() as f64 * (1.0 - self.spread)) < 4.0 {
                return Err(Error::Parameter(
                    "spawn_effect needs at least 2 agents and 4 events in every trace".into(),
                ));
            }
        }
        real("density", self.density, 1.0)?;
        real("decisive", self.decisive, 1.0)?;
        for (name, value) in [
            ("interaction", self.interaction),
            ("noise", self.noise),
            ("value_noise", self.value_noise),
            ("stop_cost", self.stop_cost),
        ] {
            real(name, value, f64::MAX)?;
        }
        Ok(())
    }
}

impl Spec {
    /// The options that make the length, for errors.
    fn says_length(&self) -> &'static str {
        if self.length.is_some() { "length" } else { "agents * events" }
    }

    fn model(&self, length: u64) -> Model {
        Model::new(self.outcome, length as usize, self.density, self.decisive)
    }
}

/// A run by the rules of a planted corpus.
type Run = trace::Run<Planned>;

/// Consecutive traces and the buffers that one worker fills with them.
struct Block {
    numbers: std::ops::Range<u64>,
    out: Vec<u8>,
    run: Run,
    planting: Planting,
    /// Of the length of the last run.
    model: Model,
    ties: Ties,
    columns: truth::Columns,
    truth: Result<Vec<RecordBatch>>,
    counts: Counts,
}

impl Block {
    fn new(spec: &Spec) -> Self {
        Self {
            numbers: 0..0,
            out: Vec::new(),
            run: Run::new(Planned::of(spec)),
            planting: Planting::default(),
            model: spec.model(spec.length()),
            ties: Ties::new(spec.effects, spec.seed),
            columns: truth::Columns::default(),
            truth: Ok(Vec::new()),
            counts: Counts::default(),
        }
    }

    fn fill(&mut self, spec: &Spec, cancel: &AtomicBool, progress: &AtomicU64) {
        self.out.clear();
        self.counts = Counts::default();
        for number in self.numbers.clone() {
            if cancel.load(Ordering::Relaxed) {
                return;
            }
            self.trace(spec, number);
            progress.fetch_add(self.run.events.len() as u64, Ordering::Relaxed);
        }
        self.truth = self.columns.finish();
    }

    fn trace(&mut self, spec: &Spec, number: u64) {
        let (group, rollout) = (number / spec.group_size, number % spec.group_size);
        let task = Task::planted(spec.seed, group, spec.topology);
        let length = spec.length_of(group);
        if self.model.length() as u64 != length {
            self.model = spec.model(length);
        }
        let size = Size { events: length as u32, agents: spec.agents, depth: spec.depth as u8 };
        let run = &mut self.run;
        run.rules.begin(spec, &task, rollout);
        run.play(task, size, Stream::numbered(spec.seed, "planted.group", group));
        self.planting.plant(spec, &self.model, &self.ties, run, number);
        self.columns.add(run, &self.planting, number);
        document::document(&mut self.out, spec, run, &self.planting, number);
        self.counts.traces += 1;
        self.counts.events += run.events.len() as u64;
        self.counts.edges += run.edges.len() as u64;
        self.counts.bytes = self.out.len() as u64;
    }
}

/// Generates a corpus, hands it to `sink` piece by piece, each a whole number of lines, in order, and returns
/// what was written and what is true of it.
///
/// `threads`, `cancel` and `progress` as in [`super::write`].
///
/// ```
/// use std::sync::atomic::{AtomicBool, AtomicU64};
/// use orchestrace_core::generate::planted::{Spec, write};
///
/// let spec = Spec { traces: 16, ..Spec::default() };
/// let mut corpus = Vec::new();
/// let mut sink = |chunk: &[u8]| { corpus.extend_from_slice(chunk); Ok(()) };
/// let (counts, truth) = write(&spec, &mut sink, 1, &AtomicBool::new(false), &AtomicU64::new(0))?;
/// assert_eq!((counts.traces, counts.events), (16, 16 * 100));
/// let rows = truth.tables().map(|(_, batches, _)| batches.iter().map(|b| b.num_rows()).sum::<usize>());
/// assert_eq!(rows.max(), Some(1600));
/// # Ok::<(), orchestrace_core::error::Error>(())
/// ```
pub fn write(
    spec: &Spec,
    sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    threads: usize,
    cancel: &AtomicBool,
    progress: &AtomicU64,
) -> Result<(Counts, Truth)> {
    spec.check()?;
    let threads = if threads == 0 { rayon::current_num_threads() } else { threads };
    let per_block = (BLOCK_EVENTS / spec.length()).max(1);
    let mut blocks = (0..threads * BLOCKS_PER_THREAD).map(|_| Block::new(spec)).collect::<Vec<_>>();
    let (mut total, mut truth, mut next) = (Counts::default(), Truth::default(), 0);
    while next < spec.traces {
        let mut used = 0;
        for block in &mut blocks {
            if next == spec.traces {
                break;
            }
            block.numbers = next..(next + per_block).min(spec.traces);
            next = block.numbers.end;
            used += 1;
        }
        let batch = &mut blocks[..used];
        if threads == 1 {
            // No detour over the pool, which may be busy with other work.
            for block in batch.iter_mut() {
                block.fill(spec, cancel, progress);
            }
        } else {
            batch.par_iter_mut().for_each(|block| block.fill(spec, cancel, progress));
        }
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        for block in batch {
            sink(&block.out)
                .map_err(|source| Error::Io { path: "output of the generator".to_owned(), source })?;
            truth.push(std::mem::replace(&mut block.truth, Ok(Vec::new()))?);
            total.traces += block.counts.traces;
            total.events += block.counts.events;
            total.edges += block.counts.edges;
            total.bytes += block.counts.bytes;
        }
    }
    Ok((total, truth))
}
