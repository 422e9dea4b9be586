//! The driver: workers claim blocks, parse them in parallel, and what they made is handed on in input order,
//! all at once or batch by batch.

use std::collections::BTreeSet;
use std::fs::File;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use arrow_array::cast::AsArray;
use rayon::Scope;

use super::gather::{Budget, Collecting, Gathered};
use super::index::{IndexRow, Seen, TraceIndex};
use super::input::{Body, Given, Opened, Raw, ReadPosition, Source, forced, io_error};
use super::json::Limits;
use super::parse::BlockParser;
use super::source::read_range;
use super::writer::{BlockWriter, RawChunk};
use super::{Input, MAX_RECORD, ReadOptions};
use crate::error::{Error, Finding, FindingCode, Result, capped};
use crate::importers::Format;
use crate::run::Run;
use crate::schema::RecordStatus;
use crate::store::{Store, assemble};

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
    next_trace: u32,
    /// Inputs of formats whose traces are spread, while they are read and when they all are.
    collecting: Collecting,
    gathered: Option<Gathered>,
    spread: BTreeSet<usize>,
}

/// What a batch has of one input.
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
        for (name, _) in &options.fields {
            if crate::schema::EVENTS.index(name).is_some() {
                return Err(Error::Parameter(format!(
                    "fields names '{name}', which is already a column of events"
                )));
            }
        }
        if options.max_record > MAX_RECORD {
            let found = options.max_record;
            return Err(Error::Parameter(format!("max_record is {found}, expected at most {MAX_RECORD}")));
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
            next_trace: 0,
            collecting: Collecting::default(),
            gathered: None,
            spread: BTreeSet::new(),
        })
    }

    /// Streams that are named like files, for tests: their records have the stems that those of files would have.
    #[cfg(test)]
    pub(crate) fn with_stems(mut self) -> Self {
        for source in &mut self.sources {
            source.stem = super::input::stem(std::path::Path::new(&source.name));
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
        let chunks = self.take(usize::MAX, run)?;
        assemble(chunks, &self.names(), &self.options, run)
    }

    /// The next traces: whole blocks until their tables hold `limit` bytes, at least one. `None` after the last.
    /// With an index, traces get its numbers and repeated exports are left out; without one they are numbered on.
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
            let traces = chunk.facts.len();
            if let Some(source) = self.sources.get_mut(chunk.source) {
                let base = if chunk.absolute_lines { 0 } else { source.lines };
                source.lines += chunk.lines;
                chunk.absolute_lines = true;
                chunk.quarantine.iter_mut().for_each(|row| row.position.line += base);
                chunk.positions.iter_mut().for_each(|position| position.line += base);
            }
            let kept = if let Some(index) = &mut index {
                number(chunk, index, &mut rows)?
            } else {
                chunk.numbers = Some((self.next_trace..self.next_trace + traces as u32).collect());
                self.next_trace += traces as u32;
                traces
            };
            let part = &mut self.parts[chunk.source];
            part.records += chunk.records;
            if let Some(tallies) = &chunk.tallies {
                for tally in tallies {
                    *match tally.status {
                        RecordStatus::Used => &mut part.used,
                        RecordStatus::Ignored => &mut part.ignored,
                        RecordStatus::Duplicate => &mut part.duplicates,
                        RecordStatus::Quarantined => &mut part.quarantined,
                    } += tally.count;
                }
            } else if chunk.source < self.sources.len() {
                part.used += kept as u64;
                part.duplicates += (traces - kept) as u64;
                part.quarantined += chunk.quarantine.len() as u64;
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
        let store = assemble(chunks, &self.names(), &self.options, run)?;
        Ok(Some(Batch { store, parts: self.parts.clone(), index: rows }))
    }

    /// The first input that is not at its end.
    fn frontier(&self) -> usize {
        self.sources.iter().position(|s| !s.is_done()).unwrap_or(self.sources.len())
    }

    /// Parses blocks until they hold `limit` bytes; those up to the first input that is not at its end.
    fn take(&mut self, limit: usize, run: &Run) -> Result<Vec<RawChunk>> {
        let n = run.pool().current_num_threads();
        let held = self.ahead.iter().map(RawChunk::nbytes).sum();
        let budget = Budget { bytes: self.options.gather_budget, folder: self.options.spill_folder.clone() };
        let work = Work {
            names: self.sources.iter().map(|s| (s.name.clone(), s.stem.clone())).collect(),
            options: &self.options,
            forced: self.sources.iter().map(|s| s.forced).collect(),
            run,
            limit,
            queue: Mutex::new(Queue {
                sources: &mut self.sources,
                first: 0,
                active: BTreeSet::new(),
                gated: false,
            }),
            claimed: AtomicUsize::new(0),
            held: AtomicUsize::new(held),
            ahead: AtomicUsize::new(held),
            in_flight: AtomicUsize::new(0),
            writers: (0..n).map(|_| Mutex::new(None)).collect(),
            chunks: Mutex::new(std::mem::take(&mut self.ahead)),
            gather: Mutex::new(std::mem::take(&mut self.collecting)),
            budget,
            failure: OnceLock::new(),
        };
        run.pool().scope(|scope| {
            for _ in 0..n {
                scope.spawn(|scope| work.work(scope));
            }
        });
        run.check()?;
        let Work { chunks, gather, budget, failure, .. } = work;
        if let Some(failure) = failure.into_inner() {
            return Err(failure);
        }
        let mut chunks = chunks.into_inner().unwrap_or_else(PoisonError::into_inner);
        chunks.sort_unstable_by_key(|c| (c.source, c.index));
        let open = self.frontier();
        let whole = chunks.partition_point(|c| c.source <= open);
        self.ahead = chunks.split_off(whole);
        self.collecting = gather.into_inner().unwrap_or_else(PoisonError::into_inner);
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
            chunks.extend(gathered.counts()?);
            chunks.sort_by_key(|c| (c.source, c.index));
        }
        Ok(())
    }
}

