//! Gemini CLI sessions: one file is one session, and a session is a trace.
//!
//! Older versions write one document with a list of messages, newer ones a line a record: a header, messages, which are
//! written again whenever they change, and lines that change what is there. A message is an item, in a document and in a
//! line, and so is the header. What becomes of them is told in `describe` (`docs/formats/gemini_cli.md`).

use super::shape::{expect_member, expect_object};
use super::{Confidence, ImporterInfo, Items, Record, Recorded, SpreadImporter, TraceItems};
use super::{file_key, parsed};
use crate::columns::writer::TraceWriter;
use crate::error::Reject;
use crate::json::Kind;
use crate::json::tree::{Tree, Value};

mod describe;
mod message;
#[cfg(test)]
mod tests;

/// The importer.
#[derive(Debug)]
pub struct GeminiCli;

static INFO: ImporterInfo = ImporterInfo {
    name: "gemini_cli",
    summary: "Gemini CLI sessions: one document, or one record per line; the older history of contents",
    evidence: &["sessionId", "projectHash", "startTime"],
    suffixes: &[".json", ".jsonl"],
    lenient: true,
};

/// The member of a line that gives up what was said from a message on.
const REWIND: &str = "$rewindTo";

impl SpreadImporter for GeminiCli {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        let has = |keys: &[&str]| keys.iter().all(|key| record.get(key).exists());
        let first = record.get("history").at(0);
        let is_history = has(&["history", "meta"]) && first.get("parts").kind() == Some(Kind::Array);
        match record.get("type").str() {
            Some("gemini") if has(&["id", "timestamp", "content"]) => Confidence::Yes,
            // Other tools have lines of users, too.
            Some("user" | "info" | "error") if has(&["id", "timestamp", "content"]) => Confidence::Maybe,
            None if has(INFO.evidence) || is_history => Confidence::Yes,
            _ => Confidence::No,
        }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let file = file_key::of_file(record.stem, out);
        let tree = match Tree::parse(record.text, out.limits()) {
            Ok(tree) => tree,
            Err(fault) => {
                // A document says at its beginning whose it is.
                let head = Tree::head(record.text, out.limits());
                out.lacks(head.root().get("sessionId").some_str().unwrap_or(&file));
                return Err(fault.into_reject());
            }
        };
        let root = tree.root();
        if let Err(reject) = expect_object(root, "") {
            out.reject_in(&file, record.text, reject);
            return Ok(());
        }
        if is_header(root) {
            return header(record, root, &file, out);
        }
        let set = root.get("$set");
        if set.exists() {
            out.ignored("gemini_cli.set");
            messages(&file, set.get("messages"), out);
        } else if root.get(REWIND).exists() {
            out.item(&file, record.text, "");
        } else {
            message(&file, record.text, root, out);
        }
        Ok(())
    }

    fn session<'k>(&self, key: &'k str) -> Option<(&'k str, Recorded)> {
        file_key::session(key)
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        parsed::write(items, out, describe::describe);
    }
}

/// Whether a record describes a session rather than something in it.
fn is_header(record: Value<'_>) -> bool {
    let is_message = ["type", "role"].iter().any(|key| record.get(key).exists());
    !is_message && ["sessionId", "history", "messages"].iter().any(|key| record.get(key).exists())
}

/// Puts a header, and the messages of a document.
fn header(record: &Record<'_>, root: Value<'_>, file: &str, out: &mut Items<'_>) -> Result<(), Reject> {
    let list = ["messages", "history"].into_iter().find(|key| root.get(key).exists());
    if let Some(list) = list {
        expect_member(root, list, Kind::Array)?;
    }
    let id = root.get("sessionId").some_str();
    let list = list.map_or(root.absent(), |list| root.get(list));
    // A document has its messages with it; of lines all that follow in the file are of the session.
    if let Some(id) = id.filter(|_| list.is_empty()) {
        out.together(file, id);
    }
    let key = id.unwrap_or(file);
    for long in [root.get("messages"), root.get("history")] {
        out.leave_out(long.raw());
    }
    out.item(key, record.text, "");
    messages(key, list, out);
    Ok(())
}

fn messages(key: &str, list: Value<'_>, out: &mut Items<'_>) {
    for element in list.elements() {
        message(key, element.raw(), element, out);
    }
}

fn message(key: &str, text: &str, message: Value<'_>, out: &mut Items<'_>) {
    let kind = if message.get("role").exists() { "role" } else { "type" };
    let judged = expect_object(message, "").and_then(|()| expect_member(message, kind, Kind::String));
    if let Err(reject) = judged {
        out.reject_in(key, text, reject);
        return;
    }
    // Two messages without an id and a time may be equal and neither a copy: their place distinguishes them.
    let is_known = ["id", "timestamp"].iter().any(|key| message.get(key).exists());
    let place = if is_known { String::new() } else { format!(" {}:{}", out.line(), message.span().0) };
    out.item(key, text, &place);
}
