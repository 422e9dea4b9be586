//! What goes wrong: cut lines, tries, ids that come again, clocks, missing times, size.

use super::*;
use crate::importers::testing::content_ref;

fn codes(store: &Store, table: &str) -> Vec<String> {
    let batch = store.combined(table).unwrap();
    let column = batch.column_by_name("code").unwrap();
    let code = |row| crate::store::text_at(column, row).unwrap_or_default().to_owned();
    (0..batch.num_rows()).map(code).collect()
}

fn t(trace: &Json, id: &str) -> f64 {
    event(trace, id)["t"].as_f64().unwrap()
}

#[test]
fn a_last_line_that_is_cut_costs_itself_and_is_missed_by_its_trace() {
    let first = document("s1", &[step(1, "user", "do it"), step(2, "agent", "half")]);
    let second = document("s1-cont-1", &[step(3, "agent", "done")]);
    let other = document("s2", &[step(1, "user", "hello"), step(2, "agent", "hi")]);
    let whole = format!("{other}\n{first}\n{second}\n");
    let store = read_texts(&Atif, &[("all.jsonl", &whole[..whole.len() - 2])]);
    assert_eq!(codes(&store, "quarantine"), ["input.truncated"]);
    let found = traces(&store);
    let told: Vec<(&Json, bool)> =
        found.iter().map(|trace| (&trace["trace_id"], is_partial(trace))).collect();
    assert_eq!(told, [(&json!("s2"), false), (&json!("s1"), true)]);
    assert_eq!(events(&found[1])[0], "s1:1 message user ann");
    assert_eq!(events(&found[1]).len(), 2);
}

#[test]
fn a_tool_tried_again_is_two_calls_whatever_their_ids() {
    let metrics = json!({"prompt_tokens": 10, "completion_tokens": 2});
    let tries = |id: u32, n: u32, content: &str| {
        let results = json!([{"source_call_id": "a", "content": content, "is_error": content == "no"}]);
        let more = json!({"tool_calls": calls(&["a"]), "observation": {"results": results}, "metrics": metrics,
            "llm_call_count": n});
        with(step(id, "agent", ""), more)
    };
    let document = document(
        "s",
        &[step(1, "user", "x"), tries(2, 3, "no"), tries(3, 1, "yes"), step(4, "agent", "done")],
    );
    let store = read_documents(&[("t.json", &document)]);
    let trace = &traces(&store)[0];
    assert_eq!(
        events(trace),
        [
            "s:1 message user ann",
            "a tool_call ann -",
            "a:r tool_result look -",
            "a~2 tool_call ann -",
            "a:r~2 tool_result look -",
            "s:4 return ann user",
        ]
    );
    assert_eq!(edges_of(trace, "return"), ["a a:r", "a~2 a:r~2"].map(str::to_owned).into());
    assert!(codes(&store, "findings").contains(&"id.repeated".to_owned()));
    assert_eq!((&event(trace, "a:r")["ok"], &event(trace, "a:r~2")["ok"]), (&json!(false), &json!(true)));
    // A model that was asked three times is one response, with the tokens that the step tells.
    assert_eq!((&event(trace, "a")["x_llm_call_count"], &trace["costs"]["tokens"]), (&json!(3), &json!(24)));
    assert!(event(trace, "a~2")["x_llm_call_count"].is_null());
}

#[test]
fn a_clock_that_is_an_hour_behind() {
    let (lead, mut other) = team();
    for step in other["steps"].as_array_mut().unwrap() {
        let time = step["timestamp"].as_str().unwrap().replace("2026-01-01T00:", "2025-12-31T23:");
        step["timestamp"] = time.into();
    }
    let store = read_documents(&[("r/lead.json", &lead), ("r/sub.json", &other)]);
    let trace = &traces(&store)[0];
    // The child that answered an hour before it was asked comes first, and so its name.
    assert_eq!(
        events(trace),
        [
            "s2:6 return bob ann",
            "lead:1 message user ann",
            "lead:2:d orchestrator_decision ann -",
            "a:s spawn ann bob#2",
            "b:s spawn ann bob",
            "child-1:4 return bob#2 ann",
            "a:r tool_result look -",
            "b:r tool_result look -",
            "lead:8 aggregate ann user",
        ]
    );
    assert_eq!((t(trace, "s2:6"), t(trace, "lead:1"), t(trace, "lead:8")), (0.0, 3595.0, 3602.0));
    assert!(edges_of(trace, "spawn").contains("b:s s2:6") && edges_of(trace, "return").contains("s2:6 b:r"));
    assert_eq!(edges_of(trace, "aggregate"), ["child-1:4 lead:8", "s2:6 lead:8"].map(str::to_owned).into());
    let found = codes(&store, "findings");
    assert!(
        found.contains(&"clock.skew".to_owned()) && !found.contains(&"graph.cycle".to_owned()),
        "{found:?}"
    );
}

#[test]
fn a_step_without_a_time_has_that_of_the_step_before() {
    let mut document = run();
    document["steps"][2].as_object_mut().unwrap().remove("timestamp");
    let trace = one(&[("t.json", &document)]);
    // The user spoke at second 2; results have the time of the next step, second 5.
    assert_eq!(
        ["s1:2", "a", "b", "s1:3", "b:r", "a:r", "s1:5"].map(|id| t(&trace, id)),
        [0.0, 0.0, 0.0, 0.0, 3.0, 3.0, 3.0]
    );
    assert_eq!(trace["events"][0]["x_trace"]["time_basis"], "seconds");
}

#[test]
fn a_line_of_five_megabytes() {
    let long = "x".repeat(5 << 20);
    let document = document("s", &[step(1, "user", "x"), step(2, "agent", &long)]);
    let store = read_texts(&Atif, &[("all.jsonl", &format!("{document}\n"))]);
    assert_eq!(event(&traces(&store)[0], "s:2")["content_ref"], content_ref(&long));
}
