//! Rows as lines of JSON.
//!
//! | Arrow | JSON |
//! | --- | --- |
//! | null | `null` in a column and in a list; no member of an object inside of them |
//! | text that is a JSON object, or a list of nothing or that begins with one, in a column or in a list of a column | that value; in a column that is called as a text is ([`TEXTS`]) only a list of messages |
//! | other text, dictionary of texts | a text |
//! | list, struct | array, object |
//! | map; in a column also a list of pairs `key`, `value` that are no objects, which is how some writers store a map | object |
//! | timestamp, date | ISO 8601, in UTC |
//! | decimal, integer, float | number |
//! | duration, time of day | seconds |
//! | bytes | a text if they are UTF-8, else hexadecimal digits |

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type,
    DecimalType, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType,
    DurationSecondType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, TimestampSecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, TimeUnit};

use crate::importers::hex::hex;
use crate::json::time::format_timestamp;
use crate::json::{Cursor, Limits, MAX_DEPTH, write_string};

/// Writes rows from `row` on as lines, until there are `size` bytes; the first row that is not written. Columns whose type
/// has no form in JSON are left out, and noted.
pub(super) fn write_rows(
    batch: &RecordBatch,
    mut row: usize,
    size: usize,
    out: &mut Vec<u8>,
    left_out: &mut BTreeMap<String, DataType>,
) -> usize {
    let mut columns = Vec::with_capacity(batch.num_columns());
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let is_text = TEXTS.contains(&field.name().as_str());
        match Member::new(field.name(), array, if is_text { Place::Text } else { Place::Column }) {
            Ok(column) => columns.push(column),
            Err(kind) => {
                left_out.insert(field.name().clone(), kind);
            }
        }
    }
    while row < batch.num_rows() && out.len() < size {
        write_object(&columns, row, Place::Column, out);
        out.push(b'\n');
        row += 1;
    }
    row
}

/// What is made of a column, or its type, if that has no form in JSON.
type Shaped<T> = Result<T, DataType>;

/// Columns whose values are texts that somebody wrote, even where one reads like JSON: as values they would have other
/// hashes than the texts.
const TEXTS: [&str; 10] = [
    "prompt",
    "completion",
    "response",
    "question",
    "answer",
    "text",
    "content",
    "instruction",
    "solution",
    "ground_truth",
];

/// Where a value stands: texts of columns, and of lists that are columns, may be documents.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Column,
    /// A column of texts.
    Text,
    Element,
    Inside,
}

/// Writes the value of a row, which is not null.
type WriteValue<'a> = Box<dyn Fn(usize, &mut Vec<u8>) + 'a>;

/// Values of one array.
struct Values<'a> {
    array: &'a dyn Array,
    write: WriteValue<'a>,
}

impl<'a> Values<'a> {
    fn new(array: &'a ArrayRef, place: Place) -> Shaped<Self> {
        Ok(Self { array, write: writer(array, place)? })
    }

    fn is_null(&self, row: usize) -> bool {
        self.array.is_null(row)
    }

    fn write_or_null(&self, row: usize, out: &mut Vec<u8>) {
        if self.is_null(row) {
            out.extend_from_slice(b"null");
        } else {
            (self.write)(row, out);
        }
    }
}

/// Values with a name.
struct Member<'a> {
    /// `"name":`
    key: Vec<u8>,
    values: Values<'a>,
}

impl<'a> Member<'a> {
    fn new(name: &str, array: &'a ArrayRef, place: Place) -> Shaped<Self> {
        let mut key = Vec::new();
        write_string(name, &mut key);
        key.push(b':');
        Ok(Self { key, values: Values::new(array, place)? })
    }
}

