//! The calls of a trace: their keys (D18), whether they failed, their results, and the event that made each.
//!
//! A call failed if it or one of its results says `ok = false`. What made a call is the last event before it, among its
//! predecessors, that is a decision or a message of its owner; where no edge says so, the last event of its owner before
//! it, other calls and spawns left out, if that is a decision or a message. O(events + edges + c log c) for c calls.

use crate::graph::{CsrGraph, NOBODY, Owners};
use crate::schema::EventType::{self, Message, OrchestratorDecision, Spawn, ToolCall, ToolResult};
use crate::store::view::TraceView;

/// A call that an agent of the team made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call {
    /// The event.
    pub event: u32,
    /// Position of its owner among the names.
    pub owner: u32,
    /// Equal among calls of one tool with one text of arguments; [`NOBODY`] where these are not recorded.
    pub key: u32,
    /// Whether it or a result of it says so.
    pub failed: bool,
    /// Its first result in canonical order, or [`NOBODY`].
    pub result: u32,
    /// The event that made it, or [`NOBODY`].
    pub maker: u32,
}

/// Calls of one trace; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct Calls {
    /// In canonical order.
    list: Vec<Call>,
    /// The call that an event is, or is a result of, as a place in the list; [`NOBODY`] else.
    of: Vec<u32>,
    order: Vec<u32>,
    latest: Vec<u32>,
}

fn is(view: &TraceView<'_>, v: u32, kinds: &[EventType]) -> bool {
    kinds.iter().any(|&kind| view.types[v as usize] == kind as u8)
}

impl Calls {
    /// In canonical order.
    #[must_use]
    pub fn list(&self) -> &[Call] {
        &self.list
    }

    /// The call that an event is, or is a result of, as a place in [`Self::list`].
    #[must_use]
    #[inline]
    pub fn place_of(&self, event: u32) -> Option<usize> {
        Some(self.of[event as usize]).filter(|&at| at != NOBODY).map(|at| at as usize)
    }

    /// Replaces everything by what `view` says.
    pub fn compute(&mut self, view: &TraceView<'_>, owners: &Owners, graph: &CsrGraph, place: &[u32]) {
        let (rows, index) = (owners.order().rows(), owners.indices());
        self.list.clear();
        self.of.clear();
        self.of.resize(view.len(), NOBODY);
        for &v in rows {
            let owner = index[v as usize];
            if owner != NOBODY && is(view, v, &[ToolCall]) {
                self.of[v as usize] = self.list.len() as u32;
                let failed = view.ok.get(v as usize) == Some(false);
                let none = NOBODY;
                self.list.push(Call { event: v, owner, key: none, failed, result: none, maker: none });
            }
        }
        if self.list.is_empty() {
            return;
        }
        for &v in rows {
            let call = owners.calls()[v as usize];
            if call == NOBODY || !is(view, v, &[ToolResult]) || self.of[call as usize] == NOBODY {
                continue;
            }
            let at = self.of[call as usize];
            self.of[v as usize] = at;
            let call = &mut self.list[at as usize];
            call.failed |= view.ok.get(v as usize) == Some(false);
            if call.result == NOBODY {
                call.result = v;
            }
        }
        self.number_keys(view);
        self.find_makers(view, owners, graph, place);
    }

    /// Equal numbers for equal keys.
    fn number_keys(&mut self, view: &TraceView<'_>) {
        let list = &mut self.list;
        self.order.clear();
        self.order.extend((0..list.len() as u32).filter(|&at| {
            let event = list[at as usize].event;
            view.arguments_key(event as usize).is_some()
        }));
        let key = |at: u32, list: &[Call]| {
            let event = list[at as usize].event;
            (view.tool.get(event as usize), view.arguments_key(event as usize))
        };
        self.order.sort_unstable_by(|&a, &b| key(a, list).cmp(&key(b, list)).then(a.cmp(&b)));
        let mut number = 0;
        for at in 0..self.order.len() {
            let this = self.order[at];
            if at > 0 && key(this, list) != key(self.order[at - 1], list) {
                number += 1;
            }
            list[this as usize].key = number;
        }
    }

    /// The event that made each call.
    fn find_makers(&mut self, view: &TraceView<'_>, owners: &Owners, graph: &CsrGraph, place: &[u32]) {
        let index = owners.indices();
        self.latest.clear();
        self.latest.resize(owners.names().len(), NOBODY);
        for &v in owners.order().rows() {
            let owner = index[v as usize];
            if owner == NOBODY {
                continue;
            }
            if !is(view, v, &[ToolCall]) {
                if !is(view, v, &[Spawn]) {
                    self.latest[owner as usize] = v;
                }
                continue;
            }
            let makes = |u: u32| index[u as usize] == owner && is(view, u, &[OrchestratorDecision, Message]);
            let before = graph.predecessors_of(v as usize).iter().copied();
            let linked = before.filter(|&u| makes(u)).max_by_key(|&u| place[u as usize]);
            let latest = self.latest[owner as usize];
            let maker = linked.or_else(|| Some(latest).filter(|&u| u != NOBODY && makes(u)));
            self.list[self.of[v as usize] as usize].maker = maker.unwrap_or(NOBODY);
        }
    }
}
