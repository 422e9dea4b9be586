use std::io;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_array::{Array, RecordBatch};
use serde_json::json;

use super::*;
use crate::ingest::{Input, ReadOptions, read};
use crate::store::Store;

mod edge_cases;

fn ingest(text: &str) -> Store {
    let reader = Box::new(io::Cursor::new(text.to_owned()));
    let options = ReadOptions { format: "who_and_when".into(), ..ReadOptions::default() };
    let run = crate::run::Run::new(Some(1)).unwrap();
    read(vec![Input::Stream { name: "memory".into(), reader }], &options, &run).unwrap()
}

fn text(array: &dyn Array, row: usize) -> String {
    if array.is_null(row) {
        return "-".into();
    }
    if let Some(dictionary) = array.as_any_dictionary_opt() {
        return text(dictionary.values(), dictionary.normalized_keys()[row]);
    }
    if let Some(values) = array.as_primitive_opt::<UInt32Type>() {
        return values.value(row).to_string();
    }
    if let Some(values) = array.as_boolean_opt() {
        return values.value(row).to_string();
    }
    if let Some(values) = array.as_primitive_opt::<arrow_array::types::Float64Type>() {
        return values.value(row).to_string();
    }
    array
        .as_string_view_opt()
        .map_or_else(|| array.as_string::<i32>().value(row), |a| a.value(row))
        .to_owned()
}

/// The rows of some columns, cells joined by blanks.
fn rows(store: &Store, table: &str, columns: &[&str]) -> Vec<String> {
    let batch: RecordBatch = store.combined(table).unwrap();
    let cell = |name: &str, row| batch.column_by_name(name).map_or("-".into(), |column| text(column, row));
    (0..batch.num_rows())
        .map(|row| columns.iter().map(|name| cell(name, row)).collect::<Vec<_>>().join(" "))
        .collect()
}

fn edges(store: &Store, edge_type: &str) -> Vec<String> {
    let ids = rows(store, "events", &["id"]);
    let of_type = rows(store, "edges", &["type", "src", "dst"]);
    let of_type =
        of_type.iter().map(|row| row.split(' ').collect::<Vec<_>>()).filter(|row| row[0] == edge_type);
    of_type
        .map(|row| {
            format!("{} > {}", ids[row[1].parse::<usize>().unwrap()], ids[row[2].parse::<usize>().unwrap()])
        })
        .collect()
}

fn chat(turns: &[(&str, &str)]) -> Store {
    let history: Vec<_> = turns
        .iter()
        .map(|(name, content)| json!({"content": content, "name": name, "role": "user"}))
        .collect();
    ingest(&json!({"history": history, "mistake_agent": "A", "mistake_step": "0"}).to_string())
}

fn orchestrated(roles: &[&str]) -> Store {
    let history: Vec<_> = roles.iter().map(|role| json!({"content": "text", "role": role})).collect();
    ingest(&json!({"history": history, "mistake_agent": "A", "mistake_step": "0"}).to_string())
}

fn quarantine(text: &str) -> Vec<String> {
    rows(&ingest(text), "quarantine", &["code", "path"])
}

#[test]
fn contents_are_hashed_as_in_the_source() {
    let store = chat(&[("A", "abc")]);
    let abc = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(
        rows(&store, "events", &["content_ref", "trusted", "turn", "from", "to"]),
        [format!("{abc} true 0 A -")]
    );
}

