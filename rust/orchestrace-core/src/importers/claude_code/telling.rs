//! What a session says, told as a recording: the streams of its agents one after the other.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::super::recording::{
    Agent, AgentInfo, Call, CallResult, Does, Entry, Hash, Incoming, Mark, Party, Recording, Response,
    Saying, Text, Usage, hash,
};
use super::record::{Act, Assistant, Block, Code, Line, Outcome, Records, Use, User, What};
use super::streams::{Stream, Streams};
use crate::error::FindingCode;
use crate::importers::TraceItems;
use crate::schema::EventType;

/// What the main stream is called.
const MAIN: &str = "main";

/// Tools whose results are of the program itself, or of the user.
const TRUSTED: [&str; 15] = [
    "Agent",
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "SendMessage",
    "Task",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskStop",
    "TaskUpdate",
    "TeamCreate",
    "TeamDelete",
    "TodoWrite",
    "ToolSearch",
];

/// Describes a session.
pub(super) fn tell(
    items: &TraceItems<'_>,
    records: &Records,
    streams: Streams,
    cycle: bool,
    recording: &mut Recording,
) {
    recording.trace.trace_id = recording.text(items.key());
    recording.trace.system = recording.text("claude-code");
    recording.trace.started_at = records.began;
    if cycle {
        let message = "'parentUuid' closes a cycle, which is cut there";
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
    };
    teller.cast();
    for at in 0..teller.streams.list.len() {
        teller.stream(at);
    }
    teller.answers();
    teller.beside();
}

struct Teller<'a> {
    items: &'a TraceItems<'a>,
    records: &'a Records,
    streams: Streams,
    recording: &'a mut Recording,
    /// Agent of each stream.
    agents: Vec<Agent>,
    /// Agents of delegating calls that have no stream, by block.
    silent: HashMap<u32, Agent>,
    by_id: HashMap<Code, Agent>,
    by_name: HashMap<Code, Agent>,
    /// Contents of messages between agents: what arrives has been told where it was sent.
    sent: HashSet<Hash>,
    /// What the call of an agent gave back: call, content, time.
    returned: HashMap<Agent, (Text, Hash, Option<i64>)>,
    /// Agents whose answer from the background has arrived.
    delivered: HashSet<Agent>,
    /// Tokens of the last response of each agent, and what results tell of it.
    last_usage: HashMap<Agent, i64>,
    reported: Vec<(Entry, Agent, i64)>,
    /// Agents that worked on when their own records end.
    unanswered: Vec<Agent>,
    abandoned: Text,
}

/// A response while its lines are read.
struct Open {
    response: Code,
    entry: Entry,
    usage: Usage,
    texts: Vec<Text>,
    calls: u32,
    time: Option<i64>,
    wants_tools: bool,
    /// Whether it decides about others, which is an event before those of its calls.
    decides: bool,
    extras: Text,
}

/// The state of one stream.
#[derive(Default)]
struct Running {
    open: Vec<Open>,
    /// Place in `open`, by response.
    known: HashMap<Code, usize>,
    /// Calls without a result so far.
    asked: HashSet<Code>,
    last: Last,
    /// What was typed while the agent worked, and is not heard of again.
    queue: Vec<(User, Option<i64>)>,
    /// What reached the agent while it worked.
    heard: Vec<Hash>,
    abandoned: bool,
}

/// The last thing of a conversation.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Last {
    #[default]
    Nothing,
    Response(usize),
    Result,
    Stopped,
    Prompt,
}

