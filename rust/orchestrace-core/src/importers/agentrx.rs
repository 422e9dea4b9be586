//! `AgentRx`: failures that people found in trajectories of other data sets, as labels without traces.
//!
//! A record is a trajectory. `trajectory_id` is the task of the trace that it is about: `question_ID` of Who&When,
//! `task_id` of tau-bench; `orchestrace.place_labels` finds the trace. Steps count entries of the log from 1, turns
//! from 0. Every failure is a label of the annotator `agentrx`; the one that is called the root cause is once more a
//! label, of `agentrx.root_cause`, so that a method can be held against either.

use super::items::{Items, TraceItems};
use super::{ImporterInfo, Record, SpreadImporter};
use crate::columns::writer::{Label, TraceWriter};
use crate::error::{Reject, RejectCode};
use crate::json::tree::{Tree, Value};
use crate::json::{Fault, Kind};

#[cfg(test)]
mod tests;

/// The importer.
#[derive(Debug)]
pub struct AgentRx;

static INFO: ImporterInfo = ImporterInfo {
    name: "agentrx",
    summary: "AgentRx labels: failures and root causes in trajectories of Who&When and tau-bench",
    evidence: &["trajectory_id", "failures", "root_cause"],
    suffixes: &[".json"],
    lenient: true,
};

const ROOT_CAUSE: &str = "agentrx.root_cause";

impl SpreadImporter for AgentRx {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let tree = Tree::parse(record.text, out.limits()).map_err(Fault::into_reject)?;
        let root = tree.root();
        let Some(key) = id(root.get("trajectory_id")) else {
            let message = "found nothing here, expected a text or a whole number";
            return Err(Reject::new(RejectCode::FieldMissing, "/trajectory_id", message));
        };
        if root.get("failures").kind() != Some(Kind::Array) {
            let message = "found no array, expected the failures of the trajectory";
            return Err(Reject::new(RejectCode::FieldType, "/failures", message));
        }
        for (index, failure) in root.get("failures").elements().enumerate() {
            if step(failure).is_none() {
                let path = format!("/failures/{index}/step_number");
                let message = "expected the number of a step, from 1";
                return Err(Reject::new(RejectCode::FieldType, path, message));
            }
        }
        out.item(key, record.text, "");
        Ok(())
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        let trees = items.iter().filter_map(|item| Tree::parse(item.text, items.limits()).ok());
        for tree in trees {
            let root = tree.root();
            let cause = id(root.path(&["root_cause", "failure_id"]));
            for failure in root.get("failures").elements() {
                let agent = failure.get("failed_agent").some_str();
                let category = failure.get("failure_category").some_str().unwrap_or("failure");
                let mut label = |annotator: &str| {
                    let turn = step(failure);
                    out.label(
                        items.key(),
                        &Label { annotator, turn, agent, label: category, ..Label::default() },
                    );
                };
                label(INFO.name);
                if cause.is_some() && cause == id(failure.get("failure_id")) {
                    label(ROOT_CAUSE);
                }
            }
        }
    }
}

/// A text or a whole number as text: the data set writes ids as both.
fn id(value: Value<'_>) -> Option<&str> {
    let number = value.i64().map(|_| value.raw());
    value.some_str().or(number).map(str::trim).filter(|id| !id.is_empty())
}

/// The turn of a step.
fn step(failure: Value<'_>) -> Option<u32> {
    let number = failure.get("step_number").integer_like()?;
    u32::try_from(number.checked_sub(1)?).ok()
}
