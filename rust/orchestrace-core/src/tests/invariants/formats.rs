//! What holds of every format: reading settles each record, and what was read comes back when it is written.

use orchestrace_core::columns::RecordOptions;
use orchestrace_core::error::printable;
use orchestrace_core::importers::{IMPORTERS, Mapping, mapping};
use orchestrace_core::ingest::ReadOptions;
use orchestrace_core::json::Limits;
use orchestrace_core::run::Run;
use orchestrace_core::store::{Store, write_jsonl};

use super::reading::{extent, from_stream, numbers, option_sets, reconciles, rejects};
use super::tables::comes_back_from_arrow;

/// The custom format of the golden files.
const HOUSE: &str = include_str!("../../../../../data/importers/mapping/mapping.json");

/// Records of that format, for mappings that are made up.
const HOUSE_RECORDS: &[u8] = include_bytes!("../../../../../data/importers/mapping/input.jsonl");

/// Names that `format=` takes.
pub(crate) fn formats() -> Vec<&'static str> {
    IMPORTERS.iter().map(|importer| importer.info().name).collect()
}

/// The options with a format, and with the mapping where it needs one.
fn of_format(format: &str, options: &ReadOptions) -> ReadOptions {
    let mapping = (format == mapping::NAME).then(|| Mapping::named(HOUSE, "mapping.json").unwrap());
    ReadOptions { format: format.into(), mapping, ..options.clone() }
}

/// A short document has the low limits now and then: one reading for each execution, and both sets get their turn.
fn options_of(bytes: &[u8]) -> ReadOptions {
    let [plain, low] = option_sets();
    if bytes.len() % 8 == 7 { low } else { plain }
}

/// Reading ends, settles every record, and what it accepted comes back from JSON lines and from Arrow.
pub(crate) fn records_are_settled(format: &str, bytes: &[u8]) {
    let options = of_format(format, &options_of(bytes));
    let store = from_stream(bytes, &options, 1);
    reconciles(&store, extent(bytes));
    comes_back(&store);
}

/// The same under all options, for formats that a test names.
pub(crate) fn records_are_settled_under_all_options(formats: &[&str], bytes: &[u8]) {
    for options in option_sets() {
        for format in formats {
            let store = from_stream(bytes, &of_format(format, &options), 1);
            reconciles(&store, extent(bytes));
            comes_back(&store);
        }
    }
}

/// What was accepted is accepted again, from both ways out, and says the same.
pub(crate) fn comes_back(store: &Store) {
    if store.n_traces() == 0 {
        return;
    }
    let text = written(store);
    // Of traces that say the same under one id the first is read again: the others are copies.
    let lines: Vec<&[u8]> = text.split(|byte| *byte == b'\n').collect();
    if lines.iter().collect::<std::collections::HashSet<_>>().len() < lines.len() {
        return;
    }
    let again = read_again(&text, store);
    assert_eq!(rejects(&again), [""; 0], "{}", String::from_utf8_lossy(&text));
    assert_eq!((again.n_traces(), again.n_events(), again.n_edges()), sizes(store));
    same_traces(store, &again);
    assert_eq!(
        String::from_utf8_lossy(&written(&again)),
        String::from_utf8_lossy(&text),
        "what was written, read and written again"
    );
    comes_back_from_arrow(store);
}

fn sizes(store: &Store) -> (usize, usize, usize) {
    (store.n_traces(), store.n_events(), store.n_edges())
}

pub(crate) fn written(store: &Store) -> Vec<u8> {
    let mut text = Vec::new();
    write_jsonl(store, &mut text, &Run::new(Some(1)).unwrap()).unwrap();
    text
}

/// Reads what was written, with the columns that the store has.
fn read_again(text: &[u8], store: &Store) -> Store {
    let records = RecordOptions { fields: store.lifted().to_vec(), ..RecordOptions::default() };
    let options = ReadOptions { format: "native".into(), records, ..ReadOptions::default() };
    from_stream(text, &options, 1)
}

/// Tables that do not say where a trace was read are equal. Of `events` the extras are not compared here: those of
/// the first one have `x_trace`, and the text that is written has them all.
fn same_traces(store: &Store, again: &Store) {
    // The order of measures is that of maps in a document, which says nothing: the text that is written has them all.
    assert_eq!(rows_of(store, "measures"), rows_of(again, "measures"));
    for table in ["events", "edges", "agents"] {
        let [a, b] = [store, again].map(|store| store.combined(table).unwrap());
        for (field, column) in a.schema().fields().iter().zip(a.columns()) {
            if field.name() == "extras" {
                continue;
            }
            if field.name() == "trace" {
                assert_eq!(places(store, table), places(again, table), "{table}.trace");
                continue;
            }
            match b.column_by_name(field.name()) {
                Some(other) => assert_eq!(column, other, "{table}.{}", field.name()),
                None => assert_eq!(column.null_count(), column.len(), "{table}.{} is gone", field.name()),
            }
        }
    }
    let [a, b] = [store, again].map(|store| store.combined("traces").unwrap());
    for column in ["trace_id", "task_id", "group_id", "n_events", "n_edges", "partial", "started_at"] {
        assert_eq!(a.column_by_name(column), b.column_by_name(column), "traces.{column}");
    }
}

/// Of every row of a table, which trace in order it is of: traces of Arrow tables keep the numbers they came with.
fn places(store: &Store, table: &str) -> Vec<usize> {
    let numbered = numbers(&store.combined("traces").unwrap(), "trace");
    let place = |trace: u64| numbered.iter().position(|n| *n == trace).unwrap();
    numbers(&store.combined(table).unwrap(), "trace").into_iter().map(place).collect()
}

/// How many rows a table has.
fn rows_of(store: &Store, table: &str) -> usize {
    store.combined(table).unwrap().num_rows()
}

/// Text that may be a mapping is taken or refused in one line; one that is taken reads records, and they are settled.
pub(crate) fn mappings_are_judged(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (text, records) = match text.split_once('\u{1e}') {
        Some((text, records)) => (text, records.as_bytes()),
        None => (text, HOUSE_RECORDS),
    };
    match Mapping::named(text, "mapping.json") {
        Err(error) => {
            let error = error.to_string();
            assert!(error.starts_with("mapping.json") && printable(&error) == error, "{error}");
        }
        Ok(mapping) => {
            let limits = Limits { depth: 32, string: 1 << 16, lenient: false };
            let options = ReadOptions {
                format: mapping::NAME.into(),
                mapping: Some(mapping),
                unread_fields: true,
                records: RecordOptions { limits, ..RecordOptions::default() },
                ..ReadOptions::default()
            };
            let store = from_stream(records, &options, 1);
            reconciles(&store, extent(records));
            comes_back(&store);
        }
    }
}
