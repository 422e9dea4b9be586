//! The workers of one batch: they claim blocks in input order and parse them in parallel until the batch is full or the
//! inputs end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rayon::Scope;

use super::ReadOptions;
use super::gather::{Budget, Collecting, ItemBlock};
use super::input::{Body, Opened, Raw, ReadPosition, Source, SourceBlock, io_error};
use super::parse::BlockParser;
use super::source::read_range;
use crate::columns::block::BlockWriter;
use crate::columns::chunk::{RawChunk, Segment};
use crate::columns::tally::Tally;
use crate::error::{Error, Result};
use crate::importers::Format;
use crate::run::Run;
use crate::schema::RecordStatus;

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
    /// Inputs that follow each other, to be read front to back: one, or as many small files as a block has room for.
    Streams(Vec<(usize, Body)>),
}

/// Blocks that follow each other and become one chunk: what comes in small files, or entries of an archive, costs what
/// the same records cost in one file.
#[derive(Default)]
struct Parcel {
    blocks: Vec<(usize, SourceBlock)>,
    bytes: usize,
}

impl Parcel {
    fn put(&mut self, source: usize, mut block_of_source: SourceBlock) {
        let bytes = &mut block_of_source.block.bytes;
        if bytes.capacity() > 2 * bytes.len() && !self.blocks.is_empty() {
            bytes.shrink_to_fit();
        }
        self.bytes += bytes.len() + size_of::<(usize, SourceBlock)>();
        self.blocks.push((source, block_of_source));
    }
}

/// What a small file counts at least when files are dealt out: opening one takes time, however little it holds.
const FILE: u64 = 4 << 10;

/// What a worker keeps from block to block: its writer, and bytes to read into.
type Kit = (Box<BlockWriter>, Vec<u8>);

/// What is yet to be claimed, and how much was made.
struct Queue<'a> {
    sources: &'a mut [Source],
    /// Inputs before it are claimed.
    first: usize,
    /// Bytes of files that one worker reads each, not claimed yet.
    unclaimed: u64,
    /// Streams that some worker reads now; of several files in a row, the first.
    active: BTreeSet<usize>,
    /// Whether a worker went away because too much is parsed ahead of such a stream.
    gated: bool,
    /// Bytes of tables by input, and the input that [`Queue::ahead`] is counted beyond.
    table_bytes: BTreeMap<usize, usize>,
    beyond: usize,
    /// Bytes of tables beyond the first stream that is being read; none where there is no stream.
    ahead: usize,
}

impl Queue<'_> {
    /// Counts tables of an input.
    fn add_tables(&mut self, source: usize, nbytes: usize) {
        *self.table_bytes.entry(source).or_default() += nbytes;
        if source > self.beyond {
            self.ahead += nbytes;
        }
    }

    /// Counts anew what lies beyond the first stream, by the inputs between that and the one before: of many small
    /// files each is a stream for a moment.
    fn recount(&mut self) {
        let first = self.active.first().copied().unwrap_or(usize::MAX);
        let (low, high) = (first.min(self.beyond), first.max(self.beyond));
        let between = self.table_bytes.range((Bound::Excluded(low), Bound::Included(high)));
        let between: usize = between.map(|(_, nbytes)| nbytes).sum();
        if first > self.beyond {
            self.ahead -= between;
        } else {
            self.ahead += between;
        }
        self.beyond = first;
    }
}

/// What the workers of one batch share.
pub(super) struct Work<'a> {
    /// Name and stem of each input.
    names: Vec<(String, String)>,
    options: &'a ReadOptions,
    /// Formats that need not be detected.
    forced: Vec<Option<Format>>,
    run: &'a Run,
    limit: usize,
    queue: Mutex<Queue<'a>>,
    claimed: AtomicUsize,
    /// Bytes of tables made so far.
    held: AtomicUsize,
    in_flight: AtomicUsize,
    /// One writer a worker, reused from block to block.
    writers: Vec<Mutex<Option<Kit>>>,
    chunks: Mutex<Vec<RawChunk>>,
    /// Parts of traces that are spread over records.
    gather: Mutex<Collecting>,
    budget: Budget,
    failure: OnceLock<Error>,
}

