//! The work of a call, from its operation, its usage and attributes.

use std::collections::{BTreeSet, HashMap, HashSet};

use crate::importers::otel::attributes::{Attribute, Facts, Sort, text_or_json};
use crate::importers::otel::time::instant;
use crate::importers::recording::{Text, Usage};
use crate::importers::spans::{Span, Spans, ToolKind};
use crate::importers::usage;
use crate::json::identity::identity;
use crate::json::tree::{Tree, Value};
use crate::json::{Kind, Limits};

/// The name of a call's operation: of `weave:///team/project/op/Agent.run:v2` it is `Agent.run`.
pub(super) fn operation(call: Value<'_>) -> &str {
    short(call.get("op_name").str().unwrap_or_default(), "/op/")
}

fn short<'t>(text: &'t str, marker: &str) -> &'t str {
    if !text.starts_with("weave://") {
        return text;
    }
    let name = text.split_once(marker).map_or(text, |(_, name)| name);
    name.rsplit_once(':').map_or(name, |(name, _)| name)
}

/// What calls a thing by name: the end of a reference, or a hash of the thing itself.
pub(super) fn name_of(value: Value<'_>) -> Option<String> {
    match value.kind()? {
        Kind::Null => None,
        Kind::String => {
            let text = value.some_str()?;
            let row = text.rsplit_once("/attr/rows/id/").map(|(_, row)| row);
            Some(row.unwrap_or_else(|| short(text, "/object/")).to_owned())
        }
        _ => Some(format!("{:016x}", identity(value.raw()))),
    }
}

/// What no call says of itself alone.
pub(super) struct Place<'p> {
    /// Calls with usage below which no other has some: theirs counts, since the others repeat it in sums.
    innermost: HashSet<&'p str>,
    /// Who works where nobody is named: the call that all others are below.
    fallback: &'p str,
    /// What the calls that all others are below state, which is the sum of what is below.
    pub sum: Usage,
    /// Calls that are around several runs, so that none of theirs is below them.
    around: HashSet<&'p str>,
}

