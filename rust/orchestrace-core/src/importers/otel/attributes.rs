//! What a span's attributes say, in whatever dialect: the GenAI conventions, current and older, OpenLLMetry,
//! OpenInference, and what frameworks add. One file can mix them; where several say the same, the first of that order
//! counts. A span is looked through once.

use std::borrow::Cow;

use super::answers::{self, Answer, Piece};
use crate::error::FindingCode;
use crate::importers::recording::{Hash, Text, Usage, call_hash_of_text, hash};
use crate::importers::spans::{AgentWork, Generation, Span, Spans, ToolKind, ToolUse, Who, Work};
use crate::ingest::json::Limits;
use crate::ingest::json::tree::Value;

/// The value of an attribute.
#[derive(Debug, Clone)]
pub(in crate::importers) enum Attribute<'t> {
    /// As it stands in the record.
    Plain(Value<'t>),
    /// JSON that was put together.
    Built(String),
}

impl<'t> Attribute<'t> {
    /// The text of a string, the JSON of anything else; nothing of null.
    fn text(self) -> Option<Cow<'t, str>> {
        match self {
            Self::Plain(value) if !value.exists() => None,
            Self::Plain(value) => Some(Cow::Borrowed(value.str().unwrap_or_else(|| value.raw()))),
            Self::Built(json) => Some(Cow::Owned(json)),
        }
    }

    fn filled(self) -> Option<Cow<'t, str>> {
        self.text().filter(|text| !text.is_empty())
    }

    fn flag(&self) -> Option<bool> {
        match self {
            Self::Plain(value) => value.bool().or(match value.str() {
                Some("true" | "True") => Some(true),
                Some("false" | "False") => Some(false),
                _ => None,
            }),
            Self::Built(_) => None,
        }
    }
}

/// Whether an attribute says nothing that is read: what went into a model, and what it could have used.
pub(in crate::importers) fn is_unread(key: &str) -> bool {
    let starts = |rest: &str, with: &[&str]| with.iter().any(|prefix| rest.starts_with(prefix));
    match key.split_once('.') {
        Some(("gen_ai", rest)) => {
            starts(rest, &["prompt.", "input.messages", "system_instructions", "tool.definitions"])
        }
        Some(("llm", rest)) => starts(rest, &["input_messages.", "tools.", "invocation_parameters"]),
        _ => false,
    }
}

/// The best of several spellings of one thing.
#[derive(Debug)]
struct Best<T> {
    rank: u8,
    value: Option<T>,
}

impl<T> Default for Best<T> {
    fn default() -> Self {
        Self { rank: u8::MAX, value: None }
    }
}

impl<T> Best<T> {
    fn offer(&mut self, rank: u8, value: Option<T>) {
        if value.is_some() && rank < self.rank {
            *self = Self { rank, value };
        }
    }
}

type Said<'t> = Best<Cow<'t, str>>;

/// What is known of a span without agent meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Noise {
    Http,
    Messaging,
    Db,
    #[default]
    Other,
}

/// What the attributes of one span say.
#[derive(Debug, Default)]
#[allow(clippy::struct_excessive_bools)] // which attributes were there
pub(in crate::importers) struct Facts<'t> {
    span_name: &'t str,
    operation: Option<Cow<'t, str>>,
    openinference: Option<Cow<'t, str>>,
    traceloop: Option<Cow<'t, str>>,
    request: Option<Cow<'t, str>>,
    entity: Option<Cow<'t, str>>,
    node: Option<Cow<'t, str>>,
    agent: Said<'t>,
    agent_id: Said<'t>,
    role: Said<'t>,
    model: Said<'t>,
    /// Whether a provider of models is named.
    provider: bool,
    tokens_in: Best<i64>,
    tokens_out: Best<i64>,
    total: Best<i64>,
    cached: Best<i64>,
    cache_write: Best<i64>,
    reasoning: Best<i64>,
    cost: Best<f64>,
    cost_parts: [Option<f64>; 2],
    tool: Said<'t>,
    call: Said<'t>,
    arguments: Said<'t>,
    result: Said<'t>,
    input: Option<Cow<'t, str>>,
    error_type: Said<'t>,
    /// The answer: JSON of messages, indexed attributes, JSON of a framework, plain output.
    messages: Said<'t>,
    pieces: Vec<Piece<'t>>,
    choices: Vec<Cow<'t, str>>,
    mcp: Option<Cow<'t, str>>,
    guardrail: bool,
    triggered: Option<bool>,
    evaluations: Vec<(Option<Cow<'t, str>>, Option<f64>)>,
    managed: Option<Cow<'t, str>>,
    managers: u32,
    smolagents: bool,
    crew: bool,
    noise: Noise,
    event: Event,
    /// What the container says beside the attributes.
    forced: Option<Sort>,
    typed: Option<Sort>,
    told: Option<(Usage, Option<i64>)>,
    kinds: Option<(&'static str, &'static str)>,
    /// Attributes of a type that they cannot have.
    odd: Vec<(&'t str, String)>,
}

/// The span event that is being read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Event {
    #[default]
    None,
    Exception,
    Choice,
    Evaluation,
    Details,
}

