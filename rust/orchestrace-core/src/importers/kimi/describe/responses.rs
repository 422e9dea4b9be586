//! Steps of the model: each is a response, with its usage and with the requests that nobody answered.

use std::collections::BTreeSet;

use super::super::KIMI;
use super::super::line::Line;
use super::super::usage::Read;
use super::{Describing, Last, Paid};
use crate::error::FindingCode;
use crate::importers::kind::counted_as;
use crate::importers::recording::{Entry, Response, Saying, Usage, hash};
use crate::json::Kind;

impl<'v> Describing<'_, 'v> {
    /// A line of the agent's loop.
    pub(super) fn event(&mut self, at: usize, line: &Line<'v>) -> Option<String> {
        let (kind, event) = line.event()?;
        let step = self.steps.of_line.get(&at).copied();
        match (kind, step) {
            ("step.begin", Some(step)) => {
                if self.steps.all[step].begin == at {
                    self.step = Some(step);
                } else {
                    self.items.duplicate(line.item as usize);
                }
            }
            ("step.end", Some(step)) => {
                if std::mem::replace(&mut self.ended[step], true) {
                    self.items.duplicate(line.item as usize);
                    return None;
                }
                let entry = self.tell_step(step);
                let read = Read::of(event.get("usage"));
                self.paid = Some(Paid { entry, read });
            }
            (_, Some(step)) => {
                self.tell_step(step);
            }
            ("tool.result", None) => {
                let call = self.steps.call_of.get(&at).copied();
                let id = self.text_of(event.first(&["toolCallId", "parentUuid"]), "event.toolCallId");
                let result = event.get("result");
                let (output, failed) = match result.kind() {
                    Some(Kind::Object) => (result.get("output"), result.get("isError")),
                    _ => (result, result.absent()),
                };
                self.result(line, (id, call), output, failed);
            }
            _ => return Some(counted_as(KIMI, kind)),
        }
        None
    }

    /// The response of a step, which is told with the first line that shows it.
    pub(super) fn tell_step(&mut self, at: usize) -> Entry {
        if let Some(entry) = self.told[at] {
            return entry;
        }
        let step = std::mem::take(&mut self.steps.all[at]);
        let is_stopped = step.end.is_none() && step.is_cancelled;
        let stop = step.end.map_or("", |end| self.text_of(end.get("finishReason"), "event.finishReason"));
        let read =
            Read::of(step.end.map_or_else(|| self.lines[step.begin].value.absent(), |end| end.get("usage")));
        if read.is_misfit {
            self.misfit("event.usage");
        }
        let part_extras = self.extras();
        let mut extras = part_extras;
        if step.requests > 1 {
            extras = self.recording.extra(extras, "x_retries", &(step.requests - 1).to_string());
        }
        if is_stopped {
            extras = self.recording.extra_text(extras, "x_error_type", "cancelled");
        }
        let id = self.step_id(step.id, step.begin);
        let response = Response {
            id,
            time: step.answered(self.lines),
            duration_s: step.took(self.lines),
            model: self.recording.text(step.model),
            usage: self.counted(&read),
            ok: is_stopped.then_some(false),
            extras,
            ..Response::default()
        };
        let entry = self.recording.response(self.agent, response);
        self.told[at] = Some(entry);
        self.tell_usage(&read, entry);
        let mut text = String::new();
        for part in &step.parts {
            let part = self.lines[*part].value.path(&["event", "part"]);
            match part.get("type").str() {
                Some("text") => text += self.text_of(part.get("text"), "event.part.text"),
                // Reasoning, images.
                Some(_) => {}
                None => self.misfit("event.part.type"),
            }
        }
        let mut open = BTreeSet::new();
        for line in &step.calls {
            open.insert(self.call(entry, *line));
        }
        let has_text = !text.is_empty();
        if has_text {
            self.said.insert(hash(&text));
            let saying = Saying { content: Some(hash(&text)), extras: part_extras, ..Saying::default() };
            self.recording.say(entry, saying);
        }
        // One that wants tools and has no call is cut.
        let is_whole = has_text && step.end.is_some() && !matches!(stop, "tool_use" | "tool_calls");
        self.last = if is_stopped { Last::Stopped } else { Last::Response(open, is_whole) };
        self.steps.all[at] = step;
        entry
    }

    /// Usage of a response that counts here.
    pub(super) fn counted(&mut self, read: &Read) -> Usage {
        let Some(origin) = self.origin else { return read.usage };
        let (responses, tokens) = self.oddities.inherited.entry(origin).or_default();
        (*responses, *tokens) = (*responses + 1, tokens.saturating_add(read.usage.total().unwrap_or(0)));
        Usage::default()
    }

    pub(super) fn tell_usage(&mut self, read: &Read, entry: Entry) {
        if read.is_empty && self.origin.is_none() {
            let message = "a response states a usage of 0 in all: what it took is not known";
            self.recording.finding(FindingCode::UsageIncomplete, Some(entry), message);
        }
        if let Some(name) = &read.unknown {
            let message = format!("usage has a count '{name}', which no rule knows");
            self.recording.finding(FindingCode::UsageUnknown, Some(entry), message);
        }
    }

    /// Tells requests that nobody answered, once the turn is over or the next step begins.
    pub(super) fn unanswered(&mut self, at: usize) {
        let Some(step) = self.step.map(|step| &self.steps.all[step]) else { return };
        if step.stopped != Some(at) || step.is_answered() || step.has_loss || step.requests == 0 {
            return;
        }
        let line = &self.lines[at];
        let is_end = matches!(line.kind(), "turn.cancel" | "turn.ended");
        let (id, model, requests, asked) = (step.id, step.model, step.requests, step.asked);
        let (begin_at, is_cancelled) = (step.begin, step.is_cancelled);
        self.recording.made_of(self.lines[begin_at].item);
        let mut extras = self.extras();
        if requests > 1 {
            extras = self.recording.extra(extras, "x_retries", &(requests - 1).to_string());
        }
        if is_cancelled {
            extras = self.recording.extra_text(extras, "x_error_type", "cancelled");
        }
        let response = Response {
            id: self.step_id(id, begin_at),
            time: line.time.filter(|_| is_end).or(asked),
            model: self.recording.text(model),
            ok: Some(false),
            extras,
            ..Response::default()
        };
        self.recording.response(self.agent, response);
        self.last = Last::Stopped;
    }

    /// What a request took. That of a step says again what the step's end says; any other is of a request beside the
    /// steps: for a summary, or for a title.
    pub(super) fn usage(&mut self, line: &Line<'v>) -> Option<String> {
        let read = Read::of(line.value.get("usage"));
        let model = self.text_of(line.value.get("model"), "model");
        let is_of_step = line.value.get("usageScope").str() != Some("session");
        let open = self.step.filter(|step| !self.ended[*step]).and_then(|step| self.steps.all[step].end);
        // It may be written before the end.
        if is_of_step && open.is_some_and(|end| Read::of(end.get("usage")) == read) {
            self.items.duplicate(line.item as usize);
            self.name_model(self.step.and_then(|step| self.told[step]), model);
            return None;
        }
        match self.paid.take().filter(|_| is_of_step) {
            Some(paid) if paid.read == read => {
                self.items.duplicate(line.item as usize);
                self.name_model(Some(paid.entry), model);
            }
            Some(paid) if !paid.read.states() => {
                let usage = self.counted(&read);
                if let Some(response) = self.recording.response_mut(paid.entry) {
                    response.usage = usage;
                }
                self.name_model(Some(paid.entry), model);
                self.tell_usage(&read, paid.entry);
            }
            Some(paid) => {
                let total = |read: &Read| read.usage.total().unwrap_or(0);
                let message = format!(
                    "'usage.record' states {} tokens, the end of its step {}, which count",
                    total(&read),
                    total(&paid.read)
                );
                self.recording.finding(FindingCode::UsageConflict, Some(paid.entry), message);
            }
            None => self.beside(line, &read, model),
        }
        if read.is_misfit {
            self.misfit("usage");
        }
        None
    }

    /// The model of a response whose request names none.
    pub(super) fn name_model(&mut self, response: Option<Entry>, model: &str) {
        let model = self.recording.text(model);
        if let Some(response) = response.and_then(|entry| self.recording.response_mut(entry))
            && response.model.is_none()
        {
            response.model = model;
        }
    }

    /// A request that no step records.
    pub(super) fn beside(&mut self, line: &Line<'v>, read: &Read, model: &str) {
        let (asked, summarizes) = std::mem::take(&mut self.summary);
        let took = |asked| line.time.map(|end| end.saturating_sub(asked)).filter(|took| *took >= 0);
        let model = if summarizes.is_empty() { model } else { summarizes };
        let response = Response {
            id: self.id_of(line),
            time: line.time,
            duration_s: asked.and_then(took).map(|took| took as f64 / 1e9),
            model: self.recording.text(model),
            usage: self.counted(read),
            helps: true,
            extras: self.extras(),
            ..Response::default()
        };
        let entry = self.recording.response(self.agent, response);
        self.tell_usage(read, entry);
    }
}
