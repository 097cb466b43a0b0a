//! Lists why a call was not kept for later, and what is told about it.
//!
//! A call that was not kept leaves the turn to the next action of `on_open`. If there is none, the caller is told why: a
//! queue or a disk that is full, and a store that cannot be written, are answers of their own.

use halfopen::handle::jobs::EnqueueError;
use halfopen::store::StoreError;
use halfopen_core::job::BeyondTtl;

use super::super::problem::Kind;

/// Why a call was not stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::serve) enum NotKept {
    /// It carries a secret of the caller in this field or parameter, and secrets are not stored.
    Secret(String),
    /// Its body is longer than is kept.
    TooLong(u64),
    /// Its body did not come to its end, or has trailers.
    Incomplete,
    /// It would expire before it could be sent.
    BeyondTtl(BeyondTtl),
    /// There are as many jobs, or as many bytes, as the policy allows.
    Full(String),
    /// The disk is full.
    StorageFull,
    /// The store cannot make it durable.
    NotDurable(String),
}

impl NotKept {
    /// Returns why a store did not take a call; what is no reason of that kind is given back.
    pub(in crate::serve) fn of(error: EnqueueError) -> Result<Self, EnqueueError> {
        match error {
            EnqueueError::KeyTaken(_) => Err(error),
            EnqueueError::TooManyJobs { .. } | EnqueueError::TooManyBytes { .. } => Ok(Self::Full(error.to_string())),
            EnqueueError::BeyondTtl(beyond) => Ok(Self::BeyondTtl(beyond)),
            EnqueueError::Store(StoreError::Full { .. }) => Ok(Self::StorageFull),
            other => Ok(Self::NotDurable(other.to_string())),
        }
    }

    /// Returns the kind of an answer that is given because of it; `None` if the refusal itself says more.
    pub(in crate::serve) const fn kind(&self) -> Option<Kind> {
        match self {
            Self::Full(_) => Some(Kind::QueueFull),
            Self::StorageFull => Some(Kind::StorageFull),
            Self::NotDurable(_) => Some(Kind::NotDurable),
            Self::Secret(_) | Self::TooLong(_) | Self::Incomplete | Self::BeyondTtl(_) => None,
        }
    }

    /// Returns it as a word that scripts may read.
    pub(in crate::serve) const fn word(&self) -> &'static str {
        match self {
            Self::Secret(_) => "caller_secret",
            Self::TooLong(_) => "body_too_long",
            Self::Incomplete => "body_incomplete",
            Self::BeyondTtl(_) => "hint_beyond_ttl",
            Self::Full(_) => "queue_full",
            Self::StorageFull => "storage_full",
            Self::NotDurable(_) => "not_durable",
        }
    }

    /// Returns it as a sentence of an answer.
    pub(in crate::serve) fn sentence(&self) -> String {
        match self {
            Self::Secret(place) => format!(
                "It was not queued, because it carries a secret in `{place}` and secrets are not stored; name one under \
                 `credentials` in the policy."
            ),
            Self::TooLong(max) => format!("It was not queued, because its body is longer than {max} bytes."),
            Self::Incomplete => "It was not queued, because its body did not arrive whole.".to_owned(),
            Self::BeyondTtl(beyond) => format!("It was not queued: {beyond}."),
            Self::Full(why) => format!("It was not queued: {why}."),
            Self::StorageFull => "It was not queued, because the disk of the store is full.".to_owned(),
            Self::NotDurable(why) => format!("It was not queued, because it cannot be made durable: {why}."),
        }
    }
}
