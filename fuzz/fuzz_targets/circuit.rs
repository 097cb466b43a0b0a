//! Any bytes as a walk: several processes that ask, settle, die and renew, clocks that run and boots that step them,
//! operators. Never a panic, every promise kept at every stop, and nothing that the naive model would not do.
#![no_main]
#![allow(dead_code, reason = "the tests of the core use more of what they share with this target")]

#[path = "../holds/circuit.rs"]
mod holds;
#[path = "../../crates/halfopen-core/tests/circuit/model.rs"]
mod model;
#[path = "../../crates/halfopen-core/tests/circuit/walk.rs"]
mod walk;
#[path = "../../crates/halfopen-core/tests/circuit/world.rs"]
mod world;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| holds::circuit(bytes));
