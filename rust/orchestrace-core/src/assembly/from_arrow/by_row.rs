//! Events of a trace, one by one: what is wrong with a row is said of that row.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, UInt32Type};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;

use super::Builder;
use crate::columns::block::Scratch;
use crate::columns::gate::{self, Bound};
use crate::columns::usage::Counts;
use crate::columns::writer::{Event, TraceWriter, Value};
use crate::error::{Error, Result};
use crate::json::{Cursor, Limits, MAX_DEPTH, Parsed};
use crate::schema::{EVENTS, EventField, EventType, Kind};
use crate::store::arrays::text_at;

impl Builder<'_> {
    /// Writes a row of `events` behind those of its trace, or says what is wrong with it.
    pub(super) fn event(
        &self,
        trace: usize,
        row: usize,
        seq: usize,
        out: &mut TraceWriter<'_>,
    ) -> Result<()> {
        // By place, not by name: this runs once an event.
        let [_, Some(seqs), Some(ids), Some(times), Some(types), Some(agents)] = self.events.columns[..6]
        else {
            return Err(Error::Schema("a required column of events has only nulls".into()));
        };
        let fault = |problem: String| {
            Err(Error::Schema(format!(
                "event {seq} of trace {} (row {row}) has {problem}",
                self.numbers[trace]
            )))
        };
        let stated_seq = seqs.as_primitive::<UInt32Type>().value(row);
        if stated_seq as usize != seq {
            return fault(format!(
                "seq {stated_seq}, expected {seq}: rows of a trace are in seq order from 0"
            ));
        }
        let t = times.as_primitive::<Float64Type>().value(row);
        let bound = Bound::of_field(EventField::T);
        if !bound.holds(t) {
            return fault(format!("a time t that {}", bound.refusal(t)));
        }
        let word = text_at(types, row).unwrap_or_default();
        let Some(event_type) = EventType::parse(word) else {
            return fault(format!("the unknown type '{word}'"));
        };
        let (id, agent) = (text_at(ids, row).unwrap_or_default(), text_at(agents, row).unwrap_or_default());
        if id.is_empty() || agent.is_empty() {
            return fault("an empty id or agent".into());
        }
        for (column, array) in self.lifted.iter().enumerate().filter(|(_, a)| a.is_valid(row)) {
            if let DataType::Float64 = array.data_type() {
                let value = array.as_primitive::<Float64Type>().value(row);
                if !Bound::Finite.holds(value) {
                    let refusal = Bound::Finite.refusal(value);
                    return Err(self.fault(&EVENTS, &self.options.fields[column].0, trace, row, &refusal));
                }
            }
            lift(out, column, array, row);
        }
        out.event(Event { id, t, event_type, agent });
        for (field, array) in
            EventField::ALL[EventField::Role as usize..].iter().zip(&self.events.columns[6..])
        {
            let Some(array) = array.filter(|a| a.is_valid(row)) else { continue };
            self.field(row, *field, array, out)
                .map_err(|refusal| self.fault(&EVENTS, field.as_str(), trace, row, &refusal))?;
        }
        Ok(())
    }

    /// Sets a field of the last event to a value that is not null, or says what is wrong with it.
    #[inline]
    fn field(
        &self,
        row: usize,
        field: EventField,
        array: &ArrayRef,
        out: &mut TraceWriter<'_>,
    ) -> std::result::Result<(), String> {
        match field.column().kind {
            Kind::F64 => {
                let value = array.as_primitive::<Float64Type>().value(row);
                if !Bound::of_field(field).holds(value) {
                    return Err(Bound::of_field(field).refusal(value));
                }
                out.set(field, Value::F64(value));
            }
            Kind::I64 => {
                let value = array.as_primitive::<Int64Type>().value(row);
                if value < 0 {
                    return Err(Bound::NotNegative.refusal(value as f64));
                }
                out.set(field, Value::I64(value));
            }
            Kind::U32 => out.set(field, Value::U32(array.as_primitive::<UInt32Type>().value(row))),
            Kind::Bool => out.set(field, Value::Bool(array.as_boolean().value(row))),
            Kind::F64List => {
                let list = array.as_list::<i64>().value(row);
                let list = list.as_primitive::<Float64Type>();
                let null = (0..list.len()).find(|i| list.is_null(*i));
                if let Some(i) = null.or_else(|| gate::odd_element(list.values())) {
                    let element = if list.is_null(i) { "null".into() } else { list.value(i).to_string() };
                    return Err(format!("has {element} at position {i}, expected a finite number"));
                }
                out.set(field, Value::List(list.values()));
            }
            _ => {
                // A dictionary may spell null as a value.
                let Some(text) = text_at(array, row) else { return Ok(()) };
                if field == EventField::Extras {
                    let text = trimmed(text);
                    match self.extras(row, text, &mut out.block.scratch)? {
                        None => out.set(field, Value::Text(text)),
                        Some(kept) if kept == "{}" => {}
                        Some(kept) => out.set(field, Value::Text(&kept)),
                    }
                } else {
                    out.set(field, Value::Text(text));
                }
            }
        }
        Ok(())
    }

    /// `extras` are members of the event beside its columns: an object, each key once, none of the survey's own
    /// fields. An extension field there is one whose value did not fit its column; where the column has a value
    /// now, that one replaces it, and the text without it is returned.
    pub(super) fn extras(
        &self,
        row: usize,
        text: &str,
        scratch: &mut Scratch,
    ) -> std::result::Result<Option<String>, String> {
        // Whatever limits a document was read under, they held then; deeper than the deepest nothing can be read again.
        let limits = Limits { depth: MAX_DEPTH, string: usize::MAX, lenient: false };
        let mut cursor = Cursor::new(text, limits);
        let mut clash = None;
        let (mut kept, mut replaced) = (String::from("{"), false);
        scratch.unknown.truncate(0);
        let mut read = || -> Parsed<()> {
            let mut more = cursor.open_object()?;
            while more {
                let start = cursor.pos();
                let key = cursor.key()?;
                let key = key.text(&mut scratch.key);
                let (_, end) = cursor.skip()?;
                let before = scratch.unknown.len();
                if (scratch.unknown.code(key) as usize) < before {
                    clash = Some(format!("has the key '{}' twice", key.escape_debug()));
                } else if EventField::parse(key).is_some_and(|f| !f.is_extension()) {
                    clash =
                        Some(format!("has the key '{}', which is a column of events", key.escape_debug()));
                } else if self.is_written(key, row) {
                    replaced = true;
                } else {
                    if kept.len() > 1 {
                        kept.push(',');
                    }
                    kept.push_str(cursor.slice(start, end));
                }
                more = cursor.more_object()?;
            }
            cursor.end()
        };
        if let Err(fault) = read() {
            return Err(format!("is not a JSON object: {}", fault.into_reject().message));
        }
        kept.push('}');
        clash.map_or(Ok(replaced.then_some(kept)), Err)
    }

    /// Whether an extension field or a lifted one has a value in its column, other than one that follows from others.
    fn is_written(&self, key: &str, row: usize) -> bool {
        if let Some(field) = EventField::parse(key).filter(|f| *f != EventField::Extras) {
            if matches!(field, EventField::Tokens | EventField::TokensFresh) {
                let counts = Counts::new(EventField::TOKENS.map(|field| {
                    let column = self.events.columns[field as usize + 2].filter(|c| c.is_valid(row));
                    column.map(|c| c.as_primitive::<Int64Type>().value(row))
                }));
                return counts.is_written(field);
            }
            return self.events.columns[field as usize + 2].is_some_and(|c| c.is_valid(row));
        }
        let lifted = self.options.fields.iter().position(|(name, _)| name == key);
        lifted.is_some_and(|column| self.lifted[column].is_valid(row))
    }
}

fn lift(out: &mut TraceWriter<'_>, column: usize, array: &dyn Array, row: usize) {
    let _fits = match array.data_type() {
        DataType::Float64 => out.lift(column, Value::F64(array.as_primitive::<Float64Type>().value(row))),
        DataType::Int64 => out.lift(column, Value::I64(array.as_primitive::<Int64Type>().value(row))),
        DataType::Boolean => out.lift(column, Value::Bool(array.as_boolean().value(row))),
        _ => text_at(array, row).is_none_or(|text| out.lift(column, Value::Text(text))),
    };
}

/// What the text of `extras` is without the white space around it, which is not part of what members are put behind.
pub(super) fn trimmed(text: &str) -> &str {
    text.trim_matches([' ', '\t', '\n', '\r'])
}
