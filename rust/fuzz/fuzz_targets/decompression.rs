//! Any bytes, as a compressed stream and as what a damaged one is made of.

#![no_main]

#[path = "../../orchestrace-core/tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    invariants::decompression_ends_within_its_limits(bytes);
    invariants::damaged_streams_end_within_their_limits(bytes);
});
