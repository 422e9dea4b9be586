//! Credit: conversion of arguments, and the core's columns.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt32Type};
use arrow_array::{Array, Float64Array, RecordBatch, UInt32Array};
use arrow_schema::DataType;
use orchestrace_core::credit::game::Outcomes;
use orchestrace_core::credit::{self as methods, GivenEvents, GivenTraces, Param, Params, Request, Value};
use orchestrace_core::error::{Error, Reason, Result, unknown_name};
use orchestrace_core::schema::{OVERS, Over, QUANTITIES, Quantity};
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyDict};

use crate::call::{request, run_detached};
use crate::corpus::PyStore;
use crate::error::{bad_parameter, to_python};
use crate::files::Exchange;
use crate::games::OwnOutcomes;
use crate::stream::{Stream, import, rows_of};
use crate::units::unit_of;

/// What is credited, by which method. `elsewhere` names channels that other parts of the corpus have; `own` is an outcome
/// that a caller's function computes, and its name.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct CreditRequest<'py> {
    method: String,
    unit: String,
    rewards: Vec<Bound<'py, PyDict>>,
    params: Bound<'py, PyDict>,
    seed: u64,
    #[pyo3(default)]
    elsewhere: Option<Vec<String>>,
    #[pyo3(default)]
    over: Option<String>,
    own: Option<(String, Py<PyAny>)>,
}

/// Whose credit is asked for, by its word.
fn over_of(word: &str) -> Result<Over> {
    Over::parse(word).ok_or_else(|| Error::Parameter(unknown_name("over", word, OVERS)))
}

/// Credits of a store, a table for each of `rewards`: the columns that vary, and what is constant in the call.
#[pyfunction]
#[pyo3(signature = (store, *, threads = None, progress = None, **options))]
pub(crate) fn credit<'py>(
    py: Python<'py>,
    store: &PyStore,
    threads: Option<usize>,
    progress: Option<Bound<'py, PyAny>>,
    options: Option<Bound<'py, PyDict>>,
) -> PyResult<(Vec<Stream>, Bound<'py, PyDict>)> {
    let fail = |error: Error| to_python(py, &error);
    let CreditRequest { method, unit, rewards, params, seed, elsewhere, over, own } = request(py, options)?;
    let method = methods::find(&method).map_err(fail)?;
    let info = method.info();
    let unit = info.unit(&unit).map_err(fail)?;
    let rewards = rewards.iter().map(channels).collect::<PyResult<Vec<_>>>()?;
    let params = checked_params(py, info.params, &params)?;
    let elsewhere = elsewhere.unwrap_or_default();
    let over = over.map_or(Ok(Over::All), |word| over_of(&word)).map_err(fail)?;
    let (called, own) = own.map(|(name, begin)| (name, OwnOutcomes::new(begin))).unzip();
    let outcomes = own.as_ref().map(|own| -> &dyn Outcomes { own });
    let request =
        Request { rewards: &rewards, elsewhere: &elsewhere, unit, over, params: &params, seed, outcomes };
    let store = &store.0;
    let tables = run_detached(py, threads, progress.as_ref(), &Exchange::default(), |run| {
        methods::credit(store, method, &request, run)
    });
    let tables = match &own {
        Some(own) => own.or_raised(tables),
        None => tables,
    }?;
    let facts = PyDict::new(py);
    facts.set_item("quantity", info.quantity.as_str())?;
    facts.set_item("tier", info.tier.map(orchestrace_core::schema::Tier::as_str))?;
    let paid = !matches!(method, methods::Method::PerGame(_)) || params.bool("scaled");
    facts.set_item("paid", paid)?;
    let version = Value::Text(env!("CARGO_PKG_VERSION").into());
    let seed = Value::Int(i64::try_from(seed).unwrap_or(i64::MAX));
    let mut more = vec![("version", version), ("seed", seed)];
    if over != Over::All {
        more.push(("over", Value::Text(over.as_str().into())));
    }
    let told = match called {
        Some(name) => params.clone().recorded_as("outcome", &Value::Text(name.into())),
        None => params.clone(),
    };
    facts.set_item("params", told.json(&more))?;
    Ok((tables.into_iter().map(|(batches, schema)| Stream::new(batches, schema)).collect(), facts))
}

/// What each trace of a corpus is paid, trace by trace: `traces` has the column `trace`, `measures` the columns `trace`, `name`
/// and `value`, one row per reward.
#[pyfunction]
#[pyo3(signature = (traces, measures, reward))]
pub(crate) fn rewards(
    py: Python<'_>,
    traces: &Bound<'_, PyAny>,
    measures: &Bound<'_, PyAny>,
    reward: &Bound<'_, PyDict>,
) -> PyResult<Stream> {
    let fail = |error: Error| to_python(py, &error);
    let traces = import(py, "traces", traces)?;
    let measures = import(py, "measures", measures)?;
    let reward = channels(reward)?;
    let traces = numbers(&traces, "trace").map_err(fail)?;
    let of = numbers(&measures, "trace").map_err(fail)?;
    let values = floats(&measures, "value").map_err(fail)?;
    let names = column(&measures, "name").map_err(fail)?;
    let names = names.as_string_view_opt().ok_or_else(|| {
        fail(Error::Schema(format!("column 'name' is {}, expected strings", names.data_type())))
    })?;
    let rows = of.values().iter().zip(names).zip(&values);
    let rows = rows.filter_map(|((trace, name), value)| Some((*trace, name?, value?)));
    let (batches, schema) = methods::reward::rewards(traces.values(), rows, &reward).map_err(fail)?;
    Ok(Stream::new(batches, schema))
}

