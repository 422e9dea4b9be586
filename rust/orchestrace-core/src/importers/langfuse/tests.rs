use serde_json::{Value as Json, json};

use super::*;
use crate::importers::testing::{
    content_ref, documents, event, events_and_tools, fates, has_edges, holds_up, is_partial, lines, only,
    read_checked, sniffed, with,
};
use crate::store::Store;

fn store(inputs: &[(&str, &str)]) -> Store {
    read_checked(&Langfuse, inputs)
}

fn one(records: &[Json]) -> Json {
    only(&store(&[("x.jsonl", &lines(records))]))
}

fn trace() -> Json {
    json!({"id": "t1", "projectId": "p", "name": "shop", "timestamp": "2026-03-01T10:00:00.000Z", "userId": null,
        "tags": [], "metadata": "{}", "output": "\"done\"", "latency": 9.0})
}

fn observation(id: &str, parent: &str, kind: &str, name: &str, from: u32, to: u32, more: Json) -> Json {
    let time = |s: u32| format!("2026-03-01T10:00:{s:02}.250Z");
    let value = json!({"id": id, "traceId": "t1", "projectId": "p", "type": kind, "name": name, "startTime": time(from),
        "endTime": time(to), "level": "DEFAULT", "statusMessage": null, "metadata": {}, "usageDetails": {}, "costDetails": {},
        "totalCost": 0, "inputUsage": 0, "outputUsage": 0, "totalUsage": 0, "input": null, "output": null,
        "parentObservationId": if parent.is_empty() { Json::Null } else { parent.into() }});
    with(value, more)
}

fn agent(id: &str, parent: &str, name: &str, from: u32, to: u32) -> Json {
    observation(id, parent, "AGENT", name, from, to, json!({}))
}

fn says(id: &str, parent: &str, from: u32, to: u32, text: &str) -> Json {
    let usage = json!({"input": 10, "output": 2, "total": 12});
    let output = json!({"role": "assistant", "content": text});
    observation(
        id,
        parent,
        "GENERATION",
        "chat",
        from,
        to,
        json!({"usageDetails": usage, "costDetails": {"total": 0.5}, "model": "m", "output": output}),
    )
}

fn asks(id: &str, parent: &str, from: u32, to: u32, calls: &[(&str, &str)]) -> Json {
    let calls: Vec<Json> = calls
        .iter()
        .map(|(id, name)| json!({"toolCallId": id, "toolName": name, "input": "{\"q\":1}"}))
        .collect();
    let usage = json!({"input": 20, "output": 3, "total": 23});
    observation(
        id,
        parent,
        "GENERATION",
        "chat",
        from,
        to,
        json!({"usageDetails": usage, "output": Json::from(calls).to_string()}),
    )
}

fn tool(id: &str, parent: &str, name: &str, from: u32, to: u32, call: &str) -> Json {
    let metadata = json!({"attributes": {"gen_ai.tool.call.id": call, "gen_ai.tool.name": name}}).to_string();
    observation(
        id,
        parent,
        "TOOL",
        name,
        from,
        to,
        json!({"metadata": metadata, "input": {"q": 1}, "output": format!("of {id}")}),
    )
}

/// An agent that asks for two tools at once; the results come in the other order.
fn shopping() -> Vec<Json> {
    vec![
        says("g2", "a1", 6, 7, "done"),
        tool("o2", "a1", "price", 2, 3, "c2"),
        agent("a1", "", "buyer", 0, 8),
        asks("g1", "a1", 1, 2, &[("c1", "stock"), ("c2", "price")]),
        tool("o1", "a1", "stock", 2, 5, "c1"),
    ]
}

fn export(observations: &[Json]) -> Json {
    json!({"trace": trace(), "observations": observations})
}

#[test]
fn columns_say_what_happened() {
    let trace = one(&[export(&shopping())]);
    assert_eq!(
        events_and_tools(&trace),
        [
            "c1 tool_call buyer - stock",
            "c2 tool_call buyer - price",
            "o2:r tool_result price - price",
            "o1:r tool_result stock - stock",
            "g2 return buyer user -",
        ]
    );
    has_edges(&trace, &["c1 return o1:r", "c2 return o2:r", "o1:r causal g2", "o2:r causal g2"]);
    assert_eq!(
        (trace["costs"]["tokens"].as_f64(), trace["costs"]["cost_usd"].as_f64()),
        (Some(35.0), Some(0.5))
    );
    assert!(!is_partial(&trace));
    assert!(event(&trace, "c1")["cost_usd"].is_null(), "a price of 0 in a column is no price");
}

