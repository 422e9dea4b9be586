//! The turns of a trace in which its agents act, with what the record says of each.
//!
//! A turn (D6) that holds nothing but results of tools is no act: nobody is blamed for it. Turns stand in canonical order
//! of their first events, and places are counted among those that are acts. O(|V| log |V| + |E|), O(|V| + |E|) where times never fall.

use foldhash::fast::RandomState;
use hashbrown::HashSet;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::graph::slots::Slots;
use crate::graph::{NOBODY, TraceGraph, TurnLabel};
use crate::schema::EventType;
use crate::store::view::TraceView;

/// What there is to say of a turn: first its place, then what was done in it. Counts are log(1 + n), flags 0 or 1.
pub const FEATURES: [&str; 24] = [
    "place",
    "left",
    "first",
    "last",
    "middle",
    "log_index",
    "early",
    "events",
    "tokens",
    "calls",
    "spawns",
    "returns",
    "decisions",
    "messages",
    "failed",
    "repeated",
    "new_tool",
    "share",
    "new_speaker",
    "same_speaker",
    "speakers",
    "sent",
    "received",
    "after_failure",
];

/// A turn in which its owner acts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Act {
    /// Its place among the turns of the trace.
    pub turn: u32,
    /// Its first event in canonical order.
    pub first: u32,
    /// Code of its owner.
    pub agent: u32,
    /// Its name.
    pub label: TurnLabel,
    /// Values of [`FEATURES`].
    pub features: [f64; FEATURES.len()],
}

/// What the events of a turn add up to.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    events: u32,
    tokens: i64,
    sent: u32,
    received: u32,
    /// A bit for each type of event.
    kinds: u16,
    failed: bool,
    repeated: bool,
    new_tool: bool,
}

impl Sums {
    fn has(&self, kind: EventType) -> bool {
        self.kinds & (1 << kind as u8) != 0
    }

    fn is_act(&self) -> bool {
        self.kinds & !(1 << EventType::ToolResult as u8) != 0
    }
}

/// Finds the acts of one trace after another, in buffers that it reuses.
#[derive(Debug, Default)]
pub struct Actor {
    sums: Vec<Sums>,
    sent: Vec<u32>,
    received: Vec<u32>,
    /// What was said so far: type, tool and text. Keyed, since all come from a recording, and never walked over.
    contents: HashSet<u128, RandomState>,
    /// Tools that were named so far.
    tools: Slots,
    /// Of each name of the trace, its acts, and whether it has had one.
    n_acts: Vec<u32>,
    spoke: Vec<bool>,
}

impl Actor {
    /// Hands the acts of a trace to `each`, in canonical order of their first events.
    pub fn each(&mut self, view: &TraceView<'_>, graph: &mut TraceGraph, mut each: impl FnMut(Act)) {
        self.count_edges(view);
        self.sum(view, graph);
        let (owners, turns) = graph.turns(view);
        self.n_acts.clear();
        self.n_acts.resize(owners.names().len(), 0);
        self.spoke.clear();
        self.spoke.resize(owners.names().len(), false);
        let acts = || (0..).zip(turns.list()).zip(&self.sums).filter(|(_, sums)| sums.is_act());
        let mut n = 0;
        for ((_, turn), _) in acts() {
            self.n_acts[turn.owner as usize] += 1;
            n += 1;
        }
        let (mut speakers, mut before): (u32, Option<(u32, bool)>) = (0, None);
        for (index, ((at, turn), sums)) in (0_u32..).zip(acts()) {
            let owner = turn.owner as usize;
            let is_new = !std::mem::replace(&mut self.spoke[owner], true);
            speakers += u32::from(is_new);
            let (others, before_it) = (f64::from(n - 1), f64::from(index));
            let place = before_it / others.max(1.0);
            let features = [
                place,
                (others - before_it).ln_1p(),
                flag(index == 0),
                flag(index + 1 == n),
                (place - 0.5).abs(),
                before_it.ln_1p(),
                1.0 / (before_it + 1.0),
                f64::from(sums.events).ln_1p(),
                (sums.tokens.max(0) as f64).ln_1p(),
                flag(sums.has(EventType::ToolCall)),
                flag(sums.has(EventType::Spawn)),
                flag(sums.has(EventType::Return)),
                flag(sums.has(EventType::OrchestratorDecision)),
                flag(sums.has(EventType::Message)),
                flag(sums.failed),
                flag(sums.repeated),
                flag(sums.new_tool),
                f64::from(self.n_acts[owner]) / f64::from(n),
                flag(is_new),
                flag(before.is_some_and(|(owner, _)| owner == turn.owner)),
                f64::from(speakers).ln_1p(),
                f64::from(sums.sent).ln_1p(),
                f64::from(sums.received).ln_1p(),
                flag(before.is_some_and(|(_, failed)| failed)),
            ];
            before = Some((turn.owner, sums.failed));
            let agent = owners.names()[owner].code;
            each(Act { turn: at, first: turn.first, agent, label: turn.label, features });
        }
    }

