//! Tables back to the survey's JSON, one document a line: what was read comes out again, up to the order
//! of keys and the spelling of numbers.

use std::io::{self, Write};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType, UInt8Type, UInt32Type};
use arrow_schema::DataType;
use rayon::prelude::*;

use super::arrays::{text_at, text_of};
use super::{Chunk, Store};
use crate::error::{Error, Result};
use crate::importers::outer_keys;
use crate::ingest::json::write_string;
use crate::ingest::time::format_timestamp;
use crate::run::Run;
use crate::schema::{MeasureKind, TimeBasis};

/// Writes all traces in order; the number of documents written.
///
/// Facts that the schema has no place for (group, time basis, absolute start, importer, costs that are
/// not known) go onto the first event as `x_trace`, unless the trace was read with one.
pub fn write_jsonl(store: &Store, sink: &mut dyn Write, run: &Run) -> Result<u64> {
    let threads = run.pool().current_num_threads();
    let mut written = 0;
    run.expect(store.n_traces() as u64);
    // A few chunks at a time: memory stays bounded and the order is that of the store.
    for group in store.chunks().chunks(threads) {
        run.check()?;
        let texts: Vec<Vec<u8>> = run.pool().install(|| {
            group
                .par_iter()
                .map(|chunk| {
                    let writer = ChunkWriter::new(chunk);
                    let mut out = Vec::new();
                    for trace in 0..chunk.n_traces() {
                        writer.trace(trace, &mut out);
                        out.push(b'\n');
                    }
                    out
                })
                .collect()
        });
        for text in texts {
            sink.write_all(&text).map_err(write_error)?;
        }
        let traces: usize = group.iter().map(Chunk::n_traces).sum();
        run.advance(traces as u64);
        written += traces as u64;
    }
    sink.flush().map_err(write_error)?;
    Ok(written)
}

fn write_error(source: io::Error) -> Error {
    Error::Io { path: "output".into(), source }
}

struct ChunkWriter<'a> {
    chunk: &'a Chunk,
}

/// Writes members of an object.
struct Members<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl<'a> Members<'a> {
    fn open(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, first: true }
    }

    fn key(&mut self, key: &str) -> &mut Vec<u8> {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
        write_string(key, self.out);
        self.out.push(b':');
        self.out
    }

    fn text(&mut self, key: &str, text: &str) {
        let out = self.key(key);
        write_string(text, out);
    }

    fn number(&mut self, key: &str, value: f64) {
        let out = self.key(key);
        write_f64(value, out);
    }

    fn close(self) {
        self.out.push(b'}');
    }
}

/// The shortest spelling that reads back as the same float; whole numbers without a decimal point.
fn write_f64(value: f64, out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let _infallible =
        if value.abs() < 1e15 && value.fract() == 0.0 && !(value == 0.0 && value.is_sign_negative()) {
            write!(out, "{}", value as i64)
        } else {
            write!(out, "{value:?}")
        };
}

impl<'a> ChunkWriter<'a> {
    fn new(chunk: &'a Chunk) -> Self {
        Self { chunk }
    }

    fn trace(&self, trace: usize, out: &mut Vec<u8>) {
        let traces = &self.chunk.traces;
        let mut doc = Members::open(out);
        for name in ["trace_id", "task_id", "system", "topology"] {
            if let Some(text) = text_of(traces, name, trace) {
                doc.text(name, text);
            }
        }
        let [event, edge, measure] = self.chunk.starts[trace];
        let [event_end, edge_end, measure_end] = self.chunk.starts[trace + 1].map(|x| x as usize);
        let measures = measure as usize..measure_end;
        let unknown: Vec<&str> = ["tokens", "wall_clock_s"]
            .into_iter()
            .filter(|name| !measures.clone().any(|row| self.measure(row) == (MeasureKind::Cost, name)))
            .collect();
        let facts = self.facts(trace, &unknown);
        let list = doc.key("events");
        list.push(b'[');
        for row in event as usize..event_end {
            if row > event as usize {
                list.push(b',');
            }
            self.event(row, facts.as_deref().filter(|_| row == event as usize), list);
        }
        list.push(b']');
        let list = doc.key("edges");
        list.push(b'[');
        let ids = self.chunk.events.column(2).as_string_view();
        let (src, dst) = (self.chunk.edges.column(1), self.chunk.edges.column(2));
        for row in edge as usize..edge_end {
            if row > edge as usize {
                list.push(b',');
            }
            let mut edge = Members::open(list);
            for (key, column) in [("src", src), ("dst", dst)] {
                let seq = column.as_primitive::<UInt32Type>().value(row);
                edge.text(key, ids.value((event + seq) as usize));
            }
            edge.text("type", text_of(&self.chunk.edges, "type", row).unwrap_or_default());
            edge.close();
        }
        list.push(b']');
        for (kind, key) in
            [(MeasureKind::Reward, "rewards"), (MeasureKind::Cost, "costs"), (MeasureKind::Metric, "metrics")]
        {
            let rows: Vec<usize> = measures.clone().filter(|row| self.measure(*row).0 == kind).collect();
            if kind == MeasureKind::Metric && rows.is_empty() && !self.chunk.empty_metrics[trace] {
                continue;
            }
            let mut map = Members::open(doc.key(key));
            for row in rows {
                let value = self.chunk.measures.column(3).as_primitive::<Float64Type>().value(row);
                map.number(self.measure(row).1, value);
            }
            if kind == MeasureKind::Cost {
                for name in &unknown {
                    map.number(name, 0.0);
                }
            }
            map.close();
        }
        doc.close();
    }

