//! The records of one block, each by itself: trimmed, measured, checked for UTF-8, given to the importer.

use std::borrow::Cow;

use memchr::memchr_iter;
use xxhash_rust::xxh3::xxh3_64;

use super::ReadOptions;
use super::frame::bom;
use super::json::END_OF_RECORD;
use super::long_record::too_large;
use super::quarantine::{Position, QuarantineRow, excerpt};
use super::source::Block;
use super::writer::{BlockWriter, RawChunk};
use crate::error::{FindingCode, Reject, RejectCode, Result, capped, printable};
use crate::importers::{Importer, Record};
use crate::schema::EVENT_FIELDS;

pub(super) struct BlockParser<'a> {
    pub options: &'a ReadOptions,
    pub importer: &'static dyn Importer,
    /// Name of the input, for formats whose trace has no name of its own.
    pub stem: &'a str,
}

impl BlockParser<'_> {
    /// The tables of a block's records; `None` where it has neither a record nor a line.
    pub(super) fn parse(
        &self,
        block: &Block,
        source: usize,
        writer: &mut BlockWriter,
    ) -> Result<Option<RawChunk>> {
        // One check for the whole block; records are looked at one by one only if it fails.
        let text = simdutf8::basic::from_utf8(&block.bytes).ok();
        let mut records = 0;
        // Where the last record of an input without a final line end stops.
        let open_end =
            if block.open_end { trim(&block.bytes, 0, block.bytes.len(), block.offset).1 } else { 0 };
        let mut record = |writer: &mut BlockWriter, start: usize, end: usize, line: u64| {
            let (start, end) = trim(&block.bytes, start, end, block.offset);
            if start < end {
                records += 1;
                let last = end == open_end;
                let position =
                    Position { line, offset: block.offset + start as u64, length: (end - start) as u64 };
                self.record(
                    writer,
                    &block.bytes[start..end],
                    text.and_then(|t| t.get(start..end)),
                    position,
                    last,
                );
            }
        };
        let base = block.line.unwrap_or(1);
        let mut empty = 0;
        let lines = if block.document {
            record(writer, 0, block.bytes.len(), base);
            0
        } else if let Some(elements) = &block.elements {
            for &(start, end, line) in elements {
                record(writer, start, end, base + line);
                let (from, to) = trim(&block.bytes, start, end, block.offset);
                if from == to {
                    empty += 1;
                    let position =
                        Position { line: base + line, offset: block.offset + start as u64, length: 0 };
                    let message = "found no element, expected a value between commas";
                    let reject = Reject::new(RejectCode::JsonSyntax, "", message);
                    writer.quarantine.push(self.row(position, reject, &[]));
                }
            }
            0
        } else {
            let mut line = 0;
            let mut start = 0;
            for end in memchr_iter(b'\n', &block.bytes) {
                record(writer, start, end, base + line);
                start = end + 1;
                line += 1;
            }
            if start < block.bytes.len() {
                record(writer, start, block.bytes.len(), base + line);
                line += 1;
            }
            line
        };
        if let Some(broken) = &block.broken {
            records += 1;
            let in_lines =
                if block.elements.is_some() || block.document { broken.lines_before } else { lines };
            let position = Position { line: base + in_lines, offset: broken.offset, length: broken.length };
            writer.quarantine.push(self.row(position, broken.reject.clone(), &broken.head));
        }
        records += empty;
        let lines = lines + block.extra_lines;
        if records == 0 && lines == 0 {
            return Ok(None);
        }
        writer.finish(source, block.index, block.line.is_some(), lines, records).map(Some)
    }

    fn row(&self, position: Position, mut reject: Reject, record: &[u8]) -> QuarantineRow {
        // Private data: messages quote what was found, so without an excerpt the code has to do.
        if self.options.excerpt == 0 {
            reject.message = format!("{} (excerpt=0: what was found is not shown)", reject.code.meaning());
            reject.path = public_path(&reject.path);
        }
        reject.message = capped(printable(&reject.message).into_owned());
        reject.path = capped(reject.path);
        let excerpt = excerpt(record, self.options.excerpt);
        QuarantineRow { position, reject, importer: Cow::Borrowed(self.importer.info().name), excerpt }
    }

    fn record(
        &self,
        writer: &mut BlockWriter,
        bytes: &[u8],
        text: Option<&str>,
        position: Position,
        last: bool,
    ) {
        if position.length > self.options.max_record {
            let reject = too_large(position.length, self.options.max_record);
            writer.quarantine.push(self.row(position, reject, bytes));
            return;
        }
        let lenient = self.importer.info().lenient;
        let (text, replaced) = match text.map_or_else(|| simdutf8::compat::from_utf8(bytes), Ok) {
            Ok(text) => (Cow::Borrowed(text), false),
            Err(_) if lenient => (String::from_utf8_lossy(bytes), true),
            Err(e) => {
                let at = e.valid_up_to();
                let reject = Reject::new(
                    RejectCode::Utf8Invalid,
                    "",
                    format!("found the byte 0x{:02x}, expected UTF-8 (byte {at} of the record)", bytes[at]),
                );
                writer.quarantine.push(self.row(position, reject, bytes));
                return;
            }
        };
        let mut out = writer.begin(self.options, position);
        if replaced {
            out.finding(FindingCode::Utf8Replaced, None, || "invalid UTF-8 was replaced by U+FFFD".into());
        }
        let record = Record { text: &text, stem: self.stem, replaced };
        let outcome = self
            .importer
            .record(&record, &mut out)
            .and_then(|()| out.commit(self.importer.info().name).map_err(super::json::Fault::into_reject));
        if let Err(mut reject) = outcome {
            out.rollback();
            // The record is the last of its input, has no line end, and ends before its JSON does.
            if last && reject.code == RejectCode::JsonSyntax && reject.message.starts_with(END_OF_RECORD) {
                reject.code = RejectCode::InputTruncated;
            }
            writer.quarantine.push(self.row(position, reject, bytes));
        } else if self.options.digests {
            writer.digests.push(xxh3_64(bytes));
        }
    }
}

