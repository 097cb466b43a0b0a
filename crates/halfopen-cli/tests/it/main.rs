//! End-to-end tests of `halfopen run`: the real binary, real children, a real store, a cleared environment.
//!
//! One binary, one file per behaviour. A test that stands for a scenario or a row of the drill says which. Nothing here
//! waits by sleeping: conditions are polled with a deadline, and what must not happen is proved by counting.

mod agent;
mod alerts;
mod branches;
mod breaker;
#[path = "../gateway/collector.rs"]
#[expect(clippy::unwrap_used, reason = "a message that cannot be read is a failed test")]
mod collector;
mod crash;
mod drain;
mod earlier;
mod emitted;
mod herd;
mod input;
mod nested;
mod observe;
mod output;
mod queue;
mod receiver;
mod report;
mod retry;
mod sandbox;
mod signals;
mod store;
mod terminal;
mod trace;
mod waits;
mod ways_out;
