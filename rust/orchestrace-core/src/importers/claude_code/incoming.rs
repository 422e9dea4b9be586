//! Inputs of an agent: prompts, results, messages from others, and messages that arrived during its work.

use super::super::recording::{Agent, CallResult, Entry, Hash, Incoming, Mark, Party, Text, hash};
use super::record::{Act, Block, Code, Line, Outcome, Use, User};
use super::session::{By, Last, Returned, Running, Teller};
use crate::schema::EventType;

/// Tools whose results are of the program itself, or of the user.
const TRUSTED: [&str; 16] = [
    "Agent",
    "AskUserQuestion",
    "EnterPlanMode",
    "ExitPlanMode",
    "SendMessage",
    "StructuredOutput",
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

/// Tools whose results are what the user decided; a refusal is an event of its own.
const BY_USER: [&str; 3] = ["AskUserQuestion", "EnterPlanMode", "ExitPlanMode"];

/// Who prompts agents that it started on its own.
const PROGRAM: &str = "claude-code";

impl Teller<'_> {
    pub(super) fn user(
        &mut self,
        agent: Agent,
        at: usize,
        line: &Line,
        user: &User,
        running: &mut Running,
    ) -> Option<&'static str> {
        let mut n_taken = 0;
        for block in self.records.blocks(user.blocks) {
            match block {
                Block::Outcome(outcome) => {
                    running.asked.remove(&outcome.call);
                    running.accepted(outcome, line);
                    self.outcome(agent, line, outcome, n_taken, None);
                    running.last = if outcome.refused { Last::Stopped } else { Last::Result };
                    n_taken += 1;
                }
                Block::Teammate { from, content } => {
                    let from = self.party(*from);
                    if !self.sent.contains(content) && from != Party::Agent(agent) {
                        self.incoming(agent, line, from, *content, false, n_taken);
                    }
                    n_taken += 1;
                    running.last = Last::Prompt;
                }
                Block::Notice { .. } => {
                    n_taken += u32::from(self.notice(agent, block, line));
                    running.last = Last::Prompt;
                }
                Block::Text(_) | Block::Use(_) | Block::Side(_) => {}
            }
        }
        if user.meta {
            return (n_taken == 0).then_some("claude_code.user.meta");
        }
        if user.text.interrupts {
            // The refused result has recorded it.
            let again = running.last == Last::Stopped;
            running.last = Last::Stopped;
            if !again {
                let text = hash("[Request interrupted by user]");
                self.incoming(agent, line, Party::User, text, true, n_taken);
            }
            n_taken += 1;
        }
        if let Some(prompt) = user.text.prompt {
            let busy = match running.last {
                Last::Result => true,
                Last::Response(_) => !running.asked.is_empty(),
                _ => false,
            };
            let stream = &self.streams.list[at];
            // Teammates hear each other in messages that say so; the rest is typed to them.
            let by_agent = at > 0 && stream.call.is_some() && !stream.is_member;
            // In the stream of an agent that nobody asked the program speaks.
            let from = match at {
                _ if by_agent => Party::Agent(self.agents[stream.caller]),
                _ if at == 0 || stream.is_member => Party::User,
                _ => Party::Named(self.recording.text(PROGRAM)),
            };
            if !(by_agent && self.sent.contains(&prompt)) {
                self.incoming(agent, line, from, prompt, busy && !by_agent, n_taken);
            }
            n_taken += 1;
            running.last = Last::Prompt;
        }
        (n_taken == 0).then_some("claude_code.user.wrapped")
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
            decides: Text::default(),
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

    /// Writes what a call gave back; `brings` is the response of another model that it is.
    pub(super) fn outcome(
        &mut self,
        agent: Agent,
        line: &Line,
        outcome: &Outcome,
        k: u32,
        brings: Option<Entry>,
    ) {
        let called = self.streams.calls.get(&outcome.call).copied();
        let call = called.map(|called| &self.records.blocks[called.block as usize]);
        let tool = called.map_or(0, |called| called.tool);
        let of_agent = self.by_id.get(&outcome.ended).copied().filter(|_| outcome.ended != 0);
        let child = called.and_then(|called| self.silent.get(&called.block).copied());
        let child = child.filter(|_| matches!(call, Some(Block::Use(Use { act: Act::Delegate { .. }, .. }))));
        let name = self.records.names.name(tool);
        let trusted = outcome.refused || of_agent.is_some() || TRUSTED.contains(&name);
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
            by_user: BY_USER.contains(&name) && !outcome.failed && !outcome.refused,
            waits: of_agent.is_some() || call.is_some_and(|call| self.waits_for_agents(call)),
            brings,
            extras,
        };
        // What the user decided comes before what the call gave back.
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
                decides: result.call,
                extras: self.extras(line),
            };
            self.recording.incoming(agent, incoming);
        }
        // What the result brings was said before it.
        if let Some(child) = of_agent {
            self.deliver(agent, child, (outcome.content, false), line, By::Output);
        } else if outcome.ended != 0 {
            self.deliver_run(agent, (outcome.ended, 0), line);
        }
        self.recording.result(agent, result);
        if let Some(child) = child.filter(|_| !outcome.launched) {
            self.comes_back(child, result.call, (outcome.content, true), line, By::Result);
            self.reported.extend(outcome.tokens.map(|tokens| (child, line.time, tokens)));
        }
    }

    /// Whether a call does nothing but wait for work in the background that is that of agents.
    fn waits_for_agents(&self, call: &Block) -> bool {
        let Block::Use(Use { act: Act::Waits { task }, .. }) = call else { return false };
        self.by_id.contains_key(task) || self.runs.contains_key(task)
    }

    /// Whether work in the background that has ended is that of an agent, or of the agents of a workflow.
    fn notice(&mut self, agent: Agent, block: &Block, line: &Line) -> bool {
        let &Block::Notice { task, call, content, tokens, failed } = block else { return false };
        if self.deliver_run(agent, (task, call), line) {
            return true;
        }
        let by_call = || {
            let block = self.streams.calls.get(&call).filter(|_| call != 0)?.block;
            self.silent.get(&block).copied()
        };
        let child = self.by_id.get(&task).copied().or_else(by_call);
        let Some(child) = child.filter(|child| *child != agent) else { return false };
        let nothing = hash(if failed { "failed" } else { "" });
        self.deliver(agent, child, (content.unwrap_or(nothing), content.is_some()), line, By::Notice);
        self.reported.extend(tokens.map(|tokens| (child, line.time, tokens)));
        true
    }

    /// Whether a task or call is a run of a workflow: all of its agents that have answered have reported then.
    fn deliver_run(&mut self, agent: Agent, (task, call): (Code, Code), line: &Line) -> bool {
        let run = self.runs.get(&task).or_else(|| self.runs.get(&call));
        let Some(members) = run.and_then(|run| self.members.get(run)) else { return false };
        for child in members {
            self.recording.delivery_at(agent, *child, line.time);
        }
        true
    }

    fn deliver(&mut self, agent: Agent, child: Agent, answer: (Hash, bool), line: &Line, by: By) {
        self.recording.delivery_at(agent, child, line.time);
        let id = self.recording.agent_info(child).source_id;
        self.comes_back(child, id, answer, line, by);
    }

    fn comes_back(
        &mut self,
        child: Agent,
        stem: Text,
        (content, is_said): (Hash, bool),
        line: &Line,
        by: By,
    ) {
        let wakes = self.wakes.get(&child).copied().unwrap_or(0);
        let back = Returned { stem, content, time: line.time, item: line.item, wakes, by, is_said };
        self.returned.entry(child).or_default().push(back);
    }

    pub(super) fn blocked(&mut self, agent: Agent, line: &Line, tool: Text, content: Hash) {
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
    /// reaches the agent at work was for a long time recorded here alone.
    pub(super) fn queue(
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
        let typed = running.queue.iter().position(|(user, _)| user.text.prompt.is_some());
        let notice = || running.queue.iter().position(|(user, _)| user.blocks.0 != user.blocks.1);
        let place = typed.or_else(notice).filter(|_| removes);
        let Some(place) = place else { return Some("claude_code.queue-operation") };
        let (user, _) = running.queue.remove(place);
        self.queued(agent, line, &user, running).map(|_| "claude_code.queue-operation")
    }

    /// What reaches an agent at work.
    pub(super) fn queued(
        &mut self,
        agent: Agent,
        line: &Line,
        user: &User,
        running: &mut Running,
    ) -> Option<&'static str> {
        let mut is_taken = false;
        for block in self.records.blocks(user.blocks) {
            is_taken |= self.notice(agent, block, line);
        }
        if let Some(prompt) = user.text.prompt {
            // The queue and the prompt that came out of it are one.
            if let Some(place) = running.heard.iter().position(|heard| *heard == prompt) {
                running.heard.swap_remove(place);
            } else {
                running.heard.push(prompt);
                self.incoming(agent, line, Party::User, prompt, true, 0);
                is_taken = true;
            }
        }
        (!is_taken).then_some("claude_code.attachment.queued_command")
    }
}
