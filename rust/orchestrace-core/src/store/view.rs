//! Views of one trace for kernels: borrowed slices of the columns, without copies.

use arrow_array::cast::AsArray;
use arrow_array::types::{ArrowPrimitiveType, Float64Type, Int64Type, UInt8Type, UInt32Type};
use arrow_array::{
    Array, BooleanArray, DictionaryArray, Float64Array, Int64Array, PrimitiveArray, RecordBatch,
    StringViewArray, UInt32Array,
};
use arrow_buffer::NullBuffer;

use super::arrays::u32_values;
use super::ownership::{Owned, Ownership};
use super::{Chunk, Names, Store};
use crate::error::FindingCode;
use crate::schema::{AgentKind, Dict, EventType, MeasureKind, TimeBasis, Topology};

/// A slice of a nullable column of plain values. A column that no event of the corpus has is empty
/// here and every value of it is `None`.
#[derive(Debug, Clone, Copy)]
pub struct Nullable<'a, T> {
    values: &'a [T],
    nulls: Option<&'a NullBuffer>,
    start: usize,
}

impl<T> Default for Nullable<'_, T> {
    fn default() -> Self {
        Self { values: &[], nulls: None, start: 0 }
    }
}

impl<'a, T: Copy> Nullable<'a, T> {
    /// `values` are those of the slice; `nulls` are of the whole column, in which the slice begins at `start`.
    #[must_use]
    pub fn new(values: &'a [T], nulls: Option<&'a NullBuffer>, start: usize) -> Self {
        Self { values, nulls, start }
    }

    /// Value at a position of the slice.
    #[must_use]
    #[inline]
    pub fn get(&self, i: usize) -> Option<T> {
        let value = *self.values.get(i)?;
        match self.nulls {
            Some(nulls) if nulls.is_null(self.start + i) => None,
            _ => Some(value),
        }
    }

    /// Whether the corpus does not have the column at all.
    #[must_use]
    pub fn is_absent(&self) -> bool {
        self.values.is_empty()
    }

    /// The part `from..to`.
    #[must_use]
    pub fn slice(&self, from: usize, to: usize) -> Self {
        if self.values.is_empty() {
            return Self::default();
        }
        Self { values: &self.values[from..to], nulls: self.nulls, start: self.start + from }
    }
}

/// A slice of a nullable column of flags.
#[derive(Debug, Clone, Copy, Default)]
pub struct Flags<'a> {
    array: Option<&'a BooleanArray>,
    start: usize,
}

impl<'a> Flags<'a> {
    /// The slice that begins at row `start` of `array`.
    #[must_use]
    pub fn new(array: Option<&'a BooleanArray>, start: usize) -> Self {
        Self { array, start }
    }

    /// Flag at a position of the slice.
    #[must_use]
    pub fn get(&self, i: usize) -> Option<bool> {
        let array = self.array?;
        array.is_valid(self.start + i).then(|| array.value(self.start + i))
    }
}

/// A slice of a nullable column of text.
#[derive(Debug, Clone, Copy, Default)]
pub struct Texts<'a> {
    array: Option<&'a StringViewArray>,
    start: usize,
}

impl<'a> Texts<'a> {
    /// The slice that begins at row `start` of `array`.
    #[must_use]
    pub fn new(array: Option<&'a StringViewArray>, start: usize) -> Self {
        Self { array, start }
    }

    /// Text at a position of the slice.
    #[must_use]
    pub fn get(&self, i: usize) -> Option<&'a str> {
        let array = self.array?;
        array.is_valid(self.start + i).then(|| array.value(self.start + i))
    }
}

