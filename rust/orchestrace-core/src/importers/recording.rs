//! A foreign recording before graph construction: agents, responses, calls and results, in source order.
//!
//! Importers describe; [`Recording::write`] alone makes events and edges of it, so that every format yields the same
//! kind of trace (docs/reference/importer-rules.md, R1 to R9). Texts lie in one buffer, entries in one list: what is
//! described costs no allocation of its own.
//!
//! A *stream* is what one agent said and received, in the order of its source. The order in a stream is kept whatever
//! its times say; streams are merged by time, ties in the order of description.

use memchr::memmem;
use sha2::{Digest, Sha256};

use crate::columns::gate;
use crate::columns::gate::Bound;
use crate::columns::usage::Counts;
use crate::columns::writer;
use crate::error::FindingCode;
use crate::json::tree::{Tree, Value, canonical};
use crate::json::{Limits, write_string};
use crate::schema::{AgentKind, EdgeType, EventField, EventType, MeasureKind, TimeBasis, Topology};

mod answers;
mod beside;
mod emission;
mod order;
mod plan;
mod result;
#[cfg(test)]
mod tests;
mod totals;

pub(crate) use beside::{Beside, Stated, set_aside, shown_path};

/// Members that events have of what is described in other words.
pub(super) const OWN_EXTRAS: [&str; 2] = ["x_agent_id", "x_gen"];

/// Of texts that were read and judged before.
const LENIENT: Limits = Limits { depth: usize::MAX, string: usize::MAX, lenient: true };
const STRICT: Limits = Limits { lenient: false, ..LENIENT };

/// A text of the recording; the default is the empty one, which stands for none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Text {
    start: u32,
    end: u32,
}

impl Text {
    /// Whether it stands for none.
    #[must_use]
    pub fn is_none(self) -> bool {
        self.start == self.end
    }
}

/// An agent of the recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Agent(u32);

/// Something that was described, to point at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Entry(u32);

/// SHA-256 of a content.
pub type Hash = [u8; 32];

/// Who an agent is.
#[derive(Debug, Clone, Copy, Default)]
pub struct AgentInfo {
    /// Name that it is known by; its second bearer becomes `name#2`, in order of first appearance (R1). Where there is
    /// none the source's id serves.
    pub name: Text,
    /// Id in the source: `x_agent_id` on its spawn and on its first event.
    pub source_id: Text,
    /// Role, where the source says one (R2).
    pub role: Text,
    /// Whether its policy is trained, where the source says so.
    pub trainable: Option<bool>,
    /// Who spawned it.
    pub parent: Option<Agent>,
    /// When it was asked, where nothing records how: nanoseconds since the epoch.
    pub began: Option<i64>,
    /// Whether its stream goes on beyond the recording: its last text is then no answer.
    pub open: bool,
    /// Whether the program started it on its own: nobody asked, so its last text answers nobody.
    pub unasked: bool,
    /// What it is where that is not of the team, which its role then says (D4). The last text to a stand-in for the
    /// user is the answer of the run.
    pub outside: Option<AgentKind>,
}

/// Who takes part in what comes from outside of the agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Party {
    /// A human.
    User,
    /// An agent of the recording.
    Agent(Agent),
    /// Something that is neither, such as a memory, by its name.
    Named(Text),
}

/// One answer of a model.
#[derive(Debug, Clone, Copy, Default)]
pub struct Response {
    /// Stable id of the response: `x_gen`, and the stem of the ids of its events.
    pub id: Text,
    /// When it was complete, in nanoseconds since the epoch.
    pub time: Option<i64>,
    /// How long it took, in seconds.
    pub duration_s: Option<f64>,
    /// Model that answered.
    pub model: Text,
    /// Its usage, by R7.
    pub usage: Usage,
    /// False where the request failed.
    pub ok: Option<bool>,
    /// Whether it decides about others without calling anybody: chooses a speaker, ends the task.
    pub decides: bool,
    /// Whether it is what another model did for the response that comes next: both read the same, and that one reads it,
    /// too.
    pub helps: bool,
    /// Its turn where that is the index of an entry in a log of a chat; else responses are counted.
    pub turn: Option<u32>,
    /// Quality of the content, 0 to 1.
    pub score: Option<f64>,
    /// Dense reward paid here.
    pub reward: Option<f64>,
    /// Members of an object of `x_` fields, as [`Recording::extra`] writes them.
    pub extras: Text,
}

