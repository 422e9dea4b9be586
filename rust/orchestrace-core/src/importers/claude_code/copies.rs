//! Responses that stand in several places: a request is paid once, whoever repeats its record. A session that was
//! resumed or forked under a new id begins with the records of the other one; so does the file of an agent that was
//! forked from the conversation.

use hashbrown::HashMap;
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use super::record::{Code, Line, LineContent, Records};
use crate::importers::TraceItems;

/// Bytes of an id that no other program gives to another message.
const UNIQUE: usize = 20;

/// What distinguishes a response from all others, whatever session has it: its message and its request. One whose
/// request is not recorded is known by its message if that has an id as providers give them.
pub(super) fn identity(message: &str, request: &str) -> Option<u64> {
    let is_unique = !message.is_empty() && (!request.is_empty() || message.len() >= UNIQUE);
    is_unique.then(|| xxh3_64_with_seed(message.as_bytes(), xxh3_64(request.as_bytes())))
}

/// The stream of a line; 0 is the main one.
fn stream(line: &Line) -> Code {
    if line.sidechain { line.agent } else { 0 }
}

/// The response that a line is a part of, if it can be known elsewhere.
fn response(line: &Line) -> Option<Code> {
    match &line.content {
        LineContent::Assistant(assistant) if assistant.is_known && !assistant.synthetic => {
            Some(assistant.response)
        }
        _ => None,
    }
}

/// Leaves out the lines of agents that repeat those of whom they were forked from, as duplicates. A response belongs to
/// none whose lines say to repeat those of another stream that is here; of the others to the main stream, else to the one
/// that does not mark it as copied, else to the first, by time and by name. What stands before the last copied response of
/// a file is copied, too.
pub(super) fn leave_out(items: &TraceItems<'_>, records: &mut Records) {
    if records.lines.iter().all(|line| stream(line) == 0) {
        return;
    }
    let marked = records.lines.iter().filter(|line| line.from != 0);
    let mut origins: HashMap<Code, Option<Code>> = marked.map(|line| (line.from, None)).collect();
    if !origins.is_empty() {
        for line in &records.lines {
            if let Some(origin) = origins.get_mut(&line.uuid) {
                *origin = Some(stream(line));
            }
        }
    }
    let is_repeated = |line: &Line| {
        let origin = origins.get(&line.from).copied().flatten();
        line.from != 0 && origin.is_some_and(|origin| origin != stream(line))
    };
    let rank =
        |line: &Line| (is_repeated(line), stream(line) != 0, line.forked, line.time.unwrap_or(i64::MAX));
    let name = |line: &Line| records.names.name(stream(line));
    let mut owners: HashMap<Code, usize> = HashMap::new();
    for (at, line) in records.lines.iter().enumerate() {
        let Some(response) = response(line) else { continue };
        let owner = owners.entry(response).or_insert(at);
        let owner_line = &records.lines[*owner];
        if (rank(line), name(line)) < (rank(owner_line), name(owner_line)) {
            *owner = at;
        }
    }
    let is_owned = |line: &Line| {
        let owner = response(line).and_then(|response| owners.get(&response));
        owner.is_none_or(|owner| stream(&records.lines[*owner]) == stream(line))
    };
    // The last copied response of each file of an agent.
    let mut last: HashMap<(Code, u32), usize> = HashMap::new();
    for (at, line) in records.lines.iter().enumerate().filter(|(_, line)| !is_owned(line)) {
        last.insert((stream(line), line.file), at);
    }
    if last.is_empty() {
        return;
    }
    let mut copied = Vec::with_capacity(records.lines.len());
    for (at, line) in records.lines.iter().enumerate() {
        let is_before = last.get(&(stream(line), line.file)).map(|last| at <= *last);
        let is_owner = response(line).is_some() && is_owned(line);
        copied.push(is_before.is_some_and(|before| (before || line.forked) && !is_owner));
    }
    records.forks.extend(last.keys().map(|(stream, _)| *stream));
    let mut copied = copied.into_iter();
    records.lines.retain(|line| {
        let is_copy = copied.next() == Some(true);
        if is_copy {
            items.duplicate(line.item as usize);
        }
        !is_copy
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_known_by_message_and_request() {
        let identity_of_both = identity("msg_1", "req_1");
        assert!(identity_of_both.is_some());
        assert_eq!(identity_of_both, identity("msg_1", "req_1"));
        assert_ne!(identity_of_both, identity("msg_1", "req_2"));
        assert_ne!(identity_of_both, identity("msg_2", "req_1"));
        assert_eq!(identity("", "req_1"), None);
        assert_eq!(identity("msg_1", ""), None);
        assert!(identity("msg_01Abcdefghijklmnopqrstuv", "").is_some());
    }
}
