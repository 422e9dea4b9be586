//! Conversion of turns to events and edges (docs/reference/importer-rules.md, R1 to R6).

use std::fmt::Write;

use super::Run;
use crate::columns::intern::Interner;
use crate::columns::writer::{Event, TraceWriter, Value};
use crate::error::{FindingCode, RejectCode};
use crate::json::{Fault, Parsed};
use crate::schema::{EdgeType, EventField, EventType, TimeBasis, Topology};

const ORCHESTRATOR: &str = "Orchestrator";
const EXECUTOR: &str = "Computer_terminal";
const USER: &str = "user";
const TOOL: &str = "python";

/// Most edges from messages to all: they are as many as turns times agents, which a record of a few megabytes
/// could make as large as it likes. The data set's longest run has under a hundred.
const MAX_HEARD: usize = 1 << 24;

/// What a speaker of an orchestrated run does, by the words in parentheses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Asks,
    Decides,
    Delegates(u32),
    Ends,
    Comments,
    Works,
}

/// One who speaks or is spoken to.
#[derive(Debug, Default)]
struct Speaker {
    role: Option<&'static str>,
    spawned: bool,
    last: Option<u32>,
    /// Events that lead to the next one of this speaker.
    waiting: Vec<(u32, EdgeType)>,
}

/// What an event is besides its speaker.
#[derive(Debug, Clone, Copy, Default)]
struct Saying<'a> {
    from: bool,
    to: Option<&'a str>,
    role: Option<&'a str>,
    content: Option<&'a [u8; 32]>,
}

struct Emitter<'r, 'w, 'b> {
    out: &'w mut TraceWriter<'b>,
    names: &'r Interner,
    speakers: Vec<Speaker>,
    /// What everybody hears: the chat's messages and results, by `seq`.
    heard: Vec<(u32, EdgeType)>,
    heard_edges: usize,
    turn: u32,
    /// Events of the turn so far.
    k: u32,
    text: String,
    calls: u32,
    messages: u32,
}

/// Writes all events and edges; the number of tool calls and of messages.
pub(super) fn write(run: &Run, out: &mut TraceWriter<'_>) -> Parsed<(u32, u32)> {
    out.time_basis(TimeBasis::Ordinal);
    out.topology(if run.named { Topology::Mixed } else { Topology::Centralized });
    let mut names = Interner::default();
    let turns = if run.named { chat_turns(run, &mut names) } else { orchestrated_turns(run, &mut names) };
    let mut emitter = Emitter {
        out,
        speakers: (0..names.len()).map(|_| Speaker::default()).collect(),
        names: &names,
        heard: Vec::new(),
        heard_edges: 0,
        turn: 0,
        k: 0,
        text: String::new(),
        calls: 0,
        messages: 0,
    };
    let complete = if run.named { emitter.chat(run, &turns) } else { emitter.orchestrated(run, &turns) }?;
    let (calls, messages) = (emitter.calls, emitter.messages);
    if !complete {
        out.partial();
        let last = out.n_events().checked_sub(1).map(|seq| seq as u32);
        out.finding(FindingCode::TracePartial, last, || "the last turn does not end the run".into());
    }
    Ok((calls, messages))
}

/// Who speaks in each turn of a chat, and does what.
fn chat_turns(run: &Run, names: &mut Interner) -> Vec<(u32, Part)> {
    let names_of_turns = run.turns.iter().filter_map(|t| t.name);
    names_of_turns.map(|word| (names.code(run.words.name(word)), Part::Comments)).collect()
}

/// The same of an orchestrated run; each distinct role is taken apart once.
fn orchestrated_turns(run: &Run, names: &mut Interner) -> Vec<(u32, Part)> {
    let orchestrator = names.code(ORCHESTRATOR);
    let mut parts = Vec::with_capacity(run.words.len());
    for role in run.words.names() {
        let (speaker, act) = role.split_once(" (").unwrap_or((role, ""));
        let speaker = names.code(if speaker == "human" { USER } else { speaker });
        let act = act.strip_suffix(')').unwrap_or(act);
        let target = act.strip_prefix("->").map(str::trim).filter(|t| !t.is_empty());
        let part = match act {
            _ if names.name(speaker) == USER => Part::Asks,
            _ if speaker != orchestrator => Part::Works,
            "thought" => Part::Decides,
            "termination condition" => Part::Ends,
            _ => target
                .map_or(Part::Comments, |t| Part::Delegates(names.code(if t == "human" { USER } else { t }))),
        };
        parts.push((speaker, part));
    }
    run.turns.iter().filter_map(|t| t.role).map(|role| parts[role as usize]).collect()
}

