use serde_json::{Value as Json, json};

use super::*;
use crate::importers::testing::{
    column, counts, documents, edges, event, events, is_partial, only, read_texts,
};
use crate::store::Store;

mod edge_cases;

fn read(inputs: &[(&str, &Json)]) -> Store {
    let texts: Vec<(&str, String)> = inputs.iter().map(|(path, text)| (*path, text.to_string())).collect();
    let texts: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
    read_texts(&SweAgent, &texts)
}

fn trace(record: &Json) -> Json {
    only(&read(&[("runs/fix__bug-1.traj", record)]))
}

fn list(trace: &Json) -> &Vec<Json> {
    trace["events"].as_array().unwrap()
}

/// A run of two steps; the history begins with a demonstration.
fn run() -> Json {
    json!({
        "environment": "main",
        "trajectory": [
            {"action": "open a.py\n", "observation": "1: x", "response": "Look.\n```\nopen a.py\n```", "thought": "Look.",
                "state": "{}"},
            {"action": "submit\n", "observation": "diff", "response": "Done.", "thought": "Done.", "state": "{}"}
        ],
        "history": [
            {"role": "system", "content": "s", "agent": "primary"},
            {"role": "user", "content": "demo", "agent": "primary", "is_demo": true},
            {"role": "user", "content": "the issue", "agent": "primary"},
            {"role": "assistant", "content": "Look.", "agent": "primary", "action": "open a.py\n"},
            {"role": "user", "content": "1: x", "agent": "primary"}
        ],
        "info": {"exit_status": "submitted", "submission": "diff",
            "model_stats": {"tokens_sent": 90, "tokens_received": 10, "api_calls": 2, "instance_cost": 0.5}}
    })
}

#[test]
fn steps_are_answers_commands_and_what_they_print() {
    let store = read(&[("runs/fix__bug-1.traj", &run())]);
    let trace = documents(&store).remove(0);
    assert_eq!(
        events(&trace),
        [
            "h2 message user primary",
            "s0:c tool_call primary -",
            "s0 message primary -",
            "s0:c:r tool_result open -",
            "s1:c tool_call primary -",
            "s1 message primary -",
            "s1:c:r tool_result submit -",
            "end return primary user",
        ]
    );
    let drawn = edges(&trace);
    for edge in ["s0:c return s0:c:r", "s0:c:r causal s1:c", "s0:c:r safety_flow s1:c", "h2 message s0:c"] {
        assert!(drawn.contains(edge), "{edge} of {drawn:?}");
    }
    assert_eq!(event(&trace, "s0:c")["tool"], "open");
    assert_eq!(event(&trace, "end")["content_ref"], event(&trace, "s1:c:r")["content_ref"]);
    assert_eq!(trace["task_id"], "fix__bug-1");
    assert!(trace["trace_id"].as_str().unwrap().starts_with("fix__bug-1/"));
    let costs = &trace["costs"];
    assert_eq!((costs["tokens"].as_i64(), costs["cost_usd"].as_f64()), (Some(100), Some(0.5)));
    assert_eq!((costs["tool_calls"].as_i64(), costs["messages"].as_i64()), (Some(2), Some(3)));
    assert_eq!((trace["metrics"]["api_calls"].as_i64(), &trace["rewards"]), (Some(2), &json!({})));
    assert_eq!(column(&store, "labels", "label"), ["submitted"]);
    assert_eq!(trace["events"][0]["x_trace"]["time_basis"], "ordinal");
    assert!(!is_partial(&trace));
}

#[test]
fn times_are_sums_of_what_commands_took() {
    let mut run = run();
    run["trajectory"][0]["execution_time"] = 1.5.into();
    run["trajectory"][1]["execution_time"] = 0.25.into();
    let trace = trace(&run);
    let found: Vec<_> =
        list(&trace).iter().map(|e| (e["t"].as_f64().unwrap(), e["duration_s"].as_f64())).collect();
    assert_eq!(
        found,
        [
            (0.0, None),
            (0.0, None),
            (0.0, None),
            (1.5, Some(1.5)),
            (1.5, None),
            (1.5, None),
            (1.75, Some(0.25)),
            (1.75, None)
        ]
    );
    let facts = &trace["events"][0]["x_trace"];
    assert_eq!((facts["time_basis"].as_str(), facts["started_at"].as_str()), (Some("partial"), None));
    assert_eq!(facts["unknown_costs"], json!(["wall_clock_s"]), "what the model took is not known");
}

#[test]
fn exit_statuses_are_no_rewards() {
    for (status, ok) in [("submitted", None), ("submitted (exit_cost)", None), ("exit_context", Some(false))]
    {
        let mut run = run();
        run["info"]["exit_status"] = status.into();
        let trace = trace(&run);
        let end = event(&trace, "end");
        assert_eq!((end["type"].as_str(), end["ok"].as_bool()), (Some("return"), ok), "{status}");
        assert_eq!(end["x_error_type"].as_str(), ok.map(|_| status));
        assert_eq!(trace["rewards"], json!({}));
    }
    // A run that is still going has neither a status nor an answer.
    let mut open = run();
    open["info"].as_object_mut().unwrap().remove("exit_status");
    let open = trace(&open);
    assert!(is_partial(&open) && !events(&open).iter().any(|e| e.contains(" return ")));
}

