//! Claude Code transcripts: one session is one trace, spread over the file of its main stream, a file for each of its
//! sub-agents, and small files beside them.
//!
//! A line is an item. Most lines are of no concern (progress of hooks, snapshots, reminders); of those only the links
//! between records are kept, because the branches of a conversation run through them. What a line says is read in
//! `record` and `content`, who said it to whom is found in `branches` and `streams`, and told in `telling`, with `cast`,
//! `heard` and `ends`.

use super::items::request_identity;
use super::recording::Recording;
use super::{Confidence, ImporterInfo, Items, Record, Recorded, SpreadImporter, TraceItems};
use crate::columns::writer::TraceWriter;
use crate::error::{Reject, RejectCode};
use crate::json::Kind;
use crate::json::time::parse_timestamp;
use crate::json::tree::Value;

mod agents;
mod branches;
mod content;
mod copies;
mod empty_record;
mod ends;
mod head;
mod helped;
mod incoming;
mod printed;
mod record;
mod repeated;
mod reported;
mod session;
mod streams;
#[cfg(test)]
mod tests;
mod texts;
mod twice;
mod usage;

use empty_record::Aside;
use head::Head;
use record::Records;
use streams::Streams;

/// The importer.
#[derive(Debug)]
pub struct ClaudeCode;

static INFO: ImporterInfo = ImporterInfo {
    name: "claude_code",
    summary: "Claude Code transcripts: sessions with their sub-agents, teams and workflows",
    evidence: &["sessionId", "type"],
    suffixes: &[".jsonl", ".meta.json"],
    lenient: true,
};

/// Records that name their session and are of no other format.
const BARE: [&str; 14] = [
    "agent-name",
    "ai-title",
    "atis-latch",
    "attachment",
    "bridge-session",
    "custom-title",
    "frame-link",
    "last-prompt",
    "mode",
    "permission-mode",
    "pr-link",
    "queue-operation",
    "relocated",
    "worktree-state",
];

impl SpreadImporter for ClaudeCode {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, path: &str) -> Confidence {
        let has = |key: &str| !record.get(key).is_absent();
        let kind = record.get("type").str();
        let message = record.get("message");
        let yes = match kind {
            _ if printed::is_printed(record) => true,
            Some("summary") => has("summary") && has("leafUuid"),
            Some("file-history-snapshot") => has("messageId") && has("snapshot"),
            Some("started" | "result") => has("key") && has("agentId") && in_workflow(path),
            Some("user" | "assistant") if has("sessionId") => message.get("parts").is_absent(),
            Some("system" | "progress") if has("sessionId") => has("isSidechain"),
            Some(kind) if has("sessionId") => BARE.contains(&kind),
            None => has("agentType") && agent_of(path).is_some(),
            _ => false,
        };
        match (yes, kind.is_some() && has("sessionId")) {
            (true, _) => Confidence::Yes,
            (false, true) => Confidence::Maybe,
            (false, false) => Confidence::No,
        }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let (mut head, mut unread) = (Head::default(), out.left_out());
        let read = head.read(record.text, out.limits(), &mut unread);
        let key = session(&head, record.path);
        // A team that is called after the session that leads it has that name alone.
        if let (Some(key), Some(team)) =
            (key, head.team.as_deref().filter(|team| team.starts_with("session-")))
        {
            out.together(key, &["team:", team].concat());
        }
        if let Err(fault) = read {
            match (&head.session, &head.printed, key) {
                (None, Some(session), _) => out.lacks(&printed::key_of(session)),
                (_, _, Some(key)) => out.lacks(key),
                _ => {}
            }
            return Err(fault.into_reject());
        }
        let Some(kind) = head.kind.as_deref() else {
            if head.agent_type {
                // Equal files are of different agents: the name distinguishes them.
                match (key, agent_of(record.path)) {
                    (Some(key), Some(agent)) => out.item(key, record.text, agent),
                    _ => out.ignored("claude_code.meta_file"),
                }
                return Ok(());
            }
            return Err(Reject::new(RejectCode::FieldMissing, "/type", "found nothing, expected a string"));
        };
        if let (None, Some(session)) = (&head.session, &head.printed) {
            let key = printed::key_of(session);
            if kind == "assistant" {
                claim(&head, &key, out);
            }
            match kind {
                "assistant" | "user" | "result" => printed::put(&key, record.text, kind, out),
                _ => out.ignored(&kind_of(kind, head.subtype.as_deref().unwrap_or_default(), "")),
            }
            return Ok(());
        }
        let inner = head.inner.as_deref().unwrap_or_default();
        let subtype = head.subtype.as_deref().unwrap_or_default();
        let is_used = match kind {
            "user" | "assistant" => {
                let Some(key) = key else {
                    let message = "found nothing, expected a string";
                    return Err(Reject::new(RejectCode::FieldMissing, "/sessionId", message));
                };
                if head.message != Some(Kind::Object) {
                    let (code, found) = head.message.map_or((RejectCode::FieldMissing, "nothing"), |k| {
                        (RejectCode::FieldType, k.as_str())
                    });
                    let message = format!("found {found}, expected an object");
                    out.reject_in(key, record.text, Reject::new(code, "/message", message));
                    return Ok(());
                }
                // What condenses the context is not a worker (its answer comes back as the next prompt).
                if head.agent.as_deref().is_some_and(|agent| agent.starts_with("acompact-")) {
                    out.ignored("claude_code.compaction");
                    return Ok(());
                }
                if kind == "assistant" {
                    claim(&head, key, out);
                }
                true
            }
            "system" => subtype == "compact_boundary" || (subtype == "stop_hook_summary" && head.prevented),
            "progress" => inner == "agent_progress",
            "attachment" => matches!(inner, "hook_blocking_error" | "queued_command"),
            "queue-operation" => true,
            "started" | "result" => head.key && head.agent.is_some(),
            _ => false,
        };
        let run = if matches!(kind, "started" | "result") { run_of(record.path) } else { None };
        match kind {
            _ if !is_used => unread.clear(),
            // Two that have one id and message are one, wherever else they differ.
            "user" | "assistant" if head.uuid.as_deref().is_some_and(|id| !id.is_empty()) => {}
            _ => unread.hash_only(),
        }
        out.leave(unread);
        match key {
            Some(key) if is_used => out.item(key, record.text, run.unwrap_or_default()),
            key => aside(&head, key, &kind_of(kind, subtype, inner), out),
        }
        Ok(())
    }

    fn session<'k>(&self, key: &'k str) -> Option<(&'k str, Recorded)> {
        let (session, is_printed) = printed::session_of(key);
        Some((session, if is_printed { Recorded::Printed } else { Recorded::Itself }))
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        let mut recording = Recording::default();
        let mut records = Records::read(items, &mut recording);
        let (abandoned, cycle) = branches::abandoned(items, &records);
        for (line, abandoned) in records.lines.iter_mut().zip(abandoned) {
            line.abandoned = abandoned;
        }
        let streams = Streams::of(items, &records);
        session::describe(items, &records, streams, cycle, &mut recording);
        recording.beside(items);
        recording.write(out);
    }
}

