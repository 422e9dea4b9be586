//! The one class of each event (docs/reference/definitions.md, D38).
//!
//! First that fits: `retry`, a failed call that its owner makes again later; `error`, another failed call; `loop`, calls of
//! one owner whose keys repeat with a period of four at most, three times or more in a row, from the second time on, none
//! of which failed; `duplicate`, a call of a reading tool whose key was there before, without failure and without a call of another than
//! a reading tool since; `orphan`, what a spawned agent that never returned nor was dismissed did without a path to the
//! outcome; `dead`, other events without one; `useful`. Results take the class of their call. What is done by who is
//! not of the team is no loss of the team: `useful`. O(events + edges + c log c) for c calls.

use super::scene::Scene;
use crate::graph::{NOBODY, Outcome};
use crate::schema::{EventType, Reason};

/// The classes, in the order in which they are tried.
pub const CLASSES: &[&str] = &["retry", "error", "loop", "duplicate", "orphan", "dead", "useful"];

/// Codes of [`CLASSES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Class {
    /// A failed call that is made again.
    Retry,
    /// Another failed call.
    Error,
    /// A call that goes round.
    Loop,
    /// A reading call whose answer was there.
    Duplicate,
    /// Of an agent that never came back.
    Orphan,
    /// Without a path to the outcome.
    Dead,
    /// All else.
    Useful,
}

/// The longest period of a loop, and how often it is gone through.
const MOST_PERIOD: usize = 4;
const LEAST_ROUNDS: usize = 3;
/// From which draft score on an answer passes.
const PASSES: f64 = 1.0 - 1e-9;

/// Classes of one trace; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct Classes {
    /// Of each call of the list, where it has one by itself.
    of_calls: Vec<Option<Class>>,
    /// Of each event; none where it hangs on an outcome that is not known.
    pub of_events: Vec<Result<Class, Reason>>,
    lanes: Vec<u32>,
    /// By key: what is remembered of it.
    seen: Vec<u32>,
    spawned: Vec<bool>,
    left: Vec<bool>,
}

impl Classes {
    /// Replaces everything by what the scene says; `reading` are the codes of tools that only read, ascending.
    pub fn compute(&mut self, scene: &Scene<'_>, reading: &[u32]) {
        let n = scene.calls.list().len();
        self.of_calls.clear();
        self.of_calls.resize(n, None);
        if n > 0 {
            self.find_failed(scene);
            self.find_loops(scene);
            self.find_duplicates(scene, reading);
        }
        self.find_lost_agents(scene);
        self.of_events.clear();
        for v in 0..scene.view.len() as u32 {
            let call = scene.calls.place_of(v);
            let bearer = call.map_or(v, |at| scene.calls.list()[at].event);
            let class = match call.and_then(|at| self.of_calls[at]) {
                Some(class) => Ok(class),
                None => self.by_graph(scene, bearer),
            };
            self.of_events.push(class);
        }
    }

    fn by_graph(&self, scene: &Scene<'_>, v: u32) -> Result<Class, Reason> {
        if scene.owners.outsider(scene.view, v as usize).is_some() {
            return Ok(Class::Useful);
        }
        let owner = scene.owner(v) as usize;
        scene.live.map(|live| match live[v as usize] {
            true => Class::Useful,
            _ if self.spawned.get(owner) == Some(&true) && !self.left[owner] => Class::Orphan,
            _ => Class::Dead,
        })
    }

    /// Calls that failed: those that are made again, and others.
    fn find_failed(&mut self, scene: &Scene<'_>) {
        let calls = scene.calls.list();
        // by key the last owner is not enough: pairs of key and owner, going back in time
        self.lanes.clear();
        self.lanes.extend(0..calls.len() as u32);
        let of = |at: &u32| (calls[*at as usize].key, calls[*at as usize].owner, *at);
        self.lanes.sort_unstable_by_key(of);
        for (i, &at) in self.lanes.iter().enumerate() {
            let call = calls[at as usize];
            if !call.failed {
                continue;
            }
            let again = self.lanes.get(i + 1).map(|&next| calls[next as usize]);
            let is_retry = call.key != NOBODY
                && again.is_some_and(|next| (next.key, next.owner) == (call.key, call.owner));
            self.of_calls[at as usize] = Some(if is_retry { Class::Retry } else { Class::Error });
        }
    }

