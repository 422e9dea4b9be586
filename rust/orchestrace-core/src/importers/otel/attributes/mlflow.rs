//! Attributes of `MLflow`, each of which is JSON in a text: what a span is, what went in and came out, usage and price.

use std::borrow::Cow;

use super::{Attribute, Facts};
use crate::importers::recording::Usage;
use crate::importers::usage;
use crate::json::Limits;
use crate::json::tree::{Tree, Value};

/// Of objects that a library wrote, which are small.
const LIMITS: Limits = Limits { depth: 64, string: usize::MAX, lenient: true };

impl<'t> Facts<'t> {
    /// Reads an attribute whose name goes on behind `mlflow.`.
    pub(super) fn put_mlflow(&mut self, rest: &str, a: Attribute<'t>) {
        match rest {
            "spanType" => {
                let kind = a.filled().map(plain);
                let kind = kind.map(|kind| match &*kind {
                    "CHAT_MODEL" => Cow::Borrowed("LLM"),
                    "WORKFLOW" => Cow::Borrowed("CHAIN"),
                    "PARSER" | "MEMORY" => Cow::Borrowed("PROMPT"),
                    _ => kind,
                });
                // A word of OpenInference counts, if there is one.
                if self.openinference.is_none() {
                    self.openinference = kind;
                }
            }
            "spanInputs" => {
                let text = a.text().map(plain);
                self.arguments.offer(6, text.clone());
                self.input = self.input.take().or(text);
            }
            "spanOutputs" => {
                let text = a.filled().map(plain);
                self.messages.offer(4, text.clone());
                self.result.offer(6, text);
            }
            "llm.model" => self.model.offer(4, a.filled().map(plain)),
            "chat.tokenUsage" => self.counted(a.text().as_deref(), usage::of),
            "llm.cost" => self.counted(a.text().as_deref(), read_cost),
            _ => {}
        }
    }

    fn counted(&mut self, json: Option<&str>, read: fn(Value<'_>) -> (Usage, Option<i64>)) {
        let Some(tree) = json.and_then(|json| Tree::parse(json, LIMITS).ok()) else { return };
        let (usage, total) = read(tree.root());
        self.tokens_in.offer(3, usage.tokens_in);
        self.tokens_out.offer(3, usage.tokens_out);
        self.total.offer(3, total.or(usage.tokens));
        self.cached.offer(3, usage.cached);
        self.cache_write.offer(3, usage.cache_write);
        self.cache_write_1h.offer(3, usage.cache_write_1h);
        self.reasoning.offer(3, usage.reasoning);
        self.cost.offer(3, usage.cost_usd);
    }
}

/// The text that a JSON string is of; anything else as it stands.
fn plain(text: Cow<'_, str>) -> Cow<'_, str> {
    if !text.starts_with('"') {
        return text;
    }
    let tree = Tree::parse(&text, LIMITS);
    match tree.as_ref().ok().and_then(|tree| tree.root().str()) {
        Some(inner) => Cow::Owned(inner.to_owned()),
        None => text.clone(),
    }
}

/// The price that an object states, in all or by its parts.
pub(in crate::importers::otel) fn cost(object: Value<'_>) -> Option<f64> {
    let part = |key: &str| object.get(key).number_like();
    let parts = part("input_cost").zip(part("output_cost")).map(|(read, written)| read + written);
    part("total_cost").or(parts)
}

fn read_cost(object: Value<'_>) -> (Usage, Option<i64>) {
    (Usage { cost_usd: cost(object), ..Usage::default() }, None)
}

/// Whether `MLflow` kept these attributes, which are JSON in texts then, whatever dialect they are of.
pub(in crate::importers::otel) fn is_of_mlflow(attributes: Value<'_>) -> bool {
    attributes.first(&["mlflow.traceRequestId", "mlflow.spanType"]).exists()
}

/// An attribute of another dialect as it was before `MLflow` kept it.
pub(in crate::importers::otel) fn without_json<'t>(key: &str, attribute: Attribute<'t>) -> Attribute<'t> {
    let Attribute::Plain(value) = attribute else { return attribute };
    match value.str() {
        Some(text) if text.starts_with('"') && !key.starts_with("mlflow.") => {
            Attribute::Built(plain(Cow::Borrowed(text)).into_owned())
        }
        _ => attribute,
    }
}
