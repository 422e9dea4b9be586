//! The time of a run by use: models, tools, queues, permissions, humans, scorers, nobody (D7, D19).
//!
//! ```text
//! work           = model_time + tool_time
//! queue_time     = Σ max(0, beginning(v) - max end(pred)),                         v whose duration is recorded
//! permission_wait = Σ max(0, t(v) - max end(pred)),           what a human says of a call: interventions, results
//! human_wait     = Σ max(0, t(v) - end(last of whom v addresses)),                 if that one waited
//! idle_time      = |gaps, queues and waits beyond max_gap, less everything above|
//! unaccounted    = |the time of the run, less everything above|
//! ```
//!
//! An agent waits if it spoke last, and to no other agent, or if what it read last is a result and no call of its own is
//! open. It waits as well, as far as nobody works, if what it read last is an answer or a human's word: a response begins
//! with the last of these; and the root waits for its first word. Any of these times beyond `max_gap` is idle time instead,
//! and so is any stretch beyond it in which nothing is known. Times of parallel events add up, as work does; idle and
//! unaccounted time is that of the clock, in which nobody worked. So the columns add up to the elapsed time, or to more
//! where events are parallel. O(|V| log |V| + |E|).

use crate::error::Reason;
use crate::graph::NOBODY;
use crate::graph::owner::Name;
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::options::Options;
use crate::metrics::subject::Subject;
use crate::replay::schedule::durations::{MaxGap, ROUNDING, Timing, clock as clock_of, explicit};
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
            summary: "durations of tool results and environment events; null if none of the results has a known one",
        },
        Metric {
            name: "queue_time",
            count: Count::Time,
            summary: "time from the end of an event's last predecessor to its start, if its duration is recorded",
        },
        Metric {
            name: "permission_wait",
            count: Count::Time,
            summary: "time from a call to a human's recorded decision on it, or answer to it",
        },
        Metric {
            name: "human_wait",
            count: Count::Time,
            summary: "time from an agent's last word, or the last that it got, to a word of the user, human or simulated",
        },
        Metric { name: "scorer_time", count: Count::Time, summary: "recorded durations of scorers" },
        Metric {
            name: "idle_time",
            count: Count::Time,
            summary: "time of the clock in gaps, queues, waits and other stretches longer than max_gap, where nobody worked; 0 \
                      with max_gap=None",
        },
        Metric {
            name: "unaccounted",
            count: Count::Time,
            summary: "time of the clock that is in none of the other columns",
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
    /// Calls of each agent without a result so far.
    open: Vec<i32>,
    clock: Clock,
}

/// When something was going on, when it took too long, and when a human was waited for unless somebody worked.
#[derive(Debug, Default)]
struct Clock {
    busy: Vec<(f64, f64)>,
    idle: Vec<(f64, f64)>,
    waits: Vec<(f64, f64)>,
}

/// The time of the clock in which nobody worked.
#[derive(Debug, Clone, Copy, Default)]
struct Rest {
    waited: f64,
    idle: f64,
    unaccounted: f64,
}

impl Clock {
    fn clear(&mut self) {
        self.busy.clear();
        self.idle.clear();
        self.waits.clear();
    }

    fn add(&mut self, from: f64, to: f64, is_idle: bool) {
        if to > from {
            (if is_idle { &mut self.idle } else { &mut self.busy }).push((from, to));
        }
    }

    /// A human was waited for, as far as nobody worked.
    fn wait(&mut self, from: f64, to: f64, most: f64) {
        if to > from {
            (if to - from > most { &mut self.idle } else { &mut self.waits }).push((from, to));
        }
    }

    /// How much of the time from `start` to `end` is not busy, by what it is; a stretch of more than `most` is idle.
    fn rest(&mut self, start: f64, end: f64, most: f64) -> Rest {
        let sum = |(short, long): (f64, f64)| short + long;
        let free = uncovered(&mut self.busy, start, end, most);
        let mut rest = Rest::default();
        let mut left = free;
        if !self.waits.is_empty() {
            self.busy.append(&mut self.waits);
            left = uncovered(&mut self.busy, start, end, most);
            rest.waited = sum(free) - sum(left);
        }
        let mut bare = left;
        if !self.idle.is_empty() {
            self.busy.append(&mut self.idle);
            bare = uncovered(&mut self.busy, start, end, most);
        }
        rest.unaccounted = bare.0;
        rest.idle = if bare == left { bare.1 } else { sum(left) - bare.0 };
        rest
    }
}

