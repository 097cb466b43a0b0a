//! End-to-end tests of `halfopen serve`: the real binary, real sockets, a dependency that misbehaves to order.
//!
//! One binary, one file per behaviour. A test that stands for a scenario says which. The dependency ([`stub`]) and the
//! caller ([`client`]) speak raw bytes, so that what no library would send or accept can be sent and seen. Nothing here
//! waits by sleeping: conditions are polled with a deadline; only the dependency takes its time, as it was told to.

mod access;
#[expect(clippy::unwrap_used, reason = "a store that cannot be read is a failed test")]
mod alerts;
mod bodies;
mod breaker;
#[expect(clippy::unwrap_used, reason = "a caller that cannot call is a failed test")]
mod client;
#[expect(clippy::unwrap_used, reason = "a message that cannot be read is a failed test")]
mod collector;
mod connections;
mod crossing;
mod cut_short;
mod door;
#[expect(clippy::unwrap_used, reason = "a drill that cannot be begun is a failed test")]
mod drills;
#[expect(clippy::unwrap_used, reason = "a line that cannot be read is a failed test")]
mod emitted;
mod ending;
#[expect(clippy::unwrap_used, reason = "a stream that cannot be read is a failed test")]
mod events;
mod framing;
mod health;
mod hostile;
mod http2;
mod live;
mod log;
mod metrics;
mod otlp;
#[expect(clippy::unwrap_used, reason = "an answer that cannot be read is a failed test")]
mod operators;
#[expect(clippy::unwrap_used, reason = "a file that cannot be read is a failed test")]
mod packaging;
mod probes;
mod retries;
mod path;
#[path = "../it/receiver.rs"]
mod receiver;
mod refuse;
mod reload;
#[expect(clippy::unwrap_used, reason = "a command that cannot be run is a failed test")]
mod remote;
mod secrets;
mod shutdown;
mod streams;
#[expect(clippy::unwrap_used, reason = "a socket that cannot be read is a failed test")]
mod systemd;
#[expect(clippy::unwrap_used, reason = "a dependency that cannot be built is a failed test")]
mod stub;
mod tls;
#[expect(clippy::unwrap_used, reason = "a world that cannot be built is a failed test")]
mod world;
