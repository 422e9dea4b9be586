use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::*;
use crate::importers::testing::{
    documents, event, events_and_tools, fates, has_edges, holds_up, is_partial, lines, only, read_checked,
    sniffed,
};
use crate::store::Store;

fn store(inputs: &[(&str, &str)]) -> Store {
    read_checked(&OpenAiAgents, inputs)
}

fn one(records: &[Json]) -> Json {
    only(&store(&[("x.jsonl", &lines(records))]))
}

fn trace() -> Json {
    json!({"object": "trace", "id": "trace_1", "workflow_name": "support", "group_id": "chat_9", "metadata": {}})
}

fn span(id: &str, parent: &str, from: u32, to: u32, data: Json) -> Json {
    let time = |s: u32| format!("2026-03-01T10:00:{s:02}.500000+00:00");
    let parent = if parent.is_empty() { Json::Null } else { parent.into() };
    let mut value = json!({"object": "trace.span", "id": id, "trace_id": "trace_1", "parent_id": parent, "started_at": time(from),
        "ended_at": time(to), "error": null});
    value["span_data"] = data;
    value
}

fn agent(id: &str, parent: &str, from: u32, to: u32, name: &str) -> Json {
    span(
        id,
        parent,
        from,
        to,
        json!({"type": "agent", "name": name, "handoffs": [], "tools": [], "output_type": "str"}),
    )
}

fn says(id: &str, parent: &str, from: u32, to: u32, text: &str) -> Json {
    let output = json!([{"role": "assistant", "content": text}]);
    let usage = json!({"input_tokens": 10, "output_tokens": 2});
    span(
        id,
        parent,
        from,
        to,
        json!({"type": "generation", "input": [], "output": output, "model": "m", "model_config": {}, "usage": usage}),
    )
}

fn asks(id: &str, parent: &str, from: u32, to: u32, calls: &[(&str, &str)]) -> Json {
    let calls: Vec<Json> = calls.iter().map(|(id, name)| {
        json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{\"q\":1}"}})
    }).collect();
    let output = json!([{"role": "assistant", "content": null, "tool_calls": calls}]);
    let usage = json!({"prompt_tokens": 20, "completion_tokens": 3, "total_tokens": 23});
    span(
        id,
        parent,
        from,
        to,
        json!({"type": "generation", "input": [], "output": output, "model": "m", "usage": usage}),
    )
}

fn function(id: &str, parent: &str, from: u32, to: u32, name: &str) -> Json {
    span(
        id,
        parent,
        from,
        to,
        json!({"type": "function", "name": name, "input": "{\"q\":1}", "output": format!("of {id}"), "mcp_data": null}),
    )
}

fn handoff(id: &str, parent: &str, at: u32, from: &str, to: Option<&str>) -> Json {
    span(id, parent, at, at, json!({"type": "handoff", "from_agent": from, "to_agent": to}))
}

/// Triage asks a tool, hands over, and the other one answers.
fn handed_over() -> Vec<Json> {
    vec![
        trace(),
        asks("g1", "a1", 1, 2, &[("c1", "lookup")]),
        function("f1", "a1", 2, 3, "lookup"),
        asks("g2", "a1", 3, 4, &[("c2", "transfer_to_refund_agent")]),
        handoff("h1", "a1", 4, "Triage", Some("Refund agent")),
        agent("a1", "", 1, 5, "Triage"),
        says("g3", "a2", 6, 7, "done"),
        agent("a2", "", 5, 8, "Refund agent"),
    ]
}

#[test]
fn a_handoff_is_a_decision_and_a_message_to_who_stands_beside() {
    let trace = one(&handed_over());
    assert_eq!(
        events_and_tools(&trace),
        [
            "c1 tool_call Triage - lookup",
            "f1:r tool_result lookup - lookup",
            "g2:d orchestrator_decision Triage - -",
            "c2 message Triage Refund agent -",
            "g3 return Refund agent user -",
        ]
    );
    has_edges(&trace, &["c1 return f1:r", "f1:r causal g2:d", "c2 message g3"]);
    assert_eq!(trace["costs"]["tokens"], 58.0);
    assert!(!is_partial(&trace));
}