#[test]
fn inside_and_beside_are_counted_once() {
    let mut inside = trace();
    let slim = |o: &Json| {
        let mut o = o.clone();
        for key in ["input", "output"] {
            o[key] = Json::Null;
        }
        o["metadata"] = json!("{}");
        o
    };
    inside["observations"] = shopping().iter().map(slim).collect();
    inside["scores"] = json!([]);
    let both = store(&[("x.json", &json!({"trace": inside, "observations": shopping()}).to_string())]);
    assert_eq!(documents(&both), documents(&store(&[("x.json", &export(&shopping()).to_string())])));
    let fates = fates(&both);
    // The trace and its observations; nothing is lost.
    assert_eq!((fates["duplicate"], fates["used"]), (5, 6), "{fates:?}");
}

#[test]
fn pages_and_lines_give_the_same_trace() {
    let mut lines_of_all = vec![trace()];
    lines_of_all.extend(shopping());
    let by_line = documents(&store(&[("x.jsonl", &lines(&lines_of_all))]));
    let page = json!({"data": shopping(), "meta": {"page": 1}});
    let pages = documents(&store(&[
        ("o.json", &page.to_string()),
        ("t.json", &json!({"data": [trace()], "meta": {"page": 1}}).to_string()),
    ]));
    let whole = documents(&store(&[("x.json", &export(&shopping()).to_string())]));
    assert_eq!(by_line, whole);
    assert_eq!(pages, whole);
}

#[test]
fn a_trace_without_observations_is_one_event_and_partial() {
    let mut alone = trace();
    alone["observations"] = json!(["a1", "g1"]);
    alone["scores"] = json!(["s1"]);
    let trace = one(&[json!({"data": [alone], "meta": {"page": 1, "limit": 50}})]);
    assert_eq!(events_and_tools(&trace), ["t1 message shop - -"]);
    assert!(is_partial(&trace));
}

#[test]
fn the_deepest_generation_counts() {
    let mut outer = says("g1", "a1", 1, 3, "done");
    outer["usageDetails"] = json!({"input": 99, "output": 9, "total": 108});
    let mut inner = says("g2", "g1", 1, 2, "");
    inner["output"] = json!("None");
    let trace = one(&[export(&[agent("a1", "", "buyer", 0, 4), outer, inner])]);
    assert_eq!(events_and_tools(&trace), ["g2 return buyer user -"]);
    assert_eq!(trace["costs"]["tokens"], 12.0);
}

#[test]
fn parts_of_usage_lie_inside_or_beside_by_the_total() {
    let usage = |details: Json| {
        let mut g = says("g1", "a1", 1, 2, "x");
        g["usageDetails"] = details;
        let trace = one(&[export(&[agent("a1", "", "buyer", 0, 4), g])]);
        let e = event(&trace, "g1");
        [
            "tokens_in",
            "tokens_out",
            "tokens",
            "tokens_cached",
            "tokens_cache_write",
            "tokens_reasoning",
            "x_reported_tokens",
        ]
        .map(|key| e[key].as_i64())
    };
    let inside = usage(
        json!({"input": 100, "output": 20, "total": 120, "input_cache_read": 60, "output_reasoning": 5}),
    );
    assert_eq!(inside, [Some(100), Some(20), None, Some(60), None, Some(5), None]);
    let beside = usage(
        json!({"input": 40, "output": 15, "total": 120, "input_cache_read": 50, "input_cache_creation": 10, "output_reasoning": 5}),
    );
    assert_eq!(beside, [Some(100), Some(20), None, Some(50), Some(10), Some(5), None]);
    let untold = usage(json!({"input": 40, "output": 15, "cache_read_input_tokens": 60}));
    assert_eq!(untold, [Some(100), Some(15), None, Some(60), None, None, None]);
    // Gemini's total holds thoughts that are nowhere else.
    assert_eq!(
        usage(json!({"input": 10, "output": 3, "total": 20})),
        [Some(10), Some(3), None, None, None, None, Some(20)]
    );
    assert_eq!(usage(json!({"total": 20})), [None, None, Some(20), None, None, None, None]);
    assert_eq!(usage(json!({})), [None; 7]);
}

