//! Search in the records of inputs. Small files and ranges of large ones are searched in parallel; a file in whose bytes
//! nothing can match is read and no more: neither its framing nor its format is looked at.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use memchr::{memchr, memchr_iter, memrchr};
use rayon::prelude::*;

use super::archive::{is_tar, is_zip};
use super::binary::known_kind;
use super::block::Block;
use super::compressed::{Compression, compression};
use super::frame::{Beginning, Framing, HEAD, KeptBeginning, bom, framing};
use super::input::{Opened, Raw, ReadPosition, io_error};
use super::source::read_range;
use super::{ReadOptions, rows};
use crate::error::{IgnoredCode, Reject, RejectCode, Result};
use crate::importers::{Format, IMPORTERS};
use crate::run::Run;
use crate::search::Pattern;
use crate::search::pattern::Match;
use crate::search::text::Text;

/// What is asked of a search.
#[derive(Debug)]
pub struct Request {
    /// What is searched for.
    pub pattern: Pattern,
    /// Characters of the text to show before and behind a match.
    pub context: usize,
    /// Most matches to hand out, the first ones of the inputs.
    pub limit: Option<u64>,
    /// Whether matches are only counted.
    pub count: bool,
}

/// A match, and where it lies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// The number of its input.
    pub input: usize,
    /// The input, or the entry of an archive, as the tables name it.
    pub file: Arc<str>,
    /// Line there, from 1.
    pub line: u64,
    /// First byte, in the decompressed input.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// What matched, or the begin of it.
    pub matched: String,
    /// It and the text around it.
    pub text: String,
}

/// A part of an input that could not be searched.
#[derive(Debug, Clone)]
pub struct Unsearched {
    /// The input or entry.
    pub file: Arc<str>,
    /// First byte.
    pub offset: u64,
    /// Why not.
    pub reject: Reject,
}

/// What a search gives.
#[derive(Debug, Default)]
pub struct Matches {
    /// In the order of the inputs; none where they are only counted.
    pub hits: Vec<Hit>,
    /// How many there are, at most the limit.
    pub count: u64,
    /// Whether there are more than the limit.
    pub cut: bool,
    /// What was not searched: records that are too long, what is damaged.
    pub unsearched: Vec<Unsearched>,
}

/// Of a match, and of a text around it at each side, at most so many bytes are shown.
const LONGEST: usize = 1024;
/// Bytes that a worker takes at a time: what a processor keeps near while it goes over them twice.
const STEP: u64 = 1 << 20;
/// Small files that a worker takes at a time.
const FILES: usize = 64;

/// Work for one thread.
enum Task {
    /// Small files, by number.
    Files(Range<usize>),
    /// The records of a line file that begin in a range.
    Lines { input: usize, index: u64, range: (u64, u64, u64) },
    /// Anything else.
    Stream(usize),
}

/// The matches of a task, and the lines that it counted of a range.
#[derive(Debug, Default)]
struct Part {
    matches: Matches,
    /// Of a range: its input, and its lines; hits count lines from its begin.
    lines: Option<(usize, u64)>,
}

/// Buffers of a worker.
#[derive(Default)]
struct Kit {
    bytes: Vec<u8>,
    text: Text,
}

/// Searches inputs, each a name for the tables and the file to open.
pub fn search(
    inputs: &[(String, PathBuf)],
    request: &Request,
    options: &ReadOptions,
    run: &Run,
) -> Result<Matches> {
    let sizes = run.pool().install(|| {
        let size = |(name, path): &(String, PathBuf)| {
            std::fs::metadata(path)
                .map(|meta| if meta.is_file() { meta.len() } else { u64::MAX })
                .map_err(io_error(name))
        };
        inputs.par_iter().map(size).collect::<Result<Vec<u64>>>()
    })?;
    run.expect(sizes.iter().filter(|size| **size < u64::MAX).sum());
    let step = STEP.min(options.block_size as u64).max(1);
    let mut tasks = Vec::new();
    let mut at = 0;
    while at < inputs.len() {
        if sizes[at] > step {
            plan_large(at, sizes[at], &inputs[at], step, options, &mut tasks)?;
            at += 1;
            continue;
        }
        let (first, mut bytes) = (at, 0);
        while at < inputs.len()
            && at - first < FILES
            && sizes[at] <= step
            && (at == first || bytes + sizes[at] <= step)
        {
            bytes += sizes[at];
            at += 1;
        }
        tasks.push(Task::Files(first..at));
    }
    let search = Search {
        inputs,
        request,
        options,
        // Where records begin and end does not depend on their format.
        format: IMPORTERS.first().copied(),
        names: inputs.iter().map(|(name, _)| Arc::from(name.as_str())).collect(),
        kits: Mutex::default(),
        finished: Mutex::new((vec![None; tasks.len()], 0, 0)),
        is_enough: AtomicBool::new(false),
        run,
    };
    let mut parts: Vec<Part> = tasks.iter().map(|_| Part::default()).collect();
    run.share(tasks.into_iter().enumerate().zip(&mut parts).collect(), |((number, task), part)| {
        search.task(number, task, part)
    })?;
    Ok(joined(parts, request.limit))
}

