//! Tells owners that the store is lost or cannot be written, and that it is back, although it cannot keep the alert.
//!
//! Every other alert is a row that commits with its event. This one cannot be: what would keep it is the thing that is broken. So
//! it is sent by whoever has met it, past the store and past the channels' circuits, at most once for each channel and
//! incident of a process; several gateways on one store send one each, and each says so (`more.direct`). What a channel
//! does not take is tried again as alerts are, for as long as the incident lasts.
//!
//! A store that is gone for a moment, while somebody copies it or a disk has no room, wakes nobody: it must have been gone for
//! [`GONE_FOR`], and back for [`BACK_FOR`]. One that comes and goes is told again after [`FOLD`] at the earliest.
//!
//! Commands that end tell nobody: each would tell the same, and has whoever called it to speak to.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use halfopen::activation;
use halfopen::handle::StoreHealth;
use halfopen_core::alert::{FOLD, Kind, StoreTrouble, store_trouble};
use halfopen_core::snapshot::AlertRecord;
use halfopen_core::time::Timestamp;

use super::gateway::Gateway;
use crate::alerts::{self, Named};

/// How long the store must have been gone before anybody is told.
const GONE_FOR: Duration = Duration::from_secs(3);
/// How long it must have been back before it is said, and before a further loss is another incident.
const BACK_FOR: Duration = Duration::from_secs(10);
/// The first pause before a channel that failed is tried again; each following one is three times as long.
const AGAIN_FIRST: Duration = Duration::from_secs(2);
/// The longest one.
const AGAIN_MAX: Duration = Duration::from_secs(3600);
/// How often a channel is tried at most for one alert.
const TRIES_MAX: u32 = 40;

/// What is known of the store's absence.
#[derive(Debug, Default)]
pub(super) struct Storeless {
    absence: Option<Absence>,
    /// When the last incident was told.
    told_at: Option<Instant>,
    /// What is still to be sent. The thread that sends puts back what a channel did not take.
    outbox: Arc<Mutex<Outbox>>,
}

/// Alerts that are still to be sent. Only the newest word counts: who has not heard that the store was lost is not told so after it
/// is back.
#[derive(Debug, Default)]
struct Outbox {
    /// Grows with each new word.
    round: u64,
    due: Vec<Due>,
}

/// One time that the store was away.
#[derive(Debug)]
struct Absence {
    since: Instant,
    began: Timestamp,
    draw: u64,
    reason: &'static str,
    why: String,
    told: bool,
    /// Since when it is back.
    back_since: Option<Instant>,
}

/// One alert and the channels that have not taken it.
#[derive(Debug)]
struct Due {
    alert: AlertRecord,
    channels: Vec<Named>,
    at: Instant,
    tries: u32,
}

impl Storeless {
    /// Takes note of how the store is, and tells owners where that is due. Sends on a thread that may block.
    pub(super) fn see(&mut self, gateway: &Arc<Gateway>, health: &StoreHealth) {
        let now = Instant::now();
        match health {
            StoreHealth::Good => self.is_well(gateway, now),
            StoreHealth::Lost(why) => self.is_away(gateway, now, "store_lost", why),
            StoreHealth::ReadOnly(why) => self.is_away(gateway, now, "store_read_only", why),
        }
        self.send(gateway, now);
    }

    fn is_away(&mut self, gateway: &Gateway, now: Instant, reason: &'static str, why: &str) {
        let absence = self.absence.get_or_insert_with(|| Absence {
            since: now,
            began: gateway.door.handle.clock().now(),
            draw: fastrand::u64(..),
            reason,
            why: why.to_owned(),
            told: false,
            back_since: None,
        });
        absence.back_since = None;
        let is_new = self.told_at.is_none_or(|told| now.duration_since(told) >= FOLD);
        if !absence.told && is_new && now.duration_since(absence.since) >= GONE_FOR {
            absence.told = true;
            (absence.reason, absence.why) = (reason, why.to_owned());
            self.told_at = Some(now);
            let due = absence.alerts(gateway, Kind::StoreLost, now);
            self.put(due);
        }
    }

    fn is_well(&mut self, gateway: &Gateway, now: Instant) {
        let Some(absence) = &mut self.absence else { return };
        let back_since = *absence.back_since.get_or_insert(now);
        if !absence.told {
            // Gone for a moment: nobody has heard of it.
            self.absence = None;
        } else if now.duration_since(back_since) >= BACK_FOR {
            let due = absence.alerts(gateway, Kind::StoreBack, now);
            self.absence = None;
            self.put(due);
        }
    }

    fn put(&self, due: Vec<Due>) {
        let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
        *outbox = Outbox { round: outbox.round + 1, due };
    }

    /// Sends what is due, on a thread that may block.
    fn send(&self, gateway: &Arc<Gateway>, now: Instant) {
        let (ready, round): (Vec<Due>, u64) = {
            let mut outbox = self.outbox.lock().unwrap_or_else(PoisonError::into_inner);
            let (ready, later) = std::mem::take(&mut outbox.due).into_iter().partition(|due| due.at <= now);
            outbox.due = later;
            (ready, outbox.round)
        };
        if ready.is_empty() {
            return;
        }
        let (gateway, outbox) = (Arc::clone(gateway), Arc::clone(&self.outbox));
        tokio::task::spawn_blocking(move || {
            for Due { alert, channels, tries, .. } in ready {
                let (sent, left) = alerts::deliver_past_the_store(&gateway.door.handle, &channels, &alert);
                gateway.told.count(&sent);
                if !left.is_empty() && tries + 1 < TRIES_MAX {
                    let pause = AGAIN_FIRST.saturating_mul(3_u32.saturating_pow(tries)).min(AGAIN_MAX);
                    let again = Due { alert, channels: left, at: Instant::now() + pause, tries: tries + 1 };
                    let mut outbox = outbox.lock().unwrap_or_else(PoisonError::into_inner);
                    if outbox.round == round {
                        outbox.due.push(again);
                    }
                }
            }
        });
    }
}

impl Absence {
    /// Returns what each owner of a dependency is told.
    fn alerts(&self, gateway: &Gateway, kind: Kind, at: Instant) -> Vec<Due> {
        let handle = &gateway.door.handle;
        let store = activation::named(handle.location());
        let live = gateway.live();
        let mut owners: Vec<String> =
            live.dependencies().filter_map(|dependency| dependency.policy.owner.clone()).collect();
        owners.sort();
        owners.dedup();
        let trouble =
            StoreTrouble { store: &store, reason: self.reason, why: &self.why, draw: self.draw, began: self.began };
        let due = |owner: String| {
            let channels = alerts::named(&live.config.owners, &owner);
            let alert = store_trouble(&owner, trouble, kind, handle.clock().now());
            (!channels.is_empty()).then_some(Due { alert, channels, at, tries: 0 })
        };
        owners.into_iter().filter_map(due).collect()
    }
}
