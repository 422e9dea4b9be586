//! Traces written by hand, for tests.

use std::sync::Arc;

use arrow_array::{BooleanArray, StringViewArray};
use arrow_buffer::NullBuffer;
use proptest::prelude::*;

use super::trace::TraceGraph;
use crate::schema::{AgentKind, EdgeType, EventType, Topology};
use crate::store::view::{Flags, Nullable, Texts, TraceView};

/// The agent dictionary.
pub(crate) const NAMES: &[&str] =
    &["orchestrator", "planner_1", "executor_1", "browser", "user", "a", "b", "c", "d", "boss", "nobody"];
/// The role dictionary.
pub(crate) const ROLES: &[&str] = &["lead", "planner", "executor", "critic", "user", "scorer", "environment"];
const TOOLS: &[&str] = &["web", "shell", "other"];

/// A nullable column: values, and nulls beside them.
#[derive(Debug, Clone)]
struct Cells<T> {
    values: Vec<T>,
    nulls: NullBuffer,
}

impl<T: Copy + Default> Cells<T> {
    fn new() -> Self {
        Self { values: Vec::new(), nulls: NullBuffer::new_valid(0) }
    }

    fn set(&mut self, n: usize, value: T) {
        self.values.resize(n, T::default());
        let mut valid: Vec<bool> = (0..n).map(|i| i < self.nulls.len() && self.nulls.is_valid(i)).collect();
        valid[n - 1] = true;
        self.values[n - 1] = value;
        self.nulls = NullBuffer::from(valid);
    }

    fn column(&self) -> Nullable<'_, T> {
        Nullable::new(&self.values, Some(&self.nulls), 0)
    }
}

/// Rows of flags and texts beyond the last event of any trace by hand.
const ROWS: usize = 128;

/// A nullable column of flags.
#[derive(Debug, Clone, Default)]
struct FlagCells(Option<BooleanArray>);

impl FlagCells {
    /// Of the event `v` of `n` so far.
    fn set(&mut self, v: usize, n: usize, flag: bool) {
        let mut flags: Vec<Option<bool>> = self.0.take().map_or_else(Vec::new, |a| a.iter().collect());
        flags.resize(flags.len().max(n).max(ROWS), None);
        flags[v] = Some(flag);
        self.0 = Some(BooleanArray::from(flags));
    }

    fn column(&self) -> Flags<'_> {
        Flags::new(self.0.as_ref(), 0)
    }
}

/// A nullable column of texts.
#[derive(Debug, Clone, Default)]
struct TextCells(Option<StringViewArray>);

impl TextCells {
    fn set(&mut self, n: usize, text: &str) {
        let column = self.0.take();
        let mut texts: Vec<Option<&str>> = column.as_ref().map_or_else(Vec::new, |a| a.iter().collect());
        texts.resize(texts.len().max(ROWS), None);
        texts[n - 1] = Some(text);
        self.0 = Some(texts.into_iter().collect());
    }

    fn column(&self) -> Texts<'_> {
        Texts::new(self.0.as_ref(), 0)
    }
}

/// A trace under construction: each `event` is followed by its fields.
#[derive(Debug, Clone)]
pub(crate) struct TestTrace {
    pub(crate) t: Vec<f64>,
    pub(crate) types: Vec<u8>,
    pub(crate) agent: Vec<u32>,
    pub(crate) src: Vec<u32>,
    pub(crate) dst: Vec<u32>,
    pub(crate) edge_types: Vec<u8>,
    id: Arc<StringViewArray>,
    role: Cells<u32>,
    to: Cells<u32>,
    tool: Cells<u32>,
    turn: Cells<u32>,
    tokens_out: Cells<i64>,
    score: Cells<f64>,
    duration_s: Cells<f64>,
    ok: FlagCells,
    trusted: FlagCells,
    corrupted: FlagCells,
    sanitizer: FlagCells,
    privileged: FlagCells,
    trainable: FlagCells,
    sandbox_id: TextCells,
    harness_hash: TextCells,
    subtask_id: TextCells,
    content_hash: TextCells,
    pub(crate) conservative_flows: bool,
    pub(crate) topology: Option<Topology>,
}

