//! Compressed inputs, detected by their first bytes and read member by member.

use std::io::{self, BufRead, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use flate2::bufread::GzDecoder;

use crate::error::{Reject, RejectCode};

/// How an input is compressed, by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
    /// An entry of an archive, however it lies there.
    Archive,
}

/// Bytes that show it.
pub(crate) const MAGIC: usize = 4;

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
        let Some(decoder) = &mut self.decoder else { return Ok(0) };
        let n = decoder.read(buffer)?;
        if n > 0 || buffer.is_empty() {
            return Ok(n);
        }
        let Some(mut rest) = self.decoder.take().map(GzDecoder::into_inner) else { return Ok(0) };
        loop {
            let (zeros, end, member) = match rest.fill_buf() {
                Ok(ahead) => {
                    let zeros = ahead.iter().take_while(|b| **b == 0).count();
                    (zeros, ahead.is_empty(), zeros < ahead.len())
                }
                // Not given to the caller, who would ask again: there is no decoder now, which reads as the end.
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            rest.consume(zeros);
            if end {
                return Ok(0);
            }
            if member {
                self.decoder = Some(GzDecoder::new(rest));
                // A file may consist of empty members: between two of them the caller can look up.
                return Err(io::ErrorKind::Interrupted.into());
            }
        }
    }
}

/// The bytes with their compression taken off.
pub(crate) fn decompressed<R: Read + Send + 'static>(
    compression: Compression,
    inner: R,
) -> io::Result<Box<dyn Read + Send>> {
    Ok(match compression {
        Compression::None | Compression::Archive => Box::new(inner),
        Compression::Gzip => {
            let buffered = io::BufReader::with_capacity(128 << 10, inner);
            Box::new(GzipMembers { decoder: Some(GzDecoder::new(buffered)) })
        }
        Compression::Zstd => Box::new(zstd::stream::read::Decoder::new(inner)?),
    })
}

/// How much may come out of a compressed input.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expansion {
    /// Largest ratio of decompressed to compressed bytes.
    pub ratio: u64,
    /// Most decompressed bytes.
    pub total: u64,
}

/// Decompressed bytes up to the limits, which are looked at in the same places of the stream however it is read.
pub(crate) struct Expanding<R> {
    inner: R,
    /// Compressed bytes that the decoder has taken.
    consumed: Arc<AtomicU64>,
    limit: Expansion,
    decoded: u64,
    /// Where the ratio is looked at next.
    next: u64,
}

impl<R: Read> Expanding<R> {
    /// Where the ratio is looked at first: below, a file of nothing but blanks would be a bomb.
    const FIRST: u64 = 16 << 20;
    const STEP: u64 = 1 << 20;

    pub(crate) fn new(inner: R, consumed: Arc<AtomicU64>, limit: Expansion) -> Self {
        Self { inner, consumed, limit, decoded: 0, next: Self::FIRST }
    }

    fn refuse(message: String) -> io::Result<usize> {
        Err(io::Error::other(Carried(Reject::new(RejectCode::InputExpansion, "", message))))
    }
}

impl<R: Read> Read for Expanding<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.decoded == self.next {
            let consumed = self.consumed.load(Ordering::Relaxed).max(1);
            if self.decoded / consumed > self.limit.ratio {
                return Self::refuse(format!(
                    "{consumed} compressed bytes have expanded to {} so far, the limit is a ratio of {} (option \
                     max_expansion)",
                    self.decoded, self.limit.ratio
                ));
            }
            self.next += Self::STEP;
        }
        if self.decoded >= self.limit.total {
            // Exactly as much as the limit is allowed; whether there is more is known by asking.
            return match self.inner.read(&mut [0])? {
                0 => Ok(0),
                _ => Self::refuse(format!(
                    "the stream continues after {} decompressed bytes, the limit (option max_decompressed)",
                    self.limit.total
                )),
            };
        }
        let room = (self.next - self.decoded).min(self.limit.total - self.decoded);
        let room = usize::try_from(room).map_or(buffer.len(), |room| room.min(buffer.len()));
        let n = self.inner.read(&mut buffer[..room])?;
        self.decoded += n as u64;
        Ok(n)
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

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Gives one byte at a time, and is interrupted before each.
    struct Nervous<'a>(&'a [u8], bool);

    impl Read for Nervous<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let n = self.0.len().min(1).min(buffer.len());
            buffer[..n].copy_from_slice(&self.0[..n]);
            self.0 = &self.0[n..];
            Ok(n)
        }
    }

    fn member(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn an_interrupted_read_loses_no_member() {
        let packed = [member(b"one"), vec![0; 5], member(b""), member(b"two")].concat();
        let buffered = io::BufReader::with_capacity(4, Nervous(&packed, false));
        let mut text = String::new();
        GzipMembers { decoder: Some(GzDecoder::new(buffered)) }.read_to_string(&mut text).unwrap();
        assert_eq!(text, "onetwo");
    }

    #[test]
    fn a_limit_is_met_at_the_same_byte_in_any_pieces() {
        for size in [1, 7, 100, 4096] {
            let limit = Expansion { ratio: 1_000, total: 1_000 };
            let mut reader = Expanding::new(&[7; 1_001][..], Arc::default(), limit);
            let mut buffer = vec![0; size];
            let mut taken = 0;
            let refused = loop {
                match reader.read(&mut buffer) {
                    Ok(n) => taken += n,
                    Err(e) => break FailedReader::reject(&e).unwrap(),
                }
            };
            assert_eq!((taken, refused.code), (1_000, RejectCode::InputExpansion));
            let mut fits = Expanding::new(&[7; 1_000][..], Arc::default(), limit);
            assert_eq!(fits.read_to_end(&mut Vec::new()).unwrap(), 1_000);
        }
    }
}
