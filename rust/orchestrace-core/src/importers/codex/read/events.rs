//! Event lines for observers, which repeat much of the history.

use super::super::line::{By, LineContent, Sums};
use super::Reader;
use crate::importers::recording::{Hash, Text, call_hash, hash};
use crate::importers::responses::text_of;
use crate::json::tree::Value;

impl Reader<'_> {
    /// An event for whoever watches; most repeat what the history has.
    pub(super) fn event(&mut self, event: Value<'_>) -> LineContent {
        let call = self.keep(event.first(&["call_id", "callId"]));
        let status = event.get("status").str();
        match event.get("type").str().unwrap_or_default() {
            "token_count" => {
                let info = event.get("info");
                let last = info.get("last_token_usage");
                LineContent::Usage {
                    total: Sums::of(info.get("total_token_usage")),
                    last: Sums::of(if last.exists() { last } else { info }),
                }
                .unless(!info.exists())
            }
            "user_message" => self.echo(By::User, event),
            "agent_message" => self.echo(By::Assistant, event),
            "task_started" | "turn_started" => {
                let at = event.get("started_at").f64().map(|at| at as i64);
                LineContent::TurnStart { at: at.or_else(|| second_of(event.get("turn_id").str()?)) }
            }
            "task_complete" | "turn_complete" | "turn.completed" => LineContent::TurnEnd {
                text: event.get("last_agent_message").some_str().map(hash),
                failed: event.get("error").exists(),
                usage: Sums::of(event.get("usage")),
            },
            "turn_aborted" => {
                let reason = event.get("reason").str().unwrap_or_default();
                LineContent::Aborted {
                    reason: self.recording.text(reason),
                    by_human: matches!(reason, "interrupted" | "replaced"),
                }
            }
            "exec_command_end" => {
                let code = event.get("exit_code").i64();
                let output = event.first(&["formatted_output", "aggregated_output"]);
                let request = call_hash("exec_command", event.get("command"));
                let ok = code.map(|code| code == 0);
                self.end(call, "exec_command", event, ok, output.str().map(hash), Some(request))
            }
            "mcp_tool_call_end" => {
                let invocation = event.get("invocation");
                let result = event.get("result");
                let error = result.path(&["Ok", "isError"]).bool().unwrap_or(false);
                let ok = result.exists().then(|| result.get("Err").is_absent() && !error);
                let name = invocation.get("tool").str().unwrap_or("mcp_tool");
                let request = call_hash(name, invocation.get("arguments"));
                self.end(call, name, event, ok, Some(hash(result.raw())), Some(request))
            }
            "patch_apply_end" => {
                let request = call_hash("apply_patch", event.get("changes"));
                let output = event.get("stdout").str().map(hash);
                self.end(call, "apply_patch", event, event.get("success").bool(), output, Some(request))
            }
            "dynamic_tool_call_response" => {
                let name = event.get("tool").str().unwrap_or("dynamic_tool");
                let request = call_hash(name, event.get("arguments"));
                let output = hash(event.get("content_items").raw());
                self.end(call, name, event, event.get("success").bool(), Some(output), Some(request))
            }
            "item_completed" => {
                let item = event.get("item");
                let tool = item.get("type").str().unwrap_or_default();
                if let Some(by) = [("UserMessage", By::User), ("AgentMessage", By::Assistant)]
                    .iter()
                    .find_map(|(kind, by)| (*kind == tool).then_some(*by))
                {
                    return LineContent::Completed { by, content: hash(&text_of(item.get("content"))) };
                }
                if !matches!(tool, "CommandExecution" | "McpToolCall" | "FileChange") {
                    return LineContent::Nothing;
                }
                let call = self.keep(item.get("id"));
                let code = item.first(&["exit_code", "exitCode"]).i64().map(|code| code == 0);
                let failed = item.get("status").str() == Some("failed");
                let ok = code.or_else(|| failed.then_some(false));
                match self.end(call, tool, item, ok, None, None) {
                    LineContent::End { call, tool, content, request, ok, duration_s, .. } => {
                        LineContent::End { call, tool, content, request, ok, duration_s, stands_alone: false }
                    }
                    other => other,
                }
            }
            "collab_agent_spawn_end" => LineContent::Spawned {
                call,
                child: self.keep(event.get("new_thread_id")),
                nickname: self.keep(event.get("new_agent_nickname")),
                role: self.keep(event.get("new_agent_role")),
                path: Text::default(),
                prompt: event.get("prompt").some_str().map(hash),
            },
            "collab_agent_interaction_end" => LineContent::Told {
                call,
                to: self.keep(event.get("receiver_thread_id")),
                nickname: self.keep(event.get("receiver_agent_nickname")),
                prompt: event.get("prompt").some_str().map(hash),
            },
            "collab_waiting_end" => {
                let named = event.get("agent_statuses").elements();
                let named = named
                    .map(|entry| (entry.get("thread_id").str().unwrap_or_default(), entry.get("status")));
                let statuses = self.statuses(named.chain(event.get("statuses").members()));
                LineContent::Waited { call, statuses }
            }
            "collab_close_end" => {
                LineContent::Closed { call, child: self.keep(event.get("receiver_thread_id")) }
            }
            "collab_resume_end" => {
                LineContent::Resumed { call, child: self.keep(event.get("receiver_thread_id")) }
            }
            "sub_agent_activity" if event.get("kind").str() == Some("started") => LineContent::Spawned {
                call: self.keep(event.get("event_id")),
                child: self.keep(event.get("agent_thread_id")),
                nickname: Text::default(),
                role: Text::default(),
                path: self.keep(event.get("agent_path")),
                prompt: None,
            },
            "sub_agent_activity" => LineContent::Told {
                call: self.keep(event.get("event_id")),
                to: self.keep(event.get("agent_thread_id")),
                nickname: Text::default(),
                prompt: None,
            }
            .unless(event.get("kind").str() != Some("interacted")),
            "context_compacted" => LineContent::Compacted,
            "thread_rolled_back" => {
                LineContent::RolledBack { turns: event.get("num_turns").u64().unwrap_or(0) }
            }
            "guardian_assessment" if status != Some("in_progress") => LineContent::Assessed {
                status: self.keep(event.get("status")),
                risk: self.keep(event.get("risk_level")),
                allowed: match status {
                    Some("approved") => Some(true),
                    Some("denied" | "aborted" | "timed_out") => Some(false),
                    _ => None,
                },
                content: event.get("rationale").str().map(hash),
            },
            "error" => {
                let info = event.first(&["codex_error_info", "error"]);
                let reason = info.str().or_else(|| info.get("kind").str()).or_else(|| {
                    let named = info.members().next().map(|(name, _)| name);
                    named.filter(|_| event.get("error").is_absent())
                });
                LineContent::Failed { reason: self.recording.text(reason.unwrap_or("error")) }
            }
            _ => LineContent::Nothing,
        }
    }

    fn echo(&mut self, by: By, event: Value<'_>) -> LineContent {
        let text = event.get("message").str().unwrap_or_default();
        match by {
            By::User => match self.user(text, None) {
                LineContent::Message { content, .. } => LineContent::Echo { by, content },
                _ => LineContent::Nothing,
            },
            By::Assistant => LineContent::Echo { by, content: hash(text) },
        }
    }

    fn end(
        &mut self,
        call: Text,
        tool: &str,
        event: Value<'_>,
        ok: Option<bool>,
        content: Option<Hash>,
        request: Option<Hash>,
    ) -> LineContent {
        let took = event.get("duration");
        let seconds = took.get("secs").f64().zip(took.get("nanos").f64());
        let duration_s = seconds.map(|(s, n)| s + n / 1e9).filter(|s| *s >= 0.0);
        let tool = self.recording.text(tool);
        LineContent::End { call, tool, content, request, ok, duration_s, stands_alone: true }
            .unless(call.is_none())
    }
}

/// When a uuid of version 7 was made, in whole seconds since the epoch.
fn second_of(uuid: &str) -> Option<i64> {
    let (high, low) = (uuid.get(..8)?, uuid.get(9..13)?);
    let is_dated = uuid.len() == 36 && uuid.as_bytes()[14] == b'7' && uuid.as_bytes()[8] == b'-';
    let millis = i64::from_str_radix(&[high, low].concat(), 16).ok().filter(|_| is_dated)?;
    Some(millis.div_euclid(1000))
}
