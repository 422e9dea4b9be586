//! Whether sources hold as much as they state: what all parts of one say together.

use std::collections::{BTreeMap, BTreeSet};

use super::Gathered;
use crate::error::FindingCode;
use crate::importers::extent::{Counted, Extent, Note};

/// What the parts of a source say together.
#[derive(Debug, Default)]
struct Source {
    stated: BTreeSet<i64>,
    /// How much each part holds.
    parts: BTreeMap<u64, u32>,
    /// The trace that tells it.
    first: Option<u32>,
}

impl Source {
    fn n_held(&self) -> i64 {
        self.parts.values().map(|held| i64::from(*held)).sum()
    }

    fn differs(&self, counted: Counted) -> Option<Note> {
        let mut stated = self.stated.iter();
        let first = stated.next()?;
        if let Some(other) = stated.next() {
            let message = format!(
                "{} is {first} in one part of the source and {other} in another one",
                counted.statement
            );
            return Some(Note { code: FindingCode::SourceConflict, count: 1, message });
        }
        counted.differs(*first, self.n_held())
    }

    /// Whether a file is a source of its own beside others that state something else: it has several parts, or all.
    fn stands_alone(&self) -> bool {
        let stated: Vec<i64> = self.stated.iter().copied().collect();
        matches!(stated[..], [stated] if self.parts.len() > 1 || self.n_held() == stated)
    }
}

impl Gathered {
    /// Compares what sources state with what is there, and tells it with the first of their traces. `extents` come with
    /// the numbers of their files and traces.
    pub(super) fn settle_extents(&mut self, extents: impl Iterator<Item = (u32, Extent)>) {
        let mut sources: BTreeMap<(u32, u64, Counted), BTreeMap<u32, Source>> = BTreeMap::new();
        for (file, extent) in extents {
            let importer = self.planned[extent.trace as usize].importer;
            let files = sources.entry((importer, extent.source, extent.counted)).or_default();
            self.put(files.entry(file).or_default(), extent);
        }
        for ((_, _, counted), files) in sources {
            let stated: BTreeSet<i64> = files.values().flat_map(|file| &file.stated).copied().collect();
            let files: Vec<Source> = files.into_values().collect();
            let apart = stated.len() > 1 && files.iter().all(Source::stands_alone);
            let judged = if apart { files } else { vec![self.together(files)] };
            for source in judged {
                if let (Some(note), Some(trace)) = (source.differs(counted), source.first) {
                    self.note(trace, note);
                }
            }
        }
    }

    fn put(&self, source: &mut Source, extent: Extent) {
        source.stated.extend(extent.stated);
        let held = source.parts.entry(extent.part).or_default();
        *held = extent.held.max(*held);
        // One that another recording replaces is not written.
        if !self.set_aside.contains(&extent.trace) {
            source.first = self.first_of(source.first, Some(extent.trace));
        }
    }

    /// All parts, wherever they lie. One that lies in several files counts once.
    fn together(&self, files: Vec<Source>) -> Source {
        let mut all = Source::default();
        for file in files {
            all.stated.extend(file.stated);
            for (part, n_held) in file.parts {
                let held = all.parts.entry(part).or_default();
                *held = n_held.max(*held);
            }
            all.first = self.first_of(all.first, file.first);
        }
        all
    }

    /// The first of two traces by name, whatever the order in which they were read.
    fn first_of(&self, first: Option<u32>, second: Option<u32>) -> Option<u32> {
        [first, second].into_iter().flatten().min_by_key(|trace| self.name_of(*trace))
    }

    /// Keeps what is odd about a source until the trace is written that tells it. Of a code there is one.
    pub(super) fn note(&mut self, trace: u32, note: Note) {
        let notes = self.notes.entry(trace).or_default();
        match notes.iter_mut().find(|known| known.code == note.code) {
            Some(known) => {
                known.count = known.count.saturating_add(note.count);
                known.message = [&*known.message, "; ", &*note.message].concat();
            }
            None => notes.push(note),
        }
    }

    fn name_of(&self, trace: u32) -> &str {
        self.key(self.planned[trace as usize].key)
    }
}
