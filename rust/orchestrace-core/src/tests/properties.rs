//! Whatever the bytes, reading never panics and its counts reconcile; whatever the cut, it gives the same tables.

#![allow(clippy::unwrap_used)] // where a test cannot go on, it stops

use std::sync::atomic::{AtomicBool, AtomicU64};

use super::invariants::reading::{compressed, from_stream, reconciles};
use super::invariants::{formats, streams, syntax};
use arrow_array::cast::AsArray;
use orchestrace_core::generate::{self, Preset, Spec};
use orchestrace_core::ingest::ReadOptions;
use orchestrace_core::run::Run;
use orchestrace_core::schema::TABLES;
use orchestrace_core::store::write_jsonl;
use proptest::prelude::*;

fn options(block_size: usize) -> ReadOptions {
    ReadOptions { block_size, ..ReadOptions::default() }
}

fn generated(traces: u64, seed: u64) -> Vec<u8> {
    let spec = Spec { preset: Preset::Academic, events: None, traces: Some(traces), seed };
    let mut out = Vec::new();
    let mut sink = |bytes: &[u8]| {
        out.extend_from_slice(bytes);
        Ok(())
    };
    generate::write(&spec, &mut sink, 1, &AtomicBool::new(false), &AtomicU64::new(0)).unwrap();
    out
}

/// Short valid lines, which a change of one byte has a chance to hit where it matters.
const LINES: [&str; 3] = [
    r#"{"trace_id":"a","task_id":"b","events":[{"id":"e","t":0,"type":"message","agent":"x","x_note":"\u00e9","x_i":-12,"p_actions":[0.5]}],"edges":[{"src":"e","dst":"e","type":"causal"}],"rewards":{"team":1},"costs":{"tokens":0,"wall_clock_s":0}}"#,
    r#"{"edges": [], "events": [{"x_deep": {"a": [1, 2, {"b": null}]}, "agent": "y", "tokens": 3, "type": "return", "t": 1.5e0, "id": "\u0065"}], "trace_id": "c", "task_id": "b", "metrics": {}, "rewards": {}, "costs": {"wall_clock_s": 1, "tokens": 2}}"#,
    r#"{"history":[{"content":"x \ud83e\udd16","name":"A"},{"content":"TERMINATE","name":"B"}],"mistake_agent":"A","mistake_step":"0"}"#,
];

/// Lines, what is no line, and what separates them, with some bytes changed.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => prop::sample::select(LINES.to_vec()).prop_map(|line| line.as_bytes().to_vec()),
        2 => prop::sample::select(vec![" ", "[", "]", ",", "{", "\u{feff}", "x", "[1,", "\0"])
            .prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..12),
    ];
    let end = prop::sample::select(vec!["\n", "\n", "\n", "\r\n", "\n \n", "", ",", ",\n"]);
    let bytes = prop::collection::vec((piece, end), 0..6).prop_map(|parts| {
        parts.into_iter().flat_map(|(p, e)| [p, e.as_bytes().to_vec()]).flatten().collect()
    });
    let change = (any::<prop::sample::Index>(), prop::sample::select(b"\"\\{}[],:0-e.Nn\n \xff\0x".to_vec()));
    (bytes, prop::collection::vec(change, 0..3)).prop_map(|(mut bytes, changes): (Vec<u8>, _)| {
        for (at, byte) in changes {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        bytes
    })
}

