//! Lines of a thread that are the history of another one.
//!
//! A thread that is forked from another one, or spawned with its parent's context, can begin with a copy of the other's
//! history, times as they were or all new. The file says where its own lines begin, or its lines say that they are
//! older than the thread, of another thread, or the order that it was spawned with. What is known of the other thread,
//! by ids of calls, responses and turns, texts and running totals of tokens, is copy as long as nothing stands between
//! that the other thread does not have. Where its file is missing, what threads that were forked from it have in common
//! is copy. How fast lines were written says nothing: some copies take seconds.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};

use super::line::{By, Line, LineContent};
use super::threads::Thread;
use crate::importers::recording::{Recording, Text};

/// Marks the lines of every thread that are another one's.
pub(super) fn mark_copies(threads: &mut [Thread], recording: &Recording) {
    let of_id: HashMap<&str, usize> =
        threads.iter().enumerate().map(|(i, thread)| (recording.read(thread.id), i)).collect();
    let cells: Vec<OnceCell<HashSet<u64>>> = threads.iter().map(|_| OnceCell::new()).collect();
    // Of many siblings each is compared with all others.
    let identities_of = |i: usize| {
        cells[i].get_or_init(|| threads[i].lines.iter().filter_map(|line| line.identity).collect())
    };
    let copied: Vec<(usize, usize)> = threads
        .iter()
        .enumerate()
        .map(|(i, thread)| {
            let Some(from) = origin(thread) else { return (0, 0) };
            if let Some(copied) = stated(thread, recording) {
                return (copied, copied);
            }
            let (copied, inherited) = match of_id.get(recording.read(from)) {
                Some(other) => {
                    let copied = copied_of(thread, identities_of(*other));
                    (copied, copied)
                }
                None => copied_of_siblings(threads, i, identities_of, recording),
            };
            let shown = shown(thread, recording);
            let ended = |lines: usize| if lines > 0 { end_of_turn(thread, lines) } else { 0 };
            (ended(copied.max(shown)), ended(inherited.max(shown)))
        })
        .collect();
    for (thread, (copied, inherited)) in threads.iter_mut().zip(copied) {
        thread.copied = copied;
        thread.inherited = inherited;
    }
}

/// The thread that one comes from. Of one that names none nobody knows whose history it could have.
fn origin(thread: &Thread) -> Option<Text> {
    [thread.forked_from, thread.parent].into_iter().find(|id| !id.is_none())
}

/// How many lines are copies where the file says at which ordinal its own ones begin.
fn stated(thread: &Thread, recording: &Recording) -> Option<usize> {
    let own_id = recording.read(thread.id);
    let before = |end: u64| {
        let mut next = 0;
        let until = |line: &&Line| {
            let ordinal = line.ordinal.unwrap_or(next);
            next = ordinal + 1;
            let is_own = !line.named.is_none() && recording.read(line.named) == own_id;
            ordinal < end && !is_own
        };
        thread.lines.iter().take_while(until).count()
    };
    if let Some(from) = thread.history.own_from {
        return Some(before(from));
    }
    // A file that never reaches the end of what it goes on with numbers its own lines alone.
    let base = thread.history.base_to.filter(|_| !thread.history.is_page)?;
    let copied = before(base);
    (copied < thread.lines.len()).then_some(copied)
}

/// How many lines are copies by what the lines themselves say.
fn shown(thread: &Thread, recording: &Recording) -> usize {
    let own_id = recording.read(thread.id);
    let Some(began) = thread.began else { return 0 };
    let second = began.div_euclid(1_000_000_000);
    let mut copied = 0;
    let mut is_foreign = false;
    let mut in_old_turn = false;
    let mut orders: HashSet<[u8; 32]> = HashSet::new();
    let mut turn = 0;
    for (i, line) in thread.lines.iter().enumerate() {
        let names_other = !line.named.is_none() && recording.read(line.named) != own_id;
        match line.content {
            LineContent::Meta { id, .. } => is_foreign |= recording.read(id) != own_id,
            LineContent::TurnStart { at } => {
                turn = i;
                in_old_turn = at.is_some_and(|at| at < second);
            }
            LineContent::Call { prompt: Some(prompt), .. } => drop(orders.insert(prompt)),
            // What it was spawned to do: all before is why.
            LineContent::Message { by: By::User, content } if is_foreign && orders.contains(&content) => {
                copied = copied.max(turn);
            }
            _ => {}
        }
        let is_old = is_foreign && line.time.is_some_and(|time| time < began);
        if names_other || in_old_turn || (is_old && is_work(line)) {
            copied = i + 1;
        }
        in_old_turn &= !matches!(line.content, LineContent::TurnEnd { .. } | LineContent::Aborted { .. });
    }
    copied
}

