//! Coverage of a mapping: how often each way to a value was tried and found, and which fields of the records no key
//! reads.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use super::Spec;
use super::source::{Expr, FieldValue, Pointer};
use crate::columns::mapping_counts::{KeyCount, MappingCounts, UnreadField};
use crate::error::{Finding, FindingCode};
use crate::json::Kind;
use crate::json::tree::Value;

/// Most fields that a report lists.
const TOLD: usize = 200;

/// Distinct fields that are counted at most: a map whose keys are data has as many as there are records.
const COUNTED: usize = 10_000;

/// Bytes of a field's pointer at most.
const LONGEST: usize = 400;

/// A way to a value, as a file spells it.
#[derive(Debug)]
pub(super) struct Way {
    /// Its key, with its sections.
    pub(super) key: String,
    pub(super) shown: String,
    /// Where it leads to in a record, `*` standing for each element of a list; none where it leads to no record.
    pub(super) paths: Vec<Vec<String>>,
    pub(super) reads: Reads,
}

/// What is read where a way leads to.
#[derive(Debug, Clone)]
pub(super) enum Reads {
    /// The value with everything in it.
    All,
    /// A list, whose elements others read.
    List,
    /// Numbers and flags of an object, all but these.
    Numbers(Vec<String>),
}

/// How often a way was looked for and found.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    looked: u64,
    matched: u64,
    /// Bits of [`TYPES`].
    types: u8,
}

/// The same within a block, in as much as a register takes.
#[derive(Debug, Clone, Copy, Default)]
struct Tick {
    /// Where it was looked for last: what is looked for twice in one place counts once.
    place: u32,
    looked: u32,
    matched: u32,
    types: u8,
}

/// Counts while records are read, on one thread.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    ways: Vec<Cell<Tick>>,
    /// The number of the place that was looked at last.
    places: Cell<u32>,
    fields: RefCell<Option<Box<Fields>>>,
}

/// Counts of a whole reading.
#[derive(Debug, Default)]
pub(crate) struct Totals {
    ways: Vec<Count>,
    fields: Option<Fields>,
}

const TYPES: [&str; 5] = ["bool", "number", "string", "list", "object"];

fn bit(kind: Kind) -> u8 {
    match kind {
        Kind::Null => 0,
        Kind::Bool => 1,
        Kind::Number => 2,
        Kind::String => 4,
        Kind::Array => 8,
        Kind::Object => 16,
    }
}

/// Values that are numbers or flags alone.
const NUMERIC: u8 = 3;

fn types(bits: u8) -> String {
    let present = TYPES.iter().enumerate().filter(|(at, _)| bits & 1 << at != 0);
    present.map(|(_, name)| *name).collect::<Vec<_>>().join(", ")
}

impl Counts {
    /// Makes room for the ways of a mapping.
    pub(super) fn sized(mut self, ways: usize) -> Self {
        self.ways.resize_with(ways, Cell::default);
        self
    }

    /// Counts the fields of records too.
    pub(crate) fn with_fields(&mut self) {
        self.fields.get_mut().get_or_insert_default();
    }

    /// The number of a place that was not looked at yet.
    pub(super) fn place(&self) -> u32 {
        self.places(1)
    }

    /// The first number of so many places.
    pub(super) fn places(&self, n: usize) -> u32 {
        let first = self.places.get().wrapping_add(1);
        self.places.set(self.places.get().wrapping_add(n as u32));
        first
    }

    #[inline]
    pub(super) fn note(&self, way: usize, place: u32, field_value: &FieldValue<'_>) {
        let Some(cell) = self.ways.get(way) else { return };
        let mut count = cell.get();
        if count.place == place {
            return;
        }
        count.place = place;
        count.looked += 1;
        if field_value.exists() {
            count.matched += 1;
            count.types |= match field_value {
                FieldValue::Json(value) => value.kind().map_or(0, bit),
                FieldValue::Text(_) => bit(Kind::String),
                FieldValue::Number(_) => bit(Kind::Number),
                FieldValue::Flag(_) => bit(Kind::Bool),
                FieldValue::Nothing => 0,
            };
        }
        cell.set(count);
    }

    /// Counts the fields of a record, where that is asked for.
    pub(super) fn record(&self, root: Value<'_>) {
        if let Some(fields) = &mut *self.fields.borrow_mut() {
            fields.record(root);
        }
    }
}

