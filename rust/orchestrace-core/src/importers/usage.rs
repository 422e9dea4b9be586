//! How sources spell the counts of tokens of a response: one table, which all readers of a provider's usage share.
//!
//! A name is judged by its words, wherever the source puts its points, its underscores and its capitals: a count with
//! `cache` is of the cache (what was written to it says so), one with `reasoning` or `thinking` of the reasoning.

use super::recording::Usage;
use crate::json::Kind;
use crate::json::tree::Value;

/// What a count of tokens is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Input,
    Output,
    Total,
    Cached,
    CacheWrite,
    /// Of what was written to a cache, what is to stay for an hour.
    CacheWrite1h,
    Reasoning,
    /// A part of input, output or cache by kind (`audio`, `ephemeral_5m`), which no column has.
    Share,
}

/// What the words of a name are about.
#[derive(Default)]
#[allow(clippy::struct_excessive_bools)] // one of each word
struct Words {
    input: bool,
    output: bool,
    total: bool,
    cache: bool,
    write: bool,
    hour: bool,
    reasoning: bool,
    share: bool,
}

/// The part that a count of this name is; nothing where the name has a word that no source is known to use.
pub(super) fn part(name: &str) -> Option<Part> {
    let mut words = Words::default();
    let mut rest = name;
    while let Some((word, after)) = first_word(rest) {
        rest = after;
        let is = |list: &[&str]| list.iter().any(|known| word.eq_ignore_ascii_case(known));
        match () {
            () if is(&["input", "prompt"]) => words.input = true,
            () if is(&["output", "completion", "candidates"]) => words.output = true,
            () if is(&["total"]) => words.total = true,
            () if is(&["cache", "cached"]) => words.cache = true,
            () if is(&["write", "written", "creation"]) => words.write = true,
            () if is(&["1h"]) => words.hour = true,
            () if is(&["reasoning", "thinking", "thoughts"]) => words.reasoning = true,
            () if is(&["audio", "text", "image", "video", "miss", "ephemeral", "5m"])
                || is(&["accepted", "rejected", "prediction"]) =>
            {
                words.share = true;
            }
            () if is(&["tokens", "token", "count", "details", "read", "hit"]) => {}
            () => return None,
        }
    }
    let Words { input, output, total, cache, write, hour, reasoning, share } = words;
    match () {
        () if hour && cache && write => Some(Part::CacheWrite1h),
        () if share || hour => Some(Part::Share),
        () if cache => Some(if write { Part::CacheWrite } else { Part::Cached }),
        () if reasoning => Some(Part::Reasoning),
        () if total && !input && !output => Some(Part::Total),
        () if input && !output && !total => Some(Part::Input),
        () if output && !input && !total => Some(Part::Output),
        () => None,
    }
}

/// The first word of a name and what follows it: words end at a point, an underscore or before a capital.
fn first_word(name: &str) -> Option<(&str, &str)> {
    let name = name.trim_start_matches(['.', '_', '-']);
    let first = name.chars().next()?;
    let ends = |c: char| matches!(c, '.' | '_' | '-') || c.is_ascii_uppercase();
    let at = name[first.len_utf8()..].find(ends).map_or(name.len(), |at| at + first.len_utf8());
    Some(name.split_at(at))
}

/// Usage of a provider's object, in the words of R7, and the total that it states beside its parts.
///
/// Whether input holds what a cache gave and took is decided by the total. Where there is none, it is decided by the
/// spelling: Anthropic's `cache_read_input_tokens` and `cache_creation_input_tokens` stand beside its `input_tokens`, all
/// others lie within, unless they are more than input.
pub(super) fn of(object: Value<'_>) -> (Usage, Option<i64>) {
    let mut counts = Counts::default();
    counts.put("", object);
    counts.finish()
}

/// Counts of a response as its source has them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub input: Option<i64>,
    pub output: Option<i64>,
    pub total: Option<i64>,
    pub cached: Option<i64>,
    pub cache_write: Option<i64>,
    pub cache_write_1h: Option<i64>,
    pub reasoning: Option<i64>,
    /// Whether the cache is spelt as Anthropic does, and input, too.
    pub beside: (bool, bool),
}

impl Counts {
    fn put(&mut self, above: &str, object: Value<'_>) {
        for (key, value) in object.members() {
            if value.kind() == Some(Kind::Object) && above.is_empty() {
                self.put(key, value);
                continue;
            }
            let Some(count) = value.integer_like().filter(|count| *count >= 0) else { continue };
            let path = [above, key].join(".");
            let part = part(&path);
            let slot = match part {
                Some(Part::Input) => &mut self.input,
                Some(Part::Output) => &mut self.output,
                Some(Part::Total) => &mut self.total,
                Some(Part::Cached) => &mut self.cached,
                Some(Part::CacheWrite) => &mut self.cache_write,
                Some(Part::CacheWrite1h) => &mut self.cache_write_1h,
                Some(Part::Reasoning) => &mut self.reasoning,
                Some(Part::Share) | None => continue,
            };
            if slot.is_none() {
                *slot = Some(count);
                self.beside.0 |= matches!(key, "cache_read_input_tokens" | "cache_creation_input_tokens");
                self.beside.1 |= key == "input_tokens";
            }
        }
    }

