//! Durations and start times of a trace's events (D7).
//!
//! ```text
//! d(v) = duration_s, else max(0, t_end - t), else the gap rule  max(0, end(v) - max end(pred)),  sources end - t0
//! ```
//!
//! `end` is `t`, or `t_end` where that defines the duration; t0 is the least `t`. What a human does takes no time here,
//! nor what a scorer does: it happens when it was recorded, and is no work of the team. A gap that is longer than
//! somebody allows is no work either, nor is what a call waited for an agent that answers it: of the result of such a
//! call counts what is left after the answer. Of a result or a word of the environment to which nothing leads,
//! since its call is not recorded, nothing says when it began: without a recorded duration it takes no time that is known. The rule of the trace:
//! `explicit` if every event of the others has one of the first two, else `mixed` if times are in seconds, else `gap`
//! for all, since seconds and steps do not add. O(|V|+|E|).
//!
//! A recorded event may begin before what it waits for has ended (edges say what was used, not when). A replay that is
//! to return every recorded time takes the overlap off its duration; how often is counted.

use crate::graph::{CsrGraph, Owners};
use crate::schema::{AgentKind, EdgeType, EventType, Reason, TimeBasis};
use crate::store::view::TraceView;

/// The source of durations.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durations {
    /// The rule of each trace (D7).
    #[default]
    Auto,
    /// What is recorded; absent is 0.
    Explicit,
    /// Gaps between the times of an event and of what it waits for.
    Gap,
}

/// The longest gap that counts as work; a longer one is idle time.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum MaxGap {
    /// An hour where times are in seconds; where they are steps, every gap counts.
    #[default]
    Auto,
    /// Every gap counts.
    Unlimited,
    /// So much, in the unit of `t`.
    Of(f64),
}

impl MaxGap {
    const HOUR: f64 = 3600.0;

    /// What it is in a trace of this basis; infinite where every gap counts.
    #[must_use]
    pub fn limit(self, basis: Option<TimeBasis>) -> f64 {
        match (self, basis) {
            (Self::Of(most), _) => most,
            (Self::Auto, Some(TimeBasis::Seconds | TimeBasis::Partial)) => Self::HOUR,
            (Self::Auto | Self::Unlimited, _) => f64::INFINITY,
        }
    }
}

/// The rule of durations.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Lengths {
    /// Where they come from.
    pub durations: Durations,
    /// The longest gap that counts as work.
    pub max_gap: MaxGap,
}

/// The earliest start times of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Release {
    /// As soon as what they wait for has ended.
    #[default]
    None,
    /// Not before they began in the recording, either.
    Recorded,
}

/// The rule that gave the durations of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Rule {
    /// Recorded ones alone.
    Explicit,
    /// Recorded ones, and gaps where there is none.
    Mixed,
    /// Gaps alone.
    #[default]
    Gap,
}

/// Whether a human gave the result of a call: answered a question, approved a plan.
#[must_use]
pub fn is_given_by_human(view: &TraceView<'_>, owners: &Owners, v: usize) -> bool {
    view.types[v] == EventType::ToolResult as u8
        && view.from.get(v).is_some_and(|from| owners.is_user_name(view, from))
}

/// Two times that differ by less than a subtraction rounds are one.
pub const ROUNDING: f64 = 4.0 * f64::EPSILON;

/// Durations and recorded times of one trace; a buffer reused from trace to trace. Times count from the
/// beginning of the first event.
#[derive(Debug, Default)]
pub struct Timing {
    /// How long each event takes.
    pub duration: Vec<f64>,
    /// When it began: not before everything it waits for had ended.
    pub began: Vec<f64>,
    /// When it ended; [`f64::NAN`] where a replay cannot meet it, since an edge leads back in time or the duration overlaps
    /// what the event waits for.
    pub ended: Vec<f64>,
    /// When it may begin; empty without release times.
    pub release: Vec<f64>,
    /// The rule of the trace.
    pub rule: Rule,
    /// Whether times are steps rather than seconds.
    pub steps: bool,
    /// Events of the team whose duration is recorded.
    pub recorded: u32,
    /// Events of the team.
    pub working: u32,
    /// Events whose duration overlaps what they wait for, where release times cut it.
    pub cut: u32,
    /// From the beginning of the first event to the end of the last; nothing where durations are in seconds and times
    /// are not.
    pub makespan: Option<f64>,
    /// When each event ended, as recorded.
    pub ends: Vec<f64>,
    /// Whose each event is where that is no work of the team: a human's or a scorer's.
    pub aside: Vec<Option<AgentKind>>,
    /// Of each event the gap that is too long to be work, else 0.
    pub idle: Vec<f64>,
    /// Results of which nothing says how long they took, in order.
    pub unknown: Vec<u32>,
    /// How long each event waited, after everything that it waits for had ended, before it began: known where its
    /// duration is recorded.
    pub queued: Vec<Option<f64>>,
    /// Whether a recorded edge leads to an event.
    entered: Vec<bool>,
    /// Whether an event is the result of a call that another agent answered.
    answered: Vec<bool>,
}

