//! The work of one trace under a scenario's changes: durations, removed events, merged agents.

use super::durations::Timing;
use super::scenario::{Cascade, Change, Select};
use crate::graph::owner::Name;
use crate::graph::{CsrGraph, NOBODY, Order, Owners};
use crate::schema::EventType;
use crate::store::view::TraceView;

/// A trace as changes see it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    /// Its columns.
    pub view: &'a TraceView<'a>,
    /// Its owners.
    pub owners: &'a Owners,
    /// Its graph.
    pub graph: &'a CsrGraph,
    /// A topological order of it.
    pub order: Order<'a>,
}

impl Subject<'_> {
    /// The tool of a call or result: the field `tool`, else that of the call which a result answers.
    #[must_use]
    pub fn tool(&self, v: usize) -> Option<u32> {
        let call = || self.view.tool.get(self.owners.calls()[v] as usize);
        self.view.tool.get(v).or_else(call)
    }

    fn name(&self, code: Option<u32>) -> Option<u32> {
        self.owners.name_index(code?)
    }

    /// Calls `f` with every event that is meant.
    fn each(&self, select: &Select, mut f: impl FnMut(usize)) {
        let n = self.view.len();
        let owned = |v: usize| self.owners.indices()[v];
        match select {
            Select::Everything => (0..n).for_each(f),
            Select::Event(id) => (0..n).filter(|&v| self.view.id.get(v) == Some(id)).for_each(f),
            Select::Agent(code) => {
                if let Some(name) = self.name(*code) {
                    (0..n).filter(|&v| owned(v) == name).for_each(f);
                }
            }
            Select::Role(code) => {
                let names = self.owners.names();
                let role = |v: usize| names.get(owned(v) as usize).and_then(Name::role);
                if code.is_some() {
                    (0..n).filter(|&v| role(v) == *code).for_each(f);
                }
            }
            Select::Tool(code) => {
                let kinds = [EventType::ToolCall, EventType::ToolResult];
                for v in (0..n).filter(|&v| kinds.contains(&self.view.event_type(v))) {
                    if code.is_some() && self.tool(v) == *code {
                        f(v);
                    }
                }
            }
            Select::Type(kind) => (0..n).filter(|&v| self.view.types[v] == *kind as u8).for_each(f),
        }
    }

    /// Calls `f` with every event whose duration is meant: of a tool the results, whose durations are its work.
    fn each_length(&self, select: &Select, mut f: impl FnMut(usize)) {
        let tool = matches!(select, Select::Tool(_));
        self.each(select, |v| {
            if !tool || self.view.types[v] == EventType::ToolResult as u8 {
                f(v);
            }
        });
    }
}

/// Durations and constraints under a scenario; a buffer reused from scenario to scenario.
#[derive(Debug, Default)]
pub struct Work {
    /// How long each event takes.
    pub duration: Vec<f64>,
    /// Of each event the group of merged agents that it belongs to, or [`NOBODY`]; empty without such groups.
    pub group: Vec<u32>,
    /// How many groups.
    pub groups: u32,
    /// Whether one event runs at a time.
    pub serial: bool,
    /// Whether the changes found anything to change.
    pub touched: bool,
    /// Agents that are merged, and their groups.
    merged: Vec<(u32, u32)>,
    absent: Vec<bool>,
    classes: Vec<(u64, f64, u32)>,
}

impl Work {
    /// Whether an event does not happen.
    #[must_use]
    #[inline]
    pub fn absent(&self, v: usize) -> bool {
        self.absent.get(v).copied().unwrap_or(false)
    }

    /// Whether anything does not happen.
    #[must_use]
    pub fn has_absent(&self) -> bool {
        !self.absent.is_empty()
    }

    /// When an event ends that begins at `start`. One that begins when it did in the recording, and takes as long, ends
    /// when it did: to the bit, where adding its duration would round.
    #[must_use]
    #[inline]
    pub fn finish(&self, timing: &Timing, v: usize, start: f64) -> f64 {
        let duration = self.duration[v];
        let ended = timing.ended[v];
        let as_recorded = start == timing.began[v] && duration == timing.duration[v] && !ended.is_nan();
        if as_recorded { ended } else { start + duration }
    }

