//! Times of a conversation. They have no offset: a server writes UTC, a program on somebody's desk its local time. What a
//! provider stamped on a response is UTC, and tells how many hours the writer's clock is off.

use crate::json::time::parse_timestamp;
use crate::json::tree::Value;

const HOUR: i64 = 3_600_000_000_000;

/// The clock of the writer.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Clock {
    /// What is added to its times.
    shift: i64,
}

impl Clock {
    /// From responses: when their event was written, by its text, and when they were made, in nanoseconds. Most decide;
    /// nothing where there is none.
    pub(super) fn of<'v>(responses: impl Iterator<Item = (Value<'v>, i64)>) -> Option<Self> {
        let mut hours: Vec<i64> = responses
            .filter_map(|(written, made)| {
                let text = written.str().filter(|text| !has_offset(text))?;
                let behind = made.saturating_sub(parse_timestamp(text)?);
                let hours = behind.saturating_add(HOUR / 2).div_euclid(HOUR);
                // No place on Earth is further away; a clock that is, is wrong.
                (-14..=14).contains(&hours).then_some(hours)
            })
            .collect();
        hours.sort_unstable();
        Some(Self { shift: hours.get(hours.len() / 2)? * HOUR })
    }

    /// The time of an event.
    pub(super) fn time(self, event: Value<'_>) -> Option<i64> {
        let text = event.get("timestamp").str()?;
        let time = parse_timestamp(text)?;
        Some(if has_offset(text) { time } else { time.saturating_add(self.shift) })
    }
}

/// Whether a time says how far it is from UTC.
fn has_offset(text: &str) -> bool {
    let clock = text.split_once(['T', 't']).map_or("", |(_, clock)| clock);
    clock.ends_with(['Z', 'z']) || clock.contains(['+', '-'])
}
