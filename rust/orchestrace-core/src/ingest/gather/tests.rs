//! The driver of spread formats with a format of a few lines: `{"k": key, "n": number}` is an item, `{"skip": kind}`
//! is ignored, `{"many": [items]}` has several, `{"k": key, "bad": _}` is rejected, `{"k": key, "of": other}` says
//! that two keys are gathered together, `{"k": key, "n": n, "by_itself": true}` goes to a second trace.
// Inputs are made where they are used.
#![allow(clippy::needless_pass_by_value, clippy::format_collect)]

use proptest::prelude::*;

use crate::columns::RecordOptions;
use crate::columns::writer::{Event, Label, TraceWriter};
use crate::error::{Reject, RejectCode};
use crate::importers::testing::{counts, documents, read_bytes, read_texts};
use crate::importers::{Confidence, Format, ImporterInfo, Items, Record, SpreadImporter, TraceItems};
use crate::ingest::{Input, ReadOptions, ReadPosition, TraceIndex, TraceReader};
use crate::json::tree::{Tree, Value};
use crate::run::Run;
use crate::schema::EventType;
use crate::store::Store;

struct Tiny;

static INFO: ImporterInfo =
    ImporterInfo { name: "tiny", summary: "", evidence: &["k"], suffixes: &[], lenient: true };

impl SpreadImporter for Tiny {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        if record.get("k").exists() { Confidence::Yes } else { Confidence::No }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        out.cut(record.text, |root, out| {
            if let Some(kind) = root.get("skip").str() {
                out.ignored(kind);
            }
            let context = root.get("context").raw();
            let many = root.get("many").elements();
            for item in many.chain(root.get("k").exists().then_some(root)) {
                let Some(key) = item.get("k").str() else {
                    out.reject(item.raw(), Reject::new(RejectCode::FieldMissing, "/k", "found no key"));
                    continue;
                };
                if item.get("bad").exists() {
                    let reject = Reject::new(RejectCode::FieldType, "/bad", "found 'bad'");
                    out.reject_in(key, item.raw(), reject);
                } else if let Some(other) = item.get("of").str() {
                    out.together(key, other);
                    out.ignored("tiny.of");
                } else {
                    out.item(key, item.raw(), context);
                }
            }
            Ok(())
        })
    }

    /// Events in order of their number; a repeated number is a duplicate, a negative one means nothing.
    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        let id = if items.part() == 0 {
            items.key().to_owned()
        } else {
            format!("{}.{}", items.key(), items.part())
        };
        out.ids(&id, &id);
        let mut events: Vec<(i64, &str, u64, &str)> = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let tree = Tree::parse(item.text, items.limits()).expect("it was parsed before");
            if let Some(label) = tree.root().get("label").str() {
                out.label(items.key(), &Label { annotator: "somebody", label, ..Label::default() });
                continue;
            }
            let n = tree.root().get("n").i64().unwrap_or_default();
            let by_itself = tree.root().get("by_itself").bool() == Some(true);
            if by_itself && items.part() == 0 {
                items.another();
            } else if by_itself {
                items.lies_at(i);
            }
            if by_itself != (items.part() == 1) {
                continue;
            }
            if n < 0 {
                items.ignored(i, "tiny.negative");
            } else if events.iter().any(|(m, ..)| *m == n) {
                items.duplicate(i);
            } else {
                events.push((n, item.path, item.line, item.context));
            }
        }
        events.sort_unstable();
        for (n, path, line, context) in events {
            let agent = format!("{path}:{line}{context}");
            out.event(Event {
                id: &n.to_string(),
                t: n as f64,
                event_type: EventType::Message,
                agent: &agent,
            });
        }
    }
}

/// Of each trace a member of its events.
fn events(store: &Store, member: &str) -> Vec<(String, Vec<String>)> {
    let text = |v: &serde_json::Value| v.as_str().unwrap().to_owned();
    documents(store)
        .iter()
        .map(|doc| {
            let events = doc["events"].as_array().unwrap().iter().map(|e| text(&e[member]));
            (text(&doc["trace_id"]), events.collect())
        })
        .collect()
}

fn stream(name: &str, text: &str) -> (Input, ReadPosition, Option<Format>) {
    let reader = Box::new(std::io::Cursor::new(text.as_bytes().to_vec()));
    (Input::Stream { name: name.into(), reader }, ReadPosition::default(), Some(Format::Spread(&Tiny)))
}

