//! Transcripts of Letta Code: one file is one conversation, one record a line. What a call gave back stands in its record.
//!
//! A line is an item (`docs/formats/letta_code.md`).

use super::file_key;
use super::items::TraceItems;
use super::kind::counted_as;
use super::parsed::{self, ParsedItems};
use super::path::parts;
use super::recording::{AgentInfo, Recording, Text};
use super::shape::{expect_member, expect_object};
use super::talk::{Talk, conversations};
use super::{Confidence, ImporterInfo, Items, Record, SpreadImporter};
use crate::columns::writer::TraceWriter;
use crate::error::Reject;
use crate::json::Kind;
use crate::json::time::instant;
use crate::json::tree::Value;

/// The importer.
#[derive(Debug)]
pub struct LettaCode;

static INFO: ImporterInfo = ImporterInfo {
    name: "letta_code",
    summary: "Letta Code transcripts: one record per line, with what calls gave back",
    evidence: &["kind", "captured_at"],
    suffixes: &[".jsonl"],
    lenient: true,
};

const NAME: &str = "letta_code";

/// The name of every transcript, which the folder around it tells apart.
const TRANSCRIPT: &str = "transcript";

impl SpreadImporter for LettaCode {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        let has = |key: &str| record.get(key).str().is_some();
        let is_ours = has("captured_at")
            && match record.get("kind").str() {
                Some("user" | "assistant" | "reasoning" | "error" | "status") => has("text"),
                Some("tool_call") => has("name") && has("argsText"),
                _ => false,
            };
        if is_ours { Confidence::Yes } else { Confidence::No }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let folder = parts(parts(record.path).0).1;
        let is_named = record.stem == TRANSCRIPT && !folder.is_empty();
        let key = file_key::of_file(if is_named { folder } else { record.stem }, out);
        let tree = parsed::record(record, &key, out)?;
        let root = tree.root();
        if let Err(reject) = expect_object(root, "").and_then(|()| expect_member(root, "kind", Kind::String))
        {
            out.reject_in(&key, record.text, reject);
            return Ok(());
        }
        out.item(&key, record.text, &format!(" {}", out.line()));
        Ok(())
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        parsed::write(items, out, describe);
    }
}

fn describe(items: &TraceItems<'_>, parsed: &ParsedItems<'_>, recording: &mut Recording) {
    let lines = conversations(items, parsed, |_, _| Some("")).remove("").unwrap_or_default();
    recording.trace.trace_id = recording.text(file_key::name(items.key(), NAME));
    recording.trace.system = recording.text(NAME);
    recording.trace.partial = items.is_partial();
    let times = lines.iter().filter_map(|line| instant(line.value.get("captured_at")));
    recording.trace.started_at = times.min();
    let name = recording.text(NAME);
    let agent = recording.agent(AgentInfo { name, ..AgentInfo::default() });
    let mut talk = Talk::new(recording, agent, "");
    for line in &lines {
        let value = line.value;
        talk.line(line, value.get("captured_at"));
        let id = talk.text(value.get("source_line_id"), "source_line_id");
        match value.get("kind").str().unwrap_or_default() {
            "user" => {
                let text = talk.text(value.get("text"), "text");
                talk.hears(id, text, Text::default());
            }
            "assistant" => {
                let text = talk.text(value.get("text"), "text");
                let response = talk.answers(id, "", Text::default());
                talk.says(response, text, Text::default());
            }
            "tool_call" => tell_call(&mut talk, id, value),
            kind => items.ignored(line.item as usize, &counted_as(NAME, kind)),
        }
    }
    talk.end();
}

/// A call, and what it gave back, if it has ended.
fn tell_call(talk: &mut Talk<'_>, id: &str, value: Value<'_>) {
    let tool = talk.text(value.get("name"), "name");
    let (result, ok) = (value.get("resultText"), value.get("resultOk"));
    if ok.exists() && ok.bool().is_none() {
        talk.misfit("resultOk");
    }
    // Without an id the place of the line pairs them.
    let place = talk.place();
    let id = if id.is_empty() { &place } else { id };
    talk.calls_alone((id, tool), value.get("argsText"));
    if result.exists() || ok.bool().is_some() {
        talk.gives_back((id, tool), result, ok.bool(), Text::default());
    }
}
