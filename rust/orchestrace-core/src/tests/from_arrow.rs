//! Tables that come back from elsewhere are judged like documents, and what they change is what is written.

#![allow(clippy::unwrap_used)] // where a test cannot go on, it stops

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::builder::{Float64Builder, LargeListBuilder};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt8Type, UInt32Type};
use arrow_array::{
    Array as _, ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, StringViewArray, UInt32Array,
    new_null_array,
};
use arrow_schema::{DataType, Field, Schema};
use orchestrace_core::assembly::{Codes, Tables};
use orchestrace_core::columns::LiftKind;
use orchestrace_core::columns::RecordOptions;
use orchestrace_core::error::{Error, FINDING_CODES, Result};
use orchestrace_core::ingest::{Input, ReadOptions, read};
use orchestrace_core::run::Run;
use orchestrace_core::schema::MEASURE_KINDS;
use orchestrace_core::store::{Store, write_jsonl};
use serde_json::{Value, json};

use super::invariants::tables::goes_alike_either_way;

fn run() -> Run {
    Run::new(Some(2)).unwrap()
}

fn read_lines(lines: &[String], options: &ReadOptions) -> Store {
    let reader = Box::new(Cursor::new(lines.join("\n").into_bytes()));
    read(vec![Input::Stream { name: "lines".into(), reader }], options, &run()).unwrap()
}

