//! The agents in a flat list of events: spans, or the steps of older logs.
//!
//! An agent is a span of the type `agent`, a subtask that was forked, a tool that itself asks a model, and a scorer
//! that does. All other spans only give structure. The one agent that does everything is the root; where several do,
//! or something is done outside of all of them, the root is the sample itself.

use std::collections::{HashMap, VecDeque};

use crate::json::time::parse_timestamp;
use crate::json::tree::Value;

pub(super) const NONE: u32 = u32::MAX;
/// The span that all others lie in.
pub(super) const ROOT: u32 = 0;

/// What an event of a log is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum About {
    Begin,
    End,
    Model,
    Tool,
    Subtask,
    Approval,
    Input,
    Interrupt,
    Limit,
    Error,
    Score,
    Compaction,
    /// Nothing that a trace has.
    Nothing,
    Unknown,
}

/// One event of a log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step<'t> {
    pub value: Value<'t>,
    pub about: About,
    /// The span it lies in; of a begin and an end the span that begins or ends.
    pub span: u32,
    pub start: Option<i64>,
    pub end: Option<i64>,
    /// The agent that a tool or subtask made work.
    pub child: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Root,
    Agent,
    Tool,
    Scorer,
    Branch,
    Other,
}

/// A span, step, or list of events inside of an event.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span<'t> {
    pub id: &'t str,
    pub name: &'t str,
    kind: Kind,
    parent_id: Option<&'t str>,
    pub parent: u32,
    pub closed: bool,
    /// When it ended.
    pub end: Option<i64>,
    /// Whether it is an agent.
    acts: bool,
    /// The tool or subtask that it is the work of.
    asked_by: u32,
    /// The agent that owns what lies directly in it.
    pub agent: u32,
    /// The branch that it lies in, if any, and whether its agent does not.
    pub branch: u32,
    pub aside: bool,
}

/// An agent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Who<'t> {
    pub span: u32,
    pub name: &'t str,
    pub parent: u32,
    /// Whether it judges what others did.
    pub judges: bool,
    /// The tool or subtask that made it work.
    pub asked_by: u32,
}

/// Who did what in a list of events.
#[derive(Debug, Default)]
pub(super) struct Transcript<'t> {
    pub steps: Vec<Step<'t>>,
    pub spans: Vec<Span<'t>>,
    pub agents: Vec<Who<'t>>,
    /// Events by kinds that nobody knows.
    pub unknown: Vec<(&'t str, u32)>,
    /// References to spans that are not recorded.
    pub lost: u32,
    /// Parent links that closed a cycle.
    pub cycles: u32,
    /// Spans that begin twice.
    pub repeated: u32,
    by_id: HashMap<&'t str, u32>,
    /// Ids of the spans of steps, until all spans are known.
    span_ids: Vec<Option<&'t str>>,
}

impl<'t> Transcript<'t> {
    pub(super) fn of(events: Value<'t>) -> Self {
        let mut transcript = Self::default();
        transcript.begin("", "main", Kind::Root, NONE);
        transcript.collect(events, ROOT);
        transcript.resolve();
        transcript.end_models();
        transcript.pair_tools();
        transcript.find_agents();
        transcript.name_agents();
        transcript
    }

    fn begin(&mut self, id: &'t str, name: &'t str, kind: Kind, parent: u32) -> u32 {
        let at = self.spans.len() as u32;
        self.spans.push(Span {
            id,
            name,
            kind,
            parent_id: None,
            parent,
            closed: kind == Kind::Root,
            end: None,
            acts: false,
            asked_by: NONE,
            agent: 0,
            branch: NONE,
            aside: false,
        });
        at
    }