impl<'t> Facts<'t> {
    pub(in crate::importers) fn new(span_name: &'t str) -> Self {
        Self { span_name, ..Self::default() }
    }

    /// What the container says the span is: less than an attribute, more than a name.
    pub(in crate::importers) fn typed(&mut self, sort: Sort) {
        self.typed = Some(sort);
    }

    /// What the container knows the span to be, whatever its attributes say.
    pub(in crate::importers) fn force(&mut self, sort: Sort) {
        self.forced = Some(sort);
    }

    /// What the span is by its name, and by attributes that are no dialect's.
    pub(in crate::importers) fn sort_by_name(&self) -> Sort {
        self.kind_by_name()
    }

    /// What the container says went in and came out, where no attribute does: a text, or JSON of messages.
    pub(in crate::importers) fn contents(
        &mut self,
        input: Option<Cow<'t, str>>,
        output: Option<Cow<'t, str>>,
    ) {
        self.arguments.offer(5, input);
        self.messages.offer(3, output.clone());
        self.result.offer(5, output);
    }

    /// The model that the container names, where no attribute does.
    pub(in crate::importers) fn model(&mut self, model: Option<&'t str>) {
        self.model.offer(3, model.map(Cow::Borrowed));
    }

    /// The agent that the container names, where no attribute does.
    pub(in crate::importers) fn agent(&mut self, name: Option<&'t str>, id: Option<&'t str>) {
        self.agent.offer(4, name.map(Cow::Borrowed));
        self.agent_id.offer(2, id.map(Cow::Borrowed));
    }

    /// The tool that the container names, and the id of the call, where no attribute does.
    pub(in crate::importers) fn tool(&mut self, name: Option<&'t str>, call: Option<&'t str>) {
        self.tool.offer(4, name.map(Cow::Borrowed));
        self.call.offer(3, call.map(Cow::Borrowed));
    }

    /// The usage that the container worked out of the attributes, which counts instead of them; and its total.
    pub(in crate::importers) fn usage_is(&mut self, usage: Usage, total: Option<i64>) {
        self.told = Some((usage, total));
    }

    /// That the work failed, and what the error says.
    pub(in crate::importers) fn failed(&mut self, message: Option<&'t str>) {
        self.error_type.offer(2, message.and_then(error_class).map(Cow::Borrowed));
    }

    /// Words to count spans without meaning by, instead of those of OpenTelemetry.
    pub(in crate::importers) fn kinds(&mut self, chain: &'static str, other: &'static str) {
        self.kinds = Some((chain, other));
    }

    /// Whether an attribute says that the span is of a transport.
    pub(in crate::importers) fn is_transport(&self) -> bool {
        self.noise != Noise::Other
    }

    fn integer(&mut self, key: &'t str, attribute: &Attribute<'t>) -> Option<i64> {
        let Attribute::Plain(value) = attribute else { return None };
        let number = value.integer_like().filter(|n| *n >= 0);
        if number.is_none() && value.exists() {
            self.odd.push((key, value.str().unwrap_or_else(|| value.raw()).to_owned()));
        }
        number
    }

