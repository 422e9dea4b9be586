//! Compilation of a surrogate's gates to those that the given players can change.

use super::{Circuit, NO_PLAYER, Node, Op};
use crate::surrogate::{Gate, Rule, Surrogate};

/// Inputs beyond which a noisy-or becomes a tree, and those of a node of the tree.
const WIDEST: usize = 16;
const PART: usize = 8;

/// Stands for no place: what is known is a constant.
const CONSTANT: u32 = u32::MAX;

/// What is known of a gate of the surrogate: its value is the factor times that of a place, or the factor alone.
#[derive(Debug, Clone, Copy)]
struct Compiled {
    place: u32,
    factor: f64,
}

/// Writes circuits; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct Compiler {
    draft: Circuit,
    /// By gate of the surrogate.
    compiled: Vec<Compiled>,
    /// By gate: its value with its one player, and without.
    probe: Vec<[f64; 2]>,
    /// By place of the draft: the value when all players are there.
    full: Vec<[f64; 1]>,
    /// By player: the noisy-or that read it last, and where its weight is.
    read_at: Vec<(u32, u32)>,
    place: Vec<u32>,
    parts: Vec<u32>,
}

impl Compiler {
    /// Compiles the game of `surrogate` in which event v is there if player `player_of(v)` is; events of
    /// [`NO_UNIT`](crate::graph::NO_UNIT) always are.
    pub fn compile(
        &mut self,
        surrogate: &Surrogate,
        players: usize,
        player_of: impl Fn(usize) -> u32,
        out: &mut Circuit,
    ) {
        self.draft.players = players;
        self.draft.nodes.clear();
        self.draft.inputs.clear();
        self.draft.weights.clear();
        self.compiled.clear();
        self.probe.clear();
        self.full.clear();
        self.full.resize(players, [1.0]);
        self.read_at.clear();
        self.read_at.resize(players, (NO_PLAYER, 0));
        for (number, gate) in surrogate.gates().enumerate() {
            let player = gate.row.map_or(NO_PLAYER, |row| player_of(row as usize));
            let compiled = self.gate(number as u32, &gate, player);
            self.compiled.push(compiled);
            let alone = compiled.place == CONSTANT;
            self.probe.push([compiled.factor, if alone { compiled.factor } else { 0.0 }]);
        }
        let last = self.compiled.last().copied().unwrap_or(Compiled { place: CONSTANT, factor: 0.0 });
        let outcome = if (last.place as usize) < players && last.factor == 1.0 {
            // the outcome is a node, whatever it is
            self.node(Op::Scaled, NO_PLAYER, 0.0, 1.0, &[(last.place, 1.0)])
        } else {
            self.place_of(last)
        };
        self.sweep(outcome, out);
    }

    fn gate(&mut self, number: u32, gate: &Gate<'_>, player: u32) -> Compiled {
        // the one player that its inputs depend on, as far as there is only one
        let mut only = None;
        let mut simple = true;
        for &u in gate.inputs {
            let place = self.compiled[u as usize].place;
            if place != CONSTANT && only != Some(place) {
                simple &= only.is_none() && (place as usize) < self.draft.players;
                only = Some(place);
            }
        }
        if simple {
            let [with, without] = gate.evaluate(&self.probe);
            let place = match only {
                _ if with == 0.0 && (without == 0.0 || player != NO_PLAYER && only == Some(player)) => {
                    CONSTANT
                }
                None if player == NO_PLAYER => CONSTANT,
                None => player,
                Some(place) if place == player || player == NO_PLAYER && without == 0.0 => place,
                Some(_) if player == NO_PLAYER && with == without => CONSTANT,
                Some(_) => return self.emit(number, gate, player),
            };
            return Compiled { place, factor: with };
        }
        self.emit(number, gate, player)
    }

    fn emit(&mut self, number: u32, gate: &Gate<'_>, player: u32) -> Compiled {
        let place = match gate.rule {
            Rule::Pass => return self.passed(self.compiled[gate.inputs[0] as usize], player),
            Rule::NoisyOr => return self.noisy_or(number, gate, player),
            Rule::Linear | Rule::Mean => self.sum(gate, player),
            rule => {
                let mut places = std::mem::take(&mut self.parts);
                places.clear();
                for &u in gate.inputs {
                    let place = self.place_of(self.compiled[u as usize]);
                    places.push(place);
                }
                self.draft.inputs.extend_from_slice(&places);
                self.draft.weights.extend_from_slice(gate.weights);
                self.draft.weights.resize(self.draft.inputs.len(), 0.0);
                self.parts = places;
                self.close(Op::Gate(rule), player, gate.floor, gate.scale)
            }
        };
        Compiled { place, factor: 1.0 }
    }

