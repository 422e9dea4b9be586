use serde_json::{Value as Json, json};

use super::*;
use crate::importers::detect;
use crate::importers::testing::{
    column, edges_of, event, events, fates, is_partial, read_texts, set, traces, with,
};
use crate::store::Store;

mod edge_cases;

fn document(session: &str, steps: &[Json]) -> Json {
    let agent = json!({"name": "ann", "version": "1", "model_name": "gpt-x"});
    json!({"schema_version": "ATIF-v1.7", "session_id": session, "agent": agent, "steps": steps})
}

fn step(id: u32, source: &str, message: &str) -> Json {
    let time = format!("2026-01-01T00:00:{id:02}Z");
    json!({"step_id": id, "timestamp": time, "source": source, "message": message})
}

fn calls(ids: &[&str]) -> Json {
    ids.iter()
        .map(|id| json!({"tool_call_id": id, "function_name": "look", "arguments": {"at": id}}))
        .collect()
}

fn read_documents(files: &[(&str, &Json)]) -> Store {
    let texts: Vec<String> = files.iter().map(|(_, document)| format!("{document:#}")).collect();
    let inputs: Vec<(&str, &str)> =
        files.iter().zip(&texts).map(|((path, _), text)| (*path, text.as_str())).collect();
    read_texts(&Atif, &inputs)
}

fn one(files: &[(&str, &Json)]) -> Json {
    let mut traces = traces(&read_documents(files));
    assert_eq!(traces.len(), 1);
    traces.remove(0)
}

fn run() -> Json {
    let metrics = json!({"prompt_tokens": 10, "completion_tokens": 2, "cached_tokens": 4, "cost_usd": 0.5});
    let results = json!([{"source_call_id": "b", "content": "B"}, {"source_call_id": "a", "content": "A"}]);
    document(
        "s1",
        &[
            step(1, "system", "rules"),
            step(2, "user", "do it"),
            with(
                step(3, "agent", "looking"),
                json!({"metrics": metrics, "tool_calls": calls(&["a", "b"]), "observation": {"results": results}}),
            ),
            with(step(5, "agent", "done"), json!({"metrics": metrics, "model_name": "gpt-y"})),
        ],
    )
}

#[test]
fn a_step_is_a_response_with_its_results() {
    let trace = one(&[("r/t.json", &run())]);
    assert_eq!(trace["trace_id"], "s1");
    assert_eq!(
        events(&trace),
        [
            "s1:2 message user ann",
            "a tool_call ann -",
            "b tool_call ann -",
            "s1:3 message ann -",
            "b:r tool_result look -",
            "a:r tool_result look -",
            "s1:5 return ann user",
        ]
    );
    assert_eq!(edges_of(&trace, "return"), set(&["a a:r", "b b:r"]));
    let call = event(&trace, "a");
    assert_eq!((&call["t"], &call["tokens_in"], &call["tokens_cached"]), (&json!(1), &json!(10), &json!(4)));
    assert_eq!((&call["model"], &event(&trace, "s1:5")["model"]), (&json!("gpt-x"), &json!("gpt-y")));
    assert_eq!(event(&trace, "a:r")["t"], json!(3), "results have the time of the next step");
    assert_eq!((&trace["costs"]["tokens"], &trace["costs"]["cost_usd"]), (&json!(24), &json!(1)));
    assert!(!is_partial(&trace));
    assert_eq!(
        fates(&read_documents(&[("t.json", &run())])),
        [("atif.system".to_owned(), 1), ("used".to_owned(), 3)].into()
    );
}

/// A lead that asks a child twice over: one lies inside of its document, the other in a file beside it.
fn team() -> (Json, Json) {
    let mut inner = document("s1", &[step(3, "user", "dig"), step(4, "agent", "dug")]);
    inner["trajectory_id"] = "child-1".into();
    inner["agent"]["name"] = "bob".into();
    let mut other = document("s2", &[step(5, "user", "find"), step(6, "agent", "found")]);
    other["agent"]["name"] = "bob".into();
    let results = json!([
        {"source_call_id": "a", "content": "dug", "subagent_trajectory_ref": [{"trajectory_id": "child-1"}]},
        {"source_call_id": "b", "content": "found", "subagent_trajectory_ref": [{"trajectory_path": "sub.json"}]},
    ]);
    let mut lead = document(
        "s1",
        &[
            step(1, "user", "do it"),
            with(
                step(2, "agent", ""),
                json!({"tool_calls": calls(&["a", "b"]), "observation": {"results": results}}),
            ),
            step(8, "agent", "all done"),
        ],
    );
    lead["trajectory_id"] = "lead".into();
    lead["subagent_trajectories"] = json!([inner]);
    (lead, other)
}

