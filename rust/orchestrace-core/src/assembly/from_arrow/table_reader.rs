//! A checked reader of external tables, column by column.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::DataType;

use crate::error::{Error, Result, printable};
use crate::schema::{Kind, Table};
use crate::store::arrays::text_at;

/// A batch with the columns of a table found and their types checked.
pub(super) struct TableReader<'a> {
    table: &'static Table,
    /// In the order of the schema; absent where a column is, or has only nulls.
    pub(super) columns: Vec<Option<&'a ArrayRef>>,
    pub(super) rows: usize,
}

pub(super) fn is_text(kind: &DataType) -> bool {
    match kind {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

impl<'a> TableReader<'a> {
    pub(super) fn new(table: &'static Table, batch: &'a RecordBatch, required: usize) -> Result<Self> {
        let mut columns = Vec::with_capacity(table.columns.len());
        for (i, column) in table.columns.iter().enumerate() {
            let given_column = batch.column_by_name(column.name);
            let required = i < required && !column.nullable;
            if let Some(array) = given_column {
                let fits = match column.kind {
                    Kind::Text | Kind::Name(_) | Kind::Word(_) => is_text(array.data_type()),
                    kind => *array.data_type() == kind.arrow() || *array.data_type() == DataType::Null,
                };
                if !fits && array.null_count() < array.len() {
                    return Err(Error::Schema(format!(
                        "column {}.{} is {}, expected {}",
                        table.name,
                        column.name,
                        array.data_type(),
                        column.kind.arrow()
                    )));
                }
            } else if required {
                return Err(Error::Schema(format!("table {} has no column '{}'", table.name, column.name)));
            }
            if let (true, Some(array)) = (required, given_column)
                && array.logical_null_count() > 0
            {
                return Err(Error::Schema(format!("column {}.{} has nulls", table.name, column.name)));
            }
            // A column of nulls only says nothing, whatever its type.
            columns
                .push(given_column.filter(|a| a.null_count() < a.len() && *a.data_type() != DataType::Null));
        }
        Ok(Self { table, columns, rows: batch.num_rows() })
    }

    pub(super) fn column(&self, name: &str) -> Option<&'a ArrayRef> {
        self.columns[self.table.index(name)?]
    }

    pub(super) fn u32s(&self, name: &str) -> Result<&'a [u32]> {
        match self.column(name) {
            Some(column) => Ok(column.as_primitive::<UInt32Type>().values()),
            None if self.rows == 0 => Ok(&[]),
            None => Err(Error::Schema(format!("column {}.{name} has nulls", self.table.name))),
        }
    }

    pub(super) fn text(&self, name: &str, row: usize) -> Option<&'a str> {
        text_at(self.column(name)?, row)
    }

    pub(super) fn u32(&self, name: &str, row: usize) -> Option<u32> {
        let column = self.column(name)?.as_primitive::<UInt32Type>();
        column.is_valid(row).then(|| column.value(row))
    }

    pub(super) fn u64(&self, name: &str, row: usize) -> Option<u64> {
        let column = self.column(name)?.as_primitive::<UInt64Type>();
        column.is_valid(row).then(|| column.value(row))
    }

    pub(super) fn f64(&self, name: &str, row: usize) -> Option<f64> {
        let column = self.column(name)?.as_primitive::<Float64Type>();
        column.is_valid(row).then(|| column.value(row))
    }

    pub(super) fn word<T>(&self, name: &str, row: usize, parse: fn(&str) -> Option<T>) -> Result<Option<T>> {
        let Some(text) = self.text(name, row) else { return Ok(None) };
        parse(text).map(Some).ok_or_else(|| {
            Error::Schema(format!(
                "column {}.{name} has the unknown word '{}' in row {row}",
                self.table.name,
                printable(text)
            ))
        })
    }

    /// Where the rows of each trace begin, and those of the last one end, in a table that is ordered by trace.
    pub(super) fn spans(&self, numbers: &[u32]) -> Result<Vec<usize>> {
        let rows = self.u32s("trace")?;
        let mut ends = Vec::with_capacity(numbers.len() + 1);
        ends.push(0);
        let mut at = 0;
        for number in numbers {
            while rows.get(at) == Some(number) {
                at += 1;
            }
            ends.push(at);
        }
        if at < rows.len() {
            return Err(Error::Schema(format!(
                "row {at} of table {} is of trace {}, expected rows ordered by trace and only traces that exist",
                self.table.name, rows[at]
            )));
        }
        Ok(ends)
    }
}
