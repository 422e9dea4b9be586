//! Usage. A response states what it wrote; what was read is stated for the whole session, where a run of the program ends.

use crate::error::FindingCode;
use crate::importers::recording::{Recording, Usage};
use crate::importers::usage::{Part, part};
use crate::json::Kind;
use crate::json::tree::Value;
use crate::schema::MeasureKind;

const UNREAD: &str = "what responses read is not recorded; the sums are a floor";

/// What runs of the program state of all that they did, and what their responses state.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    stated: Option<Usage>,
    /// What the responses wrote, and took in all, until the last run ended.
    written: i64,
    tokens: i64,
    n_runs: usize,
    /// What was billed by other units; counted through all runs of a session.
    pub premium_requests: Option<f64>,
    pub nano_ai_units: Option<f64>,
}

/// What responses wrote, and took in all, and how many state what they read.
fn sums(recording: &Recording) -> (i64, i64, usize, usize) {
    recording.usages(None).fold((0, 0, 0, 0), |(written, tokens, whole, all), usage| {
        (
            written.saturating_add(usage.tokens_out.unwrap_or(0).max(0)),
            tokens.saturating_add(usage.total().unwrap_or(0).max(0)),
            whole + usize::from(usage.tokens_in.is_some()),
            all + 1,
        )
    })
}

fn add(first: Option<i64>, second: Option<i64>) -> Option<i64> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first.saturating_add(second)),
        (first, second) => first.or(second),
    }
}

fn plus(first: Usage, second: Usage) -> Usage {
    Usage {
        tokens_in: add(first.tokens_in, second.tokens_in),
        tokens_out: add(first.tokens_out, second.tokens_out),
        cached: add(first.cached, second.cached),
        cache_write: add(first.cache_write, second.cache_write),
        reasoning: add(first.reasoning, second.reasoning),
        ..Usage::default()
    }
}

impl Ledger {
    /// A run of the program ends. Each states what it did itself; some state what all did before, too.
    pub(super) fn ends(&mut self, data: Value<'_>, recording: &mut Recording) {
        let units = [data.get("totalPremiumRequests").f64(), data.get("totalNanoAiu").f64()];
        self.premium_requests = units[0].or(self.premium_requests);
        self.nano_ai_units = units[1].or(self.nano_ai_units);
        let (written, tokens, ..) = sums(recording);
        let (details, models) = (of_details(data, recording), of_models(data));
        if let (Some(one), Some(other)) = (details, models)
            && one.total() != other.total()
        {
            let [one, other] = [one, other].map(|usage| usage.total().unwrap_or(0));
            let message = format!(
                "the end of the session states {one} tokens by kind and {other} by model; the first is used"
            );
            recording.finding(FindingCode::UsageConflict, None, message);
        }
        if let Some(run) = details.or(models) {
            let is_of_all = run.tokens_out == Some(written) && self.written > 0;
            self.stated = Some(match self.stated {
                Some(before) if !(is_of_all && self.n_runs > 0 && before.total() <= run.total()) => {
                    plus(before, run)
                }
                _ => run,
            });
            self.n_runs += 1;
            (self.written, self.tokens) = (written, tokens);
        }
    }