/// How much of the time from `start` to `end` no interval covers: in stretches of at most `most`, and in longer ones.
fn uncovered(intervals: &mut [(f64, f64)], start: f64, end: f64, most: f64) -> (f64, f64) {
    intervals.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    // What differs by less than a subtraction rounds leaves no hole.
    let noise = ROUNDING * start.abs().max(end.abs());
    let (mut reached, mut short, mut long) = (start, 0.0, 0.0);
    for &(from, to) in intervals.iter().chain(std::iter::once(&(end, end))) {
        let hole = from - reached;
        if hole > noise {
            *(if hole > most { &mut long } else { &mut short }) += hole;
        }
        reached = reached.max(to);
    }
    (short, long)
}

/// A sum of times that are not too long to count.
#[derive(Debug, Clone, Copy, Default)]
struct Sum(Option<f64>);

impl Sum {
    /// Adds what ended at `end`; beyond `most` it is idle.
    fn add(&mut self, length: f64, end: f64, most: f64, clock: &mut Clock) {
        let is_idle = length > most;
        self.0 = Some(self.0.unwrap_or(0.0) + if is_idle { 0.0 } else { length });
        clock.add(end - length, end, is_idle);
    }
}

impl Measure for Worker {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let timing = match subject.timing() {
            Ok(timing) => timing,
            Err(reason) => return out.all_absent(0..INFO.metrics.len(), reason),
        };
        let view = subject.view;
        let longest = self.max_gap.limit(view.time_basis);
        let clock = &mut self.clock;
        clock.clear();
        let (mut model, mut tool) = (0.0, 0.0);
        // Whether the duration of some result is known, and whether that of some is not.
        let (mut known, mut unknown) = (false, false);
        let (mut queue, mut scorer) = (Sum::default(), Sum::default());
        for (v, &duration) in timing.duration.iter().enumerate() {
            let end = timing.ends[v];
            clock.add(end - timing.idle[v], end, true);
            match timing.aside[v] {
                Some(AgentKind::Scorer) => {
                    if let Some(length) = explicit(view, v) {
                        scorer.add(length, end, f64::INFINITY, clock);
                    }
                }
                Some(_) => {}
                None => {
                    let of_tool = subject.is(v, &[EventType::ToolResult])
                        || subject.owners.outsider(view, v) == Some(AgentKind::Environment);
                    *(if of_tool { &mut tool } else { &mut model }) += duration;
                    let is_unknown = of_tool && timing.unknown.binary_search(&(v as u32)).is_ok();
                    known |= of_tool && !is_unknown;
                    unknown |= is_unknown;
                    clock.add(end - duration, end, false);
                }
            }
            if let Some(length) = timing.queued[v] {
                queue.add(length, end - timing.duration[v], longest, clock);
            }
        }
        out.set(0, model);
        out.put(1, if unknown && !known { Err(Reason::FieldAbsent) } else { Ok(tool) });
        let value_of = |sum: Sum| match sum.0 {
            Some(known) => Ok(known),
            // durations in seconds have no place among times in steps
            None if timing.makespan.is_none() => Err(Reason::TimeSteps),
            None => Err(Reason::FieldAbsent),
        };
        out.put(2, value_of(queue));
        // seconds of scorers among steps of the team
        let is_stepped = timing.steps && scorer.0.is_some();
        out.put(5, if is_stepped { Err(Reason::TimeSteps) } else { scorer.0.ok_or(Reason::FieldAbsent) });
        let (mut permission, mut human) = (Sum::default(), Sum::default());
        if timing.makespan.is_none() {
            out.put(3, value_of(permission));
            out.put(4, value_of(human));
            out.set(6, 0.0);
            return out.put(7, Err(Reason::TimeSteps));
        }
        let (start, end) = clock_of(view, subject.owners);
        self.humans(subject, timing, start, &mut permission, &mut human);
        let rest = if end > start { self.clock.rest(start, end, longest) } else { Rest::default() };
        if let Some(waited) = &mut human.0 {
            *waited += rest.waited;
        }
        out.put(3, value_of(permission));
        out.put(4, value_of(human));
        out.set(6, rest.idle);
        out.set(7, rest.unaccounted);
    }
}