#[test]
fn older_exports_hide_agents_and_tools_in_spans() {
    let attributes = |kind: &str| json!({"metadata": json!({"attributes": {"openinference.span.kind": kind}}).to_string()});
    let pydantic = json!({"metadata": {"attributes": {"agent_name": "writer", "final_result": "done"}}});
    let trace = one(&[export(&[
        observation("s0", "", "SPAN", "main", 0, 9, json!({})),
        observation("s1", "s0", "SPAN", "Planner.run", 0, 9, attributes("AGENT")),
        asks("g1", "s1", 1, 2, &[("", "search")]),
        observation("s2", "s1", "SPAN", "search", 2, 3, attributes("TOOL")),
        observation("s3", "s1", "SPAN", "writer run", 4, 6, pydantic),
        says("g2", "s3", 4, 5, "done"),
        says("g3", "s1", 7, 8, "all"),
    ])]);
    assert_eq!(
        events_and_tools(&trace),
        [
            "g1:d orchestrator_decision Planner - -",
            "g1:c0 tool_call Planner - search",
            "s2:r tool_result search - search",
            "s3:s spawn Planner writer -",
            "g2 return writer Planner -",
            "g3 aggregate Planner user -",
        ]
    );
}

#[test]
fn nodes_of_a_graph_are_who_works_in_them() {
    let node = |name: &str| json!({"metadata": {"langgraph_node": name, "langgraph_step": 1}});
    let message = json!({"type": "tool", "name": "search", "tool_call_id": "c1", "content": "found"});
    let trace = one(&[export(&[
        observation("s0", "", "SPAN", "LangGraph", 0, 9, json!({})),
        observation("s1", "s0", "SPAN", "agent", 1, 3, node("agent")),
        asks("g1", "s1", 1, 2, &[("c1", "search")]),
        observation("s2", "s1", "SPAN", "should_continue", 2, 3, node("agent")),
        observation("s3", "s0", "SPAN", "tools", 3, 4, node("tools")),
        observation(
            "s4",
            "s3",
            "SPAN",
            "search",
            3,
            4,
            json!({"metadata": {"langgraph_node": "tools"}, "output": message.to_string()}),
        ),
        observation("s5", "s0", "SPAN", "agent", 5, 7, node("agent")),
        says("g2", "s5", 5, 6, "done"),
    ])]);
    assert_eq!(
        events_and_tools(&trace),
        ["c1 tool_call agent - search", "s4:r tool_result search - search", "g2 return agent user -"]
    );
}

#[test]
fn steps_of_an_emitter_are_one_piece_of_work() {
    let step = |target: &str, kind: &str| json!({"metadata": {"attributes": {"target": target, "openinference.span.kind": kind}}});
    let mut start = asks("g1", "a1", 1, 9, &[]);
    start["name"] = json!("backend.chat.start-4");
    start["output"] = Json::Null;
    start["metadata"] = step("backend.chat.start", "LLM")["metadata"].clone();
    let mut success = says("g2", "a1", 3, 9, "done");
    success["name"] = json!("backend.chat.success-4");
    success["usageDetails"] = json!({});
    success["costDetails"] = json!({});
    success["metadata"] = step("backend.chat.success", "LLM")["metadata"].clone();
    let mut end = step("tool.search.wiki.success", "TOOL");
    end["output"] = json!("found");
    let store = store(&[(
        "x.json",
        &export(&[
            agent("a1", "", "planner", 0, 9),
            observation("b1", "a1", "SPAN", "agent.react.start-4", 0, 9, step("agent.react.start", "AGENT")),
            observation(
                "o1",
                "b1",
                "SPAN",
                "tool.search.wiki.start-2",
                1,
                9,
                step("tool.search.wiki.start", "TOOL"),
            ),
            observation("o2", "b1", "SPAN", "tool.search.wiki.success-2", 2, 9, end),
            observation(
                "o3",
                "b1",
                "SPAN",
                "tool.search.wiki.finish-2",
                2,
                9,
                step("tool.search.wiki.finish", "TOOL"),
            ),
            start,
            success,
        ])
        .to_string(),
    )]);
    let trace = &documents(&store)[0];
    assert_eq!(events_and_tools(trace)[..2], ["o1 tool_call planner - wiki", "o1:r tool_result wiki - wiki"]);
    assert_eq!(event(trace, "o1:r")["content_ref"], content_ref("found"));
    let response = event(trace, "g1");
    assert_eq!((&response["type"], &response["duration_s"]), (&json!("return"), &json!(2)));
    assert_eq!(trace["costs"]["tokens"], 23.0);
    assert_eq!(fates(&store)["langfuse.span"], 2);
}

