//! The message graph of an agent: who wrote each node, which nodes are branches that were given up, when each was read.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::time;
use crate::importers::responses::text_of;
use crate::json::tree::Value;

/// Who wrote the message of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    /// A model wrote it.
    Sampled,
    /// The user wrote it to the agent.
    User,
    /// A tool returned it.
    Tool,
    /// Anything else that the model reads: a system prompt, or an answer that no model wrote.
    Context,
}

/// A message of the graph.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node<'v> {
    pub value: Value<'v>,
    pub sort: Sort,
    /// The node before it, which comes before it in the file, too.
    pub parent: Option<usize>,
    /// Which agent reads or writes it: 0 is the one whose trace this is, others are in [`Graph::spawns`].
    pub owner: usize,
    /// Whether it is the end of a branch that was given up.
    pub abandoned: bool,
    /// The answer of a model or of a script that is nearest above it.
    pub answer_above: Option<usize>,
    /// When the first call that read it began; nothing if that is not recorded.
    pub read_at: Option<i64>,
}

impl<'v> Node<'v> {
    pub(super) fn message(&self) -> Value<'v> {
        self.value.get("message")
    }

    pub(super) fn role(&self) -> &'v str {
        self.message().get("role").str().unwrap_or_default()
    }

    /// The relations to nodes on other paths, by their labels.
    pub(super) fn relations(&self) -> impl Iterator<Item = (usize, &'v str)> {
        self.value.get("semantic_parents").elements().filter_map(|relation| {
            let source = usize::try_from(relation.get("node").u64()?).ok()?;
            Some((source, relation.get("type").str().unwrap_or_default()))
        })
    }
}

/// How a sub-agent began.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spawn {
    /// Who made it work.
    pub parent: usize,
    /// The answer that did.
    pub by: usize,
    /// Its first node.
    pub first: usize,
}

