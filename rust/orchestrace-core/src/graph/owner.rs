//! Owners of events, the root, roles, and the spawn forest (D4, D16).
//!
//! The owner of an event is its `agent`, except that interventions, `user` and those whose role says that they are not
//! of the team (a scorer, an environment, a stand-in for the user) have none, and that a tool result whose `agent` acts
//! nowhere else (it is then a tool's name) belongs to the owner of its call: the last `tool_call` among its
//! predecessors, else the last earlier `tool_call` of the same `tool`. Agents are owners.
//!
//! The root is who heard the task: whom the human addressed, or who spawned that agent, over any number of hops, before it
//! did anything. Where no human speaks it is the owner of the first decision, else of the first spawn, else of the first
//! owned event, or who spawned that one. O(|V| + |E|) for a trace in order of time.

use super::order::{CanonicalOrder, canonical_cmp};
use super::slots::Slots;
use crate::schema::{AgentKind, EventType, Reason};
pub use crate::store::ownership::{Evidence, NOBODY, Name};
use crate::store::ownership::{Outcome, Owned, Trained};
use crate::store::view::TraceView;

/// One row of the table `agents`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgentRow {
    /// Dictionary code of the name.
    pub agent: u32,
    /// What the name stands for.
    pub kind: AgentKind,
    /// Role of an agent.
    pub role: Option<u32>,
    /// Whether the policy of an agent is trained, where its events say so and agree.
    pub trainable: Option<bool>,
    /// Owner of the first spawn that names the agent; none for roots of the spawn forest, tools and users.
    pub parent: Option<u32>,
    /// Hops from the root of the spawn forest; none for tools and users.
    pub depth: Option<u32>,
    /// First event that carries the name.
    pub first_seq: u32,
    /// Events owned, or for what is no agent, events that carry the name.
    pub n_events: u32,
}

/// What spawns say of a name; needed only until its role, parent and the root are known.
#[derive(Debug, Clone, Copy)]
struct Spawned {
    role: u32,
    /// Who spawned it before it did anything.
    by: u32,
    acted: bool,
}

/// Owners of a trace; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct Owners {
    order: CanonicalOrder,
    owner: Vec<u32>,
    index: Vec<u32>,
    call: Vec<u32>,
    names: Vec<Name>,
    spawns: Vec<Spawned>,
    root: Option<u32>,
    evidence: Evidence,
    /// Whom the human addressed, by their positions, in order of hearing; those that were spawned stand for who did.
    heard: Vec<u32>,
    told: Vec<(u32, Option<u32>, u32)>,
    /// By name, whether it is among those whom the human addresses; a buffer.
    seen: Vec<bool>,
    slots: Slots,
    tools: Slots,
    tree: Vec<u32>,
    path: Vec<u32>,
}

impl Owners {
    /// Replaces everything by what `view` says, or by what is stored of it.
    pub fn compute(&mut self, view: &TraceView<'_>) {
        self.order.compute(view.t);
        if let Some(owned) = view.owned {
            return self.restore(owned);
        }
        self.collect_names(view);
        self.find_calls(view);
        self.find_outsiders(view);
        self.assign(view);
        self.find_spawners(view);
        self.find_root(view);
        self.find_roles_and_parents(view);
    }

    fn restore(&mut self, owned: Owned<'_>) {
        let Owned { index, calls, names, heard, root, evidence, outcome: _ } = owned;
        self.slots.begin();
        for (name, at) in names.iter().zip(0..) {
            self.slots.set(name.code, at);
        }
        replace(&mut self.names, names);
        replace(&mut self.index, index);
        replace(&mut self.call, calls);
        replace(&mut self.heard, heard);
        self.owner.clear();
        self.owner.extend(index.iter().map(|&at| names.get(at as usize).map_or(NOBODY, |name| name.code)));
        (self.root, self.evidence) = (root, evidence);
    }

