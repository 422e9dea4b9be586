//! Selection of a trace's events and edges for an action.

use std::fmt::Write;
use std::ops::Range;

use super::{Action, Cut, Level, Scenario, Selector};
use crate::error::Result;
use crate::graph::order::canonical_cmp;
use crate::graph::slots::Slots;
use crate::graph::{AgentRow, CsrGraph, NO_UNIT, NOBODY, Owners, Partition, TraceGraph};
use crate::schema::{Dict, EventType, Unit};
use crate::store::Store;
use crate::store::view::TraceView;

/// Checked scenarios, and their names that a store has.
#[derive(Debug, Default)]
pub struct Plan {
    /// The scenarios.
    pub scenarios: Vec<Scenario>,
    /// Codes of the names in selectors, in the order in which the store is asked for them.
    codes: Vec<(String, Dict, u32)>,
    levels: Vec<Level>,
    owners: bool,
    cuts: Vec<bool>,
}

impl Plan {
    /// Checks the scenarios and looks their names up in the store.
    pub fn new(store: &Store, scenarios: Vec<Scenario>) -> Result<Self> {
        Self::with(scenarios, |name, dict| store.names().dict(dict).find(name))
    }

    /// A plan whose names no store has.
    #[cfg(test)]
    pub(crate) fn of_levels(scenarios: Vec<Scenario>) -> Result<Self> {
        Self::with(scenarios, |_, _| None)
    }

    fn with(scenarios: Vec<Scenario>, find: impl Fn(&str, Dict) -> Option<u32>) -> Result<Self> {
        let mut plan = Self {
            scenarios: Vec::new(),
            codes: Vec::new(),
            levels: Vec::new(),
            owners: false,
            cuts: Vec::new(),
        };
        for scenario in &scenarios {
            scenario.check()?;
            plan.levels.extend(scenario.each());
            let mut cuts = false;
            for action in &scenario.actions {
                let (Action::Drop(what, _) | Action::Set(what, _)) = action else { continue };
                cuts |= matches!(action, Action::Drop(..)) && what.is_edges();
                plan.owners |= !matches!(
                    what,
                    Selector::Event(_)
                        | Selector::Type(_)
                        | Selector::Edge(..)
                        | Selector::Each(Level::Event | Level::Edge)
                );
                let named = match what {
                    Selector::Agent(name) | Selector::Spawn(name) => Some((name, Dict::Agent)),
                    Selector::Role(name) => Some((name, Dict::Role)),
                    Selector::Tool(name) => Some((name, Dict::Tool)),
                    _ => None,
                };
                if let Some((name, dict)) = named {
                    let code = find(name, dict).unwrap_or(NOBODY);
                    plan.codes.push((name.clone(), dict, code));
                }
            }
            plan.cuts.push(cuts);
        }
        plan.levels.sort_unstable_by_key(|level| *level as u8);
        plan.levels.dedup();
        plan.scenarios = scenarios;
        Ok(plan)
    }

    /// Whether a scenario is about what passes between events.
    #[must_use]
    pub fn cuts_edges(&self, scenario: usize) -> bool {
        self.cuts[scenario]
    }

    fn code(&self, name: &str, dict: Dict) -> u32 {
        let entry = self.codes.iter().find(|known| known.0 == name && known.1 == dict);
        entry.map_or(NOBODY, |known| known.2)
    }
}

/// A scenario, or some of its units, among the 64 of a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// Number of the scenario.
    pub scenario: usize,
    /// Units that are tried, one after the other; of a scenario without `each` this is one.
    pub units: Range<usize>,
    /// Bit of the first one.
    pub bit: u32,
}

impl Segment {
    /// Bits of all of them.
    #[must_use]
    pub fn bits(&self) -> u64 {
        let n = self.units.len();
        (if n == 64 { u64::MAX } else { (1_u64 << n) - 1 }) << self.bit
    }

    /// Bit of a unit, 0 if it is not among those of the segment.
    fn bit_of(&self, unit: u32) -> u64 {
        let unit = unit as usize;
        if self.units.contains(&unit) { 1 << (self.bit as usize + unit - self.units.start) } else { 0 }
    }
}

