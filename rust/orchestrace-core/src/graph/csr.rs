//! Adjacency of one trace in compressed rows, in both directions.
//!
//! Parallel edges merge: an edge counts once in degrees and paths, and its weight is the sum over all rows that
//! were merged, exact repeats included (D3). Rows of predecessors stand in the order in which the document names
//! them, rows of successors ascend; both are functions of the document alone, so a sum over neighbors has one fixed
//! order. Recordings mostly list edges by destination and none twice: then building copies; parallel edges take a pass
//! that merges, another order a counting sort before it.
//! O(|V|+|E|), and nothing is allocated once the buffers are warm.

use std::ops::Range;

use super::weights::N_TYPES;
use crate::schema::EdgeType;
use crate::store::view::TraceView;

/// The order in which a trace lists its edges.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listing {
    /// Every edge leads to a later row, so that document order is a topological one.
    pub ascending: bool,
    /// Destinations never fall, so that the edges into an event stand together.
    pub by_destination: bool,
}

impl Listing {
    /// Of the recorded edges of a trace.
    #[must_use]
    #[allow(clippy::needless_bitwise_bool)] // without an early exit it takes wide registers
    pub fn of(view: &TraceView<'_>) -> Self {
        let ends = view.src.iter().zip(view.dst);
        let next = view.dst.iter().zip(view.dst.iter().skip(1));
        Self {
            ascending: ends.fold(true, |ascending, (s, d)| ascending & (s < d)),
            by_destination: next.fold(true, |sorted, (a, b)| sorted & (a <= b)),
        }
    }
}

/// Whether some edges of a trace that lists them by destination are parallel; also said of an event with so many edges
/// that comparing them pair by pair would be long.
#[must_use]
fn has_parallel(view: &TraceView<'_>) -> bool {
    const MOST: usize = 16;
    let mut from = 0;
    for (e, (&s, &d)) in view.src.iter().zip(view.dst).enumerate() {
        if view.dst[from] != d {
            from = e;
        } else if e - from >= MOST || view.src[from..e].contains(&s) {
            return true;
        }
    }
    false
}

/// The graph of one trace; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct CsrGraph {
    n: usize,
    pred_at: Vec<u32>,
    pred: Vec<u32>,
    pred_weight: Vec<f64>,
    succ_at: Vec<u32>,
    succ: Vec<u32>,
    succ_weight: Vec<f64>,
    /// Whether the order of an agent's events gave edges, too.
    program_order: bool,
    successors_known: bool,
    ascending: bool,
    // where the latest edge from each source stands; stale entries are detected by what stands there
    place: Vec<u32>,
    // edges sorted by destination, where the document does not have them so
    sorted_at: Vec<u32>,
    sorted: Vec<(u32, u32, u8)>,
}

impl CsrGraph {
    /// Replaces the graph by that of `view`, with `program` as further temporal edges. Without a table of type
    /// `weights` no weights are kept.
    pub fn build(&mut self, view: &TraceView<'_>, program: &[(u32, u32)], weights: Option<&[f64; N_TYPES]>) {
        self.n = view.len();
        self.successors_known = false;
        self.program_order = !program.is_empty();
        let listing = Listing::of(view);
        self.ascending = listing.ascending && program.iter().all(|(s, d)| s < d);
        let sorted = listing.by_destination && program.is_empty();
        if sorted && !has_parallel(view) {
            self.copy(view, weights);
            return;
        }
        let recorded =
            view.src.iter().zip(view.dst).zip(view.edge_types).map(|((&s, &d), &kind)| (s, d, kind));
        if sorted {
            self.merge(recorded, weights);
        } else {
            let program = program.iter().map(|&(s, d)| (s, d, EdgeType::Temporal as u8));
            self.sort_by_destination(recorded.chain(program));
            let edges = std::mem::take(&mut self.sorted);
            self.merge(edges.iter().copied(), weights);
            self.sorted = edges;
        }
    }

    /// Rows of predecessors where the document has them as they are needed.
    fn copy(&mut self, view: &TraceView<'_>, weights: Option<&[f64; N_TYPES]>) {
        let at = zeroed(&mut self.pred_at, self.n + 1);
        for &d in view.dst {
            at[d as usize + 1] += 1;
        }
        prefix_sums(at);
        self.pred.clear();
        self.pred.extend_from_slice(view.src);
        self.pred_weight.clear();
        if let Some(table) = weights {
            self.pred_weight.extend(view.edge_types.iter().map(|&kind| table[kind as usize % N_TYPES]));
        }
    }

    fn sort_by_destination(&mut self, edges: impl Iterator<Item = (u32, u32, u8)> + Clone) {
        // Counts are kept one place up, so that after the prefix sums the cursor of row v is at v.
        let at = zeroed(&mut self.sorted_at, self.n + 1);
        let mut m = 0;
        for (_, d, _) in edges.clone() {
            at[d as usize + 1] += 1;
            m += 1;
        }
        prefix_sums(at);
        self.sorted.clear();
        self.sorted.resize(m, (0, 0, 0));
        for edge in edges {
            let cursor = &mut at[edge.1 as usize];
            self.sorted[*cursor as usize] = edge;
            *cursor += 1;
        }
    }

