//! Any stream of events: never a panic, bounded, no dependence on where it is cut.
#![no_main]

#[path = "../holds/events.rs"]
mod holds;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let _ = holds::events(bytes);
});
