//! All scenarios of one trace.

use std::cmp::Reverse;

use rayon::prelude::*;

use super::durations::{Lengths, Release, Rule, Timing};
use super::events::{Demand, Events, OWN};
use super::scenario::{Pool, Queue, Scenario};
use super::span::{Earliest, Slack, Weighted};
use super::split::Split;
use super::work::{Subject, Work};
use crate::graph::program::ProgramOrder;
use crate::graph::{CsrGraph, NOBODY, Owners, Topological};
use crate::run::Run;
use crate::schema::{EventType, Reason};
use crate::store::view::TraceView;

/// The results of a schedule. Times are in seconds, or in steps where the recording has no others.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlook {
    /// With nothing changed, on unlimited slots.
    pub makespan: f64,
    /// Under the scenario.
    pub makespan_cf: f64,
    /// From the first beginning to the last end of the recording; nothing where its durations and times have no axis in
    /// common.
    pub recorded: Option<f64>,
    /// Tokens of all events, if any has some (D18).
    pub tokens: Option<i64>,
    /// Of the events that are left.
    pub tokens_cf: Option<i64>,
    /// T1 of the scenario: durations of all events together.
    pub work: f64,
    /// T∞ of the scenario, without release times.
    pub span: f64,
    /// No schedule of the scenario is shorter; without release times.
    pub lower: Option<f64>,
    /// No greedy schedule of it is longer (Graham); without release times and merged agents.
    pub upper: Option<f64>,
    /// Share of the slots' time that is taken.
    pub utilization: Option<f64>,
    /// Most slots that are taken at a time.
    pub peak: Option<u32>,
    /// Share of the team's events whose duration is recorded.
    pub support: f64,
    /// Events whose duration was cut, since it overlaps what they wait for.
    pub cut: u32,
    /// The source of durations.
    pub rule: Rule,
    /// Whether times are steps.
    pub steps: bool,
    /// Whether the scenario has changes, and the trace nothing that they would change.
    pub idle: bool,
}

/// Traces with at least this many events times scenarios are worth more than one worker.
const LARGE: usize = 1 << 18;

/// A worker's buffers for the trace at hand.
#[derive(Debug, Default)]
pub struct Replayer {
    owners: Owners,
    program: ProgramOrder,
    graph: CsrGraph,
    topological: Topological,
    /// Without release times, and with them.
    timings: [Timing; 2],
    canonical_rank: Vec<u32>,
    /// The work as it was recorded, under either timing.
    bases: [Work; 2],
    earliest: Earliest,
    slack: Slack,
    scratch: Scratch,
    /// Scenarios in the order in which they are replayed: many slots first.
    turns: Vec<usize>,
}

/// Buffers of one scenario.
#[derive(Debug, Default)]
struct Scratch {
    work: Work,
    earliest: Earliest,
    events: Events,
    split: Split,
    graph: CsrGraph,
    topological: Topological,
    weighted: Weighted,
    below: Vec<f64>,
    rank: Vec<u32>,
    row: Vec<u32>,
    holder: Vec<u32>,
    roomy: Option<Roomy>,
}

/// A schedule on so many slots, of which it took some at most: on any number between, it is the same schedule.
#[derive(Debug, Clone, Copy)]
struct Roomy {
    slots: u32,
    peak: u32,
    makespan: f64,
    busy: f64,
}

/// A trace that is ready for its scenarios.
#[derive(Clone, Copy)]
struct Ready<'a> {
    subject: Subject<'a>,
    program: &'a [(u32, u32)],
    timings: &'a [Timing; 2],
    canonical_rank: &'a [u32],
    bases: &'a [Work; 2],
    makespans: [f64; 2],
    tokens: Option<i64>,
}

/// Start and finish of every event, slack, and the critical path.
#[derive(Debug, Clone, Copy)]
pub struct Times<'a> {
    /// Durations, and what they rest on.
    pub timing: &'a Timing,
    /// When events begin.
    pub start: &'a [f64],
    /// When they end.
    pub finish: &'a [f64],
    /// How much later each could end on unlimited slots.
    pub slack: &'a [f64],
    /// Events of the critical path on unlimited slots, last first.
    pub path: &'a [u32],
}

impl Replayer {
    /// Owners, graph, order and timings. Of the timings only those that are asked for.
    fn prepare(
        &mut self,
        view: &TraceView<'_>,
        lengths: Lengths,
        program_order: bool,
        wanted: [bool; 2],
    ) -> Result<(), Reason> {
        self.owners.compute(view);
        let program = if program_order { self.program.compute(view, &self.owners) } else { &[] };
        self.graph.build(view, program, None);
        self.graph.build_successors();
        if self.topological.any(&mut self.graph).is_none() {
            return Err(Reason::GraphCycle);
        }
        for (timing, (release, wanted)) in
            self.timings.iter_mut().zip([Release::None, Release::Recorded].into_iter().zip(wanted))
        {
            if wanted {
                timing.compute(view, &self.owners, &self.graph, lengths, release)?;
            }
        }
        self.canonical_rank.clear();
        self.canonical_rank.resize(view.len(), 0);
        for (rank, &v) in self.owners.order().rows().iter().enumerate() {
            self.canonical_rank[v as usize] = rank as u32;
        }
        Ok(())
    }

