// Inputs are made where they are used.
#![allow(clippy::needless_pass_by_value, clippy::format_collect)]

use serde_json::{Value as Json, json};

use super::*;
use crate::importers::testing::{counts, documents, read_texts};
use crate::ingest::{Input, ReadOptions, read};
use crate::store::Store;

/// What is read, once the native importer has accepted it too.
fn store(inputs: &[(&str, &str)]) -> Store {
    let store = read_texts(&AgentLightning, inputs);
    let text: Vec<String> = documents(&store).iter().map(Json::to_string).collect();
    let reader = Box::new(std::io::Cursor::new(text.join("\n")));
    let input = Input::Stream { name: "native".into(), reader };
    let options = ReadOptions { format: "native".into(), ..ReadOptions::default() };
    let back = read(vec![input], &options, &crate::run::Run::new(Some(1)).unwrap()).unwrap();
    assert_eq!((back.n_traces(), back.records_quarantined()), (text.len(), 0));
    store
}

fn lines(records: &[Json]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

fn one(records: &[Json]) -> Json {
    let found = documents(&store(&[("x.jsonl", &lines(records))]));
    assert_eq!(found.len(), 1);
    found.into_iter().next().unwrap()
}

fn events(trace: &Json) -> Vec<String> {
    let text = |event: &Json, key: &str| event[key].as_str().unwrap_or("-").to_owned();
    let list = trace["events"].as_array().unwrap();
    list.iter().map(|e| ["id", "type", "agent", "to", "tool"].map(|key| text(e, key)).join(" ")).collect()
}

fn event<'e>(trace: &'e Json, id: &str) -> &'e Json {
    let mut list = trace["events"].as_array().unwrap().iter();
    list.find(|e| e["id"] == id).unwrap_or_else(|| panic!("no event {id} in {:?}", events(trace)))
}

fn partial(trace: &Json) -> bool {
    trace["events"][0]["x_trace"]["partial"] == true
}

/// Numbers of records by status and kind, over all inputs.
fn told(store: &Store) -> Vec<(String, u64)> {
    let mut sums = std::collections::BTreeMap::new();
    for (_, status, kind, n) in counts(store) {
        *sums.entry(if kind.is_empty() { status } else { kind }).or_insert(0) += n;
    }
    sums.into_iter().filter(|(_, n)| *n > 0).collect()
}

/// Any prefix of the text can be read, and shuffled lines give the same traces.
fn holds_up(text: &str) {
    for end in (0..text.len()).step_by(7).filter(|end| text.is_char_boundary(*end)) {
        store(&[("x.jsonl", &text[..end])]);
    }
    let whole = documents(&store(&[("x.jsonl", text)]));
    let mut lines: Vec<&str> = text.lines().collect();
    lines.reverse();
    let middle = lines.len() / 2;
    let (one, other) = lines.split_at(middle);
    let halves = [("b.jsonl", one.join("\n")), ("a.jsonl", other.join("\n"))];
    let shuffled = documents(&store(&[(halves[0].0, &halves[0].1), (halves[1].0, &halves[1].1)]));
    assert_eq!(whole, shuffled);
}

fn span(id: &str, n: u32, parent: &str, name: &str, from: f64, to: f64, attributes: Json) -> Json {
    json!({"rollout_id": "ro-1", "attempt_id": "at-1", "sequence_id": n, "trace_id": "dd547580319ab0312cee07f1def50dad", "span_id": id,
        "parent_id": if parent.is_empty() { Json::Null } else { parent.into() }, "name": name,
        "status": {"status_code": "OK", "description": null}, "attributes": attributes, "events": [], "links": [],
        "start_time": 1_772_359_200.0 + from, "end_time": 1_772_359_200.0 + to, "context": null, "parent": null,
        "resource": {"attributes": {"service.name": "unknown_service", "agentlightning.rollout_id": "ro-1"}, "schema_url": ""}})
}

fn says(id: &str, n: u32, from: f64, to: f64, text: &str) -> Json {
    span(
        id,
        n,
        "b1",
        "openai.chat.completion",
        from,
        to,
        json!({"gen_ai.operation.name": "chat", "gen_ai.response.model": "m",
        "gen_ai.usage.prompt_tokens": 10, "gen_ai.usage.completion_tokens": 2, "gen_ai.completion.0.content": text}),
    )
}

fn reward(id: &str, n: u32, at: f64, attributes: Json) -> Json {
    span(id, n, "b1", "agentlightning.annotation", at, at, attributes)
}

