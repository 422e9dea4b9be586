//! The game of a trace: players switch events on and off, and the structural surrogate values the outcome.
//!
//! [`Circuit::compile`] rewrites the gates of a [`Surrogate`] for the players at hand. What no player changes becomes a
//! constant, and is folded into the gates that read it; what depends on one player alone, and is 0 without that one,
//! becomes that player, times a factor. Noisy-ors with many inputs become trees, so that a player who joins changes a
//! few products of eight. Only gates on a way to the outcome stay. O(|V| + |E|).
//!
//! [`CircuitGame`] evaluates it, sixteen coalitions or orders side by side. Each block of lanes remembers the last
//! coalitions it saw: where few players differ from them, only gates behind these are evaluated again, and nothing
//! behind a gate whose value stays. A gate computes the same bits either way, so what is chosen does not show.

// Out of line, lanes travel through memory: a third of the speed, as measured.
#![allow(clippy::inline_always)]

mod compile;
mod lanes;
#[cfg(test)]
mod tests;

pub use compile::Compiler;

use self::lanes::Lanes;
use super::{COALITIONS, Game};
use crate::error::Result;
use crate::registers::widest;
use crate::run::Run;
use crate::surrogate::{Gate, Rule};

/// Coalitions or orders side by side.
const WIDE: usize = 16;

/// How much longer a gate takes where an order is walked alone than side by side with others, in tenths: there it is
/// found by its mark.
const MARKED: u64 = 11;

/// In place of a player: the event is always there.
pub(super) const NO_PLAYER: u32 = u32::MAX;

/// What a node computes of its inputs x and the weights w beside them.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Op {
    /// `base`.
    Constant,
    /// w x.
    Scaled,
    /// (1 - base Π(1 - w x)) / scale.
    Or,
    /// Π(1 - w x), a part of a noisy-or.
    Fails,
    /// Π x, of such parts.
    Times,
    /// (1 - base Π x) / scale, of such parts.
    OrOfParts,
    /// min(1, (base + Σ w x) / scale).
    Sum,
    /// As the surrogate has it; `base` is the floor.
    Gate(Rule),
}

/// A gate, without its inputs.
#[derive(Debug, Clone, Copy)]
struct Node {
    op: Op,
    /// Without this player the value is 0.
    player: u32,
    /// Where its inputs end; they begin where those of the node before end.
    end: u32,
    base: f64,
    scale: f64,
}

/// The compiled game of one trace; a buffer reused from trace to trace.
///
/// Places 0..n are the players, 1 where one is in and 0 else; behind them the nodes in topological order, each with
/// inputs at earlier places. The last one is the outcome.
#[derive(Debug, Default)]
pub struct Circuit {
    players: usize,
    nodes: Vec<Node>,
    inputs: Vec<u32>,
    weights: Vec<f64>,
    /// Of each place, where the nodes end that read it, and these nodes.
    reader_ends: Vec<u32>,
    readers: Vec<u32>,
}

impl Circuit {
    /// Number of gates and of their inputs, after compiling.
    #[must_use]
    pub fn size(&self) -> (usize, usize) {
        (self.nodes.len(), self.inputs.len())
    }

    fn places(&self) -> usize {
        self.players + self.nodes.len()
    }

    /// Nodes and inputs that an order visits where every gate is evaluated at every step.
    fn order(&self) -> u64 {
        (self.players * (self.nodes.len() + self.inputs.len())) as u64
    }

    /// Nodes behind a place, and their inputs.
    fn behind(&self, place: usize) -> usize {
        let mut marked = vec![false; self.nodes.len()];
        self.readers_of(place).iter().for_each(|&node| marked[node as usize] = true);
        let mut size = 0;
        for node in 0..self.nodes.len() {
            if marked[node] {
                size += 1 + self.inputs_of(node).len();
                let readers = self.readers_of(self.players + node);
                for &node in readers {
                    marked[node as usize] = true;
                }
            }
        }
        size
    }

    #[inline]
    fn readers_of(&self, place: usize) -> &[u32] {
        let from = if place == 0 { 0 } else { self.reader_ends[place - 1] };
        &self.readers[from as usize..self.reader_ends[place] as usize]
    }

