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
//! - **After a reboot** nothing lies further ahead than it could have been set: what is due is due at once.

use std::time::Duration;

use halfopen_core::snapshot::{IncidentRecord, PostRecord};
use halfopen_core::time::Timestamp;

use super::{Draft, Place, Store, StoreError, Txn};

/// How many alerts wait at most.
pub const OPEN_MAX: usize = 1000;

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

    /// Returns the alerts that are not done, oldest first, each with whether it is due by now.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn open_posts(&self) -> Result<Vec<(bool, PostRecord)>, StoreError> {
        on_draft!(&self.draft, draft => draft.open_posts(self.now))
    }

    /// Returns the newest `max` alerts, oldest first.
    ///
    /// # Errors
    ///
    /// If they cannot be read.
    pub fn posts(&self, max: usize) -> Result<Vec<PostRecord>, StoreError> {
        on_draft!(&self.draft, draft => draft.posts(max))
    }
}