fn rollout() -> Vec<Json> {
    vec![
        span(
            "b1",
            0,
            "",
            "solver",
            0.0,
            9.0,
            json!({"agentops.span.kind": "session", "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "solver"}),
        ),
        says("91", 1, 1.0, 2.0, "try"),
        reward(
            "c1",
            2,
            2.5,
            json!({"agentlightning.reward.0.name": "primary", "agentlightning.reward.0.value": 0.25}),
        ),
        says("92", 3, 3.0, 4.0, "done"),
        reward(
            "c2",
            4,
            5.0,
            json!({"agentlightning.reward.0.name": "task", "agentlightning.reward.0.value": 1.0,
            "agentlightning.reward.1.name": "speed", "agentlightning.reward.1.value": 0.5}),
        ),
        span("d1", 5, "b1", "agentlightning.message", 5.0, 5.0, json!({"agentlightning.message.body": "x"})),
    ]
}

#[test]
fn the_last_reward_is_the_teams_and_earlier_ones_are_of_answers() {
    let store = store(&[("x.jsonl", &lines(&rollout()))]);
    let trace = &documents(&store)[0];
    assert_eq!((&trace["trace_id"], &trace["task_id"]), (&json!("ro-1/at-1"), &json!("ro-1")));
    assert_eq!(events(trace), ["91 message solver - -", "92 return solver user -"]);
    assert_eq!((&trace["rewards"], &trace["metrics"]), (&json!({"team": 1}), &json!({"reward.speed": 0.5})));
    assert_eq!(
        (event(trace, "91")["reward"].as_f64(), event(trace, "92")["reward"].as_f64()),
        (Some(0.25), None)
    );
    assert_eq!(trace["costs"]["tokens"], 24.0);
    assert!(told(&store).contains(&("agent_lightning.message".into(), 1)));
}

#[test]
fn rewards_of_older_versions() {
    let agentops = span(
        "c9",
        9,
        "b1",
        "agentops_reward_operation.task",
        6.0,
        6.0,
        json!({"agentops.entity.output": "{\"type\": \"reward\", \"value\": 0.75}"}),
    );
    let mut old = rollout();
    old[4] = agentops;
    assert_eq!(one(&old)["rewards"], json!({"team": 0.75}));
    old[4] = span("c9", 9, "b1", "agentlightning.reward", 6.0, 6.0, json!({"reward": -1.5}));
    assert_eq!(one(&old)["rewards"], json!({"team": -1.5}));
    old.truncate(2);
    assert_eq!(one(&old)["rewards"], json!({}));
}

#[test]
fn attempts_are_traces_of_one_task() {
    let mut records = rollout();
    for mut record in rollout() {
        record["attempt_id"] = json!("at-2");
        records.push(record);
    }
    records.push(json!({"rollout_id": "ro-1", "attempt_id": "at-2", "sequence_id": 2, "start_time": 1.0, "status": "timeout"}));
    records.push(json!({"rollout_id": "ro-1", "input": {"q": 1}, "status": "failed", "start_time": 1.0}));
    let store = store(&[("x.jsonl", &lines(&records))]);
    let found = documents(&store);
    assert_eq!(
        found.iter().map(|t| (t["task_id"].as_str().unwrap(), partial(t))).collect::<Vec<_>>(),
        [("ro-1", false), ("ro-1", true)]
    );
    assert!(told(&store).contains(&("agent_lightning.rollout".into(), 1)));
}

#[test]
fn times_are_exact_and_missing_parents_are_told() {
    let text = lines(&rollout()).replace("1772359202.0", "1772359202.123456789");
    let trace = documents(&store(&[("x.jsonl", &text)])).remove(0);
    assert!((event(&trace, "91")["t"].as_f64().unwrap() - 2.123_456_789).abs() < 1e-9);
    assert!(partial(&one(&rollout()[1..])));
}

#[test]
fn what_lacks_an_id_is_quarantined_and_a_cut_file_keeps_the_rest() {
    let mut nameless = rollout().remove(1);
    nameless["span_id"] = json!("");
    let mut lost = rollout().remove(1);
    lost["attempt_id"] = Json::Null;
    let text = lines(&rollout()) + &lines(&[nameless, lost]) + "{\"rollout_id\": \"ro-1\", \"att";
    let store = store(&[("x.jsonl", &text)]);
    assert_eq!(store.records_quarantined(), 3);
    assert!(partial(&documents(&store)[0]));
}

#[test]
fn any_prefix_and_any_order_will_do() {
    holds_up(&lines(&rollout()));
}

#[test]
fn only_its_own_records_are_taken() {
    let mut plain = rollout().remove(0);
    plain.as_object_mut().unwrap().remove("rollout_id");
    for (text, yes) in [(rollout()[0].to_string(), true), (plain.to_string(), false)] {
        let limits = crate::ingest::json::Limits { depth: 64, string: 1 << 20, lenient: true };
        let tree = Tree::head(&text, limits);
        assert_eq!(AgentLightning.sniff(tree.root(), "") == Confidence::Yes, yes, "{text}");
    }
}
