//! Evidence of credits: questions about one trace, and the core's columns.

use orchestrace_core::credit::{self as methods, Method, Params, Question};
use orchestrace_core::error::Error;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::request;
use crate::corpus::PyStore;
use crate::credit::{channels, checked_params};
use crate::error::to_python;
use crate::stream::{Stream, rows_of};

/// Which method is asked about which trace. `elsewhere` names channels that other parts of the corpus have.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct EvidenceRequest<'py> {
    method: String,
    trace: u32,
    reward: Bound<'py, PyDict>,
    params: Bound<'py, PyDict>,
    elsewhere: Vec<String>,
}

/// The same as the core takes it.
struct Asked {
    method: &'static Method,
    trace: u32,
    reward: Vec<(String, f64)>,
    elsewhere: Vec<String>,
    params: Params,
}

impl Asked {
    fn of<'py>(py: Python<'py>, options: Option<Bound<'py, PyDict>>) -> PyResult<Self> {
        let EvidenceRequest { method, trace, reward, params, elsewhere } = request(py, options)?;
        let method = methods::find(&method).map_err(|error: Error| to_python(py, &error))?;
        let params = checked_params(py, method.info().params, &params)?;
        Ok(Self { method, trace, reward: channels(&reward)?, elsewhere, params })
    }

    fn question(&self) -> Question<'_> {
        let Self { trace, reward, elsewhere, params, .. } = self;
        Question { trace: *trace, reward, elsewhere, params }
    }
}

/// The own row of a method that each event of a trace is in.
#[pyfunction]
#[pyo3(signature = (store, *, threads = None, **question))]
pub(crate) fn own_rows<'py>(
    py: Python<'py>,
    store: &PyStore,
    threads: Option<usize>,
    question: Option<Bound<'py, PyDict>>,
) -> PyResult<Stream> {
    let asked = Asked::of(py, question)?;
    let store = &store.0;
    rows_of(py, threads, None, |_| methods::own_rows(store, asked.method, &asked.question()))
}

/// The terms that the amounts of some own rows are made of.
#[pyfunction]
#[pyo3(signature = (store, events, *, threads = None, **question))]
pub(crate) fn terms<'py>(
    py: Python<'py>,
    store: &PyStore,
    events: Vec<u32>,
    threads: Option<usize>,
    question: Option<Bound<'py, PyDict>>,
) -> PyResult<Stream> {
    let asked = Asked::of(py, question)?;
    let store = &store.0;
    rows_of(py, threads, None, |run| methods::terms(store, asked.method, &asked.question(), &events, run))
}
