//! What a case cannot say: entries of archives, threads, prefixes. The rest is in `data/cases/inspect`.

use std::collections::HashMap;

use serde_json::{Value as Json, json};

use super::*;
use crate::columns::quarantine::Position;
use crate::importers::Format;
use crate::importers::items::ItemColumns;
use crate::importers::testing::{documents, read_bytes, read_texts};
use crate::ingest::ReadOptions;
use crate::tests::cases::first_input;

/// A log with one sample of a team of three levels and a grader.
fn team() -> Json {
    serde_json::from_str(&first_input(&Inspect, "agents_that_tools_ask_are_spawned_by_the_call")).unwrap()
}

fn events(log: &Json) -> Vec<Json> {
    let traces = documents(&read_texts(&Inspect, &[("a.json", &log.to_string())]));
    traces.iter().flat_map(|trace| trace["events"].as_array().unwrap()).cloned().collect()
}

#[test]
fn entries_of_archives_know_their_evaluation() {
    let log = team();
    let header = json!({"version": 2, "eval": log["eval"], "plan": {}}).to_string();
    let entries = [
        ("_journal/start.json", header.clone()),
        ("header.json", header.clone()),
        ("summaries.json", "[]".into()),
        ("_journal/summaries/1.json", "[]".into()),
        ("reductions.json", "[]".into()),
        ("samples/1_epoch_1.json", log["samples"][0].to_string()),
    ];
    let limits = ReadOptions::default().records.limits;
    let mut columns = ItemColumns::default();
    for (number, (entry, text)) in entries.iter().enumerate() {
        let path = format!("logs/x.eval/{entry}");
        let record = Record { text, stem: "x", path: &path, header: &header, offset: 0, replaced: false };
        let mut out = Items::new(&mut columns, limits, &record, Position::default(), number as u64);
        Inspect.items(&record, &mut out).unwrap();
    }
    let kinds: Vec<&str> = columns.ignored.iter().map(|kind| columns.kinds.name(*kind)).collect();
    let journal =
        ["inspect.journal", "inspect.header", "inspect.summaries", "inspect.summaries", "inspect.reductions"];
    assert_eq!(kinds, journal);
    assert_eq!(columns.piece.rows.len(), 1);
    assert_eq!(columns.keys.name(columns.piece.rows[0].trace), "R/T/1/1");
}

#[test]
fn order_of_samples_and_threads_change_nothing() {
    let mut log = team();
    let sample_of_log = log["samples"][0].clone();
    let samples: Vec<Json> = (0..9)
        .map(|n| {
            let mut sample = sample_of_log.clone();
            sample["id"] = n.into();
            sample
        })
        .collect();
    let mut of = |samples: Vec<Json>, threads| {
        log["samples"] = samples.into();
        let text = log.to_string();
        let inputs = [("a.json", text.as_bytes())];
        documents(&read_bytes(Format::Spread(&Inspect), &inputs, &ReadOptions::default(), threads))
    };
    let forward = of(samples.clone(), 1);
    assert_eq!(forward, of(samples.clone(), 7));
    let mut backward = of(samples.into_iter().rev().collect(), 2);
    backward.reverse();
    assert_eq!(forward, backward);
}

/// Any prefix of a list of events gives events of the whole list. What can differ, because what follows is not known:
/// whether a call is ever answered (`x_partial`) and whether a tool is an agent, the last text of a stream (a message
/// or an answer), and roles, which say whether there are children.
#[test]
fn prefixes_tell_the_same_story() {
    let mut log = team();
    let complete: HashMap<String, Json> =
        events(&log).into_iter().map(|e| (e["id"].as_str().unwrap().to_owned(), e)).collect();
    let all = log["samples"][0]["events"].take();
    log["samples"][0].as_object_mut().unwrap().remove("output");
    for cut in 0..all.as_array().unwrap().len() {
        log["samples"][0]["events"] = all.as_array().unwrap()[..cut].into();
        // Nobody returns from what has not ended.
        for event in events(&log) {
            let id = event["id"].as_str().unwrap();
            let id = id.split_once(':').map_or(id, |(stem, _)| stem);
            let same = complete.iter().find(|(other, _)| other.split(':').next() == Some(id));
            let (_, same) = same.unwrap_or_else(|| panic!("{id} of the prefix {cut} is not in the whole"));
            for field in ["t", "content_ref", "tokens_in", "model", "turn"] {
                if event["id"] == same["id"] && !event[field].is_null() {
                    assert_eq!(event[field], same[field], "{field} of {id}, cut {cut}");
                }
            }
        }
    }
}
