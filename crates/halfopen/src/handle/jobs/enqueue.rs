//! Accepts jobs.
//!
//! What can be done before the lock is taken is done before it: the request is encoded and digested, a large body is
//! written to its file. Under the lock stand the questions that only the store can answer: is the key taken, is there
//! room, is another job with the order key open.

use halfopen_core::circuit_id::CircuitId;
use halfopen_core::job::{
    BeyondTtl, Entrance, Job, JobId, JobKind, JobRequest, JobState, KEY_LIVES, Reason, Terms, is_worth_queueing,
};
use halfopen_core::redact;
use halfopen_core::snapshot;
use halfopen_core::time::Timestamp;
use sha2::{Digest as _, Sha256};

use super::Handle;
use crate::config::QueueBounds;
use crate::store::jobs::{Body, Digest, INLINE_BYTES_MAX, JobRow, Part, Payload, TakenKey, Tally};
use crate::store::{Store, StoreError, Txn};

/// A call that is to be stored.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// What is fixed when it is accepted.
    pub terms: Terms,
    /// What it sends.
    pub request: JobRequest,
    /// Its idempotency key: the same key again is the same job.
    pub key: Option<JobKey>,
    /// Jobs with the same one of the same dependency are done in the order in which they came.
    pub order_key: Option<String>,
    /// Set if it goes to a person at once: `on_open: manual_review`.
    pub review: Option<Reason>,
    /// Before when it cannot be sent, as far as the dependency said.
    pub retry_at: Option<Timestamp>,
    /// How much may be queued.
    pub bounds: QueueBounds,
    /// Who asks for it, where callers are told apart; shown, and told to programs.
    pub caller: Option<String>,
    /// Whether programs are told of its end: the policy has `on_done`.
    pub on_done: bool,
}

/// An idempotency key and who chose it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobKey {
    /// Who: a caller token's name, or empty where callers are not told apart.
    pub caller: String,
    /// What was chosen; at most 255 bytes are told apart by their digest.
    pub key: String,
}

/// What became of a call that was to be stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Accepted {
    /// It is a new job.
    New(Receipt),
    /// The key was known with the same payload: this is that job.
    Replayed(Receipt),
}

impl Accepted {
    /// Returns the receipt, whether new or not.
    #[must_use]
    pub fn receipt(&self) -> &Receipt {
        match self {
            Self::New(receipt) | Self::Replayed(receipt) => receipt,
        }
    }
}

/// What the caller gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// The job's name.
    pub id: JobId,
    /// Its state.
    pub state: JobState,
    /// When its time to live ends.
    pub expires_at: Timestamp,
    /// How many jobs of the dependency wait, this one included.
    pub position: u64,
}

/// Why a call was not stored. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EnqueueError {
    /// The key belongs to another payload.
    #[error("the idempotency key was used for job {0} with another payload")]
    KeyTaken(JobId),
    /// The queue is full.
    #[error("the queue of {dependency} is full: {open} open jobs, queue.max_jobs is {max}")]
    TooManyJobs {
        /// The dependency.
        dependency: String,
        /// Jobs that count.
        open: u64,
        /// The bound.
        max: u64,
    },
    /// The payloads are too large together.
    #[error("the queue of {dependency} is full: {open} bytes in open jobs and {bytes} more, queue.max_bytes is {max}")]
    TooManyBytes {
        /// The dependency.
        dependency: String,
        /// Bytes that count.
        open: u64,
        /// Bytes of this one.
        bytes: u64,
        /// The bound.
        max: u64,
    },
    /// It would expire before it could be sent.
    #[error(transparent)]
    BeyondTtl(BeyondTtl),
    /// The store cannot make it durable.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What was done before the lock is taken.
