//! Sessions of opencode, each with those of its sub-agents.
//!
//! Its store has a file for each session, message and part; an export has a session in one document; a server sends
//! messages and parts as they change, and `opencode run` prints parts. An item is what the store has a file for, wherever
//! it stands. What becomes of them is told in `describe` (`docs/formats/opencode.md`).

use super::kind::counted_as;
use super::parsed;
use super::shape::{expect_member, expect_object};
use super::{Confidence, ImporterInfo, Items, Record, SpreadImporter, TraceItems};
use crate::columns::writer::TraceWriter;
use crate::error::{Reject, RejectCode};
use crate::json::Kind;
use crate::json::tree::{Tree, Value};

mod describe;
mod place;
mod session;
#[cfg(test)]
mod tests;
mod usage;

/// Who records, and what the agent of a session is called that nobody asked.
const NAME: &str = "opencode";

/// The importer.
#[derive(Debug)]
pub struct OpenCode;

static INFO: ImporterInfo = ImporterInfo {
    name: "opencode",
    summary: "opencode sessions: its store of files, exports, and streams of events, with sub-agents",
    evidence: &["id", "sessionID", "messageID", "type"],
    suffixes: &[".json", ".jsonl"],
    lenient: true,
};

/// What the key of a message begins with, whose session its parts may not name; no id of a session does.
const MESSAGE: char = '~';

/// What stands between the parts of a context: the session, and the message in it.
const BETWEEN: char = '\n';

/// What a session is called that nothing names.
const NAMELESS: &str = "session";

/// The tool that makes a sub-agent work.
const TASK: &str = "task";

/// Kinds of parts.
const PARTS: [&str; 12] = [
    "text",
    "reasoning",
    "tool",
    "file",
    "step-start",
    "step-finish",
    "snapshot",
    "patch",
    "agent",
    "subtask",
    "retry",
    "compaction",
];

/// Rooms of events that a server sends.
const ROOMS: [&str; 8] =
    ["server.", "session.", "message.", "file.", "permission.", "todo.", "lsp.", "installation."];

/// Kinds of what `opencode run` prints.
const PRINTED: [&str; 6] = ["text", "reasoning", "tool_use", "step_start", "step_finish", "error"];

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    /// A session with its messages.
    Document,
    /// A message with its parts.
    Whole,
    Session,
    Message,
    Part,
    /// What a server sends.
    Event,
    /// What `opencode run` prints.
    Printed,
    /// What the store keeps beside sessions.
    Beside(&'static str),
}

impl Sort {
    fn of(record: Value<'_>, path: &str) -> Option<Self> {
        let has = |keys: &[&str]| keys.iter().all(|key| record.get(key).exists());
        let is_object = |key: &str| record.get(key).kind() == Some(Kind::Object);
        let kind = record.get("type").str();
        let first = record.get("messages").at(0);
        let is_whole = |value: Value<'_>| {
            value.get("info").kind() == Some(Kind::Object) && !value.get("parts").is_absent()
        };
        if !record.get("messages").is_absent()
            && (is_whole(first) || (first.is_absent() && has(&["info"])))
            && is_session(record.get("info"))
        {
            Some(Self::Document)
        } else if is_whole(record) && record.path(&["info", "role"]).str().is_some() {
            Some(Self::Whole)
        } else if is_object("properties")
            && kind.is_some_and(|kind| ROOMS.iter().any(|r| kind.starts_with(r)))
        {
            Some(Self::Event)
        } else if has(&["sessionID", "timestamp"])
            && (is_object("part") || is_object("error"))
            && kind.is_some_and(|kind| PRINTED.contains(&kind))
        {
            Some(Self::Printed)
        } else if has(&["sessionID", "role", "time"]) {
            Some(Self::Message)
        } else if kind.is_some_and(|kind| PARTS.contains(&kind) || has(&["sessionID"]))
            && has(&["id"])
            && (has(&["messageID"]) || place::message_of_part(path).is_some())
        {
            Some(Self::Part)
        } else if is_session(record) && has(&["id", "projectID", "directory"]) {
            Some(Self::Session)
        } else {
            place::beside(record, path).map(Self::Beside)
        }
    }
}

/// Whether an event is of nobody else.
fn is_told(event: Value<'_>) -> bool {
    let properties = event.get("properties");
    event.get("id").str().is_some()
        || ["sessionID", "info", "part"].iter().any(|key| properties.get(key).exists())
}

