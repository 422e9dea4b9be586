//! Schedules of recorded runs: the same events on fewer slots, with faster tools, without an agent.
//!
//! Nothing is run again. What events did stays as it was recorded, and so does what they waited for; what changes is
//! when they happen. Results are of the tier `schedule`.
//!
//! - [`durations`]: how long events took, and when they began (D7)
//! - [`scenario`]: what can be asked; [`work`], [`split`]: what that does to durations, events and edges
//! - [`span`]: unlimited slots: earliest times, slack, the critical path (D8)
//! - [`events`], [`ready`]: k slots, event by event (D10)
//! - [`replayed`]: all scenarios of one trace; [`table`]: those of a store, as columns

pub mod durations;
pub mod events;
pub mod ready;
pub mod replayed;
pub mod scenario;
pub mod span;
pub mod split;
pub mod table;
pub mod work;

#[cfg(test)]
mod tests;

pub use durations::{Durations, Lengths, MaxGap, Release, Rule};
pub use replayed::{Outlook, Replayer};
pub use scenario::{Cascade, Change, Pool, Queue, Scenario, Select};
pub use table::{Options, replays, schedule};