impl Default for TestTrace {
    fn default() -> Self {
        Self {
            t: Vec::new(),
            types: Vec::new(),
            agent: Vec::new(),
            src: Vec::new(),
            dst: Vec::new(),
            edge_types: Vec::new(),
            id: Arc::new(StringViewArray::from_iter_values((0..100).map(|i| format!("e{i}")))),
            role: Cells::new(),
            to: Cells::new(),
            tool: Cells::new(),
            turn: Cells::new(),
            tokens_out: Cells::new(),
            score: Cells::new(),
            duration_s: Cells::new(),
            ok: FlagCells::default(),
            trusted: FlagCells::default(),
            corrupted: FlagCells::default(),
            sanitizer: FlagCells::default(),
            privileged: FlagCells::default(),
            trainable: FlagCells::default(),
            sandbox_id: TextCells::default(),
            harness_hash: TextCells::default(),
            subtask_id: TextCells::default(),
            content_hash: TextCells::default(),
            conservative_flows: false,
            topology: None,
        }
    }
}

impl TestTrace {
    /// `n` messages of the agent `a`, one per time step.
    pub(crate) fn events(n: usize) -> Self {
        let mut t = Self::default();
        for _ in 0..n {
            t.event(EventType::Message, "a");
        }
        t
    }

    /// The example of the survey's artifact; its event `e1` is row 0.
    pub(crate) fn artifact() -> Self {
        use EventType::*;
        let mut t = Self::default();
        t.event(OrchestratorDecision, "orchestrator").role("lead");
        t.event(Spawn, "orchestrator").role("planner").to("planner_1");
        t.event(Spawn, "orchestrator").role("executor").to("executor_1");
        t.event(Message, "planner_1").role("planner").to("executor_1");
        t.event(ToolCall, "executor_1").role("executor").tool("web");
        t.event(ToolResult, "browser").tool("web");
        t.event(Return, "executor_1").to("orchestrator");
        t.event(Aggregate, "orchestrator").role("lead");
        t.edge(0, 1, EdgeType::Spawn).edge(0, 2, EdgeType::Spawn).edge(1, 3, EdgeType::Causal);
        t.edge(2, 3, EdgeType::Message).edge(3, 4, EdgeType::ToolDependency).edge(4, 5, EdgeType::Return);
        t.edge(5, 6, EdgeType::Causal).edge(6, 7, EdgeType::Aggregate);
        t
    }

    pub(crate) fn name(name: &str) -> u32 {
        NAMES.iter().position(|&n| n == name).unwrap() as u32
    }

    pub(crate) fn role_code(role: &str) -> u32 {
        ROLES.iter().position(|&n| n == role).unwrap() as u32
    }

    pub(crate) fn tool_code(tool: &str) -> u32 {
        TOOLS.iter().position(|&n| n == tool).unwrap() as u32
    }

    pub(crate) fn event(&mut self, kind: EventType, agent: &str) -> &mut Self {
        self.event_of(kind, Self::name(agent))
    }

    pub(crate) fn event_of(&mut self, kind: EventType, agent: u32) -> &mut Self {
        self.t.push(self.t.len() as f64);
        self.types.push(kind as u8);
        self.agent.push(agent);
        self
    }

    pub(crate) fn at(&mut self, t: f64) -> &mut Self {
        *self.t.last_mut().unwrap() = t;
        self
    }

    /// Another trace's event, with who does what to whom.
    pub(crate) fn copy_of(&mut self, other: &TestTrace, v: usize) -> &mut Self {
        self.event_of(EventType::ALL[other.types[v] as usize], other.agent[v]).at(other.t[v]);
        let n = self.t.len();
        other.to.column().get(v).into_iter().for_each(|to| self.to.set(n, to));
        other.role.column().get(v).into_iter().for_each(|role| self.role.set(n, role));
        other.tool.column().get(v).into_iter().for_each(|tool| self.tool.set(n, tool));
        self
    }

