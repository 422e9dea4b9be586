//! Inputs to blocks of whole records, with their place in the decompressed stream.
//!
//! Plain line files are read by the workers themselves, a range each; everything else (compressed files,
//! arrays, documents, streams) is read front to back by one worker, which shares the parsing.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use memchr::{memchr, memchr_iter, memrchr};

use super::frame::{Framing, HEAD, Structure, bom, is_space};
use crate::error::{Reject, RejectCode};

/// Records of one block.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// Place of the block in its input, for putting results back in order.
    pub index: u64,
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Offset of the first byte in the decompressed stream.
    pub offset: u64,
    /// Elements of an array, with their lines counted from the start of the block; `None` for lines.
    pub elements: Option<Vec<(usize, usize, u64)>>,
    /// Line of the first byte, where it is known; workers that read ranges do not know it.
    pub line: Option<u64>,
    /// A last record without a line end: what is missing from it is missing from the input.
    pub open_end: bool,
    /// What could not be framed at all, after the records.
    pub broken: Option<Broken>,
    /// Whether the whole block is one record, line ends included.
    pub document: bool,
    /// Lines to count beside those of `bytes`: of records that were too long to keep.
    pub extra_lines: u64,
}

/// A record that never became bytes of a block.
#[derive(Debug)]
pub(crate) struct Broken {
    pub offset: u64,
    pub length: u64,
    /// Lines before it, counted from the start of the block.
    pub lines_before: u64,
    pub reject: Reject,
    pub head: Vec<u8>,
}

pub(crate) fn too_large(length: u64, limit: u64) -> Reject {
    Reject::new(
        RejectCode::RecordTooLarge,
        "",
        format!("found a record of {length} bytes, the limit is {limit} (option max_record)"),
    )
}

/// Reads the records that begin in `start..end` of a plain line file. `None` if there are none.
pub(crate) fn read_range(
    file: &File,
    index: u64,
    (start, end, file_len): (u64, u64, u64),
    max_record: u64,
    excerpt: usize,
    mut bytes: Vec<u8>,
) -> io::Result<(Block, Vec<u8>)> {
    // One byte before the range tells whether a record begins exactly at `start`.
    let from = start.saturating_sub(1);
    bytes.clear();
    bytes.resize((end - from) as usize, 0);
    read_exact_at(file, &mut bytes, from)?;
    let first =
        if start == 0 { Some(0) } else { memchr(b'\n', &bytes).map(|i| i + 1).filter(|i| *i < bytes.len()) };
    let Some(first) = first else {
        return Ok((Block { index, offset: start, ..Block::default() }, bytes));
    };
    let mut block = Block { index, offset: from + first as u64, ..Block::default() };
    let last = memrchr(b'\n', &bytes).map_or(first, |i| (i + 1).max(first));
    if last < bytes.len() {
        // The last record goes on beyond the range.
        extend_record(file, &mut bytes, from, last, file_len, max_record, excerpt, &mut block)?;
    }
    bytes.drain(..first);
    block.bytes = bytes;
    Ok((block, Vec::new()))
}

#[allow(clippy::too_many_arguments)] // one loop taken out of `read_range`
fn extend_record(
    file: &File,
    bytes: &mut Vec<u8>,
    from: u64,
    record: usize,
    file_len: u64,
    max_record: u64,
    excerpt: usize,
    block: &mut Block,
) -> io::Result<()> {
    const STEP: usize = 64 << 10;
    let mut step = vec![0; STEP];
    let mut at = from + bytes.len() as u64;
    let mut length = (bytes.len() - record) as u64;
    let mut dropped = false;
    loop {
        let want = STEP.min((file_len - at) as usize);
        let piece = &mut step[..want];
        read_exact_at(file, piece, at)?;
        let line_end = memchr(b'\n', piece);
        let piece = &piece[..line_end.map_or(want, |i| i + 1)];
        at += piece.len() as u64;
        length += line_end.unwrap_or(want) as u64;
        if !dropped && length > max_record {
            let head = bytes[record..].iter().chain(piece.iter()).take(excerpt).copied().collect();
            block.broken = Some(Broken {
                offset: from + record as u64,
                length,
                lines_before: 0,
                reject: too_large(length, max_record),
                head,
            });
            bytes.truncate(record);
            dropped = true;
        }
        if let (true, Some(broken)) = (dropped, &mut block.broken) {
            broken.length = length;
            broken.reject = too_large(length, max_record);
        } else {
            bytes.extend_from_slice(piece);
        }
        if line_end.is_some() || at >= file_len {
            block.open_end = line_end.is_none() && !dropped;
            block.extra_lines = u64::from(dropped);
            return Ok(());
        }
    }
}

