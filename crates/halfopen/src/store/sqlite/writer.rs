//! Commits durable changes of many callers together, in a thread of its own.
//!
//! A commit that must survive a power cut waits for the disk, about as long as twenty changes take. So one thread
//! takes whatever is queued, makes all of it in one transaction, and waits once: with one caller each change is
//! committed at once, with sixty-four callers the disk is shared by sixty-four. Nothing is waited for to make a batch
//! larger. A batch ends after [`BATCH_MAX`] changes or [`BATCH_LASTS`].
//!
//! **Who goes first.** Circuits decide who may call now; jobs can wait. A transaction of a circuit in this process takes
//! its [`Turn`] before the next batch does. Other processes are let in by a pause after a time of uninterrupted work:
//! SQLite's lock has no queue, so who never lets go of it starves them.
//!
//! **The log** is written back by a second thread, so that no commit pays for it. While these threads run, nobody else in
//! this process writes it back.
//!
//! A change that fails alone is reported to its caller alone; the others of its batch are then made one by one. A batch
//! whose commit fails (a full disk) is reported to all its callers: nothing of it was accepted.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rusqlite::{Transaction, TransactionBehavior};

use super::contend::contend;
use super::draft::Draft;
use super::{Failure, Files, Line, Synchronous};
use crate::clock::Clock;
use crate::store::{self, StoreError, Txn};

/// How many changes a batch has at most.
const BATCH_MAX: usize = 256;

/// How long a batch collects at most.
const BATCH_LASTS: Duration = Duration::from_millis(5);

/// How many changes may wait at most; then callers are told that the store is busy.
const WAITING_MAX: usize = 65_536;

/// How long this process may hold the write lock in batches before it lets others look, and for how long it does.
const UNINTERRUPTED: Duration = Duration::from_millis(50);
const LET_IN: Duration = Duration::from_millis(1);

/// How long a batch stands in the way of circuits while it waits for another process.
const TRY: Duration = Duration::from_millis(20);

/// A log of more frames than this begins anew once it is written back; its file keeps its length, because writing over
/// what is there is cheaper than growing a file.
const LOG_FRAMES_MAX: i64 = 1000;

/// A log that is longer than this, in bytes, when nobody has written for a while, is cut: the next process to open the
/// store would otherwise read all of it.
const LOG_BYTES_IDLE: u64 = 48 * (4096 + 24);

/// How often the log is looked at.
const LOG_LOOK: Duration = Duration::from_millis(50);

/// A durable change that somebody waits for.
pub(in crate::store) trait Change: Send {
    /// Makes the change; may be called again if the batch it was in came to nothing.
    fn make(&mut self, txn: &mut Txn<'_>) -> Result<(), StoreError>;
    /// Tells the caller.
    fn done(self: Box<Self>, outcome: Result<(), StoreError>);
}

/// Who may begin a transaction in this process: circuits before jobs.
#[derive(Debug, Default)]
pub(super) struct Turn {
    state: Mutex<TurnState>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct TurnState {
    taken: bool,
    urgent: u32,
}

/// A turn that is given back when it is dropped.
#[derive(Debug)]
pub(super) struct Taken<'a>(&'a Turn);

impl Turn {
    /// Takes the next turn. After `patience` the caller goes on without: then the lock of the file decides.
    pub(super) fn urgent(&self, patience: Duration) -> Option<Taken<'_>> {
        let began = Instant::now();
        let mut state = self.lock();
        state.urgent += 1;
        while state.taken {
            let left = patience.saturating_sub(began.elapsed());
            if left.is_zero() {
                state.urgent -= 1;
                return None;
            }
            (state, _) = self.freed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        state.urgent -= 1;
        state.taken = true;
        Some(Taken(self))
    }

    /// Takes a turn when nobody urgent waits.
    fn patient(&self) -> Taken<'_> {
        let mut state = self.lock();
        while state.taken || state.urgent > 0 {
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.taken = true;
        Taken(self)
    }

    fn lock(&self) -> MutexGuard<'_, TurnState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.0.lock().taken = false;
        self.0.freed.notify_all();
    }
}

