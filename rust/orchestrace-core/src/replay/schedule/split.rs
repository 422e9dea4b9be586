//! The graph of a trace with one agent split into several.
//!
//! What holds an agent to one thing at a time is program order: its temporal edges. Events of the agent that other edges
//! join are one piece of work. Pieces are dealt in the order of their first event (D1), each to the part with the least
//! work so far, the lower number where two are equal. Temporal edges between the parts go; within a part every event
//! follows the last event of its part that came before it on the recorded chain. All other edges stay.
//! O((|V|+|E|) parts) for the events of the agent.

use super::scenario::Change;
use crate::graph::{NOBODY, Order, Owners};
use crate::schema::EdgeType;
use crate::store::view::TraceView;

const TEMPORAL: u8 = EdgeType::Temporal as u8;

/// Edges and parts after all splits; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct Split {
    /// Sources of the edges, program order included.
    pub src: Vec<u32>,
    /// Their destinations.
    pub dst: Vec<u32>,
    /// Their types.
    pub types: Vec<u8>,
    /// Of each event the part that it belongs to, counted over all agents that were split, or [`NOBODY`].
    pub part: Vec<u32>,
    /// How many parts.
    pub parts: u32,
    piece: Vec<u32>,
    load: Vec<f64>,
    by_piece: Vec<(u32, u32, f64)>,
    /// Of each event and part the last event of the part on the chain before it.
    near: Vec<u32>,
    added: Vec<(u32, u32)>,
}

impl Split {
    /// Whether the changes split an agent of this trace.
    #[must_use]
    pub fn concerns(owners: &Owners, changes: &[Change]) -> bool {
        changes.iter().any(|change| split_of(owners, change).is_some())
    }

    /// Replaces everything by the recorded edges and `program`, split by `changes`. `order` is a topological order,
    /// `canonical` the canonical one, `duration` how long events take.
    pub fn compute(
        &mut self,
        view: &TraceView<'_>,
        owners: &Owners,
        program: &[(u32, u32)],
        order: Order<'_>,
        duration: &[f64],
        changes: &[Change],
    ) {
        self.src.clear();
        self.src.extend(view.src.iter().copied().chain(program.iter().map(|edge| edge.0)));
        self.dst.clear();
        self.dst.extend(view.dst.iter().copied().chain(program.iter().map(|edge| edge.1)));
        self.types.clear();
        self.types.extend(view.edge_types.iter().copied().chain(program.iter().map(|_| TEMPORAL)));
        self.part.clear();
        self.part.resize(view.len(), NOBODY);
        self.parts = 0;
        for (agent, parts) in changes.iter().filter_map(|change| split_of(owners, change)) {
            let owned = |v: u32| owners.indices()[v as usize] == agent;
            self.deal(owners.order().rows(), &owned, parts, duration);
            self.relink(order, &owned, parts);
            self.parts += parts;
        }
    }

