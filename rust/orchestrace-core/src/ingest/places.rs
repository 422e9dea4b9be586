//! Whose some places of inputs are: the traces and events that are made of what lies there.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use hashbrown::HashMap;

use crate::columns::quarantine::Position;

/// Places, and what a reading notes of the traces that are made of them.
#[derive(Debug)]
pub struct SoughtPlaces {
    /// Of each input or entry the first bytes, ascending.
    wanted: BTreeMap<String, Vec<u64>>,
    noted: Mutex<Vec<Noted>>,
}

/// A part of an input that a trace is made of, or an event of it.
#[derive(Debug)]
struct Noted {
    file: String,
    offset: u64,
    end: u64,
    trace: Home,
    events: Events,
}

/// A trace by the place of its first record, and its id where several traces may begin there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Home {
    file: String,
    offset: u64,
    trace_id: Option<String>,
}

/// The events that are made of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Events {
    One(u32),
    Several,
    None,
    /// The part is a whole trace, and its format does not say where events lie.
    Unknown,
}

/// Why a place is not of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotOne {
    /// Several events are made of what lies there.
    SeveralEvents,
    /// What lies there is of a trace, and of none of its events.
    NoEvent,
    /// The record is a whole trace whose format does not say where events lie in it.
    Unknown,
    /// Several traces are made of what lies there.
    SeveralTraces,
    /// No trace is.
    NoTrace,
}

impl NotOne {
    /// The reason, as tables spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SeveralEvents => "event.several",
            Self::NoEvent => "event.none",
            Self::Unknown => "event.unknown",
            Self::SeveralTraces => "trace.several",
            Self::NoTrace => "trace.none",
        }
    }
}

/// Whose a place is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The record that the trace begins with, as the table of traces has it: its input and first byte.
    pub home: Option<(String, u64)>,
    /// The trace, where several may begin with that record.
    pub trace_id: Option<String>,
    /// The event, or why there is none.
    pub event: Result<u32, NotOne>,
}

impl SoughtPlaces {
    pub(super) fn new(places: &[(String, u64)]) -> Self {
        let mut wanted: BTreeMap<String, Vec<u64>> = BTreeMap::new();
        for (file, offset) in places {
            match wanted.get_mut(file) {
                Some(offsets) => offsets.push(*offset),
                None => drop(wanted.insert(file.clone(), vec![*offset])),
            }
        }
        for offsets in wanted.values_mut() {
            offsets.sort_unstable();
            offsets.dedup();
        }
        Self { wanted, noted: Mutex::default() }
    }

    /// Numbers of the places that lie in a part of a file.
    fn inside(&self, file: &str, offset: u64, end: u64) -> Range<usize> {
        let Some(offsets) = self.wanted.get(file) else { return 0..0 };
        offsets.partition_point(|at| *at < offset)..offsets.partition_point(|at| *at < end)
    }

    /// Whether a place is in a record.
    pub(super) fn lie_within(&self, file: &str, position: Position) -> bool {
        !self.inside(file, position.offset, position.offset + position.length).is_empty()
    }

    fn put(&self, parts: impl Iterator<Item = Noted>) {
        let parts = parts.filter(|part| !self.inside(&part.file, part.offset, part.end).is_empty());
        self.noted.lock().unwrap_or_else(PoisonError::into_inner).extend(parts);
    }

    /// Notes a record that is a whole trace, and where its events lie in it, if its format says so.
    pub(super) fn note_parts(&self, events: &[Range<usize>], file: &str, position: Position) {
        let trace = Home { file: file.to_owned(), offset: position.offset, trace_id: None };
        let part = |range: Range<usize>, events| Noted {
            file: file.to_owned(),
            offset: position.offset + range.start as u64,
            end: position.offset + range.end as u64,
            trace: trace.clone(),
            events,
        };
        let rest = if events.is_empty() { Events::Unknown } else { Events::None };
        let record = part(0..position.length as usize, rest);
        // Only of those in which a place lies a part is made: traces have many events, and hits are rare.
        let hit = (0..).zip(events).filter(|(_, range)| {
            let from = position.offset + range.start as u64;
            !self.inside(file, from, position.offset + range.end as u64).is_empty()
        });
        self.put(
            std::iter::once(record).chain(hit.map(|(seq, range)| part(range.clone(), Events::One(seq)))),
        );
    }