/// A trace of two events; `first` and `second` are further members of them.
fn document(id: &str, first: &Value, second: &Value) -> Value {
    let event = |id: &str, t: u32, more: &Value| {
        let mut event = json!({"id": id, "t": t, "type": "message", "agent": "a"});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    json!({
        "trace_id": id, "task_id": "task",
        "events": [event("e0", 0, first), event("e1", 1, second)],
        "edges": [{"src": "e0", "dst": "e1", "type": "causal"}],
        "rewards": {"team": 1}, "costs": {"tokens": 3, "wall_clock_s": 1}
    })
}

fn store(documents: &[Value]) -> Store {
    let lines: Vec<String> = documents.iter().map(Value::to_string).collect();
    let store = read_lines(&lines, &ReadOptions::default());
    assert_eq!(store.n_traces(), documents.len());
    store
}

fn plain() -> Store {
    store(&[document("x", &json!({}), &json!({})), document("y", &json!({}), &json!({}))])
}

fn tables(store: &Store) -> Tables {
    let table = |name: &str| store.combined(name).unwrap();
    Tables {
        traces: table("traces"),
        events: table("events"),
        edges: table("edges"),
        measures: Some(table("measures")),
        labels: Some(table("labels")),
        findings: Some(table("findings")),
        quarantine: Some(table("quarantine")),
        record_counts: Some(table("record_counts")),
    }
}

/// The batch with a column replaced, or added at the end.
fn with(batch: &RecordBatch, name: &str, column: ArrayRef) -> RecordBatch {
    let schema = batch.schema();
    let mut fields: Vec<Arc<Field>> = schema.fields().iter().cloned().collect();
    let mut columns = batch.columns().to_vec();
    let field = Arc::new(Field::new(name, column.data_type().clone(), true));
    if let Some(i) = schema.fields().iter().position(|f| f.name() == name) {
        fields[i] = field;
        columns[i] = column;
    } else {
        fields.push(field);
        columns.push(column);
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

fn floats(values: &[Option<f64>]) -> ArrayRef {
    Arc::new(Float64Array::from(values.to_vec()))
}

fn ints(values: &[Option<i64>]) -> ArrayRef {
    Arc::new(Int64Array::from(values.to_vec()))
}

fn texts(values: &[Option<&str>]) -> ArrayRef {
    Arc::new(StringViewArray::from(values.to_vec()))
}

fn lists(values: &[Option<&[Option<f64>]>]) -> ArrayRef {
    let mut lists = LargeListBuilder::new(Float64Builder::new());
    for value in values {
        match value {
            Some(list) => {
                list.iter().for_each(|x| lists.values().append_option(*x));
                lists.append(true);
            }
            None => lists.append(false),
        }
    }
    Arc::new(lists.finish())
}

/// The words of a schema error, which is one line.
fn refused(result: Result<Store>) -> String {
    match result {
        Err(Error::Schema(message)) => {
            assert!(!message.contains('\n'), "{message}");
            message
        }
        other => panic!("expected a schema error, found {other:?}"),
    }
}

fn written(store: &Store) -> Vec<Value> {
    let mut text = Vec::new();
    write_jsonl(store, &mut text, &run()).unwrap();
    let lines = text.split(|b| *b == b'\n').filter(|line| !line.is_empty());
    lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
}

/// Rows of `measures` in an order of their own: that of the maps in a document says nothing.
fn measure_rows(store: &Store) -> Vec<String> {
    let batch = store.combined("measures").unwrap();
    let (kinds, names) = (batch.column(1).as_dictionary::<UInt8Type>(), batch.column(2));
    let names = names.as_dictionary::<UInt32Type>();
    let name = |row: usize| names.values().as_string::<i32>().value(names.keys().value(row) as usize);
    let (traces, values) =
        (batch.column(0).as_primitive::<UInt32Type>(), batch.column(3).as_primitive::<Float64Type>());
    let mut rows: Vec<String> = (0..batch.num_rows())
        .map(|i| {
            let kind = MEASURE_KINDS[kinds.keys().value(i) as usize];
            format!("{} {kind} {} {:?}", traces.value(i), name(i), values.value(i))
        })
        .collect();
    rows.sort();
    rows
}

/// What is written is read as the same tables.
fn comes_back(store: &Store) {
    let mut text = Vec::new();
    write_jsonl(store, &mut text, &run()).unwrap();
    let lines: Vec<String> = String::from_utf8(text).unwrap().lines().map(str::to_owned).collect();
    let again = read_lines(&lines, &ReadOptions::default());
    assert_eq!(again.records_quarantined(), 0);
    assert_eq!(measure_rows(&again), measure_rows(store));
    for column in ["trace_id", "group_id", "importer", "time_basis", "started_at", "partial"] {
        let of = |store: &Store| format!("{:?}", store.combined("traces").unwrap().column_by_name(column));
        assert_eq!(of(&again), of(store), "{column}");
    }
}

#[test]
fn what_is_untouched_is_taken_over() {
    let extension = json!({"score": 0.5, "p_actions": [0.5, 0.5], "tokens": 3, "duration_s": 0, "mine": [1]});
    let before = store(&[document("x", &extension, &json!({})), document("y", &json!({}), &extension)]);
    let after = Store::from_arrow(&tables(&before), &run()).unwrap();
    for table in ["traces", "events", "edges", "agents", "measures", "findings"] {
        assert_eq!(before.combined(table).unwrap(), after.combined(table).unwrap(), "{table}");
    }
    assert_eq!(written(&before), written(&after));
    assert_eq!(after.records_read(), 2);
}

#[test]
fn values_that_json_does_not_have_or_reading_refuses_are_refused() {
    let plain_tables = tables(&plain());
    let long: &[Option<f64>] = &[Some(0.5), None];
    let nan: &[Option<f64>] = &[Some(f64::NAN)];
    let cases: Vec<(&str, ArrayRef, &str)> = vec![
        ("score", floats(&[None, None, None, Some(f64::NAN)]), "is NaN, expected a finite number"),
        ("reward", floats(&[None, None, None, Some(f64::INFINITY)]), "is inf, expected a finite number"),
        ("t_end", floats(&[None, None, None, Some(f64::NEG_INFINITY)]), "is -inf, expected a finite number"),
        ("duration_s", floats(&[None, None, None, Some(-1.0)]), "is -1, expected at least 0"),
        ("tokens", ints(&[None, None, None, Some(-2)]), "is -2, expected at least 0"),
        ("tokens_in", ints(&[None, None, None, Some(-3)]), "is -3, expected at least 0"),
        (
            "p_actions",
            lists(&[None, None, None, Some(long)]),
            "has null at position 1, expected a finite number",
        ),
        (
            "p_actions",
            lists(&[None, None, None, Some(nan)]),
            "has NaN at position 0, expected a finite number",
        ),
        ("mine", floats(&[None, None, None, Some(f64::NAN)]), "is NaN, expected a finite number"),
    ];
    for (name, column, what) in cases {
        let events = with(&plain_tables.events, name, column);
        let message = refused(Store::from_arrow(&Tables { events, ..tables(&plain()) }, &run()));
        assert_eq!(message, format!("events.{name} of trace 1 (row 3) {what}"));
    }
}

#[test]
fn extras_that_cannot_be_written_are_refused() {
    let events_with_extras = with(&tables(&plain()).events, "score", floats(&[None, None, Some(1.0), None]));
    let events_with_extras = with(&events_with_extras, "mine", ints(&[None, None, Some(7), None]));
    let of = |extras: &str| {
        let events = with(&events_with_extras, "extras", texts(&[None, None, Some(extras), None]));
        Store::from_arrow(&Tables { events, ..tables(&plain()) }, &run())
    };
    for (extras, what) in [
        (r#"{"id":"other"}"#, "has the key 'id', which is a column of events"),
        (r#"{"role":3}"#, "has the key 'role', which is a column of events"),
        (r#"{"b":1,"b":2}"#, "has the key 'b' twice"),
        ("[1]", "is not a JSON object"),
        ("", "is not a JSON object"),
        (r#"{"b":NaN}"#, "is not a JSON object"),
        (r#"{"b":1}}"#, "is not a JSON object"),
        (r#"{"b":1"#, "is not a JSON object"),
    ] {
        let message = refused(of(extras));
        assert!(
            message.starts_with(&format!("events.extras of trace 1 (row 2) {what}")),
            "{extras}: {message}"
        );
    }
    // A value of the column replaces the one that did not fit it, whatever the spelling of the key.
    for extras in [r#"{"score":"bad","n":1}"#, r#"{"n":1,"sc\u006fre":null}"#, r#"{"mine":"x","n":1}"#] {
        let event = written(&of(extras).unwrap())[1]["events"][0].clone();
        assert_eq!(
            (&event["score"], &event["mine"], &event["n"]),
            (&json!(1), &json!(7), &json!(1)),
            "{extras}"
        );
    }
    // White space, and a field of the wrong type whose column is null, are fine.
    let store = of(" {\"value\" : \"bad\", \"n\":\n{\"id\": 1}} ").unwrap();
    let first = &written(&store)[1]["events"][0];
    assert_eq!(
        *first,
        json!({"id": "e0", "t": 0, "type": "message", "agent": "a", "score": 1, "mine": 7,
               "value": "bad", "n": {"id": 1}})
    );
}

#[test]
fn lifted_columns_have_names_of_their_own() {
    let events = with(&tables(&plain()).events, "x_trace", texts(&[Some("a"); 4]));
    let message = refused(Store::from_arrow(&Tables { events, ..tables(&plain()) }, &run()));
    assert!(message.contains("events.x_trace"), "{message}");
    let events = tables(&plain()).events;
    let twice = with(&with(&events, "mine", texts(&[Some("a"); 4])), "other", texts(&[Some("b"); 4]));
    let mut fields: Vec<Field> = twice.schema().fields().iter().map(|f| f.as_ref().clone()).collect();
    fields.last_mut().unwrap().set_name("mine");
    let events = RecordBatch::try_new(Arc::new(Schema::new(fields)), twice.columns().to_vec()).unwrap();
    let message = refused(Store::from_arrow(&Tables { events, ..tables(&plain()) }, &run()));
    assert_eq!(message, "column events.mine occurs twice");
}

#[test]
fn ids_are_not_empty() {
    for column in ["trace_id", "task_id"] {
        let traces = with(&tables(&plain()).traces, column, texts(&[Some("x"), Some("")]));
        let message = refused(Store::from_arrow(&Tables { traces, ..tables(&plain()) }, &run()));
        assert_eq!(message, format!("traces.{column} of trace 1 (row 1) is empty"));
        let nulls = new_null_array(&DataType::Utf8View, 2);
        let traces = with(&tables(&plain()).traces, column, nulls);
        let message = refused(Store::from_arrow(&Tables { traces, ..tables(&plain()) }, &run()));
        assert_eq!(message, format!("column traces.{column} has nulls"));
    }
}

fn measures(rows: &[(u32, &str, &str, f64)]) -> RecordBatch {
    RecordBatch::try_from_iter([
        ("trace", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.0))) as ArrayRef),
        ("kind", Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.1)))),
        ("name", Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.2)))),
        ("value", Arc::new(Float64Array::from_iter_values(rows.iter().map(|r| r.3)))),
    ])
    .unwrap()
}

