//! NeMo Gym: rollouts of an agent in an environment, one per line, each with a reward (`*_rollouts.jsonl`).
//!
//! An item is a rollout, and makes one trace: what the agent was given, then what the model and the environment added to
//! it, as items of OpenAI's Responses API (`docs/formats/nemo_gym.md`).

use super::items::{Items, TraceItems};
use super::parsed::tell_replaced;
use super::recording::Recording;
use super::shape::{expect_member, expect_object};
use super::{Confidence, ImporterInfo, Record, SpreadImporter};
use crate::columns::writer::TraceWriter;
use crate::error::{FindingCode, Reject};
use crate::json::tree::{Tree, Value};
use crate::json::{Fault, Kind};

mod describe;
mod names;
mod outcome;
mod usage;

/// The importer.
#[derive(Debug)]
pub struct NemoGym;

static INFO: ImporterInfo = ImporterInfo {
    name: "nemo_gym",
    summary: "NeMo Gym rollouts: what agents did in environments, as OpenAI Responses items, with rewards",
    evidence: &["responses_create_params", "response", "reward"],
    suffixes: &[".jsonl"],
    lenient: true,
};

/// What a record of a collection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sort {
    Rollout,
    /// Not a rollout; what it counts as.
    Beside(&'static str),
}

impl Sort {
    fn of(record: Value<'_>) -> Option<Self> {
        let has = |key: &str| !record.get(key).is_absent();
        if record.get("responses_create_params").kind() == Some(Kind::Object) {
            // A task before anybody tried it has what is asked alone.
            let is_tried = ["response", "reward", names::FAILURE].into_iter().any(has);
            Some(if is_tried { Self::Rollout } else { Self::Beside("nemo_gym.inputs") })
        } else if has("agent_metrics") && has("group_level_metrics") {
            Some(Self::Beside("nemo_gym.aggregate_metrics"))
        } else if has("mean/reward") && has("sample") {
            Some(Self::Beside("nemo_gym.reward_profiling"))
        } else if has("mean/reward") && has("agent_ref") {
            Some(Self::Beside("nemo_gym.aggregate_metrics"))
        } else {
            None
        }
    }
}

impl SpreadImporter for NemoGym {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        let is_response = record.path(&["response", "object"]).str() == Some("response");
        match Sort::of(record) {
            Some(_) => Confidence::Yes,
            None if is_response && !record.get("reward").is_absent() => Confidence::Maybe,
            None => Confidence::No,
        }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let tree = Tree::parse(record.text, out.limits()).map_err(Fault::into_reject)?;
        let rollout = tree.root();
        expect_object(rollout, "")?;
        if let Some(Sort::Beside(kind)) = Sort::of(rollout) {
            out.ignored(kind);
            return Ok(());
        }
        expect_member(rollout, "responses_create_params", Kind::Object)?;
        let output = rollout.path(&["response", "output"]);
        // An attempt that broke may have no response.
        if output.kind() != Some(Kind::Array) && !rollout.get(names::FAILURE).exists() {
            expect_member(rollout, "response", Kind::Object)?;
            expect_member(rollout.get("response"), "output", Kind::Array)
                .map_err(|reject| Reject { path: "/response/output".into(), ..reject })?;
        }
        let key = out.in_file(&names::key(rollout, record.stem, out.offset()));
        for tools in [&["responses_create_params", "tools"], &["response", "tools"]] {
            out.leave_out(rollout.path(tools).raw());
        }
        out.item(&key, rollout.raw(), "");
        for list in describe::earlier_lists(output) {
            out.item(&key, list.raw(), "");
        }
        Ok(())
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        let is_list = |at: &usize| items.as_slice()[*at].text.starts_with('[');
        let (lists, rollouts): (Vec<usize>, Vec<usize>) = (0..items.len()).partition(is_list);
        // The conversation up to an earlier step, which a later list has, too.
        for at in lists {
            items.duplicate(at);
        }
        // What differs under one task and rollout are several attempts.
        let Some(&at) = rollouts.get(items.part()) else { return };
        if items.part() + 1 < rollouts.len() {
            items.another();
        }
        items.lies_at(at);
        let item = &items.as_slice()[at];
        let Ok(tree) = Tree::parse(item.text, items.limits()) else { return };
        let mut recording = Recording::default();
        recording.made_of(at as u32);
        if tree.is_replaced() {
            tell_replaced(&mut recording);
        }
        let names = names::Names::of(tree.root(), items.key(), item.line);
        names.write(items.part(), &mut recording);
        if items.part() > 0 {
            let message = format!(
                "the file has {} different records of this task and rollout, this is number {}",
                rollouts.len(),
                items.part() + 1
            );
            recording.finding(FindingCode::IdRepeated, None, message);
        }
        describe::describe(tree.root(), items.limits(), &mut recording);
        recording.write(out);
    }
}