/// Usage of one answer, in the words of R7 and D18: all that was read, cache included; all that was written, reasoning
/// included. What follows of the rest is derived where events are written.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Usage {
    /// Everything the model read.
    pub tokens_in: Option<i64>,
    /// Input that no cache gave or took, if the source records that instead of all input.
    pub fresh: Option<i64>,
    /// Everything it wrote.
    pub tokens_out: Option<i64>,
    /// Total, where the source does not split it.
    pub tokens: Option<i64>,
    /// Of what was read, from a cache.
    pub cached: Option<i64>,
    /// Of what was read, written to a cache.
    pub cache_write: Option<i64>,
    /// Of what was written to a cache, what is to stay for an hour.
    pub cache_write_1h: Option<i64>,
    /// Of what was written, reasoning.
    pub reasoning: Option<i64>,
    /// The total that the source states beside parts that sum to another number.
    pub stated: Option<i64>,
    /// US dollars.
    pub cost_usd: Option<f64>,
}

impl Usage {
    /// Its counts of tokens as events have them; a number below 0 is none.
    fn counts(&self) -> Counts {
        let cache = self.cached.unwrap_or(0).saturating_add(self.cache_write.unwrap_or(0));
        // In the order of `EventField::TOKENS`.
        let counts = [
            self.tokens_in.or_else(|| self.fresh.map(|fresh| fresh.saturating_add(cache))),
            self.fresh,
            self.cached,
            self.cache_write,
            self.tokens_out,
            self.reasoning,
            self.tokens,
        ];
        Counts::new(counts.map(|count| count.filter(|n| *n >= 0)))
    }

    /// The first count or price below 0, or a price that is no number.
    fn impossible(&self) -> Option<(EventField, writer::Value<'static>)> {
        let Self {
            tokens_in,
            fresh,
            tokens_out,
            tokens,
            cached,
            cache_write,
            cache_write_1h,
            reasoning,
            stated: _,
            cost_usd,
        } = *self;
        let counts = [tokens_in, fresh, cached, cache_write, tokens_out, reasoning, tokens];
        let hour = (EventField::TokensCacheWrite1h, cache_write_1h);
        let mut amounts = EventField::TOKENS.into_iter().zip(counts).chain([hour]);
        let count =
            amounts.find_map(|(field, count)| Some((field, writer::Value::I64(count.filter(|n| *n < 0)?))));
        let price = cost_usd.filter(|cost| !Bound::of_field(EventField::CostUsd).holds(*cost));
        count.or(price.map(|cost| (EventField::CostUsd, writer::Value::F64(cost))))
    }

    /// With the total that its source states, where that is another one.
    #[must_use]
    pub fn beside_total(self, total: Option<i64>) -> Self {
        let sum = self.total();
        Self { stated: total.filter(|total| sum.is_some_and(|sum| sum != *total)), ..self }
    }

    /// The counts of this and of another one, each a sum where any of them has it. Prices are not added.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            tokens_in: added(self.tokens_in, other.tokens_in),
            fresh: added(self.fresh, other.fresh),
            tokens_out: added(self.tokens_out, other.tokens_out),
            tokens: added(self.tokens, other.tokens),
            cached: added(self.cached, other.cached),
            cache_write: added(self.cache_write, other.cache_write),
            cache_write_1h: added(self.cache_write_1h, other.cache_write_1h),
            reasoning: added(self.reasoning, other.reasoning),
            ..Self::default()
        }
    }

    /// All its tokens (D18).
    #[must_use]
    pub fn total(&self) -> Option<i64> {
        let mut counts = self.counts();
        counts.settle();
        counts.total()
    }
}

/// The sum of two counts; where one is not known, the other.
pub(crate) fn added(first: Option<i64>, second: Option<i64>) -> Option<i64> {
    match (first, second) {
        (Some(first), Some(second)) => Some(first.saturating_add(second)),
        (first, second) => first.or(second),
    }
}

