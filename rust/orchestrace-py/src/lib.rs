//! The Python module `orchestrace._core`: a table of contents. A function here parses arguments, calls the
//! core and wraps the result; where there is a loop over events, it is in the core.
#![deny(unsafe_code)]
// What Python hands in arrives owned, whether it is consumed or not.
#![allow(clippy::needless_pass_by_value)]

use pyo3::prelude::*;

mod arrays;
mod call;
mod corpus;
mod credit;
mod episodes;
mod error;
mod evidence;
mod files;
mod freed;
mod games;
mod generate;
mod lanes;
mod metrics;
mod planted;
mod reader;
mod recycled;
mod registry;
mod replay;
mod rewards;
mod rows;
mod safety;
mod schedule;
mod search;
mod stream;
mod structural;
mod units;
mod waste;

// The allocator of musl has one lock for all threads.
#[cfg(all(target_os = "linux", target_env = "musl"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// The compiled part of orchestrace.
#[pymodule]
mod _core {
    use orchestrace_core::ingest::names;
    use pyo3::prelude::*;
    use pyo3::types::PyTuple;

    #[pymodule_export]
    use super::arrays::{generalized, relative};
    #[pymodule_export]
    use super::call::{check_process, mark_orphaned};
    #[pymodule_export]
    use super::corpus::{PyStore, read};
    #[pymodule_export]
    use super::credit::{contexts, credit, rewards, roll_up};
    #[pymodule_export]
    use super::episodes::stamp_episodes;
    #[pymodule_export]
    use super::evidence::{own_rows, terms};
    #[pymodule_export]
    use super::games::solve_game;
    #[pymodule_export]
    use super::generate::generate;
    #[pymodule_export]
    use super::lanes::{align_lanes, blame_candidates, lane_steps};
    #[pymodule_export]
    use super::metrics::{dominators, drag, lifetimes, member_metrics, metric_definitions, trace_metrics};
    #[pymodule_export]
    use super::planted::generate_planted;
    #[pymodule_export]
    use super::reader::{
        PyPart, PyPartition, PyTraceIndex, PyTraceReader, copy_records, fingerprint, formats, locate,
        record_bytes,
    };
    #[pymodule_export]
    use super::registry::{codes, importers, methods, nearest, presets, tables};
    #[pymodule_export]
    use super::replay::{PyGates, faithfulness};
    #[pymodule_export]
    use super::rewards::{pay, reward_is_diagnostic, reward_params, reward_rules, reward_windows};
    #[pymodule_export]
    use super::rows::open_rows_with;
    #[pymodule_export]
    use super::safety::{attack_vectors, sanitizer_cut, taint, tainted_events};
    #[pymodule_export]
    use super::schedule::{replay_schedules, schedule};
    #[pymodule_export]
    use super::search::{owners, search};
    #[pymodule_export]
    use super::stream::Stream;
    #[pymodule_export]
    use super::structural::{replay_presence, replay_structural};
    #[pymodule_export]
    use super::units::{ownership, unit_ids};
    #[pymodule_export]
    use super::waste::{failure_classes, waste_events};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("DECISIONS", super::registry::decisions(module.py())?)?;
        module.add("TYPE_WEIGHTS", super::registry::type_weights(module.py())?)?;
        module.add("SCHEMA_VERSION", orchestrace_core::schema::SCHEMA_VERSION)?;
        module.add("LOSSY_CODES", super::registry::lossy_codes(module.py())?)?;
        module.add("RECORDING_SUFFIXES", PyTuple::new(module.py(), names::RECORDINGS)?)?;
        module.add("ARCHIVE_SUFFIXES", PyTuple::new(module.py(), names::ARCHIVES)?)?;
        module.add("COMPRESSED_SUFFIXES", PyTuple::new(module.py(), names::COMPRESSED)?)?;
        module.add("VERSION", env!("CARGO_PKG_VERSION"))?;
        module.add("DEBUG_BUILD", cfg!(debug_assertions))?;
        super::error::register(module)
    }
}
