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

/// A deadline with the length it was set with, in whole milliseconds.
///
/// The length is what makes a deadline survive a reboot: the anchor of the new boot is read from a wall clock that may
/// have been stepped meanwhile, and a deadline that lies further ahead than its own length can only be such a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline {
    /// The instant.
    pub(crate) at: Timestamp,
    /// How far ahead it lay when it was set, in milliseconds.
    pub(crate) lasting_ms: u64,
}

impl Deadline {
    /// Returns the deadline that lies `lasting` after `now`.
    pub(crate) fn after(now: Timestamp, lasting: Duration) -> Self {
        Self::at(now, now + lasting)
    }

    /// Returns the deadline `at`, set at `now`.
    pub(crate) fn at(now: Timestamp, at: Timestamp) -> Self {
        Self { at, lasting_ms: millis(now.until(at)) }
    }

    /// Returns whether it has passed at `now`.
    pub(crate) fn is_over(self, now: Timestamp) -> bool {
        self.at <= now
    }

    /// Returns the later of this deadline and `until`, which is learnt at `now`.
    pub(crate) fn extended(self, now: Timestamp, until: Timestamp) -> Self {
        if until > self.at { Self::at(now, until) } else { self }
    }

    /// Cuts a deadline that lies further ahead of `now` than it was set with.
    pub(crate) fn cut(&mut self, now: Timestamp) {
        self.at = self.at.min(now + Duration::from_millis(self.lasting_ms));
    }
}

/// Returns whole milliseconds, rounded up; what does not fit becomes the largest number.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
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

    #[test]
    fn an_instant_is_shown_with_its_unit() {
        assert_eq!(format!("{:?}", Timestamp::from_millis(-5)), "-5ms");
    }

    #[test]
    fn a_deadline_is_cut_to_its_own_length_and_never_moved_closer() {
        let now = Timestamp::from_millis(1000);
        let set = Deadline::after(now, Duration::from_secs(60));
        let mut after_a_day_back = set;
        after_a_day_back.cut(Timestamp::from_millis(-86_400_000));
        assert_eq!(after_a_day_back.at, Timestamp::from_millis(-86_400_000) + Duration::from_secs(60));
        let mut later = set;
        later.cut(now + Duration::from_secs(10));
        assert_eq!(later, set);
    }

    #[test]
    fn a_deadline_only_extends() {
        let now = Timestamp::from_millis(0);
        let set = Deadline::after(now, Duration::from_secs(60));
        assert_eq!(set.extended(now, now + Duration::from_secs(1)), set);
        assert_eq!(set.extended(now, now + Duration::from_secs(61)).lasting_ms, 61_000);
        // The same instant, told again later, is the same deadline: it is not cut shorter after a reboot.
        let again = now + Duration::from_secs(20);
        assert_eq!(set.extended(again, now + Duration::from_secs(60)), set);
    }
}
