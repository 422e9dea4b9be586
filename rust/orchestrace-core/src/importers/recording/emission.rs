//! Conversion of recordings to events and edges: rules R1 to R9 of docs/reference/importer-rules.md.

use std::fmt::Write;
use std::rc::Rc;

use hashbrown::{HashMap, HashSet};
use memchr::memmem;
use xxhash_rust::xxh3::xxh3_128;

use super::answers::Brought;
use super::order::Order;
use super::plan::{NONE, Plan};
use super::{
    Act, Agent, Call, CallResult, Does, Entry, Hash, Incoming, LENIENT, Mark, Party, Recording, Response,
    Saying, Text, Usage,
};
use crate::columns::LiftKind;
use crate::columns::writer::{Event, Label, TraceWriter, Value};
use crate::importers::hex::spell;
use crate::json::tree::Tree;
use crate::json::write_string;
use crate::schema::{AgentKind, EdgeType, EventField, EventType, TimeBasis};

mod finish;
mod waits;

const USER: &str = "user";

/// Where an edge begins or ends when its event may not be written yet.
#[derive(Debug, Clone, Copy)]
enum End {
    Event(u32),
    Entry(u32),
    /// The answer of a child.
    ReturnOf(u32),
}

/// What is known of an agent while events are written.
#[derive(Debug, Default)]
struct State {
    name: Option<Rc<str>>,
    /// Its last event.
    last: Option<u32>,
    /// Whether an event of it says its id in the source.
    identified: bool,
    /// Edges that lead to its next event, and those of them that led to what helped.
    waiting: Vec<(End, EdgeType)>,
    waited: Vec<(End, EdgeType)>,
    /// Edges that lead to its next response, and those of them that led to what helped. Of several that help in a row
    /// each reads by way of the one before: edges from all to all would be as many as the square of their number.
    read: Vec<(u32, EdgeType)>,
    helped: Vec<(u32, EdgeType)>,
    /// The last response that had untrusted text in its context.
    tainted: Option<u32>,
    /// Children whose answers it has and has not put together.
    returned: Vec<u32>,
    /// Its `return`.
    answer: Option<u32>,
    /// Whom its answer reached, by clocks that say so before it was spawned.
    early: Vec<u32>,
}

#[allow(clippy::struct_excessive_bools)] // what happened so far
struct Emission<'r, 'w, 'b> {
    recording: &'r Recording,
    order: Order,
    plan: Plan,
    out: &'w mut TraceWriter<'b>,
    agents: Vec<State>,
    /// First event of each entry.
    first: Vec<u32>,
    /// Turn of each entry.
    turns: Vec<u32>,
    named: HashMap<String, u32>,
    /// What a human decided of a call, by the call.
    decided: HashMap<u32, u32>,
    /// Ids so far, by hash: equal hashes would cost an id a suffix that it does not need.
    ids: HashSet<u128>,
    /// Of each id that several events have: how many have it or had a suffix for it.
    copies: HashMap<u128, u32>,
    edges: Vec<(End, End, EdgeType)>,
    /// The response that is being written, and whether nothing of it is yet.
    response: Option<(u32, Response)>,
    opening: bool,
    /// The item that what is being written was read from.
    item: u32,
    turn: u32,
    /// `t` of what is being written.
    t: f64,
    id: String,
    /// `x_` fields of the event that is being written.
    extras: String,
    /// Whether some of them were described as text.
    described: bool,
    /// Whether the recording ends before the event does.
    unfinished: bool,
    spelt: Vec<u8>,
    calls: u32,
    messages: u32,
    spent: Accounts,
    conservative: bool,
    ended: bool,
    partial: bool,
    skew: f64,
    repeated: Option<String>,
    /// Responses whose stated total is not the sum of their parts: how many, and both numbers of the first one.
    unequal: (usize, Option<(i64, i64)>),
}

/// Tokens and dollars.
#[derive(Debug, Clone, Copy, Default)]
struct Spent {
    tokens: Option<i64>,
    cost_usd: Option<f64>,
}

/// What was spent, by whose account it goes on (R7): only that of the team is what the run costs.
#[derive(Debug, Clone, Copy, Default)]
struct Accounts {
    team: Spent,
    /// In the order of [`AgentKind::OUTSIDE`].
    outside: [Spent; AgentKind::OUTSIDE.len()],
}

impl Accounts {
    fn of(&mut self, outside: Option<AgentKind>) -> &mut Spent {
        match AgentKind::OUTSIDE.iter().position(|(_, kind)| Some(*kind) == outside) {
            Some(at) => &mut self.outside[at],
            None => &mut self.team,
        }
    }
}

impl Recording {
    /// Writes events, edges, costs, labels and findings; whether there was anything to write. O(n log n) in entries.
    pub fn write(&self, out: &mut TraceWriter<'_>) -> bool {
        if self.entries.is_empty() {
            return false;
        }
        let order = Order::of(self);
        let plan = Plan::of(self, &order);
        let mut emission = Emission {
            recording: self,
            out,
            agents: (0..self.agents.len()).map(|_| State::default()).collect(),
            first: vec![NONE; self.entries.len()],
            turns: vec![NONE; self.entries.len()],
            named: HashMap::from([(USER.to_owned(), 1)]),
            decided: HashMap::new(),
            ids: HashSet::new(),
            copies: HashMap::new(),
            edges: Vec::new(),
            response: None,
            opening: false,
            item: 0,
            turn: 0,
            t: 0.0,
            id: String::new(),
            extras: String::new(),
            described: false,
            unfinished: false,
            spelt: Vec::new(),
            calls: 0,
            messages: 0,
            spent: Accounts::default(),
            conservative: false,
            ended: false,
            partial: self.trace.partial || self.agents.iter().any(|a| a.open),
            skew: 0.0,
            repeated: None,
            unequal: (0, None),
            order,
            plan,
        };
        emission.trace();
        emission.events();
        emission.finish();
        emission.out.n_events() > 0
    }

