//! Cutting of inputs into blocks of whole records, with positions in the decompressed stream.
//!
//! Plain line files are read by the workers themselves, a range each; everything else (compressed files,
//! arrays, documents, streams) is read front to back by one worker, which shares the parsing.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use memchr::{memchr, memchr_iter, memrchr};

use super::block::{Block, Broken};
use super::compressed::{
    Compression, Counted, Expanding, Expansion, FailedReader, MAGIC, compression, decompressed,
};
use super::frame::{Beginning, Framing, Structure, bom, is_space};
use super::long_record::LongRecord;
use super::positional::read_full_at;
use crate::error::{Reject, RejectCode};
use crate::run::Run;

/// Bytes that are held of a record that breaks off or is too long, at least: enough to find out which trace lacks it.
pub(crate) const HELD: usize = 4096;

/// Reads the records that begin in `start..end` of a plain line file. The last one may go on beyond the range; if
/// it is too long to be held, it comes as a block of its own.
pub(crate) fn read_range(
    file: &File,
    index: u64,
    (start, end, file_len): (u64, u64, u64),
    max_record: u64,
    excerpt: usize,
    mut bytes: Vec<u8>,
) -> io::Result<(Block, Option<Block>)> {
    const STEP: usize = 64 << 10;
    // One byte before the range shows whether a record begins exactly at `start`.
    let from = start.saturating_sub(1);
    // Not cleared before: bytes of the block before are as good as zeros to be read over.
    bytes.resize((end - from) as usize, 0);
    read_or_blank_at(file, &mut bytes, from)?;
    let first =
        if start == 0 { Some(0) } else { memchr(b'\n', &bytes).map(|i| i + 1).filter(|i| *i < bytes.len()) };
    let mut block = Block { index: 2 * index, offset: start, ..Block::default() };
    let Some(first) = first else { return Ok((block, None)) };
    block.offset = from + first as u64;
    let last = memrchr(b'\n', &bytes).map_or(first, |i| (i + 1).max(first));
    let mut long: Option<LongRecord> = None;
    let mut at = from + bytes.len() as u64;
    let mut open_end = false;
    if last < bytes.len() {
        let mut step = vec![0; STEP];
        loop {
            let want = STEP.min((file_len - at) as usize);
            let piece = &mut step[..want];
            read_or_blank_at(file, piece, at)?;
            let line_end = memchr(b'\n', piece);
            let piece = &piece[..line_end.map_or(want, |i| i + 1)];
            if long.is_none() && (bytes.len() - last + piece.len()) as u64 > max_record {
                let mut record = LongRecord::new(max_record, excerpt.max(HELD));
                record.feed(&bytes[last..], from + last as u64);
                bytes.truncate(last);
                long = Some(record);
            }
            match &mut long {
                Some(record) => record.feed(piece, at),
                None => bytes.extend_from_slice(piece),
            }
            at += piece.len() as u64;
            if line_end.is_some() || at >= file_len {
                open_end = line_end.is_none();
                break;
            }
        }
    }
    block.open_end = open_end && long.is_none();
    // What belongs to the range before becomes white space in front of the first record, which is left out
    // anyway, rather than moving all records.
    if first < bytes.len() {
        block.offset = from;
        bytes[..first].fill(b' ');
    } else {
        bytes.clear();
    }
    block.bytes = bytes;
    Ok((block, long.map(|record| record.into_block(2 * index + 1, None, open_end))))
}

fn read_or_blank_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<()> {
    // The file may have shrunk under us: what is gone reads as an early end of its last record.
    let read = read_full_at(file, buffer, offset)?;
    buffer[read..].fill(b' ');
    Ok(())
}

/// A stream of blocks from any reader.
pub(crate) struct BlockStream {
    reader: Box<dyn Read + Send>,
    failed: Arc<AtomicBool>,
    /// Raw bytes taken so far.
    pub consumed: Arc<AtomicU64>,
    compression: Compression,
    max_record: u64,
    block_size: usize,
    /// Bytes that are held of a record that is not given.
    excerpt: usize,
    /// Bytes read ahead: the head first, later what is left of a cut record.
    ahead: Vec<u8>,
    framing: Framing,
    offset: u64,
    line: u64,
    index: u64,
    state: State,
    broken: bool,
    /// Whether all there is has been read ahead.
    is_whole: bool,
    /// Why nothing of it is read, if it is no text.
    refused: Option<Reject>,
}

