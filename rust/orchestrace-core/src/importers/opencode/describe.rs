//! Conversion of sessions to a recording: each is an agent, in the order of its messages.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::NAME;
use super::session::{Message, Part, Session, sessions};
use super::usage::Stated;
use crate::error::FindingCode;
use crate::importers::TraceItems;
use crate::importers::kind::counted_as;
use crate::importers::parsed::ParsedItems;
use crate::importers::recording::{
    Agent, AgentInfo, Entry, Hash, Incoming, Party, Recording, Text, Usage, hash,
};
use crate::json::time::nanoseconds;
use crate::json::tree::Value;
use crate::schema::MeasureKind;

mod answer;
mod tasks;

use tasks::Tasks;

/// What is read of the metadata of tools.
pub(super) const READ_OF_TOOLS: [&str; 3] = ["exit", "sessionId", "sessionID"];

/// Describes sessions that belong together.
pub(super) fn describe(items: &TraceItems<'_>, parsed: &ParsedItems<'_>, recording: &mut Recording) {
    let all = sessions(items, parsed);
    let at_of: HashMap<&str, usize> = all.iter().enumerate().map(|(at, session)| (session.id, at)).collect();
    let parents: Vec<Option<usize>> =
        all.iter().map(|session| at_of.get(session.parent()?).copied()).collect();
    // Whom nobody asked; else whose parent is not there; in a circle of parents the one of the least id.
    let root = all.iter().position(|session| session.parent().is_none());
    let root = root.or(parents.iter().position(Option::is_none)).unwrap_or(0);
    let Some(first) = all.get(root) else { return };
    let missing = first.parent().filter(|_| parents[root].is_none());
    recording.trace.trace_id = recording.text(missing.unwrap_or(first.id));
    recording.trace.system = recording.text(NAME);
    let mut agents: HashMap<&str, Agent> = HashMap::new();
    let name = recording.text(NAME);
    let source_id = recording.text(missing.unwrap_or_default());
    let top = recording.agent(AgentInfo { name, source_id, ..AgentInfo::default() });
    agents.insert(missing.unwrap_or(first.id), top);
    let began = all.iter().filter_map(|session| instant(session.get("time")?.get("created")));
    let times = all.iter().flat_map(|session| &session.messages).filter_map(Message::created);
    if times.clone().next().is_some() {
        recording.trace.started_at = began.chain(times).min();
    }
    let mut order: Vec<usize> = (0..all.len()).collect();
    order.sort_by_key(|at| *at != root);
    for session in order.iter().map(|at| &all[*at]) {
        if agents.contains_key(session.id) {
            continue;
        }
        let name = recording.text(session.agent().unwrap_or_default());
        let source_id = recording.text(session.id);
        let agent = recording.agent(AgentInfo { name, source_id, parent: Some(top), ..AgentInfo::default() });
        agents.insert(session.id, agent);
    }
    for session in order.iter().map(|at| &all[*at]) {
        let agent = agents[session.id];
        let Some(id) = session.parent().filter(|_| agent != top) else { continue };
        // Of who asked this one nothing may be kept.
        let parent = agents.get(id).copied().unwrap_or_else(|| {
            let source_id = recording.text(id);
            let info = AgentInfo { source_id, parent: Some(top), ..AgentInfo::default() };
            recording.agent(info)
        });
        agents.insert(id, parent);
        recording.agent_info(agent).parent = Some(parent);
    }
    let is_lost = |id: &str| !at_of.contains_key(id);
    recording.trace.partial = items.is_partial()
        || agents.keys().any(|id| is_lost(id))
        || all.iter().flat_map(|session| &session.messages).any(|message| message.info.is_none());
    if let Some(item) = first.info.map(|(item, _)| item).or(first.messages.first().map(Message::item)) {
        items.lies_at(item as usize);
    }
    let tasks = Tasks::of(&all, &at_of, agents.clone());
    let mut telling = Telling {
        items,
        recording,
        tasks,
        agent: top,
        child: None,
        abandoned: false,
        last: Last::Nothing,
        last_response: None,
        prompts: HashMap::new(),
        misfits: BTreeMap::new(),
        timeless: 0,
        failed_quietly: 0,
    };
    for at in order {
        telling.agent = agents[all[at].id];
        telling.child = (telling.agent != top).then_some(at);
        telling.session(&all[at]);
    }
    telling.oddities(all.iter().map(|session| session.messages.len()).sum());
}

impl<'v> Session<'v> {
    /// What its agent is called, by its messages.
    fn agent(&self) -> Option<&'v str> {
        let of_message = |message: &Message<'v>| message.get("agent").or(message.get("mode"))?.some_str();
        let answers = self.messages.iter().filter(|message| !message.is_of_user());
        answers.chain(&self.messages).find_map(of_message).or_else(|| self.get("agent")?.some_str())
    }
}