#[test]
fn sub_agents_lie_inside_or_beside() {
    let (lead, other) = team();
    let trace = one(&[("r/lead.json", &lead), ("r/sub.json", &other)]);
    assert_eq!(
        events(&trace),
        [
            "lead:1 message user ann",
            "lead:2:d orchestrator_decision ann -",
            "a:s spawn ann bob",
            "b:s spawn ann bob#2",
            "child-1:4 return bob ann",
            "s2:6 return bob#2 ann",
            "a:r tool_result look -",
            "b:r tool_result look -",
            "lead:8 aggregate ann user",
        ]
    );
    assert_eq!(edges_of(&trace, "aggregate"), set(&["child-1:4 lead:8", "s2:6 lead:8"]));
    assert_eq!(trace["topology"], "centralized");
    assert!(!is_partial(&trace));
    assert_eq!(one(&[("r/sub.json", &other), ("r/lead.json", &lead)]), trace);
    // Without its file the child has only what it gave back.
    let alone = one(&[("r/lead.json", &lead)]);
    assert!(is_partial(&alone));
    assert!(events(&alone).contains(&"b:return return sub.json ann".to_owned()), "{:?}", events(&alone));
    // And without its parent it is a trace.
    assert_eq!(
        events(&one(&[("r/sub.json", &other)])),
        ["s2:5 message user bob", "s2:6 return bob user"].map(str::to_owned)
    );
}

#[test]
fn sub_agents_may_have_sub_agents_and_no_call() {
    let refer =
        |id: &str| json!({"observation": {"results": [{"subagent_trajectory_ref": {"session_id": id}}]}});
    let a = document(
        "s-a",
        &[step(1, "user", "go"), with(step(2, "agent", "asking"), refer("s-b")), step(9, "agent", "end")],
    );
    let b = document(
        "s-b",
        &[step(3, "user", "go"), with(step(4, "agent", "asking too"), refer("s-c")), step(7, "agent", "b")],
    );
    let c = document("s-c", &[step(5, "user", "go"), step(6, "agent", "c")]);
    let trace = one(&[("c", &c), ("a", &a), ("b", &b)]);
    assert_eq!((&trace["trace_id"], &trace["topology"]), (&json!("s-a"), &json!("hierarchical")));
    assert_eq!(events(&trace).last().unwrap(), "s-a:9 aggregate ann user");
    assert!(!is_partial(&trace));
}

#[test]
fn documents_go_on_in_others_without_what_they_copy() {
    let mut first = document(
        "s1",
        &[step(1, "user", "do it"), with(step(2, "agent", ""), json!({"tool_calls": calls(&["a"])}))],
    );
    first["continued_trajectory_ref"] = "t.cont-1.json".into();
    let copied = |step: Json| with(step, json!({"is_copied_context": true}));
    let second = document(
        "s1-cont-1",
        &[copied(step(1, "user", "do it")), copied(step(2, "agent", "")), step(7, "agent", "done")],
    );
    let trace = one(&[("x/t.json", &first), ("x/t.cont-1.json", &second)]);
    assert_eq!(
        events(&trace),
        ["s1:1 message user ann", "a tool_call ann -", "s1:1.7 return ann user"].map(str::to_owned)
    );
    let store = read_documents(&[("x/t.cont-1.json", &second), ("x/t.json", &first)]);
    assert_eq!(traces(&store), [trace]);
    assert_eq!(fates(&store)["atif.copied_context"], 2);
    assert!(is_partial(&one(&[("x/t.json", &first)])));
}

#[test]
fn totals_that_differ_stay_beside_the_sum() {
    let mut document = run();
    document["final_metrics"] =
        json!({"total_prompt_tokens": 100, "total_completion_tokens": 1, "total_cost_usd": 7.0});
    let trace = one(&[("t.json", &document)]);
    assert_eq!((&trace["costs"]["tokens"], &trace["costs"]["cost_usd"]), (&json!(24), &json!(1)));
    assert_eq!(event(&trace, "s1:5")["x_reported_tokens"], json!(101));
    let mut floor = document.clone();
    floor["steps"][2].as_object_mut().unwrap().remove("metrics");
    for (document, code) in [(&document, "usage.repeated"), (&floor, "usage.incomplete")] {
        let codes = column(&read_documents(&[("t.json", document)]), "findings", "code");
        assert!(codes.contains(&code.to_owned()), "{codes:?}");
    }
    for at in [2, 3] {
        document["steps"][at].as_object_mut().unwrap().remove("metrics");
    }
    let trace = one(&[("t.json", &document)]);
    assert_eq!((&trace["costs"]["tokens"], &trace["costs"]["cost_usd"]), (&json!(101), &json!(7)));
}

