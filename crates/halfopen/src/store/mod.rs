//! Keeps circuits and the journal behind one written contract.
//!
//! The store loads, locks and saves. It knows no rule: what a verdict changes is decided by the caller, inside the
//! transaction the store gives it. There is one concrete [`Store`] over the places it can be kept in; a further place
//! is a further variant and must pass the same conformance suite (`tests/store_conformance.rs`).
//!
//! # The contract
//!
//! - **[`Store::transact`]** takes the one write lock of the store, reads the clock once, and gives both to a closure.
//!   What the closure saved, removed and appended becomes visible to all readers in one step, or, if it returned an
//!   error, panicked, or its process died, not at all. Transactions of all threads and processes form one sequence;
//!   each sees everything that earlier ones committed, so a load, a decision and a save lose no update. The lock is
//!   never held while anything outside is called: closures decide, they do not wait.
//! - **[`Store::load`]** and the other reads take no lock that stops a writer, and see one committed state; it may be
//!   older than `now` by the time it is looked at. A decision that changes something must not rest on it.
//! - **After the death of a process** (`kill -9` at any instant) every committed transaction is there and no other.
//!   **After a power cut** the newest transactions may be missing, but only whole ones and only the newest: losing the
//!   last failures is harmless, and a flush for each would cost more than it saves.
//! - **Order.** Events are kept in the order of their commits, which [`Store::events`] returns.
//! - **Waiting.** A writer waits for other writers, at most its patience (5 s, or less while the door believes the
//!   store lost), then [`StoreError::Busy`]. Waiting is spread by chance and favours who has waited long.
//! - **The boot.** Opening compares the boot the store was last used in with this one. If they differ, one transaction
//!   writes the new anchor and lets every circuit cut the deadlines that no longer fit
//!   ([`Circuit::after_reboot`]); no process of the new boot sees one without the other.
//! - **Alerts** have one too, in [`alerts`]: they commit with the event that caused them.
//! - **Jobs** have a contract of their own, in [`jobs`]: what is accepted is on the disk.
//! - **Damage** is reported and left as it is. Nothing is moved aside, recreated or repaired unasked.

pub mod alerts;
mod error;
pub mod jobs;
mod location;
mod memory;
mod payloads;
#[cfg(feature = "sqlite")]
mod sqlite;
mod txn;

use std::time::Duration;

use halfopen_core::circuit::Circuit;
use halfopen_core::circuit_id::CircuitId;
use halfopen_core::snapshot::EventRecord;
use halfopen_core::time::Timestamp;

use crate::clock::Clock;

pub use error::StoreError;
pub use location::Location;
pub(crate) use payloads::Payloads;
#[cfg(feature = "sqlite")]
pub(crate) use sqlite::Files;
use txn::Draft;
pub use txn::Txn;

/// No store of this build has files.
#[cfg(not(feature = "sqlite"))]
#[derive(Clone, Debug)]
pub(crate) enum Files {}

/// How long a writer waits for other writers of a healthy store.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// How many events the journal keeps at most, whatever their age.
pub const JOURNAL_ROWS_MAX: u32 = 200_000;

/// How many old events one transaction removes at most: enough to keep up with what it adds, too few to be felt.
const PRUNE_STEP: u32 = 16;

/// The circuits and the journal of one machine.
#[derive(Debug)]
pub struct Store {
    place: Place,
    clock: Clock,
}

/// A state of a store, as long as it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    commits: u64,
    version: i64,
}

#[derive(Debug)]
enum Place {
    Memory(Box<memory::Memory>),
    #[cfg(feature = "sqlite")]
    Sqlite(Box<sqlite::Sqlite>),
}

/// One circuit as stored.
#[derive(Clone, Debug)]
pub struct Stored {
    /// Its name.
    pub id: CircuitId,
    /// Its state.
    pub circuit: Circuit,
    /// When it was saved last.
    pub updated_at: Timestamp,
}

/// Which journal entries are wanted.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Only of this dependency.
    pub dependency: Option<String>,
    /// Only at or after this instant, in milliseconds of the steady clock.
    pub since_ms: Option<i64>,
    /// Only transitions.
    pub transitions_only: bool,
    /// At most so many, the newest; 0 for all.
    pub limit: usize,
}

/// A journal entry with its place in the journal.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalEntry {
    /// Grows from entry to entry, with gaps; 1 or more.
    pub position: i64,
    /// What happened.
    pub event: EventRecord,
}

impl Store {
    /// Opens the store at `location`, creating the file and the folders above it if they are absent, and lets `clock`
    /// adopt the anchor of this boot.
    ///
    /// # Errors
    ///
    /// One for which [`StoreError::is_by_design`] holds if the location is impossible; [`StoreError::Corrupt`] if the
    /// file is damaged or no store; otherwise whatever keeps it from being read. A file that can be read but not
    /// written opens.
    pub fn open(location: &Location, clock: &Clock) -> Result<Self, StoreError> {
        Self::open_within(location, None, clock, PATIENCE)
    }

