use serde_json::{Value as Json, json};

use super::*;
use crate::importers::Format;
use crate::importers::testing::{
    column, content_ref, counts, documents, edges, event, events, is_partial, only, read_bytes, read_texts,
};
use crate::ingest::ReadOptions;
use crate::store::Store;

mod edge_cases;
mod structure;

/// An event at a second.
fn at(second: u32, mut event: Json) -> Json {
    event["timestamp"] = format!("2026-03-01T10:{:02}:{:02}.5+02:00", second / 60, second % 60).into();
    event
}

/// The same with an end.
fn from_to(start: u32, end: u32, event: Json) -> Json {
    let end = at(end, json!({}));
    let mut event = at(start, event);
    event["completed"] = end["timestamp"].clone();
    event
}

fn user(text: &str) -> Json {
    json!({"role": "user", "content": text})
}

/// A model's answer; calls are `id:function`.
fn model(span: &str, start: u32, end: u32, text: &str, calls: &[&str]) -> Json {
    let calls: Vec<Json> = calls
        .iter()
        .map(|call| call.split_once(':').unwrap())
        .map(|(id, function)| json!({"id": id, "function": function, "arguments": {"q": 1}}))
        .collect();
    let message = json!({"role": "assistant", "content": text, "tool_calls": calls});
    let usage = json!({"input_tokens": 10, "output_tokens": 2, "total_tokens": 12});
    let output = json!({"model": "m-1", "choices": [{"message": message}], "usage": usage});
    let mut event =
        from_to(start, end, json!({"event": "model", "model": "x/m", "input": [], "output": output}));
    if !span.is_empty() {
        event["span_id"] = span.into();
    }
    event
}

fn tool(span: &str, start: u32, end: u32, id: &str, function: &str, result: &str) -> Json {
    let event =
        json!({"event": "tool", "id": id, "function": function, "arguments": {"q": 1}, "result": result});
    let mut event = from_to(start, end, event);
    if !span.is_empty() {
        event["span_id"] = span.into();
    }
    event
}

fn begin(id: &str, parent: &str, kind: &str, name: &str, second: u32) -> Json {
    let mut event =
        at(second, json!({"event": "span_begin", "id": id, "span_id": id, "type": kind, "name": name}));
    if !parent.is_empty() {
        event["parent_id"] = parent.into();
    }
    event
}

fn end(id: &str, second: u32) -> Json {
    at(second, json!({"event": "span_end", "id": id, "span_id": id}))
}

fn sample(id: &Json, epoch: u32, events: Vec<Json>) -> Json {
    let mut sample = json!({"id": id, "epoch": epoch, "input": "question", "target": "t", "messages": [],
        "output": {"choices": [{"message": {"content": "the end"}}]}});
    sample["events"] = events.into();
    sample
}

fn log(samples: Vec<Json>) -> Json {
    let eval = json!({"run_id": "R", "task_id": "T", "task": "quiz", "model": "x/m"});
    let mut log = json!({"version": 2, "status": "success", "eval": eval, "plan": {}});
    log["samples"] = samples.into();
    log
}

fn read(log: &Json) -> Store {
    read_texts(&Inspect, &[("logs/a.json", &log.to_string())])
}

/// The one trace of one sample.
fn trace(sample: Json) -> Json {
    only(&read(&log(vec![sample])))
}

/// The trace of one sample with these events.
fn of(events: Vec<Json>) -> Json {
    trace(sample(&json!(1), 1, events))
}

fn list(trace: &Json) -> Vec<Json> {
    trace["events"].as_array().unwrap().clone()
}

fn tally(store: &Store) -> Vec<(String, String, u64)> {
    counts(store).into_iter().map(|(_, status, kind, n)| (status, kind, n)).collect()
}

#[test]
fn ids_of_traces_tasks_and_groups() {
    let one = || vec![model("", 0, 1, "hi", &[])];
    let store = read(&log(vec![sample(&json!(7), 1, one()), sample(&json!("a b"), 2, one())]));
    let traces = documents(&store);
    let ids: Vec<_> =
        traces.iter().map(|t| (t["trace_id"].as_str().unwrap(), t["task_id"].as_str().unwrap())).collect();
    assert_eq!(ids, [("R/T/7/1", "quiz/7"), ("R/T/a b/2", "quiz/a b")]);
    assert_eq!(traces[0]["events"][0]["x_trace"]["group_id"], "quiz/7/x/m");
    assert_eq!(traces[0]["system"], "inspect_ai");
    assert_eq!(tally(&store), [("used".into(), String::new(), 2)]);
}

