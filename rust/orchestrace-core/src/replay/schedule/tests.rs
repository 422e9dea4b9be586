//! Schedules worked by hand, and what holds of all of them. Every option against an engine in plain Python:
//! `tests/schedules/test_reference.py`.

use proptest::prelude::*;

use super::durations::{Durations, Lengths, MaxGap, Release};
use super::replayed::{Outlook, Replayer};
use super::scenario::{Cascade, Change, Pool, Queue, Scenario, Select};
use crate::graph::test_trace::{TestTrace, random_trace};
use crate::run::Run;
use crate::schema::{EdgeType, EventType, Reason, TimeBasis};
use crate::store::view::TraceView;

fn outlooks(
    view: &TraceView<'_>,
    scenarios: &[Scenario],
    program_order: bool,
) -> Vec<Result<Outlook, Reason>> {
    let (mut out, run) = (Vec::new(), Run::new(Some(1)).unwrap());
    Replayer::default().replay(view, scenarios, Lengths::default(), program_order, &run, &mut out).unwrap();
    out
}

fn on(slots: Option<u32>) -> Scenario {
    Scenario { slots, ..Scenario::default() }
}

fn with(change: Change) -> Scenario {
    Scenario { changes: vec![change], ..Scenario::default() }
}

#[test]
fn the_example_of_the_survey() {
    let t = TestTrace::artifact();
    let [free, one] = outlooks(&t.view(), &[on(None), on(Some(1))], false)[..] else { unreachable!() };
    let (free, one) = (free.unwrap(), one.unwrap());
    assert_eq!((free.work, free.span, free.makespan_cf, free.recorded), (8.0, 7.0, 7.0, Some(7.0)));
    assert_eq!((one.makespan_cf, one.peak, one.utilization), (8.0, Some(1), Some(1.0)));
    assert!(free.steps && free.support == 0.0);
    let ordered = outlooks(&t.view(), &[on(None)], true)[0].unwrap();
    assert_eq!((ordered.work, ordered.span), (7.0, 7.0));
}

#[test]
fn changes_worked_by_hand() {
    // d = 0 1 2 1 1 1 1 1; the executor's last way: spawn at 2, message 3, call 4, result 5, return 6, aggregate 7
    let t = TestTrace::artifact();
    let makespan = |change: Change| outlooks(&t.view(), &[with(change)], false)[0].unwrap().makespan_cf;
    let tool = Select::Tool(Some(0));
    assert_eq!(makespan(Change::Speed { select: tool.clone(), factor: 2.0 }), 6.5);
    assert_eq!(makespan(Change::Speed { select: Select::Everything, factor: 0.5 }), 14.0);
    assert_eq!(makespan(Change::Remove { select: tool, cascade: Cascade::Stay }), 5.0);
    let spawns = Select::Type(EventType::Spawn);
    assert_eq!(makespan(Change::Remove { select: spawns.clone(), cascade: Cascade::WhenAllAreLost }), 0.0);
    assert_eq!(makespan(Change::Cap { select: spawns, quantile: 0.5 }), 6.0);
    assert_eq!(makespan(Change::Serialize), 8.0);
    let both = vec![TestTrace::name("planner_1"), TestTrace::name("executor_1")];
    assert_eq!(makespan(Change::Merge { agents: both }), 7.0);
}

/// A human asks at 0 and again at 90, each time an agent answers 5 later.
fn conversation() -> TestTrace {
    let mut t = TestTrace::default();
    for (agent, to, at) in [("user", "a", 0.0), ("a", "user", 5.0), ("user", "a", 90.0), ("a", "user", 95.0)]
    {
        t.event(EventType::Message, agent).to(to).at(at);
    }
    for v in 1..4 {
        t.edge(v - 1, v, EdgeType::Message);
    }
    t
}

#[test]
fn what_humans_do_is_no_work_and_takes_no_slot() {
    let t = conversation();
    let [free, alone] = outlooks(&t.view(), &[on(None), on(Some(1))], false)[..] else { unreachable!() };
    let (free, alone) = (free.unwrap(), alone.unwrap());
    assert_eq!((free.work, free.span, free.recorded), (10.0, 10.0, Some(95.0)));
    assert_eq!((alone.makespan_cf, alone.peak, alone.utilization), (10.0, Some(1), Some(1.0)));
    // two of them at once on one slot: the second asks while the first is worked for
    let mut two = conversation();
    two.event(EventType::Message, "user").to("b").at(0.0);
    let alone = outlooks(&two.view(), &[on(Some(1))], false)[0].unwrap();
    assert_eq!((alone.makespan_cf, alone.peak), (10.0, Some(1)));
}

