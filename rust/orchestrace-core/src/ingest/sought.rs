//! Source positions of events, found by reading inputs again: those of one trace's events, or the events that are made of
//! records at some places. The tables hold positions of traces only, so ordinary reads do not pay for these rare questions.

use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use memchr::memchr_iter;

use super::input::{Opened, Raw, ReadPosition, io_error};
use super::places::{Owner, SoughtPlaces};
use super::{Input, ReadOptions, read};
use crate::columns::quarantine::Position;
use crate::error::Result;
use crate::importers::IMPORTERS;
use crate::run::Run;
use crate::store::Store;

/// What a reading looks for; the tables have nothing else.
#[derive(Debug)]
pub enum Sought {
    /// One trace.
    Trace(SoughtTrace),
    /// All traces that are made of what lies at some places.
    Places(SoughtPlaces),
}

impl Sought {
    /// Whether a record may have something of it: be the trace, or hold it; of a line that holds several.
    pub(super) fn lies_within(&self, path: &str, position: Position) -> bool {
        match self {
            Self::Trace(trace) => trace.lies_within(path, position),
            Self::Places(places) => places.lie_within(path, position),
        }
    }

    /// Notes the events of a record that is a whole trace: parts of it, or all of them the whole.
    pub(super) fn note_parts(&self, text: &str, events: Vec<Range<usize>>, path: &str, position: Position) {
        match self {
            Self::Trace(trace) => trace.note_parts(text, events, path, position),
            Self::Places(places) => places.note_parts(&events, path, position),
        }
    }

    /// Whether a trace that was put together is looked for. `items` are the positions of all that it may be made of.
    pub(super) fn is<'a>(
        &self,
        trace_id: &str,
        (path, home): (&str, Position),
        mut items: impl Iterator<Item = (&'a str, Position)>,
    ) -> bool {
        match self {
            Self::Trace(trace) => trace.is(trace_id, path, home),
            Self::Places(places) => items.any(|(path, position)| places.lie_within(path, position)),
        }
    }

    /// Notes a trace that was put together: the position of the record that each event was made of, in order, and those of
    /// all that it may be made of.
    pub(super) fn note<'a>(
        &self,
        (trace_id, path, home): (&str, &str, Position),
        made_of: impl Iterator<Item = (&'a str, Position)>,
        items: impl Iterator<Item = (&'a str, Position)>,
    ) {
        match self {
            Self::Trace(trace) => trace.note(made_of),
            Self::Places(places) => places.note((trace_id, path, home), made_of, items),
        }
    }
}

/// The trace that a reading looks for, as the table `traces` names it.
#[derive(Debug)]
pub struct SoughtTrace {
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

impl SoughtTrace {
    /// A trace by its id and the place of its first record.
    #[must_use]
    pub fn new(trace_id: String, file: String, line: u64, offset: u64, length: u64) -> Self {
        Self { trace_id, file, line, offset, length, places: Mutex::default() }
    }

    /// Whether a record is the trace.
    fn lies(&self, path: &str, position: Position) -> bool {
        self.file == path && (self.offset, self.length) == (position.offset, position.length)
    }

    /// Whether the trace may be a part of a record's bytes: of a line that holds several.
    fn lies_within(&self, path: &str, position: Position) -> bool {
        let end = position.offset + position.length;
        self.file == path && position.offset <= self.offset && self.offset + self.length <= end
    }

    /// Whether a trace that was put together is the one.
    fn is(&self, trace_id: &str, path: &str, position: Position) -> bool {
        self.trace_id == trace_id && self.lies(path, position)
    }

    /// Notes the records that the events were made of, in order.
    fn note<'a>(&self, records: impl Iterator<Item = (&'a str, Position)>) {
        let place = |(path, position): (&str, Position)| EventPlace {
            file: path.to_owned(),
            line: position.line,
            offset: position.offset,
            length: position.length,
        };
        *self.places.lock().unwrap_or_else(PoisonError::into_inner) = records.map(place).collect();
    }

    /// Notes the events of a record that is a whole trace: parts of it, or all of them the whole.
    fn note_parts(&self, text: &str, events: Vec<Range<usize>>, path: &str, position: Position) {
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
    sought: SoughtTrace,
    options: &ReadOptions,
    run: &Run,
) -> Result<(Store, Vec<EventPlace>)> {
    let (store, sought) = read_for(inputs, Sought::Trace(sought), options, run)?;
    let Sought::Trace(SoughtTrace { places, .. }) = &*sought else { return Ok((store, Vec::new())) };
    let places = std::mem::take(&mut *places.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((store, places))
}

/// Reads inputs for the traces that are made of what lies at `places`, an input or the entry of an archive and a byte of it
/// each: a store of these traces alone, and whose each place is. A reading of the inputs, which passes over records that
/// are whole traces and have none of the places.
pub fn owners(
    inputs: Vec<Input>,
    places: &[(String, u64)],
    options: &ReadOptions,
    run: &Run,
) -> Result<(Store, Vec<Owner>)> {
    let (store, sought) = read_for(inputs, Sought::Places(SoughtPlaces::new(places)), options, run)?;
    let Sought::Places(sought) = &*sought else { return Ok((store, Vec::new())) };
    Ok((store, sought.owners(places)))
}

fn read_for(
    inputs: Vec<Input>,
    sought: Sought,
    options: &ReadOptions,
    run: &Run,
) -> Result<(Store, Arc<Sought>)> {
    let sought = Arc::new(sought);
    let mut options = ReadOptions { sought: Some(Arc::clone(&sought)), ..options.clone() };
    options.records.items = true;
    Ok((read(inputs, &options, run)?, sought))
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
