//! Streams of a session: its lines by agent, and the call that made each agent work.

use hashbrown::{HashMap, HashSet};

use super::super::recording::Hash;
use super::record::{Act, Block, Code, Line, LineContent, Meta, Outcome, Records, Use};
use crate::importers::TraceItems;

/// Lines of one agent.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// Id of the agent; 0 for the main one, and for those that are recorded within the file of another.
    pub id: Code,
    /// Numbers of its lines, in order.
    pub lines: Vec<u32>,
    /// Run of a workflow that it works in.
    pub run: Code,
    /// The line of the prompt that it began with, and the hash of that.
    pub first: Option<u32>,
    pub prompt: Option<Hash>,
    /// The record that it hangs on, in the file of another.
    pub hangs_on: Code,
    /// The call that made it work: a block.
    pub call: Option<u32>,
    /// The stream of that call.
    pub caller: usize,
    pub began: Option<i64>,
    /// Whether it is the session of a teammate.
    pub is_member: bool,
}

/// What is known of a call.
#[derive(Debug, Clone, Copy)]
pub(super) struct Called {
    pub tool: Code,
    /// Its block.
    pub block: u32,
}

/// All streams of a session, the main one first.
#[derive(Debug, Default)]
pub(super) struct Streams {
    pub list: Vec<Stream>,
    /// Calls by id, and the results that are not mere launches.
    pub calls: HashMap<Code, Called>,
    /// Which stream each delegating call made work, by its block.
    pub child_of: HashMap<u32, usize>,
    /// Agent that a delegating call names although it has no stream.
    pub silent_of: HashMap<u32, Code>,
    /// Blocks of calls that were refused before anybody worked.
    pub failed: Vec<u32>,
}

/// One delegating call.
struct Delegation {
    block: u32,
    call: Use,
    /// The record that holds it, and the stream of that.
    record: Code,
    stream: usize,
}

/// What a stream and the call that made it work have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Clue {
    Prompt(Hash),
    /// The record that the stream hangs on holds the call.
    Record(Code),
    Description(Code),
    Kind(Code),
}

/// Clues from the surest on; what is not recorded is none.
type Clues = [Option<Clue>; 4];

impl Clue {
    fn of(code: Code, clue: fn(Code) -> Self) -> Option<Self> {
        (code != 0).then(|| clue(code))
    }
}

impl Stream {
    fn clues(&self, meta: Option<&Meta>) -> Clues {
        [
            self.prompt.map(Clue::Prompt),
            Clue::of(self.hangs_on, Clue::Record),
            Clue::of(meta.map_or(0, |meta| meta.about), Clue::Description),
            Clue::of(meta.map_or(0, |meta| meta.kind), Clue::Kind),
        ]
    }
}

impl Delegation {
    fn clues(&self) -> Clues {
        let record = Clue::of(self.record, Clue::Record);
        let Act::Delegate { prompt, about, kind, .. } = self.call.act else {
            return [None, record, None, None];
        };
        let (about, kind) = (Clue::of(about, Clue::Description), Clue::of(kind, Clue::Kind));
        [prompt.map(Clue::Prompt), record, about, kind]
    }
}

impl Streams {
    pub(super) fn of(items: &TraceItems<'_>, records: &Records) -> Self {
        let mut streams = Self { list: split(items, records), ..Self::default() };
        let mut delegations = Vec::new();
        let mut outcomes: HashMap<Code, u32> = HashMap::new();
        for (at_stream, stream) in streams.list.iter().enumerate() {
            for line in stream.lines.iter().map(|at| &records.lines[*at as usize]) {
                let range = match &line.content {
                    LineContent::Assistant(assistant) => assistant.blocks,
                    LineContent::User(user) => user.blocks,
                    _ => continue,
                };
                for (block, at) in records.blocks(range).iter().zip(range.0..) {
                    match block {
                        Block::Use(call) => {
                            let called = Called { tool: call.tool, block: at };
                            streams.calls.entry(call.id).or_insert(called);
                            if matches!(call.act, Act::Delegate { .. }) {
                                delegations.push(Delegation {
                                    block: at,
                                    call: *call,
                                    record: line.uuid,
                                    stream: at_stream,
                                });
                            }
                        }
                        Block::Outcome(outcome) if outcome.call != 0 => {
                            outcomes.entry(outcome.call).or_insert(at);
                        }
                        _ => {}
                    }
                }
            }
        }
        streams.calls.remove(&0);
        streams.link(records, &delegations, &outcomes);
        streams
    }

