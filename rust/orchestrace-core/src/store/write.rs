//! Export of tables to the survey's JSON, one document per line: equal to the input up to key order and number
//! spelling.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::io::{self, Write};
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampNanosecondType, UInt8Type, UInt32Type};
use arrow_array::{Array, ArrayRef};
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::arrays::{text_at, text_of, u32_values};
use super::{Chunk, Store};
use crate::error::{Error, FindingCode, Result};
use crate::json::time::{format_timestamp, parse_timestamp};
use crate::json::{Cursor, Limits, Parsed, write_string};
use crate::run::Run;
use crate::schema::{MeasureKind, TimeBasis};

mod events;

use events::EventWriter;

/// Writes all traces in order; the number of documents written.
///
/// Facts that the schema has no place for (group, time basis, absolute start, importer, costs that are
/// not known, labels, findings that reading it would not make) go onto the first event as `x_trace`. Labels of traces
/// that are not there are not written. One that the trace was read with stays as it was written
/// while it says what the tables say; else it is written anew, and only its members that we do not know stay.
///
/// Equal runs under one id, which differ in what no column has, would be one run when they are read again (R12): the
/// second and each after it says which of them it is, as `copy`.
pub fn write_jsonl(store: &Store, sink: &mut dyn Write, run: &Run) -> Result<u64> {
    store.expect_whole()?;
    let threads = run.pool().current_num_threads();
    let mut written = 0;
    let labels = labels_by_trace(store);
    let shared_ids = shared_ids(store);
    let mut copies: HashMap<u64, u32> = HashMap::new();
    run.expect(store.n_traces() as u64);
    // A few chunks at a time: memory stays bounded and the order is that of the store.
    for group in store.chunks().chunks(threads) {
        run.check()?;
        let texts: Vec<Lines> = run.pool().install(|| {
            group.par_iter().map(|chunk| ChunkWriter::new(chunk, store, &labels).lines(&shared_ids)).collect()
        });
        for (chunk, Lines { text, ambiguous }) in group.iter().zip(texts) {
            let mut from = 0;
            let mut writer = None;
            for (trace, hash, line) in ambiguous {
                let copy = copies.entry(hash).and_modify(|copy| *copy += 1).or_insert(1);
                if *copy > 1 {
                    sink.write_all(&text[from..line.start]).map_err(write_error)?;
                    let writer = writer.get_or_insert_with(|| ChunkWriter::new(chunk, store, &labels));
                    let mut document = Vec::new();
                    writer.trace(trace, Some(*copy), &mut document);
                    document.push(b'\n');
                    sink.write_all(&document).map_err(write_error)?;
                    from = line.end;
                }
            }
            sink.write_all(&text[from..]).map_err(write_error)?;
        }
        let traces: usize = group.iter().map(Chunk::n_traces).sum();
        run.advance(traces as u64);
        written += traces as u64;
    }
    sink.flush().map_err(write_error)?;
    Ok(written)
}

/// The documents of a chunk, a line each.
#[derive(Default)]
struct Lines {
    text: Vec<u8>,
    /// Of each trace whose id another one has: its number in the chunk, the hash of its line, and where that lies. Two
    /// lines that share a hash by chance are told apart once more, which costs a member and loses nothing.
    ambiguous: Vec<(usize, u64, Range<usize>)>,
}

/// Ids that several traces have.
fn shared_ids(store: &Store) -> HashSet<&str> {
    let mut seen = hashbrown::HashSet::with_capacity(store.n_traces());
    let mut shared = HashSet::new();
    for chunk in store.chunks() {
        let Some(ids) = chunk.traces.column_by_name("trace_id") else { continue };
        for id in (0..chunk.n_traces()).filter_map(|trace| text_at(ids, trace)) {
            if !seen.insert(id) {
                shared.insert(id);
            }
        }
    }
    shared
}

fn write_error(source: io::Error) -> Error {
    Error::Io { path: "output".into(), source }
}

/// The member of the first event that has what the format has no place for.
const X_TRACE: &str = "x_trace";

/// What becomes of `x_trace` on the first event; one that its extras have is left out.
struct Facts {
    /// The object to write, if there is something to say.
    text: Option<Vec<u8>>,
}

/// A member of an object.
struct Member<'a> {
    key: String,
    /// Key and value as written.
    text: &'a str,
    value: &'a str,
}

