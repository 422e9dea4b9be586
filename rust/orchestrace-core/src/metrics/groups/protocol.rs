//! Costs of coordination: overhead, density, repetition, links (D16, D18).
//!
//! O(|V|+|E|) expected. Sources: arXiv 2605.02801, Table 13; arXiv 2512.08296 (message density, coordination complexity).

use std::collections::HashMap;

use foldhash::fast::RandomState;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::error::Reason;
use crate::graph::NOBODY;
use crate::metrics::group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
use crate::metrics::options::Options;
use crate::metrics::subject::Subject;
use crate::schema::{EdgeType, EventType};
use crate::store::view::TraceView;

/// Overheads of the protocol.
#[derive(Debug)]
pub struct Protocol;

static INFO: GroupInfo = GroupInfo {
    name: "protocol",
    cost: Cost::Linear,
    reference: "D16, D18; arXiv 2605.02801, Table 13; arXiv 2512.08296",
    metrics: &[
        Metric {
            name: "protocol_overhead",
            count: Count::Ratio,
            summary: "share of tokens in decisions, spawns, despawns, messages and aggregates",
        },
        Metric { name: "message_density", count: Count::Ratio, summary: "messages between agents per turn" },
        Metric {
            name: "message_redundancy",
            count: Count::Ratio,
            summary: "1 - distinct / all messages between agents that have a content key",
        },
        Metric {
            name: "shared_messages",
            count: Count::Ratio,
            summary: "share of distinct contents that several agents sent",
        },
        Metric {
            name: "call_redundancy",
            count: Count::Ratio,
            summary: "1 - distinct / all tool calls with a key of tool and arguments",
        },
        Metric {
            name: "shared_calls",
            count: Count::Ratio,
            summary: "share of distinct calls that several agents made",
        },
        Metric {
            name: "n_links",
            count: Count::Things,
            summary: "pairs of agents with a message, return or spawn between them",
        },
        Metric {
            name: "coordination_complexity",
            count: Count::Nats,
            summary: "links / (n(n-1)/2) · ln n for n agents",
        },
        Metric {
            name: "call_streak",
            count: Count::Things,
            summary: "most calls of one agent in a row with the same tool and arguments; 1 if none is made again at once",
        },
    ],
};

impl Group for Protocol {
    fn info(&self) -> &'static GroupInfo {
        &INFO
    }

    fn worker(&self, _: &Options) -> Box<dyn Measure> {
        Box::<Worker>::default()
    }
}

#[derive(Debug, Default)]
struct Worker {
    keys: Keys,
    links: Vec<u64>,
    /// Of each owner the key of its last call, and how many in a row had it.
    streaks: Vec<(u128, usize)>,
}

impl Measure for Worker {
    fn measure(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        let view = subject.view;
        let of_protocol = (0..view.len()).filter(|&v| subject.is(v, &OF_PROTOCOL));
        out.put(0, subject.token_share(of_protocol));
        out.ratio(1, subject.messages().len() as f64, subject.turns().list().len() as f64);
        self.keys.begin();
        let mut keyless = 0;
        for v in subject.messages().iter().map(|&v| v as usize) {
            match view.text_key(v) {
                Some(content) => self.keys.add(key(0, content), subject.owner(v)),
                None => keyless += 1,
            }
        }
        self.keys.write(keyless, 2, out);
        self.count_calls(subject, out);
        self.find_links(subject);
        out.count(6, self.links.len());
        let n = subject.agents().count() as f64;
        if n < 2.0 {
            out.absent(7, Reason::RatioEmpty);
        } else {
            out.set(7, self.links.len() as f64 / (n * (n - 1.0) / 2.0) * n.ln());
        }
    }
}

/// What coordination is made of (1.6).
const OF_PROTOCOL: [EventType; 5] = [
    EventType::OrchestratorDecision,
    EventType::Spawn,
    EventType::Despawn,
    EventType::Message,
    EventType::Aggregate,
];

