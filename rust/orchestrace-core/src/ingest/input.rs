//! Named inputs, inspected once: storage, framing, block size and importer.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;

use super::archive::{Archive, Entry, EntryBlock, Skipped, is_tar, is_zip};
use super::binary::refusal;
use super::block::{Block, stem};
use super::compressed::{Compression, compression};
use super::frame::{Beginning, Framing, HEAD, KeptBeginning, LOOKED_AT, framing, head_records, look_on};
use super::source::BlockStream;
use super::{Input, ReadOptions, rows, spill};
use crate::error::{Error, Reject, Result};
use crate::importers::{self, Format};
use crate::run::Run;

/// One input, and how far it has been read.
pub(super) struct Source {
    pub name: String,
    /// File name without what says how it is stored.
    pub stem: String,
    pub body: Body,
    /// Lines of the blocks that were handed on.
    pub lines: u64,
    /// Bytes on disk, where they are known.
    pub size: u64,
    /// The format, if it need not be detected.
    pub forced: Option<Format>,
}

pub(super) enum Body {
    /// A plain line file that several workers read; `next` is the first byte that nobody has claimed, `index`
    /// the number of ranges claimed.
    Ranges { path: PathBuf, len: u64, format: Format, next: u64, index: u64 },
    /// A file that one worker reads, from a place between two blocks on.
    Whole { path: PathBuf, from: ReadPosition },
    /// A reader that one worker takes.
    Stream(Option<Box<dyn Read + Send>>),
    /// A stream that was left between two blocks.
    Suspended(Box<Opened>),
    /// Some worker has it.
    Taken,
    /// Read to its end.
    Done,
}

/// A stream of which the framing is settled, or an archive of such streams.
pub(super) struct Opened {
    stream: Stream,
    /// Bytes on disk that were reported as progress.
    pub progress: u64,
}

enum Stream {
    One(BlockStream, Format),
    Many(Box<Archive>),
}

/// What is opened.
pub(super) enum Raw {
    File(File, PathBuf),
    Stream(Box<dyn Read + Send>),
}

impl Raw {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self::File(File::open(path)?, path.to_owned()))
    }
}

/// A block, and facts for its records.
pub(super) struct SourceBlock {
    pub block: Block,
    pub format: Format,
    /// Of an archive.
    pub entry: Option<Arc<Entry>>,
    /// Entries of an archive that are not read; the block is empty where there are any.
    pub skipped: Option<Skipped>,
}

/// The position at which the reading of an input resumes: [`super::SourcePart::position`] of a reading with the same
/// options.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadPosition {
    /// First byte, of the decompressed stream, that was not read.
    pub offset: u64,
    /// Lines before it.
    pub lines: u64,
    /// Blocks before it, where the input is a stream.
    pub blocks: u64,
    /// Whether all of the input was read.
    pub done: bool,
}

pub(super) fn io_error(name: &str) -> impl FnOnce(std::io::Error) -> Error + '_ {
    move |source| Error::Io { path: name.to_owned(), source }
}

impl Source {
    pub(super) fn new(
        input: Input,
        from: ReadPosition,
        options: &ReadOptions,
        forced: Option<Format>,
    ) -> Result<Self> {
        let (name, path) = match input {
            Input::Stream { name, reader } => {
                let body = Body::Stream(Some(reader));
                return Ok(Self { name, stem: String::new(), body, lines: 0, size: 0, forced });
            }
            Input::Path(path) => (path.to_string_lossy().into_owned(), path),
            Input::Named { name, path } => (name, path),
        };
        let meta = std::fs::metadata(&path).map_err(io_error(&name))?;
        let body = if from.done {
            Body::Done
        } else {
            file_body(&name, &path, &meta, from, options, forced).map_err(io_error(&name))?
        };
        // The blocks of a stream know their lines themselves.
        let lines = if matches!(body, Body::Ranges { .. }) { from.lines } else { 0 };
        Ok(Self { name, stem: stem(&path), body, lines, size: meta.len(), forced })
    }

