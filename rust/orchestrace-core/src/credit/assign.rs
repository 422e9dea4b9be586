//! Credit of one trace or one group by a method, rolled up to a unit.

use super::method::{CreditMethod, Quantity, Values};
use super::params::Params;
use super::rollup::{Rows, Sums, refused};
use crate::graph::{Partition, TraceGraph};
use crate::schema::{Over, Reason, Unit};
use crate::store::view::TraceView;

/// A worker's buffers; nothing is allocated per event once they are warm.
#[derive(Debug, Default)]
pub struct Scratch {
    graph: TraceGraph,
    values: Values,
    sums: Sums,
    partition: Partition,
    only_trained: bool,
}

impl Scratch {
    /// Buffers for credit of all agents, or of trained ones alone.
    #[must_use]
    pub fn over(over: Over) -> Self {
        Self { only_trained: over == Over::Trainable, ..Self::default() }
    }

    /// Units of the trace that was assigned last, for the names of its rows.
    #[must_use]
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    /// The units of a trace whose values were found elsewhere.
    pub(super) fn divide(&mut self, view: &TraceView<'_>, unit: Unit) -> &Partition {
        self.begin(view, unit);
        &self.partition
    }

    fn begin(&mut self, view: &TraceView<'_>, unit: Unit) {
        self.graph.begin();
        self.partition.compute(unit, view, &mut self.graph);
        self.values.clear();
        if self.only_trained {
            let owners = self.graph.owners(view);
            self.values.left_out.extend((0..view.len()).map(|v| !owners.is_trained(v)));
        }
    }
}

/// Appends the credits of one trace to `out`. A trace without a reward, or that the method cannot serve, keeps its
/// rows with null and the reason. Advantages that are rolled up from events read the parameter `weight`.
///
/// ```
/// use orchestrace_core::credit::{CreditMethod, Rows, Scratch, assign_trace};
/// use orchestrace_core::credit::methods::uniform::Uniform;
/// use orchestrace_core::{schema::Unit, store::view::TraceView};
///
/// let view = TraceView { t: &[0.0, 1.0], types: &[3, 7], agent: &[0, 0], ..TraceView::default() };
/// let (mut scratch, mut rows) = (Scratch::default(), Rows::default());
/// let params = Uniform.info().defaults();
/// assign_trace(&Uniform, &view, Some(1.0), &params, Unit::Event, &mut scratch, &mut rows);
/// assert_eq!(rows.credit, [0.5, 0.5]);
/// ```
pub fn assign_trace(
    method: &dyn CreditMethod,
    view: &TraceView<'_>,
    amount: Option<f64>,
    params: &Params,
    unit: Unit,
    scratch: &mut Scratch,
    out: &mut Rows,
) {
    scratch.begin(view, unit);
    let Scratch { graph, values, sums, partition, .. } = scratch;
    let quantity = method.info().quantity;
    let assigned = amount.ok_or(Reason::RewardAbsent).and_then(|amount| {
        method.assign(view, amount, params, graph, values)?;
        Ok(amount)
    });
    match (assigned, quantity) {
        (Err(reason), _) => refused(view, quantity, reason, partition, out),
        (Ok(amount), Quantity::Share) => sums.shares(view, values, amount, partition, out),
        (Ok(_), Quantity::Advantage) => {
            values.leave_out();
            let by_tokens = params.text("weight") == Some("tokens_out");
            sums.advantages(view, values, by_tokens, partition, out);
        }
    }
}

/// Results of the rows of one trace from the comparison of its group.
#[derive(Debug, Clone, Copy)]
pub struct Judged<'a> {
    /// One value per row, NaN where there is none.
    pub values: &'a [f64],
    /// Why a value is none or exactly 0.
    pub reasons: &'a [Option<Reason>],
    /// Row of each event, or [`NO_UNIT`](crate::graph::NO_UNIT); empty where the one row is the whole trace.
    pub row_of: &'a [u32],
}

/// Appends the credits of one trace whose rows were compared within its group; `judged` is the reason where the
/// method had no rows of it.
pub fn assign_judged(
    view: &TraceView<'_>,
    judged: std::result::Result<Judged<'_>, Reason>,
    params: &Params,
    unit: Unit,
    scratch: &mut Scratch,
    out: &mut Rows,
) {
    scratch.begin(view, unit);
    let Scratch { values, sums, partition, .. } = scratch;
    let judged = match judged {
        Ok(judged) => judged,
        Err(reason) => return refused(view, Quantity::Advantage, reason, partition, out),
    };
    if params.text("rows") == Some("events") {
        // one judgment stands for many events, and each of them weighs
        let of = |row: &u32| judged.values.get(*row as usize).copied().unwrap_or(f64::NAN);
        let why = |row: &u32| judged.reasons.get(*row as usize).copied().unwrap_or(Some(Reason::UnitNone));
        values.events.extend(judged.row_of.iter().map(of));
        values.reasons.extend(judged.row_of.iter().map(why));
    } else {
        values.events.extend_from_slice(judged.values);
        values.reasons.extend_from_slice(judged.reasons);
        if judged.row_of.is_empty() {
            values.row_of.resize(view.len(), 0);
        } else {
            values.row_of.extend_from_slice(judged.row_of);
        }
    }
    values.leave_out();
    sums.advantages(view, values, params.text("weight") == Some("tokens_out"), partition, out);
}

/// Appends the credits of one trace whose events were valued elsewhere, as [`Values`] says.
pub fn assign_values(
    view: &TraceView<'_>,
    quantity: Quantity,
    amount: std::result::Result<f64, Reason>,
    fill: impl FnOnce(&mut Values),
    unit: Unit,
    scratch: &mut Scratch,
    out: &mut Rows,
) {
    scratch.begin(view, unit);
    let Scratch { values, sums, partition, .. } = scratch;
    match (amount, quantity) {
        (Err(reason), _) => refused(view, quantity, reason, partition, out),
        (Ok(amount), Quantity::Share) => {
            fill(values);
            sums.shares(view, values, amount, partition, out);
        }
        (Ok(_), Quantity::Advantage) => {
            fill(values);
            values.leave_out();
            sums.advantages(view, values, false, partition, out);
        }
    }
}
