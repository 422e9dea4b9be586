//! The closure of untrusted content over the edges that carry it (D17).
//!
//! ```text
//! seeds      events with trusted = false, results of tools that are named untrusted; but for results of tools that are
//!            named trusted and not untrusted
//! barriers   sanitizer = true, human interventions, events of agents that are allowed: never tainted, seeds or not
//! tainted    a seed, or an event with a tainted predecessor over an edge that carries, unless it is a barrier
//! p(v) = (1 - (1 - s_v) Π (1 - t p(u))) · (leak where v is a barrier),   s_v = 1 at seeds
//! ```
//!
//! `all` carries over every edge type but temporal, `context` over temporal ones, too: what an agent saw stays in its
//! context. `safety_flow` carries over the edges alone that say so: a lower bound where these were drawn because a text
//! was found again, and none where they follow contexts (finding `safety.conservative`). p takes ways as independent of
//! each other; with t = 1 and leak = 0 it is the closure. One pass in topological order, O(|V|+|E|). References: D. E.
//! Denning, A lattice model of secure information flow, CACM 19(5), 1976; arXiv 2605.02801, section 6 (P12, P14).

use crate::error::{Error, Reason, Result, unknown_name};
use crate::graph::order::canonical_cmp;
use crate::graph::program::ProgramOrder;
use crate::graph::{CsrGraph, NOBODY, Order, Outcome, Owners};
use crate::schema::{EdgeType, EventType};
use crate::store::view::TraceView;

/// The edges that carry taint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Carry {
    /// Every type but temporal.
    #[default]
    All,
    /// Temporal ones, too.
    Context,
    /// Safety flows alone.
    SafetyFlow,
}

impl Carry {
    /// Names, as options spell them.
    pub const NAMES: &'static [&'static str] = &["all", "context", "safety_flow"];

    /// The word's meaning; the error names the nearest one.
    pub fn parse(word: &str) -> Result<Self> {
        match word {
            "all" => Ok(Self::All),
            "context" => Ok(Self::Context),
            "safety_flow" => Ok(Self::SafetyFlow),
            _ => Err(Error::Parameter(unknown_name("word for carry", word, Self::NAMES))),
        }
    }

    fn takes(self, kind: u8) -> bool {
        match self {
            Self::All => kind != EdgeType::Temporal as u8,
            Self::Context => true,
            Self::SafetyFlow => kind == EdgeType::SafetyFlow as u8,
        }
    }
}

/// Tools by name: codes of the store, ascending.
#[derive(Debug, Clone, Default)]
pub struct Named {
    /// As the tools of events.
    pub tools: Vec<u32>,
    /// As the agents of results that have no field `tool`.
    pub agents: Vec<u32>,
    /// Whether any was named, be it that this store has none of them.
    pub any: bool,
}

impl Named {
    /// Whether the tool of an event is one of them.
    pub(super) fn has(&self, view: &TraceView<'_>, v: usize) -> bool {
        match view.tool.get(v) {
            Some(tool) => self.tools.binary_search(&tool).is_ok(),
            None => self.agents.binary_search(&view.agent[v]).is_ok(),
        }
    }
}

/// The caller's statements about tools, which override the recording.
#[derive(Debug, Clone, Default)]
pub struct Tools {
    /// Their results are untrusted.
    pub untrusted: Named,
    /// Their results are trusted, unless they are untrusted, too.
    pub trusted: Named,
    /// Calls of them are privileged.
    pub privileged: Named,
}

impl Tools {
    /// Whether an event is one at which taint begins.
    fn begins(&self, view: &TraceView<'_>, v: usize) -> bool {
        let untrusted = view.trusted.get(v) == Some(false);
        if view.types[v] != EventType::ToolResult as u8 || !self.tell_trust() {
            return untrusted;
        }
        self.untrusted.has(view, v) || untrusted && !self.trusted.has(view, v)
    }

    /// Whether trust is known without the field.
    fn tell_trust(&self) -> bool {
        self.untrusted.any || self.trusted.any
    }

    /// Whether an event is a privileged call.
    #[must_use]
    pub fn is_privileged_call(&self, view: &TraceView<'_>, v: usize) -> bool {
        view.types[v] == EventType::ToolCall as u8
            && (view.privileged.get(v) == Some(true)
                || view.tool.get(v).is_some_and(|tool| self.privileged.tools.binary_search(&tool).is_ok()))
    }
}

