//! What a store keeps about jobs, and the verbs of a transaction that read and change it.
//!
//! # The contract
//!
//! It adds to the one of [`super`]; the verbs that people and workers use are [`crate::handle`]'s.
//!
//! - **Accepted means on the disk.** What [`super::Store::transact_durably`] committed survives a power cut; an error
//!   means that nothing was changed. Other commits may be lost by a power cut, the newest first: a claim that is lost
//!   so is no harm, because its attempt was not noted either, and what was not noted was not sent.
//! - **A job, its history, its place among the others and its lane's figures change in one transaction**, and so do a
//!   claim and the permits of its circuits.
//! - **Counted, never scanned.** A lane (jobs that the same circuits judge and the same workers can do) counts its jobs by state. Finding the next
//!   job is a look at one end of an index, so it costs the same however many wait.
//! - **The sum holds:** `accepted = queued + running + done + failed + expired + manual_review + cancelled + pruned`,
//!   for each lane, after every commit.
//! - **Fencing** is the job's own: a step under a grant that is not the newest, or whose lease is over by this store's
//!   clock, is refused and changes nothing.
//! - **Order.** Among open jobs with one order key exactly one, the *head*, may be claimed; the others lie behind it in
//!   the order in which they came. A requeued job lies behind what is open.
//! - **Payloads** up to [`INLINE_BYTES_MAX`] lie in the row, larger ones in a file beside the store that is durable
//!   before the row is. A file without a row is an orphan of a crash; [`super::Store::remove_orphans`] removes it.

use std::collections::BTreeMap;

use halfopen_core::circuit_id::CircuitId;
use halfopen_core::job::{Entry, Job, JobId, JobKind, JobState, Reason, Shelf};
use halfopen_core::time::Timestamp;

use super::{Draft, StoreError, Txn};

/// The largest body that lies in a row, in bytes.
pub const INLINE_BYTES_MAX: usize = 64 * 1024;

/// The largest body of a result that is kept, in bytes; a longer one is cut.
pub const RESULT_BYTES_MAX: usize = 8 << 20;

/// How many lanes of its own a dependency has at most; jobs of further ones are judged by the whole. As many more are
/// there for kinds of jobs; beyond that kinds share a lane.
pub const LANES_MAX: usize = 256;

/// The number of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct LaneId(pub(crate) i64);

/// Jobs that the same circuits judge and the same workers can perform, and how many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lane {
    pub(crate) id: LaneId,
    pub(crate) place: CircuitId,
    pub(crate) account: Option<CircuitId>,
    /// Who can perform them; `None` where kinds share the lane, as those of older stores do.
    pub(crate) kind: Option<JobKind>,
    pub(crate) tally: Tally,
}

/// How many jobs are where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Waiting.
    pub queued: u64,
    /// In a worker's hands.
    pub running: u64,
    /// Done and kept.
    pub done: u64,
    /// Failed and kept.
    pub failed: u64,
    /// Expired and kept.
    pub expired: u64,
    /// Waiting for a person.
    pub manual_review: u64,
    /// Cancelled and kept.
    pub cancelled: u64,
    /// Ever accepted.
    pub accepted: u64,
    /// Removed after they had ended and were kept long enough.
    pub pruned: u64,
    /// Bytes of the requests of open jobs.
    pub open_bytes: u64,
}

impl Tally {
    /// Returns how many are in a state.
    #[must_use]
    pub fn of(&self, state: JobState) -> u64 {
        match state {
            JobState::Queued => self.queued,
            JobState::Running => self.running,
            JobState::Done => self.done,
            JobState::Failed => self.failed,
            JobState::Expired => self.expired,
            JobState::ManualReview => self.manual_review,
            JobState::Cancelled => self.cancelled,
        }
    }

    /// Returns how many count against the queue's bound.
    #[must_use]
    pub fn open(&self) -> u64 {
        JobState::ALL.into_iter().filter(|state| state.is_open()).map(|state| self.of(state)).sum()
    }

