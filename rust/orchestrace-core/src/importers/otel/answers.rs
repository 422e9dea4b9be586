//! Answers of models: text and calls, in the spellings of the dialects.

use std::borrow::Cow;

use memchr::memmem;

use crate::importers::recording::{Hash, call_hash_of_text};
use crate::importers::spans::{Declared, Spans, handoff_target};
use crate::json::tree::{Tree, Value};
use crate::json::{Kind, Limits};

/// One call as a model wrote it.
#[derive(Debug, Default)]
pub(super) struct AskedCall<'t> {
    pub id: Cow<'t, str>,
    pub name: Cow<'t, str>,
    /// JSON, or a text that was to be JSON.
    pub arguments: Cow<'t, str>,
}

/// An answer.
#[derive(Debug, Default)]
pub(super) struct Answer<'t> {
    /// Texts of its parts.
    pub texts: Vec<Cow<'t, str>>,
    pub calls: Vec<AskedCall<'t>>,
}

impl Answer<'_> {
    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.calls.is_empty()
    }

    /// Hash of the text, parts put together as they came.
    pub(super) fn text(&self) -> Option<Hash> {
        use sha2::{Digest, Sha256};
        let mut hash = Sha256::new();
        self.texts.iter().for_each(|text| hash.update(text.as_bytes()));
        self.texts.iter().any(|text| !text.is_empty()).then(|| hash.finalize().into())
    }

    /// Puts the calls.
    pub(super) fn put_calls(&self, limits: Limits, spans: &mut Spans) {
        for call in &self.calls {
            let hands_to = target(&call.name, &call.arguments, limits).unwrap_or_default();
            let declared = Declared {
                id: spans.recording.text(&call.id),
                tool: spans.recording.text(&call.name),
                content: Some(call_hash_of_text(&call.name, &call.arguments, limits)),
                hands_to: spans.recording.text(&hands_to),
            };
            spans.call(declared);
        }
    }

    /// Reads messages that are JSON: of the conventions (`parts`), of OpenAI (`content`, `tool_calls`), of Anthropic
    /// (`content` of blocks), of Gemini (`parts` of `text` and `function_call`).
    pub(super) fn read(json: &str, limits: Limits) -> Answer<'static> {
        let mut answer = Answer::default();
        if let Ok(tree) = Tree::parse(json, limits) {
            answer.messages(tree.root());
        }
        answer
    }
}

impl Answer<'_> {
    fn messages(&mut self, value: Value<'_>) {
        match value.kind() {
            Some(Kind::Array) => value.elements().for_each(|message| match message.kind() {
                // LangChain answers a list of prompts with a list of lists.
                Some(Kind::Array) => self.messages(message),
                _ => self.message(message),
            }),
            Some(Kind::Object) => {
                let inner = value.first(&["messages", "choices", "generations", "output"]);
                if inner.exists() { self.messages(inner) } else { self.message(value) }
            }
            Some(Kind::String) => self.text_of(value),
            _ => {}
        }
    }

    fn message(&mut self, value: Value<'_>) {
        // LangChain's dumps keep a message under `kwargs`, behind the name of its class.
        let message = value.first(&["message", "kwargs"]);
        let message = if message.kind() == Some(Kind::Object) { message } else { value };
        let inner = message.get("kwargs");
        let message = if inner.kind() == Some(Kind::Object) { inner } else { message };
        // Where a whole conversation came out, what others said is no answer.
        let others = ["user", "system", "developer", "tool", "human", "function"];
        if message.get("role").str().or(message.get("type").str()).is_some_and(|role| others.contains(&role))
        {
            return;
        }
        // The AI SDK lists calls alone.
        if message.get("toolName").exists() || message.get("type").str() == Some("function_call") {
            return self.call(message);
        }
        for key in ["parts", "content"] {
            let content = message.get(key);
            match content.kind() {
                Some(Kind::String) => self.text_of(content),
                Some(Kind::Array) => content.elements().for_each(|part| self.part(part)),
                // The response of Gemini: `content` of `parts`.
                Some(Kind::Object) => content.get("parts").elements().for_each(|part| self.part(part)),
                _ => {}
            }
        }
        if !message.first(&["parts", "content"]).exists() {
            self.text_of(message.get("text"));
        }
        let tool_calls = message.get("tool_calls");
        let calls = if tool_calls.is_empty() {
            message.path(&["additional_kwargs", "tool_calls"])
        } else {
            tool_calls
        };
        calls.elements().for_each(|call| self.call(call));
    }

    fn part(&mut self, part: Value<'_>) {
        match part.get("type").str() {
            Some("reasoning" | "thinking" | "redacted_thinking") => {}
            Some("tool_call" | "tool_use" | "function_call") => self.call(part),
            _ if part.get("function_call").exists() => self.call(part.get("function_call")),
            _ if part.get("functionCall").exists() => self.call(part.get("functionCall")),
            _ if part.get("thought").bool() == Some(true) => {}
            _ if part.kind() == Some(Kind::String) => self.text_of(part),
            _ => self.text_of(part.first(&["content", "text"])),
        }
    }

    fn text_of(&mut self, value: Value<'_>) {
        if let Some(text) = value.some_str() {
            self.texts.push(Cow::Owned(text.to_owned()));
        }
    }

    /// Takes the calls out of texts that are nothing but calls, as Koog writes them.
    pub(super) fn calls_in_texts(&mut self, limits: Limits) {
        let mut texts = std::mem::take(&mut self.texts);
        texts.retain(|text| {
            let Some(tree) =
                text.starts_with("[{\"function\":").then(|| Tree::parse(text, limits).ok()).flatten()
            else {
                return true;
            };
            tree.root().elements().for_each(|call| self.call(call));
            false
        });
        self.texts = texts;
    }

    fn call(&mut self, call: Value<'_>) {
        let function = call.get("function");
        let inner = if function.kind() == Some(Kind::Object) { function } else { call };
        let owned = |value: Value<'_>| Cow::Owned(value.str().unwrap_or_default().to_owned());
        let arguments = inner.first(&["arguments", "args", "input"]);
        self.calls.push(AskedCall {
            id: owned(call.first(&["call_id", "id", "tool_call_id", "toolCallId"])),
            name: owned(inner.first(&["name", "toolName"])),
            arguments: Cow::Owned(arguments.str().unwrap_or_else(|| arguments.raw()).to_owned()),
        });
    }
}

