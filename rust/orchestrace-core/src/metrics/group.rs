//! The trait of a group of metrics, and its description.

use super::options::Options;
use super::subject::Subject;
use crate::error::Reason;

/// The quantity of a metric, which decides its column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// A number of things: Int64.
    Things,
    /// Tokens: Int64.
    Tokens,
    /// A time in the unit of the durations (`time_unit`), seconds or steps: Float64.
    Time,
    /// A difference of recorded times, in the unit of `t` (`clock_unit`), seconds or steps: Float64.
    Clock,
    /// A share or ratio without unit: Float64.
    Ratio,
    /// Nats: Float64.
    Nats,
    /// A price in US dollars: Float64.
    Usd,
    /// A quality or an effect in units of the outcome: Float64.
    Score,
    /// Yes or no: Boolean.
    Flag,
}

impl Count {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Count::Things => "count",
            Count::Tokens => "tokens",
            Count::Time => "time",
            Count::Clock => "clock",
            Count::Ratio => "ratio",
            Count::Nats => "nats",
            Count::Usd => "usd",
            Count::Score => "score",
            Count::Flag => "flag",
        }
    }
}

/// One metric.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Column.
    pub name: &'static str,
    /// What it counts.
    pub count: Count,
    /// One line for a list: the definition.
    pub summary: &'static str,
}

/// The cost of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// O(events + edges), up to logarithms: part of the default.
    Linear,
    /// More than that: on request only.
    SuperLinear,
}

impl Cost {
    /// The word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Cost::Linear => "linear",
            Cost::SuperLinear => "super-linear",
        }
    }
}

/// The description of a group of metrics.
#[derive(Debug, Clone, Copy)]
pub struct GroupInfo {
    /// The word that selects it.
    pub name: &'static str,
    /// What it costs.
    pub cost: Cost,
    /// Definitions of docs/reference/definitions.md, and the literature.
    pub reference: &'static str,
    /// Its metrics, in the order of their columns.
    pub metrics: &'static [Metric],
}

/// Metrics that are computed together.
pub trait Group: Sync {
    /// What it says of itself.
    fn info(&self) -> &'static GroupInfo;
    /// A worker's state for one trace after the other.
    fn worker(&self, options: &Options) -> Box<dyn Measure>;
}

/// The buffers of a group, kept from trace to trace.
pub trait Measure: Send {
    /// Writes the metrics of a trace. What is not written is null with the reason `field.absent`.
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>);
}

/// The metrics of a group in one trace: values, and the reasons of those that are null.
#[derive(Debug)]
pub struct Row<'a> {
    values: &'a mut [f64],
    reasons: &'a mut [u8],
}

/// In place of a reason: the metric has a value.
pub(crate) const TOLD: u8 = u8::MAX;

impl<'a> Row<'a> {
    /// Over the columns of a group; everything is null at first.
    pub(crate) fn new(values: &'a mut [f64], reasons: &'a mut [u8]) -> Self {
        values.fill(f64::NAN);
        reasons.fill(Reason::FieldAbsent as u8);
        Self { values, reasons }
    }

    /// Writes the metric at a place of the group; a value that is not finite is null (`result.range`).
    pub fn set(&mut self, at: usize, value: f64) {
        let finite = value.is_finite();
        // the sum of no numbers is -0.0, and no metric means that
        self.values[at] = if finite { value + 0.0 } else { f64::NAN };
        self.reasons[at] = if finite { TOLD } else { Reason::ResultRange as u8 };
    }

    /// Writes a count.
    pub fn count(&mut self, at: usize, value: usize) {
        self.set(at, value as f64);
    }

    /// Writes a flag.
    pub fn flag(&mut self, at: usize, value: bool) {
        self.set(at, f64::from(u8::from(value)));
    }

    /// Leaves a metric null.
    pub fn absent(&mut self, at: usize, reason: Reason) {
        self.values[at] = f64::NAN;
        self.reasons[at] = reason as u8;
    }

    /// Leaves all metrics of a range null.
    pub fn all_absent(&mut self, range: std::ops::Range<usize>, reason: Reason) {
        range.for_each(|at| self.absent(at, reason));
    }

    /// Writes a value or the reason why there is none.
    pub fn put(&mut self, at: usize, value: Result<f64, Reason>) {
        match value {
            Ok(value) => self.set(at, value),
            Err(reason) => self.absent(at, reason),
        }
    }

    /// Writes a ratio; over nothing it is null (`ratio.empty`).
    pub fn ratio(&mut self, at: usize, part: f64, total: f64) {
        if total == 0.0 { self.absent(at, Reason::RatioEmpty) } else { self.set(at, part / total) }
    }
}