impl Totals {
    /// Takes what was counted.
    pub(crate) fn add(&mut self, counts: &mut Counts) {
        if self.ways.len() < counts.ways.len() {
            self.ways.resize(counts.ways.len(), Count::default());
        }
        for (total, cell) in self.ways.iter_mut().zip(&mut counts.ways) {
            let Tick { place, looked, matched, types } = *cell.get_mut();
            total.add(Count { looked: looked.into(), matched: matched.into(), types });
            *cell.get_mut() = Tick { place, ..Tick::default() };
        }
        if let Some(fields) = counts.fields.get_mut() {
            self.fields.get_or_insert_default().add(std::mem::take(&mut **fields));
        }
    }

    pub(crate) fn merge(&mut self, other: Self) {
        if self.ways.len() < other.ways.len() {
            self.ways.resize(other.ways.len(), Count::default());
        }
        for (total, count) in self.ways.iter_mut().zip(&other.ways) {
            total.add(*count);
        }
        if let Some(fields) = other.fields {
            self.fields.get_or_insert_default().add(fields);
        }
    }

    fn way(&self, way: usize) -> Count {
        self.ways.get(way).copied().unwrap_or_default()
    }
}

impl Count {
    fn add(&mut self, other: Self) {
        self.looked += other.looked;
        self.matched += other.matched;
        self.types |= other.types;
    }
}

/// How often each field of records is there, list indexes left out.
#[derive(Debug, Default)]
struct Fields {
    of: HashMap<String, FieldCount>,
    record: u64,
    path: String,
}

#[derive(Debug, Clone, Copy, Default)]
struct FieldCount {
    records: u64,
    values: u64,
    types: u8,
    /// The last record that had it.
    record: u64,
}

impl Fields {
    fn record(&mut self, root: Value<'_>) {
        self.record += 1;
        let mut path = std::mem::take(&mut self.path);
        path.clear();
        self.value(root, &mut path);
        self.path = path;
    }

    fn value(&mut self, value: Value<'_>, path: &mut String) {
        let Some(kind) = value.kind().filter(|kind| *kind != Kind::Null) else { return };
        let here = path.len();
        if here > LONGEST {
            return;
        }
        match kind {
            Kind::Object if !value.is_empty() => {
                for (key, member) in value.members() {
                    path.push('/');
                    path.push_str(&key.replace('~', "~0").replace('/', "~1"));
                    self.value(member, path);
                    path.truncate(here);
                }
            }
            Kind::Array if !value.is_empty() => {
                path.push_str("/*");
                for element in value.elements() {
                    self.value(element, path);
                }
                path.truncate(here);
            }
            _ if here == 0 => {} // an empty record, or one that is a number, has no field
            kind => self.count(path, kind),
        }
    }

    fn count(&mut self, path: &str, kind: Kind) {
        if !self.of.contains_key(path) {
            if self.of.len() >= COUNTED {
                return;
            }
            self.of.insert(path.to_owned(), FieldCount::default());
        }
        let Some(count) = self.of.get_mut(path) else { return };
        count.values += 1;
        count.types |= bit(kind);
        if count.record != self.record {
            count.record = self.record;
            count.records += 1;
        }
    }

    fn add(&mut self, other: Self) {
        let mut others: Vec<(String, FieldCount)> = other.of.into_iter().collect();
        // Which fields are beyond what is counted must not hang on the order of a table.
        others.sort_by(|a, b| a.0.cmp(&b.0));
        for (path, theirs) in others {
            if self.of.len() >= COUNTED && !self.of.contains_key(&path) {
                continue;
            }
            let ours = self.of.entry(path).or_default();
            ours.records += theirs.records;
            ours.values += theirs.values;
            ours.types |= theirs.types;
        }
    }
}

