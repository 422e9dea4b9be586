//! What a rollout, its task and its group are called. Where its file lies says nothing of it.

use crate::importers::recording::Recording;
use crate::json::identity::identity;
use crate::json::tree::Value;

/// How an attempt broke, of one that is to be tried again.
pub(super) const FAILURE: &str = "_ng_failure_class";

/// A rollout in its file: the same task and rollout are the same attempt, and what says neither is known by its place.
pub(super) fn key(rollout: Value<'_>, stem: &str, offset: u64) -> String {
    match (task_index(rollout), rollout.get("_ng_rollout_index").i64()) {
        (Some(task), Some(attempt)) => {
            let agent = rollout.path(&["agent_ref", "name"]).str().unwrap_or_default();
            format!("{stem}\n{agent}\n{task}/{attempt}")
        }
        _ => format!("{stem}\n{offset}"),
    }
}

/// The number of the task in what was collected.
fn task_index(rollout: Value<'_>) -> Option<i64> {
    rollout.get("_ng_task_index").i64().or_else(|| rollout.get("task_idx").i64())
}

/// A hash of the first question. Numbers of tasks begin at 0 in every file, and it distinguishes those of other files. Of
/// a task without a number it is all that is known.
fn prompt(rollout: Value<'_>, is_numbered: bool) -> Option<String> {
    let input = rollout.path(&["responses_create_params", "input"]);
    let text = if input.some_str().is_some() || (!is_numbered && !input.is_empty()) {
        input.raw().to_owned()
    } else {
        // What an environment shows first stands at the end, and differs between rollouts of a task.
        let shown = usize::from(!rollout.get("terminated").is_absent());
        let mut items = Vec::new();
        for item in input.elements().take(input.len().saturating_sub(shown)) {
            items.push(item.raw());
            if item.get("role").str() == Some("user") {
                break;
            }
        }
        (!items.is_empty()).then(|| format!("[{}]", items.join(",")))?
    };
    Some(format!("{:016x}", identity(&text)))
}

/// What a rollout is called.
#[derive(Debug)]
pub(super) struct Names<'v> {
    /// The name of its file, without folders and endings.
    stem: &'v str,
    /// Its agent and its task; nothing where it has neither number nor question.
    task: Option<String>,
    /// `/` and its number among the rollouts of its task, else `:` and its line.
    attempt: String,
    model: &'v str,
}

impl<'v> Names<'v> {
    pub(super) fn of(rollout: Value<'v>, key: &'v str, line: u64) -> Self {
        let index = task_index(rollout);
        let task = match (index, prompt(rollout, index.is_some())) {
            (Some(index), Some(prompt)) => Some(format!("{index}-{prompt}")),
            (Some(index), None) => Some(index.to_string()),
            (None, prompt) => prompt,
        };
        let agent = rollout.path(&["agent_ref", "name"]).some_str();
        let attempt = rollout.get("_ng_rollout_index").i64();
        Self {
            stem: key.split_once('\n').map_or("", |(stem, _)| stem),
            task: task.map(|task| agent.map_or(task.clone(), |agent| [agent, &task].join("/"))),
            attempt: attempt.map_or_else(|| format!(":{line}"), |attempt| format!("/{attempt}")),
            model: rollout.path(&["response", "model"]).str().unwrap_or_default(),
        }
    }

    /// `part` counts the records of one task and rollout.
    pub(super) fn write(&self, part: usize, recording: &mut Recording) {
        let task = self.task.as_deref().unwrap_or_default();
        let again = if part == 0 { String::new() } else { format!("~{}", part + 1) };
        let trace_id = [&joined(&[self.stem, task]), &*self.attempt, &again].concat();
        recording.trace.trace_id = recording.text(trace_id.trim_start_matches(['/', ':']));
        recording.trace.system = recording.text("nemo-gym");
        if !task.is_empty() {
            recording.trace.task_id = recording.text(task);
            // Rollouts of another model, or of another run, are no group with these.
            let group = joined(&[self.stem, task, self.model]);
            recording.trace.group_id = recording.text(&group);
        }
    }
}

/// Those that are not empty.
fn joined(parts: &[&str]) -> String {
    let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    parts.join("/")
}
