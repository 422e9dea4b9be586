use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use serde_json::{Value as Json, json};

use super::AgentRx;
use crate::importers::testing::{column, counts, documents, read_texts};
use crate::store::Store;

fn labeled(id: Json, failures: Json, cause: Json) -> Json {
    let mut run =
        json!({"failure_summary": "it went wrong", "root_cause": {"reason_for_root_cause": "because"}});
    run["trajectory_id"] = id;
    run["failures"] = failures;
    run["root_cause"]["failure_id"] = cause;
    run
}

fn failure(id: Json, step: Json, agent: &str) -> Json {
    let mut failure = json!({"step_reason": "r", "failure_category": "System Failure",
           "category_reason": "c", "failed_agent": agent});
    failure["failure_id"] = id;
    failure["step_number"] = step;
    failure
}

/// `trace_id annotator turn agent`.
fn labels(store: &Store) -> Vec<String> {
    let batch = store.combined("labels").unwrap();
    let turns = batch.column_by_name("turn").unwrap().as_primitive::<UInt32Type>().values();
    let [traces, annotators, agents] =
        ["trace_id", "annotator", "agent"].map(|name| column(store, "labels", name));
    let row = |i: usize| format!("{} {} {} {}", traces[i], annotators[i], turns[i], agents[i]);
    (0..traces.len()).map(row).collect()
}

#[test]
fn failures_are_labels_and_the_root_cause_is_one_more() {
    let runs = json!([
        labeled(
            json!("q-1"),
            json!([failure(json!(1), json!(13), "WebSurfer"), failure(json!(2), json!(1), "Websurfer")]),
            json!("2")
        ),
        labeled(json!(7), json!([failure(json!(1), json!("3"), "Assistant")]), json!(9)),
    ]);
    let store = read_texts(&AgentRx, &[("a.json", &runs.to_string())]);
    assert_eq!(
        labels(&store),
        [
            "q-1 agentrx 12 WebSurfer",
            "q-1 agentrx 0 Websurfer",
            "q-1 agentrx.root_cause 0 Websurfer",
            "7 agentrx 2 Assistant",
        ]
    );
    assert_eq!((store.n_traces(), store.records_quarantined(), documents(&store).len()), (0, 0, 0));
    assert_eq!(counts(&store), [("a.json".into(), "used".into(), String::new(), 2)]);
}

#[test]
fn what_names_no_step_is_quarantined() {
    let good = labeled(json!("q"), json!([failure(json!(1), json!(2), "A")]), json!(1));
    let zero = labeled(json!("q"), json!([failure(json!(1), json!(0), "A")]), json!(1));
    let nobody = labeled(Json::Null, json!([]), json!(1));
    let none = labeled(json!("q"), json!("none"), json!(1));
    let text = [&good, &zero, &nobody, &none].map(Json::to_string).join("\n");
    let text = format!("{text}\n{{\"trajectory_id\": 1, \"fail");
    let store = read_texts(&AgentRx, &[("a.jsonl", &text)]);
    assert_eq!(labels(&store), ["q agentrx 1 A", "q agentrx.root_cause 1 A"]);
    assert_eq!(store.records_quarantined(), 4);
}

#[test]
fn a_copy_is_one_annotation() {
    let annotation = labeled(json!("q"), json!([failure(json!(1), json!(2), "A")]), json!(1)).to_string();
    let store = read_texts(&AgentRx, &[("a.json", &annotation), ("b.json", &annotation), ("c.json", "\n")]);
    assert_eq!(labels(&store).len(), 2);
}

#[test]
fn a_line_of_five_megabytes() {
    let mut long = labeled(json!("q"), json!([failure(json!(1), json!(2), "A")]), json!(1));
    long["failure_summary"] = "x".repeat(5 << 20).into();
    let store = read_texts(&AgentRx, &[("a.jsonl", &format!("{long}\n"))]);
    assert_eq!(labels(&store), ["q agentrx 1 A", "q agentrx.root_cause 1 A"]);
}