#[test]
fn code_that_is_executed_is_a_call_in_the_turn_of_its_message() {
    let store = chat(&[
        ("A", "```python\nprint(1)\n```"),
        ("Computer_terminal", "exitcode: 0 (execution succeeded)\n1"),
        ("B", "```python\nprint(2)\n```"),
        ("A", "no more"),
        ("Computer_terminal", "There is no code to execute"),
        ("Computer_terminal", "exitcode: 1 (execution failed)"),
    ]);
    let events = rows(&store, "events", &["id", "type", "agent", "tool", "ok", "extras"]);
    assert_eq!(
        events,
        [
            "0:0 message A - - -",
            "0:1 tool_call A python - -",
            "1:0 tool_result python python true -",
            "2:0 message B - - -",
            "3:0 message A - - -",
            "4:0 message Computer_terminal - - -",
            "5:0 tool_result python python false {\"x_partial\":true}",
        ]
    );
    assert_eq!(edges(&store, "return"), ["0:1 > 1:0"]);
    assert_eq!(edges(&store, "tool_dependency"), ["0:0 > 0:1"]);
    // The result is heard by all, as every turn of a chat.
    assert_eq!(edges(&store, "causal"), ["1:0 > 2:0", "1:0 > 3:0", "1:0 > 4:0"]);
    assert_eq!(edges(&store, "temporal"), ["0:0 > 0:1", "0:1 > 3:0"]);
    assert_eq!(
        rows(&store, "measures", &["kind", "name", "value"]),
        ["cost tool_calls 1", "cost messages 4"]
    );
}

#[test]
fn equal_code_is_an_equal_call_whatever_is_said_around_it() {
    let call = |content: &str| turn_of_text(content).call;
    assert_eq!(call("Try\n```python\nx\n```"), call("Again:\n```py\nx\n``` now"));
    assert_ne!(call("```\nx\n```"), call("```\ny\n```"));
    assert_eq!(call("x"), None);
    assert!(call("```").is_some());
}

#[test]
fn a_chat_message_leads_to_the_next_event_of_every_other_agent() {
    let store = chat(&[("A", "1"), ("B", "2"), ("A", "3"), ("A", "4"), ("C", "5 TERMINATE")]);
    assert_eq!(
        edges(&store, "message"),
        ["0:0 > 1:0", "1:0 > 2:0", "0:0 > 4:0", "1:0 > 4:0", "2:0 > 4:0", "3:0 > 4:0"]
    );
    assert_eq!(rows(&store, "events", &["type", "to"])[4], "return user");
    assert_eq!(
        rows(&store, "traces", &["topology", "time_basis", "partial", "n_agents"]),
        ["mixed ordinal false 3"]
    );
    assert!(rows(&store, "findings", &["code"]).is_empty());
}

#[test]
fn a_chat_without_its_end_is_partial() {
    // TERMINATE ends nothing in mid-run, nor in the executor's standing text.
    for turns in [
        &[("A", "TERMINATE"), ("B", "go on")][..],
        &[("Computer_terminal", "There is no code; say TERMINATE")],
    ] {
        let store = chat(turns);
        assert_eq!(rows(&store, "traces", &["partial"]), ["true"]);
        assert_eq!(
            rows(&store, "findings", &["code", "seq"]),
            [format!("trace.partial {}", turns.len() - 1)]
        );
        assert!(rows(&store, "events", &["type"]).iter().all(|t| t == "message"));
    }
}

#[test]
fn orchestrated_turns_are_mapped_by_their_role() {
    let store = orchestrated(&[
        "human",
        "Orchestrator (thought)",
        "Orchestrator (-> W)",
        "W",
        "Orchestrator (-> W)",
        "Orchestrator (note)",
        "W",
        "Orchestrator (termination condition)",
    ]);
    assert_eq!(
        rows(&store, "events", &["id", "type", "agent", "role", "from", "to"]),
        [
            "0:0 message user - user Orchestrator",
            "1:0 orchestrator_decision Orchestrator lead - -",
            "2:0 spawn Orchestrator executor - W",
            "2:1 message Orchestrator lead Orchestrator W",
            "3:0 return W executor W Orchestrator",
            "4:0 message Orchestrator lead Orchestrator W",
            "5:0 message Orchestrator lead Orchestrator -",
            "6:0 return W executor W Orchestrator",
            "7:0 aggregate Orchestrator lead Orchestrator user",
        ]
    );
    assert_eq!(edges(&store, "spawn"), ["1:0 > 2:0", "2:0 > 3:0"]);
    assert_eq!(edges(&store, "message"), ["0:0 > 1:0", "2:1 > 3:0", "4:0 > 6:0"]);
    assert_eq!(edges(&store, "return"), ["3:0 > 4:0", "6:0 > 7:0"]);
    assert_eq!(edges(&store, "aggregate"), ["3:0 > 7:0", "6:0 > 7:0"]);
    assert_eq!(rows(&store, "traces", &["topology", "partial"]), ["centralized false"]);
    assert_eq!(
        rows(&store, "agents", &["agent", "kind", "role", "parent"]),
        ["user user - -", "Orchestrator agent lead -", "W agent executor Orchestrator"]
    );
}

