//! Items of formats that spread traces over records and files: cut from records by the importer, returned to it by
//! trace.

mod claims;

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

use memchr::memchr_iter;
use xxhash_rust::xxh3::xxh3_64;

pub(crate) use claims::{Claim, Owners, request_identity};

use super::Record;
use super::TraceBy;
use super::extent::{Counted, Extent};
use super::hex::spell;
use super::mapping::Counts;
use super::recording::{Beside, Stated};
use super::run_result::RunResult;
use crate::columns::intern::Interner;
use crate::columns::quarantine::Position;
use crate::error::Reject;
use crate::json::Limits;
use crate::json::identity::identity;
use crate::json::tree::{Tree, Value};

/// Items of one block while they grow: text in one buffer, everything else by place in it.
#[derive(Debug, Default)]
pub(crate) struct ItemColumns {
    pub piece: Piece,
    /// Keys of traces, by code of the block.
    pub keys: Interner,
    /// Kinds of what means nothing, and the kind of each such part of a record.
    pub kinds: Interner,
    pub ignored: Vec<u32>,
    /// Items that were rejected: where, why, how they begin.
    pub rejected: Vec<(Position, Reject, String)>,
    /// Traces that lack an item which was rejected.
    pub partial: Vec<u32>,
    /// Keys that are gathered together.
    pub together: Vec<(u32, u32)>,
    /// Responses that traces have.
    pub claims: Vec<Claim>,
    /// What became of runs.
    pub results: Vec<RunResult>,
    /// How much sources say that they hold.
    pub extents: Vec<Extent>,
    /// How often a mapping found what it looked for.
    pub counts: Counts,
    /// What the next item of the record does without.
    left_out: LeftOut,
}

/// Places in a record that an item does without.
#[derive(Debug, Default)]
pub(crate) struct LeftOut(Vec<Part>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    from: usize,
    to: usize,
    /// Whether a hash stands in its place.
    hashed: bool,
}

impl LeftOut {
    /// A value that is read by nobody: what a model was given is most of many recordings. A hash of it stands in its
    /// place, so that it still distinguishes items; short ones stay.
    pub(crate) fn hash(&mut self, (from, to): (usize, usize)) {
        if to - from > LEAST_LEFT_OUT {
            self.0.push(Part { from, to, hashed: true });
        }
    }

    /// Members of an object, with the comma behind each, that do not distinguish items: nothing stands in their place.
    pub(crate) fn drop(&mut self, (from, to): (usize, usize)) {
        self.0.push(Part { from, to, hashed: false });
    }

    /// How many places there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// The places behind the first ones.
    pub(crate) fn since(&self, len: usize) -> impl Iterator<Item = (usize, usize)> {
        self.0.iter().skip(len).map(|part| (part.from, part.to))
    }

    /// Leaves nothing out after all.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Drops nothing after all; what is hashed stays so.
    pub(crate) fn hash_only(&mut self) {
        self.0.retain(|part| part.hashed);
    }
}

/// Items with their texts.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Texts of items and contexts.
    pub text: String,
    /// Places of contexts in `text`.
    pub contexts: Vec<(usize, usize)>,
    pub rows: Vec<ItemRow>,
}

/// One item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ItemRow {
    /// Its trace: a code of the block first, its number in the end.
    pub trace: u32,
    /// The trace that it would be of if no other recording of the same run were used.
    pub own: u32,
    /// Its input, once that is settled.
    pub source: u32,
    /// Its record: counted in the block first, over all in the end.
    pub record: u64,
    /// Place in the text.
    pub start: usize,
    pub end: usize,
    /// Place in the contexts; none is [`NO_CONTEXT`].
    pub context: u32,
    /// Where it lies in its input.
    pub position: Position,
    /// Whether bytes of its record were replaced to make it UTF-8.
    pub replaced: bool,
    /// Whether it is no item, but stands where the trace lacks one.
    pub lost: bool,
    /// Hash of its text.
    pub hash: u64,
}

pub(crate) const NO_CONTEXT: u32 = u32::MAX;

