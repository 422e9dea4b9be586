//! What no case file can say: prefixes, files in any order, damaged bytes.

use super::Kimi;
use crate::importers::Format;
use crate::importers::testing::{documents, fates, read_bytes, read_checked};
use crate::ingest::ReadOptions;
use crate::tests::cases::{first_input, inputs_of};

const ALONE: [&str; 6] = [
    "a_session_becomes_a_trace",
    "requests_that_nobody_answered",
    "a_human_decides_about_calls",
    "usage_that_is_stated_once_or_otherwise",
    "what_was_taken_back_is_flagged",
    "a_summary_is_paid_for_and_ends_what_was_read",
];
const TEAMS: [&str; 6] = [
    "sub_agents_have_files_of_their_own",
    "agents_of_agents",
    "a_swarm_makes_several_agents_work",
    "work_in_the_background_is_told_later",
    "an_agent_that_is_asked_again_answers_twice",
    "a_fork_repeats_what_counts_in_the_other_session",
];
const COPIES: [&str; 2] = ["copies_of_a_session_are_one_trace", "copies_that_went_on_in_different_ways"];

#[test]
fn any_prefix_gives_what_it_has() {
    for case in ALONE {
        let text = first_input(&Kimi, case);
        for end in (0..=text.len()).step_by(7).filter(|end| text.is_char_boundary(*end)) {
            let store = read_checked(&Kimi, &[("x.jsonl", &text[..end])]);
            let n_lines = text[..end].lines().filter(|line| !line.trim().is_empty()).count() as u64;
            assert_eq!(fates(&store).values().sum::<u64>(), n_lines, "{end} of {case}");
            assert!(store.n_traces() <= 1, "{end} of {case}");
        }
    }
}

#[test]
fn any_prefix_of_any_file_of_a_team_will_do() {
    for case in TEAMS {
        let files = inputs_of(&Kimi, case);
        for cut in 0..files.len() {
            for end in (0..files[cut].1.len()).step_by(61) {
                let mut cut_files: Vec<(&str, &str)> =
                    files.iter().map(|(path, text)| (&**path, &**text)).collect();
                cut_files[cut].1 = &cut_files[cut].1[..end];
                let n_lines = |text: &str| text.lines().filter(|line| !line.trim().is_empty()).count() as u64;
                let all: u64 = cut_files.iter().map(|(_, text)| n_lines(text)).sum();
                let store = read_checked(&Kimi, &cut_files);
                assert_eq!(fates(&store).values().sum::<u64>(), all, "{end} of {} in {case}", files[cut].0);
            }
        }
    }
}

#[test]
fn no_order_of_files_and_no_threads_decide_what_a_session_is() {
    for case in TEAMS.into_iter().chain(COPIES) {
        let files = inputs_of(&Kimi, case);
        let read = |files: &[(&str, &[u8])], threads: usize| {
            let format = Format::Spread(&Kimi);
            let mut all = documents(&read_bytes(format, files, &ReadOptions::default(), threads));
            all.sort_by_key(|trace| trace["trace_id"].as_str().unwrap_or_default().to_owned());
            all
        };
        let mut files: Vec<(&str, &[u8])> =
            files.iter().map(|(path, text)| (&**path, text.as_bytes())).collect();
        let first = read(&files, 1);
        for threads in [1, 2, 7] {
            for turn in 0..2 * files.len() {
                if turn == files.len() {
                    files.reverse();
                }
                files.rotate_left(1);
                assert_eq!(read(&files, threads), first, "{turn} of {case} on {threads} threads");
            }
        }
        // A file that is there twice says nothing more.
        let doubled: Vec<(&str, &[u8])> = files.iter().chain(&files).copied().collect();
        assert_eq!(read(&doubled, 2), first, "{case}, each file twice");
    }
}

#[test]
fn a_byte_that_is_damaged_costs_its_line_at_most() {
    for case in ALONE.into_iter().chain(TEAMS) {
        let files = inputs_of(&Kimi, case);
        let bytes: Vec<(&str, &[u8])> = files.iter().map(|(path, text)| (&**path, text.as_bytes())).collect();
        let n_lines: u64 = files.iter().map(|(_, text)| text.lines().count() as u64).sum();
        for damaged in 0..files.len() {
            for (nth, at) in (0..files[damaged].1.len()).step_by(37).enumerate() {
                let mut changed = files[damaged].1.clone().into_bytes();
                // Line ends stay: without them two lines are one. A line that ends early is read as two records.
                if changed[at] == b'\n' {
                    continue;
                }
                changed[at] = [b'"', b'0', b'}', 0xff, b'x', b','][nth % 6];
                let mut inputs = bytes.clone();
                inputs[damaged].1 = &changed;
                let store = read_bytes(Format::Spread(&Kimi), &inputs, &ReadOptions::default(), 1);
                let n_records = fates(&store).values().sum::<u64>();
                assert!((n_lines..=n_lines + 1).contains(&n_records), "byte {at} of {case}");
            }
        }
    }
}
