//! `halfopen drill` through the real binary: green where a policy protects, red where it does not, and able to fail.

#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod world;
mod policies;
mod any_policy;
mod mutants;
mod output;
mod scenarios;
mod through;
mod live;