/// A text, under a number, as 128 bits.
fn key(number: u64, text: &str) -> u128 {
    xxh3_128_with_seed(text.as_bytes(), number)
}

/// The key of tool and arguments of a call.
fn key_of_call(view: &TraceView<'_>, v: usize) -> Option<u128> {
    Some(key(u64::from(view.tool.get(v)?) + 1, view.arguments_key(v)?))
}

/// Keys, how often they occur, and whether more than one agent has them.
#[derive(Debug, Default)]
struct Keys {
    first: HashMap<u128, (u32, bool), RandomState>,
    total: usize,
    shared: usize,
}

impl Keys {
    fn begin(&mut self) {
        self.first.clear();
        (self.total, self.shared) = (0, 0);
    }

    fn add(&mut self, key: u128, owner: u32) {
        self.total += 1;
        let (first, several) = self.first.entry(key).or_insert((owner, false));
        if *first == NOBODY {
            *first = owner;
        } else if *first != owner && owner != NOBODY && !std::mem::replace(several, true) {
            self.shared += 1;
        }
    }

    /// Redundancy, then the shared ones.
    fn write(&self, keyless: usize, at: usize, out: &mut Row<'_>) {
        if self.total == 0 && keyless > 0 {
            return;
        }
        let distinct = self.first.len() as f64;
        out.ratio(at, self.total as f64 - distinct, self.total as f64);
        out.ratio(at + 1, self.shared as f64, distinct);
    }
}

/// Edges that make a link.
const OF_LINKS: [u8; 3] = [EdgeType::Message as u8, EdgeType::Return as u8, EdgeType::Spawn as u8];

impl Worker {
    /// Redundancy of calls, in order of time, and the longest streak: a call without a key ends that of its agent.
    fn count_calls(&mut self, subject: &Subject<'_>, out: &mut Row<'_>) {
        self.keys.begin();
        self.streaks.clear();
        self.streaks.resize(subject.owners.names().len(), (0, 0));
        let (mut keyless, mut longest) = (0, 0);
        let calls = subject.owners.order().rows().iter().map(|&v| v as usize);
        for v in calls.filter(|&v| subject.is(v, &[EventType::ToolCall])) {
            let (key, owner) = (key_of_call(subject.view, v), subject.owner(v));
            match key {
                Some(key) => self.keys.add(key, owner),
                None => keyless += 1,
            }
            let Some(streak) = self.streaks.get_mut(owner as usize) else { continue };
            *streak = match key {
                Some(key) if streak.1 > 0 && streak.0 == key => (key, streak.1 + 1),
                Some(key) => (key, 1),
                None => (0, 0),
            };
            longest = longest.max(streak.1);
        }
        self.keys.write(keyless, 4, out);
        if self.keys.total > 0 || keyless == 0 {
            out.count(8, longest);
        }
    }

    /// Pairs of agents (D16): one sends a message, return or spawn with `to` the other, or such an edge joins their events.
    fn find_links(&mut self, subject: &Subject<'_>) {
        let (view, owners) = (subject.view, subject.owners);
        let links = &mut self.links;
        links.clear();
        let mut join = |a: u32, b: u32| {
            if a != b && a != NOBODY && b != NOBODY {
                let pair = u64::from(a.min(b)) << 32 | u64::from(a.max(b));
                if links.last() != Some(&pair) {
                    links.push(pair);
                }
            }
        };
        let names = owners.names();
        for v in (0..view.len())
            .filter(|&v| subject.is(v, &[EventType::Message, EventType::Return, EventType::Spawn]))
        {
            let to = view.to.get(v).and_then(|to| owners.name_index(to));
            if let Some(to) = to.filter(|&to| names[to as usize].is_agent()) {
                join(subject.owner(v), to);
            }
        }
        for ((&s, &d), kind) in view.src.iter().zip(view.dst).zip(view.edge_types) {
            if OF_LINKS.contains(kind) {
                join(subject.owner(s as usize), subject.owner(d as usize));
            }
        }
        links.sort_unstable();
        links.dedup();
    }
}
