//! Stages of the root agent, critical steps, stragglers (D9).
//!
//! ```text
//! CriticalSteps = Σ_t ( S_main(t) + max_i S_sub,i(t) )        TotalSteps = Σ_t ( S_main(t) + Σ_i S_sub,i(t) )
//! ```
//!
//! A stage opens at the first event and at each orchestrator decision or aggregate of the root. Steps of an agent are its
//! events but messages, spawns and despawns; those of the root count in the stage that is open, those of another agent in
//! the stage of its latest spawn. O(|V| + a log a), a being agents per stage. Source: Kimi K2.5, arXiv 2602.02276.

use crate::error::Reason;
use crate::graph::slots::Slots;
use crate::graph::{NOBODY, Order, Owners};
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Options, Row};
use crate::metrics::subject::Subject;
use crate::schema::EventType;
use crate::store::view::TraceView;

/// Steps of one sub-agent in one stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Share {
    /// Number of the stage, from 0.
    pub stage: u32,
    /// Position of the agent among the names.
    pub agent: u32,
    /// Its steps there.
    pub steps: u32,
}

/// Stages of one trace; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct StageTable {
    /// Steps of the root agent in each stage.
    pub main: Vec<u32>,
    /// First event of each stage in canonical order.
    pub opened: Vec<u32>,
    /// Steps of the other agents, by stage, then agent.
    pub shares: Vec<Share>,
    /// Of each event that is a step of another agent than the root its stage; [`NOBODY`] else.
    pub stage_of: Vec<u32>,
    latest: Vec<Latest>,
}

/// Where an agent is: the stage of its latest spawn, and a run of steps in one stage that is not yet written.
#[derive(Debug, Clone, Copy)]
struct Latest {
    spawned: u32,
    stage: u32,
    steps: u32,
}

/// Whether events of a type are steps (D9).
fn is_step(kind: u8) -> bool {
    const NOT: [u8; 3] = [EventType::Message as u8, EventType::Spawn as u8, EventType::Despawn as u8];
    !NOT.contains(&kind)
}

impl StageTable {
    /// Replaces everything by what `view` says.
    pub fn compute(&mut self, view: &TraceView<'_>, owners: &Owners) {
        let names = owners.names();
        let root = owners.root().and_then(|code| owners.name_index(code)).unwrap_or(NOBODY);
        for column in [&mut self.main, &mut self.opened, &mut self.stage_of] {
            column.clear();
        }
        self.shares.clear();
        self.stage_of.resize(view.len(), NOBODY);
        self.latest.clear();
        // the stage of an agent is that of its latest spawn; one that nobody spawned is in the open stage
        self.latest.resize(names.len(), Latest { spawned: NOBODY, stage: NOBODY, steps: 0 });
        for &v in owners.order().rows() {
            let i = v as usize;
            let (kind, owner) = (view.types[i], owners.indices()[i]);
            let opens = kind == EventType::OrchestratorDecision as u8 || kind == EventType::Aggregate as u8;
            if self.main.is_empty() || (opens && owner == root && root != NOBODY) {
                self.main.push(0);
                self.opened.push(v);
            }
            let open = self.main.len() as u32 - 1;
            if kind == EventType::Spawn as u8 {
                let child = view.to.get(i).and_then(|to| owners.name_index(to));
                let spawner = self.latest.get(owner as usize).map_or(NOBODY, |of| of.spawned);
                let stage = if owner == root || spawner == NOBODY { open } else { spawner };
                if let Some(child) = child.filter(|&child| child != root) {
                    self.latest[child as usize].spawned = stage;
                }
            }
            if owner == NOBODY || !is_step(kind) {
                continue;
            }
            if owner == root {
                self.main[open as usize] += 1;
                continue;
            }
            let latest = &mut self.latest[owner as usize];
            let stage = if latest.spawned == NOBODY { open } else { latest.spawned };
            self.stage_of[i] = stage;
            if latest.steps > 0 && latest.stage == stage {
                latest.steps += 1;
            } else {
                let told = std::mem::replace(latest, Latest { stage, steps: 1, ..*latest });
                self.tell(told, owner);
            }
        }
        for owner in 0..names.len() {
            let told = self.latest[owner];
            self.tell(told, owner as u32);
        }
        self.shares.sort_unstable();
        // an agent may come back to a stage
        self.shares.dedup_by(|again, first| {
            let same = (again.stage, again.agent) == (first.stage, first.agent);
            first.steps += if same { again.steps } else { 0 };
            same
        });
    }

    fn tell(&mut self, Latest { stage, steps, .. }: Latest, agent: u32) {
        if steps > 0 {
            self.shares.push(Share { stage, agent, steps });
        }
    }

    /// Steps of the other agents, stage by stage, those without any left out.
    pub fn fan_outs(&self) -> impl Iterator<Item = &[Share]> {
        self.shares.chunk_by(|a, b| a.stage == b.stage)
    }
}

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
        let stages = subject.stages;
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
                let span = subject.earliest.makespan;
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
        let stages = subject.stages;
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
        let stage = subject.stages.stage_of[v] as usize;
        let Some(&[from, to]) = self.base.get(stage..).and_then(<[u32]>::first_chunk) else { return NOBODY };
        let of = &subject.stages.shares[from as usize..to as usize];
        let found = of.binary_search_by_key(&subject.owner(v), |share| share.agent);
        found.map_or(NOBODY, |at| from + at as u32)
    }

    /// The span where the slowest sub-agent of each stage is as fast as the second slowest.
    fn evened(&mut self, subject: &Subject<'_>, order: Order<'_>, duration: &[f64]) -> f64 {
        let mut finish = std::mem::take(&mut self.finish);
        finish.clear();
        finish.resize(duration.len(), 0.0);
        let mut last = 0.0_f64;
        let mut place = |v: usize| {
            let waited =
                subject.graph.predecessors_of(v).iter().map(|&u| finish[u as usize]).fold(0.0, f64::max);
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
