//! Metrics of all traces of a store, as columns.
//!
//! Beside every metric stands a column `<metric>.reason`, null where the metric has a value. Rows are traces, in their
//! order, or the members of traces, traces in their order. A worker takes a trace at a time, so results do not depend
//! on the number of threads.

use arrow_array::UInt32Array;
use arrow_schema::{Field, Schema};

use super::METRICS;
use super::group::{Cost, Count, Group, Measure, Metric, Row, TOLD};
use super::lifetimes::Lifetimes;
use super::members::{MEMBER_METRICS, MemberKind, Members};
use super::options::Options;
use super::subject::{Preparation, Subject};
use crate::error::{Error, Result, unknown_name};
use crate::graph::NOBODY;
use crate::run::Run;
use crate::schema::DURATION_RULES;
use crate::schema::{Column, Dict, Kind, REASONS, TIME_UNITS, TimeBasis, TimeUnitOf};
use crate::store::{Store, code_array};
use crate::tables::{self, Batches, Columns, Part, table};

/// The groups of these names, or without names those that are linear.
pub fn select(names: Option<&[String]>) -> Result<Vec<&'static dyn Group>> {
    let Some(names) = names else {
        return Ok(METRICS.iter().copied().filter(|group| group.info().cost == Cost::Linear).collect());
    };
    let listed: Vec<_> = METRICS.iter().map(|group| group.info().name).collect();
    let find = |name: &String| {
        let same_name = METRICS.iter().copied().find(|group| group.info().name == name);
        same_name.ok_or_else(|| Error::Parameter(unknown_name("group of metrics", name, &listed)))
    };
    names.iter().map(find).collect()
}

/// Rows under construction.
#[derive(Debug, Default)]
struct Rows {
    /// Place of the trace in its chunk, of each row.
    trace: Vec<u32>,
    /// Code of the member; not used for rows of traces.
    member: Vec<u32>,
    /// All columns of a row, one row after the other.
    values: Vec<f64>,
    reasons: Vec<u8>,
    unit: Vec<u8>,
    rule: Vec<u8>,
    clock: Vec<u8>,
}

impl Rows {
    /// Room for a row, and the units of its times.
    fn open(&mut self, trace: u32, member: u32, subject: &Subject<'_>, width: usize) -> (usize, usize) {
        self.trace.push(trace);
        self.member.push(member);
        let seconds = |steps: bool| (if steps { TimeUnitOf::Steps } else { TimeUnitOf::Seconds }) as u8;
        self.unit.push(subject.timing().map_or(TOLD, |timing| seconds(timing.steps)));
        self.rule.push(subject.timing().map_or(TOLD, |timing| timing.rule as u8));
        let in_seconds = matches!(subject.view.time_basis, Some(TimeBasis::Seconds | TimeBasis::Partial));
        self.clock.push(seconds(!in_seconds));
        let from = self.values.len();
        self.values.resize(from + width, f64::NAN);
        self.reasons.resize(from + width, TOLD);
        (from, from + width)
    }

    fn set(self, metrics: &[&Metric], columns: Columns) -> Result<Columns> {
        let width = metrics.len();
        let metric = |columns: Columns, (at, metric): (usize, &&Metric)| {
            let values = self.values.iter().skip(at).step_by(width);
            let values = values.map(|&value| (!value.is_nan()).then_some(value));
            match metric.count {
                Count::Things | Count::Tokens => columns.tokens(metric.name, values.map(|v| Some(v? as i64))),
                Count::Flag => columns.flags(metric.name, values.map(|v| Some(v? != 0.0))),
                _ => columns.numbers(metric.name, values),
            }
        };
        let columns = (metrics.iter().enumerate().fold(columns, metric))
            .words("time_unit", self.unit, TIME_UNITS)?
            .words("durations", self.rule, DURATION_RULES)?
            .words("clock_unit", self.clock, TIME_UNITS)?;
        metrics.iter().enumerate().try_fold(columns, |columns, (at, metric)| {
            let codes = self.reasons.iter().skip(at).step_by(width).copied().collect();
            columns.words(&reason_of(metric), codes, REASONS)
        })
    }
}

impl tables::Rows for Rows {
    fn append(&mut self, mut more: Self) {
        self.trace.append(&mut more.trace);
        self.member.append(&mut more.member);
        self.values.append(&mut more.values);
        self.reasons.append(&mut more.reasons);
        self.unit.append(&mut more.unit);
        self.rule.append(&mut more.rule);
        self.clock.append(&mut more.clock);
    }
}

/// The column that says why a metric has no value.
fn reason_of(metric: &Metric) -> String {
    format!("{}.reason", metric.name)
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
        field.with_name(reason_of(metric))
    });
    metrics.iter().map(|metric| column(metric)).chain(of_times).chain(reasons.collect::<Vec<_>>())
}

/// The buffers of a worker.
struct Worker {
    preparation: Preparation,
    groups: Vec<Box<dyn Measure>>,
    members: Members,
    lives: Lifetimes,
}

