//! Metrics of orchestration from a recording alone, one row per trace.
//!
//! - [`subject`]: shared data of all metrics of a trace: graph, owners, turns, times, stages
//! - [`group`]: the trait that a file of metrics implements, and the names and units of metrics
//! - [`table`]: all metrics of a store, as columns
//! - [`groups`]: one file for each group of metrics
//! - [`members`]: the same kind of numbers for the agents or roles of a trace
//!
//! A metric that a recording does not determine is null, with a [`Reason`](crate::error::Reason); 0 is a finding.

mod event_rows;
pub mod group;
pub mod groups;
pub mod lifetimes;
pub mod members;
mod options;
pub mod stages;
pub mod subject;
pub mod table;
mod usage;

#[cfg(test)]
mod testing;

pub use group::{Cost, Count, Group, GroupInfo, Measure, Metric, Row};
pub use groups::METRICS;
pub use groups::dominators::dominators;
pub use groups::drag::drags;
pub use members::{MEMBER_METRICS, MemberKind};
pub use options::{Harness, Options};
pub use subject::Subject;
pub use table::{lifetimes, members, metrics, select};