/// Who and what is in a trace; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct Roster {
    owners: Owners,
    agents: Vec<AgentRow>,
    /// Position among the names of the owner's spawner.
    parents: Vec<u32>,
    /// Positions of those that were spawned, and of everybody, spawners first.
    spawned: Vec<u32>,
    down: Vec<u32>,
    /// Tool of each event, and the tools in order of first use.
    tool_of: Vec<u32>,
    tools: Vec<u32>,
    partitions: [Partition; 4],
    slots: Slots,
    aggregate: bool,
}

/// Where the partitions of calls and messages are.
const CALLS: usize = 2;
const MESSAGES: usize = 3;

/// Where a level's partition is; the other levels have none.
fn partition_of(level: Level) -> Option<(usize, Unit)> {
    match level {
        Level::Agent => Some((0, Unit::Agent)),
        Level::Role => Some((1, Unit::Role)),
        Level::Call => Some((CALLS, Unit::Tool)),
        Level::Message => Some((MESSAGES, Unit::Message)),
        Level::Event | Level::Tool | Level::Spawn | Level::Edge => None,
    }
}

impl Roster {
    /// Replaces everything by what `plan` asks about `view`. `graph` has begun with the trace.
    pub fn compute(&mut self, plan: &Plan, view: &TraceView<'_>, graph: &mut TraceGraph) {
        self.aggregate = view.types.contains(&(EventType::Aggregate as u8));
        if !plan.owners {
            return;
        }
        self.owners.compute(view);
        // calls and messages are also selected by their ids
        for level in [Level::Agent, Level::Role, Level::Call, Level::Message] {
            let named = match level {
                Level::Call => plan.names(|what| matches!(what, Selector::Call(_))),
                Level::Message => plan.names(|what| matches!(what, Selector::Message(_))),
                _ => false,
            };
            if let Some((at, unit)) = partition_of(level).filter(|_| named || plan.levels.contains(&level)) {
                self.partitions[at].compute(unit, view, graph);
            }
        }
        self.find_tools(view);
        self.find_spawned();
    }

    fn find_tools(&mut self, view: &TraceView<'_>) {
        self.tool_of.clear();
        self.tools.clear();
        self.slots.begin();
        for v in 0..view.len() {
            let kind = view.event_type(v);
            let call = self.owners.calls()[v];
            let tool = match kind {
                EventType::ToolCall | EventType::ToolResult => view.tool.get(v).or_else(|| {
                    // a result that does not say whose it is has the tool of its call
                    (call != NOBODY).then(|| view.tool.get(call as usize)).flatten()
                }),
                _ => None,
            };
            let tool = tool.unwrap_or(NOBODY);
            if tool != NOBODY && self.slots.get(tool).is_none() {
                self.slots.set(tool, self.tools.len() as u32);
                self.tools.push(tool);
            }
            self.tool_of.push(tool);
        }
    }

    fn find_spawned(&mut self) {
        self.owners.agent_rows(&mut self.agents);
        let owners = &self.owners;
        self.parents.clear();
        self.parents.extend(
            self.agents.iter().map(|row| row.parent.and_then(|p| owners.name_index(p)).unwrap_or(NOBODY)),
        );
        self.spawned.clear();
        self.spawned.extend((0..self.parents.len() as u32).filter(|&at| self.parents[at as usize] != NOBODY));
        // spawns close no loop (D16), so that the way up ends
        let Self { parents, down, .. } = self;
        let mut placed = vec![false; parents.len()];
        let mut chain = Vec::new();
        down.clear();
        for at in 0..parents.len() as u32 {
            let mut up = at;
            while placed.get(up as usize).is_some_and(|placed| !placed) {
                placed[up as usize] = true;
                chain.push(up);
                up = parents[up as usize];
            }
            down.extend(chain.drain(..).rev());
        }
    }

    /// Whether the trace has an event of type aggregate.
    #[must_use]
    pub fn has_aggregate(&self) -> bool {
        self.aggregate
    }

    /// Units of a level.
    #[must_use]
    pub fn units(&self, level: Level, graph: &CsrGraph) -> usize {
        match level {
            Level::Event => graph.len(),
            Level::Tool => self.tools.len(),
            Level::Spawn => self.spawned.len(),
            Level::Edge => graph.n_edges(),
            _ => partition_of(level).map_or(0, |(at, _)| self.partitions[at].len()),
        }
    }

