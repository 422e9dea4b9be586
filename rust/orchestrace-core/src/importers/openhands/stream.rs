//! What one agent of a conversation said, did and received, in order.

use std::collections::HashMap;

use super::ledger::{Ledger, Paid};
use crate::importers::recording::{
    Agent, Call, CallResult, Entry, Incoming, Recording, Response, Saying, Text, Usage,
};

/// What an event says of the response that it is of.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Origin<'v> {
    pub id: &'v str,
    pub time: Option<i64>,
    pub model: &'v str,
    pub usage: Usage,
    pub score: Option<f64>,
}

impl<'v> Origin<'v> {
    /// What the lists say of a response that no event is of.
    pub(super) fn of(paid: &Paid<'v>) -> Self {
        Self { id: paid.id, time: paid.time, model: paid.model, usage: paid.usage, score: None }
    }
}

/// A response that an event is of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    entry: Entry,
    /// Whether something came in since it began.
    apart: bool,
    time: Option<i64>,
}

/// A call that something can come back of.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pending {
    /// Whose, by number of its stream.
    pub stream: usize,
    pub call: Text,
    pub tool: Text,
    pub asked_at: Option<i64>,
}

/// One agent's part.
#[derive(Debug)]
pub(super) struct Stream {
    pub agent: Agent,
    responses: HashMap<String, Entry>,
    /// The last response, while nothing came in after it.
    current: Option<Entry>,
    /// When the last response was complete, and when the last input came.
    ended: Option<i64>,
    heard: Option<i64>,
    /// Whether anything happened in it.
    pub begun: bool,
    /// Whether the last thing in it is an answer.
    pub answered: bool,
}

impl Stream {
    pub(super) fn new(agent: Agent) -> Self {
        Self {
            agent,
            responses: HashMap::new(),
            current: None,
            ended: None,
            heard: None,
            begun: false,
            answered: false,
        }
    }

    /// The response that an event is of: several may be of one.
    pub(super) fn answer(
        &mut self,
        origin: &Origin<'_>,
        ledger: &mut Ledger<'_>,
        recording: &mut Recording,
    ) -> Answer {
        self.begun = true;
        let time = origin.time;
        if let Some(entry) = self.responses.get(origin.id).copied() {
            // It has its usage; whether this event states the same is told at the end.
            let _paid = ledger.settle(origin.id, origin.usage);
            return Answer { entry, apart: self.current != Some(entry), time };
        }
        let listed = ledger.of(origin.id).copied();
        let model = [origin.model, listed.map_or("", |paid| paid.model)];
        let model = model.into_iter().find(|model| !model.is_empty()).unwrap_or_default();
        let response = Response {
            id: recording.text(origin.id),
            time,
            duration_s: listed.and_then(|paid| paid.latency_s).or_else(|| self.took(time)),
            model: recording.text(model),
            usage: ledger.settle(origin.id, origin.usage),
            score: origin.score,
            ..Response::default()
        };
        let entry = recording.response(self.agent, response);
        self.responses.insert(origin.id.to_owned(), entry);
        self.current = Some(entry);
        self.ended = time.max(self.ended);
        Answer { entry, apart: false, time }
    }

    /// A response that no event of the agent is of: a request that was tried again, work of a condenser. The next one reads
    /// the same.
    pub(super) fn beside(
        &mut self,
        origin: &Origin<'_>,
        account: &str,
        ledger: &mut Ledger<'_>,
        recording: &mut Recording,
    ) -> Entry {
        let none = Text::default();
        let response = Response {
            id: recording.text(origin.id),
            time: origin.time,
            duration_s: ledger
                .of(origin.id)
                .and_then(|paid| paid.latency_s)
                .or_else(|| self.took(origin.time)),
            model: recording.text(origin.model),
            usage: ledger.settle(origin.id, origin.usage),
            helps: true,
            extras: if account.is_empty() { none } else { recording.extra_text(none, "x_usage_id", account) },
            ..Response::default()
        };
        self.begun = true;
        self.ended = origin.time.max(self.ended);
        recording.response(self.agent, response)
    }

    /// Who works never works twice at once (R3).
    fn took(&self, time: Option<i64>) -> Option<f64> {
        let began = self.heard.max(self.ended)?;
        Some(time?.saturating_sub(began).max(0) as f64 / 1e9)
    }

    pub(super) fn call(&mut self, answer: Answer, call: Call, recording: &mut Recording) {
        let time = answer.time.filter(|_| answer.apart);
        recording.call(answer.entry, Call { time, ..call });
        self.answered = false;
    }

    /// A text; `closes` if nothing is to come after it.
    pub(super) fn says(&mut self, answer: Answer, saying: Saying, closes: bool, recording: &mut Recording) {
        let time = answer.time.filter(|_| answer.apart);
        recording.say(answer.entry, Saying { time, apart: answer.apart, ..saying });
        self.answered = closes;
    }

    /// What a call gave back, at its end.
    pub(super) fn result(&mut self, result: CallResult, asked_at: Option<i64>, recording: &mut Recording) {
        let took = asked_at
            .zip(result.time)
            .map(|(asked_at, time)| time.saturating_sub(asked_at).max(0) as f64 / 1e9);
        let time = result.time;
        recording.result(self.agent, CallResult { duration_s: took, ..result });
        self.comes(time);
    }

    pub(super) fn hears(&mut self, heard: Incoming, recording: &mut Recording) {
        recording.incoming(self.agent, heard);
        self.comes(heard.time);
    }

    /// Something came in.
    fn comes(&mut self, time: Option<i64>) {
        (self.begun, self.answered, self.current) = (true, false, None);
        self.heard = time.max(self.heard);
    }
}
