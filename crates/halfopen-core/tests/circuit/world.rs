//! A small virtual world: one circuit, its policy and its clock, so that tests read as scenarios and hours pass in
//! microseconds.

use std::time::Duration;

use halfopen_core::chance::Chance;
use halfopen_core::circuit::{Circuit, Facts, Status};
use halfopen_core::event::{By, Event, EventKind, State};
use halfopen_core::outcome::Reached;
use halfopen_core::permit::{Admission, Ask, Permit, Refusal, RefusalReason};
use halfopen_core::policy::{Policy, Surface};
use halfopen_core::time::Timestamp;
use halfopen_core::verdict::{Class, Hint, HintSource, Scope, Verdict};

/// When every story begins.
pub(crate) const DAWN: i64 = 1_700_000_000_000;

/// One circuit and its surroundings.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) policy: Policy,
    pub(crate) circuit: Circuit,
    pub(crate) now: Timestamp,
    pub(crate) jobs: u64,
    pub(crate) seen: Vec<Event>,
    draws: u64,
}

impl World {
    /// A world with the policy of the documentation's example: 5 failures in 60 s, open 120 s, 2 probes, 2 successes.
    pub(crate) fn ocr() -> Self {
        Self::with(|policy| policy.timeout = Some(secs(8)))
    }

    /// A world with the example's policy, changed.
    pub(crate) fn with(change: impl FnOnce(&mut Policy)) -> Self {
        let mut policy = Policy::built_in("ocr", Surface::Serve);
        change(&mut policy);
        let now = Timestamp::from_millis(DAWN);
        Self { policy, circuit: Circuit::new(), now, jobs: 0, seen: Vec::new(), draws: 0 }
    }

    /// Lets the clock run on.
    pub(crate) fn wait(&mut self, wait: Duration) -> &mut Self {
        self.now = self.now + wait;
        self
    }

    /// Moves the clock to `at`.
    pub(crate) fn wait_until(&mut self, at: Timestamp) -> &mut Self {
        assert!(at >= self.now, "the clock runs forward");
        self.now = at;
        self
    }

    pub(crate) fn chance(&mut self) -> Chance {
        self.draws += 1;
        Chance::from_seed(self.draws)
    }

    pub(crate) fn facts(&self) -> Facts {
        Facts { jobs_queued: self.jobs }
    }

    fn note(&mut self, events: Vec<Event>) -> Vec<Event> {
        self.seen.extend(events.iter().cloned());
        events
    }

    pub(crate) fn ask(&mut self, ask: Ask) -> Result<Permit, Refusal> {
        let chance = self.chance();
        let (admission, events) = self.circuit.admit(&self.policy, ask, self.now, chance);
        self.note(events);
        match admission {
            Admission::Granted(permit) => Ok(permit),
            Admission::Refused(refusal) => Err(refusal),
        }
    }

    /// Asks for a fresh call, which must be admitted.
    pub(crate) fn admit(&mut self) -> Permit {
        match self.ask(Ask::Fresh) {
            Ok(permit) => permit,
            Err(refusal) => panic!("refused at {:?}: {refusal:?}", self.now),
        }
    }

    /// Asks for a fresh call, which must be refused.
    pub(crate) fn refused(&mut self) -> Refusal {
        match self.ask(Ask::Fresh) {
            Ok(permit) => panic!("admitted at {:?}: {permit:?}", self.now),
            Err(refusal) => refusal,
        }
    }

    pub(crate) fn hold_back(&mut self, callers: u32) {
        for _ in 0..callers {
            let events = self.circuit.hold_back(&self.policy, self.now);
            self.note(events);
        }
    }

    pub(crate) fn settle(&mut self, permit: &Permit, verdict: &Verdict) -> Vec<Event> {
        let (facts, chance) = (self.facts(), self.chance());
        let events = self.circuit.settle(&self.policy, permit, verdict, facts, self.now, chance);
        self.note(events)
    }

    pub(crate) fn settle_early(&mut self, permit: &Permit) -> Permit {
        let (permit, events) = self.circuit.settle_early(&self.policy, permit, self.facts(), self.now);
        self.note(events);
        permit
    }

    pub(crate) fn give_back(&mut self, permit: &Permit) -> Vec<Event> {
        let (facts, chance) = (self.facts(), self.chance());
        let events = self.circuit.give_back(&self.policy, permit, facts, self.now, chance);
        self.note(events)
    }

    pub(crate) fn renew(&mut self, permit: &Permit) -> bool {
        self.circuit.renew(&self.policy, permit, self.now)
    }

    pub(crate) fn expire(&mut self) -> Vec<Event> {
        let events = self.circuit.expire(&self.policy, self.facts(), self.now);
        self.note(events)
    }

    pub(crate) fn reset(&mut self) {
        let events = self.circuit.reset(&self.policy, by(), self.now);
        self.note(events);
    }

    pub(crate) fn hold(&mut self, state: State, lasting: Option<Duration>) {
        let until = lasting.map(|lasting| self.now + lasting);
        let hold = halfopen_core::circuit::Hold { state, until, by: by() };
        let events = self.circuit.hold(&self.policy, hold, self.now);
        self.note(events);
    }

    pub(crate) fn release(&mut self, probe_now: bool) {
        let events = self.circuit.release(&self.policy, by(), probe_now, self.now);
        self.note(events);
    }

    pub(crate) fn status(&self) -> Status {
        self.circuit.status(&self.policy, self.now)
    }

    pub(crate) fn state(&self) -> State {
        self.status().state
    }

    /// Lets one fresh call start and end with `verdict` at once.
    pub(crate) fn call(&mut self, verdict: &Verdict) -> Vec<Event> {
        let permit = self.admit();
        self.settle(&permit, verdict)
    }

    /// Makes the breaker open by failures, and returns until when.
    pub(crate) fn trip(&mut self) -> Timestamp {
        for _ in 0..self.policy.circuit.open_after_failures.get() {
            self.call(&failure(Class::ServerError));
        }
        assert_eq!(self.state(), State::Open);
        self.status().open_until.expect("an open breaker has an end")
    }

    /// Lets the cooldown pass.
    pub(crate) fn cool_down(&mut self) {
        let until = self.status().open_until.expect("the breaker is open");
        self.wait_until(until);
    }

    /// How often an event of a kind was seen.
    pub(crate) fn seen(&self, is: impl Fn(&EventKind) -> bool) -> usize {
        self.seen.iter().filter(|event| is(&event.kind)).count()
    }

    pub(crate) fn trips(&self) -> usize {
        self.seen(|kind| matches!(kind, EventKind::Tripped { .. }))
    }
}

pub(crate) fn by() -> By {
    By { who: "ops".into(), reason: "a test".into() }
}

pub(crate) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(crate) fn success() -> Verdict {
    Verdict::plain(Class::Success, "test/success", Reached::Answered)
}

pub(crate) fn failure(class: Class) -> Verdict {
    Verdict::plain(class, "test/failure", Reached::Answered)
}

/// A verdict of `class` with a wait that is counted from `now`.
pub(crate) fn hinted(class: Class, now: Timestamp, wait: Duration) -> Verdict {
    let hint = Hint { until: now + wait, wait, source: HintSource::RetryAfter, scope: Scope::Whole };
    Verdict { hint: Some(hint), ..Verdict::plain(class, "test/hinted", Reached::Refused) }
}

pub(crate) fn reason(refusal: &Refusal) -> RefusalReason {
    refusal.reason
}
