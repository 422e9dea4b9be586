//! Chunks of columns into a store: dictionaries merged, traces numbered, agents and findings derived.
//!
//! [`assemble`] takes what importers wrote; a store of Arrow tables goes the same way.

mod assemble;
mod derive;
mod from_arrow;

pub use assemble::assemble;
pub use from_arrow::{Tables, Taking};
