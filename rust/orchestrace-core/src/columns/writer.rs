//! The writer of importers: one trace at a time, into the growing columns of a block. A trace that fails leaves
//! nothing behind.

// Part of the parser's short ways, whose results stay in registers only if nothing is called (measured).
#![allow(clippy::inline_always)]

use std::cmp::Ordering;

pub(crate) use super::block::BlockWriter;
use super::block::{Facts, LabelRow, NO_TRACE};
pub use super::chunk::RawChunk;
use super::event_columns::OptionalColumn;
use super::gate::{self, Bound};
use super::intern::Recent;
use super::quarantine::Position;
use crate::columns::RecordOptions;
use crate::error::{Finding, FindingCode, RejectCode};
use crate::json::{Fault, Parsed, Str};
use crate::schema::{Dict, EdgeType, EventField, EventType, MeasureKind, TimeBasis, Topology};

/// A typed value of an event field, for importers that do not parse straight into columns.
#[derive(Debug, Clone, Copy)]
pub enum Value<'a> {
    /// A number.
    F64(f64),
    /// A count of tokens.
    I64(i64),
    /// A turn.
    U32(u32),
    /// A flag.
    Bool(bool),
    /// A text or a name.
    Text(&'a str),
    /// Probabilities.
    List(&'a [f64]),
}

#[derive(Debug)]
struct Mark {
    labels: usize,
    findings: usize,
    names: [usize; Dict::COUNT],
}

/// The trace that an importer is writing. Dropping it without [`Self::commit`] is not enough: the
/// driver calls [`Self::rollback`] for a record that failed.
#[derive(Debug)]
pub struct TraceWriter<'w> {
    pub(crate) block: &'w mut BlockWriter,
    pub(crate) options: &'w RecordOptions,
    mark: Mark,
    position: Position,
    pub(crate) facts: Facts,
    pub(crate) first_event: usize,
    first_edge: usize,
    first_measure: usize,
    indexed: bool,
    pub(crate) group: Option<String>,
    pub(crate) unknown_costs: Vec<String>,
    pub(crate) carried: Carried,
    /// Why the trace cannot be held, whatever else is written.
    broken: Option<Box<Fault>>,
    /// Of each event the item that it was made of, where that is asked for.
    pub(crate) items: Vec<u32>,
}

/// Rows of side tables that a native document brings with it.
#[derive(Debug, Default)]
pub(crate) struct Carried {
    pub labels: Vec<CarriedLabel>,
    /// In place of those of the same code that reading finds.
    pub findings: Vec<Finding>,
}

/// A label of the trace itself.
#[derive(Debug, Default)]
pub(crate) struct CarriedLabel {
    pub annotator: String,
    pub event_id: Option<String>,
    pub turn: Option<u32>,
    pub agent: Option<String>,
    pub label: String,
    pub weight: Option<f64>,
}

/// An annotator's statement about a trace: one of its events, turns or agents, or the whole.
#[derive(Debug, Clone, Copy, Default)]
pub struct Label<'a> {
    /// Who says it.
    pub annotator: &'a str,
    /// The event that is meant, by its id.
    pub event_id: Option<&'a str>,
    /// The turn that is meant.
    pub turn: Option<u32>,
    /// The agent that is meant.
    pub agent: Option<&'a str>,
    /// What it is called.
    pub label: &'a str,
    /// How sure or how grave it is; finite.
    pub weight: Option<f64>,
}

/// The required fields of an event.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// Unique in the trace.
    pub id: &'a str,
    /// Time in the trace's basis.
    pub t: f64,
    /// Type.
    pub event_type: EventType,
    /// The agent, tool or user that acts.
    pub agent: &'a str,
}

impl BlockWriter {
    /// Begins a trace.
    pub(crate) fn begin<'w>(&'w mut self, options: &'w RecordOptions, position: Position) -> TraceWriter<'w> {
        let mark = Mark {
            labels: self.labels.len(),
            findings: self.findings.len(),
            names: std::array::from_fn(|i| self.dicts[i].len()),
        };
        let [first_event, first_edge, first_measure] = self.last_ends();
        TraceWriter {
            first_event: first_event as usize,
            first_edge: first_edge as usize,
            first_measure: first_measure as usize,
            block: self,
            options,
            mark,
            position,
            facts: Facts::default(),
            indexed: false,
            group: None,
            unknown_costs: Vec::new(),
            carried: Carried::default(),
            broken: None,
            items: Vec::new(),
        }
    }
}