    fn count_edges(&mut self, view: &TraceView<'_>) {
        for (counts, ends) in [(&mut self.sent, view.src), (&mut self.received, view.dst)] {
            counts.clear();
            counts.resize(view.len(), 0);
            for &end in ends {
                counts[end as usize] += 1;
            }
        }
    }

    fn sum(&mut self, view: &TraceView<'_>, graph: &mut TraceGraph) {
        let (owners, turns) = graph.turns(view);
        self.sums.clear();
        self.sums.resize(turns.list().len(), Sums::default());
        // Clearing costs the capacity, which one huge trace would otherwise impose on all that follow.
        if self.contents.capacity() > 1024 + 16 * view.len() {
            self.contents = HashSet::default();
        }
        self.contents.clear();
        self.tools.begin();
        for &v in owners.order().rows() {
            let (turn, event) = (turns.of_events()[v as usize], v as usize);
            if turn == NOBODY {
                continue;
            }
            let tool = view.tool.get(event);
            let is_repeated = content(view, event).is_some_and(|content| !self.contents.insert(content));
            let is_new = tool.is_some_and(|tool| self.tools.get(tool).is_none());
            if let Some(tool) = tool {
                self.tools.set(tool, v);
            }
            let sums = &mut self.sums[turn as usize];
            sums.events += 1;
            sums.tokens = sums.tokens.saturating_add(view.tokens.get(event).unwrap_or(0));
            sums.sent += self.sent[event];
            sums.received += self.received[event];
            sums.kinds |= 1 << view.types[event];
            sums.failed |= view.ok.get(event) == Some(false);
            sums.repeated |= is_repeated;
            sums.new_tool |= is_new;
        }
    }
}

fn flag(holds: bool) -> f64 {
    f64::from(u8::from(holds))
}

/// Type, tool and text of an event, or its arguments if it is a call, as 128 bits; `None` where these have no key.
fn content(view: &TraceView<'_>, event: usize) -> Option<u128> {
    let text = view.content_key(event)?;
    let seed = u64::from(view.types[event]) << 32 | u64::from(view.tool.get(event).unwrap_or(NOBODY));
    Some(xxh3_128_with_seed(text.as_bytes(), seed))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::test_trace::TestTrace;
    use EventType::{Message, ToolCall, ToolResult};

    fn acts(t: &TestTrace) -> Vec<Act> {
        let (mut acts, mut graph) = (Vec::new(), TraceGraph::default());
        Actor::default().each(&t.view(), &mut graph, |act| acts.push(act));
        acts
    }

    fn of(acts: &[Act], feature: &str) -> Vec<f64> {
        let at = FEATURES.iter().position(|&name| name == feature).unwrap();
        acts.iter().map(|act| act.features[at]).collect()
    }

    #[test]
    fn a_turn_of_results_alone_is_no_act_and_has_no_place() {
        let mut t = TestTrace::default();
        t.event(ToolCall, "a").tool("web").turn(1).event(ToolResult, "a").tool("web").turn(2);
        t.event(Message, "a").turn(3);
        let acts = acts(&t);
        assert_eq!(acts.iter().map(|act| (act.turn, act.first)).collect::<Vec<_>>(), [(0, 0), (2, 2)]);
        assert_eq!(of(&acts, "place"), [0.0, 1.0]);
        assert_eq!(of(&acts, "new_tool"), [1.0, 0.0]);
        assert_eq!(of(&acts, "share"), [1.0, 1.0]);
    }

    #[test]
    fn places_and_speakers_of_the_artifact() {
        let acts = acts(&TestTrace::artifact());
        assert_eq!(of(&acts, "place"), [0.0, 0.25, 0.5, 0.75, 1.0]);
        assert_eq!(of(&acts, "new_speaker"), [1.0, 1.0, 1.0, 0.0, 0.0]);
        assert_eq!(of(&acts, "same_speaker"), [0.0, 0.0, 0.0, 1.0, 0.0]);
        assert_eq!(of(&acts, "share"), [0.4, 0.2, 0.4, 0.4, 0.4]);
    }

    #[test]
    fn one_turn_is_first_and_last() {
        let mut t = TestTrace::default();
        t.event(Message, "a");
        let acts = acts(&t);
        assert_eq!(
            (of(&acts, "first"), of(&acts, "last"), of(&acts, "place")),
            (vec![1.0], vec![1.0], vec![0.0])
        );
    }
}
