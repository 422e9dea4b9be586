//! The time of a run by use: models, tools, queues, permissions, humans, scorers, nobody (D7, D19).
//!
//! ```text
//! work           = model_time + tool_time
//! queue_time     = Σ max(0, beginning(v) - max end(pred)),                         v whose duration is recorded
//! permission_wait = Σ max(0, t(v) - max end(pred)),                                interventions after a call
//! human_wait     = Σ max(0, t(v) - end(last of whom v addresses)),                 if that one was done
//! ```
//!
//! An agent is done if it spoke last, and to no other agent: an agent that is busy with a call or a result does not
//! wait for a human. Any of these times beyond `max_gap` is idle time instead. Times of parallel events add up, as work
//! does. O(|V|+|E|).

use crate::error::Reason;
use crate::graph::NOBODY;
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Options, Row};
use crate::metrics::subject::Subject;
use crate::replay::schedule::durations::{MaxGap, Timing, explicit};
use crate::schema::{AgentKind, EventType};

/// Time by use.
#[derive(Debug)]
pub struct Time;

static INFO: GroupInfo = GroupInfo {
    name: "time",
    cost: Cost::Linear,
    reference: "D7, D19",
    metrics: &[
        Metric {
            name: "model_time",
            count: Count::Time,
            summary: "durations of what agents do themselves: all work except tool results",
        },
        Metric {
            name: "tool_time",
            count: Count::Time,
            summary: "durations of tool results and environment events",
        },
        Metric {
            name: "queue_time",
            count: Count::Time,
            summary: "time from the end of an event's last predecessor to its start, if its duration is recorded",
        },
        Metric {
            name: "permission_wait",
            count: Count::Time,
            summary: "time from a call to a human's recorded decision on it",
        },
        Metric {
            name: "human_wait",
            count: Count::Time,
            summary: "time from an agent's last word to a human's reply",
        },
        Metric { name: "scorer_time", count: Count::Time, summary: "recorded durations of scorers" },
        Metric {
            name: "idle_time",
            count: Count::Time,
            summary: "gaps, queues and waits longer than max_gap; 0 with max_gap=None",
        },
    ],
};

impl Group for Time {
    fn info(&self) -> &'static GroupInfo {
        &INFO
    }

    fn worker(&self, options: &Options) -> Box<dyn Measure> {
        Box::new(Worker { max_gap: options.lengths.max_gap, ..Worker::default() })
    }
}

#[derive(Debug, Default)]
struct Worker {
    max_gap: MaxGap,
    last: Vec<u32>,
}

/// A sum of what is there, and of what is too long to count.
#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    known: Option<f64>,
    idle: f64,
}

impl Sum {
    fn add(&mut self, length: f64, most: f64) {
        let (counts, idle) = if length > most { (0.0, length) } else { (length, 0.0) };
        self.known = Some(self.known.unwrap_or(0.0) + counts);
        self.idle += idle;
    }
}

impl Measure for Worker {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let timing = match subject.timing {
            Ok(timing) => timing,
            Err(reason) => return out.all_absent(0..INFO.metrics.len(), reason),
        };
        let view = subject.view;
        let longest = self.max_gap.limit(view.time_basis);
        let (mut model, mut tool) = (0.0, 0.0);
        let mut idle: f64 = timing.idle.iter().fold(0.0, |sum, gap| sum + gap);
        let (mut queue, mut scorer) = (Sum::default(), Sum::default());
        for (v, &duration) in timing.duration.iter().enumerate() {
            match timing.aside[v] {
                Some(AgentKind::Scorer) => {
                    if let Some(length) = explicit(view, v) {
                        scorer.add(length, f64::INFINITY);
                    }
                }
                Some(_) => {}
                None => {
                    let of_tool = subject.is(v, &[EventType::ToolResult])
                        || subject.owners.outsider(view, v) == Some(AgentKind::Environment);
                    *(if of_tool { &mut tool } else { &mut model }) += duration;
                }
            }
            if let Some(length) = timing.queued[v] {
                queue.add(length, longest);
            }
        }
        out.set(0, model);
        out.set(1, tool);
        let told = |sum: Sum| match sum.known {
            Some(known) => Ok(known),
            // durations in seconds have no place among times in steps
            None if timing.makespan.is_none() => Err(Reason::TimeSteps),
            None => Err(Reason::FieldAbsent),
        };
        out.put(2, told(queue));
        // seconds of scorers among steps of the team
        let odd = timing.steps && scorer.known.is_some();
        out.put(5, if odd { Err(Reason::TimeSteps) } else { scorer.known.ok_or(Reason::FieldAbsent) });
        let (mut permission, mut human) = (Sum::default(), Sum::default());
        if timing.makespan.is_some() {
            self.humans(subject, timing, &mut permission, &mut human);
        }
        out.put(3, told(permission));
        out.put(4, told(human));
        idle += queue.idle + permission.idle + human.idle;
        out.set(6, idle);
    }
}

