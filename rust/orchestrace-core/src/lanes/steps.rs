//! The steps of a trace: the lane of each, its place there, its key, and the key of all up to it.
//!
//! Keys are 64-bit hashes of words, not of codes, so they are the same in every store. The key `shape` is of the type, the
//! owner's label and the tool; `exact` also of what the step says (the arguments of a call, else the text) and of
//! what its owner got since the step before: results of its calls, what others said to it or to all. Where one of these
//! has no hash, the exact key is not known. O(|V| log |V|), O(|V|) where times never fall.

use hashbrown::HashMap;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::columns::intern::Interner;
use crate::error::{Error, Result, unknown_name};
use crate::graph::NOBODY;
use crate::graph::TraceGraph;
use crate::schema::{Dict, EventType};
use crate::store::Store;
use crate::store::view::TraceView;

/// The types of events that are steps.
pub const STEPS: [EventType; 6] = [
    EventType::OrchestratorDecision,
    EventType::Spawn,
    EventType::Message,
    EventType::Return,
    EventType::ToolCall,
    EventType::Aggregate,
];

/// What two steps have in common whose keys are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Type, label and tool.
    Shape,
    /// These, what the step says, and what its owner got before it.
    Exact,
}

impl Key {
    /// The key of a word.
    pub fn parse(word: &str) -> Result<Self> {
        match word {
            "shape" => Ok(Self::Shape),
            "exact" => Ok(Self::Exact),
            _ => Err(Error::Parameter(unknown_name("key", word, &["shape", "exact"]))),
        }
    }
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// The event.
    pub seq: u32,
    /// Position of its owner among the names of the trace.
    pub owner: u32,
    /// Place of its lane among those of the label.
    pub ordinal: u32,
    /// Place in its lane.
    pub place: u32,
    /// Its key, where it is known.
    pub key: Option<u64>,
    /// The key of all steps of the lane up to it; of one that no other run has where a key is not known.
    pub prefix: u64,
}

/// Hashes of the names of a store.
#[derive(Debug)]
pub struct Words {
    agents: Vec<u64>,
    roles: Vec<u64>,
    tools: Vec<u64>,
}

impl Words {
    /// Those of a store. O(names).
    #[must_use]
    pub fn of(store: &Store) -> Self {
        let hashes = |dict: Dict, seed: u64| {
            let names: &Interner = store.names().dict(dict);
            (0..names.len() as u32).map(|code| xxh3_64_with_seed(names.name(code).as_bytes(), seed)).collect()
        };
        // a role and an agent of one name are one label, as in a frame
        Self { agents: hashes(Dict::Agent, 1), roles: hashes(Dict::Role, 1), tools: hashes(Dict::Tool, 2) }
    }
}

/// What an agent of the trace has done and got so far.
#[derive(Debug, Clone, Copy, Default)]
struct Lane {
    label: u64,
    ordinal: Option<u32>,
    place: u32,
    prefix: u64,
    /// Of what it got since its last step.
    got: u64,
    /// Whether something of it has no hash.
    got_unknown: bool,
    /// What was said to all up to its last step.
    heard: Broadcast,
}

/// What was said to all, as sums, so that what came since a step is a difference.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Broadcast {
    known: u64,
    unknown: u32,
}

/// Finds the steps of one trace after another, in buffers that it reuses.
#[derive(Debug)]
pub struct Finder<'a> {
    words: &'a Words,
    key: Key,
    lanes: Vec<Lane>,
    labels: HashMap<u64, u32>,
}

impl<'a> Finder<'a> {
    /// A finder for the traces of the store that has these words.
    #[must_use]
    pub fn new(words: &'a Words, key: Key) -> Self {
        Self { words, key, lanes: Vec::new(), labels: HashMap::new() }
    }

