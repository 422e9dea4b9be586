//! Conversion of a session to a recording, one agent's stream after the other.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};

use super::super::recording::{
    Agent, Call, Does, Entry, Hash, Party, Recording, Response, Saying, Text, Usage,
};
use super::helped::Helped;
use super::printed;
use super::printed::Total;
use super::record::{Act, Assistant, Block, Code, Ends, Line, LineContent, Outcome, Records, Use, User};
use super::streams::Streams;
use super::texts::SpokenPiece;
use crate::error::FindingCode;
use crate::importers::TraceItems;

/// Describes a session.
pub(super) fn describe(
    items: &TraceItems<'_>,
    records: &Records,
    streams: Streams,
    cycle: bool,
    recording: &mut Recording,
) {
    // Of a team the session of the one that leads.
    let lead = records.names.name(records.lead);
    let is_team = records.lines.iter().any(|line| line.is_member);
    let id = if is_team && !lead.is_empty() { lead } else { printed::session_of(items.key()).0 };
    recording.trace.trace_id = recording.text(id);
    recording.trace.system = recording.text("claude-code");
    recording.trace.started_at = records.began;
    if cycle {
        let message = "'parentUuid' closes a cycle; the importer cuts it there";
        recording.finding(FindingCode::FieldIgnored, None, message);
    }
    let abandoned = recording.extra(Text::default(), "x_abandoned", "true");
    let mut teller = Teller {
        items,
        records,
        streams,
        recording,
        agents: Vec::new(),
        silent: HashMap::new(),
        by_id: HashMap::new(),
        by_name: HashMap::new(),
        sent: HashSet::new(),
        returned: HashMap::new(),
        wakes: HashMap::new(),
        runs: HashMap::new(),
        launches: Vec::new(),
        answered_by_journal: HashSet::new(),
        members: HashMap::new(),
        resumed: HashMap::new(),
        spent: HashMap::new(),
        reported: Vec::new(),
        heard: HashMap::new(),
        unanswered: Vec::new(),
        abandoned,
        counts_in: 0,
        inherited: BTreeMap::new(),
        main_sum: (0, 0),
    };
    teller.cast();
    for at in 0..teller.streams.list.len() {
        teller.stream(at);
    }
    teller.answers();
    teller.totals();
    teller.beside();
    teller.inherited();
    let sum = teller.main_sum;
    if let Some(total) = Total::of_all(&records.totals, sum) {
        total.compare(sum, teller.recording);
    }
}

pub(super) struct Teller<'a> {
    pub(super) items: &'a TraceItems<'a>,
    pub(super) records: &'a Records,
    pub(super) streams: Streams,
    pub(super) recording: &'a mut Recording,
    /// Agent of each stream.
    pub(super) agents: Vec<Agent>,
    /// Agents of delegating calls that have no stream, by block.
    pub(super) silent: HashMap<u32, Agent>,
    pub(super) by_id: HashMap<Code, Agent>,
    pub(super) by_name: HashMap<Code, Agent>,
    /// Contents of messages between agents: what arrives has been recorded where it was sent.
    pub(super) sent: HashSet<Hash>,
    /// What calls and notices gave back of the work of each agent, in order.
    pub(super) returned: HashMap<Agent, Vec<Returned>>,
    /// How often each agent was made to work.
    pub(super) wakes: HashMap<Agent, u32>,
    /// Runs of workflows, by the task and the call that launched them.
    pub(super) runs: HashMap<Code, Code>,
    /// What launched runs, in order: run, time, call.
    pub(super) launches: Vec<(Code, Option<i64>, Code)>,
    /// Items of journals that an answer was made of.
    pub(super) answered_by_journal: HashSet<u32>,
    /// The agents of each run.
    pub(super) members: HashMap<Code, Vec<Agent>>,
    /// Agents that messages made work again, by the call.
    pub(super) resumed: HashMap<Code, Code>,
    /// The responses of each agent whose usage somebody may report.
    pub(super) spent: HashMap<Agent, Vec<Spent>>,
    /// What was reported of the last response of an agent, and when.
    pub(super) reported: Vec<(Agent, Option<i64>, i64)>,
    /// How often each agent had been made to work when a notice found that it had answered, though its lines go on.
    pub(super) heard: HashMap<Agent, u32>,
    /// Agents that worked on when their own records end.
    pub(super) unanswered: Vec<Agent>,
    pub(super) abandoned: Text,
    /// The trace that the lines of now are repeated from; 0 is none.
    counts_in: Code,
    /// Responses and tokens that count in other traces.
    pub(super) inherited: BTreeMap<Code, (u64, i64)>,
    /// What the main stream read and wrote.
    main_sum: (i64, i64),
}

