//! Ways to read bytes, and what is true of every store that was read.

use std::io::{self, Write};
use std::path::PathBuf;

use arrow_array::RecordBatch;
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt32Type, UInt64Type};
use orchestrace_core::columns::LiftKind;
use orchestrace_core::columns::RecordOptions;
use orchestrace_core::error::{REJECT_CODES, printable};
use orchestrace_core::importers::{Format, find};
use orchestrace_core::ingest::{Input, ReadOptions, read};
use orchestrace_core::json::Limits;
use orchestrace_core::run::Run;
use orchestrace_core::schema::RECORD_STATUSES;
use orchestrace_core::store::Store;

/// The options of a call that says nothing, and limits so low that short inputs reach them.
pub(crate) fn option_sets() -> [ReadOptions; 2] {
    let records = RecordOptions {
        limits: Limits { depth: 5, string: 24, lenient: false },
        excerpt: 9,
        extras: false,
        fields: vec![
            ("x_f".into(), LiftKind::F64),
            ("x_i".into(), LiftKind::I64),
            ("x_note".into(), LiftKind::Text),
        ],
        ..RecordOptions::default()
    };
    let low = ReadOptions { max_record: 250, records, ..ReadOptions::default() };
    [ReadOptions::default(), low]
}

/// Reads from a reader.
pub(crate) fn from_stream(bytes: &[u8], options: &ReadOptions, threads: usize) -> Store {
    let reader = Box::new(io::Cursor::new(bytes.to_vec()));
    let input = Input::Stream { name: "bytes".into(), reader };
    read(vec![input], options, &Run::new(Some(threads)).unwrap()).unwrap()
}

/// Reads from a file, of which workers take a range each if it is larger than a block.
pub(crate) fn from_file(file: &Scratch, options: &ReadOptions, threads: usize) -> Store {
    let input = Input::Path(file.path.clone());
    read(vec![input], options, &Run::new(Some(threads)).unwrap()).unwrap()
}

/// A file of this thread that is gone when it is dropped.
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Holding the bytes.
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let thread = format!("{:?}", std::thread::current().id()).replace(|c: char| !c.is_ascii_digit(), "");
        let name = format!("orchestrace-{}-{thread}.jsonl", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, bytes).unwrap();
        Self { path }
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _gone = std::fs::remove_file(&self.path);
    }
}

/// The bytes in a compressed form: 0 as they are, 1 gzip, 2 zstd.
pub(crate) fn compressed(bytes: &[u8], kind: u8) -> Vec<u8> {
    match kind {
        0 => bytes.to_vec(),
        1 => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        _ => zstd::encode_all(bytes, 1).unwrap(),
    }
}

pub(crate) fn is_compressed(bytes: &[u8]) -> bool {
    bytes.starts_with(&[0x1f, 0x8b])
        || bytes.starts_with(&[0x28, 0xb5, 0x2f, 0xfd])
        || matches!(bytes, [low, 0x2a, 0x4d, 0x18, ..] if low & 0xf0 == 0x50)
}

/// Whether the rows of an input of these bytes may lie beyond their number: it is compressed, or an archive.
fn is_packed(bytes: &[u8]) -> bool {
    is_compressed(bytes)
        || bytes.starts_with(b"PK")
        || bytes.get(257..262) == Some(b"ustar")
        || bytes.len() >= 512
}

/// Bytes within which all rows of an input lie.
pub(crate) fn extent(bytes: &[u8]) -> u64 {
    if is_packed(bytes) { u64::MAX } else { bytes.len() as u64 }
}

pub(crate) fn numbers(table: &RecordBatch, column: &str) -> Vec<u64> {
    let column = table.column_by_name(column).unwrap();
    match column.as_primitive_opt::<UInt64Type>() {
        Some(values) => values.values().to_vec(),
        None => column.as_primitive::<UInt32Type>().values().iter().map(|v| u64::from(*v)).collect(),
    }
}

