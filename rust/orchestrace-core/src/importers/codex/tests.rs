use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::*;
use crate::importers::testing::{
    column, content_ref, edges_of, event, fates, is_partial, lines, read_bytes, read_texts, set, traces, with,
};
use crate::importers::{Format, detect};
use crate::ingest::ReadOptions;
use crate::store::Store;

mod answers;
mod family;
mod inherited;
mod properties;
mod records;
mod streams;

const ROOT: &str = "01900000-0000-7000-8000-0000000000aa";
const KID: &str = "01900000-0000-7000-8000-0000000000bb";
const DEEP: &str = "01900000-0000-7000-8000-0000000000cc";

/// A file of lines, each a second after the one before.
#[derive(Clone)]
struct File {
    path: String,
    lines: Vec<Json>,
    second: i64,
}

impl File {
    fn of(id: &str, meta: Json) -> Self {
        let path = format!("sessions/rollout-2026-01-01T00-00-00-{id}.jsonl");
        let mut file = Self { path, lines: Vec::new(), second: 0 };
        let payload = json!({"id": id, "timestamp": "2026-01-01T00:00:00Z", "source": "cli"});
        file.put("session_meta", with(payload, meta));
        file
    }

    fn child(id: &str, parent: &str, name: &str, at: i64) -> Self {
        let spawn =
            json!({"parent_thread_id": parent, "depth": 1, "agent_nickname": name, "agent_role": "explorer"});
        let mut file = Self::of(id, json!({"source": {"subagent": {"thread_spawn": spawn}}}));
        file.lines[0]["timestamp"] = time(at).into();
        file.second = at + 1;
        file
    }

    fn put(&mut self, kind: &str, payload: Json) -> &mut Self {
        let mut line = json!({"timestamp": time(self.second), "type": kind});
        line["payload"] = payload;
        self.lines.push(line);
        self.second += 1;
        self
    }

    fn event(&mut self, kind: &str, mut payload: Json) -> &mut Self {
        payload["type"] = kind.into();
        self.put("event_msg", payload)
    }

    fn item(&mut self, kind: &str, mut payload: Json) -> &mut Self {
        payload["type"] = kind.into();
        self.put("response_item", payload)
    }

    fn start(&mut self, turn: &str) -> &mut Self {
        self.event("task_started", json!({"turn_id": turn}));
        self.put("turn_context", json!({"turn_id": turn, "model": "gpt-x"}))
    }

    fn end(&mut self, turn: &str, text: &str) -> &mut Self {
        self.event("task_complete", json!({"turn_id": turn, "last_agent_message": text}))
    }

    fn user(&mut self, text: &str) -> &mut Self {
        let content = json!([{"type": "input_text", "text": text}]);
        self.item("message", json!({"role": "user", "content": content}));
        self.event("user_message", json!({"message": text}))
    }

    fn says(&mut self, text: &str) -> &mut Self {
        self.event("agent_message", json!({"message": text}));
        let content = json!([{"type": "output_text", "text": text}]);
        self.item("message", json!({"role": "assistant", "content": content}))
    }

    fn calls(&mut self, id: &str, tool: &str, arguments: &Json) -> &mut Self {
        self.item("function_call", json!({"call_id": id, "name": tool, "arguments": arguments.to_string()}))
    }

    fn output(&mut self, id: &str, output: &str) -> &mut Self {
        self.item("function_call_output", json!({"call_id": id, "output": output}))
    }

    /// Running totals: input and output so far, and of the last request.
    fn usage(&mut self, total: (i64, i64), last: (i64, i64)) -> &mut Self {
        let sums = |(input, output): (i64, i64)| {
            json!({"input_tokens": input, "cached_input_tokens": 1, "output_tokens": output,
                "reasoning_output_tokens": 0, "total_tokens": input + output})
        };
        let info = json!({"total_token_usage": sums(total), "last_token_usage": sums(last)});
        self.event("token_count", json!({"info": info}))
    }

