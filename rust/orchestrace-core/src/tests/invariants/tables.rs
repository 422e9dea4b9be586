//! Tables that come from elsewhere: taken or refused, and what was taken is a corpus like any other.

use std::sync::{Arc, LazyLock};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampNanosecondType, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray, StringViewArray,
    TimestampNanosecondArray, UInt32Array, UInt64Array, new_null_array,
};
use arrow_schema::{DataType, Field, Schema, TimeUnit};
use orchestrace_core::assembly::{Tables, Taking};
use orchestrace_core::error::Error;
use orchestrace_core::ingest::ReadOptions;
use orchestrace_core::run::Run;
use orchestrace_core::schema::TABLES;
use orchestrace_core::store::Store;

use super::formats::comes_back;
use super::reading::{adds_up, from_stream};

/// The tables of a store, as another engine would get them.
pub(crate) fn tables(store: &Store) -> Tables {
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

/// All tables of a store are taken back, unchanged.
pub(crate) fn comes_back_from_arrow(store: &Store) {
    let again = Store::from_arrow(&tables(store), &Run::new(Some(1)).unwrap()).unwrap();
    goes_alike_either_way(&tables(store));
    for table in TABLES {
        let [a, b] = [store, &again].map(|store| store.combined(table.name).unwrap());
        assert_eq!(a, b, "{} from Arrow", table.name);
    }
}

/// Traces with a cell in nearly every column.
const LINES: &str = concat!(
    r#"{"trace_id":"a","task_id":"b","events":[{"id":"e","t":0,"type":"message","agent":"x","from":"x","to":"y","role":"r","content_ref":"c","trusted":true,"turn":1,"x_model":"m","x_ok":true,"x_t_end":1.0,"x_value":0.5,"x_p_behavior":0.5,"x_action":"go","x_subtask_id":"s","x_content_hash":"h","x_note":"n","tokens_in":3,"tokens_out":2,"x_tokens_cached":1,"x_cost_usd":0.5,"x_trace":{"group_id":"g"}},{"id":"f","t":1.5,"type":"tool_call","agent":"y","tool":"t","duration_s":0.5,"score":0.5,"x_args_hash":"i","x_corrupted":false,"x_privileged":true}],"edges":[{"src":"e","dst":"f","type":"causal"}],"rewards":{"team":1,"x":0.5},"costs":{"tokens":3,"wall_clock_s":2},"metrics":{"m":1}}"#,
    "\n",
    r#"{"trace_id":"c","task_id":"b","events":[{"id":"e","t":0,"type":"spawn","agent":"x","x_trace":{"labels":[{"annotator":"z","label":"q","weight":0.5}]}}],"edges":[],"rewards":{"team":0},"costs":{"tokens":0,"wall_clock_s":0}}"#,
    "\nnoise\n",
);

static BASE: LazyLock<Store> = LazyLock::new(|| {
    let store = from_stream(LINES.as_bytes(), &ReadOptions::default(), 1);
    assert_eq!((store.n_traces(), store.n_edges(), store.records_quarantined()), (2, 1, 1));
    store
});

/// Tables that a program of changes makes of those above are taken or refused as a schema error in one line; what was
/// taken adds up and comes back.
pub(crate) fn changed_tables_are_judged(program: &[u8]) {
    let tables = changed(&BASE, program);
    goes_alike_either_way(&tables);
    match Store::from_arrow(&tables, &Run::new(Some(1)).unwrap()) {
        Ok(store) => {
            if tables.record_counts.is_none() {
                adds_up(&store);
            }
            comes_back(&store);
        }
        Err(Error::Schema(message) | Error::TooLarge(message)) => {
            assert!(!message.contains('\n'), "{message}");
        }
        Err(other) => panic!("expected a schema error, found {other:?}"),
    }
}

/// Events whose agents are plain text are looked at one by one, others column by column. What comes of them is the same, a
/// refusal to the word.
pub(crate) fn goes_alike_either_way(tables: &Tables) {
    let by_row = Tables { events: spelled(&tables.events, "agent"), ..tables.clone() };
    for set_aside in [false, true] {
        let taking = Taking { set_aside, ..Taking::default() };
        let taken =
            [tables, &by_row].map(|tables| Store::from_arrow_as(tables, taking, &Run::new(Some(2)).unwrap()));
        match taken {
            [Ok(by_column), Ok(by_row)] => {
                for table in TABLES {
                    let [a, b] = [&by_column, &by_row].map(|store| store.combined(table.name).unwrap());
                    assert_eq!(a, b, "{}, one by one", table.name);
                }
                assert_eq!(by_column.set_aside(), by_row.set_aside());
            }
            [Err(by_column), Err(by_row)] => assert_eq!(by_column.to_string(), by_row.to_string()),
            [by_column, by_row] => panic!("{by_column:?} by column, {by_row:?} one by one"),
        }
    }
}

/// The batch with a column of names as plain text.
fn spelled(batch: &RecordBatch, name: &str) -> RecordBatch {
    let (Ok(at), mut columns) = (batch.schema().index_of(name), batch.columns().to_vec()) else {
        return batch.clone();
    };
    let Some(coded) = columns[at].as_any_dictionary_opt() else { return batch.clone() };
    let Some(values) = coded.values().as_string_opt::<i32>() else { return batch.clone() };
    let keys = if values.is_empty() { vec![0; coded.len()] } else { coded.normalized_keys() };
    let cells = (0..coded.len()).map(|row| coded.is_valid(row).then(|| values.value(keys[row])));
    columns[at] = Arc::new(cells.collect::<StringArray>());
    let mut fields: Vec<Arc<Field>> = batch.schema().fields().iter().cloned().collect();
    fields[at] = Arc::new(Field::new(name, DataType::Utf8, true));
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
}

/// The bytes of a program, zeros behind its end.
struct Program<'a>(&'a [u8]);

