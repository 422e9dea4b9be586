//! Gathering of traces that are spread over records and inputs: collects items block by block, numbers traces by first
//! appearance, and returns items trace by trace.
//!
//! Beyond its budget the text goes to a temporary file, and from there once more, cut into buckets of consecutive
//! traces that fit the memory. One hash and one number per trace stay in memory, whatever the size of the inputs. No
//! result depends on the budget, on threads or on where blocks are cut.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use hashbrown::{HashMap, HashSet};

use super::ReadOptions;
use super::spill::{Place, Spill};
use crate::columns::RecordOptions;
use crate::columns::chunk::Segment;
use crate::columns::intern::Interner;
use crate::columns::quarantine::QuarantineRow;
use crate::columns::tally::{Tallies, Tally};
use crate::columns::writer::{BlockWriter, RawChunk};
use crate::error::{Error, Result};
use crate::importers::extent::{Extent, Note};
use crate::importers::items::{Claim, ItemColumns, ItemRow, NO_CONTEXT, Owners, Piece, Shared};
use crate::importers::mapping::Totals;
use crate::importers::run_result::RunResult;
use crate::importers::{IMPORTERS, SpreadImporter};
use crate::run::Run;
use crate::schema::{Dict, RecordStatus};

mod copies;
mod extents;
mod results;
mod rivals;
mod spread;
mod unused;

use copies::{FileSum, copies};
use results::results_of;
use rivals::Rival;
use spread::{Scratch, Spread};
use unused::HeldBack;

/// Items of one block of one input.
#[derive(Debug)]
pub(super) struct ItemBlock {
    pub source: usize,
    pub index: u64,
    /// Whether lines are counted from the start of the input rather than of the block.
    pub absolute_lines: bool,
    pub lines: u64,
    pub records: u64,
    pub columns: ItemColumns,
    pub quarantine: Vec<QuarantineRow>,
    /// Entries of an archive that are not read; the block has nothing else then.
    pub skipped: Option<Tally>,
}

impl ItemBlock {
    pub(super) fn new(source: usize, index: u64, absolute_lines: bool) -> Self {
        Self {
            source,
            index,
            absolute_lines,
            lines: 0,
            records: 0,
            columns: ItemColumns::default(),
            quarantine: Vec::new(),
            skipped: None,
        }
    }
}

/// A block that was collected: its text may lie in a file.
struct Collected {
    /// Without its piece if that was spilled.
    block: ItemBlock,
    importer: &'static dyn SpreadImporter,
    /// The input by its name; of an archive, the entry.
    path: Arc<str>,
    /// Bytes of the items of each key.
    bytes: Vec<u64>,
    /// What its records say together.
    sum: FileSum,
    spilled: Option<Place>,
}

/// Items while they are collected.
#[derive(Default)]
pub(super) struct Collecting {
    blocks: Vec<Collected>,
    held: usize,
    spill: Option<Spill>,
}

/// How much may be held, and where to put what is more.
#[derive(Debug, Clone)]
pub(super) struct Budget {
    pub bytes: usize,
    pub folder: Option<PathBuf>,
}

impl Collecting {
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Inputs that blocks are of.
    pub(super) fn sources(&self) -> impl Iterator<Item = usize> {
        self.blocks.iter().map(|collected| collected.block.source)
    }

    /// Takes a block; writes its text away if that is more than the budget has room for.
    pub(super) fn put(
        &mut self,
        mut block: ItemBlock,
        importer: &'static dyn SpreadImporter,
        path: Arc<str>,
        budget: &Budget,
    ) -> Result<()> {
        let nbytes = block.columns.piece.nbytes();
        let bytes = bytes_by_key(&block.columns);
        let sum = FileSum::of(&block, &path);
        let spilled = if self.held + nbytes > budget.bytes && nbytes > 0 {
            let spill = match &mut self.spill {
                Some(spill) => spill,
                None => self.spill.insert(Spill::new(budget.folder.as_deref())?),
            };
            let piece = std::mem::take(&mut block.columns.piece);
            Some(spill.write(&piece)?)
        } else {
            self.held += nbytes;
            None
        };
        self.blocks.push(Collected { block, importer, path, bytes, sum, spilled });
        Ok(())
    }
}

