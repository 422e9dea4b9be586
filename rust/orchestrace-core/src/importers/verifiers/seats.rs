//! The agents of an episode: what they are called, when they worked, whether they came to their end.

use std::collections::HashMap;

use super::time;
use crate::json::Kind;
use crate::json::tree::Value;

/// The virtual agent that several agents work for.
pub(super) const ENVIRONMENT: &str = "env";

/// An agent of an episode.
#[derive(Debug)]
pub(super) struct Seat<'v> {
    pub trace: Value<'v>,
    /// What it is called in this episode.
    pub name: String,
}

/// The agents in the order in which they began; the file has them in the order in which they ended.
pub(super) fn seats(episode: Value<'_>) -> Vec<Seat<'_>> {
    let mut all: Vec<Value<'_>> = traces(episode).collect();
    all.sort_by_key(|trace| began(*trace).unwrap_or(i64::MAX));
    let mut bearers: HashMap<&str, u32> = HashMap::from([("user", 1), (ENVIRONMENT, 1)]);
    let mut seats = Vec::with_capacity(all.len());
    for trace in all {
        let name = trace.path(&["agent", "name"]).some_str().unwrap_or("agent");
        let bearer = bearers.entry(name).and_modify(|count| *count += 1).or_insert(1);
        let name = if *bearer == 1 { name.to_owned() } else { format!("{name}#{bearer}") };
        seats.push(Seat { trace, name });
    }
    seats
}

/// The agents in the order of the file; a trace without an episode is its own.
pub(super) fn traces(episode: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    let traces = episode.get("traces");
    let alone = traces.is_absent().then_some(episode);
    traces.elements().filter(|trace| trace.kind() == Some(Kind::Object)).chain(alone)
}

pub(super) fn began(trace: Value<'_>) -> Option<i64> {
    time(trace.path(&["timing", "start"]))
}

pub(super) fn ended(trace: Value<'_>) -> Option<i64> {
    time(trace.path(&["timing", "agent", "end"]))
}

/// Whether an agent came to its end by itself. One that ran out of turns or tokens, that failed or took too long did not.
pub(super) fn is_complete(trace: Value<'_>) -> bool {
    let Some(stop) = trace.get("stop_condition").some_str() else {
        return trace.get("is_completed").bool() == Some(true);
    };
    let cut = stop.starts_with("max_") || stop == "compaction_failed";
    let failed = stop.ends_with("_error") || stop.ends_with("_timeout");
    !cut && !failed && trace.get("ok").bool() != Some(false)
}
