//! Contexts of decisions: what the actor had seen; decisions with the same context are siblings.
//!
//! A recorded context is the event's own key. A computed one is a Merkle class of the causal history:
//!
//! ```text
//! ctx(v)  = H(task, sorted multiset of node(u) over the predecessors u of v)
//! node(u) = H(type, agent, to, tool, key of u, ctx(u))
//! ```
//!
//! Predecessors are those by edges, by program order, and by what the actor [heard](crate::graph::hearing). Where the
//! recording does not say who heard a message, everybody may have: the context then rests on an assumption.
//!
//! Two events have one context exactly when their histories unfold alike, whatever their ids, times and order in the
//! document. An event that carries text (message, return, call, result, intervention, decision, aggregate) and has no
//! key for it makes everything after it unknown: what cannot be compared is not. O(|V| + |E|), sorting included for
//! bounded in-degree.

use std::sync::Arc;

use super::decisions::{Vocabulary, halves, key_of};
use super::params::{CONTEXT, Param};
use crate::error::Result;
use crate::graph::owner::NOBODY;
use crate::graph::{Order, TraceGraph};
use crate::importers::hex;
use crate::run::Run;
use crate::schema::EventType::{
    self, Aggregate, HumanIntervention, Message, OrchestratorDecision, Return, Spawn, ToolCall, ToolResult,
};
use crate::schema::{Column, Dict, Kind, REASONS, Reason};
use crate::store::Store;
use crate::store::view::{Texts, TraceView};
use crate::tables::{Batches, Columns, of_chunks, schema_of};
use arrow_array::builder::StringViewBuilder;
use arrow_array::{BooleanArray, UInt32Array};
use xxhash_rust::xxh3::xxh3_128;

/// Parameters of [`contexts`].
pub static PARAMS: &[Param] = &[CONTEXT];

/// Contexts of the events of a trace; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct Contexts {
    /// Context of every event; none where it is unknown.
    pub of_event: Vec<Option<u128>>,
    /// Whether it holds what the event's owner may or may not have heard.
    pub assumed: Vec<bool>,
    /// What an event does, of those whose contexts were computed; empty where contexts are recorded.
    acts: Vec<Option<u128>>,
    nodes: Vec<Option<u128>>,
    before: Vec<u128>,
    /// What a context is the hash of.
    hashed: Vec<u8>,
}

/// Where contexts come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A field of the event.
    Recorded,
    /// The causal history.
    Computed,
}

/// What the parameter `context` means for this trace: `auto` takes the field where any event has it.
#[must_use]
pub fn source(word: Option<&str>, field: &Texts<'_>, n_events: usize) -> Source {
    match word {
        Some("recorded") => Source::Recorded,
        Some("computed") => Source::Computed,
        _ if (0..n_events).any(|v| field.get(v).is_some()) => Source::Recorded,
        _ => Source::Computed,
    }
}

impl Contexts {
    /// Contexts as the parameter `context` asks for them.
    pub fn find(
        &mut self,
        view: &TraceView<'_>,
        word: Option<&str>,
        corpus: &Vocabulary,
        graph: &mut TraceGraph,
    ) -> std::result::Result<(), Reason> {
        match source(word, &view.prefix_key, view.len()) {
            Source::Recorded => self.record(&view.prefix_key, view.len()),
            Source::Computed => self.compute(view, corpus, graph)?,
        }
        Ok(())
    }

    /// Takes the values of `field`.
    pub fn record(&mut self, field: &Texts<'_>, n_events: usize) {
        self.assumed.clear();
        self.assumed.resize(n_events, false);
        self.acts.clear();
        self.of_event.clear();
        self.of_event.extend((0..n_events).map(|v| field.get(v).map(|key| xxh3_128(key.as_bytes()))));
    }

    /// Computes the classes of causal histories.
    pub fn compute(
        &mut self,
        view: &TraceView<'_>,
        corpus: &Vocabulary,
        graph: &mut TraceGraph,
    ) -> std::result::Result<(), Reason> {
        let n = view.len();
        self.acts.clear();
        self.assumed.clear();
        self.assumed.extend_from_slice(graph.build_heard(view));
        let (csr, order) = graph.ordered();
        let order = order.ok_or(Reason::GraphCycle)?;
        self.of_event.clear();
        self.of_event.resize(n, None);
        for column in [&mut self.acts, &mut self.nodes] {
            column.clear();
            column.resize(n, None);
        }
        let task = key_of(&halves(xxh3_128(view.task_id.as_bytes())));
        let rows = |place: usize| match order {
            Order::Document(_) => place,
            Order::Listed(rows) => rows[place] as usize,
        };
        for v in (0..n).map(rows) {
            self.before.clear();
            let is_listed = csr
                .predecessors_of(v)
                .iter()
                .all(|&u| self.nodes[u as usize].map(|node| self.before.push(node)).is_some());
            if !is_listed {
                continue;
            }
            self.before.sort_unstable();
            // One call on a buffer: a hasher that is fed piece by piece copies half a kilobyte before its first byte.
            self.hashed.clear();
            self.hashed.extend_from_slice(&task.to_le_bytes());
            self.hashed.extend(self.before.iter().flat_map(|node| node.to_le_bytes()));
            let context = xxh3_128(&self.hashed);
            self.of_event[v] = Some(context);
            self.acts[v] = act(view, corpus, v);
            self.nodes[v] = self.acts[v].map(|act| {
                let ([a, b], [c, d]) = (halves(act), halves(context));
                key_of(&[a, b, c, d, corpus.agent(Some(view.agent[v]))])
            });
        }
        Ok(())
    }

