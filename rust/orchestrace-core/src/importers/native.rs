//! The survey's trace JSON (arXiv 2605.02801, `trace_schema.json`), judged completely while it is read.
//!
//! A document is accepted exactly when it passes the published schema and the survey validator's extra
//! rules, except where JSON itself is ambiguous (ARCHITECTURE.md, section 3). Keys are guessed from the
//! last event that had the same key before; a wrong guess costs one comparison.

// Left to itself the compiler calls the short ways of the parser, and their results go through memory (measured).
#![allow(clippy::inline_always)]

use super::{Confidence, Importer, ImporterInfo, Record};
use crate::error::{FindingCode, Reject, RejectCode};
use crate::ingest::block::Scratch;
use crate::ingest::event_columns::OptionalColumn;
use crate::ingest::json::{Cursor, Fault, Kind, Number, Parsed, Pattern, Str, Words};
use crate::ingest::writer::{TraceWriter, Value};
use crate::schema::{
    Dict, EDGE_TYPES, EVENT_FIELDS, EVENT_TYPES, EdgeType, EventField, EventType, MeasureKind, TOPOLOGIES,
    Topology,
};

mod facts;

/// The importer.
#[derive(Debug)]
pub struct Native;

static INFO: ImporterInfo = ImporterInfo {
    name: "native",
    summary: "orchestration trace of the survey (arXiv 2605.02801): one JSON object per file, line or array element",
    evidence: &["events", "edges", "rewards", "costs"],
    suffixes: &[".json", ".jsonl", ".ndjson"],
    lenient: false,
};

impl Importer for Native {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, keys: &[&str]) -> Confidence {
        let found = INFO.evidence.iter().filter(|k| keys.contains(*k)).count();
        match found {
            4 => Confidence::Yes,
            _ if found >= 2 || keys.contains(&"trace_id") => Confidence::Maybe,
            _ => Confidence::No,
        }
    }

    fn record(&self, record: &Record<'_>, out: &mut TraceWriter<'_>) -> Result<(), Reject> {
        let mut cursor = Cursor::new(record.text, out.options.limits);
        // The buffers leave the writer while the record is read, so that both can be borrowed.
        let mut scratch = std::mem::take(&mut out.block.scratch);
        let parsed = document(&mut cursor, out, &mut scratch);
        out.block.scratch = scratch;
        parsed.map_err(super::super::ingest::json::Fault::into_reject)
    }
}

const TRACE_KEYS: [&str; 9] =
    ["trace_id", "task_id", "events", "edges", "rewards", "costs", "system", "topology", "metrics"];
const REQUIRED_TRACE_KEYS: usize = 6;

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

/// `"name":` of every event field, in field order.
static PATTERNS: [Pattern; 64] = {
    // What no text has.
    let mut patterns = [Pattern::new(&[0xFF; 16]); 64];
    let mut field = 0;
    while field < EVENT_FIELDS.len() - 1 {
        let name = EVENT_FIELDS[field].as_bytes();
        assert!(name.len() <= 13, "a pattern holds names of up to thirteen bytes");
        let mut token = [b'"'; 16];
        let mut i = 0;
        while i < name.len() {
            token[1 + i] = name[i];
            i += 1;
        }
        token[2 + i] = b':';
        patterns[field] = Pattern::new(token.split_at(3 + i).0);
        field += 1;
    }
    patterns
};

/// The fields in their order, as many as a guess can say.
static FIELDS: [EventField; 64] = {
    let mut fields = [EventField::Extras; 64];
    let mut field = 0;
    while field < EventField::ALL.len() {
        fields[field] = EventField::ALL[field];
        field += 1;
    }
    fields
};

static FIELD_WORDS: Words = Words::new(EVENT_FIELDS);
static EVENT_TYPE_WORDS: Words = Words::new(EVENT_TYPES);
static EDGE_TYPE_WORDS: Words = Words::new(EDGE_TYPES);

