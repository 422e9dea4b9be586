//! The record of each line, taken from its tree, with numbers for ids and hashes for texts.

use std::cell::OnceCell;

use hashbrown::{HashMap, HashSet};
use sha2::{Digest, Sha256};

use super::super::recording::{Hash, Recording, Text, Usage, hash};
use super::empty_record::Aside;
use super::printed::{self, Total};
use super::twice::Content;
use super::{agent_of, copies, run_of};
use crate::columns::intern::Interner;
use crate::error::FindingCode;
use crate::importers::TraceItems;
use crate::json::identity::identity;
use crate::json::keys::Keys;
use crate::json::time::parse_timestamp;
use crate::json::tree::{Tree, Value};

/// Number of an id or name; 0 stands for none.
pub(super) type Code = u32;

/// All records of a session.
#[derive(Debug, Default)]
pub(super) struct Records {
    pub names: Interner,
    pub lines: Vec<Line>,
    pub blocks: Vec<Block>,
    /// The record before each record, by the code of its `uuid`.
    pub parents: Vec<Code>,
    pub metas: Vec<Meta>,
    /// The first file beside the stream of each agent: its place among all.
    meta_of: HashMap<Code, u32>,
    pub journal: Vec<Journal>,
    /// What the program printed at the end.
    pub totals: Vec<Total>,
    /// Which call an agent was seen to work for: call, agent.
    pub works_for: Vec<(Code, Code)>,
    /// The session of the agent that leads.
    pub lead: Code,
    /// Agents whose files begin with copies of another stream.
    pub forks: HashSet<Code>,
    /// Earliest time of what is used.
    pub began: Option<i64>,
}

/// A line that says something.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools)] // independent facts about a line
pub(super) struct Line {
    pub item: u32,
    pub file: u32,
    pub time: Option<i64>,
    pub uuid: Code,
    pub agent: Code,
    pub sidechain: bool,
    /// Whether it is of the session of a teammate.
    pub is_member: bool,
    /// Run of the workflow that its file belongs to.
    pub run: Code,
    pub abandoned: bool,
    /// Whether its file lacks a record before it that says something, as far as is known.
    pub after_loss: bool,
    /// Whether it says that it repeats a record of what it was forked from, and the id of that.
    pub forked: bool,
    pub from: Code,
    /// Where in its item is what it says, and a hash of that, once somebody asked.
    span_of_text: (u32, u32),
    digest: OnceCell<u64>,
    pub content: LineContent,
}

impl Line {
    /// Of what it says, to order what has no other order.
    pub(super) fn digest(&self, items: &TraceItems<'_>) -> u64 {
        *self.digest.get_or_init(|| digest(items, self.item, self.span_of_text))
    }
}

pub(super) fn digest(items: &TraceItems<'_>, item: u32, (start, end): (u32, u32)) -> u64 {
    let text = items.as_slice()[item as usize].text;
    identity(text.get(start as usize..end as usize).unwrap_or_default())
}

#[derive(Debug)]
pub(super) enum LineContent {
    Assistant(Assistant),
    User(User),
    /// The context was compacted.
    Boundary,
    /// A hook objected.
    Blocked {
        tool: Text,
        content: Hash,
    },
    /// Something typed while the agent works, and where it went.
    Queue {
        enqueues: bool,
        removes: bool,
        user: User,
    },
    /// Something that reached the agent while it works.
    Queued(User),
}

#[derive(Debug)]
pub(super) struct Assistant {
    /// Response that the line is part of: message and request.
    pub response: Code,
    /// Id of the message.
    pub id: Code,
    /// Whether its ids distinguish it from all others, and the trace that it counts in, if that is another one.
    pub is_known: bool,
    pub counts_in: Code,
    pub model: Text,
    pub usage: Usage,
    /// Type of the agent, if the line records it.
    pub agent_type: Code,
    pub calls_tools: bool,
    /// Whether the line says why the response ended.
    pub ends: Ends,
    /// Made by the client, not by a model.
    pub synthetic: bool,
    pub blocks: (u32, u32),
}

