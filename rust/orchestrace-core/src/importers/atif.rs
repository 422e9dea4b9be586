//! ATIF, the agent trajectory interchange format: one JSON document per agent, whose steps are user messages and agent
//! answers with call results.
//!
//! An item is a step; its context says of which document it is. Documents that refer to each other (sub-agents), that
//! go on where another one ends (`…cont-1`) or that are of one session are one trace.

use std::borrow::Cow;

use xxhash_rust::xxh3::xxh3_64;

use super::columns;
use super::items::{Items, TraceItems};
use super::object_text::ObjectText;
use super::recording::Recording;
use super::{Confidence, ImporterInfo, Record, Recorded, SpreadImporter};
use crate::columns::writer::TraceWriter;
use crate::error::{Reject, RejectCode};
use crate::json::tree::Value;

mod agentpile;
mod describe;
mod document;
mod harbor;

use harbor::HarborFile;

/// The importer.
#[derive(Debug)]
pub struct Atif;

static INFO: ImporterInfo = ImporterInfo {
    name: "atif",
    summary: "ATIF trajectories (agent trajectory interchange format): one document per agent",
    evidence: &["schema_version", "steps"],
    suffixes: &[".json", ".jsonl"],
    lenient: true,
};

impl SpreadImporter for Atif {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, record: Value<'_>, _path: &str) -> Confidence {
        if record.get("schema_version").str().is_some_and(|version| version.starts_with("ATIF-")) {
            return Confidence::Yes;
        }
        if HarborFile::of(record).is_some() || column_of(record).is_some() || agentpile::is_config(record) {
            return Confidence::Yes;
        }
        let step = record.get("steps").at(0);
        let names_both =
            record.get("agent").get("name").str().is_some() && step.get("source").str().is_some();
        if names_both && step.get("step_id").exists() { Confidence::Maybe } else { Confidence::No }
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> Result<(), Reject> {
        out.cut(record.text, |value, out| {
            if let Some(file) = HarborFile::of(value) {
                file.put(value, record.path, out);
                return Ok(());
            }
            if agentpile::is_config(value) {
                out.ignored("atif.agentpile_config");
                return Ok(());
            }
            let place = out.offset();
            if let Some(column) = column_of(value) {
                let name = columns::id(value).unwrap_or_else(|| format!("{}:{place}", record.stem).into());
                let scope = format!("row:{name}:{:016x} ", xxh3_64(value.raw().as_bytes()));
                let row = Row { name: &name, columns: columns::row(value, column) };
                let (value, within) = (value.get(column), String::new());
                return Document { value, file: record.path, within, row: Some(&row), scope: &scope }
                    .put(out);
            }
            // What refers to a file means the document that it is, or begins with.
            let within = if place < 4 { String::new() } else { format!(":{place}") };
            // A record of agentpile is a run: it calls all conversations the same whose source has no name.
            let scope = if agentpile::of(value).exists() {
                format!("record:{:016x} ", xxh3_64(value.raw().as_bytes()))
            } else {
                String::new()
            };
            Document { value, file: record.path, within, row: None, scope: &scope }.put(out)
        })
    }

    /// It is written after the run, from what the agent recorded itself.
    fn session<'k>(&self, key: &'k str) -> Option<(&'k str, Recorded)> {
        key.strip_prefix("session:").map(|session| (session, Recorded::Later))
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        let mut recording = Recording::default();
        describe::describe(items, &mut recording);
        recording.beside(items);
        recording.write(out);
    }
}

/// The column of a row that is a document: data sets keep one for each run.
fn column_of(row: Value<'_>) -> Option<&str> {
    let is_document = |value: Value<'_>| {
        value.get("schema_version").str().is_some_and(|version| version.starts_with("ATIF-"))
    };
    row.members().find(|(_, value)| is_document(*value)).map(|(name, _)| name)
}

/// A document, or one that lies in another one.
struct Document<'a, 'v> {
    value: Value<'v>,
    file: &'a str,
    /// Where it lies in the outermost document.
    within: String,
    /// The row that it is a column of.
    row: Option<&'a Row<'a>>,
    /// What its keys begin with if the record that it lies in is a run of its own, whatever others call their sessions: the
    /// same for a copy of the record, and for no other one.
    scope: &'a str,
}

/// A row with a document.
struct Row<'a> {
    /// Its id, or the place that it has.
    name: &'a str,
    /// Its other columns, as an object.
    columns: String,
}

