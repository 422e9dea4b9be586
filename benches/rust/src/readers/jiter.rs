//! `jiter`: a pull parser. Its skip does not judge UTF-8, hence the pass before.

use jiter::{JiterError, NumberAny, NumberInt};

use super::{Read, Reader, Refusal, utf8};
use crate::columns::{Columns, End, Field, Part};

impl From<JiterError> for Box<Refusal> {
    fn from(error: JiterError) -> Self {
        Box::new(Refusal::new(Some(error.index), &error.error_type))
    }
}

/// The buffer for strings with escapes is kept from document to document.
#[derive(Default)]
pub(super) struct Jiter {
    tape: Vec<u8>,
}

impl Reader for Jiter {
    fn name(&self) -> &'static str {
        "jiter"
    }

    fn document(&mut self, bytes: &mut [u8], len: usize, out: &mut Columns) -> Read {
        let text = utf8(&bytes[..len])?;
        let mut json = jiter::Jiter::with_tape(text.as_bytes(), std::mem::take(&mut self.tape));
        let result = read(&mut json, out);
        self.tape = json.into_tape();
        result
    }
}

fn read(json: &mut jiter::Jiter<'_>, out: &mut Columns) -> Read {
    let mut part = json.next_object()?.map(Part::of);
    while let Some(known) = part {
        match known {
            Some(Part::Events) => {
                let mut element = json.next_array()?;
                while element.is_some() {
                    event(json, out)?;
                    out.end_event();
                    element = json.array_step()?;
                }
            }
            Some(Part::Edges) => {
                let mut element = json.next_array()?;
                while element.is_some() {
                    edge(json, out)?;
                    out.end_edge();
                    element = json.array_step()?;
                }
            }
            Some(Part::TraceId) => out.trace_id(json.next_str()?),
            None => json.next_skip()?,
        }
        part = json.next_key()?.map(Part::of);
    }
    json.finish()?;
    Ok(())
}

fn event(json: &mut jiter::Jiter<'_>, out: &mut Columns) -> Read {
    let mut field = json.next_object()?.map(Field::of);
    while let Some(known) = field {
        match known {
            Some(Field::Text(column)) => out.text(column, json.next_str()?),
            Some(Field::Float(column)) => {
                // `next_float` refuses whole numbers that are spelt without a point.
                let value = match json.next_number()? {
                    NumberAny::Float(value) => value,
                    NumberAny::Int(NumberInt::Int(value)) => value as f64,
                };
                out.float(column, value);
            }
            Some(Field::Int(column)) => match json.next_int()? {
                NumberInt::Int(value) if value >= 0 => out.int(column, value),
                NumberInt::Int(_) => return Err(Box::new(Refusal::form("a non-negative integer"))),
            },
            Some(Field::Flag(column)) => out.flag(column, json.next_bool()?),
            None => json.next_skip()?,
        }
        field = json.next_key()?.map(Field::of);
    }
    Ok(())
}

fn edge(json: &mut jiter::Jiter<'_>, out: &mut Columns) -> Read {
    let mut end = json.next_object()?.map(End::of);
    while let Some(known) = end {
        match known {
            Some(end) => out.end(end, json.next_str()?),
            None => json.next_skip()?,
        }
        end = json.next_key()?.map(End::of);
    }
    Ok(())
}
