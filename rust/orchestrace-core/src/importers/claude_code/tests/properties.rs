//! What holds for any cut and any order of files.

use proptest::prelude::*;

use super::agents::team;
use super::*;

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
fn agree(cut: &Json, complete: &Json) -> usize {
    let list = cut["events"].as_array().unwrap();
    let of_main = |e: &Json| e["agent"] == "main";
    let open = list.iter().rfind(|e| of_main(e) && !e["x_gen"].is_null()).map(|e| e["x_gen"].clone());
    let mut agents = BTreeSet::from(["main", "user"]);
    for event in list.iter().filter(|e| e["type"] == "spawn" && e["x_partial"] != true) {
        if agents.contains(event["agent"].as_str().unwrap()) {
            agents.extend(event["to"].as_str());
        }
    }
    let mut compared = 0;
    for event in list {
        let stranger = event["type"] != "tool_result" && !agents.contains(event["agent"].as_str().unwrap());
        let made_up = event["type"] == "spawn" && event["x_partial"] == true;
        if stranger || made_up || open.as_ref().is_some_and(|open| event["x_gen"] == *open) {
            continue;
        }
        compared += 1;
        let same = self::event(complete, event["id"].as_str().unwrap());
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
        let complete = read(main.len());
        // The first record is where times count from.
        let first = main.find('\n').unwrap();
        let mut compared = 0;
        for end in (first..main.len()).step_by(149) {
            compared = agree(&read(end), &complete);
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
