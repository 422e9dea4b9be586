//! Six structural classes of failure of a trace (docs/reference/definitions.md, D39).
//!
//! They need no judge and no text. A class that hangs on what is missing is not known of a partial recording, and one
//! that hangs on the outcome not where that is not known. O(V + E + (d + a) log a) for d delegations and a answers.

use std::collections::HashMap;

use super::scene::{Scene, without_none};
use crate::graph::{NOBODY, Outcome};
use crate::schema::EventType::{self, Message, Return, Spawn, ToolCall, ToolResult};
use crate::schema::Reason;

/// The classes, in the order of their rows.
pub const FAILURES: &[&str] = &[
    "unanswered_delegation",
    "unused_result",
    "retry_storm",
    "unverified_change",
    "answer_before_evidence",
    "deadlock_wait",
];

/// Calls or failures in a row that are a storm.
const STORM: u32 = 4;

/// Where a class shows: how often, and the first event of it in canonical order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Shows {
    /// How often.
    pub n: u32,
    /// The first event; none where `n` is 0.
    pub event: Option<u32>,
}

/// What a class says of a trace, or why it says nothing.
pub type Answer = Result<Shows, Reason>;

/// What tools do, as codes of the store, ascending.
#[derive(Debug, Clone, Default)]
pub struct Tools {
    /// They only read: their calls change nothing.
    pub reading: Vec<u32>,
    /// They verify what was changed; none where nobody named any.
    pub verifying: Option<Vec<u32>>,
}

/// Failures of one trace; a buffer reused from trace to trace.
#[derive(Debug, Default)]
pub struct Failures {
    /// Answers as (who, to whom or [`NOBODY`] for all, place).
    answers: Vec<(u32, u32, u32)>,
    /// By name: its last event in canonical order.
    last: Vec<u32>,
    /// By owner: the key of its last call and how often that was made in a row, with the first event.
    runs: Vec<(u32, u32, u32)>,
    /// By owner and tool: failures in a row, with the first event.
    failing: HashMap<(u32, u32), (u32, u32)>,
    waits: Vec<u32>,
    walk: Vec<u32>,
    /// By name: whether the owner of the outcome spawned it and it has not returned since.
    pending: Vec<bool>,
}

impl Shows {
    fn at(&mut self, scene: &Scene<'_>, event: u32) {
        self.n += 1;
        let place = |v: u32| scene.place[v as usize];
        if self.event.is_none_or(|first| place(event) < place(first)) {
            self.event = Some(event);
        }
    }
}

fn is(scene: &Scene<'_>, v: u32, kind: EventType) -> bool {
    scene.view.types[v as usize] == kind as u8
}

impl Failures {
    /// What each class says, in the order of [`FAILURES`].
    pub fn compute(&mut self, scene: &Scene<'_>, tools: &Tools) -> [Answer; 6] {
        if scene.view.partial {
            return [Err(Reason::TracePartial); 6];
        }
        let names = scene.owners.names().len();
        self.last.clear();
        self.last.resize(names, NOBODY);
        for &v in scene.rows() {
            if let Some(last) = self.last.get_mut(scene.owner(v) as usize) {
                *last = v;
            }
        }
        [
            self.unanswered(scene),
            unused(scene),
            self.storms(scene),
            unverified(scene, tools),
            self.early(scene),
            self.deadlocks(scene),
        ]
    }

    /// Place in canonical order of an agent's last event.
    fn last_place(&self, scene: &Scene<'_>, name: u32) -> Option<u32> {
        let &last = self.last.get(name as usize)?;
        without_none(last).map(|v| scene.place[v as usize])
    }

