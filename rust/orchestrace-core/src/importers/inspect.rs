//! Logs of Inspect AI (<https://inspect.aisi.org.uk>): one trace for each sample and epoch.
//!
//! A `.json` log is one object with all samples. A `.eval` log is an archive with one entry for each sample; the entry
//! that describes the evaluation comes with every other one as [`Record::header`], and a log of a run that was killed
//! has it only in its journal. A bare object with `events` is read as a sample of its own. What a sample did lies in
//! its flat list of `events`; [`transcript`] finds out who did what in it, [`describe`] converts it, [`scores`] adds
//! its scores.

use std::borrow::Cow;

use xxhash_rust::xxh3::xxh3_64;

use super::extent::Counted;
use super::hex::hex;
use super::object_text::ObjectText;
use super::{Confidence, ImporterInfo, Items, Record, SpreadImporter, TraceItems};
use crate::columns::writer::TraceWriter;
use crate::error::{FindingCode, Reject, RejectCode};
use crate::importers::recording::{Recording, hash};
use crate::json::identity::identity;
use crate::json::tree::{Tree, Value};
use crate::json::{Cursor, Fault, Kind, Limits, Parsed};

mod content;
mod describe;
mod ends;
mod messages;
mod sample_events;
mod scores;
#[cfg(test)]
mod tests;
mod transcript;
mod usage;

/// The importer.
#[derive(Debug)]
pub struct Inspect;

static INFO: ImporterInfo = ImporterInfo {
    name: "inspect",
    summary: "Inspect AI logs: .json and .eval, one trace per sample and epoch",
    evidence: &["eval", "plan", "samples"],
    suffixes: &[".json", ".eval"],
    lenient: true,
};

impl SpreadImporter for Inspect {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, path: &str) -> Confidence {
        let has = |key: &str| record.get(key).exists();
        let is_log = record.get("eval").get("task").exists() && (has("plan") || has("samples"));
        let is_sample = has("id") && has("epoch") && has("target") && has("input");
        let first = record.get("events").at(0);
        let is_list = first.get("event").str().is_some() && first.get("timestamp").exists() && !has("edges");
        if is_log || is_list || (is_sample && (has("messages") || has("events"))) {
            Confidence::Yes
        } else if path.contains(".eval/") || is_sample || has("eval") {
            Confidence::Maybe
        } else {
            Confidence::No
        }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        let parts = LogParts::in_record(record.text, out.limits()).map_err(Fault::into_reject)?;
        parts.put(record, out)
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        // A log that was converted or copied contains a sample more than once: the fullest copy counts.
        let fullest = (0..items.len()).rev().max_by_key(|i| items.as_slice()[*i].text.len());
        let Some(fullest) = fullest else { return };
        (0..items.len()).filter(|i| *i != fullest).for_each(|i| items.duplicate(i));
        let item = items.as_slice()[fullest];
        let context = if item.context.is_empty() { "{}" } else { item.context };
        let (Ok(sample), Ok(eval)) =
            (Tree::parse(item.text, items.limits()), Tree::parse(context, items.limits()))
        else {
            // Both were read once before, with the same limits.
            items.ignored(fullest, "inspect.unreadable");
            return;
        };
        let mut recording = Recording::default();
        if sample.is_replaced() {
            let message = "a surrogate without its other half was replaced by U+FFFD";
            recording.finding(FindingCode::Utf8Replaced, None, message);
        }
        recording.made_of(fullest as u32);
        let name = name(items.key(), items.as_slice()[fullest].text);
        describe::describe(sample.root(), eval.root(), &name, items.limits(), &mut recording);
        recording.write(out);
    }
}

/// What a record turned out to hold; texts are slices of it.
#[derive(Debug, Default)]
struct LogParts<'a> {
    kind: Option<Kind>,
    eval: Option<&'a str>,
    results: Option<&'a str>,
    samples: Option<Vec<(&'a str, Self)>>,
    id: Option<&'a str>,
    epoch: Option<&'a str>,
    has_messages: bool,
    has_events: bool,
}