/// One trace. Positions in the slices are `seq`; names are codes of the store's dictionaries, where
/// `agent`, `from` and `to` share one.
#[derive(Debug, Clone, Copy, Default)]
pub struct TraceView<'a> {
    /// Number of the trace in its corpus.
    pub trace: u32,
    /// External id.
    pub trace_id: &'a str,
    /// Task.
    pub task_id: &'a str,
    /// Rollout group.
    pub group_id: &'a str,
    /// Code of the agent name `user`, if the corpus has it.
    pub user: Option<u32>,
    /// Codes of the roles of those who are not of the team, in the order of [`AgentKind::OUTSIDE`].
    pub outside: [Option<u32>; AgentKind::OUTSIDE.len()],
    /// Whether the run went on beyond the recording.
    pub partial: bool,
    /// Times.
    pub t: &'a [f64],
    /// Event types, as codes of [`crate::schema::EventType`].
    pub types: &'a [u8],
    /// The field `agent`.
    pub agent: &'a [u32],
    /// External ids of the events.
    pub id: Texts<'a>,
    /// Roles.
    pub role: Nullable<'a, u32>,
    /// Sender.
    pub from: Nullable<'a, u32>,
    /// Addressee, or the agent that a spawn makes.
    pub to: Nullable<'a, u32>,
    /// Tool.
    pub tool: Nullable<'a, u32>,
    /// Recorded turn.
    pub turn: Nullable<'a, u32>,
    /// Length of the work that ended at `t`, in seconds.
    pub duration_s: Nullable<'a, f64>,
    /// When the work ended, of sources whose `t` is when it began.
    pub t_end: Nullable<'a, f64>,
    /// Tokens read that are not recorded as read from or written to a cache.
    pub tokens_fresh: Nullable<'a, i64>,
    /// Tokens read from a cache.
    pub tokens_cached: Nullable<'a, i64>,
    /// Tokens read and written to a cache.
    pub tokens_cache_write: Nullable<'a, i64>,
    /// Tokens written, reasoning included.
    pub tokens_out: Nullable<'a, i64>,
    /// Tokens written to reason.
    pub tokens_reasoning: Nullable<'a, i64>,
    /// Tokens of an event (D18): all that it read and wrote. Never absent beside one of its parts.
    pub tokens: Nullable<'a, i64>,
    /// Dense reward.
    pub reward: Nullable<'a, f64>,
    /// The critic's estimate.
    pub value: Nullable<'a, f64>,
    /// State that the actor saw.
    pub state_key: Texts<'a>,
    /// Transcript before the event.
    pub prefix_key: Texts<'a>,
    /// Hash of the text.
    pub content_hash: Texts<'a>,
    /// Where the text is, or its hash.
    pub content_ref: Texts<'a>,
    /// Hash of a call's arguments.
    pub args_hash: Texts<'a>,
    /// Quality of an event's content.
    pub score: Nullable<'a, f64>,
    /// Quality of the answer as it stands at the event.
    pub draft_score: Nullable<'a, f64>,
    /// Whether what an event did succeeded.
    pub ok: Flags<'a>,
    /// Price.
    pub cost_usd: Nullable<'a, f64>,
    /// Whether the content comes from where it may be trusted.
    pub trusted: Flags<'a>,
    /// Whether the content is wrong.
    pub corrupted: Flags<'a>,
    /// Whether the event makes clean what passes it.
    pub sanitizer: Flags<'a>,
    /// Whether the event may do harm.
    pub privileged: Flags<'a>,
    /// Whether the policy that acts in the event is trained.
    pub trainable: Flags<'a>,
    /// Sandbox that the event ran in.
    pub sandbox_id: Texts<'a>,
    /// Harness that the agent acted through.
    pub harness_hash: Texts<'a>,
    /// Part of the task that the event works on.
    pub subtask_id: Texts<'a>,
    /// Topology of the run.
    pub topology: Option<Topology>,
    /// What the numbers of `t` mean.
    pub time_basis: Option<TimeBasis>,
    /// Whether its safety flows are drawn along contexts (finding `safety.conservative`), an upper bound.
    pub conservative_flows: bool,
    /// Edges: source, as `seq`.
    pub src: &'a [u32],
    /// Edges: destination, as `seq`.
    pub dst: &'a [u32],
    /// Edges: type, as codes of [`crate::schema::EdgeType`].
    pub edge_types: &'a [u8],
    /// Kinds of the trace's measures, as codes of [`crate::schema::MeasureKind`].
    pub measure_kinds: &'a [u8],
    /// Names of the trace's measures.
    pub measure_names: &'a [u32],
    /// Values of the trace's measures.
    pub measure_values: &'a [f64],
    /// Codes of the names `tokens` and `cost_usd` among those of measures.
    pub spent: [Option<u32>; 2],
    /// Owners and outcome, where the store keeps them; a view with other events or edges has none.
    pub owned: Option<Owned<'a>>,
}