/// What an item shares with others.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Shared<'a> {
    /// This text, which the item before it may have too.
    Text(&'a str),
    /// What the item before it has: a text that is long is not compared for every item.
    AsBefore,
}

impl Piece {
    /// Appends an item; its place in the text and its context are set.
    pub(crate) fn push(&mut self, row: ItemRow, text: &str, shared: Shared<'_>) {
        let (context, start) = self.share(shared);
        self.text.push_str(text);
        self.rows.push(ItemRow { start, end: self.text.len(), context, ..row });
    }

    /// Context of the next item, and where its text begins.
    fn share(&mut self, shared: Shared<'_>) -> (u32, usize) {
        let context = match shared {
            Shared::Text("") => NO_CONTEXT,
            Shared::AsBefore => self.rows.last().map_or(NO_CONTEXT, |before| before.context),
            Shared::Text(context) => {
                if self.contexts.last().is_none_or(|(from, to)| self.text[*from..*to] != *context) {
                    let start = self.text.len();
                    self.text.push_str(context);
                    self.contexts.push((start, self.text.len()));
                }
                self.contexts.len() as u32 - 1
            }
        };
        (context, self.text.len())
    }

    /// Text of an item.
    pub(crate) fn text(&self, row: &ItemRow) -> &str {
        &self.text[row.start..row.end]
    }

    /// Context of an item.
    pub(crate) fn context(&self, row: &ItemRow) -> &str {
        self.contexts.get(row.context as usize).map_or("", |(from, to)| &self.text[*from..*to])
    }

    /// Bytes held.
    pub(crate) fn nbytes(&self) -> usize {
        self.text.capacity() + size_of::<ItemRow>() * self.rows.capacity() + 16 * self.contexts.capacity()
    }
}

/// How far a block's columns had grown before a record.
#[derive(Debug)]
struct Mark {
    text: usize,
    keys: usize,
    contexts: usize,
    rows: usize,
    kinds: usize,
    ignored: usize,
    rejected: usize,
    partial: usize,
    together: usize,
    claims: usize,
    results: usize,
    extents: usize,
}

/// The sink into which [`SpreadImporter::items`](super::SpreadImporter::items) puts the items of a record. Every part
/// of the record that the format counts is put once: as an item, as ignored, or as rejected.
#[derive(Debug)]
pub struct Items<'w> {
    columns: &'w mut ItemColumns,
    limits: Limits,
    record: &'w Record<'w>,
    position: Position,
    /// Number of the record in its block.
    number: u64,
    mark: Mark,
    /// Line ends of the record, once somebody asked for them.
    line_ends: Option<Vec<usize>>,
    by: TraceBy,
}

impl<'w> Items<'w> {
    pub(crate) fn new(
        columns: &'w mut ItemColumns,
        limits: Limits,
        record: &'w Record<'w>,
        position: Position,
        number: u64,
    ) -> Self {
        let mark = Mark {
            text: columns.piece.text.len(),
            keys: columns.keys.len(),
            contexts: columns.piece.contexts.len(),
            rows: columns.piece.rows.len(),
            kinds: columns.kinds.len(),
            ignored: columns.ignored.len(),
            rejected: columns.rejected.len(),
            partial: columns.partial.len(),
            together: columns.together.len(),
            claims: columns.claims.len(),
            results: columns.results.len(),
            extents: columns.extents.len(),
        };
        columns.left_out.0.clear();
        Self { columns, limits, record, position, number, mark, line_ends: None, by: TraceBy::Trace }
    }

    /// What becomes one trace.
    pub(crate) fn by(self, by: TraceBy) -> Self {
        Self { by, ..self }
    }

