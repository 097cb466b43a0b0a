//! Refreshes the snapshots of all guards, in one thread for the process.
//!
//! A refresh reads a few rows. A store that keeps the thread waiting is no harm: snapshots grow too old, and calls ask
//! the door. A store that was lost is tried again here, too, so that a quiet process notices its return.

use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use super::snapshot::Inner;

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

fn refresh_all() {
    let guards: Vec<Arc<Inner>> = {
        let mut watched = WATCHED.lock().unwrap_or_else(PoisonError::into_inner);
        watched.retain(|guard| guard.strong_count() > 0);
        watched.iter().filter_map(Weak::upgrade).collect()
    };
    for guard in guards {
        guard.refresh();
    }
}