#[test]
fn a_call_that_an_agent_answers_takes_what_is_left_after_the_answer() {
    // a calls, b works from 1 to 61 and answers, the result takes 1 s more and says 61 s for all of it
    let mut t = TestTrace::default();
    t.event(EventType::Spawn, "a").at(1.0);
    t.event(EventType::Return, "b").at(61.0);
    t.event(EventType::ToolResult, "a").at(62.0);
    t.flag_duration(1, 60.0);
    t.flag_duration(2, 61.0);
    t.edge(0, 1, EdgeType::Spawn).edge(1, 2, EdgeType::Return);
    let free = outlooks(&t.view(), &[on(None)], false)[0].unwrap();
    assert_eq!((free.work, free.span, free.recorded), (61.0, 61.0, Some(61.0)));
}

#[test]
fn an_hour_is_the_longest_gap_where_times_are_in_seconds() {
    let hour = |basis| MaxGap::Auto.limit(basis);
    assert_eq!([Some(TimeBasis::Seconds), Some(TimeBasis::Partial)].map(hour), [3600.0; 2]);
    assert_eq!([Some(TimeBasis::Ordinal), None].map(hour), [f64::INFINITY; 2]);
    assert!(MaxGap::Unlimited.limit(Some(TimeBasis::Seconds)).is_infinite());
}

#[test]
fn gaps_that_are_too_long_are_no_work() {
    let mut t = TestTrace::default();
    t.event(EventType::ToolCall, "a").at(0.0);
    t.event(EventType::ToolResult, "a").at(2.0);
    t.event(EventType::Message, "a").at(50.0);
    t.edge(0, 1, EdgeType::Causal).edge(1, 2, EdgeType::Causal);
    let work = |max_gap| {
        let (mut out, run) = (Vec::new(), Run::new(Some(1)).unwrap());
        let lengths = Lengths { max_gap, durations: Durations::Gap };
        Replayer::default().replay(&t.view(), &[on(None)], lengths, false, &run, &mut out).unwrap();
        (out[0].unwrap().work, out[0].unwrap().recorded)
    };
    assert_eq!(
        [work(MaxGap::Unlimited), work(MaxGap::Of(48.0)), work(MaxGap::Of(47.0)), work(MaxGap::Of(1.0))],
        [(50.0, Some(50.0)), (50.0, Some(50.0)), (2.0, Some(50.0)), (0.0, Some(50.0))]
    );
}

#[test]
fn seconds_of_work_among_steps_have_no_makespan_as_recorded() {
    // 1 s, 20 s and 2 s in three steps: no clock says from when to when
    let mut t = TestTrace::events(3);
    t.flag_duration(0, 1.0);
    t.flag_duration(1, 20.0);
    t.flag_duration(2, 2.0);
    t.edge(0, 1, EdgeType::Causal).edge(1, 2, EdgeType::Causal);
    let view = TraceView { time_basis: Some(TimeBasis::Ordinal), ..t.view() };
    let outlook = outlooks(&view, &[on(None)], false)[0].unwrap();
    assert_eq!((outlook.makespan_cf, outlook.recorded, outlook.steps), (23.0, None, false));
}

#[test]
fn a_recording_comes_back_from_its_first_beginning() {
    // the second begins before what it waits for has ended, and before the first has begun
    let mut t = TestTrace::events(2);
    t.t = vec![5.0, 9.0];
    t.flag_duration(0, 1.0);
    t.flag_duration(1, 8.0);
    t.edge(0, 1, EdgeType::Causal);
    let view = TraceView { time_basis: Some(TimeBasis::Seconds), ..t.view() };
    let mut replayer = Replayer::default();
    let scenario = Scenario { release: Release::Recorded, ..on(None) };
    let times = replayer.times(&view, &scenario, Lengths::default(), false).unwrap();
    assert_eq!((times.start, times.finish), (&[0.0, 1.0][..], &[1.0, 5.0][..]));
}

#[test]
fn a_trace_without_what_changes_is_idle() {
    let t = TestTrace::artifact();
    let gone = Change::Speed { select: Select::Tool(None), factor: 2.0 };
    let outlook = outlooks(&t.view(), &[with(gone)], false)[0].unwrap();
    assert!(outlook.idle && outlook.makespan_cf == outlook.makespan);
}

#[test]
fn a_cycle_refuses_every_scenario() {
    let mut t = TestTrace::events(3);
    t.edge(0, 1, EdgeType::Causal).edge(1, 0, EdgeType::Causal);
    let refused = outlooks(&t.view(), &[on(None), on(Some(2))], false);
    assert_eq!(refused, [Err(Reason::GraphCycle); 2]);
}

