use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value as Json, json};

use super::ClaudeCode;
use crate::importers::testing::{counts, documents, read_bytes, read_texts};
use crate::importers::{Confidence, Format, SpreadImporter, detect};
use crate::ingest::json::Limits;
use crate::ingest::json::tree::Tree;
use crate::ingest::{Input, ReadOptions, read};
use crate::run::Run;
use crate::store::{Store, write_jsonl};

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
fn keeps(mut line: Json, kept: Json) -> Json {
    line["toolUseResult"] = kept;
    line
}

/// A line of a sub-agent.
fn by(agent: &str, mut line: Json) -> Json {
    line["isSidechain"] = true.into();
    line["agentId"] = agent.into();
    line
}

fn text(lines: &[Json]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
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
    let found = trace["events"].as_array().unwrap().iter().find(|e| e["id"] == id);
    found.unwrap_or_else(|| panic!("{id} of {:?}", events(trace)))
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
    assert_eq!((call["x_tokens_cached"].as_i64(), call["x_tokens_cache_write"].as_i64()), (Some(6), Some(4)));
    assert_eq!((call["model"].as_str(), call["x_gen"].as_str()), (Some("m-1"), Some("m1")));
    assert_eq!((trace["trace_id"].as_str(), trace["system"].as_str()), (Some(SESSION), Some("claude-code")));
    assert_eq!(trace["costs"]["tokens"], 45);
    assert_eq!(trace["costs"]["wall_clock_s"].as_f64(), Some(5.0));
    assert_eq!(event(&trace, "t1:r")["trusted"], false);
    assert!(!is_partial(&trace));
    assert_eq!(trace["rewards"], json!({}));
}

#[test]
fn nothing_gives_nothing() {
    for nothing in ["", "\n\n  \n"] {
        let store = read_texts(&ClaudeCode, &[(MAIN, nothing)]);
        assert_eq!((store.n_traces(), store.records_quarantined()), (0, 0));
    }
}

#[test]
fn a_line_that_is_cut_leaves_the_rest() {
    let whole = text(&short());
    let cut = &whole[..whole.len() - 40];
    let store = read_texts(&ClaudeCode, &[(MAIN, cut)]);
    let trace = &traces(&store)[0];
    assert_eq!(events(trace).len(), 3);
    assert!(is_partial(trace));
    fated(&store, &[("quarantined", 1), ("used", 3)]);
    let start = whole.trim_end().rfind('\n').unwrap() as u64 + 1;
    assert_eq!(rejects(&store), [("json.syntax".to_owned(), 4, start)]);
}