/// What the workers of one batch made.
pub(super) struct BatchOutput {
    /// In input order.
    pub chunks: Vec<RawChunk>,
    pub collecting: Collecting,
    pub budget: Budget,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Work<'a> {
    /// A batch of about `limit` bytes, which begins with what was made beyond the one before it.
    pub(super) fn new(
        sources: &'a mut [Source],
        options: &'a ReadOptions,
        (chunks, gather): (Vec<RawChunk>, Collecting),
        limit: usize,
        run: &'a Run,
    ) -> Self {
        let files = sources.iter().filter(|source| matches!(source.body, Body::Whole { .. }));
        let unclaimed = files.map(|source| source.size.max(FILE)).sum();
        let mut queue = Queue {
            sources,
            first: 0,
            unclaimed,
            active: BTreeSet::new(),
            gated: false,
            table_bytes: BTreeMap::new(),
            beyond: usize::MAX,
            ahead: 0,
        };
        for chunk in &chunks {
            queue.add_tables(chunk.place().0, chunk.nbytes());
        }
        Self {
            names: queue.sources.iter().map(|s| (s.name.clone(), s.stem.clone())).collect(),
            options,
            forced: queue.sources.iter().map(|s| s.forced).collect(),
            run,
            limit,
            claimed: AtomicUsize::new(0),
            held: AtomicUsize::new(queue.table_bytes.values().sum()),
            queue: Mutex::new(queue),
            in_flight: AtomicUsize::new(0),
            writers: (0..run.pool().current_num_threads()).map(|_| Mutex::new(None)).collect(),
            chunks: Mutex::new(chunks),
            gather: Mutex::new(gather),
            budget: Budget { bytes: options.gather_budget, folder: options.spill_folder.clone() },
            failure: OnceLock::new(),
        }
    }

