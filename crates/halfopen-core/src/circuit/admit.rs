//! Answers who may start: under the lock by [`Circuit::admit`], from a snapshot by [`Circuit::peek`].
//!
//! The two must agree: whatever `peek` answers is what `admit` would answer, and `admit` would change nothing that
//! others must see. Where that is not so, `peek` says so, and the caller asks again under the lock.

use std::time::Duration;

use super::{Circuit, Peek};
use crate::breaker::{Breaker, Probe};
use crate::chance::Chance;
use crate::event::{Event, EventKind, State};
use crate::permit::{Admission, Ask, Permit, PermitId, PermitKind, Refusal, RefusalReason, Slot};
use crate::policy::Policy;
use crate::ramp::{HeldBack, Turn};
use crate::time::Timestamp;

/// How long after its timeout an attempt may still report: time for the signal, the grace and the kill.
const REPORTS_WITHIN: Duration = Duration::from_secs(60);

/// How long a permit lasts where the policy states no timeout: longer than any pack's default.
const PERMIT_LONGEST: Duration = Duration::from_secs(24 * 3600);

/// Who paces a caller that was held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pacing {
    /// This circuit's ramp.
    Own,
    /// The ramp of the other circuit that judges the call; this one only counts.
    Other,
}

impl Circuit {
    /// Answers an ask from a snapshot, without changing it.
    #[must_use]
    pub fn peek(&self, policy: &Policy, ask: Ask, now: Timestamp, chance: Chance) -> Peek {
        if self.next_wake(policy).is_some_and(|wake| wake.at <= now) {
            return Peek::MustLock;
        }
        if let Some(refusal) = self.plain_refusal(policy, now) {
            return Peek::Refused(refusal);
        }
        let kind = if self.hold.is_some() { PermitKind::Held } else { PermitKind::Regular };
        let waited = match ask {
            Ask::Fresh | Ask::Job => false,
            Ask::Waited(_) => true,
        };
        if kind == PermitKind::Held {
            let counted = waited && self.waiting > 0;
            return if counted { Peek::MustLock } else { Peek::Granted(self.permit(policy, kind, now, chance)) };
        }
        match (&self.breaker, &self.ramp, ask) {
            (Breaker::Open(_) | Breaker::HalfOpen(_), _, _) => Peek::MustLock,
            // A closed circuit that neither throttle nor ramp holds back counts nobody who waits.
            (Breaker::Closed, _, Ask::Fresh) | (Breaker::Closed, None, Ask::Waited(_) | Ask::Job) => {
                Peek::Granted(self.permit(policy, kind, now, chance))
            }
            (Breaker::Closed, Some(ramp), Ask::Waited(Some(slot))) => match ramp.early(slot, now) {
                Some(Turn::Later(at, slot)) => Peek::Refused(ramp_refusal(at, slot)),
                Some(Turn::Now) | None => Peek::MustLock,
            },
            (Breaker::Closed, Some(_), Ask::Waited(None) | Ask::Job) => Peek::MustLock,
        }
    }

    /// Lets time pass, then answers an ask.
    pub fn admit(&mut self, policy: &Policy, ask: Ask, now: Timestamp, chance: Chance) -> (Admission, Vec<Event>) {
        let mut events = self.pass_time(policy, None, now);
        let admission = self.answer(policy, ask, Pacing::Own, now, chance, &mut events);
        (admission, events)
    }