#[test]
fn measures_are_judged_like_those_of_a_document() {
    let of = |rows: &[(u32, &str, &str, f64)]| {
        Store::from_arrow(&Tables { measures: Some(measures(rows)), ..tables(&plain()) }, &run())
    };
    for (rows, want) in [
        (
            &[(0, "reward", "team", 1.0), (1, "reward", "team", f64::NAN)][..],
            "measures.value of trace 1 (row 1) is NaN, expected a finite number",
        ),
        (
            &[(1, "metric", "m", f64::INFINITY)],
            "measures.value of trace 1 (row 0) is inf, expected a finite number",
        ),
        (&[(1, "cost", "tokens", -1.0)], "measures.value of trace 1 (row 0) is -1, expected at least 0"),
        (
            &[
                (0, "reward", "a", 1.0),
                (1, "reward", "b", 1.0),
                (1, "cost", "b", 1.0),
                (1, "reward", "b", 1.0),
            ],
            "measures.name of trace 1 (row 3) repeats 'b', already a reward of the trace in row 1",
        ),
    ] {
        assert_eq!(refused(of(rows)), want);
    }
    let store = of(&[(0, "reward", "b", -1.0), (0, "metric", "b", -2.0), (1, "reward", "b", 0.0)]).unwrap();
    comes_back(&store);
    let nulls = new_null_array(&DataType::Float64, 1);
    let null_measures = with(&measures(&[(0, "reward", "a", 1.0)]), "value", nulls);
    let message =
        refused(Store::from_arrow(&Tables { measures: Some(null_measures), ..tables(&plain()) }, &run()));
    assert_eq!(message, "column measures.value has nulls");
}

