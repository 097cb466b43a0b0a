//! Any text as a scenario: never a panic, an end, and one result.
#![no_main]

#[path = "../holds/drill.rs"]
mod holds;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        let _ = holds::drill(text);
    }
});
