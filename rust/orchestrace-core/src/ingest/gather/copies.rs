//! Files that are copies. A file whose records say what those of another file say is no second run, whatever it is called
//! and however it is spelt.
//!
//! A format whose records have ids needs that for few files. Others name a run after its file, or say nothing of it at
//! all: of two equal runs in files that differ elsewhere nobody can tell whether one is a copy, and both count.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;

use hashbrown::HashMap;
use rayon::prelude::*;
use xxhash_rust::xxh3::xxh3_64;

use super::{Collected, ItemBlock};
use crate::error::{Reject, Result};
use crate::importers::items::{ItemColumns, NO_CONTEXT, Piece, WHERE, key_in_file};
use crate::importers::run_result::RunResult;
use crate::ingest::spill::{Place, Spill};
use crate::ingest::stem;
use crate::json::identity::{identity, mixed};
use crate::run::Run;

/// What records say together, whatever blocks they come in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FileSum {
    items: u64,
    /// Quotation marks of all items: files that say the same have as many, however they are spelt.
    quotes: u64,
    /// With the names of traces as they stand, without the name of the file in them, and without that of its stem: what
    /// a record takes from these is nothing that it says.
    sums: [u64; 3],
    /// What else the file has: records that are rejected or ignored. Of files that differ in these nobody can tell.
    rest: u64,
}

/// How texts are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum By {
    /// By their bytes.
    Bytes,
    /// By what they say, however that is spelt. This takes a tenth of the time of reading.
    Saying,
}

impl By {
    fn number(self, text: &str) -> u64 {
        match self {
            Self::Bytes => xxh3_64(text.as_bytes()),
            Self::Saying => identity(text),
        }
    }
}

impl FileSum {
    /// The sum of a block by the bytes of its texts.
    pub(super) fn of(block: &ItemBlock, path: &str) -> Self {
        let columns = &block.columns;
        let quotes = memchr::memchr_iter(b'"', columns.piece.text.as_bytes()).count() as u64;
        let rejected =
            columns.rejected.iter().map(|(place, reject, text)| rejected(reject, text, place.length));
        let quarantined =
            block.quarantine.iter().map(|row| self::rejected(&row.reject, &row.excerpt, row.position.length));
        let kinds: Vec<u64> = columns.kinds.names().map(|kind| xxh3_64(kind.as_bytes())).collect();
        let ignored = columns.ignored.iter().map(|kind| mixed(kinds[*kind as usize], 0));
        let rest = rejected.chain(quarantined).chain(ignored).fold(0, u64::wrapping_add);
        Self { quotes, rest, ..Self::by(By::Bytes, &keys_of(columns, path), &columns.piece, path) }
    }

    fn by(by: By, keys: &[[u64; 3]], piece: &Piece, path: &str) -> Self {
        let names = Names::of(path);
        let contexts = piece.contexts.iter().map(|(from, to)| match &piece.text[*from..*to] {
            context if context.starts_with(WHERE) => [0; 3],
            context => names.numbers(context, by),
        });
        let contexts: Vec<[u64; 3]> = contexts.collect();
        let mut sum = Self::default();
        for row in piece.rows.iter().filter(|row| !row.lost) {
            let key = keys[row.trace as usize];
            let context = if row.context == NO_CONTEXT { [0; 3] } else { contexts[row.context as usize] };
            let number = if by == By::Bytes { row.hash } else { by.number(piece.text(row)) };
            for ((sum, key), context) in sum.sums.iter_mut().zip(key).zip(context) {
                *sum = sum.wrapping_add(mixed(number, mixed(key, context)));
            }
            sum.items += 1;
        }
        sum
    }

    fn and(&mut self, other: Self) {
        self.items += other.items;
        self.quotes += other.quotes;
        self.rest = self.rest.wrapping_add(other.rest);
        self.sums.iter_mut().zip(other.sums).for_each(|(sum, other)| *sum = sum.wrapping_add(other));
    }
}

/// What a rejected record says: of JSON why it is rejected, else how it begins and how long it is.
fn rejected(reject: &Reject, begins: &str, length: u64) -> u64 {
    let reason = if reject.code.as_str().starts_with("field.") {
        [reject.code.as_str(), &reject.path, &reject.message].join("\n")
    } else {
        format!("{begins}\n{length}")
    };
    xxh3_64(reason.as_bytes())
}

/// What a text may have of the name of its file: nothing, the name without folders, and without its endings.
struct Names<'p> {
    path: &'p str,
    shorter: [Cow<'p, str>; 3],
}

impl<'p> Names<'p> {
    fn of(path: &'p str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        Self { path, shorter: ["".into(), name.into(), stem(Path::new(path)).into()] }
    }

    /// The numbers of a text without each of them.
    fn numbers(&self, text: &str, by: By) -> [u64; 3] {
        let text = without(text, self.path);
        self.shorter.each_ref().map(|name| by.number(&without(&text, name)))
    }
}

