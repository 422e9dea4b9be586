//! Columns of a block of records during writing: events, edges, facts, dictionaries, rejects.
//!
//! An importer fills a [`writer::TraceWriter`], record by record; what a block holds at its end is a [`RawChunk`], which
//! [`assembly`](crate::assembly) makes a chunk of the store.

pub(crate) mod block;
pub(crate) mod chunk;
pub mod column;
pub(crate) mod event_columns;
pub(crate) mod gate;
pub mod intern;
pub mod lift;
pub mod mapping_counts;
pub mod options;
pub mod projection;
pub mod quarantine;
pub(crate) mod tally;
pub(crate) mod usage;
pub mod validate;
pub mod writer;

pub use chunk::RawChunk;
pub use lift::LiftKind;
pub use options::RecordOptions;
pub use projection::Projection;