    fn number(&mut self, key: &'t str, attribute: &Attribute<'t>) -> Option<f64> {
        let Attribute::Plain(value) = attribute else { return None };
        let number = value.number_like();
        if number.is_none() && value.exists() {
            self.odd.push((key, value.str().unwrap_or_else(|| value.raw()).to_owned()));
        }
        number
    }

    /// Reads one attribute.
    pub(in crate::importers) fn put(&mut self, key: &'t str, a: Attribute<'t>) {
        // Most attributes of long spans are the messages that went in, and descriptions of tools.
        match key.as_bytes().first() {
            Some(b'g') => self.put_gen_ai(key, a),
            Some(b'l') => self.put_llm(key, a),
            Some(b'h' | b'a' | b'u' | b'd' | b'm' | b'r') => self.put_other(key, a),
            Some(_) => self.put_framework(key, a),
            None => {}
        }
    }

    fn put_gen_ai(&mut self, key: &'t str, a: Attribute<'t>) {
        let Some(rest) = key.strip_prefix("gen_ai.") else { return self.put_framework(key, a) };
        if is_unread(key) {
            return;
        }
        if let Some(rest) = rest.strip_prefix("completion.") {
            self.pieces.extend(answers::piece(rest, || a.filled()));
            return;
        }
        match rest {
            "operation.name" => self.operation = a.filled(),
            "agent.name" => self.agent.offer(0, a.filled()),
            "agent.id" => self.agent_id.offer(0, a.filled()),
            "agent.role" => self.role.offer(1, a.filled()),
            "provider.name" | "system" => self.provider = true,
            "response.model" => self.model.offer(0, a.filled()),
            "request.model" => self.model.offer(1, a.filled()),
            "usage.input_tokens" => {
                let n = self.integer(key, &a);
                self.tokens_in.offer(0, n);
            }
            "usage.output_tokens" => {
                let n = self.integer(key, &a);
                self.tokens_out.offer(0, n);
            }
            "usage.prompt_tokens" => {
                let n = self.integer(key, &a);
                self.tokens_in.offer(1, n);
            }
            "usage.completion_tokens" => {
                let n = self.integer(key, &a);
                self.tokens_out.offer(1, n);
            }
            "usage.total_tokens" => {
                let n = self.integer(key, &a);
                self.total.offer(0, n);
            }
            "usage.cache_read.input_tokens" => {
                let n = self.integer(key, &a);
                self.cached.offer(0, n);
            }
            "usage.cache_read_input_tokens" => {
                let n = self.integer(key, &a);
                self.cached.offer(1, n);
            }
            "usage.cache_creation.input_tokens" => {
                let n = self.integer(key, &a);
                self.cache_write.offer(0, n);
            }
            "usage.cache_creation_input_tokens" => {
                let n = self.integer(key, &a);
                self.cache_write.offer(1, n);
            }
            "usage.reasoning.output_tokens" => {
                let n = self.integer(key, &a);
                self.reasoning.offer(0, n);
            }
            "usage.reasoning_tokens" => {
                let n = self.integer(key, &a);
                self.reasoning.offer(1, n);
            }
            "usage.cost" => {
                let n = self.number(key, &a);
                self.cost.offer(0, n);
            }
            "output.messages" => self.messages.offer(0, a.filled()),
            "tool.name" => self.tool.offer(0, a.filled()),
            "tool.call.id" => self.call.offer(0, a.filled()),
            "tool.call.arguments" => self.arguments.offer(0, a.text()),
            "tool.call.result" => self.result.offer(0, a.text()),
            "evaluation.name" => self.evaluation().0 = a.filled(),
            "evaluation.score.value" => {
                let n = self.number(key, &a);
                self.evaluation().1 = n;
            }
            _ if rest.starts_with("guardrail.") => self.put_guardrail(rest, &a),
            _ => {}
        }
    }