const KNOWN: &str = r#"{"group_id":"g7","time_basis":"seconds","started_at":"2026-01-02T03:04:05Z","importer":"who_and_when","partial":true,"unknown_costs":["tokens"],"theirs":{"a":[1]}}"#;

fn carrying(x_trace: &Value) -> Value {
    let mut document = document("x", &json!({"mine": 1, "x_trace": x_trace, "other": 2}), &json!({}));
    document["costs"]["tokens"] = json!(0);
    document
}

fn x_trace_of_reading() -> Value {
    serde_json::from_str(KNOWN).unwrap()
}

#[test]
fn an_x_trace_that_still_holds_comes_back_as_it_was() {
    for x_trace in [
        x_trace_of_reading(),
        json!({"group_id": "g7"}),
        json!({"unknown_costs": ["tokens", 3, "other"], "theirs": 1}),
        json!({"group_id": 3, "time_basis": "weekly", "partial": null, "unknown_costs": "tokens"}),
        json!({}),
        json!(5),
        json!(["tokens"]),
    ] {
        let document = carrying(&x_trace);
        let before = store(std::slice::from_ref(&document));
        assert_eq!(written(&before), std::slice::from_ref(&document), "{x_trace}");
        let after = Store::from_arrow(&tables(&before), &run()).unwrap();
        assert_eq!(written(&after), [document], "{x_trace}");
        comes_back(&after);
    }
}

