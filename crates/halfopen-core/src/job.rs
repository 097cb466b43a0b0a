//! Decides for one job: what may happen to it, and what an attempt's end means for it.
//!
//! A job is a call that was stored to be done later. It is a value, as a circuit is: [`Job::step`] changes it or says
//! why not, and returns the entry that its history gets in the same transaction. All transitions stand in one `match`
//! (`job/step.rs`); what a verdict means stands in `job/ending.rs`.
//!
//! ```text
//! queued ─▶ running ─▶ done | failed (permanent verdict) | manual_review (unknown end; attempts used up)
//! queued ─▶ expired | manual_review (TTL over)     any open ─▶ cancelled (operator)
//! failed, expired, manual_review ─▶ queued | done | cancelled (operator)
//! ```
//!
//! Rules that the states do not show:
//! - **What may have been executed is not sent again** unless [`Job::repeatable`] says that a second time is safe. An
//!   attempt counts as sent from the moment it was noted ([`Step::NoteSending`]), whatever became of the worker.
//! - **An outage uses up nothing.** Limits, overloads, refused connections and failed probes are not charged; the time
//!   to live decides. Charged are failures of the job's own, and attempts that ended with their worker.
//! - **A claim is no attempt.** A worker that ends before it has noted the sending costs the job nothing; what ends worker
//!   after worker while it is being prepared goes to a person after [`CLAIMS_LOST_MAX`] of them.
//! - **A lease is fenced by its grant**, a number that grows with every claim. A lease that is over confers no right,
//!   also if nobody has claimed the job since.
//! - **Time passes by itself.** A job whose time to live is over is not claimed, whether or not a sweep has seen it.
//!
//! What a job does not know: its request and result (the store keeps them), its order among others (the store keeps
//! that too and says [`Step::Unblock`]), and circuits, beyond the names of those that judge it.

mod ending;
mod reason;
mod request;
mod step;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::circuit_id::CircuitId;
use crate::event::By;
use crate::policy::{OnExpiry, Policy, Replay};
use crate::retry::Repeatable;
use crate::time::{Deadline, Timestamp};
use crate::verdict::Class;

pub use reason::{Reason, UnknownReason};
pub use request::{CommandRequest, HttpRequest, JobKind, JobRequest, JobResult, STDERR_BYTES_MAX, UnknownJobKind};
pub use step::{Admitted, IllegalStep, ReleaseCause, Sent, Step};

/// How long a job is worth doing where the policy does not say.
pub const TTL_UNSTATED: Duration = Duration::from_secs(24 * 3600);

/// How long an idempotency key is remembered at least, whatever became of its job.
pub const KEY_LIVES: Duration = Duration::from_secs(24 * 3600);

/// How many workers in a row may end with a job in their hands before they have begun to send it; then it goes to a person.
/// It bounds what a job can do that ends whoever prepares it. It is well above any `max_attempts`, because a job beside
/// such a one, or beside a machine that is short of memory, loses its worker through no fault of its own.
pub const CLAIMS_LOST_MAX: u32 = 10;

/// The name of a job: its number in the store, and a mark by which a guessed number is not a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId {
    /// Its number; a later job has a greater one.
    pub seq: u64,
    /// Drawn by chance.
    pub mark: u32,
}

/// A word that names no job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no job id; ids look like `j17-9f3ac2d1`")]
pub struct UnknownJobId(pub String);

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("j{}-{:08x}", self.seq, self.mark))
    }
}

impl FromStr for JobId {
    type Err = UnknownJobId;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (seq, mark) = word.strip_prefix('j')?.split_once('-')?;
            let digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
            if !digits(seq) || !digits(mark) || mark.len() != 8 {
                return None;
            }
            // Beyond this no store counts: rows are numbered by signed 64-bit numbers.
            let seq = seq.parse().ok().filter(|seq| i64::try_from(*seq).is_ok())?;
            Some(Self { seq, mark: u32::from_str_radix(mark, 16).ok()? })
        };
        read().ok_or_else(|| UnknownJobId(word.to_owned()))
    }
}

