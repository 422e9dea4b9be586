//! The traits of credit methods, and their descriptions.

use super::decisions::{Compared, Decisions, Rollouts, Vocabulary};
use super::game::GameMethod;
use super::params::{Param, Params};
use super::terms::{Credited, RowKind, Terms};
use crate::error::{Error, Result, unknown_name};
use crate::graph::TraceGraph;
pub use crate::schema::Quantity;
use crate::schema::{Reason, Tier, Unit};
use crate::store::view::TraceView;

/// A property that a method claims; the contract tests check every claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axiom {
    /// The shares sum to the amount divided.
    Efficiency,
    /// What plays the same part gets the same.
    Symmetry,
    /// What cannot reach the outcome gets exactly zero.
    NullPlayer,
    /// Scaling the amount scales every value.
    Linearity,
    /// The values of a group sum to zero.
    ZeroMean,
}

impl Axiom {
    /// The word of the documentation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Axiom::Efficiency => "efficiency",
            Axiom::Symmetry => "symmetry",
            Axiom::NullPlayer => "null player",
            Axiom::Linearity => "linearity",
            Axiom::ZeroMean => "zero mean",
        }
    }
}

/// The traces that a method must see together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One at a time.
    Trace,
    /// The rollouts of a group.
    Group,
    /// All of them.
    Corpus,
}

impl Scope {
    /// The word of the documentation.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Trace => "trace",
            Scope::Group => "group",
            Scope::Corpus => "corpus",
        }
    }
}

/// The description of a method.
#[derive(Debug)]
pub struct MethodInfo {
    /// Name, as options spell it.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// Where it comes from.
    pub reference: &'static str,
    /// What its numbers are.
    pub quantity: Quantity,
    /// Which traces it must see together.
    pub scope: Scope,
    /// Levels at which it can be reported.
    pub units: &'static [Unit],
    /// Claims.
    pub axioms: &'static [Axiom],
    /// Parameters.
    pub params: &'static [Param],
    /// Evidence; none where a method only describes the record.
    pub tier: Option<Tier>,
    /// Whether it needs the edges, so that a cycle makes its results null.
    pub needs_graph: bool,
}

impl MethodInfo {
    /// Whether it can draw samples in place of an exact solution.
    #[must_use]
    pub fn draws(&self) -> bool {
        self.params.iter().any(|param| param.name == "samples")
    }

    /// All parameters at their defaults.
    #[must_use]
    pub fn defaults(&self) -> Params {
        Params::defaults(self.params)
    }

    /// The level of a name, if this method reports it; the error names the nearest one.
    pub fn unit(&self, name: &str) -> Result<Unit> {
        Unit::parse(name).filter(|unit| self.units.contains(unit)).ok_or_else(|| {
            let names: Vec<_> = self.units.iter().map(|unit| unit.as_str()).collect();
            Error::Parameter(unknown_name("unit", name, &names))
        })
    }
}

/// Values of one trace, before they are rolled up; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct Values {
    /// One value per event, or per own row of the method where `row_of` is filled. NaN: the row has none.
    pub events: Vec<f64>,
    /// Own row of each event, or [`NO_UNIT`](crate::graph::NO_UNIT); empty where the rows are the events.
    pub row_of: Vec<u32>,
    /// Why a row has no value, or a value of exactly 0: one per row, or empty where there is nothing to say.
    pub reasons: Vec<Option<Reason>>,
    /// For shares, what no event holds: part of the row without a unit.
    pub remainder: f64,
    /// Events of those whom credit is not over; empty where it is over all.
    pub left_out: Vec<bool>,
    /// Buffers that a method may use as it likes; they come in with anything in them.
    pub work: [Vec<f64>; 3],
}

impl Values {
    /// Gives events that are left out a row of their own without a value: for advantages.
    pub(super) fn leave_out(&mut self) {
        if self.left_out.is_empty() || self.events.is_empty() {
            return;
        }
        self.reasons.resize(self.events.len(), None);
        if self.row_of.is_empty() {
            self.row_of.extend(0..self.left_out.len() as u32);
        }
        let nobody = self.events.len() as u32;
        self.events.push(f64::NAN);
        self.reasons.push(Some(Reason::AgentFrozen));
        let rows = self.row_of.iter_mut().zip(&self.left_out);
        rows.filter(|(_, left_out)| **left_out).for_each(|(row, _)| *row = nobody);
    }

    /// Forgets the trace before; the buffers stay.
    pub fn clear(&mut self) {
        self.events.clear();
        self.row_of.clear();
        self.reasons.clear();
        self.remainder = 0.0;
        self.left_out.clear();
    }
}

/// One way of dividing a trace's outcome among its events.
pub trait CreditMethod: Sync {
    /// Name, parameters, claims.
    fn info(&self) -> &'static MethodInfo;

    /// Values every event of `view`, or says why it cannot. `values` comes in empty; `graph` belongs to this trace.
    fn assign(
        &self,
        view: &TraceView<'_>,
        amount: f64,
        params: &Params,
        graph: &mut TraceGraph,
        values: &mut Values,
    ) -> std::result::Result<(), Reason>;

    /// What the rows of [`Values::row_of`] stand for.
    fn row_kind(&self, _params: &Params) -> RowKind {
        RowKind::Event
    }

    /// Appends what the values of the rows that are asked about are made of: terms that sum to the value of their row.
    /// `graph` belongs to the trace, which [`CreditMethod::assign`] has served.
    fn terms(&self, credited: &Credited<'_>, graph: &mut TraceGraph, out: &mut Terms);
}

/// A rule that compares decisions across the rollouts of a group, or of the whole corpus.
///
/// The driver calls [`GroupMethod::decide`] for every trace, hands all rows of a group to [`GroupMethod::compare`],
/// and rolls the values up.
pub trait GroupMethod: Sync {
    /// Name, parameters, claims.
    fn info(&self) -> &'static MethodInfo;

    /// Appends the method's own rows of one trace to `rows`, or says why it has none. Whoever leaves
    /// [`Decisions::row_of`] empty has one row: the whole trace.
    fn decide(
        &self,
        view: &TraceView<'_>,
        amount: f64,
        params: &Params,
        corpus: &Vocabulary,
        graph: &mut TraceGraph,
        rows: &mut Decisions,
    ) -> std::result::Result<(), Reason>;

    /// One value per row of `group`, all of one group, in corpus order.
    fn compare(&self, group: &Rollouts<'_>, params: &Params, out: &mut Compared);

    /// What the rows of [`Decisions::row_of`] stand for.
    fn row_kind(&self, _params: &Params) -> RowKind {
        RowKind::Trace
    }

    /// Appends what the values of some rows of the group are made of: terms that sum to the value of their row. A method
    /// whose value is no sum of what others did appends nothing.
    fn terms(&self, group: &Rollouts<'_>, params: &Params, rows: &[u32], out: &mut Terms);
}

/// An entry of [`METHODS`](super::METHODS).
#[derive(Clone, Copy)]
pub enum Method {
    /// Sees one trace at a time.
    PerTrace(&'static dyn CreditMethod),
    /// Sees the rollouts of a group together.
    PerGroup(&'static dyn GroupMethod),
    /// Divides the value of a game that is played on one trace.
    PerGame(&'static dyn GameMethod),
}

impl Method {
    /// Name, parameters, claims.
    #[must_use]
    pub fn info(&self) -> &'static MethodInfo {
        match self {
            Method::PerTrace(method) => method.info(),
            Method::PerGroup(method) => method.info(),
            Method::PerGame(method) => method.info(),
        }
    }
}
