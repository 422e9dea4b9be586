//! Runs that are agents: graphs of LangGraph, and their nodes if several of them call models.

use std::collections::{HashMap, HashSet};

use super::run::{Run, ancestors_of};
use crate::importers::otel::attributes::Sort;
use crate::importers::spans::ToolKind;

/// Runs by their parents.
#[derive(Debug, Default)]
pub(super) struct Graph {
    parents: Vec<Option<usize>>,
    /// Whether somebody's parent is not there.
    pub incomplete: bool,
    /// Runs that hold nodes.
    graphs: HashSet<usize>,
    /// Graphs of which several nodes ask models.
    teams: HashSet<usize>,
}

/// Whether a run is the visit of a node.
fn is_node(run: &Run<'_>) -> bool {
    let name = run.get("name").str();
    name.is_some_and(|name| !name.starts_with("__")) && run.metadata("langgraph_node") == name
}

impl Graph {
    pub(super) fn of(runs: &[Run<'_>]) -> Self {
        let place_of: HashMap<&str, usize> = runs.iter().enumerate().map(|(i, run)| (run.id(), i)).collect();
        let mut graph = Self::default();
        for run in runs {
            let parent = run.get("parent_run_id").some_str();
            let named: Vec<&str> = parent.into_iter().chain(ancestors_of(run)).collect();
            let nearest = named.iter().position(|id| place_of.contains_key(id));
            graph.incomplete |= !named.is_empty() && nearest != Some(0);
            graph.parents.push(nearest.map(|at| place_of[named[at]]));
        }
        for (i, run) in runs.iter().enumerate() {
            if let Some(parent) = graph.parents[i].filter(|_| is_node(run)) {
                graph.graphs.insert(parent);
            }
        }
        // Nodes that ask models themselves, not by a graph within them.
        let mut asking: HashMap<usize, HashSet<&str>> = HashMap::new();
        for (i, run) in runs.iter().enumerate() {
            if run.get("run_type").str() != Some("llm") {
                continue;
            }
            let mut at = graph.parents[i];
            for _ in 0..=runs.len() {
                let Some(p) = at else { break };
                if is_node(&runs[p]) || graph.graphs.contains(&p) {
                    if let Some(above) = graph.parents[p].filter(|_| is_node(&runs[p])) {
                        asking
                            .entry(above)
                            .or_default()
                            .insert(runs[p].get("name").str().unwrap_or_default());
                    }
                    break;
                }
                at = graph.parents[p];
            }
        }
        graph.teams =
            asking.into_iter().filter(|(_, nodes)| nodes.len() > 1).map(|(graph, _)| graph).collect();
        graph
    }

    /// Id of the run that a run is part of; of one that is not there, if nothing above it is there either.
    pub(super) fn parent<'t>(&self, runs: &[Run<'t>], i: usize) -> Option<&'t str> {
        let named = || runs[i].get("parent_run_id").some_str().or_else(|| ancestors_of(&runs[i]).next());
        self.parents[i].map(|parent| runs[parent].id()).or_else(named)
    }

    /// What a run is, and the name of the agent if it is the visit to one of a team.
    pub(super) fn sort<'t>(&self, runs: &[Run<'t>], i: usize) -> (Sort, Option<&'t str>) {
        let run = &runs[i];
        let name = run.get("name").str().unwrap_or_default();
        let sort = match run.get("run_type").str().unwrap_or_default() {
            "llm" => Sort::Generation,
            "tool" => Sort::Tool(ToolKind::Asked),
            "retriever" => Sort::Tool(ToolKind::Retrieval),
            "embedding" | "prompt" | "parser" => Sort::Nothing,
            _ => Sort::Chain(true),
        };
        if !matches!(sort, Sort::Chain(_)) {
            return (sort, None);
        }
        let node = run.metadata("langgraph_node");
        let agent_name = run
            .metadata("lc_agent_name")
            .or_else(|| run.metadata("agent_name"))
            .filter(|agent_name| *agent_name == name);
        let in_team = self.parents[i].is_some_and(|parent| self.teams.contains(&parent)) && is_node(run);
        if self.graphs.contains(&i) || in_team {
            // A graph that serves as a node is called as that; it is visited again and again.
            return (Sort::Agent, node);
        }
        if agent_name.is_some() || run.tagged("agent") || name == "AgentExecutor" {
            return (Sort::Agent, None);
        }
        let building_block =
            ["Runnable", "Channel", "Prompt", "_", "Chat"].iter().any(|block| name.starts_with(block));
        let named = !building_block && node.is_none_or(|node| node == name);
        (Sort::Chain(named), None)
    }
}
