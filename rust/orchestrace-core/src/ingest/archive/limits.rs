//! What may come out of one archive: of each entry and of all of them together, also where an entry is itself compressed.

use std::fs::File;
use std::io::{self, Cursor, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::ingest::ReadOptions;
use crate::ingest::compressed::{
    Compression, Counted, Expanding, Expansion, MAGIC, compression, decompressed,
};
use crate::ingest::source::Decoded;

/// What readers of one archive share.
#[derive(Clone)]
pub(super) struct Shared {
    pub consumed: Arc<AtomicU64>,
    pub failed: Arc<AtomicBool>,
    pub limit: Expansion,
    /// Bytes that came out of all entries so far.
    decoded: Arc<AtomicU64>,
    /// Bytes of the archive itself.
    pub size: u64,
}

impl Shared {
    /// What may come out of any archive.
    const FREE: u64 = 16 << 20;

    pub(super) fn new(file: &File, options: &ReadOptions) -> io::Result<Self> {
        let limit = Expansion { ratio: options.max_expansion, total: options.max_decompressed };
        let size = file.metadata()?.len();
        Ok(Self { consumed: Arc::default(), failed: Arc::default(), limit, decoded: Arc::default(), size })
    }

    pub(super) fn counted<R: Read>(&self, inner: R) -> Counted<R> {
        Counted { inner, count: Arc::clone(&self.consumed), failed: Arc::clone(&self.failed) }
    }

    /// An entry that lies in so many bytes of the archive.
    pub(super) fn entry<R: Read + Send + 'static>(&self, inner: R, compressed: u64) -> Decoded {
        Decoded {
            reader: self.bounded(inner, Arc::new(AtomicU64::new(compressed))),
            compression: Compression::Archive,
            consumed: Arc::clone(&self.consumed),
            failed: Arc::clone(&self.failed),
        }
    }

    /// The entry with its own compression taken off, if it has one: what comes out counts towards the same limits.
    pub(super) fn unpacked(&self, entry: Decoded) -> io::Result<Decoded> {
        let Decoded { reader, compression: stored, consumed, failed } = entry;
        let mut beginning = Beginning { reader, fault: None };
        let magic = beginning.magic();
        let packed = compression(&magic);
        let rewound = Cursor::new(magic).chain(beginning);
        let reader: Box<dyn Read + Send> = if packed == Compression::None {
            Box::new(rewound)
        } else {
            let taken = Arc::new(AtomicU64::new(0));
            // A fault of reading is noted where bytes are read; what fails here are the bytes.
            let rewound = Counted { inner: rewound, count: Arc::clone(&taken), failed: Arc::default() };
            self.bounded(decompressed(packed, rewound)?, taken)
        };
        Ok(Decoded { reader, compression: stored, consumed, failed })
    }

    /// No more than the limits allow of `inner` and of all entries together. Entries may share bytes of the archive, so
    /// that the ratio of each says nothing of all.
    fn bounded<R: Read + Send + 'static>(&self, inner: R, taken: Arc<AtomicU64>) -> Box<dyn Read + Send> {
        let so_far = self.decoded.load(Ordering::Relaxed);
        let by_ratio = self.size.max(Self::FREE / self.limit.ratio.max(1)).saturating_mul(self.limit.ratio);
        let total = self.limit.total.min(by_ratio).saturating_sub(so_far);
        let summed = Summed { inner, sum: Arc::clone(&self.decoded) };
        Box::new(Expanding::new(summed, taken, Expansion { total, ..self.limit }))
    }
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

/// A reader whose first bytes were looked at. If that failed, the fault is met again in its place.
struct Beginning {
    reader: Box<dyn Read + Send>,
    fault: Option<io::Error>,
}

impl Beginning {
    fn magic(&mut self) -> Vec<u8> {
        let mut magic = Vec::with_capacity(MAGIC);
        self.fault = self.reader.by_ref().take(MAGIC as u64).read_to_end(&mut magic).err();
        magic
    }
}

impl Read for Beginning {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.fault.take().map_or_else(|| self.reader.read(buffer), Err)
    }
}
