//! The events of one conversation of V1.

use std::collections::HashMap;

use super::tasks::{Delegation, Team};
use super::{Conversation, Event, is_of_user, speaker};
use crate::importers::items::TraceItems;
use crate::importers::openhands::clock::Clock;
use crate::importers::openhands::hash_of;
use crate::importers::openhands::ledger::{Ledger, Paid};
use crate::importers::openhands::stream::{Answer, Origin, Pending, Stream};
use crate::importers::recording::{
    Agent, Call, CallResult, Does, Hash, Incoming, Label, Party, Recording, Saying, Text, Usage, call_hash,
    call_hash_of_text,
};
use crate::json::tree::Value;

/// A conversation during its conversion.
pub(super) struct Describing<'r, 'v, 'i> {
    pub items: &'r TraceItems<'i>,
    pub recording: &'r mut Recording,
    pub ledger: &'r mut Ledger<'v>,
    pub team: &'r mut Team,
    pub clock: Clock,
    /// Number of the conversation.
    pub at: usize,
    /// Who asked it.
    pub asked_by: Option<Agent>,
    pub stream: Stream,
    /// Responses that no event is of, in the order of their times.
    pub beside: Vec<Paid<'v>>,
    /// Calls by the id of their event, and ids by that of the provider.
    pub pending: HashMap<&'v str, (Pending, Option<Delegation>)>,
    pub of_tool_call: HashMap<&'v str, &'v str>,
    /// What went wrong, while the agent has done nothing since.
    pub failed: Option<&'v str>,
}

impl<'v> Describing<'_, 'v, '_> {
    /// Whether it goes on beyond what was recorded.
    pub(super) fn describe(mut self, conversation: &Conversation<'v>, is_root: bool) -> bool {
        for event in &conversation.events {
            let time = self.clock.time(event.value);
            self.pay(|paid| !is_of_others(paid.account) && paid.time < time);
            self.recording.made_of(event.item);
            self.event(event);
        }
        self.pay(|_| true);
        // What nobody said finished is not.
        let status = conversation.status().filter(|status| *status != "finished");
        let stopped_by =
            self.failed.or(status.filter(|status| matches!(*status, "error" | "stuck" | "paused")));
        let is_open = status.is_some() || stopped_by.is_some() || !self.stream.answered;
        if let Some(reason) = stopped_by.filter(|_| is_root) {
            let reason: String = reason.chars().take(60).collect();
            self.recording.stopped_by(&reason);
        }
        is_open && !conversation.events.is_empty()
    }