    /// Answers an ask at an instant up to which time has already passed.
    pub(crate) fn answer(
        &mut self,
        policy: &Policy,
        ask: Ask,
        pacing: Pacing,
        now: Timestamp,
        chance: Chance,
        events: &mut Vec<Event>,
    ) -> Admission {
        if let Some(refusal) = self.plain_refusal(policy, now) {
            return Admission::Refused(refusal);
        }
        let admission = if self.hold.is_some() {
            Admission::Granted(self.permit(policy, PermitKind::Held, now, chance))
        } else {
            match self.breaker {
                Breaker::Closed => self.answer_closed(policy, ask, pacing, now, chance),
                Breaker::HalfOpen(_) => Admission::Granted(self.probe(policy, now, chance, events)),
                // Time has passed, so an open breaker was refused above.
                Breaker::Open(_) => Admission::Refused(Refusal::new(RefusalReason::Open, None)),
            }
        };
        // A caller that shows the other ramp's slot was counted there.
        if let (Admission::Granted(_), Ask::Waited(_), Pacing::Own) = (&admission, ask, pacing) {
            self.waiting = self.waiting.saturating_sub(1);
            self.end_ramp_if_nothing_is_held(now, events);
        }
        admission
    }

    /// Returns the refusal that needs no change: held, open, throttled, or all probes out.
    fn plain_refusal(&self, policy: &Policy, now: Timestamp) -> Option<Refusal> {
        let Some(hold) = &self.hold else { return self.breaker_refusal(policy, now) };
        match hold.state {
            State::Closed => None,
            State::Open | State::HalfOpen => {
                let ends = hold.until.map(|until| until.at);
                let beyond = self.breaker_refusal(policy, now).and_then(|refusal| refusal.retry_at);
                let retry_at = ends.map(|ends| beyond.map_or(ends, |beyond| ends.max(beyond)));
                Some(Refusal::new(RefusalReason::Held, retry_at))
            }
        }
    }

    /// Returns the refusal of breaker and throttle.
    fn breaker_refusal(&self, policy: &Policy, now: Timestamp) -> Option<Refusal> {
        if let Some(throttle) = self.throttle
            && !throttle.is_over(now)
        {
            return Some(Refusal::new(RefusalReason::Throttled, Some(throttle.at)));
        }
        match &self.breaker {
            Breaker::Closed => None,
            Breaker::Open(open) => {
                (!open.until.is_over(now)).then(|| Refusal::new(RefusalReason::Open, Some(open.until.at)))
            }
            Breaker::HalfOpen(half) => (!half.has_room(&policy.circuit)).then(|| {
                let retry_at = half.first_end().map(|(_, at, _)| at);
                Refusal::new(RefusalReason::ProbesOut, retry_at)
            }),
        }
    }

    /// Answers an ask while nothing keeps anybody out; those who were held back take their turn.
    fn answer_closed(
        &mut self,
        policy: &Policy,
        ask: Ask,
        pacing: Pacing,
        now: Timestamp,
        chance: Chance,
    ) -> Admission {
        let mut permit = self.permit(policy, PermitKind::Regular, now, chance);
        let who = match ask {
            Ask::Fresh => return Admission::Granted(permit),
            Ask::Waited(slot) => HeldBack::Caller(slot),
            Ask::Job => HeldBack::Job,
        };
        let Some(ramp) = &mut self.ramp else { return Admission::Granted(permit) };
        let turn = match pacing {
            Pacing::Own => ramp.turn(who, now),
            Pacing::Other => {
                ramp.started_elsewhere(now);
                Turn::Now
            }
        };
        match turn {
            Turn::Later(at, slot) => Admission::Refused(ramp_refusal(at, slot)),
            Turn::Now => {
                ramp.track(permit.id, policy.circuit.lease, now);
                permit.ramped = true;
                Admission::Granted(permit)
            }
        }
    }

    /// Admits a probe; there is room for one.
    fn probe(&mut self, policy: &Policy, now: Timestamp, chance: Chance, events: &mut Vec<Event>) -> Permit {
        let mut permit = self.permit(policy, PermitKind::Probe, now, chance);
        if let Breaker::HalfOpen(half) = &mut self.breaker {
            // Identities are random; two of 64 bits that are alike would share one slot.
            while half.probes.iter().any(|probe| probe.id == permit.id) {
                permit.id = PermitId(permit.id.0.wrapping_add(1));
            }
            let probe = Probe::new(permit.id, policy, now);
            permit.expires_at = probe.lease.at;
            half.probes.push(probe);
            let in_flight = u32::try_from(half.probes.len()).unwrap_or(u32::MAX);
            events.push(self.event(now, EventKind::ProbeAdmitted { in_flight }));
        }
        permit
    }