/// Bytes of the items of each key, contexts counted wherever the next item has another one.
fn bytes_by_key(columns: &ItemColumns) -> Vec<u64> {
    let mut bytes = vec![0; columns.keys.len()];
    let mut last = vec![NO_CONTEXT; columns.keys.len()];
    for row in columns.piece.rows.iter().filter(|row| !row.lost) {
        let key = row.trace as usize;
        bytes[key] += (row.end - row.start + size_of::<ItemRow>()) as u64;
        if last[key] != row.context {
            last[key] = row.context;
            bytes[key] += columns.piece.context(row).len() as u64;
        }
    }
    bytes
}

/// What is known of a trace before it is made.
#[derive(Debug, Clone, Copy)]
struct Planned {
    importer: u32,
    partial: bool,
    /// Bytes of its items, contexts included; none if all were rejected.
    bytes: u64,
    /// Its key, by number: its own, or the least of those that are gathered together.
    key: u32,
}

/// Consecutive traces of which the items are held at the same time.
#[derive(Debug)]
struct Bucket {
    first: u32,
    pieces: Vec<Piece>,
    /// What of it lies in the temporary file, in order.
    spilled: Vec<Place>,
}

/// The items of a bucket, by trace.
#[derive(Debug)]
struct Ordered {
    bucket: Bucket,
    /// Piece and row of each item.
    items: Vec<(u32, u32)>,
    /// Begin of each trace in `items`, and the end.
    starts: Vec<usize>,
    /// The trace to be made next, from the first of the bucket.
    next: usize,
}

/// Items by trace, to be made into tables.
pub(super) struct Gathered {
    planned: Vec<Planned>,
    importers: Vec<&'static dyn SpreadImporter>,
    /// Importer and key of each trace.
    keys: Interner,
    /// Traces that responses of several traces count in.
    owners: Owners,
    /// What became of runs, by trace, and the traces whose run another one records better, also by that one.
    results: HashMap<u32, RunResult>,
    /// What is odd about sources, by the trace that it is written with.
    notes: HashMap<u32, Vec<Note>>,
    set_aside: HashSet<u32>,
    rivals: HashMap<u32, Vec<Rival>>,
    /// What rows call their source: inputs, or entries of archives, with the input that they are of.
    sources: Vec<(Arc<str>, usize)>,
    /// Of each of these whether it is a copy of another one, and its place in the order of names.
    copies: Vec<bool>,
    places: Vec<u32>,
    /// The keys of traces that several are gathered into.
    joined: HashMap<u32, Vec<u32>>,
    buckets: VecDeque<Bucket>,
    open: Option<Ordered>,
    spill: Option<Spill>,
    tallies: Tallies,
    /// By source.
    quarantine: BTreeMap<u32, Vec<QuarantineRow>>,
    /// Entries of archives that are not read, by source.
    skipped: Vec<(u32, Tally)>,
    /// Chunks made, and traces looked at, of which the first ones are made again only for what they count.
    chunks: u64,
    looked_at: u64,
    skip: u64,
    /// What the mapping found, and the traces that wait until that is known.
    totals: Totals,
    held_back: HeldBack,
}

/// What a group of traces became.
struct GroupOutput {
    chunk: Option<RawChunk>,
    tallies: Tallies,
    quarantine: Vec<(u32, QuarantineRow)>,
    totals: Totals,
}