/// What a call does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Does {
    /// Uses a tool: `tool_call`.
    #[default]
    UsesTool,
    /// Makes an agent work: `spawn`, and a decision before it.
    Spawns(Agent),
    /// Tells another agent something: `message`; its result gives no event.
    Tells(Party),
    /// Hands the conversation over: a decision and a `message`; its result gives no event.
    HandsOff(Agent),
    /// Ends an agent: `despawn`; its result gives no event.
    Ends(Agent),
}

/// One call of a response.
#[derive(Debug, Clone, Copy, Default)]
pub struct Call {
    /// Id of the call; made up from the response where the source has none.
    pub id: Text,
    /// Name of the tool.
    pub tool: Text,
    /// What it does.
    pub does: Does,
    /// Hash of name and arguments ([`call_hash`]).
    pub content: Option<Hash>,
    /// When it was asked, where that is not when its response was complete. A call of a response with a time of its
    /// own, asked while the response went on, stands at its own place in the stream: earlier calls of the same
    /// response can have been answered before it.
    pub time: Option<i64>,
    /// Whether it can do harm, where the source says so.
    pub privileged: Option<bool>,
    /// `x_` fields.
    pub extras: Text,
}

/// A text of an agent. What it is, a message, a return or an aggregate, follows from its place (R4).
#[derive(Debug, Clone, Copy, Default)]
pub struct Saying {
    /// Id; made up from the response where the source has none.
    pub id: Text,
    /// Hash of the text.
    pub content: Option<Hash>,
    /// Whom it is addressed to, where that is not clear from its place.
    pub to: Option<Party>,
    /// When it was complete, where it is no part of a response.
    pub time: Option<i64>,
    /// False where the agent failed.
    pub ok: Option<bool>,
    /// Whether it is said on the side, in a branch that was given up or by somebody who only judges: a message,
    /// wherever it stands.
    pub aside: bool,
    /// Whether it stands at its own place in the stream although it is of a response: it was said after something came
    /// back within that response.
    pub apart: bool,
    /// `x_` fields.
    pub extras: Text,
}

/// What a call gave back.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallResult {
    /// Id of the call that it answers; none pairs with nothing.
    pub call: Text,
    /// Id of the result; made up from the call where the source has none.
    pub id: Text,
    /// Name of the tool, where the call is not recorded.
    pub tool: Text,
    /// When the work was complete.
    pub time: Option<i64>,
    /// How long it took, in seconds.
    pub duration_s: Option<f64>,
    /// Hash of the result.
    pub content: Option<Hash>,
    /// False where it failed.
    pub ok: Option<bool>,
    /// Where the content came from (R6); nothing where nobody can know.
    pub trusted: Option<bool>,
    /// Whether it only says that work in the background has begun: the child returns later.
    pub launched: bool,
    /// Whether a human gave it: answered a question, approved a plan. Then nobody worked for it.
    pub by_user: bool,
    /// Whether its call did nothing but wait for agents: what they answered meanwhile is what it gave back (R5).
    pub waits: bool,
    /// The response of another model that it brings, whose time its call took.
    pub brings: Option<Entry>,
    /// `x_` fields.
    pub extras: Text,
}

/// Something said to an agent.
#[derive(Debug, Clone, Copy)]
pub struct Incoming {
    /// Id.
    pub id: Text,
    /// From whom.
    pub from: Party,
    /// When.
    pub time: Option<i64>,
    /// Hash of the text.
    pub content: Option<Hash>,
    /// Where the content came from (R6).
    pub trusted: Option<bool>,
    /// Whether a human breaks into what is going on: `human_intervention` rather than `message`.
    pub intervenes: bool,
    /// Id of the call that a human decided about; none where it is about no call.
    pub decides: Text,
    /// `x_` fields.
    pub extras: Text,
}

/// An event of a type that no rule derives.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    /// Type: `safety_event`, `human_intervention`, `orchestrator_decision`, `spawn`, `despawn`.
    pub event_type: EventType,
    /// Id.
    pub id: Text,
    /// Who acts, where it is not the agent of the stream.
    pub by: Option<Party>,
    /// Whom it concerns.
    pub to: Option<Agent>,
    /// When.
    pub time: Option<i64>,
    /// Hash of its content.
    pub content: Option<Hash>,
    /// Where the content came from (R6).
    pub trusted: Option<bool>,
    /// False where something failed.
    pub ok: Option<bool>,
    /// Name of the tool concerned.
    pub tool: Text,
    /// `x_` fields.
    pub extras: Text,
}

