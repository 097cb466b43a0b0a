//! Reads the steady clock that all processes of one boot share, and the wall clock beside it.
//!
//! A breaker outlives processes, so its deadlines must mean the same to all of them, and no step of the wall clock
//! (NTP, a person, a restored virtual machine) may end a cooldown early or stretch it for days. So the store keeps one
//! *anchor* per boot, the wall clock minus the time since boot as the first process saw them, and every process of that
//! boot computes `now = anchor + time since boot`. CLOCK_BOOTTIME counts suspend, so a laptop that slept through a
//! cooldown has sat it out. Two boots are told apart by the kernel's random boot id.
//!
//! `std::time::Instant` was refused: it means nothing to another process, and CLOCK_MONOTONIC stands still in suspend.
//!
//! The wall clock appears in [`Clock::read`] only, for dates that a dependency names, and to make an anchor.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use halfopen_core::time::{ReadAt, Timestamp};

#[cfg(any(test, feature = "virtual-time"))]
pub use manual::ManualClock;

/// Where `now` comes from. Clones share their anchor.
#[derive(Clone, Debug)]
pub struct Clock {
    anchor_ms: Arc<AtomicI64>,
    source: Source,
}

#[derive(Clone, Debug)]
enum Source {
    System,
    #[cfg(any(test, feature = "virtual-time"))]
    Manual(ManualClock),
}

/// What identifies this boot, and the anchor it would get if it got one now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Boot {
    /// The kernel's boot id; empty where the kernel does not tell.
    pub(crate) id: String,
    /// The wall clock minus the time since boot, in milliseconds.
    pub(crate) anchor_ms: i64,
}

/// How far two anchors may lie apart and still be of one boot, where the kernel names no boot id: far more than clocks
/// are slewed, far less than a machine is up.
const SAME_BOOT_MS: i64 = 600_000;

impl Boot {
    /// Returns whether an anchor that was stored under `id` belongs to this boot.
    pub(crate) fn is(&self, id: &str, anchor_ms: i64) -> bool {
        if self.id.is_empty() {
            id.is_empty() && self.anchor_ms.abs_diff(anchor_ms) < SAME_BOOT_MS as u64
        } else {
            self.id == id
        }
    }
}

impl Clock {
    /// Returns the clock of this machine. Until a store names the anchor of this boot it uses one of its own.
    #[must_use]
    pub fn system() -> Self {
        Self::from_source(Source::System)
    }

    /// Returns a clock that stands still until it is moved. Every such clock has its own anchor, as every process has.
    #[cfg(any(test, feature = "virtual-time"))]
    #[must_use]
    pub fn manual(manual: &ManualClock) -> Self {
        Self::from_source(Source::Manual(manual.clone()))
    }

    fn from_source(source: Source) -> Self {
        let anchor_ms = source.wall_ms().saturating_sub(source.since_boot_ms());
        Self { anchor_ms: Arc::new(AtomicI64::new(anchor_ms)), source }
    }

    /// Returns the steady instant.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.anchor_ms().saturating_add(self.source.since_boot_ms()))
    }

    /// Returns both clocks and the local zone (`TZ`, else the system's).
    #[must_use]
    pub fn read(&self) -> ReadAt {
        ReadAt { now: self.now(), wall_ms: self.source.wall_ms(), zone: self.source.zone() }
    }

    /// Returns the anchor in use, in milliseconds.
    pub(crate) fn anchor_ms(&self) -> i64 {
        self.anchor_ms.load(Ordering::Relaxed)
    }

    /// Uses the anchor that the store keeps for this boot.
    pub(crate) fn adopt(&self, anchor_ms: i64) {
        self.anchor_ms.store(anchor_ms, Ordering::Relaxed);
    }

    /// Returns what identifies this boot.
    pub(crate) fn boot(&self) -> Boot {
        let anchor_ms = self.source.wall_ms().saturating_sub(self.source.since_boot_ms());
        Boot { id: self.source.boot_id(), anchor_ms }
    }
}

impl Source {
    fn wall_ms(&self) -> i64 {
        match self {
            Self::System => match SystemTime::now().duration_since(UNIX_EPOCH) {
                Ok(since) => i64::try_from(since.as_millis()).unwrap_or(i64::MAX),
                Err(before) => i64::try_from(before.duration().as_millis()).map_or(i64::MIN, |ms| -ms),
            },
            #[cfg(any(test, feature = "virtual-time"))]
            Self::Manual(manual) => manual.wall_ms(),
        }
    }

