//! The pass over recorded edges without a graph, for traces that list edges by destination and from earlier to later
//! rows, as most recordings do. Then the document is a topological order, and the edges into an event stand together.
//! It takes about a third of the instructions of building the graph and passing over it.

use crate::graph::Outcome;
use crate::graph::csr::Listing;
use crate::graph::slots::Slots;
use crate::graph::weights::N_TYPES;
use crate::store::view::TraceView;

/// What the pass needs beside the edges.
#[derive(Debug, Clone, Copy)]
pub(super) struct Flowing<'a> {
    pub(super) outcome: Outcome,
    pub(super) amount: f64,
    pub(super) retention: f64,
    pub(super) gamma: f64,
    /// By these, or equally.
    pub(super) weights: Option<&'a [f64; N_TYPES]>,
}

impl Flowing<'_> {
    /// As [`Pass::run`](super::pass::Pass::run), up to rounding; false, with nothing done, if the edges of `view` are
    /// listed in another way.
    pub(super) fn run<const KEPT: bool>(
        self,
        view: &TraceView<'_>,
        seen: &mut Slots,
        share: &mut Vec<f64>,
        credit: &mut Vec<f64>,
    ) -> bool {
        let listing = Listing::of(view);
        if !(listing.ascending && listing.by_destination) {
            return false;
        }
        credit.clear();
        match self.outcome {
            Outcome::Event(y) => {
                credit.resize(view.len(), 0.0);
                credit[y as usize] = self.amount;
            }
            Outcome::VirtualSink => {
                credit.resize(view.len(), 1.0);
                for &u in view.src {
                    credit[u as usize] = 0.0;
                }
                let each = self.amount / credit.iter().sum::<f64>();
                for credit in credit.iter_mut() {
                    *credit *= each;
                }
            }
        }
        share.clear();
        share.resize(view.len(), 0.0);
        // Parallel edges are one edge; their weights add up to it of their own accord, equal parts do not.
        let Some(table) = self.weights else {
            let mut parallel = false;
            each_once(view.src.iter().zip(view.dst), seen, |_, v, first| {
                share[v as usize] += f64::from(u8::from(first));
                parallel |= !first;
            });
            if !self.invert(share) {
                return false;
            }
            if parallel {
                each_once(view.src.iter().zip(view.dst).rev(), seen, |u, v, first| {
                    if first {
                        credit[u as usize] += credit[v as usize] * share[v as usize];
                    }
                });
            } else {
                for (&u, &v) in view.src.iter().zip(view.dst).rev() {
                    credit[u as usize] += credit[v as usize] * share[v as usize];
                }
            }
            return self.keep::<KEPT>(share, credit);
        };
        let weight = |kind: u8| table[kind as usize % N_TYPES];
        for (&v, &kind) in view.dst.iter().zip(view.edge_types) {
            share[v as usize] += weight(kind);
        }
        if !self.invert(share) {
            return false;
        }
        // Edge by edge, without a loop over those of each event: how many there are is what no processor guesses.
        for ((&u, &v), &kind) in view.src.iter().zip(view.dst).zip(view.edge_types).rev() {
            credit[u as usize] += credit[v as usize] * (share[v as usize] * weight(kind));
        }
        self.keep::<KEPT>(share, credit)
    }

    /// Turns the weight into each event into what goes along a unit of it; an event without any way in keeps all, and
    /// sends nothing. False where that has no answer.
    fn invert(self, share: &mut [f64]) -> bool {
        let sent = self.gamma * (1.0 - self.retention);
        for share in share.iter_mut() {
            *share = if *share > 0.0 { sent / *share } else { 0.0 };
        }
        // Nothing sent cannot be distinguished from no way in, and a weight next to nothing has no inverse.
        sent != 0.0 && share.iter().all(|share| share.is_finite())
    }

    fn keep<const KEPT: bool>(self, share: &[f64], credit: &mut [f64]) -> bool {
        if KEPT {
            for (credit, &share) in credit.iter_mut().zip(share) {
                *credit *= if share > 0.0 { self.retention } else { 1.0 };
            }
        }
        true
    }
}