#[test]
fn a_response_is_told_with_its_time_usage_and_results() {
    let mut first = model("", 0, 2, "look", &["c1:search", "c2:read"]);
    first["retries"] = 2.into();
    first["output"]["usage"]["input_tokens_cache_read"] = 4.into();
    let trace = of(vec![
        first,
        tool("", 2, 9, "c1", "search", "slow"),
        tool("", 2, 5, "c2", "read", "fast"),
        model("", 9, 10, "answer", &[]),
    ]);
    assert_eq!(
        events(&trace),
        [
            "input0 message user main",
            "c1 tool_call main -",
            "c2 tool_call main -",
            "e0 message main -",
            "c2:r tool_result read -",
            "c1:r tool_result search -",
            "e3 return main user",
        ]
    );
    let call = event(&trace, "c1");
    assert_eq!((call["t"].as_f64(), call["duration_s"].as_f64()), (Some(2.0), Some(2.0)));
    assert_eq!((call["tokens_in"].as_i64(), call["tokens_out"].as_i64()), (Some(10), Some(2)));
    assert_eq!((call["tokens_cached"].as_i64(), call["x_retries"].as_i64()), (Some(4), Some(2)));
    assert_eq!(call["model"], "x/m");
    let slow = event(&trace, "c1:r");
    assert_eq!((slow["t"].as_f64(), slow["duration_s"].as_f64()), (Some(9.0), Some(7.0)));
    assert_eq!((slow["ok"].as_bool(), slow["trusted"].as_bool()), (Some(true), Some(false)));
    let drawn = edges(&trace);
    for edge in ["c1 return c1:r", "c2 return c2:r", "c1:r causal e3", "c2:r causal e3", "input0 message c1"]
    {
        assert!(drawn.contains(edge), "{edge} of {drawn:?}");
    }
    assert_eq!(trace["costs"]["tokens"], 24);
    assert_eq!(trace["costs"]["wall_clock_s"].as_f64(), Some(10.0));
    assert_eq!(trace["events"][0]["x_trace"]["started_at"], "2026-03-01T08:00:00.500Z");
    assert!(!is_partial(&trace));
}

#[test]
fn usage_of_any_provider() {
    let cases = [
        // Cache inside of the input, beside it, reasoning inside of the output, beside it, and no total.
        (
            json!({"input_tokens": 9, "output_tokens": 2, "total_tokens": 11, "input_tokens_cache_read": 5}),
            (9, 2),
        ),
        (
            json!({"input_tokens": 9, "output_tokens": 2, "total_tokens": 19, "input_tokens_cache_read": 5,
                "input_tokens_cache_write": 3}),
            (17, 2),
        ),
        (json!({"input_tokens": 9, "output_tokens": 2, "total_tokens": 11, "reasoning_tokens": 1}), (9, 2)),
        (json!({"input_tokens": 9, "output_tokens": 2, "total_tokens": 15, "reasoning_tokens": 4}), (9, 6)),
        (json!({"input_tokens": 9, "output_tokens": 2, "input_tokens_cache_read": 50}), (59, 2)),
        (json!({"input_tokens": 9, "output_tokens": 2}), (9, 2)),
    ];
    for (usage, (read, written)) in cases {
        let mut event = model("", 0, 1, "x", &[]);
        event["output"]["usage"] = usage.clone();
        let trace = of(vec![event]);
        let found = super::tests::event(&trace, "e0");
        assert_eq!(
            (found["tokens_in"].as_i64(), found["tokens_out"].as_i64()),
            (Some(read), Some(written)),
            "{usage}"
        );
    }
}

#[test]
fn what_a_cache_answers_costs_nothing() {
    let mut event = model("", 0, 1, "x", &[]);
    event["cache"] = "read".into();
    let trace = of(vec![event]);
    let found = super::tests::event(&trace, "e0");
    assert_eq!(
        (found["x_cache"].as_str(), found["x_usage_saved"]["total_tokens"].as_i64()),
        (Some("read"), Some(12))
    );
    assert!(found["tokens_in"].is_null());
    assert_eq!(trace["events"][0]["x_trace"]["unknown_costs"], json!(["tokens"]));
}

