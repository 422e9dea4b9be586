//! Files to columns: sources cut inputs into blocks of whole records, workers parse blocks in parallel,
//! the store takes the blocks in input order.

use std::path::PathBuf;
use std::sync::Arc;

use crate::columns::RecordOptions;
use crate::error::{Error, Result};
use crate::importers::{self, Format, Mapping, TraceBy, mapping};

mod archive;
mod binary;
mod block;
mod compressed;
mod extract;
mod fingerprint;
mod frame;
mod gather;
mod index;
mod input;
mod long_record;
pub mod names;
mod parse;
mod places;
mod positional;
mod reader;
mod rows;
mod search;
mod sought;
mod source;
mod spill;
mod torn;
mod work;

pub(crate) use block::stem;
pub use extract::copy_records;
pub use fingerprint::fingerprint;
pub use index::{IndexRow, TraceIndex};
pub use input::{ReadPosition, formats};
pub use places::{NotOne, Owner};
pub use reader::{Batch, SourcePart, TraceReader, read};
pub use rows::{RowOpener, RowSource, Rows};
pub use search::{Hit, Matches, Request, Unsearched, search};
pub use sought::{EventPlace, Sought, SoughtTrace, locate, owners, record_bytes};

/// A source of records.
pub enum Input {
    /// A file, whole or compressed.
    Path(PathBuf),
    /// A file that the tables know by another name than the one to open it by.
    Named {
        /// Name for the tables.
        name: String,
        /// Where it lies.
        path: PathBuf,
    },
    /// Anything that can be read once, front to back.
    Stream {
        /// Name for the tables.
        name: String,
        /// The bytes, whole or compressed.
        reader: Box<dyn std::io::Read + Send>,
    },
}

/// The largest value of `max_record`: the text columns of a block, which may be one record and some more, have
/// 31-bit offsets.
pub const MAX_RECORD: u64 = 2_000_000_000;

/// Options of [`read`].
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Name of an importer, or `auto`.
    pub format: String,
    /// What the format `mapping` stands for.
    pub mapping: Option<&'static Mapping>,
    /// Options of which parts of a record become columns.
    pub records: RecordOptions,
    /// Bytes that a worker takes at a time; no result depends on it.
    pub block_size: usize,
    /// Longest record; a longer one is rejected without being held in memory. At most [`MAX_RECORD`].
    pub max_record: u64,
    /// The memory budget that set limits, as its caller gave it, and the names of these limits: what is said of a
    /// record that passes one names the budget, since only a larger one helps.
    pub set_by_memory: Option<(String, Vec<String>)>,
    /// Largest ratio of decompressed to compressed bytes.
    pub max_expansion: u64,
    /// Most bytes that one compressed input may become.
    pub max_decompressed: u64,
    /// What becomes one trace in formats that record conversations.
    pub trace_by: TraceBy,
    /// Whether the fields are counted that no key of the mapping reads.
    pub unread_fields: bool,
    /// What is looked for: one trace, or all of some places; no other is kept.
    pub sought: Option<Arc<Sought>>,
    /// Bytes of the texts of traces that are spread over records which may be held; more goes to a temporary file.
    pub gather_budget: usize,
    /// What opens files of rows, which need a codec; without it they are refused.
    pub rows: Option<RowOpener>,
    /// Where that file is made; the system's folder for temporary files if absent.
    pub spill_folder: Option<PathBuf>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            format: "auto".into(),
            mapping: None,
            records: RecordOptions::default(),
            block_size: 4 << 20,
            max_record: 512 << 20,
            set_by_memory: None,
            max_expansion: 1000,
            max_decompressed: 1 << 40,
            trace_by: TraceBy::Trace,
            unread_fields: false,
            sought: None,
            gather_budget: 256 << 20,
            rows: None,
            spill_folder: None,
        }
    }
}

impl ReadOptions {
    /// The importer of a name; of custom formats that of the mapping.
    pub fn importer(&self, name: &str) -> Result<Format> {
        match self.mapping {
            Some(of) if name == mapping::NAME => Ok(Format::Spread(of)),
            None if name == mapping::NAME => Err(Error::Parameter(
                "format 'mapping' needs a file that describes the fields: mapping='FILE' (--mapping FILE)"
                    .into(),
            )),
            _ => importers::find(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::MAX_DEPTH;

    #[test]
    fn limits_are_those_that_are_documented() {
        // The table of docs/reference/limits.md and the docstring of `read_traces`.
        let options = ReadOptions::default();
        assert_eq!((options.records.limits.depth, options.records.limits.string), (128, 64 << 20));
        assert_eq!(options.max_record, 512 << 20);
        assert_eq!((options.max_expansion, options.max_decompressed), (1_000, 1 << 40));
        // A block may hold one such record and some more; its text has 31-bit offsets.
        const { assert!(MAX_RECORD + 2 * (64 << 20) < 1 << 31) };
        assert!(options.records.limits.depth <= MAX_DEPTH);
    }
}
