//! Custom formats, described by a mapping file of JSON pointers to fields and tables of words, no code
//! (docs/formats/mapping.md).
//!
//! An item is a step: a record, or an element of the lists of steps in it. Its key is the id of its trace. What steps
//! of a record have in common travels beside them as a list, so that no record is held twice.

use std::sync::{Mutex, OnceLock, PoisonError};

use super::items::WHERE;
use super::recording::Recording;
use super::{Confidence, ImporterInfo, Items, Record, SpreadImporter, TraceItems};
use crate::columns::mapping_counts::MappingCounts;
use crate::columns::writer::TraceWriter;
use crate::error::{Finding, FindingCode, Reject, RejectCode, Result};
use crate::json::tree::{Tree, Value};
use crate::json::{Kind, Limits};

mod counts;
mod judge;
mod source;
mod spec;
#[cfg(test)]
mod tests;
mod trace_steps;

pub(crate) use counts::{Counts, Totals};
use source::{FieldValue, Pointer, Scope, Slot, Slots, digits, spell};
use spec::{Field, Key, Spec, StepKind};

/// Name of the format, whatever the mapping.
pub const NAME: &str = "mapping";

static INFO: ImporterInfo = ImporterInfo {
    name: NAME,
    summary: "Custom formats, described by a mapping file of JSON pointers to fields",
    evidence: &[],
    suffixes: &[".json", ".jsonl"],
    lenient: true,
};

/// A custom format: the importer that a mapping file makes.
#[derive(Debug)]
pub struct Mapping {
    text: Box<str>,
    spec: Spec,
}

/// All mappings that were asked for so far. Importers live as long as the process, as those do that are compiled in;
/// each text is kept once.
static KNOWN: Mutex<Vec<&'static Mapping>> = Mutex::new(Vec::new());

impl Mapping {
    /// The importer of a mapping, which is given as JSON; `file` is what messages about it begin with.
    ///
    /// ```
    /// use orchestrace_core::importers::Mapping;
    ///
    /// let text = r#"{"trace": {"id": "/run"}, "step": {"kind": "=response", "content": "/text"}}"#;
    /// assert!(Mapping::named(text, "house.toml").is_ok());
    /// let error = Mapping::named(r#"{"trace": {"id": "run"}, "step": {"kind": "/k"}}"#, "house.toml");
    /// assert_eq!(
    ///     error.unwrap_err().to_string(),
    ///     "house.toml: trace.id: found 'run', expected a JSON pointer that begins with '/'"
    /// );
    /// ```
    pub fn named(text: &str, file: &str) -> Result<&'static Self> {
        let mut mappings = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = mappings.iter().find(|mapping| *mapping.text == *text) {
            return Ok(same);
        }
        let mapping_of_text: &'static Self =
            Box::leak(Box::new(Self { text: text.into(), spec: Spec::parse(text, file)? }));
        mappings.push(mapping_of_text);
        Ok(mapping_of_text)
    }

    /// What a reading found of each key, and which fields none reads.
    pub(crate) fn counted(&self, totals: &Totals) -> MappingCounts {
        self.spec.counted(totals)
    }

    /// The keys that never had a value, as a finding of a reading.
    pub(crate) fn unused(&self, totals: &Totals) -> Option<Finding> {
        self.spec.unused(totals)
    }
}

impl SpreadImporter for Mapping {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, _record: Value<'_>, _path: &str) -> Confidence {
        Confidence::No
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> std::result::Result<(), Reject> {
        // Counted beside what is put: a record that is rejected shows what was missing in it.
        let counts = out.counts().sized(self.spec.ways.len());
        let judged = items(&self.spec, NAME, None, Some(&counts), record, out);
        out.count(counts);
        judged
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        let counts = items.counts().sized(self.spec.ways.len());
        trace(&self.spec, Some(&counts), items, out);
        items.count(counts);
    }
}

/// What stands for all custom formats in the list of importers: without its mapping none can be read.
#[derive(Debug)]
pub struct Unmapped;

