//! Sessions of Factory Droid: one file is one session, one record a line, with settings in a file beside it that state what
//! the whole session took. Sessions of sub-agents name the call that asked them, and are of the same trace.
//!
//! A line is an item, and so are the settings (`docs/formats/droid.md`).

use std::collections::{BTreeMap, BTreeSet};

use super::file_key;
use super::items::TraceItems;
use super::kind::counted_as;
use super::parsed::{self, ParsedItems};
use super::path::stem;
use super::recording::{Agent, AgentInfo, Recording};
use super::shape::{expect_member, expect_object};
use super::talk::{Block, Line, Talk, blocks, conversations, is_prompt};
use super::{Confidence, ImporterInfo, Items, Record, Recorded, SpreadImporter};
use crate::columns::writer::TraceWriter;
use crate::error::{FindingCode, Reject};
use crate::json::Kind;
use crate::json::time::instant;
use crate::json::tree::Value;
use crate::schema::MeasureKind;

/// The importer.
#[derive(Debug)]
pub struct Droid;

static INFO: ImporterInfo = ImporterInfo {
    name: "droid",
    summary: "Factory Droid sessions: one record per line, settings beside them, and the sessions of sub-agents",
    evidence: &["type", "message", "timestamp"],
    suffixes: &[".jsonl", ".settings.json"],
    lenient: true,
};

const NAME: &str = "droid";

impl SpreadImporter for Droid {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, path: &str) -> Confidence {
        let has = |keys: &[&str]| keys.iter().all(|key| record.get(key).exists());
        match record.get("type").str() {
            Some("session_start") if has(&["id", "title", "cwd"]) => Confidence::Yes,
            // Others have lines of this type, too.
            Some("message") if has(&["message"]) => Confidence::Maybe,
            None if is_settings(record, path) => Confidence::Yes,
            _ => Confidence::No,
        }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let name = session_name(record.path);
        // A stream has no name of its own.
        let file = file_key::of_file(if record.stem.is_empty() { "" } else { name }, out);
        let tree = parsed::record(record, &file, out)?;
        let root = tree.root();
        if is_settings(root, record.path) {
            out.item(name, record.text, SETTINGS);
            return Ok(());
        }
        if let Err(reject) = expect_line(root) {
            out.reject_in(&file, record.text, reject);
            return Ok(());
        }
        if root.get("type").str() == Some("session_start")
            && let Some(id) = root.get("id").some_str()
        {
            out.together(&file, id);
            if let Some(caller) = root.get("callingSessionId").some_str() {
                out.together(id, caller);
            }
        }
        out.item(&file, record.text, &format!(" {name} {}", out.line()));
        Ok(())
    }

    fn session<'k>(&self, key: &'k str) -> Option<(&'k str, Recorded)> {
        file_key::session(key)
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        parsed::write(items, out, describe);
    }
}

/// Context of settings.
const SETTINGS: &str = "settings";

/// The name of a session's files.
fn session_name(path: &str) -> &str {
    let name = stem(path);
    name.strip_suffix(".settings").unwrap_or(name)
}

/// Whether a record is the settings of a session.
fn is_settings(record: Value<'_>, path: &str) -> bool {
    stem(path).ends_with(".settings")
        && record.kind() == Some(Kind::Object)
        && record.get("type").is_absent()
        && (record.get("tokenUsage").kind() == Some(Kind::Object)
            || ["model", "autonomyMode"].iter().all(|key| record.get(key).exists()))
}

/// Rejects what is no record.
fn expect_line(root: Value<'_>) -> Result<(), Reject> {
    expect_object(root, "")?;
    expect_member(root, "type", Kind::String)?;
    if root.get("type").str() != Some("message") {
        return Ok(());
    }
    expect_member(root, "message", Kind::Object)?;
    expect_member(root.get("message"), "role", Kind::String)
        .map_err(|reject| Reject { path: format!("/message{}", reject.path), ..reject })
}

/// A session, as its lines say it.
#[derive(Debug, Default)]
struct Session<'v> {
    id: &'v str,
    /// Whether its first line has that id; else its file is called so.
    is_named: bool,
    /// The session and the call that asked it.
    caller: Option<(&'v str, &'v str)>,
    lines: Vec<Line<'v>>,
}

