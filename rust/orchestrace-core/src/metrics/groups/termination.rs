//! Termination lag: what a team still did after a recorded verifier would have passed its answer.
//!
//! The answer stood at the first decision or aggregate of an agent, in canonical order, whose `draft_score` is 1 (to 1e-9).
//! Shares are of the team's tokens, and of the time from its first event to its last. O(|V|).

use crate::error::Reason;
use crate::graph::NOBODY;
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::options::Options;
use crate::metrics::subject::Subject;
use crate::schema::{EventType, TimeBasis};

/// What came after the answer stood.
#[derive(Debug)]
pub struct Termination;

/// From which draft score on an answer passes.
const PASSES: f64 = 1.0 - 1e-9;

static INFO: GroupInfo = GroupInfo {
    name: "termination",
    cost: Cost::Linear,
    reference: "D29, D38",
    metrics: &[
        Metric {
            name: "termination_lag_tokens",
            count: Count::Ratio,
            summary: "share of tokens spent after the first draft that passes (draft_score 1)",
        },
        Metric {
            name: "termination_lag_time",
            count: Count::Ratio,
            summary: "share of the team's time after the first draft that passes; null if times are steps",
        },
    ],
};

impl Group for Termination {
    fn info(&self) -> &'static GroupInfo {
        &INFO
    }

    fn worker(&self, _: &Options) -> Box<dyn Measure> {
        Box::new(Worker)
    }
}

#[derive(Debug)]
struct Worker;

impl Measure for Worker {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let view = subject.view;
        let owned = |v: &u32| subject.owner(*v as usize) != NOBODY;
        let is_draft =
            |v: &u32| subject.is(*v as usize, &[EventType::OrchestratorDecision, EventType::Aggregate]);
        let score = |v: &u32| view.draft_score.get(*v as usize);
        let rows = subject.owners.order().rows();
        let mut drafts = rows.iter().filter(|v| owned(v) && is_draft(v) && score(v).is_some()).peekable();
        if drafts.peek().is_none() {
            return out.all_absent(0..2, Reason::FieldAbsent);
        }
        let Some(&passed) = drafts.find(|v| score(v).is_some_and(|score| score >= PASSES)) else {
            return out.all_absent(0..2, Reason::RatioEmpty);
        };
        let after = rows.iter().skip_while(|&&v| v != passed).skip(1);
        out.put(0, subject.token_share(after.map(|&v| v as usize)));
        let times = || rows.iter().filter(|v| owned(v)).map(|&v| view.t[v as usize]);
        let (first, last) = (times().next().unwrap_or(0.0), times().next_back().unwrap_or(0.0));
        match view.time_basis {
            Some(TimeBasis::Seconds | TimeBasis::Partial) => {
                out.ratio(1, last - view.t[passed as usize], last - first);
            }
            _ => out.absent(1, Reason::TimeSteps),
        }
    }
}