impl Program<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn below(&mut self, n: usize) -> usize {
        usize::from(self.byte()) % n.max(1)
    }
}

/// The tables of a store after the changes of a program: a table, a column, what becomes of it.
fn changed(store: &Store, program: &[u8]) -> Tables {
    let mut tables = tables(store);
    let mut program = Program(program);
    while !program.0.is_empty() {
        let at = program.below(8);
        let slot = match at {
            0 => Some(&mut tables.traces),
            1 => Some(&mut tables.events),
            2 => Some(&mut tables.edges),
            3 => tables.measures.as_mut(),
            4 => tables.labels.as_mut(),
            5 => tables.findings.as_mut(),
            6 => tables.quarantine.as_mut(),
            _ => tables.record_counts.as_mut(),
        };
        let Some(batch) = slot else { continue };
        if program.byte() == 255 && at > 2 {
            match at {
                3 => tables.measures = None,
                4 => tables.labels = None,
                5 => tables.findings = None,
                6 => tables.quarantine = None,
                _ => tables.record_counts = None,
            }
            continue;
        }
        *batch = change(batch, &mut program);
    }
    tables
}

fn change(batch: &RecordBatch, program: &mut Program<'_>) -> RecordBatch {
    let mut fields: Vec<Arc<Field>> = batch.schema().fields().iter().cloned().collect();
    let mut columns = batch.columns().to_vec();
    let (at, rows) = (program.below(columns.len()), batch.num_rows());
    let set = |column: ArrayRef, fields: &mut Vec<Arc<Field>>, columns: &mut Vec<ArrayRef>| {
        fields[at] = Arc::new(Field::new(fields[at].name(), column.data_type().clone(), true));
        columns[at] = column;
    };
    match program.below(9) {
        0 => {
            fields.remove(at);
            columns.remove(at);
        }
        1 => {
            fields.push(Arc::clone(&fields[at]));
            columns.push(Arc::clone(&columns[at]));
        }
        2 => {
            let name =
                ["", "a\0b", "extras", "x_new", "credit", "\u{202e}", "trace", "seq"][program.below(8)];
            fields[at] = Arc::new(Field::new(name, columns[at].data_type().clone(), true));
        }
        3 => {
            let from = program.below(rows + 1);
            return batch.slice(from, program.below(rows - from + 1));
        }
        4 => {
            let order: UInt32Array = (0..rows).map(|_| program.below(rows) as u32).collect();
            let taken = columns.iter().map(|c| arrow_select::take::take(c, &order, None).unwrap());
            return RecordBatch::try_new(batch.schema(), taken.collect()).unwrap_or_else(|_| batch.clone());
        }
        5 => set(new_null_array(columns[at].data_type(), rows), &mut fields, &mut columns),
        6 => set(of_another_type(rows, program), &mut fields, &mut columns),
        _ => set(with_cell(&columns[at], program), &mut fields, &mut columns),
    }
    if columns.is_empty() {
        return batch.clone();
    }
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap_or_else(|_| batch.clone())
}