/// The states of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum JobState {
    /// It waits to be done.
    Queued,
    /// A worker holds it.
    Running,
    /// It is done.
    Done,
    /// The dependency said no for good.
    Failed,
    /// Its time to live was over first.
    Expired,
    /// Only a person may decide.
    ManualReview,
    /// An operator ended it.
    Cancelled,
}

impl JobState {
    /// All states, in the order of their documentation.
    pub const ALL: [Self; 7] =
        [Self::Queued, Self::Running, Self::Done, Self::Failed, Self::Expired, Self::ManualReview, Self::Cancelled];

    /// Returns the name used in `--json`, the API and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Expired => "expired",
            Self::ManualReview => "manual_review",
            Self::Cancelled => "cancelled",
        }
    }

    /// Returns whether something can still become of the job without an operator, or an operator must decide: it counts
    /// against the bounds of the queue, and later calls with its order key wait behind it.
    #[must_use]
    pub const fn is_open(self) -> bool {
        match self {
            Self::Queued | Self::Running | Self::ManualReview => true,
            Self::Done | Self::Failed | Self::Expired | Self::Cancelled => false,
        }
    }
}

impl fmt::Display for JobState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that names no state of a job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown job state `{0}`; it is one of queued, running, done, failed, expired, manual_review, cancelled")]
pub struct UnknownJobState(pub String);

impl FromStr for JobState {
    type Err = UnknownJobState;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|state| state.as_str() == word).ok_or_else(|| UnknownJobState(word.to_owned()))
    }
}

/// What makes a second execution harmless, as far as was known when the job was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Safety {
    /// The call is idempotent by its method or has no effects: doing it twice is doing it once.
    Idempotent,
    /// The dependency honours the call's idempotency key.
    Keyed {
        /// How long after the first sending it does.
        lifetime: Duration,
    },
    /// Nothing.
    Unsafe,
}

/// What was fixed when the job was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The circuit of the place that judges it; its dependency is the job's.
    pub place: CircuitId,
    /// The circuit of the account, if it is known.
    pub account: Option<CircuitId>,
    /// How long it is worth doing, from its acceptance or its last requeue.
    pub ttl: Duration,
    /// Where it goes when that is over.
    pub on_expiry: OnExpiry,
    /// What makes a second execution harmless.
    pub safety: Safety,
    /// How long it is kept once it has ended.
    pub keep: Duration,
}

impl Terms {
    /// Returns the dependency.
    #[must_use]
    pub fn dependency(&self) -> &str {
        self.place.dependency()
    }
}

/// Where an accepted job begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entrance {
    /// In the queue.
    Queue,
    /// In the queue, behind an earlier job with the same order key.
    QueueBehind,
    /// With a person: `on_open: manual_review`.
    Review(Reason),
}

/// One job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub(crate) terms: Terms,
    pub(crate) accepted_at: Timestamp,
    pub(crate) expires: Deadline,
    pub(crate) stage: Stage,
    pub(crate) grant: u64,
    pub(crate) attempts: u32,
    pub(crate) interrupted: u32,
    pub(crate) claims_lost: u32,
    pub(crate) sent: u32,
    pub(crate) may_have_run: bool,
    pub(crate) first_sent_at: Option<Timestamp>,
    pub(crate) failed_probes: u32,
    pub(crate) last: Option<LastVerdict>,
}

/// A state with what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Queued { not_before: Option<Deadline>, behind: bool },
    Running { worker: String, lease: Deadline, claimed_at: Timestamp, sending_at: Option<Timestamp> },
    Done { at: Timestamp },
    Failed { at: Timestamp, reason: Reason },
    Expired { at: Timestamp, reason: Reason },
    ManualReview { at: Timestamp, reason: Reason },
    Cancelled { at: Timestamp },
}

/// What the last attempt that was judged ended with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastVerdict {
    /// When.
    pub at: Timestamp,
    /// Its class.
    pub class: Class,
    /// The rule that spoke.
    pub rule: String,
    /// The evidence, redacted; at most 240 characters.
    pub excerpt: String,
}

