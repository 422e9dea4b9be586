//! What each agent of a run did, as a sequence of keys that runs share, and where two such sequences part.
//!
//! A step is an event of [`STEPS`] that an agent owns (D4); an agent's steps in canonical order are its lane. Lanes of two
//! runs belong together if their labels are equal, the agent's role or else its name, and their places among lanes of the
//! label by the first step of each: how an agent is called within its role changes nothing. Which of two agents came first
//! is scheduling and is in no key (docs/reference/definitions.md, D35).
//!
//! - [`steps`], [`align`]: the steps with their keys, and the alignment of two sequences of them
//! - [`turns`]: the turns in which agents act, with what the record says of each
//! - [`table`]: both as tables

pub mod align;
pub mod steps;
pub mod table;
pub mod turns;

pub use table::{blame_candidates, lane_steps};
