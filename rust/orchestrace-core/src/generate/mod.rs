//! Synthetic corpora: seeded, schema-valid recordings of any size, one JSON document per line.
//!
//! A trace depends on the seed, the preset and its number, on nothing else, so the bytes are the same on
//! any number of threads and a corpus of `n` traces is a prefix of every longer one. If a number of events
//! is asked for, the last trace is cut to size before it is played, hence complete like all others.

mod json;
mod literals;
mod names;
mod outcome;
pub mod planted;
mod preset;
mod record;
mod task;
#[cfg(test)]
mod tests;
mod trace;

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rayon::prelude::*;

pub use preset::{Preset, PresetInfo, presets};

use crate::error::{Error, Result};
use crate::rng::Stream;
use json::Form;
use preset::{ROLLOUTS, Size};
use task::Task;
use trace::{Free, Run};

/// Events after which a block is full: some four megabytes of text.
const BLOCK_EVENTS: u64 = 16_384;
/// Blocks in memory per thread: one to work on, one to even out unequal ones.
const BLOCKS_PER_THREAD: usize = 2;

/// What to generate. At most one of `events` and `traces` is given; with neither it is the default number
/// of traces of the preset.
#[derive(Debug, Clone, Copy)]
pub struct Spec {
    /// The mix of sizes.
    pub preset: Preset,
    /// Exact number of events in all.
    pub events: Option<u64>,
    /// Exact number of traces.
    pub traces: Option<u64>,
    /// Same seed, same bytes.
    pub seed: u64,
}

/// What was generated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Documents.
    pub traces: u64,
    /// Events in them.
    pub events: u64,
    /// Edges in them.
    pub edges: u64,
    /// Bytes handed to the sink.
    pub bytes: u64,
}

/// The sizes of the traces in turn.
struct Plan {
    spec: Spec,
    next: u64,
    traces: u64,
    events: u64,
}

impl Plan {
    fn new(spec: &Spec) -> Result<Self> {
        let (traces, events) = match (spec.traces, spec.events) {
            (Some(_), Some(_)) => return Err(Error::Parameter("give traces or events, not both".into())),
            (Some(0), None) => return Err(Error::Parameter("traces must be at least 1".into())),
            (None, Some(0)) => return Err(Error::Parameter("events must be at least 1".into())),
            (Some(traces), None) => (traces, u64::MAX),
            (None, Some(events)) => (u64::MAX, events),
            (None, None) => (spec.preset.info().default_traces, u64::MAX),
        };
        Ok(Self { spec: *spec, next: 0, traces, events })
    }

    fn trace(&mut self) -> Option<(u64, Size)> {
        if self.next == self.traces || self.events == 0 {
            return None;
        }
        let mut size = preset::size(self.spec.preset, self.spec.seed, self.next);
        size.events = u64::from(size.events).min(self.events) as u32;
        self.events -= u64::from(size.events);
        self.next += 1;
        Some((self.next - 1, size))
    }

    /// Refills a block; false at the end.
    fn block(&mut self, block: &mut Block) -> bool {
        block.jobs.clear();
        let mut events = 0;
        while events < BLOCK_EVENTS {
            let Some(job) = self.trace() else { break };
            events += u64::from(job.1.events);
            block.jobs.push(job);
        }
        !block.jobs.is_empty()
    }
}

/// Consecutive traces and the buffers that one worker fills with them.
struct Block {
    jobs: Vec<(u64, Size)>,
    out: Vec<u8>,
    order: Vec<u32>,
    run: Run,
    counts: Counts,
}

impl Block {
    fn new() -> Self {
        Self {
            jobs: Vec::new(),
            out: Vec::new(),
            order: Vec::new(),
            run: Run::new(Free),
            counts: Counts::default(),
        }
    }

    fn fill(&mut self, seed: u64, cancel: &AtomicBool, progress: &AtomicU64) {
        self.out.clear();
        self.counts = Counts::default();
        for i in 0..self.jobs.len() {
            if cancel.load(Ordering::Relaxed) {
                return;
            }
            let (number, size) = self.jobs[i];
            self.trace(seed, number, size);
            progress.fetch_add(u64::from(size.events), Ordering::Relaxed);
        }
    }

    fn trace(&mut self, seed: u64, number: u64, size: Size) {
        let run = &mut self.run;
        run.play(Task::draw(seed, number / ROLLOUTS), size, Stream::numbered(seed, "generate.trace", number));
        let sum = outcome::account(run);
        let form = Form { ordinal: run.rng.bool(0.03), key: run.rng.bits64() };
        self.order.clear();
        self.order.extend(0..run.events.len() as u32);
        // Some logs are not in order of time: collected from queues, or one agent after the other.
        match run.rng.below(50) {
            0 => run.rng.shuffle(&mut self.order),
            1 => self.order.sort_by_key(|&at| (run.events[at as usize].actor, at)),
            _ => {}
        }
        json::document(&mut self.out, run, form, &self.order, &sum, number);
        self.counts.traces += 1;
        self.counts.events += run.events.len() as u64;
        self.counts.edges += run.edges.len() as u64;
        self.counts.bytes = self.out.len() as u64;
    }
}

/// Generates a corpus and hands it to `sink` piece by piece, each a whole number of lines, in order.
///
/// Work runs on the current rayon pool, `threads` (0: the pool's size) sets how much of it is in flight and
/// so the memory; the bytes depend on neither. `progress` counts events generated. After `cancel` is set
/// the call ends with [`Error::Cancelled`] within the time of one trace per worker.
///
/// ```
/// use std::sync::atomic::{AtomicBool, AtomicU64};
/// use orchestrace_core::generate::{Preset, Spec, write};
///
/// let spec = Spec { preset: Preset::Academic, events: Some(100), traces: None, seed: 7 };
/// let mut corpus = Vec::new();
/// let mut sink = |chunk: &[u8]| { corpus.extend_from_slice(chunk); Ok(()) };
/// let counts = write(&spec, &mut sink, 1, &AtomicBool::new(false), &AtomicU64::new(0))?;
/// assert_eq!(counts.events, 100);
/// assert_eq!(counts.bytes, corpus.len() as u64);
/// # Ok::<(), orchestrace_core::error::Error>(())
/// ```
pub fn write(
    spec: &Spec,
    sink: &mut dyn FnMut(&[u8]) -> io::Result<()>,
    threads: usize,
    cancel: &AtomicBool,
    progress: &AtomicU64,
) -> Result<Counts> {
    let mut plan = Plan::new(spec)?;
    let threads = if threads == 0 { rayon::current_num_threads() } else { threads };
    let mut blocks = Vec::new();
    let mut total = Counts::default();
    loop {
        let mut used = 0;
        while used < threads * BLOCKS_PER_THREAD {
            if used == blocks.len() {
                blocks.push(Block::new());
            }
            if !plan.block(&mut blocks[used]) {
                break;
            }
            used += 1;
        }
        if used == 0 {
            return Ok(total);
        }
        let batch = &mut blocks[..used];
        if threads == 1 {
            // No detour over the pool, which may be busy with other work.
            for block in batch.iter_mut() {
                block.fill(spec.seed, cancel, progress);
            }
        } else {
            batch.par_iter_mut().for_each(|block| block.fill(spec.seed, cancel, progress));
        }
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        for block in &*batch {
            sink(&block.out)
                .map_err(|source| Error::Io { path: "output of the generator".to_owned(), source })?;
            total.traces += block.counts.traces;
            total.events += block.counts.events;
            total.edges += block.counts.edges;
            total.bytes += block.counts.bytes;
        }
    }
}