/// Whether a model, or what it called, did that.
fn is_work(line: &Line) -> bool {
    matches!(
        line.content,
        LineContent::Message { by: By::Assistant, .. }
            | LineContent::Call { .. }
            | LineContent::Output { .. }
            | LineContent::Usage { .. }
            | LineContent::Spent { .. }
    )
}

/// Lines of a thread that repeat another one's, whose lines are known.
fn copied_of(thread: &Thread, identities: &HashSet<u64>) -> usize {
    let mut copied = 0;
    for (i, line) in thread.lines.iter().enumerate() {
        match line.identity {
            Some(identity) if identities.contains(&identity) => copied = i + 1,
            // Turns are named anew by some versions.
            Some(_)
                if matches!(
                    line.content,
                    LineContent::TurnStart { .. } | LineContent::TurnEnd { .. } | LineContent::Context { .. }
                ) => {}
            Some(_) => break,
            None => {}
        }
    }
    copied
}

/// Lines that a thread has in common with others from the same one, whose file is missing: how many it only repeats, and
/// how many it inherits. The first fork keeps what nobody else has; a child keeps nothing of its parent's.
fn copied_of_siblings<'k>(
    threads: &[Thread],
    at: usize,
    known: impl Fn(usize) -> &'k HashSet<u64>,
    recording: &Recording,
) -> (usize, usize) {
    let thread = &threads[at];
    let from = origin(thread).map(|id| recording.read(id));
    let is_sibling = |other: &Thread| origin(other).map(|id| recording.read(id)) == from;
    let is_child = !thread.parent.is_none();
    let others = threads.iter().enumerate().filter(|(i, other)| *i != at && is_sibling(other));
    let (mut copied, mut inherited) = (0, 0);
    for (i, _) in others.filter(|(_, other)| is_child || other.parent.is_none()) {
        let shared = copied_of(thread, known(i));
        if shared > inherited && is_evidence(&thread.lines[..shared]) {
            inherited = shared;
        }
        if is_child || i < at {
            copied = inherited;
        }
    }
    (copied, inherited)
}

/// Whether lines that two threads have in common show that one history is in both: two that were asked the same may
/// answer the same and take as many tokens, but ids of calls are never equal.
fn is_evidence(lines: &[Line]) -> bool {
    let of = |is: fn(&LineContent) -> bool| {
        lines.iter().filter(|line| line.identity.is_some() && is(&line.content)).count()
    };
    of(|content| {
        matches!(content, LineContent::Call { .. } | LineContent::Output { .. } | LineContent::Spent { .. })
    }) > 0
        || of(|content| matches!(content, LineContent::Usage { .. })) > 1
}

/// No turn ends before it begins: an end that follows what was copied is of it.
fn end_of_turn(thread: &Thread, copied: usize) -> usize {
    let begins = |line: &&Line| {
        matches!(
            line.content,
            LineContent::TurnStart { .. }
                | LineContent::Message { .. }
                | LineContent::Echo { .. }
                | LineContent::Call { .. }
        )
    };
    let rest = thread.lines[copied..].iter().take_while(|line| !begins(line));
    let ends = rest.enumerate().filter(|(_, line)| {
        matches!(line.content, LineContent::TurnEnd { .. } | LineContent::Aborted { .. })
    });
    ends.last().map_or(copied, |(i, _)| copied + i + 1)
}