#[test]
fn a_line_end_in_the_first_record_costs_it_alone() {
    let bytes = LINES[..2].join("\n").into_bytes();
    for place in 0..LINES[0].len() {
        let mut bytes = bytes.clone();
        bytes[place] = b'\n';
        let store = from_stream(&bytes, &options(4096), 1);
        reconciles(&store, u64::MAX);
        assert!(store.n_traces() >= 1, "at {place}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), kind in 0_u8..3, block in 1_usize..64) {
        let store = from_stream(&compressed(&bytes, kind), &options(block), 2);
        reconciles(&store, bytes.len() as u64);
        prop_assert_eq!(store.n_traces(), 0);
    }

    #[test]
    fn arbitrary_json_like_text_never_panics(text in r#"[\[\]{}",:0-9a-eE.+\-tfnrul\\ \n]{0,200}"#, block in 1_usize..64) {
        reconciles(&from_stream(text.as_bytes(), &options(block), 1), text.len() as u64);
    }

    #[test]
    fn damaged_records_are_settled(bytes in damaged()) {
        formats::records_are_settled_under_all_options(&["auto", "native", "who_and_when"], &bytes);
    }

    #[test]
    fn damaged_records_are_the_same_however_they_are_cut(bytes in damaged()) {
        streams::tables_do_not_depend_on_the_cut(&bytes);
    }

    #[test]
    fn syntax_is_that_of_serde_json(text in r#"([\[\]{}",:0-9eE.+\-tfnrualse \\d]|\\u[dD][89a-f]0[0-9]|"[a\\n]{0,3}"|1e400|null|true|[\[{]{90}|[\]}]{90}){0,24}"#) {
        syntax::syntax_is_that_of_serde_json(&text);
    }

    #[test]
    fn damaged_streams_end_within_their_limits(how in any::<[u8; 2]>(), bytes in damaged(), long in 0_u8..4) {
        let times = if long == 0 { 300 } else { 1 };
        let bytes = [&how[..], &bytes.repeat(times)].concat();
        streams::damaged_streams_end_within_their_limits(&bytes);
    }

    #[test]
    fn damage_costs_only_what_it_hits(seed in 0_u64..50, at in any::<prop::sample::Index>(), byte in any::<u8>(), kind in 0_u8..3) {
        let mut bytes = generated(6, seed);
        let place = at.index(bytes.len());
        let line_end = bytes[place] == b'\n';
        bytes[place] = byte;
        let store = from_stream(&compressed(&bytes, kind), &options(4096), 2);
        reconciles(&store, u64::MAX);
        // A line end that is lost joins two records; anything else is in one of them, or cuts it in two.
        let lost = if line_end { 2 } else { 1 };
        prop_assert!(store.n_traces() >= 6 - lost, "{} of 6", store.n_traces());
    }

    #[test]
    fn truncation_keeps_what_came_before(seed in 0_u64..20, at in any::<prop::sample::Index>(), kind in 0_u8..3) {
        let bytes = compressed(&generated(4, seed), kind);
        let cut = at.index(bytes.len());
        let store = from_stream(&bytes[..cut], &ReadOptions::default(), 1);
        reconciles(&store, u64::MAX);
        prop_assert!(store.records_quarantined() <= 1);
    }

    #[test]
    fn writing_and_reading_again_is_the_identity(seed in 0_u64..200) {
        let first = from_stream(&generated(5, seed), &ReadOptions::default(), 1);
        let mut text = Vec::new();
        write_jsonl(&first, &mut text, &Run::new(Some(2)).unwrap()).unwrap();
        let again = from_stream(&text, &ReadOptions::default(), 2);
        for table in ["events", "edges", "agents", "measures", "findings"] {
            prop_assert_eq!(first.combined(table).unwrap(), again.combined(table).unwrap(), "{}", table);
        }
    }
}

#[test]
fn tables_do_not_depend_on_threads_blocks_or_compression() {
    let mut bytes = generated(300, 11);
    bytes.extend_from_slice(b"noise\n{\"trace_id\":1}\n");
    bytes.extend_from_slice(&generated(20, 12));
    let want = from_stream(&bytes, &ReadOptions::default(), 1);
    assert_eq!(want.records_quarantined(), 2);
    for kind in 0..3 {
        for threads in [1, 2, 7] {
            for block in [777, 65_536, 4 << 20] {
                let store = from_stream(&compressed(&bytes, kind), &options(block), threads);
                for table in TABLES {
                    let (a, b) = (want.combined(table.name).unwrap(), store.combined(table.name).unwrap());
                    assert_eq!(a, b, "{} at {threads} threads, blocks of {block}", table.name);
                }
            }
        }
    }
}

/// The short ways of the parser know the usual spacing; whatever the spacing, the tables are the same.
#[test]
fn spacing_changes_no_table() {
    let unusual = r#"{"trace_id":"o","task_id":"o","events":[{"id":"a","t":0,"type":"message","agent":"x","model":null,"own":[1],"score":"high","ok":3,"turn":0.5}],"edges":[],"rewards":{"team":0},"costs":{"tokens":0,"wall_clock_s":0}}"#;
    let compact = String::from_utf8(generated(12, 3)).unwrap() + unusual + "\n" + unusual;
    let store = from_stream(compact.as_bytes(), &options(4 << 20), 1);
    assert!(store.n_edges() > 0);
    for (colon, comma) in [(": ", ", "), (":", ", "), (" :", " ,"), (":  ", ",\t"), ("\t: ", " , ")] {
        let spaced = compact.replace("\":", &format!("\"{colon}")).replace(",\"", &format!("{comma}\""));
        let spaced = spaced.replace("},{", &format!("}}{comma}{{"));
        let other = from_stream(spaced.as_bytes(), &options(4 << 20), 1);
        for table in ["events", "edges", "agents", "measures", "findings"] {
            let (store, other) = (store.combined(table).unwrap(), other.combined(table).unwrap());
            assert_eq!(store.schema(), other.schema());
            for field in store.schema().fields() {
                let name = field.name();
                if name == "extras" {
                    // They are kept as they were written.
                    let extras = [&store, &other].map(|batch| {
                        let column = batch.column_by_name(name).unwrap().as_string_view();
                        let parsed = column.iter().flatten().map(|text| serde_json::from_str(text).unwrap());
                        parsed.collect::<Vec<serde_json::Value>>()
                    });
                    assert_eq!(extras[0], extras[1], "{colon:?}");
                    continue;
                }
                assert_eq!(
                    store.column_by_name(name),
                    other.column_by_name(name),
                    "{colon:?} {table}.{name}"
                );
            }
        }
    }
}

/// Found by fuzzing: frames of zstd that declare a byte, or 64, and end in an empty block.
#[test]
fn what_a_frame_declares_is_judged_as_libzstd_does() {
    streams::damaged_streams_end_within_their_limits(b"]NaN");
    streams::damaged_streams_end_within_their_limits(&[213, 200]);
}
