//! Canonical order, topological order, cycles (D1).
//!
//! Canonical order is (`t`, `seq`): "first", "last" and every tie refer to it. A topological order is found, never
//! assumed. [`Topological::canonical`] is Kahn's algorithm with the lowest canonical row first, O(|V| log |V| + |E|);
//! where any valid order will do, [`Topological::any`] is O(|V| + |E|), and free if all edges lead down the document.
//!
//! Reference: A. B. Kahn, Topological sorting of large networks, 1962.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::csr::CsrGraph;
use crate::error::{Finding, FindingCode};
use crate::store::view::TraceView;

/// The canonical order of two events.
#[must_use]
#[inline]
pub fn canonical_cmp(t: &[f64], a: u32, b: u32) -> Ordering {
    t[a as usize].partial_cmp(&t[b as usize]).unwrap_or(Ordering::Equal).then(a.cmp(&b))
}

/// Rows of a trace in canonical order.
#[derive(Debug, Default)]
pub struct CanonicalOrder {
    rows: Vec<u32>,
    document: bool,
}

impl CanonicalOrder {
    /// Sorts by (`t`, `seq`); nearly free for the usual trace whose times never fall.
    pub fn compute(&mut self, t: &[f64]) {
        self.document = t.windows(2).all(|w| w[0] <= w[1]);
        self.rows.clear();
        self.rows.extend(0..t.len() as u32);
        if !self.document {
            // Agents take turns in time: runs that rise, which a stable sort merges.
            self.rows.sort_by(|&a, &b| canonical_cmp(t, a, b));
        }
    }

    /// The rows.
    #[must_use]
    pub fn rows(&self) -> &[u32] {
        &self.rows
    }

    /// Whether canonical order is document order.
    #[must_use]
    pub fn is_document(&self) -> bool {
        self.document
    }
}

/// A topological order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order<'a> {
    /// The rows as they are, this many.
    Document(usize),
    /// These rows.
    Listed(&'a [u32]),
}

impl Order<'_> {
    /// The rows, written out.
    #[must_use]
    pub fn to_vec(self) -> Vec<u32> {
        match self {
            Order::Document(n) => (0..n as u32).collect(),
            Order::Listed(rows) => rows.to_vec(),
        }
    }
}

/// Buffers of the search for a topological order.
#[derive(Debug, Default)]
pub struct Topological {
    rows: Vec<u32>,
    waiting: Vec<u32>,
    rank: Vec<u32>,
    ready: BinaryHeap<Reverse<u32>>,
}

impl Topological {
    /// Some topological order, or `None` if the edges close a cycle.
    pub fn any(&mut self, graph: &mut CsrGraph) -> Option<Order<'_>> {
        if graph.is_ascending() {
            return Some(Order::Document(graph.len()));
        }
        self.breadth_first(graph).map(Order::Listed)
    }

    /// The order that [`Self::any`] has found of this graph.
    #[must_use]
    pub fn latest(&self, graph: &CsrGraph) -> Option<Order<'_>> {
        let n = graph.len();
        if graph.is_ascending() {
            return Some(Order::Document(n));
        }
        (self.rows.len() == n).then_some(Order::Listed(&self.rows))
    }

    /// The topological order that takes events in the order in which they become ready, the lowest row first of those that
    /// do at once; `None` if the edges close a cycle. O(|V| + |E|).
    pub fn breadth_first(&mut self, graph: &mut CsrGraph) -> Option<&[u32]> {
        let n = graph.len();
        self.begin(graph);
        self.rows.extend((0..n as u32).filter(|&v| self.waiting[v as usize] == 0));
        let mut head = 0;
        while let Some(&v) = self.rows.get(head) {
            head += 1;
            for &w in graph.successors_of(v as usize) {
                let waiting = &mut self.waiting[w as usize];
                *waiting -= 1;
                if *waiting == 0 {
                    self.rows.push(w);
                }
            }
        }
        (self.rows.len() == n).then_some(self.rows.as_slice())
    }

    /// The topological order that takes the lowest canonical row first, or `None` if the edges close a cycle.
    pub fn canonical(&mut self, graph: &mut CsrGraph, canonical: &CanonicalOrder) -> Option<&[u32]> {
        let n = graph.len();
        self.begin(graph);
        self.rank.clear();
        self.rank.resize(n, 0);
        for (rank, &v) in canonical.rows().iter().enumerate() {
            self.rank[v as usize] = rank as u32;
        }
        self.ready.clear();
        for v in 0..n {
            if self.waiting[v] == 0 {
                self.ready.push(Reverse(self.rank[v]));
            }
        }
        while let Some(Reverse(rank)) = self.ready.pop() {
            let v = canonical.rows()[rank as usize];
            self.rows.push(v);
            for &w in graph.successors_of(v as usize) {
                let waiting = &mut self.waiting[w as usize];
                *waiting -= 1;
                if *waiting == 0 {
                    self.ready.push(Reverse(self.rank[w as usize]));
                }
            }
        }
        (self.rows.len() == n).then_some(self.rows.as_slice())
    }

    fn begin(&mut self, graph: &mut CsrGraph) {
        graph.build_successors();
        self.rows.clear();
        self.waiting.clear();
        self.waiting.extend((0..graph.len()).map(|v| graph.in_degree(v)));
    }

    /// One cycle, from its lowest row on; `None` if there is none.
    pub fn cycle(&mut self, graph: &mut CsrGraph) -> Option<Vec<u32>> {
        if self.any(graph).is_some() {
            return None;
        }
        // What Kahn leaves over waits for another that is left over, so a walk backwards meets itself.
        let mut v = self.waiting.iter().position(|&w| w > 0)? as u32;
        let mut place = vec![usize::MAX; graph.len()];
        let mut walk = Vec::new();
        while place[v as usize] == usize::MAX {
            place[v as usize] = walk.len();
            walk.push(v);
            v = *graph.predecessors_of(v as usize).iter().find(|&&u| self.waiting[u as usize] > 0)?;
        }
        let mut cycle = walk.split_off(place[v as usize]);
        cycle.reverse();
        let lowest = cycle.iter().enumerate().min_by_key(|&(_, &v)| v).map_or(0, |(i, _)| i);
        cycle.rotate_left(lowest);
        Some(cycle)
    }
}