    pub(crate) fn role(&mut self, role: &str) -> &mut Self {
        self.role.set(self.t.len(), Self::role_code(role));
        self
    }

    pub(crate) fn to(&mut self, to: &str) -> &mut Self {
        self.addressed_to(Self::name(to))
    }

    pub(crate) fn addressed_to(&mut self, to: u32) -> &mut Self {
        self.to.set(self.t.len(), to);
        self
    }

    pub(crate) fn tool(&mut self, tool: &str) -> &mut Self {
        self.tool.set(self.t.len(), Self::tool_code(tool));
        self
    }

    pub(crate) fn turn(&mut self, turn: u32) -> &mut Self {
        self.turn.set(self.t.len(), turn);
        self
    }

    pub(crate) fn tokens_out(&mut self, tokens: i64) -> &mut Self {
        self.tokens_out.set(self.t.len(), tokens);
        self
    }

    pub(crate) fn score(&mut self, score: f64) -> &mut Self {
        self.score.set(self.t.len(), score);
        self
    }

    pub(crate) fn duration(&mut self, seconds: f64) -> &mut Self {
        self.duration_s.set(self.t.len(), seconds);
        self
    }

    pub(crate) fn ok(&mut self, ok: bool) -> &mut Self {
        self.ok.set(self.t.len() - 1, self.t.len(), ok);
        self
    }

    pub(crate) fn trusted(&mut self, trusted: bool) -> &mut Self {
        self.trusted.set(self.t.len() - 1, self.t.len(), trusted);
        self
    }

    /// Says of an earlier event whether its content may be trusted.
    pub(crate) fn flag_trusted(&mut self, v: usize, trusted: bool) {
        self.trusted.set(v, self.t.len(), trusted);
    }

    /// Says how long an earlier event took.
    pub(crate) fn flag_duration(&mut self, v: usize, seconds: f64) {
        let durations: Vec<Option<f64>> =
            (0..self.t.len()).map(|v| self.duration_s.column().get(v)).collect();
        let mut all = Cells::new();
        for (at, duration) in durations.into_iter().enumerate() {
            if let Some(duration) = if at == v { Some(seconds) } else { duration } {
                all.set(at + 1, duration);
            }
        }
        self.duration_s = all;
    }

    /// Says of an earlier event whether its content is wrong.
    pub(crate) fn flag_corrupted(&mut self, v: usize, corrupted: bool) {
        self.corrupted.set(v, self.t.len(), corrupted);
    }

    /// Makes an earlier event clean what passes it.
    pub(crate) fn flag_sanitizer(&mut self, v: usize) {
        self.sanitizer.set(v, self.t.len(), true);
    }

    pub(crate) fn corrupted(&mut self, corrupted: bool) -> &mut Self {
        self.corrupted.set(self.t.len() - 1, self.t.len(), corrupted);
        self
    }

    pub(crate) fn sanitizer(&mut self) -> &mut Self {
        self.sanitizer.set(self.t.len() - 1, self.t.len(), true);
        self
    }

    pub(crate) fn trainable(&mut self, is: bool) -> &mut Self {
        self.trainable.set(self.t.len() - 1, self.t.len(), is);
        self
    }

    pub(crate) fn privileged(&mut self) -> &mut Self {
        self.privileged.set(self.t.len() - 1, self.t.len(), true);
        self
    }

    pub(crate) fn sandbox(&mut self, id: &str) -> &mut Self {
        self.sandbox_id.set(self.t.len(), id);
        self
    }

    pub(crate) fn harness(&mut self, hash: &str) -> &mut Self {
        self.harness_hash.set(self.t.len(), hash);
        self
    }

    pub(crate) fn subtask(&mut self, id: &str) -> &mut Self {
        self.subtask_id.set(self.t.len(), id);
        self
    }

    pub(crate) fn content(&mut self, hash: &str) -> &mut Self {
        self.content_hash.set(self.t.len(), hash);
        self
    }