impl SpreadImporter for Unmapped {
    fn info(&self) -> &'static ImporterInfo {
        &INFO
    }

    fn sniff(&self, _record: Value<'_>, _path: &str) -> Confidence {
        Confidence::No
    }

    fn items(&self, _record: &Record<'_>, _out: &mut Items<'_>) -> std::result::Result<(), Reject> {
        let message = "found no mapping, expected a file that describes the fields of the custom format";
        Err(Reject::new(RejectCode::FormatUnknown, "", message))
    }

    fn trace(&self, _items: &TraceItems<'_>, _out: &mut TraceWriter<'_>) {}
}

/// A foreign format that a built-in mapping describes.
#[derive(Debug)]
pub struct BuiltIn {
    info: &'static ImporterInfo,
    mapping: &'static str,
    is: fn(Value<'_>, &str) -> Confidence,
    /// Key of records that have no trace in them, and what these are counted as.
    aside: Option<(&'static str, &'static str)>,
    spec: OnceLock<Spec>,
}

impl BuiltIn {
    /// A format: how it is detected, and its mapping.
    #[must_use]
    pub const fn new(
        info: &'static ImporterInfo,
        mapping: &'static str,
        is: fn(Value<'_>, &str) -> Confidence,
    ) -> Self {
        Self { info, mapping, is, aside: None, spec: OnceLock::new() }
    }

    /// Counts records that have a key as a kind of their own.
    #[must_use]
    pub const fn aside(mut self, key: &'static str, kind: &'static str) -> Self {
        self.aside = Some((key, kind));
        self
    }

    fn spec(&self) -> &Spec {
        self.spec.get_or_init(|| {
            Spec::parse(self.mapping, self.info.name).expect("a mapping of ours is one, as a test sees to")
        })
    }
}

impl SpreadImporter for BuiltIn {
    fn info(&self) -> &'static ImporterInfo {
        self.info
    }

    fn sniff(&self, record: Value<'_>, path: &str) -> Confidence {
        (self.is)(record, path)
    }

    fn items(&self, record: &Record<'_>, out: &mut Items<'_>) -> std::result::Result<(), Reject> {
        items(self.spec(), self.info.name, self.aside, None, record, out)
    }

