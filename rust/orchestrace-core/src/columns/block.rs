//! The growing tables of one block: rows that importers have written, and buffers that they borrow.

// Part of the parser's short ways, whose results stay in registers only if nothing is called (measured).
#![allow(clippy::inline_always)]

use super::chunk::{RawChunk, Segment};
use super::column::TextColumn;
use super::event_columns::{EventColumns, FIRST_OPTIONAL, OptionalColumn};
use super::intern::{Interner, Recent};
use super::projection::{Keep, Projection};
use super::quarantine::{Position, QuarantineRow};
use super::validate::IdMap;
use crate::columns::RecordOptions;
use crate::error::{Finding, Result};
use crate::json::Str;
use crate::schema::{Dict, EventField, Kind, TimeBasis, Topology};

/// What a trace says of itself besides events, edges and measures.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Facts {
    pub topology: Option<Topology>,
    pub system: Option<u32>,
    pub importer: Option<u32>,
    pub time_basis: Option<TimeBasis>,
    pub started_at: Option<i64>,
    pub partial: bool,
    /// The document has `metrics`, with nothing in them.
    pub empty_metrics: bool,
}

/// One block's tables while they grow.
#[derive(Debug)]
pub(crate) struct BlockWriter {
    pub dicts: [Interner; Dict::COUNT],
    pub events: EventColumns,
    pub trace_id: TextColumn,
    pub task_id: TextColumn,
    pub group_id: TextColumn,
    pub facts: Vec<Facts>,
    pub positions: Vec<Position>,
    /// End of each trace's rows in `events`, `edges`, `measures`.
    pub ends: Vec<[u32; 3]>,
    pub src: Vec<u32>,
    pub dst: Vec<u32>,
    pub edge_types: Vec<u8>,
    pub measure_kinds: Vec<u8>,
    pub measure_names: Vec<u32>,
    pub measure_values: Vec<f64>,
    pub labels: Vec<LabelRow>,
    pub findings: Vec<(u32, Finding)>,
    pub quarantine: Vec<QuarantineRow>,
    /// What the record of each trace says.
    pub digests: Vec<u64>,
    /// Places of ids, while a trace is written.
    pub(super) ids: IdMap,
    pub keep: Keep,
    /// Fields whose strings are judged but not stored.
    pub skipped: u64,
    pub(super) recent: [Recent; Dict::OF_EVENTS],
    /// Buffers that importers borrow, so that reading an event allocates nothing.
    pub scratch: Scratch,
}

/// Reused buffers.
#[derive(Debug)]
pub(crate) struct Scratch {
    pub text: String,
    pub key: String,
    pub extras: String,
    pub list: Vec<f64>,
    pub unknown: Interner,
    pub names: Vec<u32>,
    /// The field that followed each field last time, by the type of the event as far as it was known.
    pub next: [u8; Scratch::CONTEXTS * 64],
}

impl Scratch {
    /// Types of events, and one for "not known yet".
    pub(crate) const CONTEXTS: usize = 16;
}

impl Default for Scratch {
    fn default() -> Self {
        Self {
            text: String::new(),
            key: String::new(),
            extras: String::new(),
            list: Vec::new(),
            unknown: Interner::default(),
            names: Vec::new(),
            next: [0; Self::CONTEXTS * 64],
        }
    }
}

/// Fields that hold any string, of those that are not stored.
fn skipped(projection: &Projection) -> u64 {
    let keep = Keep::new(projection);
    let texts = EventField::ALL[FIRST_OPTIONAL..]
        .iter()
        .filter(|field| !keep.field(**field) && matches!(field.column().kind, Kind::Text | Kind::Name(_)));
    texts.fold(0, |fields, field| fields | 1 << *field as u64)
}

/// A label that was read alone.
pub(crate) const NO_TRACE: u32 = u32::MAX;

/// One row of `labels`, before it is a column.
#[derive(Debug, Clone)]
pub(crate) struct LabelRow {
    /// Its trace within the block, or [`NO_TRACE`].
    pub trace: u32,
    pub trace_id: String,
    pub annotator: u32,
    pub event_id: Option<String>,
    pub turn: Option<u32>,
    pub agent: Option<String>,
    pub label: u32,
    pub weight: Option<f64>,
}

