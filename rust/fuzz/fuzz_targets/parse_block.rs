//! Any bytes: reading ends, and every record is a trace or a reject.

#![no_main]

#[path = "../../orchestrace-core/tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| invariants::records_are_settled(bytes));
