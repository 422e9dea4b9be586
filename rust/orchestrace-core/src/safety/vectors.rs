//! The attack vectors of the survey that a closure of taint shows (D40).
//!
//! ```text
//! AV1 to AV4  by which way it came in (channel.rs): user, tool, another agent, memory; events that it leads to
//! AV5 to AV8  what it reached: privileged calls; decisions and spawns; events of those who judge; another sandbox
//! seeds       those from which tainted events lead there
//! ```
//!
//! A vector is shown by a way and not by a seed alone: what led nowhere shows none. Two passes over the edges that carry, and
//! one for each channel that seeds have, O(|V|+|E|). An upper bound like the closure. References: arXiv 2605.02801, section 6
//! (attack vectors AV1 to AV8, P12, P14).

use super::channel::{Channel, Channels};
use super::taint::{Scene, Taint, Tools};
use crate::graph::NOBODY;
use crate::graph::order::canonical_cmp;
use crate::schema::EventType;

/// The vectors, in the order of their codes.
pub const VECTORS: &[&str] = &["AV1", "AV2", "AV3", "AV4", "AV5", "AV6", "AV7", "AV8"];
/// What they are called, in the same order.
pub const VECTOR_NAMES: &[&str] = &[
    "user_injection",
    "tool_output_injection",
    "message_pollution",
    "memory_poisoning",
    "tool_parameter_escalation",
    "orchestrator_misdirection",
    "reward_hacking",
    "sandbox_escape",
];
/// How many there are.
pub const N_VECTORS: usize = VECTORS.len();
/// The channels of AV1 to AV4.
const ENTRIES: [Channel; 4] = [Channel::User, Channel::Tool, Channel::Agent, Channel::Memory];

const ESCALATION: usize = 4;
const MISDIRECTION: usize = 5;
const JUDGED: usize = 6;
const ESCAPE: usize = 7;
/// Marks an event that leads to another one; on the way back the bits of AV1 to AV4 are free.
const ON: u8 = 1;

/// What a closure shows of one vector.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Vector {
    /// Whether the recording has what decides it.
    pub known: bool,
    /// Seeds from which it is reached.
    pub seeds: u32,
    /// Events that show it.
    pub events: u32,
    /// The first of them in canonical order.
    pub first: Option<u32>,
    /// A shortest way from a seed that shows it.
    pub path: Vec<u32>,
    /// The channel at which that way begins.
    pub entry: Option<Channel>,
}

/// Finds the vectors of traces; buffers reused from trace to trace. A byte has a bit for each vector.
#[derive(Debug, Default)]
pub struct VectorSearch {
    /// Of every seed its vector by the channel.
    begins: Vec<u8>,
    /// Of every event what it shows.
    shows: Vec<u8>,
    /// Of every event what tainted events show to which it leads.
    leads: Vec<u8>,
    hops: Vec<u32>,
    from: Vec<u32>,
}

impl VectorSearch {
    /// Of the last closure of `taint`.
    pub fn find(
        &mut self,
        taint: &Taint,
        scene: &Scene<'_>,
        tools: &Tools,
        channels: &Channels,
    ) -> [Vector; N_VECTORS] {
        let (view, owners) = (scene.view, scene.owners);
        let events = 0..view.len();
        let mut vectors: [Vector; N_VECTORS] =
            std::array::from_fn(|_| Vector { known: true, ..Vector::default() });
        let is_privileged = |v| view.privileged.get(v).is_some();
        vectors[ESCALATION].known = tools.privileged.any || events.clone().any(is_privileged);
        vectors[JUDGED].known = events.clone().any(|v| channels.judges(view, owners, v));
        vectors[ESCAPE].known = taint.is_sandboxed();
        if taint.tally().seeds == 0 {
            return vectors;
        }
        let mut unknown = 0;
        self.begins.clear();
        self.begins.extend(events.map(|v| match taint.is_seed(v).then(|| channels.entry(scene, v)) {
            None => 0,
            Some(channel) => ENTRIES.iter().position(|entry| Some(*entry) == channel).map_or(0, |at| 1 << at),
        }));
        self.mark(taint, scene, tools, channels);
        for &event in owners.order().rows() {
            let v = event as usize;
            if !taint.is_tainted(v) {
                continue;
            }
            let (shows, leads) = (self.shows[v], self.leads[v]);
            let is_begun = taint.is_seed(v);
            let on = if leads & ON == 0 { 0 } else { self.begins[v] };
            unknown += u32::from(is_begun && leads & ON != 0 && channels.entry(scene, v).is_none());
            let seeds = if is_begun { on | leads & !ON } else { 0 };
            for (at, vector) in vectors.iter_mut().enumerate() {
                vector.seeds += u32::from(seeds >> at & 1);
                if shows >> at & 1 == 1 {
                    vector.events += 1;
                    vector.first.get_or_insert(event);
                }
            }
        }
        for (at, vector) in vectors.iter_mut().enumerate() {
            let Some(first) = vector.first else {
                vector.known &= at >= ENTRIES.len() || unknown == 0;
                continue;
            };
            match at {
                ESCAPE => {
                    let by = |u| escapes(scene, u, first as usize);
                    path_by(taint, scene, (first, by), &mut vector.path);
                }
                // a way to what is a seed itself begins at another one
                ESCALATION.. if taint.is_seed(first as usize) => {
                    path_by(taint, scene, (first, |_| true), &mut vector.path);
                }
                ESCALATION.. => taint.path(first, &mut vector.path),
                _ => self.path_of_channel(taint, scene, (at, first), &mut vector.path),
            }
            vector.entry = channels.entry(scene, vector.path[0] as usize);
        }
        vectors
    }

