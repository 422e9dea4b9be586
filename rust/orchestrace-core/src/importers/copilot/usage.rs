//! Usage. A response states what it wrote; what was read is stated for the whole session, where a run of the program ends.

use crate::error::FindingCode;
use crate::importers::recording::{Entry, Recording, Usage, added};
use crate::importers::usage::{Part, part};
use crate::json::Kind;
use crate::json::tree::Value;
use crate::schema::MeasureKind;

const UNREAD: &str = "what responses read is not recorded; the sums are a floor";

/// What was billed by other units: requests, and billionths of another unit.
type Units = [Option<f64>; 2];

/// What runs of the program state of all that they did, and what their responses state.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// What all runs so far took, as their ends state it, and the end before.
    stated: Option<Usage>,
    before: Option<Usage>,
    units: Units,
    /// What responses state until the last end, and until the run began that is at work.
    at_end: Sums,
    at_start: Sums,
    /// What the responses so far state, and the last of them: each is added once, unless it is corrected later.
    so_far: Sums,
    last: Option<Entry>,
}

/// What responses state.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Sums {
    usage: Usage,
    tokens: i64,
    /// How many responses state what they read, and how many there are.
    whole: usize,
    all: usize,
}

impl Sums {
    fn with(self, usage: Usage) -> Self {
        Self {
            usage: self.usage.plus(Usage { tokens_out: usage.tokens_out.filter(|n| *n > 0), ..usage }),
            tokens: self.tokens.saturating_add(usage.total().unwrap_or(0).max(0)),
            whole: self.whole + usize::from(usage.tokens_in.is_some()),
            all: self.all + 1,
        }
    }

    /// What was stated since.
    fn since(&self, before: &Self) -> Usage {
        let less = |now: Option<i64>, before: Option<i64>| {
            now.map(|now| now.saturating_sub(before.unwrap_or(0))).filter(|count| *count > 0)
        };
        Usage {
            tokens_in: less(self.usage.tokens_in, before.usage.tokens_in),
            tokens_out: less(self.usage.tokens_out, before.usage.tokens_out),
            cached: less(self.usage.cached, before.usage.cached),
            cache_write: less(self.usage.cache_write, before.usage.cache_write),
            reasoning: less(self.usage.reasoning, before.usage.reasoning),
            ..Usage::default()
        }
    }

    fn written(&self) -> i64 {
        self.usage.tokens_out.unwrap_or(0)
    }
}

/// What an end states: all that the session took, or what its own run did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Session,
    Run,
}

/// Whether a count is less than it was.
fn fell<T: PartialOrd>(before: Option<T>, now: Option<T>) -> bool {
    matches!((before, now), (Some(before), Some(now)) if now < before)
}

impl Ledger {
    /// A response is corrected: if it was counted, all are counted anew.
    pub(super) fn corrects(&mut self, response: Entry) {
        if self.last.is_some_and(|last| response <= last) {
            (self.so_far, self.last) = (Sums::default(), None);
        }
    }

    /// What the responses so far state.
    fn sums(&mut self, recording: &Recording) -> Sums {
        self.so_far = recording.usages(self.so_far.all).fold(self.so_far, Sums::with);
        self.last = recording.newest_response();
        self.so_far
    }

    /// The session goes on in another run of the program; the one before may have been killed before its end.
    pub(super) fn resumes(&mut self, recording: &Recording) {
        self.at_start = self.sums(recording);
    }

    /// A run of the program ends.
    pub(super) fn ends(&mut self, data: Value<'_>, recording: &mut Recording) {
        let units = ["totalPremiumRequests", "totalNanoAiu"].map(|key| data.get(key).f64());
        let now = self.sums(recording);
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
        let Some(end) = details.or(models) else {
            let is_of_run = self.units.into_iter().zip(units).any(|(before, now)| fell(before, now));
            self.bill(units, is_of_run);
            return;
        };
        let reach = self.reach(&end, units, &now, recording);
        self.stated = Some(match reach {
            Reach::Session => end,
            Reach::Run => self.with_run(end),
        });
        self.bill(units, reach == Reach::Run);
        self.before = Some(end);
        (self.at_end, self.at_start) = (now, now);
    }

    fn bill(&mut self, units: Units, is_of_run: bool) {
        for (sum, units) in self.units.iter_mut().zip(units) {
            *sum = match (*sum, units) {
                (Some(sum), Some(units)) if is_of_run => Some(sum + units),
                (sum, units) => units.or(sum),
            };
        }
    }

    /// What the session took if an end is of its own run: with the ends before, and with what was written in runs that
    /// have none.
    fn with_run(&self, end: Usage) -> Usage {
        self.stated.unwrap_or_default().plus(self.at_start.since(&self.at_end)).plus(end)
    }