impl<'a> TraceView<'a> {
    /// What the role of an event says of its bearer, where that is not of the team (D4). On spawns and despawns the
    /// role is that of whom they concern.
    #[must_use]
    #[inline]
    pub fn outsider(&self, i: usize) -> Option<AgentKind> {
        let role = self.role.get(i)?;
        let at = self.outside.iter().position(|code| *code == Some(role))?;
        let acts = !matches!(self.event_type(i), EventType::Spawn | EventType::Despawn);
        acts.then_some(AgentKind::OUTSIDE[at].1)
    }

    /// Whether the corpus has a role that [`TraceView::outsider`] knows.
    #[must_use]
    pub fn has_outsiders(&self) -> bool {
        self.outside.iter().any(Option::is_some)
    }

    /// Tokens that the costs of the trace state, whatever its events say; 0 stands where nobody counted.
    #[must_use]
    pub fn stated_tokens(&self) -> Option<f64> {
        self.stated(self.spent[0]?).filter(|tokens| *tokens > 0.0)
    }

    /// The price that the costs of the trace state, whatever its events say.
    #[must_use]
    pub fn stated_cost_usd(&self) -> Option<f64> {
        self.stated(self.spent[1]?)
    }

    fn stated(&self, name: u32) -> Option<f64> {
        let kinds = self.measure_kinds.iter().zip(self.measure_names);
        let at = kinds
            .zip(self.measure_values)
            .find(|((kind, of), _)| **kind == MeasureKind::Cost as u8 && **of == name);
        at.map(|(_, value)| *value)
    }

    /// Number of events.
    #[must_use]
    pub fn len(&self) -> usize {
        self.t.len()
    }

    /// A trace always has an event; views made by hand may not.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.t.is_empty()
    }

    /// Type of an event.
    #[must_use]
    #[inline]
    pub fn event_type(&self, i: usize) -> EventType {
        EventType::ALL[self.types[i] as usize]
    }

    /// What tells the texts of events apart: the hash of it, else where it is.
    #[must_use]
    #[inline]
    pub fn text_key(&self, i: usize) -> Option<&'a str> {
        self.content_hash.get(i).or_else(|| self.content_ref.get(i))
    }

    /// What tells the arguments of calls apart: the hash of them, else where they are.
    #[must_use]
    #[inline]
    pub fn arguments_key(&self, i: usize) -> Option<&'a str> {
        self.args_hash.get(i).or_else(|| self.content_ref.get(i))
    }

    /// What tells apart what events say: of a call its arguments, else the text.
    #[must_use]
    #[inline]
    pub fn content_key(&self, i: usize) -> Option<&'a str> {
        if self.event_type(i) == EventType::ToolCall { self.arguments_key(i) } else { self.text_key(i) }
    }
}

/// A chunk with its columns resolved and typed, for cheap views of its traces.
#[derive(Debug)]
pub struct ChunkView<'a> {
    numbers: &'a [u32],
    trace_id: &'a StringViewArray,
    task_id: &'a StringViewArray,
    group_id: &'a StringViewArray,
    topology: Option<&'a DictionaryArray<UInt8Type>>,
    time_basis: Option<&'a DictionaryArray<UInt8Type>>,
    starts: &'a [[u32; 3]],
    user: Option<u32>,
    outside: [Option<u32>; AgentKind::OUTSIDE.len()],
    partial: Option<&'a BooleanArray>,
    events: EventArrays<'a>,
    edges: EdgeArrays<'a>,
    measures: Option<(&'a [u8], &'a [u32], &'a [f64])>,
    spent: [Option<u32>; 2],
    /// Numbers of the traces with the finding `safety.conservative`, ascending.
    conservative: Vec<u32>,
    ownership: Option<&'a Ownership>,
}

