//! What no case file can say: prefixes, bytes that are no text, files in any order.

use super::Pi;
use crate::importers::testing::{
    column, content_ref, documents, event, fates, fields, is_partial, only, read_bytes, read_checked, traces,
};
use crate::importers::{Format, detect};
use crate::ingest::ReadOptions;
use crate::tests::cases::first_input;

const TREE: &str = "branches_that_were_given_up_are_kept_and_flagged";
const LIST: &str = "a_session_becomes_a_trace";

fn session(case: &str) -> String {
    first_input(&Pi, case)
}

#[test]
fn any_prefix_gives_what_it_has() {
    for case in [LIST, TREE, "a_trace_of_sts_has_what_its_lines_have", "other_entries_are_counted_by_kind"] {
        let text = session(case);
        let mut events = 0;
        for end in (0..=text.len()).step_by(5).chain([text.len()]).filter(|end| text.is_char_boundary(*end)) {
            let store = read_checked(&Pi, &[("x.jsonl", &text[..end])]);
            let n_lines = text[..end].lines().filter(|line| !line.trim().is_empty()).count() as u64;
            assert_eq!(fates(&store).values().sum::<u64>(), n_lines, "{end} of {case}");
            assert!(store.n_traces() <= 1, "{end} of {case}");
            assert!(store.n_events() >= events, "{end} of {case}");
            events = store.n_events();
        }
    }
}

#[test]
fn what_goes_on_later_changes_no_earlier_event() {
    let text = session(LIST);
    let all_fields =
        fields(&only(&read_checked(&Pi, &[("x.jsonl", &text)])), &["id", "agent", "content_ref"]);
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    for end in ends.into_iter().skip(1) {
        let trace = only(&read_checked(&Pi, &[("x.jsonl", &text[..end])]));
        let some = fields(&trace, &["id", "agent", "content_ref"]);
        assert_eq!(some[..], all_fields[..some.len()], "{end}");
    }
}

#[test]
fn a_line_of_five_megabytes_and_zeros_are_imported() {
    let long = "x".repeat(5 << 20);
    let text = session(LIST).replace("It is 3.", &long);
    let trace = only(&read_checked(&Pi, &[("x.jsonl", &text)]));
    assert_eq!(event(&trace, "main:5")["content_ref"], content_ref(&long));
    let first = text.as_bytes()[..1 << 10].split(|byte| *byte == b'\n');
    assert_eq!(detect(first, "x.jsonl").info().name, "pi");
    let text = session(LIST).replace("It is 3.", "a\\u0000b");
    let trace = only(&read_checked(&Pi, &[("x.jsonl", &text)]));
    assert_eq!(event(&trace, "main:5")["content_ref"], content_ref("a\0b"));
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    let mut bytes = session(LIST).into_bytes();
    let at = bytes.windows(8).position(|window| window == b"It is 3.").unwrap();
    bytes[at] = 0xff;
    let store = read_bytes(Format::Spread(&Pi), &[("x.jsonl", &bytes)], &ReadOptions::default(), 2);
    assert_eq!((store.n_traces(), store.records_quarantined()), (1, 0));
    assert_eq!(event(&only(&store), "main:5")["content_ref"], content_ref("\u{fffd}t is 3."));
    assert!(column(&store, "findings", "code").contains(&"utf8.replaced".to_owned()));
}

#[test]
fn no_order_of_files_decides_where_a_copied_response_counts() {
    let parts = session(LIST).replace(r#""s1""#, r#""a""#);
    let others: Vec<String> = ["b", "c"]
        .iter()
        .map(|name| {
            let from = if *name == "b" { "a" } else { "b" };
            let head = format!(
                r#"{{"type":"session","id":"{name}","timestamp":"2026-01-01T01:00:00Z","cwd":"/w","branchedFrom":"/s/x_{from}.jsonl"}}"#
            );
            parts.lines().skip(1).fold(head, |text, line| text + "\n" + line)
        })
        .collect();
    let files = [("p/z.jsonl", parts.as_str()), ("p/y.jsonl", &others[0]), ("p/x.jsonl", &others[1])];
    let tokens = |order: [usize; 3]| {
        let store = read_checked(&Pi, &order.map(|at| files[at]));
        let mut tokens: Vec<(String, f64)> = documents(&store)
            .iter()
            .map(|trace| {
                let id = trace["trace_id"].as_str().unwrap().to_owned();
                (id, trace["costs"]["tokens"].as_f64().unwrap())
            })
            .collect();
        tokens.sort_by(|a, b| a.0.cmp(&b.0));
        tokens
    };
    let all = tokens([0, 1, 2]);
    assert!(all[0].1 > 0.0 && all[1].1 == 0.0 && all[2].1 == 0.0, "{all:?}");
    for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        assert_eq!(tokens(order), all);
    }
    // Without the session that both go back to, the one that names no other that is here has them.
    let store = read_checked(&Pi, &[files[2], files[1]]);
    let paid = |trace: &serde_json::Value| trace["costs"]["tokens"].as_f64().unwrap() > 0.0;
    let all = documents(&store);
    let names: Vec<&str> = all.iter().filter(|t| paid(t)).map(|t| t["trace_id"].as_str().unwrap()).collect();
    assert_eq!(names, ["b"]);
}

#[test]
fn a_session_that_was_rewritten_with_ids_is_the_same_one() {
    let text = session(LIST);
    let mut before = None;
    let rewritten: String = text
        .lines()
        .enumerate()
        .map(|(at, line)| {
            if at == 0 {
                return line.replace(r#""cwd""#, r#""version":3,"cwd""#) + "\n";
            }
            let parent = before.replace(at).map_or("null".into(), |at: usize| format!("\"e{at}\""));
            let names = format!(r#""id":"e{at}","parentId":{parent},"timestamp""#);
            line.replacen(r#""timestamp""#, &names, 1) + "\n"
        })
        .collect();
    let alone = read_checked(&Pi, &[("a.jsonl", &rewritten)]);
    let both = read_checked(&Pi, &[("a.jsonl", &rewritten), ("b.jsonl", &text)]);
    assert_eq!((alone.n_traces(), both.n_traces()), (1, 1));
    assert_eq!(only(&alone)["costs"], only(&both)["costs"]);
    assert_eq!(documents(&alone)[0]["events"], documents(&both)[0]["events"]);
    let turned = read_checked(&Pi, &[("b.jsonl", &text), ("a.jsonl", &rewritten)]);
    assert_eq!(documents(&turned)[0]["events"], documents(&both)[0]["events"]);
    // It may have gone on since.
    let earlier: String = text.lines().take(3).flat_map(|line| [line, "\n"]).collect();
    let grown = read_checked(&Pi, &[("c.jsonl", &earlier), ("a.jsonl", &rewritten)]);
    assert_eq!(documents(&grown)[0]["events"], documents(&both)[0]["events"]);
}

#[test]
fn many_entries_of_one_time_keep_their_order() {
    let entry = |id: &str| {
        format!(
            r#"{{"type":"message","id":"{id}","timestamp":"2026-01-01T00:00:00Z","message":{{"role":"user","content":"{id}"}}}}"#
        )
    };
    let ids: Vec<String> = (0..40).map(|n| format!("e{n:02}")).collect();
    let text = ids.iter().map(|id| entry(id)).collect::<Vec<_>>().join("\n");
    let trace = only(&read_checked(&Pi, &[("x.jsonl", &text)]));
    assert_eq!(fields(&trace, &["id"]), ids);
    assert!(is_partial(&trace));
    assert_eq!(traces(&read_checked(&Pi, &[("x.jsonl", "\n \n")])).len(), 0);
}
