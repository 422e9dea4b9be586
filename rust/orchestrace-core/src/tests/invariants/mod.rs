//! What holds whatever the bytes. Proptest asks it of the bytes that it makes up (`properties.rs`), libFuzzer of
//! those that it searches for (`rust/fuzz`, which includes this file), and `regressions.rs` of those that once broke it.

#![allow(dead_code)] // each of those who include it asks for a part
#![allow(unreachable_pub)]
#![allow(clippy::unwrap_used)] // where a test cannot go on, it stops

pub mod formats;
pub mod reading;
pub mod streams;
pub mod syntax;
pub mod tables;
pub mod targets;
