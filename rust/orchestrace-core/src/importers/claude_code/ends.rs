//! Facts that need all streams: answers without a stream, differing totals, empty files.

use std::collections::BTreeSet;

use hashbrown::{HashMap, HashSet};

use super::super::recording::{Agent, Entry};
use super::record::Journal;
use super::session::{By, Returned, Spent, Teller};
use crate::error::FindingCode;

/// How many responses the finding about each of them lists.
const LISTED: usize = 20;

impl Teller<'_> {
    /// Agents that have answered although their own records end before: the answer is what their call gave back.
    pub(super) fn answers(&mut self) {
        // The last answer of each agent in the journals of workflows.
        let answers = self.records.journal.iter().filter(|entry| entry.result.is_some());
        let journal: HashMap<Agent, &Journal> =
            answers.filter_map(|entry| Some((*self.by_id.get(&entry.agent)?, entry))).collect();
        for agent in std::mem::take(&mut self.unanswered) {
            if agent == self.agents[0] {
                continue;
            }
            let wakes = self.wakes.get(&agent).copied().unwrap_or(0);
            let back = self.returned.get(&agent).and_then(|back| back.last().copied());
            if back.is_some_and(|back| back.by != By::Result && self.heard.get(&agent) == Some(&back.wakes)) {
                continue;
            }
            if let Some(back) =
                back.filter(|back| back.wakes == wakes).or_else(|| self.journaled(agent, &journal))
            {
                self.answer(agent, &back, ":return", true);
                self.recording.agent_info(agent).open = false;
            }
        }
        let streams: HashSet<Agent> = self.agents.iter().copied().collect();
        let silent = self.silent.values().copied().filter(|agent| !streams.contains(agent));
        for agent in silent.collect::<BTreeSet<_>>() {
            let back = apart(self.returned.get(&agent).map_or(&[][..], Vec::as_slice));
            let wakes = self.wakes.get(&agent).copied().unwrap_or(0);
            self.recording.agent_info(agent).open = back.last().is_none_or(|back| back.wakes < wakes);
            // Calls record their results, unless they only launched.
            if back.iter().all(|back| back.by == By::Result) {
                continue;
            }
            for (at, answer) in back.iter().enumerate() {
                let suffix = if at + 1 == back.len() { ":return" } else { ":message" };
                self.answer(agent, answer, suffix, false);
            }
            self.recording.trace.partial = true;
        }
    }

    /// Compares what results and notices report of the last response of an agent with what its own records have, and
    /// says of which responses no record has the last state.
    pub(super) fn totals(&mut self) {
        let mut missing: Vec<(Agent, Entry, i64, i64)> = Vec::new();
        let mut is_missing: HashSet<Entry> = HashSet::new();
        // Of each agent, and of each of its responses, the earliest time from there on.
        let mut earliest: HashMap<Agent, Vec<Option<i64>>> = HashMap::new();
        for (agent, time, told) in std::mem::take(&mut self.reported) {
            let spent = self.spent.get(&agent).map_or(&[][..], Vec::as_slice);
            let earliest = earliest.entry(agent).or_insert_with(|| earliest_from(spent));
            let until = earliest.partition_point(|from| *from <= time);
            let last = until.checked_sub(1).and_then(|at| spent.get(at)).or(spent.last()).copied();
            let Some(last) = last.filter(|last| last.tokens != told) else { continue };
            if last.tokens < told {
                let is_new = is_missing.insert(last.entry);
                missing.extend(is_new.then_some((agent, last.entry, told, last.tokens)));
            } else {
                let recorded = last.tokens;
                let message =
                    format!("a result reports {told} tokens, the last response of its agent {recorded}");
                self.recording.finding(FindingCode::UsageRepeated, Some(last.entry), message);
            }
        }
        let mut parts: Vec<String> = missing
            .iter()
            .take(LISTED)
            .map(|(agent, _, told, last)| {
                let info = *self.recording.agent_info(*agent);
                let name = if info.source_id.is_none() { info.name } else { info.source_id };
                format!(
                    "{} of {}: {last} recorded, {told} reported",
                    "the last response",
                    self.recording.read(name)
                )
            })
            .collect();
        if let Some(more) = missing.len().checked_sub(LISTED).filter(|more| *more > 0) {
            parts.push(format!("and {more} more"));
        }
        for (_, entry, ..) in &missing {
            let message = format!("recorded tokens are too low; {}", parts.join("; "));
            self.recording.finding(FindingCode::UsageIncomplete, Some(*entry), message);
        }
        let mut open: Vec<Entry> = Vec::new();
        let mut responses = 0;
        for spent in self.spent.values() {
            responses += spent.len();
            open.extend(spent.iter().filter(|spent| spent.is_open).map(|spent| spent.entry));
        }
        open.retain(|entry| !is_missing.contains(entry));
        open.sort_unstable();
        let n = open.len();
        for entry in open {
            let message = format!(
                "no line of {n} of {responses} responses has a 'stop_reason': what they wrote is at least what is recorded"
            );
            self.recording.finding(FindingCode::UsageIncomplete, Some(entry), message);
        }
    }

    /// What the journal of a workflow says that an agent answered.
    fn journaled(&mut self, agent: Agent, journal: &HashMap<Agent, &Journal>) -> Option<Returned> {
        let entry = journal.get(&agent)?;
        self.answered_by_journal.insert(entry.item);
        let stem = self.recording.agent_info(agent).source_id;
        let (content, item) = (entry.result?, entry.item);
        Some(Returned { stem, content, time: None, item, wakes: 0, by: By::Notice, is_said: true })
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
            let is_told = self.answered_by_journal.contains(&entry.item);
            if !is_told && self.by_id.get(&entry.agent).is_none_or(|agent| streams.contains(agent)) {
                self.items.ignored(entry.item as usize, "claude_code.journal");
            }
        }
    }
}

/// Of each response of an agent the earliest time from there on: the last that came by a time is found by halving.
fn earliest_from(spent: &[Spent]) -> Vec<Option<i64>> {
    let mut times: Vec<Option<i64>> = spent.iter().map(|spent| spent.time).collect();
    for at in (1..times.len()).rev() {
        times[at - 1] = times[at - 1].min(times[at]);
    }
    times
}

/// Answers, each once: what a second way says of work that was not asked for again is the same answer.
fn apart(back: &[Returned]) -> Vec<Returned> {
    let mut answers: Vec<Returned> = Vec::new();
    for answer in back {
        let is_new = answers.last().is_none_or(|before| {
            answer.wakes > before.wakes || answer.by == before.by && answer.content != before.content
        });
        if is_new {
            answers.push(*answer);
        }
    }
    answers
}
