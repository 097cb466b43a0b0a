//! Any bytes on a connection: never a panic, no dependence on where they are cut, and what passes means one thing.
#![no_main]

#[path = "../holds/framing.rs"]
mod holds;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = holds::framing(bytes);
});