    #[inline]
    fn inputs_of(&self, node: usize) -> std::ops::Range<usize> {
        let from = if node == 0 { 0 } else { self.nodes[node - 1].end };
        from as usize..self.nodes[node].end as usize
    }

    /// Value of a node; `values` has those of all places before it.
    #[inline(always)]
    fn evaluate<const L: usize>(&self, node: usize, values: &[[f64; L]]) -> [f64; L] {
        let range = self.inputs_of(node);
        let node = &self.nodes[node];
        let (inputs, weights) = (&self.inputs[range.clone()], &self.weights[range]);
        let or = |fails: [f64; L]| {
            if node.scale == 1.0 {
                fails.map(|fails| 1.0 - fails)
            } else {
                fails.map(|fails| (1.0 - fails) / node.scale)
            }
        };
        let mut value = match node.op {
            Op::Or => or(fails(node.base, inputs, weights, values)),
            Op::Fails => fails(1.0, inputs, weights, values),
            Op::Times => times(1.0, inputs, values),
            Op::OrOfParts => or(times(node.base, inputs, values)),
            Op::Constant => [node.base; L],
            Op::Scaled => values[inputs[0] as usize].map(|x| weights[0] * x),
            Op::Sum => {
                let mut sum = [node.base; L];
                for (&u, &w) in inputs.iter().zip(weights) {
                    let x = &values[u as usize];
                    sum = side_by_side(|lane| sum[lane] + w * x[lane]);
                }
                sum.map(|sum| (sum / node.scale).min(1.0))
            }
            Op::Gate(rule) => Gate { row: None, rule, scale: node.scale, floor: node.base, inputs, weights }
                .evaluate(values),
        };
        if node.player != NO_PLAYER {
            let present = &values[node.player as usize];
            value = side_by_side(|lane| value[lane] * present[lane]);
        }
        value
    }
}

/// start Π(1 - w x).
#[inline(always)]
fn fails<const L: usize>(start: f64, inputs: &[u32], weights: &[f64], values: &[[f64; L]]) -> [f64; L] {
    let mut product = [start; L];
    for (&u, &w) in inputs.iter().zip(weights) {
        let x = &values[u as usize];
        product = side_by_side(|lane| product[lane] * (1.0 - w * x[lane]));
    }
    product
}

/// start Π x.
#[inline(always)]
fn times<const L: usize>(start: f64, inputs: &[u32], values: &[[f64; L]]) -> [f64; L] {
    let mut product = [start; L];
    for &u in inputs {
        let x = &values[u as usize];
        product = side_by_side(|lane| product[lane] * x[lane]);
    }
    product
}

/// A value for each lane. What is written anew as a whole stays in wide registers; what is changed lane by lane does
/// not, as measured: half the speed.
#[inline(always)]
fn side_by_side<const L: usize>(value: impl Fn(usize) -> f64) -> [f64; L] {
    std::array::from_fn(value)
}

/// How the gains along an order are found; all give the same bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Evaluation {
    /// Whichever is expected to be faster.
    #[default]
    Auto,
    /// Every gate at every step.
    Full,
    /// The gates whose inputs changed, one order after the other.
    Incremental,
}

impl Evaluation {
    /// Names, as options spell them.
    pub const NAMES: &'static [&'static str] = &["auto", "full", "incremental"];

    /// The one of a name; anything else is `auto`.
    #[must_use]
    pub fn named(name: Option<&str>) -> Self {
        match name {
            Some("full") => Self::Full,
            Some("incremental") => Self::Incremental,
            _ => Self::Auto,
        }
    }
}

/// What an evaluator remembers; a buffer that is used for one game after the other.
#[derive(Debug, Default)]
pub struct Memory {
    blocks: [Lanes<WIDE>; COALITIONS / WIDE],
    single: Lanes<1>,
}

/// Nodes and inputs that are evaluated between two looks at the cancel flag: some milliseconds.
const PATIENCE: u64 = 1 << 19;

/// Looks at the cancel flag every so often: 64 orders of a large trace take minutes.
#[derive(Debug, Clone, Copy, Default)]
struct Patience<'a> {
    run: Option<&'a Run>,
    work: u64,
}

