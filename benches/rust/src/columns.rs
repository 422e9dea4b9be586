//! What every reader fills: plain column vectors, reused from block to block.

/// Where the value of a key goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// Text column of this number.
    Text(usize),
    /// Number column.
    Float(usize),
    /// Column of non-negative integers.
    Int(usize),
    /// Flag column.
    Flag(usize),
}

/// The event keys that are read; all others are skipped and judged.
pub const EVENT_KEYS: [(&str, Field); 23] = [
    ("id", Field::Text(0)),
    ("t", Field::Float(0)),
    ("type", Field::Text(1)),
    ("agent", Field::Text(2)),
    ("role", Field::Text(3)),
    ("from", Field::Text(4)),
    ("to", Field::Text(5)),
    ("tool", Field::Text(6)),
    ("content_ref", Field::Text(7)),
    ("trusted", Field::Flag(0)),
    ("duration_s", Field::Float(1)),
    ("tokens", Field::Int(0)),
    ("tokens_in", Field::Int(1)),
    ("tokens_out", Field::Int(2)),
    ("model", Field::Text(8)),
    ("cost_usd", Field::Float(2)),
    ("turn", Field::Int(3)),
    ("ok", Field::Flag(1)),
    ("score", Field::Float(3)),
    ("reward", Field::Float(4)),
    ("subtask_id", Field::Text(9)),
    ("group_id", Field::Text(10)),
    ("state_key", Field::Text(11)),
];

impl Field {
    /// The column of an event key.
    #[must_use]
    #[inline]
    pub fn of(key: &str) -> Option<Self> {
        place_of(key).map(|at| EVENT_KEYS[at].1)
    }
}

/// The place of an event key in [`EVENT_KEYS`].
#[must_use]
#[inline]
pub fn place_of(key: &str) -> Option<usize> {
    Some(match key {
        "id" => 0,
        "t" => 1,
        "type" => 2,
        "agent" => 3,
        "role" => 4,
        "from" => 5,
        "to" => 6,
        "tool" => 7,
        "content_ref" => 8,
        "trusted" => 9,
        "duration_s" => 10,
        "tokens" => 11,
        "tokens_in" => 12,
        "tokens_out" => 13,
        "model" => 14,
        "cost_usd" => 15,
        "turn" => 16,
        "ok" => 17,
        "score" => 18,
        "reward" => 19,
        "subtask_id" => 20,
        "group_id" => 21,
        "state_key" => 22,
        _ => return None,
    })
}

/// The three keys of an edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Id of the event it leaves.
    Src,
    /// Id of the event it enters.
    Dst,
    /// Its type.
    Type,
}

impl End {
    /// The column of an edge key.
    #[must_use]
    #[inline]
    pub fn of(key: &str) -> Option<Self> {
        match key {
            "src" => Some(End::Src),
            "dst" => Some(End::Dst),
            "type" => Some(End::Type),
            _ => None,
        }
    }
}

/// What a key of the document leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The events.
    Events,
    /// The edges.
    Edges,
    /// The id of the trace.
    TraceId,
}

impl Part {
    /// The part under a key of the document.
    #[must_use]
    #[inline]
    pub fn of(key: &str) -> Option<Self> {
        match key {
            "events" => Some(Part::Events),
            "edges" => Some(Part::Edges),
            "trace_id" => Some(Part::TraceId),
            _ => None,
        }
    }
}

/// One buffer and where each string ends. A row that was not set is empty.
#[derive(Debug, Default)]
pub struct Texts {
    bytes: Vec<u8>,
    ends: Vec<u32>,
    set: u64,
}

impl Texts {
    /// Sets a row; rows come in order, and the first value of a row stays.
    #[inline]
    pub fn set(&mut self, row: usize, text: &str) {
        if self.ends.len() <= row {
            self.ends.resize(row, self.bytes.len() as u32);
            self.bytes.extend_from_slice(text.as_bytes());
            self.ends.push(self.bytes.len() as u32);
            self.set += 1;
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
        self.set = 0;
    }

    /// FNV-1a over texts and ends.
    fn digest(&self, mut hash: u64) -> u64 {
        let ends = self.ends.iter().flat_map(|end| end.to_le_bytes());
        for byte in self.bytes.iter().copied().chain(ends) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        hash
    }
}

/// Values and how many of them were set. A row that was not set holds the default.
#[derive(Debug, Default)]
pub struct Values<T> {
    values: Vec<T>,
    set: u64,
}

impl<T: Copy + Default> Values<T> {
    /// Sets a row; rows come in order, and the first value of a row stays.
    #[inline]
    pub fn set(&mut self, row: usize, value: T) {
        if self.values.len() <= row {
            self.values.resize(row, T::default());
            self.values.push(value);
            self.set += 1;
        }
    }

