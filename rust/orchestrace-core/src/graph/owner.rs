//! Who owns an event, who leads, who plays which role, who spawned whom (D4, D16).
//!
//! The owner of an event is its `agent`, except that interventions and the agent `user` have none, and that a tool
//! result whose `agent` acts nowhere else (it is then a tool's name) belongs to the owner of its call: the last
//! `tool_call` among its predecessors, else the last earlier `tool_call` of the same `tool`. Agents are owners.
//! O(|V| + |E|) for a trace in order of time.

use super::order::{CanonicalOrder, canonical_cmp};
use super::slots::Slots;
use crate::schema::{AgentKind, EventType};
use crate::store::view::TraceView;

/// In place of a code or position: nobody, nothing.
pub const NOBODY: u32 = u32::MAX;

/// One distinct value of the field `agent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Name {
    /// Dictionary code.
    pub code: u32,
    /// First event that carries it, in document order.
    pub first_seq: u32,
    /// Events that carry it.
    pub carried: u32,
    /// Events that it owns; an agent is a name that owns one.
    pub owned: u32,
    /// Occurs on tool results only, hence a tool's name; never the user's.
    only_results: bool,
    role: Option<u32>,
    spawn_role: Option<u32>,
    parent: u32,
}

impl Name {
    /// Role: of the first event that it owns and carries, spawns and despawns left out, else of the first spawn
    /// that names it.
    #[must_use]
    pub fn role(&self) -> Option<u32> {
        self.role.or(self.spawn_role)
    }

    /// Position among the names of the owner of the first spawn that names it (D16).
    #[must_use]
    pub fn parent(&self) -> Option<u32> {
        Some(self.parent).filter(|&parent| parent != NOBODY)
    }

    /// Whether it owns an event.
    #[must_use]
    pub fn is_agent(&self) -> bool {
        self.owned > 0
    }
}

/// One row of the table `agents`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentRow {
    /// Dictionary code of the name.
    pub agent: u32,
    /// What the name stands for.
    pub kind: AgentKind,
    /// Role of an agent.
    pub role: Option<u32>,
    /// Owner of the first spawn that names the agent; none for roots of the spawn forest, tools and users.
    pub parent: Option<u32>,
    /// Hops from the root of the spawn forest; none for tools and users.
    pub depth: Option<u32>,
    /// First event that carries the name.
    pub first_seq: u32,
    /// Events owned, or for what is no agent, events that carry the name.
    pub n_events: u32,
}

/// Owners of a trace; a buffer that is used for one trace after the other.
#[derive(Debug, Default)]
pub struct Owners {
    order: CanonicalOrder,
    owner: Vec<u32>,
    index: Vec<u32>,
    call: Vec<u32>,
    names: Vec<Name>,
    root: Option<u32>,
    slots: Slots,
    tools: Slots,
    tree: Vec<u32>,
    path: Vec<u32>,
}

impl Owners {
    /// Replaces everything by what `view` says.
    pub fn compute(&mut self, view: &TraceView<'_>) {
        self.order.compute(view.t);
        self.collect_names(view);
        self.find_calls(view);
        self.assign(view);
        self.root = self.find_root(view);
        self.find_roles_and_parents(view);
    }

    fn collect_names(&mut self, view: &TraceView<'_>) {
        self.slots.begin();
        self.names.clear();
        self.index.clear();
        for (seq, (&code, &kind)) in view.agent.iter().zip(view.types).enumerate() {
            let at = self.slots.get(code).unwrap_or_else(|| {
                let at = self.names.len() as u32;
                self.slots.set(code, at);
                self.names.push(Name {
                    code,
                    first_seq: seq as u32,
                    carried: 0,
                    owned: 0,
                    only_results: true,
                    role: None,
                    spawn_role: None,
                    parent: NOBODY,
                });
                at
            });
            let name = &mut self.names[at as usize];
            name.carried += 1;
            name.only_results &= kind == EventType::ToolResult as u8 && Some(code) != view.user;
            self.index.push(at);
        }
    }