    fn measure(&self, row: usize) -> (MeasureKind, &str) {
        let kinds = self.chunk.measures.column(1).as_dictionary::<UInt8Type>();
        let kind = MeasureKind::from_code(kinds.keys().value(row)).unwrap_or(MeasureKind::Metric);
        (kind, text_of(&self.chunk.measures, "name", row).unwrap_or_default())
    }

    /// The facts of the trace that its document has no place for, as the text of one object.
    fn facts(&self, trace: usize, unknown_costs: &[&str]) -> Option<Vec<u8>> {
        let traces = &self.chunk.traces;
        let first = self.chunk.starts[trace][0] as usize;
        let carried = text_of(&self.chunk.events, "extras", first)
            .is_some_and(|e| outer_keys(e).iter().any(|key| key == "x_trace"));
        let importer = text_of(traces, "importer", trace).unwrap_or("native");
        let group = text_of(traces, "group_id", trace);
        let given_group = (self.chunk.starts[trace][0]..self.chunk.starts[trace + 1][0])
            .find_map(|row| text_of(&self.chunk.events, "group_id", row as usize))
            .or_else(|| text_of(traces, "task_id", trace));
        let partial = traces.column_by_name("partial").is_some_and(|c| c.as_boolean().value(trace));
        let started = traces
            .column_by_name("started_at")
            .map(arrow_array::cast::AsArray::as_primitive::<TimestampNanosecondType>)
            .filter(|c| c.is_valid(trace))
            .map(|c| format_timestamp(c.value(trace)));
        let plain = importer == "native"
            && group == given_group
            && !partial
            && started.is_none()
            && unknown_costs.is_empty();
        if carried || plain {
            return None;
        }
        let mut out = Vec::new();
        let mut facts = Members::open(&mut out);
        if group != given_group
            && let Some(group) = group
        {
            facts.text("group_id", group);
        }
        facts.text("time_basis", text_of(traces, "time_basis", trace).unwrap_or(TimeBasis::Unknown.as_str()));
        facts.text("importer", importer);
        if let Some(started) = started {
            facts.text("started_at", &started);
        }
        if partial {
            facts.key("partial").extend_from_slice(b"true");
        }
        if !unknown_costs.is_empty() {
            let list = facts.key("unknown_costs");
            list.push(b'[');
            for (i, name) in unknown_costs.iter().enumerate() {
                if i > 0 {
                    list.push(b',');
                }
                write_string(name, list);
            }
            list.push(b']');
        }
        facts.close();
        Some(out)
    }

    fn event(&self, row: usize, facts: Option<&[u8]>, out: &mut Vec<u8>) {
        let events = &self.chunk.events;
        let mut object = Members::open(out);
        for (field, column) in events.schema_ref().fields().iter().zip(events.columns()).skip(2) {
            if column.is_null(row) || field.name() == "extras" {
                continue;
            }
            match column.data_type() {
                DataType::Float64 => {
                    object.number(field.name(), column.as_primitive::<Float64Type>().value(row));
                }
                DataType::Int64 => {
                    let value = column.as_primitive::<Int64Type>().value(row);
                    object.key(field.name()).extend_from_slice(value.to_string().as_bytes());
                }
                DataType::UInt32 => {
                    let value = column.as_primitive::<UInt32Type>().value(row);
                    object.key(field.name()).extend_from_slice(value.to_string().as_bytes());
                }
                DataType::Boolean => {
                    let value: &[u8] = if column.as_boolean().value(row) { b"true" } else { b"false" };
                    object.key(field.name()).extend_from_slice(value);
                }
                DataType::LargeList(_) => {
                    let list = column.as_list::<i64>().value(row);
                    let out = object.key(field.name());
                    out.push(b'[');
                    for (i, value) in list.as_primitive::<Float64Type>().values().iter().enumerate() {
                        if i > 0 {
                            out.push(b',');
                        }
                        write_f64(*value, out);
                    }
                    out.push(b']');
                }
                _ => object.text(field.name(), text_at(column, row).unwrap_or_default()),
            }
        }
        if let Some(extras) = text_of(events, "extras", row)
            && let Some(members) = extras.strip_prefix('{').and_then(|e| e.strip_suffix('}'))
            && !members.trim().is_empty()
        {
            object.out.push(b',');
            // As written, except that a document over several lines becomes one: line ends stand between
            // tokens only, since strings cannot hold them.
            object.out.extend(members.bytes().map(|b| if matches!(b, b'\n' | b'\r') { b' ' } else { b }));
        }
        if let Some(facts) = facts {
            object.key("x_trace").extend_from_slice(facts);
        }
        object.close();
    }
}