impl Worker {
    /// How long agents waited for humans.
    fn humans(
        &mut self,
        subject: &Subject<'_>,
        timing: &Timing,
        start: f64,
        permission: &mut Sum,
        human: &mut Sum,
    ) {
        let (view, owners) = (subject.view, subject.owners);
        let longest = self.max_gap.limit(view.time_basis);
        self.last.clear();
        self.last.resize(owners.names().len(), NOBODY);
        self.open.clear();
        self.open.resize(owners.names().len(), 0);
        for &row in owners.order().rows() {
            let v = row as usize;
            if let Some(open) = self.open.get_mut(subject.owner(v) as usize) {
                let asks = subject.is(v, &[EventType::ToolCall, EventType::Spawn]);
                *open += i32::from(asks) - i32::from(subject.is(v, &[EventType::ToolResult]));
            }
            let answers = subject.is(v, &[EventType::ToolResult]);
            if (timing.aside[v] != Some(AgentKind::User) || answers)
                && let Some(last) = self.last.get_mut(subject.owner(v) as usize)
            {
                *last = row;
            }
            if let Some(to) = receiver(subject, v) {
                let (last, open) = (&mut self.last[to as usize], &mut self.open[to as usize]);
                *open -= i32::from(*open > 0);
                // Who is done waits since it was.
                if *last == NOBODY || !is_done(subject, timing, *last as usize) {
                    *last = row;
                }
            }
            if timing.aside[v] != Some(AgentKind::User) {
                continue;
            }
            let inputs = subject.graph().predecessors_of(v);
            let calls = |u: &u32| subject.is(*u as usize, &[EventType::ToolCall]);
            let decides = subject.is(v, &[EventType::HumanIntervention]) && inputs.iter().any(calls);
            if decides || answers {
                if !inputs.is_empty() {
                    let asked_at =
                        inputs.iter().map(|&u| timing.ends[u as usize]).fold(f64::NEG_INFINITY, f64::max);
                    let waited = (view.t[v] - asked_at).max(0.0);
                    permission.add(waited, view.t[v], longest, &mut self.clock);
                }
                continue;
            }
            let named = view.to.get(v).map(|to| owners.name_index(to).unwrap_or(NOBODY));
            let addressed = named.unwrap_or(subject.root());
            let open = self.open.get(addressed as usize).copied().unwrap_or(0);
            let last = self.last.get_mut(addressed as usize).map(|last| std::mem::replace(last, row));
            // Whether it worked or waited is not known of these times: it waited where nobody worked.
            let since = match last {
                Some(NOBODY) if addressed == subject.root() => Some(start),
                Some(last) if last != NOBODY && open <= 0 && was_told(subject, timing, last as usize) => {
                    Some(timing.ends[last as usize])
                }
                _ => None,
            };
            let is_agent = owners.names().get(addressed as usize).is_some_and(Name::is_agent);
            if let Some(since) = since.filter(|_| is_agent) {
                self.clock.wait(since, view.t[v], longest);
            }
            let last = last.filter(|&last| last != NOBODY).map(|last| last as usize);
            let waits = |last: usize| is_done(subject, timing, last) || has_read(subject, last) && open <= 0;
            let waited = last.filter(|&last| waits(last));
            let waited = waited.map_or(0.0, |last| (view.t[v] - timing.ends[last]).max(0.0));
            human.add(waited, view.t[v], longest, &mut self.clock);
        }
    }
}

/// Whom a return reaches by itself, with no result of its own that brings it.
fn receiver(subject: &Subject<'_>, v: usize) -> Option<u32> {
    let to = subject.is(v, &[EventType::Return]).then(|| subject.view.to.get(v)).flatten()?;
    let to = subject.owners.name_index(to)?;
    let brings =
        |w: &u32| subject.is(*w as usize, &[EventType::ToolResult]) && subject.owner(*w as usize) == to;
    let is_other = to != subject.owner(v) && subject.owners.names()[to as usize].is_agent();
    (is_other && !subject.graph().successors_of(v).iter().any(brings)).then_some(to)
}

/// Whether the last that an agent got is a human's word or an answer.
fn was_told(subject: &Subject<'_>, timing: &Timing, v: usize) -> bool {
    let by_human = timing.aside[v] == Some(AgentKind::User) && !subject.is(v, &[EventType::ToolResult]);
    by_human || receiver(subject, v).is_some()
}

