//! Lines of a session: whose they are, which were given up, and which of them are one answer.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::NAME;
use crate::importers::TraceItems;
use crate::importers::entry_tree::{Branches, Link, Parent};
use crate::importers::gemini_parts::{Part, parts};
use crate::importers::kind::counted_as;
use crate::importers::recording::Recording;
use crate::json::time::instant;
use crate::json::tree::Value;

/// What telemetry is called.
pub(super) const TELEMETRY: &str = "ui_telemetry";

/// A line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line<'v> {
    pub item: u32,
    pub path: &'v str,
    pub value: Value<'v>,
    pub id: Option<&'v str>,
    parent: Parent<'v>,
    pub kind: &'v str,
    pub subtype: &'v str,
    pub time: Option<i64>,
    pub after_loss: bool,
    /// Whether the user went back to what was before it, and on from there.
    pub abandoned: bool,
}

impl<'v> Line<'v> {
    pub(super) fn of(item: u32, items: &TraceItems<'v>, value: Value<'v>) -> Self {
        let from = &items.as_slice()[item as usize];
        let parent = value.get("parentUuid");
        Self {
            item,
            path: from.path,
            value,
            id: value.get("uuid").some_str(),
            parent: match parent.some_str() {
                Some(id) => Parent::Of(id),
                None if parent.is_null() => Parent::Root,
                None => Parent::Before,
            },
            kind: value.get("type").str().unwrap_or_default(),
            subtype: value.get("subtype").str().unwrap_or_default(),
            time: instant(value.get("timestamp")),
            after_loss: from.after_loss,
            abandoned: false,
        }
    }

    pub(super) fn parts(&self) -> impl Iterator<Item = Part<'v>> + use<'v> {
        parts(self.value.path(&["message", "parts"]))
    }

    /// All that its parts say.
    pub(super) fn text(&self) -> String {
        self.parts().filter_map(|part| if let Part::Text(text) = part { Some(text) } else { None }).collect()
    }

    /// Whether it goes on with the answer that another line began: with the same id, or in the same round of a sub-agent,
    /// which has a line for its text and one for each call.
    fn continues(&self, before: &Self) -> bool {
        let of_round = |line: &Self| line.value.get("agentRound").i64();
        let is_call = !self.value.get("usageMetadata").exists()
            && self.parts().all(|part| matches!(part, Part::Call(_) | Part::Silent));
        let in_round = match (of_round(before), of_round(self)) {
            (Some(a), Some(b)) => a == b && run_of(before) == run_of(self),
            (_, None) => is_call,
            (None, Some(_)) => false,
        };
        before.abandoned == self.abandoned
            && !self.after_loss
            && ((self.id.is_some() && self.id == before.id) || (agent_of(self.value).is_some() && in_round))
    }
}

fn run_of<'v>(line: &Line<'v>) -> Option<&'v str> {
    line.value.get("agentRunId").str()
}

/// The sub-agent that a line is of; one without an id has an empty one.
pub(super) fn agent_of(line: Value<'_>) -> Option<&str> {
    let is_aside = line.get("isSidechain").bool() == Some(true);
    line.get("agentId").some_str().or(is_aside.then_some(""))
}

/// What follows in a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Step {
    /// An answer, in all of its lines.
    Answer(Range<usize>),
    /// A line of the user or of the program.
    Said(usize),
    /// What tools gave back.
    Results(usize),
    /// The context was condensed.
    Compaction(usize),
    /// An answer of which only the telemetry knows.
    Request(usize),
}

impl Step {
    /// The place of its first line in its stream.
    pub(super) fn begins(&self) -> Option<usize> {
        match self {
            Self::Answer(lines) => Some(lines.start),
            Self::Said(at) | Self::Results(at) | Self::Compaction(at) => Some(*at),
            Self::Request(_) => None,
        }
    }
}

/// The lines of one agent.
#[derive(Debug, Default)]
pub(super) struct Stream<'v> {
    /// Id of the sub-agent; none of the main stream.
    pub agent: Option<&'v str>,
    pub lines: Vec<Line<'v>>,
    pub steps: Vec<Step>,
}

impl<'v> Stream<'v> {
    /// The lines of an answer. Others may stand between them.
    pub(super) fn answer(&self, lines: &Range<usize>) -> impl Iterator<Item = &Line<'v>> + use<'_, 'v> {
        self.lines[lines.clone()].iter().filter(|line| line.kind == "assistant")
    }

    /// The line that a step begins with.
    pub(super) fn first_line(&self, step: &Step) -> Option<&Line<'v>> {
        self.lines.get(step.begins()?)
    }

    /// What was said to it first.
    pub(super) fn prompt(&self) -> Option<&Line<'v>> {
        let first = self.steps.first()?;
        if let Step::Said(at) = first { self.lines.get(*at) } else { None }
    }

    /// Puts the lines of several files in the order of their times. The order within a file stays, and no order of files
    /// decides.
    pub(super) fn merge_files(&mut self) {
        if self.lines.windows(2).all(|pair| pair[0].path == pair[1].path) {
            return;
        }
        let mut latest = BTreeMap::new();
        let latest_so_far = self.lines.iter().map(|line| {
            let time = latest.entry(line.path).or_insert(line.time);
            *time = line.time.max(*time);
            (*time, *line)
        });
        let mut ordered: Vec<_> = latest_so_far.collect();
        ordered.sort_by_key(|(time, line)| (*time, line.path));
        self.lines = ordered.into_iter().map(|(_, line)| line).collect();
    }

    /// Finds what was given up, and tells links that lead nowhere.
    pub(super) fn branch(&mut self, recording: &mut Recording) {
        let mut links: Vec<Link<'_>> = self.lines.iter().map(link).collect();
        let mut begun = BTreeSet::new();
        for (link, line) in links.iter_mut().zip(&self.lines) {
            // The second half of an answer has the parent of the first.
            if let Some(id) = line.id
                && !begun.insert((id, line.kind))
            {
                link.parent = Parent::Of(id);
            }
        }
        let branches = Branches::of(&links);
        branches.report("lines", "parentUuid", recording);
        for (line, abandoned) in self.lines.iter_mut().zip(&branches.abandoned) {
            line.abandoned = *abandoned;
        }
    }

    /// What its lines are. Those that say nothing are counted by kind.
    pub(super) fn step(&mut self, items: &TraceItems<'_>) {
        for at in 0..self.lines.len() {
            let line = &self.lines[at];
            match line.kind {
                "assistant" => match self.steps.last_mut() {
                    Some(Step::Answer(lines)) if line.continues(&self.lines[lines.end - 1]) => {
                        lines.end = at + 1;
                    }
                    _ => self.steps.push(Step::Answer(at..at + 1)),
                },
                "user" => self.steps.push(Step::Said(at)),
                "tool_result" => self.steps.push(Step::Results(at)),
                "system" if line.subtype == "chat_compression" => self.steps.push(Step::Compaction(at)),
                // What it says of requests and tools is used, if it says something.
                "system" if line.subtype == TELEMETRY => {}
                kind => {
                    let kind = if kind == "system" { line.subtype } else { kind };
                    items.ignored(line.item as usize, &counted_as(NAME, kind));
                }
            }
        }
    }
}

fn link<'v>(line: &Line<'v>) -> Link<'v> {
    // Artifacts stand beside the conversation.
    let may_end = !line.subtype.starts_with("session_artifact");
    Link { id: line.id, parent: line.parent, may_end }
}