    /// What a store keeps of the trace that was computed last.
    pub(crate) fn stored(&self, outcome: Result<Outcome, Reason>) -> Owned<'_> {
        Owned {
            index: &self.index,
            calls: &self.call,
            names: &self.names,
            heard: &self.heard,
            root: self.root,
            evidence: self.evidence,
            outcome,
        }
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
                    has_results: false,
                    outsider: None,
                    role: NOBODY,
                    parent: NOBODY,
                    trained: Trained::default(),
                });
                at
            });
            let name = &mut self.names[at as usize];
            name.carried += 1;
            let is_result = kind == EventType::ToolResult as u8;
            name.only_results &= is_result && Some(code) != view.user;
            name.has_results |= is_result;
            self.index.push(at);
        }
        self.spawns.clear();
        self.spawns.resize(self.names.len(), Spawned { role: NOBODY, by: NOBODY, acted: false });
    }

    /// Who is not of the team, by the first role that says so.
    fn find_outsiders(&mut self, view: &TraceView<'_>) {
        let user = view.user.and_then(|code| self.slots.get(code));
        if let Some(user) = user {
            self.names[user as usize].outsider = Some(AgentKind::User);
        }
        if !view.has_outsiders() {
            return;
        }
        for &v in self.order.rows() {
            let name = &mut self.names[self.index[v as usize] as usize];
            name.outsider = name.outsider.or_else(|| view.outsider(v as usize));
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
            let name = &self.names[self.index[v] as usize];
            let of_tool = name.only_results || name.outsider == Some(AgentKind::Environment);
            let at =
                if kind == EventType::ToolResult as u8 && of_tool && name.outsider != Some(AgentKind::User) {
                    // Whoever makes a call owns it or nothing.
                    match self.call[v] {
                        NOBODY => NOBODY,
                        call => {
                            let caller = self.slots.get(view.agent[call as usize]).unwrap_or(NOBODY);
                            let outside =
                                self.names.get(caller as usize).is_none_or(|n| n.outsider.is_some());
                            if outside { NOBODY } else { caller }
                        }
                    }
                } else if kind == EventType::HumanIntervention as u8 || name.outsider.is_some() {
                    NOBODY
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
                let spawned = &mut self.spawns[child as usize];
                if spawned.role == NOBODY {
                    spawned.role = role.unwrap_or(NOBODY);
                }
                let name = &mut self.names[child as usize];
                let may_join = name.is_agent() && name.parent == NOBODY && Some(child) != root;
                if may_join && spawner != NOBODY && find(&mut self.tree, spawner) != child {
                    name.parent = spawner;
                    self.tree[child as usize] = spawner;
                }
            } else if kind != EventType::Despawn as u8 && self.owner[i] == view.agent[i] {
                let name = &mut self.names[self.index[i] as usize];
                if name.role == NOBODY {
                    name.role = view.role.get(i).unwrap_or(NOBODY);
                }
                name.trained = name.trained.and(view.trainable.get(i));
            }
        }
        for (name, spawned) in self.names.iter_mut().zip(&self.spawns) {
            if name.role == NOBODY {
                name.role = spawned.role;
            }
        }
    }

    /// Who spawned whom before that one did anything. Whoever spawns has acted, so that there are no loops.
    fn find_spawners(&mut self, view: &TraceView<'_>) {
        if !view.types.contains(&(EventType::Spawn as u8)) {
            return;
        }
        for &v in self.order.rows() {
            let owner = self.index[v as usize];
            if let Some(spawned) = self.spawns.get_mut(owner as usize) {
                spawned.acted = true;
            }
            let child = (view.types[v as usize] == EventType::Spawn as u8)
                .then(|| view.to.get(v as usize).and_then(|to| self.slots.get(to)))
                .flatten();
            if let Some(child) = child.map(|child| &mut self.spawns[child as usize])
                && !child.acted
                && child.by == NOBODY
            {
                child.by = owner;
            }
        }
    }

    /// Whom an agent works for, over any number of hops: itself where nobody spawned it.
    fn ancestor(&mut self, mut at: u32) -> u32 {
        while self.spawns[at as usize].by != NOBODY {
            let above = self.spawns[at as usize].by;
            // ways are halved, so that long chains are climbed once
            let next = self.spawns[above as usize].by;
            if next != NOBODY {
                self.spawns[at as usize].by = next;
            }
            at = above;
        }
        at
    }

    fn find_root(&mut self, view: &TraceView<'_>) {
        self.find_heard(view);
        let first = |kind: Option<EventType>| {
            let wanted = |v: u32| kind.is_none_or(|kind| view.types[v as usize] == kind as u8);
            let mut rows = self.order.rows().iter();
            rows.find(|&&v| self.index[v as usize] != NOBODY && wanted(v)).map(|&v| self.index[v as usize])
        };
        let leads = || first(Some(EventType::OrchestratorDecision)).or_else(|| first(Some(EventType::Spawn)));
        let (found, evidence) = match self.heard[..] {
            [] => leads().map_or_else(|| (first(None), Evidence::First), |at| (Some(at), Evidence::Leads)),
            [only] => (Some(only), Evidence::Heard),
            [first, ..] => (Some(first), Evidence::Divided),
        };
        self.evidence = evidence;
        let root = found.map(|at| self.ancestor(at));
        self.root = root.map(|at| self.names[at as usize].code);
    }

    /// Whom the human addresses: by name, or by an edge.
    fn find_heard(&mut self, view: &TraceView<'_>) {
        self.heard.clear();
        let mut heard = std::mem::take(&mut self.told);
        heard.clear();
        let is_human = |v: usize| {
            view.types[v] == EventType::HumanIntervention as u8
                || self.slots.get(view.agent[v]).is_some_and(|at| self.is_user(at))
        };
        let is_user = |name: &Name| name.outsider == Some(AgentKind::User);
        if view.types.contains(&(EventType::HumanIntervention as u8)) || self.names.iter().any(is_user) {
            for (&s, &d) in view.src.iter().zip(view.dst) {
                if is_human(s as usize) && self.index[d as usize] != NOBODY {
                    heard.push((s, Some(d), self.index[d as usize]));
                }
            }
            for v in (0..view.len()).filter(|&v| is_human(v)) {
                let to = view.to.get(v).and_then(|to| self.slots.get(to));
                heard.extend(
                    to.filter(|&to| self.names[to as usize].is_agent()).map(|to| (v as u32, None, to)),
                );
            }
        }
        // The order in which a table lists its edges says nothing: those of one event go by where they lead.
        heard.sort_by(|a, b| {
            canonical_cmp(view.t, a.0, b.0).then_with(|| match (a.1, b.1) {
                (Some(a), Some(b)) => canonical_cmp(view.t, a, b),
                (a, b) => a.is_none().cmp(&b.is_none()),
            })
        });
        self.seen.clear();
        self.seen.resize(self.names.len(), false);
        for &(_, _, at) in &heard {
            let at = self.ancestor(at);
            if !std::mem::replace(&mut self.seen[at as usize], true) {
                self.heard.push(at);
            }
        }
        self.told = heard;
    }

    /// Whether a position is that of the user, or of a stand-in.
    fn is_user(&self, at: u32) -> bool {
        self.names[at as usize].outsider == Some(AgentKind::User)
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
            out.push(AgentRow {
                agent: name.code,
                kind: name.kind(),
                role: name.role().filter(|_| agent),
                trainable: name.trainable().filter(|_| agent),
                parent: self.names.get(name.parent as usize).map(|parent| parent.code),
                depth: agent.then_some(depth),
                first_seq: name.first_seq,
                n_events: if agent { name.owned } else { name.carried },
            });
        }
    }
}