    pub(super) fn is_done(&self) -> bool {
        match &self.body {
            Body::Ranges { next, len, .. } => next >= len,
            Body::Done => true,
            _ => false,
        }
    }
}

fn file_body(
    name: &str,
    path: &Path,
    meta: &std::fs::Metadata,
    from: ReadPosition,
    options: &ReadOptions,
    forced: Option<Format>,
) -> std::io::Result<Body> {
    let body = Body::Whole { path: path.to_owned(), from };
    if !meta.is_file() || meta.len() <= options.block_size as u64 {
        return Ok(body);
    }
    let mut beginning = KeptBeginning { reader: File::open(path)?, bytes: Vec::new() };
    let head = beginning.head(HEAD)?;
    if compression(head) != Compression::None || is_zip(head) || is_tar(head) || rows::is_rows(head) {
        return Ok(body);
    }
    let HeadFacts { framing: Framing::Line, format, refused: None } =
        look_at_head(&mut beginning, options, forced, name)?
    else {
        return Ok(body);
    };
    Ok(Body::Ranges { path: path.to_owned(), len: meta.len(), format, next: from.offset, index: 0 })
}

impl Opened {
    /// Opens a stream, settles how it is cut, and leaves out the blocks that were read before. With a `spare` buffer a
    /// small file is read whole into it.
    pub(super) fn new(
        raw: Raw,
        from: ReadPosition,
        options: &ReadOptions,
        forced: Option<Format>,
        name: &str,
        spare: Option<Vec<u8>>,
        run: &Run,
    ) -> std::io::Result<Self> {
        let stream = Self::stream(raw, options, forced, name, spare, run)?;
        let mut opened = Self { stream, progress: 0 };
        for _ in 0..from.blocks {
            opened.next(run)?;
        }
        // Where records too long to be held are cut out depends on what is too long, and with it where blocks end.
        if opened.offset() != from.offset {
            return Err(std::io::Error::other(format!(
                "reading stopped at byte {} and cannot resume there with another max_record (or memory, which bounds \
                 it)",
                from.offset
            )));
        }
        Ok(opened)
    }

    fn stream(
        raw: Raw,
        options: &ReadOptions,
        forced: Option<Format>,
        name: &str,
        spare: Option<Vec<u8>>,
        run: &Run,
    ) -> std::io::Result<Stream> {
        let folder = options.spill_folder.as_deref();
        let archive = |file, zip| {
            Archive::open(file, zip, name, options, forced, run)
                .map(|archive| Stream::Many(Box::new(archive)))
        };
        let mut magic = Vec::with_capacity(4);
        let (raw, again): (Box<dyn Read + Send>, Again) = match raw {
            Raw::File(mut file, path) => {
                if let Some(bytes) = spare
                    && let Some(bytes) = small(&mut file, bytes, options)?
                {
                    let mut stream = BlockStream::of_file(bytes, options);
                    let head_facts = look_at_head(&mut stream.beginning(run), options, forced, name)?;
                    return Ok(Self::settled(stream, head_facts));
                }
                (&mut file).take(rows::HEAD as u64).read_to_end(&mut magic)?;
                if is_zip(&magic) {
                    return archive(file, true);
                }
                if let Some(opener) = options.rows.as_ref().filter(|_| rows::is_rows(&magic)) {
                    let mut stream = BlockStream::of_rows(opener, &path, options)?;
                    let head_facts = look_at_rows(&mut stream, options, forced, name, run)?;
                    return Ok(Self::settled(stream, head_facts));
                }
                file.rewind()?;
                (Box::new(file.try_clone()?), Again::File(file))
            }
            Raw::Stream(mut stream) => {
                stream.by_ref().take(4).read_to_end(&mut magic)?;
                let rejoined = std::io::Cursor::new(magic.clone()).chain(stream);
                if is_zip(&magic) {
                    return archive(spill::copied(rejoined, folder, run)?, true);
                }
                let noted = Noted::new(Box::new(rejoined));
                (Box::new(noted.clone()), Again::Stream(noted))
            }
        };
        let mut stream = BlockStream::open(raw, options)?;
        if is_tar(stream.head(HEAD, run)?) {
            return match again {
                Again::File(file) => archive(file, false),
                // As it came, compressed or not: its errors are then reported like those of a file.
                Again::Stream(noted) => archive(spill::copied(noted.once_more(), folder, run)?, false),
            };
        }
        if let Again::Stream(noted) = again {
            noted.forget();
        }
        let head_facts = look_at_head(&mut stream.beginning(run), options, forced, name)?;
        Ok(Self::settled(stream, head_facts))
    }

