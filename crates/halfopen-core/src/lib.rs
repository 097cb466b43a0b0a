//! The decisions of halfopen: what an outcome means, whether a call may start, when it is tried again.
//!
//! Everything here is a plain function of its arguments. This crate reads no clock, draws no random number, performs
//! no IO, spawns nothing, awaits nothing and logs nothing; `now` and chance are arguments, and what happened comes
//! back as events. Its `clippy.toml` bans the ambient ways. Keeping and waiting is the crate `halfopen`, touching the
//! world is `halfopen-cli`.

#![cfg_attr(not(test), warn(clippy::unwrap_used))]

pub mod time;
pub mod chance;
pub mod policy;
pub mod outcome;
pub mod hint;
pub mod classify;
pub mod verdict;
pub mod redact;
pub mod backoff;
pub mod retry;
pub mod permit;
mod window;
mod breaker;
mod throttle;
mod ramp;
pub mod circuit_id;
pub mod circuit;
pub mod pair;
pub mod job;
pub mod event;
pub mod alert;
pub mod snapshot;
