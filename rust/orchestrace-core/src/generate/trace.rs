//! The simulation of one run: a discrete-event schedule of agents that answer, call tools, write to each
//! other, spawn, return and aggregate, by the rules that importers follow for real recordings.
//!
//! The number of events is exact by construction. Every obligation (the result of an open call, the return
//! of a live child, the answer of the root) is reserved when it arises; agents act freely while events are
//! left over and only fulfil obligations once none are. Events come out in order of time, and edges lead
//! from earlier to later events.

mod actions;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::names::MODELS;
use super::preset::Size;
use super::record::{Agent, Edge, Event, NONE, Names, USER};
use super::task::{Feature, Task};
use crate::rng::Stream;
use crate::schema::{EdgeType, EventType};

const ROOT: u32 = 0;
/// Tokens at which an agent compacts its context.
const WINDOW: u32 = 100_000;

/// Quantiles of a log-normal law with σ = 0.8, times 1024, at 0.004, 1/64, …, 63/64, 0.997. A table,
/// because `exp` differs in its last bits between platforms.
const LOG_NORMAL: [u64; 65] = [
    123, 183, 231, 268, 300, 329, 357, 383, 408, 432, 456, 480, 504, 527, 550, 574, 597, 621, 644, 668, 693,
    717, 742, 768, 794, 820, 847, 875, 903, 932, 962, 992, 1024, 1057, 1090, 1125, 1161, 1199, 1238, 1279,
    1321, 1366, 1413, 1462, 1514, 1569, 1627, 1690, 1756, 1828, 1906, 1990, 2082, 2184, 2297, 2425, 2570,
    2739, 2939, 3183, 3494, 3914, 4544, 5736, 9225,
];

fn log_normal(rng: &mut Stream, median: u64) -> u64 {
    let bits = rng.bits32();
    let (knot, part) = ((bits >> 26) as usize, u64::from(bits >> 16 & 1023));
    let (low, high) = (LOG_NORMAL[knot], LOG_NORMAL[knot + 1]);
    (median * (low * 1024 + (high - low) * part)) >> 20
}

/// Something an agent will read: a link of a list.
#[derive(Debug, Clone, Copy)]
struct Mail {
    src: u32,
    kind: EdgeType,
    next: u32,
}

/// When an agent answers, or when a call of it ends. Equal times go by order of scheduling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Wake {
    at: u64,
    order: u32,
    agent: u32,
    call: u32,
}

/// What a corpus fixes in a run and others leave to topology and chance; at first nothing.
pub(super) trait Rules {
    /// Whether no person and no guard interrupts: every event has an owner, so that all of them can earn.
    fn undisturbed(&self) -> bool {
        false
    }

    /// Whether spawns nest as deep as they may, whatever the topology.
    fn exact_depth(&self) -> bool {
        false
    }

    /// Fewest and most agents of one delegation.
    fn width(&self) -> Option<(u64, u64)> {
        None
    }

    /// Least share of a worker's answers that delegate, where depth allows it.
    fn nest(&self) -> f64 {
        0.04
    }

    /// Whether the root's first decision spawns anybody.
    fn spawns(&mut self, _: &mut Stream) -> bool {
        true
    }

    /// The stream that the run goes on with, where it parts from others at the last of these events, with which an answer
    /// begins; `ends` says whether the run is over with it.
    fn fork(&mut self, _events: &[Event], _ends: bool) -> Option<Stream> {
        None
    }
}

/// No rules.
#[derive(Debug)]
pub(super) struct Free;

impl Rules for Free {}

/// One run, and the buffers that the next one will use again.
#[derive(Debug)]
pub(super) struct Run<R = Free> {
    pub(super) task: Task,
    pub(super) events: Vec<Event>,
    pub(super) edges: Vec<Edge>,
    pub(super) agents: Vec<Agent>,
    pub(super) names: Names,
    pub(super) rng: Stream,
    pub(super) rules: R,
    mail: Vec<Mail>,
    wakes: BinaryHeap<Reverse<Wake>>,
    idle: Vec<u32>,
    now: u64,
    order: u32,
    target: u32,
    reserved: u32,
    /// Agents that may still be spawned, of how many.
    unborn: u32,
    team: u32,
    depth: u8,
    turn: u32,
    place: u32,
    subtasks: u32,
}

impl<R: Rules> Run<R> {
    pub(super) fn new(rules: R) -> Self {
        Self {
            task: Task::draw(0, 0),
            events: Vec::new(),
            edges: Vec::new(),
            agents: Vec::new(),
            names: Names::default(),
            rng: Stream::new(0, "", b""),
            rules,
            mail: Vec::new(),
            wakes: BinaryHeap::new(),
            idle: Vec::new(),
            now: 0,
            order: 0,
            target: 0,
            reserved: 0,
            unborn: 0,
            team: 0,
            depth: 0,
            turn: 0,
            place: 0,
            subtasks: 0,
        }
    }

