//! What comes back: results, errors and refusals.

use super::contents::text_hash;
use super::{Describing, Event};
use crate::importers::openhands::stream::Pending;
use crate::importers::recording::{CallResult, Incoming, Party, Text};
use crate::json::tree::Value;

impl<'v> Describing<'_, 'v, '_> {
    pub(super) fn delegate_ended(&mut self, event: &Event<'v>) {
        let call = self.cause(event.value).or_else(|| {
            // Nobody but who waits for the one that works can have asked it.
            let waits = *self.working.iter().rev().nth(1)?;
            let of_waiting = |id: &&i64| self.pending.get(id).is_some_and(|call| call.stream == waits);
            let last = *self.unanswered.iter().rev().find(of_waiting)?;
            self.unanswered.remove(&last);
            self.pending.get(&last).copied()
        });
        self.goes_on(call);
        self.result(event, "delegate", call, None);
    }

    /// Who made a call works again, and nobody below it.
    fn goes_on(&mut self, call: Option<Pending>) {
        if let Some(at) = call.and_then(|call| self.working.iter().position(|stream| *stream == call.stream))
        {
            self.working.truncate(at + 1);
        }
    }

    /// The same of a call that failed or was refused, if it would have made a delegate work.
    fn delegation_fails(&mut self, call: Option<Pending>) {
        let id = call.map(|call| self.recording.read(call.call).to_owned());
        let is_one = |delegation: &Text| Some(self.recording.read(*delegation)) == id.as_deref();
        if self.delegations.iter().any(is_one) {
            self.goes_on(call);
        }
    }

    /// The call that an observation answers.
    pub(super) fn cause(&mut self, observation: Value<'v>) -> Option<Pending> {
        let tool_call = observation.path(&["tool_call_metadata", "tool_call_id"]).some_str();
        let cause = observation.get("cause").integer_like().filter(|cause| self.pending.contains_key(cause));
        let number = cause.or_else(|| self.of_tool_call.get(tool_call?).copied())?;
        self.unanswered.remove(&number);
        self.pending.get(&number).copied()
    }

    pub(super) fn result(
        &mut self,
        event: &Event<'v>,
        kind: &str,
        call: Option<Pending>,
        error: Option<&str>,
    ) {
        let mut extras = Text::default();
        if let Some(error) = error {
            extras = self.recording.extra_text(extras, "x_error_type", error);
        }
        let result = CallResult {
            call: call.map_or(Text::default(), |call| call.call),
            id: self.id(event),
            tool: call.map_or_else(|| self.recording.text(kind), |call| call.tool),
            time: self.clock.time(event.value),
            content: text_hash(event.value.get("content")),
            ok: if error.is_some() { Some(false) } else { went_well(event.value) },
            trusted: Some(false),
            extras,
            ..CallResult::default()
        };
        let stream = call.map_or_else(|| self.top(), |call| call.stream);
        self.streams[stream].result(result, call.and_then(|call| call.asked_at), self.recording);
    }

    /// What went wrong: the call that it names, else the only one that nothing came back of.
    pub(super) fn error(&mut self, event: &Event<'v>) {
        let error = event.value.path(&["extras", "error_id"]).some_str().unwrap_or("error");
        let error = if error.is_empty() { "error" } else { error };
        let top = self.top();
        let call = self.cause(event.value).or_else(|| {
            let of_top = |id: &&i64| self.pending.get(id).is_some_and(|call| call.stream == top);
            let mut waiting = self.unanswered.iter().filter(of_top);
            let only = waiting.next().filter(|_| waiting.next().is_none()).copied()?;
            self.unanswered.remove(&only);
            self.pending.get(&only).copied()
        });
        self.delegation_fails(call);
        if call.is_some() {
            return self.result(event, "error", call, Some(error));
        }
        let extras = self.recording.extra_text(Text::default(), "x_error_type", error);
        let from = Party::Named(self.recording.text("environment"));
        self.reports(event, from, Text::default(), false, extras);
    }

    /// A human refused an action, which then was not done.
    pub(super) fn refused(&mut self, event: &Event<'v>) {
        let call = self.cause(event.value);
        self.delegation_fails(call);
        let call = call.map_or(Text::default(), |call| call.call);
        self.reports(event, Party::User, call, true, Text::default());
    }

    pub(super) fn reports(
        &mut self,
        event: &Event<'v>,
        from: Party,
        decides: Text,
        intervenes: bool,
        extras: Text,
    ) {
        let heard = Incoming {
            id: self.id(event),
            from,
            time: self.clock.time(event.value),
            content: text_hash(event.value.get("content")),
            trusted: Some(true),
            intervenes,
            decides,
            extras,
        };
        self.stream().begun = true;
        let top = self.top();
        self.streams[top].hears(heard, self.recording);
    }
}

/// Whether a tool did what it was asked for.
fn went_well(observation: Value<'_>) -> Option<bool> {
    let extras = observation.get("extras");
    let code = extras.path(&["metadata", "exit_code"]).i64().or_else(|| extras.get("exit_code").i64());
    let failed = extras.get("error").bool();
    code.map(|code| code == 0).or(observation.get("success").bool()).or(failed.map(|failed| !failed))
}
