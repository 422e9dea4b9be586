//! Usage of requests, and ends of turns.

use std::collections::HashSet;

use super::super::line::{Line, LineContent, Sums};
use super::{Current, Stream, Turn};
use crate::error::FindingCode;
use crate::importers::recording::{Entry, Hash, Party, Text, Usage};
use crate::schema::EventType;

/// What a thread took so far, as its lines state it in several ways.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    /// What its requests sum to, for the totals to be compared with.
    spent: i64,
    /// What the totals count of the history that it goes on with.
    inherited: i64,
    /// Whether a usage was read.
    begun: bool,
    /// The last running total, that of what was copied included.
    total: Option<Sums>,
    /// Running totals of the counts, and of the records of responses.
    of_counts: Option<Sums>,
    of_records: Option<Sums>,
    /// Responses with a record, and the usages of records and of counts that the other kind has not stated yet.
    responses: HashSet<String>,
    recorded: Vec<Sums>,
    counted: Vec<Sums>,
    /// What the records of the turn sum to, and the first turn whose total is another one.
    turn: i64,
    odd_turn: Option<(i64, i64)>,
    /// The first response whose tokens have no parts, how many there are, and their tokens.
    unsplit: Option<(Entry, usize, i64)>,
}

impl Accounts {
    /// Those of a thread that goes on from this running total.
    pub(super) fn after(total: Option<Sums>) -> Self {
        Self { total, ..Self::default() }
    }

    /// A total that is this response's own begins a turn.
    fn compare_turn(&mut self, stated: Option<i64>, used: Sums) {
        let Some(stated) = stated else { return };
        let sum = self.turn.saturating_add(used.all());
        self.turn = if stated == used.all() { stated } else { sum };
        if self.turn != stated {
            self.odd_turn = self.odd_turn.or(Some((stated, self.turn)));
        }
    }
}

/// Takes an equal usage out of a list; whether there was one.
fn take(list: &mut Vec<Sums>, wanted: Sums) -> bool {
    let at = list.iter().position(|known| {
        (known.input, known.output, known.all()) == (wanted.input, wanted.output, wanted.all())
    });
    at.map(|at| list.remove(at)).is_some()
}

impl Stream<'_, '_> {
    /// Totals that are not what the requests sum to stay beside them, and so do totals without parts.
    pub(super) fn compare_totals(&mut self) {
        let Accounts { spent, inherited, of_counts, of_records, unsplit, odd_turn, .. } = self.accounts;
        let mut reported = None;
        for total in [of_records, of_counts].into_iter().flatten() {
            let total_of_source = total.all().saturating_sub(inherited);
            if total_of_source != spent && reported.is_none() {
                reported = Some(total_of_source);
                let words = ("the thread's running total is", "its requests");
                self.recording.other_total(
                    self.last_response,
                    Some(self.agent),
                    total_of_source,
                    spent,
                    words,
                );
            }
        }
        if let Some((stated, sum)) = odd_turn {
            let words = ("the running total of a turn is", "its requests");
            self.recording.other_total(self.last_response, Some(self.agent), stated, sum, words);
        }
        if let Some((entry, n, tokens)) = unsplit {
            self.recording.finding(
                FindingCode::UsageUnsplit,
                Some(entry),
                format!(
                    "{n} responses state {tokens} tokens in all and no parts; their input and output are null"
                ),
            );
        }
        if let Some((entry, total_of_source)) = self.last_response.zip(reported) {
            let extras = self.recording.response_mut(entry).map(|r| r.extras).unwrap_or_default();
            let extras = self.recording.extra(extras, "x_reported_tokens", &total_of_source.to_string());
            if let Some(response) = self.recording.response_mut(entry) {
                response.extras = extras;
            }
        }
    }

    /// What the thread took so far, as it states or as its requests sum to.
    pub(super) fn running_total(&self) -> i64 {
        let Accounts { spent, inherited, total, .. } = &self.accounts;
        total.map_or(0, Sums::all).max(spent.saturating_add(*inherited))
    }

    /// Running totals of a thread after a request.
    pub(super) fn usage(&mut self, line: &Line, total: Option<Sums>, last: Option<Sums>) {
        let before = self.accounts.total;
        if let Some((total, before)) = total.zip(before)
            && total.same(before)
        {
            self.repeats(line);
            return;
        }
        self.accounts.total = total.or(before);
        self.accounts.of_counts = self.accounts.total;
        let since = total.and_then(|total| total.since(before.unwrap_or_default()));
        let Some(spent) = last.or(since) else { return };
        self.inherit(total, spent);
        self.paid_by_request = true;
        if take(&mut self.accounts.recorded, spent) {
            return self.repeats(line);
        }
        if self.facts.has_records {
            self.accounts.counted.push(spent);
        }
        self.spend(line, spent);
    }

    /// What one response took, by its id.
    pub(super) fn spent(&mut self, line: &Line) {
        let LineContent::Spent { response, used, thread, turn, compacts } = line.content else { return };
        let id = self.recording.read(response);
        let is_new = id.is_empty() || self.accounts.responses.insert(id.to_owned());
        if let Some(used) = used.filter(|_| is_new) {
            self.inherit(thread, used);
            self.accounts.of_records = thread.or(self.accounts.of_records);
            self.paid_by_request = true;
            if take(&mut self.accounts.counted, used) {
                self.repeats(line);
            } else {
                self.accounts.recorded.push(used);
                self.spend(line, used);
            }
            self.accounts.compare_turn(turn, used);
        } else if !compacts {
            self.repeats(line);
        }
        if compacts {
            self.current = None;
            self.recording.compaction(self.agent);
        }
    }

    /// The totals of a thread that goes on with another one's history count from those of the other.
    fn inherit(&mut self, total: Option<Sums>, spent: Sums) {
        let is_first = !std::mem::replace(&mut self.accounts.begun, true);
        let total = total.filter(|_| is_first && self.thread.inherits());
        if let Some(total) = total {
            self.accounts.inherited = total.all().saturating_sub(spent.all()).max(0);
        }
    }

    pub(super) fn spend(&mut self, line: &Line, spent: Sums) {
        let current = self.current.filter(|current| !current.paid).unwrap_or_else(|| {
            self.current = None;
            self.response(line)
        });
        self.accounts.spent = self.accounts.spent.saturating_add(spent.counted());
        if spent.is_unsplit() {
            let (entry, n, tokens) = self.accounts.unsplit.unwrap_or((current.entry, 0, 0));
            self.accounts.unsplit = Some((entry, n + 1, tokens.saturating_add(spent.all())));
        }
        if let Some(response) = self.recording.response_mut(current.entry) {
            response.usage = if spent.is_unsplit() {
                Usage { tokens: Some(spent.all()), ..Usage::default() }
            } else {
                Usage {
                    tokens_in: Some(spent.input),
                    tokens_out: Some(spent.output),
                    cached: spent.cached,
                    cache_write: spent.cache_write,
                    reasoning: spent.reasoning,
                    ..Usage::default()
                }
                .beside_total(spent.whole)
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
        self.ended = self.ended.max(line.time);
        self.current = None;
    }

    /// The end of a turn whose tokens are known by what its thread took so far.
    pub(super) fn stream_end(&mut self, line: &Line, total: Option<Sums>) {
        let before = self.accounts.total.unwrap_or_default();
        self.accounts.total = total.or(self.accounts.total);
        if let Some(spent) = total.map(|total| total.since(before).unwrap_or(total)) {
            self.spend(line, spent);
        }
        self.turn_end(line, None, false, None);
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
