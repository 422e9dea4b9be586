//! Agent Lightning: the rollout spans of its store, one per line. They are OpenTelemetry spans with the
//! rollout, the attempt at it, and their number in the attempt; spans of their own carry rewards.
//!
//! An item is a span or the record of an attempt; its key is rollout and attempt. Each attempt is a trace; its task,
//! and so its group, is the rollout. The last reward is that of the team, by its first dimension; what was paid before
//! it belongs to the last answer before it.

use super::otel::attributes::{Attribute, Facts, Sort};
use super::parsed::tell_replaced;
use super::recording::Text;
use super::spans::{Span, Spans, Unused};
use super::{Confidence, ImporterInfo, Items, Record, SpreadImporter, TraceItems};
use crate::columns::writer::TraceWriter;
use crate::error::{Reject, RejectCode};
use crate::json::Limits;
use crate::json::time::parse_seconds;
use crate::json::tree::{Tree, Value};
use crate::schema::MeasureKind;

/// The importer.
#[derive(Debug)]
pub struct AgentLightning;

static INFO: ImporterInfo = ImporterInfo {
    name: "agent_lightning",
    summary: "Agent Lightning spans of rollouts, with their rewards",
    evidence: &["rollout_id", "attempt_id", "sequence_id", "span_id"],
    suffixes: &[".json", ".jsonl"],
    lenient: true,
};

fn is_attempt(value: Value<'_>) -> bool {
    let has = |key: &str| !value.get(key).is_absent();
    value.get("rollout_id").str().is_some() && value.get("attempt_id").str().is_some() && has("sequence_id")
}

fn is_span(value: Value<'_>) -> bool {
    is_attempt(value) && !value.get("span_id").is_absent() && !value.get("attributes").is_absent()
}

fn is_rollout(value: Value<'_>) -> bool {
    let has = |key: &str| !value.get(key).is_absent();
    value.get("rollout_id").str().is_some() && has("input") && has("status")
}

impl SpreadImporter for AgentLightning {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        if is_span(record) {
            Confidence::Yes
        } else if is_attempt(record) || is_rollout(record) {
            Confidence::Maybe
        } else {
            Confidence::No
        }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        out.cut(record.text, |root, out| {
            if is_rollout(root) && !is_attempt(root) {
                out.ignored("agent_lightning.rollout");
                return Ok(());
            }
            let id = |key| root.get(key).some_str();
            let (Some(rollout), Some(attempt)) = (id("rollout_id"), id("attempt_id")) else {
                let message = "found nothing, expected the ids of a rollout and of an attempt at it";
                return Err(Reject::new(RejectCode::FieldMissing, "/attempt_id", message));
            };
            let key = format!("{rollout}/{attempt}");
            if is_span(root) && id("span_id").is_none() {
                let message = "found nothing, expected an id";
                out.reject_in(&key, root.raw(), Reject::new(RejectCode::FieldMissing, "/span_id", message));
            } else {
                out.item(&key, root.raw(), "");
            }
            Ok(())
        })
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        let limits = items.limits();
        let mut spans = Spans::default();
        let mut rewards = Vec::new();
        let mut rewarding = Vec::new();
        let mut rollout = String::new();
        for (i, item) in items.iter().enumerate() {
            // Each was parsed when the record was cut.
            let Ok(tree) = Tree::parse(item.text, limits) else { continue };
            let value = tree.root();
            if tree.is_replaced() {
                tell_replaced(&mut spans.recording);
            }
            rollout.replace_range(.., value.get("rollout_id").str().unwrap_or_default());
            if !is_span(value) {
                let over = matches!(value.get("status").str(), Some("succeeded" | "failed"));
                spans.recording.trace.partial |= !over;
                continue;
            }
            if let Some(reward) = Reward::of(value, limits) {
                rewards.push(reward);
                rewarding.push(i as u32);
            }
            push(value, i as u32, limits, &mut spans);
        }
        let recording = &mut spans.recording;
        recording.trace.trace_id = recording.text(items.key());
        recording.trace.task_id = recording.text(&rollout);
        recording.trace.system = recording.text("agent-lightning");
        rewards.sort_by(|a, b| (a.at, a.time, &a.id).cmp(&(b.at, b.time, &b.id)));
        rewards.dedup_by(|a, b| a.id == b.id);
        if let Some(last) = rewards.pop() {
            last.pay(&mut spans);
        }
        for reward in rewards {
            if let (Some(time), Some((_, value))) = (reward.time, reward.parts.first()) {
                spans.reward(time, *value);
            }
        }
        let all = items.as_slice();
        spans.describe(
            &|one, other| all[one as usize].text == all[other as usize].text,
            &mut |item, fate| match fate {
                Unused::Duplicate => items.duplicate(item as usize),
                Unused::Ignored(_) if rewarding.contains(&item) => {}
                Unused::Ignored(kind) => items.ignored(item as usize, kind),
            },
        );
        spans.recording.write(out);
    }
}