/// Members of an object that has been judged before; none if it is not one.
fn members(text: &str) -> Vec<Member<'_>> {
    let mut members = Vec::new();
    let mut cursor = judged(text);
    let mut scratch = String::new();
    let mut read = || -> Parsed<()> {
        cursor.ws();
        let mut more = cursor.open_object()?;
        while more {
            let from = cursor.pos();
            let key = cursor.key()?.text(&mut scratch).to_owned();
            let (start, end) = cursor.skip()?;
            members.push(Member { key, text: cursor.slice(from, end), value: cursor.slice(start, end) });
            more = cursor.more_object()?;
        }
        Ok(())
    };
    // Nothing but another kind of value can stop it.
    let _other_kind = read();
    members
}

/// At the start of a text that was judged when it came in, under limits that may have been raised.
fn judged(text: &str) -> Cursor<'_> {
    Cursor::new(text, Limits { depth: usize::MAX, string: usize::MAX, lenient: true })
}

/// A value that is a string.
fn string(value: &str) -> Option<String> {
    let mut cursor = judged(value);
    let text = cursor.at(b'"').then(|| cursor.string().ok()).flatten()?;
    Some(text.text(&mut String::new()).to_owned())
}

/// The strings of a value that is an array.
fn strings(value: &str) -> Vec<String> {
    let mut cursor = judged(value);
    let mut strings = Vec::new();
    let mut read = || -> Parsed<()> {
        let mut more = cursor.open_array()?;
        while more {
            let (start, end) = cursor.skip()?;
            strings.extend(string(cursor.slice(start, end)));
            more = cursor.more_array()?;
        }
        Ok(())
    };
    let _other_kind = read();
    strings
}

/// The `x_trace` that a trace was read with, as the native importer understands it.
#[derive(Default)]
struct Carried<'a> {
    group_id: Option<String>,
    time_basis: Option<TimeBasis>,
    started_at: Option<i64>,
    importer: Option<String>,
    partial: bool,
    unknown_costs: Vec<String>,
    /// Labels and findings as written.
    side: [&'a str; 2],
    /// Members that are not ours, as written.
    others: Vec<&'a str>,
}

impl<'a> Carried<'a> {
    fn read(text: &'a str) -> Self {
        let mut carried = Self::default();
        for Member { key, text, value } in members(text) {
            match key.as_str() {
                "group_id" => carried.group_id = string(value).or(carried.group_id),
                "time_basis" => carried.time_basis = string(value).and_then(|word| TimeBasis::parse(&word)),
                "started_at" => carried.started_at = string(value).and_then(|text| parse_timestamp(&text)),
                "importer" => carried.importer = string(value).or(carried.importer),
                "partial" => carried.partial = value == "true",
                "unknown_costs" => carried.unknown_costs.extend(strings(value)),
                "labels" => carried.side[0] = value,
                "findings" => carried.side[1] = value,
                "copy" => {} // written anew where there are several
                _ => carried.others.push(text),
            }
        }
        carried
    }
}

/// Rows of labels by the number of their trace: the first one that has its id.
fn labels_by_trace(store: &Store) -> HashMap<u32, Vec<usize>> {
    let mut rows: HashMap<u32, Vec<usize>> = HashMap::new();
    if store.labels.num_rows() == 0 {
        return rows;
    }
    let mut numbers: HashMap<&str, u32> = HashMap::new();
    for chunk in store.chunks() {
        let ids = chunk.traces.column(1).as_string_view();
        for (id, number) in ids.iter().zip(u32_values(&chunk.traces, 0)) {
            numbers.entry(id.unwrap_or_default()).or_insert(*number);
        }
    }
    for (row, id) in store.labels.column(0).as_string_view().iter().enumerate() {
        if let Some(number) = numbers.get(id.unwrap_or_default()) {
            rows.entry(*number).or_default().push(row);
        }
    }
    rows
}

/// Opens a list, or goes on to its next element.
fn begin_element(list: &mut Vec<u8>) {
    list.push(if list.is_empty() { b'[' } else { b',' });
}