/// What is null is there in a row, since a column without a value is another fact than no column, and is left out of the
/// objects inside of it, whose fields are those of all objects together.
fn write_object(members: &[Member<'_>], row: usize, place: Place, out: &mut Vec<u8>) {
    out.push(b'{');
    let start = out.len();
    for member in members {
        let is_null = member.values.array.data_type().is_null() || member.values.is_null(row);
        if is_null && place != Place::Column {
            continue;
        }
        if out.len() > start {
            out.push(b',');
        }
        out.extend_from_slice(&member.key);
        if is_null {
            out.extend_from_slice(b"null");
        } else {
            (member.values.write)(row, out);
        }
    }
    out.push(b'}');
}

fn write_list(values: &Values<'_>, rows: std::ops::Range<usize>, out: &mut Vec<u8>) {
    out.push(b'[');
    for row in rows.clone() {
        if row > rows.start {
            out.push(b',');
        }
        values.write_or_null(row, out);
    }
    out.push(b']');
}

/// How the values of an array are written.
fn writer(array: &ArrayRef, place: Place) -> Shaped<WriteValue<'_>> {
    let below = if matches!(place, Place::Column | Place::Text) { Place::Element } else { Place::Inside };
    Ok(match array.data_type() {
        DataType::Null => Box::new(|_, out| out.extend_from_slice(b"null")),
        DataType::Boolean => {
            let values = array.as_boolean();
            Box::new(|row, out| {
                out.extend_from_slice(if values.value(row) { b"true" } else { b"false" });
            })
        }
        DataType::Int8 => integer::<Int8Type>(array),
        DataType::Int16 => integer::<Int16Type>(array),
        DataType::Int32 => integer::<Int32Type>(array),
        DataType::Int64 => integer::<Int64Type>(array),
        DataType::UInt8 => integer::<UInt8Type>(array),
        DataType::UInt16 => integer::<UInt16Type>(array),
        DataType::UInt32 => integer::<UInt32Type>(array),
        DataType::UInt64 => integer::<UInt64Type>(array),
        DataType::Float16 => {
            let values = array.as_primitive::<Float16Type>();
            Box::new(|row, out| number(values.value(row).to_f32(), values.value(row).is_finite(), out))
        }
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>();
            Box::new(|row, out| number(values.value(row), values.value(row).is_finite(), out))
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>();
            Box::new(|row, out| number(values.value(row), values.value(row).is_finite(), out))
        }
        DataType::Decimal32(..) => decimal::<Decimal32Type>(array),
        DataType::Decimal64(..) => decimal::<Decimal64Type>(array),
        DataType::Decimal128(..) => decimal::<Decimal128Type>(array),
        DataType::Decimal256(..) => decimal::<Decimal256Type>(array),
        DataType::Utf8 => text(array.as_string::<i32>(), |values, row| values.value(row), place),
        DataType::LargeUtf8 => text(array.as_string::<i64>(), |values, row| values.value(row), place),
        DataType::Utf8View => text(array.as_string_view(), |values, row| values.value(row), place),
        DataType::Binary => bytes(array.as_binary::<i32>(), |values, row| values.value(row)),
        DataType::LargeBinary => bytes(array.as_binary::<i64>(), |values, row| values.value(row)),
        DataType::BinaryView => bytes(array.as_binary_view(), |values, row| values.value(row)),
        DataType::FixedSizeBinary(_) => bytes(array.as_fixed_size_binary(), |values, row| values.value(row)),
        DataType::Dictionary(..) => {
            let values = array.as_any_dictionary();
            if values.values().is_empty() {
                return Ok(Box::new(|_, out| out.extend_from_slice(b"null")));
            }
            let keys = values.normalized_keys();
            let texts = Values::new(values.values(), place)?;
            Box::new(move |row, out| texts.write_or_null(keys[row], out))
        }
        DataType::Timestamp(unit, _) => match unit {
            TimeUnit::Second => moment::<TimestampSecondType>(array, 1_000_000_000),
            TimeUnit::Millisecond => moment::<TimestampMillisecondType>(array, 1_000_000),
            TimeUnit::Microsecond => moment::<TimestampMicrosecondType>(array, 1_000),
            TimeUnit::Nanosecond => moment::<TimestampNanosecondType>(array, 1),
        },
        DataType::Date32 => {
            let values = array.as_primitive::<Date32Type>();
            Box::new(|row, out| timestamp(i128::from(values.value(row)) * 86_400_000_000_000, out))
        }
        DataType::Date64 => moment::<Date64Type>(array, 1_000_000),
        DataType::Duration(TimeUnit::Second) => seconds::<DurationSecondType>(array, 1.0),
        DataType::Duration(TimeUnit::Millisecond) => seconds::<DurationMillisecondType>(array, 1e3),
        DataType::Duration(TimeUnit::Microsecond) => seconds::<DurationMicrosecondType>(array, 1e6),
        DataType::Duration(TimeUnit::Nanosecond) => seconds::<DurationNanosecondType>(array, 1e9),
        DataType::Time32(TimeUnit::Second) => seconds::<Time32SecondType>(array, 1.0),
        DataType::Time32(_) => seconds::<Time32MillisecondType>(array, 1e3),
        DataType::Time64(TimeUnit::Microsecond) => seconds::<Time64MicrosecondType>(array, 1e6),
        DataType::Time64(_) => seconds::<Time64NanosecondType>(array, 1e9),
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let offsets = lists.value_offsets();
            list(lists.values(), move |row| offsets[row] as usize..offsets[row + 1] as usize, place, below)?
        }
        DataType::LargeList(_) => {
            let lists = array.as_list::<i64>();
            let offsets = lists.value_offsets();
            list(lists.values(), move |row| offsets[row] as usize..offsets[row + 1] as usize, place, below)?
        }
        DataType::FixedSizeList(_, size) => {
            let size = usize::try_from(*size).unwrap_or(0);
            list(array.as_fixed_size_list().values(), move |row| row * size..(row + 1) * size, place, below)?
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let members = fields
                .iter()
                .zip(columns)
                .map(|(field, column)| Member::new(field.name(), column, Place::Inside))
                .collect::<Shaped<Vec<_>>>()?;
            Box::new(move |row, out| write_object(&members, row, Place::Inside, out))
        }
        DataType::Map(..) => {
            let map = array.as_map();
            let offsets = map.value_offsets();
            pairs(map.keys(), map.values(), move |row| offsets[row] as usize..offsets[row + 1] as usize)?
        }
        other => return Err(other.clone()),
    })
}