/// Numbers the traces of a chunk by the index; how many of them stay.
fn number(chunk: &mut RawChunk, index: &mut TraceIndex, rows: &mut Vec<IndexRow>) -> Result<usize> {
    let ids = std::sync::Arc::clone(&chunk.trace_id);
    let mut numbers = Vec::with_capacity(chunk.digests.len());
    let mut keep = Vec::with_capacity(chunk.digests.len());
    for (local, (id, content)) in ids.as_string_view().iter().zip(&chunk.digests).enumerate() {
        if index.next_number() == u32::MAX {
            return Err(Error::TooLarge(format!("a corpus has at most {} traces", u32::MAX)));
        }
        let text = id.unwrap_or_default();
        let (id, input) = (TraceIndex::id_hash(text), chunk.source as u32);
        let (trace, duplicate) = match index.see(input, id, *content) {
            Seen::Duplicate(of) => (of, true),
            Seen::New { number, reused } => {
                if let Some(earlier) = reused {
                    chunk.findings.push((local as u32, reused_id(text, earlier)));
                }
                (number, false)
            }
        };
        // What is left out needs a number of its own until it is.
        numbers.push(if duplicate { u32::MAX - local as u32 } else { trace });
        keep.push(!duplicate);
        rows.push(IndexRow { trace, input, id, content: *content, duplicate });
    }
    let kept = keep.iter().filter(|k| **k).count();
    chunk.numbers = Some(numbers);
    chunk.keep = (kept < keep.len()).then_some(keep);
    Ok(kept)
}

/// The finding on a trace whose id an earlier one has.
pub(crate) fn reused_id(trace_id: &str, earlier: u32) -> Finding {
    let message =
        capped(format!("trace_id '{trace_id}' is already that of trace {earlier}; join on 'trace'"));
    Finding { code: FindingCode::TraceIdReused, count: 1, seq: None, message }
}

enum Task {
    Range {
        source: usize,
        path: std::path::PathBuf,
        start: u64,
        end: u64,
        len: u64,
        index: u64,
        format: Format,
    },
    Stream {
        source: usize,
        body: Body,
    },
}

/// What a worker keeps from block to block: its writer, and bytes to read into.
type Kit = (Box<BlockWriter>, Vec<u8>);

/// What is yet to be claimed.
struct Queue<'a> {
    sources: &'a mut [Source],
    /// Inputs before it are claimed.
    first: usize,
    /// Streams that some worker reads now.
    active: BTreeSet<usize>,
    /// Whether a worker went away because too much is parsed ahead of such a stream.
    gated: bool,
}

