//! Archives: inputs with many entries, each read as a separate file. ZIP and tar are detected by their bytes; what an
//! entry may become is bounded as for compressed inputs.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::ReadOptions;
use super::compressed::{Compression, Counted, Expanding, Expansion};
use super::frame::{
    Beginning as _, HEAD, KeptBeginning, LOOKED_AT as RECORDS, bom, framing, head_records, is_space, look_on,
};
use super::input::stem;
use super::positional::read_at;
use super::source::{Block, BlockStream, Broken, Decoded};
use crate::error::{Reject, RejectCode};
use crate::importers::{self, Format};
use crate::run::Run;
use tar::TarEntries;
use zip::ZipEntries;

mod tar;
#[cfg(test)]
mod tests;
mod zip;

/// How an archive begins.
pub(super) fn is_zip(magic: &[u8]) -> bool {
    magic.starts_with(b"PK\x03\x04") || magic.starts_with(b"PK\x05\x06")
}

pub(super) use tar::is_tar;

/// The position that a record of an entry receives.
#[derive(Debug)]
pub(super) struct Entry {
    /// Name of the archive, `/`, name of the entry.
    pub path: String,
    pub stem: String,
    /// Text of the entry that describes the others.
    pub header: Arc<str>,
}

/// A block of an entry.
pub(super) struct EntryBlock {
    pub block: Block,
    pub entry: Arc<Entry>,
    /// Entries that are nothing that could be a recording; the block is empty where there are any.
    pub ignored: u64,
}

/// Entries that describe all others, the best one first.
const HEADERS: [&str; 2] = ["header.json", "_journal/start.json"];

/// Entries that are inspected to detect the format.
const LOOKED_AT: usize = 20;

/// Entries that are no recordings which are counted by one block: there may be more of them than of anything else.
const IGNORED_AT_ONCE: u64 = 1 << 16;

/// An archive that is read entry by entry.
pub(super) struct Archive {
    entries: Entries,
    /// Entries that are no recordings and that no block has counted.
    ignored: u64,
    name: String,
    header: Arc<str>,
    current: Option<(BlockStream, Arc<Entry>)>,
    pub format: Format,
    /// Bytes of entries that were read to their end, and blocks given.
    before: u64,
    blocks: u64,
    options: ReadOptions,
    /// Raw bytes taken so far.
    pub consumed: Arc<AtomicU64>,
}

/// The entries of an archive in order.
enum Entries {
    Zip(ZipEntries),
    Tar(TarEntries),
}

/// An entry that can be read, or what is wrong with it.
struct Found {
    name: String,
    body: Result<Decoded, Reject>,
}

/// Bytes of an open file from a place to another.
struct Range {
    file: Arc<File>,
    at: u64,
    end: u64,
}

impl Read for Range {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let room = usize::try_from(self.end - self.at).unwrap_or(usize::MAX).min(buffer.len());
        let n = read_at(&self.file, &mut buffer[..room], self.at)?;
        self.at += n as u64;
        Ok(n)
    }
}

/// What readers of one archive share.
#[derive(Clone)]
struct Shared {
    consumed: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
    limit: Expansion,
    /// Bytes that came out of all entries so far.
    decoded: Arc<AtomicU64>,
    /// Bytes of the archive itself.
    size: u64,
}

impl Shared {
    fn new(file: &File, options: &ReadOptions) -> io::Result<Self> {
        let limit = Expansion { ratio: options.max_expansion, total: options.max_decompressed };
        let size = file.metadata()?.len();
        Ok(Self { consumed: Arc::default(), failed: Arc::default(), limit, decoded: Arc::default(), size })
    }

    fn counted<R: Read>(&self, inner: R) -> Counted<R> {
        Counted { inner, count: Arc::clone(&self.consumed), failed: Arc::clone(&self.failed) }
    }

    /// An entry, of which and of all of them together no more comes out than the limits allow. Entries may share
    /// bytes of the archive, so that the ratio of each says nothing of all.
    fn entry<R: Read + Send + 'static>(&self, inner: R, compressed: u64) -> Decoded {
        let so_far = self.decoded.load(Ordering::Relaxed);
        let by_ratio = self.size.max(Self::FREE / self.limit.ratio.max(1)).saturating_mul(self.limit.ratio);
        let total = self.limit.total.min(by_ratio).saturating_sub(so_far);
        let summed = Summed { inner, sum: Arc::clone(&self.decoded) };
        let limit = Expansion { total, ..self.limit };
        let taken = Arc::new(AtomicU64::new(compressed));
        Decoded {
            reader: Box::new(Expanding::new(summed, taken, limit)),
            compression: Compression::Archive,
            consumed: Arc::clone(&self.consumed),
            failed: Arc::clone(&self.failed),
        }
    }

    /// What may come out of any archive.
    const FREE: u64 = 16 << 20;
}

/// Adds up what comes out.
struct Summed<R> {
    inner: R,
    sum: Arc<AtomicU64>,
}

impl<R: Read> Read for Summed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.sum.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}

impl Entries {
    fn open(file: &Arc<File>, zip: bool, shared: &Shared) -> io::Result<Self> {
        if zip {
            return Ok(Self::Zip(ZipEntries::open(file, shared.clone())?));
        }
        let whole = Range { file: Arc::clone(file), at: 0, end: u64::MAX };
        Ok(Self::Tar(TarEntries::new(Decoded::new(Box::new(whole), shared.limit)?)))
    }

    fn next(&mut self) -> io::Result<Option<Found>> {
        match self {
            Self::Zip(entries) => entries.next(),
            Self::Tar(entries) => entries.next(),
        }
    }
}

