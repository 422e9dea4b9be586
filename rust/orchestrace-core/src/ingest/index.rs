//! The index of traces: repeated exports, reused ids, and the number of each trace.
//!
//! A trace is known by two 64-bit hashes, of its `trace_id` and of its record. Both together identify a
//! repeated export (wrongly once in 2^128 pairs), the first alone a reused id (wrongly once in 2^64 pairs, which
//! costs a finding and no data). Where the id is but the name of a file, the content alone identifies it. Some 70 bytes a
//! trace, whatever the ids and the records are.

use std::collections::{HashMap, VecDeque};

use arrow_array::cast::AsArray;
use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use crate::columns::chunk::{RawChunk, reused_id};
use crate::error::{Error, Result};

/// A trace of the corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexRow {
    /// Its number; of a duplicate, that of the trace that it repeats.
    pub trace: u32,
    /// The input that it came from, by the caller's numbering.
    pub input: u32,
    /// Hash of its `trace_id`; of a duplicate, that of the trace that it repeats.
    pub id: u64,
    /// Hash of its record ([`content_hash`]).
    pub content: u64,
    /// Whether it was left out as a repeated export.
    pub duplicate: bool,
}

/// What the index says of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It gets this number; another trace may have its id.
    New { number: u32, reused: Option<u32> },
    /// The same is there already, under this number and the hash of this id.
    Duplicate { number: u32, id: u64 },
}

/// The traces of a corpus, by id and content.
#[derive(Debug, Default)]
pub struct TraceIndex {
    contents: HashTable<(u64, u64, u32)>,
    ids: HashTable<(u64, u32)>,
    next: u32,
    /// Numbers that traces of a replaced input had, by input and id, in order.
    former: HashMap<(u32, u64), VecDeque<u32>>,
}

/// The bits that tell that a record has no id which distinguishes it.
const ALONE: u64 = 0xFF << 56;

/// The hash of a record as the index keeps it.
pub(super) fn content_hash(hash: u64, has_id: bool) -> u64 {
    match has_id {
        false => hash | ALONE,
        true if is_alone(hash) => hash & !(1 << 63),
        true => hash,
    }
}

/// Whether a trace is known by its content alone.
fn is_alone(content: u64) -> bool {
    content & ALONE == ALONE
}

/// Both hashes as one, hashed again: many records under one id, or one record under many, must not meet.
fn both(id: u64, content: u64) -> u64 {
    let id = if is_alone(content) { 0 } else { id };
    xxh3_64(&(u128::from(id) << 64 | u128::from(content)).to_le_bytes())
}

impl TraceIndex {
    /// An index of a corpus that has given all numbers below `next`, some of them perhaps to traces that are gone.
    #[must_use]
    pub fn starting_at(next: u32) -> Self {
        Self { next, ..Self::default() }
    }

    /// The hash of a `trace_id`.
    #[must_use]
    pub fn id_hash(trace_id: &str) -> u64 {
        xxh3_64(trace_id.as_bytes())
    }

    /// Puts a trace of an earlier reading in.
    pub fn insert(&mut self, row: IndexRow) {
        if !row.duplicate {
            self.next = self.next.max(row.trace + 1);
            self.put(row.id, row.content, row.trace);
        }
    }

    /// Remembers the number of a trace whose input is read anew: the first trace with its id keeps it.
    pub fn insert_former(&mut self, row: IndexRow) {
        if !row.duplicate {
            self.next = self.next.max(row.trace + 1);
            self.former.entry((row.input, row.id)).or_default().push_back(row.trace);
        }
    }

    fn put(&mut self, id: u64, content: u64, number: u32) {
        let hash = both(id, content);
        self.contents.insert_unique(hash, (id, content, number), |(i, c, _)| both(*i, *c));
        if self.ids.find(id, |(i, _)| *i == id).is_none() {
            self.ids.insert_unique(id, (id, number), |(i, _)| *i);
        }
    }

