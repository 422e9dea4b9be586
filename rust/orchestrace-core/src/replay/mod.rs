//! Counterfactuals on recorded runs under a stated structure, without running agents or models.
//!
//! - [`intervention`]: what is changed about a run, and the fix-point of what is lost with it (D22)
//! - [`structural`]: abduction, action, prediction: the effect of a change on the outcome
//! - [`fit`]: predictions of what was recorded, with slopes in the weights, to fit these by
//! - [`faithfulness`]: whether the events that a method credits are those that the surrogate needs
//! - [`schedule`]: when the same events would have happened: slots, tools, agents changed (D7, D8, D10)

pub mod faithfulness;
pub mod fit;
pub mod intervention;
pub mod schedule;
pub mod structural;

pub use faithfulness::{Curves, Options, faithfulness};