/// What an annotator said.
#[derive(Debug, Clone, Copy, Default)]
pub struct Label {
    /// Who.
    pub annotator: Text,
    /// Id of the entry concerned: of a response, call, result, saying, incoming message or mark.
    pub entry: Text,
    /// Turn concerned; that of the entry where it is not said.
    pub turn: Option<u32>,
    /// Agent concerned, as the annotator writes it.
    pub agent: Text,
    /// What.
    pub label: Text,
    /// How much.
    pub weight: Option<f64>,
}

#[derive(Debug, Clone, Copy)]
enum Act {
    Response(Response),
    Call {
        call: Call,
        of: Option<Entry>,
    },
    Saying {
        saying: Saying,
        of: Option<Entry>,
    },
    Result(CallResult),
    Incoming(Incoming),
    Mark(Mark),
    /// The answer of a child reaches the agent of this stream here.
    Delivery {
        child: Agent,
        time: Option<i64>,
    },
    /// The agent forgets what it read.
    Compaction,
}

#[derive(Debug, Clone, Copy)]
struct Described {
    agent: Agent,
    act: Act,
    /// The item that it was read from.
    item: u32,
}

/// The ids and other facts of a trace.
#[derive(Debug, Clone, Copy, Default)]
pub struct TraceInfo {
    /// Id, independent of where files lie.
    pub trace_id: Text,
    /// Task; the trace itself where the source has none.
    pub task_id: Text,
    /// Rollout group; the task where the source has none.
    pub group_id: Text,
    /// What recorded.
    pub system: Text,
    /// Topology, where the source says it; else it follows from who spawned whom.
    pub topology: Option<Topology>,
    /// What times mean, where it is not seconds or mere order.
    pub time_basis: Option<TimeBasis>,
    /// When it began, where that is before its first entry; nanoseconds since the epoch.
    pub started_at: Option<i64>,
    /// Whether times count from the beginning of the run, whose date nobody knows.
    pub undated: bool,
    /// Whether the run went on beyond the recording.
    pub partial: bool,
    /// Whether the importer draws `safety_flow` edges itself, from texts that it found again (R6, exact mode).
    pub exact_flows: bool,
}

/// One trace, as its format records it.
#[derive(Debug, Default)]
pub struct Recording {
    /// Ids and facts of the trace.
    pub trace: TraceInfo,
    texts: String,
    agents: Vec<AgentInfo>,
    entries: Vec<Described>,
    /// The responses among the entries, each with the place here of the one before by the same agent, and of each agent
    /// the last: what one agent took is summed without a look at what all the others did.
    responses: Vec<(Entry, u32)>,
    last_responses: Vec<u32>,
    /// The item that is being read.
    item: u32,
    edges: Vec<(Entry, Entry, EdgeType)>,
    /// Usage of work whose responses are not recorded, by the result or the text that stands for it, and the model.
    unrecorded: Vec<(Entry, Usage, Text)>,
    measures: Vec<(MeasureKind, Text, f64)>,
    /// The column that the reward `team` is of.
    outcome_column: Option<Text>,
    labels: Vec<Label>,
    findings: Vec<(FindingCode, Option<Entry>, String)>,
    wall_clock_s: Option<f64>,
    /// What stopped the run.
    stopped_by: Text,
}

impl Recording {
    /// Forgets everything but the memory it took.
    pub fn clear(&mut self) {
        self.trace = TraceInfo::default();
        self.texts.clear();
        self.agents.clear();
        self.entries.clear();
        self.responses.clear();
        self.last_responses.clear();
        self.item = 0;
        self.edges.clear();
        self.unrecorded.clear();
        self.measures.clear();
        self.outcome_column = None;
        self.labels.clear();
        self.findings.clear();
        self.wall_clock_s = None;
        self.stopped_by = Text::default();
    }

    /// Says which item of the trace is read from here on: what is described then was made of it. The first one as long as
    /// nothing is said.
    pub fn made_of(&mut self, item: u32) {
        self.item = item;
    }

