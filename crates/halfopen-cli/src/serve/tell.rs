//! Tells owners of what is due, and programs of jobs that have ended, while the gateway serves: its own and those that others
//! left.
//!
//! The sending blocks, on threads that may, one for owners and one for programs, so that a program that hangs keeps no
//! alert; calls do not know about either.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::gateway::Gateway;
use crate::alerts::{self, Sent, Trouble};

/// How often is looked for alerts that are due.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// How often the figures are looked at for silence and for failures that no rule knows.
const FIGURES_EVERY: Duration = Duration::from_secs(60);

/// What became of the alerts that this process delivered, by channel.
#[derive(Debug, Default)]
pub(super) struct Told(Mutex<BTreeMap<String, [u64; Trouble::ALL.len() + 1]>>);

impl Told {
    pub(super) fn count(&self, sent: &Sent) {
        if sent.each.is_empty() {
            return;
        }
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (channel, met) in &sent.each {
            all.entry(channel.clone()).or_default()[place(*met)] += 1;
        }
    }

    /// Returns how many a channel took.
    pub(super) fn delivered(&self, channel: &str) -> u64 {
        self.read(channel, None)
    }

    /// Returns how many deliveries by a channel met some trouble.
    pub(super) fn failed(&self, channel: &str, met: Trouble) -> u64 {
        self.read(channel, Some(met))
    }

    fn read(&self, channel: &str, met: Option<Trouble>) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(channel).map_or(0, |all| all[place(met)])
    }
}

fn place(met: Option<Trouble>) -> usize {
    met.and_then(|met| Trouble::ALL.iter().position(|known| *known == met)).unwrap_or(Trouble::ALL.len())
}

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
            gateway.told.count(&alerts::deliver_to_owners(handle, &live.config, store));
        });
        // One that panicked has left its alerts to the next: their lease runs out.
        let _ = round.await;
    }
}

/// Tells programs of jobs that have ended until the gateway ends.
pub(super) async fn programs(gateway: Arc<Gateway>) {
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        loop {
            let gateway = Arc::clone(&gateway);
            let round = tokio::task::spawn_blocking(move || {
                let (live, handle) = (gateway.live(), &gateway.door.handle);
                let sent = alerts::deliver_to_programs(handle, &live.config, handle.location());
                gateway.told.count(&sent);
                sent.delivered
            });
            // One round tells of a bounded number; more of them may wait, and what failed waits for its time.
            if round.await.unwrap_or(0) == 0 {
                break;
            }
        }
    }
}
