//! What responses cost. Usage stands on every event of a response, and again in lists beside the events; each response is
//! paid once, by its id.

use std::collections::HashSet;

use hashbrown::HashMap;

use crate::error::FindingCode;
use crate::importers::recording::{Recording, Usage};
use crate::json::time::parse_seconds;
use crate::json::tree::Value;
use crate::schema::MeasureKind;

/// A response in the lists beside the events.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paid<'v> {
    pub id: &'v str,
    /// Number of the conversation that lists it.
    pub owner: usize,
    /// Who asked for it: `agent`, `condenser`, `task:…`.
    pub account: &'v str,
    pub model: &'v str,
    pub usage: Usage,
    pub latency_s: Option<f64>,
    /// When it was paid.
    pub time: Option<i64>,
}

/// Everything that was paid, and the totals that are stated of it.
#[derive(Debug, Default)]
pub(super) struct Ledger<'v> {
    pub list: Vec<Paid<'v>>,
    of_id: HashMap<&'v str, usize>,
    /// Responses that have their usage, and the tokens that their events state.
    settled: HashMap<String, Option<i64>>,
    /// Responses of which other usage is stated elsewhere.
    contradicted: HashSet<String>,
    /// Prices that no list says the response of.
    loose: Vec<f64>,
    tokens: Option<i64>,
    cost_usd: Option<f64>,
}

impl<'v> Ledger<'v> {
    /// Reads the metrics of an account. Totals of what was read before state nothing more.
    pub(super) fn read(&mut self, owner: usize, account: &'v str, metrics: Value<'v>) {
        let mut again = false;
        let usages = metrics.get("token_usages");
        let costs = metrics.get("costs");
        let latencies: HashMap<&str, f64> = metrics
            .get("response_latencies")
            .elements()
            .filter_map(|entry| Some((entry.get("response_id").some_str()?, entry.get("latency").f64()?)))
            .collect();
        let aligned = costs.len() == usages.len();
        if !aligned {
            self.loose.extend(costs.elements().filter_map(|cost| cost.get("cost").f64()));
        }
        for (at, entry) in usages.elements().enumerate() {
            let id = entry.get("response_id").str().unwrap_or_default();
            if let Some(first) = self.of(id) {
                if first.usage.total() != usage_of(entry).total() {
                    self.contradicted.insert(id.to_owned());
                }
                again = true;
                continue;
            }
            let cost = if aligned { costs.at(at) } else { costs.absent() };
            self.of_id.insert(id, self.list.len());
            self.list.push(Paid {
                id,
                owner,
                account,
                model: entry.get("model").some_str().or(metrics.get("model_name").str()).unwrap_or_default(),
                usage: Usage { cost_usd: cost.get("cost").f64(), ..usage_of(entry) },
                latency_s: latencies.get(id).copied().filter(|seconds| *seconds >= 0.0),
                time: parse_seconds(cost.get("timestamp").raw()),
            });
        }
        let total = usage_of(metrics.get("accumulated_token_usage")).total();
        if !again {
            self.state(total, metrics.get("accumulated_cost").f64());
        }
    }

    /// Takes what is stated of a whole. 0 states nothing.
    pub(super) fn state(&mut self, tokens: Option<i64>, cost_usd: Option<f64>) {
        if let Some(tokens) = tokens.filter(|tokens| *tokens > 0) {
            self.tokens = Some(self.tokens.unwrap_or(0).saturating_add(tokens));
        }
        if let Some(cost) = cost_usd.filter(|cost| *cost > 0.0) {
            *self.cost_usd.get_or_insert(0.0) += cost;
        }
    }

