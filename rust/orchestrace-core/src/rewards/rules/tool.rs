//! R5: success of tool calls.

use crate::error::Reason;
use crate::rewards::reward::{Inputs, Pay, Payments, Reward};
use crate::schema::{Family, Unit};

/// Whether each call worked.
pub static TOOL_SUCCESS: Reward = Reward {
    name: "tool_success",
    family: Family::Tool,
    unit: Unit::Tool,
    summary: "1 if an event of the call has ok = true and none ok = false; 0 if one has ok = false",
    reference: "arXiv 2605.02801, family R5",
    params: &[],
    channels: &[],
    metrics: &[],
    addends: &["ok"],
    pay: Pay::Units(success),
};

/// Share of calls that are not repeated.
pub static DISTINCT_CALLS: Reward = Reward {
    name: "distinct_calls",
    family: Family::Tool,
    unit: Unit::Team,
    summary: "distinct calls / calls: 1 - call_redundancy",
    reference: "arXiv 2605.02801, family R5; D18",
    params: &[],
    channels: &[],
    metrics: &["call_redundancy"],
    addends: &["distinct_calls"],
    pay: Pay::Team(|given, addends| {
        addends.push(1.0 - given.metric(0)?);
        Ok(())
    }),
};

fn success(inputs: &Inputs<'_>, out: &mut Payments) {
    let worked = &mut out.work[0];
    worked.clear();
    worked.resize(inputs.units.len(), f64::NAN);
    for v in 0..inputs.subject.view.len() {
        if let (Some(unit), Some(ok)) = (inputs.unit(v), inputs.subject.view.ok.get(v)) {
            // the least of them; `min` passes over what is not a number
            worked[unit] = worked[unit].min(f64::from(u8::from(ok)));
        }
    }
    for unit in 0..inputs.units.len() {
        let worked = out.work[0][unit];
        if worked.is_nan() { out.withhold(unit, Reason::FieldAbsent) } else { out.pay(unit, &[worked]) }
    }
}