/// Whether a line is the last state of its response.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Ends {
    /// The line has no place for it.
    #[default]
    Unknown,
    No,
    Yes,
}

/// What another model did for a response.
#[derive(Debug)]
pub(super) struct Side {
    /// What the source calls it.
    pub kind: Code,
    pub model: Text,
    pub usage: Usage,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct User {
    /// Written by the program for the model alone.
    pub meta: bool,
    pub text: UserText,
    pub blocks: (u32, u32),
}

/// What a text of the user's side is.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct UserText {
    /// Hash of what was typed.
    pub prompt: Option<Hash>,
    /// Whether it says that the user broke in.
    pub interrupts: bool,
}

#[derive(Debug)]
pub(super) enum Block {
    Text(Text),
    Use(Use),
    Outcome(Box<Outcome>),
    /// A message of a teammate.
    Teammate {
        from: Code,
        content: Hash,
    },
    /// Work in the background ended.
    Notice {
        task: Code,
        /// The call that began it.
        call: Code,
        content: Option<Hash>,
        /// Tokens of the last response of the agent that did it.
        tokens: Option<i64>,
        failed: bool,
    },
    Side(Box<Side>),
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Use {
    pub id: Code,
    pub tool: Code,
    pub content: Hash,
    pub act: Act,
}

/// What a call asks for, as far as it is not a tool like others.
#[derive(Debug, Clone, Copy)]
pub(super) enum Act {
    Tool,
    Delegate {
        name: Code,
        kind: Code,
        about: Code,
        resumes: Code,
        prompt: Option<Hash>,
    },
    Send {
        to: Code,
        ends: bool,
        content: Hash,
    },
    Workflow,
    /// Waits for work in the background.
    Waits {
        task: Code,
    },
    /// Gives the answer of the agent, in a form that was asked for.
    Answer {
        content: Hash,
    },
}

/// What a call gave back.
#[derive(Debug)]
pub(super) struct Outcome {
    pub call: Code,
    pub content: Hash,
    pub failed: bool,
    /// Whether the user refused.
    pub refused: bool,
    pub duration_s: Option<f64>,
    /// Agent that did the work, by its id: from a field, and from the text.
    pub agent: Code,
    pub agent_said: Code,
    pub agent_type: Code,
    /// Whether work in the background has begun.
    pub launched: bool,
    /// Run of a workflow, and the task that it is in the background.
    pub run: Code,
    pub task: Code,
    /// Agent that a message made work again.
    pub resumed: Code,
    /// Work in the background that has ended.
    pub ended: Code,
    pub tokens: Option<i64>,
    pub tools: Option<i64>,
}

/// What the small file beside a sub-agent's says.
#[derive(Debug)]
pub(super) struct Meta {
    pub item: u32,
    pub agent: Code,
    pub kind: Code,
    pub about: Code,
    pub call: Code,
}

/// A line of a workflow's journal.
#[derive(Debug)]
pub(super) struct Journal {
    pub item: u32,
    pub agent: Code,
    pub run: Code,
    pub result: Option<Hash>,
}

impl Records {
    /// The first file beside the stream of an agent.
    pub(super) fn meta_of(&self, agent: Code) -> Option<&Meta> {
        let place = self.meta_of.get(&agent).filter(|_| agent != 0)?;
        self.metas.get(*place as usize)
    }

