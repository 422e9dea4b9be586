//! Custom formats of our own invention, one for each way that people lay out their logs.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use serde_json::{Value as Json, json};

use super::Mapping;
use crate::importers::testing::{counts, documents, read_bytes};
use crate::importers::{Format, Mapping as House, detect_sure};
use crate::ingest::ReadOptions;
use crate::store::{Store, text_at};

fn house(mapping: &Json) -> &'static House {
    Mapping::named(&mapping.to_string(), "house.toml").unwrap()
}

fn read(mapping: &Json, inputs: &[(&str, &str)]) -> Store {
    let inputs: Vec<(&str, &[u8])> = inputs.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
    read_bytes(Format::Spread(house(mapping)), &inputs, &ReadOptions::default(), 1)
}

fn lines(records: &[Json]) -> String {
    records.iter().fold(String::new(), |out, record| out + &record.to_string() + "\n")
}

/// Type, agent and id of each event.
fn events(document: &Json) -> Vec<String> {
    let word = |event: &Json, key: &str| event[key].as_str().unwrap_or("-").to_owned();
    let events = document["events"].as_array().unwrap().iter();
    events.map(|e| format!("{} {} {}", word(e, "type"), word(e, "agent"), word(e, "id"))).collect()
}

fn edges(document: &Json) -> Vec<String> {
    let word = |edge: &Json, key: &str| edge[key].as_str().unwrap_or("-").to_owned();
    let edges = document["edges"].as_array().unwrap().iter();
    let mut edges: Vec<String> = edges
        .map(|e| format!("{} {} {}", word(e, "type"), word(e, "src"), word(e, "dst")))
        .filter(|e| !e.starts_with("temporal"))
        .collect();
    edges.sort();
    edges
}

fn rejects(store: &Store) -> Vec<(String, String, String)> {
    let rows = store.combined("quarantine").unwrap();
    let text = |column: usize, row: usize| text_at(rows.column(column), row).unwrap_or_default().to_owned();
    (0..rows.num_rows()).map(|row| (text(4, row), text(5, row), text(6, row))).collect()
}

fn findings(store: &Store) -> Vec<(String, u32, String)> {
    let rows = store.combined("findings").unwrap();
    let text = |column: usize, row: usize| text_at(rows.column(column), row).unwrap_or_default().to_owned();
    let count = rows.column(2).as_primitive::<UInt32Type>();
    (0..rows.num_rows()).map(|row| (text(1, row), count.value(row), text(4, row))).collect()
}

#[test]
fn input_may_be_told_by_its_parts() {
    let mapping = json!({
        "name": "acme", "trace": {"id": "/run"},
        "step": {"kind": "=response", "id": "/id", "agent": "/who", "content": "/text",
                 "fresh": "/new", "cached": "/hit", "cache_write": "/kept", "tokens_out": "/out", "reasoning": "/thought"},
    });
    let log = [
        json!({"run": "r", "id": "e", "who": "a", "text": "x", "new": 5, "hit": 90, "kept": 3, "out": 7, "thought": 4}),
    ];
    let store = read(&mapping, &[("log.jsonl", &lines(&log))]);
    let trace = &documents(&store)[0];
    let kinds = ["tokens_in", "tokens_cached", "tokens_cache_write", "tokens_out", "tokens_reasoning"];
    let counts = kinds.map(|kind| trace["events"][0][kind].as_i64());
    assert_eq!(counts, [Some(98), Some(90), Some(3), Some(7), Some(4)]);
    assert_eq!(trace["costs"]["tokens"], 105);
}

/// A record an event: a team of two, whose lead makes the other work.
fn team() -> Json {
    json!({
        "name": "acme",
        "trace": {"id": "/run", "task": "/job", "group": "/batch", "reward": "/verdict/score"},
        "step": {
            "kind": {"at": "/ev", "words": {
                "llm": "response", "use": "call", "got": "result", "hire": "spawn", "done": "return",
                "ask": "input", "end": "trace", "beat": "ignore"}},
            "id": "/id", "agent": "/who", "role": "/job_title", "to": "/whom",
            "time": {"at": "/ms", "unit": "ms"}, "duration": {"at": "/took", "unit": "ms"},
            "model": "/model", "tokens_in": "/in", "tokens_out": "/out", "cost": "/usd",
            "tool": "/tool", "call": "/call", "arguments": "/args", "content": "/text",
            "ok": {"at": "/status", "words": {"fine": true, "broken": false}},
            "extras": {"shard": "/shard"},
        },
    })
}

fn team_log() -> Vec<Json> {
    vec![
        json!({"run": "r1", "job": "j", "batch": "b", "id": "e0", "ev": "ask", "who": "lead", "ms": 1_000, "text": "go"}),
        json!({"run": "r1", "id": "e1", "ev": "llm", "who": "lead", "ms": 3_000, "took": 2_000, "model": "m",
               "in": 10, "out": 5, "usd": 0.5, "shard": 7}),
        json!({"run": "r1", "id": "e2", "ev": "hire", "who": "lead", "ms": 3_001, "call": "c1", "whom": "aide",
               "args": {"b": 2, "a": 1}, "tool": "delegate"}),
        json!({"run": "r1", "ev": "beat"}),
        json!({"run": "r1", "id": "e3", "ev": "llm", "who": "aide", "job_title": "helper", "ms": 5_000, "in": 1, "out": 1}),
        json!({"run": "r1", "id": "e4", "ev": "use", "who": "aide", "ms": 5_001, "call": "c2", "tool": "grep",
               "args": "{\"q\": 1}"}),
        json!({"run": "r1", "id": "e5", "ev": "got", "call": "c2", "ms": 6_000, "took": 900, "text": "hit", "status": "fine"}),
        json!({"run": "r1", "id": "e6", "ev": "done", "who": "aide", "ms": 7_000, "in": 3, "out": 4, "text": "found"}),
        json!({"run": "r1", "ev": "got", "call": "c1", "ms": 7_100, "text": "found", "status": "odd"}),
        json!({"run": "r1", "id": "e7", "ev": "done", "who": "lead", "ms": 8_000, "text": "answer"}),
        json!({"run": "r1", "ev": "end", "verdict": {"score": 0.75}}),
    ]
}

