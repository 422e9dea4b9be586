//! Events as objects of a document: the columns of a chunk, resolved once and written row by row.

use std::io::Write;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, LargeListArray, RecordBatch, UInt32Array,
};
use arrow_schema::DataType;

use super::{Facts, Members, X_TRACE, members, write_f64};
use crate::columns::usage::Counts;
use crate::json::write_string;
use crate::schema::EventField;
use crate::store::arrays::text_at;

/// A column of the table as its values are written.
enum Cells<'a> {
    F64(&'a Float64Array),
    I64(&'a Int64Array),
    U32(&'a UInt32Array),
    Flags(&'a BooleanArray),
    Lists(&'a LargeListArray),
    Texts,
}

/// A column that becomes a member.
struct Field<'a> {
    /// Key and colon.
    key: Vec<u8>,
    column: &'a ArrayRef,
    cells: Cells<'a>,
    /// A count of tokens that may follow from others.
    follows: Option<EventField>,
}

impl<'a> Field<'a> {
    fn new(name: &str, column: &'a ArrayRef) -> Self {
        let cells = match column.data_type() {
            DataType::Float64 => Cells::F64(column.as_primitive()),
            DataType::Int64 => Cells::I64(column.as_primitive()),
            DataType::UInt32 => Cells::U32(column.as_primitive()),
            DataType::Boolean => Cells::Flags(column.as_boolean()),
            DataType::LargeList(_) => Cells::Lists(column.as_list()),
            _ => Cells::Texts,
        };
        let mut key = Vec::new();
        write_string(name, &mut key);
        key.push(b':');
        let follows = [EventField::Tokens, EventField::TokensFresh];
        let follows = follows.into_iter().find(|field| field.as_str() == name);
        Self { key, column, cells, follows }
    }

    fn value(&self, row: usize, out: &mut Vec<u8>) {
        // Writing to a Vec cannot fail.
        match &self.cells {
            Cells::F64(values) => write_f64(values.value(row), out),
            Cells::I64(values) => drop(write!(out, "{}", values.value(row))),
            Cells::U32(values) => drop(write!(out, "{}", values.value(row))),
            Cells::Flags(flags) => out.extend_from_slice(if flags.value(row) { b"true" } else { b"false" }),
            Cells::Lists(lists) => {
                out.push(b'[');
                for (i, value) in lists.value(row).as_primitive::<Float64Type>().values().iter().enumerate() {
                    if i > 0 {
                        out.push(b',');
                    }
                    write_f64(*value, out);
                }
                out.push(b']');
            }
            Cells::Texts => write_string(text_at(self.column, row).unwrap_or_default(), out),
        }
    }
}

/// The events of a chunk.
pub(super) struct EventWriter<'a> {
    fields: Vec<Field<'a>>,
    extras: Option<&'a ArrayRef>,
    /// Columns of counts of tokens, where there are any.
    tokens: [Option<&'a Int64Array>; EventField::TOKENS.len()],
}

impl<'a> EventWriter<'a> {
    pub(super) fn new(events: &'a RecordBatch) -> Self {
        // The first two columns are the places of the event.
        let columns = events.schema_ref().fields().iter().zip(events.columns()).skip(2);
        let written = columns.filter(|(field, column)| {
            field.name() != "extras" && (column.null_count() < column.len() || column.is_empty())
        });
        let tokens = EventField::TOKENS
            .map(|field| events.column_by_name(field.as_str()).map(AsArray::as_primitive::<Int64Type>));
        let fields = written.map(|(field, column)| Field::new(field.name(), column)).collect();
        Self { fields, extras: events.column_by_name("extras"), tokens }
    }

    /// Whether a count is not written, since it follows from the others: it may not stand in the document that was read.
    fn follows(&self, field: EventField, row: usize) -> bool {
        let count = |column: Option<&Int64Array>| column.filter(|c| c.is_valid(row)).map(|c| c.value(row));
        !Counts::new(self.tokens.map(count)).is_written(field)
    }

    /// Writes the event of a row; `facts` are what its trace says on its first event.
    pub(super) fn event(&self, row: usize, facts: Option<&Facts>, out: &mut Vec<u8>) {
        let mut object = Members::open(out);
        for field in &self.fields {
            if field.column.is_null(row) || field.follows.is_some_and(|count| self.follows(count, row)) {
                continue;
            }
            field.value(row, object.spelt_key(&field.key));
        }
        if let Some(extras) = self.extras.and_then(|column| text_at(column, row)) {
            if facts.is_some() {
                for member in members(extras).iter().filter(|m| m.key != X_TRACE) {
                    object.written(member.text);
                }
            } else if let Some(all) = extras.strip_prefix('{').and_then(|e| e.strip_suffix('}'))
                && !all.trim().is_empty()
            {
                object.written(all);
            }
        }
        if let Some(text) = facts.and_then(|f| f.text.as_ref()) {
            object.key(X_TRACE).extend_from_slice(text);
        }
        object.close();
    }
}