#[test]
fn totals_that_differ_are_told() {
    let mut sample = sample(&json!(1), 1, vec![model("", 0, 1, "x", &[])]);
    sample["model_usage"] = json!({"x/m": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}});
    assert!(column(&read(&log(vec![sample.clone()])), "findings", "code").is_empty());
    sample["model_usage"]["y"] = json!({"input_tokens": 1, "output_tokens": 1, "total_tokens": 2});
    let store = read(&log(vec![sample]));
    assert_eq!(column(&store, "findings", "code"), ["usage.repeated"]);
    assert_eq!(event(&documents(&store)[0], "e0")["x_reported_tokens"], 14);
}

#[test]
fn more_than_events_show_where_one_states_nothing_is_a_floor() {
    let mut silent = model("", 2, 3, "y", &[]);
    silent["output"].as_object_mut().unwrap().remove("usage");
    let mut sample = sample(&json!(1), 1, vec![model("", 0, 1, "x", &[]), silent]);
    sample["model_usage"] = json!({"x/m": {"input_tokens": 30, "output_tokens": 4, "total_tokens": 34}});
    let store = read(&log(vec![sample.clone()]));
    assert_eq!(column(&store, "findings", "code"), ["usage.incomplete"]);
    let said = &column(&store, "findings", "message")[0];
    assert!(
        said.contains("34 tokens") && said.contains("12") && said.contains("1 of the responses"),
        "{said}"
    );
    // Less than the events show is no floor.
    sample["model_usage"]["x/m"] = json!({"input_tokens": 5, "output_tokens": 1, "total_tokens": 6});
    assert_eq!(column(&read(&log(vec![sample])), "findings", "code"), ["usage.repeated"]);
}

#[test]
fn attachments_and_pools_are_what_they_stand_for() {
    let long = "a long text ".repeat(20);
    let mut plain =
        vec![model("", 0, 1, &long, &["c:f"]), tool("", 1, 2, "c", "f", &long), model("", 3, 4, "x", &[])];
    plain[0]["output"]["choices"][0]["message"]["tool_calls"][0]["arguments"] =
        json!({"text": [long, 1], "n": {}});
    plain[2]["input"] = json!([user("question"), {"role": "assistant", "content": long}, user("go on")]);
    let mut short = plain.clone();
    let stand_in = "attachment://k1";
    short[0]["output"]["choices"][0]["message"]["content"] = stand_in.into();
    short[0]["output"]["choices"][0]["message"]["tool_calls"][0]["arguments"]["text"][0] = stand_in.into();
    short[1]["result"] = stand_in.into();
    short[2]["input"] = json!([]);
    short[2]["input_refs"] = json!([[0, 1], [2, 4]]);
    let mut pooled = sample(&json!(1), 1, short);
    pooled["attachments"] = json!({"k1": long});
    let pool =
        json!([user("question"), user("never"), {"role": "assistant", "content": stand_in}, user("go on")]);
    pooled["events_data"] = json!({"messages": pool, "calls": []});
    let mut older = pooled.clone();
    older["message_pool"] = older["events_data"]["messages"].take();
    let plain = of(plain);
    assert_eq!(plain, trace(pooled));
    assert_eq!(plain, trace(older));
    assert!(events(&plain).contains(&"e2:u0 message user main".to_owned()));
}