    /// The score that is being read: each event has one, the span itself too.
    fn evaluation(&mut self) -> &mut (Option<Cow<'t, str>>, Option<f64>) {
        if self.evaluations.is_empty() {
            self.evaluations.push((None, None));
        }
        self.evaluations.last_mut().expect("there is one")
    }

    fn put_guardrail(&mut self, rest: &str, a: &Attribute<'t>) {
        self.guardrail = true;
        if rest.ends_with("triggered") || rest.ends_with("tripwire") || rest.ends_with("blocked") {
            self.triggered = self.triggered.or(a.flag());
        }
    }

    fn put_llm(&mut self, key: &'t str, a: Attribute<'t>) {
        let Some(rest) = key.strip_prefix("llm.") else { return self.put_framework(key, a) };
        if is_unread(key) {
            return;
        }
        if let Some(rest) = rest.strip_prefix("output_messages.") {
            self.pieces.extend(answers::piece(rest, || a.filled()));
            return;
        }
        match rest {
            "request.type" => self.request = a.filled(),
            "provider" | "system" => self.provider = true,
            "model_name" => self.model.offer(2, a.filled()),
            "usage.total_tokens" => {
                let n = self.integer(key, &a);
                self.total.offer(1, n);
            }
            "token_count.prompt" => {
                let n = self.integer(key, &a);
                self.tokens_in.offer(2, n);
            }
            "token_count.completion" => {
                let n = self.integer(key, &a);
                self.tokens_out.offer(2, n);
            }
            "token_count.total" => {
                let n = self.integer(key, &a);
                self.total.offer(2, n);
            }
            "token_count.prompt_details.cache_read" => {
                let n = self.integer(key, &a);
                self.cached.offer(2, n);
            }
            "token_count.prompt_details.cache_write" => {
                let n = self.integer(key, &a);
                self.cache_write.offer(2, n);
            }
            "token_count.completion_details.reasoning" => {
                let n = self.integer(key, &a);
                self.reasoning.offer(2, n);
            }
            "cost.total" => {
                let n = self.number(key, &a);
                self.cost.offer(1, n);
            }
            "cost.prompt" => self.cost_parts[0] = self.number(key, &a),
            "cost.completion" => self.cost_parts[1] = self.number(key, &a),
            _ => {}
        }
    }

    /// Attributes of transports, and of agents in OpenInference.
    fn put_other(&mut self, key: &'t str, a: Attribute<'t>) {
        let transport = |prefixes: &[&str]| prefixes.iter().any(|p| key.starts_with(p));
        match key {
            "agent.name" => self.agent.offer(2, a.filled()),
            "agent.id" => self.agent_id.offer(1, a.filled()),
            // Pydantic AI before it knew the conventions.
            "agent_name" => self.agent.offer(3, a.filled()),
            "agent_role" => self.role.offer(0, a.filled()),
            "mcp.method.name" => self.mcp = a.filled(),
            "mcp.tool.name" => self.tool.offer(2, a.filled()),
            _ if transport(&["http.", "asgi.", "url."]) => self.noise(Noise::Http),
            _ if transport(&["messaging."]) => self.noise(Noise::Messaging),
            _ if transport(&["db."]) => self.noise(Noise::Db),
            _ => {}
        }
    }

    fn noise(&mut self, noise: Noise) {
        if self.noise == Noise::Other {
            self.noise = noise;
        }
    }

