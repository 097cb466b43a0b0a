//! Tells owners: sends the alerts that are due while the gateway serves, its own and those that others left.
//!
//! The sending blocks, on a thread that may, and never two at a time; calls do not know about it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::gateway::Gateway;
use crate::alerts;

/// How often is looked for alerts that are due.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often the figures are looked at for silence and for failures that no rule knows.
const FIGURES_EVERY: Duration = Duration::from_secs(60);

/// Sends alerts until the gateway ends.
pub(super) async fn owners(gateway: Arc<Gateway>) {
    let mut figures_at = Instant::now();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let with_figures = Instant::now() >= figures_at;
        if with_figures {
            figures_at = Instant::now() + FIGURES_EVERY;
        }
        let gateway = Arc::clone(&gateway);
        let round = tokio::task::spawn_blocking(move || {
            let (live, handle) = (gateway.live(), &gateway.door.handle);
            let store = handle.location();
            if with_figures {
                alerts::watch::figures(handle, &live.config, store);
            }
            alerts::deliver(handle, &live.config, store)
        });
        // One that panicked has left its alerts to the next: their lease runs out.
        let _ = round.await;
    }
}