/// The columns of a batch of `events`.
#[derive(Debug)]
pub(crate) struct EventArrays<'a> {
    id: &'a StringViewArray,
    t: &'a [f64],
    types: &'a [u8],
    agent: &'a [u32],
    role: Option<&'a UInt32Array>,
    from: Option<&'a UInt32Array>,
    to: Option<&'a UInt32Array>,
    tool: Option<&'a UInt32Array>,
    turn: Option<&'a UInt32Array>,
    duration_s: Option<&'a Float64Array>,
    t_end: Option<&'a Float64Array>,
    tokens_fresh: Option<&'a Int64Array>,
    tokens_cached: Option<&'a Int64Array>,
    tokens_cache_write: Option<&'a Int64Array>,
    tokens_out: Option<&'a Int64Array>,
    tokens_reasoning: Option<&'a Int64Array>,
    tokens: Option<&'a Int64Array>,
    reward: Option<&'a Float64Array>,
    value: Option<&'a Float64Array>,
    state_key: Option<&'a StringViewArray>,
    prefix_key: Option<&'a StringViewArray>,
    content_hash: Option<&'a StringViewArray>,
    content_ref: Option<&'a StringViewArray>,
    args_hash: Option<&'a StringViewArray>,
    score: Option<&'a Float64Array>,
    draft_score: Option<&'a Float64Array>,
    ok: Option<&'a BooleanArray>,
    cost_usd: Option<&'a Float64Array>,
    trusted: Option<&'a BooleanArray>,
    corrupted: Option<&'a BooleanArray>,
    sanitizer: Option<&'a BooleanArray>,
    privileged: Option<&'a BooleanArray>,
    trainable: Option<&'a BooleanArray>,
    sandbox_id: Option<&'a StringViewArray>,
    harness_hash: Option<&'a StringViewArray>,
    subtask_id: Option<&'a StringViewArray>,
}

/// Codes of the roles of those who are not of the team.
pub(crate) fn outside(names: &Names) -> [Option<u32>; AgentKind::OUTSIDE.len()] {
    AgentKind::OUTSIDE.map(|(role, _)| names.dict(Dict::Role).find(role))
}

fn codes<'a>(batch: &'a RecordBatch, name: &str) -> Option<&'a UInt32Array> {
    batch
        .column_by_name(name)
        .and_then(|c| c.as_dictionary_opt::<UInt32Type>())
        .map(arrow_array::DictionaryArray::keys)
}

fn words<'a>(batch: &'a RecordBatch, name: &str) -> &'a [u8] {
    let column = batch.column_by_name(name).and_then(|c| c.as_dictionary_opt::<UInt8Type>());
    column.map_or(&[], |d| d.keys().values())
}

fn nullable<T: ArrowPrimitiveType>(
    column: Option<&PrimitiveArray<T>>,
    from: usize,
    to: usize,
) -> Nullable<'_, T::Native> {
    column.map_or_else(Nullable::default, |c| Nullable::new(&c.values()[from..to], c.nulls(), from))
}

/// Numbers of the traces whose safety flows are an upper bound.
fn conservative(findings: &RecordBatch) -> Vec<u32> {
    let codes = words(findings, "code").iter();
    let rows = codes.zip(u32_values(findings, 0));
    let mut traces: Vec<u32> = rows
        .filter(|(code, _)| **code == FindingCode::SafetyConservative as u8)
        .map(|(_, &trace)| trace)
        .collect();
    traces.sort_unstable();
    traces
}