    /// Finds who works for which call: by what the result, the file beside the stream or the progress says; else by
    /// the prompt, by where it hangs, by the description, or by its type.
    fn link(&mut self, records: &Records, delegations: &[Delegation], outcomes: &HashMap<Code, u32>) {
        let by_id: HashMap<Code, usize> = self
            .list
            .iter()
            .enumerate()
            .skip(1)
            .filter(|(_, s)| s.id != 0)
            .map(|(at, s)| (s.id, at))
            .collect();
        let outcome = |call: Code| match outcomes.get(&call).map(|at| &records.blocks[*at as usize]) {
            Some(Block::Outcome(outcome)) => Some(&**outcome),
            _ => None,
        };
        let of_meta = firsts(records.metas.iter().map(|meta| (meta.call, meta.agent)));
        let works_for = firsts(records.works_for.iter().copied());
        let mut left = Vec::new();
        for delegation in delegations {
            let call = delegation.call.id;
            let result = outcome(call);
            let resumes = match delegation.call.act {
                Act::Delegate { resumes, .. } => resumes,
                _ => 0,
            };
            let meta = of_meta.get(&call).copied();
            let seen = works_for.get(&call).copied();
            let named = result.map(|r| if r.agent == 0 { r.agent_said } else { r.agent });
            // Printed lines name an agent by its call.
            let by_call = by_id.contains_key(&call).then_some(call);
            let ids = [by_call, named, meta, seen, Some(resumes)];
            let id = ids.into_iter().flatten().find(|id| *id != 0);
            match id.map(|id| (id, by_id.get(&id))) {
                Some((_, Some(&stream))) => self.claim(delegation, stream),
                Some((id, None)) => {
                    self.silent_of.insert(delegation.block, id);
                }
                None if result.is_some_and(|r: &Outcome| r.failed || r.refused) => {
                    self.failed.push(delegation.block);
                }
                None => left.push(delegation),
            }
        }
        self.link_by_clues(records, left);
    }

    /// Finds who works for the calls that are left, by one clue after the other; the first of several streams.
    fn link_by_clues(&mut self, records: &Records, mut left: Vec<&Delegation>) {
        for clue in 0..Clues::default().len() {
            if left.is_empty() {
                return;
            }
            let mut free: HashMap<Clue, Vec<usize>> = HashMap::new();
            for (at, stream) in self.list.iter().enumerate().skip(1).rev() {
                let is_free = stream.call.is_none() && stream.run == 0;
                if let Some(clue) = stream.clues(records.meta_of(stream.id))[clue].filter(|_| is_free) {
                    free.entry(clue).or_default().push(at);
                }
            }
            left.retain(|delegation| {
                let stream = delegation.clues()[clue].and_then(|clue| free.get_mut(&clue)?.pop());
                if let Some(stream) = stream {
                    self.claim(delegation, stream);
                }
                stream.is_none()
            });
        }
    }

    fn claim(&mut self, delegation: &Delegation, stream: usize) {
        self.child_of.insert(delegation.block, stream);
        if self.list[stream].call.is_none() {
            self.list[stream].call = Some(delegation.block);
            self.list[stream].caller = delegation.stream;
        }
    }
}

/// The first value of each code that is not 0.
fn firsts(pairs: impl Iterator<Item = (Code, Code)>) -> HashMap<Code, Code> {
    let mut firsts = HashMap::new();
    for (of, value) in pairs.filter(|(of, _)| *of != 0) {
        firsts.entry(of).or_insert(value);
    }
    firsts
}

