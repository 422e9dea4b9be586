//! One gathered trace: duplicates removed from its items, importer called, records counted.

use std::hash::BuildHasher;

use foldhash::quality::RandomState;
use hashbrown::HashTable;
use xxhash_rust::xxh3::Xxh3;

use super::{Gathered, Made, Ordered};
use crate::columns::block::BlockWriter;
use crate::columns::tally::Tallies;
use crate::error::FindingCode;
use crate::importers::items::{Fate, ItemRow, Piece};
use crate::importers::mapping::Counts;
use crate::importers::recording::Beside;
use crate::importers::{TraceItem, TraceItems};
use crate::ingest::ReadOptions;
use crate::ingest::parse::quarantine_row;
use crate::schema::RecordStatus;

/// Buffers of a worker.
#[derive(Default)]
pub(super) struct Scratch {
    /// Hashes and numbers of items.
    seen: HashTable<(u64, u32)>,
    hasher: RandomState,
    /// What the mapping found, trace by trace.
    pub(super) counts: Counts,
}

/// One trace to be made.
pub(super) struct Spread<'a, 'r> {
    pub gathered: &'a Gathered,
    pub ordered: &'a Ordered,
    pub rows: &'r [(u32, u32)],
    pub number: u32,
    /// The trace that it is among, if it is a recording of the same run.
    pub place: u32,
}

