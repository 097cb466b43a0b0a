//! End-to-end tests of the durable queue in `halfopen serve`: the real binary, real sockets, a real store, a dependency
//! that misbehaves to order and remembers every invoice it was sent.
//!
//! The dependency and the caller are those of the gateway's tests. What must hold is read where a user reads it: in
//! answers, in `/jobs`, and in the audit of the store. Nothing waits by sleeping.

mod accepting;
mod crash;
#[expect(clippy::unwrap_used, reason = "a disk that cannot be built is a failed test")]
mod disk;
mod drain;
mod faults;
mod full;
mod herd;
#[expect(clippy::unwrap_used, reason = "a lock that is not to be had is a failed test")]
mod hiccups;
mod kinds;
mod leases;
mod ledger;
mod many;
mod on_done;
mod progress;
mod story;
mod waiting;

#[path = "../gateway/client.rs"]
#[expect(clippy::unwrap_used, dead_code, reason = "a caller that cannot call is a failed test; shared")]
mod client;
#[path = "../it/receiver.rs"]
#[expect(dead_code, reason = "shared with the alerts' tests")]
mod receiver;
#[path = "../gateway/stub.rs"]
#[expect(clippy::unwrap_used, dead_code, reason = "a dependency that cannot be built is a failed test; shared")]
mod stub;
#[path = "../gateway/world.rs"]
#[expect(clippy::unwrap_used, dead_code, reason = "a world that cannot be built is a failed test; shared")]
mod world;