    /// Writes the labels alone, of a trace that is recorded elsewhere: they name what they are about by its own id.
    pub fn write_labels(&self, out: &mut TraceWriter<'_>) {
        let text = |text: Text| (!text.is_none()).then(|| self.read(text));
        for label in &self.labels {
            let label_row = Label {
                annotator: self.read(label.annotator),
                event_id: text(label.entry),
                turn: label.turn,
                agent: text(label.agent),
                label: self.read(label.label),
                weight: label.weight,
            };
            out.label(self.read(self.trace.trace_id), &label_row);
        }
    }
}

impl<'r> Emission<'r, '_, '_> {
    fn trace(&mut self) {
        let (recording, out) = (self.recording, &mut *self.out);
        let trace = &recording.trace;
        let id = recording.read(trace.trace_id);
        out.ids(id, if trace.task_id.is_none() { id } else { recording.read(trace.task_id) });
        if !trace.group_id.is_none() {
            out.group = Some(recording.read(trace.group_id).to_owned());
        }
        if !trace.system.is_none() {
            out.system(recording.read(trace.system));
        }
        out.topology(trace.topology.unwrap_or_else(|| self.plan.topology()));
        let basis = if self.order.timed { TimeBasis::Seconds } else { TimeBasis::Ordinal };
        out.time_basis(trace.time_basis.unwrap_or(basis));
        // Times of which only the steps are known count from no date.
        let dated = match trace.time_basis {
            Some(TimeBasis::Ordinal) => false,
            Some(TimeBasis::Partial) => trace.started_at.is_some(),
            _ => !trace.undated,
        };
        if self.order.timed && dated {
            out.facts.started_at = Some(self.order.base);
        }
    }

    fn events(&mut self) {
        let recording = self.recording;
        let mut begun = vec![false; self.agents.len()];
        for index in 0..self.order.entries.len() {
            let e = self.order.entries[index];
            let entry = recording.entries[e as usize];
            self.t = self.order.t(e, index);
            self.item = entry.item;
            let agent = entry.agent.0;
            if !std::mem::replace(&mut begun[agent as usize], true) && self.plan.unspawned[agent as usize] {
                self.spawn_unrecorded(agent);
            }
            match entry.act {
                Act::Response(response) => self.response(e, agent, &response),
                Act::Call { call, of } => self.separate_call(e, agent, &call, of),
                Act::Saying { saying, of } => self.separate_saying(e, agent, &saying, of),
                Act::Result(result) => self.result(e, agent, &result),
                Act::Incoming(incoming) => self.incoming(e, agent, &incoming),
                Act::Mark(mark) => self.mark(e, agent, &mark),
                Act::Delivery { child, .. } => {
                    let at = child.0 as usize;
                    match self.plan.answers_before.brought.get(&e) {
                        Some(Brought::Earlier(text)) => {
                            self.hear(agent, *text);
                            continue;
                        }
                        Some(_) => continue,
                        None => {}
                    }
                    if self.plan.unspawned[at] && !begun[at] {
                        self.agents[at].early.push(agent);
                    } else {
                        self.receive(agent, child.0);
                    }
                }
                Act::Compaction => {
                    // Neither from what was read, nor from what was about to be.
                    let state = &mut self.agents[agent as usize];
                    state.tainted = None;
                    for edges in [&mut state.read, &mut state.helped] {
                        edges.retain(|(_, edge_type)| *edge_type != EdgeType::SafetyFlow);
                    }
                }
            }
        }
    }

    /// Name of an agent, given when it first appears (R1).
    fn name(&mut self, agent: u32) -> Rc<str> {
        let at = agent as usize;
        if let Some(name) = &self.agents[at].name {
            return Rc::clone(name);
        }
        let info = &self.recording.agents[at];
        let wanted = [info.name, info.source_id].into_iter().find(|text| !text.is_none());
        let wanted = wanted.map_or("agent", |text| self.recording.read(text));
        let mut bearers = self.named.get(wanted).copied().unwrap_or(0) + 1;
        let mut name = wanted.to_owned();
        // Somebody may be called `name#2` by the source.
        while bearers > 1 {
            name = format!("{wanted}#{bearers}");
            if self.named.insert(name.clone(), 1).is_none() {
                break;
            }
            bearers += 1;
        }
        self.named.insert(wanted.to_owned(), bearers);
        let name: Rc<str> = name.into();
        self.agents[at].name = Some(Rc::clone(&name));
        name
    }

