//! Records that come twice under one id: each counts once, and is of the stream that is nearest to who made it, whichever
//! file is read first.

use hashbrown::hash_map::Entry;

use super::record::{Code, Fields, Reader, Records, digest};
use crate::importers::TraceItems;

/// What is known of the first content of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    None,
    /// Item and place in it, and the line that it is.
    At(u32, (u32, u32), u32),
    /// It is among those that were hashed.
    Hashed,
}

impl Reader<'_> {
    /// The line with this id and content that was there before, if there is one; `place` is that of this one. A content
    /// is hashed once, and only where its id comes again.
    pub(super) fn repeated(
        &mut self,
        items: &TraceItems<'_>,
        uuid: Code,
        (item, span): (u32, (u32, u32)),
        place: u32,
    ) -> Option<u32> {
        if uuid == 0 {
            return None;
        }
        let at = uuid as usize;
        if at >= self.first.len() {
            self.first.resize(at + 1, Content::None);
        }
        match self.first[at] {
            Content::None => {
                self.first[at] = Content::At(item, span, place);
                return None;
            }
            Content::At(first, span, line) => {
                self.contents.insert((uuid, digest(items, first, span)), line);
                self.first[at] = Content::Hashed;
            }
            Content::Hashed => {}
        }
        match self.contents.entry((uuid, digest(items, item, span))) {
            Entry::Occupied(known) => Some(*known.get()),
            Entry::Vacant(new) => {
                new.insert(place);
                None
            }
        }
    }

    /// Whether a record is nearer to who made it than the line that it repeats. The file of an agent may begin with the
    /// records of another stream: they are of that one, whichever file is read first.
    pub(super) fn is_nearer(&self, records: &Records, record: &Fields<'_>, uuid: Code, earlier: u32) -> bool {
        let Some(earlier) = records.lines.get(earlier as usize).filter(|line| line.uuid == uuid) else {
            return false;
        };
        let is_side = record.is_sidechain.bool() == Some(true);
        let agent = record.agent.str().unwrap_or_else(|| records.names.name(self.agent));
        let agent = if is_side { agent } else { "" };
        let name = if earlier.sidechain { records.names.name(earlier.agent) } else { "" };
        (is_side, record.forked.exists(), agent) < (earlier.sidechain, earlier.forked, name)
    }

    /// Notes the agent whose file begins with a record of another stream.
    pub(super) fn begins_with(
        &self,
        records: &mut Records,
        record: &Fields<'_>,
        known: u32,
        is_nearer: bool,
    ) {
        let is_side = record.is_sidechain.bool() == Some(true);
        let agent = record.agent.str().map_or(self.agent, |agent| records.code(agent));
        let now = if is_side { agent } else { 0 };
        let Some(known) = records.lines.get(known as usize) else { return };
        let before = if known.sidechain { known.agent } else { 0 };
        let copy = if is_nearer { before } else { now };
        if copy != 0 && before != now {
            records.forks.insert(copy);
        }
    }
}
