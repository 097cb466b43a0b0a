//! Decides for one circuit: who may start, what a verdict changes, when time changes something.

use std::time::Duration;

use crate::chance::Chance;
use crate::event::{By, Event, State};
use crate::permit::{Admission, Ask, Permit, Refusal};
use crate::policy::Policy;
use crate::time::Timestamp;
use crate::verdict::{Class, Verdict};

/// The unit of health: a dependency, or one partition of it, with its breaker and all that stands beside it.
#[derive(Clone, Debug, PartialEq)]
pub struct Circuit {
    generation: u64,
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
    /// A probe's lease ends.
    ProbeLease,
    /// An operator's hold ends.
    HoldOver,
    /// A failure leaves the window.
    WindowMoves,
    /// The ramp steps.
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

/// What an operator sees of a circuit.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// The breaker's state; an operator's hold does not change it.
    pub state: State,
    /// Grows with every transition.
    pub generation: u64,
    /// When the cooldown ends.
    pub open_until: Option<Timestamp>,
    /// Why the breaker opened, while it is not closed.
    pub reason: Option<&'static str>,
    /// Since when it is in this state.
    pub since: Timestamp,
    /// Until when everybody was asked to wait.
    pub throttled_until: Option<Timestamp>,
    /// Failures that count at this instant.
    pub failures_in_window: u32,
    /// Live probes.
    pub probes_in_flight: u32,
    /// Successes in a row while half-open.
    pub probe_successes: u32,
    /// How often in a row it has opened without recovering.
    pub escalation: u32,
    /// An operator's hold.
    pub hold: Option<Hold>,
    /// The ramp's rate in starts per second, while one is on.
    pub ramp_per_sec: Option<f64>,
    /// Callers that wait.
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
        Self { generation: 0 }
    }

    /// Answers an ask from a snapshot, without changing it.
    #[must_use]
    pub fn peek(&self, _policy: &Policy, _ask: Ask, _now: Timestamp, _chance: Chance) -> Peek {
        unimplemented!()
    }

    /// Lets time pass, then answers an ask.
    pub fn admit(&mut self, _policy: &Policy, _ask: Ask, _now: Timestamp, _chance: Chance) -> (Admission, Vec<Event>) {
        unimplemented!()
    }

    /// Notes that a refused caller is going to wait and come back.
    pub fn hold_back(&mut self, _policy: &Policy, _now: Timestamp) -> Vec<Event> {
        unimplemented!()
    }

    /// Returns whether settling `permit` with `verdict` would change nothing, so that the store need not be touched.
    #[must_use]
    pub fn settles_for_free(&self, _policy: &Policy, _permit: &Permit, _verdict: &Verdict, _now: Timestamp) -> bool {
        unimplemented!()
    }

    /// Lets time pass, then ends the attempt that `permit` stands for.
    pub fn settle(
        &mut self,
        _policy: &Policy,
        _permit: &Permit,
        _verdict: &Verdict,
        _facts: Facts,
        _now: Timestamp,
        _chance: Chance,
    ) -> Vec<Event> {
        unimplemented!()
    }

    /// Ends the attempt that `permit` stands for without a verdict: the caller went away, our own fault, never sent.
    pub fn give_back(
        &mut self,
        _policy: &Policy,
        _permit: &Permit,
        _facts: Facts,
        _now: Timestamp,
        _chance: Chance,
    ) -> Vec<Event> {
        unimplemented!()
    }

    /// Extends a live probe's lease; returns whether the permit is still live.
    pub fn renew(&mut self, _policy: &Policy, _permit: &Permit, _now: Timestamp) -> bool {
        unimplemented!()
    }

    /// Lets time pass.
    pub fn expire(&mut self, _policy: &Policy, _facts: Facts, _now: Timestamp, _chance: Chance) -> Vec<Event> {
        unimplemented!()
    }

    /// Returns when [`Circuit::expire`] will change something, and what.
    #[must_use]
    pub fn next_wake(&self, _policy: &Policy) -> Option<Wake> {
        unimplemented!()
    }

    /// Places an operator's hold.
    pub fn hold(&mut self, _policy: &Policy, _hold: Hold, _now: Timestamp) -> Vec<Event> {
        unimplemented!()
    }

    /// Ends an operator's hold; with `probe_now` an open breaker's cooldown ends too.
    pub fn release(&mut self, _policy: &Policy, _by: By, _probe_now: bool, _now: Timestamp) -> Vec<Event> {
        unimplemented!()
    }

    /// Clears the history: closed, nothing counted, no throttle, no escalation.
    pub fn reset(&mut self, _policy: &Policy, _by: By, _now: Timestamp) -> Vec<Event> {
        unimplemented!()
    }

    /// Returns what an operator sees at `now`, without changing anything.
    #[must_use]
    pub fn status(&self, _policy: &Policy, _now: Timestamp) -> Status {
        unimplemented!()
    }

    /// Returns the generation.
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation
    }
}

impl Default for Circuit {
    fn default() -> Self {
        Self::new()
    }
}