    /// Responses that no event is of, in the order of their times; those without one last.
    pub(super) fn beside(&self, ids: &HashSet<&str>) -> Vec<Paid<'v>> {
        let unknown = self.list.iter().filter(|paid| paid.id.is_empty() || !ids.contains(paid.id));
        let mut beside: Vec<Paid<'v>> = unknown.copied().collect();
        beside.sort_by_key(|paid| (paid.time.is_none(), paid.time));
        beside
    }

    /// What the lists say of a response.
    pub(super) fn of(&self, id: &str) -> Option<&Paid<'v>> {
        self.of_id.get(id).filter(|_| !id.is_empty()).map(|at| &self.list[*at])
    }

    /// The usage of a response the first time that it is asked for: `of_event` is what its event says.
    pub(super) fn settle(&mut self, id: &str, of_event: Usage) -> Usage {
        let listed = self.of(id).map_or_else(Usage::default, |paid| paid.usage);
        let stated = of_event.total();
        let before = self.settled.get(id).copied();
        let others = [before.flatten(), listed.total()];
        if !id.is_empty() && stated.is_some() && others.iter().flatten().any(|other| Some(*other) != stated) {
            self.contradicted.insert(id.to_owned());
        }
        if !id.is_empty() && self.settled.insert(id.to_owned(), before.flatten().or(stated)).is_some() {
            return Usage::default();
        }
        if of_event.total().is_none() {
            return listed;
        }
        let part = |first: Option<i64>, second: Option<i64>| first.or(second);
        Usage {
            cached: part(of_event.cached, listed.cached),
            cache_write: part(of_event.cache_write, listed.cache_write),
            reasoning: part(of_event.reasoning, listed.reasoning),
            cost_usd: of_event.cost_usd.or(listed.cost_usd),
            ..of_event
        }
    }

    /// Compares what is stated of the whole with what its responses sum to.
    pub(super) fn compare(&self, recording: &mut Recording) {
        if !self.contradicted.is_empty() {
            let n = self.contradicted.len();
            let message =
                format!("usage of responses that is stated in two ways: {n}; the first one is used");
            recording.finding(FindingCode::UsageConflict, None, message);
        }
        let usages: Vec<Usage> = recording.usages(0).collect();
        let counted = usages.iter().filter_map(Usage::total).fold(0_i64, i64::saturating_add);
        let silent = usages.iter().filter(|usage| usage.total().is_none()).count();
        match self.tokens {
            Some(stated) if silent == usages.len() => {
                recording.measure(MeasureKind::Cost, "tokens", stated as f64);
            }
            Some(stated) if stated != counted => {
                recording.measure(MeasureKind::Metric, "reported_tokens", stated as f64);
                let differ = format!("the metrics state {stated} tokens, the responses sum to {counted}");
                if stated > counted && silent > 0 {
                    let message = format!("{differ}; responses without usage: {silent}; the sum is a floor");
                    recording.finding(FindingCode::UsageIncomplete, None, message);
                } else {
                    recording.finding(FindingCode::UsageConflict, None, format!("{differ}, which is used"));
                }
            }
            _ if silent > 0 && silent < usages.len() => {
                let n = usages.len();
                let message = format!("responses without usage: {silent} of {n}; the sum is a floor");
                recording.finding(FindingCode::UsageIncomplete, None, message);
            }
            _ => {}
        }
        let prices: Vec<f64> = usages.iter().filter_map(|usage| usage.cost_usd).collect();
        let loose = (!self.loose.is_empty()).then(|| self.loose.iter().sum());
        let sum: f64 = prices.iter().sum();
        match self.cost_usd.or(loose) {
            Some(stated) if prices.is_empty() => recording.measure(MeasureKind::Cost, "cost_usd", stated),
            Some(stated) if (stated - sum).abs() > 1e-9 * stated.abs() => {
                recording.measure(MeasureKind::Metric, "reported_cost_usd", stated);
                let message =
                    format!("the metrics state {stated} USD, the responses cost {sum}, which is used");
                recording.finding(FindingCode::UsageConflict, None, message);
            }
            _ => {}
        }
    }

    /// Prices in the order of the responses, of metrics that list nothing else.
    pub(super) fn loose_costs(&self) -> &[f64] {
        if self.list.is_empty() { &self.loose } else { &[] }
    }
}

/// Usage as these programs state it: what the cache gave and took lies within the prompt.
pub(super) fn usage_of(entry: Value<'_>) -> Usage {
    let count = |key: &str| entry.get(key).integer_like();
    Usage {
        tokens_in: count("prompt_tokens"),
        tokens_out: count("completion_tokens"),
        cached: count("cache_read_tokens"),
        cache_write: count("cache_write_tokens"),
        reasoning: count("reasoning_tokens"),
        ..Usage::default()
    }
}
