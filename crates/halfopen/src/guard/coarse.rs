//! Keeps a coarse time that costs one load to read.
//!
//! One thread of the process writes it down every few milliseconds. If that thread is not scheduled for a while, the
//! time stands still and old snapshots look fresh; so every reader that counts its calls corrects it now and then
//! ([`correct`]), and a process that was stopped as a whole is right again within a few calls.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// How often the time is written down.
const TICK: Duration = Duration::from_millis(20);

/// How far behind the time may be before it is written anew, in milliseconds.
const BEHIND_MS: u64 = 10;

/// On a cache line of its own: it is read by every call of every guard and written fifty times a second.
#[repr(align(128))]
struct Stamp(AtomicU64);

static STAMP: Stamp = Stamp(AtomicU64::new(0));
static RUNS: OnceLock<bool> = OnceLock::new();

/// Starts the time, if it does not run yet. Returns whether it runs.
pub(super) fn start() -> bool {
    *RUNS.get_or_init(|| {
        correct();
        let tick = || {
            loop {
                std::thread::sleep(TICK);
                correct();
            }
        };
        std::thread::Builder::new().name("halfopen-tick".to_owned()).spawn(tick).is_ok()
    })
}

/// Returns the coarse time in milliseconds; usually at most two ticks behind. Only differences mean anything.
#[inline]
pub(super) fn now_ms() -> u64 {
    STAMP.0.load(Ordering::Relaxed)
}

/// Writes the time down and returns it.
#[cold]
pub(super) fn correct() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    let ms = now.tv_sec.saturating_mul(1000).saturating_add(now.tv_nsec / 1_000_000);
    let ms = u64::try_from(ms).unwrap_or(0).max(1);
    // Written only if it is behind: every write takes the line from all who read it.
    if ms > now_ms().saturating_add(BEHIND_MS) {
        STAMP.0.fetch_max(ms, Ordering::Relaxed);
    }
    ms
}