#[test]
fn scores_are_metrics_labels_and_scores_of_events_but_no_rewards() {
    let score = |id: &str, name: &str, value: Json, on: Json, kind: &str| {
        json!({"id": id, "traceId": "t1", "name": name, "value": value, "stringValue": Json::Null, "dataType": kind, "source": "EVAL",
            "observationId": on, "timestamp": "2026-03-01T11:00:00Z"})
    };
    let mut correction = score("s2", "toxicity", json!(0.25), Json::Null, "NUMERIC");
    correction["timestamp"] = json!("2026-03-02T11:00:00Z");
    let mut tone = score("s4", "tone", Json::Null, json!("o1"), "CATEGORICAL");
    tone["stringValue"] = json!("rude");
    let mut document = export(&shopping());
    document["trace"]["scores"] = json!([
        score("s1", "toxicity", json!(0.75), Json::Null, "NUMERIC"),
        correction,
        score("s3", "helpful", json!(0.5), json!("g2"), "NUMERIC"),
        tone,
        score("s5", "success", json!(1), Json::Null, "BOOLEAN"),
    ]);
    let store = store(&[("x.json", &document.to_string())]);
    let trace = &documents(&store)[0];
    assert_eq!(trace["metrics"], json!({"success": 1, "toxicity": 0.25}));
    assert_eq!(trace["rewards"], json!({}));
    assert_eq!(event(trace, "g2")["score"], 0.5);
    assert_eq!(
        store.table("labels").unwrap().iter().map(arrow_array::RecordBatch::num_rows).sum::<usize>(),
        3
    );
}

#[test]
fn what_failed_says_how() {
    let mut records = shopping();
    records[1]["level"] = json!("ERROR");
    records[1]["statusMessage"] = json!("TimeoutError: too slow");
    let trace = one(&[export(&records)]);
    let result = event(&trace, "o2:r");
    assert_eq!((&result["ok"], &result["x_error_type"]), (&json!(false), &json!("TimeoutError")));
}

#[test]
fn guardrails_retrievers_and_the_rest() {
    let store = store(&[(
        "x.json",
        &export(&[
            agent("a1", "", "buyer", 0, 9),
            observation("r1", "a1", "RETRIEVER", "docs", 0, 1, json!({"output": ["x"]})),
            observation("s1", "a1", "GUARDRAIL", "safe", 1, 2, json!({})),
            observation("e1", "a1", "EVALUATOR", "judge", 7, 8, json!({})),
            observation("v1", "a1", "EVENT", "tick", 3, 3, json!({"endTime": null})),
            observation("m1", "a1", "EMBEDDING", "embed", 3, 3, json!({})),
            observation(
                "h1",
                "a1",
                "SPAN",
                "GET /",
                3,
                3,
                json!({"metadata": {"attributes": {"http.method": "GET"}}}),
            ),
            says("g1", "a1", 4, 5, "done"),
        ])
        .to_string(),
    )]);
    let trace = &documents(&store)[0];
    assert_eq!(
        events_and_tools(trace),
        [
            "r1 tool_call buyer - docs",
            "r1:r tool_result docs - docs",
            "s1 safety_event buyer - -",
            "g1 return buyer user -"
        ]
    );
    assert_eq!(fates(&store)["langfuse.span"], 3);
}