/// Whether this describes a session.
fn is_session(info: Value<'_>) -> bool {
    let has = |keys: &[&str]| keys.iter().all(|key| info.get(key).exists());
    has(&["id", "time"])
        && !has(&["role"])
        && ["directory", "projectID", "version"].iter().any(|key| has(&[key]))
}

impl SpreadImporter for OpenCode {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, path: &str) -> Confidence {
        match Sort::of(record, path) {
            // Other servers send events with properties, too.
            Some(Sort::Event) if !is_told(record) => Confidence::Maybe,
            Some(_) => Confidence::Yes,
            None => Confidence::No,
        }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let tree = match Tree::parse(record.text, out.limits()) {
            Ok(tree) => tree,
            Err(fault) => {
                let head = Tree::head(record.text, out.limits());
                if let Some(key) = key_of(head.root(), record.path) {
                    out.lacks(&key);
                }
                return Err(fault.into_reject());
            }
        };
        let root = tree.root();
        let put = match Sort::of(root, record.path) {
            Some(Sort::Document) => document(root, out),
            Some(Sort::Whole) => {
                let session = root.path(&["info", "sessionID"]).some_str();
                let name = session.unwrap_or(if record.stem.is_empty() { NAMELESS } else { record.stem });
                let key = if session.is_none() { out.in_file(name) } else { name.to_owned() };
                message_with_parts((&key, name), root, 0, out);
                Ok(())
            }
            Some(Sort::Session) => session(root, out),
            Some(Sort::Message) => message(root, out),
            Some(Sort::Part) => part(root, record.path, out),
            Some(Sort::Event) => event(root, record.path, out),
            Some(Sort::Printed) => {
                let printed = root.get("part");
                if printed.exists() {
                    return part(printed, record.path, out);
                }
                out.ignored("opencode.error");
                Ok(())
            }
            Some(Sort::Beside(kind)) => {
                out.ignored(kind);
                Ok(())
            }
            None => Err(reject_of(root)),
        };
        if let (Err(_), Some(key)) = (&put, key_of(root, record.path)) {
            out.lacks(&key);
        }
        put
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        parsed::write(items, out, describe::describe);
    }
}

/// What keeps a record from being one of these.
fn reject_of(record: Value<'_>) -> Reject {
    let wrong = || {
        expect_object(record, "")?;
        if record.get("messages").exists() {
            expect_member(record, "messages", Kind::Array)?;
            expect_member(record, "info", Kind::Object)?;
        }
        if record.get("role").exists() {
            expect_member(record, "sessionID", Kind::String)?;
            expect_member(record, "time", Kind::Object)?;
        }
        expect_member(record, "id", Kind::String)?;
        expect_member(record, "type", Kind::String)?;
        expect_member(record, "messageID", Kind::String)
    };
    wrong().err().unwrap_or_else(|| {
        Reject::new(RejectCode::FieldMissing, "", "found neither a session, nor a message, nor a part of one")
    })
}

/// The key that a record, or what is left of it, is of.
fn key_of(record: Value<'_>, path: &str) -> Option<String> {
    let parts = [record, record.get("info"), record.get("properties"), record.get("part")];
    let session = parts.iter().find_map(|value| value.get("sessionID").some_str()).or_else(|| {
        let info = [record.get("info"), record].into_iter().find(|info| is_session(*info));
        info.and_then(|info| info.get("id").some_str())
    });
    let of_message = || {
        let message = record.get("messageID").some_str().or_else(|| place::message_of_part(path))?;
        Some(key_of_message(message))
    };
    session.map(str::to_owned).or_else(of_message).or_else(|| place::session_of(path).map(str::to_owned))
}

fn key_of_message(id: &str) -> String {
    [&MESSAGE.to_string(), id].concat()
}

/// A session with all its messages.
fn document(root: Value<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
    expect_member(root, "messages", Kind::Array)?;
    let info = root.get("info");
    session(info, out)?;
    let id = info.get("id").some_str().unwrap_or_default();
    for (number, element) in root.get("messages").elements().enumerate() {
        message_with_parts((id, id), element, number, out);
    }
    Ok(())
}