fn integer<T: ArrowPrimitiveType<Native: fmt::Display>>(array: &ArrayRef) -> WriteValue<'_> {
    let values = array.as_primitive::<T>();
    Box::new(|row, out| display(values.value(row), out))
}

fn decimal<T: DecimalType>(array: &ArrayRef) -> WriteValue<'_> {
    let values = array.as_primitive::<T>();
    Box::new(|row, out| out.extend_from_slice(values.value_as_string(row).as_bytes()))
}

/// A number; what is none is written as Python does, and judged where it is read.
fn number<T: fmt::Debug + PartialOrd + Default + Copy>(value: T, is_finite: bool, out: &mut Vec<u8>) {
    if is_finite {
        // Writing into memory does not fail.
        let _written = write!(out, "{value:?}");
    } else if value > T::default() {
        out.extend_from_slice(b"Infinity");
    } else if value < T::default() {
        out.extend_from_slice(b"-Infinity");
    } else {
        out.extend_from_slice(b"NaN");
    }
}

fn display(value: impl fmt::Display, out: &mut Vec<u8>) {
    let _written = write!(out, "{value}");
}

fn moment<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &ArrayRef, nanos: i128) -> WriteValue<'_> {
    let values = array.as_primitive::<T>();
    Box::new(move |row, out| timestamp(i128::from(values.value(row).into()) * nanos, out))
}

/// A time in nanoseconds; one that no clock of 64 bits has as the text of its number, which nobody takes for a measure.
fn timestamp(nanos: i128, out: &mut Vec<u8>) {
    match i64::try_from(nanos) {
        Ok(nanos) => write_string(&format_timestamp(nanos), out),
        Err(_) => write_string(&nanos.to_string(), out),
    }
}

fn seconds<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &ArrayRef, per_second: f64) -> WriteValue<'_> {
    let values = array.as_primitive::<T>();
    Box::new(move |row, out| {
        let count: i64 = values.value(row).into();
        number(count as f64 / per_second, true, out);
    })
}