    /// Calls that go round, owner by owner.
    fn find_loops(&mut self, scene: &Scene<'_>) {
        let calls = scene.calls.list();
        self.lanes.sort_unstable_by_key(|&at| (calls[at as usize].owner, at));
        let owner = |at: &u32| calls[*at as usize].owner;
        // a failed call is tried again for a reason
        let key = |at: u32| if calls[at as usize].failed { NOBODY } else { calls[at as usize].key };
        for lane in self.lanes.chunk_by(|a, b| owner(a) == owner(b)) {
            for period in 1..=MOST_PERIOD {
                let alike = |i: usize| key(lane[i]) == key(lane[i - period]) && key(lane[i]) != NOBODY;
                let mut from = period;
                while from < lane.len() {
                    let mut to = from;
                    while to < lane.len() && alike(to) {
                        to += 1;
                    }
                    let rounds = (to - from) / period; // beyond the first
                    if rounds + 1 >= LEAST_ROUNDS {
                        for &at in &lane[from..from + rounds * period] {
                            self.of_calls[at as usize].get_or_insert(Class::Loop);
                        }
                    }
                    from = to + 1;
                }
            }
        }
    }

    /// Calls of reading tools whose answer was there.
    fn find_duplicates(&mut self, scene: &Scene<'_>, reading: &[u32]) {
        let calls = scene.calls.list();
        self.seen.clear();
        self.seen.resize(calls.len(), NOBODY); // keys are numbered below the number of calls
        let mut version = 0;
        for (at, call) in calls.iter().enumerate() {
            let tool = scene.view.tool.get(call.event as usize);
            if tool.is_none_or(|tool| reading.binary_search(&tool).is_err()) {
                version += 1;
                continue;
            }
            if call.failed || call.key == NOBODY {
                continue;
            }
            if std::mem::replace(&mut self.seen[call.key as usize], version) == version {
                self.of_calls[at].get_or_insert(Class::Duplicate);
            }
        }
    }

    /// Whether each name was spawned, and whether it returned or was dismissed.
    fn find_lost_agents(&mut self, scene: &Scene<'_>) {
        let (view, owners) = (scene.view, scene.owners);
        for flags in [&mut self.spawned, &mut self.left] {
            flags.clear();
            flags.resize(owners.names().len(), false);
        }
        let named = |v: usize| view.to.get(v).and_then(|to| owners.name_index(to));
        for v in 0..view.len() {
            let (flags, name) = match view.event_type(v) {
                EventType::Spawn => (&mut self.spawned, named(v)),
                EventType::Despawn => (&mut self.left, named(v)),
                EventType::Return => (&mut self.left, Some(owners.indices()[v])),
                _ => continue,
            };
            if let Some(flag) = name.and_then(|at| flags.get_mut(at as usize)) {
                *flag = true;
            }
        }
    }
}

/// Place in canonical order from which on the answer stood: of the first decision or aggregate of an agent whose draft
/// passes, where drafts are judged, else of the outcome; `None` where neither is known.
#[must_use]
pub fn answer_stood(scene: &Scene<'_>) -> Option<u32> {
    let view = scene.view;
    let is_draft = |v: u32| {
        let kind = view.event_type(v as usize);
        matches!(kind, EventType::OrchestratorDecision | EventType::Aggregate) && scene.owner(v) != NOBODY
    };
    let score = |v: u32| view.draft_score.get(v as usize).filter(|_| is_draft(v));
    let passes = |v: &u32| score(*v).is_some_and(|score| score >= PASSES);
    let first = if view.draft_score.is_absent() { None } else { scene.rows().iter().copied().find(passes) };
    match (first, scene.outcome) {
        (Some(v), _) | (None, Ok(Outcome::Event(v))) => Some(scene.place[v as usize]),
        _ => None,
    }
}
