//! Evaluation of many coalitions side by side, and a memory of their values.

use super::{Circuit, Patience};
use crate::error::Result;

/// Values of all places for `L` coalitions.
#[derive(Debug)]
pub(super) struct Lanes<const L: usize> {
    values: Vec<[f64; L]>,
    /// Coalitions that `values` are of, a word for each player, if they are known.
    members: Vec<u16>,
    is_filled: bool,
    /// Nodes that have to be evaluated, a bit each.
    dirty: Vec<u64>,
    joined: Vec<u32>,
}

impl<const L: usize> Default for Lanes<L> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            members: Vec::new(),
            is_filled: false,
            dirty: Vec::new(),
            joined: Vec::new(),
        }
    }
}

impl<const L: usize> Lanes<L> {
    /// Nothing that is there may be used again.
    pub(super) fn forget(&mut self) {
        self.is_filled = false;
    }

    fn begin(&mut self, circuit: &Circuit) {
        self.values.resize(self.values.len().max(circuit.places()), [0.0; L]);
        self.dirty.clear();
        self.dirty.resize(circuit.nodes.len().div_ceil(64), 0);
    }

    /// Values of the outcome.
    pub(super) fn outcome(&self, circuit: &Circuit) -> [f64; L] {
        self.values[circuit.places() - 1]
    }

    /// Goes to the coalitions in which player p is where `members(p)` has a bit.
    #[inline(always)]
    pub(super) fn visit(&mut self, circuit: &Circuit, members: impl Fn(usize) -> u16) {
        let n = circuit.players;
        let was_filled = std::mem::replace(&mut self.is_filled, true);
        if !was_filled {
            self.begin(circuit);
            self.members.clear();
            self.members.resize(n, 0);
        }
        let mut changed = 0;
        for player in 0..n {
            let now = members(player);
            if was_filled && self.members[player] == now {
                continue;
            }
            self.members[player] = now;
            for (lane, value) in self.values[player].iter_mut().enumerate() {
                *value = f64::from((now >> lane) as u8 & 1);
            }
            if was_filled {
                self.read_by(circuit, player);
            }
            changed += 1;
        }
        if !was_filled || changed > 3 {
            self.dirty.fill(0);
            self.all(circuit);
        } else if changed > 0 {
            self.changed(circuit);
        }
    }

    /// Gains along up to `L` orders, side by side. What it returns is the work: nodes and inputs that were evaluated;
    /// none if it gave up in the middle, because that would be more than `most`.
    #[inline(always)]
    pub(super) fn walk<const INCREMENTAL: bool>(
        &mut self,
        circuit: &Circuit,
        orders: &[u32],
        out: &mut [f64],
        patience: &mut Patience<'_>,
        most: u64,
    ) -> Result<Option<u64>> {
        let n = circuit.players;
        let several = orders.len() / n;
        self.begin(circuit);
        self.forget();
        self.values[..n].fill([0.0; L]);
        let mut work = self.all(circuit);
        let (mut before, mut spent) = (self.outcome(circuit), 0);
        for k in 0..n {
            self.joined.clear();
            for lane in 0..several {
                let player = orders[lane * n + k];
                self.values[player as usize][lane] = 1.0;
                if !circuit.readers_of(player as usize).is_empty() {
                    self.joined.push(player);
                }
            }
            if !self.joined.is_empty() {
                if INCREMENTAL {
                    for i in 0..self.joined.len() {
                        self.read_by(circuit, self.joined[i] as usize);
                    }
                    work += self.changed(circuit);
                } else {
                    work += self.all(circuit);
                }
            }
            patience.spend(work - spent)?;
            spent = work;
            if work > most {
                return Ok(None);
            }
            let after = self.outcome(circuit);
            for lane in 0..several {
                out[lane * n + k] = after[lane] - before[lane];
            }
            before = after;
        }
        Ok(Some(work))
    }

    #[inline(always)]
    fn read_by(&mut self, circuit: &Circuit, place: usize) {
        for &node in circuit.readers_of(place) {
            self.dirty[node as usize / 64] |= 1 << (node % 64);
        }
    }

    /// Evaluates every node.
    #[inline(always)]
    fn all(&mut self, circuit: &Circuit) -> u64 {
        for node in 0..circuit.nodes.len() {
            let (before, after) = self.values.split_at_mut(circuit.players + node);
            after[0] = circuit.evaluate(node, before);
        }
        (circuit.nodes.len() + circuit.inputs.len()) as u64
    }

    /// Evaluates the nodes that are marked, and those behind them as far as values change.
    #[inline(always)]
    fn changed(&mut self, circuit: &Circuit) -> u64 {
        let mut work = 0;
        let mut word = 0;
        while word < self.dirty.len() {
            // a node marks only later ones, of this word or of those behind it
            let bits = self.dirty[word];
            if bits == 0 {
                word += 1;
                continue;
            }
            self.dirty[word] = bits & (bits - 1);
            let node = word * 64 + bits.trailing_zeros() as usize;
            let place = circuit.players + node;
            let player = circuit.nodes[node].player as usize;
            let absent = self.values.get(player).is_some_and(|there| is_same(there, &[0.0; L]));
            let (before, after) = self.values.split_at_mut(place);
            let value = if absent {
                [0.0; L]
            } else {
                work += 1 + circuit.inputs_of(node).len() as u64;
                circuit.evaluate(node, before)
            };
            if !is_same(&after[0], &value) {
                after[0] = value;
                self.read_by(circuit, place);
            }
        }
        work
    }
}

/// Whether all lanes have the same bits, without a jump for each.
#[inline(always)]
fn is_same<const L: usize>(left: &[f64; L], right: &[f64; L]) -> bool {
    left.iter().zip(right).fold(0, |differs, (left, right)| differs | (left.to_bits() ^ right.to_bits())) == 0
}
