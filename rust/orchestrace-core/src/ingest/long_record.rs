//! A record that may exceed the length limit.

use memchr::memchr_iter;

use super::block::{Block, Broken};
use super::frame::{BOM, is_space};
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
    /// Bytes of a byte order mark that the stream began with so far; all of them once that is settled.
    mark: usize,
    /// Where it begins and ends in the stream.
    pub start: Option<u64>,
    end: u64,
    /// Line ends before it.
    pub lead_lines: u64,
    pub excerpt_bytes: Vec<u8>,
}

impl LongRecord {
    pub(crate) fn new(limit: u64, excerpt: usize) -> Self {
        Self { limit, excerpt, mark: 0, start: None, end: 0, lead_lines: 0, excerpt_bytes: Vec::new() }
    }

    /// Takes the bytes that stand at `at` in the stream. A mark at its start is left out, also one in pieces.
    pub(crate) fn feed(&mut self, mut piece: &[u8], mut at: u64) {
        if self.mark < BOM.len() && at == self.mark as u64 {
            let more = BOM[self.mark..].iter().zip(piece).take_while(|(a, b)| a == b).count();
            self.mark += more;
            piece = &piece[more..];
            at += more as u64;
            if self.mark < BOM.len() && piece.is_empty() {
                return;
            }
            self.settle_mark();
        }
        self.take(piece, at);
    }

    /// What only began like a mark belongs to the record.
    fn settle_mark(&mut self) {
        let matched = std::mem::replace(&mut self.mark, BOM.len());
        if matched < BOM.len() {
            self.take(&BOM[..matched], 0);
        }
    }

    fn take(&mut self, mut piece: &[u8], mut at: u64) {
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
            let room = usize::try_from(self.limit - self.excerpt_bytes.len() as u64).unwrap_or(usize::MAX);
            self.excerpt_bytes.extend_from_slice(&piece[..piece.len().min(room)]);
        } else {
            if self.excerpt_bytes.len() < self.excerpt {
                self.excerpt_bytes.extend_from_slice(&piece[..piece.len().min(self.excerpt)]);
            }
            self.excerpt_bytes.truncate(self.excerpt);
            self.excerpt_bytes.shrink_to_fit();
        }
    }

    pub(crate) fn length(&self) -> u64 {
        self.start.map_or(0, |start| self.end - start)
    }

    fn fits(&self) -> bool {
        self.length() <= self.limit
    }

    /// The block that holds it, or its place among the rejected; nothing if it is blank.
    pub(crate) fn into_block(mut self, index: u64, line: Option<u64>, open_end: bool) -> Block {
        self.settle_mark();
        let block = Block { index, line, offset: self.start.unwrap_or(0), ..Block::default() };
        let Some(start) = self.start else { return Block { extra_lines: 1, ..block } };
        if self.fits() {
            return Block { bytes: self.excerpt_bytes, open_end, ..block };
        }
        let reject = too_large(self.length(), self.limit);
        let broken = Broken {
            offset: start,
            length: self.length(),
            lines_before: 0,
            reject,
            head: self.excerpt_bytes,
        };
        Block { broken: Some(broken), extra_lines: 1, ..block }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_in_pieces_is_no_part_of_the_record() {
        for (text, start, length) in [
            ("\u{feff}abc", 3, 3),
            ("abc", 0, 3),
            ("\u{feff}", 0, 0),
            ("\u{fefe}a", 0, 4),
            ("\u{feff}\u{feff}", 3, 3),
        ] {
            for size in 1..=text.len() {
                let mut record = LongRecord::new(1, 9);
                for (i, piece) in text.as_bytes().chunks(size).enumerate() {
                    record.feed(piece, (i * size) as u64);
                }
                let block = record.into_block(0, None, true);
                let place = block.broken.map_or((0, block.bytes.len() as u64), |b| (b.offset, b.length));
                assert_eq!(place, (start, length), "{text:?} in pieces of {size}");
            }
        }
        let mut cut = LongRecord::new(9, 9);
        cut.feed(&BOM[..2], 0);
        assert_eq!(cut.into_block(0, None, true).bytes, &BOM[..2]);
    }
}