/// The field of a key; `extras` is a column but not a key.
#[inline(always)]
fn field_of(key: &Str<'_>, scratch: &mut String) -> Option<EventField> {
    let field = if key.is_escaped() {
        EventField::parse(key.text(scratch))
    } else {
        FIELD_WORDS.find(key).and_then(EventField::from_code)
    };
    field.filter(|f| *f != EventField::Extras)
}

fn events(cursor: &mut Cursor<'_>, out: &mut TraceWriter<'_>, scratch: &mut Scratch) -> Parsed<()> {
    expect(cursor, Kind::Array)?;
    let mut index = 0;
    let mut more = cursor.open_array()?;
    while more {
        event(cursor, out, scratch, index).map_err(|f| f.at_index(index))?;
        index += 1;
        more = cursor.more_array()?;
    }
    if index == 0 {
        return Err(Fault::value(
            RejectCode::FieldEmpty,
            "found an empty array, expected at least one event",
        ));
    }
    out.index_ids()
}

fn event(
    cursor: &mut Cursor<'_>,
    out: &mut TraceWriter<'_>,
    scratch: &mut Scratch,
    index: usize,
) -> Parsed<()> {
    const REQUIRED: u64 = 0b1111 | 1 << (EventField::Agent as u64);
    const NO_TYPE: usize = Scratch::CONTEXTS - 1;
    expect(cursor, Kind::Object)?;
    let row = out.block.events.t.len();
    let mut seen = 0_u64;
    let mut t = 0.0;
    let mut event_type = 0;
    let mut agent = 0;
    let keep = out.block.keep;
    // Strings of these fields need no look once they are read: that they are strings is all there is to judge.
    let skipped = out.block.skipped;
    // 63 stands for "no field before this one".
    let mut last = 63_usize;
    let mut context = NO_TYPE;
    scratch.extras.clear();
    if !scratch.unknown.is_empty() {
        scratch.unknown.truncate(0);
    }
    let mut first = true;
    loop {
        let place = context * 64 + last;
        let guess = scratch.next[place] as usize & 63;
        let pattern = &PATTERNS[guess];
        let opening = if first { b'{' } else { b',' };
        // White space may stand before the key that follows the comma or brace.
        let mut key_start = cursor.pos() + 1;
        let member = if first && !cursor.may_enter() { None } else { cursor.member(opening, pattern) };
        let (field, text) = if let Some(text) = member {
            if first {
                cursor.entered();
            }
            first = false;
            (FIELDS[guess], text)
        } else {
            let more = if first { cursor.open_object()? } else { cursor.more_object()? };
            if !more {
                break;
            }
            first = false;
            key_start = cursor.pos();
            let key = cursor.key()?;
            let Some(field) = field_of(&key, &mut scratch.key) else {
                unknown_field(cursor, out, scratch, key_start, index)?;
                continue;
            };
            scratch.next[place] = field as u8;
            (field, None)
        };
        last = field as usize;
        if seen & (1 << last) != 0 {
            return Err(duplicate(field.as_str()));
        }
        seen |= 1 << last;
        if skipped & 1 << last != 0 && text.is_some() {
            continue;
        }
        match field {
            EventField::Id => {
                if let Some(id) = text.filter(|id| !id.is_empty()) {
                    out.block.events.id.set_str(row, &id, &mut scratch.text);
                } else {
                    unread(cursor, text);
                    any_id(cursor, out, scratch, row)?;
                }
            }
            EventField::T => {
                if let Some(number) = cursor.plain_number() {
                    t = number.f64();
                } else {
                    unread(cursor, text);
                    t = any_time(cursor, out, index)?;
                }
            }
            EventField::Type => {
                if let Some(word) = text.and_then(|word| EVENT_TYPE_WORDS.find(&word)) {
                    event_type = word;
                } else {
                    unread(cursor, text);
                    event_type = any_type(cursor, scratch)?;
                }
                context = event_type as usize % NO_TYPE;
            }
            EventField::Agent => match text.filter(|name| !name.is_empty()) {
                Some(name) if keep.field(EventField::Agent) => {
                    agent = out.block.code(Dict::Agent, &name, &mut scratch.text);
                }
                Some(_) => {}
                None => {
                    unread(cursor, text);
                    agent = any_agent(cursor, out, scratch)?;
                }
            },
            EventField::Role | EventField::From | EventField::To | EventField::Tool => match text {
                Some(name) => out.block.set_name(field, row, &name, &mut scratch.text),
                None => any_text(cursor, out, scratch, field, row)?,
            },
            EventField::ContentRef => {
                if let (Some(text), OptionalColumn::Text(column)) = (text, out.block.events.optional(field)) {
                    column.set_str(row, &text, &mut scratch.text);
                } else {
                    unread(cursor, text);
                    any_text(cursor, out, scratch, field, row)?;
                }
            }
            EventField::Trusted => {
                unread(cursor, text);
                if !cursor.at(b't') && !cursor.at(b'f') {
                    expect(cursor, Kind::Bool).map_err(|f| f.under("trusted"))?;
                }
                let flag = cursor.bool()?;
                if let (true, OptionalColumn::Flag(column)) =
                    (keep.field(field), out.block.events.optional(field))
                {
                    column.set(row, flag);
                }
            }
            extension => {
                let value_start = text.map_or_else(|| cursor.pos(), |text| text.quote());
                let stored = extension_field(cursor, out, scratch, extension, row, index, text)
                    .map_err(|f| f.under(field.as_str()))?;
                if !stored {
                    cursor.rewind(key_start);
                    cursor.ws();
                    let key_start = cursor.pos();
                    ignore_field(cursor, out, scratch, field.as_str(), key_start, value_start, index)?;
                }
            }
        }
    }
    if seen & REQUIRED != REQUIRED {
        for field in [EventField::Id, EventField::T, EventField::Type, EventField::Agent] {
            if seen & (1 << field as u64) == 0 {
                return Err(missing(field.as_str()));
            }
        }
    }
    if !scratch.extras.is_empty() {
        scratch.extras.push('}');
        if let OptionalColumn::Text(column) = out.block.events.optional(EventField::Extras) {
            column.set(row, &scratch.extras);
        }
    }
    out.block.events.t.push(t);
    out.block.events.types.push(event_type);
    out.block.events.agent.push(agent);
    Ok(())
}

