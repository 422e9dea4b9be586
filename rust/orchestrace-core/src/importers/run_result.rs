//! What a file that lies beside recordings says of their run, or of all runs of a job.

use hashbrown::HashMap;

use super::extent::{Counted, Note};
use crate::error::FindingCode;

/// What a file beside recordings says of the run that they record.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct RunResult {
    /// The folder that its recordings lie in, at any depth.
    pub folder: Box<str>,
    pub task: Box<str>,
    /// What runs of its task share with it that are comparable: the kind and the name.
    pub group: Vec<(&'static str, Box<str>)>,
    pub rewards: Vec<(Box<str>, f64)>,
    /// Why the rewards are no outcome of the run; empty if they are one.
    pub unreliable: Box<str>,
    pub metrics: Vec<(Box<str>, f64)>,
    pub cost_usd: Option<f64>,
    pub tokens: Option<i64>,
    /// How long the agent worked.
    pub wall_clock_s: Option<f64>,
    /// The kind of exception that stopped it; empty if none did.
    pub exception: Box<str>,
    /// Whose it is.
    pub of: ResultOf,
    /// All that the file says ([`identity`]).
    pub said: u64,
    /// Of the result of a whole job, what it says of its runs.
    pub job: Option<Job>,
    /// What is odd about it.
    pub notes: Vec<(FindingCode, String)>,
}

/// What the result of a job says of its runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Job {
    /// How many there are.
    pub n_runs: Option<i64>,
    /// How many were run again, whose first attempt is deleted.
    pub n_retries: i64,
}

/// What a job counts.
const TRIALS: Counted =
    Counted { statement: "n_total_trials of the job", things: "results of trials", are_traces: true };

impl Job {
    /// What is odd, where the results of so many runs are there.
    pub(crate) fn differs(self, held: i64) -> Vec<Note> {
        let mut notes: Vec<Note> =
            self.n_runs.and_then(|n_runs| TRIALS.differs(n_runs, held)).into_iter().collect();
        if self.n_retries > 0 {
            let message = format!(
                "n_retries of the job is {}: so many attempts broke and were repeated, and their folders were deleted",
                self.n_retries
            );
            notes.push(Note { code: FindingCode::SourceRetried, count: 1, message });
        }
        notes
    }
}

/// Whether a result and a run belong to each other.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum ResultOf {
    #[default]
    OneRun,
    /// Several runs are recorded in its folder, so that it is not known which of them it is of.
    SeveralRuns,
    /// Other results are of the run, too: all their folders. Recordings of several trials call the run the same.
    OneOf(Vec<Box<str>>),
}

impl RunResult {
    /// What two files of one folder say of the run: the one that names its task, and the metrics of both.
    pub(crate) fn with(self, other: Self) -> Self {
        let is_first = (self.task.is_empty(), self.said) <= (other.task.is_empty(), other.said);
        let (mut result, more) = if is_first { (self, other) } else { (other, self) };
        result.metrics.extend(more.metrics);
        result.metrics.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
        result
    }

    /// The folder that holds its own.
    pub(crate) fn job_folder(&self) -> Option<&str> {
        let folder = (!self.folder.is_empty()).then_some(&*self.folder)?;
        Some(folder.rsplit_once('/').map_or("", |(job, _)| job))
    }

    /// The result of the run that a file records: that of the innermost folder which has one.
    pub(crate) fn of_path<'r>(results: &'r HashMap<Box<str>, Self>, path: &str) -> Option<&'r Self> {
        let folders =
            std::iter::successors(Some(path), |path| path.rsplit_once('/').map(|(folder, _)| folder));
        // What was named without a folder lies in that of the caller, beside nothing that is named from elsewhere.
        let is_near = !path.starts_with(['/', '\\']) && !path.starts_with("..");
        let near = || results.get("").filter(|_| is_near);
        folders
            .skip(1)
            .filter(|folder| !folder.is_empty())
            .find_map(|folder| results.get(folder))
            .or_else(near)
    }
}