    /// Makes room for so many entries and bytes of texts.
    pub fn reserve(&mut self, entries: usize, bytes: usize) {
        self.entries.reserve(entries);
        self.texts.reserve(bytes);
    }

    /// Keeps a text.
    pub fn text(&mut self, text: &str) -> Text {
        self.join(&[text])
    }

    /// Keeps texts as one.
    pub fn join(&mut self, parts: &[&str]) -> Text {
        let start = self.texts.len() as u32;
        for part in parts {
            self.texts.push_str(part);
        }
        Text { start, end: self.texts.len() as u32 }
    }

    /// A text that was kept.
    #[must_use]
    pub fn read(&self, text: Text) -> &str {
        self.texts.get(text.start as usize..text.end as usize).unwrap_or_default()
    }

    /// The extras with another member; `json` is a JSON value. A key that they have already, or that events have for
    /// something else, is left out, with a finding.
    pub fn extra(&mut self, extras: Text, key: &str, json: &str) -> Text {
        if OWN_EXTRAS.contains(&key) || !gate::may_be_extra(key) || self.has_extra(extras, key) {
            let message =
                format!("'{key}' is given beside another value of that name; the other value is used");
            self.findings.push((FindingCode::FieldIgnored, None, message));
            return extras;
        }
        let start = self.texts.len() as u32;
        if !extras.is_none() {
            self.texts.extend_from_within(extras.start as usize..extras.end as usize);
            self.texts.push(',');
        }
        let mut spelt = Vec::new();
        write_string(key, &mut spelt);
        self.texts.push_str(&String::from_utf8_lossy(&spelt));
        self.texts.push(':');
        // What lenient formats are forgiven and JSON does not have: half of a surrogate pair, numbers that are none.
        let may_be_odd = |word: &[u8]| memmem::find(json.as_bytes(), word).is_some();
        if [&b"\\u"[..], b"NaN", b"Infinity"].into_iter().any(may_be_odd)
            && Tree::parse(json, STRICT).is_err()
        {
            let mut bytes = Vec::new();
            if let Ok(tree) = Tree::parse(json, LENIENT) {
                canonical(tree.root(), &mut bytes);
            }
            let text = String::from_utf8_lossy(&bytes);
            let finite = without_odd_numbers(&text);
            if finite.len() != text.len() {
                let message = format!("'{key}' has numbers that are not finite; they are null");
                self.findings.push((FindingCode::ValueImpossible, None, message));
            }
            self.texts.push_str(&finite);
        } else {
            self.texts.push_str(json);
        }
        Text { start, end: self.texts.len() as u32 }
    }

    fn has_extra(&self, extras: Text, key: &str) -> bool {
        let members = self.read(extras);
        // Nearly always it is nowhere in them, not even in a text.
        memmem::find(members.as_bytes(), key.as_bytes()).is_some()
            && Tree::parse(&format!("{{{members}}}"), LENIENT)
                .is_ok_and(|tree| !tree.root().get(key).is_absent())
    }

    /// The extras with a text.
    pub fn extra_text(&mut self, extras: Text, key: &str, text: &str) -> Text {
        let mut spelt = Vec::new();
        write_string(text, &mut spelt);
        self.extra(extras, key, &String::from_utf8_lossy(&spelt))
    }

    /// A new agent. The first one without a parent is the root, to whom what belongs to nobody belongs.
    pub fn agent(&mut self, info: AgentInfo) -> Agent {
        self.agents.push(info);
        Agent(self.agents.len() as u32 - 1)
    }

    /// What is known of an agent, to add to.
    pub fn agent_info(&mut self, agent: Agent) -> &mut AgentInfo {
        &mut self.agents[agent.0 as usize]
    }

    /// Number of agents so far.
    #[must_use]
    pub fn n_agents(&self) -> usize {
        self.agents.len()
    }

    /// Number of entries so far.
    #[must_use]
    pub fn n_entries(&self) -> usize {
        self.entries.len()
    }

    #[allow(clippy::large_types_passed_by_value)] // moved into the list
    fn push(&mut self, agent: Agent, act: Act) -> Entry {
        self.entries.push(Described { agent, act, item: self.item });
        Entry(self.entries.len() as u32 - 1)
    }