// The complete ways of the fields, for what does not go the short one.

#[inline(never)]
fn any_id(
    cursor: &mut Cursor<'_>,
    out: &mut TraceWriter<'_>,
    scratch: &mut Scratch,
    row: usize,
) -> Parsed<()> {
    let id = string(cursor).map_err(|f| f.under("id"))?;
    if id.is_empty() {
        return Err(empty_string().under("id"));
    }
    out.block.events.id.set_str(row, &id, &mut scratch.text);
    Ok(())
}

#[inline(never)]
fn any_time(cursor: &mut Cursor<'_>, out: &mut TraceWriter<'_>, index: usize) -> Parsed<f64> {
    let number = number(cursor).map_err(|f| f.under("t"))?;
    let t = number.f64().map_err(|f| f.under("t"))?;
    if t < 0.0 {
        return Err(
            Fault::value(RejectCode::FieldMinimum, format!("found {t}, expected at least 0")).under("t")
        );
    }
    note_rounding(out, &number, t, Some(index as u32), "t");
    Ok(t)
}

#[inline(never)]
fn any_type(cursor: &mut Cursor<'_>, scratch: &mut Scratch) -> Parsed<u8> {
    let word = string(cursor).map_err(|f| f.under("type"))?;
    let word = word.text(&mut scratch.text);
    let event_type = EventType::parse(word).ok_or_else(|| not_a_word(word, EVENT_TYPES).under("type"))?;
    Ok(event_type as u8)
}

