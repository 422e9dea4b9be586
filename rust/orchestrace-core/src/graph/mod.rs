//! The graph of one trace and everything derived from it (docs/reference/definitions.md).
//!
//! Everything here works on a [`TraceView`](crate::store::view::TraceView) and keeps its buffers from trace to
//! trace: a worker makes one [`TraceGraph`] and feeds it all its traces. Positions are `seq` throughout, agents
//! are dictionary codes or, where a dense number is handy, positions in [`Owners::names`].
//!
//! - [`order`]: canonical and topological order, cycles (D1)
//! - [`csr`], [`weights`], [`program`]: adjacency both ways, type weights, program order (D3)
//! - [`owner`]: owners, root agent, roles, the `agents` table (D4, D16)
//! - [`hearing`]: who heard what, beyond the edges
//! - [`outcome`]: the event that the team is paid for, or why it is not known (D5)
//! - [`turns`], [`units`]: turns (D6) and the partition of a trace at each level of credit (D4)
//! - [`table`]: what these say of each event, as columns

pub mod csr;
pub mod hearing;
pub mod order;
pub mod outcome;
pub mod owner;
pub mod program;
pub mod slots;
pub mod table;
pub mod trace;
pub mod turns;
pub mod units;
pub mod weights;

#[cfg(test)]
pub(crate) mod test_trace;

pub use csr::CsrGraph;
pub use order::{CanonicalOrder, Order, Topological, cycle_finding, find_cycle};
pub use outcome::Outcome;
pub use owner::{AgentRow, NOBODY, Owners};
pub use trace::{GraphOptions, TraceGraph};
pub use turns::{TurnLabel, Turns};
pub use units::{NO_UNIT, Partition, UnitName};
pub use weights::TYPE_WEIGHTS;
