//! The workers of one batch: they claim blocks in input order and parse them in parallel, until the batch is full or
//! the inputs are at their end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rayon::Scope;

use super::ReadOptions;
use super::block::BlockWriter;
use super::chunk::RawChunk;
use super::gather::{Budget, Collecting};
use super::input::{Body, Given, Opened, Raw, ReadPosition, Source, io_error};
use super::json::Limits;
use super::parse::BlockParser;
use super::source::read_range;
use crate::error::{Error, Result};
use crate::importers::Format;
use crate::run::Run;

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

/// What is yet to be claimed, and how much was made.
struct Queue<'a> {
    sources: &'a mut [Source],
    /// Inputs before it are claimed.
    first: usize,
    /// Streams that some worker reads now.
    active: BTreeSet<usize>,
    /// Whether a worker went away because too much is parsed ahead of such a stream.
    gated: bool,
    /// Bytes of tables by input, and the input that [`Queue::ahead`] is counted beyond.
    made: BTreeMap<usize, usize>,
    beyond: usize,
    /// Bytes of tables beyond the first stream that is being read; none where there is no stream.
    ahead: usize,
}

impl Queue<'_> {
    /// Counts tables of an input.
    fn made(&mut self, source: usize, nbytes: usize) {
        *self.made.entry(source).or_default() += nbytes;
        if source > self.beyond {
            self.ahead += nbytes;
        }
    }

    /// Counts anew what lies beyond the first stream, by the inputs between that and the one before: of many small
    /// files each is a stream for a moment.
    fn recount(&mut self) {
        let first = self.active.first().copied().unwrap_or(usize::MAX);
        let (low, high) = (first.min(self.beyond), first.max(self.beyond));
        let between = self.made.range((Bound::Excluded(low), Bound::Included(high)));
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
    /// Formats that need not be told.
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
pub(super) struct Made {
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
        let mut queue = Queue {
            sources,
            first: 0,
            active: BTreeSet::new(),
            gated: false,
            made: BTreeMap::new(),
            beyond: usize::MAX,
            ahead: 0,
        };
        for chunk in &chunks {
            queue.made(chunk.source, chunk.nbytes());
        }
        Self {
            names: queue.sources.iter().map(|s| (s.name.clone(), s.stem.clone())).collect(),
            options,
            forced: queue.sources.iter().map(|s| s.forced).collect(),
            run,
            limit,
            claimed: AtomicUsize::new(0),
            held: AtomicUsize::new(queue.made.values().sum()),
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
    pub(super) fn done(self) -> Result<Made> {
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
        chunks.sort_unstable_by_key(|c| (c.source, c.index));
        let collecting = gather.into_inner().unwrap_or_else(PoisonError::into_inner);
        Ok(Made { chunks, collecting, budget })
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
                Body::Whole { .. } | Body::Stream(_) | Body::Suspended(_) => {
                    let body = std::mem::replace(&mut source.body, Body::Taken);
                    Some(Task::Stream { source: number, body })
                }
                Body::Ranges { .. } | Body::Taken | Body::Done => None,
            };
            if let Some(Task::Stream { source, .. }) = task {
                queue.active.insert(source);
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
        let given = |block| Given { block, format, entry: None, ignored: 0 };
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
        queue.recount();
        if queue.gated && !self.is_ahead(&queue) && !left {
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

    /// Reads a stream to its end, or until the batch is full; what it is then.
    fn blocks<'s>(&'s self, scope: &Scope<'s>, source: usize, body: Body) -> Result<Body>
    where
        'a: 's,
    {
        let name = &self.names[source].0;
        let open = |raw, from| {
            let spare = self.with_writer(|_, spare| std::mem::take(spare));
            Opened::new(raw, from, self.options, self.forced[source], name, Some(spare), self.run)
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
            // The last block is the only one of a small file: handing it over would take longer.
            if !opened.is_done() && self.in_flight.load(Ordering::Relaxed) < waiting {
                self.in_flight.fetch_add(1, Ordering::Relaxed);
                scope.spawn(move |_| {
                    match self.parse(source, given) {
                        Ok(bytes) => self.with_writer(|_, spare| *spare = bytes),
                        Err(error) => drop(self.failure.set(error)),
                    }
                    self.in_flight.fetch_sub(1, Ordering::Relaxed);
                });
            } else {
                let bytes = self.parse(source, given)?;
                self.with_writer(|_, spare| *spare = bytes);
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
                    RawChunk { importer: Some(importer.accepted_as()), entry, ..chunk }
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
            locked(&self.queue).made(source, nbytes);
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
