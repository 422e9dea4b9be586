//! Steps of an agent: one request to the model each, what came back of it, and the calls with their results. A step is
//! spread over lines, of which the last one, with the usage, comes after the results: what belongs to it is collected before
//! anything is told.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::line::Line;
use crate::json::tree::Value;

/// A step.
#[derive(Debug, Default)]
pub(super) struct Step<'v> {
    pub id: &'v str,
    /// Line that begins it.
    pub begin: usize,
    /// How often the model was asked, when last, and which model.
    pub requests: u32,
    pub asked: Option<i64>,
    pub model: &'v str,
    /// Lines of what it said, and of its calls.
    pub parts: Vec<usize>,
    pub calls: Vec<usize>,
    pub end: Option<Value<'v>>,
    ended: Option<i64>,
    /// The line that ended the turn before the step had ended, and whether the user did.
    pub stopped: Option<usize>,
    pub is_cancelled: bool,
    /// Whether a line is lost that may have been of it.
    pub has_loss: bool,
}

impl<'v> Step<'v> {
    /// When the model had answered: with the last of what it said before the first call.
    pub(super) fn answered(&self, lines: &[Line<'v>]) -> Option<i64> {
        let first_call = self.calls.first().copied();
        let last_part =
            self.parts.iter().rev().find(|part| first_call.is_none_or(|call| **part < call)).copied();
        last_part.or(first_call).map_or(self.ended, |line| lines[line].time)
    }

    /// How long the model took, in seconds: as the program measured it, else since it was asked last.
    pub(super) fn took(&self, lines: &[Line<'v>]) -> Option<f64> {
        let measured = |key: &str| self.end?.get(key).f64().filter(|ms| *ms >= 0.0);
        let measured = measured("llmFirstTokenLatencyMs")
            .zip(measured("llmStreamDurationMs"))
            .map(|(first, rest)| (first + rest) / 1e3);
        let since_asked = || {
            // A clock that was set back in between tells nothing.
            let asked_at = lines[self.begin].time.max(self.asked);
            let took = self.answered(lines)?.checked_sub(asked_at.filter(|_| self.asked.is_some())?)?;
            (took >= 0).then_some(took as f64 / 1e9)
        };
        measured.or_else(since_asked)
    }

    /// Whether the model answered at all.
    pub(super) fn is_answered(&self) -> bool {
        self.end.is_some() || !self.parts.is_empty() || !self.calls.is_empty()
    }
}

/// All steps of an agent.
#[derive(Debug, Default)]
pub(super) struct Steps<'v> {
    pub all: Vec<Step<'v>>,
    /// The step of a line.
    pub of_line: HashMap<usize, usize>,
    /// The ids of the calls of each step.
    pub calls: HashSet<(usize, &'v str)>,
    /// The call that a result answers, and the result of a call, by their lines.
    pub call_of: HashMap<usize, usize>,
    pub result_of: BTreeMap<usize, usize>,
}

impl<'v> Steps<'v> {
    pub(super) fn of(lines: &[Line<'v>]) -> Self {
        let mut steps = Self::default();
        let mut of_id: HashMap<&str, usize> = HashMap::new();
        let mut calls: HashMap<&str, usize> = HashMap::new();
        // The step that has not ended.
        let mut open: Option<usize> = None;
        for (at, line) in lines.iter().enumerate() {
            if let (true, Some(step)) = (line.after_loss, open) {
                steps.all[step].has_loss = true;
            }
            match (line.kind(), line.event()) {
                ("llm.request", _) => {
                    if let (Some(step), true) = (open, line.value.get("kind").str() != Some("compaction")) {
                        let step = &mut steps.all[step];
                        step.requests += 1;
                        step.asked = line.time;
                        step.model = line.value.get("model").str().unwrap_or_default();
                    }
                }
                ("turn.cancel" | "turn.ended" | "turn.prompt", _) => {
                    if let Some(step) = open.take() {
                        let step = &mut steps.all[step];
                        step.stopped = Some(at);
                        step.is_cancelled = line.kind() == "turn.cancel";
                    }
                }
                (_, Some((kind, event))) => {
                    let is_of_step = matches!(kind, "step.begin" | "step.end" | "content.part" | "tool.call");
                    if kind == "tool.result" {
                        let id = event.first(&["toolCallId", "parentUuid"]).str().unwrap_or_default();
                        if let Some(call) = calls.get(id).copied().filter(|_| !id.is_empty()) {
                            steps.call_of.insert(at, call);
                            steps.result_of.entry(call).or_insert(at);
                        }
                    }
                    if !is_of_step {
                        continue;
                    }
                    let key = if kind.starts_with("step.") { "uuid" } else { "stepUuid" };
                    let id = event.get(key).str().unwrap_or_default();
                    let step = match of_id.get(id).copied().filter(|_| !id.is_empty()) {
                        Some(step) => step,
                        None if id.is_empty() && open.is_some() && kind != "step.begin" => open.unwrap_or(0),
                        None => {
                            steps.stop(open, at);
                            steps.all.push(Step { id, begin: at, ..Step::default() });
                            of_id.insert(id, steps.all.len() - 1);
                            open = Some(steps.all.len() - 1);
                            steps.all.len() - 1
                        }
                    };
                    steps.of_line.insert(at, step);
                    let of = &mut steps.all[step];
                    match kind {
                        "content.part" => of.parts.push(at),
                        "tool.call" => {
                            of.calls.push(at);
                            let id = event.get("toolCallId").str().unwrap_or_default();
                            calls.insert(id, at);
                            steps.calls.insert((step, id));
                        }
                        "step.end" => {
                            of.end = of.end.or(Some(event));
                            of.ended = of.ended.or(line.time);
                            open = open.filter(|open| *open != step);
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        steps
    }

    /// Another step begins: the one before it never ended.
    fn stop(&mut self, open: Option<usize>, at: usize) {
        if let Some(step) = open {
            self.all[step].stopped = Some(at);
        }
    }
}