    fn settled(mut stream: BlockStream, head: HeadFacts) -> Stream {
        stream.set_framing(head.framing);
        if let Some(reject) = head.refused {
            stream.refuse(reject);
        }
        Stream::One(stream, head.format)
    }

    /// The next block, if there is one.
    pub(super) fn next(&mut self, run: &Run) -> std::io::Result<Option<SourceBlock>> {
        Ok(match &mut self.stream {
            Stream::One(stream, format) => {
                let format = *format;
                stream.next(run)?.map(|block| SourceBlock { block, format, entry: None, skipped: None })
            }
            Stream::Many(archive) => archive.next(run)?.map(|EntryBlock { block, entry, skipped }| {
                SourceBlock { block, format: archive.format, entry: Some(entry), skipped }
            }),
        })
    }

    /// Whether the last block was given, as far as that is known.
    pub(super) fn is_done(&self) -> bool {
        matches!(&self.stream, Stream::One(stream, _) if stream.is_done())
    }

    /// The format of its records.
    fn format(&self) -> Format {
        match &self.stream {
            Stream::One(_, format) => *format,
            Stream::Many(archive) => archive.format,
        }
    }

    /// First byte of the next block.
    pub(super) fn offset(&self) -> u64 {
        match &self.stream {
            Stream::One(stream, _) => stream.offset(),
            Stream::Many(archive) => archive.offset(),
        }
    }

    /// Blocks given so far.
    pub(super) fn blocks(&self) -> u64 {
        match &self.stream {
            Stream::One(stream, _) => stream.blocks(),
            Stream::Many(archive) => archive.blocks(),
        }
    }

    /// Bytes on disk taken so far.
    pub(super) fn consumed(&self) -> u64 {
        match &self.stream {
            Stream::One(stream, _) => &stream.consumed,
            Stream::Many(archive) => &archive.consumed,
        }
        .load(Ordering::Relaxed)
    }
}

/// What the head of a stream says of it.
struct HeadFacts {
    framing: Framing,
    format: Format,
    /// Why nothing of it is read, if it is no text.
    refused: Option<Reject>,
}

/// Looks at the beginning of an input: the first mebibyte, and where a record of it is so long that nothing in it
/// decides the framing or the format, on up to the length that a record may have.
fn look_at_head(
    beginning: &mut impl Beginning,
    options: &ReadOptions,
    forced: Option<Format>,
    name: &str,
) -> io::Result<HeadFacts> {
    look_on(beginning, options.max_record, |head, is_whole| {
        let (framing, clear) = framing(head, is_whole);
        let records = if forced.is_none() { head_records(head, framing) } else { Vec::new() };
        let enough = records.len() == LOOKED_AT;
        let format = forced.unwrap_or_else(|| importers::detect(records.into_iter(), name));
        let refused = refusal(head, !format.is_unknown());
        let sure = refused.is_some() || (clear && (enough || !format.is_unknown()));
        (HeadFacts { framing, format, refused }, sure)
    })
}