/// Lines by agent; sub-agents in order of their first times.
fn split(items: &TraceItems<'_>, records: &Records) -> Vec<Stream> {
    let mut list = vec![Stream::default()];
    let mut by_id: HashMap<Code, usize> = HashMap::new();
    // Before sub-agents had files of their own their lines hung together by links alone.
    let mut inline_of: HashMap<Code, usize> = HashMap::new();
    let mut last_inline: Option<(u32, usize)> = None;
    let inline = |line: &Line| line.sidechain && line.agent == 0;
    let mut main: HashSet<Code> = HashSet::new();
    if records.lines.iter().any(inline) {
        main.extend(records.lines.iter().filter(|line| !line.sidechain).map(|line| line.uuid));
    }
    for (at, line) in records.lines.iter().enumerate() {
        let stream = match (line.sidechain, line.agent) {
            (false, 0) => 0,
            (true, 0) => {
                let parent = records.parents.get(line.uuid as usize).copied().unwrap_or(0);
                let continues = last_inline.filter(|(file, _)| *file == line.file).map(|(_, stream)| stream);
                let prompt = matches!(&line.content, LineContent::User(user) if user.text.prompt.is_some());
                let in_main = parent != 0 && main.contains(&parent);
                let stream = inline_of.get(&parent).copied().filter(|_| parent != 0);
                let stream = stream.or(continues.filter(|_| !prompt && !in_main)).unwrap_or_else(|| {
                    list.push(Stream { hangs_on: parent, ..Stream::default() });
                    list.len() - 1
                });
                inline_of.insert(line.uuid, stream);
                last_inline = Some((line.file, stream));
                stream
            }
            (_, id) => *by_id.entry(id).or_insert_with(|| {
                list.push(Stream { id, ..Stream::default() });
                list.len() - 1
            }),
        };
        list[stream].lines.push(at as u32);
        list[stream].is_member |= line.is_member;
        if list[stream].run == 0 {
            list[stream].run = line.run;
        }
    }
    for (at, stream) in list.iter_mut().enumerate() {
        order(stream, items, records);
        let lines = stream.lines.iter().map(|line| (&records.lines[*line as usize], *line));
        stream.began = lines.clone().filter_map(|(line, _)| line.time).min();
        let mut openings = lines.filter_map(|(line, at)| match &line.content {
            LineContent::User(user) if !user.meta => Some((Some(*user), at)),
            LineContent::Assistant(_) => Some((None, at)),
            _ => None,
        });
        if let (true, Some((Some(user), line))) = (at > 0, openings.next())
            // A fork begins with what its parent's call gave back, and its task.
            && ((records.forks.contains(&stream.id) && user.text.prompt.is_some())
                || !records.blocks(user.blocks).iter().any(|block| matches!(block, Block::Outcome(_))))
        {
            (stream.first, stream.prompt) = (Some(line), user.text.prompt);
        }
    }
    let lead = list.remove(0);
    list.sort_by(|a, b| (a.began, records.names.name(a.id)).cmp(&(b.began, records.names.name(b.id))));
    list.insert(0, lead);
    list
}

/// The order of a stream is that of its file. Lines of several files are merged by time, none of them reordered;
/// which come first where times are equal follows from what they say, not from which file was read first.
fn order(stream: &mut Stream, items: &TraceItems<'_>, records: &Records) {
    let file = |at: u32| records.lines[at as usize].file;
    let Some(first) = stream.lines.first().map(|at| file(*at)) else { return };
    if stream.lines.iter().all(|at| file(*at) == first) {
        return;
    }
    // Latest time so far of each file, and what its first line of that time says.
    let mut runs: HashMap<u32, (Option<i64>, u64)> = HashMap::new();
    let mut keyed: Vec<((Option<i64>, u64), u32)> = Vec::with_capacity(stream.lines.len());
    for at in &stream.lines {
        let line = &records.lines[*at as usize];
        let run = runs.entry(line.file).or_insert_with(|| (None, line.digest(items)));
        if line.time > run.0 {
            *run = (line.time, line.digest(items));
        }
        keyed.push((*run, *at));
    }
    keyed.sort_by_key(|(run, _)| *run);
    stream.lines = keyed.into_iter().map(|(_, at)| at).collect();
}