#[test]
fn texts_of_parts_and_other_results() {
    let mut parts = model("", 0, 1, "", &["c:f"]);
    let content = json!([{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]);
    parts["output"]["choices"][0]["message"]["content"] = content;
    let mut counted = tool("", 1, 2, "c", "f", "");
    counted["result"] = json!(42);
    let trace = of(vec![parts, counted, model("", 3, 4, "ab", &[])]);
    assert_eq!(event(&trace, "e0")["content_ref"], event(&trace, "e2")["content_ref"]);
    assert_eq!(event(&trace, "c:r")["content_ref"], content_ref("42"));
}

#[test]
fn scores_are_rewards_metrics_and_labels() {
    let scored = |scores: Json| {
        let mut sample = sample(&json!(1), 1, vec![model("", 0, 1, "x", &[])]);
        sample["scores"] = scores;
        let store = read(&log(vec![sample]));
        let trace = documents(&store).remove(0);
        (
            trace["rewards"].clone(),
            trace["metrics"].clone(),
            column(&store, "findings", "code"),
            column(&store, "labels", "label"),
        )
    };
    for (letter, team) in [("C", 1.0), ("P", 0.5), ("I", 0.0), ("N", 0.0), ("0.25", 0.25)] {
        let (rewards, metrics, ..) = scored(json!({"first": {"value": letter}, "second": {"value": true}}));
        assert_eq!((rewards["team"].as_f64(), metrics["first"].as_f64()), (Some(team), Some(team)));
        assert_eq!(metrics["second"].as_f64(), Some(1.0));
    }
    let (rewards, metrics, codes, labels) =
        scored(json!({"judge": {"value": {"a": 1, "b": "weak"}}, "n": {"value": "N/A"}, "r": {"value": 7}}));
    assert_eq!(rewards, json!({}));
    assert_eq!((metrics["judge.a"].as_f64(), metrics["r"].as_f64()), (Some(1.0), Some(7.0)));
    assert_eq!(
        (codes, labels),
        (vec!["field.ignored".to_owned()], vec!["weak".to_owned(), "N/A".to_owned()])
    );
    // Beyond 0 to 1 it is a metric, but no reward.
    let (rewards, metrics, codes, _) = scored(json!({"points": {"value": 7}}));
    assert_eq!((rewards, metrics["points"].as_f64(), codes.len()), (json!({}), Some(7.0), 1));
    let (rewards, ..) = scored(Json::Null);
    assert_eq!(rewards, json!({}));
}

#[test]
fn numbers_that_are_none_are_no_scores() {
    let mut sample = sample(&json!(1), 1, vec![model("", 0, 1, "x", &[])]);
    sample["scores"] = json!({"f1": {"value": "HERE"}});
    let text = log(vec![sample]).to_string().replace("\"HERE\"", "NaN");
    let store = read_texts(&Inspect, &[("a.json", &text)]);
    assert_eq!(documents(&store)[0]["rewards"], json!({}));
    assert_eq!(column(&store, "findings", "code"), ["field.ignored"]);
}

#[test]
fn scores_on_the_way_are_process() {
    let score = |value: Json, second| {
        at(second, json!({"event": "score", "score": {"value": value}, "intermediate": true}))
    };
    let trace = of(vec![
        model("", 0, 1, "draft", &[]),
        score(json!(0.5), 2),
        model("", 3, 4, "better", &[]),
        score(json!("C"), 5),
    ]);
    assert_eq!(trace["rewards"]["process"].as_f64(), Some(0.75));
    assert_eq!(
        (event(&trace, "e0")["score"].as_f64(), event(&trace, "e2")["score"].as_f64()),
        (Some(0.5), Some(1.0))
    );
    // Logs of bare events have the final score there too.
    let final_score = at(5, json!({"event": "score", "score": {"value": "C"}}));
    let bare = json!({"events": [model("", 0, 1, "x", &[]), final_score]});
    let store = read(&bare);
    assert_eq!(documents(&store)[0]["rewards"], json!({"team": 1}));
    assert!(documents(&store)[0]["trace_id"].as_str().unwrap().starts_with("events/"));
    // Names of metrics are unique whatever scorers are called.
    let twice = json!({"events": [model("", 0, 1, "x", &[]), final_score, final_score]});
    assert_eq!(documents(&read(&twice))[0]["metrics"], json!({"score": 1, "score#2": 1}));
}

#[test]
fn failures_end_a_sample() {
    let error = at(3, json!({"event": "error", "error": {"message": "boom", "traceback": ""}}));
    let mut sample = sample(&json!(1), 1, vec![model("", 0, 1, "x", &["c:f"]), error]);
    sample["error"] = json!({"message": "boom"});
    let failed = trace(sample.clone());
    let last = event(&failed, "e1");
    assert_eq!((last["type"].as_str(), last["ok"].as_bool()), (Some("return"), Some(false)));
    assert_eq!((last["x_error_type"].as_str(), last["t"].as_f64()), (Some("error"), Some(3.0)));
    assert_eq!(event(&failed, "c")["x_partial"], true, "the call was never answered");
    // Older logs only have it beside the events.
    sample["events"].as_array_mut().unwrap().pop();
    let trace = trace(sample);
    let last = event(&trace, "end");
    assert_eq!((last["ok"].as_bool(), last["x_error_type"].as_str()), (Some(false), Some("error")));
    let limit = at(4, json!({"event": "sample_limit", "type": "token", "message": "too many", "limit": 5}));
    let trace = of(vec![model("", 0, 1, "x", &["c:f"]), limit]);
    let last = event(&trace, "e1");
    assert_eq!(last["x_error_type"], "limit:token");
}

#[test]
fn errors_of_models_and_tools() {
    let mut refused = model("", 0, 1, "", &[]);
    refused["error"] = "429".into();
    refused["output"] = json!({});
    let mut broken = tool("", 3, 4, "c", "f", "");
    broken["error"] = json!({"type": "timeout", "message": "late"});
    let trace = of(vec![refused, model("", 2, 3, "", &["c:f"]), broken, model("", 5, 6, "x", &[])]);
    let refused = event(&trace, "e0");
    assert_eq!((refused["type"].as_str(), refused["ok"].as_bool()), (Some("message"), Some(false)));
    let broken = event(&trace, "c:r");
    assert_eq!((broken["ok"].as_bool(), broken["x_error_type"].as_str()), (Some(false), Some("timeout")));
    assert!(broken["content_ref"].is_string());
}

#[test]
fn approvals_inputs_and_interrupts() {
    let approval = |by: &str, decision: &str, second| {
        let call = json!({"id": "c", "function": "f", "arguments": {}});
        at(
            second,
            json!({"event": "approval", "approver": by, "decision": decision, "call": call, "message": ""}),
        )
    };
    let trace = of(vec![
        model("", 0, 1, "", &["c:f"]),
        approval("policy", "escalate", 2),
        approval("human", "approve", 3),
        tool("", 4, 5, "c", "f", "r"),
        at(6, json!({"event": "input", "input": "> yes", "input_ansi": ""})),
        at(7, json!({"event": "interrupt", "source": "limit", "interrupted": "generate"})),
        at(8, json!({"event": "interrupt", "source": "user_cancel", "interrupted": "generate"})),
        model("", 9, 10, "x", &[]),
    ]);
    let told: Vec<String> =
        events(&trace).into_iter().filter(|e| e.contains("_intervention") || e.contains("safety_")).collect();
    assert_eq!(
        told,
        [
            "e1 safety_event policy main",
            "e2 human_intervention user main",
            "e4 human_intervention user main",
            "e6 human_intervention user main",
        ]
    );
    assert_eq!(event(&trace, "e1")["x_decision"], "escalate");
    let drawn = edges(&trace);
    assert!(
        drawn.contains("c causal e1") && drawn.contains("c causal e2") && drawn.contains("e4 message e7"),
        "{drawn:?}"
    );
}

#[test]
fn messages_tell_where_events_were_not_logged() {
    let mut sample = sample(&json!(1), 1, vec![]);
    let call = json!({"id": "c", "function": "f", "arguments": {}});
    sample["messages"] = json!([
        {"role": "system", "content": "s"}, user("question"),
        {"role": "assistant", "content": "look", "tool_calls": [call], "id": "a1"},
        {"role": "tool", "content": "r", "tool_call_id": "c", "function": "f"},
        {"role": "assistant", "content": "done", "model": "m"}
    ]);
    sample["model_usage"] = json!({"x/m": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}});
    sample["total_time"] = 3.5.into();
    let trace = trace(sample);
    assert_eq!(
        events(&trace),
        [
            "message:1 message user main",
            "c tool_call main -",
            "a1 message main -",
            "c:r tool_result f -",
            "message:4 return main user",
        ]
    );
    assert_eq!(trace["events"][0]["x_trace"]["time_basis"], "ordinal");
    assert_eq!(
        (trace["costs"]["tokens"].as_i64(), trace["costs"]["wall_clock_s"].as_f64()),
        (Some(12), Some(3.5))
    );
}

