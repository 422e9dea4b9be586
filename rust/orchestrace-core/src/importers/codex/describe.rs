//! Conversion of threads to a recording: one stream per thread, in sequence.
//!
//! A response is what stands between two changes of the running totals of tokens: reasoning, texts and calls; a
//! result or an input ends it too. It was complete with its last item, and began with the last input before it or
//! with the end of the response before it, whichever is later.

use std::collections::HashMap;

use super::facts::Facts;
use super::line::{By, Line, LineContent};
use super::team::Team;
use super::threads::{Group, Thread};
use crate::error::FindingCode;
use crate::importers::items::TraceItems;
use crate::importers::recording::{
    Agent, Entry, Hash, Incoming, Mark, Party, Recording, Response, Saying, Text,
};
use crate::schema::EventType;

mod agents;
mod printed;
mod results;
mod usage;

use usage::Accounts;

/// Describes the threads of a group.
pub(super) fn describe(group: &Group, items: &TraceItems<'_>, recording: &mut Recording) {
    let Group { threads, .. } = group;
    recording.trace.trace_id = group.id;
    recording.trace.system = recording.text("codex");
    recording.trace.partial = items.is_partial();
    recording.trace.started_at =
        threads.iter().filter_map(|thread| thread.own_lines().find_map(|l| l.time)).min();
    let mut team = Team::of(group, recording);
    // A page goes on with earlier ones, which then are missing.
    recording.trace.partial |=
        threads.iter().any(|thread| thread.history.is_page && thread.history.base_to > Some(0));
    for (index, thread) in threads.iter().enumerate() {
        let own_id = recording.read(thread.id);
        for line in &thread.lines[..thread.copied] {
            if !matches!(line.content, LineContent::Meta { id, .. } if recording.read(id) == own_id) {
                items.duplicate(line.item as usize);
            }
        }
        let is_told =
            |line: &&Line| !line.unused.is_none() && !matches!(line.content, LineContent::Reasoning);
        for line in thread.own_lines().filter(is_told) {
            items.ignored(line.item as usize, recording.read(line.unused));
        }
        let facts = Facts::of(thread, recording);
        Stream::new(group, index, &facts, &mut team, items, recording).describe();
    }
}

/// The response that is being written.
#[derive(Debug, Clone, Copy)]
struct Current {
    entry: Entry,
    /// Whether its usage is known, so that what follows is of another one.
    paid: bool,
    /// Whether something was put in since.
    over: bool,
    /// Whether more than reasoning is known of it.
    shown: bool,
    texts: u32,
    /// When it began.
    began: Option<i64>,
}

/// What happened so far in a turn.
#[derive(Debug, Clone, Copy, Default)]
struct Turn {
    /// Whether it goes on.
    open: bool,
    /// Whether the model has done something in it, and said something.
    begun: bool,
    said: bool,
}

/// One thread during its conversion.
struct Stream<'a, 'i> {
    thread: &'a Thread,
    group: &'a Group,
    facts: &'a Facts,
    team: &'a mut Team,
    items: &'a TraceItems<'i>,
    recording: &'a mut Recording,
    agent: Agent,
    id: String,
    model: Text,
    current: Option<Current>,
    /// When the last input was, and when the last response or turn ended: nobody works twice at once.
    input: Option<i64>,
    ended: Option<i64>,
    accounts: Accounts,
    /// When calls were asked, and their tools.
    asked: HashMap<String, (Option<i64>, Text)>,
    turn: Turn,
    /// Whether this turn's usage was recorded per request.
    paid_by_request: bool,
    prompted: bool,
    last_response: Option<Entry>,
    /// Reasoning of the last response while nothing else is known of it.
    reasoning: Vec<(u32, Text)>,
    /// Index among own lines, and whether it was taken back later.
    at: usize,
    abandoned: bool,
}

impl<'a, 'i> Stream<'a, 'i> {
    fn new(
        group: &'a Group,
        index: usize,
        facts: &'a Facts,
        team: &'a mut Team,
        items: &'a TraceItems<'i>,
        recording: &'a mut Recording,
    ) -> Self {
        let thread = &group.threads[index];
        let agent = team.of_thread[index];
        let id = recording.read(thread.id).to_owned();
        // Totals go on counting from those of the thread that was copied.
        let copied = thread.lines[..thread.copied].iter().rev();
        let total = copied.filter_map(|line| match line.content {
            LineContent::Usage { total, .. } => total,
            _ => None,
        });
        let total = total.take(1).next();
        Self {
            thread,
            group,
            facts,
            team,
            items,
            recording,
            agent,
            id,
            model: Text::default(),
            current: None,
            input: None,
            ended: None,
            accounts: Accounts::after(total),
            asked: HashMap::new(),
            turn: Turn::default(),
            paid_by_request: false,
            prompted: false,
            last_response: None,
            reasoning: Vec::new(),
            at: 0,
            abandoned: false,
        }
    }