#[test]
fn a_conversation_that_comes_back_is_with_the_same_agent() {
    let mut records = handed_over();
    records[6] = asks("g3", "a2", 6, 7, &[("c3", "transfer_to_triage")]);
    records.push(handoff("h2", "a2", 7, "Refund agent", Some("Triage")));
    records.push(says("g4", "a3", 9, 10, "bye"));
    records.push(agent("a3", "", 9, 11, "Triage"));
    let trace = one(&records);
    let agents: BTreeSet<&str> =
        trace["events"].as_array().unwrap().iter().map(|e| e["agent"].as_str().unwrap()).collect();
    assert_eq!(agents, BTreeSet::from(["Refund agent", "Triage", "lookup"]));
    assert_eq!(event(&trace, "c3")["to"], "Triage");
    assert_eq!(
        (&event(&trace, "g4")["type"], &event(&trace, "g4")["to"]),
        (&json!("return"), &json!("user"))
    );
}

#[test]
fn a_handoff_that_failed_moves_nobody() {
    let mut records = handed_over();
    records[4] = handoff("h1", "a1", 4, "Triage", None);
    records.truncate(6);
    let trace = one(&records);
    assert!(trace["events"].as_array().unwrap().iter().all(|e| e["agent"] != "Refund agent"));
    let result = event(&trace, "h1:r");
    assert_eq!((&result["type"], &result["ok"]), (&json!("tool_result"), &json!(false)));
}

#[test]
fn an_agent_in_a_function_is_spawned_by_it_each_time() {
    let trace = one(&[
        trace(),
        asks("g1", "a1", 1, 2, &[("c1", "research"), ("c2", "research")]),
        says("g2", "a2", 3, 4, "one"),
        agent("a2", "f1", 3, 4, "Researcher"),
        function("f1", "a1", 2, 5, "research"),
        says("g3", "a3", 3, 6, "two"),
        agent("a3", "f2", 3, 6, "Researcher"),
        function("f2", "a1", 2, 7, "research"),
        says("g4", "a1", 8, 9, "both"),
        agent("a1", "", 1, 9, "Lead"),
    ]);
    assert_eq!(
        events_and_tools(&trace),
        [
            "g1:d orchestrator_decision Lead - -",
            "c1:s spawn Lead Researcher -",
            "c2:s spawn Lead Researcher#2 -",
            "g2 return Researcher Lead -",
            "g3 return Researcher#2 Lead -",
            "g4 aggregate Lead user -",
        ]
    );
    has_edges(&trace, &["c1:s spawn g2", "c2:s spawn g3", "g2 aggregate g4", "g3 aggregate g4"]);
}

#[test]
fn what_the_sdk_adds_is_structure() {
    let turn = json!({"sdk_span_type": "turn", "turn": 1, "agent_name": "Lead", "usage": {"input_tokens": 99, "output_tokens": 9}});
    let store = store(&[(
        "x.jsonl",
        &lines(&[
            trace(),
            span(
                "k1",
                "",
                0,
                9,
                json!({"type": "custom", "name": "task", "data": {"sdk_span_type": "task", "name": "run"}}),
            ),
            agent("a1", "k1", 1, 8, "Lead"),
            span("k2", "a1", 1, 7, json!({"type": "custom", "name": "turn", "data": turn})),
            span(
                "r1",
                "k2",
                1,
                2,
                json!({"type": "response", "response_id": "resp_1", "usage": {
            "input_tokens": 100, "output_tokens": 7, "total_tokens": 107,
            "input_tokens_details": {"cached_tokens": 60}, "output_tokens_details": {"reasoning_tokens": 4}}}),
            ),
            span("m1", "a1", 0, 1, json!({"type": "mcp_tools", "server": "s", "result": ["x"]})),
            span("s1", "a1", 2, 3, json!({"type": "guardrail", "name": "safe", "triggered": true})),
            span("z1", "a1", 2, 3, json!({"type": "speech", "input": "x"})),
        ]),
    )]);
    let trace = &documents(&store)[0];
    assert_eq!(
        events_and_tools(trace),
        ["r1 message Lead - -", "s1 safety_event Lead - -", "a1:r return Lead user -"]
    );
    let response = event(trace, "r1");
    assert_eq!(
        ["tokens_in", "tokens_out", "tokens_cached", "tokens_reasoning"].map(|key| response[key].as_i64()),
        [100, 7, 60, 4].map(Some)
    );
    assert_eq!(event(trace, "s1")["x_triggered"], true);
    assert_eq!(trace["costs"]["tokens"], 107.0);
    let fates = fates(&store);
    let told = ["custom", "mcp_tools", "speech"].map(|kind| fates[&format!("openai_agents.{kind}")]);
    assert_eq!(told, [2, 1, 1]);
}

