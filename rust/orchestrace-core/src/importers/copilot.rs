//! GitHub Copilot CLI sessions: `events.jsonl`, one event per line, of the session and of its sub-agents.
//!
//! Lines do not name their session: those of a file belong together, and the first one names it. An item is a line. What
//! becomes of them is told in `describe` (`docs/formats/copilot.md`).

use super::shape::{expect_member, expect_object};
use super::{Confidence, ImporterInfo, Items, Record, Recorded, SpreadImporter, TraceItems};
use super::{file_key, parsed};
use crate::columns::writer::TraceWriter;
use crate::error::Reject;
use crate::json::Kind;
use crate::json::tree::Value;

mod describe;
mod record;
mod team;
#[cfg(test)]
mod tests;
mod usage;

/// The importer.
#[derive(Debug)]
pub struct Copilot;

static INFO: ImporterInfo = ImporterInfo {
    name: "copilot",
    summary: "GitHub Copilot CLI sessions (events.jsonl), with their sub-agents",
    evidence: &["type", "data", "id", "timestamp", "parentId"],
    suffixes: &[".jsonl"],
    lenient: true,
};

/// The name of every file of events; the folder around it has the id of the session.
const EVENTS: &str = "events";

/// Kinds of events that nobody else has.
const KINDS: [&str; 14] = [
    "session.start",
    "session.resume",
    "session.shutdown",
    "session.truncation",
    "session.model_change",
    "user.message",
    "assistant.message",
    "assistant.turn_start",
    "assistant.turn_end",
    "tool.execution_start",
    "tool.execution_complete",
    "subagent.started",
    "hook.start",
    "system.message",
];

/// Members of the data of an event that are long and read by nobody.
const UNREAD: [&str; 8] = [
    "reasoningText",
    "reasoningOpaque",
    "reasoningBlocks",
    "encryptedContent",
    "serverTools",
    "toolTelemetry",
    "attachments",
    "output",
];

impl SpreadImporter for Copilot {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        let is_event = record.get("data").kind() == Some(Kind::Object)
            && ["id", "timestamp"].iter().all(|key| record.get(key).exists());
        match record.get("type").str() {
            Some(kind) if is_event && KINDS.contains(&kind) => Confidence::Yes,
            // Other logs have kinds with a point in them, too.
            Some(kind) if is_event && kind.contains('.') && !record.get("parentId").is_absent() => {
                Confidence::Maybe
            }
            _ => Confidence::No,
        }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let file = file_key::of_file(name_of_file(record), out);
        let tree = parsed::record(record, &file, out)?;
        let root = tree.root();
        let judged = expect_object(root, "")
            .and_then(|()| expect_member(root, "type", Kind::String))
            .and_then(|()| expect_member(root, "data", Kind::Object));
        if let Err(reject) = judged {
            out.reject_in(&file, record.text, reject);
            return Ok(());
        }
        let data = root.get("data");
        let kind = root.get("type").str().unwrap_or_default();
        if let Some(id) = data.get("sessionId").some_str().filter(|_| kind == record::START) {
            out.together(&file, id);
        }
        leave_out(kind, data, out);
        // Two events without an id and a time may be equal and neither a copy: their place distinguishes them.
        let is_known = ["id", "timestamp"].iter().any(|key| root.get(key).exists());
        let place = if is_known { String::new() } else { format!(" {}", out.line()) };
        out.item(&file, record.text, &place);
        Ok(())
    }

    fn session<'k>(&self, key: &'k str) -> Option<(&'k str, Recorded)> {
        file_key::session(key)
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        parsed::write(items, out, describe::describe);
    }
}

/// What a session is called whose first line is missing: its files have one name, and the folders their ids.
fn name_of_file<'r>(record: &Record<'r>) -> &'r str {
    let folder = record.path.rsplit_once('/').map_or("", |(above, _)| above.rsplit('/').next().unwrap_or(""));
    if record.stem == EVENTS && !folder.is_empty() { folder } else { record.stem }
}

/// Leaves out what nobody reads: reasoning, what a screen showed, what hooks were told.
fn leave_out(kind: &str, data: Value<'_>, out: &mut Items<'_>) {
    for key in UNREAD {
        out.leave_out(data.get(key).raw());
    }
    for key in ["detailedContent", "contents", "binaryResultsForLlm", "structuredContent", "uiResource"] {
        out.leave_out(data.path(&["result", key]).raw());
    }
    if data.get("content").str().is_some() {
        out.leave_out(data.get("transformedContent").raw());
    }
    match kind {
        record::HOOK if record::prompt_of_hook(data).is_none() => out.leave_out(data.get("input").raw()),
        "system.message" | "system.notification" | "skill.invoked" => {
            out.leave_out(data.get("content").raw());
        }
        "session.binary_asset" => out.leave_out(data.get("data").raw()),
        "session.compaction_complete" => out.leave_out(data.get("summaryContent").raw()),
        _ => {}
    }
}