    fn put_framework(&mut self, key: &'t str, a: Attribute<'t>) {
        match key {
            "openinference.span.kind" => self.openinference = a.filled(),
            "traceloop.span.kind" => self.traceloop = a.filled(),
            "traceloop.entity.name" => self.entity = a.filled(),
            "traceloop.entity.input" => self.arguments.offer(4, a.text()),
            "traceloop.entity.output" => self.result.offer(4, a.text()),
            "graph.node.id" => self.node = a.filled(),
            "tool.name" => self.tool.offer(1, a.filled()),
            "tool.id" => self.call.offer(1, a.filled()),
            "tool_call.id" => self.call.offer(2, a.filled()),
            "tool_call.function.name" => self.tool.offer(3, a.filled()),
            "tool_call.function.arguments" => self.arguments.offer(1, a.text()),
            "input.value" => {
                let text = a.text();
                self.arguments.offer(3, text.clone());
                self.input = text;
            }
            "gcp.vertex.agent.llm_response" => self.messages.offer(2, a.filled()),
            "gcp.vertex.agent.tool_call_args" => self.arguments.offer(2, a.text()),
            "gcp.vertex.agent.tool_response" => self.result.offer(2, a.text()),
            "tool_arguments" => self.arguments.offer(3, a.text()),
            "output.value" | "tool_response" | "final_result" => self.result.offer(3, a.text()),
            "crew_key" => self.crew = true,
            "smolagents.max_steps" => self.smolagents = true,
            "error.type" => self.error_type.offer(0, a.filled()),
            _ if key.starts_with("smolagents.managed_agents.") && key.strip_suffix(".name").is_some() => {
                self.managers += 1;
                self.managed = a.filled();
            }
            _ => {
                if let Some(rest) = key.strip_prefix("guardrail.") {
                    self.put_guardrail(rest, &a);
                }
            }
        }
    }

    /// Whether anything is wanted of an event of this name, whose attributes then follow.
    pub(in crate::importers) fn begin_event(&mut self, name: &str) -> bool {
        self.event = match name {
            "exception" => Event::Exception,
            "gen_ai.choice" | "gen_ai.content.completion" => Event::Choice,
            "gen_ai.evaluation.result" => {
                self.evaluations.push((None, None));
                Event::Evaluation
            }
            "gen_ai.client.inference.operation.details" => Event::Details,
            _ => Event::None,
        };
        self.event != Event::None
    }

    /// Reads an attribute of an event.
    pub(in crate::importers) fn put_event(&mut self, key: &'t str, a: Attribute<'t>) {
        match (self.event, key) {
            (Event::Exception, "exception.type") => self.error_type.offer(1, a.filled()),
            (Event::Choice, "message" | "gen_ai.completion" | "gen_ai.event.content") => {
                self.choices.extend(a.filled());
            }
            (Event::Evaluation, "gen_ai.evaluation.name") => self.evaluation().0 = a.filled(),
            (Event::Evaluation, "gen_ai.evaluation.score.value") => {
                let n = self.number(key, &a);
                self.evaluation().1 = n;
            }
            (Event::Details, _) => self.put_gen_ai(key, a),
            _ => {}
        }
    }

    fn kind(&self) -> Sort {
        if let Some(sort) = self.forced {
            return sort;
        }
        if let Some(operation) = self.operation.as_deref() {
            match operation {
                "invoke_agent" => return Sort::Agent,
                "create_agent" => return Sort::Creates,
                "execute_tool" => return Sort::Tool(ToolKind::Asked),
                "chat" | "generate_content" | "text_completion" | "completion" => return Sort::Generation,
                "retrieval" | "search_memory" => return Sort::Tool(ToolKind::Retrieval),
                "invoke_workflow" => return Sort::Chain(true),
                "apply_guardrail" | "guardrail" => return Sort::Guardrail,
                "embeddings" => return Sort::Nothing,
                _ => {}
            }
        }
        match self.traceloop.as_deref() {
            Some("agent") => return Sort::Agent,
            Some("tool") => return Sort::Tool(ToolKind::Asked),
            Some("workflow") => return Sort::Chain(true),
            Some("task") => return Sort::Chain(false),
            _ => {}
        }
        match self.request.as_deref() {
            Some("chat" | "completion") => return Sort::Generation,
            Some("embedding" | "rerank") => return Sort::Nothing,
            _ => {}
        }
        match self.openinference.as_deref().map(str::to_ascii_uppercase).as_deref() {
            Some("AGENT") => return Sort::Agent,
            Some("LLM") => return Sort::Generation,
            Some("TOOL") => return Sort::Tool(ToolKind::Asked),
            Some("CHAIN") => return Sort::Chain(true),
            Some("RETRIEVER") => return Sort::Tool(ToolKind::Retrieval),
            Some("GUARDRAIL") => return Sort::Guardrail,
            Some("EVALUATOR" | "RERANKER" | "EMBEDDING" | "PROMPT") => return Sort::Nothing,
            _ => {}
        }
        self.typed.unwrap_or_else(|| self.kind_by_name())
    }