    /// Flattens a list of events, and the lists that older logs have inside of events.
    fn collect(&mut self, events: Value<'t>, base: u32) {
        // Older logs have steps, of which an end closes the innermost whatever its name.
        let mut open = vec![base];
        for value in events.elements() {
            let text = |key: &str| value.get(key).str();
            let word = text("event").unwrap_or_default();
            let mut span_id = text("span_id");
            let mut span = open[open.len() - 1];
            let about = match word {
                "span_begin" => {
                    let id = text("id").unwrap_or_default();
                    let existing = self.by_id.get(id).copied();
                    // Beside the parent stands the span of the event, which newer logs say to be the span itself.
                    let parent = value.get("parent_id");
                    let parent = if parent.is_absent() { span_id.filter(|s| *s != id) } else { parent.str() };
                    span_id = None;
                    if let Some(existing) = existing {
                        span = existing;
                        self.repeated += 1;
                        About::Nothing
                    } else {
                        span = self.begin(id, text("name").unwrap_or_default(), kind(text("type")), span);
                        self.spans[span as usize].parent_id = parent;
                        if !id.is_empty() {
                            self.by_id.insert(id, span);
                        }
                        About::Begin
                    }
                }
                "span_end" => {
                    span_id = text("id").or(span_id);
                    About::End
                }
                "step" if text("action") == Some("end") => {
                    if open.len() == 1 {
                        About::Nothing
                    } else {
                        span = open.pop().unwrap_or(base);
                        About::End
                    }
                }
                "step" => {
                    span = self.begin("", text("name").unwrap_or_default(), kind(text("type")), span);
                    open.push(span);
                    About::Begin
                }
                "model" => About::Model,
                "tool" => About::Tool,
                "subtask" => About::Subtask,
                "approval" | "review" => About::Approval,
                "input" => About::Input,
                "interrupt" => About::Interrupt,
                "sample_limit" => About::Limit,
                "error" => About::Error,
                "score" => About::Score,
                "compaction" => About::Compaction,
                "sandbox" | "state" | "store" | "info" | "logger" | "sample_init" | "score_edit"
                | "checkpoint" | "anchor" | "branch" => About::Nothing,
                _ => {
                    match self.unknown.iter_mut().find(|(noted, _)| *noted == word) {
                        Some((_, count)) => *count += 1,
                        None => self.unknown.push((word, 1)),
                    }
                    About::Unknown
                }
            };
            let time = |key: &str| value.get(key).str().and_then(parse_timestamp);
            let (start, end) = (time("timestamp"), time("completed"));
            let at = self.steps.len() as u32;
            self.steps.push(Step { value, about, span, start, end, child: NONE });
            self.span_ids.push(span_id);
            let inside = value.get("events");
            if matches!(about, About::Tool | About::Subtask) && !inside.is_empty() {
                let forks = about == About::Subtask && matches!(text("type"), Some("fork" | "agent"));
                let kind = match about {
                    About::Tool => Kind::Tool,
                    _ if forks => Kind::Agent,
                    _ => Kind::Other,
                };
                let name = text(if about == About::Tool { "function" } else { "name" }).unwrap_or_default();
                let inner = self.begin("", name, kind, span);
                self.spans[inner as usize].parent_id = span_id;
                self.spans[inner as usize].closed = true;
                self.spans[inner as usize].asked_by = at;
                self.collect(inside, inner);
            }
        }
    }

    /// Finds the spans that events and spans name.
    fn resolve(&mut self) {
        for at in 1..self.spans.len() {
            if let Some(id) = self.spans[at].parent_id {
                match self.by_id.get(id) {
                    Some(parent) => self.spans[at].parent = *parent,
                    None => self.lost += 1,
                }
            }
        }
        for (step, id) in self.steps.iter_mut().zip(&self.span_ids) {
            if let Some(id) = id {
                match self.by_id.get(id) {
                    Some(span) => step.span = *span,
                    None if step.about == About::End => step.about = About::Nothing,
                    None => self.lost += 1,
                }
            }
            if step.about == About::End {
                let span = &mut self.spans[step.span as usize];
                (span.closed, span.end) = (true, span.end.or(step.start));
            }
        }
        // A span that would lie in itself lies in the root.
        let mut state = vec![0_u8; self.spans.len()];
        for start in 1..self.spans.len() {
            let (mut at, mut path) = (start, Vec::new());
            while at != ROOT as usize && state[at] == 0 {
                state[at] = 1;
                path.push(at);
                let parent = self.spans[at].parent as usize;
                if parent != ROOT as usize && state[parent] == 1 {
                    self.spans[at].parent = ROOT;
                    self.cycles += 1;
                }
                at = self.spans[at].parent as usize;
            }
            for at in path {
                state[at] = 2;
            }
        }
    }