impl Collecting {
    /// Numbers the traces in order of first appearance and cuts them into buckets of at most a quarter of the
    /// budget each.
    pub(super) fn arrange(self, skip: u64, budget: &Budget, run: &Run) -> Result<Gathered> {
        let Self { mut blocks, spill, .. } = self;
        blocks.sort_by_key(|c| (c.block.source, c.block.index));
        let mut out = Gathered {
            planned: Vec::new(),
            importers: Vec::new(),
            keys: Interner::default(),
            owners: Owners::default(),
            results: HashMap::new(),
            notes: HashMap::new(),
            set_aside: HashSet::new(),
            rivals: HashMap::new(),
            sources: Vec::new(),
            copies: Vec::new(),
            places: Vec::new(),
            joined: HashMap::new(),
            buckets: VecDeque::new(),
            open: None,
            spill: None,
            tallies: Tallies::default(),
            quarantine: BTreeMap::new(),
            skipped: Vec::new(),
            chunks: 0,
            looked_at: 0,
            skip,
            totals: Totals::default(),
            held_back: HeldBack::default(),
        };
        let maps = out.number(&mut blocks, spill.as_ref(), run)?;
        out.held_back = HeldBack::new(&out);
        let pieces = blocks.iter_mut().zip(maps);
        let Some(spill) = spill else {
            let pieces = pieces.map(|(collected, map)| {
                let mut piece = std::mem::take(&mut collected.block.columns.piece);
                map.apply(&mut piece);
                piece
            });
            out.buckets.push_back(Bucket { first: 0, pieces: pieces.collect(), spilled: Vec::new() });
            return Ok(out);
        };
        let starts = out.cut(budget.bytes as u64 / 4);
        let mut sorted = Spill::new(budget.folder.as_deref())?;
        let mut pending: Vec<Piece> = starts.iter().map(|_| Piece::default()).collect();
        let mut places: Vec<Vec<Place>> = starts.iter().map(|_| Vec::new()).collect();
        let mut held = 0;
        // The context that each bucket's last item has in the piece that is dealt out.
        let mut beside: Vec<Option<u32>> = vec![None; starts.len()];
        let flush = |pending: &mut Vec<Piece>, places: &mut Vec<Vec<Place>>, sorted: &mut Spill| {
            for (piece, places) in pending.iter_mut().zip(places) {
                if !piece.rows.is_empty() {
                    places.push(sorted.write(piece)?);
                    *piece = Piece::default();
                }
            }
            Ok::<(), Error>(())
        };
        for (collected, map) in pieces {
            run.check()?;
            let mut piece = match collected.spilled {
                Some(place) => spill.read(place)?,
                None => std::mem::take(&mut collected.block.columns.piece),
            };
            map.apply(&mut piece);
            beside.fill(None);
            for row in &piece.rows {
                let bucket = starts.partition_point(|first| *first <= row.trace) - 1;
                let (text, context) = (piece.text(row), piece.context(row));
                held += text.len() + size_of::<ItemRow>();
                let shared = if beside[bucket].replace(row.context) == Some(row.context) {
                    Shared::AsBefore
                } else {
                    held += context.len();
                    Shared::Text(context)
                };
                pending[bucket].push(*row, text, shared);
                if held > budget.bytes / 2 {
                    flush(&mut pending, &mut places, &mut sorted)?;
                    beside.fill(None);
                    held = 0;
                }
            }
        }
        flush(&mut pending, &mut places, &mut sorted)?;
        out.buckets = starts
            .into_iter()
            .zip(places)
            .map(|(first, spilled)| Bucket { first, pieces: Vec::new(), spilled })
            .collect();
        out.spill = Some(sorted);
        Ok(out)
    }
}

/// What the codes of a block mean in the whole.
struct Codes {
    traces: Vec<u32>,
    /// The traces that items would be of if no other recording of the same run were used.
    own_traces: Vec<u32>,
    source: u32,
    /// Records and lines before the block.
    records: u64,
    lines: u64,
}

impl Codes {
    fn apply(self, piece: &mut Piece) {
        for row in &mut piece.rows {
            row.own = self.own_traces[row.trace as usize];
            row.trace = self.traces[row.trace as usize];
            row.source = self.source;
            row.record += self.records;
            row.position.line += self.lines;
        }
    }
}

/// Whether a kind is the name of its importer, or of another one, a dot and a word, so that it alone says where it comes
/// from: the command `codes` explains it by that.
fn has_named_kind(tally: &Tally) -> bool {
    let Some(kind) = &tally.kind else { return true };
    let is_importer =
        |name: &str| name == tally.importer || IMPORTERS.iter().any(|importer| importer.info().name == name);
    kind.split_once('.').is_some_and(|(name, word)| is_importer(name) && !word.is_empty())
}

