//! Content as the Gemini API has it, which Gemini CLI records and its descendants, too: a list of parts, and the counts of
//! a response.

use super::recording::{Hash, Usage, hash};
use crate::json::Kind;
use crate::json::tree::Value;

/// One part of a content.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part<'v> {
    /// A text.
    Text(&'v str),
    /// A call of a tool: its `id`, `name` and `args`.
    Call(Value<'v>),
    /// What a tool gave back: the `id` and `name` of its call, and `response`.
    Response(Value<'v>),
    /// What gives no event: reasoning, images, files.
    Silent,
    /// Something else than an object or a text.
    Misfit,
}

impl<'v> Part<'v> {
    fn of(part: Value<'v>) -> Self {
        if let Some(text) = part.str() {
            return Self::Text(text);
        }
        if part.kind() != Some(Kind::Object) {
            return Self::Misfit;
        }
        let (call, response) = (part.get("functionCall"), part.get("functionResponse"));
        match part.get("text").str() {
            _ if call.kind() == Some(Kind::Object) => Self::Call(call),
            _ if response.kind() == Some(Kind::Object) => Self::Response(response),
            _ if part.get("thought").bool() == Some(true) => Self::Silent,
            Some(text) => Self::Text(text),
            None if ["text", "functionCall", "functionResponse"].iter().any(|key| part.get(key).exists()) => {
                Self::Misfit
            }
            None => Self::Silent,
        }
    }
}

/// The parts of a content: a text is one, and so is a part outside of a list.
pub(super) fn parts(content: Value<'_>) -> impl Iterator<Item = Part<'_>> {
    let alone = (content.exists() && content.kind() != Some(Kind::Array)).then(|| Part::of(content));
    alone.into_iter().chain(content.elements().map(Part::of))
}

/// Hash of what a tool gave back: of its text where it is one, `output` or `error`, else of the object as it stands.
pub(super) fn response_hash(response: Value<'_>) -> Option<Hash> {
    let response = response.get("response");
    let text = response.first(&["output", "error"]);
    let text = response.str().or_else(|| text.str());
    text.map(hash).or_else(|| response.exists().then(|| hash(response.raw())))
}

/// Whether what a tool gave back says that it failed.
pub(super) fn has_failed(response: Value<'_>) -> bool {
    response.path(&["response", "error"]).exists()
}

/// Counts of a response. `tool` stands beside `input`, and `cached` inside of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub input: Option<i64>,
    pub tool: Option<i64>,
    pub output: Option<i64>,
    pub thoughts: Option<i64>,
    pub cached: Option<i64>,
    pub total: Option<i64>,
}

impl Counts {
    /// Whether it states counts, and all of them are 0: what a request leaves that nobody answered.
    pub(super) fn is_empty(&self) -> bool {
        let counts = [self.input, self.tool, self.output, self.thoughts, self.cached, self.total];
        counts.iter().any(Option::is_some) && counts.iter().all(|count| count.unwrap_or(0) == 0)
    }

    /// Usage by R7. Reasoning stands beside the output, unless the total says that it lies within, as behind providers
    /// that count like OpenAI.
    pub(super) fn usage(&self) -> Usage {
        if self.is_empty() {
            return Usage::default();
        }
        let sum = |a: Option<i64>, b: Option<i64>| match (a, b) {
            (None, None) => None,
            _ => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
        };
        let tokens_in = sum(self.input, self.tool);
        let is_within = self.thoughts.unwrap_or(0) > 0
            && self.total.is_some_and(|t| sum(tokens_in, self.output) == Some(t));
        let tokens_out = if is_within { self.output } else { sum(self.output, self.thoughts) };
        if tokens_in.is_none() && tokens_out.is_none() {
            return Usage { tokens: self.total, cached: self.cached, ..Usage::default() };
        }
        let counted = Usage {
            tokens_in,
            tokens_out,
            cached: self.cached,
            reasoning: self.thoughts,
            ..Usage::default()
        };
        counted.beside_total(self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasoning_stands_beside_the_output_unless_the_total_says_otherwise() {
        let read = |counts: [i64; 6]| {
            let [input, tool, output, thoughts, cached, total] = counts.map(Some);
            let usage = Counts { input, tool, output, thoughts, cached, total }.usage();
            (usage.tokens_in, usage.tokens_out, usage.cached, usage.reasoning, usage.stated)
        };
        let four = |a, b, c, d| (Some(a), Some(b), Some(c), Some(d), None);
        assert_eq!(read([100, 5, 10, 3, 40, 118]), four(105, 13, 40, 3));
        assert_eq!(read([100, 0, 10, 3, 40, 110]), four(100, 10, 40, 3));
        assert_eq!(read([100, 0, 10, 3, 40, 7]).4, Some(7), "another total is told");
        assert_eq!(read([0; 6]), (None, None, None, None, None), "nobody answered");
        let alone = Counts { total: Some(9), ..Counts::default() };
        assert_eq!((alone.usage().tokens, alone.usage().tokens_in), (Some(9), None));
        let silent = Counts { input: Some(4), output: Some(2), ..Counts::default() };
        assert_eq!((silent.usage().tokens_in, silent.usage().tokens_out), (Some(4), Some(2)));
    }
}
