//! What the result of a run adds to its recording.

use super::Recording;
use super::beside::shown_path;
use crate::error::FindingCode;
use crate::importers::run_result::{ResultOf, RunResult};
use crate::schema::MeasureKind;

impl Recording {
    /// What a file beside the recording says of the run: its task, rewards and price, and what stopped it. A reward that
    /// is the only one, or is called `reward`, is the outcome of the task (R8).
    pub(crate) fn result_of_run(&mut self, result: Option<&RunResult>) {
        let Some(result) = result else { return };
        for (code, message) in &result.notes {
            self.finding(*code, None, message.clone());
        }
        match &result.of {
            ResultOf::OneRun => {}
            ResultOf::SeveralRuns => {
                let message = "several runs are recorded in the folder of one result; it is not used";
                return self.finding(FindingCode::FieldIgnored, None, message);
            }
            ResultOf::OneOf(folders) => {
                let shown: Vec<String> = folders.iter().take(3).map(|folder| shown_path(folder)).collect();
                let more = folders.len() - shown.len();
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let message = format!(
                    "results in {}{more} differ, but their recordings call the run the same, so that they are one; no result is used",
                    shown.join(", "),
                );
                return self.finding(FindingCode::TraceConflict, None, message);
            }
        }
        // A file that names no task was called after itself.
        if !result.task.is_empty() {
            let parts: Vec<_> = result.group.iter().map(|(kind, name)| (*kind, Some(&**name))).collect();
            self.group_by(&result.task, &parts);
        }
        for (name, reward) in &result.rewards {
            let is_outcome = result.rewards.len() == 1 || &**name == "reward";
            if result.unreliable.is_empty() {
                self.measure(MeasureKind::Reward, if is_outcome { "team" } else { name }, *reward);
            } else {
                let name = if is_outcome { "reward" } else { name };
                self.measure(MeasureKind::Metric, &format!("{name}_unreliable"), *reward);
            }
        }
        if !result.unreliable.is_empty() && !result.rewards.is_empty() {
            let message = format!(
                "the run was scored, but {} ended it, which is not the agent's failure: its rewards are kept as metrics whose names end in '_unreliable'",
                result.unreliable
            );
            self.finding(FindingCode::RewardUnreliable, None, message);
        }
        for (name, value) in &result.metrics {
            self.measure(MeasureKind::Metric, name, *value);
        }
        if let Some(seconds) = result.wall_clock_s {
            self.wall_clock_s(seconds);
        }
        let (mut sum, mut priced) = (0_i64, false);
        for usage in self.usages(0) {
            let parts = usage.tokens_in.unwrap_or(0).saturating_add(usage.tokens_out.unwrap_or(0));
            sum = sum.saturating_add(parts);
            priced |= usage.cost_usd.is_some();
        }
        if let Some(cost) = result.cost_usd.filter(|_| !priced) {
            self.measure(MeasureKind::Cost, "cost_usd", cost);
        }
        if let Some(tokens) = result.tokens.filter(|tokens| *tokens != sum) {
            self.other_total(None, None, tokens, sum, ("the run's result says", "its responses"));
        }
        self.stopped_by(&result.exception);
    }
}
