//! Tainted events and sanitizer cuts as columns.

use std::sync::Arc;

use arrow_array::{Float64Array, UInt32Array};
use arrow_schema::Schema;

use super::channel::{CHANNELS, Channel, Channels};
use super::table::{Options, Worker, field, key};
use crate::error::{Error, Reason, Result};
use crate::run::Run;
use crate::schema::{Dict, EVENT_TYPES, Kind, REASONS};
use crate::store::Store;
use crate::tables::{Batches, Columns, Part, table};

/// An event that taint touches or may touch.
struct Touched {
    event: u32,
    seed: bool,
    hops: Option<u32>,
    before: Option<u32>,
    source: Option<u32>,
    entry: Option<Channel>,
    tool: Option<u32>,
    privileged: bool,
    p: Option<f64>,
}

/// The tainted events of every trace, one row each; with probabilities, the possibly tainted ones. Traces without a
/// closure have none.
pub fn tainted_events(store: &Store, options: &Options, channels: &Channels, run: &Run) -> Result<Batches> {
    options.check()?;
    let schema = Arc::new(Schema::new(vec![
        key("trace", Kind::U32),
        key("trace_id", Kind::Text),
        key("seq", Kind::U32),
        key("event_id", Kind::Text),
        key("seed", Kind::Bool),
        field("hops", Kind::U32),
        field("before", Kind::U32),
        field("source", Kind::Text),
        field("entry", Kind::Word(CHANNELS)),
        field("tool", Kind::Text),
        key("privileged", Kind::Bool),
        field("probability", Kind::F64),
    ]));
    let of = |worker: &mut Worker, rows: &mut Vec<(u32, Touched)>, part: &Part<'_>, i: usize| {
        let view = &part.trace(i);
        // a trace without a closure has no rows
        let _ = worker.with(view, &options.rules, |taint, _, scene| {
            let mut chances = Vec::new();
            if let Some(risk) = options.risk {
                chances.extend_from_slice(taint.risk(scene, risk).0);
            }
            let touched = |v: &usize| taint.is_tainted(*v) || chances.get(*v).is_some_and(|&p| p > 0.0);
            // events behind each other mostly come from one seed
            let mut latest = None;
            let mut entry = |seed: u32| match latest {
                Some((of, channel)) if of == seed => channel,
                _ => latest.insert((seed, channels.entry(scene, seed as usize))).1,
            };
            let mut row = |v: usize| Touched {
                event: v as u32,
                seed: taint.is_seed(v),
                hops: taint.hops(v),
                before: taint.before(v),
                source: taint.source(v),
                entry: taint.source(v).and_then(&mut entry),
                tool: view.tool.get(v),
                privileged: options.rules.tools.is_privileged_call(view, v),
                p: chances.get(v).copied(),
            };
            rows.extend((0..view.len()).filter(touched).map(|v| (i as u32, row(v))));
        });
        Ok(())
    };
    let tools = store.names().dict(Dict::Tool);
    let columns = |columns: Columns, part: &Part<'_>, rows: Vec<(u32, Touched)>| {
        let places = UInt32Array::from_iter_values(rows.iter().map(|(i, _)| *i));
        let id = |i: u32, v: u32| part.view.event_id(i as usize, v as usize);
        let each = || rows.iter().map(|(_, row)| row);
        Ok(columns
            .taken(&["trace", "trace_id"], &part.chunk.traces, &places)?
            .counts("seq", each().map(|row| Some(row.event)))
            .texts("event_id", rows.iter().map(|(i, row)| id(*i, row.event)))
            .flags("seed", each().map(|row| Some(row.seed)))
            .counts("hops", each().map(|row| row.hops))
            .counts("before", each().map(|row| row.before))
            .texts("source", rows.iter().map(|(i, row)| id(*i, row.source?)))
            .words("entry", each().map(|row| row.entry.map_or(u8::MAX, |way| way as u8)).collect(), CHANNELS)?
            .texts("tool", each().map(|row| row.tool.map(|tool| tools.name(tool))))
            .flags("privileged", each().map(|row| Some(row.privileged)))
            .numbers("probability", each().map(|row| row.p)))
    };
    table(store, run, schema, <(Worker, Vec<_>)>::default, of, columns)
}