    /// Returns a permit of this instant.
    fn permit(&self, policy: &Policy, kind: PermitKind, now: Timestamp, chance: Chance) -> Permit {
        Permit {
            id: PermitId(chance.bits()),
            kind,
            generation: self.generation,
            admitted_at: now,
            expires_at: now + regular_permit_lasts(policy),
            ramped: false,
        }
    }

    /// Notes that a refused caller is going to wait and come back: once for each caller, not for each of its waits.
    ///
    /// It is counted until it is admitted, so that what was held back returns paced. One that never comes back is
    /// forgotten by the ramp's own rule. A caller that finds the circuit already free again begins a ramp: others who
    /// were refused in the same moment are on their way.
    pub fn hold_back(&mut self, policy: &Policy, now: Timestamp) -> Vec<Event> {
        let mut events = self.pass_time(policy, None, now);
        self.waiting = self.waiting.saturating_add(1);
        if let Some(ramp) = &mut self.ramp {
            // One that nobody has asked for a while would forget this caller before it can come back.
            ramp.note_asked(now);
        }
        if matches!(self.breaker, Breaker::Closed) && self.throttle.is_none() && self.ramp.is_none() {
            self.begin_ramp(policy, 0, now, &mut events);
        }
        events
    }

    /// Returns whether `slot` belongs to the schedule that this circuit's ramp has.
    pub(crate) fn honours(&self, slot: Slot) -> bool {
        self.ramp.as_ref().is_some_and(|ramp| ramp.schedule == slot.schedule)
    }

    /// Returns whether `permit` would still count at `now`: of this generation, and not expired or lost.
    #[must_use]
    pub fn is_live(&self, permit: &Permit, now: Timestamp) -> bool {
        match permit.kind {
            PermitKind::Held => now < permit.expires_at,
            PermitKind::Regular => permit.generation == self.generation && now < permit.expires_at,
            PermitKind::Probe => match &self.breaker {
                Breaker::Closed | Breaker::Open(_) => false,
                Breaker::HalfOpen(half) => {
                    permit.generation == self.generation
                        && half.probes.iter().any(|probe| probe.id == permit.id && now < probe.end().0)
                }
            },
        }
    }

    /// Extends the lease of a live probe, or of a start the ramp counts; returns whether the permit is still live.
    ///
    /// A surface renews while the attempt's process lives and, where it can see that, makes progress. It renews at a
    /// third of the lease.
    pub fn renew(&mut self, policy: &Policy, permit: &Permit, now: Timestamp) -> bool {
        if !self.is_live(permit, now) {
            return false;
        }
        if let Breaker::HalfOpen(half) = &mut self.breaker
            && let Some(probe) = half.probes.iter_mut().find(|probe| probe.id == permit.id)
        {
            probe.lease = probe.lease.extended(now, now + policy.circuit.probe_lease);
        }
        if permit.ramped
            && let Some(ramp) = &mut self.ramp
        {
            ramp.renew(permit.id, policy.circuit.lease, now);
        }
        true
    }
}

/// Returns how long a permit that is not a probe's lasts.
pub(super) fn regular_permit_lasts(policy: &Policy) -> Duration {
    policy.timeout.map_or(PERMIT_LONGEST, |timeout| timeout.saturating_add(REPORTS_WITHIN))
}

/// Returns the refusal of somebody whose turn it is not.
fn ramp_refusal(at: Timestamp, slot: Option<Slot>) -> Refusal {
    Refusal { reason: RefusalReason::Ramp, retry_at: Some(at), slot }
}
