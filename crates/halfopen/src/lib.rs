//! Keeps circuits and waits for them: the store, the steady clock, the one door, the policy file.
//!
//! The decisions are `halfopen_core`'s. This crate loads, locks and saves around them, reads the clocks and draws the
//! chance they need. It does not talk to people: that is `halfopen-cli`.
//!
//! | feature | adds |
//! |---|---|
//! | `sqlite` (default) | the store in a file |
//! | `virtual-time` | clocks that stand still until they are moved, for drills |
//! | `test-util` | `virtual-time`, for tests of programs built on this |

#![cfg_attr(not(test), warn(clippy::unwrap_used))]
#![cfg_attr(
    not(feature = "sqlite"),
    expect(dead_code, unused_variables, reason = "patience and boots matter to a store in a file only")
)]

pub mod handle;
pub mod guard;
pub mod clock;
pub mod config;
pub mod store;
pub mod activation;
pub mod attendance;
pub mod fingerprint;

pub use halfopen_core as core;