    fn text(&self) -> String {
        lines(&self.lines)
    }
}

fn time(second: i64) -> String {
    crate::json::time::format_timestamp(1_767_225_600_000_000_000 + second * 1_000_000_000)
}

fn read_files(files: &[&File]) -> Store {
    let texts: Vec<String> = files.iter().map(|file| file.text()).collect();
    let inputs: Vec<(&str, &str)> =
        files.iter().zip(&texts).map(|(file, text)| (file.path.as_str(), text.as_str())).collect();
    read_texts(&Codex, &inputs)
}

fn only_trace(files: &[&File]) -> Json {
    let mut traces = traces(&read_files(files));
    assert_eq!(traces.len(), 1);
    traces.remove(0)
}

/// `id type agent to`, with short ids.
fn events(trace: &Json) -> Vec<String> {
    let text = |event: &Json, key: &str| event[key].as_str().unwrap_or("-").to_owned();
    let list = trace["events"].as_array().unwrap();
    list.iter()
        .map(|event| {
            let id = text(event, "id").replace(ROOT, "A").replace(KID, "B").replace(DEEP, "C");
            format!("{id} {}", ["type", "agent", "to"].map(|key| text(event, key)).join(" "))
        })
        .collect()
}

/// The edges of one type, with short ids.
fn edges(trace: &Json, kind: &str) -> BTreeSet<String> {
    let short = |edge: &String| edge.replace(ROOT, "A").replace(KID, "B").replace(DEEP, "C");
    edges_of(trace, kind).iter().map(short).collect()
}

/// One turn: two parallel calls whose results come the other way round, and an answer.
fn session() -> File {
    let mut file = File::of(ROOT, json!({}));
    file.item("message", json!({"role": "developer", "content": [{"type": "input_text", "text": "rules"}]}))
        .item(
            "message",
            json!({"role": "user", "content": [{"type": "input_text", "text": "<environment_context>x"}]}),
        )
        .start("t1")
        .user("do it")
        .event("token_count", json!({"info": null}))
        .item("reasoning", json!({"summary": []}))
        .says("looking")
        .calls("c1", "shell", &json!({"cmd": "ls"}))
        .calls("c2", "shell", &json!({"cmd": "pwd"}))
        .usage((100, 10), (100, 10))
        .output("c2", "Wall time: 0.25 seconds\nProcess exited with code 0\nOutput:\n/")
        .output("c1", "Exit code: 1\nWall time: 3 seconds\nOutput:\nExit code: 0")
        .usage((100, 10), (100, 10))
        .says("done")
        .usage((250, 30), (150, 20))
        .end("t1", "done");
    file
}

#[test]
fn a_turn_is_responses_calls_and_results() {
    let file = session();
    let trace = only_trace(&[&file]);
    assert_eq!(trace["trace_id"], ROOT);
    assert_eq!(
        events(&trace),
        [
            "A:6 message user codex",
            "c1 tool_call codex -",
            "c2 tool_call codex -",
            "A:9 message codex -",
            "c2:r tool_result shell -",
            "c1:r tool_result shell -",
            "A:19 return codex user",
        ]
    );
    assert_eq!(edges(&trace, "return"), set(&["c1 c1:r", "c2 c2:r"]));
    assert_eq!(edges(&trace, "causal"), set(&["c1:r A:19", "c2:r A:19"]));
    assert_eq!(edges(&trace, "message"), set(&["A:6 c1"]));
    let first = event(&trace, "c1");
    assert_eq!(
        (&first["tokens_in"], &first["tokens_out"], &first["tokens_cached"]),
        (&json!(100), &json!(10), &json!(1))
    );
    assert_eq!((&first["model"], &first["turn"]), (&json!("gpt-x"), &json!(0)));
    // The request began with what the user said (second 6), and was complete with its last call (12).
    assert_eq!((&first["t"], &first["duration_s"]), (&json!(12), &json!(6)));
    let result = event(&trace, "c1:r");
    assert_eq!(
        (&result["ok"], &result["duration_s"], &result["trusted"]),
        (&json!(false), &json!(3), &json!(false))
    );
    assert_eq!(event(&trace, "c2:r")["duration_s"], json!(0.25));
    assert_eq!((&trace["costs"]["tokens"], &trace["costs"]["wall_clock_s"]), (&json!(280), &json!(18)));
    assert!(!is_partial(&trace));
    let expected = [
        ("codex.context", 1),
        ("codex.developer", 1),
        ("codex.reasoning", 1),
        ("codex.token_count", 1),
        // A repeated total, and what the user and twice the agent said, as events.
        ("duplicate", 4),
        ("used", 13),
    ];
    assert_eq!(fates(&read_files(&[&file])), expected.map(|(k, n)| (k.to_owned(), n)).into());
}