/// Sources, carriers and barriers of taint. Names are codes of the store, ascending.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Which edges carry.
    pub carry: Carry,
    /// Statements about tools.
    pub tools: Tools,
    /// Agents whose events are never tainted.
    pub allow: Vec<u32>,
    /// Join consecutive events of one owner by temporal edges (D3).
    pub program_order: bool,
}

/// A trace and what is derived from it.
#[derive(Debug, Clone, Copy)]
pub struct Scene<'a> {
    /// Its columns.
    pub view: &'a TraceView<'a>,
    /// Its owners.
    pub owners: &'a Owners,
    /// Its graph with all edges, successors known; program order included where the rules ask for it.
    pub graph: &'a CsrGraph,
    /// A topological order of it.
    pub order: Order<'a>,
    /// Its outcome, or why it is not known.
    pub outcome: std::result::Result<Outcome, Reason>,
}

impl Scene<'_> {
    /// Calls `tell` with every event, in topological order.
    #[inline]
    pub(super) fn forward(&self, mut visit: impl FnMut(usize)) {
        match self.order {
            Order::Document(n) => (0..n).for_each(visit),
            Order::Listed(rows) => rows.iter().for_each(|&v| visit(v as usize)),
        }
    }

    /// Calls `tell` with every event, successors first.
    #[inline]
    pub(super) fn backward(&self, mut visit: impl FnMut(usize)) {
        match self.order {
            Order::Document(n) => (0..n).rev().for_each(visit),
            Order::Listed(rows) => rows.iter().rev().for_each(|&v| visit(v as usize)),
        }
    }

    /// The events that are the outcome: one, or all sinks; none where it is not known.
    pub(super) fn ends(&self) -> impl Iterator<Item = usize> + '_ {
        let (from, to) = match self.outcome {
            Ok(Outcome::Event(y)) => (y as usize, y as usize + 1),
            Ok(Outcome::VirtualSink) => (0, self.graph.len()),
            Err(_) => (0, 0),
        };
        let virtual_sink = self.outcome == Ok(Outcome::VirtualSink);
        (from..to).filter(move |&v| !virtual_sink || self.graph.successors_of(v).is_empty())
    }
}

/// Counts of a closure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Events with trusted = false.
    pub untrusted: u32,
    /// Events of which nothing is known.
    pub unknown: u32,
    /// Events that taint begins at, barriers left out.
    pub seeds: u32,
    /// Tainted events, seeds included.
    pub tainted: u32,
    /// Edges that carry from one tainted event to another; those of the same ends are one.
    pub edges: u32,
    /// Such edges between two agents that share a sandbox.
    pub violations: u32,
    /// Such edges that lead from one sandbox into another.
    pub crossings: u32,
}

/// What an event is to taint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Plain,
    Seed,
    Barrier,
    /// A barrier that would be a seed.
    Stopped,
}

/// What is tainted in one trace; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct Taint {
    parts: Vec<Part>,
    hops: Vec<u32>,
    from: Vec<u32>,
    source: Vec<u32>,
    tally: Tally,
    /// Seeds, those at barriers included: they leak, too.
    begins: u32,
    sandboxed: bool,
    carried: CsrGraph,
    program: ProgramOrder,
    src: Vec<u32>,
    dst: Vec<u32>,
    kinds: Vec<u8>,
    p: Vec<f64>,
    reached: Vec<bool>,
}

impl Taint {
    /// Finds seeds and barriers alone: what is known without an order of the events.
    pub fn look(&mut self, view: &TraceView<'_>, owners: &Owners, rules: &Rules) -> Tally {
        let mut tally = Tally::default();
        self.parts.clear();
        self.begins = 0;
        for v in 0..view.len() {
            let trusted = view.trusted.get(v);
            tally.untrusted += u32::from(trusted == Some(false));
            tally.unknown += u32::from(trusted.is_none());
            let seed = rules.tools.begins(view, v);
            let barrier = view.types[v] == EventType::HumanIntervention as u8
                || view.sanitizer.get(v) == Some(true)
                || rules.allow.binary_search(&owners.codes()[v]).is_ok();
            tally.seeds += u32::from(seed && !barrier);
            self.begins += u32::from(seed);
            self.parts.push(match (seed, barrier) {
                (false, false) => Part::Plain,
                (true, false) => Part::Seed,
                (false, true) => Part::Barrier,
                (true, true) => Part::Stopped,
            });
        }
        self.tally = tally;
        tally
    }