fn text<'a, A>(values: &'a A, value: impl Fn(&'a A, usize) -> &'a str + 'a, place: Place) -> WriteValue<'a> {
    if place == Place::Inside {
        return Box::new(move |row, out| write_string(value(values, row), out));
    }
    Box::new(move |row, out| {
        let text = value(values, row);
        if is_document(text) && (place != Place::Text || is_chat(text)) {
            // Line ends stand between the parts of a document only: within its texts they are escaped.
            out.extend(text.bytes().map(|byte| if byte < b' ' { b' ' } else { byte }));
        } else {
            write_string(text, out);
        }
    })
}

/// Whether a text is a JSON object, or a list of nothing or that begins with one, and nothing else.
fn is_document(text: &str) -> bool {
    let start = text.trim_ascii_start();
    let in_list = start.strip_prefix('[').map(str::trim_ascii_start);
    if !start.starts_with('{') && !in_list.is_some_and(|first| first.starts_with(['{', ']'])) {
        return false;
    }
    // What is too deep or too long is said where the record is read.
    let limits = Limits { depth: MAX_DEPTH, string: usize::MAX, lenient: true };
    let mut cursor = Cursor::new(text, limits);
    cursor.ws();
    cursor.skip().is_ok() && cursor.end().is_ok()
}

/// Whether a text that is a document is a list of messages.
fn is_chat(text: &str) -> bool {
    text.trim_ascii_start().starts_with('[') && text.contains("\"role\"")
}

fn bytes<'a, A>(values: &'a A, value: impl Fn(&'a A, usize) -> &'a [u8] + 'a) -> WriteValue<'a> {
    Box::new(move |row, out| {
        let bytes = value(values, row);
        if let Ok(text) = std::str::from_utf8(bytes) {
            return write_string(text, out);
        }
        write_string(&hex(bytes), out);
    })
}

fn list<'a>(
    elements: &'a ArrayRef,
    rows: impl Fn(usize) -> std::ops::Range<usize> + 'a,
    place: Place,
    below: Place,
) -> Shaped<WriteValue<'a>> {
    if let (Place::Column, DataType::Struct(fields)) = (place, elements.data_type())
        && let [key, value] = fields.iter().as_slice()
        && (key.name().as_str(), value.name().as_str()) == ("key", "value")
        && !matches!(value.data_type(), DataType::Struct(_))
    {
        let columns = elements.as_struct().columns();
        return pairs(&columns[0], &columns[1], rows);
    }
    let values = Values::new(elements, below)?;
    Ok(Box::new(move |row, out| write_list(&values, rows(row), out)))
}

fn pairs<'a>(
    keys: &'a ArrayRef,
    values: &'a ArrayRef,
    rows: impl Fn(usize) -> std::ops::Range<usize> + 'a,
) -> Shaped<WriteValue<'a>> {
    let (keys, values) = (Values::new(keys, Place::Inside)?, Values::new(values, Place::Inside)?);
    Ok(Box::new(move |row, out| {
        out.push(b'{');
        let start = out.len();
        for row in rows(row) {
            if keys.is_null(row) || values.is_null(row) {
                continue;
            }
            if out.len() > start {
                out.push(b',');
            }
            let from = out.len();
            (keys.write)(row, out);
            if out[from] != b'"' {
                out.insert(from, b'"');
                out.push(b'"');
            }
            out.push(b':');
            (values.write)(row, out);
        }
        out.push(b'}');
    }))
}

#[cfg(test)]
mod tests {
    use arrow_array::builder::{Int64Builder, ListBuilder, MapBuilder, StringBuilder, StructBuilder};
    use arrow_array::{
        BinaryArray, BooleanArray, Date32Array, Decimal128Array, DictionaryArray, DurationMillisecondArray,
        Float64Array, Int32Array, Int64Array, NullArray, StringArray, StringViewArray,
        TimestampMicrosecondArray, UInt64Array,
    };
    use arrow_schema::{Field, Fields};

    use std::sync::Arc;

    use super::*;

    fn lines(columns: Vec<(&str, ArrayRef)>) -> Vec<String> {
        let batch = RecordBatch::try_from_iter(columns).unwrap();
        let (mut text, mut row) = (Vec::new(), 0);
        while row < batch.num_rows() {
            let mut some = Vec::new();
            row = write_rows(&batch, row, 1, &mut some, &mut BTreeMap::new());
            text.extend(some);
        }
        String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
    }

    fn only_value(array: impl Array + 'static) -> String {
        let line = lines(vec![("c", Arc::new(array))]).remove(0);
        line.strip_prefix("{\"c\":").and_then(|rest| rest.strip_suffix('}')).unwrap_or_default().to_owned()
    }