    /// Whether a count is less than what the session took before.
    fn fell(&self, end: &Usage, [_, nano]: Units) -> bool {
        let counts = |usage: &Usage| {
            [usage.tokens_in, usage.tokens_out, usage.cached, usage.cache_write, usage.reasoning]
        };
        let stated = self.stated.unwrap_or_default();
        counts(&stated).into_iter().zip(counts(end)).any(|(before, now)| fell(before, now))
            || fell(self.units[1], nano)
    }

    /// What an end is of. Some versions count through all runs of a session, others begin anew with each.
    fn reach(&self, end: &Usage, units: Units, now: &Sums, recording: &mut Recording) -> Reach {
        let of_run = now.since(&self.at_start).tokens_out.unwrap_or(0);
        let (all, output) = (now.written(), end.tokens_out.unwrap_or(0));
        let is_first = self.stated.is_none() && of_run == all;
        // The same once more, with nothing in between, is no other run.
        let is_again = self.before == Some(*end) && *now == self.at_end;
        if is_first || is_again {
            return if is_first { Reach::Run } else { Reach::Session };
        }
        if self.fell(end, units) {
            return Reach::Run;
        }
        let is_of_session = output >= all || all - output < (output - of_run).abs();
        // Nothing was written before as far as responses say, or less than all, and not just what the run wrote.
        if of_run == all || (output < all && output != of_run) {
            let [session, run] = [*end, self.with_run(*end)].map(|usage| usage.total().unwrap_or(0));
            let used = if is_of_session { "first" } else { "second" };
            let message = format!(
                "an end states {} tokens, of all runs of the session or of the last one alone: the sum is {session} or {run} tokens; the {used} is used",
                end.total().unwrap_or(0)
            );
            recording.finding(FindingCode::UsageConflict, None, message);
        }
        if is_of_session { Reach::Session } else { Reach::Run }
    }

    /// Costs of the session: what it states, and what its responses wrote after that.
    pub(super) fn write_costs(&mut self, recording: &mut Recording) {
        for (name, units) in ["premium_requests", "nano_ai_units"].into_iter().zip(self.units) {
            if let Some(units) = units {
                recording.measure(MeasureKind::Metric, name, units);
            }
        }
        let now = self.sums(recording);
        let Some(stated) = self.stated else {
            if now.tokens > 0 && now.whole < now.all {
                recording.finding(FindingCode::UsageIncomplete, None, UNREAD);
            }
            return;
        };
        let total = stated.total().unwrap_or(0);
        if now.whole == now.all && now.all > 0 {
            if total != self.at_end.tokens {
                recording.measure(MeasureKind::Metric, "reported_tokens", total as f64);
                let words = ("the end of the session states", "its responses");
                recording.other_total(None, None, total, self.at_end.tokens, words);
            }
            return;
        }
        // What came after the last end is known by what its responses state.
        let costs = stated.plus(now.since(&self.at_end));
        let counts = [
            ("tokens", Some(total.saturating_add(now.tokens - self.at_end.tokens))),
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
        if now.all > 0 {
            let tokens = now.tokens;
            let message = costs.tokens_in.map_or_else(
                || UNREAD.to_owned(),
                |read| format!(
                    "what was read is stated for the session alone: {read} tokens; what events state, {tokens} tokens, is a floor"
                ),
            );
            recording.finding(FindingCode::UsageIncomplete, None, message);
        }
        let (of_session, written) = (stated.tokens_out.unwrap_or(0), self.at_end.written());
        if written > of_session {
            let message = format!(
                "the end of the session states {of_session} tokens written, its responses {written}; the first is used"
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
            Some(Part::Input) => fresh = added(fresh, count),
            Some(Part::Output) => usage.tokens_out = added(usage.tokens_out, count),
            Some(Part::Cached) => usage.cached = added(usage.cached, count),
            Some(Part::CacheWrite) => usage.cache_write = added(usage.cache_write, count),
            Some(Part::Reasoning) => usage.reasoning = added(usage.reasoning, count),
            _ if count.unwrap_or(0) > 0 => {
                let name: String = name.chars().take(40).collect();
                let message = format!("the end of the session has a count '{name}', which no rule knows");
                recording.finding(FindingCode::UsageUnknown, None, message);
            }
            _ => {}
        }
    }
    usage.tokens_in = added(fresh, added(usage.cached, usage.cache_write));
    (usage.total().unwrap_or(0) > 0).then_some(usage)
}

/// Counts by model: what a cache gave and took lies within the input.
fn of_models(data: Value<'_>) -> Option<Usage> {
    let models = data.get("modelMetrics").members();
    let all = models.map(|(_, model)| of_request(model.get("usage"))).reduce(Usage::plus)?;
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
