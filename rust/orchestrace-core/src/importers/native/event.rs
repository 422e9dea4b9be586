//! Events: a fast path for the usual spelling, complete paths for everything else. Keys are guessed from
//! the last event that had the same key before; a wrong guess costs one comparison.

use super::checked::{duplicate, empty_string, expect, missing, not_a_word, note_rounding, number, string};
use super::facts;
use crate::columns::LiftKind;
use crate::columns::block::Scratch;
use crate::columns::event_columns::OptionalColumn;
use crate::columns::gate::Bound;
use crate::columns::writer::{TraceWriter, Value};
use crate::error::{FindingCode, RejectCode};
use crate::json::{Cursor, Fault, Kind, Parsed, Pattern, Str, Words};
use crate::schema::{Dict, EVENT_FIELDS, EVENT_TYPES, EventField, EventType};

/// `"name":` of every event field, in field order.
static PATTERNS: [Pattern; 64] = {
    // What no text has.
    let mut patterns = [Pattern::new(&[0xFF; 16]); 64];
    let mut field = 0;
    while field < EVENT_FIELDS.len() - 1 {
        let name = EVENT_FIELDS[field].as_bytes();
        // A pattern holds names of up to thirteen bytes; longer ones go the complete way.
        if name.len() <= 13 {
            let mut token = [b'"'; 16];
            let mut i = 0;
            while i < name.len() {
                token[1 + i] = name[i];
                i += 1;
            }
            token[2 + i] = b':';
            patterns[field] = Pattern::new(token.split_at(3 + i).0);
        }
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

/// Reads all events of a trace.
pub(super) fn events(
    cursor: &mut Cursor<'_>,
    out: &mut TraceWriter<'_>,
    scratch: &mut Scratch,
) -> Parsed<()> {
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
            let former = |field: &EventField| seen & (1 << *field as u8) == 0;
            let field_here = field_of(&key, &mut scratch.key)
                .or_else(|| EventField::formerly(key.text(&mut scratch.key)).filter(former));
            let Some(field) = field_here else {
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
            if !Bound::of_field(field).holds(value) {
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
            // A list is one value: it is reported once, with its first number that was rounded.
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
        let outcome = if kept { "kept in extras" } else { "dropped" };
        format!("'{name}' is {}{shown}, a value that the field cannot hold; {outcome}", kind.as_str())
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
    let n_before = scratch.unknown.len();
    if (scratch.unknown.code(name) as usize) < n_before {
        return Err(duplicate(name));
    }
    if let Some(column) = out.options.fields.iter().position(|(lifted, _)| lifted == name) {
        let lifted = match (cursor.kind()?, out.options.fields[column].1) {
            (Kind::Number, LiftKind::F64) => {
                let number = cursor.number()?;
                let value = number.f64().map_err(|f| f.under(name))?;
                note_rounding(out, &number, value, Some(index as u32), name);
                out.lift(column, Value::F64(value))
            }
            (Kind::Number, LiftKind::I64) => match cursor.number()?.i64() {
                Some(value) => out.lift(column, Value::I64(value)),
                None => false,
            },
            (Kind::Bool, LiftKind::Bool) => {
                let value = cursor.bool()?;
                out.lift(column, Value::Bool(value))
            }
            (Kind::String, LiftKind::Text) => {
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
