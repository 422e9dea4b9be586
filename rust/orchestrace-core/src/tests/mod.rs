//! Tests that use the core as its dependents do, by the paths that they have. They are compiled with the tests beside
//! the code: as programs of their own each links the core anew, and all of them need it built a second time.

mod batches;
pub(crate) mod cases;
mod contract;
mod framing;
mod from_arrow;
mod golden;
mod invariants;
mod projection;
mod properties;
mod regressions;
