//! What no case file can say: prefixes, files in any order, what goes on later.

use super::Copilot;
use crate::importers::detect;
use crate::importers::testing::{content_ref, documents, event, fates, fields, only, read_checked, traces};
use crate::tests::cases::first_input;

const ONE: &str = "a_session_becomes_a_trace";
const TEAM: &str = "sub_agents_are_joined_by_their_calls";
const FILE: &str = "s1/events.jsonl";

#[test]
fn any_prefix_gives_what_it_has() {
    let cases = [
        ONE,
        TEAM,
        "sub_agents_in_the_background_return_when_they_end",
        "sub_agents_that_no_call_asked_for",
        "what_the_user_does_and_what_stops_a_turn",
    ];
    for case in cases {
        let text = first_input(&Copilot, case);
        for end in (0..=text.len()).step_by(7).chain([text.len()]) {
            let store = read_checked(&Copilot, &[(FILE, &text[..end])]);
            let n_lines = text[..end].lines().filter(|line| !line.trim().is_empty()).count() as u64;
            assert_eq!(fates(&store).values().sum::<u64>(), n_lines, "{end} of {case}");
            assert!(store.n_traces() <= 1, "{end} of {case}");
        }
    }
    assert_eq!(traces(&read_checked(&Copilot, &[(FILE, "\n \n")])).len(), 0);
}

#[test]
fn what_goes_on_later_changes_no_earlier_event() {
    let text = first_input(&Copilot, ONE);
    let all = fields(&only(&read_checked(&Copilot, &[(FILE, &text)])), &["id", "agent", "content_ref"]);
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    for end in ends.into_iter().skip(2) {
        let trace = only(&read_checked(&Copilot, &[(FILE, &text[..end])]));
        let some = fields(&trace, &["id", "agent", "content_ref"]);
        assert_eq!(some[..], all[..some.len()], "{end}");
    }
}

#[test]
fn no_order_of_files_decides_what_a_session_is() {
    let text = first_input(&Copilot, TEAM);
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let files =
        [("p/z.jsonl", &text[..ends[6]]), ("p/y.jsonl", &text[..ends[11]]), ("p/x.jsonl", text.as_str())];
    let read = |order: [usize; 3]| documents(&read_checked(&Copilot, &order.map(|at| files[at])));
    let all = read([0, 1, 2]);
    assert_eq!(all.len(), 1);
    for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        assert_eq!(read(order), all);
    }
    let alone = documents(&read_checked(&Copilot, &[files[2]]));
    assert_eq!((&alone[0]["events"], &alone[0]["costs"]), (&all[0]["events"], &all[0]["costs"]));
}

#[test]
fn zeros_in_a_text_are_imported_and_a_beginning_tells_the_format() {
    let text = first_input(&Copilot, ONE);
    let first = text.as_bytes()[..1 << 10].split(|byte| *byte == b'\n');
    assert_eq!(detect(first, FILE).info().name, "copilot");
    let text = text.replace("It is 3.", "a\\u0000b");
    let trace = only(&read_checked(&Copilot, &[(FILE, &text)]));
    assert_eq!(event(&trace, "e8")["content_ref"], content_ref("a\0b"));
}
