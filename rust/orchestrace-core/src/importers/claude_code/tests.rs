#![allow(clippy::needless_pass_by_value)] // what json! gives is read best where it is written

use std::collections::BTreeSet;

use serde_json::{Value as Json, json};

use super::ClaudeCode;
use crate::importers::testing::{counts, documents, read_bytes, read_texts};
use crate::importers::{Confidence, Format, SpreadImporter, detect};
use crate::ingest::{Input, ReadOptions, read};
use crate::json::Limits;
use crate::json::tree::Tree;
use crate::run::Run;
use crate::store::{Store, write_jsonl};

mod agents;
mod properties;
mod records;

const MAIN: &str = "p/11111111-2222-4333-8444-555555555555.jsonl";
const SESSION: &str = "11111111-2222-4333-8444-555555555555";

/// A line at a second of the first day of a year.
fn line(s: u32, kind: &str, uuid: &str, parent: &str, more: Json) -> Json {
    let time = format!("2026-01-01T{:02}:{:02}:{:02}.000Z", s / 3600, s / 60 % 60, s % 60);
    let parent = if parent.is_empty() { Json::Null } else { parent.into() };
    let mut line = json!({
        "type": kind, "uuid": uuid, "parentUuid": parent, "timestamp": time, "sessionId": SESSION,
        "isSidechain": false, "userType": "external",
    });
    for (key, value) in more.as_object().unwrap() {
        line[key] = value.clone();
    }
    line
}

fn asks(s: u32, uuid: &str, parent: &str, text: &str) -> Json {
    line(s, "user", uuid, parent, json!({"message": {"role": "user", "content": text}}))
}

/// A line of the response `id` with blocks; it has read 20 tokens, of which 6 came from a cache and 4 went there.
fn answers(s: u32, uuid: &str, parent: &str, id: &str, written: u32, blocks: Json) -> Json {
    let usage = json!({
        "input_tokens": 10, "cache_creation_input_tokens": 4, "cache_read_input_tokens": 6,
        "output_tokens": written,
    });
    let message = json!({"id": id, "role": "assistant", "model": "m-1", "content": blocks, "usage": usage});
    line(s, "assistant", uuid, parent, json!({"requestId": "q", "message": message}))
}

fn says(s: u32, uuid: &str, parent: &str, id: &str, text: &str) -> Json {
    answers(s, uuid, parent, id, 2, json!([{"type": "text", "text": text}]))
}

fn calls(s: u32, uuid: &str, parent: &str, id: &str, call: &str, tool: &str, input: Json) -> Json {
    answers(s, uuid, parent, id, 3, json!([{"type": "tool_use", "id": call, "name": tool, "input": input}]))
}

fn gives(s: u32, uuid: &str, parent: &str, call: &str, text: &str) -> Json {
    let block = json!({"type": "tool_result", "tool_use_id": call, "content": text});
    line(s, "user", uuid, parent, json!({"message": {"role": "user", "content": [block]}}))
}

/// A result with what the program keeps of it.
fn keeps(mut line: Json, result: Json) -> Json {
    line["toolUseResult"] = result;
    line
}

/// A line of a sub-agent.
fn by(agent: &str, mut line: Json) -> Json {
    line["isSidechain"] = true.into();
    line["agentId"] = agent.into();
    line
}

fn text(lines: &[Json]) -> String {
    lines.iter().map(Json::to_string).flat_map(|line| [line, "\n".into()]).collect()
}

fn file_of(agent: &str) -> String {
    format!("p/{SESSION}/subagents/agent-{agent}.jsonl")
}

fn store(inputs: &[(&str, &[Json])]) -> Store {
    let texts: Vec<(&str, String)> = inputs.iter().map(|(path, lines)| (*path, text(lines))).collect();
    let texts: Vec<(&str, &str)> = texts.iter().map(|(path, text)| (*path, text.as_str())).collect();
    read_texts(&ClaudeCode, &texts)
}