    /// The closure of a trace, or the reason why it has none: nothing says what is trusted.
    pub fn compute(&mut self, scene: &Scene<'_>, rules: &Rules) -> std::result::Result<Tally, Reason> {
        let view = scene.view;
        let seen = self.look(view, scene.owners, rules);
        if seen.unknown as usize == view.len() && !rules.tools.tell_trust() {
            return Err(Reason::FieldAbsent);
        }
        self.close(scene, rules);
        Ok(self.tally)
    }

    fn close(&mut self, scene: &Scene<'_>, rules: &Rules) {
        let view = scene.view;
        for column in [&mut self.hops, &mut self.from, &mut self.source] {
            column.clear();
            column.resize(view.len(), NOBODY);
        }
        self.sandboxed = (0..view.len()).any(|v| view.sandbox_id.get(v).is_some());
        if self.begins == 0 {
            return;
        }
        self.build(scene, rules);
        let Self { parts, hops, from, source, tally, sandboxed, carried, .. } = self;
        let sandbox = |v: usize| view.sandbox_id.get(v).zip(Some(scene.owners.codes()[v]));
        scene.forward(|v| {
            if matches!(parts[v], Part::Barrier | Part::Stopped) {
                return;
            }
            let (mut near, mut edges) = (NOBODY, 0);
            for &u in carried.predecessors_of(v) {
                if hops[u as usize] == NOBODY {
                    continue;
                }
                edges += 1;
                let closer = near == NOBODY
                    || hops[u as usize]
                        .cmp(&hops[near as usize])
                        .then_with(|| canonical_cmp(view.t, u, near))
                        .is_lt();
                near = if closer { u } else { near };
                if *sandboxed
                    && let (Some((ours, owner)), Some((theirs, other))) = (sandbox(v), sandbox(u as usize))
                {
                    let owned = owner != NOBODY && other != NOBODY;
                    tally.violations += u32::from(ours == theirs && owned && owner != other);
                    tally.crossings += u32::from(ours != theirs);
                }
            }
            if parts[v] == Part::Seed {
                (hops[v], source[v]) = (0, v as u32);
            } else if near != NOBODY {
                (hops[v], from[v]) = (hops[near as usize] + 1, near);
                source[v] = source[near as usize];
            } else {
                return;
            }
            tally.tainted += 1;
            tally.edges += edges;
        });
    }

    /// The edges that carry.
    fn build(&mut self, scene: &Scene<'_>, rules: &Rules) {
        let Self { carried, program, src, dst, kinds, .. } = self;
        let view = scene.view;
        let with_program = rules.program_order && rules.carry == Carry::Context;
        let program = if with_program { program.compute(view, scene.owners) } else { &[][..] };
        if rules.carry == Carry::Context {
            carried.build(view, program, None);
            return;
        }
        src.clear();
        dst.clear();
        kinds.clear();
        for ((&s, &d), &kind) in view.src.iter().zip(view.dst).zip(view.edge_types) {
            if rules.carry.takes(kind) {
                src.push(s);
                dst.push(d);
                kinds.push(kind);
            }
        }
        carried.build(&TraceView { src, dst, edge_types: kinds, owned: None, ..*view }, program, None);
    }

    /// What the last closure counted.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// Whether an event is tainted.
    #[must_use]
    #[inline]
    pub fn is_tainted(&self, v: usize) -> bool {
        self.hops[v] != NOBODY
    }

    /// Whether taint begins at an event.
    #[must_use]
    #[inline]
    pub fn is_seed(&self, v: usize) -> bool {
        self.parts[v] == Part::Seed
    }

    /// Edges from the nearest seed to an event.
    #[must_use]
    pub fn hops(&self, v: usize) -> Option<u32> {
        Some(self.hops[v]).filter(|&hops| hops != NOBODY)
    }

    /// The event before on a shortest path from a seed; of several the first in canonical order.
    #[must_use]
    pub fn before(&self, v: usize) -> Option<u32> {
        Some(self.from[v]).filter(|&from| from != NOBODY)
    }

    /// The seed that a shortest path to an event begins at, the one by way of [`Self::before`].
    #[must_use]
    pub fn source(&self, v: usize) -> Option<u32> {
        Some(self.source[v]).filter(|&source| source != NOBODY)
    }

