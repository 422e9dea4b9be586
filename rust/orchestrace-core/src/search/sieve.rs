//! Places of bytes beyond which no record can match: where a text stands that every match has, or an escape that may hide
//! one of its characters.

use std::collections::BTreeSet;

use memchr::memmem::Finder;
use regex::bytes::{Regex, RegexBuilder};

use super::text::unit;
use crate::error::{Error, Result};

/// What is looked for before any record is.
#[derive(Debug)]
pub(super) struct Sieve {
    texts: Texts,
    /// How escapes of the characters of the texts begin, and the UTF-16 units that they may have.
    escape: Finder<'static>,
    units: BTreeSet<u16>,
}

#[derive(Debug)]
enum Texts {
    One(Box<Finder<'static>>),
    Many(Regex),
}

impl Sieve {
    pub(super) fn new(texts: &[String]) -> Result<Self> {
        let units: BTreeSet<u16> = texts.iter().flat_map(|text| text.encode_utf16()).collect();
        let small = units.iter().all(|unit| *unit < 256);
        let escape = Finder::new(if small { "\\u00" } else { "\\u" }).into_owned();
        let texts = match texts {
            [one] => Texts::One(Box::new(Finder::new(one).into_owned())),
            many => {
                let spelled: Vec<String> = many.iter().map(|text| regex::escape(text)).collect();
                let regex = RegexBuilder::new(&spelled.join("|")).build();
                Texts::Many(regex.map_err(|e| Error::Parameter(e.to_string()))?)
            }
        };
        Ok(Self { texts, escape, units })
    }

    fn text_from(&self, bytes: &[u8], from: usize) -> usize {
        let hit = match &self.texts {
            Texts::One(finder) => finder.find(&bytes[from..]),
            Texts::Many(regex) => regex.find(&bytes[from..]).map(|hit| hit.start()),
        };
        hit.map_or(usize::MAX, |at| from + at)
    }

    /// The next escape that may hide a character of the texts.
    pub(super) fn escape_from(&self, bytes: &[u8], mut from: usize) -> usize {
        while let Some(at) = self.escape.find(&bytes[from..]) {
            from += at;
            if unit(&bytes[from..]).is_some_and(|unit| self.units.contains(&unit)) {
                return from;
            }
            from += 2;
        }
        usize::MAX
    }
}

/// The places of some bytes, from the first to the last.
pub(crate) struct Candidates<'a> {
    sieve: Option<&'a Sieve>,
    bytes: &'a [u8],
    text: usize,
    escape: usize,
}

impl<'a> Candidates<'a> {
    pub(super) fn new(sieve: Option<&'a Sieve>, bytes: &'a [u8]) -> Self {
        let (text, escape) = match sieve {
            Some(sieve) => (sieve.text_from(bytes, 0), sieve.escape_from(bytes, 0)),
            None => (0, 0),
        };
        Self { sieve, bytes, text, escape }
    }

    /// The first place at `from` or behind it; none in what is left. Records that end before it have no match.
    pub(crate) fn from(&mut self, from: usize) -> Option<usize> {
        if from >= self.bytes.len() {
            return None;
        }
        let Some(sieve) = self.sieve else { return Some(from) };
        if self.text < from {
            self.text = sieve.text_from(self.bytes, from);
        }
        if self.escape < from {
            self.escape = sieve.escape_from(self.bytes, from);
        }
        let next = self.text.min(self.escape);
        (next != usize::MAX).then_some(next)
    }
}
