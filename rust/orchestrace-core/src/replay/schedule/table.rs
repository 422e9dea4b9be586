//! Schedules of all traces of a store, as columns.

use std::sync::Arc;

use arrow_array::{BooleanArray, UInt32Array};

use super::durations::{Lengths, Rule, Timing};
use super::replayed::{Outlook, Replayer, Times};
use super::scenario::{Change, Scenario};
use crate::error::{Error, Result};
use crate::run::Run;
use crate::schema::DURATION_RULES;
use crate::schema::{
    DURATION_SOURCES, DurationSource, REASONS, Reason, SCHEDULE_REPLAYS, SCHEDULES, TIME_UNITS, TimeUnitOf,
};
use crate::store::Store;
use crate::store::view::TraceView;
use crate::tables::{Batches, Columns, Part, Rows, table};

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
pub fn replays(store: &Store, scenarios: &[Scenario], options: Options, run: &Run) -> Result<Batches> {
    scenarios.iter().try_for_each(check)?;
    let of = |replayer: &mut Replayer, rows: &mut Vec<Answer>, part: &Part<'_>, i: usize| {
        let Options { lengths, program_order } = options;
        replayer.replay(&part.trace(i), scenarios, lengths, program_order, run, rows)
    };
    table(store, run, SCHEDULE_REPLAYS.arrow(), Default::default, of, |columns, part, rows| {
        set(columns, part, &rows, scenarios.len())
    })
}

type Answer = std::result::Result<Outlook, Reason>;

/// Where the times are steps, that is said beside them.
fn reason_of(steps: bool) -> u8 {
    if steps { Reason::TimeSteps as u8 } else { u8::MAX }
}

fn unit_of(steps: bool) -> u8 {
    (if steps { TimeUnitOf::Steps } else { TimeUnitOf::Seconds }) as u8
}

/// A value of each answer that is no refusal.
fn each<'a, T>(
    rows: &'a [Answer],
    of: impl Fn(&Outlook) -> Option<T> + 'a,
) -> impl Iterator<Item = Option<T>> + 'a {
    rows.iter().map(move |answer| answer.as_ref().ok().and_then(&of))
}

fn set(columns: Columns, part: &Part<'_>, rows: &[Answer], scenarios: usize) -> Result<Columns> {
    let n = part.view.len() as u32;
    let of_trace = (0..n).flat_map(|trace| std::iter::repeat_n(trace, scenarios));
    let of_trace = UInt32Array::from_iter_values(of_trace);
    let scenario = UInt32Array::from_iter_values((0..n).flat_map(|_| 0..scenarios as u32));
    let code =
        |of: fn(&Outlook) -> u8| rows.iter().map(|answer| answer.as_ref().map_or(u8::MAX, of)).collect();
    let reasons = rows.iter().map(|answer| match answer {
        Ok(outlook) if outlook.idle && !outlook.steps => Reason::SelectionEmpty as u8,
        Ok(outlook) => reason_of(outlook.steps),
        Err(reason) => *reason as u8,
    });
    columns
        .taken(&["trace", "trace_id"], &part.chunk.traces, &of_trace)?
        .set("scenario", Arc::new(scenario))
        .numbers("makespan", each(rows, |o| Some(o.makespan)))
        .numbers("makespan_cf", each(rows, |o| Some(o.makespan_cf)))
        .numbers("recorded", each(rows, |o| o.recorded))
        .tokens("tokens", each(rows, |o| o.tokens))
        .tokens("tokens_cf", each(rows, |o| o.tokens_cf))
        .numbers("work", each(rows, |o| Some(o.work)))
        .numbers("span", each(rows, |o| Some(o.span)))
        .numbers("lower", each(rows, |o| o.lower))
        .numbers("upper", each(rows, |o| o.upper))
        .numbers("utilization", each(rows, |o| o.utilization))
        .counts("peak", each(rows, |o| o.peak))
        .numbers("support", each(rows, |o| Some(o.support)))
        .counts("cut", each(rows, |o| Some(o.cut)))
        .words("rule", code(|o| o.rule as u8), DURATION_RULES)?
        .words("unit", code(|o| unit_of(o.steps)), TIME_UNITS)?
        .words("reason", reasons.collect(), REASONS)
}

/// Start and finish of every event under a scenario without changes, a batch for each chunk, in the columns of
/// [`SCHEDULES`].
pub fn schedule(store: &Store, scenario: &Scenario, options: Options, run: &Run) -> Result<Batches> {
    check(scenario)?;
    let of = |replayer: &mut Replayer, rows: &mut EventRows, part: &Part<'_>, i: usize| {
        let trace = part.trace(i);
        match replayer.times(&trace, scenario, options.lengths, options.program_order) {
            Ok(times) => rows.add(&trace, &times),
            Err(reason) => rows.refuse(trace.len(), reason),
        }
        Ok(())
    };
    table(store, run, SCHEDULES.arrow(), Default::default, of, |columns, part, rows| rows.set(columns, part))
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
    fn add(&mut self, view: &TraceView<'_>, times: &Times<'_>) {
        let n = view.len();
        let first = self.critical.len();
        let columns = [&times.timing.duration[..], times.start, times.finish, times.slack];
        for (column, values) in self.numbers.iter_mut().zip(columns) {
            column.extend_from_slice(values);
        }
        self.critical.resize(first + n, Some(false));
        for &v in times.path {
            self.critical[first + v as usize] = Some(true);
        }
        self.source.extend((0..n).map(|v| source_of(view, times.timing, v) as u8));
        self.unit.resize(first + n, unit_of(times.timing.steps));
        self.reason.resize(first + n, reason_of(times.timing.steps));
    }

    fn refuse(&mut self, n: usize, reason: Reason) {
        let end = self.critical.len() + n;
        self.numbers.iter_mut().for_each(|column| column.resize(end, f64::NAN));
        self.critical.resize(end, None);
        self.source.resize(end, u8::MAX);
        self.unit.resize(end, u8::MAX);
        self.reason.resize(end, reason as u8);
    }

    fn set(self, columns: Columns, part: &Part<'_>) -> Result<Columns> {
        let columns = columns.shared(&["trace", "seq"], &part.chunk.events);
        let number = |columns: Columns, (name, values): (_, Vec<f64>)| {
            columns.numbers(name, values.into_iter().map(|value| (!value.is_nan()).then_some(value)))
        };
        let names = ["duration", "start", "finish", "slack"];
        (names.into_iter().zip(self.numbers).fold(columns, number))
            .set("critical", Arc::new(BooleanArray::from(self.critical)))
            .words("source", self.source, DURATION_SOURCES)?
            .words("unit", self.unit, TIME_UNITS)?
            .words("reason", self.reason, REASONS)
    }
}

impl Rows for EventRows {
    fn append(&mut self, mut more: Self) {
        for (column, values) in self.numbers.iter_mut().zip(&mut more.numbers) {
            column.append(values);
        }
        self.critical.append(&mut more.critical);
        self.source.append(&mut more.source);
        self.unit.append(&mut more.unit);
        self.reason.append(&mut more.reason);
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
