//! Computes the waits between attempts of one call.

use std::time::Duration;

use crate::chance::Chance;
use crate::policy::Backoff;

/// Returns the wait after the `attempt`-th attempt (1-based): `base × 2^(attempt−1)`, at most `max`, jittered.
#[must_use]
pub fn wait(_backoff: &Backoff, _attempt: u32, _chance: Chance) -> Duration {
    unimplemented!()
}