/// The metrics of these groups, a row for each trace: `trace trace_id task_id`, the metrics, `time_unit
/// durations clock_unit`, the reasons.
pub fn metrics(
    store: &Store,
    groups: &[&'static dyn Group],
    options: &Options,
    run: &Run,
) -> Result<Batches> {
    let all: Vec<&Metric> = groups.iter().flat_map(|group| group.info().metrics).collect();
    let task = Column { name: "task_id", kind: Kind::Text, nullable: false };
    let add = |worker: &mut Worker, at: u32, subject: &Subject<'_>, rows: &mut Rows| {
        let (mut from, _) = rows.open(at, NOBODY, subject, all.len());
        for (group, measure) in groups.iter().zip(&mut worker.groups) {
            let to = from + group.info().metrics.len();
            measure.measure(subject, &mut Row::new(&mut rows.values[from..to], &mut rows.reasons[from..to]));
            from = to;
        }
    };
    of_traces(store, groups, options, run, (task, &all), add, |columns, part, rows| {
        let place = UInt32Array::from(rows.trace.clone());
        columns.taken(&["task_id"], &part.chunk.traces, &place)
    })
}

/// The members of every trace, a row for each: `trace trace_id`, the member, its metrics, `time_unit durations`, the reasons.
pub fn members(store: &Store, kind: MemberKind, options: &Options, run: &Run) -> Result<Batches> {
    let all: Vec<&Metric> = MEMBER_METRICS.iter().collect();
    let name = match kind {
        MemberKind::Agent => ("agent", Dict::Agent),
        MemberKind::Role => ("role", Dict::Role),
    };
    of_members(store, name, &all, options, run, |worker, at, subject, rows| {
        worker.members.compute(kind, subject);
        for member in (0..worker.members.codes.len()).filter(|&member| worker.members.is_there(member)) {
            let (from, to) = rows.open(at, worker.members.codes[member], subject, all.len());
            let mut row = Row::new(&mut rows.values[from..to], &mut rows.reasons[from..to]);
            worker.members.write(member, subject, &mut row);
        }
    })
}

static PRESENCE: [Metric; 2] = [
    Metric {
        name: "present_from",
        count: Count::Clock,
        summary: "the first spawn that names it, else its first event",
    },
    Metric {
        name: "present_to",
        count: Count::Clock,
        summary: "its last return or despawn, else the end of the trace or its last event",
    },
];

/// Lifetimes of the agents and spawned names of every trace (D19): `trace trace_id agent present_from
/// present_to`, in the unit of `t`.
pub fn lifetimes(store: &Store, run: &Run) -> Result<Batches> {
    let all: Vec<&Metric> = PRESENCE.iter().collect();
    of_members(store, ("agent", Dict::Agent), &all, &Options::default(), run, |worker, at, subject, rows| {
        worker.lives.compute(subject);
        for (&code, &(from, to)) in worker.lives.codes.iter().zip(&worker.lives.list) {
            let (at, end) = rows.open(at, code, subject, all.len());
            rows.values[at..end].copy_from_slice(&[from, to]);
        }
    })
}

/// Rows of `trace trace_id`, a name of a dictionary, and metrics.
fn of_members(
    store: &Store,
    (name, dict): (&'static str, Dict),
    all: &[&Metric],
    options: &Options,
    run: &Run,
    add: impl Fn(&mut Worker, u32, &Subject<'_>, &mut Rows) + Sync,
) -> Result<Batches> {
    let member = Column { name, kind: Kind::Name(dict), nullable: true };
    let names = store.names().array(dict);
    of_traces(store, &[], options, run, (member, all), add, |columns, _, rows| {
        Ok(columns.set(name, code_array(rows.member.clone(), names)?))
    })
}

/// Rows of `trace trace_id`, a column that `set` sets, and metrics.
fn of_traces(
    store: &Store,
    groups: &[&'static dyn Group],
    options: &Options,
    run: &Run,
    (third, all): (Column, &[&Metric]),
    add: impl Fn(&mut Worker, u32, &Subject<'_>, &mut Rows) + Sync,
    set: impl Fn(Columns, &Part<'_>, &Rows) -> Result<Columns> + Sync,
) -> Result<Batches> {
    let head = [
        Column { name: "trace", kind: Kind::U32, nullable: false },
        Column { name: "trace_id", kind: Kind::Text, nullable: false },
        third,
    ];
    let schema = Schema::new(head.iter().map(Column::field).chain(fields(all)).collect::<Vec<_>>());
    let begin = || {
        let worker = Worker {
            preparation: Preparation::default(),
            groups: groups.iter().map(|group| group.worker(options)).collect(),
            members: Members::default(),
            lives: Lifetimes::default(),
        };
        (worker, Rows::default())
    };
    let of = |worker: &mut Worker, rows: &mut Rows, part: &Part<'_>, i: usize| {
        let trace = part.trace(i);
        let mut preparation = std::mem::take(&mut worker.preparation);
        add(worker, i as u32, &preparation.prepare(&trace, options), rows);
        worker.preparation = preparation;
        Ok(())
    };
    table(store, run, schema.into(), begin, of, |columns, part, rows| {
        let place = UInt32Array::from(rows.trace.clone());
        let columns = set(columns.taken(&["trace", "trace_id"], &part.chunk.traces, &place)?, part, &rows)?;
        rows.set(all, columns)
    })
}
