//! Attributes of a span in all dialects: the GenAI conventions, current and older, OpenLLMetry, OpenInference, and
//! additions of frameworks. One file can mix them; where several say the same, the first of that order counts. A span
//! is looked through once.

use std::borrow::Cow;

use super::answers::{self, Piece};
use crate::importers::recording::Usage;
use crate::importers::spans::ToolKind;
use crate::importers::usage::{self, Part};
use crate::json::Kind;
use crate::json::tree::Value;

pub(super) mod claude_code;
mod conclusions;
pub(super) mod mlflow;
mod vercel;

/// A text, or the JSON of anything else that says something.
pub(in crate::importers) fn text_or_json(value: Value<'_>) -> Option<Cow<'_, str>> {
    let text = match value.kind()? {
        Kind::Null => return None,
        Kind::String => value.str()?,
        _ => value.raw(),
    };
    (!matches!(text, "" | "{}")).then_some(Cow::Borrowed(text))
}

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
    if let Some(rest) = key.strip_prefix("gen_ai.") {
        return starts(rest, &["prompt.", "input.messages", "system_instructions", "tool.definitions"]);
    }
    if let Some(rest) = key.strip_prefix("ai.") {
        return starts(rest, &["prompt"]);
    }
    let rest = key.strip_prefix("llm.");
    rest.is_some_and(|rest| starts(rest, &["input_messages", "tools", "invocation_parameters"]))
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

type BestText<'t> = Best<Cow<'t, str>>;

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
    /// What step of Claude Code the span is, and what its own attributes say.
    claude_code: Option<&'t str>,
    claude: claude_code::ClaudeFacts,
    /// Whether the work succeeded, where an attribute says it and no status.
    succeeded: Option<bool>,
    operation: Option<Cow<'t, str>>,
    openinference: Option<Cow<'t, str>>,
    traceloop: Option<Cow<'t, str>>,
    request: Option<Cow<'t, str>>,
    entity: Option<Cow<'t, str>>,
    node: Option<Cow<'t, str>>,
    agent: BestText<'t>,
    agent_id: BestText<'t>,
    role: BestText<'t>,
    model: BestText<'t>,
    /// Whether a provider of models is named.
    provider: bool,
    /// Whether input leaves out what a cache gave and took, by the provider.
    cache_beside: bool,
    /// Whether the input that no cache gave is counted by itself, so that all of it is in the input.
    has_no_cache: bool,
    tokens_in: Best<i64>,
    tokens_out: Best<i64>,
    total: Best<i64>,
    cached: Best<i64>,
    cache_write: Best<i64>,
    cache_write_1h: Best<i64>,
    reasoning: Best<i64>,
    cost: Best<f64>,
    cost_parts: [Option<f64>; 2],
    tool: BestText<'t>,
    call: BestText<'t>,
    arguments: BestText<'t>,
    result: BestText<'t>,
    input: Option<Cow<'t, str>>,
    /// The agent that the conversation is handed to.
    hands_to: Option<Cow<'t, str>>,
    error_type: BestText<'t>,
    /// The answer: JSON of messages, indexed attributes, JSON of a framework, plain output.
    messages: BestText<'t>,
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
    /// The operation of Vercel's AI SDK, and its answer: text, and JSON of calls.
    vercel: Option<Cow<'t, str>>,
    vercel_answer: (Option<Cow<'t, str>>, Option<Cow<'t, str>>),
    /// What the container says beside the attributes.
    forced: Option<Sort>,
    typed: Option<Sort>,
    told: Option<(Usage, Option<i64>)>,
    kinds: Option<(&'static str, &'static str)>,
    /// Attributes of a type that they cannot have.
    odd: Vec<(&'t str, String)>,
    /// Counts of usage under names that nobody knows.
    unknown_counts: Vec<&'t str>,
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
        Self { span_name, claude_code: claude_code::step(span_name), ..Self::default() }
    }

    /// What the container says the span is: less than an attribute, more than a name.
    pub(in crate::importers) fn typed(&mut self, sort: Sort) {
        self.typed = Some(sort);
    }

    /// What the container knows the span to be, whatever its attributes say.
    pub(in crate::importers) fn force(&mut self, sort: Sort) {
        self.forced = Some(sort);
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

    /// The kind of span that the container says in words of OpenInference, where no attribute does.
    pub(in crate::importers) fn span_kind(&mut self, kind: Option<&'t str>) {
        let worked = ["AGENT", "LLM", "TOOL", "CHAIN", "RETRIEVER", "GUARDRAIL"];
        let others = ["EVALUATOR", "RERANKER", "EMBEDDING", "PROMPT"];
        let is_word = |kind: &&str| worked.contains(kind) || others.contains(kind);
        self.openinference = self.openinference.take().or(kind.filter(is_word).map(Cow::Borrowed));
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
        if self.claude_code.is_some() && self.put_claude_code(key, &a) {
            return;
        }
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
            "usage.cost" => {
                let n = self.number(key, &a);
                self.cost.offer(0, n);
            }
            "output.messages" => self.messages.offer(0, a.filled()),
            "agent.handoff.target.name" | "handoff.to_agent" => self.hands_to = a.filled(),
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
            _ => {
                if let Some(name) = rest.strip_prefix("usage.") {
                    self.put_count(key, name, &a);
                }
            }
        }
    }

    fn put_count(&mut self, key: &'t str, name: &str, a: &Attribute<'t>) {
        // The names of the conventions come first.
        let is_of_conventions = matches!(
            name,
            "input_tokens"
                | "output_tokens"
                | "cache_read.input_tokens"
                | "cache_creation.input_tokens"
                | "reasoning.output_tokens"
        );
        self.put_count_at(u8::from(!is_of_conventions), key, name, a);
    }

    /// A count of tokens by the shared table; a name that it does not know is kept for a finding.
    fn put_count_at(&mut self, rank: u8, key: &'t str, name: &str, a: &Attribute<'t>) {
        let part = usage::part(name);
        if matches!(part, None | Some(Part::Share)) {
            let count = matches!(a, Attribute::Plain(value) if value.number_like().is_some_and(|n| n > 0.0));
            if part.is_none() && count {
                self.unknown_counts.push(key);
            }
            return;
        }
        let n = self.integer(key, a);
        let best = match part {
            Some(Part::Input) => &mut self.tokens_in,
            Some(Part::Output) => &mut self.tokens_out,
            Some(Part::Total) => &mut self.total,
            Some(Part::Cached) => &mut self.cached,
            Some(Part::CacheWrite) => &mut self.cache_write,
            Some(Part::CacheWrite1h) => &mut self.cache_write_1h,
            Some(Part::Reasoning) => &mut self.reasoning,
            Some(Part::Share) | None => return,
        };
        best.offer(rank, n);
    }

    /// The score that is being read: each event has one, the span itself too.
    fn evaluation(&mut self) -> &mut (Option<Cow<'t, str>>, Option<f64>) {
        if self.evaluations.is_empty() {
            self.evaluations.push((None, None));
        }
        let last = self.evaluations.len() - 1;
        &mut self.evaluations[last]
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
        // Phoenix puts indexed attributes together.
        if let ("output_messages", Attribute::Plain(list)) = (rest, &a) {
            self.pieces.extend(answers::listed(*list));
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
            _ if key.starts_with("ai.") => self.put_vercel(key, &key["ai.".len()..], a),
            _ if key.starts_with("mlflow.") => self.put_mlflow(&key["mlflow.".len()..], a),
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
            // Pydantic AI; agents have the sum of their answers.
            "operation.cost" => {
                let n = self.number(key, &a);
                self.cost.offer(2, n);
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
}

/// What a span is.
#[derive(Debug, Clone, Copy)]
pub(in crate::importers) enum Sort {
    Agent,
    Creates,
    Generation,
    Tool(ToolKind),
    Guardrail,
    /// A human decides about the tool around it.
    Decision,
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
