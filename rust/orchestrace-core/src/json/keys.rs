//! Lookup of expected object keys by their first bytes and length.

// Part of the parser's short ways, whose results stay in registers only if nothing is called (measured).
#![allow(clippy::inline_always)]

use super::{Cursor, Parsed};

/// One of 63 numbers for a key, by its first bytes and its length.
#[inline(always)]
const fn slot(head: u32, len: usize) -> u32 {
    let slot = (head ^ (len as u32) << 13).wrapping_mul(0x9E37_79B1) >> 26;
    if slot < 62 { slot } else { 62 }
}

/// The [`slot`] of a key as a bit.
#[inline(always)]
pub(super) const fn mark(head: u32, len: usize) -> u64 {
    1 << slot(head, len)
}

/// First four bytes of a key, zeros where it is shorter.
#[inline(always)]
pub(super) const fn head(key: &str) -> u32 {
    let (bytes, mut head, mut i) = (key.as_bytes(), 0, 0);
    while i < 4 && i < bytes.len() {
        head |= (bytes[i] as u32) << (8 * i);
        i += 1;
    }
    head
}

/// Keys that are looked up together.
#[derive(Debug)]
pub struct Keys<const N: usize> {
    all: [&'static str; N],
    heads: [u32; N],
    /// Which of them have a [`slot`], by their bits.
    slots: [u32; 64],
}

impl<const N: usize> Keys<N> {
    const FEW: () = assert!(N <= 32, "a slot has a bit for each of 32 keys");

    /// Of at most 32, which differ.
    #[must_use]
    pub const fn new(all: [&'static str; N]) -> Self {
        let () = Self::FEW;
        let (mut heads, mut slots, mut i) = ([0; N], [0; 64], 0);
        while i < N {
            heads[i] = head(all[i]);
            slots[slot(heads[i], all[i].len()) as usize] |= 1 << i;
            i += 1;
        }
        Self { all, heads, slots }
    }

    /// All of them, in order.
    #[cfg(test)]
    pub(crate) const fn all(&self) -> &[&'static str; N] {
        &self.all
    }

    /// The number of a key, if it is one of them.
    #[must_use]
    pub fn number(&self, key: &str) -> Option<usize> {
        self.find(head(key), key.as_bytes())
    }

    /// The same by its first bytes and all of them.
    #[inline(always)]
    pub(super) fn find(&self, head: u32, key: &[u8]) -> Option<usize> {
        let mut left = self.slots[slot(head, key.len()) as usize];
        loop {
            let number = left.trailing_zeros() as usize;
            if *self.heads.get(number)? == head && self.all[number].as_bytes() == key {
                return Some(number);
            }
            left &= left - 1;
        }
    }

    /// Reads a key and its colon: the number of it, however it is spelt.
    #[inline(always)]
    pub fn read(&self, cursor: &mut Cursor<'_>) -> Parsed<Option<usize>> {
        match cursor.plain_key() {
            Some((start, len, head)) => {
                Ok(self.find(head, cursor.bytes.get(start..start + len).unwrap_or_default()))
            }
            None => self.read_any(cursor),
        }
    }

    #[cold]
    fn read_any(&self, cursor: &mut Cursor<'_>) -> Parsed<Option<usize>> {
        let mut text = String::new();
        cursor.key().map(|key| self.number(key.text(&mut text)))
    }
}

/// Keys, and what each of them means.
///
/// ```
/// use orchestrace_core::json::{Cursor, Limits};
/// use orchestrace_core::json::keys::Meanings;
///
/// static AGES: Meanings<u32, 2> = Meanings::new([("Ada", 36), ("Emmy", 53)]);
/// let limits = Limits { depth: 128, string: 1 << 20, lenient: true };
/// let mut cursor = Cursor::new(r#"{"\u0041da": 1, "Eve": 2}"#, limits);
/// assert!(cursor.open_object().unwrap());
/// assert_eq!(AGES.read(&mut cursor).unwrap(), Some(36));
/// cursor.skip().unwrap();
/// assert!(cursor.more_object().unwrap());
/// assert_eq!(AGES.read(&mut cursor).unwrap(), None);
/// ```
#[derive(Debug)]
pub struct Meanings<T: 'static, const N: usize> {
    keys: Keys<N>,
    means: [T; N],
}

impl<T: Copy, const N: usize> Meanings<T, N> {
    /// Of at most 32, which differ.
    #[must_use]
    pub const fn new(all: [(&'static str, T); N]) -> Self {
        let (mut keys, mut means, mut i) = ([""; N], [all[0].1; N], 0);
        while i < N {
            (keys[i], means[i]) = all[i];
            i += 1;
        }
        Self { keys: Keys::new(keys), means }
    }

    /// What a key means.
    #[cfg(test)]
    pub(crate) fn of(&self, key: &str) -> Option<T> {
        self.keys.number(key).map(|number| self.means[number])
    }

    /// Reads a key and its colon: what it means, however it is spelt.
    #[inline(always)]
    pub fn read(&self, cursor: &mut Cursor<'_>) -> Parsed<Option<T>> {
        Ok(self.keys.read(cursor)?.map(|number| self.means[number]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Limits;

    #[test]
    fn keys_are_found_however_they_are_spelt() {
        static KEYS: Keys<6> = Keys::new(["type", "typo", "message", "messages", "", "a\nb"]);
        let limits = Limits { depth: 8, string: 1000, lenient: true };
        let text = r#"{"messages":1,"mess\u0061ge":2,"typ":3,"":4,"a\nb":5,"typo" : 6,"message_of_more_than_forty_eight_bytes_in_a_row":7}"#;
        let mut cursor = Cursor::new(text, limits);
        let (mut numbers, mut more) = (Vec::new(), cursor.open_object().unwrap());
        while more {
            numbers.push(KEYS.read(&mut cursor).unwrap());
            cursor.skip().unwrap();
            more = cursor.more_object().unwrap();
        }
        assert_eq!(numbers, [Some(3), Some(2), None, Some(4), Some(5), Some(1), None]);
        for (number, key) in KEYS.all().iter().enumerate() {
            assert_eq!(KEYS.number(key), Some(number));
        }
        assert_eq!(KEYS.number("mess"), None);
    }

    #[test]
    fn many_keys_share_a_slot() {
        static KEYS: Keys<32> = Keys::new([
            "k00", "k01", "k02", "k03", "k04", "k05", "k06", "k07", "k08", "k09", "k10", "k11", "k12", "k13",
            "k14", "k15", "same0", "same1", "same2", "same3", "same4", "same5", "same6", "same7", "same8",
            "same9", "sameA", "sameB", "sameC", "sameD", "sameE", "sameF",
        ]);
        for (number, key) in KEYS.all().iter().enumerate() {
            assert_eq!(KEYS.number(key), Some(number));
        }
        assert_eq!(KEYS.number("sameG"), None);
    }
}