/// A reward that was paid.
#[derive(Debug, Default)]
struct Reward {
    /// Its number in the attempt.
    at: i64,
    time: Option<i64>,
    id: String,
    /// Dimensions, the first of them the one that counts.
    parts: Vec<(String, f64)>,
}

impl Reward {
    /// The reward that a span carries: `agentlightning.reward.N.value` with a name, before that `reward`, or the
    /// output of an operation of AgentOps.
    fn of(span: Value<'_>, limits: Limits) -> Option<Self> {
        let attributes = span.get("attributes");
        let name = span.get("name").str()?;
        let mut parts = Vec::new();
        for n in 0.. {
            let at = |field: &str| attributes.get(&format!("agentlightning.reward.{n}.{field}"));
            let Some(value) = at("value").number_like() else { break };
            parts.push((at("name").some_str().unwrap_or("primary").to_owned(), value));
        }
        if parts.is_empty() && name == "agentlightning.reward" {
            parts.extend(attributes.get("reward").number_like().map(|value| ("primary".to_owned(), value)));
        }
        if parts.is_empty()
            && let Some(output) = attributes.get("agentops.entity.output").str()
            && let Ok(tree) = Tree::parse(output, limits)
            && tree.root().get("type").str() == Some("reward")
        {
            parts.extend(tree.root().get("value").number_like().map(|value| ("primary".to_owned(), value)));
        }
        parts.retain(|(_, value)| value.is_finite());
        (!parts.is_empty()).then(|| Self {
            at: span.get("sequence_id").i64().unwrap_or(i64::MAX),
            time: seconds(span.get("end_time")).or_else(|| seconds(span.get("start_time"))),
            id: span.get("span_id").str().unwrap_or_default().to_owned(),
            parts,
        })
    }

    /// Pays the team; other dimensions are metrics.
    fn pay(self, spans: &mut Spans) {
        for (i, (name, value)) in self.parts.into_iter().enumerate() {
            match i {
                0 => spans.recording.measure(MeasureKind::Reward, "team", value),
                _ => spans.recording.measure(MeasureKind::Metric, &format!("reward.{name}"), value),
            }
        }
    }
}

/// A time in seconds since the epoch.
fn seconds(value: Value<'_>) -> Option<i64> {
    parse_seconds(value.raw())
}

fn push(value: Value<'_>, item: u32, limits: Limits, spans: &mut Spans) {
    let name = value.get("name").str().unwrap_or_default();
    let mut facts = Facts::new(name);
    facts.kinds("agent_lightning.chain", "agent_lightning.other");
    match name {
        "agentlightning.message" => facts.kinds("", "agent_lightning.message"),
        "agentlightning.object" => facts.kinds("", "agent_lightning.object"),
        "agentlightning.exception" => facts.kinds("", "agent_lightning.exception"),
        "agentlightning.annotation" | "agentlightning.reward" => {
            facts.kinds("", "agent_lightning.annotation");
        }
        _ => {}
    }
    if name == "agentlightning.virtual" || name == "agentlightning.operation" {
        facts.force(Sort::Chain(false));
    } else if name.starts_with("agentlightning.") {
        facts.force(Sort::Nothing);
    }
    for (key, attribute) in value.get("attributes").members() {
        facts.put(key, Attribute::Plain(attribute));
    }
    for event in value.get("events").elements() {
        if facts.begin_event(event.get("name").str().unwrap_or_default()) {
            for (key, attribute) in event.get("attributes").members() {
                facts.put_event(key, Attribute::Plain(attribute));
            }
        }
    }
    let ok = match value.path(&["status", "status_code"]).str() {
        Some("OK") => Some(true),
        Some("ERROR") => Some(false),
        _ => None,
    };
    let service = value.path(&["resource", "attributes", "service.name"]).some_str();
    let service = service.filter(|service| !service.starts_with("unknown_service")).unwrap_or("agent");
    let recording = &mut spans.recording;
    let mut keep = |text: Option<&str>| text.map_or(Text::default(), |text| recording.text(text));
    let span = Span {
        id: keep(value.get("span_id").str()),
        parent: keep(value.get("parent_id").str()),
        service: keep(Some(service)),
        start: seconds(value.get("start_time")),
        end: seconds(value.get("end_time")),
        ok,
        item,
        ..Span::default()
    };
    for link in value.get("links").elements() {
        if let Some(to) = link.path(&["context", "span_id"]).some_str() {
            let to = spans.recording.text(to);
            spans.link(to);
        }
    }
    facts.push(span, limits, spans);
}
