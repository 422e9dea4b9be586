//! Weights of edges by type (D3).

/// Number of edge types.
pub const N_TYPES: usize = crate::schema::EDGE_TYPES.len();

/// Weights in the order of [`crate::schema::EdgeType`]: temporal, causal, spawn, message, tool dependency,
/// return, aggregate, safety flow. An assumption of this project, hence an option wherever it is used.
pub const TYPE_WEIGHTS: [f64; N_TYPES] = [0.2, 1.0, 0.5, 0.7, 0.9, 1.0, 1.2, 0.3];
