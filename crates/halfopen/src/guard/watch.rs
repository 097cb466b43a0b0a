//! Refreshes the snapshots of all guards, in one thread for the process.
//!
//! Each store is asked once whether anything was committed; only then, or when time has changed a circuit, are the
//! circuits of a guard read. So guards that nobody uses cost no reads. A store that keeps the thread waiting is no harm: snapshots grow too old, and calls ask
//! the door. A store that was lost is tried again here, too, so that a quiet process notices its return.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use super::snapshot::Inner;
use crate::handle::{Handle, StoreMark};

/// How often snapshots are refreshed.
const EVERY: Duration = Duration::from_millis(100);

static WATCHED: Mutex<Vec<Weak<Inner>>> = Mutex::new(Vec::new());
static RUNS: OnceLock<bool> = OnceLock::new();

/// Refreshes the snapshot of `guard` as long as it lives. Returns whether that could be arranged.
pub(super) fn watch(guard: &Arc<Inner>) -> bool {
    let runs = *RUNS.get_or_init(|| {
        let watching = || {
            loop {
                std::thread::sleep(EVERY);
                refresh_all();
            }
        };
        std::thread::Builder::new().name("halfopen-watch".to_owned()).spawn(watching).is_ok()
    });
    if runs {
        WATCHED.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::downgrade(guard));
    }
    runs
}

/// Refreshes all snapshots at once: what an operator was told is done must hold for the very next call.
pub(crate) fn refresh_all() {
    let guards: Vec<Arc<Inner>> = {
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|guard| guard.strong_count() > 0);
        watched.iter().filter_map(Weak::upgrade).collect()
    };
    let mut marks: Vec<(*const Handle, Option<StoreMark>)> = Vec::new();
    for guard in guards {
        let handle = Arc::as_ptr(guard.handle());
        let at = match marks.iter().position(|(of, _)| *of == handle) {
            Some(at) => at,
            None => {
                marks.push((handle, guard.handle().mark()));
                marks.len() - 1
            }
        };
        guard.keep(marks.get(at).and_then(|(_, mark)| mark.as_ref()));
    }
}

#[cfg(test)]
mod tests {
    use halfopen_core::permit::Ask;
    use halfopen_core::policy::{Policy, Surface};

    use super::*;
    use crate::clock::{Clock, ManualClock};
    use crate::guard::Guard;
    use crate::handle::Route;
    use crate::store::Location;

    fn route(name: &str) -> Route {
        Route { place: name.parse().unwrap(), account: None }
    }

    /// Guards that nobody uses cost no reads, however many there are and however long they stand.
    #[test]
    fn circuits_are_read_only_after_a_commit_or_a_wake() {
        let dir = tempfile::tempdir().unwrap();
        let (machine, location) = (ManualClock::new(1_796_040_000_000), Location::Sqlite(dir.path().join("store.db")));
        let door = || Arc::new(Handle::open_with(&location, Clock::manual(&machine)).unwrap());
        let (ours, other) = (door(), door());
        let policy = Policy::built_in("ocr", Surface::Serve);
        let guards: Vec<Guard> = (0..100).map(|n| Guard::new(&ours, route(&format!("d{n}")), policy.clone())).collect();
        let reads = || guards.iter().map(|guard| guard.figures().reads).sum::<u64>();
        let (before, day) = (reads(), Duration::from_secs(86_400));
        for _ in 0..50 {
            refresh_all();
            machine.advance(day);
        }
        assert_eq!((before, reads()), (100, 100), "nothing was committed");
        assert!(guards.iter().all(|guard| guard.quick().is_some()), "and all are kept good");

        let _ = other.hold(&route("d7").place, &policy, halfopen_core::event::State::Open, Some(day), "ann", "");
        refresh_all();
        assert!(reads() >= 200, "somebody else committed");
        assert!(guards[7].looks_refused() && !guards[8].looks_refused());

        let before = guards[7].figures().reads;
        machine.advance(day);
        refresh_all();
        assert!(guards[7].figures().reads > before && !guards[7].looks_refused(), "time ended the hold");
        drop(guards[7].ask_owned(Ask::Fresh).unwrap());
    }

    #[test]
    fn an_unread_guard_reads_when_the_door_is_asked() {
        let handle = Arc::new(Handle::open(&Location::Memory).unwrap());
        let guard = Guard::unread(&handle, route("ocr"), Policy::built_in("ocr", Surface::Serve));
        let permitted = guard.ask_owned(Ask::Fresh).unwrap();
        assert!(guard.figures().reads > 0 && !guard.is_at_rest(), "a call is under way");
        drop(permitted);
        assert!(guard.quick().is_some());
        // For a moment the watching thread holds it too.
        while !guard.is_at_rest() {
            std::thread::yield_now();
        }
    }
}
