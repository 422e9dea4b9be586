//! The rows that a method compares across traces, and its view of a group.

use crate::graph::NO_UNIT;
use crate::schema::{Dict, Reason};
use crate::store::Store;
use xxhash_rust::xxh3::{xxh3_64, xxh3_128};

/// Hashes of the names of a store, so that keys of rows do not depend on its codes.
#[derive(Debug, Default)]
pub struct Vocabulary {
    agents: Vec<u64>,
    roles: Vec<u64>,
    tools: Vec<u64>,
    metric: Option<u32>,
}

/// Hash of an absent name; no name hashes to it but by accident.
const NOTHING: u64 = 0;

impl Vocabulary {
    /// Hashes every name once. `metric` is one that the method reads of every trace.
    #[must_use]
    pub fn new(store: &Store, metric: Option<&str>) -> Self {
        let hashed = |dict| store.names().dict(dict).names().map(|name| xxh3_64(name.as_bytes())).collect();
        Self {
            agents: hashed(Dict::Agent),
            roles: hashed(Dict::Role),
            tools: hashed(Dict::Tool),
            metric: metric.and_then(|name| store.names().dict(Dict::Measure).find(name)),
        }
    }

    /// Hash of an agent's name.
    #[must_use]
    pub fn agent(&self, code: Option<u32>) -> u64 {
        hash_of(&self.agents, code)
    }

    /// Hash of a role.
    #[must_use]
    pub fn role(&self, code: Option<u32>) -> u64 {
        hash_of(&self.roles, code)
    }

    /// Hash of a tool.
    #[must_use]
    pub fn tool(&self, code: Option<u32>) -> u64 {
        hash_of(&self.tools, code)
    }

    /// Code of the metric that was asked for, if any trace has it.
    #[must_use]
    pub fn metric(&self) -> Option<u32> {
        self.metric
    }
}

fn hash_of(hashes: &[u64], code: Option<u32>) -> u64 {
    // a view made by hand may have codes without names: the code stands for the name then
    code.map_or(NOTHING, |code| hashes.get(code as usize).copied().unwrap_or(u64::from(code) + 1))
}

/// One key of several parts.
#[must_use]
pub fn key_of(parts: &[u64]) -> u128 {
    let mut bytes = [0_u8; 64];
    debug_assert!(parts.len() <= 8);
    for (place, part) in bytes.chunks_exact_mut(8).zip(parts) {
        place.copy_from_slice(&part.to_le_bytes());
    }
    xxh3_128(&bytes[..8 * parts.len().min(8)])
}

/// The two halves of a key, to be parts of another.
#[must_use]
pub fn halves(key: u128) -> [u64; 2] {
    [key as u64, (key >> 64) as u64]
}

/// Own rows of the traces of a chunk, in columns.
#[derive(Debug, Default)]
pub struct Decisions {
    /// What rows are compared by.
    pub key: Vec<u128>,
    /// What was done, for methods that compare alternatives.
    pub choice: Vec<u128>,
    /// What came of it; NaN: the row is not compared and has no value, for want of a field.
    pub value: Vec<f64>,
    /// A second number.
    pub other: Vec<f64>,
    /// Row of each event of the trace at hand, counted from its first row, or [`NO_UNIT`]; empty where its one row is
    /// the whole trace.
    pub row_of: Vec<u32>,
}

impl Decisions {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.value.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.value.is_empty()
    }

    /// Appends a row.
    pub fn push(&mut self, key: u128, choice: u128, value: f64, other: f64) {
        self.key.push(key);
        self.choice.push(choice);
        self.value.push(value);
        self.other.push(other);
    }

    /// Says that no event is in a row, before some are.
    pub fn no_event_of(&mut self, n_events: usize) {
        self.row_of.clear();
        self.row_of.resize(n_events, NO_UNIT);
    }

    /// Takes back the rows from `len` on.
    pub fn truncate(&mut self, len: usize) {
        self.key.truncate(len);
        self.choice.truncate(len);
        self.value.truncate(len);
        self.other.truncate(len);
    }

    /// Forgets all rows and keeps the buffers.
    pub fn clear(&mut self) {
        self.truncate(0);
        self.row_of.clear();
    }
}

/// All rows of a group, in corpus order.
#[derive(Debug, Clone, Copy)]
pub struct Rollouts<'a> {
    /// Outcome of every rollout of the group that has one, also of those without rows.
    pub outcomes: &'a [f64],
    /// Rollout of each row, as its place in `outcomes`; ascending.
    pub rollout: &'a [u32],
    /// What rows are compared by.
    pub key: &'a [u128],
    /// What was done.
    pub choice: &'a [u128],
    /// What came of it.
    pub value: &'a [f64],
    /// A second number.
    pub other: &'a [f64],
}

/// Values of the rows of a group.
#[derive(Debug, Default)]
pub struct Compared {
    /// One value per row.
    pub value: Vec<f64>,
    /// Why it is exactly 0, or none: NaN stands beside a reason.
    pub reason: Vec<Option<Reason>>,
    /// Rows by key, and buffers of the rules.
    pub segments: super::segments::Segments,
    /// Numbers of one segment.
    pub gathered: Vec<f64>,
    /// Their values.
    pub scaled: Vec<f64>,
}

impl Compared {
    /// Room for `n` rows, each 0 without a reason.
    pub fn begin(&mut self, n: usize) {
        self.value.clear();
        self.value.resize(n, 0.0);
        self.reason.clear();
        self.reason.resize(n, None);
    }

    /// Compares the rows of each key of a group with each other. `scale` gets their places in the group, the numbers, and a
    /// buffer for the values; it says whether they are all equal.
    pub fn by_key(
        &mut self,
        group: &Rollouts<'_>,
        mut scale: impl FnMut(&[(u128, u32)], &mut Vec<f64>, &mut Vec<f64>) -> bool,
    ) {
        self.begin(group.value.len());
        self.segments.by(group.key.iter().copied());
        let Self { value, reason, segments, gathered, scaled } = self;
        for segment in segments.iter() {
            gathered.clear();
            gathered.extend(segment.iter().map(|&(_, row)| group.value[row as usize]));
            scaled.clear();
            let degenerate = scale(segment, gathered, scaled);
            for (&(_, row), scaled) in segment.iter().zip(&*scaled) {
                value[row as usize] = *scaled;
                reason[row as usize] = degenerate.then_some(Reason::GroupDegenerate);
            }
        }
    }
}