    /// Where no dialect says what the span is.
    fn kind_by_name(&self) -> Sort {
        if self.mcp.as_deref() == Some("tools/call") {
            return Sort::Tool(ToolKind::Relay);
        }
        if self.guardrail {
            return Sort::Guardrail;
        }
        let name = self.span_name;
        let first = name.split(' ').next().unwrap_or_default();
        match first {
            "invoke_agent" | "agent_run" => return Sort::Agent,
            "execute_tool" => return Sort::Tool(ToolKind::Asked),
            "call_llm" => return Sort::Generation,
            _ => {}
        }
        if name
            .strip_suffix("Agent.run")
            .is_some_and(|class| class.bytes().all(|b| b.is_ascii_alphanumeric()))
        {
            return Sort::Agent;
        }
        // `researcher run`, as Pydantic AI calls the work of an agent.
        let agent = self.agent.value.as_deref();
        if agent.is_some_and(|agent| name.strip_suffix(" run") == Some(agent)) || name == "agent run" {
            return Sort::Agent;
        }
        if self.tool.value.is_some() && self.call.value.is_some() {
            return Sort::Tool(ToolKind::Asked);
        }
        let usage = self.tokens_in.value.is_some() || self.tokens_out.value.is_some();
        if self.provider && self.model.value.is_some() && usage {
            return Sort::Generation;
        }
        if is_step(name) { Sort::Chain(false) } else { Sort::Nothing }
    }

    /// Adds the span with what its attributes say.
    pub(in crate::importers) fn push(mut self, mut span: Span, limits: Limits, spans: &mut Spans) {
        let sort = self.kind();
        span.kind = match sort {
            Sort::Chain(_) => self.kinds.map_or("otel.chain", |(chain, _)| chain),
            _ => match self.noise {
                Noise::Http => "otel.http",
                Noise::Messaging => "otel.messaging",
                Noise::Db => "otel.db",
                // Queues of A2A servers say what they are by their names alone.
                Noise::Other if self.span_name.starts_with("a2a.server.events.") => "otel.messaging",
                Noise::Other => self.kinds.map_or("otel.other", |(_, other)| other),
            },
        };
        if span.ok == Some(false) {
            span.error_type = keep(spans, self.error_type.value.as_deref());
        } else if self.error_type.rank == 1 && !matches!(sort, Sort::Nothing) {
            // An exception that was recorded: the work failed, whatever the status says.
            span.ok = span.ok.or(Some(false));
            span.error_type = keep(spans, self.error_type.value.as_deref());
        }
        span.work = match sort {
            Sort::Agent => self.agent_work(limits, spans),
            Sort::Creates => Work::Creates(self.who(spans)),
            Sort::Generation => self.generation(limits, spans),
            Sort::Tool(kind) => self.tool_use(kind, limits, spans),
            Sort::Guardrail => Work::Guardrail(self.triggered),
            Sort::Chain(named) => Work::Chain(self.chain_name(named, spans)),
            Sort::Nothing => Work::Nothing,
        };
        for (name, score) in std::mem::take(&mut self.evaluations) {
            if let Some(score) = score {
                let name = spans.recording.text(name.as_deref().unwrap_or("evaluation"));
                spans.evaluation(name, score);
            }
        }
        if let Some((key, value)) = self.odd.first() {
            let shown: String = value.chars().take(40).collect();
            let told = format!("'{key}' is {}, expected a number of at least 0", shown.escape_debug());
            spans.recording.finding(FindingCode::FieldIgnored, None, told);
        }
        spans.push(span);
    }

    fn who(&mut self, spans: &mut Spans) -> Who {
        Who {
            name: keep(spans, self.agent.value.as_deref()),
            id: keep(spans, self.agent_id.value.as_deref()),
            role: keep(spans, self.role.value.as_deref()),
        }
    }