    /// Returns whether every accepted job is somewhere.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        let somewhere: u64 = JobState::ALL.into_iter().map(|state| self.of(state)).sum();
        self.accepted == somewhere + self.pruned
    }

    /// Adds another's figures.
    pub(crate) fn add(&mut self, other: &Self) {
        for state in JobState::ALL {
            *self.slot(state) += other.of(state);
        }
        self.accepted += other.accepted;
        self.pruned += other.pruned;
        self.open_bytes += other.open_bytes;
    }

    pub(crate) fn slot(&mut self, state: JobState) -> &mut u64 {
        match state {
            JobState::Queued => &mut self.queued,
            JobState::Running => &mut self.running,
            JobState::Done => &mut self.done,
            JobState::Failed => &mut self.failed,
            JobState::Expired => &mut self.expired,
            JobState::ManualReview => &mut self.manual_review,
            JobState::Cancelled => &mut self.cancelled,
        }
    }
}

/// A change of a lane's figures, collected over a transaction and written once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moved {
    pub(crate) states: [i64; 7],
    pub(crate) accepted: i64,
    pub(crate) pruned: i64,
    pub(crate) open_bytes: i64,
}

impl Moved {
    /// Counts a job that leaves `from` and arrives at `to`.
    pub(crate) fn count(&mut self, from: Option<JobState>, to: Option<JobState>, bytes: u64) {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let mut one = |state: JobState, by: i64| {
            self.states[state_number(state)] += by;
            if state.is_open() {
                self.open_bytes += by * bytes;
            }
        };
        if let Some(from) = from {
            one(from, -1);
        }
        if let Some(to) = to {
            one(to, 1);
        }
        self.accepted += i64::from(from.is_none());
        self.pruned += i64::from(to.is_none());
    }

    /// Applies the change.
    pub(crate) fn apply(&self, tally: &mut Tally) {
        let moved = |slot: &mut u64, by: i64| *slot = slot.saturating_add_signed(by);
        for state in JobState::ALL {
            moved(tally.slot(state), self.states[state_number(state)]);
        }
        moved(&mut tally.accepted, self.accepted);
        moved(&mut tally.pruned, self.pruned);
        moved(&mut tally.open_bytes, self.open_bytes);
    }
}

/// Returns the place of a state in [`JobState::ALL`].
pub(crate) const fn state_number(state: JobState) -> usize {
    match state {
        JobState::Queued => 0,
        JobState::Running => 1,
        JobState::Done => 2,
        JobState::Failed => 3,
        JobState::Expired => 4,
        JobState::ManualReview => 5,
        JobState::Cancelled => 6,
    }
}

/// Returns the number under which a job lies in its lane.
pub(crate) const fn shelf_number(shelf: Shelf, state: JobState) -> i64 {
    match shelf {
        Shelf::Ready => 0,
        Shelf::ReadyOnce => 1,
        Shelf::Suspect => 2,
        Shelf::Delayed => 3,
        Shelf::Behind => 4,
        Shelf::Elsewhere => 10 + state_number(state) as i64,
    }
}

/// Returns the shelves on which the jobs of a state lie.
pub(crate) fn shelves_of(state: JobState) -> Vec<i64> {
    match state {
        JobState::Queued => vec![0, 1, 2, 3, 4],
        JobState::Running
        | JobState::Done
        | JobState::Failed
        | JobState::Expired
        | JobState::ManualReview
        | JobState::Cancelled => vec![shelf_number(Shelf::Elsewhere, state)],
    }
}

/// A digest that stands for an idempotency key in its scope, or for an order key.
pub(crate) type Digest = [u8; 20];