#[derive(Debug)]
struct Prepared {
    terms: Terms,
    kind: JobKind,
    payload: Payload,
    bytes: u64,
    digest: Digest,
    scope: Option<Digest>,
    order: Option<Digest>,
    review: Option<Reason>,
    retry_at: Option<Timestamp>,
    bounds: QueueBounds,
    mark: u32,
    known: Known,
    caller: Option<String>,
    key: Option<String>,
    on_done: bool,
}

/// What a key that is known stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Known {
    /// One call: its job, whatever became of it.
    OneCall,
    /// The same work again: its job as long as that waits, a new one after.
    SameWork,
}

impl Handle {
    /// Stores a call; when this returns it is on the disk.
    ///
    /// # Errors
    ///
    /// Why it was not stored. A [`EnqueueError::Store`] of the kind `Full` names a full disk.
    pub fn enqueue(&self, new: NewJob) -> Result<Accepted, EnqueueError> {
        self.enqueue_as(new, Known::OneCall)
    }

    /// Stores a call whose key was made out of what it does: as long as a job with that key waits, this is that job,
    /// whatever else the two do not share. Once that one was begun, the same work asked for again is new work.
    ///
    /// # Errors
    ///
    /// As [`Handle::enqueue`], without [`EnqueueError::KeyTaken`].
    pub fn enqueue_or_join(&self, new: NewJob) -> Result<Accepted, EnqueueError> {
        self.enqueue_as(new, Known::SameWork)
    }

    fn enqueue_as(&self, new: NewJob, known: Known) -> Result<Accepted, EnqueueError> {
        let store = self.job_store()?;
        let prepared = prepare(&store, new, known)?;
        let file = prepared.payload.body.file().map(str::to_owned);
        let outcome = store.transact_durably(move |txn| accept(txn, &prepared));
        self.conclude(&store, file, outcome)
    }

    /// Stores a call, and calls `then` when it is on the disk or was refused. `then` runs on the writing thread and must
    /// not wait; without [`Handle::commit_in_groups`] it runs here.
    pub fn enqueue_then(&self, new: NewJob, then: impl FnOnce(Result<Accepted, EnqueueError>) + Send + 'static) {
        let store = match self.job_store() {
            Ok(store) => store,
            Err(error) => return then(Err(error.into())),
        };
        let prepared = match prepare(&store, new, Known::OneCall) {
            Ok(prepared) => prepared,
            Err(error) => return then(Err(error.into())),
        };
        let file = prepared.payload.body.file().map(str::to_owned);
        let files = store.payloads();
        store.submit(move |txn| accept(txn, &prepared), move |outcome| then(concluded(files.as_ref(), file, outcome)));
    }

    /// Returns the job that an idempotency key belongs to, if there is one.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn job_with_key(&self, dependency: &str, key: &JobKey) -> Result<Option<JobId>, StoreError> {
        let scope = scope_of(dependency, key);
        self.readable()?.look(|txn| {
            let taken = txn.key(&scope)?;
            Ok(taken.map(|taken| txn.job(taken.seq)).transpose()?.flatten().map(|row| row.id))
        })
    }

    /// Returns the open job behind which a call with this order key must wait, if there is one.
    ///
    /// # Errors
    ///
    /// If the store cannot be read.
    pub fn order_held(&self, dependency: &str, order_key: &str) -> Result<Option<JobId>, StoreError> {
        let key = order_digest(dependency, order_key);
        self.readable()?.look(|txn| {
            let head = txn.line_head(&key)?;
            Ok(head.map(|seq| txn.job(seq)).transpose()?.flatten().map(|row| row.id))
        })
    }

    fn conclude(
        &self,
        store: &Store,
        file: Option<String>,
        outcome: Result<Result<Accepted, EnqueueError>, StoreError>,
    ) -> Result<Accepted, EnqueueError> {
        match &outcome {
            Ok(_) => {
                // Where no thread writes the log back, whoever makes it longer must; what fails is done by the next.
                let _ = store.tidy();
            }
            Err(error) => self.note_unwritable(error),
        }
        concluded(store.payloads().as_ref(), file, outcome)
    }
}

