//! The work of an observation, from the attributes of its span, its type, or its framework's name for it.

use std::borrow::Cow;

use super::number;
use crate::importers::otel::attributes::{Attribute, Facts, Sort};
use crate::importers::recording::{Text, Usage};
use crate::importers::spans::{Span, Spans, ToolKind};
use crate::importers::usage::{self, Part};
use crate::json::time::parse_timestamp;
use crate::json::tree::{Tree, Value};
use crate::json::{Kind, Limits};

/// An observation, with the JSON that lies in its texts.
#[derive(Debug)]
struct Observation<'t> {
    item: u32,
    value: Value<'t>,
    metadata: Inner<'t>,
}

/// A value that is JSON, or JSON in a text.
#[derive(Debug)]
enum Inner<'t> {
    Plain(Value<'t>),
    Parsed(Tree<'t>),
}

impl<'t> Inner<'t> {
    fn of(value: Value<'t>, limits: Limits) -> Self {
        match value.str().map(|text| Tree::parse(text, limits)) {
            Some(Ok(tree)) => Self::Parsed(tree),
            _ => Self::Plain(value),
        }
    }

    fn value(&self) -> Value<'_> {
        match self {
            Self::Plain(value) => *value,
            Self::Parsed(tree) => tree.root(),
        }
    }
}

fn time(value: Value<'_>, keys: &[&str]) -> Option<i64> {
    value.first(keys).str().and_then(parse_timestamp)
}

fn start(value: Value<'_>) -> Option<i64> {
    time(value, &["startTime", "start_time"])
}

fn parent(value: Value<'_>) -> Option<&str> {
    value.first(&["parentObservationId", "parent_observation_id"]).some_str()
}

/// Puts all observations of a trace; returns the items that are merged into another one.
pub(super) fn push_all(
    observations: &[(u32, Value<'_>)],
    trace: Option<Value<'_>>,
    scores: &[Value<'_>],
    limits: Limits,
    spans: &mut Spans,
) -> Vec<u32> {
    // Who works where nobody is named: the service, if it has a name of its own, else the trace.
    let name = trace.and_then(|trace| trace.get("name").some_str()).or_else(|| {
        let roots = observations.iter().map(|(_, value)| *value).filter(|value| parent(*value).is_none());
        roots.min_by_key(|value| start(*value)).and_then(|root| root.get("name").some_str())
    });
    let name = name.unwrap_or("langfuse");
    let all: Vec<Observation<'_>> = observations
        .iter()
        .map(|(item, value)| Observation {
            item: *item,
            value: *value,
            metadata: Inner::of(value.get("metadata"), limits),
        })
        .collect();
    let steps = Steps::of(&all, limits);
    for observation in &all {
        let id = observation.value.get("id").str().unwrap_or_default();
        let of_this =
            |score: &&Value<'_>| score.first(&["observationId", "observation_id"]).str() == Some(id);
        for score in scores.iter().filter(of_this) {
            if let Some(value) = number(*score).filter(|value| (0.0..=1.0).contains(value))
                && observation.value.get("type").str() == Some("GENERATION")
            {
                let name = spans.recording.text(score.get("name").str().unwrap_or_default());
                spans.evaluation(name, value);
            }
        }
        push(observation, &steps, name, limits, spans);
    }
    all.iter()
        .enumerate()
        .filter(|(i, _)| steps.paired.contains(i))
        .map(|(_, observation)| observation.item)
        .collect()
}

/// Observations that record single steps of one piece of work, as BeeAI emits them: `tool.search.start`,
/// `tool.search.success`. The beginning is the work; the success records the result, and when it came.
#[derive(Debug, Default)]
struct Steps<'a> {
    all: &'a [Observation<'a>],
    /// Beginnings and successes by the name of the work with its number.
    ends: Vec<(String, bool, usize)>,
    /// Successes whose beginning is there.
    paired: Vec<usize>,
}

const STEPS: [&str; 6] = ["start", "success", "finish", "error", "update", "partial_update"];

/// What an emitter says it is at work on, and the step of it.
fn step(attributes: Value<'_>) -> Option<(&str, &str)> {
    let (work, step) = attributes.get("target").str()?.rsplit_once('.')?;
    STEPS.contains(&step).then_some((work, step))
}

/// The work with its number: `tool.search` and `7` of `tool.search.start-7`.
fn numbered(observation: Value<'_>, work: &str) -> String {
    let number = observation.get("name").str().and_then(|name| name.rsplit_once('-')).map_or("", |(_, n)| n);
    format!("{work} {number}")
}

impl<'a> Steps<'a> {
    fn of(all: &'a [Observation<'a>], limits: Limits) -> Self {
        let mut steps = Self { all, ..Self::default() };
        for (i, observation) in all.iter().enumerate() {
            let attributes = Inner::of(observation.metadata.value().get("attributes"), limits);
            if let Some((work, step @ ("start" | "success"))) = step(attributes.value()) {
                steps.ends.push((numbered(observation.value, work), step == "success", i));
            }
        }
        steps.ends.sort();
        for pair in steps.ends.windows(2) {
            if pair[0].0 == pair[1].0 && !pair[0].1 && pair[1].1 {
                steps.paired.push(pair[1].2);
            }
        }
        steps
    }

    /// The success of a beginning.
    fn success(&self, observation: Value<'_>, work: &str) -> Option<&'a Observation<'a>> {
        let key = (numbered(observation, work), true, 0);
        let end = self.ends.get(self.ends.partition_point(|end| *end < key))?;
        (end.0 == key.0 && end.1 && self.paired.contains(&end.2)).then(|| &self.all[end.2])
    }
}

