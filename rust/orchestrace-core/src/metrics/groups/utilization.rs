//! The share of a team's work that led to its outcome (D19). O(|V|).

use crate::graph::NOBODY;
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::options::Options;
use crate::metrics::subject::Subject;

/// Shares of useful and dead work.
#[derive(Debug)]
pub struct Utilization;

static INFO: GroupInfo = GroupInfo {
    name: "utilization",
    cost: Cost::Linear,
    reference: "D19; arXiv 2605.02801, Table 13",
    metrics: &[
        Metric {
            name: "utilization",
            count: Count::Ratio,
            summary: "share of the sub-agents' events that have a path to the outcome",
        },
        Metric {
            name: "utilization_mean",
            count: Count::Ratio,
            summary: "the same share per sub-agent, averaged over sub-agents",
        },
        Metric {
            name: "useless_agents",
            count: Count::Things,
            summary: "sub-agents without an event that has a path to the outcome",
        },
        Metric {
            name: "dead_events",
            count: Count::Ratio,
            summary: "share of events without a path to the outcome",
        },
        Metric {
            name: "dead_work",
            count: Count::Ratio,
            summary: "share of the work that these events take",
        },
        Metric {
            name: "dead_tokens",
            count: Count::Ratio,
            summary: "share of the tokens that these events use",
        },
    ],
};

impl Group for Utilization {
    fn info(&self) -> &'static GroupInfo {
        &INFO
    }

    fn worker(&self, _: &Options) -> Box<dyn Measure> {
        Box::<Worker>::default()
    }
}

#[derive(Debug, Default)]
struct Worker {
    live: Vec<u32>,
}

impl Measure for Worker {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let lives = match subject.lives() {
            Ok(lives) => lives,
            Err(reason) => return out.all_absent(0..INFO.metrics.len(), reason),
        };
        let names = subject.owners.names();
        self.live.clear();
        self.live.resize(names.len(), 0);
        let mut dead = 0;
        for (v, &alive) in lives.iter().enumerate() {
            let owner = subject.owner(v);
            dead += usize::from(!alive);
            if alive && owner != NOBODY {
                self.live[owner as usize] += 1;
            }
        }
        let root = subject.root();
        let (mut agents, mut useless, mut owned, mut alive, mut shares) = (0, 0, 0, 0, 0.0);
        for (at, name) in names.iter().enumerate().filter(|(at, n)| n.is_agent() && *at as u32 != root) {
            agents += 1;
            owned += name.owned;
            alive += self.live[at];
            useless += usize::from(self.live[at] == 0);
            shares += f64::from(self.live[at]) / f64::from(name.owned);
        }
        out.ratio(0, f64::from(alive), f64::from(owned));
        out.ratio(1, shares, f64::from(agents));
        out.count(2, useless);
        out.ratio(3, dead as f64, lives.len() as f64);
        let is_dead = |v: &usize| !lives[*v];
        match subject.timing() {
            Ok(timing) => {
                let work: f64 = timing.duration.iter().sum();
                let lost = (0..lives.len()).filter(is_dead).map(|v| timing.duration[v]).sum();
                out.ratio(4, lost, work);
            }
            Err(reason) => out.absent(4, reason),
        }
        out.put(5, subject.token_share((0..lives.len()).filter(is_dead)));
    }
}