    /// A value that passes through an event of `player`.
    fn passed(&mut self, compiled: Compiled, player: u32) -> Compiled {
        if player == NO_PLAYER || self.player_of(compiled.place) == player {
            return compiled;
        }
        let place = self.node(Op::Scaled, player, 0.0, 1.0, &[(compiled.place, compiled.factor)]);
        Compiled { place, factor: 1.0 }
    }

    /// Player without whom a place is 0.
    fn player_of(&self, place: u32) -> u32 {
        let players = self.draft.players;
        if (place as usize) < players { place } else { self.draft.nodes[place as usize - players].player }
    }

    fn noisy_or(&mut self, number: u32, gate: &Gate<'_>, player: u32) -> Compiled {
        let from = self.draft.inputs.len();
        let mut base = 1.0;
        let mut is_full = gate.scale != 1.0;
        for (&u, &w) in gate.inputs.iter().zip(gate.weights) {
            let Compiled { place, factor } = self.compiled[u as usize];
            is_full &= factor == 1.0 && (place == CONSTANT || self.full[place as usize] == [1.0]);
            let w = w * factor;
            if place == CONSTANT {
                base *= 1.0 - w;
            } else if let Some(read_at) = self.read_at.get_mut(place as usize) {
                // x is 0 or 1 there, so that (1 - w x)(1 - w' x) is one factor of this kind, too
                if read_at.0 == number {
                    let before = &mut self.draft.weights[read_at.1 as usize];
                    *before = 1.0 - (1.0 - *before) * (1.0 - w);
                } else if w > 0.0 {
                    *read_at = (number, self.draft.inputs.len() as u32);
                    self.draft.inputs.push(place);
                    self.draft.weights.push(w);
                }
            } else if w > 0.0 {
                self.draft.inputs.push(place);
                self.draft.weights.push(w);
            }
        }
        if self.draft.inputs.len() == from + 1 && base == 1.0 && gate.scale == 1.0 {
            // 1 - (1 - w x): chains of given weights come to this
            let (place, factor) = (self.draft.inputs[from], self.draft.weights[from]);
            self.draft.inputs.truncate(from);
            self.draft.weights.truncate(from);
            return self.passed(Compiled { place, factor }, player);
        }
        let place = if self.draft.inputs.len() - from <= WIDEST {
            self.close(Op::Or, player, base, 1.0)
        } else {
            self.tree(from, player, base)
        };
        // Everything there is exactly 1 where the weights are normalized, whatever the order of the products.
        let scale = if is_full { self.full[place as usize][0] } else { gate.scale };
        if scale != 1.0 {
            let node = place as usize - self.draft.players;
            self.draft.nodes[node].scale = scale;
            self.full[place as usize][0] /= scale;
        }
        Compiled { place, factor: 1.0 }
    }

    /// A noisy-or of the inputs from `from` on: products of eight, and of eight of those.
    fn tree(&mut self, from: usize, player: u32, base: f64) -> u32 {
        let inputs = self.draft.inputs.split_off(from);
        let weights = self.draft.weights.split_off(from);
        let mut parts = std::mem::take(&mut self.parts);
        parts.clear();
        for (inputs, weights) in inputs.chunks(PART).zip(weights.chunks(PART)) {
            self.draft.inputs.extend_from_slice(inputs);
            self.draft.weights.extend_from_slice(weights);
            let part = self.close(Op::Fails, NO_PLAYER, 1.0, 1.0);
            parts.push(part);
        }
        while parts.len() > WIDEST {
            let some = parts.len();
            for at in (0..some).step_by(PART) {
                let part = &parts[at..some.min(at + PART)];
                self.draft.inputs.extend_from_slice(part);
                self.draft.weights.resize(self.draft.inputs.len(), 1.0);
                let part = self.close(Op::Times, NO_PLAYER, 1.0, 1.0);
                parts.push(part);
            }
            parts.drain(..some);
        }
        self.draft.inputs.extend_from_slice(&parts);
        self.draft.weights.resize(self.draft.inputs.len(), 1.0);
        self.parts = parts;
        self.close(Op::OrOfParts, player, base, 1.0)
    }

    fn sum(&mut self, gate: &Gate<'_>, player: u32) -> u32 {
        let mut base = 0.0;
        let mut is_full = gate.scale != 1.0;
        for (&u, &w) in gate.inputs.iter().zip(gate.weights) {
            let Compiled { place, factor } = self.compiled[u as usize];
            is_full &= factor == 1.0 && (place == CONSTANT || self.full[place as usize] == [1.0]);
            if place == CONSTANT {
                base += w * factor;
            } else if w * factor > 0.0 {
                self.draft.inputs.push(place);
                self.draft.weights.push(w * factor);
            }
        }
        let scale = if is_full {
            let from = self.draft.nodes.last().map_or(0, |node| node.end as usize);
            self.draft.weights[from..].iter().fold(base, |sum, w| sum + w)
        } else {
            gate.scale
        };
        self.close(Op::Sum, player, base, scale)
    }

