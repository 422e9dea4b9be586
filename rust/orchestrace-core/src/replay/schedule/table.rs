//! Schedules of all traces of a store, as columns.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use arrow_select::take::take;
use rayon::prelude::*;

use super::durations::{Lengths, Rule, Timing};
use super::replayed::{Outlook, Replayer, Times};
use super::scenario::{Change, Scenario};
use crate::error::{Error, Result};
use crate::run::Run;
use crate::schema::DURATION_RULES;
use crate::schema::{
    DURATION_SOURCES, DurationSource, REASONS, Reason, SCHEDULE_REPLAYS, SCHEDULES, TIME_UNITS, TimeUnitOf,
};
use crate::store::view::{ChunkView, TraceView};
use crate::store::{Chunk, Store, word_array};

/// Options of all scenarios of a call.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// The rule of durations.
    pub lengths: Lengths,
    /// Whether consecutive events of one owner are joined (D3).
    pub program_order: bool,
}

/// No table of an agent's parts is larger.
const MOST_PARTS: u32 = 64;

fn check(scenario: &Scenario) -> Result<()> {
    let wrong = |message: String| Err(Error::Parameter(message));
    if scenario.slots == Some(0) {
        return wrong("slots is 0, expected at least 1, or None for as many as needed".into());
    }
    for change in &scenario.changes {
        match change {
            Change::Speed { factor, .. } if !(factor.is_finite() && *factor > 0.0) => {
                return wrong(format!("factor is {factor}, expected a number above 0"));
            }
            Change::Cap { quantile, .. } if !(*quantile > 0.0 && *quantile <= 1.0) => {
                return wrong(format!("quantile is {quantile}, expected a number above 0, at most 1"));
            }
            Change::Split { parts, .. } if !(1..=MOST_PARTS).contains(parts) => {
                return wrong(format!("parts is {parts}, expected 1 to {MOST_PARTS}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Results of the scenarios, a row for each trace and scenario, scenarios of a trace one after the other; in the
/// columns of [`SCHEDULE_REPLAYS`].
pub fn replays(
    store: &Store,
    scenarios: &[Scenario],
    options: Options,
    run: &Run,
) -> Result<(Vec<RecordBatch>, SchemaRef)> {
    scenarios.iter().try_for_each(check)?;
    store.expect_whole()?;
    run.expect(store.n_traces() as u64);
    let schema = SCHEDULE_REPLAYS.arrow();
    let batches = run.pool().install(|| {
        let chunks = store.chunks().par_iter();
        let of_chunk = |chunk: &Chunk| -> Result<RecordBatch> {
            let view = ChunkView::new(store, chunk);
            let found: Vec<Vec<Found>> = (0..view.len())
                .into_par_iter()
                .map_init(Replayer::default, |replayer, i| {
                    run.check()?;
                    let mut found = Vec::with_capacity(scenarios.len());
                    let trace = view.trace(i);
                    let Options { lengths, program_order } = options;
                    replayer.replay(&trace, scenarios, lengths, program_order, run, &mut found)?;
                    run.advance(1);
                    Ok(found)
                })
                .collect::<Result<_>>()?;
            let found: Vec<Found> = found.into_iter().flatten().collect();
            columns(&found, chunk, scenarios.len(), &schema)
        };
        chunks.map(of_chunk).collect::<Result<Vec<_>>>()
    })?;
    Ok((batches, schema))
}

type Found = std::result::Result<Outlook, Reason>;

/// Where the times are steps, that is said beside them.
fn reason_of(steps: bool) -> u8 {
    if steps { Reason::TimeSteps as u8 } else { u8::MAX }
}

fn unit_of(steps: bool) -> u8 {
    (if steps { TimeUnitOf::Steps } else { TimeUnitOf::Seconds }) as u8
}

fn columns(found: &[Found], chunk: &Chunk, scenarios: usize, schema: &SchemaRef) -> Result<RecordBatch> {
    let rows = (0..chunk.n_traces() as u32).flat_map(|trace| std::iter::repeat_n(trace, scenarios));
    let rows = UInt32Array::from_iter_values(rows);
    let of_trace = |column: usize| Ok::<_, Error>(take(chunk.traces.column(column), &rows, None)?);
    let number = |f: fn(&Outlook) -> Option<f64>| -> ArrayRef {
        Arc::new(found.iter().map(|one| one.as_ref().ok().and_then(f)).collect::<Float64Array>())
    };
    let tokens = |f: fn(&Outlook) -> Option<i64>| -> ArrayRef {
        Arc::new(found.iter().map(|one| one.as_ref().ok().and_then(f)).collect::<Int64Array>())
    };
    let count = |f: fn(&Outlook) -> Option<u32>| -> ArrayRef {
        Arc::new(found.iter().map(|one| one.as_ref().ok().and_then(f)).collect::<UInt32Array>())
    };
    let code = |f: fn(&Outlook) -> u8| -> Vec<u8> {
        found.iter().map(|one| one.as_ref().map_or(u8::MAX, f)).collect()
    };
    let reasons = found.iter().map(|one| match one {
        Ok(outlook) if outlook.idle && !outlook.steps => Reason::SelectionEmpty as u8,
        Ok(outlook) => reason_of(outlook.steps),
        Err(reason) => *reason as u8,
    });
    let scenario = (0..chunk.n_traces()).flat_map(|_| 0..scenarios as u32);
    let columns = vec![
        of_trace(0)?,
        of_trace(1)?,
        Arc::new(UInt32Array::from_iter_values(scenario)),
        number(|o| Some(o.makespan)),
        number(|o| Some(o.makespan_cf)),
        number(|o| o.recorded),
        tokens(|o| o.tokens),
        tokens(|o| o.tokens_cf),
        number(|o| Some(o.work)),
        number(|o| Some(o.span)),
        number(|o| o.lower),
        number(|o| o.upper),
        number(|o| o.utilization),
        count(|o| o.peak),
        number(|o| Some(o.support)),
        count(|o| Some(o.cut)),
        word_array(code(|o| o.rule as u8), DURATION_RULES)?,
        word_array(code(|o| unit_of(o.steps)), TIME_UNITS)?,
        word_array(reasons.collect(), REASONS)?,
    ];
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// Start and finish of every event under a scenario without changes, a batch for each chunk, in the columns of
/// [`SCHEDULES`].
pub fn schedule(
    store: &Store,
    scenario: &Scenario,
    options: Options,
    run: &Run,
) -> Result<(Vec<RecordBatch>, SchemaRef)> {
    check(scenario)?;
    store.expect_whole()?;
    run.expect(store.n_traces() as u64);
    let schema = SCHEDULES.arrow();
    let batches = run.pool().install(|| {
        let of_chunk = |chunk: &Chunk| -> Result<RecordBatch> {
            let view = ChunkView::new(store, chunk);
            let parts: Vec<EventRows> = (0..view.len())
                .into_par_iter()
                .map_init(Replayer::default, |replayer, i| {
                    run.check()?;
                    let trace = view.trace(i);
                    let mut rows = EventRows::default();
                    match replayer.times(&trace, scenario, options.lengths, options.program_order) {
                        Ok(times) => rows.tell(&trace, &times),
                        Err(reason) => rows.refuse(trace.len(), reason),
                    }
                    run.advance(1);
                    Ok(rows)
                })
                .collect::<Result<_>>()?;
            let mut rows = EventRows::default();
            for part in parts {
                rows.append(part);
            }
            rows.finish(chunk, &schema)
        };
        store.chunks().par_iter().map(of_chunk).collect::<Result<Vec<_>>>()
    })?;
    Ok((batches, schema))
}

/// Columns of events under construction; [`f64::NAN`] and [`u8::MAX`] are null.
#[derive(Debug, Default)]
struct EventRows {
    numbers: [Vec<f64>; 4],
    critical: Vec<Option<bool>>,
    source: Vec<u8>,
    unit: Vec<u8>,
    reason: Vec<u8>,
}

impl EventRows {
    fn tell(&mut self, view: &TraceView<'_>, times: &Times<'_>) {
        let n = view.len();
        let columns = [&times.timing.duration[..], times.start, times.finish, times.slack];
        for (column, values) in self.numbers.iter_mut().zip(columns) {
            column.extend_from_slice(values);
        }
        self.critical.resize(n, Some(false));
        for &v in times.path {
            self.critical[v as usize] = Some(true);
        }
        self.source.extend((0..n).map(|v| source_of(view, times.timing, v) as u8));
        self.unit.resize(n, unit_of(times.timing.steps));
        self.reason.resize(n, reason_of(times.timing.steps));
    }

    fn refuse(&mut self, n: usize, reason: Reason) {
        self.numbers.iter_mut().for_each(|column| column.resize(n, f64::NAN));
        self.critical.resize(n, None);
        self.source.resize(n, u8::MAX);
        self.unit.resize(n, u8::MAX);
        self.reason.resize(n, reason as u8);
    }

    fn append(&mut self, mut other: Self) {
        for (column, values) in self.numbers.iter_mut().zip(&mut other.numbers) {
            column.append(values);
        }
        self.critical.append(&mut other.critical);
        self.source.append(&mut other.source);
        self.unit.append(&mut other.unit);
        self.reason.append(&mut other.reason);
    }

    fn finish(self, chunk: &Chunk, schema: &SchemaRef) -> Result<RecordBatch> {
        let mut columns = vec![Arc::clone(chunk.events.column(0)), Arc::clone(chunk.events.column(1))];
        for values in self.numbers {
            let known = values.into_iter().map(|value| (!value.is_nan()).then_some(value));
            columns.push(Arc::new(known.collect::<Float64Array>()));
        }
        columns.push(Arc::new(BooleanArray::from(self.critical)));
        columns.push(word_array(self.source, DURATION_SOURCES)?);
        columns.push(word_array(self.unit, TIME_UNITS)?);
        columns.push(word_array(self.reason, REASONS)?);
        Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
    }
}

fn source_of(view: &TraceView<'_>, timing: &Timing, v: usize) -> DurationSource {
    match timing.rule {
        _ if timing.aside[v].is_some() => DurationSource::Outside,
        _ if timing.idle[v] > 0.0 => DurationSource::Idle,
        Rule::Gap => DurationSource::Gap,
        _ if view.duration_s.get(v).is_some() => DurationSource::DurationS,
        _ if view.t_end.get(v).is_some() => DurationSource::TEnd,
        Rule::Mixed => DurationSource::Gap,
        Rule::Explicit => DurationSource::Absent,
    }
}