impl Teller<'_> {
    fn name(&mut self, code: Code) -> Text {
        self.recording.text(self.records.names.name(code))
    }

    fn first_of(&mut self, codes: &[Code]) -> Text {
        let code = codes.iter().find(|code| **code != 0).copied().unwrap_or(0);
        self.name(code)
    }

    fn uses(&self, line: &Line) -> impl Iterator<Item = (u32, Use)> + '_ {
        let range = match &line.what {
            What::Assistant(assistant) => assistant.blocks,
            _ => (0, 0),
        };
        let numbered = (range.0..range.1).zip(self.records.blocks(range));
        numbered.filter_map(|(at, block)| match block {
            Block::Use(call) => Some((at, *call)),
            _ => None,
        })
    }

    /// All agents, so that they can be pointed at.
    fn cast(&mut self) {
        let name = self.recording.text(MAIN);
        let main = self.recording.agent(AgentInfo { name, ..AgentInfo::default() });
        self.agents.push(main);
        let conversation = |line: &u32| {
            matches!(self.records.lines[*line as usize].what, What::Assistant(_) | What::User(_))
        };
        let has_main = self.streams.list[0].lines.iter().any(conversation);
        let blocks = &self.records.blocks;
        let types: HashMap<Code, Code> = blocks
            .iter()
            .filter_map(|block| match block {
                Block::Outcome(outcome) if outcome.agent != 0 => Some((outcome.agent, outcome.agent_type)),
                _ => None,
            })
            .collect();
        for at in 1..self.streams.list.len() {
            let (id, run, call) = {
                let stream = &self.streams.list[at];
                (stream.id, stream.run, stream.call)
            };
            let meta = self.records.metas.iter().find(|meta| id != 0 && meta.agent == id);
            let told = self.streams.list[at].lines.iter().find_map(|line| {
                let What::Assistant(assistant) = &self.records.lines[*line as usize].what else {
                    return None;
                };
                Some(assistant.agent_type).filter(|kind| *kind != 0)
            });
            let others =
                [types.get(&id).copied(), meta.map(|meta| meta.kind), told].map(Option::unwrap_or_default);
            let agent = self.agent(id, call, others);
            // A sub-agent of a session that is recorded, which nobody asked for, was started by the program.
            if call.is_none() && (!has_main || run != 0) {
                self.recording.agent_info(agent).parent = Some(main);
            }
            if !has_main {
                self.recording.trace.partial = true;
            }
            self.agents.push(agent);
        }
        for at in 0..self.streams.list.len() {
            for line in self.streams.list[at].lines.clone() {
                let calls: Vec<(u32, Use)> = self.uses(&self.records.lines[line as usize]).collect();
                for (block, call) in calls {
                    match call.act {
                        Act::Delegate { .. } => self.call_of(block, &call, &types),
                        Act::Send { content, .. } => drop(self.sent.insert(content)),
                        _ => {}
                    }
                }
            }
        }
    }

    /// An agent by what is known of it; `others` are types that others than its call tell.
    fn agent(&mut self, id: Code, call: Option<u32>, others: [Code; 3]) -> Agent {
        let call = call.map(|at| &self.records.blocks[at as usize]);
        let (name, kind) = match call {
            Some(Block::Use(Use { act: Act::Delegate { name, kind, .. }, .. })) => (*name, *kind),
            _ => (0, 0),
        };
        let info = AgentInfo {
            name: self.first_of(&[name, kind, others[0], others[1], others[2]]),
            source_id: self.name(id),
            role: self.first_of(&[kind, others[0], others[1], others[2]]),
            ..AgentInfo::default()
        };
        let agent = self.recording.agent(info);
        if id != 0 {
            self.by_id.insert(id, agent);
        }
        if name != 0 {
            self.by_name.insert(name, agent);
        }
        agent
    }

    /// The agent that a delegating call makes work.
    fn call_of(&mut self, block: u32, call: &Use, types: &HashMap<Code, Code>) {
        if self.streams.failed.contains(&block) {
            return;
        }
        let agent = match (self.streams.child_of.get(&block), self.streams.silent_of.get(&block).copied()) {
            (Some(stream), _) => self.agents[*stream],
            (None, Some(id)) => match self.by_id.get(&id) {
                Some(agent) => *agent,
                None => self.agent(id, Some(block), [types.get(&id).copied().unwrap_or(0), 0, 0]),
            },
            (None, None) => self.agent(0, Some(block), [0; 3]),
        };
        if let Act::Delegate { name, .. } = call.act
            && name != 0
        {
            self.by_name.insert(name, agent);
        }
        self.silent.insert(block, agent);
    }

    fn stream(&mut self, at: usize) {
        let agent = self.agents[at];
        let lines = std::mem::take(&mut self.streams.list[at].lines);
        let mut running = Running::default();
        let first = self.streams.list[at].first;
        for number in &lines {
            let line = &self.records.lines[*number as usize];
            if line.abandoned != running.abandoned {
                running.abandoned = line.abandoned;
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
        self.close(agent, at, running);
        self.streams.list[at].lines = lines;
    }

    /// Tells the texts and the usage of all responses, and whether the stream goes on beyond its records.
    fn close(&mut self, agent: Agent, at: usize, running: Running) {
        let mut texts = String::new();
        for open in &running.open {
            texts.clear();
            for text in &open.texts {
                texts.push_str(self.recording.read(*text));
            }
            if !open.texts.is_empty() {
                let saying = Saying { content: Some(hash(&texts)), extras: open.extras, ..Saying::default() };
                self.recording.say(open.entry, saying);
            }
            if let Some(response) = self.recording.response_mut(open.entry) {
                response.usage = open.usage;
                response.time = open.time;
                // Calls and texts carry their own.
                if open.decides || (open.calls == 0 && open.texts.is_empty()) {
                    response.extras = open.extras;
                }
            }
            let tokens = open.usage.tokens_in.unwrap_or(0) + open.usage.tokens_out.unwrap_or(0);
            self.last_usage.insert(agent, tokens);
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

    fn extras(&self, line: &Line) -> Text {
        if line.abandoned { self.abandoned } else { Text::default() }
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
        let place = match running.known.get(&assistant.response) {
            Some(place) => *place,
            None => {
                let response = Response {
                    id: self.name(assistant.id),
                    time: line.time,
                    model: assistant.model,
                    ..Response::default()
                };
                let entry = self.recording.response(agent, response);
                let open = Open {
                    response: assistant.response,
                    entry,
                    usage: Usage::default(),
                    texts: Vec::new(),
                    calls: 0,
                    time: line.time,
                    wants_tools: false,
                    decides: false,
                    extras,
                };
                running.asked.clear();
                running.open.push(open);
                running.known.insert(assistant.response, running.open.len() - 1);
                running.open.len() - 1
            }
        };
        debug_assert_eq!(running.open[place].response, assistant.response);
        let open = &mut running.open[place];
        join(&mut open.usage, &assistant.usage);
        open.wants_tools |= assistant.calls_tools;
        // A response that acts is complete enough when it first does.
        if open.calls == 0 {
            open.time = line.time.or(open.time);
        }
        for (at, block) in (assistant.blocks.0..).zip(self.records.blocks(assistant.blocks)) {
            match block {
                Block::Text(text) => running.open[place].texts.push(*text),
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

    /// The agents that a workflow made work: the result of its call names the run.
    fn workflow(&mut self, agent: Agent, response: Entry, call: &Use, line: &Line) -> bool {
        let run = self.records.blocks.iter().find_map(|block| match block {
            Block::Outcome(outcome) if outcome.call == call.id && outcome.run != 0 => Some(outcome.run),
            _ => None,
        });
        let Some(run) = run else { return false };
        if let Some(response) = self.recording.response_mut(response) {
            response.decides = true;
        }
        let mut children: Vec<Agent> = Vec::new();
        for at in 1..self.streams.list.len() {
            if self.streams.list[at].run == run && self.streams.list[at].call.is_none() {
                children.push(self.agents[at]);
            }
        }
        for entry in self.records.journal.iter().filter(|entry| entry.run == run && entry.agent != 0) {
            if !self.by_id.contains_key(&entry.agent) {
                let child = self.agent(entry.agent, None, [0; 3]);
                let told = self.records.journal.iter().find(|e| e.agent == entry.agent && e.result.is_some());
                match told.and_then(|told| told.result) {
                    Some(content) => {
                        let id = self.name(entry.agent);
                        let id = [self.recording.read(id).to_owned(), ":return".to_owned()].concat();
                        let id = self.recording.text(&id);
                        let saying =
                            Saying { id, content: Some(content), time: line.time, ..Saying::default() };
                        self.recording.lone_saying(child, saying);
                    }
                    None => self.recording.agent_info(child).open = true,
                }
                self.recording.trace.partial = true;
                children.push(child);
            }
        }
        for child in children {
            let id = self.recording.agent_info(child).source_id;
            let id = [self.recording.read(id), ":s"].concat();
            let mark = Mark {
                event_type: EventType::Spawn,
                id: self.recording.text(&id),
                by: None,
                to: Some(child),
                time: line.time,
                content: None,
                trusted: Some(true),
                ok: None,
                tool: Text::default(),
                extras: self.extras(line),
            };
            self.recording.mark(agent, mark);
        }
        true
    }

    /// Whom a message is for: an agent by its name or id, else a name.
    fn party(&mut self, code: Code) -> Party {
        let name = self.records.names.name(code);
        if let Some(agent) = self.by_name.get(&code).or_else(|| self.by_id.get(&code)) {
            return Party::Agent(*agent);
        }
        match name {
            "main" | "team-lead" | "lead" => Party::Agent(self.agents[0]),
            "" => Party::Named(self.recording.text("nobody")),
            _ => Party::Named(self.name(code)),
        }
    }

    fn user(
        &mut self,
        agent: Agent,
        at: usize,
        line: &Line,
        user: &User,
        running: &mut Running,
    ) -> Option<&'static str> {
        let mut told = 0;
        for block in self.records.blocks(user.blocks) {
            match block {
                Block::Outcome(outcome) => {
                    running.asked.remove(&outcome.call);
                    self.outcome(agent, line, outcome, told);
                    running.last = if outcome.refused { Last::Stopped } else { Last::Result };
                    told += 1;
                }
                Block::Teammate { from, content } => {
                    let from = self.party(*from);
                    if !self.sent.contains(content) && from != Party::Agent(agent) {
                        self.incoming(agent, line, from, *content, false, told);
                    }
                    told += 1;
                    running.last = Last::Prompt;
                }
                Block::Notice { task, content, failed } => {
                    told += u32::from(self.notice(agent, *task, *content, *failed, line));
                    running.last = Last::Prompt;
                }
                Block::Text(_) | Block::Use(_) => {}
            }
        }
        if user.meta {
            return (told == 0).then_some("claude_code.user.meta");
        }
        if user.said.interrupts {
            // The result that was refused has told it.
            let again = running.last == Last::Stopped;
            running.last = Last::Stopped;
            if !again {
                let text = hash("[Request interrupted by user]");
                self.incoming(agent, line, Party::User, text, true, told);
            }
            told += 1;
        }
        if let Some(prompt) = user.said.prompt {
            let busy = match running.last {
                Last::Result => true,
                Last::Response(_) => !running.asked.is_empty(),
                _ => false,
            };
            let stream: &Stream = &self.streams.list[at];
            let by_agent = at > 0 && stream.call.is_some();
            let from = if by_agent { Party::Agent(self.agents[stream.caller]) } else { Party::User };
            if !(by_agent && self.sent.contains(&prompt)) {
                self.incoming(agent, line, from, prompt, busy && !by_agent, told);
            }
            told += 1;
            running.last = Last::Prompt;
        }
        (told == 0).then_some("claude_code.user.wrapped")
    }

    /// Something said to an agent; `k` is its place in the line.
    fn incoming(&mut self, agent: Agent, line: &Line, from: Party, content: Hash, breaks_in: bool, k: u32) {
        let id = self.line_id(line, k, "");
        let incoming = Incoming {
            id,
            from,
            time: line.time,
            content: Some(content),
            trusted: Some(true),
            intervenes: breaks_in,
            extras: self.extras(line),
        };
        self.recording.incoming(agent, incoming);
    }

    /// Id of the k-th event of a line.
    fn line_id(&mut self, line: &Line, k: u32, suffix: &str) -> Text {
        let uuid = self.records.names.name(line.uuid);
        let place = if k == 0 { String::new() } else { format!(":{k}") };
        match (uuid, line.time) {
            ("", Some(time)) => self.recording.join(&["queue:", &time.to_string(), &place, suffix]),
            ("", None) => {
                let number = self.items.as_slice()[line.item as usize].line;
                self.recording.join(&["main:", &number.to_string(), &place, suffix])
            }
            (uuid, _) => self.recording.join(&[uuid, &place, suffix]),
        }
    }

    fn outcome(&mut self, agent: Agent, line: &Line, outcome: &Outcome, k: u32) {
        let called = self.streams.calls.get(&outcome.call).copied();
        let call = called.map(|called| &self.records.blocks[called.block as usize]);
        let tool = called.map_or(0, |called| called.tool);
        let of_agent = self.by_id.get(&outcome.ended).copied().filter(|_| outcome.ended != 0);
        let child = called.and_then(|called| self.silent.get(&called.block).copied());
        let child = child.filter(|_| matches!(call, Some(Block::Use(Use { act: Act::Delegate { .. }, .. }))));
        let name = self.records.names.name(tool);
        let trusted = TRUSTED.contains(&name) || of_agent.is_some();
        let mut extras = self.extras(line);
        for (key, number) in [("x_reported_tokens", outcome.tokens), ("x_reported_tool_calls", outcome.tools)]
        {
            if let Some(number) = number {
                extras = self.recording.extra(extras, key, &number.to_string());
            }
        }
        let id = if outcome.call == 0 { self.line_id(line, k, ":r") } else { Text::default() };
        let result = CallResult {
            call: self.name(outcome.call),
            id,
            tool: self.name(tool),
            time: line.time,
            duration_s: outcome.duration_s,
            content: Some(outcome.content),
            ok: Some(!outcome.failed),
            trusted: Some(trusted),
            launched: outcome.launched,
            extras,
        };
        let entry = self.recording.result(agent, result);
        if let Some(child) = child.filter(|_| !outcome.launched) {
            self.returned.entry(child).or_insert((result.call, outcome.content, line.time));
            self.reported.extend(outcome.tokens.map(|tokens| (entry, child, tokens)));
        }
        if outcome.refused {
            let text = self.name(outcome.call);
            let id = [self.recording.read(text), ":h"].concat();
            let incoming = Incoming {
                id: if outcome.call == 0 { self.line_id(line, k, ":h") } else { self.recording.text(&id) },
                from: Party::User,
                time: line.time,
                content: Some(outcome.content),
                trusted: Some(true),
                intervenes: true,
                extras: self.extras(line),
            };
            self.recording.incoming(agent, incoming);
        }
        if let Some(child) = of_agent {
            self.deliver(agent, child, outcome.content, line);
        }
    }

    /// Whether work in the background that has ended is that of an agent.
    fn notice(&mut self, agent: Agent, task: Code, content: Option<Hash>, failed: bool, line: &Line) -> bool {
        let Some(child) = self.by_id.get(&task).copied().filter(|child| *child != agent) else {
            return false;
        };
        let nothing = hash(if failed { "failed" } else { "" });
        self.deliver(agent, child, content.unwrap_or(nothing), line);
        true
    }

    fn deliver(&mut self, agent: Agent, child: Agent, content: Hash, line: &Line) {
        if self.delivered.insert(child) {
            self.recording.delivery(agent, child);
            let id = self.recording.agent_info(child).source_id;
            self.returned.entry(child).or_insert((id, content, line.time));
        }
    }

    fn blocked(&mut self, agent: Agent, line: &Line, tool: Text, content: Hash) {
        let id = self.line_id(line, 0, "");
        let mark = Mark {
            event_type: EventType::SafetyEvent,
            id,
            by: None,
            to: None,
            time: line.time,
            content: Some(content),
            trusted: Some(true),
            ok: Some(false),
            tool,
            extras: self.extras(line),
        };
        self.recording.mark(agent, mark);
    }

    /// What is typed while an agent works waits in a queue. What leaves it as a prompt is a line of its own; what
    /// reaches the agent at work was for a long time told here alone.
    fn queue(
        &mut self,
        agent: Agent,
        line: &Line,
        (enqueues, removes): (bool, bool),
        user: &User,
        running: &mut Running,
    ) -> Option<&'static str> {
        if enqueues {
            running.queue.push((*user, line.time));
            return Some("claude_code.queue-operation");
        }
        let typed = running.queue.iter().position(|(user, _)| user.said.prompt.is_some());
        let notice = || running.queue.iter().position(|(user, _)| user.blocks.0 != user.blocks.1);
        let place = typed.or_else(notice).filter(|_| removes);
        let Some(place) = place else { return Some("claude_code.queue-operation") };
        let (user, _) = running.queue.remove(place);
        self.queued(agent, line, &user, running).map(|_| "claude_code.queue-operation")
    }

    /// What reaches an agent at work.
    fn queued(
        &mut self,
        agent: Agent,
        line: &Line,
        user: &User,
        running: &mut Running,
    ) -> Option<&'static str> {
        let mut told = false;
        for block in self.records.blocks(user.blocks) {
            if let Block::Notice { task, content, failed } = block {
                told |= self.notice(agent, *task, *content, *failed, line);
            }
        }
        if let Some(prompt) = user.said.prompt {
            // The queue and the prompt that came out of it are one.
            match running.heard.iter().position(|heard| *heard == prompt) {
                Some(place) => drop(running.heard.swap_remove(place)),
                None => {
                    running.heard.push(prompt);
                    self.incoming(agent, line, Party::User, prompt, true, 0);
                    told = true;
                }
            }
        }
        (!told).then_some("claude_code.attachment.queued_command")
    }

    /// Agents that have answered although their own records end before: the answer is what their call gave back.
    fn answers(&mut self) {
        for agent in std::mem::take(&mut self.unanswered) {
            if agent == self.agents[0] {
                continue;
            }
            if let Some((call, content, time)) = self.returned.get(&agent).copied() {
                let id = [self.recording.read(call), ":return"].concat();
                let saying = Saying {
                    id: self.recording.text(&id),
                    content: Some(content),
                    time,
                    extras: self.recording.extra(Text::default(), "x_partial", "true"),
                    ..Saying::default()
                };
                self.recording.lone_saying(agent, saying);
                self.recording.agent_info(agent).open = false;
                self.recording.trace.partial = true;
            }
        }
        for (entry, agent, told) in std::mem::take(&mut self.reported) {
            let last = self.last_usage.get(&agent).copied();
            if let Some(last) = last.filter(|last| *last != told) {
                let message =
                    format!("the result tells {told} tokens, the last response of its agent {last}");
                self.recording.finding(FindingCode::UsageRepeated, Some(entry), message);
            }
        }
        let streams: HashSet<Agent> = self.agents.iter().copied().collect();
        let silent = self.silent.values().copied().filter(|agent| !streams.contains(agent));
        for agent in silent.collect::<BTreeSet<_>>() {
            match self.returned.get(&agent).copied() {
                // Its result is told by its call, unless that only launched it.
                Some((call, content, time)) if self.delivered.contains(&agent) => {
                    let id = [self.recording.read(call), ":return"].concat();
                    let id = self.recording.text(&id);
                    let saying = Saying { id, content: Some(content), time, ..Saying::default() };
                    self.recording.lone_saying(agent, saying);
                    self.recording.trace.partial = true;
                }
                Some(_) => {}
                None => self.recording.agent_info(agent).open = true,
            }
        }
    }

    /// Counts the small files: they are used where they tell of an agent.
    fn beside(&mut self) {
        for meta in &self.records.metas {
            if !self.by_id.contains_key(&meta.agent) {
                self.items.ignored(meta.item as usize, "claude_code.meta_file");
            }
        }
        let streams: HashSet<Agent> = self.agents.iter().copied().collect();
        for entry in &self.records.journal {
            if self.by_id.get(&entry.agent).is_none_or(|agent| streams.contains(agent)) {
                self.items.ignored(entry.item as usize, "claude_code.journal");
            }
        }
    }
}

/// Each line of a response repeats its usage so far: the largest number counts.
fn join(usage: &mut Usage, line: &Usage) {
    usage.tokens_in = usage.tokens_in.max(line.tokens_in);
    usage.tokens_out = usage.tokens_out.max(line.tokens_out);
    usage.cached = usage.cached.max(line.cached);
    usage.cache_write = usage.cache_write.max(line.cache_write);
    usage.cost_usd = match (usage.cost_usd, line.cost_usd) {
        (Some(a), Some(b)) => Some(a.max(b)),
        (a, b) => a.or(b),
    };
}
