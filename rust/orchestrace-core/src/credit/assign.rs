//! One trace, or one group, through a method and up to a unit.

use super::method::{CreditMethod, GroupMethod, Quantity, Values};
use super::params::Params;
use super::rollup::{Rows, Sums, broadcast, refused};
use crate::graph::{Partition, TraceGraph};
use crate::schema::{Reason, Unit};
use crate::store::view::TraceView;

/// A worker's buffers; nothing is allocated per event once they are warm.
#[derive(Debug, Default)]
pub struct Scratch {
    graph: TraceGraph,
    values: Values,
    sums: Sums,
    partition: Partition,
}

impl Scratch {
    /// Units of the trace that was assigned last, for the names of its rows.
    #[must_use]
    pub fn partition(&self) -> &Partition {
        &self.partition
    }

    fn begin(&mut self, view: &TraceView<'_>, unit: Unit) {
        self.graph.begin();
        self.partition.compute(unit, view, &mut self.graph);
        self.values.events.clear();
        self.values.remainder = 0.0;
    }
}

/// Appends the credits of one trace to `out`. A trace without a reward, or that the method cannot serve, keeps its
/// rows with null and the reason. Advantages that are rolled up from events read the parameter `weight`.
///
/// ```
/// use orchestrace_core::credit::{CreditMethod, Rows, Scratch, assign_trace, uniform::Uniform};
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
    let Scratch { graph, values, sums, partition } = scratch;
    let quantity = method.info().quantity;
    let assigned = amount.ok_or(Reason::RewardAbsent).and_then(|amount| {
        method.assign(view, amount, params, graph, values)?;
        Ok(amount)
    });
    match (assigned, quantity) {
        (Err(reason), _) => refused(view, quantity, reason, partition, out),
        (Ok(amount), Quantity::Share) => sums.shares(view, values, amount, partition, out),
        (Ok(_), Quantity::Advantage) => {
            let by_tokens = params.text("weight") == Some("tokens_out");
            sums.advantages(view, values, by_tokens, partition, out);
        }
    }
}

/// Advantages of the rollouts of a group.
#[derive(Debug, Default)]
pub struct GroupCredit {
    /// One value per rollout; null where its reward is, or where it is beyond the float range.
    pub advantages: Vec<Option<f64>>,
    /// `reward.absent` on rollouts without a reward, `group.degenerate` on those of a degenerate group and where
    /// the advantage is no number.
    pub reasons: Vec<Option<Reason>>,
    present: Vec<f64>,
    values: Vec<f64>,
}

/// Replaces `out` by the advantages of one group's rollouts, in the order of `rewards`. A rollout without a reward
/// is left out of the group, as if it had not been drawn.
pub fn assign_group(
    method: &dyn GroupMethod,
    rewards: &[Option<f64>],
    params: &Params,
    out: &mut GroupCredit,
) {
    out.present.clear();
    out.present.extend(rewards.iter().flatten());
    out.values.clear();
    let degenerate = method.assign(&out.present, params, &mut out.values).then_some(Reason::GroupDegenerate);
    out.advantages.clear();
    out.reasons.clear();
    let mut values = out.values.iter();
    for reward in rewards {
        let value = reward.and_then(|_| values.next().copied()).filter(|v| v.is_finite());
        out.advantages.push(value);
        out.reasons.push(match (reward, value) {
            (None, _) => Some(Reason::RewardAbsent),
            (Some(_), None) => Some(Reason::GroupDegenerate),
            (Some(_), Some(_)) => degenerate,
        });
    }
}

/// Appends the rows of one rollout, given its advantage and reason from [`assign_group`].
pub fn assign_rollout(
    view: &TraceView<'_>,
    advantage: Option<f64>,
    reason: Option<Reason>,
    unit: Unit,
    scratch: &mut Scratch,
    out: &mut Rows,
) {
    scratch.begin(view, unit);
    if let Some(value) = advantage {
        broadcast(view, value, reason, &scratch.partition, out);
    } else {
        let reason = reason.unwrap_or(Reason::RewardAbsent);
        refused(view, Quantity::Advantage, reason, &scratch.partition, out);
    }
}