impl TraceWriter<'_> {
    /// Number of events so far.
    #[must_use]
    pub fn n_events(&self) -> usize {
        self.block.events.t.len() - self.first_event
    }

    /// Says where the trace lies, where that is not where it begins.
    pub(crate) fn lies_at(&mut self, position: Position) {
        self.position = position;
    }

    /// Sets the external ids. They must be set exactly once, and neither is empty.
    pub fn ids(&mut self, trace_id: &str, task_id: &str) {
        for (name, id) in [("trace_id", trace_id), ("task_id", task_id)] {
            if id.is_empty() {
                self.breaks(RejectCode::FieldEmpty, || {
                    format!("found no {name}, expected at least one character")
                });
            }
        }
        let row = self.block.facts.len();
        self.block.trace_id.set(row, trace_id);
        self.block.task_id.set(row, task_id);
    }

    /// Sets the recording system.
    pub fn system(&mut self, system: &str) {
        self.facts.system = Some(self.block.dicts[Dict::System as usize].code(system));
    }

    /// Sets the topology.
    pub fn topology(&mut self, topology: Topology) {
        self.facts.topology = Some(topology);
    }

    /// Sets what `t` means; without it the costs and the numbers themselves decide.
    pub fn time_basis(&mut self, basis: TimeBasis) {
        self.facts.time_basis = Some(basis);
    }

    /// Marks the recording as ending before the run did.
    pub fn partial(&mut self) {
        self.facts.partial = true;
    }

    /// Notes that the trace cannot be held; [`Self::commit`] rejects it. The first reason counts.
    #[cold]
    fn breaks(&mut self, code: RejectCode, message: impl FnOnce() -> String) {
        if self.broken.is_none() {
            self.broken = Some(Fault::value(code, message()));
        }
    }

    /// Notes that a value was left out, since the store holds none of its kind.
    #[cold]
    fn refuses(&mut self, seq: Option<u32>, subject: &str, refusal: &str) {
        self.finding(FindingCode::ValueImpossible, seq, || {
            format!("{subject} {refusal}; the value was dropped")
        });
    }

    /// Adds an event; its `seq`. Without an id, an agent or a time from 0 on the trace is rejected.
    pub fn event(&mut self, event: Event<'_>) -> u32 {
        let seq = self.n_events();
        for (name, text) in [("id", event.id), ("agent", event.agent)] {
            if text.is_empty() {
                self.breaks(RejectCode::FieldEmpty, || {
                    format!("event {seq} has an empty {name}, expected at least one character")
                });
            }
        }
        let bound = Bound::of_field(EventField::T);
        if !bound.holds(event.t) {
            self.breaks(RejectCode::FieldMinimum, || format!("t of event {seq} {}", bound.refusal(event.t)));
        }
        let block = &mut *self.block;
        let row = block.events.t.len();
        block.events.id.set(row, event.id);
        block.events.t.push(event.t);
        block.events.types.push(event.event_type as u8);
        block.events.agent.push(block.dicts[Dict::Agent as usize].code(event.agent));
        (row - self.first_event) as u32
    }

    /// Says which item the last event was made of.
    #[inline]
    pub(crate) fn made_of(&mut self, item: u32) {
        if self.options.items {
            self.items.resize(self.n_events(), 0);
            if let Some(last) = self.items.last_mut() {
                *last = item;
            }
        }
    }

    /// The external id, once it is set.
    pub(crate) fn trace_id(&self) -> String {
        let ids = &self.block.trace_id;
        let view = ids.views(self.block.facts.len())[0].to_le_bytes();
        String::from_utf8_lossy(ids.bytes(&view)).into_owned()
    }

    /// Sets an optional field of the last event. A value that the store does not hold is left out, with a finding.
    pub fn set(&mut self, field: EventField, value: Value<'_>) {
        let refusal = match value {
            Value::F64(v) if !Bound::of_field(field).holds(v) => Some(Bound::of_field(field).refusal(v)),
            Value::I64(v) if v < 0 => Some(Bound::NotNegative.refusal(v as f64)),
            Value::List(v) => gate::odd_element(v).map(|at| Bound::Finite.refusal(v[at])),
            _ => None,
        };
        if let Some(refusal) = refusal {
            let seq = (self.n_events() as u32).checked_sub(1);
            return self.refuses(seq, &format!("'{}'", field.as_str()), &refusal);
        }
        let block = &mut *self.block;
        let row = block.events.t.len() - 1;
        match (block.events.optional(field), value) {
            (OptionalColumn::F64(c), Value::F64(v)) => c.set(row, v),
            (OptionalColumn::I64(c), Value::I64(v)) => c.set(row, v),
            (OptionalColumn::U32(c), Value::U32(v)) => c.set(row, v),
            (OptionalColumn::Flag(c), Value::Bool(v)) => c.set(row, v),
            (OptionalColumn::Text(c), Value::Text(v)) => c.set(row, v),
            (OptionalColumn::List(c), Value::List(v)) => c.set(row, v),
            (OptionalColumn::Code(c, dict), Value::Text(v)) => {
                c.set(row, block.dicts[*dict as usize].code(v));
            }
            (_, value) => debug_assert!(false, "{field:?} cannot hold {value:?}"),
        }
    }

    /// Adds an edge between two events of this trace that are written, by `seq`.
    #[inline(always)]
    pub fn edge(&mut self, src: u32, dst: u32, edge_type: EdgeType) {
        if src.max(dst) as usize >= self.n_events() {
            return self.no_such_event(src.max(dst));
        }
        if self.block.keep.edges {
            self.block.src.push(src);
            self.block.dst.push(dst);
            self.block.edge_types.push(edge_type as u8);
        }
    }

    #[cold]
    fn no_such_event(&mut self, seq: u32) {
        self.breaks(RejectCode::EdgeUnknown, || {
            format!("an edge names event {seq}, which the trace does not have")
        });
    }

    /// Takes the events' ids, so that edges can be resolved; an id that occurs twice is a fault.
    pub fn index_ids(&mut self) -> Parsed<()> {
        self.indexed = true;
        let block = &mut *self.block;
        block.ids.build(&block.events.id, self.first_event).map_err(|(earlier, later)| {
            let view = block.events.id.views(self.first_event)[later as usize].to_le_bytes();
            let id = String::from_utf8_lossy(block.events.id.bytes(&view)).into_owned();
            Fault::value(
                RejectCode::IdDuplicate,
                format!("event id '{}' is already the id of events[{earlier}]", id.escape_debug()),
            )
            .under("id")
            .at_index(later as usize)
        })
    }

    /// Position of an event id; ids must have been indexed.
    #[inline]
    #[must_use]
    pub fn resolve(&self, id: &str) -> Option<u32> {
        self.block.ids.find(&self.block.events.id, id)
    }

    /// The same for an id as it stands in a record.
    #[inline(always)]
    #[must_use]
    pub fn resolve_str(&self, id: &Str<'_>, scratch: &mut String) -> Option<u32> {
        self.block.ids.find_str(&self.block.events.id, id, scratch)
    }

    /// Adds a reward, cost or metric, each name once a kind. A value that the store does not hold is left out, with a
    /// finding; so is one that `null_values` names, where it would be a reward.
    pub fn measure(&mut self, kind: MeasureKind, name: &str, value: f64) {
        if self.options.is_null(name, value) {
            if kind == MeasureKind::Reward {
                self.unscored(name, value);
            }
            return;
        }
        let bound = Bound::of_measure(kind);
        if !bound.holds(value) {
            let subject = format!("the {} '{name}'", kind.as_str());
            return self.refuses(None, &subject, &bound.refusal(value));
        }
        let code = self.block.dicts[Dict::Measure as usize].code(name);
        self.block.measure_kinds.push(kind as u8);
        self.block.measure_names.push(code);
        self.block.measure_values.push(value);
    }

    /// Says that the outcome of the trace is not known, since its source has a number that stands for that.
    pub(crate) fn unscored(&mut self, name: &str, value: f64) {
        self.finding(FindingCode::RewardUnscored, None, || {
            let name = crate::error::printable(name);
            format!("'{name}' is {value}, one of the null_values of this name: the outcome is not known")
        });
    }

    /// Removes the costs that an exporter had to write as zero although they were unknown.
    fn forget_unknown_costs(&mut self) {
        let mut names = std::mem::take(&mut self.unknown_costs);
        if names.is_empty() {
            return;
        }
        // Sorted: a record may name a million costs, and have as many.
        names.sort_unstable();
        let block = &mut *self.block;
        let dict = &block.dicts[Dict::Measure as usize];
        let mut written = self.first_measure;
        for row in self.first_measure..block.measure_names.len() {
            let unknown = block.measure_kinds[row] == MeasureKind::Cost as u8
                && block.measure_values[row] == 0.0
                && names.binary_search_by(|n| n.as_str().cmp(dict.name(block.measure_names[row]))).is_ok();
            if !unknown {
                block.measure_kinds[written] = block.measure_kinds[row];
                block.measure_names[written] = block.measure_names[row];
                block.measure_values[written] = block.measure_values[row];
                written += 1;
            }
        }
        block.measure_kinds.truncate(written);
        block.measure_names.truncate(written);
        block.measure_values.truncate(written);
    }

    /// Adds what an annotator said about the trace.
    pub fn label(&mut self, trace_id: &str, stated: &Label<'_>) {
        let Label { annotator, event_id, turn, agent, label, weight } = *stated;
        if let Some(odd) = weight.filter(|weight| !Bound::Finite.holds(*weight)) {
            self.refuses(None, &format!("the weight of the label '{label}'"), &Bound::Finite.refusal(odd));
        }
        let weight = weight.filter(|weight| Bound::Finite.holds(*weight));
        let row = LabelRow {
            trace: self.block.facts.len() as u32,
            trace_id: trace_id.to_owned(),
            annotator: self.block.dicts[Dict::Annotator as usize].code(annotator),
            event_id: event_id.map(str::to_owned),
            turn,
            agent: agent.map(str::to_owned),
            label: self.block.dicts[Dict::Label as usize].code(label),
            weight,
        };
        self.block.labels.push(row);
    }

    /// Notes something odd; further ones of the same code are counted, the first place is kept.
    pub fn finding(&mut self, code: FindingCode, seq: Option<u32>, message: impl FnOnce() -> String) {
        self.finding_of(code, 1, seq, message);
    }

    /// The same of so many things.
    pub(crate) fn finding_of(
        &mut self,
        code: FindingCode,
        count: u32,
        seq: Option<u32>,
        message: impl FnOnce() -> String,
    ) {
        let trace = self.block.facts.len() as u32;
        let rows = &mut self.block.findings[self.mark.findings..];
        if let Some((_, finding)) = rows.iter_mut().find(|(_, f)| f.code == code) {
            finding.count = finding.count.saturating_add(count);
            finding.seq = finding.seq.or(seq);
        } else {
            let message = crate::error::capped(message());
            self.block.findings.push((trace, Finding { code, count, seq, message }));
        }
    }

    /// Says that another id of the source leads to the trace: a row for each.
    pub(crate) fn joined(&mut self, id: &str) {
        let trace = self.block.facts.len() as u32;
        let message =
            crate::error::capped(format!("'{}' is part of this trace", crate::error::printable(id)));
        self.block
            .findings
            .push((trace, Finding { code: FindingCode::TraceJoined, count: 1, seq: None, message }));
    }

    /// The event id of a `seq`, for labels.
    #[must_use]
    pub fn event_id(&self, seq: u32) -> String {
        let view = self.block.events.id.views(self.first_event)[seq as usize].to_le_bytes();
        String::from_utf8_lossy(self.block.events.id.bytes(&view)).into_owned()
    }

    /// Whether the trace can be held: nothing that every trace has is missing from it, and its ids are unique.
    pub(crate) fn judge(&mut self) -> Parsed<()> {
        if let Some(fault) = self.broken.take() {
            return Err(fault);
        }
        if self.indexed { Ok(()) } else { self.index_ids().map_err(|fault| fault.under("events")) }
    }

    /// Accepts the trace: checks what holds for every format and settles group and time basis.
    pub(crate) fn commit(&mut self, importer: &'static str) -> Parsed<()> {
        if self.n_events() == 0 {
            return Err(Fault::value(RejectCode::FieldEmpty, "found no events, expected at least one")
                .under("events"));
        }
        self.judge()?;
        self.forget_unknown_costs();
        self.settle_tokens();
        self.settle_carried();
        if self.block.keep.facts {
            self.settle_group();
            let basis =
                self.facts.time_basis.or(self.options.time_basis).unwrap_or_else(|| self.guess_time_basis());
            self.facts.time_basis = Some(basis);
        }
        let block = &mut *self.block;
        if self.facts.importer.is_none() {
            self.facts.importer = Some(block.dicts[Dict::Importer as usize].code(importer));
        }
        block.facts.push(self.facts);
        block.positions.push(self.position);
        block.ends.push([
            block.events.t.len() as u32,
            block.src.len() as u32,
            block.measure_names.len() as u32,
        ]);
        Ok(())
    }

    /// Adds the rows that came with the document, now that its id is known.
    fn settle_carried(&mut self) {
        if self.carried.labels.is_empty() && self.carried.findings.is_empty() {
            return;
        }
        let Carried { labels, findings } = std::mem::take(&mut self.carried);
        let trace = self.block.facts.len();
        for finding in findings {
            let carried = &mut self.block.findings;
            let first = self.mark.findings;
            let same = carried[first..].iter().position(|(_, f)| f.is_row_of(&finding));
            match same {
                Some(at) => carried[first + at].1 = finding,
                None => carried.push((trace as u32, finding)),
            }
        }
        let view = self.block.trace_id.views(trace).first().map(|view| view.to_le_bytes());
        let id = view.map(|view| String::from_utf8_lossy(self.block.trace_id.bytes(&view)).into_owned());
        for row in labels {
            let label = Label {
                annotator: &row.annotator,
                event_id: row.event_id.as_deref(),
                turn: row.turn,
                agent: row.agent.as_deref(),
                label: &row.label,
                weight: row.weight,
            };
            self.label(id.as_deref().unwrap_or_default(), &label);
        }
    }

    /// Group of the trace: the first `group_id` of an event in canonical order, else the task
    /// (docs/reference/definitions.md, D1 and D13).
    fn settle_group(&mut self) {
        let row = self.block.facts.len();
        if let Some(group) = self.group.take() {
            self.block.group_id.set(row, &group);
            return;
        }
        let first_event = self.first_event;
        let events = &self.block.events;
        let OptionalColumn::Text(column) = events.column(EventField::GroupId) else { return };
        let named = || {
            let views = column.views(first_event).iter().enumerate();
            views.filter(|(seq, _)| column.is_set(first_event + seq))
        };
        let text = |view: &u128| String::from_utf8_lossy(column.bytes(&view.to_le_bytes())).into_owned();
        // Of equal times the first in the document is the minimum.
        let t = &events.t[first_event..];
        if let Some((_, first)) =
            named().min_by(|(a, _), (b, _)| t[*a].partial_cmp(&t[*b]).unwrap_or(Ordering::Equal))
        {
            let group = text(first);
            let is_other = |view: &u128| column.bytes(&view.to_le_bytes()) != group.as_bytes();
            let others: Vec<(usize, String)> =
                named().filter(|(_, view)| is_other(view)).map(|(seq, view)| (seq, text(view))).collect();
            self.block.group_id.set(row, &group);
            for (seq, other) in others {
                self.finding(FindingCode::GroupConflict, Some(seq as u32), || {
                    format!("found group_id '{other}' beside '{group}'; '{group}' is used")
                });
            }
        } else {
            let view = self.block.task_id.views(row)[0].to_le_bytes();
            let task = String::from_utf8_lossy(self.block.task_id.bytes(&view)).into_owned();
            self.block.group_id.set(row, &task);
        }
    }

    /// `seconds` if the spread of `t` is within 5 % of the wall clock, else `ordinal` if every `t` is an
    /// integer, else `unknown`.
    fn guess_time_basis(&self) -> TimeBasis {
        let t = &self.block.events.t[self.first_event..];
        let (low, high) =
            t.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(*x), h.max(*x)));
        let wall = (self.first_measure..self.block.measure_names.len())
            .filter(|row| self.block.measure_kinds[*row] == MeasureKind::Cost as u8)
            .find(|row| {
                self.block.dicts[Dict::Measure as usize].name(self.block.measure_names[*row])
                    == "wall_clock_s"
            })
            .map(|row| self.block.measure_values[row]);
        match wall {
            Some(wall) if wall > 0.0 && ((high - low) - wall).abs() <= 0.05 * wall => TimeBasis::Seconds,
            _ if t.iter().all(|x| x.fract() == 0.0) => TimeBasis::Ordinal,
            _ => TimeBasis::Unknown,
        }
    }

    /// Whether somebody's labels were written.
    pub(crate) fn has_labels(&self) -> bool {
        self.block.labels.len() > self.mark.labels
    }

    /// Leaves nothing but the labels, which then are of no trace that is here.
    pub(crate) fn labels_alone(mut self) {
        let rows = self.block.labels.split_off(self.mark.labels);
        let name = |dict: Dict, code| self.block.dicts[dict as usize].name(code).to_owned();
        let named: Vec<(String, String, LabelRow)> = rows
            .into_iter()
            .map(|row| (name(Dict::Annotator, row.annotator), name(Dict::Label, row.label), row))
            .collect();
        self.undo();
        for (annotator, label, row) in named {
            let annotator = self.block.dicts[Dict::Annotator as usize].code(&annotator);
            let label = self.block.dicts[Dict::Label as usize].code(&label);
            self.block.labels.push(LabelRow { trace: NO_TRACE, annotator, label, ..row });
        }
    }

    /// Leaves nothing of the trace.
    pub(crate) fn rollback(mut self) {
        self.undo();
    }

    fn undo(&mut self) {
        let block = &mut *self.block;
        let traces = block.facts.len();
        block.events.truncate(self.first_event);
        block.src.truncate(self.first_edge);
        block.dst.truncate(self.first_edge);
        block.edge_types.truncate(self.first_edge);
        block.measure_kinds.truncate(self.first_measure);
        block.measure_names.truncate(self.first_measure);
        block.measure_values.truncate(self.first_measure);
        block.trace_id.truncate(traces);
        block.task_id.truncate(traces);
        block.group_id.truncate(traces);
        block.labels.truncate(self.mark.labels);
        block.findings.truncate(self.mark.findings);
        for (dict, len) in block.dicts.iter_mut().zip(self.mark.names) {
            dict.truncate(len);
        }
        block.recent.iter_mut().for_each(Recent::forget);
    }

    /// Writes a value into a lifted column of the event that is being read; whether its type fits.
    pub(crate) fn lift(&mut self, column: usize, value: Value<'_>) -> bool {
        self.lift_at(self.block.events.t.len(), column, value)
    }

    /// The same for the last event that was added.
    pub(crate) fn lift_last(&mut self, column: usize, value: Value<'_>) -> bool {
        self.lift_at(self.block.events.t.len() - 1, column, value)
    }

    fn lift_at(&mut self, row: usize, column: usize, value: Value<'_>) -> bool {
        if let Value::F64(v) = value
            && !Bound::Finite.holds(v)
        {
            return false;
        }
        match (&mut self.block.events.lifted[column], value) {
            (OptionalColumn::F64(c), Value::F64(v)) => c.set(row, v),
            (OptionalColumn::I64(c), Value::I64(v)) => c.set(row, v),
            (OptionalColumn::Flag(c), Value::Bool(v)) => c.set(row, v),
            (OptionalColumn::Text(c), Value::Text(v)) => c.set(row, v),
            _ => return false,
        }
        true
    }
}
