//! Files of rows, which Python opens: pyarrow has the codecs.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;

use arrow_array::RecordBatch;
use orchestrace_core::ingest::{RowOpener, RowSource, Rows};
use pyo3::prelude::*;
use pyo3_arrow::PyTable;

/// What Python opens such a file with: a path to an iterator of `(table, rows, message, consumed)`.
static OPENER: Mutex<Option<Py<PyAny>>> = Mutex::new(None);

/// Names the function that opens files of rows. It takes a path and gives an iterator of tuples: a table with the Arrow
/// C stream interface or None, how many rows are lost where it is None, why, and how many bytes of the file are done.
#[pyfunction]
pub(crate) fn open_rows_with(opener: Py<PyAny>) {
    *OPENER.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(opener);
}

/// What the core opens files of rows with.
pub(crate) fn row_opener() -> RowOpener {
    RowOpener::new(|path: &Path| {
        Python::attach(|py| {
            // The call may let other threads have the interpreter, which must not wait for the lock meanwhile.
            let opener = {
                let opener = OPENER.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
                opener.as_ref().map(|opener| opener.clone_ref(py))
            };
            let opener = opener.ok_or_else(|| io::Error::other("nothing opens files of rows"))?;
            let iterator =
                opener.bind(py).call1((path,)).and_then(|rows| rows.try_iter()).map_err(of_python)?;
            Ok(Box::new(PyRows { iterator: iterator.unbind().into_any(), ahead: VecDeque::new() })
                as Box<dyn RowSource>)
        })
    })
}

fn of_python(error: PyErr) -> io::Error {
    io::Error::other(error.to_string())
}

/// Rows that a Python iterator gives.
struct PyRows {
    iterator: Py<PyAny>,
    /// Batches of the last table, and the bytes that are done with it.
    ahead: VecDeque<(RecordBatch, u64)>,
}

/// A table or None, lost rows, why, bytes that are done.
type Step<'py> = (Option<Bound<'py, PyAny>>, usize, String, u64);

impl RowSource for PyRows {
    fn next(&mut self) -> io::Result<Option<(Rows, u64)>> {
        loop {
            if let Some((batch, consumed)) = self.ahead.pop_front() {
                return Ok(Some((Rows::Batch(batch), consumed)));
            }
            let step = Python::attach(|py| {
                let mut iterator = self.iterator.bind(py).try_iter()?;
                let Some(step) = iterator.next().transpose()? else { return Ok(None) };
                let (table, rows, message, consumed) = step.extract::<Step<'_>>()?;
                let Some(table) = table else {
                    return Ok(Some((Some(Rows::Damaged { rows, message }), consumed)));
                };
                // What Arrow's own schema cannot say, it refuses by a panic.
                let taken = catch_unwind(AssertUnwindSafe(|| table.extract::<PyTable>()));
                let Ok(Ok(taken)) = taken else {
                    let rows = table.getattr("num_rows")?.extract()?;
                    let message = "the schema of these rows is damaged".into();
                    return Ok(Some((Some(Rows::Damaged { rows, message }), consumed)));
                };
                let (batches, _) = taken.into_inner();
                self.ahead.extend(batches.into_iter().map(|batch| (batch, consumed)));
                Ok(Some((None, consumed)))
            });
            match step.map_err(of_python)? {
                None => return Ok(None),
                Some((Some(damaged), consumed)) => return Ok(Some((damaged, consumed))),
                Some((None, _)) => {}
            }
        }
    }
}
