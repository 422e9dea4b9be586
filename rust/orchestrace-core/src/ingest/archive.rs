//! Archives: inputs with many entries, each read as a separate file. ZIP and tar are detected by their bytes; what an
//! entry may become is bounded as for compressed inputs.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::ReadOptions;
use super::block::{Block, Broken, stem};
use super::frame::{LOOKED_AT as RECORDS, framing, head_records, look_on};
use super::positional::read_at;
use super::source::{BlockStream, Decoded};
use crate::error::{IgnoredCode, Reject, RejectCode};
use crate::importers::{self, Format};
use crate::run::Run;
use contents::{Contents, contents};
use limits::Shared;
use tar::TarEntries;
use zip::ZipEntries;

mod contents;
mod limits;
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
    /// The block is empty where there is any.
    pub skipped: Option<Skipped>,
}

/// Entries that are not read, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Skipped {
    pub code: IgnoredCode,
    pub count: u64,
}

/// Entries that describe all others, the best one first.
const HEADERS: [&str; 2] = ["header.json", "_journal/start.json"];

/// Entries that are inspected to detect the format.
const LOOKED_AT: usize = 20;

/// Entries that are not read which are counted by their own names; there may be more of them than of anything else.
const NAMED: usize = 16;

/// An archive that is read entry by entry.
pub(super) struct Archive {
    entries: Entries,
    shared: Shared,
    /// How many entries that are not read have blocks of their own, and the others, which no block has counted.
    named: usize,
    skipped: BTreeMap<IgnoredCode, u64>,
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
struct OpenedEntry {
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

impl Entries {
    fn open(file: &Arc<File>, zip: bool, shared: &Shared) -> io::Result<Self> {
        if zip {
            return Ok(Self::Zip(ZipEntries::open(file, shared.clone())?));
        }
        let all_bytes = Range { file: Arc::clone(file), at: 0, end: u64::MAX };
        Ok(Self::Tar(TarEntries::new(Decoded::new(Box::new(all_bytes), shared.limit)?)))
    }

    fn next(&mut self) -> io::Result<Option<OpenedEntry>> {
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
            Entries::Zip(_) => Arc::clone(&shared.consumed),
            Entries::Tar(tar) => tar.consumed(),
        };
        Ok(Self {
            entries,
            shared,
            named: 0,
            skipped: BTreeMap::new(),
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
                    return Ok(Some(self.numbered(block, entry, None)));
                }
                self.before += stream.offset();
                self.current = None;
            }
            let Some(OpenedEntry { name, body }) = self.entries.next()? else {
                return Ok(self.skipped.pop_first().map(|(code, count)| {
                    let entry = self.entry("");
                    self.given_skipped(entry, Skipped { code, count })
                }));
            };
            let entry = self.entry(&name);
            let decoded = match body {
                Ok(decoded) => self.shared.unpacked(decoded)?,
                Err(reject) => {
                    let broken = Broken { offset: 0, length: 0, lines_before: 0, reject, head: Vec::new() };
                    let block = Block { broken: Some(broken), line: Some(1), ..Block::default() };
                    return Ok(Some(self.numbered(block, entry, None)));
                }
            };
            let mut stream = BlockStream::of(decoded, &self.options);
            let contents_of_head =
                look_on(&mut stream.beginning(run), self.options.max_record, |head, is_whole| {
                    contents(&name, head, is_whole)
                })?;
            match contents_of_head {
                Contents::Records(framing) => stream.set_framing(framing),
                Contents::Refused(reject) => stream.refuse(reject),
                // What is damaged may have been anything: reading it says so.
                Contents::Ignored(_) if stream.is_broken() => {}
                Contents::Ignored(code) if code.may_lose() && self.named < NAMED => {
                    self.named += 1;
                    return Ok(Some(self.given_skipped(entry, Skipped { code, count: 1 })));
                }
                Contents::Ignored(code) => {
                    *self.skipped.entry(code).or_default() += 1;
                    continue;
                }
            }
            self.current = Some((stream, entry));
        }
    }

    /// An entry by its name; the archive itself without one.
    fn entry(&self, name: &str) -> Arc<Entry> {
        let path = if name.is_empty() { self.name.clone() } else { format!("{}/{name}", self.name) };
        Arc::new(Entry { stem: stem(Path::new(&path)), path, header: Arc::clone(&self.header) })
    }

    /// A block that counts entries that are not read.
    fn given_skipped(&mut self, entry: Arc<Entry>, skipped: Skipped) -> EntryBlock {
        self.numbered(Block { line: Some(1), ..Block::default() }, entry, Some(skipped))
    }

    fn numbered(&mut self, block: Block, entry: Arc<Entry>, skipped: Option<Skipped>) -> EntryBlock {
        let block = Block { index: self.blocks, ..block };
        self.blocks += 1;
        EntryBlock { block, entry, skipped }
    }
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
    let sure = |text: &[u8], is_whole: bool, entry: &str| {
        let (framing, clear) = framing(text, is_whole);
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
        // Of one that is damaged, too, the beginning shows the format.
        let mut stream = BlockStream::of(shared.unpacked(decoded)?, options);
        let (longest, entry) = (options.max_record, &found.name);
        let held =
            look_on(&mut stream.beginning(run), longest, |head, is_whole| contents(entry, head, is_whole));
        if !matches!(held, Ok(Contents::Records(_))) {
            continue;
        }
        let format_of_entry =
            look_on(&mut stream.beginning(run), longest, |head, is_whole| sure(head, is_whole, entry));
        if let Ok(Some(format)) = format_of_entry {
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