/// An input with its compression taken off.
pub(crate) struct Decoded {
    pub reader: Box<dyn Read + Send>,
    pub compression: Compression,
    /// Raw bytes taken so far.
    pub consumed: Arc<AtomicU64>,
    /// Whether reading itself failed, which is not a fault of what was read.
    pub failed: Arc<AtomicBool>,
}

impl Decoded {
    pub(crate) fn new(mut raw: Box<dyn Read + Send>, expansion: Expansion) -> io::Result<Self> {
        let consumed = Arc::new(AtomicU64::new(0));
        let mut magic = Vec::with_capacity(MAGIC);
        raw.by_ref().take(MAGIC as u64).read_to_end(&mut magic)?;
        let compression = compression(&magic);
        let failed = Arc::new(AtomicBool::new(false));
        let counted = Counted {
            inner: Cursor::new(magic).chain(raw),
            count: Arc::clone(&consumed),
            failed: Arc::clone(&failed),
        };
        let reader: Box<dyn Read + Send> = match compression {
            Compression::None | Compression::Archive => Box::new(counted),
            packed => {
                Box::new(Expanding::new(decompressed(packed, counted)?, Arc::clone(&consumed), expansion))
            }
        };
        Ok(Self { reader, compression, consumed, failed })
    }
}

/// The decompressed bytes of an input that was read before, within the limits of that reading.
pub(crate) fn decoded(raw: Box<dyn Read + Send>) -> io::Result<Box<dyn Read + Send>> {
    Decoded::new(raw, Expansion { ratio: u64::MAX, total: u64::MAX }).map(|decoded| decoded.reader)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Inside,
    /// Behind the end of the array.
    After,
    Done,
}

/// The beginning of a stream, which its blocks give again.
struct StreamBeginning<'a> {
    stream: &'a mut BlockStream,
    run: &'a Run,
}

impl Beginning for StreamBeginning<'_> {
    fn head(&mut self, size: usize) -> io::Result<&[u8]> {
        self.stream.head(size, self.run)
    }
}

/// What a read gave.
enum Filled {
    More,
    End,
    Failed(Reject),
}

impl BlockStream {
    /// Opens a stream; reads its head.
    pub(crate) fn open(raw: Box<dyn Read + Send>, options: &super::ReadOptions) -> io::Result<Self> {
        let expansion = Expansion { ratio: options.max_expansion, total: options.max_decompressed };
        Ok(Self::of(Decoded::new(raw, expansion)?, options))
    }

    /// The same of a stream that is decoded already.
    pub(crate) fn of(decoded: Decoded, options: &super::ReadOptions) -> Self {
        let Decoded { reader, compression, consumed, failed } = decoded;
        Self {
            reader,
            failed,
            consumed,
            compression,
            max_record: options.max_record,
            block_size: options.block_size.max(1),
            excerpt: options.records.excerpt.max(HELD),
            ahead: Vec::new(),
            framing: Framing::Line,
            offset: 0,
            line: 1,
            index: 0,
            state: State::Start,
            broken: false,
            is_whole: false,
            refused: None,
        }
    }

    /// The rows of a file, as lines.
    pub(crate) fn of_rows(
        opener: &super::RowOpener,
        path: &std::path::Path,
        options: &super::ReadOptions,
    ) -> io::Result<Self> {
        let consumed = Arc::new(AtomicU64::new(0));
        let lines = opener.lines(path, &consumed)?;
        let expansion = Expansion { ratio: options.max_expansion, total: options.max_decompressed };
        let reader = Box::new(Expanding::new(lines, Arc::clone(&consumed), expansion));
        let decoded = Decoded { reader, compression: Compression::None, consumed, failed: Arc::default() };
        Ok(Self::of(decoded, options))
    }

    /// A plain file that was read whole.
    pub(crate) fn of_file(bytes: Vec<u8>, options: &super::ReadOptions) -> Self {
        let decoded = Decoded {
            reader: Box::new(io::empty()),
            compression: Compression::None,
            consumed: Arc::new(AtomicU64::new(bytes.len() as u64)),
            failed: Arc::default(),
        };
        Self { ahead: bytes, is_whole: true, ..Self::of(decoded, options) }
    }

    /// Whether the head could not be read whole.
    pub(crate) fn is_broken(&self) -> bool {
        self.broken
    }