fn describe(items: &TraceItems<'_>, parsed: &ParsedItems<'_>, recording: &mut Recording) {
    let of_items = items.as_slice();
    let mut settings = BTreeMap::new();
    for (item, value) in parsed.values().filter(|(item, _)| of_items[*item as usize].context == SETTINGS) {
        // A copy that was kept before the session went on says less.
        let before = settings.insert(session_name(of_items[item as usize].path), (item, value));
        if let Some((other, before)) = before {
            let rank = |value: Value<'_>| (spent(value), value.raw().to_owned());
            let is_later = rank(value) >= rank(before);
            items.duplicate(if is_later { other } else { item } as usize);
            if !is_later {
                settings.insert(session_name(of_items[other as usize].path), (other, before));
            }
        }
    }
    let all =
        conversations(items, parsed, |path, value| (!is_settings(value, path)).then(|| session_name(path)));
    let mut sessions: Vec<Session<'_>> = Vec::new();
    for (name, lines) in all {
        let head = lines.iter().find(|line| line.value.get("type").str() == Some("session_start"));
        let of_head = |key: &str| head.and_then(|head| head.value.get(key).some_str());
        let caller = of_head("callingSessionId").zip(of_head("callingToolUseId").or(Some("")));
        let (id, is_named) = of_head("id").map_or((name, false), |id| (id, true));
        sessions.push(Session { id, is_named, caller, lines });
    }
    // Who asked comes first.
    sessions.sort_by_key(|session| (session.caller.is_some(), session.id));
    let Some(root) = sessions.first() else { return };
    let trace_id = match root.caller {
        Some((caller, _)) => caller,
        None if root.is_named => root.id,
        None => file_key::name(items.key(), NAME),
    };
    recording.trace.trace_id = recording.text(trace_id);
    recording.trace.system = recording.text(NAME);
    recording.trace.partial = items.is_partial();
    if let Some(line) = root.lines.first() {
        items.lies_at(line.item as usize);
    }
    let times = sessions.iter().flat_map(|session| &session.lines);
    recording.trace.started_at = times.filter_map(|line| instant(line.value.get("timestamp"))).min();
    let agents = team(&sessions, recording);
    let mut by_call: BTreeMap<(&str, &str), Agent> = BTreeMap::new();
    for (session, agent) in sessions.iter().zip(&agents) {
        if let Some(caller) = session.caller {
            by_call.entry(caller).or_insert(*agent);
        }
    }
    let ids: BTreeSet<&str> = sessions.iter().map(|session| session.id).collect();
    for (session, agent) in sessions.iter().zip(&agents) {
        let prefix = if session.caller.is_some() { session.id } else { "" };
        let is_told = session.caller.is_some_and(|(caller, _)| ids.contains(caller));
        let is_open = tell_lines(items, session, recording, (*agent, prefix), (&by_call, is_told));
        recording.trace.partial |= is_open;
    }
    let settings: Vec<Value<'_>> = settings.into_values().map(|(_, value)| value).collect();
    tell_settings(&settings, sessions.len(), recording);
}

