//! Sessions of Hermes: a document with its messages, one session a line, or rows of its table of messages.
//!
//! A message is an item, and so is what is said of the session around them. Messages say when they were written, sessions
//! what they took in all (`docs/formats/hermes.md`).

use std::collections::{BTreeMap, BTreeSet};

use super::items::TraceItems;
use super::kind::counted_as;
use super::parsed::{self, ParsedItems};
use super::recording::{AgentInfo, Recording, Text};
use super::responses::text_of;
use super::shape::{expect_member, expect_object};
use super::talk::{Line, Talk};
use super::{Confidence, ImporterInfo, Items, Record, Recorded, SpreadImporter};
use crate::columns::writer::TraceWriter;
use crate::error::{FindingCode, Reject, RejectCode};
use crate::importers::recording::Does;
use crate::json::Kind;
use crate::json::time::instant;
use crate::json::tree::{Tree, Value};
use crate::schema::MeasureKind;

/// The importer.
#[derive(Debug)]
pub struct Hermes;

static INFO: ImporterInfo = ImporterInfo {
    name: "hermes",
    summary: "Hermes sessions: a document with its messages, one session per line, or rows of messages",
    evidence: &["session", "messages"],
    suffixes: &[".json", ".jsonl"],
    lenient: true,
};

const NAME: &str = "hermes";

/// What begins a content that is not a text but a list of parts.
const PARTS: &str = "\0json:";

impl SpreadImporter for Hermes {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        if is_row(record) || head_of(record).is_some() { Confidence::Yes } else { Confidence::No }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let tree = match Tree::parse(record.text, out.limits()) {
            Ok(tree) => tree,
            Err(fault) => {
                let head = Tree::head(record.text, out.limits());
                let id = head.root().get("session_id").some_str();
                if let Some(id) = id.or_else(|| head_of(head.root())?.get("id").some_str()) {
                    out.lacks(id);
                }
                return Err(fault.into_reject());
            }
        };
        let root = tree.root();
        expect_object(root, "")?;
        if let Some(head) = head_of(root) {
            let Some(id) = head.get("id").some_str() else { return expect_member(head, "id", Kind::String) };
            out.leave_out(root.get("messages").raw());
            out.leave_out(head.get("system_prompt").raw());
            out.item(id, record.text, HEAD);
            for message in root.get("messages").elements() {
                put(id, message, out);
            }
            return Ok(());
        }
        expect_member(root, "session_id", Kind::String)?;
        match root.get("session_id").some_str() {
            Some(id) => put(id, root, out),
            None => return Err(Reject::new(RejectCode::FieldEmpty, "/session_id", "found an empty string")),
        }
        Ok(())
    }

    fn session<'k>(&self, key: &'k str) -> Option<(&'k str, Recorded)> {
        Some((key, Recorded::Itself))
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        parsed::write(items, out, describe);
    }
}

/// Context of what is said of a session.
const HEAD: &str = "session";

/// Whether a record is a row of messages.
fn is_row(record: Value<'_>) -> bool {
    record.get("id").i64().is_some()
        && record.get("session_id").some_str().is_some()
        && record.get("role").str().is_some()
        && record.get("timestamp").f64().is_some()
}