/// One job as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JobRow {
    pub(crate) id: JobId,
    pub(crate) lane: LaneId,
    pub(crate) job: Job,
    /// Bytes of its request.
    pub(crate) bytes: u64,
    /// How many entries its history has.
    pub(crate) entries: u32,
    /// Its idempotency key.
    pub(crate) scope: Option<Digest>,
    /// Its order key, and its place in that key's line.
    pub(crate) order: Option<(Digest, u64)>,
    /// Who asked for it, where callers are told apart.
    pub(crate) caller: Option<String>,
    /// The idempotency key that came with it, unless it looks like a secret.
    pub(crate) key: Option<String>,
    /// Whether a program is told of its end.
    pub(crate) on_done: bool,
}

impl JobRow {
    pub(crate) fn shelf(&self) -> i64 {
        shelf_number(self.job.shelf(), self.job.state())
    }
}

/// Which part of a job's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// What it sends.
    Request = 0,
    /// What came back.
    Result = 1,
}

/// A payload as it is kept: what is small, and where the body is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Payload {
    pub(crate) head: String,
    pub(crate) body: Body,
}

/// Where the body of a payload is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Inline(Vec<u8>),
    /// The name of a file beside the store.
    File(String),
}

impl Body {
    /// Returns the name of its file, if it lies in one.
    pub(crate) fn file(&self) -> Option<&str> {
        match self {
            Self::Inline(_) => None,
            Self::File(name) => Some(name),
        }
    }
}

/// An idempotency key that is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TakenKey {
    pub(crate) seq: u64,
    pub(crate) payload: Digest,
}

/// Which jobs are wanted, newest last.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// Only of this dependency.
    pub dependency: Option<String>,
    /// Only in this state.
    pub state: Option<JobState>,
    /// Only those that ended, or went to a person, for this reason.
    pub reason: Option<Reason>,
    /// Only those accepted before this instant.
    pub accepted_before: Option<Timestamp>,
    /// Only those after this one.
    pub after: Option<JobId>,
    /// At most so many, 1 to 1000; 0 is 100.
    pub limit: usize,
}

impl JobFilter {
    /// Returns the limit that holds.
    pub(crate) fn limit(&self) -> usize {
        if self.limit == 0 { 100 } else { self.limit.min(1000) }
    }

    /// Returns whether a job is wanted, as far as no index says so: by its reason and its age.
    pub(crate) fn takes(&self, row: &JobRow) -> bool {
        self.reason.is_none_or(|reason| row.job.reason() == Some(reason))
            && self.accepted_before.is_none_or(|before| row.job.accepted_at() < before)
    }
}

/// The depth and the age of a dependency's jobs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFigures {
    /// How many are where.
    pub tally: Tally,
    /// When the oldest job of each state was accepted.
    pub oldest: BTreeMap<JobState, Timestamp>,
}

/// Delegates to the place the store is kept in.
macro_rules! on_draft {
    ($draft:expr, $inner:ident => $call:expr) => {
        match $draft {
            Draft::Memory($inner) => Ok($call),
            #[cfg(feature = "sqlite")]
            Draft::Sqlite($inner) => $call,
        }
    };
}