#[test]
fn an_x_trace_that_the_tables_contradict_is_written_anew() {
    let before = store(&[carrying(&x_trace_of_reading())]);
    let original = tables(&before);
    let x_trace = |original: &Tables| {
        let after = Store::from_arrow(original, &run()).unwrap();
        comes_back(&after);
        let event = written(&after)[0]["events"][0].clone();
        assert_eq!((&event["mine"], &event["other"]), (&json!(1), &json!(2)));
        event["x_trace"].clone()
    };
    let expect = |key: &str, value: Value| {
        let mut facts = x_trace_of_reading();
        facts[key] = value;
        facts
    };

    let regrouped =
        Tables { traces: with(&original.traces, "group_id", texts(&[Some("h")])), ..tables(&before) };
    assert_eq!(x_trace(&regrouped), expect("group_id", json!("h")));

    // A cost that was unknown is now known to be nothing.
    let counted =
        measures(&[(0, "reward", "team", 1.0), (0, "cost", "tokens", 0.0), (0, "cost", "wall_clock_s", 1.0)]);
    let mut want = x_trace_of_reading();
    want.as_object_mut().unwrap().remove("unknown_costs");
    assert_eq!(x_trace(&Tables { measures: Some(counted), ..tables(&before) }), want);

    // And one that was known no longer is.
    let lost = measures(&[(0, "reward", "team", 1.0)]);
    let want = expect("unknown_costs", json!(["tokens", "wall_clock_s"]));
    assert_eq!(x_trace(&Tables { measures: Some(lost), ..tables(&before) }), want);

    for (column, array, value) in [
        ("importer", texts(&[Some("mine")]), json!("mine")),
        ("time_basis", texts(&[Some("ordinal")]), json!("ordinal")),
    ] {
        let traces = with(&original.traces, column, array);
        assert_eq!(x_trace(&Tables { traces, ..tables(&before) }), expect(column, value));
    }
}

#[test]
fn an_x_trace_with_nothing_left_to_say_goes() {
    for (x_trace, want) in [
        (json!({"group_id": "g7"}), Value::Null),
        (json!({"group_id": "g7", "theirs": 1}), json!({"theirs": 1})),
    ] {
        let mut document = document("x", &json!({"x_trace": x_trace}), &json!({}));
        let before = store(std::slice::from_ref(&document));
        let traces = with(&tables(&before).traces, "group_id", texts(&[Some("task")]));
        let after = Store::from_arrow(&Tables { traces, ..tables(&before) }, &run()).unwrap();
        let event = document["events"][0].as_object_mut().unwrap();
        event.remove("x_trace");
        if !want.is_null() {
            event.insert("x_trace".into(), want);
        }
        assert_eq!(written(&after), [document]);
        comes_back(&after);
    }
}

fn findings(store: &Store) -> Vec<(u32, String, u32, Option<u32>, String)> {
    let batch = store.combined("findings").unwrap();
    let numbers = |name: &str| {
        let column = batch.column_by_name(name).unwrap();
        column.as_primitive::<UInt32Type>().clone()
    };
    let (traces, counts, seqs) = (numbers("trace"), numbers("count"), numbers("seq"));
    let codes = batch.column_by_name("code").unwrap();
    let codes = codes.as_dictionary::<UInt8Type>();
    let messages = batch.column_by_name("message").unwrap();
    let messages = messages.as_string_view();
    (0..batch.num_rows())
        .map(|i| {
            let code = FINDING_CODES[codes.keys().value(i) as usize];
            let seq = seqs.is_valid(i).then(|| seqs.value(i));
            (traces.value(i), code.to_owned(), counts.value(i), seq, messages.value(i).to_owned())
        })
        .collect()
}

#[test]
fn a_conflict_of_groups_follows_the_groups() {
    let before = store(&[
        document("x", &json!({"group_id": "g"}), &json!({"group_id": "h"})),
        document("y", &json!({"group_id": "g"}), &json!({"group_id": "h"})),
    ]);
    let conflict = |trace: u32| {
        let message = "found group_id 'h' beside 'g'; 'g' is used".to_owned();
        (trace, "group.conflict".to_owned(), 1, Some(1), message)
    };
    assert_eq!(findings(&before), [conflict(0), conflict(1)]);
    // As given, with the groups that were settled: neither lost nor counted twice.
    let same = Store::from_arrow(&tables(&before), &run()).unwrap();
    assert_eq!(findings(&same), findings(&before));
    // Settled again for the first trace: with the same events the same conflict, else as they say now.
    let traces = with(&tables(&before).traces, "group_id", texts(&[None, Some("g")]));
    let again = Tables { traces: traces.clone(), ..tables(&before) };
    assert_eq!(findings(&Store::from_arrow(&again, &run()).unwrap()), findings(&before));
    let events =
        with(&tables(&before).events, "group_id", texts(&[Some("h"), Some("h"), Some("g"), Some("h")]));
    let again = Store::from_arrow(&Tables { traces, events, ..tables(&before) }, &run()).unwrap();
    assert_eq!(findings(&again), [conflict(1)]);
}

