//! Python's binary file objects as readers and writers. The lock is taken for each call of theirs only.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyMemoryView, PyString};

/// Seconds between two looks at whether the user has interrupted the call.
const TICK: f64 = 0.1;

/// What the file objects of a call share with the thread that waits for it: whether to give up, and what
/// Python raised, with the name of the file that did.
#[derive(Clone, Default)]
pub(crate) struct Exchange(Arc<Shared>);

#[derive(Default)]
struct Shared {
    cancelled: AtomicBool,
    raised: Mutex<Option<(String, PyErr)>>,
}

impl Exchange {
    /// Asks the readers that wait for data to stop.
    pub(crate) fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::Relaxed);
    }

    /// What a file object raised, and its name.
    pub(crate) fn raised(&self) -> Option<(String, PyErr)> {
        self.0.raised.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Whether a file object raised something.
    pub(crate) fn has_raised(&self) -> bool {
        self.0.raised.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Keeps the first exception for the caller; the core gets its text.
    fn keep(&self, name: &str, error: PyErr) -> io::Error {
        let told = io::Error::other(error.to_string());
        let mut raised = self.0.raised.lock().unwrap_or_else(PoisonError::into_inner);
        raised.get_or_insert_with(|| (name.to_owned(), error));
        told
    }
}

/// `select` and the descriptor, where reading may wait for ever and waiting can be distinguished from reading.
type Wait = (Py<PyAny>, i32);

/// Reads from an object with `read(n)`.
pub(crate) struct PyReader {
    object: Py<PyAny>,
    name: String,
    exchange: Exchange,
    wait: Option<Wait>,
    /// `read1` takes what has arrived, `read` would wait for all that is asked for.
    method: &'static str,
    ended: bool,
}

impl PyReader {
    pub(crate) fn new(object: &Bound<'_, PyAny>, name: &str, exchange: &Exchange) -> Self {
        // Whatever has no descriptor is read without waiting, so an error here is no error.
        let (wait, method) = waiting(object).unwrap_or((None, "read"));
        let (name, exchange) = (name.to_owned(), exchange.clone());
        Self { object: object.clone().unbind(), name, exchange, wait, method, ended: false }
    }

    /// Returns when there is something to read.
    fn until_ready(&mut self, py: Python<'_>) -> io::Result<()> {
        while let Some((select, fd)) = &self.wait {
            if self.exchange.0.cancelled.load(Ordering::Relaxed) {
                return Err(io::Error::other("interrupted"));
            }
            let none: [i32; 0] = [];
            let ready = select.bind(py).call1(([*fd], none, none, TICK)).and_then(|r| r.get_item(0)?.len());
            match ready {
                Ok(0) => {}
                Ok(_) => break,
                // A descriptor that cannot be waited for: it is only read.
                Err(_) => self.wait = None,
            }
        }
        Ok(())
    }
}

/// How to wait for a pipe, a terminal or a socket that is read by Python's own file classes. Others may hold
/// bytes back that their descriptor knows nothing of.
fn waiting(object: &Bound<'_, PyAny>) -> PyResult<(Option<Wait>, &'static str)> {
    let py = object.py();
    let io = py.import("io")?;
    let file = io.getattr("FileIO")?;
    let buffered = object.get_type().is(io.getattr("BufferedReader")?);
    let raw = if buffered { object.getattr("raw")? } else { object.clone() };
    if !raw.get_type().is(&file) {
        return Ok((None, "read"));
    }
    let fd: i32 = raw.call_method0("fileno")?.extract()?;
    let mode = py.import("os")?.call_method1("fstat", (fd,))?.getattr("st_mode")?;
    if py.import("stat")?.call_method1("S_ISREG", (mode,))?.extract()? {
        return Ok((None, "read"));
    }
    let select = py.import("select")?.getattr("select")?.unbind();
    Ok((Some((select, fd)), if buffered { "read1" } else { "read" }))
}

impl Read for PyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.ended || buffer.is_empty() {
            return Ok(0); // the end of a terminal's input is said once
        }
        Python::attach(|py| {
            self.until_ready(py)?;
            let piece = self
                .object
                .bind(py)
                .call_method1(self.method, (buffer.len(),))
                .map_err(|error| self.exchange.keep(&self.name, error))?;
            if piece.is_none() {
                return Err(io::Error::other("the file object is non-blocking and has no data"));
            }
            let piece = as_bytes(&piece)?;
            let piece = piece.as_bytes();
            self.ended = piece.is_empty();
            let Some(room) = buffer.get_mut(..piece.len()) else {
                let (given, asked) = (piece.len(), buffer.len());
                return Err(io::Error::other(format!(
                    "the file object returned {given} bytes, expected at most {asked}"
                )));
            };
            room.copy_from_slice(piece);
            Ok(piece.len())
        })
    }
}

