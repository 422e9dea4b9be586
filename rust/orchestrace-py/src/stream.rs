//! Record batches to and from objects with the Arrow C stream interface.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, RecordBatch, StructArray};
use arrow_schema::{ArrowError, Field, SchemaRef};
use orchestrace_core::error::{Error, Result};
use orchestrace_core::run::Run;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;
use pyo3_arrow::PyTable;
use pyo3_arrow::ffi::{ArrayIterator, to_schema_pycapsule, to_stream_pycapsule};

use crate::call::run_detached;
use crate::error::{bad_parameter, to_python};
use crate::files::Exchange;

/// Batches of one table. Every export begins with the first batch; buffers are shared, not copied.
#[pyclass(frozen, module = "orchestrace._core")]
pub(crate) struct Stream {
    batches: Vec<RecordBatch>,
    schema: SchemaRef,
}

impl Stream {
    pub(crate) fn new(batches: Vec<RecordBatch>, schema: SchemaRef) -> Self {
        Self { batches, schema }
    }
}

/// Runs a kernel that makes a table, without the interpreter lock, as [`run_detached`] does; its rows.
pub(crate) fn rows_of(
    py: Python<'_>,
    threads: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
    kernel: impl FnOnce(&Run) -> Result<(Vec<RecordBatch>, SchemaRef)> + Send,
) -> PyResult<Stream> {
    let (batches, schema) = run_detached(py, threads, progress, &Exchange::default(), kernel)?;
    Ok(Stream::new(batches, schema))
}

fn arrow_error(py: Python<'_>, error: impl std::fmt::Display) -> PyErr {
    to_python(py, &Error::Arrow(ArrowError::CDataInterface(error.to_string())))
}

#[pymethods]
impl Stream {
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let field = Arc::new(Field::new_struct("", self.schema.fields().clone(), false));
        let batches: Vec<std::result::Result<ArrayRef, ArrowError>> =
            self.batches.iter().map(|b| Ok(Arc::new(StructArray::from(b.clone())) as ArrayRef)).collect();
        let reader = Box::new(ArrayIterator::new(batches, field));
        to_stream_pycapsule(py, reader, requested_schema).map_err(|e| arrow_error(py, PyErr::from(e)))
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        to_schema_pycapsule(py, self.schema.as_ref()).map_err(|e| arrow_error(py, PyErr::from(e)))
    }

    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    #[getter]
    fn num_batches(&self) -> usize {
        self.batches.len()
    }

    /// Addresses of the value buffers of a column, a batch each: what proves that an export copied nothing.
    fn buffer_addresses(&self, py: Python<'_>, column: &str) -> PyResult<Vec<usize>> {
        let index =
            self.schema.index_of(column).map_err(|_| bad_parameter(py, format!("no column '{column}'")))?;
        Ok(self
            .batches
            .iter()
            .filter_map(|b| b.column(index).to_data().buffers().first().map(|b| b.as_ptr() as usize))
            .collect())
    }
}

/// A table that somebody hands in, in one batch.
pub(crate) fn import(py: Python<'_>, name: &str, object: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let table: PyTable = object.extract().map_err(|e| {
        to_python(py, &Error::Schema(format!("table {name} is not an Arrow stream of record batches: {e}")))
    })?;
    let (batches, schema) = table.into_inner();
    combine(&batches, &schema).map_err(|e| to_python(py, &e))
}

fn combine(batches: &[RecordBatch], schema: &SchemaRef) -> Result<RecordBatch> {
    if let [batch] = batches {
        return Ok(batch.clone());
    }
    Ok(arrow_select::concat::concat_batches(schema, batches)?)
}