/// An event to clean.
struct Cut {
    event: u32,
    kind: u8,
    agent: u32,
    cost: f64,
}

/// Place of the trace in its chunk, and the event to clean or why there is none to name.
type CutRow = (u32, std::result::Result<Cut, Reason>);

/// Where sanitizers would keep the outcome clean, a row for each chosen event, and one without an event for each trace
/// that has no answer. `costs` has what cleaning an event costs, in the order of the table `events`; 1 each without.
pub fn sanitizer_cuts(
    store: &Store,
    options: &Options,
    costs: Option<&Float64Array>,
    run: &Run,
) -> Result<Batches> {
    options.check()?;
    if let Some(costs) = costs {
        check_costs(costs, store.n_events())?;
    }
    let schema = Arc::new(Schema::new(vec![
        key("trace", Kind::U32),
        key("trace_id", Kind::Text),
        field("seq", Kind::U32),
        field("event_id", Kind::Text),
        field("type", Kind::Word(EVENT_TYPES)),
        field("agent", Kind::Text),
        field("cost", Kind::F64),
        field("reason", Kind::Word(REASONS)),
    ]));
    let of = |worker: &mut Worker, rows: &mut Vec<CutRow>, part: &Part<'_>, i: usize| {
        let (view, first, at) = (&part.trace(i), part.first_event(i), i as u32);
        let cost = |v: usize| costs.map_or(1.0, |costs| costs.value(first + v));
        let chosen = worker.with(view, &options.rules, |taint, worker, scene| {
            worker.cut.compute(taint, scene, cost)?;
            rows.extend(worker.cut.chosen.iter().map(|&event| {
                let v = event as usize;
                (at, Ok(Cut { event, kind: view.types[v], agent: view.agent[v], cost: cost(v) }))
            }));
            Ok(())
        });
        if let Err(reason) = chosen.and_then(|chosen| chosen) {
            rows.push((at, Err(reason)));
        }
        Ok(())
    };
    let agents = store.names().dict(Dict::Agent);
    let columns = |columns: Columns, part: &Part<'_>, rows: Vec<CutRow>| {
        let places = UInt32Array::from_iter_values(rows.iter().map(|(i, _)| *i));
        let cuts = || rows.iter().map(|(_, row)| row.as_ref().ok());
        let id = |(i, row): &CutRow| part.view.event_id(*i as usize, row.as_ref().ok()?.event as usize);
        columns
            .taken(&["trace", "trace_id"], &part.chunk.traces, &places)?
            .counts("seq", cuts().map(|cut| cut.map(|cut| cut.event)))
            .texts("event_id", rows.iter().map(id))
            .words("type", cuts().map(|cut| cut.map_or(u8::MAX, |cut| cut.kind)).collect(), EVENT_TYPES)?
            .texts("agent", cuts().map(|cut| cut.map(|cut| agents.name(cut.agent))))
            .numbers("cost", cuts().map(|cut| cut.map(|cut| cut.cost)))
            .reasons(rows.iter().map(|(_, row)| row.as_ref().err().copied()))
    };
    table(store, run, schema, <(Worker, Vec<_>)>::default, of, columns)
}

fn check_costs(costs: &Float64Array, n_events: usize) -> Result<()> {
    if costs.len() != n_events {
        return Err(Error::Parameter(format!(
            "found {} costs, expected one for each of {n_events} events",
            costs.len()
        )));
    }
    match costs.iter().find(|cost| !cost.is_some_and(|cost| cost.is_finite() && cost >= 0.0)) {
        None => Ok(()),
        Some(bad) => {
            let bad = bad.map_or_else(|| "null".to_owned(), |bad| format!("{bad}"));
            Err(Error::Parameter(format!(
                "a cost is {bad}, expected numbers of at least 0: fill the column first (with_fields)"
            )))
        }
    }
}