    /// Usage, and the total that stands beside its parts ([`of`]).
    pub(super) fn finish(self) -> (Usage, Option<i64>) {
        let Self { input, output, total, cached, cache_write, cache_write_1h, reasoning, beside } = self;
        let cache = cached.unwrap_or(0).saturating_add(cache_write.unwrap_or(0));
        let (read, written) = (input.unwrap_or(0), output.unwrap_or(0));
        let thought = reasoning.unwrap_or(0);
        let ways = [(0, 0), (cache, 0), (0, thought), (cache, thought)];
        let sum = |way: &(i64, i64)| read.saturating_add(written).saturating_add(way.0).saturating_add(way.1);
        let by_spelling = if cache > read || beside == (true, true) { (cache, 0) } else { (0, 0) };
        // More than what was read cannot lie within it, whoever added input and output up.
        let may_be = |way: &(i64, i64)| way.0 > 0 || cache <= read;
        let by_total = total.and_then(|total| ways.into_iter().find(|way| may_be(way) && sum(way) == total));
        let (beside_input, beside_output) = by_total.unwrap_or(by_spelling);
        let split = input.is_some() || output.is_some();
        let counts = Usage {
            tokens_in: input.map(|_| read.saturating_add(beside_input)),
            tokens_out: output.map(|_| written.saturating_add(beside_output)),
            tokens: total.filter(|_| !split),
            cached,
            cache_write,
            cache_write_1h,
            reasoning,
            ..Usage::default()
        };
        let total = total.filter(|_| split);
        (counts.beside_total(total), total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Limits;
    use crate::json::tree::Tree;

    const LIMITS: Limits = Limits { depth: 16, string: 1 << 10, lenient: false };

    #[test]
    fn every_spelling_is_of_its_part() {
        let table = [
            (Part::Input, "input_tokens prompt_tokens inputTokens promptTokenCount"),
            (Part::Output, "output_tokens completion_tokens outputTokens candidatesTokenCount"),
            (Part::Total, "total_tokens totalTokens totalTokenCount total"),
            (
                Part::Cached,
                "cache_read.input_tokens cache_read_input_tokens details.cache_read_tokens cache_read_tokens \
                 input_tokens.cached prompt_tokens_details.cached_tokens cached_tokens input_tokens_cache_read \
                 cacheReadInputTokens prompt_cache_hit_tokens cached_input_tokens input_tokens_details.cached_tokens",
            ),
            (
                Part::CacheWrite,
                "cache_creation.input_tokens cache_creation_input_tokens details.cache_write_tokens \
                 input_tokens.cache_write input_tokens_cache_write cacheCreationInputTokens cache_write_tokens",
            ),
            (Part::CacheWrite1h, "cache_creation.ephemeral_1h_input_tokens"),
            (
                Part::Reasoning,
                "reasoning.output_tokens reasoning_tokens details.reasoning_tokens output_tokens.reasoning \
                 completion_tokens_details.reasoning_tokens thoughtsTokenCount",
            ),
            (
                Part::Share,
                "details.input_audio_tokens text.input_tokens cache_creation.ephemeral_5m_input_tokens \
                 prompt_cache_miss_tokens completion_tokens_details.rejected_prediction_tokens",
            ),
        ];
        for (expected, names) in table {
            for name in names.split(' ').filter(|name| !name.is_empty()) {
                assert_eq!(part(name), Some(expected), "{name}");
            }
        }
        for name in ["server_tool_requests", "web_search", "cost", "tokens", "input_output_tokens", ""] {
            assert_eq!(part(name), None, "{name}");
        }
    }

    #[test]
    fn the_total_or_the_spelling_says_whether_input_holds_the_cache() {
        let read = |json: &str| {
            let tree = Tree::parse(json, LIMITS).unwrap();
            let (usage, total) = of(tree.root());
            (usage.tokens_in, usage.tokens_out, usage.cached, usage.cache_write, usage.total(), total)
        };
        // Anthropic: beside.
        let anthropic = r#"{"input_tokens":5,"cache_read_input_tokens":3,"cache_creation_input_tokens":1,"output_tokens":7}"#;
        assert_eq!(read(anthropic), (Some(9), Some(7), Some(3), Some(1), Some(16), None));
        // OpenAI: within.
        let openai = r#"{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens":7,"total_tokens":12}"#;
        assert_eq!(read(openai), (Some(5), Some(7), Some(3), None, Some(12), Some(12)));
        // Anthropic's names by a gateway that adds them up: its total says so.
        let gateway = r#"{"input_tokens":9,"cache_read_input_tokens":3,"output_tokens":7,"total_tokens":16}"#;
        assert_eq!(read(gateway), (Some(9), Some(7), Some(3), None, Some(16), Some(16)));
        // LiteLLM spells the cache as Anthropic does, but adds it to the input.
        let litellm = r#"{"prompt_tokens":9,"cache_read_input_tokens":3,"completion_tokens":7}"#;
        assert_eq!(read(litellm), (Some(9), Some(7), Some(3), None, Some(16), None));
        // A total of input and output alone, which leaves the cache out.
        let left_out = r#"{"input_tokens":2,"cache_read_input_tokens":3,"output_tokens":7,"total_tokens":9}"#;
        assert_eq!(read(left_out), (Some(5), Some(7), Some(3), None, Some(12), Some(9)));
        // More than input: beside, whatever it is called.
        let too_much = r#"{"inputTokens":2,"cacheReadTokens":3,"outputTokens":7}"#;
        assert_eq!(read(too_much), (Some(5), Some(7), Some(3), None, Some(12), None));
        assert_eq!(read(r#"{"total_tokens":4}"#), (None, None, None, None, Some(4), None));
        assert_eq!(read("{}"), (None, None, None, None, None, None));
    }
}
