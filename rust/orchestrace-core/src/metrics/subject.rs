//! The subject of metrics: data that all metrics of a trace share, computed once.

use super::options::Options;
use super::stages::StageTable;
use crate::error::Reason;
use crate::graph::owner::Name;
use crate::graph::program::ProgramOrder;
use crate::graph::units;
use crate::graph::{CsrGraph, NOBODY, Order, Outcome, Owners, Topological, Turns, outcome};
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
    /// Its graph, all eight edge types (D3), successors known.
    pub graph: &'a CsrGraph,
    /// A topological order of it, unless it has a cycle.
    pub order: Option<Order<'a>>,
    /// Its owners, roles and root.
    pub owners: &'a Owners,
    /// Its turns.
    pub turns: &'a Turns,
    /// The event that the team is paid for; the reason where that is not known.
    pub outcome: Result<Outcome, Reason>,
    /// Of each event whether a path leads from it to the outcome; empty without a real outcome or with a cycle.
    pub live: &'a [bool],
    /// Durations; the reason where a trace has none.
    pub timing: Result<&'a Timing, Reason>,
    /// Earliest finishes and the span; as good as `timing`, and only with an order.
    pub earliest: &'a Earliest,
    /// The critical path, likewise.
    pub slack: &'a Slack,
    /// Stages of the root agent (D9).
    pub stages: &'a StageTable,
    /// Messages between two agents (D18): events of type message that are a `message` unit.
    pub messages: &'a [u32],
    /// Tokens of the team's work, if any event has some.
    pub all_tokens: Option<i64>,
}

impl Subject<'_> {
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
        match self.all_tokens {
            None => Err(Reason::FieldAbsent),
            Some(0) => Err(Reason::RatioEmpty),
            Some(all) => Ok(sum_of_tokens(self.owners, self.view, events).unwrap_or(0) as f64 / all as f64),
        }
    }

    /// The graph's order and the durations, or the reason why there is no schedule.
    pub fn scheduled(&self) -> Result<(Order<'_>, &Timing), Reason> {
        let order = self.order.ok_or(Reason::GraphCycle)?;
        Ok((order, self.timing?))
    }

    /// The flags of [`Self::live`], or the reason why there are none.
    pub fn lives(&self) -> Result<&[bool], Reason> {
        if self.order.is_none() {
            Err(Reason::GraphCycle)
        } else {
            match self.outcome {
                Ok(Outcome::Event(_)) => Ok(self.live),
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

/// A worker's buffers for the trace at hand.
#[derive(Debug, Default)]
pub struct Preparation {
    owners: Owners,
    turns: Turns,
    program: ProgramOrder,
    graph: CsrGraph,
    topological: Topological,
    live: Vec<bool>,
    stack: Vec<u32>,
    timing: Timing,
    work: Work,
    earliest: Earliest,
    slack: Slack,
    stages: StageTable,
    messages: Vec<u32>,
}

impl Preparation {
    /// Replaces everything by what `view` says.
    pub fn prepare<'a>(&'a mut self, view: &'a TraceView<'a>, options: &Options) -> Subject<'a> {
        self.owners.compute(view);
        self.turns.compute(view, &self.owners);
        let program = if options.program_order { self.program.compute(view, &self.owners) } else { &[][..] };
        self.graph.build(view, program, None);
        self.graph.build_successors();
        let outcome = outcome::outcome(view, &self.owners);
        let timing = self.timing.compute(view, &self.owners, &self.graph, options.lengths, Release::None);
        let order = self.topological.any(&mut self.graph);
        self.live.clear();
        if let Some(order) = order {
            if let Ok(Outcome::Event(y)) = outcome {
                self.graph.mark_ancestors(y, &mut self.live, &mut self.stack);
            }
            if timing.is_ok() {
                let scheduled = Scheduled { view, owners: &self.owners, graph: &self.graph, order };
                self.work.compute(scheduled, &self.timing, &[]);
                self.earliest.compute(&self.graph, order, &self.timing, &self.work);
                self.slack.compute(view.t, &self.graph, order, &self.work.duration, &self.earliest);
            }
        }
        self.stages.compute(view, &self.owners);
        self.messages.clear();
        let is_message = |v: &usize| {
            view.types[*v] == EventType::Message as u8 && units::is_message(view, &self.owners, *v)
        };
        self.messages.extend((0..view.len()).filter(is_message).map(|v| v as u32));
        let recorded = !view.tokens.is_absent();
        let all_tokens = recorded.then(|| sum_of_tokens(&self.owners, view, 0..view.len())).flatten();
        Subject {
            view,
            graph: &self.graph,
            order,
            owners: &self.owners,
            turns: &self.turns,
            outcome,
            live: &self.live,
            timing: timing.map(|()| &self.timing),
            earliest: &self.earliest,
            slack: &self.slack,
            stages: &self.stages,
            messages: &self.messages,
            all_tokens,
        }
    }
}
