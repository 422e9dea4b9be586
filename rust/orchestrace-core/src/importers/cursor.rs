//! Transcripts of Cursor's agent: one file is one conversation, one message a line. Calls have no id in most versions,
//! what they gave back is not recorded, and neither are times and usage.
//!
//! A line is an item. The transcripts of sub-agents lie in a folder `subagents` beside the one that asked them, and are of
//! the same trace (`docs/formats/cursor.md`).

use std::collections::HashSet;

use super::file_key;
use super::items::TraceItems;
use super::kind::counted_as;
use super::parsed::{self, ParsedItems};
use super::path::{parts, stem};
use super::recording::{Agent, AgentInfo, Recording};
use super::responses::text_of;
use super::shape::{expect_member, expect_object};
use super::talk::{Block, Line, Talk, blocks, conversations};
use super::{Confidence, ImporterInfo, Items, Record, Recorded, SpreadImporter};
use crate::columns::writer::TraceWriter;
use crate::error::Reject;
use crate::json::Kind;
use crate::json::identity::identity;
use crate::json::tree::Value;

/// The importer.
#[derive(Debug)]
pub struct Cursor;

static INFO: ImporterInfo = ImporterInfo {
    name: "cursor",
    summary: "Cursor agent transcripts: one message per line, with the transcripts of sub-agents",
    evidence: &["role", "message"],
    suffixes: &[".jsonl"],
    lenient: true,
};

const NAME: &str = "cursor";

/// Where sub-agents' transcripts lie.
const SUB_AGENTS: &str = "subagents";

impl SpreadImporter for Cursor {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        let is_message = matches!(record.get("role").str(), Some("user" | "assistant" | "system"))
            && record.get("content").is_absent()
            && record.get("type").is_absent()
            && matches!(record.path(&["message", "content"]).kind(), Some(Kind::String | Kind::Array));
        if is_message { Confidence::Yes } else { Confidence::No }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let (folder, _) = parts(record.path);
        let name = stem(record.path);
        let (key, place) = match parts(folder) {
            (above, SUB_AGENTS) if !parts(above).1.is_empty() => (parts(above).1.to_owned(), name),
            // The folder of a conversation has its name, which a copy in it may not have.
            (_, above) if (above == name && !name.is_empty()) || is_id(above) => (above.to_owned(), ""),
            _ => (file_key::of_file(record.stem, out), ""),
        };
        let tree = parsed::record(record, &key, out)?;
        if let Err(reject) = expect_line(tree.root()) {
            out.reject_in(&key, record.text, reject);
            return Ok(());
        }
        out.item(&key, record.text, &format!(" {place} {}", out.line()));
        Ok(())
    }

    fn session<'k>(&self, key: &'k str) -> Option<(&'k str, Recorded)> {
        file_key::session(key)
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        parsed::write(items, out, describe);
    }
}

/// Whether a folder is called as conversations are.
fn is_id(name: &str) -> bool {
    let is_dash = |(at, byte): (usize, u8)| (byte == b'-') == matches!(at, 8 | 13 | 18 | 23);
    name.len() == 36 && name.bytes().enumerate().all(is_dash)
}

/// Rejects what is neither a message nor a line about the conversation.
fn expect_line(root: Value<'_>) -> Result<(), Reject> {
    expect_object(root, "")?;
    if root.get("role").is_absent() && root.get("type").str().is_some() {
        return Ok(());
    }
    expect_member(root, "role", Kind::String)?;
    expect_member(root, "message", Kind::Object)
}

/// Sub-agents that no call was found of yet: their transcripts, and what they were asked.
type Unasked<'v> = Vec<(&'v str, Vec<Line<'v>>, String)>;

