//! Lists what a circuit states about itself: the only source of log lines, metrics, alerts and the journal.
//!
//! An event is a fact in the past tense, with the values a reader needs. It commits in one transaction with the state
//! it describes. The stored form is `snapshot`'s business.

use std::time::Duration;

use crate::time::Timestamp;
use crate::verdict::{Class, HintSource};

/// The state of a breaker, without its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// Traffic flows.
    Closed,
    /// Traffic is refused.
    Open,
    /// Traffic is tried.
    HalfOpen,
}

impl State {
    /// Returns the name used in `--json`, the API and metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
            Self::HalfOpen => "half_open",
        }
    }
}

/// Why a breaker opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TripReason {
    /// So many failures in the window.
    Failures {
        /// Failures counted, the last included.
        failures: u32,
        /// The class of the last one.
        last: Class,
    },
    /// The dependency stated a wait that is too long to be slept, or a usage limit without a time.
    LongWait {
        /// The class that came with it.
        class: Class,
    },
    /// A quota is exhausted.
    QuotaExhausted,
    /// A probe failed.
    ProbeFailed {
        /// How.
        class: Class,
    },
    /// A probe's process lives, but the attempt outlived its timeout.
    ProbeStalled,
    /// Probe after probe said nothing about health.
    ProbesInconclusive,
}

impl TripReason {
    /// Returns the name used in the journal and `--json`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Failures { .. } => "failures",
            Self::LongWait { .. } => "long_wait",
            Self::QuotaExhausted => "quota_exhausted",
            Self::ProbeFailed { .. } => "probe_failed",
            Self::ProbeStalled => "probe_stalled",
            Self::ProbesInconclusive => "probes_inconclusive",
        }
    }
}

/// How a probe ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// It succeeded.
    Success,
    /// It failed.
    Failure,
    /// It said nothing about health.
    Neutral,
    /// Its process is gone.
    Lost,
}

impl ProbeResult {
    /// Returns the name used in the journal and `--json`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Failure => "failure",
            Self::Neutral => "neutral",
            Self::Lost => "lost",
        }
    }
}

/// Something that happened to one circuit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When.
    pub at: Timestamp,
    /// The breaker's state before.
    pub from: State,
    /// The breaker's state after; the same unless it is a transition.
    pub to: State,
    /// The generation after.
    pub generation: u64,
    /// What.
    pub kind: EventKind,
}

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// The breaker opened.
    Tripped {
        /// Why.
        reason: TripReason,
        /// Until when.
        open_until: Timestamp,
        /// How often in a row it has opened without recovering, 0-based.
        escalation: u32,
        /// How the probe ended that opened it again, if one did.
        probe: Option<ProbeResult>,
    },
    /// The cooldown is over: probes are let through.
    HalfOpened {
        /// Who ended it by hand; `None` if its time was over.
        by: Option<By>,
    },
    /// Probes succeeded: traffic flows.
    Recovered,
    /// An operator cleared the history.
    Reset {
        /// Who and why.
        by: By,
    },
    /// The dependency asked everybody to wait.
    Throttled {
        /// Until when.
        until: Timestamp,
        /// Where that was read.
        source: HintSource,
        /// The class that came with it.
        class: Class,
        /// How many such waits in a row without a success between, 1-based.
        episode: u32,
    },
    /// A wait was stated that is longer than we believe; it was cut.
    HintCut {
        /// What was stated.
        wait: Duration,
        /// What is held.
        until: Timestamp,
    },
    /// A failure was counted.
    FailureCounted {
        /// Its class.
        class: Class,
        /// Failures in the window, this one included.
        failures: u32,
    },
    /// A probe was admitted.
    ProbeAdmitted {
        /// Probes in flight, this one included.
        in_flight: u32,
    },
    /// A probe ended.
    ProbeEnded {
        /// How.
        result: ProbeResult,
        /// With which class, unless it was lost.
        class: Option<Class>,
        /// Successes in a row so far.
        successes: u32,
    },
    /// What was held back returns.
    RampBegan {
        /// Starts per second, in thousandths.
        rate_millis: u64,
    },
    /// The ramp changed its rate.
    RampStepped {
        /// Starts per second, in thousandths.
        rate_millis: u64,
        /// Held-back calls in flight at most.
        in_flight_max: u32,
    },
    /// Nothing is held back any more.
    RampEnded,
    /// An operator holds the circuit.
    HoldPlaced {
        /// In which state.
        state: State,
        /// Until when, if it ends by itself.
        until: Option<Timestamp>,
        /// Who and why.
        by: By,
    },
    /// An operator's hold ended.
    HoldEnded {
        /// Who and why; `None` if its time was over.
        by: Option<By>,
    },
    /// A credential was refused.
    AuthFailed {
        /// How often in a row.
        in_a_row: u32,
    },
}

/// Who did something by hand, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct By {
    /// A user, or a token's name.
    pub who: String,
    /// The reason given; may be empty.
    pub reason: String,
}

impl Event {
    /// Returns whether the breaker's state changed.
    #[must_use]
    pub const fn is_transition(&self) -> bool {
        matches!(
            self.kind,
            EventKind::Tripped { .. } | EventKind::HalfOpened { .. } | EventKind::Recovered | EventKind::Reset { .. }
        )
    }
}
