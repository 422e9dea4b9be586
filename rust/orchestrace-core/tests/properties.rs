//! Whatever the bytes, reading never panics and its counts reconcile; whatever the cut, it gives the same tables.

#![allow(clippy::unwrap_used)] // where a test cannot go on, it stops

use std::io::Cursor;
use std::sync::atomic::{AtomicBool, AtomicU64};

use orchestrace_core::generate::{self, Preset, Spec};
use orchestrace_core::ingest::{Input, ReadOptions, read};
use orchestrace_core::run::Run;
use orchestrace_core::schema::TABLES;
use orchestrace_core::store::{Store, write_jsonl};
use proptest::prelude::*;

fn options(block_size: usize) -> ReadOptions {
    ReadOptions { block_size, ..ReadOptions::default() }
}

fn read_bytes(bytes: &[u8], options: &ReadOptions, threads: usize) -> Store {
    let reader = Box::new(Cursor::new(bytes.to_vec()));
    let input = Input::Stream { name: "bytes".into(), reader };
    read(vec![input], options, &Run::new(Some(threads)).unwrap()).unwrap()
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

fn reconciles(store: &Store) -> bool {
    store.records_read() == (store.n_traces() + store.records_quarantined()) as u64
}

fn compressed(bytes: &[u8], kind: u8) -> Vec<u8> {
    use std::io::Write;
    match kind {
        0 => bytes.to_vec(),
        1 => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(bytes).unwrap();
            encoder.finish().unwrap()
        }
        _ => zstd::encode_all(bytes, 1).unwrap(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), kind in 0_u8..3, block in 1_usize..64) {
        let store = read_bytes(&compressed(&bytes, kind), &options(block), 2);
        prop_assert!(reconciles(&store));
        prop_assert_eq!(store.n_traces(), 0);
    }

    #[test]
    fn arbitrary_json_like_text_never_panics(text in r#"[\[\]{}",:0-9a-eE.+\-tfnrul\\ \n]{0,200}"#, block in 1_usize..64) {
        prop_assert!(reconciles(&read_bytes(text.as_bytes(), &options(block), 1)));
    }

    #[test]
    fn damage_costs_only_what_it_hits(seed in 0_u64..50, at in any::<prop::sample::Index>(), byte in any::<u8>(), kind in 0_u8..3) {
        let mut bytes = generated(6, seed);
        let place = at.index(bytes.len());
        let line_end = bytes[place] == b'\n';
        bytes[place] = byte;
        let store = read_bytes(&compressed(&bytes, kind), &options(4096), 2);
        prop_assert!(reconciles(&store));
        // A line end that is lost joins two records; anything else is in one of them, or cuts it in two.
        let lost = if line_end { 2 } else { 1 };
        prop_assert!(store.n_traces() >= 6 - lost, "{} of 6", store.n_traces());
    }

    #[test]
    fn truncation_keeps_what_came_before(seed in 0_u64..20, at in any::<prop::sample::Index>(), kind in 0_u8..3) {
        let bytes = compressed(&generated(4, seed), kind);
        let cut = at.index(bytes.len());
        let store = read_bytes(&bytes[..cut], &ReadOptions::default(), 1);
        prop_assert!(reconciles(&store));
        prop_assert!(store.records_quarantined() <= 1);
    }

    #[test]
    fn writing_and_reading_again_is_the_identity(seed in 0_u64..200) {
        let first = read_bytes(&generated(5, seed), &ReadOptions::default(), 1);
        let mut text = Vec::new();
        write_jsonl(&first, &mut text, &Run::new(Some(2)).unwrap()).unwrap();
        let again = read_bytes(&text, &ReadOptions::default(), 2);
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
    let want = read_bytes(&bytes, &ReadOptions::default(), 1);
    assert_eq!(want.records_quarantined(), 2);
    for kind in 0..3 {
        for threads in [1, 2, 7] {
            for block in [777, 65_536, 4 << 20] {
                let store = read_bytes(&compressed(&bytes, kind), &options(block), threads);
                for table in TABLES {
                    let (a, b) = (want.combined(table.name).unwrap(), store.combined(table.name).unwrap());
                    assert_eq!(a, b, "{} at {threads} threads, blocks of {block}", table.name);
                }
            }
        }
    }
}
