//! Says what an instant is: milliseconds of a clock that no step of the wall clock moves.
//!
//! Circuits outlive processes, so an instant must mean the same to all of them. The edge keeps one anchor per boot
//! (wall clock minus boot time) and computes `now = anchor + boot time`; that sum is a [`Timestamp`]. It looks like
//! unix time and is good enough to be shown, but it is never read from the wall clock directly: a step of that clock
//! would otherwise end a cooldown early or make it last for days.
//!
//! Absolute dates that a dependency names ("resets 3pm") refer to the wall clock. They are turned into a duration
//! where they are read, with the [`ReadAt`] of that reading, and into a [`Timestamp`] only then.
//!
//! This module does not read any clock.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

/// An instant of the steady clock: milliseconds since the unix epoch as the anchor of this boot counts them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The earliest instant that can be written.
    pub const MIN: Self = Self(i64::MIN);
    /// The latest instant that can be written.
    pub const MAX: Self = Self(i64::MAX);

    /// Returns the instant that lies `millis` milliseconds after the unix epoch.
    #[must_use]
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis)
    }

    /// Returns the milliseconds since the unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the time that passed since `earlier`, or zero if `earlier` lies in the future.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        let millis = i128::from(self.0) - i128::from(earlier.0);
        Duration::from_millis(u64::try_from(millis.max(0)).unwrap_or(u64::MAX))
    }

    /// Returns the time left until `later`, or zero if `later` has passed.
    #[must_use]
    pub fn until(self, later: Self) -> Duration {
        later.since(self)
    }
}

/// Returns whole milliseconds, rounded up, so that a wait is never shorter than what was asked for.
pub(crate) fn ceil_millis(duration: Duration) -> i64 {
    let nanos = duration.as_nanos();
    i64::try_from(nanos.div_ceil(1_000_000)).unwrap_or(i64::MAX)
}

impl Add<Duration> for Timestamp {
    type Output = Self;

    /// Returns the instant `rhs` later, rounded up to a millisecond; saturates at [`Timestamp::MAX`].
    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(ceil_millis(rhs)))
    }
}

impl Sub<Duration> for Timestamp {
    type Output = Self;

    /// Returns the instant `rhs` earlier, rounded to a millisecond away from now; saturates at [`Timestamp::MIN`].
    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(ceil_millis(rhs)))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}ms", self.0)
    }
}

/// What the clocks said when an outcome was read: the steady instant, the wall clock beside it, and the zone of a
/// clock time that is printed without one.
#[derive(Clone, Debug)]
pub struct ReadAt {
    /// The steady clock; every deadline derived from a hint is this plus a duration.
    pub now: Timestamp,
    /// The wall clock in milliseconds since the unix epoch, for dates that a dependency names.
    pub wall_ms: i64,
    /// The zone in which a clock time without a zone is meant.
    pub zone: jiff::tz::TimeZone,
}

impl ReadAt {
    /// Returns a reading in which both clocks agree, in UTC.
    #[must_use]
    pub fn utc(now: Timestamp) -> Self {
        Self { now, wall_ms: now.as_millis(), zone: jiff::tz::TimeZone::UTC }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_and_rounds_waits_up() {
        let t = Timestamp::from_millis(10);
        assert_eq!((t + Duration::from_micros(1)).as_millis(), 11);
        assert_eq!((Timestamp::MAX + Duration::from_secs(1)), Timestamp::MAX);
        assert_eq!((Timestamp::MIN - Duration::from_secs(1)), Timestamp::MIN);
        assert_eq!(Timestamp::MIN.since(Timestamp::MAX), Duration::ZERO);
        assert_eq!(Timestamp::MAX.since(Timestamp::MIN), Duration::from_millis(u64::MAX));
    }
}
