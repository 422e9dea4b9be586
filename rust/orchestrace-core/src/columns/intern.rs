//! Codes of names: one small dictionary per vocabulary and block, merged later in block order.
//!
//! Codes are handed out in order of first appearance, so they do not depend on how many threads
//! worked or how the input was cut.

// Part of the parser's short ways, whose results stay in registers only if nothing is called (measured).
#![allow(clippy::inline_always)]

use std::hash::BuildHasher;

use foldhash::quality::RandomState;
use hashbrown::HashTable;

use crate::json::Str;

/// A set of names, each with the code of its first appearance.
#[derive(Debug, Default, Clone)]
pub struct Interner {
    table: HashTable<u32>,
    hasher: RandomState,
    text: String,
    /// End of each name in `text`.
    ends: Vec<usize>,
}

impl Interner {
    /// Number of names.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no name.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Name of a code.
    #[must_use]
    #[inline]
    pub fn name(&self, code: u32) -> &str {
        name_at(&self.text, &self.ends, code)
    }

    /// Makes room for so many names more, and so many bytes of them.
    pub fn reserve(&mut self, names: usize, bytes: usize) {
        let Self { table, hasher, text, ends } = self;
        table.reserve(names, |&c| hasher.hash_one(name_at(text, ends, c)));
        text.reserve(bytes);
        ends.reserve(names);
    }

    /// Code of a name, new if it has not been seen.
    #[inline]
    pub fn code(&mut self, name: &str) -> u32 {
        let Self { table, hasher, text, ends } = self;
        let hash = hasher.hash_one(name);
        if let Some(&code) = table.find(hash, |&c| name_at(text, ends, c) == name) {
            return code;
        }
        let code = ends.len() as u32;
        text.push_str(name);
        ends.push(text.len());
        table.insert_unique(hash, code, |&c| hasher.hash_one(name_at(text, ends, c)));
        code
    }

    /// Code of a name that has been seen.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<u32> {
        let hash = self.hasher.hash_one(name);
        self.table.find(hash, |&c| self.name(c) == name).copied()
    }

    /// All names in code order.
    #[must_use]
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.ends.len()).map(|code| self.name(code as u32))
    }

    /// Forgets the names from `len` on: those of a record that was rejected. Costs what these names cost to take
    /// in, however many others there are: after one record with a million names a million records may fail.
    pub fn truncate(&mut self, len: usize) {
        let Self { table, hasher, text, ends } = self;
        for code in len..ends.len() {
            let hash = hasher.hash_one(name_at(text, ends, code as u32));
            if let Ok(entry) = table.find_entry(hash, |c| *c as usize == code) {
                entry.remove();
            }
        }
        ends.truncate(len);
        text.truncate(ends.last().copied().unwrap_or(0));
    }

    /// Bytes of all names.
    #[must_use]
    pub fn text_bytes(&self) -> usize {
        self.text.len()
    }

    /// Bytes held.
    #[must_use]
    pub fn nbytes(&self) -> usize {
        self.text.capacity() + self.ends.capacity() * 8 + self.table.capacity() * 5
    }
}

/// A cache of the codes of recent short names: a trace names the same few agents, roles
/// and tools over and over, and for up to sixteen bytes comparing head and length compares the names.
#[derive(Debug)]
pub struct Recent {
    entries: [(u128, usize, u32); Recent::SIZE],
}

impl Default for Recent {
    fn default() -> Self {
        Self { entries: [Self::EMPTY; Self::SIZE] }
    }
}

impl Recent {
    const SIZE: usize = 128;
    /// No name has this length and is looked up here.
    const EMPTY: (u128, usize, u32) = (0, usize::MAX, 0);

    /// The code of a name in `names`, new if it has not been seen.
    #[inline(always)]
    pub fn code(&mut self, names: &mut Interner, name: &Str<'_>, scratch: &mut String) -> u32 {
        let (head, len) = (name.head(), name.len());
        if len > 16 || name.is_escaped() {
            return names.code(name.text(scratch));
        }
        let mixed = (head as u64 ^ (head >> 64) as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let entry = &mut self.entries[(mixed >> 57) as usize % Self::SIZE];
        if entry.0 != head || entry.1 != len {
            *entry = (head, len, names.code(name.raw()));
        }
        entry.2
    }

    /// Forgets everything: codes were taken back, or the names are others now.
    pub fn forget(&mut self) {
        self.entries.fill(Self::EMPTY);
    }
}

#[inline]
fn name_at<'a>(text: &'a str, ends: &[usize], code: u32) -> &'a str {
    let code = code as usize;
    let start = if code == 0 { 0 } else { ends[code - 1] };
    &text[start..ends[code]]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_follow_first_appearance() {
        let mut names = Interner::default();
        assert_eq!(["b", "a", "b", ""].map(|n| names.code(n)), [0, 1, 0, 2]);
        assert_eq!(names.names().collect::<Vec<_>>(), ["b", "a", ""]);
        assert_eq!(names.find("a"), Some(1));
        names.truncate(1);
        assert_eq!(names.find("a"), None);
        assert_eq!(names.code("c"), 1);
        assert_eq!(names.name(1), "c");
    }

    #[test]
    fn forgetting_costs_what_is_forgotten() {
        let mut names = Interner::default();
        for i in 0..1_000_000 {
            names.code(&format!("n{i}"));
        }
        // With a walk over the table for each it would be 10^12 steps, which nobody waits for.
        for i in 0..1_000_000_u32 {
            assert_eq!(names.code(if i % 2 == 0 { "even" } else { "odd" }), 1_000_000);
            names.truncate(1_000_000);
        }
        assert_eq!((names.find("n999999"), names.find("odd"), names.len()), (Some(999_999), None, 1_000_000));
        names.truncate(0);
        assert!(names.is_empty() && names.find("n0").is_none() && names.text_bytes() == 0);
    }

    #[test]
    fn two_tables_never_hash_alike() {
        // The hash has a key that is drawn anew for each table: names that collide cannot be chosen beforehand.
        let (one, two) = (Interner::default(), Interner::default());
        let alike = (0..1_000).filter(|i| {
            let name = format!("n{i}");
            one.hasher.hash_one(name.as_str()) == two.hasher.hash_one(name.as_str())
        });
        assert_eq!(alike.count(), 0);
    }
}