    /// An answer of a model. Its calls and its text follow as entries of their own, at any time before anything else of
    /// the same stream.
    pub fn response(&mut self, agent: Agent, response: Response) -> Entry {
        let entry = self.push(agent, Act::Response(response));
        let at = agent.0 as usize;
        if self.last_responses.len() <= at {
            self.last_responses.resize(at + 1, u32::MAX);
        }
        let before = std::mem::replace(&mut self.last_responses[at], self.responses.len() as u32);
        self.responses.push((entry, before));
        entry
    }

    /// The response, to correct what a later record knows better.
    pub fn response_mut(&mut self, entry: Entry) -> Option<&mut Response> {
        match &mut self.entries[entry.0 as usize].act {
            Act::Response(response) => Some(response),
            _ => None,
        }
    }

    /// A call of a response, which may be described later than other entries of the stream.
    pub fn call(&mut self, response: Entry, call: Call) -> Entry {
        let agent = self.entries[response.0 as usize].agent;
        self.push(agent, Act::Call { call, of: Some(response) })
    }

    /// The call, to correct what a later record knows better.
    pub fn call_mut(&mut self, entry: Entry) -> Option<&mut Call> {
        match &mut self.entries[entry.0 as usize].act {
            Act::Call { call, .. } => Some(call),
            _ => None,
        }
    }

    /// A call that belongs to no recorded response.
    pub fn lone_call(&mut self, agent: Agent, call: Call) -> Entry {
        self.push(agent, Act::Call { call, of: None })
    }

    /// The text of a response; there is one.
    pub fn say(&mut self, response: Entry, saying: Saying) -> Entry {
        let agent = self.entries[response.0 as usize].agent;
        self.push(agent, Act::Saying { saying, of: Some(response) })
    }

    /// The text, to correct what a later record knows better.
    pub fn saying_mut(&mut self, entry: Entry) -> Option<&mut Saying> {
        match &mut self.entries[entry.0 as usize].act {
            Act::Saying { saying, .. } => Some(saying),
            _ => None,
        }
    }

    /// A text that belongs to no recorded response.
    pub fn lone_saying(&mut self, agent: Agent, saying: Saying) -> Entry {
        self.push(agent, Act::Saying { saying, of: None })
    }

    /// What a call of this agent gave back.
    pub fn result(&mut self, agent: Agent, result: CallResult) -> Entry {
        self.push(agent, Act::Result(result))
    }

    /// The result, to correct what a later record knows better.
    pub fn result_mut(&mut self, entry: Entry) -> Option<&mut CallResult> {
        match &mut self.entries[entry.0 as usize].act {
            Act::Result(result) => Some(result),
            _ => None,
        }
    }

    /// Something said to this agent.
    pub fn incoming(&mut self, agent: Agent, incoming: Incoming) -> Entry {
        self.push(agent, Act::Incoming(incoming))
    }

    /// An event of a type that no rule derives. A `spawn` is how its agent began, as that of a call is.
    pub fn mark(&mut self, agent: Agent, mark: Mark) -> Entry {
        self.push(agent, Act::Mark(mark))
    }

    /// The answer of a child that works in the background reaches its parent.
    pub fn delivery(&mut self, parent: Agent, child: Agent) -> Entry {
        self.push(parent, Act::Delivery { child, time: None })
    }

    /// The same at a time: what the child said last before it. There may be several: the last answer is its return,
    /// those before are messages to the parent.
    pub fn delivery_at(&mut self, parent: Agent, child: Agent, time: Option<i64>) -> Entry {
        self.push(parent, Act::Delivery { child, time })
    }

    /// The context of an agent is compacted: what it read before no longer flows on.
    pub fn compaction(&mut self, agent: Agent) -> Entry {
        self.push(agent, Act::Compaction)
    }

    /// The task, and the group of those of its runs of which `parts` are the same.
    pub(crate) fn group_by(&mut self, task: &str, parts: &[(&str, Option<&str>)]) {
        self.trace.task_id = self.text(task);
        // Names have slashes, too: parts that are not told apart would make one group of two.
        let part = |name: &str| name.replace('%', "%25").replace('/', "%2F");
        let mut group = part(task);
        for (kind, name) in parts {
            if let Some(name) = name {
                group = format!("{group}/{kind}={}", part(name));
                self.trace.group_id = self.text(&group);
            }
        }
    }

