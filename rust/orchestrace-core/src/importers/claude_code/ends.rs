//! Facts that need all streams: answers without a stream, differing totals, empty files.

use std::collections::BTreeSet;

use hashbrown::HashSet;

use super::super::recording::{Agent, Saying, Text};
use super::session::Teller;
use crate::error::FindingCode;

impl Teller<'_> {
    /// Agents that have answered although their own records end before: the answer is what their call gave back.
    pub(super) fn answers(&mut self) {
        for agent in std::mem::take(&mut self.unanswered) {
            if agent == self.agents[0] {
                continue;
            }
            if let Some((call, content, time, item)) = self.returned.get(&agent).copied() {
                let id = [self.recording.read(call), ":return"].concat();
                let saying = Saying {
                    id: self.recording.text(&id),
                    content: Some(content),
                    time,
                    extras: self.recording.extra(Text::default(), "x_partial", "true"),
                    ..Saying::default()
                };
                self.recording.made_of(item);
                self.recording.lone_saying(agent, saying);
                self.recording.agent_info(agent).open = false;
                self.recording.trace.partial = true;
            }
        }
        for (entry, agent, told) in std::mem::take(&mut self.reported) {
            let last = self.last_usage.get(&agent).copied();
            if let Some(last) = last.filter(|last| *last != told) {
                let message =
                    format!("the result reports {told} tokens, the last response of its agent {last}");
                self.recording.finding(FindingCode::UsageRepeated, Some(entry), message);
            }
        }
        let streams: HashSet<Agent> = self.agents.iter().copied().collect();
        let silent = self.silent.values().copied().filter(|agent| !streams.contains(agent));
        for agent in silent.collect::<BTreeSet<_>>() {
            match self.returned.get(&agent).copied() {
                // Its call records its result, unless that only launched it.
                Some((call, content, time, item)) if self.delivered.contains(&agent) => {
                    let id = [self.recording.read(call), ":return"].concat();
                    let id = self.recording.text(&id);
                    let saying = Saying { id, content: Some(content), time, ..Saying::default() };
                    self.recording.made_of(item);
                    self.recording.lone_saying(agent, saying);
                    self.recording.trace.partial = true;
                }
                Some(_) => {}
                None => self.recording.agent_info(agent).open = true,
            }
        }
    }

    /// Counts the small files: they are used if they describe an agent.
    pub(super) fn beside(&mut self) {
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
