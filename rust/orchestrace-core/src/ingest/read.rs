//! The driver: claims blocks, parses them in parallel, hands them to the store in input order.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use memchr::memchr_iter;
use rayon::Scope;

use super::compressed::{Compression, compression};
use super::frame::{Framing, HEAD, bom, framing, head_records};
use super::json::{END_OF_RECORD, Limits};
use super::long_record::too_large;
use super::quarantine::{Position, QuarantineRow, excerpt};
use super::source::{Block, BlockStream, read_range};
use super::writer::BlockWriter;
use super::{Input, ReadOptions};
use crate::error::{Error, FindingCode, Reject, RejectCode, Result, capped};
use crate::importers::{self, Importer, Record};
use crate::run::Run;
use crate::schema::EVENT_FIELDS;
use crate::store::{RawChunk, Store, assemble};

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
    let forced = match options.format.as_str() {
        "auto" => None,
        name => Some(importers::find(name)?),
    };
    for (name, _) in &options.fields {
        if crate::schema::EVENTS.index(name).is_some() {
            return Err(Error::Parameter(format!(
                "fields names '{name}', which is already a column of events"
            )));
        }
    }
    let mut sources = Vec::with_capacity(inputs.len());
    for input in inputs {
        sources.push(Source::new(input, options, forced, run)?);
    }
    let tasks = plan(&sources, options);
    let reader = Reader {
        sources: &sources,
        options,
        forced,
        run,
        next: AtomicUsize::new(0),
        in_flight: AtomicUsize::new(0),
        writers: (0..run.pool().current_num_threads()).map(|_| Mutex::new(None)).collect(),
        chunks: Mutex::new(Vec::new()),
        failure: OnceLock::new(),
    };
    run.pool().scope(|scope| {
        for _ in 0..run.pool().current_num_threads() {
            scope.spawn(|scope| reader.work(scope, &tasks));
        }
    });
    run.check()?;
    if let Some(failure) = reader.failure.into_inner() {
        return Err(failure);
    }
    let chunks = reader.chunks.into_inner().unwrap_or_else(PoisonError::into_inner);
    let names: Vec<String> = sources.into_iter().map(|s| s.name).collect();
    assemble(chunks, &names, options, run)
}

/// One input, looked at but not yet read.
struct Source {
    name: String,
    stem: String,
    body: Body,
}

enum Body {
    /// A plain line file that several workers read.
    Ranges { path: PathBuf, len: u64, importer: &'static dyn Importer },
    /// A file that one worker reads.
    Whole(PathBuf),
    /// A reader that one worker takes.
    Stream(Mutex<Option<Box<dyn Read + Send>>>),
}

fn io_error(name: &str) -> impl FnOnce(std::io::Error) -> Error + '_ {
    move |source| Error::Io { path: name.to_owned(), source }
}

impl Source {
    fn new(
        input: Input,
        options: &ReadOptions,
        forced: Option<&'static dyn Importer>,
        run: &Run,
    ) -> Result<Self> {
        match input {
            Input::Stream { name, reader } => {
                Ok(Self { name, stem: String::new(), body: Body::Stream(Mutex::new(Some(reader))) })
            }
            Input::Path(path) => {
                let name = path.to_string_lossy().into_owned();
                let body = Self::file_body(&path, &name, options, forced, run)?;
                Ok(Self { name, stem: stem(&path), body })
            }
        }
    }

    fn file_body(
        path: &Path,
        name: &str,
        options: &ReadOptions,
        forced: Option<&'static dyn Importer>,
        run: &Run,
    ) -> Result<Body> {
        let meta = std::fs::metadata(path).map_err(io_error(name))?;
        run.expect(meta.len());
        if !meta.is_file() || meta.len() <= options.block_size as u64 {
            return Ok(Body::Whole(path.to_owned()));
        }
        let mut file = File::open(path).map_err(io_error(name))?;
        let mut head = Vec::new();
        file.by_ref().take(HEAD as u64).read_to_end(&mut head).map_err(io_error(name))?;
        if compression(&head) != Compression::None || framing(&head) != Framing::Line {
            return Ok(Body::Whole(path.to_owned()));
        }
        let importer =
            forced.unwrap_or_else(|| importers::detect(head_records(&head, Framing::Line).into_iter()));
        Ok(Body::Ranges { path: path.to_owned(), len: meta.len(), importer })
    }
}