    /// The first `size` bytes, for detecting framing and format. A fault is met again when blocks are read.
    pub(crate) fn head(&mut self, size: usize, run: &Run) -> io::Result<&[u8]> {
        let mut head = std::mem::take(&mut self.ahead);
        let filled = self.fill(run, &mut head, size)?;
        self.ahead = head;
        if let Filled::Failed(reject) = filled {
            self.reader = Box::new(FailedReader(reject));
            self.broken = true;
        }
        Ok(&self.ahead[..size.min(self.ahead.len())])
    }

    /// The same, to be looked at as far as it takes.
    pub(crate) fn beginning<'a>(&'a mut self, run: &'a Run) -> impl Beginning + 'a {
        StreamBeginning { stream: self, run }
    }

    /// First byte of the next block.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// Whether the last block was given.
    pub(crate) fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Blocks given so far.
    pub(crate) fn blocks(&self) -> u64 {
        self.index
    }

    /// Settles how the stream is cut.
    pub(crate) fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
    }

    /// Makes one rejected record of all there is.
    pub(crate) fn refuse(&mut self, reject: Reject) {
        self.refused = Some(reject);
    }

    /// Appends decoded bytes until `buffer` holds `size` bytes.
    fn fill(&mut self, run: &Run, buffer: &mut Vec<u8>, size: usize) -> io::Result<Filled> {
        if self.is_whole {
            return Ok(if buffer.len() < size { Filled::End } else { Filled::More });
        }
        while buffer.len() < size {
            run.check().map_err(io::Error::other)?;
            let old = buffer.len();
            // Room is cleared before it is filled: of small files not more than they need.
            let step = old.clamp(64 << 10, 1 << 20);
            buffer.resize(size.min(old + step), 0);
            match self.reader.read(&mut buffer[old..]) {
                Ok(0) => {
                    buffer.truncate(old);
                    return Ok(Filled::End);
                }
                Ok(n) => buffer.truncate(old + n),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => buffer.truncate(old),
                Err(e) => {
                    buffer.truncate(old);
                    return match FailedReader::reject(&e) {
                        Some(reject) => Ok(Filled::Failed(reject)),
                        None if self.compression == Compression::None
                            || self.failed.load(Ordering::Relaxed) =>
                        {
                            Err(e)
                        }
                        None => Ok(Filled::Failed(Reject::new(
                            RejectCode::InputTruncated,
                            "",
                            format!("the compressed stream ends early or is damaged here: {e}"),
                        ))),
                    };
                }
            }
        }
        Ok(Filled::More)
    }

    /// The next block, if there is one.
    pub(crate) fn next(&mut self, run: &Run) -> io::Result<Option<Block>> {
        if self.state == State::Done {
            return Ok(None);
        }
        let mut block = match (self.refused.take(), self.framing) {
            (Some(reject), _) => self.rejected_rest(run, reject)?,
            (None, Framing::Line) => self.next_lines(run)?,
            (None, Framing::Document) => self.document(run)?,
            (None, Framing::Array) => self.next_elements(run)?,
        };
        block.index = self.index;
        self.index += 1;
        Ok(Some(block))
    }

    fn block(&self) -> Block {
        Block { offset: self.offset, line: Some(self.line), ..Block::default() }
    }

    fn advance(&mut self, taken: &[u8]) {
        self.offset += taken.len() as u64;
        self.line += memchr_iter(b'\n', taken).count() as u64;
    }

    fn next_lines(&mut self, run: &Run) -> io::Result<Block> {
        let mut block = self.block();
        let mut bytes = std::mem::take(&mut self.ahead);
        let mut size = self.block_size.max(bytes.len());
        // Bytes that were looked at and have no line end: a long record is not searched again as it grows.
        let mut searched = 0;
        loop {
            let filled = self.fill(run, &mut bytes, size)?;
            let complete = memrchr(b'\n', &bytes[searched..]).map_or(0, |i| searched + i + 1);
            searched = bytes.len();
            match filled {
                Filled::More if complete > 0 => {
                    self.ahead = bytes.split_off(complete);
                    break;
                }
                // One record fills the block: read on, up to the limit.
                Filled::More if (bytes.len() as u64) <= self.max_record => {
                    size = bytes.len() + self.block_size.max(1 << 20);
                }
                Filled::More => return self.long_line(run, &bytes),
                Filled::End => {
                    self.state = State::Done;
                    block.open_end = complete < bytes.len();
                    break;
                }
                Filled::Failed(reject) => {
                    self.state = State::Done;
                    let rest = bytes.split_off(complete);
                    block.broken = Some(Broken {
                        offset: self.offset + complete as u64,
                        length: rest.len() as u64,
                        lines_before: memchr_iter(b'\n', &bytes).count() as u64,
                        reject,
                        head: rest.iter().take(self.excerpt).copied().collect(),
                    });
                    break;
                }
            }
        }
        self.advance(&bytes);
        block.bytes = bytes;
        Ok(block)
    }

    /// A line that is longer than the limit, white space around it perhaps not counted.
    fn long_line(&mut self, run: &Run, start: &[u8]) -> io::Result<Block> {
        let mut record = LongRecord::new(self.max_record, self.excerpt);
        let line = self.line;
        let mut open_end = false;
        record.feed(start, self.offset);
        self.offset += start.len() as u64;
        let mut piece = Vec::new();
        loop {
            piece.clear();
            let filled = self.fill(run, &mut piece, 1 << 20)?;
            let line_end = memchr(b'\n', &piece);
            if let Some(end) = line_end {
                self.ahead = piece.split_off(end + 1);
            }
            record.feed(&piece, self.offset);
            self.advance(&piece);
            if line_end.is_some() {
                break;
            }
            if !matches!(filled, Filled::More) {
                self.state = State::Done;
                open_end = true;
                break;
            }
        }
        Ok(record.into_block(0, Some(line), open_end))
    }

    fn document(&mut self, run: &Run) -> io::Result<Block> {
        self.state = State::Done;
        let mut record = LongRecord::new(self.max_record, self.excerpt);
        let mut piece = std::mem::take(&mut self.ahead);
        let mut at = 0;
        let failed = loop {
            let size = piece.len().max(1 << 20);
            let filled = self.fill(run, &mut piece, size)?;
            record.feed(&piece, at);
            at += piece.len() as u64;
            match filled {
                Filled::More => piece.clear(),
                Filled::End => break None,
                Filled::Failed(reject) => break Some(reject),
            }
        };
        let (length, start) = (record.length(), record.start.unwrap_or(0));
        let line = 1 + record.lead_lines;
        let mut block = record.into_block(0, Some(line), true);
        block.document = true;
        if let Some(reject) = failed {
            let head = block.bytes.iter().take(self.excerpt).copied().collect();
            block.broken = Some(Broken { offset: start, length, lines_before: 0, reject, head });
            block.bytes.clear();
        }
        Ok(block)
    }

    fn next_elements(&mut self, run: &Run) -> io::Result<Block> {
        let mut bytes = std::mem::take(&mut self.ahead);
        let mut size = self.block_size.max(bytes.len());
        let mut block = self.block();
        if self.state == State::Start {
            self.state = State::Inside;
            self.fill(run, &mut bytes, size)?;
            let start = bom(&bytes);
            let open = memchr(b'[', &bytes[start..]).map_or(start, |i| start + i + 1);
            self.advance(&bytes[..open]);
            bytes.drain(..open);
            block = self.block();
        }
        if self.state == State::After {
            self.ahead = bytes;
            return self.trailing(run);
        }
        let mut elements = Vec::new();
        // Start of the element that is being looked for, and how far it has been looked at.
        let (mut start, mut seen) = (0, 0);
        let mut scan = Structure::element();
        let mut lines = 0;
        loop {
            if let Some(end) = scan.value_end(&bytes[seen..]).map(|e| seen + e) {
                let last = bytes[end] == b']';
                let blank = bytes[start..end].iter().all(|b| is_space(*b));
                // `[]` has no element; anywhere else an empty place is a broken one.
                if !(blank && last && self.index == 0 && elements.is_empty()) {
                    let lead = bytes[start..end].iter().position(|b| !is_space(*b)).unwrap_or(0);
                    let newlines = memchr_iter(b'\n', &bytes[start..start + lead]).count() as u64;
                    elements.push((start + lead, end, lines + newlines));
                }
                lines += memchr_iter(b'\n', &bytes[start..=end]).count() as u64;
                start = end + 1;
                seen = start;
                scan = Structure::element();
                if last {
                    self.state = State::After;
                    self.ahead = bytes.split_off(start);
                    break;
                }
                if start >= self.block_size {
                    self.ahead = bytes.split_off(start);
                    break;
                }
                continue;
            }
            seen = bytes.len();
            if start > 0 && bytes.len() >= self.block_size {
                self.ahead = bytes.split_off(start);
                break;
            }
            if (bytes.len() - start) as u64 > self.max_record {
                if start == 0 {
                    return self.long_element(run, &bytes, scan);
                }
                // What is whole goes first.
                self.ahead = bytes.split_off(start);
                break;
            }
            size = size.max(bytes.len() + self.block_size.min(1 << 20));
            let filled = self.fill(run, &mut bytes, size)?;
            if let Filled::More = filled {
                continue;
            }
            if bytes.len() > seen {
                continue;
            }
            self.state = State::Done;
            let reject = match filled {
                Filled::Failed(reject) => reject,
                _ => Reject::new(
                    RejectCode::InputTruncated,
                    "",
                    "the input ends inside its array, expected ',' or ']'",
                ),
            };
            block.broken = Some(self.rest(&mut bytes, start, lines, reject));
            break;
        }
        self.advance(&bytes);
        block.elements = Some(elements);
        block.bytes = bytes;
        Ok(block)
    }

    /// An element that is longer than the limit, white space around it perhaps not counted; `scan` has seen `start`.
    fn long_element(&mut self, run: &Run, start: &[u8], mut scan: Structure) -> io::Result<Block> {
        let mut record = LongRecord::new(self.max_record, self.excerpt);
        let line = self.line;
        let mut open_end = false;
        record.feed(start, self.offset);
        self.advance(start);
        let mut piece = Vec::new();
        loop {
            piece.clear();
            let filled = self.fill(run, &mut piece, 1 << 20)?;
            if let Some(end) = scan.value_end(&piece) {
                self.state = if piece[end] == b']' { State::After } else { State::Inside };
                self.ahead = piece.split_off(end + 1);
                record.feed(&piece[..end], self.offset);
                self.advance(&piece);
                break;
            }
            record.feed(&piece, self.offset);
            self.advance(&piece);
            if !matches!(filled, Filled::More) {
                self.state = State::Done;
                open_end = true;
                break;
            }
        }
        let line = line + record.lead_lines;
        Ok(Block { document: true, extra_lines: 0, ..record.into_block(0, Some(line), open_end) })
    }

    /// Everything from `start` on, as one record that could not be framed.
    fn rest(&self, bytes: &mut Vec<u8>, start: usize, lines: u64, reject: Reject) -> Broken {
        let lead = bytes[start..].iter().position(|b| !is_space(*b)).unwrap_or(0);
        let lines_before = lines + memchr_iter(b'\n', &bytes[start..start + lead]).count() as u64;
        let rest = bytes.split_off(start);
        Broken {
            offset: self.offset + (start + lead) as u64,
            length: (rest.len() - lead) as u64,
            lines_before,
            reject,
            head: rest[lead..].iter().take(self.excerpt).copied().collect(),
        }
    }

    /// After the array: nothing but white space may follow.
    fn trailing(&mut self, run: &Run) -> io::Result<Block> {
        let message = "found text after the array, expected the end of the input";
        self.rejected_rest(run, Reject::new(RejectCode::JsonTrailing, "", message))
    }

    /// All that is left as one rejected record, unless it is white space.
    fn rejected_rest(&mut self, run: &Run, reject: Reject) -> io::Result<Block> {
        self.state = State::Done;
        let mut block = Block { elements: Some(Vec::new()), ..self.block() };
        let mut rest = LongRecord::new(self.excerpt as u64, self.excerpt);
        let mut piece = std::mem::take(&mut self.ahead);
        let failed = loop {
            let size = piece.len().max(1 << 16);
            let filled = self.fill(run, &mut piece, size)?;
            rest.feed(&piece, self.offset);
            self.offset += piece.len() as u64;
            match filled {
                Filled::More => piece.clear(),
                Filled::End => break None,
                Filled::Failed(reject) => break Some(reject),
            }
        };
        let reject = failed.or_else(|| rest.start.map(|_| reject));
        block.broken = reject.map(|reject| Broken {
            offset: rest.start.unwrap_or(self.offset),
            length: rest.length(),
            lines_before: rest.lead_lines,
            reject,
            head: rest.excerpt_bytes,
        });
        Ok(block)
    }
}
