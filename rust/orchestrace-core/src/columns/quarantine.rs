//! Records that could not be accepted, as rows.

use std::borrow::Cow;

use crate::error::{Reject, printable};

/// Where a record lies in its input. Line 0 stands for "not known": tables that never were a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// Line, from 1; within the block while it is being parsed.
    pub line: u64,
    /// Byte of the decompressed stream, from 0.
    pub offset: u64,
    /// Bytes, line end excluded.
    pub length: u64,
}

/// One rejected record.
#[derive(Debug, Clone)]
pub struct QuarantineRow {
    /// Where it lies.
    pub position: Position,
    /// Why it was rejected.
    pub reject: Reject,
    /// The importer that read it.
    pub importer: Cow<'static, str>,
    /// Its first bytes, escaped.
    pub excerpt: String,
}

/// The first `limit` bytes of a record, made printable, invalid UTF-8 replaced.
#[must_use]
pub fn excerpt(record: &[u8], limit: usize) -> String {
    printable(&String::from_utf8_lossy(&record[..record.len().min(limit)])).into_owned()
}
