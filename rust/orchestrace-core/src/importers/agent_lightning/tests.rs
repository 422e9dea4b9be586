use serde_json::{Value as Json, json};

use super::*;
use crate::importers::testing::{
    documents, event, events_and_tools, fates, holds_up, is_partial, lines, only, read_checked, sniffed,
};
use crate::store::Store;

fn store(inputs: &[(&str, &str)]) -> Store {
    read_checked(&AgentLightning, inputs)
}

fn one(records: &[Json]) -> Json {
    only(&store(&[("x.jsonl", &lines(records))]))
}

fn span(id: &str, n: u32, parent: &str, name: &str, from: f64, to: f64, attributes: Json) -> Json {
    let mut value = json!({"rollout_id": "ro-1", "attempt_id": "at-1", "sequence_id": n, "trace_id": "dd547580319ab0312cee07f1def50dad", "span_id": id,
        "parent_id": if parent.is_empty() { Json::Null } else { parent.into() }, "name": name,
        "status": {"status_code": "OK", "description": null}, "events": [], "links": [],
        "start_time": 1_772_359_200.0 + from, "end_time": 1_772_359_200.0 + to, "context": null, "parent": null,
        "resource": {"attributes": {"service.name": "unknown_service", "agentlightning.rollout_id": "ro-1"}, "schema_url": ""}});
    value["attributes"] = attributes;
    value
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
    assert_eq!(events_and_tools(trace), ["91 message solver - -", "92 return solver user -"]);
    assert_eq!((&trace["rewards"], &trace["metrics"]), (&json!({"team": 1}), &json!({"reward.speed": 0.5})));
    assert_eq!(
        (event(trace, "91")["reward"].as_f64(), event(trace, "92")["reward"].as_f64()),
        (Some(0.25), None)
    );
    assert_eq!(trace["costs"]["tokens"], 24.0);
    assert_eq!(fates(&store)["agent_lightning.message"], 1);
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
        found.iter().map(|t| (t["task_id"].as_str().unwrap(), is_partial(t))).collect::<Vec<_>>(),
        [("ro-1", false), ("ro-1", true)]
    );
    assert_eq!(fates(&store)["agent_lightning.rollout"], 1);
}

#[test]
fn times_are_exact_and_missing_parents_are_told() {
    let text = lines(&rollout()).replace("1772359202.0", "1772359202.123456789");
    let trace = documents(&store(&[("x.jsonl", &text)])).remove(0);
    assert!((event(&trace, "91")["t"].as_f64().unwrap() - 2.123_456_789).abs() < 1e-9);
    assert!(is_partial(&one(&rollout()[1..])));
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
    assert!(is_partial(&documents(&store)[0]));
}

#[test]
fn any_prefix_and_any_order_will_do() {
    holds_up(store, &lines(&rollout()));
}

#[test]
fn only_its_own_records_are_taken() {
    let mut plain = rollout().remove(0);
    plain.as_object_mut().unwrap().remove("rollout_id");
    for (text, yes) in [(rollout()[0].to_string(), true), (plain.to_string(), false)] {
        assert_eq!(sniffed(&AgentLightning, &text) == Confidence::Yes, yes, "{text}");
    }
}
