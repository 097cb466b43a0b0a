//! Writes instants: for scripts in RFC 3339 and UTC, for people in their own zone and with the time that is left.
//!
//! A circuit's deadlines are instants of the steady clock. They are shown on the wall clock as it stands at this moment,
//! so that after a step of the wall clock a printed time is still the time at which the deadline will be met.

use std::time::Duration;

use halfopen_core::time::{ReadAt, Timestamp};
use jiff::tz::TimeZone;

use crate::duration;

/// The last instant that is shown, in milliseconds since the unix epoch: some days before the year 10000, because jiff
/// refuses the very last hours of 9999.
const LAST_SHOWN_MS: i64 = 253_402_000_000_000;

/// What the clocks say while one command runs.
#[derive(Clone, Debug)]
pub(crate) struct When {
    pub(crate) now: Timestamp,
    wall_ms: i64,
    zone: TimeZone,
}

impl When {
    pub(crate) fn read(at: &ReadAt) -> Self {
        Self { now: at.now, wall_ms: at.wall_ms, zone: at.zone.clone() }
    }

    /// Returns the clocks of a reader of documents: instants are those of its wall clock.
    pub(crate) fn of_reader() -> Self {
        let wall_ms = wall_ms();
        Self { now: Timestamp::from_millis(wall_ms), wall_ms, zone: TimeZone::system() }
    }

    /// Returns the instant that is written in RFC 3339; `None` if none is.
    pub(crate) fn read_rfc3339(&self, text: &str) -> Option<Timestamp> {
        let read: jiff::Timestamp = text.parse().ok()?;
        let since_now = read.as_millisecond().saturating_sub(self.wall_ms);
        Some(Timestamp::from_millis(self.now.as_millis().saturating_add(since_now)))
    }

    /// Returns an instant in RFC 3339 and UTC.
    pub(crate) fn rfc3339(&self, at: Timestamp) -> String {
        format!("{:.3}", self.wall(at))
    }

    /// Returns an instant as its reader's clock will show it, with the zone's offset: `2026-11-30 15:00:00+09:00`.
    pub(crate) fn local(&self, at: Timestamp) -> String {
        self.wall(at).to_zoned_datetime(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S%:z").to_string()
    }

    /// Returns how long it is until an instant, or since then: `in 4 min 10 s`, `3 h ago`.
    pub(crate) fn relative(&self, at: Timestamp) -> String {
        if at > self.now {
            return format!("in {}", duration::show(self.now.until(at)));
        }
        // What is past is cut, not rounded up: nothing depends on it.
        let seconds = Duration::from_secs(self.now.since(at).as_secs());
        if seconds.is_zero() { "just now".to_owned() } else { format!("{} ago", duration::show(seconds)) }
    }

    /// Returns both: `2026-11-30 15:00:00+09:00 (in 4 min 10 s)`.
    pub(crate) fn both(&self, at: Timestamp) -> String {
        format!("{} ({})", self.local(at), self.relative(at))
    }

    /// Returns an instant of the wall clock on the clock that deadlines are kept by.
    pub(crate) fn of_wall_ms(&self, ms: i64) -> Timestamp {
        Timestamp::from_millis(self.now.as_millis().saturating_add(ms.saturating_sub(self.wall_ms)))
    }

    /// Returns an instant on its reader's clock in a form of `strftime`.
    pub(crate) fn written(&self, at: Timestamp, form: &str) -> String {
        self.wall(at).to_zoned_datetime(self.zone.clone()).strftime(form).to_string()
    }

    fn wall(&self, at: Timestamp) -> jiff::Timestamp {
        let millis = i128::from(at.as_millis()) - i128::from(self.now.as_millis()) + i128::from(self.wall_ms);
        let clamped = millis.clamp(i128::from(jiff::Timestamp::MIN.as_millisecond()), i128::from(LAST_SHOWN_MS));
        i64::try_from(clamped).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok()).unwrap_or_default()
    }
}

/// Returns the wall clock in milliseconds since the unix epoch, for what is not tied to a store's clock.
pub(crate) fn wall_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A quarter of an hour before ten in the evening in Tokyo.
    pub(crate) fn tokyo() -> When {
        let ms = 1_796_043_600_000 - 900_000;
        When { now: Timestamp::from_millis(ms), wall_ms: ms, zone: TimeZone::get("Asia/Tokyo").unwrap() }
    }

    fn when(zone: &str) -> When {
        When { now: Timestamp::from_millis(1_000_000), wall_ms: 1_796_058_000_000, zone: TimeZone::get(zone).unwrap() }
    }

    #[test]
    fn a_deadline_is_shown_on_the_wall_clock_as_it_stands() {
        let when = when("Asia/Tokyo");
        let at = Timestamp::from_millis(1_090_500);
        assert_eq!(when.rfc3339(at), "2026-11-30T17:01:30.500Z");
        assert_eq!(when.both(at), "2026-12-01 02:01:30+09:00 (in 1 min 31 s)");
        assert_eq!(when.read_rfc3339(&when.rfc3339(at)), Some(at));
    }

    #[test]
    fn what_is_past_is_said_to_be() {
        let when = when("UTC");
        assert_eq!(when.relative(Timestamp::from_millis(1_000_000)), "just now");
        assert_eq!(when.relative(Timestamp::from_millis(400_000)), "10 min ago");
    }

    #[test]
    fn no_instant_is_beyond_what_can_be_shown() {
        let when = when("UTC");
        assert!(when.rfc3339(Timestamp::MAX).starts_with("9999-12-"), "{}", when.rfc3339(Timestamp::MAX));
        assert!(when.rfc3339(Timestamp::MIN).starts_with('-'));
    }
}