impl Document<'_, '_> {
    fn put(&self, out: &mut Items<'_>) -> Result<(), Reject> {
        let value = self.value;
        let steps = value.get("steps");
        let names = self.names();
        let key = names[0].clone();
        if steps.elements().next().is_none() && steps.raw() != "[]" {
            out.lacks(&key);
            let message = "found no list of steps, expected a trajectory";
            return Err(Reject::new(RejectCode::FieldMissing, "/steps", message));
        }
        for name in &names[1..] {
            out.together(&key, name);
        }
        if let Some(next) = value.get("continued_trajectory_ref").some_str() {
            out.together(&key, &self.scoped(&beside(self.file, next)));
        }
        let context = self.context();
        for (index, step) in steps.elements().enumerate() {
            if step.members().next().is_none() {
                let place = format!("/steps/{index}");
                let reject = Reject::new(RejectCode::FieldType, place, "found no object, expected a step");
                out.reject_in(&key, step.raw(), reject);
                continue;
            }
            for reference in references(step) {
                for name in Names::of_reference(reference, self.file).all() {
                    out.together(&key, &self.scoped(&name));
                }
            }
            out.item(&key, step.raw(), &context);
        }
        for (index, inner) in value.get("subagent_trajectories").elements().enumerate() {
            let within = format!("{}/{index}", self.within);
            let inner = Document { value: inner, within, ..*self };
            out.together(&key, &inner.names()[0]);
            if let Err(reject) = inner.put(out) {
                out.reject_in(&key, inner.value.raw(), reject);
            }
        }
        Ok(())
    }

    /// What it is known by; at least one.
    fn names(&self) -> Vec<String> {
        let mut names = Names::of_document(self.value).all();
        // A copy of a run in another file is the same one.
        let file = if self.scope.is_empty() { self.file } else { "" };
        names.push(format!("file:{file}{}", self.within));
        names.iter().map(|name| self.scoped(name)).collect()
    }

    /// A name that only documents of one record share, where that is a run.
    fn scoped(&self, name: &str) -> String {
        [self.scope, name].concat()
    }

    /// The document that its steps belong to: its head, without what is long. Two copies of a file have the same.
    fn context(&self) -> String {
        let mut head = ObjectText::new();
        for key in ["session_id", "trajectory_id", "final_metrics", "continued_trajectory_ref"] {
            let value = self.value.get(key);
            if value.exists() {
                head.raw(key, value.raw());
            }
        }
        let added = agentpile::head(self.value);
        for key in ["name", "model_name"] {
            let text = self.value.get("agent").get(key).some_str();
            if let Some(text) = text.filter(|text| added.is_none() || *text != agentpile::STAND_IN) {
                head.text(key, text);
            }
        }
        if let Some(added) = added {
            head.raw(agentpile::KEY, &added);
        }
        head.text("within", &self.within);
        if let Some(row) = self.row {
            head.raw("row", &row.columns);
            head.text("row_name", row.name);
        } else if self.scope.is_empty() {
            head.text("file", self.file.rsplit('/').next().unwrap_or(self.file));
        }
        head.finish()
    }
}

/// Ids by which a document is known, or referred to.
#[derive(Debug, Default)]
struct Names<'v> {
    session: Option<&'v str>,
    trajectory: Option<&'v str>,
    path: Option<String>,
}

impl<'v> Names<'v> {
    fn of_document(document: Value<'v>) -> Self {
        Self {
            session: document.get("session_id").some_str(),
            trajectory: document.get("trajectory_id").some_str(),
            path: None,
        }
    }

    fn of_reference(reference: Value<'v>, file: &str) -> Self {
        let path = reference.get("trajectory_path").some_str().map(|path| beside(file, path));
        Self { path, ..Self::of_document(reference) }
    }

    fn all(&self) -> Vec<String> {
        let session = self.session.map(|id| format!("session:{}", run_of(id).0));
        let trajectory = self.trajectory.map(|id| format!("trajectory:{}", run_of(id).0));
        [session, trajectory, self.path.clone()].into_iter().flatten().collect()
    }
}

/// The key of a file that another one names, by the place of that one.
fn beside(file: &str, other: &str) -> String {
    let other = other.strip_prefix("./").unwrap_or(other);
    match file.rsplit_once('/') {
        Some((folder, _)) if !other.starts_with('/') => format!("file:{folder}/{other}"),
        _ => format!("file:{other}"),
    }
}

/// An id without what says that it goes on with another one, and which part it is.
fn run_of(id: &str) -> (&str, u32) {
    let part = id.rsplit_once("-cont-").and_then(|(run, part)| Some((run, part.parse().ok()?)));
    part.unwrap_or((id, 0))
}

/// The sub-agents that the results of a step name.
fn references(step: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    let results = step.path(&["observation", "results"]).elements();
    results.flat_map(|result| references_of(result.get("subagent_trajectory_ref")))
}

/// A list of references; older documents have one alone.
fn references_of(list: Value<'_>) -> impl Iterator<Item = Value<'_>> {
    let single = list.members().next().is_some().then_some(list);
    list.elements().chain(single)
}

/// Text of a message or result: a string, or the texts of a list of parts.
fn text_of(value: Value<'_>) -> Cow<'_, str> {
    if let Some(text) = value.str() {
        return text.into();
    }
    let texts = value.elements().filter_map(|part| part.get("text").str()).collect::<Vec<_>>();
    match texts[..] {
        [] if value.exists() => value.raw().into(),
        [] => "".into(),
        [text] => text.into(),
        _ => texts.concat().into(),
    }
}