    fn since_boot_ms(&self) -> i64 {
        match self {
            Self::System => {
                let since = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
                since.tv_sec.saturating_mul(1000).saturating_add(since.tv_nsec / 1_000_000)
            }
            #[cfg(any(test, feature = "virtual-time"))]
            Self::Manual(manual) => manual.since_boot_ms(),
        }
    }

    fn boot_id(&self) -> String {
        match self {
            Self::System => std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
                .map(|id| id.trim().to_owned())
                .unwrap_or_default(),
            #[cfg(any(test, feature = "virtual-time"))]
            Self::Manual(manual) => manual.boot_id(),
        }
    }

    fn zone(&self) -> jiff::tz::TimeZone {
        match self {
            Self::System => jiff::tz::TimeZone::system(),
            #[cfg(any(test, feature = "virtual-time"))]
            Self::Manual(_) => jiff::tz::TimeZone::UTC,
        }
    }
}

#[cfg(any(test, feature = "virtual-time"))]
mod manual {
    use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
    use std::time::Duration;

    /// The clocks of a machine in a test or a drill: they stand still until they are moved.
    #[derive(Clone, Debug)]
    pub struct ManualClock(Arc<Mutex<Hands>>);

    #[derive(Debug)]
    struct Hands {
        wall_ms: i64,
        since_boot_ms: i64,
        boot_id: String,
    }

    impl ManualClock {
        /// Returns a machine that was booted an hour ago and whose wall clock shows `wall_ms`, in milliseconds since
        /// the unix epoch.
        #[must_use]
        pub fn new(wall_ms: i64) -> Self {
            Self(Arc::new(Mutex::new(Hands { wall_ms, since_boot_ms: 3_600_000, boot_id: "boot-1".to_owned() })))
        }

        /// Lets time pass.
        pub fn advance(&self, time: Duration) {
            let ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
            let mut hands = self.hands();
            hands.wall_ms = hands.wall_ms.saturating_add(ms);
            hands.since_boot_ms = hands.since_boot_ms.saturating_add(ms);
        }

        /// Steps the wall clock alone, by milliseconds in either direction.
        pub fn step_wall(&self, by_ms: i64) {
            let mut hands = self.hands();
            hands.wall_ms = hands.wall_ms.saturating_add(by_ms);
        }

        /// Restarts the machine after it was off for `time`, as the boot called `id`.
        pub fn reboot(&self, id: &str, time: Duration) {
            let ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
            let mut hands = self.hands();
            hands.wall_ms = hands.wall_ms.saturating_add(ms);
            hands.since_boot_ms = 0;
            id.clone_into(&mut hands.boot_id);
        }

        pub(super) fn wall_ms(&self) -> i64 {
            self.hands().wall_ms
        }

        pub(super) fn since_boot_ms(&self) -> i64 {
            self.hands().since_boot_ms
        }

        pub(super) fn boot_id(&self) -> String {
            self.hands().boot_id.clone()
        }

        fn hands(&self) -> MutexGuard<'_, Hands> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn system_clock_looks_like_unix_time_and_moves_forward() {
        let clock = Clock::system();
        let read = clock.read();
        assert!(read.now.as_millis().abs_diff(read.wall_ms) < 60_000, "{read:?}");
        assert!(clock.now() >= read.now);
        assert!(!clock.boot().id.is_empty());
    }

    /// S104.
    #[test]
    fn a_step_of_the_wall_clock_does_not_move_now() {
        let machine = ManualClock::new(1_000_000_000);
        let clock = Clock::manual(&machine);
        let before = clock.now();
        machine.step_wall(86_400_000);
        assert_eq!(clock.now(), before);
        assert_eq!(clock.read().wall_ms, 1_086_400_000);
        machine.step_wall(-2 * 86_400_000);
        machine.advance(Duration::from_secs(1));
        assert_eq!(clock.now(), before + Duration::from_secs(1));
    }

    #[test]
    fn boots_are_told_apart_by_id_and_without_ids_by_their_anchors() {
        let named = Boot { id: "a".into(), anchor_ms: 0 };
        assert!(named.is("a", 86_400_000));
        assert!(!named.is("b", 0));
        let nameless = Boot { id: String::new(), anchor_ms: 0 };
        assert!(nameless.is("", 1000));
        assert!(!nameless.is("", 86_400_000));
        assert!(!nameless.is("a", 0));
    }
}