fn push(observation: &Observation<'_>, steps: &Steps<'_>, fallback: &str, limits: Limits, spans: &mut Spans) {
    let value = observation.value;
    let metadata = observation.metadata.value();
    let attributes = Inner::of(metadata.get("attributes"), limits);
    let attributes = attributes.value();
    let name = value.get("name").str().unwrap_or_default();
    let output = Inner::of(value.get("output"), limits);
    let step = step(attributes);
    let success = step.filter(|step| step.1 == "start").and_then(|(work, _)| steps.success(value, work));
    let inner_attributes =
        success.map(|success| Inner::of(success.metadata.value().get("attributes"), limits));

    let mut facts = Facts::new(name);
    facts.kinds("langfuse.span", "langfuse.span");
    for (key, attribute) in attributes.members() {
        facts.put(key, Attribute::Plain(attribute));
    }
    for (key, attribute) in
        inner_attributes.iter().flat_map(|inner_attributes| inner_attributes.value().members())
    {
        facts.put(key, Attribute::Plain(attribute));
    }
    let came_out = success.map_or(value, |success| success.value).get("output");
    facts.contents(text(value.get("input")), text(came_out));
    facts.model(value.first(&["model", "providedModelName", "provided_model_name"]).some_str());
    let node = metadata.get("langgraph_node").some_str();
    let mut sort = sort(value, &facts, node, output.value());
    if let Sort::Tool(_) = sort {
        let call = output.value().get("tool_call_id").some_str();
        let call = call.or_else(|| metadata.get("tool_call_id").some_str());
        let call = call.or_else(|| attributes.get("ai.toolCall.id").some_str());
        facts.tool(attributes.get("ai.toolCall.name").some_str(), call);
    }
    // A part of a graph has the name of its node; what else runs in the node is nobody's.
    if node.is_some_and(|node| node != name) && matches!(sort, Sort::Chain(_)) {
        sort = Sort::Chain(false);
    }
    facts.typed(sort);
    if let Some((usage, total)) = usage(value) {
        facts.usage_is(usage, total);
    }
    if let Some((work, step)) = step {
        let is_paired = steps.paired.iter().any(|i| steps.all[*i].item == observation.item);
        if work.starts_with("agent.") {
            facts.force(Sort::Chain(false));
        } else if is_paired || !matches!(step, "start" | "success") {
            facts.force(Sort::Nothing);
        }
        let tool =
            work.strip_prefix("tool.").map(|tool| tool.rsplit_once('.').map_or(tool, |(_, last)| last));
        facts.tool(tool, None);
    }
    let failed = value.get("level").str() == Some("ERROR");
    if failed {
        facts.failed(value.first(&["statusMessage", "status_message"]).some_str());
    }
    let end = match success {
        Some(success) => start(success.value),
        // Events have no length.
        None => time(value, &["endTime", "end_time"])
            .or_else(|| (value.get("type").str() == Some("EVENT")).then(|| start(value)).flatten()),
    };
    let service = metadata.path(&["resourceAttributes", "service.name"]).some_str();
    let service = service.filter(|service| !service.starts_with("unknown_service")).unwrap_or(fallback);
    let recording = &mut spans.recording;
    let mut keep = |text: Option<&str>| text.map_or(Text::default(), |text| recording.text(text));
    let span = Span {
        id: keep(value.get("id").str()),
        parent: keep(parent(value)),
        service: keep(Some(service)),
        start: start(value),
        end,
        ok: failed.then_some(false),
        item: observation.item,
        ..Span::default()
    };
    facts.push(span, limits, spans);
}

