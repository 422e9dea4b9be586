//! One finished block.

use std::ops::Range;
use std::sync::Arc;

use arrow_array::ArrayRef;

use super::block::{Facts, LabelRow};
use super::event_columns::Finished;
use super::intern::Interner;
use super::quarantine::{Position, QuarantineRow};
use super::tally::Tally;
use crate::columns::mapping_counts::MappingCounts;
use crate::error::{Finding, FindingCode, capped};

/// What one block of an input gave to a chunk.
#[derive(Debug, Clone, Default)]
pub(crate) struct Segment {
    /// Input, and place in it.
    pub source: usize,
    pub index: u64,
    /// Whether lines are counted from the start of the input rather than of the block.
    pub absolute_lines: bool,
    pub lines: u64,
    pub records: u64,
    /// The format that was read; absent where traces are not of one input.
    pub importer: Option<&'static str>,
    /// Of an archive, the name of the entry.
    pub entry: Option<Box<str>>,
    /// What became of the records of its input, where that is not plain from the rows.
    pub tallies: Option<Vec<Tally>>,
    /// Rows of it in `facts` and `quarantine` of the chunk, where those of all segments follow each other.
    pub traces: usize,
    pub quarantined: usize,
}

impl Segment {
    /// What counts records that no block of the chunk has, and has no rows.
    pub(crate) fn of_counts(source: usize, tallies: Vec<Tally>) -> Self {
        let records = tallies.iter().map(|tally| tally.count).sum();
        let (index, absolute_lines, tallies) = (u64::MAX, true, Some(tallies));
        Self { source, index, absolute_lines, records, tallies, ..Self::default() }
    }
}

/// The tables of one block, or of many small ones, before the dictionaries of all chunks are merged.
#[derive(Debug, Clone)]
pub struct RawChunk {
    /// What it has of which input, in input order; at least one.
    pub(crate) segments: Vec<Segment>,
    pub(crate) dicts: Vec<Interner>,
    pub(crate) id: ArrayRef,
    pub(crate) t: Vec<f64>,
    pub(crate) types: Vec<u8>,
    pub(crate) agent: Vec<u32>,
    /// Optional columns that are in use, by their place in the table.
    pub(crate) optional: Vec<(usize, Finished)>,
    pub(crate) trace_id: ArrayRef,
    pub(crate) task_id: ArrayRef,
    pub(crate) group_id: ArrayRef,
    pub(crate) facts: Vec<Facts>,
    /// Numbers that the traces have already; else they are given in order.
    pub(crate) numbers: Option<Vec<u32>>,
    /// Whether each trace stays; all do where it is absent.
    pub(crate) keep: Option<Vec<bool>>,
    pub(crate) digests: Vec<u64>,
    /// Files by the block's own dictionary, where a block is of several; null as `NO_CODE`.
    pub(crate) files: Option<Vec<u32>>,
    pub(crate) positions: Vec<Position>,
    pub(crate) ends: Vec<[u32; 3]>,
    pub(crate) src: Vec<u32>,
    pub(crate) dst: Vec<u32>,
    pub(crate) edge_types: Vec<u8>,
    pub(crate) measure_kinds: Vec<u8>,
    pub(crate) measure_names: Vec<u32>,
    pub(crate) measure_values: Vec<f64>,
    pub(crate) labels: Vec<LabelRow>,
    pub(crate) findings: Vec<(u32, Finding)>,
    pub(crate) quarantine: Vec<QuarantineRow>,
    /// What a whole reading found of its mapping.
    pub(crate) mapping: Option<Arc<MappingCounts>>,
}

/// A name lies in its chunk, again in the store that chunks are merged into, and once more in the categories of the
/// frame that is written.
const NAME_COPIES: usize = 3;

impl RawChunk {
    /// The first input that it has something of, and the place in it: chunks in this order are in input order.
    pub(crate) fn place(&self) -> (usize, u64) {
        self.segments.first().map_or((0, 0), |first| (first.source, first.index))
    }

    /// The segments, each with its rows in `facts` and in `quarantine`.
    pub(crate) fn parts(&self) -> impl Iterator<Item = (&Segment, Range<usize>, Range<usize>)> {
        let (mut traces, mut quarantined) = (0, 0);
        self.segments.iter().map(move |segment| {
            let rows = (traces..traces + segment.traces, quarantined..quarantined + segment.quarantined);
            (traces, quarantined) = (rows.0.end, rows.1.end);
            (segment, rows.0, rows.1)
        })
    }

    /// Counts lines from the start of the input. `before` takes a segment, and says how many lines its input has
    /// before it.
    pub(crate) fn count_lines(&mut self, mut before: impl FnMut(&Segment) -> u64) {
        let (mut traces, mut quarantined) = (self.positions.iter_mut(), self.quarantine.iter_mut());
        for segment in &mut self.segments {
            let lines = before(segment);
            let lines = if segment.absolute_lines { 0 } else { lines };
            segment.absolute_lines = true;
            traces.by_ref().take(segment.traces).for_each(|position| position.line += lines);
            quarantined.by_ref().take(segment.quarantined).for_each(|row| row.position.line += lines);
        }
    }

    /// Bytes that the chunk and what is made of it hold, text of quarantine and findings estimated.
    pub(crate) fn nbytes(&self) -> usize {
        let array = |a: &ArrayRef| a.get_buffer_memory_size();
        let optional = self.optional.iter().map(|(_, column)| match column {
            Finished::Array(a) => array(a),
            Finished::Codes(codes, _) => 4 * codes.capacity(),
        });
        NAME_COPIES * self.dicts.iter().map(Interner::nbytes).sum::<usize>()
            + self.segments.capacity() * size_of::<Segment>()
            + [&self.id, &self.trace_id, &self.task_id, &self.group_id].into_iter().map(array).sum::<usize>()
            + optional.sum::<usize>()
            + 8 * self.t.capacity()
            + self.types.capacity()
            + 4 * self.agent.capacity()
            + 9 * self.src.capacity()
            + 13 * self.measure_values.capacity()
            + 128 * self.facts.len()
            + 512 * (self.quarantine.len() + self.findings.len() + self.labels.len())
    }
}

/// The finding on a trace whose id an earlier one has.
pub(crate) fn reused_id(trace_id: &str, earlier: u32) -> Finding {
    let message = capped(format!("trace {earlier} already has the trace_id '{trace_id}'; join on 'trace'"));
    Finding { code: FindingCode::TraceIdReused, count: 1, seq: None, message }
}