/// The place of each source in the order of their names.
fn places(sources: &[(Arc<str>, usize)]) -> Vec<u32> {
    let mut order: Vec<usize> = (0..sources.len()).collect();
    order.sort_by_key(|at| &sources[*at]);
    let mut places = vec![0; order.len()];
    (0..).zip(order).for_each(|(place, at)| places[at] = place);
    places
}

/// The first of the traces that one is gathered together with.
fn top(first: &mut [u32], number: u32) -> u32 {
    let mut at = number;
    while first[at as usize] != at {
        // Halves the way for the next who asks.
        first[at as usize] = first[first[at as usize] as usize];
        at = first[at as usize];
    }
    at
}

impl Gathered {
    /// Gives traces their numbers, and takes what blocks have beside items.
    fn number(&mut self, blocks: &mut [Collected], spill: Option<&Spill>, run: &Run) -> Result<Vec<Codes>> {
        let (mut input, mut lines, mut records) = (usize::MAX, 0, 0);
        let mut key = String::new();
        let mut maps = Vec::with_capacity(blocks.len());
        // Of each trace the first one, as far as it is known, that it is gathered together with.
        let mut first: Vec<u32> = Vec::new();
        let mut claims: Vec<Vec<Claim>> = Vec::with_capacity(blocks.len());
        let mut extents: Vec<(u32, Extent)> = Vec::new();
        let (results, jobs) = results_of(blocks);
        self.copies = copies(blocks, spill, &results, run)?;
        for collected in blocks.iter_mut() {
            let Collected { block, importer, path, bytes, .. } = collected;
            if block.source != input {
                (input, lines) = (block.source, 0);
            }
            let before = if block.absolute_lines { 0 } else { lines };
            lines += block.lines;
            if self.sources.last().is_none_or(|(last, of)| (last, *of) != (path, input)) {
                self.sources.push((Arc::clone(path), input));
            }
            let name = importer.info().name;
            let position = self.importers.iter().position(|i| i.info().name == name);
            let importer = position.unwrap_or_else(|| {
                self.importers.push(*importer);
                self.importers.len() - 1
            }) as u32;
            let is_copy = self.copies[self.sources.len() - 1];
            let mut traces = Vec::with_capacity(block.columns.keys.len());
            for (local, bytes) in block.columns.keys.names().zip(bytes) {
                key.clear();
                key.push_str(name);
                key.push('\0');
                key.push_str(local);
                let number = self.keys.code(&key);
                if number as usize == self.planned.len() {
                    self.planned.push(Planned { importer, partial: false, bytes: 0, key: number });
                    first.push(number);
                }
                self.planned[number as usize].bytes += if is_copy { 0 } else { *bytes };
                traces.push(number);
            }
            for (one, other) in &block.columns.together {
                let [one, other] = [one, other].map(|local| top(&mut first, traces[*local as usize]));
                first[one.max(other) as usize] = one.min(other);
            }
            self.totals.add(&mut block.columns.counts);
            for local in &block.columns.partial {
                self.planned[traces[*local as usize] as usize].partial = true;
            }
            let mut kinds = vec![0; block.columns.kinds.len()];
            for kind in &block.columns.ignored {
                kinds[*kind as usize] += 1;
            }
            for (kind, n) in block.columns.kinds.names().zip(kinds) {
                self.tallies.ignored(input, name, kind, n);
            }
            self.tallies.add(input, name, RecordStatus::Quarantined, block.quarantine.len() as u64);
            let source = self.sources.len() as u32 - 1;
            self.skipped.extend(block.skipped.take().map(|tally| (source, tally)));
            for mut row in block.quarantine.drain(..) {
                row.position.line += before;
                self.quarantine.entry(source).or_default().push(row);
            }
            claims.push(std::mem::take(&mut block.columns.claims));
            // A copy of a file adds nothing to what its source holds.
            let of_original = block.columns.extents.drain(..).filter(|_| !is_copy);
            extents.extend(
                of_original.map(|extent| (source, Extent { trace: traces[extent.trace as usize], ..extent })),
            );
            maps.push(Codes { traces, own_traces: Vec::new(), source, records, lines: before });
            records += block.records;
        }
        self.places = places(&self.sources);
        let first = self.join(first, &mut maps);
        let originals = blocks.iter().zip(&maps).filter(|(_, map)| !self.copies[map.source as usize]);
        let in_folders = self.in_folders(&results, originals.map(|(collected, map)| (&*collected.path, map)));
        (self.set_aside, self.rivals) = self.choose(&first, &in_folders);
        self.settle_results(&results, in_folders);
        self.settle_jobs(&jobs, &results);
        let joined = |extent: Extent| Extent { trace: first[extent.trace as usize], ..extent };
        self.settle_extents(extents.into_iter().map(|(file, extent)| (file, joined(extent))));
        // A copy of a file has no trace that a response could count in.
        let claims = claims.iter().zip(&maps).filter(|(_, map)| !self.copies[map.source as usize]);
        let claims = claims.flat_map(|(claims, map)| {
            claims.iter().map(|claim| Claim { trace: map.traces[claim.trace as usize], ..*claim })
        });
        let claims = claims.filter(|claim| !self.set_aside.contains(&claim.trace));
        self.owners = Owners::of(claims, |number| self.key(self.planned[number as usize].key));
        self.gather_rivals(&mut maps);
        Ok(maps)
    }