    /// Whether some event of the trace names its sandbox.
    #[must_use]
    pub fn is_sandboxed(&self) -> bool {
        self.sandboxed
    }

    /// Mean number of tainted events that a tainted one leads to.
    pub fn spread(&self) -> std::result::Result<f64, Reason> {
        match self.tally.tainted {
            0 => Err(Reason::RatioEmpty),
            n => Ok(f64::from(self.tally.edges) / f64::from(n)),
        }
    }

    /// Whether the outcome is tainted; a virtual one is where some sink is. The reason where it is not known.
    pub fn reaches_outcome(&self, scene: &Scene<'_>) -> std::result::Result<bool, Reason> {
        scene.outcome.map(|_| self.tally.tainted > 0 && scene.ends().any(|v| self.is_tainted(v)))
    }

    /// The edges that carried in the last closure; of a trace with seeds.
    pub(super) fn carried(&self) -> &CsrGraph {
        &self.carried
    }

    /// Appends the shortest path from a seed to a tainted event, both included.
    pub fn path(&self, to: u32, out: &mut Vec<u32>) {
        let from = out.len();
        out.extend(std::iter::successors(Some(to), |&v| self.before(v as usize)));
        out[from..].reverse();
    }

    /// Seeds from which the outcome is reached; the reason where that is not known.
    pub fn seeds_to_outcome(&mut self, scene: &Scene<'_>) -> std::result::Result<u32, Reason> {
        if !self.reaches_outcome(scene)? {
            return Ok(0);
        }
        let mut reached = std::mem::take(&mut self.reached);
        self.leading(scene, &mut reached);
        let seeds = reached.iter().zip(&self.parts).filter(|&(&r, &part)| r && part == Part::Seed).count();
        self.reached = reached;
        Ok(seeds as u32)
    }

    /// Marks the tainted events from which tainted ones lead to the outcome.
    pub(super) fn leading(&self, scene: &Scene<'_>, out: &mut Vec<bool>) {
        out.clear();
        out.resize(scene.graph.len(), false);
        scene.ends().filter(|&v| self.is_tainted(v)).for_each(|v| out[v] = true);
        scene.backward(|v| {
            if out[v] {
                for &u in self.carried.predecessors_of(v) {
                    out[u as usize] |= self.is_tainted(u as usize);
                }
            }
        });
    }

    /// The chance of each event to be tainted, after [`Self::compute`], and that of the outcome where it is known.
    pub fn risk(&mut self, scene: &Scene<'_>, risk: Risk) -> (&[f64], Option<f64>) {
        let Self { parts, p, carried, begins, .. } = self;
        p.clear();
        p.resize(scene.graph.len(), 0.0);
        if *begins > 0 {
            scene.forward(|v| {
                let begins = matches!(parts[v], Part::Seed | Part::Stopped);
                let escapes = |all: f64, &u: &u32| all * (1.0 - risk.transmission * p[u as usize]);
                let clean = if begins { 0.0 } else { carried.predecessors_of(v).iter().fold(1.0, escapes) };
                let stops = matches!(parts[v], Part::Barrier | Part::Stopped);
                p[v] = (1.0 - clean) * if stops { risk.leak } else { 1.0 };
            });
        }
        let outcome = scene.outcome.ok().map(|outcome| match outcome {
            Outcome::Event(y) => p[y as usize],
            Outcome::VirtualSink => 1.0 - scene.ends().fold(1.0, |clean, v| clean * (1.0 - p[v])),
        });
        (&self.p, outcome)
    }
}

/// Probabilities that taint crosses an edge or a barrier.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Risk {
    /// t: the chance that an edge carries.
    pub transmission: f64,
    /// The chance that a barrier lets through what arrives.
    pub leak: f64,
}

