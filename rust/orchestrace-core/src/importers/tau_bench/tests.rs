use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::TauBench;
use crate::importers::testing::{counts, documents, edges_of, fields, is_partial, only, read_texts, set};
use crate::store::Store;

mod edge_cases;

fn calls(id: &str, name: &str, arguments: &str, content: Option<&str>) -> Json {
    json!({"role": "assistant", "content": content, "tool_calls":
        [{"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}]})
}

fn gives(id: &str, name: &str, text: &str) -> Json {
    json!({"role": "tool", "tool_call_id": id, "name": name, "content": text})
}

fn says(role: &str, text: &str) -> Json {
    json!({"role": role, "content": text})
}

fn run(task: Json, trial: u32, reward: f64, traj: Json) -> Json {
    let mut run = json!({"reward": reward, "trial": trial, "info": {
        "task": {"user_id": "u", "instruction": "i", "actions":
            [{"name": "find", "kwargs": {"id": "A", "n": 1}}, {"name": "book", "kwargs": {"id": "B"}}]},
        "source": "user", "user_cost": 0.25,
        "reward_info": {"reward": reward, "info": {"r_actions": true, "gt_data_hash": "h"}, "actions": []}}});
    run["task_id"] = task;
    run["traj"] = traj;
    run
}

fn talk() -> Json {
    json!([
        says("system", "be good"),
        says("user", "hello"),
        says("assistant", "what?"),
        says("user", "book A"),
        calls("c", "find", r#"{"n": 1, "id": "A"}"#, None),
        gives("c", "find", "Error: none"),
        calls("c", "find", r#"{"id": "C"}"#, Some("let me see")),
        gives("c", "find", "found"),
        says("assistant", "there is C"),
        says("user", "fine\n###STOP###"),
    ])
}

fn store(texts: &[(&str, &str)]) -> Store {
    read_texts(&TauBench, texts)
}

fn trace(run: &Json) -> Json {
    only(&store(&[("x/model-airline.json.gz", &json!([run]).to_string())]))
}

/// `id type agent to turn`.
fn events(trace: &Json) -> Vec<String> {
    fields(trace, &["id", "type", "agent", "to", "turn"])
}

#[test]
fn a_trajectory_becomes_a_trace_whose_turns_are_its_messages() {
    let trace = trace(&run(json!(3), 2, 1.0, talk()));
    assert_eq!(
        (&trace["trace_id"], &trace["task_id"]),
        (&json!("model-airline/3/2"), &json!("model-airline/3"))
    );
    assert_eq!(
        events(&trace),
        [
            "1 message user_simulator assistant 1",
            "2 message assistant user_simulator 2",
            "3 message user_simulator assistant 3",
            "c tool_call assistant - 4",
            "c:r tool_result find - 4",
            "c~2 tool_call assistant - 6",
            "6 message assistant user_simulator 6",
            "c:r~2 tool_result find - 6",
            "8 return assistant user_simulator 8",
            "9 message user_simulator assistant 9",
        ]
    );
    assert_eq!(
        edges_of(&trace, "return"),
        set(&["c c:r", "c~2 c:r~2"]),
        "ids that come again are the latest"
    );
    assert_eq!(
        edges_of(&trace, "message"),
        set(&["1 2", "2 3", "3 c", "6 9", "8 9"]),
        "each leads to what its addressee says next"
    );
    let ok: Vec<_> = trace["events"].as_array().unwrap().iter().filter_map(|e| e["ok"].as_bool()).collect();
    assert_eq!(ok, [false, true]);
    assert_eq!(trace["rewards"], json!({"team": 1}));
    assert_eq!(
        trace["metrics"],
        json!({"r_actions": 1, "user_cost": 0.25, "expected_actions": 2, "expected_actions_made": 1})
    );
    assert_eq!((&trace["costs"]["tool_calls"], is_partial(&trace)), (&json!(2), false));
}

#[test]
fn who_transfers_the_user_has_answered() {
    let mut log = talk();
    log.as_array_mut().unwrap().truncate(4);
    log.as_array_mut().unwrap().extend([
        calls("t", "transfer_to_human_agents", r#"{"summary": "s"}"#, None),
        gives("t", "transfer_to_human_agents", "Transfer successful"),
    ]);
    let mut run = run(json!("3"), 0, 0.0, log);
    // Even where the verdict is not recorded.
    run["info"]["reward_info"] = Json::Null;
    let trace = trace(&run);
    assert_eq!(
        events(&trace)[3..],
        [
            "t tool_call assistant - 4",
            "4 return assistant user_simulator 4",
            "t:r tool_result transfer_to_human_agents - 4",
        ]
    );
    assert_eq!(trace["events"][4]["content_ref"], trace["events"][3]["content_ref"]);
    assert!(!is_partial(&trace));
}

#[test]
fn a_run_that_is_out_of_steps_has_a_reward_but_no_answer() {
    let mut log = talk();
    log.as_array_mut().unwrap().truncate(9);
    let mut run = run(json!(3), 0, 0.0, log);
    run["info"]["reward_info"] = Json::Null;
    let trace = trace(&run);
    assert!(is_partial(&trace));
    assert_eq!(events(&trace).last().unwrap(), "8 message assistant user_simulator 8");
    assert_eq!(trace["rewards"]["team"], 0);
}

#[test]
fn a_crash_is_no_failure_of_the_agent() {
    let mut crashed = run(json!(3), 0, 0.0, talk());
    crashed["info"] = json!({"error": "rate limit", "traceback": "..."});
    let found = trace(&crashed);
    assert!(is_partial(&found));
    assert_eq!(found["rewards"], json!({}));
    crashed["traj"] = json!([]);
    let store = store(&[("a.json", &json!([crashed]).to_string())]);
    assert_eq!(store.n_traces(), 0);
    assert_eq!(counts(&store), [("a.json".into(), "ignored".into(), "tau_bench.crashed".into(), 1)]);
}

#[test]
fn logs_of_other_versions_are_read() {
    let mut log = talk();
    for (index, message) in log.as_array_mut().unwrap().iter_mut().enumerate() {
        let message = message.as_object_mut().unwrap();
        for (key, value) in [("index", json!(index + 1)), ("refusal", Json::Null), ("annotations", json!([]))]
        {
            message.insert(key.into(), value);
        }
        message.entry("tool_calls").or_insert(Json::Null);
    }
    assert_eq!(trace(&run(json!(3), 2, 1.0, log)), trace(&run(json!(3), 2, 1.0, talk())));
}

#[test]
fn what_is_no_run_is_quarantined_and_what_is_odd_is_told() {
    let good = run(json!(1), 0, 1.0, talk());
    let mut no_task = good.clone();
    no_task["task_id"] = json!({});
    let mut no_log = good.clone();
    no_log["traj"] = json!(7);
    let mut odd = run(json!(2), 0, 1.0, talk());
    odd["traj"].as_array_mut().unwrap().push(json!({"role": "critic"}));
    let text = json!([good, no_task, no_log, 5, odd]).to_string();
    let found = store(&[("a.json", &text)]);
    assert_eq!((found.n_traces(), found.records_quarantined()), (2, 3));
    let cut = store(&[("a.json", &text[..text.len() - 20])]);
    assert_eq!((cut.n_traces(), cut.records_quarantined()), (1, 4));
    let empty = store(&[("a.json", "[]"), ("b.json", ""), ("c.json", "\n \n")]);
    assert_eq!((empty.n_traces(), empty.records_quarantined()), (0, 0));
}

#[test]
fn copies_are_one_run_and_files_of_one_name_do_not_hide_each_other() {
    let one = json!([run(json!(1), 0, 1.0, talk())]).to_string();
    let other = json!([run(json!(1), 0, 0.0, talk())]).to_string();
    let found = store(&[("a/r.json", &one), ("b/r.json", &other), ("c/r.json", &one)]);
    let statuses: BTreeSet<_> = counts(&found).into_iter().map(|(_, status, _, n)| (status, n)).collect();
    assert_eq!(found.n_traces(), 2);
    assert!(statuses.contains(&("duplicate".into(), 1)), "{statuses:?}");
}

#[test]
fn any_prefix_gives_the_runs_that_it_has_whole() {
    let text = json!([run(json!(1), 0, 1.0, talk()), run(json!(2), 0, 0.0, talk())]).to_string();
    let whole = documents(&store(&[("a.json", &text)]));
    for end in (0..=text.len()).step_by(17) {
        let found = documents(&store(&[("a.json", &text[..end])]));
        assert_eq!(found[..], whole[..found.len()]);
    }
}

/// A document of tau2-bench with two runs of a task; messages carry a time of every second.
fn results() -> Json {
    let mut seconds = 0;
    let mut at = |mut message: Json| {
        message["timestamp"] = json!(format!("2025-06-01T10:00:{seconds:02}.500000"));
        message["turn_idx"] = json!(seconds);
        seconds += 1;
        message
    };
    let call = |id: &str, name: &str, by: &str| json!([{"id": id, "name": name, "arguments": {"x": 1}, "requestor": by}]);
    let messages = json!([
        at(json!({"role": "assistant", "content": "Hi", "cost": 0.0, "usage": null, "tool_calls": null})),
        at(json!({"role": "user", "content": "no signal", "cost": 0.5,
                  "usage": {"prompt_tokens": 10, "completion_tokens": 2}})),
        at(
            json!({"role": "assistant", "content": "", "tool_calls": call("a", "reboot", "assistant"), "cost": 0.25,
                  "usage": {"prompt_tokens": 20, "completion_tokens": 3}, "generation_time_seconds": 0.5})
        ),
        at(json!({"role": "tool", "id": "a", "content": "ok", "requestor": "assistant", "error": false})),
        at(json!({"role": "assistant", "content": "toggle it", "tool_calls": null})),
        at(json!({"role": "user", "content": null, "tool_calls": call("b", "toggle", "user")})),
        at(json!({"role": "tool", "id": "b", "content": "boom", "requestor": "user", "error": true})),
        at(json!({"role": "user", "content": "done ###STOP###", "tool_calls": null})),
    ]);
    json!({"timestamp": "2025-06-01T11:00:00", "tasks": [{"id": "t1"}],
    "info": {"agent_info": {"llm": "gpt"}, "user_info": {"llm": "sim"},
             "environment_info": {"domain_name": "telecom"}},
    "simulations": [
        {"id": "s1", "task_id": "t1", "trial": 0, "start_time": "2025-06-01T10:00:00.000000",
         "end_time": "2025-06-01T10:00:08", "duration": 7.75, "termination_reason": "user_stop",
         "agent_cost": 0.25, "user_cost": 0.5, "messages": messages,
         "reward_info": {"reward": 1.0, "db_check": {"db_match": true, "db_reward": 1.0},
            "action_checks": [{"action_match": true}, {"action_match": false}],
            "env_assertions": [{"met": true, "reward": 1.0}], "nl_assertions": null,
            "communicate_checks": []}},
        {"id": "s2", "task_id": "t1", "trial": 1, "duration": 1.0, "agent_cost": 0.125, "user_cost": null,
         "termination_reason": "infrastructure_error", "messages": [{"role": "assistant", "content": "Hi"}],
         "reward_info": {"reward": 0.0}},
        {"id": "s3", "trial": 2, "messages": []},
    ]})
}

#[test]
fn in_simulations_the_caller_is_who_requested() {
    let found = store(&[("results.json", &results().to_string())]);
    assert_eq!((found.n_traces(), found.records_quarantined()), (2, 1));
    let documents = documents(&found);
    let trace = &documents[0];
    assert_eq!((&trace["trace_id"], &trace["task_id"]), (&json!("s1"), &json!("telecom/t1")));
    assert_eq!(trace["events"][0]["x_trace"]["group_id"], "telecom/t1/gpt");
    assert_eq!(
        events(trace),
        [
            "0 message assistant user_simulator 0",
            "1 message user_simulator assistant 1",
            "a tool_call assistant - 2",
            "a:r tool_result reboot - 2",
            "4 return assistant user_simulator 4",
            "b tool_call user_simulator - 5",
            "b:r tool_result toggle - 5",
            "7 message user_simulator assistant 7",
        ]
    );
    assert_eq!(edges_of(trace, "return"), set(&["a a:r", "b b:r"]));
    let call = &trace["events"][2];
    assert_eq!(
        (&call["model"], &call["tokens_in"], &call["cost_usd"]),
        (&json!("gpt"), &json!(20), &json!(0.25))
    );
    assert_eq!((&call["t"], &call["duration_s"]), (&json!(2.5), &json!(0.5)));
    assert_eq!((&trace["events"][6]["ok"], &trace["events"][1]["model"]), (&json!(false), &json!("sim")));
    assert_eq!(trace["rewards"], json!({"team": 1, "tool": 0.5}));
    assert_eq!(trace["metrics"], json!({"db_match": 1, "env_assertions": 1}));
    assert_eq!((&trace["costs"]["tokens"], &trace["costs"]["wall_clock_s"]), (&json!(23), &json!(7.75)));
    assert_eq!((&trace["costs"]["cost_usd"], &trace["costs"]["user_cost_usd"]), (&json!(0.25), &json!(0.5)));
    assert_eq!(trace["costs"]["user_tokens"], 12, "what the user's model uses is no cost of the run");

    let other = &documents[1];
    assert!(is_partial(other) && !is_partial(trace));
    assert_eq!(other["rewards"], json!({}), "nothing was judged");
    assert_eq!(other["costs"]["cost_usd"], 0.125);
}

#[test]
fn a_simulation_may_have_a_file_of_its_own() {
    let all = results();
    let mut one = all["simulations"][0].clone();
    let found = documents(&store(&[("simulations/s1.json", &one.to_string())]));
    assert_eq!((&found[0]["trace_id"], &found[0]["task_id"]), (&json!("s1"), &json!("t1")));
    one.as_object_mut().unwrap().remove("id");
    let found = documents(&store(&[("simulations/x.json", &one.to_string())]));
    assert_eq!(found[0]["trace_id"], "x/t1/0");
}

#[test]
fn runs_by_voice_are_told_by_ticks() {
    let chunk = |role: &str, text: &str, at: &str| json!({"role": role, "content": text, "timestamp": at});
    let run = json!({"id": "v", "task_id": "t", "termination_reason": "user_stop", "messages": null, "ticks": [
        {"tick_id": 0, "timestamp": "2025-06-01T10:00:01", "agent_chunk": null,
         "user_chunk": chunk("user", "hello", "2025-06-01T10:00:01"), "agent_tool_calls": []},
        {"tick_id": 1, "timestamp": "2025-06-01T10:00:02",
         "agent_chunk": chunk("assistant", "one moment", "2025-06-01T10:00:02"),
         "agent_tool_calls": [{"id": "a", "name": "look", "arguments": {}, "requestor": "assistant"}],
         "agent_tool_results": [{"id": "a", "role": "tool", "content": "x", "error": false}], "user_chunk": null},
    ]});
    let found = documents(&store(&[("a.json", &run.to_string())]));
    assert_eq!(
        events(&found[0]),
        [
            "0 message user_simulator assistant 0",
            "a tool_call assistant - 1",
            "1 return assistant user_simulator 1",
            "a:r tool_result look - 1",
        ]
    );
}

#[test]
fn results_that_came_together_are_paired_one_by_one() {
    let mut all = results();
    let messages = all["simulations"][0]["messages"].as_array_mut().unwrap();
    let first = messages[3].clone();
    messages[2]["tool_calls"]
        .as_array_mut()
        .unwrap()
        .push(json!({"id": "a2", "name": "status", "arguments": {}, "requestor": "assistant"}));
    messages[3] = json!({"role": "tool", "tool_messages": [
        {"id": "a2", "role": "tool", "content": "up", "requestor": "assistant", "error": false,
         "timestamp": first["timestamp"]}, first]});
    let found = documents(&store(&[("results.json", &all.to_string())]));
    assert_eq!(edges_of(&found[0], "return"), set(&["a a:r", "a2 a2:r", "b b:r"]));
}
