//! A run: its combined records, and its kind of work.

use std::borrow::Cow;
use std::collections::HashMap;

use crate::importers::otel::attributes::{Facts, Sort, error_class};
use crate::importers::recording::{Text, Usage};
use crate::importers::spans::{Span, Spans};
use crate::importers::usage;
use crate::json::Limits;
use crate::json::time::parse_timestamp;
use crate::json::tree::Value;

/// A run, from one record or several.
#[derive(Debug)]
pub(super) struct Run<'t> {
    /// Records with their items, the fullest first.
    parts: Vec<(u32, Value<'t>)>,
}

impl<'t> Run<'t> {
    /// A member, of the first record that has it.
    pub(super) fn get(&self, key: &str) -> Value<'t> {
        let present = self.parts.iter().map(|(_, value)| value.get(key)).find(|value| value.exists());
        present.unwrap_or_else(|| self.parts[0].1.get(key))
    }

    pub(super) fn id(&self) -> &'t str {
        self.get("id").str().unwrap_or_default()
    }

    /// Number of its first record.
    pub(super) fn item(&self) -> u32 {
        self.parts[0].0
    }

    /// Numbers of its records.
    pub(super) fn items(&self) -> impl Iterator<Item = u32> {
        self.parts.iter().map(|(item, _)| *item)
    }

    pub(super) fn metadata(&self, key: &str) -> Option<&'t str> {
        self.get("extra").path(&["metadata", key]).some_str()
    }

    pub(super) fn tagged(&self, tag: &str) -> bool {
        self.get("tags").elements().any(|value| value.str() == Some(tag))
    }

    fn time(&self, key: &str) -> Option<i64> {
        self.get(key).str().and_then(parse_timestamp)
    }

    pub(super) fn start(&self) -> Option<i64> {
        self.time("start_time").or_else(|| {
            let order = self.get("dotted_order").str()?;
            let (time, _) = order.rsplit('.').next()?.split_once('Z')?;
            compact(time)
        })
    }
}

/// A time as the order writes it: `20240405T012854734491`.
fn compact(time: &str) -> Option<i64> {
    let (date, clock) = time.split_once('T')?;
    let part = |text: &str, from: usize, to: usize| text.get(from..to).map(str::to_owned);
    let (year, month, day) = (part(date, 0, 4)?, part(date, 4, 6)?, part(date, 6, 8)?);
    let (hour, minute, second) = (part(clock, 0, 2)?, part(clock, 2, 4)?, part(clock, 4, 6)?);
    let fraction = clock.get(6..).filter(|f| !f.is_empty()).unwrap_or("0");
    parse_timestamp(&format!("{year}-{month}-{day}T{hour}:{minute}:{second}.{fraction}Z"))
}

/// Ids that an order names, from the root down, without the run itself.
pub(super) fn ancestors(value: Value<'_>) -> impl Iterator<Item = &str> {
    let order = value.get("dotted_order").str().unwrap_or_default();
    order.split('.').filter_map(|part| part.split_once('Z')).map(|(_, id)| id)
}

/// Ancestors of a run from the nearest up, without itself.
pub(super) fn ancestors_of<'t>(run: &Run<'t>) -> impl Iterator<Item = &'t str> {
    let order = run.get("dotted_order").str().unwrap_or_default();
    let id = run.id();
    order
        .rsplit('.')
        .filter_map(|part| part.split_once('Z'))
        .map(|(_, id)| id)
        .filter(move |above| *above != id)
}

/// Runs of their records, in the order of their ids. A record that says nothing new is a duplicate.
pub(super) fn gather<'t>(parts: &[(u32, Value<'t>)], duplicate: &mut dyn FnMut(u32)) -> Vec<Run<'t>> {
    let mut by_id: HashMap<&str, Vec<(u32, Value<'t>)>> = HashMap::new();
    for (item, value) in parts {
        by_id.entry(value.get("id").str().unwrap_or_default()).or_default().push((*item, *value));
    }
    let mut runs: Vec<Run<'t>> = by_id
        .into_values()
        .map(|mut parts| {
            let full = |value: Value<'_>| value.members().filter(|(_, value)| value.exists()).count();
            parts.sort_by(|(_, a), (_, b)| {
                let key = |v: Value<'t>| (v.get("end_time").exists(), full(v), v.raw());
                key(*b).cmp(&key(*a))
            });
            let first = parts[0].1;
            let mut values = vec![first];
            let mut stays = vec![parts[0]];
            for (item, value) in &parts[1..] {
                let new = |(key, member): (&str, Value<'t>)| {
                    member.exists() && !values.iter().any(|part| part.get(key).exists())
                };
                if value.members().any(new) {
                    values.push(*value);
                    stays.push((*item, *value));
                } else {
                    duplicate(*item);
                }
            }
            Run { parts: stays }
        })
        .collect();
    runs.sort_by_key(Run::id);
    runs
}

