//! Keeps circuits and the journal behind one written contract.

use std::path::PathBuf;

use halfopen_core::circuit::Circuit;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::snapshot::EventRecord;

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// In this process only.
    Memory,
    /// A SQLite file.
    Sqlite(PathBuf),
}

/// Why a store cannot do what was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// Placeholder until the store is written.
    #[error("store cannot be used: {0}")]
    Other(String),
}

/// The circuits and the journal of one machine.
#[derive(Debug)]
pub struct Store {}

/// One circuit as stored.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its name.
    pub id: CircuitId,
    /// Its state.
    pub circuit: Circuit,
}

/// Which journal entries are wanted.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Only of this dependency.
    pub dependency: Option<String>,
    /// Only at or after this instant, in milliseconds.
    pub since_ms: Option<i64>,
    /// Only transitions.
    pub transitions_only: bool,
    /// At most so many, the newest.
    pub limit: usize,
}

impl Store {
    /// Returns journal entries, oldest first.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn events(&self, _filter: &EventFilter) -> Result<Vec<EventRecord>, StoreError> {
        unimplemented!()
    }
}
