//! Parsing of one block, record by record: trims, measures, checks UTF-8 and calls the importer.

use std::borrow::Cow;

use memchr::{memchr_iter, memrchr};
use xxhash_rust::xxh3::xxh3_64;

use super::ReadOptions;
use super::block::Block;
use super::frame::bom;
use super::gather::ItemBlock;
use super::index::content_hash;
use super::long_record::too_large;
use super::rows;
use super::source::HELD;
use super::torn;
use crate::columns::block::BlockWriter;
use crate::columns::chunk::Segment;
use crate::columns::quarantine::{Position, QuarantineRow, excerpt};
use crate::error::{FindingCode, Reject, RejectCode, capped, printable};
use crate::importers::{Confidence, Importer, Items, KnownBy, Record, SpreadImporter, outer_keys};
use crate::json::END_OF_RECORD;
use crate::json::identity::identity;
use crate::json::tree::Tree;
use crate::schema::EVENT_FIELDS;

pub(super) struct BlockParser<'a> {
    pub options: &'a ReadOptions,
    /// Name of the importer.
    pub importer: &'static str,
    /// Whether invalid text is replaced rather than rejected.
    pub lenient: bool,
    /// Name of the input, for formats whose trace has no name of its own.
    pub stem: &'a str,
    /// The input as it was named.
    pub path: &'a str,
    /// What describes all entries of an archive.
    pub header: &'a str,
}

/// Whether a record is good.
type Judged = std::result::Result<(), Reject>;

/// What takes the records of a block.
trait RecordSink {
    fn quarantine(&mut self) -> &mut Vec<QuarantineRow>;

    /// Whether a text is a record of the format as far as its keys say; its end may be missing.
    fn knows(&self, parser: &BlockParser<'_>, text: &str) -> bool;

    /// Takes one record.
    fn record(&mut self, parser: &BlockParser<'_>, record: &Record<'_>, position: Position) -> Judged;

    /// Forgets what the last record, which was not good, left behind: its bytes are taken in parts.
    fn forget(&mut self);

    /// Notes that the record that was taken is good.
    fn accepted(&mut self, text: &str);

    /// Notes a record of which only the first bytes are there.
    fn missed(&mut self, parser: &BlockParser<'_>, head: &[u8], position: Position);
}

/// Whole traces to the columns of a block.
struct Traces<'a> {
    writer: &'a mut BlockWriter,
    importer: &'static dyn Importer,
}

impl RecordSink for Traces<'_> {
    fn quarantine(&mut self) -> &mut Vec<QuarantineRow> {
        &mut self.writer.quarantine
    }

    fn knows(&self, _parser: &BlockParser<'_>, text: &str) -> bool {
        let keys = outer_keys(text);
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        self.importer.sniff(&keys) != Confidence::No
    }

    fn record(&mut self, parser: &BlockParser<'_>, record: &Record<'_>, position: Position) -> Judged {
        let sought = parser.options.sought.as_deref();
        if sought.is_some_and(|sought| !sought.lies_within(parser.path, position)) {
            return Ok(());
        }
        let mut out = self.writer.begin(&parser.options.records, position);
        if record.replaced {
            out.finding(FindingCode::Utf8Replaced, None, || "invalid UTF-8 was replaced by U+FFFD".into());
        }
        let outcome = self
            .importer
            .record(record, &mut out)
            .and_then(|()| out.commit(self.importer.accepted_as()).map_err(crate::json::Fault::into_reject));
        if outcome.is_err() {
            out.rollback();
        } else if let Some(sought) = sought {
            sought.note_parts(
                record.text,
                self.importer.events(record, parser.options.records.limits),
                parser.path,
                position,
            );
        }
        outcome
    }

    /// What is rolled back leaves nothing.
    fn forget(&mut self) {}

    fn accepted(&mut self, text: &str) {
        // Of a trace that is not sought nothing was written.
        if self.writer.digests.len() < self.writer.facts.len() {
            let digest = match self.importer.known_by() {
                // What bytes say takes as long to find out as reading them does.
                KnownBy::IdAndBytes => content_hash(xxh3_64(text.as_bytes()), true),
                KnownBy::IdAndContent => content_hash(identity(text), true),
                KnownBy::Content => content_hash(identity(text), false),
            };
            self.writer.digests.push(digest);
        }
    }

