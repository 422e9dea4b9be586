//! OpenAI Agents SDK: the records of its trace processors, one per line or in the batches sent to the server. A trace
//! comes first, each span when it ends.
//!
//! An item is a trace or a span; its key is the id of the trace. Agents that take over from each other lie side by side
//! below the trace, and one that the conversation comes back to is the same agent again; an agent that serves as a
//! tool lies in the span of that function. What the spans make together is found by [`super::spans`].

use std::collections::HashMap;

use super::otel::attributes::{Facts, Sort};
use super::parsed::ParsedItems;
use super::recording::{Text, Usage, call_hash_of_text, hash};
use super::spans::{AgentWork, Span, Spans, ToolKind, ToolUse, Unused, Who, Work};
use super::{Confidence, ImporterInfo, Items, Record, SpreadImporter, TraceItems, usage};
use crate::columns::writer::TraceWriter;
use crate::error::{Reject, RejectCode};
use crate::json::Limits;
use crate::json::time::parse_timestamp;
use crate::json::tree::Value;

/// The importer.
#[derive(Debug)]
pub struct OpenAiAgents;

static INFO: ImporterInfo = ImporterInfo {
    name: "openai_agents",
    summary: "OpenAI Agents SDK: traces and spans as its processors export them",
    evidence: &["object", "span_data", "trace_id"],
    suffixes: &[".json", ".jsonl"],
    lenient: true,
};

fn is_span(value: Value<'_>) -> bool {
    value.get("object").str() == Some("trace.span") && value.get("span_data").exists()
}

fn is_trace(value: Value<'_>) -> bool {
    value.get("object").str() == Some("trace") && !value.get("workflow_name").is_absent()
}

impl SpreadImporter for OpenAiAgents {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        let first = record.get("data").at(0);
        if [record, first].into_iter().any(|value| is_span(value) || is_trace(value)) {
            return Confidence::Yes;
        }
        let objects = matches!(record.get("object").str(), Some("trace" | "trace.span"));
        if objects { Confidence::Maybe } else { Confidence::No }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        out.cut(record.text, |root, out| {
            if root.get("object").is_absent() && root.get("data").at(0).exists() {
                root.get("data").elements().for_each(|value| put(value, out));
            } else {
                put(root, out);
            }
            Ok(())
        })
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        let limits = items.limits();
        let parsed = ParsedItems::of(items);
        let mut spans = Spans::default();
        parsed.tell_replaced(&mut spans.recording);
        let workflow = parsed.values().find(|(_, value)| is_trace(*value));
        let workflow = workflow.and_then(|(_, value)| value.get("workflow_name").some_str());
        let recording = &mut spans.recording;
        recording.trace.trace_id = recording.text(items.key());
        recording.trace.system = recording.text("openai-agents");
        let service = recording.text(workflow.unwrap_or("workflow"));
        let parts: Vec<(u32, Value<'_>)> = parsed.values().filter(|(_, value)| !is_trace(*value)).collect();
        let nested = Nested::of(&parts);
        for (item, value) in &parts {
            push(*value, Reading { item: *item, service, limits, nested: &nested }, &mut spans);
        }
        let all = items.as_slice();
        spans.describe(
            &|one, other| all[one as usize].text == all[other as usize].text,
            &mut |item, fate| match fate {
                Unused::Duplicate => items.duplicate(item as usize),
                Unused::Ignored(kind) => items.ignored(item as usize, kind),
            },
        );
        spans.recording.write(out);
    }
}

fn put(value: Value<'_>, out: &mut Items<'_>) {
    let missing = |path: &str| Reject::new(RejectCode::FieldMissing, path, "found nothing, expected an id");
    let id = value.get("id").some_str();
    match value.get("object").str() {
        Some("trace") => match id {
            Some(id) => {
                out.conversation(id, value.get("group_id").str().unwrap_or_default());
                out.item(id, value.raw(), "");
            }
            None => out.reject(value.raw(), missing("/id")),
        },
        Some("trace.span") => match (value.get("trace_id").some_str(), id) {
            (Some(trace), Some(_)) if value.get("span_data").exists() => out.item(trace, value.raw(), ""),
            (Some(trace), Some(_)) => {
                let message = "found nothing, expected an object";
                out.reject_in(
                    trace,
                    value.raw(),
                    Reject::new(RejectCode::FieldMissing, "/span_data", message),
                );
            }
            (Some(trace), None) => out.reject_in(trace, value.raw(), missing("/id")),
            (None, _) => out.reject(value.raw(), missing("/trace_id")),
        },
        _ => {
            if let Some(trace) = value.get("trace_id").some_str() {
                out.lacks(trace);
            }
            let message = "expected 'trace' or 'trace.span'";
            out.reject(value.raw(), Reject::new(RejectCode::FieldMissing, "/object", message));
        }
    }
}

/// Which spans lie in an agent or in a function, however far above.
#[derive(Debug, Default)]
struct Nested<'t> {
    parents: HashMap<&'t str, (&'t str, bool)>,
}

