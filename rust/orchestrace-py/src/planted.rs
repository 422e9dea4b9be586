//! Corpora with planted contributions.

use std::io::Write;

use orchestrace_core::error::{Error, unknown_name};
use orchestrace_core::generate::planted::{Effects, Outcome, Spawning, Spec, write};
use orchestrace_core::schema::{TOPOLOGIES, Topology};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::run_detached;
use crate::error::to_python;
use crate::files::{Exchange, writer};
use crate::stream::Stream;

/// Writes a planted corpus; the counts of what was written and the tables of the truth.
#[pyfunction]
#[pyo3(signature = (target, *, traces, seed, agents, events, length, length_spread, depth, branching, topology, outcome,
    effects, interaction, density, actions, group_size, branches, noise, decisive, value_noise, dense, stop_cost,
    spawn, threads = None, progress = None))]
#[allow(clippy::too_many_arguments)] // keyword options of one call
pub(crate) fn generate_planted<'py>(
    py: Python<'py>,
    target: &Bound<'py, PyAny>,
    traces: u64,
    seed: u64,
    agents: u32,
    events: u32,
    length: Option<u32>,
    length_spread: f64,
    depth: u32,
    branching: u32,
    topology: Option<&str>,
    outcome: &str,
    effects: &str,
    interaction: f64,
    density: f64,
    actions: usize,
    group_size: u64,
    branches: u64,
    noise: f64,
    decisive: f64,
    value_noise: f64,
    dense: bool,
    stop_cost: f64,
    spawn: Option<(f64, f64, f64)>,
    threads: Option<usize>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    let fail = |error: Error| to_python(py, &error);
    let topology = topology
        .map(|word| {
            let unknown = || Error::Parameter(unknown_name("topology", word, TOPOLOGIES));
            Topology::parse(word).ok_or_else(unknown)
        })
        .transpose()
        .map_err(fail)?;
    let outcome = Outcome::parse(outcome).map_err(fail)?;
    let effects = Effects::parse(effects).map_err(fail)?;
    let spawning = spawn.map(|(effect, overlap, confounding)| Spawning { effect, overlap, confounding });
    let spec = Spec {
        traces,
        seed,
        agents,
        events,
        length,
        spread: length_spread,
        depth,
        branching,
        topology,
        outcome,
        effects,
        spawning,
        interaction,
        density,
        actions,
        group_size,
        branches,
        noise,
        decisive,
        value_noise,
        dense,
        stop_cost,
    };
    // Before a file is made.
    spec.check().map_err(fail)?;
    let exchange = Exchange::default();
    let mut sink = writer(target, &exchange)?;
    let (counts, truth) = run_detached(py, threads, progress.as_ref(), &exchange, move |run| {
        let made = run.pool().install(|| {
            let mut take = |bytes: &[u8]| sink.write_all(bytes);
            write(&spec, &mut take, 0, run.cancel_flag(), run.done_counter())
        })?;
        sink.flush().map_err(|source| Error::Io { path: "output".into(), source })?;
        Ok(made)
    })?;
    let written = PyDict::new(py);
    for (name, value) in [
        ("traces", counts.traces),
        ("events", counts.events),
        ("edges", counts.edges),
        ("bytes", counts.bytes),
    ] {
        written.set_item(name, value)?;
    }
    let tables = PyDict::new(py);
    for (name, batches, schema) in truth.tables() {
        tables.set_item(name, Stream::new(batches, schema))?;
    }
    Ok((written, tables))
}
