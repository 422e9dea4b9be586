//! What runs lost, and how they failed, by the shape of the record alone (docs/reference/definitions.md, D38, D39).
//!
//! - [`calls`]: the calls of a trace with their keys, results and makers
//! - [`classes`]: the one class of each event: retry, error, loop, duplicate, orphan, dead, useful
//! - [`failures`]: six structural classes of failure of each trace
//! - [`table`]: both as tables

pub mod calls;
pub mod classes;
pub mod failures;
pub mod scene;
pub mod table;

pub use table::{Options, failure_classes, waste_events};