impl Emitter<'_, '_, '_> {
    /// A group chat; whether it came to its end.
    fn chat(&mut self, run: &Run, turns: &[(u32, Part)]) -> Parsed<bool> {
        let executor = self.names.find(EXECUTOR);
        let is_result = |at: usize| Some(turns[at].0) == executor && !run.turns[at].idle;
        let mut call = None;
        let mut complete = false;
        for (at, (turn, &(speaker, _))) in run.turns.iter().zip(turns).enumerate() {
            self.begin(at);
            let call_before = call.take();
            let last = at + 1 == turns.len();
            let content = Some(&turn.content);
            if is_result(at) {
                let seq = self.result(content, turn.exit_ok, call_before);
                self.heard.push((seq, EdgeType::Causal));
            } else if last && turn.terminates && Some(speaker) != executor {
                self.say(
                    EventType::Return,
                    speaker,
                    Saying { from: true, to: Some(USER), content, ..Saying::default() },
                )?;
                complete = true;
            } else {
                let seq = self.say(
                    EventType::Message,
                    speaker,
                    Saying { from: true, content, ..Saying::default() },
                )?;
                self.heard.push((seq, EdgeType::Message));
                let runs = turn.call.as_ref().filter(|_| !last && is_result(at + 1));
                if runs.is_some() {
                    let call_event = self.say(
                        EventType::ToolCall,
                        speaker,
                        Saying { content: runs, ..Saying::default() },
                    )?;
                    self.out.set(EventField::Tool, Value::Text(TOOL));
                    self.out.edge(seq, call_event, EdgeType::ToolDependency);
                    call = Some(call_event);
                }
            }
        }
        Ok(complete)
    }

    /// A run under an orchestrator; whether it came to its end.
    fn orchestrated(&mut self, run: &Run, turns: &[(u32, Part)]) -> Parsed<bool> {
        let orchestrator = self.names.find(ORCHESTRATOR).unwrap_or_default();
        let is_child = |names: &Interner, who: u32| who != orchestrator && names.name(who) != USER;
        for &(_, part) in turns {
            if let Part::Delegates(target) = part
                && is_child(self.names, target)
            {
                self.speakers[target as usize].role = Some("executor");
                self.speakers[orchestrator as usize].role = Some("lead");
            }
        }
        let mut decision = None;
        let mut returned: Vec<u32> = Vec::new();
        for (at, (turn, &(speaker, part))) in run.turns.iter().zip(turns).enumerate() {
            self.begin(at);
            let role = self.speakers[speaker as usize].role;
            let saying = Saying { role, content: Some(&turn.content), ..Saying::default() };
            match part {
                Part::Decides => {
                    decision = Some(self.say(EventType::OrchestratorDecision, speaker, saying)?);
                }
                Part::Delegates(target) => {
                    let to = Some(self.names.name(target));
                    let child = &mut self.speakers[target as usize];
                    if is_child(self.names, target) && !std::mem::replace(&mut child.spawned, true) {
                        let role = child.role;
                        let seq =
                            self.say(EventType::Spawn, speaker, Saying { to, role, ..Saying::default() })?;
                        if let Some(decision) = decision {
                            self.out.edge(decision, seq, EdgeType::Spawn);
                        }
                        self.speakers[target as usize].waiting.push((seq, EdgeType::Spawn));
                    }
                    self.address(
                        speaker,
                        target,
                        EventType::Message,
                        EdgeType::Message,
                        Saying { to, ..saying },
                    )?;
                }
                Part::Asks => {
                    let saying = Saying { to: Some(ORCHESTRATOR), ..saying };
                    self.address(speaker, orchestrator, EventType::Message, EdgeType::Message, saying)?;
                }
                Part::Works => {
                    let saying = Saying { to: Some(ORCHESTRATOR), ..saying };
                    returned.push(self.address(
                        speaker,
                        orchestrator,
                        EventType::Return,
                        EdgeType::Return,
                        saying,
                    )?);
                }
                Part::Comments => {
                    self.say(EventType::Message, speaker, Saying { from: true, ..saying })?;
                }
                Part::Ends => {
                    let answer = Saying { from: true, to: Some(USER), ..saying };
                    let seq = self.say(EventType::Aggregate, speaker, answer)?;
                    for child in returned.drain(..) {
                        self.out.edge(child, seq, EdgeType::Aggregate);
                    }
                }
            }
        }
        Ok(turns.last().is_some_and(|&(_, part)| part == Part::Ends))
    }

    fn begin(&mut self, turn: usize) {
        self.turn = turn as u32;
        self.k = 0;
    }

    /// An event without anything that depends on its type.
    fn event(&mut self, event_type: EventType, agent: &str) -> u32 {
        self.text.clear();
        // Writing to a string cannot fail.
        let _ok = write!(self.text, "{}:{}", self.turn, self.k);
        self.k += 1;
        let seq = self.out.event(Event { id: &self.text, t: f64::from(self.turn), event_type, agent });
        self.out.set(EventField::Turn, Value::U32(self.turn));
        seq
    }

    /// An event of a speaker, with the edges that lead to it.
    fn say(&mut self, event_type: EventType, speaker: u32, saying: Saying<'_>) -> Parsed<u32> {
        let name = self.names.name(speaker);
        let seq = self.event(event_type, name);
        self.calls += u32::from(event_type == EventType::ToolCall);
        self.messages += u32::from(event_type == EventType::Message);
        for (field, value) in [
            (EventField::Role, saying.role),
            (EventField::From, saying.from.then_some(name)),
            (EventField::To, saying.to),
        ] {
            if let Some(value) = value {
                self.out.set(field, Value::Text(value));
            }
        }
        if let Some(hash) = saying.content {
            self.content(hash);
            self.out.set(EventField::Trusted, Value::Bool(true));
        }
        let state = &mut self.speakers[speaker as usize];
        let last = state.last.replace(seq);
        // The user is no agent, hence has no thread of its own.
        if let Some(last) = last.filter(|_| name != USER) {
            self.out.edge(last, seq, EdgeType::Temporal);
        }
        for (src, edge_type) in state.waiting.drain(..) {
            self.out.edge(src, seq, edge_type);
        }
        // All that has been heard since its last event is by others: every one of its own is such an event.
        let from = last.map_or(0, |last| self.heard.partition_point(|(heard, _)| *heard <= last));
        self.heard_edges += self.heard.len() - from;
        if self.heard_edges > MAX_HEARD {
            let message = format!("messages to all agents make more than {MAX_HEARD} edges, the limit");
            return Err(Fault::value(RejectCode::RecordTooLarge, message).at_index(self.turn as usize));
        }
        for &(src, edge_type) in &self.heard[from..] {
            self.out.edge(src, seq, edge_type);
        }
        Ok(seq)
    }

    /// An event that leads to the next one of the speaker it is addressed to.
    fn address(
        &mut self,
        from: u32,
        to: u32,
        kind: EventType,
        edge: EdgeType,
        saying: Saying<'_>,
    ) -> Parsed<u32> {
        let seq = self.say(kind, from, Saying { from: true, ..saying })?;
        self.speakers[to as usize].waiting.push((seq, edge));
        Ok(seq)
    }

    /// What the executor gives back; its agent is the tool (R1).
    fn result(&mut self, content: Option<&[u8; 32]>, ok: Option<bool>, call: Option<u32>) -> u32 {
        let seq = self.event(EventType::ToolResult, TOOL);
        self.out.set(EventField::Tool, Value::Text(TOOL));
        self.out.set(EventField::Trusted, Value::Bool(false));
        if let Some(hash) = content {
            self.content(hash);
        }
        if let Some(ok) = ok {
            self.out.set(EventField::Ok, Value::Bool(ok));
        }
        match call {
            Some(call) => self.out.edge(call, seq, EdgeType::Return),
            None if self.out.options.extras => {
                self.out.set(EventField::Extras, Value::Text(r#"{"x_partial":true}"#));
            }
            None => {}
        }
        seq
    }

    fn content(&mut self, hash: &[u8; 32]) {
        self.text.clear();
        self.text.push_str("sha256:");
        for byte in hash {
            let _ok = write!(self.text, "{byte:02x}");
        }
        self.out.set(EventField::ContentRef, Value::Text(&self.text));
    }
}
