//! One finished block.

use std::sync::Arc;

use arrow_array::ArrayRef;

use super::block::{Facts, LabelRow};
use super::event_columns::Finished;
use super::intern::Interner;
use super::quarantine::{Position, QuarantineRow};
use super::tally::Tally;
use crate::error::Finding;
use crate::importers::mapping::MappingCounts;

/// One block's tables, before the dictionaries of all blocks are merged.
#[derive(Debug, Clone)]
pub struct RawChunk {
    /// Input, and place in it.
    pub(crate) source: usize,
    pub(crate) index: u64,
    /// Whether lines are counted from the start of the input rather than of the block.
    pub(crate) absolute_lines: bool,
    pub(crate) lines: u64,
    pub(crate) records: u64,
    /// The format that was read; absent where a chunk is not of one input.
    pub(crate) importer: Option<&'static str>,
    /// Of an archive, the name of the entry.
    pub(crate) entry: Option<String>,
    /// What became of the records of its input, where that is not plain from the rows.
    pub(crate) tallies: Option<Vec<Tally>>,
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

impl RawChunk {
    /// Bytes held, text of quarantine and findings estimated.
    pub(crate) fn nbytes(&self) -> usize {
        let array = |a: &ArrayRef| a.get_buffer_memory_size();
        let optional = self.optional.iter().map(|(_, column)| match column {
            Finished::Array(a) => array(a),
            Finished::Codes(codes, _) => 4 * codes.capacity(),
        });
        self.dicts.iter().map(Interner::nbytes).sum::<usize>()
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
