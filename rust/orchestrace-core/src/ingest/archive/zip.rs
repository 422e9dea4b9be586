//! ZIP archives: the directory at the end of the file, and entries stored, deflated or compressed with zstd.

use std::fs::File;
use std::io::{self, Read};
use std::sync::Arc;

use flate2::Crc;
use flate2::read::DeflateDecoder;

use super::super::positional::read_full_at;
use super::limits::Shared;
use super::{OpenedEntry, Range, unreadable};
use crate::error::Reject;

/// One entry of the directory.
struct Listed {
    name: String,
    method: u16,
    encrypted: bool,
    crc: u32,
    compressed: u64,
    size: u64,
    at: u64,
}

pub(super) struct ZipEntries {
    file: Arc<File>,
    shared: Shared,
    listed: std::vec::IntoIter<Listed>,
    /// The directory itself cannot be read.
    damage: Option<Reject>,
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Bytes of a file, as far as it goes.
fn piece(file: &File, from: u64, to: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    Range { file: Arc::new(file.try_clone()?), at: from, end: to.max(from) }.read_to_end(&mut out)?;
    Ok(out)
}

/// Where the directory lies, and what has to be added to the offsets that it gives.
fn directory(file: &File, len: u64) -> io::Result<Option<(u64, u64, u64)>> {
    // The end record has 22 bytes and a comment of up to 65,535 behind it.
    let from = len.saturating_sub(22 + 65_535);
    let tail = piece(file, from, len)?;
    let end_record = memchr::memmem::rfind_iter(&tail, b"PK\x05\x06")
        .find(|at| u16_at(&tail, at + 20).is_some_and(|n| at + 22 + usize::from(n) <= tail.len()));
    let Some(at) = end_record else { return Ok(None) };
    let end = from + at as u64;
    let (Some(size), Some(offset)) = (u32_at(&tail, at + 12), u32_at(&tail, at + 16)) else {
        return Ok(None);
    };
    let (mut size, mut offset, mut before) = (u64::from(size), u64::from(offset), end);
    if let Some(locator) = at.checked_sub(20).filter(|l| tail[*l..].starts_with(b"PK\x06\x07")) {
        let Some(place) = u64_at(&tail, locator + 8) else { return Ok(None) };
        let record = piece(file, place, place.saturating_add(56))?;
        let (Some(large_size), Some(large_offset)) = (u64_at(&record, 40), u64_at(&record, 48)) else {
            return Ok(None);
        };
        if record.starts_with(b"PK\x06\x06") {
            (size, offset, before) = (large_size, large_offset, place);
        }
    }
    // Something may stand before the archive, such as a program that unpacks it.
    let shift = before.checked_sub(size).and_then(|start| start.checked_sub(offset));
    Ok(shift.map(|shift| (offset + shift, size, shift)))
}

fn list(bytes: &[u8], shift: u64) -> Option<Vec<Listed>> {
    let mut out = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let head = bytes.get(at..at + 46)?;
        if !head.starts_with(b"PK\x01\x02") {
            return None;
        }
        let lengths = [28, 30, 32].map(|field| usize::from(u16_at(head, field).unwrap_or(0)));
        let name = bytes.get(at + 46..at + 46 + lengths[0])?;
        let extra = bytes.get(at + 46 + lengths[0]..at + 46 + lengths[0] + lengths[1])?;
        let mut entry = Listed {
            name: String::from_utf8_lossy(name).replace('\\', "/"),
            method: u16_at(head, 10)?,
            encrypted: u16_at(head, 8)? & 1 != 0,
            crc: u32_at(head, 16)?,
            compressed: u64::from(u32_at(head, 20)?),
            size: u64::from(u32_at(head, 24)?),
            at: u64::from(u32_at(head, 42)?),
        };
        large_sizes(&mut entry, extra);
        entry.at = entry.at.checked_add(shift)?;
        at += 46 + lengths.iter().sum::<usize>();
        if !entry.name.ends_with('/') {
            out.push(entry);
        }
    }
    Some(out)
}

