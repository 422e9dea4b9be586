//! The generated corpus that every bench reads.

use std::sync::atomic::{AtomicBool, AtomicU64};

use orchestrace_core::error::Result;
use orchestrace_core::generate::{Counts, Preset, Spec, write};
use orchestrace_core::ingest::{Input, ReadOptions, read};
use orchestrace_core::run::Run;
use orchestrace_core::store::Store;

/// Bytes after the last document of a [`Block`] that readers may look at.
pub const PADDING: usize = simd_json::INPUT_PADDING;

/// The mixed preset, always of the same seed: the documents, and how many of what they hold.
pub fn mixed(events: u64) -> Result<(Vec<u8>, Counts)> {
    let spec = Spec { preset: Preset::Mixed, events: Some(events), traces: None, seed: 1 };
    let mut corpus = Vec::new();
    let mut sink = |chunk: &[u8]| {
        corpus.extend_from_slice(chunk);
        Ok(())
    };
    let counts = write(&spec, &mut sink, 1, &AtomicBool::new(false), &AtomicU64::new(0))?;
    Ok((corpus, counts))
}

/// The corpus as a store.
pub fn store(corpus: Vec<u8>) -> Result<Store> {
    let reader = Box::new(std::io::Cursor::new(corpus));
    let input = Input::Stream { name: "generated".into(), reader };
    read(vec![input], &ReadOptions::default(), &Run::new(Some(1))?)
}

/// Documents back to back, one a line, as an ingest worker holds them, and where each begins and ends.
#[derive(Debug, Clone)]
pub struct Block {
    /// The documents, then [`PADDING`] spaces.
    pub bytes: Vec<u8>,
    /// Start and end of every document, line end excluded.
    pub documents: Vec<(usize, usize)>,
}

impl Block {
    /// Cuts a corpus at its line ends.
    #[must_use]
    pub fn new(mut bytes: Vec<u8>) -> Self {
        let mut documents = Vec::new();
        let mut start = 0;
        for (end, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            documents.push((start, end));
            start = end + 1;
        }
        if start < bytes.len() {
            documents.push((start, bytes.len()));
        }
        bytes.resize(bytes.len() + PADDING, b' ');
        Self { bytes, documents }
    }
}