/// A JSON pointer up to the first key that is not of a schema.
fn public_path(path: &str) -> String {
    let known = |key: &str| {
        key.bytes().all(|b| b.is_ascii_digit()) || PUBLIC_KEYS.contains(&key) || EVENT_FIELDS.contains(&key)
    };
    path.split('/').skip(1).take_while(|key| known(key)).fold(String::new(), |out, key| out + "/" + key)
}

/// Keys of the formats' own schemas beside the fields of events.
const PUBLIC_KEYS: &[&str] = &[
    "trace_id",
    "task_id",
    "events",
    "edges",
    "rewards",
    "costs",
    "metrics",
    "system",
    "topology",
    "src",
    "dst",
    "tokens",
    "wall_clock_s",
    "tool_calls",
    "messages",
    "history",
    "mistake_agent",
    "mistake_step",
    "content",
    "name",
];

/// Leaves white space around a record out, and a byte order mark at the start of the input.
fn trim(bytes: &[u8], mut start: usize, mut end: usize, offset: u64) -> (usize, usize) {
    if start == 0 && offset == 0 {
        start += bom(bytes).min(end);
    }
    while start < end && matches!(bytes[start], b' ' | b'\t' | b'\r' | b'\n') {
        start += 1;
    }
    while end > start && matches!(bytes[end - 1], b' ' | b'\t' | b'\r' | b'\n') {
        end -= 1;
    }
    (start, end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_trimmed() {
        assert_eq!(trim(b"\xEF\xBB\xBF {} \r", 0, 8, 0), (4, 6));
        assert_eq!(trim(b"\xEF\xBB\xBF{}", 0, 5, 10), (0, 5));
    }
}