    /// Plays one run of exactly `size.events` events.
    pub(super) fn play(&mut self, task: Task, size: Size, rng: Stream) {
        self.task = task;
        self.rng = rng;
        self.events.clear();
        self.edges.clear();
        self.agents.clear();
        self.names.clear();
        self.mail.clear();
        self.wakes.clear();
        self.idle.clear();
        (self.now, self.order, self.turn, self.place, self.subtasks) = (0, 0, 0, 0, 0);
        self.target = size.events;
        self.team = size.agents;
        self.unborn = size.agents.saturating_sub(1);
        let nests = self.task.shape().nest > 0.1 && !self.rules.exact_depth();
        self.depth = size.depth + u8::from(nests);
        self.reserved = 1;
        self.add_agent(0, NONE, 0);
        self.schedule(ROOT);
        let mut over = false;
        while let (false, Some(Reverse(wake))) = (over, self.wakes.pop()) {
            // The clock starts with the first event.
            self.now = if self.events.is_empty() { 0 } else { wake.at };
            if wake.call == NONE {
                over = self.respond(wake.agent);
            } else {
                self.finish_call(wake.agent, wake.call);
            }
        }
    }

    fn slack(&self) -> u32 {
        self.target - self.reserved - self.events.len() as u32
    }

    fn agent(&mut self, a: u32) -> &mut Agent {
        &mut self.agents[a as usize]
    }

    fn add_agent(&mut self, role: u8, boss: u32, depth: u8) -> u32 {
        let number = self.agents.len();
        let name = self.names.add(self.task.naming, role, number);
        let model =
            if self.rng.bool(0.8) { self.task.model } else { self.rng.below(MODELS.len() as u64) as u8 };
        self.agents.push(Agent {
            name,
            role,
            boss,
            depth,
            model,
            active: true,
            scheduled: false,
            quota: 0,
            live_children: 0,
            open_calls: 0,
            inbox: NONE,
            returns: NONE,
            last: NONE,
            untrusted: NONE,
            context: self.rng.range(400, 3000) as u32,
            drafting: 0,
            latency: 0,
            skill: self.rng.range(450, 980) as u16,
            subtask: NONE,
        });
        number as u32
    }

    /// Lets an agent think; the length of its answer sets how long.
    fn schedule(&mut self, a: u32) {
        let tokens = 8 + log_normal(&mut self.rng, 150);
        let agent = &mut self.agents[a as usize];
        let latency = 200 + tokens * MODELS[usize::from(agent.model)].pace;
        agent.drafting = tokens as u32;
        agent.latency = latency as u32;
        agent.scheduled = true;
        self.wake_at(self.now + latency, a, NONE);
    }

    fn wake_at(&mut self, at: u64, agent: u32, call: u32) {
        self.order += 1;
        self.wakes.push(Reverse(Wake { at, order: self.order, agent, call }));
    }

    fn edge(&mut self, src: u32, dst: u32, kind: EdgeType) {
        self.edges.push(Edge { src, dst, kind });
    }

    fn post(&mut self, src: u32, kind: EdgeType, list: u32) -> u32 {
        self.mail.push(Mail { src, kind, next: list });
        self.mail.len() as u32 - 1
    }

    fn deliver(&mut self, to: u32, src: u32, kind: EdgeType) {
        let inbox = self.agents[to as usize].inbox;
        self.agents[to as usize].inbox = self.post(src, kind, inbox);
    }

    fn emit(&mut self, kind: EventType, actor: u32) -> u32 {
        let (hash, salt) = (self.rng.bits64(), self.rng.bits64());
        self.events.push(Event {
            t: self.now,
            kind,
            actor,
            to: NONE,
            tool: 0,
            trusted: None,
            ok: true,
            corrupted: false,
            seed: false,
            sanitizer: false,
            turn: self.turn,
            place: self.place,
            duration: 0,
            tokens_in: 0,
            tokens_out: 0,
            score: None,
            subtask: NONE,
            hash,
            salt,
        });
        self.place += 1;
        self.events.len() as u32 - 1
    }

    /// An event in the agent's own line.
    fn act(&mut self, kind: EventType, a: u32) -> u32 {
        let at = self.emit(kind, a);
        let subtask = self.agents[a as usize].subtask;
        let event = &mut self.events[at as usize];
        event.subtask = subtask;
        if matches!(kind, EventType::ToolCall | EventType::Message | EventType::Return) {
            event.trusted = Some(true);
        }
        let last = std::mem::replace(&mut self.agent(a).last, at);
        if last != NONE && self.task.has(Feature::Temporal) {
            self.edge(last, at, EdgeType::Temporal);
        }
        at
    }

