//! What no case file can say: prefixes, files in any order.

use super::QwenCode;
use crate::importers::testing::{documents, fates, read_checked};
use crate::tests::cases::first_input;

const SESSION: &str = "a_session_becomes_a_trace";

#[test]
fn any_prefix_gives_what_it_has() {
    for case in [SESSION, "telemetry_counts_what_no_message_does"] {
        let text = first_input(&QwenCode, case);
        for end in (0..=text.len()).step_by(5).filter(|end| text.is_char_boundary(*end)) {
            let store = read_checked(&QwenCode, &[("x.jsonl", &text[..end])]);
            let n_lines = text[..end].lines().filter(|line| !line.trim().is_empty()).count() as u64;
            assert_eq!(fates(&store).values().sum::<u64>(), n_lines, "{end} of {case}");
            assert!(store.n_traces() <= 1, "{end} of {case}");
        }
    }
}

#[test]
fn no_order_of_files_decides_what_a_session_is() {
    for case in [SESSION, "answers_without_usage_have_that_of_telemetry"] {
        any_order(&first_input(&QwenCode, case));
    }
}

fn any_order(text: &str) {
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let files = [("p/z.jsonl", &text[..ends[1]]), ("p/y.jsonl", &text[..ends[2]]), ("p/x.jsonl", text)];
    let read = |order: [usize; 3]| documents(&read_checked(&QwenCode, &order.map(|at| files[at])));
    let all = read([0, 1, 2]);
    assert_eq!(all.len(), 1);
    for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        assert_eq!(read(order), all);
    }
    let alone = documents(&read_checked(&QwenCode, &[files[2]]));
    assert_eq!((&alone[0]["events"], &alone[0]["costs"]), (&all[0]["events"], &all[0]["costs"]));
    // A copy that was kept early, whatever it is called.
    for name in ["p/a.jsonl", "p/z.jsonl"] {
        let both = documents(&read_checked(&QwenCode, &[(name, &text[..ends[1]]), ("p/m.jsonl", text)]));
        assert_eq!((&both[0]["events"], &both[0]["costs"]), (&all[0]["events"], &all[0]["costs"]), "{name}");
    }
}
