//! What the tests of importers share: reading texts that lie in memory, through the real reader, on one thread or
//! many, and saying what became of them.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value as Json;

use super::hex::hex;
use super::recording::hash;
use super::{Format, Native, SpreadImporter};
use crate::ingest::{Input, ReadOptions, ReadPosition, TraceReader};
use crate::run::Run;
use crate::store::{Store, text_at, write_jsonl};

/// The corpus that inputs give, each a path and its text, whatever the importer is sure of.
pub(crate) fn read_texts(importer: &'static dyn SpreadImporter, inputs: &[(&str, &str)]) -> Store {
    let bytes: Vec<(&str, &[u8])> = inputs.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
    read_bytes(Format::Spread(importer), &bytes, &ReadOptions::default(), 1)
}

/// The same, once the native importer has accepted its traces too.
pub(crate) fn read_checked(importer: &'static dyn SpreadImporter, inputs: &[(&str, &str)]) -> Store {
    let store = read_texts(importer, inputs);
    traces(&store);
    store
}

/// The same as [`read_texts`] for any bytes, options and threads.
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

/// Records as lines.
pub(crate) fn lines(records: &[Json]) -> String {
    records.iter().flat_map(|record| [record.to_string(), "\n".into()]).collect()
}

/// A value with members put in.
pub(crate) fn with(mut value: Json, members: Json) -> Json {
    let Json::Object(members) = members else { panic!("{members} has no members") };
    value.as_object_mut().expect("an object").extend(members);
    value
}

/// The traces of a corpus as native documents, one a line: what a test compares or looks through.
pub(crate) fn documents(store: &Store) -> Vec<Json> {
    let mut out = Vec::new();
    write_jsonl(store, &mut out, &Run::new(Some(1)).expect("a thread pool")).expect("memory takes it");
    let text = String::from_utf8(out).expect("documents are UTF-8");
    text.lines().map(|line| serde_json::from_str(line).expect("documents are JSON")).collect()
}

/// The same, which the native importer accepts too.
pub(crate) fn traces(store: &Store) -> Vec<Json> {
    let documents = documents(store);
    let text = lines(&documents);
    let native = Format::Whole(&Native);
    let back = read_bytes(native, &[("back", text.as_bytes())], &ReadOptions::default(), 1);
    assert_eq!((back.n_traces(), back.records_quarantined()), (documents.len(), 0));
    documents
}

/// The one trace of a corpus.
pub(crate) fn only(store: &Store) -> Json {
    let mut documents = documents(store);
    assert_eq!(documents.len(), 1);
    documents.remove(0)
}

/// The events of a trace, each by the values of some keys, with `-` where there is none.
pub(crate) fn fields(trace: &Json, keys: &[&str]) -> Vec<String> {
    let text = |event: &Json, key: &str| match &event[key] {
        Json::Null => "-".to_owned(),
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let list = trace["events"].as_array().expect("a list of events").iter();
    list.map(|event| keys.iter().map(|key| text(event, key)).collect::<Vec<_>>().join(" ")).collect()
}

/// The events of a trace as `id type agent to`.
pub(crate) fn events(trace: &Json) -> Vec<String> {
    fields(trace, &["id", "type", "agent", "to"])
}

/// The event of an id.
pub(crate) fn event<'a>(trace: &'a Json, id: &str) -> &'a Json {
    let mut list = trace["events"].as_array().expect("a list of events").iter();
    list.find(|event| event["id"] == id).unwrap_or_else(|| panic!("no event {id} in {:?}", events(trace)))
}

/// The edges of one type as `src dst`.
pub(crate) fn edges_of(trace: &Json, kind: &str) -> BTreeSet<String> {
    let list = trace["edges"].as_array().expect("a list of edges").iter().filter(|edge| edge["type"] == kind);
    list.map(|edge| ["src", "dst"].map(|key| edge[key].as_str().expect(key)).join(" ")).collect()
}

/// Texts as [`edges_of`] gives them.
pub(crate) fn set(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

/// Whether a trace is said to lack something.
pub(crate) fn is_partial(trace: &Json) -> bool {
    trace["events"][0]["x_trace"]["partial"] == true
}

/// The counts of a corpus: input, status, kind, number.
pub(crate) fn counts(store: &Store) -> Vec<(String, String, String, u64)> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::UInt64Type;
    let batch = store.combined("record_counts").expect("the table is always there");
    let text = |column: usize, row: usize| text_at(batch.column(column), row).unwrap_or_default().to_owned();
    let numbers = batch.column(4).as_primitive::<UInt64Type>();
    (0..batch.num_rows()).map(|i| (text(0, i), text(2, i), text(3, i), numbers.value(i))).collect()
}

/// Numbers of records over all inputs by what became of them: their kind, else their status.
pub(crate) fn fates(store: &Store) -> BTreeMap<String, u64> {
    let mut out = BTreeMap::new();
    for (_, status, kind, n) in counts(store) {
        *out.entry(if kind.is_empty() { status } else { kind }).or_default() += n;
    }
    out
}

/// One column of texts of a table, from first to last row.
pub(crate) fn column(store: &Store, table: &str, name: &str) -> Vec<String> {
    let batch = store.combined(table).expect("a table of this name");
    let array = batch.column_by_name(name).expect("a column of this name");
    (0..batch.num_rows()).map(|row| text_at(array, row).unwrap_or_default().to_owned()).collect()
}

/// What a text is known by in documents.
pub(crate) fn content_ref(text: &str) -> String {
    format!("sha256:{}", hex(&hash(text)))
}

/// Asserts that any prefix of lines can be read, and that lines in another order, in two files, give the same traces.
pub(crate) fn holds_up(read: impl Fn(&[(&str, &str)]) -> Store, text: &str) {
    for end in (0..text.len()).step_by(7).filter(|end| text.is_char_boundary(*end)) {
        read(&[("x.jsonl", &text[..end])]);
    }
    let mut lines: Vec<&str> = text.lines().collect();
    lines.reverse();
    let (one, other) = lines.split_at(lines.len() / 2);
    let (one, other) = (one.join("\n"), other.join("\n"));
    let shuffled = read(&[("b.jsonl", &one), ("a.jsonl", &other)]);
    assert_eq!(documents(&read(&[("x.jsonl", text)])), documents(&shuffled));
}
