//! Conclusions from all attributes of a span: its kind, who worked, usage, and the answer of a model.

use std::borrow::Cow;

use super::{Facts, Noise, Sort};
use crate::error::FindingCode;
use crate::importers::otel::answers::{self, Answer};
use crate::importers::recording::{Hash, Text, Usage, call_hash_of_text, hash};
use crate::importers::spans::{AgentWork, Generation, Span, Spans, ToolKind, ToolUse, Who, Work};
use crate::importers::usage::Counts;
use crate::json::Limits;

impl<'t> Facts<'t> {
    fn kind(&mut self) -> Sort {
        if let Some(sort) = self.forced {
            return sort;
        }
        if let Some(step) = self.claude_code {
            return self.sort_of_claude_code(step);
        }
        if let Some(operation) = self.vercel.as_deref() {
            return Self::sort_of_vercel(operation);
        }
        if let Some(operation) = self.operation.as_deref() {
            match operation {
                "invoke_agent" => return Sort::Agent,
                "create_agent" => return Sort::Creates,
                "execute_tool" | "agent_handoff" | "handoff" => return Sort::Tool(ToolKind::Asked),
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
        self.typed.unwrap_or_else(|| self.sort_by_name())
    }

    /// What the span is by its name, and by attributes that are no dialect's.
    pub(in crate::importers) fn sort_by_name(&self) -> Sort {
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
        span.ok = span.ok.or(self.succeeded);
        if span.ok == Some(false) {
            span.error_type = keep(spans, self.error_type.value.as_deref());
        } else if self.error_type.rank == 1 && !matches!(sort, Sort::Nothing) {
            // An exception that was recorded: the work failed, whatever the status says.
            span.ok = span.ok.or(Some(false));
            span.error_type = keep(spans, self.error_type.value.as_deref());
        }
        if matches!(sort, Sort::Agent | Sort::Tool(_) | Sort::Chain(_)) {
            self.report(spans);
        }
        span.work = match sort {
            Sort::Agent => self.agent_work(span.service, limits, spans),
            Sort::Creates => Work::Creates(self.who(spans)),
            Sort::Generation => self.generation(limits, spans),
            Sort::Tool(kind) => self.tool_use(kind, limits, spans),
            Sort::Guardrail => Work::Guardrail(self.triggered),
            Sort::Decision => Work::Decision,
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
            let message = format!("'{key}' is {}, expected a number of at least 0", shown.escape_debug());
            spans.recording.finding(FindingCode::FieldIgnored, None, message);
        }
        if let Some(key) = self.unknown_counts.first() {
            let message = format!(
                "{} counts of usage have names that are not known, such as '{key}'; they are in no sum",
                self.unknown_counts.len()
            );
            spans.recording.finding(FindingCode::UsageUnknown, None, message);
        }
        spans.push(span);
    }

    fn who(&mut self, spans: &mut Spans) -> Who {
        Who {
            name: keep(spans, self.agent.value.as_deref()),
            id: keep(spans, self.agent_id.value.as_deref()),
            role: keep(spans, self.role.value.as_deref()),
            inferred: false,
        }
    }

    fn agent_work(&mut self, service: Text, limits: Limits, spans: &mut Spans) -> Work {
        let mut who = self.who(spans);
        // Calls of the SDK that name no function are of the program: visits to one agent.
        if self.vercel.is_some() && who.name.is_none() && !service.is_none() {
            (who.name, who.id) = (service, service);
        }
        if who.name.is_none() {
            let name = self.agent_name();
            who.name = keep(spans, Some(&name));
            who.inferred = self.entity_name().is_none();
        }
        let answer = self.answer(limits);
        let output = answer.text().or_else(|| self.output());
        Work::Agent(AgentWork { who, output })
    }

    /// What OpenLLMetry or OpenInference call the part of the program that is at work.
    fn entity_name(&self) -> Option<&str> {
        self.entity.as_deref().filter(|_| self.traceloop.is_some()).or(self.node.as_deref())
    }

    /// The name of an agent that no attribute names.
    fn agent_name(&self) -> Cow<'_, str> {
        const TOLD: &str = "You're a helpful agent named '";
        if let Some(name) = self.entity_name() {
            return Cow::Borrowed(name);
        }
        // A managed agent gets its name from its manager.
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
        let (usage, total) = self.told.unwrap_or_else(|| self.usage());
        Work::Generation(Generation {
            who: self.who(spans),
            model: keep(spans, self.model.value.as_deref()),
            usage: usage.beside_total(total),
            text,
            reward: None,
            request: self.request(),
            extras,
        })
    }

    /// What a span that is no generation states for all work within it.
    fn report(&self, spans: &mut Spans) {
        let (mut usage, total) = self.told.unwrap_or_else(|| self.usage());
        // The total counts, if it and the parts differ.
        if let Some(total) = total.filter(|total| usage.total().is_none_or(|sum| sum != *total)) {
            usage = Usage { tokens: Some(total), cost_usd: usage.cost_usd, ..Usage::default() };
        }
        if usage.total().is_some() || usage.cost_usd.is_some() {
            let model = keep(spans, self.model.value.as_deref());
            spans.report(usage, model);
        }
    }

    /// Usage, and the total that stands beside its parts.
    fn usage(&self) -> (Usage, Option<i64>) {
        let counts = Counts {
            input: self.tokens_in.value,
            output: self.tokens_out.value,
            total: self.total.value,
            cached: self.cached.value,
            cache_write: self.cache_write.value,
            cache_write_1h: self.cache_write_1h.value,
            reasoning: self.reasoning.value,
            beside: (self.cache_beside, self.cache_beside),
        };
        // A total of input and output alone says nothing of the cache.
        let plain = counts.input.zip(counts.output).map(|(read, written)| read.saturating_add(written));
        let is_plain = self.cache_beside && counts.total == plain;
        let counts = Counts { total: counts.total.filter(|_| !is_plain), ..counts };
        let (usage, total) = counts.finish();
        let parts = self.cost_parts;
        let sum = (parts[0].is_some() || parts[1].is_some())
            .then(|| parts[0].unwrap_or(0.0) + parts[1].unwrap_or(0.0));
        (Usage { cost_usd: self.cost.value.or(sum).filter(|cost| *cost >= 0.0), ..usage }, total)
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
        if answer.is_empty() {
            answer = read(self.vercel_answer.1.as_deref());
            answer.texts.extend(self.vercel_answer.0.take());
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
        let hands_to = self
            .hands_to
            .take()
            .or_else(|| answers::target(name, arguments.unwrap_or_default(), limits).map(Cow::Owned));
        let asks_for = arguments.and_then(|arguments| answers::asked_agent(arguments, limits));
        Work::Tool(ToolUse {
            call: keep(spans, self.call.value.as_deref()),
            tool: keep(spans, Some(name)),
            kind,
            content: arguments.map(|arguments| call_hash_of_text(name, arguments, limits)),
            result: self.result.value.as_deref().map(hash),
            trusted: Some(false),
            hands_to: keep(spans, hands_to.as_deref()),
            asks_for: keep(spans, asks_for.as_deref()),
        })
    }
}

fn keep(spans: &mut Spans, text: Option<&str>) -> Text {
    spans.recording.text(text.unwrap_or_default())
}

/// `Step 7`, as smolagents calls the rounds of an agent.
fn is_step(name: &str) -> bool {
    name.strip_prefix("Step ").is_some_and(|n| n.bytes().all(|b| b.is_ascii_digit()))
}