/// The numbers of the names of traces. What means something within the file is no name.
fn keys_of(columns: &ItemColumns, path: &str) -> Vec<[u64; 3]> {
    let names = Names::of(path);
    let keys = columns.keys.names().map(|key| match key_in_file(key) {
        (_, true) => [0; 3],
        (key, false) => names.numbers(key, By::Bytes),
    });
    keys.collect()
}

fn without<'t>(text: &'t str, name: &str) -> Cow<'t, str> {
    if !name.is_empty() && text.contains(name) { text.replace(name, "").into() } else { text.into() }
}

/// The order in which files that say the same are preferred: what lies deeper or has a longer name is the copy.
fn rank(path: &str) -> (usize, usize, &str) {
    (path.matches('/').count(), path.len(), path)
}

/// A file, as one or more blocks.
struct File<'b> {
    path: &'b str,
    source: usize,
    importer: &'static str,
    /// The file of the run that it records, by what that says.
    beside: u64,
    blocks: Range<usize>,
    sum: FileSum,
}

/// What is needed of a block to look at what its texts say.
struct Part {
    keys: Vec<[u64; 3]>,
    spilled: Option<Place>,
}

/// Which of the files are copies of others, in the order of their blocks. What lies beside a file of the run that it
/// records distinguishes it, too. What was spilled is read again where only that can tell.
pub(super) fn copies(
    blocks: &[Collected],
    spill: Option<&Spill>,
    results: &HashMap<Box<str>, RunResult>,
    run: &Run,
) -> Result<Vec<bool>> {
    let mut files: Vec<File<'_>> = Vec::new();
    for (at, Collected { block, path, importer, sum, .. }) in blocks.iter().enumerate() {
        match files.last_mut() {
            Some(last) if (last.path, last.source) == (path, block.source) => {
                last.blocks.end = at + 1;
                last.sum.and(*sum);
            }
            _ => {
                let beside = RunResult::of_path(results, path).map_or(0, |result| result.said);
                let importer = importer.info().name;
                files.push(File {
                    path,
                    source: block.source,
                    importer,
                    beside,
                    blocks: at..at + 1,
                    sum: *sum,
                });
            }
        }
    }
    let mut order: Vec<usize> = (0..files.len()).filter(|at| files[*at].sum.items > 0).collect();
    order.sort_by_key(|at| rank(files[*at].path));
    let mut copies = vec![false; files.len()];
    mark(&files, &order, &mut copies);
    // Files that are spelt otherwise have as many items and quotation marks.
    let alike =
        |file: &File<'_>| (file.importer, file.beside, file.sum.items, file.sum.quotes, file.sum.rest);
    let mut occurrences: HashMap<_, u32> = HashMap::new();
    order.retain(|at| !copies[*at]);
    for at in &order {
        *occurrences.entry(alike(&files[*at])).or_default() += 1;
    }
    order.retain(|at| occurrences[&alike(&files[*at])] > 1);
    run.check()?;
    let part = |collected: &'_ Collected| Part {
        keys: keys_of(&collected.block.columns, &collected.path),
        spilled: collected.spilled,
    };
    let parts = order.iter().map(|at| {
        let blocks = blocks[files[*at].blocks.clone()].iter();
        blocks.map(|collected| (part(collected), &collected.block.columns.piece, &*collected.path)).collect()
    });
    let parts: Vec<Vec<(Part, &Piece, &str)>> = parts.collect();
    let sum_of = |blocks: Vec<(Part, &Piece, &str)>| -> Result<FileSum> {
        let mut sum_of_file = FileSum::default();
        for (Part { keys, spilled }, piece, path) in blocks {
            let read = match (spilled, spill) {
                (Some(place), Some(spill)) => Some(spill.read(place)?),
                _ => None,
            };
            sum_of_file.and(FileSum::by(By::Saying, &keys, read.as_ref().unwrap_or(piece), path));
        }
        Ok(sum_of_file)
    };
    let sums: Vec<FileSum> =
        run.pool().install(|| parts.into_par_iter().map(sum_of).collect::<Result<_>>())?;
    order.iter().zip(sums).for_each(|(at, sum)| files[*at].sum.sums = sum.sums);
    mark(&files, &order, &mut copies);
    Ok(copies)
}

/// Marks files that say what one before them in order says.
fn mark(files: &[File<'_>], order: &[usize], copies: &mut [bool]) {
    let mut seen: HashSet<(usize, &str, u64, [u64; 3])> = HashSet::new();
    for &at in order {
        let File { importer, beside, sum: FileSum { items, sums, rest, .. }, .. } = &files[at];
        for (kind, sum) in sums.iter().enumerate() {
            copies[at] |= !seen.insert((kind, importer, *beside, [*items, *sum, *rest]));
        }
    }
}
