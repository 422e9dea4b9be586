//! The driver of spread formats with a format of a few lines: `{"k": key, "n": number}` is an item, `{"skip": kind}`
//! is ignored, `{"many": [items]}` has several, `{"k": key, "bad": _}` is rejected.

use std::fmt::Write as _;

use proptest::prelude::*;

use super::Budget;
use crate::error::{Reject, RejectCode};
use crate::importers::testing::{counts, documents, read_bytes, read_texts};
use crate::importers::{
    Confidence, Format, ImporterInfo, Items, Record, SpreadImporter, TraceItems,
};
use crate::ingest::json::Fault;
use crate::ingest::json::tree::{Tree, Value};
use crate::ingest::writer::{Event, TraceWriter};
use crate::ingest::{Input, ReadOptions, ReadPosition, TraceIndex, TraceReader};
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
        let tree = Tree::parse(record.text, out.limits()).map_err(Fault::into_reject)?;
        let root = tree.root();
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
                out.reject_in(key, item.raw(), Reject::new(RejectCode::FieldType, "/bad", "found 'bad'"));
            } else {
                out.item(key, item.raw(), context);
            }
        }
        Ok(())
    }

    /// Events in order of their number; a repeated number is a duplicate, a negative one means nothing.
    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        out.ids(items.key(), items.key());
        let mut events: Vec<(i64, &str, u64, &str)> = Vec::new();
        for (i, item) in items.iter().enumerate() {
            let tree = Tree::parse(item.text, items.limits()).expect("it was parsed before");
            if let Some(label) = tree.root().get("label").str() {
                out.label(items.key(), "somebody", None, None, None, label, None);
                continue;
            }
            let n = tree.root().get("n").i64().unwrap_or_default();
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
            let id = format!("{n}@{path}:{line}{context}");
            out.event(Event { id: &id, t: n as f64, event_type: EventType::Message, agent: "a" });
        }
    }
}

fn ids(store: &Store) -> Vec<(String, Vec<String>)> {
    let text = |v: &serde_json::Value| v.as_str().unwrap().to_owned();
    documents(store)
        .iter()
        .map(|doc| {
            let events = doc["events"].as_array().unwrap().iter().map(|e| text(&e["id"]));
            (text(&doc["trace_id"]), events.collect())
        })
        .collect()
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
            ("three", "{\"k\":\"A\",\"n\":2}\n{\"k\":\"A\",\"n\":-1}\n{\"k\":\"B\",\"bad\":1}\n{\"k\":\"D\",\"n\":-1}\n{\"k\":"),
        ],
    );
    let found = ids(&store);
    let expected = [
        ("A", vec!["1@two:1\"!\"", "2@x/one.jsonl:1"]),
        ("B", vec!["0@x/one.jsonl:2"]),
        ("C", vec!["1@two:1\"!\""]),
    ];
    assert_eq!(found, expected.map(|(k, e)| (k.to_owned(), e.into_iter().map(str::to_owned).collect())));
    let row = |file: &str, status: &str, kind: &str, n| (file.into(), status.into(), kind.into(), n);
    assert_eq!(
        counts(&store),
        [
            row("x/one.jsonl", "used", "", 2),
            row("x/one.jsonl", "ignored", "tiny.empty", 1),
            row("x/one.jsonl", "ignored", "tiny.head", 1),
            row("two", "used", "", 2),
            row("two", "quarantined", "", 1),
            row("three", "ignored", "tiny.negative", 2),
            row("three", "duplicate", "", 1),
            row("three", "quarantined", "", 2),
        ]
    );
}
