//! Files that Harbor writes beside the recordings of a trial: `result.json` says what became of the run, the others
//! how it was set up and tested.

use crate::importers::items::{Items, ResultOf, RunResult};
use crate::json::identity::identity;
use crate::json::tree::Value;

/// A file of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HarborFile {
    /// What became of a trial.
    Result,
    /// The settings of a trial or of a job.
    Config,
    /// What became of all trials of a job.
    Job,
    /// What the tests of a trial said, in the common test report format.
    Tests,
}

impl HarborFile {
    /// The kind of a document, if it is one of these files.
    pub(super) fn of(document: Value<'_>) -> Option<Self> {
        let has = |keys: &[&str]| keys.iter().all(|key| document.get(key).exists());
        let has_any = |keys: &[&str]| keys.iter().any(|key| document.get(key).exists());
        if has(&["trial_name", "task_name"]) && has_any(&["agent_info", "agent_result", "verifier_result"]) {
            return Some(Self::Result);
        }
        if (has(&["trial_name", "job_id"]) && has_any(&["task", "agent"]))
            || (has(&["job_name", "jobs_dir"]) && has_any(&["agents", "datasets", "n_attempts"]))
        {
            return Some(Self::Config);
        }
        if has(&["n_total_trials", "stats"]) {
            return Some(Self::Job);
        }
        let results = document.get("results");
        let tests = results.get("tool").get("name").exists() && results.get("summary").exists();
        tests.then_some(Self::Tests)
    }

    /// Counts the file; a result says what became of the runs that are recorded in its folder.
    pub(super) fn put(self, document: Value<'_>, path: &str, out: &mut Items<'_>) {
        out.ignored(match self {
            Self::Result => "atif.harbor_result",
            Self::Config => "atif.harbor_config",
            Self::Job => "atif.harbor_job",
            Self::Tests => "atif.harbor_tests",
        });
        if self != Self::Result {
            return;
        }
        let agent = document.get("agent_result");
        let count = |key: &str| agent.get(key).i64();
        let rewards = document.get("verifier_result").get("rewards").members();
        let exception = document.get("exception_info").get("exception_type");
        out.run_result(RunResult {
            folder: path.rsplit_once('/').map_or("", |(folder, _)| folder).into(),
            task: document.get("task_name").str().unwrap_or_default().into(),
            rewards: rewards.filter_map(|(name, value)| Some((name.into(), value.f64()?))).collect(),
            cost_usd: agent.get("cost_usd").f64(),
            tokens: count("n_input_tokens").zip(count("n_output_tokens")).map(|(a, b)| a.saturating_add(b)),
            exception: exception.str().unwrap_or_default().into(),
            of: ResultOf::default(),
            said: identity(document.raw()),
        });
    }
}
