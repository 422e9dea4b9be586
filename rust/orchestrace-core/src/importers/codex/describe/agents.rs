//! Calls that spawn, message and end agents, and the answers to them.

use super::super::line::{InlineResult, Line, LineContent, Statuses};
use super::Stream;
use crate::importers::recording::{
    Agent, Call, CallResult, Does, Entry, Hash, Incoming, Party, Saying, Text,
};

impl Stream<'_, '_> {
    /// Records of other agents beside the calls of the history.
    pub(super) fn collaboration(&mut self, line: &Line) {
        match line.content {
            LineContent::Spawned { call, .. } => {
                let call = self.recording.read(call).to_owned();
                if !self.facts.calls.contains(&call) && !call.is_empty() {
                    let child = self.team.spawned(&call, self.facts.spawned[&call], self.recording);
                    self.lone(line, Does::Spawns(child), "spawn_agent", Text::default());
                }
            }
            LineContent::Told { call, to, nickname, prompt } if self.lacks(call) && !to.is_none() => {
                let name = self.recording.read(nickname).to_owned();
                let to = self.team.named(to, &name, self.recording);
                let call = self.lone(line, Does::Tells(Party::Agent(to)), "send_input", Text::default());
                if let Some(call) = self.recording.call_mut(call) {
                    call.content = prompt;
                }
            }
            LineContent::Waited { call, statuses }
                if self.lacks(call) || !self.facts.answered.contains(self.recording.read(call)) =>
            {
                self.deliver(line, statuses);
            }
            LineContent::Closed { call, child } if self.lacks(call) && !child.is_none() => {
                let child = self.team.named(child, "", self.recording);
                self.lone(line, Does::Ends(child), "close_agent", Text::default());
            }
            LineContent::Resumed { call, child } if self.lacks(call) && !child.is_none() => {
                let child = self.team.named(child, "", self.recording);
                let extras = self.recording.extra(Text::default(), "x_resume", "true");
                self.lone(line, Does::Spawns(child), "resume_agent", extras);
            }
            LineContent::AgentMessage { from, to, content, answers } => {
                self.put_in(line);
                self.agent_message(line, from, to, content, answers);
            }
            _ => {}
        }
    }

    /// Whether no call of the history has this id.
    pub(super) fn lacks(&self, call: Text) -> bool {
        !self.facts.calls.contains(self.recording.read(call))
    }

    pub(super) fn call(&mut self, line: &Line) {
        let LineContent::Call { id, tool, content, target, result, .. } = line.content else { return };
        let current = self.response(line);
        let id = if id.is_none() { self.lone_id(line) } else { id };
        let key = self.recording.read(id).to_owned();
        let name = self.recording.read(tool).to_owned();
        let mut extras = self.extras();
        let does = match name.as_str() {
            "spawn_agent" => match self.facts.spawned.get(&key) {
                Some(known) => Does::Spawns(self.team.spawned(&key, *known, self.recording)),
                None => Does::UsesTool,
            },
            "send_input" | "send_message" | "followup_task" | "assign_task" => self
                .team
                .find(target, self.recording)
                .map_or(Does::UsesTool, |to| Does::Tells(Party::Agent(to))),
            "close_agent" => self.team.find(target, self.recording).map_or(Does::UsesTool, Does::Ends),
            "resume_agent" => match self.team.find(target, self.recording) {
                Some(child) => {
                    extras = self.recording.extra(extras, "x_resume", "true");
                    Does::Spawns(child)
                }
                None => Does::UsesTool,
            },
            _ => Does::UsesTool,
        };
        let does = match does {
            // Nobody begets or ends himself.
            Does::Spawns(child) | Does::Ends(child) if child == self.agent => Does::UsesTool,
            Does::Tells(Party::Agent(to)) if to == self.agent => Does::UsesTool,
            other => other,
        };
        // What is only sent waits until the other one works again.
        if name != "send_message" {
            self.wakes(does);
        }
        self.recording
            .call(current.entry, Call { id, tool, does, content: Some(content), extras, ..Call::default() });
        self.asked.insert(key, (line.time, tool));
        if let Some(InlineResult { content, ok, reads }) = result {
            let (call, time, trusted) = (id, line.time, Some(false));
            let result = CallResult { call, time, content, ok, trusted, extras, ..CallResult::default() };
            self.recording.result(self.agent, result);
            if reads {
                self.put_in(line);
            }
        }
    }

