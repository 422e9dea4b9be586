//! verl: rollout dumps of its trainer (`trainer.rollout_data_dir`, `trainer.validation_data_dir`), one line each in
//! `<step>.jsonl`: prompt and answer as decoded text, ground truth, score, and extra values of the reward function.
//!
//! Read by a mapping, as a custom format is. A dump has no ids: a rollout is known by its step, a hash of its line and
//! where that lies, since two rollouts of one prompt may well be the same text.

use super::mapping::BuiltIn;
use super::{Confidence, ImporterInfo};
use crate::json::tree::Value;

static INFO: ImporterInfo = ImporterInfo {
    name: "verl",
    summary: "verl rollout and validation dumps: prompt, answer and score on each line",
    evidence: &["input", "output", "gts", "score", "step"],
    suffixes: &[".jsonl"],
    lenient: true,
};

/// The importer.
pub static VERL: BuiltIn = BuiltIn::new(&INFO, include_str!("verl/mapping.json"), is_rollout);

fn is_rollout(record: Value<'_>, _path: &str) -> Confidence {
    let texts = ["input", "output"].iter().all(|key| record.get(key).str().is_some());
    let numbers = record.get("score").number_like().is_some() && record.get("step").integer_like().is_some();
    if texts && numbers { Confidence::Yes } else { Confidence::No }
}