impl Owners {
    /// Whether an event is of an agent whose policy is known to be trained.
    #[must_use]
    pub fn is_trained(&self, event: usize) -> bool {
        self.names.get(self.index[event] as usize).and_then(Name::trainable) == Some(true)
    }

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

    /// Code of the root agent: who heard the task.
    #[must_use]
    pub fn root(&self) -> Option<u32> {
        self.root
    }

    /// The evidence by which the root was found.
    #[must_use]
    pub fn evidence(&self) -> Evidence {
        self.evidence
    }

    /// Positions in [`Self::names`] of those whom the human addressed, in order of hearing; who was spawned stands for
    /// who spawned it.
    #[must_use]
    pub fn heard(&self) -> &[u32] {
        &self.heard
    }

    /// What an event's bearer is where that is not of the team; of an intervention a human.
    #[must_use]
    #[inline]
    pub fn outsider(&self, view: &TraceView<'_>, v: usize) -> Option<AgentKind> {
        if view.types[v] == EventType::HumanIntervention as u8 {
            return Some(AgentKind::User);
        }
        self.slots.get(view.agent[v]).and_then(|at| self.names[at as usize].outsider)
    }

    /// Tokens of an event that are spent on the team's work (D18): none of those who are not of it.
    #[must_use]
    #[inline]
    pub fn tokens(&self, view: &TraceView<'_>, v: usize) -> Option<i64> {
        view.tokens.get(v).filter(|_| self.outsider(view, v).is_none())
    }

