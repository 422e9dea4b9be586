//! A reward rule: its description, its inputs and its payments.

use crate::credit::params::{Param, Params};
use crate::error::Reason;
use crate::graph::Partition;
use crate::metrics::Subject;
use crate::metrics::group::TOLD;
use crate::schema::{Family, Unit};
use crate::store::view::Nullable;

/// A recorded number of a trace that a rule reads: one of its rewards.
#[derive(Debug)]
pub struct Channel {
    /// What the rule calls it.
    pub name: &'static str,
    /// The recorded reward that it reads by default.
    pub default: &'static str,
    /// One line.
    pub doc: &'static str,
}

/// The word for annealing by the windows of the corpus, of a parameter `anneal`.
pub const DIAGNOSTIC: &str = "diagnostic";

/// The outcome of a run, under the name that a channel has by default.
pub const OUTCOME: Channel = Channel { name: "outcome", default: "team", doc: "reward of the run" };

/// One rule.
#[derive(Debug)]
pub struct Reward {
    /// Name, as options spell it.
    pub name: &'static str,
    /// Family of the survey.
    pub family: Family,
    /// What is paid.
    pub unit: Unit,
    /// One line: the formula.
    pub summary: &'static str,
    /// Where it comes from, and what of it is ours.
    pub reference: &'static str,
    /// Parameters, weights among them.
    pub params: &'static [Param],
    /// Rewards of the recording that it reads.
    pub channels: &'static [Channel],
    /// Metrics of the trace that it reads.
    pub metrics: &'static [&'static str],
    /// What a payment is the sum of, in the order of addition.
    pub addends: &'static [&'static str],
    /// How it pays.
    pub pay: Pay,
}

/// How a rule pays.
#[derive(Debug, Clone, Copy)]
pub enum Pay {
    /// The team, once a trace: pushes the addends, or says why there are none.
    Team(fn(&Inputs<'_>, &mut Vec<f64>) -> Result<(), Reason>),
    /// Units, as many as it likes, each at most once.
    Units(fn(&Inputs<'_>, &mut Payments)),
}

/// The inputs of a rule on one trace.
#[derive(Debug)]
pub struct Inputs<'a> {
    /// The trace.
    pub subject: &'a Subject<'a>,
    /// Its units at the level of the rule; empty where the team is paid.
    pub units: &'a Partition,
    /// Parameters in effect.
    pub params: &'a Params,
    /// Values of the rule's channels.
    pub channels: &'a [Option<f64>],
    /// Values of the rule's metrics.
    pub metrics: &'a [Result<f64, Reason>],
    /// `metrics.train_step`.
    pub train_step: Option<f64>,
    /// `metrics.task_success`.
    pub task_success: Option<f64>,
    /// What the window of the trace leaves of a weight, where windows were counted and the trace has a step.
    pub left: Option<f64>,
}

impl Inputs<'_> {
    /// The value of a channel of the rule, by its place.
    pub fn channel(&self, at: usize) -> Result<f64, Reason> {
        self.channels[at].ok_or(Reason::RewardAbsent)
    }

    /// The value of a metric of the rule, by its place.
    pub fn metric(&self, at: usize) -> Result<f64, Reason> {
        self.metrics[at]
    }

    /// A number among the parameters, of those that have a default.
    #[must_use]
    pub fn number(&self, name: &str) -> f64 {
        self.params.float(name).unwrap_or(f64::NAN)
    }

    /// Unit of an event, if it belongs to one.
    #[must_use]
    pub fn unit(&self, v: usize) -> Option<usize> {
        if self.units.is_identity() {
            return Some(v);
        }
        self.units.of_events().get(v).map(|&unit| unit as usize).filter(|&unit| unit < self.units.len())
    }

    /// The first number that each unit has in a column, in canonical order.
    pub fn first_of_units(&self, column: &Nullable<'_, f64>, first: &mut Vec<f64>) {
        first.clear();
        first.resize(self.units.len(), f64::NAN);
        for &v in self.subject.owners.order().rows() {
            if let (Some(unit), Some(value)) = (self.unit(v as usize), column.get(v as usize))
                && first[unit].is_nan()
            {
                first[unit] = value;
            }
        }
    }
}

/// The payments of a rule in one trace; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct Payments {
    /// Units that are paid.
    pub(super) units: Vec<u32>,
    /// What they are paid; NaN where there is a reason.
    pub(super) values: Vec<f64>,
    /// Why they are not, or [`TOLD`].
    pub(super) reasons: Vec<u8>,
    /// The addends of each payment, one payment after the other.
    pub(super) addends: Vec<f64>,
    width: usize,
    /// Numbers that a rule may use as it likes; they come in with anything in them.
    pub work: [Vec<f64>; 2],
}

impl Payments {
    /// Forgets the trace before; payments have so many addends.
    pub(super) fn begin(&mut self, width: usize) {
        self.units.clear();
        self.values.clear();
        self.reasons.clear();
        self.addends.clear();
        self.width = width;
    }

    /// Pays a unit the sum of these addends; a sum that is no finite number is null (`result.range`).
    pub fn pay(&mut self, unit: usize, addends: &[f64]) {
        debug_assert_eq!(addends.len(), self.width);
        let sum = addends.iter().fold(0.0, |sum, addend| sum + addend);
        if !sum.is_finite() {
            return self.withhold(unit, Reason::ResultRange);
        }
        self.units.push(unit as u32);
        self.values.push(sum);
        self.reasons.push(TOLD);
        self.addends.extend_from_slice(addends);
    }

    /// Says why a unit is paid nothing that is known.
    pub fn withhold(&mut self, unit: usize, reason: Reason) {
        self.units.push(unit as u32);
        self.values.push(f64::NAN);
        self.reasons.push(reason as u8);
        self.addends.resize(self.addends.len() + self.width, f64::NAN);
    }

    /// Says so of so many units.
    pub fn withhold_all(&mut self, units: usize, reason: Reason) {
        (0..units).for_each(|unit| self.withhold(unit, reason));
    }
}