/// The traces as native documents, which the native importer has to accept.
fn traces(store: &Store) -> Vec<Json> {
    let run = Run::new(Some(1)).unwrap();
    let mut text = Vec::new();
    write_jsonl(store, &mut text, &run).unwrap();
    let reader = Box::new(std::io::Cursor::new(text.clone()));
    let back = read(vec![Input::Stream { name: "x".into(), reader }], &ReadOptions::default(), &run).unwrap();
    assert_eq!(back.records_quarantined(), 0, "{}", String::from_utf8_lossy(&text));
    documents(store)
}

fn trace(inputs: &[(&str, &[Json])]) -> Json {
    let mut all = traces(&store(inputs));
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn solo(lines: &[Json]) -> Json {
    trace(&[(MAIN, lines)])
}

fn events(trace: &Json) -> Vec<String> {
    let text = |event: &Json, key: &str| event[key].as_str().unwrap_or("-").to_owned();
    let list = trace["events"].as_array().unwrap();
    list.iter().map(|e| ["id", "type", "agent", "to"].map(|key| text(e, key)).join(" ")).collect()
}

fn event<'a>(trace: &'a Json, id: &str) -> &'a Json {
    let same_id = trace["events"].as_array().unwrap().iter().find(|e| e["id"] == id);
    same_id.unwrap_or_else(|| panic!("{id} of {:?}", events(trace)))
}

fn edges(trace: &Json) -> BTreeSet<String> {
    let list = trace["edges"].as_array().unwrap();
    let text = |edge: &Json, key: &str| edge[key].as_str().unwrap().to_owned();
    list.iter().map(|e| format!("{} {} {}", text(e, "src"), text(e, "type"), text(e, "dst"))).collect()
}

#[track_caller]
fn has(trace: &Json, wanted: &[&str]) {
    let edges = edges(trace);
    for edge in wanted {
        assert!(edges.contains(*edge), "{edge} of {edges:#?}");
    }
}

fn is_partial(trace: &Json) -> bool {
    trace["events"][0]["x_trace"]["partial"] == true
}

fn findings(store: &Store) -> Vec<(String, u64)> {
    use arrow_array::cast::AsArray;
    let batch = store.combined("findings").unwrap();
    let codes = batch.column_by_name("code").unwrap().as_dictionary::<arrow_array::types::UInt8Type>();
    let codes = codes.keys().values().iter().map(|c| crate::error::FINDING_CODES[*c as usize].to_owned());
    let counts = batch.column_by_name("count").unwrap().as_primitive::<arrow_array::types::UInt32Type>();
    codes.zip(counts.values().iter().map(|n| u64::from(*n))).collect()
}

/// Code, line and offset of what was put aside.
fn rejects(store: &Store) -> Vec<(String, u64, u64)> {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{UInt8Type, UInt64Type};
    let batch = store.combined("quarantine").unwrap();
    let numbers = |name: &str| batch.column_by_name(name).unwrap().as_primitive::<UInt64Type>().clone();
    let (lines, offsets) = (numbers("line"), numbers("offset"));
    let codes = batch.column_by_name("code").unwrap().as_dictionary::<UInt8Type>();
    let code = |i: usize| crate::error::REJECT_CODES[codes.keys().value(i) as usize].to_owned();
    (0..batch.num_rows()).map(|i| (code(i), lines.value(i), offsets.value(i))).collect()
}

/// How many records had which fate; the kind of those that are ignored.
fn fates(store: &Store) -> Vec<(String, u64)> {
    let mut sums = std::collections::BTreeMap::new();
    for (_, status, kind, n) in counts(store) {
        let word = kind.strip_prefix("claude_code.").unwrap_or(&kind);
        *sums.entry(if word.is_empty() { status } else { word.to_owned() }).or_insert(0) += n;
    }
    sums.into_iter().collect()
}

#[track_caller]
fn fated(store: &Store, wanted: &[(&str, u64)]) {
    let wanted: Vec<(String, u64)> = wanted.iter().map(|(word, n)| ((*word).to_owned(), *n)).collect();
    assert_eq!(fates(store), wanted);
}