/// Calls `f` with both ends of every edge, which come by destination, and whether none before it had the same ends.
#[inline]
fn each_once<'a>(
    edges: impl Iterator<Item = (&'a u32, &'a u32)>,
    seen: &mut Slots,
    mut f: impl FnMut(u32, u32, bool),
) {
    seen.begin();
    for (&u, &v) in edges {
        let first = seen.get(u) != Some(v);
        seen.set(u, v);
        f(u, v, first);
    }
}

#[cfg(test)]
mod tests {
    use super::super::pass::{Pass, Weights};
    use super::*;
    use crate::graph::test_trace::{TestTrace, random_trace};
    use crate::graph::{GraphOptions, TYPE_WEIGHTS, TraceGraph};
    use crate::schema::EdgeType;
    use proptest::prelude::*;

    #[test]
    fn other_listings_are_left_to_the_graph() {
        let run = |t: &TestTrace, weights| {
            let flowing =
                Flowing { outcome: Outcome::Event(2), amount: 1.0, retention: 0.1, gamma: 1.0, weights };
            flowing.run::<true>(&t.view(), &mut Slots::default(), &mut Vec::new(), &mut Vec::new())
        };
        let edges = |list: &[(u32, u32)]| {
            let mut t = TestTrace::events(3);
            for &(s, d) in list {
                t.edge(s, d, EdgeType::Causal);
            }
            t
        };
        assert!(run(&edges(&[(0, 1), (0, 2), (1, 2)]), None));
        assert!(!run(&edges(&[(0, 2), (0, 1)]), None) && !run(&edges(&[(1, 0)]), None));
        assert!(run(&edges(&[(0, 2), (0, 2)]), None) && run(&edges(&[(0, 2), (0, 2)]), Some(&TYPE_WEIGHTS)));
    }

    proptest! {
        #[test]
        fn equals_the_pass_over_the_graph(
            t in random_trace(25, true),
            by_type in any::<bool>(),
            retention in 0.0..1.0_f64,
            gamma in 0.5..1.0_f64,
        ) {
            // the same edges, down the document and by destination
            let mut edges: Vec<_> = (0..t.src.len())
                .map(|e| (t.src[e].max(t.dst[e]), t.src[e].min(t.dst[e]), t.edge_types[e]))
                .collect();
            edges.sort_by_key(|edge| edge.0);
            let mut t = t;
            for (e, (d, s, kind)) in edges.into_iter().enumerate() {
                (t.src[e], t.dst[e], t.edge_types[e]) = (s, d, kind);
            }
            let weights = by_type.then_some(&TYPE_WEIGHTS);
            let mut graph = TraceGraph::default();
            graph.begin();
            let outcome = graph.outcome(&t.view()).unwrap_or(Outcome::VirtualSink);
            graph.build(&t.view(), GraphOptions { program_order: false, weights });
            let (csr, order) = graph.ordered();
            let pass = Pass { graph: csr, order: order.unwrap(), outcome, amount: 2.0, retention, epsilon: 0.0, gamma };
            let edges = if by_type { Weights::Edges(csr.weights()) } else { Weights::Uniform };
            let flowing = Flowing { outcome, amount: 2.0, retention, gamma, weights };
            let (mut got, mut want, mut share) = (Vec::new(), Vec::new(), Vec::new());
            let mut seen = Slots::default();
            prop_assert!(flowing.run::<true>(&t.view(), &mut seen, &mut share, &mut got));
            pass.run::<true>(edges, &mut want);
            // Equal parts are the same numbers; weights are multiplied in another order.
            let off = if by_type { 1e-12 } else { 0.0 };
            let near = |got: &[f64], want: &[f64]| got.iter().zip(want).all(|(g, w)| (g - w).abs() <= off);
            prop_assert!(near(&got, &want));
            flowing.run::<false>(&t.view(), &mut seen, &mut share, &mut got);
            pass.run::<false>(edges, &mut want);
            prop_assert!(near(&got, &want));
        }
    }
}