    /// Where the value is found as it is.
    fn place_of(&mut self, compiled: Compiled) -> u32 {
        match compiled {
            Compiled { place: CONSTANT, factor } => self.node(Op::Constant, NO_PLAYER, factor, 1.0, &[]),
            Compiled { place, factor: 1.0 } => place,
            Compiled { place, factor } => self.node(Op::Scaled, NO_PLAYER, 0.0, 1.0, &[(place, factor)]),
        }
    }

    fn node(&mut self, op: Op, player: u32, base: f64, scale: f64, inputs: &[(u32, f64)]) -> u32 {
        for &(place, w) in inputs {
            self.draft.inputs.push(place);
            self.draft.weights.push(w);
        }
        self.close(op, player, base, scale)
    }

    /// A node of the inputs that were pushed since the last one.
    fn close(&mut self, op: Op, player: u32, base: f64, scale: f64) -> u32 {
        let place = self.draft.places() as u32;
        let from = self.draft.nodes.last().map_or(0, |node| node.end as usize);
        let end = self.draft.inputs.len();
        self.draft.nodes.push(Node { op, player, end: end as u32, base, scale });
        let (inputs, weights) = (&self.draft.inputs[from..end], &self.draft.weights[from..end]);
        // only sums and products ask for it
        let full = inputs.iter().zip(weights).map(|(&u, &w)| (self.full[u as usize][0], w));
        let value = match op {
            Op::Or => 1.0 - full.fold(base, |p, (x, w)| p * (1.0 - w * x)),
            Op::Fails => full.fold(1.0, |p, (x, w)| p * (1.0 - w * x)),
            Op::Times => full.fold(1.0, |p, (x, _)| p * x),
            Op::OrOfParts => 1.0 - full.fold(base, |p, (x, _)| p * x),
            Op::Sum => (full.fold(base, |sum, (x, w)| sum + w * x) / scale).min(1.0),
            Op::Scaled => full.fold(0.0, |_, (x, w)| w * x),
            Op::Constant => base,
            Op::Gate(rule) => {
                Gate { row: None, rule, scale, floor: base, inputs, weights }.evaluate(&self.full)[0]
            }
        };
        self.full.push([value]);
        place
    }

    /// Copies what leads to the outcome into `out`, and notes who reads what.
    fn sweep(&mut self, outcome: u32, out: &mut Circuit) {
        let draft = &self.draft;
        let players = draft.players;
        self.place.clear();
        self.place.resize(draft.places(), CONSTANT);
        self.place[outcome as usize] = 0;
        for node in (0..draft.nodes.len()).rev() {
            if self.place[players + node] != CONSTANT {
                draft.inputs[draft.inputs_of(node)].iter().for_each(|&u| self.place[u as usize] = 0);
            }
        }
        (0..players).for_each(|player| self.place[player] = player as u32);
        out.players = players;
        out.nodes.clear();
        out.inputs.clear();
        out.weights.clear();
        for node in 0..draft.nodes.len() {
            if self.place[players + node] == CONSTANT {
                continue;
            }
            self.place[players + node] = out.places() as u32;
            let range = draft.inputs_of(node);
            out.inputs.extend(draft.inputs[range.clone()].iter().map(|&u| self.place[u as usize]));
            out.weights.extend_from_slice(&draft.weights[range]);
            out.nodes.push(Node { end: out.inputs.len() as u32, ..draft.nodes[node] });
        }
        out.note_readers();
    }
}

impl Circuit {
    fn note_readers(&mut self) {
        let Self { players, nodes, inputs, reader_ends, readers, .. } = self;
        reader_ends.clear();
        reader_ends.resize(*players + nodes.len() + 1, 0);
        // counted one place further on, so that filling moves the starts to the ends
        let read = |node: usize| {
            let from = if node == 0 { 0 } else { nodes[node - 1].end };
            let owner = Some(nodes[node].player).filter(|&player| player != NO_PLAYER);
            inputs[from as usize..nodes[node].end as usize].iter().copied().chain(owner)
        };
        for node in 0..nodes.len() {
            read(node).for_each(|place| reader_ends[place as usize + 1] += 1);
        }
        for place in 1..reader_ends.len() {
            reader_ends[place] += reader_ends[place - 1];
        }
        readers.clear();
        readers.resize(reader_ends.last().map_or(0, |&end| end as usize), 0);
        for node in 0..nodes.len() {
            for place in read(node) {
                let at = &mut reader_ends[place as usize];
                readers[*at as usize] = node as u32;
                *at += 1;
            }
        }
        reader_ends.pop();
    }
}
