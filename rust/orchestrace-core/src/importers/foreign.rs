//! Recordings of tools that no importer reads, known by their records, so that they are refused by name.

use super::detect::Unread;
use crate::json::tree::Value;

/// A tool whose recordings are not read.
#[derive(Debug)]
pub(super) struct Foreign {
    /// What wrote the record, and what the record is.
    name: &'static str,
    /// Whether a record is of it.
    is: fn(Value<'_>) -> bool,
}

impl Foreign {
    const INSTEAD: &str = "is not read: convert it to ATIF, record OpenTelemetry spans, or write a mapping file \
                           (docs/formats/mapping.md)";

    /// Why a record is refused, and what can be done.
    pub(super) fn message(&self) -> String {
        format!("this is {}, which {}", self.name, Self::INSTEAD)
    }
}

/// The input whose record this is, by the first tool that matches.
pub(super) fn of_record(record: Value<'_>) -> Option<&'static Unread> {
    FOREIGN.iter().find(|input| input.tool.as_ref().is_some_and(|tool| (tool.is)(record)))
}

const fn tool(name: &'static str, is: fn(Value<'_>) -> bool) -> Unread {
    Unread { tool: Some(Foreign { name, is }) }
}

fn has(record: Value<'_>, keys: &[&str]) -> bool {
    keys.iter().all(|key| !record.get(key).is_absent())
}

fn kind(record: Value<'_>) -> &str {
    record.get("type").str().unwrap_or_default()
}

/// By first records, and where those may be torn or lie in files of their own, by others.
static FOREIGN: &[Unread] = &[
    tool("a session of Claude Code without the key 'sessionId'", |record| {
        matches!(kind(record), "user" | "assistant")
            && has(record, &["uuid"])
            && record.get("sessionId").is_absent()
            && has(record.get("message"), &["role", "content"])
    }),
    tool("an event log of NeMo Relay (ATOF)", |record| has(record, &["atof_version", "kind", "uuid"])),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Limits;
    use crate::json::tree::Tree;

    fn tool_of(record: &str) -> Option<&'static str> {
        let tree = Tree::head(record, Limits { depth: 64, string: usize::MAX, lenient: true });
        of_record(tree.root()).and_then(|input| Some(input.tool.as_ref()?.name))
    }

    #[test]
    fn tools_are_known_by_their_records() {
        let of = |tool: &str, records: &[&str]| {
            for record in records {
                assert!(tool_of(record).is_some_and(|name| name.contains(tool)), "{tool}: {record}");
            }
        };
        of("Claude Code", &[r#"{"type":"user","uuid":"u","message":{"role":"user","content":"x"}}"#]);
        of(
            "Relay",
            &[
                r#"{"atof_version":"0.1","kind":"scope","category":"agent","uuid":"u"}"#,
                r#"{"atof_version":"0.1","kind":"mark","uuid":"u"}"#,
            ],
        );
    }

    #[test]
    fn what_anybody_may_write_is_nobody_s() {
        for record in [
            "{}",
            "[]",
            "1",
            r#"{"role":"user","content":"x"}"#,
            r#"{"type":"message","id":"a"}"#,
            r#"{"id":"a","data":[],"type":"x"}"#,
            r#"{"messages":[{"role":"user","content":"x"}]}"#,
            r#"{"history":[{"role":"user","content":"x"}],"question":"q"}"#,
            r#"{"session":"s","messages":[]}"#,
            r#"{"kind":"Event"}"#,
        ] {
            assert_eq!(tool_of(record), None, "{record}");
        }
    }
}
