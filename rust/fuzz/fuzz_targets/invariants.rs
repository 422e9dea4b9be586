//! All targets in one program, so that the engine is built and linked once: `ORCHESTRACE_FUZZ_TARGET` names one of
//! `tests/invariants/targets.rs` of the core; without it their names are printed.

#![no_main]

use std::sync::OnceLock;

use orchestrace_core::run::Run;

#[path = "../../orchestrace-core/src/tests/invariants/mod.rs"]
mod invariants;

use invariants::targets;

static TARGET: OnceLock<String> = OnceLock::new();

libfuzzer_sys::fuzz_target!(
    init: {
        let Ok(target) = std::env::var("ORCHESTRACE_FUZZ_TARGET") else {
            targets::names().iter().for_each(|name| println!("{name}"));
            std::process::exit(0);
        };
        let known = targets::names().contains(&target);
        assert!(known, "no target '{target}'; expected one of {}", targets::names().join(", "));
        TARGET.get_or_init(|| target);
    },
    |bytes: &[u8]| {
        let Some(target) = TARGET.get() else { return };
        // On the thread of the pool that readings with one thread have: from there they need not be handed over.
        Run::new(Some(1)).expect("a thread").pool().install(|| targets::ask(target, bytes));
    }
);
