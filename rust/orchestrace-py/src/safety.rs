//! Taint and cuts: conversion of Python's requests.

use std::collections::BTreeMap;

use arrow_array::Float64Array;
use arrow_array::cast::AsArray;
use arrow_array::types::Float64Type;
use orchestrace_core::error::{Error, Result};
use orchestrace_core::safety::{self, Carry, Channels, Named, Options, Risk, Rules, Tools};
use orchestrace_core::schema::Dict;
use orchestrace_core::store::Store;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::request;
use crate::corpus::PyStore;
use crate::error::to_python;
use crate::stream::{Stream, import, rows_of};

/// Names as codes of the store, ascending. A name that this store does not have is one that nothing in it has.
pub(crate) fn codes(store: &Store, dict: Dict, names: &[String]) -> Vec<u32> {
    let mut found: Vec<u32> = names.iter().filter_map(|name| store.names().dict(dict).find(name)).collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn named(store: &Store, names: &[String]) -> Named {
    Named {
        tools: codes(store, Dict::Tool, names),
        agents: codes(store, Dict::Agent, names),
        any: !names.is_empty(),
    }
}

/// Statements about tools: lists of names under `untrusted`, `trusted`, `privileged`.
pub(crate) fn tools_of(store: &Store, said: &BTreeMap<String, Vec<String>>) -> Tools {
    let of = |what: &str| named(store, said.get(what).map_or(&[][..], Vec::as_slice));
    Tools { untrusted: of("untrusted"), trusted: of("trusted"), privileged: of("privileged") }
}

/// Options of the closure. `carry` says which edges carry, `probabilistic` are the chances of a transmission and a
/// leak.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct TaintRequest {
    carry: String,
    tools: BTreeMap<String, Vec<String>>,
    allow: Vec<String>,
    #[pyo3(default)]
    probabilistic: Option<(f64, f64)>,
    program_order: bool,
    #[pyo3(default)]
    channels: ChannelNames,
}

/// Names that say by which way content came in: tools that are memories, agents that judge.
#[derive(Default, FromPyObject)]
#[pyo3(from_item_all)]
struct ChannelNames {
    memory: Vec<String>,
    verifiers: Vec<String>,
}

impl TaintRequest {
    fn channels(&self, store: &Store) -> Channels {
        let ChannelNames { memory, verifiers } = &self.channels;
        Channels::of(store, &named(store, memory), codes(store, Dict::Agent, verifiers))
    }

    fn options(&self, store: &Store) -> Result<Options> {
        let rules = Rules {
            carry: Carry::parse(&self.carry)?,
            tools: tools_of(store, &self.tools),
            allow: codes(store, Dict::Agent, &self.allow),
            program_order: self.program_order,
        };
        let risk = self.probabilistic.map(|(transmission, leak)| Risk { transmission, leak });
        Ok(Options { rules, risk })
    }
}

/// The taint of every trace, a row each.
#[pyfunction]
#[pyo3(signature = (store, *, threads = None, progress = None, **options))]
pub(crate) fn taint(
    py: Python<'_>,
    store: &PyStore,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Stream> {
    let store = &store.0;
    let request: TaintRequest = request(py, options)?;
    let options = request.options(store).map_err(|error| to_python(py, &error))?;
    rows_of(py, threads, progress.as_ref(), |run| safety::taints(store, &options, run))
}

/// The tainted events of every trace, a row each.
#[pyfunction]
#[pyo3(signature = (store, *, threads = None, progress = None, **options))]
pub(crate) fn tainted_events(
    py: Python<'_>,
    store: &PyStore,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Stream> {
    let store = &store.0;
    let request: TaintRequest = request(py, options)?;
    let options = request.options(store).map_err(|error| to_python(py, &error))?;
    let channels = request.channels(store);
    rows_of(py, threads, progress.as_ref(), |run| safety::tainted_events(store, &options, &channels, run))
}

/// The attack vectors of every trace, a row for each of them.
#[pyfunction]
#[pyo3(signature = (store, *, threads = None, progress = None, **options))]
pub(crate) fn attack_vectors(
    py: Python<'_>,
    store: &PyStore,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Stream> {
    let store = &store.0;
    let request: TaintRequest = request(py, options)?;
    let options = request.options(store).map_err(|error| to_python(py, &error))?;
    let channels = request.channels(store);
    rows_of(py, threads, progress.as_ref(), |run| safety::attack_vectors(store, &options, &channels, run))
}

/// The events that sanitizers should clean, a row each; `costs` is a table of one column, a number for each event of
/// the store in its order.
#[pyfunction]
#[pyo3(signature = (store, *, costs = None, threads = None, progress = None, **options))]
pub(crate) fn sanitizer_cut(
    py: Python<'_>,
    store: &PyStore,
    costs: Option<&Bound<'_, PyAny>>,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Stream> {
    let fail = |error: Error| to_python(py, &error);
    let table = costs.map(|costs| import(py, "costs", costs)).transpose()?;
    let column = table.as_ref().map(|table| {
        let column = table.columns().first().and_then(|column| column.as_primitive_opt::<Float64Type>());
        column.ok_or_else(|| fail(Error::Schema("table costs has no Float64 column".into())))
    });
    let costs: Option<&Float64Array> = column.transpose()?;
    let store = &store.0;
    let request: TaintRequest = request(py, options)?;
    let options = request.options(store).map_err(fail)?;
    rows_of(py, threads, progress.as_ref(), |run| safety::sanitizer_cuts(store, &options, costs, run))
}