fn finding_rows(rows: &[(u32, &str, u32, &str)]) -> RecordBatch {
    RecordBatch::try_from_iter([
        ("trace", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.0))) as ArrayRef),
        ("code", Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.1)))),
        ("count", Arc::new(UInt32Array::from_iter_values(rows.iter().map(|r| r.2)))),
        ("message", Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.3)))),
    ])
    .unwrap()
}

#[test]
fn findings_keep_their_own_counts() {
    let of = |rows: &[(u32, &str, u32, &str)]| {
        Store::from_arrow(&Tables { findings: Some(finding_rows(rows)), ..tables(&plain()) }, &run())
    };
    let store = of(&[
        (0, "clock.skew", 3, "first"),
        (0, "usage.repeated", 5, "other"),
        (0, "clock.skew", 4, "second"),
        (1, "clock.skew", 7, "of another trace"),
    ])
    .unwrap();
    let row =
        |trace, code: &str, count, message: &str| (trace, code.to_owned(), count, None, message.to_owned());
    assert_eq!(
        findings(&store),
        [
            row(0, "clock.skew", 7, "first"),
            row(0, "usage.repeated", 5, "other"),
            row(1, "clock.skew", 7, "of another trace"),
        ]
    );
    let message = refused(of(&[(0, "clock.skew", 3, "kept"), (1, "usage.repeated", 0, "none")]));
    assert_eq!(message, "findings.count of trace 1 (row 1) is 0, expected at least 1");
}

#[test]
fn records_reconcile_whatever_becomes_of_a_corpus() {
    let mut lines: Vec<String> =
        ["x", "y", "z"].map(|id| document(id, &json!({}), &json!({})).to_string()).to_vec();
    lines.insert(1, "{broken".into());
    let read = read_lines(&lines, &ReadOptions::default());
    assert_eq!((read.records_read(), read.records_quarantined()), (4, 1));
    let filtered = read.filter(&[0, 2]).unwrap();
    assert_eq!((filtered.n_traces(), filtered.records_read(), filtered.records_quarantined()), (2, 4, 1));
    assert_eq!(read.filter(&[]).unwrap().records_read(), 4);
    for store in [&read, &filtered] {
        let again = Store::from_arrow(&tables(store), &run()).unwrap();
        assert_eq!(again.records_read(), store.records_read());
        assert_eq!(again.combined("record_counts").unwrap(), store.combined("record_counts").unwrap());
        // Without the counts a record is what the other tables show of it.
        let plain = Tables { record_counts: None, ..tables(store) };
        let plain = Store::from_arrow(&plain, &run()).unwrap();
        assert_eq!(plain.records_read(), (store.n_traces() + store.records_quarantined()) as u64);
    }
}

#[test]
fn lifted_fields_of_the_wrong_type_stay_in_extras() {
    let lines = [document("x", &json!({"mine": 1}), &json!({"mine": "one"})).to_string()];
    let fields = vec![("mine".into(), LiftKind::I64)];
    let records = RecordOptions { fields, ..RecordOptions::default() };
    let options = ReadOptions { records, ..ReadOptions::default() };
    let before = read_lines(&lines, &options);
    let after = Store::from_arrow(&tables(&before), &run()).unwrap();
    assert_eq!(written(&after), [serde_json::from_str::<Value>(&lines[0]).unwrap()]);
}

