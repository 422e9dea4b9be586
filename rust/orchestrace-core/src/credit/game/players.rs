//! The players of a trace (docs/reference/definitions.md, D16).
//!
//! At `agent`, `role` and `team` the players are the agents, in order of the first event that they own; at every other
//! level the units. Events of no player are always there. O(|V| + |E|).

use super::{Needs, Players};
use crate::graph::owner::Name;
use crate::graph::slots::Slots;
use crate::graph::{NO_UNIT, NOBODY, Owners, Partition, TraceGraph, UnitName};
use crate::schema::{EdgeType, EventType, Over, Unit};
use crate::store::view::TraceView;

/// Players of a trace; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct Cast {
    agents_play: bool,
    n_units: usize,
    player_of: Vec<u32>,
    row_of: Vec<u32>,
    unions: Vec<u32>,
    agents: Vec<u32>,
    links: Vec<(u32, u32)>,
    parents: Vec<u32>,
    /// By unit: whether all of it is always there.
    fixed: Vec<bool>,
    /// Position among the names of each player's agent, and the player of each agent.
    names: Vec<u32>,
    of_name: Vec<u32>,
    numbers: Vec<u32>,
    roles: Slots,
}

/// Types of edges that link agents.
const JOINING: [u8; 3] = [EdgeType::Message as u8, EdgeType::Return as u8, EdgeType::Spawn as u8];

impl Cast {
    /// Replaces the players by those of `view`, where credit is reported by the units of `partition`. `root` says
    /// whether the root agent plays, `over` whether those do whose policies are not trained; else they are always there.
    pub fn compute(
        &mut self,
        view: &TraceView<'_>,
        unit: Unit,
        partition: &Partition,
        graph: &mut TraceGraph,
        (root, over): (bool, Over),
        needs: Needs,
    ) {
        self.n_units = partition.len();
        self.player_of.clear();
        self.row_of.clear();
        self.names.clear();
        let owners = graph.owners(view);
        self.of_name.clear();
        self.of_name.resize(owners.names().len(), NO_UNIT);
        let root = if root { None } else { owners.root() };
        let is_fixed = |v: usize| {
            let code = owners.codes()[v];
            (code != NOBODY && Some(code) == root) || (over == Over::Trainable && !owners.is_trained(v))
        };
        let agents = matches!(unit, Unit::Agent | Unit::Role | Unit::Team);
        self.agents_play = agents;
        if agents {
            self.agents_play(view, owners, partition, is_fixed);
        } else {
            self.units_play(view, owners, partition, is_fixed);
        }
        self.fixed.clear();
        self.fixed.resize(self.n_units, root.is_some() || over == Over::Trainable);
        for &row in &self.row_of {
            if let Some(fixed) = self.fixed.get_mut(row as usize) {
                *fixed = false;
            }
        }
        self.unions.clear();
        self.agents.clear();
        self.links.clear();
        self.parents.clear();
        if needs.unions {
            self.find_unions(owners);
        }
        if needs.links && agents {
            self.find_links(view, owners);
        }
        if needs.parents && agents {
            let parent = |&name: &u32| owners.names()[name as usize].parent();
            let parents = self.names.iter().map(parent);
            let player = |name: Option<u32>| name.map_or(NO_UNIT, |name| self.of_name[name as usize]);
            self.parents.extend(parents.map(player));
        }
    }

    fn agents_play(
        &mut self,
        view: &TraceView<'_>,
        owners: &Owners,
        partition: &Partition,
        is_fixed: impl Fn(usize) -> bool,
    ) {
        for v in 0..view.len() {
            let name = owners.indices()[v];
            if name == NOBODY || is_fixed(v) {
                self.player_of.push(NO_UNIT);
                continue;
            }
            let player = &mut self.of_name[name as usize];
            if *player == NO_UNIT {
                *player = self.row_of.len() as u32;
                self.row_of.push(partition.of_events()[v].min(self.n_units as u32));
                self.names.push(name);
            }
            self.player_of.push(*player);
        }
    }

    fn units_play(
        &mut self,
        view: &TraceView<'_>,
        owners: &Owners,
        partition: &Partition,
        is_fixed: impl Fn(usize) -> bool,
    ) {
        self.numbers.clear();
        for unit in 0..self.n_units {
            let first = partition.first(unit) as usize;
            if is_fixed(first) {
                self.numbers.push(NO_UNIT);
            } else {
                self.numbers.push(self.row_of.len() as u32);
                self.row_of.push(unit as u32);
                self.names.push(owners.indices()[first]);
            }
        }
        if partition.is_identity() {
            self.player_of.extend_from_slice(&self.numbers);
        } else {
            let player = |&unit: &u32| self.numbers.get(unit as usize).copied().unwrap_or(NO_UNIT);
            self.player_of.extend(partition.of_events().iter().map(player));
        }
        debug_assert_eq!(self.player_of.len(), view.len());
    }

    fn find_unions(&mut self, owners: &Owners) {
        // numbered by first appearance among the players
        let Self { names, unions, agents, numbers, of_name, roles, .. } = self;
        roles.begin();
        let mut next = 0;
        for &name in names.iter() {
            let role = owners.names().get(name as usize).and_then(Name::role);
            unions.push(role.map_or(NO_UNIT, |role| {
                roles.get(role).unwrap_or_else(|| {
                    roles.set(role, next);
                    next += 1;
                    next - 1
                })
            }));
        }
        // `of_name` is the player of an agent; here it is the number of the agent, the same where agents play
        let mut next = 0;
        numbers.clear();
        numbers.resize(of_name.len(), NO_UNIT);
        for &name in names.iter() {
            agents.push(numbers.get_mut(name as usize).map_or(NO_UNIT, |number| {
                if *number == NO_UNIT {
                    *number = next;
                    next += 1;
                }
                *number
            }));
        }
    }

    fn find_links(&mut self, view: &TraceView<'_>, owners: &Owners) {
        let links = &mut self.links;
        let mut link = |a: u32, b: u32| {
            if a != NO_UNIT && b != NO_UNIT && a != b {
                links.push((a.min(b), a.max(b)));
            }
        };
        for v in 0..view.len() {
            use EventType::{Message, Return, Spawn};
            if matches!(view.event_type(v), Message | Return | Spawn)
                && let Some(to) = view.to.get(v).and_then(|to| owners.name_index(to))
            {
                link(self.player_of[v], self.of_name[to as usize]);
            }
        }
        for ((&s, &d), kind) in view.src.iter().zip(view.dst).zip(view.edge_types) {
            if JOINING.contains(kind) {
                link(self.player_of[s as usize], self.player_of[d as usize]);
            }
        }
        links.sort_unstable();
        links.dedup();
    }

    /// The input of a method.
    #[must_use]
    pub fn players(&self) -> Players<'_> {
        Players {
            row_of: &self.row_of,
            n_units: self.n_units,
            unions: &self.unions,
            agents: &self.agents,
            links: &self.links,
            parents: &self.parents,
        }
    }

    /// What a player is called; `partition` and `owners` are those that the players are of.
    pub(super) fn name(&self, player: usize, partition: &Partition, owners: &Owners) -> UnitName {
        if self.agents_play {
            UnitName::Agent(owners.names()[self.names[player] as usize].code)
        } else {
            partition.name(self.row_of[player] as usize)
        }
    }

    /// Player of every event, or [`NO_UNIT`].
    #[must_use]
    pub fn player_of(&self) -> &[u32] {
        &self.player_of
    }

    /// By unit: whether it is no player and no sum of players, since all of it is always there.
    #[must_use]
    pub fn fixed(&self) -> &[bool] {
        &self.fixed
    }
}
