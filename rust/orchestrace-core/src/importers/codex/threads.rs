//! Threads: their lines, their parents, and lines copied from other threads.
//!
//! A thread that is forked from another one, or spawned with its parent's context, begins with a copy of the other's
//! history, times as they were or all new. What is known of the other thread, by ids of calls and turns, texts and
//! running totals of tokens, is copy as long as nothing stands between that the other thread does not have. Where
//! its file is missing, what stands under the other thread's `session_meta` was copied if it is older than the
//! thread itself or was written within its first second, faster than any model answers.

use std::collections::{HashMap, HashSet};

use super::FILE;
use super::line::{By, Line, Status, What, hash_of};
use super::read::Reader;
use crate::importers::items::TraceItems;
use crate::importers::recording::{Recording, Text};
use crate::json::tree::Value;

/// The ids in a `session_meta`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ids<'v> {
    pub own: Option<&'v str>,
    pub parent: Option<&'v str>,
    pub forked_from: Option<&'v str>,
}

impl<'v> Ids<'v> {
    pub(super) fn of(meta: Value<'v>) -> Self {
        let own = meta.get("id").some_str().or_else(|| meta.get("session_id").some_str());
        let other = |id: Option<&'v str>| id.filter(|id| Some(*id) != own);
        let spawn = meta.path(&["source", "subagent", "thread_spawn", "parent_thread_id"]);
        Self {
            own,
            parent: other(spawn.some_str().or_else(|| meta.get("parent_thread_id").some_str())),
            forked_from: other(meta.get("forked_from_id").some_str()),
        }
    }
}

/// How long after its begin a thread cannot have an answer of its own.
const FIRST_SECOND: i64 = 1_000_000_000;

/// One thread.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub id: Text,
    pub parent: Text,
    pub forked_from: Text,
    pub nickname: Text,
    pub role: Text,
    pub path: Text,
    /// Why there is such a thread, if for no purpose of the user: `review`, `compact`, another word.
    pub internal: Text,
    /// Its lines, the copied ones first.
    pub lines: Vec<Line>,
    /// How many are copied.
    pub copied: usize,
    /// When it began.
    pub began: Option<i64>,
}

impl Thread {
    /// Its lines without those that it only repeats.
    pub(super) fn own(&self) -> impl Iterator<Item = &Line> {
        self.lines[self.copied..].iter()
    }
}

/// The threads of a family: a root thread with its descendants, of which the driver may have found several together
/// because one was forked from another.
#[derive(Debug)]
pub(super) struct Group {
    /// In order of their begin.
    pub threads: Vec<Thread>,
    pub statuses: Vec<Status>,
    /// The id of the whole.
    pub id: Text,
}

/// Lines as the driver gave them: under the key of their file.
struct Stream<'a> {
    key: &'a str,
    lines: Vec<Line>,
}

impl Group {
    /// Reads the family that is asked for ([`TraceItems::part`]) of those that the items are of.
    pub(super) fn read(items: &TraceItems<'_>, recording: &mut Recording) -> Self {
        let mut reader = Reader { recording, statuses: Vec::new(), limits: items.limits() };
        let mut streams: Vec<Stream<'_>> = Vec::new();
        let mut of_key: HashMap<&str, usize> = HashMap::new();
        for (i, item) in items.iter().enumerate() {
            let at = *of_key.entry(item.context).or_insert_with(|| {
                streams.push(Stream { key: item.context, lines: Vec::new() });
                streams.len() - 1
            });
            streams[at].lines.push(reader.line(i as u32, item));
        }
        let statuses = reader.statuses;
        let mut threads = threads_of(streams, items, recording);
        threads.sort_by(|a, b| {
            let id = |thread: &Thread| recording.read(thread.id);
            (a.began.is_none(), a.began, id(a)).cmp(&(b.began.is_none(), b.began, id(b)))
        });
        mark_copies(&mut threads, recording);
        let tops: Vec<Text> = (0..threads.len()).map(|i| top_of(i, &threads, recording)).collect();
        let mut families: Vec<Text> = Vec::new();
        for top in &tops {
            if families.iter().all(|known| recording.read(*known) != recording.read(*top)) {
                families.push(*top);
            }
        }
        if items.part() + 1 < families.len() {
            items.another();
        }
        let id = families.get(items.part()).copied().unwrap_or_default();
        let mut of = tops.iter().map(|top| recording.read(*top) == recording.read(id));
        threads.retain(|_| of.next() == Some(true));
        let home = threads.iter().find(|thread| recording.read(thread.id) == recording.read(id));
        if let Some(line) = home.or(threads.first()).and_then(|thread| thread.lines.first()) {
            items.lies_at(line.item as usize);
        }
        Self { threads, statuses, id }
    }

    /// The thread of an id.
    pub(super) fn find(&self, id: &str, recording: &Recording) -> Option<usize> {
        self.threads.iter().position(|thread| recording.read(thread.id) == id)
    }
}

/// The id at the top of a thread's family: of the last parent that anybody names.
fn top_of(start: usize, threads: &[Thread], recording: &Recording) -> Text {
    let mut path = vec![start];
    let mut at = start;
    loop {
        let parent = threads[at].parent;
        if parent.is_none() {
            return threads[at].id;
        }
        let id = recording.read(parent);
        let Some(next) = threads.iter().position(|thread| recording.read(thread.id) == id) else {
            return parent;
        };
        if let Some(circle) = path.iter().position(|seen| *seen == next) {
            let ids = path[circle..].iter().map(|i| threads[*i].id);
            return ids.min_by_key(|id| recording.read(*id)).unwrap_or(parent);
        }
        path.push(next);
        at = next;
    }
}

