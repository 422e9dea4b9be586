//! Records that could not be accepted, as rows.

use std::borrow::Cow;

use crate::error::Reject;

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

/// The first `limit` bytes of a record, control characters escaped, invalid UTF-8 replaced.
#[must_use]
pub fn excerpt(record: &[u8], limit: usize) -> String {
    let cut = String::from_utf8_lossy(&record[..record.len().min(limit)]);
    let mut out = String::with_capacity(cut.len());
    for c in cut.chars() {
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}
