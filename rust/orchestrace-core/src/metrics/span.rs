//! Work, span, the critical path, concurrency (D7, D8, D19; methods reference, 8.1 and 8.2).
//!
//! Work T1 is the sum of all durations, the span T∞ the longest path by duration, parallelism T1/T∞. Lifetimes are closed
//! intervals: from the first spawn that names an agent to its last return or despawn. O(|V|+|E|), O(a log a) for a lifetimes.
//! Sources: Brent, J. ACM 21(2), 1974; Graham 1969; Kelley and Walker 1959.

use super::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Options, Row};
use super::scale::ends;
use super::subject::Subject;
use crate::error::Reason;
use crate::graph::order::canonical_cmp;
use crate::graph::slots::Slots;
use crate::schema::{EventType, TimeBasis};

/// Work and span.
#[derive(Debug)]
pub struct Span;

static INFO: GroupInfo = GroupInfo {
    name: "span",
    cost: Cost::Linear,
    reference: "8.1, 8.2, D7, D8, D19; Brent 1974; Graham 1969",
    metrics: &[
        Metric { name: "work", count: Count::Time, summary: "T1: durations of all events" },
        Metric { name: "span", count: Count::Time, summary: "T∞: longest path by duration" },
        Metric { name: "parallelism", count: Count::Ratio, summary: "work / span" },
        Metric {
            name: "slack_mean",
            count: Count::Time,
            summary: "mean over events of how much later one could end without moving the end",
        },
        Metric { name: "n_critical", count: Count::Things, summary: "events of the critical path" },
        Metric {
            name: "critical_owners",
            count: Count::Things,
            summary: "agents that own an event of the critical path",
        },
        Metric {
            name: "critical_token_share",
            count: Count::Ratio,
            summary: "tokens of the critical path, of all",
        },
        Metric {
            name: "critical_root_share",
            count: Count::Ratio,
            summary: "time of the critical path that is the root agent's, of the span",
        },
        Metric {
            name: "average_concurrency",
            count: Count::Ratio,
            summary: "work over the time from the first beginning to the last end; null where durations are seconds and times are steps",
        },
        Metric {
            name: "peak_concurrency",
            count: Count::Things,
            summary: "most agents whose lifetimes meet",
        },
        Metric {
            name: "recorded_share",
            count: Count::Ratio,
            summary: "events whose duration is recorded, of all",
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
                let span = subject.earliest.makespan;
                out.set(0, work);
                out.set(1, span);
                out.ratio(2, work, span);
                out.ratio(3, subject.slack.slack.iter().sum(), view.len() as f64);
                self.path(subject, &timing.duration, out);
                let seconds = matches!(view.time_basis, Some(TimeBasis::Seconds | TimeBasis::Partial));
                // work in seconds has no place on an axis of steps
                if seconds == timing.steps {
                    out.absent(8, Reason::TimeSteps);
                } else {
                    out.ratio(8, work, timing.makespan);
                }
            }
        }
        out.count(9, self.peak(subject));
        match subject.timing {
            Ok(timing) => out.ratio(10, f64::from(timing.recorded), view.len() as f64),
            Err(reason) => out.absent(10, reason),
        }
    }
}

impl Worker {
    fn path(&mut self, subject: &Subject<'_>, duration: &[f64], out: &mut Row<'_>) {
        let path = &subject.slack.path;
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
        let of = |v: usize| subject.tokens(v).unwrap_or(0) as f64;
        if subject.has_tokens() {
            let all: f64 = (0..subject.view.len()).map(of).sum();
            let told = (0..subject.view.len()).any(|v| subject.tokens(v).is_some());
            let on_path = path.iter().map(|&v| of(v as usize)).sum();
            if told { out.ratio(6, on_path, all) } else { out.absent(6, Reason::FieldAbsent) }
        } else {
            out.absent(6, Reason::FieldAbsent);
        }
        out.ratio(7, of_root, subject.earliest.makespan);
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

/// From when to when the agents and spawned names of a trace are there (D19).
#[derive(Debug, Default)]
pub struct Lifetimes {
    /// First and last time of each.
    pub list: Vec<(f64, f64)>,
    /// Whose they are: agent codes.
    pub codes: Vec<u32>,
    slots: Slots,
    spawned: Vec<u32>,
    left: Vec<Option<f64>>,
}

impl Lifetimes {
    /// Replaces everything by what the trace says.
    pub fn compute(&mut self, subject: &Subject<'_>) {
        let view = subject.view;
        let (t_min, t_max) = ends(view.t);
        self.slots.begin();
        self.list.clear();
        self.codes.clear();
        self.spawned.clear();
        self.left.clear();
        let user = view.user;
        for name in subject.agents() {
            self.slots.set(name.code, self.codes.len() as u32);
            self.add(name.code);
        }
        // who is spawned is known before who leaves: a document need not be in the order of its times
        for v in (0..view.len()).filter(|&v| subject.is(v, &[EventType::Spawn])) {
            let Some(to) = view.to.get(v).filter(|&to| Some(to) != user) else { continue };
            let at = self.slots.get(to).unwrap_or_else(|| {
                let at = self.codes.len() as u32;
                self.slots.set(to, at);
                self.add(to);
                at
            });
            let first = &mut self.spawned[at as usize];
            if *first == u32::MAX || canonical_cmp(view.t, v as u32, *first).is_lt() {
                *first = v as u32;
            }
        }
        for v in 0..view.len() {
            let (kind, t) = (view.event_type(v), view.t[v]);
            if let Some(at) = self.slots.get(subject.owners.codes()[v]) {
                let (from, to) = &mut self.list[at as usize];
                (*from, *to) = (from.min(t), to.max(t));
                if kind == EventType::Return {
                    self.leave(at, t);
                }
            }
            if kind == EventType::Despawn
                && let Some(at) = view.to.get(v).and_then(|to| self.slots.get(to))
            {
                self.leave(at, t);
            }
        }
        let root = subject.owners.root();
        for (at, life) in self.list.iter_mut().enumerate() {
            if Some(self.codes[at]) == root {
                *life = (t_min, t_max);
            } else if self.spawned[at] != u32::MAX {
                let from = view.t[self.spawned[at] as usize];
                // one that left before it was spawned is there for a moment
                *life = (from, self.left[at].unwrap_or(t_max).max(from));
            }
        }
    }

    fn add(&mut self, code: u32) {
        self.codes.push(code);
        self.list.push((f64::INFINITY, f64::NEG_INFINITY));
        self.spawned.push(u32::MAX);
        self.left.push(None);
    }

    fn leave(&mut self, at: u32, t: f64) {
        let left = &mut self.left[at as usize];
        *left = Some(left.map_or(t, |before| before.max(t)));
    }
}