/// A prompt, a tool and an answer.
fn short() -> Vec<Json> {
    vec![
        asks(0, "u1", "", "list"),
        calls(2, "a1", "u1", "m1", "t1", "Bash", json!({"command": "ls"})),
        gives(3, "u2", "a1", "t1", "a.txt"),
        says(5, "a2", "u2", "m2", "one file"),
    ]
}

#[test]
fn a_prompt_a_tool_and_an_answer() {
    let trace = solo(&short());
    assert_eq!(
        events(&trace),
        ["u1 message user main", "t1 tool_call main -", "t1:r tool_result Bash -", "m2 return main user"]
    );
    has(
        &trace,
        &["u1 message t1", "t1 return t1:r", "t1:r causal m2", "t1:r safety_flow m2", "t1 temporal m2"],
    );
    let call = event(&trace, "t1");
    assert_eq!((call["tokens_in"].as_i64(), call["tokens_out"].as_i64()), (Some(20), Some(3)));
    assert_eq!((call["tokens_cached"].as_i64(), call["tokens_cache_write"].as_i64()), (Some(6), Some(4)));
    assert_eq!((call["model"].as_str(), call["x_gen"].as_str()), (Some("m-1"), Some("m1")));
    assert_eq!((trace["trace_id"].as_str(), trace["system"].as_str()), (Some(SESSION), Some("claude-code")));
    assert_eq!(trace["costs"]["tokens"], 45);
    assert_eq!(trace["costs"]["wall_clock_s"].as_f64(), Some(5.0));
    assert_eq!(event(&trace, "t1:r")["trusted"], false);
    assert!(!is_partial(&trace));
    assert_eq!(trace["rewards"], json!({}));
}

#[test]
fn parts_of_usage_are_those_of_one_line() {
    let mut lines = vec![
        asks(0, "u1", "", "go"),
        says(1, "a1", "u1", "m1", "so"),
        answers(2, "a2", "a1", "m1", 9, json!([{"type": "text", "text": "done"}])),
    ];
    // The first line was written when another part of the prompt was known to be cached.
    lines[1]["message"]["usage"]["cache_read_input_tokens"] = 8.into();
    lines[1]["message"]["usage"]["input_tokens"] = 1.into();
    let store = store(&[(MAIN, &lines)]);
    let (trace, kinds) =
        (&traces(&store)[0], ["tokens_in", "tokens_cached", "tokens_cache_write", "tokens_out"]);
    let answer = event(trace, "m1");
    assert_eq!(kinds.map(|kind| answer[kind].as_i64()), [Some(20), Some(6), Some(4), Some(9)]);
    assert!(!findings(&store).iter().any(|(code, _)| code == "usage.conflict"));
}

#[test]
fn one_response_is_several_lines_and_its_usage_counts_once() {
    let parts = |id: &str, written: [u32; 3]| {
        vec![
            asks(0, "u1", "", "go"),
            answers(1, "a1", "u1", id, written[0], json!([{"type": "thinking", "thinking": "hm"}])),
            answers(2, "a2", "a1", id, written[1], json!([{"type": "text", "text": "\n\n"}])),
            answers(3, "a3", "a2", id, written[2], json!([{"type": "text", "text": "done"}])),
        ]
    };
    let trace = solo(&parts("m1", [4, 184, 100]));
    assert_eq!(events(&trace), ["u1 message user main", "m1 return main user"]);
    let answer = event(&trace, "m1");
    assert_eq!((answer["tokens_in"].as_i64(), answer["tokens_out"].as_i64()), (Some(20), Some(184)));
    assert_eq!(answer["t"].as_f64(), Some(3.0));
    let done = "sha256:a4c3ed04a95a3da14a9d235c83d868bed7c0f45cf7f3faa751ee8f50598d2211";
    assert_eq!(answer["content_ref"], done, "blank texts are none");
}

