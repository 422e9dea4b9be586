//! What `codex exec --json` prints: no times, no request but the whole turn's tokens, items that begin and end.

use std::collections::HashMap;

use super::super::line::{By, History, InlineResult, LineContent, Sums};
use super::Reader;
use crate::importers::recording::{Text, call_hash, hash};
use crate::json::tree::Value;

/// What was read of a run so far.
#[derive(Debug, Default)]
pub(in super::super) struct Run {
    /// Its thread; with a number from the second run of the thread on.
    thread: String,
    /// The calls of its items that have begun, whose own ids begin anew in every run.
    calls: HashMap<String, Text>,
}

impl Reader<'_> {
    /// A line of a stream.
    pub(super) fn streamed(
        &mut self,
        root: Value<'_>,
        number: u64,
        run: &mut Run,
    ) -> (LineContent, &'static str) {
        let line_content = match root.get("type").str().unwrap_or_default() {
            "thread.started" => {
                let id = root.get("thread_id").str().unwrap_or_default();
                let n = self.runs.entry(id.to_owned()).or_insert(0);
                *n += 1;
                let thread = if *n == 1 { id.to_owned() } else { format!("{id}:{n}") };
                *run = Run { thread, calls: HashMap::new() };
                let none = Text::default();
                LineContent::Meta {
                    id: self.recording.text(id),
                    parent: none,
                    forked_from: none,
                    nickname: none,
                    role: none,
                    path: none,
                    internal: none,
                    history: History::default(),
                }
            }
            "turn.started" => LineContent::TurnStart { at: None },
            // What the thread took so far, in a run that resumes it what it took before included.
            "turn.completed" => LineContent::StreamEnd { total: Sums::of(root.get("usage")) },
            "turn.failed" => LineContent::Failed { reason: self.recording.text("turn.failed") },
            "item.started" => return self.begun(root.get("item"), number, run),
            "item.completed" => return self.completed(root.get("item"), number, run),
            "error" => return (LineContent::Nothing, "codex.error"),
            _ => return (LineContent::Nothing, "codex.item_updated"),
        };
        (line_content, "")
    }

    fn begun(&mut self, item: Value<'_>, number: u64, run: &mut Run) -> (LineContent, &'static str) {
        let Some((tool, request)) = request_of(item) else {
            return (LineContent::Nothing, "codex.item_started");
        };
        let id = self.place(number, run);
        run.calls.insert(item.get("id").raw().to_owned(), id);
        (self.item_call(id, tool, request, None), "")
    }

    fn completed(&mut self, item: Value<'_>, number: u64, run: &mut Run) -> (LineContent, &'static str) {
        let begun = run.calls.remove(item.get("id").raw());
        let text = item.get("text").str().unwrap_or_default();
        let kind = match item.get("type").str().unwrap_or_default() {
            "agent_message" => return (LineContent::Message { by: By::Assistant, content: hash(text) }, ""),
            "reasoning" => return (LineContent::Reasoning, "codex.reasoning"),
            "collab_tool_call" => {
                let line_content = self.collaborates(item, number, run);
                return (
                    line_content,
                    if matches!(line_content, LineContent::Nothing) { "codex.collab_tool_call" } else { "" },
                );
            }
            "todo_list" => "codex.todo_list",
            "error" => "codex.error",
            _ => "codex.item_completed",
        };
        let Some((tool, request)) = request_of(item) else { return (LineContent::Nothing, kind) };
        let code = item.get("exit_code").i64().map(|code| code == 0);
        let ok = code.or_else(|| match item.get("status").str() {
            Some("failed" | "declined") => Some(false),
            Some("completed") => Some(true),
            _ => None,
        });
        let output = item.first(&["aggregated_output", "result", "error"]);
        let content = output.exists().then(|| hash(output.str().unwrap_or(output.raw())));
        let line_content = if let Some(call) = begun {
            LineContent::Output {
                call,
                content: content.unwrap_or_else(|| hash("")),
                ok,
                duration_s: None,
                spawned: Text::default(),
                nickname: Text::default(),
                statuses: (0, 0),
                denied: item.get("status").str() == Some("declined"),
            }
        } else {
            let id = self.place(number, run);
            self.item_call(id, tool, request, Some(InlineResult { content, ok, reads: true }))
        };
        (line_content, "")
    }

    /// What agents do with agents.
    fn collaborates(&mut self, item: Value<'_>, number: u64, run: &Run) -> LineContent {
        let call = self.place(number, run);
        let none = Text::default();
        let other = item.get("receiver_thread_ids").elements().next().map_or(none, |id| self.keep(id));
        let prompt = item.get("prompt").some_str().map(hash);
        match item.get("tool").str().unwrap_or_default() {
            "spawn_agent" => {
                LineContent::Spawned { call, child: other, nickname: none, role: none, path: none, prompt }
            }
            "send_input" => LineContent::Told { call, to: other, nickname: none, prompt },
            "resume_agent" => LineContent::Resumed { call, child: other },
            "close_agent" => LineContent::Closed { call, child: other },
            "wait" => {
                let states = item.get("agents_states").members();
                let start = self.statuses.len() as u32;
                for (agent, state) in states {
                    let text = hash(state.get("message").str().unwrap_or_default());
                    let answer = match state.get("status").str() {
                        Some("completed") => Some((text, true)),
                        Some("errored") => Some((text, false)),
                        _ => None,
                    };
                    let agent = self.recording.text(agent);
                    self.statuses.push(super::Status { agent, answer });
                }
                LineContent::Waited { call, statuses: (start, self.statuses.len() as u32) }
            }
            _ => LineContent::Nothing,
        }
    }

    /// `<thread>:<line>:c`.
    fn place(&mut self, number: u64, run: &Run) -> Text {
        self.recording.join(&[&run.thread, ":", &number.to_string(), ":c"])
    }

    fn item_call(
        &mut self,
        id: Text,
        tool: &str,
        request: Value<'_>,
        result: Option<InlineResult>,
    ) -> LineContent {
        let content = call_hash(tool, request);
        let tool = self.recording.text(tool);
        LineContent::Call { id, tool, content, target: Text::default(), prompt: None, result }
    }
}

/// Name and request of what an item calls, named as in rollouts.
fn request_of(item: Value<'_>) -> Option<(&str, Value<'_>)> {
    Some(match item.get("type").str()? {
        "command_execution" => ("exec_command", item.get("command")),
        "file_change" => ("apply_patch", item.get("changes")),
        "mcp_tool_call" => (item.get("tool").str().unwrap_or("mcp_tool"), item.get("arguments")),
        "web_search" => ("web_search", item.get("query")),
        _ => return None,
    })
}
