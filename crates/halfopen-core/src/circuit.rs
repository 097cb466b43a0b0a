//! Decides for one circuit: who may start, what a verdict changes, when time changes something.
//!
//! A circuit is a value. Every method that changes it first lets time pass up to `now`: what was due happens in its
//! order and is dated with the instant at which it was due, so that a circuit nobody has looked at for a week and one
//! that was watched every second are the same. No timer has to run.
//!
//! The parts: `breaker` (states and cooldowns), `window` (failures that count), `throttle` (hints that hold everybody),
//! `ramp` (the return of what was held back). This file names what the outside sees; the ways a
//! circuit changes are `admit`, `settle` (with `effect`, `closed`, `probing`), `pass` for time and `operate` for people.
//!
//! Rules that the parts do not show:
//! - The generation grows on trip, half-open, recover and reset. A permit of another generation is *stale*: it changes
//!   nothing, except that its hint still holds everybody and that an exhausted quota still opens the breaker.
//! - An open breaker has no throttle: when it opens, a longer throttle becomes its cooldown, and later hints extend
//!   that.
//! - Callers that wait are counted as long as there is something to wait for. A closed circuit without throttle and
//!   ramp counts nobody.
//!
//! What a circuit does not do: it knows no other circuit (`pair` does), no jobs beyond their number, and no store.

mod admit;
mod settle;
mod effect;
mod closed;
mod probing;
mod pass;
mod operate;

pub(crate) use admit::Pacing;

use std::time::Duration;

use crate::breaker::{Breaker, Escalation};
use crate::event::{By, Event, EventKind, State};
use crate::permit::{Permit, Refusal};
use crate::policy::Policy;
use crate::ramp::Ramp;
use crate::throttle::{Episode, Throttle};
use crate::time::{Deadline, Timestamp};
use crate::verdict::Class;
use crate::window::Window;

/// How many refused credentials in a row pause the jobs.
const AUTH_PAUSES_JOBS: u32 = 3;

/// How long the jobs of a refused credential pause before one of them tries again.
const AUTH_PAUSE: Duration = Duration::from_secs(600);

/// The unit of health: a dependency, or one partition of it, with its breaker and all that stands beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circuit {
    pub(crate) generation: u64,
    pub(crate) since: Timestamp,
    pub(crate) breaker: Breaker,
    pub(crate) window: Window,
    pub(crate) escalation: Escalation,
    pub(crate) throttle: Option<Throttle>,
    pub(crate) episode: Option<Episode>,
    pub(crate) ramp: Option<Ramp>,
    /// The number of the last schedule a ramp had; never used twice, so that old slots stay void.
    pub(crate) schedule: u64,
    pub(crate) waiting: u32,
    /// Jobs that were queued when that last mattered.
    pub(crate) jobs_held: u64,
    pub(crate) auth_in_a_row: u32,
    /// Whether a probe has succeeded since the breaker left closed.
    pub(crate) probe_succeeded: bool,
    pub(crate) hold: Option<Held>,
    pub(crate) last_failure: Option<LastFailure>,
}

/// A hold with the deadline behind its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    pub(crate) state: State,
    pub(crate) until: Option<Deadline>,
    pub(crate) by: By,
}

impl Held {
    /// Returns the hold as the outside sees it.
    fn shown(&self) -> Hold {
        Hold { state: self.state, until: self.until.map(|until| until.at), by: self.by.clone() }
    }
}

/// What the caller knows beside the verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Jobs of this circuit that wait to be done.
    pub jobs_queued: u64,
}

/// What can be said about an ask without changing anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peek {
    /// It is granted, and granting it changes nothing that others must see.
    Granted(Permit),
    /// It is refused, and refusing it changes nothing.
    Refused(Refusal),
    /// The circuit must be changed to answer: ask again under the store's lock.
    MustLock,
}

/// When and why time alone will change something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// The first instant at which [`Circuit::expire`] changes anything.
    pub at: Timestamp,
    /// What it will be.
    pub reason: WakeReason,
}

/// What time will change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WakeReason {
    /// The cooldown is over.
    CooldownOver,
    /// A throttle is over.
    ThrottleOver,
    /// A probe's lease ends, or its attempt should be over.
    ProbeLease,
    /// An operator's hold ends.
    HoldOver,
    /// The ramp steps up, rests, or ends.
    RampStep,
    /// Escalation is forgotten.
    EscalationForgotten,
}

/// The last failure a circuit saw, for `why` and for errors that must name their cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastFailure {
    /// When it was settled.
    pub at: Timestamp,
    /// Its class.
    pub class: Class,
    /// The rule that spoke.
    pub rule: String,
    /// Where the evidence stood.
    pub place: String,
    /// The evidence, redacted.
    pub excerpt: String,
    /// The wait that was stated.
    pub hint_wait: Option<Duration>,
    /// The `split_by` key that would have told apart what the hint covers, if the policy does not split by it.
    pub narrower: Option<String>,
}