    /// Delegations (D18) after which the delegate says nothing to the delegator that this one, or the outcome, could
    /// still use.
    fn unanswered(&mut self, scene: &Scene<'_>) -> Answer {
        let (view, owners) = (scene.view, scene.owners);
        let end = match scene.outcome? {
            Outcome::Event(y) => scene.place[y as usize],
            Outcome::VirtualSink => 0,
        };
        let root = owners.root().and_then(|code| owners.name_index(code)).unwrap_or(NOBODY);
        let delegated = |v: u32| {
            let by = scene.owner(v);
            let to = view.to.get(v as usize)?;
            let is_delegation = is(scene, v, Spawn) || (is(scene, v, Message) && by == root);
            let is_other = by != NOBODY && owners.name_index(to) != Some(by) && !owners.is_outside(view, to);
            (is_delegation && is_other).then_some((by, to))
        };
        if !scene.rows().iter().any(|&v| delegated(v).is_some()) {
            return Err(Reason::RatioEmpty);
        }
        self.find_answers(scene);
        let mut shows = Shows::default();
        for &v in scene.rows() {
            let Some((by, to)) = delegated(v) else { continue };
            let bound = self.last_place(scene, by).unwrap_or(0).max(end);
            let last_before = |whom: u32| {
                let delegate = owners.name_index(to)?;
                let beyond = self.answers.partition_point(|answer| *answer < (delegate, whom, bound));
                let (who, heard, place) = *self.answers.get(beyond.checked_sub(1)?)?;
                ((who, heard) == (delegate, whom)).then_some(place)
            };
            let place = scene.place[v as usize];
            if last_before(by).max(last_before(NOBODY)).is_none_or(|answer| answer <= place) {
                shows.at(scene, v);
            }
        }
        Ok(shows)
    }

    /// Returns and messages of agents: to whom they are addressed, whose events they lead to, or to everybody.
    fn find_answers(&mut self, scene: &Scene<'_>) {
        let (view, owners) = (scene.view, scene.owners);
        self.answers.clear();
        let says = |v: u32| is(scene, v, Return) || is(scene, v, Message);
        for v in (0..view.len() as u32).filter(|&v| says(v) && scene.owner(v) != NOBODY) {
            let heard = match view.to.get(v as usize) {
                None => NOBODY,
                Some(to) => match owners.name_index(to) {
                    Some(at) => at,
                    None => continue,
                },
            };
            self.answers.push((scene.owner(v), heard, scene.place[v as usize]));
        }
        for (&s, &d) in view.src.iter().zip(view.dst) {
            let (from, to) = (scene.owner(s), scene.owner(d));
            if from != NOBODY && to != NOBODY && from != to && says(s) {
                self.answers.push((from, to, scene.place[s as usize]));
            }
        }
        self.answers.sort_unstable();
    }

    /// Calls with one key, and failures of one tool, four or more in a row.
    fn storms(&mut self, scene: &Scene<'_>) -> Answer {
        let calls = scene.calls.list();
        if calls.is_empty() {
            return Err(Reason::RatioEmpty);
        }
        let mut is_known = false;
        let mut shows = Shows::default();
        self.runs.clear();
        self.runs.resize(scene.owners.names().len(), (NOBODY, 0, NOBODY));
        for call in calls {
            let run = &mut self.runs[call.owner as usize];
            if call.key == NOBODY || run.0 != call.key {
                *run = (call.key, 0, call.event);
            }
            run.1 += 1;
            is_known |= call.key != NOBODY;
            if call.key != NOBODY && run.1 == STORM {
                shows.at(scene, run.2);
            }
        }
        self.failing.clear();
        for &v in scene.rows() {
            if scene.owner(v) == NOBODY || !is(scene, v, ToolResult) {
                continue;
            }
            let ok = scene.view.ok.get(v as usize);
            is_known |= ok.is_some();
            let called = scene.calls.place_of(v).map_or(v, |at| scene.calls.list()[at].event) as usize;
            let tool = scene.view.tool.get(v as usize).or_else(|| scene.view.tool.get(called));
            let run = self.failing.entry((scene.owner(v), tool.unwrap_or(NOBODY))).or_default();
            if ok != Some(false) {
                run.0 = 0;
                continue;
            }
            if run.0 == 0 {
                run.1 = v;
            }
            run.0 += 1;
            if run.0 == STORM {
                shows.at(scene, run.1);
            }
        }
        if is_known { Ok(shows) } else { Err(Reason::FieldAbsent) }
    }

    /// What an answer did not wait for: results of its owner's calls and returns of agents that it spawned which come
    /// after it.
    fn early(&mut self, scene: &Scene<'_>) -> Answer {
        let view = scene.view;
        let y = match scene.outcome? {
            Outcome::Event(y) => y,
            Outcome::VirtualSink => return Err(Reason::OutcomeAbsent),
        };
        let (owner, end) = (scene.owner(y), scene.place[y as usize]);
        let place = |v: u32| scene.place[v as usize];
        let mut shows = Shows::default();
        for call in scene.calls.list().iter().filter(|call| call.owner == owner && place(call.event) < end) {
            if call.result != NOBODY && place(call.result) > end {
                shows.at(scene, call.result);
            }
        }
        // of each agent that the owner spawned before, the first return since that spawn
        self.pending.clear();
        self.pending.resize(scene.owners.names().len(), false);
        for &v in scene.rows() {
            let is_before = place(v) < end;
            if is(scene, v, Spawn) && scene.owner(v) == owner && is_before {
                let named = view.to.get(v as usize).and_then(|to| scene.owners.name_index(to));
                if let Some(to) = named.filter(|&to| to != owner) {
                    self.pending[to as usize] = true;
                }
            } else if is(scene, v, Return)
                && let Some(pending) = self.pending.get_mut(scene.owner(v) as usize)
                && std::mem::replace(pending, false)
                && !is_before
            {
                shows.at(scene, v);
            }
        }
        Ok(shows)
    }