    /// Limits that the text of records is parsed with.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// First byte of the record, in its decompressed input.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.position.offset
    }

    /// Cuts a record that is JSON by `cut`. One that is broken is cut up to where it breaks, which identifies the
    /// traces that lack it, and rejected.
    pub fn cut(
        &mut self,
        text: &str,
        cut: impl Fn(Value<'_>, &mut Self) -> Result<(), Reject>,
    ) -> Result<(), Reject> {
        let broken = match Tree::parse(text, self.limits) {
            Ok(tree) => return cut(tree.root(), self),
            Err(fault) => fault,
        };
        // Whatever it says about the rest: the record is rejected for where it breaks.
        let _answer = cut(Tree::head(text, self.limits).root(), self);
        Err(broken.into_reject())
    }

    /// Line of the record in its input, from 1.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.position.line
    }

    /// Puts an item of the trace `key`. `text` is a slice of the record; `context` is what many items share, the
    /// same text for those that follow each other, or empty.
    pub fn item(&mut self, key: &str, text: &str, context: &str) {
        self.put(key, text, Shared::Text(context));
    }

    /// The key of a trace that no record names, which is distinguished by `key` within its file. The same in another file
    /// is another trace, unless that whole file is a copy.
    #[must_use]
    pub fn in_file(&self, key: &str) -> String {
        [key, IN_FILE, self.record.path].concat()
    }

    /// Puts an item that shares what the item before it shares, of the same record.
    pub fn item_beside(&mut self, key: &str, text: &str) {
        self.put(key, text, Shared::AsBefore);
    }

    fn put(&mut self, key: &str, text: &str, shared: Shared<'_>) {
        let position = self.place(text);
        let row = ItemRow {
            trace: self.columns.keys.code(key),
            own: 0,
            source: 0,
            record: self.number,
            start: 0,
            end: 0,
            context: NO_CONTEXT,
            position,
            replaced: self.record.replaced,
            lost: false,
            hash: 0,
        };
        let (context, start) = self.columns.piece.share(shared);
        self.keep(text);
        let piece = &mut self.columns.piece;
        let hash = xxh3_64(&piece.text.as_bytes()[start..]);
        piece.rows.push(ItemRow { start, end: piece.text.len(), context, hash, ..row });
    }

    /// Says that a value of the next item is read by nobody ([`LeftOut::hash`]). A value is a slice of the record.
    pub fn leave_out(&mut self, value: &str) {
        let start = (value.as_ptr() as usize).wrapping_sub(self.record.text.as_ptr() as usize);
        self.columns.left_out.hash((start, start + value.len()));
    }

    /// A list for the places that the next item does without, empty: to be given back to [`Items::leave`].
    pub(crate) fn left_out(&mut self) -> LeftOut {
        self.columns.left_out.0.clear();
        std::mem::take(&mut self.columns.left_out)
    }

    /// Says what the next item does without.
    pub(crate) fn leave(&mut self, left_out: LeftOut) {
        self.columns.left_out = left_out;
    }

    /// What a mapping counted so far in this block: to be given back to [`Items::count`].
    pub(crate) fn counts(&mut self) -> Counts {
        std::mem::take(&mut self.columns.counts)
    }

    /// Gives back what a mapping counted; it stays whatever becomes of the record.
    pub(crate) fn count(&mut self, counts: Counts) {
        self.columns.counts = counts;
    }

    /// Appends the text of an item without what is left out of it.
    fn keep(&mut self, text: &str) {
        let ItemColumns { piece: Piece { text: kept, .. }, left_out: LeftOut(left_out), .. } = self.columns;
        let start = (text.as_ptr() as usize).wrapping_sub(self.record.text.as_ptr() as usize);
        left_out.sort_unstable();
        let mut at = 0;
        for Part { from, to, hashed } in left_out.drain(..) {
            let (from, to) = (from.wrapping_sub(start), to.wrapping_sub(start));
            // What is no slice of the item is not left out of it.
            if let (Some(before), Some(value)) = (text.get(at..from), text.get(from..to)) {
                kept.push_str(before);
                if hashed {
                    let mut digits = [b'"'; 18];
                    spell(&identity(value).to_be_bytes(), &mut digits[1..17]);
                    kept.push_str(std::str::from_utf8(&digits).unwrap_or_default());
                }
                at = to;
            }
        }
        kept.push_str(&text[at..]);
    }

    /// Counts something of the format that means nothing to traces, by a short dotted word such as
    /// `claude_code.summary`.
    pub fn ignored(&mut self, kind: &str) {
        let kind = self.columns.kinds.code(kind);
        self.columns.ignored.push(kind);
    }

    /// Rejects an item of which the trace is not known. `text` is its slice of the record.
    pub fn reject(&mut self, text: &str, reject: Reject) {
        let position = self.place(text);
        self.columns.rejected.push((position, reject, text.chars().take(SHOWN).collect()));
    }

    /// Rejects an item of the trace `key`, which goes on without it as partial.
    pub fn reject_in(&mut self, key: &str, text: &str, reject: Reject) {
        self.reject(text, reject);
        self.lacks(key);
    }

    /// Says that the trace `key` lacks what a broken record had of it, and goes on as partial.
    pub fn lacks(&mut self, key: &str) {
        let key = self.columns.keys.code(key);
        self.columns.partial.push(key);
        self.gap(key);
    }

    /// Keeps the place of what a trace lacks.
    fn gap(&mut self, trace: u32) {
        let piece = &mut self.columns.piece;
        let (end, context) =
            (piece.text.len(), piece.rows.last().map_or(NO_CONTEXT, |before| before.context));
        piece.rows.push(ItemRow {
            trace,
            own: 0,
            source: 0,
            record: self.number,
            start: end,
            end,
            context,
            position: self.position,
            replaced: false,
            lost: true,
            hash: 0,
        });
    }

    /// Says that what two keys have is gathered together, in this and in all other inputs, and so on with what is
    /// together with either. [`TraceItems::key`] is then the least of them.
    pub fn together(&mut self, key: &str, other: &str) {
        if key != other {
            let pair = (self.columns.keys.code(key), self.columns.keys.code(other));
            self.columns.together.push(pair);
        }
    }

    /// Says that the trace `key` has a response, which other traces may repeat: it counts in one of them
    /// ([`TraceItems::owner`]). It is known by its message and request, or by its request alone. `from` is the session that it says to repeat it from.
    pub(crate) fn claim(
        &mut self,
        key: &str,
        (response, request): (u64, u64),
        forked: bool,
        from: Option<&str>,
        time: i64,
    ) {
        let trace = self.columns.keys.code(key);
        let from = from.map_or(0, claims::session);
        let claim = Claim { response, request, trace, forked, time, session: claims::session(key), from };
        // Most responses are several records in a row.
        match self.columns.claims[self.mark.claims.saturating_sub(1)..].last_mut() {
            Some(last)
                if (last.response, last.request, last.trace, last.forked, last.from)
                    == (response, request, claim.trace, forked, from) => {}
            _ => self.columns.claims.push(claim),
        }
    }

    /// Says that the trace `key` is the session `session`, and which one it says to begin with a copy of: where records
    /// name no session, one of them says it for all claims of the trace.
    pub(crate) fn called(&mut self, key: &str, session: &str, from: Option<&str>) {
        let trace = self.columns.keys.code(key);
        self.columns.claims.push(Claim::of_session(trace, session, from));
    }

    /// Says what became of the run that is recorded in a folder.
    pub(crate) fn run_result(&mut self, result: RunResult) {
        self.columns.results.push(result);
    }

    /// Says how many things a part of a source holds, and how many of them the whole of the source has by what it
    /// states. `key` is a trace of the part; `source` and `part` say which ones they are.
    pub(crate) fn extent(
        &mut self,
        key: &str,
        counted: Counted,
        (source, stated): (u64, Option<i64>),
        (part, held): (u64, usize),
    ) {
        let trace = self.columns.keys.code(key);
        let held = u32::try_from(held).unwrap_or(u32::MAX);
        self.columns.extents.push(Extent { source, counted, stated, part, held, trace });
    }

    /// Whether it is asked which conversation a trace is part of.
    #[must_use]
    pub fn by_conversation(&self) -> bool {
        self.by == TraceBy::Conversation
    }

    /// Says which conversation a trace is part of: where the caller wants a trace for each conversation, they are
    /// gathered together under its id.
    pub fn conversation(&mut self, key: &str, id: &str) {
        if self.by_conversation() && !id.is_empty() {
            let outer = format!("{CONVERSATION}{OUTER}{id}");
            self.together(key, &outer);
            self.together(&outer, &format!("{CONVERSATION}{id}"));
        }
    }

    /// Says which conversation a part within a trace is part of: the trace goes there too, but has the name of the
    /// conversation around it, where that is known.
    pub fn conversation_within(&mut self, key: &str, id: &str) {
        if self.by_conversation() && !id.is_empty() {
            self.together(key, &format!("{CONVERSATION}{id}"));
        }
    }

    /// Where a slice of the record lies in the input; the record itself where it is no slice of it.
    fn place(&mut self, text: &str) -> Position {
        let record_text = self.record.text;
        let start = (text.as_ptr() as usize).wrapping_sub(record_text.as_ptr() as usize);
        if self.record.replaced || start > record_text.len() || text.len() > record_text.len() - start {
            return self.position;
        }
        if start == 0 {
            return Position { length: text.len() as u64, ..self.position };
        }
        let ends = self.line_ends.get_or_insert_with(|| memchr_iter(b'\n', record_text.as_bytes()).collect());
        let lines = ends.partition_point(|end| *end < start);
        Position {
            line: self.position.line + lines as u64,
            offset: self.position.offset + start as u64,
            length: text.len() as u64,
        }
    }

    /// Whether the record gave nothing that is counted.
    pub(crate) fn is_empty(&self) -> bool {
        let mark = &self.mark;
        self.columns.piece.rows[mark.rows..].iter().all(|row| row.lost)
            && self.columns.rejected.len() == mark.rejected
            && self.columns.ignored.len() == mark.ignored
    }

    /// Leaves nothing of the record, but that the traces that it was put for lack it.
    pub(crate) fn rollback(mut self) {
        let (columns, mark) = (&mut *self.columns, &self.mark);
        let put = columns.piece.rows[mark.rows..].iter().map(|row| row.trace);
        let codes: BTreeSet<u32> = put.chain(columns.partial[mark.partial..].iter().copied()).collect();
        let lacking: Vec<String> = codes.into_iter().map(|code| columns.keys.name(code).to_owned()).collect();
        columns.piece.text.truncate(mark.text);
        columns.piece.contexts.truncate(mark.contexts);
        columns.piece.rows.truncate(mark.rows);
        columns.keys.truncate(mark.keys);
        columns.kinds.truncate(mark.kinds);
        columns.ignored.truncate(mark.ignored);
        columns.rejected.truncate(mark.rejected);
        columns.partial.truncate(mark.partial);
        columns.together.truncate(mark.together);
        columns.claims.truncate(mark.claims);
        columns.results.truncate(mark.results);
        columns.extents.truncate(mark.extents);
        for key in lacking {
            self.lacks(&key);
        }
    }
}