impl Message<'_> {
    fn created(&self) -> Option<i64> {
        instant(self.get("time")?.get("created"))
    }

    fn completed(&self) -> Option<i64> {
        instant(self.get("time")?.get("completed"))
    }
}

/// The last thing of a conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Last {
    #[default]
    Nothing,
    Prompt,
    /// A text that may be an answer.
    Answer,
    /// Calls, some without a result, or results.
    Calls,
    /// A response that failed or was stopped, or that is being written.
    Stopped,
}

/// What is known of a prompt.
#[derive(Debug, Clone, Copy)]
struct Prompt {
    /// Whether the user said nothing of it: the program asks to use a tool.
    is_of_program: bool,
}

/// A trace during its conversion.
struct Telling<'a, 'i, 'v> {
    items: &'a TraceItems<'i>,
    recording: &'a mut Recording,
    tasks: Tasks<'v>,
    /// Whose session is told.
    agent: Agent,
    /// Its number, if somebody asked for it.
    child: Option<usize>,
    /// Whether the message of now was given up.
    abandoned: bool,
    last: Last,
    last_response: Option<Entry>,
    /// Prompts by the ids of their messages.
    prompts: HashMap<&'v str, Prompt>,
    /// Members of the wrong kind, by name.
    misfits: BTreeMap<&'static str, u32>,
    timeless: usize,
    /// Commands that completed with an exit code other than 0.
    failed_quietly: usize,
}

impl<'v> Telling<'_, '_, 'v> {
    fn session(&mut self, session: &Session<'v>) {
        (self.last, self.abandoned, self.last_response) = (Last::Nothing, false, None);
        let reverted = session.get("revert").and_then(|revert| revert.get("messageID").some_str());
        let mut answered_before = false;
        for (number, message) in (1..).zip(&session.messages) {
            self.recording.made_of(message.item());
            if number == session.messages.len() && message.is_of_user() && message.parts.is_empty() {
                // What is asked has not been written yet.
                self.skip(message);
                self.last = Last::Prompt;
                continue;
            }
            if message.after_loss {
                // Nothing is concluded from what follows a lost record.
                self.last = Last::Nothing;
            }
            // All from a message on was given up: what was said last is what stands before it.
            if reverted == Some(message.id) && !self.abandoned {
                self.abandoned = true;
                answered_before = self.last == Last::Answer;
            }
            let time = message.get("time").map(|time| time.get("created"));
            if time.is_some_and(|time| time.exists() && instant(time).is_none()) {
                self.misfit("time.created");
            }
            self.timeless += usize::from(message.created().is_none());
            if message.is_of_user() {
                self.user(message);
            } else if message.get("role").is_none_or(|role| role.str() == Some("assistant")) {
                self.answer(message);
            } else {
                self.skip(message);
            }
        }
        let is_answered = if self.abandoned { answered_before } else { self.last == Last::Answer };
        let came_back = self.child.is_some_and(|child| self.tasks.came_back(child));
        self.recording.agent_info(self.agent).open = !is_answered && !came_back;
        self.compare(session);
    }

    /// A message of a role that nobody knows, or one that says nothing.
    fn skip(&mut self, message: &Message<'v>) {
        if let Some((item, _)) = message.info {
            self.items.ignored(item as usize, "opencode.message");
        }
        for part in &message.parts {
            self.items.ignored(part.item as usize, &counted_as(NAME, part.kind));
        }
    }

    fn misfit(&mut self, name: &'static str) {
        *self.misfits.entry(name).or_default() += 1;
    }

