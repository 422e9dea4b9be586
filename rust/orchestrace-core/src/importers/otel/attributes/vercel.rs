//! Attributes of Vercel's AI SDK, `ai.*`: what a span is, who called the SDK, usage, the answer of a model and its calls.

use std::borrow::Cow;

use super::{Attribute, Facts, Sort};
use crate::importers::spans::ToolKind;

impl<'t> Facts<'t> {
    /// Reads an attribute whose name goes on behind `ai.`.
    pub(super) fn put_vercel(&mut self, key: &'t str, rest: &str, a: Attribute<'t>) {
        match rest {
            "operationId" => self.vercel = a.filled(),
            "telemetry.functionId" => self.function(a.filled()),
            "model.provider" => {
                self.provider = true;
                // Anthropic counts the cache beside the input; the SDK passes that on, up to version 5.
                let named = a.filled();
                self.cache_beside |=
                    named.is_some_and(|name| name.starts_with("anthropic")) && !self.has_no_cache;
            }
            "response.model" => self.model.offer(0, a.filled()),
            "model.id" => self.model.offer(5, a.filled()),
            // An object is an answer as much as a text.
            "response.text" | "response.object" | "result.text" | "result.object" => {
                self.vercel_answer.0 = self.vercel_answer.0.take().or_else(|| a.filled());
            }
            "response.toolCalls" | "result.toolCalls" => self.vercel_answer.1 = a.filled(),
            "response.finishReason" | "finishReason" => {
                if a.filled().as_deref() == Some("error") {
                    self.succeeded = Some(false);
                }
            }
            "toolCall.name" => self.tool.offer(2, a.filled()),
            "toolCall.id" => self.call.offer(2, a.filled()),
            "toolCall.args" | "toolCall.input" => self.arguments.offer(2, a.text()),
            "toolCall.result" | "toolCall.output" => self.result.offer(2, a.text()),
            _ => {
                // Embeddings count `tokens`; what no cache gave is the rest of the input.
                let name = rest.strip_prefix("usage.").filter(|name| *name != "tokens");
                if name.is_some_and(|name| name.ends_with("noCacheTokens")) {
                    (self.has_no_cache, self.cache_beside) = (true, false);
                }
                if let Some(name) = name.filter(|name| !name.ends_with("noCacheTokens")) {
                    self.put_count_at(2, key, name, &a);
                }
            }
        }
    }

    /// What the caller calls the function that calls the SDK: the agent, where nothing names one.
    pub(super) fn function(&mut self, name: Option<Cow<'t, str>>) {
        self.agent.offer(3, name.clone());
        self.agent_id.offer(3, name);
    }

    /// What a span is by the operation that it names: a call with all its steps is an agent at work, and each step
    /// within it a generation.
    pub(super) fn sort_of_vercel(operation: &str) -> Sort {
        match operation {
            "ai.toolCall" => Sort::Tool(ToolKind::Asked),
            "ai.generateText" | "ai.streamText" | "ai.generateObject" | "ai.streamObject" => Sort::Agent,
            _ if operation.contains("mbed") || operation.contains("rerank") => Sort::Nothing,
            _ if operation.ends_with(".doGenerate") || operation.ends_with(".doStream") => Sort::Generation,
            _ => Sort::Nothing,
        }
    }
}