#[test]
fn agents_below_agents_at_any_depth() {
    let trace = one(&[export(&[
        agent("a1", "", "lead", 0, 20),
        agent("a2", "a1", "worker", 1, 15),
        agent("a3", "a2", "helper", 2, 10),
        says("g3", "a3", 3, 4, "low"),
        says("g2", "a2", 11, 12, "middle"),
        says("g1", "a1", 16, 17, "high"),
    ])]);
    has_edges(&trace, &["a2:s spawn a3:s", "a3:s spawn g3", "g3 return g2", "g2 aggregate g1"]);
}

#[test]
fn missing_parents_open_ends_and_skew() {
    let mut records = shopping();
    records.remove(2);
    assert!(is_partial(&one(&[export(&records)])));
    let mut records = shopping();
    records[2]["endTime"] = Json::Null;
    let trace = one(&[export(&records)]);
    assert_eq!(event(&trace, "g2")["type"], "message");
    assert!(is_partial(&trace));
    let mut records = shopping();
    for at in [1, 4] {
        records[at]["startTime"] = json!("2026-03-01T09:00:00Z");
    }
    let skewed = one(&[export(&records)]);
    assert!(skewed["events"].as_array().unwrap().iter().all(|e| e["t"].as_f64().unwrap() >= 0.0));
}

#[test]
fn the_version_that_ended_counts() {
    let mut early = shopping();
    early[0]["endTime"] = Json::Null;
    early[0]["output"] = Json::Null;
    let both = store(&[
        ("late.json", &export(&shopping()).to_string()),
        ("early.json", &export(&early).to_string()),
    ]);
    assert_eq!(documents(&both), documents(&store(&[("x.json", &export(&shopping()).to_string())])));
}

#[test]
fn what_lacks_an_id_is_quarantined_and_a_cut_file_keeps_the_rest() {
    let mut records = shopping();
    records[1].as_object_mut().unwrap().remove("id");
    let mut lost = records.remove(4);
    lost["traceId"] = Json::Null;
    records.push(lost);
    let mut text = lines(&[trace()]) + &lines(&records);
    text.push_str("{\"id\": \"g9\", \"traceId\": \"t1\", \"type\": \"GENER");
    let store = store(&[("x.jsonl", &text)]);
    assert_eq!(store.records_quarantined(), 3);
    assert!(is_partial(&documents(&store)[0]));
    assert_eq!(store_of("").n_traces() + store_of("\n\n").n_traces(), 0);
}

fn store_of(text: &str) -> Store {
    store(&[("x.jsonl", text)])
}

#[test]
fn long_lines_and_odd_values_are_read() {
    let mut records = shopping();
    records[0]["output"] = json!("x".repeat(5 << 20));
    records[0]["usageDetails"] = json!({"input": "many", "output": -3});
    records[0]["startTime"] = json!(7);
    let trace = one(&[export(&records)]);
    assert_eq!(event(&trace, "g2")["tokens_in"], Json::Null);
    let odd = export(&shopping()).to_string().replace("\"buyer\"", "\"b\\ud800\"");
    let store = store_of(&odd);
    assert_eq!(documents(&store)[0]["events"][0]["agent"], "b\u{fffd}");
}

#[test]
fn any_prefix_and_any_order_will_do() {
    let mut records = vec![trace()];
    records.extend(shopping());
    holds_up(store, &lines(&records));
}

#[test]
fn only_its_own_records_are_taken() {
    for (text, yes) in [
        (export(&shopping()).to_string(), true),
        (shopping()[0].to_string(), true),
        (trace().to_string(), true),
        (json!({"data": shopping(), "meta": {}}).to_string(), true),
        (
            json!({"id": "x", "trace_id": "t", "run_type": "llm", "dotted_order": "d", "start_time": "s"})
                .to_string(),
            false,
        ),
        (json!({"traceId": "t", "spanId": "s", "name": "n", "attributes": {}}).to_string(), false),
        (json!({"data": [{"traceID": "t", "spans": []}]}).to_string(), false),
        (json!({"trace": {"resourceSpans": []}}).to_string(), false),
    ] {
        assert_eq!(sniffed(&Langfuse, &text) == Confidence::Yes, yes, "{text}");
    }
}