impl Risk {
    /// Refuses what are no probabilities.
    pub fn check(self) -> Result<()> {
        for (name, value) in [("t", self.transmission), ("leak", self.leak)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(Error::Parameter(format!(
                    "probabilistic has {name}={value}, expected a probability from 0 to 1"
                )));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::graph::test_trace::{TestTrace, random_trace};
    use crate::graph::{Topological, outcome};
    use proptest::prelude::*;

    pub(crate) fn rules() -> Rules {
        Rules::default()
    }

    /// Calls `look` with the closure of a trace without cycles.
    pub(crate) fn closed<T>(
        t: &TestTrace,
        rules: &Rules,
        look: impl FnOnce(&mut Taint, &Scene<'_>) -> T,
    ) -> T {
        let (view, mut owners, mut graph) = (t.view(), Owners::default(), CsrGraph::default());
        owners.compute(&view);
        let (mut program, mut topological) = (ProgramOrder::default(), Topological::default());
        let drawn = if rules.program_order { program.compute(&view, &owners) } else { &[][..] };
        graph.build(&view, drawn, None);
        graph.build_successors();
        let order = topological.any(&mut graph).expect("no cycle");
        let outcome = outcome::outcome(&view, &owners);
        let scene = Scene { view: &view, owners: &owners, graph: &graph, order, outcome };
        let mut taint = Taint::default();
        warm(&mut taint);
        taint.compute(&scene, rules).expect("trust is recorded");
        look(&mut taint, &scene)
    }

    /// What another trace leaves in the buffers must not show through.
    fn warm(taint: &mut Taint) {
        let mut other = TestTrace::events(3);
        other.trusted(false).edge(2, 1, EdgeType::Causal);
        let (view, mut owners, mut graph) = (other.view(), Owners::default(), CsrGraph::default());
        owners.compute(&view);
        graph.build(&view, &[], None);
        graph.build_successors();
        let mut topological = Topological::default();
        let order = topological.any(&mut graph).expect("no cycle");
        let scene =
            Scene { view: &view, owners: &owners, graph: &graph, order, outcome: Ok(Outcome::VirtualSink) };
        taint.compute(&scene, &rules()).expect("trust is recorded");
    }

    fn set(taint: &Taint, n: usize) -> Vec<usize> {
        (0..n).filter(|&v| taint.is_tainted(v)).collect()
    }

    /// The artifact's example, whose event e6 is not trusted.
    fn artifact() -> TestTrace {
        let mut t = TestTrace::artifact();
        t.flag_trusted(5, false);
        t
    }

    #[test]
    fn artifact_example() {
        closed(&artifact(), &rules(), |taint, scene| {
            assert_eq!(set(taint, 8), [5, 6, 7]);
            assert_eq!(taint.reaches_outcome(scene), Ok(true));
            let tally = Tally {
                untrusted: 1,
                unknown: 7,
                seeds: 1,
                tainted: 3,
                edges: 2,
                violations: 0,
                crossings: 0,
            };
            assert_eq!(taint.tally(), tally);
            assert_eq!(taint.spread(), Ok(2.0 / 3.0));
            let mut path = Vec::new();
            taint.path(7, &mut path);
            assert_eq!((path, taint.hops(7), taint.hops(0)), (vec![5, 6, 7], Some(2), None));
            assert_eq!(taint.seeds_to_outcome(scene), Ok(1));
        });
    }

    #[test]
    fn without_trust_there_is_no_closure_unless_a_tool_is_named() {
        let t = TestTrace::artifact();
        let view = t.view();
        let mut owners = Owners::default();
        owners.compute(&view);
        let mut taint = Taint::default();
        assert_eq!(taint.look(&view, &owners, &rules()).unknown, 8);
        let web = view.tool.get(5).unwrap();
        let named_by = |tools, agents| Named { tools, agents, any: true };
        let untrusted = |named| Rules { tools: Tools { untrusted: named, ..Tools::default() }, ..rules() };
        let named = untrusted(named_by(vec![web], vec![]));
        closed(&t, &named, |taint, _| assert_eq!(set(taint, 8), [5, 6, 7]));
        // the name of the tool alone, as the agent of a result
        let browser = untrusted(named_by(vec![], vec![TestTrace::name("browser")]));
        closed(&t, &browser, |taint, _| assert_eq!(taint.tally().seeds, 0, "its field `tool` decides"));
    }

    #[test]
    fn a_trusted_tool_returns_nothing_untrusted_unless_it_is_untrusted_too() {
        let t = artifact();
        let web = t.view().tool.get(5).unwrap();
        let named_web = || Named { tools: vec![web], agents: vec![], any: true };
        let tools = |untrusted, trusted| Tools { untrusted, trusted, ..Tools::default() };
        let with = |tools| Rules { tools, ..rules() };
        closed(&t, &with(tools(Named::default(), named_web())), |taint, _| {
            assert_eq!((set(taint, 8), taint.tally().untrusted), (vec![], 1));
        });
        closed(&t, &with(tools(named_web(), named_web())), |taint, _| {
            assert_eq!(set(taint, 8), [5, 6, 7]);
            assert_eq!((taint.source(7), taint.source(5), taint.source(0)), (Some(5), Some(5), None));
        });
        let mut message = TestTrace::events(2);
        message.flag_trusted(0, false);
        closed(&message, &with(tools(Named::default(), Named { any: true, ..named_web() })), |taint, _| {
            assert_eq!(set(taint, 2), [0], "only results are those of a tool");
        });
        // nothing says what is trusted, but that a tool is
        closed(&TestTrace::artifact(), &with(tools(Named::default(), named_web())), |taint, _| {
            assert_eq!(taint.tally().seeds, 0);
        });
    }

    #[test]
    fn carry_says_which_edges() {
        // 0 -temporal-> 1 -safety_flow-> 2 -causal-> 3, seeds 0 and 1
        let mut t = TestTrace::events(4);
        t.edge(0, 3, EdgeType::Temporal).edge(1, 2, EdgeType::SafetyFlow).edge(2, 3, EdgeType::Causal);
        t.flag_trusted(0, false);
        t.flag_trusted(1, false);
        let with = |carry| Rules { carry, ..rules() };
        closed(&t, &with(Carry::All), |taint, _| {
            assert_eq!(set(taint, 4), [0, 1, 2, 3]);
            assert_eq!(taint.before(3), Some(2));
        });
        closed(&t, &with(Carry::Context), |taint, _| assert_eq!(taint.before(3), Some(0)));
        closed(&t, &with(Carry::SafetyFlow), |taint, _| assert_eq!(set(taint, 4), [0, 1, 2]));
        // program order joins 1 to 0's follower only where the context carries
        let order = |carry| Rules { program_order: true, ..with(carry) };
        let mut alone = TestTrace::events(3);
        alone.flag_trusted(0, false);
        closed(&alone, &order(Carry::All), |taint, _| assert_eq!(set(taint, 3), [0]));
        closed(&alone, &order(Carry::Context), |taint, _| assert_eq!(set(taint, 3), [0, 1, 2]));
    }

    #[test]
    fn barriers_are_never_tainted() {
        use EventType::*;
        let mut t = TestTrace::default();
        t.event(Message, "a").trusted(false).event(SafetyEvent, "a").sanitizer();
        t.event(HumanIntervention, "user").trusted(false).event(Message, "b").trusted(false);
        t.event(Return, "c");
        for u in 0..4 {
            t.edge(u, 4, EdgeType::Causal);
        }
        t.edge(0, 1, EdgeType::SafetyFlow).edge(0, 2, EdgeType::Causal).edge(0, 3, EdgeType::Causal);
        closed(&t, &rules(), |taint, _| {
            assert_eq!(set(taint, 5), [0, 3, 4]);
            assert_eq!((taint.tally().seeds, taint.tally().untrusted), (2, 3));
            assert_eq!(taint.before(4), Some(0), "the earlier of two as near");
        });
        let allowed = Rules { allow: vec![TestTrace::name("a"), TestTrace::name("b")], ..rules() };
        closed(&t, &allowed, |taint, scene| {
            assert_eq!(set(taint, 5), [0_usize; 0]);
            assert_eq!(taint.reaches_outcome(scene), Ok(false));
            assert_eq!(taint.spread(), Err(Reason::RatioEmpty));
            // yet each of the four barriers lets some of it through
            let leak = Risk { transmission: 1.0, leak: 0.5 };
            let (p, y) = taint.risk(scene, leak);
            assert_eq!(p, [0.5, 0.25, 0.5, 0.5, 1.0 - 0.5 * 0.75 * 0.5 * 0.5]);
            assert_eq!(y, Some(p[4]));
        });
    }

    #[test]
    fn violations_are_tainted_edges_between_agents_of_one_sandbox() {
        use EventType::*;
        let mut t = TestTrace::default();
        t.event(Message, "a").trusted(false).sandbox("one");
        t.event(Message, "b").sandbox("one").event(Message, "a").sandbox("one");
        t.event(Message, "c").sandbox("two").event(Message, "user").sandbox("one").event(Message, "d");
        for v in 1..6 {
            t.edge(0, v, EdgeType::Message);
        }
        t.edge(1, 2, EdgeType::Causal).edge(1, 2, EdgeType::Message);
        closed(&t, &rules(), |taint, _| {
            // a to b, and b to a, whose two edges are one
            assert_eq!((taint.tally().violations, taint.tally().edges), (2, 6));
            assert!(taint.is_sandboxed());
        });
    }

    #[test]
    fn chances_multiply_along_and_across() {
        // 0 -> 1 -> 3, 0 -> 2 -> 3, 2 a sanitizer
        let mut t = TestTrace::events(4);
        t.edge(0, 1, EdgeType::Causal).edge(0, 2, EdgeType::Causal);
        t.edge(1, 3, EdgeType::Causal).edge(2, 3, EdgeType::Causal);
        t.flag_trusted(0, false);
        t.flag_sanitizer(2);
        closed(&t, &rules(), |taint, scene| {
            let (p, y) = taint.risk(scene, Risk { transmission: 0.5, leak: 0.25 });
            assert_eq!(p, [1.0, 0.5, 0.125, 1.0 - 0.75 * (1.0 - 0.0625)]);
            assert_eq!(y, Some(p[3]), "the virtual outcome is behind the one sink");
        });
        let wrong = |transmission, leak| Risk { transmission, leak }.check().unwrap_err().to_string();
        assert_eq!(wrong(1.5, 0.0), "probabilistic has t=1.5, expected a probability from 0 to 1");
        assert_eq!(wrong(1.0, f64::NAN), "probabilistic has leak=NaN, expected a probability from 0 to 1");
    }

    #[test]
    fn words_are_checked() {
        for (name, carry) in Carry::NAMES.iter().zip([Carry::All, Carry::Context, Carry::SafetyFlow]) {
            assert_eq!(Carry::parse(name).unwrap(), carry);
        }
        let error = Carry::parse("contxt").unwrap_err().to_string();
        assert!(error.contains("did you mean 'context'?"), "{error}");
    }

    proptest! {
        #[test]
        fn closure_is_reachability(mut t in random_trace(14, true), seeds in any::<u16>(), stops in any::<u16>()) {
            let n = t.t.len();
            t.flag_trusted(0, true);
            for v in 0..n {
                if seeds >> v & 1 == 1 { t.flag_trusted(v, false); }
                if stops >> v & 3 == 3 { t.flag_sanitizer(v); }
            }
            let stopped: Vec<bool> = (0..n)
                .map(|v| stops >> v & 3 == 3 || t.types[v] == EventType::HumanIntervention as u8)
                .collect();
            for carry in [Carry::All, Carry::Context, Carry::SafetyFlow] {
                // by squaring nothing: rounds over all edges until nothing changes
                let mut reference: Vec<bool> = (0..n).map(|v| seeds >> v & 1 == 1 && !stopped[v]).collect();
                for _ in 0..n {
                    for e in 0..t.src.len() {
                        let (s, d) = (t.src[e] as usize, t.dst[e] as usize);
                        reference[d] |= reference[s] && !stopped[d] && carry.takes(t.edge_types[e]);
                    }
                }
                closed(&t, &Rules { carry, ..rules() }, |taint, scene| {
                    let tainted: Vec<bool> = (0..n).map(|v| taint.is_tainted(v)).collect();
                    prop_assert_eq!(&tainted, &reference);
                    prop_assert_eq!(taint.tally().tainted as usize, reference.iter().filter(|&&t| t).count());
                    for v in (0..n).filter(|&v| tainted[v]) {
                        let mut path = Vec::new();
                        taint.path(v as u32, &mut path);
                        prop_assert_eq!(path.len() as u32, taint.hops(v).unwrap() + 1);
                        prop_assert!(taint.is_seed(path[0] as usize));
                    }
                    // certain edges and tight barriers are the closure
                    let reached = taint.reaches_outcome(scene);
                    let (p, y) = taint.risk(scene, Risk { transmission: 1.0, leak: 0.0 });
                    let boolean: Vec<f64> = reference.iter().map(|&t| f64::from(u8::from(t))).collect();
                    prop_assert_eq!(p, &boolean[..]);
                    prop_assert_eq!(y, reached.ok().map(|reached| f64::from(u8::from(reached))));
                    Ok(())
                })?;
            }
        }
    }
}
