//! What a transaction may do to circuits and the journal, wherever they are kept.
//!
//! Jobs and alerts have their own parts of it, in [`super::jobs`] and [`super::alerts`].

use halfopen_core::circuit::Circuit;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;

#[cfg(feature = "sqlite")]
use super::sqlite;
use super::{StoreError, Stored, memory};

/// What a transaction may do. Names are those of circuits; there is one instant for all of it.
#[derive(Debug)]
pub struct Txn<'a> {
    pub(super) now: Timestamp,
    pub(super) draft: Draft<'a>,
}

/// What it becomes, where it is kept.
#[derive(Debug)]
pub(super) enum Draft<'a> {
    Memory(memory::Draft<'a>),
    #[cfg(feature = "sqlite")]
    Sqlite(sqlite::Draft<'a>),
}

impl Txn<'_> {
    /// Returns the instant of this transaction, read after the lock was taken.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns a circuit as it stands in this transaction.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn load(&self, id: &CircuitId) -> Result<Option<Circuit>, StoreError> {
        match &self.draft {
            Draft::Memory(draft) => Ok(draft.load(id)),
            #[cfg(feature = "sqlite")]
            Draft::Sqlite(draft) => draft.load(id),
        }
    }

    /// Returns all circuits, sorted by name.
    ///
    /// # Errors
    ///
    /// If one cannot be read.
    pub fn all(&self) -> Result<Vec<Stored>, StoreError> {
        match &self.draft {
            Draft::Memory(draft) => Ok(draft.all()),
            #[cfg(feature = "sqlite")]
            Draft::Sqlite(draft) => draft.all(),
        }
    }

    /// Returns the partitions of a dependency, without its whole, sorted by name.
    ///
    /// # Errors
    ///
    /// If one cannot be read.
    pub fn partitions(&self, dependency: &str) -> Result<Vec<Stored>, StoreError> {
        match &self.draft {
            Draft::Memory(draft) => Ok(draft.partitions(dependency)),
            #[cfg(feature = "sqlite")]
            Draft::Sqlite(draft) => draft.partitions(dependency),
        }
    }

    /// Writes something that changes nothing, so that the commit shows whether the store can be written.
    ///
    /// # Errors
    ///
    /// If it cannot.
    pub(crate) fn touch(&mut self) -> Result<(), StoreError> {
        match &mut self.draft {
            Draft::Memory(_) => Ok(()),
            #[cfg(feature = "sqlite")]
            Draft::Sqlite(draft) => draft.touch(),
        }
    }

    /// Saves a circuit, with the instant at which time alone changes it, so that [`Store::due`] finds it.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn save(&mut self, id: &CircuitId, circuit: &Circuit, wake_at: Option<Timestamp>) -> Result<(), StoreError> {
        let now = self.now;
        match &mut self.draft {
            Draft::Memory(draft) => {
                draft.save(id, circuit, wake_at, now);
                Ok(())
            }
            #[cfg(feature = "sqlite")]
            Draft::Sqlite(draft) => draft.save(id, circuit, wake_at, now),
        }
    }

    /// Removes a circuit.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn remove(&mut self, id: &CircuitId) -> Result<(), StoreError> {
        match &mut self.draft {
            Draft::Memory(draft) => {
                draft.remove(id);
                Ok(())
            }
            #[cfg(feature = "sqlite")]
            Draft::Sqlite(draft) => draft.remove(id),
        }
    }

    /// Appends an event to the journal.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn append(&mut self, event: &EventRecord) -> Result<(), StoreError> {
        match &mut self.draft {
            Draft::Memory(draft) => {
                draft.append(event);
                Ok(())
            }
            #[cfg(feature = "sqlite")]
            Draft::Sqlite(draft) => draft.append(event),
        }
    }

    /// Removes a few of the oldest events of a dependency from before `before`, and of all events beyond
    /// [`JOURNAL_ROWS_MAX`].
    ///
    /// # Errors
    ///
    /// If the journal cannot be written.
    pub fn prune(&mut self, dependency: &str, before: Timestamp) -> Result<(), StoreError> {
        match &mut self.draft {
            Draft::Memory(draft) => {
                draft.prune(dependency, before);
                Ok(())
            }
            #[cfg(feature = "sqlite")]
            Draft::Sqlite(draft) => draft.prune(dependency, before),
        }
    }
}
