//! Metrics per agent or role of a trace: activity, cost and usefulness.
//!
//! A row without a member holds the events that nobody owns (D4), so that counts, tokens and work add up to those of the
//! trace; of tokens and prices, those of the team (D18). O(|V|+|E|).

use super::group::{Count, Metric, Row};
use super::lifetimes::Lifetimes;
use super::subject::Subject;
use super::usage;
use crate::error::Reason;
use crate::graph::NOBODY;
use crate::graph::slots::Slots;
use crate::schema::EventType;

/// The kind of members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemberKind {
    /// A row an agent.
    Agent,
    /// A row a role; agents without one are together in the row without a member.
    Role,
}

/// The columns of a member.
pub static MEMBER_METRICS: &[Metric] = &[
    Metric { name: "n_agents", count: Count::Things, summary: "agents" },
    Metric { name: "n_events", count: Count::Things, summary: "events they own" },
    Metric { name: "n_turns", count: Count::Things, summary: "their turns" },
    Metric { name: "n_decisions", count: Count::Things, summary: "orchestrator decisions" },
    Metric { name: "n_spawns", count: Count::Things, summary: "spawns they make" },
    Metric {
        name: "n_messages_sent",
        count: Count::Things,
        summary: "messages and returns sent to other agents",
    },
    Metric {
        name: "n_messages_received",
        count: Count::Things,
        summary: "messages and returns received from other agents",
    },
    Metric { name: "n_tool_calls", count: Count::Things, summary: "tool calls" },
    Metric {
        name: "n_tool_errors",
        count: Count::Things,
        summary: "tool results with ok = false; null if none has ok",
    },
    Metric { name: "tokens", count: Count::Tokens, summary: "tokens of their events" },
    usage::TOKENS[0],
    usage::TOKENS[1],
    usage::TOKENS[2],
    usage::TOKENS[3],
    usage::TOKENS[4],
    Metric { name: "cost_usd", count: Count::Usd, summary: "price of their events" },
    Metric { name: "work", count: Count::Time, summary: "durations of their events" },
    Metric {
        name: "critical_work",
        count: Count::Time,
        summary: "durations of their events on the critical path",
    },
    Metric { name: "critical_share", count: Count::Ratio, summary: "critical_work / span" },
    Metric { name: "slack_min", count: Count::Time, summary: "least slack of their events" },
    Metric {
        name: "utilization",
        count: Count::Ratio,
        summary: "share of their events that have a path to the outcome",
    },
    Metric {
        name: "lifetime",
        count: Count::Clock,
        summary: "time from spawn to last return or despawn, in the unit of t, summed over agents",
    },
    Metric {
        name: "n_answers",
        count: Count::Things,
        summary: "returns to other agents, but those with ok = false",
    },
    Metric { name: "n_answers_used", count: Count::Things, summary: "of these, with a path to the outcome" },
];

/// A worker's buffers.
#[derive(Debug, Default)]
pub(super) struct Members {
    slots: Slots,
    /// Of each name its member.
    of_name: Vec<u32>,
    /// Code of each member, agent or role; [`NOBODY`] for the row without one.
    pub(super) codes: Vec<u32>,
    sums: Vec<Sums>,
    lives: Lifetimes,
}

#[derive(Debug, Clone, Copy)]
struct Sums {
    agents: u32,
    events: u32,
    turns: u32,
    decisions: u32,
    spawns: u32,
    sent: u32,
    received: u32,
    calls: u32,
    errors: Option<u32>,
    tokens: Option<i64>,
    kinds: [Option<i64>; usage::KINDS],
    cost: Option<f64>,
    work: f64,
    critical: f64,
    slack: f64,
    live: u32,
    lifetime: f64,
    answers: u32,
    answers_used: u32,
}

const NONE: Sums = Sums {
    agents: 0,
    events: 0,
    turns: 0,
    decisions: 0,
    spawns: 0,
    sent: 0,
    received: 0,
    calls: 0,
    errors: None,
    tokens: None,
    kinds: [None; usage::KINDS],
    cost: None,
    work: 0.0,
    critical: 0.0,
    slack: f64::INFINITY,
    live: 0,
    lifetime: 0.0,
    answers: 0,
    answers_used: 0,
};

impl Members {
    /// Finds the members of a trace, in order of first appearance, and what they come to.
    pub(super) fn compute(&mut self, kind: MemberKind, subject: &Subject<'_>) {
        self.find(kind, subject);
        self.sums.clear();
        self.sums.resize(self.codes.len(), NONE);
        let nobody = self.codes.len() - 1;
        let names = subject.owners.names().iter();
        for (at, _) in names.enumerate().filter(|(_, name)| name.is_agent()) {
            self.sums[self.of_name[at] as usize].agents += 1;
        }
        for turn in subject.turns().list() {
            let of = self.of_name.get(turn.owner as usize).map_or(nobody, |&of| of as usize);
            self.sums[of].turns += 1;
        }
        self.add_events(subject, nobody);
        self.lives.compute(subject);
        for (code, (from, to)) in self.lives.codes.iter().zip(&self.lives.list) {
            let name = subject.owners.name_index(*code).filter(|&at| self.of_name[at as usize] != NOBODY);
            if let Some(at) = name {
                self.sums[self.of_name[at as usize] as usize].lifetime += to - from;
            }
        }
    }

