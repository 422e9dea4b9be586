//! Reads texts that lie in memory with one importer, for its tests: through the real reader, on one thread or many.

use super::{Format, SpreadImporter};
use crate::ingest::{Input, ReadOptions, ReadPosition, TraceReader};
use crate::run::Run;
use crate::store::{Store, write_jsonl};

/// The corpus that inputs give, each a path and its text, whatever the importer is sure of.
pub(crate) fn read_texts(importer: &'static dyn SpreadImporter, inputs: &[(&str, &str)]) -> Store {
    let bytes: Vec<(&str, &[u8])> = inputs.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
    read_bytes(Format::Spread(importer), &bytes, &ReadOptions::default(), 1)
}

/// The same for any bytes, options and threads.
pub(crate) fn read_bytes(
    format: Format,
    inputs: &[(&str, &[u8])],
    options: &ReadOptions,
    threads: usize,
) -> Store {
    let inputs = inputs.iter().map(|(path, bytes)| {
        let reader = Box::new(std::io::Cursor::new(bytes.to_vec()));
        (Input::Stream { name: (*path).to_owned(), reader }, ReadPosition::default(), Some(format))
    });
    let run = Run::new(Some(threads)).expect("a thread pool");
    TraceReader::resumed(inputs.collect(), ReadPosition::default(), options.clone())
        .and_then(|reader| reader.with_stems().all(&run))
        .expect("inputs in memory can be read")
}

/// The traces of a corpus as native documents, one a line: what a test compares or looks through.
pub(crate) fn documents(store: &Store) -> Vec<serde_json::Value> {
    let mut out = Vec::new();
    write_jsonl(store, &mut out, &Run::new(Some(1)).expect("a thread pool")).expect("memory takes it");
    let text = String::from_utf8(out).expect("documents are UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("documents are JSON")).collect()
}

/// The counts of a corpus: input, status, kind, number.
pub(crate) fn counts(store: &Store) -> Vec<(String, String, String, u64)> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::UInt64Type;
    let batch = store.combined("record_counts").expect("the table is always there");
    let text = |column: usize, row: usize| {
        crate::store::text_at(batch.column(column), row).unwrap_or_default().to_owned()
    };
    let numbers = batch.column(4).as_primitive::<UInt64Type>();
    (0..batch.num_rows()).map(|i| (text(0, i), text(2, i), text(3, i), numbers.value(i))).collect()
}
