//! Tainted events and sanitizer cuts as columns.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, StringViewArray, UInt32Array};
use arrow_schema::{Schema, SchemaRef};
use arrow_select::take::take;

use super::table::{Ids, Options, Worker, field, key, over};
use crate::error::{Error, Reason, Result};
use crate::run::Run;
use crate::schema::{Dict, EVENT_TYPES, Kind, REASONS};
use crate::store::view::{ChunkView, TraceView};
use crate::store::{Chunk, Store, word_array};

/// An event that taint touches or may touch.
struct Touched {
    event: u32,
    seed: bool,
    hops: Option<u32>,
    before: Option<u32>,
    source: Option<u32>,
    tool: Option<u32>,
    privileged: bool,
    p: Option<f64>,
}

/// The tainted events of every trace, one row each; with probabilities, the possibly tainted ones. Traces without a
/// closure have none.
pub fn tainted_events(store: &Store, options: &Options, run: &Run) -> Result<(Vec<RecordBatch>, SchemaRef)> {
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
        field("tool", Kind::Text),
        key("privileged", Kind::Bool),
        field("probability", Kind::F64),
    ]));
    let of = |worker: &mut Worker, view: &TraceView<'_>, _: usize| {
        let told = worker.with(view, &options.rules, |taint, _, scene| {
            let mut chances = Vec::new();
            if let Some(risk) = options.risk {
                chances.extend_from_slice(taint.risk(scene, risk).0);
            }
            let touched = |v: &usize| taint.is_tainted(*v) || chances.get(*v).is_some_and(|&p| p > 0.0);
            let row = |v: usize| Touched {
                event: v as u32,
                seed: taint.is_seed(v),
                hops: taint.hops(v),
                before: taint.before(v),
                source: taint.source(v),
                tool: view.tool.get(v),
                privileged: options.rules.tools.is_privileged_call(view, v),
                p: chances.get(v).copied(),
            };
            (0..view.len()).filter(touched).map(row).collect::<Vec<_>>()
        });
        told.unwrap_or_default()
    };
    let columns = |chunk: &Chunk, view: &ChunkView<'_>, told: Vec<Vec<Touched>>| {
        let ids = Ids { view };
        let places = UInt32Array::from_iter_values(
            told.iter().enumerate().flat_map(|(i, rows)| std::iter::repeat_n(i as u32, rows.len())),
        );
        let rows = || told.iter().flatten();
        let placed = || told.iter().enumerate().flat_map(|(i, rows)| rows.iter().map(move |row| (i, row)));
        let names = placed().map(|(i, row)| ids.of(i, row.event));
        let sources = placed().map(|(i, row)| row.source.and_then(|v| ids.of(i, v)));
        let known = store.names().dict(Dict::Tool);
        let tools = rows().map(|row| row.tool.map(|tool| known.name(tool)));
        Ok(vec![
            take(chunk.traces.column(0), &places, None)?,
            take(chunk.traces.column(1), &places, None)?,
            Arc::new(UInt32Array::from_iter_values(rows().map(|row| row.event))) as ArrayRef,
            Arc::new(names.collect::<StringViewArray>()),
            Arc::new(rows().map(|row| Some(row.seed)).collect::<BooleanArray>()),
            Arc::new(rows().map(|row| row.hops).collect::<UInt32Array>()),
            Arc::new(rows().map(|row| row.before).collect::<UInt32Array>()),
            Arc::new(sources.collect::<StringViewArray>()),
            Arc::new(tools.collect::<StringViewArray>()),
            Arc::new(rows().map(|row| Some(row.privileged)).collect::<BooleanArray>()),
            Arc::new(rows().map(|row| row.p).collect::<Float64Array>()),
        ])
    };
    Ok((over(store, run, &schema, of, columns)?, schema))
}

/// An event to clean.
struct Cut {
    event: u32,
    kind: u8,
    agent: u32,
    cost: f64,
}

/// What a trace answers: the events to clean, or why there are none to name.
type Chosen = std::result::Result<Vec<Cut>, Reason>;

/// Place of the trace in its chunk, the event, the code of a reason.
type CutRow = (usize, Option<Cut>, u8);

/// Where sanitizers would keep the outcome clean, a row for each chosen event, and one without an event for each trace
/// that has no answer. `costs` has what cleaning an event costs, in the order of the table `events`; 1 each without.
pub fn sanitizer_cuts(
    store: &Store,
    options: &Options,
    costs: Option<&Float64Array>,
    run: &Run,
) -> Result<(Vec<RecordBatch>, SchemaRef)> {
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
    let of = |worker: &mut Worker, view: &TraceView<'_>, first: usize| -> Chosen {
        let cost = |v: usize| costs.map_or(1.0, |costs| costs.value(first + v));
        worker.with(view, &options.rules, |taint, worker, scene| {
            worker.cut.compute(taint, scene, cost)?;
            let cut = |&event: &u32| {
                let v = event as usize;
                Cut { event, kind: view.types[v], agent: view.agent[v], cost: cost(v) }
            };
            Ok(worker.cut.chosen.iter().map(cut).collect())
        })?
    };
    let columns = |chunk: &Chunk, view: &ChunkView<'_>, told: Vec<Chosen>| {
        let rows: Vec<CutRow> = told
            .into_iter()
            .enumerate()
            .flat_map(|(i, chosen)| match chosen {
                Ok(chosen) => chosen.into_iter().map(|one| (i, Some(one), u8::MAX)).collect(),
                Err(reason) => vec![(i, None, reason as u8)],
            })
            .collect();
        let places = UInt32Array::from_iter_values(rows.iter().map(|row| row.0 as u32));
        let agents = store.names().dict(Dict::Agent);
        let cuts = || rows.iter().map(|row| row.1.as_ref());
        let kinds = cuts().map(|cut| cut.map_or(u8::MAX, |cut| cut.kind));
        let names = cuts().map(|cut| cut.map(|cut| agents.name(cut.agent)));
        let ids =
            rows.iter().map(|row| row.1.as_ref().and_then(|cut| view.event_id(row.0, cut.event as usize)));
        Ok(vec![
            take(chunk.traces.column(0), &places, None)?,
            take(chunk.traces.column(1), &places, None)?,
            Arc::new(cuts().map(|cut| cut.map(|cut| cut.event)).collect::<UInt32Array>()) as ArrayRef,
            Arc::new(ids.collect::<StringViewArray>()),
            word_array(kinds.collect(), EVENT_TYPES)?,
            Arc::new(names.collect::<StringViewArray>()),
            Arc::new(cuts().map(|cut| cut.map(|cut| cut.cost)).collect::<Float64Array>()),
            word_array(rows.iter().map(|row| row.2).collect(), REASONS)?,
        ])
    };
    Ok((over(store, run, &schema, of, columns)?, schema))
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
