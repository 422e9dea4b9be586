//! What goes wrong: cut lists, tries, ids that come again, clocks that jump.

use super::*;

fn quarantine(store: &Store) -> Vec<String> {
    let batch = store.combined("quarantine").unwrap();
    let column = batch.column_by_name("code").unwrap();
    let code = |row| crate::store::text_at(column, row).unwrap_or_default().to_owned();
    (0..batch.num_rows()).map(code).collect()
}

#[test]
fn a_list_of_messages_that_is_cut_keeps_those_before() {
    let bare = json!([
        {"role": "system", "content": "s"},
        {"role": "user", "content": "the issue"},
        {"role": "assistant", "content": "First.\n\n```bash\nls -la\n```"},
        {"role": "user", "content": "a.py"}
    ])
    .to_string();
    let store = read_texts(&SweAgent, &[("runs/x__y-2.traj.json", &bare[..bare.len() - 9])]);
    assert_eq!(quarantine(&store), ["input.truncated"]);
    let trace = documents(&store).remove(0);
    assert_eq!(events(&trace), ["m1 message user agent", "m2:c0 tool_call agent -", "m2 message agent -"]);
    assert_eq!((event(&trace, "m2:c0")["x_partial"].as_bool(), is_partial(&trace)), (Some(true), true));
}

#[test]
fn a_command_tried_again_is_two_calls() {
    let mut run = run();
    let again = run["trajectory"][0].clone();
    run["trajectory"].as_array_mut().unwrap().insert(1, again);
    let trace = trace(&run);
    let calls: Vec<&Json> = list(&trace).iter().filter(|e| e["type"] == "tool_call").collect();
    assert_eq!(calls.iter().map(|e| e["id"].as_str().unwrap()).collect::<Vec<_>>(), ["s0:c", "s1:c", "s2:c"]);
    assert_eq!(calls[0]["content_ref"], calls[1]["content_ref"], "the same call");
    let drawn = edges(&trace);
    for edge in ["s0:c return s0:c:r", "s0:c:r causal s1:c", "s1:c return s1:c:r", "s1:c:r causal s2:c"] {
        assert!(drawn.contains(edge), "{edge} of {drawn:?}");
    }
}

#[test]
fn ids_of_calls_that_come_again_are_of_the_latest_answer() {
    let mut run = mini();
    let (asks, gives) = (run["messages"][2].clone(), run["messages"][4].clone());
    // Asked once more, with the ids of before; only the first of them is answered.
    let messages = run["messages"].as_array_mut().unwrap();
    messages.splice(5..6, [asks, gives]);
    let trace = trace(&run);
    assert_eq!(
        events(&trace)[1..],
        [
            "m2:c0 tool_call agent -",
            "m2:c1 tool_call agent -",
            "m2 message agent -",
            "m2:c1:r tool_result bash -",
            "m2:c0:r tool_result bash -",
            "m5:c0 tool_call agent -",
            "m5:c1 tool_call agent -",
            "m5 message agent -",
            "m5:c0:r tool_result bash -",
            "end return agent user",
        ]
    );
    let drawn = edges(&trace);
    assert!(drawn.contains("m2:c0 return m2:c0:r") && drawn.contains("m5:c0 return m5:c0:r"), "{drawn:?}");
    assert_eq!(event(&trace, "m5:c1")["x_partial"], true);
}

#[test]
fn a_clock_that_jumps_and_messages_without_times() {
    let mut run = mini();
    let seconds = |second: f64| json!(1_770_000_000.0 + second);
    run["messages"][2]["extra"]["timestamp"] = seconds(0.5);
    run["messages"][3]["extra"]["timestamp"] = seconds(-3599.5);
    run["messages"][4]["extra"]["timestamp"] = seconds(3.5);
    let trace = trace(&run);
    let order = ["m1", "m2:c0", "m2:c1", "m2", "m2:c1:r", "m2:c0:r", "m5", "end"];
    let found: Vec<(&str, f64)> =
        list(&trace).iter().map(|e| (e["id"].as_str().unwrap(), e["t"].as_f64().unwrap())).collect();
    // In the order of the file. The first message has no time and has that of what follows, the last have that of
    // what is before.
    let times = [3600.0, 3600.0, 3600.0, 3600.0, 0.0, 3603.0, 3603.0, 3603.0];
    assert_eq!(found, order.into_iter().zip(times).collect::<Vec<_>>());
    assert_eq!(trace["events"][0]["x_trace"]["time_basis"], "seconds");
}
