//! Metrics of all traces of a store, as columns.
//!
//! Beside every metric stands a column `<metric>.reason`, null where the metric has a value. Rows are traces, in their
//! order, or the members of traces, traces in their order. A worker takes a trace at a time, so results do not depend
//! on the number of threads.

use std::sync::Arc;

use arrow_array::{
    ArrayRef, BooleanArray, DictionaryArray, Float64Array, Int64Array, RecordBatch, UInt32Array,
};
use arrow_schema::{Field, Schema};
use arrow_select::take::take;
use rayon::prelude::*;

use super::METRICS;
use super::group::{Cost, Count, Group, Measure, Metric, Options, Row, TOLD};
use super::lifetimes::Lifetimes;
use super::members::{MEMBER_METRICS, MemberKind, Members};
use super::subject::{Preparation, Subject};
use crate::error::{Error, Result, unknown_name};
use crate::graph::NOBODY;
use crate::run::Run;
use crate::schema::DURATION_RULES;
use crate::schema::{Column, Dict, Kind, REASONS, TIME_UNITS, TimeBasis, TimeUnitOf};
use crate::store::view::ChunkView;
use crate::store::{Chunk, Store, word_array};

/// The groups of these names, or without names those that are linear.
pub fn select(names: Option<&[String]>) -> Result<Vec<&'static dyn Group>> {
    let Some(names) = names else {
        return Ok(METRICS.iter().copied().filter(|group| group.info().cost == Cost::Linear).collect());
    };
    let known: Vec<_> = METRICS.iter().map(|group| group.info().name).collect();
    let find = |name: &String| {
        let found = METRICS.iter().copied().find(|group| group.info().name == name);
        found.ok_or_else(|| Error::Parameter(unknown_name("group of metrics", name, &known)))
    };
    names.iter().map(find).collect()
}

/// Rows under construction.
#[derive(Debug, Default)]
pub(super) struct Rows {
    /// Place of the trace in its chunk, of each row.
    trace: Vec<u32>,
    /// Code of the member; not used for rows of traces.
    member: Vec<u32>,
    /// All columns of a row, one row after the other.
    pub(super) values: Vec<f64>,
    reasons: Vec<u8>,
    unit: Vec<u8>,
    rule: Vec<u8>,
    clock: Vec<u8>,
}

impl Rows {
    /// Room for a row, and the units of its times.
    pub(super) fn open(
        &mut self,
        trace: u32,
        member: u32,
        subject: &Subject<'_>,
        width: usize,
    ) -> (usize, usize) {
        self.trace.push(trace);
        self.member.push(member);
        let seconds = |steps: bool| (if steps { TimeUnitOf::Steps } else { TimeUnitOf::Seconds }) as u8;
        self.unit.push(subject.timing.map_or(TOLD, |timing| seconds(timing.steps)));
        self.rule.push(subject.timing.map_or(TOLD, |timing| timing.rule as u8));
        let in_seconds = matches!(subject.view.time_basis, Some(TimeBasis::Seconds | TimeBasis::Partial));
        self.clock.push(seconds(!in_seconds));
        let from = self.values.len();
        self.values.resize(from + width, f64::NAN);
        self.reasons.resize(from + width, TOLD);
        (from, from + width)
    }

    fn append(&mut self, mut other: Self) {
        self.trace.append(&mut other.trace);
        self.member.append(&mut other.member);
        self.values.append(&mut other.values);
        self.reasons.append(&mut other.reasons);
        self.unit.append(&mut other.unit);
        self.rule.append(&mut other.rule);
        self.clock.append(&mut other.clock);
    }