    pub(super) fn read(items: &TraceItems<'_>, recording: &mut Recording) -> Self {
        let mut records = Self::default();
        records.code("");
        // What models wrote is kept until it is known which of it belongs together.
        recording.reserve(items.len(), items.iter().map(|item| item.text.len()).sum::<usize>() / 4);
        let n_lines = items.iter().filter(|item| Aside::of(item.text).is_none()).count();
        records.lines.reserve(n_lines);
        records.blocks.reserve(n_lines);
        // Each item has an id as a rule, and one that says something that of a call or a response.
        let names = items.len() + n_lines;
        records.names.reserve(names, 32 * names);
        records.parents.reserve(names);
        let mut reader = Reader {
            recording,
            first: Vec::with_capacity(names),
            contents: HashMap::new(),
            replaced: HashSet::new(),
            copies: Vec::new(),
            file: 0,
            agent: 0,
            run: 0,
            unknown_tokens: HashMap::new(),
            sha: Sha256::new(),
        };
        let mut path = None;
        // Whether a record is lost before the next line of this file.
        let mut lost = false;
        for (i, item) in items.iter().enumerate() {
            if path != Some(item.path) {
                lost = false;
                reader.file += u32::from(path.is_some());
                reader.agent = agent_of(item.path).map_or(0, |agent| records.code(agent));
                reader.run = run_of(item.path).map_or(0, |run| records.code(run));
                path = Some(item.path);
            }
            lost |= item.after_loss;
            if let Some(aside) = Aside::of(item.text) {
                let [uuid, parent] = [aside.uuid, aside.parent].map(|id| records.code(id));
                records.link(uuid, parent);
                items.ignored(i, aside.kind);
                continue;
            }
            match Tree::parse(item.text, items.limits()) {
                Ok(tree) => {
                    if tree.is_replaced() {
                        let message = "a surrogate without its other half was replaced by U+FFFD";
                        reader.recording.finding(FindingCode::Utf8Replaced, None, message);
                    }
                    let position = records.lines.len();
                    reader.line(&mut records, items, i, tree.root());
                    if let Some(line) = records.lines.get_mut(position) {
                        line.after_loss = std::mem::take(&mut lost);
                    }
                }
                // Each was read to its end when it was put.
                Err(_) => items.ignored(i, "claude_code.unreadable"),
            }
        }
        if !reader.replaced.is_empty() {
            let mut place = 0..;
            records.lines.retain(|_| place.next().is_none_or(|place| !reader.replaced.contains(&place)));
        }
        reader.copies(&mut records, items);
        reader.unknown_usage(&records);
        copies::leave_out(items, &mut records);
        records.began = records.lines.iter().filter_map(|line| line.time).min();
        records
    }

    pub(super) fn code(&mut self, name: &str) -> Code {
        let code = self.names.code(name);
        if code as usize >= self.parents.len() {
            self.parents.resize(code as usize + 1, 0);
        }
        code
    }

    pub(super) fn code_of(&mut self, value: Value<'_>) -> Code {
        value.str().map_or(0, |name| self.code(name))
    }

    /// Remembers the record before this one; of several the one with the least name, whichever came first.
    fn link(&mut self, uuid: Code, parent: Code) {
        let parent_before = self.parents[uuid as usize];
        if uuid != 0
            && parent != 0
            && (parent_before == 0 || self.names.name(parent) < self.names.name(parent_before))
        {
            self.parents[uuid as usize] = parent;
        }
    }

    pub(super) fn blocks(&self, range: (u32, u32)) -> &[Block] {
        &self.blocks[range.0 as usize..range.1 as usize]
    }
}

/// What the agent that leads a team is called there.
pub(super) const LEADS: [&str; 3] = ["main", "team-lead", "lead"];

pub(super) struct Reader<'r> {
    pub(super) recording: &'r mut Recording,
    /// Item and place of the first content of each id; most have one.
    pub(super) first: Vec<Content>,
    /// All contents of the ids that came again, and the line of each.
    pub(super) contents: HashMap<(Code, u64), u32>,
    /// Lines in place of which others are used.
    pub(super) replaced: HashSet<u32>,
    /// Lines of children that their parents' files repeat.
    copies: Vec<Line>,
    file: u32,
    /// What the path of the file says: the agent, and the run of a workflow.
    pub(super) agent: Code,
    run: Code,
    /// Tokens under names that no rule knows: the most of each response.
    pub(super) unknown_tokens: HashMap<(Code, Code), i64>,
    pub(super) sha: Sha256,
}

/// Outermost members of a line, or of the line that it carries, found in one walk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields<'t> {
    pub kind: Value<'t>,
    pub uuid: Value<'t>,
    pub time: Value<'t>,
    pub message: Value<'t>,
    pub request: Value<'t>,
    pub result: Value<'t>,
    pub is_meta: Value<'t>,
    pub is_summary: Value<'t>,
    pub cost: Value<'t>,
    pub agent_type: Value<'t>,
    pub is_error: Value<'t>,
    parent: Value<'t>,
    parent_before: Value<'t>,
    pub is_sidechain: Value<'t>,
    pub agent: Value<'t>,
    session: Value<'t>,
    team: Value<'t>,
    member: Value<'t>,
    pub forked: Value<'t>,
}