    pub(super) fn lone_id(&mut self, line: &Line) -> Text {
        self.id_with(line, ":c")
    }

    pub(super) fn lone(&mut self, line: &Line, does: Does, tool: &str, extras: Text) -> Entry {
        let (id, content) = match line.content {
            LineContent::Spawned { call, prompt, .. } | LineContent::Told { call, prompt, .. } => {
                (call, prompt)
            }
            LineContent::Closed { call, .. } | LineContent::Resumed { call, .. } => (call, None),
            _ => (Text::default(), None),
        };
        let id = if id.is_none() { self.id_of(line) } else { id };
        let does = match does {
            Does::Spawns(agent) | Does::Ends(agent) | Does::Tells(Party::Agent(agent))
                if agent == self.agent =>
            {
                Does::UsesTool
            }
            does => does,
        };
        self.wakes(does);
        let tool = self.recording.text(tool);
        self.recording.lone_call(
            self.agent,
            Call { id, tool, does, content, time: line.time, extras, ..Call::default() },
        )
    }

    pub(super) fn agent_message(&mut self, line: &Line, from: Text, to: Text, content: Hash, answers: bool) {
        let me = self.team.find(to, self.recording).is_none_or(|to| to == self.agent);
        let Some(from) = self.team.find(from, self.recording).filter(|from| me && *from != self.agent) else {
            return self.used_as(line, "codex.agent_message");
        };
        if answers && self.is_child(from) {
            return self.answer(line, from, Some((content, true)));
        }
        if self.team.filed.contains(&from) {
            // Told where it was sent.
            return self.repeats(line);
        }
        let id = self.id_of(line);
        let extras = self.extras();
        self.recording.incoming(
            self.agent,
            Incoming {
                id,
                from: Party::Agent(from),
                time: line.time,
                content: Some(content),
                trusted: Some(true),
                intervenes: false,
                decides: Text::default(),
                extras,
            },
        );
    }

    pub(super) fn is_child(&mut self, agent: Agent) -> bool {
        let may_be_child = self.recording.agent_info(agent).parent.is_none_or(|parent| parent == self.agent);
        may_be_child && agent != self.agent
    }

    /// Answers of children reach this agent.
    pub(super) fn deliver(&mut self, line: &Line, (from, to): Statuses) {
        for status in &self.group.statuses[from as usize..to as usize] {
            if let Some(answer) = status.answer {
                let child = self.team.named(status.agent, "", self.recording);
                if self.is_child(child) {
                    self.answer(line, child, Some(answer));
                }
            }
        }
    }

    /// An answer of a child reaches this agent: each once, however often it is reported, and another one only if it is
    /// another text or the child was asked for more.
    pub(super) fn answer(&mut self, line: &Line, child: Agent, answer: Option<(Hash, bool)>) {
        let woken = self.team.woken.remove(&child);
        let (content, ok) = answer.unzip();
        let (last, n) = self.team.answered.get(&child).copied().unwrap_or_default();
        if n > 0 && !woken && (last == content || content.is_none()) {
            return;
        }
        self.team.answered.insert(child, (content, n + 1));
        if !self.team.filed.contains(&child) {
            self.recording.trace.partial = true;
            let info = self.recording.agent_info(child);
            info.parent = info.parent.or(Some(self.agent));
            let id = info.source_id;
            let stem = self.recording.read(id).to_owned();
            let number = if n == 0 { String::new() } else { format!(":{}", n + 1) };
            let id = self.recording.join(&[&stem, ":return", &number]);
            let time = line.time;
            let ok = ok.filter(|ok| !ok);
            self.recording.lone_saying(child, Saying { id, content, time, ok, ..Saying::default() });
        }
        self.recording.delivery_at(self.agent, child, line.time);
    }

    /// An agent is asked for more.
    fn wakes(&mut self, does: Does) {
        if let Does::Tells(Party::Agent(agent)) | Does::Spawns(agent) = does {
            self.team.woken.insert(agent);
        }
    }
}