    /// Costs of the session: what it states, and what its responses wrote after that.
    pub(super) fn write_costs(&self, recording: &mut Recording) {
        for (name, units) in
            [("premium_requests", self.premium_requests), ("nano_ai_units", self.nano_ai_units)]
        {
            if let Some(units) = units {
                recording.measure(MeasureKind::Metric, name, units);
            }
        }
        let (written, tokens, whole, all) = sums(recording);
        let Some(stated) = self.stated else {
            if tokens > 0 && whole < all {
                recording.finding(FindingCode::UsageIncomplete, None, UNREAD);
            }
            return;
        };
        let total = stated.total().unwrap_or(0);
        if whole == all && all > 0 {
            if total != self.tokens {
                recording.measure(MeasureKind::Metric, "reported_tokens", total as f64);
                let words = ("the end of the session states", "its responses");
                recording.other_total(None, None, total, self.tokens, words);
            }
            return;
        }
        // What came after the last end is known by what it wrote.
        let later = Usage {
            tokens_out: (written > self.written).then_some(written - self.written),
            ..Usage::default()
        };
        let costs = plus(stated, later);
        let counts = [
            ("tokens", Some(total.saturating_add(tokens - self.tokens))),
            ("tokens_in", costs.tokens_in),
            ("tokens_out", costs.tokens_out),
            ("tokens_cached", costs.cached),
            ("tokens_cache_write", costs.cache_write),
            ("tokens_reasoning", costs.reasoning),
        ];
        for (name, count) in counts {
            if let Some(count) = count {
                recording.measure(MeasureKind::Cost, name, count as f64);
            }
        }
        if all > 0 {
            let message = stated.tokens_in.map_or_else(
                || UNREAD.to_owned(),
                |read| format!(
                    "what was read is stated for the session alone: {read} tokens; what events state, {tokens} tokens, is a floor"
                ),
            );
            recording.finding(FindingCode::UsageIncomplete, None, message);
        }
        let of_session = stated.tokens_out.unwrap_or(0);
        if self.written > of_session {
            let message = format!(
                "the end of the session states {of_session} tokens written, its responses {}; the first is used",
                self.written
            );
            recording.finding(FindingCode::UsageConflict, None, message);
        }
    }
}

/// Counts by kind: what a cache gave and took stands beside the input.
fn of_details(data: Value<'_>, recording: &mut Recording) -> Option<Usage> {
    let details = data.get("tokenDetails");
    let mut usage = Usage::default();
    let mut fresh = None;
    for (name, detail) in details.members() {
        let count = detail.get("tokenCount").i64().filter(|count| *count >= 0);
        match part(name) {
            Some(Part::Input) => fresh = add(fresh, count),
            Some(Part::Output) => usage.tokens_out = add(usage.tokens_out, count),
            Some(Part::Cached) => usage.cached = add(usage.cached, count),
            Some(Part::CacheWrite) => usage.cache_write = add(usage.cache_write, count),
            Some(Part::Reasoning) => usage.reasoning = add(usage.reasoning, count),
            _ if count.unwrap_or(0) > 0 => {
                let name: String = name.chars().take(40).collect();
                let message = format!("the end of the session has a count '{name}', which no rule knows");
                recording.finding(FindingCode::UsageUnknown, None, message);
            }
            _ => {}
        }
    }
    usage.tokens_in = add(fresh, add(usage.cached, usage.cache_write));
    (usage.total().unwrap_or(0) > 0).then_some(usage)
}

/// Counts by model: what a cache gave and took lies within the input.
fn of_models(data: Value<'_>) -> Option<Usage> {
    let models = data.get("modelMetrics").members();
    let all = models.map(|(_, model)| of_request(model.get("usage"))).reduce(plus)?;
    (all.total().unwrap_or(0) > 0).then_some(all)
}

/// Usage as requests state it; the names of older versions are shorter.
pub(super) fn of_request(usage: Value<'_>) -> Usage {
    if usage.kind() != Some(Kind::Object) {
        return Usage::default();
    }
    let count = |keys: &[&str]| usage.first(keys).i64().filter(|count| *count >= 0);
    let (input, cached) = (count(&["inputTokens", "input"]), count(&["cacheReadTokens", "cachedInput"]));
    let cache_write = count(&["cacheWriteTokens"]);
    let cache = cached.unwrap_or(0).saturating_add(cache_write.unwrap_or(0));
    Usage {
        // Less than what the cache gave is what it did not give.
        tokens_in: input.map(|input| if input < cache { input.saturating_add(cache) } else { input }),
        tokens_out: count(&["outputTokens", "output"]),
        cached,
        cache_write,
        reasoning: count(&["reasoningTokens"]),
        ..Usage::default()
    }
}
