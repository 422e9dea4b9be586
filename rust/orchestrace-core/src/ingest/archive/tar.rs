//! Tar archives: headers of 512 bytes, each followed by the bytes of its entry. ustar, pax and the long names of GNU.

use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::{OpenedEntry, unreadable};
use crate::error::Reject;
use crate::ingest::compressed::{Compression, FailedReader};
use crate::ingest::source::Decoded;

const BLOCK: usize = 512;
/// Longest name, or list of attributes, that is taken.
const LONGEST: u64 = 1 << 20;

/// Whether a stream begins with a header.
pub(in crate::ingest) fn is_tar(head: &[u8]) -> bool {
    head.get(..BLOCK).is_some_and(|header| header[257..].starts_with(b"ustar") && has_sum(header))
}

/// Whether the sum of a header's bytes is the one it notes; its own field counts as blanks.
fn has_sum(header: &[u8]) -> bool {
    let field = |(i, byte): (usize, &u8)| if (148..156).contains(&i) { 32 } else { u64::from(*byte) };
    octal(&header[148..156]) == Some(header.iter().enumerate().map(field).sum())
}

/// A number in octal digits, or in base 256 where the first bit is set.
fn octal(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        let low = field.iter().skip(field.len() - 8);
        return Some(low.fold(0, |n, b| n << 8 | u64::from(*b)));
    }
    let digits = field.iter().skip_while(|b| **b == b' ').take_while(|b| b.is_ascii_digit());
    digits.clone().all(|b| *b < b'8').then(|| digits.fold(0, |n, b| n << 3 | u64::from(b - b'0')))
}

fn text(field: &[u8]) -> String {
    let end = memchr::memchr(0, field).unwrap_or(field.len());
    String::from_utf8_lossy(&field[..end]).into_owned()
}

/// The stream that all entries are read from, one after the other.
struct Inner {
    reader: Box<dyn Read + Send>,
    /// Bytes of the current entry that were not read, and those that fill its last block.
    left: u64,
    padding: u64,
    damaged: bool,
}

impl Inner {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer);
        self.damaged |= read.as_ref().is_err_and(|e| e.kind() != io::ErrorKind::Interrupted);
        read
    }

    fn fill(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut n = 0;
        while n < buffer.len() {
            match self.read(&mut buffer[n..]) {
                Ok(0) => break,
                Ok(more) => n += more,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(n)
    }

    /// Goes to the next header.
    fn pass(&mut self) -> io::Result<()> {
        let mut left = self.left.saturating_add(self.padding);
        (self.left, self.padding) = (0, 0);
        let mut waste = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(64 << 10)];
        while left > 0 {
            let room = waste.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            match self.fill(&mut waste[..room])? {
                0 => return Err(io::Error::other("it ends inside an entry or a name")),
                n => left -= n as u64,
            }
        }
        Ok(())
    }
}

/// The bytes of one entry.
struct Section(Arc<Mutex<Inner>>);

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = usize::try_from(inner.left).unwrap_or(usize::MAX).min(buffer.len());
        if room == 0 {
            return Ok(0);
        }
        let n = inner.read(&mut buffer[..room])?;
        if n == 0 {
            inner.damaged = true;
            return Err(io::Error::other("the archive ends inside the entry"));
        }
        inner.left -= n as u64;
        Ok(n)
    }
}

pub(super) struct TarEntries {
    inner: Arc<Mutex<Inner>>,
    consumed: Arc<AtomicU64>,
    failed: Arc<AtomicBool>,
    done: bool,
}

/// What headers before that of an entry say of it.
#[derive(Default)]
struct Ahead {
    name: Option<String>,
    size: Option<u64>,
    /// Holes were left out of its bytes.
    sparse: bool,
}

/// A file that an archive holds.
struct Header {
    name: String,
    /// Why its bytes are not those of the file.
    reject: Option<Reject>,
}

impl TarEntries {
    pub(super) fn new(tar: Decoded) -> Self {
        let Decoded { reader, consumed, failed, .. } = tar;
        let inner = Inner { reader, left: 0, padding: 0, damaged: false };
        Self { inner: Arc::new(Mutex::new(inner)), consumed, failed, done: false }
    }