const FLOATS: [f64; 9] = [0.0, -0.0, -1.0, 0.5, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.7e308, 5e-324];
const INTS: [i64; 6] = [0, 1, -1, 3, i64::MAX, i64::MIN];
const TEXTS: [&str; 15] = [
    "",
    "a",
    "e",
    "f",
    "x",
    "\0",
    "\u{202e}\u{1b}[0m",
    "é\u{10ffff}",
    "{}",
    "{\"a\":1,\"a\":2}",
    "[1]",
    "causal",
    "used",
    "message",
    "team",
];

/// A column of a type that the schema may not expect.
fn of_another_type(rows: usize, program: &mut Program<'_>) -> ArrayRef {
    let kind = program.below(6);
    let mut float = || FLOATS[program.below(FLOATS.len())];
    match kind {
        0 => Arc::new(Float64Array::from_iter_values((0..rows).map(|_| float()))),
        1 => Arc::new(Int64Array::from_iter_values((0..rows).map(|_| INTS[program.below(INTS.len())]))),
        2 => Arc::new(UInt32Array::from_iter_values((0..rows).map(|_| u32::from(program.byte())))),
        3 => Arc::new(StringArray::from_iter_values((0..rows).map(|_| TEXTS[program.below(TEXTS.len())]))),
        4 => new_null_array(&DataType::Null, rows),
        _ => Arc::new((0..rows).map(|_| Some(program.byte().is_multiple_of(2))).collect::<BooleanArray>()),
    }
}

/// The column with one cell that says something else; text comes as plain text.
fn with_cell(column: &ArrayRef, program: &mut Program<'_>) -> ArrayRef {
    let row = program.below(column.len());
    let null = program.byte() % 8 == 7;
    macro_rules! replaced {
        ($kind:ty, $array:ty, $value:expr) => {{
            let mut cells: Vec<_> = column.as_primitive::<$kind>().iter().collect();
            if let Some(cell) = cells.get_mut(row) {
                *cell = (!null).then(|| $value);
            }
            Arc::new(<$array>::from(cells)) as ArrayRef
        }};
    }
    match column.data_type() {
        DataType::Float64 => replaced!(Float64Type, Float64Array, FLOATS[program.below(FLOATS.len())]),
        DataType::Int64 => replaced!(Int64Type, Int64Array, INTS[program.below(INTS.len())]),
        DataType::UInt32 => replaced!(UInt32Type, UInt32Array, INTS[program.below(INTS.len())] as u32),
        DataType::UInt64 => replaced!(UInt64Type, UInt64Array, INTS[program.below(INTS.len())] as u64),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => {
            let zone = zone.clone();
            let cells =
                replaced!(TimestampNanosecondType, TimestampNanosecondArray, INTS[program.below(INTS.len())]);
            Arc::new(cells.as_primitive::<TimestampNanosecondType>().clone().with_timezone_opt(zone))
        }
        DataType::Boolean => {
            let mut cells: Vec<_> = column.as_boolean().iter().collect();
            if let Some(cell) = cells.get_mut(row) {
                *cell = (!null).then(|| program.byte().is_multiple_of(2));
            }
            Arc::new(BooleanArray::from(cells))
        }
        DataType::Utf8View => {
            let mut cells: Vec<_> = column.as_string_view().iter().collect();
            if let Some(cell) = cells.get_mut(row) {
                *cell = (!null).then(|| TEXTS[program.below(TEXTS.len())]);
            }
            Arc::new(StringViewArray::from(cells))
        }
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            let Some(values) = dictionary.values().as_string_opt::<i32>() else { return Arc::clone(column) };
            // Of nothing but nulls there are no values, and no keys to normalize.
            let keys = if values.is_empty() { vec![0; column.len()] } else { dictionary.normalized_keys() };
            let cells = (0..column.len()).map(|i| {
                let old = column.is_valid(i).then(|| values.value(keys[i]));
                if i == row { (!null).then(|| TEXTS[program.below(TEXTS.len())]) } else { old }
            });
            Arc::new(cells.collect::<StringArray>())
        }
        _ => Arc::clone(column),
    }
}