/// Sizes and offsets beyond 32 bits stand in an extra field, those that need it.
fn large_sizes(entry: &mut Listed, mut extra: &[u8]) {
    while let (Some(id), Some(len)) = (u16_at(extra, 0), u16_at(extra, 2)) {
        let Some(field) = extra.get(4..4 + usize::from(len)) else { return };
        if id == 1 {
            let mut at = 0;
            for value in [&mut entry.size, &mut entry.compressed, &mut entry.at] {
                if *value == u64::from(u32::MAX) {
                    let Some(large) = u64_at(field, at) else { return };
                    *value = large;
                    at += 8;
                }
            }
        }
        extra = &extra[4 + usize::from(len)..];
    }
}

impl ZipEntries {
    pub(super) fn open(file: &Arc<File>, shared: Shared) -> io::Result<Self> {
        let mut listed = None;
        if let Some((from, size, shift)) = directory(file, shared.size)? {
            listed = list(&piece(file, from, from + size)?, shift);
        }
        let message = "the directory at the end of the ZIP archive is missing or damaged";
        let damage = listed.is_none().then(|| unreadable(message));
        Ok(Self { file: Arc::clone(file), shared, listed: listed.unwrap_or_default().into_iter(), damage })
    }

    pub(super) fn next(&mut self) -> io::Result<Option<OpenedEntry>> {
        if let Some(damage) = self.damage.take() {
            return Ok(Some(OpenedEntry { name: String::new(), body: Err(damage) }));
        }
        let Some(entry) = self.listed.next() else { return Ok(None) };
        let body = self.body(&entry)?.map(|reader| self.shared.entry(reader, entry.compressed));
        Ok(Some(OpenedEntry { name: entry.name, body }))
    }

    /// The text of an entry, if it is there, can be read and is no longer than `most`.
    pub(super) fn text(&self, name: &str, most: u64) -> Option<String> {
        let entry = self.listed.as_slice().iter().find(|e| e.name == name)?;
        let reader = self.body(entry).ok()?.ok()?;
        let mut text = Vec::new();
        reader.take(most).read_to_end(&mut text).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned()).filter(|text| (text.len() as u64) < most)
    }

    fn body(&self, entry: &Listed) -> io::Result<Result<Box<dyn Read + Send>, Reject>> {
        if entry.encrypted {
            return Ok(Err(unreadable("the entry is encrypted: unpack the archive and read the files")));
        }
        let mut head = [0; 30];
        let complete = read_full_at(&self.file, &mut head, entry.at)? == head.len();
        if !complete || !head.starts_with(b"PK\x03\x04") {
            return Ok(Err(unreadable("the entry is not at the place given in the archive's directory")));
        }
        let lengths = [26, 28].map(|at| u64::from(u16_at(&head, at).unwrap_or(0)));
        let at = entry.at + 30 + lengths[0] + lengths[1];
        let end = at.saturating_add(entry.compressed);
        let raw = self.shared.counted(Range { file: Arc::clone(&self.file), at, end });
        let reader: Box<dyn Read + Send> = match entry.method {
            0 => Box::new(raw),
            8 => Box::new(DeflateDecoder::new(io::BufReader::with_capacity(64 << 10, raw))),
            93 => Box::new(zstd::stream::read::Decoder::new(raw)?),
            other => {
                let message = format!("the entry is compressed by method {other}, expected deflate or zstd");
                return Ok(Err(unreadable(message)));
            }
        };
        Ok(Ok(Box::new(Checked {
            inner: reader,
            crc: Crc::new(),
            expected: (entry.crc, entry.size),
            left: true,
        })))
    }
}

/// What comes out of an entry is looked at once it is all there.
struct Checked {
    inner: Box<dyn Read + Send>,
    crc: Crc,
    expected: (u32, u64),
    left: bool,
}

impl Read for Checked {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.inner.read(buffer)?;
        self.crc.update(&buffer[..n]);
        if n == 0 && !buffer.is_empty() && self.left {
            self.left = false;
            // The sum counts bytes modulo 2^32.
            let actual = (self.crc.sum(), self.crc.amount());
            if actual != (self.expected.0, self.expected.1 as u32) {
                return Err(io::Error::other("the checksum of its bytes differs from that in the archive"));
            }
        }
        Ok(n)
    }
}
