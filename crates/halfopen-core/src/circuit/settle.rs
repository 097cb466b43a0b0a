//! Ends attempts: finds out what a permit is still worth, and hands its verdict to the state it belongs to.
//!
//! A verdict on a permit of the closed breaker is `closed`'s business, one of a probe is `probing`'s. What comes too
//! late is settled here.

use super::effect::Effect;
use super::pass::Trip;
use super::{Circuit, Facts};
use crate::breaker::Breaker;
use crate::chance::Chance;
use crate::event::{Event, TripReason};
use crate::permit::{Permit, PermitKind};
use crate::policy::Policy;
use crate::throttle::{Believed, Episode};
use crate::time::Timestamp;
use crate::verdict::{Class, Verdict};

/// What a permit is worth at the time it is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// Granted by a hold: its verdict is only noted.
    Held,
    /// Of another generation, expired, or lost.
    Stale,
    /// Of the closed breaker.
    Regular,
    /// A probe in flight, by its place in the list.
    Probe(usize),
    /// A probe that was judged early as a success and goes on, while the breaker is still half-open.
    JudgedEarly,
}

/// What every step of a settlement needs.
pub(super) struct Settling<'a> {
    pub(super) policy: &'a Policy,
    pub(super) permit: &'a Permit,
    pub(super) verdict: &'a Verdict,
    pub(super) facts: Facts,
    pub(super) now: Timestamp,
    pub(super) chance: Chance,
}

impl Circuit {
    /// Returns whether settling `permit` with `verdict` would change nothing, so that the store need not be touched.
    #[must_use]
    pub fn settles_for_free(&self, policy: &Policy, permit: &Permit, verdict: &Verdict, now: Timestamp) -> bool {
        if self.next_wake(policy).is_some_and(|wake| wake.at <= now) {
            return false;
        }
        let effect = Effect::of(policy, verdict);
        match self.standing(permit, now) {
            Standing::Held => effect == Effect::Success || effect == Effect::Neutral,
            Standing::Stale => match effect {
                Effect::Success | Effect::Auth | Effect::Neutral => true,
                Effect::Failure => verdict.hint.is_none(),
                Effect::Quota => false,
            },
            Standing::Probe(_) => false,
            Standing::JudgedEarly => effect == Effect::Success || effect == Effect::Neutral,
            Standing::Regular => match effect {
                Effect::Success => !permit.ramped && !self.success_clears(permit),
                Effect::Neutral => !permit.ramped,
                Effect::Failure | Effect::Quota | Effect::Auth => false,
            },
        }
    }

    /// Returns whether a success of a regular permit has something to clear or to note.
    fn success_clears(&self, permit: &Permit) -> bool {
        self.auth_in_a_row > 0
            || self.episode_ended_by(permit).is_some()
            || self.ramp.as_ref().is_some_and(|ramp| !ramp.succeeded)
    }

    /// Returns the episode that a success of `permit` ends: one that the attempt was admitted after.
    pub(super) fn episode_ended_by(&self, permit: &Permit) -> Option<Episode> {
        self.episode.filter(|episode| episode.in_a_row > 0 && !episode.includes(permit.admitted_at))
    }

    /// Lets time pass, then ends the attempt that `permit` stands for.
    pub fn settle(
        &mut self,
        policy: &Policy,
        permit: &Permit,
        verdict: &Verdict,
        facts: Facts,
        now: Timestamp,
        chance: Chance,
    ) -> Vec<Event> {
        let mut events = self.pass_time(policy, Some(facts), now);
        let settling = Settling { policy, permit, verdict, facts, now, chance };
        let effect = Effect::of(policy, verdict);
        match self.standing(permit, now) {
            Standing::Held => self.note_failure(&settling, effect),
            Standing::Stale => self.settle_stale(&settling, effect, &mut events),
            Standing::Regular => self.settle_regular(&settling, effect, &mut events),
            Standing::Probe(index) => self.settle_probe(&settling, effect, index, &mut events),
            Standing::JudgedEarly => match effect {
                Effect::Success | Effect::Neutral => {}
                Effect::Auth => self.count_auth(now, &mut events),
                Effect::Failure | Effect::Quota => self.fail_probing(&settling, effect, &mut events),
            },
        }
        events
    }

