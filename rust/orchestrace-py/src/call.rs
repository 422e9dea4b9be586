//! The single entry from Python into the core.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use orchestrace_core::error::Result;
use orchestrace_core::run::Run;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::{raised, refused, to_python};
use crate::files::Exchange;

/// Whether this process was forked from one whose Polars threads ran: it lacks them, and whatever waits for them does
/// so for ever.
static ORPHANED: AtomicBool = AtomicBool::new(false);

/// Marks this process, and with it its children.
#[pyfunction]
pub(crate) fn mark_orphaned() {
    ORPHANED.store(true, Ordering::Relaxed);
}

/// Refuses to go on in a process that would hang.
#[pyfunction]
pub(crate) fn check_process(py: Python<'_>) -> PyResult<()> {
    if ORPHANED.load(Ordering::Relaxed) {
        return Err(refused(
            py,
            "this process was forked after Polars had started its threads, so it cannot use Polars: start processes \
             with multiprocessing.get_context('spawn'), as in get_context('spawn').Pool(4) or DataLoader(..., \
             multiprocessing_context='spawn')",
        ));
    }
    Ok(())
}

/// Work of so many rows is done before anybody who pressed a key looks up.
const SHORT: usize = 1 << 22;

/// Runs `f` on `rows` rows without the interpreter lock: on this very thread where it is a matter of milliseconds, of
/// which a thread of its own would take a part.
pub(crate) fn run_on_rows<T: Send>(
    py: Python<'_>,
    threads: Option<usize>,
    rows: usize,
    f: impl FnOnce(&Run) -> Result<T> + Send,
) -> PyResult<T> {
    if rows > SHORT {
        return run_detached(py, threads, None, &Exchange::default(), f);
    }
    check_process(py)?;
    let run = Run::new(threads).map_err(|e| to_python(py, &e))?;
    py.detach(|| f(&run)).map_err(|e| to_python(py, &e))
}

/// The keyword options of a call as the request of its verb; one that is not given has the default of the request.
pub(crate) fn request<'py, T: FromPyObjectOwned<'py>>(
    py: Python<'py>,
    options: Option<Bound<'py, PyDict>>,
) -> PyResult<T> {
    options.unwrap_or_else(|| PyDict::new(py)).extract().map_err(Into::into)
}

/// How often signals and progress are looked at.
const TICK: Duration = Duration::from_millis(100);

/// Runs `f` without the interpreter lock on a thread of its own, wakes up ten times a second to look for
/// signals and to report progress, and cancels the run when the user interrupts it. `exchange` is that of the
/// file objects in the call: what they raise is raised here.
pub(crate) fn run_detached<T: Send>(
    py: Python<'_>,
    threads: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
    exchange: &Exchange,
    f: impl FnOnce(&Run) -> Result<T> + Send,
) -> PyResult<T> {
    check_process(py)?;
    let run = Run::new(threads).map_err(|e| to_python(py, &e))?;
    let finished = (Mutex::new(false), Condvar::new());
    let outcome = std::thread::scope(|scope| {
        let (run, finished) = (&run, &finished);
        let worker = scope.spawn(move || {
            // Set also when `f` panics, so that the caller does not wait for ever.
            let _set = SetOnDrop(finished);
            f(run)
        });
        let mut interrupt = None;
        loop {
            if py.detach(|| wait(finished)) {
                break;
            }
            if interrupt.is_none() {
                interrupt = py.check_signals().and_then(|()| report(progress, run)).err();
                if interrupt.is_some() || exchange.has_raised() {
                    run.cancel();
                    exchange.cancel();
                }
            }
        }
        let joined = py.detach(|| worker.join());
        (joined, interrupt)
    });
    let (joined, interrupt) = outcome;
    // Also where the core took it for a damaged stream and went on.
    let interrupt = interrupt.or_else(|| exchange.raised().map(|(name, error)| raised(py, &name, error)));
    match (joined, interrupt) {
        (Err(panic), _) => std::panic::resume_unwind(panic),
        (_, Some(error)) => Err(error),
        (Ok(Err(error)), None) => Err(to_python(py, &error)),
        (Ok(Ok(value)), None) => {
            report(progress, &run)?;
            Ok(value)
        }
    }
}

type Finished = (Mutex<bool>, Condvar);

struct SetOnDrop<'a>(&'a Finished);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        *self.0.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.0.1.notify_all();
    }
}

/// Whether the work is done, waiting for at most a tick.
fn wait((flag, condition): &Finished) -> bool {
    let flag = flag.lock().unwrap_or_else(PoisonError::into_inner);
    let (flag, _) =
        condition.wait_timeout_while(flag, TICK, |done| !*done).unwrap_or_else(PoisonError::into_inner);
    *flag
}

fn report(progress: Option<&Bound<'_, PyAny>>, run: &Run) -> PyResult<()> {
    if let Some(callback) = progress.filter(|p| !p.is_none()) {
        callback.call1(run.progress())?;
    }
    Ok(())
}