impl Archive {
    /// Looks at an archive: its header, and what its first entries are.
    pub(super) fn open(
        file: File,
        zip: bool,
        name: &str,
        options: &ReadOptions,
        forced: Option<Format>,
        run: &Run,
    ) -> io::Result<Self> {
        let file = Arc::new(file);
        let looking = Shared::new(&file, options)?;
        let (header, format) = look(&file, zip, name, &looking, options, run)?;
        let shared = Shared::new(&file, options)?;
        let entries = Entries::open(&file, zip, &shared)?;
        let consumed = match &entries {
            Entries::Zip(_) => shared.consumed,
            Entries::Tar(tar) => tar.consumed(),
        };
        Ok(Self {
            entries,
            ignored: 0,
            name: name.to_owned(),
            header: header.into(),
            current: None,
            format: forced.or(format).unwrap_or_else(importers::unknown),
            before: 0,
            blocks: 0,
            options: options.clone(),
            consumed,
        })
    }

    /// Bytes of all entries that the blocks given so far were made of.
    pub(super) fn offset(&self) -> u64 {
        self.before + self.current.as_ref().map_or(0, |(stream, _)| stream.offset())
    }

    /// Blocks given so far.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The next block, if there is one.
    pub(super) fn next(&mut self, run: &Run) -> io::Result<Option<EntryBlock>> {
        loop {
            run.check().map_err(io::Error::other)?;
            if let Some((stream, entry)) = &mut self.current {
                if let Some(block) = stream.next(run)? {
                    let entry = Arc::clone(entry);
                    return Ok(Some(self.given(block, entry, 0)));
                }
                self.before += stream.offset();
                self.current = None;
            }
            if self.ignored == IGNORED_AT_ONCE {
                return Ok(Some(self.given_ignored()));
            }
            let Some(Found { name, body }) = self.entries.next()? else {
                return Ok((self.ignored > 0).then(|| self.given_ignored()));
            };
            let path = if name.is_empty() { self.name.clone() } else { format!("{}/{name}", self.name) };
            let entry = Entry { stem: stem(Path::new(&path)), path, header: Arc::clone(&self.header) };
            let entry = Arc::new(entry);
            let decoded = match body {
                Ok(decoded) => decoded,
                Err(reject) => {
                    let broken = Broken { offset: 0, length: 0, lines_before: 0, reject, head: Vec::new() };
                    let block = Block { broken: Some(broken), line: Some(1), ..Block::default() };
                    return Ok(Some(self.given(block, entry, 0)));
                }
            };
            let mut stream = BlockStream::of(decoded, &self.options);
            let (json, framing) =
                look_on(&mut stream.beginning(run), self.options.max_record, |head, whole| {
                    let (framing, clear) = framing(head, whole);
                    ((is_json(head), framing), clear)
                })?;
            if !json && !stream.is_broken() {
                self.ignored += 1;
                continue;
            }
            stream.set_framing(framing);
            self.current = Some((stream, entry));
        }
    }

    /// A block that counts the entries that are no recordings.
    fn given_ignored(&mut self) -> EntryBlock {
        let ignored = std::mem::take(&mut self.ignored);
        let entry = Entry { path: self.name.clone(), stem: String::new(), header: Arc::clone(&self.header) };
        self.given(Block { line: Some(1), ..Block::default() }, Arc::new(entry), ignored)
    }

    fn given(&mut self, block: Block, entry: Arc<Entry>, ignored: u64) -> EntryBlock {
        let block = Block { index: self.blocks, ..block };
        self.blocks += 1;
        EntryBlock { block, entry, ignored }
    }
}

/// Whether a text may be JSON in lines, in an array or as a document.
fn is_json(head: &[u8]) -> bool {
    head[bom(head)..].iter().find(|b| !is_space(**b)).is_some_and(|b| matches!(b, b'{' | b'['))
}

/// The text of the header, and the format that the header or one of the first entries is surely of.
fn look(
    file: &Arc<File>,
    zip: bool,
    name: &str,
    shared: &Shared,
    options: &ReadOptions,
    run: &Run,
) -> io::Result<(String, Option<Format>)> {
    let sure = |text: &[u8], whole: bool, entry: &str| {
        let (framing, clear) = framing(text, whole);
        let records = head_records(text, framing);
        let enough = records.len() == RECORDS;
        let format = importers::detect_sure(records.into_iter(), &format!("{name}/{entry}"));
        let settled = clear && (enough || format.is_some());
        (format, settled)
    };
    let mut entries = Entries::open(file, zip, shared)?;
    if let Entries::Zip(entries) = &entries {
        for header in HEADERS {
            if let Some(text) = entries.text(header, options.max_record.min(64 << 20)) {
                return Ok((text.clone(), sure(text.as_bytes(), true, header).0));
            }
        }
    }
    let mut looked_at = 0;
    // What is wrong with an entry is met again when it is read.
    while let Ok(Some(found)) = entries.next() {
        run.check().map_err(io::Error::other)?;
        let Ok(decoded) = found.body else { continue };
        let mut beginning = KeptBeginning { reader: decoded.reader, bytes: Vec::new() };
        if beginning.head(HEAD).is_err() || !is_json(&beginning.bytes) {
            continue;
        }
        let told = look_on(&mut beginning, options.max_record, |head, whole| sure(head, whole, &found.name));
        if let Ok(Some(format)) = told {
            return Ok((String::new(), Some(format)));
        }
        looked_at += 1;
        if looked_at == LOOKED_AT {
            break;
        }
    }
    Ok((String::new(), None))
}

/// Why an entry cannot be read.
fn unreadable(message: impl Into<String>) -> Reject {
    Reject::new(RejectCode::ArchiveEntry, "", message)
}
