//! Assembly of column chunks into a store: dictionaries, trace numbers, agents and findings.
//!
//! [`assemble`] takes what importers wrote; a store of Arrow tables goes the same way.

mod assemble;
mod derive;
mod from_arrow;

pub use assemble::assemble;
pub use from_arrow::{Codes, Tables, Taking};