/// How a job lies in the queue: what a store needs to find the next one without looking at the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shelf {
    /// It may be claimed, and may safely be repeated.
    Ready,
    /// It may be claimed, and a second time is not safe.
    ReadyOnce,
    /// It may be claimed, and has failed as a probe in this incident.
    Suspect,
    /// It may be claimed later.
    Delayed,
    /// It waits behind another job with its order key.
    Behind,
    /// It is not queued.
    Elsewhere,
}

/// What happened to a job, as its history keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: What,
    /// The state before; `None` for the acceptance.
    pub from: Option<JobState>,
    /// The state after.
    pub to: JobState,
    /// Why, where there is a choice.
    pub reason: Option<Reason>,
    /// The lease it happened under.
    pub grant: Option<u64>,
    /// Who held that.
    pub worker: Option<String>,
    /// Whether an attempt was charged.
    pub charged: bool,
    /// The class of the verdict, if there was one.
    pub class: Option<Class>,
    /// The rule that spoke, or what the evidence was.
    pub note: Option<String>,
    /// Not before then is it tried again.
    pub retry_at: Option<Timestamp>,
    /// Who did it by hand, and why.
    pub by: Option<By>,
}

/// What can happen to a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum What {
    /// It was accepted.
    Accepted,
    /// A worker took it.
    Claimed,
    /// Its attempt is about to be sent.
    Sending,
    /// It went back to the queue.
    Returned,
    /// It ended, or went to a person.
    Ended,
    /// The job before it with its order key has ended.
    Unblocked,
    /// An operator made it queued again.
    Requeued,
    /// An operator said what became of it.
    Resolved,
    /// An operator ended it.
    Cancelled,
    /// A worker that had lost its lease reported a result: evidence, and no change.
    Late,
}

impl What {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Accepted,
        Self::Claimed,
        Self::Sending,
        Self::Returned,
        Self::Ended,
        Self::Unblocked,
        Self::Requeued,
        Self::Resolved,
        Self::Cancelled,
        Self::Late,
    ];

    /// Returns the word used in histories and `--json`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Claimed => "claimed",
            Self::Sending => "sending",
            Self::Returned => "returned",
            Self::Ended => "ended",
            Self::Unblocked => "unblocked",
            Self::Requeued => "requeued",
            Self::Resolved => "resolved",
            Self::Cancelled => "cancelled",
            Self::Late => "late_result",
        }
    }
}

/// The time stated by the dependency lies beyond the time to live: queueing the call would only hide its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the dependency asks to wait {} s, the call is worth doing for {} s", wait.as_secs(), ttl.as_secs())]
pub struct BeyondTtl {
    /// The wait.
    pub wait: Duration,
    /// The time to live.
    pub ttl: Duration,
}

/// Returns how long a call of this policy is worth doing.
#[must_use]
pub fn ttl(policy: &Policy) -> Duration {
    policy.on_open.queue_ttl.unwrap_or(TTL_UNSTATED)
}

/// Answers whether a call that cannot be sent before `retry_at` is worth queueing.
///
/// # Errors
///
/// [`BeyondTtl`] if its time to live ends first.
pub fn is_worth_queueing(retry_at: Option<Timestamp>, ttl: Duration, now: Timestamp) -> Result<(), BeyondTtl> {
    match retry_at {
        Some(at) if at >= now + ttl => Err(BeyondTtl { wait: now.until(at), ttl }),
        Some(_) | None => Ok(()),
    }
}

impl Job {
    /// Accepts a job.
    #[must_use]
    pub fn accept(terms: Terms, entrance: Entrance, now: Timestamp) -> (Self, Entry) {
        let stage = match entrance {
            Entrance::Queue => Stage::Queued { not_before: None, behind: false },
            Entrance::QueueBehind => Stage::Queued { not_before: None, behind: true },
            Entrance::Review(reason) => Stage::ManualReview { at: now, reason },
        };
        let job = Self {
            expires: Deadline::after(now, terms.ttl),
            terms,
            accepted_at: now,
            stage,
            grant: 0,
            attempts: 0,
            interrupted: 0,
            claims_lost: 0,
            sent: 0,
            may_have_run: false,
            first_sent_at: None,
            failed_probes: 0,
            last: None,
        };
        let entry = job.entry(What::Accepted, None, now);
        (job, entry)
    }