#[test]
fn calls_side_by_side_and_results_in_any_order() {
    let trace = solo(&[
        asks(0, "u1", "", "go"),
        calls(1, "a1", "u1", "m1", "t1", "Read", json!({"file_path": "a"})),
        calls(2, "a2", "a1", "m1", "t2", "Read", json!({"file_path": "b"})),
        gives(3, "u2", "a2", "t2", "B"),
        // The response goes on while its first calls are answered.
        calls(4, "a3", "a2", "m1", "t3", "TodoWrite", json!({"todos": []})),
        gives(5, "u3", "a1", "t1", "A"),
        gives(6, "u4", "a3", "t3", "ok"),
        says(8, "a4", "u4", "m2", "done"),
    ]);
    assert_eq!(
        events(&trace),
        [
            "u1 message user main",
            "t1 tool_call main -",
            "t2 tool_call main -",
            "t2:r tool_result Read -",
            "t3 tool_call main -",
            "t1:r tool_result Read -",
            "t3:r tool_result TodoWrite -",
            "m2 return main user",
        ]
    );
    has(&trace, &["t1 return t1:r", "t2 return t2:r", "t3 return t3:r", "t2:r causal m2", "t1 temporal t2"]);
    let turns: Vec<_> = ["t1", "t2", "t3", "t1:r", "m2"].map(|id| event(&trace, id)["turn"].as_i64()).into();
    assert_eq!(turns, [Some(0), Some(0), Some(0), Some(0), Some(1)]);
    assert_eq!(event(&trace, "t3")["x_gen"], "m1");
    assert_eq!(
        (event(&trace, "t3:r")["trusted"].as_bool(), event(&trace, "t2:r")["trusted"].as_bool()),
        (Some(true), Some(false))
    );
    assert_eq!(trace["costs"]["tokens"], 23 + 22);
}

#[test]
fn calls_without_results_and_results_without_calls() {
    let trace = solo(&[
        asks(0, "u1", "", "go"),
        gives(1, "u2", "u1", "lost", "?"),
        calls(2, "a1", "u2", "m1", "t1", "Bash", json!({})),
        // Another try is another call.
        calls(3, "a2", "a1", "m2", "t2", "Bash", json!({})),
        gives(4, "u3", "a2", "t2", "ok"),
    ]);
    assert_eq!(event(&trace, "lost:r")["x_partial"], true);
    assert_eq!(event(&trace, "t1")["x_partial"], true);
    assert!(event(&trace, "t2").get("x_partial").is_none());
    assert_eq!(trace["costs"]["tool_calls"], 2);
    assert!(is_partial(&trace), "the model has not answered");
}

#[test]
fn what_failed_or_was_refused() {
    let mut failed = gives(3, "u2", "a1", "t1", "exit 1");
    failed["message"]["content"][0]["is_error"] = true.into();
    let refused = gives(5, "u3", "a2", "t2", "The user doesn't want to proceed with this tool use.");
    let trace = solo(&[
        asks(0, "u1", "", "go"),
        calls(2, "a1", "u1", "m1", "t1", "Bash", json!({})),
        failed,
        calls(4, "a2", "u2", "m2", "t2", "Bash", json!({})),
        refused,
        asks(5, "u4", "u3", "[Request interrupted by user for tool use]"),
        asks(6, "u5", "u4", "not that"),
        says(7, "a3", "u5", "m3", "hm"),
        asks(8, "u6", "a3", "[Request interrupted by user]"),
    ]);
    assert_eq!(
        events(&trace)[2..],
        [
            "t1:r tool_result Bash -",
            "t2 tool_call main -",
            "t2:h human_intervention user main",
            "t2:r tool_result Bash -",
            "u5 message user main",
            "m3 message main -",
            "u6 human_intervention user main",
        ]
    );
    assert_eq!(
        (event(&trace, "t1:r")["ok"].as_bool(), event(&trace, "t2")["ok"].as_bool()),
        (Some(false), None)
    );
    assert!(is_partial(&trace));
}