#[inline(never)]
fn any_agent(cursor: &mut Cursor<'_>, out: &mut TraceWriter<'_>, scratch: &mut Scratch) -> Parsed<u32> {
    let name = string(cursor).map_err(|f| f.under("agent"))?;
    if name.is_empty() {
        return Err(empty_string().under("agent"));
    }
    Ok(out.block.code(Dict::Agent, &name, &mut scratch.text))
}

#[inline(never)]
fn any_text(
    cursor: &mut Cursor<'_>,
    out: &mut TraceWriter<'_>,
    scratch: &mut Scratch,
    field: EventField,
    row: usize,
) -> Parsed<()> {
    let text = string(cursor).map_err(|f| f.under(field.as_str()))?;
    out.block.set_text(field, row, &text, &mut scratch.text);
    Ok(())
}

/// Goes back before a string that was read with its key where something else is expected.
#[inline(always)]
fn unread(cursor: &mut Cursor<'_>, text: Option<Str<'_>>) {
    if let Some(text) = text {
        cursor.rewind(text.quote());
    }
}

/// Reads an extension field that is a plain number, as most are; nothing is consumed otherwise.
#[inline(always)]
fn plain_extension(
    cursor: &mut Cursor<'_>,
    out: &mut TraceWriter<'_>,
    field: EventField,
    row: usize,
) -> bool {
    let start = cursor.pos();
    let Some(number) = cursor.plain_number() else { return false };
    let keep = out.block.keep.field(field);
    match (out.block.events.optional(field), number.integer()) {
        (OptionalColumn::F64(_), _) | (OptionalColumn::I64(_) | OptionalColumn::U32(_), Some(_)) if !keep => {
        }
        (OptionalColumn::F64(column), _) => column.set(row, number.f64()),
        (OptionalColumn::I64(column), Some(value)) => column.set(row, i64::from(value)),
        (OptionalColumn::U32(column), Some(value)) => column.set(row, value),
        _ => {
            cursor.rewind(start);
            return false;
        }
    }
    true
}

/// Reads an extension field; whether its type was the right one.
fn extension_field(
    cursor: &mut Cursor<'_>,
    out: &mut TraceWriter<'_>,
    scratch: &mut Scratch,
    field: EventField,
    row: usize,
    index: usize,
    text: Option<Str<'_>>,
) -> Parsed<bool> {
    if text.is_none() && plain_extension(cursor, out, field, row) {
        return Ok(true);
    }
    let kind = if text.is_some() { Kind::String } else { cursor.kind()? };
    let rounded = match (out.block.events.optional(field), kind) {
        (OptionalColumn::F64(column), Kind::Number) => {
            let number = cursor.number()?;
            let value = number.f64()?;
            if field == EventField::DurationS && value < 0.0 {
                return Ok(false);
            }
            column.set(row, value);
            number.is_rounded(value).then_some((number, value))
        }
        (OptionalColumn::I64(column), Kind::Number) => {
            let number = cursor.number()?;
            number.f64()?;
            let Some(value) = number.u63() else { return Ok(false) };
            column.set(row, value);
            return Ok(true);
        }
        (OptionalColumn::U32(column), Kind::Number) => {
            let number = cursor.number()?;
            number.f64()?;
            let Some(value) = number.u63().and_then(|v| u32::try_from(v).ok()) else { return Ok(false) };
            column.set(row, value);
            return Ok(true);
        }
        (OptionalColumn::Flag(column), Kind::Bool) => {
            column.set(row, cursor.bool()?);
            return Ok(true);
        }
        (OptionalColumn::Text(_) | OptionalColumn::Code(..), Kind::String) => {
            let text = match text {
                Some(text) => text,
                None => cursor.string()?,
            };
            out.block.set_text(field, row, &text, &mut scratch.text);
            return Ok(true);
        }
        (OptionalColumn::List(column), Kind::Array) => {
            // A list is one value: it is told once, with its first number that was rounded.
            let mut rounded = None;
            scratch.list.clear();
            let mut more = cursor.open_array()?;
            while more {
                if cursor.kind()? != Kind::Number {
                    // The rest is judged when the value is skipped as a whole.
                    cursor.leave();
                    return Ok(false);
                }
                let number = cursor.number()?;
                let value = number.f64()?;
                rounded = rounded.or_else(|| number.is_rounded(value).then_some((number, value)));
                scratch.list.push(value);
                more = cursor.more_array()?;
            }
            column.set(row, &scratch.list);
            rounded
        }
        _ => return Ok(false),
    };
    if let Some((number, value)) = rounded {
        note_rounding(out, &number, value, Some(index as u32), field.as_str());
    }
    Ok(true)
}