    /// Returns what was fixed when it was accepted.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Returns its state.
    #[must_use]
    pub fn state(&self) -> JobState {
        match &self.stage {
            Stage::Queued { .. } => JobState::Queued,
            Stage::Running { .. } => JobState::Running,
            Stage::Done { .. } => JobState::Done,
            Stage::Failed { .. } => JobState::Failed,
            Stage::Expired { .. } => JobState::Expired,
            Stage::ManualReview { .. } => JobState::ManualReview,
            Stage::Cancelled { .. } => JobState::Cancelled,
        }
    }

    /// Returns why it is in its state, where there is a choice.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        match &self.stage {
            Stage::Failed { reason, .. } | Stage::Expired { reason, .. } | Stage::ManualReview { reason, .. } => {
                Some(*reason)
            }
            Stage::Queued { .. } | Stage::Running { .. } | Stage::Done { .. } | Stage::Cancelled { .. } => None,
        }
    }

    /// Returns when it was accepted.
    #[must_use]
    pub fn accepted_at(&self) -> Timestamp {
        self.accepted_at
    }

    /// Returns when its time to live ends or ended.
    #[must_use]
    pub fn expires_at(&self) -> Timestamp {
        self.expires.at
    }

    /// Returns not before when it is tried again, if that is set.
    #[must_use]
    pub fn not_before(&self) -> Option<Timestamp> {
        match &self.stage {
            Stage::Queued { not_before, .. } => not_before.map(|at| at.at),
            Stage::Running { .. }
            | Stage::Done { .. }
            | Stage::Failed { .. }
            | Stage::Expired { .. }
            | Stage::ManualReview { .. }
            | Stage::Cancelled { .. } => None,
        }
    }

    /// Returns who holds it, and until when unless that is renewed.
    #[must_use]
    pub fn lease(&self) -> Option<(&str, Timestamp)> {
        match &self.stage {
            Stage::Running { worker, lease, .. } => Some((worker, lease.at)),
            Stage::Queued { .. }
            | Stage::Done { .. }
            | Stage::Failed { .. }
            | Stage::Expired { .. }
            | Stage::ManualReview { .. }
            | Stage::Cancelled { .. } => None,
        }
    }

    /// Returns when it ended or went to a person.
    #[must_use]
    pub fn ended_at(&self) -> Option<Timestamp> {
        match &self.stage {
            Stage::Done { at }
            | Stage::Failed { at, .. }
            | Stage::Expired { at, .. }
            | Stage::ManualReview { at, .. }
            | Stage::Cancelled { at } => Some(*at),
            Stage::Queued { .. } | Stage::Running { .. } => None,
        }
    }

    /// Returns the number of its last lease; 0 if it was never claimed.
    #[must_use]
    pub fn grant(&self) -> u64 {
        self.grant
    }

    /// Returns how many attempts were charged since it was accepted or requeued.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Returns how many leases ended with their worker since it was accepted or requeued, sent or not.
    #[must_use]
    pub fn interrupted(&self) -> u32 {
        self.interrupted
    }

    /// Returns how many workers in a row ended with it in their hands before they had begun to send it; at most
    /// [`CLAIMS_LOST_MAX`].
    #[must_use]
    pub fn claims_lost(&self) -> u32 {
        self.claims_lost
    }

    /// Returns how often it was sent, or noted as about to be sent, in all.
    #[must_use]
    pub fn sent(&self) -> u32 {
        self.sent
    }

    /// Returns whether an attempt of it has an unknown end.
    #[must_use]
    pub fn may_have_run(&self) -> bool {
        self.may_have_run
    }

    /// Returns how often it has failed as a probe in this incident.
    #[must_use]
    pub fn failed_probes(&self) -> u32 {
        self.failed_probes
    }

    /// Returns what its last judged attempt ended with.
    #[must_use]
    pub fn last(&self) -> Option<&LastVerdict> {
        self.last.as_ref()
    }

    /// Returns how it lies in the queue.
    #[must_use]
    pub fn shelf(&self) -> Shelf {
        match &self.stage {
            Stage::Queued { behind: true, .. } => Shelf::Behind,
            Stage::Queued { not_before: Some(_), .. } => Shelf::Delayed,
            Stage::Queued { not_before: None, .. } if self.failed_probes > 0 => Shelf::Suspect,
            Stage::Queued { not_before: None, .. } => match self.terms.safety {
                Safety::Idempotent | Safety::Keyed { .. } => Shelf::Ready,
                Safety::Unsafe => Shelf::ReadyOnce,
            },
            Stage::Running { .. }
            | Stage::Done { .. }
            | Stage::Failed { .. }
            | Stage::Expired { .. }
            | Stage::ManualReview { .. }
            | Stage::Cancelled { .. } => Shelf::Elsewhere,
        }
    }

    /// Returns whether the job may be sent once more although an earlier attempt may have been executed.
    ///
    /// A key protects only within its lifetime, counted from the first sending: afterwards the dependency takes the
    /// same call for a new one.
    #[must_use]
    pub fn repeatable(&self, policy: &Policy, now: Timestamp) -> Repeatable {
        match (policy.replay, self.terms.safety) {
            (Replay::Always, _) => Repeatable::Yes,
            (Replay::Never, _) | (Replay::IfIdempotent, Safety::Unsafe) => Repeatable::No,
            (Replay::IfIdempotent, Safety::Idempotent) => Repeatable::Yes,
            (Replay::IfIdempotent, Safety::Keyed { lifetime }) => match self.first_sent_at {
                Some(first) if now >= first + lifetime => Repeatable::No,
                Some(_) | None => Repeatable::Yes,
            },
        }
    }

    /// Returns the first instant at which [`Step::PassTime`] changes something, or at which an ended job need not be
    /// kept any longer.
    #[must_use]
    pub fn next_wake(&self) -> Option<Timestamp> {
        match &self.stage {
            Stage::Queued { not_before, .. } => {
                Some(not_before.map_or(self.expires.at, |not_before| not_before.at.min(self.expires.at)))
            }
            Stage::Running { lease, .. } => Some(lease.at),
            Stage::Done { at } | Stage::Failed { at, .. } | Stage::Expired { at, .. } | Stage::Cancelled { at } => {
                Some(*at + self.terms.keep)
            }
            Stage::ManualReview { .. } => None,
        }
    }

    /// Returns whether it has ended and need not be kept any longer.
    #[must_use]
    pub fn is_prunable(&self, now: Timestamp) -> bool {
        !self.state().is_open() && self.next_wake().is_some_and(|at| at <= now)
    }

    /// Forgets that it has failed as a probe: the incident is over.
    pub fn forgive(&mut self) {
        self.failed_probes = 0;
    }

    /// Cuts deadlines that lie further ahead than they were set with, after a reboot whose wall clock was wrong. A lease
    /// of an earlier boot runs out at once: its worker is gone.
    pub fn after_reboot(&mut self, now: Timestamp) {
        self.expires.cut(now);
        match &mut self.stage {
            Stage::Queued { not_before, .. } => {
                if let Some(not_before) = not_before {
                    not_before.cut(now);
                }
            }
            Stage::Running { lease, .. } => *lease = Deadline::at(now, now),
            Stage::Done { at }
            | Stage::Failed { at, .. }
            | Stage::Expired { at, .. }
            | Stage::ManualReview { at, .. }
            | Stage::Cancelled { at } => *at = (*at).min(now),
        }
        self.first_sent_at = self.first_sent_at.map(|at| at.min(now));
    }

    /// Returns the entry of an instant that led from `from` to the state it has.
    fn entry(&self, what: What, from: Option<JobState>, now: Timestamp) -> Entry {
        Entry {
            at: now,
            what,
            from,
            to: self.state(),
            reason: self.reason(),
            grant: None,
            worker: None,
            charged: false,
            class: None,
            note: None,
            retry_at: None,
            by: None,
        }
    }
}
