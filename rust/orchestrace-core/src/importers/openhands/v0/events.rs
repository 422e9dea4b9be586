//! Events in order: what agents say, do and ask for.

use super::contents::{asked_hash, text_hash};
use super::{Describing, Event, response_id};
use crate::importers::openhands::ledger::{Paid, usage_of};
use crate::importers::openhands::stream::{Answer, Origin, Pending, Stream};
use crate::importers::recording::{AgentInfo, Call, Does, Incoming, Party, Saying, Text, Usage};
use crate::importers::usage;

/// Actions that use a tool.
const TOOLS: [&str; 9] = [
    "run",
    "run_ipython",
    "read",
    "write",
    "edit",
    "browse",
    "browse_interactive",
    "call_tool_mcp",
    "task_tracking",
];
impl<'v> Describing<'_, 'v, '_> {
    pub(super) fn top(&self) -> usize {
        self.working.last().copied().unwrap_or(0)
    }

    pub(super) fn stream(&mut self) -> &mut Stream {
        let top = self.top();
        &mut self.streams[top]
    }

    pub(super) fn ignored(&self, event: &Event<'v>, kind: &str) {
        let word: String =
            kind.chars().take(40).map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        self.items.ignored(event.item as usize, &format!("openhands.{word}"));
    }

    /// A response that no event is of.
    pub(super) fn beside(&mut self, paid: &Paid<'v>) {
        let top = self.top();
        let origin = Origin::of(paid);
        self.streams[top].beside(&origin, paid.account, &mut self.ledger, self.recording);
    }

    pub(super) fn event(&mut self, event: &Event<'v>) {
        self.recording.made_of(event.item);
        let value = event.value;
        let by_agent = value.get("source").str() == Some("agent");
        if let Some(action) = value.get("action").str() {
            match action {
                "change_agent_state"
                | "null"
                | "recall"
                | "loadskill"
                | "system"
                | "condensation_request" => {
                    self.ignored(event, action);
                }
                "condensation" => {
                    let agent = self.stream().agent;
                    self.recording.compaction(agent);
                }
                "message" if !by_agent => self.hears(event),
                "message" | "think" | "finish" | "reject" if by_agent => self.says(event, action),
                "delegate" if by_agent => self.delegates(event),
                _ if by_agent && (TOOLS.contains(&action) || value.get("tool_call_metadata").exists()) => {
                    self.calls(event, action);
                }
                _ => {
                    self.not_ours.extend(event.id);
                    self.ignored(event, action);
                }
            }
            return;
        }
        match value.get("observation").str().unwrap_or_default() {
            kind @ "agent_state_changed" => {
                self.state = value.path(&["extras", "agent_state"]).str().unwrap_or(self.state);
                self.ignored(event, kind);
            }
            kind @ ("null" | "recall" | "loadskill" | "think" | "condensation" | "system") => {
                self.ignored(event, kind);
            }
            "delegate" => self.delegate_ended(event),
            "user_rejected" => self.refused(event),
            "error" => self.error(event),
            kind => {
                if value.get("cause").integer_like().is_some_and(|cause| self.not_ours.contains(&cause)) {
                    return self.ignored(event, kind);
                }
                let call = self.cause(value);
                self.result(event, kind, call, None);
            }
        }
    }

    /// The id of an event; what has no number is named by its record.
    pub(super) fn id(&mut self, event: &Event<'v>) -> Text {
        let id = event.id.map_or_else(|| format!("r:{}", event.item), |id| id.to_string());
        self.recording.text(&id)
    }

    pub(super) fn hears(&mut self, event: &Event<'v>) {
        let content = event.value.path(&["args", "content"]);
        let stream = &self.streams[self.top()];
        // The task of a delegate is written in the name of the user.
        let asks = match self.working[..] {
            [.., asks, _] if !stream.begun => Some(self.streams[asks].agent),
            _ => None,
        };
        let by_user = event.value.get("source").str() == Some("user");
        let from = match asks {
            Some(asks) => Party::Agent(asks),
            None if by_user => Party::User,
            None => Party::Named(self.recording.text("environment")),
        };
        let heard = Incoming {
            id: self.id(event),
            from,
            time: self.clock.time(event.value),
            content: text_hash(content),
            trusted: by_user.then_some(true),
            intervenes: false,
            decides: Text::default(),
            extras: Text::default(),
        };
        let top = self.top();
        self.streams[top].hears(heard, self.recording);
    }

