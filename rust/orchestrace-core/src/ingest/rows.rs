//! Files of rows, Parquet and Arrow: each row becomes a line of JSON, which every importer reads as it reads text.
//!
//! The core has no codec of such files. Its caller opens them and hands over batches of rows; here they become text. A row
//! is the line of its number, so that positions, resuming and the quarantine are those of lines. Rows that cannot be decoded
//! become one line that says why, and empty lines for the others. Columns of types that JSON does not have are left out, and
//! named in a line behind all rows.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow_array::RecordBatch;
use arrow_schema::DataType;

use super::binary::known_kind;
use crate::error::{Reject, RejectCode};
use crate::importers::outer_keys;

mod json;

/// What such files begin with.
const MAGIC: &[&[u8]] = &[b"PAR1", b"ARROW1"];

/// Bytes that show it.
pub(super) const HEAD: usize = 8 << 10;

/// What a line begins with that stands for rows that cannot be decoded. No JSON does.
pub(super) const DAMAGED: &[u8] = b"\x1a";

/// Bytes of text that are made at a time, at least.
const STEP: usize = 1 << 20;

/// Whether an input that begins with `head` is a file of rows.
pub(super) fn is_rows(head: &[u8]) -> bool {
    MAGIC.iter().any(|magic| head.starts_with(magic)) && known_kind(head).is_some()
}

/// Why rows have no records, if a line says so.
pub(super) fn damage(line: &[u8]) -> Option<Reject> {
    let message = line.strip_prefix(DAMAGED)?;
    Some(Reject::new(RejectCode::RowsDamaged, "", String::from_utf8_lossy(message)))
}

/// Why nothing is read of rows that no importer recognizes, by the first of them.
pub(super) fn unknown(first: &[u8]) -> Reject {
    let columns = outer_keys(&String::from_utf8_lossy(first)).join(", ");
    let message = format!(
        "found rows with the columns {columns}, expected those of a known format (see list_importers); a mapping says \
         what yours mean (mapping=FILE), and tables of traces and events are read by Corpus.from_arrow"
    );
    Reject::new(RejectCode::FormatUnknown, "", message)
}

/// Some rows of a file.
pub enum Rows {
    /// Rows as columns.
    Batch(RecordBatch),
    /// Rows that cannot be decoded: how many, at least one, and why.
    Damaged {
        /// Rows that are lost.
        rows: usize,
        /// Which they are, what was found, and what was expected.
        message: String,
    },
}

/// Rows of a file, in order.
pub trait RowSource: Send {
    /// The next rows, and how many bytes of the file have been taken with them.
    fn next(&mut self) -> io::Result<Option<(Rows, u64)>>;
}

/// What opens files of rows.
#[derive(Clone)]
pub struct RowOpener(Arc<Open>);

type Open = dyn Fn(&Path) -> io::Result<Box<dyn RowSource>> + Send + Sync;

impl RowOpener {
    /// An opener that calls `open`.
    pub fn new(open: impl Fn(&Path) -> io::Result<Box<dyn RowSource>> + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }

    /// The lines of a file; `consumed` counts the bytes of the file that were taken.
    pub(super) fn lines(&self, path: &Path, consumed: &Arc<AtomicU64>) -> io::Result<RowLines> {
        let source = (self.0)(path)?;
        Ok(RowLines {
            source,
            consumed: Arc::clone(consumed),
            batch: None,
            row: 0,
            text: Vec::new(),
            taken: 0,
            left_out: BTreeMap::new(),
        })
    }
}

impl fmt::Debug for RowOpener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RowOpener")
    }
}

/// Reads rows as lines.
pub(super) struct RowLines {
    source: Box<dyn RowSource>,
    consumed: Arc<AtomicU64>,
    batch: Option<RecordBatch>,
    /// The first row of the batch that is not text yet.
    row: usize,
    text: Vec<u8>,
    /// Bytes of the text that were read.
    taken: usize,
    /// Columns whose type has no form in JSON.
    left_out: BTreeMap<String, DataType>,
}

impl RowLines {
    /// Makes more text; whether there is any.
    fn advance(&mut self) -> io::Result<bool> {
        self.text.clear();
        self.taken = 0;
        while self.text.is_empty() {
            if let Some(batch) = self.batch.take() {
                let row = json::write_rows(&batch, self.row, STEP, &mut self.text, &mut self.left_out);
                if row < batch.num_rows() {
                    (self.batch, self.row) = (Some(batch), row);
                }
                continue;
            }
            let Some((rows, consumed)) = self.source.next()? else { return Ok(self.write_left_out()) };
            self.consumed.store(consumed, Ordering::Relaxed);
            match rows {
                Rows::Batch(batch) => (self.batch, self.row) = (Some(batch), 0),
                Rows::Damaged { rows, message } => self.write_damage(rows, &message),
            }
        }
        Ok(true)
    }

