//! Errors of the core as exceptions: one base, and one class per cause that also derives from a builtin.

use orchestrace_core::error::{Error, printable};
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

static BASE: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static INPUT: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static SCHEMA: PyOnceLock<Py<PyType>> = PyOnceLock::new();
static PARAMETER: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// A class made as Python makes one, since it has two bases.
fn class<'py>(
    py: Python<'py>,
    cell: &'static PyOnceLock<Py<PyType>>,
    name: &str,
    doc: &str,
    bases: impl FnOnce() -> PyResult<Bound<'py, PyTuple>>,
) -> PyResult<&'py Py<PyType>> {
    cell.get_or_try_init(py, || {
        let members = PyDict::new(py);
        members.set_item("__module__", "orchestrace._core")?;
        members.set_item("__doc__", doc)?;
        let made = py.get_type::<PyType>().call1((name, bases()?, members))?;
        Ok(made.cast_into::<PyType>()?.unbind())
    })
}

fn base(py: Python<'_>) -> PyResult<&Py<PyType>> {
    let doc = "Base of all errors that orchestrace raises; the message gives the reason.";
    class(py, &BASE, "OrchestraceError", doc, || PyTuple::new(py, [py.get_type::<PyException>()]))
}

fn with_builtin<'py>(py: Python<'py>, builtin: Bound<'py, PyType>) -> PyResult<Bound<'py, PyTuple>> {
    PyTuple::new(py, [base(py)?.bind(py), &builtin])
}

fn input(py: Python<'_>) -> PyResult<&Py<PyType>> {
    let doc = "An input cannot be found or read, or an output cannot be written.";
    class(py, &INPUT, "InputError", doc, || with_builtin(py, py.get_type::<PyOSError>()))
}

fn schema(py: Python<'_>) -> PyResult<&Py<PyType>> {
    let doc = "Tables do not match the schema.";
    class(py, &SCHEMA, "SchemaError", doc, || with_builtin(py, py.get_type::<PyValueError>()))
}

fn parameter(py: Python<'_>) -> PyResult<&Py<PyType>> {
    let doc = "An option, method, unit, channel or format is unknown or invalid.";
    class(py, &PARAMETER, "ParameterError", doc, || with_builtin(py, py.get_type::<PyValueError>()))
}

/// Adds the classes to the module.
pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("OrchestraceError", base(py)?)?;
    module.add("InputError", input(py)?)?;
    module.add("SchemaError", schema(py)?)?;
    module.add("ParameterError", parameter(py)?)
}

/// The exception for an error of the core.
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error {
        Error::Cancelled => return PyKeyboardInterrupt::new_err(()),
        Error::Input(_) | Error::Io { .. } | Error::TooLarge(_) => input(py),
        Error::Schema(_) => schema(py),
        Error::Parameter(_) => parameter(py),
        _ => base(py),
    };
    match class {
        // Messages quote paths and names out of recordings, and a traceback prints them as they are.
        Ok(class) => PyErr::from_type(class.bind(py).clone(), printable(&error.to_string()).into_owned()),
        Err(error) => error,
    }
}

/// The exception for one that a file object raised: what asks the program to stop as it is, all else as the
/// cause of an `InputError`.
pub(crate) fn raised(py: Python<'_>, name: &str, error: PyErr) -> PyErr {
    if !error.is_instance_of::<PyException>(py) {
        return error;
    }
    let told = to_python(py, &Error::Input(format!("{name}: {error}")));
    told.set_cause(py, Some(error));
    told
}

/// A wrong argument.
pub(crate) fn bad_parameter(py: Python<'_>, message: String) -> PyErr {
    to_python(py, &Error::Parameter(message))
}

/// A call that this process cannot make, whatever its arguments.
pub(crate) fn refused(py: Python<'_>, message: &'static str) -> PyErr {
    match base(py) {
        Ok(class) => PyErr::from_type(class.bind(py).clone(), message),
        Err(error) => error,
    }
}