    /// Price of an event that is paid for the team's work, likewise.
    #[must_use]
    #[inline]
    pub fn cost_usd(&self, view: &TraceView<'_>, v: usize) -> Option<f64> {
        view.cost_usd.get(v).filter(|_| self.outsider(view, v).is_none())
    }

    /// Whether a name is not of the team: the user, a stand-in, a scorer, an environment. The user may be named and say
    /// nothing.
    #[must_use]
    pub fn is_outside(&self, view: &TraceView<'_>, code: u32) -> bool {
        let is_outsider =
            || self.slots.get(code).is_some_and(|at| self.names[at as usize].outsider.is_some());
        Some(code) == view.user || is_outsider()
    }

    /// Whether a name is that of the user, or of a stand-in.
    #[must_use]
    pub fn is_user_name(&self, view: &TraceView<'_>, code: u32) -> bool {
        Some(code) == view.user || self.slots.get(code).is_some_and(|at| self.is_user(at))
    }
}

fn replace<T: Clone>(buffer: &mut Vec<T>, by: &[T]) {
    buffer.clear();
    buffer.extend_from_slice(by);
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
    use super::super::outcome::outcome;
    use super::super::test_trace::{NAMES, TestTrace, random_trace};
    use super::*;
    use crate::schema::EdgeType;
    use crate::store::ownership::Ownership;
    use EventType::*;
    use proptest::prelude::*;

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
                trainable: None,
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
        assert_eq!(root(&t), Some("b"), "who spawned the one that decides leads it");
        t.event(OrchestratorDecision, "d").at(-1.0);
        assert_eq!(root(&t), Some("d"));
        // whom the human addresses, before who decides
        t.event(HumanIntervention, "boss").to("a");
        assert_eq!(root(&t), Some("a"));
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
    fn an_agent_is_trained_if_its_events_say_so_and_agree() {
        let mut t = TestTrace::default();
        t.event(Spawn, "a").trainable(true).to("b").event(Message, "b").event(Message, "a").trainable(false);
        t.event(Message, "c").trainable(true).event(Message, "c").event(Message, "d").trainable(true);
        t.event(Message, "d").trainable(false);
        let trained: Vec<_> = rows(&t).iter().map(|r| r.trainable).collect();
        assert_eq!(trained, [Some(false), None, Some(true), None], "spawns are of whom they concern");
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

    proptest! {
        #[test]
        fn what_is_stored_is_what_is_computed(
            traces in prop::collection::vec((random_trace(12, false), any::<bool>()), 1..5),
        ) {
            let mut owners = Owners::default();
            let mut ownership = Ownership::default();
            for (t, _) in &traces {
                owners.compute(&t.view());
                ownership.push(owners.stored(outcome(&t.view(), &owners)));
            }
            let keep: Vec<bool> = traces.iter().map(|(_, keep)| *keep).collect();
            let filtered = ownership.filter(&keep);
            let (mut stored, mut rows, mut expected) = (Owners::default(), Vec::new(), Vec::new());
            for (i, (t, _)) in traces.iter().filter(|(_, keep)| *keep).enumerate() {
                owners.compute(&t.view());
                let view = TraceView { owned: Some(filtered.trace(i)), ..t.view() };
                stored.compute(&view);
                prop_assert_eq!(stored.codes(), owners.codes());
                prop_assert_eq!(stored.indices(), owners.indices());
                prop_assert_eq!(stored.calls(), owners.calls());
                prop_assert_eq!(stored.names(), owners.names());
                prop_assert_eq!(stored.heard(), owners.heard());
                prop_assert_eq!(stored.order().rows(), owners.order().rows());
                prop_assert_eq!((stored.root(), stored.evidence()), (owners.root(), owners.evidence()));
                for code in 0..NAMES.len() as u32 {
                    prop_assert_eq!(stored.name_index(code), owners.name_index(code));
                }
                prop_assert_eq!(outcome(&view, &stored), outcome(&t.view(), &owners));
                stored.agent_rows(&mut rows);
                owners.agent_rows(&mut expected);
                prop_assert_eq!(&rows, &expected);
            }
        }
    }
}
