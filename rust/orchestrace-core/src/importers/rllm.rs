//! rLLM: episodes from its episode logger, one per document, or from `Episode.to_dict`, one per line: trajectories of
//! named agents, their steps, rewards of both, and whether the episode was solved.
//!
//! Read by a mapping, as a custom format is. What the logger says of a batch has no episode in it and is counted.

use super::mapping::BuiltIn;
use super::{Confidence, ImporterInfo};
use crate::json::tree::Value;

static INFO: ImporterInfo = ImporterInfo {
    name: "rllm",
    summary: "rLLM episodes: trajectories of agents, with their steps and rewards",
    evidence: &["trajectories", "is_correct", "termination_reason"],
    suffixes: &[".json", ".jsonl"],
    lenient: true,
};

/// The importer.
pub static RLLM: BuiltIn = BuiltIn::new(&INFO, include_str!("rllm/mapping.json"), is_episode)
    .aside("episode_files", "batch_summary");

fn is_episode(record: Value<'_>, _path: &str) -> Confidence {
    let has = |key: &str| !record.get(key).is_absent();
    let episode = has("trajectories") && has("is_correct") && has("task");
    let summary = has("episode_files") && has("training_step");
    if episode || summary { Confidence::Yes } else { Confidence::No }
}