/// A session with a child that has a child of its own, each in its file.
fn team() -> [File; 3] {
    let mut root = File::of(ROOT, json!({}));
    root.start("t1")
        .user("do it")
        .calls("s1", "spawn_agent", &json!({"message": "look", "agent_type": "explorer"}))
        .usage((100, 10), (100, 10))
        .output("s1", &json!({"agent_id": KID, "nickname": "Ada"}).to_string());
    let mut kid = File::child(KID, ROOT, "Ada", root.second);
    kid.start("k1")
        .user("look")
        .calls("s2", "spawn_agent", &json!({"message": "dig"}))
        .usage((20, 2), (20, 2));
    kid.output("s2", &json!({"agent_id": DEEP, "nickname": "Bob"}).to_string());
    let mut deep = File::child(DEEP, KID, "Bob", kid.second);
    deep.start("d1").user("dig").says("dug").usage((5, 1), (5, 1)).end("d1", "dug");
    kid.second = deep.second;
    kid.calls("w2", "wait_agent", &json!({"targets": [DEEP]})).usage((40, 4), (20, 2));
    let done =
        |id: &str, text: &str| json!({"status": {id: {"completed": text}}, "timed_out": false}).to_string();
    kid.output("w2", &done(DEEP, "dug")).says("found").usage((60, 6), (20, 2)).end("k1", "found");
    root.second = kid.second;
    root.calls("w1", "wait", &json!({"ids": [KID]})).usage((200, 20), (100, 10));
    root.output("w1", &done(KID, "found"));
    root.calls("e1", "close_agent", &json!({"id": KID})).usage((300, 30), (100, 10)).output("e1", "{}");
    root.says("all done").usage((400, 40), (100, 10)).end("t1", "all done");
    [root, kid, deep]
}

#[test]
fn files_that_end_early_keep_what_they_have() {
    let file = session();
    let text_of_file = file.text();
    let cut = &text_of_file[..text_of_file.len() - 20];
    let store = read_texts(&Codex, &[(&file.path, cut)]);
    assert_eq!((store.n_traces(), store.records_quarantined()), (1, 1));
    let trace = &traces(&store)[0];
    assert!(is_partial(trace));
    assert_eq!(events(trace).last().unwrap(), "A:19 message codex -", "the turn is open, so it is no answer");
    for (text, n) in [("", 0), ("\n \n", 0), ("{\"type\":", 0)] {
        assert_eq!(read_texts(&Codex, &[(&file.path, text)]).n_traces(), n);
    }
    let middle = text_of_file.replacen("\"reasoning\"", "\"reaso\u{0}", 1);
    let store = read_texts(&Codex, &[(&file.path, &middle)]);
    assert_eq!((store.n_traces(), store.records_quarantined()), (1, 1));
    assert_eq!(events(&traces(&store)[0]).len(), 7);
}