    /// As [`Store::open`], with a patience of the caller's choice. After a store of this process was lost, `before` tells
    /// which files it had: then none is made, and none is opened that would be mixed with them.
    pub(crate) fn open_within(
        location: &Location,
        before: Option<&Files>,
        clock: &Clock,
        patience: Duration,
    ) -> Result<Self, StoreError> {
        let place = match location {
            Location::Memory => Place::Memory(Box::default()),
            #[cfg(feature = "sqlite")]
            Location::Sqlite(path) => Place::Sqlite(Box::new(sqlite::Sqlite::open(path, before, clock, patience)?)),
            #[cfg(not(feature = "sqlite"))]
            Location::Sqlite(_) => return Err(StoreError::NoSqlite),
        };
        Ok(Self { place, clock: clock.clone() })
    }

    /// Returns the circuits of those names as last committed, in the order asked for; `None` where there is none.
    ///
    /// # Errors
    ///
    /// If the store, or one of these circuits, cannot be read.
    pub fn load(&self, ids: &[&CircuitId]) -> Result<Vec<Option<Circuit>>, StoreError> {
        match &self.place {
            Place::Memory(memory) => Ok(memory.load(ids)),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.load(ids, self.clock.now()),
        }
    }

    /// Returns all circuits, sorted by name.
    ///
    /// # Errors
    ///
    /// If the store, or one circuit, cannot be read.
    pub fn all(&self) -> Result<Vec<Stored>, StoreError> {
        match &self.place {
            Place::Memory(memory) => Ok(memory.all()),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.all(self.clock.now()),
        }
    }