    /// Older logs do not say when a model was done. The first of them note events when they are over; later ones when
    /// they begin, and how long the model took: then the next event of the span comes only after that.
    fn end_models(&mut self) {
        let mut next: HashMap<u32, i64> = HashMap::new();
        for step in self.steps.iter_mut().rev() {
            let Some(start) = step.start else { continue };
            if step.about == About::Model && step.end.is_none() {
                let took = step.value.path(&["output", "time"]).f64().filter(|s| (0.0..1e6).contains(s));
                let end = took.map(|seconds| start.saturating_add((seconds * 1e9) as i64));
                // Clocks of two kinds: a hundredth of the time is no evidence.
                let room = |end: &i64| {
                    let slack = (end - start) / 100;
                    next.get(&step.span).is_none_or(|next| *next >= end - slack)
                };
                step.end = end.filter(room);
            }
            next.insert(step.span, start);
        }
    }

    /// The innermost span around one, itself included, that is of some kind; the root is of any.
    fn around(&self, mut span: u32, is: impl Fn(&Span<'t>) -> bool) -> u32 {
        while span != ROOT && !is(&self.spans[span as usize]) {
            span = self.spans[span as usize].parent;
        }
        span
    }

    /// The scorer whose span a step lies in.
    pub(super) fn scorer(&self, step: &Step<'t>) -> Option<&'t str> {
        let span = self.around(step.span, |s| s.kind == Kind::Scorer);
        (span != ROOT).then(|| self.spans[span as usize].name)
    }

    /// Which tool event each tool span is the work of: one inside of it, or the next one beside it of its name.
    fn pair_tools(&mut self) {
        let mut open: HashMap<(u32, &str), VecDeque<u32>> = HashMap::new();
        for at in 0..self.steps.len() {
            let step = self.steps[at];
            let span = self.spans[step.span as usize];
            match step.about {
                About::Begin if span.kind == Kind::Tool => {
                    open.entry((span.parent, span.name)).or_default().push_back(step.span);
                }
                About::Tool => {
                    let name = step.value.get("function").str().unwrap_or_default();
                    let inside = span.kind == Kind::Tool && span.asked_by == NONE && span.name == name;
                    let key = if inside { (span.parent, name) } else { (step.span, name) };
                    let spans = open.entry(key).or_default();
                    let agent_span = if inside {
                        spans.retain(|s| *s != step.span);
                        Some(step.span)
                    } else {
                        spans.pop_front()
                    };
                    if let Some(agent_span) = agent_span {
                        self.spans[agent_span as usize].asked_by = at as u32;
                    }
                }
                _ => {}
            }
        }
    }

    /// Which spans are agents, and which tools made them work.
    fn find_agents(&mut self) {
        for at in 0..self.steps.len() {
            if self.steps[at].about == About::Model {
                let span = self.steps[at].span;
                let owner = self.around(span, |s| matches!(s.kind, Kind::Agent | Kind::Tool | Kind::Scorer));
                let judge = self.around(span, |s| s.kind == Kind::Scorer);
                self.spans[owner as usize].acts = true;
                self.spans[judge as usize].acts |= judge != ROOT;
            }
        }
        for at in 1..self.spans.len() {
            self.spans[at].acts |= self.spans[at].kind == Kind::Agent;
        }
        for at in 0..self.steps.len() {
            let step = self.steps[at];
            if !matches!(step.about, About::Tool | About::Subtask) {
                continue;
            }
            let named = step.value.get("agent_span_id").str().and_then(|id| self.by_id.get(id).copied());
            if let Some(span) = named {
                self.spans[span as usize].acts = true;
                self.spans[span as usize].asked_by = at as u32;
            }
        }
        // What is inside of a tool that asks no model itself is what the tool asks.
        for at in 1..self.spans.len() {
            let span = self.spans[at];
            if span.acts && span.asked_by == NONE {
                let tool = self.around(span.parent, |s| s.acts || s.kind == Kind::Tool) as usize;
                if tool != ROOT as usize && !self.spans[tool].acts {
                    self.spans[at].asked_by = self.spans[tool].asked_by;
                }
            }
        }
        for at in 1..self.spans.len() {
            let span = self.spans[at];
            if let Some(step) = self.steps.get_mut(span.asked_by as usize).filter(|_| span.acts) {
                if step.child == NONE {
                    step.child = at as u32;
                } else {
                    // A tool that makes several agents work is the work of the first; it starts the others.
                    self.spans[at].asked_by = NONE;
                }
            }
        }
        for at in 0..self.steps.len() {
            let step = self.steps[at];
            let name = step.value.get("agent").some_str();
            if let Some(name) = name.filter(|_| step.about == About::Tool && step.child == NONE) {
                let own_span =
                    self.spans.iter().position(|s| s.asked_by == at as u32 && s.kind == Kind::Tool);
                let span = own_span
                    .map_or_else(|| self.begin("", name, Kind::Agent, step.span), |own_span| own_span as u32);
                let span_mut = &mut self.spans[span as usize];
                (span_mut.acts, span_mut.asked_by, span_mut.closed) = (true, at as u32, true);
                self.steps[at].child = span;
            }
        }
    }

    /// Gives every span its agent and branch.
    fn name_agents(&mut self) {
        let outer = |transcript: &Self, at: usize| {
            transcript.around(transcript.spans[at].parent, |s| s.acts || s.kind == Kind::Scorer) == ROOT
        };
        let top: Vec<usize> = (1..self.spans.len())
            .filter(|at| {
                let span = &self.spans[*at];
                span.acts && span.kind == Kind::Agent && span.asked_by == NONE && outer(self, *at)
            })
            .collect();
        let beside = self.steps.iter().any(|step| {
            matches!(step.about, About::Model | About::Tool | About::Subtask)
                && self.around(step.span, |s| s.acts || s.kind == Kind::Scorer) == ROOT
        });
        let only = match top[..] {
            [only] if !beside => only as u32,
            _ => ROOT,
        };
        let root = &self.spans[only as usize];
        self.agents.push(Who { span: only, name: root.name, parent: NONE, judges: false, asked_by: NONE });
        let mut agent_of = vec![NONE; self.spans.len()];
        (agent_of[ROOT as usize], agent_of[only as usize]) = (0, 0);
        for (at, agent) in agent_of.iter_mut().enumerate().skip(1) {
            let span = &self.spans[at];
            if span.acts && at as u32 != only {
                *agent = self.agents.len() as u32;
                let tool = self.steps.get(span.asked_by as usize).filter(|_| span.kind == Kind::Tool);
                let named = tool.and_then(|step| step.value.get("agent").some_str());
                self.agents.push(Who {
                    span: at as u32,
                    name: named.unwrap_or(span.name),
                    parent: NONE,
                    judges: span.kind == Kind::Scorer,
                    asked_by: span.asked_by,
                });
            }
        }
        for at in 0..self.spans.len() {
            let owner = self.around(at as u32, |s| s.acts);
            let branch = self.around(at as u32, |s| s.kind == Kind::Branch);
            self.spans[at].agent = agent_of[owner as usize];
            if branch != ROOT {
                self.spans[at].branch = branch;
                let nearest = self.around(at as u32, |s| s.acts || s.kind == Kind::Branch);
                self.spans[at].aside = self.spans[nearest as usize].kind == Kind::Branch;
            }
        }
        for at in 1..self.agents.len() {
            let who = self.agents[at];
            if !who.judges {
                self.agents[at].parent = self.spans[self.spans[who.span as usize].parent as usize].agent;
            }
        }
    }
}

fn kind(word: Option<&str>) -> Kind {
    match word {
        Some("agent" | "fork") => Kind::Agent,
        Some("tool") => Kind::Tool,
        Some("scorer" | "scorers") => Kind::Scorer,
        Some("branch") => Kind::Branch,
        _ => Kind::Other,
    }
}
