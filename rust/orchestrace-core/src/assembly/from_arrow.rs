//! A store from external tables: from another engine, or from a corpus with changed columns.
//! It repeats all checks of reading.

use std::collections::HashSet;
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::TimestampNanosecondType;
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;
use rayon::prelude::*;

use super::assemble;
use crate::columns::LiftKind;
use crate::columns::RawChunk;
use crate::columns::RecordOptions;
use crate::columns::block::BlockWriter;
use crate::columns::chunk::Segment;
use crate::columns::column::NO_CODE;
use crate::columns::gate::Bound;
use crate::columns::quarantine::Position;
use crate::columns::writer::TraceWriter;
use crate::error::{Error, Finding, FindingCode, Result, printable};
use crate::run::Run;
use crate::schema::{
    Dict, EDGES, EVENTS, EdgeType, FINDINGS, LABELS, MEASURES, MeasureKind, QUARANTINE, RECORD_COUNTS,
    TRACES, Table, TimeBasis, Topology,
};
use crate::store::{SetAside, Store};

mod by_column;
mod by_row;
mod codes;
mod side_tables;
mod table_reader;

use by_column::{Events, words};
pub use codes::Codes;
use side_tables::{counted, files_of, side_tables};
use table_reader::{TableReader, is_text};

/// Tables of a corpus, each in one batch, with the columns of the schema in any order. Of `traces` only
/// `trace trace_id task_id` are needed, of `events` the columns up to `agent`; columns of `events` that the
/// schema does not know are kept as lifted ones.
#[derive(Debug, Clone)]
pub struct Tables {
    /// Table `traces`, ascending by `trace`.
    pub traces: RecordBatch,
    /// Table `events`, by trace, in `seq` order.
    pub events: RecordBatch,
    /// Table `edges`, by trace.
    pub edges: RecordBatch,
    /// Table `measures`, by trace.
    pub measures: Option<RecordBatch>,
    /// Table `labels`.
    pub labels: Option<RecordBatch>,
    /// Table `findings`; those that follow from the other tables are found again, the others kept.
    pub findings: Option<RecordBatch>,
    /// Table `quarantine`.
    pub quarantine: Option<RecordBatch>,
    /// Table `record_counts`; without it a record is a trace or a row of the quarantine.
    pub record_counts: Option<RecordBatch>,
}

/// How tables are taken over; by default they are unchecked, and an error in one trace fails the call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Taking {
    /// Traces that the store cannot hold are left out, and listed in [`Store::set_aside`].
    pub set_aside: bool,
    /// Texts are known to be UTF-8 and codes to have a word, since a reader of files judged them.
    pub judged: bool,
}

/// Events that one worker takes at a time.
const CHUNK_EVENTS: usize = 16 << 10;

impl Store {
    /// Checks the tables and takes them over. O(events + edges); text is copied.
    pub fn from_arrow(tables: &Tables, run: &Run) -> Result<Store> {
        Self::from_arrow_as(tables, Taking::default(), run)
    }

    /// The same of tables of which something is known, or of which bad traces are to be left out.
    pub fn from_arrow_as(tables: &Tables, taking: Taking, run: &Run) -> Result<Store> {
        if !taking.judged {
            tables.judge_texts()?;
        }
        let traces = TableReader::new(&TRACES, &tables.traces, 3)?;
        let events = TableReader::new(&EVENTS, &tables.events, 6)?;
        let edges = TableReader::new(&EDGES, &tables.edges, 4)?;
        let measures = tables.measures.as_ref().map(|b| TableReader::new(&MEASURES, b, 4)).transpose()?;
        let findings = tables.findings.as_ref().map(|b| TableReader::new(&FINDINGS, b, 3)).transpose()?;
        let options = RecordOptions { fields: lifted_fields(&tables.events)?, ..RecordOptions::default() };
        let numbers = traces.u32s("trace")?;
        if let Some(i) = (1..numbers.len()).find(|i| numbers[i - 1] >= numbers[*i]) {
            return Err(Error::Schema(format!(
                "traces.trace goes from {} to {}, expected ascending, distinct numbers",
                numbers[i - 1],
                numbers[i]
            )));
        }
        let spans = Spans {
            events: events.spans(numbers)?,
            edges: edges.spans(numbers)?,
            measures: measures.as_ref().map(|m| m.spans(numbers)).transpose()?,
            findings: findings.as_ref().map(|f| f.spans(numbers)).transpose()?,
        };
        let lifted =
            options.fields.iter().filter_map(|(name, _)| tables.events.column_by_name(name)).collect();
        let edge_types = edges.column("type").and_then(|types| {
            words(types, 0..edges.rows, |word| EdgeType::parse(word).map(|edge_type| edge_type as u8))
        });
        let builder = Builder {
            traces,
            events,
            edges,
            edge_types,
            measures,
            findings,
            spans,
            lifted,
            options: &options,
            numbers,
        };
        let pieces = run.pool().install(|| {
            builder
                .pieces()
                .into_par_iter()
                .map_init(
                    || BlockWriter::new(&options),
                    |writer, (index, from, to)| {
                        run.check()?;
                        builder.piece(index, from..to, taking, writer)
                    },
                )
                .collect::<Result<Vec<(RawChunk, Vec<SetAside>)>>>()
        })?;
        let (mut raw, aside): (Vec<RawChunk>, Vec<Vec<SetAside>>) = pieces.into_iter().unzip();
        let mut aside: Vec<SetAside> = aside.into_iter().flatten().collect();
        let files = files_of(tables);
        raw.extend(side_tables(tables, &files, &options, taking, &mut aside)?);
        if let Some(batch) = &tables.record_counts {
            // They say it all: rows of other tables are not counted beside them.
            for chunk in &mut raw {
                chunk.segments.iter_mut().for_each(|segment| segment.tallies = Some(Vec::new()));
            }
            raw.push(counted(&TableReader::new(&RECORD_COUNTS, batch, 5)?, &files, &options)?);
        }
        let mut store = assemble(raw, &files, &options, run)?;
        store.set_aside = aside;
        Ok(store)
    }
}