    /// Gives what is gathered together to the first of the traces.
    fn join(&mut self, mut first: Vec<u32>, maps: &mut [Codes]) -> Vec<u32> {
        for number in 0..first.len() as u32 {
            let at = top(&mut first, number) as usize;
            first[number as usize] = at as u32;
            if at != number as usize {
                self.joined.entry(at as u32).or_insert_with(|| vec![at as u32]).push(number);
                let planned = self.planned[number as usize];
                self.planned[number as usize] = Planned { partial: false, bytes: 0, ..planned };
                self.planned[at].partial |= planned.partial;
                self.planned[at].bytes += planned.bytes;
                if self.keys.name(number) < self.keys.name(self.planned[at].key) {
                    self.planned[at].key = number;
                }
            }
        }
        for number in maps.iter_mut().flat_map(|map| &mut map.traces) {
            *number = first[*number as usize];
        }
        first
    }

    /// First traces of buckets that hold at most so many bytes, or one trace.
    fn cut(&self, most: u64) -> Vec<u32> {
        let mut starts = vec![0];
        let mut held = 0;
        for (number, trace) in self.planned.iter().enumerate() {
            if held > 0 && held + trace.bytes > most {
                starts.push(number as u32);
                held = 0;
            }
            held += trace.bytes;
        }
        starts
    }

    /// Traces that were looked at so far and are handed on: where a later reading of the same inputs goes on.
    pub(super) fn position(&self) -> u64 {
        self.held_back.first().unwrap_or(self.looked_at)
    }

    pub(super) fn is_done(&self) -> bool {
        self.looked_at == self.planned.len() as u64
    }

    /// Ids of the source that lead to a trace beside its own.
    fn other_ids(&self, number: u32, trace_id: &str) -> BTreeSet<&str> {
        let keys = self.joined.get(&number).into_iter().flatten();
        let id = |key: &u32| {
            let importer = self.importers[self.planned[*key as usize].importer as usize];
            importer.session(self.key(*key)).map(|(id, _)| id)
        };
        keys.filter_map(id).filter(|id| *id != trace_id && !id.contains("team:")).collect()
    }

    /// Key of a trace.
    fn key(&self, number: u32) -> &str {
        let name = self.keys.name(number);
        name.split_once('\0').map_or(name, |(_, key)| key)
    }