/// One cycle of the recorded edges, from its lowest row on; `None` if they close none. Costs one comparison per
/// edge where all edges lead down the document.
#[must_use]
pub fn find_cycle(view: &TraceView<'_>) -> Option<Vec<u32>> {
    if view.src.iter().zip(view.dst).all(|(s, d)| s < d) {
        return None;
    }
    let mut graph = CsrGraph::default();
    graph.build(view, &[], None);
    Topological::default().cycle(&mut graph)
}

/// The finding `graph.cycle` of a trace, if its recorded edges close one.
#[must_use]
pub fn cycle_finding(view: &TraceView<'_>) -> Option<Finding> {
    let cycle = find_cycle(view)?;
    let message = cycle_message(view, &cycle);
    Some(Finding { code: FindingCode::GraphCycle, count: 1, seq: cycle.first().copied(), message })
}

/// How many events of a cycle are written out before the middle is left out.
const LISTED: usize = 8;

/// A cycle in external ids, `a -> b -> a`; the middle of a long one is left out.
#[must_use]
pub fn cycle_message(view: &TraceView<'_>, cycle: &[u32]) -> String {
    let name = |v: &u32| view.id.get(*v as usize).map_or_else(|| format!("#{v}"), str::to_owned);
    let mut parts: Vec<String> = if cycle.len() > LISTED {
        let (head, tail) = (&cycle[..LISTED / 2], &cycle[cycle.len() - LISTED / 2..]);
        let gap = format!("... {} more ...", cycle.len() - LISTED);
        head.iter().map(name).chain([gap]).chain(tail.iter().map(name)).collect()
    } else {
        cycle.iter().map(name).collect()
    };
    parts.extend(cycle.first().map(name));
    format!("the edges close a cycle: {}", parts.join(" -> "))
}

#[cfg(test)]
mod tests {
    use super::super::test_trace::{TestTrace, random_edges};
    use super::*;
    use crate::schema::EdgeType;
    use proptest::prelude::*;

    fn graph(t: &TestTrace) -> CsrGraph {
        let mut g = CsrGraph::default();
        g.build(&t.view(), &[], None);
        g
    }

    #[test]
    fn canonical_order_is_time_then_row() {
        let mut order = CanonicalOrder::default();
        order.compute(&[2.0, 1.0, 1.0, 0.0]);
        assert_eq!((order.rows(), order.is_document()), (&[3_u32, 1, 2, 0][..], false));
        order.compute(&[0.0, -0.0, 1.0]);
        assert_eq!((order.rows(), order.is_document()), (&[0_u32, 1, 2][..], true));
    }