impl Tables {
    /// Whether what is said to be text is UTF-8, and every code of a dictionary is that of a word: whoever hands a table
    /// over only promises it. O(bytes).
    fn judge_texts(&self) -> Result<()> {
        let tables = [
            (&TRACES, Some(&self.traces)),
            (&EVENTS, Some(&self.events)),
            (&EDGES, Some(&self.edges)),
            (&MEASURES, self.measures.as_ref()),
            (&LABELS, self.labels.as_ref()),
            (&FINDINGS, self.findings.as_ref()),
            (&QUARANTINE, self.quarantine.as_ref()),
            (&RECORD_COUNTS, self.record_counts.as_ref()),
        ];
        for (table, batch) in tables.into_iter().filter_map(|(table, batch)| Some((table, batch?))) {
            for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
                if is_text(field.data_type())
                    && let Err(error) = column.to_data().validate_full()
                {
                    let reason = printable(&error.to_string()).into_owned();
                    return Err(Error::Schema(format!(
                        "{}.{} is not valid text: {reason}; expected UTF-8",
                        table.name,
                        printable(field.name())
                    )));
                }
            }
        }
        Ok(())
    }
}

struct Spans {
    events: Vec<usize>,
    edges: Vec<usize>,
    measures: Option<Vec<usize>>,
    findings: Option<Vec<usize>>,
}

struct Builder<'a> {
    traces: TableReader<'a>,
    events: TableReader<'a>,
    edges: TableReader<'a>,
    /// Absent where a row has no word for its type, or words are plain text.
    edge_types: Option<Vec<u8>>,
    measures: Option<TableReader<'a>>,
    findings: Option<TableReader<'a>>,
    spans: Spans,
    lifted: Vec<&'a ArrayRef>,
    options: &'a RecordOptions,
    numbers: &'a [u32],
}

