//! Any bytes: the tables do not depend on how they are cut into blocks.

#![no_main]

#[path = "../../orchestrace-core/tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| invariants::tables_do_not_depend_on_the_cut(bytes));
