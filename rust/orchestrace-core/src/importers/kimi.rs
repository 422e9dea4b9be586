//! Kimi Code sessions: a folder for each session, in it `state.json` and a wire file for each agent, one record a line.
//!
//! A line is an item, and so is the state. Lines do not name their session: those of a folder belong together, whose name
//! is the session's. What lies in a file of its own is a session, too. Which lines there are is told in `wire`, who made
//! whom work in `team` and `delegations`; what becomes of the lines of an agent is told in `describe` (`docs/formats/kimi.md`).

use xxhash_rust::xxh3::xxh3_64;

use super::shape::{expect_member, expect_object};
use super::{Confidence, ImporterInfo, Items, Record, Recorded, SpreadImporter, TraceItems};
use super::{file_key, parsed};
use crate::columns::writer::TraceWriter;
use crate::error::Reject;
use crate::json::Kind;
use crate::json::tree::Value;

mod copies;
mod delegations;
mod describe;
mod line;
mod place;
mod session;
mod steps;
mod team;
#[cfg(test)]
mod tests;
mod usage;
mod wire;

use place::Place;

/// Who records, and what the agent that the user talks to is called.
const KIMI: &str = "kimi";

/// The importer.
#[derive(Debug)]
pub struct Kimi;

static INFO: ImporterInfo = ImporterInfo {
    name: "kimi",
    summary: "Kimi Code sessions: the wire files of a session's agents, one record per line, and its state.json",
    evidence: &["type", "time", "event"],
    suffixes: &[".jsonl", ".json"],
    lenient: true,
};

impl SpreadImporter for Kimi {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        let is_ours = match record.get("type").str() {
            Some("metadata") => record.get("protocol_version").exists() && record.get("created_at").exists(),
            Some("context.append_loop_event") => record.path(&["event", "type"]).str().is_some(),
            Some("context.append_message") => record.path(&["message", "role"]).str().is_some(),
            Some("turn.prompt" | "turn.steer") => record.get("input").kind() == Some(Kind::Array),
            Some("usage.record") => record.path(&["usage", "inputOther"]).exists(),
            None => is_state(record),
            _ => false,
        };
        if is_ours { Confidence::Yes } else { Confidence::No }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let place = Place::of(record.path);
        let key = place.key(record.stem, out);
        let tree = parsed::record(record, &key, out)?;
        let root = tree.root();
        if let Err(reject) = expect_record(root) {
            out.reject_in(&key, record.text, reject);
            return Ok(());
        }
        if is_state(root) {
            let id = place.id().or_else(|| wire::session_of(root)).unwrap_or_default();
            if !id.is_empty() {
                out.together(&key, id);
                out.called(&key, id, root.get("forkedFrom").some_str());
            }
            out.item(&key, record.text, "");
            return Ok(());
        }
        if let Some(identity) = paid_identity(root) {
            out.claim(&key, (identity, 0), false, None, line::time(root).unwrap_or(i64::MAX));
        }
        // Nobody reads them, and they are long.
        for long in [root.get("systemPrompt"), root.get("tools"), root.get("contextSummary")] {
            out.leave_out(long.raw());
        }
        // Two lines may be equal and neither a copy: agent and line distinguish them. Of copies of a session each file is
        // needed in full, to see which lines it has in common with others.
        let agent = place.agent().or_else(|| root.get("agentId").some_str()).unwrap_or_default();
        let file = if place == Place::File { 0 } else { xxh3_64(record.path.as_bytes()) };
        out.item(&key, record.text, &format!(" {agent} {file:x} {}", out.line()));
        Ok(())
    }

    fn session<'k>(&self, key: &'k str) -> Option<(&'k str, Recorded)> {
        file_key::session(key)
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        parsed::write(items, out, session::describe);
    }
}

/// Whether this is what a process wrote of a session.
fn is_state(record: Value<'_>) -> bool {
    let agents = record.get("agents");
    let is_agent = |agent: Value<'_>| {
        agent.get("homedir").exists() || matches!(agent.get("type").str(), Some("main" | "sub"))
    };
    let has = |key: &str| record.get(key).exists();
    record.get("type").is_absent()
        && agents.kind() == Some(Kind::Object)
        && has("createdAt")
        && has("updatedAt")
        && (has("workDir") || agents.members().any(|(_, agent)| is_agent(agent)))
}

/// Rejects what is no record.
fn expect_record(root: Value<'_>) -> Result<(), Reject> {
    expect_object(root, "")?;
    if is_state(root) {
        return Ok(());
    }
    expect_member(root, "type", Kind::String)?;
    let (member, word) = match root.get("type").str() {
        Some("context.append_loop_event") => ("event", "type"),
        Some("context.append_message") => ("message", "role"),
        Some("usage.record") => return expect_member(root, "usage", Kind::Object),
        _ => return Ok(()),
    };
    expect_member(root, member, Kind::Object)?;
    expect_member(root.get(member), word, Kind::String)
        .map_err(|reject| Reject { path: format!("/{member}{}", reject.path), ..reject })
}

/// What distinguishes a record of usage from all others, whatever session has a copy of it: a fork begins with all lines
/// of the session that it was made of.
fn paid_identity(record: Value<'_>) -> Option<u64> {
    match record.get("type").str()? {
        "usage.record" => Some(xxh3_64(record.raw().as_bytes())),
        "context.append_loop_event" if record.path(&["event", "type"]).str() == Some("step.end") => {
            Some(xxh3_64(record.path(&["event", "uuid"]).some_str()?.as_bytes()))
        }
        _ => None,
    }
}
