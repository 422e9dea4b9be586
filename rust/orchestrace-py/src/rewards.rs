//! Rewards by rules: conversion of Python's requests.

use orchestrace_core::error::{Error, unknown_name};
use orchestrace_core::rewards::{self as rules, REWARDS, Request, Reward, RuleRequest, Window, Windows};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::{request, run_detached};
use crate::corpus::PyStore;
use crate::credit::checked_params;
use crate::error::to_python;
use crate::files::Exchange;
use crate::metrics::trace_options;
use crate::registry::params_of;
use crate::stream::Stream;

/// One rule as it is asked for.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct RuleArguments<'py> {
    name: String,
    params: Bound<'py, PyDict>,
    channels: Bound<'py, PyDict>,
}

/// The rules to apply, and facts about the corpus that the store is a part of.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct RewardRequest<'py> {
    rules: Vec<RuleArguments<'py>>,
    elsewhere: Vec<String>,
    addends: bool,
    windows: Vec<(f64, u64, u64)>,
}

fn rule_request(py: Python<'_>, arguments: &RuleArguments<'_>) -> PyResult<RuleRequest> {
    let fail = |error: Error| to_python(py, &error);
    let rule = rules::find(&arguments.name).map_err(fail)?;
    let mut channels = vec![None; rule.channels.len()];
    for (name, measure) in &arguments.channels {
        let name: String = name.extract()?;
        let Some(at) = rule.channels.iter().position(|channel| channel.name == name) else {
            let names: Vec<_> = rule.channels.iter().map(|channel| channel.name).collect();
            let kind = format!("channel of reward {}", rule.name);
            return Err(fail(Error::Parameter(unknown_name(&kind, &name, &names))));
        };
        channels[at] = Some(measure.extract()?);
    }
    Ok(RuleRequest { rule, params: checked_params(py, rule.params, &arguments.params)?, channels })
}

/// What each rule pays in the traces of a store, a table for each.
#[pyfunction]
#[pyo3(signature = (store, *, threads = None, progress = None, **options))]
pub(crate) fn pay(
    py: Python<'_>,
    store: &PyStore,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Vec<Stream>> {
    let store = &store.0;
    let RewardRequest { rules, elsewhere, addends, windows } = request(py, options.clone())?;
    let rules = rules.iter().map(|rule| rule_request(py, rule)).collect::<PyResult<Vec<_>>>()?;
    let options = trace_options(py, store, options)?;
    let window = |(step, traces, parallel)| Window { step, traces, parallel };
    let windows: Windows = windows.into_iter().map(window).collect();
    let request =
        Request { rules: &rules, elsewhere: &elsewhere, options: &options, addends, windows: &windows };
    let tables = run_detached(py, threads, progress.as_ref(), &Exchange::default(), |run| {
        rules::rewards(store, &request, run)
    })?;
    Ok(tables.into_iter().map(|(batches, schema)| Stream::new(batches, schema)).collect())
}

/// The windows of a store: a step, its traces, those of them with two agents or more. Those of parts add up.
#[pyfunction]
#[pyo3(signature = (store, *, threads = None, progress = None))]
pub(crate) fn reward_windows(
    py: Python<'_>,
    store: &PyStore,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Vec<(f64, u64, u64)>> {
    let store = &store.0;
    let found =
        run_detached(py, threads, progress.as_ref(), &Exchange::default(), |run| rules::windows(store, run))?;
    Ok(found.list().map(|window| (window.step, window.traces, window.parallel)).collect())
}

/// Whether the weights of a rule follow from the windows of the corpus.
#[pyfunction]
pub(crate) fn reward_is_diagnostic(py: Python<'_>, rule: RuleArguments<'_>) -> PyResult<bool> {
    Ok(rule_request(py, &rule)?.is_diagnostic())
}

/// All parameters of a rule as JSON, defaults included, with the rewards of the recording that its channels are; of a
/// diagnostic rule also what is left of its weights.
#[pyfunction]
#[pyo3(signature = (rule, anneal_left = None))]
pub(crate) fn reward_params(
    py: Python<'_>,
    rule: RuleArguments<'_>,
    anneal_left: Option<f64>,
) -> PyResult<String> {
    use orchestrace_core::credit::Value;
    let request = rule_request(py, &rule)?;
    let is_diagnostic = request.is_diagnostic();
    let RuleRequest { rule, params, channels } = request;
    let named: Vec<(String, Value)> = rule
        .channels
        .iter()
        .zip(channels)
        .map(|(channel, told)| {
            let measure = told.unwrap_or_else(|| channel.default.to_owned());
            (format!("channels.{}", channel.name), Value::Text(measure.into()))
        })
        .collect();
    let mut more: Vec<(&str, Value)> =
        named.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    if is_diagnostic {
        more.push(("anneal_left", anneal_left.map_or(Value::Null, Value::Float)));
    }
    more.push(("version", Value::Text(env!("CARGO_PKG_VERSION").into())));
    Ok(params.json(&more))
}

/// The rules: name, family, unit, formula, what they read, parameters, source.
#[pyfunction]
pub(crate) fn reward_rules(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let row_of = |rule: &&'static Reward| {
        let row = PyDict::new(py);
        row.set_item("reward", rule.name)?;
        row.set_item("family", rule.family.as_str())?;
        row.set_item("unit", rule.unit.as_str())?;
        row.set_item("summary", rule.summary)?;
        row.set_item("addends", rule.addends)?;
        let channels = rule.channels.iter().map(|channel| {
            let about = PyDict::new(py);
            about.set_item("name", channel.name)?;
            about.set_item("default", channel.default)?;
            about.set_item("doc", channel.doc)?;
            Ok(about)
        });
        row.set_item("channels", channels.collect::<PyResult<Vec<_>>>()?)?;
        row.set_item("metrics", rule.metrics)?;
        row.set_item("params", params_of(py, rule.params)?)?;
        row.set_item("reference", rule.reference)?;
        Ok(row)
    };
    REWARDS.iter().map(row_of).collect()
}
