//! Corpora with planted contributions.

use std::io::Write;

use orchestrace_core::error::{Error, Result, unknown_name};
use orchestrace_core::generate::planted::{Effects, Outcome, Spawning, Spec, write};
use orchestrace_core::schema::{TOPOLOGIES, Topology};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::{request, run_detached};
use crate::error::to_python;
use crate::files::{Exchange, writer};
use crate::stream::Stream;

/// What is planted; every one is given, since the defaults are those of the verb.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct PlantedRequest {
    traces: u64,
    seed: u64,
    agents: u32,
    events: u32,
    length: Option<u32>,
    length_spread: f64,
    depth: u32,
    branching: u32,
    topology: Option<String>,
    outcome: String,
    effects: String,
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
}

impl PlantedRequest {
    fn spec(&self) -> Result<Spec> {
        let topology = |word: &String| {
            let unknown = || Error::Parameter(unknown_name("topology", word, TOPOLOGIES));
            Topology::parse(word).ok_or_else(unknown)
        };
        let spawning = |(effect, overlap, confounding)| Spawning { effect, overlap, confounding };
        let spec = Spec {
            traces: self.traces,
            seed: self.seed,
            agents: self.agents,
            events: self.events,
            length: self.length,
            spread: self.length_spread,
            depth: self.depth,
            branching: self.branching,
            topology: self.topology.as_ref().map(topology).transpose()?,
            outcome: Outcome::parse(&self.outcome)?,
            effects: Effects::parse(&self.effects)?,
            spawning: self.spawn.map(spawning),
            interaction: self.interaction,
            density: self.density,
            actions: self.actions,
            group_size: self.group_size,
            branches: self.branches,
            noise: self.noise,
            decisive: self.decisive,
            value_noise: self.value_noise,
            dense: self.dense,
            stop_cost: self.stop_cost,
        };
        spec.check()?;
        Ok(spec)
    }
}

/// Writes a planted corpus; the counts of what was written and the tables of the truth.
#[pyfunction]
#[pyo3(signature = (target, *, threads = None, progress = None, **options))]
pub(crate) fn generate_planted<'py>(
    py: Python<'py>,
    target: &Bound<'py, PyAny>,
    threads: Option<usize>,
    progress: Option<Bound<'py, PyAny>>,
    options: Option<Bound<'py, PyDict>>,
) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
    // Judged before a file is made.
    let request: PlantedRequest = request(py, options)?;
    let spec = request.spec().map_err(|error| to_python(py, &error))?;
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
