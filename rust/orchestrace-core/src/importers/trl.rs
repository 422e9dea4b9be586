//! TRL: the completion tables that its trainers log (`log_completions=True`), one JSON row per line: prompt,
//! completion, a column for each reward function, the advantage.
//!
//! TRL writes Parquet; `polars.read_parquet(...).write_ndjson(...)` makes these lines of it. Read by a mapping, as a
//! custom format is. Rows have no ids: see `verl`.

use super::mapping::BuiltIn;
use super::{Confidence, ImporterInfo};
use crate::json::tree::Value;

static INFO: ImporterInfo = ImporterInfo {
    name: "trl",
    summary: "TRL tables of completions as JSON lines: prompt, completion, rewards, advantage",
    evidence: &["step", "prompt", "completion", "advantage"],
    suffixes: &[".jsonl", ".ndjson"],
    lenient: true,
};

/// The importer.
pub static TRL: BuiltIn = BuiltIn::new(&INFO, include_str!("trl/mapping.json"), is_row);

fn is_row(record: Value<'_>, _path: &str) -> Confidence {
    let has = |key: &str| record.get(key).exists();
    match (has("prompt") && has("completion") && has("step"), record.get("advantage").is_absent()) {
        (true, false) => Confidence::Yes,
        // Earlier versions wrote no advantage; such rows may be of others too.
        (true, true) => Confidence::Maybe,
        (false, _) => Confidence::No,
    }
}
