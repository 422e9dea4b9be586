//! Metrics of orchestration: what a recording says of itself, a row for each trace.
//!
//! - [`subject`]: what all metrics of a trace share, computed once: graph, owners, turns, times, stages
//! - [`group`]: the trait that a file of metrics implements, and what a metric is called and counted in
//! - [`table`]: all metrics of a store, as columns
//! - one file for each group: [`scale`], [`span`], [`time`], [`usage`], [`stages`], [`protocol`], [`utilisation`], [`delegation`], [`quality`],
//!   [`errors`], [`taint`], [`conformance`]; on request [`cut`], [`diversity`], [`drag`], [`steering`], [`utility`]
//! - [`members`]: the same kind of numbers for the agents or roles of a trace
//!
//! A metric that a recording cannot tell is null, with a [`Reason`](crate::error::Reason); 0 is a finding.

pub mod conformance;
pub mod cut;
pub mod delegation;
pub mod diversity;
pub mod dominators;
pub mod drag;
pub mod errors;
mod event_rows;
pub mod group;
pub mod lifetimes;
pub mod members;
pub mod protocol;
pub mod quality;
pub mod scale;
pub mod span;
pub mod stages;
pub mod steering;
pub mod subject;
pub mod table;
pub mod taint;
pub mod time;
pub mod usage;
pub mod utilisation;
pub mod utility;

#[cfg(test)]
mod testing;

pub use dominators::dominators;
pub use drag::drags;
pub use group::{Cost, Count, Group, GroupInfo, Harness, Measure, Metric, Options, Row};
pub use lifetimes::lifetimes;
pub use members::{MEMBER_METRICS, MemberKind};
pub use subject::Subject;
pub use table::{members, metrics, select};

/// All groups, in the order of their columns.
pub static METRICS: &[&dyn Group] = &[
    &scale::Scale,
    &span::Span,
    &time::Time,
    &usage::Usage,
    &stages::Stages,
    &protocol::Protocol,
    &utilisation::Utilisation,
    &dominators::Dominators,
    &delegation::Delegation,
    &quality::Quality,
    &errors::Errors,
    &taint::Taint,
    &conformance::Conformance,
    &cut::Cut,
    &diversity::Diversity,
    &drag::Drag,
    &steering::Steering,
    &utility::Utility,
];
