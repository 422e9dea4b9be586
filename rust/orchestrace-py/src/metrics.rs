//! Metrics of recordings: conversion of Python's requests.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use orchestrace_core::error::{Error, Result, unknown_name};
use orchestrace_core::metrics::{
    self, Harness, MEMBER_METRICS, METRICS, MemberKind, Options, drags, members, select,
};
use orchestrace_core::schema::{Dict, EVENT_TYPES, EventType};
use orchestrace_core::store::Store;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::request;
use crate::corpus::PyStore;
use crate::error::to_python;
use crate::safety::tools_of;
use crate::schedule::{TimeRequest, word};
use crate::stream::{Stream, rows_of};

/// Options of trace metrics beside those of times.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct MetricsRequest {
    #[pyo3(default)]
    subtasks: Option<BTreeMap<String, BTreeSet<String>>>,
    #[pyo3(default)]
    harness: Option<BTreeMap<String, Vec<String>>>,
    tools: BTreeMap<String, Vec<String>>,
    #[pyo3(default)]
    intervention_at: Option<f64>,
}

/// The metrics of the named groups, or of all linear ones, a row for each trace.
#[pyfunction]
#[pyo3(signature = (store, groups = None, *, threads = None, progress = None, **options))]
pub(crate) fn trace_metrics(
    py: Python<'_>,
    store: &PyStore,
    groups: Option<Vec<String>>,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Stream> {
    let store = &store.0;
    let groups = select(groups.as_deref()).map_err(|error| to_python(py, &error))?;
    let options = trace_options(py, store, options)?;
    rows_of(py, threads, progress.as_ref(), |run| metrics::metrics(store, &groups, &options, run))
}

/// What metrics of traces are asked with.
pub(crate) fn trace_options(
    py: Python<'_>,
    store: &Store,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Options> {
    let fail = |error: Error| to_python(py, &error);
    let times: TimeRequest = request(py, options.clone())?;
    let MetricsRequest { subtasks, harness, tools, intervention_at } = request(py, options)?;
    let harness = harness.map(|declared| harness_of(store, &declared)).transpose().map_err(fail)?;
    if let Some(at) = intervention_at.filter(|at| !(0.0..=1.0).contains(at)) {
        let message = format!("intervention_at is {at}, expected a share of the run's time from 0 to 1");
        return Err(fail(Error::Parameter(message)));
    }
    Ok(Options {
        lengths: times.lengths(py)?,
        program_order: times.program_order,
        subtasks: Arc::new(subtasks.unwrap_or_default()),
        harness: harness.map(Arc::new),
        tools: Arc::new(tools_of(store, &tools)),
        intervention_at,
    })
}

/// What a harness declares: lists of names under `types`, `tools`, `roles`.
fn harness_of(store: &Store, declared: &BTreeMap<String, Vec<String>>) -> Result<Harness> {
    let codes = |dict: Dict, names: &[String]| {
        // a name that this store does not have is one that nothing in it has
        let mut found: Vec<u32> =
            names.iter().filter_map(|name| store.names().dict(dict).find(name)).collect();
        found.sort_unstable();
        found
    };
    let mut harness = Harness::default();
    for (what, names) in declared {
        match what.as_str() {
            "types" => {
                let code = |name: &String| {
                    EventType::parse(name)
                        .map(|kind| kind as u8)
                        .ok_or_else(|| Error::Parameter(unknown_name("event type", name, EVENT_TYPES)))
                };
                let mut types = names.iter().map(code).collect::<Result<Vec<u8>>>()?;
                types.sort_unstable();
                harness.types = Some(types);
            }
            "tools" => harness.tools = Some(codes(Dict::Tool, names)),
            "roles" => harness.roles = Some(codes(Dict::Role, names)),
            _ => {
                let known = ["types", "tools", "roles"];
                return Err(Error::Parameter(unknown_name("part of a harness", what, &known)));
            }
        }
    }
    Ok(harness)
}

fn options_of(py: Python<'_>, times: TimeRequest) -> PyResult<Options> {
    let TimeRequest { program_order, .. } = times;
    Ok(Options { lengths: times.lengths(py)?, program_order, ..Options::default() })
}

/// What each event of the critical paths adds to the span, a row each.
#[pyfunction]
#[pyo3(signature = (store, *, threads = None, progress = None, **options))]
pub(crate) fn drag(
    py: Python<'_>,
    store: &PyStore,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Stream> {
    let store = &store.0;
    let options = options_of(py, request(py, options)?)?;
    rows_of(py, threads, progress.as_ref(), |run| drags(store, &options, run))
}

/// The events that every path to the outcome passes, a row each.
#[pyfunction]
#[pyo3(signature = (store, *, program_order = false, threads = None, progress = None))]
pub(crate) fn dominators(
    py: Python<'_>,
    store: &PyStore,
    program_order: bool,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Stream> {
    let store = &store.0;
    let options = Options { program_order, ..Options::default() };
    rows_of(py, threads, progress.as_ref(), |run| metrics::dominators(store, &options, run))
}

/// The metrics of the agents or roles of every trace, a row for each.
#[pyfunction]
#[pyo3(signature = (store, member, *, threads = None, progress = None, **options))]
pub(crate) fn member_metrics(
    py: Python<'_>,
    store: &PyStore,
    member: &str,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Stream> {
    let store = &store.0;
    let known = [("agent", MemberKind::Agent), ("role", MemberKind::Role)];
    let kind = word(py, "kind of member", member, &known)?;
    let options = options_of(py, request(py, options)?)?;
    rows_of(py, threads, progress.as_ref(), |run| members(store, kind, &options, run))
}

/// From when to when the agents and spawned names of every trace are there.
#[pyfunction]
#[pyo3(signature = (store, *, threads = None, progress = None))]
pub(crate) fn lifetimes(
    py: Python<'_>,
    store: &PyStore,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Stream> {
    let store = &store.0;
    rows_of(py, threads, progress.as_ref(), |run| metrics::lifetimes(store, run))
}

/// What is measured: group, name, what it counts, cost, summary, reference. Those of members have the group `members`.
#[pyfunction]
pub(crate) fn metric_definitions(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let of_traces = METRICS.iter().flat_map(|group| {
        let info = group.info();
        info.metrics.iter().map(|metric| (info.name, info.cost.as_str(), info.reference, metric))
    });
    let of_members = MEMBER_METRICS.iter().map(|metric| ("members", "linear", "D4, D19", metric));
    of_traces
        .chain(of_members)
        .map(|(group, cost, reference, metric)| {
            let row = PyDict::new(py);
            row.set_item("metric", metric.name)?;
            row.set_item("group", group)?;
            row.set_item("counts", metric.count.as_str())?;
            row.set_item("cost", cost)?;
            row.set_item("summary", metric.summary)?;
            row.set_item("reference", reference)?;
            Ok(row)
        })
        .collect()
}
