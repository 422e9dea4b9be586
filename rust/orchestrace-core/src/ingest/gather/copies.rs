//! Files that are copies. A file whose records say what those of another file say is no second run, whatever it is called
//! and however it is spelt.
//!
//! A format whose records have ids needs that for few files. Others name a run after its file, or say nothing of it at
//! all: of two equal runs in files that differ elsewhere nobody can tell whether one is a copy, and both count.

use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;

use hashbrown::HashMap;
use xxhash_rust::xxh3::xxh3_64;

use super::Collected;
use crate::importers::items::{ItemColumns, NO_CONTEXT, RunResult, WHERE, key_in_file};
use crate::ingest::stem;
use crate::json::identity::{identity, mixed};

/// What records say together, whatever blocks they come in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FileSum {
    items: u64,
    /// With the names of traces as they stand, without the name of the file in them, and without that of its stem: what
    /// a record takes from these is nothing that it says.
    sums: [u64; 3],
}

impl FileSum {
    pub(super) fn of(columns: &ItemColumns, path: &str) -> Self {
        let piece = &columns.piece;
        let name = path.rsplit('/').next().unwrap_or(path);
        let stem = stem(Path::new(path));
        let said = |text: &str, is_json: bool| {
            let text = without(text, path);
            ["", name, &stem].map(|name| {
                let text = without(&text, name);
                if is_json { identity(&text) } else { xxh3_64(text.as_bytes()) }
            })
        };
        // What means something within the file is no name.
        let keys = columns.keys.names().map(|key| match key_in_file(key) {
            (_, true) => [0; 3],
            (key, false) => said(key, false),
        });
        let keys: Vec<[u64; 3]> = keys.collect();
        let contexts = piece.contexts.iter().map(|(from, to)| match &piece.text[*from..*to] {
            context if context.starts_with(WHERE) => [0; 3],
            context => said(context, true),
        });
        let contexts: Vec<[u64; 3]> = contexts.collect();
        let mut sum = Self::default();
        for row in piece.rows.iter().filter(|row| !row.lost) {
            let of_key = keys[row.trace as usize];
            let context = if row.context == NO_CONTEXT { [0; 3] } else { contexts[row.context as usize] };
            for ((sum, key), context) in sum.sums.iter_mut().zip(of_key).zip(context) {
                *sum = sum.wrapping_add(mixed(row.identity, mixed(key, context)));
            }
            sum.items += 1;
        }
        sum
    }

    fn and(&mut self, other: Self) {
        self.items += other.items;
        self.sums.iter_mut().zip(other.sums).for_each(|(sum, other)| *sum = sum.wrapping_add(other));
    }
}

fn without<'t>(text: &'t str, name: &str) -> Cow<'t, str> {
    if !name.is_empty() && text.contains(name) { text.replace(name, "").into() } else { text.into() }
}

/// The order in which files that say the same are preferred: what lies deeper or has a longer name is the copy.
fn rank(path: &str) -> (usize, usize, &str) {
    (path.matches('/').count(), path.len(), path)
}

/// Which of the files are copies of others, in the order of their blocks. What lies beside a file of the run that it
/// records distinguishes it, too.
pub(super) fn copies(blocks: &[Collected], results: &HashMap<Box<str>, RunResult>) -> Vec<bool> {
    let mut files: Vec<(&str, usize, &str, FileSum)> = Vec::new();
    for Collected { block, path, importer, sum, .. } in blocks {
        match files.last_mut() {
            Some((last, source, _, known)) if (*last, *source) == (path, block.source) => known.and(*sum),
            _ => files.push((path, block.source, importer.info().name, *sum)),
        }
    }
    let mut order: Vec<usize> = (0..files.len()).filter(|at| files[*at].3.items > 0).collect();
    order.sort_by_key(|at| rank(files[*at].0));
    let mut known: HashSet<(usize, &str, u64, u64, u64)> = HashSet::new();
    let mut copies = vec![false; files.len()];
    for at in order {
        let (path, _, importer, FileSum { items, sums }) = files[at];
        let beside = RunResult::of_path(results, path).map_or(0, |result| result.said);
        for (kind, sum) in sums.into_iter().enumerate() {
            copies[at] |= !known.insert((kind, importer, beside, items, sum));
        }
    }
    copies
}