    pub(super) fn consumed(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.consumed)
    }

    pub(super) fn next(&mut self) -> io::Result<Option<OpenedEntry>> {
        if self.done {
            return Ok(None);
        }
        let next_header = {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            // The entry that met the damage has reported it.
            if inner.damaged { Ok(None) } else { header(&mut inner) }
        };
        match next_header {
            Ok(Some(Header { name, reject: Some(reject) })) => {
                Ok(Some(OpenedEntry { name, body: Err(reject) }))
            }
            Ok(Some(Header { name, reject: None })) => {
                let body = Decoded {
                    reader: Box::new(Section(Arc::clone(&self.inner))),
                    compression: Compression::Archive,
                    consumed: Arc::clone(&self.consumed),
                    failed: Arc::clone(&self.failed),
                };
                Ok(Some(OpenedEntry { name, body: Ok(body) }))
            }
            Ok(None) => {
                self.done = true;
                Ok(None)
            }
            Err(error) if self.failed.load(Ordering::Relaxed) => Err(error),
            Err(error) => {
                self.done = true;
                let reject = FailedReader::reject(&error);
                let reject = reject.unwrap_or_else(|| unreadable(format!("the archive is damaged: {error}")));
                Ok(Some(OpenedEntry { name: String::new(), body: Err(reject) }))
            }
        }
    }
}

/// Reads headers up to that of a file. `None` at the end of the archive.
fn header(inner: &mut Inner) -> io::Result<Option<Header>> {
    let mut ahead = Ahead::default();
    loop {
        inner.pass()?;
        let mut header = [0; BLOCK];
        let n = inner.fill(&mut header)?;
        // Archives end with blocks of zeros. Nothing else distinguishes a whole archive from one that is cut between
        // entries.
        if n == BLOCK && header.iter().all(|b| *b == 0) {
            return Ok(None);
        }
        if n == 0 {
            return Err(io::Error::other("the last block is missing, so entries may be missing"));
        }
        if n < BLOCK || !has_sum(&header) {
            return Err(io::Error::other("a header is incomplete or its checksum is wrong"));
        }
        let noted = octal(&header[124..136]).ok_or_else(|| io::Error::other("a header has no valid size"))?;
        let kind = header[156];
        let size = if matches!(kind, b'L' | b'x' | b'g') { noted } else { ahead.size.unwrap_or(noted) };
        inner.left = size;
        inner.padding = (BLOCK as u64 - size % BLOCK as u64) % BLOCK as u64;
        match kind {
            b'0' | 0 | b'7' | b'S' | b'M' => {
                let prefix = text(&header[345..500]);
                let name = ahead.name.unwrap_or_else(|| {
                    let name = text(&header[..100]);
                    // Only ustar has a prefix; GNU keeps times in its place.
                    if prefix.is_empty() || &header[257..263] != b"ustar\0" {
                        name
                    } else {
                        format!("{prefix}/{name}")
                    }
                });
                let reject = match kind {
                    b'M' => {
                        Some("the entry began in another volume: join the volumes and read the whole archive")
                    }
                    _ if kind == b'S' || ahead.sparse => {
                        Some("the entry is stored as a sparse file: unpack the archive and read the files")
                    }
                    _ => None,
                };
                return Ok(Some(Header { name, reject: reject.map(unreadable) }));
            }
            b'L' | b'x' if size <= LONGEST => {
                let mut value = vec![0; size as usize];
                if inner.fill(&mut value)? < value.len() {
                    return Err(io::Error::other("it ends inside a name"));
                }
                inner.left = 0;
                if kind == b'L' {
                    ahead.name = Some(text(&value));
                } else {
                    attributes(&value, &mut ahead);
                }
            }
            // Folders, links, attributes of the whole archive.
            b'x' | b'L' | b'g' => {}
            _ => ahead = Ahead::default(),
        }
    }
}

/// `length key=value` lines of pax.
fn attributes(mut records: &[u8], ahead: &mut Ahead) {
    while let Some(space) = memchr::memchr(b' ', records) {
        let length = std::str::from_utf8(&records[..space]).ok().and_then(|n| n.parse::<usize>().ok());
        let Some(record) = length.and_then(|n| records.get(space + 1..n)) else { return };
        let length = space + 1 + record.len();
        let record = String::from_utf8_lossy(record);
        match record.trim_end_matches('\n').split_once('=') {
            Some(("path", value)) => ahead.name = Some(value.to_owned()),
            Some(("size", value)) => ahead.size = value.parse().ok(),
            Some(("GNU.sparse.name", value)) => (ahead.name, ahead.sparse) = (Some(value.to_owned()), true),
            Some((key, _)) if key.starts_with("GNU.sparse.") => ahead.sparse = true,
            _ => {}
        }
        records = &records[length..];
    }
}