struct ChunkWriter<'a> {
    chunk: &'a Chunk,
    store: &'a Store,
    labels: &'a HashMap<u32, Vec<usize>>,
    /// Of each trace the rows of findings, where there are any.
    findings: HashMap<u32, Vec<usize>>,
    events: EventWriter<'a>,
    /// The type of edges.
    edge_types: Option<&'a ArrayRef>,
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

    fn next(&mut self) {
        if !self.first {
            self.out.push(b',');
        }
        self.first = false;
    }

    /// A key that is written as JSON already, with its colon.
    fn spelt_key(&mut self, key: &[u8]) -> &mut Vec<u8> {
        self.next();
        self.out.extend_from_slice(key);
        self.out
    }

    fn key(&mut self, key: &str) -> &mut Vec<u8> {
        self.next();
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

    /// Members as they were written, except that a document over several lines becomes one: line ends
    /// stand between tokens only, since strings cannot hold them.
    fn written(&mut self, members: &str) {
        self.next();
        self.out.extend(members.bytes().map(|b| if matches!(b, b'\n' | b'\r') { b' ' } else { b }));
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
    fn new(chunk: &'a Chunk, store: &'a Store, labels: &'a HashMap<u32, Vec<usize>>) -> Self {
        let mut findings: HashMap<u32, Vec<usize>> = HashMap::new();
        for (row, trace) in u32_values(&chunk.findings, 0).iter().enumerate() {
            findings.entry(*trace).or_default().push(row);
        }
        let events = EventWriter::new(&chunk.events);
        Self { chunk, store, labels, findings, events, edge_types: chunk.edges.column_by_name("type") }
    }

    /// All documents of the chunk.
    fn lines(&self, shared_ids: &HashSet<&str>) -> Lines {
        let ids = self.chunk.traces.column_by_name("trace_id").filter(|_| !shared_ids.is_empty());
        let mut lines = Lines::default();
        for trace in 0..self.chunk.n_traces() {
            let start = lines.text.len();
            self.trace(trace, None, &mut lines.text);
            lines.text.push(b'\n');
            if ids.and_then(|ids| text_at(ids, trace)).is_some_and(|id| shared_ids.contains(id)) {
                let line = start..lines.text.len();
                lines.ambiguous.push((trace, xxh3_64(&lines.text[line.clone()]), line));
            }
        }
        lines
    }

    /// Labels and findings of a trace as members, each empty if there are none; and whether there are any.
    fn side(&self, trace: usize, importer: &str) -> [Vec<u8>; 2] {
        let number = u32_values(&self.chunk.traces, 0)[trace];
        let mut labels = Vec::new();
        for row in self.labels.get(&number).into_iter().flatten() {
            let batch = &self.store.labels;
            begin_element(&mut labels);
            let mut object = Members::open(&mut labels);
            for key in ["annotator", "event_id", "agent", "label"] {
                if let Some(text) = text_of(batch, key, *row) {
                    object.text(key, text);
                }
            }
            if let Some(turn) = batch.column_by_name("turn").filter(|c| c.is_valid(*row)) {
                object.number("turn", f64::from(turn.as_primitive::<UInt32Type>().value(*row)));
            }
            if let Some(weight) = batch.column_by_name("weight").filter(|c| c.is_valid(*row)) {
                object.number("weight", weight.as_primitive::<Float64Type>().value(*row));
            }
            object.close();
        }
        let mut findings = Vec::new();
        for row in self.findings.get(&number).into_iter().flatten() {
            let batch = &self.chunk.findings;
            let code = text_of(batch, "code", *row).unwrap_or_default();
            let code_of_finding = FindingCode::ALL.iter().find(|listed| listed.as_str() == code);
            if code_of_finding
                .is_none_or(|code| code.is_derived() || (importer == "native" && code.is_native()))
            {
                continue;
            }
            begin_element(&mut findings);
            let mut object = Members::open(&mut findings);
            object.text("code", code);
            object.number("count", f64::from(u32_values(batch, 2)[*row]));
            if batch.column(3).is_valid(*row) {
                object.number("seq", f64::from(u32_values(batch, 3)[*row]));
            }
            object.text("message", text_of(batch, "message", *row).unwrap_or_default());
            object.close();
        }
        [labels, findings].map(|mut list| {
            if !list.is_empty() {
                list.push(b']');
            }
            list
        })
    }

    /// The document of a trace; `copy` says which of several equal ones it is.
    fn trace(&self, trace: usize, copy: Option<u32>, out: &mut Vec<u8>) {
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
        let facts = self.facts(trace, copy, &unknown, measures.clone());
        let list = doc.key("events");
        list.push(b'[');
        for row in event as usize..event_end {
            if row > event as usize {
                list.push(b',');
            }
            self.events.event(row, facts.as_ref().filter(|_| row == event as usize), list);
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
            edge.text("type", self.edge_types.and_then(|types| text_at(types, row)).unwrap_or_default());
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
                map.number(self.measure(row).1, self.value(row));
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

    fn value(&self, row: usize) -> f64 {
        self.chunk.measures.column(3).as_primitive::<Float64Type>().value(row)
    }

    /// The facts of the trace that its document has no place for; `None` where the first event is written
    /// as its columns have it.
    fn facts(
        &self,
        trace: usize,
        copy: Option<u32>,
        unknown_costs: &[&str],
        measures: Range<usize>,
    ) -> Option<Facts> {
        let traces = &self.chunk.traces;
        let first = self.chunk.starts[trace][0] as usize;
        let carried = text_of(&self.chunk.events, "extras", first)
            .and_then(|extras| members(extras).into_iter().find(|m| m.key == X_TRACE))
            .map(|member| Carried::read(member.value));
        let importer = text_of(traces, "importer", trace).unwrap_or("native");
        let group = text_of(traces, "group_id", trace);
        let t = self.chunk.events["t"].as_primitive::<Float64Type>();
        let groups = self.chunk.events.column_by_name("group_id").map(|column| {
            let rows = first..self.chunk.starts[trace + 1][0] as usize;
            rows.filter_map(|row| Some((t.value(row), text_at(column, row)?)))
        });
        let given_group = groups
            .and_then(|groups| groups.min_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap_or(Ordering::Equal)))
            .map(|(_, group)| group)
            .or_else(|| text_of(traces, "task_id", trace));
        let partial = traces.column_by_name("partial").is_some_and(|c| c.as_boolean().value(trace));
        let started = traces
            .column_by_name("started_at")
            .map(arrow_array::cast::AsArray::as_primitive::<TimestampNanosecondType>)
            .filter(|c| c.is_valid(trace))
            .map(|c| c.value(trace));
        let time_basis = text_of(traces, "time_basis", trace).unwrap_or(TimeBasis::Unknown.as_str());
        let side = self.side(trace, importer);
        if let Some(carried) = &carried {
            // Read again with it, the document must give the tables: a zero that it calls unknown would go.
            let listed = |name: &str| carried.unknown_costs.iter().any(|n| n == name);
            let forgotten = |row: usize| {
                let (kind, name) = self.measure(row);
                kind == MeasureKind::Cost && self.value(row) == 0.0 && listed(name)
            };
            let holds = copy.is_none()
                && carried.group_id.as_deref().or(given_group) == group
                && carried.time_basis.is_none_or(|basis| basis.as_str() == time_basis)
                && carried.started_at == started
                && carried.importer.as_deref().unwrap_or("native") == importer
                && carried.partial == partial
                && carried.side.iter().zip(&side).all(|(written, held)| written.as_bytes() == held)
                && unknown_costs.iter().all(|name| listed(name))
                && !measures.into_iter().any(forgotten);
            if holds {
                return None;
            }
        }
        let plain = copy.is_none()
            && importer == "native"
            && group == given_group
            && !partial
            && started.is_none()
            && side.iter().all(Vec::is_empty)
            && unknown_costs.is_empty();
        let others = carried.as_ref().map_or(&[][..], |c| &c.others);
        if plain && others.is_empty() {
            return carried.map(|_| Facts { text: None });
        }
        let mut out = Vec::new();
        let mut facts = Members::open(&mut out);
        if group != given_group
            && let Some(group) = group
        {
            facts.text("group_id", group);
        }
        if !plain {
            facts.text("time_basis", time_basis);
            facts.text("importer", importer);
        }
        if let Some(started) = started {
            facts.text("started_at", &format_timestamp(started));
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
        if let Some(copy) = copy {
            facts.number("copy", f64::from(copy));
        }
        for (key, list) in ["labels", "findings"].into_iter().zip(&side) {
            if !list.is_empty() {
                facts.key(key).extend_from_slice(list);
            }
        }
        for member in others {
            facts.written(member);
        }
        facts.close();
        Some(Facts { text: Some(out) })
    }
}