/// Says that the session of a line has its response.
fn claim(head: &Head<'_>, key: &str, out: &mut Items<'_>) {
    let [message, request] = [&head.message_id, &head.request].map(|id| id.as_deref().unwrap_or_default());
    if let Some(response) = copies::identity(message, request) {
        let time = head.time.as_deref().and_then(parse_timestamp);
        let from = head.forked_from.as_deref();
        out.claim(key, (response, request_identity(request)), head.forked, from, time.unwrap_or(i64::MAX));
    }
}

/// What becomes of a record that says nothing.
fn aside(head: &Head<'_>, key: Option<&str>, kind: &str, out: &mut Items<'_>) {
    match (key, head.uuid.as_deref()) {
        (Some(key), Some(uuid)) => {
            let parent = head.parent.as_deref().unwrap_or_default();
            out.item(key, &Aside { kind, uuid, parent }.text(), "");
        }
        _ => out.ignored(kind),
    }
}

/// The word that a record is counted under.
fn kind_of(kind: &str, subtype: &str, inner: &str) -> String {
    let mut word = String::with_capacity(64);
    word.push_str("claude_code");
    for part in [kind, subtype, inner].into_iter().filter(|part| !part.is_empty()) {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
        word.push('.');
        word.push_str(if part.len() <= 40 && part.chars().all(plain) { part } else { "other" });
    }
    word
}

/// The session of a line: what it says; what its path says where it has none, or names its own stream.
fn session<'a>(head: &'a Head<'_>, path: &'a str) -> Option<&'a str> {
    let stated = head.session.as_deref().filter(|session| !session.is_empty());
    // A search for a word is set up anew for each line.
    let marked = stated.filter(|stated| stated.contains('#')).and_then(|stated| stated.split_once("#agent-"));
    match marked.map(|(session, _)| session).or(stated) {
        Some(session) if !session.starts_with("agent-") => Some(session),
        stated => session_of(path).or(stated),
    }
}

/// The session of a path: the folder that holds `subagents`, or a file that is called like a session.
fn session_of(path: &str) -> Option<&str> {
    let folders: Vec<&str> = path.split('/').collect();
    let above = folders.iter().rposition(|folder| *folder == "subagents").and_then(|at| at.checked_sub(1));
    above.map(|at| folders[at]).filter(|name| !name.is_empty()).or_else(|| {
        let stem = folders.last()?.split('.').next()?;
        let dashes = |(at, byte): (usize, &u8)| (*byte == b'-') == matches!(at, 8 | 13 | 18 | 23);
        (stem.len() == 36 && stem.as_bytes().iter().enumerate().all(dashes)).then_some(stem)
    })
}

/// The agent of a path: `agent-<id>.jsonl`, `agent-<id>.meta.json`.
fn agent_of(path: &str) -> Option<&str> {
    let name = path.rsplit('/').next()?.strip_prefix("agent-")?;
    name.split('.').next().filter(|id| !id.is_empty())
}

/// The run of a workflow that a path belongs to.
fn run_of(path: &str) -> Option<&str> {
    let (_, below) = path.rsplit_once("/workflows/")?;
    below.split_once('/').map(|(run, _)| run)
}

fn in_workflow(path: &str) -> bool {
    run_of(path).is_some()
}