#[test]
fn delegations_wait_for_the_one_addressed() {
    let store = orchestrated(&[
        "Late",
        "Orchestrator (-> Silent)",
        "Orchestrator (-> Late)",
        "Other",
        "Orchestrator (-> Late)",
        "Late",
    ]);
    let spawns = rows(&store, "events", &["type", "to"]).into_iter().filter(|e| e.starts_with("spawn"));
    assert_eq!(spawns.collect::<Vec<_>>(), ["spawn Silent", "spawn Late"]);
    // Nobody decided before; the one who never speaks gets no edge, another's turn does not count.
    assert_eq!(edges(&store, "spawn"), ["2:0 > 5:0"]);
    assert_eq!(edges(&store, "message"), ["2:1 > 5:0", "4:0 > 5:0"]);
    // Who was never delegated to has no role.
    let roles = rows(&store, "events", &["agent", "role"]);
    assert!(roles.contains(&"Other -".into()) && roles.contains(&"Late executor".into()));
    assert_eq!(rows(&store, "traces", &["partial"]), ["true"]);
}

#[test]
fn odd_addressees_do_no_harm() {
    let roles = [
        "Orchestrator (-> Orchestrator)",
        "Orchestrator (-> human)",
        "Orchestrator (-> )",
        "Orchestrator",
        "human",
    ];
    let store = orchestrated(&roles);
    assert_eq!(
        rows(&store, "events", &["type", "role", "to"]),
        ["message - Orchestrator", "message - user", "message - -", "message - -", "message - Orchestrator"]
    );
    assert_eq!(edges(&store, "message"), ["0:0 > 1:0", "1:0 > 4:0"]);
}

fn labels(fields: &serde_json::Value) -> (Vec<String>, Vec<String>) {
    let mut run = json!({"history": [{"content": "x", "role": "WebSurfer"}, {"content": "y TERMINATE", "role": "Orchestrator (termination condition)"}]});
    run.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    let store = ingest(&run.to_string());
    let columns = ["trace_id", "annotator", "event_id", "turn", "agent", "label", "weight"];
    (rows(&store, "labels", &columns), rows(&store, "findings", &["code"]))
}

#[test]
fn labels_are_as_the_annotator_wrote_them() {
    let none: [&str; 0] = [];
    let found_labels = |fields: serde_json::Value| labels(&fields);
    let (rows, findings) = found_labels(
        json!({"_file": "Hand-Crafted/7.json", "mistake_agent": "Websurfer", "mistake_step": "0"}),
    );
    assert_eq!(rows, ["Hand-Crafted/7 who_and_when 0:0 0 Websurfer mistake -"]);
    assert_eq!(findings, none);
    // By another agent than the one named: still the first event of the turn.
    let (rows, _) =
        found_labels(json!({"question_ID": "q", "mistake_agent": "WebSurfer", "mistake_step": 1}));
    assert_eq!(rows, ["q who_and_when 1:0 1 WebSurfer mistake -"]);
    let (rows, _) = found_labels(json!({"mistake_agent": "WebSurfer", "mistake_step": "12"}));
    assert_eq!(rows, ["run who_and_when - 12 WebSurfer mistake -"]);
    for step in [json!("two"), json!(1.5), json!(-1), json!([1])] {
        let (rows, findings) = found_labels(json!({"mistake_agent": "WebSurfer", "mistake_step": step}));
        assert_eq!(rows, ["run who_and_when - - WebSurfer mistake -"]);
        assert_eq!(findings, ["field.ignored"]);
    }
    let (rows, findings) = found_labels(json!({"mistake_agent": null, "mistake_step": null}));
    assert_eq!((rows.as_slice(), findings.as_slice()), (&[][..], &[][..]));
}