    fn describe(mut self) {
        self.recording.agent_info(self.agent).open = self.facts.open;
        let thread = self.thread;
        for (at, line) in thread.own_lines().enumerate() {
            self.at = at;
            if at + thread.copied == thread.inherited {
                // What it inherits ended when the other thread worked, and long before.
                (self.input, self.ended, self.current) = (None, None, None);
            }
            self.recording.made_of(line.item);
            self.abandoned = self.facts.abandoned.contains(&at);
            self.line(line);
        }
        if self.facts.timeless > 0 && self.facts.timeless < thread.lines.len() {
            let n = self.facts.timeless;
            self.recording.finding(
                FindingCode::FieldIgnored,
                None,
                format!("{n} lines have no readable time; they get the time of the line before"),
            );
        }
        self.compare_totals();
        self.beside_printed();
    }

    /// `<thread>:<line>`, in further files of the thread `<thread>:<page>:<line>`.
    fn id_of(&mut self, line: &Line) -> Text {
        self.id_with(line, "")
    }

    fn id_with(&mut self, line: &Line, suffix: &str) -> Text {
        let number = line.number.to_string();
        if line.page.is_none() {
            return self.recording.join(&[&self.id, ":", &number, suffix]);
        }
        let page = self.recording.read(line.page).to_owned();
        self.recording.join(&[&self.id, ":", &page, ":", &number, suffix])
    }

    fn extras(&mut self) -> Text {
        if self.abandoned {
            self.recording.extra(Text::default(), "x_abandoned", "true")
        } else {
            Text::default()
        }
    }

    fn used_as(&self, line: &Line, kind: &str) {
        self.items.ignored(line.item as usize, kind);
    }

    fn repeats(&self, line: &Line) {
        self.items.duplicate(line.item as usize);
    }

    fn line(&mut self, line: &Line) {
        match line.content {
            LineContent::Nothing
            | LineContent::Completed { .. }
            | LineContent::Meta { .. }
            | LineContent::RolledBack { .. } => {}
            LineContent::Context { model } => {
                self.model = model;
                self.input = line.time.or(self.input);
            }
            LineContent::TurnStart { .. } => {
                self.turn = Turn { open: true, ..Turn::default() };
                self.current = None;
                self.put_in(line);
            }
            LineContent::StreamEnd { total } => self.stream_end(line, total),
            LineContent::TurnEnd { text, failed, usage } => self.turn_end(line, text, failed, usage),
            LineContent::Aborted { reason, by_human } => self.aborted(line, reason, by_human),
            LineContent::Message { by: By::User, content } | LineContent::Echo { by: By::User, content } => {
                self.user(line, content);
            }
            LineContent::Message { by: By::Assistant, content } => self.says(line, content),
            LineContent::Echo { by: By::Assistant, content } => {
                if self.facts.repeated.contains(&self.at) {
                    self.repeats(line);
                } else {
                    self.says(line, content);
                }
            }
            LineContent::Wrapped => self.put_in(line),
            LineContent::Notice(statuses) => {
                self.put_in(line);
                self.deliver(line, statuses);
            }
            LineContent::Reasoning => drop(self.response(line)),
            LineContent::Call { .. } => self.call(line),
            LineContent::Output { .. } => self.output(line),
            LineContent::End { .. } => self.end(line),
            LineContent::Usage { total, last } => self.usage(line, total, last),
            LineContent::Spent { .. } => self.spent(line),
            LineContent::Spawned { .. }
            | LineContent::Told { .. }
            | LineContent::Waited { .. }
            | LineContent::Closed { .. }
            | LineContent::Resumed { .. }
            | LineContent::AgentMessage { .. } => self.collaboration(line),
            LineContent::Compacted => {
                self.current = None;
                self.recording.compaction(self.agent);
            }
            LineContent::Assessed { status, risk, allowed, content } => {
                let mut extras = self.extras();
                for (key, text) in [("x_status", status), ("x_risk_level", risk)] {
                    if !text.is_none() {
                        let text = self.recording.read(text).to_owned();
                        extras = self.recording.extra_text(extras, key, &text);
                    }
                }
                let by = Party::Named(self.recording.text("guardian"));
                self.mark(line, EventType::SafetyEvent, by, allowed, content, extras);
            }
            LineContent::Failed { reason } => {
                self.current = None;
                let reason = self.recording.read(reason).to_owned();
                let current = self.response(line);
                let extras = self.recording.response_mut(current.entry).map(|r| r.extras);
                let extras = self.recording.extra_text(extras.unwrap_or_default(), "x_error_type", &reason);
                if let Some(response) = self.recording.response_mut(current.entry) {
                    response.ok = Some(false);
                    response.extras = extras;
                }
                self.current = None;
            }
        }
    }

