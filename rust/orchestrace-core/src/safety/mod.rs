//! Untrusted content: its spread, and where sanitizers could have stopped it (D17).
//!
//! - [`taint`]: the closure of what begins untrusted, its paths, the chance that it carries
//! - [`channel`], [`vectors`]: by which way it came in, and the attack vectors of the survey that it shows (D40)
//! - [`touch`]: what it touched first: decisions, spawns, privileged calls, agents
//! - [`cut`]: the cheapest set of events to clean so that the outcome stays clean
//! - [`by_trace`], [`by_event`], [`by_vector`]: all traces of a store, as columns; [`table`]: what these share
//!
//! The assumption is that of the edges: a result goes wherever its event leads. That is an upper bound, since nothing
//! says whether the untrusted part went along.

pub mod by_event;
pub mod by_trace;
pub mod by_vector;
pub mod channel;
pub mod cut;
pub mod table;
pub mod taint;
pub mod touch;
pub mod vectors;

pub use by_event::{sanitizer_cuts, tainted_events};
pub use by_trace::taints;
pub use by_vector::attack_vectors;
pub use channel::{Channel, Channels};
pub use cut::SanitizerCut;
pub use table::Options;
pub use taint::{Carry, Named, Risk, Rules, Scene, Taint, Tally, Tools};
pub use touch::{Touch, Touches};
pub use vectors::{Vector, VectorSearch};