/// Plans a file that is larger than a step: ranges of lines where it has any.
fn plan_large(
    input: usize,
    size: u64,
    (name, path): &(String, PathBuf),
    step: u64,
    options: &ReadOptions,
    tasks: &mut Vec<Task>,
) -> Result<()> {
    if size == u64::MAX || !is_line_file(path, options).map_err(io_error(name))? {
        tasks.push(Task::Stream(input));
        return Ok(());
    }
    let starts = (0..size).step_by(usize::try_from(step).unwrap_or(usize::MAX));
    tasks.extend((0..).zip(starts).map(|(index, start)| Task::Lines {
        input,
        index,
        range: (start, (start + step).min(size), size),
    }));
    Ok(())
}

/// Whether the records of a plain file are lines, as far as its head says; what it leaves open, a stream finds out.
fn is_line_file(path: &Path, options: &ReadOptions) -> std::io::Result<bool> {
    let mut beginning = KeptBeginning { reader: File::open(path)?, bytes: Vec::new() };
    let head = beginning.head(HEAD)?;
    let has_rows = options.rows.is_some() && rows::is_rows(head);
    let is_binary = has_rows || known_kind(head).is_some();
    if compression(head) != Compression::None || is_zip(head) || is_tar(head) || is_binary {
        return Ok(false);
    }
    let (framing, is_clear) = framing(head, head.len() < HEAD);
    Ok(is_clear && framing == Framing::Line)
}

/// The parts as one, lines counted from the begin of each file, cut at the limit.
fn joined(parts: Vec<Part>, limit: Option<u64>) -> Matches {
    let mut all = Matches::default();
    let mut before = (usize::MAX, 0);
    for Part { mut matches, lines } in parts {
        // whether a part behind the last match was searched, hangs on threads
        if limit.is_some_and(|limit| all.count > limit) {
            break;
        }
        if let Some((input, lines)) = lines {
            if before.0 != input {
                before = (input, 0);
            }
            matches.hits.iter_mut().for_each(|hit| hit.line += before.1);
            before.1 += lines;
        }
        all.count += matches.count;
        all.hits.append(&mut matches.hits);
        all.unsearched.append(&mut matches.unsearched);
    }
    if let Some(limit) = limit.filter(|limit| *limit < all.count) {
        all.cut = true;
        all.count = limit;
        all.hits.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
    }
    all
}

/// Matches of each task that is done, how many tasks are done without a gap, and how many matches these have.
type Finished = (Vec<Option<u64>>, usize, u64);

struct Search<'a> {
    inputs: &'a [(String, PathBuf)],
    request: &'a Request,
    options: &'a ReadOptions,
    format: Option<Format>,
    names: Vec<Arc<str>>,
    kits: Mutex<Vec<Kit>>,
    finished: Mutex<Finished>,
    /// Whether the tasks before some one have more than is asked for.
    is_enough: AtomicBool,
    run: &'a Run,
}

