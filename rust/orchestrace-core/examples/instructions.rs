//! The work that `make gate` counts the instructions of: every verb once, on one thread, over two small corpora.
//!
//! `instructions CORPUS` prints the name of every piece of work, in order. `.ci/instructions.py` runs it under callgrind,
//! which writes a count for each call of [`measured`], and compares the counts with those that are committed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64};

use arrow_array::{Float64Array, RecordBatch};
use orchestrace_core::credit::{METHODS, Method, MethodInfo, Params, Request, Value, context, credit};
use orchestrace_core::error::Result;
use orchestrace_core::generate::{Preset, Spec, write};
use orchestrace_core::graph::table::{ownership, unit_ids};
use orchestrace_core::importers::IMPORTERS;
use orchestrace_core::ingest::{Input, ReadOptions, read};
use orchestrace_core::metrics::{self, MemberKind};
use orchestrace_core::replay::faithfulness;
use orchestrace_core::replay::schedule;
use orchestrace_core::rewards::{self, REWARDS, RuleRequest, Windows};
use orchestrace_core::run::Run;
use orchestrace_core::safety;
use orchestrace_core::schema::{Over, Unit};
use orchestrace_core::store::{Store, write_jsonl};
use orchestrace_core::surrogate::Structure;

/// Golden inputs are small: so many readings of each are counted together.
const READINGS: usize = 10;
/// Events of the generated corpus.
const EVENTS: u64 = 10_000;

/// Draws of values that are drawn.
const DRAWS: i64 = 64;

/// Does a piece of work and names it. The only function that is counted, hence never inlined.
#[inline(never)]
fn measured<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let result = std::hint::black_box(work());
    #[allow(clippy::print_stdout)] // the list is what this program is for
    {
        println!("{name}");
    }
    result
}

fn generated() -> Result<Vec<u8>> {
    let spec = Spec { preset: Preset::Mixed, events: Some(EVENTS), traces: None, seed: 1 };
    let mut corpus = Vec::new();
    let mut sink = |chunk: &[u8]| {
        corpus.extend_from_slice(chunk);
        Ok(())
    };
    write(&spec, &mut sink, 1, &AtomicBool::new(false), &AtomicU64::new(0))?;
    Ok(corpus)
}

/// Files of a folder whose stem `is` right, and all files of folders in it whose name is.
fn files(folder: &Path, is: &dyn Fn(&str) -> bool, into: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path())) {
        if !path.file_stem().and_then(|stem| stem.to_str()).is_some_and(is) {
            continue;
        }
        if path.is_dir() {
            files(&path, &|_| true, into);
        } else {
            into.push(path);
        }
    }
}