    /// What an event does ([`act`]), which its context has asked for already where it was computed.
    #[must_use]
    pub fn act(&self, view: &TraceView<'_>, corpus: &Vocabulary, v: usize) -> Option<u128> {
        self.acts.get(v).copied().flatten().or_else(|| act(view, corpus, v))
    }
}

/// What an event does, independent of its actor: type, addressee, tool and text. None where there should be a text and
/// no key says which.
#[must_use]
pub fn act(view: &TraceView<'_>, corpus: &Vocabulary, v: usize) -> Option<u128> {
    let kind = view.event_type(v);
    let key = view.content_key(v);
    if key.is_none() && carries_text(kind) {
        return None;
    }
    let [a, b] = halves(xxh3_128(key.unwrap_or_default().as_bytes()));
    let (to, tool) = (corpus.agent(view.to.get(v)), corpus.tool(view.tool.get(v)));
    Some(key_of(&[kind as u64, to, tool, u64::from(key.is_some()), a, b]))
}

fn carries_text(kind: EventType) -> bool {
    matches!(
        kind,
        Message | Return | ToolCall | ToolResult | HumanIntervention | OrchestratorDecision | Aggregate
    )
}

/// Types of events that are choices of their owner.
pub static DECISIONS: [EventType; 6] = [OrchestratorDecision, Message, Return, Spawn, ToolCall, Aggregate];

/// Whether an event is a decision, the subject of credit among siblings.
#[must_use]
pub fn is_decision(kind: EventType, owner: u32) -> bool {
    owner != NOBODY && DECISIONS.contains(&kind)
}

static CONTEXTS: [Column; 7] = [
    column("trace", Kind::U32),
    column("seq", Kind::U32),
    column("context", Kind::Text),
    column("choice", Kind::Text),
    column("role", Kind::Text),
    column("assumed", Kind::Bool),
    column("reason", Kind::Word(REASONS)),
];

const fn column(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, nullable: true }
}

/// The decisions of a store with what makes them siblings, a batch a chunk: `trace seq context choice role assumed
/// reason`. Context and choice are 32 hexadecimal digits, null where unknown; `reason` says why a context is. O(events +
/// edges).
pub fn contexts(store: &Store, word: Option<&str>, run: &Run) -> Result<Batches> {
    let corpus = Vocabulary::new(store, None);
    let schema = schema_of(&CONTEXTS);
    let buffers = <(TraceGraph, Contexts)>::default;
    let batches = of_chunks(store, run, buffers, |(graph, contexts), part| {
        let mut rows = ContextRows::default();
        for i in 0..part.view.len() {
            graph.begin();
            rows.append(&part.trace(i), word, &corpus, store, graph, contexts);
        }
        rows.set(Columns::new(&schema))?.finish()
    })?;
    Ok((batches, schema))
}

/// A key as 32 hexadecimal digits, the highest first.
fn append_key(column: &mut StringViewBuilder, key: Option<u128>) {
    let Some(key) = key else { return column.append_null() };
    let mut digits = [0; 32];
    hex::spell(&key.to_be_bytes(), &mut digits);
    column.append_value(std::str::from_utf8(&digits).unwrap_or_default());
}

#[derive(Default)]
struct ContextRows {
    trace: Vec<u32>,
    seq: Vec<u32>,
    context: StringViewBuilder,
    choice: StringViewBuilder,
    role: StringViewBuilder,
    assumed: Vec<Option<bool>>,
    reason: Vec<Option<Reason>>,
}

impl ContextRows {
    fn append(
        &mut self,
        view: &TraceView<'_>,
        word: Option<&str>,
        corpus: &Vocabulary,
        store: &Store,
        graph: &mut TraceGraph,
        contexts: &mut Contexts,
    ) {
        let unordered = contexts.find(view, word, corpus, graph).err();
        let owners = graph.owners(view);
        let roles = store.names().dict(Dict::Role);
        for v in 0..view.len() {
            if !is_decision(view.event_type(v), owners.codes()[v]) {
                continue;
            }
            let context = if unordered.is_none() { contexts.of_event[v] } else { None };
            self.trace.push(view.trace);
            self.seq.push(v as u32);
            append_key(&mut self.context, context);
            append_key(&mut self.choice, contexts.act(view, corpus, v));
            let role = owners.names()[owners.indices()[v] as usize].role();
            self.role.append_option(role.map(|code| roles.name(code)));
            self.assumed.push(context.map(|_| contexts.assumed[v]));
            self.reason.push(context.is_none().then(|| unordered.unwrap_or(Reason::FieldAbsent)));
        }
    }

    fn set(mut self, columns: Columns) -> Result<Columns> {
        columns
            .set("trace", Arc::new(UInt32Array::from(self.trace)))
            .set("seq", Arc::new(UInt32Array::from(self.seq)))
            .set("context", Arc::new(self.context.finish()))
            .set("choice", Arc::new(self.choice.finish()))
            .set("role", Arc::new(self.role.finish()))
            .set("assumed", Arc::new(BooleanArray::from(self.assumed)))
            .reasons(self.reason)
    }
}