    /// Notes a trace that was put together: the record of each event, in order, and all records of it.
    pub(super) fn note<'a>(
        &self,
        (trace_id, path, home): (&str, &str, Position),
        made_of: impl Iterator<Item = (&'a str, Position)>,
        items: impl Iterator<Item = (&'a str, Position)>,
    ) {
        let trace = Home { file: path.to_owned(), offset: home.offset, trace_id: Some(trace_id.to_owned()) };
        let mut parts: BTreeMap<(&str, u64, u64), Events> = BTreeMap::new();
        let key = |(file, position): (&'a str, Position)| {
            (file, position.offset, position.offset + position.length)
        };
        let is_wanted = |(file, from, end): &(&str, u64, u64)| !self.inside(file, *from, *end).is_empty();
        for at in items.map(key).filter(is_wanted) {
            parts.insert(at, Events::None);
        }
        for (seq, at) in (0..).zip(made_of.map(key)) {
            if let Some(events) = parts.get_mut(&at) {
                *events = if *events == Events::None { Events::One(seq) } else { Events::Several };
            }
        }
        self.put(parts.into_iter().map(|((file, offset, end), events)| Noted {
            file: file.to_owned(),
            offset,
            end,
            trace: trace.clone(),
            events,
        }));
    }

    /// Whose each place is: of the smallest part that it lies in. O(places and parts, log places).
    pub(super) fn owners(&self, places: &[(String, u64)]) -> Vec<Owner> {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        // Threads note in any order.
        noted.sort_unstable_by(|a, b| {
            (&a.file, a.offset, a.end, &a.trace, a.events)
                .cmp(&(&b.file, b.offset, b.end, &b.trace, b.events))
        });
        let mut best: HashMap<(&str, u64), Vec<&Noted>> = HashMap::new();
        for part in noted.iter() {
            let Some(offsets) = self.wanted.get(&part.file) else { continue };
            for offset in &offsets[self.inside(&part.file, part.offset, part.end)] {
                let held = best.entry((&part.file, *offset)).or_default();
                let size = |part: &Noted| part.end - part.offset;
                let least = held.first().map_or(u64::MAX, |first| size(first));
                if size(part) < least {
                    held.clear();
                }
                if size(part) <= least {
                    held.push(part);
                }
            }
        }
        places.iter().map(|(file, offset)| owner(best.get(&(file.as_str(), *offset)))).collect()
    }
}

/// Whose a place is that lies in these parts, which are alike in size.
fn owner(parts: Option<&Vec<&Noted>>) -> Owner {
    let nobody = |why| Owner { home: None, trace_id: None, event: Err(why) };
    let Some((first, others)) = parts.and_then(|parts| parts.split_first()) else {
        return nobody(NotOne::NoTrace);
    };
    if others.iter().any(|part| part.trace != first.trace) {
        return nobody(NotOne::SeveralTraces);
    }
    let event = match first.events {
        _ if !others.is_empty() => Err(NotOne::SeveralEvents),
        Events::One(seq) => Ok(seq),
        Events::Several => Err(NotOne::SeveralEvents),
        Events::None => Err(NotOne::NoEvent),
        Events::Unknown => Err(NotOne::Unknown),
    };
    let Home { file, offset, trace_id } = first.trace.clone();
    Owner { home: Some((file, offset)), trace_id, event }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_of_the_smallest_part_around_it() {
        let at = |offset| ("a".to_owned(), offset);
        let places = [at(5), at(15), at(25), at(35), ("b".to_owned(), 5)];
        let sought = SoughtPlaces::new(&places);
        sought.note_parts(&[3..8, 13..18], "a", Position { line: 1, offset: 0, length: 30 });
        let position = |offset, length| ("a", Position { line: 1, offset, length });
        let made_of = [position(30, 10), position(30, 10)];
        let home = ("t", "a", Position { line: 4, offset: 30, length: 10 });
        sought.note(home, made_of.into_iter(), made_of.into_iter());
        let events: Vec<_> = sought.owners(&places).iter().map(|owner| owner.event).collect();
        let why = [NotOne::NoEvent, NotOne::SeveralEvents, NotOne::NoTrace].map(Err);
        assert_eq!(events, [Ok(0), Ok(1), why[0], why[1], why[2]]);
        assert!(sought.lie_within("a", Position { line: 1, offset: 35, length: 1 }));
        assert!(!sought.lie_within("b", Position { line: 1, offset: 6, length: 9 }));
    }
}
