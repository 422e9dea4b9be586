//! Dominators: events on every path to the outcome, and their owners.
//!
//! ```text
//! v dominates y  <=>  v = y, or every path from the root to y contains v
//! ```
//!
//! Among the events with a path to y, in topological order, a path avoids v exactly if one of its edges jumps over v's
//! position. So the dominators are the positions that no edge jumps over; several sources have a virtual root, whose edges
//! jump too. One pass, O(|V|+|E|). The path that Lengauer and Tarjan 1979 find in the tree of immediate dominators.

use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_schema::Schema;

use crate::error::{Reason, Result};
use crate::graph::{CsrGraph, Order};
use crate::metrics::event_rows::event_rows;
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::options::Options;
use crate::metrics::subject::Subject;
use crate::run::Run;
use crate::store::Store;

/// Dominators of the outcome.
#[derive(Debug)]
pub struct Dominators;

static INFO: GroupInfo = GroupInfo {
    name: "dominators",
    cost: Cost::Linear,
    reference: "Lengauer and Tarjan 1979",
    metrics: &[
        Metric {
            name: "n_dominators",
            count: Count::Things,
            summary: "events on every path to the outcome, including the outcome",
        },
        Metric {
            name: "dominator_share",
            count: Count::Ratio,
            summary: "n_dominators / number of events with a path to the outcome",
        },
        Metric {
            name: "n_dominator_agents",
            count: Count::Things,
            summary: "agents that own a dominator: single points of failure",
        },
    ],
};

impl Group for Dominators {
    fn info(&self) -> &'static GroupInfo {
        &INFO
    }

    fn worker(&self, _: &Options) -> Box<dyn Measure> {
        Box::<Search>::default()
    }
}

/// Buffers of the search, kept from trace to trace.
#[derive(Debug, Default)]
struct Search {
    /// Events with a path to the outcome, in topological order, and the position of each.
    rows: Vec<u32>,
    place: Vec<u32>,
    /// By position, how many more edges jump over it than over the one before.
    change: Vec<i32>,
    found: Vec<u32>,
    seen: Vec<bool>,
}

impl Search {
    /// The dominators of the outcome, first to last.
    fn compute(&mut self, graph: &CsrGraph, order: Order<'_>, live: &[bool]) -> &[u32] {
        self.rows.clear();
        match order {
            Order::Document(n) => self.rows.extend((0..n as u32).filter(|&v| live[v as usize])),
            Order::Listed(rows) => self.rows.extend(rows.iter().copied().filter(|&v| live[v as usize])),
        }
        self.place.clear();
        self.place.resize(graph.len(), 0);
        self.change.clear();
        self.change.resize(self.rows.len() + 1, 0);
        for (at, &v) in self.rows.iter().enumerate() {
            self.place[v as usize] = at as u32;
            let before = graph.predecessors_of(v as usize);
            if before.is_empty() {
                // the virtual root's edge jumps over all before it
                self.change[0] += 1;
                self.change[at] -= 1;
            }
            for &u in before {
                // what leads to something live is live itself
                self.change[self.place[u as usize] as usize + 1] += 1;
                self.change[at] -= 1;
            }
        }
        self.found.clear();
        let mut over = 0;
        for (&v, change) in self.rows.iter().zip(&self.change) {
            over += change;
            if over == 0 {
                self.found.push(v);
            }
        }
        &self.found
    }
}

impl Measure for Search {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let (live, order) = match (subject.lives(), subject.order()) {
            (Ok(live), Some(order)) => (live, order),
            (Err(reason), _) => return out.all_absent(0..3, reason),
            (_, None) => return out.all_absent(0..3, Reason::GraphCycle),
        };
        let mut seen = std::mem::take(&mut self.seen);
        seen.clear();
        seen.resize(subject.owners.names().len(), false);
        let dominators = self.compute(subject.graph(), order, live);
        let mut agents = 0;
        for &v in dominators {
            if let Some(seen) = seen.get_mut(subject.owner(v as usize) as usize) {
                agents += usize::from(!std::mem::replace(seen, true));
            }
        }
        out.count(0, dominators.len());
        out.ratio(1, dominators.len() as f64, live.iter().filter(|&&live| live).count() as f64);
        out.count(2, agents);
        self.seen = seen;
    }
}

/// The dominators of the outcomes of all traces, first to last, a row each: `trace trace_id seq event_id`. Traces without an
/// outcome event, or with a cycle, have no row.
pub fn dominators(store: &Store, options: &Options, run: &Run) -> Result<(Vec<RecordBatch>, Arc<Schema>)> {
    event_rows(store, options, run, [], |search: &mut Search, subject| {
        let (Ok(live), Some(order)) = (subject.lives(), subject.order()) else { return Vec::new() };
        search.compute(subject.graph(), order, live).iter().map(|&v| (v, [])).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::test_trace::TestTrace;
    use crate::metrics::testing::measured;
    use crate::schema::EdgeType::Causal;
    use crate::schema::EventType::{Aggregate, Message};

    fn drawn(agents: &[&str], edges: &[(u32, u32)]) -> TestTrace {
        let mut t = TestTrace::default();
        for (at, agent) in agents.iter().enumerate() {
            t.event(if at + 1 == agents.len() { Aggregate } else { Message }, agent);
        }
        for &(u, v) in edges {
            t.edge(u, v, Causal);
        }
        t
    }

    #[test]
    fn by_hand() {
        // a chain is all bottleneck
        let chain = drawn(&["a", "b", "a"], &[(0, 1), (1, 2)]);
        assert_eq!(measured(&Dominators, &chain), [Ok(3.0), Ok(1.0), Ok(2.0)]);
        // 0 -> {1, 2} -> 3 -> 4, and 5 which leads nowhere
        let fork =
            drawn(&["a", "b", "c", "d", "nobody", "a"], &[(0, 1), (0, 2), (1, 3), (2, 3), (3, 5), (0, 4)]);
        assert_eq!(measured(&Dominators, &fork), [Ok(3.0), Ok(3.0 / 5.0), Ok(2.0)]);
        // two sources: only the outcome is on every way
        let sources = drawn(&["a", "b", "a"], &[(0, 2), (1, 2)]);
        assert_eq!(measured(&Dominators, &sources), [Ok(1.0), Ok(1.0 / 3.0), Ok(1.0)]);
        // an edge over the middle is a way around it
        let around = drawn(&["a", "b", "a"], &[(0, 1), (1, 2), (0, 2)]);
        assert_eq!(measured(&Dominators, &around), [Ok(2.0), Ok(2.0 / 3.0), Ok(1.0)]);
        let mut nothing = TestTrace::events(2);
        nothing.edge(0, 1, Causal);
        assert_eq!(measured(&Dominators, &nothing), [Err(Reason::OutcomeAbsent); 3]);
        let cycle = drawn(&["a", "b", "a"], &[(0, 1), (1, 0), (1, 2)]);
        assert_eq!(measured(&Dominators, &cycle), [Err(Reason::GraphCycle); 3]);
    }
}
