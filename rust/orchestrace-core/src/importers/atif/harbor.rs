//! Files that Harbor writes beside the recordings of a trial: `result.json` says what became of the run, the others
//! how it was set up and tested.

use xxhash_rust::xxh3::xxh3_64;

use crate::error::FindingCode;
use crate::importers::items::Items;
use crate::importers::run_result::{Job, RunResult};
use crate::json::identity::{identity, mixed};
use crate::json::time::parse_timestamp;
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
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let result = match self {
            Self::Result => Some(of_trial(document)),
            Self::Job => Some(of_job(document)),
            Self::Tests => Some(of_tests(document)),
            Self::Config => None,
        };
        // A report lies in `verifier` of its trial. Steps of a trial have reports of their own, which are of no run.
        let folder = if self == Self::Tests {
            let trial = folder.strip_suffix("verifier").map(|trial| trial.trim_end_matches('/'));
            trial.filter(|trial| trial.rsplit('/').nth(1) != Some("steps"))
        } else {
            Some(folder)
        };
        if let (Some(result), Some(folder)) = (result, folder) {
            let mut result = RunResult { folder: folder.into(), ..result };
            result.said = identity(document.raw());
            out.run_result(result);
        }
    }
}

/// What became of a trial.
fn of_trial(document: Value<'_>) -> RunResult {
    let agent = document.get("agent_result");
    let count = |key: &str| agent.get(key).i64();
    // An endpoint that counts nothing gives 0.
    let written = count("n_output_tokens").filter(|n| *n > 0 || count("n_input_tokens") == Some(0));
    let rewards = document.path(&["verifier_result", "rewards"]);
    let unscored = rewards.members().filter(|(_, value)| value.f64().is_none());
    let exception = document.path(&["exception_info", "exception_type"]).str().unwrap_or_default();
    let phases = ["environment_setup", "agent_setup", "verifier"];
    let phase = |name: &str| Some((format!("phase_{name}_s").into(), took_s(document.get(name))?));
    RunResult {
        task: document.get("task_name").str().unwrap_or_default().into(),
        group: group(document),
        rewards: rewards.members().filter_map(|(name, value)| Some((name.into(), value.f64()?))).collect(),
        notes: unscored.map(|(name, value)| unscored_note(name, value)).collect(),
        unreliable: if Cause::of(exception).is_of_agent() { "".into() } else { exception.into() },
        metrics: phases.into_iter().filter_map(phase).collect(),
        cost_usd: agent.get("cost_usd").f64(),
        tokens: count("n_input_tokens").zip(written).map(|(a, b)| a.saturating_add(b)),
        wall_clock_s: took_s(document.get("agent_execution")),
        exception: exception.into(),
        ..RunResult::default()
    }
}

fn unscored_note(name: &str, value: Value<'_>) -> (FindingCode, String) {
    let shown: String = value.raw().chars().take(40).collect();
    let message =
        format!("the reward '{name}' of the run's result is {shown}, expected a number: it is not known");
    (FindingCode::RewardUnscored, message)
}

/// How long a phase took, in seconds.
fn took_s(phase: Value<'_>) -> Option<f64> {
    let at = |key: &str| phase.get(key).str().and_then(parse_timestamp);
    let took = at("finished_at")?.checked_sub(at("started_at")?)?;
    (took >= 0).then_some(took as f64 / 1e9)
}