#[test]
fn a_log_of_events_becomes_the_graph_of_a_team() {
    let store = read(&team(), &[("log.jsonl", &lines(&team_log()))]);
    assert_eq!(rejects(&store), []);
    let documents = documents(&store);
    let run = &documents[0];
    assert_eq!((run["trace_id"].as_str(), run["task_id"].as_str()), (Some("r1"), Some("j")));
    assert_eq!(run["rewards"]["team"], 0.75);
    assert_eq!(
        events(run),
        [
            "message user e0",
            "orchestrator_decision lead e1:d",
            "spawn lead c1:s",
            "tool_call aide c2",
            "tool_result grep e5",
            "return aide e6",
            "tool_result delegate c1:r",
            "aggregate lead e7",
        ]
    );
    assert_eq!(
        edges(run),
        [
            "aggregate e6 e7",
            "causal c1:r e7",
            "causal e5 e6",
            "message e0 e1:d",
            "return c2 e5",
            "return e6 c1:r",
            "spawn c1:s c2",
            "spawn e1:d c1:s",
        ]
    );
    let event = |at: usize| &run["events"][at];
    assert_eq!((event(0)["t"].as_f64(), event(1)["t"].as_f64()), (Some(0.0), Some(2.0)));
    assert_eq!(event(1)["duration_s"], 2.0);
    assert_eq!(event(1)["cost_usd"], 0.5);
    assert_eq!(event(1)["x_shard"], 7);
    assert_eq!(event(3)["role"], "helper");
    assert_eq!((event(4)["ok"].as_bool(), event(4)["duration_s"].as_f64()), (Some(true), Some(0.9)));
    // A word that the table does not have is no verdict.
    assert!(event(6)["ok"].is_null());
    assert_eq!(run["costs"]["tokens"], 24);
    let text = |text: &str| {
        let digest = crate::importers::recording::hash(text);
        digest.iter().fold("sha256:".to_owned(), |out, byte| out + &format!("{byte:02x}"))
    };
    assert_eq!(event(7)["content_ref"], text("answer"));
    // The arguments in whatever order, and as JSON in a text, have one hash (R9).
    assert_eq!(event(2)["content_ref"], text(r#"{"arguments":{"a":1,"b":2},"name":"delegate"}"#));
    assert_eq!(event(3)["content_ref"], text(r#"{"arguments":{"q":1},"name":"grep"}"#));
    let count = |status: &str, kind: &str, n: u64| ("log.jsonl".into(), status.into(), kind.into(), n);
    assert_eq!(counts(&store), [count("used", "", 10), count("ignored", "mapping.beat", 1)]);
}

#[test]
fn the_order_of_records_is_no_matter_where_a_field_says_it() {
    let mut mapping = team();
    mapping["step"]["order"] = json!("/ms");
    let mut log = team_log();
    for (at, record) in log.iter_mut().enumerate() {
        record["ms"] = json!(1_000 + at);
    }
    let in_order = documents(&read(&mapping, &[("log.jsonl", &lines(&log))]));
    for seed in 1..4 {
        log.rotate_left(seed * 2);
        log.swap(0, 5);
        let (one, other) = log.split_at(seed + 3);
        let spread = read(&mapping, &[("a.jsonl", &lines(one)), ("b.jsonl", &lines(other))]);
        assert_eq!(documents(&spread)[0]["events"], in_order[0]["events"]);
    }
}

#[test]
fn overlapping_files_give_the_same_trace() {
    let log = lines(&team_log());
    let half = lines(&team_log()[..6]);
    let once = documents(&read(&team(), &[("log.jsonl", &log)]));
    let twice = read(&team(), &[("early.jsonl", &half), ("log.jsonl", &log)]);
    assert_eq!(documents(&twice)[0]["events"], once[0]["events"]);
    assert!(counts(&twice).contains(&("log.jsonl".into(), "duplicate".into(), String::new(), 5)));
}

#[test]
fn a_document_has_a_list_of_steps() {
    // Chat messages, with calls inside of answers, as half of all logs have them.
    let mapping = json!({
        "steps": "/messages",
        "trace": {"id": {"join": ["/meta/run", "/attempt"]}, "task": "/meta/question",
                  "rewards": {"*": "/scores"}, "metrics": {"loops": "/loops"}, "costs": {"cost_usd": "/usd"},
                  "labels": {"each": "/blame", "annotator": "/by", "label": "/what", "event": "/step", "weight": "/sure"}},
        "step": {
            "kind": {"at": "/role", "words": {"assistant": "response", "user": "input", "tool": "result"}},
            "id": "/id", "agent": "=solver", "content": "/content", "call": "/tool_call_id",
            "model": "record:/meta/model", "tokens_out": "count:/ids",
            "calls": {"each": "/tool_calls", "call": "/id", "tool": "/function/name", "arguments": "/function/arguments"},
        },
    });
    let call = |id: &str| json!({"id": id, "function": {"name": "look", "arguments": "{}"}});
    let document = json!({
        "meta": {"run": "r", "model": "m1", "question": 17}, "attempt": 2, "loops": 3, "usd": 0.25,
        "scores": {"team": 1, "style": true, "note": "nice"},
        "blame": [{"by": "eve", "what": "late", "step": "m1", "sure": 0.5}],
        "messages": [
            {"role": "system", "content": "be good"},
            {"role": "user", "content": "hi", "id": "m0"},
            {"role": "assistant", "content": null, "id": "m1", "ids": [4, 5, 6], "tool_calls": [call("a"), call("b")]},
            {"role": "tool", "tool_call_id": "b", "content": "2"},
            {"role": "tool", "tool_call_id": "a", "content": ["1", {"z": 1, "y": 2}]},
            {"role": "assistant", "content": "done", "id": "m2", "ids": []},
        ],
    });
    let store = read(&mapping, &[("run.json", &document.to_string())]);
    assert_eq!(rejects(&store), []);
    let run = &documents(&store)[0];
    assert_eq!((run["trace_id"].as_str(), run["task_id"].as_str()), (Some("r:2"), Some("17")));
    assert_eq!(
        events(run),
        [
            "message user m0",
            "tool_call solver a",
            "tool_call solver b",
            "tool_result look b:r",
            "tool_result look a:r",
            "return solver m2",
        ]
    );
    assert_eq!(run["rewards"], json!({"team": 1, "style": 1}));
    assert_eq!(run["metrics"], json!({"loops": 3}));
    assert_eq!(run["costs"]["cost_usd"], 0.25);
    assert_eq!(
        (run["events"][1]["model"].as_str(), run["events"][1]["tokens_out"].as_i64()),
        (Some("m1"), Some(3))
    );
    assert!(run["events"][5]["tokens_out"].is_null(), "an empty list is none that was recorded");
    let labels = store.combined("labels").unwrap();
    let label = |column: usize| text_at(labels.column(column), 0).unwrap_or_default().to_owned();
    assert_eq!((label(1), label(2), label(5)), ("eve".into(), "a".into(), "late".into()));
    assert!(counts(&store).contains(&("run.json".into(), "ignored".into(), "mapping.system".into(), 1)));
}

#[test]
fn a_step_holds_call_and_result_without_ids() {
    let mapping = json!({
        "steps": "/trajectory",
        "trace": {"id": "file:stem", "reward": {"at": "/outcome", "words": {"solved": 1, "failed": 0}, "other": 0.5}},
        "step": {
            "kind": "=response", "agent": "=solver", "content": "/thought", "error": "/problem",
            "calls": {"tool": "/action", "arguments": "/input"},
            "results": {"content": "/observation", "trusted": "=false", "duration": {"at": "/s"}},
        },
    });
    let document = json!({
        "outcome": "solved",
        "trajectory": [
            {"thought": "look", "action": "search", "input": {"q": "x"}, "observation": "nothing", "s": "PT1.5S", "problem": ""},
            {"thought": "answer", "action": null, "problem": {"code": 3}},
        ],
    });
    let store = read(&mapping, &[("logs/run7.json.gz", &document.to_string())]);
    let run = &documents(&store)[0];
    assert_eq!(run["trace_id"], "run7");
    assert_eq!(run["rewards"]["team"], 1);
    assert_eq!(
        events(run),
        ["tool_call solver s0:c0", "message solver s0", "tool_result search s0:c0:r", "return solver s1"]
    );
    assert!(edges(run).contains(&"return s0:c0 s0:c0:r".into()));
    assert!(edges(run).contains(&"safety_flow s0:c0:r s1".into()));
    let oks: Vec<&Json> = run["events"].as_array().unwrap().iter().map(|e| &e["ok"]).collect();
    assert_eq!(oks, [&json!(true), &Json::Null, &Json::Null, &json!(false)]);
    assert_eq!(run["events"][2]["duration_s"], 1.5);
}

#[test]
fn lists_lie_in_lists_and_say_who_acts() {
    let mapping = json!({
        "steps": "/agents/*/log",
        "trace": {"id": "/run"},
        "step": {"kind": "=response", "agent": "up:/key", "agent_name": "up:/name", "parent": "up:/boss",
                 "content": "", "time": {"at": "record:/at", "unit": "s"}},
    });
    let document = json!({"run": 9, "at": 1_700_000_000.25, "agents": [
        {"key": 1, "name": "lead", "log": ["one", "two"]},
        {"key": 2, "name": "aide", "boss": 1, "log": ["three"]},
        {"key": 3, "name": "aide", "boss": 1, "log": []},
        {"key": 4, "name": "lost"},
    ]});
    let store = read(&mapping, &[("run.json", &document.to_string())]);
    let run = &documents(&store)[0];
    assert_eq!(
        events(run),
        ["message lead s0", "return lead s1", "spawn lead 2:s", "return aide s2"],
        "streams are told one after the other where times do not tell them apart"
    );
    assert_eq!(run["events"][3]["x_agent_id"], "2");
    let (code, path, message) = &rejects(&store)[0];
    assert_eq!((code.as_str(), path.as_str()), ("field.missing", "/agents/*/log"));
    assert_eq!(message, "found nothing, expected a list of steps");
    assert_eq!(counts(&store).iter().map(|row| row.3).sum::<u64>(), 4);
}

#[test]
fn records_that_do_not_fit_are_quarantined_and_spare_the_others() {
    let mapping = json!({
        "trace": {"id": ["/run", "/id"]},
        "step": {"kind": {"at": "/k", "words": {"say": "return", "hire": "spawn"}}, "to": "/to", "order": "/n",
                 "content": "/text", "time": "/t", "tokens": "/tokens", "agent": "/who"},
    });
    let log = [
        json!({"run": "a", "k": "say", "n": 1, "text": "x", "t": "2026-01-01 10:00:00"}),
        json!({"k": "say", "n": 1}),
        json!({"run": {"x": 1}, "k": "say", "n": 1}),
        json!({"run": "a", "n": 1}),
        json!({"run": "a", "k": ["say"], "n": 1}),
        json!({"run": "a", "k": "say", "n": "soon"}),
        json!({"run": "a", "k": "hire", "n": 3}),
        json!({"run": "a", "k": "cough", "n": 3}),
        json!({"run": "a", "k": "say", "n": 2.5, "text": "y", "t": 7, "tokens": "many"}),
        json!([1]),
    ];
    let text = lines(&log) + "{\"run\": \"a\", \"k\": \"sa";
    let store = read(&mapping, &[("log.jsonl", &text)]);
    let rejected = rejects(&store);
    let codes: Vec<(&str, &str)> =
        rejected.iter().map(|(code, path, _)| (code.as_str(), path.as_str())).collect();
    assert_eq!(
        codes,
        [
            ("field.missing", "/run"),
            ("field.type", "/run"),
            ("field.missing", "/k"),
            ("field.type", "/k"),
            ("field.type", "/n"),
            ("field.missing", "/to"),
            ("record.not_object", ""),
            ("input.truncated", ""),
        ]
    );
    assert_eq!(rejected[3].2, "found a list, expected the kind of a step");
    assert_eq!(rejected[4].2, "found 'soon', expected a number or a time to sort by");
    let run = &documents(&store)[0];
    assert_eq!(events(run), ["message agent s0", "return agent s1"]);
    let findings = findings(&store);
    // One row a code: the first message stands for both.
    let message = "time at /t: found 7, expected an RFC 3339 time (or a unit)";
    assert!(findings.contains(&("field.ignored".into(), 2, message.into())), "{findings:?}");
    assert!(findings.iter().any(|(code, ..)| code == "trace.partial"), "rejected steps are missing");
    let total: u64 = counts(&store).iter().map(|row| row.3).sum();
    assert_eq!(total, 11);
}

#[test]
fn what_is_written_twice_happened_twice_where_nothing_tells_it_apart() {
    let mapping = json!({"trace": {"id": "/r"}, "step": {"kind": "=response", "content": "/t"}});
    let log = r#"{"r": 1, "t": "again"}"#.to_owned() + "\n" + r#"{"r": 1, "t": "again"}"# + "\n";
    let store = read(&mapping, &[("log.jsonl", &log), ("copy.jsonl", &log)]);
    assert_eq!(events(&documents(&store)[0]), ["message agent s0", "return agent s1"]);
    assert!(counts(&store).contains(&("copy.jsonl".into(), "duplicate".into(), String::new(), 2)));
    // A record that is a trace of its own.
    let mapping = json!({"trace": {"id": "record:place", "task": "hash:/t", "group": {"join": ["/r", "hash:/t"], "with": "-"}},
                         "step": {"kind": "=response", "content": "/t"}});
    let store = read(&mapping, &[("log.jsonl", &log), ("copy.jsonl", &log)]);
    let traces = store.combined("traces").unwrap();
    let text = |name: &str, row: usize| {
        text_at(traces.column_by_name(name).unwrap(), row).unwrap_or_default().to_owned()
    };
    assert_eq!(traces.num_rows(), 2);
    assert_ne!(text("trace_id", 0), text("trace_id", 1));
    assert_eq!(text("task_id", 0), text("task_id", 1));
    assert_eq!(text("group_id", 1), format!("1-{}", text("task_id", 0)));
}

#[test]
fn times_that_count_from_the_start_have_no_date() {
    let mapping = json!({"trace": {"id": "/r"}, "step": {"kind": "=tool", "tool": "/tool",
        "time": {"at": "/t", "unit": "s", "since": "start"}, "duration": "/d"}});
    let log =
        lines(&[json!({"r": 1, "tool": "a", "t": 2.5, "d": 0.5}), json!({"r": 1, "tool": "b", "t": 4})]);
    let store = read(&mapping, &[("log.jsonl", &log)]);
    let run = &documents(&store)[0];
    let times: Vec<f64> =
        run["events"].as_array().unwrap().iter().map(|e| e["t"].as_f64().unwrap()).collect();
    assert_eq!(times, [0.0, 0.5, 2.0, 2.0]);
    let traces = store.combined("traces").unwrap();
    let started = traces.column_by_name("started_at").unwrap();
    assert_eq!(started.null_count(), 1);
    assert_eq!(text_at(traces.column_by_name("time_basis").unwrap(), 0), Some("seconds"));
}

#[test]
fn speakers_users_and_strangers() {
    let mapping = json!({
        "users": ["human", "qa"],
        "trace": {"id": "/r"},
        "step": {"kind": {"at": "/k", "words": {"m": "message", "i": "intervention", "c": "compaction", "s": "safety",
                 "h": "handoff", "x": "despawn"}, "other": "input"},
                 "agent": "/a", "to": "/to", "from": "/from", "content": "/t"},
    });
    let step = |k: &str, a: &str, to: &str, from: &str| json!({"r": 1, "k": k, "a": a, "to": to, "from": from, "t": format!("{k}{a}")});
    let log = lines(&[
        step("m", "human", "", ""),
        step("m", "ann", "bob", ""),
        step("m", "bob", "human", ""),
        step("z", "bob", "", "memory"),
        step("i", "bob", "", "qa"),
        step("s", "bob", "", ""),
        step("c", "bob", "", ""),
        step("h", "bob", "ann", ""),
        step("x", "ann", "bob", ""),
    ]);
    let store = read(&mapping, &[("log.jsonl", &log)]);
    let run = &documents(&store)[0];
    let events_of_run: Vec<String> = run["events"]
        .as_array()
        .unwrap()
        .iter()
        .map(|e| {
            let word = |key: &str| e[key].as_str().unwrap_or("-").to_owned();
            format!("{} {}>{}", word("type"), word("from"), word("to"))
        })
        .collect();
    assert_eq!(
        events_of_run,
        [
            "message user>ann",
            "message ann>bob",
            "message bob>user",
            "message memory>bob",
            "human_intervention user>bob",
            "safety_event ->-",
            "orchestrator_decision ->-",
            "message bob>ann",
            "despawn ->bob",
        ]
    );
}

#[test]
fn a_long_line_and_missing_things_cost_nobody_else() {
    let mut log = team_log();
    log[9]["text"] = json!("y".repeat(5 << 20));
    for record in &mut log {
        record.as_object_mut().unwrap().remove("ms");
    }
    log.push(json!({"run": "r1", "id": "e9", "ev": "got", "call": "gone", "text": "late"}));
    let store = read(&team(), &[("log.jsonl", &lines(&log))]);
    let run = &documents(&store)[0];
    assert_eq!(run["events"].as_array().unwrap().len(), 9);
    assert_eq!(events(run).last().unwrap(), "tool_result tool e9");
    let times: Vec<f64> =
        run["events"].as_array().unwrap().iter().map(|e| e["t"].as_f64().unwrap()).collect();
    assert!(times.is_sorted() && times[8] > times[0], "their order is all there is of time");
}

#[test]
fn threads_and_blocks_do_not_show() {
    let mut text = String::new();
    for run in 0..40 {
        for mut record in team_log() {
            record["run"] = json!(format!("r{run}"));
            text += &lines(&[record]);
        }
    }
    let format = Format::Spread(house(&team()));
    let inputs: &[(&str, &[u8])] = &[("log.jsonl", text.as_bytes())];
    let single = documents(&read_bytes(format, inputs, &ReadOptions::default(), 1));
    assert_eq!(single.len(), 40);
    for (threads, block_size, gather_budget) in [(2, 900, 1 << 20), (7, 4_000, 2_000)] {
        let options = ReadOptions { block_size, gather_budget, ..ReadOptions::default() };
        assert_eq!(documents(&read_bytes(format, inputs, &options, threads)), single);
    }
}

#[test]
fn any_prefix_of_a_log_is_read() {
    let log = lines(&team_log());
    let complete = documents(&read(&team(), &[("log.jsonl", &log)]));
    let complete = events(&complete[0]);
    for end in (0..log.len()).step_by(7) {
        let documents = documents(&read(&team(), &[("log.jsonl", &log[..end])]));
        let events_of_prefix = documents.first().map(events).unwrap_or_default();
        // The last event of a stream may yet become another one.
        let new = events_of_prefix.iter().filter(|event| !complete.contains(event)).count();
        assert!(new <= 2, "{end}: {events_of_prefix:?}");
    }
}

#[test]
fn mistakes_are_told_in_one_line() {
    let error = |mapping: Json| Mapping::named(&mapping.to_string(), "house.toml").unwrap_err().to_string();
    let with = |place: &str, value: Json| {
        let mut mapping = team();
        *mapping.pointer_mut(place).unwrap() = value;
        error(mapping)
    };
    let put = |section: &str, key: &str, value: Json| {
        let mut mapping = team();
        mapping.pointer_mut(section).unwrap()[key] = value;
        error(mapping)
    };
    for (message, expected) in [
        (error(json!([1])), "house.toml: the file: found a list, expected a table"),
        (error(json!({})), "house.toml: trace.id: found nothing, expected a JSON pointer"),
        (
            with("/trace", json!({"task": "/x"})),
            "house.toml: trace.id: found nothing, expected a JSON pointer",
        ),
        (with("/step", json!(3)), "house.toml: step: found 3, expected a table"),
        (put("", "stpes", json!("/x")), "house.toml: unknown key 'stpes'; did you mean 'steps'?"),
        (
            put("/step", "tokens_inn", json!("/x")),
            "house.toml: step: unknown key 'tokens_inn'; did you mean 'tokens_in'?",
        ),
        (
            put("", "steps", json!("x")),
            "house.toml: steps: found 'x', expected a JSON pointer that begins with '/'",
        ),
        (
            put("", "steps", json!("/x/*")),
            "house.toml: steps: found '/x/*', expected a pointer that ends with the list's key",
        ),
        (put("", "users", json!("me")), "house.toml: users: found 'me', expected a list of names"),
        (put("", "name", json!(3)), "house.toml: name: found 3, expected a text"),
        (
            with("/step/agent", json!("who")),
            "house.toml: step.agent: found 'who', expected a JSON pointer that begins with '/'",
        ),
        (with("/step/agent", json!("recrod:/x")), "house.toml: step.agent: unknown way 'recrod:/x'"),
        (with("/step/agent", json!("/a~2")), "house.toml: step.agent: found '/a~2', expected '~0' or '~1'"),
        (
            with("/step/agent", json!([])),
            "house.toml: step.agent: found a list, expected a JSON pointer, or a list of them",
        ),
        (
            with("/step/agent", json!({"join": "/x"})),
            "house.toml: step.agent.join: found '/x', expected a list of ways",
        ),
        (with("/step/time/unit", json!("min")), "house.toml: step.time.unit: unknown unit 'min'"),
        (
            with("/step/time", json!({"at": "/t", "since": "start"})),
            "house.toml: step.time: counts from the start and needs a unit",
        ),
        (
            with("/step/time", json!({"unit": "s"})),
            "house.toml: step.time.at: found nothing, expected a JSON pointer",
        ),
        (with("/step/agent", json!({"at": "/x", "unit": "s"})), "house.toml: step.agent: unknown key 'unit'"),
        (
            with("/step/kind/words/llm", json!("respnse")),
            "house.toml: step.kind: unknown kind 'respnse'; did you mean 'response'?",
        ),
        (with("/step/kind", json!("=answer")), "house.toml: step.kind: unknown kind 'answer'"),
        (
            with("/step/kind/words", json!({"a": [1]})),
            "house.toml: step.kind.words.a: found a list, expected a text, a number or a flag",
        ),
        (
            put("/step", "calls", json!({"each": "/x"})),
            "house.toml: step.calls.tool: found nothing, expected a JSON pointer",
        ),
        (
            put("/step", "start", json!({"at": "/s", "unit": "s", "since": "start"})),
            "house.toml: step.start: counts from a different origin",
        ),
        (
            put("/trace", "rewards", json!("/x")),
            "house.toml: trace.rewards: found '/x', expected a table of names",
        ),
    ] {
        assert!(message.starts_with(expected), "{message}\nexpected: {expected}");
        assert!(!message.contains('\n'));
    }
    let message = Mapping::named("{", "house.json").unwrap_err().to_string();
    assert!(message.starts_with("house.json: "), "{message}");
}

#[test]
fn dumps_of_trainers_are_told_by_their_content() {
    let name = |record: &Json| {
        let record = record.to_string();
        detect_sure(std::iter::once(record.as_bytes()), "x.jsonl").map(|format| format.info().name)
    };
    let rollout = json!({"input": "a", "output": "b", "gts": null, "score": 1, "step": 3});
    let row = json!({"step": 3, "prompt": "a", "completion": "b", "advantage": null});
    let episode = json!({"id": "t:0", "task": null, "is_correct": false, "trajectories": []});
    let batch = json!({"training_step": 3, "episode_files": []});
    let formats = [&rollout, &row, &episode, &batch].map(name);
    assert_eq!(formats, [Some("verl"), Some("trl"), Some("rllm"), Some("rllm")]);
    for (record, key) in [(&rollout, "score"), (&row, "advantage"), (&episode, "is_correct")] {
        let mut record = record.clone();
        record.as_object_mut().unwrap().remove(key);
        assert_eq!(name(&record), None, "{key}");
    }
    // An episode of many trajectories is one trace; what has no list of steps is counted, not lost.
    let store = read_bytes(
        Format::Spread(&crate::importers::RLLM),
        &[("a.json", episode.to_string().as_bytes()), ("b.json", batch.to_string().as_bytes())],
        &ReadOptions::default(),
        1,
    );
    let kinds: Vec<String> = counts(&store).into_iter().map(|row| row.2).collect();
    assert_eq!(kinds, ["rllm.no_steps", "rllm.batch_summary"]);
}

#[test]
fn results_without_ids_answer_the_oldest_call_of_their_tool() {
    let mapping = json!({
        "trace": {"id": "/r"},
        "step": {"kind": {"at": "/k", "words": {"c": "call", "r": "result"}}, "id": "/id", "agent": "/a",
                 "tool": "/t", "call": "/call", "content": "/x"},
    });
    let step = |k: &str, id: &str, t: &str| json!({"r": 1, "k": k, "id": id, "a": "ann", "t": t, "x": id});
    let mut log = vec![
        step("c", "1", "ls"),
        step("c", "2", "cat"),
        step("c", "3", "ls"),
        step("c", "4", "cat"),
        step("r", "r1", "cat"),
        step("r", "r2", "ls"),
        step("r", "r3", ""),
        step("r", "r4", ""),
        step("r", "r5", "ls"),
    ];
    // The one that says what it answers takes it out of the order.
    log[6]["call"] = json!("3");
    let store = read(&mapping, &[("log.jsonl", &lines(&log))]);
    let edges = edges(&documents(&store)[0]);
    let returns: Vec<&str> = edges.iter().filter_map(|edge| edge.strip_prefix("return ")).collect();
    assert_eq!(returns, ["1 r2", "2 r1", "3 r3", "4 r4"]);
}

#[test]
fn agents_of_agents_retries_repeated_ids_and_a_late_clock() {
    let mapping = json!({
        "trace": {"id": "/r"},
        "step": {"kind": {"at": "/k", "words": {"s": "spawn", "c": "call", "r": "result", "d": "return"}},
                 "id": "/id", "agent": "/a", "parent": "/boss", "to": "/to", "call": "/c", "tool": "/t",
                 "content": "/id", "ok": "/ok", "time": {"at": "/at", "unit": "s"}},
    });
    let log = [
        json!({"r": 1, "k": "s", "id": "1", "a": "lead", "to": "aide", "c": "h1", "at": 10_000}),
        json!({"r": 1, "k": "s", "id": "2", "a": "aide", "to": "clerk", "c": "h2", "at": 10_010}),
        // An hour behind; tried again under the same id.
        json!({"r": 1, "k": "c", "id": "3", "a": "clerk", "t": "ls", "c": "x", "at": 6_420}),
        json!({"r": 1, "k": "r", "id": "4", "c": "x", "ok": false, "at": 6_421}),
        json!({"r": 1, "k": "c", "id": "5", "a": "clerk", "t": "ls", "c": "x", "at": 6_422}),
        json!({"r": 1, "k": "r", "id": "4", "c": "x", "ok": true, "at": 6_423}),
        json!({"r": 1, "k": "d", "id": "6", "a": "clerk", "at": 6_424}),
        json!({"r": 1, "k": "d", "id": "7", "a": "aide", "at": 10_040}),
        json!({"r": 1, "k": "d", "id": "8", "a": "lead", "at": 10_050}),
        json!({"r": 1, "k": "d", "id": "9", "a": "guest", "boss": "host", "at": 10_060}),
    ];
    let store = read(&mapping, &[("log.jsonl", &lines(&log))]);
    let run = &documents(&store)[0];
    let mut events_of_run = events(run);
    events_of_run.sort();
    assert_eq!(
        events_of_run,
        [
            "aggregate lead 8",
            "orchestrator_decision aide 2:d",
            "orchestrator_decision lead 1:d",
            "return aide 7",
            "return clerk 6",
            "return guest 9",
            "spawn aide h2:s",
            "spawn host guest:s",
            "spawn lead h1:s",
            "tool_call clerk x",
            "tool_call clerk x~2",
            "tool_result ls 4",
            "tool_result ls 4~2",
        ]
    );
    let edges = edges(run);
    for edge in ["return x 4", "return x~2 4~2", "spawn h2:s x", "spawn h1:s 2:d", "spawn guest:s 9"] {
        assert!(edges.contains(&edge.to_owned()), "{edge} in {edges:?}");
    }
    let codes: Vec<String> = findings(&store).into_iter().map(|(code, ..)| code).collect();
    assert!(codes.contains(&"clock.skew".into()) && codes.contains(&"id.repeated".into()), "{codes:?}");
}

/// What a reading with the mapping in its options found: key, pointer, matched, of, types; and the store.
fn counted(mapping: &Json, inputs: &[(&str, &str)], options: &ReadOptions) -> (Vec<String>, Store) {
    let of = house(mapping);
    let options = ReadOptions { mapping: Some(of), ..options.clone() };
    let bytes: Vec<(&str, &[u8])> = inputs.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
    let store = read_bytes(Format::Spread(of), &bytes, &options, 2);
    let counts = store.mapping_counts().expect("a reading with a mapping counts");
    let lines_of_counts = counts.keys.iter().map(|k| {
        format!("{} {} {} of {} {}", k.key, k.pointer, k.matched, k.of, k.types).trim_end().to_owned()
    });
    (lines_of_counts.collect(), store)
}

fn unread(store: &Store) -> Vec<String> {
    let fields = store.mapping_counts().map(|counts| counts.unread.clone()).unwrap_or_default();
    fields.iter().map(|f| format!("{} {} {} {}", f.field, f.types, f.records, f.values)).collect()
}

#[test]
fn each_way_is_counted_where_it_is_looked_for() {
    let mut log = team_log();
    log.push(json!({"ev": "llm"}));
    let log = lines(&log);
    for block_size in [64, 1 << 20] {
        let options = ReadOptions { block_size, unread_fields: true, ..ReadOptions::default() };
        let (told, store) = counted(&team(), &[("log.jsonl", &log)], &options);
        let expected = [
            // Of each record, the one that is rejected for it too.
            "trace.id /run 11 of 12 string",
            "trace.task /job 1 of 10 string",
            "trace.group /batch 1 of 10 string",
            "trace.reward /verdict/score 1 of 10 number",
            // Of each step that has a trace, those that mean nothing too.
            "step.kind /ev 11 of 11 string",
            "step.id /id 8 of 10 string",
            "step.agent /who 7 of 10 string",
            // Until an agent has one.
            "step.role /job_title 1 of 5 string",
            // Where an agent answers.
            "step.tokens_in /in 3 of 6 number",
            "step.cost /usd 1 of 6 number",
            "step.model /model 1 of 6 string",
            // Of what makes events.
            "step.extras.shard /shard 1 of 9 number",
            "step.arguments /args 2 of 2 string, object",
            "step.ok /status 2 of 6 string",
            "step.content /text 5 of 7 string",
        ];
        for line in expected {
            assert!(told.contains(&line.to_owned()), "{line} in {told:#?}");
        }
        assert_eq!(unread(&store), [""; 0]);
        assert_eq!(findings(&store).len(), 0);
    }
}

#[test]
fn keys_that_never_had_a_value_are_a_finding_of_the_last_trace() {
    let mut mapping = team();
    mapping["step"]["tokens_in"] = json!("/inn");
    mapping["step"]["error"] = json!("/failure");
    // One of the alternatives is enough, and a part that is missing is not.
    mapping["step"]["agent"] = json!(["/actor", "/who"]);
    mapping["step"]["role"] = json!(["/rank", "=member"]);
    mapping["step"]["id"] = json!({"join": ["/id", "/half"]});
    // Nobody looks for a result in a step that is none.
    mapping["step"]["results"] = json!({"each": "/results", "content": "/text", "ok": "/status"});
    let run = |id: &str| {
        let mut log = team_log();
        for record in &mut log {
            record["run"] = json!(id);
        }
        lines(&log)
    };
    let inputs = [("a.jsonl", run("r1")), ("b.jsonl", run("r2")), ("c.jsonl", "{\"run\":\"r3\"}\n".into())];
    let inputs: Vec<(&str, &str)> = inputs.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let options = ReadOptions { unread_fields: true, ..ReadOptions::default() };
    let (told, store) = counted(&mapping, &inputs, &options);
    for line in [
        "step.agent /actor 0 of 20",
        "step.agent /who 14 of 20 string",
        "step.role /rank 0 of 4",
        "step.id /id 16 of 20 string",
        "step.id /half 0 of 16",
        "step.results.each /results 0 of 4",
        "step.results.content /text 0 of 0",
    ] {
        assert!(told.contains(&line.to_owned()), "{line} in {told:#?}");
    }
    assert_eq!(
        findings(&store),
        [(
            "mapping.unused".to_owned(),
            5,
            "keys of the mapping without any value: step.id at /half (0 of 16), step.tokens_in at /inn (0 of 12), \
             step.error at /failure (0 of 10), step.role at /rank (0 of 4), step.results.each at /results (0 of 4)"
                .to_owned()
        )]
    );
    let rows = store.combined("findings").unwrap();
    assert_eq!(rows.column(0).as_primitive::<UInt32Type>().value(0), 1, "the last trace");
    // What the keys look for is there, under names that no key has.
    assert_eq!(unread(&store), ["/in number 6 6", "/job_title string 2 2"]);
}

#[test]
fn a_record_without_fields_is_no_unread_field() {
    let options = ReadOptions { unread_fields: true, ..ReadOptions::default() };
    let (_, store) = counted(&team(), &[("a.jsonl", "{}\n[]\n7\n{\"more\":{}}\n")], &options);
    assert_eq!(unread(&store), ["/more object 1 1"]);
}

#[test]
fn fields_that_no_key_reads_are_told_with_how_many_records_have_them() {
    let mapping = json!({
        "steps": "/agents/*/log",
        "trace": {"id": "/run", "metrics": {"*": {"at": "/scores", "except": ["draft"]}},
                  "labels": {"each": "record:/marks", "label": "/verdict"}},
        "step": {"kind": "=response", "agent": "up:/name", "content": "/body",
                 "calls": {"each": "/calls", "tool": "/fn/name", "arguments": "/fn/args/0"}},
    });
    let step = json!({"body": [{"text": "x", "deep": 1}], "a/b": true,
                      "calls": [{"fn": {"name": "ls", "args": [{"q": 1}, 2]}, "cost": 1}, {"fn": {}, "cost": null}]});
    let record = |run: u32| {
        json!({"run": run, "scores": {"good": 1, "draft": 2, "note": "n"}, "host": "h",
               "agents": [{"name": "ann", "log": [step.clone(), step.clone()], "team": "red"}],
               "marks": [{"verdict": "fine", "who": "me"}], "blank": null, "none": []})
    };
    let (_, store) = {
        let log = lines(&[record(1), record(2), json!({"run": 3, "agents": [], "host": 4})]);
        let options = ReadOptions { unread_fields: true, ..ReadOptions::default() };
        counted(&mapping, &[("log.jsonl", &log)], &options)
    };
    assert_eq!(
        unread(&store),
        [
            "/host number, string 3 3",
            "/agents/*/log/*/a~1b bool 2 4",
            "/agents/*/log/*/calls/*/cost number 2 4",
            "/agents/*/log/*/calls/*/fn object 2 4",
            "/agents/*/team string 2 2",
            "/marks/*/who string 2 2",
            "/none list 2 2",
            "/scores/draft number 2 2",
            "/scores/note string 2 2",
            "/agents list 1 1",
        ]
    );
}

#[test]
fn fields_are_counted_within_bounds() {
    let mapping = json!({"trace": {"id": "/run"}, "step": {"kind": "=response", "content": "/text"}});
    let mut log: Vec<Json> =
        (0..3_000).map(|i| json!({"run": 1, "text": "x", format!("k{i}"): i, "same": 1})).collect();
    log[0]["x".repeat(1_000)] = json!(1);
    for i in 0..9_000 {
        log[2_999][format!("m{i:05}")] = json!(1);
    }
    let options = ReadOptions { unread_fields: true, ..ReadOptions::default() };
    let (_, store) = counted(&mapping, &[("log.jsonl", &lines(&log))], &options);
    let lines_unread = unread(&store);
    assert_eq!((lines_unread.len(), lines_unread[0].as_str()), (200, "/same number 3000 3000"));
    assert!(lines_unread.iter().all(|line| line.len() < 100), "{lines_unread:?}");
}

#[test]
fn mappings_of_ours_count_nothing_and_find_nothing_unused() {
    let line = json!({"input": "q", "output": "a", "gts": null, "score": 1.0, "step": 1}).to_string() + "\n";
    let store = read_bytes(
        Format::Spread(&crate::importers::VERL),
        &[("1.jsonl", line.as_bytes())],
        &ReadOptions::default(),
        1,
    );
    assert_eq!((store.n_traces(), store.mapping_counts(), findings(&store)), (1, None, Vec::new()));
}

#[test]
fn batches_say_the_same_as_one_reading() {
    use crate::ingest::{Input, ReadPosition, TraceReader};
    use crate::run::Run;

    let mut mapping = team();
    mapping["step"]["error"] = json!("/failure");
    let log: String = (0..200)
        .map(|id| {
            let mut log = team_log();
            for record in &mut log {
                record["run"] = json!(id);
            }
            lines(&log)
        })
        .collect();
    let of = house(&mapping);
    let options = ReadOptions { mapping: Some(of), block_size: 2_000, ..ReadOptions::default() };
    let run = Run::new(Some(2)).unwrap();
    let reader = |taken: u64| {
        let input = Input::Stream {
            name: "log.jsonl".into(),
            reader: Box::new(std::io::Cursor::new(log.clone().into_bytes())),
        };
        let inputs = vec![(input, ReadPosition::default(), Some(Format::Spread(of)))];
        let gathered = ReadPosition { blocks: taken, ..ReadPosition::default() };
        TraceReader::resumed(inputs, gathered, options.clone()).unwrap()
    };
    let single = reader(0).all(&run).unwrap();
    assert_eq!(findings(&single).len(), 1);
    let trace = |store: &Store| {
        let rows = store.combined("findings").unwrap();
        let traces = rows.column(0).as_primitive::<UInt32Type>().values().to_vec();
        traces.into_iter().zip(findings(store)).collect::<Vec<_>>()
    };
    let (mut told, mut batches, mut taken) = (Vec::new(), Vec::new(), Vec::new());
    let mut batched = reader(0);
    while let Some(batch) = batched.next(20_000, None, &run).unwrap() {
        told.extend(trace(&batch.store));
        taken.push(batch.parts[1].position.blocks);
        batches.push((batch.store.n_traces(), batch.store.mapping_counts().cloned()));
    }
    assert_eq!(told, trace(&single));
    assert!(batches.len() > 3, "{}", batches.len());
    assert_eq!(batches.iter().map(|(traces, _)| traces).sum::<usize>(), 200);
    let (last, before) = batches.split_last().unwrap();
    assert_eq!(last.1.as_ref(), single.mapping_counts());
    assert!(before.iter().all(|(_, counts)| counts.is_none()));
    // A reading that is taken up again where a batch ended has the rest, and what all of it says of the mapping.
    let mut before = 0;
    for (done, (traces, _)) in taken.iter().zip(&batches) {
        before += traces;
        let mut resumed = reader(*done);
        let (mut rest, mut found, mut counts) = (0, 0, None);
        while let Some(batch) = resumed.next(20_000, None, &run).unwrap() {
            rest += batch.store.n_traces();
            found += findings(&batch.store).len();
            counts = batch.store.mapping_counts().cloned();
        }
        assert_eq!(before + rest, 200);
        assert_eq!(found, usize::from(rest > 0));
        assert_eq!(counts.as_ref(), single.mapping_counts());
    }
}
