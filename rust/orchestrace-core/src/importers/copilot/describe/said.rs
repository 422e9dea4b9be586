//! What is said: prompts, responses with their calls, and what tools give back.

use std::collections::BTreeSet;

use super::super::record::Event;
use super::super::usage::of_request;
use super::{Last, Open, Session};
use crate::error::FindingCode;
use crate::importers::recording::{
    Agent, Call, CallResult, Does, Entry, Hash, Incoming, Party, Response, Saying, Text, Usage, call_hash,
    call_hash_of_text, hash,
};
use crate::json::Kind;
use crate::json::tree::Value;

/// The tool that asks the user.
const ASKS: &str = "ask_user";

impl<'v> Session<'_, '_, 'v> {
    /// Something said to an agent. In the middle of its work the user breaks in.
    pub(super) fn user(&mut self, event: &Event<'v>) {
        let agent = self.team.owner(event);
        let source = self.text_of(event.data.get("source"), "user.message.source");
        let mut content = self.text_of(event.data.get("content"), "user.message.content");
        if content.is_empty() {
            content = event.data.get("transformedContent").str().unwrap_or_default();
        }
        let by = source.strip_prefix("agent-").and_then(|id| self.team.named(id)).filter(|by| *by != agent);
        let parent = self.recording.agent_info(agent).parent;
        let is_first =
            matches!(self.stream(agent).last, Last::Nothing) && self.stream(agent).unread.is_none();
        if agent != self.team.root && is_first && (source.is_empty() || by == parent) {
            // The call that spawned it says it, too.
            self.items.duplicate(event.item as usize);
            self.stream(agent).last = Last::Prompt;
            return;
        }
        let from = match by.or(parent.filter(|_| source.is_empty() || source.starts_with("agent-"))) {
            Some(by) => Party::Agent(by),
            None => Party::User,
        };
        let is_human = source.is_empty() && event.data.get("isAutopilotContinuation").bool() != Some(true);
        let intervenes = match event.data.get("delivery").str() {
            Some("steering") => true,
            Some("idle" | "queued") => false,
            _ => self.is_at_work(agent),
        };
        let mut extras = Text::default();
        if !source.is_empty() {
            extras = self.recording.extra_text(extras, "x_source", source);
        }
        let incoming = Incoming {
            id: self.id(event),
            from,
            time: event.time,
            content: event.data.first(&["content", "transformedContent"]).str().map(|_| hash(content)),
            // What the program says in the name of the user may come from anywhere.
            trusted: (is_human || from != Party::User).then_some(true),
            intervenes: intervenes && is_human && from == Party::User,
            decides: Text::default(),
            extras,
        };
        self.hears(agent, incoming);
    }

    /// What the user asked, where a hook alone says it.
    pub(super) fn prompt_of_hook(&mut self, event: &Event<'v>, prompt: &str) {
        let agent = self.team.owner(event);
        let incoming = Incoming {
            id: self.id(event),
            from: Party::User,
            time: event.time,
            content: Some(hash(prompt)),
            trusted: Some(true),
            intervenes: self.is_at_work(agent),
            decides: Text::default(),
            extras: Text::default(),
        };
        self.hears(agent, incoming);
    }

    /// The user runs a tool. The agent reads what it printed, so that it is not trusted.
    pub(super) fn user_tool(&mut self, event: &Event<'v>) {
        let agent = self.team.owner(event);
        let tool = self.text_of(event.data.get("toolName"), "toolName");
        let extras = self.recording.extra_text(Text::default(), "x_tool", tool);
        let incoming = Incoming {
            id: self.id(event),
            from: Party::User,
            time: event.time,
            content: Some(self.hash_of_call(tool, event.data.get("arguments"))),
            trusted: Some(false),
            intervenes: true,
            decides: Text::default(),
            extras,
        };
        self.hears(agent, incoming);
    }

    fn hears(&mut self, agent: Agent, incoming: Incoming) {
        self.recording.incoming(agent, incoming);
        let stream = self.stream(agent);
        (stream.last, stream.open) = (Last::Prompt, None);
    }

    fn is_at_work(&mut self, agent: Agent) -> bool {
        match &self.stream(agent).last {
            Last::Results => true,
            Last::Response(calls, _) => !calls.is_empty(),
            _ => false,
        }
    }

