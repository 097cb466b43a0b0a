//! Any text as a policy file: never a panic, every finding inside the text, and what is taken is trusted.
#![no_main]

#[path = "../holds/policy.rs"]
mod holds;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Ok(text) = std::str::from_utf8(bytes) {
        holds::policy(text);
    }
});