fn read_exact_at(file: &File, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !buffer.is_empty() {
        match file.read_at(buffer, offset) {
            // The file shrank under us: what is gone reads as an early end of its last record.
            Ok(0) => {
                buffer.fill(b' ');
                return Ok(());
            }
            Ok(n) => {
                buffer = &mut buffer[n..];
                offset += n as u64;
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// How an input is compressed, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

pub(crate) fn compression(head: &[u8]) -> Compression {
    match head {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Compression::Zstd,
        [low, 0x2a, 0x4d, 0x18, ..] if low & 0xf0 == 0x50 => Compression::Zstd,
        _ => Compression::None,
    }
}

/// Counts the bytes that pass, into a counter that others may read too.
struct Counted<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.count.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

/// A stream of blocks from any reader.
pub(crate) struct BlockStream {
    reader: Box<dyn Read + Send>,
    /// Raw bytes taken so far.
    pub consumed: Arc<AtomicU64>,
    compression: Compression,
    max_expansion: u64,
    max_record: u64,
    block_size: usize,
    excerpt: usize,
    /// Bytes read ahead: the head first, later what is left of a cut record.
    ahead: Vec<u8>,
    framing: Framing,
    offset: u64,
    line: u64,
    index: u64,
    decoded: u64,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Inside,
    /// Behind the end of the array.
    After,
    Done,
}

/// What a read gave.
enum Filled {
    More,
    End,
    Failed(Reject),
}

impl BlockStream {
    /// Opens a stream; reads its head.
    pub(crate) fn open(mut raw: Box<dyn Read + Send>, options: &super::ReadOptions) -> io::Result<Self> {
        let consumed = Arc::new(AtomicU64::new(0));
        let mut magic = Vec::with_capacity(4);
        raw.by_ref().take(4).read_to_end(&mut magic)?;
        let compression = compression(&magic);
        let whole = Counted { inner: Cursor::new(magic).chain(raw), count: Arc::clone(&consumed) };
        let reader: Box<dyn Read + Send> = match compression {
            Compression::None => Box::new(whole),
            Compression::Gzip => {
                Box::new(MultiGzDecoder::new(io::BufReader::with_capacity(128 << 10, whole)))
            }
            Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(whole)?),
        };
        Ok(Self {
            reader,
            consumed,
            compression,
            max_expansion: options.max_expansion,
            max_record: options.max_record,
            block_size: options.block_size.max(1),
            excerpt: options.excerpt,
            ahead: Vec::new(),
            framing: Framing::Line,
            offset: 0,
            line: 1,
            index: 0,
            decoded: 0,
            state: State::Start,
        })
    }

    /// The first bytes, for telling framing and format. A fault is met again when blocks are read.
    pub(crate) fn head(&mut self) -> io::Result<&[u8]> {
        let mut head = std::mem::take(&mut self.ahead);
        let filled = self.fill(&mut head, HEAD)?;
        self.ahead = head;
        if let Filled::Failed(reject) = filled {
            self.reader = Box::new(FailedReader(reject));
        }
        Ok(&self.ahead)
    }

    /// Settles how the stream is cut.
    pub(crate) fn set_framing(&mut self, framing: Framing) {
        self.framing = framing;
    }

    /// Appends decoded bytes until `buffer` holds `size` bytes.
    fn fill(&mut self, buffer: &mut Vec<u8>, size: usize) -> io::Result<Filled> {
        while buffer.len() < size {
            let old = buffer.len();
            buffer.resize(size.min(old + (1 << 20)), 0);
            match self.reader.read(&mut buffer[old..]) {
                Ok(0) => {
                    buffer.truncate(old);
                    return Ok(Filled::End);
                }
                Ok(n) => {
                    buffer.truncate(old + n);
                    self.decoded += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => buffer.truncate(old),
                Err(e) => {
                    buffer.truncate(old);
                    return match FailedReader::reject(&e) {
                        Some(reject) => Ok(Filled::Failed(reject)),
                        None if self.compression == Compression::None => Err(e),
                        None => Ok(Filled::Failed(Reject::new(
                            RejectCode::InputTruncated,
                            "",
                            format!("the compressed stream ends early or is damaged here: {e}"),
                        ))),
                    };
                }
            }
            let consumed = self.consumed.load(Ordering::Relaxed).max(1);
            if self.compression != Compression::None
                && self.decoded > 16 << 20
                && self.decoded / consumed > self.max_expansion
            {
                return Ok(Filled::Failed(Reject::new(
                    RejectCode::InputExpansion,
                    "",
                    format!(
                        "{consumed} compressed bytes gave {} so far, the limit is a ratio of {} (option max_expansion)",
                        self.decoded, self.max_expansion
                    ),
                )));
            }
        }
        Ok(Filled::More)
    }

    /// The next block, if there is one.
    pub(crate) fn next(&mut self) -> io::Result<Option<Block>> {
        if self.state == State::Done {
            return Ok(None);
        }
        let mut block = match self.framing {
            Framing::Line => self.next_lines()?,
            Framing::Document => self.document()?,
            Framing::Array => self.next_elements()?,
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

    fn next_lines(&mut self) -> io::Result<Block> {
        let mut block = self.block();
        let mut bytes = std::mem::take(&mut self.ahead);
        let mut size = self.block_size.max(bytes.len());
        loop {
            let filled = self.fill(&mut bytes, size)?;
            let whole = memrchr(b'\n', &bytes).map_or(0, |i| i + 1);
            match filled {
                Filled::More if whole > 0 => {
                    self.ahead = bytes.split_off(whole);
                    break;
                }
                // One record fills the block: read on, up to the limit.
                Filled::More if (bytes.len() as u64) <= self.max_record => {
                    size = bytes.len() + self.block_size.max(1 << 20);
                }
                Filled::More => {
                    block.broken = Some(self.drop_record(&bytes)?);
                    block.extra_lines = 1;
                    bytes.clear();
                    break;
                }
                Filled::End => {
                    self.state = State::Done;
                    block.open_end = whole < bytes.len();
                    break;
                }
                Filled::Failed(reject) => {
                    self.state = State::Done;
                    let rest = bytes.split_off(whole);
                    block.broken = Some(Broken {
                        offset: self.offset + whole as u64,
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
        if let (Some(broken), 1) = (&block.broken, block.extra_lines) {
            self.offset += broken.length + 1;
            self.line += 1;
        }
        block.bytes = bytes;
        Ok(block)
    }

    /// Reads past a line that is longer than the limit without keeping it.
    fn drop_record(&mut self, start: &[u8]) -> io::Result<Broken> {
        let mut length = start.len() as u64;
        let head = start.iter().take(self.excerpt).copied().collect();
        let mut buffer = Vec::new();
        loop {
            buffer.clear();
            let filled = self.fill(&mut buffer, 1 << 20)?;
            if let Some(end) = memchr(b'\n', &buffer) {
                length += end as u64;
                self.ahead = buffer.split_off(end + 1);
                break;
            }
            length += buffer.len() as u64;
            if !matches!(filled, Filled::More) {
                self.state = State::Done;
                break;
            }
        }
        Ok(Broken {
            offset: self.offset,
            length,
            lines_before: 0,
            reject: too_large(length, self.max_record),
            head,
        })
    }

    fn document(&mut self) -> io::Result<Block> {
        self.state = State::Done;
        let mut block = Block { document: true, open_end: true, ..self.block() };
        let mut bytes = std::mem::take(&mut self.ahead);
        let limit = self.max_record as usize + 1;
        match self.fill(&mut bytes, limit)? {
            Filled::End => block.bytes = bytes,
            Filled::More => {
                let mut length = bytes.len() as u64;
                let head = bytes.iter().take(self.excerpt).copied().collect();
                while let Filled::More = {
                    bytes.clear();
                    self.fill(&mut bytes, 1 << 20)?
                } {
                    length += bytes.len() as u64;
                }
                length += bytes.len() as u64;
                let reject = too_large(length, self.max_record);
                block.broken = Some(Broken { offset: 0, length, lines_before: 0, reject, head });
            }
            Filled::Failed(reject) => {
                let head = bytes.iter().take(self.excerpt).copied().collect();
                block.broken =
                    Some(Broken { offset: 0, length: bytes.len() as u64, lines_before: 0, reject, head });
            }
        }
        Ok(block)
    }

    fn next_elements(&mut self) -> io::Result<Block> {
        let mut bytes = std::mem::take(&mut self.ahead);
        let mut size = self.block_size.max(bytes.len());
        let mut block = self.block();
        if self.state == State::Start {
            self.state = State::Inside;
            self.fill(&mut bytes, size)?;
            let start = bom(&bytes);
            let open = memchr(b'[', &bytes[start..]).map_or(start, |i| start + i + 1);
            self.advance(&bytes[..open]);
            bytes.drain(..open);
            block = self.block();
        }
        if self.state == State::After {
            self.state = State::Done;
            self.trailing(&mut bytes, 0, 0, &mut block)?;
            self.advance(&bytes);
            block.elements = Some(Vec::new());
            return Ok(block);
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
                    self.state = State::Done;
                    self.trailing(&mut bytes, start, lines, &mut block)?;
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
                let dropped = bytes[start..].to_vec();
                let mut broken = self.rest(&mut bytes, start, lines, too_large(0, self.max_record));
                self.advance(&bytes);
                self.advance(&dropped);
                self.drop_element(&mut broken, scan)?;
                block.broken = Some(broken);
                block.elements = Some(elements);
                block.bytes = bytes;
                return Ok(block);
            }
            size = size.max(bytes.len() + self.block_size.min(1 << 20));
            let filled = self.fill(&mut bytes, size)?;
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

    /// Reads past an element that is longer than the limit without keeping it.
    fn drop_element(&mut self, broken: &mut Broken, mut scan: Structure) -> io::Result<()> {
        let mut piece = Vec::new();
        loop {
            piece.clear();
            let filled = self.fill(&mut piece, 1 << 20)?;
            if let Some(end) = scan.value_end(&piece) {
                broken.length += end as u64;
                self.state = if piece[end] == b']' { State::After } else { State::Inside };
                self.ahead = piece.split_off(end + 1);
                self.advance(&piece);
                break;
            }
            broken.length += piece.len() as u64;
            self.advance(&piece);
            if !matches!(filled, Filled::More) {
                self.state = State::Done;
                break;
            }
        }
        broken.reject = too_large(broken.length, self.max_record);
        Ok(())
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
    fn trailing(
        &mut self,
        bytes: &mut Vec<u8>,
        start: usize,
        lines: u64,
        block: &mut Block,
    ) -> io::Result<()> {
        loop {
            if bytes[start..].iter().any(|b| !is_space(*b)) {
                let reject = Reject::new(
                    RejectCode::JsonTrailing,
                    "",
                    "found text after the array, expected the end of the input",
                );
                block.broken = Some(self.rest(bytes, start, lines, reject));
                return Ok(());
            }
            let size = bytes.len() + (1 << 16);
            match self.fill(bytes, size)? {
                Filled::End if bytes[start..].iter().all(|b| is_space(*b)) => return Ok(()),
                Filled::More | Filled::End => {}
                Filled::Failed(reject) => {
                    block.broken = Some(self.rest(bytes, start, lines, reject));
                    return Ok(());
                }
            }
        }
    }
}

/// Stands in for a reader that failed while the head was read, so that the fault is met in its place.
struct FailedReader(Reject);

impl FailedReader {
    fn reject(error: &io::Error) -> Option<Reject> {
        error.get_ref()?.downcast_ref::<Carried>().map(|c| c.0.clone())
    }
}

#[derive(Debug)]
struct Carried(Reject);

impl std::fmt::Display for Carried {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Carried {}

impl Read for FailedReader {
    fn read(&mut self, _buffer: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other(Carried(self.0.clone())))
    }
}