/// Reading by every importer that has a golden input.
fn importers(data: &Path, run: &Run) -> Result<()> {
    // a custom format needs a file that describes it
    for importer in IMPORTERS.iter().filter(|importer| importer.info().name != "mapping") {
        let name = importer.info().name;
        let mut inputs = Vec::new();
        files(&data.join("importers").join(name), &|stem| stem == "input", &mut inputs);
        inputs.sort();
        if inputs.is_empty() {
            continue;
        }
        let options = ReadOptions { format: name.into(), ..ReadOptions::default() };
        measured(&format!("read {name}"), || {
            for _ in 0..READINGS {
                read(inputs.iter().cloned().map(Input::Path).collect(), &options, run)?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Every verb on one corpus.
fn verbs(corpus: &str, store: &Store, run: &Run) -> Result<()> {
    let named = |verb: &str| format!("{corpus} {verb}");
    measured(&named("write_jsonl"), || write_jsonl(store, &mut std::io::sink(), run))?;
    measured(&named("ownership"), || ownership(store, run))?;
    measured(&named("unit_ids turn"), || unit_ids(store, Unit::Turn, run))?;
    measured(&named("contexts"), || context::contexts(store, None, run))?;
    let rewards = [vec![("team".to_owned(), 1.0)]];
    let mut credits: Option<Vec<RecordBatch>> = None;
    for method in METHODS {
        let info = method.info();
        // games of hundreds of events are not for a check that runs with every change
        let (params, units) = match method {
            Method::PerGame(_) => (drawn(info)?, &[Unit::Agent][..]),
            _ => (info.defaults(), &[Unit::Event, Unit::Agent][..]),
        };
        for unit in units.iter().copied().filter(|unit| info.units.contains(unit)) {
            let request = Request {
                rewards: &rewards,
                elsewhere: &[],
                unit,
                over: Over::All,
                params: &params,
                seed: 0,
                outcomes: None,
            };
            let tables = measured(&named(&format!("credit {} {}", info.name, unit.as_str())), || {
                credit(store, method, &request, run)
            })?;
            if (info.name, unit) == ("flow", Unit::Event) {
                credits = tables.into_iter().next().map(|(batches, _)| batches);
            }
        }
    }
    let options = metrics::Options::default();
    let groups = metrics::select(None)?;
    for group in &groups {
        measured(&named(&format!("metrics {}", group.info().name)), || {
            metrics::metrics(store, std::slice::from_ref(group), &options, run)
        })?;
    }
    measured(&named("members agent"), || metrics::members(store, MemberKind::Agent, &options, run))?;
    measured(&named("lifetimes"), || metrics::lifetimes(store, run))?;
    for rule in REWARDS {
        let rules = [RuleRequest {
            rule,
            params: Params::defaults(rule.params),
            channels: vec![None; rule.channels.len()],
        }];
        let windows = Windows::default();
        let request = rewards::Request {
            rules: &rules,
            elsewhere: &[],
            options: &options,
            addends: false,
            windows: &windows,
        };
        // a rule may read a channel that these recordings lack; refusing it is work, too
        let _refused = measured(&named(&format!("reward {}", rule.name)), || {
            Ok(rewards::rewards(store, &request, run))
        })?;
    }
    let options = safety::Options::default();
    let channels = safety::Channels::of(store, &safety::Named::default(), vec![]);
    measured(&named("taint"), || safety::taints(store, &options, run))?;
    measured(&named("tainted_events"), || safety::tainted_events(store, &options, &channels, run))?;
    measured(&named("attack_vectors"), || safety::attack_vectors(store, &options, &channels, run))?;
    measured(&named("sanitizer_cut"), || safety::sanitizer_cuts(store, &options, None, run))?;
    let (options, scenario) = (schedule::Options::default(), schedule::Scenario::default());
    measured(&named("schedule"), || schedule::schedule(store, &scenario, options, run))?;
    let slots: Vec<_> =
        [1, 2, 8].map(|slots| schedule::Scenario { slots: Some(slots), ..scenario.clone() }).into();
    measured(&named("replay slots"), || schedule::replays(store, &slots, options, run))?;
    let options = faithfulness::Options {
        structure: Structure::default(),
        steps: 10,
        orders: 5,
        seed: 0,
        program_order: false,
    };
    let values = column(&credits.unwrap_or_default(), "credit");
    measured(&named("faithfulness"), || faithfulness::faithfulness(store, &values, &options, run))?;
    Ok(())
}

/// Parameters of a game whose values are drawn, where it can.
fn drawn(info: &MethodInfo) -> Result<Params> {
    let can = info.params.iter().any(|param| param.name == "samples");
    let samples = can.then_some(("samples", Value::Int(DRAWS)));
    Params::check(info.params, samples.as_slice())
}

/// A column of floats in one piece.
fn column(batches: &[RecordBatch], name: &str) -> Float64Array {
    let arrays = batches.iter().filter_map(|batch| batch.column_by_name(name));
    let floats = arrays.filter_map(|array| array.as_any().downcast_ref::<Float64Array>());
    floats.flat_map(|array| array.values().iter().copied()).collect::<Vec<f64>>().into()
}

fn main() -> Result<()> {
    let data = PathBuf::from(std::env::args_os().nth(1).unwrap_or_else(|| "data".into()));
    let run = Run::new(Some(1))?;
    importers(&data, &run)?;
    let options = ReadOptions::default();
    let memory =
        Input::Stream { name: "generated".into(), reader: Box::new(std::io::Cursor::new(generated()?)) };
    let store = measured("generated read", || read(vec![memory], &options, &run))?;
    verbs("generated", &store, &run)?;
    let kit = Input::Path(data.join("instructions").join("kit.jsonl.gz"));
    let store = measured("kit read", || read(vec![kit], &options, &run))?;
    verbs("kit", &store, &run)
}