    fn find(&mut self, kind: MemberKind, subject: &Subject<'_>) {
        self.slots.begin();
        self.of_name.clear();
        self.codes.clear();
        let mut roleless = false;
        for name in subject.owners.names() {
            let code = match kind {
                MemberKind::Agent => Some(name.code),
                MemberKind::Role => name.role(),
            };
            let member = match code {
                _ if !name.is_agent() => NOBODY,
                None => {
                    roleless = true;
                    NOBODY - 1
                }
                Some(code) => self.slots.get(code).unwrap_or_else(|| {
                    let at = self.codes.len() as u32;
                    self.slots.set(code, at);
                    self.codes.push(code);
                    at
                }),
            };
            self.of_name.push(member);
        }
        let nobody = self.codes.len() as u32;
        self.codes.push(NOBODY);
        if roleless {
            self.of_name.iter_mut().filter(|of| **of == NOBODY - 1).for_each(|of| *of = nobody);
        }
    }

    fn add_events(&mut self, subject: &Subject<'_>, nobody: usize) {
        let view = subject.view;
        let lives = subject.lives().ok();
        let scheduled = subject.scheduled().ok().map(|(_, timing)| timing);
        for v in 0..view.len() {
            let of = self.of_name.get(subject.owner(v) as usize).map_or(nobody, |&of| of as usize);
            let sums = &mut self.sums[of];
            sums.events += 1;
            match view.event_type(v) {
                EventType::OrchestratorDecision => sums.decisions += 1,
                EventType::Spawn => sums.spawns += 1,
                EventType::ToolCall => sums.calls += 1,
                EventType::ToolResult => {
                    if let Some(ok) = view.ok.get(v) {
                        sums.errors = Some(sums.errors.unwrap_or(0) + u32::from(!ok));
                    }
                }
                _ => {}
            }
            if let Some(tokens) = subject.tokens(v) {
                sums.tokens = Some(sums.tokens.unwrap_or(0).saturating_add(tokens));
            }
            if subject.owners.outsider(view, v).is_none() {
                usage::add(&mut sums.kinds, view, v);
            }
            if let Some(cost) = subject.owners.cost_usd(view, v) {
                sums.cost = Some(sums.cost.unwrap_or(0.0) + cost);
            }
            let live = lives.is_some_and(|lives| lives[v]);
            sums.live += u32::from(live);
            if let Some(timing) = scheduled {
                sums.work += timing.duration[v];
                sums.slack = sums.slack.min(subject.slack().slack[v]);
            }
            if crate::graph::units::is_message(view, subject.owners, v) {
                sums.sent += 1;
                if view.event_type(v) == EventType::Return && view.ok.get(v) != Some(false) {
                    sums.answers += 1;
                    sums.answers_used += u32::from(live);
                }
                let to = view.to.get(v).and_then(|to| subject.owners.name_index(to));
                let to = to.map_or(NOBODY, |to| self.of_name[to as usize]);
                if let Some(sums) = self.sums.get_mut(to as usize) {
                    sums.received += 1;
                }
            }
        }
        if let Some(timing) = scheduled {
            for &v in &subject.slack().path {
                let of =
                    self.of_name.get(subject.owner(v as usize) as usize).map_or(nobody, |&of| of as usize);
                self.sums[of].critical += timing.duration[v as usize];
            }
        }
    }

    /// Whether a member has anything: the row without one is there only if it has events.
    pub(super) fn is_there(&self, member: usize) -> bool {
        self.codes[member] != NOBODY || self.sums[member].events > 0
    }

    /// Writes the columns of a member.
    pub(super) fn write(&self, member: usize, subject: &Subject<'_>, out: &mut Row<'_>) {
        let sums = &self.sums[member];
        let counts = [
            sums.agents,
            sums.events,
            sums.turns,
            sums.decisions,
            sums.spawns,
            sums.sent,
            sums.received,
            sums.calls,
        ];
        for (at, &count) in counts.iter().enumerate() {
            out.count(at, count as usize);
        }
        out.put(8, sums.errors.map(f64::from).ok_or(Reason::FieldAbsent));
        out.put(9, sums.tokens.map(|tokens| tokens as f64).ok_or(Reason::FieldAbsent));
        for (at, sum) in sums.kinds.iter().enumerate() {
            out.put(10 + at, sum.map(|sum| sum as f64).ok_or(Reason::FieldAbsent));
        }
        out.put(15, sums.cost.ok_or(Reason::FieldAbsent));
        if let Err(reason) = subject.scheduled() {
            out.all_absent(16..20, reason);
        } else {
            out.set(16, sums.work);
            out.set(17, sums.critical);
            out.ratio(18, sums.critical, subject.earliest().makespan);
            if sums.events > 0 {
                out.set(19, sums.slack);
            } else {
                out.absent(19, Reason::RatioEmpty);
            }
        }
        if let Err(reason) = subject.lives() {
            out.absent(20, reason);
            out.absent(23, reason);
        } else {
            out.ratio(20, f64::from(sums.live), f64::from(sums.events));
            out.count(23, sums.answers_used as usize);
        }
        out.count(22, sums.answers as usize);
        if sums.agents > 0 { out.set(21, sums.lifetime) } else { out.absent(21, Reason::RatioEmpty) }
    }
}