    /// A response, or more of one.
    pub(super) fn message(&mut self, at: usize, event: &Event<'v>) {
        let agent = self.team.owner(event);
        let data = event.data;
        let api_call = self.text_of(data.get("apiCallId"), "apiCallId");
        let written = self.count(data.get("outputTokens"), "outputTokens");
        let earlier = self.stream(agent).of_id.get(api_call).copied().filter(|_| !api_call.is_empty());
        let entry = match earlier {
            Some(entry) => {
                self.states_again(entry, written);
                entry
            }
            None => self.begins(agent, event, api_call, written),
        };
        let text = self.text_of(data.get("content"), "assistant.message.content");
        if !text.is_empty() {
            self.says(agent, event, entry, text);
        }
        let requests = data.get("toolRequests");
        if requests.exists() && requests.kind() != Some(Kind::Array) {
            self.misfit("toolRequests");
        }
        let mut calls = match std::mem::take(&mut self.stream(agent).last) {
            Last::Response(calls, _) if earlier.is_some() => calls,
            _ => BTreeSet::default(),
        };
        for request in requests.elements() {
            if request.kind() != Some(Kind::Object) {
                self.misfit("toolRequests");
                continue;
            }
            calls.insert(self.call(at, agent, entry, request));
        }
        let has_text = self.stream(agent).open.as_ref().is_some_and(|open| !open.text.is_empty());
        self.stream(agent).last = Last::Response(calls, has_text);
    }

    fn begins(&mut self, agent: Agent, event: &Event<'v>, api_call: &'v str, written: Option<i64>) -> Entry {
        let model = self.text_of(event.data.get("model"), "model");
        let of_agent = match self.team.child_of(agent) {
            Some(child) => child.model.unwrap_or_default(),
            None => self.model,
        };
        let response = Response {
            id: self.id(event),
            time: event.time,
            model: self.recording.text(if model.is_empty() { of_agent } else { model }),
            usage: Usage { tokens_out: written, ..Usage::default() },
            ..Response::default()
        };
        let entry = self.recording.response(agent, response);
        let stream = self.stream(agent);
        stream.open = Some(Open { entry, saying: None, text: String::new() });
        stream.unread = Some(entry);
        if !api_call.is_empty() {
            stream.of_id.insert(api_call, entry);
        }
        entry
    }

    /// Messages of one response may each state what it wrote, which counts once.
    fn states_again(&mut self, entry: Entry, written: Option<i64>) {
        self.ledger.corrects(entry);
        let Some(response) = self.recording.response_mut(entry) else { return };
        let before = response.usage.tokens_out;
        response.usage.tokens_out = before.max(written);
        if let (Some(before), Some(written)) = (before, written)
            && before != written
        {
            let message = format!(
                "messages of one response state that it wrote {before} and {written} tokens; the larger counts"
            );
            self.recording.finding(FindingCode::UsageConflict, Some(entry), message);
        }
    }

    /// Texts of one response are one, unless something came in between.
    fn says(&mut self, agent: Agent, event: &Event<'v>, entry: Entry, text: &str) {
        let id = self.id(event);
        let stream = self.stream(agent);
        let Some(open) = stream.open.as_mut().filter(|open| open.entry == entry) else {
            stream.open = Some(Open { entry, saying: None, text: text.to_owned() });
            let saying =
                Saying { id, content: Some(hash(text)), time: event.time, apart: true, ..Saying::default() };
            self.recording.say(entry, saying);
            return;
        };
        open.text += text;
        let (content, saying) = (hash(&open.text), open.saying);
        if let Some(saying) = saying.and_then(|saying| self.recording.saying_mut(saying)) {
            saying.content = Some(content);
            return;
        }
        let saying = self.recording.say(entry, Saying { content: Some(content), ..Saying::default() });
        if let Some(open) = &mut self.stream(agent).open {
            open.saying = Some(saying);
        }
    }