    pub(crate) fn edge(&mut self, src: u32, dst: u32, kind: EdgeType) -> &mut Self {
        self.src.push(src);
        self.dst.push(dst);
        self.edge_types.push(kind as u8);
        self
    }

    pub(crate) fn view(&self) -> TraceView<'_> {
        TraceView {
            user: Some(Self::name("user")),
            outside: AgentKind::OUTSIDE.map(|(role, _)| Some(Self::role_code(role))),
            t: &self.t,
            types: &self.types,
            agent: &self.agent,
            id: if self.t.len() <= 100 { Texts::new(Some(&self.id), 0) } else { Texts::default() },
            role: self.role.column(),
            to: self.to.column(),
            tool: self.tool.column(),
            turn: self.turn.column(),
            tokens_out: self.tokens_out.column(),
            tokens: self.tokens_out.column(),
            score: self.score.column(),
            duration_s: self.duration_s.column(),
            ok: self.ok.column(),
            trusted: self.trusted.column(),
            corrupted: self.corrupted.column(),
            sanitizer: self.sanitizer.column(),
            privileged: self.privileged.column(),
            trainable: self.trainable.column(),
            sandbox_id: self.sandbox_id.column(),
            harness_hash: self.harness_hash.column(),
            subtask_id: self.subtask_id.column(),
            content_hash: self.content_hash.column(),
            conservative_flows: self.conservative_flows,
            topology: self.topology,
            src: &self.src,
            dst: &self.dst,
            edge_types: &self.edge_types,
            ..TraceView::default()
        }
    }

    /// Whether it is known where its outcome is.
    pub(crate) fn is_decided(&self) -> bool {
        let mut graph = TraceGraph::default();
        graph.begin();
        graph.outcome(&self.view()).is_ok()
    }
}

/// A trace of [`random_trace`] of which it is known where its outcome is.
pub(crate) fn decided_trace(n: usize, acyclic: bool) -> impl Strategy<Value = TestTrace> {
    random_trace(n, acyclic).prop_filter("an outcome that is known", TestTrace::is_decided)
}

/// Edges among `n` events: duplicates, self-loops and cycles included.
pub(crate) fn random_edges(n: u32, most: usize) -> impl Strategy<Value = Vec<(u32, u32, EdgeType)>> {
    prop::collection::vec((0..n, 0..n, prop::sample::select(EdgeType::ALL)), 0..most)
}

/// Any trace of up to `n` events; without cycles if `acyclic`, though its edges may lead up the document.
pub(crate) fn random_trace(n: usize, acyclic: bool) -> impl Strategy<Value = TestTrace> {
    let event = (
        prop::sample::select(EventType::ALL),
        0_u32..8,
        0_u32..6,
        prop::option::of(0_u32..8),
        prop::option::of(0_usize..4),
        prop::option::of(0_usize..3),
        prop::option::weighted(0.3, 0_u32..3),
        prop::option::of(0_i64..5),
    );
    (prop::collection::vec(event, 1..=n), random_edges(n as u32, 3 * n), any::<bool>()).prop_map(
        move |(events, edges, backwards)| {
            let mut t = TestTrace::default();
            let n = events.len() as u32;
            for (kind, agent, time, to, role, tool, turn, tokens) in events {
                t.event_of(kind, agent).at(f64::from(time));
                to.map(|to| t.addressed_to(to).t.len());
                role.map(|role| t.role(ROLES[role]).t.len());
                tool.map(|tool| t.tool(TOOLS[tool]).t.len());
                turn.map(|turn| t.turn(turn).t.len());
                tokens.map(|tokens| t.tokens_out(tokens).t.len());
            }
            for (s, d, kind) in edges {
                let (s, d) = (s % n, d % n);
                if !acyclic {
                    t.edge(s, d, kind);
                } else if s != d {
                    let (s, d) = if (s < d) == backwards { (s, d) } else { (d, s) };
                    t.edge(s, d, kind);
                }
            }
            t
        },
    )
}