    /// Rows of predecessors from edges that come by destination.
    fn merge(&mut self, edges: impl Iterator<Item = (u32, u32, u8)>, weights: Option<&[f64; N_TYPES]>) {
        self.pred_at.clear();
        self.pred.clear();
        self.pred_weight.clear();
        self.place.resize(self.place.len().max(self.n), 0);
        self.pred_at.push(0);
        let mut row = 0;
        for (s, d, kind) in edges {
            if self.pred_at.len() <= d as usize {
                row = self.pred.len();
                self.pred_at.resize(d as usize + 1, row as u32);
            }
            let place = self.place[s as usize] as usize;
            let merged = place >= row && self.pred.get(place) == Some(&s);
            if !merged {
                self.place[s as usize] = self.pred.len() as u32;
                self.pred.push(s);
            }
            if let Some(table) = weights {
                let weight = table[kind as usize];
                if merged {
                    self.pred_weight[place] += weight;
                } else {
                    self.pred_weight.push(weight);
                }
            }
        }
        self.pred_at.resize(self.n + 1, self.pred.len() as u32);
    }

    /// Makes the rows of successors, if they have not been made for this trace.
    pub fn build_successors(&mut self) {
        if self.successors_known {
            return;
        }
        self.successors_known = true;
        // Counts are kept two places up: after the prefix sums the cursor of row v is at v + 1, and when all rows
        // are full it has become the end of the row, which is where offsets belong.
        let at = zeroed(&mut self.succ_at, self.n + 2);
        for &u in &self.pred {
            at[u as usize + 2] += 1;
        }
        prefix_sums(at);
        self.succ.resize(self.pred.len(), 0);
        self.succ_weight.resize(self.pred_weight.len(), 0.0);
        let weighted = !self.pred_weight.is_empty();
        for v in 0..self.n {
            for e in self.pred_at[v] as usize..self.pred_at[v + 1] as usize {
                let cursor = &mut at[self.pred[e] as usize + 1];
                self.succ[*cursor as usize] = v as u32;
                if weighted {
                    self.succ_weight[*cursor as usize] = self.pred_weight[e];
                }
                *cursor += 1;
            }
        }
    }

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.n
    }

    /// Whether there is no event.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Number of edges after merging.
    #[must_use]
    pub fn n_edges(&self) -> usize {
        self.pred.len()
    }

    /// Whether every edge leads to a later row of the document, which makes document order a topological one.
    #[must_use]
    pub fn is_ascending(&self) -> bool {
        self.ascending
    }

    /// Predecessors of an event, in the order of the document's edges.
    #[must_use]
    #[inline]
    pub fn predecessors_of(&self, v: usize) -> &[u32] {
        &self.pred[self.pred_at[v] as usize..self.pred_at[v + 1] as usize]
    }

    /// Marks `y` and every event that a path leads from to it; all others are cleared. O(V + E).
    pub fn mark_ancestors(&self, y: u32, marked: &mut Vec<bool>, stack: &mut Vec<u32>) {
        marked.clear();
        marked.resize(self.n, false);
        marked[y as usize] = true;
        stack.clear();
        stack.push(y);
        while let Some(v) = stack.pop() {
            for &u in self.predecessors_of(v as usize) {
                if !std::mem::replace(&mut marked[u as usize], true) {
                    stack.push(u);
                }
            }
        }
    }

    /// Merged weights beside [`Self::predecessors_of`]; empty if the graph was built without weights.
    #[must_use]
    #[inline]
    pub fn predecessor_weights(&self, v: usize) -> &[f64] {
        self.pred_weight.get(self.pred_at[v] as usize..self.pred_at[v + 1] as usize).unwrap_or(&[])
    }

    /// Where the edges into an event stand among all edges, which are grouped by destination.
    #[must_use]
    #[inline]
    pub fn edges_into(&self, v: usize) -> Range<usize> {
        self.pred_at[v] as usize..self.pred_at[v + 1] as usize
    }

    /// Merged weights of all edges; empty if the graph was built without weights.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        &self.pred_weight
    }

    /// Whether it has edges that nobody recorded: those of the order of an agent's events.
    #[must_use]
    pub fn has_program_order(&self) -> bool {
        self.program_order
    }

    /// Number of distinct predecessors of an event.
    #[must_use]
    pub fn in_degree(&self, v: usize) -> u32 {
        self.pred_at[v + 1] - self.pred_at[v]
    }

    /// Successors of an event, ascending; empty before [`Self::build_successors`].
    #[must_use]
    #[inline]
    pub fn successors_of(&self, v: usize) -> &[u32] {
        if !self.successors_known {
            return &[];
        }
        &self.succ[self.succ_at[v] as usize..self.succ_at[v + 1] as usize]
    }

    /// Merged weights beside [`Self::successors_of`].
    #[must_use]
    #[inline]
    pub fn successor_weights(&self, v: usize) -> &[f64] {
        if !self.successors_known {
            return &[];
        }
        self.succ_weight.get(self.succ_at[v] as usize..self.succ_at[v + 1] as usize).unwrap_or(&[])
    }
}