impl<'a> EventArrays<'a> {
    pub(crate) fn new(batch: &'a RecordBatch) -> Self {
        let primitive = |name: &str| batch.column_by_name(name);
        let counts = |name: &str| primitive(name).and_then(|c| c.as_primitive_opt::<Int64Type>());
        let texts = |name: &str| batch.column_by_name(name).and_then(|c| c.as_string_view_opt());
        let flags = |name: &str| batch.column_by_name(name).and_then(|c| c.as_boolean_opt());
        Self {
            id: batch.column(2).as_string_view(),
            t: batch.column(3).as_primitive::<Float64Type>().values(),
            types: words(batch, "type"),
            agent: codes(batch, "agent").map_or(&[], |c| c.values()),
            role: codes(batch, "role"),
            from: codes(batch, "from"),
            to: codes(batch, "to"),
            tool: codes(batch, "tool"),
            turn: primitive("turn").and_then(|c| c.as_primitive_opt::<UInt32Type>()),
            duration_s: primitive("duration_s").and_then(|c| c.as_primitive_opt::<Float64Type>()),
            t_end: primitive("t_end").and_then(|c| c.as_primitive_opt::<Float64Type>()),
            tokens_fresh: counts("tokens_fresh"),
            tokens_cached: counts("tokens_cached"),
            tokens_cache_write: counts("tokens_cache_write"),
            tokens_out: counts("tokens_out"),
            tokens_reasoning: counts("tokens_reasoning"),
            tokens: counts("tokens"),
            reward: primitive("reward").and_then(|c| c.as_primitive_opt::<Float64Type>()),
            value: primitive("value").and_then(|c| c.as_primitive_opt::<Float64Type>()),
            state_key: texts("state_key"),
            prefix_key: texts("prefix_key"),
            content_hash: texts("content_hash"),
            content_ref: texts("content_ref"),
            args_hash: texts("args_hash"),
            score: primitive("score").and_then(|c| c.as_primitive_opt::<Float64Type>()),
            draft_score: primitive("draft_score").and_then(|c| c.as_primitive_opt::<Float64Type>()),
            ok: flags("ok"),
            cost_usd: primitive("cost_usd").and_then(|c| c.as_primitive_opt::<Float64Type>()),
            trusted: flags("trusted"),
            corrupted: flags("corrupted"),
            sanitizer: flags("sanitizer"),
            privileged: flags("privileged"),
            trainable: flags("trainable"),
            sandbox_id: texts("sandbox_id"),
            harness_hash: texts("harness_hash"),
            subtask_id: texts("subtask_id"),
        }
    }

    /// Fills the event part of a view with rows `from..to`.
    pub(crate) fn fill(&self, view: &mut TraceView<'a>, from: usize, to: usize) {
        view.t = &self.t[from..to];
        view.types = &self.types[from..to];
        view.agent = &self.agent[from..to];
        view.id = Texts::new(Some(self.id), from);
        view.role = nullable(self.role, from, to);
        view.from = nullable(self.from, from, to);
        view.to = nullable(self.to, from, to);
        view.tool = nullable(self.tool, from, to);
        view.turn = nullable(self.turn, from, to);
        view.duration_s = nullable(self.duration_s, from, to);
        view.t_end = nullable(self.t_end, from, to);
        view.tokens_fresh = nullable(self.tokens_fresh, from, to);
        view.tokens_cached = nullable(self.tokens_cached, from, to);
        view.tokens_cache_write = nullable(self.tokens_cache_write, from, to);
        view.tokens_out = nullable(self.tokens_out, from, to);
        view.tokens_reasoning = nullable(self.tokens_reasoning, from, to);
        view.tokens = nullable(self.tokens, from, to);
        view.reward = nullable(self.reward, from, to);
        view.value = nullable(self.value, from, to);
        view.state_key = Texts::new(self.state_key, from);
        view.prefix_key = Texts::new(self.prefix_key, from);
        view.content_hash = Texts::new(self.content_hash, from);
        view.content_ref = Texts::new(self.content_ref, from);
        view.args_hash = Texts::new(self.args_hash, from);
        view.score = nullable(self.score, from, to);
        view.draft_score = nullable(self.draft_score, from, to);
        view.ok = Flags::new(self.ok, from);
        view.cost_usd = nullable(self.cost_usd, from, to);
        view.trusted = Flags::new(self.trusted, from);
        view.corrupted = Flags::new(self.corrupted, from);
        view.sanitizer = Flags::new(self.sanitizer, from);
        view.privileged = Flags::new(self.privileged, from);
        view.trainable = Flags::new(self.trainable, from);
        view.sandbox_id = Texts::new(self.sandbox_id, from);
        view.harness_hash = Texts::new(self.harness_hash, from);
        view.subtask_id = Texts::new(self.subtask_id, from);
    }
}

/// The columns of a batch of `edges`.
#[derive(Debug)]
pub(crate) struct EdgeArrays<'a> {
    src: &'a [u32],
    dst: &'a [u32],
    types: &'a [u8],
}

impl<'a> EdgeArrays<'a> {
    pub(crate) fn new(batch: &'a RecordBatch) -> Self {
        Self { src: u32_values(batch, 1), dst: u32_values(batch, 2), types: words(batch, "type") }
    }