impl Builder<'_> {
    /// Runs of traces with about as many events each.
    fn pieces(&self) -> Vec<(u64, usize, usize)> {
        let mut pieces = Vec::new();
        let mut from = 0;
        for to in 1..=self.numbers.len() {
            if to == self.numbers.len() || self.spans.events[to] - self.spans.events[from] >= CHUNK_EVENTS {
                pieces.push((pieces.len() as u64, from, to));
                from = to;
            }
        }
        pieces
    }

    /// A run of traces as a block: column by column if that can be, else event by event.
    fn piece(
        &self,
        index: u64,
        traces: Range<usize>,
        taking: Taking,
        writer: &mut BlockWriter,
    ) -> Result<(RawChunk, Vec<SetAside>)> {
        let rows = self.spans.events[traces.start]..self.spans.events[traces.end];
        // What no group is given for gets that of its events, which are then looked at one by one.
        let groups = self.traces.column("group_id");
        if groups.is_some_and(|groups| groups.slice(traces.start, traces.len()).logical_null_count() == 0)
            && let Some(events) = self.events_by_column(rows, writer)
            && let Ok(piece) = self.block(index, traces.clone(), Some(&events), Taking::default(), writer)
        {
            return Ok(piece);
        }
        *writer = BlockWriter::new(self.options); // nothing stays of what was tried
        self.block(index, traces, None, taking, writer)
    }

    fn block(
        &self,
        index: u64,
        traces: Range<usize>,
        events: Option<&Events<'_>>,
        taking: Taking,
        writer: &mut BlockWriter,
    ) -> Result<(RawChunk, Vec<SetAside>)> {
        let mut files = Vec::with_capacity(traces.len());
        let mut numbers = Vec::with_capacity(traces.len());
        let mut aside = Vec::new();
        for trace in traces {
            let position = Position {
                line: self.traces.u64("line", trace).unwrap_or(0),
                offset: self.traces.u64("offset", trace).unwrap_or(0),
                length: self.traces.u64("length", trace).unwrap_or(0),
            };
            let file = match self.traces.text("file", trace) {
                Some(file) => writer.dicts[Dict::File as usize].code(file),
                None => NO_CODE,
            };
            let mut out = writer.begin(self.options, position);
            let outcome = self.trace(trace, events, &mut out).and_then(|()| {
                out.commit("arrow").map_err(|fault| {
                    let reject = fault.into_reject();
                    Error::Schema(format!(
                        "trace {}: {}: {}",
                        self.numbers[trace], reject.path, reject.message
                    ))
                })
            });
            match outcome {
                Ok(()) => {
                    files.push(file);
                    numbers.push(self.numbers[trace]);
                }
                Err(Error::Schema(message)) if taking.set_aside => {
                    out.rollback();
                    aside.push(SetAside { trace: Some(self.numbers[trace]), message });
                }
                Err(error) => return Err(error),
            }
        }
        let traces = numbers.len();
        let segment =
            Segment { index, absolute_lines: true, records: traces as u64, traces, ..Segment::default() };
        if events.is_some() {
            writer.events.id.truncate(0); // they come as they are
        }
        let mut chunk = writer.finish(vec![segment])?;
        if let Some(events) = events {
            events.add_arrays(&mut chunk);
        }
        chunk.numbers = Some(numbers);
        chunk.files = Some(files);
        Ok((chunk, aside))
    }

    fn trace(&self, trace: usize, events: Option<&Events<'_>>, out: &mut TraceWriter<'_>) -> Result<()> {
        let traces = &self.traces;
        let ids =
            ["trace_id", "task_id"].map(|column| (column, traces.text(column, trace).unwrap_or_default()));
        if let Some((column, _)) = ids.iter().find(|(_, id)| id.is_empty()) {
            return Err(self.fault(&TRACES, column, trace, trace, "is empty"));
        }
        out.ids(ids[0].1, ids[1].1);
        if let Some(system) = traces.text("system", trace) {
            out.system(system);
        }
        out.facts.topology = traces.word("topology", trace, Topology::parse)?;
        out.facts.time_basis = traces.word("time_basis", trace, TimeBasis::parse)?;
        out.facts.partial =
            traces.column("partial").is_some_and(|c| c.is_valid(trace) && c.as_boolean().value(trace));
        out.facts.started_at = traces
            .column("started_at")
            .filter(|c| c.is_valid(trace))
            .map(|c| c.as_primitive::<TimestampNanosecondType>().value(trace));
        if let Some(importer) = traces.text("importer", trace) {
            out.facts.importer = Some(out.block.dicts[Dict::Importer as usize].code(importer));
        }
        out.group = traces.text("group_id", trace).map(str::to_owned);
        let rows = self.spans.events[trace]..self.spans.events[trace + 1];
        match events {
            Some(events) => events
                .write(rows.clone(), out)
                .ok_or_else(|| self.fault(&EVENTS, "id", trace, rows.start, "is empty"))?,
            None => rows.clone().try_for_each(|row| self.event(trace, row, row - rows.start, out))?,
        }
        let n = out.n_events() as u32;
        let (sources, targets) = (self.edges.u32s("src")?, self.edges.u32s("dst")?);
        for row in self.spans.edges[trace]..self.spans.edges[trace + 1] {
            let (src, dst) = (sources[row], targets[row]);
            if src.max(dst) >= n {
                return Err(Error::Schema(format!(
                    "edge {src} -> {dst} of trace {} names an event that the trace, with {n} events, does not have",
                    self.numbers[trace]
                )));
            }
            let edge_type = match &self.edge_types {
                Some(types) => EdgeType::from_code(types[row]),
                None => self.edges.word("type", row, EdgeType::parse)?,
            };
            out.edge(src, dst, edge_type.unwrap_or(EdgeType::Temporal));
        }
        self.measures(trace, out)?;
        self.findings(trace, out)
    }

    fn measures(&self, trace: usize, out: &mut TraceWriter<'_>) -> Result<()> {
        let (Some(measures), Some(spans)) = (&self.measures, &self.spans.measures) else { return Ok(()) };
        let rows = spans[trace]..spans[trace + 1];
        let mut seen = Vec::with_capacity(rows.len());
        for row in rows {
            let fault =
                |column: &str, refusal: String| Err(self.fault(&MEASURES, column, trace, row, &refusal));
            let Some(kind) = measures.word("kind", row, MeasureKind::parse)? else {
                return fault("kind", "is null".into());
            };
            let Some(name) = measures.text("name", row) else { return fault("name", "is null".into()) };
            let value = measures.f64("value", row).unwrap_or(f64::NAN);
            if !Bound::of_measure(kind).holds(value) {
                return fault("value", Bound::of_measure(kind).refusal(value));
            }
            out.measure(kind, name, value);
            seen.extend(out.block.measure_names.last().map(|name| (kind as u8, *name, row)));
        }
        seen.sort_unstable();
        if let Some(pair) = seen.windows(2).find(|p| (p[0].0, p[0].1) == (p[1].0, p[1].1)) {
            let (kind, name, row) = pair[1];
            let refusal = format!(
                "repeats '{}', already a {} of the trace in row {}",
                out.block.dicts[Dict::Measure as usize].name(name).escape_debug(),
                MeasureKind::from_code(kind).map_or("measure", MeasureKind::as_str),
                pair[0].2
            );
            return Err(self.fault(&MEASURES, "name", trace, row, &refusal));
        }
        Ok(())
    }

    fn findings(&self, trace: usize, out: &mut TraceWriter<'_>) -> Result<()> {
        let (Some(findings), Some(spans)) = (&self.findings, &self.spans.findings) else { return Ok(()) };
        // A group that is not given is settled from the events again, and so is what contradicts it.
        let regrouped = out.group.is_none();
        let local = out.block.facts.len() as u32;
        let first = out.block.findings.len();
        for row in spans[trace]..spans[trace + 1] {
            let code =
                findings.word("code", row, |w| FindingCode::ALL.iter().copied().find(|c| c.as_str() == w))?;
            let count = findings.u32("count", row).unwrap_or(0);
            if count == 0 {
                return Err(self.fault(&FINDINGS, "count", trace, row, "is 0, expected at least 1"));
            }
            let Some(code) =
                code.filter(|c| !(is_derived(*c) || regrouped && *c == FindingCode::GroupConflict))
            else {
                continue;
            };
            let message = findings.text("message", row).unwrap_or_default().to_owned();
            let finding = Finding { code, count, seq: findings.u32("seq", row), message };
            match out.block.findings[first..].iter_mut().find(|(_, known)| known.is_row_of(&finding)) {
                Some((_, known)) => known.count = known.count.saturating_add(count),
                None => out.block.findings.push((local, finding)),
            }
        }
        Ok(())
    }

    /// What is wrong with a value, in one line.
    #[cold]
    fn fault(&self, table: &Table, column: &str, trace: usize, row: usize, problem: &str) -> Error {
        Error::Schema(format!(
            "{}.{column} of trace {} (row {row}) {problem}",
            table.name, self.numbers[trace]
        ))
    }
}