impl BlockWriter {
    pub(crate) fn new(options: &RecordOptions) -> Self {
        Self {
            dicts: std::array::from_fn(|_| Interner::default()),
            events: EventColumns::new(options),
            trace_id: TextColumn::default(),
            task_id: TextColumn::default(),
            group_id: TextColumn::default(),
            facts: Vec::new(),
            positions: Vec::new(),
            ends: Vec::new(),
            src: Vec::new(),
            dst: Vec::new(),
            edge_types: Vec::new(),
            measure_kinds: Vec::new(),
            measure_names: Vec::new(),
            measure_values: Vec::new(),
            labels: Vec::new(),
            findings: Vec::new(),
            quarantine: Vec::new(),
            digests: Vec::new(),
            ids: IdMap::default(),
            keep: Keep::new(&options.projection),
            skipped: skipped(&options.projection),
            recent: std::array::from_fn(|_| Recent::default()),
            scratch: Scratch::default(),
        }
    }

    /// Code of a name that an event has, as it stands in a record.
    #[inline(always)]
    pub(crate) fn code(&mut self, dict: Dict, name: &Str<'_>, scratch: &mut String) -> u32 {
        let names = &mut self.dicts[dict as usize];
        match self.recent.get_mut(dict as usize) {
            Some(recent) => recent.code(names, name, scratch),
            None => names.code(name.text(scratch)),
        }
    }

    /// Stores a name of an event as it stands in a record.
    #[inline(always)]
    pub(crate) fn set_name(&mut self, field: EventField, row: usize, name: &Str<'_>, scratch: &mut String) {
        if let OptionalColumn::Code(column, dict) = &mut self.events.optional[field as usize - FIRST_OPTIONAL]
        {
            let names = &mut self.dicts[*dict as usize];
            let code = match self.recent.get_mut(*dict as usize) {
                Some(recent) => recent.code(names, name, scratch),
                None => names.code(name.text(scratch)),
            };
            column.set(row, code);
        }
    }

    /// Stores a text or name of an event as it stands in a record.
    pub(crate) fn set_text(&mut self, field: EventField, row: usize, text: &Str<'_>, scratch: &mut String) {
        match self.events.optional(field) {
            OptionalColumn::Text(column) => column.set_str(row, text, scratch),
            _ => self.set_name(field, row, text, scratch),
        }
    }

    pub(super) fn last_ends(&self) -> [u32; 3] {
        self.ends.last().copied().unwrap_or([0; 3])
    }

    /// Takes everything written so far; the writer is empty and ready for the next block.
    pub(crate) fn finish(&mut self, segments: Vec<Segment>) -> Result<RawChunk> {
        let rows = self.events.t.len();
        let traces = self.facts.len();
        let optional = self.events.finish(rows, self.keep)?;
        let keep = self.keep;
        if !keep.field(EventField::Id) {
            self.events.id.truncate(0);
        }
        if !keep.field(EventField::T) {
            self.events.t.clear();
        }
        if !keep.field(EventField::Agent) {
            self.events.agent.clear();
        }
        if !keep.measures {
            self.measure_kinds.clear();
            self.measure_names.clear();
            self.measure_values.clear();
        }
        self.recent.iter_mut().for_each(Recent::forget);
        Ok(RawChunk {
            segments,
            dicts: self.dicts.iter_mut().map(std::mem::take).collect(),
            id: self.events.id.finish(if keep.field(EventField::Id) { rows } else { 0 })?,
            t: exact(&mut self.events.t),
            types: exact(&mut self.events.types),
            agent: exact(&mut self.events.agent),
            optional,
            trace_id: self.trace_id.finish(traces)?,
            task_id: self.task_id.finish(traces)?,
            group_id: self.group_id.finish(if keep.facts { traces } else { 0 })?,
            facts: std::mem::take(&mut self.facts),
            numbers: None,
            keep: None,
            digests: std::mem::take(&mut self.digests),
            files: None,
            positions: std::mem::take(&mut self.positions),
            ends: std::mem::take(&mut self.ends),
            src: exact(&mut self.src),
            dst: exact(&mut self.dst),
            edge_types: exact(&mut self.edge_types),
            measure_kinds: exact(&mut self.measure_kinds),
            measure_names: exact(&mut self.measure_names),
            measure_values: exact(&mut self.measure_values),
            labels: std::mem::take(&mut self.labels),
            findings: std::mem::take(&mut self.findings),
            quarantine: std::mem::take(&mut self.quarantine),
            mapping: None,
        })
    }
}

/// The values at their exact size; the scratch keeps its memory.
fn exact<T: Copy>(values: &mut Vec<T>) -> Vec<T> {
    let out = values.as_slice().to_vec();
    values.clear();
    out
}
