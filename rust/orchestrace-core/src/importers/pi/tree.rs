//! Branches of a session. From version 2 on every entry names the one that it follows, and a user may go on from any of
//! them: the conversation is the path that ends at the last entry, and what is not on it was given up.

use hashbrown::HashMap;

use super::entry::{Entry, Parent};

/// What became of the links between entries.
#[derive(Debug, Default)]
pub(super) struct Branches {
    /// Of each entry whether it is on a branch that was given up.
    pub abandoned: Vec<bool>,
    /// Entries that follow one which is not there.
    pub orphans: usize,
    /// Whether links close a cycle.
    pub is_cyclic: bool,
}

impl Branches {
    /// O(n).
    pub(super) fn of(entries: &[Entry<'_>]) -> Self {
        let mut later: HashMap<&str, usize> = HashMap::with_capacity(entries.len());
        for (at, entry) in entries.iter().enumerate() {
            if let Some(id) = entry.id {
                later.entry(id).or_insert(at);
            }
        }
        let mut branches = Self::default();
        // The entry that each one follows. Nothing is concluded from a link to an entry that is lost: its place is
        // behind the one before it.
        let mut parents = Vec::with_capacity(entries.len());
        let mut before = None;
        // Of several entries of an id the last one before is followed.
        let mut earlier: HashMap<&str, usize> = HashMap::with_capacity(entries.len());
        for (at, entry) in entries.iter().enumerate() {
            let parent = match entry.parent {
                Parent::Root => None,
                Parent::Before => before,
                Parent::Of(id) => earlier.get(id).or_else(|| later.get(id)).copied().or_else(|| {
                    branches.orphans += 1;
                    before
                }),
            };
            parents.push(parent);
            before = Some(at);
            if let Some(id) = entry.id {
                earlier.insert(id, at);
            }
        }
        let mut on_path = vec![false; entries.len()];
        let mut at = before;
        while let Some(here) = at {
            if std::mem::replace(&mut on_path[here], true) {
                branches.is_cyclic = true;
                break;
            }
            at = parents[here];
        }
        // Nobody can go on from an entry without an id: it is where the one before it is.
        let mut is_abandoned = false;
        for (entry, on_path) in entries.iter().zip(on_path) {
            if entry.id.is_some() {
                is_abandoned = !on_path;
            }
            branches.abandoned.push(is_abandoned);
        }
        if branches.is_cyclic {
            // Which entries were given up cannot be known.
            branches.abandoned.fill(false);
        }
        branches
    }
}