/// What the workers of one batch share.
struct Work<'a> {
    /// Name and stem of each input.
    names: Vec<(String, String)>,
    options: &'a ReadOptions,
    /// Formats that need not be told.
    forced: Vec<Option<Format>>,
    run: &'a Run,
    limit: usize,
    queue: Mutex<Queue<'a>>,
    claimed: AtomicUsize,
    /// Bytes of tables made so far, and of those the ones beyond a stream that is being read.
    held: AtomicUsize,
    ahead: AtomicUsize,
    in_flight: AtomicUsize,
    /// One writer a worker, reused from block to block.
    writers: Vec<Mutex<Option<Kit>>>,
    chunks: Mutex<Vec<RawChunk>>,
    /// Parts of traces that are spread over records.
    gather: Mutex<Collecting>,
    budget: Budget,
    failure: OnceLock<Error>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Work<'a> {
    fn work<'s>(&'s self, scope: &Scope<'s>)
    where
        'a: 's,
    {
        while self.failure.get().is_none() && self.run.check().is_ok() {
            let Some(task) = self.claim() else { return };
            let result = match task {
                Task::Range { source, path, start, end, len, index, format } => {
                    self.range(source, &path, (start, end, len), index, format)
                }
                Task::Stream { source, body } => self.stream(scope, source, body),
            };
            if let Err(error) = result {
                // The first failure is the one that is told.
                let _later = self.failure.set(error);
            }
        }
    }

    fn is_full(&self) -> bool {
        self.held.load(Ordering::Relaxed) >= self.limit
    }

    /// The next piece of work, in input order. The first one of a batch is always given, so that every batch
    /// goes on; nothing far ahead of a stream, whose end everything after it has to wait for.
    fn claim(&self) -> Option<Task> {
        let mut queue = locked(&self.queue);
        let queue = &mut *queue;
        if self.is_full() && self.claimed.load(Ordering::Relaxed) > 0 {
            return None;
        }
        if !queue.active.is_empty() && self.is_ahead() {
            queue.gated = true;
            return None;
        }
        while let Some(source) = queue.sources.get_mut(queue.first) {
            let number = queue.first;
            let task = match &mut source.body {
                Body::Ranges { path, len, format, next, index } if *next < *len => {
                    let start = *next;
                    let end = (start + self.options.block_size as u64).min(*len);
                    *next = end;
                    *index += 1;
                    let (path, len, index, format) = (path.clone(), *len, *index - 1, *format);
                    Some(Task::Range { source: number, path, start, end, len, index, format })
                }
                Body::Whole { .. } | Body::Stream(_) | Body::Suspended(_) => {
                    queue.active.insert(number);
                    let body = std::mem::replace(&mut source.body, Body::Taken);
                    Some(Task::Stream { source: number, body })
                }
                Body::Ranges { .. } | Body::Taken | Body::Done => None,
            };
            if task.is_some() {
                self.claimed.fetch_add(1, Ordering::Relaxed);
                return task;
            }
            queue.first += 1;
        }
        None
    }

    fn range(
        &self,
        source: usize,
        path: &std::path::Path,
        (start, end, len): (u64, u64, u64),
        index: u64,
        format: Format,
    ) -> Result<()> {
        let name = &self.names[source].0;
        // Opened for each range: inputs may be more than a process can have open.
        let file = File::open(path).map_err(io_error(name))?;
        let spare = self.with_writer(|_, spare| std::mem::take(spare));
        let (max_record, excerpt) = (self.options.max_record, self.options.excerpt);
        let (block, long) = read_range(&file, index, (start, end, len), max_record, excerpt, spare)
            .map_err(io_error(name))?;
        let given = |block| Given { block, format, entry: None, ignored: false };
        let bytes = self.parse(source, given(block))?;
        self.with_writer(|_, slot| *slot = bytes);
        if let Some(long) = long {
            self.parse(source, given(long))?;
        }
        self.run.advance(end - start);
        Ok(())
    }

    fn stream<'s>(&'s self, scope: &Scope<'s>, source: usize, body: Body) -> Result<()>
    where
        'a: 's,
    {
        let body = self.blocks(scope, source, body)?;
        let mut queue = locked(&self.queue);
        let left = matches!(body, Body::Suspended(_));
        queue.sources[source].body = body;
        queue.active.remove(&source);
        if left && !self.is_full() {
            // It went too far ahead: somebody takes it up again when the one before it is at its end.
            queue.first = queue.first.min(source);
            queue.gated = true;
        }
        let first = queue.active.first().copied();
        let beyond = |chunk: &&RawChunk| first.is_some_and(|first| first < chunk.source);
        let ahead = locked(&self.chunks).iter().filter(beyond).map(RawChunk::nbytes).sum();
        self.ahead.store(ahead, Ordering::Relaxed);
        if queue.gated && !self.is_ahead() && !left {
            queue.gated = false;
            for _ in 1..self.run.pool().current_num_threads() {
                scope.spawn(|scope| self.work(scope));
            }
        }
        Ok(())
    }

    /// Whether more is parsed beyond a stream than may wait for its end.
    fn is_ahead(&self) -> bool {
        self.ahead.load(Ordering::Relaxed) > self.limit / 4
    }

    /// Whether a stream may go on for now: there is room, and it is the first or not too far ahead of it.
    fn may_go_on(&self, source: usize) -> bool {
        !self.is_full()
            && (!self.is_ahead() || locked(&self.queue).active.first().is_none_or(|first| *first == source))
    }

    /// Reads a stream to its end, or until the batch is full; what it is then.
    fn blocks<'s>(&'s self, scope: &Scope<'s>, source: usize, body: Body) -> Result<Body>
    where
        'a: 's,
    {
        let name = &self.names[source].0;
        let open = |raw, from| {
            Opened::new(raw, from, self.options, self.forced[source], name, self.run)
                .map(Box::new)
                .map_err(io_error(name))
        };
        let mut opened = match body {
            Body::Whole { path, from } => open(Raw::File(File::open(path).map_err(io_error(name))?), from)?,
            Body::Stream(Some(reader)) => open(Raw::Stream(reader), ReadPosition::default())?,
            Body::Suspended(opened) => opened,
            other => return Ok(other),
        };
        // As many blocks wait for other workers as keep them busy; beyond that this one parses itself.
        let waiting = 2 * (self.run.pool().current_num_threads() - 1);
        let mut first = true;
        loop {
            if !first && !self.may_go_on(source) {
                return Ok(Body::Suspended(opened));
            }
            first = false;
            let Some(given) = opened.next(self.run).map_err(io_error(name))? else { break };
            self.run.check()?;
            if self.in_flight.load(Ordering::Relaxed) < waiting {
                self.in_flight.fetch_add(1, Ordering::Relaxed);
                scope.spawn(move |_| {
                    if let Err(error) = self.parse(source, given) {
                        let _later = self.failure.set(error);
                    }
                    self.in_flight.fetch_sub(1, Ordering::Relaxed);
                });
            } else {
                self.parse(source, given)?;
            }
            let consumed = opened.consumed();
            self.run.advance(consumed - opened.told);
            opened.told = consumed;
        }
        Ok(Body::Done)
    }

    fn with_writer<T>(&self, f: impl FnOnce(&mut BlockWriter, &mut Vec<u8>) -> T) -> T {
        let worker = rayon::current_thread_index().unwrap_or(0) % self.writers.len();
        let mut slot = locked(&self.writers[worker]);
        let (writer, spare) =
            slot.get_or_insert_with(|| (Box::new(BlockWriter::new(self.options)), Vec::new()));
        f(writer, spare)
    }

    /// Parses a block; gives its bytes back for reuse.
    fn parse(&self, source: usize, given: Given) -> Result<Vec<u8>> {
        let Given { block, format, entry, ignored } = given;
        let info = format.info();
        let lenient = info.lenient;
        let adjusted = lenient.then(|| ReadOptions {
            limits: Limits { lenient, ..self.options.limits },
            ..self.options.clone()
        });
        let options = adjusted.as_ref().unwrap_or(self.options);
        let (name, stem) = &self.names[source];
        let (path, stem, header) = match &entry {
            Some(entry) => (entry.path.as_str(), entry.stem.as_str(), &*entry.header),
            None => (name.as_str(), stem.as_str(), ""),
        };
        let parser = BlockParser { options, importer: info.name, lenient, stem, path, header };
        let chunk = match format {
            Format::Whole(importer) => {
                let chunk =
                    self.with_writer(|writer, _| parser.traces(&block, source, importer, ignored, writer))?;
                chunk.map(|chunk| {
                    let entry = entry.as_ref().map(|entry| entry.path.clone());
                    RawChunk { importer: Some(info.name), entry, ..chunk }
                })
            }
            Format::Spread(importer) => {
                if let Some(items) = parser.items(&block, source, importer, ignored) {
                    locked(&self.gather).put(items, importer, path.into(), &self.budget)?;
                }
                None
            }
        };
        if let Some(chunk) = chunk {
            let nbytes = chunk.nbytes();
            self.held.fetch_add(nbytes, Ordering::Relaxed);
            if locked(&self.queue).active.first().is_some_and(|first| *first < source) {
                self.ahead.fetch_add(nbytes, Ordering::Relaxed);
            }
            locked(&self.chunks).push(chunk);
        }
        let mut bytes = block.bytes;
        if bytes.capacity() > 4 * self.options.block_size.max(1 << 20) {
            // One long record; what it took is not kept for the ordinary ones.
            self.with_writer(|writer, _| *writer = BlockWriter::new(self.options));
            bytes = Vec::new();
        }
        Ok(bytes)
    }
}