#[test]
fn traces_are_put_together_over_inputs() {
    let store = read_texts(
        &Tiny,
        &[
            ("x/one.jsonl", "{\"k\":\"A\",\"n\":2}\n{\"k\":\"B\",\"n\":0}\n\n{\"skip\":\"tiny.head\"}\n{}\n"),
            ("two", "{\"many\":[{\"k\":\"C\",\"n\":1},{\"k\":\"A\",\"n\":1}],\"context\":\"!\"}\nnoise\n"),
            ("empty", ""),
            ("blank", "\n \n"),
            (
                "z",
                "{\"k\":\"A\",\"n\":2}\n{\"k\":\"A\",\"n\":-1}\n{\"k\":\"B\",\"bad\":1}\n{\"k\":\"D\",\"n\":-1}\n{\"k\":",
            ),
        ],
    );
    let agents = events(&store, "agent");
    let expected =
        [("A", vec!["two:1\"!\"", "x/one.jsonl:1"]), ("B", vec!["x/one.jsonl:2"]), ("C", vec!["two:1\"!\""])];
    assert_eq!(agents, expected.map(|(k, e)| (k.to_owned(), e.into_iter().map(str::to_owned).collect())));
    let row = |file: &str, status: &str, kind: &str, n| (file.into(), status.into(), kind.into(), n);
    assert_eq!(
        counts(&store),
        [
            row("x/one.jsonl", "used", "", 2),
            row("x/one.jsonl", "ignored", "tiny.empty", 1),
            row("x/one.jsonl", "ignored", "tiny.head", 1),
            row("two", "used", "", 2),
            row("two", "quarantined", "", 1),
            row("z", "ignored", "tiny.negative", 2),
            row("z", "duplicate", "", 1),
            row("z", "quarantined", "", 2),
        ]
    );
}

/// Lines of inputs: items of few keys, some of them repeated word for word, some odd.
fn lines() -> impl Strategy<Value = Vec<Vec<String>>> {
    let line = prop_oneof![
        8 => (0..9_u8, 0..20_i32).prop_map(|(k, n)| format!("{{\"k\":\"{k}\",\"n\":{n}}}")),
        2 => (0..9_u8, 0..9_u8, 0..3_u8).prop_map(|(k, l, c)| {
            format!("{{\"many\":[{{\"k\":\"{k}\",\"n\":1}},{{\"k\":\"{l}\",\"n\":7}}],\"context\":\"{c}\"}}")
        }),
        1 => (0..9_u8).prop_map(|k| format!("{{\"k\":\"{k}\",\"n\":-1}}")),
        1 => (0..9_u8).prop_map(|k| format!("{{\"k\":\"{k}\",\"bad\":1}}")),
        1 => (0..9_u8).prop_map(|k| format!("{{\"k\":\"{k}\",\"label\":\"wrong\"}}")),
        1 => Just("{\"k\":\"x\",\"label\":\"alone\"}".to_owned()),
        1 => Just("{\"skip\":\"tiny.noise\"}".to_owned()),
        1 => Just("{}".to_owned()),
        1 => Just("broken".to_owned()),
        1 => Just(String::new()),
    ];
    prop::collection::vec(prop::collection::vec(line, 0..12), 0..4)
}

fn named(inputs: &[Vec<String>]) -> Vec<(String, String)> {
    inputs.iter().enumerate().map(|(i, lines)| (format!("in/{i}.jsonl"), lines.join("\n"))).collect()
}

