//! Every registered method keeps what its entry claims, on generated corpora and on traces made to be awkward.

#![allow(clippy::unwrap_used)] // where a test cannot go on, it stops

use std::io::Cursor;
use std::sync::atomic::{AtomicBool, AtomicU64};

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt8Type, UInt32Type};
use arrow_array::{Array, RecordBatch};
use orchestrace_core::credit::{Axiom, METHODS, Method, ParamKind, Params, Quantity, Request, Value, credit};
use orchestrace_core::generate::{self, Preset, Spec};
use orchestrace_core::ingest::{Input, ReadOptions, read};
use orchestrace_core::run::Run;
use orchestrace_core::schema::{Over, REASONS, Unit};
use orchestrace_core::store::Store;

const AWKWARD: &str = concat!(
    r#"{"trace_id":"one event","task_id":"k","events":[{"id":"a","t":0,"type":"message","agent":"x"}],"edges":[],"rewards":{"team":0.5},"costs":{"tokens":0,"wall_clock_s":0}}"#,
    "\n",
    r#"{"trace_id":"nobody's","task_id":"k","events":[{"id":"a","t":0,"type":"human_intervention","agent":"user"}],"edges":[],"rewards":{"team":-2},"costs":{"tokens":0,"wall_clock_s":0}}"#,
    "\n",
    r#"{"trace_id":"apart","task_id":"k","events":[{"id":"a","t":0,"type":"message","agent":"x"},{"id":"b","t":0,"type":"tool_result","agent":"y","tool":"y"},{"id":"c","t":1,"type":"aggregate","agent":"x"}],"edges":[{"src":"a","dst":"c","type":"causal"}],"rewards":{"team":1},"costs":{"tokens":0,"wall_clock_s":0}}"#,
    "\n",
    r#"{"trace_id":"no reward","task_id":"k","events":[{"id":"a","t":0,"type":"return","agent":"x","to":"user"}],"edges":[],"rewards":{},"costs":{"tokens":0,"wall_clock_s":0}}"#,
    "\n",
);
const CYCLIC: &str = concat!(
    r#"{"trace_id":"round","task_id":"c","events":[{"id":"a","t":0,"type":"message","agent":"x"},{"id":"b","t":0,"type":"return","agent":"x","to":"user"}],"edges":[{"src":"a","dst":"b","type":"causal"},{"src":"b","dst":"a","type":"causal"}],"rewards":{"team":1},"costs":{"tokens":0,"wall_clock_s":0}}"#,
    "\n",
);