/// A known field of the wrong type: it stays as written and counts as absent.
fn ignore_field(
    cursor: &mut Cursor<'_>,
    out: &mut TraceWriter<'_>,
    scratch: &mut Scratch,
    name: &str,
    key_start: usize,
    value_start: usize,
    index: usize,
) -> Parsed<()> {
    cursor.rewind(value_start);
    let kind = cursor.kind()?;
    let (_, end) = cursor.skip().map_err(|f| f.under(name))?;
    let written = cursor.slice(value_start, end);
    let (private, kept) = (out.options.excerpt == 0, out.options.extras);
    // Only the first of a trace is worded: a field that is always null costs no text.
    out.finding(FindingCode::FieldIgnored, Some(index as u32), || {
        let shown = if private {
            String::new()
        } else {
            format!(" ({})", written.chars().take(40).collect::<String>().escape_debug())
        };
        let fate = if kept { "kept in extras" } else { "dropped" };
        format!("'{name}' is {}{shown}, which the field cannot hold; {fate}", kind.as_str())
    });
    keep(cursor, out, scratch, key_start, end);
    Ok(())
}

fn unknown_field(
    cursor: &mut Cursor<'_>,
    out: &mut TraceWriter<'_>,
    scratch: &mut Scratch,
    key_start: usize,
    index: usize,
) -> Parsed<()> {
    // The key was unescaped into the scratch only if it had an escape: read it again from its place.
    let value_start = cursor.pos();
    cursor.rewind(key_start);
    let key = cursor.key()?;
    let name = key.text(&mut scratch.key);
    let known = scratch.unknown.len();
    if (scratch.unknown.code(name) as usize) < known {
        return Err(duplicate(name));
    }
    if let Some(column) = out.options.fields.iter().position(|(lifted, _)| lifted == name) {
        let lifted = match (cursor.kind()?, out.options.fields[column].1) {
            (Kind::Number, crate::ingest::LiftKind::F64) => {
                let number = cursor.number()?;
                let value = number.f64().map_err(|f| f.under(name))?;
                note_rounding(out, &number, value, Some(index as u32), name);
                out.lift(column, Value::F64(value))
            }
            (Kind::Number, crate::ingest::LiftKind::I64) => match cursor.number()?.i64() {
                Some(value) => out.lift(column, Value::I64(value)),
                None => false,
            },
            (Kind::Bool, crate::ingest::LiftKind::Bool) => {
                let value = cursor.bool()?;
                out.lift(column, Value::Bool(value))
            }
            (Kind::String, crate::ingest::LiftKind::Text) => {
                let text = cursor.string()?;
                out.lift(column, Value::Text(text.text(&mut scratch.text)))
            }
            _ => false,
        };
        if !lifted {
            let name = name.to_owned();
            ignore_field(cursor, out, scratch, &name, key_start, value_start, index)?;
        }
        return Ok(());
    }
    let (start, end) = cursor.skip().map_err(|f| f.under(name))?;
    // What the export of an imported trace added is in the tables now, and would be written again.
    if !(index == 0 && name == "x_trace" && facts::read(cursor.slice(start, end), out)) {
        keep(cursor, out, scratch, key_start, end);
    }
    Ok(())
}

