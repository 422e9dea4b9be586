//! Usage of requests, and ends of turns.

use super::super::line::{Line, Sums};
use super::{Current, Stream, Turn};
use crate::error::FindingCode;
use crate::importers::recording::{Hash, Party, Text, Usage};
use crate::schema::EventType;

impl Stream<'_, '_> {
    /// A running total that is not what the requests sum to stays beside them.
    pub(super) fn compare_totals(&mut self) {
        let Some(total) = self.total.filter(|_| self.thread.copied == 0) else { return };
        let told = total.input.saturating_add(total.output);
        let sum = self.sum.0.saturating_add(self.sum.1);
        if told == sum {
            return;
        }
        self.recording.finding(
            FindingCode::UsageRepeated,
            self.last_response,
            format!("the thread's running total is {told} tokens, but its requests sum to {sum}"),
        );
        if let Some(entry) = self.last_response {
            let extras = self.recording.response_mut(entry).map(|r| r.extras).unwrap_or_default();
            let extras = self.recording.extra(extras, "x_reported_tokens", &told.to_string());
            if let Some(response) = self.recording.response_mut(entry) {
                response.extras = extras;
            }
        }
    }

    pub(super) fn usage(&mut self, line: &Line, total: Option<Sums>, last: Option<Sums>) {
        let before = self.total;
        if let Some((total, before)) = total.zip(before)
            && total.same(before)
        {
            self.repeats(line);
            return;
        }
        self.total = total.or(before);
        let since = total.and_then(|total| total.since(before.unwrap_or_default()));
        let Some(spent) = last.or(since) else { return };
        self.paid_by_request = true;
        self.spend(line, spent);
    }

    pub(super) fn spend(&mut self, line: &Line, spent: Sums) {
        let current = self.current.filter(|current| !current.paid).unwrap_or_else(|| {
            self.current = None;
            self.response(line)
        });
        self.sum.0 = self.sum.0.saturating_add(spent.input);
        self.sum.1 = self.sum.1.saturating_add(spent.output);
        if let Some(response) = self.recording.response_mut(current.entry) {
            response.usage = Usage {
                tokens_in: Some(spent.input),
                tokens_out: Some(spent.output),
                cached: spent.cached,
                cache_write: spent.cache_write,
                reasoning: spent.reasoning,
                ..Usage::default()
            };
        }
        self.current = Some(Current { paid: true, ..current });
    }

    pub(super) fn turn_end(&mut self, line: &Line, text: Option<Hash>, _failed: bool, usage: Option<Sums>) {
        if let Some(text) = text.filter(|_| !self.turn.said) {
            self.says(line, text);
        }
        if let Some(usage) = usage.filter(|_| !std::mem::take(&mut self.paid_by_request)) {
            self.spend(line, usage);
        }
        self.turn = Turn::default();
        self.current = None;
    }

    pub(super) fn aborted(&mut self, line: &Line, reason: Text, by_human: bool) {
        let reason = self.recording.read(reason).to_owned();
        if by_human {
            let extras = self.extras();
            let extras = self.recording.extra_text(extras, "x_aborted", &reason);
            self.mark(line, EventType::HumanIntervention, Party::User, None, None, extras);
        } else if let Some(entry) = self.last_response {
            let extras = self.recording.response_mut(entry).map(|r| r.extras).unwrap_or_default();
            let extras = self.recording.extra_text(extras, "x_aborted", &reason);
            if let Some(response) = self.recording.response_mut(entry) {
                response.extras = extras;
            }
        }
        self.turn = Turn { said: self.turn.said, ..Turn::default() };
        self.current = None;
    }
}