    /// What the scenarios come to, one after the other into `out`; a reason refuses the trace. Fails if `run` is
    /// cancelled.
    pub fn replay(
        &mut self,
        view: &TraceView<'_>,
        scenarios: &[Scenario],
        lengths: Lengths,
        program_order: bool,
        run: &Run,
        out: &mut Vec<Result<Outlook, Reason>>,
    ) -> crate::error::Result<()> {
        let wanted = [Release::None, Release::Recorded]
            .map(|release| release == Release::None || scenarios.iter().any(|s| s.release == release));
        if let Err(reason) = self.prepare(view, lengths, program_order, wanted) {
            out.extend(scenarios.iter().map(|_| Err(reason)));
            return Ok(());
        }
        let Some(order) = self.topological.any(&mut self.graph) else { return Ok(()) };
        let program = if program_order { self.program.compute(view, &self.owners) } else { &[] };
        let subject = Subject { view, owners: &self.owners, graph: &self.graph, order };
        let mut makespans = [0.0; 2];
        for (which, _) in wanted.iter().enumerate().filter(|(_, wanted)| **wanted) {
            let (timing, base) = (&self.timings[which], &mut self.bases[which]);
            base.compute(subject, timing, &[]);
            self.earliest.compute(&self.graph, order, timing, base);
            makespans[which] = self.earliest.makespan;
        }
        let ready = Ready {
            subject,
            program,
            timings: &self.timings,
            canonical_rank: &self.canonical_rank,
            bases: &self.bases,
            makespans,
            tokens: tokens(&self.owners, view, |_| true),
        };
        if scenarios.len() > 1 && scenarios.len() * view.len() >= LARGE {
            let outlooks = scenarios.par_iter().map_init(Scratch::default, |scratch, s| {
                run.check()?;
                scratch.roomy = None;
                Ok(ready.replay(s, scratch))
            });
            out.extend(outlooks.collect::<crate::error::Result<Vec<_>>>()?);
        } else {
            let first = out.len();
            out.resize(first + scenarios.len(), Err(Reason::GraphCycle));
            let turns = &mut self.turns;
            turns.clear();
            turns.extend(0..scenarios.len());
            turns.sort_by_key(|&i| Reverse(scenarios[i].slots));
            let mut before: Option<&Scenario> = None;
            for &i in &*turns {
                run.check()?;
                let scenario = &scenarios[i];
                if !before.is_some_and(|before| before.alike(scenario)) {
                    self.scratch.roomy = None;
                }
                out[first + i] = ready.replay(scenario, &mut self.scratch);
                before = Some(scenario);
            }
        }
        Ok(())
    }

    /// The schedule of one scenario without changes, event by event.
    pub fn times(
        &mut self,
        view: &TraceView<'_>,
        scenario: &Scenario,
        lengths: Lengths,
        program_order: bool,
    ) -> Result<Times<'_>, Reason> {
        let released = scenario.release == Release::Recorded;
        self.prepare(view, lengths, program_order, [!released, released])?;
        let order = self.topological.any(&mut self.graph).ok_or(Reason::GraphCycle)?;
        let timing = &self.timings[usize::from(released)];
        let subject = Subject { view, owners: &self.owners, graph: &self.graph, order };
        let base = &mut self.bases[usize::from(released)];
        base.compute(subject, timing, &[]);
        self.earliest.compute(&self.graph, order, timing, base);
        self.slack.compute(view.t, &self.graph, order, &timing.duration, &self.earliest);
        let (mut start, mut finish) = (&self.earliest.start, &self.earliest.finish);
        let mut makespan = self.earliest.makespan;
        if let Some(slots) = scenario.slots {
            let Scratch { events, split, holder, below, rank, row, .. } = &mut self.scratch;
            split.part.clear();
            let holders = hold(&subject, timing, base, split, scenario.pool, holder);
            let (mut queue_rank, mut queue_row) = (&self.canonical_rank, subject.owners.order().rows());
            if scenario.queue == Queue::CriticalPath {
                queue_by_path(&subject, &timing.duration, below, &self.canonical_rank, rank, row);
                (queue_rank, queue_row) = (rank, row);
            }
            events.run(
                &self.graph,
                timing,
                base,
                Demand { rank: queue_rank, row: queue_row, holder, holders, slots },
            );
            (start, finish) = (&events.start, &events.finish);
            makespan = events.makespan;
        }
        if !makespan.is_finite() {
            return Err(Reason::ResultRange);
        }
        Ok(Times { timing, start, finish, slack: &self.slack.slack, path: &self.slack.path })
    }
}

