//! Computes the waits between attempts of one call.
//!
//! For every input, also absurd ones, a wait lies between zero and the policy's longest; it neither wraps nor becomes
//! negative. A wait that is computed at all is at least a millisecond, so that no attempt follows another without a
//! pause, whatever was drawn.

use std::time::Duration;

use crate::chance::Chance;
use crate::policy::{Backoff, Growth, Jitter};

/// The shortest wait between two attempts, where the policy allows one at all.
const SHORTEST: Duration = Duration::from_millis(1);

/// Returns the wait after the `attempt`-th attempt (1-based): `base × 2^(attempt−1)`, at most `max`, jittered.
#[must_use]
pub fn wait(backoff: &Backoff, attempt: u32, chance: Chance) -> Duration {
    let grown = match backoff.growth {
        Growth::Constant => backoff.base,
        Growth::Exponential => doubled(backoff.base, attempt.saturating_sub(1)),
    };
    let full = grown.min(backoff.max);
    let jittered = match backoff.jitter {
        Jitter::None => full,
        Jitter::Equal => {
            let half = full / 2;
            half.saturating_add(share(full.saturating_sub(half), chance))
        }
        Jitter::Full => share(full, chance),
    };
    jittered.max(SHORTEST.min(full))
}

/// Returns `base × 2^times`; what does not fit becomes the longest duration.
fn doubled(base: Duration, times: u32) -> Duration {
    // 2^95 ns is beyond the longest duration, so that more doublings change nothing.
    let nanos = base.as_nanos().saturating_mul(1u128 << times.min(100));
    let secs = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
    let rest = u32::try_from(nanos % 1_000_000_000).unwrap_or(0);
    Duration::new(secs, rest)
}

/// Returns a random share of `whole`, in `[0, whole)`, or zero.
pub(crate) fn share(whole: Duration, chance: Chance) -> Duration {
    Duration::try_from_secs_f64(whole.as_secs_f64() * chance.unit()).unwrap_or(whole).min(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use test_case::test_case;

    fn plain(base_ms: u64, max_ms: u64) -> Backoff {
        Backoff {
            base: Duration::from_millis(base_ms),
            max: Duration::from_millis(max_ms),
            growth: Growth::Exponential,
            jitter: Jitter::None,
        }
    }

    #[test_case(1, 1000)]
    #[test_case(2, 2000)]
    #[test_case(3, 4000)]
    #[test_case(7, 60_000; "capped")]
    #[test_case(u32::MAX, 60_000; "never wraps")]
    #[test_case(0, 1000; "attempts are numbered from 1, a wrong 0 counts as 1")]
    fn the_wait_doubles_up_to_its_cap(attempt: u32, ms: u64) {
        assert_eq!(wait(&plain(1000, 60_000), attempt, Chance::from_seed(0)), Duration::from_millis(ms));
    }

    #[test_case(1000, 10, 10; "a cap below the base is applied")]
    #[test_case(u64::MAX, 60_000, 60_000; "an absurd base")]
    #[test_case(0, 60_000, 0; "no base, no wait")]
    fn extreme_settings_stay_below_the_cap_s108(base_ms: u64, max_ms: u64, ms: u64) {
        for attempt in 1..=100 {
            let wait = wait(&plain(base_ms, max_ms), attempt, Chance::from_seed(0));
            assert_eq!(wait, Duration::from_millis(ms));
        }
    }

    #[test]
    fn equal_jitter_keeps_half_s107() {
        let backoff = Backoff { jitter: Jitter::Equal, ..plain(1000, 3_600_000) };
        for attempt in 13..10_000 {
            let wait = wait(&backoff, attempt, Chance::from_seed(u64::from(attempt)));
            assert!((Duration::from_secs(1800)..=Duration::from_secs(3600)).contains(&wait), "{attempt}: {wait:?}");
        }
    }

    #[test]
    fn constant_growth_stays() {
        let backoff = Backoff { growth: Growth::Constant, ..plain(700, 60_000) };
        assert_eq!(wait(&backoff, 9, Chance::from_seed(0)), Duration::from_millis(700));
    }

    proptest! {
        #[test]
        fn a_wait_is_never_longer_than_its_cap_and_never_nothing(
            base in any::<Duration>(), max in any::<Duration>(), attempt in any::<u32>(), seed in any::<u64>(),
            jitter in prop_oneof![Just(Jitter::None), Just(Jitter::Equal), Just(Jitter::Full)],
            growth in prop_oneof![Just(Growth::Constant), Just(Growth::Exponential)],
        ) {
            let backoff = Backoff { base, max, growth, jitter };
            let wait = wait(&backoff, attempt, Chance::from_seed(seed));
            prop_assert!(wait <= max);
            prop_assert!(wait >= SHORTEST.min(base).min(max));
        }
    }
}
