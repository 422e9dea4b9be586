//! Sums of tokens by kind, of a trace as of its agents (D18).

use super::group::{Count, Metric};
use crate::store::view::{Nullable, TraceView};

/// How many kinds of tokens there are.
pub(super) const KINDS: usize = 5;

/// Their columns, of a trace as of its agents.
pub(super) const TOKENS: [Metric; KINDS] = [
    Metric {
        name: "tokens_fresh",
        count: Count::Tokens,
        summary: "tokens read that are not recorded as read from or written to a cache",
    },
    Metric { name: "tokens_cached", count: Count::Tokens, summary: "tokens read from a cache" },
    Metric {
        name: "tokens_cache_write",
        count: Count::Tokens,
        summary: "tokens read that were written to a cache",
    },
    Metric { name: "tokens_out", count: Count::Tokens, summary: "tokens written, reasoning included" },
    Metric { name: "tokens_reasoning", count: Count::Tokens, summary: "tokens written as reasoning" },
];

/// The columns that are summed, in the order of [`TOKENS`].
pub(super) fn columns<'v, 'a>(view: &'v TraceView<'a>) -> [&'v Nullable<'a, i64>; KINDS] {
    [
        &view.tokens_fresh,
        &view.tokens_cached,
        &view.tokens_cache_write,
        &view.tokens_out,
        &view.tokens_reasoning,
    ]
}

/// Adds the recorded tokens of an event, by kind.
pub(super) fn add(sums: &mut [Option<i64>; KINDS], view: &TraceView<'_>, v: usize) {
    for (sum, column) in sums.iter_mut().zip(columns(view)) {
        if let Some(tokens) = column.get(v) {
            *sum = Some(sum.unwrap_or(0).saturating_add(tokens));
        }
    }
}