    /// Says what stopped the run; nothing did if it is empty.
    pub(crate) fn stopped_by(&mut self, reason: &str) {
        if !reason.is_empty() {
            self.trace.partial = true;
            self.stopped_by = self.text(reason);
            self.finding(FindingCode::TracePartial, None, format!("the run was stopped by {reason}"));
        }
    }

    /// An edge that no rule derives, between the first events of two entries.
    pub fn edge(&mut self, src: Entry, dst: Entry, edge_type: EdgeType) {
        self.edges.push((src, dst, edge_type));
    }

    /// Usage of work whose responses are not recorded, on the result of a call or the text that stands for it; and the
    /// model, where one did it. It comes before any later entry.
    pub fn unrecorded(&mut self, entry: Entry, usage: Usage, model: Text) {
        self.unrecorded.push((entry, usage, model));
    }

    /// A reward, cost or metric. `tokens`, `wall_clock_s`, `tool_calls`, `messages` and `cost_usd` follow from the
    /// events and are given only where events do not have them.
    pub fn measure(&mut self, kind: MeasureKind, name: &str, value: f64) {
        let name = self.text(name);
        self.measures.push((kind, name, value));
    }

    /// The outcome of the run, by the column that has it.
    pub fn outcome(&mut self, column: &str, value: f64) {
        self.outcome_column = Some(self.text(column));
        self.measure(MeasureKind::Reward, "team", value);
    }

    /// Duration of the whole, where the times of the entries do not show it.
    pub fn wall_clock_s(&mut self, seconds: f64) {
        self.wall_clock_s = Some(seconds);
    }

    /// What an annotator said.
    pub fn label(&mut self, label: Label) {
        self.labels.push(label);
    }

    /// Something odd.
    pub fn finding(&mut self, code: FindingCode, at: Option<Entry>, message: impl Into<String>) {
        self.findings.push((code, at, message.into()));
    }
}

/// JSON with null in the place of numbers that are not finite, as Python writes them.
fn without_odd_numbers(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let (mut rest, mut is_text) = (json, false);
    while let Some(at) = rest.find(['"', '\\', '-', 'N', 'I']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let infinite =
            ["NaN", "-Infinity", "Infinity"].into_iter().find(|word| !is_text && rest.starts_with(word));
        let length = match (infinite, rest.as_bytes()[0]) {
            (Some(word), _) => word.len(),
            // What is escaped ends no text.
            (None, b'\\') => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            (None, b'"') => {
                is_text = !is_text;
                1
            }
            _ => 1,
        };
        out.push_str(if infinite.is_some() { "null" } else { &rest[..length] });
        rest = &rest[length..];
    }
    out.push_str(rest);
    out
}

/// Hash of a text as it stands in the source (R9).
#[must_use]
pub fn hash(text: &str) -> Hash {
    Sha256::digest(text).into()
}

/// Hash of a call: canonical JSON of its name and arguments (R9).
#[must_use]
pub fn call_hash(name: &str, arguments: Value<'_>) -> Hash {
    // As long as it is written, with room for its name.
    let mut call = Vec::with_capacity(arguments.raw().len() + 64);
    call.extend_from_slice(br#"{"arguments":"#);
    canonical(arguments, &mut call);
    named(call, name)
}

/// The same for arguments that are JSON in a text; what is no JSON is hashed as the text it is.
#[must_use]
pub fn call_hash_of_text(name: &str, arguments: &str, limits: Limits) -> Hash {
    if let Ok(tree) = Tree::parse(arguments, limits) {
        return call_hash(name, tree.root());
    }
    let mut call = br#"{"arguments":"#.to_vec();
    write_string(arguments, &mut call);
    named(call, name)
}

fn named(mut call: Vec<u8>, name: &str) -> Hash {
    call.extend_from_slice(br#","name":"#);
    write_string(name, &mut call);
    call.push(b'}');
    Sha256::digest(&call).into()
}