    /// Fills the edge part of a view with rows `from..to`.
    pub(crate) fn fill(&self, view: &mut TraceView<'a>, from: usize, to: usize) {
        view.src = &self.src[from..to];
        view.dst = &self.dst[from..to];
        view.edge_types = &self.types[from..to];
    }
}

impl<'a> ChunkView<'a> {
    /// Finds the columns of a chunk of `store`.
    #[must_use]
    pub fn new(store: &'a Store, chunk: &'a Chunk) -> Self {
        let measures = &chunk.measures;
        Self {
            numbers: u32_values(&chunk.traces, 0),
            trace_id: chunk.traces.column(1).as_string_view(),
            task_id: chunk.traces.column(2).as_string_view(),
            group_id: chunk.traces.column(3).as_string_view(),
            topology: chunk.traces.column_by_name("topology").and_then(|c| c.as_dictionary_opt()),
            time_basis: chunk.traces.column_by_name("time_basis").and_then(|c| c.as_dictionary_opt()),
            starts: &chunk.starts,
            user: store.names().dict(Dict::Agent).find("user"),
            outside: outside(store.names()),
            partial: chunk.traces.column_by_name("partial").and_then(|c| c.as_boolean_opt()),
            events: EventArrays::new(&chunk.events),
            edges: EdgeArrays::new(&chunk.edges),
            measures: codes(measures, "name").map(|names| {
                (
                    words(measures, "kind"),
                    &names.values()[..],
                    &measures.column(3).as_primitive::<Float64Type>().values()[..],
                )
            }),
            spent: ["tokens", "cost_usd"].map(|name| store.names().dict(Dict::Measure).find(name)),
            conservative: conservative(&chunk.findings),
            ownership: chunk.ownership.as_deref(),
        }
    }

    /// Number of traces.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether the chunk has no trace.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Kinds, names and values of all measures of the chunk.
    #[must_use]
    pub fn measures(&self) -> Option<(&'a [u8], &'a [u32], &'a [f64])> {
        self.measures
    }

    /// First event of a trace among those of the chunk.
    #[must_use]
    pub fn first_event(&self, i: usize) -> usize {
        self.starts[i][0] as usize
    }

    /// External id of an event of a trace, both by their places. A view of the trace for each id would cost far more.
    #[must_use]
    pub fn event_id(&self, i: usize, seq: usize) -> Option<&'a str> {
        Texts::new(Some(self.events.id), self.first_event(i)).get(seq)
    }

    /// External id of a trace by its place in the chunk.
    #[must_use]
    pub fn trace_id(&self, i: usize) -> &'a str {
        self.trace_id.value(i)
    }

    /// Rollout group of a trace by its place in the chunk.
    #[must_use]
    pub fn group_id(&self, i: usize) -> &'a str {
        self.group_id.value(i)
    }

    /// The view of a trace by its place in the chunk.
    #[must_use]
    pub fn trace(&self, i: usize) -> TraceView<'a> {
        let (from, to) = (self.starts[i], self.starts[i + 1]);
        let mut view = TraceView {
            trace: self.numbers[i],
            trace_id: self.trace_id.value(i),
            task_id: self.task_id.value(i),
            group_id: self.group_id.value(i),
            user: self.user,
            outside: self.outside,
            partial: self.partial.is_some_and(|flags| flags.value(i)),
            topology: self.topology.and_then(|words| Topology::from_code(words.key(i)? as u8)),
            time_basis: self.time_basis.and_then(|words| TimeBasis::from_code(words.key(i)? as u8)),
            conservative_flows: self.conservative.binary_search(&self.numbers[i]).is_ok(),
            spent: self.spent,
            owned: self.ownership.map(|ownership| ownership.trace(i)),
            ..TraceView::default()
        };
        self.events.fill(&mut view, from[0] as usize, to[0] as usize);
        self.edges.fill(&mut view, from[1] as usize, to[1] as usize);
        if let Some((kinds, names, values)) = self.measures {
            let rows = from[2] as usize..to[2] as usize;
            view.measure_kinds = &kinds[rows.clone()];
            view.measure_names = &names[rows.clone()];
            view.measure_values = &values[rows];
        }
        view
    }
}
