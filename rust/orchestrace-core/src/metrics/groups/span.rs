//! Work, span, the critical path, concurrency (D7, D8, D19).
//!
//! Work T1 is the sum of all durations, the span T∞ the longest path by duration, parallelism T1/T∞. O(|V|+|E|),
//! O(a log a) for a lifetimes.
//! Sources: Brent, J. ACM 21(2), 1974; Graham 1969; Kelley and Walker 1959.

use crate::error::Reason;
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::lifetimes::Lifetimes;
use crate::metrics::options::Options;
use crate::metrics::subject::Subject;

/// Work and span.
#[derive(Debug)]
pub struct Span;

static INFO: GroupInfo = GroupInfo {
    name: "span",
    cost: Cost::Linear,
    reference: "D7, D8, D19; Brent 1974; Graham 1969",
    metrics: &[
        Metric { name: "work", count: Count::Time, summary: "T1: sum of all durations" },
        Metric { name: "span", count: Count::Time, summary: "T∞: longest path by duration" },
        Metric { name: "parallelism", count: Count::Ratio, summary: "work / span" },
        Metric {
            name: "slack_mean",
            count: Count::Time,
            summary: "mean delay that an event could have without a later end of the run",
        },
        Metric { name: "n_critical", count: Count::Things, summary: "events on the critical path" },
        Metric {
            name: "critical_owners",
            count: Count::Things,
            summary: "agents that own an event on the critical path",
        },
        Metric {
            name: "critical_token_share",
            count: Count::Ratio,
            summary: "share of tokens on the critical path",
        },
        Metric {
            name: "critical_root_share",
            count: Count::Ratio,
            summary: "share of the span that the root agent's events on the critical path take",
        },
        Metric {
            name: "average_concurrency",
            count: Count::Ratio,
            summary: "work / time from the first start to the last end; null if durations are seconds and times are \
                      steps",
        },
        Metric {
            name: "peak_concurrency",
            count: Count::Things,
            summary: "largest number of agents alive at once",
        },
        Metric {
            name: "recorded_share",
            count: Count::Ratio,
            summary: "share of the team's events with a recorded duration",
        },
    ],
};

impl Group for Span {
    fn info(&self) -> &'static GroupInfo {
        &INFO
    }

    fn worker(&self, _: &Options) -> Box<dyn Measure> {
        Box::<Worker>::default()
    }
}

#[derive(Debug, Default)]
struct Worker {
    seen: Vec<bool>,
    lives: Lifetimes,
    starts: Vec<f64>,
    stops: Vec<f64>,
}

impl Measure for Worker {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let view = subject.view;
        match subject.scheduled() {
            Err(reason) => out.all_absent(0..9, reason),
            Ok((_, timing)) => {
                let work: f64 = timing.duration.iter().sum();
                let span = subject.earliest().makespan;
                out.set(0, work);
                out.set(1, span);
                out.ratio(2, work, span);
                out.ratio(3, subject.slack().slack.iter().sum(), view.len() as f64);
                self.path(subject, &timing.duration, out);
                match timing.makespan {
                    Some(makespan) => out.ratio(8, work, makespan),
                    None => out.absent(8, Reason::TimeSteps),
                }
            }
        }
        out.count(9, self.peak(subject));
        match subject.timing() {
            Ok(timing) => out.set(10, timing.support()),
            Err(reason) => out.absent(10, reason),
        }
    }
}

impl Worker {
    fn path(&mut self, subject: &Subject<'_>, duration: &[f64], out: &mut Row<'_>) {
        let path = &subject.slack().path;
        out.count(4, path.len());
        self.seen.clear();
        self.seen.resize(subject.owners.names().len(), false);
        let (mut owners, mut of_root) = (0, 0.0);
        let root = subject.root();
        for &v in path {
            let owner = subject.owner(v as usize);
            if let Some(seen) = self.seen.get_mut(owner as usize) {
                owners += usize::from(!std::mem::replace(seen, true));
                of_root += if owner == root { duration[v as usize] } else { 0.0 };
            }
        }
        out.count(5, owners);
        out.put(6, subject.token_share(path.iter().map(|&v| v as usize)));
        out.ratio(7, of_root, subject.earliest().makespan);
    }

    fn peak(&mut self, subject: &Subject<'_>) -> usize {
        self.lives.compute(subject);
        let lives = self.lives.list.iter().filter(|(from, to)| from <= to);

        self.starts.clear();
        self.stops.clear();
        for &(from, to) in lives {
            self.starts.push(from);
            self.stops.push(to);
        }
        self.starts.sort_unstable_by(f64::total_cmp);
        self.stops.sort_unstable_by(f64::total_cmp);
        let (mut most, mut gone) = (0, 0);
        for (begun, &start) in self.starts.iter().enumerate() {
            // intervals are closed: who ends at this time is still there
            while self.stops[gone] < start {
                gone += 1;
            }
            most = most.max(begun + 1 - gone);
        }
        most
    }
}