/// A message with its parts, which may name neither it nor their session, which has a key and a name.
fn message_with_parts((key, session): (&str, &str), element: Value<'_>, number: usize, out: &mut Items<'_>) {
    let info = element.get("info");
    let judged = expect_object(element, "")
        .and_then(|()| expect_member(element, "info", Kind::Object))
        .and_then(|()| expect_member(info, "role", Kind::String))
        .and_then(|()| {
            if element.get("parts").exists() { expect_member(element, "parts", Kind::Array) } else { Ok(()) }
        });
    if let Err(reject) = judged {
        return out.reject_in(key, element.raw(), reject);
    }
    let id = info.get("id").some_str().map_or_else(|| format!("main:{}", number + 1), str::to_owned);
    let context = [session, &BETWEEN.to_string(), &id].concat();
    leave_out_of_message(info, out);
    out.item(key, info.raw(), &context);
    for part in element.get("parts").elements() {
        let judged = expect_object(part, "").and_then(|()| expect_member(part, "type", Kind::String));
        if let Err(reject) = judged {
            out.reject_in(key, part.raw(), reject);
            continue;
        }
        join_task(key, part, out);
        leave_out_of_part(part, out);
        out.item(key, part.raw(), &context);
    }
}

fn session(info: Value<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
    expect_member(info, "id", Kind::String)?;
    let id = info.get("id").str().unwrap_or_default();
    if let Some(parent) = info.get("parentID").some_str() {
        out.together(id, parent);
    }
    for long in ["summary", "permission", "share"] {
        out.leave_out(info.get(long).raw());
    }
    out.item(id, info.raw(), "");
    Ok(())
}

fn message(info: Value<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
    for key in ["id", "sessionID", "role"] {
        expect_member(info, key, Kind::String)?;
    }
    let (id, session) =
        (info.get("id").str().unwrap_or_default(), info.get("sessionID").str().unwrap_or_default());
    // Its parts may not say which session they are of.
    out.together(session, &key_of_message(id));
    leave_out_of_message(info, out);
    out.item(session, info.raw(), "");
    Ok(())
}

fn part(part: Value<'_>, path: &str, out: &mut Items<'_>) -> Result<(), Reject> {
    expect_member(part, "type", Kind::String)?;
    let of_place = place::message_of_part(path);
    if part.get("messageID").exists() || of_place.is_none() {
        expect_member(part, "messageID", Kind::String)?;
    }
    let message = part.get("messageID").some_str().or(of_place).unwrap_or_default();
    let key = part.get("sessionID").some_str().map_or_else(|| key_of_message(message), str::to_owned);
    let context = [&BETWEEN.to_string(), message].concat();
    join_task(&key, part, out);
    leave_out_of_part(part, out);
    out.item(&key, part.raw(), &context);
    Ok(())
}

/// The session of a sub-agent is of the trace of who asked, whether it says so or not.
fn join_task(key: &str, part: Value<'_>, out: &mut Items<'_>) {
    let metadata = part.path(&["state", "metadata"]);
    let child = metadata.first(&["sessionId", "sessionID"]).some_str();
    if let Some(child) = child.filter(|_| part.get("tool").str() == Some(TASK)) {
        out.together(key, child);
    }
}

/// What a server sends: a session, a message or a part in its state of now, or something that means nothing to traces.
fn event(root: Value<'_>, path: &str, out: &mut Items<'_>) -> Result<(), Reject> {
    let properties = root.get("properties");
    match root.get("type").str().unwrap_or_default() {
        "session.updated" | "session.created" if properties.get("info").exists() => {
            expect_member(properties, "info", Kind::Object)?;
            session(properties.get("info"), out)
        }
        "message.updated" => {
            expect_member(properties, "info", Kind::Object)?;
            message(properties.get("info"), out)
        }
        "message.part.updated" => {
            expect_member(properties, "part", Kind::Object)?;
            part(properties.get("part"), path, out)
        }
        kind => {
            out.ignored(&counted_as(NAME, kind));
            Ok(())
        }
    }
}

/// What a message keeps for the screen, and what the model was told beside it.
fn leave_out_of_message(info: Value<'_>, out: &mut Items<'_>) {
    let summary = info.get("summary");
    // Of an answer it is a flag.
    if summary.kind() == Some(Kind::Object) {
        out.leave_out(summary.raw());
    }
    out.leave_out(info.get("system").raw());
}

/// Reasoning, files and what tools keep for the screen.
fn leave_out_of_part(part: Value<'_>, out: &mut Items<'_>) {
    match part.get("type").str() {
        Some("reasoning") => out.leave_out(part.get("text").raw()),
        Some("file") => out.leave_out(part.get("url").raw()),
        Some("tool") => {
            for long in ["attachments", "raw", "title"] {
                out.leave_out(part.path(&["state", long]).raw());
            }
            for (key, value) in part.path(&["state", "metadata"]).members() {
                if !describe::READ_OF_TOOLS.contains(&key) {
                    out.leave_out(value.raw());
                }
            }
        }
        _ => {}
    }
}