/// What an operator sees of a circuit: what is true at the instant it was asked for, not what was last written.
///
/// A breaker whose cooldown is over shows as half-open without probes, whether or not anybody has called since; a
/// remaining time is therefore never negative.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The breaker's state at this instant; an operator's hold does not change it.
    pub state: State,
    /// Grows with every transition.
    pub generation: u64,
    /// When the cooldown ends; always in the future.
    pub open_until: Option<Timestamp>,
    /// Why the breaker opened, while it is not closed.
    pub reason: Option<&'static str>,
    /// Since when it is in this state.
    pub since: Timestamp,
    /// Until when everybody was asked to wait; always in the future.
    pub throttled_until: Option<Timestamp>,
    /// Failures that count at this instant.
    pub failures_in_window: u32,
    /// Live probes.
    pub probes_in_flight: u32,
    /// Successes in a row while half-open.
    pub probe_successes: u32,
    /// How many rounds of probes have failed since that was last forgotten.
    pub escalation: u32,
    /// An operator's hold.
    pub hold: Option<Hold>,
    /// The ramp's rate in starts per second, while one is on.
    pub ramp_per_sec: Option<f64>,
    /// Callers that wait, as far as is known.
    pub waiting: u32,
    /// The last failure.
    pub last_failure: Option<LastFailure>,
}

/// An operator's hold: a field beside the state, never a state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    /// `Open` refuses everybody, `Closed` admits everybody; never `HalfOpen`.
    pub state: State,
    /// When it ends by itself.
    pub until: Option<Timestamp>,
    /// Who placed it, and why.
    pub by: By,
}

impl Circuit {
    /// Returns a circuit about which nothing is known: closed, generation 0.
    #[must_use]
    pub fn new() -> Self {
        Self {
            generation: 0,
            since: Timestamp::default(),
            breaker: Breaker::Closed,
            window: Window::default(),
            escalation: Escalation::default(),
            throttle: None,
            episode: None,
            ramp: None,
            schedule: 0,
            waiting: 0,
            jobs_held: 0,
            auth_in_a_row: 0,
            probe_succeeded: false,
            hold: None,
            last_failure: None,
        }
    }

    /// Returns the generation.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns whether a probe has succeeded in this incident: since the breaker left closed.
    #[must_use]
    pub fn probe_succeeded(&self) -> bool {
        self.probe_succeeded
    }

    /// Returns until when the jobs of this circuit pause because its credential was refused three times in a row.
    ///
    /// From then on one of them may try, so that a repaired credential is noticed without anybody's help.
    #[must_use]
    pub fn jobs_paused_until(&self) -> Option<Timestamp> {
        let failure = self.last_failure.as_ref().filter(|failure| failure.class == Class::Auth)?;
        (self.auth_in_a_row >= AUTH_PAUSES_JOBS).then(|| failure.at + AUTH_PAUSE)
    }

    /// Returns what an operator sees at `now`, without changing anything.
    #[must_use]
    pub fn status(&self, policy: &Policy, now: Timestamp) -> Status {
        let mut then = self.clone();
        let facts = Facts { jobs_queued: self.jobs_held };
        let _ = then.pass_time(policy, Some(facts), now);
        let (open_until, reason, probes_in_flight, probe_successes) = match &then.breaker {
            Breaker::Closed => (None, None, 0, 0),
            Breaker::Open(open) => (Some(open.until.at), Some(open.reason.as_str()), 0, 0),
            Breaker::HalfOpen(half) => {
                let in_flight = u32::try_from(half.probes.len()).unwrap_or(u32::MAX);
                (None, Some(half.reason.as_str()), in_flight, half.successes)
            }
        };
        Status {
            state: then.breaker.state(),
            generation: then.generation,
            open_until,
            reason,
            since: then.since,
            throttled_until: then.throttle.map(|throttle| throttle.at),
            failures_in_window: then.window.count(&policy.circuit, now),
            probes_in_flight,
            probe_successes,
            escalation: then.escalation.rounds,
            hold: then.hold.as_ref().map(Held::shown),
            ramp_per_sec: then.ramp.as_ref().map(|ramp| per_sec(ramp.rate_millis)),
            waiting: then.waiting,
            last_failure: then.last_failure,
        }
    }

    /// Returns whether the circuit says nothing that a new one would not say, so that its record may be dropped to keep
    /// the number of records bounded.
    ///
    /// A new record starts at generation 0, so permits of the dropped one are stale in it: their failures do not count.
    /// A store drops only records that nobody has used for longer than an attempt lasts.
    #[must_use]
    pub fn is_blank(&self, policy: &Policy, now: Timestamp) -> bool {
        matches!(self.breaker, Breaker::Closed)
            && self.window.count(&policy.circuit, now) == 0
            && self.escalation.rounds == 0
            && self.throttle.is_none()
            && self.ramp.is_none()
            && self.episode.is_none_or(|episode| episode.in_a_row == 0)
            && self.auth_in_a_row == 0
            && self.hold.is_none()
    }

    /// Returns an event of this instant that is no transition.
    fn event(&self, at: Timestamp, kind: EventKind) -> Event {
        self.event_from(self.breaker.state(), at, kind)
    }

    /// Returns an event that led from `from` to the state the breaker has.
    fn event_from(&self, from: State, at: Timestamp, kind: EventKind) -> Event {
        Event { at, from, to: self.breaker.state(), generation: self.generation, kind }
    }

    /// Returns a schedule number that was never used.
    fn next_schedule(&mut self) -> u64 {
        self.schedule = self.schedule.wrapping_add(1);
        self.schedule
    }
}

impl Default for Circuit {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns a rate in starts per second for display.
#[expect(clippy::cast_precision_loss, reason = "rates stay far below 2^53 thousandths")]
fn per_sec(rate_millis: u64) -> f64 {
    rate_millis as f64 / 1000.0
}