#[test]
fn redacted_documents_keep_their_order_and_their_tokens() {
    let hide = |step: Json| {
        with(step, json!({"timestamp": "<redacted>", "source": "<redacted>", "message": "<redacted>"}))
    };
    let results: Json =
        (0..2).map(|_| json!({"source_call_id": "<redacted>", "content": "<redacted>"})).collect();
    let document = document(
        "s",
        &[
            hide(step(1, "user", "")),
            hide(with(
                step(2, "agent", ""),
                json!({"metrics": {"prompt_tokens": 5, "completion_tokens": 1}}),
            )),
            hide(with(
                step(3, "agent", ""),
                json!({"tool_calls": calls(&["<redacted>", "<redacted>"]), "observation": {"results": results}}),
            )),
        ],
    );
    let trace = one(&[("t.json", &document)]);
    assert_eq!(
        events(&trace),
        [
            "s:2 message ann -",
            "s:3:c0 tool_call ann -",
            "s:3:c1 tool_call ann -",
            "s:3 return ann user",
            "s:3:c0:r tool_result look -",
            "s:3:c1:r tool_result look -",
        ]
    );
    assert_eq!(
        (&trace["events"][0]["x_trace"]["time_basis"], &trace["costs"]["tokens"]),
        (&json!("ordinal"), &json!(6))
    );
}

#[test]
fn odd_steps_are_accounted_for() {
    let mut document = run();
    document["steps"].as_array_mut().unwrap().insert(1, json!("no step"));
    document["steps"]
        .as_array_mut()
        .unwrap()
        .push(with(step(6, "system", ""), json!({"extra": {"context_management": {}}})));
    document["steps"].as_array_mut().unwrap().push(step(7, "narrator", "…"));
    let store = read_documents(&[("t.json", &document)]);
    let expected = [("atif.step", 1), ("atif.system", 1), ("quarantined", 1), ("used", 4)];
    assert_eq!(fates(&store), expected.map(|(k, n)| (k.to_owned(), n)).into());
    assert!(is_partial(&traces(&store)[0]));
    let whole = run().to_string();
    for cut in 0..whole.len() {
        if whole.is_char_boundary(cut) && cut % 7 == 0 {
            assert_eq!(read_texts(&Atif, &[("t.json", &whole[..cut])]).n_traces(), 0);
        }
    }
    let copies = read_documents(&[("a/t.json", &run()), ("b/t.json", &run())]);
    assert_eq!((copies.n_traces(), fates(&copies)["duplicate"]), (1, 4));
    let empty = read_documents(&[("t.json", &super::tests::document("s", &[]))]);
    assert_eq!((empty.n_traces(), fates(&empty)), (0, [("atif.empty".to_owned(), 1)].into()));
    let none = read_texts(&Atif, &[("t.json", "{\"schema_version\":\"ATIF-v1.7\"}")]);
    assert_eq!((none.n_traces(), none.records_quarantined()), (0, 1));
}

#[test]
fn results_may_have_no_call_and_calls_no_result() {
    let open = document(
        "s",
        &[
            step(1, "user", "x"),
            with(step(2, "agent", ""), json!({"tool_calls": calls(&["a"]), "observation": {"results": []}})),
        ],
    );
    let trace = one(&[("t", &open)]);
    assert_eq!(event(&trace, "a")["x_partial"], json!(true));
    assert!(is_partial(&trace));
    let whole = document(
        "s",
        &[
            step(1, "user", "x"),
            with(
                step(2, "agent", "y"),
                json!({"tool_calls": calls(&["a"]), "observation": {"results": [{"content": "?"}, {"source_call_id": "a"}]}}),
            ),
            step(3, "agent", "z"),
        ],
    );
    let trace = one(&[("t", &whole)]);
    assert_eq!(event(&trace, "s:2:r0")["x_partial"], json!(true));
    assert!(event(&trace, "a:r")["content_ref"].is_null());
}

#[test]
fn only_trajectories_are_taken() {
    let name = |value: &Json| {
        let text = value.to_string();
        detect([text.as_bytes()].into_iter(), "t.json").info().name
    };
    assert_eq!(name(&run()), "atif");
    assert_eq!(name(&json!({"schema_version": "1", "steps": []})), "unknown");
    assert_eq!(name(&json!({"trajectory": [], "history": [], "info": {}})), "unknown");
}