/// The threads that write.
#[derive(Debug)]
pub(super) struct Writer {
    queue: Arc<Queue>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct Queue {
    state: Mutex<QueueState>,
    filled: Condvar,
    stopping: Condvar,
    batches: AtomicU64,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Box<dyn Change>>,
    stopped: bool,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").finish_non_exhaustive()
    }
}

/// What the writing thread works with.
struct Work {
    line: Line,
    files: Files,
    path: PathBuf,
    patience: Duration,
    clock: Clock,
    turn: Arc<Turn>,
    queue: Arc<Queue>,
}

impl Writer {
    /// Starts the threads. `line` writes, `log` writes the log back.
    pub(super) fn start(
        files: &Files,
        path: &Path,
        line: Line,
        log: Line,
        patience: Duration,
        clock: &Clock,
        turn: &Arc<Turn>,
    ) -> std::io::Result<Self> {
        let queue = Arc::new(Queue::default());
        let mut work = Work {
            line,
            files: files.clone(),
            path: path.to_owned(),
            patience,
            clock: clock.clone(),
            turn: Arc::clone(turn),
            queue: Arc::clone(&queue),
        };
        let mut writer = Self { queue: Arc::clone(&queue), threads: Vec::new() };
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        writer.threads.push(named("halfopen-jobs").spawn(move || work.run())?);
        let files = files.clone();
        writer.threads.push(named("halfopen-log").spawn(move || write_back(&queue, &log, &files))?);
        Ok(writer)
    }

    /// Hands over a change; its `done` is called from the writing thread.
    pub(super) fn submit(&self, change: Box<dyn Change>, failure: Failure<'_>) {
        let mut state = self.queue.lock();
        if state.stopped || state.waiting.len() >= WAITING_MAX {
            drop(state);
            change.done(Err(StoreError::Busy { path: failure.path.to_owned(), waited: Duration::ZERO }));
            return;
        }
        state.waiting.push_back(change);
        drop(state);
        self.queue.filled.notify_one();
    }
}

