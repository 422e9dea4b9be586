//! The index of traces: repeated exports, reused ids, and the number of each trace.
//!
//! A trace is known by two 64-bit hashes, of its `trace_id` and of its record's bytes. Both together identify a
//! repeated export (wrongly once in 2^128 pairs), the first alone a reused id (wrongly once in 2^64 pairs, which
//! costs a finding and no data). Some 70 bytes a trace, whatever the ids and the records are.

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
    /// Hash of its `trace_id`.
    pub id: u64,
    /// Hash of its record.
    pub content: u64,
    /// Whether it was left out as a repeated export.
    pub duplicate: bool,
}

/// What the index says of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It gets this number; another trace may have its id.
    New { number: u32, reused: Option<u32> },
    /// The same record under the same id is there already.
    Duplicate(u32),
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

/// Both hashes as one, hashed again: many records under one id, or one record under many, must not meet.
fn both(id: u64, content: u64) -> u64 {
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
        let known = self.contents.find(both(id, content), |(i, c, _)| *i == id && *c == content);
        if let Some((_, _, number)) = known {
            return Seen::Duplicate(*number);
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
            let (trace, duplicate) = match self.see(input, id, *content) {
                Seen::Duplicate(of) => (of, true),
                Seen::New { number, reused } => {
                    if let Some(earlier) = reused {
                        chunk.findings.push((local as u32, reused_id(text, earlier)));
                    }
                    (number, false)
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
        assert_eq!(index.see(0, 1, 10), Seen::Duplicate(0));
        assert_eq!(index.see(1, 1, 11), Seen::New { number: 1, reused: Some(0) });
        index.insert_former(IndexRow { trace: 7, input: 2, id: 5, content: 50, duplicate: false });
        assert_eq!(index.see(2, 6, 60), Seen::New { number: 8, reused: None });
        assert_eq!(index.see(2, 5, 51), Seen::New { number: 7, reused: None });
        assert_eq!(index.see(2, 5, 52), Seen::New { number: 9, reused: Some(7) });
        assert!(index.nbytes() > 0);
        assert_eq!(TraceIndex::starting_at(3).see(0, 1, 10), Seen::New { number: 3, reused: None });
    }
}
