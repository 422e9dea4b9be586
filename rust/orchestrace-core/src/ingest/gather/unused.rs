//! The finding about unused mapping keys, attached to the mapping's last trace, when the counts are complete. Whatever
//! the batches, the finding is a row beside that trace's others.

use super::Gathered;
use crate::columns::chunk::RawChunk;
use crate::error::Finding;
use crate::importers::mapping;
use crate::schema::Dict;

/// Chunks that wait until the mapping has made all of its traces.
#[derive(Default)]
pub(super) struct HeldBack {
    /// The number behind the last trace that may be the mapping's; 0 where there is none, or it is past.
    end: u64,
    /// The last chunk with a trace of the mapping and those behind it, each with the number that its traces begin at.
    chunks: Vec<(u64, RawChunk)>,
}

/// The last trace of a chunk that the mapping made.
fn last_of_mapping(chunk: &RawChunk) -> Option<usize> {
    let names = &chunk.dicts[Dict::Importer as usize];
    let is_mapping = |code: u32| names.name(code) == mapping::NAME;
    chunk.facts.iter().rposition(|facts| facts.importer.is_some_and(is_mapping))
}

impl HeldBack {
    /// Of the traces that were planned.
    pub(super) fn new(gathered: &Gathered) -> Self {
        let of_mapping = |importer: u32| gathered.importers[importer as usize].info().name == mapping::NAME;
        let last = gathered.planned.iter().rposition(|trace| of_mapping(trace.importer));
        Self { end: last.map_or(0, |at| at as u64 + 1), chunks: Vec::new() }
    }

    /// The number of the first trace that waits.
    pub(super) fn first(&self) -> Option<u64> {
        self.chunks.first().map(|(begin, _)| *begin)
    }

    /// Takes a chunk whose traces begin at a number, and hands on those that need not wait.
    pub(super) fn put(&mut self, begin: u64, chunk: RawChunk, most: usize, out: &mut Vec<RawChunk>) {
        if self.end == 0 {
            out.push(chunk);
            return;
        }
        let waiting: usize = self.chunks.iter().map(|(_, chunk)| chunk.nbytes()).sum();
        // Behind its traces may come as many of other formats as there are: memory has no room to wait for them.
        if last_of_mapping(&chunk).is_some() || waiting > most {
            self.hand_on(out);
        }
        if self.chunks.is_empty() && last_of_mapping(&chunk).is_none() {
            out.push(chunk);
        } else {
            self.chunks.push((begin, chunk));
        }
    }

    /// Says what was not found, once the traces before `looked_at` are all that the mapping makes.
    pub(super) fn settle(
        &mut self,
        looked_at: u64,
        finding: impl FnOnce() -> Option<Finding>,
        out: &mut Vec<RawChunk>,
    ) {
        if self.end == 0 || looked_at < self.end {
            return;
        }
        self.end = 0;
        if let Some((_, chunk)) = self.chunks.first_mut()
            && let Some(trace) = last_of_mapping(chunk)
            && let Some(finding) = finding()
        {
            chunk.findings.push((trace as u32, finding));
        }
        self.hand_on(out);
    }

    fn hand_on(&mut self, out: &mut Vec<RawChunk>) {
        out.extend(self.chunks.drain(..).map(|(_, chunk)| chunk));
    }
}
