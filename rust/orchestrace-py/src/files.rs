//! Python's binary file objects as readers and writers. The lock is taken for each call of theirs only.

use std::io::{self, Read, Write};

use pyo3::prelude::*;
use pyo3::types::PyBytes;

/// Reads from an object with `read(n)`.
pub(crate) struct PyReader(pub Py<PyAny>);

impl Read for PyReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        Python::attach(|py| {
            let piece = self.0.bind(py).call_method1("read", (buffer.len(),)).map_err(io::Error::other)?;
            if piece.is_none() {
                return Err(io::Error::other("the file object is non-blocking and has no data"));
            }
            let piece: &[u8] = piece.extract().map_err(|_| {
                io::Error::other("the file object gives text, expected bytes: open it in binary mode")
            })?;
            let n = piece.len().min(buffer.len());
            buffer[..n].copy_from_slice(&piece[..n]);
            Ok(n)
        })
    }
}

/// Writes to an object with `write(bytes)`.
pub(crate) struct PyWriter(pub Py<PyAny>);

impl Write for PyWriter {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        Python::attach(|py| {
            let written = self
                .0
                .bind(py)
                .call_method1("write", (PyBytes::new(py, buffer),))
                .map_err(io::Error::other)?;
            // Some file-like objects return nothing and take everything.
            Ok(written.extract().unwrap_or(buffer.len()))
        })
    }

    fn flush(&mut self) -> io::Result<()> {
        Python::attach(|py| {
            let object = self.0.bind(py);
            if object.hasattr("flush").unwrap_or(false) {
                object.call_method0("flush").map_err(io::Error::other)?;
            }
            Ok(())
        })
    }
}

/// A file to create, or an object to write to.
pub(crate) fn writer(target: &Bound<'_, PyAny>) -> PyResult<Box<dyn Write + Send>> {
    if let Ok(path) = target.extract::<String>() {
        let file = std::fs::File::create(&path).map_err(|source| {
            crate::error::to_python(target.py(), &orchestrace_core::error::Error::Io { path, source })
        })?;
        return Ok(Box::new(io::BufWriter::with_capacity(1 << 20, file)));
    }
    Ok(Box::new(PyWriter(target.clone().unbind())))
}
