//! Spans that Claude Code itself exports: `claude_code.interaction` and what is below it. Their attributes have short
//! names that mean this only there.

use std::borrow::Cow;

use super::{Attribute, Facts, Sort};
use crate::importers::items::request_identity;
use crate::importers::recording::Usage;
use crate::importers::spans::ToolKind;

/// Name of the span of a response.
pub(in super::super) const REQUEST: &str = "claude_code.llm_request";

/// Name of the agent that the user talks to, as in its sessions.
const MAIN: &str = "main";

/// What a span of Claude Code says in words of its own.
#[derive(Debug, Default)]
pub(super) struct ClaudeFacts {
    usage: Usage,
    fresh: Option<i64>,
    by_user: bool,
    request: u64,
}

/// What is behind `claude_code.` in the name of a span.
pub(super) fn step(span_name: &str) -> Option<&str> {
    span_name.strip_prefix("claude_code.")
}

impl<'t> Facts<'t> {
    /// The request of a response, by which the session knows it, too ([`request_identity`]).
    pub(super) fn request(&self) -> u64 {
        self.claude.request
    }

    /// Reads an attribute of a span of Claude Code; whether it was one of its own.
    pub(super) fn put_claude_code(&mut self, key: &'t str, a: &Attribute<'t>) -> bool {
        match key {
            // All four stand beside each other.
            "input_tokens" => self.claude.fresh = self.integer(key, a),
            "output_tokens" => self.claude.usage.tokens_out = self.integer(key, a),
            "cache_read_tokens" => self.claude.usage.cached = self.integer(key, a),
            "cache_creation_tokens" => self.claude.usage.cache_write = self.integer(key, a),
            "cost_usd" => self.claude.usage.cost_usd = self.number(key, a),
            "model" => self.model.offer(3, a.clone().filled()),
            "tool_name" => self.tool.offer(3, a.clone().filled()),
            "tool_use_id" => self.call.offer(2, a.clone().filled()),
            "agent_id" => self.agent_id.offer(1, a.clone().filled()),
            "request_id" => {
                self.claude.request = a.clone().filled().map_or(0, |id| request_identity(&id));
            }
            "success" => self.succeeded = a.flag(),
            "source" | "decision_source" => {
                let by = a.clone().filled();
                self.claude.by_user = by.is_some_and(|by| by.starts_with("user"));
            }
            _ => return false,
        }
        true
    }

    /// What a span of Claude Code is.
    pub(super) fn sort_of_claude_code(&mut self, step: &str) -> Sort {
        match step {
            "interaction" => {
                self.agent.offer(0, Some(Cow::Borrowed(MAIN)));
                Sort::Agent
            }
            "llm_request" => {
                let ClaudeFacts { usage, fresh, .. } = &self.claude;
                let cache = usage.cached.unwrap_or(0).saturating_add(usage.cache_write.unwrap_or(0));
                let tokens_in = fresh.map(|fresh| fresh.saturating_add(cache));
                let usage = Usage { tokens_in, ..*usage };
                if usage != Usage::default() {
                    self.told = Some((usage, None));
                }
                Sort::Generation
            }
            "tool" => Sort::Tool(ToolKind::Asked),
            // Rules of the settings decide at once; only a user lets one wait.
            "tool.blocked_on_user" if self.claude.by_user => Sort::Decision,
            _ => Sort::Nothing,
        }
    }
}
