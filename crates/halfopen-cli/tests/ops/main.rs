//! The operator's commands through the real binary, each test in a home of its own.

#[expect(clippy::unwrap_used, reason = "a world that cannot be built is a failed test")]
mod world;
mod check;
mod circuits;
mod classify;
mod init;
mod output;
mod report;