fn tables(store: &Store) -> Vec<arrow_array::RecordBatch> {
    crate::schema::TABLES.iter().map(|table| store.combined(table.name).unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn nothing_depends_on_threads_blocks_or_memory(inputs in lines()) {
        let inputs = named(&inputs);
        let bytes: Vec<_> = inputs.iter().map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
        let expected = read_bytes(Format::Spread(&Tiny), &bytes, &ReadOptions::default(), 1);
        for (threads, block_size, gather_budget) in [(1, 1, 0), (2, 64, 600), (7, 17, 2_000), (2, 1 << 20, 1)] {
            let options = ReadOptions { block_size, gather_budget, ..ReadOptions::default() };
            let other = read_bytes(Format::Spread(&Tiny), &bytes, &options, threads);
            prop_assert_eq!(tables(&expected), tables(&other), "{} {} {}", threads, block_size, gather_budget);
        }
        let read: u64 = counts(&expected).iter().map(|row| row.3).sum();
        prop_assert_eq!(read, expected.records_read());
        let parts = |l: &String| if l.starts_with("{\"many") { 2 } else { u64::from(!l.trim().is_empty()) };
        prop_assert_eq!(read, inputs.iter().flat_map(|(_, t)| t.lines()).map(|l| parts(&l.into())).sum::<u64>());
    }

    #[test]
    fn order_of_lines_and_inputs_does_not_matter(inputs in lines(), seed in any::<u64>()) {
        let sorted = |inputs: &[Vec<String>]| {
            let inputs = named(inputs);
            let texts: Vec<_> = inputs.iter().map(|(n, t)| (n.as_str(), t.as_str())).collect();
            let store = read_texts(&Tiny, &texts);
            let mut ids = events(&store, "id");
            ids.sort();
            let mut sums = counts(&store).into_iter().fold([0; 2], |[used, all], (_, status, _, n)| {
                [used + if status == "used" { n } else { 0 }, all + n]
            }).to_vec();
            sums.push(store.n_traces() as u64);
            (ids, sums)
        };
        let mut shuffled = inputs.clone();
        let mut state = seed | 1;
        for list in &mut shuffled {
            for i in (1..list.len()).rev() {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                list.swap(i, (state >> 33) as usize % (i + 1));
            }
        }
        shuffled.reverse();
        prop_assert_eq!(sorted(&inputs), sorted(&shuffled));
    }

    #[test]
    fn a_reading_that_was_left_goes_on_with_the_next_trace(inputs in lines(), budget in 0..3_000_usize) {
        let inputs = named(&inputs);
        let bytes: Vec<_> = inputs.iter().map(|(name, text)| (name.as_str(), text.as_bytes())).collect();
        let expected = read_bytes(Format::Spread(&Tiny), &bytes, &ReadOptions::default(), 1);
        let options =
            ReadOptions { block_size: 9, gather_budget: budget, ..ReadOptions::default() };
        let run = Run::new(Some(2)).unwrap();
        let mut agents = Vec::new();
        let mut labels = 0;
        let mut sums = [0; 4];
        let mut at = ReadPosition::default();
        // Left after every batch, with an index that the one before has filled.
        let mut index = TraceIndex::default();
        for _ in 0..200 {
            let streams = inputs.iter().map(|(name, text)| stream(name, text)).collect();
            let mut reader =
                TraceReader::resumed(streams, at, options.clone()).unwrap();
            let Some(batch) = reader.next(1, Some(&mut index), &run).unwrap() else { break };
            agents.extend(events(&batch.store, "agent"));
            labels += batch.store.combined("labels").unwrap().num_rows();
            let last = batch.parts.last().unwrap();
            prop_assert!(last.position.done || last.position.blocks > at.blocks || at.blocks == 0);
            at = last.position;
            if at.done {
                for part in &batch.parts {
                    let counted = [part.used, part.ignored, part.duplicates, part.quarantined];
                    prop_assert_eq!(part.records, counted.iter().sum::<u64>());
                    sums.iter_mut().zip(counted).for_each(|(sum, n)| *sum += n);
                }
                break;
            }
            prop_assert!(batch.parts.iter().all(|part| part.records == 0));
        }
        // Without inputs there is nothing to be at the end of.
        prop_assert!(at.done || inputs.is_empty());
        prop_assert_eq!(agents, events(&expected, "agent"));
        prop_assert_eq!(labels, expected.combined("labels").unwrap().num_rows());
        prop_assert_eq!(sums.iter().sum::<u64>(), expected.records_read());
    }
}

#[test]
fn spilling_leaves_no_file_behind() {
    let folder = std::env::temp_dir().join(format!("orchestrace-gather-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let text: String = (0..2_000).map(|i| format!("{{\"k\":\"{}\",\"n\":{i}}}\n", i % 97)).collect();
    let bytes = [("a.jsonl", text.as_bytes())];
    let expected = read_bytes(Format::Spread(&Tiny), &bytes, &ReadOptions::default(), 2);
    let spill_folder = Some(folder.clone());
    let options =
        ReadOptions { block_size: 1_000, gather_budget: 10_000, spill_folder, ..ReadOptions::default() };
    let spilled = read_bytes(Format::Spread(&Tiny), &bytes, &options, 2);
    assert_eq!(tables(&expected), tables(&spilled));
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    std::fs::remove_dir(&folder).unwrap();
    let gone = ReadOptions { spill_folder: Some(folder.clone()), ..options };
    let run = Run::new(Some(1)).unwrap();
    let reader = TraceReader::resumed(vec![stream("a", &text)], ReadPosition::default(), gone);
    let error = reader.unwrap().all(&run).unwrap_err().to_string();
    assert!(error.contains(&*folder.to_string_lossy()) && error.contains("temporary file"), "{error}");
}

#[test]
fn what_breaks_off_is_missed_by_the_traces_that_it_names() {
    let [a, b] = ["A", "B"].map(|key| format!("{{\"k\":\"{key}\",\"n\":1}}"));
    let cut = |key: &str| format!("{{\"k\":\"{key}\",\"n\":");
    let long = format!("{{\"k\":\"A\",\"n\":2,\"x\":\"{}\"}}", "x".repeat(9_000));
    for (text, lacking) in [
        (format!("{a}\n{b}\n{}", cut("A")), Some("A")),
        (format!("{a}\n{}x\n{b}\n", cut("B")), Some("B")),
        (format!("{a}\n{b}\n{{\"k\":\"A"), None),
        (format!("[{a},{b},{}", cut("B")), Some("B")),
        (format!("{a}\n{b}\n{long}\n"), Some("A")),
        (format!("[{a},{b},{long}]"), Some("A")),
        (format!("{{\"many\":[{a}]}}\n{b}\n{{\"many\":[{b}"), Some("B")),
    ] {
        for block_size in [1, 700, 1 << 20] {
            let records = RecordOptions { excerpt: 0, ..RecordOptions::default() };
            let options = ReadOptions { block_size, max_record: 5_000, records, ..ReadOptions::default() };
            let store = read_bytes(Format::Spread(&Tiny), &[("x", text.as_bytes())], &options, 2);
            assert_eq!(store.records_quarantined(), 1, "{text:.40}");
            let partial: Vec<(String, bool)> = documents(&store)
                .iter()
                .map(|t| {
                    (t["trace_id"].as_str().unwrap().to_owned(), t["events"][0]["x_trace"]["partial"] == true)
                })
                .collect();
            let expected = ["A", "B"].map(|key| (key.to_owned(), lacking == Some(key)));
            assert_eq!(partial, expected, "{text:.40} in blocks of {block_size}");
        }
    }
}

#[test]
fn what_repeats_within_a_record_stays() {
    let record = "{\"many\":[{\"k\":\"A\",\"n\":1},{\"k\":\"A\",\"n\":1}]}\n";
    // Tiny itself calls the second one a duplicate; the driver both of the second record.
    let store = read_texts(&Tiny, &[("a", record), ("b", record)]);
    let row = |file: &str, status: &str, n| (file.into(), status.into(), String::new(), n);
    assert_eq!(counts(&store), [row("a", "used", 1), row("a", "duplicate", 1), row("b", "duplicate", 2)]);
}

#[test]
fn many_equal_items_take_linear_time() {
    let item = "{\"k\":\"A\",\"n\":-1}";
    let line = format!("{{\"many\":[{}]}}", vec![item; 200_000].join(","));
    let store = read_texts(&Tiny, &[("a", &line)]);
    assert_eq!(counts(&store)[0].3, 200_000);
}

#[test]
fn keys_may_be_gathered_together() {
    let say = |key: &str, of: &str| format!("{{\"k\":\"{key}\",\"of\":\"{of}\"}}\n");
    let has = |key: &str, n: i64| format!("{{\"k\":\"{key}\",\"n\":{n}}}\n");
    // A chain whose links lie in any input, a circle, one said twice, and one that has nothing itself.
    let first = [has("c", 3), say("b", "a"), has("x", 1), say("y", "x"), say("p", "top")].concat();
    let two = [has("a", 1), say("c", "b"), say("c", "a"), has("p", 5), has("b", 2)].concat();
    let three =
        [say("x", "y"), has("y", 2), say("q", "top"), has("q", 4), "{\"k\":\"c\",\"bad\":1}\n".to_owned()]
            .concat();
    let texts = [("one", first), ("two", two), ("three", three)];
    let traces = |order: [usize; 3]| {
        let inputs: Vec<(&str, &str)> = order.iter().map(|i| (texts[*i].0, texts[*i].1.as_str())).collect();
        let store = read_texts(&Tiny, &inputs);
        assert_eq!(counts(&store).iter().map(|row| row.3).sum::<u64>(), 15);
        let mut ids_of_events = events(&store, "id");
        ids_of_events.sort();
        ids_of_events
    };
    let expected = [("a", vec!["1", "2", "3"]), ("p", vec!["4", "5"]), ("x", vec!["1", "2"])];
    let expected =
        expected.map(|(key, ids)| (key.to_owned(), ids.into_iter().map(str::to_owned).collect::<Vec<_>>()));
    assert_eq!(traces([0, 1, 2]), expected);
    assert_eq!(traces([2, 0, 1]), expected);
}

#[test]
fn items_may_make_more_than_one_trace() {
    let text = "{\"k\":\"a\",\"n\":1}\n{\"k\":\"a\",\"n\":2,\"by_itself\":true}\n";
    let other = "{\"k\":\"a\",\"n\":3,\"by_itself\":true}\n";
    for threads in [1, 3] {
        let inputs: [(&str, &[u8]); 2] = [("one", text.as_bytes()), ("two", other.as_bytes())];
        let store = read_bytes(Format::Spread(&Tiny), &inputs, &ReadOptions::default(), threads);
        let ids = |list: &[&str]| list.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            events(&store, "id"),
            [("a".to_owned(), ids(&["1"])), ("a.1".to_owned(), ids(&["2", "3"]))]
        );
        assert_eq!(
            counts(&store).iter().map(|row| (row.1.as_str(), row.3)).collect::<Vec<_>>(),
            [("used", 2), ("used", 1)]
        );
    }
}