impl<'p> Place<'p> {
    pub(super) fn of(calls: &[(u32, Value<'p>)], around: HashSet<&'p str>) -> Self {
        let id = |call: Value<'p>| call.get("id").str().unwrap_or_default();
        let parents: HashMap<&str, &str> = calls
            .iter()
            .filter_map(|(_, call)| Some((id(*call), call.get("parent_id").some_str()?)))
            .collect();
        let counted = |call: Value<'p>| usage_of(call).0.is_some();
        let with_usage: BTreeSet<&str> =
            calls.iter().filter(|(_, call)| counted(*call)).map(|(_, call)| id(*call)).collect();
        let mut outer: HashSet<&str> = HashSet::new();
        for inner in &with_usage {
            // Calls that name each other as parents are around nothing.
            let mut at = parents.get(inner);
            while let Some(above) = at.filter(|above| *above != inner && outer.insert(**above)) {
                at = parents.get(above);
            }
        }
        let is_there: HashSet<&str> = calls.iter().map(|(_, call)| id(*call)).collect();
        let is_root = |call: Value<'p>| parents.get(id(call)).is_none_or(|above| !is_there.contains(above));
        let mut roots: Vec<Value<'p>> =
            calls.iter().map(|(_, call)| *call).filter(|call| is_root(*call)).collect();
        roots.sort_by_key(|call| (instant(call.get("started_at")), id(*call)));
        let fallback = roots.first().map_or("weave", |call| operation(*call));
        let stated: Option<Vec<Usage>> = roots.iter().map(|call| stated(*call)).collect();
        let sum = stated.unwrap_or_default().into_iter().fold(Usage::default(), |all, stated| Usage {
            cost_usd: [all.cost_usd, stated.cost_usd].into_iter().flatten().reduce(|sum, cost| sum + cost),
            ..all.plus(stated)
        });
        Self {
            innermost: with_usage.into_iter().filter(|id| !outer.contains(id)).collect(),
            fallback,
            sum,
            around,
        }
    }
}

/// Puts a call.
pub(super) fn push(item: u32, call: Value<'_>, place: &Place<'_>, limits: Limits, spans: &mut Spans) {
    let name = operation(call);
    let attributes = call.get("attributes");
    // A call may be a span that came over OpenTelemetry.
    let of_span = [call.path(&["otel_dump", "attributes"]), attributes.path(&["otel_span", "attributes"])];
    let mut flat: Vec<(String, Value<'_>)> = Vec::new();
    for object in of_span {
        flatten(object, "", &mut flat);
    }
    let plain = attributes.members().filter(|(key, _)| !matches!(*key, "weave" | "otel_span"));
    for (key, value) in plain {
        flatten_member(key, value, &mut flat);
    }
    let exception = Exception::of(call.get("exception"), limits);
    let id = call.get("id").str().unwrap_or_default();

    let mut facts = Facts::new(name);
    facts.kinds("weave.op", "weave.other");
    for (key, value) in &flat {
        facts.put(key, Attribute::Plain(*value));
    }
    let is_innermost = place.innermost.contains(id);
    let sort = match attributes.path(&["weave", "kind"]).str() {
        Some("agent") => Sort::Agent,
        Some("llm") => Sort::Generation,
        Some("tool") => Sort::Tool(ToolKind::Asked),
        Some("search") => Sort::Tool(ToolKind::Retrieval),
        _ if name.starts_with("langchain.Tool.") => Sort::Tool(ToolKind::Asked),
        _ if is_innermost => Sort::Generation,
        _ if facts.is_transport() => Sort::Nothing,
        _ => Sort::Chain(true),
    };
    facts.typed(sort);
    let (inputs, output) = (call.get("inputs"), call.get("output"));
    if let Sort::Tool(_) = sort {
        let call_id = [output, inputs].into_iter().find_map(|value| value.get("tool_call_id").some_str());
        facts.tool(name.strip_prefix("langchain.Tool."), call_id);
    }
    facts.contents(text_or_json(inputs), text_or_json(output));
    let (_, total, model) = usage_of(call);
    facts.model(
        model.or_else(|| [output, inputs].into_iter().find_map(|value| value.get("model").some_str())),
    );
    if let Some(usage) = stated(call).filter(|_| is_innermost) {
        facts.usage_is(usage, total);
    }
    if exception.failed {
        facts.failed(exception.message());
    }
    let parent = call.get("parent_id").some_str().filter(|parent| !place.around.contains(parent));
    let recording = &mut spans.recording;
    let mut keep = |text: Option<&str>| text.map_or(Text::default(), |text| recording.text(text));
    let span = Span {
        id: keep(Some(id)),
        parent: keep(parent),
        service: keep(Some(place.fallback)),
        start: instant(call.get("started_at")),
        end: instant(call.get("ended_at")),
        ok: exception.failed.then_some(false),
        item,
        ..Span::default()
    };
    facts.push(span, limits, spans);
}

/// What a call says of its failure: JSON of type and message, or the text of an exception.
struct Exception<'t> {
    failed: bool,
    text: Option<&'t str>,
    tree: Option<Tree<'t>>,
}

impl<'t> Exception<'t> {
    fn of(value: Value<'t>, limits: Limits) -> Self {
        let text = value.some_str();
        let tree = text.filter(|text| text.starts_with('{')).and_then(|text| Tree::parse(text, limits).ok());
        Self { failed: value.exists(), text, tree }
    }

    /// The type, or the line that begins with it.
    fn message(&self) -> Option<&str> {
        let kind = self.tree.as_ref().and_then(|tree| tree.root().get("type").some_str());
        // The last line of what Python prints has the class and the message.
        kind.or_else(|| self.text?.lines().rfind(|line| !line.trim().is_empty()))
    }
}

fn flatten<'t>(object: Value<'t>, above: &str, out: &mut Vec<(String, Value<'t>)>) {
    for (key, value) in object.members() {
        let path = if above.is_empty() { key.to_owned() } else { [above, ".", key].concat() };
        flatten_member(&path, value, out);
    }
}

fn flatten_member<'t>(path: &str, value: Value<'t>, out: &mut Vec<(String, Value<'t>)>) {
    if value.kind() == Some(Kind::Object) {
        flatten(value, path, out);
    } else {
        out.push((path.to_owned(), value));
    }
}

/// Usage in the words of R7, the total that is stated beside it, and the model that used most of it.
fn usage_of(call: Value<'_>) -> (Option<Usage>, Option<i64>, Option<&str>) {
    let mut sum: Option<(Usage, Option<i64>)> = None;
    let mut most: Option<(i64, &str)> = None;
    for (model, object) in call.path(&["summary", "usage"]).members() {
        let (mut usage, total) = usage::of(object);
        // The service fills in 0 where a provider states no total.
        let total = total.filter(|total| *total > 0);
        usage.stated = usage.stated.filter(|stated| *stated > 0);
        let tokens = total.or_else(|| usage.total()).unwrap_or(0);
        if most.is_none_or(|(known, name)| (tokens, model) > (known, name)) {
            most = Some((tokens, model));
        }
        sum = Some(match sum {
            None => (usage, total),
            Some((known, all)) => {
                (known.plus(usage), all.zip(total).map(|(all, total)| all.saturating_add(total)))
            }
        });
    }
    (sum.map(|(usage, _)| usage), sum.and_then(|(_, total)| total), most.map(|(_, model)| model))
}

/// What a call states that all below it used and cost.
fn stated(call: Value<'_>) -> Option<Usage> {
    usage_of(call).0.map(|usage| Usage { cost_usd: cost(call), ..usage })
}

/// What the service worked out that the calls cost.
fn cost(call: Value<'_>) -> Option<f64> {
    let costs = call.path(&["summary", "weave", "costs"]);
    let mut sum = None;
    for (key, value) in costs.members().flat_map(|(_, of_model)| of_model.members()) {
        if let Some(cost) = value.f64().filter(|cost| key.ends_with("_total_cost") && *cost >= 0.0) {
            sum = Some(sum.unwrap_or(0.0) + cost);
        }
    }
    sum.filter(|cost: &f64| cost.is_finite() && *cost > 0.0)
}
