//! What answers and results say of tokens.

use super::line::Line;
use crate::importers::gemini_parts::Counts;
use crate::importers::recording::Usage;
use crate::json::tree::Value;

/// What an answer counts may be.
pub(super) const COUNTS: [&str; 6] = [
    "promptTokenCount",
    "toolUsePromptTokenCount",
    "candidatesTokenCount",
    "thoughtsTokenCount",
    "cachedContentTokenCount",
    "totalTokenCount",
];

/// What an answer counts: the last of its lines that does.
pub(super) fn usage_of<'a, 'v: 'a>(lines: impl Iterator<Item = &'a Line<'v>>) -> Option<Counts> {
    let usage = lines.map(|line| line.value.get("usageMetadata")).filter(|usage| usage.exists()).last()?;
    let [input, tool, output, thoughts, cached, total] = COUNTS.map(|key| usage.get(key).integer_like());
    Some(Counts { input, tool, output, thoughts, cached, total })
}

/// What a sub-agent took in all, whose own records are not there.
pub(super) fn usage_of_summary(summary: Value<'_>) -> Usage {
    let count = |key: &str| summary.get(key).integer_like();
    let counts = Counts {
        input: count("inputTokens"),
        tool: None,
        output: count("outputTokens"),
        thoughts: count("thoughtTokens"),
        cached: count("cachedTokens"),
        total: count("totalTokens"),
    };
    counts.usage()
}