    /// It would have been a trace of its own.
    fn missed(&mut self, _parser: &BlockParser<'_>, _head: &[u8], _position: Position) {}
}

/// Parts of traces to the items of a block.
struct Parts<'a> {
    items: &'a mut ItemBlock,
    importer: &'static dyn SpreadImporter,
    records: u64,
    /// How many keys, rows and traces that lack something there were before the last record, if it was not good.
    before: Option<(usize, usize, usize)>,
}

impl RecordSink for Parts<'_> {
    fn quarantine(&mut self) -> &mut Vec<QuarantineRow> {
        &mut self.items.quarantine
    }

    fn knows(&self, parser: &BlockParser<'_>, text: &str) -> bool {
        let head = Tree::head(text, parser.options.records.limits);
        self.importer.sniff(head.root(), parser.path) != Confidence::No
    }

    fn record(&mut self, parser: &BlockParser<'_>, record: &Record<'_>, position: Position) -> Judged {
        let columns = &mut self.items.columns;
        self.before = Some((columns.keys.len(), columns.piece.rows.len(), columns.partial.len()));
        let mut out = Items::new(columns, parser.options.records.limits, record, position, self.records)
            .by(parser.options.trace_by);
        self.records += 1;
        let outcome = self.importer.items(record, &mut out);
        if outcome.is_err() {
            out.rollback();
            return outcome;
        }
        self.before = None;
        if out.is_empty() {
            out.ignored(&format!("{}.empty", parser.importer));
        }
        for (position, reject, head) in columns.rejected.drain(..) {
            self.items.quarantine.push(parser.row(position, reject, head.as_bytes()));
        }
        Ok(())
    }

    fn forget(&mut self) {
        if let Some((keys, rows, partial)) = self.before.take() {
            let columns = &mut self.items.columns;
            columns.keys.truncate(keys);
            columns.piece.rows.truncate(rows);
            columns.partial.truncate(partial);
        }
    }

    fn accepted(&mut self, _text: &str) {}

    /// The traces that it names go on without it.
    fn missed(&mut self, parser: &BlockParser<'_>, head: &[u8], position: Position) {
        let head = String::from_utf8_lossy(&head[..head.len().min(HELD)]);
        let record = parser.of(&head, position.offset, true);
        let mut out = Items::new(
            &mut self.items.columns,
            parser.options.records.limits,
            &record,
            position,
            self.records,
        );
        let _judged = self.importer.items(&record, &mut out);
        out.rollback();
    }
}

