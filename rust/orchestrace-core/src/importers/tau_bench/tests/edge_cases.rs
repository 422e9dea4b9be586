//! What goes wrong: clocks that jump, missing times, size.

use super::*;
use crate::importers::recording::hash;

fn times(trace: &Json) -> Vec<(String, f64)> {
    let list = trace["events"].as_array().unwrap().iter();
    list.map(|e| (e["id"].as_str().unwrap().to_owned(), e["t"].as_f64().unwrap())).collect()
}

fn of(trace: &[(&str, f64)]) -> Vec<(String, f64)> {
    trace.iter().map(|(id, t)| ((*id).to_owned(), *t)).collect()
}

fn simulated(change: impl Fn(&mut Vec<Json>)) -> Json {
    let mut all = results();
    change(all["simulations"][0]["messages"].as_array_mut().unwrap());
    documents(&store(&[("results.json", &all.to_string())])).remove(0)
}

#[test]
fn without_times_messages_are_counted() {
    let trace = trace(&run(json!(3), 2, 1.0, talk()));
    let found: Vec<f64> = times(&trace).into_iter().map(|(_, t)| t).collect();
    assert_eq!(found, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 5.0, 6.0, 7.0, 8.0]);
    assert_eq!(trace["events"][0]["x_trace"]["time_basis"], "ordinal");
}

#[test]
fn a_clock_that_jumps_an_hour_back() {
    let trace = simulated(|messages| {
        for message in &mut messages[4..] {
            let time = message["timestamp"].as_str().unwrap().replace("T10:", "T09:");
            message["timestamp"] = time.into();
        }
    });
    // Each keeps the order of what it did; times count from the first, which is the assistant's of second 4.
    let order = ["0", "1", "a", "a:r", "4", "b", "b:r", "7"];
    let mut found = times(&trace);
    let place = |id: &str| found.iter().position(|(other, _)| other == id).unwrap();
    let assistant = ["0", "a", "a:r", "4"].map(place);
    let user = ["1", "b", "b:r", "7"].map(place);
    assert!(assistant.is_sorted() && user.is_sorted(), "{found:?}");
    found.sort_by_key(|(id, _)| order.iter().position(|other| *other == id.as_str()));
    let expected = [
        ("0", 3596.0),
        ("1", 3597.0),
        ("a", 3598.0),
        ("a:r", 3599.0),
        ("4", 0.0),
        ("b", 1.0),
        ("b:r", 2.0),
        ("7", 3.0),
    ];
    assert_eq!(found, of(&expected));
    assert_eq!(edges_of(&trace, "return"), set(&["a a:r", "b b:r"]));
}

#[test]
fn a_message_without_a_time_has_that_of_the_one_before() {
    let trace = simulated(|messages| {
        messages[3].as_object_mut().unwrap().remove("timestamp");
        messages[4]["timestamp"] = "soon".into();
    });
    let expected =
        [("0", 0.5), ("1", 1.5), ("a", 2.5), ("a:r", 2.5), ("4", 2.5), ("b", 5.5), ("b:r", 6.5), ("7", 7.5)];
    assert_eq!(times(&trace), of(&expected));
}

#[test]
fn a_line_of_five_megabytes() {
    let long = "x".repeat(5 << 20);
    let mut log = talk();
    log[8]["content"] = long.clone().into();
    let line = run(json!(3), 2, 1.0, log).to_string();
    let trace = documents(&store(&[("a.jsonl", &format!("{line}\n"))])).remove(0);
    let hex = hash(&long).iter().fold(String::new(), |out, byte| out + &format!("{byte:02x}"));
    let answer = trace["events"].as_array().unwrap().iter().find(|e| e["id"] == "8").unwrap();
    assert_eq!(answer["content_ref"], format!("sha256:{hex}"));
}
