//! End-to-end tests of the dashboard: the real binary, real sockets, and a real browser.
//!
//! `pages`, `acts` and `signing_in` read pages as they are sent, without any script: what a reader without scripts, a
//! program and an attacker see. `browser` looks at them in Chromium, live. The dependency and the caller are those of the
//! gateway's tests. Nothing waits by sleeping.

mod acts;
mod browser;
#[expect(clippy::unwrap_used, reason = "a browser that cannot be driven is a failed test")]
mod driver;
#[expect(clippy::unwrap_used, reason = "a page that cannot be read is a failed test")]
mod html;
#[expect(clippy::unwrap_used, reason = "a stream that cannot be read is a failed test")]
mod live;
mod many;
mod pages;
mod signing_in;

#[path = "../gateway/client.rs"]
#[expect(clippy::unwrap_used, dead_code, reason = "a caller that cannot call is a failed test; shared")]
mod client;
#[path = "../queue/ledger.rs"]
#[expect(dead_code, reason = "shared")]
mod ledger;
#[path = "../gateway/stub.rs"]
#[expect(clippy::unwrap_used, dead_code, reason = "a dependency that cannot be built is a failed test; shared")]
mod stub;
#[path = "../gateway/world.rs"]
#[expect(clippy::unwrap_used, dead_code, reason = "a world that cannot be built is a failed test; shared")]
mod world;