impl Worker {
    /// How long agents waited for humans.
    fn humans(&mut self, subject: &Subject<'_>, timing: &Timing, permission: &mut Sum, human: &mut Sum) {
        let (view, owners) = (subject.view, subject.owners);
        let longest = self.max_gap.limit(view.time_basis);
        self.last.clear();
        self.last.resize(owners.names().len(), NOBODY);
        for &row in owners.order().rows() {
            let v = row as usize;
            if timing.aside[v] != Some(AgentKind::User) {
                if let Some(last) = self.last.get_mut(subject.owner(v) as usize) {
                    *last = row;
                }
                continue;
            }
            let inputs = subject.graph.predecessors_of(v);
            let calls = |u: &u32| subject.is(*u as usize, &[EventType::ToolCall]);
            if subject.is(v, &[EventType::HumanIntervention]) && inputs.iter().any(calls) {
                let asked = inputs.iter().map(|&u| timing.ends[u as usize]).fold(f64::NEG_INFINITY, f64::max);
                permission.add((view.t[v] - asked).max(0.0), longest);
                continue;
            }
            let named = view.to.get(v).map(|to| owners.name_index(to).unwrap_or(NOBODY));
            let addressed = named.unwrap_or(subject.root());
            let last = self.last.get_mut(addressed as usize).map(|last| std::mem::replace(last, row));
            let last = last.filter(|&last| last != NOBODY).map(|last| last as usize);
            let waited = last.filter(|&last| is_done(subject, timing, last));
            human.add(waited.map_or(0.0, |last| (view.t[v] - timing.ends[last]).max(0.0)), longest);
        }
    }
}