impl<'a> LogParts<'a> {
    /// Looks through a record without building it: logs of a gigabyte are one record.
    fn in_record(text: &'a str, limits: Limits) -> Parsed<Self> {
        let mut parts = Self::default();
        let mut cursor = Cursor::new(text, limits);
        cursor.ws();
        parts.value(&mut cursor)?;
        cursor.end()?;
        Ok(parts)
    }

    fn value(&mut self, cursor: &mut Cursor<'a>) -> Parsed<()> {
        let kind = cursor.kind()?;
        self.kind = Some(kind);
        if kind != Kind::Object {
            cursor.skip()?;
            return Ok(());
        }
        let mut scratch = String::new();
        let mut more = cursor.open_object()?;
        while more {
            let key = cursor.key()?;
            let key = key.text(&mut scratch);
            let kind = cursor.kind()?;
            if key == "samples" && kind == Kind::Array {
                self.samples = Some(elements(cursor)?);
            } else {
                let (start, end) = cursor.skip()?;
                let value = cursor.slice(start, end);
                match key {
                    "eval" if kind == Kind::Object => self.eval = Some(value),
                    "results" if kind == Kind::Object => self.results = Some(value),
                    "id" => self.id = Some(value),
                    "epoch" => self.epoch = Some(value),
                    "messages" => self.has_messages |= kind == Kind::Array,
                    "events" => self.has_events |= kind == Kind::Array,
                    _ => {}
                }
            }
            more = cursor.more_object()?;
        }
        Ok(())
    }

    fn put(&self, record: &Record<'a>, out: &mut Items<'_>) -> Result<(), Reject> {
        let entry = record.path.rsplit_once(".eval/").map_or("", |(_, entry)| entry);
        if !matches!(self.kind, Some(Kind::Array | Kind::Object)) {
            return Err(not_object());
        }
        if entry.starts_with("reductions") {
            out.ignored("inspect.reductions");
            return Ok(());
        }
        if self.kind == Some(Kind::Array) {
            out.ignored("inspect.summaries");
            return Ok(());
        }
        if let Some(samples) = &self.samples {
            let eval = Eval::read(self.eval, out.limits());
            let stated = Eval::stated(self.results, out.limits());
            let (mut key, mut n_broken) = (None, 0);
            for (text, sample) in samples {
                match eval.sample(text, sample, stated, out) {
                    Ok(made) => key = key.or(made),
                    Err(reject) => {
                        n_broken += 1;
                        out.reject(text, reject);
                    }
                }
            }
            // What cannot be read is in quarantine, and not missing.
            if let (Some(key), Some(source), true) = (key, eval.source(), n_broken > 0) {
                out.extent(&key, SAMPLES, (source, stated), (identity(record.text), n_broken));
            }
            if samples.is_empty() {
                out.ignored("inspect.no_samples");
            }
        } else if self.eval.is_some() {
            out.ignored(if entry.starts_with('_') { "inspect.journal" } else { "inspect.header" });
        } else if self.id.is_some() && self.epoch.is_some() {
            let head = Self::in_record(record.header, out.limits());
            let head = head.unwrap_or_default();
            let stated = Eval::stated(head.results, out.limits());
            Eval::read(head.eval, out.limits()).sample(record.text, self, stated, out)?;
        } else if self.has_events {
            out.item(&format!("{EVENTS}{:016x}", identity(record.text)), record.text, "");
        } else {
            out.ignored("inspect.other");
        }
        Ok(())
    }
}

/// The elements of an array, and what they hold.
fn elements<'a>(cursor: &mut Cursor<'a>) -> Parsed<Vec<(&'a str, LogParts<'a>)>> {
    let mut out = Vec::new();
    let mut more = cursor.open_array()?;
    while more {
        let start = cursor.pos();
        let mut parts = LogParts::default();
        parts.value(cursor)?;
        out.push((cursor.slice(start, cursor.pos()), parts));
        more = cursor.more_array()?;
    }
    Ok(out)
}