/// Bytes, or anything that lends its bytes: `bytearray`, `memoryview`, arrays.
fn as_bytes<'py>(piece: &Bound<'py, PyAny>) -> io::Result<Bound<'py, PyBytes>> {
    if let Ok(bytes) = piece.cast::<PyBytes>() {
        return Ok(bytes.clone());
    }
    if piece.is_instance_of::<PyString>() {
        return Err(io::Error::other(
            "the file object returned text, expected bytes: open it in binary mode",
        ));
    }
    let copied = PyMemoryView::from(piece).and_then(|view| Ok(view.call_method0("tobytes")?.cast_into()?));
    copied.map_err(|_| {
        let kind = piece.get_type().name().map_or_else(|_| "something else".into(), |n| n.to_string());
        io::Error::other(format!("the file object returned {kind}, expected bytes"))
    })
}

/// Writes to an object with `write(bytes)`.
pub(crate) struct PyWriter {
    object: Py<PyAny>,
    exchange: Exchange,
}

/// What a writer is called in messages.
const OUTPUT: &str = "output";

impl PyWriter {
    fn write_in(&self, py: Python<'_>, buffer: &[u8]) -> PyResult<Option<usize>> {
        let object = self.object.bind(py);
        let written = object.call_method1("write", (PyBytes::new(py, buffer),))?;
        // A raw file says so if it took nothing; other objects that return nothing take everything.
        if written.is_none() && object.is_instance(&py.import("io")?.getattr("RawIOBase")?)? {
            return Ok(None);
        }
        Ok(Some(written.extract().unwrap_or(buffer.len())))
    }
}

impl Write for PyWriter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        Python::attach(|py| match self.write_in(py, buffer) {
            Ok(Some(n)) if n <= buffer.len() => Ok(n),
            Ok(Some(n)) => {
                let given = buffer.len();
                Err(io::Error::other(format!("the file object reported {n} written bytes of {given}")))
            }
            Ok(None) => Err(io::Error::other("the file object is non-blocking and accepts no data now")),
            Err(error) => Err(self.exchange.keep(OUTPUT, error)),
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Python::attach(|py| {
            let object = self.object.bind(py);
            if object.hasattr("flush").unwrap_or(false) {
                object.call_method0("flush").map_err(|error| self.exchange.keep(OUTPUT, error))?;
            }
            Ok(())
        })
    }
}

/// A file to create, or an object to write to.
pub(crate) fn writer(target: &Bound<'_, PyAny>, exchange: &Exchange) -> PyResult<Box<dyn Write + Send>> {
    if let Ok(path) = target.extract::<String>() {
        let file = std::fs::File::create(&path).map_err(|source| {
            crate::error::to_python(target.py(), &orchestrace_core::error::Error::Io { path, source })
        })?;
        return Ok(Box::new(io::BufWriter::with_capacity(1 << 20, file)));
    }
    Ok(Box::new(PyWriter { object: target.clone().unbind(), exchange: exchange.clone() }))
}
