//! The stored form of a job and of the entries of its history, form 1.
//!
//! What is at its default is left out. Instants are milliseconds of the steady clock; a deadline is the pair
//! `[at, lasting]`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{SnapshotError, malformed};
use crate::circuit_id::CircuitId;
use crate::event::By;
use crate::job::{Entry, Job, JobState, LastVerdict, Reason, Safety, Stage, Terms, What};
use crate::policy::OnExpiry;
use crate::time::{Deadline, Timestamp, millis};
use crate::verdict::Class;

/// The form that is written.
const FORM: u32 = 1;

type StoredDeadline = (i64, u64);

#[derive(Serialize, Deserialize)]
struct StoredJob {
    form: u32,
    accepted: i64,
    ttl_ms: u64,
    expires: StoredDeadline,
    on_expiry: String,
    keep_ms: u64,
    safety: StoredSafety,
    stage: StoredStage,
    #[serde(default, skip_serializing_if = "is_default")]
    grant: u64,
    #[serde(default, skip_serializing_if = "is_default")]
    attempts: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    interrupted: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    claims_lost: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    sent: u32,
    #[serde(default, skip_serializing_if = "is_default")]
    may_have_run: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    first_sent: Option<i64>,
    #[serde(default, skip_serializing_if = "is_default")]
    failed_probes: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last: Option<StoredVerdict>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredSafety {
    Idempotent,
    Keyed { lifetime_ms: u64 },
    Unsafe,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StoredStage {
    Queued {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        not_before: Option<StoredDeadline>,
        #[serde(default, skip_serializing_if = "is_default")]
        behind: bool,
    },
    Running {
        worker: String,
        lease: StoredDeadline,
        claimed: i64,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sending: Option<i64>,
    },
    Done {
        at: i64,
    },
    Failed {
        at: i64,
        reason: String,
    },
    Expired {
        at: i64,
        reason: String,
    },
    ManualReview {
        at: i64,
        reason: String,
    },
    Cancelled {
        at: i64,
    },
}

#[derive(Serialize, Deserialize)]
struct StoredVerdict {
    at: i64,
    class: String,
    rule: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    excerpt: String,
}

#[derive(Serialize, Deserialize)]
struct StoredEntry {
    at: i64,
    what: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    to: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    grant: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    worker: Option<String>,
    #[serde(default, skip_serializing_if = "is_default")]
    charged: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    class: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    note: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_at: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    by: Option<(String, String)>,
}

/// Returns the stored form of a job, without the names of its circuits, which a store keeps apart: one JSON object.
///
/// # Panics
///
/// Never: the stored form has no map keys and no numbers that JSON cannot carry.
#[must_use]
pub fn encode_job(job: &Job) -> String {
    let stored = StoredJob {
        form: FORM,
        accepted: job.accepted_at.as_millis(),
        ttl_ms: millis(job.terms.ttl),
        expires: deadline_of(job.expires),
        on_expiry: match job.terms.on_expiry {
            OnExpiry::ManualReview => "manual_review".to_owned(),
            OnExpiry::Expired => "expired".to_owned(),
        },
        keep_ms: millis(job.terms.keep),
        safety: match job.terms.safety {
            Safety::Idempotent => StoredSafety::Idempotent,
            Safety::Keyed { lifetime } => StoredSafety::Keyed { lifetime_ms: millis(lifetime) },
            Safety::Unsafe => StoredSafety::Unsafe,
        },
        stage: stage_of(&job.stage),
        grant: job.grant,
        attempts: job.attempts,
        interrupted: job.interrupted,
        claims_lost: job.claims_lost,
        sent: job.sent,
        may_have_run: job.may_have_run,
        first_sent: job.first_sent_at.map(Timestamp::as_millis),
        failed_probes: job.failed_probes,
        last: job.last.as_ref().map(|last| StoredVerdict {
            at: last.at.as_millis(),
            class: last.class.as_str().to_owned(),
            rule: last.rule.clone(),
            excerpt: last.excerpt.clone(),
        }),
    };
    serde_json::to_string(&stored).expect("plain structs of numbers and strings are always JSON")
}

/// Reads a stored job, which the named circuits judge.
///
/// # Errors
///
/// [`SnapshotError::Newer`] if a newer version wrote it, [`SnapshotError::Malformed`] if nobody of ours did.
pub fn decode_job(text: &str, place: CircuitId, account: Option<CircuitId>) -> Result<Job, SnapshotError> {
    let stored = super::read_form(text, |stored: &StoredJob| stored.form, FORM)?;
    let on_expiry = match stored.on_expiry.as_str() {
        "manual_review" => OnExpiry::ManualReview,
        "expired" => OnExpiry::Expired,
        other => return Err(SnapshotError::Malformed(format!("unknown expiry `{other}`"))),
    };
    let safety = match stored.safety {
        StoredSafety::Idempotent => Safety::Idempotent,
        StoredSafety::Keyed { lifetime_ms } => Safety::Keyed { lifetime: Duration::from_millis(lifetime_ms) },
        StoredSafety::Unsafe => Safety::Unsafe,
    };
    let last = stored.last.map(|last| {
        Ok::<_, SnapshotError>(LastVerdict {
            at: at(last.at),
            class: class(&last.class)?,
            rule: last.rule,
            excerpt: last.excerpt,
        })
    });
    Ok(Job {
        terms: Terms {
            place,
            account,
            ttl: Duration::from_millis(stored.ttl_ms),
            on_expiry,
            safety,
            keep: Duration::from_millis(stored.keep_ms),
        },
        accepted_at: at(stored.accepted),
        expires: deadline(stored.expires),
        stage: stage(stored.stage)?,
        grant: stored.grant,
        attempts: stored.attempts,
        interrupted: stored.interrupted,
        claims_lost: stored.claims_lost,
        sent: stored.sent,
        may_have_run: stored.may_have_run,
        first_sent_at: stored.first_sent.map(at),
        failed_probes: stored.failed_probes,
        last: last.transpose()?,
    })
}

/// Returns the stored form of an entry of a job's history.
///
/// # Panics
///
/// Never, as [`encode_job`].
#[must_use]
pub fn encode_entry(entry: &Entry) -> String {
    let stored = StoredEntry {
        at: entry.at.as_millis(),
        what: entry.what.as_str().to_owned(),
        from: entry.from.map(|state| state.as_str().to_owned()),
        to: entry.to.as_str().to_owned(),
        reason: entry.reason.map(|reason| reason.as_str().to_owned()),
        grant: entry.grant,
        worker: entry.worker.clone(),
        charged: entry.charged,
        class: entry.class.map(|class| class.as_str().to_owned()),
        note: entry.note.clone(),
        retry_at: entry.retry_at.map(Timestamp::as_millis),
        by: entry.by.as_ref().map(|by| (by.who.clone(), by.reason.clone())),
    };
    serde_json::to_string(&stored).expect("plain structs of numbers and strings are always JSON")
}

/// Reads a stored entry.
///
/// # Errors
///
/// [`SnapshotError::Malformed`] if nobody of ours wrote it.
pub fn decode_entry(text: &str) -> Result<Entry, SnapshotError> {
    let stored: StoredEntry = serde_json::from_str(text).map_err(malformed)?;
    let what = What::ALL
        .into_iter()
        .find(|what| what.as_str() == stored.what)
        .ok_or_else(|| SnapshotError::Malformed(format!("unknown entry `{}`", stored.what)))?;
    Ok(Entry {
        at: at(stored.at),
        what,
        from: stored.from.as_deref().map(state).transpose()?,
        to: state(&stored.to)?,
        reason: stored.reason.as_deref().map(reason).transpose()?,
        grant: stored.grant,
        worker: stored.worker,
        charged: stored.charged,
        class: stored.class.as_deref().map(class).transpose()?,
        note: stored.note,
        retry_at: stored.retry_at.map(at),
        by: stored.by.map(|(who, reason)| By { who, reason }),
    })
}

fn stage_of(stage: &Stage) -> StoredStage {
    match stage {
        Stage::Queued { not_before, behind } => {
            StoredStage::Queued { not_before: not_before.map(deadline_of), behind: *behind }
        }
        Stage::Running { worker, lease, claimed_at, sending_at } => StoredStage::Running {
            worker: worker.clone(),
            lease: deadline_of(*lease),
            claimed: claimed_at.as_millis(),
            sending: sending_at.map(Timestamp::as_millis),
        },
        Stage::Done { at } => StoredStage::Done { at: at.as_millis() },
        Stage::Failed { at, reason } => StoredStage::Failed { at: at.as_millis(), reason: reason.as_str().to_owned() },
        Stage::Expired { at, reason } => {
            StoredStage::Expired { at: at.as_millis(), reason: reason.as_str().to_owned() }
        }
        Stage::ManualReview { at, reason } => {
            StoredStage::ManualReview { at: at.as_millis(), reason: reason.as_str().to_owned() }
        }
        Stage::Cancelled { at } => StoredStage::Cancelled { at: at.as_millis() },
    }
}

fn stage(stored: StoredStage) -> Result<Stage, SnapshotError> {
    Ok(match stored {
        StoredStage::Queued { not_before, behind } => Stage::Queued { not_before: not_before.map(deadline), behind },
        StoredStage::Running { worker, lease, claimed, sending } => {
            Stage::Running { worker, lease: deadline(lease), claimed_at: at(claimed), sending_at: sending.map(at) }
        }
        StoredStage::Done { at: ms } => Stage::Done { at: at(ms) },
        StoredStage::Failed { at: ms, reason: word } => Stage::Failed { at: at(ms), reason: reason(&word)? },
        StoredStage::Expired { at: ms, reason: word } => Stage::Expired { at: at(ms), reason: reason(&word)? },
        StoredStage::ManualReview { at: ms, reason: word } => {
            Stage::ManualReview { at: at(ms), reason: reason(&word)? }
        }
        StoredStage::Cancelled { at: ms } => Stage::Cancelled { at: at(ms) },
    })
}

fn reason(word: &str) -> Result<Reason, SnapshotError> {
    word.parse().map_err(malformed)
}

fn state(word: &str) -> Result<JobState, SnapshotError> {
    word.parse().map_err(malformed)
}

fn class(word: &str) -> Result<Class, SnapshotError> {
    word.parse().map_err(malformed)
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn deadline_of(deadline: Deadline) -> StoredDeadline {
    (deadline.at.as_millis(), deadline.lasting_ms)
}

fn deadline((at_ms, lasting_ms): StoredDeadline) -> Deadline {
    Deadline { at: at(at_ms), lasting_ms }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
