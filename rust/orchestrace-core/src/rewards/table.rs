//! Rewards of a store as columns: one row per unit that a rule pays, in trace order.
//!
//! Everything that rules share about a trace (graph, owners, turns, metrics) is computed once for all of them. A worker
//! takes a trace at a time, so results do not depend on the number of threads.

use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::{StringViewArray, UInt32Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::reward::{DIAGNOSTIC, Inputs, Pay, Payments, Reward};
use super::windows::Windows;
use crate::credit::params::Params;
use crate::credit::reward::{measured, measures};
use crate::error::{Error, Reason, Result, unknown_name};
use crate::graph::{Partition, UnitName};
use crate::metrics::group::{Group, Measure, Row, TOLD};
use crate::metrics::subject::Preparation;
use crate::metrics::{METRICS, Options, Subject};
use crate::run::Run;
use crate::schema::{Dict, MeasureKind, REASONS, REWARDS, Unit};
use crate::store::Store;
use crate::store::view::TraceView;
use crate::tables::{self, Batches, Columns, Part, of_traces};

/// A rule with its parameters.
#[derive(Debug)]
pub struct RuleRequest {
    /// The rule.
    pub rule: &'static Reward,
    /// Its parameters.
    pub params: Params,
    /// The recorded reward of each of its channels; the default if none is given.
    pub channels: Vec<Option<String>>,
}

impl RuleRequest {
    /// Whether its weights follow from the windows of the corpus.
    #[must_use]
    pub fn is_diagnostic(&self) -> bool {
        self.params.text("anneal") == Some(DIAGNOSTIC)
    }
}

/// A request for rewards of a store.
#[derive(Debug)]
pub struct Request<'a> {
    /// Rules.
    pub rules: &'a [RuleRequest],
    /// Channels that other parts of the corpus have.
    pub elsewhere: &'a [String],
    /// What metrics take that rules read.
    pub options: &'a Options,
    /// Whether a column for each addend follows those of [`REWARDS`].
    pub addends: bool,
    /// The windows of the corpus, where a rule is diagnostic.
    pub windows: &'a Windows,
}

/// The column that follows those of a diagnostic rule: what the window of the trace left of its weights.
const LEFT: &str = "anneal_left";

/// The code of a name that this store does not have.
const NOT_HERE: u32 = u32::MAX;

/// What is asked, in codes and places of this store.
struct Plan<'a> {
    request: &'a Request<'a>,
    /// Codes of the channels of each rule.
    channels: Vec<Vec<u32>>,
    /// Groups of metrics that some rule reads.
    groups: Vec<&'static dyn Group>,
    /// Of each rule the places of its metrics: the group, the metric in it.
    metrics: Vec<Vec<(usize, usize)>>,
    train_step: u32,
    task_success: u32,
}

impl<'a> Plan<'a> {
    fn new(store: &Store, request: &'a Request<'a>) -> Result<Self> {
        let dict = store.names().dict(Dict::Measure);
        let is_channel = measures(store, MeasureKind::Reward, dict.len());
        let code = |chosen: Option<&String>, default: &str| {
            let name = chosen.map_or(default, String::as_str);
            let channel_code = dict.find(name).filter(|&code| is_channel[code as usize]);
            match (channel_code, chosen) {
                (Some(code), _) => Ok(code),
                (None, Some(name)) if store.n_traces() > 0 && !request.elsewhere.contains(name) => {
                    let here = (0..dict.len() as u32).filter(|code| is_channel[*code as usize]);
                    let mut listed: Vec<&str> = here.map(|code| dict.name(code)).collect();
                    listed.extend(request.elsewhere.iter().map(String::as_str));
                    listed.sort_unstable();
                    listed.dedup();
                    Err(Error::Parameter(unknown_name("reward channel", name, &listed)))
                }
                _ => Ok(NOT_HERE),
            }
        };
        let channels = request.rules.iter().map(|rule_request| {
            let chosen = rule_request.channels.iter().map(Option::as_ref).chain(std::iter::repeat(None));
            rule_request
                .rule
                .channels
                .iter()
                .zip(chosen)
                .map(|(channel, chosen)| code(chosen, channel.default))
                .collect()
        });
        let channels = channels.collect::<Result<_>>()?;
        let mut groups: Vec<&'static dyn Group> = Vec::new();
        let mut metrics = Vec::with_capacity(request.rules.len());
        for rule_request in request.rules {
            let places = rule_request.rule.metrics.iter().map(|&name| {
                let (group, at) = metric(name)?;
                let place_of_group = groups.iter().position(|each| each.info().name == group.info().name);
                let place = place_of_group.unwrap_or_else(|| {
                    groups.push(group);
                    groups.len() - 1
                });
                Ok((place, at))
            });
            metrics.push(places.collect::<Result<_>>()?);
        }
        let named = |name| dict.find(name).unwrap_or(NOT_HERE);
        let (train_step, task_success) = (named("train_step"), named("task_success"));
        Ok(Self { request, channels, groups, metrics, train_step, task_success })
    }
}

