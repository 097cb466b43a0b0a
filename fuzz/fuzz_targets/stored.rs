//! Any text as something that lies in a store: never a panic, and what is read is written so that it reads the same.
#![no_main]

#[path = "../holds/stored.rs"]
mod holds;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    holds::stored(bytes);
});