impl<'t> Nested<'t> {
    fn of(parts: &[(u32, Value<'t>)]) -> Self {
        let works = |value: Value<'t>| matches!(kind_of(value), Some("agent" | "function"));
        let id = |value: Value<'t>| value.get("id").str().unwrap_or_default();
        let parent = |value: Value<'t>| value.get("parent_id").some_str().unwrap_or_default();
        Self {
            parents: parts.iter().map(|(_, value)| (id(*value), (parent(*value), works(*value)))).collect(),
        }
    }

    fn contains(&self, span: Value<'_>) -> bool {
        let mut at = span.get("parent_id").some_str();
        for _ in 0..=self.parents.len() {
            match at.and_then(|id| self.parents.get(id)) {
                Some((_, true)) => return true,
                Some((parent, false)) => at = Some(parent),
                None => return false,
            }
        }
        false
    }
}

fn kind_of(span: Value<'_>) -> Option<&str> {
    span.path(&["span_data", "type"]).str()
}

/// What is known beside the span itself while it is read.
#[derive(Debug, Clone, Copy)]
struct Reading<'n> {
    item: u32,
    service: Text,
    limits: Limits,
    nested: &'n Nested<'n>,
}

fn push(value: Value<'_>, reading: Reading<'_>, spans: &mut Spans) {
    let data = value.get("span_data");
    let time = |key: &str| value.get(key).str().and_then(parse_timestamp);
    let error = value.get("error");
    let recording = &mut spans.recording;
    let mut keep = |value: Value<'_>| value.str().map_or(Text::default(), |text| recording.text(text));
    let mut span = Span {
        id: keep(value.get("id")),
        parent: keep(value.get("parent_id")),
        service: reading.service,
        start: time("started_at"),
        end: time("ended_at"),
        ok: error.exists().then_some(false),
        item: reading.item,
        ..Span::default()
    };
    let name = data.get("name").some_str();
    match kind_of(value) {
        Some("agent") => {
            // Side by side below the trace, agents of one name are one agent that the conversation comes back to.
            let name = keep(data.get("name"));
            let id = if reading.nested.contains(value) { Text::default() } else { name };
            let who = Who { name, id, ..Who::default() };
            span.work = Work::Agent(AgentWork { who, ..AgentWork::default() });
            spans.push(span);
        }
        Some("handoff") => {
            let to = data.get("to_agent").some_str();
            let tool = match to {
                Some(to) => recording.join(&["transfer_to_", &function_style(to)]),
                None => recording.text("handoff"),
            };
            // A model that asks for several handoffs gets one; where none is left, none took place.
            span.ok = span.ok.or(to.is_none().then_some(false));
            let hands_to = recording.text(to.unwrap_or_default());
            span.work = Work::Tool(ToolUse { tool, hands_to, ..ToolUse::default() });
            spans.push(span);
        }
        Some("function") => {
            let tool = name.unwrap_or("function");
            let text = |value: Value<'_>| {
                value.exists().then(|| value.str().unwrap_or_else(|| value.raw()).to_owned())
            };
            let (input, output) = (text(data.get("input")), text(data.get("output")));
            span.work = Work::Tool(ToolUse {
                tool: recording.text(tool),
                kind: ToolKind::Asked,
                content: input.map(|input| call_hash_of_text(tool, &input, reading.limits)),
                result: output.as_deref().map(hash),
                trusted: Some(false),
                ..ToolUse::default()
            });
            span.error_type = error_type(error).map_or(Text::default(), |class| recording.text(class));
            spans.push(span);
        }
        Some("guardrail") => {
            span.work = Work::Guardrail(data.get("triggered").bool());
            spans.push(span);
        }
        Some("generation" | "response") => {
            let mut facts = Facts::new(name.unwrap_or_default());
            facts.force(Sort::Generation);
            let output = data.first(&["output", "response"]);
            let output = output.exists().then(|| output.str().unwrap_or_else(|| output.raw()).into());
            facts.contents(None, output);
            let model = data.get("model").some_str();
            facts.model(model.or_else(|| data.path(&["response", "model"]).some_str()));
            let usage = data.get("usage");
            let (counts, total) = usage::of(usage);
            facts.usage_is(counts, total.or(counts.tokens));
            if error.exists() {
                facts.failed(error_type(error));
            }
            facts.push(span, reading.limits, spans);
        }
        kind => {
            (span.work, span.kind) = match kind {
                Some("custom") => {
                    // Tasks and turns are the SDK's own; their usage is a sum.
                    let of_sdk = data.path(&["data", "sdk_span_type"]).exists();
                    let name = if of_sdk { Text::default() } else { keep(data.get("name")) };
                    (Work::Chain(name), "openai_agents.custom")
                }
                Some("mcp_tools") => (Work::Nothing, "openai_agents.mcp_tools"),
                Some("speech" | "speech_group") => (Work::Nothing, "openai_agents.speech"),
                Some("transcription") => (Work::Nothing, "openai_agents.transcription"),
                _ => (Work::Nothing, "openai_agents.other"),
            };
            let usage = usage::of(data.path(&["data", "usage"])).0;
            if usage != Usage::default() {
                spans.report(usage, Text::default());
            }
            spans.push(span);
        }
    }
}

/// A name as the SDK makes a function's of it.
fn function_style(name: &str) -> String {
    name.chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' { c.to_ascii_lowercase() } else { '_' })
        .collect()
}

/// The class of an error, where its message or its data begins with one.
fn error_type(error: Value<'_>) -> Option<&str> {
    let texts = [error.path(&["data", "error"]).str(), error.get("message").str(), error.str()];
    texts.into_iter().flatten().find_map(super::otel::attributes::error_class)
}
