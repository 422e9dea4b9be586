//! The agents of a session, as streams, calls and journals name them.

use hashbrown::HashMap;

use super::super::recording::{Agent, AgentInfo, Entry, Mark, Party, Saying, Text};
use super::record::{Act, Block, Code, LEADS, Line, LineContent, Use};
use super::session::Teller;
use crate::schema::EventType;

/// What the main stream is called.
const MAIN: &str = "main";

impl Teller<'_> {
    pub(super) fn first_of(&mut self, codes: &[Code]) -> Text {
        let code = codes.iter().find(|code| **code != 0).copied().unwrap_or(0);
        self.name(code)
    }

    fn uses(&self, line: &Line) -> impl Iterator<Item = (u32, Use)> + '_ {
        let range = match &line.content {
            LineContent::Assistant(assistant) => assistant.blocks,
            _ => (0, 0),
        };
        let numbered = (range.0..range.1).zip(self.records.blocks(range));
        numbered.filter_map(|(at, block)| match block {
            Block::Use(call) => Some((at, *call)),
            _ => None,
        })
    }

    /// All agents, so that they can be pointed at.
    pub(super) fn cast(&mut self) {
        let name = self.recording.text(MAIN);
        let main = self.recording.agent(AgentInfo { name, ..AgentInfo::default() });
        self.agents.push(main);
        let conversation = |line: &u32| {
            matches!(
                self.records.lines[*line as usize].content,
                LineContent::Assistant(_) | LineContent::User(_)
            )
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
        for block in blocks {
            let Block::Outcome(outcome) = block else { continue };
            if outcome.run != 0 {
                self.runs.extend([outcome.call, outcome.task].map(|by| (by, outcome.run)));
            }
            if outcome.resumed != 0 {
                self.resumed.insert(outcome.call, outcome.resumed);
            }
        }
        self.runs.remove(&0);
        for at in 1..self.streams.list.len() {
            let (id, call, is_asked) = {
                let stream = &self.streams.list[at];
                (stream.id, stream.call, stream.run != 0 || stream.is_member)
            };
            let meta = self.records.meta_of(id);
            let recorded_type = self.streams.list[at].lines.iter().find_map(|line| {
                let LineContent::Assistant(assistant) = &self.records.lines[*line as usize].content else {
                    return None;
                };
                Some(assistant.agent_type).filter(|kind| *kind != 0)
            });
            let others = [types.get(&id).copied(), meta.map(|meta| meta.kind), recorded_type]
                .map(Option::unwrap_or_default);
            let agent = self.agent(id, call, others);
            if call.is_none() {
                let began = self.streams.list[at].began;
                let info = self.recording.agent_info(agent);
                info.began = began;
                // A sub-agent of a session that is recorded, which nobody asked for, was started by the program.
                (info.parent, info.unasked) =
                    if !has_main || is_asked { (Some(main), false) } else { (None, true) };
            }
            if !has_main {
                self.recording.trace.partial = true;
            }
            self.agents.push(agent);
        }
        for at in 0..self.streams.list.len() {
            for line in self.streams.list[at].lines.clone() {
                let time = self.records.lines[line as usize].time;
                let calls: Vec<(u32, Use)> = self.uses(&self.records.lines[line as usize]).collect();
                for (block, call) in calls {
                    match call.act {
                        Act::Delegate { prompt, .. } => {
                            // What a call asks of an agent that it wakes stands in the agent's file, too.
                            self.sent.extend(prompt);
                            self.call_of(block, &call, &types);
                        }
                        Act::Send { content, .. } => drop(self.sent.insert(content)),
                        Act::Workflow => {
                            if let Some(run) = self.runs.get(&call.id) {
                                self.launches.push((*run, time, call.id));
                            }
                        }
                        _ => {}
                    }
                }
            }
        }
    }

    /// An agent by what is known of it; `others` are types recorded elsewhere than in its call.
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

    /// The call that launched an agent of a run: the last one before it began.
    fn launched(&self, run: Code, began: Option<i64>) -> Option<Code> {
        let mut launches = self.launches.iter().filter(|launch| launch.0 == run);
        let before = launches.clone().rfind(|launch| launch.1 <= began);
        before.or(launches.next()).map(|launch| launch.2)
    }

    /// The agents that a workflow made work: the result of its call names the run.
    pub(super) fn workflow(&mut self, agent: Agent, response: Entry, call: &Use, line: &Line) -> bool {
        let run = self.runs.get(&call.id).copied();
        let Some(run) = run else { return false };
        if let Some(response) = self.recording.response_mut(response) {
            response.decides = true;
        }
        let mut children: Vec<Agent> = Vec::new();
        for at in 1..self.streams.list.len() {
            let stream = &self.streams.list[at];
            if stream.run == run && stream.call.is_none() && self.launched(run, stream.began) == Some(call.id)
            {
                children.push(self.agents[at]);
            }
        }
        for entry in self.records.journal.iter().filter(|entry| entry.run == run && entry.agent != 0) {
            if !self.by_id.contains_key(&entry.agent) {
                let child = self.agent(entry.agent, None, [0; 3]);
                let outcome_entry =
                    self.records.journal.iter().find(|e| e.agent == entry.agent && e.result.is_some());
                match outcome_entry
                    .and_then(|outcome_entry| Some((outcome_entry.item, outcome_entry.result?)))
                {
                    Some((item, content)) => {
                        let id = self.name(entry.agent);
                        let id = [self.recording.read(id).to_owned(), ":return".to_owned()].concat();
                        let id = self.recording.text(&id);
                        let saying =
                            Saying { id, content: Some(content), time: line.time, ..Saying::default() };
                        self.recording.made_of(item);
                        self.recording.lone_saying(child, saying);
                        self.recording.made_of(line.item);
                    }
                    None => self.recording.agent_info(child).open = true,
                }
                self.recording.trace.partial = true;
                children.push(child);
            }
        }
        self.members.entry(run).or_default().extend(&children);
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

    /// Whom a call tells something: the agent that its result says it woke, else whom it names.
    pub(super) fn addressee(&mut self, call: Code, to: Code) -> Party {
        let woken = self.resumed.get(&call).and_then(|id| self.by_id.get(id)).copied();
        woken.map_or_else(|| self.party(to), Party::Agent)
    }

    /// Whom a message is for: an agent by its name or id, else a name.
    pub(super) fn party(&mut self, code: Code) -> Party {
        let name = self.records.names.name(code);
        if let Some(agent) = self.by_name.get(&code).or_else(|| self.by_id.get(&code)) {
            return Party::Agent(*agent);
        }
        match name {
            name if LEADS.contains(&name) => Party::Agent(self.agents[0]),
            "" => Party::Named(self.recording.text("nobody")),
            _ => Party::Named(self.name(code)),
        }
    }
}
