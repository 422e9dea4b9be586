//! Options that choose which parts of a record become columns.

use super::{LiftKind, Projection};
use crate::json::Limits;
use crate::schema::TimeBasis;

/// Options of which parts of a record become columns.
#[derive(Debug, Clone)]
pub struct RecordOptions {
    /// Limits within a record.
    pub limits: Limits,
    /// Whether unknown event fields are kept.
    pub extras: bool,
    /// Bytes of a rejected record that its quarantine row shows; with 0 messages do not quote it either.
    pub excerpt: usize,
    /// Unknown event keys that become columns.
    pub fields: Vec<(String, LiftKind)>,
    /// What `t` means in traces that do not say.
    pub time_basis: Option<TimeBasis>,
    /// Names of scores that are rewards: whether a high one is good, only its owner knows.
    pub reward_scores: Vec<String>,
    /// Numbers of rewards, costs, metrics and columns of outcomes, by their names, that say that the value is not known.
    pub null_values: Vec<(String, Vec<f64>)>,
    /// Tables and columns that are kept.
    pub projection: Projection,
    /// Whether is noted which item an event was made of.
    pub items: bool,
}

impl Default for RecordOptions {
    fn default() -> Self {
        Self {
            limits: Limits { depth: 128, string: 64 << 20, lenient: false },
            extras: true,
            excerpt: 200,
            fields: Vec::new(),
            time_basis: None,
            reward_scores: Vec::new(),
            null_values: Vec::new(),
            projection: Projection::ALL,
            items: false,
        }
    }
}

impl RecordOptions {
    /// Whether a number of this name says that the value is not known.
    #[must_use]
    pub fn is_null(&self, name: &str, value: f64) -> bool {
        self.null_values.iter().any(|(named, values)| named == name && values.contains(&value))
    }
}
