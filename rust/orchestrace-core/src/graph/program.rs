//! Program order: edges between consecutive events of one owner (D3).
//!
//! A temporal edge from each event to the next of the same owner in canonical order, unless an edge of any type
//! joins the two in either direction. It never adds an edge that exists, and nothing where an importer has drawn its
//! temporal edges. A cycle that it closes counts as one. O(|V| + |E|).

use super::owner::{NOBODY, Owners};
use crate::store::view::TraceView;

/// Buffer of the edges that program order adds.
#[derive(Debug, Default)]
pub struct ProgramOrder {
    edges: Vec<(u32, u32)>,
    next: Vec<u32>,
    latest: Vec<u32>,
}

impl ProgramOrder {
    /// The edges that program order adds to those of `view`.
    pub fn compute(&mut self, view: &TraceView<'_>, owners: &Owners) -> &[(u32, u32)] {
        self.next.clear();
        self.next.resize(view.len(), NOBODY);
        self.latest.clear();
        self.latest.resize(owners.names().len(), NOBODY);
        for &v in owners.order().rows() {
            let Some(latest) = self.latest.get_mut(owners.indices()[v as usize] as usize) else { continue };
            if let Some(next) = self.next.get_mut(*latest as usize) {
                *next = v;
            }
            *latest = v;
        }
        for (&s, &d) in view.src.iter().zip(view.dst) {
            for (a, b) in [(s, d), (d, s)] {
                let next = &mut self.next[a as usize];
                if *next == b {
                    *next = NOBODY;
                }
            }
        }
        self.edges.clear();
        let drawn = self.next.iter().enumerate().filter(|&(_, &next)| next != NOBODY);
        self.edges.extend(drawn.map(|(v, &next)| (v as u32, next)));
        &self.edges
    }
}

#[cfg(test)]
mod tests {
    use super::super::test_trace::{TestTrace, random_trace};
    use super::*;
    use crate::schema::EdgeType;
    use proptest::prelude::*;

    fn program(t: &TestTrace) -> Vec<(u32, u32)> {
        let mut owners = Owners::default();
        owners.compute(&t.view());
        ProgramOrder::default().compute(&t.view(), &owners).to_vec()
    }

    #[test]
    fn joins_what_no_edge_joins() {
        // orchestrator e1 e2 e3 e8, executor e5 e6 e7; e1 → e2, e5 → e6 and e6 → e7 are there
        assert_eq!(program(&TestTrace::artifact()), [(1, 2), (2, 7)]);
        let mut t = TestTrace::events(4);
        t.edge(1, 0, EdgeType::Message);
        assert_eq!(program(&t), [(1, 2), (2, 3)]);
        t.t = vec![3.0, 2.0, 1.0, 0.0];
        assert_eq!(program(&t), [(2, 1), (3, 2)]);
    }

    proptest! {
        #[test]
        fn adds_nothing_twice(mut t in random_trace(20, false)) {
            for (s, d) in program(&t) { t.edge(s, d, EdgeType::Temporal); }
            prop_assert!(program(&t).is_empty());
        }
    }
}
