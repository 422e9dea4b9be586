//! Where records begin and end, whatever the framing, the limit and the pieces they come in.

#![allow(clippy::unwrap_used)] // where a test cannot go on, it stops

use std::io::{self, Cursor, Read, Write};

use arrow_array::Array;
use arrow_array::cast::AsArray;
use arrow_array::types::{UInt8Type, UInt64Type};
use orchestrace_core::columns::RecordOptions;
use orchestrace_core::error::{Error, REJECT_CODES};
use orchestrace_core::ingest::{Input, MAX_RECORD, ReadOptions, read};
use orchestrace_core::run::Run;
use orchestrace_core::schema::TABLES;
use orchestrace_core::store::Store;

fn document(id: &str) -> String {
    format!(
        r#"{{"trace_id":"{id}","task_id":"k","events":[{{"id":"e","t":0,"type":"message","agent":"x"}}],"edges":[],"rewards":{{}},"costs":{{"tokens":0,"wall_clock_s":0}}}}"#
    )
}

fn from_stream(bytes: impl Into<Vec<u8>>, options: &ReadOptions) -> Result<Store, Error> {
    let input = Input::Stream { name: "stream".into(), reader: Box::new(Cursor::new(bytes.into())) };
    read(vec![input], options, &Run::new(Some(2)).unwrap())
}

/// Through a plain file, which workers read in ranges.
fn from_file(bytes: &[u8], options: &ReadOptions) -> Store {
    let mut path = std::env::temp_dir();
    path.push(format!("orchestrace-{}-{:?}", std::process::id(), std::thread::current().id()));
    std::fs::write(&path, bytes).unwrap();
    let store = read(vec![Input::Path(path.clone())], options, &Run::new(Some(2)).unwrap()).unwrap();
    std::fs::remove_file(&path).unwrap();
    store
}

/// Code, line, offset and length of every rejected record.
fn rejects(store: &Store) -> Vec<(&'static str, u64, u64, u64)> {
    let batch = store.combined("quarantine").unwrap();
    let number = |column: usize, row: usize| batch.column(column).as_primitive::<UInt64Type>().value(row);
    let codes = batch.column(4).as_dictionary::<UInt8Type>();
    (0..batch.num_rows())
        .map(|row| {
            (REJECT_CODES[codes.keys().value(row) as usize], number(2, row), number(1, row), number(3, row))
        })
        .collect()
}

#[test]
fn an_empty_place_in_an_array_is_a_broken_element() {
    let element = document("a");
    for (text, accepted, rejected) in [
        (format!("[{element},]"), 1, 1),
        (format!("[{element}, ,{}]", document("b")), 2, 1),
        (format!("[,{element}]"), 1, 1),
        ("[,]".to_owned(), 0, 2),
        ("[]".to_owned(), 0, 0),
        (" [ ] ".to_owned(), 0, 0),
    ] {
        let store = from_stream(text.clone(), &ReadOptions::default()).unwrap();
        assert_eq!((store.n_traces(), store.records_quarantined()), (accepted, rejected), "{text}");
        assert!(rejects(&store).iter().all(|r| r.0 == "json.syntax"));
    }
}

#[test]
fn text_after_an_array_is_told_with_its_place() {
    let text = format!("[{}]\n\n  x y\n", document("a"));
    let store = from_stream(text.clone(), &ReadOptions::default()).unwrap();
    assert_eq!(rejects(&store), [("json.trailing", 3, text.find("x y").unwrap() as u64, 3)]);
}

#[test]
fn white_space_does_not_count_against_the_limit() {
    let record = |i: usize| document(&format!("{i:02}"));
    let limit = record(0).len() as u64;
    let spaced = |i: usize| format!("{}{}{}\r\n", " ".repeat(i * 7), record(i), " ".repeat(i));
    let lines = (0..30).map(spaced).collect::<Vec<_>>().concat();
    let long = document("a longer one than the limit");
    let lines = format!("{lines}   {long}   \r\n{}\n{}\n", " ".repeat(5000), record(30));
    let mut seen = None;
    for block_size in [16, 300, 1000, 5000, 4 << 20] {
        let options = ReadOptions { max_record: limit, block_size, ..ReadOptions::default() };
        for store in [from_file(lines.as_bytes(), &options), from_stream(lines.clone(), &options).unwrap()] {
            assert_eq!(store.n_traces(), 31, "{block_size}");
            let rejected = rejects(&store);
            assert_eq!(rejected.len(), 1);
            assert_eq!(
                (rejected[0].0, rejected[0].1, rejected[0].3),
                ("record.too_large", 31, long.len() as u64)
            );
            assert_eq!(*seen.get_or_insert(rejected.clone()), rejected, "{block_size}");
        }
    }
}