    fn columns(self, metrics: &[&Metric], out: &mut Vec<ArrayRef>) -> Result<()> {
        let width = metrics.len();
        for (at, metric) in metrics.iter().enumerate() {
            let told = self
                .values
                .iter()
                .skip(at)
                .step_by(width.max(1))
                .map(|&value| (!value.is_nan()).then_some(value));
            out.push(match metric.count {
                Count::Things | Count::Tokens => {
                    Arc::new(told.map(|value| value.map(|value| value as i64)).collect::<Int64Array>())
                }
                Count::Flag => {
                    Arc::new(told.map(|value| value.map(|value| value != 0.0)).collect::<BooleanArray>())
                }
                _ => Arc::new(told.collect::<Float64Array>()),
            });
        }
        out.push(word_array(self.unit, TIME_UNITS)?);
        out.push(word_array(self.rule, DURATION_RULES)?);
        out.push(word_array(self.clock, TIME_UNITS)?);
        for at in 0..width {
            out.push(word_array(self.reasons.iter().skip(at).step_by(width).copied().collect(), REASONS)?);
        }
        Ok(())
    }
}

/// A column of a metric.
fn column(metric: &Metric) -> Field {
    let kind = match metric.count {
        Count::Things | Count::Tokens => Kind::I64,
        Count::Flag => Kind::Bool,
        _ => Kind::F64,
    };
    Column { name: metric.name, kind, nullable: true }.field()
}

fn fields(metrics: &[&Metric]) -> impl Iterator<Item = Field> {
    let of_times = [("time_unit", TIME_UNITS), ("durations", DURATION_RULES), ("clock_unit", TIME_UNITS)]
        .map(|(name, words)| Column { name, kind: Kind::Word(words), nullable: true }.field());
    let reasons = metrics.iter().map(|metric| {
        let field = Column { name: "reason", kind: Kind::Word(REASONS), nullable: true }.field();
        field.with_name(format!("{}.reason", metric.name))
    });
    metrics.iter().map(|metric| column(metric)).chain(of_times).chain(reasons.collect::<Vec<_>>())
}

/// The buffers of a worker.
pub(super) struct Worker {
    preparation: Preparation,
    groups: Vec<Box<dyn Measure>>,
    members: Members,
    pub(super) lives: Lifetimes,
}

/// The metrics of these groups, a row for each trace: `trace trace_id task_id`, the metrics, `time_unit
/// durations clock_unit`, the reasons.
pub fn metrics(
    store: &Store,
    groups: &[&'static dyn Group],
    options: &Options,
    run: &Run,
) -> Result<(Vec<RecordBatch>, Arc<Schema>)> {
    let all: Vec<&Metric> = groups.iter().flat_map(|group| group.info().metrics).collect();
    let mut head = vec![
        Column { name: "trace", kind: Kind::U32, nullable: false }.field(),
        Column { name: "trace_id", kind: Kind::Text, nullable: false }.field(),
        Column { name: "task_id", kind: Kind::Text, nullable: false }.field(),
    ];
    head.extend(fields(&all));
    let tell = |worker: &mut Worker, at: u32, subject: &Subject<'_>, rows: &mut Rows| {
        let (mut from, _) = rows.open(at, NOBODY, subject, all.len());
        for (group, measure) in groups.iter().zip(&mut worker.groups) {
            let to = from + group.info().metrics.len();
            measure.measure(subject, &mut Row::new(&mut rows.values[from..to], &mut rows.reasons[from..to]));
            from = to;
        }
    };
    let finish = |rows: Rows, chunk: &Chunk| {
        let place = UInt32Array::from(rows.trace.clone());
        let mut columns =
            (0..3).map(|at| Ok(take(chunk.traces.column(at), &place, None)?)).collect::<Result<_>>()?;
        rows.columns(&all, &mut columns)?;
        Ok(columns)
    };
    run_over(store, groups, options, run, Arc::new(Schema::new(head)), &tell, &finish)
}