impl Search<'_> {
    fn task(&self, number: usize, task: Task, part: &mut Part) -> Result<()> {
        self.run.check()?;
        if self.is_enough.load(Ordering::Relaxed) {
            return Ok(());
        }
        let kits = || self.kits.lock().unwrap_or_else(PoisonError::into_inner);
        let mut kit = kits().pop().unwrap_or_default();
        match task {
            Task::Files(files) => {
                for file in files {
                    self.file(file, &mut kit, part)?;
                }
            }
            Task::Lines { input, index, range } => self.range(input, index, range, &mut kit, part)?,
            Task::Stream(input) => self.stream(input, &mut kit, part)?,
        }
        kits().push(kit);
        if let Some(limit) = self.request.limit {
            let mut finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
            let (counts, done, sum) = &mut *finished;
            counts[number] = Some(part.matches.count);
            while let Some(Some(count)) = counts.get(*done) {
                *sum += count;
                *done += 1;
            }
            if *sum > limit {
                self.is_enough.store(true, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    /// Searches a file that was small when it was looked at.
    fn file(&self, input: usize, kit: &mut Kit, part: &mut Part) -> Result<()> {
        let (name, path) = &self.inputs[input];
        let mut bytes = std::mem::take(&mut kit.bytes);
        bytes.clear();
        let file = File::open(path).map_err(io_error(name))?;
        (&file).take(STEP + 1).read_to_end(&mut bytes).map_err(io_error(name))?;
        drop(file);
        let has_rows = self.options.rows.is_some() && rows::is_rows(&bytes);
        let is_plain = bytes.len() as u64 <= STEP
            && compression(&bytes) == Compression::None
            && !(is_zip(&bytes) || is_tar(&bytes) || has_rows)
            && known_kind(&bytes).is_none();
        let n_bytes = bytes.len() as u64;
        let may_match = !is_plain || self.request.pattern.candidates(&bytes).from(0).is_some();
        kit.bytes = bytes;
        if !may_match {
            self.run.advance(n_bytes);
            return Ok(());
        }
        self.stream(input, kit, part)
    }

    fn range(
        &self,
        input: usize,
        index: u64,
        range: (u64, u64, u64),
        kit: &mut Kit,
        part: &mut Part,
    ) -> Result<()> {
        let (name, path) = &self.inputs[input];
        let file = File::open(path).map_err(io_error(name))?;
        let spare = std::mem::take(&mut kit.bytes);
        let (block, long) =
            read_range(&file, index, range, self.options.max_record, 0, spare).map_err(io_error(name))?;
        let mut lines = self.block(input, &self.names[input], &block, &mut kit.text, &mut part.matches);
        if let Some(long) = long {
            lines += self.block(input, &self.names[input], &long, &mut kit.text, &mut part.matches);
        }
        part.lines = Some((input, lines));
        kit.bytes = block.bytes;
        self.run.advance(range.1 - range.0);
        Ok(())
    }

    fn stream(&self, input: usize, kit: &mut Kit, part: &mut Part) -> Result<()> {
        let (name, path) = &self.inputs[input];
        let raw = Raw::open(path).map_err(io_error(name))?;
        let spare = std::mem::take(&mut kit.bytes);
        let mut opened =
            Opened::new(raw, ReadPosition::default(), self.options, self.format, name, Some(spare), self.run)
                .map_err(io_error(name))?;
        let mut entry_name: Option<Arc<str>> = None;
        while let Some(given) = opened.next(self.run).map_err(io_error(name))? {
            self.run.check()?;
            let file = match &given.entry {
                None => &self.names[input],
                Some(entry) => {
                    if entry_name.as_deref() != Some(entry.path.as_str()) {
                        entry_name = Some(Arc::from(entry.path.as_str()));
                    }
                    entry_name.as_ref().unwrap_or(&self.names[input])
                }
            };
            if let Some(skipped) = given.skipped.filter(|skipped| skipped.code == IgnoredCode::ArchiveNested)
            {
                let message = format!("{} not read: {}", counted(skipped.count), skipped.code.as_str());
                let reject = Reject::new(RejectCode::ArchiveEntry, "", message);
                part.matches.unsearched.push(Unsearched { file: Arc::clone(file), offset: 0, reject });
            }
            part.matches.unsearched.extend(damaged_rows(file, &given.block));
            self.block(input, file, &given.block, &mut kit.text, &mut part.matches);
            let consumed = opened.consumed();
            self.run.advance(consumed - opened.progress);
            opened.progress = consumed;
            kit.bytes = given.block.bytes;
        }
        Ok(())
    }

    /// Searches the records of a block; how many lines it has.
    fn block(
        &self,
        input: usize,
        file: &Arc<str>,
        block: &Block,
        text: &mut Text,
        matches: &mut Matches,
    ) -> u64 {
        let bytes = &block.bytes;
        if let Some(broken) = &block.broken {
            let (file, offset, reject) = (Arc::clone(file), broken.offset, broken.reject.clone());
            matches.unsearched.push(Unsearched { file, offset, reject });
        }
        let mut lines = Lines { bytes, at: 0, line: block.line.unwrap_or(1) };
        let mut candidates = self.request.pattern.candidates(bytes);
        let mut record = |range: Range<usize>, matches: &mut Matches| {
            let (start, end) = trimmed(bytes, range, block.offset);
            let record = &bytes[start..end];
            if self.request.count {
                matches.count += self.request.pattern.count(record, text);
                return;
            }
            self.request.pattern.each(record, text, |of| {
                let at = start + of.place.start;
                matches.count += 1;
                matches.hits.push(Hit {
                    input,
                    file: Arc::clone(file),
                    line: lines.of(at),
                    offset: block.offset + at as u64,
                    length: (of.place.end - of.place.start) as u64,
                    matched: shown(of.text, of.at.start, of.at.end.min(of.at.start + LONGEST)),
                    text: excerpt(of, self.request.context),
                });
            });
        };
        if block.document {
            if candidates.from(0).is_some() {
                record(0..bytes.len(), matches);
            }
        } else if let Some(elements) = &block.elements {
            for &(start, end, _) in elements {
                match candidates.from(start) {
                    None => break,
                    Some(at) if at < end => record(start..end, matches),
                    Some(_) => {}
                }
            }
        } else {
            let mut from = 0;
            while let Some(at) = candidates.from(from) {
                let start = memrchr(b'\n', &bytes[from..at]).map_or(from, |end| from + end + 1);
                let end = memchr(b'\n', &bytes[at..]).map_or(bytes.len(), |end| at + end);
                // what is said of damaged rows is no text of theirs
                if rows::damage(&bytes[start..end]).is_none() {
                    record(start..end, matches);
                }
                from = end + 1;
            }
        }
        if self.request.count || block.line.is_some() {
            return 0;
        }
        let open = bytes.last().is_some_and(|last| *last != b'\n');
        lines.of(bytes.len()) - 1 + u64::from(open) + block.extra_lines
    }
}

fn counted(entries: u64) -> String {
    if entries == 1 { "1 entry".to_owned() } else { format!("{entries} entries") }
}

/// The lines of a block that stand for rows which cannot be decoded.
fn damaged_rows(file: &Arc<str>, block: &Block) -> impl Iterator<Item = Unsearched> {
    memchr_iter(rows::DAMAGED[0], &block.bytes).filter_map(|at| {
        let begins = at == 0 || block.bytes[at - 1] == b'\n';
        let line = &block.bytes[at..];
        let line = &line[..memchr(b'\n', line).unwrap_or(line.len())];
        let reject = rows::damage(line).filter(|_| begins)?;
        Some(Unsearched { file: Arc::clone(file), offset: block.offset + at as u64, reject })
    })
}

/// Counts lines on the way through a block.
struct Lines<'a> {
    bytes: &'a [u8],
    at: usize,
    line: u64,
}

impl Lines<'_> {
    /// The line of a place, at or behind the last one.
    fn of(&mut self, at: usize) -> u64 {
        if at > self.at {
            self.line += memchr_iter(b'\n', &self.bytes[self.at..at]).count() as u64;
            self.at = at;
        }
        self.line
    }
}

/// A record without white space around it, and without a byte order mark at the start of the input.
fn trimmed(bytes: &[u8], mut range: Range<usize>, offset: u64) -> (usize, usize) {
    if range.start == 0 && offset == 0 {
        range.start += bom(bytes).min(range.end);
    }
    let record = &bytes[range.clone()];
    let inner = record.trim_ascii_start();
    let start = range.end - inner.len();
    (start, start + inner.trim_ascii_end().len())
}

/// A part of a text that begins and ends between characters.
fn shown(text: &[u8], mut from: usize, mut to: usize) -> String {
    let is_inside = |at: usize| text.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    while from > 0 && is_inside(from) {
        from -= 1;
    }
    while to > from && is_inside(to) {
        to -= 1;
    }
    String::from_utf8_lossy(&text[from..to]).into_owned()
}

/// A match with some characters before and behind it, of the same line of its text; `…` stands where a line goes on.
fn excerpt(of: &Match<'_>, context: usize) -> String {
    let (text, Range { start, end }) = (of.text, of.at.clone());
    let least = start.saturating_sub(LONGEST);
    let line_start = memrchr(b'\n', &text[least..start]).map(|at| least + at + 1);
    let before = shown(text, line_start.unwrap_or(least), start);
    let most = (end + LONGEST).min(text.len());
    let line_end = memchr(b'\n', &text[end..most]).map(|at| end + at);
    let behind = shown(text, end, line_end.unwrap_or(most));
    let (begins_before, ends_behind) =
        (line_start.is_none() && least > 0, line_end.is_none() && most < text.len());
    let skipped = before.chars().count().saturating_sub(context);
    let cut = end > start + LONGEST;
    let mut out = String::new();
    if skipped > 0 || begins_before {
        out.push('…');
    }
    out.extend(before.chars().skip(skipped));
    out.push_str(&shown(text, start, end.min(start + LONGEST)));
    if cut {
        out.push('…');
    } else {
        out.extend(behind.chars().take(context));
        if behind.chars().nth(context).is_some() || ends_behind {
            out.push('…');
        }
    }
    out
}
