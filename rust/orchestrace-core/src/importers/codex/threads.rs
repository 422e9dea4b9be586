//! Threads: their lines and their parents.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::inherited::mark_copies;
use super::line::{By, History, Line, LineContent, Status, Sums};
use super::read::{Reader, Run};
use super::{FILE, STREAMED};
use crate::importers::items::TraceItems;
use crate::importers::recording::{Hash, Recording, Text};
use crate::json::tree::Value;

/// The ids in a `session_meta`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ids<'v> {
    pub id: Option<&'v str>,
    pub parent: Option<&'v str>,
    pub forked_from: Option<&'v str>,
}

impl<'v> Ids<'v> {
    pub(super) fn of(meta: Value<'v>) -> Self {
        let own_id = meta.get("id").some_str().or_else(|| meta.get("session_id").some_str());
        let other = |id: Option<&'v str>| id.filter(|id| Some(*id) != own_id);
        let spawn = meta.path(&["source", "subagent", "thread_spawn", "parent_thread_id"]);
        Self {
            id: own_id,
            parent: other(spawn.some_str().or_else(|| meta.get("parent_thread_id").some_str())),
            forked_from: other(meta.get("forked_from_id").some_str()),
        }
    }
}

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
    /// What its file says of the history that it begins with.
    pub history: History,
    /// Its lines, the copied ones first.
    pub lines: Vec<Line>,
    /// How many are copied, and how many it has of another thread, which are more where nobody else has them.
    pub copied: usize,
    pub inherited: usize,
    /// When it began.
    pub began: Option<i64>,
    /// What was printed of it, where its rollout is there.
    pub printed: Option<Printed>,
}

/// What a printed copy of a thread states of it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Printed {
    /// Its file.
    pub path: Text,
    /// What the thread took so far.
    pub total: Option<i64>,
    /// The last text of its last turn, if that ended.
    pub answer: Option<Hash>,
}

impl Printed {
    fn of(stream: &Stream<'_>, recording: &mut Recording) -> Self {
        let path = recording.text(stream.key.strip_prefix(FILE).unwrap_or(stream.key));
        let mut printed = Self { path, ..Self::default() };
        let mut last_text = None;
        for line in &stream.lines {
            match line.content {
                LineContent::TurnStart { .. } => last_text = None,
                LineContent::Message { by: By::Assistant, content } => last_text = Some(content),
                LineContent::StreamEnd { total } => {
                    printed.total = total.map(Sums::all).or(printed.total);
                    printed.answer = last_text.or(printed.answer);
                }
                _ => {}
            }
        }
        printed
    }
}

impl Thread {
    /// Whether it goes on with the history of another thread.
    pub(super) fn inherits(&self) -> bool {
        let names = !self.parent.is_none() || !self.forked_from.is_none();
        self.copied > 0 || names || (self.history.base_to.is_some() && !self.history.is_page)
    }

    /// Whether an agent says this in it.
    pub(super) fn says(&self, content: Hash) -> bool {
        self.lines.iter().any(|line| match line.content {
            LineContent::Message { by: By::Assistant, content: said }
            | LineContent::Echo { by: By::Assistant, content: said }
            | LineContent::TurnEnd { text: Some(said), .. } => said == content,
            _ => false,
        })
    }

    /// Its lines without those that it only repeats.
    pub(super) fn own_lines(&self) -> impl Iterator<Item = &Line> {
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
    /// Whether it is what `codex exec --json` printed, and of which run.
    is_printed: bool,
    run: Run,
}

impl<'a> Stream<'a> {
    fn new(key: &'a str, is_printed: bool) -> Self {
        Self { key, lines: Vec::new(), is_printed, run: Run::default() }
    }

    /// What its place among the streams of its thread follows from.
    fn begin(&self) -> (Option<i64>, Option<i64>) {
        let total = |line: &Line| match line.content {
            LineContent::StreamEnd { total } => total.map(Sums::all),
            _ => None,
        };
        let total = if self.is_printed { self.lines.iter().find_map(total) } else { None };
        (self.lines.iter().find_map(|line| line.time), total)
    }

