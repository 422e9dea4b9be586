//! Replay of recordings under a stated structure.

use arrow_array::Float64Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use orchestrace_core::error::Error;
use orchestrace_core::graph::weights::N_TYPES;
use orchestrace_core::replay;
use orchestrace_core::replay::Options;
use orchestrace_core::replay::fit::{self, Gates, Setting, Targets};
use orchestrace_core::run::Run;
use orchestrace_core::surrogate::{Model, Structure};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::{request, run_detached};
use crate::corpus::PyStore;
use crate::error::to_python;
use crate::files::Exchange;
use crate::stream::{Stream, import, rows_of};

/// Which structure events are taken out of, and how often.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct CurvesRequest {
    outcome: String,
    steps: u32,
    orders: u32,
    seed: u64,
    program_order: bool,
}

/// Deletion and insertion areas of every trace; `credits` is a table of one column, a number for each event of the
/// store in its order.
#[pyfunction]
#[pyo3(signature = (store, credits, *, threads = None, progress = None, **options))]
pub(crate) fn faithfulness(
    py: Python<'_>,
    store: &PyStore,
    credits: &Bound<'_, PyAny>,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Stream> {
    let fail = |error: Error| to_python(py, &error);
    let CurvesRequest { outcome, steps, orders, seed, program_order } = request(py, options)?;
    let structure = Structure::of(Model::parse(&outcome).map_err(fail)?);
    let table = import(py, "credits", credits)?;
    let column: Option<&Float64Array> =
        table.columns().first().and_then(|column| column.as_primitive_opt::<Float64Type>());
    let credits = column.ok_or_else(|| fail(Error::Schema("table credits has no Float64 column".into())))?;
    let options = Options { structure, steps, orders, seed, program_order };
    let store = &store.0;
    rows_of(py, threads, progress.as_ref(), |run| replay::faithfulness(store, credits, &options, run))
}

/// Everything that the targets of a fitted outcome model hang on.
#[pyclass(frozen, name = "OutcomeGates", module = "orchestrace._core")]
pub(crate) struct PyGates(Gates);

#[pymethods]
impl PyGates {
    #[new]
    #[pyo3(signature = (store, *, targets, threads = None, progress = None))]
    fn new(
        py: Python<'_>,
        store: &PyStore,
        targets: &str,
        threads: Option<usize>,
        progress: Option<Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let targets = Targets::parse(targets).map_err(|error| to_python(py, &error))?;
        let store = &store.0;
        let compile = |run: &Run| Gates::compile(store, targets, run);
        run_detached(py, threads, progress.as_ref(), &Exchange::default(), compile).map(Self)
    }

    /// A row a target: `trace seq score n_inputs n_modeled`.
    fn targets(&self, py: Python<'_>) -> PyResult<Stream> {
        let (batch, schema) = self.0.table().map_err(|error| to_python(py, &error))?;
        Ok(Stream::new(vec![batch], schema))
    }

    /// Edges of each type that some target hangs on.
    #[getter]
    fn n_edges(&self) -> [u64; N_TYPES] {
        self.0.n_edges()
    }

    /// Traces left out because their edges close a cycle.
    #[getter]
    fn n_cyclic(&self) -> u64 {
        self.0.n_cyclic()
    }

    /// Traces left out because it is not known where their outcome is.
    #[getter]
    fn n_unanswered(&self) -> u64 {
        self.0.n_unanswered()
    }

    /// A row a target: its prediction and the slopes of it, column by column.
    #[pyo3(signature = (model, weights, leak = 0.0, *, threads = None))]
    fn predict(
        &self,
        py: Python<'_>,
        model: &str,
        weights: [f64; N_TYPES],
        leak: f64,
        threads: Option<usize>,
    ) -> PyResult<Stream> {
        let model = Model::parse(model).map_err(|error| to_python(py, &error))?;
        let setting = Setting { model, weights, leak };
        let (batch, schema) = run_detached(py, threads, None, &Exchange::default(), |run| {
            fit::predictions(&self.0.predict(&setting, run)?)
        })?;
        Ok(Stream::new(vec![batch], schema))
    }
}