/// Keeps a member of the event as it was written.
fn keep(cursor: &Cursor<'_>, out: &TraceWriter<'_>, scratch: &mut Scratch, key_start: usize, end: usize) {
    if out.options.extras && out.block.keep.field(EventField::Extras) {
        scratch.extras.push(if scratch.extras.is_empty() { '{' } else { ',' });
        scratch.extras.push_str(cursor.slice(key_start, end));
    }
}

fn edges(cursor: &mut Cursor<'_>, out: &mut TraceWriter<'_>, scratch: &mut Scratch) -> Parsed<()> {
    expect(cursor, Kind::Array)?;
    let mut index = 0;
    let mut more = cursor.open_array()?;
    while more {
        if !usual_edge(cursor, out, scratch) {
            edge(cursor, out, scratch).map_err(|f| f.at_index(index))?;
        }
        index += 1;
        more = cursor.more_array()?;
    }
    Ok(())
}

/// Reads an edge with its keys in the usual order and nothing wrong with it; whatever else stands here is left
/// to [`edge`], from its start.
#[inline(always)]
fn usual_edge(cursor: &mut Cursor<'_>, out: &mut TraceWriter<'_>, scratch: &mut Scratch) -> bool {
    #[inline(always)]
    fn value<'a>(cursor: &mut Cursor<'a>, opening: u8, key: &Pattern) -> Option<Str<'a>> {
        match cursor.member(opening, key)? {
            Some(text) => Some(text),
            None if cursor.at(b'"') => longer(cursor),
            None => None,
        }
    }
    #[inline(never)]
    fn longer<'a>(cursor: &mut Cursor<'a>) -> Option<Str<'a>> {
        cursor.string().ok()
    }
    const SRC: Pattern = Pattern::new(b"\"src\":");
    const DST: Pattern = Pattern::new(b"\"dst\":");
    const TYPE: Pattern = Pattern::new(b"\"type\":");
    let start = cursor.pos();
    let mut read = || -> Option<()> {
        let src = out.resolve_str(&value(cursor, b'{', &SRC)?, &mut scratch.text)?;
        let dst = out.resolve_str(&value(cursor, b',', &DST)?, &mut scratch.text)?;
        let edge_type = cursor.member(b',', &TYPE)??;
        let edge_type = EdgeType::from_code(EDGE_TYPE_WORDS.find(&edge_type)?)?;
        if !cursor.take_byte(b'}') {
            return None;
        }
        out.edge(src, dst, edge_type);
        Some(())
    };
    let usual = read().is_some();
    if !usual {
        cursor.rewind(start);
    }
    usual
}