impl Patience<'_> {
    #[inline]
    fn spend(&mut self, work: u64) -> Result<()> {
        self.work += work + 1;
        if self.work < PATIENCE {
            return Ok(());
        }
        self.work = 0;
        self.run.map_or(Ok(()), Run::check)
    }
}

/// A compiled game that can be played.
#[derive(Debug)]
pub struct CircuitGame<'a> {
    circuit: &'a Circuit,
    memory: Memory,
    evaluation: Evaluation,
    patience: Patience<'a>,
}

impl<'a> CircuitGame<'a> {
    /// An evaluator of `circuit`; `memory` may come from any other game.
    #[must_use]
    pub fn new(circuit: &'a Circuit, mut memory: Memory, evaluation: Evaluation) -> Self {
        memory.blocks.iter_mut().for_each(Lanes::forget);
        Self { circuit, memory, evaluation, patience: Patience::default() }
    }

    /// The same, failing soon after `run` is cancelled, also in the middle of an order.
    #[must_use]
    pub fn until(self, run: &'a Run) -> Self {
        Self { patience: Patience { run: Some(run), work: 0 }, ..self }
    }

    /// The buffers, for the next game.
    #[must_use]
    pub fn into_memory(self) -> Memory {
        self.memory
    }
}

impl CircuitGame<'_> {
    #[inline(always)]
    fn block_values(&mut self, members: &[u64], out: &mut [f64]) -> Result<()> {
        for (block, out) in out.chunks_mut(WIDE).enumerate() {
            self.patience.spend(self.circuit.places() as u64)?;
            let lanes = &mut self.memory.blocks[block];
            lanes.visit(self.circuit, |player| (members[player] >> (block * WIDE)) as u16);
            out.copy_from_slice(&lanes.outcome(self.circuit)[..out.len()]);
        }
        Ok(())
    }

    #[inline(always)]
    fn block_walks(&mut self, orders: &[u32], out: &mut [f64]) -> Result<()> {
        let n = self.circuit.players;
        if n == 0 || orders.is_empty() {
            return Ok(());
        }
        let Memory { blocks, single } = &mut self.memory;
        let (circuit, patience) = (self.circuit, &mut self.patience);
        let mut done = 0;
        if self.evaluation != Evaluation::Full {
            // One after the other: of several orders the players who join change most gates together. What the first
            // takes says what all would take, and it is given up as soon as every gate for all orders is less.
            let several = orders.len() / n;
            let wide = several.div_ceil(WIDE) as u64 * circuit.order();
            let auto = self.evaluation == Evaluation::Auto;
            let mut most = if auto { wide * 10 / (MARKED * several as u64) } else { u64::MAX };
            for (order, gains) in orders.chunks_exact(n).zip(out.chunks_exact_mut(n)) {
                if single.walk::<true>(circuit, order, gains, patience, most)?.is_none() {
                    break;
                }
                most = u64::MAX;
                done += n;
            }
        }
        for (orders, gains) in orders[done..].chunks(n * WIDE).zip(out[done..].chunks_mut(n * WIDE)) {
            blocks[0].walk::<false>(circuit, orders, gains, patience, u64::MAX)?;
        }
        Ok(())
    }
}

impl Game for CircuitGame<'_> {
    fn players(&self) -> usize {
        self.circuit.players
    }

    fn is_null(&self, player: usize) -> bool {
        self.circuit.readers_of(player).is_empty()
    }

    fn reach(&self, player: usize) -> usize {
        self.circuit.behind(player)
    }

    fn values(&mut self, members: &[u64], out: &mut [f64]) -> Result<()> {
        widest(
            #[inline(always)]
            || self.block_values(members, out),
        )
    }

    fn walks(&mut self, orders: &[u32], out: &mut [f64]) -> Result<()> {
        widest(
            #[inline(always)]
            || self.block_walks(orders, out),
        )
    }

    fn fork(&self) -> Option<Box<dyn Game + '_>> {
        let Self { circuit, evaluation, patience, .. } = *self;
        Some(Box::new(CircuitGame { circuit, memory: Memory::default(), evaluation, patience }))
    }
}
