//! The survey's trace JSON (arXiv 2605.02801, `trace_schema.json`), validated completely during reading.
//!
//! A document is accepted exactly when it passes the published schema and the survey validator's extra
//! rules, except where JSON itself is ambiguous (docs/reference/tables.md, "What is valid").

// Left to itself the compiler calls the short ways of the parser, and their results go through memory (measured).
#![allow(clippy::inline_always)]

use std::ops::Range;

use super::{Confidence, Importer, ImporterInfo, Record};
use crate::columns::block::Scratch;
use crate::columns::gate::Bound;
use crate::columns::writer::TraceWriter;
use crate::error::{Reject, RejectCode};
use crate::json::tree::{Tree, Value};
use crate::json::{Cursor, Fault, Kind, Limits, Parsed};
use crate::schema::{Dict, MeasureKind, TOPOLOGIES, Topology};

mod checked;
mod edge;
mod event;
mod facts;

pub(super) use checked::{duplicate, empty_string, expect, missing};

use checked::{forbidden, nonempty, not_a_word, note_rounding, number, string};
use edge::edges;
use event::events;

/// The importer.
#[derive(Debug)]
pub struct Native;

static INFO: ImporterInfo = ImporterInfo {
    name: "native",
    summary: "Orchestration traces of the survey (arXiv 2605.02801): a JSON object per file, line or element",
    evidence: &["events", "edges", "rewards", "costs"],
    suffixes: &[".json", ".jsonl", ".ndjson"],
    lenient: false,
};

impl Importer for Native {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, keys: &[&str]) -> Confidence {
        let n_keys = INFO.evidence.iter().filter(|k| keys.contains(*k)).count();
        match n_keys {
            4 => Confidence::Yes,
            // A trace id alone is nothing: rows of spans have one, and records of many other tools.
            _ if n_keys >= 2 || (keys.contains(&"trace_id") && keys.iter().all(|k| is_own(k))) => {
                Confidence::Maybe
            }
            _ => Confidence::No,
        }
    }

    fn events(&self, record: &Record<'_>, limits: Limits) -> Vec<Range<usize>> {
        let Ok(tree) = Tree::parse(record.text, limits) else { return Vec::new() };
        let spans = tree.root().get("events").elements().map(Value::span);
        spans.map(|(from, to)| from as usize..to as usize).collect()
    }

    fn record(&self, record: &Record<'_>, out: &mut TraceWriter<'_>) -> Result<(), Reject> {
        let mut cursor = Cursor::new(record.text, out.options.limits);
        // The buffers leave the writer while the record is read, so that both can be borrowed.
        let mut scratch = std::mem::take(&mut out.block.scratch);
        let parsed = document(&mut cursor, out, &mut scratch);
        out.block.scratch = scratch;
        parsed.map_err(Fault::into_reject)
    }
}

const TRACE_KEYS: [&str; 9] =
    ["trace_id", "task_id", "events", "edges", "rewards", "costs", "system", "topology", "metrics"];
const REQUIRED_TRACE_KEYS: usize = 6;

/// Whether a native trace may have a key.
fn is_own(key: &str) -> bool {
    TRACE_KEYS.contains(&key) || key.starts_with("x_")
}

fn document(cursor: &mut Cursor<'_>, out: &mut TraceWriter<'_>, scratch: &mut Scratch) -> Parsed<()> {
    cursor.ws();
    let kind = cursor.kind()?;
    if kind != Kind::Object {
        cursor.skip()?;
        cursor.end()?;
        return Err(Fault::value(
            RejectCode::RecordNotObject,
            format!("found {}, expected an object", kind.as_str()),
        ));
    }
    let mut seen = 0_u32;
    let mut trace_id = String::new();
    let mut task_id = String::new();
    let mut later_edges = None;
    let mut more = cursor.open_object()?;
    while more {
        let key = cursor.key()?;
        let name = key.text(&mut scratch.key);
        let Some(which) = TRACE_KEYS.iter().position(|k| *k == name) else {
            return Err(forbidden(name, &TRACE_KEYS, "a trace"));
        };
        if seen & (1 << which) != 0 {
            return Err(duplicate(name));
        }
        seen |= 1 << which;
        let name = TRACE_KEYS[which];
        match name {
            "trace_id" => trace_id = nonempty(cursor, scratch).map_err(|f| f.under(name))?,
            "task_id" => task_id = nonempty(cursor, scratch).map_err(|f| f.under(name))?,
            "system" => {
                let system = string(cursor).map_err(|f| f.under(name))?;
                out.system(system.text(&mut scratch.text));
            }
            "topology" => {
                let word = string(cursor).map_err(|f| f.under(name))?;
                let word = word.text(&mut scratch.text);
                let topology =
                    Topology::parse(word).ok_or_else(|| not_a_word(word, TOPOLOGIES).under(name))?;
                out.topology(topology);
            }
            "events" => events(cursor, out, scratch).map_err(|f| f.under(name))?,
            "edges" if out.n_events() > 0 => edges(cursor, out, scratch).map_err(|f| f.under(name))?,
            "edges" => later_edges = Some(cursor.skip().map_err(|f| f.under(name))?.0),
            "rewards" => measures(cursor, out, scratch, MeasureKind::Reward).map_err(|f| f.under(name))?,
            "costs" => measures(cursor, out, scratch, MeasureKind::Cost).map_err(|f| f.under(name))?,
            _ => measures(cursor, out, scratch, MeasureKind::Metric).map_err(|f| f.under(name))?,
        }
        more = cursor.more_object()?;
    }
    cursor.end()?;
    for (which, name) in TRACE_KEYS[..REQUIRED_TRACE_KEYS].iter().enumerate() {
        if seen & (1 << which) == 0 {
            return Err(missing(name));
        }
    }
    if let Some(start) = later_edges {
        cursor.rewind_into_object(start);
        edges(cursor, out, scratch).map_err(|f| f.under("edges"))?;
    }
    out.ids(&trace_id, &task_id);
    Ok(())
}

fn measures(
    cursor: &mut Cursor<'_>,
    out: &mut TraceWriter<'_>,
    scratch: &mut Scratch,
    kind: MeasureKind,
) -> Parsed<()> {
    expect(cursor, Kind::Object)?;
    scratch.names.clear();
    let (mut tokens, mut wall) = (false, false);
    let mut more = cursor.open_object()?;
    while more {
        let key = cursor.key()?;
        let name = key.text(&mut scratch.key);
        tokens |= name == "tokens";
        wall |= name == "wall_clock_s";
        let number = number(cursor).map_err(|f| f.under(name))?;
        let value = number.f64().map_err(|f| f.under(name))?;
        if !Bound::of_measure(kind).holds(value) {
            return Err(Fault::value(
                RejectCode::FieldMinimum,
                format!("found {value}, expected at least 0"),
            )
            .under(name));
        }
        note_rounding(out, &number, value, None, name);
        out.measure(kind, name, value);
        scratch.names.extend(out.block.measure_names.last());
        more = cursor.more_object()?;
    }
    if kind == MeasureKind::Metric {
        out.facts.empty_metrics = scratch.names.is_empty();
    }
    scratch.names.sort_unstable();
    if let Some(pair) = scratch.names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(duplicate(out.block.dicts[Dict::Measure as usize].name(pair[0])));
    }
    if kind == MeasureKind::Cost && !(tokens && wall) {
        return Err(missing(if tokens { "wall_clock_s" } else { "tokens" }));
    }
    Ok(())
}
