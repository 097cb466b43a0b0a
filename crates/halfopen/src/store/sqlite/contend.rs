//! Waits for other writers, without starving anybody.
//!
//! SQLite's own busy handler backs off up to 100 ms between looks at the lock, while a newcomer looks after 1 ms: with
//! hundreds of processes the oldest waiter has the worst chance, and some surface `database is locked`. Here all who
//! have waited for a moment look equally often, every pause is drawn by chance so that a herd does not look in step,
//! and the pause is long enough that hundreds of waiters leave the lock's holder the processor: looking more often the
//! longer one has waited was tried, and two hundred waiters then kept the holder from finishing.
//!
//! A queue by `flock` on a file beside the store was considered: it is fair, but it cannot be waited for with a limit,
//! and a stopped process at its head would stop everybody for ever.

use std::time::{Duration, Instant};

use rusqlite::{Error, ErrorCode};

/// The longest pause between two looks, and the shortest.
const PAUSE_MAX: Duration = Duration::from_millis(25);
const PAUSE_MIN: Duration = Duration::from_micros(500);

/// Tries `attempt` until it is not turned away by other connections, at most for `patience`.
///
/// # Errors
///
/// Whatever `attempt` failed with last.
pub(super) fn contend<T>(patience: Duration, mut attempt: impl FnMut() -> rusqlite::Result<T>) -> rusqlite::Result<T> {
    // The clock is not read where nobody stands in the way.
    let first = attempt();
    if !turned_away(&first) {
        return first;
    }
    let began = Instant::now();
    let mut looks = 0;
    loop {
        let left = patience.saturating_sub(began.elapsed());
        std::thread::sleep(pause(looks).min(left));
        looks += 1;
        let result = attempt();
        if !turned_away(&result) || left.is_zero() {
            return result;
        }
    }
}

/// Returns a pause between half of what is due and all of it; what is due doubles from look to look.
fn pause(looks: u32) -> Duration {
    let due = PAUSE_MAX.min(PAUSE_MIN * 2u32.pow(looks.min(6)));
    due.mul_f64(0.5 + 0.5 * fastrand::f64())
}

/// Returns whether another connection stood in the way: a writer, a recovery of the log, or a crowd of readers that
/// arrive while the log is begun anew (`SQLITE_PROTOCOL`).
fn turned_away<T>(result: &rusqlite::Result<T>) -> bool {
    match result {
        Err(Error::SqliteFailure(failure, _)) => matches!(
            failure.code,
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed
        ),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::ffi;

    fn busy() -> Error {
        Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_BUSY), None)
    }

    #[test]
    fn waits_until_the_lock_is_free() {
        let mut looks = 0;
        let result = contend(PAUSE_MAX * 1000, || {
            looks += 1;
            if looks < 4 { Err(busy()) } else { Ok(looks) }
        });
        assert_eq!(result.unwrap(), 4);
    }

    #[test]
    fn gives_up_when_patience_ends_and_not_before() {
        let began = Instant::now();
        let result: rusqlite::Result<()> = contend(Duration::from_millis(20), || Err(busy()));
        assert!(turned_away(&result));
        assert!(began.elapsed() >= Duration::from_millis(20));
    }

    #[test]
    fn other_errors_are_not_waited_for() {
        let mut looks = 0;
        let result: rusqlite::Result<()> = contend(PAUSE_MAX, || {
            looks += 1;
            Err(Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_FULL), None))
        });
        assert!(result.is_err());
        assert_eq!(looks, 1);
    }

    #[test]
    fn pauses_grow_to_a_bound() {
        assert!(pause(0) <= PAUSE_MIN);
        assert!((PAUSE_MAX / 2..=PAUSE_MAX).contains(&pause(20)));
    }
}
