//! Anything that an operator may ask: never a panic, and every mistake is told in one line.
#![no_main]

#[path = "../holds/admin.rs"]
mod holds;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = holds::admin(bytes);
});
