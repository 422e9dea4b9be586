//! The order of a recording: streams merged by time, each kept in its own order.

use super::{Act, Call, Described, Recording, Saying};

/// Entries that stand for themselves, in order, and when each was.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Entries, by number; calls and texts of a response come with it.
    pub entries: Vec<u32>,
    /// Time of each entry in nanoseconds; nothing where the recording has no times at all.
    pub times: Vec<i64>,
    /// Whether the recording has times.
    pub timed: bool,
    /// What `t` counts from.
    pub base: i64,
    /// Last time.
    pub end: i64,
}

pub(super) fn time_of(entry: &Described) -> Option<i64> {
    match &entry.act {
        Act::Response(x) => x.time,
        Act::Call { call, .. } => call.time,
        Act::Saying { saying, .. } => saying.time,
        Act::Result(x) => x.time,
        Act::Incoming(x) => x.time,
        Act::Mark(x) => x.time,
        Act::Delivery { time, .. } => *time,
        Act::Compaction => None,
    }
}

fn duration_of(entry: &Described) -> f64 {
    let seconds = match &entry.act {
        Act::Response(x) => x.duration_s,
        Act::Result(x) => x.duration_s,
        _ => None,
    };
    seconds.filter(|s| s.is_finite() && *s > 0.0).unwrap_or(0.0)
}

/// The response that it comes with rather than by itself.
pub(super) fn part_of(entry: &Described) -> Option<u32> {
    match &entry.act {
        Act::Call { of: Some(response), call: Call { time: None, .. } }
        | Act::Saying { of: Some(response), saying: Saying { apart: false, .. } } => Some(response.0),
        _ => None,
    }
}

impl Order {
    /// O(n log n).
    pub(super) fn of(recording: &Recording) -> Self {
        let entries = &recording.entries;
        let time_and_length = |entry: &Described| Some((time_of(entry)?, duration_of(entry)));
        // What arrives is no event, and makes no run longer.
        let events = entries.iter().filter(|entry| !matches!(entry.act, Act::Delivery { .. }));
        let times = events.filter_map(time_and_length);
        // A duration that leads before the first day of the epoch is no duration.
        let starts = times.clone().map(|(t, d)| t.saturating_sub((d * 1e9) as i64));
        let base = recording.trace.started_at.into_iter().chain(starts).min();
        let end = times.map(|(t, _)| t).max();
        let mut order = Self {
            entries: (0..entries.len() as u32).filter(|e| part_of(&entries[*e as usize]).is_none()).collect(),
            times: Vec::new(),
            timed: end.is_some(),
            base: base.unwrap_or(0),
            end: end.unwrap_or(0),
        };
        if order.timed {
            order.merge(recording);
        }
        order
    }

    /// Gives every entry a time, then sorts by the latest time so far of its stream.
    fn merge(&mut self, recording: &Recording) {
        let entries = &recording.entries;
        self.times = vec![0; entries.len()];
        let agents = recording.agents.len();
        // What has no time has that of what was before it; at the start of a stream, that of what follows.
        let mut first = vec![None; agents];
        for &e in &self.entries {
            let entry = &entries[e as usize];
            first[entry.agent.0 as usize] = first[entry.agent.0 as usize].or(time_of(entry));
        }
        let mut last: Vec<i64> = first.iter().map(|t| t.unwrap_or(self.base)).collect();
        let mut latest: Vec<i64> = last.clone();
        let mut keys: Vec<(i64, u32)> = Vec::with_capacity(self.entries.len());
        for &e in &self.entries {
            let entry = &entries[e as usize];
            let agent = entry.agent.0 as usize;
            let time = time_of(entry).unwrap_or(last[agent]);
            last[agent] = time;
            latest[agent] = latest[agent].max(time);
            self.times[e as usize] = time;
            keys.push((latest[agent], e));
        }
        keys.sort_unstable();
        self.entries.clear();
        self.entries.extend(keys.into_iter().map(|(_, e)| e));
    }

    /// `t` of an entry, the `index`-th in order.
    pub(super) fn t(&self, entry: u32, index: usize) -> f64 {
        if self.timed {
            self.times[entry as usize].saturating_sub(self.base).max(0) as f64 / 1e9
        } else {
            index as f64
        }
    }
}