/// What the key of a conversation begins with: less than any id, so that it is the key of the whole.
const CONVERSATION: &str = " conversation ";

/// What stands before the id of one that a whole trace is part of: less than the id of one within it.
const OUTER: char = '\u{1}';

/// What stands between a key that means something within its file and the path of that file.
const IN_FILE: &str = "\u{2}";

/// What a context begins with that says nothing but where its record lies.
pub(crate) const WHERE: char = ' ';

/// A key without the file that it means something in, and whether there is one.
pub(crate) fn key_in_file(key: &str) -> (&str, bool) {
    key.split_once(IN_FILE).map_or((key, false), |(key, _)| (key, true))
}

/// Bytes of a value that it is not worth to leave out.
const LEAST_LEFT_OUT: usize = 128;

/// Characters of a rejected item that an excerpt can show at most.
const SHOWN: usize = 4096;

/// One item of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceItem<'a> {
    /// Its text, as [`Items::item`] was given it.
    pub text: &'a str,
    /// What it shares with others; empty if nothing.
    pub context: &'a str,
    /// Name of its input as it was given; of an archive, with that of the entry.
    pub path: &'a str,
    /// Line of its input, from 1.
    pub line: u64,
    /// Whether the trace lacks what stood between this item and the one before it in its input: a record that was
    /// rejected.
    pub after_loss: bool,
    /// The same for all items of the trace that say the same, however other inputs spell that.
    pub identity: u64,
}