#[test]
fn broken_lines_are_put_aside_and_the_rest_is_read() {
    let mut lines: Vec<String> = short().iter().map(Json::to_string).collect();
    lines.insert(1, "{\"type\":\"user\",\"sessionId\":".into());
    lines.insert(2, "[1]".into());
    lines.insert(3, "\"text\"".into());
    lines.insert(4, "{\"silly\":1}".into());
    lines.insert(5, json!({"type": "user", "sessionId": SESSION, "message": "error"}).to_string());
    lines.insert(6, json!({"type": "user", "message": {"content": "x"}}).to_string());
    // The name of the file tells the session of a line that breaks before it does.
    let store = read_texts(&ClaudeCode, &[(MAIN, &lines.join("\n"))]);
    let trace = &traces(&store)[0];
    assert_eq!(events(trace).len(), 5, "the last of them has its session from its file");
    assert!(is_partial(trace));
    fated(&store, &[("quarantined", 5), ("used", 5)]);
    let codes: Vec<String> = rejects(&store).into_iter().map(|(code, ..)| code).collect();
    assert_eq!(
        codes,
        ["json.syntax", "record.not_object", "record.not_object", "field.missing", "field.type"]
    );
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
    use super::super::recording::hash;
    let hex: String = hash("done").iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(answer["content_ref"], format!("sha256:{hex}"), "blank texts are none");
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
            "t2:r tool_result Bash -",
            "t2:h human_intervention user main",
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

/// A lead that asks two sub-agents at once, of which one asks a third.
fn team() -> Vec<(String, Vec<Json>)> {
    let task = |prompt: &str| json!({"subagent_type": "Explore", "description": "look", "prompt": prompt});
    let done = |agent: &str| json!({"status": "completed", "agentId": agent, "totalTokens": 22, "totalToolUseCount": 0, "totalDurationMs": 1500});
    vec![
        (
            MAIN.into(),
            vec![
                asks(0, "u1", "", "look"),
                calls(1, "a1", "u1", "m1", "t1", "Task", task("left")),
                calls(2, "a2", "a1", "m1", "t2", "Task", task("right")),
                keeps(gives(12, "u2", "a2", "t2", "R"), done("bb")),
                keeps(gives(14, "u3", "a1", "t1", "L"), done("aa")),
                says(16, "a3", "u3", "m9", "both"),
            ],
        ),
        (file_of("aa"), vec![by("aa", asks(1, "p1", "", "left")), by("aa", says(13, "p2", "p1", "m3", "L"))]),
        (
            file_of("bb"),
            vec![
                by("bb", asks(2, "q1", "", "right")),
                by(
                    "bb",
                    calls(
                        3,
                        "q2",
                        "q1",
                        "m4",
                        "t3",
                        "Agent",
                        json!({"subagent_type": "Plan", "prompt": "deep"}),
                    ),
                ),
                by("bb", keeps(gives(8, "q3", "q2", "t3", "D"), done("cc"))),
                by("bb", says(11, "q4", "q3", "m6", "R")),
            ],
        ),
        (file_of("cc"), vec![by("cc", asks(3, "r1", "", "deep")), by("cc", says(7, "r2", "r1", "m5", "D"))]),
    ]
}

fn read_team(team: &[(String, Vec<Json>)]) -> Store {
    let inputs: Vec<(&str, &[Json])> =
        team.iter().map(|(path, lines)| (path.as_str(), lines.as_slice())).collect();
    store(&inputs)
}

#[test]
fn sub_agents_of_sub_agents() {
    let store = read_team(&team());
    let trace = &traces(&store)[0];
    assert_eq!(
        events(trace),
        [
            "u1 message user main",
            "m1:d orchestrator_decision main -",
            "t1:s spawn main Explore",
            "t2:s spawn main Explore#2",
            "m4:d orchestrator_decision Explore#2 -",
            "t3:s spawn Explore#2 Plan",
            "m5 return Plan Explore#2",
            "t3:r tool_result Agent -",
            "m6 return Explore#2 main",
            "t2:r tool_result Task -",
            "m3 return Explore main",
            "t1:r tool_result Task -",
            "m9 aggregate main -",
        ]
    );
    has(
        trace,
        &[
            "m1:d spawn t1:s",
            "m1:d spawn t2:s",
            "t1:s spawn m3",
            "t2:s spawn m4:d",
            "t3:s spawn m5",
            "m5 return t3:r",
            "m6 return t2:r",
            "m3 return t1:r",
            "m3 aggregate m9",
            "m6 aggregate m9",
        ],
    );
    assert_eq!(trace["topology"], "hierarchical");
    assert_eq!(
        (event(trace, "t2:s")["x_agent_id"].as_str(), event(trace, "t2:s")["role"].as_str()),
        (Some("bb"), Some("Explore"))
    );
    assert_eq!(event(trace, "t2:s")["t"].as_f64(), Some(2.0), "each is spawned when it is asked");
    let result = event(trace, "t1:r");
    assert_eq!((result["x_reported_tokens"].as_i64(), result["duration_s"].as_f64()), (Some(22), Some(1.5)));
    assert!(!is_partial(trace));
    assert!(findings(&store).is_empty(), "{:?}", findings(&store));
    fated(&store, &[("used", 14)]);
}

#[test]
fn the_order_of_files_changes_nothing() {
    let mut team = team();
    let forwards = documents(&read_team(&team));
    team.reverse();
    assert_eq!(documents(&read_team(&team)), forwards);
    team.swap(0, 2);
    assert_eq!(documents(&read_team(&team)), forwards);
    assert_eq!(documents(&read_team(&team)), documents(&read_team(&team)));
}

#[test]
fn totals_that_differ_are_told() {
    let mut team = team();
    team[0].1[4]["toolUseResult"]["totalTokens"] = 23.into();
    assert_eq!(findings(&read_team(&team)), [("usage.repeated".to_owned(), 1)]);
}

#[test]
fn links_are_found_without_the_field() {
    let mut team = team();
    for at in [3, 4] {
        team[0].1[at]["toolUseResult"] = Json::Null;
    }
    // One by what the text of its result says, the other by its prompt.
    team[0].1[3]["message"]["content"][0]["content"] =
        json!([{"type": "text", "text": "R\nagentId: bb (internal)"}]);
    let trace = &traces(&read_team(&team))[0];
    has(trace, &["t1:s spawn m3", "t2:s spawn m4:d"]);
    assert_eq!(event(trace, "t1:s")["x_agent_id"], "aa");
}

#[test]
fn a_result_that_only_talks_of_agents_links_nothing() {
    let trace = solo(&[
        asks(0, "u1", "", "go"),
        calls(1, "a1", "u1", "m1", "t1", "Bash", json!({"command": "echo agentId: aa"})),
        gives(
            2,
            "u2",
            "a1",
            "t1",
            "agentId: aa\n<task-notification><task-id>aa</task-id><status>completed</status></task-notification>",
        ),
        says(3, "a2", "u2", "m2", "ok"),
    ]);
    assert_eq!(events(&trace).len(), 4);
    assert_eq!(trace["topology"], "unknown");
}

#[test]
fn lines_within_the_file_of_the_lead() {
    let inline = |mut line: Json| {
        line["isSidechain"] = true.into();
        line
    };
    let trace = solo(&[
        asks(0, "u1", "", "go"),
        calls(1, "a1", "u1", "m1", "t1", "Task", json!({"subagent_type": "x", "prompt": "left"})),
        calls(2, "a2", "a1", "m1", "t2", "Task", json!({"subagent_type": "y", "prompt": "right"})),
        inline(asks(3, "s1", "", "right")),
        inline(says(4, "s2", "s1", "m2", "R")),
        // Without its prompt it still hangs on the line that asked.
        inline(says(5, "s3", "a1", "m3", "L")),
        gives(6, "u2", "a2", "t2", "R"),
        gives(7, "u3", "u2", "t1", "L"),
        says(8, "a3", "u3", "m4", "both"),
    ]);
    has(&trace, &["t1:s spawn m3", "t2:s spawn m2", "m2 return t2:r", "m3 return t1:r", "m2 aggregate m4"]);
    assert_eq!(
        (event(&trace, "m3")["agent"].as_str(), event(&trace, "m2")["agent"].as_str()),
        (Some("x"), Some("y"))
    );
    assert!(!is_partial(&trace));
}

#[test]
fn a_sub_agent_whose_session_is_not_there() {
    let trace = trace(&[(
        &file_of("aa"),
        &[by("aa", asks(1, "p1", "", "left")), by("aa", says(3, "p2", "p1", "m3", "L"))],
    )]);
    assert_eq!(events(&trace), ["aa:s spawn main aa", "m3 return aa main"]);
    assert_eq!(trace["trace_id"], SESSION);
    assert_eq!(event(&trace, "m3")["t"].as_f64(), Some(2.0), "its prompt is the beginning");
    assert!(is_partial(&trace));
}

#[test]
fn a_session_whose_sub_agent_is_not_there() {
    let team = team();
    let trace = trace(&[(MAIN, &team[0].1)]);
    has(&trace, &["t2:s spawn t2:return", "t2:return return t2:r", "t2:return aggregate m9"]);
    assert!(is_partial(&trace));
    // Still at work.
    let running = solo(&team[0].1[..3]);
    assert_eq!(events(&running).len(), 4);
    assert!(is_partial(&running));
}

#[test]
fn an_agent_that_nobody_asked_for_is_its_own_root() {
    let mut team = team();
    team.push((
        file_of("dd"),
        vec![by("dd", asks(4, "w1", "", "Warmup")), by("dd", says(5, "w2", "w1", "m7", "ready"))],
    ));
    let trace = &traces(&read_team(&team))[0];
    assert_eq!(event(trace, "m7")["to"], "user");
    assert!(!edges(trace).iter().any(|edge| edge.starts_with("m7 ")), "the lead has not heard of it");
    assert!(!is_partial(trace));
}

#[test]
fn the_file_beside_a_sub_agent_names_it() {
    let mut team = team();
    let beside = |agent: &str| format!("p/{SESSION}/subagents/agent-{agent}.meta.json");
    team.push((file_of("dd"), vec![by("dd", says(5, "w2", "", "m7", "ready"))]));
    team.push((beside("dd"), vec![json!({"agentType": "warm", "description": "d"})]));
    team.push((beside("ee"), vec![json!({"agentType": "cold"})]));
    let store = read_team(&team);
    assert_eq!(event(&traces(&store)[0], "m7")["agent"], "warm");
    fated(&store, &[("meta_file", 1), ("used", 16)]);
}

#[test]
fn work_in_the_background_returns_when_it_is_told() {
    let launch = json!({"isAsync": true, "status": "async_launched", "agentId": "aa"});
    let note = "<task-notification>\n<task-id>aa</task-id>\n<status>completed</status>\n<result>L</result>\n</task-notification>";
    let poll = |status: &str| {
        format!(
            "<retrieval_status>success</retrieval_status>\n\n<task_id>aa</task_id>\n\n<status>{status}</status>\n"
        )
    };
    let main = |last: Json| {
        vec![
            asks(0, "u1", "", "go"),
            calls(1, "a1", "u1", "m1", "t1", "Task", json!({"subagent_type": "x", "prompt": "left"})),
            keeps(gives(2, "u2", "a1", "t1", "Async agent launched successfully."), launch.clone()),
            calls(3, "a2", "u2", "m2", "t2", "TaskOutput", json!({"task_id": "aa"})),
            gives(4, "u3", "a2", "t2", &poll("in_progress")),
            says(5, "a3", "u3", "m3", "waiting"),
            last,
            says(9, "a4", "u4", "m4", "done"),
        ]
    };
    let child = vec![by("aa", asks(2, "p1", "", "left")), by("aa", says(6, "p2", "p1", "m5", "L"))];
    let told = trace(&[(MAIN, &main(asks(8, "u4", "a3", note))), (&file_of("aa"), &child)]);
    has(
        &told,
        &["t1 return t1:r", "t1:s spawn m5", "m5 return m4", "m5 aggregate m4"]
            .map(|e| if e == "t1 return t1:r" { "t1:s return t1:r" } else { e }),
    );
    assert_eq!(event(&told, "m3")["type"], "message", "it has not come back yet");
    assert!(!is_partial(&told));
    // Nothing is left of the child but what is told of it.
    let alone = solo(&main(asks(8, "u4", "a3", note)));
    has(&alone, &["aa:return return m4", "aa:return aggregate m4"]);
    assert!(is_partial(&alone));
    let polled =
        trace(&[(MAIN, &main(gives(8, "u4", "a3", "t2", &poll("completed")))), (&file_of("aa"), &child)]);
    has(&polled, &["m5 return m4"]);
    let never =
        trace(&[(MAIN, &main(gives(8, "u4", "a3", "t2", &poll("in_progress")))), (&file_of("aa"), &child)]);
    has(&never, &["m5 return m4"]);
}

#[test]
fn members_of_a_team() {
    let task = |name: &str| json!({"name": name, "subagent_type": "general-purpose", "prompt": name});
    let send = |to: &str, text: &str| json!({"recipient": to, "content": text});
    let news = "<teammate-message teammate_id=\"ann\" color=\"red\">\nhalf way\n</teammate-message>\n\n<teammate-message teammate_id=\"bob\">\nhello\n</teammate-message>";
    let lines = [
        asks(0, "u1", "", "go"),
        calls(1, "a1", "u1", "m1", "t1", "Agent", task("ann")),
        keeps(gives(2, "u2", "a1", "t1", "spawned"), json!({"status": "async_launched", "agentId": "aa"})),
        calls(3, "a2", "u2", "m2", "t2", "SendMessage", send("ann", "be quick")),
        gives(4, "u3", "a2", "t2", "sent"),
        asks(9, "u4", "u3", news),
        calls(
            10,
            "a3",
            "u4",
            "m3",
            "t3",
            "SendMessage",
            json!({"type": "shutdown_request", "recipient": "ann", "content": "bye"}),
        ),
        gives(11, "u5", "a3", "t3", "sent"),
        says(12, "a4", "u5", "m4", "done"),
    ];
    let child = [
        by("aa", asks(2, "p1", "", "ann")),
        by("aa", says(4, "p2", "p1", "m5", "starting")),
        by("aa", asks(5, "p3", "p2", "be quick")),
        by("aa", calls(6, "p4", "p3", "m6", "t4", "SendMessage", send("team-lead", "half way"))),
        by("aa", gives(7, "p5", "p4", "t4", "sent")),
        by("aa", says(8, "p6", "p5", "m7", "ready")),
    ];
    let trace = trace(&[(MAIN, &lines), (&file_of("aa"), &child)]);
    let kinds: Vec<String> = events(&trace).into_iter().filter(|e| !e.contains(" tool_")).collect();
    assert_eq!(
        kinds,
        [
            "u1 message user main",
            "m1:d orchestrator_decision main -",
            "t1:s spawn main ann",
            "t2 message main ann",
            "m5 message ann -",
            "t4 message ann main",
            "m7 return ann main",
            "u4:1 message bob main",
            "t3 despawn main ann",
            "m4 aggregate main -",
        ]
    );
    // What was sent and then arrived is one message.
    has(&trace, &["t2 message m5", "t4 message t3", "u4:1 message t3"]);
}

#[test]
fn agents_of_a_workflow() {
    let run = |file: &str| format!("p/{SESSION}/subagents/workflows/wf1/{file}");
    let kept = json!({"isAsync": true, "status": "async_launched", "runId": "wf1", "taskId": "k"});
    let lines = [
        asks(0, "u1", "", "go"),
        calls(1, "a1", "u1", "m1", "t1", "Workflow", json!({"script": "s"})),
        keeps(gives(2, "u2", "a1", "t1", "Workflow launched"), kept),
        says(9, "a2", "u2", "m2", "done"),
    ];
    let mut first = by("aa", asks(3, "p1", "", "left"));
    first["sessionId"] = format!("{SESSION}#agent-aa").into();
    let child = [first, by("aa", says(5, "p2", "p1", "m3", "L"))];
    let journal = [
        json!({"type": "started", "key": "k1", "agentId": "aa"}),
        json!({"type": "started", "key": "k2", "agentId": "bb"}),
        json!({"type": "result", "key": "k2", "agentId": "bb", "result": {"a": 1}}),
    ];
    let store = store(&[
        (MAIN, &lines),
        (&run("agent-aa.jsonl"), &child),
        (&run("agent-aa.meta.json"), &[json!({"agentType": "reviewer"})]),
        (&run("journal.jsonl"), &journal),
    ]);
    let trace = &traces(&store)[0];
    assert_eq!(
        events(trace),
        [
            "u1 message user main",
            "m1:d orchestrator_decision main -",
            "t1 tool_call main -",
            "bb:return return bb main",
            "aa:s spawn main reviewer",
            "bb:s spawn main bb",
            "t1:r tool_result Workflow -",
            "m3 return reviewer main",
            "m2 aggregate main -",
        ]
    );
    has(trace, &["aa:s spawn m3", "bb:s spawn bb:return", "m3 aggregate m2", "bb:return aggregate m2"]);
    fated(&store, &[("journal", 1), ("used", 9)]);
}

#[test]
fn copies_of_a_childs_lines() {
    let task = json!({"subagent_type": "x", "prompt": "left"});
    let copy = |uuid: &str, line: &Json| {
        let record = json!({"type": line["type"], "message": line["message"], "uuid": line["uuid"], "timestamp": line["timestamp"], "requestId": "q"});
        super::tests::line(
            4,
            "progress",
            uuid,
            "a1",
            json!({
                "data": {"type": "agent_progress", "message": record, "agentId": "aa"}, "parentToolUseID": "t1",
            }),
        )
    };
    let child = [by("aa", asks(2, "p1", "", "left")), by("aa", says(6, "p2", "p1", "m5", "L"))];
    let lines = [
        asks(0, "u1", "", "go"),
        calls(1, "a1", "u1", "m1", "t1", "Task", task),
        copy("x1", &child[0]),
        copy("x2", &child[1]),
        gives(7, "u2", "x2", "t1", "L"),
        says(8, "a2", "u2", "m2", "done"),
    ];
    let both = store(&[(MAIN, &lines), (&file_of("aa"), &child)]);
    fated(&both, &[("duplicate", 2), ("used", 6)]);
    let alone = store(&[(MAIN, &lines)]);
    fated(&alone, &[("used", 6)]);
    // Without the child's own file the copies are the child.
    assert_eq!(traces(&alone), traces(&both));
    has(&traces(&alone)[0], &["t1:s spawn m5", "m5 return t1:r"]);
}

#[test]
fn records_that_come_twice() {
    let mut again = short();
    for line in &mut again {
        line["cwd"] = "elsewhere".into();
    }
    again.push(says(9, "a3", "a2", "m3", "more"));
    let store = store(&[(MAIN, &short()), ("p/resumed.jsonl", &again)]);
    fated(&store, &[("duplicate", 4), ("used", 5)]);
    assert_eq!(events(&traces(&store)[0]).len(), 5);
    // The very same lines never reach the importer twice.
    let same = self::store(&[(MAIN, &short()), ("p/copy.jsonl", &short())]);
    assert_eq!(fates(&same), [("duplicate".to_owned(), 4), ("used".to_owned(), 4)]);
    assert_eq!(traces(&same), [solo(&short())]);
}

#[test]
fn one_id_for_two_records() {
    let mut lines = short();
    lines.push(asks(6, "u1", "a2", "again"));
    lines.push(says(7, "a4", "u1", "m4", "fine"));
    let store = store(&[(MAIN, &lines)]);
    let trace = &traces(&store)[0];
    assert_eq!(events(trace)[4..], ["u1~2 message user main", "m4 return main user"]);
    assert!(findings(&store).contains(&("id.repeated".into(), 1)));
}

#[test]
fn branches_that_were_given_up() {
    let mut attachment = line(3, "attachment", "x1", "a1", json!({"attachment": {"type": "hook_success"}}));
    attachment["timestamp"] = "2026-01-01T00:00:03.000Z".into();
    let trace = solo(&[
        asks(0, "u1", "", "go"),
        says(2, "a1", "u1", "m1", "well"),
        attachment,
        asks(4, "u2", "x1", "left"),
        calls(5, "a2", "u2", "m2", "t1", "Bash", json!({})),
        gives(6, "u3", "a2", "t1", "ok"),
        says(7, "a3", "u3", "m3", "left it is"),
        // The prompt is edited: both hang on the same record.
        asks(10, "u4", "x1", "right"),
        calls(11, "a4", "u4", "m4", "t2", "Bash", json!({})),
        calls(12, "a5", "a4", "m4", "t3", "Bash", json!({})),
        gives(13, "u5", "a5", "t3", "ok"),
        // Side by side is no fork: this one hangs on the first of the two calls.
        gives(14, "u6", "a4", "t2", "ok"),
        says(15, "a6", "u6", "m5", "right it is"),
    ]);
    let given_up: Vec<&str> = trace["events"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|e| e["x_abandoned"] == true)
        .map(|e| e["id"].as_str().unwrap())
        .collect();
    assert_eq!(given_up, ["u2", "t1", "t1:r", "m3"]);
    assert_eq!(event(&trace, "m3")["type"], "message");
    assert_eq!(event(&trace, "m5")["type"], "return");
    assert_eq!(trace["costs"]["tokens"], 5 * 20 + 3 * 2 + 2 * 3, "they have cost what they cost");
    assert!(!is_partial(&trace));
}

#[test]
fn links_that_go_round() {
    let mut lines = short();
    lines[0]["parentUuid"] = "a2".into();
    let store = store(&[(MAIN, &lines)]);
    let trace = &traces(&store)[0];
    assert_eq!(events(trace).len(), 4);
    assert!(!is_partial(trace));
    assert_eq!(findings(&store), [("field.ignored".to_owned(), 1), ("safety.conservative".to_owned(), 1)]);
}

#[test]
fn compaction_ends_what_flows_and_has_no_event() {
    let mut summary = asks(6, "u3", "b1", "This session is being continued");
    summary["isCompactSummary"] = true.into();
    let mut boundary = line(
        5,
        "system",
        "b1",
        "",
        json!({"subtype": "compact_boundary", "compactMetadata": {"preTokens": 9}}),
    );
    boundary["logicalParentUuid"] = "a2".into();
    let mut lines = short();
    lines.extend([boundary, summary, says(7, "a3", "u3", "m3", "on")]);
    let mut inside = by("acompact-1", says(5, "z1", "", "z", "summary"));
    inside["message"]["usage"]["output_tokens"] = 999.into();
    let store = store(&[(MAIN, &lines), (&file_of("acompact-1"), &[inside])]);
    let trace = &traces(&store)[0];
    assert_eq!(events(trace).len(), 5);
    let flows: Vec<String> = edges(trace).into_iter().filter(|e| e.contains("safety_flow")).collect();
    assert_eq!(flows, ["t1:r safety_flow m2"]);
    fated(&store, &[("compaction", 1), ("used", 6), ("user.meta", 1)]);
}

#[test]
fn hooks_that_object() {
    let blocked = json!({"type": "hook_blocking_error", "hookName": "PostToolUse:Edit", "blockingError": {"blockingError": "no"}});
    let mut lines = short();
    lines.insert(3, line(4, "attachment", "h1", "u2", json!({"attachment": blocked})));
    let stopped =
        json!({"subtype": "stop_hook_summary", "preventedContinuation": true, "stopReason": "tests"});
    lines.insert(4, line(4, "system", "h2", "h1", stopped));
    let quiet = json!({"subtype": "stop_hook_summary", "preventedContinuation": false});
    lines.insert(5, line(4, "system", "h3", "h2", quiet));
    let trace = solo(&lines);
    assert_eq!(events(&trace)[3..5], ["h1 safety_event main -", "h2 safety_event main -"]);
    let event = event(&trace, "h1");
    assert_eq!((event["tool"].as_str(), event["ok"].as_bool()), (Some("Edit"), Some(false)));
    assert!(!is_partial(&trace));
}

#[test]
fn times_that_are_none_or_go_back() {
    let mut lines = short();
    lines[1]["timestamp"] = "soon".into();
    lines[2].as_object_mut().unwrap().remove("timestamp");
    let odd = store(&[(MAIN, &lines)]);
    let times: Vec<f64> =
        traces(&odd)[0]["events"].as_array().unwrap().iter().map(|e| e["t"].as_f64().unwrap()).collect();
    assert_eq!(times, [0.0, 0.0, 0.0, 5.0]);
    assert!(findings(&odd).contains(&("field.ignored".into(), 1)));
    let mut lines = short();
    lines[2]["timestamp"] = "2026-01-01T00:00:01.000Z".into();
    let back = store(&[(MAIN, &lines)]);
    assert_eq!(events(&traces(&back)[0])[2], "t1:r tool_result Bash -", "in the order of the file");
    assert_eq!(event(&traces(&back)[0], "t1:r")["t"].as_f64(), Some(1.0));
    assert!(findings(&back).contains(&("time.reversed".into(), 1)));
    let mut lines = short();
    lines.iter_mut().for_each(|line| drop(line.as_object_mut().unwrap().remove("timestamp")));
    let none = solo(&lines);
    assert_eq!(none["events"][0]["x_trace"]["time_basis"], "ordinal");
    assert_eq!(event(&none, "m2")["t"].as_f64(), Some(3.0));
}

#[test]
fn a_clock_that_is_an_hour_behind() {
    let mut team = team();
    for line in &mut team[0].1 {
        let time = line["timestamp"].as_str().unwrap().replace("T00:", "T01:");
        line["timestamp"] = time.into();
    }
    let store = read_team(&team);
    let trace = &traces(&store)[0];
    assert_eq!(events(trace).len(), 13);
    assert!(findings(&store).iter().any(|(code, _)| code == "clock.skew"));
    has(trace, &["t2:s spawn m4:d", "m6 return t2:r"]);
}

#[test]
fn long_lines_odd_texts_and_odd_bytes() {
    let mut lines = short();
    lines[2]["message"]["content"][0]["content"] = "x\u{0}".repeat(2_500_000).into();
    assert_eq!(events(&solo(&lines)).len(), 4);
    let text = text(&short()).replace("one file", "one \\ud800 file");
    let lone = read_texts(&ClaudeCode, &[(MAIN, &text)]);
    assert_eq!(events(&traces(&lone)[0]).len(), 4);
    let mut bytes = self::text(&short()).into_bytes();
    let at = bytes.windows(8).position(|w| w == b"one file").unwrap();
    bytes[at] = 0xFF;
    let store = read_bytes(Format::Spread(&ClaudeCode), &[(MAIN, &bytes)], &ReadOptions::default(), 1);
    assert_eq!(events(&traces(&store)[0]).len(), 4);
    assert!(findings(&store).contains(&("utf8.replaced".into(), 1)));
    // What is not of the expected type is left out.
    let odd = json!({"message": {"role": "user", "content": ["wow", 3]}});
    let mut lines = short();
    lines.insert(1, line(1, "user", "o1", "u1", odd));
    lines.insert(2, line(1, "user", "o2", "o1", json!({"message": {"role": "user", "contents": []}})));
    let store = self::store(&[(MAIN, &lines)]);
    fated(&store, &[("used", 4), ("user.wrapped", 2)]);
    assert!(findings(&store).contains(&("field.ignored".into(), 2)));
}

#[test]
fn only_its_own_records_are_taken() {
    let sniffs = |text: &str, path: &str| {
        let limits = Limits { depth: 64, string: 1 << 20, lenient: true };
        ClaudeCode.sniff(Tree::parse(text, limits).unwrap().root(), path)
    };
    for line in short() {
        assert_eq!(sniffs(&line.to_string(), "x.jsonl"), Confidence::Yes);
    }
    let yes = [
        (r#"{"type":"summary","summary":"s","leafUuid":"l"}"#, "x.jsonl"),
        (r#"{"type":"file-history-snapshot","messageId":"m","snapshot":{}}"#, "x.jsonl"),
        (r#"{"type":"permission-mode","permissionMode":"plan","sessionId":"s"}"#, "x.jsonl"),
        (r#"{"agentType":"x","description":"y"}"#, "s/subagents/agent-1.meta.json"),
        (r#"{"type":"started","key":"k","agentId":"a"}"#, "s/subagents/workflows/w/journal.jsonl"),
    ];
    for (text, path) in yes {
        assert_eq!(sniffs(text, path), Confidence::Yes, "{text}");
    }
    let no = [
        (
            r#"{"uuid":"u","parentUuid":null,"sessionId":"s","type":"user","message":{"role":"user","parts":[]}}"#,
            Confidence::Maybe,
        ),
        (r#"{"type":"session_meta","payload":{"id":"x"}}"#, Confidence::No),
        (r#"{"type":"session.start","data":{"sessionId":"s"}}"#, Confidence::No),
        (r#"{"sessionId":"s","projectHash":"h","messages":[]}"#, Confidence::No),
        (r#"{"type":"result","key":"k","agentId":"a"}"#, Confidence::No),
        (r#"{"agentType":"x"}"#, Confidence::No),
    ];
    for (text, how) in no {
        assert_eq!(sniffs(text, "x.jsonl"), how, "{text}");
    }
    let records: Vec<Vec<u8>> =
        [json!({"type": "mystery"}), short().remove(0)].iter().map(|l| l.to_string().into_bytes()).collect();
    assert_eq!(detect(records.iter().map(Vec::as_slice), "x").info().name, "claude_code");
}

/// A session that has most of what there is.
fn rich() -> Vec<(String, Vec<Json>)> {
    let mut files = team();
    let main = &mut files[0].1;
    main.extend([
        asks(20, "v1", "a3", "more"),
        calls(21, "v2", "v1", "n1", "s1", "Read", json!({"file_path": "a"})),
        calls(22, "v3", "v2", "n1", "s2", "Task", json!({"subagent_type": "Explore", "prompt": "late"})),
        gives(23, "v4", "v2", "s1", "text"),
        keeps(gives(30, "v5", "v3", "s2", "K"), json!({"status": "completed", "agentId": "dd"})),
        says(31, "v6", "v5", "n2", "fine"),
        line(32, "system", "v7", "v6", json!({"subtype": "compact_boundary"})),
        asks(33, "v8", "v7", "[Request interrupted by user]"),
        asks(34, "v9", "v8", "and now"),
        says(36, "w0", "v9", "n3", "bye"),
    ]);
    files.push((
        file_of("dd"),
        vec![
            by("dd", asks(23, "d1", "", "late")),
            by("dd", calls(24, "d2", "d1", "n4", "s3", "Bash", json!({}))),
            by("dd", gives(25, "d3", "d2", "s3", "ok")),
            by("dd", says(28, "d4", "d3", "n5", "K")),
        ],
    ));
    files
}

/// What later records change of an event: whether its call is answered, whether its agent leads others, whether its
/// branch was given up; the facts of the trace travel on the first one.
const LATER: [&str; 4] = ["x_partial", "role", "x_abandoned", "x_trace"];

/// Events of a trace that is cut occur in the whole one. The last response of the main stream is open; sub-agents are
/// left out while the call that made them work is not read, because nobody knows yet whose they are. Their turns count
/// the responses of all streams, so those of the lead alone are compared. Number of events compared.
fn agree(cut: &Json, whole: &Json) -> usize {
    let list = cut["events"].as_array().unwrap();
    let of_main = |e: &Json| e["agent"] == "main";
    let open = list.iter().rfind(|e| of_main(e) && !e["x_gen"].is_null()).map(|e| e["x_gen"].clone());
    let mut known = BTreeSet::from(["main", "user"]);
    for event in list.iter().filter(|e| e["type"] == "spawn" && e["x_partial"] != true) {
        if known.contains(event["agent"].as_str().unwrap()) {
            known.extend(event["to"].as_str());
        }
    }
    let mut compared = 0;
    for event in list {
        let stranger = event["type"] != "tool_result" && !known.contains(event["agent"].as_str().unwrap());
        let made_up = event["type"] == "spawn" && event["x_partial"] == true;
        if stranger || made_up || open.as_ref().is_some_and(|open| event["x_gen"] == *open) {
            continue;
        }
        compared += 1;
        let same = self::event(whole, event["id"].as_str().unwrap());
        for (key, value) in event.as_object().unwrap() {
            if !LATER.contains(&key.as_str()) && (key != "turn" || of_main(event)) {
                assert_eq!(value, &same[key], "{key} of {event}");
            }
        }
    }
    compared
}

#[test]
fn a_prefix_tells_the_same_as_the_whole() {
    let files = rich();
    let main = text(&files[0].1);
    let others: Vec<(String, String)> =
        files[1..].iter().map(|(path, lines)| (path.clone(), text(lines))).collect();
    let all: Vec<(&str, &str)> = others.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    // With the files of all sub-agents, and with none of them.
    for others in [all.as_slice(), &[]] {
        let read = |end: usize| {
            let mut inputs = vec![(MAIN, &main[..end])];
            inputs.extend(others);
            let mut all = traces(&read_texts(&ClaudeCode, &inputs));
            assert_eq!(all.len(), 1);
            all.remove(0)
        };
        let whole = read(main.len());
        // The first record is where times count from.
        let first = main.find('\n').unwrap();
        let mut compared = 0;
        for end in (first..main.len()).step_by(149) {
            compared = agree(&read(end), &whole);
        }
        assert!(compared > 15, "{compared}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_cut_of_any_file_is_read(file in 0_usize..5, place in 0.0..1.0_f64, threads in 1_usize..4, reversed: bool) {
        let files = rich();
        let mut inputs: Vec<(&str, Vec<u8>)> =
            files.iter().map(|(path, lines)| (path.as_str(), text(lines).into_bytes())).collect();
        let end = (inputs[file].1.len() as f64 * place) as usize;
        inputs[file].1.truncate(end);
        let read = |inputs: &[(&str, Vec<u8>)], threads| {
            let inputs: Vec<(&str, &[u8])> = inputs.iter().map(|(path, bytes)| (*path, bytes.as_slice())).collect();
            read_bytes(Format::Spread(&ClaudeCode), &inputs, &ReadOptions::default(), threads)
        };
        let store = read(&inputs, 1);
        let all = traces(&store);
        prop_assert!(all.len() == 1);
        prop_assert!(store.records_quarantined() <= 1);
        let total: u64 = counts(&store).iter().map(|(_, _, _, n)| n).sum();
        let lines: usize = inputs.iter().map(|(_, b)| b.split(|c| *c == b'\n').filter(|l| !l.is_empty()).count()).sum();
        prop_assert_eq!(total, lines as u64);
        if reversed {
            inputs.reverse();
        }
        prop_assert_eq!(documents(&read(&inputs, threads)), all);
    }

    #[test]
    fn any_record_is_judged(text in "[\\PC\n]{0,200}") {
        let _read = read_texts(&ClaudeCode, &[("x", &text)]);
    }
}
