//! The work of a span, from its type and from attributes that its metadata keeps.

use crate::importers::otel::attributes::{Attribute, Facts, Sort, text_or_json};
use crate::importers::otel::time::instant;
use crate::importers::recording::{Text, Usage};
use crate::importers::spans::{Span, Spans, ToolKind};
use crate::importers::usage::{Counts, Part, part};
use crate::json::Limits;
use crate::json::tree::Value;

/// Types of spans.
pub(super) const TYPES: [&str; 4] = ["general", "tool", "llm", "guardrail"];

/// Puts a span; `fallback` works where nobody is named.
pub(super) fn push(item: u32, value: Value<'_>, fallback: &str, limits: Limits, spans: &mut Spans) {
    let metadata = value.get("metadata");
    let mut facts = Facts::new(value.get("name").str().unwrap_or_default());
    facts.kinds("opik.general", "opik.other");
    // Opik keeps attributes of spans that came over OpenTelemetry.
    for (key, attribute) in metadata.members() {
        facts.put(key, Attribute::Plain(attribute));
    }
    let output = value.get("output");
    let sort = match value.get("type").str() {
        Some("llm") => Sort::Generation,
        Some("tool") => Sort::Tool(ToolKind::Asked),
        Some("guardrail") => Sort::Guardrail,
        _ if facts.is_transport() => Sort::Nothing,
        // The name of a function says what it does only where its writer follows a convention.
        _ => match metadata.members().any(|(key, _)| key.contains('.')).then(|| facts.sort_by_name()) {
            Some(sort) if !matches!(sort, Sort::Nothing) => sort,
            _ => Sort::Chain(true),
        },
    };
    facts.typed(sort);
    // What a decorated function gives back lies under one key.
    let inner = output.get("output");
    let result = if inner.exists() && output.members().count() == 1 { inner } else { output };
    if let Sort::Tool(_) = sort {
        let call =
            [inner, output, metadata].into_iter().find_map(|value| value.get("tool_call_id").some_str());
        facts.tool(None, call);
    }
    facts.contents(text_or_json(value.get("input")), text_or_json(result));
    facts.model(value.get("model").some_str());
    let (usage, total) = usage(value.get("usage"));
    let usage = Usage { cost_usd: cost(value), ..usage };
    if usage != Usage::default() {
        facts.usage_is(usage, total);
    }
    let error = value.get("error_info");
    let failed = error.exists();
    if failed {
        facts.failed(error.get("exception_type").some_str());
    }
    let recording = &mut spans.recording;
    let mut keep = |text: Option<&str>| text.map_or(Text::default(), |text| recording.text(text));
    let span = Span {
        id: keep(value.get("id").str()),
        parent: keep(value.get("parent_span_id").some_str()),
        service: keep(Some(fallback)),
        start: instant(value.get("start_time")),
        end: instant(value.get("end_time")),
        ok: failed.then_some(false),
        item,
        ..Span::default()
    };
    facts.push(span, limits, spans);
}

/// Usage in the words of R7, and the total that is stated. What the provider said stands again under names that begin
/// with `original_usage.`. It counts where it says input and output: what Opik makes of it has the cache in the input, in
/// the output or nowhere, by the provider. Else of it only the parts count that Opik has no name for.
pub(super) fn usage(object: Value<'_>) -> (Usage, Option<i64>) {
    let original = counts(object, &[true]);
    if original.input.is_some() && original.output.is_some() {
        return original.finish();
    }
    counts(object, &[false, true]).finish()
}

/// Counts under the names of the provider, where `original` says so, or of Opik; the first one of a part.
fn counts(object: Value<'_>, originals: &[bool]) -> Counts {
    let mut counts = Counts::default();
    let is_original = |key: &str| key.starts_with("original_usage.");
    for original in originals {
        for (key, value) in object.members().filter(|(key, _)| is_original(key) == *original) {
            let name = key.strip_prefix("original_usage.").unwrap_or(key);
            let slot = match part(name) {
                Some(Part::Input) => &mut counts.input,
                Some(Part::Output) => &mut counts.output,
                Some(Part::Total) => &mut counts.total,
                Some(Part::Cached) => &mut counts.cached,
                Some(Part::CacheWrite) => &mut counts.cache_write,
                Some(Part::CacheWrite1h) => &mut counts.cache_write_1h,
                Some(Part::Reasoning) => &mut counts.reasoning,
                Some(Part::Share) | None => continue,
            };
            if slot.is_none() {
                *slot = value.integer_like().filter(|n| *n >= 0);
                // Anthropic's input, where Opik did not add the cache to it.
                counts.beside.0 |= matches!(name, "cache_read_input_tokens" | "cache_creation_input_tokens");
                counts.beside.1 |= name == "input_tokens";
            }
        }
    }
    counts
}

/// The price, as Opik worked it out; it is 0 where no price is known.
pub(super) fn cost(value: Value<'_>) -> Option<f64> {
    value.get("total_estimated_cost").number_like().filter(|cost| cost.is_finite() && *cost > 0.0)
}