    /// A text that may be absent.
    fn text_of(&mut self, value: Value<'v>, name: &'static str) -> &'v str {
        if value.str().is_none() && value.exists() {
            self.misfit(name);
        }
        value.str().unwrap_or_default()
    }

    fn time_of(&mut self, value: Value<'v>, name: &'static str) -> Option<i64> {
        let time = instant(value);
        if time.is_none() && value.exists() {
            self.misfit(name);
        }
        time
    }

    fn extras(&mut self) -> Text {
        let extras = Text::default();
        if self.abandoned { self.recording.extra(extras, "x_abandoned", "true") } else { extras }
    }

    /// Something said to the agent. What the program adds in the name of the user is not of the user.
    fn user(&mut self, message: &Message<'v>) {
        let (mut said, mut added) = (String::new(), String::new());
        let (mut has_said, mut has_added, mut asks_tool, mut compacts) = (false, false, false, false);
        for part in &message.parts {
            match part.kind {
                "text" if is_set(part, "ignored") => {
                    self.items.ignored(part.item as usize, "opencode.text.ignored");
                }
                "text" => {
                    let text = self.text_of(part.value.get("text"), "text");
                    let synthetic = is_set(part, "synthetic");
                    let (content, has_content) =
                        if synthetic { (&mut added, &mut has_added) } else { (&mut said, &mut has_said) };
                    content.push_str(text);
                    *has_content |= part.value.get("text").str().is_some();
                }
                "subtask" => asks_tool = true,
                "compaction" => compacts = true,
                kind => self.items.ignored(part.item as usize, &counted_as(NAME, kind)),
            }
        }
        let is_of_program = asks_tool || (has_added && !has_said);
        self.prompts.insert(message.id, Prompt { is_of_program });
        if compacts && !has_said && !has_added {
            if let Some((item, _)) = message.info {
                self.items.ignored(item as usize, "opencode.compaction");
            }
            return;
        }
        let content = has_said.then(|| hash(&said)).or_else(|| has_added.then(|| hash(&added)));
        let is_told = self.child.is_some_and(|child| {
            self.tasks.asks(child, content) || (self.last == Last::Nothing && self.tasks.is_asked(child))
        });
        if is_told {
            // The call that asked says it, too.
            for item in message.info.iter().map(|(item, _)| *item).chain(message.parts.iter().map(|p| p.item))
            {
                self.items.duplicate(item as usize);
            }
            self.last = Last::Prompt;
            return;
        }
        let parent = self.recording.agent_info(self.agent).parent.filter(|_| self.last == Last::Nothing);
        let mut extras = self.extras();
        if has_added && !has_said {
            extras = self.recording.extra(extras, "x_synthetic", "true");
        }
        let incoming = Incoming {
            id: self.recording.text(message.id),
            from: parent.map_or(Party::User, Party::Agent),
            time: message.created(),
            content,
            trusted: (!has_added || has_said).then_some(true),
            intervenes: self.last == Last::Calls && has_said && parent.is_none(),
            decides: Text::default(),
            extras,
        };
        self.recording.incoming(self.agent, incoming);
        self.last = Last::Prompt;
    }

    /// Compares what a session states of its usage with what its responses sum to.
    fn compare(&mut self, session: &Session<'v>) {
        let Some((_, info)) = session.info else { return };
        if !info.get("tokens").exists() {
            return;
        }
        let stated = Stated::of(info);
        for name in &stated.misfits {
            self.misfit(name);
        }
        let usages: Vec<Usage> = self.recording.usages_of(self.agent).collect();
        let sum = usages.iter().filter_map(Usage::total).fold(0_i64, i64::saturating_add);
        if let Some(total) = stated.usage.total().filter(|total| *total != sum) {
            self.recording.other_total(
                self.last_response,
                Some(self.agent),
                total,
                sum,
                ("a session states", "its responses"),
            );
            self.reports("x_reported_tokens", &total.to_string());
        }
        let cost: f64 = usages.iter().filter_map(|usage| usage.cost_usd).sum();
        if let Some(total) = stated.usage.cost_usd.filter(|total| (total - cost).abs() > 1e-9 * total.abs()) {
            let message = format!("a session states {total} USD, its responses cost {cost}, which is used");
            self.recording.finding(FindingCode::UsageConflict, self.last_response, message);
            self.reports("x_reported_cost_usd", &total.to_string());
        }
    }

    /// Keeps what a session states on its last response.
    fn reports(&mut self, key: &str, number: &str) {
        let Some(entry) = self.last_response else {
            if let Ok(number) = number.parse() {
                self.recording.measure(MeasureKind::Metric, key.trim_start_matches("x_"), number);
            }
            return;
        };
        let extras = self.recording.response_mut(entry).map(|response| response.extras).unwrap_or_default();
        let extras = self.recording.extra(extras, key, number);
        if let Some(response) = self.recording.response_mut(entry) {
            response.extras = extras;
        }
    }

    /// What the tables have no place for.
    fn oddities(self, messages: usize) {
        if self.timeless > 0 && self.timeless < messages {
            let message = format!(
                "messages without a readable time: {}; they have that of the message before",
                self.timeless
            );
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
        if self.failed_quietly > 0 {
            let message = format!(
                "commands that completed with an exit code other than 0: {}; 'ok' is their status, 'x_exit_code' the code",
                self.failed_quietly
            );
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
        for (name, n) in self.misfits {
            let message = format!("'{name}' is of the wrong type in {n} places; it is null there");
            self.recording.finding(FindingCode::FieldIgnored, None, message);
        }
    }
}

/// Whether a flag of a part is set.
fn is_set(part: &Part<'_>, flag: &str) -> bool {
    part.value.get(flag).bool() == Some(true)
}

/// A time in nanoseconds since the epoch, from milliseconds.
fn instant(value: Value<'_>) -> Option<i64> {
    nanoseconds(value, 6).filter(|time| *time > 0)
}

/// Hashes of prompts, by the number of the session that they are for.
type PromptHashes = HashMap<usize, HashSet<Hash>>;