    /// Does it, on all threads.
    pub(super) fn done(self) -> Result<BatchOutput> {
        self.run.pool().scope(|scope| {
            for _ in 0..self.writers.len() {
                scope.spawn(|scope| self.work(scope));
            }
        });
        self.run.check()?;
        let Self { chunks, gather, budget, failure, .. } = self;
        if let Some(failure) = failure.into_inner() {
            return Err(failure);
        }
        let mut chunks = chunks.into_inner().unwrap_or_else(PoisonError::into_inner);
        chunks.sort_by_key(RawChunk::place);
        let collecting = gather.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(BatchOutput { chunks, collecting, budget })
    }

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
                Task::Streams(run) => self.streams(scope, run),
            };
            if let Err(error) = result {
                // The first failure is the one that is reported.
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
        if self.is_ahead(queue) {
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
                Body::Whole { .. } => {
                    let run = self.small_files(queue);
                    queue.active.insert(number);
                    Some(Task::Streams(run))
                }
                Body::Stream(_) | Body::Suspended(_) => {
                    let body = std::mem::replace(&mut source.body, Body::Taken);
                    queue.active.insert(number);
                    Some(Task::Streams(vec![(number, body)]))
                }
                Body::Ranges { .. } | Body::Taken | Body::Done => None,
            };
            if let Some(Task::Streams(_)) = task {
                queue.recount();
            }
            if task.is_some() {
                self.claimed.fetch_add(1, Ordering::Relaxed);
                return task;
            }
            queue.first += 1;
        }
        None
    }

    /// Takes the next file, and those behind it that are small: as many as have a block of bytes together, or a share
    /// of what is left, so that every worker has something to do to the end.
    fn small_files(&self, queue: &mut Queue<'_>) -> Vec<(usize, Body)> {
        let share = queue.unclaimed / (2 * self.writers.len() as u64);
        let room = share.min(self.options.block_size as u64);
        let (mut run, mut taken) = (Vec::new(), 0);
        for (number, source) in queue.sources.iter_mut().enumerate().skip(queue.first) {
            let size = source.size.max(FILE);
            match &source.body {
                Body::Whole { .. } if run.is_empty() || taken + size <= room => {
                    taken += size;
                    run.push((number, std::mem::replace(&mut source.body, Body::Taken)));
                }
                Body::Done => {}
                _ => break,
            }
        }
        queue.unclaimed = queue.unclaimed.saturating_sub(taken);
        run
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
        let (max_record, excerpt) = (self.options.max_record, self.options.records.excerpt);
        let (block, long) = read_range(&file, index, (start, end, len), max_record, excerpt, spare)
            .map_err(io_error(name))?;
        let mut parcel = Parcel::default();
        for block in [Some(block), long].into_iter().flatten() {
            parcel.put(source, SourceBlock { block, format, entry: None, skipped: None });
        }
        self.parse(parcel)?;
        self.run.advance(end - start);
        Ok(())
    }

    /// Reads inputs one after the other, until they are at their ends or the batch is full.
    fn streams<'s>(&'s self, scope: &Scope<'s>, run: Vec<(usize, Body)>) -> Result<()>
    where
        'a: 's,
    {
        let Some(first) = run.first().map(|(source, _)| *source) else { return Ok(()) };
        let mut parcel = Parcel::default();
        let mut stopped = None;
        let mut bodies = Vec::with_capacity(run.len());
        for (source, body) in run {
            if stopped.is_some() {
                bodies.push((source, body));
                continue;
            }
            let body = self.blocks(scope, source, body, first, &mut parcel)?;
            if !matches!(body, Body::Done) {
                stopped = Some(source);
            }
            bodies.push((source, body));
        }
        // The last blocks are the only ones of small files: handing them over would take longer.
        self.parse(parcel)?;
        let mut queue = locked(&self.queue);
        let queue = &mut *queue;
        for (source, body) in bodies {
            if matches!(body, Body::Whole { .. }) {
                queue.unclaimed += queue.sources[source].size.max(FILE);
            }
            queue.sources[source].body = body;
        }
        queue.active.remove(&first);
        let left = stopped.is_some();
        if let Some(source) = stopped
            && !self.is_full()
        {
            // It went too far ahead: somebody takes it up again when the one before it is at its end.
            queue.first = queue.first.min(source);
            queue.gated = true;
        }
        queue.recount();
        if queue.gated && !self.is_ahead(queue) && !left {
            queue.gated = false;
            for _ in 1..self.run.pool().current_num_threads() {
                scope.spawn(|scope| self.work(scope));
            }
        }
        Ok(())
    }

    /// Whether more is parsed beyond a stream than may wait for its end.
    fn is_ahead(&self, queue: &Queue<'_>) -> bool {
        queue.ahead > self.limit / 4
    }

    /// Whether a stream may go on for now: there is room, and it is the first or not too far ahead of it.
    fn may_go_on(&self, source: usize) -> bool {
        let queue = locked(&self.queue);
        !self.is_full() && (!self.is_ahead(&queue) || queue.beyond == source)
    }

    /// Reads a stream to its end, or until the batch is full; what it is then. What is too little to be worth parsing
    /// stays in the parcel. `first` is the first of the inputs that are read in a row.
    fn blocks<'s>(
        &'s self,
        scope: &Scope<'s>,
        source: usize,
        body: Body,
        first: usize,
        parcel: &mut Parcel,
    ) -> Result<Body>
    where
        'a: 's,
    {
        let name = &self.names[source].0;
        let mut goes_on = source == first || self.may_go_on(first);
        if !goes_on {
            return Ok(body);
        }
        let open = |raw, from| {
            let spare = self.with_writer(|_, spare| std::mem::take(spare));
            Opened::new(raw, from, self.options, self.forced[source], name, Some(spare), self.run)
                .map(Box::new)
                .map_err(io_error(name))
        };
        let mut opened = match body {
            Body::Whole { path, from } => open(Raw::open(&path).map_err(io_error(name))?, from)?,
            Body::Stream(Some(reader)) => open(Raw::Stream(reader), ReadPosition::default())?,
            Body::Suspended(opened) => opened,
            other => return Ok(other),
        };
        // As many blocks wait for other workers as keep them busy; beyond that this one parses itself.
        let waiting = 2 * (self.run.pool().current_num_threads() - 1);
        loop {
            if !goes_on {
                return Ok(Body::Suspended(opened));
            }
            let Some(given) = opened.next(self.run).map_err(io_error(name))? else { break };
            self.run.check()?;
            parcel.put(source, given);
            if parcel.bytes >= self.options.block_size / 2 && !opened.is_done() {
                let parcel = std::mem::take(parcel);
                if self.in_flight.load(Ordering::Relaxed) < waiting {
                    self.in_flight.fetch_add(1, Ordering::Relaxed);
                    scope.spawn(move |_| {
                        if let Err(error) = self.parse(parcel) {
                            drop(self.failure.set(error));
                        }
                        self.in_flight.fetch_sub(1, Ordering::Relaxed);
                    });
                } else {
                    self.parse(parcel)?;
                }
            }
            let consumed = opened.consumed();
            self.run.advance(consumed - opened.progress);
            opened.progress = consumed;
            goes_on = self.may_go_on(first);
        }
        if parcel.bytes >= self.options.block_size / 2 {
            self.parse(std::mem::take(parcel))?;
        }
        Ok(Body::Done)
    }

    fn with_writer<T>(&self, f: impl FnOnce(&mut BlockWriter, &mut Vec<u8>) -> T) -> T {
        let worker = rayon::current_thread_index().unwrap_or(0) % self.writers.len();
        let mut slot = locked(&self.writers[worker]);
        let (writer, spare) =
            slot.get_or_insert_with(|| (Box::new(BlockWriter::new(&self.options.records)), Vec::new()));
        f(writer, spare)
    }

    /// Parses blocks into one chunk, and keeps the bytes of the longest for reuse.
    fn parse(&self, parcel: Parcel) -> Result<()> {
        let Some(place) = parcel.blocks.first().map(|(source, _)| *source) else { return Ok(()) };
        let chunk = self.with_writer(|writer, _| {
            let mut segments = Vec::with_capacity(parcel.blocks.len());
            for (source, given) in &parcel.blocks {
                segments.extend(self.segment(*source, given, writer)?);
            }
            if segments.is_empty() { Ok(None) } else { writer.finish(segments).map(Some) }
        })?;
        if let Some(chunk) = chunk {
            let nbytes = chunk.nbytes();
            self.held.fetch_add(nbytes, Ordering::Relaxed);
            locked(&self.queue).add_tables(place, nbytes);
            locked(&self.chunks).push(chunk);
        }
        let buffers = parcel.blocks.into_iter().map(|(_, given)| given.block.bytes);
        let bytes = buffers.max_by_key(Vec::capacity).unwrap_or_default();
        self.with_writer(|writer, spare| {
            if bytes.capacity() > 4 * self.options.block_size.max(1 << 20) {
                // One long record; what it took is not kept for the ordinary ones.
                *writer = BlockWriter::new(&self.options.records);
            } else if bytes.capacity() > spare.capacity() {
                *spare = bytes;
            }
        });
        Ok(())
    }

    /// Adds a block to the tables of a chunk, or to the parts of traces; what it is in the chunk.
    fn segment(
        &self,
        source: usize,
        source_block: &SourceBlock,
        writer: &mut BlockWriter,
    ) -> Result<Option<Segment>> {
        let SourceBlock { block, format, entry, skipped } = source_block;
        let info = format.info();
        let lenient = info.lenient;
        let adjusted = lenient.then(|| {
            let mut options = self.options.clone();
            options.records.limits.lenient = lenient;
            options
        });
        let options = adjusted.as_ref().unwrap_or(self.options);
        let (name, stem) = &self.names[source];
        let (path, stem, header) = match entry {
            Some(entry) => (entry.path.as_str(), entry.stem.as_str(), &*entry.header),
            None => (name.as_str(), stem.as_str(), ""),
        };
        let parser = BlockParser { options, importer: info.name, lenient, stem, path, header };
        let tally = skipped.map(|skipped| Tally {
            importer: info.name.into(),
            status: RecordStatus::Ignored,
            kind: Some(skipped.code.as_str().into()),
            count: skipped.count,
        });
        Ok(match format {
            Format::Whole(importer) => {
                let segment = match tally {
                    Some(tally) => {
                        Some(Segment { index: block.index, ..Segment::of_counts(source, vec![tally]) })
                    }
                    None => parser.traces(block, source, *importer, writer),
                };
                let entry = || entry.as_ref().map(|entry| entry.path.as_str().into());
                segment.map(|segment| Segment { entry: entry(), ..segment })
            }
            Format::Spread(importer) => {
                let items = match tally {
                    Some(tally) => Some(ItemBlock {
                        skipped: Some(tally),
                        ..ItemBlock::new(source, block.index, block.line.is_some())
                    }),
                    None => parser.items(block, source, *importer),
                };
                if let Some(items) = items {
                    locked(&self.gather).put(items, *importer, path.into(), &self.budget)?;
                }
                None
            }
        })
    }
}