    fn agent_work(&mut self, limits: Limits, spans: &mut Spans) -> Work {
        let mut who = self.who(spans);
        if who.name.is_none() {
            let name = self.agent_name();
            who.name = keep(spans, Some(&name));
        }
        let answer = self.answer(limits);
        let output = answer.text().or_else(|| self.output());
        Work::Agent(AgentWork { who, output, reported_tokens: self.all_tokens() })
    }

    /// The name of an agent that no attribute names.
    fn agent_name(&self) -> Cow<'_, str> {
        const TOLD: &str = "You're a helpful agent named '";
        let entity = self.entity.as_deref().filter(|_| self.traceloop.is_some()).or(self.node.as_deref());
        if let Some(name) = entity {
            return Cow::Borrowed(name);
        }
        // A managed agent is told its name by its manager.
        if let Some(input) = self.input.as_deref().filter(|_| self.smolagents)
            && let Some(at) = input.find(TOLD).filter(|at| *at < 64)
            && let Some((name, _)) = input[at + TOLD.len()..].split_once('\'')
            && !name.is_empty()
        {
            return Cow::Borrowed(name);
        }
        // A task of a crew is done by the agent that it was given.
        if let Some(input) = self.input.as_deref().filter(|_| self.crew)
            && let Some((_, role)) = input.split_once(" role='")
            && let Some((role, _)) = role.split_once("' goal=")
            && !role.is_empty()
        {
            return Cow::Borrowed(role);
        }
        let name = self.span_name;
        let named = name.strip_prefix("invoke_agent ").or_else(|| name.strip_prefix("agent_run "));
        if let Some(named) = named {
            return Cow::Borrowed(named.trim_matches(['[', ']']));
        }
        Cow::Borrowed(name.strip_suffix(".run").unwrap_or(name))
    }

    fn chain_name(&self, named: bool, spans: &mut Spans) -> Text {
        let name = match (&self.node, &self.agent.value, self.traceloop.is_some(), &self.entity) {
            (Some(node), ..) => Some(&**node),
            (_, Some(agent), ..) => Some(&**agent),
            (.., true, Some(entity)) => Some(&**entity),
            _ => Some(self.span_name.strip_prefix("invoke_workflow ").unwrap_or(self.span_name)),
        };
        // Names of the building blocks of frameworks are nobody's.
        let anonymous =
            |name: &str| is_step(name) || name.starts_with("Runnable") || name.ends_with("PromptTemplate");
        keep(spans, name.filter(|name| named && !anonymous(name)))
    }

    fn generation(&mut self, limits: Limits, spans: &mut Spans) -> Work {
        let answer = self.answer(limits);
        answer.put_calls(limits, spans);
        let text = if answer.is_empty() { self.output() } else { answer.text() };
        let mut extras = Text::default();
        for (key, value) in std::mem::take(&mut self.odd) {
            extras = spans.recording.extra_text(extras, &format!("x_{key}"), &value);
            self.odd.push((key, value));
        }
        let (usage, total) = self.told.unwrap_or_else(|| (self.usage(), self.total.value));
        let told = total.filter(|total| {
            usage
                .tokens_in
                .zip(usage.tokens_out)
                .is_some_and(|(read, written)| read.checked_add(written).is_some_and(|sum| sum != *total))
        });
        if let Some(total) = told {
            extras = spans.recording.extra(extras, "x_reported_tokens", &total.to_string());
            let told = "the total of a response is not the sum of its parts";
            spans.recording.finding(FindingCode::UsageRepeated, None, told);
        }
        Work::Generation(Generation {
            who: self.who(spans),
            model: keep(spans, self.model.value.as_deref()),
            usage,
            text,
            reward: None,
            extras,
        })
    }

    fn all_tokens(&self) -> Option<i64> {
        let parts = self.tokens_in.value.zip(self.tokens_out.value).and_then(|(a, b)| a.checked_add(b));
        let told = self.told.and_then(|(usage, total)| {
            let parts = usage.tokens_in.zip(usage.tokens_out).and_then(|(a, b)| a.checked_add(b));
            total.or(usage.tokens).or(parts)
        });
        told.or(self.total.value).or(parts)
    }

    fn usage(&self) -> Usage {
        let (cached, cache_write) = (self.cached.value, self.cache_write.value);
        let cache = cached.unwrap_or(0).saturating_add(cache_write.unwrap_or(0));
        // All that was read includes the cache; who writes less than the cache left it out, as Anthropic's API does.
        let tokens_in = self.tokens_in.value.map(|n| if n < cache { n.saturating_add(cache) } else { n });
        let split = tokens_in.is_some() || self.tokens_out.value.is_some();
        let parts = self.cost_parts;
        let sum = (parts[0].is_some() || parts[1].is_some())
            .then(|| parts[0].unwrap_or(0.0) + parts[1].unwrap_or(0.0));
        Usage {
            tokens_in,
            tokens_out: self.tokens_out.value,
            tokens: self.total.value.filter(|_| !split),
            cached,
            cache_write,
            reasoning: self.reasoning.value,
            cost_usd: self.cost.value.or(sum).filter(|cost| *cost >= 0.0),
        }
    }

    /// What the model answered, by the first of the spellings that says anything.
    fn answer(&mut self, limits: Limits) -> Answer<'t> {
        let messages = self.messages.value.take();
        let first = (self.messages.rank == 0).then_some(messages.as_deref()).flatten();
        let read = |json: Option<&str>| json.map_or_else(Answer::default, |json| Answer::read(json, limits));
        let mut answer = read(first);
        if answer.is_empty() {
            answer = answers::assemble(std::mem::take(&mut self.pieces));
        }
        for choice in std::mem::take(&mut self.choices) {
            if !answer.is_empty() {
                break;
            }
            answer = Answer::read(&choice, limits);
            if answer.is_empty() {
                answer.texts.push(choice);
            }
        }
        if answer.is_empty() {
            answer = read(messages.as_deref());
        }
        answer.calls_in_texts(limits);
        answer
    }

    fn output(&self) -> Option<Hash> {
        self.result.value.as_deref().filter(|text| !text.is_empty()).map(hash)
    }

    fn tool_use(&mut self, kind: ToolKind, limits: Limits, spans: &mut Spans) -> Work {
        let entity = self.entity.as_deref().filter(|_| self.traceloop.is_some());
        let name = self.tool.value.as_deref().or(entity);
        let name =
            name.unwrap_or_else(|| self.span_name.strip_prefix("execute_tool ").unwrap_or(self.span_name));
        let arguments = self.arguments.value.as_deref();
        let hands_to = answers::target(name, arguments.unwrap_or_default(), limits);
        Work::Tool(ToolUse {
            call: keep(spans, self.call.value.as_deref()),
            tool: keep(spans, Some(name)),
            kind,
            content: arguments.map(|arguments| call_hash_of_text(name, arguments, limits)),
            result: self.result.value.as_deref().map(hash),
            trusted: Some(false),
            hands_to: keep(spans, hands_to.as_deref()),
        })
    }
}

/// What a span is.
#[derive(Debug, Clone, Copy)]
pub(in crate::importers) enum Sort {
    Agent,
    Creates,
    Generation,
    Tool(ToolKind),
    Guardrail,
    /// Whether it may have a name.
    Chain(bool),
    Nothing,
}

/// The class of an error by its message: `ValueError: no`, `openai.RateLimitError('…')`.
pub(in crate::importers) fn error_class(message: &str) -> Option<&str> {
    let message = message.trim_start();
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let class = message.split_once(|c| !word(c)).map_or(message, |(class, _)| class);
    let last = class.rsplit('.').next().unwrap_or_default();
    let camel = last.starts_with(|c: char| c.is_ascii_uppercase())
        && last.chars().skip(1).filter(char::is_ascii_uppercase).count() > 0
        && last.chars().any(|c| c.is_ascii_lowercase());
    camel.then_some(class)
}

fn keep(spans: &mut Spans, text: Option<&str>) -> Text {
    spans.recording.text(text.unwrap_or_default())
}

/// `Step 7`, as smolagents calls the rounds of an agent.
fn is_step(name: &str) -> bool {
    name.strip_prefix("Step ").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
}
