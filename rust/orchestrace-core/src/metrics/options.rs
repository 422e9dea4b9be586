//! Options of metrics.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::replay::schedule::Lengths;
use crate::safety::Tools;

/// Options of metrics; docs/metrics.md explains the defaults.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Join consecutive events of one owner by temporal edges (D3).
    pub program_order: bool,
    /// The rule of durations (D7).
    pub lengths: Lengths,
    /// Subtasks that a task is rightly divided into, by `task_id`.
    pub subtasks: Arc<BTreeMap<String, BTreeSet<String>>>,
    /// What agents may do.
    pub harness: Option<Arc<Harness>>,
    /// What is said of tools: whose results are untrusted or trusted, whose calls are privileged.
    pub tools: Arc<Tools>,
    /// When an intervention is tried, as a share of the time from the first event to the last; ½ without.
    pub intervention_at: Option<f64>,
}

/// The actions that a harness allows. Undeclared kinds are not judged; names are codes of the store, ascending.
#[derive(Debug, Clone, Default)]
pub struct Harness {
    /// Types of events.
    pub types: Option<Vec<u8>>,
    /// Tools that may be called.
    pub tools: Option<Vec<u32>>,
    /// Roles that may be spawned.
    pub roles: Option<Vec<u32>>,
}
