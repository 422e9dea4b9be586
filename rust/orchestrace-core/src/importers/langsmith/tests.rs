use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::*;
use crate::importers::testing::{
    documents, event, events_and_tools, fates, has_edges, holds_up, is_partial, lines, only, read_checked,
    sniffed, with,
};
use crate::store::Store;

fn store(inputs: &[(&str, &str)]) -> Store {
    read_checked(&LangSmith, inputs)
}

fn one(records: &[Json]) -> Json {
    only(&store(&[("x.jsonl", &lines(records))]))
}

const ROOT: &str = "r0";

/// A run, by its ancestors from the root down, first and last second.
fn run(id: &str, above: &[&str], kind: &str, name: &str, from: u32, to: u32, more: Json) -> Json {
    let order: Vec<String> =
        above.iter().chain([&id]).map(|id| format!("20260301T1000{from:02}000000Z{id}")).collect();
    let value = json!({"id": id, "trace_id": ROOT, "parent_run_id": above.last(), "dotted_order": order.join("."), "name": name,
        "run_type": kind, "start_time": format!("2026-03-01T10:00:{from:02}.000000"), "end_time": format!("2026-03-01T10:00:{to:02}.500000"),
        "inputs": {}, "outputs": {}, "error": null, "status": "success", "extra": {"metadata": {}}, "tags": [],
        "prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0, "total_cost": null});
    with(value, more)
}

fn tokens(read: u32, written: u32) -> Json {
    json!({"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written})
}

fn says(id: &str, above: &[&str], from: u32, to: u32, text: &str) -> Json {
    let message = json!({"lc": 1, "type": "constructor", "id": ["langchain", "schema", "AIMessage"], "kwargs": {"content": text, "type": "ai"}});
    let mut more = tokens(10, 2);
    more["outputs"] =
        json!({"generations": [[{"text": text, "message": message}]], "llm_output": {"model_name": "m"}});
    run(id, above, "llm", "ChatOpenAI", from, to, more)
}

fn asks(id: &str, above: &[&str], from: u32, to: u32, calls: &[(&str, &str)]) -> Json {
    let calls: Vec<Json> = calls
        .iter()
        .map(|(id, name)| json!({"id": id, "name": name, "args": {"q": 1}, "type": "tool_call"}))
        .collect();
    let message = json!({"kwargs": {"content": "", "tool_calls": calls, "type": "ai"}});
    let mut more = tokens(20, 3);
    more["outputs"] = json!({"generations": [[{"text": "", "message": message}]]});
    run(id, above, "llm", "ChatOpenAI", from, to, more)
}

fn tool(id: &str, above: &[&str], name: &str, from: u32, to: u32, call: &str) -> Json {
    let output = json!({"type": "tool", "name": name, "tool_call_id": call, "content": format!("of {id}")});
    run(
        id,
        above,
        "tool",
        name,
        from,
        to,
        json!({"inputs": {"input": "{'q': 1}"}, "outputs": {"output": output}}),
    )
}

fn node(id: &str, above: &[&str], name: &str, from: u32, to: u32) -> Json {
    run(
        id,
        above,
        "chain",
        name,
        from,
        to,
        json!({"extra": {"metadata": {"langgraph_node": name, "langgraph_step": 1}}}),
    )
}

/// A graph of one agent with its tools; the chain's totals say everything again.
fn graph() -> Vec<Json> {
    vec![
        run(ROOT, &[], "chain", "LangGraph", 0, 9, tokens(30, 5)),
        node("n1", &[ROOT], "agent", 1, 3),
        run("p1", &[ROOT, "n1"], "chain", "RunnableSequence", 1, 3, json!({})),
        asks("g1", &[ROOT, "n1", "p1"], 1, 2, &[("c1", "stock"), ("c2", "price")]),
        node("n2", &[ROOT], "tools", 3, 6),
        tool("o2", &[ROOT, "n2"], "price", 3, 4, "c2"),
        tool("o1", &[ROOT, "n2"], "stock", 3, 5, "c1"),
        node("n3", &[ROOT], "agent", 7, 9),
        says("g2", &[ROOT, "n3"], 7, 8, "done"),
        run("q1", &[ROOT, "n3"], "prompt", "ChatPromptTemplate", 7, 7, json!({})),
    ]
}

#[test]
fn a_graph_of_one_agent_is_that_agent() {
    let store = store(&[("x.jsonl", &lines(&graph()))]);
    let trace = &documents(&store)[0];
    assert_eq!(
        events_and_tools(trace),
        [
            "c1 tool_call LangGraph - stock",
            "c2 tool_call LangGraph - price",
            "o2:r tool_result price - price",
            "o1:r tool_result stock - stock",
            "g2 return LangGraph user -",
        ]
    );
    has_edges(trace, &["c1 return o1:r", "c2 return o2:r", "o1:r causal g2"]);
    assert_eq!((trace["costs"]["tokens"].as_f64(), &event(trace, "g2")["model"]), (Some(35.0), &json!("m")));
    assert!(!is_partial(trace));
    let fates = fates(&store);
    assert_eq!((fates["langsmith.chain"], fates["langsmith.prompt"]), (4, 1), "{fates:?}");
}

#[test]
fn nodes_of_a_team_are_agents_and_are_visited_again() {
    let trace = one(&[
        run(ROOT, &[], "chain", "LangGraph", 0, 20, json!({})),
        node("n1", &[ROOT], "writer", 1, 3),
        says("g1", &[ROOT, "n1"], 1, 2, "draft"),
        node("n2", &[ROOT], "critic", 4, 6),
        says("g2", &[ROOT, "n2"], 4, 5, "no"),
        node("n3", &[ROOT], "writer", 7, 9),
        says("g3", &[ROOT, "n3"], 7, 8, "better"),
    ]);
    let list = trace["events"].as_array().unwrap();
    let agents: BTreeSet<&str> = list.iter().map(|e| e["agent"].as_str().unwrap()).collect();
    assert_eq!(agents, BTreeSet::from(["LangGraph", "critic", "writer"]));
    let spawned: Vec<&str> =
        list.iter().filter(|e| e["type"] == "spawn").map(|e| e["to"].as_str().unwrap()).collect();
    assert_eq!(spawned[..2], ["writer", "critic"]);
    assert_eq!(
        (&event(&trace, "g3")["type"], &event(&trace, "g3")["to"]),
        (&json!("return"), &json!("LangGraph"))
    );
}

#[test]
fn a_graph_within_a_graph_is_spawned() {
    let trace = one(&[
        run(ROOT, &[], "chain", "LangGraph", 0, 20, json!({})),
        node("n1", &[ROOT], "researcher", 1, 9),
        node("n2", &[ROOT, "n1"], "agent", 1, 8),
        says("g1", &[ROOT, "n1", "n2"], 2, 3, "facts"),
        node("n3", &[ROOT], "agent", 10, 12),
        says("g2", &[ROOT, "n3"], 10, 11, "answer"),
    ]);
    has_edges(&trace, &["n1:s spawn g1", "g1 aggregate g2"]);
    assert_eq!(event(&trace, "g1")["agent"], "researcher");
    assert_eq!(event(&trace, "g2")["type"], "aggregate");
}

#[test]
fn the_order_gives_parents_that_runs_do_not() {
    let mut records = graph();
    for record in &mut records {
        record.as_object_mut().unwrap().remove("parent_run_id");
    }
    assert_eq!(one(&records), one(&graph()));
    // Without a run in the middle what it held is of the nearest one above.
    let mut records = graph();
    records.remove(2);
    let trace = one(&records);
    assert!(is_partial(&trace));
    assert_eq!(events_and_tools(&trace), events_and_tools(&one(&graph())));
}

#[test]
fn trees_pages_and_updates_give_the_same_trace() {
    let whole = one(&graph());
    assert_eq!(one(&[json!({"runs": graph()})]), whole);

    let mut tree = graph();
    for run in &mut tree {
        run["child_runs"] = json!([]);
        for key in ["parent_run_id", "trace_id", "dotted_order"] {
            if run["id"] != ROOT {
                run.as_object_mut().unwrap().remove(key);
            }
        }
    }
    let put = |tree: &mut Vec<Json>, child: usize, parent: usize| {
        let child = tree[child].clone();
        tree[parent]["child_runs"].as_array_mut().unwrap().push(child);
    };
    for (child, parent) in [(3, 2), (2, 1), (5, 4), (6, 4), (8, 7), (9, 7), (1, 0), (4, 0), (7, 0)] {
        put(&mut tree, child, parent);
    }
    assert_eq!(one(&tree[..1]), whole);

    let halves: Vec<Json> = graph()
        .into_iter()
        .flat_map(|run| {
            let mut begun = run.clone();
            let mut over = json!({});
            for key in ["outputs", "end_time", "status", "prompt_tokens", "completion_tokens", "total_tokens"]
            {
                over[key] = begun.as_object_mut().unwrap().remove(key).unwrap();
            }
            for key in ["id", "trace_id", "dotted_order"] {
                over[key] = run[key].clone();
            }
            begun["status"] = json!("pending");
            [begun, over]
        })
        .collect();
    assert_eq!(one(&halves), whole);
    let store = store(&[("x.jsonl", &lines(&[halves.clone(), graph()].concat()))]);
    assert_eq!(documents(&store), [whole]);
    assert_eq!(fates(&store).values().sum::<u64>(), 30);
}

#[test]
fn pending_runs_are_open() {
    let mut records = graph();
    records[0]["end_time"] = Json::Null;
    records[0]["status"] = json!("pending");
    let trace = one(&records);
    assert!(is_partial(&trace));
    assert_eq!(event(&trace, "g2")["type"], "message");
}

#[test]
fn handoffs_between_agents_of_a_team() {
    let trace = one(&[
        run(ROOT, &[], "chain", "main", 0, 20, json!({})),
        run("a1", &[ROOT], "chain", "alice", 1, 5, json!({"tags": ["agent"]})),
        asks("g1", &[ROOT, "a1"], 1, 2, &[("c1", "transfer_to_bob")]),
        tool("o1", &[ROOT, "a1"], "transfer_to_bob", 2, 3, "c1"),
        run("a2", &[ROOT], "chain", "bob", 6, 9, json!({"extra": {"metadata": {"lc_agent_name": "bob"}}})),
        says("g2", &[ROOT, "a2"], 6, 7, "done"),
    ]);
    assert_eq!(
        events_and_tools(&trace),
        ["g1:d orchestrator_decision alice - -", "c1 message alice bob -", "g2 return bob user -"]
    );
}

#[test]
fn usage_of_messages_and_their_cache() {
    let mut record = says("g1", &[ROOT], 1, 2, "x");
    record["prompt_tokens"] = json!(0);
    record["total_tokens"] = json!(0);
    record["total_cost"] = json!("0.25");
    record["outputs"]["generations"][0][0]["message"]["kwargs"]["usage_metadata"] = json!({"input_tokens": 50, "output_tokens": 9,
        "total_tokens": 59, "input_token_details": {"cache_read": 30, "cache_creation": 5}, "output_token_details": {"reasoning": 4}});
    let trace = one(&[run(ROOT, &[], "chain", "AgentExecutor", 0, 9, json!({})), record]);
    let e = event(&trace, "g1");
    let told = ["tokens_in", "tokens_out", "tokens_cached", "tokens_cache_write", "tokens_reasoning"]
        .map(|key| e[key].as_i64());
    assert_eq!((told, e["cost_usd"].as_f64()), ([50, 9, 30, 5, 4].map(Some), Some(0.25)));
}

#[test]
fn feedback_is_metric_label_or_nothing() {
    let mut records = graph();
    records[0]["feedback_stats"] = json!({"helpful": {"n": 2, "avg": 0.5}, "note": {"n": 1, "avg": null}});
    records[3]["feedback_stats"] = json!({"style": {"n": 1, "avg": 1.0}});
    records.push(json!({"id": "f1", "trace_id": ROOT, "run_id": "o1", "key": "safe", "score": null, "value": "no", "feedback_source": {"type": "model"}}));
    let store = store(&[("x.jsonl", &lines(&records))]);
    let trace = &documents(&store)[0];
    assert_eq!((&trace["metrics"], &trace["rewards"]), (&json!({"helpful": 0.5}), &json!({})));
    assert_eq!(
        store.table("labels").unwrap().iter().map(arrow_array::RecordBatch::num_rows).sum::<usize>(),
        2
    );
}

#[test]
fn what_failed_says_how() {
    let mut records = graph();
    records[5]["error"] = json!("ToolException('no')Traceback (most recent call last)");
    records[5]["status"] = json!("error");
    let trace = one(&records);
    let result = event(&trace, "o2:r");
    assert_eq!((&result["ok"], &result["x_error_type"]), (&json!(false), &json!("ToolException")));
}

#[test]
fn times_that_are_missing_are_those_of_the_order() {
    let mut records = graph();
    for record in &mut records {
        record["start_time"] = Json::Null;
    }
    assert_eq!(one(&records), one(&graph()));
}

#[test]
fn what_lacks_an_id_is_quarantined_and_a_cut_file_keeps_the_rest() {
    let mut nameless = graph().remove(5);
    nameless.as_object_mut().unwrap().remove("id");
    let text = lines(&graph())
        + &lines(&[nameless, json!({"id": "z", "run_type": "llm", "parent_run_id": "y"})])
        + "{\"id\": \"g9\", \"run_ty";
    let store = store(&[("x.jsonl", &text)]);
    assert_eq!(store.records_quarantined(), 3);
    assert!(is_partial(&documents(&store)[0]));
}

#[test]
fn a_long_line_and_a_cycle_are_read() {
    let mut records = graph();
    records[8] = says("g2", &[ROOT, "n3"], 7, 8, &"x".repeat(5 << 20));
    records.push(run("y1", &["y2"], "chain", "loop", 1, 2, json!({})));
    records.push(run("y2", &["y1"], "chain", "loop", 1, 2, json!({})));
    assert_eq!(one(&records)["events"].as_array().unwrap().len(), 5);
}

#[test]
fn any_prefix_and_any_order_will_do() {
    holds_up(store, &lines(&graph()));
}

#[test]
fn only_its_own_records_are_taken() {
    for (text, yes) in [
        (graph()[0].to_string(), true),
        (json!({"runs": graph()}).to_string(), true),
        (json!({"run_type": "x", "name": "n"}).to_string(), false),
        (json!({"trace_id": "t", "span_id": "s", "attributes": {}}).to_string(), false),
        (json!({"runs": [1, 2]}).to_string(), false),
    ] {
        assert_eq!(sniffed(&LangSmith, &text) == Confidence::Yes, yes, "{text}");
    }
}