/// What came back of the work of an agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Returned {
    /// What the answer is called after: the call, or the agent.
    pub(super) stem: Text,
    pub(super) content: Hash,
    pub(super) time: Option<i64>,
    pub(super) item: u32,
    /// How often the agent had been made to work.
    pub(super) wakes: u32,
    pub(super) by: By,
    /// Whether it says what the agent answered, not only that it ended.
    pub(super) is_said: bool,
}

/// How work comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum By {
    /// As the result of the call that asked for it.
    Result,
    /// As what a call says of work in the background.
    Output,
    /// In a notice.
    Notice,
}

/// What is known of the usage of a response.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spent {
    pub(super) entry: Entry,
    pub(super) time: Option<i64>,
    pub(super) tokens: i64,
    /// Whether no line of it is known to be the last.
    pub(super) is_open: bool,
}

/// A response while its lines are read.
pub(super) struct Open {
    pub(super) entry: Entry,
    pub(super) usage: Usage,
    /// What it says, in pieces: each follows on something that came back within the response, but for the first.
    pub(super) pieces: Vec<SpokenPiece>,
    /// Whether something came back since.
    pub(super) is_back: bool,
    pub(super) calls: u32,
    pub(super) time: Option<i64>,
    pub(super) wants_tools: bool,
    /// Whether a line is the last state of it.
    pub(super) ends: Ends,
    /// Whether it decides about others, which is an event before those of its calls.
    pub(super) decides: bool,
    pub(super) extras: Text,
    /// The trace that its usage counts in, if that is another one; 0 is this.
    pub(super) counts_in: Code,
}

/// The state of one stream.
#[derive(Default)]
pub(super) struct Running {
    pub(super) open: Vec<Open>,
    /// Place in `open`, by response.
    pub(super) known: HashMap<Code, usize>,
    /// Calls without a result so far.
    pub(super) asked: HashSet<Code>,
    pub(super) last: Last,
    /// What was typed while the agent worked, and is not heard of again.
    pub(super) queue: Vec<(User, Option<i64>)>,
    /// What reached the agent while it worked.
    pub(super) heard: Vec<Hash>,
    pub(super) abandoned: bool,
    /// What other models did for responses that are not told so far.
    pub(super) helped: HashMap<Code, Helped>,
    /// Responses that others had heard of before their lines say so.
    pub(super) heard_by: HashMap<Code, i64>,
    /// The answer that a call gave, until the agent says something else.
    pub(super) answer: Option<(Code, Returned)>,
}

impl Running {
    /// Whether the agent has answered with a text, and waits.
    pub(super) fn is_closed(&self) -> bool {
        let Last::Response(open) = self.last else { return false };
        let open = &self.open[open];
        !open.wants_tools && self.asked.is_empty() && !open.pieces.is_empty()
    }

    /// Whether the call that gave the answer failed, or when it was accepted.
    pub(super) fn accepted(&mut self, outcome: &Outcome, line: &Line) {
        match &mut self.answer {
            Some((call, _)) if *call == outcome.call && outcome.failed => self.answer = None,
            Some((call, answer)) if *call == outcome.call => {
                (answer.time, answer.item) = (line.time.or(answer.time), line.item);
            }
            _ => {}
        }
    }
}