    /// Appends the name of a unit: that of an agent, role or tool, the id of an event, `a->b` of an edge.
    pub fn write_id(
        &self,
        store: &Store,
        view: &TraceView<'_>,
        graph: &CsrGraph,
        level: Level,
        unit: usize,
        out: &mut String,
    ) {
        let names = store.names();
        match level {
            Level::Event => out.push_str(view.id.get(unit).unwrap_or_default()),
            Level::Tool => out.push_str(names.dict(Dict::Tool).name(self.tools[unit])),
            Level::Spawn => {
                let code = self.owners.names()[self.spawned[unit] as usize].code;
                out.push_str(names.dict(Dict::Agent).name(code));
            }
            Level::Edge => {
                let to = destination_of(graph, unit);
                let from = graph.predecessors_of(to)[unit - graph.edges_into(to).start] as usize;
                let id = |v: usize| view.id.get(v).unwrap_or_default();
                // writing to a String cannot fail
                let _ = write!(out, "{}->{}", id(from), id(to));
            }
            _ => {
                if let Some((at, _)) = partition_of(level) {
                    self.partitions[at].name(unit).write_id(
                        view,
                        |code| names.dict(Dict::Agent).name(code),
                        |code| names.dict(Dict::Role).name(code),
                        out,
                    );
                }
            }
        }
    }

    /// Tells `take` the events that a selector is about, each with the scenarios of the segment that are.
    pub(super) fn events(
        &self,
        plan: &Plan,
        view: &TraceView<'_>,
        what: &Selector,
        segment: &Segment,
        take: &mut dyn FnMut(usize, u64),
    ) {
        let bits = segment.bits();
        let mut all = |belongs: &dyn Fn(usize) -> bool| {
            (0..view.len()).filter(|&v| belongs(v)).for_each(|v| take(v, bits));
        };
        match what {
            Selector::Event(id) => all(&|v| view.id.get(v) == Some(id)),
            Selector::Type(kind) => all(&|v| view.types[v] == *kind as u8),
            Selector::Agent(name) => {
                let code = plan.code(name, Dict::Agent);
                all(&|v| code != NOBODY && self.owners.codes()[v] == code);
            }
            Selector::Role(name) => {
                let code = Some(plan.code(name, Dict::Role)).filter(|&code| code != NOBODY);
                let names = self.owners.names();
                all(&|v| {
                    let owner = names.get(self.owners.indices()[v] as usize);
                    code.is_some() && owner.and_then(crate::graph::owner::Name::role) == code
                });
            }
            Selector::Tool(name) => {
                let code = plan.code(name, Dict::Tool);
                all(&|v| code != NOBODY && self.tool_of[v] == code);
            }
            Selector::Call(id) => {
                let calls = &self.partitions[CALLS];
                let unit = (0..calls.len()).find(|&u| view.id.get(calls.first(u) as usize) == Some(id));
                all(&|v| unit.is_some_and(|u| calls.of_events()[v] == u as u32));
            }
            Selector::Spawn(name) => {
                // the user and tools are names, too, but nobody spawns them
                let is_agent = |at: &u32| self.owners.names()[*at as usize].is_agent();
                let at = self.owners.name_index(plan.code(name, Dict::Agent)).filter(is_agent);
                self.descendants(view, |v| if Some(v) == at { bits } else { 0 }, take);
            }
            Selector::Each(Level::Spawn) => {
                let unit =
                    |at: u32| self.spawned.binary_search(&at).map_or(0, |unit| segment.bit_of(unit as u32));
                self.descendants(view, unit, take);
            }
            Selector::Each(Level::Event) => {
                segment.units.clone().for_each(|unit| take(unit, segment.bit_of(unit as u32)));
            }
            Selector::Each(Level::Tool) => {
                for (v, &tool) in self.tool_of.iter().enumerate().filter(|(_, tool)| **tool != NOBODY) {
                    let bit = self.slots.get(tool).map_or(0, |unit| segment.bit_of(unit));
                    if bit != 0 {
                        take(v, bit);
                    }
                }
            }
            Selector::Each(level) => {
                let Some((at, _)) = partition_of(*level) else { return };
                for (v, &unit) in self.partitions[at].of_events().iter().enumerate() {
                    if unit != NO_UNIT && segment.bit_of(unit) != 0 {
                        take(v, segment.bit_of(unit));
                    }
                }
            }
            Selector::Message(_) | Selector::Edge(..) => {}
        }
    }