fn zeroed(buffer: &mut Vec<u32>, n: usize) -> &mut [u32] {
    buffer.clear();
    buffer.resize(n, 0);
    buffer
}

fn prefix_sums(counts: &mut [u32]) {
    let mut sum = 0;
    for count in counts {
        sum += *count;
        *count = sum;
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_trace::{TestTrace, random_edges};
    use super::super::weights::TYPE_WEIGHTS;
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn parallel_edges_merge_and_their_weights_add() {
        let mut t = TestTrace::events(3);
        t.edge(0, 2, EdgeType::Causal).edge(0, 1, EdgeType::Spawn).edge(0, 2, EdgeType::Message);
        t.edge(0, 2, EdgeType::Causal).edge(1, 2, EdgeType::Return);
        let mut g = CsrGraph::default();
        g.build(&t.view(), &[], Some(&TYPE_WEIGHTS));
        g.build_successors();
        assert_eq!((g.len(), g.n_edges(), g.is_empty()), (3, 3, false));
        assert_eq!(g.successors_of(0), [1, 2]);
        assert_eq!(g.successor_weights(0), [0.5, 2.7]);
        assert_eq!(g.predecessors_of(2), [0, 1]);
        assert_eq!(g.predecessor_weights(2), [2.7, 1.0]);
        assert_eq!([0, 1, 2].map(|v| g.in_degree(v)), [0, 1, 2]);
        assert!(g.is_ascending());
    }

    #[test]
    fn what_was_not_asked_for_is_empty() {
        let mut t = TestTrace::events(2);
        t.edge(0, 1, EdgeType::Causal);
        let mut g = CsrGraph::default();
        g.build(&t.view(), &[], Some(&TYPE_WEIGHTS));
        g.build(&t.view(), &[], None);
        assert_eq!(g.predecessors_of(1), [0]);
        assert!(g.predecessor_weights(1).is_empty() && g.successors_of(0).is_empty());
        g.build(&TestTrace::events(0).view(), &[], None);
        assert!(g.is_empty());
    }

    proptest! {
        #[test]
        fn equals_petgraph(n in 1_usize..30, edges in random_edges(30, 80), split in 0_usize..80) {
            let mut t = TestTrace::events(n);
            let edges: Vec<_> = edges.into_iter().map(|(s, d, k)| (s % n as u32, d % n as u32, k)).collect();
            let mut reference = petgraph::graph::DiGraph::<(), f64>::new();
            (0..n).for_each(|_| { reference.add_node(()); });
            let split = split.min(edges.len());
            let program: Vec<_> = edges[split..].iter().map(|&(s, d, _)| (s, d)).collect();
            let mut sums = BTreeMap::new();
            for (i, &(s, d, kind)) in edges.iter().enumerate() {
                let kind = if i < split { t.edge(s, d, kind); kind } else { EdgeType::Temporal };
                *sums.entry((s, d)).or_insert(0.0) += TYPE_WEIGHTS[kind as usize];
                reference.update_edge(s.into(), d.into(), sums[&(s, d)]);
            }
            // a warm buffer from another trace must not show through
            let mut g = CsrGraph::default();
            g.build(&TestTrace::artifact().view(), &[], Some(&TYPE_WEIGHTS));
            g.build(&t.view(), &program, Some(&TYPE_WEIGHTS));
            g.build_successors();
            prop_assert_eq!(g.n_edges(), reference.edge_count());
            prop_assert_eq!(g.is_ascending(), edges.iter().all(|(s, d, _)| s < d));
            for v in 0..n {
                for (direction, row, weights) in [
                    (petgraph::Outgoing, g.successors_of(v), g.successor_weights(v)),
                    (petgraph::Incoming, g.predecessors_of(v), g.predecessor_weights(v)),
                ] {
                    let mut want: Vec<_> = reference.neighbors_directed((v as u32).into(), direction).map(|w| w.index() as u32).collect();
                    want.sort_unstable();
                    let mut neighbors = row.to_vec();
                    neighbors.sort_unstable();
                    prop_assert_eq!(neighbors, want);
                    for (&w, weight) in row.iter().zip(weights) {
                        let key = if direction == petgraph::Outgoing { (v as u32, w) } else { (w, v as u32) };
                        prop_assert!((sums[&key] - weight).abs() < 1e-12);
                    }
                    prop_assert_eq!(row.len(), weights.len());
                }
                prop_assert_eq!(g.in_degree(v) as usize, g.predecessors_of(v).len());
                prop_assert!(g.successors_of(v).is_sorted());
            }
        }
    }
}