/// What attempts at a task share that are comparable: who tries it, and all settings but where they are kept.
fn group(document: Value<'_>) -> Vec<(&'static str, Box<str>)> {
    let agent = document.get("agent_info");
    let named = [
        ("harness", agent.get("name")),
        ("version", agent.get("version")),
        ("model", agent.path(&["model_info", "name"])),
    ];
    let mut parts: Vec<_> =
        named.into_iter().filter_map(|(kind, name)| Some((kind, name.some_str()?.into()))).collect();
    let of_trial_alone = ["trial_name", "job_id", "trials_dir"];
    let settings = document.get("config").members().filter(|(key, _)| !of_trial_alone.contains(&&**key));
    let settings = settings.map(|(key, value)| mixed(identity(&format!("\"{key}\"")), identity(value.raw())));
    let sum = settings.fold(None, |sum: Option<u64>, one| Some(sum.unwrap_or(0).wrapping_add(one)));
    let checksum = document.get("task_checksum").some_str().map(|sum| xxh3_64(sum.as_bytes()));
    if sum.or(checksum).is_some() {
        let setup = mixed(sum.unwrap_or(0), checksum.unwrap_or(0));
        parts.push(("setup", format!("{setup:016x}").into()));
    }
    parts
}

/// What became of all trials.
fn of_job(document: Value<'_>) -> RunResult {
    let n_retries = document.path(&["stats", "n_retries"]).i64().unwrap_or(0);
    RunResult {
        job: Some(Job { n_runs: document.get("n_total_trials").i64(), n_retries }),
        ..RunResult::default()
    }
}

/// What the tests said: how many passed of those that ran.
fn of_tests(document: Value<'_>) -> RunResult {
    let tests = document.path(&["results", "tests"]);
    let mut counts = [0_u32; 2];
    for test in tests.elements() {
        match test.get("status").str() {
            Some("passed") => counts[0] += 1,
            Some("failed") => counts[1] += 1,
            _ => {}
        }
    }
    let [passed, failed] = counts.map(f64::from);
    let mut metrics = Vec::new();
    if tests.elements().next().is_some() {
        metrics.push(("tests_passed".into(), passed));
        metrics.push(("tests_total".into(), tests.elements().count() as f64));
    }
    if passed + failed > 0.0 {
        metrics.push(("test_share".into(), passed / (passed + failed)));
    }
    RunResult { metrics, ..RunResult::default() }
}

/// What an exception that ended a trial is due to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The agent, its budget of time and tokens included; no exception, too.
    Agent,
    /// The machines, the model's provider, the tests or whoever cancelled it.
    Infrastructure,
    /// What no rule knows. Harbor grades such trials.
    Unclassified,
}

impl Cause {
    const AGENT: [&str; 8] = [
        "",
        "AgentTimeoutError",
        "ContextWindowExceededError",
        "OutputTokenExceededError",
        "ContextLengthExceededError",
        "OutputLengthExceededError",
        "AgentSafetyRefusalError",
        "ContentPolicyViolationError",
    ];
    const INFRASTRUCTURE: [&str; 29] = [
        "APIConnectionError",
        "APIError",
        "AddTestsDirError",
        "AgentAuthenticationError",
        "AgentSetupTimeoutError",
        "AuthenticationError",
        "BadRequestError",
        "CancelledError",
        "DownloadVerifierDirError",
        "EnvironmentStartTimeoutError",
        "GKEExecStreamClosedError",
        "HealthcheckError",
        "InternalServerError",
        "MemoryLimitExceededError",
        "ModelNotFoundError",
        "NetworkConnectionError",
        "NotAuthenticatedError",
        "PreinstallError",
        "RateLimitError",
        "RewardFileEmptyError",
        "RewardFileNotFoundError",
        "SandboxBuildFailedError",
        "SandboxLikelyOutOfMemoryError",
        "ServiceUnavailableError",
        "Timeout",
        "UnknownApiError",
        "VerifierOutputParseError",
        "VerifierRuntimeError",
        "VerifierTimeoutError",
    ];

    fn of(exception: &str) -> Self {
        let is_of_api = exception.starts_with("Api") && exception.ends_with("Error");
        match exception {
            _ if Self::AGENT.contains(&exception) => Self::Agent,
            _ if is_of_api || Self::INFRASTRUCTURE.contains(&exception) => Self::Infrastructure,
            _ => Self::Unclassified,
        }
    }

    /// Whether a reward measures the agent.
    fn is_of_agent(self) -> bool {
        self != Self::Infrastructure
    }
}
