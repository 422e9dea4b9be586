//! tmp
pub mod csr; pub mod order; pub mod owner; pub mod slots; pub mod weights;
pub use csr::{CsrGraph, CsrOptions};
pub use order::{CanonicalOrder, Order, Topological, cycle_finding, find_cycle};
pub use owner::{AgentRow, NOBODY, Owners};
pub use weights::TYPE_WEIGHTS;