    /// Something that the model reads next.
    fn put_in(&mut self, line: &Line) {
        self.input = line.time.or(self.input);
        if let Some(current) = &mut self.current {
            current.over = true;
        }
    }

    /// The response that an item is of.
    fn response(&mut self, line: &Line) -> Current {
        let open = self.current.filter(|current| !current.paid && !current.over);
        let current = open.unwrap_or_else(|| {
            let id = self.id_of(line);
            let mut extras = self.extras();
            if !self.thread.internal.is_none() {
                let why = self.recording.read(self.thread.internal).to_owned();
                extras = self.recording.extra_text(extras, "x_internal", &why);
            }
            let response = Response { id, model: self.model, extras, ..Response::default() };
            let entry = self.recording.response(self.agent, response);
            self.last_response = Some(entry);
            self.reasoning.clear();
            let began = self.input.max(self.ended);
            Current { entry, paid: false, over: false, shown: false, texts: 0, began }
        });
        // Reasoning is read only if nothing else records the response.
        let is_reasoning = matches!(line.content, LineContent::Reasoning);
        if is_reasoning {
            self.reasoning.push((line.item, line.unused));
        }
        let current = Current { shown: current.shown || !is_reasoning, ..current };
        if current.shown {
            for (item, kind) in self.reasoning.drain(..) {
                self.items.ignored(item as usize, self.recording.read(kind));
            }
        }
        self.current = Some(current);
        self.turn.begun = true;
        if let Some(response) = self.recording.response_mut(current.entry) {
            response.time = line.time.max(response.time);
            response.duration_s = response.time.zip(current.began).map(|(end, start)| seconds(start, end));
            self.ended = self.ended.max(response.time);
        }
        current
    }

    fn says(&mut self, line: &Line, content: Hash) {
        let current = self.response(line);
        // The first text of a response has its id.
        let id = if current.texts == 0 { Text::default() } else { self.id_of(line) };
        let extras = self.extras();
        self.recording.say(current.entry, Saying { id, content: Some(content), extras, ..Saying::default() });
        self.current = Some(Current { texts: current.texts + 1, ..current });
        self.turn.said = true;
    }

    fn user(&mut self, line: &Line, content: Hash) {
        self.put_in(line);
        if self.facts.repeated.contains(&self.at) {
            return self.repeats(line);
        }
        if self.facts.context.contains(&self.at) {
            return self.used_as(line, "codex.context");
        }
        let child = !self.thread.parent.is_none();
        let first = !std::mem::replace(&mut self.prompted, true);
        if child && (first || self.team.prompts.contains(&content)) {
            // The message of its parent is recorded there.
            return self.repeats(line);
        }
        let id = self.id_of(line);
        let intervenes = self.turn.open && self.turn.begun;
        let extras = self.extras();
        self.recording.incoming(
            self.agent,
            Incoming {
                id,
                from: Party::User,
                time: line.time,
                content: Some(content),
                trusted: Some(true),
                intervenes,
                decides: Text::default(),
                extras,
            },
        );
    }

    fn mark(
        &mut self,
        line: &Line,
        event_type: EventType,
        by: Party,
        ok: Option<bool>,
        content: Option<Hash>,
        extras: Text,
    ) {
        let id = self.id_with(line, ":m");
        self.recording.mark(
            self.agent,
            Mark {
                event_type,
                id,
                by: Some(by),
                to: Some(self.agent),
                time: line.time,
                content,
                trusted: Some(true),
                ok,
                tool: Text::default(),
                extras,
            },
        );
    }
}

fn seconds(start: i64, end: i64) -> f64 {
    end.saturating_sub(start).max(0) as f64 / 1e9
}