    #[test]
    fn cycles_are_named_by_external_ids() {
        let mut t = TestTrace::events(3);
        t.edge(0, 1, EdgeType::Causal).edge(2, 1, EdgeType::Causal).edge(1, 2, EdgeType::Causal);
        assert_eq!(find_cycle(&t.view()), Some(vec![1, 2]));
        let finding = cycle_finding(&t.view()).unwrap();
        assert_eq!(finding.message, "the edges close a cycle: e1 -> e2 -> e1");
        assert_eq!((finding.code, finding.seq), (FindingCode::GraphCycle, Some(1)));
        let mut loops = TestTrace::events(1);
        loops.edge(0, 0, EdgeType::Causal);
        assert_eq!(cycle_finding(&loops.view()).unwrap().message, "the edges close a cycle: e0 -> e0");
        assert_eq!(cycle_finding(&TestTrace::artifact().view()), None);
    }

    #[test]
    fn long_cycles_are_abbreviated() {
        let mut t = TestTrace::events(20);
        (0..20).for_each(|v| {
            t.edge(v, (v + 1) % 20, EdgeType::Causal);
        });
        assert_eq!(
            cycle_finding(&t.view()).unwrap().message,
            "the edges close a cycle: e0 -> e1 -> e2 -> e3 -> ... 12 more ... -> e16 -> e17 -> e18 -> e19 -> e0"
        );
    }

    #[test]
    fn backward_in_the_document_is_not_a_cycle() {
        let mut t = TestTrace::events(3);
        t.edge(2, 0, EdgeType::Causal).edge(0, 1, EdgeType::Causal);
        assert_eq!(Topological::default().any(&mut graph(&t)).unwrap().to_vec(), [2, 0, 1]);
        assert_eq!(find_cycle(&t.view()), None);
    }

    #[test]
    fn breadth_first_takes_what_is_ready_first() {
        // 0 → 1 → 2 → 4 and 0 → 3: by document 2 comes before 3, by readiness after it
        let mut t = TestTrace::events(5);
        for (s, d) in [(0, 1), (0, 3), (1, 2), (2, 4)] {
            t.edge(s, d, EdgeType::Causal);
        }
        let mut topological = Topological::default();
        assert_eq!(topological.any(&mut graph(&t)).unwrap().to_vec(), [0, 1, 2, 3, 4]);
        assert_eq!(topological.breadth_first(&mut graph(&t)).unwrap(), [0, 1, 3, 2, 4]);
        t.edge(4, 1, EdgeType::Causal);
        assert_eq!(topological.breadth_first(&mut graph(&t)), None);
    }

    proptest! {
        #[test]
        fn orders_and_cycles_agree_with_petgraph(n in 1_usize..20, edges in random_edges(20, 40),
                                                 times in prop::collection::vec(0_u32..5, 20)) {
            let mut t = TestTrace::events(n);
            let mut reference = petgraph::graph::DiGraph::<(), ()>::new();
            (0..n).for_each(|_| { reference.add_node(()); });
            for (t, time) in t.t.iter_mut().zip(times) { *t = f64::from(time); }
            for (s, d, kind) in edges {
                let (s, d) = (s % n as u32, d % n as u32);
                t.edge(s, d, kind);
                reference.update_edge(s.into(), d.into(), ());
            }
            let mut g = graph(&t);
            let cyclic = petgraph::algo::is_cyclic_directed(&reference);
            let mut topo = Topological::default();
            let mut canonical = CanonicalOrder::default();
            canonical.compute(&t.t);
            let any = topo.any(&mut g).map(Order::to_vec);
            let lowest = topo.canonical(&mut g, &canonical).map(<[u32]>::to_vec);
            prop_assert_eq!(any.is_none(), cyclic);
            prop_assert_eq!(lowest.is_none(), cyclic);
            for rows in [any.clone(), lowest.clone()].into_iter().flatten() {
                let mut place = vec![0; n];
                rows.iter().enumerate().for_each(|(i, &v)| place[v as usize] = i);
                for (&s, &d) in t.src.iter().zip(&t.dst) {
                    prop_assert!(place[s as usize] < place[d as usize]);
                }
            }
            if let Some(rows) = lowest {
                // the definition, by brute force
                let mut left: Vec<u32> = canonical.rows().to_vec();
                for v in rows {
                    let next = left.iter().position(|&v| !left.iter().any(|&u| reference.contains_edge(u.into(), v.into()))).unwrap();
                    prop_assert_eq!(left.remove(next), v);
                }
            }
            match find_cycle(&t.view()) {
                None => prop_assert!(!cyclic),
                Some(cycle) => {
                    prop_assert!(cyclic);
                    let mut distinct = cycle.clone();
                    distinct.sort_unstable();
                    distinct.dedup();
                    prop_assert_eq!(distinct.len(), cycle.len());
                    for (i, &v) in cycle.iter().enumerate() {
                        prop_assert!(reference.contains_edge(v.into(), cycle[(i + 1) % cycle.len()].into()));
                    }
                }
            }
        }
    }
}
