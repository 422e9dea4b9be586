//! Qwen Code sessions: one session is one trace, spread over the file of its main stream, and for each sub-agent a file
//! and a small one beside it.
//!
//! A line is an item. What lines say, whose they are and which belong together is found in `line`; the requests that the
//! telemetry of the session counts are read in `telemetry`; what becomes of both is told in `describe`
//! (`docs/formats/qwen_code.md`).

use xxhash_rust::xxh3::xxh3_64;

use super::gemini_parts::has_failed;
use super::shape::{expect_member, expect_object};
use super::{Confidence, ImporterInfo, Items, Record, Recorded, SpreadImporter, TraceItems};
use super::{file_key, parsed};
use crate::columns::writer::TraceWriter;
use crate::error::Reject;
use crate::json::Kind;
use crate::json::time::instant;
use crate::json::tree::{Tree, Value};

mod describe;
mod line;
mod pairing;
mod session;
mod team;
mod telemetry;
#[cfg(test)]
mod tests;
mod usage;

/// The importer.
#[derive(Debug)]
pub struct QwenCode;

static INFO: ImporterInfo = ImporterInfo {
    name: "qwen_code",
    summary: "Qwen Code sessions: one record per line, as a tree of branches; sub-agents in files of their own",
    evidence: &["sessionId", "uuid", "parentUuid", "type"],
    suffixes: &[".jsonl", ".meta.json"],
    lenient: true,
};

/// Who records.
const NAME: &str = "qwen_code";

impl SpreadImporter for QwenCode {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        let has = |keys: &[&str]| keys.iter().all(|key| !record.get(key).is_absent());
        // Claude Code has lines with the same ids, whose message has `content`.
        let is_told = record.path(&["message", "parts"]).kind() == Some(Kind::Array);
        let is_line = has(&["sessionId", "uuid"]);
        let yes = match record.get("type").str() {
            Some("user" | "assistant" | "tool_result") => is_line && is_told,
            Some("system") => is_line && (is_told || has(&["systemPayload"])),
            None => has(&["agentId", "agentType", "parentSessionId"]),
            Some(_) => false,
        };
        if yes { Confidence::Yes } else { Confidence::No }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let file = file_key::of_file(record.stem, out);
        let tree = match Tree::parse(record.text, out.limits()) {
            Ok(tree) => tree,
            Err(fault) => {
                let head = Tree::head(record.text, out.limits());
                out.lacks(&session_of(head.root()).unwrap_or(file));
                return Err(fault.into_reject());
            }
        };
        let root = tree.root();
        let key = session_of(root).unwrap_or(file);
        if let Err(reject) = expect_line(root) {
            out.reject_in(&key, record.text, reject);
            return Ok(());
        }
        let is_telemetry = root.get("subtype").str() == Some(line::TELEMETRY);
        if (root.get("type").str() == Some("assistant") || is_telemetry)
            && let Some(id) = root.get("uuid").some_str()
        {
            let from = root.path(&["forkedFrom", "sessionId"]).some_str().map(dashed);
            let time = instant(root.get("timestamp")).unwrap_or(i64::MAX);
            out.claim(&key, (xxh3_64(id.as_bytes()), 0), from.is_some(), from.as_deref(), time);
        }
        leave_out(root, out);
        // Two lines without an id and a time may be equal and neither a copy: their place distinguishes them.
        let is_known = root.get("uuid").exists() || root.get("timestamp").exists() || is_meta(root);
        let place = if is_known { String::new() } else { format!(" {}", out.line()) };
        out.item(&key, record.text, &place);
        Ok(())
    }

    fn session<'k>(&self, key: &'k str) -> Option<(&'k str, Recorded)> {
        file_key::session(key)
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        parsed::write(items, out, describe::describe);
    }
}

/// Whether a record is what stands beside the file of a sub-agent.
fn is_meta(record: Value<'_>) -> bool {
    record.get("type").is_absent() && record.get("parentSessionId").exists()
}

/// The session that a record names.
fn session_of(record: Value<'_>) -> Option<String> {
    record.first(&["sessionId", "parentSessionId"]).some_str().map(dashed)
}

/// An id of a session as most files have it: some versions write it without dashes.
fn dashed(id: &str) -> String {
    if id.len() != 32 || !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return id.to_owned();
    }
    [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]].join("-")
}

/// Rejects what is no line.
fn expect_line(root: Value<'_>) -> Result<(), Reject> {
    expect_object(root, "")?;
    if is_meta(root) {
        return expect_member(root, "agentId", Kind::String);
    }
    expect_member(root, "type", Kind::String)?;
    match root.get("type").str() {
        Some("user" | "assistant" | "tool_result") => expect_member(root, "message", Kind::Object),
        _ => Ok(()),
    }
}

/// Nobody reads what a session keeps for the screen and for going on, which is long.
fn leave_out(root: Value<'_>, out: &mut Items<'_>) {
    let result = root.get("toolCallResult");
    let shown = result.get("resultDisplay");
    if shown.kind() == Some(Kind::Object) {
        for (key, value) in shown.members() {
            if !matches!(key, "type" | "status" | "subagentName" | "executionSummary") {
                out.leave_out(value.raw());
            }
        }
    } else {
        out.leave_out(shown.raw());
    }
    out.leave_out(result.get("responseParts").raw());
    if !matches!(root.get("subtype").str(), Some("ui_telemetry" | "notification")) {
        out.leave_out(root.get("systemPayload").raw());
    }
}

/// Whether a call succeeded, where its result says it.
fn has_succeeded(recorded: Value<'_>, response: Value<'_>) -> Option<bool> {
    match recorded.get("status").str() {
        Some("success") => Some(true),
        Some("error" | "cancelled") => Some(false),
        _ => has_failed(response).then_some(false),
    }
}
