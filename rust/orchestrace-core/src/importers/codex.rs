//! Codex rollouts: one file is one thread, one thread is one agent; a root thread with its descendants is one trace.
//!
//! The thread of a line is that of its file: the uuid in the name of the file, or the file itself, which then is the
//! thread that its first `session_meta` names. The driver puts the threads of a family together (`Items::together`);
//! what a forked thread repeats of the one it was forked from is left out ([`threads`]); then each thread is converted
//! as a stream ([`describe`]).

use super::items::{Items, TraceItems};
use super::parsed;
use super::recording::Recording;
use super::{Confidence, ImporterInfo, Record, Recorded, SpreadImporter};
use crate::columns::writer::TraceWriter;
use crate::error::{Reject, RejectCode};
use crate::json::tree::Value;

mod describe;
mod facts;
mod inherited;
mod line;
mod read;
mod team;
#[cfg(test)]
mod tests;
mod threads;

/// The importer.
#[derive(Debug)]
pub struct Codex;

static INFO: ImporterInfo = ImporterInfo {
    name: "codex",
    summary: "Codex rollouts: one line per record, one file per thread, also for sub-agents; codex exec --json",
    evidence: &["type", "payload"],
    suffixes: &[".jsonl", ".jsonl.zst"],
    lenient: true,
};

/// What the key of a file without a uuid in its name begins with.
const FILE: &str = "file:";

/// What stands between the key and the line in the context of a line of a stream.
const STREAMED: char = '\n';

impl SpreadImporter for Codex {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        let enveloped =
            record.get("type").str().is_some() && record.get("payload").members().next().is_some();
        // Many programs print errors.
        let streamed = is_streamed(record) && record.get("type").str() != Some("error");
        if enveloped || is_oldest_head(record) || streamed {
            return Confidence::Yes;
        }
        if record.get("record_type").str().is_some() { Confidence::Maybe } else { Confidence::No }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let mut file = Key::of(record.path, record.stem);
        let mut key = file.text();
        let tree = parsed::record(record, &key, out)?;
        let root = tree.root();
        if root.members().next().is_none() {
            let message = "found no object with members, expected a line of a rollout";
            out.reject_in(&key, record.text, Reject::new(RejectCode::RecordNotObject, "", message));
            return Ok(());
        }
        if let Some(meta) = meta_of(root) {
            let ids = threads::Ids::of(meta);
            if let Some(id) = ids.id {
                if matches!(file, Key::Path(_)) {
                    out.together(&key, id);
                }
                if let Some(other) = ids.parent.or(ids.forked_from) {
                    out.together(id, other);
                }
            }
        }
        if is_streamed(root) {
            // Its name is what somebody called it.
            file = Key::Path(record.path);
            key = file.text();
            if let Some(id) = root.get("thread_id").some_str() {
                out.together(&key, id);
            }
            // Without times and ids of their own, two lines may be equal and neither a copy.
            let place = format!("{key}{STREAMED}{}", out.line());
            out.item(&key, record.text, &place);
            return Ok(());
        }
        // The context names the thread of lines that two threads have in common word for word.
        out.item(&key, record.text, &key);
        Ok(())
    }

    fn session<'k>(&self, key: &'k str) -> Option<(&'k str, Recorded)> {
        (!key.starts_with(FILE)).then_some((key, Recorded::Itself))
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        let mut recording = Recording::default();
        let group = threads::Group::read(items, &mut recording);
        describe::describe(&group, items, &mut recording);
        recording.beside(items);
        recording.write(out);
    }
}

/// Whether a line is of what `codex exec --json` prints.
fn is_streamed(root: Value<'_>) -> bool {
    if !root.get("payload").is_absent() {
        return false;
    }
    match root.get("type").str().unwrap_or_default() {
        "thread.started" => root.get("thread_id").some_str().is_some(),
        "turn.started" => true,
        "turn.completed" => root.get("usage").exists(),
        "turn.failed" => root.get("error").exists(),
        "item.started" | "item.updated" | "item.completed" => {
            root.path(&["item", "id"]).exists() && root.path(&["item", "type"]).str().is_some()
        }
        "error" => root.get("message").str().is_some(),
        _ => false,
    }
}

/// The payload of a line that describes its thread.
fn meta_of(root: Value<'_>) -> Option<Value<'_>> {
    if root.get("type").str() == Some("session_meta") {
        return Some(root.get("payload"));
    }
    is_oldest_head(root).then_some(root)
}

/// The first line of files without envelopes.
fn is_oldest_head(root: Value<'_>) -> bool {
    root.get("id").str().is_some()
        && root.get("timestamp").str().is_some()
        && !root.get("instructions").is_absent()
        && root.get("type").is_absent()
}

/// What the lines of a file are put under.
#[derive(Debug, Clone, Copy)]
enum Key<'a> {
    /// The uuid in the name of the file.
    Thread(&'a str),
    /// The path of a file without one.
    Path(&'a str),
}

impl<'a> Key<'a> {
    fn of(path: &'a str, stem: &'a str) -> Self {
        uuid_at_end(stem).map_or(Self::Path(path), Self::Thread)
    }

    fn text(self) -> std::borrow::Cow<'a, str> {
        match self {
            Self::Thread(id) => id.into(),
            Self::Path(path) => format!("{FILE}{path}").into(),
        }
    }
}

/// The uuid that the name of a rollout ends in.
fn uuid_at_end(stem: &str) -> Option<&str> {
    let uuid = stem.get(stem.len().checked_sub(36)?..)?;
    let dash = |i: usize| matches!(i, 8 | 13 | 18 | 23);
    let fits = uuid.bytes().enumerate().all(|(i, b)| if dash(i) { b == b'-' } else { b.is_ascii_hexdigit() });
    let alone = stem.len() == 36 || stem.as_bytes()[stem.len() - 37] == b'-';
    (fits && alone).then_some(uuid)
}