    fn clear(&mut self) {
        self.values.clear();
        self.set = 0;
    }
}

/// The columns of one block.
#[derive(Debug, Default)]
pub struct Columns {
    /// Ids of the traces.
    pub trace_id: Texts,
    /// Rows of events so far.
    pub events: usize,
    /// Rows of edges so far.
    pub edges: usize,
    documents: usize,
    texts: [Texts; 12],
    floats: [Values<f64>; 5],
    ints: [Values<i64>; 4],
    flags: [Values<bool>; 2],
    ends: [Texts; 3],
}

/// What is compared between readers: equal sums, equal work.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sums {
    /// Documents, events and edges.
    pub rows: [usize; 3],
    /// Values set, over all columns.
    pub set: u64,
    /// Sum of all numbers, in the order of columns and rows.
    pub floats: f64,
    /// Sum of all integers.
    pub ints: i64,
    /// How many flags are true.
    pub flags: usize,
    /// Digest of all texts.
    pub texts: u64,
}

impl Columns {
    /// Empties all columns and keeps their memory.
    pub fn clear(&mut self) {
        self.texts.iter_mut().chain(&mut self.ends).chain([&mut self.trace_id]).for_each(Texts::clear);
        self.floats.iter_mut().for_each(Values::clear);
        self.ints.iter_mut().for_each(Values::clear);
        self.flags.iter_mut().for_each(Values::clear);
        (self.documents, self.events, self.edges) = (0, 0, 0);
    }

    /// Sets the id of the trace at hand.
    #[inline]
    pub fn trace_id(&mut self, text: &str) {
        self.trace_id.set(self.documents, text);
    }

    /// Sets a text of the event at hand.
    #[inline]
    pub fn text(&mut self, column: usize, text: &str) {
        self.texts[column].set(self.events, text);
    }

    /// Sets a number of the event at hand.
    #[inline]
    pub fn float(&mut self, column: usize, value: f64) {
        self.floats[column].set(self.events, value);
    }

    /// Sets an integer of the event at hand.
    #[inline]
    pub fn int(&mut self, column: usize, value: i64) {
        self.ints[column].set(self.events, value);
    }

    /// Sets a flag of the event at hand.
    #[inline]
    pub fn flag(&mut self, column: usize, value: bool) {
        self.flags[column].set(self.events, value);
    }

    /// Sets a text of the edge at hand.
    #[inline]
    pub fn end(&mut self, end: End, text: &str) {
        self.ends[end as usize].set(self.edges, text);
    }

    /// The event at hand is complete.
    #[inline]
    pub fn end_event(&mut self) {
        self.events += 1;
    }

    /// The edge at hand is complete.
    #[inline]
    pub fn end_edge(&mut self) {
        self.edges += 1;
    }

    /// The document at hand is complete.
    pub fn end_document(&mut self) {
        self.documents += 1;
    }

    /// What was read.
    #[must_use]
    pub fn sums(&self) -> Sums {
        let texts = || self.texts.iter().chain(&self.ends).chain([&self.trace_id]);
        Sums {
            rows: [self.documents, self.events, self.edges],
            set: texts().map(|c| c.set).sum::<u64>()
                + self.floats.iter().map(|c| c.set).sum::<u64>()
                + self.ints.iter().map(|c| c.set).sum::<u64>()
                + self.flags.iter().map(|c| c.set).sum::<u64>(),
            floats: self.floats.iter().flat_map(|c| &c.values).sum(),
            ints: self.ints.iter().flat_map(|c| &c.values).sum(),
            flags: self.flags.iter().flat_map(|c| &c.values).filter(|flag| **flag).count(),
            texts: texts().fold(0xcbf2_9ce4_8422_2325, |hash, column| column.digest(hash)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_have_one_column_each() {
        for (i, (key, field)) in EVENT_KEYS.iter().enumerate() {
            assert_eq!((place_of(key), Field::of(key)), (Some(i), Some(*field)));
            assert!(EVENT_KEYS[..i].iter().all(|(_, other)| other != field));
        }
    }
}