    /// Events of agents and of all that they spawned, and the spawns that name them. `bit` is that of an agent.
    fn descendants(&self, view: &TraceView<'_>, bit: impl Fn(u32) -> u64, take: &mut dyn FnMut(usize, u64)) {
        let mut masks: Vec<u64> = (0..self.parents.len() as u32).map(bit).collect();
        for &at in &self.down {
            masks[at as usize] |= masks.get(self.parents[at as usize] as usize).copied().unwrap_or(0);
        }
        for v in 0..view.len() {
            let mut bits = masks.get(self.owners.indices()[v] as usize).copied().unwrap_or(0);
            if view.event_type(v) == EventType::Spawn {
                let child = view.to.get(v).and_then(|to| self.owners.name_index(to));
                bits |= child.map_or(0, |at| masks[at as usize]);
            }
            if bits != 0 {
                take(v, bits);
            }
        }
    }

    /// Tells `take` the edges that a selector is about, as [`Self::events`] does.
    pub(super) fn edges(
        &self,
        view: &TraceView<'_>,
        graph: &CsrGraph,
        what: &Selector,
        segment: &Segment,
        take: &mut dyn FnMut(usize, u64),
    ) {
        let bits = segment.bits();
        match what {
            Selector::Edge(from, to) => {
                let of = |id: &str| (0..view.len()).find(|&v| view.id.get(v) == Some(id));
                let (Some(u), Some(v)) = (of(from), of(to)) else { return };
                let inputs = graph.edges_into(v).zip(graph.predecessors_of(v));
                inputs.filter(|(_, s)| **s as usize == u).for_each(|(e, _)| take(e, bits));
            }
            Selector::Each(Level::Edge) => {
                segment.units.clone().for_each(|e| take(e, segment.bit_of(e as u32)));
            }
            Selector::Message(id) => {
                let messages = &self.partitions[MESSAGES];
                let wanted =
                    (0..messages.len()).find(|&u| view.id.get(messages.first(u) as usize) == Some(id));
                let unit = |u: u32| if wanted == Some(u as usize) { bits } else { 0 };
                self.deliveries(graph, unit, take);
            }
            Selector::Each(Level::Message) => self.deliveries(graph, |unit| segment.bit_of(unit), take),
            _ => {}
        }
    }

    /// Edges that lead from a message to an event of another owner. `bit` is that of a message.
    fn deliveries(&self, graph: &CsrGraph, bit: impl Fn(u32) -> u64, take: &mut dyn FnMut(usize, u64)) {
        let (of, owner) = (self.partitions[MESSAGES].of_events(), self.owners.codes());
        for v in 0..graph.len() {
            for (e, &u) in graph.edges_into(v).zip(graph.predecessors_of(v)) {
                let unit = of[u as usize];
                if unit != NO_UNIT && bit(unit) != 0 && owner[u as usize] != owner[v] {
                    take(e, bit(unit));
                }
            }
        }
    }
}

/// Tells `take` the events after a cut; false if the trace does not have the event that it names.
pub(super) fn events_after(view: &TraceView<'_>, cut: &Cut, take: &mut dyn FnMut(usize)) -> bool {
    match cut {
        Cut::At(at) => {
            let start = view.t.iter().copied().fold(f64::INFINITY, f64::min);
            (0..view.len()).filter(|&v| view.t[v] - start > *at).for_each(take);
        }
        Cut::Event(id) => {
            let Some(last) = (0..view.len()).find(|&v| view.id.get(v) == Some(id)) else { return false };
            let later = |v: &usize| canonical_cmp(view.t, last as u32, *v as u32).is_lt();
            (0..view.len()).filter(later).for_each(take);
        }
    }
    true
}

impl Plan {
    fn names(&self, which: impl Fn(&Selector) -> bool) -> bool {
        self.scenarios.iter().flat_map(|scenario| &scenario.actions).any(|action| match action {
            Action::Drop(what, _) | Action::Set(what, _) => which(what),
            _ => false,
        })
    }
}

/// The event that an edge leads to.
fn destination_of(graph: &CsrGraph, edge: usize) -> usize {
    let (mut from, mut to) = (0, graph.len());
    while from < to {
        let middle = usize::midpoint(from, to);
        if graph.edges_into(middle).end <= edge {
            from = middle + 1;
        } else {
            to = middle;
        }
    }
    from
}