    fn find_calls(&mut self, view: &TraceView<'_>) {
        const CALL: u8 = EventType::ToolCall as u8;
        const RESULT: u8 = EventType::ToolResult as u8;
        self.call.clear();
        self.call.resize(view.len(), NOBODY);
        if !view.types.contains(&RESULT) {
            return;
        }
        for (&s, &d) in view.src.iter().zip(view.dst) {
            if view.types[d as usize] == RESULT && view.types[s as usize] == CALL {
                let call = &mut self.call[d as usize];
                if *call == NOBODY || canonical_cmp(view.t, *call, s).is_lt() {
                    *call = s;
                }
            }
        }
        if view.tool.is_absent() {
            return;
        }
        self.tools.begin();
        for &v in self.order.rows() {
            let kind = view.types[v as usize];
            if kind == CALL {
                if let Some(tool) = view.tool.get(v as usize) {
                    self.tools.set(tool, v);
                }
            } else if kind == RESULT && self.call[v as usize] == NOBODY {
                let earlier = view.tool.get(v as usize).and_then(|tool| self.tools.get(tool));
                self.call[v as usize] = earlier.unwrap_or(NOBODY);
            }
        }
    }

    fn assign(&mut self, view: &TraceView<'_>) {
        self.owner.clear();
        for (v, &kind) in view.types.iter().enumerate() {
            let at = if kind == EventType::HumanIntervention as u8 || Some(view.agent[v]) == view.user {
                NOBODY
            } else if kind == EventType::ToolResult as u8 && self.names[self.index[v] as usize].only_results {
                // A call owns itself or is the user's; its own entry in `index` is right before and after its turn.
                match self.call[v] {
                    NOBODY => NOBODY,
                    call if Some(view.agent[call as usize]) == view.user => NOBODY,
                    call => self.index[call as usize],
                }
            } else {
                self.index[v]
            };
            self.index[v] = at;
            self.owner.push(self.names.get(at as usize).map_or(NOBODY, |name| name.code));
            if let Some(name) = self.names.get_mut(at as usize) {
                name.owned += 1;
            }
        }
    }

    fn find_root(&self, view: &TraceView<'_>) -> Option<u32> {
        let first = |kind: Option<EventType>| {
            let wanted = |v: u32| kind.is_none_or(|kind| view.types[v as usize] == kind as u8);
            self.order.rows().iter().find(|&&v| self.owner[v as usize] != NOBODY && wanted(v))
        };
        first(Some(EventType::OrchestratorDecision))
            .or_else(|| first(Some(EventType::Spawn)))
            .or_else(|| first(None))
            .map(|&v| self.owner[v as usize])
    }

    fn find_roles_and_parents(&mut self, view: &TraceView<'_>) {
        let root = self.root.and_then(|code| self.slots.get(code));
        // Union-find whose representatives are the roots of the spawn forest: a spawn closes a loop exactly if the
        // child is the root of its parent's tree.
        self.tree.clear();
        self.tree.extend(0..self.names.len() as u32);
        for &v in self.order.rows() {
            let i = v as usize;
            let kind = view.types[i];
            if kind == EventType::Spawn as u8 {
                let Some(child) = view.to.get(i).and_then(|to| self.slots.get(to)) else { continue };
                let (spawner, role) = (self.index[i], view.role.get(i));
                let name = &mut self.names[child as usize];
                name.spawn_role = name.spawn_role.or(role);
                let may_join = name.is_agent() && name.parent == NOBODY && Some(child) != root;
                if may_join && spawner != NOBODY && find(&mut self.tree, spawner) != child {
                    name.parent = spawner;
                    self.tree[child as usize] = spawner;
                }
            } else if kind != EventType::Despawn as u8 && self.owner[i] == view.agent[i] {
                let name = &mut self.names[self.index[i] as usize];
                if name.role.is_none() {
                    name.role = view.role.get(i);
                }
            }
        }
    }

    /// The table `agents` of the trace, in order of first appearance in the document.
    pub fn agent_rows(&mut self, out: &mut Vec<AgentRow>) {
        out.clear();
        self.tree.clear();
        self.tree.resize(self.names.len(), NOBODY);
        let depth = &mut self.tree;
        for at in 0..self.names.len() {
            // up to the first ancestor whose depth is known, then down again
            self.path.clear();
            let mut v = at as u32;
            while v != NOBODY && depth[v as usize] == NOBODY {
                self.path.push(v);
                v = self.names[v as usize].parent;
            }
            let from = if v == NOBODY { 0 } else { depth[v as usize] + 1 };
            for (next, &v) in (from..).zip(self.path.iter().rev()) {
                depth[v as usize] = next;
            }
        }
        for (name, &depth) in self.names.iter().zip(depth.iter()) {
            let agent = name.is_agent();
            let kind = if agent {
                AgentKind::Agent
            } else if name.only_results {
                AgentKind::Tool
            } else {
                AgentKind::User
            };
            out.push(AgentRow {
                agent: name.code,
                kind,
                role: name.role().filter(|_| agent),
                parent: self.names.get(name.parent as usize).map(|parent| parent.code),
                depth: agent.then_some(depth),
                first_seq: name.first_seq,
                n_events: if agent { name.owned } else { name.carried },
            });
        }
    }
}

