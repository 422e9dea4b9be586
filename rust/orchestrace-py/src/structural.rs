//! Structural replay: conversion of interventions, and the core's columns.

use orchestrace_core::error::{Error, Result, unknown_name};
use orchestrace_core::graph::weights::N_TYPES;
use orchestrace_core::replay::intervention::{Action, Cut, Level, Mode, Plan, Scenario, Selector};
use orchestrace_core::replay::structural::{self, Options};
use orchestrace_core::schema::{EVENT_TYPES, EventType};
use orchestrace_core::surrogate::{Aggregation, Model, Structure, Weights};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::request;
use crate::corpus::PyStore;
use crate::error::to_python;
use crate::stream::{Stream, rows_of};

/// The structure that outcomes are said to come from, and its options.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ReplayRequest {
    outcome: String,
    weights: Option<[f64; N_TYPES]>,
    quorum: f64,
    sensitivity: bool,
    structure_alone: bool,
    program_order: bool,
}

/// Effects of all scenarios, each a list of actions, in all traces of a store.
#[pyfunction]
#[pyo3(signature = (store, scenarios, *, threads = None, progress = None, **options))]
pub(crate) fn replay_structural(
    py: Python<'_>,
    store: &PyStore,
    scenarios: Vec<Vec<Bound<'_, PyDict>>>,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Stream> {
    let fail = |error: Error| to_python(py, &error);
    let ReplayRequest { outcome, weights, quorum, sensitivity, structure_alone, program_order } =
        request(py, options)?;
    let structure = Structure {
        model: Model::parse(&outcome).map_err(fail)?,
        weights: weights.map_or(Weights::Normalized, Weights::Given),
        quorum,
        aggregate: None,
    };
    let options = Options { structure, sensitivity, structure_alone, program_order };
    let scenarios = scenarios_of(py, &scenarios)?;
    let store = &store.0;
    let plan = Plan::new(store, scenarios).map_err(fail)?;
    rows_of(py, threads, progress.as_ref(), |run| structural::replay(store, &plan, &options, run))
}

/// Which events are there in each scenario, for outcomes that are computed elsewhere: a byte for each scenario and
/// unit and each event of the store's trace number `at`, and the table of [`replay_structural`] without values.
#[pyfunction]
#[pyo3(signature = (store, scenarios, at, *, program_order = false))]
pub(crate) fn replay_presence<'py>(
    py: Python<'py>,
    store: &PyStore,
    scenarios: Vec<Vec<Bound<'py, PyDict>>>,
    at: usize,
    program_order: bool,
) -> PyResult<(Stream, Bound<'py, pyo3::types::PyBytes>)> {
    let fail = |error: Error| to_python(py, &error);
    let scenarios = scenarios_of(py, &scenarios)?;
    let plan = Plan::new(&store.0, scenarios).map_err(fail)?;
    let (batch, present) =
        py.detach(|| structural::presence(&store.0, &plan, at, program_order)).map_err(fail)?;
    let schema = batch.schema();
    Ok((Stream::new(vec![batch], schema), pyo3::types::PyBytes::new(py, &present)))
}

fn scenarios_of(py: Python<'_>, given: &[Vec<Bound<'_, PyDict>>]) -> PyResult<Vec<Scenario>> {
    let scenario = |actions: &Vec<Bound<'_, PyDict>>| {
        let actions = actions.iter().map(|spec| action(py, spec)).collect::<PyResult<_>>()?;
        Ok(Scenario { actions })
    };
    given.iter().map(scenario).collect()
}

fn action(py: Python<'_>, spec: &Bound<'_, PyDict>) -> PyResult<Action> {
    let fail = |error: Error| to_python(py, &error);
    let kind: String = text(spec, "kind")?.unwrap_or_default();
    match kind.as_str() {
        "drop" => {
            let what = selector(py, spec)?;
            let words = (text(spec, "mode")?, text(spec, "lost")?);
            let mode = mode(words.0.as_deref(), words.1.as_deref()).map_err(fail)?;
            Ok(Action::Drop(what, mode))
        }
        "set_value" => Ok(Action::Set(selector(py, spec)?, number(spec, "to")?.unwrap_or(0.0))),
        "aggregate_by" => {
            let rule = text(spec, "rule")?.unwrap_or_default();
            Ok(Action::Aggregate(Aggregation::parse(&rule).map_err(fail)?))
        }
        "truncate" => match (number(spec, "at")?, text(spec, "event")?) {
            (Some(at), None) => Ok(Action::Truncate(Cut::At(at))),
            (None, Some(event)) => Ok(Action::Truncate(Cut::Event(event))),
            _ => Err(fail(Error::Parameter("truncate needs either at= or event=".into()))),
        },
        _ => {
            let known = ["drop", "set_value", "aggregate_by", "truncate"];
            Err(fail(Error::Parameter(unknown_name("intervention", &kind, &known))))
        }
    }
}

fn mode(mode: Option<&str>, lost: Option<&str>) -> Result<Mode> {
    match (mode.unwrap_or("subtree"), lost.unwrap_or("all")) {
        ("node", "all" | "any") => Ok(Mode::Node),
        ("subtree", "all") => Ok(Mode::All),
        ("subtree", "any") => Ok(Mode::Any),
        ("node" | "subtree", lost) => Err(Error::Parameter(unknown_name("lost", lost, &["all", "any"]))),
        (mode, _) => Err(Error::Parameter(unknown_name("mode", mode, &["subtree", "node"]))),
    }
}

/// The one key of a selector that is there.
fn selector(py: Python<'_>, spec: &Bound<'_, PyDict>) -> PyResult<Selector> {
    let fail = |error: Error| to_python(py, &error);
    let mut found = None;
    for key in ["event", "agent", "role", "tool", "call", "type", "spawn", "message", "each"] {
        let Some(name) = text(spec, key)? else { continue };
        let one = match key {
            "event" => Selector::Event(name),
            "agent" => Selector::Agent(name),
            "role" => Selector::Role(name),
            "tool" => Selector::Tool(name),
            "call" => Selector::Call(name),
            "spawn" => Selector::Spawn(name),
            "message" => Selector::Message(name),
            "each" => Selector::Each(Level::parse(&name).map_err(fail)?),
            _ => Selector::Type(
                EventType::parse(&name)
                    .ok_or_else(|| fail(Error::Parameter(unknown_name("event type", &name, EVENT_TYPES))))?,
            ),
        };
        if found.replace(one).is_some() {
            return Err(fail(Error::Parameter(
                "an intervention takes one selector: combine two interventions with &".into(),
            )));
        }
    }
    let edge: Option<(String, String)> = match spec.get_item("edge")? {
        Some(edge) if !edge.is_none() => Some(edge.extract()?),
        _ => None,
    };
    match (found, edge) {
        (Some(one), None) => Ok(one),
        (None, Some((from, to))) => Ok(Selector::Edge(from, to)),
        _ => Err(fail(Error::Parameter("an intervention takes exactly one selector".into()))),
    }
}

fn text(spec: &Bound<'_, PyDict>, key: &str) -> PyResult<Option<String>> {
    spec.get_item(key)?.filter(|value| !value.is_none()).map(|value| value.extract()).transpose()
}

fn number(spec: &Bound<'_, PyDict>, key: &str) -> PyResult<Option<f64>> {
    spec.get_item(key)?.filter(|value| !value.is_none()).map(|value| value.extract()).transpose()
}