/// Findings that a store makes itself; which ids are repeated is known where files are read.
fn is_derived(code: FindingCode) -> bool {
    code.is_derived() && code != FindingCode::TraceIdReused
}

fn lifted_fields(events: &RecordBatch) -> Result<Vec<(String, LiftKind)>> {
    let schema = events.schema_ref();
    let unknown = schema.fields().iter().filter(|f| EVENTS.index(f.name()).is_none());
    let mut seen = HashSet::new();
    unknown
        .map(|field| {
            if field.name().contains('\0') {
                return Err(Error::Schema(format!(
                    "the name of column events.{} contains NUL, so no table with it can be exported",
                    printable(field.name())
                )));
            }
            if field.name() == "x_trace" {
                return Err(Error::Schema(
                    "column events.x_trace cannot be lifted: the export writes it from table traces".into(),
                ));
            }
            if !seen.insert(field.name()) {
                return Err(Error::Schema(format!("column events.{} occurs twice", field.name())));
            }
            let kind = match field.data_type() {
                DataType::Float64 => LiftKind::F64,
                DataType::Int64 => LiftKind::I64,
                DataType::Boolean => LiftKind::Bool,
                kind if is_text(kind) => LiftKind::Text,
                kind => {
                    return Err(Error::Schema(format!(
                        "column events.{} is not in the schema and has type {kind}, expected text, Int64, Float64 or \
                         Boolean",
                        field.name()
                    )));
                }
            };
            Ok((field.name().clone(), kind))
        })
        .collect()
}