    fn trace(&self, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
        trace(self.spec(), None, items, out);
    }
}

/// What a step is: one of our kinds, or a word that means nothing here.
enum Sort<'t> {
    Kind(StepKind),
    Ignored(std::borrow::Cow<'t, str>),
}

fn missing(field: &Field, value: &FieldValue<'_>, expected: &str) -> Reject {
    let code = if value.exists() { RejectCode::FieldType } else { RejectCode::FieldMissing };
    Reject::new(code, field.place.as_str(), format!("found {}, expected {expected}", value.shown()))
}

fn sort<'t>(spec: &Spec, scope: Scope<'_, 't>) -> std::result::Result<Sort<'t>, Reject> {
    let Some(field) = spec.step.get(Key::Kind) else { return Ok(Sort::Kind(StepKind::Trace)) };
    let theirs = field.expr.find(&scope);
    let Some(word) = theirs.word() else { return Err(missing(field, &theirs, "the kind of a step")) };
    Ok(match field.find(scope).word().and_then(|ours| StepKind::parse(&ours)) {
        Some(StepKind::Ignore) | None => Sort::Ignored(word),
        Some(kind) => Sort::Kind(kind),
    })
}

/// Where a step stands among those of its trace.
type Rank = (f64, i64);

fn rank(value: &FieldValue<'_>) -> Option<Rank> {
    let integer = value.i64().or_else(|| value.time(None));
    integer.map(|n| (n as f64, n)).or_else(|| value.f64().map(|n| (n, 0)))
}

fn items(
    spec: &Spec,
    name: &str,
    aside: Option<(&str, &str)>,
    counts: Option<&Counts>,
    record: &Record<'_>,
    out: &mut Items<'_>,
) -> std::result::Result<(), Reject> {
    out.cut(record.text, |root, out| match aside.filter(|(key, _)| root.get(key).exists()) {
        Some((_, kind)) => {
            out.ignored(&format!("{name}.{kind}"));
            Ok(())
        }
        None => cut(spec, name, counts, record, root, out),
    })
}

fn cut(
    spec: &Spec,
    name: &str,
    counts: Option<&Counts>,
    record: &Record<'_>,
    root: Value<'_>,
    out: &mut Items<'_>,
) -> std::result::Result<(), Reject> {
    let listed = spec.steps.as_ref().is_some_and(|steps| steps.0.is_empty());
    if root.kind() != Some(Kind::Object) && !(listed && root.kind() == Some(Kind::Array)) {
        let message = format!("found {}, expected an object", FieldValue::Json(root).shown());
        return Err(Reject::new(RejectCode::RecordNotObject, "", message));
    }
    if let Some(counts) = counts {
        counts.record(root);
    }
    let offset = out.offset();
    let place = if spec.slots.contains(&Slot::Place) {
        format!("{}:{offset}", digits(record.text))
    } else {
        String::new()
    };
    let mut cut =
        Cut { spec, name, counts, record, root, place: &place, offset, beside: Vec::new(), put: false };
    let Some(steps) = &spec.steps else {
        let key = cut.key(root, out)?;
        cut.beside(root);
        cut.step(&key, root, root, out);
        return Ok(());
    };
    let (last, parents) = match steps.0.split_last() {
        Some((last, parents)) => (Some(last), parents.to_vec()),
        None => (None, Vec::new()),
    };
    let ups = Pointer(parents).all(root);
    let alone = ups.len() == 1;
    let mut any = false;
    for up in ups {
        let list = last.map_or(up, |last| Pointer(vec![last.clone()]).of(up));
        if let Some((counts, way)) = counts.zip(spec.steps_way) {
            counts.note(way, counts.place(), &FieldValue::Json(list));
        }
        let key = match cut.key(up, out) {
            Ok(key) if list.kind() == Some(Kind::Array) => key,
            judged => {
                let (key, reject) = match judged {
                    Ok(key) => (Some(key), no_list(spec, list)),
                    Err(reject) => (None, reject),
                };
                match key {
                    _ if alone => return Err(reject),
                    Some(key) => out.reject_in(&key, up.raw(), reject),
                    None => out.reject(up.raw(), reject),
                }
                any = true;
                continue;
            }
        };
        cut.beside(up);
        for step in list.elements() {
            cut.step(&key, up, step, out);
            any = true;
        }
    }
    if !any {
        out.ignored(&format!("{name}.no_steps"));
    }
    Ok(())
}

fn no_list(spec: &Spec, list: Value<'_>) -> Reject {
    let code = if list.exists() { RejectCode::FieldType } else { RejectCode::FieldMissing };
    let path = spec.steps.iter().flat_map(|steps| &steps.0).fold(String::new(), |path, key| path + "/" + key);
    Reject::new(code, path, format!("found {}, expected a list of steps", FieldValue::Json(list).shown()))
}

/// A record while it is cut into steps.
struct Cut<'a, 't> {
    spec: &'a Spec,
    name: &'a str,
    counts: Option<&'a Counts>,
    record: &'a Record<'a>,
    root: Value<'t>,
    place: &'a str,
    offset: u64,
    /// What travels beside the steps.
    beside: Vec<u8>,
    /// Whether a step was put with it.
    put: bool,
}

impl<'a, 't> Cut<'a, 't> {
    fn scope(&self, up: Value<'t>, step: Value<'t>) -> Scope<'a, 't> {
        let slots = Slots::Record {
            record: self.root,
            up,
            stem: self.record.stem,
            path: self.record.path,
            place: self.place,
            offset: self.offset,
        };
        let place = self.counts.map_or(0, Counts::place);
        Scope { here: step, step, slots, named_slots: &self.spec.slots, counts: self.counts, place }
    }

    fn key(&self, up: Value<'t>, out: &Items<'_>) -> std::result::Result<String, Reject> {
        let Some(field) = self.spec.trace.get(Key::Id) else { return Ok(String::new()) };
        let located = field.find(self.scope(up, self.root));
        match located.word() {
            // Where a record lies says nothing outside of its file.
            Some(key) if !self.place.is_empty() && key.contains(self.place) => Ok(out.in_file(&key)),
            Some(key) => Ok(key.into_owned()),
            None => Err(missing(field, &located, "the id of a trace")),
        }
    }

    fn beside(&mut self, up: Value<'t>) {
        self.beside.clear();
        self.put = false;
        if !self.spec.travels() {
            return;
        }
        if self.spec.steps.is_none() {
            self.beside.push(WHERE as u8);
        }
        let scope = self.scope(up, self.root);
        for (at, slot) in self.spec.slots.iter().enumerate() {
            self.beside.push(if at == 0 { b'[' } else { b',' });
            let located = if self.spec.is_beside(slot) { scope.slot(at) } else { FieldValue::Nothing };
            spell(&located, &mut self.beside);
        }
        self.beside.push(b']');
    }