/// All items of one trace, in order of input, byte offset and place in the record.
#[derive(Debug)]
pub struct TraceItems<'a> {
    key: &'a str,
    items: &'a [TraceItem<'a>],
    partial: bool,
    limits: Limits,
    fates: RefCell<Fates>,
    part: usize,
    another: Cell<bool>,
    /// The items of each of the traces that these items make, where the importer says which they are.
    runs: RefCell<Option<Vec<Vec<u32>>>>,
    /// The item whose input is that of the trace.
    home: Cell<usize>,
    counts: RefCell<Counts>,
    owners: Option<&'a Owners>,
    result: Option<&'a RunResult>,
    beside: Option<&'a Beside>,
    /// What they state, where that alone is asked for.
    stated: Option<RefCell<Stated>>,
}

/// What became of items that are not used.
#[derive(Debug, Default)]
struct Fates {
    /// By item: 0 used, 1 duplicate, else the kind two places before; empty while all are used.
    of: Vec<u32>,
    kinds: Vec<Box<str>>,
}

/// What became of one item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ItemUse<'a> {
    Used,
    Duplicate,
    Ignored(&'a str),
}

impl<'a> TraceItems<'a> {
    pub(crate) fn new(key: &'a str, items: &'a [TraceItem<'a>], partial: bool, limits: Limits) -> Self {
        Self {
            key,
            items,
            partial,
            limits,
            fates: RefCell::default(),
            part: 0,
            another: Cell::new(false),
            runs: RefCell::default(),
            home: Cell::new(0),
            counts: RefCell::default(),
            owners: None,
            result: None,
            beside: None,
            stated: None,
        }
    }

    /// With the traces that responses count in which several have.
    pub(crate) fn owned_by(self, owners: &'a Owners) -> Self {
        Self { owners: Some(owners), ..self }
    }

    /// With what a file says of the run.
    pub(crate) fn ended_with(self, result: Option<&'a RunResult>) -> Self {
        Self { result, ..self }
    }

    /// With what other recordings of the run state, which are set aside.
    pub(crate) fn used_before(self, beside: Option<&'a Beside>) -> Self {
        Self { beside, ..self }
    }

    /// Asked for what they state of the run, and for no trace.
    pub(crate) fn stating(self) -> Self {
        Self { stated: Some(RefCell::default()), ..self }
    }

    /// What other recordings of the run state.
    pub(crate) fn beside(&self) -> Option<&'a Beside> {
        self.beside
    }

