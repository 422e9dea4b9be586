//! Usage of responses: what the model of the response read and wrote, and what other models did for it.

use super::super::recording::Usage;
use super::record::{Block, Code, Reader, Records, Side};
use crate::error::FindingCode;
use crate::json::keys::Keys;
use crate::json::tree::Value;

/// All that a usage is known to hold. The last three count no tokens.
static USAGE: Keys<10> = Keys::new([
    "input_tokens",
    "cache_creation_input_tokens",
    "cache_read_input_tokens",
    "output_tokens",
    "cache_creation",
    "iterations",
    "server_tool_use",
    "service_tier",
    "inference_geo",
    "speed",
]);

/// Kinds of iterations whose tokens are part of the usage that holds them.
const OF_THE_RESPONSE: [&str; 2] = ["message", "compaction"];

impl Reader<'_> {
    /// Usage in the words of R7: what a cache gave or took is part of what was read.
    pub(super) fn usage(
        &mut self,
        records: &mut Records,
        response: Code,
        usage: Value<'_>,
        cost: Value<'_>,
    ) -> Usage {
        let members = usage.pick(&USAGE);
        let iterations = members[5];
        if usage.len() > members.iter().filter(|member| member.exists()).count() {
            self.unknown(records, response, usage);
        }
        let mut read = Usage { cost_usd: cost.f64().filter(|cost| *cost >= 0.0), ..counts(usage) };
        if iterations.elements().any(is_of_another) {
            self.sides(records, &mut read, iterations);
        }
        read
    }

    /// What other models did for a response, each by itself. Where the usage of the response is the sum with theirs, it is
    /// the less for it.
    fn sides(&mut self, records: &mut Records, of_response: &mut Usage, iterations: Value<'_>) {
        let sum = iterations.elements().filter_map(|part| counts(part).total()).sum::<i64>();
        let is_inside = of_response.total() == Some(sum);
        for part in iterations.elements().filter(|part| is_of_another(*part)) {
            let usage = counts(part);
            if is_inside {
                let less = |of_response: Option<i64>, part: Option<i64>| match (of_response, part) {
                    (Some(of_response), Some(part)) => Some(of_response.saturating_sub(part).max(0)),
                    (of_response, _) => of_response,
                };
                of_response.tokens_in = less(of_response.tokens_in, usage.tokens_in);
                of_response.tokens_out = less(of_response.tokens_out, usage.tokens_out);
                of_response.cached = less(of_response.cached, usage.cached);
                of_response.cache_write = less(of_response.cache_write, usage.cache_write);
                of_response.cache_write_1h = less(of_response.cache_write_1h, usage.cache_write_1h);
            }
            let model = self.recording.text(part.get("model").str().unwrap_or_default());
            let kind = records.code(part.get("type").str().unwrap_or_default());
            records.blocks.push(Block::Side(Box::new(Side { kind, model, usage })));
        }
    }

    /// Notes tokens under names that no rule knows.
    #[cold]
    fn unknown(&mut self, records: &mut Records, response: Code, usage: Value<'_>) {
        for (key, value) in usage.members().filter(|(key, _)| USAGE.number(key).is_none()) {
            if let (true, Some(tokens)) = (key.ends_with("tokens"), value.i64().filter(|n| *n > 0)) {
                let most = self.unknown_tokens.entry((records.code(key), response)).or_insert(0);
                *most = tokens.max(*most);
            }
        }
    }

    /// Says how many tokens stand under names that no rule knows.
    pub(super) fn unknown_usage(&mut self, records: &Records) {
        let mut sums = std::collections::BTreeMap::new();
        for ((key, _), tokens) in &self.unknown_tokens {
            let sum = sums.entry(records.names.name(*key)).or_insert((0_i64, 0));
            *sum = (sum.0.saturating_add(*tokens), sum.1 + 1);
        }
        for (key, (tokens, responses)) in sums {
            let message = format!(
                "'usage.{key}' holds {tokens} tokens of {responses} responses; no rule reads it, and they are in no sum"
            );
            self.recording.finding(FindingCode::UsageIncomplete, None, message);
        }
    }
}

/// Whether an iteration is not of the model of its response.
fn is_of_another(part: Value<'_>) -> bool {
    part.get("type").str().is_some_and(|kind| !OF_THE_RESPONSE.contains(&kind))
}

/// Counts of one usage. Sessions always have Anthropic's object, whose cache stands beside `input_tokens`, so that neither a
/// total nor the spelling decides as in `importers::usage`: a line of a cached prompt alone has input, and where only the
/// ages of a cache write are there, the write is their sum.
fn counts(usage: Value<'_>) -> Usage {
    let [uncached, cache_write, cached, tokens_out, created, ..] = usage.pick(&USAGE);
    let count = |number: Value<'_>| number.i64().filter(|n| *n >= 0);
    let (uncached, cached, tokens_out) = (count(uncached), count(cached), count(tokens_out));
    let mut by_age =
        created.members().filter_map(|(key, value)| count(value).filter(|_| key.ends_with("input_tokens")));
    let cache_write = count(cache_write).or_else(|| {
        let first = by_age.next()?;
        Some(by_age.fold(first, i64::saturating_add))
    });
    let cache_write_1h = count(created.get("ephemeral_1h_input_tokens"));
    let parts = [uncached, cache_write, cached];
    let is_counted = parts.iter().any(Option::is_some);
    let tokens_in = parts.into_iter().flatten().fold(0_i64, i64::saturating_add);
    let tokens_in = is_counted.then_some(tokens_in);
    Usage { tokens_in, tokens_out, cached, cache_write, cache_write_1h, ..Usage::default() }
}