    /// Puts responses that no event is of where they were paid.
    fn pay(&mut self, is_due: impl Fn(&Paid<'v>) -> bool) {
        let (due, later) = std::mem::take(&mut self.beside).into_iter().partition(|paid| is_due(paid));
        self.beside = later;
        for paid in due {
            self.stream.beside(&Origin::of(&paid), paid.account, self.ledger, self.recording);
        }
    }

    fn event(&mut self, event: &Event<'v>) {
        let value = event.value;
        let kind = value.get("kind").str().unwrap_or_default();
        match kind {
            "MessageEvent" if speaker(value) == "agent" => {
                let answer = self.answer(value);
                let content = hash_of(value.path(&["llm_message", "content"]));
                let id = self.id(value);
                self.stream.says(answer, Saying { id, content, ..Saying::default() }, true, self.recording);
            }
            "MessageEvent" => self.hears(value),
            "ActionEvent" => self.acts(value),
            "ObservationEvent" => self.observes(event),
            "UserRejectObservation" => self.refused(value),
            "AgentErrorEvent" => {
                self.failed = Some("AgentErrorEvent");
                let call = self.call_of(value);
                self.result(
                    value,
                    call.map(|call| call.0),
                    hash_of(value.get("error")),
                    Some(false),
                    "error",
                );
            }
            "ConversationErrorEvent" => {
                let code = value.get("code").some_str().unwrap_or("error");
                let from = Party::Named(self.recording.text("environment"));
                let extras = self.recording.extra_text(Text::default(), "x_error_type", code);
                self.reports(value, from, hash_of(value.get("detail")), extras);
                self.failed = Some(code);
            }
            "Condensation" => self.condenses(value),
            "PauseEvent" | "InterruptEvent" => self.interrupts(value),
            _ => self.items.ignored(event.item as usize, &format!("openhands.{}", words(kind))),
        }
    }

    pub(super) fn id(&mut self, event: Value<'v>) -> Text {
        self.recording.text(event.get("id").str().unwrap_or_default())
    }

    pub(super) fn id_with(&mut self, event: Value<'v>, suffix: &str) -> Text {
        self.recording.join(&[event.get("id").str().unwrap_or_default(), ":", suffix])
    }

    /// The response that an event is of; one without an id is its own.
    fn answer(&mut self, event: Value<'v>) -> Answer {
        self.failed = None;
        let score = event.path(&["critic_result", "score"]).f64();
        let id = event.get("llm_response_id").some_str().or(event.get("id").some_str());
        let origin = Origin {
            id: id.unwrap_or_default(),
            time: self.clock.time(event),
            model: "",
            usage: Usage::default(),
            score: score.filter(|score| (0.0..=1.0).contains(score)),
        };
        self.stream.answer(&origin, self.ledger, self.recording)
    }

    fn hears(&mut self, event: Value<'v>) {
        let from = match (self.asked_by, speaker(event)) {
            // Nobody else speaks to a sub-agent.
            (Some(agent), "user") => Party::Agent(agent),
            (None, "user") => Party::User,
            (_, source) => Party::Named(self.recording.text(source)),
        };
        let heard = Incoming {
            id: self.id(event),
            from,
            time: self.clock.time(event),
            content: hash_of(event.path(&["llm_message", "content"])),
            trusted: is_of_user(event).then_some(true),
            intervenes: false,
            decides: Text::default(),
            extras: Text::default(),
        };
        self.stream.hears(heard, self.recording);
    }

    fn acts(&mut self, event: Value<'v>) {
        let answer = self.answer(event);
        let action = event.get("action");
        let kind = action.get("kind").str().unwrap_or_default();
        let closes = matches!(kind, "FinishAction" | "ThinkAction");
        let thought = event.get("thought");
        if let Some(content) = hash_of(thought).filter(|_| !is_blank(thought)) {
            let id = self.id_with(event, "t");
            let saying = Saying { id, content: Some(content), aside: closes, ..Saying::default() };
            self.stream.says(answer, saying, false, self.recording);
        }
        let risk = event.get("security_risk").some_str();
        let mut labeled = self.id(event);
        match kind {
            "FinishAction" | "ThinkAction" => {
                let text = action.first(&["message", "thought"]);
                let aside = kind == "ThinkAction";
                let saying = Saying { id: labeled, content: hash_of(text), aside, ..Saying::default() };
                self.stream.says(answer, saying, !aside, self.recording);
            }
            _ => labeled = self.calls(event, answer, risk),
        }
        if let Some(risk) = risk {
            let (annotator, label) = (self.recording.text("security_risk"), self.recording.text(risk));
            self.recording.label(Label { annotator, entry: labeled, label, ..Label::default() });
        }
    }

    /// A call, or several where one makes several agents work; the id of the first.
    fn calls(&mut self, event: Value<'v>, answer: Answer, risk: Option<&str>) -> Text {
        let tool = event.first(&["tool_name"]).some_str().or(event.path(&["tool_call", "name"]).some_str());
        let tool = tool.unwrap_or("tool");
        let call = Call {
            id: self.id(event),
            tool: self.recording.text(tool),
            content: Some(self.asked_hash(event, tool)),
            // What the model could not judge is not known.
            privileged: risk.filter(|risk| *risk != "UNKNOWN").map(|risk| risk == "HIGH"),
            ..Call::default()
        };
        let delegation = self.delegation(event, &call);
        let first = match &delegation {
            None => {
                self.stream.call(answer, call, self.recording);
                call.id
            }
            Some(delegation) => {
                for (id, agent, _) in &delegation.calls {
                    let call = Call { id: *id, does: Does::Spawns(*agent), ..call };
                    self.stream.call(answer, call, self.recording);
                }
                delegation.calls[0].0
            }
        };
        let asked_at = self.clock.time(event);
        if let Some(id) = event.get("id").some_str() {
            let pending = Pending { stream: self.at, call: first, tool: call.tool, asked_at };
            self.pending.insert(id, (pending, delegation));
            if let Some(tool_call) = event.get("tool_call_id").some_str() {
                self.of_tool_call.insert(tool_call, id);
            }
        }
        first
    }

    fn asked_hash(&self, event: Value<'v>, tool: &str) -> Hash {
        let arguments = event.path(&["tool_call", "arguments"]);
        match arguments.str() {
            Some(text) => call_hash_of_text(tool, text, self.items.limits()),
            None if arguments.exists() => call_hash(tool, arguments),
            None => call_hash(tool, event.get("action")),
        }
    }

    /// The call that an event answers.
    fn call_of(&self, event: Value<'v>) -> Option<(Pending, Option<Delegation>)> {
        let by_action = event.get("action_id").some_str().and_then(|id| self.pending.get(id));
        let tool_call = event.get("tool_call_id").some_str();
        by_action.or_else(|| self.pending.get(self.of_tool_call.get(tool_call?)?)).cloned()
    }

    fn observes(&mut self, event: &Event<'v>) {
        let value = event.value;
        let observation = value.get("observation");
        match observation.get("kind").str() {
            // It says once more what the agent said.
            Some("FinishObservation") => return self.items.duplicate(event.item as usize),
            Some("ThinkObservation") => return self.items.ignored(event.item as usize, "openhands.think"),
            _ => {}
        }
        let content = observation.get("content");
        let content = if content.exists() { content } else { observation.first(&["output"]) };
        let content = hash_of(if content.exists() { content } else { observation });
        let is_error = observation.get("is_error").bool();
        let has_failed = observation.get("status").str() == Some("error");
        let ok = if has_failed { Some(false) } else { is_error.map(|is_error| !is_error) };
        match self.call_of(value) {
            Some((pending, Some(delegation))) => self.returns(value, pending, &delegation, content, ok),
            call => self.result(value, call.map(|call| call.0), content, ok, ""),
        }
    }

    fn result(
        &mut self,
        event: Value<'v>,
        call: Option<Pending>,
        content: Option<Hash>,
        ok: Option<bool>,
        error: &str,
    ) {
        let none = Text::default();
        let result = CallResult {
            call: call.map_or(none, |call| call.call),
            id: self.id(event),
            tool: match call {
                Some(call) => call.tool,
                None => self.recording.text(event.get("tool_name").str().unwrap_or_default()),
            },
            time: self.clock.time(event),
            content,
            ok,
            trusted: Some(false),
            extras: if error.is_empty() {
                none
            } else {
                self.recording.extra_text(none, "x_error_type", error)
            },
            ..CallResult::default()
        };
        self.stream.result(result, call.and_then(|call| call.asked_at), self.recording);
    }

    /// A human refused a call, or a program that was asked to judge it did: then it has no result, or one that failed.
    fn refused(&mut self, event: Value<'v>) {
        let call = self.call_of(event).map(|call| call.0);
        let reason = hash_of(event.get("rejection_reason"));
        if event.get("rejection_source").str() == Some("hook") {
            return self.result(event, call, reason, Some(false), "hook");
        }
        let heard = Incoming {
            id: self.id(event),
            from: Party::User,
            time: self.clock.time(event),
            content: reason,
            trusted: Some(true),
            intervenes: true,
            decides: call.map_or(Text::default(), |call| call.call),
            extras: Text::default(),
        };
        self.stream.hears(heard, self.recording);
    }

    fn interrupts(&mut self, event: Value<'v>) {
        let heard = Incoming {
            id: self.id(event),
            from: Party::User,
            time: self.clock.time(event),
            content: hash_of(event.get("reason")),
            trusted: Some(true),
            intervenes: true,
            decides: Text::default(),
            extras: Text::default(),
        };
        // It does not take back an answer that is there already.
        let answered = self.stream.answered;
        self.stream.hears(heard, self.recording);
        self.stream.answered = answered;
    }

    fn reports(&mut self, event: Value<'v>, from: Party, content: Option<Hash>, extras: Text) {
        let heard = Incoming {
            id: self.id(event),
            from,
            time: self.clock.time(event),
            content,
            trusted: Some(true),
            intervenes: false,
            decides: Text::default(),
            extras,
        };
        self.stream.hears(heard, self.recording);
    }

    /// The context is condensed, by a model if there is a response of it.
    fn condenses(&mut self, event: Value<'v>) {
        if let Some(id) = event.get("llm_response_id").some_str() {
            let listed = self.ledger.of(id).copied();
            let origin = Origin {
                id,
                time: self.clock.time(event),
                model: listed.map_or("", |paid| paid.model),
                ..Origin::default()
            };
            let account = listed.map_or("", |paid| paid.account);
            let entry = self.stream.beside(&origin, account, self.ledger, self.recording);
            let id = self.id(event);
            let content = hash_of(event.get("summary"));
            self.recording.say(entry, Saying { id, content, aside: true, ..Saying::default() });
        }
        self.recording.compaction(self.stream.agent);
    }
}

/// Whether responses of an account are those of sub-agents.
fn is_of_others(account: &str) -> bool {
    account.starts_with("task:") || account.starts_with("delegate:")
}

/// Whether content has no character.
fn is_blank(content: Value<'_>) -> bool {
    crate::importers::responses::text_of(content).trim().is_empty() || content.is_empty()
}

/// The name of a kind as others are spelt: `SystemPromptEvent` is `system_prompt`.
fn words(kind: &str) -> String {
    let mut out = String::new();
    for c in kind.strip_suffix("Event").unwrap_or(kind).chars().take(40) {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '_' });
    }
    out
}