    /// Writes the line of columns that are left out, if there are any that it has not named; whether there are.
    fn write_left_out(&mut self) -> bool {
        let columns: Vec<_> = std::mem::take(&mut self.left_out)
            .iter()
            .map(|(name, kind)| format!("'{name}' ({kind})"))
            .collect();
        if columns.is_empty() {
            return false;
        }
        let columns = columns.join(", ");
        let message =
            format!("found columns of types that JSON does not have, which are left out: {columns}");
        self.write_damage(1, &message);
        true
    }

    /// Writes the line of rows that cannot be read, and empty ones for all but one of them.
    fn write_damage(&mut self, rows: usize, message: &str) {
        self.text.extend_from_slice(DAMAGED);
        self.text.extend(message.bytes().map(|byte| if byte < b' ' { b' ' } else { byte }));
        self.text.resize(self.text.len() + rows.max(1), b'\n');
    }
}

impl Read for RowLines {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.taken == self.text.len() && !self.advance()? {
            return Ok(0);
        }
        let n = buffer.len().min(self.text.len() - self.taken);
        buffer[..n].copy_from_slice(&self.text[self.taken..self.taken + n]);
        self.taken += n;
        Ok(n)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use arrow_array::cast::AsArray;
    use arrow_array::types::UInt64Type;
    use arrow_array::{ArrayRef, IntervalDayTimeArray, StringArray};

    use super::*;
    use crate::importers::testing::column;
    use crate::ingest::{Input, ReadOptions, read};
    use crate::run::Run;

    /// Rows before and behind some that are lost.
    struct Damaged(Vec<Rows>);

    impl RowSource for Damaged {
        fn next(&mut self) -> io::Result<Option<(Rows, u64)>> {
            Ok((!self.0.is_empty()).then(|| (self.0.remove(0), 100)))
        }
    }

    fn places(store: &crate::store::Store, table: &str) -> Vec<u64> {
        let table = store.combined(table).unwrap();
        table.column_by_name("line").unwrap().as_primitive::<UInt64Type>().values().to_vec()
    }

    #[test]
    fn rows_that_are_lost_cost_themselves_and_move_no_line() {
        let batch = |id: &str| {
            let messages = r#"[{"role": "user", "content": "q"}, {"role": "assistant", "content": "r"}]"#;
            let columns: [(&str, ArrayRef); 3] = [
                ("id", Arc::new(StringArray::from(vec![id]))),
                ("messages", Arc::new(StringArray::from(vec![messages]))),
                ("pause", Arc::new(IntervalDayTimeArray::from(vec![None]))),
            ];
            Rows::Batch(RecordBatch::try_from_iter(columns).unwrap())
        };
        let opener = RowOpener::new(move |_| {
            let lost = Rows::Damaged { rows: 3, message: "row group 2:\nno page".into() };
            Ok(Box::new(Damaged(vec![batch("a"), lost, batch("b")])))
        });
        let path = std::env::temp_dir().join(format!("orchestrace-rows-{}", std::process::id()));
        fs::write(&path, b"PAR1\0\0\xff\0PAR1").unwrap();
        for threads in [1, 2] {
            let options = ReadOptions { rows: Some(opener.clone()), ..ReadOptions::default() };
            let run = Run::new(Some(threads)).unwrap();
            let store = read(vec![Input::Path(path.clone())], &options, &run).unwrap();
            assert_eq!(column(&store, "traces", "trace_id"), ["a", "b"]);
            assert_eq!(places(&store, "traces"), [1, 5]);
            assert_eq!(column(&store, "quarantine", "code"), ["rows.damaged", "rows.damaged"]);
            assert_eq!(places(&store, "quarantine"), [2, 6]);
            let messages = column(&store, "quarantine", "message");
            assert_eq!(messages[0], "row group 2: no page");
            assert!(
                messages[1].ends_with("which are left out: 'pause' (Interval(DayTime))"),
                "{}",
                messages[1]
            );
            assert_eq!((store.records_read(), store.records_quarantined()), (4, 2));
        }
        fs::remove_file(&path).unwrap();
    }
}
