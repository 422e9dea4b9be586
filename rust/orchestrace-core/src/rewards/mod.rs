//! Rewards of runs and their units, by rules.
//!
//! A rule says which unit it pays and adds up its addends; the engine shows it one trace at a time and makes rows. What a
//! recording does not determine is null, with a [`Reason`](crate::error::Reason), never 0.
//!
//! - [`reward`]: a rule, its inputs and its payments
//! - [`rules`]: the rules, a file for each subject
//! - [`windows`]: counts over all traces of one step of training
//! - [`table`]: rewards of a store, as columns

pub mod reward;
pub mod rules;
pub mod table;
pub mod windows;

pub use reward::{Channel, Inputs, Pay, Payments, Reward};
pub use rules::REWARDS;
pub use table::{Request, RuleRequest, rewards};
pub use windows::{Window, Windows, windows};

use crate::error::{Error, Result, unknown_name};

/// The rule with this name; the error suggests the nearest name.
pub fn find(name: &str) -> Result<&'static Reward> {
    REWARDS.iter().copied().find(|rule| rule.name == name).ok_or_else(|| {
        let names: Vec<_> = REWARDS.iter().map(|rule| rule.name).collect();
        Error::Parameter(unknown_name("reward", name, &names))
    })
}