#[test]
fn steps_without_commands_or_observations() {
    let mut run = run();
    run["trajectory"][0]["action"] = "".into();
    run["trajectory"][0]["observation"] = "no command found".into();
    run["trajectory"][1].as_object_mut().unwrap().remove("observation");
    let trace = trace(&run);
    assert!(events(&trace).contains(&"s0:o message user primary".to_owned()), "{:?}", events(&trace));
    assert_eq!(event(&trace, "s1:c")["x_partial"], true);
}

#[test]
fn demonstrations_have_messages_alone() {
    let call = |id: &str, name: &str| json!([{"id": id, "function": {"name": name, "arguments": "{}"}}]);
    let record = json!({"history": [
        {"role": "system", "content": "s", "agent": "main"},
        {"role": "user", "content": "the issue", "agent": "main"},
        {"role": "assistant", "content": "a", "thought": "a", "action": "open x", "agent": "main", "tool_calls": call("k1", "open")},
        {"role": "tool", "content": "x", "agent": "main", "tool_call_ids": ["k1"]},
        {"role": "assistant", "content": "b", "thought": "b", "action": "submit", "agent": "main", "tool_calls": call("k2", "submit")},
        {"role": "tool", "content": "diff", "agent": "main", "tool_call_ids": ["k2"]}
    ]});
    let trace = trace(&record);
    assert_eq!(
        events(&trace),
        [
            "m1 message user main",
            "m2:c0 tool_call main -",
            "m2 message main -",
            "m2:c0:r tool_result open -",
            "m4:c0 tool_call main -",
            "m4 message main -",
            "m4:c0:r tool_result submit -",
            "end return main user",
        ]
    );
    assert!(!is_partial(&trace));
}

/// A run of mini-swe-agent with times, usage and two calls at once.
fn mini() -> Json {
    let usage =
        json!({"prompt_tokens": 50, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 20}});
    json!({
        "trajectory_format": "mini-swe-agent-1.1",
        "info": {"mini_version": "2.0", "exit_status": "Submitted", "submission": "diff",
            "model_stats": {"instance_cost": 0.02, "api_calls": 1}, "config": {"model": {"model_name": "lab/m"}}},
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "the issue"},
            {"role": "assistant", "content": "look", "extra": {
                "actions": [{"command": "ls", "tool_call_id": "k1"}, {"command": "cat x", "tool_call_id": "k2"}],
                "response": {"model": "m-1", "usage": usage}, "cost": 0.02, "timestamp": 1_770_000_000.123_456_7}},
            {"role": "tool", "tool_call_id": "k2", "content": "no x", "extra": {"returncode": 1, "timestamp": 1_770_000_002.5}},
            {"role": "tool", "tool_call_id": "k1", "content": "y", "extra": {"returncode": 0, "timestamp": 1_770_000_003.5}},
            {"role": "user", "content": "format!", "extra": {"interrupt_type": "FormatError"}},
            {"role": "exit", "content": "diff", "extra": {"exit_status": "Submitted", "submission": "diff"}}
        ]
    })
}

#[test]
fn messages_of_mini_runs() {
    let trace = trace(&mini());
    assert_eq!(
        events(&trace),
        [
            "m1 message user agent",
            "m2:c0 tool_call agent -",
            "m2:c1 tool_call agent -",
            "m2 message agent -",
            "m2:c1:r tool_result bash -",
            "m2:c0:r tool_result bash -",
            "m5 message user agent",
            "end return agent user",
        ]
    );
    let call = event(&trace, "m2:c0");
    assert_eq!((call["tokens_in"].as_i64(), call["tokens_out"].as_i64()), (Some(50), Some(7)));
    assert_eq!((call["tokens_cached"].as_i64(), call["cost_usd"].as_f64()), (Some(20), Some(0.02)));
    assert_eq!(call["model"], "m-1");
    let failed = event(&trace, "m2:c1:r");
    assert_eq!((failed["ok"].as_bool(), failed["x_returncode"].as_i64()), (Some(false), Some(1)));
    assert_eq!(
        (trace["costs"]["tokens"].as_i64(), trace["costs"]["cost_usd"].as_f64()),
        (Some(57), Some(0.02))
    );
    assert_eq!(trace["system"], "mini_swe_agent");
    assert!(
        trace["events"][0]["x_trace"]["started_at"]
            .as_str()
            .unwrap()
            .starts_with("2026-02-02T02:40:00.123456")
    );
    assert!(!is_partial(&trace));
}