fn not_object() -> Reject {
    Reject::new(RejectCode::RecordNotObject, "", "expected an object")
}

/// What all samples of a log share.
#[derive(Debug, Default)]
struct Eval {
    /// What the keys of its traces begin with; nothing where the log says nothing of itself.
    prefix: Option<String>,
    /// The facts that a trace needs, as JSON: the same text for the same evaluation, whatever it was read from.
    context: String,
}

/// What a log counts.
const SAMPLES: Counted = Counted { statement: "results.total_samples", things: "samples", are_traces: true };

/// Facts of an evaluation that a trace needs.
const FACTS: [&str; 5] = ["run_id", "eval_id", "task_id", "task", "model"];

impl Eval {
    fn read(text: Option<&str>, limits: Limits) -> Self {
        let Some(tree) = text.and_then(|text| Tree::parse(text, limits).ok()) else { return Self::default() };
        let fact = |key: &str| tree.root().get(key).some_str();
        let mut context = ObjectText::new();
        for key in FACTS {
            if let Some(value) = fact(key) {
                context.text(key, value);
            }
        }
        // One run can evaluate several tasks and models, each in a log of its own: only the two together are one log.
        let run = fact("run_id").or(fact("eval_id"));
        let ids: Vec<&str> = run.into_iter().chain(fact("task_id")).collect();
        Self { prefix: Some(ids.join("/")).filter(|ids| !ids.is_empty()), context: context.finish() }
    }

    /// The number of samples that the log states.
    fn stated(results: Option<&str>, limits: Limits) -> Option<i64> {
        Tree::parse(results?, limits).ok()?.root().get("total_samples").i64()
    }

    /// Stands for the log: samples of one log have it in common. Nothing where the log has no id.
    fn source(&self) -> Option<u64> {
        self.prefix.as_ref().map(|prefix| xxh3_64(prefix.as_bytes()))
    }

    /// Puts one sample; the key of its trace, if it is one.
    fn sample(
        &self,
        text: &str,
        sample: &LogParts<'_>,
        stated: Option<i64>,
        out: &mut Items<'_>,
    ) -> Result<Option<String>, Reject> {
        if sample.kind != Some(Kind::Object) {
            return Err(not_object());
        }
        if !sample.has_messages && !sample.has_events {
            out.ignored("inspect.summaries");
            return Ok(None);
        }
        let (Some(id), Some(epoch)) = (sample.id, sample.epoch) else {
            return Err(Reject::new(RejectCode::FieldMissing, "id", "a sample lacks 'id' or 'epoch'"));
        };
        let tree = Tree::parse(id, out.limits());
        let id = tree.as_ref().ok().and_then(|tree| tree.root().str()).unwrap_or(id);
        let made_id;
        let prefix = if let Some(prefix) = &self.prefix {
            prefix
        } else {
            made_id = format!("{SAMPLE}{:016x}", identity(text));
            &made_id
        };
        let key = format!("{prefix}/{id}/{epoch}");
        out.item(&key, text, &self.context);
        if let Some(source) = self.source() {
            out.extent(&key, SAMPLES, (source, stated), (xxh3_64(key.as_bytes()), 1));
        }
        Ok(Some(key))
    }
}

/// What the keys of traces that nothing names begin with; then comes what their record says.
const EVENTS: &str = "events/";
const SAMPLE: &str = "sample/";

/// The name of a trace: where nothing names it, by a hash of its record.
fn name<'k>(key: &'k str, record: &str) -> Cow<'k, str> {
    const DIGITS: usize = 16;
    let Some(kind) = [EVENTS, SAMPLE].into_iter().find(|kind| key.starts_with(kind)) else {
        return key.into();
    };
    let rest = key.get(kind.len() + DIGITS..).unwrap_or_default();
    format!("{kind}{}{rest}", short_hash(record)).into()
}

/// An id for what has none: the same wherever the text lies.
fn short_hash(text: &str) -> String {
    hex(&hash(text)[..8])
}