    /// Judges long work early as a success: the first good event of a stream, a minute of an agent's run.
    ///
    /// Returns the permit under which the attempt goes on: a later failure of it is one new failure, a later success
    /// nothing. A permit that no longer counts stays one that does not.
    pub fn settle_early(
        &mut self,
        policy: &Policy,
        permit: &Permit,
        facts: Facts,
        now: Timestamp,
    ) -> (Permit, Vec<Event>) {
        let mut events = self.pass_time(policy, Some(facts), now);
        let mut further = permit.clone();
        match self.standing(permit, now) {
            Standing::Held | Standing::Stale | Standing::JudgedEarly => {}
            Standing::Regular => self.succeed_regular(policy, permit, now, &mut events),
            Standing::Probe(index) => {
                self.succeed_probe(policy, index, facts, now, &mut events);
                further.kind = PermitKind::Regular;
                further.generation = self.generation;
                further.expires_at = permit.expires_at.max(now + super::admit::regular_permit_lasts(policy));
            }
        }
        (further, events)
    }

    /// Ends the attempt that `permit` stands for without a verdict: the caller went away, our own fault, never sent.
    pub fn give_back(
        &mut self,
        policy: &Policy,
        permit: &Permit,
        facts: Facts,
        now: Timestamp,
        chance: Chance,
    ) -> Vec<Event> {
        self.settle_neutral(policy, permit, None, facts, now, chance)
    }

    /// Ends an attempt whose verdict, if there is one, is about somebody else.
    pub(crate) fn settle_neutral(
        &mut self,
        policy: &Policy,
        permit: &Permit,
        class: Option<Class>,
        facts: Facts,
        now: Timestamp,
        chance: Chance,
    ) -> Vec<Event> {
        let mut events = self.pass_time(policy, Some(facts), now);
        match self.standing(permit, now) {
            Standing::Held | Standing::Stale | Standing::JudgedEarly => {}
            Standing::Regular => self.leave_ramp(permit, facts, now, &mut events),
            Standing::Probe(index) => self.neutral_probe(policy, index, class, now, chance, &mut events),
        }
        events
    }

    /// Returns whether ending `permit` neutrally would change nothing.
    pub(crate) fn neutral_is_free(&self, policy: &Policy, permit: &Permit, now: Timestamp) -> bool {
        let due = self.next_wake(policy).is_some_and(|wake| wake.at <= now);
        let touches = match self.standing(permit, now) {
            Standing::Held | Standing::Stale | Standing::JudgedEarly => false,
            Standing::Regular => permit.ramped,
            Standing::Probe(_) => true,
        };
        !due && !touches
    }

    fn standing(&self, permit: &Permit, now: Timestamp) -> Standing {
        match (permit.kind, &self.breaker) {
            (PermitKind::Held, _) => Standing::Held,
            _ if permit.generation != self.generation => Standing::Stale,
            (PermitKind::Regular, _) if permit.expires_at <= now => Standing::Stale,
            (PermitKind::Regular, Breaker::Closed) => Standing::Regular,
            (PermitKind::Regular, Breaker::HalfOpen(_)) => Standing::JudgedEarly,
            (PermitKind::Probe, Breaker::HalfOpen(half)) => {
                let place = half.probes.iter().position(|probe| probe.id == permit.id);
                place.map_or(Standing::Stale, Standing::Probe)
            }
            (PermitKind::Regular, Breaker::Open(_)) | (PermitKind::Probe, Breaker::Closed | Breaker::Open(_)) => {
                Standing::Stale
            }
        }
    }

    /// A late verdict: only its hint and an exhausted quota count.
    fn settle_stale(&mut self, settling: &Settling<'_>, effect: Effect, events: &mut Vec<Event>) {
        let Settling { policy, verdict, now, chance, .. } = *settling;
        match effect {
            Effect::Success | Effect::Auth | Effect::Neutral => {}
            Effect::Failure => {
                if let Some(believed) = Believed::from_verdict(policy, verdict, now) {
                    self.note_failure(settling, effect);
                    self.hold_all_until(&believed, verdict.class, now, events);
                }
            }
            Effect::Quota => {
                self.note_failure(settling, effect);
                let believed = Believed::from_verdict(policy, verdict, now);
                let known = match &self.breaker {
                    Breaker::Open(open) => open.reason == TripReason::QuotaExhausted,
                    Breaker::Closed | Breaker::HalfOpen(_) => false,
                };
                // The herd that met the exhausted quota together says it once.
                if !known {
                    let trip = Trip { hint_until: believed.as_ref().map(|hint| hint.until), probe: None };
                    self.jobs_held = settling.facts.jobs_queued;
                    self.trip(policy, TripReason::QuotaExhausted, trip, now, chance, events);
                } else if let Some(believed) = believed {
                    self.hold_all_until(&believed, verdict.class, now, events);
                }
            }
        }
    }
}
