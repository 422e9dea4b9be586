//! Sums of tokens that a source states beside those of the responses (R7).

use super::{Agent, Entry, Recording, Usage, What};
use crate::error::FindingCode;

impl Recording {
    /// Usage of the responses, of one agent or of all.
    pub(super) fn usages(&self, agent: Option<Agent>) -> impl Iterator<Item = Usage> {
        self.entries.iter().filter(move |entry| agent.is_none_or(|agent| entry.agent == agent)).filter_map(
            |entry| match &entry.what {
                What::Response(response) => Some(response.usage),
                _ => None,
            },
        )
    }

    /// Says that a source states another total of an agent, or of all, than its responses sum to. Where it is more,
    /// and some of them state nothing, their sum is a floor.
    pub(crate) fn other_total(
        &mut self,
        at: Option<Entry>,
        agent: Option<Agent>,
        stated: i64,
        sum: i64,
        (whole, parts): (&str, &str),
    ) {
        let silent = self.usages(agent).filter(|usage| usage.total().unwrap_or(0) <= 0).count();
        let difference = format!("{whole} {stated} tokens, but {parts} sum to {sum}");
        if stated > sum && silent > 0 {
            let verb = if silent == 1 { "states" } else { "state" };
            let message =
                format!("{difference}, and {silent} of the responses {verb} nothing; the sum is a floor");
            self.finding(FindingCode::UsageIncomplete, at, message);
        } else {
            self.finding(FindingCode::UsageRepeated, at, difference);
        }
    }
}
