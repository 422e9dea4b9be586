//! Orchestration traces in columns.
//!
//! ```text
//! files ──► ingest::source ──► importers ──► columns::writer ──► assembly ──► store::Store
//!            blocks of           pull parser,   columns and         dictionaries      │
//!            whole records       no tree        rejects             merged            ▼
//!                                           store::view ──► graph ──► surrogate ──► credit, replay, metrics
//! ```
//!
//! Begin with [`ingest::read`] for the way in, [`store::Store`] for what is held, [`store::view::TraceView`] for
//! what a kernel sees, and [`credit`] for the first kernels; [`replay`] asks what an outcome would be without some events,
//! [`metrics`] how a run was organized, [`rewards`] what it is paid by a rule, [`safety`] where untrusted content went in
//! it. This crate knows nothing of Python.
#![forbid(unsafe_code)]

pub mod assembly;
pub mod columns;
pub mod credit;
pub mod error;
pub mod generate;
pub mod graph;
pub mod importers;
pub mod ingest;
pub mod json;
pub mod lanes;
pub mod metrics;
mod registers;
pub mod replay;
pub mod rewards;
pub mod rng;
pub mod run;
pub mod safety;
pub mod schema;
pub mod search;
pub mod store;
pub mod surrogate;
pub mod tables;
pub mod waste;

#[cfg(test)]
extern crate self as orchestrace_core; // for `tests`, whose paths are those of a dependent
#[cfg(test)]
mod tests;
