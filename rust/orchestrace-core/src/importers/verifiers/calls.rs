//! Model calls without a node in the graph: failed attempts, and answers that were thrown away.

use std::collections::HashMap;

use super::graph::{Graph, node_of};
use super::time;
use crate::importers::recording::Usage;
use crate::json::Kind;
use crate::json::tree::Value;

/// A call without an answer in the graph.
#[derive(Debug, Clone, Copy)]
pub(super) struct Attempt<'v> {
    pub call: Value<'v>,
    /// Its place in the list of calls.
    pub index: usize,
    /// The answer of the next call of the same model, else of the next call.
    pub next: Option<usize>,
}

impl Attempt<'_> {
    /// Whether it failed before anything was paid: then the next answer says that there was a retry.
    pub(super) fn is_retry(&self) -> bool {
        self.call.get("error").exists() && usage(self.call) == Usage::default()
    }
}

/// The attempts of a trace, in order.
pub(super) fn attempts<'v>(trace: Value<'v>, graph: &Graph<'v>) -> Vec<Attempt<'v>> {
    let calls: Vec<Value<'v>> = trace.get("calls").elements().collect();
    let mut by_model: HashMap<&str, usize> = HashMap::new();
    let mut following = None;
    let mut attempts = Vec::new();
    let objects = calls.into_iter().enumerate().filter(|(_, call)| call.kind() == Some(Kind::Object));
    for (index, call) in objects.rev() {
        let model = call.get("model").str().unwrap_or_default();
        let makes = |node: &usize| {
            graph.calls.get(*node).is_some_and(|call| call.is_some_and(|(place, _)| place == index))
        };
        let node = node_of(call).filter(makes);
        if let Some(node) = node {
            by_model.insert(model, node);
            following = Some(node);
        } else {
            attempts.push(Attempt { call, index, next: by_model.get(model).copied().or(following) });
        }
    }
    attempts.reverse();
    attempts
}

/// Usage of a call: `prompt_tokens` are those that no cache gave.
pub(super) fn usage(call: Value<'_>) -> Usage {
    let usage = call.get("usage");
    let count = |key: &str| usage.get(key).i64();
    let cached = count("cached_input_tokens");
    Usage {
        tokens_in: count("prompt_tokens").map(|fresh| fresh.saturating_add(cached.unwrap_or(0))),
        tokens_out: count("completion_tokens"),
        cached,
        reasoning: count("reasoning_tokens"),
        cost_usd: usage.get("cost").f64(),
        ..Usage::default()
    }
}

/// How long a call took, in seconds.
pub(super) fn duration_s(call: Value<'_>) -> Option<f64> {
    let [start, end] = ["start", "end"].map(|key| time(call.path(&["time", key])));
    let nanos = end?.checked_sub(start?).filter(|nanos| *nanos >= 0)?;
    Some(nanos as f64 / 1e9)
}