impl BlockParser<'_> {
    /// Adds a block's records, which are whole traces, to the tables of a chunk; what they are there. `None` where it
    /// has neither a record nor a line.
    pub(super) fn traces(
        &self,
        block: &Block,
        source: usize,
        importer: &'static dyn Importer,
        writer: &mut BlockWriter,
    ) -> Option<Segment> {
        let (traces, quarantined) = (writer.facts.len(), writer.quarantine.len());
        let mut sink = Traces { writer, importer };
        let (records, lines) = self.records(block, &mut sink);
        (records > 0 || lines > 0).then(|| Segment {
            source,
            index: block.index,
            absolute_lines: block.line.is_some(),
            lines,
            records,
            importer: Some(importer.accepted_as()),
            entry: None,
            tallies: None,
            traces: writer.facts.len() - traces,
            quarantined: writer.quarantine.len() - quarantined,
        })
    }

    /// The items of a block's records, which are parts of traces; `None` as above.
    pub(super) fn items(
        &self,
        block: &Block,
        source: usize,
        importer: &'static dyn SpreadImporter,
    ) -> Option<ItemBlock> {
        let mut items = ItemBlock::new(source, block.index, block.line.is_some());
        if self.options.unread_fields {
            items.columns.counts.with_fields();
        }
        // Of some formats all stays, of others little: what is not needed is given back.
        items.columns.piece.text.reserve(block.bytes.len());
        let mut sink = Parts { items: &mut items, importer, records: 0, before: None };
        let (records, lines) = self.records(block, &mut sink);
        (items.records, items.lines) = (records, lines);
        items.columns.piece.text.shrink_to_fit();
        (records > 0 || lines > 0).then_some(items)
    }

    /// Gives each record of a block to the sink; how many records and lines there were.
    fn records<S: RecordSink>(&self, block: &Block, sink: &mut S) -> (u64, u64) {
        // One check for the whole block; records are looked at one by one only if it fails.
        let text = simdutf8::basic::from_utf8(&block.bytes).ok();
        let mut records = 0;
        // Where the last record of an input without a final line end stops. One behind which there is a line end is
        // not that record, even where nothing but spaces follows.
        let in_lines = !block.document && block.elements.is_none();
        let open_end = if block.open_end {
            let from = memrchr(b'\n', &block.bytes).filter(|_| in_lines).map_or(0, |end| end + 1);
            trim(&block.bytes, from, block.bytes.len(), block.offset).1
        } else {
            0
        };
        let mut record = |sink: &mut S, start: usize, end: usize, line: u64| {
            let (start, end) = trim(&block.bytes, start, end, block.offset);
            if start < end {
                let last = end == open_end;
                let position =
                    Position { line, offset: block.offset + start as u64, length: (end - start) as u64 };
                let text = text.and_then(|t| t.get(start..end));
                records += self.record(sink, &block.bytes[start..end], text, position, (last, in_lines));
            }
        };
        let base = block.line.unwrap_or(1);
        let mut empty = 0;
        let lines = if block.document {
            record(sink, 0, block.bytes.len(), base);
            0
        } else if let Some(elements) = &block.elements {
            for &(start, end, line) in elements {
                record(sink, start, end, base + line);
                let (from, to) = trim(&block.bytes, start, end, block.offset);
                if from == to {
                    empty += 1;
                    let position =
                        Position { line: base + line, offset: block.offset + start as u64, length: 0 };
                    let message = "found no element, expected a value between commas";
                    let reject = Reject::new(RejectCode::JsonSyntax, "", message);
                    sink.quarantine().push(self.row(position, reject, &[]));
                }
            }
            0
        } else {
            let mut line = 0;
            let mut start = 0;
            for end in memchr_iter(b'\n', &block.bytes) {
                record(sink, start, end, base + line);
                start = end + 1;
                line += 1;
            }
            if start < block.bytes.len() {
                record(sink, start, block.bytes.len(), base + line);
                line += 1;
            }
            line
        };
        if let Some(broken) = &block.broken {
            records += 1;
            let in_lines =
                if block.elements.is_some() || block.document { broken.lines_before } else { lines };
            let position = Position { line: base + in_lines, offset: broken.offset, length: broken.length };
            sink.quarantine().push(self.row(position, broken.reject.clone(), &broken.head));
            sink.missed(self, &broken.head, position);
        }
        (records + empty, lines + block.extra_lines)
    }

    fn of<'r>(&'r self, text: &'r str, offset: u64, replaced: bool) -> Record<'r> {
        Record { text, stem: self.stem, path: self.path, header: self.header, offset, replaced }
    }

    fn row(&self, position: Position, reject: Reject, record: &[u8]) -> QuarantineRow {
        quarantine_row(self.options, self.importer, position, reject, record)
    }

    /// Gives a record to the sink; of how many records its bytes are. `last` says that it ends an input that ends
    /// without a line end, `in_line` that it is the whole of a line.
    fn record<S: RecordSink>(
        &self,
        sink: &mut S,
        bytes: &[u8],
        text: Option<&str>,
        position: Position,
        (last, in_line): (bool, bool),
    ) -> u64 {
        if let Some(reject) = rows::damage(bytes) {
            // Nothing of such rows is there to be written again.
            sink.quarantine().push(self.row(Position { length: 0, ..position }, reject, &[]));
            return 1;
        }
        if position.length > self.options.max_record {
            let reject = too_large(position.length, self.options.max_record);
            sink.quarantine().push(self.row(position, reject, bytes));
            sink.missed(self, bytes, position);
            return 1;
        }
        let (text, replaced) = match text.map_or_else(|| simdutf8::compat::from_utf8(bytes), Ok) {
            Ok(text) => (Cow::Borrowed(text), false),
            Err(_) if self.lenient => (String::from_utf8_lossy(bytes), true),
            Err(e) => {
                if let Some(records) = self.torn(sink, bytes, position, (last, in_line)) {
                    return records;
                }
                let at = e.valid_up_to();
                let reject = Reject::new(
                    RejectCode::Utf8Invalid,
                    "",
                    format!("found the byte 0x{:02x}, expected UTF-8 (byte {at} of the record)", bytes[at]),
                );
                sink.quarantine().push(self.row(position, reject, bytes));
                return 1;
            }
        };
        let record = self.of(&text, position.offset, replaced);
        let Err(mut reject) = sink.record(self, &record, position) else {
            sink.accepted(&text);
            return 1;
        };
        // Where the next record stands in place of a value, its type may be what is wrong.
        let in_one_piece = [RejectCode::FormatUnknown, RejectCode::JsonDepth, RejectCode::RecordTooLarge];
        if !in_one_piece.contains(&reject.code)
            && let Some(records) = self.torn(sink, bytes, position, (last, in_line))
        {
            return records;
        }
        // The record is the last of its input, has no line end, and ends before its JSON does.
        if last && reject.code == RejectCode::JsonSyntax && reject.message.starts_with(END_OF_RECORD) {
            reject.code = RejectCode::InputTruncated;
        }
        sink.quarantine().push(self.row(position, reject, bytes));
        1
    }

    /// Gives the parts of a line to the sink that is not one record; how many there are. `None` where no part of it
    /// is whole.
    fn torn<S: RecordSink>(
        &self,
        sink: &mut S,
        bytes: &[u8],
        position: Position,
        (last, in_line): (bool, bool),
    ) -> Option<u64> {
        if !in_line {
            return None;
        }
        let text = String::from_utf8_lossy(bytes);
        let mut parts = torn::parts(&text, self.options.records.limits, &|text| sink.knows(self, text));
        let is_all = |part: &torn::Part| (part.from, part.to) == (0, text.len());
        if !parts.iter().any(|part| part.is_whole) || parts.iter().any(is_all) {
            return None;
        }
        // A format that is strict takes no record for whole that other text follows, unless a record begins there.
        let follows = |pair: &[torn::Part]| pair[0].is_whole && !text[pair[1].from..].starts_with('{');
        if !self.lenient && parts.windows(2).any(follows) {
            return None;
        }
        torn::in_bytes(&mut parts, bytes);
        sink.forget();
        for (i, part) in (1..).zip(&parts) {
            let part_of = &bytes[part.from..part.to];
            let position = Position {
                offset: position.offset + part.from as u64,
                length: part_of.len() as u64,
                ..position
            };
            self.record(sink, part_of, None, position, (last && i == parts.len(), false));
        }
        Some(parts.len() as u64)
    }
}