    /// Looks a trace up and puts it in.
    pub(crate) fn see(&mut self, input: u32, id: u64, content: u64) -> Seen {
        let is_same = |(i, c, _): &(u64, u64, u32)| *c == content && (*i == id || is_alone(content));
        if let Some((id, _, number)) = self.contents.find(both(id, content), is_same) {
            return Seen::Duplicate { number: *number, id: *id };
        }
        let reused = self.ids.find(id, |(i, _)| *i == id).map(|(_, number)| *number);
        let former = self.former.get_mut(&(input, id)).and_then(VecDeque::pop_front);
        let number = former.unwrap_or(self.next);
        self.next = self.next.max(number + 1);
        self.put(id, content, number);
        Seen::New { number, reused }
    }

    /// Numbers the traces of a chunk, and notes which of them stay.
    pub(super) fn number(&mut self, chunk: &mut RawChunk, rows: &mut Vec<IndexRow>) -> Result<()> {
        let ids = std::sync::Arc::clone(&chunk.trace_id);
        let mut numbers = Vec::with_capacity(chunk.digests.len());
        let mut keep = Vec::with_capacity(chunk.digests.len());
        let inputs =
            chunk.segments.iter().flat_map(|part| std::iter::repeat_n(part.source as u32, part.traces));
        let traces = ids.as_string_view().iter().zip(&chunk.digests).zip(inputs);
        for (local, ((id, content), input)) in traces.enumerate() {
            if self.next_number() == u32::MAX {
                return Err(Error::TooLarge(format!("a corpus has at most {} traces", u32::MAX)));
            }
            let text = id.unwrap_or_default();
            let id = Self::id_hash(text);
            let (trace, id, duplicate) = match self.see(input, id, *content) {
                Seen::Duplicate { number, id } => (number, id, true),
                Seen::New { number, reused } => {
                    if let Some(earlier) = reused {
                        chunk.findings.push((local as u32, reused_id(text, earlier)));
                    }
                    (number, id, false)
                }
            };
            // What is left out needs a number of its own until it is.
            numbers.push(if duplicate { u32::MAX - local as u32 } else { trace });
            keep.push(!duplicate);
            rows.push(IndexRow { trace, input, id, content: *content, duplicate });
        }
        chunk.numbers = Some(numbers);
        chunk.keep = keep.contains(&false).then_some(keep);
        Ok(())
    }

    /// Number of the next new trace.
    #[must_use]
    pub fn next_number(&self) -> u32 {
        self.next
    }

    /// Bytes held.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        self.contents.allocation_size() + self.ids.allocation_size() + self.former.len() * 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_reuses_and_keeps_numbers() {
        let mut index = TraceIndex::default();
        assert_eq!(index.see(0, 1, 10), Seen::New { number: 0, reused: None });
        assert_eq!(index.see(0, 1, 10), Seen::Duplicate { number: 0, id: 1 });
        assert_eq!(index.see(1, 1, 12), Seen::New { number: 1, reused: Some(0) });
        index.insert_former(IndexRow { trace: 7, input: 2, id: 5, content: 50, duplicate: false });
        assert_eq!(index.see(2, 6, 60), Seen::New { number: 8, reused: None });
        assert_eq!(index.see(2, 5, 52), Seen::New { number: 7, reused: None });
        assert_eq!(index.see(2, 5, 54), Seen::New { number: 9, reused: Some(7) });
        assert_eq!((content_hash(5, true), content_hash(5, false)), (5, ALONE | 5));
        assert!(!is_alone(content_hash(u64::MAX, true)));
        // Named after its file: whatever that is.
        assert_eq!(index.see(2, 8, ALONE | 0x3d), Seen::New { number: 10, reused: None });
        assert_eq!(index.see(3, 9, ALONE | 0x3d), Seen::Duplicate { number: 10, id: 8 });
        assert!(index.nbytes() > 0);
        assert_eq!(TraceIndex::starting_at(3).see(0, 1, 10), Seen::New { number: 3, reused: None });
    }
}