/// Whether the last of an agent is a result that it read.
fn has_read(subject: &Subject<'_>, v: usize) -> bool {
    subject.is(v, &[EventType::ToolResult])
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
    use crate::metrics::testing::{Measured, measured_with};
    use crate::replay::schedule::Lengths;
    use crate::schema::{EdgeType, TimeBasis};
    use crate::store::view::TraceView;

    const NONE: Measured = Err(Reason::FieldAbsent);

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

    fn measured(t: &TestTrace, basis: TimeBasis, max_gap: MaxGap) -> Vec<Measured> {
        let lengths = Lengths { max_gap, ..Lengths::default() };
        let view = TraceView { time_basis: Some(basis), ..t.view() };
        measured_with(&Time, &view, &Options { lengths, ..Options::default() })
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
        // 2 to the call, 2 to the answer, 1 to the last; 1 of the tool; 10 of permission; 85 of the human; 3 until the human
        // says more: nothing says that the call is not open, since the result does not name it
        let want = [Ok(5.0), Ok(1.0), NONE, Ok(10.0), Ok(85.0), NONE, Ok(0.0), Ok(3.0)];
        assert_eq!(measured(&t, TimeBasis::Seconds, MaxGap::Auto), want);
        assert_eq!(measured(&t, TimeBasis::Ordinal, MaxGap::Auto), want);
        let want = [Ok(5.0), Ok(1.0), NONE, Ok(0.0), Ok(0.0), NONE, Ok(95.0), Ok(3.0)];
        assert_eq!(measured(&t, TimeBasis::Seconds, MaxGap::Of(9.0)), want);
        let want = [Ok(1.0), Ok(1.0), NONE, Ok(0.0), Ok(0.0), NONE, Ok(102.0), Ok(0.0)];
        assert_eq!(measured(&t, TimeBasis::Seconds, MaxGap::Of(1.0)), want);
    }

    #[test]
    fn who_is_busy_waits_for_nobody() {
        use EventType::*;
        let t = chain(&[(Message, "user", Some("a"), 0.0), (Message, "a", Some("b"), 5.0)]);
        assert_eq!(measured(&t, TimeBasis::Seconds, MaxGap::Auto)[4], Ok(0.0));
        let last = (Message, "user", Some("a"), 50.0);
        let asks = [(Message, "user", Some("a"), 0.0), (Message, "a", Some("b"), 5.0), last];
        assert_eq!(measured(&chain(&asks), TimeBasis::Seconds, MaxGap::Auto)[4], Ok(0.0));
        let calls = [(Message, "user", Some("a"), 0.0), (ToolCall, "a", None, 5.0), last];
        assert_eq!(measured(&chain(&calls), TimeBasis::Seconds, MaxGap::Auto)[4], Ok(0.0));
        // It read a result and went no further: until the human spoke nobody worked.
        let read = [calls[0], calls[1], (ToolResult, "browser", None, 6.0), last];
        assert_eq!(measured(&chain(&read), TimeBasis::Seconds, MaxGap::Auto)[4], Ok(44.0));
        assert_eq!(
            measured(&chain(&read), TimeBasis::Seconds, MaxGap::Of(9.0))[4..],
            [Ok(0.0), NONE, Ok(44.0), Ok(0.0)]
        );
        let speaks = [(Message, "user", Some("a"), 0.0), (Message, "a", None, 5.0), last];
        assert_eq!(measured(&chain(&speaks), TimeBasis::Seconds, MaxGap::Auto)[4], Ok(45.0));
    }

    #[test]
    fn recorded_durations_tell_queues() {
        let mut t = TestTrace::default();
        t.event(EventType::Message, "a").at(4.0).duration(4.0);
        t.event(EventType::ToolResult, "browser").at(10.0).duration(1.0);
        t.event(EventType::Message, "b").role("scorer").at(20.0).duration(3.0);
        t.edge(0, 1, EdgeType::Causal).edge(1, 2, EdgeType::Causal);
        let want = [Ok(4.0), Ok(1.0), Ok(5.0), NONE, NONE, Ok(3.0), Ok(0.0), Ok(7.0)];
        assert_eq!(measured(&t, TimeBasis::Seconds, MaxGap::Auto), want);
        // 5 of a queue, 7 between the tool and the scorer
        let want = [Ok(4.0), Ok(1.0), Ok(0.0), NONE, NONE, Ok(3.0), Ok(12.0), Ok(0.0)];
        assert_eq!(measured(&t, TimeBasis::Seconds, MaxGap::Of(2.0)), want);
        // seconds of durations among steps
        let steps = Err(Reason::TimeSteps);
        let want = [Ok(4.0), Ok(1.0), steps, steps, steps, Ok(3.0), Ok(0.0), steps];
        assert_eq!(measured(&t, TimeBasis::Ordinal, MaxGap::Auto), want);
    }

    #[test]
    fn a_result_without_its_call_has_no_known_duration() {
        use EventType::*;
        let mut t = TestTrace::default();
        t.event(Message, "user").at(0.0).to("a");
        t.event(Message, "a").at(5.0);
        t.event(ToolResult, "browser").at(900.0);
        t.event(Message, "a").at(910.0);
        t.edge(0, 1, EdgeType::Message).edge(1, 3, EdgeType::Temporal).edge(2, 3, EdgeType::Causal);
        let want = [Ok(15.0), NONE, NONE, NONE, Ok(0.0), NONE, Ok(0.0), Ok(895.0)];
        assert_eq!(measured(&t, TimeBasis::Seconds, MaxGap::Auto), want);
        assert_eq!(measured(&t, TimeBasis::Ordinal, MaxGap::Auto), want);
        // Of which something is known, counts.
        t.event(ToolCall, "a").at(910.0);
        t.event(ToolResult, "browser").at(912.0);
        t.edge(3, 4, EdgeType::Temporal).edge(4, 5, EdgeType::Return);
        let want = [Ok(15.0), Ok(2.0), NONE, NONE, Ok(0.0), NONE, Ok(0.0), Ok(895.0)];
        assert_eq!(measured(&t, TimeBasis::Seconds, MaxGap::Auto), want);
    }

    #[test]
    fn what_nobody_accounts_for_is_idle_beyond_the_longest_gap() {
        use EventType::*;
        let mut t = TestTrace::default();
        t.event(ToolCall, "a").at(0.0);
        t.event(Message, "user").at(90_000.0).to("a");
        t.event(Message, "a").at(90_002.0);
        t.edge(0, 2, EdgeType::Temporal).edge(1, 2, EdgeType::Message);
        // The call was open, so nobody waited for the human; who worked is not known.
        let want = [Ok(2.0), Ok(0.0), NONE, NONE, Ok(0.0), NONE, Ok(90_000.0), Ok(0.0)];
        assert_eq!(measured(&t, TimeBasis::Seconds, MaxGap::Auto), want);
        let want = [Ok(2.0), Ok(0.0), NONE, NONE, Ok(0.0), NONE, Ok(0.0), Ok(90_000.0)];
        assert_eq!(measured(&t, TimeBasis::Seconds, MaxGap::Unlimited), want);
    }

    #[test]
    fn a_root_waits_for_its_first_word_as_far_as_nobody_works() {
        use EventType::*;
        let mut t = TestTrace::default();
        t.event(Message, "b").at(4.0).duration(1.0);
        t.event(Message, "user").at(100.0).to("a");
        t.event(Message, "a").at(105.0).to("user");
        t.edge(1, 2, EdgeType::Message);
        // From 3, when the first began, to 105: 1 of the other one, 96 of the human, 5 of the answer.
        let want = [Ok(6.0), Ok(0.0), NONE, NONE, Ok(96.0), NONE, Ok(0.0), Ok(0.0)];
        assert_eq!(measured(&t, TimeBasis::Seconds, MaxGap::Auto), want);
        // And for more, if the human goes on before anybody has answered.
        let talk =
            [(Message, "user", Some("a"), 0.0), (Message, "user", Some("a"), 3.0), (Message, "a", None, 4.0)];
        let want = [Ok(1.0), Ok(0.0), NONE, NONE, Ok(3.0), NONE, Ok(0.0), Ok(0.0)];
        assert_eq!(measured(&chain(&talk), TimeBasis::Seconds, MaxGap::Auto), want);
    }

    #[test]
    fn who_got_the_answer_of_its_child_waits() {
        use EventType::*;
        let mut t = TestTrace::default();
        t.event(Message, "user").at(0.0).to("a");
        t.event(Spawn, "a").at(2.0).to("b");
        t.event(Return, "b").at(6.0).to("a");
        t.event(Message, "user").at(26.0).to("a");
        t.event(Return, "a").at(27.0).to("user");
        t.edge(0, 1, EdgeType::Message).edge(1, 2, EdgeType::Spawn).edge(2, 4, EdgeType::Return);
        t.edge(1, 4, EdgeType::Temporal).edge(3, 4, EdgeType::Message);
        let want = [Ok(7.0), Ok(0.0), NONE, NONE, Ok(20.0), NONE, Ok(0.0), Ok(0.0)];
        assert_eq!(measured(&t, TimeBasis::Seconds, MaxGap::Auto), want);
    }

    #[test]
    fn idle_time_is_that_of_the_clock() {
        use EventType::*;
        // Two agents that begin by themselves a day later: one day has passed, and not two.
        let mut t = TestTrace::default();
        t.event(Message, "user").at(0.0).to("a");
        t.event(Return, "a").at(3.0);
        t.event(Return, "b").at(86_402.0);
        t.event(Return, "c").at(86_402.0);
        t.edge(0, 1, EdgeType::Message);
        let want = [Ok(3.0), Ok(0.0), NONE, NONE, Ok(0.0), NONE, Ok(86_399.0), Ok(0.0)];
        assert_eq!(measured(&t, TimeBasis::Seconds, MaxGap::Of(3600.0)), want);
    }
}
