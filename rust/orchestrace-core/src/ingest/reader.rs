//! The reading driver: returns the workers' results in input order, all at once or batch by batch.

use std::collections::BTreeSet;

use super::gather::{Budget, Collecting, Gathered};
use super::index::{IndexRow, TraceIndex};
use super::input::{Body, ReadPosition, Source, forced};
use super::work::{BatchOutput, Work};
use super::{Input, MAX_RECORD, ReadOptions};
use crate::assembly::assemble;
use crate::columns::chunk::RawChunk;
use crate::error::{Error, Result};
use crate::importers::Format;
use crate::json::MAX_DEPTH;
use crate::run::Run;
use crate::schema::RecordStatus;
use crate::store::Store;

/// Reads inputs into a store: one pass, in parallel, in input order whatever the threads.
///
/// Records that fail are rows of the store's quarantine. The call itself fails only if an input cannot
/// be opened or read, an option is wrong, or somebody cancels.
///
/// ```
/// use orchestrace_core::{ingest::{Input, ReadOptions, read}, run::Run};
///
/// let line = r#"{"trace_id":"a","task_id":"b","events":[{"id":"e","t":0,"type":"message","agent":"x"}],
///     "edges":[],"rewards":{"team":1},"costs":{"tokens":0,"wall_clock_s":0}}"#.replace('\n', " ");
/// let input = Input::Stream { name: "memory".into(), reader: Box::new(std::io::Cursor::new(line + "\nnoise\n")) };
/// let store = read(vec![input], &ReadOptions::default(), &Run::new(Some(1))?)?;
/// assert_eq!((store.n_traces(), store.records_quarantined()), (1, 1));
/// # Ok::<(), orchestrace_core::error::Error>(())
/// ```
pub fn read(inputs: Vec<Input>, options: &ReadOptions, run: &Run) -> Result<Store> {
    let inputs = inputs.into_iter().map(|input| (input, ReadPosition::default())).collect();
    TraceReader::new(inputs, options.clone())?.all(run)
}

/// Inputs that are read batch by batch, each of about as many bytes in memory as the caller has room for. The
/// rows of all batches together do not depend on how they are cut.
///
/// ```
/// use orchestrace_core::{ingest::{Input, ReadOptions, ReadPosition, TraceReader}, run::Run};
///
/// let input = Input::Stream { name: "memory".into(), reader: Box::new(std::io::Cursor::new("noise\n")) };
/// let mut reader = TraceReader::new(vec![(input, ReadPosition::default())], ReadOptions::default())?;
/// let batch = reader.next(1 << 20, None, &Run::new(Some(1))?)?;
/// assert_eq!(batch.map(|b| b.store.records_quarantined()), Some(1));
/// # Ok::<(), orchestrace_core::error::Error>(())
/// ```
pub struct TraceReader {
    sources: Vec<Source>,
    options: ReadOptions,
    /// Parsed beyond an input that is not at its end yet.
    ahead: Vec<RawChunk>,
    /// Where each input stands, counting only what was handed on; behind them the traces that are gathered.
    parts: Vec<SourcePart>,
    /// The traces that were handed on, where the caller has no index of its own.
    known: TraceIndex,
    /// Inputs of formats whose traces are spread, while they are read and when they all are.
    collecting: Collecting,
    gathered: Option<Gathered>,
    spread: BTreeSet<usize>,
}

/// The part of a batch from one input.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SourcePart {
    /// Records found: the sum of the four below.
    pub records: u64,
    /// Of these, traces that are held, or what such traces were made of.
    pub used: u64,
    /// Of these, without meaning.
    pub ignored: u64,
    /// Of these, rejected.
    pub quarantined: u64,
    /// Of these, left out as repeated exports.
    pub duplicates: u64,
    /// Where the next batch goes on.
    pub position: ReadPosition,
}

/// Some of the traces.
#[derive(Debug)]
pub struct Batch {
    /// Their tables, and what was rejected among them.
    pub store: Store,
    /// What is new of each input, in the order of the inputs; the position is that after this batch. Inputs of
    /// formats whose traces are spread are done, and counted, when all of these traces are handed on. The last part
    /// is of no input: its `blocks` are the traces of such formats that were handed on.
    pub parts: Vec<SourcePart>,
    /// What an index has to know of the traces; empty where the reader has none.
    pub index: Vec<IndexRow>,
}