fn generated(preset: Preset, traces: u64) -> Vec<u8> {
    let spec = Spec { preset, events: None, traces: Some(traces), seed: 5 };
    let mut out = Vec::new();
    let mut sink = |bytes: &[u8]| {
        out.extend_from_slice(bytes);
        Ok(())
    };
    generate::write(&spec, &mut sink, 1, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap();
    out
}

fn store(bytes: Vec<u8>) -> Store {
    let input = Input::Stream { name: "made here".into(), reader: Box::new(Cursor::new(bytes)) };
    let options = ReadOptions { block_size: 64 << 10, ..ReadOptions::default() };
    let store = read(vec![input], &options, &Run::new(Some(2)).unwrap()).unwrap();
    assert_eq!(store.records_quarantined(), 0);
    store
}

/// Rows of one trace: credit, reason, whether it is the row without a unit.
type Row = (Option<f64>, Option<&'static str>, bool);

fn rows_of(store: &Store, method: &Method, unit: Unit, weight: f64, threads: usize) -> Vec<Vec<Row>> {
    let batches = batches_of(store, method, unit, weight, threads);
    let mut out: Vec<Vec<Row>> = vec![Vec::new(); store.n_traces()];
    for batch in batches {
        let traces = batch.column_by_name("trace").unwrap().as_primitive::<UInt32Type>();
        let credits = batch.column_by_name("credit").unwrap().as_primitive::<Float64Type>();
        let units = batch.column_by_name("unit_id").unwrap();
        let reasons = batch.column_by_name("reason").map(AsArray::as_dictionary::<UInt8Type>);
        for row in 0..batch.num_rows() {
            let reason = reasons.filter(|r| r.is_valid(row)).map(|r| REASONS[r.keys().value(row) as usize]);
            let value = credits.is_valid(row).then(|| credits.value(row));
            out[traces.value(row) as usize].push((value, reason, units.is_null(row)));
        }
    }
    out
}

/// What makes a method divide the reward, at any number of players.
fn paid(method: &Method) -> Vec<(&'static str, Value)> {
    let wanted = [("scaled", Value::Bool(true)), ("samples", Value::Int(64))];
    let has_param = |name: &str| method.info().params.iter().any(|param| param.name == name);
    wanted.into_iter().filter(|(name, _)| has_param(name)).collect()
}

fn batches_of(store: &Store, method: &Method, unit: Unit, weight: f64, threads: usize) -> Vec<RecordBatch> {
    let params = Params::check(method.info().params, &paid(method)).unwrap();
    let rewards = [vec![("team".to_owned(), weight)]];
    let request = Request {
        rewards: &rewards,
        elsewhere: &[],
        unit,
        over: Over::All,
        params: &params,
        seed: 1,
        outcomes: None,
    };
    credit(store, method, &request, &Run::new(Some(threads)).unwrap()).unwrap().remove(0).0
}

fn rewards(store: &Store) -> Vec<Option<f64>> {
    let mut out = vec![None; store.n_traces()];
    let measures = store.combined("measures").unwrap();
    let traces = measures.column(0).as_primitive::<UInt32Type>();
    let names = measures.column(2).as_dictionary::<UInt32Type>();
    for row in 0..measures.num_rows() {
        let name = names.values().as_string::<i32>().value(names.keys().value(row) as usize);
        let kind = measures.column(1).as_dictionary::<UInt8Type>().keys().value(row);
        if name == "team" && kind == 0 {
            out[traces.value(row) as usize] =
                Some(measures.column(3).as_primitive::<Float64Type>().value(row));
        }
    }
    out
}

fn corpora() -> Vec<Store> {
    vec![
        store(generated(Preset::Academic, 120)),
        store(generated(Preset::Tail, 12)),
        store(AWKWARD.as_bytes().to_vec()),
        store([generated(Preset::Academic, 8), CYCLIC.as_bytes().to_vec()].concat()),
    ]
}

#[test]
fn shares_close_at_every_level_and_nothing_is_missing() {
    for store in corpora() {
        let rewards = rewards(&store);
        for method in METHODS {
            for unit in method.info().units {
                let rows = rows_of(&store, method, *unit, 1.0, 2);
                for (trace, (rows, reward)) in rows.iter().zip(&rewards).enumerate() {
                    let name = method.info().name;
                    // A trace that cannot be served keeps rows with a reason, a served one has numbers.
                    for (value, reason, rest) in rows {
                        assert!(value.is_some() || reason.is_some(), "{name} {unit:?} {trace}");
                        assert!(
                            reward.is_some() || value.is_none(),
                            "{name} {unit:?} {trace}: a number without a reward"
                        );
                        if method.info().quantity == Quantity::Advantage && *rest {
                            assert_eq!((*value, *reason), (None, Some("unit.none")), "{name} {unit:?}");
                        }
                    }
                    let served = rows.iter().all(|(value, ..)| value.is_some());
                    if method.info().axioms.contains(&Axiom::Efficiency) && served && !rows.is_empty() {
                        let sum: f64 = rows.iter().filter_map(|(value, ..)| *value).sum();
                        assert!((sum - reward.unwrap()).abs() < 1e-9, "{name} {unit:?} {trace}: {sum}");
                    }
                }
            }
        }
    }
}

#[test]
fn bits_do_not_depend_on_threads() {
    for store in corpora() {
        for method in METHODS {
            for unit in method.info().units {
                let alone = batches_of(&store, method, *unit, 1.0, 1);
                for threads in [2, 7] {
                    assert_eq!(
                        alone,
                        batches_of(&store, method, *unit, 1.0, threads),
                        "{}",
                        method.info().name
                    );
                }
            }
        }
    }
}

#[test]
fn what_claims_to_be_linear_scales() {
    for store in corpora() {
        for method in METHODS.iter().filter(|m| m.info().axioms.contains(&Axiom::Linearity)) {
            let (one, four) =
                (rows_of(&store, method, Unit::Agent, 1.0, 2), rows_of(&store, method, Unit::Agent, 4.0, 2));
            for (a, b) in one.iter().flatten().zip(four.iter().flatten()) {
                // Powers of two change no bit of a mantissa.
                assert_eq!(a.0.map(|x| 4.0 * x), b.0, "{}", method.info().name);
            }
        }
    }
}

#[test]
fn a_cycle_is_a_reason_where_an_order_is_needed() {
    let store = store(CYCLIC.as_bytes().to_vec());
    for method in METHODS {
        for (value, reason, _) in rows_of(&store, method, Unit::Event, 1.0, 1).remove(0) {
            if method.info().needs_graph {
                assert_eq!((value, reason), (None, Some("graph.cycle")));
            } else {
                // a critic is absent, not broken by the cycle
                assert_eq!(value.is_none(), reason == Some("field.absent"), "{}", method.info().name);
            }
        }
    }
}

#[test]
fn parameters_are_checked_by_name_type_and_range() {
    for method in METHODS {
        let info = method.info();
        let error = Params::check(info.params, &[("no such thing", Value::Int(1))]).unwrap_err().to_string();
        assert!(error.contains("no such thing"), "{error}");
        for param in info.params {
            let text = matches!(param.kind, ParamKind::Text);
            let wrong = if text { Value::Int(1) } else { Value::Text("no such word".into()) };
            let wrong = Params::check(info.params, &[(param.name, wrong)]);
            assert!(wrong.is_err(), "{}.{}", info.name, param.name);
        }
    }
}
