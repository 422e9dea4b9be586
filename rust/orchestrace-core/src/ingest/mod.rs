//! Files to columns: sources cut inputs into blocks of whole records, workers parse blocks in parallel,
//! the store takes the blocks in input order.

use std::path::PathBuf;
use std::sync::Arc;

use crate::error::{Error, Result, unknown_name};
use crate::importers::{self, Format, Mapping, mapping};
use crate::schema::{Kind, TimeBasis};

mod archive;
mod binary;
pub(crate) mod block;
pub(crate) mod chunk;
pub mod column;
mod compressed;
pub(crate) mod event_columns;
mod extract;
mod fingerprint;
mod frame;
pub(crate) mod gate;
mod gather;
mod index;
mod input;
pub mod intern;
pub mod json;
mod long_record;
mod parse;
mod projection;
pub mod quarantine;
mod reader;
mod sought;
mod source;
mod spill;
pub(crate) mod tally;
pub mod time;
pub(crate) mod usage;
pub mod validate;
mod work;
pub mod writer;

pub use extract::copy_records;
pub use fingerprint::fingerprint;
pub(crate) use index::reused_id;
pub use index::{IndexRow, TraceIndex};
pub use input::{ReadPosition, formats};
pub use projection::Projection;
pub use reader::{Batch, SourcePart, TraceReader, read};
pub use sought::{EventPlace, Sought, locate, record_bytes};

use json::Limits;

/// Where records come from.
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

/// Type of a column that an unknown event key is lifted into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiftKind {
    /// Strings.
    Text,
    /// Integers.
    I64,
    /// Numbers.
    F64,
    /// Flags.
    Bool,
}

/// What becomes one trace where a format tells both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TraceBy {
    /// What the source calls a trace: one request, one turn.
    #[default]
    Trace,
    /// All traces of one conversation or session.
    Conversation,
}

/// Names of [`TraceBy`].
pub const TRACE_BY: &[&str] = &["trace", "conversation"];

impl TraceBy {
    /// By its name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        match name {
            "trace" => Some(Self::Trace),
            "conversation" => Some(Self::Conversation),
            _ => None,
        }
    }
}

impl LiftKind {
    /// The column kind.
    #[must_use]
    pub fn kind(self) -> Kind {
        match self {
            LiftKind::Text => Kind::Text,
            LiftKind::I64 => Kind::I64,
            LiftKind::F64 => Kind::F64,
            LiftKind::Bool => Kind::Bool,
        }
    }

    /// The kind that a word names.
    pub fn parse(word: &str) -> Result<Self> {
        match word {
            "text" => Ok(LiftKind::Text),
            "i64" => Ok(LiftKind::I64),
            "f64" => Ok(LiftKind::F64),
            "bool" => Ok(LiftKind::Bool),
            _ => Err(Error::Parameter(unknown_name(
                "type of a lifted field",
                word,
                &["text", "i64", "f64", "bool"],
            ))),
        }
    }
}

/// What `max_record` can be at most: the text columns of a block, which may be one record and some more, have
/// 31-bit offsets.
pub const MAX_RECORD: u64 = 2_000_000_000;

/// What [`Limits::depth`] can be at most. Trees are built and walked by functions that call themselves, a level a call,
/// on the 2 MiB of stack that threads have by default: a level may take 2 KB of them, and takes some hundred bytes, more
/// where nothing is optimised. Python's own `json` goes no deeper either.
pub const MAX_DEPTH: usize = 1_000;

/// Options of [`read`].
#[derive(Debug, Clone)]
pub struct ReadOptions {
    /// Name of an importer, or `auto`.
    pub format: String,
    /// What the format `mapping` stands for.
    pub mapping: Option<&'static Mapping>,
    /// Bytes that a worker takes at a time; no result depends on it.
    pub block_size: usize,
    /// Longest record; a longer one is rejected without being held in memory. At most [`MAX_RECORD`].
    pub max_record: u64,
    /// The memory budget that set limits, as its caller gave it, and the names of these limits: what is said of a
    /// record that passes one names the budget, since only a larger one helps.
    pub set_by_memory: Option<(String, Vec<String>)>,
    /// Limits within a record.
    pub limits: Limits,
    /// Largest ratio of decompressed to compressed bytes.
    pub max_expansion: u64,
    /// Most bytes that one compressed input may become.
    pub max_decompressed: u64,
    /// Whether unknown event fields are kept.
    pub extras: bool,
    /// Bytes of a rejected record that its quarantine row shows; with 0 messages do not quote it either.
    pub excerpt: usize,
    /// Unknown event keys that become columns.
    pub fields: Vec<(String, LiftKind)>,
    /// What `t` means in traces that do not say.
    pub time_basis: Option<TimeBasis>,
    /// What becomes one trace of formats that tell conversations.
    pub trace_by: TraceBy,
    /// Names of scores that are rewards: whether a high one is good, only its owner knows.
    pub reward_scores: Vec<String>,
    /// Whether records are hashed, so that repeated exports can be told.
    pub digests: bool,
    /// Whether the fields are counted that no key of the mapping reads.
    pub unread_fields: bool,
    /// The one trace that is looked for; no other is kept.
    pub sought: Option<Arc<Sought>>,
    /// Tables and columns that are kept.
    pub projection: Projection,
    /// Bytes of the texts of traces that are spread over records which may be held; more goes to a temporary file.
    pub gather_budget: usize,
    /// Where that file is made; the system's folder for temporary files if absent.
    pub spill_folder: Option<PathBuf>,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self {
            format: "auto".into(),
            mapping: None,
            block_size: 4 << 20,
            max_record: 512 << 20,
            set_by_memory: None,
            limits: Limits { depth: 128, string: 64 << 20, lenient: false },
            max_expansion: 1000,
            max_decompressed: 1 << 40,
            extras: true,
            excerpt: 200,
            fields: Vec::new(),
            time_basis: None,
            trace_by: TraceBy::Trace,
            reward_scores: Vec::new(),
            digests: false,
            unread_fields: false,
            sought: None,
            projection: Projection::ALL,
            gather_budget: 256 << 20,
            spill_folder: None,
        }
    }
}

impl ReadOptions {
    /// The importer of a name; of house formats that of the mapping.
    pub fn importer(&self, name: &str) -> Result<Format> {
        match self.mapping {
            Some(of) if name == mapping::NAME => Ok(Format::Spread(of)),
            None if name == mapping::NAME => Err(Error::Parameter(
                "format 'mapping' needs the file that tells the fields of the house format: mapping='FILE' \
                 (--mapping FILE)"
                    .into(),
            )),
            _ => importers::find(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_those_that_are_documented() {
        // The table of ARCHITECTURE.md, section 3, and the docstring of `read_traces`.
        let options = ReadOptions::default();
        assert_eq!((options.limits.depth, options.limits.string), (128, 64 << 20));
        assert_eq!(options.max_record, 512 << 20);
        assert_eq!((options.max_expansion, options.max_decompressed), (1_000, 1 << 40));
        // A block may hold one such record and some more; its text has 31-bit offsets.
        const { assert!(MAX_RECORD + 2 * (64 << 20) < 1 << 31) };
        assert!(options.limits.depth <= MAX_DEPTH);
    }
}