/// Puts a run.
pub(super) fn push(
    run: &Run<'_>,
    parent: Option<&str>,
    (sort, agent): (Sort, Option<&str>),
    service: &str,
    limits: Limits,
    spans: &mut Spans,
) {
    let name = run.get("name").str().unwrap_or_default();
    let mut facts = Facts::new(name);
    facts.kinds("langsmith.chain", kind_of(run.get("run_type").str()));
    facts.force(sort);
    // Visits to one node are of one agent.
    facts.agent(agent.or(Some(name)).filter(|_| !matches!(sort, Sort::Generation)), agent);
    let text =
        |value: Value<'_>| value.exists().then(|| value.str().unwrap_or_else(|| value.raw()).to_owned());
    let (inputs, outputs) = (run.get("inputs"), run.get("outputs"));
    match sort {
        Sort::Tool(_) => {
            let output = outputs.get("output");
            let message = if output.get("kwargs").exists() { output.get("kwargs") } else { output };
            let extra = run.get("extra");
            let call = message.get("tool_call_id").some_str();
            let call = call.or_else(|| extra.get("tool_call_id").some_str());
            let call = call.or_else(|| extra.path(&["metadata", "tool_call_id"]).some_str());
            facts.tool(Some(name), call);
            let input = inputs.get("input");
            let content = if message.get("content").exists() { message.get("content") } else { output };
            let result = if content.exists() { content } else { outputs };
            let arguments = if input.exists() { input } else { inputs };
            facts.contents(text(arguments).map(Cow::Owned), text(result).map(Cow::Owned));
        }
        _ => facts.contents(text(inputs).map(Cow::Owned), text(outputs).map(Cow::Owned)),
    }
    if let Sort::Generation = sort {
        let (usage, total) = usage(run);
        facts.usage_is(usage, total);
        let invocation = run.get("extra").get("invocation_params");
        let model =
            run.metadata("ls_model_name").or_else(|| invocation.first(&["model", "model_name"]).some_str());
        facts.model(outputs.path(&["llm_output", "model_name"]).some_str().or(model));
    } else {
        // The columns of other runs have the sum of what is below.
        let (usage, total) = columns(run);
        facts.usage_is(usage, total);
    }
    let error = run.get("error").some_str();
    let failed = error.is_some() || run.get("status").str() == Some("error");
    if failed {
        facts.failed(error.and_then(error_class));
    }
    let recording = &mut spans.recording;
    let mut keep = |text: Option<&str>| text.map_or(Text::default(), |text| recording.text(text));
    let span = Span {
        id: keep(Some(run.id())),
        parent: keep(parent),
        service: keep(Some(service)),
        start: run.start(),
        end: run.time("end_time"),
        ok: failed.then_some(false),
        item: run.item(),
        ..Span::default()
    };
    facts.push(span, limits, spans);
}

fn kind_of(run_type: Option<&str>) -> &'static str {
    match run_type {
        Some("embedding") => "langsmith.embedding",
        Some("prompt") => "langsmith.prompt",
        Some("parser") => "langsmith.parser",
        _ => "langsmith.other",
    }
}

/// Usage and its total by the columns of a run, which say 0 where nothing is known.
fn columns(run: &Run<'_>) -> (Usage, Option<i64>) {
    let count = |key: &str| run.get(key).integer_like().filter(|n| *n > 0);
    let (read, written) = (count("prompt_tokens"), count("completion_tokens"));
    let usage = Usage {
        tokens_in: read,
        tokens_out: written,
        cost_usd: run.get("total_cost").number_like().filter(|cost| cost.is_finite() && *cost > 0.0),
        ..Usage::default()
    };
    (usage, count("total_tokens"))
}

/// Usage and its total: of the run, else from the model's answer or the metadata. Cache lies in what was read.
fn usage(run: &Run<'_>) -> (Usage, Option<i64>) {
    let count = |value: Value<'_>| value.integer_like().filter(|n| *n >= 0);
    let outputs = run.get("outputs");
    let message = outputs.get("generations").at(0);
    let message = if message.at(0).exists() { message.at(0) } else { message };
    let message = message.get("message");
    let usage_objects = [
        run.get("extra").path(&["metadata", "usage_metadata"]),
        outputs.get("usage_metadata"),
        message.path(&["kwargs", "usage_metadata"]),
        message.get("usage_metadata"),
        outputs.path(&["llm_output", "token_usage"]),
        outputs.get("usage"),
    ];
    let usage_objects =
        usage_objects.into_iter().find(|value| value.exists()).unwrap_or(outputs.get("usage"));
    // The columns say 0 where nothing is known.
    let column = |key: &str| count(run.get(key)).filter(|_| count(run.get("total_tokens")) != Some(0));
    let (of_model, of_model_total) = usage::of(usage_objects);
    let read = column("prompt_tokens").or(of_model.tokens_in);
    let written = column("completion_tokens").or(of_model.tokens_out);
    let total = column("total_tokens").or(of_model_total).or(of_model.tokens);
    let detail = |column: &str, names: &[&str]| count(run.get(column).first(names));
    let usage = Usage {
        tokens_in: read,
        tokens_out: written,
        tokens: total.filter(|_| read.is_none() && written.is_none()),
        cached: detail("prompt_token_details", &["cache_read", "cached_tokens"]).or(of_model.cached),
        cache_write: detail("prompt_token_details", &["cache_creation"]).or(of_model.cache_write),
        cache_write_1h: detail("prompt_token_details", &["ephemeral_1h_input_tokens"])
            .or(of_model.cache_write_1h),
        reasoning: detail("completion_token_details", &["reasoning", "reasoning_tokens"])
            .or(of_model.reasoning),
        cost_usd: run.get("total_cost").number_like().filter(|cost| cost.is_finite() && *cost > 0.0),
        ..Usage::default()
    };
    (usage, total)
}