#[test]
fn calls_without_results_and_results_without_calls_are_kept() {
    let mut file = File::of(ROOT, json!({}));
    file.start("t1").user("x").output("c0", "?").calls("c1", "shell", &json!({})).usage((1, 1), (1, 1));
    let trace = only_trace(&[&file]);
    assert_eq!(events(&trace)[1..], ["c0:r tool_result tool -", "c1 tool_call codex -"]);
    assert_eq!(event(&trace, "c1")["x_partial"], json!(true));
    assert_eq!(event(&trace, "c0:r")["x_partial"], json!(true));
    assert!(is_partial(&trace));
    // A result may be written before its call.
    let mut file = File::of(ROOT, json!({}));
    file.start("t1").user("x").output("c1", "?").calls("c1", "shell", &json!({})).says("y").end("t1", "y");
    let trace = only_trace(&[&file]);
    assert_eq!(event(&trace, "c1:r")["tool"], json!("shell"));
}

#[test]
fn retries_of_a_tool_are_calls_of_their_own_and_repeated_ids_are_told() {
    let mut file = File::of(ROOT, json!({}));
    file.start("t1").user("x");
    for _ in 0..2 {
        file.calls("c1", "shell", &json!({"cmd": "ls"})).output("c1", "ok");
    }
    file.says("y").end("t1", "y");
    let store = read_files(&[&file]);
    let ids: Vec<String> =
        events(&traces(&store)[0]).iter().map(|e| e.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(ids[1..5], ["c1", "c1:r", "c1~2", "c1:r~2"]);
}

#[test]
fn what_ends_tell_is_put_on_results_or_stands_alone() {
    let mut file = File::of(ROOT, json!({}));
    file.start("t1").user("x").calls("c1", "shell", &json!({})).usage((1, 1), (1, 1));
    file.event(
        "exec_command_end",
        json!({"call_id": "c1", "exit_code": 2, "duration": {"secs": 1, "nanos": 500_000_000}}),
    );
    file.output("c1", "text without a code");
    file.event(
        "mcp_tool_call_end",
        json!({"call_id": "m1", "invocation": {"server": "s", "tool": "look", "arguments": {}},
        "duration": {"secs": 2, "nanos": 0}, "result": {"Err": "no"}}),
    );
    file.item("web_search_call", json!({"status": "completed", "action": {"type": "search", "query": "q"}}));
    file.item("function_call_output", json!({"call_id": "old", "output": "{\"output\":\"\",\"metadata\":{\"exit_code\":0,\"duration_seconds\":0.5}}"}));
    file.says("y").end("t1", "y");
    let trace = only_trace(&[&file]);
    let of = |id: &str, key: &str| event(&trace, id)[key].clone();
    assert_eq!((of("c1:r", "ok"), of("c1:r", "duration_s")), (json!(false), json!(1.5)));
    assert_eq!(
        (of("m1", "tool"), of("m1:r", "ok"), of("m1:r", "duration_s")),
        (json!("look"), json!(false), json!(2))
    );
    assert_eq!((of("old:r", "ok"), of("old:r", "duration_s")), (json!(true), json!(0.5)));
    let search = format!("{ROOT}:11:c");
    assert_eq!(
        (of(&search, "tool"), of(&format!("{search}:r"), "t")),
        (json!("web_search"), of(&search, "t"))
    );
}

#[test]
fn humans_break_in_and_guardians_object() {
    let mut file = File::of(ROOT, json!({}));
    file.start("t1").user("x").calls("c1", "shell", &json!({})).usage((1, 1), (1, 1));
    file.event("guardian_assessment", json!({"id": "g", "status": "in_progress"}));
    file.event(
        "guardian_assessment",
        json!({"id": "g", "status": "denied", "risk_level": "high", "rationale": "no"}),
    );
    file.output("c1", "exec command rejected by user").user("rather this");
    file.event("turn_aborted", json!({"turn_id": "t1", "reason": "interrupted"}));
    file.start("t2").user("again").says("z").usage((3, 3), (2, 2));
    file.event("turn_aborted", json!({"turn_id": "t2", "reason": "budget_limited"}));
    let trace = only_trace(&[&file]);
    assert_eq!(
        events(&trace)[2..],
        [
            "A:9:m safety_event guardian codex",
            "A:10:m human_intervention user codex",
            "c1:r tool_result shell -",
            "A:11 human_intervention user codex",
            "A:13:m human_intervention user codex",
            "A:16 message user codex",
            "A:19 message codex -",
        ]
    );
    let guardian = event(&trace, &format!("{ROOT}:9:m"));
    assert_eq!((&guardian["ok"], &guardian["x_risk_level"]), (&json!(false), &json!("high")));
    assert_eq!(event(&trace, &format!("{ROOT}:19"))["x_aborted"], "budget_limited");
    assert!(is_partial(&trace));
}

#[test]
fn rolled_back_turns_are_marked_and_compaction_ends_flows() {
    let mut file = File::of(ROOT, json!({}));
    file.start("t1")
        .user("a")
        .calls("c1", "shell", &json!({}))
        .output("c1", "x")
        .says("b")
        .usage((1, 1), (1, 1))
        .end("t1", "b");
    file.put("compacted", json!({"message": "short"}));
    file.start("t2").user("c").says("d").usage((2, 2), (1, 1)).end("t2", "d");
    file.event("thread_rolled_back", json!({"num_turns": 1}));
    file.start("t3").user("e").says("f").usage((3, 3), (1, 1)).end("t3", "f");
    let trace = only_trace(&[&file]);
    let marked = trace["events"].as_array().unwrap().iter().filter(|e| e["x_abandoned"] == json!(true));
    let marked: Vec<String> = marked.map(|e| e["id"].as_str().unwrap().replace(ROOT, "A")).collect();
    assert_eq!(marked, ["A:15", "A:18"]);
    assert_eq!(edges(&trace, "safety_flow"), set(&["c1:r A:9"]));
    assert_eq!(trace["costs"]["tokens"], json!(6), "what was taken back was paid for");
}

#[test]
fn totals_are_summed_where_they_change_and_may_begin_anew() {
    let mut file = File::of(ROOT, json!({}));
    file.start("t1").user("a").says("b").usage((10, 1), (10, 1)).usage((10, 1), (10, 1));
    file.put("compacted", json!({})).says("c").usage((4, 1), (4, 1)).usage((9, 2), (5, 1)).end("t1", "c");
    let trace = only_trace(&[&file]);
    assert_eq!(trace["costs"]["tokens"], json!(22));
    let ids: Vec<String> = events(&trace).iter().map(|e| e.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(ids.last().unwrap(), "A:14", "a request that left nothing else has a message for its tokens");
}

#[test]
fn reasoning_is_used_where_nothing_else_tells_of_a_response() {
    let mut file = File::of(ROOT, json!({}));
    file.item("reasoning", json!({})).says("a").item("reasoning", json!({})).usage((4, 1), (4, 1));
    file.user("b").item("reasoning", json!({}));
    let store = read_files(&[&file]);
    let count = |kind: &str| fates(&store).get(kind).copied();
    assert_eq!(count("codex.reasoning"), Some(2), "beside what was said");
    assert_eq!(events(&traces(&store)[0]).last().unwrap().split(' ').next(), Some("A:9"));

    let item = json!({"type": "reasoning", "id": "r"});
    let store = read_texts(&Codex, &[("alone.jsonl", &item.to_string())]);
    assert_eq!((store.n_traces(), fates(&store)), (1, [("used".to_owned(), 1)].into()));
}

#[test]
fn times_that_are_none_fall_back_and_are_told() {
    let mut file = session();
    for line in &mut file.lines[6..9] {
        line["timestamp"] = "soon".into();
    }
    let store = read_files(&[&file]);
    let trace = &traces(&store)[0];
    assert_eq!(trace["events"][0]["t"], json!(5));
    assert!(event(trace, "c1")["t"] == json!(12) && finding(&store, "field.ignored"));
    for line in &mut file.lines {
        line["timestamp"] = "soon".into();
    }
    let store = read_files(&[&file]);
    let trace = &traces(&store)[0];
    assert_eq!(trace["events"][0]["x_trace"]["time_basis"], "ordinal");
    assert_eq!(events(trace).len(), 7);
}

fn finding(store: &Store, code: &str) -> bool {
    !messages(store, code).is_empty()
}

/// What the findings of a code say.
fn messages(store: &Store, code: &str) -> Vec<String> {
    let rows = column(store, "findings", "code").into_iter().zip(column(store, "findings", "message"));
    rows.filter(|(found, _)| found == code).map(|(_, message)| message).collect()
}

#[test]
fn oldest_files_have_no_envelopes() {
    let records = [
        json!({"id": ROOT, "timestamp": "2025-05-01T10:00:00.000Z", "instructions": null, "git": {}}),
        json!({"record_type": "state"}),
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}),
        json!({"type": "reasoning", "id": "rs"}),
        json!({"type": "function_call", "name": "shell", "arguments": "{\"command\":[\"ls\"]}", "call_id": "c1"}),
        json!({"type": "function_call_output", "call_id": "c1", "output": "{\"output\":\"a\",\"metadata\":{\"exit_code\":0}}"}),
        json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}),
    ];
    let text = lines(&records);
    assert_eq!(detect(text.lines().map(str::as_bytes), "x.jsonl").info().name, "codex");
    let store = read_texts(&Codex, &[("old.jsonl", &text)]);
    let trace = &traces(&store)[0];
    assert_eq!(trace["trace_id"], ROOT);
    assert_eq!(
        events(trace),
        [
            "A:3 message user codex",
            "c1 tool_call codex -",
            "c1:r tool_result shell -",
            "A:7 return codex user"
        ]
    );
    assert_eq!(event(trace, "c1:r")["ok"], json!(true));
    assert_eq!((&trace["events"][0]["x_trace"]["time_basis"], is_partial(trace)), (&json!("ordinal"), false));
}