/// Channels and their weights, in the order of their names.
pub(crate) fn channels(reward: &Bound<'_, PyDict>) -> PyResult<Vec<(String, f64)>> {
    let mut channels = Vec::with_capacity(reward.len());
    for (name, weight) in reward {
        channels.push((name.extract()?, weight.extract()?));
    }
    channels.sort_by(|a: &(String, f64), b| a.0.cmp(&b.0));
    Ok(channels)
}

/// What a caller gave for a method's parameters, checked, with defaults for the others.
pub(crate) fn checked_params(
    py: Python<'_>,
    known: &'static [Param],
    given: &Bound<'_, PyDict>,
) -> PyResult<Params> {
    let mut values: Vec<(String, Value)> = Vec::with_capacity(given.len());
    for (name, value) in given {
        let name: String = name.extract()?;
        let value = param_value(py, &name, &value)?;
        values.push((name, value));
    }
    let values: Vec<(&str, Value)> =
        values.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    Params::check(known, &values).map_err(|error| to_python(py, &error))
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

/// Values that were found elsewhere: `events` has the columns `value` and `reason`, one per event; `traces` the columns
/// `amount`, `remainder` and `reason`, one per trace.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct RollUpRequest<'py> {
    quantity: String,
    unit: String,
    events: Bound<'py, PyAny>,
    traces: Bound<'py, PyAny>,
}

/// Credits from values that were found elsewhere.
#[pyfunction]
#[pyo3(signature = (store, *, threads = None, progress = None, **options))]
pub(crate) fn roll_up<'py>(
    py: Python<'py>,
    store: &PyStore,
    threads: Option<usize>,
    progress: Option<Bound<'py, PyAny>>,
    options: Option<Bound<'py, PyDict>>,
) -> PyResult<Stream> {
    let fail = |error: Error| to_python(py, &error);
    let RollUpRequest { quantity, unit, events, traces } = request(py, options)?;
    let quantity = Quantity::parse(&quantity)
        .ok_or_else(|| fail(Error::Parameter(unknown_name("quantity", &quantity, QUANTITIES))))?;
    let unit = unit_of(&unit).map_err(fail)?;
    let events = import(py, "events", &events)?;
    let traces = import(py, "traces", &traces)?;
    let events = GivenEvents {
        values: floats(&events, "value").map_err(fail)?,
        reasons: reasons(&events).map_err(fail)?,
    };
    let given = GivenTraces {
        amount: floats(&traces, "amount").map_err(fail)?,
        remainder: floats(&traces, "remainder").map_err(fail)?,
        reasons: reasons(&traces).map_err(fail)?,
    };
    let store = &store.0;
    rows_of(py, threads, progress.as_ref(), |run| {
        methods::roll_up(store, quantity, unit, &events, &given, run)
    })
}

/// The decisions of a store with what makes them siblings.
#[pyfunction]
#[pyo3(signature = (store, *, context = "auto", threads = None, progress = None))]
pub(crate) fn contexts(
    py: Python<'_>,
    store: &PyStore,
    context: &str,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Stream> {
    let given = [("context", Value::Text(context.to_owned().into()))];
    let params = Params::check(methods::context::PARAMS, &given).map_err(|e| to_python(py, &e))?;
    let store = &store.0;
    rows_of(py, threads, progress.as_ref(), |run| {
        methods::context::contexts(store, params.text("context"), run)
    })
}

fn column<'a>(batch: &'a RecordBatch, name: &str) -> Result<&'a dyn Array> {
    let found = batch.column_by_name(name);
    found.map(AsRef::as_ref).ok_or_else(|| Error::Schema(format!("the table has no column '{name}'")))
}

fn numbers(batch: &RecordBatch, name: &str) -> Result<UInt32Array> {
    let array = column(batch, name)?;
    array
        .as_primitive_opt::<UInt32Type>()
        .cloned()
        .ok_or_else(|| Error::Schema(format!("column '{name}' is {}, expected UInt32", array.data_type())))
}

fn floats(batch: &RecordBatch, name: &str) -> Result<Float64Array> {
    let array = column(batch, name)?;
    if *array.data_type() == DataType::Null {
        return Ok(Float64Array::new_null(array.len()));
    }
    array
        .as_primitive_opt::<Float64Type>()
        .cloned()
        .ok_or_else(|| Error::Schema(format!("column '{name}' is {}, expected Float64", array.data_type())))
}

fn reasons(batch: &RecordBatch) -> Result<Vec<Option<Reason>>> {
    let array = column(batch, "reason")?;
    if *array.data_type() == DataType::Null {
        return Ok(vec![None; array.len()]);
    }
    let texts = array.as_string_view_opt().ok_or_else(|| {
        Error::Schema(format!("column 'reason' is {}, expected strings", array.data_type()))
    })?;
    let reason = |word: &str| {
        Reason::ALL.iter().find(|reason| reason.as_str() == word).copied().ok_or_else(|| {
            let known: Vec<_> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
            Error::Parameter(orchestrace_core::error::unknown_name("reason", word, &known))
        })
    };
    texts.iter().map(|word| word.map(reason).transpose()).collect()
}