    /// The response that an action is of.
    pub(super) fn answer(&mut self, event: &Event<'v>) -> Answer {
        let metadata = event.value.path(&["tool_call_metadata", "model_response"]);
        let id = response_id(event.value);
        let fallback = match event.id {
            Some(id) if !event.again => format!("r{id}"),
            _ => format!("r:{}", event.item),
        };
        let stated = metadata.get("usage");
        let last = event.value.path(&["llm_metrics", "token_usages"]).elements().last();
        let usage = match last {
            _ if stated.exists() => usage::of(stated).0,
            Some(last) => usage_of(last),
            None => Usage::default(),
        };
        let origin = Origin {
            id: if id.is_empty() { &fallback } else { id },
            time: self.clock.time(event.value),
            model: metadata.get("model").some_str().unwrap_or(self.model),
            usage,
            score: None,
        };
        let top = self.top();
        self.streams[top].answer(&origin, &mut self.ledger, self.recording)
    }

    /// An action that says something, and does nothing else.
    pub(super) fn says(&mut self, event: &Event<'v>, action: &str) {
        let answer = self.answer(event);
        let args = event.value.get("args");
        let keys: &[&str] = match action {
            "message" => &["content"],
            "think" => &["thought"],
            _ => &["final_thought", "thought"],
        };
        let first = keys.iter().map(|key| args.get(key)).find(|text| text.some_str().is_some());
        let content = first.or_else(|| Some(args.get("outputs")).filter(|outputs| !outputs.is_empty()));
        let saying = Saying {
            id: self.id(event),
            content: text_hash(content.unwrap_or(event.value.get("message"))),
            ok: (action == "reject").then_some(false),
            aside: action == "think",
            ..Saying::default()
        };
        let closes = action != "think";
        let top = self.top();
        self.streams[top].says(answer, saying, closes, self.recording);
    }

    /// What the model says beside a call.
    pub(super) fn thinks_aloud(&mut self, event: &Event<'v>, answer: Answer) {
        let thought = event.value.path(&["args", "thought"]);
        if thought.some_str().is_some() {
            let id = self.id(event);
            let id = self.recording.read(id).to_owned();
            let id = self.recording.join(&[&id, ":t"]);
            let saying = Saying { id, content: text_hash(thought), ..Saying::default() };
            let top = self.top();
            self.streams[top].says(answer, saying, false, self.recording);
        }
    }

    /// A call with what it asks for.
    pub(super) fn asks(&mut self, event: &Event<'v>, tool: &str, does: Does) -> usize {
        let answer = self.answer(event);
        let call = self.id(event);
        let tool_text = self.recording.text(tool);
        let content = Some(asked_hash(event.value, tool, self.items.limits()));
        let top = self.top();
        let asked_at = self.clock.time(event.value);
        self.streams[top].call(
            answer,
            Call { id: call, tool: tool_text, does, content, ..Call::default() },
            self.recording,
        );
        if let Some(id) = event.id {
            self.pending.insert(id, Pending { stream: top, call, tool: tool_text, asked_at });
            self.unanswered.insert(id);
            if let Some(tool_call) = event.value.path(&["tool_call_metadata", "tool_call_id"]).some_str() {
                self.of_tool_call.insert(tool_call, id);
            }
        }
        self.thinks_aloud(event, answer);
        self.streams[top].answered = false;
        top
    }

    pub(super) fn calls(&mut self, event: &Event<'v>, action: &'v str) {
        let named = event.value.path(&["tool_call_metadata", "function_name"]).some_str();
        self.asks(event, named.unwrap_or(action), Does::UsesTool);
    }

    /// Events up to what the delegate gives back are its own.
    pub(super) fn delegates(&mut self, event: &Event<'v>) {
        let name = event.value.path(&["args", "agent"]).some_str().unwrap_or("delegate");
        let name = self.recording.text(name);
        let child = self.recording.agent(AgentInfo { name, ..AgentInfo::default() });
        let call = self.id(event);
        self.delegations.push(call);
        self.asks(event, "delegate", Does::Spawns(child));
        self.working.push(self.streams.len());
        self.streams.push(Stream::new(child));
    }
}
