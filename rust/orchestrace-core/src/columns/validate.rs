//! Checks beyond the schema: unique event ids per trace, and edges between existing events.

// Part of the parser's short ways, whose results stay in registers only if nothing is called (measured).
#![allow(clippy::inline_always)]

use std::hash::BuildHasher;

use arrow_array::builder::make_view;
use foldhash::quality::RandomState;

use super::column::TextColumn;
use crate::json::Str;

/// Ids of one trace's events to their positions. The table is reused from trace to trace; it is keyed
/// by the string view, which for ids of up to twelve bytes is the id itself.
#[derive(Debug)]
pub struct IdMap {
    slots: Vec<u32>,
    mask: usize,
    first: usize,
    hasher: RandomState,
    secret: [u64; 2],
}

impl Default for IdMap {
    fn default() -> Self {
        let hasher = RandomState::default();
        let secret = [hasher.hash_one(0_u64), hasher.hash_one(1_u64)];
        Self { slots: Vec::new(), mask: 0, first: 0, hasher, secret }
    }
}

impl IdMap {
    /// Takes the ids from row `first` of `ids` on; the position of the first id that repeats an earlier one.
    pub fn build(&mut self, ids: &TextColumn, first: usize) -> Result<(), (u32, u32)> {
        let views = ids.views(first);
        let size = (views.len() * 4).next_power_of_two().max(16);
        self.slots.clear();
        self.slots.resize(size, 0);
        self.mask = size - 1;
        self.first = first;
        for (position, view) in views.iter().enumerate() {
            let bytes = view.to_le_bytes();
            let id = ids.bytes(&bytes);
            let mut slot = self.slot(*view, id);
            while let Some(earlier) = self.slots[slot].checked_sub(1) {
                if same(ids, views[earlier as usize], *view, id) {
                    return Err((earlier, position as u32));
                }
                slot = (slot + 1) & self.mask;
            }
            self.slots[slot] = position as u32 + 1;
        }
        Ok(())
    }

    /// Position of an id.
    #[must_use]
    pub fn find(&self, ids: &TextColumn, id: &str) -> Option<u32> {
        self.position(ids, make_view(id.as_bytes(), 0, 0), id.as_bytes())
    }

    /// Position of an id as it stands in a record.
    #[inline(always)]
    #[must_use]
    pub fn find_str(&self, ids: &TextColumn, id: &Str<'_>, scratch: &mut String) -> Option<u32> {
        if id.len() > 12 || id.is_escaped() {
            return self.find(ids, id.text(scratch));
        }
        // The view is the id, and is all that is compared.
        let view = id.len() as u128 | id.head() << 32;
        let views = ids.views(self.first);
        let mut slot = self.slot(view, &[]);
        while let Some(position) = self.slots[slot].checked_sub(1) {
            if views[position as usize] == view {
                return Some(position);
            }
            slot = (slot + 1) & self.mask;
        }
        None
    }

    fn position(&self, ids: &TextColumn, view: u128, id: &[u8]) -> Option<u32> {
        let views = ids.views(self.first);
        let mut slot = self.slot(view, id);
        while let Some(position) = self.slots[slot].checked_sub(1) {
            if same(ids, views[position as usize], view, id) {
                return Some(position);
            }
            slot = (slot + 1) & self.mask;
        }
        None
    }

    #[inline(always)]
    fn slot(&self, view: u128, id: &[u8]) -> usize {
        // Up to twelve bytes the view is the id: one multiplication with a secret of the process mixes it.
        if view as u32 <= 12 {
            let (low, high) = (view as u64 ^ self.secret[0], (view >> 64) as u64 ^ self.secret[1]);
            let product = u128::from(low) * u128::from(high);
            return (product as u64 ^ (product >> 64) as u64) as usize & self.mask;
        }
        self.hasher.hash_one(id) as usize & self.mask
    }
}

#[inline]
fn same(ids: &TextColumn, stored: u128, view: u128, id: &[u8]) -> bool {
    // Length and the first four bytes are in the low half of every view.
    stored as u64 == view as u64
        && (if id.len() <= 12 { stored == view } else { ids.bytes(&stored.to_le_bytes()) == id })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_any_length_resolve() {
        let mut ids = TextColumn::default();
        ids.set(0, "of another trace");
        for (row, id) in ["e1", "", "exactly12byt", "a much longer identifier", "a much longer identifieR"]
            .iter()
            .enumerate()
        {
            ids.set(row + 1, id);
        }
        let mut map = IdMap::default();
        assert_eq!(map.build(&ids, 1), Ok(()));
        assert_eq!(map.find(&ids, "a much longer identifieR"), Some(4));
        assert_eq!(map.find(&ids, "exactly12byt"), Some(2));
        assert_eq!(map.find(&ids, ""), Some(1));
        assert_eq!(map.find(&ids, "of another trace"), None);
        ids.set(6, "e1");
        assert_eq!(map.build(&ids, 1), Err((0, 5)));
    }

    /// Slots that are looked at to find every id: its own and those before it.
    fn probes(map: &IdMap, ids: &TextColumn, chosen: &[String]) -> usize {
        let steps = |(position, id): (usize, &String)| {
            let view = arrow_array::builder::make_view(id.as_bytes(), 0, 0);
            let mut slot = map.slot(view, id.as_bytes());
            let mut steps = 1;
            while map.slots[slot] != position as u32 + 1 {
                slot = (slot + 1) & map.mask;
                steps += 1;
            }
            assert_eq!(map.find(ids, id), Some(position as u32));
            steps
        };
        chosen.iter().enumerate().map(steps).sum()
    }

    #[test]
    fn ids_that_collide_in_one_map_are_spread_in_another() {
        // Short ids are hashed as their view, long ones as text. An attacker who knew the key of one map could
        // choose these; the key of every map is drawn anew.
        for tail in ["", " and more than twelve bytes"] {
            let key = IdMap { mask: (1 << 12) - 1, ..IdMap::default() };
            let wanted = |id: &String| {
                key.slot(arrow_array::builder::make_view(id.as_bytes(), 0, 0), id.as_bytes()) == 7
            };
            let chosen: Vec<String> =
                (0..).map(|i| format!("e{i}{tail}")).filter(wanted).take(1_000).collect();
            let mut ids = TextColumn::default();
            for (row, id) in chosen.iter().enumerate() {
                ids.set(row, id);
            }
            let mut map = IdMap { hasher: key.hasher.clone(), secret: key.secret, ..IdMap::default() };
            assert_eq!(map.build(&ids, 0), Ok(()));
            assert_eq!(map.mask, key.mask);
            assert_eq!(probes(&map, &ids, &chosen), 1_000 * 1_001 / 2, "the ids are ill chosen");
            let mut fresh = IdMap::default();
            assert_eq!(fresh.build(&ids, 0), Ok(()));
            assert!(probes(&fresh, &ids, &chosen) < 5_000, "{}", probes(&fresh, &ids, &chosen));
        }
    }
}
