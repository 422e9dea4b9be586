//! The subject of metrics: what all metrics of a trace share, computed when the first of them reads it.

use std::cell::{OnceCell, RefCell};

use super::options::Options;
use super::stages::StageTable;
use crate::error::Reason;
use crate::graph::owner::Name;
use crate::graph::program::ProgramOrder;
use crate::graph::units;
use crate::graph::{CsrGraph, NOBODY, Order, Outcome, Owners, Topological, Turns, outcome};
use crate::replay::schedule::Lengths;
use crate::replay::schedule::durations::{Release, Timing};
use crate::replay::schedule::span::{Earliest, Slack};
use crate::replay::schedule::work::{Subject as Scheduled, Work};
use crate::schema::EventType;
use crate::store::view::TraceView;

/// A trace as metrics see it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Its columns.
    pub view: &'a TraceView<'a>,
    /// Its owners, roles and root.
    pub owners: &'a Owners,
    shared: &'a Shared,
    lengths: Lengths,
    program_order: bool,
}

impl<'a> Subject<'a> {
    fn connected(&self) -> &'a Connected {
        self.shared.connected.get(|Connected { program, graph, topological }| {
            let none = &[][..];
            let program = if self.program_order { program.compute(self.view, self.owners) } else { none };
            graph.build(self.view, program, None);
            graph.build_successors();
            topological.any(graph);
        })
    }

    /// Its graph, all eight edge types (D3), successors known.
    #[must_use]
    pub fn graph(&self) -> &'a CsrGraph {
        &self.connected().graph
    }

    /// A topological order of it, unless it has a cycle.
    #[must_use]
    pub fn order(&self) -> Option<Order<'a>> {
        let Connected { graph, topological, .. } = self.connected();
        topological.latest(graph)
    }

    /// Its turns.
    #[must_use]
    pub fn turns(&self) -> &'a Turns {
        self.shared.turns.get(|turns| turns.compute(self.view, self.owners))
    }

    /// The event that the team is paid for; the reason where that is not known.
    pub fn outcome(&self) -> Result<Outcome, Reason> {
        *self.shared.outcome.get_or_init(|| outcome::outcome(self.view, self.owners))
    }

    /// Of each event whether a path leads from it to the outcome; empty without a real outcome or with a cycle.
    #[must_use]
    pub fn live(&self) -> &'a [bool] {
        let live = self.shared.live.get(|Live { flags, stack }| {
            flags.clear();
            if let (Some(_), Ok(Outcome::Event(y))) = (self.order(), self.outcome()) {
                self.graph().mark_ancestors(y, flags, stack);
            }
        });
        &live.flags
    }

    /// Durations; the reason where a trace has none.
    pub fn timing(&self) -> Result<&'a Timing, Reason> {
        let Timed { timing, reason } = self.shared.timing.get(|Timed { timing, reason }| {
            let computed = timing.compute(self.view, self.owners, self.graph(), self.lengths, Release::None);
            *reason = computed.err();
        });
        reason.map_or(Ok(timing), Err)
    }

    fn busy(&self) -> &'a Busy {
        self.shared.busy.get(|Busy { work, earliest }| {
            let Ok((order, timing)) = self.scheduled() else { return };
            let scheduled = Scheduled { view: self.view, owners: self.owners, graph: self.graph(), order };
            work.compute(scheduled, timing, &[]);
            earliest.compute(self.graph(), order, timing, work);
        })
    }

    /// Earliest finishes and the span; as good as [`Self::timing`], and only with an order.
    #[must_use]
    pub fn earliest(&self) -> &'a Earliest {
        &self.busy().earliest
    }

    /// The critical path, likewise.
    #[must_use]
    pub fn slack(&self) -> &'a Slack {
        self.shared.slack.get(|slack| {
            let Ok((order, _)) = self.scheduled() else { return };
            let Busy { work, earliest } = self.busy();
            slack.compute(self.view.t, self.graph(), order, &work.duration, earliest);
        })
    }

    /// Stages of the root agent (D9).
    #[must_use]
    pub fn stages(&self) -> &'a StageTable {
        self.shared.stages.get(|stages| stages.compute(self.view, self.owners))
    }

    /// Messages between two agents (D18): events of type message that are a `message` unit.
    #[must_use]
    pub fn messages(&self) -> &'a [u32] {
        self.shared.messages.get(|messages| {
            let is_message = |&v: &usize| {
                self.is(v, &[EventType::Message]) && units::is_message(self.view, self.owners, v)
            };
            messages.clear();
            messages.extend((0..self.view.len()).filter(is_message).map(|v| v as u32));
        })
    }

    /// Tokens of the team's work, if any event has some.
    #[must_use]
    pub fn all_tokens(&self) -> Option<i64> {
        *self.shared.all_tokens.get_or_init(|| {
            let recorded = !self.view.tokens.is_absent();
            recorded.then(|| sum_of_tokens(self.owners, self.view, 0..self.view.len())).flatten()
        })
    }

    /// Position of the owner of an event among the names, or [`NOBODY`].
    #[must_use]
    #[inline]
    pub fn owner(&self, v: usize) -> u32 {
        self.owners.indices()[v]
    }

    /// Agents: names that own an event.
    pub fn agents(&self) -> impl Iterator<Item = &Name> {
        self.owners.names().iter().filter(|name| name.is_agent())
    }

    /// Position of the root agent among the names, or [`NOBODY`].
    #[must_use]
    pub fn root(&self) -> u32 {
        self.owners.root().and_then(|code| self.owners.name_index(code)).unwrap_or(NOBODY)
    }

    /// Tokens of an event that are spent on the team's work (D18).
    #[must_use]
    #[inline]
    pub fn tokens(&self, v: usize) -> Option<i64> {
        self.owners.tokens(self.view, v)
    }

    /// Tokens of some events, of those of all.
    pub fn token_share(&self, events: impl Iterator<Item = usize>) -> Result<f64, Reason> {
        match self.all_tokens() {
            None => Err(Reason::FieldAbsent),
            Some(0) => Err(Reason::RatioEmpty),
            Some(all) => Ok(sum_of_tokens(self.owners, self.view, events).unwrap_or(0) as f64 / all as f64),
        }
    }

    /// The graph's order and the durations, or the reason why there is no schedule.
    pub fn scheduled(&self) -> Result<(Order<'a>, &'a Timing), Reason> {
        let order = self.order().ok_or(Reason::GraphCycle)?;
        Ok((order, self.timing()?))
    }

    /// The flags of [`Self::live`], or the reason why there are none.
    pub fn lives(&self) -> Result<&'a [bool], Reason> {
        if self.order().is_none() {
            Err(Reason::GraphCycle)
        } else {
            match self.outcome() {
                Ok(Outcome::Event(_)) => Ok(self.live()),
                Ok(Outcome::VirtualSink) => Err(Reason::OutcomeAbsent),
                Err(reason) => Err(reason),
            }
        }
    }

    /// Whether an event is of one of these types.
    #[must_use]
    #[inline]
    pub fn is(&self, v: usize, kinds: &[EventType]) -> bool {
        kinds.iter().any(|&kind| self.view.types[v] == kind as u8)
    }
}

