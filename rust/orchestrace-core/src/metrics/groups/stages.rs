//! Stages of the root agent, critical steps, stragglers (D9).
//!
//! ```text
//! CriticalSteps = Σ_t ( S_main(t) + max_i S_sub,i(t) )        TotalSteps = Σ_t ( S_main(t) + Σ_i S_sub,i(t) )
//! ```
//!
//! O(|V| + a log a), a being agents per stage. Source: Kimi K2.5, arXiv 2602.02276.

use crate::error::Reason;
use crate::graph::slots::Slots;
use crate::graph::{NOBODY, Order};
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::options::Options;
use crate::metrics::stages::Share;
use crate::metrics::subject::Subject;
use crate::schema::EventType;

/// Critical steps and stragglers.
#[derive(Debug)]
pub struct Stages;

static INFO: GroupInfo = GroupInfo {
    name: "stages",
    cost: Cost::Linear,
    reference: "D9, D24; Kimi K2.5, arXiv 2602.02276",
    metrics: &[
        Metric { name: "n_stages", count: Count::Things, summary: "stages of the root agent" },
        Metric {
            name: "critical_steps",
            count: Count::Things,
            summary: "steps of the root, plus those of the busiest sub-agent in each stage",
        },
        Metric {
            name: "total_steps",
            count: Count::Things,
            summary: "steps of the root and of all sub-agents",
        },
        Metric { name: "step_speedup", count: Count::Ratio, summary: "1 - critical_steps / total_steps" },
        Metric {
            name: "finish_rate",
            count: Count::Ratio,
            summary: "share of the spawned names that own a return whose ok is not false",
        },
        Metric {
            name: "max_fan_out",
            count: Count::Things,
            summary: "largest number of sub-agents with steps in one stage",
        },
        Metric {
            name: "straggler_gap",
            count: Count::Ratio,
            summary: "longest / median working time of a stage's sub-agents; maximum over stages with at least two",
        },
        Metric {
            name: "straggler_cost",
            count: Count::Time,
            summary: "span - span if each stage's slowest sub-agent were as fast as its second slowest",
        },
    ],
};

impl Group for Stages {
    fn info(&self) -> &'static GroupInfo {
        &INFO
    }

    fn worker(&self, _: &Options) -> Box<dyn Measure> {
        Box::<Worker>::default()
    }
}

#[derive(Debug, Default)]
struct Worker {
    spawned: Slots,
    /// Of each spawned name whether it returned.
    returned: Vec<bool>,
    work: Vec<f64>,
    sorted: Vec<f64>,
    factor: Vec<f64>,
    finish: Vec<f64>,
    base: Vec<u32>,
    /// Of each event its place among the shares, or [`NOBODY`].
    place: Vec<u32>,
}

impl Measure for Worker {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let stages = subject.stages();
        let main: u64 = stages.main.iter().map(|&steps| u64::from(steps)).sum();
        let all: u64 = stages.shares.iter().map(|share| u64::from(share.steps)).sum();
        let most = stages.fan_outs().map(|of| of.iter().map(|s| u64::from(s.steps)).max().unwrap_or(0));
        let (critical, total) = (main + most.sum::<u64>(), main + all);
        out.count(0, stages.main.len());
        out.set(1, critical as f64);
        out.set(2, total as f64);
        out.ratio(3, (total - critical) as f64, total as f64);
        match self.finish_rate(subject) {
            Some(rate) => out.set(4, rate),
            None => out.absent(4, Reason::RatioEmpty),
        }
        out.count(5, stages.fan_outs().map(<[Share]>::len).max().unwrap_or(0));
        match subject.scheduled() {
            Err(reason) => out.all_absent(6..8, reason),
            Ok((order, timing)) if stages.fan_outs().any(|of| of.len() > 1) => {
                match self.stragglers(subject, &timing.duration) {
                    Some(gap) => out.set(6, gap),
                    None => out.absent(6, Reason::RatioEmpty),
                }
                let span = subject.earliest().makespan;
                out.set(7, (span - self.evened(subject, order, &timing.duration)).max(0.0));
            }
            Ok(_) => out.all_absent(6..8, Reason::RatioEmpty),
        }
    }
}