#[test]
fn long_lines_odd_characters_and_broken_text_are_imported() {
    let mut file = session();
    let long = "x".repeat(5_000_000);
    file.start("t2")
        .user("again")
        .calls("c3", "shell", &json!({}))
        .output("c3", &long)
        .says("nul \u{0} here")
        .end("t2", "");
    let trace = only_trace(&[&file]);
    assert_eq!(event(&trace, "c3:r")["content_ref"], content_ref(&long));
    let text = file.text().replace("again", "ag\\ud800ain");
    let mut bytes = text.into_bytes();
    let at = bytes.windows(5).position(|w| w == b"do it").unwrap();
    bytes[at] = 0xff;
    let store = read_bytes(Format::Spread(&Codex), &[(&file.path, &bytes)], &ReadOptions::default(), 1);
    assert_eq!((store.n_traces(), store.records_quarantined()), (1, 0));
    assert!(finding(&store, "utf8.replaced"));
}

#[test]
fn unknown_lines_are_counted_by_kind() {
    let mut file = session();
    file.put("world_state", json!({"full": true}));
    file.event("brand_new", json!({})).event("account/updated", json!({})).put("later", json!({"x": 1}));
    let fates = fates(&read_files(&[&file]));
    for kind in ["codex.world_state", "codex.brand_new", "codex.account.updated", "codex.later"] {
        assert_eq!(fates[kind], 1);
    }
    assert_eq!(fates.values().sum::<u64>(), file.lines.len() as u64);
}

#[test]
fn only_lines_of_rollouts_are_taken() {
    let sure = |record: &Json| {
        let text = record.to_string();
        detect([text.as_bytes()].into_iter(), "x.jsonl").info().name == "codex"
    };
    assert!(sure(&session().lines[3]));
    assert!(!sure(&json!({"type": "user", "sessionId": "s", "message": {}})));
    assert!(!sure(&json!({"type": "metadata", "protocol_version": "1"})));
    assert!(!sure(
        &json!({"type": "session.start", "data": {}, "id": "1", "timestamp": "t", "parentId": null})
    ));
    assert!(!sure(&json!({"type": "x", "payload": 1})));
}
