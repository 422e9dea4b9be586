//! Lifetimes of the agents and spawned names of a trace (D19).
//!
//! Closed intervals. A spawned agent lives from the first spawn that names it to its last return or despawn, or to the end
//! of the trace where it has neither. The root lives for the whole trace. An agent that nobody spawned lives from its first
//! event to its last. O(|V|).

use super::subject::Subject;
use crate::graph::order::canonical_cmp;
use crate::graph::slots::Slots;
use crate::replay::schedule::durations::ends;
use crate::schema::EventType;

/// Lifetimes of the agents and spawned names of a trace (D19).
#[derive(Debug, Default)]
pub struct Lifetimes {
    /// First and last time of each.
    pub list: Vec<(f64, f64)>,
    /// Whose they are: agent codes.
    pub codes: Vec<u32>,
    slots: Slots,
    spawned: Vec<u32>,
    left: Vec<Option<f64>>,
}

impl Lifetimes {
    /// Replaces everything by what the trace says.
    pub fn compute(&mut self, subject: &Subject<'_>) {
        let view = subject.view;
        let (t_min, t_max) = ends(view.t);
        self.slots.begin();
        self.list.clear();
        self.codes.clear();
        self.spawned.clear();
        self.left.clear();
        for name in subject.agents() {
            self.slots.set(name.code, self.codes.len() as u32);
            self.add(name.code);
        }
        // who is spawned is known before who leaves: a document need not be in the order of its times
        for v in (0..view.len()).filter(|&v| subject.is(v, &[EventType::Spawn])) {
            let Some(to) = view.to.get(v).filter(|&to| !subject.owners.is_outside(view, to)) else {
                continue;
            };
            let at = self.slots.get(to).unwrap_or_else(|| {
                let at = self.codes.len() as u32;
                self.slots.set(to, at);
                self.add(to);
                at
            });
            let first = &mut self.spawned[at as usize];
            if *first == u32::MAX || canonical_cmp(view.t, v as u32, *first).is_lt() {
                *first = v as u32;
            }
        }
        for v in 0..view.len() {
            let (kind, t) = (view.event_type(v), view.t[v]);
            if let Some(at) = self.slots.get(subject.owners.codes()[v]) {
                let (from, to) = &mut self.list[at as usize];
                (*from, *to) = (from.min(t), to.max(t));
                if kind == EventType::Return {
                    self.leave(at, t);
                }
            }
            if kind == EventType::Despawn
                && let Some(at) = view.to.get(v).and_then(|to| self.slots.get(to))
            {
                self.leave(at, t);
            }
        }
        let root = subject.owners.root();
        for (at, life) in self.list.iter_mut().enumerate() {
            if Some(self.codes[at]) == root {
                *life = (t_min, t_max);
            } else if self.spawned[at] != u32::MAX {
                let from = view.t[self.spawned[at] as usize];
                // one that left before it was spawned is there for a moment
                *life = (from, self.left[at].unwrap_or(t_max).max(from));
            }
        }
    }

    fn add(&mut self, code: u32) {
        self.codes.push(code);
        self.list.push((f64::INFINITY, f64::NEG_INFINITY));
        self.spawned.push(u32::MAX);
        self.left.push(None);
    }

    fn leave(&mut self, at: u32, t: f64) {
        let left = &mut self.left[at as usize];
        *left = Some(left.map_or(t, |before| before.max(t)));
    }
}
