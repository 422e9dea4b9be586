//! Usage of responses. `input` leaves out what a cache gave and took, whoever the provider is.

use crate::importers::recording::Usage;
use crate::importers::usage::{Part, part};
use crate::json::Kind;
use crate::json::tree::Value;

/// What a response states of its usage.
#[derive(Debug, Default)]
pub(super) struct Read {
    pub usage: Usage,
    /// Whether it states nothing: all its counts are 0, as where a request failed before the provider answered.
    pub is_empty: bool,
    /// A count whose name no rule knows.
    pub unknown: Option<String>,
    /// Members of another kind than they should have.
    pub misfits: Vec<&'static str>,
}

impl Read {
    pub(super) fn of(usage: Value<'_>) -> Self {
        let mut read = Self::default();
        if usage.kind() != Some(Kind::Object) {
            read.misfits.extend(usage.exists().then_some("message.usage"));
            return read;
        }
        let [mut input, mut output, mut total, mut cached, mut written, mut hour, mut reasoning] = [None; 7];
        for (key, value) in usage.members().filter(|(key, _)| *key != "cost") {
            let slot = match part(key) {
                Some(Part::Input) => &mut input,
                Some(Part::Output) => &mut output,
                Some(Part::Total) => &mut total,
                Some(Part::Cached) => &mut cached,
                Some(Part::CacheWrite) => &mut written,
                Some(Part::CacheWrite1h) => &mut hour,
                Some(Part::Reasoning) => &mut reasoning,
                Some(Part::Share) => continue,
                None => {
                    if value.i64().is_some_and(|count| count != 0) {
                        read.unknown.get_or_insert_with(|| key.chars().take(40).collect());
                    }
                    continue;
                }
            };
            *slot = value.integer_like();
            if slot.is_none() && value.exists() {
                read.misfits.push("message.usage.*");
            }
        }
        let cost = usage.path(&["cost", "total"]);
        let cost_usd = cost.number_like();
        if cost_usd.is_none() && cost.exists() {
            read.misfits.push("message.usage.cost.total");
        }
        let counts = [input, output, total, cached, written, hour, reasoning];
        if counts.iter().all(|count| count.unwrap_or(0) == 0) && cost_usd.unwrap_or(0.0) == 0.0 {
            read.is_empty = counts.iter().any(Option::is_some);
            return read;
        }
        let cache = cached.unwrap_or(0).saturating_add(written.unwrap_or(0));
        // Parts that are 0 beside a total or a price state nothing.
        let split = [input, output, cached, written].iter().any(|part| part.unwrap_or(0) != 0);
        if !split {
            read.usage = Usage { tokens: total.filter(|total| *total != 0), cost_usd, ..Usage::default() };
            return read;
        }
        let counted = Usage {
            tokens_in: input.map(|fresh| fresh.saturating_add(cache)),
            tokens_out: output,
            cached,
            cache_write: written,
            cache_write_1h: hour,
            reasoning,
            cost_usd,
            ..Usage::default()
        };
        read.usage = counted.beside_total(total);
        read
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Limits;
    use crate::json::tree::Tree;

    const LIMITS: Limits = Limits { depth: 16, string: 1 << 10, lenient: true };

    #[test]
    fn input_leaves_out_the_cache_and_what_is_0_in_all_states_nothing() {
        let read = |json: &str| {
            let tree = Tree::parse(json, LIMITS).unwrap();
            let read = Read::of(tree.root());
            let usage = read.usage;
            ((usage.tokens_in, usage.tokens_out, usage.tokens, usage.cost_usd), usage.stated, read.is_empty)
        };
        let anthropic = r#"{"input":5,"output":7,"cacheRead":3,"cacheWrite":1,"totalTokens":16,"cost":{"input":9,"total":0.5}}"#;
        assert_eq!(read(anthropic), ((Some(9), Some(7), None, Some(0.5)), None, false));
        // The total of another provider is another one, and the rule the same.
        let other = r#"{"input":5,"output":7,"cacheRead":3,"totalTokens":12}"#;
        assert_eq!(read(other), ((Some(8), Some(7), None, None), Some(12), false));
        let none =
            r#"{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{"total":0}}"#;
        assert_eq!(read(none), ((None, None, None, None), None, true));
        assert_eq!(
            read(r#"{"input":0,"output":0,"totalTokens":9}"#),
            ((None, None, Some(9), None), None, false)
        );
        assert_eq!(read("{}"), ((None, None, None, None), None, false), "nothing is stated, not even 0");
        assert_eq!(read(r#"{"output":2}"#), ((None, Some(2), None, None), None, false));
    }
}
