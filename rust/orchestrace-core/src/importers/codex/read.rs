//! The reading of a line by its type, in the spellings of all Codex versions.

use std::collections::HashMap;

use xxhash_rust::xxh3::Xxh3;

use super::line::{By, History, InlineResult, Line, LineContent, Status, Statuses, Sums, is_collaboration};
use super::threads::Ids;
use crate::importers::items::TraceItem;
use crate::importers::recording::{Hash, Recording, Text, call_hash, hash};
use crate::importers::responses::{Item, ItemCall, call_id, text_of};
use crate::json::Limits;
use crate::json::time::parse_timestamp;
use crate::json::tree::{Tree, Value};

mod events;
mod exec;
mod output;
mod user;

pub(super) use exec::Run;
use user::speaker;

/// Reads lines into a recording, which keeps their texts.
pub(super) struct Reader<'r> {
    pub recording: &'r mut Recording,
    pub statuses: Vec<Status>,
    pub limits: Limits,
    /// How often each thread was run, of those that streams are of.
    pub runs: HashMap<String, u32>,
}

impl Reader<'_> {
    /// The line.
    pub(super) fn line(&mut self, item: u32, from: &TraceItem<'_>, run: &mut Run) -> Line {
        let mut line = Line {
            item,
            number: from.line,
            time: None,
            ordinal: None,
            named: Text::default(),
            page: Text::default(),
            content: LineContent::Nothing,
            identity: None,
            unused: Text::default(),
        };
        let Ok(tree) = Tree::parse(from.text, self.limits) else { return line };
        let root = tree.root();
        line.time = root.get("timestamp").str().and_then(parse_timestamp);
        line.ordinal = root.get("ordinal").u64();
        let mut kind = root.get("type").str().unwrap_or("line");
        let payload = root.get("payload");
        if let Some(meta) = super::meta_of(root) {
            line.content = self.meta(meta);
            return line;
        }
        if super::is_streamed(root) {
            let (line_content, unused) = self.streamed(root, from.line, run);
            line.unused = if unused.is_empty() { Text::default() } else { self.recording.text(unused) };
            line.content = line_content;
            return line;
        }
        let line_content = match kind {
            "turn_context" => LineContent::Context { model: self.keep(payload.get("model")) },
            "token_usage_record" => self.spent(payload, false),
            // It repeats a line, which a file that was cut may lack.
            "compacted" => match payload.get("latest_token_usage_record") {
                record if record.exists() => self.spent(record, true),
                _ => LineContent::Compacted,
            },
            "response_item" => {
                kind = payload.get("type").str().unwrap_or(kind);
                self.item(payload)
            }
            "event_msg" => {
                kind = payload.get("type").str().unwrap_or(kind);
                self.event(payload)
            }
            "inter_agent_communication" => self.agent_message(payload),
            // Files without envelopes.
            _ if payload.is_absent() => self.item(root),
            _ => LineContent::Nothing,
        };
        line.content = line_content;
        if matches!(line_content, LineContent::Spent { .. } | LineContent::Completed { .. }) {
            line.named = self.keep(payload.get("thread_id"));
        }
        line.identity = self.identity(&line_content, payload);
        line.unused = match line_content {
            LineContent::Wrapped => self.recording.text("codex.context"),
            LineContent::Nothing | LineContent::Reasoning | LineContent::Completed { .. } => {
                // Of messages it is the role that makes them useless.
                let kind = match payload.get("role").str() {
                    Some(role) if kind == "message" => role,
                    _ => kind,
                };
                self.recording.join(&["codex.", &kind.replace('/', ".")])
            }
            _ => Text::default(),
        };
        line
    }

    fn keep(&mut self, value: Value<'_>) -> Text {
        value.some_str().map_or(Text::default(), |text| self.recording.text(text))
    }

    fn meta(&mut self, meta: Value<'_>) -> LineContent {
        let ids = Ids::of(meta);
        let spawn = meta.path(&["source", "subagent", "thread_spawn"]);
        let subagent = meta.path(&["source", "subagent"]);
        let internal = match subagent.str() {
            Some(name) => Some(name),
            None if subagent.get("other").exists() => Some(subagent.get("other").str().unwrap_or("other")),
            None => None,
        };
        let mut text = |text: Option<&str>| text.map_or(Text::default(), |text| self.recording.text(text));
        let of = |key: &str| spawn.get(key).some_str().or_else(|| meta.get(key).some_str());
        LineContent::Meta {
            id: text(ids.id),
            parent: text(ids.parent),
            forked_from: text(ids.forked_from),
            nickname: text(of("agent_nickname")),
            role: text(of("agent_role")),
            path: text(of("agent_path")),
            internal: text(internal),
            history: History {
                own_from: meta.get("subagent_history_start_ordinal").u64(),
                base_to: meta.path(&["history_base", "end_ordinal_exclusive"]).u64(),
                is_page: meta
                    .path(&["history_base", "thread_id"])
                    .some_str()
                    .is_some_and(|id| Some(id) == ids.id),
            },
        }
    }

    /// An item of the history.
    fn item(&mut self, item: Value<'_>) -> LineContent {
        let id = self.keep(call_id(item));
        match item.get("type").str() {
            Some("agent_message") => return self.agent_message(item),
            None => return LineContent::Nothing,
            _ => {}
        }
        match Item::of(item) {
            Item::Message { role: "user", content } => self.user(&text_of(content), speaker(item)),
            Item::Message { role: "assistant", content } => {
                LineContent::Message { by: By::Assistant, content: hash(&text_of(content)) }
            }
            Item::Reasoning => LineContent::Reasoning,
            Item::Call(call) => {
                let text = call.arguments.str();
                let inner = text.and_then(|text| Tree::parse(text, self.limits).ok());
                let arguments = match (&inner, text) {
                    (Some(inner), _) => Some(inner.root()),
                    (None, Some(_)) => None,
                    (None, None) => Some(call.arguments),
                };
                let content = match &inner {
                    Some(inner) => call_hash(call.tool, inner.root()),
                    None => call.content(self.limits),
                };
                self.call(id, call.tool, content, arguments)
            }
            Item::Served(call, _) => self.alone(id, &call),
            Item::Output(output) => self.output(id, output),
            Item::Message { .. } | Item::Other(_) => LineContent::Nothing,
        }
    }

    /// What one response took.
    fn spent(&mut self, record: Value<'_>, compacts: bool) -> LineContent {
        LineContent::Spent {
            response: self.keep(record.get("response_id")),
            used: Sums::of(record.get("usage")),
            thread: Sums::of(record.get("thread_token_usage")),
            turn: Sums::of(record.get("turn_token_usage")).map(Sums::all),
            compacts,
        }
    }

    fn call(&mut self, id: Text, tool: &str, content: Hash, arguments: Option<Value<'_>>) -> LineContent {
        let mut target = Text::default();
        let mut prompt = None;
        if let Some(arguments) = arguments.filter(|_| is_collaboration(tool)) {
            target = self.keep(arguments.first(&["target", "id", "agent_id", "recipient", "task_name"]));
            let message = arguments.first(&["message", "prompt", "items"]);
            prompt = message.exists().then(|| match message.str() {
                Some(text) => hash(text),
                None => hash(&text_of(message)),
            });
        }
        let tool = self.recording.text(tool);
        LineContent::Call { id, tool, content, target, prompt, result: None }
    }

    fn alone(&mut self, id: Text, call: &ItemCall<'_>) -> LineContent {
        let content = call.content(self.limits);
        let tool = self.recording.text(call.tool);
        let target = Text::default();
        LineContent::Call { id, tool, content, target, prompt: None, result: Some(InlineResult::default()) }
    }

    fn statuses<'v>(&mut self, list: impl Iterator<Item = (&'v str, Value<'v>)>) -> Statuses {
        let start = self.statuses.len() as u32;
        for (agent, status) in list.filter(|(agent, _)| !agent.is_empty()) {
            let agent = self.recording.text(agent);
            let done = |key: &str, ok| status.get(key).str().map(|text| (hash(text), ok));
            // Done without an answer is `{"completed": null}`.
            let silent = || status.get("completed").is_null().then(|| (hash(""), true));
            let answer = done("completed", true).or_else(|| done("errored", false)).or_else(silent);
            self.statuses.push(Status { agent, answer });
        }
        (start, self.statuses.len() as u32)
    }

    fn agent_message(&mut self, message: Value<'_>) -> LineContent {
        let content = message.get("content");
        let text = text_of(content);
        let answers = text.lines().take(8).any(|line| line.trim() == "Message Type: FINAL_ANSWER");
        // What stands above is of the harness.
        let answer = text.split_once("\nPayload:").map(|(_, answer)| answer.trim_start_matches([' ', '\n']));
        LineContent::AgentMessage {
            from: self.keep(message.get("author")),
            to: self.keep(message.get("recipient")),
            content: hash(answer.filter(|_| answers).unwrap_or(&text)),
            answers,
        }
    }

    /// The key that distinguishes a line from others of its kind, whatever its thread and time.
    fn identity(&self, content: &LineContent, payload: Value<'_>) -> Option<u64> {
        let mut hasher = Xxh3::new();
        let mut put = |tag: u8, parts: &[&[u8]]| {
            hasher.update(&[tag]);
            for part in parts {
                hasher.update(part);
            }
            Some(hasher.digest())
        };
        match content {
            LineContent::Call { id, .. } if !id.is_none() => put(1, &[self.recording.read(*id).as_bytes()]),
            LineContent::Output { call, .. } if !call.is_none() => {
                put(2, &[self.recording.read(*call).as_bytes()])
            }
            LineContent::End { call, .. }
            | LineContent::Spawned { call, .. }
            | LineContent::Told { call, .. }
                if !call.is_none() =>
            {
                put(3, &[self.recording.read(*call).as_bytes()])
            }
            LineContent::Message { by, content } => put(4 + u8::from(*by == By::User), &[content]),
            LineContent::Echo { by, content } => put(6 + u8::from(*by == By::User), &[content]),
            LineContent::Usage { total: Some(total), .. } => {
                let (cached, reasoning) = (total.cached.unwrap_or(0), total.reasoning.unwrap_or(0));
                let numbers = [total.input, cached, total.output, reasoning, total.all()];
                put(8, &numbers.map(i64::to_le_bytes).each_ref().map(|bytes| &bytes[..]))
            }
            LineContent::Spent { response, .. } if !response.is_none() => {
                put(10, &[self.recording.read(*response).as_bytes()])
            }
            LineContent::TurnStart { .. }
            | LineContent::TurnEnd { .. }
            | LineContent::Context { .. }
            | LineContent::Aborted { .. } => payload.get("turn_id").some_str().and_then(|turn| {
                let kind = payload.get("type").str().unwrap_or_default();
                put(9, &[kind.as_bytes(), turn.as_bytes()])
            }),
            _ => None,
        }
    }
}
