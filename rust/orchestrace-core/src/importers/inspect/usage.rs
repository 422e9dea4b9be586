//! Usage of the models of a sample.

use crate::importers::recording::Usage;
use crate::importers::usage;
use crate::json::tree::Value;

/// Usage by R7.
pub(super) fn usage(usage: Value<'_>) -> Usage {
    Usage { cost_usd: usage.get("total_cost").f64(), ..usage::of(usage).0 }
}

/// What the sample says that its models used; nothing where it does not say.
pub(super) fn reported(sample: Value<'_>) -> Option<i64> {
    let by_model = sample.get("model_usage");
    let each = by_model.members().map(|(_, used)| usage(used).total().unwrap_or(0));
    (!by_model.is_empty()).then(|| each.fold(0, i64::saturating_add))
}