/// The members of every trace, a row for each: `trace trace_id`, the member, its metrics, `time_unit durations`, the reasons.
pub fn members(
    store: &Store,
    kind: MemberKind,
    options: &Options,
    run: &Run,
) -> Result<(Vec<RecordBatch>, Arc<Schema>)> {
    let all: Vec<&Metric> = MEMBER_METRICS.iter().collect();
    let name = match kind {
        MemberKind::Agent => ("agent", Dict::Agent),
        MemberKind::Role => ("role", Dict::Role),
    };
    let tell = |worker: &mut Worker, at: u32, subject: &Subject<'_>, rows: &mut Rows| {
        worker.members.compute(kind, subject);
        for member in (0..worker.members.codes.len()).filter(|&member| worker.members.is_there(member)) {
            let (from, to) = rows.open(at, worker.members.codes[member], subject, all.len());
            let mut row = Row::new(&mut rows.values[from..to], &mut rows.reasons[from..to]);
            worker.members.tell(member, subject, &mut row);
        }
    };
    of_members(store, name, &all, options, run, &tell)
}

/// Rows of `trace trace_id`, a name of a dictionary, and metrics.
pub(super) fn of_members(
    store: &Store,
    (name, dict): (&'static str, Dict),
    all: &[&Metric],
    options: &Options,
    run: &Run,
    tell: Tell<'_>,
) -> Result<(Vec<RecordBatch>, Arc<Schema>)> {
    let mut head = vec![
        Column { name: "trace", kind: Kind::U32, nullable: false }.field(),
        Column { name: "trace_id", kind: Kind::Text, nullable: false }.field(),
        Column { name, kind: Kind::Name(dict), nullable: true }.field(),
    ];
    head.extend(fields(all));
    let names = store.names().array(dict);
    let finish = |rows: Rows, chunk: &Chunk| {
        let place = UInt32Array::from(rows.trace.clone());
        let of_trace = |at| Ok(take(chunk.traces.column(at), &place, None)?);
        let mut columns = (0..2).map(of_trace).collect::<Result<Vec<_>>>()?;
        let keys: UInt32Array = rows.member.iter().map(|&code| (code != NOBODY).then_some(code)).collect();
        columns.push(Arc::new(DictionaryArray::try_new(keys, Arc::clone(names))?));
        rows.columns(all, &mut columns)?;
        Ok(columns)
    };
    run_over(store, &[], options, run, Arc::new(Schema::new(head)), tell, &finish)
}

pub(super) type Tell<'a> = &'a (dyn Fn(&mut Worker, u32, &Subject<'_>, &mut Rows) + Sync);
type Finish<'a> = &'a (dyn Fn(Rows, &Chunk) -> Result<Vec<ArrayRef>> + Sync);

fn run_over(
    store: &Store,
    groups: &[&'static dyn Group],
    options: &Options,
    run: &Run,
    schema: Arc<Schema>,
    tell: Tell<'_>,
    finish: Finish<'_>,
) -> Result<(Vec<RecordBatch>, Arc<Schema>)> {
    store.expect_whole()?;
    run.expect(store.n_traces() as u64);
    let worker = || Worker {
        preparation: Preparation::default(),
        groups: groups.iter().map(|group| group.worker(options)).collect(),
        members: Members::default(),
        lives: Lifetimes::default(),
    };
    let of_chunk = |chunk: &Chunk| -> Result<RecordBatch> {
        let view = ChunkView::new(store, chunk);
        let parts: Vec<Rows> = (0..view.len())
            .into_par_iter()
            .fold(
                || (worker(), Ok(Rows::default())),
                |(mut worker, rows), i| {
                    let rows = rows.and_then(|mut rows: Rows| {
                        run.check()?;
                        let trace = view.trace(i);
                        let mut preparation = std::mem::take(&mut worker.preparation);
                        tell(&mut worker, i as u32, &preparation.prepare(&trace, options), &mut rows);
                        worker.preparation = preparation;
                        run.advance(1);
                        Ok(rows)
                    });
                    (worker, rows)
                },
            )
            .map(|(_, rows)| rows)
            .collect::<Result<_>>()?;
        let mut rows = Rows::default();
        for part in parts {
            rows.append(part);
        }
        Ok(RecordBatch::try_new(Arc::clone(&schema), finish(rows, chunk)?)?)
    };
    let batches =
        run.pool().install(|| store.chunks().par_iter().map(of_chunk).collect::<Result<Vec<_>>>())?;
    Ok((batches, schema))
}
