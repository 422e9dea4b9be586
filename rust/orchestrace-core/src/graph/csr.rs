//! Adjacency of one trace in compressed rows, both ways.
//!
//! Parallel edges merge: an edge counts once in degrees and paths, and its weight is the sum over all rows that
//! were merged, exact repeats included (D3). Rows are sorted by neighbour, so that a sum over neighbours has one
//! fixed order. Building is two counting sorts, O(|V|+|E|), and allocates nothing once the buffers are warm.

use super::weights::N_TYPES;
use crate::schema::EdgeType;
use crate::store::view::TraceView;

const NONE: u32 = u32::MAX;

/// What a kernel needs of the adjacency; the rest is not computed.
#[derive(Debug, Clone, Copy, Default)]
pub struct CsrOptions<'a> {
    /// Weight of each edge type; without it no weights are kept.
    pub weights: Option<&'a [f64; N_TYPES]>,
    /// Whether rows of predecessors are built beside those of successors.
    pub predecessors: bool,
}

/// The graph of one trace; a buffer that is used for one trace after the other.
#[derive(Debug, Default)]
pub struct CsrGraph {
    n: usize,
    succ_at: Vec<u32>,
    succ: Vec<u32>,
    succ_weight: Vec<f64>,
    pred_at: Vec<u32>,
    pred: Vec<u32>,
    pred_weight: Vec<f64>,
    in_degree: Vec<u32>,
    ascending: bool,
    // edges grouped by destination, before merging
    group_at: Vec<u32>,
    group_src: Vec<u32>,
    group_weight: Vec<f64>,
    last: Vec<u32>,
}

impl CsrGraph {
    /// Replaces the graph by that of `view`, with `program` as further temporal edges.
    pub fn build(&mut self, view: &TraceView<'_>, program: &[(u32, u32)], options: CsrOptions<'_>) {
        self.n = view.len();
        self.ascending =
            view.src.iter().zip(view.dst).all(|(s, d)| s < d) && program.iter().all(|(s, d)| s < d);
        self.group_by_destination(view, program, options.weights);
        self.successors(options.weights.is_some());
        if options.predecessors {
            self.predecessors_from_successors();
        } else {
            self.pred_at.clear();
            self.pred.clear();
            self.pred_weight.clear();
        }
    }

    fn group_by_destination(
        &mut self,
        view: &TraceView<'_>,
        program: &[(u32, u32)],
        weights: Option<&[f64; N_TYPES]>,
    ) {
        let m = view.src.len() + program.len();
        // Counts are kept two places up: after the prefix sums the cursor of row v is at v + 1, and when all rows
        // are full it has become the end of the row, which is where offsets belong.
        let at = zeroed(&mut self.group_at, self.n + 2);
        for &d in view.dst {
            at[d as usize + 2] += 1;
        }
        for &(_, d) in program {
            at[d as usize + 2] += 1;
        }
        prefix_sums(at);
        self.group_src.resize(m, 0);
        self.group_weight.clear();
        if weights.is_some() {
            self.group_weight.resize(m, 0.0);
        }
        let mut put = |s: u32, d: u32, kind: u8| {
            let cursor = &mut at[d as usize + 1];
            self.group_src[*cursor as usize] = s;
            if let Some(table) = weights {
                self.group_weight[*cursor as usize] = table[kind as usize];
            }
            *cursor += 1;
        };
        for ((&s, &d), &kind) in view.src.iter().zip(view.dst).zip(view.edge_types) {
            put(s, d, kind);
        }
        for &(s, d) in program {
            put(s, d, EdgeType::Temporal as u8);
        }
    }

    fn successors(&mut self, weighted: bool) {
        let n = self.n;
        let at = zeroed(&mut self.succ_at, n + 2);
        let last = filled(&mut self.last, n, NONE);
        let degree = zeroed(&mut self.in_degree, n);
        for (v, degree) in degree.iter_mut().enumerate() {
            for &u in &self.group_src[self.group_at[v] as usize..self.group_at[v + 1] as usize] {
                let last = &mut last[u as usize];
                if *last != v as u32 {
                    *last = v as u32;
                    at[u as usize + 2] += 1;
                    *degree += 1;
                }
            }
        }
        prefix_sums(at);
        let m = at[n + 1] as usize;
        self.succ.resize(m, 0);
        self.succ_weight.clear();
        if weighted {
            self.succ_weight.resize(m, 0.0);
        }
        let last = filled(&mut self.last, n, NONE);
        for v in 0..n {
            for e in self.group_at[v] as usize..self.group_at[v + 1] as usize {
                let u = self.group_src[e] as usize;
                if last[u] == v as u32 {
                    if weighted {
                        self.succ_weight[at[u + 1] as usize - 1] += self.group_weight[e];
                    }
                    continue;
                }
                last[u] = v as u32;
                let cursor = at[u + 1] as usize;
                self.succ[cursor] = v as u32;
                if weighted {
                    self.succ_weight[cursor] = self.group_weight[e];
                }
                at[u + 1] += 1;
            }
        }
    }