impl Worker {
    fn finish_rate(&mut self, subject: &Subject<'_>) -> Option<f64> {
        let view = subject.view;
        self.spawned.begin();
        self.returned.clear();
        for v in (0..view.len()).filter(|&v| subject.is(v, &[EventType::Spawn])) {
            if let Some(to) = view.to.get(v).filter(|&to| self.spawned.get(to).is_none()) {
                self.spawned.set(to, self.returned.len() as u32);
                self.returned.push(false);
            }
        }
        if self.returned.is_empty() {
            return None;
        }
        for v in (0..view.len()).filter(|&v| subject.is(v, &[EventType::Return])) {
            if let Some(at) = self.spawned.get(subject.owners.codes()[v]) {
                self.returned[at as usize] |= view.ok.get(v) != Some(false);
            }
        }
        let returned = self.returned.iter().filter(|&&returned| returned).count();
        Some(returned as f64 / self.returned.len() as f64)
    }

    /// Working times of the shares, the factor that makes the slowest of each stage as fast as the second slowest, and the
    /// largest gap.
    fn stragglers(&mut self, subject: &Subject<'_>, duration: &[f64]) -> Option<f64> {
        let stages = subject.stages();
        self.work.clear();
        self.work.resize(stages.shares.len(), 0.0);
        self.base.clear();
        self.base.resize(stages.main.len() + 1, 0);
        stages.shares.iter().for_each(|share| self.base[share.stage as usize + 1] += 1);
        for at in 1..self.base.len() {
            self.base[at] += self.base[at - 1];
        }
        let mut place = std::mem::take(&mut self.place);
        place.clear();
        place.extend((0..duration.len()).map(|v| self.share_of(subject, v)));
        for (&at, duration) in place.iter().zip(duration) {
            if let Some(work) = self.work.get_mut(at as usize) {
                *work += duration;
            }
        }
        self.place = place;
        self.factor.clear();
        self.factor.resize(stages.shares.len(), 1.0);
        let mut gap = None;
        let mut from = 0;
        for of in stages.fan_outs() {
            let work = &self.work[from..from + of.len()];
            if of.len() > 1 {
                self.sorted.clear();
                self.sorted.extend_from_slice(work);
                self.sorted.sort_unstable_by(f64::total_cmp);
                let n = of.len();
                let (longest, second) = (self.sorted[n - 1], self.sorted[n - 2]);
                let median = f64::midpoint(self.sorted[(n - 1) / 2], self.sorted[n / 2]);
                if median > 0.0 {
                    gap = Some(f64::max(gap.unwrap_or(0.0), longest / median));
                }
                let slowest = work.iter().position(|&one| one == longest);
                if let Some(at) = slowest.filter(|_| longest > 0.0) {
                    self.factor[from + at] = second / longest;
                }
            }
            from += of.len();
        }
        gap
    }

    /// Place among the shares of a step of a sub-agent.
    fn share_of(&self, subject: &Subject<'_>, v: usize) -> u32 {
        let stage = subject.stages().stage_of[v] as usize;
        let Some(&[from, to]) = self.base.get(stage..).and_then(<[u32]>::first_chunk) else { return NOBODY };
        let of = &subject.stages().shares[from as usize..to as usize];
        let place = of.binary_search_by_key(&subject.owner(v), |share| share.agent);
        place.map_or(NOBODY, |at| from + at as u32)
    }

    /// The span where the slowest sub-agent of each stage is as fast as the second slowest.
    fn evened(&mut self, subject: &Subject<'_>, order: Order<'_>, duration: &[f64]) -> f64 {
        let mut finish = std::mem::take(&mut self.finish);
        finish.clear();
        finish.resize(duration.len(), 0.0);
        let mut last = 0.0_f64;
        let mut place = |v: usize| {
            let waited =
                subject.graph().predecessors_of(v).iter().map(|&u| finish[u as usize]).fold(0.0, f64::max);
            let factor = self.factor.get(self.place[v] as usize).copied().unwrap_or(1.0);
            finish[v] = waited + duration[v] * factor;
            last = last.max(finish[v]);
        };
        match order {
            Order::Document(n) => (0..n).for_each(&mut place),
            Order::Listed(rows) => rows.iter().for_each(|&v| place(v as usize)),
        }
        self.finish = finish;
        last
    }
}