    /// Agents that wait: their last event is a message or spawn to another who does nothing after it. On a cycle, or in a
    /// run that nobody answered.
    fn deadlocks(&mut self, scene: &Scene<'_>) -> Answer {
        let (view, owners) = (scene.view, scene.owners);
        let outcome = scene.outcome?;
        self.waits.clear();
        let (mut agents, mut others) = (0_u32, false);
        let mut shows = Shows::default();
        for (name, &last) in self.last.iter().enumerate() {
            self.waits.push(NOBODY);
            if last == NOBODY {
                continue;
            }
            agents += 1;
            let speaks = is(scene, last, Message) || is(scene, last, Spawn);
            let to = view.to.get(last as usize).filter(|&to| speaks && !owners.is_outside(view, to));
            let Some(to) = to else { continue };
            let whom = owners.name_index(to);
            if whom == Some(name as u32) {
                continue;
            }
            others = true;
            let until = whom.and_then(|at| without_none(self.last[at as usize]));
            if until.is_some_and(|until| view.t[until as usize] > view.t[last as usize]) {
                continue;
            }
            self.waits[name] = whom.unwrap_or(NOBODY);
            // what comes later in canonical order at the same time may be an answer, unless its author waits, too
            let answers = until.is_some_and(|v| scene.place[v as usize] > scene.place[last as usize]);
            if outcome == Outcome::VirtualSink && !answers {
                shows.at(scene, last);
            }
        }
        if agents < 2 && !others {
            return Err(Reason::RatioEmpty);
        }
        if shows.n == 0 {
            self.find_cycles(scene, &mut shows);
        }
        Ok(shows)
    }

    /// Agents on a cycle of those who wait; everybody waits for one at most.
    fn find_cycles(&mut self, scene: &Scene<'_>, shows: &mut Shows) {
        let n = self.waits.len();
        self.walk.clear();
        self.walk.resize(n, NOBODY);
        for start in 0..n {
            let mut at = start;
            while self.walk[at] == NOBODY && self.waits[at] != NOBODY {
                self.walk[at] = start as u32;
                at = self.waits[at] as usize;
            }
            if self.walk[at] != start as u32 || self.waits[at] == NOBODY {
                continue;
            }
            let first = at;
            loop {
                shows.at(scene, self.last[at]);
                at = self.waits[at] as usize;
                if at == first {
                    break;
                }
            }
        }
    }
}

/// Returns and results that did not fail, and lead nowhere.
fn unused(scene: &Scene<'_>) -> Answer {
    let live = scene.live?;
    let mut shows = Shows::default();
    for v in 0..scene.view.len() as u32 {
        let gives = is(scene, v, Return) || is(scene, v, ToolResult);
        let failed = scene.view.ok.get(v as usize) == Some(false);
        if gives && scene.owner(v) != NOBODY && !failed && !live[v as usize] {
            shows.at(scene, v);
        }
    }
    Ok(shows)
}

/// Calls that may change something, before the outcome and after the last call before it that verifies.
fn unverified(scene: &Scene<'_>, tools: &Tools) -> Answer {
    let Some(verifying) = &tools.verifying else { return Err(Reason::FieldAbsent) };
    let end = match scene.outcome? {
        Outcome::Event(y) => scene.place[y as usize],
        Outcome::VirtualSink => u32::MAX,
    };
    let before = || scene.calls.list().iter().filter(|call| scene.place[call.event as usize] < end);
    let is_of = |event: u32, listed: &[u32]| {
        scene.view.tool.get(event as usize).is_some_and(|tool| listed.binary_search(&tool).is_ok())
    };
    let mut shows = Shows::default();
    for call in before() {
        if is_of(call.event, verifying) {
            shows = Shows::default();
        } else if is(scene, call.event, ToolCall) && !is_of(call.event, &tools.reading) {
            shows.at(scene, call.event);
        }
    }
    Ok(shows)
}