#[test]
fn times_that_are_missing_or_no_times() {
    let mut odd = model("", 5, 6, "b", &["c:f"]);
    odd["timestamp"] = 17.into();
    odd["completed"] = "yesterday".into();
    let mut bare = tool("", 0, 0, "c", "f", "r");
    bare.as_object_mut().unwrap().retain(|key, _| key != "timestamp" && key != "completed");
    let trace = of(vec![model("", 0, 1, "a", &[]), odd, bare, model("", 7, 8, "c", &[])]);
    let times: Vec<f64> = list(&trace).iter().map(|e| e["t"].as_f64().unwrap()).collect();
    assert_eq!(times, [0.0, 1.0, 1.0, 1.0, 1.0, 8.0]);
    assert!(event(&trace, "c:r")["x_partial"].is_null(), "it has a result");
    // What began and did not end has no result.
    let mut pending = tool("", 2, 2, "c", "f", "");
    pending["pending"] = true.into();
    let trace = of(vec![model("", 0, 1, "", &["c:f"]), pending, model("", 3, 4, "x", &[])]);
    assert_eq!(event(&trace, "c")["x_partial"], true);
    assert!(!events(&trace).iter().any(|e| e.starts_with("c:r")));
}

#[test]
fn models_of_older_logs_have_one_time() {
    let mut one = model("", 10, 0, "a", &[]);
    one.as_object_mut().unwrap().remove("completed");
    let end = |event: &Json, next: u32| {
        let trace =
            of(vec![at(9, json!({"event": "info"})), event.clone(), at(next, json!({"event": "state"}))]);
        let found = super::tests::event(&trace, "e1");
        (found["t"].as_f64().unwrap(), found["duration_s"].as_f64())
    };
    assert_eq!(end(&one, 10), (1.0, None));
    // It is noted when it begins if what follows leaves room for how long it took, else when it is over.
    one["output"]["time"] = 4.0.into();
    assert_eq!(end(&one, 14), (5.0, Some(4.0)));
    assert_eq!(end(&one, 11), (4.0, Some(4.0)));
}