#[test]
fn bare_messages_of_the_first_mini_runs() {
    let bare = json!([
        {"role": "system", "content": "s"},
        {"role": "user", "content": "the issue"},
        {"role": "assistant", "content": "First.\n\n```bash\nls -la\n```"},
        {"role": "user", "content": "a.py"},
        {"role": "assistant", "content": "```bash\necho MINI_SWE_AGENT_FINAL_OUTPUT\n```"},
        {"role": "user", "content": "bye"}
    ]);
    let store = read(&[("runs/x__y-2.traj.json", &bare)]);
    assert_eq!(store.n_traces(), 1);
    let trace = documents(&store).remove(0);
    assert_eq!(
        events(&trace),
        [
            "m1 message user agent",
            "m2:c0 tool_call agent -",
            "m2 message agent -",
            "m2:c0:r tool_result bash -",
            "m4:c0 tool_call agent -",
            "m4 message agent -",
            "m4:c0:r tool_result bash -",
            "end return agent user",
        ]
    );
    assert_eq!(trace["task_id"], "x__y-2");
    assert_eq!(counts(&store).iter().map(|(.., n)| n).sum::<u64>(), 6, "each message is a record");
    // Without the word that ends it the run goes on.
    let mut open = bare;
    open.as_array_mut().unwrap().truncate(4);
    assert!(is_partial(&documents(&read(&[("x.traj.json", &open)]))[0]));
}

#[test]
fn the_same_run_twice_is_one_and_two_runs_are_two() {
    let mut other = run();
    other["info"]["submission"] = "another diff".into();
    let store = read(&[("a/t.traj", &run()), ("b/t.traj", &run()), ("c/t.traj", &other)]);
    let traces = documents(&store);
    assert_eq!(traces.len(), 2);
    assert_eq!(traces[0]["task_id"], traces[1]["task_id"]);
    let duplicates: u64 = counts(&store).iter().filter(|(_, s, ..)| s == "duplicate").map(|(.., n)| n).sum();
    assert_eq!(duplicates, 1);
}

#[test]
fn broken_odd_and_empty_inputs() {
    for text in ["", "\n \n"] {
        assert_eq!(read_texts(&SweAgent, &[("a.traj", text)]).n_traces(), 0);
    }
    let whole = run().to_string();
    for cut in (1..whole.len()).step_by(29) {
        let store = read_texts(&SweAgent, &[("a.traj", &whole[..cut])]);
        assert_eq!((store.n_traces(), store.records_quarantined()), (0, 1), "cut at {cut}");
    }
    let store = read_texts(&SweAgent, &[("a.traj", r#"{"role":1}"#)]);
    assert_eq!(store.records_quarantined(), 1);
    // A value of another type counts as absent, a long one and a lone surrogate are read.
    let mut odd = run();
    odd["trajectory"][0]["execution_time"] = "soon".into();
    odd["trajectory"][0]["thought"] = 5.into();
    odd["trajectory"][1]["observation"] = "x".repeat(5 << 20).into();
    let text = odd.to_string().replace("Done.", "\\ud800");
    let store = read_texts(&SweAgent, &[("a.traj", &text)]);
    let trace = documents(&store).remove(0);
    assert_eq!(trace["events"][0]["x_trace"]["time_basis"], "ordinal");
    assert_eq!((store.n_traces(), list(&trace).len()), (1, 7));
}

/// The events of any number of first steps are those of the whole run, up to what ends it.
#[test]
fn prefixes_tell_the_same_story() {
    let whole = trace(&run());
    for steps in 0..2 {
        let mut cut = run();
        cut["trajectory"].as_array_mut().unwrap().truncate(steps);
        cut.as_object_mut().unwrap().remove("info");
        for found in documents(&read(&[("fix__bug-1.traj", &cut)])) {
            for one in list(&found).iter().skip(1) {
                assert_eq!(one, event(&whole, one["id"].as_str().unwrap()));
            }
        }
    }
}

#[test]
fn only_own_files_are_taken() {
    let sure = |record: &Json, path: &str| {
        let text = record.to_string();
        SweAgent.sniff(Tree::parse(&text, LIMITS).unwrap().root(), path)
    };
    let message = json!({"role": "user", "content": "x"});
    assert_eq!(sure(&run(), "x.json"), Confidence::Yes);
    assert_eq!(sure(&mini(), "x.json"), Confidence::Yes);
    assert_eq!(sure(&message, "x.traj.json.gz"), Confidence::Yes);
    assert_eq!(sure(&message, "x.json"), Confidence::No);
    for other in [
        json!({"history": [{"role": "user", "content": "x"}], "mistake_agent": "a"}),
        json!({"suite_name": "a", "user_task_id": "b", "messages": [{"role": "user"}]}),
        json!({"task_id": 1, "traj": [], "reward": 1, "info": {}}),
        json!({"messages": [{"role": "user", "content": "x"}]}),
        json!({"schema_version": "ATIF-v1", "trajectory_id": "a"}),
        json!({"eval": {"task": "x"}, "plan": {}, "samples": []}),
    ] {
        assert_eq!(sure(&other, "x.traj"), Confidence::No, "{other}");
    }
}
