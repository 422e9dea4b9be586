//! `sonic-rs`, lazily: a container is skipped strictly to find its end, then walked.

use sonic_rs::{ArrayJsonIter, JsonValueTrait, LazyValue, ObjectJsonIter, to_object_iter};

use super::{Read, Reader, Refusal};
use crate::columns::{Columns, End, Field, Part};

impl From<sonic_rs::Error> for Box<Refusal> {
    fn from(error: sonic_rs::Error) -> Self {
        Box::new(Refusal::new(Some(error.offset()), &error))
    }
}

/// Given bytes it judges UTF-8 itself, all at once.
pub(super) struct SonicLazy;

impl Reader for SonicLazy {
    fn name(&self) -> &'static str {
        "sonic-rs, lazy"
    }

    fn document(&mut self, bytes: &mut [u8], len: usize, out: &mut Columns) -> Read {
        let bytes = &bytes[..len];
        for entry in to_object_iter(bytes) {
            let (key, value) = entry?;
            match Part::of(&key) {
                Some(Part::Events) => {
                    for item in array(value)? {
                        event(item?, out)?;
                        out.end_event();
                    }
                }
                Some(Part::Edges) => {
                    for item in array(value)? {
                        edge(item?, out)?;
                        out.end_edge();
                    }
                }
                Some(Part::TraceId) => out.trace_id(text(&value)?),
                None => {}
            }
        }
        Ok(())
    }
}

fn array(value: LazyValue<'_>) -> Read<ArrayJsonIter<'_>> {
    value.into_array_iter().ok_or_else(|| Box::new(Refusal::form("an array")))
}

fn object(value: LazyValue<'_>) -> Read<ObjectJsonIter<'_>> {
    value.into_object_iter().ok_or_else(|| Box::new(Refusal::form("an object")))
}

fn text<'v>(value: &'v LazyValue<'_>) -> Read<&'v str> {
    value.as_str().ok_or_else(|| Box::new(Refusal::form("a string")))
}

fn event(value: LazyValue<'_>, out: &mut Columns) -> Read {
    for entry in object(value)? {
        let (key, value) = entry?;
        match Field::of(&key) {
            Some(Field::Text(column)) => out.text(column, text(&value)?),
            Some(Field::Float(column)) => {
                out.float(column, value.as_f64().ok_or_else(|| Box::new(Refusal::form("a number")))?);
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

fn edge(value: LazyValue<'_>, out: &mut Columns) -> Read {
    for entry in object(value)? {
        let (key, value) = entry?;
        if let Some(end) = End::of(&key) {
            out.end(end, text(&value)?);
        }
    }
    Ok(())
}