/// What the columns say that an observation is.
fn sort(value: Value<'_>, facts: &Facts<'_>, node: Option<&str>, output: Value<'_>) -> Sort {
    match value.get("type").str().unwrap_or_default() {
        "AGENT" => Sort::Agent,
        "GENERATION" => Sort::Generation,
        "TOOL" => Sort::Tool(ToolKind::Asked),
        "RETRIEVER" => Sort::Tool(ToolKind::Retrieval),
        "GUARDRAIL" => Sort::Guardrail,
        "EVALUATOR" | "EVENT" | "EMBEDDING" => Sort::Nothing,
        _ if facts.is_transport() => Sort::Nothing,
        // The message of a tool, as LangChain has it.
        _ if node.is_some()
            && output.get("type").str() == Some("tool")
            && output.get("tool_call_id").some_str().is_some() =>
        {
            Sort::Tool(ToolKind::Asked)
        }
        _ => match facts.sort_by_name() {
            Sort::Nothing => Sort::Chain(true),
            sort => sort,
        },
    }
}

/// A text, or the JSON of anything else. Python's `None` in words is nothing.
fn text(value: Value<'_>) -> Option<Cow<'_, str>> {
    let text = match value.kind()? {
        Kind::Null => return None,
        Kind::String => value.str()?,
        _ => value.raw(),
    };
    (!matches!(text, "" | "None" | "null")).then_some(Cow::Borrowed(text))
}

/// Usage in the words of R7, and the total that is reported. The parts of `usageDetails` either lie in `input` and
/// `output` or beside them; the total says which. If it does not, they lie beside: so does Langfuse price
/// them.
fn usage(value: Value<'_>) -> Option<(Usage, Option<i64>)> {
    let details = value.first(&["usageDetails", "usage_details", "usage"]);
    let count = |value: Value<'_>| value.integer_like().filter(|n| *n >= 0);
    let mut read = Usage { cost_usd: cost(value), ..Usage::default() };
    let (mut beside_in, mut beside_out, mut total, mut unnamed) = (0_i64, 0_i64, None, None);
    for (key, part) in details.members() {
        let Some(n) = count(part) else { continue };
        let part = usage::part(key);
        let slot = match part {
            Some(Part::Input) => &mut read.tokens_in,
            Some(Part::Output) => &mut read.tokens_out,
            Some(Part::Total) => &mut total,
            Some(Part::Cached) => &mut read.cached,
            Some(Part::CacheWrite) => &mut read.cache_write,
            Some(Part::Reasoning) => &mut read.reasoning,
            Some(Part::CacheWrite1h | Part::Share) | None => &mut unnamed,
        };
        if matches!(part, Some(Part::Input | Part::Output | Part::Total)) {
            *slot = Some(n);
            continue;
        }
        *slot = Some(slot.unwrap_or(0).saturating_add(n));
        if part == Some(Part::Reasoning) || ["output", "completion"].iter().any(|word| key.contains(word)) {
            beside_out = beside_out.saturating_add(n);
        } else {
            beside_in = beside_in.saturating_add(n);
        }
    }
    if read.tokens_in.is_none() && read.tokens_out.is_none() && total.is_none() {
        // Columns of older exports, which say 0 where nothing is known.
        let old = |keys: &[&str]| count(value.first(keys)).filter(|n| *n > 0);
        read.tokens_in = old(&["inputUsage", "promptTokens", "prompt_tokens"]);
        read.tokens_out = old(&["outputUsage", "completionTokens", "completion_tokens"]);
        total = old(&["totalUsage", "totalTokens", "total_tokens"]);
    }
    let plain = read.tokens_in.unwrap_or(0).saturating_add(read.tokens_out.unwrap_or(0));
    let parts = plain.saturating_add(beside_in).saturating_add(beside_out);
    let split = read.tokens_in.is_some() || read.tokens_out.is_some();
    if split && parts > plain && total.is_none_or(|total| total == parts) {
        read.tokens_in = read.tokens_in.map(|n| n.saturating_add(beside_in));
        read.tokens_out = read.tokens_out.map(|n| n.saturating_add(beside_out));
    } else if !split {
        read.tokens = total;
    }
    (read != Usage::default()).then_some((read, total.filter(|_| split)))
}

fn cost(value: Value<'_>) -> Option<f64> {
    let positive = |value: Value<'_>| value.number_like().filter(|cost| cost.is_finite() && *cost >= 0.0);
    let details = value.first(&["costDetails", "cost_details"]);
    // The column is 0 where no price is known.
    let column =
        || positive(value.first(&["totalCost", "total_cost", "calculatedTotalCost"])).filter(|c| *c > 0.0);
    positive(details.get("total")).or_else(column)
}
