//! Results of runs and of jobs, which lie in files beside the recordings: to which trace they belong.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use super::{Codes, Collected, Gathered};
use crate::error::FindingCode;
use crate::importers::extent::Note;
use crate::importers::run_result::{ResultOf, RunResult};

/// The results of runs that blocks have, by their folders, and those of jobs. Several files of one folder say it together.
pub(super) fn results_of(blocks: &mut [Collected]) -> (HashMap<Box<str>, RunResult>, Vec<RunResult>) {
    let mut runs: HashMap<Box<str>, RunResult> = HashMap::new();
    let mut jobs = Vec::new();
    for result in blocks.iter_mut().flat_map(|collected| collected.block.columns.results.drain(..)) {
        if result.job.is_some() {
            jobs.push(result);
            continue;
        }
        let result = match runs.remove(&result.folder) {
            Some(before) => before.with(result),
            None => result,
        };
        runs.insert(result.folder.clone(), result);
    }
    (runs, jobs)
}

impl Gathered {
    /// Gives the result of a run to the one trace that is recorded in its folder. `traces` are those of each folder.
    pub(super) fn settle_results(
        &mut self,
        results: &HashMap<Box<str>, RunResult>,
        mut traces: BTreeMap<&str, BTreeSet<u32>>,
    ) {
        for traces in traces.values_mut() {
            traces.retain(|trace| !self.set_aside.contains(trace));
        }
        let mut folders: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
        for (folder, traces) in &traces {
            for trace in traces {
                folders.entry(*trace).or_default().insert(*folder);
            }
        }
        for (trace, folders) in folders {
            // Of results that say the same any is right.
            let Some(first) = folders.first().map(|folder| &results[*folder]) else { continue };
            let of = if folders.iter().any(|folder| results[*folder].said != first.said) {
                ResultOf::OneOf(folders.iter().map(|folder| (*folder).into()).collect())
            } else if folders.iter().any(|folder| traces[folder].len() > 1) {
                ResultOf::SeveralRuns
            } else {
                ResultOf::OneRun
            };
            self.results.insert(trace, RunResult { of, ..first.clone() });
        }
    }

    /// Compares what jobs say of their runs with the results and the recordings that are there, and tells it with the
    /// first of the runs.
    pub(super) fn settle_jobs(&mut self, jobs: &[RunResult], results: &HashMap<Box<str>, RunResult>) {
        let mut runs: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for result in results.values().filter(|result| !result.task.is_empty()) {
            if let Some(job) = result.job_folder() {
                runs.entry(job).or_default().insert(&result.folder);
            }
        }
        let mut recorded: BTreeMap<&str, (BTreeSet<&str>, u32)> = BTreeMap::new();
        for (trace, result) in &self.results {
            let Some(job) = result.job_folder() else { continue };
            let (folders, first) = recorded.entry(job).or_insert((BTreeSet::new(), *trace));
            folders.insert(&result.folder);
            let name = |trace: u32| self.key(self.planned[trace as usize].key);
            if name(*trace) < name(*first) {
                *first = *trace;
            }
        }
        let mut notes_of: Vec<(u32, Vec<Note>)> = Vec::new();
        for (job, (folders, first)) in &recorded {
            let held = runs.get(job).map_or(0, BTreeSet::len);
            let silent = runs.get(job).map_or(0, |runs| runs.difference(folders).count());
            let stated = jobs.iter().filter(|stated| &*stated.folder == *job).filter_map(|stated| stated.job);
            let mut notes: Vec<Note> =
                stated.flat_map(|job| job.differs(i64::try_from(held).unwrap_or(i64::MAX))).collect();
            if silent > 0 {
                let message = format!(
                    "runs of the job with a result but no recording: {silent}; they are not traces, so means leave them out"
                );
                let count = u32::try_from(silent).unwrap_or(u32::MAX);
                notes.push(Note { code: FindingCode::SourceRunsMissing, count, message });
            }
            notes_of.push((*first, notes));
        }
        for (first, notes) in notes_of {
            for note in notes {
                self.note(first, note);
            }
        }
    }

    /// The traces that are recorded in the folder of each result.
    pub(super) fn in_folders<'r, 'b>(
        &self,
        results: &'r HashMap<Box<str>, RunResult>,
        blocks: impl Iterator<Item = (&'b str, &'b Codes)>,
    ) -> BTreeMap<&'r str, BTreeSet<u32>> {
        let mut traces: BTreeMap<&str, BTreeSet<u32>> = BTreeMap::new();
        for (path, map) in blocks {
            if let Some(result) = RunResult::of_path(results, path) {
                let used = |trace: &u32| self.planned[*trace as usize].bytes > 0;
                traces.entry(&result.folder).or_default().extend(map.traces.iter().copied().filter(used));
            }
        }
        traces
    }
}
