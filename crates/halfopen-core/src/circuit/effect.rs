//! Says what a verdict does to a circuit, in one table that holds in every state alike: what does not count while the
//! breaker is closed is neutral while it is half-open.

use crate::policy::Policy;
use crate::verdict::{About, Class, Verdict};

/// What a verdict does to the circuit it is settled on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// It is a success.
    Success,
    /// It is a failure.
    Failure,
    /// It opens the breaker at once.
    Quota,
    /// It says nothing about health, but counts against the credential.
    Auth,
    /// It says nothing about health.
    Neutral,
}

impl Effect {
    /// Returns what `verdict` does.
    pub(super) fn of(policy: &Policy, verdict: &Verdict) -> Self {
        let effect = match verdict.class {
            Class::Success => return Self::Success,
            Class::UnknownFailure if policy.circuit.count_unclassified => return Self::Failure,
            Class::RateLimited
            | Class::Overloaded
            | Class::UsageLimit
            | Class::Timeout
            | Class::ConnectionFailure
            | Class::ServerError => Self::Failure,
            Class::QuotaExhausted => Self::Quota,
            Class::Auth => Self::Auth,
            Class::InvalidRequest | Class::UnknownFailure => Self::Neutral,
        };
        match verdict.about {
            About::Place | About::Account => effect,
            About::Caller | About::Nobody => Self::Neutral,
        }
    }
}