impl Ready<'_> {
    fn replay(&self, scenario: &Scenario, scratch: &mut Scratch) -> Result<Outlook, Reason> {
        let which = usize::from(scenario.release == Release::Recorded);
        let timing = &self.timings[which];
        let Subject { view, owners, graph, order } = self.subject;
        scratch.split.part.clear();
        if !Split::concerns(owners, &scenario.changes) {
            return self.under(scenario, self.subject, timing, scratch);
        }
        let changes = &scenario.changes;
        scratch.split.compute(view, owners, self.program, order, &timing.duration, changes);
        let mut graph_of_parts = std::mem::take(&mut scratch.graph);
        let mut topological = std::mem::take(&mut scratch.topological);
        let split = &scratch.split;
        let parted =
            TraceView { src: &split.src, dst: &split.dst, edge_types: &split.types, owned: None, ..*view };
        graph_of_parts.build(&parted, &[], None);
        graph_of_parts.build_successors();
        let parts_order = topological.any(&mut graph_of_parts);
        debug_assert!(
            parts_order.is_some() && graph.len() == graph_of_parts.len(),
            "a split closes no cycle"
        );
        let outlook = match parts_order {
            None => Err(Reason::GraphCycle),
            Some(order) => {
                let subject = Subject { view, owners, graph: &graph_of_parts, order };
                self.under(scenario, subject, timing, scratch)
            }
        };
        (scratch.graph, scratch.topological) = (graph_of_parts, topological);
        outlook
    }

    fn under(
        &self,
        scenario: &Scenario,
        subject: Subject<'_>,
        timing: &Timing,
        scratch: &mut Scratch,
    ) -> Result<Outlook, Reason> {
        let Subject { view, graph, order, owners } = subject;
        let which = usize::from(scenario.release == Release::Recorded);
        let Scratch { work, earliest, events, split, weighted, below, rank, row, holder, roomy, .. } =
            scratch;
        let as_recorded = scenario.changes.is_empty();
        if !as_recorded {
            work.compute(subject, timing, &scenario.changes);
            earliest.compute(graph, order, timing, work);
        }
        let work = if as_recorded { &self.bases[which] } else { &*work };
        let unlimited = if as_recorded { self.makespans[which] } else { earliest.makespan };
        let serial = work.serial;
        let slots = if serial { Some(1) } else { scenario.slots };
        let pool = if serial { Pool::All } else { scenario.pool };
        let merged = work.groups > 0;
        let mut outlook = Outlook {
            makespan: self.makespans[which],
            makespan_cf: unlimited,
            recorded: timing.makespan,
            tokens: self.tokens,
            tokens_cf: if work.has_absent() {
                tokens(owners, view, |v| !work.absent(v))
            } else {
                self.tokens
            },
            work: work.duration.iter().sum(),
            span: unlimited,
            lower: None,
            upper: None,
            utilization: None,
            peak: None,
            support: timing.support(),
            cut: timing.cut,
            rule: timing.rule,
            steps: timing.steps,
            idle: slots.is_none() && !as_recorded && !work.touched,
        };
        if scenario.release == Release::Recorded {
            // The span knows no release times.
            outlook.span = weighted.longest(graph, order, |v| work.duration[v]);
        }
        let holders = hold(&subject, timing, work, split, pool, holder);
        if slots.is_some() || merged {
            let (mut queue_rank, mut queue_row) = (self.canonical_rank, owners.order().rows());
            if scenario.queue == Queue::CriticalPath {
                queue_by_path(&subject, &work.duration, below, self.canonical_rank, rank, row);
                (queue_rank, queue_row) = (rank, row);
            }
            let room = slots.unwrap_or(u32::MAX).clamp(1, view.len().max(1) as u32);
            let outcome_of_room = roomy
                .filter(|outcome_of_room| (outcome_of_room.peak..=outcome_of_room.slots).contains(&room))
                .unwrap_or_else(|| {
                    let demand = Demand { rank: queue_rank, row: queue_row, holder, holders, slots: room };
                    events.run(graph, timing, work, demand);
                    Roomy { slots: room, peak: events.peak, makespan: events.makespan, busy: events.busy }
                });
            *roomy = Some(outcome_of_room);
            outlook.makespan_cf = outcome_of_room.makespan;
            if let Some(k) = slots {
                outlook.peak = Some(outcome_of_room.peak);
                let room = f64::from(k) * outcome_of_room.makespan;
                outlook.utilization = (room > 0.0).then(|| outcome_of_room.busy / room);
            }
        }
        if scenario.release == Release::None {
            let by_slots = slots.map(|k| (f64::from(k), &holder[..]));
            let (lower, upper) = bounds(&subject, work, weighted, pool, by_slots, &outlook);
            outlook.lower = Some(lower);
            outlook.upper = (!merged).then_some(upper);
        }
        let finite =
            outlook.makespan.is_finite() && outlook.makespan_cf.is_finite() && outlook.work.is_finite();
        if finite { Ok(outlook) } else { Err(Reason::ResultRange) }
    }
}