/// The row of a record that is rejected.
pub(super) fn quarantine_row(
    options: &ReadOptions,
    importer: &'static str,
    position: Position,
    mut reject: Reject,
    record: &[u8],
) -> QuarantineRow {
    // Private data: messages quote what was found, so without an excerpt the code has to do.
    if options.records.excerpt == 0 {
        reject.message = format!("{} (excerpt=0: the value found is not shown)", reject.code.meaning());
        reject.path = public_path(&reject.path);
    }
    if let (RejectCode::RecordTooLarge, Some((memory, limits))) = (reject.code, &options.set_by_memory) {
        for limit in limits {
            let room = format!("(set by memory={memory}: raise memory)");
            reject.message = reject.message.replace(&format!("(option {limit})"), &room);
        }
    }
    reject.message = capped(printable(&reject.message).into_owned());
    reject.path = capped(reject.path);
    let excerpt = excerpt(record, options.records.excerpt);
    QuarantineRow { position, reject, importer: Cow::Borrowed(importer), excerpt }
}

/// A JSON pointer up to the first key that is not of a schema.
fn public_path(path: &str) -> String {
    let is_public = |key: &str| {
        key.bytes().all(|b| b.is_ascii_digit()) || PUBLIC_KEYS.contains(&key) || EVENT_FIELDS.contains(&key)
    };
    path.split('/').skip(1).take_while(|key| is_public(key)).fold(String::new(), |out, key| out + "/" + key)
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