    /// Pieces of the agent's work, and the part of each.
    fn deal(&mut self, canonical: &[u32], owned: &impl Fn(u32) -> bool, parts: u32, duration: &[f64]) {
        self.piece.clear();
        self.piece.extend(0..duration.len() as u32);
        for ((&s, &d), &kind) in self.src.iter().zip(&self.dst).zip(&self.types) {
            if kind != TEMPORAL && owned(s) && owned(d) {
                let (a, b) = (find(&mut self.piece, s), find(&mut self.piece, d));
                self.piece[a.max(b) as usize] = a.min(b);
            }
        }
        self.by_piece.clear();
        for (rank, &v) in canonical.iter().enumerate().filter(|(_, v)| owned(**v)) {
            let piece = find(&mut self.piece, v);
            self.by_piece.push((piece, rank as u32, duration[v as usize]));
        }
        self.by_piece.sort_unstable_by_key(|&(piece, rank, _)| (piece, rank));
        // One entry a piece: where it begins, and its work.
        let mut n_pieces = 0;
        for at in 0..self.by_piece.len() {
            let (piece, rank, work) = self.by_piece[at];
            if n_pieces > 0 && self.by_piece[n_pieces - 1].0 == piece {
                self.by_piece[n_pieces - 1].2 += work;
            } else {
                self.by_piece[n_pieces] = (piece, rank, work);
                n_pieces += 1;
            }
        }
        self.by_piece.truncate(n_pieces);
        self.by_piece.sort_unstable_by_key(|&(_, rank, _)| rank);
        self.load.clear();
        self.load.resize(parts as usize, 0.0);
        for &(piece, _, work) in &self.by_piece {
            let least =
                (0..self.load.len()).min_by(|&a, &b| self.load[a].total_cmp(&self.load[b])).unwrap_or(0);
            self.load[least] += work;
            self.part[piece as usize] = self.parts + least as u32;
        }
        for &v in canonical.iter().filter(|v| owned(**v)) {
            let piece = find(&mut self.piece, v);
            self.part[v as usize] = self.part[piece as usize];
        }
        // From here on the place of each event among those of the agent.
        for (place, &v) in canonical.iter().filter(|v| owned(**v)).enumerate() {
            self.piece[v as usize] = place as u32;
        }
        self.near.clear();
        self.near.resize(canonical.iter().filter(|v| owned(**v)).count() * parts as usize, NOBODY);
    }

    /// Takes out program order between parts and draws it within them.
    fn relink(&mut self, order: Order<'_>, owned: &impl Fn(u32) -> bool, parts: u32) {
        let chain = |s: u32, d: u32, kind: u8| kind == TEMPORAL && owned(s) && owned(d);
        // Temporal inputs of each event of the agent, as a list behind the event.
        self.added.clear();
        for ((&s, &d), &kind) in self.src.iter().zip(&self.dst).zip(&self.types) {
            if chain(s, d, kind) {
                self.added.push((d, s));
            }
        }
        self.added.sort_unstable();
        let mut n_edges = 0;
        for e in 0..self.src.len() {
            let (s, d, kind) = (self.src[e], self.dst[e], self.types[e]);
            if !(chain(s, d, kind) && self.part[s as usize] != self.part[d as usize]) {
                (self.src[n_edges], self.dst[n_edges], self.types[n_edges]) = (s, d, kind);
                n_edges += 1;
            }
        }
        for column in [&mut self.src, &mut self.dst] {
            column.truncate(n_edges);
        }
        self.types.truncate(n_edges);
        match order {
            Order::Document(n) => (0..n as u32).for_each(|v| self.follow(v, parts)),
            Order::Listed(rows) => rows.iter().for_each(|&v| self.follow(v, parts)),
        }
    }

    fn follow(&mut self, v: u32, parts: u32) {
        let from = self.added.partition_point(|&(d, _)| d < v);
        let width = parts as usize;
        for e in from..self.added.len() {
            let (d, u) = self.added[e];
            if d != v {
                break;
            }
            for part in 0..width {
                let last = if self.part[u as usize] == self.parts + part as u32 {
                    u
                } else {
                    self.near[self.piece[u as usize] as usize * width + part]
                };
                if last == NOBODY {
                    continue;
                }
                self.near[self.piece[v as usize] as usize * width + part] = last;
                if last != u && self.part[v as usize] == self.parts + part as u32 {
                    self.src.push(last);
                    self.dst.push(v);
                    self.types.push(TEMPORAL);
                }
            }
        }
    }
}

/// The agent, by its place among the names of the trace, and into how many parts.
fn split_of(owners: &Owners, change: &Change) -> Option<(u32, u32)> {
    let Change::Split { agent, parts } = change else { return None };
    owners.name_index((*agent)?).map(|agent| (agent, *parts))
}

fn find(piece: &mut [u32], v: u32) -> u32 {
    let mut at = v;
    while piece[at as usize] != at {
        piece[at as usize] = piece[piece[at as usize] as usize];
        at = piece[at as usize];
    }
    at
}
