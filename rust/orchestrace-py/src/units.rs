//! Owners, turns and units of events.

use orchestrace_core::error::{Error, Result, unknown_name};
use orchestrace_core::graph::table;
use orchestrace_core::schema::{UNITS, Unit};
use pyo3::prelude::*;

use crate::corpus::PyStore;
use crate::error::to_python;
use crate::stream::{Stream, rows_of};

/// The level of a word; the error names the nearest one.
pub(crate) fn unit_of(word: &str) -> Result<Unit> {
    Unit::parse(word).ok_or_else(|| Error::Parameter(unknown_name("unit", word, UNITS)))
}

/// Whose each event is, the turn that it belongs to, and whether it is the outcome, a row each.
#[pyfunction]
#[pyo3(signature = (store, *, threads = None))]
pub(crate) fn ownership(py: Python<'_>, store: &PyStore, threads: Option<usize>) -> PyResult<Stream> {
    let store = &store.0;
    rows_of(py, threads, None, |run| table::ownership(store, run))
}

/// The unit of a level that each event belongs to, a row each.
#[pyfunction]
#[pyo3(signature = (store, unit, *, threads = None))]
pub(crate) fn unit_ids(
    py: Python<'_>,
    store: &PyStore,
    unit: &str,
    threads: Option<usize>,
) -> PyResult<Stream> {
    let unit = unit_of(unit).map_err(|error| to_python(py, &error))?;
    let store = &store.0;
    rows_of(py, threads, None, |run| table::unit_ids(store, unit, run))
}