    /// Replaces everything by the work of a trace under `changes`.
    pub fn compute(&mut self, subject: Subject<'_>, timing: &Timing, changes: &[Change]) {
        self.duration.clear();
        self.duration.extend_from_slice(&timing.duration);
        self.absent.clear();
        self.group.clear();
        self.merged.clear();
        self.groups = 0;
        self.serial = false;
        self.touched = false;
        for change in changes {
            match change {
                Change::Remove { select, cascade } => self.remove(subject, select, *cascade),
                Change::Speed { select, factor } => {
                    let (duration, touched) = (&mut self.duration, &mut self.touched);
                    subject.each_length(select, |v| {
                        duration[v] /= factor;
                        *touched = true;
                    });
                }
                Change::Cap { select, quantile } => self.cap(subject, select, *quantile),
                Change::Merge { agents } => self.merge(subject, agents),
                Change::Serialize => (self.serial, self.touched) = (true, true),
                // the graph is another one already
                Change::Split { agent, .. } => self.touched |= subject.name(*agent).is_some(),
            }
        }
        if self.has_absent() {
            let removed = self.absent.iter().zip(&mut self.duration);
            removed.filter(|(absent, _)| **absent).for_each(|(_, duration)| *duration = 0.0);
        }
    }

    fn remove(&mut self, subject: Subject<'_>, select: &Select, cascade: Cascade) {
        let mut any = false;
        if self.absent.is_empty() {
            self.absent.resize(subject.view.len(), false);
        }
        subject.each(select, |v| {
            self.absent[v] = true;
            any = true;
        });
        self.touched |= any;
        if any && cascade != Cascade::Stay {
            let mut judge = |v: usize| {
                let mut inputs = subject.graph.predecessors_of(v).iter().map(|&u| self.absent[u as usize]);
                let lost = match cascade {
                    Cascade::WhenAnyIsLost => inputs.any(|absent| absent),
                    _ => inputs.len() > 0 && inputs.all(|absent| absent),
                };
                self.absent[v] |= lost;
            };
            match subject.order {
                Order::Document(n) => (0..n).for_each(&mut judge),
                Order::Listed(rows) => rows.iter().for_each(|&v| judge(v as usize)),
            }
        }
        if !self.absent.contains(&true) {
            self.absent.clear();
        }
    }

    fn cap(&mut self, subject: Subject<'_>, select: &Select, quantile: f64) {
        self.classes.clear();
        let classes = &mut self.classes;
        let (absent, duration) = (&self.absent, &self.duration);
        subject.each_length(select, |v| {
            if !absent.get(v).copied().unwrap_or(false) {
                let tool = subject.tool(v).map_or(u64::from(u32::MAX), u64::from);
                classes.push((tool << 8 | u64::from(subject.view.types[v]), duration[v], v as u32));
            }
        });
        self.touched |= !classes.is_empty();
        classes.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)).then(a.2.cmp(&b.2)));
        for class in classes.chunk_by(|a, b| a.0 == b.0) {
            // a product that is a whole number may come out a little above it
            let rank = (quantile * class.len() as f64 - 1e-9).ceil() as usize;
            let most = class[rank.clamp(1, class.len()) - 1].1;
            for &(_, length, v) in class {
                self.duration[v as usize] = length.min(most);
            }
        }
    }

    fn merge(&mut self, subject: Subject<'_>, agents: &[u32]) {
        if self.group.is_empty() {
            self.group.resize(subject.view.len(), NOBODY);
        }
        let group = self.groups;
        self.groups += 1;
        for &code in agents {
            // Who was merged with one of them already comes along, also where that one does nothing.
            let before = self.merged.iter().find(|(merged, _)| *merged == code).map(|(_, group)| *group);
            if let Some(before) = before.filter(|&before| before != group) {
                self.group.iter_mut().filter(|of| **of == before).for_each(|of| *of = group);
                self.merged.iter_mut().filter(|(_, of)| *of == before).for_each(|(_, of)| *of = group);
            }
            self.merged.push((code, group));
            let (of, touched) = (&mut self.group, &mut self.touched);
            subject.each(&Select::Agent(Some(code)), |v| {
                of[v] = group;
                *touched = true;
            });
        }
    }
}
