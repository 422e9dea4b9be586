//! What no case file can say: prefixes, files in any order.

use super::OpenCode;
use crate::importers::testing::{documents, fates, fields, only, read_checked, traces};
use crate::tests::cases::first_input;

const DOCUMENT: &str = "a_session_in_one_document_becomes_a_trace";
const STREAM: &str = "a_stream_sends_things_again_as_they_change";
const TEAM: &str = "sub_agents_are_joined_by_the_sessions_of_their_calls";

#[test]
fn any_prefix_of_a_stream_gives_what_it_has() {
    for case in [STREAM, "what_run_prints_has_no_prompts"] {
        let text = first_input(&OpenCode, case);
        for end in (0..=text.len()).step_by(7).chain([text.len()]) {
            let store = read_checked(&OpenCode, &[("x.jsonl", &text[..end])]);
            let n_lines = text[..end].lines().filter(|line| !line.trim().is_empty()).count() as u64;
            // What is whole in a line that is cut may be a record, too.
            let n_records = fates(&store).values().sum::<u64>();
            assert!(n_records == n_lines || n_records == n_lines + 1, "{end} of {case}");
            assert!(store.n_traces() <= 1, "{end} of {case}");
        }
    }
    assert_eq!(traces(&read_checked(&OpenCode, &[("x.jsonl", "\n \n")])).len(), 0);
}

/// The files of a case, as its first inputs have them.
fn files(case: &str) -> Vec<(String, String)> {
    let all = first_input(&OpenCode, case);
    let lines: Vec<&str> = all.lines().collect();
    // Behind the first input each file has a line with its name before it.
    let mut files = vec![("first.json".to_owned(), lines[0].to_owned())];
    files.extend(
        lines[1..].chunks(2).map(|pair| (pair[0].trim_start_matches("--- ").to_owned(), pair[1].to_owned())),
    );
    files
}

fn read(files: &[(String, String)]) -> Vec<serde_json::Value> {
    let inputs: Vec<(&str, &str)> = files.iter().map(|(name, text)| (&**name, &**text)).collect();
    documents(&read_checked(&OpenCode, &inputs))
}

#[test]
fn no_order_of_files_decides_what_a_session_is() {
    for case in [TEAM, "a_store_has_a_file_for_each_session_message_and_part"] {
        let mut files = files(case);
        let all = read(&files);
        assert_eq!(all.len(), 1, "{case}");
        files.reverse();
        assert_eq!(read(&files), all, "{case}");
        for by in 1..files.len() {
            files.rotate_left(by);
            assert_eq!(read(&files), all, "{by} of {case}");
        }
    }
}

#[test]
fn a_store_without_any_of_its_files_is_read() {
    for case in [TEAM, "a_store_has_a_file_for_each_session_message_and_part"] {
        let files = files(case);
        for without in 0..files.len() {
            let mut some = files.clone();
            some.remove(without);
            assert_eq!(read(&some).len(), 1, "{without} of {case}");
        }
    }
}

#[test]
fn what_goes_on_later_changes_no_earlier_event() {
    let text = first_input(&OpenCode, DOCUMENT);
    let keys = ["id", "agent", "content_ref"];
    let all = fields(&only(&read_checked(&OpenCode, &[("x.json", &text)])), &keys);
    let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
    while let Some(messages) = document["messages"].as_array_mut().filter(|list| list.len() > 1) {
        messages.pop();
        let text = document.to_string();
        let some = fields(&only(&read_checked(&OpenCode, &[("x.json", &text)])), &keys);
        assert_eq!(some[..], all[..some.len()]);
    }
}