impl Timing {
    /// The share of the team's events whose duration is recorded.
    #[must_use]
    pub fn support(&self) -> f64 {
        f64::from(self.recorded) / f64::from(self.working.max(1))
    }

    /// Replaces everything by what `view` says.
    pub fn compute(
        &mut self,
        view: &TraceView<'_>,
        owners: &Owners,
        graph: &CsrGraph,
        lengths: Lengths,
        release: Release,
    ) -> Result<(), Reason> {
        let n = view.len();
        self.aside.clear();
        self.aside.extend(
            (0..n)
                .map(|v| {
                    let by_human = || is_given_by_human(view, owners, v).then_some(AgentKind::User);
                    owners.outsider(view, v).or_else(by_human)
                })
                .map(|kind| kind.filter(|kind| matches!(kind, AgentKind::User | AgentKind::Scorer))),
        );
        let works = |v: &usize| self.aside[*v].is_none();
        let working = (0..n).filter(works).count();
        self.working = working as u32;
        let recorded = (0..n).filter(works).filter(|&v| explicit(view, v).is_some()).count();
        let seconds = matches!(view.time_basis, Some(TimeBasis::Seconds | TimeBasis::Partial));
        let rule_of_trace = match lengths.durations {
            Durations::Auto if recorded == working && working > 0 => Rule::Explicit,
            Durations::Auto if seconds => Rule::Mixed,
            Durations::Explicit if recorded == 0 && n > 0 => return Err(Reason::FieldAbsent),
            Durations::Explicit => Rule::Explicit,
            Durations::Auto | Durations::Gap => Rule::Gap,
        };
        // Where times are steps, durations in seconds have no place on their axis.
        let off_axis = release == Release::Recorded && !seconds;
        self.rule = if off_axis { Rule::Gap } else { rule_of_trace };
        self.rule = if self.rule == Rule::Mixed && recorded == 0 { Rule::Gap } else { self.rule };
        self.steps = !seconds && self.rule != Rule::Explicit;
        self.recorded = if self.rule == Rule::Gap { 0 } else { recorded as u32 };
        self.find_ends(view);
        self.fill(view, owners, graph, lengths, release, seconds);
        if self.duration.iter().all(|d| d.is_finite()) && self.makespan.is_none_or(f64::is_finite) {
            Ok(())
        } else {
            Err(Reason::ResultRange)
        }
    }

    /// What is recorded of an event under the rule of the trace.
    fn recorded_work(&self, view: &TraceView<'_>, v: usize) -> Option<f64> {
        if self.aside[v].is_some() {
            return Some(0.0);
        }
        match self.rule {
            Rule::Gap => None,
            Rule::Mixed => explicit(view, v),
            Rule::Explicit => Some(explicit(view, v).unwrap_or(0.0)),
        }
    }

    /// Results of calls that another agent answered. Its last answer is a return; to the result of an agent that
    /// answers again later leads what it said.
    fn find_answered(&mut self, view: &TraceView<'_>, owners: &Owners, axis: bool) {
        self.answered.clear();
        self.answered.resize(view.len(), false);
        let agents = owners.codes();
        for ((&u, &v), &edge) in view.src.iter().zip(view.dst).zip(view.edge_types) {
            let (u, v) = (u as usize, v as usize);
            if view.types[v] != EventType::ToolResult as u8 {
                continue;
            }
            let has_answered = axis
                && edge == EdgeType::Message as u8
                && view.types[u] == EventType::Message as u8
                && self.aside[u].is_none()
                && agents[u] != agents[v];
            self.answered[v] |= has_answered || view.types[u] == EventType::Return as u8;
        }
    }

    fn find_ends(&mut self, view: &TraceView<'_>) {
        self.ends.clear();
        self.ends.extend(view.t.iter().enumerate().map(|(v, &t)| {
            let ends_late =
                self.rule != Rule::Gap && self.aside[v].is_none() && view.duration_s.get(v).is_none();
            view.t_end.get(v).filter(|_| ends_late).map_or(t, |end| end.max(t))
        }));
    }

