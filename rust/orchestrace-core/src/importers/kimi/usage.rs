//! Counts of tokens, which Kimi Code spells in its own words: what no cache gave or took, what a cache gave and what it
//! took stand beside each other.

use crate::importers::recording::Usage;
use crate::json::Kind;
use crate::json::tree::Value;

/// What a record states of usage.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Read {
    pub usage: Usage,
    /// Whether it states counts, and all of them are 0.
    pub is_empty: bool,
    /// A count whose name is not known.
    pub unknown: Option<String>,
    /// Whether it or a count is of another kind than it should be.
    pub is_misfit: bool,
}

impl Read {
    pub(super) fn of(usage: Value<'_>) -> Self {
        let mut read = Self::default();
        if usage.kind() != Some(Kind::Object) {
            read.is_misfit = usage.exists();
            return read;
        }
        let [mut other, mut cached, mut written, mut output] = [None; 4];
        for (key, value) in usage.members() {
            let slot = match key {
                "inputOther" => &mut other,
                "inputCacheRead" => &mut cached,
                "inputCacheCreation" => &mut written,
                "output" => &mut output,
                _ => {
                    if value.i64().is_some_and(|count| count != 0) {
                        read.unknown.get_or_insert_with(|| key.chars().take(40).collect());
                    }
                    continue;
                }
            };
            *slot = value.integer_like();
            read.is_misfit |= slot.is_none() && value.exists();
        }
        let counts = [other, cached, written, output];
        if counts.iter().all(|count| count.unwrap_or(0) == 0) {
            read.is_empty = counts.iter().any(Option::is_some);
            return read;
        }
        read.usage =
            Usage { fresh: other, cached, cache_write: written, tokens_out: output, ..Usage::default() };
        read
    }

    /// Whether it states any count.
    pub(super) fn states(&self) -> bool {
        self.is_empty || self.usage != Usage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Limits;
    use crate::json::tree::Tree;

    const LIMITS: Limits = Limits { depth: 16, string: 1 << 10, lenient: true };

    #[test]
    fn the_parts_of_the_input_stand_beside_each_other() {
        let read = |json: &str| {
            let tree = Tree::parse(json, LIMITS).unwrap();
            let read = Read::of(tree.root());
            (read.usage.total(), read.is_empty, read.unknown, read.is_misfit)
        };
        let all = r#"{"inputOther":5,"output":7,"inputCacheRead":3,"inputCacheCreation":1}"#;
        assert_eq!(read(all), (Some(16), false, None, false));
        assert_eq!(read(r#"{"inputOther":0,"output":0}"#), (None, true, None, false));
        assert_eq!(read("{}"), (None, false, None, false), "nothing is stated, not even 0");
        assert!(read(r#"{"output":2,"inputOther":"many"}"#).3);
        assert_eq!(read(r#"{"output":2,"inputOther":1,"inputAudio":4}"#).2.as_deref(), Some("inputAudio"));
        assert!(read("[]").3);
    }
}