fn edge(cursor: &mut Cursor<'_>, out: &mut TraceWriter<'_>, scratch: &mut Scratch) -> Parsed<()> {
    const KEYS: [&str; 3] = ["src", "dst", "type"];
    expect(cursor, Kind::Object)?;
    let mut seen = 0_u8;
    let mut ends = [0_u32; 2];
    let mut edge_type = EdgeType::Temporal;
    let mut more = cursor.open_object()?;
    while more {
        let key = cursor.key()?;
        let name = key.text(&mut scratch.key);
        let which = KEYS.iter().position(|k| *k == name).ok_or_else(|| forbidden(name, &KEYS, "an edge"))?;
        if seen & (1 << which) != 0 {
            return Err(duplicate(KEYS[which]));
        }
        seen |= 1 << which;
        let text = string(cursor).map_err(|f| f.under(KEYS[which]))?;
        let text = text.text(&mut scratch.text);
        if which == 2 {
            edge_type = EdgeType::parse(text).ok_or_else(|| not_a_word(text, EDGE_TYPES).under("type"))?;
        } else if let Some(seq) = out.resolve(text) {
            ends[which] = seq;
        } else if text.is_empty() {
            return Err(empty_string().under(KEYS[which]));
        } else {
            return Err(Fault::value(
                RejectCode::EdgeUnknown,
                format!("found '{}', expected the id of an event of this trace", text.escape_debug()),
            )
            .under(KEYS[which]));
        }
        more = cursor.more_object()?;
    }
    if let Some(which) = (0..3).find(|w| seen & (1 << w) == 0) {
        return Err(missing(KEYS[which]));
    }
    out.edge(ends[0], ends[1], edge_type);
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
        if kind == MeasureKind::Cost && value < 0.0 {
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

fn note_rounding(out: &mut TraceWriter<'_>, number: &Number<'_>, value: f64, seq: Option<u32>, name: &str) {
    if number.is_rounded(value) {
        out.finding(FindingCode::NumberRounded, seq, || {
            format!("'{name}' is an integer that a 64-bit float cannot hold; stored as {value}")
        });
    }
}

#[inline(always)]
pub(super) fn expect(cursor: &Cursor<'_>, expected: Kind) -> Parsed<()> {
    let as_hoped = match expected {
        Kind::Object => cursor.at(b'{'),
        Kind::Array => cursor.at(b'['),
        Kind::String => cursor.at(b'"'),
        Kind::Number => cursor.at_digit(),
        Kind::Bool | Kind::Null => false,
    };
    if as_hoped { Ok(()) } else { look_closer(cursor, expected) }
}

fn look_closer(cursor: &Cursor<'_>, expected: Kind) -> Parsed<()> {
    let found = cursor.kind()?;
    if found == expected { Ok(()) } else { Err(wrong_type(found, expected)) }
}

#[cold]
fn wrong_type(found: Kind, expected: Kind) -> Box<Fault> {
    let hint = if found == Kind::Null { "; an absent value is an absent key" } else { "" };
    Fault::value(
        RejectCode::FieldType,
        format!("found {}, expected {}{hint}", found.as_str(), expected.as_str()),
    )
}

#[inline(never)]
fn string<'a>(cursor: &mut Cursor<'a>) -> Parsed<Str<'a>> {
    expect(cursor, Kind::String)?;
    cursor.string()
}

fn number<'a>(cursor: &mut Cursor<'a>) -> Parsed<Number<'a>> {
    expect(cursor, Kind::Number)?;
    cursor.number()
}

fn nonempty(cursor: &mut Cursor<'_>, scratch: &mut Scratch) -> Parsed<String> {
    let text = string(cursor)?;
    let text = text.text(&mut scratch.text);
    if text.is_empty() { Err(empty_string()) } else { Ok(text.to_owned()) }
}

#[cold]
pub(super) fn empty_string() -> Box<Fault> {
    Fault::value(RejectCode::FieldEmpty, "found an empty string, expected at least one character")
}

#[cold]
pub(super) fn missing(name: &str) -> Box<Fault> {
    Fault::value(RejectCode::FieldMissing, format!("the required key '{name}' is absent"))
}

#[cold]
pub(super) fn duplicate(name: &str) -> Box<Fault> {
    Fault::value(RejectCode::JsonDuplicateKey, format!("the key '{}' occurs twice", name.escape_debug()))
        .under(name)
}

#[cold]
fn forbidden(name: &str, known: &[&str], what: &str) -> Box<Fault> {
    let hint = crate::error::nearest(name, known.iter().copied())
        .map_or_else(String::new, |n| format!("; did you mean '{n}'?"));
    Fault::value(
        RejectCode::FieldForbidden,
        format!("{what} has no key '{}'{hint} (allowed: {})", name.escape_debug(), known.join(", ")),
    )
    .under(name)
}

#[cold]
fn not_a_word(word: &str, known: &[&str]) -> Box<Fault> {
    let shown: String = word.chars().take(60).collect();
    let hint = crate::error::nearest(&shown, known.iter().copied())
        .map_or_else(String::new, |n| format!("; did you mean '{n}'?"));
    Fault::value(
        RejectCode::FieldEnum,
        format!("found '{}', expected one of {}{hint}", shown.escape_debug(), known.join(", ")),
    )
}