    fn predecessors_from_successors(&mut self) {
        let (n, m) = (self.n, self.succ.len());
        let at = zeroed(&mut self.pred_at, n + 2);
        at[2..].copy_from_slice(&self.in_degree);
        prefix_sums(at);
        self.pred.resize(m, 0);
        let weighted = !self.succ_weight.is_empty();
        self.pred_weight.clear();
        if weighted {
            self.pred_weight.resize(m, 0.0);
        }
        for u in 0..n {
            for e in self.succ_at[u] as usize..self.succ_at[u + 1] as usize {
                let cursor = &mut at[self.succ[e] as usize + 1];
                self.pred[*cursor as usize] = u as u32;
                if weighted {
                    self.pred_weight[*cursor as usize] = self.succ_weight[e];
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
        self.succ.len()
    }

    /// Whether every edge leads to a later row of the document, which makes document order a topological one.
    #[must_use]
    pub fn is_ascending(&self) -> bool {
        self.ascending
    }

    /// Successors of an event, ascending.
    #[must_use]
    #[inline]
    pub fn successors_of(&self, v: usize) -> &[u32] {
        &self.succ[self.succ_at[v] as usize..self.succ_at[v + 1] as usize]
    }

    /// Where the edges from an event are among all edges, which are numbered by source, then destination.
    #[must_use]
    #[inline]
    pub fn row(&self, v: usize) -> std::ops::Range<usize> {
        self.succ_at[v] as usize..self.succ_at[v + 1] as usize
    }

    /// Merged weights of all edges; empty if the graph was built without weights.
    #[must_use]
    pub fn weights(&self) -> &[f64] {
        &self.succ_weight
    }

    /// Merged weights beside [`Self::successors_of`]; empty if the graph was built without weights.
    #[must_use]
    #[inline]
    pub fn successor_weights(&self, v: usize) -> &[f64] {
        self.succ_weight.get(self.succ_at[v] as usize..self.succ_at[v + 1] as usize).unwrap_or(&[])
    }

    /// Predecessors of an event, ascending; empty if the graph was built without them.
    #[must_use]
    #[inline]
    pub fn predecessors_of(&self, v: usize) -> &[u32] {
        match self.pred_at.get(v..v + 2) {
            Some(row) => &self.pred[row[0] as usize..row[1] as usize],
            None => &[],
        }
    }

    /// Merged weights beside [`Self::predecessors_of`].
    #[must_use]
    #[inline]
    pub fn predecessor_weights(&self, v: usize) -> &[f64] {
        match self.pred_at.get(v..v + 2) {
            Some(row) => self.pred_weight.get(row[0] as usize..row[1] as usize).unwrap_or(&[]),
            None => &[],
        }
    }

    /// Number of distinct predecessors of every event.
    #[must_use]
    pub fn in_degrees(&self) -> &[u32] {
        &self.in_degree[..self.n]
    }
}

fn zeroed(buffer: &mut Vec<u32>, n: usize) -> &mut [u32] {
    filled(buffer, n, 0)
}

fn filled(buffer: &mut Vec<u32>, n: usize, value: u32) -> &mut [u32] {
    buffer.clear();
    buffer.resize(n, value);
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
        g.build(&t.view(), &[], CsrOptions { weights: Some(&TYPE_WEIGHTS), predecessors: true });
        assert_eq!((g.len(), g.n_edges(), g.is_empty()), (3, 3, false));
        assert_eq!(g.successors_of(0), [1, 2]);
        assert_eq!(g.successor_weights(0), [0.5, 2.7]);
        assert_eq!(g.predecessors_of(2), [0, 1]);
        assert_eq!(g.predecessor_weights(2), [2.7, 1.0]);
        assert_eq!(g.in_degrees(), [0, 1, 2]);
        assert!(g.is_ascending());
    }

    #[test]
    fn what_was_not_asked_for_is_empty() {
        let mut t = TestTrace::events(2);
        t.edge(0, 1, EdgeType::Causal);
        let mut g = CsrGraph::default();
        g.build(&t.view(), &[], CsrOptions { weights: Some(&TYPE_WEIGHTS), predecessors: true });
        g.build(&t.view(), &[], CsrOptions::default());
        assert!(g.predecessors_of(1).is_empty() && g.predecessor_weights(1).is_empty());
        assert!(g.successor_weights(0).is_empty());
        g.build(&TestTrace::events(0).view(), &[], CsrOptions::default());
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
            g.build(&TestTrace::artifact().view(), &[], CsrOptions { weights: Some(&TYPE_WEIGHTS), predecessors: true });
            g.build(&t.view(), &program, CsrOptions { weights: Some(&TYPE_WEIGHTS), predecessors: true });
            prop_assert_eq!(g.n_edges(), reference.edge_count());
            prop_assert_eq!(g.is_ascending(), edges.iter().all(|(s, d, _)| s < d));
            for v in 0..n {
                for (direction, row, weights) in [
                    (petgraph::Outgoing, g.successors_of(v), g.successor_weights(v)),
                    (petgraph::Incoming, g.predecessors_of(v), g.predecessor_weights(v)),
                ] {
                    let mut want: Vec<_> = reference.neighbors_directed((v as u32).into(), direction).map(|w| w.index() as u32).collect();
                    want.sort_unstable();
                    prop_assert_eq!(row, &want);
                    for (&w, weight) in row.iter().zip(weights) {
                        let key = if direction == petgraph::Outgoing { (v as u32, w) } else { (w, v as u32) };
                        prop_assert!((sums[&key] - weight).abs() < 1e-12);
                    }
                    prop_assert_eq!(row.len(), weights.len());
                }
                prop_assert_eq!(g.in_degrees()[v] as usize, g.predecessors_of(v).len());
            }
        }
    }
}
