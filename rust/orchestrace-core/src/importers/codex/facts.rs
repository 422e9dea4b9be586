//! Facts of a whole thread about its lines: repeats, texts without an owner, retracted lines.

use std::collections::{HashMap, HashSet};

use super::line::{By, Line, LineContent};
use super::threads::Thread;
use crate::importers::recording::{Recording, Text};

/// What the whole of a thread says about one of its lines.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// Lines that say again what another line says, or that nobody says: indices of own lines.
    pub repeated: HashSet<usize>,
    pub context: HashSet<usize>,
    pub abandoned: HashSet<usize>,
    pub calls: HashSet<String>,
    /// Agents that calls spawned, with what is known of them: id, nickname, role, path.
    pub spawned: HashMap<String, [Text; 4]>,
    pub ends: HashMap<String, usize>,
    /// Calls with a result of their own.
    pub answered: HashSet<String>,
    /// Whether it seems to go on beyond its last line.
    pub open: bool,
    pub timeless: usize,
    /// Whether there are records of what responses took.
    pub has_records: bool,
}

impl Facts {
    pub(super) fn of(thread: &Thread, recording: &Recording) -> Self {
        let lines: Vec<&Line> = thread.own_lines().collect();
        let mut facts = Self::default();
        for (i, line) in lines.iter().enumerate() {
            facts.timeless += usize::from(line.time.is_none());
            let owned = |text: &Text| recording.read(*text).to_owned();
            match &line.content {
                LineContent::Call { id, .. } => drop(facts.calls.insert(owned(id))),
                LineContent::Output { call, spawned, nickname, .. } => {
                    facts.answered.insert(owned(call));
                    if !spawned.is_none() {
                        let path = if recording.read(*spawned).starts_with('/') {
                            *spawned
                        } else {
                            Text::default()
                        };
                        facts.knows(owned(call), [*spawned, *nickname, Text::default(), path]);
                    }
                }
                LineContent::Spawned { call, child, nickname, role, path, .. } => {
                    facts.knows(owned(call), [*child, *nickname, *role, *path]);
                }
                LineContent::End { call, .. } => drop(facts.ends.insert(owned(call), i)),
                LineContent::Spent { .. } => facts.has_records = true,
                _ => {}
            }
        }
        facts.pair_echoes(&lines);
        facts.find_context(&lines);
        facts.find_abandoned(&lines);
        facts.open = is_open(&lines);
        facts
    }

    /// Adds to what is known of the agent that a call spawned; an id that is no path is the better one.
    fn knows(&mut self, call: String, news: [Text; 4]) {
        let facts_of_child = self.spawned.entry(call).or_default();
        for (k, (facts_of_child, news)) in facts_of_child.iter_mut().zip(news).enumerate() {
            if facts_of_child.is_none() || (k == 0 && !news.is_none()) {
                *facts_of_child = news;
            }
        }
    }

    /// An event that stands beside the item of the history that it repeats is left out. Files that have no echoes say
    /// that the item is complete: that counts for what no echo stands beside.
    fn pair_echoes(&mut self, lines: &[&Line]) {
        let mut paired = HashSet::new();
        let echoes = |line: &Line| match line.content {
            LineContent::Echo { by, content } => Some((by, content, true)),
            LineContent::Completed { by, content } => Some((by, content, false)),
            _ => None,
        };
        let (first, second): (Vec<_>, Vec<_>) = lines
            .iter()
            .enumerate()
            .filter_map(|(i, line)| Some((i, echoes(line)?)))
            .partition(|(_, (.., is_event))| *is_event);
        for (i, (by, content, is_event)) in first.into_iter().chain(second) {
            let of = |j: &usize| match lines[*j].content {
                LineContent::Message { by: other, content } if other == by => Some(content),
                _ => None,
            };
            let near = [i.checked_sub(1), Some(i + 1), i.checked_sub(2), Some(i + 2)];
            let near = near.into_iter().flatten().filter(|j| *j < lines.len());
            let free: Vec<usize> = near.filter(|j| of(j).is_some() && !paired.contains(j)).collect();
            // Redaction may have spelt the two differently: of an event the neighbor will do.
            let neighbor = free.first().filter(|_| is_event);
            let same = free.iter().find(|j| of(j) == Some(content)).or(neighbor);
            if let Some(j) = same {
                paired.insert(*j);
                if is_event {
                    self.repeated.insert(i);
                }
            }
        }
        for (i, line) in lines.iter().enumerate() {
            // A user who speaks is echoed; what is not echoed beside what is was put there by the harness.
            if matches!(line.content, LineContent::Message { by: By::User, .. }) && !paired.contains(&i) {
                self.context.insert(i);
            }
        }
    }

    /// Keeps as context what was not echoed before something that was, or before nothing.
    fn find_context(&mut self, lines: &[&Line]) {
        let mut run = Vec::new();
        let mut echoed = false;
        for (i, line) in lines.iter().enumerate() {
            match line.content {
                LineContent::Message { by: By::User, .. } if self.context.contains(&i) => run.push(i),
                LineContent::Message { by: By::User, .. } | LineContent::Echo { by: By::User, .. } => {
                    echoed = true;
                }
                LineContent::Message { by: By::Assistant, .. }
                | LineContent::Echo { by: By::Assistant, .. }
                | LineContent::Reasoning
                | LineContent::Call { .. } => {
                    for i in run.drain(..) {
                        if !echoed {
                            self.context.remove(&i);
                        }
                    }
                    echoed = false;
                }
                _ => {}
            }
        }
    }

    /// What a rollback takes back: the last turns, from what the user said on.
    fn find_abandoned(&mut self, lines: &[&Line]) {
        let mut turns: Vec<usize> = Vec::new();
        for (i, line) in lines.iter().enumerate() {
            match line.content {
                LineContent::Message { by: By::User, .. } if !self.context.contains(&i) => turns.push(i),
                LineContent::Echo { by: By::User, .. } if !self.repeated.contains(&i) => turns.push(i),
                LineContent::RolledBack { turns: n } => {
                    let keep = turns.len().saturating_sub(usize::try_from(n).unwrap_or(usize::MAX));
                    if let Some(&from) = turns.get(keep) {
                        self.abandoned.extend(from..i);
                    }
                    turns.truncate(keep);
                }
                _ => {}
            }
        }
    }
}

/// Whether the last turn was left without an answer.
fn is_open(lines: &[&Line]) -> bool {
    let mut marked = false;
    let mut open = true;
    let mut has_spoken = false;
    for line in lines {
        match line.content {
            LineContent::TurnStart { .. } => (marked, open, has_spoken) = (true, true, false),
            LineContent::StreamEnd { .. } => (marked, open) = (true, false),
            LineContent::TurnEnd { text, failed, .. } => {
                open = failed || !(has_spoken || text.is_some() || !marked);
                marked = true;
            }
            LineContent::Aborted { .. } => (marked, open) = (true, true),
            LineContent::Message { by: By::Assistant, .. } | LineContent::Echo { by: By::Assistant, .. } => {
                has_spoken = true;
                open &= marked;
            }
            LineContent::Message { by: By::User, .. }
            | LineContent::Call { .. }
            | LineContent::Output { .. }
                if !marked =>
            {
                open = true;
            }
            _ => {}
        }
    }
    open
}
