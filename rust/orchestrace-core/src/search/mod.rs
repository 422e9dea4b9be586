//! Search in the texts of records: patterns, and what JSON wrote with escapes as it reads.
//!
//! The text of a record is its bytes with the escapes of its JSON strings undone: `\n` is a line end, `\u00e9` is é, `\"` a
//! quote. A search holds on that text, whatever the writer of the record escaped. Where no escape can matter, the bytes
//! themselves are searched, and records in which nothing can match are never looked at.

pub(crate) mod pattern;
mod required;
mod sieve;
pub(crate) mod text;

pub use pattern::Pattern;