/// The batch with codes in place of names and words, `names` being the list of all names.
fn coded(batch: &RecordBatch, names: &mut Vec<String>) -> RecordBatch {
    let columns: Vec<ArrayRef> = batch
        .columns()
        .iter()
        .map(|column| match column.data_type() {
            DataType::Dictionary(key, _) if **key == DataType::UInt8 => {
                Arc::new(column.as_dictionary::<UInt8Type>().keys().clone()) as ArrayRef
            }
            DataType::Dictionary(..) => {
                let column = column.as_dictionary::<UInt32Type>();
                let first = names.len() as u32;
                names.extend(column.values().as_string::<i32>().iter().flatten().map(str::to_owned));
                Arc::new(column.keys().unary::<_, UInt32Type>(|code| code + first))
            }
            _ => Arc::clone(column),
        })
        .collect();
    let schema = batch.schema();
    let fields = schema.fields().iter().zip(&columns);
    let fields: Vec<Field> =
        fields.map(|(field, column)| Field::new(field.name(), column.data_type().clone(), true)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

#[test]
fn names_and_words_may_come_as_codes() {
    let extension = json!({"to": "b", "tool": "t", "role": "r", "x_model": "m", "x_action": "go"});
    let before = store(&[document("x", &extension, &json!({})), document("y", &json!({}), &extension)]);
    let (plain, mut names) = (tables(&before), vec!["nobody".to_owned()]);
    let all = [
        ("traces", coded(&plain.traces, &mut names)),
        ("events", coded(&plain.events, &mut names)),
        ("edges", coded(&plain.edges, &mut names)),
        ("measures", coded(plain.measures.as_ref().unwrap(), &mut names)),
    ];
    let codes = |names: &[String]| {
        let name: ArrayRef = Arc::new(StringViewArray::from_iter_values(names));
        let code: ArrayRef = Arc::new(UInt32Array::from_iter_values(0..names.len() as u32));
        Codes::new(&RecordBatch::try_from_iter([("code", code), ("name", name)]).unwrap()).unwrap()
    };
    let all_names = codes(&names);
    let [traces, events, edges, measures] =
        all.each_ref().map(|(table, batch)| all_names.named(table, batch).unwrap());
    let after =
        Store::from_arrow(&Tables { traces, events, edges, measures: Some(measures), ..plain }, &run());
    let after = after.unwrap();
    for table in ["traces", "events", "edges", "agents", "measures", "findings"] {
        assert_eq!(before.combined(table).unwrap(), after.combined(table).unwrap(), "{table}");
    }
    let message = match codes(&names[..1]).named("events", &all[1].1) {
        Err(Error::Schema(message)) => message,
        other => panic!("expected a schema error, found {other:?}"),
    };
    assert_eq!(message, "events.agent has a code that no name has");
}

#[test]
fn events_go_alike_by_column_and_one_by_one() {
    // Values that one way or the other refuses, in the second of two traces; and in the second of many pieces.
    let cases: Vec<(&str, ArrayRef)> = vec![
        ("score", floats(&[Some(0.5), None, None, Some(f64::NAN)])),
        ("duration_s", floats(&[None, None, Some(2.0), Some(-1.0)])),
        ("x_own", floats(&[Some(f64::INFINITY), None, None, None])),
        ("tokens", ints(&[None, None, None, Some(-2)])),
        ("own", ints(&[None, None, None, Some(-2)])),
        ("p_actions", lists(&[None, None, Some(&[Some(0.5), None]), None])),
        ("extras", texts(&[None, Some(" {\"mine\":1} "), Some("{}"), None])),
        ("extras", texts(&[None, None, None, Some("[1]")])),
        ("extras", texts(&[None, Some("{\"score\":1}"), None, None])),
        ("id", texts(&[Some("a"), Some("b"), Some(""), Some("b")])),
        ("id", texts(&[Some("a"), Some("b"), Some("b"), Some("b")])),
        ("id", texts(&[Some("a"), Some("b"), Some("longer than twelve"), Some("another long one")])),
        ("t", floats(&[Some(0.0), Some(-1.0), Some(0.0), Some(1.0)])),
        ("seq", Arc::new(UInt32Array::from(vec![0, 1, 1, 0]))),
    ];
    for (column, values) in cases {
        let tables = tables(&plain());
        goes_alike_either_way(&Tables { events: with(&tables.events, column, values), ..tables });
    }
    let documents: Vec<Value> = (0..40_000)
        .map(|i| {
            let name = format!("agent {}", i % 7_001);
            document(
                &format!("t{i}"),
                &json!({"to": name, "x_tokens_out": i}),
                &json!({"score": 0.5, "ok": i % 3 == 0}),
            )
        })
        .collect();
    goes_alike_either_way(&tables(&store(&documents)));
    // A group that no trace names is found among its events.
    let tables = tables(&store(&[document("x", &json!({"x_trace": {"group_id": "g"}}), &json!({}))]));
    let at = tables.traces.schema().index_of("group_id").unwrap();
    let mut traces = tables.traces.clone();
    traces.remove_column(at);
    goes_alike_either_way(&Tables { traces, ..tables });
}
