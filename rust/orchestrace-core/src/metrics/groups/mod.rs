//! Groups of metrics, a file each.
//!
//! To add a group: write the file, name it below, add its entry to [`METRICS`].

pub mod conformance;
pub mod cut;
pub mod delegation;
pub mod diversity;
pub mod dominators;
pub mod drag;
pub mod errors;
pub mod protocol;
pub mod quality;
pub mod scale;
pub mod span;
pub mod stages;
pub mod steering;
pub mod taint;
pub mod termination;
pub mod time;
pub mod usage;
pub mod utility;
pub mod utilization;

use super::group::Group;

/// All groups, in the order of their columns.
pub static METRICS: &[&dyn Group] = &[
    &scale::Scale,
    &span::Span,
    &time::Time,
    &usage::Usage,
    &stages::Stages,
    &protocol::Protocol,
    &utilization::Utilization,
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
    &termination::Termination,
];