/// A metric by its name: its group and its place there.
fn metric(name: &str) -> Result<(&'static dyn Group, usize)> {
    let places = METRICS.iter().filter_map(|group| {
        let at = group.info().metrics.iter().position(|metric| metric.name == name)?;
        Some((*group, at))
    });
    let names = || METRICS.iter().flat_map(|group| group.info().metrics).map(|metric| metric.name);
    let unknown = || Error::Parameter(unknown_name("metric", name, &names().collect::<Vec<_>>()));
    places.into_iter().next().ok_or_else(unknown)
}

/// Rows of one rule.
#[derive(Debug, Default)]
struct Rows {
    trace: Vec<u32>,
    name: Vec<UnitName>,
    seq: Vec<u32>,
    values: Vec<f64>,
    reasons: Vec<u8>,
    addends: Vec<f64>,
    /// What is left of weights; of a diagnostic rule.
    left: Vec<Option<f64>>,
}

/// Rows of each rule.
struct Tables(Vec<Rows>);

impl tables::Rows for Tables {
    fn append(&mut self, more: Self) {
        for (rows, mut more) in self.0.iter_mut().zip(more.0) {
            rows.trace.append(&mut more.trace);
            rows.name.append(&mut more.name);
            rows.seq.append(&mut more.seq);
            rows.values.append(&mut more.values);
            rows.reasons.append(&mut more.reasons);
            rows.addends.append(&mut more.addends);
            rows.left.append(&mut more.left);
        }
    }
}

/// The buffers of a worker.
struct Worker {
    preparation: Preparation,
    /// The units of the trace at each level that some rule pays, and whether they are those of the trace at hand.
    units: Vec<(Unit, bool, Partition)>,
    groups: Vec<Box<dyn Measure>>,
    values: Vec<Vec<f64>>,
    reasons: Vec<Vec<u8>>,
    channels: Vec<Option<f64>>,
    metrics: Vec<std::result::Result<f64, Reason>>,
    payments: Payments,
    team: Vec<f64>,
    left: Option<f64>,
}

impl Worker {
    fn new(plan: &Plan<'_>) -> Self {
        let widths = || plan.groups.iter().map(|group| group.info().metrics.len());
        Self {
            preparation: Preparation::default(),
            units: Unit::ALL.iter().map(|&level| (level, false, Partition::default())).collect(),
            groups: plan.groups.iter().map(|group| group.worker(plan.request.options)).collect(),
            values: widths().map(|n| vec![0.0; n]).collect(),
            reasons: widths().map(|n| vec![0; n]).collect(),
            channels: Vec::new(),
            metrics: Vec::new(),
            payments: Payments::default(),
            team: Vec::new(),
            left: None,
        }
    }

    fn pay(&mut self, plan: &Plan<'_>, at: u32, view: &TraceView<'_>, rows: &mut [Rows]) {
        let mut preparation = std::mem::take(&mut self.preparation);
        let subject = preparation.prepare(view, plan.request.options);
        let results = self.groups.iter_mut().zip(self.values.iter_mut().zip(&mut self.reasons));
        for (group, (values, reasons)) in results {
            group.measure(&subject, &mut Row::new(values, reasons));
        }
        self.units.iter_mut().for_each(|(_, known, _)| *known = false);
        for (which, rule_request) in plan.request.rules.iter().enumerate() {
            self.pay_by(plan, which, rule_request, &subject);
            self.take(rule_request, at, &mut rows[which]);
        }
        self.preparation = preparation;
    }

    fn pay_by(&mut self, plan: &Plan<'_>, which: usize, rule_request: &RuleRequest, subject: &Subject<'_>) {
        let view = subject.view;
        self.channels.clear();
        let channel = |&code: &u32| measured(view, MeasureKind::Reward, code);
        self.channels.extend(plan.channels[which].iter().map(channel));
        self.metrics.clear();
        self.metrics.extend(plan.metrics[which].iter().map(|&(group, at)| match self.reasons[group][at] {
            TOLD => Ok(self.values[group][at]),
            reason => Err(Reason::ALL[reason as usize]),
        }));
        let (level, is_computed, units) = &mut self.units[rule_request.rule.unit as usize];
        if *level != Unit::Team && !std::mem::replace(is_computed, true) {
            units.compute_of(*level, view, subject.owners, subject.turns());
        }
        let train_step = measured(view, MeasureKind::Metric, plan.train_step);
        self.left = train_step.and_then(|step| plan.request.windows.left(step));
        let inputs = Inputs {
            subject,
            units,
            params: &rule_request.params,
            channels: &self.channels,
            metrics: &self.metrics,
            train_step,
            task_success: measured(view, MeasureKind::Metric, plan.task_success),
            left: self.left,
        };
        self.payments.begin(rule_request.rule.addends.len());
        match rule_request.rule.pay {
            Pay::Units(pay) => pay(&inputs, &mut self.payments),
            Pay::Team(pay) => {
                self.team.clear();
                match pay(&inputs, &mut self.team) {
                    Ok(()) => self.payments.pay(0, &self.team),
                    Err(reason) => self.payments.withhold(0, reason),
                }
            }
        }
    }