    /// Marks what events show, and what they lead to.
    fn mark(&mut self, taint: &Taint, scene: &Scene<'_>, tools: &Tools, channels: &Channels) {
        let view = scene.view;
        let Self { begins, shows, leads, .. } = self;
        shows.clear();
        shows.extend((0..view.len()).map(|v| {
            let acts = match view.event_type(v) {
                EventType::ToolCall if tools.is_privileged_call(view, v) => 1 << ESCALATION,
                EventType::OrchestratorDecision | EventType::Spawn => 1 << MISDIRECTION,
                _ => 0,
            };
            acts | u8::from(channels.judges(view, scene.owners, v)) << JUDGED
        }));
        leads.clear();
        leads.resize(view.len(), 0);
        let sandboxed = taint.is_sandboxed();
        let tainted = |&u: &u32| taint.is_tainted(u as usize);
        let by_channel = (1 << ENTRIES.len()) - 1;
        let acts = 1 << ESCALATION | 1 << MISDIRECTION | 1 << JUDGED;
        scene.forward(|v| {
            if taint.is_tainted(v) {
                let before = taint.carried().predecessors_of(v);
                if !before.iter().any(tainted) {
                    shows[v] = 0; // a seed to which nothing leads
                }
                for &u in before.iter().filter(|u| tainted(u)) {
                    shows[v] |= begins[u as usize] | shows[u as usize] & by_channel;
                    shows[v] |= u8::from(sandboxed && escapes(scene, u, v)) << ESCAPE;
                }
            }
        });
        scene.backward(|v| {
            if taint.is_tainted(v) {
                for &u in taint.carried().predecessors_of(v).iter().filter(|u| tainted(u)) {
                    let escaped = u8::from(sandboxed && escapes(scene, u, v)) << ESCAPE;
                    leads[u as usize] |= leads[v] | shows[v] & acts | ON | escaped;
                }
            }
        });
    }

    /// Appends a shortest way from a seed of a channel to the outcome, or where it stays clean of the channel to the first
    /// event that the channel reaches. At each event the nearer one before it, of several the first in canonical order.
    fn path_of_channel(
        &mut self,
        taint: &Taint,
        scene: &Scene<'_>,
        (at, first): (usize, u32),
        path: &mut Vec<u32>,
    ) {
        let Self { begins, shows, hops, from, .. } = self;
        let is_one = |marks: &[u8], v: usize| marks[v] >> at & 1 == 1;
        for column in [&mut *hops, &mut *from] {
            column.clear();
            column.resize(scene.view.len(), NOBODY);
        }
        scene.forward(|v| {
            if !taint.is_tainted(v) || !is_one(shows, v) {
                return;
            }
            for &u in taint.carried().predecessors_of(v) {
                let before = if is_one(begins, u as usize) && taint.is_tainted(u as usize) {
                    0
                } else {
                    hops[u as usize]
                };
                if before == NOBODY {
                    continue;
                }
                let closer = from[v] == NOBODY
                    || (before + 1)
                        .cmp(&hops[v])
                        .then_with(|| canonical_cmp(scene.view.t, u, from[v]))
                        .is_lt();
                if closer {
                    (hops[v], from[v]) = (before + 1, u);
                }
            }
        });
        let ends = scene.ends().filter(|&v| hops[v] != NOBODY);
        let end = ends.min_by_key(|&v| (hops[v], v)).map_or(first, |v| v as u32);
        let mut v = end;
        path.push(v);
        while from[v as usize] != NOBODY {
            v = from[v as usize];
            path.push(v);
            if is_one(begins, v as usize) {
                break;
            }
        }
        path.reverse();
    }
}

/// Appends a shortest way to an event by an edge of those that the predicate accepts, by where they begin.
fn path_by(taint: &Taint, scene: &Scene<'_>, (to, by): (u32, impl Fn(u32) -> bool), path: &mut Vec<u32>) {
    let before = taint.carried().predecessors_of(to as usize).iter().copied();
    let before = before.filter(|&u| taint.is_tainted(u as usize) && by(u));
    let hops = |u: u32| taint.hops(u as usize);
    let nearest =
        before.min_by(|&a, &b| hops(a).cmp(&hops(b)).then_with(|| canonical_cmp(scene.view.t, a, b)));
    if let Some(u) = nearest {
        taint.path(u, path);
        path.push(to);
    }
}

