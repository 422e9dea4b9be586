//! R2 and R3: individual rewards of agents and roles.

use crate::credit::sum::Compensated;
use crate::error::Reason;
use crate::rewards::reward::{Inputs, Pay, Payments, Reward};
use crate::schema::{Family, Unit};

/// Rewards of the events of each agent.
pub static AGENT: Reward = Reward {
    name: "agent",
    family: Family::Individual,
    unit: Unit::Agent,
    summary: "sum of the field `reward` over the agent's events; absent values are 0",
    reference: "arXiv 2605.02801, family R2; MarsRL, arXiv 2511.11373",
    params: &[],
    channels: &[],
    metrics: &[],
    addends: &["reward"],
    pay: Pay::Units(recorded),
};

/// Rewards of the events of each role.
pub static ROLE: Reward = Reward {
    name: "role",
    family: Family::Role,
    unit: Unit::Role,
    summary: "sum of the field `reward` over the role's events; absent values are 0",
    reference: "arXiv 2605.02801, family R3; MALT, arXiv 2412.01928",
    params: &[],
    channels: &[],
    metrics: &[],
    addends: &["reward"],
    pay: Pay::Units(recorded),
};

/// The field `reward`, summed over each unit; a trace whose events have none is null. O(|V|).
pub(super) fn recorded(inputs: &Inputs<'_>, out: &mut Payments) {
    let rewards = inputs.subject.view.reward;
    let n = inputs.subject.view.len();
    if (0..n).all(|v| rewards.get(v).is_none()) {
        return out.withhold_all(inputs.units.len(), Reason::FieldAbsent);
    }
    let [sums, errors] = &mut out.work;
    for buffer in [&mut *sums, &mut *errors] {
        buffer.clear();
        buffer.resize(inputs.units.len(), 0.0);
    }
    for v in 0..n {
        if let (Some(unit), Some(reward)) = (inputs.unit(v), rewards.get(v)) {
            Compensated::add_in(&mut sums[unit], &mut errors[unit], reward);
        }
    }
    for unit in 0..inputs.units.len() {
        let sum = out.work[0][unit] + out.work[1][unit];
        out.pay(unit, &[sum]);
    }
}