/// Whether who did `v` has nothing to do after it: it spoke, and to no other agent.
fn is_done(subject: &Subject<'_>, timing: &Timing, v: usize) -> bool {
    let speaks = subject.is(v, &[EventType::Message, EventType::Return, EventType::Aggregate]);
    let to_agent = || subject.view.to.get(v).is_some_and(|to| !subject.owners.is_outside(subject.view, to));
    speaks && timing.aside[v].is_none() && !to_agent()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::test_trace::TestTrace;
    use crate::metrics::testing::{Told, told_with};
    use crate::replay::schedule::Lengths;
    use crate::schema::{EdgeType, TimeBasis};
    use crate::store::view::TraceView;

    const NONE: Told = Err(Reason::FieldAbsent);

    /// A chain of events: who, what, to whom, when it ended.
    fn chain(events: &[(EventType, &str, Option<&str>, f64)]) -> TestTrace {
        let mut t = TestTrace::default();
        for &(kind, agent, to, at) in events {
            t.event(kind, agent).at(at);
            if let Some(to) = to {
                t.to(to);
            }
        }
        for v in 1..events.len() as u32 {
            t.edge(v - 1, v, EdgeType::Causal);
        }
        t
    }

    fn told(t: &TestTrace, basis: TimeBasis, max_gap: MaxGap) -> Vec<Told> {
        let lengths = Lengths { max_gap, ..Lengths::default() };
        let view = TraceView { time_basis: Some(basis), ..t.view() };
        told_with(&Time, &view, &Options { lengths, ..Options::default() })
    }

    #[test]
    fn the_time_of_a_session_is_told_apart() {
        use EventType::*;
        let t = chain(&[
            (Message, "user", Some("a"), 0.0),
            (ToolCall, "a", None, 2.0),
            (HumanIntervention, "user", Some("a"), 12.0),
            (ToolResult, "browser", None, 13.0),
            (Message, "a", Some("user"), 15.0),
            (Message, "user", Some("a"), 100.0),
            (Message, "user", Some("a"), 103.0),
            (Message, "a", Some("user"), 104.0),
        ]);
        // 2 to the call, 2 to the answer, 1 to the last; 1 of the tool; 10 of permission; 85 of the human
        let want = [Ok(5.0), Ok(1.0), NONE, Ok(10.0), Ok(85.0), NONE, Ok(0.0)];
        assert_eq!(told(&t, TimeBasis::Seconds, MaxGap::Auto), want);
        assert_eq!(told(&t, TimeBasis::Ordinal, MaxGap::Auto), want);
        let want = [Ok(5.0), Ok(1.0), NONE, Ok(0.0), Ok(0.0), NONE, Ok(95.0)];
        assert_eq!(told(&t, TimeBasis::Seconds, MaxGap::Of(9.0)), want);
        let want = [Ok(1.0), Ok(1.0), NONE, Ok(0.0), Ok(0.0), NONE, Ok(99.0)];
        assert_eq!(told(&t, TimeBasis::Seconds, MaxGap::Of(1.0)), want);
    }

    #[test]
    fn who_is_busy_waits_for_nobody() {
        use EventType::*;
        let t = chain(&[(Message, "user", Some("a"), 0.0), (Message, "a", Some("b"), 5.0)]);
        assert_eq!(told(&t, TimeBasis::Seconds, MaxGap::Auto)[4], Ok(0.0));
        let last = (Message, "user", Some("a"), 50.0);
        let asks = [(Message, "user", Some("a"), 0.0), (Message, "a", Some("b"), 5.0), last];
        assert_eq!(told(&chain(&asks), TimeBasis::Seconds, MaxGap::Auto)[4], Ok(0.0));
        let calls = [(Message, "user", Some("a"), 0.0), (ToolCall, "a", None, 5.0), last];
        assert_eq!(told(&chain(&calls), TimeBasis::Seconds, MaxGap::Auto)[4], Ok(0.0));
        let speaks = [(Message, "user", Some("a"), 0.0), (Message, "a", None, 5.0), last];
        assert_eq!(told(&chain(&speaks), TimeBasis::Seconds, MaxGap::Auto)[4], Ok(45.0));
    }

    #[test]
    fn recorded_durations_tell_queues() {
        let mut t = TestTrace::default();
        t.event(EventType::Message, "a").at(4.0).duration(4.0);
        t.event(EventType::ToolResult, "browser").at(10.0).duration(1.0);
        t.event(EventType::Message, "b").role("scorer").at(20.0).duration(3.0);
        t.edge(0, 1, EdgeType::Causal).edge(1, 2, EdgeType::Causal);
        let want = [Ok(4.0), Ok(1.0), Ok(5.0), NONE, NONE, Ok(3.0), Ok(0.0)];
        assert_eq!(told(&t, TimeBasis::Seconds, MaxGap::Auto), want);
        let want = [Ok(4.0), Ok(1.0), Ok(0.0), NONE, NONE, Ok(3.0), Ok(5.0)];
        assert_eq!(told(&t, TimeBasis::Seconds, MaxGap::Of(2.0)), want);
        // seconds of durations among steps
        let steps = Err(Reason::TimeSteps);
        let want = [Ok(4.0), Ok(1.0), steps, steps, steps, Ok(3.0), Ok(0.0)];
        assert_eq!(told(&t, TimeBasis::Ordinal, MaxGap::Auto), want);
    }
}