    fn call(&mut self, at: usize, agent: Agent, entry: Entry, request: Value<'v>) -> &'v str {
        let id = self.text_of(request.get("toolCallId"), "toolRequests.toolCallId");
        let tool = self.text_of(request.get("name"), "toolRequests.name");
        let call = self.called(at, agent, (id, tool), request.get("arguments"));
        self.recording.call(entry, call);
        id
    }

    fn called(
        &mut self,
        at: usize,
        agent: Agent,
        (id, tool): (&'v str, &'v str),
        arguments: Value<'v>,
    ) -> Call {
        if tool == ASKS {
            self.asking.insert(id);
        }
        let child = self.team.asked_by(at, id).filter(|child| child.agent != agent);
        Call {
            id: self.recording.text(id),
            tool: self.recording.text(tool),
            does: child.map_or(Does::UsesTool, |child| Does::Spawns(child.agent)),
            content: Some(self.hash_of_call(tool, arguments)),
            ..Call::default()
        }
    }

    fn hash_of_call(&self, tool: &str, arguments: Value<'_>) -> Hash {
        match arguments.str() {
            Some(text) => call_hash_of_text(tool, text, self.items.limits()),
            None => call_hash(tool, arguments),
        }
    }

    /// A tool begins: what nobody asked for by a message is a call of its own.
    pub(super) fn tool_begins(&mut self, at: usize, event: &Event<'v>) {
        let id = self.text_of(event.data.get("toolCallId"), "toolCallId");
        self.began.insert(id, event.time);
        if self.requested.contains(id) || self.by_user.contains(id) {
            return;
        }
        let agent = self.team.owner(event);
        let tool = self.text_of(event.data.get("toolName"), "toolName");
        let call = self.called(at, agent, (id, tool), event.data.get("arguments"));
        let id_of_event = if id.is_empty() { self.id(event) } else { call.id };
        self.recording.lone_call(agent, Call { id: id_of_event, time: event.time, ..call });
        let stream = self.stream(agent);
        stream.open = None;
        stream.last = match std::mem::take(&mut stream.last) {
            Last::Response(mut calls, has_text) => {
                calls.insert(id);
                Last::Response(calls, has_text)
            }
            _ => Last::Response(std::iter::once(id).collect(), false),
        };
    }

    /// What a call gave back.
    pub(super) fn tool_ends(&mut self, at: usize, event: &Event<'v>) {
        let agent = self.team.owner(event);
        let data = event.data;
        let id = self.text_of(data.get("toolCallId"), "toolCallId");
        let success = data.get("success");
        if success.exists() && success.bool().is_none() {
            self.misfit("success");
        }
        let output = data.get("result");
        let text = output.get("content").str().or(output.str()).or(data.path(&["error", "message"]).str());
        if text.is_none() && output.get("content").exists() {
            self.misfit("result.content");
        }
        let took =
            self.began.remove(id).flatten().zip(event.time).map(|(began, end)| end.saturating_sub(began));
        let child = self.team.back_from(id, agent);
        let mut extras = Text::default();
        if let Some(code) = data.path(&["error", "code"]).some_str() {
            extras = self.recording.extra_text(extras, "x_error_type", code);
        }
        let is_end = child.is_some_and(|child| child.result == Some(at));
        if let Some(child) = child.filter(|_| is_end) {
            for (key, count) in [("x_reported_tokens", child.tokens), ("x_reported_tool_calls", child.calls)]
            {
                if let Some(count) = count {
                    extras = self.recording.extra(extras, key, &count.to_string());
                }
            }
        }
        let result = CallResult {
            call: self.recording.text(id),
            id: if id.is_empty() { self.id(event) } else { Text::default() },
            tool: Text::default(),
            time: event.time,
            duration_s: took.filter(|took| *took >= 0).map(|took| took as f64 / 1e9),
            content: text.map(hash),
            ok: success.bool(),
            // What the model itself wrote of a child comes with the child.
            trusted: Some(false),
            launched: child.is_some() && !is_end,
            by_user: self.asking.contains(id) && success.bool() == Some(true),
            extras,
            ..CallResult::default()
        };
        let entry = self.recording.result(agent, result);
        if let Some(child) = child.filter(|_| is_end) {
            self.states_for_all(child.agent, child.tokens, entry);
        }
        let stream = self.stream(agent);
        stream.open = None;
        stream.last = match std::mem::take(&mut stream.last) {
            Last::Response(mut calls, has_text) => {
                calls.remove(id);
                if calls.is_empty() { Last::Results } else { Last::Response(calls, has_text) }
            }
            _ => Last::Results,
        };
    }

    /// What an answer of a provider took: of the response with its id, else of the last one of which nobody said it.
    pub(super) fn usage(&mut self, event: &Event<'v>) {
        let agent = self.team.owner(event);
        let usage = of_request(event.data);
        let took = event.data.get("duration").f64().filter(|took| *took >= 0.0);
        let api_call = event.data.get("apiCallId").some_str();
        let stream = self.stream(agent);
        let entry = match api_call {
            Some(id) => stream.of_id.get(id).copied(),
            None => stream.unread,
        };
        let model = event.data.get("model").some_str().unwrap_or_default();
        let Some(entry) = entry else {
            return self.beside(agent, event, usage, (took, model));
        };
        self.stream(agent).unread = None;
        self.ledger.corrects(entry);
        if let Some(response) = self.recording.response_mut(entry) {
            let written = usage.tokens_out.or(response.usage.tokens_out);
            response.usage = Usage { tokens_out: written, ..usage };
            response.duration_s = took.map(|took| took / 1e3);
        }
    }

    /// A response that nothing else is recorded of.
    pub(super) fn beside(
        &mut self,
        agent: Agent,
        event: &Event<'v>,
        usage: Usage,
        (took, model): (Option<f64>, &str),
    ) {
        let response = Response {
            id: self.id(event),
            time: event.time,
            duration_s: took.map(|took| took / 1e3),
            model: self.recording.text(model),
            usage,
            ..Response::default()
        };
        let entry = self.recording.response(agent, response);
        self.recording.say(entry, Saying { aside: true, ..Saying::default() });
    }

    /// A request failed that somebody waits for the answer of.
    pub(super) fn error(&mut self, event: &Event<'v>) -> bool {
        let agent = self.team.owner(event);
        if !matches!(self.stream(agent).last, Last::Prompt | Last::Results) {
            return false;
        }
        let kind = self.text_of(event.data.get("errorType"), "errorType");
        let extras = self.recording.extra_text(Text::default(), "x_error_type", kind);
        let response =
            Response { id: self.id(event), time: event.time, ok: Some(false), extras, ..Response::default() };
        self.recording.response(agent, response);
        let stream = self.stream(agent);
        (stream.last, stream.open) = (Last::Stopped, None);
        true
    }
}