    /// The first event of a response: it reads the inbox and bears the usage.
    fn begin(&mut self, kind: EventType, a: u32) -> u32 {
        self.turn += 1;
        self.place = 0;
        let before = self.agents[a as usize].last;
        let at = self.act(kind, a);
        if let Some(stream) = self.rules.fork(&self.events, at + 1 == self.target) {
            self.rng = stream;
            self.events[at as usize].salt = self.rng.bits64();
        }
        let aggregates = kind == EventType::Aggregate;
        let flows = self.task.has(Feature::Safety);
        let mut ill = false;
        let mut letter = std::mem::replace(&mut self.agent(a).inbox, NONE);
        if letter == NONE && before != NONE {
            // Nothing new: the agent goes on from its own context.
            let kind = if kind == EventType::ToolCall { EdgeType::ToolDependency } else { EdgeType::Causal };
            self.edge(before, at, kind);
            ill = self.events[before as usize].corrupted;
        }
        while letter != NONE {
            let mail = self.mail[letter as usize];
            // What is aggregated gets its edge below, from the list of returns.
            if !(aggregates && mail.kind == EdgeType::Return) {
                self.edge(mail.src, at, mail.kind);
            }
            let source = &self.events[mail.src as usize];
            ill |= source.corrupted;
            if flows && source.trusted == Some(false) {
                self.edge(mail.src, at, EdgeType::SafetyFlow);
            }
            letter = mail.next;
        }
        if aggregates {
            let mut letter = std::mem::replace(&mut self.agent(a).returns, NONE);
            while letter != NONE {
                let mail = self.mail[letter as usize];
                self.edge(mail.src, at, EdgeType::Aggregate);
                letter = mail.next;
            }
        }
        let corrupted = ill && self.rng.bool(0.7);
        let agent = &mut self.agents[a as usize];
        let event = &mut self.events[at as usize];
        event.corrupted = corrupted;
        event.tokens_in = agent.context;
        event.tokens_out = agent.drafting;
        event.duration = if at == 0 { 0 } else { agent.latency };
        agent.context += agent.drafting;
        if agent.context > WINDOW {
            agent.context = WINDOW / 8;
        }
        at
    }

    /// A further event of the response that began with `first`.
    fn follow(&mut self, kind: EventType, a: u32, first: u32, edge: EdgeType) -> u32 {
        let at = self.act(kind, a);
        self.edge(first, at, edge);
        self.events[at as usize].corrupted = self.events[first as usize].corrupted;
        at
    }

    /// Quality of what an agent says, less if it builds on an error.
    fn judge(&mut self, at: u32) {
        let noise = self.rng.below(200) as u16;
        let event = &mut self.events[at as usize];
        let clean = self.agents[event.actor as usize].skill + noise - 100;
        event.score = Some(if event.corrupted { clean / 3 } else { clean.min(1000) });
    }

    /// An agent's turn to act; true if that ended the run.
    fn respond(&mut self, a: u32) -> bool {
        self.agent(a).scheduled = false;
        let slack = self.slack();
        let agent = &self.agents[a as usize];
        let (busy, returned, spent) = (agent.live_children > 0, agent.returns != NONE, agent.quota == 0);
        if slack == 0 {
            return self.close(a);
        }
        if self.interrupted(a) {
            self.schedule(a);
        } else if returned && self.rng.bool(if busy { 0.4 } else { 0.8 }) {
            self.aggregate(a);
            if !busy {
                self.schedule(a);
            }
        } else if busy {
            if slack >= 3 && self.rng.bool(0.3) {
                self.delegate(a, slack);
            }
        } else if a == ROOT {
            let delegates = slack >= 3 && (self.events.is_empty() || self.rng.bool(0.8));
            if !(delegates && self.delegate(a, slack)) {
                self.work(a, slack);
            }
        } else if spent {
            self.give_back(a);
        } else {
            self.agent(a).quota -= 1;
            let nest = if self.depth > 1 { self.task.shape().nest.max(self.rules.nest()) } else { 0.0 };
            let may = slack >= 3 && self.agents[a as usize].depth < self.depth && self.unborn > 0;
            if !(may && self.rng.bool(nest) && self.delegate(a, slack)) {
                self.work(a, slack);
            }
        }
        false
    }

    /// No event is left but the reserved ones.
    fn close(&mut self, a: u32) -> bool {
        if self.agents[a as usize].live_children > 0 {
            return false; // the last child will wake it
        }
        if a != ROOT {
            self.give_back(a);
            return false;
        }
        let returned = self.agents[a as usize].returns != NONE;
        let at = self.begin(if returned { EventType::Aggregate } else { EventType::Return }, a);
        self.judge(at);
        if !returned {
            self.events[at as usize].to = USER;
        }
        self.reserved -= 1;
        true
    }
}