    fn take(&self, rule_request: &RuleRequest, at: u32, rows: &mut Rows) {
        let (rule, paid) = (rule_request.rule, &self.payments);
        rows.trace.resize(rows.trace.len() + paid.units.len(), at);
        let team = rule.unit == Unit::Team;
        let (_, _, units) = &self.units[rule.unit as usize];
        for &unit in &paid.units {
            let unit = unit as usize;
            rows.name.push(if team { UnitName::Team } else { units.name(unit) });
            rows.seq.push(if team { 0 } else { units.first(unit) });
        }
        rows.values.extend_from_slice(&paid.values);
        rows.reasons.extend_from_slice(&paid.reasons);
        rows.addends.extend_from_slice(&paid.addends);
        if rule_request.is_diagnostic() {
            rows.left.resize(rows.trace.len(), self.left);
        }
    }
}

fn schema(rule_request: &RuleRequest, addends: bool) -> SchemaRef {
    let mut fields = REWARDS.arrow().fields().to_vec();
    if addends {
        let more = rule_request.rule.addends.iter().map(|name| Field::new(*name, DataType::Float64, true));
        fields.extend(more.map(Arc::new));
    }
    if rule_request.is_diagnostic() {
        fields.push(Arc::new(Field::new(LEFT, DataType::Float64, true)));
    }
    Arc::new(Schema::new(fields))
}

/// The ids of the units that are paid.
fn unit_ids(store: &Store, part: &Part<'_>, rows: &Rows) -> StringViewArray {
    let (mut ids, mut id) = (StringViewBuilder::with_capacity(rows.name.len()), String::new());
    let name_of = |dict: Dict| move |code: u32| store.names().dict(dict).name(code);
    let mut of_trace = rows.name.iter();
    for same in rows.trace.chunk_by(|a, b| a == b) {
        let trace = part.trace(same[0] as usize);
        for name in of_trace.by_ref().take(same.len()) {
            id.clear();
            name.write_id(&trace, name_of(Dict::Agent), name_of(Dict::Role), &mut id);
            ids.append_value(&id);
        }
    }
    ids.finish()
}

/// Payments of the rules, one table per rule: the columns of [`REWARDS`], then the addends on request.
/// O(events + edges) of the store, once for all rules, up to logarithms, and the units that are paid.
pub fn rewards(store: &Store, request: &Request<'_>, run: &Run) -> Result<Vec<Batches>> {
    store.expect_whole()?;
    let plan = Plan::new(store, request)?;
    let schemas: Vec<_> =
        request.rules.iter().map(|rule_request| schema(rule_request, request.addends)).collect();
    let begin = || (Worker::new(&plan), Tables(schemas.iter().map(|_| Rows::default()).collect()));
    let of = |worker: &mut Worker, tables: &mut Tables, part: &Part<'_>, i: usize| {
        worker.pay(&plan, i as u32, &part.trace(i), &mut tables.0);
        Ok(())
    };
    let finish = |part: &Part<'_>, tables: Tables| {
        let each = tables.0.into_iter().zip(request.rules.iter().zip(&schemas));
        let batches = each.map(|(rows, (rule_request, schema))| {
            let ids = unit_ids(store, part, &rows);
            let number = |&value: &f64| (!value.is_nan()).then_some(value);
            let mut columns = Columns::new(schema)
                .taken(&["trace", "trace_id", "task_id"], &part.chunk.traces, &rows.trace.into())?
                .set("unit_id", Arc::new(ids))
                .set("seq", Arc::new(UInt32Array::from(rows.seq)))
                .numbers("value", rows.values.iter().map(number))
                .words("reason", rows.reasons, REASONS)?;
            let addends = if request.addends { rule_request.rule.addends } else { &[] };
            for (at, name) in addends.iter().enumerate() {
                let column = rows.addends.iter().skip(at).step_by(addends.len());
                columns = columns.numbers(name, column.map(number));
            }
            if rule_request.is_diagnostic() {
                columns = columns.numbers(LEFT, rows.left);
            }
            columns.finish()
        });
        batches.collect::<Result<Vec<_>>>()
    };
    let chunks = of_traces(store, run, begin, of, finish)?;
    let mut tables: Vec<_> =
        schemas.into_iter().map(|schema| (Vec::with_capacity(chunks.len()), schema)).collect();
    for batches in chunks {
        tables.iter_mut().zip(batches).for_each(|(table, batch)| table.0.push(batch));
    }
    Ok(tables)
}