    /// The next traces, as chunks of the source `source` with so many bytes of tables or a little more.
    pub(super) fn next(
        &mut self,
        limit: usize,
        source: usize,
        options: &ReadOptions,
        run: &Run,
    ) -> Result<Vec<RawChunk>> {
        let mut options = options.clone();
        options.records.limits.lenient = true;
        let mut out: Vec<RawChunk> = Vec::new();
        let (mut held, mut counted) = (0, 0);
        let idle = Mutex::new(Vec::new());
        while held < limit && !self.is_done() {
            run.check()?;
            let mut ordered = match self.open.take() {
                Some(ordered) => ordered,
                None => match self.buckets.pop_front() {
                    Some(bucket) => self.order(bucket)?,
                    None => break,
                },
            };
            let threads = run.pool().current_num_threads() as u64;
            let block = options.block_size as u64;
            // At least two blocks of text for each thread. Tables seldom take more room than the text that they are of.
            let most = (2 * threads * block).max((limit - held) as u64 / 4);
            let groups = self.groups(&mut ordered, block, threads, most);
            let outputs = self.make_groups(&ordered, &groups, source, &options, &idle, run)?;
            for (output, group) in outputs.into_iter().zip(groups) {
                let begin = self.looked_at;
                self.looked_at += group.len() as u64;
                self.totals.merge(output.totals);
                self.tallies.merge(output.tallies);
                for (source, row) in output.quarantine {
                    self.quarantine.entry(source).or_default().push(row);
                }
                if let Some(mut chunk) = output.chunk {
                    chunk.segments.iter_mut().for_each(|segment| segment.index = self.chunks);
                    self.chunks += 1;
                    self.held_back.put(begin, chunk, limit, &mut out);
                }
                let unused = || options.mapping.and_then(|mapping| mapping.unused(&self.totals));
                self.held_back.settle(self.looked_at, unused, &mut out);
            }
            held += out[counted..].iter().map(RawChunk::nbytes).sum::<usize>();
            counted = out.len();
            if ordered.next + 1 < ordered.starts.len() {
                self.open = Some(ordered);
            }
        }
        Ok(out)
    }

    /// What is known of inputs at the end: a chunk of no traces, with what was rejected and the counts.
    pub(super) fn counts(&mut self, options: &ReadOptions) -> Result<RawChunk> {
        let mut writer = BlockWriter::new(&RecordOptions::default());
        let mut segments = Vec::new();
        for (source, rows) in std::mem::take(&mut self.quarantine) {
            let (path, input) = &self.sources[source as usize];
            let (entry, quarantined) = (Some(path.as_ref().into()), rows.len());
            segments.push(Segment { entry, quarantined, ..Segment::of_counts(*input, Vec::new()) });
            writer.quarantine.extend(rows);
        }
        for (source, tally) in std::mem::take(&mut self.skipped) {
            let (path, input) = &self.sources[source as usize];
            let entry = Some(path.as_ref().into());
            segments.push(Segment { entry, ..Segment::of_counts(*input, vec![tally]) });
        }
        let counts = self.tallies.take();
        debug_assert!(counts.values().flatten().all(has_named_kind), "{counts:?}");
        segments.extend(counts.into_iter().map(|(source, tallies)| Segment::of_counts(source, tallies)));
        let mapping = options.mapping.map(|mapping| Arc::new(mapping.counted(&self.totals)));
        Ok(RawChunk { mapping, ..writer.finish(segments)? })
    }