#[test]
fn an_element_beyond_the_limit_costs_itself_alone() {
    let (one, long, other) = (document("a"), document(&"b".repeat(3000)), document("c"));
    let text = format!("[{one},\n  {long}  ,{other}]");
    let limit = one.len() as u64;
    for block_size in [16, 500, 4 << 20] {
        let options = ReadOptions { max_record: limit, block_size, ..ReadOptions::default() };
        let store = from_stream(text.clone(), &options).unwrap();
        assert_eq!(store.n_traces(), 2, "{block_size}");
        let place = text.find(&long).unwrap() as u64;
        assert_eq!(rejects(&store), [("record.too_large", 2, place, long.len() as u64)], "{block_size}");
    }
}

#[test]
fn a_record_is_never_longer_than_a_column_can_hold() {
    let options = ReadOptions { max_record: MAX_RECORD + 1, ..ReadOptions::default() };
    let refused = from_stream(document("a"), &options).unwrap_err().to_string();
    assert!(refused.contains("max_record is 2000000001"), "{refused}");
}

#[test]
fn a_document_has_the_line_it_begins_on() {
    let text = "\n\n{\n \"trace_id\": 1\n}\n";
    let store = from_stream(text, &ReadOptions::default()).unwrap();
    assert_eq!(rejects(&store), [("field.type", 3, 2, 18)]);
    let spread_out = document("a").replacen('{', "{\n", 1);
    let length = spread_out.len() as u64;
    for (max_record, accepted) in [(length, 1), (length - 1, 0), (MAX_RECORD, 1)] {
        let options = ReadOptions { max_record, ..ReadOptions::default() };
        assert_eq!(from_stream(format!("{spread_out}\n\n"), &options).unwrap().n_traces(), accepted);
    }
}

#[test]
fn zeros_after_a_gzip_member_are_padding() {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(document("a").as_bytes()).unwrap();
    let member = encoder.finish().unwrap();
    for padding in [0, 1, 512, 300_000] {
        let bytes = [member.clone(), vec![0; padding]].concat();
        let store = from_stream(bytes, &ReadOptions::default()).unwrap();
        assert_eq!((store.n_traces(), store.records_quarantined()), (1, 0), "{padding}");
    }
}

/// Fails after its bytes, as a network does.
struct Failing(Cursor<Vec<u8>>);

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => Err(io::Error::other("the line went dead")),
            n => Ok(n),
        }
    }
}

#[test]
fn a_failing_reader_fails_the_call_compressed_or_not() {
    let text = format!("{}\n", document("a")).repeat(2000);
    for bytes in [text.clone().into_bytes(), zstd::encode_all(text.as_bytes(), 1).unwrap()] {
        let half = bytes[..bytes.len() / 2].to_vec();
        let input = Input::Stream { name: "net".into(), reader: Box::new(Failing(Cursor::new(half))) };
        let error = read(vec![input], &ReadOptions::default(), &Run::new(Some(1)).unwrap()).unwrap_err();
        assert!(error.to_string().contains("the line went dead"), "{error}");
    }
}

#[test]
fn a_rejected_record_leaves_no_column() {
    let bad =
        document("a").replace(r#""agent":"x""#, r#""agent":"x","score":0.5,"model":"m","type":"message""#);
    let text = format!("{}\n{}\n{bad}\n", document("a"), document("b"));
    let want = from_stream(text.clone(), &ReadOptions::default()).unwrap();
    assert_eq!(want.records_quarantined(), 1);
    assert!(want.table_schema("events").unwrap().column_with_name("score").is_none());
    for block_size in [1, 100, 300, 1000] {
        let store = from_stream(text.clone(), &ReadOptions { block_size, ..ReadOptions::default() }).unwrap();
        for table in TABLES {
            assert_eq!(want.combined(table.name).unwrap(), store.combined(table.name).unwrap());
        }
    }
}

#[test]
fn white_space_to_the_end_is_looked_at_once() {
    // Quadratic in the number of records, this would not come back.
    let text = "{}\n".repeat(200_000) + &" ".repeat(3 << 20);
    let store = from_stream(text, &ReadOptions::default()).unwrap();
    assert_eq!(store.records_quarantined(), 200_000);
}

#[test]
fn messages_have_a_length() {
    let edge = format!(r#""edges":[{{"src":"{}","dst":"e","type":"causal"}}]"#, "s".repeat(1 << 20));
    let store = from_stream(document("a").replace(r#""edges":[]"#, &edge), &ReadOptions::default()).unwrap();
    let batch = store.combined("quarantine").unwrap();
    assert!(batch.column(6).as_string_view().value(0).len() < 500);
    let records = RecordOptions { excerpt: 0, ..RecordOptions::default() };
    let private = ReadOptions { records, ..ReadOptions::default() };
    let store = from_stream(r#"{"secret word":1}"#, &private).unwrap();
    let batch = store.combined("quarantine").unwrap();
    for column in 5..9 {
        let column = batch.column(column);
        let shown = column.as_string_view_opt().map_or("", |c| c.value(0));
        assert!(column.is_valid(0) && !shown.contains("secret"), "{shown}");
    }
}