/// What a record says of the session whose messages it has.
fn head_of(record: Value<'_>) -> Option<Value<'_>> {
    let head = head_in(record);
    let is_head = ["id", "source"].iter().all(|key| head.get(key).str().is_some())
        && (record.get("session").exists() || head.get("started_at").f64().is_some())
        && record.get("messages").kind() == Some(Kind::Array);
    is_head.then_some(head)
}

/// The member that the facts of a session are in, or the record itself.
fn head_in(record: Value<'_>) -> Value<'_> {
    let session = record.get("session");
    if session.kind() == Some(Kind::Object) { session } else { record }
}

fn put(key: &str, message: Value<'_>, out: &mut Items<'_>) {
    let judged = expect_object(message, "").and_then(|()| expect_member(message, "role", Kind::String));
    if let Err(reject) = judged {
        out.reject_in(key, message.raw(), reject);
        return;
    }
    // Two messages without an id may be equal and neither a copy: their place distinguishes them.
    let is_known = message.get("id").exists() || message.get("timestamp").exists();
    let place = if is_known { String::new() } else { format!(" {}:{}", out.line(), message.span().0) };
    out.item(key, message.raw(), &place);
}

fn describe(items: &TraceItems<'_>, parsed: &ParsedItems<'_>, recording: &mut Recording) {
    let mut heads: Vec<(u32, Value<'_>)> = Vec::new();
    let mut lines: Vec<Line<'_>> = Vec::new();
    for (item, value) in parsed.values() {
        let from = &items.as_slice()[item as usize];
        if from.context == HEAD {
            heads.push((item, value));
        } else {
            let at = (from.line, lines.len() as u32);
            lines.push(Line { item, at, value, after_loss: from.after_loss });
        }
    }
    in_order(items, &mut lines);
    // Of a session that was exported twice the later one says more.
    let length = |head: Value<'_>| (head.raw().len(), head.raw().to_owned());
    heads.sort_by_key(|(_, head)| std::cmp::Reverse(length(*head)));
    for (item, _) in heads.iter().skip(1) {
        items.duplicate(*item as usize);
    }
    let head = heads.first().map(|(_, record)| head_in(*record));
    recording.trace.trace_id = recording.text(items.key());
    recording.trace.system = recording.text(NAME);
    recording.trace.partial = items.is_partial();
    let times = lines.iter().filter_map(|line| instant(line.value.get("timestamp")));
    let began = head.and_then(|head| instant(head.get("started_at")));
    recording.trace.started_at = times.min().map(|first| began.map_or(first, |began| began.min(first)));
    let name = recording.text(NAME);
    let agent = recording.agent(AgentInfo { name, ..AgentInfo::default() });
    let model = head.and_then(|head| head.get("model").some_str()).unwrap_or_default();
    let adopted = adopted(&lines, items);
    let mut talk = Talk::new(recording, agent, "");
    for (at, line) in lines.iter().enumerate() {
        tell_message(&mut talk, line, model, adopted.get(&at).map_or(&[], Vec::as_slice), items);
    }
    talk.end();
    if let Some(head) = head {
        tell_totals(head, lines.len(), recording);
    }
}

/// Puts messages in the order of their numbers, whatever order they are listed in; of one number the one that says most
/// counts.
fn in_order(items: &TraceItems<'_>, lines: &mut Vec<Line<'_>>) {
    if lines.iter().any(|line| line.value.get("id").i64().is_none()) {
        return;
    }
    lines.sort_by(|a, b| {
        let rank = |line: &Line<'_>| (line.value.get("id").i64(), std::cmp::Reverse(line.value.raw().len()));
        rank(a).cmp(&rank(b)).then_with(|| a.value.raw().cmp(b.value.raw()))
    });
    let mut before = None;
    lines.retain(|line| {
        let id = line.value.get("id").i64();
        let again = before.replace(id) == Some(id);
        if again {
            items.duplicate(line.item as usize);
        }
        !again
    });
}

/// A call of a message, as a list or as JSON in a text has it.
struct CallOf {
    id: String,
    tool: String,
    arguments: String,
}

/// The calls of a message.
fn calls_of(message: Value<'_>, items: &TraceItems<'_>) -> Vec<CallOf> {
    let read = |list: Value<'_>| {
        list.elements()
            .map(|call| {
                let function = call.get("function");
                let function = if function.exists() { function } else { call };
                let arguments = function.get("arguments");
                CallOf {
                    id: call.first(&["id", "call_id"]).str().unwrap_or_default().to_owned(),
                    tool: function.get("name").str().unwrap_or_default().to_owned(),
                    arguments: arguments.str().unwrap_or_else(|| arguments.raw()).to_owned(),
                }
            })
            .collect()
    };
    let calls = message.get("tool_calls");
    match calls.str() {
        Some(text) => Tree::parse(text, items.limits()).map_or_else(|_| Vec::new(), |tree| read(tree.root())),
        None => read(calls),
    }
}

/// The ids of calls that have none, by message: those of the results of their tools that no call has, in their order.
fn adopted(lines: &[Line<'_>], items: &TraceItems<'_>) -> BTreeMap<usize, Vec<String>> {
    let mut named: BTreeSet<String> = BTreeSet::new();
    let mut open: BTreeMap<String, Vec<(usize, usize)>> = BTreeMap::new();
    let mut ids: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for (at, line) in lines.iter().enumerate() {
        match line.value.get("role").str() {
            Some("assistant") => {
                let calls = calls_of(line.value, items);
                for (nth, call) in calls.iter().enumerate() {
                    if call.id.is_empty() {
                        open.entry(call.tool.clone()).or_default().insert(0, (at, nth));
                    }
                    named.insert(call.id.clone());
                }
                ids.insert(at, calls.into_iter().map(|call| call.id).collect());
            }
            Some("tool") => {
                let id = line.value.get("tool_call_id").str().unwrap_or_default();
                let tool = line.value.get("tool_name").str().unwrap_or_default();
                if !named.contains(id)
                    && let Some((of, nth)) = open.get_mut(tool).and_then(Vec::pop)
                    && let Some(slot) = ids.get_mut(&of).and_then(|ids| ids.get_mut(nth))
                {
                    id.clone_into(slot);
                }
            }
            _ => {}
        }
    }
    ids
}

fn tell_message(talk: &mut Talk<'_>, line: &Line<'_>, model: &str, ids: &[String], items: &TraceItems<'_>) {
    let message = line.value;
    talk.line(line, message.get("timestamp"));
    let mut extras = Text::default();
    // What was rewound is kept, and not active.
    if message.get("active").i64() == Some(0) || message.get("active").bool() == Some(false) {
        extras = talk.recording.extra(extras, "x_abandoned", "true");
    }
    let id = match message.get("id").i64() {
        Some(id) => id.to_string(),
        None => talk.text(message.get("id"), "id").to_owned(),
    };
    let content = message.get("content");
    let parsed = content.str().and_then(|text| text.strip_prefix(PARTS));
    let parsed = parsed.and_then(|text| Tree::parse(text, items.limits()).ok());
    let content = parsed.as_ref().map_or(content, Tree::root);
    if !matches!(content.kind(), None | Some(Kind::Null | Kind::String | Kind::Array)) {
        talk.misfit("content");
    }
    let text = if content.exists() { text_of(content).into_owned() } else { String::new() };
    match message.get("role").str().unwrap_or_default() {
        "user" => talk.hears(&id, &text, extras),
        "assistant" => {
            let named = talk.text(message.get("model"), "model").to_owned();
            let response = talk.answers(&id, if named.is_empty() { model } else { &named }, extras);
            let calls = calls_of(message, items);
            if message.get("tool_calls").exists() && calls.is_empty() && !message.get("tool_calls").is_empty()
            {
                talk.misfit("tool_calls");
            }
            for (nth, call) in calls.iter().enumerate() {
                let id = ids.get(nth).map_or(&*call.id, String::as_str);
                let tree = Tree::parse(&call.arguments, items.limits());
                let arguments = tree.as_ref().map_or_else(|_| message.absent(), Tree::root);
                talk.calls(response, (id, &call.tool), arguments, Does::UsesTool, extras);
            }
            talk.says(response, &text, extras);
            if !calls.is_empty() || message.get("finish_reason").str() == Some("tool_calls") {
                talk.goes_on();
            }
        }
        "tool" => {
            let call = talk.text(message.get("tool_call_id"), "tool_call_id");
            let tool = talk.text(message.get("tool_name"), "tool_name");
            talk.gives_back((call, tool), content, None, extras);
        }
        role => items.ignored(line.item as usize, &counted_as(NAME, role)),
    }
}

/// What the whole took, as the session states it: its input leaves out what a cache gave and took.
fn tell_totals(head: Value<'_>, n_messages: usize, recording: &mut Recording) {
    let count = |key: &str| head.get(key).integer_like().filter(|count| *count >= 0);
    let counts = ["input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens"].map(count);
    let total = counts.iter().flatten().fold(0_i64, |sum, n| sum.saturating_add(*n));
    if total > 0 {
        recording.measure(MeasureKind::Cost, "tokens", total as f64);
    }
    let cost = ["actual_cost_usd", "estimated_cost_usd"].iter().find_map(|key| head.get(key).number_like());
    if let Some(cost) = cost.filter(|cost| *cost > 0.0) {
        recording.measure(MeasureKind::Cost, "cost_usd", cost);
    }
    for key in ["input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "message_count"] {
        if head.get(key).exists() && count(key).is_none() {
            let message = format!("'{key}' of the session is of the wrong type; it is null");
            recording.finding(FindingCode::FieldIgnored, None, message);
        }
    }
    if let Some(stated) = count("message_count") {
        recording.claims("'message_count' of the session", (stated, n_messages), "messages");
    }
}