    /// Where to put what they state, if that is asked for.
    pub(crate) fn stated(&self) -> Option<&RefCell<Stated>> {
        self.stated.as_ref()
    }

    /// What a file beside the recording says of the run.
    pub(crate) fn run_result(&self) -> Option<&'a RunResult> {
        self.result
    }

    /// The key of the trace that a response counts in, if that is another one than this.
    pub(crate) fn owner(&self, response: u64) -> Option<&'a str> {
        self.owners.and_then(|owners| owners.owner(response)).filter(|key| *key != self.key)
    }

    /// The same of the response to a request.
    pub(crate) fn owner_by_request(&self, request: u64) -> Option<&'a str> {
        self.owners.and_then(|owners| owners.owner_by_request(request)).filter(|key| *key != self.key)
    }

    /// What a mapping counted so far: to be given back to [`TraceItems::count`].
    pub(crate) fn counts(&self) -> Counts {
        self.counts.take()
    }

    /// Gives back what a mapping counted.
    pub(crate) fn count(&self, counts: Counts) {
        self.counts.replace(counts);
    }

    /// The key that the items were put under, or the id of their conversation.
    #[must_use]
    pub fn key(&self) -> &'a str {
        let id = self.key.strip_prefix(CONVERSATION).map(|id| id.strip_prefix(OUTER).unwrap_or(id));
        key_in_file(id.unwrap_or(self.key)).0
    }

    /// Number of items; at least one.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is no item, which never is so for a trace.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The items.
    pub fn iter(&self) -> std::slice::Iter<'a, TraceItem<'a>> {
        self.items.iter()
    }

    /// The items as a slice.
    #[must_use]
    pub fn as_slice(&self) -> &'a [TraceItem<'a>] {
        self.items
    }

    /// Whether an item of the trace was rejected; the trace is then marked as partial anyway.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.partial
    }

    /// Limits that the text of items is parsed with.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Which of the traces that these items make is asked for: 0, then 1 and so on as long as
    /// [`Self::another`] was called for the one before.
    #[must_use]
    pub fn part(&self) -> usize {
        self.part
    }

    /// Says that these items make one more trace than those that were asked for so far: a copy of a run that went
    /// on by itself cannot be distinguished from what it copies without it, and yet is another run.
    pub fn another(&self) {
        self.another.set(true);
    }

    /// The items of the trace that is asked for. `split` says which each of them has, and is asked once, so that a source
    /// with many runs is looked through once.
    pub(crate) fn split(&self, split: impl FnOnce() -> Vec<Vec<u32>>) -> Vec<u32> {
        let mut runs = self.runs.borrow_mut();
        let runs = runs.get_or_insert_with(split);
        if self.part + 1 < runs.len() {
            self.another();
        }
        runs.get(self.part).cloned().unwrap_or_default()
    }

    /// The items of the trace that was asked for, where the importer said which each of them has.
    pub(crate) fn own_items(&self) -> Option<Vec<u32>> {
        self.runs.borrow().as_ref()?.get(self.part).cloned()
    }

    /// Whether these items make one trace, as far as those that were asked for say.
    pub(crate) fn is_one(&self) -> bool {
        self.part == 0 && !self.another.get()
    }

    /// Moves on to the next trace, if there is one.
    pub(crate) fn next_part(&mut self) -> bool {
        self.part += 1;
        self.home.set(0);
        self.another.take()
    }

    /// Says that the trace lies where this item does; without it, where the first one does.
    pub fn lies_at(&self, i: usize) {
        self.home.set(i);
    }

    /// The item whose input is that of the trace.
    pub(crate) fn home(&self) -> usize {
        self.home.get()
    }

    /// Counts an item as one that repeats another one.
    pub fn duplicate(&self, i: usize) {
        self.set(i, |_| 1);
    }

    /// Counts an item as one without meaning, by a short dotted word such as `otel.http`.
    pub fn ignored(&self, i: usize, kind: &str) {
        self.set(i, |kinds| {
            let position = kinds.iter().position(|k| **k == *kind);
            position.unwrap_or_else(|| {
                kinds.push(kind.into());
                kinds.len() - 1
            }) as u32
                + 2
        });
    }

    fn set(&self, i: usize, code_of: impl FnOnce(&mut Vec<Box<str>>) -> u32) {
        let mut fates = self.fates.borrow_mut();
        if fates.of.is_empty() {
            fates.of = vec![0; self.items.len()];
        }
        let code = code_of(&mut fates.kinds);
        fates.of[i] = code;
    }

    /// Tells how many items of each input met which fate; `input` says of which one an item is.
    pub(crate) fn settle(
        &self,
        input: impl Fn(usize) -> usize,
        mut report: impl FnMut(usize, ItemUse<'_>, u64),
    ) {
        let fates = self.fates.borrow();
        let mut counts: Vec<(usize, u32, u64)> = Vec::new();
        for i in 0..self.items.len() {
            let (input, code) = (input(i), fates.of.get(i).copied().unwrap_or(0));
            // Items lie in order of their inputs: what is looked for is near the end.
            match counts.iter_mut().rev().find(|(of, known_code, _)| (*of, *known_code) == (input, code)) {
                Some((.., n)) => *n += 1,
                None => counts.push((input, code, 1)),
            }
        }
        for (input, code, n) in counts {
            let item_use = match code {
                0 => ItemUse::Used,
                1 => ItemUse::Duplicate,
                kind => ItemUse::Ignored(&fates.kinds[kind as usize - 2]),
            };
            report(input, item_use, n);
        }
    }
}

impl<'a> IntoIterator for &TraceItems<'a> {
    type Item = &'a TraceItem<'a>;
    type IntoIter = std::slice::Iter<'a, TraceItem<'a>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests;