/// The last thing of a conversation.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    #[default]
    Nothing,
    Response(usize),
    Result,
    Stopped,
    Prompt,
    /// An answer that is no text of a response.
    Answer,
}

impl Teller<'_> {
    pub(super) fn name(&mut self, code: Code) -> Text {
        self.recording.text(self.records.names.name(code))
    }

    fn stream(&mut self, at: usize) {
        let agent = self.agents[at];
        let lines = std::mem::take(&mut self.streams.list[at].lines);
        let mut running = Running::default();
        let first = self.streams.list[at].first;
        let mut returned = self.returned.get(&agent).cloned().unwrap_or_default().into_iter().peekable();
        let mut notices = self.notices(agent).into_iter().peekable();
        let mut origins = self.origins(&lines).into_iter();
        running.helped = self.helped(&lines);
        for (place, number) in lines.iter().enumerate() {
            let line = &self.records.lines[*number as usize];
            while let Some(notice) = notices.next_if(|notice| notice.time < line.time) {
                self.had(agent, &notice, &lines[place..], &mut running);
            }
            self.counts_in = origins.next().unwrap_or_default();
            self.recording.made_of(line.item);
            if line.abandoned != running.abandoned {
                running.abandoned = line.abandoned;
                running.last = Last::Nothing;
            }
            // Perhaps the agent answered, or the last results came, in the record that is lost.
            if line.after_loss {
                running.last = Last::Nothing;
            }
            if let LineContent::User(user) = &line.content
                && first != Some(*number)
                && self.asks(user)
            {
                let mut missing = None;
                while let Some(back) = returned.next_if(|back| back.time <= line.time) {
                    missing = Some(back);
                }
                self.settle(agent, missing, &mut running);
                self.recording.made_of(line.item);
            }
            let kind = match &line.content {
                LineContent::Assistant(assistant) => self.assistant(agent, line, assistant, &mut running),
                LineContent::User(_) if first == Some(*number) => None,
                LineContent::User(user) => self.user(agent, at, line, user, &mut running),
                LineContent::Boundary => {
                    self.recording.compaction(agent);
                    None
                }
                LineContent::Blocked { tool, content } => {
                    self.blocked(agent, line, *tool, *content);
                    None
                }
                LineContent::Queue { enqueues, removes, user } => {
                    self.queue(agent, line, (*enqueues, *removes), user, &mut running)
                }
                LineContent::Queued(user) => self.queued(agent, line, user, &mut running),
            };
            if let Some(kind) = kind {
                self.items.ignored(line.item as usize, kind);
            }
        }
        self.settle(agent, None, &mut running);
        self.counts_in = 0;
        self.close(agent, at, &running);
        self.streams.list[at].lines = lines;
    }

    /// Whether a line makes its agent work.
    fn asks(&self, user: &User) -> bool {
        let by_other = |block: &Block| matches!(block, Block::Teammate { .. } | Block::Notice { .. });
        user.text.prompt.is_some() || self.records.blocks(user.blocks).iter().any(by_other)
    }

    /// Records an answer that no text of the stream is: one that a call gave, or one that only came back to others.
    fn settle(&mut self, agent: Agent, missing: Option<Returned>, running: &mut Running) {
        let spoke = !running.open.is_empty() && !running.is_closed();
        if !spoke || running.last == Last::Answer {
            return;
        }
        match (running.answer.take(), missing) {
            (Some((_, answer)), _) => self.answer(agent, &answer, ":return", false),
            (None, Some(back)) => self.answer(agent, &back, ":message", true),
            (None, None) => return,
        }
        running.last = Last::Answer;
    }

    /// An answer that no text of its agent's stream is; whether it is made of what others were told.
    pub(super) fn answer(&mut self, agent: Agent, answer: &Returned, suffix: &str, is_partial: bool) {
        let id = [self.recording.read(answer.stem), suffix].concat();
        let mut saying = Saying {
            id: self.recording.text(&id),
            content: Some(answer.content),
            time: answer.time,
            ..Saying::default()
        };
        if is_partial {
            saying.extras = self.recording.extra(Text::default(), "x_partial", "true");
            self.recording.trace.partial = true;
        }
        self.recording.made_of(answer.item);
        self.recording.lone_saying(agent, saying);
    }

    /// The trace that each line of a stream is repeated from: that of the next response which counts elsewhere, but for
    /// responses that count here.
    fn origins(&self, lines: &[u32]) -> Vec<Code> {
        let mut origins = vec![0; lines.len()];
        let mut next = 0;
        for (origin, number) in origins.iter_mut().zip(lines).rev() {
            if let LineContent::Assistant(assistant) = &self.records.lines[*number as usize].content {
                next = if assistant.counts_in == 0 { next } else { assistant.counts_in };
                *origin = assistant.counts_in;
            } else {
                *origin = next;
            }
        }
        origins
    }

    /// Says what the session took over from others.
    fn inherited(&mut self) {
        let inherited = std::mem::take(&mut self.inherited).into_iter();
        let by_name = inherited.map(|(origin, sums)| (self.records.names.name(origin), sums));
        self.recording.inherits(by_name.collect());
    }

    /// Tells the texts and the usage of all responses, and whether the stream goes on beyond its records.
    fn close(&mut self, agent: Agent, at: usize, running: &Running) {
        for open in &running.open {
            self.says_all(open);
            if let Some(response) = self.recording.response_mut(open.entry) {
                response.usage = if open.counts_in == 0 { open.usage } else { Usage::default() };
                response.time = open.time;
                // Calls and texts carry their own.
                if open.decides || (open.calls == 0 && open.pieces.iter().all(|piece| piece.entry.is_some()))
                {
                    response.extras = open.extras;
                }
            }
            let usage = &open.usage;
            if at == 0 {
                let (read, written) = self.main_sum;
                self.main_sum = (
                    read.saturating_add(usage.tokens_in.unwrap_or(0)),
                    written.saturating_add(usage.tokens_out.unwrap_or(0)),
                );
            }
            let tokens = usage.tokens_in.unwrap_or(0).saturating_add(usage.tokens_out.unwrap_or(0));
            let is_open = open.ends == Ends::No;
            let spent = Spent { entry: open.entry, time: open.time, tokens, is_open };
            self.spent.entry(agent).or_default().push(spent);
            if open.counts_in != 0 {
                let (responses, sum) = self.inherited.entry(open.counts_in).or_default();
                (*responses, *sum) = (*responses + 1, sum.saturating_add(tokens));
            }
        }
        let spoke = !running.open.is_empty() || running.last != Last::Nothing;
        if !running.is_closed() && running.last != Last::Answer && (at > 0 || spoke) {
            self.recording.agent_info(agent).open = true;
            self.unanswered.push(agent);
        }
    }

    pub(super) fn extras(&mut self, line: &Line) -> Text {
        let extras = if line.abandoned { self.abandoned } else { Text::default() };
        if self.counts_in == 0 {
            return extras;
        }
        self.recording.extra_text(extras, "x_copied", self.records.names.name(self.counts_in))
    }

    fn assistant(
        &mut self,
        agent: Agent,
        line: &Line,
        assistant: &Assistant,
        running: &mut Running,
    ) -> Option<&'static str> {
        if assistant.synthetic {
            return Some("claude_code.assistant.synthetic");
        }
        let extras = self.extras(line);
        let heard = running.heard_by.get(&assistant.response).copied();
        let now = line.time.map(|time| heard.map_or(time, |heard| heard.min(time)));
        let open_place = running.known.get(&assistant.response).copied();
        if open_place.is_none() {
            self.help(agent, assistant, (now, extras), running, false);
        }
        let place = open_place.unwrap_or_else(|| {
            let response = Response {
                id: self.name(assistant.id),
                time: now,
                model: assistant.model,
                ..Response::default()
            };
            let open = Open {
                entry: self.recording.response(agent, response),
                usage: Usage::default(),
                pieces: Vec::new(),
                is_back: false,
                calls: 0,
                time: now,
                wants_tools: false,
                ends: Ends::Unknown,
                decides: false,
                extras,
                counts_in: assistant.counts_in,
            };
            running.asked.clear();
            running.open.push(open);
            running.known.insert(assistant.response, running.open.len() - 1);
            running.open.len() - 1
        });
        let open = &mut running.open[place];
        join(&mut open.usage, &assistant.usage);
        open.wants_tools |= assistant.calls_tools;
        open.ends = open.ends.max(assistant.ends);
        // A response that acts is complete enough when it first does.
        if open.calls == 0 {
            open.time = now.or(open.time);
        }
        for (at, block) in (assistant.blocks.0..).zip(self.records.blocks(assistant.blocks)) {
            match block {
                Block::Text(text) => {
                    self.speaks(*text, (line.item, now), &mut running.open[place]);
                    running.answer = None;
                }
                Block::Use(call) => {
                    let open = &mut running.open[place];
                    let time = now.filter(|_| open.calls > 0);
                    open.calls += 1;
                    let entry = open.entry;
                    if call.id != 0 {
                        running.asked.insert(call.id);
                    }
                    let decides = self.call(agent, entry, at, call, time, line);
                    running.open[place].decides |= decides;
                    running.answer = match call.act {
                        Act::Answer { content } => Some((call.id, self.given_by(call.id, content, line))),
                        _ => None,
                    };
                }
                Block::Outcome(outcome) => {
                    let brings = self.help(agent, assistant, (now, extras), running, true);
                    running.asked.remove(&outcome.call);
                    running.accepted(outcome, line);
                    running.open[place].is_back = true;
                    self.outcome(agent, line, outcome, 0, brings);
                }
                _ => {}
            }
        }
        running.last = Last::Response(place);
        None
    }

    /// What a call says of the work of an agent.
    fn given_by(&mut self, call: Code, content: Hash, line: &Line) -> Returned {
        let stem = self.name(call);
        Returned { stem, content, time: line.time, item: line.item, wakes: 0, by: By::Result, is_said: true }
    }

    /// Whether it makes its response a decision.
    fn call(
        &mut self,
        agent: Agent,
        response: Entry,
        at: u32,
        call: &Use,
        time: Option<i64>,
        line: &Line,
    ) -> bool {
        let does = match call.act {
            Act::Delegate { .. } => match self.silent.get(&at) {
                Some(child) if *child != agent => Does::Spawns(*child),
                _ => Does::UsesTool,
            },
            Act::Send { to, ends, .. } => match (self.addressee(call.id, to), ends) {
                (Party::Agent(child), true) => Does::Ends(child),
                (Party::Agent(to), _) if to == agent => Does::UsesTool,
                (party, _) => Does::Tells(party),
            },
            Act::Tool | Act::Workflow | Act::Waits { .. } | Act::Answer { .. } => Does::UsesTool,
        };
        if let Does::Spawns(woken) | Does::Tells(Party::Agent(woken)) = does {
            *self.wakes.entry(woken).or_insert(0) += 1;
        }
        let call_entry = Call {
            id: self.name(call.id),
            tool: self.name(call.tool),
            does,
            content: Some(call.content),
            time,
            extras: self.extras(line),
            ..Call::default()
        };
        self.recording.call(response, call_entry);
        match call.act {
            Act::Workflow => self.workflow(agent, response, call, line),
            _ => matches!(does, Does::Spawns(_)),
        }
    }
}

/// Each line of a response repeats its usage so far: the largest number counts.
pub(super) fn join(usage: &mut Usage, line: &Usage) {
    if line.tokens_in > usage.tokens_in {
        // With its parts, which another line may record differently.
        *usage = Usage { tokens_out: usage.tokens_out, cost_usd: usage.cost_usd, ..*line };
    }
    usage.tokens_out = usage.tokens_out.max(line.tokens_out);
    usage.cost_usd = match (usage.cost_usd, line.cost_usd) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    };
}