#[test]
fn the_reward_is_that_of_the_run_where_it_is_known() {
    for (fields, expected) in [
        (r#""is_correct":false"#, &["team 0"][..]),
        (r#""is_corrected":true"#, &["team 1"]),
        (r#""is_correct":null"#, &[]),
        (r#""is_correct":"no""#, &[]),
        (r#""level":1"#, &[]),
    ] {
        let store = ingest(&format!(r#"{{"history":[{{"content":"x","name":"A"}}],{fields}}}"#));
        let rewards = rows(&store, "measures", &["kind", "name", "value"]);
        let rewards: Vec<&str> = rewards.iter().filter_map(|row| row.strip_prefix("reward ")).collect();
        assert_eq!(rewards, expected, "{fields}");
    }
}

#[test]
fn trace_ids_do_not_depend_on_the_folder() {
    let run = |file: Option<&str>, question: Option<&str>| Run {
        file: file.map(str::to_owned),
        question: question.map(str::to_owned),
        ..Run::default()
    };
    assert_eq!(trace_id(&run(Some("Algorithm-Generated/2.json"), Some("q")), "x"), "Algorithm-Generated/2");
    assert_eq!(trace_id(&run(None, Some("q")), "2"), "2/q");
    assert_eq!(trace_id(&run(None, None), "2"), "2");
    assert_eq!(trace_id(&run(None, Some("q")), ""), "q");
}

#[test]
fn what_cannot_be_read_is_said_with_its_place() {
    let cases = [
        ("5", "record.not_object "),
        ("{}", "field.missing "),
        (r#"{"history":5}"#, "field.type /history"),
        (r#"{"history":null}"#, "field.type /history"),
        (r#"{"history":[]}"#, "field.empty /history"),
        (r#"{"history":["x"]}"#, "field.type /history/0"),
        (r#"{"history":[{"content":"x","name":"A"},{"name":"A"}]}"#, "field.missing /history/1"),
        (r#"{"history":[{"content":["x"],"name":"A"}]}"#, "field.type /history/0/content"),
        (r#"{"history":[{"content":"x","name":""}]}"#, "field.empty /history/0/name"),
        (
            r#"{"history":[{"content":"x","name":"A"},{"content":"x","name":null,"role":"B"}]}"#,
            "field.missing /history/1",
        ),
        (r#"{"history":[{"content":"x"}]}"#, "field.missing /history/0"),
        (r#"{"history":[],"history":[]}"#, "field.empty /history"),
        (r#"{"history":[{"content":"x","content":"x"}]}"#, "json.duplicate_key /history/0/content"),
        // the record is whole, and used
        (r#"{"history":[{"content":"x","name":"A"}]} x"#, "json.syntax "),
        (r#"{"history":[{"content":"x"#, "input.truncated /history/0/content"),
    ];
    for (text, expected) in cases {
        assert_eq!(quarantine(text), [expected], "{text}");
    }
}

#[test]
fn lone_surrogates_are_replaced_and_told() {
    let line = |content: &str| {
        format!(r#"{{"history":[{{"content":"{content}","name":"A"}}],"mistake_agent":"A"}}"#)
    };
    let codes = |content: &str| rows(&ingest(&line(content)), "findings", &["code"]);
    assert_eq!(codes(r"a\ud800b"), ["trace.partial", "utf8.replaced"]);
    assert_eq!(codes(r"\ufffd \uFFFD � \ud83d\ude00"), ["trace.partial"]);
}

#[test]
fn a_chat_of_strangers_cannot_fill_the_memory() {
    let entries: Vec<String> = (0..6_000).map(|i| format!(r#"{{"content":"x","name":"a{i}"}}"#)).collect();
    let rejected = quarantine(&format!(r#"{{"history":[{}]}}"#, entries.join(",")));
    assert_eq!(rejected, ["record.too_large /history/5793"]);
}

#[test]
fn formats_are_told_by_both_keys() {
    assert_eq!(WhoAndWhen.sniff(&["question", "history", "mistake_agent"]), Confidence::Yes);
    assert_eq!(WhoAndWhen.sniff(&["history"]), Confidence::Maybe);
    assert_eq!(WhoAndWhen.sniff(&["events"]), Confidence::No);
}
