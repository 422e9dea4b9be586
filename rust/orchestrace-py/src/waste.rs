//! Waste and structural failures: conversion of Python's requests.

use orchestrace_core::schema::Dict;
use orchestrace_core::store::Store;
use orchestrace_core::waste::failures::Tools;
use orchestrace_core::waste::{self, Options};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::request;
use crate::corpus::PyStore;
use crate::safety::codes;
use crate::stream::{Stream, rows_of};

/// Names of tools that only read, and of tools that verify.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct WasteRequest {
    reading: Vec<String>,
    #[pyo3(default)]
    verifying: Option<Vec<String>>,
}

impl WasteRequest {
    fn options(&self, store: &Store) -> Options {
        let of = |names: &Vec<String>| codes(store, Dict::Tool, names);
        Options { tools: Tools { reading: of(&self.reading), verifying: self.verifying.as_ref().map(of) } }
    }
}

/// The class of every event, a row each.
#[pyfunction]
#[pyo3(signature = (store, *, threads = None, progress = None, **options))]
pub(crate) fn waste_events(
    py: Python<'_>,
    store: &PyStore,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Stream> {
    let request: WasteRequest = request(py, options)?;
    let (store, options) = (&store.0, request.options(&store.0));
    rows_of(py, threads, progress.as_ref(), |run| waste::waste_events(store, &options, run))
}

/// What each structural class of failure says of every trace, six rows each.
#[pyfunction]
#[pyo3(signature = (store, *, threads = None, progress = None, **options))]
pub(crate) fn failure_classes(
    py: Python<'_>,
    store: &PyStore,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Stream> {
    let request: WasteRequest = request(py, options)?;
    let (store, options) = (&store.0, request.options(&store.0));
    rows_of(py, threads, progress.as_ref(), |run| waste::failure_classes(store, &options, run))
}