impl TraceReader {
    /// Looks at the inputs, which may have been read in part already.
    pub fn new(inputs: Vec<(Input, ReadPosition)>, options: ReadOptions) -> Result<Self> {
        let inputs = inputs.into_iter().map(|(input, position)| (input, position, None)).collect();
        Self::resumed(inputs, ReadPosition::default(), options)
    }

    /// The same after a reading of the same inputs that was left when so many traces of formats whose traces are
    /// spread had been handed on; the inputs of these formats are read from their beginning. Of an input the format
    /// may be known, whatever the options say.
    pub fn resumed(
        inputs: Vec<(Input, ReadPosition, Option<Format>)>,
        gathered: ReadPosition,
        options: ReadOptions,
    ) -> Result<Self> {
        let forced = forced(&options)?;
        for (name, _) in &options.records.fields {
            if crate::schema::EVENTS.index(name).is_some() {
                return Err(Error::Parameter(format!(
                    "fields contains '{name}', which is already a column of events"
                )));
            }
        }
        if options.max_record > MAX_RECORD {
            let value = options.max_record;
            return Err(Error::Parameter(format!("max_record is {value}, expected at most {MAX_RECORD}")));
        }
        if options.records.limits.depth > MAX_DEPTH {
            let value = options.records.limits.depth;
            return Err(Error::Parameter(format!("max_depth is {value}, expected at most {MAX_DEPTH}")));
        }
        let parts =
            inputs.iter().map(|(_, position, _)| SourcePart { position: *position, ..SourcePart::default() });
        // Without inputs nothing is to be gathered.
        let done = gathered.done || inputs.is_empty();
        let gathered = SourcePart { position: ReadPosition { done, ..gathered }, ..SourcePart::default() };
        let parts = parts.chain([gathered]).collect();
        let mut sources = Vec::with_capacity(inputs.len());
        for (input, from, known) in inputs {
            sources.push(Source::new(input, from, &options, known.or(forced))?);
        }
        Ok(Self {
            sources,
            options,
            ahead: Vec::new(),
            parts,
            known: TraceIndex::default(),
            collecting: Collecting::default(),
            gathered: None,
            spread: BTreeSet::new(),
        })
    }

    /// Streams that are named like files, for tests: their records have the stems that those of files would have.
    #[cfg(test)]
    pub(crate) fn with_stems(mut self) -> Self {
        for source in &mut self.sources {
            source.stem = super::block::stem(std::path::Path::new(&source.name));
        }
        self
    }

