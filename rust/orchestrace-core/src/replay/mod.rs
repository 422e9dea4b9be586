//! What would have come of a recorded run, under a stated structure: no agent and no model is run.
//!
//! - [`outcome`]: the structural surrogate, the value of the outcome when only some events are there (D15)

pub mod outcome;

pub use outcome::{Model, Surrogate};
