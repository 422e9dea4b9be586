//! A record that may be longer than anybody wants to hold.

use memchr::memchr_iter;

use super::frame::{bom, is_space};
use super::source::{Block, Broken};
use crate::error::{Reject, RejectCode};

pub(crate) fn too_large(length: u64, limit: u64) -> Reject {
    Reject::new(
        RejectCode::RecordTooLarge,
        "",
        format!("found a record of {length} bytes, the limit is {limit} (option max_record)"),
    )
}

/// A record that is looked at piece by piece, so that however long it is only `limit` bytes of it are held. White
/// space around it does not count: what is judged is the same whatever pieces it came in.
#[derive(Debug)]
pub(crate) struct LongRecord {
    limit: u64,
    excerpt: usize,
    /// Where it begins and ends in the stream.
    pub start: Option<u64>,
    end: u64,
    /// Line ends before it.
    pub lead_lines: u64,
    pub kept: Vec<u8>,
}

impl LongRecord {
    pub(crate) fn new(limit: u64, excerpt: usize) -> Self {
        Self { limit, excerpt, start: None, end: 0, lead_lines: 0, kept: Vec::new() }
    }

    /// Takes the bytes that stand at `at` in the stream.
    pub(crate) fn feed(&mut self, mut piece: &[u8], mut at: u64) {
        if at == 0 {
            let mark = bom(piece);
            piece = &piece[mark..];
            at += mark as u64;
        }
        if self.start.is_none() {
            let lead = piece.iter().position(|b| !is_space(*b)).unwrap_or(piece.len());
            self.lead_lines += memchr_iter(b'\n', &piece[..lead]).count() as u64;
            if lead == piece.len() {
                return;
            }
            piece = &piece[lead..];
            at += lead as u64;
            self.start = Some(at);
        }
        if let Some(last) = piece.iter().rposition(|b| !is_space(*b)) {
            self.end = at + last as u64 + 1;
        }
        if self.fits() {
            let room = usize::try_from(self.limit - self.kept.len() as u64).unwrap_or(usize::MAX);
            self.kept.extend_from_slice(&piece[..piece.len().min(room)]);
        } else {
            if self.kept.len() < self.excerpt {
                self.kept.extend_from_slice(&piece[..piece.len().min(self.excerpt)]);
            }
            self.kept.truncate(self.excerpt);
            self.kept.shrink_to_fit();
        }
    }

    pub(crate) fn length(&self) -> u64 {
        self.start.map_or(0, |start| self.end - start)
    }

    fn fits(&self) -> bool {
        self.length() <= self.limit
    }

    /// The block that holds it, or its place among the rejected; nothing if it is blank.
    pub(crate) fn into_block(self, index: u64, line: Option<u64>, open_end: bool) -> Block {
        let block = Block { index, line, offset: self.start.unwrap_or(0), ..Block::default() };
        let Some(start) = self.start else { return Block { extra_lines: 1, ..block } };
        if self.fits() {
            return Block { bytes: self.kept, open_end, ..block };
        }
        let reject = too_large(self.length(), self.limit);
        let broken =
            Broken { offset: start, length: self.length(), lines_before: 0, reject, head: self.kept };
        Block { broken: Some(broken), extra_lines: 1, ..block }
    }
}