/// The agents of sessions, each with who asked it.
fn team(sessions: &[Session<'_>], recording: &mut Recording) -> Vec<Agent> {
    let mut agents = Vec::new();
    for session in sessions {
        let is_asked = session.caller.is_some();
        let name = recording.text(if is_asked { "subagent" } else { NAME });
        let source_id = recording.text(if is_asked { session.id } else { "" });
        agents.push(recording.agent(AgentInfo { name, source_id, ..AgentInfo::default() }));
    }
    let by_id: BTreeMap<&str, Agent> =
        sessions.iter().map(|session| session.id).zip(agents.iter().copied()).collect();
    let mut missing: BTreeMap<&str, Agent> = BTreeMap::new();
    for (session, agent) in sessions.iter().zip(&agents) {
        let Some((caller, _)) = session.caller else { continue };
        let recorded = by_id.get(caller).copied();
        let parent = recorded.unwrap_or_else(|| {
            *missing.entry(caller).or_insert_with(|| {
                recording.trace.partial = true;
                let name = recording.text(NAME);
                recording.agent(AgentInfo { name, ..AgentInfo::default() })
            })
        });
        recording.agent_info(*agent).parent = Some(parent);
    }
    agents
}

fn tell_lines<'v>(
    items: &TraceItems<'_>,
    session: &Session<'v>,
    recording: &mut Recording,
    (agent, prefix): (Agent, &str),
    (by_call, is_told): (&BTreeMap<(&'v str, &'v str), Agent>, bool),
) -> bool {
    let is_result = |line: &Line<'v>| {
        let content = blocks(line.value.path(&["message", "content"]));
        content.iter().any(|block| matches!(block, Block::Result(_)))
    };
    let mut talk = Talk::new(recording, agent, prefix);
    talk.has_results = session.lines.iter().any(is_result);
    let mut has_begun = false;
    let mut is_unprompted = session.caller.is_some();
    for line in &session.lines {
        let value = line.value;
        let kind = value.get("type").str().unwrap_or_default();
        if kind == "message" {
            talk.line(line, value.get("timestamp"));
        } else {
            talk.silent_line(line);
        }
        if kind == "session_start" && !std::mem::replace(&mut has_begun, true) {
            continue;
        }
        // What a sub-agent was asked first is what its spawn says.
        if is_unprompted && is_prompt(value.get("message")) {
            is_unprompted = false;
            if is_told {
                items.duplicate(line.item as usize);
            }
            continue;
        }
        let id = talk.text(value.get("id"), "id");
        let mut spawn = |recording: &mut Recording, call: Value<'v>| {
            let child = *by_call.get(&(session.id, call.get("id").str()?))?;
            if let Some(kind) = call.path(&["input", "subagent_type"]).some_str() {
                let kind = recording.text(kind);
                let info = recording.agent_info(child);
                (info.name, info.role) = (kind, kind);
            }
            Some(child)
        };
        let message = value.get("message");
        let silent = match (kind, message.get("role").str()) {
            ("message", Some(role)) => talk.message((id, role), message, &mut spawn),
            ("compaction_state", _) => {
                talk.recording.compaction(agent);
                None
            }
            _ => Some(kind),
        };
        if let Some(kind) = silent {
            items.ignored(line.item as usize, &counted_as(NAME, kind));
        }
    }
    talk.end()
}

/// Tokens that settings state: what no cache gave or took, what one gave and took, and what was written.
fn spent(settings: Value<'_>) -> Option<i64> {
    let usage = settings.get("tokenUsage");
    let counts = ["inputTokens", "cacheReadTokens", "cacheCreationTokens", "outputTokens"]
        .map(|key| usage.get(key).integer_like().filter(|count| *count >= 0));
    counts
        .iter()
        .any(Option::is_some)
        .then(|| counts.iter().flatten().fold(0_i64, |sum, n| sum.saturating_add(*n)))
}

/// What the whole took. Whether that of a session has what its sub-agents took, too, nobody knows.
fn tell_settings(settings: &[Value<'_>], n_sessions: usize, recording: &mut Recording) {
    for usage in settings.iter().map(|settings| settings.get("tokenUsage")) {
        let is_count = |value: Value<'_>| value.integer_like().is_some_and(|count| count >= 0);
        let misfits = usage.members().filter(|(_, value)| value.exists() && !is_count(*value)).count();
        if misfits > 0 || (usage.exists() && usage.kind() != Some(Kind::Object)) {
            let message = "counts of 'tokenUsage' are of the wrong type; they are in no sum";
            recording.finding(FindingCode::FieldIgnored, None, message);
        }
        if usage.get("thinkingTokens").i64().is_some_and(|count| count != 0) {
            let message =
                "'thinkingTokens' may lie inside of 'outputTokens' or beside them; they are not added";
            recording.finding(FindingCode::UsageUnknown, None, message);
        }
    }
    let totals: Vec<i64> =
        settings.iter().filter_map(|settings| spent(*settings)).filter(|n| *n > 0).collect();
    match totals.as_slice() {
        [] => {}
        [total] if n_sessions == 1 => recording.measure(MeasureKind::Cost, "tokens", *total as f64),
        totals => {
            let stated: Vec<String> = totals.iter().map(ToString::to_string).collect();
            let message = format!(
                "settings of {n_sessions} sessions state {} tokens; whether one has what another took is not known, so that no sum is made",
                stated.join(", ")
            );
            recording.finding(FindingCode::UsageIncomplete, None, message);
        }
    }
}
