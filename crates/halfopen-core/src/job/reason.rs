//! Lists why a job is where it is, in words that stay.

use std::fmt;
use std::str::FromStr;

/// Why a job ended, went to a person, or went back to the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The lease of its worker ran out.
    WorkerDied,
    /// Its worker shut down while it ran.
    Shutdown,
    /// Its worker could not start it: the worker's own fault, such as a missing variable or executable.
    NotStarted,
    /// It may have been executed, and nothing says that a second time is safe.
    UnknownEnd,
    /// Its attempt showed work that a second run would repeat.
    WorkShown,
    /// Its time to live is over.
    TtlOver,
    /// The dependency stated a time that lies beyond its time to live.
    HintBeyondTtl,
    /// Its attempts are used up.
    AttemptsUsed,
    /// One worker after the other ended with it in their hands, before they had begun to send it.
    ClaimsLost,
    /// Waiting does not heal what it failed with.
    Permanent,
    /// The dependency said not to try again.
    Forbidden,
    /// It failed in a way that waiting heals.
    Healing,
    /// The policy sends such calls to a person at once.
    Policy,
    /// An operator did it.
    Operator,
}

impl Reason {
    /// All reasons.
    pub const ALL: [Self; 14] = [
        Self::WorkerDied,
        Self::Shutdown,
        Self::NotStarted,
        Self::UnknownEnd,
        Self::WorkShown,
        Self::TtlOver,
        Self::HintBeyondTtl,
        Self::AttemptsUsed,
        Self::ClaimsLost,
        Self::Permanent,
        Self::Forbidden,
        Self::Healing,
        Self::Policy,
        Self::Operator,
    ];

    /// Returns the word used in the store, `--json` and the API.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::WorkerDied => "worker_died",
            Self::Shutdown => "interrupted_by_shutdown",
            Self::NotStarted => "not_started",
            Self::UnknownEnd => "unknown_end",
            Self::WorkShown => "work_shown",
            Self::TtlOver => "ttl_over",
            Self::HintBeyondTtl => "hint_beyond_ttl",
            Self::AttemptsUsed => "attempts_used",
            Self::ClaimsLost => "claims_lost",
            Self::Permanent => "permanent",
            Self::Forbidden => "forbidden",
            Self::Healing => "healing",
            Self::Policy => "policy",
            Self::Operator => "operator",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// A word that names no reason.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown reason `{0}`")]
pub struct UnknownReason(pub String);

impl FromStr for Reason {
    type Err = UnknownReason;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL.into_iter().find(|reason| reason.as_str() == word).ok_or_else(|| UnknownReason(word.to_owned()))
    }
}