    /// Brings a bucket into memory and its items into the order of traces.
    fn order(&self, mut bucket: Bucket) -> Result<Ordered> {
        if let Some(spill) = &self.spill {
            let pieces = bucket.spilled.drain(..).map(|place| spill.read(place));
            bucket.pieces = pieces.collect::<Result<_>>()?;
        }
        let end = self.buckets.front().map_or(self.planned.len(), |next| next.first as usize);
        let mut starts = vec![0; end - bucket.first as usize + 1];
        let rows = || {
            bucket
                .pieces
                .iter()
                .zip(0_u32..)
                .flat_map(|(p, i)| p.rows.iter().zip(0_u32..).map(move |r| (i, r)))
        };
        for (_, (row, _)) in rows() {
            starts[(row.trace - bucket.first) as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut items = vec![(0, 0); starts[starts.len() - 1]];
        let mut next = starts.clone();
        for (piece, (row, at)) in rows() {
            let slot = &mut next[(row.trace - bucket.first) as usize];
            items[*slot] = (piece, at);
            *slot += 1;
        }
        Ok(Ordered { bucket, items, starts, next: 0 })
    }

    /// The next groups of traces of a bucket, up to the one with which they have `most` bytes of text. Each group is a share of what is left, so
    /// that the last ones are small and no thread waits long for another (guided self-scheduling, Polychronopoulos and
    /// Kuck 1987).
    fn groups(&self, ordered: &mut Ordered, block: u64, threads: u64, most: u64) -> Vec<Range<usize>> {
        let traces = ordered.starts.len() - 1;
        let first = ordered.bucket.first as usize;
        let mut left = 0;
        for planned in self.planned[first..].iter().take(traces).skip(ordered.next) {
            left += planned.bytes.max(1);
            if left >= most {
                break;
            }
        }
        let mut groups = Vec::new();
        while left > 0 && ordered.next < traces {
            let start = ordered.next;
            let size = (left / (2 * threads)).clamp(block / 8, 2 * block);
            let mut held = 0;
            while ordered.next < traces {
                let bytes = self.planned[first + ordered.next].bytes;
                if held > 0 && held + bytes > size {
                    break;
                }
                held += bytes;
                ordered.next += 1;
            }
            // A trace without items takes no room, but is looked at.
            left = left.saturating_sub(held.max(1));
            groups.push(start..ordered.next);
        }
        groups
    }

    /// Makes the tables of groups of traces, each by the next thread that is free.
    fn make_groups(
        &self,
        ordered: &Ordered,
        groups: &[Range<usize>],
        source: usize,
        options: &ReadOptions,
        idle: &Mutex<Vec<BlockWriter>>,
        run: &Run,
    ) -> Result<Vec<GroupOutput>> {
        let locked = || idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut outputs: Vec<Option<GroupOutput>> = groups.iter().map(|_| None).collect();
        run.share(groups.iter().zip(&mut outputs).collect(), |(group, slot)| {
            run.check()?;
            let writer = locked().pop();
            let mut writer = writer.unwrap_or_else(|| BlockWriter::new(&options.records));
            *slot = Some(self.make(ordered, group.clone(), source, options, &mut writer)?);
            locked().push(writer);
            Ok(())
        })?;
        Ok(outputs.into_iter().flatten().collect())
    }

    /// Makes the tables of some traces of a bucket.
    fn make(
        &self,
        ordered: &Ordered,
        group: Range<usize>,
        source: usize,
        options: &ReadOptions,
        writer: &mut BlockWriter,
    ) -> Result<GroupOutput> {
        let mut output = GroupOutput {
            chunk: None,
            tallies: Tallies::default(),
            quarantine: Vec::new(),
            totals: Totals::default(),
        };
        let (mut files, mut names) = (Vec::new(), Vec::new());
        let mut scratch = Scratch::default();
        for local in group {
            let number = ordered.bucket.first + local as u32;
            let rows = &ordered.items[ordered.starts[local]..ordered.starts[local + 1]];
            let is_lost =
                |(piece, row): &(u32, u32)| ordered.bucket.pieces[*piece as usize].rows[*row as usize].lost;
            if rows.iter().all(is_lost) {
                continue;
            }
            let trace = Spread { gathered: self, ordered, rows, number, place: number };
            names.clear();
            trace.make(options, writer, &mut scratch, &mut output, &mut names);
            files.extend(names.iter().map(|file| writer.dicts[Dict::File as usize].code(file)));
        }
        output.totals.add(&mut scratch.counts);
        if !writer.facts.is_empty() || !writer.labels.is_empty() {
            // Its records are counted where they lie.
            let segment = Segment { traces: writer.facts.len(), ..Segment::of_counts(source, Vec::new()) };
            output.chunk = Some(RawChunk { files: Some(files), ..writer.finish(vec![segment])? });
        }
        Ok(output)
    }
}

#[cfg(test)]
mod tests;