impl Spec {
    /// What a reading found, by key and field.
    pub(super) fn counted(&self, totals: &Totals) -> MappingCounts {
        let keys = self.ways.iter().enumerate().map(|(at, way)| {
            let count = totals.way(at);
            KeyCount {
                key: way.key.clone(),
                pointer: way.shown.clone(),
                matched: count.matched,
                of: count.looked,
                types: types(count.types),
            }
        });
        let read: Vec<&Way> = (self.ways.iter().enumerate())
            .filter(|(at, _)| totals.way(*at).matched > 0)
            .map(|(_, way)| way)
            .collect();
        let fields = totals.fields.iter().flat_map(|fields| &fields.of);
        let mut unread: Vec<UnreadField> = fields
            .filter(|(path, count)| {
                let path = Pointer::parse(path).map(|pointer| pointer.0).unwrap_or_default();
                !read.iter().any(|way| way.covers(&path, count.types))
            })
            .map(|(path, count)| UnreadField {
                field: path.clone(),
                types: types(count.types),
                records: count.records,
                values: count.values,
            })
            .collect();
        unread.sort_by(|a, b| {
            (b.records, b.values).cmp(&(a.records, a.values)).then_with(|| a.field.cmp(&b.field))
        });
        unread.truncate(TOLD);
        MappingCounts { keys: keys.collect(), unread }
    }

    /// The keys that were looked for and never had a value, as a finding: a pointer that is misspelt reads nothing,
    /// and says nothing.
    pub(super) fn unused(&self, totals: &Totals) -> Option<Finding> {
        const NAMED: usize = 6;
        let mut unused: Vec<(u64, usize, String)> = Vec::new();
        for (key, expr) in &self.keys {
            if let KeyUse::Missed { looked, way } = use_of_key(expr, totals) {
                let Way { shown, .. } = &self.ways[way];
                unused.push((looked, way, format!("{key} at {shown} (0 of {looked})")));
            }
        }
        if unused.is_empty() {
            return None;
        }
        unused.sort_by(|a, b| b.0.cmp(&a.0).then(a.1.cmp(&b.1)));
        let named: Vec<&str> = unused.iter().take(NAMED).map(|(.., told)| told.as_str()).collect();
        let more = unused.len().saturating_sub(NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Some(Finding {
            code: FindingCode::MappingUnused,
            count: unused.len() as u32,
            seq: None,
            message: crate::error::capped(format!(
                "keys of the mapping without any value: {}{more}",
                named.join(", ")
            )),
        })
    }
}

/// What became of a key.
enum KeyUse {
    Found,
    /// Nobody looked for it.
    Idle,
    /// It says the same whatever is recorded.
    Constant,
    /// There was nothing on the way.
    Missed {
        looked: u64,
        way: usize,
    },
}

fn use_of_key(expr: &Expr, totals: &Totals) -> KeyUse {
    match expr {
        Expr::Counted(way, _) => match totals.way(*way) {
            Count { looked: 0, .. } => KeyUse::Idle,
            Count { matched: 0, looked, .. } => KeyUse::Missed { looked, way: *way },
            _ => KeyUse::Found,
        },
        // Of alternatives one is enough; what stands in for all of them says nothing of them.
        Expr::First(of) => {
            let mut missed = KeyUse::Idle;
            for use_of_part in of.iter().map(|expr| use_of_key(expr, totals)) {
                match use_of_part {
                    KeyUse::Found => return KeyUse::Found,
                    KeyUse::Missed { .. } if matches!(missed, KeyUse::Idle) => missed = use_of_part,
                    _ => {}
                }
            }
            missed
        }
        // Of parts all are needed.
        Expr::Join(of, _) => {
            let mut use_of_parts = KeyUse::Constant;
            for use_of_part in of.iter().map(|expr| use_of_key(expr, totals)) {
                match use_of_part {
                    KeyUse::Missed { .. } => return use_of_part,
                    KeyUse::Constant => {}
                    other => use_of_parts = other,
                }
            }
            use_of_parts
        }
        _ => KeyUse::Constant,
    }
}

impl Way {
    /// Whether what it reads takes in a field.
    fn covers(&self, field: &[String], types: u8) -> bool {
        // A pointer names one element of a list, where a field stands for all of them.
        let same = |(ours, theirs): (&String, &String)| {
            ours == theirs || (theirs == "*" && ours.bytes().all(|byte| byte.is_ascii_digit()))
        };
        self.paths.iter().any(|path| {
            let leads = path.len() <= field.len() && path.iter().zip(field).all(same);
            leads
                && match &self.reads {
                    Reads::All => true,
                    Reads::List => path.len() == field.len(),
                    Reads::Numbers(except) => {
                        path.len() + 1 == field.len()
                            && types & !NUMERIC == 0
                            && field.last().is_some_and(|name| !except.contains(name))
                    }
                }
        })
    }
}
