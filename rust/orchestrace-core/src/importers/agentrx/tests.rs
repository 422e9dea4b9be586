#![allow(clippy::needless_pass_by_value)] // `json!` makes values

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use serde_json::{Value as Json, json};

use super::AgentRx;
use crate::importers::testing::{counts, documents, read_texts};
use crate::store::Store;

fn labelled(id: Json, failures: Json, cause: Json) -> Json {
    json!({"trajectory_id": id, "failures": failures, "failure_summary": "it went wrong",
           "root_cause": {"failure_id": cause, "reason_for_root_cause": "because"}})
}

fn failure(id: Json, step: Json, agent: &str) -> Json {
    json!({"failure_id": id, "step_number": step, "step_reason": "r", "failure_category": "System Failure",
           "category_reason": "c", "failed_agent": agent})
}

/// `trace_id annotator turn agent`.
fn labels(store: &Store) -> Vec<String> {
    let batch = store.combined("labels").unwrap();
    let column = |name: &str| batch.column_by_name(name).unwrap();
    let text = |name: &str, row: usize| {
        let array = column(name);
        match array.as_any_dictionary_opt() {
            Some(dictionary) => {
                let at = dictionary.normalized_keys()[row];
                dictionary.values().as_string::<i32>().value(at).to_owned()
            }
            None => array.as_string_view().value(row).to_owned(),
        }
    };
    let turns = column("turn").as_primitive::<UInt32Type>();
    (0..batch.num_rows())
        .map(|row| {
            let [trace, annotator, agent] = ["trace_id", "annotator", "agent"].map(|name| text(name, row));
            format!("{trace} {annotator} {} {agent}", turns.value(row))
        })
        .collect()
}

#[test]
fn failures_are_labels_and_the_root_cause_is_one_more() {
    let runs = json!([
        labelled(
            json!("q-1"),
            json!([failure(json!(1), json!(13), "WebSurfer"), failure(json!(2), json!(1), "Websurfer")]),
            json!("2")
        ),
        labelled(json!(7), json!([failure(json!(1), json!("3"), "Assistant")]), json!(9)),
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
    let good = labelled(json!("q"), json!([failure(json!(1), json!(2), "A")]), json!(1));
    let zero = labelled(json!("q"), json!([failure(json!(1), json!(0), "A")]), json!(1));
    let nobody = labelled(Json::Null, json!([]), json!(1));
    let none = labelled(json!("q"), json!("none"), json!(1));
    let text = [&good, &zero, &nobody, &none].map(Json::to_string).join("\n");
    let text = format!("{text}\n{{\"trajectory_id\": 1, \"fail");
    let store = read_texts(&AgentRx, &[("a.jsonl", &text)]);
    assert_eq!(labels(&store), ["q agentrx 1 A", "q agentrx.root_cause 1 A"]);
    assert_eq!(store.records_quarantined(), 4);
}

#[test]
fn a_copy_is_one_annotation() {
    let one = labelled(json!("q"), json!([failure(json!(1), json!(2), "A")]), json!(1)).to_string();
    let store = read_texts(&AgentRx, &[("a.json", &one), ("b.json", &one), ("c.json", "\n")]);
    assert_eq!(labels(&store).len(), 2);
}
