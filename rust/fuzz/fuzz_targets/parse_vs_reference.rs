//! Any text: what is JSON is what `serde_json` takes for it.

#![no_main]

#[path = "../../orchestrace-core/tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        invariants::syntax_is_that_of_serde_json(text);
    }
});
