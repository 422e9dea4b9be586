//! verifiers v1 and prime-rl: the episodes of an environment with one or several agents, one per line (`traces.jsonl`).
//!
//! An item is an episode, and makes one trace. Its agents lie below the environment `env` if there are several. What an
//! agent said and read is a graph of messages, in which a path from a root to a leaf is one training sample; a
//! sub-agent is a part of the graph that a call leads to (docs/formats/verifiers.md).

use super::items::{Items, TraceItems};
use super::parsed::tell_replaced;
use super::recording::Recording;
use super::shape::{expect_member, expect_object};
use super::{Confidence, ImporterInfo, Record, SpreadImporter};
use crate::columns::writer::TraceWriter;
use crate::error::{Reject, RejectCode};
use crate::json::identity::identity;
use crate::json::time::parse_seconds;
use crate::json::tree::{Tree, Value};
use crate::json::{Fault, Kind};

mod calls;
mod describe;
mod extras;
mod graph;
mod rewards;
mod seats;
mod stamp;

pub use stamp::{Stamped, StampedLines};

/// The importer.
#[derive(Debug)]
pub struct Verifiers;

static INFO: ImporterInfo = ImporterInfo {
    name: "verifiers",
    summary: "verifiers v1 and prime-rl: episodes of one or several agents, with rewards and advantages",
    evidence: &["env", "task", "traces"],
    suffixes: &[".jsonl"],
    lenient: true,
};

impl SpreadImporter for Verifiers {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        let is_array = |key: &str| record.get(key).kind() == Some(Kind::Array);
        let has_task = record.path(&["task", "key"]).str().is_some();
        // The calls of a trace follow its nodes, beyond what is looked at if those are many.
        let is_trace = is_array("nodes") && !record.path(&["agent", "config"]).is_absent();
        let is_episode = is_array("traces") && !record.path(&["env", "id"]).is_absent();
        match (is_trace || is_episode, has_task) {
            (true, true) => Confidence::Yes,
            (true, false) => Confidence::Maybe,
            _ => Confidence::No,
        }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let tree = Tree::parse(record.text, out.limits()).map_err(Fault::into_reject)?;
        let episode = tree.root();
        expect_object(episode, "")?;
        expect_member(episode, "id", Kind::String)?;
        let Some(id) = episode.get("id").some_str() else {
            return Err(Reject::new(RejectCode::FieldEmpty, "/id", "found an empty text, expected an id"));
        };
        // Two episodes of one id are two traces; a copy of an episode is one.
        let key = format!("{id}\n{:016x}", identity(record.text));
        let traces = episode.get("traces");
        if traces.is_absent() {
            expect_member(episode, "nodes", Kind::Array)?;
        } else {
            expect_member(episode, "traces", Kind::Array)?;
        }
        out.item(&key, record.text, "");
        for (index, trace) in traces.elements().enumerate() {
            if let Err(reject) = expect_object(trace, &format!("/traces/{index}")) {
                out.reject_in(&key, trace.raw(), reject);
            }
        }
        Ok(())
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        // There is one: the key has the hash of the whole episode.
        if let Some(item) = items.iter().next()
            && let Ok(tree) = Tree::parse(item.text, items.limits())
        {
            let mut recording = Recording::default();
            if tree.is_replaced() {
                tell_replaced(&mut recording);
            }
            describe::describe(tree.root(), items.limits(), &mut recording);
            recording.write(out);
        }
    }
}

/// A time in nanoseconds; the library writes 0 where a phase has not begun.
fn time(value: Value<'_>) -> Option<i64> {
    parse_seconds(value.raw()).filter(|time| *time > 0)
}
