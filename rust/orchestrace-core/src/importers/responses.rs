//! Items of OpenAI's Responses API by their `type`: what a model read and wrote, in order. Codex writes its history in
//! them, NeMo Gym what came of a rollout.

use std::borrow::Cow;

use super::recording::{Hash, call_hash, call_hash_of_text};
use crate::json::Limits;
use crate::json::tree::Value;

/// What an item is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Item<'v> {
    /// What somebody said.
    Message { role: &'v str, content: Value<'v> },
    /// What a model thought.
    Reasoning,
    /// A call, whose result is an item of its own.
    Call(ItemCall<'v>),
    /// A call of a tool that the service itself runs, and what came back, where the item has it.
    Served(ItemCall<'v>, Value<'v>),
    /// What a call gave back.
    Output(Value<'v>),
    /// Anything else, by its type.
    Other(&'v str),
}

/// A call of a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct ItemCall<'v> {
    pub tool: &'v str,
    /// Mostly JSON in a text.
    pub arguments: Value<'v>,
}

impl<'v> Item<'v> {
    pub(super) fn of(item: Value<'v>) -> Self {
        let name = |default: &'v str| item.get("name").str().unwrap_or(default);
        let call = |tool, key: &str| ItemCall { tool, arguments: item.get(key) };
        let kind = item.get("type").str().unwrap_or_default();
        let role = item.get("role").str();
        match kind {
            "message" | "" if role.is_some() => {
                Self::Message { role: role.unwrap_or_default(), content: item.get("content") }
            }
            "reasoning" => Self::Reasoning,
            "function_call" => Self::Call(call(name("function"), "arguments")),
            "custom_tool_call" => Self::Call(call(name("custom_tool"), "input")),
            "tool_search_call" => Self::Call(call("tool_search", "arguments")),
            "local_shell_call" => Self::Call(call("local_shell", "action")),
            "shell_call" => Self::Call(call("shell", "action")),
            "apply_patch_call" => Self::Call(call("apply_patch", "operation")),
            "computer_call" => Self::Call(call("computer", "action")),
            "web_search_call" => Self::Served(call("web_search", "action"), item.absent()),
            "image_generation_call" => {
                Self::Served(call("image_generation", "revised_prompt"), item.get("result"))
            }
            "file_search_call" => Self::Served(call("file_search", "queries"), item.get("results")),
            "code_interpreter_call" => Self::Served(call("code_interpreter", "code"), item.get("outputs")),
            "mcp_call" => Self::Served(call(name("mcp"), "arguments"), item.first(&["output", "error"])),
            "tool_search_output" => Self::Output(item.get("tools")),
            "function_call_output"
            | "custom_tool_call_output"
            | "local_shell_call_output"
            | "shell_call_output"
            | "apply_patch_call_output"
            | "computer_call_output" => Self::Output(item.get("output")),
            _ => Self::Other(kind),
        }
    }
}

impl ItemCall<'_> {
    /// Hash of the call (R9).
    pub(super) fn content(&self, limits: Limits) -> Hash {
        match self.arguments.str() {
            Some(text) => call_hash_of_text(self.tool, text, limits),
            None => call_hash(self.tool, self.arguments),
        }
    }
}

/// What pairs a call with its result.
pub(super) fn call_id(item: Value<'_>) -> Value<'_> {
    item.first(&["call_id", "id"])
}

/// Whether a call or its result says that it failed.
pub(super) fn has_failed(item: Value<'_>) -> bool {
    item.get("status").str() == Some("failed") || item.get("error").exists()
}

/// Text of a message or output: a string, or the texts of a list or of one object.
pub(super) fn text_of(value: Value<'_>) -> Cow<'_, str> {
    if let Some(text) = value.str() {
        return text.into();
    }
    let parts = value.elements().chain([value]);
    let mut texts = parts.filter_map(|part| part.get("text").str().or(part.get("refusal").str()));
    let Some(first) = texts.next() else {
        return if value.exists() { value.raw().into() } else { "".into() };
    };
    let mut rest = texts.peekable();
    if rest.peek().is_none() {
        return first.into();
    }
    let mut out = first.to_owned();
    rest.for_each(|text| out.push_str(text));
    out.into()
}
