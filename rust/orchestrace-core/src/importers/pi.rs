//! Pi sessions, and the Session Trace Simple Format (STS) with the same envelope: one file is one session, one entry a
//! line, and a session is a trace.
//!
//! A line is an item. Lines do not name their session: those of a file belong together, and the first one says whose they
//! are. Files of one session are put together in `merge`. Entries of newer versions form a tree, whose branches are found in
//! `entry_tree`; what becomes of them is told in `describe` (`docs/formats/pi.md`).

use super::shape::{expect_member, expect_object};
use super::{Confidence, ImporterInfo, Items, Record, Recorded, SpreadImporter, TraceItems};
use super::{file_key, parsed};
use crate::columns::writer::TraceWriter;
use crate::error::{Reject, RejectCode};
use crate::json::Kind;
use crate::json::tree::Value;

mod describe;
mod entry;
mod merge;
#[cfg(test)]
mod tests;
mod usage;

/// The importer.
#[derive(Debug)]
pub struct Pi;

static INFO: ImporterInfo = ImporterInfo {
    name: "pi",
    summary: "Pi sessions: one entry per line, as a list or a tree of branches; Session Trace Simple Format (STS)",
    evidence: &["type", "message", "timestamp"],
    suffixes: &[".jsonl"],
    lenient: true,
};

impl SpreadImporter for Pi {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        let is_text = |key: &str| record.get(key).some_str().is_some();
        match record.get("type").str() {
            // A session of Pi has a folder, one of STS a harness.
            Some("session") if is_text("harness") => Confidence::Yes,
            Some("session") if is_text("id") && is_text("timestamp") && is_text("cwd") => Confidence::Yes,
            Some("session") if is_text("id") => Confidence::Maybe,
            // Claude Code has lines with a message, too, but another type.
            Some("message") => of_message(record.get("message")),
            _ => Confidence::No,
        }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let key = file_key::of_file(record.stem, out);
        let tree = parsed::record(record, &key, out)?;
        let root = tree.root();
        if let Err(reject) = expect_entry(root) {
            out.reject_in(&key, record.text, reject);
            return Ok(());
        }
        if root.get("type").str() == Some("session") {
            if let Some(id) = root.get("id").some_str() {
                out.together(&key, id);
                out.called(&key, id, entry::parent_session(root));
            }
        } else if let Some(response) = entry::response_identity(root) {
            let time = entry::time(root).unwrap_or(i64::MAX);
            out.claim(&key, (response, 0), false, None, time);
        }
        // Nobody reads them, and they are long: what tools keep for the screen, and what extensions keep for themselves.
        for long in [root.path(&["message", "details"]), root.get("details"), root.get("data")] {
            out.leave_out(long.raw());
        }
        // Two entries without an id and a time may be equal and neither a copy: their place distinguishes them.
        let is_known = root.get("id").exists() || root.get("timestamp").exists();
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

/// How sure a message makes that its line is of Pi where the first line is missing: calls and results have names of
/// their own, whatever else may stand in a line.
fn of_message(message: Value<'_>) -> Confidence {
    let is_call = |block: Value<'_>| {
        block.get("type").str() == Some("toolCall") && block.get("arguments").kind() == Some(Kind::Object)
    };
    let yes = match message.get("role").str() {
        Some("assistant") => {
            let mut blocks = message.get("content").elements();
            let is_answer =
                message.get("stopReason").str().is_some() && message.get("provider").str().is_some();
            is_answer || blocks.any(is_call)
        }
        Some("toolResult") => message.get("toolCallId").str().is_some(),
        Some("bashExecution") => message.get("command").str().is_some(),
        Some("user") => return Confidence::Maybe,
        _ => false,
    };
    if yes { Confidence::Yes } else { Confidence::No }
}

/// Rejects what is no entry.
fn expect_entry(root: Value<'_>) -> Result<(), Reject> {
    expect_object(root, "")?;
    expect_member(root, "type", Kind::String)?;
    if root.get("type").str() == Some("message") {
        expect_member(root, "message", Kind::Object)?;
        let role = root.path(&["message", "role"]);
        if role.str().is_none() {
            let kind = role.kind().map_or("nothing", Kind::as_str);
            let code = if role.is_absent() { RejectCode::FieldMissing } else { RejectCode::FieldType };
            let message = format!("found {kind}, expected a string");
            return Err(Reject::new(code, "/message/role", message));
        }
    }
    Ok(())
}