#[test]
fn what_failed_says_how() {
    let mut tool = function("f1", "a1", 2, 3, "lookup");
    tool["error"] =
        json!({"message": "Error running tool", "data": {"tool_name": "lookup", "error": "ValueError: no"}});
    let trace =
        one(&[trace(), asks("g1", "a1", 1, 2, &[("c1", "lookup")]), tool, agent("a1", "", 1, 5, "Lead")]);
    let result = event(&trace, "f1:r");
    assert_eq!((&result["ok"], &result["x_error_type"]), (&json!(false), &json!("ValueError")));
}

#[test]
fn a_missing_parent_makes_the_trace_partial() {
    let mut records = handed_over();
    records.remove(5);
    assert!(is_partial(&one(&records)));
}

#[test]
fn batches_repeats_and_broken_lines_are_counted() {
    let batch = json!({"data": [trace(), agent("a1", "", 1, 5, "Lead"), says("g1", "a1", 1, 2, "x")]});
    let mut again = agent("a1", "", 1, 5, "Lead");
    again["span_data"]["tools"] = json!(["other"]);
    let lost = json!({"object": "trace.span", "id": "q", "span_data": {"type": "agent"}});
    let nameless = json!({"object": "trace.span", "trace_id": "trace_1", "span_data": {"type": "agent"}});
    let text =
        lines(&[batch, says("g1", "a1", 1, 2, "x"), again, lost, nameless]) + "{\"object\": \"trace.sp";
    let store = store(&[("x.jsonl", &text)]);
    assert_eq!(store.records_quarantined(), 3);
    // a span with its id, its times and its parent is the same one, whatever else is said of it
    assert_eq!(fates(&store)["duplicate"], 2);
    assert!(is_partial(&documents(&store)[0]));
}

#[test]
fn times_may_be_missing_and_clocks_may_disagree() {
    let mut records = handed_over();
    records[2]["started_at"] = Json::Null;
    records[2]["ended_at"] = Json::Null;
    records[6]["started_at"] = json!("2026-03-01T09:00:00+00:00");
    let trace = one(&records);
    assert_eq!(trace["events"].as_array().unwrap().len(), 5);
    assert!(trace["events"].as_array().unwrap().iter().all(|e| e["t"].as_f64().unwrap() >= 0.0));
}

#[test]
fn a_long_line_and_odd_text_are_read() {
    let long = "x".repeat(5 << 20);
    let text = lines(&[trace(), says("g1", "a1", 1, 2, &long), agent("a1", "", 1, 3, "Lead")])
        .replace("\"Lead\"", "\"Le\\ud800d\"");
    let store = store(&[("x.jsonl", &text)]);
    assert_eq!(documents(&store)[0]["events"][0]["agent"], "Le\u{fffd}d");
    assert!(store.table("findings").is_ok_and(|batches| batches.iter().any(|batch| batch.num_rows() > 0)));
}

#[test]
fn any_prefix_and_any_order_will_do() {
    holds_up(store, &lines(&handed_over()));
}

#[test]
fn only_its_own_records_are_taken() {
    for (text, yes) in [
        (trace().to_string(), true),
        (handed_over()[1].to_string(), true),
        (json!({"object": "chat.completion", "id": "x"}).to_string(), false),
        (json!({"object": "trace", "spans": []}).to_string(), false),
    ] {
        assert_eq!(sniffed(&OpenAiAgents, &text) == Confidence::Yes, yes, "{text}");
    }
}
