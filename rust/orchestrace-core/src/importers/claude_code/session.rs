//! Conversion of a session to a recording, one agent's stream after the other.

use std::collections::BTreeMap;

use hashbrown::{HashMap, HashSet};
use sha2::{Digest, Sha256};

use super::super::recording::{
    Agent, Call, Does, Entry, Hash, Party, Recording, Response, Saying, Text, Usage,
};
use super::printed;
use super::record::{Act, Assistant, Block, Code, Line, Records, Use, User, What};
use super::streams::Streams;
use crate::error::FindingCode;
use crate::importers::TraceItems;
use crate::schema::MeasureKind;

/// Describes a session.
pub(super) fn tell(
    items: &TraceItems<'_>,
    records: &Records,
    streams: Streams,
    cycle: bool,
    recording: &mut Recording,
) {
    recording.trace.trace_id = recording.text(printed::session_of(items.key()).0);
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
        delivered: HashSet::new(),
        last_usage: HashMap::new(),
        reported: Vec::new(),
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
    teller.beside();
    teller.inherited();
    if let Some(total) = records.total {
        let sum = teller.main_sum;
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
    /// What the call of an agent gave back: call, content, time, item.
    pub(super) returned: HashMap<Agent, (Text, Hash, Option<i64>, u32)>,
    /// Agents whose answer from the background has arrived.
    pub(super) delivered: HashSet<Agent>,
    /// Tokens of the last response of each agent, and those that results report.
    pub(super) last_usage: HashMap<Agent, i64>,
    pub(super) reported: Vec<(Entry, Agent, i64)>,
    /// Agents that worked on when their own records end.
    pub(super) unanswered: Vec<Agent>,
    pub(super) abandoned: Text,
    /// The trace that the lines of now are repeated from; 0 is none.
    counts_in: Code,
    /// Responses and tokens that count in other traces.
    inherited: BTreeMap<Code, (u64, i64)>,
    /// What the main stream read and wrote.
    main_sum: (i64, i64),
}

/// A response while its lines are read.
pub(super) struct Open {
    pub(super) entry: Entry,
    pub(super) usage: Usage,
    pub(super) texts: Vec<Text>,
    /// The item of the first text, or of what there is before one.
    pub(super) item: u32,
    pub(super) calls: u32,
    pub(super) time: Option<i64>,
    pub(super) wants_tools: bool,
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
        let mut origins = self.origins(&lines).into_iter();
        for number in &lines {
            let line = &self.records.lines[*number as usize];
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
            let kind = match &line.what {
                What::Assistant(assistant) => self.assistant(agent, line, assistant, &mut running),
                What::User(_) if first == Some(*number) => None,
                What::User(user) => self.user(agent, at, line, user, &mut running),
                What::Boundary => {
                    self.recording.compaction(agent);
                    None
                }
                What::Blocked { tool, content } => {
                    self.blocked(agent, line, *tool, *content);
                    None
                }
                What::Queue { enqueues, removes, user } => {
                    self.queue(agent, line, (*enqueues, *removes), user, &mut running)
                }
                What::Queued(user) => self.queued(agent, line, user, &mut running),
            };
            if let Some(kind) = kind {
                self.items.ignored(line.item as usize, kind);
            }
        }
        self.counts_in = 0;
        self.close(agent, at, &running);
        self.streams.list[at].lines = lines;
    }

    /// The trace that each line of a stream is repeated from: that of the next response which counts elsewhere, but for
    /// responses that count here.
    fn origins(&self, lines: &[u32]) -> Vec<Code> {
        let mut origins = vec![0; lines.len()];
        let mut next = 0;
        for (origin, number) in origins.iter_mut().zip(lines).rev() {
            if let What::Assistant(assistant) = &self.records.lines[*number as usize].what {
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
        let inherited = std::mem::take(&mut self.inherited);
        let tokens: i64 = inherited.values().map(|(_, tokens)| tokens).sum();
        if !inherited.is_empty() {
            self.recording.measure(MeasureKind::Cost, "tokens_inherited", tokens as f64);
        }
        let mut by_name: Vec<_> =
            inherited.into_iter().map(|(origin, sums)| (self.records.names.name(origin), sums)).collect();
        by_name.sort_unstable();
        for (name, (responses, tokens)) in by_name {
            let message = format!(
                "{responses} responses repeat those of trace '{name}', where their {tokens} tokens count"
            );
            self.recording.finding(FindingCode::UsageInherited, None, message);
        }
    }

    /// Tells the texts and the usage of all responses, and whether the stream goes on beyond its records.
    fn close(&mut self, agent: Agent, at: usize, running: &Running) {
        for open in &running.open {
            if !open.texts.is_empty() {
                let mut sha = Sha256::new();
                open.texts.iter().for_each(|text| sha.update(self.recording.read(*text)));
                let content = Some(sha.finalize().into());
                let saying = Saying { content, extras: open.extras, ..Saying::default() };
                self.recording.made_of(open.item);
                self.recording.say(open.entry, saying);
            }
            if let Some(response) = self.recording.response_mut(open.entry) {
                response.usage = if open.counts_in == 0 { open.usage } else { Usage::default() };
                response.time = open.time;
                // Calls and texts carry their own.
                if open.decides || (open.calls == 0 && open.texts.is_empty()) {
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
            self.last_usage.insert(agent, tokens);
            if open.counts_in != 0 {
                let (responses, sum) = self.inherited.entry(open.counts_in).or_default();
                (*responses, *sum) = (*responses + 1, sum.saturating_add(tokens));
            }
        }
        let closed = match running.last {
            Last::Response(open) => {
                let open = &running.open[open];
                !open.wants_tools && running.asked.is_empty() && !open.texts.is_empty()
            }
            _ => false,
        };
        let spoke = !running.open.is_empty() || running.last != Last::Nothing;
        if !closed && (at > 0 || spoke) {
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
        let known = running.known.get(&assistant.response).copied();
        let place = known.unwrap_or_else(|| {
            let response = Response {
                id: self.name(assistant.id),
                time: line.time,
                model: assistant.model,
                ..Response::default()
            };
            let open = Open {
                entry: self.recording.response(agent, response),
                usage: Usage::default(),
                texts: Vec::new(),
                item: line.item,
                calls: 0,
                time: line.time,
                wants_tools: false,
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
        // A response that acts is complete enough when it first does.
        if open.calls == 0 {
            open.time = line.time.or(open.time);
        }
        for (at, block) in (assistant.blocks.0..).zip(self.records.blocks(assistant.blocks)) {
            match block {
                Block::Text(text) => {
                    let open = &mut running.open[place];
                    if open.texts.is_empty() {
                        open.item = line.item;
                    }
                    open.texts.push(*text);
                }
                Block::Use(call) => {
                    let open = &mut running.open[place];
                    let time = line.time.filter(|_| open.calls > 0);
                    open.calls += 1;
                    let entry = open.entry;
                    if call.id != 0 {
                        running.asked.insert(call.id);
                    }
                    let decides = self.call(agent, entry, at, call, time, line);
                    running.open[place].decides |= decides;
                }
                Block::Outcome(outcome) => {
                    running.asked.remove(&outcome.call);
                    self.outcome(agent, line, outcome, 0);
                }
                _ => {}
            }
        }
        running.last = Last::Response(place);
        None
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
            Act::Send { to, ends, .. } => match (self.party(to), ends) {
                (Party::Agent(child), true) => Does::Ends(child),
                (Party::Agent(to), _) if to == agent => Does::UsesTool,
                (party, _) => Does::Tells(party),
            },
            Act::Tool | Act::Workflow => Does::UsesTool,
        };
        let call_entry = Call {
            id: self.name(call.id),
            tool: self.name(call.tool),
            does,
            content: Some(call.content),
            time,
            extras: self.extras(line),
        };
        self.recording.call(response, call_entry);
        match call.act {
            Act::Workflow => self.workflow(agent, response, call, line),
            _ => matches!(does, Does::Spawns(_)),
        }
    }
}

/// Each line of a response repeats its usage so far: the largest number counts.
fn join(usage: &mut Usage, line: &Usage) {
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