pub(super) static FIELDS: Keys<19> = Keys::new([
    "type",
    "uuid",
    "timestamp",
    "message",
    "requestId",
    "toolUseResult",
    "isMeta",
    "isCompactSummary",
    "costUSD",
    "attributionAgent",
    "isApiErrorMessage",
    "parentUuid",
    "logicalParentUuid",
    "isSidechain",
    "agentId",
    "sessionId",
    "teamName",
    "agentName",
    "forkedFrom",
]);

impl<'t> Fields<'t> {
    fn of(record: Value<'t>) -> Self {
        let [
            kind,
            uuid,
            time,
            message,
            request,
            result,
            is_meta,
            is_summary,
            cost,
            agent_type,
            is_error,
            rest @ ..,
        ] = record.pick(&FIELDS);
        let [parent, parent_before, is_sidechain, agent, session, team, member, forked] = rest;
        Self {
            kind,
            uuid,
            time,
            message,
            request,
            result,
            is_meta,
            is_summary,
            cost,
            agent_type,
            is_error,
            parent,
            parent_before,
            is_sidechain,
            agent,
            session,
            team,
            member,
            forked,
        }
    }
}

impl Reader<'_> {
    fn line(&mut self, records: &mut Records, items: &TraceItems<'_>, i: usize, root: Value<'_>) {
        let item = items.as_slice()[i];
        let fields = Fields::of(root);
        let uuid = records.code_of(fields.uuid);
        let has_parent = fields.parent.exists();
        let parent = records.code_of(if has_parent { fields.parent } else { fields.parent_before });
        let kind = fields.kind.str().unwrap_or_default();
        match kind {
            "" => {
                let meta = Meta {
                    item: i as u32,
                    agent: records.code(item.context),
                    kind: records.code_of(root.get("agentType")),
                    about: records.code_of(root.get("description")),
                    call: records.code_of(root.get("toolUseId")),
                };
                records.meta_of.entry(meta.agent).or_insert(records.metas.len() as u32);
                records.metas.push(meta);
            }
            "started" | "result" => {
                let result = root.get("result");
                let entry = Journal {
                    item: i as u32,
                    agent: records.code_of(fields.agent),
                    run: records.code(item.context),
                    result: (kind == "result").then(|| hash(result.str().unwrap_or_else(|| result.raw()))),
                };
                records.journal.push(entry);
            }
            printed::RESULT => records.totals.push(Total::of(root)),
            "progress" => {
                let copy = root.path(&["data", "message"]);
                let agent = records.code_of(root.path(&["data", "agentId"]));
                let call = records.code_of(root.get("parentToolUseID"));
                if agent != 0 && call != 0 {
                    records.works_for.push((call, agent));
                }
                records.link(uuid, parent);
                let carried = Fields::of(copy);
                let uuid = records.code_of(carried.uuid);
                let kind = carried.kind.str().unwrap_or_default();
                let line = self.line_of_speech((&mut *records, items), i, root, (uuid, &carried), kind);
                let line = line.map(|line| Line { time: line.time.or_else(|| time_of(fields.time)), ..line });
                match line {
                    Some(line) => self.copies.push(Line { agent, sidechain: true, run: 0, ..line }),
                    None => items.ignored(i, "claude_code.progress.agent_progress"),
                }
            }
            _ => {
                let content = if kind == "user" || kind == "assistant" { fields.message } else { root };
                let place = records.lines.len() as u32;
                let repeated = self.repeated(items, uuid, (i as u32, content.span()), place);
                let repeated = repeated.map(|known| (known, self.is_nearer(records, &fields, uuid, known)));
                if let Some((known, is_nearer)) = repeated {
                    self.begins_with(records, &fields, known, is_nearer);
                    if !is_nearer {
                        items.duplicate(i);
                        return;
                    }
                }
                records.link(uuid, parent);
                let Some(mut line) =
                    self.line_of_speech((&mut *records, items), i, root, (uuid, &fields), kind)
                else {
                    items.ignored(i, "claude_code.empty");
                    return;
                };
                if let Some((known, _)) = repeated {
                    items.duplicate(records.lines[known as usize].item as usize);
                    self.replaced.insert(known);
                    let digest = digest(items, i as u32, content.span());
                    self.contents.insert((uuid, digest), place);
                }
                line.span_of_text = content.span();
                line.sidechain = fields.is_sidechain.bool() == Some(true);
                if line.sidechain {
                    let agent = records.code_of(fields.agent);
                    line.agent = if agent == 0 { self.agent } else { agent };
                    line.run = self.run;
                } else if fields.team.exists()
                    && fields.member.str().is_some_and(|name| !LEADS.contains(&name))
                {
                    line.agent = records.code_of(fields.member);
                    line.is_member = true;
                } else if records.lead == 0 {
                    records.lead = records.code_of(fields.session);
                }
                records.lines.push(line);
            }
        }
    }

    /// Lines that only a parent's file has.
    fn copies(&mut self, records: &mut Records, items: &TraceItems<'_>) {
        let ids: HashSet<Code> = records.lines.iter().map(|line| line.uuid).filter(|id| *id != 0).collect();
        let mut seen = HashSet::new();
        for line in self.copies.drain(..) {
            if line.uuid != 0 && (ids.contains(&line.uuid) || !seen.insert(line.uuid)) {
                items.duplicate(line.item as usize);
            } else {
                records.lines.push(line);
            }
        }
    }

    /// `root` is the line, `record` what it says itself or carries, with the code of its id. What is read here of the
    /// line of a user or model has to be known to `head`, which drops what nobody reads.
    fn line_of_speech(
        &mut self,
        (records, items): (&mut Records, &TraceItems<'_>),
        i: usize,
        root: Value<'_>,
        (uuid, record): (Code, &Fields<'_>),
        kind: &str,
    ) -> Option<Line> {
        let content = match kind {
            "assistant" => LineContent::Assistant(self.assistant(records, items, record)),
            "user" => LineContent::User(self.user(records, record)),
            "system" if root.get("subtype").str() == Some("compact_boundary") => LineContent::Boundary,
            "system" => LineContent::Blocked {
                tool: Text::default(),
                content: hash(root.get("stopReason").str().unwrap_or_default()),
            },
            "attachment" => self.attachment(records, root.get("attachment")),
            "queue-operation" => {
                let operation = root.get("operation").str();
                LineContent::Queue {
                    enqueues: operation == Some("enqueue"),
                    removes: operation == Some("remove"),
                    user: self.typed(records, root.get("content")),
                }
            }
            _ => return None,
        };
        let time = time_of(record.time);
        if time.is_none() && record.time.exists() {
            self.recording.finding(FindingCode::FieldIgnored, None, "'timestamp' is not a time");
        }
        Some(Line {
            item: i as u32,
            file: self.file,
            time,
            uuid,
            agent: 0,
            sidechain: false,
            is_member: false,
            run: 0,
            abandoned: false,
            after_loss: false,
            forked: record.forked.exists(),
            from: records.code_of(record.forked.get("messageUuid")),
            span_of_text: record.message.span(),
            digest: OnceCell::new(),
            content,
        })
    }

    fn attachment(&mut self, records: &mut Records, attachment: Value<'_>) -> LineContent {
        if attachment.get("type").str() == Some("queued_command") {
            return LineContent::Queued(self.typed(records, attachment.get("prompt")));
        }
        let hook = attachment.get("hookName").str().unwrap_or_default();
        let tool = hook.split_once(':').map_or("", |(_, tool)| tool);
        let objection = attachment.get("blockingError");
        let text = objection.get("blockingError").str().or(objection.str());
        LineContent::Blocked {
            tool: self.recording.text(tool),
            content: hash(text.unwrap_or_else(|| objection.raw())),
        }
    }
}

fn time_of(written: Value<'_>) -> Option<i64> {
    written.str().and_then(parse_timestamp)
}
