use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::*;
use crate::importers::testing::{counts, documents, read_texts};
use crate::importers::{Confidence, Format, IMPORTERS};
use crate::ingest::{Input, ReadOptions, read};
use crate::run::Run;
use crate::store::Store;

mod containers;
mod dialects;
mod mapping;
mod robustness;

const S: i64 = 1_000_000_000;
const T0: i64 = 1_777_555_053 * S;
const TRACE: &str = "dd547580319ab0312cee07f1def50dad";

/// A span of OTLP: id, parent, name, first and last second, attributes.
fn span(id: &str, parent: &str, name: &str, from: f64, to: f64, attributes: &Json) -> Json {
    let time = |t: f64| (T0 + (t * 1e9) as i64).to_string();
    let typed = |value: &Json| match value {
        Json::String(text) => json!({"stringValue": text}),
        Json::Bool(flag) => json!({"boolValue": flag}),
        Json::Number(n) if n.is_i64() => json!({"intValue": n.to_string()}),
        other => json!({"doubleValue": other}),
    };
    let attributes: Vec<Json> =
        attributes.as_object().unwrap().iter().map(|(k, v)| json!({"key": k, "value": typed(v)})).collect();
    json!({
        "traceId": TRACE, "spanId": format!("{id:0>16}"), "parentSpanId": if parent.is_empty() { String::new() } else { format!("{parent:0>16}") },
        "name": name, "kind": 1, "startTimeUnixNano": time(from), "endTimeUnixNano": time(to), "attributes": attributes, "status": {},
    })
}

fn agent(id: &str, parent: &str, name: &str, from: f64, to: f64) -> Json {
    span(
        id,
        parent,
        &format!("invoke_agent {name}"),
        from,
        to,
        &json!({"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": name}),
    )
}

/// A generation that answers with a text.
fn says(id: &str, parent: &str, from: f64, to: f64, text: &str) -> Json {
    let messages = json!([{"role": "assistant", "parts": [{"type": "text", "content": text}]}]);
    chat(id, parent, from, to, &messages)
}

/// A generation that asks for tools, by id and name.
fn asks(id: &str, parent: &str, from: f64, to: f64, calls: &[(&str, &str)]) -> Json {
    let parts: Vec<Json> = calls
        .iter()
        .map(|(id, name)| json!({"type": "tool_call", "id": id, "name": name, "arguments": {"q": 1}}))
        .collect();
    chat(id, parent, from, to, &json!([{"role": "assistant", "parts": parts}]))
}

fn chat(id: &str, parent: &str, from: f64, to: f64, messages: &Json) -> Json {
    let attributes = json!({
        "gen_ai.operation.name": "chat", "gen_ai.response.model": "m", "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 1, "gen_ai.output.messages": messages.to_string(),
    });
    span(id, parent, "chat m", from, to, &attributes)
}

fn tool(id: &str, parent: &str, name: &str, from: f64, to: f64, call: &str) -> Json {
    let mut attributes = json!({
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name, "gen_ai.tool.call.result": format!("result of {id}"),
    });
    if !call.is_empty() {
        attributes["gen_ai.tool.call.id"] = call.into();
    }
    span(id, parent, &format!("execute_tool {name}"), from, to, &attributes)
}

fn request(spans: &[Json]) -> String {
    json!({"resourceSpans": [{
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
        "scopeSpans": [{"scope": {"name": "test"}, "spans": spans}],
    }]})
    .to_string()
}

/// What is read, once the native importer has accepted it too.
fn store(inputs: &[(&str, &str)]) -> Store {
    let store = read_texts(&Otel, inputs);
    let text: Vec<String> = documents(&store).iter().map(Json::to_string).collect();
    let n = text.len();
    let reader = Box::new(std::io::Cursor::new(text.join("\n")));
    let run = Run::new(Some(1)).unwrap();
    let input = Input::Stream { name: "native".into(), reader };
    let options = ReadOptions { format: "native".into(), ..ReadOptions::default() };
    let back = read(vec![input], &options, &run).unwrap();
    assert_eq!((back.n_traces(), back.records_quarantined()), (n, 0));
    store
}

fn one(spans: &[Json]) -> Json {
    let found = documents(&store(&[("x.json", &request(spans))]));
    assert_eq!(found.len(), 1);
    found.into_iter().next().unwrap()
}

fn short(id: &str) -> String {
    id.trim_start_matches('0').to_owned()
}

fn events(trace: &Json) -> Vec<String> {
    let text = |event: &Json, key: &str| event[key].as_str().unwrap_or("-").to_owned();
    let list = trace["events"].as_array().unwrap();
    list.iter()
        .map(|e| {
            format!("{} {}", short(&text(e, "id")), ["type", "agent", "to"].map(|key| text(e, key)).join(" "))
        })
        .collect()
}

fn event<'e>(trace: &'e Json, id: &str) -> &'e Json {
    let mut list = trace["events"].as_array().unwrap().iter();
    list.find(|e| short(e["id"].as_str().unwrap()) == id).unwrap_or_else(|| panic!("no event {id}"))
}

fn edges(trace: &Json) -> BTreeSet<String> {
    let end = |edge: &Json, key: &str| short(edge[key].as_str().unwrap());
    let list = trace["edges"].as_array().unwrap().iter();
    list.map(|e| format!("{} {} {}", end(e, "src"), e["type"].as_str().unwrap(), end(e, "dst"))).collect()
}

fn has_edges(trace: &Json, wanted: &[&str]) {
    let found = edges(trace);
    for edge in wanted {
        assert!(found.contains(*edge), "no {edge} in {found:?}");
    }
}

fn findings(store: &Store) -> Vec<String> {
    use arrow_array::cast::AsArray;
    let mut out = Vec::new();
    for batch in store.table("findings").unwrap() {
        let codes = batch.column_by_name("code").unwrap().as_dictionary::<arrow_array::types::UInt8Type>();
        out.extend(codes.keys().values().iter().map(|c| crate::error::FINDING_CODES[*c as usize].to_owned()));
    }
    out.sort();
    out
}

/// Numbers of records by status and kind, over all inputs.
fn told(store: &Store) -> Vec<(String, u64)> {
    let mut sums = std::collections::BTreeMap::new();
    for (_, status, kind, n) in counts(store) {
        *sums.entry(if kind.is_empty() { status } else { kind }).or_insert(0) += n;
    }
    sums.into_iter().collect()
}

fn pairs(list: &[(&str, u64)]) -> Vec<(String, u64)> {
    list.iter().map(|(word, n)| ((*word).to_owned(), *n)).collect()
}

fn partial(trace: &Json) -> bool {
    trace["events"][0]["x_trace"]["partial"].as_bool().unwrap_or(false)
}