/// The graph of one agent, with its sub-agents.
#[derive(Debug, Default)]
pub(super) struct Graph<'v> {
    pub nodes: Vec<Node<'v>>,
    /// Sub-agents; the first is agent 1.
    pub spawns: Vec<Spawn>,
    /// The call that made each node, with its place in the list of calls.
    pub calls: Vec<Option<(usize, Value<'v>)>>,
    /// Sub-agents by the answer that made them work.
    pub spawned_by: HashMap<usize, Vec<usize>>,
    /// Sub-agents of which an answer is said to have reached another agent.
    pub returns: HashSet<usize>,
    /// Results, by the answer that asked for them and the id of the call.
    pub results: HashSet<(usize, &'v str)>,
    /// Nodes whose stated parent does not come before them.
    pub misplaced: Vec<usize>,
    /// How many children each node has so far.
    children: Vec<u32>,
    /// Whether a relation has settled the owner of each node.
    settled: Vec<bool>,
}

impl<'v> Graph<'v> {
    pub(super) fn of(trace: Value<'v>) -> Self {
        let mut graph = Self::default();
        for value in trace.get("nodes").elements() {
            graph.node(value);
        }
        graph.calls = vec![None; graph.nodes.len()];
        for (place, call) in trace.get("calls").elements().enumerate() {
            if let Some(node) = node_of(call)
                && graph.nodes.get(node).is_some_and(|node| node.sort == Sort::Sampled)
            {
                graph.calls[node].get_or_insert((place, call));
            }
        }
        for (n, spawn) in graph.spawns.iter().enumerate() {
            graph.spawned_by.entry(spawn.by).or_default().push(n + 1);
        }
        graph.answers();
        graph.read_times();
        graph.dead_ends();
        graph
    }

    fn node(&mut self, value: Value<'v>) {
        let index = self.nodes.len();
        let stated = value.get("parent");
        let parent = stated.u64().and_then(|parent| usize::try_from(parent).ok()).filter(|p| *p < index);
        if stated.exists() && parent.is_none() {
            self.misplaced.push(index);
        }
        let role = value.path(&["message", "role"]).str();
        let sort = match (value.get("sampled").bool(), role) {
            (Some(true), _) => Sort::Sampled,
            (_, Some("user")) => Sort::User,
            (_, Some("tool")) => Sort::Tool,
            _ => Sort::Context,
        };
        let above = parent.map(|parent| self.nodes[parent]);
        let answer_above = above.and_then(|node| {
            let answers = node.sort == Sort::Sampled || node.role() == "assistant";
            if answers { parent } else { node.answer_above }
        });
        let owner = above.map_or(0, |node| node.owner);
        let node = Node { value, sort, parent, owner, abandoned: false, answer_above, read_at: None };
        self.nodes.push(node);
        self.children.push(0);
        self.settled.push(false);
        if let Some(parent) = parent {
            self.children[parent] += 1;
        }
        for (source, label) in node.relations().filter(|(source, _)| *source < index) {
            match label {
                "subagent_call" => self.begin_sub_agent(source, index),
                "continuation" | "compaction" | "compaction_attempt" if !self.is_below(index) => {
                    self.give(index, self.nodes[source].owner);
                }
                _ => {}
            }
        }
    }

    /// Whether an answer stands above the node.
    fn is_below(&self, index: usize) -> bool {
        self.nodes[index].answer_above.is_some()
    }

    /// A call leads to a new agent, unless it makes one work again that works for the same agent.
    fn begin_sub_agent(&mut self, by: usize, index: usize) {
        let (parent, owner) = (self.nodes[by].owner, self.nodes[index].owner);
        if owner > 0 && self.spawns[owner - 1].parent == parent {
            return;
        }
        self.spawns.push(Spawn { parent, by, first: index });
        self.give(index, self.spawns.len());
    }

    /// Gives a node to an agent, with the prompts above it that no other path reads so far.
    fn give(&mut self, index: usize, owner: usize) {
        let mut at = Some(index);
        while let Some(node) = at {
            let begins =
                node == index || (self.nodes[node].sort != Sort::Sampled && self.children[node] == 1);
            if !begins || std::mem::replace(&mut self.settled[node], true) {
                break;
            }
            self.nodes[node].owner = owner;
            if let Some(spawn) = owner.checked_sub(1).map(|spawn| &mut self.spawns[spawn]) {
                spawn.first = spawn.first.min(node);
            }
            at = self.nodes[node].parent;
        }
    }

    /// Which calls have results, and which sub-agents have answered.
    fn answers(&mut self) {
        for node in &self.nodes {
            let call = node.message().get("tool_call_id").str();
            if let Some((answer, call)) = node.answer_above.zip(call).filter(|_| node.sort == Sort::Tool) {
                self.results.insert((answer, call));
            }
            let returns = node.relations().filter(|(_, label)| *label == "subagent_return");
            self.returns.extend(returns.filter_map(|(source, _)| Some(self.nodes.get(source)?.owner)));
        }
    }

    /// What a sub-agent was asked first: the text of the user that its first answer reads.
    pub(super) fn prompt_of(&self, agent: usize) -> Cow<'v, str> {
        let nodes = self.nodes[self.spawns[agent - 1].first..].iter();
        let mut read = nodes.take_while(|node| node.owner == agent && node.sort != Sort::Sampled);
        let prompt = read.find(|node| node.sort == Sort::User);
        prompt.map_or("".into(), |node| text_of(node.message().get("content")))
    }

    /// A message was there when the call that reads it began, even if it was added to the graph later.
    fn read_times(&mut self) {
        for index in 0..self.nodes.len() {
            let began = self.calls[index].and_then(|(_, call)| time(call.path(&["time", "start"])));
            let Some(began) = began else { continue };
            let mut at = self.nodes[index].parent;
            while let Some(node) = at.map(|at| &mut self.nodes[at]) {
                if node.sort == Sort::Sampled || node.read_at.is_some() {
                    break;
                }
                node.read_at = Some(began);
                at = node.parent;
            }
        }
    }

    /// An attempt to compact that no compaction goes on from, and that nothing follows, was given up.
    fn dead_ends(&mut self) {
        let mut used = HashSet::new();
        for node in &self.nodes {
            used.extend(node.parent);
            used.extend(
                node.relations().filter(|(_, label)| *label == "compaction").map(|(source, _)| source),
            );
        }
        for (index, node) in self.nodes.iter_mut().enumerate() {
            let attempts = node.relations().any(|(_, label)| label == "compaction_attempt");
            node.abandoned = attempts && !used.contains(&index);
        }
    }
}

/// The answer that a call made.
pub(super) fn node_of(call: Value<'_>) -> Option<usize> {
    call.get("node").u64().and_then(|node| usize::try_from(node).ok())
}
