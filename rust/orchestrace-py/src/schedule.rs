//! Schedules of recordings: conversion of Python's requests.

use orchestrace_core::error::{Error, unknown_name};
use orchestrace_core::replay::schedule::{
    self as schedules, Cascade, Change, Durations, Lengths, MaxGap, Options, Pool, Queue, Release, Scenario,
    Select,
};
use orchestrace_core::schema::{Dict, EVENT_TYPES, EventType};
use orchestrace_core::store::Store;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::request;
use crate::corpus::PyStore;
use crate::error::{bad_parameter, to_python};
use crate::stream::{Stream, rows_of};

/// Options of times that schedules and metrics of time share.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct TimeRequest {
    durations: String,
    max_gap: Gap,
    pub(crate) program_order: bool,
}

/// A word or a number for the longest gap.
#[derive(FromPyObject)]
enum Gap {
    Number(Option<f64>),
    Word(String),
}

fn bad_gap(py: Python<'_>, given: &dyn std::fmt::Display) -> PyErr {
    bad_parameter(py, format!("max_gap is {given}, expected \"auto\", a finite number, 0 or more, or None"))
}

impl TimeRequest {
    pub(crate) fn lengths(&self, py: Python<'_>) -> PyResult<Lengths> {
        let known = [("auto", Durations::Auto), ("explicit", Durations::Explicit), ("gap", Durations::Gap)];
        let durations = word(py, "word for durations", &self.durations, &known)?;
        let max_gap = match self.max_gap {
            Gap::Word(ref word) if word == "auto" => MaxGap::Auto,
            Gap::Number(Some(most)) if most.is_finite() && most >= 0.0 => MaxGap::Of(most),
            Gap::Number(None) => MaxGap::Unlimited,
            Gap::Number(Some(most)) => return Err(bad_gap(py, &most)),
            Gap::Word(ref word) => return Err(bad_gap(py, word)),
        };
        Ok(Lengths { durations, max_gap })
    }

    fn options(&self, py: Python<'_>) -> PyResult<Options> {
        Ok(Options { lengths: self.lengths(py)?, program_order: self.program_order })
    }
}

/// What each scenario comes to, a row for each trace and scenario. A scenario is `changes` (dicts with a `kind`), `slots`,
/// `pool`, `queue`, `release`.
#[pyfunction]
#[pyo3(signature = (store, scenarios, *, threads = None, progress = None, **options))]
pub(crate) fn replay_schedules(
    py: Python<'_>,
    store: &PyStore,
    scenarios: Vec<Bound<'_, PyDict>>,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Stream> {
    let store = &store.0;
    let scenarios = scenarios.iter().map(|one| scenario(one, store)).collect::<PyResult<Vec<_>>>()?;
    let options = request::<TimeRequest>(py, options)?.options(py)?;
    rows_of(py, threads, progress.as_ref(), |run| schedules::replays(store, &scenarios, options, run))
}

/// When every event happens, a row for each.
#[pyfunction]
#[pyo3(signature = (store, scenario, *, threads = None, progress = None, **options))]
pub(crate) fn schedule(
    py: Python<'_>,
    store: &PyStore,
    scenario: Bound<'_, PyDict>,
    threads: Option<usize>,
    progress: Option<Bound<'_, PyAny>>,
    options: Option<Bound<'_, PyDict>>,
) -> PyResult<Stream> {
    let store = &store.0;
    let scenario = self::scenario(&scenario, store)?;
    let options = request::<TimeRequest>(py, options)?.options(py)?;
    rows_of(py, threads, progress.as_ref(), |run| schedules::schedule(store, &scenario, options, run))
}

/// One of a few words.
pub(crate) fn word<T: Copy>(py: Python<'_>, what: &str, given: &str, known: &[(&str, T)]) -> PyResult<T> {
    let found = known.iter().find(|(name, _)| *name == given).map(|(_, value)| *value);
    let names: Vec<_> = known.iter().map(|(name, _)| *name).collect();
    found.ok_or_else(|| to_python(py, &Error::Parameter(unknown_name(what, given, &names))))
}

/// A member of a dict; one that is absent is None.
fn member<'py, T: FromPyObjectOwned<'py>>(dict: &Bound<'py, PyDict>, name: &str) -> PyResult<T> {
    let py = dict.py();
    let value = dict.get_item(name)?.unwrap_or_else(|| py.None().into_bound(py));
    value.extract::<T>().map_err(|error| {
        let error: PyErr = error.into();
        bad_parameter(py, format!("'{name}' of a scenario: {}", error.value(py)))
    })
}

fn scenario(given: &Bound<'_, PyDict>, store: &Store) -> PyResult<Scenario> {
    let py = given.py();
    let pools = [("all", Pool::All), ("agents", Pool::Agents), ("tools", Pool::Tools)];
    let queues = [("recorded", Queue::Recorded), ("critical_path", Queue::CriticalPath)];
    let releases = [("none", Release::None), ("recorded", Release::Recorded)];
    let changes: Vec<Bound<'_, PyDict>> = member(given, "changes")?;
    Ok(Scenario {
        changes: changes.iter().map(|one| change(one, store)).collect::<PyResult<_>>()?,
        slots: member(given, "slots")?,
        pool: word(py, "pool", &member::<String>(given, "pool")?, &pools)?,
        queue: word(py, "queue", &member::<String>(given, "queue")?, &queues)?,
        release: word(py, "release", &member::<String>(given, "release")?, &releases)?,
    })
}

fn change(given: &Bound<'_, PyDict>, store: &Store) -> PyResult<Change> {
    let py = given.py();
    let agents = store.names().dict(Dict::Agent);
    let kind: String = member(given, "kind")?;
    Ok(match kind.as_str() {
        "remove" => {
            let known =
                [("stay", Cascade::Stay), ("all", Cascade::WhenAllAreLost), ("any", Cascade::WhenAnyIsLost)];
            let cascade = word(py, "cascade", &member::<String>(given, "cascade")?, &known)?;
            Change::Remove { select: select(given, store)?, cascade }
        }
        "speed_up" => Change::Speed { select: select(given, store)?, factor: member(given, "factor")? },
        "cap_stragglers" => {
            Change::Cap { select: select(given, store)?, quantile: member(given, "quantile")? }
        }
        "merge" => {
            let names: Vec<String> = member(given, "agents")?;
            Change::Merge { agents: names.iter().filter_map(|name| agents.find(name)).collect() }
        }
        "split" => {
            let agent: String = member(given, "agent")?;
            Change::Split { agent: agents.find(&agent), parts: member(given, "parts")? }
        }
        "serialize" => Change::Serialize,
        other => return Err(bad_parameter(py, format!("unknown kind of change '{other}'"))),
    })
}

/// What `by` and `value` select: a kind of thing and its name.
fn select(given: &Bound<'_, PyDict>, store: &Store) -> PyResult<Select> {
    let py = given.py();
    let by: Option<String> = member(given, "by")?;
    let Some(by) = by else { return Ok(Select::Everything) };
    let value: String = member(given, "value")?;
    let code = |dict: Dict| store.names().dict(dict).find(&value);
    Ok(match by.as_str() {
        "event" => Select::Event(value),
        "agent" => Select::Agent(code(Dict::Agent)),
        "role" => Select::Role(code(Dict::Role)),
        "tool" => Select::Tool(code(Dict::Tool)),
        "type" => Select::Type(EventType::parse(&value).ok_or_else(|| {
            to_python(py, &Error::Parameter(unknown_name("event type", &value, EVENT_TYPES)))
        })?),
        other => return Err(bad_parameter(py, format!("cannot select by '{other}'"))),
    })
}
