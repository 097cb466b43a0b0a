//! Keeps circuits and waits for them: the store, the steady clock, the one door, the policy file.
//!
//! The decisions are `halfopen_core`'s. This crate loads, locks and saves around them, reads the clocks and draws the
//! chance they need. It does not talk to people: that is `halfopen-cli`.

pub mod handle;
pub mod clock;
pub mod config;
pub mod store;
pub mod activation;

pub use halfopen_core as core;