impl Txn<'_> {
    /// Returns the lane of those circuits and that kind, making it if there is none; beyond [`LANES_MAX`] that of the
    /// whole.
    pub(crate) fn lane(
        &mut self,
        place: &CircuitId,
        account: Option<&CircuitId>,
        kind: &JobKind,
    ) -> Result<LaneId, StoreError> {
        let lanes = self.lanes(Some(place.dependency()))?;
        let whole = CircuitId::whole(place.dependency()).unwrap_or_else(|_| place.clone());
        let choices = [(place, account, Some(kind)), (&whole, None, Some(kind)), (&whole, None, None)];
        let rooms = [LANES_MAX, LANES_MAX * 2, usize::MAX];
        for ((place, account, kind), room) in choices.into_iter().zip(rooms) {
            let is_it =
                |lane: &&Lane| lane.place == *place && lane.account.as_ref() == account && lane.kind.as_ref() == kind;
            if let Some(lane) = lanes.iter().find(is_it) {
                return Ok(lane.id);
            }
            if lanes.len() < room {
                return on_draft!(&mut self.draft, draft => draft.new_lane(place, account, kind));
            }
        }
        on_draft!(&mut self.draft, draft => draft.new_lane(&whole, None, None))
    }

    /// Returns the lanes of a dependency, or all, with their figures as they stand in this transaction.
    pub(crate) fn lanes(&self, dependency: Option<&str>) -> Result<Vec<Lane>, StoreError> {
        on_draft!(&self.draft, draft => draft.lanes(dependency))
    }

    /// Adds a job and its first entry; `row.id.seq` is chosen here.
    pub(crate) fn insert_job(&mut self, mut row: JobRow, entry: &Entry) -> Result<JobId, StoreError> {
        row.entries = 1;
        on_draft!(&mut self.draft, draft => draft.insert_job(row, entry))
    }

    /// Returns a job by its number.
    pub(crate) fn job(&self, seq: u64) -> Result<Option<JobRow>, StoreError> {
        on_draft!(&self.draft, draft => draft.job(seq))
    }

    /// Saves a job that was `before`, with what its history gets.
    pub(crate) fn save_job(
        &mut self,
        before: &JobRow,
        after: &mut JobRow,
        entry: Option<&Entry>,
    ) -> Result<(), StoreError> {
        if let Some(entry) = entry {
            let n = after.entries;
            after.entries += 1;
            on_draft!(&mut self.draft, draft => draft.append_entry(after.id.seq, n, entry))?;
        }
        on_draft!(&mut self.draft, draft => draft.save_job(before, after))
    }

    /// Removes a job with all that belongs to it; returns the files that nobody needs any more.
    pub(crate) fn remove_job(&mut self, row: &JobRow) -> Result<Vec<String>, StoreError> {
        on_draft!(&mut self.draft, draft => draft.remove_job(row))
    }

    /// Removes the lanes of a dependency in which no job lies, with their figures.
    pub(crate) fn remove_empty_lanes(&mut self, dependency: &str) -> Result<(), StoreError> {
        on_draft!(&mut self.draft, draft => draft.remove_empty_lanes(dependency))
    }

    /// Returns the oldest job of a lane on a shelf.
    pub(crate) fn first_on_shelf(&self, lane: LaneId, shelf: Shelf) -> Result<Option<JobRow>, StoreError> {
        let shelf = shelf_number(shelf, JobState::Queued);
        Ok(self.on_shelf(lane, shelf, 1)?.pop())
    }

    /// Returns the oldest jobs of a lane on a shelf.
    pub(crate) fn on_shelf(&self, lane: LaneId, shelf: i64, max: usize) -> Result<Vec<JobRow>, StoreError> {
        on_draft!(&self.draft, draft => draft.on_shelf(lane, shelf, max))
    }

    /// Returns the numbers of jobs that time changes by now, the longest due first.
    pub(crate) fn due_jobs(&self, max: usize) -> Result<Vec<u64>, StoreError> {
        self.jobs_due_by(self.now, max)
    }

    /// Returns the numbers of jobs that time changes by `at`, the first due first.
    pub(crate) fn jobs_due_by(&self, at: Timestamp, max: usize) -> Result<Vec<u64>, StoreError> {
        on_draft!(&self.draft, draft => draft.due_jobs(at, max))
    }

    /// Keeps a payload of a job.
    pub(crate) fn put_payload(&mut self, seq: u64, part: Part, payload: &Payload) -> Result<(), StoreError> {
        on_draft!(&mut self.draft, draft => draft.put_payload(seq, part, payload))
    }

    /// Returns who has taken an idempotency key.
    pub(crate) fn key(&self, scope: &Digest) -> Result<Option<TakenKey>, StoreError> {
        on_draft!(&self.draft, draft => draft.key(scope))
    }

    /// Takes an idempotency key.
    pub(crate) fn put_key(&mut self, scope: &Digest, taken: TakenKey) -> Result<(), StoreError> {
        on_draft!(&mut self.draft, draft => draft.put_key(scope, taken))
    }

    /// Returns the first open job in the line of an order key.
    pub(crate) fn line_head(&self, key: &Digest) -> Result<Option<u64>, StoreError> {
        on_draft!(&self.draft, draft => draft.line_head(key))
    }

    /// Returns the last place that is taken in the line of an order key; 0 if none is.
    pub(crate) fn line_end(&self, key: &Digest) -> Result<u64, StoreError> {
        on_draft!(&self.draft, draft => draft.line_end(key))
    }

    /// Takes a place in the line of an order key.
    pub(crate) fn line_up(&mut self, key: &Digest, line: u64, seq: u64) -> Result<(), StoreError> {
        on_draft!(&mut self.draft, draft => draft.line_up(key, line, seq))
    }

    /// Leaves a place in the line of an order key.
    pub(crate) fn line_leave(&mut self, key: &Digest, line: u64) -> Result<(), StoreError> {
        on_draft!(&mut self.draft, draft => draft.line_leave(key, line))
    }

    /// Returns the history of a job, oldest first.
    pub(crate) fn history(&self, seq: u64) -> Result<Vec<Entry>, StoreError> {
        on_draft!(&self.draft, draft => draft.history(seq))
    }

    /// Returns a payload of a job.
    pub(crate) fn payload(&self, seq: u64, part: Part) -> Result<Option<Payload>, StoreError> {
        on_draft!(&self.draft, draft => draft.payload(seq, part))
    }

    /// Returns when time changes a job next, if it ever does.
    pub(crate) fn next_job_wake(&self) -> Result<Option<Timestamp>, StoreError> {
        on_draft!(&self.draft, draft => draft.next_job_wake())
    }

    /// Returns jobs in the order in which they were accepted.
    pub(crate) fn list(&self, filter: &JobFilter) -> Result<Vec<JobRow>, StoreError> {
        let after = filter.after.map_or(0, |id| id.seq);
        let max = filter.limit();
        if filter.dependency.is_none() && filter.state.is_none() {
            return on_draft!(&self.draft, draft => draft.jobs_after(after, max));
        }
        let states = filter.state.map_or_else(|| JobState::ALL.to_vec(), |state| vec![state]);
        let mut rows = Vec::new();
        for lane in self.lanes(filter.dependency.as_deref())? {
            for shelf in states.iter().filter(|state| lane.tally.of(**state) > 0).flat_map(|state| shelves_of(*state)) {
                rows.extend(on_draft!(&self.draft, draft => draft.after_on_shelf(lane.id, shelf, after, max))?);
            }
            // What cannot be among the first is dropped at once, so that memory does not grow with the lanes.
            rows.sort_by_key(|row: &JobRow| row.id);
            rows.truncate(max);
        }
        Ok(rows)
    }

    /// Counts the jobs of each lane and shelf by looking at all of them.
    pub(crate) fn counted(&self) -> Result<Vec<(LaneId, i64, u64)>, StoreError> {
        on_draft!(&self.draft, draft => draft.counted())
    }

    /// Returns the files that jobs refer to.
    pub(crate) fn files(&self) -> Result<Vec<(u64, String)>, StoreError> {
        match &self.draft {
            Draft::Memory(_) => Ok(Vec::new()),
            #[cfg(feature = "sqlite")]
            Draft::Sqlite(draft) => draft.files(),
        }
    }

    /// Returns whether a file belongs to a job.
    pub(crate) fn is_file_of_a_job(&self, name: &str) -> Result<bool, StoreError> {
        match &self.draft {
            Draft::Memory(_) => Ok(false),
            #[cfg(feature = "sqlite")]
            Draft::Sqlite(draft) => draft.is_file_of_a_job(name),
        }
    }

    /// Writes what was collected beside the transaction; whoever commits calls it last.
    pub(crate) fn finish(&mut self) -> Result<(), StoreError> {
        match &mut self.draft {
            Draft::Memory(_) => Ok(()),
            #[cfg(feature = "sqlite")]
            Draft::Sqlite(draft) => draft.write_lanes(),
        }
    }
}