/// File name without folders and without all of its extensions that say how it is stored.
fn stem(path: &Path) -> String {
    let mut name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    for suffix in [".gz", ".zst", ".json", ".jsonl", ".ndjson"] {
        if let Some(short) = name.strip_suffix(suffix) {
            name.truncate(short.len());
        }
    }
    name
}

#[derive(Clone, Copy)]
enum Task {
    Range { source: usize, index: u64 },
    Whole { source: usize },
}

fn plan(sources: &[Source], options: &ReadOptions) -> Vec<Task> {
    let mut tasks = Vec::new();
    for (source, s) in sources.iter().enumerate() {
        match &s.body {
            Body::Ranges { len, .. } => {
                tasks.extend(
                    (0..len.div_ceil(options.block_size as u64)).map(|index| Task::Range { source, index }),
                );
            }
            Body::Whole(_) | Body::Stream(_) => tasks.push(Task::Whole { source }),
        }
    }
    tasks
}

/// What a worker keeps from block to block: its writer, and bytes to read into.
type Kit = (Box<BlockWriter>, Vec<u8>);

/// What the workers share.
struct Reader<'a> {
    sources: &'a [Source],
    options: &'a ReadOptions,
    forced: Option<&'static dyn Importer>,
    run: &'a Run,
    next: AtomicUsize,
    in_flight: AtomicUsize,
    /// One writer a worker, reused from block to block.
    writers: Vec<Mutex<Option<Kit>>>,
    chunks: Mutex<Vec<RawChunk>>,
    failure: OnceLock<Error>,
}

impl<'a> Reader<'a> {
    fn work<'s>(&'s self, scope: &Scope<'s>, tasks: &'s [Task])
    where
        'a: 's,
    {
        while let Some(task) = tasks.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            if self.failure.get().is_some() || self.run.check().is_err() {
                return;
            }
            let result = match *task {
                Task::Range { source, index } => self.range(source, index),
                Task::Whole { source } => self.whole(scope, source),
            };
            if let Err(error) = result {
                // The first failure is the one that is told.
                let _later = self.failure.set(error);
            }
        }
    }

    fn range(&self, source: usize, index: u64) -> Result<()> {
        let Body::Ranges { path, len, importer } = &self.sources[source].body else { return Ok(()) };
        let name = &self.sources[source].name;
        let size = self.options.block_size as u64;
        let (start, end) = (index * size, ((index + 1) * size).min(*len));
        // Opened for each range: inputs may be more than a process can have open.
        let file = File::open(path).map_err(io_error(name))?;
        let spare = self.with_writer(|_, spare| std::mem::take(spare));
        let (max_record, excerpt) = (self.options.max_record, self.options.excerpt);
        let (block, long) = read_range(&file, index, (start, end, *len), max_record, excerpt, spare)
            .map_err(io_error(name))?;
        let bytes = self.parse(source, block, *importer)?;
        self.with_writer(|_, slot| *slot = bytes);
        if let Some(long) = long {
            self.parse(source, long, *importer)?;
        }
        self.run.advance(end - start);
        Ok(())
    }

    fn whole<'s>(&'s self, scope: &Scope<'s>, source: usize) -> Result<()>
    where
        'a: 's,
    {
        let name = &self.sources[source].name;
        let raw: Box<dyn Read + Send> = match &self.sources[source].body {
            Body::Whole(path) => Box::new(File::open(path).map_err(io_error(name))?),
            Body::Stream(slot) => match slot.lock().unwrap_or_else(PoisonError::into_inner).take() {
                Some(reader) => reader,
                None => return Ok(()),
            },
            Body::Ranges { .. } => return Ok(()),
        };
        let mut stream = BlockStream::open(raw, self.options, self.run).map_err(io_error(name))?;
        let head = stream.head().map_err(io_error(name))?;
        let framing = framing(head);
        let importer =
            self.forced.unwrap_or_else(|| importers::detect(head_records(head, framing).into_iter()));
        stream.set_framing(framing);
        let mut told = 0;
        // As many blocks wait for other workers as keep them busy; beyond that this one parses itself.
        let limit = 2 * (self.run.pool().current_num_threads() - 1);
        while let Some(block) = stream.next().map_err(io_error(name))? {
            self.run.check()?;
            if self.in_flight.load(Ordering::Relaxed) < limit {
                self.in_flight.fetch_add(1, Ordering::Relaxed);
                scope.spawn(move |_| {
                    if let Err(error) = self.parse(source, block, importer) {
                        let _later = self.failure.set(error);
                    }
                    self.in_flight.fetch_sub(1, Ordering::Relaxed);
                });
            } else {
                self.parse(source, block, importer)?;
            }
            let consumed = stream.consumed.load(Ordering::Relaxed);
            self.run.advance(consumed - told);
            told = consumed;
        }
        Ok(())
    }

    fn with_writer<T>(&self, f: impl FnOnce(&mut BlockWriter, &mut Vec<u8>) -> T) -> T {
        let worker = rayon::current_thread_index().unwrap_or(0) % self.writers.len();
        let mut slot = self.writers[worker].lock().unwrap_or_else(PoisonError::into_inner);
        let (writer, spare) =
            slot.get_or_insert_with(|| (Box::new(BlockWriter::new(self.options)), Vec::new()));
        f(writer, spare)
    }

    /// Parses a block; gives its bytes back for reuse.
    fn parse(&self, source: usize, block: Block, importer: &'static dyn Importer) -> Result<Vec<u8>> {
        let lenient = importer.info().lenient;
        let adjusted = lenient.then(|| ReadOptions {
            limits: Limits { lenient, ..self.options.limits },
            ..self.options.clone()
        });
        let options = adjusted.as_ref().unwrap_or(self.options);
        let parser = BlockParser { options, importer, stem: &self.sources[source].stem };
        let chunk = self.with_writer(|writer, _| parser.parse(&block, source, writer))?;
        if let Some(chunk) = chunk {
            self.chunks.lock().unwrap_or_else(PoisonError::into_inner).push(chunk);
        }
        Ok(block.bytes)
    }
}

