//! How a conversation ended, what it cost and whether its task was solved.

use std::collections::HashSet;

use super::Describing;
use crate::error::FindingCode;
use crate::importers::recording::Recording;
use crate::json::Kind;
use crate::json::tree::Value;
use crate::schema::MeasureKind;

impl<'v> Describing<'_, 'v, '_> {
    pub(super) fn end(mut self, run: Option<Value<'v>>) {
        let error = run.map(|run| run.get("error")).filter(|error| error.exists());
        let stopped_by = match error {
            Some(error) => kind_of(error),
            None if self.state == "error" => "error",
            None => "",
        };
        let at_work: HashSet<usize> = self.working.iter().copied().collect();
        for (number, stream) in self.streams.iter().enumerate() {
            let is_cut = at_work.contains(&number) && (!stream.answered || number > 0);
            self.recording.agent_info(stream.agent).open = is_cut || (number == 0 && !stopped_by.is_empty());
        }
        self.prices();
        self.ledger.compare(self.recording);
        if let Some(run) = run {
            if self.has_two_verdicts {
                let message = "lines with the same history say that report.resolved is true and that it is false; neither is used";
                self.recording.finding(FindingCode::TraceConflict, None, message);
            } else {
                reward(run, self.recording);
            }
        }
        self.recording.stopped_by(stopped_by);
    }

    /// Prices of metrics that list nothing else are in the order of the responses.
    pub(super) fn prices(&mut self) {
        let costs = self.ledger.loose_costs();
        self.recording.price_responses(costs);
    }
}

/// What went wrong, by the class of the exception, without its words.
fn kind_of(error: Value<'_>) -> &str {
    let text = error.str().unwrap_or_default();
    let class = text.split_once(':').map_or(text, |(class, _)| class);
    let is_class = !class.is_empty()
        && class.len() <= 60
        && class.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
    if is_class { class } else { "error" }
}

/// Whether the benchmark calls the task solved. Whatever is no verdict leaves it open.
fn reward(run: Value<'_>, recording: &mut Recording) {
    let report = run.get("report");
    match report.get("resolved").bool() {
        Some(resolved) => recording.measure(MeasureKind::Reward, "team", f64::from(u8::from(resolved))),
        None if report.exists() => {
            let kind = report.get("resolved").kind().map_or("nothing", Kind::as_str);
            let message = format!("found {kind} as report.resolved, expected true or false");
            recording.finding(FindingCode::RewardUnscored, None, message);
        }
        None => {}
    }
}
