//! Whether sources hold as much as they state: what all parts of one say together.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::Gathered;
use crate::error::FindingCode;
use crate::importers::extent::{Counted, Extent, Note};

/// What the parts of a source say together.
#[derive(Debug, Default)]
struct Source {
    stated: BTreeSet<i64>,
    /// How much each part holds.
    parts: HashMap<u64, u32>,
    /// The trace that tells it.
    first: Option<u32>,
}

impl Source {
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
        counted.differs(*first, self.parts.values().map(|held| i64::from(*held)).sum())
    }
}

impl Gathered {
    /// Compares what sources state with what is there, and tells it with the first of their traces. `extents` come with
    /// the numbers of their traces.
    pub(super) fn settle_extents(&mut self, extents: impl Iterator<Item = Extent>) {
        let mut sources: BTreeMap<(u32, u64, Counted), Source> = BTreeMap::new();
        for extent in extents {
            let importer = self.planned[extent.trace as usize].importer;
            let source = sources.entry((importer, extent.source, extent.counted)).or_default();
            source.stated.extend(extent.stated);
            let held = source.parts.entry(extent.part).or_default();
            *held = extent.held.max(*held);
            // The first by name, whatever the order of the parts; one that another recording replaces is not written.
            let is_first = source.first.is_none_or(|first| self.name_of(extent.trace) < self.name_of(first));
            if is_first && !self.set_aside.contains(&extent.trace) {
                source.first = Some(extent.trace);
            }
        }
        for ((_, _, counted), source) in sources {
            if let (Some(note), Some(trace)) = (source.differs(counted), source.first) {
                self.note(trace, note);
            }
        }
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
