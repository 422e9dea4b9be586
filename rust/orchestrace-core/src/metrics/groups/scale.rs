//! Size of a run: the axes of the scale gap, and the shape of its graph.
//!
//! Layers are longest-path depths in edges; the width is the size of the largest layer. O(|V|+|E|).

use crate::error::Reason;
use crate::graph::{NOBODY, Order, Owners};
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::options::Options;
use crate::metrics::subject::Subject;
use crate::replay::schedule::durations::clock;
use crate::schema::EventType;

/// Sizes of a run.
#[derive(Debug)]
pub struct Scale;

static INFO: GroupInfo = GroupInfo {
    name: "scale",
    cost: Cost::Linear,
    reference: "arXiv 2605.02801, Table 14",
    metrics: &[
        Metric { name: "n_events", count: Count::Things, summary: "events" },
        Metric {
            name: "n_edges",
            count: Count::Things,
            summary: "edges; rows with the same ends are merged",
        },
        Metric { name: "n_agents", count: Count::Things, summary: "names that own an event" },
        Metric { name: "n_spawned", count: Count::Things, summary: "distinct names that spawns create" },
        Metric { name: "n_turns", count: Count::Things, summary: "turns of all agents" },
        Metric { name: "n_decisions", count: Count::Things, summary: "orchestrator decisions" },
        Metric {
            name: "n_messages",
            count: Count::Things,
            summary: "messages between two agents, without returns",
        },
        Metric { name: "n_tool_calls", count: Count::Things, summary: "tool calls" },
        Metric {
            name: "n_tool_errors",
            count: Count::Things,
            summary: "tool results with ok = false; null if no result has ok",
        },
        Metric {
            name: "agent_depth",
            count: Count::Things,
            summary: "hops from the root of the spawn forest to the deepest agent",
        },
        Metric { name: "graph_depth", count: Count::Things, summary: "edges on the longest path" },
        Metric {
            name: "graph_width",
            count: Count::Things,
            summary: "events in the largest layer of equal depth",
        },
        Metric {
            name: "tokens",
            count: Count::Tokens,
            summary: "tokens of the team's events; else those that the run states",
        },
        Metric {
            name: "cost_usd",
            count: Count::Usd,
            summary: "price of the team's events; else that which the run states",
        },
        Metric {
            name: "elapsed",
            count: Count::Clock,
            summary: "from the earliest beginning of an event to the latest end, in the unit of t",
        },
    ],
};

impl Group for Scale {
    fn info(&self) -> &'static GroupInfo {
        &INFO
    }

    fn worker(&self, _: &Options) -> Box<dyn Measure> {
        Box::<Worker>::default()
    }
}

#[derive(Debug, Default)]
struct Worker {
    layer: Vec<u32>,
    sizes: Vec<u32>,
    spawned: Vec<u32>,
    depth: Vec<u32>,
    path: Vec<u32>,
}

impl Measure for Worker {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let view = subject.view;
        let mut by_type = [0_usize; EventType::ALL.len()];
        view.types.iter().for_each(|&kind| by_type[kind as usize] += 1);
        out.count(0, view.len());
        out.count(1, subject.graph().n_edges());
        out.count(2, subject.agents().count());
        out.count(3, self.spawned(subject));
        out.count(4, subject.turns().list().len());
        out.count(5, by_type[EventType::OrchestratorDecision as usize]);
        out.count(6, subject.messages().len());
        out.count(7, by_type[EventType::ToolCall as usize]);
        let results = (0..view.len()).filter(|&v| subject.is(v, &[EventType::ToolResult]));
        let (n_judged, failed) = results
            .filter_map(|v| view.ok.get(v))
            .fold((0, 0), |(n_judged, failed), ok| (n_judged + 1, failed + usize::from(!ok)));
        if n_judged > 0 {
            out.count(8, failed);
        }
        out.count(9, self.agent_depth(subject.owners));
        match subject.order() {
            None => out.all_absent(10..12, Reason::GraphCycle),
            Some(order) => {
                let (depth, width) = self.layers(subject, order);
                out.count(10, depth);
                out.count(11, width);
            }
        }
        // What only the run states is of no event.
        let tokens = subject.all_tokens().map(|sum| sum as f64).or_else(|| view.stated_tokens());
        out.put(12, tokens.ok_or(Reason::FieldAbsent));
        let events = if view.cost_usd.is_absent() { 0 } else { view.len() };
        let costs = (0..events).filter_map(|v| subject.owners.cost_usd(view, v));
        let cost = costs.reduce(|sum, cost_of_event| sum + cost_of_event).or_else(|| view.stated_cost_usd());
        out.put(13, cost.ok_or(Reason::FieldAbsent));
        let (first, last) = clock(view, subject.owners);
        out.set(14, last - first);
    }
}

impl Worker {
    fn spawned(&mut self, subject: &Subject<'_>) -> usize {
        let view = subject.view;
        self.spawned.clear();
        let spawns = (0..view.len()).filter(|&v| subject.is(v, &[EventType::Spawn]));
        self.spawned.extend(spawns.filter_map(|v| view.to.get(v)));
        self.spawned.sort_unstable();
        self.spawned.dedup();
        self.spawned.len()
    }

    /// Hops from the root of the spawn forest to its deepest agent.
    fn agent_depth(&mut self, owners: &Owners) -> usize {
        let names = owners.names();
        let (depth, path) = (&mut self.depth, &mut self.path);
        depth.clear();
        depth.resize(names.len(), NOBODY);
        let mut most = 0;
        for at in (0..names.len() as u32).filter(|&at| names[at as usize].is_agent()) {
            // up to the first ancestor whose depth is known, then down again: a parent may come after its child
            let mut above = Some(at);
            while let Some(v) = above.filter(|&v| depth[v as usize] == NOBODY) {
                path.push(v);
                above = names[v as usize].parent();
            }
            let mut next = above.map_or(0, |v| depth[v as usize] + 1);
            while let Some(v) = path.pop() {
                depth[v as usize] = next;
                next += 1;
            }
            most = most.max(depth[at as usize]);
        }
        most as usize
    }

    fn layers(&mut self, subject: &Subject<'_>, order: Order<'_>) -> (usize, usize) {
        let n = subject.view.len();
        self.layer.clear();
        self.layer.resize(n, 0);
        let layer = &mut self.layer;
        let mut place = |v: usize| {
            let before = subject.graph().predecessors_of(v).iter().map(|&u| layer[u as usize] + 1).max();
            layer[v] = before.unwrap_or(0);
        };
        match order {
            Order::Document(n) => (0..n).for_each(&mut place),
            Order::Listed(rows) => rows.iter().for_each(|&v| place(v as usize)),
        }
        let depth = self.layer.iter().copied().max().unwrap_or(0) as usize;
        self.sizes.clear();
        self.sizes.resize(depth + 1, 0);
        self.layer.iter().for_each(|&at| self.sizes[at as usize] += 1);
        (depth, self.sizes.iter().copied().max().unwrap_or(0) as usize)
    }
}