impl Owners {
    /// Canonical order of the events.
    #[must_use]
    pub fn order(&self) -> &CanonicalOrder {
        &self.order
    }

    /// Code of the owner of every event, or [`NOBODY`].
    #[must_use]
    pub fn codes(&self) -> &[u32] {
        &self.owner
    }

    /// Position in [`Self::names`] of the owner of every event, or [`NOBODY`].
    #[must_use]
    pub fn indices(&self) -> &[u32] {
        &self.index
    }

    /// For every `tool_result` the `seq` of its call, else [`NOBODY`].
    #[must_use]
    pub fn calls(&self) -> &[u32] {
        &self.call
    }

    /// Distinct values of the field `agent`, in order of first appearance.
    #[must_use]
    pub fn names(&self) -> &[Name] {
        &self.names
    }

    /// Position of a code in [`Self::names`].
    #[must_use]
    pub fn name_index(&self, code: u32) -> Option<u32> {
        self.slots.get(code)
    }

    /// Code of the root agent: owner of the first orchestrator decision, else of the first spawn, else of the first
    /// owned event.
    #[must_use]
    pub fn root(&self) -> Option<u32> {
        self.root
    }
}

fn find(tree: &mut [u32], mut v: u32) -> u32 {
    while tree[v as usize] != v {
        let above = tree[tree[v as usize] as usize];
        tree[v as usize] = above;
        v = above;
    }
    v
}

#[cfg(test)]
mod tests {
    use super::super::test_trace::{NAMES, TestTrace};
    use super::*;
    use crate::schema::EdgeType;
    use EventType::*;