    fn fill(
        &mut self,
        view: &TraceView<'_>,
        owners: &Owners,
        graph: &CsrGraph,
        lengths: Lengths,
        release: Release,
        seconds: bool,
    ) {
        let n = view.len();
        let t0 = view.t.iter().copied().fold(f64::INFINITY, f64::min);
        let released = release == Release::Recorded;
        for column in
            [&mut self.duration, &mut self.began, &mut self.ended, &mut self.release, &mut self.idle]
        {
            column.clear();
        }
        self.queued.clear();
        self.unknown.clear();
        // Where the order of an agent's events counts as edges, too, those that are recorded are looked at.
        let ordered = graph.has_program_order();
        if ordered {
            self.entered.clear();
            self.entered.resize(n, false);
            view.dst.iter().for_each(|&v| self.entered[v as usize] = true);
        }
        self.cut = 0;
        // Durations in seconds and times in steps have no axis in common.
        let axis = seconds || self.rule == Rule::Gap;
        self.find_answered(view, owners, axis);
        let mut origin = f64::INFINITY;
        let longest = lengths.max_gap.limit(view.time_basis);
        for v in 0..n {
            let end = self.ends[v];
            let inputs = graph.predecessors_of(v);
            let waited = inputs.iter().map(|&u| self.ends[u as usize]).fold(f64::NEG_INFINITY, f64::max);
            let left = if axis { (end - waited).max(0.0) } else { 0.0 };
            let work_time = self.recorded_work(view, v);
            let work_time = if self.answered[v] { work_time.map(|d| d.min(left)) } else { work_time };
            let earliest = if inputs.is_empty() { t0 } else { waited };
            let gap = (end - earliest).max(0.0);
            let unknown = (inputs.is_empty() || ordered && !self.entered[v])
                && work_time.is_none()
                && (view.types[v] == EventType::ToolResult as u8
                    || gap > 0.0 && owners.outsider(view, v) == Some(AgentKind::Environment));
            if unknown {
                self.unknown.push(v as u32);
            }
            let idle = work_time.is_none() && !unknown && gap > longest;
            let began = work_time.map_or(if idle || unknown { end } else { earliest }, |d| end - d);
            let room = (end - began.max(waited)).max(0.0);
            let overlap = work_time.is_some() && began < waited;
            let noticed = overlap && waited - began > ROUNDING * end.abs().max(waited.abs()).max(room);
            let cuts = released && self.rule != Rule::Gap;
            let duration = if overlap && (cuts || !noticed) { room } else { work_time.unwrap_or(room) };
            // What ends before what it waits for ends elsewhere in any replay, and so does what is not cut.
            let met = end >= waited && (cuts || !noticed);
            let began = began.max(waited);
            origin = origin.min(began);
            self.cut += u32::from(cuts && noticed);
            self.duration.push(duration + 0.0);
            self.began.push(began);
            self.ended.push(if met { end } else { f64::NAN });
            self.idle.push(if idle { gap } else { 0.0 });
            let works = self.aside[v].is_none() && !inputs.is_empty() && axis;
            let room = ROUNDING * began.abs().max(waited.abs());
            let queued = if began - waited > room { began - waited } else { 0.0 };
            self.queued.push((works && explicit(view, v).is_some() && work_time.is_some()).then_some(queued));
            if released {
                self.release.push(began);
            }
        }
        // Adding 0 makes a negative zero a plain one, whose bits are those of the least time.
        for column in [&mut self.began, &mut self.ended, &mut self.release] {
            for time in column {
                *time = *time - origin + 0.0;
            }
        }
        let last = self.ends.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        self.makespan = axis.then_some(if n == 0 { 0.0 } else { last - origin + 0.0 });
    }
}

/// From when to when the clock of a run goes: from the earliest beginning that is recorded to the latest end. A human's
/// word takes no time. Where times are steps, durations in seconds have no place among them. O(|V|).
#[must_use]
pub fn clock(view: &TraceView<'_>, owners: &Owners) -> (f64, f64) {
    let (mut first, mut last) = ends(view.t);
    if !matches!(view.time_basis, Some(TimeBasis::Seconds | TimeBasis::Partial)) {
        return (first, last);
    }
    let is_human =
        |v| owners.outsider(view, v) == Some(AgentKind::User) || is_given_by_human(view, owners, v);
    for (v, t) in view.t.iter().enumerate() {
        match (view.duration_s.get(v), view.t_end.get(v)) {
            (Some(length), _) if t - length < first && !is_human(v) => first = t - length,
            (None, Some(end)) if end > last && !is_human(v) => last = end,
            _ => {}
        }
    }
    (first, last)
}

/// The least and the greatest of times.
#[must_use]
pub fn ends(t: &[f64]) -> (f64, f64) {
    t.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(first, last), &t| (first.min(t), last.max(t)))
}

/// The recorded duration of an event.
#[must_use]
pub fn explicit(view: &TraceView<'_>, v: usize) -> Option<f64> {
    view.duration_s.get(v).or_else(|| view.t_end.get(v).map(|end| (end - view.t[v]).max(0.0)))
}