/// Removes the file of a job that was not stored; a file whose commit is unclear stays, as an orphan or a payload.
fn concluded(
    files: Option<&crate::store::Payloads>,
    file: Option<String>,
    outcome: Result<Result<Accepted, EnqueueError>, StoreError>,
) -> Result<Accepted, EnqueueError> {
    let needed = match &outcome {
        Ok(outcome) => matches!(outcome, Ok(Accepted::New(_))),
        // On a full disk it would take room for an hour.
        Err(error) => !error.is_certain(),
    };
    if let (false, Some(files), Some(file)) = (needed, files, file) {
        files.forget(&[file]);
    }
    outcome?
}

fn prepare(store: &Store, new: NewJob, known: Known) -> Result<Prepared, StoreError> {
    let NewJob { mut terms, request, key, order_key, review, retry_at, bounds, caller, on_done } = new;
    let (bytes, kind) = (request.bytes(), request.kind());
    let same = payload_words(&request);
    let (head, body) = snapshot::encode_request(request);
    let digest = match &same {
        Some(words) => digest(&[words.as_bytes(), &body]),
        None => digest(&[head.as_bytes(), &body]),
    };
    let dependency = terms.dependency().to_owned();
    let scope = key.as_ref().map(|key| scope_of(&dependency, key));
    // A key that was made here says nothing to anybody, and one that holds a secret is not kept.
    let key = key.map(|key| key.key).filter(|key| known == Known::OneCall && redact::redact(key) == *key);
    if scope.is_some() {
        // A key goes with its job.
        terms.keep = terms.keep.max(KEY_LIVES);
    }
    let order = order_key.map(|key| order_digest(&dependency, &key));
    let body = match store.payloads() {
        Some(files) if body.len() > INLINE_BYTES_MAX => {
            store.still_there()?;
            Body::File(files.keep(&body)?)
        }
        Some(_) | None => Body::Inline(body),
    };
    let payload = Payload { head, body };
    Ok(Prepared {
        terms,
        kind,
        payload,
        bytes,
        digest,
        scope,
        order,
        review,
        retry_at,
        bounds,
        mark: fastrand::u32(..),
        known,
        caller: caller.filter(|caller| !caller.is_empty()),
        key,
        on_done,
    })
}

/// Accepts a job under the lock, or says why not without having changed anything.
fn accept(txn: &mut Txn<'_>, new: &Prepared) -> Result<Result<Accepted, EnqueueError>, StoreError> {
    let now = txn.now();
    let place = &new.terms.place;
    let tally = tally_of(txn, place)?;
    if let Some(scope) = &new.scope
        && let Some(taken) = txn.key(scope)?
        && let Some(row) = txn.job(taken.seq)?
    {
        match new.known {
            Known::OneCall if taken.payload != new.digest => return Ok(Err(EnqueueError::KeyTaken(row.id))),
            Known::SameWork if !still_waits(&row, new.review) => {}
            Known::OneCall | Known::SameWork => return Ok(Ok(Accepted::Replayed(receipt(&row, tally.queued)))),
        }
    }
    if let Some(full) = refused_by_bounds(new, &tally) {
        return Ok(Err(full));
    }
    let head = new.order.map(|key| txn.line_head(&key)).transpose()?.flatten();
    let entrance = match (new.review, head) {
        (Some(reason), _) => Entrance::Review(reason),
        (None, Some(_)) => Entrance::QueueBehind,
        (None, None) => Entrance::Queue,
    };
    if new.review.is_none()
        && let Err(beyond) = is_worth_queueing(new.retry_at, new.terms.ttl, now)
    {
        return Ok(Err(beyond.into()));
    }
    let lane = txn.lane(place, new.terms.account.as_ref(), &new.kind)?;
    let (job, entry) = Job::accept(new.terms.clone(), entrance, now);
    let order = match new.order {
        Some(key) => Some((key, txn.line_end(&key)? + 1)),
        None => None,
    };
    let id = JobId { seq: 0, mark: new.mark };
    let mut row = JobRow {
        id,
        lane,
        job,
        bytes: new.bytes,
        entries: 0,
        scope: new.scope,
        order,
        caller: new.caller.clone(),
        key: new.key.clone(),
        on_done: new.on_done,
    };
    row.id = txn.insert_job(row.clone(), &entry)?;
    txn.put_payload(row.id.seq, Part::Request, &new.payload)?;
    if let Some(scope) = &new.scope {
        txn.put_key(scope, TakenKey { seq: row.id.seq, payload: new.digest })?;
    }
    if let Some((key, line)) = order {
        txn.line_up(&key, line, row.id.seq)?;
    }
    Ok(Ok(Accepted::New(receipt(&row, tally.queued + u64::from(new.review.is_none())))))
}