/// Of those events that have some; `None` if none has.
fn sum_of_tokens(owners: &Owners, view: &TraceView<'_>, events: impl Iterator<Item = usize>) -> Option<i64> {
    events.filter_map(|v| owners.tokens(view, v)).reduce(i64::saturating_add)
}

/// A value that is computed when it is first read, in a buffer that is kept from trace to trace.
#[derive(Debug, Default)]
struct OnDemand<T> {
    value: OnceCell<T>,
    buffer: RefCell<T>,
}

impl<T: Default> OnDemand<T> {
    /// Forgets the value, and keeps its buffer.
    fn begin(&mut self) {
        if let Some(value) = self.value.take() {
            *self.buffer.get_mut() = value;
        }
    }

    /// The value; `compute` replaces what the buffer holds, of another trace.
    fn get(&self, compute: impl FnOnce(&mut T)) -> &T {
        self.value.get_or_init(|| {
            let mut value = self.buffer.take();
            compute(&mut value);
            value
        })
    }
}

#[derive(Debug, Default)]
struct Connected {
    program: ProgramOrder,
    graph: CsrGraph,
    topological: Topological,
}

#[derive(Debug, Default)]
struct Live {
    flags: Vec<bool>,
    stack: Vec<u32>,
}

#[derive(Debug, Default)]
struct Busy {
    work: Work,
    earliest: Earliest,
}

#[derive(Debug, Default)]
struct Timed {
    timing: Timing,
    reason: Option<Reason>,
}

#[derive(Debug, Default)]
struct Shared {
    connected: OnDemand<Connected>,
    turns: OnDemand<Turns>,
    outcome: OnceCell<Result<Outcome, Reason>>,
    live: OnDemand<Live>,
    timing: OnDemand<Timed>,
    busy: OnDemand<Busy>,
    slack: OnDemand<Slack>,
    stages: OnDemand<StageTable>,
    messages: OnDemand<Vec<u32>>,
    all_tokens: OnceCell<Option<i64>>,
}

impl Shared {
    fn begin(&mut self) {
        let Self { connected, turns, outcome, live, timing, busy, slack, stages, messages, all_tokens } =
            self;
        connected.begin();
        turns.begin();
        outcome.take();
        live.begin();
        timing.begin();
        busy.begin();
        slack.begin();
        stages.begin();
        messages.begin();
        all_tokens.take();
    }
}

/// A worker's buffers for the trace at hand.
#[derive(Debug, Default)]
pub struct Preparation {
    owners: Owners,
    shared: Shared,
}

impl Preparation {
    /// Replaces everything by what `view` says.
    pub fn prepare<'a>(&'a mut self, view: &'a TraceView<'a>, options: &Options) -> Subject<'a> {
        self.owners.compute(view);
        self.shared.begin();
        Subject {
            view,
            owners: &self.owners,
            shared: &self.shared,
            lengths: options.lengths,
            program_order: options.program_order,
        }
    }
}