    /// Bytes of all inputs, where they are known.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.sources.iter().map(|s| s.size).sum()
    }

    fn names(&self) -> Vec<String> {
        self.sources.iter().map(|s| s.name.clone()).collect()
    }

    /// Everything at once.
    pub(crate) fn all(mut self, run: &Run) -> Result<Store> {
        run.expect(self.size());
        let mut chunks = self.take(usize::MAX, run)?;
        for chunk in &mut chunks {
            self.known.number(chunk, &mut Vec::new())?;
        }
        assemble(chunks, &self.names(), &self.options.records, run)
    }

    /// The next traces: whole blocks until their tables hold `limit` bytes, at least one. `None` after the last.
    /// Repeated exports are left out. Traces get the numbers of the index; without one they are numbered on.
    pub fn next(
        &mut self,
        limit: usize,
        mut index: Option<&mut TraceIndex>,
        run: &Run,
    ) -> Result<Option<Batch>> {
        // An input that ends with nothing but white space is at its end only after a batch that says so.
        if self.parts.iter().all(|part| part.position.done) {
            return Ok(None);
        }
        let mut chunks = self.take(limit, run)?;
        for part in &mut self.parts {
            *part = SourcePart { position: part.position, ..SourcePart::default() };
        }
        let mut rows = Vec::new();
        for chunk in &mut chunks {
            chunk.count_lines(|segment| match self.sources.get_mut(segment.source) {
                Some(source) => {
                    source.lines += segment.lines;
                    source.lines - segment.lines
                }
                None => 0,
            });
            match &mut index {
                Some(index) => index.number(chunk, &mut rows)?,
                None => self.known.number(chunk, &mut Vec::new())?,
            }
            for (segment, traces, _) in chunk.parts() {
                let part = &mut self.parts[segment.source];
                part.records += segment.records;
                if let Some(tallies) = &segment.tallies {
                    for tally in tallies {
                        *match tally.status {
                            RecordStatus::Used => &mut part.used,
                            RecordStatus::Ignored => &mut part.ignored,
                            RecordStatus::Duplicate => &mut part.duplicates,
                            RecordStatus::Quarantined => &mut part.quarantined,
                        } += tally.count;
                    }
                } else {
                    let n_kept = |keep: &Vec<bool>| keep[traces.clone()].iter().filter(|k| **k).count();
                    let n_kept = chunk.keep.as_ref().map_or(segment.traces, n_kept);
                    part.used += n_kept as u64;
                    part.duplicates += (segment.traces - n_kept) as u64;
                    part.quarantined += segment.quarantined as u64;
                }
            }
        }
        let first_open = self.frontier();
        let all_made = first_open == self.sources.len()
            && self.collecting.is_empty()
            && self.gathered.as_ref().is_none_or(Gathered::is_done);
        let gathered = &mut self.parts[self.sources.len()].position;
        gathered.done = all_made;
        gathered.blocks =
            self.gathered.as_ref().map_or(gathered.blocks, Gathered::position).max(gathered.blocks);
        // What was parsed further on stays here and counts as not read.
        let handed_on = self.parts.iter_mut().zip(&self.sources).take(first_open + 1);
        for (i, (part, source)) in handed_on.enumerate() {
            if self.spread.contains(&i) {
                part.position = ReadPosition { done: all_made, ..ReadPosition::default() };
                continue;
            }
            part.position.done = i < first_open;
            match &source.body {
                Body::Ranges { next, len, .. } => part.position.offset = *next.min(len),
                Body::Suspended(opened) => {
                    part.position.offset = opened.offset();
                    part.position.blocks = opened.blocks();
                }
                _ => {}
            }
            part.position.lines = source.lines;
        }
        let store = assemble(chunks, &self.names(), &self.options.records, run)?;
        Ok(Some(Batch { store, parts: self.parts.clone(), index: rows }))
    }

    /// The first input that is not at its end.
    fn frontier(&self) -> usize {
        self.sources.iter().position(|s| !s.is_done()).unwrap_or(self.sources.len())
    }

    /// Parses blocks until they hold `limit` bytes; those up to the first input that is not at its end.
    fn take(&mut self, limit: usize, run: &Run) -> Result<Vec<RawChunk>> {
        let ahead = std::mem::take(&mut self.ahead);
        let collecting = std::mem::take(&mut self.collecting);
        let work = Work::new(&mut self.sources, &self.options, (ahead, collecting), limit, run);
        let BatchOutput { mut chunks, collecting, budget } = work.done()?;
        let open = self.frontier();
        let n_complete = chunks.partition_point(|c| c.place().0 <= open);
        self.ahead = chunks.split_off(n_complete);
        self.collecting = collecting;
        self.spread.extend(self.collecting.sources());
        if open == self.sources.len() {
            self.gather(&mut chunks, limit, &budget, run)?;
        }
        Ok(chunks)
    }

    /// Adds traces that are spread over records, once all inputs are read.
    fn gather(&mut self, chunks: &mut Vec<RawChunk>, limit: usize, budget: &Budget, run: &Run) -> Result<()> {
        if self.gathered.is_none() && !self.collecting.is_empty() {
            let skip = self.parts[self.sources.len()].position.blocks;
            self.gathered = Some(std::mem::take(&mut self.collecting).arrange(skip, budget, run)?);
        }
        let Some(gathered) = &mut self.gathered else { return Ok(()) };
        let held: usize = chunks.iter().map(RawChunk::nbytes).sum();
        let source = self.sources.len();
        if held < limit && !gathered.is_done() {
            chunks.extend(gathered.next(limit - held, source, &self.options, run)?);
        }
        if gathered.is_done() {
            chunks.push(gathered.counts(&self.options)?);
            chunks.sort_by_key(RawChunk::place);
        }
        Ok(())
    }
}