    #[test]
    fn values_have_the_form_that_their_type_says() {
        assert_eq!(only_value(Int32Array::from(vec![-7])), "-7");
        assert_eq!(only_value(UInt64Array::from(vec![u64::MAX])), "18446744073709551615");
        assert_eq!(only_value(Float64Array::from(vec![0.1])), "0.1");
        assert_eq!(only_value(Float64Array::from(vec![f64::NAN])), "NaN");
        assert_eq!(only_value(Float64Array::from(vec![f64::NEG_INFINITY])), "-Infinity");
        assert_eq!(only_value(BooleanArray::from(vec![true])), "true");
        assert_eq!(only_value(StringViewArray::from(vec!["a \"b\"\n\u{1}"])), r#""a \"b\"\n\u0001""#);
        assert_eq!(only_value(BinaryArray::from(vec![b"text".as_slice()])), "\"text\"");
        assert_eq!(only_value(BinaryArray::from(vec![[0xff, 0x00].as_slice()])), "\"ff00\"");
        assert_eq!(
            only_value(TimestampMicrosecondArray::from(vec![1_500_000])),
            "\"1970-01-01T00:00:01.500Z\""
        );
        assert_eq!(only_value(TimestampMicrosecondArray::from(vec![i64::MAX])), "\"9223372036854775807000\"");
        assert_eq!(only_value(Date32Array::from(vec![1])), "\"1970-01-02T00:00:00Z\"");
        assert_eq!(only_value(DurationMillisecondArray::from(vec![1_500])), "1.5");
        let price = Decimal128Array::from(vec![12_345]).with_precision_and_scale(9, 2).unwrap();
        assert_eq!(only_value(price), "123.45");
        assert_eq!(
            only_value(["a", "b"].into_iter().collect::<DictionaryArray<arrow_array::types::Int8Type>>()),
            "\"a\""
        );
    }

    #[test]
    fn what_is_null_is_null_in_a_row() {
        let columns: Vec<(&str, ArrayRef)> = vec![
            ("a", Arc::new(Int64Array::from(vec![None, Some(1)]))),
            ("n", Arc::new(NullArray::new(2))),
            ("b", Arc::new(StringArray::from(vec![Some("x"), None]))),
        ];
        assert_eq!(lines(columns), [r#"{"a":null,"n":null,"b":"x"}"#, r#"{"a":1,"n":null,"b":null}"#]);
        let empty = StringArray::from(Vec::<&str>::new());
        let keys = arrow_array::Int8Array::from(vec![None, None]);
        let unused = DictionaryArray::<arrow_array::types::Int8Type>::new(keys, Arc::new(empty));
        assert_eq!(lines(vec![("d", Arc::new(unused))]), [r#"{"d":null}"#, r#"{"d":null}"#]);
    }

    #[test]
    fn texts_that_are_documents_are_values_in_columns_only() {
        let text = |text: &str| only_value(StringArray::from(vec![text]));
        assert_eq!(text(" {\"a\": [1,\n NaN]}"), " {\"a\": [1,  NaN]}");
        assert_eq!(text("[ ]"), "[ ]");
        assert_eq!(text("[{\"role\": \"user\"}]"), "[{\"role\": \"user\"}]");
        for other in ["[1, 2]", "[\"a\"]", "{broken", "{} {}", "12", "true"] {
            let mut quoted = Vec::new();
            write_string(other, &mut quoted);
            assert_eq!(text(other).as_bytes(), quoted, "a text that only looks like one");
        }
        let answer: ArrayRef = Arc::new(StringArray::from(vec!["{\"a\": 1}", "[{\"role\": \"user\"}]"]));
        let written = [r#"{"completion":"{\"a\": 1}"}"#, r#"{"completion":[{"role": "user"}]}"#];
        assert_eq!(lines(vec![("completion", answer)]), written, "who answers in JSON writes a text");
        let mut list = ListBuilder::new(StringBuilder::new());
        list.append_value([Some("{\"a\": 1}"), None, Some("b")]);
        assert_eq!(only_value(list.finish()), r#"[{"a": 1},null,"b"]"#);
        let fields = Fields::from(vec![Field::new("arguments", DataType::Utf8, true)]);
        let mut call = StructBuilder::from_fields(fields, 1);
        call.field_builder::<StringBuilder>(0).unwrap().append_value("{\"a\": 1}");
        call.append(true);
        assert_eq!(
            only_value(call.finish()),
            r#"{"arguments":"{\"a\": 1}"}"#,
            "arguments are a text in JSON, too"
        );
    }

    #[test]
    fn maps_are_objects_however_they_are_stored() {
        let mut map = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
        map.keys().append_value("in");
        map.values().append_value(3);
        map.keys().append_value("out");
        map.values().append_null();
        map.append(true).unwrap();
        assert_eq!(only_value(map.finish()), r#"{"in":3}"#);
        let fields = Fields::from(vec![
            Field::new("key", DataType::Utf8, true),
            Field::new("value", DataType::Int64, true),
        ]);
        let mut pairs = ListBuilder::new(StructBuilder::from_fields(fields, 1));
        pairs.values().field_builder::<StringBuilder>(0).unwrap().append_value("in");
        pairs.values().field_builder::<Int64Builder>(1).unwrap().append_value(3);
        pairs.values().append(true);
        pairs.append(true);
        assert_eq!(only_value(pairs.finish()), r#"{"in":3}"#);
    }
}
