//! The generator: conversion of arguments, and counts.

use std::io::Write;

use orchestrace_core::error::Error;
use orchestrace_core::generate::{Preset, Spec, write};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::{request, run_detached};
use crate::error::to_python;
use crate::files::{Exchange, writer};

/// What is generated.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct GenerateRequest {
    preset: String,
    events: Option<u64>,
    traces: Option<u64>,
    seed: u64,
}

/// Writes a generated corpus; the counts of what was written.
#[pyfunction]
#[pyo3(signature = (target, *, threads = None, progress = None, **options))]
pub(crate) fn generate<'py>(
    py: Python<'py>,
    target: &Bound<'py, PyAny>,
    threads: Option<usize>,
    progress: Option<Bound<'py, PyAny>>,
    options: Option<Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let GenerateRequest { preset, events, traces, seed } = request(py, options)?;
    let preset = Preset::parse(&preset).map_err(|e| to_python(py, &e))?;
    let spec = Spec { preset, events, traces, seed };
    let exchange = Exchange::default();
    let mut sink = writer(target, &exchange)?;
    let counts = run_detached(py, threads, progress.as_ref(), &exchange, move |run| {
        let counts = run.pool().install(|| {
            let mut take = |bytes: &[u8]| sink.write_all(bytes);
            write(&spec, &mut take, 0, run.cancel_flag(), run.done_counter())
        })?;
        sink.flush().map_err(|source| Error::Io { path: "output".into(), source })?;
        Ok(counts)
    })?;
    let out = PyDict::new(py);
    for (name, value) in [
        ("traces", counts.traces),
        ("events", counts.events),
        ("edges", counts.edges),
        ("bytes", counts.bytes),
    ] {
        out.set_item(name, value)?;
    }
    Ok(out)
}