/// Name of the agent that a tool hands over to, by the name of the tool or by its arguments.
pub(super) fn target(tool: &str, arguments: &str, limits: Limits) -> Option<String> {
    // Few tools are handovers: arguments are parsed for those only.
    handoff_target(tool, |_| Some(""))?;
    let tree = Tree::parse(arguments, limits).ok();
    let argument = |key: &str| tree.as_ref().and_then(|tree| tree.root().get(key).str()).map(str::to_owned);
    match handoff_target(tool, |_| None) {
        Some(name) => Some(name.to_owned()),
        None => argument("agent_name").or_else(|| argument("agent")),
    }
}

/// The kind of agent that a call asks for, as tools that start agents spell it.
pub(super) fn asked_agent(arguments: &str, limits: Limits) -> Option<String> {
    const KEYS: [&str; 3] = ["subagent_type", "subagent_name", "agent_type"];
    // Few tools start agents: arguments are parsed for those only.
    let named = |key: &&str| memmem::find(arguments.as_bytes(), key.as_bytes()).is_some();
    KEYS.iter().find(|key| named(key))?;
    let tree = Tree::parse(arguments, limits).ok()?;
    tree.root().first(&KEYS).some_str().map(str::to_owned)
}

/// What an indexed attribute is of an answer: `<prefix>N.<field>`, `<prefix>N.<calls>M.<field>`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Field {
    Text,
    Id,
    Name,
    Arguments,
}

/// One indexed attribute.
#[derive(Debug)]
pub(super) struct Piece<'t> {
    message: u32,
    /// Content parts count from 0, calls from [`CALLS`].
    part: u32,
    field: Field,
    text: Cow<'t, str>,
}

const CALLS: u32 = 1 << 24;

fn index(text: &str) -> Option<(u32, &str)> {
    let (digits, rest) = text.split_once('.')?;
    let n: u32 = digits.parse().ok().filter(|n| *n < CALLS)?;
    Some((n, rest))
}

/// Place of an attribute behind its prefix, by the spelling of OpenInference (`0.message.tool_calls.1.tool_call.…`) or
/// of OpenLLMetry (`0.tool_calls.1.…`); nothing for what is no part of an answer.
pub(super) fn piece<'t>(rest: &str, text: impl FnOnce() -> Option<Cow<'t, str>>) -> Option<Piece<'t>> {
    let (message, field) = index(rest)?;
    let field = field.strip_prefix("message.").unwrap_or(field);
    let (part, field) = if let Some(rest) = field.strip_prefix("tool_calls.") {
        let (call, field) = index(rest)?;
        let field = match field.strip_prefix("tool_call.").unwrap_or(field) {
            "id" => Field::Id,
            "name" | "function.name" => Field::Name,
            "arguments" | "function.arguments" => Field::Arguments,
            _ => return None,
        };
        (CALLS + call, field)
    } else if let Some(rest) = field.strip_prefix("contents.") {
        let (part, field) = index(rest)?;
        (matches!(field, "message_content.text").then_some(part)?, Field::Text)
    } else {
        match field {
            "content" => (0, Field::Text),
            "function_call_name" => (CALLS, Field::Name),
            "function_call_arguments_json" => (CALLS, Field::Arguments),
            _ => return None,
        }
    };
    Some(Piece { message, part, field, text: text()? })
}

/// The pieces of messages that lie in a list, with the same names within it.
pub(super) fn listed(list: Value<'_>) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    for (i, message) in list.elements().enumerate() {
        flatten(&i.to_string(), message, &mut pieces);
    }
    pieces
}

fn flatten<'t>(path: &str, value: Value<'t>, pieces: &mut Vec<Piece<'t>>) {
    match value.kind() {
        Some(Kind::Object) if path.ends_with("function.arguments") => {
            pieces.extend(piece(path, || Some(Cow::Borrowed(value.raw()))));
        }
        Some(Kind::Object) => {
            value.members().for_each(|(key, inner)| flatten(&format!("{path}.{key}"), inner, pieces));
        }
        Some(Kind::Array) => {
            let elements = value.elements().enumerate();
            elements.for_each(|(i, inner)| flatten(&format!("{path}.{i}"), inner, pieces));
        }
        _ => pieces.extend(piece(path, || value.some_str().map(Cow::Borrowed))),
    }
}

/// The answer of its pieces, which may have come in any order.
pub(super) fn assemble(mut pieces: Vec<Piece<'_>>) -> Answer<'_> {
    pieces.sort_by_key(|piece| (piece.message, piece.part, piece.field));
    let mut answer = Answer::default();
    let mut open = None;
    for piece in pieces {
        if piece.field == Field::Text {
            answer.texts.push(piece.text);
            continue;
        }
        if open.replace((piece.message, piece.part)) != Some((piece.message, piece.part)) {
            answer.calls.push(AskedCall::default());
        }
        if let Some(call) = answer.calls.last_mut() {
            match piece.field {
                Field::Id => call.id = piece.text,
                Field::Name => call.name = piece.text,
                _ => call.arguments = piece.text,
            }
        }
    }
    answer
}