#[test]
fn calls_without_results_and_results_without_calls() {
    let trace = of(vec![
        model("", 0, 1, "", &["c1:f", "c1:f"]),
        tool("", 1, 2, "c1", "f", "r"),
        tool("", 1, 2, "c9", "g", "r"),
        model("", 3, 4, "x", &[]),
    ]);
    assert_eq!(event(&trace, "c1~2")["type"], "tool_call");
    let drawn = edges(&trace);
    assert!(
        drawn.contains("c9 return c9:r"),
        "a tool that no model asked for is called by the agent: {drawn:?}"
    );
    assert_eq!(drawn.iter().filter(|e| e.ends_with(" return c1:r")).count(), 1);
}

#[test]
fn unknown_events_are_counted() {
    let events = vec![
        model("", 0, 1, "x", &[]),
        at(2, json!({"event": "telepathy"})),
        at(3, json!({"event": "telepathy"})),
    ];
    let store = read(&log(vec![sample(&json!(1), 1, events)]));
    assert_eq!(column(&store, "findings", "message"), ["2 events of the unknown kind 'telepathy'"]);
}

#[test]
fn bad_samples_leave_the_others_alone() {
    let good = || sample(&json!(1), 1, vec![model("", 0, 1, "x", &[])]);
    let mut bad = good();
    bad.as_object_mut().unwrap().remove("epoch");
    let store = read(&log(vec![bad, json!(5), good(), json!({"id": 3, "epoch": 1, "scores": {}})]));
    assert_eq!(column(&store, "quarantine", "code"), ["field.missing", "record.not_object"]);
    assert_eq!(
        tally(&store),
        [
            ("used".into(), String::new(), 1),
            ("ignored".into(), "inspect.summaries".into(), 1),
            ("quarantined".into(), String::new(), 2),
        ]
    );
}

#[test]
fn broken_and_empty_inputs() {
    for text in ["", "\n\n", "[]"] {
        let store = read_texts(&Inspect, &[("a.json", text)]);
        assert_eq!((store.n_traces(), store.records_quarantined()), (0, 0), "{text:?}");
    }
    let whole = log(vec![sample(&json!(1), 1, vec![model("", 0, 1, "x", &[])])]).to_string();
    for cut in (1..whole.len()).step_by(17) {
        let store = read_texts(&Inspect, &[("a.json", &whole[..cut])]);
        assert_eq!((store.n_traces(), store.records_quarantined()), (0, 1), "cut at {cut}");
    }
    let none = read(&log(vec![]));
    assert_eq!(tally(&none), [("ignored".into(), "inspect.no_samples".into(), 1)]);
}

#[test]
fn odd_bytes_are_replaced_and_long_lines_read() {
    let long = "x".repeat(5 << 20);
    let text =
        log(vec![sample(&json!(1), 1, vec![model("", 0, 1, &long, &[]), model("", 2, 3, "SURROGATE", &[])])]);
    let text = text.to_string().replace("SURROGATE", "\\ud800");
    let store = read_texts(&Inspect, &[("a.json", &text)]);
    assert_eq!(column(&store, "findings", "code"), ["utf8.replaced"]);
    let mut bytes = text.replace("quiz", "qu?z").into_bytes();
    let odd = bytes.windows(4).position(|w| w == b"qu?z").unwrap() + 2;
    bytes[odd] = 0xff;
    let store = read_bytes(Format::Spread(&Inspect), &[("a.json", &bytes)], &ReadOptions::default(), 1);
    assert_eq!((store.n_traces(), store.records_quarantined()), (1, 0));
    assert_eq!(documents(&store)[0]["task_id"], "qu\u{FFFD}z/1");
    assert!(column(&store, "findings", "code").contains(&"utf8.replaced".to_owned()));
}

