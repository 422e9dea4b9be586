//! Compressed inputs: told by their first bytes, read member by member.

use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flate2::bufread::GzDecoder;

use crate::error::Reject;

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
pub(crate) struct Counted<R> {
    pub inner: R,
    pub count: Arc<AtomicU64>,
    /// Whether reading itself failed, which is not a fault of what was read.
    pub failed: Arc<AtomicBool>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer);
        match &read {
            Ok(n) => {
                self.count.fetch_add(*n as u64, Ordering::Relaxed);
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => self.failed.store(true, Ordering::Relaxed),
        }
        read
    }
}

/// All members of a gzip file, one after the other; zeros after the last one are padding.
pub(crate) struct GzipMembers<R: BufRead> {
    pub decoder: Option<GzDecoder<R>>,
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(decoder) = &mut self.decoder {
            let n = decoder.read(buffer)?;
            if n > 0 || buffer.is_empty() {
                return Ok(n);
            }
            let Some(mut rest) = self.decoder.take().map(GzDecoder::into_inner) else { break };
            loop {
                let ahead = rest.fill_buf()?;
                let zeros = ahead.iter().take_while(|b| **b == 0).count();
                let (end, member) = (ahead.is_empty(), zeros < ahead.len());
                rest.consume(zeros);
                if end {
                    return Ok(0);
                }
                if member {
                    self.decoder = Some(GzDecoder::new(rest));
                    break;
                }
            }
        }
        Ok(0)
    }
}

/// Stands in for a reader that failed while the head was read, so that the fault is met in its place.
pub(crate) struct FailedReader(pub Reject);

impl FailedReader {
    pub(crate) fn reject(error: &io::Error) -> Option<Reject> {
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