fn describe(items: &TraceItems<'_>, parsed: &ParsedItems<'_>, recording: &mut Recording) {
    let id = file_key::name(items.key(), NAME);
    let is_below = |path| parts(parts(path).0).1 == SUB_AGENTS;
    let mut all = conversations(items, parsed, |path, _| Some(if is_below(path) { stem(path) } else { "" }));
    recording.trace.trace_id = recording.text(id);
    recording.trace.system = recording.text(NAME);
    recording.trace.partial = items.is_partial();
    let name = recording.text(NAME);
    let root = recording.agent(AgentInfo { name, ..AgentInfo::default() });
    let lines = all.remove("");
    recording.trace.partial |= lines.is_none();
    let lines = lines.unwrap_or_default();
    if let Some(line) = lines.first() {
        items.lies_at(line.item as usize);
    }
    let mut unasked: Unasked<'_> = Vec::new();
    let mut transcripts = HashSet::new();
    for (id, lines) in all {
        // A file that says all that another one does is a copy of it.
        let content: Vec<u64> = lines.iter().map(|line| identity(line.value.raw())).collect();
        if !transcripts.insert(content) {
            for line in &lines {
                items.duplicate(line.item as usize);
            }
            continue;
        }
        let first = lines.iter().find(|line| line.value.get("role").str() == Some("user"));
        let prompt = first.map(|line| text_of(line.value.path(&["message", "content"])).into_owned());
        unasked.push((id, lines, prompt.unwrap_or_default()));
    }
    tell_lines(items, &lines, recording, (root, "", false), &mut unasked);
    for (id, lines, _) in std::mem::take(&mut unasked) {
        let child = sub_agent(recording, root, (id, "subagent"));
        tell_lines(items, &lines, recording, (child, id, false), &mut Vec::new());
    }
}

fn sub_agent(recording: &mut Recording, parent: Agent, (id, kind): (&str, &str)) -> Agent {
    let (name, source_id) = (recording.text(kind), recording.text(id));
    recording.agent(AgentInfo { name, source_id, role: name, parent: Some(parent), ..AgentInfo::default() })
}

/// The sub-agent whose transcript begins with what a call asks: calls do not name it.
fn match_up<'v>(call: Value<'v>, unasked: &mut Unasked<'v>) -> Option<(&'v str, Vec<Line<'v>>)> {
    let prompt = call.path(&["input", "prompt"]).some_str()?.trim();
    let position = unasked.iter().position(|(_, _, begins)| !prompt.is_empty() && begins.contains(prompt))?;
    let (id, lines, _) = unasked.remove(position);
    Some((id, lines))
}

/// Tells a conversation, and those of the sub-agents that it asks at the place where it does: no time orders them.
fn tell_lines<'v>(
    items: &TraceItems<'_>,
    lines: &[Line<'v>],
    recording: &mut Recording,
    (agent, prefix, is_told): (Agent, &str, bool),
    unasked: &mut Unasked<'v>,
) {
    let is_result = |line: &Line<'v>| {
        let content = blocks(line.value.path(&["message", "content"]));
        content.iter().any(|block| matches!(block, Block::Result(_)))
    };
    let mut talk = Talk::new(recording, agent, prefix);
    talk.has_results = lines.iter().any(is_result);
    let mut is_unprompted = !prefix.is_empty();
    for line in lines {
        let value = line.value;
        talk.line(line, value.get("timestamp"));
        let id = talk.text(value.get("id"), "id");
        let role = value.get("role").str();
        // What a sub-agent was asked first is what its spawn says.
        if is_unprompted && role == Some("user") {
            is_unprompted = false;
            if is_told {
                items.duplicate(line.item as usize);
            }
            continue;
        }
        let mut begun: Vec<(Agent, &str, Vec<Line<'v>>)> = Vec::new();
        let mut spawn = |recording: &mut Recording, call: Value<'v>| {
            let (id, lines) = match_up(call, unasked)?;
            let kind = call.path(&["input", "subagent_type"]).some_str().unwrap_or("subagent");
            let child = sub_agent(recording, agent, (id, kind));
            begun.push((child, id, lines));
            Some(child)
        };
        let message = value.get("message");
        let silent = match role {
            Some(role) => talk.message((id, role), message, &mut spawn),
            None => value.get("type").str(),
        };
        if let Some(kind) = silent {
            let status = value.get("status").str();
            if kind == "turn_ended" && !matches!(status, None | Some("success" | "completed")) {
                talk.is_stopped();
            }
            items.ignored(line.item as usize, &counted_as(NAME, kind));
        }
        for (child, id, lines) in begun {
            tell_lines(items, &lines, talk.recording, (child, id, true), &mut Vec::new());
        }
    }
    talk.end();
}
