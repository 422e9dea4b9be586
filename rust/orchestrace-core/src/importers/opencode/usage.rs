//! Usage of steps and messages: input leaves out what a cache gave and took, output leaves out reasoning.

use crate::importers::recording::Usage;
use crate::json::Kind;
use crate::json::tree::Value;

/// What a step or a message states of its usage.
#[derive(Debug, Clone, Default)]
pub(super) struct Stated {
    pub usage: Usage,
    /// Whether its counts are 0 in all, which states nothing.
    pub is_empty: bool,
    /// Members of another kind than they should have.
    pub misfits: Vec<&'static str>,
}

impl Stated {
    /// From the tokens and the price of a step, a message or a session.
    pub(super) fn of(holder: Value<'_>) -> Self {
        let mut stated = Self::default();
        let (tokens, cost) = (holder.get("tokens"), holder.get("cost"));
        if tokens.exists() && tokens.kind() != Some(Kind::Object) {
            stated.misfits.push("tokens");
        }
        let cache = tokens.get("cache");
        if cache.exists() && cache.kind() != Some(Kind::Object) {
            stated.misfits.push("tokens.cache");
        }
        let mut count = |value: Value<'_>| {
            if value.exists() && value.i64().is_none() {
                stated.misfits.push("tokens.*");
            }
            value.i64()
        };
        let [input, output, reasoning, total] =
            ["input", "output", "reasoning", "total"].map(|key| count(tokens.get(key)));
        let [read, write] = ["read", "write"].map(|key| count(cache.get(key)));
        // A price by other names is not in dollars.
        let cost_usd = cost.f64();
        if cost.exists() && cost_usd.is_none() {
            stated.misfits.push("cost");
        }
        let counts = [input, output, reasoning, total, read, write];
        if counts.iter().all(|count| count.unwrap_or(0) == 0) {
            stated.is_empty = counts.iter().any(Option::is_some);
            stated.usage.cost_usd = cost_usd.filter(|cost| *cost != 0.0);
            return stated;
        }
        let sum = |list: [Option<i64>; 3]| list.into_iter().flatten().fold(0_i64, i64::saturating_add);
        let tokens_in = input.map(|_| sum([input, read, write]));
        let (all_in, written, thought) =
            (tokens_in.unwrap_or(0), output.unwrap_or(0), reasoning.unwrap_or(0));
        // Where the total says so, reasoning lies within the output.
        let is_inside = total == Some(all_in.saturating_add(written)) && thought > 0 && thought <= written;
        let tokens_out = output.map(|_| if is_inside { written } else { written.saturating_add(thought) });
        let split = input.is_some() || output.is_some();
        stated.usage = Usage {
            tokens_in,
            tokens_out,
            tokens: total.filter(|_| !split),
            cached: read,
            cache_write: write,
            reasoning,
            cost_usd,
            ..Usage::default()
        }
        .beside_total(total.filter(|_| split));
        stated
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Limits;
    use crate::json::tree::Tree;

    const LIMITS: Limits = Limits { depth: 16, string: 1 << 10, lenient: true };

    #[test]
    fn cache_and_reasoning_stand_beside_input_and_output() {
        let read = |json: &str| {
            let tree = Tree::parse(json, LIMITS).unwrap();
            let stated = Stated::of(tree.root());
            let usage = stated.usage;
            ((usage.tokens_in, usage.tokens_out, usage.stated, usage.cost_usd), stated.is_empty)
        };
        let beside = r#"{"tokens":{"total":49,"input":5,"output":4,"reasoning":10,"cache":{"read":20,"write":10}},"cost":0.5}"#;
        assert_eq!(read(beside), ((Some(35), Some(14), None, Some(0.5)), false));
        let inside = r#"{"tokens":{"total":19,"input":5,"output":14,"reasoning":10},"cost":0}"#;
        assert_eq!(read(inside), ((Some(5), Some(14), None, Some(0.0)), false));
        let unequal = r#"{"tokens":{"total":7,"input":5,"output":1,"reasoning":0}}"#;
        assert_eq!(read(unequal), ((Some(5), Some(1), Some(7), None), false));
        let none = r#"{"tokens":{"input":0,"output":0,"reasoning":0,"cache":{"read":0,"write":0}},"cost":0}"#;
        assert_eq!(read(none), ((None, None, None, None), true));
        let object = r#"{"tokens":{"input":120,"output":16},"cost":{"usd":0.1}}"#;
        assert_eq!(read(object), ((Some(120), Some(16), None, None), false));
    }
}
