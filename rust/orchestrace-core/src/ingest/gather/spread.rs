//! One gathered trace: duplicates removed from its items, importer called, records counted.

use std::borrow::Cow;

use hashbrown::HashTable;
use xxhash_rust::xxh3::xxh3_64;

use super::{Gathered, GroupOutput, Ordered};
use crate::columns::block::BlockWriter;
use crate::columns::tally::Tallies;
use crate::error::FindingCode;
use crate::importers::items::{ItemRow, ItemUse, Piece};
use crate::importers::mapping::Counts;
use crate::importers::recording::Beside;
use crate::importers::{TraceItem, TraceItems};
use crate::ingest::ReadOptions;
use crate::ingest::index::content_hash;
use crate::ingest::parse::quarantine_row;
use crate::json::identity::{identity, mixed};
use crate::schema::RecordStatus;

/// Buffers of a worker.
#[derive(Default)]
pub(super) struct Scratch {
    /// Hashes and numbers of items.
    seen: HashTable<(u64, u32)>,
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
        output: &mut GroupOutput,
        files: &mut Vec<&'a str>,
    ) {
        match self.gathered.rivals.get(&self.number) {
            Some(rivals) => self.make_best(rivals, options, writer, scratch, output, files),
            None => self.make_one(None, options, writer, scratch, output, files),
        }
    }

    /// Writes the items, beside other recordings of the run.
    pub(super) fn make_one(
        &self,
        beside: Option<&Beside>,
        options: &ReadOptions,
        writer: &mut BlockWriter,
        scratch: &mut Scratch,
        output: &mut GroupOutput,
        files: &mut Vec<&'a str>,
    ) {
        let planned = self.gathered.planned[self.number as usize];
        let importer = self.gathered.importers[planned.importer as usize];
        let name = importer.info().name;
        let (items, rows) = self.distinct(scratch, name, &mut output.tallies);
        if items.is_empty() {
            return;
        }
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
            if out.n_events() > 0 && trace.is_one() {
                self.gathered.other_ids(self.number, &out.trace_id()).iter().for_each(|id| out.joined(id));
            }
            if out.n_events() > 0 && nothing {
                for note in self.gathered.notes.get(&self.place).into_iter().flatten() {
                    out.finding_of(note.code, note.count, None, || note.message.clone());
                }
            }
            let home = rows[trace.home()];
            out.lies_at(home.position);
            if out.n_events() > 0 {
                if let Err(fault) = out.judge() {
                    out.rollback();
                    let reject = fault.into_reject();
                    for (item, row) in items.iter().zip(&rows) {
                        let text = item.text.as_bytes();
                        let row_of = quarantine_row(options, name, row.position, reject.clone(), text);
                        output.quarantine.push((row.source, row_of));
                        output.tallies.add(input(row), name, RecordStatus::Quarantined, 1);
                    }
                    scratch.counts = trace.counts();
                    return;
                }
                nothing = false;
                let home_path = &self.gathered.sources[home.source as usize].0;
                let sought = options.sought.as_deref();
                let place = |row: &ItemRow| (&*self.gathered.sources[row.source as usize].0, row.position);
                let is_sought = sought.is_none_or(|sought| {
                    let items = rows.iter().map(|row| place(row));
                    sought.is(&out.trace_id(), (home_path, home.position), items)
                });
                if again || !is_sought {
                    out.rollback();
                } else {
                    if let Some(sought) = sought {
                        let made_of = (0..out.n_events()).map(|seq| {
                            let item = out.items.get(seq).map_or(trace.home(), |item| *item as usize);
                            place(rows[item.min(rows.len() - 1)])
                        });
                        let items = rows.iter().map(|row| place(row));
                        sought.note((&out.trace_id(), home_path, home.position), made_of, items);
                    }
                    let committed = out.commit(name);
                    debug_assert!(committed.is_ok(), "what it refuses was looked at before");
                    let key = self.gathered.key(planned.key);
                    writer.digests.push(match trace.own_items() {
                        Some(chosen) => {
                            let parts =
                                chosen.iter().map(|item| (&items[*item as usize], rows[*item as usize]));
                            digest(key, parts, trace.part())
                        }
                        None => digest(key, items.iter().zip(rows.iter().copied()), trace.part()),
                    });
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
        let tallies = &mut output.tallies;
        trace.settle(
            |i| input(rows[i]),
            |input, fate, n| match fate {
                ItemUse::Used if nothing => tallies.ignored(input, name, &kind, n),
                ItemUse::Used => tallies.add(input, name, RecordStatus::Used, n),
                ItemUse::Duplicate => tallies.add(input, name, RecordStatus::Duplicate, n),
                ItemUse::Ignored(kind) => tallies.ignored(input, name, kind, n),
            },
        );
    }

    /// Its items in the order of the names of their inputs, so that nothing depends on which was read first.
    fn in_order(&self) -> Cow<'_, [(u32, u32)]> {
        let place = |row: &(u32, u32)| self.gathered.places[self.row(*row).1.source as usize];
        if self.rows.is_sorted_by_key(place) {
            return self.rows.into();
        }
        let mut rows = self.rows.to_vec();
        rows.sort_by_key(place);
        rows.into()
    }

    /// The items without those that say the same as one of another record, and those of files that are copies, which
    /// are counted.
    pub(super) fn distinct(
        &self,
        scratch: &mut Scratch,
        name: &'static str,
        tallies: &mut Tallies,
    ) -> (Vec<TraceItem<'a>>, Vec<&'a ItemRow>) {
        let seen = &mut scratch.seen;
        seen.clear();
        let in_order = self.in_order();
        let is_copy = |row: &ItemRow| self.gathered.copies[row.source as usize];
        // What one file spells twice it spells the same way.
        let mut sources =
            in_order.iter().map(|place| self.row(*place).1).filter(|row| !is_copy(row)).map(|row| row.source);
        let first = sources.next();
        let by_bytes = sources.all(|source| Some(source) == first);
        let hash_of = |text: &str| if by_bytes { xxh3_64(text.as_bytes()) } else { identity(text) };
        // What many items share is looked at once.
        let mut beside = ("", hash_of(""));
        let mut items: Vec<TraceItem<'a>> = Vec::with_capacity(self.rows.len());
        let mut rows: Vec<&'a ItemRow> = Vec::with_capacity(self.rows.len());
        // The input of which a record is lost, up to its next item.
        let mut lost = None;
        for place in in_order.iter() {
            let (piece, row) = self.row(*place);
            let (path, input) = &self.gathered.sources[row.source as usize];
            if is_copy(row) {
                tallies.add(*input, name, RecordStatus::Duplicate, u64::from(!row.lost));
                continue;
            }
            if row.lost {
                lost = Some(row.source);
                continue;
            }
            let (text, context) = (piece.text(row), piece.context(row));
            if !std::ptr::eq(beside.0, context) {
                beside = (context, hash_of(context));
            }
            let identity = if by_bytes { row.hash } else { hash_of(text) };
            let hash = mixed(identity, beside.1);
            let is_same = |(other, i): &(u64, u32)| {
                let item = &items[*i as usize];
                *other == hash && (!by_bytes || (item.text == text && item.context == context))
            };
            let earlier = seen.find(hash, is_same).map(|(_, i)| *i as usize);
            if earlier.is_some_and(|earlier| rows[earlier].record != row.record) {
                tallies.add(*input, name, RecordStatus::Duplicate, 1);
                continue;
            }
            let number = items.len() as u32;
            let after_loss = lost.take() == Some(row.source);
            items.push(TraceItem { text, context, path, line: row.position.line, after_loss, identity });
            rows.push(row);
            if earlier.is_none() {
                seen.insert_unique(hash, (hash, number), |(hash, _)| *hash);
            }
        }
        (items, rows)
    }
}

/// A hash of all that a trace is made of: its key, its items, and of which it is among those that are made of them.
fn digest<'i>(key: &str, items: impl Iterator<Item = (&'i TraceItem<'i>, &'i ItemRow)>, part: usize) -> u64 {
    let mut beside = ("", xxh3_64(b""));
    let mut hash = mixed(xxh3_64(key.as_bytes()), part as u64);
    for (item, row) in items {
        if !std::ptr::eq(beside.0, item.context) {
            beside = (item.context, xxh3_64(item.context.as_bytes()));
        }
        hash = mixed(hash, mixed(row.hash, beside.1));
    }
    content_hash(hash, true)
}