impl<'a> Spread<'a, '_> {
    pub(super) fn row(&self, (piece, row): (u32, u32)) -> (&'a Piece, &'a ItemRow) {
        let piece = &self.ordered.bucket.pieces[piece as usize];
        (piece, &piece.rows[row as usize])
    }

    /// Writes what the items make, nearly always one trace, and names the file of each.
    pub(super) fn make(
        &self,
        options: &ReadOptions,
        writer: &mut BlockWriter,
        scratch: &mut Scratch,
        made: &mut Made,
        files: &mut Vec<&'a str>,
    ) {
        match self.gathered.rivals.get(&self.number) {
            Some(rivals) => self.make_best(rivals, options, writer, scratch, made, files),
            None => self.make_one(None, options, writer, scratch, made, files),
        }
    }

    /// Writes the items, beside other recordings of the run.
    pub(super) fn make_one(
        &self,
        beside: Option<&Beside>,
        options: &ReadOptions,
        writer: &mut BlockWriter,
        scratch: &mut Scratch,
        made: &mut Made,
        files: &mut Vec<&'a str>,
    ) {
        let planned = self.gathered.planned[self.number as usize];
        let importer = self.gathered.importers[planned.importer as usize];
        let name = importer.info().name;
        let (items, rows) = self.distinct(scratch, name, &mut made.tallies);
        let mut trace =
            TraceItems::new(self.gathered.key(planned.key), &items, planned.partial, options.records.limits)
                .owned_by(&self.gathered.owners)
                .used_before(beside)
                .ended_with(self.gathered.results.get(&self.place));
        trace.count(std::mem::take(&mut scratch.counts));
        let input = |row: &ItemRow| self.gathered.sources[row.source as usize].1;
        let again = u64::from(self.place) < self.gathered.skip;
        let mut nothing = true;
        loop {
            let mut out = writer.begin(&options.records, rows[0].position);
            if planned.partial {
                out.partial();
            }
            if rows.iter().any(|row| row.replaced) {
                out.finding(FindingCode::Utf8Replaced, None, || {
                    "invalid UTF-8 was replaced by U+FFFD".into()
                });
            }
            importer.trace(&trace, &mut out);
            let home = rows[trace.home()];
            if out.n_events() > 0 {
                if let Err(fault) = out.judge() {
                    out.rollback();
                    let reject = fault.into_reject();
                    for (item, row) in items.iter().zip(&rows) {
                        let text = item.text.as_bytes();
                        let row_of = quarantine_row(options, name, row.position, reject.clone(), text);
                        made.quarantine.push((row.source, row_of));
                        made.tallies.add(input(row), name, RecordStatus::Quarantined, 1);
                    }
                    scratch.counts = trace.counts();
                    return;
                }
                nothing = false;
                let home_path = &self.gathered.sources[home.source as usize].0;
                let sought = options.sought.as_deref();
                let is_sought =
                    sought.is_none_or(|sought| sought.is(&out.trace_id(), home_path, rows[0].position));
                if again || !is_sought {
                    out.rollback();
                } else {
                    if let Some(sought) = sought {
                        let made_of = (0..out.n_events()).map(|seq| {
                            let item = out.items.get(seq).map_or(trace.home(), |item| *item as usize);
                            let row = rows[item.min(rows.len() - 1)];
                            (&*self.gathered.sources[row.source as usize].0, row.position)
                        });
                        sought.found(made_of);
                    }
                    let committed = out.commit(name);
                    debug_assert!(committed.is_ok(), "what it refuses was looked at before");
                    if options.digests {
                        writer.digests.push(digest(&items, trace.part()));
                    }
                    files.push(&*self.gathered.sources[home.source as usize].0);
                }
            } else if out.has_labels() {
                nothing = false;
                if again { out.rollback() } else { out.labels_alone() }
            } else {
                out.rollback();
            }
            if !trace.next_part() {
                break;
            }
        }
        scratch.counts = trace.counts();
        let kind = format!("{name}.no_events");
        let tallies = &mut made.tallies;
        trace.settle(
            |i| input(rows[i]),
            |input, fate, n| match fate {
                Fate::Used if nothing => tallies.ignored(input, name, &kind, n),
                Fate::Used => tallies.add(input, name, RecordStatus::Used, n),
                Fate::Duplicate => tallies.add(input, name, RecordStatus::Duplicate, n),
                Fate::Ignored(kind) => tallies.ignored(input, name, kind, n),
            },
        );
    }

    /// The items without those that repeat one of another record word for word, which are counted.
    pub(super) fn distinct(
        &self,
        scratch: &mut Scratch,
        name: &'static str,
        tallies: &mut Tallies,
    ) -> (Vec<TraceItem<'a>>, Vec<&'a ItemRow>) {
        let Scratch { seen, hasher, .. } = scratch;
        seen.clear();
        // What many items share is hashed once.
        let mut beside = ("", hasher.hash_one(""));
        let mut items: Vec<TraceItem<'a>> = Vec::with_capacity(self.rows.len());
        let mut rows: Vec<&'a ItemRow> = Vec::with_capacity(self.rows.len());
        // The input of which a record is lost, up to its next item.
        let mut lost = None;
        for place in self.rows {
            let (piece, row) = self.row(*place);
            if row.lost {
                lost = Some(row.source);
                continue;
            }
            let (text, context) = (piece.text(row), piece.context(row));
            let (path, input) = &self.gathered.sources[row.source as usize];
            if !std::ptr::eq(beside.0, context) {
                beside = (context, hasher.hash_one(context));
            }
            let hash = hasher.hash_one((text, beside.1));
            let same = |(_, i): &(u64, u32)| {
                let item = &items[*i as usize];
                item.text == text && is_shared(item.context, context)
            };
            let known = seen.find(hash, same).map(|(_, i)| *i);
            if known.is_some_and(|i| rows[i as usize].record != row.record) {
                tallies.add(*input, name, RecordStatus::Duplicate, 1);
                continue;
            }
            let number = items.len() as u32;
            let after_loss = lost.take() == Some(row.source);
            items.push(TraceItem { text, context, path, line: row.position.line, after_loss });
            rows.push(row);
            if known.is_none() {
                seen.insert_unique(hash, (hash, number), |(hash, _)| *hash);
            }
        }
        (items, rows)
    }
}

/// A hash of all that a trace is made of, and of which it is among those that are made of it.
fn digest(items: &[TraceItem<'_>], part: usize) -> u64 {
    let mut hash = Xxh3::with_seed(part as u64);
    let mut before = "";
    let mut put = |text: &str| {
        hash.update(&(text.len() as u64).to_le_bytes());
        hash.update(text.as_bytes());
    };
    for item in items {
        put(item.text);
        // Wherever pieces were cut: an item that follows itself is marked as such.
        if is_shared(before, item.context) {
            put("=");
        } else {
            put("!");
            put(item.context);
            before = item.context;
        }
    }
    hash.digest()
}

/// Whether two items share the same text; mostly it is one text, which is not read for that.
fn is_shared(one: &str, other: &str) -> bool {
    std::ptr::eq(one, other) || one == other
}