    /// Hands the steps of a trace to `each`, in canonical order.
    pub fn each(&mut self, view: &TraceView<'_>, graph: &mut TraceGraph, mut each: impl FnMut(Step)) {
        let owners = graph.owners(view);
        let names = owners.names();
        self.labels.clear();
        self.lanes.clear();
        self.lanes.extend(names.iter().map(|name| {
            let label = match name.role() {
                Some(role) => self.words.roles[role as usize],
                None => self.words.agents[name.code as usize],
            };
            Lane { label, ..Lane::default() }
        }));
        let mut broadcast = Broadcast::default();
        for &v in owners.order().rows() {
            let (at, event) = (owners.indices()[v as usize], v as usize);
            let kind = view.event_type(event);
            if at != NOBODY && STEPS.contains(&kind) {
                let step = self.step(view, v, at, broadcast);
                each(step);
            }
            if self.key == Key::Exact {
                let addressee = view.to.get(event).and_then(|to| owners.name_index(to));
                self.hear(view, v, (at, addressee), &mut broadcast);
            }
        }
    }

    fn step(&mut self, view: &TraceView<'_>, v: u32, at: u32, broadcast: Broadcast) -> Step {
        let event = v as usize;
        let lane = &mut self.lanes[at as usize];
        let ordinal = *lane.ordinal.get_or_insert_with(|| {
            let count = self.labels.entry(lane.label).or_insert(0);
            *count += 1;
            *count - 1
        });
        let tool = view.tool.get(event).map_or(0, |code| self.words.tools[code as usize]);
        let shape = mixed(&[u64::from(view.types[event]), lane.label, tool]);
        let key = match self.key {
            Key::Shape => Some(shape),
            Key::Exact => {
                let heard = broadcast.known.wrapping_sub(lane.heard.known);
                let is_known = !lane.got_unknown && broadcast.unknown == lane.heard.unknown;
                content(view, event).filter(|_| is_known).map(|says| mixed(&[shape, says, lane.got, heard]))
            }
        };
        // an unknown key is of this event alone
        let unknown = || mixed(&[xxh3_64(view.trace_id.as_bytes()), u64::from(v), u64::MAX]);
        lane.prefix = mixed(&[lane.prefix, key.unwrap_or_else(unknown)]);
        lane.place += 1;
        (lane.got, lane.got_unknown, lane.heard) = (0, false, broadcast);
        Step { seq: v, owner: at, ordinal, place: lane.place - 1, key, prefix: lane.prefix }
    }

    /// Hands what an event says on to those who get it.
    fn hear(&mut self, view: &TraceView<'_>, v: u32, of: (u32, Option<u32>), broadcast: &mut Broadcast) {
        let (event, (owner, addressee)) = (v as usize, of);
        let kind = view.event_type(event);
        let says = text(view, event);
        match kind {
            EventType::ToolResult if owner != NOBODY => self.get(owner, says),
            EventType::Message | EventType::Return | EventType::HumanIntervention => match addressee {
                Some(to) if to != owner => self.get(to, says),
                Some(_) => {}
                None => match says {
                    Some(hash) => {
                        broadcast.known = broadcast.known.wrapping_add(mixed(&[hash, u64::from(kind as u8)]));
                    }
                    None => broadcast.unknown += 1,
                },
            },
            _ => {}
        }
    }

    fn get(&mut self, to: u32, says: Option<u64>) {
        let Some(lane) = self.lanes.get_mut(to as usize) else { return };
        match says {
            Some(hash) => lane.got = mixed(&[lane.got, hash]),
            None => lane.got_unknown = true,
        }
    }
}

/// Hash of the text of an event, or of where it is.
fn text(view: &TraceView<'_>, event: usize) -> Option<u64> {
    Some(xxh3_64_with_seed(view.text_key(event)?.as_bytes(), 3))
}

/// Hash of what a step says; of a step that says nothing by its type, a constant.
fn content(view: &TraceView<'_>, event: usize) -> Option<u64> {
    match view.event_type(event) {
        EventType::ToolCall => Some(xxh3_64_with_seed(view.arguments_key(event)?.as_bytes(), 4)),
        EventType::Message | EventType::Return => text(view, event),
        _ => Some(text(view, event).unwrap_or(5)),
    }
}

/// One hash of several, which sees their order.
fn mixed<const N: usize>(parts: &[u64; N]) -> u64 {
    let mut bytes = [0_u8; 32];
    for (place, part) in bytes.chunks_exact_mut(8).zip(parts) {
        place.copy_from_slice(&part.to_le_bytes());
    }
    xxh3_64(&bytes[..8 * N])
}
