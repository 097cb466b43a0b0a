//! Settles probes: successes in a row close the breaker, one failure opens it again.

use super::effect::Effect;
use super::pass::Trip;
use super::settle::Settling;
use super::{Circuit, Facts};
use crate::breaker::Breaker;
use crate::chance::Chance;
use crate::event::{Event, EventKind, ProbeResult, TripReason};
use crate::policy::{NEUTRAL_PROBES_MAX, Policy};
use crate::throttle::Believed;
use crate::time::Timestamp;
use crate::verdict::Class;

impl Circuit {
    pub(super) fn settle_probe(
        &mut self,
        settling: &Settling<'_>,
        effect: Effect,
        index: usize,
        events: &mut Vec<Event>,
    ) {
        let Settling { policy, verdict, facts, now, chance, .. } = *settling;
        match effect {
            Effect::Success => self.succeed_probe(policy, index, facts, now, events),
            Effect::Neutral => self.neutral_probe(policy, index, Some(verdict.class), now, chance, events),
            Effect::Auth => {
                self.note_failure(settling, effect);
                self.count_auth(now, events);
                self.neutral_probe(policy, index, Some(verdict.class), now, chance, events);
            }
            Effect::Failure | Effect::Quota => {
                // The probe itself goes with the half-open state, which this ends.
                if let Breaker::HalfOpen(half) = &self.breaker {
                    let (successes, class) = (half.successes, Some(verdict.class));
                    let ended = EventKind::ProbeEnded { result: ProbeResult::Failure, class, successes };
                    events.push(self.event(now, ended));
                }
                self.fail_probing(settling, effect, events);
            }
        }
    }

    /// HalfOpen → HalfOpen or Closed: a probe succeeded.
    pub(super) fn succeed_probe(
        &mut self,
        policy: &Policy,
        index: usize,
        facts: Facts,
        now: Timestamp,
        events: &mut Vec<Event>,
    ) {
        let Breaker::HalfOpen(half) = &mut self.breaker else { return };
        half.probes.remove(index);
        half.successes = half.successes.saturating_add(1);
        half.neutral_in_a_row = 0;
        let successes = half.successes;
        self.auth_in_a_row = 0;
        self.probe_succeeded = true;
        events.push(self.event(
            now,
            EventKind::ProbeEnded { result: ProbeResult::Success, class: Some(Class::Success), successes },
        ));
        if successes >= policy.circuit.close_after_successes.get() {
            self.recover(policy, facts, now, events);
        }
    }

    /// HalfOpen → HalfOpen or Open: a probe said nothing about health.
    pub(super) fn neutral_probe(
        &mut self,
        policy: &Policy,
        index: usize,
        class: Option<Class>,
        now: Timestamp,
        chance: Chance,
        events: &mut Vec<Event>,
    ) {
        let Breaker::HalfOpen(half) = &mut self.breaker else { return };
        half.probes.remove(index);
        half.neutral_in_a_row = half.neutral_in_a_row.saturating_add(1);
        let (neutral, successes) = (half.neutral_in_a_row, half.successes);
        let result = ProbeResult::Neutral;
        events.push(self.event(now, EventKind::ProbeEnded { result, class, successes }));
        if neutral >= NEUTRAL_PROBES_MAX {
            let trip = Trip { hint_until: None, probe: Some(result) };
            self.trip(policy, TripReason::ProbesInconclusive, trip, now, chance, events);
        }
    }

    /// HalfOpen → Open: the dependency is not well yet.
    pub(super) fn fail_probing(&mut self, settling: &Settling<'_>, effect: Effect, events: &mut Vec<Event>) {
        let Settling { policy, verdict, facts, now, chance, .. } = *settling;
        self.note_failure(settling, effect);
        self.jobs_held = facts.jobs_queued;
        let Breaker::HalfOpen(half) = &self.breaker else { return };
        let reason = if effect == Effect::Quota {
            // A round that follows upon an exhausted quota doubles its cooldown; another history does not.
            if half.reason == TripReason::QuotaExhausted {
                self.escalation.quota_rounds = self.escalation.quota_rounds.saturating_add(1);
            }
            TripReason::QuotaExhausted
        } else {
            TripReason::ProbeFailed { class: verdict.class }
        };
        self.escalation.rounds = self.escalation.rounds.saturating_add(1);
        let believed = Believed::from_verdict(policy, verdict, now);
        self.push_hint_cut(believed.as_ref(), now, events);
        let hint_until = believed.map(|hint| hint.until);
        let trip = Trip { hint_until, probe: Some(ProbeResult::Failure) };
        self.trip(policy, reason, trip, now, chance, events);
    }
}