    fn owners(t: &TestTrace) -> Vec<Option<&'static str>> {
        let mut owners = Owners::default();
        owners.compute(&t.view());
        owners.codes().iter().map(|&c| NAMES.get(c as usize).copied()).collect()
    }

    fn rows(t: &TestTrace) -> Vec<AgentRow> {
        let (mut owners, mut rows) = (Owners::default(), Vec::new());
        owners.compute(&t.view());
        owners.agent_rows(&mut rows);
        rows
    }

    #[test]
    fn artifact_example() {
        let t = TestTrace::artifact();
        let (o, p, x) = (Some("orchestrator"), Some("planner_1"), Some("executor_1"));
        assert_eq!(owners(&t), [o, o, o, p, x, x, x, o]);
        let rows = rows(&t);
        let row = |name: &str, kind, role: Option<&str>, parent: Option<&str>, depth, first_seq, n_events| {
            AgentRow {
                agent: TestTrace::name(name),
                kind,
                role: role.map(TestTrace::role_code),
                parent: parent.map(TestTrace::name),
                depth,
                first_seq,
                n_events,
            }
        };
        assert_eq!(
            rows,
            [
                row("orchestrator", AgentKind::Agent, Some("lead"), None, Some(0), 0, 4),
                row("planner_1", AgentKind::Agent, Some("planner"), o, Some(1), 3, 1),
                row("executor_1", AgentKind::Agent, Some("executor"), o, Some(1), 4, 3),
                row("browser", AgentKind::Tool, None, None, None, 5, 1),
            ]
        );
    }

    #[test]
    fn users_and_interventions_own_nothing() {
        let mut t = TestTrace::default();
        t.event(Message, "user").event(HumanIntervention, "boss").event(ToolCall, "user").tool("web");
        t.event(ToolResult, "browser").tool("web").event(Message, "a").event(ToolResult, "user");
        assert_eq!(owners(&t), [None, None, None, None, Some("a"), None]);
        let kinds: Vec<_> = rows(&t).iter().map(|r| (r.kind, r.n_events, r.depth)).collect();
        let user = |n| (AgentKind::User, n, None);
        assert_eq!(kinds, [user(3), user(1), (AgentKind::Tool, 1, None), (AgentKind::Agent, 1, Some(0))]);
    }

    #[test]
    fn results_belong_to_their_call() {
        let mut t = TestTrace::default();
        t.event(ToolCall, "a")
            .tool("web")
            .event(ToolCall, "b")
            .tool("web")
            .event(ToolCall, "c")
            .tool("shell");
        t.event(ToolResult, "browser").tool("web"); // last earlier call of the tool: b's
        t.event(ToolResult, "browser").tool("web").edge(0, 4, EdgeType::Causal).edge(2, 4, EdgeType::Return);
        t.event(ToolResult, "a").tool("web"); // acts elsewhere: keeps it
        t.event(ToolResult, "browser").tool("other"); // no call of that tool
        t.event(ToolResult, "browser").edge(7, 0, EdgeType::Causal); // no tool, wrong direction
        assert_eq!(owners(&t)[3..], [Some("b"), Some("c"), Some("a"), None, None]);
        let mut o = Owners::default();
        o.compute(&t.view());
        assert_eq!(o.calls()[3..], [1, 2, 1, NOBODY, NOBODY]);
    }

    #[test]
    fn earlier_and_last_are_canonical() {
        let mut t = TestTrace::default();
        t.event(ToolResult, "browser").tool("web").at(5.0);
        t.event(ToolCall, "b").tool("web").at(2.0).event(ToolCall, "a").tool("web").at(1.0);
        t.event(ToolCall, "c").tool("web").at(9.0);
        assert_eq!(owners(&t)[0], Some("b"));
    }

    #[test]
    fn root_prefers_decisions_then_spawns() {
        let mut t = TestTrace::default();
        t.event(Message, "a").event(Spawn, "b").to("c");
        let root = |t: &TestTrace| {
            let mut o = Owners::default();
            o.compute(&t.view());
            o.root().map(|c| NAMES[c as usize])
        };
        assert_eq!(root(&t), Some("b"));
        t.event(OrchestratorDecision, "c");
        assert_eq!(root(&t), Some("c"));
        t.event(OrchestratorDecision, "d").at(-1.0);
        assert_eq!(root(&t), Some("d"));
        let mut plain = TestTrace::default();
        plain.event(HumanIntervention, "boss").event(Message, "a");
        assert_eq!(root(&plain), Some("a"));
        assert_eq!(root(&TestTrace::default()), None);
    }

    #[test]
    fn spawn_forest_ignores_loops_and_later_spawns() {
        let mut t = TestTrace::default();
        t.event(OrchestratorDecision, "a");
        t.event(Spawn, "b").to("c").event(Spawn, "c").to("b"); // the second closes a loop
        t.event(Spawn, "b").to("b").event(Spawn, "c").to("a"); // itself; the root
        t.event(Spawn, "a").to("b").event(Spawn, "a").to("c"); // b joins now; c has a parent
        t.event(Spawn, "c").to("d").event(Message, "d").event(Spawn, "d").to("nobody");
        let got: Vec<_> = rows(&t)
            .iter()
            .map(|r| (NAMES[r.agent as usize], r.parent.map(|p| NAMES[p as usize]), r.depth))
            .collect();
        assert_eq!(
            got,
            [
                ("a", None, Some(0)),
                ("b", Some("a"), Some(1)),
                ("c", Some("b"), Some(2)),
                ("d", Some("c"), Some(3))
            ]
        );
    }

    #[test]
    fn roles_come_from_own_events_then_spawns() {
        let mut t = TestTrace::default();
        t.event(Spawn, "a").role("planner").to("b").event(Spawn, "a").role("critic").to("b");
        t.event(Spawn, "a").role("lead").to("c").event(Message, "b").event(Message, "c").role("executor");
        let roles: Vec<_> = rows(&t).iter().map(|r| r.role).collect();
        assert_eq!(
            roles,
            ["", "planner", "executor"].map(|r| (!r.is_empty()).then(|| TestTrace::role_code(r)))
        );
    }

    #[test]
    fn thousands_of_agents_in_a_chain() {
        let mut t = TestTrace::default();
        for v in 0..3000_u32 {
            t.event_of(Spawn, 100 + v).addressed_to(101 + v);
        }
        let rows = rows(&t);
        assert_eq!(rows.len(), 3000);
        assert!(rows.iter().enumerate().all(|(i, r)| r.depth == Some(i as u32)));
    }
}
