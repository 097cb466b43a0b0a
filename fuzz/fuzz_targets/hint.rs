//! Any outcome as a source of hints: never a panic, never the past, and no dependence on the order of headers.
#![no_main]

#[path = "../holds/hint.rs"]
mod holds;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    holds::hint(bytes);
});
