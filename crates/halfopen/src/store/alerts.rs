//! What a store keeps about alerts, and the verbs of a transaction that read and change it.
//!
//! # The contract
//!
//! - **An alert commits with the event that caused it**, and so does what is remembered of its incident: both are rows
//!   of the same transaction, so there is no alert without its event and no incident that was told twice.
//! - **An alert has one row**, whoever computes it: a second one of the same name is not taken.
//! - **Bounded.** At most [`OPEN_MAX`] alerts wait; a further one takes the place of the oldest. Of those that are done
//!   the newest [`DONE_MAX`] are kept, for [`KEEP_DONE`]. Incidents are at most a few for each circuit, and are forgotten
//!   when they are over.
//! - **What programs are told of ended jobs** commits with the end, and waits apart from the alerts, by dependency: at most
//!   [`NOTICES_MAX`] of each, none for longer than [`DELIVER_FOR`]; beyond that the oldest are dropped and counted, at the
//!   latest with every [`NOTICES_LOOK`]th. One that is done is removed, so what is kept is what is still to be told.
//! - **After a reboot** nothing lies further ahead than it could have been set: what is due is due at once.

use std::collections::BTreeMap;
use std::time::Duration;

use halfopen_core::alert::DELIVER_FOR;
use halfopen_core::snapshot::{IncidentRecord, PostRecord};
use halfopen_core::time::Timestamp;

use super::{Draft, Place, Store, StoreError, Txn};

/// How many alerts wait at most.
pub const OPEN_MAX: usize = 1000;

/// Of how many ended jobs of a dependency programs are still to be told at most.
pub const NOTICES_MAX: usize = 10_000;

/// How often the bound is looked at: with each so-many-th of them, because counting them costs what there are.
pub const NOTICES_LOOK: u64 = 64;

/// Of how many ended jobs of a dependency programs are to be told, were told, and were not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NoticeFigures {
    /// Are still to be told.
    pub waiting: u64,
    /// Were told.
    pub told: u64,
    /// Were not told, after many tries or by the receiver's own word.
    pub given_up: u64,
    /// Were not told, because there were too many, or nobody who knows a receiver came by in time.
    pub dropped: u64,
}

/// How many alerts that are done are kept at most.
pub const DONE_MAX: usize = 2000;

/// How long an alert that is done is kept.
pub const KEEP_DONE: Duration = Duration::from_secs(7 * 24 * 3600);

/// Calls the verb of the place that a transaction works on.
macro_rules! on_draft {
    ($draft:expr, $inner:ident => $call:expr) => {
        match $draft {
            Draft::Memory($inner) => Ok($call),
            #[cfg(feature = "sqlite")]
            Draft::Sqlite($inner) => $call,
        }
    };
}

impl Store {
    /// Returns whether a program is to be told of a job of the dependency by now: one look at the end of an index.
    pub(crate) fn has_due_notices(&self, dependency: &str) -> Result<bool, StoreError> {
        let now = self.clock.now();
        match &self.place {
            Place::Memory(memory) => Ok(memory.has_due_notices(dependency, now)),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.has_due_notices(dependency, now),
        }
    }

    /// Returns whether an alert is to be sent or an incident to be told again by now: one look at the ends of two
    /// indices.
    pub(crate) fn has_due_alerts(&self) -> Result<bool, StoreError> {
        let now = self.clock.now();
        match &self.place {
            Place::Memory(memory) => Ok(memory.has_due_alerts(now)),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.has_due_alerts(now),
        }
    }

    /// Returns how many alerts are not done.
    pub(crate) fn alerts_waiting(&self) -> Result<u64, StoreError> {
        match &self.place {
            Place::Memory(memory) => Ok(memory.alerts_waiting()),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.alerts_waiting(),
        }
    }
}

impl Txn<'_> {
    /// Returns what is remembered of an incident.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn incident(&self, name: &str) -> Result<Option<IncidentRecord>, StoreError> {
        on_draft!(&self.draft, draft => draft.incident(name))
    }

    /// Remembers an incident, or forgets it.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn set_incident(&mut self, name: &str, incident: Option<&IncidentRecord>) -> Result<(), StoreError> {
        on_draft!(&mut self.draft, draft => draft.set_incident(name, incident))
    }

    /// Returns the incidents whose wake has come, at most `max`, with their names.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn woken_incidents(&self, max: usize) -> Result<Vec<(String, IncidentRecord)>, StoreError> {
        on_draft!(&self.draft, draft => draft.woken_incidents(self.now, max))
    }

    /// Adds an alert that is due at once; returns how many older ones made room for it, `None` if it was known.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn add_post(&mut self, post: &PostRecord) -> Result<Option<usize>, StoreError> {
        let now = self.now;
        on_draft!(&mut self.draft, draft => draft.add_post(post, now))
    }

    /// Adds what programs are to be told of a job of the dependency, at once; returns how many of the dependency were
    /// dropped for it.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn add_notice(&mut self, dependency: &str, post: &PostRecord) -> Result<u64, StoreError> {
        let now = self.now;
        let seq = on_draft!(&mut self.draft, draft => draft.add_notice(dependency, post, now))?;
        if seq % NOTICES_LOOK != 0 {
            return Ok(0);
        }
        let old = now - DELIVER_FOR;
        let dropped = on_draft!(&mut self.draft, draft => draft.drop_notices(dependency, old, NOTICES_MAX))?;
        if dropped > 0 {
            self.count_notices(dependency, NoticeFigures { dropped, ..NoticeFigures::default() })?;
        }
        Ok(dropped)
    }

    /// Returns what programs are to be told of jobs of a dependency by now, the longest due first, at most `max`.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn due_notices(&self, dependency: &str, max: usize) -> Result<Vec<PostRecord>, StoreError> {
        on_draft!(&self.draft, draft => draft.due_notices(dependency, self.now, max))
    }

    /// Removes an alert.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn remove_post(&mut self, id: &str) -> Result<(), StoreError> {
        on_draft!(&mut self.draft, draft => draft.remove_post(id))
    }

    /// Adds to what was counted of a dependency; `waiting` is counted by itself.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn count_notices(&mut self, dependency: &str, more: NoticeFigures) -> Result<(), StoreError> {
        on_draft!(&mut self.draft, draft => draft.count_notices(dependency, more))
    }

    /// Returns the figures of each dependency.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn notice_figures(&self) -> Result<BTreeMap<String, NoticeFigures>, StoreError> {
        on_draft!(&self.draft, draft => draft.notice_figures())
    }

    /// Returns an alert by its name.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn post(&self, id: &str) -> Result<Option<PostRecord>, StoreError> {
        on_draft!(&self.draft, draft => draft.post(id))
    }

    /// Saves an alert, with the instant at which it is due next; `None` if it is done.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn save_post(&mut self, post: &PostRecord, due_at: Option<Timestamp>) -> Result<(), StoreError> {
        on_draft!(&mut self.draft, draft => draft.save_post(post, due_at))
    }

    /// Returns the alerts to owners that are not done, oldest first, each with whether it is due by now.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn open_posts(&self) -> Result<Vec<(bool, PostRecord)>, StoreError> {
        on_draft!(&self.draft, draft => draft.open_posts(self.now))
    }

    /// Returns the newest `max` alerts to owners, oldest first.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn posts(&self, max: usize) -> Result<Vec<PostRecord>, StoreError> {
        on_draft!(&self.draft, draft => draft.posts(max))
    }
}
