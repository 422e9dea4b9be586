//! What no case file can say: prefixes, files in any order.

use super::GeminiCli;
use crate::importers::testing::{documents, fates, read_checked};
use crate::tests::cases::first_input;

const LINES: &str = "a_session_in_lines_becomes_a_trace";

#[test]
fn any_prefix_gives_what_it_has() {
    for case in [LINES, "a_message_that_is_written_again_counts_once"] {
        let text = first_input(&GeminiCli, case);
        for end in (0..=text.len()).step_by(5).filter(|end| text.is_char_boundary(*end)) {
            let store = read_checked(&GeminiCli, &[("x.jsonl", &text[..end])]);
            let n_lines = text[..end].lines().filter(|line| !line.trim().is_empty()).count() as u64;
            assert_eq!(fates(&store).values().sum::<u64>(), n_lines, "{end} of {case}");
            assert!(store.n_traces() <= 1, "{end} of {case}");
        }
    }
}

#[test]
fn no_order_of_files_decides_what_a_session_is() {
    let text = first_input(&GeminiCli, "a_message_that_is_written_again_counts_once");
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let files =
        [("p/z.jsonl", &text[..ends[2]]), ("p/y.jsonl", &text[..ends[3]]), ("p/x.jsonl", text.as_str())];
    let read = |order: [usize; 3]| documents(&read_checked(&GeminiCli, &order.map(|at| files[at])));
    let all = read([0, 1, 2]);
    assert_eq!(all.len(), 1);
    for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        assert_eq!(read(order), all);
    }
    let alone = documents(&read_checked(&GeminiCli, &[files[2]]));
    assert_eq!((&alone[0]["events"], &alone[0]["costs"]), (&all[0]["events"], &all[0]["costs"]));
}
