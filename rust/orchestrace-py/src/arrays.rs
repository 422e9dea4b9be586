//! Credit rules on plain arrays.

use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, Int64Type, UInt32Type};
use arrow_array::{Array, RecordBatch};
use arrow_schema::{DataType, Field, Schema};
use orchestrace_core::credit::arrays::{self, Relative, Rows, Sequences};
use orchestrace_core::credit::segments::Scale;
use orchestrace_core::error::{Error, Result};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::{request, run_on_rows};
use crate::error::to_python;
use crate::recycled;
use crate::stream::{Stream, import};

/// How rewards are compared within a group: `scale` is that of the rule, with `ddof` and `epsilon`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct RelativeRequest {
    scale: String,
    ddof: i64,
    epsilon: f64,
    lone: bool,
}

/// `rewards` has the columns `reward` and `group`, a row for each rollout; `rows`, where rows are those of agents,
/// `rollout` and `agent`.
#[pyfunction]
#[pyo3(signature = (rewards, *, rows = None, threads = None, **options))]
pub(crate) fn relative(
    py: Python<'_>,
    rewards: &Bound<'_, PyAny>,
    rows: Option<&Bound<'_, PyAny>>,
    threads: Option<usize>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Stream> {
    let fail = |error: Error| to_python(py, &error);
    let RelativeRequest { scale, ddof, epsilon, lone } = request(py, options)?;
    let scale = match scale.as_str() {
        "deviation" => Scale::Deviation(ddof, epsilon),
        "others" => Scale::Factor(1.0),
        _ => Scale::None,
    };
    let rule = Relative { scale, lone };
    let rewards = import(py, "rewards", rewards)?;
    let numbers = floats(&rewards, 0).map_err(fail)?;
    let groups = codes(&rewards, 1).map_err(fail)?;
    let rows = rows.map(|rows| import(py, "rows", rows)).transpose()?;
    let n_rows = rows.as_ref().map_or(numbers.len(), RecordBatch::num_rows);
    let rows = match &rows {
        None => Rows::Plain(numbers, groups),
        Some(rows) => Rows::OfAgents {
            rewards: numbers,
            groups,
            rollouts: codes(rows, 0).map_err(fail)?,
            agents: codes(rows, 1).map_err(fail)?,
        },
    };
    let run = |run: &_| arrays::relative(&rows, rule, run);
    let found = run_on_rows(py, threads, n_rows, run)?;
    table(py, found)
}

/// `rows` has the column `reward` and, with a critic, `value`; `offsets` one column, and so `order`.
#[pyfunction]
#[pyo3(signature = (rows, offsets, order = None, *, gamma, fading, threads = None))]
pub(crate) fn generalized(
    py: Python<'_>,
    rows: &Bound<'_, PyAny>,
    offsets: &Bound<'_, PyAny>,
    order: Option<&Bound<'_, PyAny>>,
    gamma: f64,
    fading: f64,
    threads: Option<usize>,
) -> PyResult<Stream> {
    let fail = |error: Error| to_python(py, &error);
    let rows = import(py, "rows", rows)?;
    let rewards = floats(&rows, 0).map_err(fail)?;
    let critics = (rows.num_columns() > 1).then(|| floats(&rows, 1)).transpose().map_err(fail)?;
    let offsets = import(py, "offsets", offsets)?;
    let order = order.map(|order| import(py, "order", order)).transpose()?;
    let sequences = Sequences {
        offsets: places(&offsets).map_err(fail)?,
        order: order.as_ref().map(places).transpose().map_err(fail)?,
    };
    let out = recycled::room_for(rewards.len());
    let run = |run: &_| arrays::generalized(rewards, critics, &sequences, gamma, fading, out, run);
    let found = run_on_rows(py, threads, rewards.len(), run)?;
    table(py, found)
}

fn without_nulls(table: &RecordBatch, column: usize) -> Result<&dyn Array> {
    let array = table.column(column);
    if array.null_count() == 0 {
        return Ok(array);
    }
    let schema = table.schema();
    let name = schema.field(column).name();
    Err(Error::Parameter(format!("{name} has {} nulls, expected none", array.null_count())))
}

fn floats(table: &RecordBatch, column: usize) -> Result<&[f64]> {
    let floats = without_nulls(table, column)?.as_primitive_opt::<Float64Type>();
    floats.map(|array| &array.values()[..]).ok_or_else(|| odd_type(table, column))
}

/// Codes of 32 bits. Signed ones are read as they lie: what is negative is then too large to be one.
fn codes(table: &RecordBatch, column: usize) -> Result<&[u32]> {
    let array = without_nulls(table, column)?;
    if let Some(codes) = array.as_primitive_opt::<UInt32Type>() {
        return Ok(codes.values());
    }
    let signed = array.as_primitive_opt::<Int32Type>().ok_or_else(|| odd_type(table, column))?;
    Ok(signed.values().inner().typed_data())
}

fn places(table: &RecordBatch) -> Result<&[i64]> {
    let places = without_nulls(table, 0)?.as_primitive_opt::<Int64Type>();
    places.map(|array| &array.values()[..]).ok_or_else(|| odd_type(table, 0))
}

fn odd_type(table: &RecordBatch, column: usize) -> Error {
    Error::Schema(format!("column {column} is {}, an unexpected type", table.column(column).data_type()))
}

fn table(py: Python<'_>, found: Vec<f64>) -> PyResult<Stream> {
    let schema = Arc::new(Schema::new(vec![Field::new("advantage", DataType::Float64, false)]));
    let column = Arc::new(recycled::column(found));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![column]);
    let batch = batch.map_err(|error| to_python(py, &Error::from(error)))?;
    Ok(Stream::new(vec![batch], schema))
}