    /// Whether it is a rollout in which somebody worked: one that was cut behind its head has nothing to count.
    fn holds_work(&self) -> bool {
        let works = |line: &Line| {
            matches!(
                line.content,
                LineContent::Message { .. }
                    | LineContent::Call { .. }
                    | LineContent::Usage { .. }
                    | LineContent::Spent { .. }
            )
        };
        !self.is_printed && self.lines.iter().any(works)
    }

    /// The id of its thread.
    fn id(&self, own_meta: Option<LineContent>, recording: &Recording) -> String {
        match (self.key.strip_prefix(FILE), own_meta) {
            (None, _) => self.key.to_owned(),
            (Some(_), Some(LineContent::Meta { id, .. })) if !id.is_none() => recording.read(id).to_owned(),
            (Some(path), _) => stem(path).to_owned(),
        }
    }
}

impl Group {
    /// Reads the family that is asked for ([`TraceItems::part`]) of those that the items are of.
    pub(super) fn read(items: &TraceItems<'_>, recording: &mut Recording) -> Self {
        let mut reader =
            Reader { recording, statuses: Vec::new(), limits: items.limits(), runs: HashMap::new() };
        let mut streams: Vec<Stream<'_>> = Vec::new();
        let mut of_key: HashMap<&str, usize> = HashMap::new();
        for (i, item) in items.iter().enumerate() {
            let (key, is_printed) =
                item.context.split_once(STREAMED).map_or((item.context, false), |(key, _)| (key, true));
            let mut at = *of_key.entry(key).or_insert_with(|| {
                streams.push(Stream::new(key, is_printed));
                streams.len() - 1
            });
            let line = reader.line(i as u32, item, &mut streams[at].run);
            let begins = is_printed && matches!(line.content, LineContent::Meta { .. });
            if begins && !streams[at].lines.is_empty() {
                // Another run in the same file.
                let run = std::mem::take(&mut streams[at].run);
                at = streams.len();
                streams.push(Stream { run, ..Stream::new(key, true) });
                of_key.insert(key, at);
            }
            streams[at].is_printed |= is_printed;
            streams[at].lines.push(line);
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

/// Streams of one thread put together, in order of their begin; lines that several of them have are kept once.
fn threads_of(
    mut streams: Vec<Stream<'_>>,
    items: &TraceItems<'_>,
    recording: &mut Recording,
) -> Vec<Thread> {
    streams.sort_by_key(Stream::begin);
    let meta_of_stream: Vec<Option<LineContent>> =
        streams.iter().map(|stream| own_meta(stream, recording)).collect();
    let ids: Vec<String> = streams
        .iter()
        .zip(&meta_of_stream)
        .map(|(stream, meta_of_stream)| stream.id(*meta_of_stream, recording))
        .collect();
    let again = printed_again(&streams, &ids, items);
    let works = streams.iter().zip(&ids).filter(|(stream, _)| stream.holds_work());
    let with_rollout: HashSet<&str> = works.map(|(_, id)| id.as_str()).collect();
    let mut n_streams: HashMap<&str, usize> = HashMap::new();
    for id in &ids {
        *n_streams.entry(id).or_default() += 1;
    }
    let mut threads: Vec<Thread> = Vec::new();
    let mut of_id: HashMap<&str, (usize, Seen)> = HashMap::new();
    let mut printed: BTreeMap<&str, Printed> = BTreeMap::new();
    for ((stream, meta_of_stream), (id, again)) in
        streams.into_iter().zip(meta_of_stream).zip(ids.iter().zip(again))
    {
        if again {
            if with_rollout.contains(id.as_str()) {
                // The later one states all that the earlier ones state.
                printed.insert(id, Printed::of(&stream, recording));
            }
            stream.lines.iter().for_each(|line| items.duplicate(line.item as usize));
            continue;
        }
        let is_first = !of_id.contains_key(id.as_str());
        let (at, known) = of_id.entry(id).or_insert_with(|| {
            threads.push(Thread { id: recording.text(id), ..Thread::default() });
            (threads.len() - 1, Seen::default())
        });
        let thread = &mut threads[*at];
        if let Some(LineContent::Meta {
            parent, forked_from, nickname, role, path, internal, history, ..
        }) = meta_of_stream
            && thread.parent.is_none()
        {
            let before = std::mem::take(thread);
            let history = if is_first { history } else { before.history };
            *thread = Thread { parent, forked_from, nickname, role, path, internal, history, ..before };
        }
        known.n += 1;
        if n_streams[id.as_str()] == 1 {
            // The driver has already left out what one file has twice.
            thread.began = stream.lines.iter().find_map(|line| line.time);
            thread.lines = stream.lines;
            continue;
        }
        let page = stem(stream.key).rsplit_once('_').and_then(|(_, page)| super::uuid_at_end(page));
        let page = page.map_or_else(|| known.n.to_string(), str::to_owned);
        let mut lines = stream.lines;
        if !stream.is_printed {
            lines.retain(|line| {
                let is_new = known.lines.insert(items.as_slice()[line.item as usize].identity);
                if !is_new {
                    items.duplicate(line.item as usize);
                }
                is_new
            });
        }
        if lines.iter().any(|line| known.numbers.contains(&line.number)) {
            let page = recording.text(&page);
            for line in &mut lines {
                line.page = page;
            }
        }
        known.numbers.extend(lines.iter().map(|line| line.number));
        thread.began = thread.began.or_else(|| lines.iter().find_map(|line| line.time));
        thread.lines.append(&mut lines);
    }
    for (id, printed) in printed {
        threads[of_id[id].0].printed = Some(printed);
    }
    threads
}

/// What is known of a thread from streams before.
#[derive(Default)]
struct Seen {
    n: usize,
    /// What lines say, and their numbers.
    lines: HashSet<u64>,
    numbers: HashSet<u64>,
}

/// Which streams are printed copies: of a thread whose rollout is there, or of a run that another stream has, too.
fn printed_again(streams: &[Stream<'_>], ids: &[String], items: &TraceItems<'_>) -> Vec<bool> {
    let texts = |stream: &Stream<'_>| -> Vec<u64> {
        stream.lines.iter().map(|line| items.as_slice()[line.item as usize].identity).collect()
    };
    let mut again = vec![false; streams.len()];
    if streams.iter().all(|stream| !stream.is_printed) {
        return again;
    }
    let texts: Vec<Vec<u64>> = streams.iter().map(texts).collect();
    let mut of_id: HashMap<&str, Vec<usize>> = HashMap::new();
    for (i, id) in ids.iter().enumerate() {
        of_id.entry(id).or_default().push(i);
    }
    for (i, id) in ids.iter().enumerate().filter(|(i, _)| streams[*i].is_printed) {
        again[i] = of_id[id.as_str()].iter().any(|&j| {
            let is_longer = texts[j].len() > texts[i].len() || (texts[j].len() == texts[i].len() && j < i);
            streams[j].holds_work() || (j != i && is_longer && texts[j].starts_with(&texts[i]))
        });
    }
    again
}

/// The `session_meta` of the thread itself: the one with its id, else the first.
fn own_meta(stream: &Stream<'_>, recording: &Recording) -> Option<LineContent> {
    let mut metas =
        stream.lines.iter().map(|line| line.content).filter(|w| matches!(w, LineContent::Meta { .. }));
    if stream.key.starts_with(FILE) {
        return metas.next();
    }
    metas.find(|meta| matches!(meta, LineContent::Meta { id, .. } if recording.read(*id) == stream.key))
}