struct BlockParser<'a> {
    options: &'a ReadOptions,
    importer: &'static dyn Importer,
    stem: &'a str,
}

impl BlockParser<'_> {
    fn parse(&self, block: &Block, source: usize, writer: &mut BlockWriter) -> Result<Option<RawChunk>> {
        // One check for the whole block; records are looked at one by one only if it fails.
        let text = simdutf8::basic::from_utf8(&block.bytes).ok();
        let mut records = 0;
        // Where the last record of an input without a final line end stops.
        let open_end =
            if block.open_end { trim(&block.bytes, 0, block.bytes.len(), block.offset).1 } else { 0 };
        let mut record = |writer: &mut BlockWriter, start: usize, end: usize, line: u64| {
            let (start, end) = trim(&block.bytes, start, end, block.offset);
            if start < end {
                records += 1;
                let last = end == open_end;
                let position =
                    Position { line, offset: block.offset + start as u64, length: (end - start) as u64 };
                self.record(
                    writer,
                    &block.bytes[start..end],
                    text.and_then(|t| t.get(start..end)),
                    position,
                    last,
                );
            }
        };
        let base = block.line.unwrap_or(1);
        let mut empty = 0;
        let lines = if block.document {
            record(writer, 0, block.bytes.len(), base);
            0
        } else if let Some(elements) = &block.elements {
            for &(start, end, line) in elements {
                record(writer, start, end, base + line);
                let (from, to) = trim(&block.bytes, start, end, block.offset);
                if from == to {
                    empty += 1;
                    let position =
                        Position { line: base + line, offset: block.offset + start as u64, length: 0 };
                    let message = "found no element, expected a value between commas";
                    let reject = Reject::new(RejectCode::JsonSyntax, "", message);
                    writer.quarantine.push(self.row(position, reject, &[]));
                }
            }
            0
        } else {
            let mut line = 0;
            let mut start = 0;
            for end in memchr_iter(b'\n', &block.bytes) {
                record(writer, start, end, base + line);
                start = end + 1;
                line += 1;
            }
            if start < block.bytes.len() {
                record(writer, start, block.bytes.len(), base + line);
                line += 1;
            }
            line
        };
        if let Some(broken) = &block.broken {
            records += 1;
            let in_lines =
                if block.elements.is_some() || block.document { broken.lines_before } else { lines };
            let position = Position { line: base + in_lines, offset: broken.offset, length: broken.length };
            writer.quarantine.push(self.row(position, broken.reject.clone(), &broken.head));
        }
        records += empty;
        let lines = lines + block.extra_lines;
        if records == 0 && lines == 0 {
            return Ok(None);
        }
        writer.finish(source, block.index, block.line.is_some(), lines, records).map(Some)
    }

    fn row(&self, position: Position, mut reject: Reject, record: &[u8]) -> QuarantineRow {
        // Private data: messages quote what was found, so without an excerpt the code has to do.
        if self.options.excerpt == 0 {
            reject.message = format!("{} (excerpt=0: what was found is not shown)", reject.code.meaning());
            reject.path = public_path(&reject.path);
        }
        reject.message = capped(reject.message);
        reject.path = capped(reject.path);
        let excerpt = excerpt(record, self.options.excerpt);
        QuarantineRow { position, reject, importer: Cow::Borrowed(self.importer.info().name), excerpt }
    }

    fn record(
        &self,
        writer: &mut BlockWriter,
        bytes: &[u8],
        text: Option<&str>,
        position: Position,
        last: bool,
    ) {
        if position.length > self.options.max_record {
            let reject = too_large(position.length, self.options.max_record);
            writer.quarantine.push(self.row(position, reject, bytes));
            return;
        }
        let lenient = self.importer.info().lenient;
        let (text, replaced) = match text.map_or_else(|| simdutf8::compat::from_utf8(bytes), Ok) {
            Ok(text) => (Cow::Borrowed(text), false),
            Err(_) if lenient => (String::from_utf8_lossy(bytes), true),
            Err(e) => {
                let at = e.valid_up_to();
                let reject = Reject::new(
                    RejectCode::Utf8Invalid,
                    "",
                    format!("found the byte 0x{:02x}, expected UTF-8 (byte {at} of the record)", bytes[at]),
                );
                writer.quarantine.push(self.row(position, reject, bytes));
                return;
            }
        };
        let mut out = writer.begin(self.options, position);
        if replaced {
            out.finding(FindingCode::Utf8Replaced, None, || "invalid UTF-8 was replaced by U+FFFD".into());
        }
        let record = Record { text: &text, stem: self.stem, replaced };
        let outcome = self
            .importer
            .record(&record, &mut out)
            .and_then(|()| out.commit(self.importer.info().name).map_err(super::json::Fault::into_reject));
        if let Err(mut reject) = outcome {
            out.rollback();
            // The record is the last of its input, has no line end, and ends before its JSON does.
            if last && reject.code == RejectCode::JsonSyntax && reject.message.starts_with(END_OF_RECORD) {
                reject.code = RejectCode::InputTruncated;
            }
            writer.quarantine.push(self.row(position, reject, bytes));
        }
    }
}

