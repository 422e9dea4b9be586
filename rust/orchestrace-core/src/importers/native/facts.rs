//! `x_trace`: facts that the native export adds to the first event, since the schema has no place for them
//! (docs/reference/tables.md, "The way back").

use crate::columns::writer::{CarriedLabel, TraceWriter};
use crate::error::{Finding, FindingCode, capped};
use crate::json::time::parse_timestamp;
use crate::json::tree::{Tree, Value};
use crate::schema::{Dict, TimeBasis};

/// Reads it back; whether our export wrote it and it says nothing else, so that it need not be kept to be written
/// again. Whoever writes one by hand names no importer. What does not fit is left alone.
pub(super) fn read(text: &str, out: &mut TraceWriter<'_>) -> bool {
    // The text has been judged with the document.
    let Ok(tree) = Tree::parse(text, out.options.limits) else { return false };
    let mut plain = true;
    let mut exported = false;
    for (key, value) in tree.root().members() {
        plain &= match key {
            "group_id" => value.str().map(|group| out.group = Some(group.to_owned())).is_some(),
            "time_basis" => {
                let basis = value.str().and_then(TimeBasis::parse);
                out.facts.time_basis = basis.or(out.facts.time_basis);
                basis.is_some()
            }
            "started_at" => {
                let time = value.str().and_then(parse_timestamp);
                out.facts.started_at = time.or(out.facts.started_at);
                time.is_some()
            }
            "importer" => value.str().is_some_and(|name| {
                exported = true;
                out.facts.importer = Some(out.block.dicts[Dict::Importer as usize].code(name));
                true
            }),
            "partial" => value.bool().map(|partial| out.facts.partial = partial).is_some(),
            // It tells equal runs apart, and has done so.
            "copy" => value.u64().is_some(),
            "unknown_costs" => {
                out.unknown_costs = value.elements().filter_map(Value::str).map(str::to_owned).collect();
                out.unknown_costs.len() == value.len()
            }
            "labels" => {
                let labels: Vec<CarriedLabel> = value.elements().filter_map(label).collect();
                let all = labels.len() == value.len();
                out.carried.labels = labels;
                all
            }
            "findings" => {
                let findings: Vec<Finding> = value.elements().filter_map(finding).collect();
                let all = findings.len() == value.len();
                out.carried.findings = findings;
                all
            }
            _ => false,
        };
    }
    plain && exported
}

fn label(value: Value<'_>) -> Option<CarriedLabel> {
    let text = |key: &str| value.get(key).str().map(str::to_owned);
    Some(CarriedLabel {
        annotator: text("annotator")?,
        event_id: text("event_id"),
        turn: value.get("turn").u64().and_then(|turn| turn.try_into().ok()),
        agent: text("agent"),
        label: text("label")?,
        weight: value.get("weight").f64(),
    })
}

fn finding(value: Value<'_>) -> Option<Finding> {
    let code = value.get("code").str()?;
    let code =
        FindingCode::ALL.iter().copied().find(|known| known.as_str() == code && !known.is_derived())?;
    Some(Finding {
        code,
        count: value.get("count").u64().and_then(|n| n.try_into().ok()).filter(|n| *n > 0)?,
        seq: value.get("seq").u64().and_then(|seq| seq.try_into().ok()),
        message: capped(value.get("message").str()?.to_owned()),
    })
}
