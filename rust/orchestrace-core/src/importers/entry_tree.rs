//! Conversations whose records name the one that they follow. A user may go on from any of them: the conversation is the
//! path that ends at the last record, and what is not on it was given up.

use hashbrown::HashMap;

use super::recording::Recording;
use crate::error::FindingCode;

/// A record, as far as it is linked to others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link<'v> {
    pub id: Option<&'v str>,
    pub parent: Parent<'v>,
    /// Whether the conversation can end with it: some records stand beside it.
    pub may_end: bool,
}

/// What a record follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parent<'v> {
    /// The record before it: it names none.
    Before,
    /// Nothing: it begins a conversation.
    Root,
    /// The record of this id.
    Of(&'v str),
}

/// What became of the links between records.
#[derive(Debug, Default)]
pub(super) struct Branches {
    /// Of each record whether it is on a branch that was given up.
    pub abandoned: Vec<bool>,
    /// Records that follow one which is not there.
    pub orphans: usize,
    /// Whether links close a cycle.
    pub is_cyclic: bool,
}

impl Branches {
    /// O(n).
    pub(super) fn of(links: &[Link<'_>]) -> Self {
        let mut later: HashMap<&str, usize> = HashMap::with_capacity(links.len());
        for (at, link) in links.iter().enumerate() {
            if let Some(id) = link.id {
                later.entry(id).or_insert(at);
            }
        }
        let mut branches = Self::default();
        // The record that each one follows. Nothing is concluded from a link to a record that is lost: its place is
        // behind the one before it.
        let mut parents = Vec::with_capacity(links.len());
        let (mut before, mut end) = (None, None);
        // Of several records of an id the last one before is followed.
        let mut earlier: HashMap<&str, usize> = HashMap::with_capacity(links.len());
        for (at, link) in links.iter().enumerate() {
            let parent = match link.parent {
                Parent::Root => None,
                Parent::Before => before,
                Parent::Of(id) => earlier.get(id).or_else(|| later.get(id)).copied().or_else(|| {
                    branches.orphans += 1;
                    before
                }),
            };
            parents.push(parent);
            before = Some(at);
            end = if link.may_end { before } else { end };
            if let Some(id) = link.id {
                earlier.insert(id, at);
            }
        }
        let mut on_path = vec![false; links.len()];
        let mut at = end;
        while let Some(here) = at {
            if std::mem::replace(&mut on_path[here], true) {
                branches.is_cyclic = true;
                break;
            }
            at = parents[here];
        }
        // Nobody can go on from a record without an id: it is where the one before it is.
        let mut is_abandoned = false;
        for (link, on_path) in links.iter().zip(on_path) {
            if link.id.is_some() && link.may_end {
                is_abandoned = !on_path;
            }
            branches.abandoned.push(is_abandoned);
        }
        if branches.is_cyclic {
            // Which records were given up cannot be known.
            branches.abandoned.fill(false);
        }
        branches
    }

    /// Tells which links lead nowhere. `records` is what the format calls its records, `key` what names the one before.
    pub(super) fn report(&self, records: &str, key: &str, recording: &mut Recording) {
        if self.is_cyclic {
            let message = format!("'{key}' closes a cycle; {records} count as those of a list");
            recording.finding(FindingCode::FieldIgnored, None, message);
        }
        if self.orphans > 0 {
            let message = format!(
                "{records} whose '{key}' names none of the session: {}; they follow the one before them",
                self.orphans
            );
            recording.finding(FindingCode::FieldIgnored, None, message);
        }
    }
}