/// The queue in which the event with the longest path to the end of everything goes first, ties in canonical order.
fn queue_by_path(
    subject: &Subject<'_>,
    duration: &[f64],
    below: &mut Vec<f64>,
    canonical_rank: &[u32],
    rank: &mut Vec<u32>,
    row: &mut Vec<u32>,
) {
    Weighted::below(subject.graph, subject.order, |v| duration[v], below);
    row.clear();
    row.extend(0..duration.len() as u32);
    row.sort_unstable_by(|&a, &b| {
        let (a, b) = (a as usize, b as usize);
        below[b].total_cmp(&below[a]).then(canonical_rank[a].cmp(&canonical_rank[b]))
    });
    rank.clear();
    rank.resize(row.len(), 0);
    for (place, &v) in row.iter().enumerate() {
        rank[v as usize] = place as u32;
    }
}

/// Bounds of any greedy schedule: the upper one is W/k + the longest path in which what needs a slot counts (1 - 1/k).
fn bounds(
    subject: &Subject<'_>,
    work: &Work,
    weighted: &mut Weighted,
    pool: Pool,
    slots: Option<(f64, &[u32])>,
    outlook: &Outlook,
) -> (f64, f64) {
    let Subject { graph, order, .. } = *subject;
    let span = outlook.span;
    let Some((k, holder)) = slots else { return (span, span) };
    if pool == Pool::All {
        return (span.max(outlook.work / k), outlook.work / k + span * (1.0 - 1.0 / k));
    }
    let slotted = |v: usize| holder.get(v).is_none_or(|&holder| holder != NOBODY);
    let slotted_work: f64 = (0..graph.len()).filter(|&v| slotted(v)).map(|v| work.duration[v]).sum();
    // Events of one agent share its slot, so that their work may be done faster than k at a time.
    let lower = if pool == Pool::Tools { span.max(slotted_work / k) } else { span };
    let weight = |v: usize| if slotted(v) { work.duration[v] * (1.0 - 1.0 / k) } else { work.duration[v] };
    (lower, slotted_work / k + weighted.longest(graph, order, weight))
}

/// What holds the slot of each event, into `holder`; how many holders there may be.
fn hold(
    subject: &Subject<'_>,
    timing: &Timing,
    work: &Work,
    split: &Split,
    pool: Pool,
    holder: &mut Vec<u32>,
) -> u32 {
    const RESULT: u8 = EventType::ToolResult as u8;
    let Subject { view, owners, .. } = subject;
    let names = owners.names().len() as u32;
    holder.clear();
    match pool {
        Pool::All => {
            // What others than the team do needs no slot.
            if timing.working < view.len() as u32 {
                holder.extend(timing.aside.iter().map(|kind| if kind.is_some() { NOBODY } else { OWN }));
            }
            0
        }
        Pool::Tools => {
            holder.extend(view.types.iter().map(|&kind| if kind == RESULT { OWN } else { NOBODY }));
            0
        }
        Pool::Agents => {
            let known_code = |number: Option<&u32>| number.copied().filter(|&number| number != NOBODY);
            let of = |v: usize| match (
                owners.indices()[v],
                known_code(work.group.get(v)),
                known_code(split.part.get(v)),
            ) {
                (NOBODY, _, _) => NOBODY,
                (_, Some(group), _) => names + group,
                (_, None, Some(part)) => names + work.groups + part,
                (name, None, None) => name,
            };
            holder.extend((0..view.len()).map(of));
            names + work.groups + split.parts
        }
    }
}

/// Tokens of the team's events that count (D18).
fn tokens(owners: &Owners, view: &TraceView<'_>, counts: impl Fn(usize) -> bool) -> Option<i64> {
    if view.tokens.is_absent() {
        return None;
    }
    let mut any = false;
    let mut sum = 0_i64;
    for v in 0..view.len() {
        let tokens_of_event = owners.tokens(view, v);
        any |= tokens_of_event.is_some();
        if counts(v) {
            sum = sum.saturating_add(tokens_of_event.unwrap_or(0));
        }
    }
    any.then_some(sum)
}
