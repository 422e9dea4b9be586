//! What goes wrong: tries, ids that come again, times that there are not.

use super::*;

#[test]
fn a_tool_tried_again_is_two_calls_whatever_their_ids() {
    let mut run = run(json!([
        asks("pay the bill"),
        calls(vec![call(Some("a"), "read_file", json!({"path": "x"}))]),
        gives(Some("a"), ""),
        calls(vec![call(Some("a"), "read_file", json!({"path": "x"}))]),
        gives(Some("a"), "Bill: 5"),
        answers("done"),
    ]));
    run["messages"][2]["error"] = json!("TimeoutError: late");
    let trace = trace(&run);
    assert_eq!(
        events(&trace),
        [
            "0 message user agent",
            "a tool_call agent -",
            "a:r tool_result read_file -",
            "a~2 tool_call agent -",
            "a:r~2 tool_result read_file -",
            "5 return agent user",
        ]
    );
    assert_eq!(edges_of(&trace, "return"), set(&["a a:r", "a~2 a:r~2"]));
    assert_eq!(edges_of(&trace, "causal"), set(&["a:r a~2", "a:r~2 5"]));
    let list = trace["events"].as_array().unwrap();
    assert_eq!((&list[2]["ok"], &list[4]["ok"]), (&json!(false), &json!(true)));
    assert_eq!(list[1]["content_ref"], list[3]["content_ref"]);
}

#[test]
fn without_times_messages_are_counted() {
    let trace = trace(&two_calls());
    let times: Vec<f64> =
        trace["events"].as_array().unwrap().iter().map(|e| e["t"].as_f64().unwrap()).collect();
    // The calls of a message have one time; the system's message is no event.
    assert_eq!(times, [0.0, 1.0, 1.0, 2.0, 3.0, 4.0]);
    assert_eq!(trace["events"][0]["x_trace"]["time_basis"], "ordinal");
    assert!(trace["events"][0]["x_trace"]["started_at"].is_null());
}