/// A JSON pointer up to the first key that is not of a schema.
fn public_path(path: &str) -> String {
    let known = |key: &str| {
        key.bytes().all(|b| b.is_ascii_digit()) || PUBLIC_KEYS.contains(&key) || EVENT_FIELDS.contains(&key)
    };
    path.split('/').skip(1).take_while(|key| known(key)).fold(String::new(), |out, key| out + "/" + key)
}

/// Keys of the formats' own schemas beside the fields of events.
const PUBLIC_KEYS: &[&str] = &[
    "trace_id",
    "task_id",
    "events",
    "edges",
    "rewards",
    "costs",
    "metrics",
    "system",
    "topology",
    "src",
    "dst",
    "tokens",
    "wall_clock_s",
    "tool_calls",
    "messages",
    "history",
    "mistake_agent",
    "mistake_step",
    "content",
    "name",
];

/// Leaves white space around a record out, and a byte order mark at the start of the input.
fn trim(bytes: &[u8], mut start: usize, mut end: usize, offset: u64) -> (usize, usize) {
    if start == 0 && offset == 0 {
        start += bom(bytes).min(end);
    }
    while start < end && matches!(bytes[start], b' ' | b'\t' | b'\r' | b'\n') {
        start += 1;
    }
    while end > start && matches!(bytes[end - 1], b' ' | b'\t' | b'\r' | b'\n') {
        end -= 1;
    }
    (start, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_lose_storage_extensions() {
        assert_eq!(stem(Path::new("/a/b/run.7.jsonl.zst")), "run.7");
        assert_eq!(stem(Path::new("12.json")), "12");
    }

    #[test]
    fn records_are_trimmed() {
        assert_eq!(trim(b"\xEF\xBB\xBF {} \r", 0, 8, 0), (4, 6));
        assert_eq!(trim(b"\xEF\xBB\xBF{}", 0, 5, 10), (0, 5));
    }
}