    /// Returns the names of circuits that time changed by now, at most `max` of them. Costs no more than a look at each
    /// circuit's row, and reads none.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn due(&self, max: usize) -> Result<Vec<CircuitId>, StoreError> {
        let now = self.clock.now();
        match &self.place {
            Place::Memory(memory) => Ok(memory.due(now, max)),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.due(now, max),
        }
    }

    /// Returns journal entries, oldest first.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn events(&self, filter: &EventFilter) -> Result<Vec<EventRecord>, StoreError> {
        match &self.place {
            Place::Memory(memory) => Ok(memory.events(filter)),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.events(filter),
        }
    }

    /// Returns journal entries behind a position, oldest first; of a limit, the oldest ones.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn events_after(&self, position: i64, filter: &EventFilter) -> Result<Vec<JournalEntry>, StoreError> {
        match &self.place {
            Place::Memory(memory) => Ok(memory.events_after(position, filter)),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.events_after(position, filter),
        }
    }

    /// Returns the newest `max` journal entries of a dependency at or after an instant, in the order of their instants:
    /// what was due and noted later stands where it was due. Looks at entries of that dependency and span alone.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn timeline(
        &self,
        dependency: &str,
        since: Timestamp,
        transitions_only: bool,
        max: usize,
    ) -> Result<Vec<EventRecord>, StoreError> {
        match &self.place {
            Place::Memory(memory) => Ok(memory.timeline(dependency, since, transitions_only, max)),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.timeline(dependency, since, transitions_only, max),
        }
    }

    /// Returns the position of the newest journal entry, 0 if there is none.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn journal_end(&self) -> Result<i64, StoreError> {
        match &self.place {
            Place::Memory(memory) => Ok(memory.journal_end()),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.journal_end(),
        }
    }

    /// Runs `decide` as the only writer. What it saved is committed if it returns `Ok`, and discarded otherwise.
    ///
    /// # Errors
    ///
    /// The closure's own error; [`StoreError::Busy`] if the lock was not to be had; [`StoreError::ReadOnly`],
    /// [`StoreError::Full`] and others if the store cannot be written. After any error nothing was changed.
    pub fn transact<T>(&self, decide: impl FnOnce(&mut Txn<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        match &self.place {
            Place::Memory(memory) => memory.transact(&self.clock, decide),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.transact(&self.clock, decide),
        }
    }

    /// As [`Store::transact`], but what was committed survives a power cut too: this returns when it is on the disk. Many
    /// threads share one flush after [`Store::commit_in_groups`]; `decide` may then be called again if the batch it was
    /// in came to nothing, and runs on another thread.
    ///
    /// # Errors
    ///
    /// As [`Store::transact`]. After any error nothing was changed.
    pub fn transact_durably<T: Send + 'static>(
        &self,
        decide: impl FnMut(&mut Txn<'_>) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        match &self.place {
            Place::Memory(memory) => memory.transact(&self.clock, decide),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.transact_durably(&self.clock, decide),
        }
    }

    /// As [`Store::transact_durably`], without waiting: `then` is told. It runs on the writing thread, or here if there
    /// is none, and must not wait.
    pub fn submit<T: Send + 'static>(
        &self,
        decide: impl FnMut(&mut Txn<'_>) -> Result<T, StoreError> + Send + 'static,
        then: impl FnOnce(Result<T, StoreError>) + Send + 'static,
    ) {
        match &self.place {
            Place::Memory(memory) => then(memory.transact(&self.clock, decide)),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.submit(&self.clock, decide, then),
        }
    }

    /// Starts a thread in which the durable changes of many callers share one flush, and one that writes the log back.
    /// Does nothing if they run already.
    ///
    /// # Errors
    ///
    /// If no thread can be started, or the file cannot be opened once more.
    pub fn commit_in_groups(&self) -> Result<(), StoreError> {
        match &self.place {
            Place::Memory(_) => Ok(()),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.commit_in_groups(&self.clock),
        }
    }

    /// Looks at one committed state, through several questions.
    ///
    /// # Errors
    ///
    /// The closure's own error, or if the store cannot be read.
    pub(crate) fn look<T>(&self, questions: impl FnOnce(&Txn<'_>) -> Result<T, StoreError>) -> Result<T, StoreError> {
        match &self.place {
            Place::Memory(memory) => memory.look(&self.clock, questions),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.look(&self.clock, questions),
        }
    }

    /// Returns whether time changes a job by now: one look at the end of an index.
    pub(crate) fn has_due_jobs(&self) -> Result<bool, StoreError> {
        let now = self.clock.now();
        match &self.place {
            Place::Memory(memory) => Ok(memory.has_due_jobs(now)),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.has_due_jobs(now),
        }
    }

    /// Returns where large bodies lie; `None` if all of them lie in rows.
    pub(crate) fn payloads(&self) -> Option<Payloads> {
        match &self.place {
            Place::Memory(_) => None,
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => Some(sqlite.payloads()),
        }
    }

    /// Removes files of large bodies that belong to no job, which a crash left behind; returns how many.
    ///
    /// # Errors
    ///
    /// If the store or its folder cannot be read.
    pub fn remove_orphans(&self) -> Result<usize, StoreError> {
        let Some(files) = self.payloads() else { return Ok(0) };
        let mut orphans = Vec::new();
        for name in files.old_files()? {
            if !self.look(|txn| txn.is_file_of_a_job(&name))? {
                orphans.push(name);
            }
        }
        files.forget(&orphans);
        Ok(orphans.len())
    }

    /// Does the housekeeping that a writer owes: where no daemon does it, somebody must. It never blocks another
    /// process and is a few microseconds unless there is something to do; call it after the caller has its answer.
    ///
    /// # Errors
    ///
    /// If the store cannot be written. Nothing is lost by it.
    pub fn tidy(&self) -> Result<(), StoreError> {
        match &self.place {
            Place::Memory(_) => Ok(()),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.tidy(),
        }
    }

    /// Returns a number that changes whenever another connection committed something.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn version(&self) -> Result<i64, StoreError> {
        match &self.place {
            Place::Memory(memory) => Ok(memory.version()),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.version(),
        }
    }

    /// Returns what differs whenever anybody committed something in between, through this store or another.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub(crate) fn mark(&self) -> Result<Mark, StoreError> {
        let commits = match &self.place {
            Place::Memory(_) => 0,
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.commits(),
        };
        Ok(Mark { commits, version: self.version()? })
    }

    /// Returns which files the store consists of; `None` if it has none.
    pub(crate) fn files(&self) -> Option<Files> {
        match &self.place {
            Place::Memory(_) => None,
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => Some(sqlite.files().clone()),
        }
    }

    /// Refuses files that are not those that were opened: before something is put beside them.
    ///
    /// # Errors
    ///
    /// If they were removed or replaced.
    pub(crate) fn still_there(&self) -> Result<(), StoreError> {
        match &self.place {
            Place::Memory(_) => Ok(()),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.files().still_there(),
        }
    }

    /// Refuses a disk that has no room for the next changes.
    ///
    /// # Errors
    ///
    /// [`StoreError::Full`].
    pub(crate) fn has_room(&self) -> Result<(), StoreError> {
        match &self.place {
            Place::Memory(_) => Ok(()),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.files().has_room(),
        }
    }

    /// Reads what a store is useless without, from where it is kept and not from what was read before.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(crate) fn look_at_file(&self) -> Result<(), StoreError> {
        match &self.place {
            Place::Memory(_) => Ok(()),
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.look_at_file(),
        }
    }

    /// Returns what is wrong with the file by the rules of who keeps it, up to `max` findings; reads all of it.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub(crate) fn integrity(&self, max: u32) -> Result<Vec<String>, StoreError> {
        match &self.place {
            Place::Memory(_) => {
                let _ = max;
                Ok(Vec::new())
            }
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.integrity(max),
        }
    }

    /// Returns why the store cannot be written, if that is known already.
    pub(crate) fn read_only(&self) -> Option<StoreError> {
        match &self.place {
            Place::Memory(_) => None,
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.read_only(),
        }
    }

    /// Sets how long operations wait for other processes.
    pub(crate) fn set_patience(&self, patience: Duration) {
        match &self.place {
            Place::Memory(_) => {}
            #[cfg(feature = "sqlite")]
            Place::Sqlite(sqlite) => sqlite.set_patience(patience),
        }
    }
}

/// Returns whether an event is a change of the breaker's state.
fn is_transition(event: &EventRecord) -> bool {
    event.from_state != event.to_state || event.event == "reset"
}
