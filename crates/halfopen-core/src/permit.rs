//! Holds what the door answers: a permit for one attempt now, or a refusal with its reason and its end.
//!
//! A permit carries the generation it was granted in, so that a late result can be told from a current one, and an
//! expiry, so that nobody waits for ever for an attempt whose process is gone.

use std::time::Duration;

use crate::time::Timestamp;

/// Who asks for a permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A call that has not been held back.
    Fresh,
    /// A caller that was refused, waited, and asks again; with the start slot it was given, if any.
    Waited(Option<Slot>),
    /// A stored job.
    Job,
}

/// Which of the circuits that judge a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The place: the dependency, or its region.
    Place,
    /// The account: the credential, or the model.
    Account,
}

/// A place in the ramp: the instant at which a held-back caller may start, while the ramp it was given in lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Whose ramp it belongs to; a slot says nothing to the other circuit of a call.
    pub side: Side,
    /// The start.
    pub at: Timestamp,
    /// Which schedule of the ramp it belongs to; a new schedule voids older slots.
    pub schedule: u64,
}

/// The identity of a permit that the circuit keeps track of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PermitId(pub u64);

/// The right to one attempt now.
#[must_use = "a permit that is dropped without being settled keeps a probe's slot until its lease ends"]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permit {
    /// Its identity; random, so that two processes never share one.
    pub id: PermitId,
    /// What it is for.
    pub kind: PermitKind,
    /// The circuit's generation when it was granted.
    pub generation: u64,
    /// When it was granted.
    pub admitted_at: Timestamp,
    /// When it ends unless it is renewed.
    pub expires_at: Timestamp,
    /// Whether it took a start slot of the ramp, which bounds how many such are in flight.
    pub ramped: bool,
}

impl Permit {
    /// Returns the permit of an attempt that was made although its circuit would have refused it (`mode: observe`): one
    /// that is over already, so what comes of it counts as late.
    pub fn unheeded(now: Timestamp) -> Self {
        let (id, kind) = (PermitId(0), PermitKind::Regular);
        Self { id, kind, generation: 0, admitted_at: now, expires_at: now, ramped: false }
    }
}

/// What a permit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PermitKind {
    /// An attempt through a closed breaker.
    Regular,
    /// An attempt through a half-open breaker; its verdict decides.
    Probe,
    /// An attempt that an operator's hold lets through, whatever the breaker says.
    Held,
}

/// Why a call was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusalReason {
    /// The breaker is open.
    Open,
    /// The breaker is half-open and its probes are out.
    ProbesOut,
    /// The dependency asked everybody to wait.
    Throttled,
    /// What was held back returns one by one; this is not its turn.
    Ramp,
    /// An operator holds the circuit open.
    Held,
}

impl RefusalReason {
    /// Returns the name used in reports, metrics and problem documents.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::ProbesOut => "probes_out",
            Self::Throttled => "throttled",
            Self::Ramp => "ramp",
            Self::Held => "held",
        }
    }
}

/// A no: why, and until when as far as is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Why.
    pub reason: RefusalReason,
    /// The earliest instant at which asking again can help; `None` if only an operator can.
    pub retry_at: Option<Timestamp>,
    /// The start slot that was set aside for this caller, to be shown when it asks again.
    pub slot: Option<Slot>,
}

impl Refusal {
    /// Returns a refusal without a slot.
    pub(crate) const fn new(reason: RefusalReason, retry_at: Option<Timestamp>) -> Self {
        Self { reason, retry_at, slot: None }
    }

    /// Returns how long the refusal lasts from `now`, if that is known.
    #[must_use]
    pub fn wait(&self, now: Timestamp) -> Option<Duration> {
        self.retry_at.map(|at| now.until(at))
    }
}

/// The door's answer.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Go.
    Granted(Permit),
    /// Do not go.
    Refused(Refusal),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports, metrics and problem documents say these words; callers branch on them.
    #[test]
    fn every_reason_has_its_word() {
        use RefusalReason::{Held, Open, ProbesOut, Ramp, Throttled};
        let words = [Open, ProbesOut, Throttled, Ramp, Held].map(RefusalReason::as_str);
        assert_eq!(words, ["open", "probes_out", "throttled", "ramp", "held"]);
    }

    #[test]
    fn a_refusal_lasts_from_now_to_its_end() {
        let now = Timestamp::from_millis(1_000);
        let refusal = |retry_at| Refusal::new(RefusalReason::Open, retry_at);
        assert_eq!(refusal(Some(now + Duration::from_secs(9))).wait(now), Some(Duration::from_secs(9)));
        assert_eq!(refusal(Some(now)).wait(now + Duration::from_secs(1)), Some(Duration::ZERO));
        assert_eq!(refusal(None).wait(now), None);
    }
}
