//! Our own pull parser, as the importer of native traces uses it.

use std::sync::LazyLock;

use orchestrace_core::error::RejectCode;
use orchestrace_core::json::{Cursor, Fault, Kind, Limits, Parsed, Pattern};

use super::{Read, Reader, Refusal, utf8};
use crate::columns::{Columns, EVENT_KEYS, End, Field, Part, place_of};

const LIMITS: Limits = Limits { depth: 128, string: 64 << 20, lenient: false };

impl From<Box<Fault>> for Box<Refusal> {
    fn from(fault: Box<Fault>) -> Self {
        Box::new(Refusal::new(fault.at, &fault.message))
    }
}

/// Every key is read and looked up.
#[derive(Default)]
pub(super) struct Plain {
    scratch: String,
}

impl Reader for Plain {
    fn name(&self) -> &'static str {
        "orchestrace Cursor"
    }

    fn document(&mut self, bytes: &mut [u8], len: usize, out: &mut Columns) -> Read {
        let text = utf8(&bytes[..len])?;
        read(text, &mut self.scratch, out, |cursor, scratch, out| {
            let mut more = cursor.open_object()?;
            while more {
                let field = Field::of(cursor.key()?.text(scratch));
                value(cursor, field, scratch, out)?;
                more = cursor.more_object()?;
            }
            Ok(())
        })
    }
}

/// A key is compared with the one that followed its predecessor last time, and read only if it differs.
pub(super) struct Guessing {
    scratch: String,
    next: [u8; EVENT_KEYS.len() + 1],
}

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    EVENT_KEYS.iter().map(|(key, _)| Pattern::new(format!("\"{key}\":").as_bytes())).collect()
});

impl Default for Guessing {
    fn default() -> Self {
        Self { scratch: String::new(), next: [0; EVENT_KEYS.len() + 1] }
    }
}

impl Reader for Guessing {
    fn name(&self) -> &'static str {
        "orchestrace Cursor, keys guessed"
    }

    fn document(&mut self, bytes: &mut [u8], len: usize, out: &mut Columns) -> Read {
        let text = utf8(&bytes[..len])?;
        let next = &mut self.next;
        let patterns = PATTERNS.as_slice();
        read(text, &mut self.scratch, out, |cursor, scratch, out| {
            let mut last = EVENT_KEYS.len();
            let mut more = cursor.open_object()?;
            while more {
                let guess = usize::from(next[last]);
                if cursor.take(&patterns[guess]) {
                    last = guess;
                    value(cursor, Some(EVENT_KEYS[guess].1), scratch, out)?;
                } else {
                    let place = place_of(cursor.key()?.text(scratch));
                    if let Some(at) = place {
                        next[last] = at as u8;
                        last = at;
                    }
                    value(cursor, place.map(|at| EVENT_KEYS[at].1), scratch, out)?;
                }
                more = cursor.more_object()?;
            }
            Ok(())
        })
    }
}

fn read(
    text: &str,
    scratch: &mut String,
    out: &mut Columns,
    mut event: impl FnMut(&mut Cursor<'_>, &mut String, &mut Columns) -> Parsed<()>,
) -> Read {
    let mut cursor = Cursor::new(text, LIMITS);
    cursor.ws();
    let mut more = cursor.open_object()?;
    while more {
        match Part::of(cursor.key()?.text(scratch)) {
            Some(Part::Events) => {
                let mut more = cursor.open_array()?;
                while more {
                    event(&mut cursor, scratch, out)?;
                    out.end_event();
                    more = cursor.more_array()?;
                }
            }
            Some(Part::Edges) => {
                let mut more = cursor.open_array()?;
                while more {
                    edge(&mut cursor, scratch, out)?;
                    out.end_edge();
                    more = cursor.more_array()?;
                }
            }
            Some(Part::TraceId) => {
                kind(&cursor, Kind::String)?;
                out.trace_id(cursor.string()?.text(scratch));
            }
            None => {
                cursor.skip()?;
            }
        }
        more = cursor.more_object()?;
    }
    cursor.end()?;
    Ok(())
}

fn edge(cursor: &mut Cursor<'_>, scratch: &mut String, out: &mut Columns) -> Parsed<()> {
    let mut more = cursor.open_object()?;
    while more {
        match End::of(cursor.key()?.text(scratch)) {
            Some(end) => {
                kind(cursor, Kind::String)?;
                out.end(end, cursor.string()?.text(scratch));
            }
            None => {
                cursor.skip()?;
            }
        }
        more = cursor.more_object()?;
    }
    Ok(())
}

#[inline]
fn value(
    cursor: &mut Cursor<'_>,
    field: Option<Field>,
    scratch: &mut String,
    out: &mut Columns,
) -> Parsed<()> {
    match field {
        Some(Field::Text(column)) => {
            kind(cursor, Kind::String)?;
            out.text(column, cursor.string()?.text(scratch));
        }
        Some(Field::Float(column)) => {
            kind(cursor, Kind::Number)?;
            out.float(column, cursor.number()?.f64()?);
        }
        Some(Field::Int(column)) => {
            kind(cursor, Kind::Number)?;
            out.int(
                column,
                cursor.number()?.u63().ok_or_else(|| Fault::value(RejectCode::FieldType, "an integer"))?,
            );
        }
        Some(Field::Flag(column)) => {
            kind(cursor, Kind::Bool)?;
            out.flag(column, cursor.bool()?);
        }
        None => {
            cursor.skip()?;
        }
    }
    Ok(())
}

#[inline]
fn kind(cursor: &Cursor<'_>, expected: Kind) -> Parsed<()> {
    if cursor.kind()? == expected {
        Ok(())
    } else {
        Err(Fault::value(RejectCode::FieldType, expected.as_str()))
    }
}