    fn role(&self, agent: u32) -> Option<&'r str> {
        let at = agent as usize;
        if let Some(outside) = self.recording.agents[at].outside {
            return Some(outside.as_str());
        }
        let role = self.recording.agents[at].role;
        if !role.is_none() {
            return Some(self.recording.read(role));
        }
        match (self.plan.parent[at] != NONE, self.plan.leads[at]) {
            (true, _) => Some("executor"),
            (false, true) => Some("lead"),
            _ => None,
        }
    }

    /// An event without anything that depends on its type. The id is `stem` and `suffix`; `fallback` where it is empty.
    fn event(&mut self, event_type: EventType, agent: &str, stem: &str, suffix: &str) -> u32 {
        self.id.clear();
        if stem.is_empty() {
            let _ok = write!(self.id, "{agent}:{}", self.out.n_events());
        } else {
            self.id.push_str(stem);
        }
        self.id.push_str(suffix);
        let (length, id) = (self.id.len(), xxh3_128(self.id.as_bytes()));
        if !self.ids.insert(id) {
            self.repeated.get_or_insert_with(|| self.id.clone());
            let copy = self.copies.entry(id).or_insert(1);
            loop {
                *copy += 1;
                self.id.truncate(length);
                let _ok = write!(self.id, "~{copy}");
                if self.ids.insert(xxh3_128(self.id.as_bytes())) {
                    break;
                }
            }
        }
        self.extras.clear();
        self.described = false;
        self.unfinished = false;
        self.calls += u32::from(event_type == EventType::ToolCall);
        self.messages += u32::from(event_type == EventType::Message);
        let seq = self.out.event(Event { id: &self.id, t: self.t, event_type, agent });
        self.out.made_of(self.item);
        seq
    }

    /// An event of an agent, with the edges that lead to it.
    fn act(&mut self, event_type: EventType, agent: u32, stem: &str, suffix: &str) -> u32 {
        let name = self.name(agent);
        let seq = self.event(event_type, &name, stem, suffix);
        let at = agent as usize;
        // On these role and id are those of whom they concern.
        if !matches!(event_type, EventType::Spawn | EventType::Despawn) {
            if let Some(role) = self.role(agent) {
                self.out.set(EventField::Role, Value::Text(role));
            }
            if let Some(trainable) = self.recording.agents[at].trainable {
                self.out.set(EventField::Trainable, Value::Bool(trainable));
            }
            if !std::mem::replace(&mut self.agents[at].identified, true) {
                self.extra_text("x_agent_id", self.recording.agents[at].source_id);
            }
        }
        let last = self.agents[at].last.replace(seq);
        if let Some(last) = last {
            self.out.edge(last, seq, EdgeType::Temporal);
        } else {
            let spawned = self.plan.spawn[at];
            if spawned != NONE {
                self.edges.push((End::Entry(spawned), End::Event(seq), EdgeType::Spawn));
                self.skew = self.skew.max(self.asked_at(spawned) - self.t);
            }
        }
        let helps = self.helps();
        let State { waiting, waited, .. } = &mut self.agents[at];
        let before = if helps { &[][..] } else { waited.as_slice() };
        let waits = before.iter().chain(&*waiting);
        self.edges.extend(waits.map(|(src, edge_type)| (*src, End::Event(seq), *edge_type)));
        if helps {
            waited.append(waiting);
        } else {
            waited.clear();
            waiting.clear();
        }
        seq
    }

    /// Whether what is being written is done for the response that comes next, which reads the same.
    fn helps(&self) -> bool {
        self.response.is_some_and(|(_, response)| response.helps)
    }

    /// When a call was asked.
    fn asked_at(&self, call: u32) -> f64 {
        let asks = match &self.recording.entries[call as usize].act {
            Act::Call { of: Some(response), call: Call { time: None, .. } } => response.0,
            _ => call,
        };
        if self.order.timed { self.order.t(asks, 0) } else { 0.0 }
    }

    /// Begins another member, behind the brace or the member before it.
    fn key(&mut self, key: &str) {
        self.extras.push(if self.extras.is_empty() { '{' } else { ',' });
        self.extras.extend(["\"", key, "\":"]);
    }

    /// Says that the recording ends before the event does.
    fn partial_event(&mut self) {
        self.unfinished = true;
        if !(self.described && is_partial(&self.extras)) {
            self.key("x_partial");
            self.extras.push_str("true");
        }
    }

    /// Members that were described as text. None of them has a name of [`OWN_EXTRAS`], and none is there
    /// twice; but `x_partial` may be, and what a response and a part of it have in common. Then the first counts.
    fn members(&mut self, extras: Text) {
        if extras.is_none() {
            return;
        }
        let members = self.recording.read(extras);
        if std::mem::replace(&mut self.described, true) || self.unfinished && is_partial(members) {
            return self.further_members(members);
        }
        self.extras.push(if self.extras.is_empty() { '{' } else { ',' });
        self.extras.push_str(members);
    }

    /// Those members of a second text whose keys the first does not have.
    #[cold]
    fn further_members(&mut self, members: &str) {
        let (known, more) = (format!("{}}}", self.extras), format!("{{{members}}}"));
        let trees = [&known, &more].map(|text| Tree::parse(text, LENIENT));
        let [Ok(known), Ok(more)] = trees else { return };
        for (key, value) in more.root().members() {
            if known.root().get(key).is_absent() {
                self.spelt.clear();
                write_string(key, &mut self.spelt);
                self.extras.extend([",", &String::from_utf8_lossy(&self.spelt), ":", value.raw()]);
            }
        }
    }

    fn extra_text(&mut self, key: &str, text: Text) {
        if !text.is_none() {
            self.key(key);
            self.spelt.clear();
            write_string(self.recording.read(text), &mut self.spelt);
            self.extras.push_str(&String::from_utf8_lossy(&self.spelt));
        }
    }

    /// Ends an event: what it has of content, turn and `x_` fields.
    fn close(&mut self, e: u32, turn: u32, content: Option<&Hash>, extras: Text) {
        if let Some(hash) = content {
            self.out.set(EventField::ContentRef, Value::Text(content_ref(hash, &mut [0; 71])));
        }
        if turn != NONE {
            self.out.set(EventField::Turn, Value::U32(turn));
        }
        self.members(extras);
        if !self.extras.is_empty() {
            self.extras.push('}');
            self.lift();
            if self.out.options.extras {
                self.out.set(EventField::Extras, Value::Text(&self.extras));
            }
        }
        if let Some(entry) = self.recording.entries.get(e as usize) {
            self.out.made_of(entry.item);
        }
        let seq = self.out.n_events() as u32 - 1;
        if let Some(first) = self.first.get_mut(e as usize).filter(|first| **first == NONE) {
            *first = seq;
            self.turns[e as usize] = turn;
        }
    }

    /// Writes the `x_` fields that the caller wants as columns.
    fn lift(&mut self) {
        let options = self.out.options;
        if options.fields.is_empty() {
            return;
        }
        let Ok(tree) = Tree::parse(&self.extras, options.limits) else { return };
        for (column, (name, kind)) in options.fields.iter().enumerate() {
            let member = tree.root().get(name);
            let value = match kind {
                LiftKind::Text => member.str().map(Value::Text),
                LiftKind::I64 => member.i64().map(Value::I64),
                LiftKind::F64 => member.f64().map(Value::F64),
                LiftKind::Bool => member.bool().map(Value::Bool),
            };
            if let Some(value) = value {
                self.out.lift_last(column, value);
            }
        }
    }

    fn set_text(&mut self, field: EventField, text: Text) {
        if !text.is_none() {
            self.out.set(field, Value::Text(self.recording.read(text)));
        }
    }

    fn party(&mut self, party: Party) -> Rc<str> {
        match party {
            Party::User => Rc::from(USER),
            Party::Agent(agent) => self.name(agent.0),
            Party::Named(name) => Rc::from(self.recording.read(name)),
        }
    }

    /// What leads to a response: results and messages that its agent has read.
    fn reads(&mut self, agent: u32, seq: u32) {
        let at = agent as usize;
        let earlier = self.agents[at].tainted;
        let helps = self.helps();
        let State { read, helped, tainted, .. } = &mut self.agents[at];
        let before = if helps { &[][..] } else { helped.as_slice() };
        for &(src, edge_type) in before.iter().chain(&*read) {
            if edge_type == EdgeType::SafetyFlow {
                *tainted = Some(seq);
                self.conservative = true;
            }
            self.edges.push((End::Event(src), End::Event(seq), edge_type));
        }
        if helps {
            helped.append(read);
            read.push((seq, EdgeType::Causal));
        } else {
            helped.clear();
            read.clear();
        }
        // Once read it stays in the context: each response passes it on to the next, whatever else that one reads.
        if let Some(earlier) = earlier {
            self.edges.push((End::Event(earlier), End::Event(seq), EdgeType::SafetyFlow));
            self.agents[at].tainted = Some(seq);
        }
    }

    /// Something that its agent reads before its next response.
    fn read(&mut self, agent: u32, seq: u32, trusted: Option<bool>) {
        let read = &mut self.agents[agent as usize].read;
        read.push((seq, EdgeType::Causal));
        if trusted == Some(false) && !self.recording.trace.exact_flows {
            read.push((seq, EdgeType::SafetyFlow));
        }
    }

    /// The usage of a response, and its part of what the team, a scorer or a stand-in for the user has spent (R7).
    fn usage(&mut self, agent: u32, usage: &Usage) {
        for (field, count) in usage.counts().stated() {
            self.out.set(field, Value::I64(count));
        }
        if let Some(hour) = usage.cache_write_1h.filter(|n| *n >= 0) {
            self.out.set(EventField::TokensCacheWrite1h, Value::I64(hour));
        }
        if let Some((field, value)) = usage.impossible() {
            // Left out of the sums too: the writer reports it.
            self.out.set(field, value);
        }
        let spent = self.spent.of(self.recording.agents[agent as usize].outside);
        if let Some(cost) = usage.cost_usd.filter(|cost| *cost >= 0.0 && cost.is_finite()) {
            self.out.set(EventField::CostUsd, Value::F64(cost));
            *spent.cost_usd.get_or_insert(0.0) += cost;
        }
        if let Some(tokens) = usage.total() {
            let sum = spent.tokens.get_or_insert(0);
            *sum = sum.saturating_add(tokens);
        }
    }

    /// The usage of work whose responses are not recorded.
    fn unrecorded(&mut self, e: u32, agent: u32) {
        let list = &self.recording.unrecorded;
        if let Ok(at) = list.binary_search_by_key(&e, |(entry, ..)| entry.0) {
            let (_, usage, model) = list[at];
            self.usage(agent, &usage);
            self.set_text(EventField::Model, model);
        }
    }

    /// What the first event of a response carries for all of them, and what led to it.
    fn open(&mut self, agent: u32, seq: u32) {
        let Some((e, response)) = self.response.filter(|_| std::mem::take(&mut self.opening)) else { return };
        self.reads(agent, seq);
        self.first[e as usize] = seq;
        self.turns[e as usize] = self.turn;
        self.usage(agent, &response.usage);
        self.set_text(EventField::Model, response.model);
        for (field, value) in [
            (EventField::DurationS, response.duration_s),
            (EventField::Score, response.score),
            (EventField::Reward, response.reward),
        ] {
            if let Some(value) = value {
                self.out.set(field, Value::F64(value));
            }
        }
        if let Some(ok) = response.ok {
            self.out.set(EventField::Ok, Value::Bool(ok));
        }
        if let Some((stated, sum)) = response.usage.stated.zip(response.usage.total()) {
            if !self.recording.has_extra(response.extras, "x_reported_tokens") {
                self.key("x_reported_tokens");
                let _ok = write!(self.extras, "{stated}");
            }
            self.unequal.0 += 1;
            self.unequal.1.get_or_insert((stated, sum));
        }
        self.members(response.extras);
    }

    /// What all events of a response carry.
    fn generation(&mut self) -> u32 {
        match self.response {
            Some((_, response)) => {
                self.extra_text("x_gen", response.id);
                self.turn
            }
            None => NONE,
        }
    }

    fn response(&mut self, e: u32, agent: u32, response: &Response) {
        let recording = self.recording;
        let (from, to) = self.plan.part_of[e as usize];
        let parts = from as usize..to as usize;
        let content_of = |part: u32| recording.entries[part as usize].act;
        let delegates = response.decides || self.plan.delegates[e as usize];
        let id = recording.read(response.id);
        self.response = Some((e, *response));
        self.turn = response.turn.unwrap_or(self.turn);
        self.opening = true;
        let mut asks = None;
        if delegates {
            let seq = self.act(EventType::OrchestratorDecision, agent, id, ":d");
            self.out.set(EventField::Trusted, Value::Bool(true));
            self.open(agent, seq);
            let turn = self.generation();
            self.close(NONE, turn, None, Text::default());
            asks = Some(seq);
        }
        let mut calls = 0;
        for index in parts.clone() {
            let part = self.plan.parts[index];
            if let Act::Call { call, .. } = content_of(part) {
                self.call(part, agent, &call, &format!("{id}:c{calls}"), asks);
                calls += 1;
            }
        }
        for index in parts {
            let part = self.plan.parts[index];
            if let Act::Saying { saying, .. } = content_of(part) {
                self.saying(part, agent, &saying, id);
            }
        }
        if self.opening {
            let seq = self.act(EventType::Message, agent, id, "");
            self.out.set(EventField::Trusted, Value::Bool(true));
            self.from(agent);
            self.open(agent, seq);
            let turn = self.generation();
            self.close(NONE, turn, None, Text::default());
        }
        self.response = None;
        self.turn += 1;
    }

    fn from(&mut self, agent: u32) {
        let name = self.name(agent);
        self.out.set(EventField::From, Value::Text(&name));
    }

    /// A call that stands by itself: of no response, or asked while its response went on.
    fn separate_call(&mut self, e: u32, agent: u32, call: &Call, of: Option<Entry>) {
        let recording = self.recording;
        let of = of.map(|of| (of.0, recording.entries[of.0 as usize].act));
        let Some((of, Act::Response(response))) = of.filter(|(of, _)| self.turns[*of as usize] != NONE)
        else {
            return self.call(e, agent, call, "", None);
        };
        let turn = std::mem::replace(&mut self.turn, self.turns[of as usize]);
        self.response = Some((of, response));
        let decided = response.decides || self.plan.delegates[of as usize];
        let stem = [recording.read(response.id), ":c", &e.to_string()].concat();
        self.call(e, agent, call, &stem, decided.then(|| self.first[of as usize]));
        self.response = None;
        self.turn = turn;
    }

    /// A text that stands by itself: of no response, or said after something came back within its response.
    fn separate_saying(&mut self, e: u32, agent: u32, saying: &Saying, of: Option<Entry>) {
        let recording = self.recording;
        let of = of.map(|of| (of.0, recording.entries[of.0 as usize].act));
        let Some((of, Act::Response(response))) = of.filter(|(of, _)| self.turns[*of as usize] != NONE)
        else {
            return self.saying(e, agent, saying, "");
        };
        let turn = std::mem::replace(&mut self.turn, self.turns[of as usize]);
        self.response = Some((of, response));
        self.saying(e, agent, saying, recording.read(response.id));
        self.response = None;
        self.turn = turn;
    }

    fn call(&mut self, e: u32, agent: u32, call: &Call, stem: &str, asks: Option<u32>) {
        let recording = self.recording;
        let stem = if call.id.is_none() { stem } else { recording.read(call.id) };
        let (event_type, suffix) = match call.does {
            Does::UsesTool => (EventType::ToolCall, ""),
            Does::Spawns(_) => (EventType::Spawn, ":s"),
            Does::Tells(_) | Does::HandsOff(_) => (EventType::Message, ""),
            Does::Ends(_) => (EventType::Despawn, ""),
        };
        let seq = self.act(event_type, agent, stem, suffix);
        self.open(agent, seq);
        self.out.set(EventField::Trusted, Value::Bool(true));
        match call.does {
            Does::UsesTool => {
                self.set_text(EventField::Tool, call.tool);
                if let Some(asks) = asks {
                    self.out.edge(asks, seq, EdgeType::ToolDependency);
                }
                if !self.plan.answered[e as usize] {
                    self.partial_event();
                }
            }
            Does::Spawns(child) | Does::Ends(child) => {
                self.concerns(child.0);
                if event_type == EventType::Spawn {
                    if let Some(asks) = asks {
                        self.out.edge(asks, seq, EdgeType::Spawn);
                    }
                    if self.plan.spawn[child.0 as usize] != e {
                        // Not the first time: it goes on from here.
                        self.agents[child.0 as usize].waiting.push((End::Event(seq), EdgeType::Spawn));
                    }
                }
            }
            Does::Tells(to) => self.address(agent, seq, Some(to)),
            Does::HandsOff(to) => self.address(agent, seq, Some(Party::Agent(to))),
        }
        if let Some(privileged) = call.privileged {
            self.out.set(EventField::Privileged, Value::Bool(privileged));
        }
        let turn = self.generation();
        self.close(e, turn, call.content.as_ref(), call.extras);
    }

    /// `to`, role and id of whom a spawn or despawn concerns (R2).
    fn concerns(&mut self, child: u32) {
        let name = self.name(child);
        self.out.set(EventField::To, Value::Text(&name));
        if let Some(role) = self.role(child) {
            self.out.set(EventField::Role, Value::Text(role));
        }
        self.extra_text("x_agent_id", self.recording.agents[child as usize].source_id);
    }

    /// `from` and `to` of a message, and who hears it.
    fn address(&mut self, agent: u32, seq: u32, to: Option<Party>) {
        self.from(agent);
        if let Some(to) = to {
            let name = self.party(to);
            self.out.set(EventField::To, Value::Text(&name));
            if let Party::Agent(to) = to {
                self.agents[to.0 as usize].waiting.push((End::Event(seq), EdgeType::Message));
                self.read(to.0, seq, None);
            }
        }
    }

    /// The answers of children that an event brings together.
    fn put_together(&mut self, agent: u32, seq: u32) {
        for child in std::mem::take(&mut self.agents[agent as usize].returned) {
            self.edges.push((End::ReturnOf(child), End::Event(seq), EdgeType::Aggregate));
        }
    }

    /// A text, by its place: message, return or aggregate (R4).
    fn saying(&mut self, e: u32, agent: u32, saying: &Saying, stem: &str) {
        let recording = self.recording;
        let at = agent as usize;
        let parent = self.plan.parent[at];
        let last = self.plan.last_text[at] == e
            && (!recording.agents[at].open || self.plan.settled[at])
            && !recording.agents[at].unasked;
        let plays_user = |to: Agent| recording.agents[to.0 as usize].outside == Some(AgentKind::User);
        let user = match saying.to {
            Some(Party::Agent(to)) if plays_user(to) => Some(to.0),
            _ => None,
        };
        let to_other = user.is_none() && matches!(saying.to, Some(Party::Agent(_) | Party::Named(_)));
        // Of the answers before the last it is known where they arrive.
        let receiver = self.plan.answers_before.receivers.get(&e).copied();
        let event_type = if to_other || saying.aside || receiver.is_some() {
            EventType::Message
        } else if last && parent != NONE {
            EventType::Return
        } else if !self.agents[at].returned.is_empty() {
            EventType::Aggregate
        } else if last {
            EventType::Return
        } else {
            EventType::Message
        };
        let stem = if saying.id.is_none() { stem } else { recording.read(saying.id) };
        let seq = self.act(event_type, agent, stem, "");
        if last && !self.opening {
            // What closes the run follows what came in since its response began, which no model read.
            let State { read, helped, .. } = &self.agents[at];
            let came = helped.iter().chain(read).filter(|(_, kind)| *kind == EdgeType::Causal);
            self.edges.extend(came.map(|(src, kind)| (End::Event(*src), End::Event(seq), *kind)));
        }
        self.open(agent, seq);
        self.unrecorded(e, agent);
        self.out.set(EventField::Trusted, Value::Bool(true));
        match event_type {
            EventType::Message => match receiver {
                Some(to) => self.sent_to(agent, to),
                None => self.address(agent, seq, saying.to),
            },
            EventType::Return | EventType::Aggregate if parent == NONE && user.is_some() => {
                self.put_together(agent, seq);
                self.address(agent, seq, saying.to);
            }
            EventType::Return => {
                self.from(agent);
                let to = if parent == NONE { Rc::from(USER) } else { self.name(parent) };
                self.out.set(EventField::To, Value::Text(&to));
                if parent != NONE {
                    self.agents[at].answer = Some(seq);
                    self.agents[at].returned.clear();
                    for to in std::mem::take(&mut self.agents[at].early) {
                        self.receive(to, agent);
                    }
                    if !self.plan.told[at] {
                        self.receive(parent, agent);
                    }
                }
            }
            _ => {
                self.put_together(agent, seq);
                if last {
                    self.from(agent);
                    self.out.set(EventField::To, Value::Text(USER));
                }
            }
        }
        self.ended |= last && parent == NONE && !to_other;
        if let Some(ok) = saying.ok.filter(|_| self.response.is_none_or(|(_, r)| r.ok.is_none())) {
            self.out.set(EventField::Ok, Value::Bool(ok));
        }
        let turn = self.generation();
        self.close(e, turn, saying.content.as_ref(), saying.extras);
    }

    /// `from` and `to` of a message that arrives elsewhere.
    fn sent_to(&mut self, agent: u32, to: Agent) {
        self.from(agent);
        let name = self.name(to.0);
        self.out.set(EventField::To, Value::Text(&name));
    }

    /// An answer that is not the last of its agent reaches another; its next event is where.
    fn hear(&mut self, agent: u32, text: u32) {
        self.agents[agent as usize].waiting.push((End::Entry(text), EdgeType::Message));
        let seq = self.first[text as usize];
        if seq != NONE {
            self.read(agent, seq, None);
        }
    }

    /// The answer of a child reaches an agent; its next event is where.
    fn receive(&mut self, agent: u32, child: u32) {
        let state = &mut self.agents[agent as usize];
        state.waiting.push((End::ReturnOf(child), EdgeType::Return));
        if !state.returned.contains(&child) {
            state.returned.push(child);
        }
    }

    fn result(&mut self, e: u32, agent: u32, result: &CallResult) {
        let recording = self.recording;
        let call_entry = self.plan.answers[e as usize];
        let call = match recording.entries.get(call_entry as usize).map(|entry| entry.act) {
            Some(Act::Call { call, .. }) => Some(call),
            _ => None,
        };
        let mut child = None;
        match call.map(|call| call.does) {
            Some(Does::Tells(_) | Does::HandsOff(_) | Does::Ends(_)) => return,
            Some(Does::Spawns(spawned)) if !result.launched => child = Some(spawned.0),
            _ => {}
        }
        let brought = self.plan.answers_before.brought.get(&e).copied();
        let mut earlier = None;
        match (child, brought) {
            (Some(_), Some(Brought::Earlier(text))) => earlier = Some(End::Entry(text)),
            (Some(child), Some(Brought::Unrecorded)) => {
                earlier = Some(End::Event(self.message_unrecorded(child, agent, result)));
            }
            (Some(child), None) => self.answer_unrecorded(child, agent, result),
            _ => {}
        }
        let tool = call.map_or(result.tool, |call| if call.tool.is_none() { result.tool } else { call.tool });
        let name = if tool.is_none() { "tool" } else { recording.read(tool) };
        let stem = recording.read(if result.id.is_none() { result.call } else { result.id });
        let suffix = if result.id.is_none() { ":r" } else { "" };
        let seq = self.event(EventType::ToolResult, name, stem, suffix);
        self.set_text(EventField::Tool, tool);
        self.unrecorded(e, agent);
        if result.by_user {
            self.out.set(EventField::From, Value::Text(USER));
        }
        if let Some(trusted) = result.trusted {
            self.out.set(EventField::Trusted, Value::Bool(trusted));
        }
        if let Some(ok) = result.ok {
            self.out.set(EventField::Ok, Value::Bool(ok));
        }
        if let Some(duration) = self.duration_of(result) {
            self.out.set(EventField::DurationS, Value::F64(duration));
        }
        if result.waits {
            self.answers_waited_for(agent, seq);
        }
        if let Some(src) = result.brings.map(|help| self.first[help.0 as usize]).filter(|src| *src != NONE) {
            self.edges.push((End::Event(src), End::Event(seq), EdgeType::Message));
        }
        match (child.filter(|_| brought.is_none()), call) {
            _ if earlier.is_some() => {
                self.edges.extend(earlier.map(|said| (said, End::Event(seq), EdgeType::Message)));
            }
            (Some(child), _) => {
                self.edges.push((End::ReturnOf(child), End::Event(seq), EdgeType::Return));
                let returned = &mut self.agents[agent as usize].returned;
                if !returned.contains(&child) {
                    returned.push(child);
                }
            }
            (None, Some(_)) => {
                self.edges.push((End::Entry(call_entry), End::Event(seq), EdgeType::Return));
                // what a human decided of it came before
                if let Some(decision) = self.decided.remove(&call_entry) {
                    self.edges.push((End::Event(decision), End::Event(seq), EdgeType::Causal));
                }
            }
            (None, None) => self.partial_event(),
        }
        let turn = self.turns.get(call_entry as usize).copied().unwrap_or(NONE);
        self.close(e, turn, result.content.as_ref(), result.extras);
        self.read(agent, seq, result.trusted);
    }

    /// The answer of a child that said nothing which was recorded: its result is what there is of it.
    fn answer_unrecorded(&mut self, child: u32, parent: u32, result: &CallResult) {
        let at = child as usize;
        let silent = self.plan.last_text[at] == NONE && self.agents[at].answer.is_none();
        if !silent || (self.plan.present[at] && self.recording.agents[at].open) {
            return;
        }
        self.partial |= !self.plan.present[at];
        let stem = [self.recording.read(result.call), ":return"].concat();
        let seq = self.act(EventType::Return, child, &stem, "");
        self.from(child);
        let name = self.name(parent);
        self.out.set(EventField::To, Value::Text(&name));
        self.out.set(EventField::Trusted, Value::Bool(true));
        if let Some(ok) = result.ok {
            self.out.set(EventField::Ok, Value::Bool(ok));
        }
        self.partial_event();
        self.close(NONE, NONE, result.content.as_ref(), Text::default());
        self.agents[at].answer = Some(seq);
    }

    /// An answer before the last, of a child that said nothing which was recorded: its result is what there is of it.
    fn message_unrecorded(&mut self, child: u32, parent: u32, result: &CallResult) -> u32 {
        self.partial |= !self.plan.present[child as usize];
        let stem = [self.recording.read(result.call), ":message"].concat();
        let seq = self.act(EventType::Message, child, &stem, "");
        self.sent_to(child, Agent(parent));
        self.out.set(EventField::Trusted, Value::Bool(true));
        if let Some(ok) = result.ok {
            self.out.set(EventField::Ok, Value::Bool(ok));
        }
        self.partial_event();
        self.close(NONE, NONE, result.content.as_ref(), Text::default());
        seq
    }

    /// The spawn of an agent whose parent is known but not how it was asked.
    fn spawn_unrecorded(&mut self, child: u32) {
        let parent = self.plan.parent[child as usize];
        let name = self.name(child);
        let id = self.recording.read(self.recording.agents[child as usize].source_id);
        let id = if id.is_empty() { &*name } else { id };
        let at = parent as usize;
        let seq = if self.plan.present[at] || self.plan.parent[at] != NONE {
            self.act(EventType::Spawn, parent, id, ":s")
        } else {
            // What is not there at all did nothing that is known, from one such spawn to the next.
            let (parent, t) = (self.name(parent), self.t);
            let began = self.recording.agents[child as usize].began.filter(|_| self.order.timed);
            self.t =
                began.map_or(t, |began| t.min(began.saturating_sub(self.order.base).max(0) as f64 / 1e9));
            let seq = self.event(EventType::Spawn, &parent, id, ":s");
            self.t = t;
            seq
        };
        // what nobody recorded took no time that is known
        self.out.set(EventField::DurationS, Value::F64(0.0));
        self.concerns(child);
        self.out.set(EventField::Trusted, Value::Bool(true));
        self.partial_event();
        self.close(NONE, NONE, None, Text::default());
        self.agents[child as usize].waiting.push((End::Event(seq), EdgeType::Spawn));
    }

    /// An event of somebody who is no agent of the recording; of others than the user the role says so.
    fn outsider(&mut self, event_type: EventType, by: Party, name: &str, id: &str) -> u32 {
        let seq = self.event(event_type, name, id, "");
        if matches!(by, Party::Named(_)) {
            self.out.set(EventField::Role, Value::Text(AgentKind::Environment.as_str()));
        }
        seq
    }

    fn incoming(&mut self, e: u32, agent: u32, incoming: &Incoming) {
        let from = self.party(incoming.from);
        let to = self.name(agent);
        let event_type = if incoming.intervenes { EventType::HumanIntervention } else { EventType::Message };
        let id = self.recording.read(incoming.id);
        let seq = match incoming.from {
            Party::Agent(by) => self.act(event_type, by.0, id, ""),
            other => self.outsider(event_type, other, &from, id),
        };
        self.out.set(EventField::From, Value::Text(&from));
        self.out.set(EventField::To, Value::Text(&to));
        if let Some(trusted) = incoming.trusted {
            self.out.set(EventField::Trusted, Value::Bool(trusted));
        }
        self.close(e, NONE, incoming.content.as_ref(), incoming.extras);
        let call = self.plan.answers[e as usize];
        if call != NONE {
            self.edges.push((End::Entry(call), End::Event(seq), EdgeType::Causal));
            self.decided.insert(call, seq);
        }
        self.agents[agent as usize].waiting.push((End::Event(seq), EdgeType::Message));
        self.read(agent, seq, incoming.trusted);
    }

    fn mark(&mut self, e: u32, agent: u32, mark: &Mark) {
        let id = self.recording.read(mark.id);
        let seq = match mark.by.unwrap_or(Party::Agent(Agent(agent))) {
            Party::Agent(by) => self.act(mark.event_type, by.0, id, ""),
            other => {
                let name = self.party(other);
                self.outsider(mark.event_type, other, &name, id)
            }
        };
        if let Some(to) = mark.to {
            if matches!(mark.event_type, EventType::Spawn | EventType::Despawn) {
                self.concerns(to.0);
            } else {
                let name = self.name(to.0);
                self.out.set(EventField::To, Value::Text(&name));
            }
            if mark.event_type == EventType::Spawn && self.plan.spawn[to.0 as usize] != e {
                self.agents[to.0 as usize].waiting.push((End::Event(seq), EdgeType::Spawn));
            }
        }
        self.set_text(EventField::Tool, mark.tool);
        for (field, flag) in [(EventField::Trusted, mark.trusted), (EventField::Ok, mark.ok)] {
            if let Some(flag) = flag {
                self.out.set(field, Value::Bool(flag));
            }
        }
        self.close(e, NONE, mark.content.as_ref(), mark.extras);
    }
}

/// Whether members say that the recording ends before the event does.
fn is_partial(members: &str) -> bool {
    memmem::find(members.as_bytes(), br#""x_partial":"#).is_some()
}

/// A hash as events show it, written into `text`.
fn content_ref<'t>(hash: &Hash, text: &'t mut [u8; 71]) -> &'t str {
    text[..7].copy_from_slice(b"sha256:");
    spell(hash, &mut text[7..]);
    std::str::from_utf8(text).unwrap_or_default()
}