impl Drop for Writer {
    /// What was handed over is still written.
    fn drop(&mut self) {
        self.queue.lock().stopped = true;
        self.queue.filled.notify_all();
        self.queue.stopping.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has told its callers nothing; their channels say so.
            let _ = thread.join();
        }
    }
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is something to do; returns false when there never will be again.
    fn wait(&self) -> bool {
        let mut state = self.lock();
        loop {
            if !state.waiting.is_empty() {
                return true;
            }
            if state.stopped {
                return false;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Takes up to `max` of what waits.
    fn take(&self, max: usize) -> Vec<Box<dyn Change>> {
        let mut state = self.lock();
        let count = state.waiting.len().min(max);
        state.waiting.drain(..count).collect()
    }
}

impl Work {
    fn run(&mut self) {
        let mut since = Instant::now();
        loop {
            let idle_from = Instant::now();
            if !self.queue.wait() {
                return;
            }
            let now = Instant::now();
            if now.duration_since(idle_from) >= LET_IN {
                since = now;
            } else if now.duration_since(since) >= UNINTERRUPTED {
                std::thread::sleep(LET_IN);
                since = Instant::now();
            }
            self.batch();
        }
    }

    /// Makes one batch and tells everybody in it.
    fn batch(&mut self) {
        let mut made = Vec::new();
        let outcome = self.transact(|queue, txn| {
            let began = Instant::now();
            loop {
                let more = queue.take(BATCH_MAX - made.len());
                if more.is_empty() {
                    return Ok(());
                }
                // Those that are in the batch when one fails must be told as well.
                let first = made.len();
                made.extend(more);
                for change in made.iter_mut().skip(first) {
                    make(change.as_mut(), txn)?;
                }
                if made.len() >= BATCH_MAX || began.elapsed() >= BATCH_LASTS {
                    return Ok(());
                }
            }
        });
        self.queue.batches.fetch_add(1, Ordering::Relaxed);
        match outcome {
            Ok(()) => made.into_iter().for_each(|change| tell(change, Ok(()))),
            // The lock was not to be had, so nobody was taken into the batch: those who wait have waited long enough.
            Err(error) if made.is_empty() => {
                self.queue.take(BATCH_MAX).into_iter().for_each(|change| tell(change, Err(error.again())));
            }
            Err(error) if made.len() == 1 || is_everybodys(&error) => {
                made.into_iter().for_each(|change| tell(change, Err(error.again())));
            }
            // One of them failed by itself: each gets a transaction of its own.
            Err(_) => {
                for mut change in made {
                    let outcome = self.transact(|_, txn| make(change.as_mut(), txn));
                    tell(change, outcome);
                }
            }
        }
    }

    fn transact(&mut self, act: impl FnOnce(&Queue, &mut Txn<'_>) -> Result<(), StoreError>) -> Result<(), StoreError> {
        let failure = Failure { path: &self.path, patience: self.patience };
        self.files.still_writable()?;
        self.line.prepare_to_write(Synchronous::Full, failure)?;
        let conn = &self.line.conn;
        let began = Instant::now();
        let (_turn, tx) = loop {
            // Waiting for another process with the turn in hand would keep this one's circuits waiting with us.
            let turn = self.turn.patient();
            match contend(TRY, || Transaction::new_unchecked(conn, TransactionBehavior::Immediate)) {
                Ok(tx) => break (turn, tx),
                Err(cause) => match failure.of(cause) {
                    StoreError::Busy { .. } if began.elapsed() < self.patience => drop(turn),
                    error => return Err(error),
                },
            }
        };
        let mut txn = Txn { now: self.clock.now(), draft: store::Draft::Sqlite(Draft::new(&tx, failure)) };
        act(&self.queue, &mut txn)?;
        txn.finish()?;
        drop(txn);
        // Nothing is looked at after this: a change that was made must not be told as one that was not, or its caller does
        // by itself what is done once more when the files are back.
        tx.commit().map_err(|cause| failure.of(cause))
    }
}

/// Tells a caller; one that panics when it is told does not take the others down.
fn tell(change: Box<dyn Change>, outcome: Result<(), StoreError>) {
    let _ = catch_unwind(AssertUnwindSafe(|| change.done(outcome)));
}

/// Makes one change; a panic in it is its own failure.
fn make(change: &mut dyn Change, txn: &mut Txn<'_>) -> Result<(), StoreError> {
    catch_unwind(AssertUnwindSafe(|| change.make(txn)))
        .unwrap_or_else(|_| Err(StoreError::Lost("a change of the queue panicked and was not made".to_owned())))
}

/// Returns whether an error would meet the others of its batch as well.
fn is_everybodys(error: &StoreError) -> bool {
    matches!(
        error,
        StoreError::Full { .. }
            | StoreError::ReadOnly { .. }
            | StoreError::Busy { .. }
            | StoreError::Replaced { .. }
            | StoreError::Gone { .. }
            | StoreError::ForeignLog { .. }
            | StoreError::Corrupt { .. }
    )
}

/// Writes the log back while there is something to write back, until the writer stops.
fn write_back(queue: &Queue, log: &Line, files: &Files) {
    // What cannot be done now, because somebody reads or writes, is done the next time.
    let checkpoint = |how: &str| -> i64 {
        // A log that is not beside this file any more may be another store's by now.
        if files.still_there().is_err() {
            return 0;
        }
        let sql = format!("PRAGMA wal_checkpoint({how})");
        log.conn.query_row(&sql, [], |row| row.get(1)).unwrap_or(0)
    };
    let mut seen = 0;
    let mut state = queue.lock();
    while !state.stopped {
        drop(state);
        let batches = queue.batches.load(Ordering::Relaxed);
        if batches != seen {
            seen = batches;
            // The long part keeps nobody waiting; what is left then is short, and lets the log begin anew.
            if checkpoint("PASSIVE") > LOG_FRAMES_MAX {
                checkpoint("RESTART");
            }
        } else if std::fs::metadata(files.log_path()).is_ok_and(|log| log.len() > LOG_BYTES_IDLE) {
            checkpoint("TRUNCATE");
        }
        let (held, _) = queue.stopping.wait_timeout(queue.lock(), LOG_LOOK).unwrap_or_else(PoisonError::into_inner);
        state = held;
    }
}