    fn step(&mut self, key: &str, up: Value<'t>, step: Value<'t>, out: &mut Items<'_>) {
        let scope = self.scope(up, step);
        match self.judged(scope) {
            Ok(Sort::Ignored(word)) => {
                const SHOWN: usize = 40;
                let word: String = word.chars().take(SHOWN).collect();
                out.ignored(&format!("{}.{word}", self.name));
            }
            Ok(Sort::Kind(_)) if self.put => out.item_beside(key, step.raw()),
            Ok(Sort::Kind(_)) => {
                out.item(key, step.raw(), std::str::from_utf8(&self.beside).unwrap_or_default());
                self.put = true;
            }
            Err(reject) => out.reject_in(key, step.raw(), reject),
        }
    }

    fn judged(&self, scope: Scope<'a, 't>) -> std::result::Result<Sort<'t>, Reject> {
        let sort = sort(self.spec, scope)?;
        let fields = &self.spec.step;
        if matches!(sort, Sort::Ignored(_)) {
            return Ok(sort);
        }
        if let Some(field) = fields.get(Key::Order) {
            let located = field.find(scope);
            if rank(&located).is_none() {
                return Err(missing(field, &located, "a number or a time to sort by"));
            }
        }
        if let Sort::Kind(kind) = &sort
            && kind.needs_other()
        {
            // For a step that stays it is counted during its conversion.
            let located = fields.find(Key::To, scope.uncounted());
            if located.word().is_none() {
                let located = fields.find(Key::To, scope);
                let message = format!("found {}, expected the agent concerned", located.shown());
                let path = fields.get(Key::To).map_or("", |field| field.place.as_str());
                return Err(Reject::new(RejectCode::FieldMissing, path, message));
            }
        }
        Ok(sort)
    }
}

fn trace(spec: &Spec, counts: Option<&Counts>, items: &TraceItems<'_>, out: &mut TraceWriter<'_>) {
    let limits = items.limits();
    // Each was parsed when the record was cut.
    let steps: Vec<Tree<'_>> = items.iter().filter_map(|item| Tree::parse(item.text, limits).ok()).collect();
    let mut recording = Recording::default();
    if steps.iter().any(Tree::is_replaced) {
        let message = "a surrogate without its other half was replaced by U+FFFD";
        recording.finding(FindingCode::Utf8Replaced, None, message);
    }
    // Steps of a record share what travels beside them.
    let mut beside: Vec<Tree<'_>> = Vec::new();
    let mut which = Vec::with_capacity(items.len());
    let mut last = "";
    for item in items {
        if beside.is_empty() || !std::ptr::eq(last, item.context) {
            last = item.context;
            // One level deeper than the record that it was taken from.
            let wider = Limits { depth: limits.depth + 1, ..limits };
            let tree = Tree::parse(last, wider).or_else(|_| Tree::parse("[]", wider));
            beside.extend(tree.ok());
        }
        which.push(beside.len().saturating_sub(1));
    }
    let first = counts.map_or(0, |counts| counts.places(steps.len()));
    let scope = |at: usize| {
        let (step, list) = (steps[at].root(), beside[which[at]].root());
        let slots = if spec.steps.is_some() { Slots::Beside(list) } else { Slots::Own(list) };
        let place = first.wrapping_add(at as u32);
        Scope { here: step, step, slots, named_slots: &spec.slots, counts, place }
    };
    let mut order: Vec<usize> = (0..steps.len()).collect();
    if let Some(field) = spec.step.get(Key::Order) {
        let ranks: Vec<Rank> =
            order.iter().map(|at| rank(&field.find(scope(*at).uncounted())).unwrap_or_default()).collect();
        order.sort_by(|a, b| ranks[*a].0.total_cmp(&ranks[*b].0).then(ranks[*a].1.cmp(&ranks[*b].1)));
    }
    let mut telling = trace_steps::Telling::new(spec, &mut recording);
    let scopes: Vec<_> = order.iter().map(|at| (which[*at], *at as u32, scope(*at))).collect();
    telling.describe(&scopes);
    telling.end(items.key(), items.is_partial());
    recording.write(out);
}