/// The same of rows, which are lines. Where the first of them show no format, as rows without messages do not, those of
/// the rest of the first mebibyte are asked, too. A table of which no row is recognized is one rejected record, rather than
/// each row.
fn look_at_rows(
    stream: &mut BlockStream,
    options: &ReadOptions,
    forced: Option<Format>,
    name: &str,
    run: &Run,
) -> io::Result<HeadFacts> {
    let HeadFacts { mut format, .. } = look_at_head(&mut stream.beginning(run), options, forced, name)?;
    let head = stream.head(HEAD, run)?;
    let lines: Vec<_> = head
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty() && rows::damage(line).is_none())
        .collect();
    if format.is_unknown() {
        let detected =
            lines.chunks(LOOKED_AT).find_map(|some| importers::detect_sure(some.iter().copied(), name));
        format = detected.unwrap_or(format);
    }
    let refused = lines.first().filter(|_| format.is_unknown()).map(|first| rows::unknown(first));
    Ok(HeadFacts { framing: Framing::Line, format, refused })
}

/// Where the bytes of an input can be had once more.
enum Again {
    File(File),
    Stream(Noted),
}

/// A stream whose bytes are noted until it is known that nobody wants them again.
#[derive(Clone)]
struct Noted(Arc<Mutex<Notes>>);

struct Notes {
    stream: Box<dyn Read + Send>,
    /// What was read of it, as long as somebody may want it.
    read: Option<Vec<u8>>,
}

impl Noted {
    fn new(stream: Box<dyn Read + Send>) -> Self {
        Self(Arc::new(Mutex::new(Notes { stream, read: Some(Vec::new()) })))
    }

    /// Notes nothing from now on.
    fn forget(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).read.take().unwrap_or_default()
    }

    /// What was read of it, and the rest.
    fn once_more(self) -> impl Read {
        io::Cursor::new(self.forget()).chain(self)
    }
}

impl Read for Noted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut notes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let n = notes.stream.read(buffer)?;
        if let Some(read) = &mut notes.read {
            read.extend_from_slice(&buffer[..n]);
        }
        Ok(n)
    }
}

/// All of a file that is smaller than a block and plain; else nothing is taken of it.
fn small(file: &mut File, mut bytes: Vec<u8>, options: &ReadOptions) -> std::io::Result<Option<Vec<u8>>> {
    let meta = file.metadata()?;
    let len = usize::try_from(meta.len()).unwrap_or(usize::MAX);
    if !meta.is_file() || len > options.block_size || meta.len() > options.max_record {
        return Ok(None);
    }
    bytes.clear();
    // Room for one byte more shows the end without another read.
    bytes.reserve(len + 1);
    file.take(len as u64 + 1).read_to_end(&mut bytes)?;
    let has_rows = options.rows.is_some() && rows::is_rows(&bytes);
    let plain = compression(&bytes) == Compression::None && !is_zip(&bytes) && !is_tar(&bytes) && !has_rows;
    if plain && bytes.len() <= len {
        return Ok(Some(bytes));
    }
    file.rewind()?;
    Ok(None)
}

/// The format of each input, by its first bytes or as the options say; of an archive, that of its entries. Streams
/// cannot be inspected without reading them and are refused.
pub fn formats(inputs: Vec<Input>, options: &ReadOptions, run: &Run) -> Result<Vec<Format>> {
    let forced = forced(options)?;
    let format_of = |input: Input| {
        let (name, path) = match input {
            Input::Path(path) => (path.to_string_lossy().into_owned(), path),
            Input::Named { name, path } => (name, path),
            Input::Stream { name, .. } => {
                return Err(Error::Input(format!(
                    "'{name}' is a stream; its format is unknown before it is read"
                )));
            }
        };
        run.check()?;
        let raw = Raw::open(&path).map_err(io_error(&name))?;
        let opened = Opened::new(raw, ReadPosition::default(), options, forced, &name, None, run);
        opened.map(|opened| opened.format()).map_err(io_error(&name))
    };
    run.pool().install(|| inputs.into_par_iter().map(format_of).collect())
}

/// The format that the options name; none for `auto`.
pub(super) fn forced(options: &ReadOptions) -> Result<Option<Format>> {
    match options.format.as_str() {
        "auto" => Ok(None),
        name => options.importer(name).map(Some),
    }
}
