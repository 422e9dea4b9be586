//! `simd-json`: a structural index, then a tape of the whole document, then a walk over the tape.

use simd_json::prelude::*;
use simd_json::{Buffers, Tape, fill_tape_padded, tape};

use super::{Read, Reader, Refusal};
use crate::columns::{Columns, End, Field, Part};
use crate::corpus::PADDING;

impl From<simd_json::Error> for Box<Refusal> {
    fn from(error: simd_json::Error) -> Self {
        // Some faults are only known to be somewhere in the document.
        Box::new(Refusal::new((error.index() > 0).then(|| error.index()), &error))
    }
}

/// Tape and buffers are kept; the document is not copied, since what follows it serves as padding.
pub(super) struct SimdTape {
    buffers: Buffers,
    tape: Option<Tape<'static>>,
}

impl Default for SimdTape {
    fn default() -> Self {
        Self { buffers: Buffers::with_max_depth(1 << 20, 128), tape: None }
    }
}

impl Reader for SimdTape {
    fn name(&self) -> &'static str {
        "simd-json, tape"
    }

    fn document(&mut self, bytes: &mut [u8], len: usize, out: &mut Columns) -> Read {
        let mut tape = self.tape.take().map_or_else(Tape::null, Tape::reset);
        fill_tape_padded(&mut bytes[..len + PADDING], len, &mut self.buffers, &mut tape)?;
        read(tape.as_value(), out)?;
        self.tape = Some(tape.reset());
        Ok(())
    }
}

fn read(document: tape::Value<'_, '_>, out: &mut Columns) -> Read {
    for (key, value) in &object(document)? {
        match Part::of(key) {
            Some(Part::Events) => {
                for item in &array(value)? {
                    event(item, out)?;
                    out.end_event();
                }
            }
            Some(Part::Edges) => {
                for item in &array(value)? {
                    edge(item, out)?;
                    out.end_edge();
                }
            }
            Some(Part::TraceId) => out.trace_id(text(value)?),
            None => {}
        }
    }
    Ok(())
}

fn array<'t, 'i>(value: tape::Value<'t, 'i>) -> Read<tape::Array<'t, 'i>> {
    value.into_array().ok_or_else(|| Box::new(Refusal::form("an array")))
}

fn object<'t, 'i>(value: tape::Value<'t, 'i>) -> Read<tape::Object<'t, 'i>> {
    value.into_object().ok_or_else(|| Box::new(Refusal::form("an object")))
}

fn text<'i>(value: tape::Value<'_, 'i>) -> Read<&'i str> {
    value.into_string().ok_or_else(|| Box::new(Refusal::form("a string")))
}

fn event(value: tape::Value<'_, '_>, out: &mut Columns) -> Read {
    for (key, value) in &object(value)? {
        match Field::of(key) {
            Some(Field::Text(column)) => out.text(column, text(value)?),
            Some(Field::Float(column)) => {
                out.float(column, value.cast_f64().ok_or_else(|| Box::new(Refusal::form("a number")))?);
            }
            Some(Field::Int(column)) => {
                let number = value.as_u64().and_then(|v| i64::try_from(v).ok());
                out.int(column, number.ok_or_else(|| Box::new(Refusal::form("a non-negative integer")))?);
            }
            Some(Field::Flag(column)) => {
                out.flag(column, value.as_bool().ok_or_else(|| Box::new(Refusal::form("a boolean")))?);
            }
            None => {}
        }
    }
    Ok(())
}

fn edge(value: tape::Value<'_, '_>, out: &mut Columns) -> Read {
    for (key, value) in &object(value)? {
        if let Some(end) = End::of(key) {
            out.end(end, text(value)?);
        }
    }
    Ok(())
}
