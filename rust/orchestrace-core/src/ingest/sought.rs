//! Source positions of one trace's events, found by reading its inputs again. The tables hold positions of traces only,
//! so ordinary reads do not pay for this rare question.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use memchr::memchr_iter;

use super::input::{Opened, Raw, ReadPosition, io_error};
use super::{Input, ReadOptions, read};
use crate::columns::quarantine::Position;
use crate::error::Result;
use crate::importers::IMPORTERS;
use crate::run::Run;
use crate::store::Store;

/// The trace that a reading looks for, as the table `traces` names it.
#[derive(Debug)]
pub struct Sought {
    trace_id: String,
    file: String,
    line: u64,
    offset: u64,
    length: u64,
    places: Mutex<Vec<EventPlace>>,
}

/// The position of the record of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventPlace {
    /// Its input, or the entry of an archive, as the tables name it.
    pub file: String,
    /// Line, from 1.
    pub line: u64,
    /// First byte, in the decompressed input.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl Sought {
    /// A trace by its id and the place of its first record.
    #[must_use]
    pub fn new(trace_id: String, file: String, line: u64, offset: u64, length: u64) -> Self {
        Self { trace_id, file, line, offset, length, places: Mutex::default() }
    }

    /// Whether a record is the trace.
    pub(super) fn lies(&self, path: &str, position: Position) -> bool {
        self.file == path && (self.offset, self.length) == (position.offset, position.length)
    }

    /// Whether the trace may be a part of a record's bytes: of a line that holds several.
    pub(super) fn lies_within(&self, path: &str, position: Position) -> bool {
        let end = position.offset + position.length;
        self.file == path && position.offset <= self.offset && self.offset + self.length <= end
    }

    /// Whether a trace that was put together is the one.
    pub(super) fn is(&self, trace_id: &str, path: &str, position: Position) -> bool {
        self.trace_id == trace_id && self.lies(path, position)
    }

    /// Notes the records that the events were made of, in order.
    pub(super) fn note<'a>(&self, records: impl Iterator<Item = (&'a str, Position)>) {
        let place = |(path, position): (&str, Position)| EventPlace {
            file: path.to_owned(),
            line: position.line,
            offset: position.offset,
            length: position.length,
        };
        *self.places.lock().unwrap_or_else(PoisonError::into_inner) = records.map(place).collect();
    }

    /// Notes the events of a record that is a whole trace: parts of it, or all of them the whole.
    pub(super) fn note_parts(&self, text: &str, events: Vec<Range<usize>>, path: &str, position: Position) {
        // Who reads a range of a file does not know its lines; who asks does.
        let record_position = Position { line: self.line, ..position };
        let (mut line, mut counted) = (self.line, 0);
        let parts = events.into_iter().map(|part| {
            line += memchr_iter(b'\n', &text.as_bytes()[counted..part.start]).count() as u64;
            counted = part.start;
            (path, Position { line, offset: position.offset + part.start as u64, length: part.len() as u64 })
        });
        let parts: Vec<_> = parts.collect();
        if parts.is_empty() {
            self.note(std::iter::once((path, record_position)));
        } else {
            self.note(parts.into_iter());
        }
    }
}

/// Reads inputs for one trace: a store of it alone, and the position of each event, or one position for all. Both are
/// empty if the trace is no longer there.
pub fn locate(
    inputs: Vec<Input>,
    sought: Sought,
    options: &ReadOptions,
    run: &Run,
) -> Result<(Store, Vec<EventPlace>)> {
    let sought = Arc::new(sought);
    let mut options = ReadOptions { sought: Some(Arc::clone(&sought)), ..options.clone() };
    options.records.items = true;
    let store = read(inputs, &options, run)?;
    let places = std::mem::take(&mut *sought.places.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((store, places))
}

/// Bytes of a record as they stand in the input `path`, which the tables call `name`; nothing if the input has changed and
/// ends before, or has no such entry. O(bytes before it).
pub fn record_bytes(
    path: &Path,
    name: &str,
    place: &EventPlace,
    options: &ReadOptions,
    run: &Run,
) -> Result<Option<Vec<u8>>> {
    let raw = Raw::open(path).map_err(io_error(name))?;
    // Blocks are cut alike for all formats, and nothing is parsed.
    let format = IMPORTERS.first().copied();
    let mut opened = Opened::new(raw, ReadPosition::default(), options, format, name, None, run)
        .map_err(io_error(name))?;
    while let Some(given) = opened.next(run).map_err(io_error(name))? {
        let path_of_input = given.entry.as_ref().map_or(name, |entry| entry.path.as_str());
        let (block, end) = (&given.block, place.offset + place.length);
        if path_of_input == place.file
            && block.offset <= place.offset
            && end <= block.offset + block.bytes.len() as u64
        {
            let from = (place.offset - block.offset) as usize;
            return Ok(Some(block.bytes[from..from + place.length as usize].to_vec()));
        }
    }
    Ok(None)
}