/// Words of a dictionary column of a small vocabulary.
fn words(table: &RecordBatch, column: &str, vocabulary: &[&'static str]) -> Vec<&'static str> {
    let codes = table.column_by_name(column).unwrap().as_dictionary::<UInt8Type>();
    codes.keys().values().iter().map(|code| vocabulary[*code as usize]).collect()
}

/// Names of a dictionary column.
fn names(table: &RecordBatch, column: &str) -> Vec<String> {
    let column = table.column_by_name(column).unwrap().as_dictionary::<UInt32Type>();
    let values = column.values().as_string::<i32>();
    column.keys().values().iter().map(|code| values.value(*code as usize).to_owned()).collect()
}

/// Codes of the rejects in order.
pub(crate) fn rejects(store: &Store) -> Vec<&'static str> {
    words(&store.combined("quarantine").unwrap(), "code", REJECT_CODES)
}

/// What [`settles`] says, and rows come in the order of the one file that was read.
pub(crate) fn reconciles(store: &Store, length: u64) {
    settles(store, length);
    // A trace that was gathered lies where its first record does, which may be behind that of the next one.
    if !whole_records(store) {
        return;
    }
    for name in ["traces", "quarantine"] {
        let table = store.combined(name).unwrap();
        let places: Vec<_> = numbers(&table, "line").into_iter().zip(numbers(&table, "offset")).collect();
        assert!(places.is_sorted(), "rows of {name} lie at {places:?}");
    }
}

/// What [`adds_up`] says, and every row of what was read lies within `length` bytes.
pub(crate) fn settles(store: &Store, length: u64) {
    adds_up(store);
    for name in ["traces", "quarantine"] {
        let table = store.combined(name).unwrap();
        let spans = numbers(&table, "offset").into_iter().zip(numbers(&table, "length"));
        for ((offset, size), line) in spans.zip(numbers(&table, "line")) {
            let end = offset.checked_add(size);
            assert!(end.is_some_and(|end| end <= length), "{offset} + {size} is beyond {length}");
            assert!(line >= 1, "line {line}, offset {offset}");
        }
    }
}

/// No record is lost, none is counted twice: what was read is the sum of what was used, ignored, left out as repeated
/// and rejected. Rows point at rows that exist, and what is told of rejects can be printed.
pub(crate) fn adds_up(store: &Store) {
    let [traces, events, edges, quarantine, findings] =
        ["traces", "events", "edges", "quarantine", "findings"].map(|name| store.combined(name).unwrap());
    counts_add_up(store, traces.num_rows() as u64, quarantine.num_rows() as u64);
    assert_eq!((store.n_traces(), store.records_quarantined()), (traces.num_rows(), quarantine.num_rows()));
    assert_eq!(numbers(&traces, "n_events").iter().sum::<u64>(), events.num_rows() as u64);
    assert_eq!(numbers(&traces, "n_edges").iter().sum::<u64>(), edges.num_rows() as u64);
    let sizes = numbers(&traces, "n_events");
    for end in ["src", "dst"] {
        for (trace, seq) in numbers(&edges, "trace").into_iter().zip(numbers(&edges, end)) {
            assert!(seq < sizes[trace as usize]);
        }
    }
    for (table, column) in [(&quarantine, "message"), (&quarantine, "excerpt"), (&findings, "message")] {
        for text in table.column_by_name(column).unwrap().as_string_view().iter().flatten() {
            assert_eq!(printable(text), text);
        }
    }
}

/// Whether every record of the store is a whole trace.
fn whole_records(store: &Store) -> bool {
    let importers = names(&store.combined("record_counts").unwrap(), "importer");
    importers.iter().all(|name| matches!(find(name), Ok(Format::Whole(_))))
}

/// Records read = used + ignored + duplicate + quarantined (ARCHITECTURE.md, "Principles"), and each term is what the
/// tables have of it.
fn counts_add_up(store: &Store, traces: u64, quarantined: u64) {
    let counts = store.combined("record_counts").unwrap();
    let statuses = words(&counts, "status", RECORD_STATUSES);
    let counted = numbers(&counts, "count");
    let of = |status: &str| {
        statuses.iter().zip(&counted).filter(|(word, _)| **word == status).map(|(_, n)| n).sum::<u64>()
    };
    let [used, ignored, duplicate, rejected] = ["used", "ignored", "duplicate", "quarantined"].map(of);
    assert_eq!(store.records_read(), used + ignored + duplicate + rejected, "records read");
    assert_eq!(rejected, quarantined, "rows of the quarantine");
    assert!(used > 0 || traces == 0, "a trace is made of something");
    if whole_records(store) {
        assert_eq!(used, traces, "a record that is used is a trace");
    }
}
