//! The circuit from outside: stories, properties, a naive model beside it, and what is stored of it.

#![expect(clippy::unwrap_used, reason = "the helpers of tests are tests too")]
#![expect(clippy::disallowed_methods, reason = "tests read their corpus and their golden files")]

#[path = "../../../../fuzz/holds/circuit.rs"]
mod holds;
mod model;
mod walk;
mod world;

mod corpus;
mod properties;
mod stored;
mod stories_breaker;
mod stories_free;
mod stories_operator;
mod stories_pair;
mod stories_ramp;
mod stories_reboot;
mod stories_throttle;
mod stories_told;