/// Name of a file without folders and extensions.
fn stem(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = [".gz", ".zst"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    name.rsplit_once('.').map_or(name, |(stem, _)| stem)
}

/// Streams of one thread put together; lines that several of them have are kept once.
fn threads_of(streams: Vec<Stream<'_>>, items: &TraceItems<'_>, recording: &mut Recording) -> Vec<Thread> {
    let mut threads: Vec<Thread> = Vec::new();
    let mut of_id: HashMap<String, (usize, HashSet<u64>)> = HashMap::new();
    for stream in streams {
        let own = own_meta(&stream, recording);
        let id = match (stream.key.strip_prefix(FILE), own) {
            (None, _) => stream.key.to_owned(),
            (Some(_), Some(What::Meta { id, .. })) if !id.is_none() => recording.read(id).to_owned(),
            (Some(path), _) => stem(path).to_owned(),
        };
        let (at, seen) = of_id.entry(id).or_insert_with_key(|id| {
            threads.push(Thread { id: recording.text(id), ..Thread::default() });
            (threads.len() - 1, HashSet::new())
        });
        let thread = &mut threads[*at];
        if let Some(What::Meta { parent, forked_from, nickname, role, path, internal, .. }) = own
            && thread.parent.is_none()
        {
            *thread =
                Thread { parent, forked_from, nickname, role, path, internal, ..std::mem::take(thread) };
        }
        // The driver has already left out what one file has twice.
        let again: Vec<bool> =
            stream.lines.iter().map(|l| !seen.insert(hash_of(&items.as_slice()[l.item as usize]))).collect();
        for (line, again) in stream.lines.into_iter().zip(again) {
            if again {
                items.duplicate(line.item as usize);
            } else {
                thread.began = thread.began.or(line.time);
                thread.lines.push(line);
            }
        }
    }
    threads
}

/// The `session_meta` of the thread itself: the one with its id, else the first.
fn own_meta(stream: &Stream<'_>, recording: &Recording) -> Option<What> {
    let mut metas = stream.lines.iter().map(|line| line.what).filter(|w| matches!(w, What::Meta { .. }));
    if stream.key.starts_with(FILE) {
        return metas.next();
    }
    metas.find(|meta| matches!(meta, What::Meta { id, .. } if recording.read(*id) == stream.key))
}

fn mark_copies(threads: &mut [Thread], recording: &Recording) {
    let of_id: HashMap<&str, usize> =
        threads.iter().enumerate().map(|(i, thread)| (recording.read(thread.id), i)).collect();
    let copied: Vec<usize> = threads
        .iter()
        .map(|thread| {
            let from = [thread.forked_from, thread.parent].into_iter().find(|id| !id.is_none());
            let other = from.and_then(|id| of_id.get(recording.read(id)));
            match other {
                Some(other) => copied_of(thread, &threads[*other]),
                None => copied_of_nothing(thread, recording),
            }
        })
        .zip(threads.iter())
        .map(|(copied, thread)| if copied > 0 { end_of_turn(thread, copied) } else { 0 })
        .collect();
    for (thread, copied) in threads.iter_mut().zip(copied) {
        thread.copied = copied;
    }
}

/// Lines of a thread that repeat another one's.
fn copied_of(thread: &Thread, other: &Thread) -> usize {
    let known: HashSet<u64> = other.lines.iter().filter_map(|line| line.identity).collect();
    let mut copied = 0;
    for (i, line) in thread.lines.iter().enumerate() {
        match line.identity {
            Some(identity) if known.contains(&identity) => copied = i + 1,
            // Turns are named anew by some versions.
            Some(_) if matches!(line.what, What::TurnStart | What::TurnEnd { .. } | What::Context { .. }) => {
            }
            Some(_) => break,
            None => {}
        }
    }
    copied
}

/// No turn ends before it begins: an end that follows what was copied is of it.
fn end_of_turn(thread: &Thread, copied: usize) -> usize {
    let begins = |line: &&Line| {
        matches!(line.what, What::TurnStart | What::Message { .. } | What::Echo { .. } | What::Call { .. })
    };
    let rest = thread.lines[copied..].iter().take_while(|line| !begins(line));
    let ends =
        rest.enumerate().filter(|(_, line)| matches!(line.what, What::TurnEnd { .. } | What::Aborted { .. }));
    ends.last().map_or(copied, |(i, _)| copied + i + 1)
}

/// The same where the other thread is not there.
fn copied_of_nothing(thread: &Thread, recording: &Recording) -> usize {
    let own = recording.read(thread.id);
    let foreign = |line: &Line| matches!(line.what, What::Meta { id, .. } if recording.read(id) != own);
    let Some((from, began)) = thread.lines.iter().position(foreign).zip(thread.began) else { return 0 };
    // A thread that names no other one is not forked; whose line that is nobody knows.
    if thread.parent.is_none() && thread.forked_from.is_none() {
        return 0;
    }
    let answered = |line: &Line| {
        matches!(
            line.what,
            What::Message { by: By::Assistant, .. }
                | What::Call { .. }
                | What::Output { .. }
                | What::Usage { .. }
        )
    };
    let early = |line: &&Line| line.time.is_some_and(|time| time <= began.saturating_add(FIRST_SECOND));
    let head = thread.lines[from..].iter().take_while(early);
    let last = head.enumerate().filter(|(_, line)| answered(line)).map(|(i, _)| i).last();
    last.map_or(0, |last| from + last + 1)
}