/// Whether an edge leads from one sandbox into another.
fn escapes(scene: &Scene<'_>, u: u32, v: usize) -> bool {
    let sandbox = |v: usize| scene.view.sandbox_id.get(v);
    sandbox(u as usize).zip(sandbox(v)).is_some_and(|(theirs, ours)| theirs != ours)
}

#[cfg(test)]
mod tests {
    use super::super::taint::tests::{closed, rules};
    use super::*;
    use crate::graph::test_trace::{TestTrace, random_trace};
    use crate::schema::EdgeType;
    use proptest::prelude::*;

    fn searched(taint: &Taint, scene: &Scene<'_>) -> [Vector; N_VECTORS] {
        let mut search = VectorSearch::default();
        // what another trace leaves in the buffers must not show through
        search.leads.resize(40, u8::MAX);
        search.shows.resize(40, u8::MAX);
        search.find(taint, scene, &Tools::default(), &Channels::default())
    }

    #[test]
    fn artifact_example() {
        let mut t = TestTrace::artifact();
        t.flag_trusted(5, false);
        closed(&t, &rules(), |taint, scene| {
            let [user, tool, ..] = searched(taint, scene);
            assert_eq!(user, Vector { known: true, ..Vector::default() });
            let expected = Vector {
                known: true,
                seeds: 1,
                events: 2,
                first: Some(6),
                path: vec![5, 6, 7],
                entry: Some(Channel::Tool),
            };
            assert_eq!(tool, expected);
        });
    }

    #[test]
    fn a_way_of_a_channel_begins_at_the_nearest_seed_of_it() {
        use EventType::*;
        // user 0 -> 2 -> 3, tool 1 -> 3; the nearest seed of all is not the user
        let mut t = TestTrace::default();
        t.event(Message, "user").trusted(false).event(ToolResult, "browser").trusted(false);
        t.event(Message, "a").event(Aggregate, "a");
        t.edge(0, 2, EdgeType::Causal).edge(2, 3, EdgeType::Causal).edge(1, 3, EdgeType::Causal);
        closed(&t, &rules(), |taint, scene| {
            let [user, tool, ..] = searched(taint, scene);
            assert_eq!((user.path, user.events), (vec![0, 2, 3], 2));
            assert_eq!((tool.path, tool.events), (vec![1, 3], 1));
        });
    }

    #[test]
    fn a_way_out_of_a_sandbox_ends_with_the_edge_that_leaves_it() {
        use EventType::*;
        // the shortest way to 3 does not leave a sandbox
        let mut t = TestTrace::default();
        t.event(ToolResult, "browser").trusted(false).event(Message, "a").sandbox("one");
        t.event(Message, "a").event(Message, "b").sandbox("two");
        t.edge(0, 1, EdgeType::Causal).edge(0, 3, EdgeType::Causal).edge(1, 3, EdgeType::Message);
        closed(&t, &rules(), |taint, scene| {
            let [.., escape] = searched(taint, scene);
            assert_eq!((escape.path, escape.seeds, escape.events), (vec![0, 1, 3], 1, 1));
        });
    }

    #[test]
    fn a_seed_alone_shows_nothing() {
        use EventType::*;
        // 0 and 2 are seeds; only 2 is led to
        let mut t = TestTrace::default();
        t.event(OrchestratorDecision, "a").trusted(false).event(ToolResult, "browser").trusted(false);
        t.event(OrchestratorDecision, "a").trusted(false);
        t.edge(1, 2, EdgeType::Causal);
        closed(&t, &rules(), |taint, scene| {
            let misdirected = &searched(taint, scene)[MISDIRECTION];
            let shown = (misdirected.events, misdirected.seeds, misdirected.first, misdirected.path.clone());
            assert_eq!(shown, (1, 1, Some(2), vec![1, 2]));
        });
    }

    proptest! {
        #[test]
        fn every_way_is_one(mut t in random_trace(14, true), seeds in any::<u16>()) {
            t.flag_trusted(0, true);
            for v in 0..t.t.len() {
                if seeds >> v & 1 == 1 { t.flag_trusted(v, false); }
            }
            closed(&t, &rules(), |taint, scene| {
                for vector in searched(taint, scene) {
                    prop_assert_eq!(vector.events > 0, vector.first.is_some());
                    prop_assert_eq!(vector.events > 0, vector.seeds > 0);
                    prop_assert_eq!(vector.events > 0, vector.path.len() > 1);
                    for way in vector.path.windows(2) {
                        prop_assert!(taint.carried().predecessors_of(way[1] as usize).contains(&way[0]));
                    }
                    prop_assert!(vector.path.first().is_none_or(|&v| taint.is_seed(v as usize)));
                }
                Ok(())
            })?;
        }
    }
}