#[test]
fn a_log_that_is_there_twice_is_read_once() {
    let text = log(vec![sample(&json!(1), 1, vec![model("", 0, 1, "x", &[])])]);
    let pretty = serde_json::to_string_pretty(&text).unwrap();
    let plain = text.to_string();
    for (second, path) in [(&plain, "b/a.json"), (&pretty, "c.json")] {
        let store = read_texts(&Inspect, &[("a.json", &plain), (path, second)]);
        assert_eq!(store.n_traces(), 1);
        let total: u64 =
            tally(&store).iter().filter(|(status, ..)| status == "duplicate").map(|(.., n)| n).sum();
        assert_eq!(total, 1);
        assert_eq!(documents(&store), documents(&read(&text)));
    }
}

#[test]
fn entries_of_archives_know_their_evaluation() {
    use crate::columns::quarantine::Position;
    use crate::importers::items::ItemColumns;
    let header = json!({"version": 2, "eval": log(vec![])["eval"], "plan": {}}).to_string();
    let one = sample(&json!(1), 2, vec![model("", 0, 1, "x", &[])]).to_string();
    let entries = [
        ("_journal/start.json", header.clone()),
        ("header.json", header.clone()),
        ("summaries.json", "[]".into()),
        ("_journal/summaries/1.json", "[]".into()),
        ("reductions.json", "[]".into()),
        ("samples/1_epoch_2.json", one.clone()),
    ];
    let limits = ReadOptions::default().records.limits;
    let mut columns = ItemColumns::default();
    for (number, (entry, text)) in entries.iter().enumerate() {
        let path = format!("logs/x.eval/{entry}");
        let record = Record { text, stem: "x", path: &path, header: &header, replaced: false };
        let mut out = Items::new(&mut columns, limits, &record, Position::default(), number as u64);
        Inspect.items(&record, &mut out).unwrap();
    }
    let kinds: Vec<&str> = columns.ignored.iter().map(|kind| columns.kinds.name(*kind)).collect();
    let journal =
        ["inspect.journal", "inspect.header", "inspect.summaries", "inspect.summaries", "inspect.reductions"];
    assert_eq!(kinds, journal);
    assert_eq!(columns.piece.rows.len(), 1);
    assert_eq!(columns.keys.name(columns.piece.rows[0].trace), "R/T/1/2");
    // A sample that was taken out of its archive stands for itself.
    let store = read_texts(&Inspect, &[("1_epoch_2.json", &one)]);
    let trace = documents(&store).remove(0);
    assert!(trace["trace_id"].as_str().unwrap().starts_with("sample/"));
    assert_eq!(trace["task_id"], trace["trace_id"]);
}

#[test]
fn only_own_files_are_taken() {
    let sure = |text: &str, path: &str| {
        let limits = Limits { depth: 128, string: usize::MAX, lenient: true };
        Inspect.sniff(Tree::parse(text, limits).unwrap().root(), path)
    };
    let one = sample(&json!(1), 1, vec![]);
    assert_eq!(sure(&log(vec![]).to_string(), "x"), Confidence::Yes);
    assert_eq!(sure(&one.to_string(), "x"), Confidence::Yes);
    let bare = json!({"events": [at(0, json!({"event": "model"}))]});
    assert_eq!(sure(&bare.to_string(), "x"), Confidence::Yes);
    for other in [
        r#"{"trace_id":"a","task_id":"b","events":[],"edges":[],"rewards":{},"costs":{}}"#,
        r#"{"trace_id":"a","events":[{"event":"x","timestamp":1}],"edges":[]}"#,
        r#"{"suite_name":"a","user_task_id":"b","messages":[]}"#,
        r#"{"history":[],"mistake_agent":"x","events":[]}"#,
        r#"{"task_id":1,"traj":[],"reward":1}"#,
        "[]",
        "5",
    ] {
        assert_eq!(sure(other, "a.json"), Confidence::No, "{other}");
    }
}
