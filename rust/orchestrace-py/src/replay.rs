//! What recordings would have come to under a stated structure.

use arrow_array::Float64Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use orchestrace_core::error::Error;
use orchestrace_core::replay::{self, Model, Options, Structure};
use pyo3::prelude::*;

use crate::call::run_detached;
use crate::corpus::PyStore;
use crate::error::to_python;
use crate::files::Exchange;
use crate::stream::{Stream, import};

/// Deletion and insertion areas of every trace; `credits` is a table of one column, a number for each event of the
/// store in its order.
#[pyfunction]
#[pyo3(signature = (store, credits, *, outcome = "noisy_or", steps = 20, orders = 16, seed = 0,
    program_order = false, threads = None, progress = None))]
#[allow(clippy::too_many_arguments)] // keyword options of one call
pub(crate) fn faithfulness(
    py: Python<'_>,
    store: &PyStore,
    credits: &Bound<'_, PyAny>,
    outcome: &str,
    steps: u32,
    orders: u32,
    seed: u64,
    program_order: bool,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Stream> {
    let fail = |error: Error| to_python(py, &error);
    let structure = Structure::of(Model::parse(outcome).map_err(fail)?);
    let table = import(py, "credits", credits)?;
    let column: Option<&Float64Array> =
        table.columns().first().and_then(|column| column.as_primitive_opt::<Float64Type>());
    let credits =
        column.ok_or_else(|| fail(Error::Schema("table credits has no column of 64-bit floats".into())))?;
    let options = Options { structure, steps, orders, seed, program_order };
    let store = &store.0;
    let (batches, schema) = run_detached(py, threads, progress.as_ref(), &Exchange::default(), |run| {
        replay::faithfulness(store, credits, &options, run)
    })?;
    Ok(Stream::new(batches, schema))
}
