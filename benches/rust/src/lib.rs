//! What the Criterion benches share: the generated corpus, and one reader of trace documents per JSON parser.
//!
//! The readers are a library of their own so that `tests/conditions.rs` can hold each of them to the same
//! list of malformed documents.
#![forbid(unsafe_code)]

pub mod columns;
pub mod corpus;
pub mod readers;

pub use columns::{Columns, Sums};
pub use corpus::{Block, mixed};
pub use readers::{Reader, Refusal, readers};