#[test]
fn prompts_that_break_in() {
    let queue = |s: u32, operation: &str, content: Json| {
        let time = format!("2026-01-01T00:00:{s:02}.500Z");
        let mut line = json!({"type": "queue-operation", "operation": operation, "timestamp": time, "sessionId": SESSION});
        if content.is_string() {
            line["content"] = content;
        }
        line
    };
    let command = |s: u32, uuid: &str, text: &str| {
        line(s, "attachment", uuid, "u2", json!({"attachment": {"type": "queued_command", "prompt": text}}))
    };
    let lines = [
        asks(0, "u1", "", "go"),
        calls(1, "a1", "u1", "m1", "t1", "Bash", json!({})),
        queue(1, "enqueue", "faster".into()),
        gives(2, "u2", "a1", "t1", "ok"),
        // Out of the queue and into the context: told twice, meant once.
        queue(2, "remove", Json::Null),
        command(3, "c1", "faster"),
        command(3, "c2", "and better"),
        asks(4, "u3", "u2", "stop that"),
        says(6, "a2", "u3", "m2", "done"),
        queue(7, "enqueue", "thanks".into()),
        queue(7, "dequeue", Json::Null),
        asks(8, "u4", "a2", "thanks"),
        says(9, "a3", "u4", "m3", "sure"),
    ];
    let store = store(&[(MAIN, &lines)]);
    let trace = &traces(&store)[0];
    let at = 1_767_225_602_500_000_000_i64;
    assert_eq!(
        events(trace)[3..],
        [
            format!("queue:{at} human_intervention user main"),
            "c2 human_intervention user main".into(),
            "u3 human_intervention user main".into(),
            "m2 message main -".into(),
            "u4 message user main".into(),
            "m3 return main user".into(),
        ]
    );
    fated(&store, &[("attachment.queued_command", 1), ("queue-operation", 3), ("used", 9)]);
}

#[test]
fn what_the_program_writes_is_no_prompt() {
    let mut meta = asks(1, "x1", "u1", "a skill");
    meta["isMeta"] = true.into();
    let mut error = says(6, "x6", "x5", "e1", "API Error");
    error["message"]["model"] = "<synthetic>".into();
    let blocks = json!([
        {"type": "text", "text": "<ide_opened_file>The user opened a file</ide_opened_file>"},
        {"type": "text", "text": "and this?"},
    ]);
    let store = store(&[(
        MAIN,
        &[
            asks(0, "u1", "", "go"),
            meta,
            asks(2, "x2", "x1", "<command-name>/model</command-name>"),
            asks(3, "x3", "x2", "<local-command-stdout>ok</local-command-stdout>"),
            asks(
                4,
                "x4",
                "x3",
                "Caveat: The messages below were generated by the user while running local commands.",
            ),
            asks(5, "x5", "x4", "<bash-input>ls</bash-input>"),
            error,
            line(7, "user", "u2", "x6", json!({"message": {"role": "user", "content": blocks}})),
            says(8, "a1", "u2", "m1", "done"),
            json!({"type": "summary", "summary": "s", "leafUuid": "a1"}),
            json!({"type": "permission-mode", "permissionMode": "plan", "sessionId": SESSION}),
            line(9, "system", "s1", "a1", json!({"subtype": "turn_duration", "durationMs": 9})),
            line(9, "no such type", "s2", "s1", json!({})),
        ],
    )]);
    let trace = &traces(&store)[0];
    assert_eq!(events(trace), ["u1 message user main", "u2 message user main", "m1 return main user"]);
    assert_eq!(trace["costs"]["tokens"], 22, "client-made errors have no tokens");
    fated(
        &store,
        &[
            ("assistant.synthetic", 1),
            ("other", 1),
            ("permission-mode", 1),
            ("summary", 1),
            ("system.turn_duration", 1),
            ("used", 3),
            ("user.meta", 1),
            ("user.wrapped", 4),
        ],
    );
}
