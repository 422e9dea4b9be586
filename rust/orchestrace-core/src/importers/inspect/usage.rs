//! Usage of the models of a sample.

use crate::importers::recording::Usage;
use crate::json::tree::Value;

/// Usage by R7. Providers differ in what their parts include; the total decides.
pub(super) fn usage(usage: Value<'_>) -> Usage {
    let part = |key: &str| usage.get(key).i64().filter(|n| *n >= 0);
    let (input, output, total) = (part("input_tokens"), part("output_tokens"), part("total_tokens"));
    let (cached, cache_write) = (part("input_tokens_cache_read"), part("input_tokens_cache_write"));
    let reasoning = part("reasoning_tokens");
    let cache = cached.unwrap_or(0).saturating_add(cache_write.unwrap_or(0));
    let (read, written) = (input.unwrap_or(0), output.unwrap_or(0));
    let ways = [(0, 0), (cache, 0), (0, reasoning.unwrap_or(0)), (cache, reasoning.unwrap_or(0))];
    let sum = |way: &(i64, i64)| read.saturating_add(written).saturating_add(way.0).saturating_add(way.1);
    let (beside_input, beside_output) = match total {
        Some(total) => ways.into_iter().find(|way| sum(way) == total).unwrap_or((0, 0)),
        // What was read from a cache is more than all input: it is not part of it.
        None if cache > read => (cache, 0),
        None => (0, 0),
    };
    let split = input.is_some() || output.is_some();
    Usage {
        tokens_in: split.then(|| read.saturating_add(beside_input)),
        tokens_out: split.then(|| written.saturating_add(beside_output)),
        tokens: total.filter(|_| !split),
        cached,
        cache_write,
        reasoning,
        cost_usd: usage.get("total_cost").f64(),
        ..Usage::default()
    }
}

/// What the sample says that its models used; nothing where it does not say.
pub(super) fn reported(sample: Value<'_>) -> Option<i64> {
    let by_model = sample.get("model_usage");
    let each = by_model.members().map(|(_, used)| usage(used).total().unwrap_or(0));
    (!by_model.is_empty()).then(|| each.fold(0, i64::saturating_add))
}