proptest! {
    #[test]
    fn the_recording_comes_back_to_the_bit(t in random_trace(12, true), program in any::<bool>()) {
        for basis in [TimeBasis::Seconds, TimeBasis::Ordinal] {
            let view = TraceView { time_basis: Some(basis), ..t.view() };
            let reversed = view.src.iter().zip(view.dst).any(|(s, d)| t.t[*s as usize] > t.t[*d as usize]);
            let mut replayer = Replayer::default();
            let first = t.t.iter().copied().fold(f64::INFINITY, f64::min);
            for release in [Release::None, Release::Recorded] {
                let scenario = Scenario { release, ..on(None) };
                let Ok(times) = replayer.times(&view, &scenario, Lengths::default(), program) else { continue };
                // a human who answers at once lets everything be earlier, and so does a result of unknown length
                let is_settled = times.timing.aside.iter().all(Option::is_none)
                    && times.timing.unknown.is_empty();
                let waits = release == Release::None && !is_settled;
                if !reversed && !waits {
                    for (v, finish) in times.finish.iter().enumerate() {
                        prop_assert_eq!(*finish, t.t[v] - first);
                    }
                }
            }
        }
    }

    #[test]
    fn bounds_hold_and_buffers_remember_nothing(t in random_trace(14, true), u in random_trace(9, true), k in 1_u32..5) {
        let scenarios: Vec<Scenario> = [Pool::All, Pool::Agents, Pool::Tools]
            .into_iter()
            .flat_map(|pool| [Queue::Recorded, Queue::CriticalPath].map(|queue| (pool, queue)))
            .map(|(pool, queue)| Scenario { slots: Some(k), pool, queue, ..Scenario::default() })
            .chain([with(Change::Merge { agents: (0..6).collect() }), with(Change::Split { agent: Some(2), parts: 3 })])
            .collect();
        let mut used = Replayer::default();
        let (mut out, run) = (Vec::new(), Run::new(Some(1)).unwrap());
        used.replay(&u.view(), &scenarios, Lengths::default(), false, &run, &mut out).unwrap();
        out.clear();
        used.replay(&t.view(), &scenarios, Lengths::default(), false, &run, &mut out).unwrap();
        prop_assert_eq!(&out, &outlooks(&t.view(), &scenarios, false));
        for outlook in out.iter().flatten() {
            prop_assert!(outlook.lower.is_none_or(|lower| lower <= outlook.makespan_cf + 1e-9));
            prop_assert!(outlook.upper.is_none_or(|upper| outlook.makespan_cf <= upper + 1e-9));
            prop_assert!(outlook.peak.is_none_or(|peak| peak <= k));
        }
        run.cancel();
        let cancelled = used.replay(&t.view(), &scenarios, Lengths::default(), false, &run, &mut Vec::new());
        prop_assert!(cancelled.is_err() || out.iter().all(Result::is_err), "a cycle has no schedule to cancel");
    }

    #[test]
    fn many_numbers_of_slots_at_once_are_each_alone(
        t in random_trace(14, true),
        slots in prop::collection::vec(prop::option::of(1_u32..9), 1..9),
        with_teams in any::<bool>(),
    ) {
        let pools = [Pool::All, Pool::Agents, Pool::Tools];
        let queues = [Queue::Recorded, Queue::CriticalPath];
        let agents = vec![TestTrace::name("planner_1"), TestTrace::name("executor_1")];
        let changes = if with_teams { vec![Change::Merge { agents }] } else { Vec::new() };
        let scenarios: Vec<Scenario> = pools
            .into_iter()
            .flat_map(|pool| queues.map(|queue| (pool, queue)))
            .flat_map(|(pool, queue)| slots.iter().map(move |&slots| (pool, queue, slots)))
            .map(|(pool, queue, slots)| Scenario {
                slots, pool, queue, changes: changes.clone(), ..Scenario::default()
            })
            .collect();
        let alone: Vec<_> = scenarios.iter().map(|one| outlooks(&t.view(), std::slice::from_ref(one), false)[0]).collect();
        prop_assert_eq!(outlooks(&t.view(), &scenarios, false), alone);
    }

    #[test]
    fn release_times_never_let_an_event_begin_before_it_did(t in random_trace(12, true), k in 1_u32..4) {
        let view = TraceView { time_basis: Some(TimeBasis::Seconds), ..t.view() };
        let scenario = Scenario { release: Release::Recorded, ..on(Some(k)) };
        let mut replayer = Replayer::default();
        if let Ok(times) = replayer.times(&view, &scenario, Lengths::default(), false) {
            prop_assert!(times.timing.release.iter().zip(times.start).all(|(release, start)| release <= start));
        }
    }
}