/// Returns whether nothing of a job was begun, so that the same work can join it: it is queued, or both are for a person.
fn still_waits(row: &JobRow, review: Option<Reason>) -> bool {
    match row.job.state() {
        JobState::Queued => true,
        JobState::ManualReview => review.is_some(),
        JobState::Running | JobState::Done | JobState::Failed | JobState::Expired | JobState::Cancelled => false,
    }
}

fn refused_by_bounds(new: &Prepared, tally: &Tally) -> Option<EnqueueError> {
    let dependency = || new.terms.dependency().to_owned();
    let (open, max) = (tally.open(), new.bounds.jobs_max);
    if open >= max {
        return Some(EnqueueError::TooManyJobs { dependency: dependency(), open, max });
    }
    let (open, max, bytes) = (tally.open_bytes, new.bounds.bytes_max, new.bytes);
    (open.saturating_add(bytes) > max).then(|| EnqueueError::TooManyBytes {
        dependency: dependency(),
        open,
        bytes,
        max,
    })
}

fn receipt(row: &JobRow, position: u64) -> Receipt {
    Receipt { id: row.id, state: row.job.state(), expires_at: row.job.expires_at(), position }
}

fn tally_of(txn: &Txn<'_>, place: &CircuitId) -> Result<Tally, StoreError> {
    let mut tally = Tally::default();
    for lane in txn.lanes(Some(place.dependency()))? {
        tally.add(&lane.tally);
    }
    Ok(tally)
}

/// Returns what beside its body makes a request the same as another one with its key; `None` if all of it does.
///
/// Clients number and stamp what they repeat (`x-retry-count`, `traceparent`, `date`), so fields do not count, but for
/// those that say what the body is.
fn payload_words(request: &JobRequest) -> Option<String> {
    let JobRequest::Http(http) = request else { return None };
    let mut words = format!("{} {}", http.method, http.target);
    for wanted in ["content-type", "content-encoding"] {
        for (_, value) in http.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case(wanted)) {
            words.push('\n');
            words.push_str(&String::from_utf8_lossy(value));
        }
    }
    Some(words)
}

fn scope_of(dependency: &str, key: &JobKey) -> Digest {
    digest(&[dependency.as_bytes(), key.caller.as_bytes(), key.key.as_bytes()])
}

fn order_digest(dependency: &str, order_key: &str) -> Digest {
    digest(&[b"order", dependency.as_bytes(), order_key.as_bytes()])
}

/// Returns a digest of several words; their lengths are part of it, so that no two lists of words are alike.
fn digest(words: &[&[u8]]) -> Digest {
    let mut hasher = Sha256::new();
    for word in words {
        hasher.update((word.len() as u64).to_le_bytes());
        hasher.update(word);
    }
    let full = hasher.finalize();
    let mut digest = Digest::default();
    for (short, long) in digest.iter_mut().zip(full.iter()) {
        *short = *long;
    }
    digest
}
