//! Credit and generated corpora.

use std::io::Write;

use orchestrace_core::credit::{self as methods, Params, Request, Value};
use orchestrace_core::error::Error;
use orchestrace_core::generate::{Preset, Spec, write};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::call::run_detached;
use crate::corpus::PyStore;
use crate::error::{bad_parameter, to_python};
use crate::files::{Exchange, writer};
use crate::stream::Stream;

/// Credits of a store: the columns that vary, and what is constant in the call.
#[pyfunction]
#[pyo3(signature = (store, *, method, unit, reward, params, seed = 0, elsewhere = None, threads = None,
    progress = None))]
#[allow(clippy::too_many_arguments)] // keyword options of one call
pub(crate) fn credit<'py>(
    py: Python<'py>,
    store: &PyStore,
    method: &str,
    unit: &str,
    reward: &Bound<'py, PyDict>,
    params: &Bound<'py, PyDict>,
    seed: u64,
    elsewhere: Option<Vec<String>>,
    threads: Option<usize>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<(Stream, Bound<'py, PyDict>)> {
    let fail = |error: Error| to_python(py, &error);
    let method = methods::find(method).map_err(fail)?;
    let info = method.info();
    let unit = info.unit(unit).map_err(fail)?;
    let mut channels: Vec<(String, f64)> = Vec::new();
    for (name, weight) in reward {
        channels.push((name.extract()?, weight.extract()?));
    }
    channels.sort_by(|a, b| a.0.cmp(&b.0));
    let mut given: Vec<(String, Value)> = Vec::new();
    for (name, value) in params {
        let name: String = name.extract()?;
        given.push((name.clone(), param_value(py, &name, &value)?));
    }
    let given: Vec<(&str, Value)> =
        given.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    let params = Params::check(info.params, &given).map_err(fail)?;
    let elsewhere = elsewhere.unwrap_or_default();
    let request = Request { reward: &channels, elsewhere: &elsewhere, unit, params: &params };
    let store = &store.0;
    let (batches, schema) = run_detached(py, threads, progress.as_ref(), &Exchange::default(), |run| {
        methods::credit(store, method, &request, run)
    })?;
    let facts = PyDict::new(py);
    facts.set_item("tier", info.tier.map(orchestrace_core::schema::Tier::as_str))?;
    let version = Value::Text(env!("CARGO_PKG_VERSION").into());
    let more = [("version", version), ("seed", Value::Int(i64::try_from(seed).unwrap_or(i64::MAX)))];
    facts.set_item("params", params.json(&more))?;
    Ok((Stream::new(batches, schema), facts))
}

fn param_value(py: Python<'_>, name: &str, value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        return Ok(Value::Null);
    }
    // A bool is an int in Python, so it goes first.
    if value.is_instance_of::<PyBool>() {
        return Ok(Value::Bool(value.extract()?));
    }
    if let Ok(int) = value.extract::<i64>() {
        return Ok(Value::Int(int));
    }
    if let Ok(float) = value.extract::<f64>() {
        return Ok(Value::Float(float));
    }
    if let Ok(text) = value.extract::<String>() {
        return Ok(Value::Text(text.into()));
    }
    if let Ok(list) = value.extract::<Vec<f64>>() {
        return Ok(Value::Floats(list.into()));
    }
    let kind = value.get_type().name()?;
    Err(bad_parameter(
        py,
        format!("parameter '{name}' is a {kind}, expected a number, text, flag or list of numbers"),
    ))
}

/// Writes a generated corpus; the counts of what was written.
#[pyfunction]
#[pyo3(signature = (target, *, preset = "mixed", events = None, traces = None, seed = 0, threads = None,
    progress = None))]
#[allow(clippy::too_many_arguments)] // keyword options of one call
pub(crate) fn generate<'py>(
    py: Python<'py>,
    target: &Bound<'py, PyAny>,
    preset: &str,
    events: Option<u64>,
    traces: Option<u64>,
    seed: u64,
    threads: Option<usize>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyDict>> {
    let preset = Preset::parse(preset).map_err(|e| to_python(py, &e))?;
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
